/*
 * wheel.h - a timing wheel: schedule, cancel, reschedule and expire timers in O(1).
 *
 * The wheel never reads a clock and never calls back. The caller passes the time in and takes
 * expired timers out, many at a time, so any run can be replayed:
 *
 *     struct tw_expired due[256];
 *     for (;;) {
 *         int count = epoll_wait(epoll, events, 64, tw_wheel_timeout(wheel, now_ms()));
 *         handle(events, count);
 *         size_t n = tw_wheel_expire(wheel, now_ms(), due, 256);
 *         for (size_t i = 0; i < n; i++)
 *             deliver(due[i].data);
 *     }
 *
 * A timer is held in one of two ways. Scheduled once: its handle becomes stale when it fires or is
 * cancelled (schedule, reschedule, cancel). Opened once and armed many times: its handle stays
 * valid until closed (open, arm, disarm, close), for connection time-outs and periodic jobs. Moving
 * either kind to a later deadline is one store.
 *
 * A caller that has many timers to change at once uses the verbs for many: x_many does what x does,
 * to the timers 0 to `count` - 1 in this order, and prefetches the memory of the timers ahead. With
 * a million timers in random order that takes a third of the time of single calls. The arrays are
 * the caller's and are not kept. A handle may be stale or occur twice.
 *
 * Time       Absolute ticks since any epoch, 64 bits; the caller decides how long a tick is. A
 *            timer never comes out before its deadline, and there is no horizon: any deadline below
 *            TW_NEVER fires, and TW_NEVER never does.
 * Errors     Only create, reserve, schedule and open can fail, when memory is short or over the
 *            limit given at creation. Misuse is a bug in the caller, which assert() reports.
 * Ownership  The wheel keeps the timers; the caller keeps handles. The handle of a timer that fired
 *            or was cancelled is stale: using it is harmless and never touches another timer.
 * Memory     Bounded by the most timers ever held at once, whatever is done with them afterwards;
 *            freed by destroy.
 * Threads    No globals and no locks: one wheel, one thread at a time.
 */
#ifndef TICKWHEEL_WHEEL_H
#define TICKWHEEL_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A deadline that is never reached, and the answer of an empty wheel. The largest time is one tick
 * before: a later `now` counts as TW_NEVER - 1. */
#define TW_NEVER UINT64_MAX

/* The handle that names no timer: always stale. */
#define TW_NONE ((tw_handle)0)

/* The constant part of the bound on the work of one call, see tw_wheel_expire. */
#define TW_WHEEL_MOVES_MAX 8192

struct tw_wheel;

/* Identifies a timer of one wheel: its slot, and the slot's generation. */
typedef uint64_t tw_handle;

/* Zero means the default in every field, so `(struct tw_wheel_options){0}` is a good start. */
struct tw_wheel_options {
    /* The tick at which the wheel's time starts. Default 0. */
    uint64_t start;

    /* The most timers held at once, scheduled and opened together: over it schedule and open return
     * TW_NONE. Default, and most: 2^32 - 1. */
    size_t timer_count_max;

