/*
 * commit.h - batches of changes that are being made durable.
 *
 * Many changes gather until the caller takes them as one batch. A change that a client asked for is
 * answered with an error when its batch fails, and the timer stays as it was. A change of the
 * engine's own (fired, retried, moved) is a fact, and is written again until it holds. Nothing of a
 * failed batch takes effect while this engine lives.
 *
 * Errors     commit_reserve alone fails for want of memory; then nothing has changed.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_COMMIT_H
#define TICKWHEEL_ENGINE_COMMIT_H

#include "engine/engine.h"
#include "engine/entries.h"

/* Reason for a write: decides what follows when it is durable or has failed. */
enum write_purpose {
    WRITE_CREATE,
    WRITE_PATCH,
    WRITE_TOUCH, /* patch of due and version only */
    WRITE_CANCEL,
    WRITE_REDRIVE,
    WRITE_FORGET, /* of a dead letter; once begun it is the engine's own change */
    WRITE_OWN,    /* the engine's own change: repeated until it is durable */
    /* new timer that reports an outcome, in one batch with the WRITE_OWN of the outcome */
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

/* True for a change that is given up if its write fails. */
static inline bool write_is_asked(enum write_purpose purpose)
{
    return !write_is_own(purpose) && purpose != WRITE_FORGET;
}

struct commit;

struct commit *commit_create(void); /* returns NULL if out of memory */
void commit_destroy(struct commit *commit);

/* ---- writes ---- */

/* Reserves room for one more write and its report, so that lack of memory cannot prevent it
 * later. */
bool commit_reserve(struct engine *engine);

/* Adds the successor of a timer, or its present state if it has none, to the next batch, which
 * has room. The entry is WRITING until it is settled. */
void commit_add(struct engine *engine, struct write_note note);

/* Adds a change of the engine's own, which is repeated until it succeeds, with its report. One
 * batch has both, so both are durable or neither is. */
void commit_add_own(struct engine *engine, struct entry *entry);

/* Adds a spilled timer, which counts in commit_spilling until it is durable. */
void commit_add_spilled(struct engine *engine, struct entry *entry);

/* Adds the deletion of a dead letter, for a command, for which there is room, or the engine's
 * own (NULL). It is repeated until it succeeds, even if the command was answered with an error. */
void commit_add_forgotten(struct engine *engine, struct entry *entry, struct command *command);

/* Requests a batch even without writes, because its meta has changed. */
void commit_want_meta(struct engine *engine);

/* Makes the next batch due at once, because something waits for it. */
void commit_hurry(struct engine *engine);

/* Repeats failed writes when it is time, once a turn. Returns whether there were any. */
bool commit_retry(struct engine *engine);

/* ---- batches ---- */

/* Returns when to take the next batch: now, except that one with only final records or meta is
 * due ends_pace_ms after the last. WALL_NEVER if there is nothing to write, or too many batches
 * are at the storage. */
struct wall commit_due_at(const struct engine *engine);

/* Returns all writes so far; the caller fills in the meta. NULL if no batch is due. */
struct storage_batch *commit_take(struct engine *engine);

/* Begins to handle a batch that is back. */
void commit_back(struct engine *engine, struct storage_batch *batch);

/* Returns the result of one of its writes. The entry is still WRITING: settle it. A change of the
 * engine's own that failed is written again. */
struct write_note commit_result(struct engine *engine, struct storage_batch *batch, size_t index);

/* Ends the batch and frees it. */
void commit_end(struct storage_batch *batch);

/* Returns the entries that wait to be written again. */
const struct list *commit_rewrites(const struct engine *engine);

/* ---- questions ---- */

/* Returns when to retry; WALL_NEVER if nothing failed. */
struct wall commit_wake_at(const struct engine *engine);
void commit_clock_went_back(struct engine *engine);

bool commit_is_idle(const struct engine *engine); /* no batch is at the storage or due */
/* nor is anything to be repeated */
bool commit_is_certain(const struct engine *engine);
size_t commit_unwritten(const struct engine *engine); /* writes that are not durable */
size_t commit_spilling(const struct engine *engine);  /* those of them that were spilled */

void commit_check(const struct engine *engine);

#endif
