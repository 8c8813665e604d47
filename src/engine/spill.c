/* Places of spilled timers, and the queues that may have some. */
#include "engine/spill.h"

#include "base/check.h"
#include "engine/engine_core.h"
#include "engine/outcome.h"
#include "engine/position.h"
#include "engine/watermark.h"
#include "engine/window.h"

#include <assert.h>
#include <stdlib.h>

struct spill {
    struct list starved; /* spill_backlog of each starved queue */
    uint64_t scan;       /* number of the last or running scan; the first is 1 */
    bool is_scanning;
    /* number of the scan that may have missed spilled timers without a queue; 0 if there are
     * none */
    uint64_t unexplored_scan;
    struct wall to; /* upper bound of the positions of spilled timers */
    /* the same bound for rows that the running scan left in place, or that were written since it
     * began */
    struct wall to_seen;
};

struct spill *spill_create(void)
{
    struct spill *spill = calloc(1, sizeof(*spill));

    if (!spill)
        return NULL;
    list_init(&spill->starved);
    spill->scan = 1;
    return spill;
}

void spill_destroy(struct spill *spill)
{
    free(spill);
}

/* Returns the furthest position of a row that is not at its due time, by the clock that placed
 * it. */
static struct wall spill_search_to(const struct engine *engine)
{
    assert(engine->spill->scan > 0);
    return wall_add(watermark_placed(engine),
                    POSITION_PAUSE_MS_MAX + position_spill_ms_max(engine));
}

void spill_look_everywhere(struct engine *engine)
{
    struct spill *spill = engine->spill;

    assert(spill->scan > 0);
    spill->unexplored_scan = spill->scan;
    spill->to = wall_max(spill->to, wall_add(engine->now, position_spill_ms_max(engine)));
    if (engine->now.ms < watermark_placed(engine).ms)
        spill->to = wall_max(spill->to, spill_search_to(engine));
    assert(spill->to.ms > engine->now.ms);
}

/* ---- timers ---- */

/* Notes that there may be a spilled timer at this position. */
static void spill_note_place(struct spill *spill, struct wall at)
{
    spill->to = wall_max(spill->to, wall_add(at, 1));
    spill->to_seen = wall_max(spill->to_seen, wall_add(at, 1));
    assert(spill->to.ms > at.ms && spill->to_seen.ms > at.ms);
}

static struct wall spill_place(struct engine *engine, struct spill_backlog *backlog)
{
    uint64_t ms =
        position_spill_ms(engine) + random_below(&engine->random, position_spill_ms(engine));
    struct wall at = wall_add(engine->now, ms);

    assert(!backlog || backlog->scan <= engine->spill->scan);
    assert(at.ms > engine->now.ms);
    if (backlog)
        backlog->scan = engine->spill->scan;
    spill_note_place(engine->spill, at);
    return at;
}

void spill_timer(struct engine *engine, struct spill_backlog *backlog, struct entry *entry)
{
    assert(entry->phase != ENTRY_WRITING && !entry->successor);
    assert(entry->timer->due.ms <= engine->now.ms);
    assert(!timer_is_final(entry->timer->state));
    entry->timer->at = spill_place(engine, backlog);
    /* it waits for room now, no longer for its next attempt */
    entry->timer->state = TIMER_SCHEDULED;
    engine->stats.spilled++;
    watermark_write_spilled(engine, entry);
}

void spill_again(struct engine *engine, struct spill_backlog *backlog, struct entry *entry)
{
    assert(position_is_spilled(engine, entry->timer));
    assert(entry->phase == ENTRY_LOADING);
    entry->timer->at = spill_place(engine, backlog);
    entry->timer->state = TIMER_SCHEDULED; /* an item that failed waits for room now */
    watermark_write_own(engine, entry);
}

void spill_reposition(struct engine *engine, struct entry *entry)
{
    struct timer *timer = entry->timer;

    assert(entry->phase != ENTRY_WRITING || entry->row_at.ms == timer->at.ms);
    assert(!timer_is_final(entry->timer->state));
    assert(position_is_early(engine, timer));
    timer->at = timer->state == TIMER_RETRYING ? outcome_paused_again(engine, timer) : timer->due;
    watermark_write_own(engine, entry);
}

void spill_reschedule(struct engine *engine, struct entry *entry)
{
    assert(entry->row_at.ms == entry->timer->at.ms);
    assert(entry->phase == ENTRY_SCHEDULED || entry->phase == ENTRY_QUEUED ||
           entry->phase == ENTRY_INFLIGHT);
    if (position_is_early(engine, entry->timer))
        spill_reposition(engine, entry);
    else if (window_is_near(engine, entry->timer))
        window_schedule(engine, entry);
    else
        entries_set_phase(engine->entries, entry, ENTRY_EVICTABLE);
}

