/*
 * runner_stats.c - the statistics of a wheel.
 *
 * Lateness goes into a histogram of 16 equal steps in each power of two: a percentile is at most a
 * sixteenth too high over the whole range, in a fixed 8 KiB.
 */
#include "runner_private.h"

enum { STEPS = 1 << HISTOGRAM_BITS };

static unsigned runner_histogram_bucket(uint64_t ns)
{
    unsigned top = 63u - (unsigned)__builtin_clzll(ns | 1);
    if (top < HISTOGRAM_BITS)
        return (unsigned)ns;
    unsigned shift = top - HISTOGRAM_BITS;
    return (shift + 1) * STEPS + ((unsigned)(ns >> shift) & (STEPS - 1));
}

/* Returns the largest value of a bucket. */
static uint64_t runner_histogram_bucket_end(unsigned bucket)
{
    if (bucket < STEPS)
        return bucket;
    unsigned shift = bucket / STEPS - 1;
    return ((uint64_t)(STEPS + bucket % STEPS) << shift) + ((UINT64_C(1) << shift) - 1);
}

void tw__histogram_add(struct runner_histogram *histogram, uint64_t ns)
{
    tw__count(&histogram->counts[runner_histogram_bucket(ns)], 1);
    if (ns > atomic_load_explicit(&histogram->max, memory_order_relaxed))
        atomic_store_explicit(&histogram->max, ns, memory_order_relaxed);
}

static uint64_t runner_read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

uint64_t tw__histogram_at(const struct runner_histogram *histogram, uint64_t per_mille)
{
    uint64_t total = 0, seen = 0, max = runner_read_counter(&histogram->max);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        total += runner_read_counter(&histogram->counts[i]);
    /* Rank of the last value within the share, rounded up; computed without overflow. */
    uint64_t rank = total / 1000 * per_mille + (total % 1000 * per_mille + 999) / 1000;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS && total > 0; i++) {
        seen += runner_read_counter(&histogram->counts[i]);
        if (seen >= rank && seen > 0)
            return runner_histogram_bucket_end(i) < max ? runner_histogram_bucket_end(i) : max;
    }
    return total ? max : 0;
}

void tw_runner_wheel_stats(struct tw_runner_wheel *wheel, struct tw_runner_stats *ret_stats)
{
    struct tw_runner_stats stats = {0};
    for (uint32_t bits = atomic_load(&wheel->lanes_used); bits;) {
        struct runner_lane *lane = tw__runner_lane_next(wheel, &bits);
        tw__runner_lane_lock(lane);
        stats.scheduled += lane->scheduled;
        stats.cancelled += lane->cancelled;
        stats.fired += lane->fired;
        stats.pending += tw_wheel_count(lane->wheel);
        stats.held += lane->held;
        tw__runner_lane_unlock(lane);
    }
    stats.late_ns_p50 = tw__histogram_at(&wheel->late, 500);
    stats.late_ns_p90 = tw__histogram_at(&wheel->late, 900);
    stats.late_ns_p99 = tw__histogram_at(&wheel->late, 990);
    stats.late_ns_p999 = tw__histogram_at(&wheel->late, 999);
    stats.late_ns_max = runner_read_counter(&wheel->late.max);
    stats.callback_ns_max = runner_read_counter(&wheel->callback_ns_max);
    stats.callbacks = runner_read_counter(&wheel->callbacks);
    stats.memory = atomic_load_explicit(&wheel->memory, memory_order_relaxed);
    *ret_stats = stats;
}

void tw_runner_wheel_occupancy(struct tw_runner_wheel *wheel,
                               struct tw_wheel_occupancy *ret_occupancy)
{
    struct tw_wheel_occupancy sum = {0};
    for (uint32_t bits = atomic_load(&wheel->lanes_used); bits;) {
        struct runner_lane *lane = tw__runner_lane_next(wheel, &bits);
        struct tw_wheel_occupancy one;
        tw__runner_lane_lock(lane);
        tw_wheel_get_occupancy(lane->wheel, &one);
        tw__runner_lane_unlock(lane);
        sum.bucket_count += one.bucket_count;
        sum.entry_count += one.entry_count;
        if (one.entry_count_max > sum.entry_count_max)
            sum.entry_count_max = one.entry_count_max;
    }
    *ret_occupancy = sum;
}