    /* The source of memory, for callers that count or own it. `allocate` returns `size` bytes at a
     * multiple of `alignment`, a power of two of at most 2 MiB; NULL means out of memory. `release`
     * gives the bytes back. Set both or neither; both receive `context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

/* A timer that came due. */
struct tw_expired {
    uint64_t data;     /* as given to schedule or open */
    uint64_t deadline; /* as given to schedule, reschedule or arm */
    tw_handle timer;   /* opened: still good, arm it again; scheduled: stale, good for comparing */
};

/* An empty wheel. `options` may be NULL for all defaults and is copied. NULL when out of memory. */
struct tw_wheel *tw_wheel_create(const struct tw_wheel_options *options);

/* Frees the wheel and its timers; NULL is fine. */
void tw_wheel_destroy(struct tw_wheel *wheel);

/* Allocates memory for `count` timers held at once and touches its pages, so that holding up to
 * `count` timers neither allocates nor faults later, unless they are often moved to earlier
 * deadlines. Not touched are 8 bytes a timer that only deadlines need which are overdue, 2^32 ticks
 * away or earlier than the one before. Without it a call that needs more memory allocates up to 2
 * MiB at a time, and the first use of such a block can take milliseconds. False, with the wheel
 * unchanged, when out of memory or over the limit. */
bool tw_wheel_reserve(struct tw_wheel *wheel, size_t count);

/* Schedules a timer for `deadline` that will return `data`; a deadline already reached is due at
 * once. Returns TW_NONE when over the limit or out of memory. */
tw_handle tw_wheel_schedule(struct tw_wheel *wheel, uint64_t deadline, uint64_t data);

/* Moves a scheduled timer to another deadline, later or earlier; the handle stays good. Returns
 * false if the handle is stale, and cannot fail otherwise. */
bool tw_wheel_reschedule(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline);

/* Removes a scheduled timer. Returns false if the handle is stale, so cancelling twice is harmless.
 */
bool tw_wheel_cancel(struct tw_wheel *wheel, tw_handle timer);

/* Opens a timer, unarmed, that will return `data` each time it was armed and is due, until it is
 * closed. Returns TW_NONE when over the limit or out of memory. */
tw_handle tw_wheel_open(struct tw_wheel *wheel, uint64_t data);

/* Gives an opened timer its deadline, in place of a deadline that it may have; TW_NEVER disarms it.
 * It fires once and is then unarmed. Returns false if the handle is stale, and cannot fail
 * otherwise. */
bool tw_wheel_arm(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline);

/* Removes an opened timer's deadline. Returns whether it had one, so true means that the timer has
 * not fired for it and will not. */
bool tw_wheel_disarm(struct tw_wheel *wheel, tw_handle timer);

/* Closes an opened timer, armed or not. Returns false if the handle is stale. */
bool tw_wheel_close(struct tw_wheel *wheel, tw_handle timer);

/* Schedules `count` timers, each for the one of `deadlines` and with the one of `data` at its
 * place, and stores their handles in `ret_timers`. Returns the number of timers scheduled: less
 * than `count` when over the limit or out of memory, and then the first ones are scheduled and the
 * other handles are not written. */
size_t tw_wheel_schedule_many(struct tw_wheel *wheel, const uint64_t *deadlines,
                              const uint64_t *data, size_t count, tw_handle *ret_timers);

/* Cancels `count` scheduled `timers`. Returns the number of handles that were not stale. */
size_t tw_wheel_cancel_many(struct tw_wheel *wheel, const tw_handle *timers, size_t count);

/* Gives each of `count` opened `timers` the one of `deadlines` at its place. Returns the number of
 * handles that were not stale. */
size_t tw_wheel_arm_many(struct tw_wheel *wheel, const tw_handle *timers, const uint64_t *deadlines,
                         size_t count);

/* Disarms `count` opened `timers`. Returns the number of timers that had a deadline. */
size_t tw_wheel_disarm_many(struct tw_wheel *wheel, const tw_handle *timers, size_t count);

/* Closes `count` opened `timers`. Returns the number of handles that were not stale. */
size_t tw_wheel_close_many(struct tw_wheel *wheel, const tw_handle *timers, size_t count);

/* Prefetches a timer's memory, for a caller that knows some steps ahead which timers it will move
 * or cancel: a dozen or two ahead hide the wait for memory. Changes nothing; any handle is allowed,
 * also a stale one. */
void tw_wheel_prefetch(const struct tw_wheel *wheel, tw_handle timer);

/* Moves time forward to `now` and takes out up to `limit` timers that are due by then, in order of
 * deadline (equal deadlines in any order; a timer armed when it was already overdue counts as due
 * at that moment). Returns their number. Time never runs backwards: an earlier `now` changes
 * nothing.
 *
 * Besides the timers that it takes out, one call handles at most `limit` + TW_WHEEL_MOVES_MAX
 * entries. When a larger bucket must be opened to find the next timer (a million timers due in one
 * minute), the call returns the timers taken so far, possibly none, and the next call continues. So
 * a return below `limit` means that no due timer is left unless tw_wheel_is_behind(). A loop that
 * sleeps until tw_wheel_wake_at() misses none, because that is then not after `now`. */
inline size_t tw_wheel_expire(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due,
                              size_t limit);

/* Whether timers may be due at the wheel's time, because expire stopped early or a timer was armed
 * for a tick already reached: call expire again. While a timer is armed, it is true exactly when
 * tw_wheel_wake_at() is not after the wheel's time. O(1). */
inline bool tw_wheel_is_behind(const struct tw_wheel *wheel);

/* When to call expire again: never later than the earliest deadline, possibly sooner: at the former
 * deadline of a timer that was moved to a later one; at the start of a bucket that holds more than
 * a hundred timers; and at the former deadline of a cancelled timer, but expire then removes the
 * cancelled timers that follow, thousands in a call, up to the next armed one. TW_NEVER if no timer
 * is armed. O(levels), at worst a hundred entries read. */
uint64_t tw_wheel_wake_at(const struct tw_wheel *wheel);

/* Ticks from `now` until tw_wheel_wake_at(), as poll() and epoll_wait() take their time-out: 0 when
 * that is reached, -1 (forever) when no timer is armed, INT_MAX at most. */
int tw_wheel_timeout(const struct tw_wheel *wheel, uint64_t now);

/* The latest time passed to expire, or the start. */
uint64_t tw_wheel_now(const struct tw_wheel *wheel);

/* The number of timers with a deadline other than TW_NEVER. */
size_t tw_wheel_count(const struct tw_wheel *wheel);

/* All bytes allocated for this wheel. */
size_t tw_wheel_memory(const struct tw_wheel *wheel);

/* Fill of a wheel's buckets. */
struct tw_wheel_occupancy {
    size_t bucket_count;    /* non-empty buckets, of 8 levels of 256 */
    size_t entry_count;     /* entries in all buckets, stale ones included */
    size_t entry_count_max; /* entries in the fullest bucket */
};

/* Counts the entries of every bucket of `wheel` into `ret_occupancy`, without those of a bucket
 * that expire is opening. O(buckets + entries / 62). */
void tw_wheel_get_occupancy(const struct tw_wheel *wheel, struct tw_wheel_occupancy *ret_occupancy);

/* The place of a timer in a wheel. */
struct tw_wheel_place {
    uint64_t deadline; /* as last set */
    unsigned level;    /* 0 to 7: the buckets of level l are 256^l ticks wide */
    unsigned bucket;   /* 0 to 255, of that level */
};

/* Stores in `ret_place` the place of `timer` in `wheel`: the bucket of its deadline. A timer that
 * was moved to a later deadline may be in an earlier bucket, from where expire will move it there.
 * Returns false if the handle is stale or the timer has no deadline. O(1); for explaining, nothing
 * depends on it. */
bool tw_wheel_find(const struct tw_wheel *wheel, tw_handle timer, struct tw_wheel_place *ret_place);

/* For tests: aborts unless every invariant of the wheel holds, whether or not assert() is compiled
 * in. O(timers). */
void tw_wheel_check(const struct tw_wheel *wheel);

/* The first bytes of every wheel, for the inline definitions below, which make a tick without due
 * timers cheap. Their layout is part of the ABI. The library also exports what is inline here. */
struct tw_wheel_clock_ {
    uint64_t next_; /* no timer is due before */
    uint64_t now_;
    uint64_t cursor_;
};

/* The part of tw_wheel_expire that is not inline. For any `wheel`, `now`, `ret_due` and `limit` its
 * effect equals that of tw_wheel_expire, which calls it when a timer may be due. */
size_t tw_wheel_expire_due(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due,
                           size_t limit);

inline size_t tw_wheel_expire(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due,
                              size_t limit)
{
    struct tw_wheel_clock_ *clock = (struct tw_wheel_clock_ *)wheel;
    if (now <= clock->now_ || now >= clock->next_)
        return tw_wheel_expire_due(wheel, now, ret_due, limit);
    clock->now_ = clock->cursor_ = now;
    return 0;
}

inline bool tw_wheel_is_behind(const struct tw_wheel *wheel)
{
    const struct tw_wheel_clock_ *clock = (const struct tw_wheel_clock_ *)wheel;
    return clock->next_ <= clock->now_;
}

#ifdef __cplusplus
}
#endif

#endif
