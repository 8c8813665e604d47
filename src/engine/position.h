/*
 * position.h - what the position of a timer's row tells: whether the timer was spilled, or put
 * ahead by a wall clock that was wrong.
 *
 * A row's position is its timer's due time. Exceptions are retries, whose position is the end of
 * the pause, and spilled timers, which are some windows ahead. If the clock was ahead and is set
 * right, such rows are *misplaced*: further ahead than the present time could have put them.
 *
 * Threads    Any, except for position_first, which changes the serial numbers of the engine.
 */
#ifndef TICKWHEEL_ENGINE_POSITION_H
#define TICKWHEEL_ENGINE_POSITION_H

#include "engine/engine.h"

/* Maximum pause after an outcome: 30 days, plus the millisecond of wall_coming(). */
#define POSITION_PAUSE_MS_MAX (UINT64_C(30) * 24 * 3600 * 1000 + 1)

/* Maximum time by which a delivery that never began is postponed: one day. */
#define POSITION_POSTPONE_MS_MAX (UINT64_C(24) * 3600 * 1000)

/* Gives a new timer its id and first position. Called within a turn. Returns false after 2^40
 * timers of an epoch; a restart begins a new epoch. */
bool position_first(struct engine *engine, struct timer *timer);

/* Returns the maximum pause after an outcome of this timer, in milliseconds. */
uint64_t position_pause_ms_max(const struct timer *timer);

/* Returns the minimum distance by which timers are spilled ahead, in milliseconds. Up to as much
 * again is added at random. */
uint64_t position_spill_ms(const struct engine *engine);

/* Returns the maximum distance of a spilled timer's position from now, in milliseconds. It allows
 * for a small step back of the clock. */
uint64_t position_spill_ms_max(const struct engine *engine);

/* Returns a lower bound of the wall time at which the timer's row was put at its position. 0 if the
 * position is the due time, or was set by a client's pause. */
struct wall position_placed_at(const struct engine *engine, const struct timer *timer);

/* True if the timer was spilled: it is due, and its position is in the future. An item that failed
 * in strict order is one, too, until the time after the failure is reached. */
bool position_is_spilled(const struct engine *engine, const struct timer *timer);

/* True if the clock stepped back since the timer's row was put ahead. Then a spilled timer, or one
 * that failed in strict order, is not due yet, or a retry waits longer than any back-off. A read
 * ahead would find the row there too late. */
bool position_is_early(const struct engine *engine, const struct timer *timer);

/* True if neither its position nor its due time is in the future. */
bool position_is_due(const struct engine *engine, const struct timer *timer);

#endif
