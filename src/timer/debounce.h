/*
 * debounce.h - a time that calls move: so long after the last call, but no later than so long after
 * the first.
 *
 *     {"for":"30s","at_most":"10m","first":"2026-11-20T12:00:00.000Z"}
 *
 * A call that puts a timer by its key gives a debounce in place of a time. The first call makes the
 * timer; each later one moves its due time, until it is due. A put after the firing begins anew.
 *
 * Errors     ERROR_CORRUPT for a text that debounce_write would not write.
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_TIMER_DEBOUNCE_H
#define TICKWHEEL_TIMER_DEBOUNCE_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

#define DEBOUNCE_TEXT_SIZE 160 /* more than any text has */

struct debounce {
    uint64_t for_ms;     /* from a call to the firing */
    uint64_t at_most_ms; /* from the first call to the firing; at least for_ms */
    struct wall first;   /* time of the first call */
};

/* Writes the text to `room`. */
struct bytes debounce_write(const struct debounce *debounce, char room[DEBOUNCE_TEXT_SIZE]);

enum error_code debounce_read(struct bytes text, struct debounce *ret_debounce);

/* Returns the due time after a call at `call`. */
struct wall debounce_due(const struct debounce *debounce, struct wall call);

#endif
