/*
 * history.h - what made the last deliveries late: one entry a timer, up to a number of them, beyond
 * which a tenant that has the most loses its oldest.
 *
 * Kept in memory alone: after a restart, and after as many other deliveries, nothing is known.
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

/* Lateness of a firing, by cause, from its base (history_base) to a position of its row. */
struct history_carry {
    struct wall base, to;
    uint32_t ms[LATENESS_HANDOFF]; /* by stage; they add up to the whole */
};

struct history_entry {
    uint64_t serial;      /* serial of the timer */
    struct wall ended_at; /* time of the outcome; 0 if it is in flight, or all is known */
    struct lateness lateness;
    struct history_carry carry;
    struct tenant_latest_place place_;
};

struct history *history_create(size_t count_max); /* returns NULL if out of memory */
void history_destroy(struct history *history);

/* Returns NULL if nothing is known. */
struct history_entry *history_find(const struct history *history, uint64_t serial);

/* Returns the entry of a timer without lateness, which keeps its carry; an older entry may be
 * replaced. `tenant` is a tenant_key. Returns NULL if out of memory, or no history is kept. */
struct history_entry *history_begin(struct history *history, uint64_t tenant, uint64_t serial);

void history_forget(struct history *history, uint64_t serial);

/* Notes that a delivery is back. history_committed: that its outcome is durable. */
void history_returned(struct history *history, const struct delivery *delivery, struct wall now);
void history_committed(struct history *history, uint64_t serial, struct wall now);

/* Returns the time from which a firing is late. */
static inline struct wall history_base(const struct timer *timer)
{
    return wall_max(timer->due, timer->created);
}

/* Carries the causes of lateness to the timer's next position, after a delivery that did not end
 * its firing. `stage` is the cause of the time since it left the engine. */
void history_put_off(struct history *history, const struct timer *timer, enum lateness_stage stage);

/* Notes that the timer waits until `timer->at` because of `stage`, since `since`. */
void history_wait(struct history *history, const struct timer *timer, enum lateness_stage stage,
                  struct wall since);

/* For tests: aborts unless every invariant holds. O(entries). */
void history_check(const struct history *history);

/* Saturates. */
static inline void lateness_add(struct lateness *lateness, enum lateness_stage stage, uint64_t ms)
{
    uint64_t sum = lateness->ms[stage] + (ms < UINT32_MAX ? ms : UINT32_MAX);

    lateness->ms[stage] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

#endif
