/* The wheel over the near window, and reading ahead. */
#include "engine/window.h"

#include "base/check.h"
#include "engine/dead.h"
#include "engine/effects.h"
#include "engine/engine_core.h"
#include "engine/position.h"
#include "engine/second_scan.h"

#include <assert.h>
#include <stdlib.h>

enum { EXPIRE_BATCH = 256, FAILED_READS = 3, LOOK_WINDOWS = 64 };

/* Bit that marks the data of an alarm in the wheel. Entries and owners of alarms have even
 * addresses. */
#define WINDOW_ALARM UINT64_C(1)

struct window {
    struct tw_wheel *wheel;
    size_t alarms;                      /* number of alarms in the wheel */
    struct storage_position frontier;   /* position before which all live rows are in memory */
    struct storage_position reading_to; /* frontier after the running read ahead */
    /* from the frontier to this position the storage has no live row, except those of batches
     * without a result */
    struct storage_position empty_to;
    /* upper bound of empty_to after the running search for the next row */
    struct storage_position looking_to;
    bool was_empty; /* the last read ahead returned no row */
    bool is_reading;
    bool is_reading_behind; /* the running read is a scan after the frontier, not a read ahead */
    bool is_looking;        /* the running read searches for the next row */
    bool is_ready;
    struct wall read_not_before; /* earliest time of the next read after a failure */
    unsigned failed_reads;       /* consecutive failed reads */
};

struct window *window_create(struct wall watermark, struct wall now)
{
    struct window *window = calloc(1, sizeof(*window));

    if (!window)
        return NULL;
    window->wheel = tw_wheel_create(&(struct tw_wheel_options){.start = now.ms});
    if (!window->wheel) {
        free(window);
        return NULL;
    }
    /* at or before now, so that reading begins at once */
    window->frontier.at = wall_min(watermark, now);
    window->empty_to = window->frontier;
    return window;
}

void window_destroy(struct window *window)
{
    if (!window)
        return;
    tw_wheel_destroy(window->wheel);
    free(window);
}

/* ---- timers ---- */

static bool window_is_before(const struct window *window, struct storage_position position)
{
    assert(window->is_reading || !window->is_reading_behind);
    return storage_position_before(position, window->frontier) ||
           (window->is_reading && storage_position_before(position, window->reading_to));
}

bool window_is_near(const struct engine *engine, const struct timer *timer)
{
    assert(timer->id.partition == engine->options.partition);
    return window_is_before(engine->window, position_of(timer));
}

bool window_overtakes(const struct engine *engine, const struct entry *entry)
{
    const struct engine_options *options = &engine->options;
    size_t max = options->near_bytes_max - options->near_bytes_max / 16;

    assert(entry->phase != ENTRY_ABSENT);
    assert(!timer_is_final(entry->timer->state));
    return entry->timer->at.ms < wall_add(engine->now, options->window_ms / 2).ms &&
           engine->window->is_ready &&
           entries_near_bytes(engine->entries) + entry_footprint(entry) <= max &&
           !position_is_spilled(engine, entry->timer);
}

/* Notes that the storage may have a row at this position. Rows before the frontier are in memory
 * already. */
static void window_expect(struct window *window, struct storage_position position)
{
    if (storage_position_before(position, window->frontier))
        return;
    if (storage_position_before(position, window->empty_to))
        window->empty_to = position;
    if (storage_position_before(position, window->looking_to))
        window->looking_to = position;
}

void window_expect_rows(struct engine *engine, const struct storage_batch *batch)
{
    assert(batch->partition == engine->options.partition);
    for (size_t i = 0; i < batch->write_count; i++)
        if (!timer_is_final(batch->writes[i].timer->state))
            window_expect(engine->window, position_of(batch->writes[i].timer));
    assert(!storage_position_before(engine->window->empty_to, engine->window->frontier));
}

/* Moves the frontier back to a row that is to be read again. */
static void window_pull_back(struct window *window, struct storage_position position)
{
    if (storage_position_before(position, window->frontier))
        window->frontier = position;
    if (storage_position_before(position, window->reading_to))
        window->reading_to = position;
    window_expect(window, position);
    assert(!storage_position_before(position, window->frontier));
}

/* Pauses reading, because memory is short or the storage failed. */
static void window_pause_reading(struct engine *engine)
{
    engine->window->read_not_before = wall_add(engine->now, engine->options.storage_retry_ms);
    assert(engine->window->read_not_before.ms >= engine->now.ms);
}

