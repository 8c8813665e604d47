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

/* The longest pause after an outcome, of any timer: 30 days, and the millisecond of
 * wall_coming(). */
#define POSITION_PAUSE_MS_MAX (UINT64_C(30) * 24 * 3600 * 1000 + 1)

/* The longest time by which a delivery that never began is put off. */
#define POSITION_POSTPONE_MS_MAX (UINT64_C(24) * 3600 * 1000)

/* Gives a new timer its id and its first position, in a turn. False after 2^40 timers: a restart
 * begins a new epoch. */
bool position_first(struct engine *engine, struct timer *timer);

/* How far ahead an outcome puts this timer, at most. */
uint64_t position_pause_ms_max(const struct timer *timer);

/* How far ahead timers are spilled, at least; as far again is their spread. */
uint64_t position_spill_ms(const struct engine *engine);

/* How far ahead a spilled timer may lie: as it was put, or the clock stepped back a little since.
 * */
uint64_t position_spill_ms_max(const struct engine *engine);

/* Lower bound of the wall time at which the timer was put where it is; 0: it lies at its due time,
 * or where a client wanted it paused. */
struct wall position_placed_at(const struct engine *engine, const struct timer *timer);

/* Only want of room keeps this timer from acting: it was spilled. */
bool position_is_spilled(const struct engine *engine, const struct timer *timer);

/* It was put behind its time and the clock stepped back since: a spilled timer, to before its due
 * time; a timer that is tried again, so far that no back-off can have put it there. No reading
 * ahead meets it there until it is late. */
bool position_is_early(const struct engine *engine, const struct timer *timer);

/* It may be delivered now, as far as the time goes. */
bool position_is_due(const struct engine *engine, const struct timer *timer);

#endif
