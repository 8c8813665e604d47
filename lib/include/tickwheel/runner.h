/*
 * runner.h - a thread that drives timing wheels: any thread sets timers, one thread handles them
 * and sleeps while none is due.
 *
 *     static void on_due(void *context, const struct tw_expired *due, size_t count)
 *     {
 *         for (size_t i = 0; i < count; i++)
 *             hang_up(context, due[i].data);
 *     }
 *
 *     struct tw_runner *runner = tw_runner_create(NULL);
 *     struct tw_runner_wheel *idle = tw_runner_add(
 *         runner, &(struct tw_runner_wheel_options){.handler = on_due, .context = server});
 *     tw_runner_start(runner);
 *     struct tw_instant soon = tw_instant_add(tw_runner_now(runner), 30000000000);
 *     tw_handle timer = tw_runner_schedule(idle, soon, 7);
 *     switch (tw_runner_cancel(idle, timer)) {
 *     case TW_RUNNER_OK:      // it will not be handled
 *     case TW_RUNNER_RUNNING: // the handler has it just now
 *     case TW_RUNNER_DONE:    // it was handled, or cancelled, before
 *         break;
 *     }
 *     tw_runner_stop(runner);
 *     struct tw_expired left[64];
 *     while (tw_runner_take_left(idle, left, 64) > 0)
 *         ;
 *     tw_runner_destroy(runner);
 *
 * As with wheel.h, a timer is held in one of two ways. Scheduled once: its handle becomes stale
 * when it is handled or cancelled (schedule, reschedule, cancel). Opened once and armed many times,
 * also while its handler runs: its handle stays valid until closed (open, arm, arm_sooner, disarm,
 * close).
 *
 * Instead of a thread of its own, a runner can use an event loop (epoll, libuv, libevent): do not
 * start it, watch tw_runner_fd for reading, and call tw_runner_dispatch when it is readable.
 *
 * Time       Absolute instants of the runner's clock. Never early; late by less than one tick of
 *            the wheel, plus the delays of the machine. TW_INSTANT_NEVER_NS is never reached: a
 *            clock that shows it counts as a nanosecond earlier. If the clock steps back, the
 *            latest instant that the runner has seen counts.
 * Errors     Create, add, start, schedule and open can fail when memory, threads or descriptors are
 *            short, or over the limit of the wheel; a failure changes nothing. Misuse is a bug in
 *            the caller, which assert() reports.
 * Ownership  The runner keeps the timers, the caller keeps handles. The handle of a timer that was
 *            handled or cancelled is stale: using it is harmless and never touches another timer.
 * Memory     Bounded by twice the most timers ever held at once, and 0.3 MB for each thread that
 *            schedules, up to 32 threads; freed by destroy. A cancelled timer holds no memory,
 *            whatever its deadline.
 * Threads    Any thread and every handler may call the functions from schedule to close, and the
 *            queries, at any time. Create, add, start, stop, take_left and destroy belong to the
 *            owner, one call at a time. Handlers run without a lock, one at a time, in the runner's
 *            thread, which blocks all signals and has the scheduling policy of the thread that
 *            called start, or in dispatch. After fork the child may only
 *            destroy a runner, whose thread runs in the parent; that frees the memory and calls
 *            nothing.
 */
#ifndef TICKWHEEL_RUNNER_H
#define TICKWHEEL_RUNNER_H

#include <tickwheel/clock.h>
#include <tickwheel/wheel.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tw_runner;

/* One wheel of a runner, with its tick, its limit and its handler. */
struct tw_runner_wheel;

/* The result of cancelling or moving a timer. Exactly one of two things happens to a scheduled
 * timer: its handler receives it, or one cancel returns TW_RUNNER_OK. */
enum tw_runner_answer {
    TW_RUNNER_DONE = 0, /* nothing to do: handled or cancelled before, or a stale handle */
    TW_RUNNER_RUNNING,  /* too late: the handler has been called with it and has not returned */
    TW_RUNNER_OK        /* done as asked */
};

/* How threads wait for one another. A call that uses a timer, and the runner for a batch, holds a
 * lock for less than a microsecond, but it may lose its processor meanwhile. */
