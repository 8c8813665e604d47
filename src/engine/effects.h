/*
 * effects.h - the work that an engine asks of its caller: reads, deliveries, replies; and the
 * reads that are running.
 *
 * Errors     Only effects_create and effects_find can fail, for want of memory.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_EFFECTS_H
#define TICKWHEEL_ENGINE_EFFECTS_H

#include "engine/engine.h"
#include "engine/entries.h"
#include "engine/given_up.h"

struct effects;

struct effects *effects_create(void); /* returns NULL if out of memory */
void effects_destroy(struct effects *effects);

/* Frees the reads that were handled in the last turn. Until now replies may have shown their
 * pages. */
void effects_free_gone(struct effects *effects);

/* Requests a read, and takes ownership of it. */
void effects_read(struct engine *engine, struct engine_read *read);

/* Requests the row of a LOADING timer, and stores the ticket of the read in its entry. `command` is
 * the one that needs the timer; NULL if none does. Returns false if out of memory. */
bool effects_find(struct engine *engine, struct entry *entry, const struct command *command);

/* Takes ownership of a read that was performed. It stays valid until effects_free_gone. */
void effects_read_back(struct engine *engine, struct engine_read *read);

void effects_reply(struct engine *engine, struct command *command);
void effects_deliver(struct engine *engine, struct delivery *delivery);

/* Hands a delivery back to its sender with the result of writing its outcome. */
void effects_recorded(struct engine *engine, struct delivery *delivery, enum error_code result);

/* Reports a firing that was given up, or only counts it if GIVEN_UP_MAX reports wait already.
 * `next` is the timer's next firing; WALL_NEVER if the timer is dead. */
void effects_given_up(struct engine *engine, const struct timer *timer, struct wall next);

/* Reports the end of an attempt that was answered later, or not in time, unless ANSWERED_MAX
 * reports wait already or memory is out. */
void effects_answered(struct engine *engine, const struct delivery *delivery);

/* Reports a durable change of the timer to the feed, if it is watched. */
void effects_tell(struct engine *engine, enum feed_kind kind, const struct timer *timer);

bool effects_has_replies(const struct effects *effects);

/* True if the caller has nothing to take and no read runs, apart from deliveries and recorded
 * deliveries. */
bool effects_is_idle(const struct effects *effects);

/* For tests: aborts unless every invariant holds. */
void effects_check(const struct engine *engine);

#endif
