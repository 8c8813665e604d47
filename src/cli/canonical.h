/*
 * canonical.h - JSON in one form, so that texts of equal meaning are equal: without white space,
 * members in the order of their names, strings with the fewest escapes. Numbers stay as written.
 *
 *     canonical_append(&a, timer);
 *     if (!bytes_equal(buffer_bytes(&a), buffer_bytes(&b)))
 *         canonical_differ(buffer_bytes(&a), buffer_bytes(&b), on_difference, context);
 *
 * Time       O(text log members), times the depth.
 * Errors     The buffer remembers that it could not grow.
 * Threads    Any: no globals.
 */
#ifndef TICKWHEEL_CLI_CANONICAL_H
#define TICKWHEEL_CLI_CANONICAL_H

#include "base/bytes.h"

/* Appends the value, which is valid JSON. */
void canonical_append(struct buffer *out, struct bytes json);

/* A member that differs: its names from the outside in, joined by dots; the values, without data
 * where there is none. */
typedef void (*canonical_difference)(void *context, struct bytes name, struct bytes old,
                                     struct bytes new);

/* Calls `each` for the innermost members that differ between two canonical objects. */
void canonical_differ(struct bytes old, struct bytes new, canonical_difference each, void *context);

#endif
