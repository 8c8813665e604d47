/*
 * explain.h - GET /v1/timers/{id}/explain: where a timer is, why it waits, and what made it late.
 */
#ifndef TICKWHEEL_API_TIMERS_EXPLAIN_H
#define TICKWHEEL_API_TIMERS_EXPLAIN_H

#include "api/core/call.h"

void explain_end(struct call *call);

/* Appends the explanation of a timer: the sentence and the fields. `target` may be NULL: its state
 * is not known. */
void explain_format(const struct timer *timer, const struct explained *explained,
                    const struct target_status *target, struct buffer *out);

#endif
