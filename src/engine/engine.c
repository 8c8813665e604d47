/* The turns of an engine: passes what happened to the modules, and what they found on to each
 * other. */
#include "engine/engine_core.h"

#include "base/check.h"
#include "engine/commands.h"
#include "engine/dead.h"
#include "engine/dispatch.h"
#include "engine/effects.h"
#include "engine/history.h"
#include "engine/ledger.h"
#include "engine/lookup.h"
#include "engine/outcome.h"
#include "engine/reload.h"
#include "engine/second_scan.h"
#include "engine/spill.h"
#include "engine/watermark.h"
#include "engine/window.h"

#include <assert.h>
#include <stdlib.h>

/* near_bytes_max divided by this is for timers kept after they left memory (recent.h) */
#define RECENT_SHARE 2

static bool engine_create_modules(struct engine *engine, const struct storage_meta *meta)
{
    engine->commands = commands_create();
    engine->lookup = lookup_create();
    engine->reload = reload_create();
    engine->dispatch = dispatch_create(&engine->options);
    engine->spill = spill_create();
    engine->window = window_create(meta->watermark, engine->now);
    engine->dead = dead_create(engine->now);
    engine->second_scan = second_scan_create();
    engine->watermark = watermark_create(meta, engine->now);
    engine->commit = commit_create();
    engine->entries = entries_create(engine->options.near_bytes_max / RECENT_SHARE);
    engine->effects = effects_create();
    engine->history = history_create(engine->options.history_max);
    engine->ledger = ledger_create(engine->options.ledger);
    engine->options.ledger = (struct bytes){0};
    if (engine->entries && engine->options.is_divided)
        entries_count_tenants(engine->entries);
    return engine->commands && engine->lookup && engine->reload && engine->dispatch &&
           engine->spill && engine->window && engine->dead && engine->second_scan &&
           engine->watermark && engine->commit && engine->entries && engine->effects &&
           engine->history && engine->ledger;
}

struct engine *engine_create(const struct engine_options *options, const struct storage_meta *meta,
                             struct wall now)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    assert(now.ms > 0 && now.ms < WALL_NEVER.ms);
    assert(options->window_ms > 0 && options->scan_rows_max > 0);
    assert(options->near_bytes_max >= 16); /* because spill.c divides it by 16 */
    if (!engine)
        return NULL;
    engine->options = *options;
    engine->now = engine->started = now;
    engine->random = random_seeded(options->seed);
    engine->epoch = meta->epoch;
    engine->stats.pending = meta->pending;
    if (!engine_create_modules(engine, meta)) {
        engine_destroy(engine);
        return NULL;
    }
    spill_look_everywhere(engine);
    engine_begin(engine, now);
    engine_end(engine);
    return engine;
}

void engine_destroy(struct engine *engine)
{
    if (!engine)
        return;
    commands_destroy(engine->commands);
    lookup_destroy(engine->lookup);
    reload_destroy(engine->reload);
    dispatch_destroy(engine->dispatch);
    spill_destroy(engine->spill);
    window_destroy(engine->window);
    dead_destroy(engine->dead);
    second_scan_destroy(engine->second_scan);
    watermark_destroy(engine->watermark);
    commit_destroy(engine->commit);
    entries_destroy(engine->entries);
    effects_destroy(engine->effects);
    ledger_destroy(engine->ledger);
    history_destroy(engine->history);
    target_pauses_leave(engine->pauses);
    target_pauses_leave(engine->resets);
    definitions_leave(engine->definitions);
    calendars_leave(engine->calendars);
    free(engine);
}

/* ---- turns ---- */

static void engine_clock_went_back(struct engine *engine)
{
    enum dispatch_wheel wheel = DISPATCH_WHEEL_KEPT;
    struct list away; /* entries that come back to their place */

    list_init(&away);
    if (window_clock_went_back(engine)) {
        wheel = DISPATCH_WHEEL_NEW;
        size_t cursor = 0;
        for (struct entry *entry; (entry = entries_next(engine->entries, &cursor));) {
            if (entry->phase != ENTRY_SCHEDULED)
                continue;
            /* the alarms of queues are set anew below, with those that keep their places */
            if (entry->flags & ENTRY_KEEPS_PLACE)
                list_push(&away, &entry->link);
            else
                spill_reschedule(engine, entry);
        }
    }
    dispatch_clock_went_back(engine, wheel, &away);
    reload_clock_went_back(engine);
    dead_clock_went_back(engine);
    second_scan_clock_went_back(engine);
    watermark_clock_went_back(engine);
    commit_clock_went_back(engine);
}

