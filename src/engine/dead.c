/* Counts dead letters, and lets the oldest go, and those of the tenants that hold the most. */
#include "engine/dead.h"

#include "base/check.h"
#include "engine/commit.h"
#include "engine/effects.h"
#include "engine/engine_core.h"
#include "timer/tenant_tallies.h"

#include <assert.h>
#include <stdlib.h>

enum {
    READ_ROWS = 256,
    READ_BYTES = 1 << 20,
};

struct dead {
    bool is_counted; /* all letters of earlier engines have been counted */
    bool is_reading;
    /* the running read covers every letter from its begin on */
    bool sees_all;
    bool is_relieving; /* letters are being dropped until they take less than the limit */
    /* the running read belongs to a pass that drops letters of the largest tenants */
    bool is_pass;
    bool has_dropped;             /* the running pass has dropped a letter */
    struct storage_position pass; /* position at which the pass continues */
    /* position of the first letter; while counting: where counting continues */
    struct storage_position from;
    struct storage_position first; /* while counting: position of the first letter that stays */
    struct wall last;              /* position of the last letter */
    /* lower bound of the time at which the first letter is too old; WALL_NEVER if there is none */
    struct wall oldest;
    struct wall not_before; /* earliest time of the next read after a failure */
    struct tenant_tallies tenants;
};

struct dead *dead_create(struct wall now)
{
    struct dead *dead = calloc(1, sizeof(*dead));

    if (!dead)
        return NULL;
    dead->from.at = STORAGE_DEAD_FROM;
    dead->first.at = WALL_NEVER;
    dead->last = storage_dead_at(now);
    dead->oldest = WALL_NEVER;
    dead->pass.at = STORAGE_DEAD_FROM;
    tenant_tallies_init(&dead->tenants);
    return dead;
}

/* ---- counts ---- */

static void dead_clear(struct dead *dead)
{
    tenant_tallies_clear(&dead->tenants);
    dead->oldest = WALL_NEVER;
}

void dead_destroy(struct dead *dead)
{
    if (dead)
        tenant_tallies_clear(&dead->tenants);
    free(dead);
}

static void dead_add(struct dead *dead, const struct timer *timer)
{
    assert(timer->state == TIMER_DEAD && timer->footprint > 0);
    tenant_tallies_add(&dead->tenants, timer->texts.tenant, timer->footprint);
    dead->oldest = wall_min(dead->oldest, timer->ended);
}

static void dead_subtract(struct dead *dead, const struct timer *timer)
{
    tenant_tallies_subtract(&dead->tenants, timer->texts.tenant, timer->footprint);
}

struct wall dead_place(struct engine *engine, const struct timer *timer)
{
    struct dead *dead = engine->dead;

    assert(timer->state == TIMER_DEAD && timer->ended.ms == engine->now.ms);
    dead->last = wall_max(dead->last, storage_dead_at(timer->ended));
    dead->sees_all = false;
    dead->oldest = wall_min(dead->oldest, timer->ended);

    const struct storage_position place = {dead->last, timer->id.serial};
    const bool is_behind = storage_position_before(place, dead->from);
    if (dead->is_counted || is_behind) /* otherwise the count will come to it */
        dead_add(dead, timer);
    /* letters that died when the clock was further ahead are after this one */
    if (dead->is_counted && is_behind)
        dead->from = place;
    else if (is_behind && storage_position_before(place, dead->first))
        dead->first = place;
    return dead->last;
}

void dead_revived(struct engine *engine, const struct timer *letter)
{
    assert(letter->state == TIMER_DEAD);
    dead_subtract(engine->dead, letter);
}

bool dead_is_kept(const struct engine *engine, const struct timer *timer)
{
    assert(storage_is_dead_letter(timer));
    return wall_since(timer->ended, engine->now) <= engine->options.dead_retain_ms;
}

bool dead_forget(struct engine *engine, struct entry *entry, struct command *command)
{
    assert(entry->phase == ENTRY_LOADING || entry->phase == ENTRY_EVICTABLE);
    assert(entry->timer->state == TIMER_DEAD && !(entry->flags & ENTRY_IS_FORGOTTEN));
    if (command && !commit_reserve(engine))
        return false;
    if (storage_is_dead_letter(entry->timer))
        dead_subtract(engine->dead, entry->timer);
    commit_add_forgotten(engine, entry, command);
    return true;
}

/* ---- which ones go ---- */

/* True while the letters take more than the limit. Once dropping has begun, true until they take a
 * sixteenth less, so that not each death causes a read. */
static bool dead_is_too_much(struct engine *engine)
{
    struct dead *dead = engine->dead;
    const uint64_t max = engine->options.dead_bytes_max;

    assert(!dead->is_relieving || dead->is_counted);
    if (!dead->is_counted || dead->tenants.bytes <= max - max / 16)
        dead->is_relieving = false;
    else if (dead->tenants.bytes > max)
        dead->is_relieving = true;
    return dead->is_relieving;
}

