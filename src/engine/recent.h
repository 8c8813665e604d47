/*
 * recent.h - keeps timers that a client named by their key after their entries were evicted. So a
 * time-out that is extended again and again is found without a read.
 *
 *     recent_keep(recent, timer)                a live and durable timer is evicted
 *     if (recent_find(recent, space, key))      no other live timer has the key
 *         timer = recent_take(recent, serial)   the timer gets an entry again
 *
 * Invariant  A kept timer is equal to its row in the storage: the caller takes it out before it
 *            makes an entry.
 * Memory     `bytes_max`, for timers and their places in the maps. Beyond it a tenant that has the
 *            most loses the timer that was kept first (timer/tenant_latest.h).
 * Time       O(1).
 * Ownership  Kept timers belong to it, taken ones to the caller.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_RECENT_H
#define TICKWHEEL_ENGINE_RECENT_H

#include "timer/name.h"
#include "timer/timer.h"

struct recent;

struct recent *recent_create(size_t bytes_max); /* returns NULL if out of memory */
void recent_destroy(struct recent *recent);

/* Keeps the timer, which has a key. Returns false if out of memory; then the caller still owns the
 * timer. */
bool recent_keep(struct recent *recent, struct timer *timer);

/* Returns the kept timer with this key; NULL if there is none. */
const struct timer *recent_find(const struct recent *recent, struct name_space space,
                                struct bytes key);

/* Removes and returns the timer with this serial; NULL if it is not kept. */
struct timer *recent_take(struct recent *recent, uint64_t serial);

/* Removes and returns a timer while the kept timers exceed `bytes_max`; otherwise NULL. */
struct timer *recent_take_excess(struct recent *recent);

size_t recent_count(const struct recent *recent);

/* True if the timer with this serial is kept. */
bool recent_has(const struct recent *recent, uint64_t serial);

#endif
