/* Settling timers, and the scan for spilled ones. */
#include "engine/reload.h"

#include "engine/dispatch.h"
#include "engine/engine_core.h"
#include "engine/fanout.h"
#include "engine/position.h"
#include "engine/spill.h"
#include "engine/watermark.h"
#include "engine/window.h"

#include <assert.h>
#include <stdlib.h>

struct reload {
    bool is_scanning;
    bool is_out_of_room; /* the scan found a timer for which there is no room */
    /* the clock has not stepped back during the scan, so it has seen all rows */
    bool is_whole;
    struct spill_scan scan;
    struct storage_position at; /* position at which the scan continues */
    struct wall not_before;     /* earliest time of the next scan */
};

struct reload *reload_create(void)
{
    return calloc(1, sizeof(struct reload));
}

void reload_destroy(struct reload *reload)
{
    free(reload);
}

/* ---- rows into memory ---- */

static void reload_pass_over(struct engine *engine, const struct timer *timer)
{
    struct spill_backlog *backlog = dispatch_pass_over(engine, timer);

    assert(!timer_is_final(timer->state));
    spill_pass_over(engine, backlog, timer);
    if (backlog && position_is_spilled(engine, timer))
        dispatch_backlog_changed(engine, backlog);
}

/* Makes a durable timer that is not needed in memory EVICTABLE. If it is spilled, a scan may find
 * its row from now on. */
static void reload_evict(struct engine *engine, struct entry *entry)
{
    const struct timer *timer = entry->timer;

    assert(timer_is_final(timer->state) || entry->row_at.ms == timer->at.ms);
    assert(entry->phase == ENTRY_LOADING || entry->phase == ENTRY_WRITING);
    if (!timer_is_final(timer->state) &&
        (position_is_spilled(engine, timer) || position_is_early(engine, timer)))
        reload_pass_over(engine, timer);
    entries_set_phase(engine->entries, entry, ENTRY_EVICTABLE);
}

void reload_settle(struct engine *engine, struct entry *entry)
{
    struct timer *timer = entry->timer;
    bool is_counted = entry->flags & ENTRY_IS_COUNTED;
    bool is_near = window_is_near(engine, timer);
    /* the clock stepped back while the timer was written; its memory is not free yet */
    bool is_in_place = entry->flags & ENTRY_KEEPS_PLACE && position_is_spilled(engine, timer);

    assert(entry->row_at.ms > 0 || timer_is_final(timer->state));
    assert(entry->phase == ENTRY_LOADING || entry->phase == ENTRY_WRITING);
    assert(!entry->successor);
    if (timer_is_final(timer->state) ||
        (!is_near && !is_in_place && !window_overtakes(engine, entry))) {
        reload_evict(engine, entry);
    } else if (position_is_early(engine, timer)) {
        spill_reposition(engine, entry);
    } else if (is_near && !is_counted && window_room_bytes(engine) == 0) {
        /* the read ahead has passed its row while that was being written */
        window_park(engine, entry);
    } else if (position_is_spilled(engine, timer) && !fanout_is_parent(timer) &&
               timer->attempts < timer->retry.attempts_max) {
        /* time has passed too, so its position has come near. One that a patch has left without
         * attempts ends when that is reached: this write must be over first */
        entries_count(engine->entries, entry);
        dispatch_due(engine, entry);
    } else {
        window_schedule(engine, entry);
    }
    assert(entry->phase != ENTRY_LOADING && entry->phase != ENTRY_ABSENT);
}

struct entry *reload_take_in(struct engine *engine, struct timer *timer)
{
    struct entry *entry = entries_find(engine->entries, timer->id.serial);

    assert(timer->id.partition == engine->options.partition);
    if (entry) {
        assert(entry->phase == ENTRY_LOADING);
        entries_replace(engine->entries, entry, timer);
    } else {
        entry = entries_add(engine->entries, timer, ENTRY_LOADING);
        if (!entry)
            return NULL;
    }
    assert(entry->timer == timer);
    entry->row_at = timer->at;
    entry->loaded = engine->now;
    entries_take_in(engine->entries, entry);
    return entry;
}

struct entry *reload_row(struct engine *engine, struct timer *timer)
{
    const struct entry *known = entries_find(engine->entries, timer->id.serial);

