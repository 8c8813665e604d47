/*
 * named_limits.h - the limits of a named target: a member of its definition, as clients send it and
 * as it is stored and shown.
 *
 *     "limits": {"concurrency": 2, "rate": "10/s"}
 *
 * Errors     A wrong member is reported as a sentence.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_NAMED_LIMITS_H
#define TICKWHEEL_TIMER_NAMED_LIMITS_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define NAMED_LIMITS "limits" /* name of the member */

struct named_limits {
    uint32_t concurrency; /* maximum of deliveries in flight; 0 means no limit */
    uint32_t rate;        /* maximum of deliveries in a period; 0 means no limit */
    uint64_t period_ms;   /* 0 if there is no rate */
};

enum named_limits_result { NAMED_LIMITS_READ, NAMED_LIMITS_WRONG, NAMED_LIMITS_UNKNOWN };

/* Reads the value of one member. NAMED_LIMITS_WRONG: `ret_reason` says what it must be, or that it
 * is given twice. NAMED_LIMITS_UNKNOWN: there is no member of this name. */
enum named_limits_result named_limits_read(struct json_reader *reader, struct bytes name,
                                           struct named_limits *limits, const char **ret_reason);

/* Appends the object to the open one; nothing if there are no limits. */
void named_limits_put(const struct named_limits *limits, struct buffer *out);

/* Returns the limits of a stored definition. It has none if it cannot be read. O(definition). */
struct named_limits named_limits_of(struct bytes definition);

#endif
