/*
 * stats.h - the figures of GET /v1/stats that are sums over the nodes of a cluster, as numbers in
 * one order.
 *
 *     stats_read(metrics, one);                         of each node
 *     for (i ...) sum[i] += one[i];
 *     sum[STATS_TIMERS_FIRED];
 *     metrics_bucket_quantile_us(stats_buckets(sum, STATS_STAGE_DELIVERY_LATENESS), 0.99);
 */
#ifndef TICKWHEEL_OPS_STATS_H
#define TICKWHEEL_OPS_STATS_H

#include "ops/metrics.h"

/* X(ID, name): the number of METRIC_ID. Nodes exchange the numbers in this order, so new ones are
 * added at the end. */
#define STATS_LIST(X)                     \
    X(TIMERS_CREATED, "created")          \
    X(TIMERS_FIRED, "fired")              \
    X(TIMERS_CANCELLED, "cancelled")      \
    X(TIMERS_DEAD, "dead")                \
    X(ATTEMPTS, "attempts")               \
    X(ATTEMPTS_FAILED, "attempts_failed") \
    X(TIMERS_PENDING, "pending")          \
    X(TIMERS_IN_MEMORY, "in_memory")      \
    X(DELIVERIES_WAITING, "waiting")      \
    X(DELIVERIES_INFLIGHT, "in_flight")   \
    X(QUEUE_LEASED, "leased")             \
    X(QUEUE_WAITING, "workers")           \
    X(DEAD_LETTERS, "dead_letters")       \
    X(BREAKERS_OPEN, "breakers_open")

/* X(ID, name): the lateness of a stage, from HISTOGRAM_ID. */
#define STATS_STAGE_LIST(X)          \
    X(LATENESS_SCHEDULE, "schedule") \
    X(LATENESS_QUEUE, "queue")       \
    X(LATENESS_TRANSFER, "transfer") \
    X(DELIVERY_LATENESS, "all")

enum stats_stage {
#define X(id, name) STATS_STAGE_##id,
    STATS_STAGE_LIST(X)
#undef X
        STATS_STAGE_COUNT
};

/* Indices of the numbers: first the buckets of the stages, then the other numbers. */
enum stats_number {
    STATS_BEFORE_ = STATS_STAGE_COUNT * METRICS_BUCKET_COUNT - 1,
#define X(id, name) STATS_##id,
    STATS_LIST(X)
#undef X
        STATS_COUNT
};

/* Reads the numbers of this node. */
static inline void stats_read(const struct metrics *metrics, uint64_t ret_numbers[STATS_COUNT])
{
    static const enum histogram stages[] = {
#define X(id, name) HISTOGRAM_##id,
        STATS_STAGE_LIST(X)
#undef X
    };

    for (size_t i = 0; i < STATS_STAGE_COUNT; i++)
        metrics_buckets(metrics, stages[i], ret_numbers + i * METRICS_BUCKET_COUNT);
#define X(id, name) ret_numbers[STATS_##id] = metrics_get(metrics, METRIC_##id);
    STATS_LIST(X)
#undef X
}

/* Returns the buckets of a stage. */
static inline const uint64_t *stats_buckets(const uint64_t numbers[STATS_COUNT],
                                            enum stats_stage stage)
{
    return numbers + stage * METRICS_BUCKET_COUNT;
}

#endif
