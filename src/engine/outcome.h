/*
 * outcome.h - what the outcome of a delivery means for the timer: it ends, is tried again, or goes
 * on to its next firing.
 *
 * Each function writes the timer as a change of the engine's own, which is repeated until it is
 * durable.
 */
#ifndef TICKWHEEL_ENGINE_OUTCOME_H
#define TICKWHEEL_ENGINE_OUTCOME_H

#include "engine/engine.h"
#include "engine/entries.h"
#include "timer/runs.h"
#include "timer/schedule.h"

/* Applies the outcome of a delivery, which is not RETURNED. Frees the delivery, unless the sender
 * wants it back when the outcome is durable. */
void outcome_apply(struct engine *engine, struct entry *entry, struct delivery *delivery);

/* Adds a new timer, which is written in one batch with the next write of the entry's timer, and
 * takes ownership of it. No limit applies, because there is no client to refuse. Returns false if
 * it cannot be made now; then it is freed. */
bool outcome_add_new(struct engine *engine, struct entry *entry, struct timer *made);

/* Drops all timers that outcome_add_new added to the entry and that are in no batch yet. */
void outcome_drop_new(struct engine *engine, struct entry *entry);

/* Ends a firing as an outcome does, with this run, which was not attempted by a delivery of the
 * timer itself. The entry is not WRITING, and in no wheel or queue. */
void outcome_over(struct engine *engine, struct entry *entry, const struct run *run);

/* Records the end of an earlier firing of a recurring timer, whose next firing is planned already,
 * and makes its report. The caller writes the timer. Returns false if the report cannot be made
 * now. */
bool outcome_over_late(struct engine *engine, struct entry *entry, const struct run *run);

/* The firing that follows the one of a recurring timer. */
struct outcome_next {
    struct wall due;
    struct bytes zoned; /* mark of that firing (timer/schedule.h), stored in `room` */
    char room[SCHEDULE_MARK_SIZE];
    struct bytes counted; /* number of firings (timer/schedule.h), stored in `counted_room` */
    char counted_room[SCHEDULE_COUNTED_SIZE];
    struct run skipped; /* firings planned before it that are not attempted; `count` may be 0 */
};

/* Finds the first firing of a recurring timer after `now`; WALL_NEVER if there is none. Returns
 * false if it cannot be computed, because its zone is not on this machine or memory is short. */
bool outcome_next_due(const struct engine *engine, const struct timer *timer, struct wall now,
                      struct outcome_next *ret_next);

/* Returns the time after a delay, but not before the due time, because the clock may have stepped
 * back. The longest pause limits it. */
struct wall outcome_put_off(const struct engine *engine, const struct timer *timer,
                            uint64_t delay_ms);

/* Returns the minimum delay of a POSTPONED delivery, in milliseconds. */
uint64_t outcome_postpone_ms(const struct delivery_outcome *outcome);

/* Counts one more firing of a backfill in the timer's texts. The text lies in `room`. */
void outcome_count_backfilled(struct timer_texts *texts, struct buffer *room);

/* Places the timer at its next firing, whose due time is set. The firings of a backfill keep their
 * distance from the start of the last one. */
void outcome_place_next(const struct engine *engine, struct timer *timer, struct wall started);

/* Returns a new position for a timer that waits for a retry, when the time of its last attempt is
 * unknown. */
struct wall outcome_paused_again(struct engine *engine, const struct timer *timer);

/* Ends the attempt of a timer that waits for a later answer, as an ACK or NACK says; the timer is
 * in no wheel or queue. outcome_unanswered: because its time is over. */
void outcome_answered(struct engine *engine, struct entry *entry,
                      const struct command_answer *answer);
void outcome_unanswered(struct engine *engine, struct entry *entry);

/* Ends a due timer that has no attempts left, because a patch lowered their number. */
void outcome_exhausted(struct engine *engine, struct entry *entry);

enum outcome_firing {
    OUTCOME_FIRES,
    OUTCOME_APART, /* fires beside the one before: call outcome_make_apart */
    /* it was attempted, and its next firing is due, at which its retries end: call
     * outcome_overtaken */
    OUTCOME_OVERTAKEN,
    OUTCOME_TOO_LATE, /* too late by the timer's own limit: call outcome_dropped */
    /* the rules of its time zone or calendars changed, so that it is due later: call
     * outcome_moves */
    OUTCOME_MOVES,
    /* its calendars no longer permit it, nor a later one: call outcome_left_out */
    OUTCOME_LEFT_OUT,
    OUTCOME_WAITS, /* its schedule cannot be computed on this machine: call outcome_waits */
};

/* Decides what happens to a timer that could be delivered now. With OUTCOME_FIRES, `ret_due` is the
 * due time to deliver. If several firings were missed, that is the last one, unless the first was
 * attempted or the timer wants each. */
enum outcome_firing outcome_firing(const struct engine *engine, const struct timer *timer,
                                   struct wall *ret_due);

/* Makes the timer of the firing due at `due`, which fires beside the one before. Returns NULL if
 * the firing is the last one, if no more timers may live, or if memory is out: then it is delivered
 * as it would be with OUTCOME_FIRES. Otherwise the caller calls outcome_begins_apart. */
struct entry *outcome_make_apart(struct engine *engine, const struct timer *timer, struct wall due,
                                 struct outcome_next *ret_next);

/* Writes the firing and its timer's step to the next one. `missed_by` is the cause for which
 * firings before `due` were missed, if any were. */
void outcome_begins_apart(struct engine *engine, struct entry *entry, struct entry *firing,
                          const struct outcome_next *next, enum lateness_stage missed_by);

/* Applies what outcome_firing decided. outcome_moves writes the timer with the due time `due`. */
void outcome_moves(struct engine *engine, struct entry *entry, struct wall due);
void outcome_overtaken(struct engine *engine, struct entry *entry);
void outcome_dropped(struct engine *engine, struct entry *entry);
void outcome_left_out(struct engine *engine, struct entry *entry);
void outcome_waits(struct engine *engine, struct entry *entry);

/* True if a timer that could be delivered now is given up instead, because its target has failed
 * since `failing`, longer than the timer's policy allows. 0 means that the target does not fail. */
bool outcome_is_abandoned(const struct engine *engine, const struct timer *timer,
                          struct wall failing);
void outcome_abandoned(struct engine *engine, struct entry *entry);

/* Returns the due time of a redriven dead letter that is delivered from `from` on. It is unchanged,
 * unless that is too late by then; then it is the next firing, or `from` if there is none. */
struct wall outcome_redriven_due(const struct engine *engine, const struct timer *timer,
                                 struct wall from);

#endif
