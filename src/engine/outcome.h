/*
 * outcome.h - what an answer of a target means for the timer: over, tried again, or fired next
 * time.
 *
 * Each of these is a write of the engine's own, which is repeated until it is durable.
 */
#ifndef TICKWHEEL_ENGINE_OUTCOME_H
#define TICKWHEEL_ENGINE_OUTCOME_H

#include "engine/engine.h"
#include "engine/entries.h"

/* Applies the outcome of a delivery, which was not RETURNED. May free the delivery, unless it
 * wants to be recorded. */
void outcome_apply(struct engine *engine, struct entry *entry, struct delivery *delivery);

/* Returns the minimum pause of a POSTPONED delivery. */
uint64_t outcome_postpone_ms(const struct delivery_outcome *outcome);

/* Returns a new position for a timer that waits for its next attempt, if the time of the last
 * attempt is unknown. */
struct wall outcome_paused_again(struct engine *engine, const struct timer *timer);

/* Ends a due timer without attempts left, because a patch took them away. */
void outcome_exhausted(struct engine *engine, struct entry *entry);

enum outcome_firing {
    OUTCOME_FIRES,
    OUTCOME_TOO_LATE, /* it is later than its timer allows: call outcome_dropped */
    OUTCOME_MOVES,    /* the rules of its zone changed, and it is due later: call outcome_moves */
    OUTCOME_WAITS,    /* its schedule cannot be derived on this machine: call outcome_waits */
};

/* Decides about the firing of a timer that could be delivered now. With OUTCOME_FIRES `ret_due`
 * is its due time: of several missed firings the last replaces the first, unless an attempt of
 * the first was made or the timer wants each. */
enum outcome_firing outcome_firing(const struct engine *engine, const struct timer *timer,
                                   struct wall *ret_due);

/* True if the rules of the timer's zone changed since its due time was derived; `ret_due` is the
 * due time by the present rules. */
bool outcome_rederive(const struct engine *engine, const struct timer *timer, struct wall *ret_due);

/* Writes the timer with this due time. */
void outcome_moves(struct engine *engine, struct entry *entry, struct wall due);
void outcome_dropped(struct engine *engine, struct entry *entry);
void outcome_waits(struct engine *engine, struct entry *entry);

/* True if the firing of a timer that could be delivered now is given up first, because its
 * target fails since `failing`, for longer than its policy allows. 0 means that the target does
 * not fail. */
bool outcome_is_abandoned(const struct engine *engine, const struct timer *timer,
                          struct wall failing);
void outcome_abandoned(struct engine *engine, struct entry *entry);

/* Returns the due time of a redriven dead letter that may act from `from` on: unchanged, unless
 * that is too late by then; then its next firing, or `from` if there is none. */
struct wall outcome_redriven_due(const struct engine *engine, const struct timer *timer,
                                 struct wall from);

#endif