static bool engine_is_to_be_held(const struct engine *engine)
{
    return engine->options.is_held && atomic_load(engine->options.is_held);
}

static bool engine_has_new_pauses(const struct engine *engine)
{
    const struct target_pause_board *pauses = engine->options.pauses;

    return pauses && atomic_load(&pauses->board.version) != engine->pauses_version;
}

static bool engine_has_new_definitions(const struct engine *engine)
{
    const struct definition_board *board = engine->options.definitions;

    return board && atomic_load(&board->board.version) != engine->definitions_version;
}

static void engine_look_at_definitions(struct engine *engine)
{
    if (!engine_has_new_definitions(engine))
        return;
    definitions_leave(engine->definitions);
    engine->definitions =
        definition_board_take(engine->options.definitions, &engine->definitions_version);
    dispatch_limits_changed(engine);
}

/* Lets the schedules of this turn use the present calendars. No schedule outlives its call, so the
 * former ones are no longer used. */
static void engine_look_at_calendars(struct engine *engine)
{
    struct calendars_board *board = engine->options.calendars;
    const uint64_t version = board ? atomic_load(&board->version) : 0;

    if (version == engine->calendars_version)
        return;
    calendars_leave(engine->calendars);
    engine->calendars = calendars_board_take(board);
    engine->options.zones.calendars = engine->calendars;
    engine->calendars_version = version;
}

void engine_begin(struct engine *engine, struct wall now)
{
    bool went_back = now.ms < engine->now.ms;

    assert(!engine->is_in_turn);
    assert(!effects_has_replies(engine->effects)); /* replies may show timers that are freed here */
    engine->is_in_turn = true;
    engine->now = now;
    entries_free_gone(engine->entries);
    effects_free_gone(engine->effects);
    if (went_back)
        engine_clock_went_back(engine);
    engine_look_at_calendars(engine);
    window_pass_empty(engine);
    engine_look_at_definitions(engine);
    dispatch_look_at_pauses(engine);
    dispatch_take_places(engine);
    const bool was_held = engine->is_held;
    engine->is_held = engine_is_to_be_held(engine);
    if (!was_held && engine->is_held)
        engine->held_began = now;
    if (was_held && !engine->is_held) {
        engine->held_ended = now;
        leases_wake_all(engine);
    }
}

static void engine_raise_watermark(struct engine *engine)
{
    if (watermark_is_due(engine))
        watermark_raise(engine, wall_min(window_oldest(engine), dispatch_oldest(engine)),
                        dispatch_queued(engine));
    assert(watermark_at(engine).ms < WALL_NEVER.ms);
}

/* Begins at most one scan, because entries may be evicted between scans: a scan that began
 * before an eviction could return the row of that entry as it was earlier. The kinds of scans
 * take turns. */
static void engine_scan(struct engine *engine)
{
    assert(!window_is_reading(engine) && !entries_has_evictable(engine->entries));
    if (!engine->was_dead_scan && window_is_ready(engine))
        dead_read(engine);
    window_read_ahead(engine);
    reload_read(engine);
    if (window_is_ready(engine) && !window_is_reading(engine))
        dead_read(engine);
    engine->was_dead_scan = dead_is_reading(engine);
    if (window_is_ready(engine) && !window_is_reading(engine))
        second_scan_read(engine);
}

void engine_end(struct engine *engine)
{
    assert(engine->is_in_turn);
    if (commit_retry(engine))
        watermark_mark_stale(engine);
    if (ledger_wants_batch(engine->ledger)) {
        commit_want_meta(engine);
        commit_hurry(engine);
    }
    dispatch_expire(engine);
    dispatch_send(engine);
    if (!window_is_reading(engine)) {
        entries_evict(engine->entries);
        engine_scan(engine);
    }
    engine_raise_watermark(engine);
    assert(dispatch_queued_bytes(engine) <= entries_near_bytes(engine->entries));
    engine->is_in_turn = false;
}

void engine_drain(struct engine *engine)
{
    if (!engine->is_draining)
        dispatch_drain(engine);
    engine->is_draining = true;
}

/* ---- what happened ---- */

void engine_submit(struct engine *engine, struct command *command)
{
    assert(!command->parent_ && command->pending_ == 0);
    assert(engine->is_in_turn);
    if (command->kind == COMMAND_LEDGER || command->origin.source)
        commands_start_source(engine, command);
    else
        commands_start(engine, command);
}

