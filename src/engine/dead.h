/*
 * dead.h - dead letters: where their rows lie, how much they take, and when they go.
 *
 * A timer that dies moves to a stretch of positions of its own (storage_dead_at), in the order in
 * which timers die. There it stays for dead_retain_ms, or until all of them take more than
 * dead_bytes_max. Then the tenants that hold the most lose their oldest ones, down to one level for
 * all of them (max-min fairness): a tenant that holds no more than an equal share loses none. A new
 * engine reads all of them once, to count them. After that it reads the first ones alone, when they
 * are too old, and goes through all of them when they take too much.
 *
 * The counts may be off by a timer that is redriven or forgotten while they are read; the next
 * engine counts anew.
 *
 * Errors     Without memory, or when the storage fails, dead letters stay a little longer.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_DEAD_H
#define TICKWHEEL_ENGINE_DEAD_H

#include "engine/engine.h"
#include "engine/entries.h"

struct dead;

struct dead *dead_create(struct wall now); /* NULL when out of memory */
void dead_destroy(struct dead *dead);

/* The timer dies now: returns the position of its row from now on, and counts it. */
struct wall dead_place(struct engine *engine, const struct timer *timer);

/* A dead letter lives again. */
void dead_revived(struct engine *engine, const struct timer *timer);

/* Forgets a dead letter that is settled, for a command or by itself (NULL). False when out of
 * memory, with a command only: nothing changed. */
bool dead_forget(struct engine *engine, struct entry *entry, struct command *command);

/* Whether it is kept still: it did not die too long ago. */
bool dead_is_kept(const struct engine *engine, const struct timer *timer);

/* In a turn in which no scan is out: asks for the next dead letters, if some must be counted
 * or may have to go. */
void dead_read(struct engine *engine);

/* Whether such a scan is out. */
bool dead_is_reading(const struct engine *engine);

/* Whether a read is of dead_read; it is back. */
bool dead_has_read(const struct engine_read *read);
void dead_read_back(struct engine *engine, struct engine_read *read);

struct wall dead_wake_at(const struct engine *engine);
void dead_clock_went_back(struct engine *engine);

/* Fills in the gauges. */
void dead_stats(const struct engine *engine, struct engine_stats *stats);

void dead_check(const struct engine *engine);

#endif