enum tw_runner_wait {
    TW_RUNNER_WAIT_BY_POLICY = 0, /* TW_RUNNER_INHERIT if the thread that creates the runner has the
                                     policy SCHED_FIFO or SCHED_RR, otherwise TW_RUNNER_YIELD */
    TW_RUNNER_YIELD,  /* tries 1,024 times and yields, then sleeps 50 us between tries. A realtime
                         thread of middle priority can keep the holder from running, and so delay
                         those that wait */
    TW_RUNNER_INHERIT /* the holder runs with the priority of those that wait (a mutex with
                         PTHREAD_PRIO_INHERIT): twice the cost of a lock that is free */
};

/* Zero means the default in every field, so `(struct tw_runner_options){0}` is a good start. */
struct tw_runner_options {
    /* The clock to read and to wait on. Default tw_clock_monotonic(). */
    const struct tw_clock *clock;

    /* Choose TW_RUNNER_INHERIT if threads with a realtime policy use the runner. Default
     * TW_RUNNER_WAIT_BY_POLICY. */
    enum tw_runner_wait wait;

    /* The source of memory, as for wheel.h; called from any thread, one call at a time for each
     * wheel. Set both or neither. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

/* Zero means the default in every field but `handler`. */
struct tw_runner_wheel_options {
    /* Handles due timers, in order of tick; required. `timer` is the handle, and `deadline` is in
     * nanoseconds. It may call every function that any thread may call. A slow handler delays the
     * timers that are due next. */
    void (*handler)(void *context, const struct tw_expired *due, size_t count);
    void *context;

    /* The length of a tick; timers are handled when a tick begins, or at once when the runner
     * learns of a deadline that is already reached. Default 1,000,000, a millisecond; at most
     * 2^62. */
    uint64_t tick_ns;

    /* The most timers held at once, scheduled and opened together: over it schedule and open return
     * TW_NONE. Default and most: 2^30. */
    size_t timer_count_max;

