/*
 * runner_stress_test.c - many threads at once, on the real clock: each timer is handed over once,
 * or was cancelled, or is left at the stop: never two of these and never none. And what a runner
 * does while there is nothing to do. Seeds are printed; TEST_SEED replays what the threads draw,
 * not how they meet.
 */
#include "seed.h"

#include <tickwheel/runner.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MS = 1000000, THREADS = 4, TIMERS = 30000, OPENED = 16, MINE_MAX = 256 };

static uint64_t draw(uint64_t *random)
{
    uint64_t mixed = *random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

/* What became of each timer, by its data; each count must end at one. */
struct fates {
    struct tw_runner *runner;
    struct tw_runner_wheel *wheels[2];
    _Atomic unsigned char fired[THREADS * TIMERS];
    _Atomic unsigned char cancelled[THREADS * TIMERS];
    unsigned char left[THREADS * TIMERS];
    /* Opened timers, shared by all threads: between two arms it may fire once. */
    tw_handle opened[OPENED];
    _Atomic uint64_t armed[OPENED], disarmed[OPENED], refired[OPENED];
    _Atomic uint64_t early;
    uint64_t seed;
};

struct runner_stress_worker {
    struct fates *fates;
    unsigned number;
    pthread_t thread;
    uint64_t refused;
};

static void on_due(void *context, const struct tw_expired *due, size_t count)
{
    struct fates *fates = context;
    struct tw_instant now = tw_runner_now(fates->runner);
    for (size_t i = 0; i < count; i++) {
        if (due[i].deadline > now.ns)
            atomic_fetch_add(&fates->early, 1);
        if (due[i].data >= THREADS * TIMERS)
            atomic_fetch_add(&fates->refired[due[i].data - THREADS * TIMERS], 1);
        else
            atomic_fetch_add(&fates->fired[due[i].data], 1);
    }
}

static void use_opened(struct fates *fates, uint64_t *random)
{
    size_t which = draw(random) % OPENED;
    struct tw_instant when =
        tw_instant_add(tw_runner_now(fates->runner), draw(random) % (4 * (uint64_t)MS));
    switch (draw(random) % 3) {
    case 0:
        atomic_fetch_add(&fates->armed[which], 1);
        (void)tw_runner_arm(fates->wheels[1], fates->opened[which], when);
        break;
    case 1:
        atomic_fetch_add(&fates->armed[which], 1);
        (void)tw_runner_arm_sooner(fates->wheels[1], fates->opened[which], when);
        break;
    default:
        if (tw_runner_disarm(fates->wheels[1], fates->opened[which]) == TW_RUNNER_OK)
            atomic_fetch_add(&fates->disarmed[which], 1);
    }
}

/* Schedules its timers, and moves and cancels those it has lately scheduled. */
static void *work(void *argument)
{
    struct runner_stress_worker *worker = argument;
    struct fates *fates = worker->fates;
    uint64_t random = fates->seed + worker->number;
    tw_handle handles[MINE_MAX] = {0};
    uint64_t data[MINE_MAX] = {0};
    for (uint64_t i = 0, rounds = 0; i < TIMERS; rounds++) {
        if (rounds % 32 == 0)
            sched_yield(); /* the runner is to have its turns, also on one processor */
        size_t mine = draw(&random) % MINE_MAX;
        struct tw_runner_wheel *wheel = fates->wheels[mine % 2];
        /* Most within a tick or two, some an hour later: left for the stop. */
        uint64_t later = draw(&random) % 16 == 0 ? UINT64_C(3600000) * MS : 0;
        struct tw_instant when =
            tw_instant_add(tw_runner_now(fates->runner), later + draw(&random) % (MS / 4));
        switch (draw(&random) % 8) {
        case 0:
        case 1:
        case 2: {
            uint64_t id = worker->number * (uint64_t)TIMERS + i;
            tw_handle timer = tw_runner_schedule(wheel, when, id);
            if (timer == TW_NONE) {
                worker->refused++;
                break;
            }
            /* The one that had this place goes on without anybody to cancel it. */
            handles[mine] = timer;
            data[mine] = id;
            i++;
            break;
        }
        case 3:
        case 4:
            if (tw_runner_cancel(wheel, handles[mine]) == TW_RUNNER_OK)
                atomic_fetch_add(&fates->cancelled[data[mine]], 1);
            break;
        case 5:
        case 6:
            (void)tw_runner_reschedule(wheel, handles[mine], when);
            break;
        default:
            use_opened(fates, &random);
        }
    }
    return NULL;
}

static void judge(struct fates *fates)
{
    uint64_t sums[3] = {0, 0, 0};
    for (size_t i = 0; i < THREADS * TIMERS; i++) {
        assert_int_equal(fates->fired[i] + fates->cancelled[i] + fates->left[i], 1);
        sums[0] += fates->fired[i];
        sums[1] += fates->cancelled[i];
        sums[2] += fates->left[i];
    }
    for (size_t i = 0; i < OPENED; i++)
        assert_true(fates->refired[i] + fates->disarmed[i] <= fates->armed[i]);
    assert_int_equal(fates->early, 0);
    printf("%d threads, %d timers: %" PRIu64 " fired, %" PRIu64 " cancelled, %" PRIu64 " left\n",
           THREADS, THREADS * TIMERS, sums[0], sums[1], sums[2]);
}

static void each_timer_has_one_fate(void **state)
{
    (void)state;
    struct fates *fates = calloc(1, sizeof(*fates));
    assert_non_null(fates);
    fates->seed = testing_seed();
    fates->runner = tw_runner_create(NULL);
    struct tw_runner_wheel_options options = {
        .handler = on_due, .context = fates, .tick_ns = 50000, .timer_count_max = 100000};
    fates->wheels[0] = tw_runner_add(fates->runner, &options);
    options.tick_ns = MS;
    options.batch_count_max = 3;
    fates->wheels[1] = tw_runner_add(fates->runner, &options);
    for (uint64_t i = 0; i < OPENED; i++)
        fates->opened[i] = tw_runner_open(fates->wheels[1], THREADS * TIMERS + i);
    assert_true(tw_runner_start(fates->runner));
    struct runner_stress_worker workers[THREADS] = {{0}};
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct runner_stress_worker){.fates = fates, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    const uint64_t minute = UINT64_C(60000) * MS;
    while (tw_runner_wake_at(fates->runner).ns < tw_runner_now(fates->runner).ns + minute)
        sched_yield();
    tw_runner_stop(fates->runner);
    struct tw_expired left[100];
    for (int wheel = 0; wheel < 2; wheel++)
        for (size_t n; (n = tw_runner_take_left(fates->wheels[wheel], left, 100)) > 0;)
            for (size_t i = 0; i < n; i++)
                if (left[i].data < THREADS * TIMERS)
                    fates->left[left[i].data]++;
    tw_runner_check(fates->runner);
    judge(fates);
    tw_runner_destroy(fates->runner);
    free(fates);
}

/* The stop comes in the midst: what was accepted still has one fate. */
struct runner_stress_late {
    struct tw_runner *runner;
    struct tw_runner_wheel *wheel;
    _Atomic uint64_t accepted, fired;
    atomic_bool is_over; /* the stop has returned */
};

static void count_due(void *context, const struct tw_expired *due, size_t count)
{
    struct runner_stress_late *late = context;
    (void)due;
    atomic_fetch_add(&late->fired, count);
}

static void *schedule_until_over(void *argument)
{
    struct runner_stress_late *late = argument;
    for (uint64_t i = 0;; i++) {
        struct tw_instant when = tw_instant_add(tw_runner_now(late->runner), i % 7 * MS / 4);
        bool is_over = atomic_load(&late->is_over);
        if (tw_runner_schedule(late->wheel, when, i) != TW_NONE)
            atomic_fetch_add(&late->accepted, 1);
        else if (is_over)
            return NULL;
        else
            sched_yield(); /* over the limit */
    }
}

static void a_stop_amidst_loses_nothing(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct runner_stress_late late = {0};
        pthread_t threads[2];
        late.runner = tw_runner_create(NULL);
        late.wheel = tw_runner_add(
            late.runner,
            &(struct tw_runner_wheel_options){
                .handler = count_due, .context = &late, .tick_ns = 1000, .timer_count_max = 3000});
        assert_true(tw_runner_start(late.runner));
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, schedule_until_over, &late), 0);
        while (atomic_load(&late.fired) < 100)
            sched_yield();
        tw_runner_stop(late.runner);
        atomic_store(&late.is_over, true);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        struct tw_expired left[64];
        uint64_t sum = 0;
        for (size_t n; (n = tw_runner_take_left(late.wheel, left, 64)) > 0;)
            sum += n;
        assert_int_equal(late.fired + sum, late.accepted);
        tw_runner_check(late.runner);
        tw_runner_destroy(late.runner);
    }
}

