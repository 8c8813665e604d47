/*
 * collector.h - sends spans to a collector of OpenTelemetry: OTLP over HTTP, with JSON.
 *
 *     collector_init(&collector, config, &error)
 *     collector_begin(&collector);
 *     collector_add(&collector, &span);                       up to COLLECTOR_SPANS_MAX
 *     verdict = collector_send(&collector, limits, &reply);   again after a COLLECTOR_RETRY
 *     collector_deinit(&collector);
 *
 * Threads    None: one owner. `is_over` of the limits is called within collector_send.
 */
#ifndef TICKWHEEL_TELEMETRY_COLLECTOR_H
#define TICKWHEEL_TELEMETRY_COLLECTOR_H

#include "ops/config.h"
#include "telemetry/span.h"

#include <curl/curl.h>

#define COLLECTOR_SPANS_MAX    512        /* spans in a request */
#define COLLECTOR_ANSWER_BYTES (16 << 10) /* bytes read of an answer; the rest is dropped */

enum collector_verdict {
    COLLECTOR_TAKEN,
    COLLECTOR_RETRY,   /* no answer, or one that asks for a repetition: 429, 502, 503, 504 */
    COLLECTOR_REFUSED, /* any other answer: a repetition would not help */
};

struct collector_reply {
    uint64_t retry_after_ms; /* pause that the collector asked for; 0 if none */
    size_t rejected;         /* spans that it did not take, with COLLECTOR_TAKEN */
    struct error cause;      /* why spans were not taken; without secrets */
};

struct collector {
    CURL *easy_;
    struct curl_slist *headers_;
    struct buffer resource_; /* begin of each body: the resource and the scope */
    struct buffer body_;
    struct buffer answer_;
    size_t count_; /* spans in the body */
};

/* Reads the settings otlp_*. ERROR_INVALID names the setting that is wrong. On an error there is
 * nothing to deinit. */
enum error_code collector_init(struct collector *collector, const struct config *config,
                               struct error *ret_error);
void collector_deinit(struct collector *collector);

/* Begins a request without spans. */
void collector_begin(struct collector *collector);

/* Adds a span. */
void collector_add(struct collector *collector, const struct span *span);

/* Returns the number of spans in the request. */
static inline size_t collector_count(const struct collector *collector)
{
    return collector->count_;
}

/* Sends the request and waits for its answer, at most `timeout_ms`, and as long as `is_over`
 * returns false. `ret_reply` is always set. */
enum collector_verdict collector_send(struct collector *collector, uint64_t timeout_ms,
                                      bool (*is_over)(void *context), void *context,
                                      struct collector_reply *ret_reply);

/* Returns N of an answer {"partialSuccess":{"rejectedSpans":"N"}}; 0 if it has another form. */
uint64_t collector_rejected(struct bytes answer);

#endif
