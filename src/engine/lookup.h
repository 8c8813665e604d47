/*
 * lookup.h - which timers a command means that names them: by key, by Idempotency-Key, by the event
 * that they watch.
 *
 * A name is looked up in the storage, which says which timers may have it: the candidates. Each is
 * then visited like a timer that was named by its id, and asked whether it is meant. A create must
 * also keep others from taking that name before its timer is durable: it locks the name from the
 * look-up to the answer, and others wait in the order in which they came. The lock is of the key,
 * or of the Idempotency-Key where there is no key; a hash stands for it, so two names seldom share
 * one, and then only wait for each other.
 *
 * A dead letter that is redriven has its key again: it takes that lock, and is refused when
 * another timer has had the key since.
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

/* Sets the command's timer, which was found without a look-up. If that timer is not meant after
 * all, a look-up begins. */
void lookup_recalled(struct command *command, const struct timer_id *id);

/* Begins the look-up of a redrive whose dead letter has a key. */
enum lookup_step lookup_begin_redrive(struct engine *engine, const struct timer *timer,
                                      struct command *command);

/* Returns the next step, because the candidate is not meant or does not exist. */
enum lookup_step lookup_next(struct engine *engine, struct command *command);

/* Takes the names that a command waited for. The caller then asks for the first candidate. */
void lookup_take(struct command *command, struct engine_read *read);

/* Releases the command's lock before its answer. The next command that waits for the lock gets
 * it: *ret_next, with its step. */
enum lookup_step lookup_release(struct engine *engine, struct command *command,
                                struct command **ret_next);

/* Asks for the ids of at most `count_max` timers that watch the command's name. Returns false if
 * out of memory. */
bool lookup_watchers(struct engine *engine, struct command *command, uint64_t serial_below,
                     size_t count_max);

/* Gives the command other candidates, which it takes. lookup_forget_candidates frees them. */
void lookup_set_candidates(struct command *command, struct timer_id *ids, size_t count);
void lookup_forget_candidates(struct command *command);

/* True if the timer has the name of this step. */
bool lookup_fits(const struct command *command, const struct timer *timer);

/* True if a create of `timer` must look up names first. */
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
