/*
 * executor.h - a bounded pool of threads that runs what expired, so that no callback delays a
 * clock.
 *
 * Whoever drives a wheel must be back in time for its next tick. It hands what is due to a pool,
 * many at a time, and goes on:
 *
 *     struct tw_executor *executor = tw_executor_create(
 *         &(struct tw_executor_options){.thread_count = 4, .when_full = TW_FULL_REFUSE});
 *
 *     struct tw_expired due[64];
 *     struct tw_job jobs[64];
 *     size_t n = tw_wheel_expire(wheel, now, due, 64);
 *     for (size_t i = 0; i < n; i++)
 *         jobs[i] = (struct tw_job){.run = hang_up, .argument = connection_of(due[i].data)};
 *     size_t taken = tw_executor_submit(executor, jobs, n);
 *     for (size_t i = taken; i < n; i++)
 *         try_again_later(&jobs[i]);
 *
 *     tw_executor_stop(executor); // what runs ends, what waits does not begin
 *     while ((n = tw_executor_take(executor, jobs, 64)) > 0)
 *         for (size_t i = 0; i < n; i++)
 *             forget(&jobs[i]);
 *     tw_executor_destroy(executor);
 *
 * The queue has a fixed size. When it is full, submit waits, runs jobs itself, or refuses them:
 * that is chosen at creation. Only with TW_FULL_REFUSE does a clock never wait for a callback.
 *
 * A watchdog tells of jobs that run for longer than their budget. It sleeps while nothing runs;
 * while jobs do, it wakes at most twice a budget for each thread, however many jobs there are.
 *
 * Time       Measured on the system's monotonic clock, in nanoseconds. Idle threads do not wake.
 * Errors     create fails for want of memory or threads. submit takes what it can, and says how
 *            many. Misuse is a bug in the caller: assert() reports it.
 * Ownership  A job is copied. Its argument is the executor's from submit until it has run or was
 *            handed back by take; each job that was taken up is one or the other, exactly once.
 * Memory     Allocated at creation: the queue and the threads. Nothing after that.
 * Threads    Any thread may call anything at any time, jobs too, but for create and destroy (alone)
 *            and stop and drain (not from a job). Threads of the pool receive no signals.
 */
#ifndef TICKWHEEL_EXECUTOR_H
#define TICKWHEEL_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most that `thread_count` may be. */
#define TW_EXECUTOR_THREADS_MAX 1024

struct tw_executor;

/* Something to be done once. */
struct tw_job {
    void (*run)(void *argument);
    void *argument;
};

/* What submit does with jobs for which the queue has no room. */
enum tw_full {
    TW_FULL_REFUSE, /* leaves them to the caller */
    TW_FULL_BLOCK,  /* waits for room; a job of the pool, which might wait for ever, runs them */
    TW_FULL_RUN     /* runs them on the caller's thread */
};

/* Zero means the default in every field, so `(struct tw_executor_options){0}` is a good start. */
struct tw_executor_options {
    /* Threads of the pool, at most TW_EXECUTOR_THREADS_MAX. Default 1. */
    unsigned thread_count;

    /* Jobs that wait at most. Default 1024. */
    size_t queue_count_max;

    /* Default TW_FULL_REFUSE. */
    enum tw_full when_full;

    /* How long a job may run before it is told of. Default: for ever, and there is no watchdog. */
    uint64_t budget_ns;

    /* Tells once of each job over its budget, and for how long it has run: while it runs, on the
     * watchdog's thread, or when it has ended, on its own. A job that is told of while it runs may
     * end meanwhile, so `job` is good for comparing only. Default: it is only counted. */
    void (*on_over_budget)(void *context, const struct tw_job *job, uint64_t ran_ns);
    void *context;

    /* Where memory comes from, for callers that count it or own it. `allocate` returns NULL when
     * there is none, else `size` bytes on a multiple of `alignment`, a power of two; `release`
     * takes it back. Both or neither; both are handed `memory_context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *memory_context;
};

/* Gauges, and counts since creation, all of the same moment. submitted = queued + running + done +
 * taken. */
struct tw_executor_stats {
    size_t queued;
    size_t running;     /* on callers' threads too */
    size_t over_budget; /* of those running, told of */
    uint64_t submitted_count;
    uint64_t done_count;
    uint64_t caller_count; /* of those done or running, on callers' threads */
    uint64_t refused_count;
    uint64_t taken_count;
    uint64_t over_budget_count; /* ever told of */
    uint64_t longest_ns;        /* of the jobs that are done */
    uint64_t wake_count; /* times that a thread of the pool or the watchdog woke from waiting */
};

/* A pool whose threads wait for jobs. `options` may be NULL for all defaults and is copied. NULL
 * when there is no memory or a thread cannot be made. */
struct tw_executor *tw_executor_create(const struct tw_executor_options *options);

/* Stops the pool, if it was not yet, and frees it; NULL is fine. Jobs that still wait are
 * forgotten: take them first. */
void tw_executor_destroy(struct tw_executor *executor);

/* Hands over `count` jobs, to be begun in this order. Returns how many were taken up, from the
 * first on: all, unless the executor is stopping, or the queue is full and it refuses. */
size_t tw_executor_submit(struct tw_executor *executor, const struct tw_job *jobs, size_t count);

/* Takes back up to `limit` jobs that have not begun, the oldest first. Returns how many. */
size_t tw_executor_take(struct tw_executor *executor, struct tw_job *ret_jobs, size_t limit);

/* Begins no more jobs and takes up none, and returns when those that run have ended. What waits
 * stays in the queue, for take. Calling it again, or after drain, does nothing. */
void tw_executor_stop(struct tw_executor *executor);

/* Takes up no more jobs, and returns when all that were have been run. */
void tw_executor_drain(struct tw_executor *executor);

/* Gauges and counts. O(1). */
void tw_executor_get_stats(struct tw_executor *executor, struct tw_executor_stats *ret_stats);

/* For tests: aborts unless every invariant of the executor holds, whether or not assert() is
 * compiled in. O(threads + callers that run jobs). */
void tw_executor_check(struct tw_executor *executor);

#ifdef __cplusplus
}
#endif

#endif
