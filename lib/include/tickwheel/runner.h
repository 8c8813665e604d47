/*
 * runner.h - drives wheels: timers from any thread, handled by one, which sleeps while none is due.
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
 * As with wheel.h, a timer is held in one of two ways. Scheduled once: its handle dies when it was
 * handled or cancelled (schedule, reschedule, cancel). Opened once and armed many times, also while
 * its handler runs: its handle lives until closed (open, arm, arm_sooner, disarm, close).
 *
 * In place of a thread of its own a runner can live in an event loop (epoll, libuv, libevent): do
 * not start it, watch tw_runner_fd for reading, and call tw_runner_dispatch when it is readable.
 *
 * Time       Instants of the runner's clock, absolute. Never early; late by less than one tick of
 *            the wheel, and by what the machine adds. TW_INSTANT_NEVER_NS never comes. Should the
 *            clock go back, what it said before counts.
 * Errors     Create, add, start, schedule and open can fail for want of memory, of a thread or of a
 *            descriptor, or over the limit of the wheel; nothing is lost by that. Misuse is a bug
 *            in the caller: assert() reports it.
 * Ownership  The runner keeps the timers, the caller keeps handles. The handle of a timer that is
 *            done is stale: using it is harmless and never touches another timer.
 * Memory     Bounded by the most timers ever held at once; given back by destroy. A cancelled timer
 *            holds none, however far off it was.
 * Threads    Any thread, and every handler, may use schedule to close at the same time, and the
 *            queries. Create, add, start, stop, take_left and destroy: the owner, one at a time.
 *            Handlers run outside of all locks, one at a time, in the runner's thread or in
 *            dispatch.
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

/* What became of a timer that was to be cancelled or moved. Exactly one of two things happens to a
 * scheduled timer: it is handed to its handler, or one cancel is answered TW_RUNNER_OK. */
enum tw_runner_answer {
    TW_RUNNER_DONE = 0, /* nothing to do: handled or cancelled before; a stale handle */
    TW_RUNNER_RUNNING,  /* too late: the handler has been called with it and has not returned */
    TW_RUNNER_OK        /* done as asked */
};

/* Zero means the default in every field, so `(struct tw_runner_options){0}` is a good start. */
struct tw_runner_options {
    /* What time it is and how to wait. Default tw_clock_monotonic(). */
    const struct tw_clock *clock;

    /* Where memory comes from, as for wheel.h; called from any thread, one at a time for a wheel.
     * Both or neither. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

/* Zero means the default in every field but `handler`. */
struct tw_runner_wheel_options {
    /* Handles timers that came due, in order of tick; must be given. `timer` names each, and
     * `deadline` is in nanoseconds. It may do whatever any thread may. What takes long delays the
     * timers that are due next. */
    void (*handler)(void *context, const struct tw_expired *due, size_t count);
    void *context;

    /* How long a tick is: timers come out when one begins. Default 1,000,000, a millisecond. */
    uint64_t tick_ns;

    /* The most timers held at once, scheduled and opened together: over it schedule and open return
     * TW_NONE. Default and most: 2^30. */
    size_t timer_count_max;