    /* The most timers in one call of the handler. They count as running until the handler returns.
     * Default 64. */
    size_t batch_count_max;
};

/* A runner without wheels, not running. `options` may be NULL for all defaults and is copied. NULL
 * when out of memory. */
struct tw_runner *tw_runner_create(const struct tw_runner_options *options);

/* Stops the runner and frees it, its wheels and their timers; NULL is fine. */
void tw_runner_destroy(struct tw_runner *runner);

/* Another wheel, also while the runner runs. `options` is copied. NULL when out of memory. */
struct tw_runner_wheel *tw_runner_add(struct tw_runner *runner,
                                      const struct tw_runner_wheel_options *options);

/* Starts the runner's thread. False when the system gives none. At most once. */
bool tw_runner_start(struct tw_runner *runner);

/* Refuses schedule, open and arm from now on, and returns when the running handler has returned and
 * no handler will be called any more. Take the pending timers with tw_runner_take_left. Not from a
 * handler. Stopping twice is harmless. */
void tw_runner_stop(struct tw_runner *runner);

/* After stop: takes out up to `limit` timers that were still pending, each exactly once, due or
 * not, in any order. Returns how many; 0 when none is left. Those that a cancel takes out meanwhile
 * are not among them. */
size_t tw_runner_take_left(struct tw_runner_wheel *wheel, struct tw_expired *ret_left,
                           size_t limit);

/* What the runner's clock says. */
struct tw_instant tw_runner_now(const struct tw_runner *runner);

/* A timer due at `deadline` that will hand `data` to the wheel's handler; one already reached is
 * due at once. Its handle is good from here on, in any thread. Returns TW_NONE when over the limit,
 * out of memory or stopped. */
tw_handle tw_runner_schedule(struct tw_runner_wheel *wheel, struct tw_instant deadline,
                             uint64_t data);

/* Moves a scheduled timer to another deadline, later or earlier; the handle stays good. */
enum tw_runner_answer tw_runner_reschedule(struct tw_runner_wheel *wheel, tw_handle timer,
                                           struct tw_instant deadline);

/* Takes a scheduled timer out. Cancelling twice is harmless. */
enum tw_runner_answer tw_runner_cancel(struct tw_runner_wheel *wheel, tw_handle timer);

/* Opens a timer, unarmed, that passes `data` to the handler each time it was armed and is due,
 * until it is closed. Returns TW_NONE when over the limit, out of memory or stopped. */
tw_handle tw_runner_open(struct tw_runner_wheel *wheel, uint64_t data);

/* Gives an opened timer its deadline, in place of a deadline that it may have; TW_INSTANT_NEVER_NS
 * disarms it. It is handled once and is then unarmed; armed while its handler runs, it is handled
 * again. Never answers TW_RUNNER_RUNNING; TW_RUNNER_DONE means closed or stopped. */
enum tw_runner_answer tw_runner_arm(struct tw_runner_wheel *wheel, tw_handle timer,
                                    struct tw_instant deadline);

/* Arms an opened timer as tw_runner_arm does, but keeps an earlier deadline that the timer has. So
 * when several threads arm it at the same time, the earliest deadline counts. */
enum tw_runner_answer tw_runner_arm_sooner(struct tw_runner_wheel *wheel, tw_handle timer,
                                           struct tw_instant deadline);

/* Removes an opened timer's deadline. TW_RUNNER_OK: it had one and will not be handled for it.
 * TW_RUNNER_RUNNING: its handler is running, and will not be called for it again. TW_RUNNER_DONE:
 * it had no deadline, or is closed. */
enum tw_runner_answer tw_runner_disarm(struct tw_runner_wheel *wheel, tw_handle timer);

/* Closes an opened timer, armed or not. TW_RUNNER_RUNNING: it is closed, but its handler is still
 * running. TW_RUNNER_DONE: it was closed before. */
enum tw_runner_answer tw_runner_close(struct tw_runner_wheel *wheel, tw_handle timer);

/* For an event loop, in place of start: a descriptor that is readable when dispatch has work to do,
 * created at the first call; -1 when the system has none left. It belongs to the runner: do not
 * read it. On systems without timerfd (other than Linux), and with a clock other than the monotonic
 * one, it becomes readable only when a timer was set to be due sooner; there the loop must also
 * call dispatch at tw_runner_wake_at. */
int tw_runner_fd(struct tw_runner *runner);

/* Handles due timers in the calling thread, `limit` of each wheel or up to a batch more. Returns
 * their number; the descriptor stays readable when more are due. One thread at a time, not from a
 * handler, and not after start. */
size_t tw_runner_dispatch(struct tw_runner *runner, size_t limit);

/* The instant at which the runner wakes next unless a sooner timer is set: not after the earliest
 * deadline. TW_INSTANT_NEVER_NS when no timer is pending; 0 while the runner is awake. */
struct tw_instant tw_runner_wake_at(const struct tw_runner *runner);

/* Statistics of a wheel. The counters are read one by one: exact while no thread uses the wheel. */
struct tw_runner_stats {
    uint64_t pending;     /* timers with a deadline, TW_INSTANT_NEVER_NS included */
    uint64_t held;        /* valid handles: pending, running, or opened and unarmed */
    uint64_t scheduled;   /* schedules since creation */
    uint64_t cancelled;   /* cancels since creation */
    uint64_t fired;       /* timers passed to the handler since creation */
    uint64_t late_ns_p50; /* lateness of the call of the handler, at most 1/16 too high */
    uint64_t late_ns_p90;
    uint64_t late_ns_p99;
    uint64_t late_ns_p999;
    uint64_t late_ns_max;
    uint64_t callback_ns_max; /* the longest call of the handler */
    uint64_t callbacks;       /* calls of the handler */
    size_t memory;            /* bytes allocated for this wheel */
};

/* Reads the statistics of a wheel. */
void tw_runner_wheel_stats(struct tw_runner_wheel *wheel, struct tw_runner_stats *ret_stats);

/* Reads how full the buckets of the runner's inner wheels are, as tw_wheel_get_occupancy does:
 * their sum, with the fullest bucket of all. There is a wheel for each thread that schedules, up to
 * 32; other functions on its timers wait while it is read, a millisecond for a million timers. */
void tw_runner_wheel_occupancy(struct tw_runner_wheel *wheel,
                               struct tw_wheel_occupancy *ret_occupancy);

/* The number of times that the runner woke up, or that dispatch was called. */
uint64_t tw_runner_wakes(const struct tw_runner *runner);

/* For tests: aborts unless every invariant of the runner holds. No other thread may use the runner,
 * and its thread must not run. O(timers). */
void tw_runner_check(const struct tw_runner *runner);

#ifdef __cplusplus
}
#endif

#endif
