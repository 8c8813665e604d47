/*
 * report.h - a timer that tells a target how a firing of another timer ended.
 *
 *     struct timer *report = report_create(timer, &run);
 *
 * A timer may have a target for firings with success (on_success), and one for firings that are
 * given up (on_dead). The end of such a firing makes a *report*: a timer of the same tenant that is
 * due at once, whose payload is the outcome as JSON. It is retried, dies and is redriven like any
 * other timer; it has no reports of its own.
 *
 *     {"id":"06h0...","key":"bill","labels":{"team":"a"},"planned":"2026-11-20T00:00:00.000Z",
 *      "started":"2026-11-20T00:00:00.012Z","duration_ms":40,"attempts":10,"outcome":"failed",
 *      "status":503,"error":"HTTP 503"}
 *
 * Errors     Only for want of memory.
 * Ownership  A report copies what it shows.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_REPORT_H
#define TICKWHEEL_TIMER_REPORT_H

#include "timer/runs.h"
#include "timer/timer.h"

/* Returns the target to which this end of a firing is reported; empty if there is none. */
struct bytes report_target(const struct timer *timer, enum run_outcome outcome);

/* Makes the report of `run`, for a timer with a target for it. Id and times are not set. NULL if
 * out of memory. */
struct timer *report_create(const struct timer *timer, const struct run *run);

#endif
