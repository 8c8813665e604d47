/*
 * clock.h - the service's only sight of the machine's clocks.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_SYS_CLOCK_H
#define TICKWHEEL_SYS_CLOCK_H

#include "base/time.h"

#include <time.h>

/* CLOCK_REALTIME; it can step. */
struct wall wall_now(void);

/* The same, but the millisecond to come instead of the one that has begun. What a client asks for
 * as "from now" counts from here, so that by no clock, however fine, does it come early. */
struct wall wall_coming(void);

/* Wall time in microseconds since the epoch, for measuring lateness. */
uint64_t wall_now_us(void);

/* CLOCK_MONOTONIC. */
struct instant instant_now(void);

/* What the wall shows at that instant if it does not step, or a moment less; now for what is past.
 */
struct wall instant_wall(struct instant instant);

/* The instant as the system's calls take it, for a wait with a deadline on CLOCK_MONOTONIC. */
struct timespec instant_timespec(struct instant instant);

#endif
