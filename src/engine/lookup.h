/*
 * lookup.h - finds the timers that a command names by key, by Idempotency-Key, or by the event that
 * they watch.
 *
 * The storage returns the timers that may have the name: the candidates. Each is then visited like
 * a timer given by its id, and checked for the name. A create must also prevent that another one
 * takes the name before its timer is durable. So it locks the name from the look-up to the answer,
 * and other creates wait in the order in which they came. The locked name is the key, or the
 * Idempotency-Key if there is no key. Locks are found by a hash; two names that share one only wait
 * for each other.
 *
 * A redrive gives a dead letter its key back, so it takes that lock too. It is refused if another
 * timer has had the key since.
 *
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_LOOKUP_H
#define TICKWHEEL_ENGINE_LOOKUP_H

#include "engine/engine.h"

struct lookup;

struct lookup *lookup_create(void); /* returns NULL if out of memory */
void lookup_destroy(struct lookup *lookup);

/* Begins a look-up. A create of one timer with names locks them first. */
enum lookup_step lookup_begin(struct engine *engine, struct command *command);

/* Sets the command's timer to one that was found in memory, without a look-up. If that timer turns
 * out to be another, a look-up begins. */
void lookup_recalled(struct command *command, const struct timer_id *id);

/* Begins the look-up of a redrive whose dead letter has a key. */
enum lookup_step lookup_begin_redrive(struct engine *engine, const struct timer *timer,
                                      struct command *command);

/* Continues the look-up, because the candidate does not have the name or does not exist. Returns
 * the next step. */
enum lookup_step lookup_next(struct engine *engine, struct command *command);

/* Stores the candidates that a read has found. The caller then visits the first one. */
void lookup_take(struct command *command, struct engine_read *read);

/* Releases the command's lock before its answer. If another command waits for the lock, it gets it,
 * and *ret_next is that command. Returns the step of that command. */
enum lookup_step lookup_release(struct engine *engine, struct command *command,
                                struct command **ret_next);

/* Requests the ids of at most `count_max` timers that watch the event in the command's name.
 * Returns false if out of memory. */
bool lookup_watchers(struct engine *engine, struct command *command, uint64_t serial_below,
                     size_t count_max);

/* Gives the command other candidates, and ownership of the array. lookup_forget_candidates frees
 * them. */
void lookup_set_candidates(struct command *command, struct timer_id *ids, size_t count);
void lookup_forget_candidates(struct command *command);

/* True if the timer has the name that this step looks up. */
bool lookup_fits(const struct command *command, const struct timer *timer);

/* True if a create of `timer` must look up a key or an Idempotency-Key first. */
static inline bool lookup_is_named(const struct timer *timer)
{
    return timer->texts.key.size || timer->texts.request.size;
}

static inline bool command_is_create(const struct command *command)
{
    return command->kind == COMMAND_CREATE || command->kind == COMMAND_PUT;
}

/* For tests: aborts unless every invariant holds. */
void lookup_check(const struct engine *engine);

#endif
