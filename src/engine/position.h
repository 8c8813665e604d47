/*
 * position.h - what the place of a timer's row says: whether it was spilled, or put ahead by a wall
 * clock that was wrong.
 *
 * A row lies at its timer's due time, but for retries, which lie where the pause ends, and spilled
 * timers, which lie some windows ahead. When the clock was ahead and is set right these are
 * *misplaced*: further ahead than they can have been put by the time it is now.
 *
 * Threads    No state but the serial numbers of the engine: any but for position_first.
 */
#ifndef TICKWHEEL_ENGINE_POSITION_H
#define TICKWHEEL_ENGINE_POSITION_H

#include "engine/engine.h"

/* Maximum pause after an outcome: 30 days, plus the millisecond of wall_coming(). */
#define POSITION_PAUSE_MS_MAX (UINT64_C(30) * 24 * 3600 * 1000 + 1)

/* Maximum time by which a delivery that never began is put off. */
#define POSITION_POSTPONE_MS_MAX (UINT64_C(24) * 3600 * 1000)

/* Gives a new timer its id and first position, in a turn. Returns false after 2^40 timers; a
 * restart begins a new epoch. */
bool position_first(struct engine *engine, struct timer *timer);

/* Returns the maximum pause after an outcome of this timer. */
uint64_t position_pause_ms_max(const struct timer *timer);

/* Returns the minimum time by which timers are spilled; they are spread over as much again. */
uint64_t position_spill_ms(const struct engine *engine);

/* Returns how far ahead a spilled timer may be, allowing for a small step back of the clock. */
uint64_t position_spill_ms_max(const struct engine *engine);

/* Returns a lower bound of the wall time at which the timer was placed; 0 if it is at its due
 * time, or where a client paused it. */
struct wall position_placed_at(const struct engine *engine, const struct timer *timer);

/* True if the timer was spilled, so that only want of room keeps it from acting. */
bool position_is_spilled(const struct engine *engine, const struct timer *timer);

/* True if the clock stepped back since the timer was placed ahead: a spilled timer is before its
 * due time, or a retried one further ahead than any back-off. No read ahead finds it there until
 * it is late. */
bool position_is_early(const struct engine *engine, const struct timer *timer);

/* True if it may be delivered now, by its time. */
bool position_is_due(const struct engine *engine, const struct timer *timer);

#endif
