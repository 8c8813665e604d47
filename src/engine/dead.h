/*
 * dead.h - dead letters: where their rows are, how much they take, and when they are deleted.
 *
 * A timer that dies moves to a stretch of positions of its own (storage_dead_at), in the order in
 * which timers die. There it stays for dead_retain_ms, or until all of them take more than
 * dead_bytes_max. Then the tenants that hold the most lose their oldest ones, down to one level for
 * all of them (max-min fairness): a tenant that holds no more than an equal share loses none. A new
 * engine reads all of them once, to count them. After that it reads the first ones alone, when they
 * are too old, and goes through all of them when they take too much.
 *
 * The counts may be off by a timer that is redriven or deleted while letters are counted; the next
 * engine counts again.
 *
 * Errors     If memory is out or the storage fails, dead letters stay a little longer.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_DEAD_H
#define TICKWHEEL_ENGINE_DEAD_H

#include "engine/engine.h"
#include "engine/entries.h"

struct dead;

struct dead *dead_create(struct wall now); /* returns NULL if out of memory */
void dead_destroy(struct dead *dead);

/* Counts a timer that dies now, and returns the new position of its row. */
struct wall dead_place(struct engine *engine, const struct timer *timer);

/* Stops counting a dead letter that was redriven. The timer that lives again may have another
 * size. */
void dead_revived(struct engine *engine, const struct timer *letter);

/* Deletes a dead letter that no read or write is pending for. `command` asked for it; NULL if the
 * engine drops it by itself. Returns false if out of memory, only with a command; then nothing
 * changed. */
bool dead_forget(struct engine *engine, struct entry *entry, struct command *command);

/* True if the time since its death is less than dead_retain_ms. */
bool dead_is_kept(const struct engine *engine, const struct timer *timer);

/* Requests the next dead letters if some must be counted or may have to be dropped. Called in turns
 * without a running scan. */
void dead_read(struct engine *engine);

/* True while a scan of dead_read runs. */
bool dead_is_reading(const struct engine *engine);

/* True if the read was requested by dead_read. */
bool dead_has_read(const struct engine_read *read);
void dead_read_back(struct engine *engine, struct engine_read *read);

struct wall dead_wake_at(const struct engine *engine);
void dead_clock_went_back(struct engine *engine);

/* Fills in the statistics of dead letters. */
void dead_stats(const struct engine *engine, struct engine_stats *stats);

void dead_check(const struct engine *engine);

#endif
