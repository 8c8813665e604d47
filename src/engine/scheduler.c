/*
 * The wheel over the near window, reading ahead, and the watermark behind.
 *
 *     ── final ──┬── live and final ──┬── in memory, all that live ──┬── in the storage only ──►
 *              trim               watermark                       frontier
 *
 * Whatever is written before the frontier stays in memory; whatever is written behind it is met
 * when the frontier gets there. While a read ahead is out, `reading_to` counts as the frontier,
 * since that read may have passed before the row was there.
 */
#include "engine/engine_private.h"

#include <assert.h>
#include <stdlib.h>

#define EXPIRE_BATCH 256
#define EXPIRE_MAX \
    2048 /* timers taken up in one call; the rest in the next, which is due at once */

bool scheduler_is_near(const struct engine *engine, const struct timer *timer)
{
    struct storage_position position = position_of(timer);

    return storage_position_before(position, engine->frontier) ||
           (engine->is_reading && storage_position_before(position, engine->reading_to));
}

/* There is no room to keep this timer near: the storage has it, so it will be read again. */
static void pull_back(struct engine *engine, struct storage_position position)
{
    if (storage_position_before(position, engine->frontier))
        engine->frontier = position;
    if (storage_position_before(position, engine->reading_to))
        engine->reading_to = position;
}

/* The system has no memory: better not to ask again at once. */
static void pause_reading(struct engine *engine)
{
    engine->read_not_before = wall_add(engine->now, engine->options.storage_retry_ms);
}

static void linger(struct engine *engine, struct entry *entry)
{
    entries_set_phase(engine->entries, entry, ENTRY_EVICTABLE);
}

static void park(struct engine *engine, struct entry *entry)
{
    pull_back(engine, position_of(entry->timer));
    linger(engine, entry);
}

void scheduler_rest(struct engine *engine, struct entry *entry)
{
    entry->wheel_handle =
        tw_wheel_schedule(engine->wheel, entry->timer->at.ms, (uint64_t)(uintptr_t)entry);
    if (entry->wheel_handle == TW_NONE) {
        pause_reading(engine);
        park(engine, entry);
        return;
    }
    entries_count(engine->entries, entry);
    entries_set_phase(engine->entries, entry, ENTRY_SCHEDULED);
}

void scheduler_rest_or_go(struct engine *engine, struct entry *entry)
{
    if (refill_is_early(engine, entry->timer))
        refill_come_home(engine, entry);
    else if (scheduler_is_near(engine, entry->timer))
        scheduler_rest(engine, entry);
    else
        linger(engine, entry);
}

void scheduler_unrest(struct engine *engine, struct entry *entry)
{
    if (entry->phase == ENTRY_SCHEDULED)
        tw_wheel_cancel(engine->wheel, entry->wheel_handle);
    else if (entry->phase == ENTRY_QUEUED)
        lanes_remove(engine, entry);
}

size_t scheduler_room_bytes(const struct engine *engine)
{
    size_t max = engine->options.near_bytes_max - engine->options.near_bytes_max / 8;

    return entries_near_bytes(engine->entries) < max ? max - entries_near_bytes(engine->entries)
                                                     : 0;
}

static bool has_room(const struct engine *engine)
{
    return scheduler_room_bytes(engine) > 0;
}

/* Enough of it, so that a read is worth it: else every timer that goes would make a page be read of
 * which one row is kept. */
bool scheduler_has_room(const struct engine *engine)
{
    return scheduler_room_bytes(engine) >= engine->options.near_bytes_max / 16;
}

/* The frontier is half a window ahead at least, unless so much is due that it cannot get on: then a
 * timer behind it, just written and due before half a window is over, would wait for all of that to
 * be read and put off. It stays in memory, in what reading leaves free; the frontier passes it
 * later. */
static bool is_overtaking(const struct engine *engine, const struct entry *entry)
{
    const struct engine_options *options = &engine->options;
    size_t max = options->near_bytes_max - options->near_bytes_max / 16;

    return entry->timer->at.ms < wall_add(engine->now, options->window_ms / 2).ms &&
           engine->is_ready &&
           entries_near_bytes(engine->entries) + entry_footprint(entry) <= max &&
           !refill_is_spilled(engine, entry->timer);
}

void engine_settle(struct engine *engine, struct entry *entry)
{
    bool is_counted = entry->flags & ENTRY_IS_COUNTED;
    bool is_near = scheduler_is_near(engine, entry->timer);

    if (timer_is_over(entry->timer->state) || (!is_near && !is_overtaking(engine, entry))) {
        refill_settled(engine, entry->timer);
        linger(engine, entry);
    } else if (refill_is_early(engine, entry->timer)) {
        refill_come_home(engine, entry);
    } else if (is_near && !is_counted && !has_room(engine)) {
        park(engine, entry); /* a read ahead overtook it while it was written */
    } else if (refill_is_spilled(engine, entry->timer)) {
        entries_count(engine->entries, entry); /* so did the time: its place is near already */
        scheduler_take_up(engine, entry);
    } else {
        scheduler_rest(engine, entry);
    }
    planner_resume(engine, entry);
}

