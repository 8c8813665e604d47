/*
 * commit.h - batches of changes that are being made durable, and timers in doubt after a failure.
 *
 * Many changes gather until the caller takes them as one batch. A change that a client asked for is
 * answered with an error when its batch fails; a change of the engine's own (fired, retried, moved)
 * is a fact, and is written again until it holds.
 *
 * The log may have everything of a batch that failed, and that is not known before a later commit
 * succeeds. So the timers for which it matters are *in doubt* until then: no command sees or
 * changes them, no read ahead brings them, the watermark stays before them, and they count as
 * living. Then each is looked for, and becomes the row that was found.
 *
 * Errors     commit_reserve alone fails for want of memory; then nothing has changed.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_COMMIT_H
#define TICKWHEEL_ENGINE_COMMIT_H

#include "engine/engine.h"
#include "engine/entries.h"

/* Why a write was made: what to do when it is durable, and when it failed. */
enum write_purpose {
    WRITE_CREATE,
    WRITE_PATCH,
    WRITE_TOUCH, /* a patch of due and version alone */
    WRITE_CANCEL,
    WRITE_REDRIVE,
    WRITE_FORGET, /* of a dead letter; once it is begun it is the engine's own change */
    WRITE_OWN,    /* the engine's own change: written again until it is durable */
    WRITE_REPORT, /* a new timer that reports an outcome: with the WRITE_OWN of the outcome, in one
                     batch */
};

struct write_note {
    enum write_purpose purpose;
    struct command *command; /* NULL with OWN and REPORT */
    struct entry *entry;
};

/* A write that no command asked for. */
static inline bool write_is_own(enum write_purpose purpose)
{
    return purpose == WRITE_OWN || purpose == WRITE_REPORT;
}

struct commit;

struct commit *commit_create(void); /* NULL when out of memory */
void commit_destroy(struct commit *commit);

/* ---- writes ---- */

/* Makes room for one more write, and for its report: once it has been accepted, no want of memory
 * keeps it. */
bool commit_reserve(struct engine *engine);

/* Adds the successor of a timer, or its present state when it has none, to the next batch, in which
 * there is room; it is WRITING until it is settled. */
void commit_add(struct engine *engine, struct write_note note);

/* Adds a change of the engine's own, which is tried until it succeeds, with its report: one batch
 * carries both, so both are durable or neither is. */
void commit_add_own(struct engine *engine, struct entry *entry);

/* Adds a timer that was spilled; it counts in commit_spilling until it is durable. */
void commit_add_spilled(struct engine *engine, struct entry *entry);

/* Adds that a dead letter is forgotten: for a command, for which there is room, or the engine's own
 * (NULL). It is tried until it succeeds, even if the command is answered with an error before. */
void commit_add_forgotten(struct engine *engine, struct entry *entry, struct command *command);

/* Makes a batch be taken even without writes: its meta has changed. */
void commit_want_meta(struct engine *engine);

/* Something waits for what the next batch has: it is due at once. */
void commit_hurry(struct engine *engine);

/* Once a turn: writes again what failed, when the time has come. Whether there was any. */
bool commit_retry(struct engine *engine);

/* ---- batches ---- */

/* When the next batch is to be taken: at once, but for one of ends of timers and of meta alone,
 * which is due ends_pace_ms behind the last one. WALL_NEVER: there is nothing to write, or no room
 * for one more batch. */
struct wall commit_due_at(const struct engine *engine);

/* All writes so far; its meta is the caller's to fill in. NULL when no batch is due. */
struct storage_batch *commit_take(struct engine *engine);

/* Begins with a batch that is back. */
void commit_back(struct engine *engine, struct storage_batch *batch);

/* The result of one of its writes, whose entry is WRITING still and to be settled, in doubt, or
 * written again. */
struct write_note commit_result(struct engine *engine, struct storage_batch *batch, size_t index);

/* Ends with a batch, and frees it. After a success the timers in doubt are looked for. */
void commit_end(struct engine *engine, struct storage_batch *batch);

/* ---- in doubt ---- */

enum commit_finding {
    COMMIT_FOUND_NOTHING, /* the answer is not for the entry */
    COMMIT_FOUND_FAILURE, /* the read failed: looked for again later */
    COMMIT_FOUND_WRITTEN, /* the engine's own change is durable: to be settled, with its report */
    COMMIT_FOUND_AGAIN,   /* it is not: written again */
    COMMIT_FOUND_ROW,     /* a placeholder from now on, for which this answer holds too */
};

/* Takes the row of an entry in doubt, or that there is none. */
enum commit_finding commit_found(struct engine *engine, struct entry *entry,
                                 const struct engine_read *read);

/* Entries in doubt that are not being looked for; and those that wait to be written again. */
const struct list *commit_doubts(const struct engine *engine);
const struct list *commit_rewrites(const struct engine *engine);

/* ---- questions ---- */

/* When to retry; WALL_NEVER: nothing failed. */
struct wall commit_wake_at(const struct engine *engine);
void commit_clock_went_back(struct engine *engine);

bool commit_is_idle(const struct engine *engine);     /* no batch is out, or to be taken */
bool commit_is_certain(const struct engine *engine);  /* nor anything in doubt or to be repeated */
size_t commit_unwritten(const struct engine *engine); /* writes that are not durable yet */
size_t commit_spilling(const struct engine *engine);  /* those of them that were spilled */

/* Fills in the gauges of timers in doubt. */
void commit_stats(const struct engine *engine, struct engine_stats *stats);

void commit_check(const struct engine *engine);

#endif
