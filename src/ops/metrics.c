/* metrics.c - counters, gauges, histograms and their exemplars. */
#include "ops/metrics_private.h"

#include "sys/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

const uint64_t metrics_bounds_us[METRICS_BOUND_COUNT] = {
    100,       200,        300,        500,        700,        1000,      2000,      3000,
    5000,      7000,       10000,      20000,      30000,      50000,     70000,     100000,
    200000,    300000,     500000,     700000,     1000000,    2000000,   3000000,   5000000,
    7000000,   10000000,   20000000,   30000000,   60000000,   120000000, 180000000, 300000000,
    600000000, 1200000000, 1800000000, 3600000000, 7200000000,
};

static void metrics_add_to(_Atomic uint64_t *value, uint64_t count)
{
    atomic_fetch_add_explicit(value, count, memory_order_relaxed);
}

struct metrics *metrics_create(const char *version, struct wall started)
{
    size_t size = (sizeof(struct metrics) + 63) / 64 * 64;
    struct metrics *metrics = aligned_alloc(64, size);

    if (!metrics)
        return NULL;
    memset(metrics, 0, size);
    metrics->route_labels[METRIC_ROUTE_OTHER] = "other";
    metrics->version = version;
    metrics->started = started;
    return metrics;
}

void metrics_destroy(struct metrics *metrics)
{
    free(metrics);
}

void metrics_add(struct metrics *metrics, enum metric metric, uint64_t count)
{
    metrics_add_to(&metrics->counters[metric].value, count);
}

void metrics_set(struct metrics *metrics, enum metric metric, uint64_t value)
{
    atomic_store_explicit(&metrics->counters[metric].value, value, memory_order_relaxed);
}

uint64_t metrics_get(const struct metrics *metrics, enum metric metric)
{
    return metrics_load(&metrics->counters[metric].value);
}

void metrics_label_route(struct metrics *metrics, size_t route, const char *label)
{
    assert(route < METRIC_ROUTES);
    metrics->route_labels[route] = label;
}

void metrics_add_request(struct metrics *metrics, size_t route, unsigned status)
{
    unsigned status_class = status / 100;

    assert(route <= METRIC_ROUTES && metrics->route_labels[route]);
    metrics_add_to(
        &metrics->requests[route][status_class < METRICS_CLASS_COUNT ? status_class : 0].value, 1);
}

/* The first bucket whose bound is not below the value. */
static size_t metrics_bucket_of(uint64_t us)
{
    size_t low = 0, high = METRICS_BOUND_COUNT;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (metrics_bounds_us[middle] < us)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void metrics_observe_us(struct metrics *metrics, enum histogram histogram, uint64_t us)
{
    struct metrics_series *series = &metrics->histograms[histogram];

    metrics_add_to(&series->buckets[us ? metrics_bucket_of(us) : 0], 1);
    if (us)
        metrics_add_to(&series->sum_us, us);
}

/* Returns false when another thread uses the exemplar. The caller then skips it: any traced
 * observation will do. */
static bool metrics_exemplar_enter(struct metrics_exemplar *exemplar)
{
    return !atomic_flag_test_and_set_explicit(&exemplar->is_busy, memory_order_acquire);
}

static void metrics_exemplar_leave(struct metrics_exemplar *exemplar)
{
    atomic_flag_clear_explicit(&exemplar->is_busy, memory_order_release);
}

void metrics_observe_traced_us(struct metrics *metrics, enum histogram histogram, uint64_t us,
                               const struct trace_parent *trace)
{
    metrics_observe_us(metrics, histogram, us);
    if (!trace->is_sampled || !trace->span)
        return;
    struct metrics_exemplar *exemplar =
        &metrics->histograms[histogram].exemplars[metrics_bucket_of(us)];
    if (!metrics_exemplar_enter(exemplar))
        return;
    exemplar->at = wall_machine_now();
    exemplar->us = us;
    exemplar->trace_high = trace->trace_high;
    exemplar->trace_low = trace->trace_low;
    metrics_exemplar_leave(exemplar);
}

bool metrics_exemplar(struct metrics_series *series, size_t bucket,
                      struct metrics_exemplar *ret_exemplar)
{
    struct metrics_exemplar *exemplar = &series->exemplars[bucket];

    if (!metrics_exemplar_enter(exemplar))
        return false;
    ret_exemplar->at = exemplar->at;
    ret_exemplar->us = exemplar->us;
    ret_exemplar->trace_high = exemplar->trace_high;
    ret_exemplar->trace_low = exemplar->trace_low;
    metrics_exemplar_leave(exemplar);
    return ret_exemplar->at.ms > 0;
}

void metrics_buckets(const struct metrics *metrics, enum histogram histogram,
                     uint64_t ret_buckets[METRICS_BUCKET_COUNT])
{
    static_assert(METRICS_BUCKET_COUNT == METRICS_BOUND_COUNT + 1, "one above the last bound");
    for (size_t i = 0; i < METRICS_BUCKET_COUNT; i++)
        ret_buckets[i] = metrics_load(&metrics->histograms[histogram].buckets[i]);
}

static uint64_t metrics_sum(const uint64_t buckets[METRICS_BUCKET_COUNT])
{
    uint64_t count = 0;

    for (size_t i = 0; i < METRICS_BUCKET_COUNT; i++)
        count += buckets[i];
    return count;
}

uint64_t metrics_observed(const struct metrics *metrics, enum histogram histogram)
{
    uint64_t buckets[METRICS_BUCKET_COUNT];

    metrics_buckets(metrics, histogram, buckets);
    return metrics_sum(buckets);
}

uint64_t metrics_bucket_quantile_us(const uint64_t buckets[METRICS_BUCKET_COUNT], double quantile)
{
    const uint64_t count = metrics_sum(buckets);
    uint64_t below = 0;

    if (count == 0)
        return 0;
    for (size_t i = 0; i < METRICS_BOUND_COUNT; i++) {
        below += buckets[i];
        if ((double)below >= quantile * (double)count)
            return metrics_bounds_us[i];
    }
    return UINT64_MAX;
}

uint64_t metrics_quantile_us(const struct metrics *metrics, enum histogram histogram,
                             double quantile)
{
    uint64_t buckets[METRICS_BUCKET_COUNT];

    metrics_buckets(metrics, histogram, buckets);
    return metrics_bucket_quantile_us(buckets, quantile);
}
