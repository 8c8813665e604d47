/*
 * effects.h - the work that an engine asks of its caller: reads, deliveries, replies; and the
 * reads that are out.
 *
 * Errors     Reads can fail to be made for want of memory, nothing else.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_EFFECTS_H
#define TICKWHEEL_ENGINE_EFFECTS_H

#include "engine/engine.h"
#include "engine/entries.h"
#include "engine/given_up.h"

struct effects;

struct effects *effects_create(void); /* NULL when out of memory */
void effects_destroy(struct effects *effects);

/* Frees the reads that came back in the last turn: until then a reply may show their pages. */
void effects_free_gone(struct effects *effects);

/* Asks for a read, which it takes. */
void effects_read(struct engine *engine, struct engine_read *read);

/* Asks for the row of a timer that is LOADING, or in doubt, and notes the ticket by which its
 * answer is known. `command` is the one that needs it, or NULL. Returns false if out of memory. */
bool effects_find(struct engine *engine, struct entry *entry, const struct command *command);

/* A read is back; it stays valid until effects_free_gone. */
void effects_read_back(struct engine *engine, struct engine_read *read);

void effects_reply(struct engine *engine, struct command *command);
void effects_deliver(struct engine *engine, struct delivery *delivery);

/* Hands a delivery back: what became of its outcome is known. */
void effects_recorded(struct engine *engine, struct delivery *delivery, enum error_code result);

/* Tells of a firing that was given up, or counts it when enough are told of. `next` is when the
 * timer fires next; WALL_NEVER: it is dead. */
void effects_given_up(struct engine *engine, const struct timer *timer, struct wall next);

/* Tells the feed, if it is watched, of a change of the timer that is durable. */
void effects_tell(struct engine *engine, enum feed_kind kind, const struct timer *timer);

bool effects_has_replies(const struct effects *effects);

/* Nothing is to be taken, and no read is out; deliveries and recorded ones apart. */
bool effects_is_idle(const struct effects *effects);

/* For tests: aborts unless every invariant holds. */
void effects_check(const struct engine *engine);

#endif