struct runner_stress_counter {
    _Atomic uint64_t fired;
};

static void count_fired(void *context, const struct tw_expired *due, size_t count)
{
    struct runner_stress_counter *counter = context;
    (void)due;
    atomic_fetch_add(&counter->fired, count);
}

/* In virtual time with a real thread: a million timers an hour off, and for the first half hour,
 * looked at every fifteen seconds, the runner does not wake once. */
static void nothing_due_wakes_nobody(void **state)
{
    (void)state;
    struct tw_virtual clock;
    struct runner_stress_counter counter = {0};
    assert_true(tw_virtual_init(&clock, (struct tw_instant){0}));
    struct tw_runner *runner = tw_runner_create(&(struct tw_runner_options){.clock = &clock.clock});
    struct tw_runner_wheel *wheel = tw_runner_add(
        runner, &(struct tw_runner_wheel_options){.handler = count_fired, .context = &counter});
    struct tw_instant hour = {UINT64_C(3600000) * MS};
    assert_true(tw_runner_start(runner));
    for (uint64_t i = 0; i < 1000000; i++)
        assert_true(tw_runner_schedule(wheel, tw_instant_add(hour, i * 1000), i) != TW_NONE);
    tw_virtual_settle(&clock, 1);
    uint64_t wakes = tw_runner_wakes(runner);
    for (int i = 0; i < 120; i++) {
        tw_virtual_advance(&clock, UINT64_C(15000) * MS);
        tw_virtual_settle(&clock, 1);
    }
    assert_int_equal(tw_runner_wakes(runner), wakes);
    /* A sooner one wakes it once to be noted, and once when it is due. */
    assert_true(tw_runner_schedule(wheel, tw_instant_add(tw_clock_now(&clock.clock), 10 * MS), 1) !=
                TW_NONE);
    tw_virtual_settle(&clock, 1);
    tw_virtual_advance(&clock, 10 * MS);
    tw_virtual_settle(&clock, 1);
    assert_int_equal(tw_runner_wakes(runner), wakes + 2);
    assert_int_equal(counter.fired, 1);
    /* Far ones that come in wake nobody either: they can wait for the next look. */
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(tw_runner_schedule(wheel, tw_instant_add(hour, hour.ns), i) != TW_NONE);
    tw_virtual_settle(&clock, 1);
    assert_int_equal(tw_runner_wakes(runner), wakes + 2);
    while (counter.fired < 1001001) {
        tw_virtual_settle(&clock, 1);
        tw_virtual_advance(&clock, UINT64_C(60000) * MS);
    }
    tw_runner_destroy(runner);
    tw_virtual_deinit(&clock);
}

