/*
 * hashed.h - one wheel of buckets: deadlines hash to a bucket, those rotations away wait there.
 *
 * A deadline's bucket is its tick modulo the wheel's size, whatever its distance; the timer carries
 * the round in which it is due and stays where it is until then. So no timer is ever moved, and
 * memory is one bucket per tick of a rotation plus one slot per timer:
 *
 *     struct tw_hashed *wheel = tw_hashed_create(
 *         &(struct tw_hashed_options){.start = now, .tick = 100, .wheel_size = 512});
 *     tw_handle timer = tw_hashed_schedule(wheel, now + 30000, connection_id);
 *
 *     struct tw_expired due[64];
 *     do {
 *         size_t n = tw_hashed_expire(wheel, now, due, 64);
 *         for (size_t i = 0; i < n; i++)
 *             hang_up(due[i].data);
 *     } while (tw_hashed_is_behind(wheel));
 *     sleep_until(tw_hashed_wake_at(wheel));
 *
 * A bucket knows its nearest round and is passed over without a look at its timers until that is
 * due. When it is due, all timers of the bucket are looked at: choose a wheel about as long as the
 * common delay, or with more buckets than timers, and there is little else in it.
 *
 * Time       Absolute, 64 bits, in a unit of the caller's; `tick` units are one tick, and ticks are
 *            counted from `start`. A timer comes out at the first tick that is not before its
 *            deadline: never early, late by less than one tick. No horizon: any deadline below
 *            TW_NEVER fires, TW_NEVER does not.
 * Errors     Only create, reserve and schedule can fail, and only for want of memory or over the
 *            limit given at creation. Misuse is a bug in the caller: assert() reports it.
 * Ownership  The wheel keeps the timers; the caller keeps handles. The handle of a timer that fired
 *            or was cancelled is stale: using it is harmless and never touches another timer.
 * Memory     A cancelled timer's slot is free at once, so memory follows the most timers ever held
 *            at the same time. Freed by destroy.
 * Threads    No globals and no locks: one wheel, one thread at a time.
 */
#ifndef TICKWHEEL_HASHED_H
#define TICKWHEEL_HASHED_H

#include <tickwheel/wheel.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Timers of later rounds that one expire looks at, at most, see tw_hashed_expire. */
#define TW_HASHED_LOOKS_MAX 1024

struct tw_hashed;

/* Zero means the default in every field, so `(struct tw_hashed_options){0}` is a good start. */
struct tw_hashed_options {
    /* The instant from which ticks are counted, and the wheel's time at first. Default 0. */
    uint64_t start;

    /* How long a tick is. Default 1. */
    uint64_t tick;

    /* Buckets; rounded up to a power of two, at most 2^31. Default 512. */
    uint32_t wheel_size;

    /* The most timers held at once; over it schedule returns TW_NONE. Default: as many as have
     * names, about 2^32. */
    size_t timer_count_max;

    /* Where memory comes from, for callers that count it or own it. `allocate` returns NULL when
     * there is none, else `size` bytes on a multiple of `alignment`, a power of two; `release`
     * takes it back. Both or neither; both are handed `context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

/* A wheel of no timers. `options` may be NULL for all defaults and is copied. NULL when out of
 * memory. */
struct tw_hashed *tw_hashed_create(const struct tw_hashed_options *options);

/* Frees the wheel and its timers; NULL is fine. */
void tw_hashed_destroy(struct tw_hashed *wheel);

/* Takes now the memory for `count` timers held at once, so that scheduling up to so many does not
 * allocate. False, with nothing lost, when out of memory or over the limit. */
bool tw_hashed_reserve(struct tw_hashed *wheel, size_t count);

/* A timer due at `deadline` that will hand back `data`; one already reached is due at once, after
 * those that wait for the same tick. Returns TW_NONE when over the limit or out of memory. */
tw_handle tw_hashed_schedule(struct tw_hashed *wheel, uint64_t deadline, uint64_t data);

/* Moves a timer to another deadline, later or earlier; the handle stays good. Returns false if the
 * handle is stale, and cannot fail otherwise. */
bool tw_hashed_reschedule(struct tw_hashed *wheel, tw_handle timer, uint64_t deadline);

/* Takes the timer out. Returns false if the handle is stale, so cancelling twice is harmless. */
bool tw_hashed_cancel(struct tw_hashed *wheel, tw_handle timer);

/* Moves time forward to `now` and takes out up to `limit` timers that are due by then, in order of
 * tick (equal ticks in any order; what was overdue when scheduled may come sooner). Returns how
 * many. The handles are stale from then on; whoever handles a timer may schedule, cancel or
 * reschedule any other. Time never runs backwards: an earlier `now` changes nothing.
 *
 * One call looks at most at TW_HASHED_LOOKS_MAX timers besides those that it takes out. Where a
 * bucket holds more that wait for later rounds, it returns what it has, possibly nothing, and goes
 * on in the next call. So a short return means that none is left unless tw_hashed_is_behind().
 */
size_t tw_hashed_expire(struct tw_hashed *wheel, uint64_t now, struct tw_expired *ret_due,
                        size_t limit);

/* Whether expire stopped before it had seen all that is due at the wheel's time: call it again.
 * Also true after a timer was scheduled for a time already reached. O(1). */
bool tw_hashed_is_behind(const struct tw_hashed *wheel);

/* When to call expire again: never later than the tick of the next timer, and sooner only where a
 * timer that shares its bucket with others was cancelled or moved: at the tick that it had. Not
 * after the wheel's time while that is behind; TW_NEVER if no timer has a deadline other than
 * TW_NEVER. O(1). */
uint64_t tw_hashed_wake_at(const struct tw_hashed *wheel);

/* The latest time given to expire, or the start. */
uint64_t tw_hashed_now(const struct tw_hashed *wheel);

/* How many timers wait for a deadline other than TW_NEVER. */
size_t tw_hashed_count(const struct tw_hashed *wheel);

/* How often a timer was looked at that was not due yet, all in all: what a larger `wheel_size`
 * would save. */
uint64_t tw_hashed_look_count(const struct tw_hashed *wheel);

/* Bytes allocated for this wheel, all in all. */
size_t tw_hashed_memory(const struct tw_hashed *wheel);

/* For tests: aborts unless every invariant of the wheel holds, whether or not assert() is compiled
 * in. O(timers + buckets). */
void tw_hashed_check(const struct tw_hashed *wheel);

#ifdef __cplusplus
}
#endif

#endif
