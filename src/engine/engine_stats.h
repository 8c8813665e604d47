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
#include "base/time.h"

struct engine_stats {
#define X(id, field, ...) uint64_t field;
    METRIC_ENGINE_LIST(X)
#undef X
    struct wall oldest_overdue; /* due time of the timer that is late by most; 0: none is late */
    struct wall watermark;      /* of this engine; not summed, like the next */
    struct wall frontier;       /* all timers due before it are in memory */
};

/* Adds the counters and gauges of one engine to a sum; the oldest overdue is the earlier one. */
static inline void engine_stats_add(struct engine_stats *sum, const struct engine_stats *one)
{
#define X(id, field, ...) sum->field += one->field;
    METRIC_ENGINE_LIST(X)
#undef X
    if (one->oldest_overdue.ms &&
        (!sum->oldest_overdue.ms || one->oldest_overdue.ms < sum->oldest_overdue.ms))
        sum->oldest_overdue = one->oldest_overdue;
}

#endif