void window_park(struct engine *engine, struct entry *entry)
{
    assert(!timer_is_final(entry->timer->state));
    /* the row is at the timer's position, so it will be read again */
    assert(entry->row_at.ms == entry->timer->at.ms);
    window_pull_back(engine->window, position_of(entry->timer));
    entries_set_phase(engine->entries, entry, ENTRY_EVICTABLE);
    assert(!window_is_near(engine, entry->timer));
    assert(!(entry->flags & ENTRY_IS_COUNTED));
}

void window_park_without_memory(struct engine *engine, struct entry *entry)
{
    assert(entry->phase != ENTRY_ABSENT && entry->phase != ENTRY_EVICTABLE);
    window_pause_reading(engine);
    window_park(engine, entry);
}

void window_skip_row(struct engine *engine, const struct timer *timer)
{
    assert(!timer_is_final(timer->state));
    window_pause_reading(engine);
    window_pull_back(engine->window, position_of(timer));
    assert(!window_is_near(engine, timer));
}

void window_schedule(struct engine *engine, struct entry *entry)
{
    assert(entry->phase != ENTRY_ABSENT && entry->phase != ENTRY_EVICTABLE);
    assert(entry->row_at.ms == entry->timer->at.ms);
    assert(!timer_is_final(entry->timer->state) && !((uintptr_t)entry & WINDOW_ALARM));
    entry->wheel_handle =
        tw_wheel_schedule(engine->window->wheel, entry->timer->at.ms, (uintptr_t)entry);
    if (entry->wheel_handle == TW_NONE) {
        window_park_without_memory(engine, entry);
        return;
    }
    entries_count(engine->entries, entry);
    entries_set_phase(engine->entries, entry, ENTRY_SCHEDULED);
}

void window_unschedule(struct engine *engine, struct entry *entry)
{
    assert(tw_wheel_count(engine->window->wheel) > engine->window->alarms);
    assert(entry->wheel_handle != TW_NONE);
    assert(entry->phase == ENTRY_SCHEDULED);
    tw_wheel_cancel(engine->window->wheel, entry->wheel_handle);
}

/* ---- due timers ---- */

bool window_is_due(const struct engine *engine)
{
    return tw_wheel_wake_at(engine->window->wheel) <= engine->now.ms;
}

bool window_has_passed(const struct engine *engine, struct wall at)
{
    const struct window *window = engine->window;

    return window->is_ready && window->frontier.at.ms > at.ms &&
           tw_wheel_wake_at(window->wheel) > at.ms;
}

size_t window_expire(struct engine *engine, struct window_due *ret_due, size_t count_max)
{
    struct window *window = engine->window;

    assert(count_max > 0);
    struct tw_expired expired[EXPIRE_BATCH];
    size_t count = tw_wheel_expire(window->wheel, engine->now.ms, expired,
                                   count_max < EXPIRE_BATCH ? count_max : EXPIRE_BATCH);
    for (size_t i = 0; i < count; i++) {
        uint64_t data = expired[i].data;

        ret_due[i] = (struct window_due){0};
        if (data & WINDOW_ALARM) {
            assert(window->alarms > 0);
            window->alarms--;
            ret_due[i].alarm_owner = (void *)(uintptr_t)(data & ~WINDOW_ALARM);
        } else {
            ret_due[i].entry = (struct entry *)(uintptr_t)data;
        }
    }
    assert(count <= count_max);
    return count;
}

bool window_set_alarm(struct engine *engine, tw_handle *alarm, void *owner, struct wall at)
{
    struct window *window = engine->window;

    assert(engine->now.ms <= at.ms);
    assert(!((uintptr_t)owner & WINDOW_ALARM));
    assert(*alarm == TW_NONE || window->alarms > 0);
    if (*alarm != TW_NONE)
        return tw_wheel_reschedule(window->wheel, *alarm, at.ms);
    *alarm = tw_wheel_schedule(window->wheel, at.ms, (uintptr_t)owner | WINDOW_ALARM);
    window->alarms += *alarm != TW_NONE;
    return *alarm != TW_NONE;
}

void window_clear_alarm(struct engine *engine, tw_handle *alarm)
{
    struct window *window = engine->window;

    if (*alarm == TW_NONE)
        return;
    assert(window->alarms > 0);
    assert(tw_wheel_count(window->wheel) >= window->alarms);
    tw_wheel_cancel(window->wheel, *alarm);
    *alarm = TW_NONE;
    window->alarms--;
}

/* ---- reading ---- */

size_t window_room_bytes(const struct engine *engine)
{
    size_t max = engine->options.near_bytes_max - engine->options.near_bytes_max / 8;
    size_t near_bytes = entries_near_bytes(engine->entries);

    return near_bytes < max ? max - near_bytes : 0;
}

