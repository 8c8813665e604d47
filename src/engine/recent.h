/*
 * recent.h - timers that a client named by their key and that left memory since: a time-out that is
 * extended again and again is found without a read.
 *
 *     recent_keep(recent, timer)                as it leaves memory, live and durable
 *     if (recent_find(recent, space, key))      no other live timer has the key
 *         timer = recent_take(recent, serial)   and it has an entry again
 *
 * Invariant  A timer in here is as the storage has it: its caller takes it out before it gets an
 *            entry.
 * Memory     `bytes_max`, footprints and the places in the maps; beyond it the first timer of a
 *            tenant that has the most goes first (timer/tenant_latest.h).
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

/* Keeps the timer, which has a key. Returns false if out of memory; the caller keeps it. */
bool recent_keep(struct recent *recent, struct timer *timer);

/* Returns NULL if there is none with this key. */
const struct timer *recent_find(const struct recent *recent, struct name_space space,
                                struct bytes key);

/* Takes the timer with this serial; NULL if it is not here. */
struct timer *recent_take(struct recent *recent, uint64_t serial);

/* Takes a timer while they exceed `bytes_max`; otherwise NULL. */
struct timer *recent_take_excess(struct recent *recent);

size_t recent_count(const struct recent *recent);

/* True if the timer is here. */
bool recent_has(const struct recent *recent, uint64_t serial);

#endif