    assert(timer->id.partition == engine->options.partition);
    assert(!timer_is_final(timer->state));
    /* A timer in memory is newer than its row. */
    if (known && known->phase != ENTRY_LOADING) {
        timer_free(timer);
        return NULL;
    }
    struct entry *entry = reload_take_in(engine, timer);
    if (!entry) {
        window_skip_row(engine, timer);
        timer_free(timer);
        return NULL;
    }
    reload_settle(engine, entry);
    return entry;
}

/* ---- room ---- */

/* Returns the limit of queued memory up to which timers are reloaded. It is lower than that at
 * which queues spill. */
static size_t reload_bytes_max(const struct engine *engine)
{
    return engine->options.near_bytes_max * 3 / 8;
}

/* True if memory can be made free by spilling from the longest queue. Otherwise queues that cannot
 * send would keep others empty. */
static bool reload_can_make_room(const struct engine *engine)
{
    return dispatch_spillable(engine) > 0 &&
           dispatch_longest_tail_bytes(engine) > 2 * spill_queue_bytes_max(engine);
}

static bool reload_has_room(struct engine *engine)
{
    assert(!window_is_reading(engine));
    if (dispatch_queued_bytes(engine) >= reload_bytes_max(engine) && reload_can_make_room(engine))
        dispatch_halve_longest(engine);
    return dispatch_queued_bytes(engine) < reload_bytes_max(engine) && window_has_room(engine);
}

/* True if the timer fits without spilling others. */
static bool reload_fits(const struct engine *engine, const struct timer *timer)
{
    assert(timer->due.ms <= engine->now.ms);
    assert(engine->reload->is_scanning);
    return dispatch_queued(engine) == 0 ||
           dispatch_queued_bytes(engine) + entry_footprint_of(timer) <=
               engine->options.near_bytes_max / 2;
}

/* ---- the scan ---- */

/* Begins or continues a scan. It starts at the frontier, because all rows before that are in
 * memory. */
static void reload_begin_or_go_on(struct engine *engine)
{
    struct reload *reload = engine->reload;
    const struct storage_position frontier = window_frontier(engine);

    assert(!window_is_reading(engine));
    assert(window_is_ready(engine));
    if (!reload->is_scanning) {
        reload->is_scanning = true;
        reload->is_out_of_room = false;
        reload->is_whole = true;
        reload->scan = spill_scan_begin(engine);
        dispatch_scan_begins(engine);
        reload->at = frontier;
    } else if (storage_position_before(reload->at, frontier)) {
        reload->at = frontier;
    }
    assert(reload->is_scanning && !storage_position_before(reload->at, frontier));
}

/* Ends a scan. If it found a timer without room for it, the next scan waits a little. */
static void reload_end(struct engine *engine)
{
    struct reload *reload = engine->reload;

    assert(!window_is_reading(engine));
    assert(reload->is_scanning);
    spill_scan_end(engine, &reload->scan, reload->is_whole);
    dispatch_scan_ends(engine, reload->is_whole);
    if (reload->is_out_of_room)
        reload->not_before = wall_add(engine->now, engine->options.storage_retry_ms);
    reload->is_scanning = false;
}

static bool reload_may_read(const struct engine *engine)
{
    return spill_wants_scan(engine) && !window_is_reading(engine) && !engine->is_draining &&
           window_is_ready(engine);
}

static struct wall reload_not_before(const struct engine *engine)
{
    const struct reload *reload = engine->reload;
    const struct wall at = window_read_not_before(engine);

    return reload->is_scanning ? at : wall_max(at, reload->not_before);
}

/* Ends the starvation of queues whose spilled timers have all been found. */
static void reload_end_starvation(struct engine *engine)
{
    for (struct spill_backlog *backlog; (backlog = spill_next_found(engine));)
        dispatch_backlog_changed(engine, backlog);
}

void reload_read(struct engine *engine)
{
    struct reload *reload = engine->reload;

    assert(!reload->is_scanning || reload->scan.to.ms > 0);
    if (!reload_may_read(engine) || engine->now.ms < reload_not_before(engine).ms)
        return;
    reload_end_starvation(engine);
    if (!spill_wants_scan(engine) || !reload_has_room(engine))
        return;
    reload_begin_or_go_on(engine);
    if (storage_position_before(reload->at, (struct storage_position){reload->scan.to, 0}))
        window_read_behind(engine, reload->at, reload->scan.to, spill_queue_bytes_max(engine));
    else
        reload_end(engine); /* the next turn begins another scan if one is needed */
}

/* Returns the memory of a queue up to which its timers are reloaded. It is larger in strict order,
 * in which each scan must see all spilled timers before the first one may go. */
