/*
 * executor.c - the pool: its queue, its threads, its watchdog.
 *
 * One lock guards all state; it is not held while a callback runs. A thread of the pool takes it
 * once per job: to end a job and to start the next.
 */
#include <tickwheel/executor.h>

#include "clock_monotonic.h"
#include "link.h"
#include "memory.h"
#include "thread.h"

#include <assert.h>
#include <pthread.h>

enum { QUEUE_DEFAULT = 1024 };

#define NEVER_NS UINT64_MAX

/* A job that runs. Stored on the stack of the thread that runs it. */
struct executor_run {
    struct tw_link link;
    struct tw_job job;
    uint64_t began_ns;
    bool is_told; /* it was reported as over its budget */
};

struct tw_executor {
    unsigned thread_count; /* threads created so far; used during creation */
    size_t queue_size;
    enum tw_full when_full;
    /* maximum run time of a job; NEVER_NS - 1 means that there is no watchdog */
    uint64_t budget_ns;
    void (*on_over_budget)(void *context, const struct tw_job *job, uint64_t ran_ns);
    void *context;
    struct memory memory;
    pid_t owner; /* process that created the threads */
    pthread_t *threads;
    unsigned thread_capacity;
    bool has_watchdog;
    pthread_t watchdog;

    pthread_mutex_t join_lock; /* taken before `lock` */
    bool is_joined;            /* guarded by join_lock */

    pthread_mutex_t lock; /* guards the fields below */
    /* signalled when jobs are queued or the pool stops; threads of the pool wait for it */
    pthread_cond_t work;
    pthread_cond_t room;  /* signalled when the queue has room; submitters wait for it */
    pthread_cond_t ended; /* signalled when no job runs any more; stop waits for it */
    pthread_cond_t watch; /* signalled when `watch_at` was set; the watchdog waits for it */
    bool is_stopping;     /* no further job is accepted */
    bool is_halted;       /* no further job is started */
    bool is_unwatched;    /* the watchdog must end */
    unsigned idle_count;  /* threads of the pool that wait for a job */
    unsigned blocked_count;
    uint64_t
        watch_at; /* when the watchdog checks next; NEVER_NS while no job can exceed its budget */
    struct tw_job *queue;
    size_t first; /* index of the oldest job */
    struct link_bucket running;
    struct tw_executor_stats stats; /* stats.queued is the length of the queue */
};

static size_t executor_room_left(const struct tw_executor *executor)
{
    return executor->queue_size - executor->stats.queued;
}

static void executor_queue_push(struct tw_executor *executor, const struct tw_job *job)
{
    size_t place = executor->first + executor->stats.queued;

    executor->queue[place < executor->queue_size ? place : place - executor->queue_size] = *job;
    executor->stats.queued++;
}

static struct tw_job executor_queue_pop(struct tw_executor *executor)
{
    struct tw_job job = executor->queue[executor->first];

    if (++executor->first == executor->queue_size)
        executor->first = 0;
    executor->stats.queued--;
    if (executor->blocked_count > 0)
        pthread_cond_signal(&executor->room); /* one place is free, so one submitter is woken */
    return job;
}

/* Returns when the run exceeds its budget; always below NEVER_NS. */
static uint64_t executor_due_at(const struct tw_executor *executor, const struct executor_run *run)
{
    uint64_t last = NEVER_NS - 1 - executor->budget_ns;

    return run->began_ns > last ? NEVER_NS - 1 : run->began_ns + executor->budget_ns;
}

/* Reports a job that exceeds its budget. The lock is released during the callback. */
static void executor_report(struct tw_executor *executor, struct executor_run *run, uint64_t ran_ns)
{
    struct tw_job job = run->job;

    run->is_told = true;
    executor->stats.over_budget++;
    executor->stats.over_budget_count++;
    if (!executor->on_over_budget)
        return;
    pthread_mutex_unlock(&executor->lock);
    executor->on_over_budget(executor->context, &job, ran_ns);
    pthread_mutex_lock(&executor->lock);
}

/* Runs a job on this thread. The lock is held before and after, but not while the job runs. */
static void executor_run_job(struct tw_executor *executor, struct tw_job job)
{
    struct executor_run run = {.job = job, .began_ns = monotonic_ns()};

    bucket_push(&executor->running, &run.link);
    executor->stats.running++;
    if (executor->watch_at == NEVER_NS && executor->has_watchdog) {
        executor->watch_at = executor_due_at(executor, &run);
        pthread_cond_signal(&executor->watch);
    }
    pthread_mutex_unlock(&executor->lock);
    job.run(job.argument);
    uint64_t ran_ns = monotonic_ns() - run.began_ns;
    pthread_mutex_lock(&executor->lock);
    if (!run.is_told && ran_ns > executor->budget_ns)
        executor_report(executor, &run, ran_ns);
    bucket_remove(&run.link);
    executor->stats.over_budget -= run.is_told;
    executor->stats.running--;
    executor->stats.done_count++;
    if (ran_ns > executor->stats.longest_ns)
        executor->stats.longest_ns = ran_ns;
    if (executor->is_stopping && executor->stats.running == 0)
        pthread_cond_broadcast(&executor->ended);
}

