/* second_scan.c - finds overdue rows that no phase knows, and rows whose time zone is missing; and
 * counts the live timers of rows. */
#include "engine/second_scan.h"

#include "engine/commit.h"
#include "engine/effects.h"
#include "engine/engine_core.h"
#include "timer/schedule.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SECOND_SCAN_ROWS = 512, /* maximum of rows of a page */
    SECOND_SCAN_BYTES = 1 << 20,
    SECOND_SCAN_PAUSE_MS = 20, /* pause between two pages */
    /* interval of walks over all rows while rows lack their zone, in milliseconds */
    SECOND_SCAN_FULL_MS = 600000,
    SECOND_SCAN_CHANGE_MS = 1000, /* shortest one, however often calendars change */
};

struct second_scan {
    const struct engine_read *out; /* read that runs; NULL if none does */
    bool is_walking;
    bool is_full;        /* this walk covers all rows */
    bool was_full;       /* a walk over all rows has begun since the start */
    bool checks_writes;  /* a due time by earlier rules may be in a write */
    uint64_t generation; /* that of zones and calendars when the last full walk began */
    struct wall full_at; /* time at which that walk began */
    struct storage_position at, to;
    /* earliest time of the next page; a walk for changed zones or calendars begins earlier */
    struct wall not_before;
    uint64_t zoneless; /* rows of this walk whose time zone or calendar is missing */
};

struct second_scan *second_scan_create(void)
{
    return calloc(1, sizeof(struct second_scan));
}

void second_scan_destroy(struct second_scan *second_scan)
{
    free(second_scan);
}

static uint64_t second_scan_generation(const struct engine *engine)
{
    const _Atomic uint64_t *generation = engine->options.zones.generation;

    return (generation ? atomic_load(generation) : 0) + engine->calendars_version;
}

/* True if the write of one of these entries has a due time by earlier rules. */
static bool second_scan_finds_old(const struct engine *engine, const struct list *entries)
{
    struct wall due;

    LIST_FOR_EACH (entries, link) {
        const struct entry *entry = entry_of(link);
        const struct timer *written = entry->successor ? entry->successor : entry->timer;

        if (entry->phase == ENTRY_WRITING &&
            schedule_is_moved(written, &engine->options.zones, engine->now, &due))
            return true;
    }
    return false;
}

/* True if writes must be compared with the present rules until the next walk begins. That is so
 * after a walk over all rows began, because a call may have computed its due time before, and until
 * no write with such a time is left. */
static bool second_scan_must_check_writes(const struct engine *engine)
{
    const struct second_scan *scan = engine->second_scan;

    return scan->is_full ||
           (scan->checks_writes && (second_scan_finds_old(engine, entries_busy(engine->entries)) ||
                                    second_scan_finds_old(engine, commit_rewrites(engine))));
}

static void second_scan_begin(struct engine *engine)
{
    struct second_scan *scan = engine->second_scan;
    const uint64_t generation = second_scan_generation(engine);

    assert(!scan->is_walking);
    scan->is_full = !scan->was_full || generation != scan->generation ||
                    (engine->stats.zoneless > 0 &&
                     wall_since(scan->full_at, engine->now) >= SECOND_SCAN_FULL_MS);
    scan->checks_writes = second_scan_must_check_writes(engine);
    scan->is_walking = true;
    scan->zoneless = 0;
    scan->at = (struct storage_position){0};
    scan->to.at.ms =
        engine->now.ms > SECOND_SCAN_LATE_MS ? engine->now.ms - SECOND_SCAN_LATE_MS : 0;
    if (!scan->is_full)
        return;
    scan->to.at = STORAGE_DEAD_FROM;
    scan->was_full = true;
    scan->generation = generation;
    scan->full_at = engine->now;
}

static void second_scan_end(struct engine *engine)
{
    struct second_scan *scan = engine->second_scan;

    assert(scan->is_walking && !scan->out);
    if (scan->is_full)
        engine->stats.zoneless = scan->zoneless;
    scan->is_walking = false;
    scan->not_before = wall_add(engine->now, engine->options.second_scan_ms);
}

static void second_scan_pause(struct engine *engine, uint64_t ms)
{
    engine->second_scan->not_before = wall_add(engine->now, ms);
}

/* Returns the earliest time of the next page. A walk for other zones or calendars does not wait
 * until the next walk is due, but a tenant that changes calendars all the time gets one a second. A
 * walk that has begun keeps its pauses. */
static struct wall second_scan_next_at(const struct engine *engine)
{
    const struct second_scan *scan = engine->second_scan;

    if (!scan->was_full || scan->is_walking || scan->generation == second_scan_generation(engine))
        return scan->not_before;
    return wall_min(scan->not_before, wall_add(scan->full_at, SECOND_SCAN_CHANGE_MS));
}

