/*
 * Goal: each job is run, handed back or refused, exactly one of them, under every policy; the
 * watchdog tells once of each that is over its budget; nobody wakes for nothing. Method: jobs that
 * wait at a gate, so that the queue is as full as the test needs it; threads that submit, take and
 * stop at random moments, and a tally for each job.
 */
#include "allocator_oracle.h"
#include "conformance_oracle.h"
#include "seed.h"

#include <tickwheel/executor.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tw_executor *executor_new(struct tw_executor_options options)
{
    struct tw_executor *executor = tw_executor_create(&options);

    assert_non_null(executor);
    return executor;
}

static struct tw_executor_stats stats_of(struct tw_executor *executor)
{
    struct tw_executor_stats stats;

    tw_executor_check(executor);
    tw_executor_get_stats(executor, &stats);
    return stats;
}

/* Holds whoever comes until it is opened. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
    atomic_uint passed;
};

#define GATE_CLOSED                                                            \
    {                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
    }

static void gate_pass(void *argument)
{
    struct gate *gate = argument;

    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    atomic_fetch_add(&gate->passed, 1);
}

static void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void count(void *argument)
{
    atomic_fetch_add((atomic_uint *)argument, 1);
}

/* Waits until so many run, at the gate, and so many are queued. */
static void wait_until(struct tw_executor *executor, size_t running, size_t queued)
{
    for (;;) {
        struct tw_executor_stats stats = stats_of(executor);
        if (stats.running == running && stats.queued == queued)
            return;
        sched_yield();
    }
}

/* The example of the header. */

static atomic_uint hung_up;
static unsigned forgotten, postponed;

static void hang_up(void *connection)
{
    (void)connection;
    atomic_fetch_add(&hung_up, 1);
}

static void *connection_of(uint64_t data)
{
    return (void *)(uintptr_t)data;
}

static void try_again_later(const struct tw_job *job)
{
    postponed += job->run == hang_up;
}

static void forget(const struct tw_job *job)
{
    forgotten += job->run == hang_up;
}

static void the_example_of_the_header(void **state)
{
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    uint64_t now = 10;
    (void)state;

    for (uint64_t i = 0; i < 50; i++)
        assert_true(tw_wheel_schedule(wheel, i % 10, i) != TW_NONE);

    struct tw_executor *executor = tw_executor_create(
        &(struct tw_executor_options){.thread_count = 4, .when_full = TW_FULL_REFUSE});

    struct tw_expired due[64];
    struct tw_job jobs[64];
    size_t n = tw_wheel_expire(wheel, now, due, 64);
    for (size_t i = 0; i < n; i++)
        jobs[i] = (struct tw_job){.run = hang_up, .argument = connection_of(due[i].data)};
    size_t taken = tw_executor_submit(executor, jobs, n);
    for (size_t i = taken; i < n; i++)
        try_again_later(&jobs[i]);

    tw_executor_stop(executor); // what runs ends, what waits does not begin
    while ((n = tw_executor_take(executor, jobs, 64)) > 0)
        for (size_t i = 0; i < n; i++)
            forget(&jobs[i]);
    tw_executor_destroy(executor);
    assert_int_equal(hung_up + forgotten + postponed, 50);
    assert_int_equal(postponed, 0);
    tw_wheel_destroy(wheel);
    tw_executor_destroy(NULL);
}

struct executor_place {
    atomic_uint *next;
    unsigned at;
};

static void take_place(void *argument)
{
    struct executor_place *place = argument;

    place->at = atomic_fetch_add(place->next, 1);
}

static void one_thread_runs_in_order_round_and_round_the_queue(void **state)
{
    struct tw_executor *executor = executor_new(
        (struct tw_executor_options){.queue_count_max = 7, .when_full = TW_FULL_BLOCK});
    static struct executor_place places[1000];
    struct tw_job jobs[10];
    atomic_uint next = 0;
    (void)state;

    for (size_t i = 0; i < 1000; i += 10) {
        for (size_t j = 0; j < 10; j++) {
            places[i + j] = (struct executor_place){.next = &next};
            jobs[j] = (struct tw_job){take_place, &places[i + j]};
        }
        assert_int_equal(tw_executor_submit(executor, jobs, 10), 10);
    }
    tw_executor_drain(executor);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(places[i].at, i);
    assert_int_equal(stats_of(executor).done_count, 1000);
    assert_int_equal(tw_executor_submit(executor, jobs, 1), 0); /* it has ended */
    assert_int_equal(stats_of(executor).refused_count, 1);
    tw_executor_destroy(executor);
}