enum dead_step {
    DEAD_GOES,  /* deleted now or earlier */
    DEAD_STAYS, /* not old enough; neither are those after it */
    DEAD_WAITS, /* a command or a write uses it: tried again later */
};

/* Handles the row of a dead letter whose timer is in memory, possibly in a newer state. If it was
 * redriven and died again, another row follows later. */
static enum dead_step dead_let_known_go(struct engine *engine, struct entry *known,
                                        const struct timer *row)
{
    assert(known->phase != ENTRY_ABSENT);
    if (known->flags & ENTRY_IS_FORGOTTEN || known->timer->version != row->version)
        return DEAD_GOES;
    if (known->phase != ENTRY_EVICTABLE)
        return DEAD_WAITS;
    dead_forget(engine, known, NULL);
    return DEAD_GOES;
}

static enum dead_step dead_let_go(struct engine *engine, struct timer **timer)
{
    struct entry *known = entries_find(engine->entries, (*timer)->id.serial);

    assert(engine->dead->is_reading);
    if (known)
        return dead_let_known_go(engine, known, *timer);
    struct entry *entry = entries_add(engine->entries, *timer, ENTRY_LOADING);
    if (!entry)
        return DEAD_WAITS;
    *timer = NULL;
    entry->row_at = entry->timer->at;
    dead_forget(engine, entry, NULL);
    return DEAD_GOES;
}

/* Decides about a letter. If it is deleted, takes ownership of the timer and sets *timer to
 * NULL. */
static enum dead_step dead_meet(struct engine *engine, struct timer **timer)
{
    struct dead *dead = engine->dead;

    assert(dead->is_reading);
    assert(storage_is_dead_letter(*timer));
    if (!dead->is_counted)
        dead_add(dead, *timer);
    return dead_is_kept(engine, *timer) ? DEAD_STAYS : dead_let_go(engine, timer);
}

static void dead_pause(struct engine *engine)
{
    engine->dead->not_before = wall_add(engine->now, engine->options.storage_retry_ms);
}

/* ---- reading ---- */

/* Counts the letters of a page, and sets `first` to the first that stays. */
static void dead_count_page(struct engine *engine, struct storage_page *page)
{
    struct dead *dead = engine->dead;

    assert(!dead->is_counted);
    assert(dead->is_reading && !dead->is_relieving);
    for (size_t i = 0; i < page->count; i++) {
        const struct storage_position at = position_of(page->timers[i]);

        if (storage_is_dead_letter(page->timers[i]) &&
            dead_meet(engine, &page->timers[i]) != DEAD_GOES &&
            storage_position_before(at, dead->first))
            dead->first = at;
    }
    dead->from = page->next;
    if (storage_position_before(dead->from, (struct storage_position){WALL_NEVER, 0}))
        return;
    dead->is_counted = true;
    dead->from = dead->first;
}

/* Ends a pass over all letters. If nothing was dropped although the limit is exceeded, the counts
 * were wrong, and counting begins again. */
static void dead_end_pass(struct engine *engine)
{
    struct dead *dead = engine->dead;

    dead->pass = (struct storage_position){STORAGE_DEAD_FROM, 0};
    dead_pause(engine);
    if (!dead->has_dropped && dead->sees_all) {
        dead_clear(dead);
        dead->is_counted = dead->is_relieving = false;
        dead->from = dead->pass;
        dead->first.at = WALL_NEVER;
    }
    dead->has_dropped = false;
}

/* Handles a page of a pass that drops letters of the largest tenants. */
static void dead_relieve_page(struct engine *engine, struct storage_page *page)
{
    struct dead *dead = engine->dead;
    const uint64_t max = engine->options.dead_bytes_max;
    const uint64_t level = tenant_tallies_level(&dead->tenants, max - max / 16);

    assert(dead->is_counted && dead->is_reading);
    for (size_t i = 0; i < page->count; i++) {
        struct timer *timer = page->timers[i];

        dead->pass = position_of(timer);
        if (!dead_is_too_much(engine))
            return;
        if (!storage_is_dead_letter(timer) ||
            tenant_tallies_bytes(&dead->tenants, timer->texts.tenant) <= level)
            continue;
        if (dead_let_go(engine, &page->timers[i]) == DEAD_WAITS) {
            dead_pause(engine);
            return;
        }
        engine->stats.dead_dropped++;
        dead->has_dropped = true;
    }
    dead->pass = page->next;
    if (!storage_position_before(dead->pass, (struct storage_position){WALL_NEVER, 0}))
        dead_end_pass(engine);
}

/* Handles a page from which the letters that are too old are dropped. If none in the page stays,
 * some may have been skipped because they are being written, so the next read begins at the first
 * again. */
