/*
 * spill.h - moves timers out of memory when there is no room, and knows which dispatch queues may
 * have spilled timers.
 *
 * A due timer is spilled when too many wait in memory: its row is moved some windows ahead, where
 * the frontier will read it. But its queue may be empty long before that. A queue that runs low and
 * may have spilled timers is *starved*. While one is, a *reload scan* (reload.h) reads all
 * positions at which spilled timers can be.
 *
 * Scans have numbers. A queue stores the number of the scan during which one of its timers was last
 * passed over, or was last spilled durably (before that, a read may miss the row). If a later scan
 * ends without either, it has found all of them, and the queue is not starved until it spills
 * again. The engine stores such a number for timers without a queue: those that an earlier engine
 * spilled, and those that became durable after their queue was freed.
 *
 * After a step back of the clock, or a start at an earlier time, the next scan is a *search*: it
 * covers all positions of misplaced rows (position.h), and moves those rows back.
 */
#ifndef TICKWHEEL_ENGINE_SPILL_H
#define TICKWHEEL_ENGINE_SPILL_H

#include "engine/engine.h"
#include "engine/entries.h"

struct spill;

/* Notes of a dispatch queue about its spilled timers. */
struct spill_backlog {
    struct list link; /* on the list of starved queues while it is starved */
    /* number of the scan that may have missed one of its spilled timers; 0 if none is spilled */
    uint64_t scan;
};

struct spill *spill_create(void); /* returns NULL if out of memory */
void spill_destroy(struct spill *spill);

/* Assumes that spilled and misplaced timers may be anywhere in the storage. Called after creation
 * and after a step back of the clock. */
void spill_look_everywhere(struct engine *engine);

static inline void spill_backlog_init(struct spill_backlog *backlog)
{
    list_init(&backlog->link);
    backlog->scan = 0;
}

/* ---- timers ---- */

/* Spills a timer: writes its row some windows ahead. `backlog` is that of its dispatch queue; NULL
 * if the queue does not exist. */
void spill_timer(struct engine *engine, struct spill_backlog *backlog, struct entry *entry);

/* Spills a timer once more whose spilled position is too far ahead, after a step back of the
 * clock. */
void spill_again(struct engine *engine, struct spill_backlog *backlog, struct entry *entry);

/* Moves a timer that was put too far ahead to its due time, or gives it a new back-off. The entry
 * is WRITING then. */
void spill_reposition(struct engine *engine, struct entry *entry);

/* After a step back of the clock: puts a timer that is no longer due into the wheel if its row is
 * before the frontier, otherwise out of memory. */
void spill_reschedule(struct engine *engine, struct entry *entry);

/* Records that a spilled timer may be at a position that the running scan has passed. The next scan
 * finds it. */
void spill_pass_over(struct engine *engine, struct spill_backlog *backlog,
                     const struct timer *timer);

/* ---- queues ---- */

/* Returns up to how many bytes of a queue's timers are reloaded. */
size_t spill_queue_bytes_max(const struct engine *engine);

/* True if a queue whose timers use `queue_bytes` has fewer than it can send in a short time, and
 * may have spilled timers. */
bool spill_is_starved(const struct engine *engine, const struct spill_backlog *backlog,
                      size_t queue_bytes);

/* Updates whether the queue is starved. Called after its memory or its notes have changed. */
void spill_update(struct engine *engine, struct spill_backlog *backlog, size_t queue_bytes);

/* Returns a starved queue whose spilled timers have all been found, and marks it as not starved.
 * The caller updates the queue and calls again. NULL if there is none. */
struct spill_backlog *spill_next_found(struct engine *engine);

/* ---- scans ---- */

/* True if a queue is starved, or if spilled timers may exist whose queue does not. */
bool spill_wants_scan(const struct engine *engine);

struct spill_scan {
    struct wall to;
    bool is_search; /* whether the scan also covers the positions of misplaced rows */
};

struct spill_scan spill_scan_begin(struct engine *engine);

/* Ends a scan. `is_whole` is true if the clock did not step back during the scan, so that it saw
 * all rows. */
void spill_scan_end(struct engine *engine, const struct spill_scan *scan, bool is_whole);

/* For tests: aborts unless every invariant holds. */
void spill_check(const struct engine *engine);

#endif