static void a_full_queue_refuses_and_delays_nobody(void **state)
{
    struct tw_executor *executor = executor_new((struct tw_executor_options){.queue_count_max = 4});
    struct gate gate = GATE_CLOSED;
    struct tw_job jobs[10];
    (void)state;

    for (size_t i = 0; i < 10; i++)
        jobs[i] = (struct tw_job){gate_pass, &gate};
    assert_int_equal(tw_executor_submit(executor, jobs, 1), 1);
    wait_until(executor, 1, 0);
    assert_int_equal(tw_executor_submit(executor, jobs, 10), 4);
    for (unsigned tick = 0; tick < 1000; tick++) /* the clock goes on */
        assert_int_equal(tw_executor_submit(executor, jobs, 1), 0);
    assert_int_equal(stats_of(executor).refused_count, 1006);
    gate_open(&gate);
    tw_executor_drain(executor);
    assert_int_equal(gate.passed, 5);
    assert_int_equal(stats_of(executor).submitted_count, 5);
    tw_executor_destroy(executor);
}

struct who {
    pthread_t thread;
    atomic_uint count;
};

static void note_who(void *argument)
{
    struct who *who = argument;

    if (pthread_equal(pthread_self(), who->thread))
        atomic_fetch_add(&who->count, 1);
}

static void a_full_queue_has_the_caller_run_jobs(void **state)
{
    struct tw_executor *executor =
        executor_new((struct tw_executor_options){.queue_count_max = 4, .when_full = TW_FULL_RUN});
    struct gate gate = GATE_CLOSED;
    struct who who = {.thread = pthread_self()};
    struct tw_job jobs[10];
    (void)state;

    assert_int_equal(tw_executor_submit(executor, &(struct tw_job){gate_pass, &gate}, 1), 1);
    wait_until(executor, 1, 0);
    for (size_t i = 0; i < 10; i++)
        jobs[i] = (struct tw_job){note_who, &who};
    assert_int_equal(tw_executor_submit(executor, jobs, 10), 10);
    assert_int_equal(who.count, 6);
    assert_int_equal(stats_of(executor).caller_count, 6);
    assert_int_equal(stats_of(executor).done_count, 6);
    gate_open(&gate);
    tw_executor_drain(executor);
    assert_int_equal(who.count, 6);
    assert_int_equal(stats_of(executor).done_count, 11);
    tw_executor_destroy(executor);
}

struct submission {
    struct tw_executor *executor;
    struct tw_job *jobs;
    size_t count;
    size_t taken;
    atomic_bool is_over;
    pthread_t thread;
};

static void *submit(void *argument)
{
    struct submission *submission = argument;

    submission->taken =
        tw_executor_submit(submission->executor, submission->jobs, submission->count);
    atomic_store(&submission->is_over, true);
    return NULL;
}

static void a_full_queue_blocks_until_there_is_room(void **state)
{
    (void)state;
    for (size_t queue_size = 1; queue_size <= 4; queue_size++) {
        struct tw_executor *executor = executor_new((struct tw_executor_options){
            .queue_count_max = queue_size, .when_full = TW_FULL_BLOCK});
        struct gate gate = GATE_CLOSED;
        struct tw_job jobs[20];
        struct submission submission = {.executor = executor, .jobs = jobs, .count = 20};
        for (size_t i = 0; i < 20; i++)
            jobs[i] = (struct tw_job){gate_pass, &gate};
        pthread_create(&submission.thread, NULL, submit, &submission);
        wait_until(executor, 1, queue_size);
        assert_false(submission.is_over);
        gate_open(&gate);
        pthread_join(submission.thread, NULL);
        assert_int_equal(submission.taken, 20);
        tw_executor_drain(executor);
        assert_int_equal(gate.passed, 20);
        tw_executor_destroy(executor);
    }
}

