/*
 * history.h - what made the last deliveries late: one entry for each timer. At the maximum number
 * of entries, a tenant that has the most loses its oldest one.
 *
 * Entries are only in memory, so a restart loses them.
 *
 * Errors     Without memory there is no entry.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_HISTORY_H
#define TICKWHEEL_ENGINE_HISTORY_H

#include "engine/delivery.h"
#include "engine/explain.h"
#include "timer/tenant_latest.h"

struct history;

/* Causes of a firing's lateness from its base (history_base) until a position of its row. */
struct history_carry {
    struct wall base, to;
    uint32_t ms[LATENESS_HANDOFF]; /* milliseconds by stage; their sum is the whole lateness */
};

struct history_entry {
    uint64_t serial; /* serial of the timer */
    /* time of the outcome; 0 if the delivery is in flight, or its outcome is durable */
    struct wall ended_at;
    struct lateness lateness;
    struct history_carry carry;
    struct tenant_latest_place place_;
};

struct history *history_create(size_t count_max); /* returns NULL if out of memory */
void history_destroy(struct history *history);

/* Returns the entry of a timer; NULL if there is none. */
struct history_entry *history_find(const struct history *history, uint64_t serial);

/* Returns an entry for the timer, with its lateness cleared and its carry kept. It may replace the
 * entry of another timer. `tenant` is a tenant_key. Returns NULL if out of memory, or if no history
 * is kept. */
struct history_entry *history_begin(struct history *history, uint64_t tenant, uint64_t serial);

void history_forget(struct history *history, uint64_t serial);

/* Records that a delivery has an outcome. history_committed: that the outcome is durable. */
void history_returned(struct history *history, const struct delivery *delivery, struct wall now);
void history_committed(struct history *history, uint64_t serial, struct wall now);

/* Returns the time from which a firing is late. */
static inline struct wall history_base(const struct timer *timer)
{
    return wall_max(timer->due, timer->created);
}

/* Carries the causes of lateness over to the timer's next position, after a delivery that did not
 * end its firing. `stage` is the cause of the time since the delivery left the engine. */
void history_put_off(struct history *history, const struct timer *timer, enum lateness_stage stage);

/* Records that the timer waits from `since` until `timer->at` because of `stage`. */
void history_wait(struct history *history, const struct timer *timer, enum lateness_stage stage,
                  struct wall since);

/* For tests: aborts unless every invariant holds. O(entries). */
void history_check(const struct history *history);

/* Adds `ms` to a stage, saturating at UINT32_MAX. */
static inline void lateness_add(struct lateness *lateness, enum lateness_stage stage, uint64_t ms)
{
    uint64_t sum = lateness->ms[stage] + (ms < UINT32_MAX ? ms : UINT32_MAX);

    lateness->ms[stage] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

#endif