static void *executor_thread_main(void *argument)
{
    struct tw_executor *executor = argument;

    pthread_mutex_lock(&executor->lock);
    for (;;) {
        if (!executor->is_halted && executor->stats.queued > 0) {
            executor_run_job(executor, executor_queue_pop(executor));
            continue;
        }
        if (executor->is_stopping)
            break;
        executor->idle_count++;
        pthread_cond_wait(&executor->work, &executor->lock);
        executor->idle_count--;
        executor->stats.wake_count++;
    }
    pthread_mutex_unlock(&executor->lock);
    return NULL;
}

/* Reports the running jobs that exceed their budget. Returns when the next one will. */
static uint64_t executor_watch_all(struct tw_executor *executor)
{
    uint64_t now = monotonic_ns(), next = NEVER_NS;
    struct tw_link *link = executor->running.root.next_;

    while (link != &executor->running.root) {
        struct executor_run *run = (struct executor_run *)link;
        link = link->next_;
        if (run->is_told)
            continue;
        uint64_t due = executor_due_at(executor, run);
        if (now > due) {
            executor_report(executor, run, now - run->began_ns);
            link = executor->running.root.next_; /* the list may have changed during the callback */
            next = NEVER_NS;
        } else if (due < next) {
            next = due;
        }
    }
    return next;
}

static void *executor_watchdog_main(void *argument)
{
    struct tw_executor *executor = argument;

    pthread_mutex_lock(&executor->lock);
    while (!executor->is_unwatched) {
        if (executor->watch_at == NEVER_NS) {
            pthread_cond_wait(&executor->watch, &executor->lock);
            executor->stats.wake_count++;
        } else if (monotonic_ns() <= executor->watch_at) {
            /* The wait continues even if the job has ended: ending it early would need a wake-up
             * for each short job. */
            monotonic_condition_wait(&executor->watch, &executor->lock, executor->watch_at + 1);
            executor->stats.wake_count++;
        } else {
            /* watch_at is not NEVER_NS here, so a job that starts during a report does not signal.
             * The next round finds that job. */
            executor->watch_at = executor_watch_all(executor);
        }
    }
    pthread_mutex_unlock(&executor->lock);
    return NULL;
}

static bool executor_threads_start(struct tw_executor *executor)
{
    bool is_made = true;

    while (is_made && executor->thread_count < executor->thread_capacity) {
        is_made = thread_start(&executor->threads[executor->thread_count], executor_thread_main,
                               executor);
        executor->thread_count += is_made;
    }
    if (is_made && executor->budget_ns != NEVER_NS - 1) {
        is_made = thread_start(&executor->watchdog, executor_watchdog_main, executor);
        executor->has_watchdog = is_made;
    }
    return is_made;
}

struct tw_executor *tw_executor_create(const struct tw_executor_options *options)
{
    static const struct tw_executor_options defaults;

    if (!options)
        options = &defaults;
    assert(options->thread_count <= TW_EXECUTOR_THREADS_MAX);
    struct memory memory = memory_from(
        tw__memory_source(options->allocate, options->release, options->memory_context));
    struct tw_executor *executor = memory_take(&memory, 1, sizeof *executor);
    if (!executor)
        return NULL;
    *executor = (struct tw_executor){
        .thread_capacity = options->thread_count ? options->thread_count : 1,
        .queue_size = options->queue_count_max ? options->queue_count_max : QUEUE_DEFAULT,
        .when_full = options->when_full,
        .budget_ns =
            options->budget_ns && options->budget_ns < NEVER_NS ? options->budget_ns : NEVER_NS - 1,
        .on_over_budget = options->on_over_budget,
        .context = options->context,
        .owner = getpid(),
        .watch_at = NEVER_NS,
    };
    bucket_init(&executor->running, 0, BUCKET_NONE);
    pthread_mutex_init(&executor->join_lock, NULL);
    pthread_mutex_init(&executor->lock, NULL);
    pthread_cond_init(&executor->work, NULL);
    pthread_cond_init(&executor->room, NULL);
    pthread_cond_init(&executor->ended, NULL);
    monotonic_condition_init(&executor->watch);
    executor->queue = memory_take(&memory, executor->queue_size, sizeof *executor->queue);
    executor->threads = memory_take(&memory, executor->thread_capacity, sizeof *executor->threads);
    executor->memory = memory;
    if (!executor->queue || !executor->threads || !executor_threads_start(executor)) {
        tw_executor_destroy(executor);
        return NULL;
    }
    return executor;
}