    /* The most timers in one call of the handler. They count as running until it returns. Default
     * 64. */
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

/* From here on schedule, open and arm are refused; returns when the handler that was under way has
 * returned and none is called any more. What is pending can be taken with tw_runner_take_left.
 * Not from a handler. Stopping twice is harmless. */
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

/* A timer that will hand `data` to the handler whenever it was armed and came due, until it is
 * closed. Not yet armed. Returns TW_NONE when over the limit, out of memory or stopped. */
tw_handle tw_runner_open(struct tw_runner_wheel *wheel, uint64_t data);

/* Gives an opened timer its deadline, in place of the one it may have; TW_INSTANT_NEVER_NS disarms
 * it. It is handled once and is then unarmed; armed while its handler runs, it is handled again.
 * Never answers TW_RUNNER_RUNNING; TW_RUNNER_DONE means closed or stopped. */
enum tw_runner_answer tw_runner_arm(struct tw_runner_wheel *wheel, tw_handle timer,
                                    struct tw_instant deadline);

/* The same, but leaves an earlier deadline that the timer has as it is. So when several threads say
 * at the same time how soon they need it, the earliest counts. */
enum tw_runner_answer tw_runner_arm_sooner(struct tw_runner_wheel *wheel, tw_handle timer,
                                           struct tw_instant deadline);

/* Takes an opened timer's deadline away. TW_RUNNER_OK: it had one, and will not be handled for it;
 * TW_RUNNER_RUNNING: its handler has it just now, and will not get it again; TW_RUNNER_DONE: it had
 * none, or is closed. */
enum tw_runner_answer tw_runner_disarm(struct tw_runner_wheel *wheel, tw_handle timer);

/* Ends an opened timer, armed or not. TW_RUNNER_RUNNING: it is closed, but its handler has it just
 * now; TW_RUNNER_DONE: it was closed before. */
enum tw_runner_answer tw_runner_close(struct tw_runner_wheel *wheel, tw_handle timer);

/* For an event loop, in place of start: a descriptor that is readable when dispatch has something
 * to do, made at the first call; -1 when the system gives none. It is the runner's: do not read it.
 * Where the system has no timerfd (elsewhere than on Linux), and on a clock other than the
 * monotonic one, it becomes readable only when a timer was set to be due sooner; there the loop
 * must also call dispatch at tw_runner_wake_at. */
int tw_runner_fd(struct tw_runner *runner);

/* Handles what is due, up to `limit` timers of each wheel or somewhat more, in the calling thread.
 * Returns how many; the descriptor stays readable when more are due. One thread at a time, not from
 * a handler, and not after start. */
size_t tw_runner_dispatch(struct tw_runner *runner, size_t limit);

/* When the runner looks next unless a sooner timer is set: no later than the earliest deadline.
 * TW_INSTANT_NEVER_NS when it has nothing to wait for; 0 while it is awake. */
struct tw_instant tw_runner_wake_at(const struct tw_runner *runner);

/* Figures of a wheel. Counted one by one while threads go on: exact when they rest. */
struct tw_runner_stats {
    uint64_t pending;     /* wait for a deadline, also for one that never comes */
    uint64_t held;        /* handles that are good: pending, running, or opened and unarmed */
    uint64_t scheduled;   /* ever, with schedule */
    uint64_t cancelled;   /* ever, with cancel */
    uint64_t fired;       /* handed to the handler, ever */
    uint64_t messages;    /* times that a timer was brought to the runner's notice */
    uint64_t late_ns_p50; /* how late timers were handed over, to within 1/16 */
    uint64_t late_ns_p90;
    uint64_t late_ns_p99;
    uint64_t late_ns_p999;
    uint64_t late_ns_max;
    uint64_t callback_ns_max; /* the longest call of the handler */
    uint64_t callbacks;       /* calls of the handler */
    size_t memory;            /* bytes allocated for this wheel */
};

/* The figures of a wheel as they are now. */
void tw_runner_wheel_stats(struct tw_runner_wheel *wheel, struct tw_runner_stats *ret_stats);

/* How full the buckets of the wheel within are, as tw_wheel_occupancy says. Its entries are
 * reminders: of timers that came to the runner's notice, and of some that left since. Holds up the
 * runner meanwhile: a millisecond for a million timers. */
void tw_runner_wheel_occupancy(struct tw_runner_wheel *wheel,
                               struct tw_wheel_occupancy *ret_occupancy);

/* Times that the runner woke up, or that dispatch was called. */
uint64_t tw_runner_wakes(const struct tw_runner *runner);

/* For tests: aborts unless every invariant of the runner holds. Nobody else may be using the
 * runner, and its thread must not run. O(timers). */
void tw_runner_check(const struct tw_runner *runner);

#ifdef __cplusplus
}
#endif

#endif