static void dead_shed_page(struct engine *engine, struct storage_page *page,
                           const struct storage_scan *scan)
{
    struct dead *dead = engine->dead;
    bool has_any = scan->from.at.ms != STORAGE_DEAD_FROM.ms;

    assert(dead->is_counted);
    assert(dead->is_reading);
    enum dead_step step = DEAD_GOES;
    for (size_t i = 0; i < page->count && step == DEAD_GOES; i++) {
        if (!storage_is_dead_letter(page->timers[i]))
            continue; /* a clock thousands of years ahead wrote this row */
        has_any = true;
        dead->from = position_of(page->timers[i]);
        dead->oldest = page->timers[i]->ended;
        step = dead_meet(engine, &page->timers[i]);
    }
    if (step == DEAD_WAITS)
        dead_pause(engine);
    if (step != DEAD_GOES)
        return;
    dead->from = page->next;
    if (storage_position_before(page->next, scan->to))
        return;
    dead->from = (struct storage_position){STORAGE_DEAD_FROM, 0};
    dead_pause(engine);
    if (!has_any && dead->sees_all)
        dead_clear(dead);
}

/* Returns the time of the next read; WALL_NEVER if none is needed. */
static struct wall dead_wanted_at(const struct engine *engine)
{
    const struct dead *dead = engine->dead;

    if (!dead->is_counted || (dead->is_relieving && dead->tenants.count > 0) ||
        dead->tenants.bytes > engine->options.dead_bytes_max)
        return dead->not_before;
    if (dead->oldest.ms == WALL_NEVER.ms)
        return WALL_NEVER;
    return wall_max(dead->not_before,
                    wall_add(wall_add(dead->oldest, engine->options.dead_retain_ms), 1));
}

void dead_read(struct engine *engine)
{
    struct dead *dead = engine->dead;
    const uint32_t rows_max = engine->options.scan_rows_max;

    if (dead->is_reading || engine->is_draining || engine->now.ms < dead_wanted_at(engine).ms)
        return;
    struct engine_read *read = calloc(1, sizeof(*read));
    if (!read) {
        dead_pause(engine);
        return;
    }
    dead->is_pass = dead_is_too_much(engine) &&
                    wall_since(dead->oldest, engine->now) <= engine->options.dead_retain_ms;
    read->kind = ENGINE_READ_SCAN;
    read->scan = (struct storage_scan){
        .partition = engine->options.partition,
        .kind = STORAGE_SCAN_ALL,
        .from = dead->is_pass ? dead->pass : dead->from,
        .to = {WALL_NEVER, 0},
        .rows_max = rows_max < READ_ROWS ? rows_max : READ_ROWS,
        .bytes_max = READ_BYTES,
    };
    dead->is_reading = true;
    dead->sees_all = commit_is_certain(engine);
    effects_read(engine, read);
}

bool dead_is_reading(const struct engine *engine)
{
    return engine->dead->is_reading;
}

bool dead_has_read(const struct engine_read *read)
{
    return !read->command_ && read->kind == ENGINE_READ_SCAN && read->scan.kind == STORAGE_SCAN_ALL;
}

void dead_read_back(struct engine *engine, struct engine_read *read)
{
    struct dead *dead = engine->dead;

    assert(dead->is_reading && dead_has_read(read));
    if (read->result != ERROR_NONE)
        dead_pause(engine);
    else if (dead->is_pass)
        dead_relieve_page(engine, &read->page);
    else if (dead->is_counted)
        dead_shed_page(engine, &read->page, &read->scan);
    else
        dead_count_page(engine, &read->page);
    dead->is_reading = false;
}

/* ---- questions ---- */

struct wall dead_wake_at(const struct engine *engine)
{
    if (engine->dead->is_reading || engine->is_draining)
        return WALL_NEVER;
    return dead_wanted_at(engine);
}

void dead_clock_went_back(struct engine *engine)
{
    struct dead *dead = engine->dead;

    dead->not_before =
        wall_min(dead->not_before, wall_add(engine->now, engine->options.storage_retry_ms));
}

void dead_stats(const struct engine *engine, struct engine_stats *stats)
{
    assert(engine->dead->tenants.count > 0 || engine->dead->tenants.bytes == 0);
    stats->dead_letters = engine->dead->tenants.count;
    stats->dead_bytes = engine->dead->tenants.bytes;
}

void dead_check(const struct engine *engine)
{
    const struct dead *dead = engine->dead;

    CHECK(dead->tenants.count > 0 || dead->tenants.bytes == 0);
    CHECK(dead->tenants.count == 0 || dead->oldest.ms != WALL_NEVER.ms);
    CHECK(!dead->is_relieving || dead->is_counted);
    tenant_tallies_check(&dead->tenants);
}
