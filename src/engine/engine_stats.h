/*
 * engine_stats.h - what an engine counts, as one table that makes the struct and the sum of many.
 *
 *     struct engine_stats sum = {0}, one;
 *     engine_stats(engine, &one);
 *     engine_stats_add(&sum, &one);
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_STATS_H
#define TICKWHEEL_ENGINE_ENGINE_STATS_H

#include "base/time.h"

/* X(name, kind, meaning): a COUNTER counts since the engine was created, a GAUGE is the present
 * value. Both are summed over engines. */
#define ENGINE_STATS_LIST(X)                                                                   \
    X(created, COUNTER, "timers made")                                                         \
    X(fired, COUNTER, "firings delivered")                                                     \
    X(cancelled, COUNTER, "timers cancelled")                                                  \
    X(dead, COUNTER, "timers that became dead letters")                                        \
    X(attempts, COUNTER, "deliveries that were answered, or timed out")                        \
    X(attempts_failed, COUNTER, "deliveries that failed")                                      \
    X(dropped, COUNTER, "firings that were later than their timer allows")                     \
    X(touched, COUNTER, "times that were extended without moving a row")                       \
    X(rows_moved, COUNTER, "rows moved when their old time came")                              \
    X(spilled, COUNTER, "due timers put back to the storage for want of room at their target") \
    X(reloaded, COUNTER, "spilled timers read again as soon as there was room")                \
    X(storage_failures, COUNTER, "batches and reads that failed")                              \
    X(pending, GAUGE, "live timers, on disk and in memory")                                    \
    X(in_memory, GAUGE, "timers in memory")                                                    \
    X(near_bytes, GAUGE, "their footprint")                                                    \
    X(inflight, GAUGE, "deliveries under way")                                                 \
    X(pulled, GAUGE, "deliveries under way that workers pulled")                               \
    X(waiting, GAUGE, "due timers that wait for room at their target, or to be pulled")        \
    X(catching_up, GAUGE, "overdue timers that wait because of catch_up_rate")                 \
    X(in_doubt, GAUGE, "timers of which it is not known whether a failed write is on disk")    \
    X(in_doubt_bytes, GAUGE, "their footprint, which is not in near_bytes")

struct engine_stats {
#define X(name, kind, meaning) uint64_t name;
    ENGINE_STATS_LIST(X)
#undef X
    struct wall oldest_overdue; /* due time of the timer that is late by most; 0: none is late */
    struct wall watermark;      /* of this engine; not summed, like the next */
    struct wall frontier;       /* all timers due before it are in memory */
};

/* Adds the counters and gauges of one engine to a sum; the oldest overdue is the earlier one. */
static inline void engine_stats_add(struct engine_stats *sum, const struct engine_stats *one)
{
#define X(name, kind, meaning) sum->name += one->name;
    ENGINE_STATS_LIST(X)
#undef X
    if (one->oldest_overdue.ms &&
        (!sum->oldest_overdue.ms || one->oldest_overdue.ms < sum->oldest_overdue.ms))
        sum->oldest_overdue = one->oldest_overdue;
}

#endif