/* True if a read is worthwhile. With less room, each timer that leaves memory would cause a read of
 * a page of which one row is kept. */
bool window_has_room(const struct engine *engine)
{
    return window_room_bytes(engine) >= engine->options.near_bytes_max / 16;
}

/* Returns the time of the next read ahead: when the frontier, or the next row after it, is less
 * than half a window away. So a window is read in one or two pieces, before it is needed. */
static struct wall window_read_ahead_at(const struct engine *engine)
{
    const struct window *window = engine->window;
    uint64_t half_ms = engine->options.window_ms / 2;
    struct wall at = {0};

    assert(!storage_position_before(window->empty_to, window->frontier));
    if (window->empty_to.at.ms > half_ms)
        at.ms = window->empty_to.at.ms - half_ms;
    return wall_max(at, window->read_not_before);
}

static struct storage_position window_end(const struct engine *engine)
{
    return (struct storage_position){wall_add(engine->now, engine->options.window_ms), 0};
}

void window_pass_empty(struct engine *engine)
{
    struct window *window = engine->window;
    struct storage_position to = window_end(engine);

    if (storage_position_before(window->empty_to, to))
        to = window->empty_to;
    if (!window->is_reading && storage_position_before(window->frontier, to))
        window->frontier = to;
    assert(!storage_position_before(window->empty_to, window->frontier));
}

static bool window_read(struct engine *engine, struct storage_position from,
                        struct storage_position to, size_t rows_max, size_t bytes_max)
{
    assert(!engine->is_draining && bytes_max > 0);
    assert(!engine->window->is_reading && storage_position_before(from, to));

    struct engine_read *read = calloc(1, sizeof(*read));
    if (!read)
        return false;
    read->kind = ENGINE_READ_SCAN;
    read->scan = (struct storage_scan){
        .partition = engine->options.partition,
        .kind = STORAGE_SCAN_LIVE,
        .from = from,
        .to = to,
        .rows_max = rows_max,
        .bytes_max = bytes_max,
        .row_bytes = footprint_of(sizeof(struct entry)),
    };
    engine->window->is_reading = true;
    effects_read(engine, read);
    return true;
}

/* Requests the position of the next row. Nothing else is read until that row is near, so an engine
 * whose timers are all far away sleeps. The end of the scan limits its work, because final rows are
 * skipped. */
static void window_look(struct engine *engine)
{
    struct window *window = engine->window;
    const uint64_t look_ms = engine->options.look_ms;
    const struct storage_position to = {
        wall_add(engine->now, look_ms ? look_ms : engine->options.window_ms * LOOK_WINDOWS), 0};

    assert(window->is_ready && !window->is_looking);
    if (!window_read(engine, window->frontier, to, 1, SIZE_MAX))
        return;
    window->is_looking = true;
    window->reading_to = window->frontier; /* the frontier does not move with this read */
    window->looking_to = to;
}

void window_read_ahead(struct engine *engine)
{
    struct window *window = engine->window;

    assert(window->is_reading || !window->is_reading_behind);
    if (window_is_reading(engine))
        return;
    window_pass_empty(engine);
    const struct storage_position to = window_end(engine);
    if (engine->is_draining || !window_has_room(engine) ||
        engine->now.ms < window_read_ahead_at(engine).ms ||
        !storage_position_before(window->frontier, to))
        return;
    if (window->was_empty)
        window_look(engine);
    else if (window_read(engine, window->frontier, to, engine->options.scan_rows_max,
                         window_room_bytes(engine)))
        window->reading_to = to;
}

bool window_read_behind(struct engine *engine, struct storage_position from, struct wall to,
                        size_t bytes_max)
{
    struct window *window = engine->window;

    assert(!window->is_reading && !window->is_reading_behind);
    assert(window->is_ready);
    assert(!storage_position_before(from, window->frontier));
    if (!window_read(engine, from, (struct storage_position){to, 0}, engine->options.scan_rows_max,
                     bytes_max))
        return false;
    window->is_reading_behind = true;
    window->reading_to = window->frontier; /* the frontier does not move with this read */
    return true;
}

/* Handles the position of the next row. The row itself is read again by a read ahead. */
static void window_looked(struct window *window, const struct storage_page *page)
{
    struct storage_position next = page->count ? position_of(page->timers[0]) : page->next;

    if (storage_position_before(next, window->looking_to))
        window->looking_to = next;
    window->was_empty = false;
    if (storage_position_before(window->empty_to, window->looking_to))
        window->empty_to = window->looking_to;
    assert(!storage_position_before(window->empty_to, window->frontier));
}