/* The place of its row is reached, but its time was extended meanwhile: the row goes to its due
 * time. That is no change that a client sees. */
static void move_on(struct engine *engine, struct entry *entry)
{
    entry->timer->at = entry->timer->due;
    engine->stats.moved_on++;
    writer_add_own(engine, entry);
}

void scheduler_take_up(struct engine *engine, struct entry *entry)
{
    if (entry->timer->due.ms > engine->now.ms) {
        move_on(engine, entry);
        return;
    }
    if (entry->timer->attempts >= entry->timer->retry.attempts_max)
        outcome_exhausted(engine, entry);
    else
        lanes_add(engine, entry);
}

/* The wheel says that it is time. */
static void come_up(struct engine *engine, struct entry *entry)
{
    if (entry->timer->at.ms >
        engine->now.ms) { /* only when scheduler_clock_went_back had no memory */
        pause_reading(engine);
        park(engine, entry);
    } else {
        scheduler_take_up(engine, entry);
    }
}

void scheduler_expire(struct engine *engine)
{
    struct tw_expired due[EXPIRE_BATCH];
    size_t taken = 0;

    while (taken < EXPIRE_MAX && tw_wheel_wake_at(engine->wheel) <= engine->now.ms) {
        size_t count = tw_wheel_expire(engine->wheel, engine->now.ms, due, EXPIRE_BATCH);

        /* First the alarms, each of which may free its lane and none but that. */
        for (size_t i = 0; i < count; i++)
            if (due[i].data & LANES_ALARM)
                lanes_alarm(engine, (struct lane *)(uintptr_t)(due[i].data & ~LANES_ALARM));
        for (size_t i = 0; i < count; i++)
            if (!(due[i].data & LANES_ALARM))
                come_up(engine, (struct entry *)(uintptr_t)due[i].data);
        taken += count ? count : EXPIRE_BATCH;
    }
}

/* ---- reading ahead ---- */

/* Reading goes on when the frontier is less than half a window away; so a window is read in one or
 * two pieces, ahead of need. */
static struct wall read_ahead_at(const struct engine *engine)
{
    uint64_t half_ms = engine->options.window_ms / 2;
    struct wall at = {0};

    if (engine->frontier.at.ms > half_ms)
        at.ms = engine->frontier.at.ms - half_ms;
    return wall_max(at, engine->read_not_before);
}

bool scheduler_read(struct engine *engine, struct storage_position from, struct storage_position to,
                    size_t bytes_max)
{
    struct engine_read *read = calloc(1, sizeof(*read));

    if (!read)
        return false;
    read->kind = ENGINE_READ_SCAN;
    read->scan = (struct storage_scan){
        .partition = engine->options.partition,
        .kind = STORAGE_SCAN_LIVE,
        .from = from,
        .to = to,
        .rows_max = engine->options.scan_rows_max,
        .bytes_max = bytes_max,
        .row_bytes = ENTRY_FOOTPRINT,
    };
    engine->is_reading = true;
    list_push(&engine->reads, &read->link);
    return true;
}

void scheduler_read_ahead(struct engine *engine)
{
    struct storage_position to = {wall_add(engine->now, engine->options.window_ms), 0};

    if (engine->is_reading || engine->is_draining || !scheduler_has_room(engine) ||
        engine->now.ms < read_ahead_at(engine).ms || !storage_position_before(engine->frontier, to))
        return;
    if (scheduler_read(engine, engine->frontier, to, scheduler_room_bytes(engine)))
        engine->reading_to = to;
}

static void load(struct engine *engine, struct timer *timer)
{
    const struct entry *known = entries_find(engine->entries, timer->id.serial);
    struct entry *entry;

    /* What is in memory is newer; and what is in doubt may not be durable yet. */
    if (known && (known->phase != ENTRY_LOADING || known->flags & ENTRY_IN_DOUBT)) {
        timer_free(timer);
        return;
    }
    entry = engine_take_in(engine, timer);
    if (!entry) {
        pause_reading(engine);
        pull_back(engine, position_of(timer));
        timer_free(timer);
        return;
    }
    engine_settle(engine, entry);
}

void scheduler_loaded(struct engine *engine, struct engine_read *read)
{
    struct storage_page *page = &read->page;

    if (engine->is_refilling) {
        refill_loaded(engine, read);
        return;
    }
    engine->is_reading = false;
    if (read->result != ERROR_NONE) {
        engine->read_not_before = wall_add(engine->now, engine->options.storage_retry_ms);
        return;
    }
    engine->is_ready = true;
    engine->frontier = page->next;
    if (storage_position_before(engine->reading_to, engine->frontier))
        engine->frontier = engine->reading_to;
    for (size_t i = 0; i < page->count; i++)
        load(engine, page->timers[i]);
    page->count = 0; /* the timers are ours now; the array goes with the read */
}

/* ---- the watermark ---- */

