/*
 * history.h - what made the last deliveries late, for whoever asks why: one entry a timer, the
 * latest so many.
 *
 * Kept in memory alone: after a restart, and after as many other deliveries, nothing is known.
 *
 * Errors     Without memory there is no entry.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_HISTORY_H
#define TICKWHEEL_ENGINE_HISTORY_H

#include "base/map.h"
#include "engine/explain.h"

struct history_entry {
    uint64_t serial;      /* of the timer */
    struct wall ended_at; /* when the outcome came; 0: it is out, or all is known */
    struct lateness lateness;
};

struct history {
    struct map map; /* serial -> entry */
    struct history_entry *entries;
    size_t count_max, count, next;
};

void history_init(struct history *history, size_t count_max);
void history_deinit(struct history *history);

/* NULL: nothing is known. */
struct history_entry *history_find(const struct history *history, uint64_t serial);

/* The entry of a timer, all zero; what it had, or the oldest of all, is forgotten. NULL when there
 * is no memory, or none is kept. */
struct history_entry *history_begin(struct history *history, uint64_t serial);

void history_forget(struct history *history, uint64_t serial);

/* Saturates. */
static inline void lateness_add(struct lateness *lateness, enum lateness_stage stage, uint64_t ms)
{
    uint64_t sum = lateness->ms[stage] + (ms < UINT32_MAX ? ms : UINT32_MAX);

    lateness->ms[stage] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

#endif
