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

#define TRACE_PARENT_SIZE 55 /* size of a field of version 00, the version that is written */

/* Stands for the traceparent of a timer that had none and whose trace is not exported. */
#define TRACE_UNSAMPLED "-"

struct trace_parent {
    uint64_t trace_high, trace_low; /* halves of the trace's id; not both 0 */
    uint64_t span;                  /* id of the caller's span; not 0 */
    bool is_sampled;
};

/* Reads a field of version 00, or of a later version whose first 55 bytes have that form. Returns
 * false for anything else: another length, capitals, an id of zeros, version ff. */
bool trace_parent_parse(struct bytes field, struct trace_parent *ret_parent);

/* Writes a field of version 00, and a NUL. */
void trace_parent_format(const struct trace_parent *parent, char ret_text[TRACE_PARENT_SIZE + 1]);

/* Makes a trace with a new id and span. Each half of the id comes from a generator of its own,
 * because one has only 64 bits of state. */
struct trace_parent trace_parent_new(struct random *high, struct random *low, bool is_sampled);

#endif
