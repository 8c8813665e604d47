/*
 * spans.h - spans on their way to a collector of OpenTelemetry: a bounded queue for each thread
 * that adds, and one thread that sends.
 *
 *     spans_start(&options, &spans, &error);      NULL if otlp_endpoint is empty
 *     context = spans_child(spans, thread, &parent);
 *     ...
 *     spans_add(spans, thread, &span);            never waits
 *     spans_stop(spans);
 *
 * Which trace a span belongs to, by OpenTelemetry's conventions for messages: the creation of a
 * timer is a child of its caller's span, and the timer keeps its context. The time that it waits is
 * a child of the creation. Each attempt to deliver it is a trace of its own that is linked to the
 * creation, because it may be hours later, and one creation may have thousands.
 *
 * Time       A span is sent SPANS_DELAY_MS after it was added, or earlier with many others.
 * Errors     A span for which the queue has no room, that the collector refuses, or that it has not
 *            taken SPANS_RETRY_MS after it was first sent, is dropped and counted.
 * Ownership  Spans are copied.
 * Threads    add, child and follow: of one number, one thread at a time. start and stop: one.
 */
#ifndef TICKWHEEL_TELEMETRY_SPANS_H
#define TICKWHEEL_TELEMETRY_SPANS_H

#include "ops/config.h"
#include "ops/metrics.h"
#include "telemetry/span.h"

#define SPANS_DELAY_MS     1000      /* time for which a span waits for others */
#define SPANS_FEEDER_BYTES (4 << 20) /* limit of the spans of one thread that wait */
#define SPANS_RETRY_MS     60000     /* time for which a request is repeated */
#define SPANS_PAUSE_MS_MAX 30000     /* limit of the pause between two tries */
#define SPANS_STOP_MS      2000      /* time that a stop gives to what waits */

struct spans_options {
    const struct config *config; /* borrowed until stop, as are the metrics */
    struct metrics *metrics;
    unsigned feeders; /* number of threads that add */
};

struct spans;

/* Starts the thread. If otlp_endpoint is empty, `ret_spans` is NULL. ERROR_INVALID names a setting
 * that is wrong. */
enum error_code spans_start(const struct spans_options *options, struct spans **ret_spans,
                            struct error *ret_error);

/* Sends what waits, for at most SPANS_STOP_MS, and ends the thread. NULL is allowed. */
void spans_stop(struct spans *spans);

/* Makes the context of a span in the caller's trace, or in a new one if `parent` is NULL. */
struct trace_parent spans_child(struct spans *spans, unsigned feeder,
                                const struct trace_parent *parent);

/* Makes the context of the root of a new trace, which is linked to `link`. It is sampled if `link`
 * is. If `link` is NULL the sampler decides. */
struct trace_parent spans_follow(struct spans *spans, unsigned feeder,
                                 const struct trace_parent *link);

/* Adds a span of a sampled trace. */
void spans_add(struct spans *spans, unsigned feeder, const struct span *span);

/* Returns the number of spans that were dropped, and the last cause. */
uint64_t spans_dropped(struct spans *spans, struct error *ret_cause);

#endif
