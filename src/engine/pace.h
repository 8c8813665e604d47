/*
 * pace.h - at most a number of events a second: a token bucket.
 *
 *     if (pace_has(&pace, rate, now))
 *         pace_take(&pace, rate, now);
 *     else
 *         wait until pace_next(&pace, rate);
 *
 * In any t milliseconds at most rate * t events and the burst may pass. The burst is the number of
 * events in a tenth of a second, at least one. So a caller that wakes up late loses nothing, and
 * events stay evenly spread.
 *
 * A rate is in billionths of an event per second: PACE_ONE is one a second, 32 about one a year. It
 * is not 0. It may differ from call to call.
 *
 * Time       Wall time, passed in by the caller. A step back changes nothing; a step forward adds
 *            at most the burst.
 * Threads    One thread at a time for each struct pace.
 */
#ifndef TICKWHEEL_ENGINE_PACE_H
#define TICKWHEEL_ENGINE_PACE_H

#include "base/time.h"

#include <stdbool.h>

#define PACE_ONE      UINT64_C(1000000000)
#define PACE_RATE_MAX (UINT64_C(10000000) * PACE_ONE)

struct pace {
    uint64_t tokens;  /* tokens in the bucket, in trillionths of an event */
    struct wall told; /* time until which tokens have been added */
};

/* Begins with a full bucket. */
void pace_init(struct pace *pace, uint64_t rate, struct wall now);

/* True if one event may pass now. Adds the tokens for the time until now. */
bool pace_has(struct pace *pace, uint64_t rate, struct wall now);

/* Takes a token after pace_has returned true. First adds the tokens for the time until now, so that
 * time with a full bucket is not counted later. */
void pace_take(struct pace *pace, uint64_t rate, struct wall now);

/* Returns when the next event may pass, as of the last call. pace_full: when the bucket is full, so
 * that its state need not be kept. */
struct wall pace_next(const struct pace *pace, uint64_t rate);
struct wall pace_full(const struct pace *pace, uint64_t rate);

#endif
