/*
 * pace.h - at most a number of events a second: a token bucket.
 *
 *     if (pace_has(&pace, rate, now))
 *         pace_take(&pace, rate, now);
 *     else
 *         wait until pace_next(&pace, rate);
 *
 * In any stretch of t milliseconds at most rate * t and the burst go through. The burst is what a
 * tenth of a second brings, and at least one: so a caller that is woken late loses nothing, and
 * nothing comes in gusts.
 *
 * A rate is in thousandths: 1000 is one a second, 250 one in four seconds. 0 has no meaning here.
 *
 * Time       Wall time, as the caller passes it in. A step back takes nothing and gives nothing; a
 *            step forward gives the burst at most.
 * Threads    No state but its own: any.
 */
#ifndef TICKWHEEL_ENGINE_PACE_H
#define TICKWHEEL_ENGINE_PACE_H

#include "base/time.h"

#include <stdbool.h>

#define PACE_RATE_MAX (UINT64_C(10000000) * 1000)

struct pace {
    uint64_t tokens;  /* in millionths */
    struct wall told; /* time up to which tokens were added */
};

/* Begins with a full bucket. */
void pace_init(struct pace *pace, uint64_t rate, struct wall now);

/* True if one may pass now. Adds the tokens up to now. */
bool pace_has(struct pace *pace, uint64_t rate, struct wall now);

/* Takes a token after pace_has returned true. Adds the tokens up to now first, so that none is
 * added for a time when the bucket was full. */
void pace_take(struct pace *pace, uint64_t rate, struct wall now);

/* Returns when the next one may pass, as of the last call. pace_full: when the bucket is full,
 * so that it may be forgotten. */
struct wall pace_next(const struct pace *pace, uint64_t rate);
struct wall pace_full(const struct pace *pace, uint64_t rate);

#endif