/* The header's example. */
struct runner_stress_server {
    _Atomic int hung_up;
};

static void hang_up(void *context, uint64_t connection)
{
    struct runner_stress_server *server = context;
    (void)connection;
    atomic_fetch_add(&server->hung_up, 1);
}

static void on_due_example(void *context, const struct tw_expired *due, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hang_up(context, due[i].data);
}

static void the_example(void **state)
{
    (void)state;
    struct runner_stress_server the_server = {0}, *server = &the_server;
    struct tw_runner *runner = tw_runner_create(NULL);
    struct tw_runner_wheel *idle = tw_runner_add(
        runner, &(struct tw_runner_wheel_options){.handler = on_due_example, .context = server});
    assert_true(tw_runner_start(runner));
    struct tw_instant soon = tw_instant_add(tw_runner_now(runner), 30000000000);
    tw_handle timer = tw_runner_schedule(idle, soon, 7);
    switch (tw_runner_cancel(idle, timer)) {
    case TW_RUNNER_OK: // it will not be handled
        break;
    case TW_RUNNER_RUNNING: // the handler has it just now
    case TW_RUNNER_DONE:    // it was handled, or cancelled, before
        fail();
    }
    assert_true(tw_runner_schedule(idle, soon, 8) != TW_NONE);
    tw_runner_stop(runner);
    struct tw_expired left[64];
    while (tw_runner_take_left(idle, left, 64) > 0)
        assert_int_equal(left[0].data, 8);
    assert_int_equal(the_server.hung_up, 0);
    tw_runner_destroy(runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example),
        cmocka_unit_test(each_timer_has_one_fate),
        cmocka_unit_test(a_stop_amidst_loses_nothing),
        cmocka_unit_test(nothing_due_wakes_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
