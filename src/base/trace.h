/*
 * trace.h - the traceparent of W3C Trace Context: read from a request, made for a delivery.
 *
 *     struct trace_parent parent;
 *     if (trace_parent_parse(field, &parent))
 *         trace_parent_format(&parent, text);
 *
 * Errors     Text that is no traceparent is refused; by the standard the request then has none.
 * Threads    Pure functions: any.
 */
#ifndef TICKWHEEL_BASE_TRACE_H
#define TICKWHEEL_BASE_TRACE_H

#include "base/bytes.h"
#include "base/random.h"

#define TRACE_PARENT_SIZE 55 /* size of version 00, which is written */

struct trace_parent {
    uint64_t trace_high, trace_low; /* id of the trace; not both 0 */
    uint64_t span;                  /* the caller's span; not 0 */
    bool is_sampled;
};

/* Reads a field of version 00, or the first 55 bytes of a later version, which have that form.
 * Returns false for anything else: another length, capitals, an id of zeros, version ff. */
bool trace_parent_parse(struct bytes field, struct trace_parent *ret_parent);

/* Writes version 00 with a NUL. */
void trace_parent_format(const struct trace_parent *parent, char ret_text[TRACE_PARENT_SIZE + 1]);

/* Makes a trace with a new span. Two generators make the halves of its id, because one has only
 * 64 bits of state. */
struct trace_parent trace_parent_new(struct random *high, struct random *low, bool is_sampled);

#endif
