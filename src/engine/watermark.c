/* The bounds of rows: watermark, trim, the last final record, misplaced rows. */
#include "engine/watermark.h"

#include "base/check.h"
#include "engine/engine_core.h"
#include "engine/position.h"

#include <assert.h>
#include <stdlib.h>

struct watermark {
    struct wall at, trim;
    struct wall raise_at;           /* time at which to raise it again, if it is stale */
    bool is_stale;                  /* rows have changed since it was written */
    struct wall sample;             /* the watermark as it was at `sampled_at` */
    struct wall sampled_at;         /* retain_ms after this time, the trim becomes `sample` */
    struct wall over_max;           /* upper bound of the positions of final records */
    struct storage_meta meta_taken; /* meta of the last batch; all zero if that failed */
    struct wall placed;             /* `placed` of the meta */
    /* the same bound for the rows that the running scan saw, and those written since it began */
    struct wall placed_seen;
    /* the same bound for rows written since the last moment without pending writes */
    struct wall placed_unsettled;
};

struct watermark *watermark_create(const struct storage_meta *meta, struct wall now)
{
    struct watermark *watermark = calloc(1, sizeof(*watermark));

    if (!watermark)
        return NULL;
    watermark->at = meta->watermark;
    watermark->trim = wall_min(meta->trim, meta->watermark);
    /* timers between trim and watermark may have ended just now */
    watermark->sample = watermark->trim;
    watermark->sampled_at = now;
    watermark->meta_taken = *meta;
    watermark->over_max = wall_max(meta->over_to, wall_max(meta->watermark, now));
    watermark->placed = meta->placed;
    return watermark;
}

void watermark_destroy(struct watermark *watermark)
{
    free(watermark);
}

/* ---- writes ---- */

static void watermark_note_placed(struct engine *engine, const struct timer *timer)
{
    struct watermark *watermark = engine->watermark;
    const struct wall placed = position_placed_at(engine, timer);

    assert(!timer_is_final(timer->state));
    watermark->placed = wall_max(watermark->placed, placed);
    watermark->placed_seen = wall_max(watermark->placed_seen, placed);
    watermark->placed_unsettled = wall_max(watermark->placed_unsettled, placed);
    assert(watermark->placed.ms >= watermark->placed_unsettled.ms);
}

/* If the timer is before the watermark, moves the watermark back to it. That happens after a step
 * back of the clock. */
static void watermark_keep_before(struct watermark *watermark, const struct timer *timer)
{
    watermark->at = wall_min(watermark->at, timer->at);
    watermark->sample = wall_min(watermark->sample, timer->at);
    watermark->trim = wall_min(watermark->trim, timer->at);
    assert(watermark->sample.ms <= watermark->at.ms && watermark->trim.ms <= watermark->at.ms);
}

/* Notes a timer that is written: watermark and trim stay at or before its row. */
static void watermark_note(struct engine *engine, const struct entry *entry)
{
    struct watermark *watermark = engine->watermark;
    const struct timer *timer = entry->successor ? entry->successor : entry->timer;

    assert(timer->id.partition == engine->options.partition);
    watermark->is_stale = true;
    if (storage_is_dead_letter(timer))
        return; /* positions of dead letters are apart from all others */
    /* a final record is at the position that the live one had, unless that was paused */
    if (timer_is_final(timer->state)) {
        const bool moves = entry->row_at.ms == STORAGE_PAUSED_AT.ms;
        const struct wall row_at = entry->row_at.ms ? entry->row_at : timer->id.first;

        watermark->over_max = wall_max(watermark->over_max, moves ? timer->at : row_at);
        return;
    }
    watermark_note_placed(engine, timer);
    watermark_keep_before(watermark, timer);
}

void watermark_write(struct engine *engine, struct write_note note)
{
    assert(!note.entry->successor == (note.purpose == WRITE_CREATE));
    assert(note.entry->successor || note.purpose == WRITE_CREATE);
    assert(!write_is_own(note.purpose));
    watermark_note(engine, note.entry);
    commit_add(engine, note);
}

void watermark_write_own(struct engine *engine, struct entry *entry)
{
    assert(entry->row_at.ms > 0);
    assert(!entry->successor);
    watermark_note(engine, entry);
    for (const struct entry *made = entry->report; made; made = made->report)
        watermark_note(engine, made);
    commit_add_own(engine, entry);
}

void watermark_write_spilled(struct engine *engine, struct entry *entry)
{
    assert(entry->timer->at.ms > engine->now.ms);
    assert(!timer_is_final(entry->timer->state));
    watermark_note(engine, entry);
    commit_add_spilled(engine, entry);
}

/* ---- the bounds ---- */

/* Returns the earliest position of the rows that the timers of these entries have or will have. */
static struct wall watermark_oldest(const struct list *entries, struct wall oldest)
{
    LIST_FOR_EACH (entries, link) {
        const struct entry *entry = entry_of(link);

        if (entry->phase == ENTRY_LOADING)
            continue;
        if (entry->row_at.ms)
            oldest = wall_min(oldest, entry->row_at);
        if (!timer_is_final(entry->timer->state))
            oldest = wall_min(oldest, entry->timer->at);
        if (entry->successor && !timer_is_final(entry->successor->state))
            oldest = wall_min(oldest, entry->successor->at);
    }
    return oldest;
}

/* Returns the time of the next trim. It is at most once an interval, even if retain_ms is 0. */
static struct wall watermark_trim_at(const struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    bool is_short = options->retain_ms < options->watermark_interval_ms;

    return wall_add(engine->watermark->sampled_at,
                    is_short ? options->watermark_interval_ms : options->retain_ms);
}

