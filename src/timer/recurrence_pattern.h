/*
 * recurrence_pattern.h - for recurrence.c: the instants of a recurrence as if it had no `dates`.
 * With DATES_MOVE_PREVIOUS there are some after `until`, because they may be moved to before it.
 *
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_TIMER_RECURRENCE_PATTERN_H
#define TICKWHEEL_TIMER_RECURRENCE_PATTERN_H

#include "timer/recurrence.h"

/* Returns the first instant after `after`; WALL_NEVER if there is none. */
struct wall recurrence_pattern_next(const struct recurrence *recurrence, struct wall after);

/* Returns the last instant that is not after `at`; WALL_NEVER if there is none. */
struct wall recurrence_pattern_last(const struct recurrence *recurrence, struct wall at);

#endif
