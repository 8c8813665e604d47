/*
 * spill.h - where timers are put for which there is no room in memory, and which dispatch queues
 * may have some of them.
 *
 * A due timer is spilled when too many wait in memory: its row is moved some windows ahead, where
 * the frontier meets it. But its queue may be empty long before. So a queue that runs low and may
 * have spilled timers is *starved*, and while one is, a *reload scan* (reload.h) reads the places
 * where spilled timers can be.
 *
 * A queue notes the number of the scan in which a timer of it was last spilled (and durable: before
 * that a read may miss it) or passed over. A scan that ends without either has found them all: the
 * queue is not starved until it spills again. The engine notes one for the timers without a queue:
 * those that an earlier engine spilled, and those that became durable when their queue was gone.
 *
 * After a step back of the clock, or a start at an earlier time, the next scan is a *search*: it
 * goes as far as misplaced rows can lie (position.h), and brings them back.
 */
#ifndef TICKWHEEL_ENGINE_SPILL_H
#define TICKWHEEL_ENGINE_SPILL_H

#include "engine/engine.h"
#include "engine/entries.h"

struct spill;

/* What a dispatch queue notes about its spilled timers. */
struct spill_backlog {
    struct list link; /* on the list of starved queues while it is starved */
    uint64_t scan;    /* 0 if none of its timers is spilled */
};

struct spill *spill_create(void); /* returns NULL if out of memory */
void spill_destroy(struct spill *spill);

/* Assumes spilled and misplaced timers anywhere in the storage. Called first, and after a step
 * back of the clock. */
void spill_look_everywhere(struct engine *engine);

static inline void spill_backlog_init(struct spill_backlog *backlog)
{
    list_init(&backlog->link);
    backlog->scan = 0;
}

/* ---- timers ---- */

/* Spills a timer of this queue, or without a queue (NULL): it is written some windows ahead. */
void spill_timer(struct engine *engine, struct spill_backlog *backlog, struct entry *entry);

/* Spills a misplaced timer that was spilled before. */
void spill_again(struct engine *engine, struct spill_backlog *backlog, struct entry *entry);

/* Moves an early timer to its due time, or to another back-off: WRITING. */
void spill_reposition(struct engine *engine, struct entry *entry);

/* Puts a timer that waits for its time into the wheel if it is near, otherwise out of memory.
 * After a step back of the clock. */
void spill_reschedule(struct engine *engine, struct entry *entry);

/* Notes that a spilled timer may be where a scan has been; the next one finds it. */
void spill_pass_over(struct engine *engine, struct spill_backlog *backlog,
                     const struct timer *timer);

/* ---- queues ---- */

/* Returns the memory up to which a queue's timers are reloaded. */
size_t spill_queue_bytes_max(const struct engine *engine);

/* True if a queue with this memory has less than it can send in a short time, and perhaps
 * spilled timers. */
bool spill_is_starved(const struct engine *engine, const struct spill_backlog *backlog,
                      size_t queue_bytes);

/* Call after either has changed. */
void spill_update(struct engine *engine, struct spill_backlog *backlog, size_t queue_bytes);

/* Returns a starved queue whose spilled timers have all been found, and notes that. The caller
 * updates the queue and calls again. NULL if there is none. */
struct spill_backlog *spill_next_found(struct engine *engine);

/* ---- scans ---- */

/* True if a queue is starved, or there may be spilled timers without a queue. */
bool spill_wants_scan(const struct engine *engine);

struct spill_scan {
    struct wall to;
    bool is_search; /* whether it looks for misplaced rows too */
};

struct spill_scan spill_scan_begin(struct engine *engine);

/* Ends a scan. `is_whole`: the clock did not step back during it, so it saw all rows. */
void spill_scan_end(struct engine *engine, const struct spill_scan *scan, bool is_whole);

/* For tests: aborts unless every invariant holds. */
void spill_check(const struct engine *engine);

#endif