static size_t reload_queue_bytes_max(const struct engine *engine, const struct timer *timer)
{
    const size_t max = spill_queue_bytes_max(engine);

    return timer_order(timer) == TIMER_ORDER_STRICT ? 4 * max : max;
}

/* Queues a spilled timer. Returns false if out of memory; then the caller still owns it. */
static bool reload_queue(struct engine *engine, struct timer *timer)
{
    assert(!entries_find(engine->entries, timer->id.serial));
    assert(position_is_spilled(engine, timer));
    while (dispatch_queue_bytes(dispatch_find(engine, timer)) >=
           reload_queue_bytes_max(engine, timer))
        if (!dispatch_swap(engine, timer))
            return false;
    while (!reload_fits(engine, timer) && dispatch_swap(engine, timer))
        ;
    struct entry *entry = reload_fits(engine, timer) ? reload_take_in(engine, timer) : NULL;
    if (!entry) {
        engine->reload->is_out_of_room = true;
        return false;
    }
    entries_count(engine->entries, entry);
    engine->stats.reloaded++;
    dispatch_due(engine, entry);
    return true;
}

/* Moves a misplaced timer to its due time, or spills it again. Returns false if out of memory; then
 * the caller still owns it. */
static bool reload_reposition(struct engine *engine, struct timer *timer)
{
    const bool is_early = position_is_early(engine, timer);

    assert(!entries_find(engine->entries, timer->id.serial));
    assert(!timer_is_final(timer->state));
    if (!is_early && position_placed_at(engine, timer).ms <= engine->now.ms)
        return false;
    struct entry *entry = reload_take_in(engine, timer);
    if (!entry) {
        engine->reload->is_out_of_room = true;
        return false;
    }
    /* Counted in memory until it is written, because there may be many of them. */
    entries_count(engine->entries, entry);
    if (is_early)
        spill_reposition(engine, entry);
    else
        dispatch_spill_again(engine, entry);
    return true;
}

/* Handles the row of a scan: takes or frees its timer. Returns false if there is no room, because
 * other timers have used it since the read began. The scan then continues at this row when there is
 * room. */
static bool reload_scanned(struct engine *engine, struct timer *timer)
{
    const struct entry *known = entries_find(engine->entries, timer->id.serial);
    bool is_spilled = position_is_spilled(engine, timer);
    bool is_wanted = is_spilled || position_is_early(engine, timer);
    bool is_out_of_room = is_wanted && !known && window_room_bytes(engine) == 0;

    assert(engine->reload->is_scanning);
    assert(!timer_is_final(timer->state));
    watermark_scan_met(engine, timer);
    if (is_out_of_room)
        engine->reload->at = position_of(timer);
    else if (is_wanted && known && known->phase == ENTRY_LOADING)
        /* the read may fail, so the next scan must find the row; otherwise the timer in memory is
         * newer */
        reload_pass_over(engine, timer);
    else if (is_spilled && !known && reload_queue(engine, timer))
        return true;
    else if (is_wanted && !known && reload_reposition(engine, timer))
        return true;
    else if (is_wanted && !known)
        reload_pass_over(engine, timer);
    timer_free(timer);
    return !is_out_of_room;
}

void reload_page(struct engine *engine, struct storage_page *page)
{
    assert(engine->reload->is_scanning);
    assert(!window_is_reading(engine));
    engine->reload->at = page->next;
    bool goes_on = true;
    for (size_t i = 0; i < page->count; i++) {
        if (goes_on)
            goes_on = reload_scanned(engine, page->timers[i]);
        else
            timer_free(page->timers[i]);
    }
    page->count = 0; /* the timers have new owners; the read frees the array */
}

struct wall reload_wake_at(const struct engine *engine)
{
    if (!reload_may_read(engine) || !window_has_room(engine) ||
        (dispatch_queued_bytes(engine) >= reload_bytes_max(engine) &&
         !reload_can_make_room(engine)))
        return WALL_NEVER;
    return wall_max(engine->now, reload_not_before(engine));
}

void reload_clock_went_back(struct engine *engine)
{
    struct reload *reload = engine->reload;

    reload->is_whole = false; /* rows that the scan has passed may be misplaced now */
    reload->not_before =
        wall_min(reload->not_before, wall_add(engine->now, engine->options.storage_retry_ms));
    spill_look_everywhere(engine);
    assert(reload->not_before.ms <= wall_add(engine->now, engine->options.storage_retry_ms).ms);
}