static bool watermark_trims(const struct engine *engine)
{
    const struct watermark *watermark = engine->watermark;

    assert(watermark->sample.ms <= watermark->at.ms);
    assert(watermark->trim.ms <= watermark->at.ms);
    return watermark->over_max.ms >= watermark->trim.ms &&
           engine->now.ms >= watermark_trim_at(engine).ms;
}

bool watermark_is_due(const struct engine *engine)
{
    const struct watermark *watermark = engine->watermark;

    return watermark_trims(engine) ||
           (watermark->is_stale && engine->now.ms >= watermark->raise_at.ms);
}

void watermark_raise(struct engine *engine, struct wall oldest, size_t queued)
{
    struct watermark *watermark = engine->watermark;
    const bool trims = watermark_trims(engine);

    assert(watermark_is_due(engine));
    oldest = watermark_oldest(entries_busy(engine->entries), oldest);
    oldest = watermark_oldest(commit_rewrites(engine), oldest);
    watermark->at = wall_max(watermark->at, oldest);
    watermark->is_stale = false;
    watermark->raise_at =
        wall_add(engine->now, engine->options.watermark_interval_ms + queued / 100);
    if (trims) {
        /* All rows before `sample` had ended retain_ms ago, when the sample was taken. */
        watermark->trim = wall_max(watermark->trim, watermark->sample);
        watermark->sample = watermark->at;
        watermark->sampled_at = engine->now;
    }
    assert(watermark->trim.ms <= watermark->at.ms);
    if (watermark->at.ms != watermark->meta_taken.watermark.ms ||
        watermark->trim.ms != watermark->meta_taken.trim.ms)
        commit_want_meta(engine);
    assert(watermark->sample.ms <= watermark->at.ms);
}

void watermark_found(struct engine *engine, const struct timer *timer)
{
    assert(!timer_is_final(timer->state));
    watermark_keep_before(engine->watermark, timer);
    engine->watermark->is_stale = true;
}

void watermark_mark_stale(struct engine *engine)
{
    engine->watermark->is_stale = true;
}

void watermark_fill_meta(struct engine *engine, struct storage_meta *ret_meta)
{
    struct watermark *watermark = engine->watermark;

    assert(watermark->trim.ms <= watermark->at.ms);
    assert(watermark->placed.ms >= watermark->placed_unsettled.ms);
    *ret_meta = watermark->meta_taken = (struct storage_meta){
        .epoch = engine->epoch,
        .watermark = watermark->at,
        .trim = watermark->trim,
        .placed = watermark->placed,
        .over_to = watermark->over_max,
    };
}

void watermark_meta_failed(struct engine *engine)
{
    engine->watermark->is_stale = true;
    engine->watermark->meta_taken = (struct storage_meta){0};
}

struct wall watermark_at(const struct engine *engine)
{
    assert(engine->watermark->trim.ms <= engine->watermark->at.ms);
    return engine->watermark->at;
}

struct wall watermark_wake_at(const struct engine *engine)
{
    const struct watermark *watermark = engine->watermark;
    struct wall at = WALL_NEVER;

    if (watermark->is_stale)
        at = wall_min(at, watermark->raise_at);
    if (watermark->over_max.ms >= watermark->trim.ms)
        at = wall_min(at, watermark_trim_at(engine));
    return at;
}

void watermark_clock_went_back(struct engine *engine)
{
    struct watermark *watermark = engine->watermark;

    watermark->raise_at =
        wall_min(watermark->raise_at, wall_add(engine->now, engine->options.watermark_interval_ms));
    watermark->sampled_at = wall_min(watermark->sampled_at, engine->now);
    assert(watermark->sampled_at.ms <= engine->now.ms);
}

void watermark_check(const struct engine *engine)
{
    const struct watermark *watermark = engine->watermark;

    CHECK(watermark->trim.ms <= watermark->at.ms);
    CHECK(watermark->sample.ms <= watermark->at.ms);
    CHECK(watermark->sampled_at.ms <= engine->now.ms);
    CHECK(watermark->placed.ms >= watermark->placed_unsettled.ms);
    size_t cursor = 0;
    for (const struct entry *entry; (entry = entries_next(engine->entries, &cursor));)
        CHECK((entry->phase != ENTRY_SCHEDULED && entry->phase != ENTRY_QUEUED &&
               entry->phase != ENTRY_INFLIGHT) ||
              entry->timer->at.ms >= watermark->at.ms);
}

/* ---- rows put elsewhere than at their due time ---- */

struct wall watermark_placed(const struct engine *engine)
{
    assert(engine->watermark->placed.ms >= engine->watermark->placed_unsettled.ms);
    return engine->watermark->placed;
}

void watermark_scan_begins(struct engine *engine)
{
    assert(engine->watermark->placed.ms >= engine->watermark->placed_unsettled.ms);
    engine->watermark->placed_seen = engine->watermark->placed_unsettled;
}

void watermark_scan_met(struct engine *engine, const struct timer *timer)
{
    struct watermark *watermark = engine->watermark;

    assert(!timer_is_final(timer->state));
    watermark->placed_seen = wall_max(watermark->placed_seen, position_placed_at(engine, timer));
}

void watermark_scan_ends(struct engine *engine, struct wall placed_near)
{
    engine->watermark->placed = wall_max(engine->watermark->placed_seen, placed_near);
    assert(engine->watermark->placed.ms >= engine->watermark->placed_unsettled.ms);
}

void watermark_all_durable(struct engine *engine)
{
    assert(commit_is_certain(engine));
    engine->watermark->placed_unsettled.ms = 0;
}
