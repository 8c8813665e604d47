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

/* The largest value of a bucket. */
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
    /* The rank of the last value within the share, rounded up, without overflow. */
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
    uint64_t opened = 0, closed = 0, armed = 0;
    /* The counters of ended timers are read before those of new timers, so that no difference is
     * below 0. */
    uint64_t fired_once = runner_read_counter(&wheel->fired_once);
    uint64_t fired_opened = runner_read_counter(&wheel->fired_opened);
    uint64_t finished =
        runner_read_counter(&wheel->finished_once) + runner_read_counter(&wheel->left_once);
    uint64_t left =
        runner_read_counter(&wheel->left_once) + runner_read_counter(&wheel->left_opened);
    for (unsigned i = 0; i < STRIPES; i++) {
        const struct runner_stripe *stripe = &wheel->stripes[i];
        stats.cancelled += runner_read_counter(&stripe->cancelled);
        stats.messages += runner_read_counter(&stripe->messages);
        closed += runner_read_counter(&stripe->closed);
        armed += runner_read_counter(&stripe->armed);
    }
    for (unsigned i = 0; i < STRIPES; i++) {
        stats.scheduled += runner_read_counter(&wheel->stripes[i].scheduled);
        opened += runner_read_counter(&wheel->stripes[i].opened);
    }
    stats.fired = fired_once + fired_opened;
    stats.pending = stats.scheduled - stats.cancelled + armed - stats.fired - left;
    stats.held = stats.scheduled + opened - stats.cancelled - closed - finished;
    stats.late_ns_p50 = tw__histogram_at(&wheel->late, 500);
    stats.late_ns_p90 = tw__histogram_at(&wheel->late, 900);
    stats.late_ns_p99 = tw__histogram_at(&wheel->late, 990);
    stats.late_ns_p999 = tw__histogram_at(&wheel->late, 999);
    stats.late_ns_max = runner_read_counter(&wheel->late.max);
    stats.callback_ns_max = runner_read_counter(&wheel->callback_ns_max);
    stats.callbacks = runner_read_counter(&wheel->callbacks);
    stats.memory = atomic_load_explicit(&wheel->memory, memory_order_relaxed);
    pthread_mutex_lock(&wheel->wheel_lock);
    stats.memory += tw_wheel_memory(wheel->wheel);
    pthread_mutex_unlock(&wheel->wheel_lock);
    *ret_stats = stats;
}

void tw_runner_wheel_occupancy(struct tw_runner_wheel *wheel,
                               struct tw_wheel_occupancy *ret_occupancy)
{
    pthread_mutex_lock(&wheel->wheel_lock);
    tw_wheel_occupancy(wheel->wheel, ret_occupancy);
    pthread_mutex_unlock(&wheel->wheel_lock);
}