static void *stop(void *argument)
{
    tw_executor_stop(argument);
    return NULL;
}

/* Also: stop wakes who is blocked, waits for what runs, and begins nothing more. */
static void stop_hands_back_what_did_not_run(void **state)
{
    struct tw_executor *executor = executor_new(
        (struct tw_executor_options){.queue_count_max = 5, .when_full = TW_FULL_BLOCK});
    struct gate gate = GATE_CLOSED;
    struct tw_job jobs[20], back[20];
    struct submission submission = {.executor = executor, .jobs = jobs, .count = 20};
    pthread_t stopper;
    (void)state;

    for (size_t i = 0; i < 20; i++)
        jobs[i] = (struct tw_job){gate_pass, &gate};
    pthread_create(&submission.thread, NULL, submit, &submission);
    wait_until(executor, 1, 5);
    pthread_create(&stopper, NULL, stop, executor);
    pthread_join(submission.thread, NULL);
    assert_int_equal(submission.taken, 6);
    assert_int_equal(gate.passed, 0);
    gate_open(&gate);
    pthread_join(stopper, NULL);
    assert_int_equal(gate.passed, 1);
    assert_int_equal(tw_executor_take(executor, back, 3), 3);
    assert_int_equal(tw_executor_take(executor, back + 3, 20), 2);
    assert_int_equal(tw_executor_take(executor, back, 20), 0);
    for (size_t i = 0; i < 5; i++)
        assert_true(back[i].run == gate_pass && back[i].argument == &gate);
    assert_int_equal(stats_of(executor).taken_count, 5);
    tw_executor_stop(executor);
    tw_executor_drain(executor);
    tw_executor_destroy(executor);
}

struct stopping {
    struct tw_executor *executor;
    struct gate *gate;
    unsigned passed; /* when stop had returned */
};

static void *stop_and_note(void *argument)
{
    struct stopping *stopping = argument;

    tw_executor_stop(stopping->executor);
    stopping->passed = atomic_load(&stopping->gate->passed);
    return NULL;
}

static void stop_waits_for_jobs_on_callers_threads(void **state)
{
    struct tw_executor *executor =
        executor_new((struct tw_executor_options){.queue_count_max = 1, .when_full = TW_FULL_RUN});
    struct gate pools = GATE_CLOSED, callers = GATE_CLOSED;
    struct tw_job job = {gate_pass, &callers};
    struct submission submission = {.executor = executor, .jobs = &job, .count = 1};
    struct stopping stopping = {.executor = executor, .gate = &callers};
    pthread_t stopper;
    (void)state;

    assert_int_equal(tw_executor_submit(executor, &(struct tw_job){gate_pass, &pools}, 1), 1);
    wait_until(executor, 1, 0);
    assert_int_equal(tw_executor_submit(executor, &(struct tw_job){gate_pass, &pools}, 1), 1);
    pthread_create(&submission.thread, NULL, submit, &submission);
    wait_until(executor, 2, 1);
    pthread_create(&stopper, NULL, stop_and_note, &stopping);
    gate_open(&pools);
    poll(NULL, 0, 20); /* so that a stop that does not wait is caught at it, most of the time */
    gate_open(&callers);
    pthread_join(stopper, NULL);
    pthread_join(submission.thread, NULL);
    assert_int_equal(stopping.passed, 1);
    tw_executor_destroy(executor);
}

struct nest {
    struct tw_executor *executor;
    atomic_uint count;
};

static void submit_more(void *argument)
{
    struct nest *nest = argument;
    struct tw_job jobs[8];

    for (size_t i = 0; i < 8; i++)
        jobs[i] = (struct tw_job){count, &nest->count};
    REQUIRE(tw_executor_submit(nest->executor, jobs, 8) == 8);
}