void tw_executor_destroy(struct tw_executor *executor)
{
    if (!executor)
        return;
    tw_executor_stop(executor);
    if (!thread_is_forked(executor->owner)) {
        pthread_cond_destroy(&executor->watch);
        pthread_cond_destroy(&executor->ended);
        pthread_cond_destroy(&executor->room);
        pthread_cond_destroy(&executor->work);
        pthread_mutex_destroy(&executor->lock);
        pthread_mutex_destroy(&executor->join_lock);
    }
    struct memory memory = executor->memory;
    memory_give(&memory, executor->threads, executor->thread_capacity, sizeof *executor->threads);
    memory_give(&memory, executor->queue, executor->queue_size, sizeof *executor->queue);
    memory_give(&memory, executor, 1, sizeof *executor);
}

static bool executor_is_pool_thread(const struct tw_executor *executor)
{
    for (unsigned i = 0; i < executor->thread_count; i++)
        if (pthread_equal(executor->threads[i], pthread_self()))
            return true;
    return false;
}

size_t tw_executor_submit(struct tw_executor *executor, const struct tw_job *jobs, size_t count)
{
    size_t taken = 0;

    pthread_mutex_lock(&executor->lock);
    while (taken < count && !executor->is_stopping) {
        size_t turn = count - taken < executor_room_left(executor) ? count - taken
                                                                   : executor_room_left(executor);
        for (size_t i = 0; i < turn; i++) {
            executor_queue_push(executor, &jobs[taken++]);
            if (i < executor->idle_count)
                pthread_cond_signal(&executor->work);
        }
        executor->stats.submitted_count += turn;
        if (taken == count || executor->when_full == TW_FULL_REFUSE)
            break;
        if (executor->when_full == TW_FULL_BLOCK && !executor_is_pool_thread(executor)) {
            executor->blocked_count++;
            pthread_cond_wait(&executor->room, &executor->lock);
            executor->blocked_count--;
            continue;
        }
        executor->stats.submitted_count++;
        executor->stats.caller_count++;
        executor_run_job(executor, jobs[taken++]);
    }
    executor->stats.refused_count += count - taken;
    pthread_mutex_unlock(&executor->lock);
    return taken;
}

size_t tw_executor_take(struct tw_executor *executor, struct tw_job *ret_jobs, size_t limit)
{
    size_t count = 0;

    pthread_mutex_lock(&executor->lock);
    while (count < limit && executor->stats.queued > 0)
        ret_jobs[count++] = executor_queue_pop(executor);
    executor->stats.taken_count += count;
    pthread_mutex_unlock(&executor->lock);
    return count;
}

/* Refuses further jobs, waits until no job runs, and joins the threads, the watchdog last. If
 * `ret_also` is not NULL, sets it together with is_stopping. */
static void executor_join(struct tw_executor *executor, bool *ret_also)
{
    if (thread_is_forked(executor->owner))
        return;
    pthread_mutex_lock(&executor->lock);
    executor->is_stopping = true;
    if (ret_also)
        *ret_also = true;
    pthread_cond_broadcast(&executor->work);
    pthread_cond_broadcast(&executor->room);
    pthread_mutex_unlock(&executor->lock);

    pthread_mutex_lock(&executor->join_lock);
    if (!executor->is_joined) {
        for (unsigned i = 0; i < executor->thread_count; i++)
            pthread_join(executor->threads[i], NULL);
        pthread_mutex_lock(&executor->lock);
        while (executor->stats.running > 0) /* waits for jobs that run on threads of callers */
            pthread_cond_wait(&executor->ended, &executor->lock);
        executor->is_unwatched = true;
        pthread_cond_signal(&executor->watch);
        pthread_mutex_unlock(&executor->lock);
        if (executor->has_watchdog)
            pthread_join(executor->watchdog, NULL);
        executor->is_joined = true;
    }
    pthread_mutex_unlock(&executor->join_lock);
}

void tw_executor_stop(struct tw_executor *executor)
{
    executor_join(executor, &executor->is_halted);
}

void tw_executor_drain(struct tw_executor *executor)
{
    executor_join(executor, NULL);
}

void tw_executor_get_stats(struct tw_executor *executor, struct tw_executor_stats *ret_stats)
{
    pthread_mutex_lock(&executor->lock);
    *ret_stats = executor->stats;
    pthread_mutex_unlock(&executor->lock);
}

void tw_executor_check(struct tw_executor *executor)
{
    size_t over_budget = 0;

    pthread_mutex_lock(&executor->lock);
    const struct tw_executor_stats *stats = &executor->stats;
    REQUIRE(stats->queued <= executor->queue_size);
    REQUIRE(executor->first < executor->queue_size);
    REQUIRE(bucket_check(&executor->running) == stats->running);
    for (struct tw_link *link = executor->running.root.next_; link != &executor->running.root;
         link = link->next_)
        over_budget += ((const struct executor_run *)link)->is_told;
    REQUIRE(over_budget == stats->over_budget);
    REQUIRE(stats->submitted_count ==
            stats->queued + stats->running + stats->done_count + stats->taken_count);
    REQUIRE(executor->idle_count <= executor->thread_capacity);
    /* The watchdog must check each running job that was not reported yet. */
    if (executor->has_watchdog && stats->running > stats->over_budget)
        REQUIRE(executor->watch_at != NEVER_NS);
    pthread_mutex_unlock(&executor->lock);
}