/* Writes a timer in memory with the due time that its schedule has now. One that is due is left:
 * its schedule is looked at before it fires. */
static void engine_move(struct engine *engine, struct entry *entry)
{
    const struct timer *timer = entry->timer;
    const bool is_waiting = (timer->state == TIMER_SCHEDULED || timer->state == TIMER_PAUSED) &&
                            timer->due.ms > engine->now.ms;
    struct wall due;

    if ((entry->phase != ENTRY_SCHEDULED && entry->phase != ENTRY_EVICTABLE) || !is_waiting ||
        !schedule_is_moved(timer, &engine->options.zones, engine->now, &due))
        return;
    if (entry->phase == ENTRY_SCHEDULED)
        window_unschedule(engine, entry);
    outcome_moves(engine, entry, due);
}

void engine_committed(struct engine *engine, struct storage_batch *batch)
{
    const enum error_code result = batch->result;

    assert(batch->partition == engine->options.partition);
    assert(engine->is_in_turn);
    window_expect_rows(engine, batch);
    commit_back(engine, batch);
    if (batch->ledger.size)
        commands_settle_source(engine, result);
    if (result)
        watermark_meta_failed(engine);
    for (size_t i = 0; i < batch->write_count; i++) {
        const struct timer *before;
        struct write_note note = commit_result(engine, batch, i, &before);

        if (!result && note.purpose == WRITE_REDRIVE)
            dead_revived(engine, before);
        commands_written(engine, &note, result);
        if (second_scan_checks_writes(engine))
            engine_move(engine, note.entry);
    }
    commit_end(batch);
    if (!result && commit_is_certain(engine))
        watermark_all_durable(engine);
}

/* Handles a page of the read ahead, or of the scan for spilled timers. */
static void engine_take_page(struct engine *engine, struct engine_read *read)
{
    struct storage_page *page = &read->page;

    assert(read->kind == ENGINE_READ_SCAN);
    assert(!read->command_);
    switch (window_read_back(engine, read)) {
    case WINDOW_READ_FAILED:
    case WINDOW_LOOKED:
        break;
    case WINDOW_READ_BEHIND:
        reload_page(engine, page);
        break;
    case WINDOW_READ_AHEAD:
        for (size_t i = 0; i < page->count; i++) {
            struct entry *entry = reload_row(engine, page->timers[i]);

            if (entry)
                commands_resume(engine, entry);
        }
        page->count = 0; /* the timers have new owners; the read frees the array */
        break;
    }
}

/* Handles the rows that the second scan found: they are overdue, or the rules of their zone or
 * calendars changed. */
static void engine_take_missed(struct engine *engine, struct engine_read *read)
{
    struct storage_page *page = &read->page;

    if (read->result == ERROR_NONE)
        commands_rows_read(engine, page);
    second_scan_read_back(engine, read, window_frontier(engine));
    for (size_t i = 0; read->result == ERROR_NONE && i < page->count; i++) {
        struct timer *timer = page->timers[i];
        struct entry *entry = entries_find(engine->entries, timer->id.serial);
        struct wall due;

        /* the timer in memory is newer than its row */
        if (entry && entry->phase != ENTRY_LOADING) {
            timer_free(timer);
            engine_move(engine, entry);
            continue;
        }
        watermark_found(engine, timer);
        if (!schedule_is_moved(timer, &engine->options.zones, engine->now, &due)) {
            reload_row(engine, timer);
            continue;
        }
        entry = reload_take_in(engine, timer);
        if (entry)
            outcome_moves(engine, entry, due);
        else
            timer_free(timer); /* without memory its due time is looked at when it is due */
    }
    if (read->result == ERROR_NONE)
        page->count = 0; /* the timers have new owners; the read frees the array */
}

void engine_read_done(struct engine *engine, struct engine_read *read)
{
    assert(engine_read_partition(read) == engine->options.partition);
    assert(engine->is_in_turn);
    if (read->result != ERROR_NONE && read->result != ERROR_NOT_FOUND)
        engine->stats.storage_failures++;
    if (read->kind == ENGINE_READ_FIND)
        commands_found(engine, read);
    else if (read->kind == ENGINE_READ_LOOKUP)
        commands_looked_up(engine, read);
    else if (read->command_)
        commands_page(engine, read);
    else if (dead_has_read(read))
        dead_read_back(engine, read);
    else if (second_scan_has_read(engine, read))
        engine_take_missed(engine, read);
    else
        engine_take_page(engine, read);
    effects_read_back(engine, read);
}