/* All threads of the pool submit to their own full queue: if they waited, they would for ever. */
static void a_job_that_submits_never_waits_for_its_own_pool(void **state)
{
    struct nest nest = {.executor = executor_new((struct tw_executor_options){
                            .thread_count = 2, .queue_count_max = 2, .when_full = TW_FULL_BLOCK})};
    struct tw_job jobs[50];
    (void)state;

    for (size_t i = 0; i < 50; i++)
        jobs[i] = (struct tw_job){submit_more, &nest};
    assert_int_equal(tw_executor_submit(nest.executor, jobs, 50), 50);
    while (atomic_load(&nest.count) < 400)
        sched_yield();
    tw_executor_destroy(nest.executor);
}

/* The watchdog. */

struct executor_told {
    atomic_uint count;
    _Atomic(void *) argument;
    atomic_ullong ran_ns;
};

static void note_told(void *context, const struct tw_job *job, uint64_t ran_ns)
{
    struct executor_told *told = context;

    atomic_store(&told->argument, job->argument);
    atomic_store(&told->ran_ns, ran_ns);
    atomic_fetch_add(&told->count, 1);
}

static void the_watchdog_tells_once_of_a_job_that_still_runs(void **state)
{
    struct executor_told told = {0};
    struct tw_executor *executor = executor_new((struct tw_executor_options){
        .thread_count = 2, .budget_ns = 1000000, .on_over_budget = note_told, .context = &told});
    struct gate gates[2] = {GATE_CLOSED, GATE_CLOSED};
    (void)state;

    for (unsigned i = 0; i < 2; i++) { /* the second while the first is over its budget */
        assert_int_equal(tw_executor_submit(executor, &(struct tw_job){gate_pass, &gates[i]}, 1),
                         1);
        while (atomic_load(&told.count) <= i)
            sched_yield();
        assert_ptr_equal(told.argument, &gates[i]);
        assert_true(told.ran_ns > 1000000);
        assert_int_equal(stats_of(executor).over_budget, i + 1);
    }
    for (unsigned i = 0; i < 2; i++)
        gate_open(&gates[i]);
    tw_executor_drain(executor);
    assert_int_equal(told.count, 2);
    struct tw_executor_stats stats = stats_of(executor);
    assert_int_equal(stats.over_budget, 0);
    assert_int_equal(stats.over_budget_count, 2);
    assert_true(stats.longest_ns > 1000000);
    tw_executor_destroy(executor);
}

static void take_a_while(void *argument)
{
    volatile unsigned spin = 0;

    for (unsigned i = 0; i < 20000; i++)
        spin = spin + 1;
    count(argument);
}

/* With a budget of a nanosecond every job is over it, whoever notices first. */
static void each_job_over_its_budget_is_told_of_once(void **state)
{
    struct executor_told told = {0};
    struct tw_executor *executor =
        executor_new((struct tw_executor_options){.thread_count = 2,
                                                  .queue_count_max = 16,
                                                  .when_full = TW_FULL_RUN,
                                                  .budget_ns = 1,
                                                  .on_over_budget = note_told,
                                                  .context = &told});
    atomic_uint done = 0;
    (void)state;

    for (unsigned i = 0; i < 2000; i++)
        assert_int_equal(tw_executor_submit(executor, &(struct tw_job){take_a_while, &done}, 1), 1);
    tw_executor_drain(executor);
    assert_int_equal(done, 2000);
    assert_int_equal(told.count, 2000);
    assert_int_equal(stats_of(executor).over_budget_count, 2000);
    tw_executor_destroy(executor);
}