void spill_pass_over(struct engine *engine, struct spill_backlog *backlog,
                     const struct timer *timer)
{
    struct spill *spill = engine->spill;

    assert(!timer_is_final(timer->state));
    spill_note_place(spill, timer->at);
    if (backlog && position_is_spilled(engine, timer))
        backlog->scan = spill->scan;
    else
        spill->unexplored_scan = spill->scan;
}

/* ---- queues ---- */

size_t spill_queue_bytes_max(const struct engine *engine)
{
    return engine->options.near_bytes_max / 16;
}

bool spill_is_starved(const struct engine *engine, const struct spill_backlog *backlog,
                      size_t queue_bytes)
{
    assert(backlog->scan <= engine->spill->scan);
    return backlog->scan != 0 && queue_bytes < spill_queue_bytes_max(engine) / 2;
}

void spill_update(struct engine *engine, struct spill_backlog *backlog, size_t queue_bytes)
{
    assert(backlog->scan <= engine->spill->scan);
    if (!spill_is_starved(engine, backlog, queue_bytes))
        list_remove(&backlog->link);
    else if (list_is_empty(&backlog->link))
        list_push(&engine->spill->starved, &backlog->link);
    assert(list_is_empty(&backlog->link) != spill_is_starved(engine, backlog, queue_bytes));
}

/* True if, as far as scans know, a timer of the queue may be spilled. */
static bool spill_may_have(const struct spill *spill, const struct spill_backlog *backlog)
{
    assert(backlog->scan <= spill->scan);
    return backlog->scan >= spill->scan - spill->is_scanning;
}

struct spill_backlog *spill_next_found(struct engine *engine)
{
    struct spill *spill = engine->spill;

    if (list_is_empty(&spill->starved))
        return NULL;
    struct spill_backlog *backlog = list_item(spill->starved.next, struct spill_backlog, link);
    assert(backlog->scan > 0);
    if (spill_may_have(spill, backlog))
        return NULL;
    backlog->scan = 0;
    return backlog;
}

/* ---- scans ---- */

bool spill_wants_scan(const struct engine *engine)
{
    assert(engine->spill->unexplored_scan <= engine->spill->scan);
    return !list_is_empty(&engine->spill->starved) || engine->spill->unexplored_scan;
}

struct spill_scan spill_scan_begin(struct engine *engine)
{
    struct spill *spill = engine->spill;

    assert(spill->unexplored_scan <= spill->scan);
    assert(!spill->is_scanning);
    spill->is_scanning = true;
    spill->scan++;
    spill->to_seen = wall_add(engine->now, 2 * position_spill_ms(engine));
    watermark_scan_begins(engine);
    return (struct spill_scan){spill->to, spill->to.ms >= spill_search_to(engine).ms};
}

/* Lowers the bounds to what a scan has seen. Rows that it did not visit are before the frontier,
 * and so within the window. */
static void spill_learn(struct engine *engine, const struct spill_scan *scan)
{
    const struct wall near_to = wall_add(engine->now, engine->options.window_ms);
    const struct wall near_placed = {
        wall_since((struct wall){position_spill_ms_max(engine)}, near_to)};

    assert(engine->spill->is_scanning);
    assert(scan->to.ms > 0);
    engine->spill->to = engine->spill->to_seen;
    if (scan->is_search)
        watermark_scan_ends(engine, near_placed);
}

void spill_scan_end(struct engine *engine, const struct spill_scan *scan, bool is_whole)
{
    struct spill *spill = engine->spill;

    assert(spill->scan > 1);
    assert(spill->is_scanning);
    if (is_whole)
        spill_learn(engine, scan);
    spill->is_scanning = false;
    if (spill->unexplored_scan < spill->scan)
        spill->unexplored_scan = 0;
}

void spill_check(const struct engine *engine)
{
    const struct spill *spill = engine->spill;

    CHECK(spill->scan > 0 && spill->unexplored_scan <= spill->scan);
    CHECK(!spill->is_scanning || spill->scan > 1);
    LIST_FOR_EACH (&spill->starved, link) {
        const struct spill_backlog *backlog = list_item(link, struct spill_backlog, link);

        CHECK(backlog->scan > 0 && backlog->scan <= spill->scan);
    }
}
