/*
 * fanout.h - timers with several targets (timer/fanout.h): their parts are made when they are due,
 * and they end when all parts are over.
 *
 * Such a timer is in no dispatch queue. When it is due, one batch has its parts and the timer
 * itself, which then waits RETRYING until the parts are over. Its row moves on while it waits, so
 * that watermark and memory do not wait for it. A timer that recurs is SCHEDULED for its next
 * firing instead. Each durable end of a part changes the timer in a batch of its own (fanout_take).
 * A crash between the two loses only this note: the next engine asks the parts
 * (fanout_commands.c) when its second scan reads the timer's row, and before the next firing.
 */
#ifndef TICKWHEEL_ENGINE_FANOUT_H
#define TICKWHEEL_ENGINE_FANOUT_H

#include "engine/engine.h"
#include "engine/entries.h"
#include "timer/fanout.h"

/* How a part stands. */
struct fanout_note {
    struct timer_id part;
    enum fanout_state state;
    uint32_t attempts;
    struct bytes error; /* empty if there is none */
};

/* Handles a timer with several targets that is due: makes the parts that are not made, or waits on
 * for those that are. */
void fanout_due(struct engine *engine, struct entry *entry);

/* True if the parts of this timer must be asked how they stand, because an engine before this one
 * may have lost a note. Once it returned true it returns false until the timer waited again. */
bool fanout_wants_look(const struct engine *engine, struct entry *entry);

/* True if the timer has open parts, and the note of one may be lost. */
bool fanout_may_lack_note(const struct engine *engine, const struct timer *timer);

/* Applies a note to a timer that is not LOADING, WRITING, QUEUED or INFLIGHT, and not final. Has no
 * effect if the timer does not have this part, or knows the note. */
void fanout_take(struct engine *engine, struct entry *entry, const struct fanout_note *note);

/* Copies a DEAD timer as its next version, which waits for a part that was redriven. Returns NULL
 * if out of memory, or if the part is not among those of its last firing. */
struct timer *fanout_revived(const struct engine *engine, const struct timer *timer,
                             const struct fanout_note *note);

/* Returns the note of a part: how it stands as `timer`. */
struct fanout_note fanout_note_of(const struct timer *timer);

#endif