/* Nobody polls: once all is quiet no thread wakes. And a thousand jobs are not a thousand wakes. */
static void nobody_wakes_for_nothing(void **state)
{
    struct tw_executor *executor = executor_new((struct tw_executor_options){
        .thread_count = 2, .queue_count_max = 2000, .budget_ns = 1000000});
    struct tw_job jobs[1000];
    atomic_uint done = 0;
    uint64_t before, after;
    unsigned rounds = 0;
    (void)state;

    for (size_t i = 0; i < 1000; i++)
        jobs[i] = (struct tw_job){count, &done};
    assert_int_equal(tw_executor_submit(executor, jobs, 1000), 1000);
    while (atomic_load(&done) < 1000)
        sched_yield();
    assert_true(stats_of(executor).wake_count < 100);
    do { /* fifty budgets long; once is enough, on a machine that stands still now and then */
        before = stats_of(executor).wake_count;
        poll(NULL, 0, 50);
        after = stats_of(executor).wake_count;
        assert_true(++rounds < 20);
    } while (before != after);
    tw_executor_destroy(executor);
}

/* With a long budget the watchdog sleeps through any number of short jobs. */
static void short_jobs_do_not_wake_the_watchdog(void **state)
{
    struct tw_executor *executor = executor_new((struct tw_executor_options){
        .queue_count_max = 1, .when_full = TW_FULL_RUN, .budget_ns = UINT64_MAX - 2});
    struct gate gate = GATE_CLOSED;
    atomic_uint done = 0;
    (void)state;

    /* The pool stands still, so only the watchdog could wake. */
    assert_int_equal(tw_executor_submit(executor, &(struct tw_job){gate_pass, &gate}, 1), 1);
    wait_until(executor, 1, 0);
    assert_int_equal(tw_executor_submit(executor, &(struct tw_job){count, &done}, 1), 1);
    for (unsigned i = 0; i < 10000; i++)
        assert_int_equal(tw_executor_submit(executor, &(struct tw_job){count, &done}, 1), 1);
    assert_true(stats_of(executor).wake_count <= 4);
    gate_open(&gate);
    tw_executor_destroy(executor);
}

static void allocation_failures_are_answers(void **state)
{
    (void)state;
    for (size_t calls_left = 0; calls_left < 5; calls_left++) {
        struct allocator allocator = {.calls_left = calls_left};
        struct tw_executor *executor =
            tw_executor_create(&(struct tw_executor_options){.thread_count = 3,
                                                             .budget_ns = 5,
                                                             .allocate = allocator_take,
                                                             .release = allocator_give,
                                                             .memory_context = &allocator});
        assert_int_equal(executor != NULL, calls_left >= 3);
        tw_executor_destroy(executor);
        assert_int_equal(allocator.bytes, 0);
    }
}

static void look_at_signals(void *argument)
{
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    atomic_store((atomic_uint *)argument, 1 + (unsigned)sigismember(&blocked, SIGTERM));
}

static void the_pool_is_deaf_to_signals_and_the_caller_is_not(void **state)
{
    struct tw_executor *executor = tw_executor_create(NULL);
    atomic_uint seen = 0;
    (void)state;

    assert_int_equal(tw_executor_submit(executor, &(struct tw_job){look_at_signals, &seen}, 1), 1);
    tw_executor_drain(executor);
    assert_int_equal(seen, 2);
    look_at_signals(&seen);
    assert_int_equal(seen, 1);
    tw_executor_destroy(executor);
}

/* Threads. */

enum { CROWD = 3, EACH = 20000 };

struct executor_crowd {
    struct tw_executor *executor;
    atomic_uint tallies[CROWD * EACH]; /* runs, takings and refusals of each job */
    uint64_t seed;
    unsigned stop_after; /* jobs done */
    atomic_bool is_over; /* all was submitted */
};

struct executor_member {
    struct executor_crowd *crowd;
    unsigned number;
    pthread_t thread;
};

static void *submit_batches(void *argument)
{
    struct executor_member *member = argument;
    struct executor_crowd *crowd = member->crowd;
    struct conformance_source source = {.state = crowd->seed + member->number};
    struct tw_job jobs[32];

    for (unsigned i = 0; i < EACH;) {
        size_t batch = 1 + (size_t)conformance_below(&source, 32);
        if (batch > EACH - i)
            batch = EACH - i;
        for (size_t j = 0; j < batch; j++)
            jobs[j] = (struct tw_job){count, &crowd->tallies[member->number * EACH + i + j]};
        size_t taken = tw_executor_submit(crowd->executor, jobs, batch);
        for (size_t j = taken; j < batch; j++)
            count(jobs[j].argument);
        i += (unsigned)batch;
    }
    return NULL;
}