void scheduler_wrote(struct engine *engine, const struct timer *timer, struct wall row_at)
{
    engine->watermark_is_stale = true;
    if (timer_is_over(timer->state)) { /* the final record lies where the live one was */
        engine->over_max = wall_max(engine->over_max, row_at.ms ? row_at : timer->id.first);
        return;
    }
    refill_wrote(engine, timer);
    /* A clock that stepped back can put a timer behind the watermark: then that goes back too. */
    engine->watermark = wall_min(engine->watermark, timer->at);
    engine->sample = wall_min(engine->sample, timer->at);
    engine->trim = wall_min(engine->trim, timer->at);
}

/* The first row that the timers of these entries have, or will have. */
static struct wall oldest_row(const struct list *entries, struct wall oldest)
{
    LIST_FOR_EACH (entries, link) {
        const struct entry *entry = entry_of(link);
        const bool is_in_doubt = entry->flags & ENTRY_IN_DOUBT;

        if (entry->phase == ENTRY_LOADING && !is_in_doubt)
            continue;
        if (entry->row_at.ms)
            oldest = wall_min(oldest, entry->row_at);
        if (!timer_is_over(entry->timer->state) || is_in_doubt)
            oldest = wall_min(oldest, entry->timer->at);
        if (entry->successor && !timer_is_over(entry->successor->state))
            oldest = wall_min(oldest, entry->successor->at);
    }
    return oldest;
}

/* Raises the watermark as far as all that lives allows, and asks for it to be written. Reads every
 * timer that is due or being written, so the more there are, the longer until the next time. */
static void raise_watermark(struct engine *engine)
{
    uint64_t pause_ms = engine->options.watermark_interval_ms;
    struct wall oldest = engine->frontier.at;

    oldest.ms =
        oldest.ms < tw_wheel_wake_at(engine->wheel) ? oldest.ms : tw_wheel_wake_at(engine->wheel);
    oldest = wall_min(oldest, lanes_oldest(engine));
    oldest = oldest_row(entries_busy(engine->entries), oldest);
    oldest = oldest_row(&engine->rewrites, oldest);
    oldest = oldest_row(&engine->doubts, oldest);
    engine->watermark = wall_max(engine->watermark, oldest);
    engine->watermark_is_stale = false;
    engine->watermark_at = wall_add(engine->now, pause_ms + engine->stats.waiting / 100);
}

/* At most once an interval: with retain_ms at 0 there would be no pause else. */
static struct wall trim_at(const struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    bool is_short = options->retain_ms < options->watermark_interval_ms;

    return wall_add(engine->sampled_at,
                    is_short ? options->watermark_interval_ms : options->retain_ms);
}

void scheduler_watermark(struct engine *engine)
{
    bool trims = engine->over_max.ms >= engine->trim.ms && engine->now.ms >= trim_at(engine).ms;

    if (!trims && (!engine->watermark_is_stale || engine->now.ms < engine->watermark_at.ms))
        return;
    raise_watermark(engine);
    if (trims) {
        /* All before the sample was over when it was taken, and that is retain_ms ago. */
        engine->trim = wall_max(engine->trim, engine->sample);
        engine->sample = engine->watermark;
        engine->sampled_at = engine->now;
    }
    if (engine->watermark.ms != engine->meta_taken.watermark.ms ||
        engine->trim.ms != engine->meta_taken.trim.ms)
        engine->meta_wanted = true;
}

/* ---- the clock ---- */

void scheduler_clock_went_back(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = engine->now.ms});
    size_t cursor = 0;
    struct entry *entry;

    /* Else what is spilled would be put before the frontier: near, so taken up at once, and spilled
     * again. */
    pull_back(engine, (struct storage_position){wall_add(engine->now, options->window_ms), 0});
    /* A wheel's time cannot go back, so its timers move to a new one, or out of memory. */
    if (wheel) {
        tw_wheel_destroy(engine->wheel);
        engine->wheel = wheel;
        lanes_lose_alarms(engine);
        while ((entry = entries_next(engine->entries, &cursor)))
            if (entry->phase == ENTRY_SCHEDULED)
                scheduler_rest_or_go(engine, entry);
    }
    lanes_clock_went_back(engine);
    refill_clock_went_back(engine);
    engine->watermark_at =
        wall_min(engine->watermark_at, wall_add(engine->now, options->watermark_interval_ms));
    engine->read_not_before =
        wall_min(engine->read_not_before, wall_add(engine->now, options->storage_retry_ms));
    engine->rewrite_at =
        wall_min(engine->rewrite_at, wall_add(engine->now, options->storage_retry_ms));
    engine->pass_not_before =
        wall_min(engine->pass_not_before, wall_add(engine->now, options->storage_retry_ms));
    engine->sampled_at = wall_min(engine->sampled_at, engine->now);
}

struct wall scheduler_wake_at(const struct engine *engine)
{
    struct wall at = {tw_wheel_wake_at(engine->wheel)};

    if (engine->watermark_is_stale)
        at = wall_min(at, engine->watermark_at);
    if (engine->over_max.ms >= engine->trim.ms)
        at = wall_min(at, trim_at(engine));
    if (!engine->is_reading && !engine->is_draining && scheduler_has_room(engine))
        at = wall_min(at, read_ahead_at(engine));
    return wall_min(at, refill_wake_at(engine));
}