enum window_read window_read_back(struct engine *engine, const struct engine_read *read)
{
    struct window *window = engine->window;
    const bool is_behind = window->is_reading_behind, is_looking = window->is_looking;

    assert(read->scan.partition == engine->options.partition);
    assert(read->kind == ENGINE_READ_SCAN);
    assert(window->is_reading && !read->command_);
    window->is_reading = window->is_reading_behind = window->is_looking = false;
    if (read->result != ERROR_NONE) {
        window->failed_reads++;
        window_pause_reading(engine);
        return WINDOW_READ_FAILED;
    }
    window->failed_reads = 0;
    if (is_behind)
        return WINDOW_READ_BEHIND;
    if (is_looking) {
        window_looked(window, &read->page);
        return WINDOW_LOOKED;
    }
    window->is_ready = true;
    window->was_empty = read->page.count == 0;
    window->frontier = read->page.next;
    if (storage_position_before(window->reading_to, window->frontier))
        window->frontier = window->reading_to;
    if (storage_position_before(window->empty_to, window->frontier))
        window->empty_to = window->frontier;
    return WINDOW_READ_AHEAD;
}

bool window_is_reading(const struct engine *engine)
{
    assert(engine->window->is_reading || !engine->window->is_reading_behind);
    assert(!engine->window->is_reading || !dead_is_reading(engine));
    return engine->window->is_reading || dead_is_reading(engine) || second_scan_is_reading(engine);
}

struct wall window_read_not_before(const struct engine *engine)
{
    return engine->window->read_not_before;
}

bool window_is_ready(const struct engine *engine)
{
    return engine->window->is_ready;
}

bool window_is_unreadable(const struct engine *engine)
{
    const struct window *window = engine->window;

    return window->failed_reads >= (window->is_ready ? FAILED_READS : 1);
}

/* ---- time ---- */

struct storage_position window_frontier(const struct engine *engine)
{
    assert(engine->window->frontier.at.ms < WALL_NEVER.ms);
    return engine->window->frontier;
}

static struct wall window_wheel_at(const struct window *window)
{
    return (struct wall){tw_wheel_wake_at(window->wheel)};
}

struct wall window_oldest(const struct engine *engine)
{
    return wall_min(engine->window->frontier.at, window_wheel_at(engine->window));
}

struct wall window_wake_at(const struct engine *engine)
{
    const struct window *window = engine->window;
    struct wall at = window_wheel_at(window);

    assert(window->is_reading || !window->is_reading_behind);
    if (!window_is_reading(engine) && !engine->is_draining && window_has_room(engine))
        at = wall_min(at, window_read_ahead_at(engine));
    return at;
}

bool window_clock_went_back(struct engine *engine)
{
    struct window *window = engine->window;
    struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = engine->now.ms});

    window->read_not_before =
        wall_min(window->read_not_before, wall_add(engine->now, engine->options.storage_retry_ms));
    /* Without this, spilled timers would be before the frontier: they would be queued at once, and
     * spilled again. */
    window_pull_back(
        window, (struct storage_position){wall_add(engine->now, engine->options.window_ms), 0});
    if (!wheel)
        return false;
    tw_wheel_destroy(window->wheel);
    window->wheel = wheel;
    window->alarms = 0;
    return true;
}

bool window_find(const struct engine *engine, const struct entry *entry,
                 struct tw_wheel_place *ret_place)
{
    assert(entry->wheel_handle != TW_NONE);
    assert(entry->phase == ENTRY_SCHEDULED);
    return tw_wheel_find(engine->window->wheel, entry->wheel_handle, ret_place);
}

void window_check(const struct engine *engine)
{
    tw_wheel_check(engine->window->wheel);
    size_t scheduled = 0, cursor = 0;
    for (const struct entry *entry; (entry = entries_next(engine->entries, &cursor));) {
        if (entry->phase != ENTRY_SCHEDULED)
            continue;
        scheduled++;
        CHECK(entry->row_at.ms == entry->timer->at.ms);
        /* also after a step back of the clock, because later timers wait on disk */
        CHECK(entry->timer->at.ms <= wall_add(engine->now, engine->options.window_ms).ms);
    }
    CHECK(scheduled + engine->window->alarms == tw_wheel_count(engine->window->wheel));
    CHECK(!engine->window->is_reading_behind || engine->window->is_ready);
    CHECK(!engine->window->is_looking || engine->window->is_reading);
    CHECK(!storage_position_before(engine->window->empty_to, engine->window->frontier));
    CHECK(window_is_reading(engine) || !entries_has_evictable(engine->entries));
}