static void *take_some(void *argument)
{
    struct executor_crowd *crowd = argument;
    struct tw_executor_stats stats;
    struct tw_job jobs[3];

    do {
        size_t taken = tw_executor_take(crowd->executor, jobs, 3);
        for (size_t i = 0; i < taken; i++)
            count(jobs[i].argument);
        tw_executor_check(crowd->executor);
        tw_executor_get_stats(crowd->executor, &stats);
        sched_yield();
    } while (stats.done_count < crowd->stop_after && !atomic_load(&crowd->is_over));
    tw_executor_stop(crowd->executor);
    return NULL;
}

static void each_job_of_a_crowd_ends_one_way(void **state)
{
    static struct executor_crowd crowd;
    uint64_t seed = testing_seed();
    (void)state;

    for (unsigned policy = TW_FULL_REFUSE; policy <= TW_FULL_RUN; policy++) {
        struct executor_member members[CROWD];
        struct tw_job jobs[16];
        struct executor_told told = {0};
        pthread_t taker;
        memset(&crowd, 0, sizeof crowd);
        crowd.seed = seed + policy;
        crowd.stop_after = policy == TW_FULL_REFUSE ? 200 : EACH;
        crowd.executor = executor_new((struct tw_executor_options){.thread_count = 2,
                                                                   .queue_count_max = 40,
                                                                   .when_full = policy,
                                                                   .budget_ns = 20000,
                                                                   .on_over_budget = note_told,
                                                                   .context = &told});
        pthread_create(&taker, NULL, take_some, &crowd);
        for (unsigned i = 0; i < CROWD; i++) {
            members[i] = (struct executor_member){.crowd = &crowd, .number = i};
            pthread_create(&members[i].thread, NULL, submit_batches, &members[i]);
        }
        for (unsigned i = 0; i < CROWD; i++)
            pthread_join(members[i].thread, NULL);
        atomic_store(&crowd.is_over, true);
        pthread_join(taker, NULL);
        for (size_t n; (n = tw_executor_take(crowd.executor, jobs, 16)) > 0;)
            for (size_t i = 0; i < n; i++)
                count(jobs[i].argument);
        for (size_t i = 0; i < CROWD * EACH; i++)
            assert_int_equal(crowd.tallies[i], 1);
        struct tw_executor_stats stats = stats_of(crowd.executor);
        assert_int_equal(stats.submitted_count + stats.refused_count, CROWD * EACH);
        assert_int_equal(stats.over_budget_count, told.count);
        print_message("policy %u: %u done, %u on callers' threads, %u taken back, %u refused\n",
                      policy, (unsigned)stats.done_count, (unsigned)stats.caller_count,
                      (unsigned)stats.taken_count, (unsigned)stats.refused_count);
        tw_executor_destroy(crowd.executor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_header),
        cmocka_unit_test(one_thread_runs_in_order_round_and_round_the_queue),
        cmocka_unit_test(a_full_queue_refuses_and_delays_nobody),
        cmocka_unit_test(a_full_queue_has_the_caller_run_jobs),
        cmocka_unit_test(a_full_queue_blocks_until_there_is_room),
        cmocka_unit_test(stop_hands_back_what_did_not_run),
        cmocka_unit_test(stop_waits_for_jobs_on_callers_threads),
        cmocka_unit_test(a_job_that_submits_never_waits_for_its_own_pool),
        cmocka_unit_test(the_watchdog_tells_once_of_a_job_that_still_runs),
        cmocka_unit_test(each_job_over_its_budget_is_told_of_once),
        cmocka_unit_test(nobody_wakes_for_nothing),
        cmocka_unit_test(short_jobs_do_not_wake_the_watchdog),
        cmocka_unit_test(allocation_failures_are_answers),
        cmocka_unit_test(the_pool_is_deaf_to_signals_and_the_caller_is_not),
        cmocka_unit_test(each_job_of_a_crowd_ends_one_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
