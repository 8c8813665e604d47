/*
 * backfill.h - a part of a schedule's past that fires now: what is asked, and how far it has come.
 *
 *     {"of":"06h0...","from":"2026-11-01T00:00:00.000Z","to":"2026-11-08T00:00:00.000Z",
 *      "rate":"10/s","count":300,"done":12}
 *
 * A backfill is a timer that repeats. It has the plan, content and retry policy of another timer,
 * and fires each of its instants from `from` on and before `to`, no faster than `rate`
 * (timer/firing.h makes it). This text lies in its schedule. A firing of a backfill that is a timer
 * of its own has `of` alone.
 *
 * Errors     False for a text that backfill_put would not write.
 * Ownership  A backfill points into its text.
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_TIMER_BACKFILL_H
#define TICKWHEEL_TIMER_BACKFILL_H

#include "base/bytes.h"
#include "base/time.h"

#define BACKFILL_COUNT_MAX    10000 /* firings of one backfill */
#define BACKFILL_RATE_MAX     1000  /* firings a second, minute or hour */
#define BACKFILL_RATE_DEFAULT "10/s"

struct backfill {
    struct bytes of; /* id of the timer whose instants fire; empty: this is no backfill */
    struct wall from, to;
    struct bytes rate; /* most firings a second, minute or hour: "10/s" */
    uint64_t pace_ms;  /* least time between the starts of two firings, by `rate`; 0 for none */
    uint64_t count;    /* number of firings in all; 0 for a single firing */
    uint64_t done;     /* number of firings that are over, or are timers of their own */
};

struct json_reader;

/* Appends the member "backfill" to the open JSON object, if this is one. */
void backfill_put(const struct backfill *backfill, struct buffer *to);

/* Reads the value of that member. */
bool backfill_read(struct json_reader *reader, struct backfill *ret_backfill);

/* Reads "10/s", "1/m" or "60/h", with 1 to BACKFILL_RATE_MAX. Returns the least time between two
 * firings, in milliseconds. */
bool backfill_rate_parse(struct bytes text, uint64_t *ret_pace_ms);

#endif
