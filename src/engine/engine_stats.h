/*
 * engine_stats.h - what an engine counts: a member for each of its metrics, which
 * base/metric_list.h lists, and the sum of many engines.
 *
 *     struct engine_stats sum = {0}, one;
 *     engine_stats(engine, &one);
 *     engine_stats_add(&sum, &one);
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_STATS_H
#define TICKWHEEL_ENGINE_ENGINE_STATS_H

#include "base/metric_list.h"
#include "engine/explain.h"

/* What a late timer waits for, in the order of the metrics. */
enum overdue_kind {
    OVERDUE_WEBHOOK, /* targets that are not queues, including log: */
    OVERDUE_BROKER,
    OVERDUE_QUEUE,
    OVERDUE_CATCH_UP, /* the rate catch_up_rate_max */
    OVERDUE_KIND_COUNT,
};

struct engine_stats {
#define X(id, field, ...) uint64_t field;
    METRIC_ENGINE_LIST(X)
#undef X
    uint64_t ready[OVERDUE_KIND_COUNT]; /* due timers that wait in memory, by kind */
    uint64_t due;                       /* number of firings that were found due */
    /* number of waiting timers by reason: those of `ready`, and those that a breaker postponed */
    uint64_t held[WAIT_REASONS];
    /* Due time of the timer that is late by the most, by kind; 0 if none is late. */
    struct wall oldest_overdue[OVERDUE_KIND_COUNT];
    /* earliest position of a live timer, of this engine only. This field and the next one are not
     * added up */
    struct wall watermark;
    struct wall frontier; /* all timers due before it are in memory */
};

/* Adds the counters and gauges of one engine to a sum; the oldest overdue is the earlier of
 * both. */
static inline void engine_stats_add(struct engine_stats *sum, const struct engine_stats *one)
{
#define X(id, field, ...) sum->field += one->field;
    METRIC_ENGINE_LIST(X)
#undef X
    for (int i = 0; i < OVERDUE_KIND_COUNT; i++) {
        const struct wall oldest = one->oldest_overdue[i];

        sum->ready[i] += one->ready[i];
        if (oldest.ms && (!sum->oldest_overdue[i].ms || oldest.ms < sum->oldest_overdue[i].ms))
            sum->oldest_overdue[i] = oldest;
    }
    for (int i = 0; i < WAIT_REASONS; i++)
        sum->held[i] += one->held[i];
    sum->due += one->due;
}

#endif
