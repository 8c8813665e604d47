/*
 * metrics_private.h - what metrics.c counts, for metrics_text.c, which shows it.
 *
 * Threads    Relaxed atomics; an exemplar is guarded by its flag.
 */
#ifndef TICKWHEEL_OPS_METRICS_PRIVATE_H
#define TICKWHEEL_OPS_METRICS_PRIVATE_H

#include "ops/metrics.h"

#include <stdatomic.h>

enum {
    /* bounds of a histogram's buckets; one more bucket takes larger values */
    METRICS_BOUND_COUNT = 37,
    METRICS_CLASS_COUNT = 6, /* 0: unknown, 1xx .. 5xx */
};

/* Upper bounds in microseconds: 100 µs to 2 h, five to a decade, so that a quantile read off them
 * is at most twice the truth. Kept in microseconds to be exact. */
extern const uint64_t metrics_bounds_us[METRICS_BOUND_COUNT];

/* On a cache line of its own: threads that count different things do not slow each other. */
struct metrics_counter {
    _Alignas(64) _Atomic uint64_t value;
};

/* The last traced observation of a bucket. */
struct metrics_exemplar {
    atomic_flag is_busy; /* a thread writes or reads the rest */
    struct wall at;      /* 0: none yet */
    uint64_t us;
    uint64_t trace_high, trace_low;
};

struct metrics_series {
    _Alignas(64) _Atomic uint64_t buckets[METRICS_BOUND_COUNT + 1];
    _Atomic uint64_t sum_us;
    struct metrics_exemplar exemplars[METRICS_BOUND_COUNT + 1];
};

struct metrics {
    struct metrics_counter counters[METRIC_COUNT];
    struct metrics_counter requests[METRIC_ROUTES + 1][METRICS_CLASS_COUNT];
    const char *route_labels[METRIC_ROUTES + 1]; /* NULL: no such route */
    struct metrics_series histograms[HISTOGRAM_COUNT];
    const char *version;
    struct wall started;
};

static inline uint64_t metrics_load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* Copies the exemplar of a bucket. False: there is none, or another thread is at it. */
bool metrics_exemplar(struct metrics_series *series, size_t bucket,
                      struct metrics_exemplar *ret_exemplar);

#endif
