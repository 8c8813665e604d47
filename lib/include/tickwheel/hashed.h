/*
 * hashed.h - a hashed timing wheel: one wheel of buckets, in which timers of later rotations wait.
 *
 * A deadline's bucket is its tick modulo the wheel's size, whatever its distance; the timer stores
 * the round in which it is due and stays in its bucket until then. So no timer is ever moved, and
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
 * A bucket stores its nearest round and is skipped, without reading its timers, until that round is
 * due. Then all timers of the bucket are read. Choose a wheel about as long as the common delay, or
 * with more buckets than timers, so that most timers read are due.
 *
 * Time       Absolute, 64 bits, in a unit of the caller's; `tick` units are one tick, and ticks are
 *            counted from `start`. A timer comes out at the first tick that is not before its
 *            deadline: never early, late by less than one tick. No horizon: any deadline below
 *            TW_NEVER fires, TW_NEVER does not.
 * Errors     Only create, reserve and schedule can fail, when memory is short or over the limit
 *            given at creation. Misuse is a bug in the caller, which assert() reports.
 * Ownership  The wheel keeps the timers; the caller keeps handles. The handle of a timer that fired
 *            or was cancelled is stale: using it is harmless and never touches another timer.
 * Memory     A cancelled timer's slot is free at once, so memory follows the most timers ever held
 *            at one time. Freed by destroy.
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

/* The most timers of later rounds that one expire reads, see tw_hashed_expire. */
#define TW_HASHED_LOOKS_MAX 1024

struct tw_hashed;

/* Zero means the default in every field, so `(struct tw_hashed_options){0}` is a good start. */
struct tw_hashed_options {
    /* The time from which ticks are counted and at which the wheel starts. Default 0. */
    uint64_t start;

    /* How long a tick is. Default 1. */
    uint64_t tick;

    /* Buckets; rounded up to a power of two, at most 2^31. Default 512. */
    uint32_t wheel_size;

    /* The most timers held at once; over it schedule returns TW_NONE. Default: about 2^32, the
     * number of distinct handles. */
    size_t timer_count_max;

    /* The source of memory, for callers that count or own it. `allocate` returns `size` bytes at a
     * multiple of `alignment`, a power of two; NULL means out of memory. `release` gives the bytes
     * back. Set both or neither; both receive `context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

/* An empty wheel. `options` may be NULL for all defaults and is copied. NULL when out of memory. */
struct tw_hashed *tw_hashed_create(const struct tw_hashed_options *options);

/* Frees the wheel and its timers; NULL is fine. */
void tw_hashed_destroy(struct tw_hashed *wheel);

/* Allocates memory for `count` timers held at once, so that scheduling up to `count` timers does
 * not allocate. False, with the wheel unchanged, when out of memory or over the limit. */
bool tw_hashed_reserve(struct tw_hashed *wheel, size_t count);

/* Schedules a timer for `deadline` that will return `data`. A deadline already reached is due at
 * once, after the other timers of its tick. Returns TW_NONE when over the limit or out of memory.
 */
tw_handle tw_hashed_schedule(struct tw_hashed *wheel, uint64_t deadline, uint64_t data);

/* Moves a timer to another deadline, later or earlier; the handle stays good. Returns false if the
 * handle is stale, and cannot fail otherwise. */
bool tw_hashed_reschedule(struct tw_hashed *wheel, tw_handle timer, uint64_t deadline);

/* Removes the timer. Returns false if the handle is stale, so cancelling twice is harmless. */
bool tw_hashed_cancel(struct tw_hashed *wheel, tw_handle timer);

/* Moves time forward to `now` and takes out up to `limit` timers that are due by then, in order of
 * tick (equal ticks in any order; timers that were overdue when scheduled may come sooner). Returns
 * their number. Their handles are stale from then on; the caller may schedule, cancel or reschedule
 * any other timer while handling them. Time never runs backwards: an earlier `now` changes nothing.
 *
 * One call reads at most TW_HASHED_LOOKS_MAX timers besides those that it takes out. When a bucket
 * holds more timers of later rounds, the call returns the timers taken so far, possibly none, and
 * the next call continues. So a return below `limit` means that no due timer is left unless
 * tw_hashed_is_behind(). */
size_t tw_hashed_expire(struct tw_hashed *wheel, uint64_t now, struct tw_expired *ret_due,
                        size_t limit);

/* Whether timers may be due at the wheel's time, because expire stopped early or a timer was
 * scheduled for a time already reached: call expire again. O(1). */
bool tw_hashed_is_behind(const struct tw_hashed *wheel);

/* When to call expire again: never later than the tick of the next timer. It is sooner only when a
 * timer that shares its bucket with others was cancelled or moved: then it may be that timer's old
 * tick. Not after the wheel's time while the wheel is behind; TW_NEVER if no timer has a deadline
 * other than TW_NEVER. O(1). */
uint64_t tw_hashed_wake_at(const struct tw_hashed *wheel);

/* The latest time given to expire, or the start. */
uint64_t tw_hashed_now(const struct tw_hashed *wheel);

/* How many timers wait for a deadline other than TW_NEVER. */
size_t tw_hashed_count(const struct tw_hashed *wheel);

/* How often a timer was read before it was due, since creation: the work that a larger `wheel_size`
 * would save. */
uint64_t tw_hashed_look_count(const struct tw_hashed *wheel);

/* All bytes allocated for this wheel. */
size_t tw_hashed_memory(const struct tw_hashed *wheel);

/* For tests: aborts unless every invariant of the wheel holds, whether or not assert() is compiled
 * in. O(timers + buckets). */
void tw_hashed_check(const struct tw_hashed *wheel);

#ifdef __cplusplus
}
#endif

#endif
