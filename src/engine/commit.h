/*
 * commit.h - batches of changes that are being made durable.
 *
 * Changes are collected until the caller takes them as one batch. If a batch fails, a change that a
 * client asked for is answered with an error, and the timer stays as it was. A change of the
 * engine's own (fired, retried, moved) is a fact, and is written again until it is durable. Nothing
 * of a failed batch takes effect in this engine.
 *
 * Errors     commit_reserve alone fails for want of memory; then nothing has changed.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_COMMIT_H
#define TICKWHEEL_ENGINE_COMMIT_H

#include "engine/engine.h"
#include "engine/entries.h"

/* Reason for a write. It decides what follows when the write is durable or has failed. */
enum write_purpose {
    WRITE_CREATE,
    WRITE_PATCH,
    WRITE_TOUCH, /* patch of `due` and `version` only */
    WRITE_CANCEL,
    WRITE_REDRIVE,
    WRITE_FORGET, /* deletion of a dead letter; once begun it is repeated like WRITE_OWN */
    WRITE_OWN,    /* the engine's own change: repeated until it is durable */
    /* new timer that reports an outcome, or is a part of a firing; written in one batch with the
     * WRITE_OWN of its timer */
    WRITE_REPORT,
};

struct write_note {
    enum write_purpose purpose;
    struct command *command; /* NULL for OWN and REPORT */
    struct entry *entry;
};

/* True for a write that no command asked for. */
static inline bool write_is_own(enum write_purpose purpose)
{
    return purpose == WRITE_OWN || purpose == WRITE_REPORT;
}

/* True for a change that is abandoned if its write fails. */
static inline bool write_is_asked(enum write_purpose purpose)
{
    return !write_is_own(purpose) && purpose != WRITE_FORGET;
}

struct commit;

struct commit *commit_create(void); /* returns NULL if out of memory */
void commit_destroy(struct commit *commit);

/* ---- writes ---- */

/* Reserves room for one more write and its new timers, so that lack of memory cannot prevent it
 * later. */
bool commit_reserve(struct engine *engine);

/* Adds the timer's successor to the next batch, or the timer as it is if it has no successor. The
 * batch has room (commit_reserve). The entry stays WRITING until it is settled. */
void commit_add(struct engine *engine, struct write_note note);

/* Adds a change of the engine's own, which is repeated until it succeeds. Its new timers
 * are in the same batch, so all are durable or none is. */
void commit_add_own(struct engine *engine, struct entry *entry);

/* Adds a spilled timer. commit_spilling counts it until it is durable. */
void commit_add_spilled(struct engine *engine, struct entry *entry);

/* Adds the deletion of a dead letter. `command` has reserved room; NULL if the engine deletes it by
 * itself. The deletion is repeated until it succeeds, even if the command was answered with an
 * error. */
void commit_add_forgotten(struct engine *engine, struct entry *entry, struct command *command);

/* Requests a batch even without writes, because its meta has changed. */
void commit_want_meta(struct engine *engine);

/* Makes the next batch due at once, because something waits for it. */
void commit_hurry(struct engine *engine);

/* Repeats failed writes when their pause is over. Called once a turn. Returns whether there were
 * any. */
bool commit_retry(struct engine *engine);

/* ---- batches ---- */

/* Returns when to take the next batch. That is now, except that a batch of only final records or
 * meta is due ends_pace_ms after the last one. WALL_NEVER if there is nothing to write, or
 * BATCHES_OUT_MAX batches are being committed. */
struct wall commit_due_at(const struct engine *engine);

/* Returns all writes so far as a batch, whose meta the caller fills in. NULL if no batch is due. */
struct storage_batch *commit_take(struct engine *engine);

/* Begins to handle a batch that was committed or has failed. */
void commit_back(struct engine *engine, struct storage_batch *batch);

/* Returns the result of one of its writes. The entry is still WRITING: the caller settles it. A
 * failed change of the engine's own is written again. `ret_before` is the entry's timer until then,
 * which stays until the end of the turn. */
struct write_note commit_result(struct engine *engine, struct storage_batch *batch, size_t index,
                                const struct timer **ret_before);

/* Ends the batch and frees it. */
void commit_end(struct storage_batch *batch);

/* Returns the entries that wait to be written again. */
const struct list *commit_rewrites(const struct engine *engine);

/* ---- questions ---- */

/* Returns when to retry; WALL_NEVER if nothing failed. */
struct wall commit_wake_at(const struct engine *engine);
void commit_clock_went_back(struct engine *engine);

bool commit_is_idle(const struct engine *engine); /* no batch is at the storage or due */
/* also, no write is to be repeated */
bool commit_is_certain(const struct engine *engine);
size_t commit_unwritten(const struct engine *engine); /* writes that are not durable */
size_t commit_spilling(const struct engine *engine);  /* how many of those are spilled timers */
/* memory of timers that the engine itself made, until they are durable */
size_t commit_making_bytes(const struct engine *engine);

void commit_check(const struct engine *engine);

#endif
