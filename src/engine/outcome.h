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

/* Takes the answer to a delivery of this timer, which was not RETURNED. May free the delivery,
 * unless it wants to be recorded. */
void outcome_apply(struct engine *engine, struct entry *entry, struct delivery *delivery);

/* For how long a POSTPONED one is put off, at least. */
uint64_t outcome_postpone_ms(const struct delivery_outcome *outcome);

/* Where to put a timer that waits for its next attempt, when the time of the last one is unknown.
 * */
struct wall outcome_paused_again(struct engine *engine, const struct timer *timer);

/* A timer is due that has no attempt left: a patch took them away. */
void outcome_exhausted(struct engine *engine, struct entry *entry);

enum outcome_firing {
    OUTCOME_FIRES,
    OUTCOME_TOO_LATE, /* it is later than its timer allows: outcome_dropped */
    OUTCOME_MOVES,    /* the rules of its zone changed, and it is due later: outcome_moves */
    OUTCOME_WAITS,    /* its schedule cannot be derived on this machine: outcome_waits */
};

/* Decides on the firing of a timer that could be delivered now. With OUTCOME_FIRES `ret_due` is
 * when it was due: of several missed firings the last takes the place of the first, unless an
 * attempt of the first was made or the timer wants each. */
enum outcome_firing outcome_firing(const struct engine *engine, const struct timer *timer,
                                   struct wall *ret_due);

/* Whether the rules of the timer's zone changed since its due time was derived; `ret_due` is when
 * it is due by the present ones. */
bool outcome_rederive(const struct engine *engine, const struct timer *timer, struct wall *ret_due);

/* Writes the timer with this due time. */
void outcome_moves(struct engine *engine, struct entry *entry, struct wall due);
void outcome_dropped(struct engine *engine, struct entry *entry);
void outcome_waits(struct engine *engine, struct entry *entry);

/* Whether the firing of a timer that could be delivered now is given up first: it waits since then
 * for a target that fails since `failing`, too long for its policy. 0: the target does not fail. */
bool outcome_is_abandoned(const struct engine *engine, const struct timer *timer,
                          struct wall failing);
void outcome_abandoned(struct engine *engine, struct entry *entry);

/* When a dead letter is due that is redriven and may act from `from` on: as it was, unless that is
 * too late by then; then with its next firing, or at `from` when there is none. */
struct wall outcome_redriven_due(const struct engine *engine, const struct timer *timer,
                                 struct wall from);

#endif