void second_scan_read(struct engine *engine)
{
    struct second_scan *scan = engine->second_scan;
    const uint32_t rows_max = engine->options.scan_rows_max;

    assert(!scan->out);
    if (!engine->options.second_scan_ms || engine->is_draining ||
        engine->now.ms < second_scan_next_at(engine).ms)
        return;
    if (!scan->is_walking)
        second_scan_begin(engine);
    if (!storage_position_before(scan->at, scan->to)) {
        second_scan_end(engine);
        return;
    }
    struct engine_read *read = calloc(1, sizeof(*read));
    if (!read) {
        second_scan_pause(engine, engine->options.storage_retry_ms);
        return;
    }
    read->kind = ENGINE_READ_SCAN;
    read->scan = (struct storage_scan){
        .partition = engine->options.partition,
        .kind = STORAGE_SCAN_LIVE,
        .from = scan->at,
        .to = scan->to,
        .rows_max = rows_max < SECOND_SCAN_ROWS ? rows_max : SECOND_SCAN_ROWS,
        .bytes_max = SECOND_SCAN_BYTES,
    };
    scan->out = read;
    effects_read(engine, read);
}

bool second_scan_is_reading(const struct engine *engine)
{
    return engine->second_scan->out;
}

bool second_scan_has_read(const struct engine *engine, const struct engine_read *read)
{
    return read == engine->second_scan->out;
}

bool second_scan_checks_writes(const struct engine *engine)
{
    return engine->second_scan->checks_writes;
}

/* True if the row was overlooked. If its timer is in memory, that is newer than the row. A row
 * after the frontier has not been read ahead yet. */
static bool second_scan_is_missed(const struct engine *engine, const struct timer *timer,
                                  struct storage_position frontier)
{
    const struct wall due = wall_max(timer->at, timer->due);

    return timer->state != TIMER_PAUSED && due.ms + SECOND_SCAN_LATE_MS <= engine->now.ms &&
           storage_position_before(position_of(timer), frontier) &&
           !entries_find(engine->entries, timer->id.serial);
}

static bool second_scan_lacks_zone(const struct engine *engine, const struct timer *timer)
{
    struct schedule schedule;

    return timer->texts.schedule.size &&
           schedule_of(timer, &engine->options.zones, &schedule, NULL) == ERROR_NOT_FOUND;
}

/* True if the rules of the timer's zone or calendars changed since its row was written. */
static bool second_scan_is_moved(const struct engine *engine, const struct timer *timer)
{
    struct wall due;

    return engine->second_scan->is_full &&
           schedule_is_moved(timer, &engine->options.zones, engine->now, &due);
}

/* Counts the rows of a page whose timers are not in memory (live.h). A placeholder is not a timer
 * that was read. */
static void second_scan_count(struct engine *engine, const struct engine_read *read)
{
    struct live *live = entries_live(engine->entries);

    for (size_t i = 0; i < read->page.count; i++) {
        const struct timer *timer = read->page.timers[i];
        const struct entry *entry = entries_find(engine->entries, timer->id.serial);

        if (!entry || entry->live.as == LIVE_AS_ROW)
            live_walk_row(live, timer);
    }
    live_walked(live, read->scan.from, read->page.next);
}

void second_scan_read_back(struct engine *engine, struct engine_read *read,
                           struct storage_position frontier)
{
    struct second_scan *scan = engine->second_scan;
    struct storage_page *page = &read->page;
    size_t kept = 0;

    assert(scan->out == read);
    scan->out = NULL;
    second_scan_pause(engine,
                      read->result ? engine->options.storage_retry_ms : SECOND_SCAN_PAUSE_MS);
    if (read->result)
        return;
    second_scan_count(engine, read);
    for (size_t i = 0; i < page->count; i++) {
        struct timer *timer = page->timers[i];

        scan->zoneless += scan->is_full && second_scan_lacks_zone(engine, timer);
        const bool is_missed = second_scan_is_missed(engine, timer, frontier);

        engine->stats.missed_found += is_missed;
        if (is_missed || second_scan_is_moved(engine, timer))
            page->timers[kept++] = timer;
        else
            timer_free(timer);
    }
    page->count = kept;
    scan->at = page->next;
    if (!storage_position_before(scan->at, scan->to))
        second_scan_end(engine);
}

struct wall second_scan_wake_at(const struct engine *engine)
{
    if (!engine->options.second_scan_ms || engine->second_scan->out || engine->is_draining)
        return WALL_NEVER;
    return second_scan_next_at(engine);
}

void second_scan_clock_went_back(struct engine *engine)
{
    struct second_scan *scan = engine->second_scan;

    scan->not_before =
        wall_min(scan->not_before, wall_add(engine->now, engine->options.second_scan_ms));
    scan->full_at = wall_min(scan->full_at, engine->now);
}
