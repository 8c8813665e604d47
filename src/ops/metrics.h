/*
 * metrics.h - what the service counts and measures; metrics_text.h shows it.
 *
 *     metrics_add(metrics, METRIC_ATTEMPTS, 1);
 *     metrics_set(metrics, METRIC_TIMERS_PENDING, stats.pending);
 *     metrics_observe_us(metrics, HISTOGRAM_COMMIT, elapsed_us);
 *
 * Time       Durations go in as microseconds or, for gauges, milliseconds (the name says so) and
 *            are shown in seconds.
 * Errors     Only metrics_create fails, and only for want of memory.
 * Threads    Any, without locks: relaxed atomics, each on a cache line of its own. A reader may see
 *            one metric before another that was written first.
 */
#ifndef TICKWHEEL_OPS_METRICS_H
#define TICKWHEEL_OPS_METRICS_H

#include "base/metric_list.h"
#include "base/time.h"
#include "base/trace.h"

#define METRIC_ROUTES      128           /* routes that have a label of their own */
#define METRIC_ROUTE_OTHER METRIC_ROUTES /* row of the requests that match no route */

enum metric {
#define X(id, field, kind, name, labels, scale, help) METRIC_##id,
    METRIC_LIST(X)
#undef X
        METRIC_COUNT
};

enum histogram {
#define X(id, name, labels, help) HISTOGRAM_##id,
    HISTOGRAM_LIST(X)
#undef X
        HISTOGRAM_COUNT
};

struct metrics;

/* Makes metrics that are all zero. `version` (borrowed) and `started` are shown. NULL when out
 * of memory. */
struct metrics *metrics_create(const char *version, struct wall started);
void metrics_destroy(struct metrics *metrics);

void metrics_add(struct metrics *metrics, enum metric metric, uint64_t count);

/* For gauges, and for counters that are counted elsewhere. */
void metrics_set(struct metrics *metrics, enum metric metric, uint64_t value);

uint64_t metrics_get(const struct metrics *metrics, enum metric metric);

/* Labels the requests of a route, from 0 on, with a text (borrowed) in place of its number. Before
 * requests are counted. */
void metrics_label_route(struct metrics *metrics, size_t route, const char *label);

/* Counts one answered request; `status` is its HTTP status. */
void metrics_add_request(struct metrics *metrics, size_t route, unsigned status);

void metrics_observe_us(struct metrics *metrics, enum histogram histogram, uint64_t us);

/* Likewise. If the observation belongs to a sampled trace, it becomes the exemplar of its bucket; a
 * trace of zeros is none. */
void metrics_observe_traced_us(struct metrics *metrics, enum histogram histogram, uint64_t us,
                               const struct trace_parent *trace);

/* Returns how many values were observed. */
uint64_t metrics_observed(const struct metrics *metrics, enum histogram histogram);

/* How many were observed in each bucket of a histogram; the last one takes what is above 2 h. */
#define METRICS_BUCKET_COUNT 38
void metrics_buckets(const struct metrics *metrics, enum histogram histogram,
                     uint64_t ret_buckets[METRICS_BUCKET_COUNT]);

/* The value that the share `quantile` (0..1) of all observations stays below, read off the buckets:
 * never too low, and above 100 µs at most twice the truth. 0 when nothing was observed, UINT64_MAX
 * above 2 h. */
uint64_t metrics_quantile_us(const struct metrics *metrics, enum histogram histogram,
                             double quantile);

/* Likewise, of the buckets of one histogram or the sums of several. */
uint64_t metrics_bucket_quantile_us(const uint64_t buckets[METRICS_BUCKET_COUNT], double quantile);

#endif
