/*
 * executor.h - a bounded pool of threads that runs the callbacks of expired timers, so that no
 * callback delays the thread that drives a wheel.
 *
 * The thread that drives a wheel must be ready for the wheel's next tick. It hands due timers to a
 * pool, many at a time, and continues:
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
 *     tw_executor_stop(executor); // running jobs end, waiting jobs do not start
 *     while ((n = tw_executor_take(executor, jobs, 64)) > 0)
 *         for (size_t i = 0; i < n; i++)
 *             forget(&jobs[i]);
 *     tw_executor_destroy(executor);
 *
 * The queue has a fixed size. When it is full, submit waits, runs the jobs itself, or refuses them,
 * as chosen at creation. Only with TW_FULL_REFUSE does the caller of submit never wait for a
 * callback.
 *
 * A watchdog reports jobs that run longer than their budget. It sleeps while no job runs; while
 * jobs run it wakes at most twice per budget and thread, whatever the number of jobs.
 *
 * Time       Measured on the system's monotonic clock, in nanoseconds. Idle threads do not wake.
 * Errors     create fails when memory or threads are short. submit takes jobs up to its limit and
 *            returns their number. Misuse is a bug in the caller, which assert() reports.
 * Ownership  A job is copied. Its argument belongs to the executor from submit until the job has
 *            run or take has handed it back; exactly one of the two happens to each accepted job.
 * Memory     The queue and the threads are allocated at creation, nothing after that.
 * Threads    Any thread, jobs included, may call any function at any time, except create and
 *            destroy (no other call at the same time) and stop and drain (not from a job). The
 *            pool's threads block all signals. After fork the child may only destroy an executor,
 *            whose threads run in the parent; that frees the memory and runs no job.
 */
#ifndef TICKWHEEL_EXECUTOR_H
#define TICKWHEEL_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Upper limit of `thread_count`. */
#define TW_EXECUTOR_THREADS_MAX 1024

struct tw_executor;

/* A call to be made once. */
struct tw_job {
    void (*run)(void *argument);
    void *argument;
};

/* What submit does with jobs when the queue is full. */
enum tw_full {
    TW_FULL_REFUSE, /* refuses them: they stay with the caller */
    TW_FULL_BLOCK,  /* waits for room; a job of the pool, which could wait forever, runs them
                      instead */
    TW_FULL_RUN     /* runs them in the caller's thread */
};

/* Zero means the default in every field, so `(struct tw_executor_options){0}` is a good start. */
struct tw_executor_options {
    /* Threads of the pool, at most TW_EXECUTOR_THREADS_MAX. Default 1. */
    unsigned thread_count;

    /* Capacity of the queue. Default 1024. */
    size_t queue_count_max;

    /* Default TW_FULL_REFUSE. */
    enum tw_full when_full;

    /* How long a job may run before it is reported. Default: no limit, and no watchdog. */
    uint64_t budget_ns;

    /* Reports each job over its budget once, with the time that it has run: in the watchdog's
     * thread while the job runs, or in the job's own thread when it has ended. A job that is
     * reported while it runs may end meanwhile, so compare `job`, do not use its argument. Default:
     * such jobs are only counted. */
    void (*on_over_budget)(void *context, const struct tw_job *job, uint64_t ran_ns);
    void *context;

    /* The source of memory, for callers that count or own it. `allocate` returns `size` bytes at a
     * multiple of `alignment`, a power of two; NULL means out of memory. `release` gives the bytes
     * back. Set both or neither; both receive `memory_context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *memory_context;
};

/* Gauges, and counts since creation, read under one lock: submitted = queued + running + done +
 * taken. */
struct tw_executor_stats {
    size_t queued;
    size_t running;     /* in callers' threads too */
    size_t over_budget; /* of the running jobs, those reported */
    uint64_t submitted_count;
    uint64_t done_count;
    uint64_t caller_count; /* of the jobs done or running, those in callers' threads */
    uint64_t refused_count;
    uint64_t taken_count;
    uint64_t over_budget_count; /* reported since creation */
    uint64_t longest_ns;        /* longest run time of the jobs that are done */
    uint64_t wake_count;        /* wake-ups of the pool's threads and the watchdog */
};

/* A pool whose threads wait for jobs. `options` may be NULL for all defaults and is copied. NULL
 * when memory is short or a thread cannot be created. */
struct tw_executor *tw_executor_create(const struct tw_executor_options *options);

/* Stops the pool unless it is stopped, and frees it; NULL is fine. Jobs still in the queue are
 * dropped: take them first. */
void tw_executor_destroy(struct tw_executor *executor);

/* Submits `count` jobs, which start in this order. Returns how many were accepted, counted from the
 * first: all, unless the executor is stopping, or the queue is full and the executor refuses. */
size_t tw_executor_submit(struct tw_executor *executor, const struct tw_job *jobs, size_t count);

/* Takes back up to `limit` jobs that have not started, the oldest first. Returns their number. */
size_t tw_executor_take(struct tw_executor *executor, struct tw_job *ret_jobs, size_t limit);

/* Starts and accepts no more jobs, and returns when the running jobs have ended. Waiting jobs stay
 * in the queue, for take. Calling it again, or after drain, does nothing. */
void tw_executor_stop(struct tw_executor *executor);

/* Accepts no more jobs, and returns when every accepted job has run. */
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