void engine_delivered(struct engine *engine, struct delivery *delivery)
{
    struct entry *entry = entries_find(engine->entries, delivery->timer->id.serial);

    assert(delivery->epoch == engine->epoch);
    assert(entry && entry->timer == delivery->timer && entry->phase == ENTRY_INFLIGHT);
    assert(engine->is_in_turn);
    /* a reply that shows the timer must show it as it was */
    assert(!effects_has_replies(engine->effects));
    history_returned(engine->history, delivery, engine->now);
    dispatch_returned(engine, entry, &delivery->outcome);
    if (delivery->outcome.result == DELIVERY_RETURNED) {
        dispatch_requeue(engine, entry, delivery->row_due);
        free(delivery);
    } else {
        outcome_apply(engine, entry, delivery);
    }
}

struct storage_batch *engine_take_batch(struct engine *engine)
{
    struct storage_batch *batch = commit_take(engine);

    if (!batch)
        return NULL;
    watermark_fill_meta(engine, &batch->meta);
    assert(batch->meta.epoch == engine->epoch);
    return batch;
}

/* ---- questions ---- */

bool engine_is_in_turn(const struct engine *engine)
{
    return engine->is_in_turn;
}

struct wall engine_wake_at(const struct engine *engine)
{
    struct wall at = wall_min(window_wake_at(engine), watermark_wake_at(engine));

    if ((engine->is_held && !engine_is_to_be_held(engine)) || engine_has_new_pauses(engine))
        return engine->now;
    if (engine_has_new_definitions(engine))
        return engine->now;
    if (!engine->is_held && !engine->is_draining && dispatch_has_places(engine))
        return engine->now;
    if (window_is_ready(engine) && !window_is_reading(engine))
        at = wall_min(at, wall_min(dead_wake_at(engine), second_scan_wake_at(engine)));
    at = wall_min(at, commit_due_at(engine));
    return wall_min(wall_min(at, reload_wake_at(engine)), commit_wake_at(engine));
}

bool engine_is_ready(const struct engine *engine)
{
    return window_is_ready(engine) && !window_is_unreadable(engine);
}

bool engine_is_idle(const struct engine *engine)
{
    return commit_is_idle(engine) && effects_is_idle(engine->effects) &&
           dispatch_inflight(engine) == 0;
}

struct engine_progress engine_progress(const struct engine *engine)
{
    const struct engine_stats *stats = &engine->stats;

    return (struct engine_progress){.fired = stats->due,
                                    .delivered = stats->fired,
                                    .failed = stats->attempts_failed,
                                    .other = stats->resumed + stats->dropped + stats->given_up,
                                    .live = stats->pending};
}

bool engine_is_settled(const struct engine *engine)
{
    return engine_is_ready(engine) && commit_is_idle(engine) && effects_is_idle(engine->effects) &&
           dispatch_inflight(engine) == dispatch_leased(engine);
}

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats)
{
    *ret_stats = engine->stats;
    ret_stats->in_memory = entries_size(engine->entries);
    ret_stats->near_bytes = entries_near_bytes(engine->entries);
    ret_stats->watermark = watermark_at(engine);
    ret_stats->unreadable = window_is_unreadable(engine);
    ret_stats->frontier = window_frontier(engine).at;
    dispatch_stats(engine, ret_stats);
    dead_stats(engine, ret_stats);
}

size_t engine_footprint(const struct timer *timer)
{
    return entry_footprint_of(timer);
}

void engine_check(const struct engine *engine)
{
    CHECK(entries_near_bytes(engine->entries) >= dispatch_queued_bytes(engine));
    CHECK(commit_unwritten(engine) <= entries_size(engine->entries));
    entries_check(engine->entries);
    commit_check(engine);
    dead_check(engine);
    watermark_check(engine);
    window_check(engine);
    spill_check(engine);
    dispatch_check(engine);
    lookup_check(engine);
    effects_check(engine);
    history_check(engine->history);
    ledger_check(engine->ledger);
    size_t cursor = 0;
    for (const struct entry *entry; (entry = entries_next(engine->entries, &cursor));)
        if (entry->phase == ENTRY_SCHEDULED) {
            CHECK(entry->flags & ENTRY_IS_COUNTED);
            CHECK(!timer_is_final(entry->timer->state));
        }
}
