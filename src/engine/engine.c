/* The turns of an engine: what happened goes down to the modules, and what they found goes on. */
#include "engine/engine_core.h"

#include "base/check.h"
#include "engine/commands.h"
#include "engine/dispatch.h"
#include "engine/effects.h"
#include "engine/history.h"
#include "engine/outcome.h"
#include "engine/reload.h"
#include "engine/spill.h"
#include "engine/watermark.h"
#include "engine/window.h"

#include <assert.h>
#include <stdlib.h>

static bool engine_create_modules(struct engine *engine, const struct storage_meta *meta)
{
    engine->commands = commands_create();
    engine->lookup = lookup_create();
    engine->reload = reload_create();
    engine->dispatch = dispatch_create();
    engine->spill = spill_create();
    engine->window = window_create(meta->watermark, engine->now);
    engine->watermark = watermark_create(meta, engine->now);
    engine->commit = commit_create();
    engine->entries = entries_create();
    engine->effects = effects_create();
    engine->history = history_create(engine->options.history_max);
    return engine->commands && engine->lookup && engine->reload && engine->dispatch &&
           engine->spill && engine->window && engine->watermark && engine->commit &&
           engine->entries && engine->effects && engine->history;
}

struct engine *engine_create(const struct engine_options *options, const struct storage_meta *meta,
                             struct wall now)
{
    struct engine *engine = calloc(1, sizeof(*engine));

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
    watermark_destroy(engine->watermark);
    commit_destroy(engine->commit);
    entries_destroy(engine->entries);
    effects_destroy(engine->effects);
    history_destroy(engine->history);
    free(engine);
}

/* ---- turns ---- */

static void engine_clock_went_back(struct engine *engine)
{
    enum dispatch_wheel wheel = DISPATCH_WHEEL_KEPT;
    size_t cursor = 0;

    assert(engine->is_in_turn);
    if (window_clock_went_back(engine)) {
        wheel = DISPATCH_WHEEL_NEW;
        for (struct entry *entry; (entry = entries_next(engine->entries, &cursor));)
            if (entry->phase == ENTRY_SCHEDULED)
                spill_reschedule(engine, entry);
    }
    dispatch_clock_went_back(engine, wheel);
    reload_clock_went_back(engine);
    watermark_clock_went_back(engine);
    commit_clock_went_back(engine);
}

void engine_begin(struct engine *engine, struct wall now)
{
    bool went_back = now.ms < engine->now.ms;

    assert(!engine->is_in_turn);
    assert(!effects_has_replies(engine->effects)); /* they may show timers that are freed here */
    engine->is_in_turn = true;
    engine->now = now;
    entries_free_gone(engine->entries);
    effects_free_gone(engine->effects);
    if (went_back)
        engine_clock_went_back(engine);
}

static void engine_raise_watermark(struct engine *engine)
{
    assert(engine->is_in_turn);
    if (watermark_is_due(engine))
        watermark_raise(engine, wall_min(window_oldest(engine), dispatch_oldest(engine)),
                        dispatch_queued(engine));
}

void engine_end(struct engine *engine)
{
    assert(engine->is_in_turn);
    if (commit_retry(engine))
        watermark_mark_stale(engine);
    dispatch_expire(engine);
    dispatch_send(engine);
    if (!window_is_reading(engine))
        entries_evict(engine->entries);
    window_read_ahead(engine);
    reload_read(engine);
    engine_raise_watermark(engine);
    engine->is_in_turn = false;
}

void engine_drain(struct engine *engine)
{
    engine->is_draining = true;
}

/* ---- what happened ---- */

void engine_submit(struct engine *engine, struct command *command)
{
    assert(engine->is_in_turn);
    commands_start(engine, command);
}

static void engine_fail_doubts(struct engine *engine, enum error_code error)
{
    assert(error != ERROR_NONE);
    LIST_FOR_EACH (commit_doubts(engine), link)
        commands_fail_waiters(engine, entry_of(link), error);
}

void engine_committed(struct engine *engine, struct storage_batch *batch)
{
    const enum error_code result = batch->result;

    assert(engine->is_in_turn);
    commit_back(engine, batch);
    if (result) {
        watermark_meta_failed(engine);
        engine_fail_doubts(engine, result);
    }
    for (size_t i = 0; i < batch->write_count; i++) {
        struct write_note note = commit_result(engine, batch, i);

        commands_written(engine, &note, result);
    }
    commit_end(engine, batch);
    /* A success settles what an earlier failure left in doubt too. */
    if (!result && commit_is_certain(engine))
        watermark_all_durable(engine);
}

/* A page of the window, or of the scan for spilled timers. */
static void engine_take_page(struct engine *engine, struct engine_read *read)
{
    struct storage_page *page = &read->page;

    assert(engine->is_in_turn);
    assert(!read->command_);
    switch (window_read_back(engine, read)) {
    case WINDOW_READ_FAILED:
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
        page->count = 0; /* the timers are taken; the array goes with the read */
        break;
    }
}

void engine_read_done(struct engine *engine, struct engine_read *read)
{
    assert(engine->is_in_turn);
    if (read->result != ERROR_NONE && read->result != ERROR_NOT_FOUND)
        engine->stats.storage_failures++;
    if (read->kind == ENGINE_READ_FIND)
        commands_found(engine, read);
    else if (read->kind == ENGINE_READ_LOOKUP)
        commands_looked_up(engine, read);
    else if (read->command_)
        commands_page(engine, read);
    else
        engine_take_page(engine, read);
    effects_read_back(engine, read);
}

void engine_delivered(struct engine *engine, struct delivery *delivery)
{
    struct entry *entry = entries_find(engine->entries, delivery->timer->id.serial);

    assert(entry && entry->timer == delivery->timer && entry->phase == ENTRY_INFLIGHT);
    assert(engine->is_in_turn);
    assert(!effects_has_replies(engine->effects)); /* a reply that shows it must not show more */
    history_returned(engine->history, delivery, engine->now);
    dispatch_returned(engine, entry, &delivery->outcome);
    if (delivery->outcome.result == DELIVERY_RETURNED) {
        dispatch_requeue(engine, entry);
        free(delivery);
    } else {
        outcome_apply(engine, entry, delivery);
    }
}

struct storage_batch *engine_take_batch(struct engine *engine)
{
    struct storage_batch *batch = commit_take(engine);

    if (batch)
        watermark_fill_meta(engine, &batch->meta);
    return batch;
}

/* ---- a partition changes its engine ---- The old engine gives the timers of the deliveries that
 * are under way to the next one, so that none is delivered twice because of the move. Everything
 * else is in the storage, where the next engine finds it as after a restart. */

bool engine_is_settled(const struct engine *engine)
{
    return commit_is_idle(engine) && effects_is_idle(engine->effects) &&
           effects_is_taken(engine->effects);
}

void engine_resume(struct engine *engine)
{
    engine->is_draining = false;
}

void engine_release(struct engine *engine, struct list *ret_timers)
{
    assert(engine->is_draining && engine_is_settled(engine));
    LIST_FOR_EACH (entries_busy(engine->entries), link)
        entries_release(engine->entries, entry_of(link), ret_timers);
}

static bool engine_adopt_one(struct engine *engine, struct entry *entry)
{
    assert(entry->phase == ENTRY_ABSENT);
    assert(entry->timer->id.partition == engine->options.partition);
    assert(!timer_is_over(entry->timer->state));
    list_remove(&entry->link);
    if (!dispatch_adopt(engine, entry))
        return false;
    entries_count(engine->entries, entry);
    return true;
}

bool engine_adopt(struct engine *engine, struct list *timers)
{
    LIST_FOR_EACH (timers, link)
        if (!engine_adopt_one(engine, entry_of(link))) {
            list_push_front(timers, link);
            return false;
        }
    return true;
}

/* ---- questions ---- */

bool engine_is_in_turn(const struct engine *engine)
{
    return engine->is_in_turn;
}

struct wall engine_wake_at(const struct engine *engine)
{
    struct wall at = wall_min(window_wake_at(engine), watermark_wake_at(engine));

    return wall_min(wall_min(at, reload_wake_at(engine)), commit_wake_at(engine));
}

bool engine_is_ready(const struct engine *engine)
{
    return window_is_ready(engine);
}

bool engine_is_idle(const struct engine *engine)
{
    return commit_is_idle(engine) && effects_is_idle(engine->effects) &&
           dispatch_inflight(engine) == 0;
}

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats)
{
    *ret_stats = engine->stats;
    ret_stats->in_memory = entries_size(engine->entries);
    ret_stats->near_bytes = entries_near_bytes(engine->entries);
    ret_stats->watermark = watermark_at(engine);
    ret_stats->frontier = window_frontier(engine).at;
    commit_stats(engine, ret_stats);
    dispatch_stats(engine, ret_stats);
}

size_t engine_footprint(const struct timer *timer)
{
    return entry_footprint_of(timer);
}

void engine_check(const struct engine *engine)
{
    size_t cursor = 0;

    entries_check(engine->entries);
    commit_check(engine);
    watermark_check(engine);
    window_check(engine);
    dispatch_check(engine);
    for (const struct entry *entry; (entry = entries_next(engine->entries, &cursor));)
        if (entry->phase == ENTRY_SCHEDULED) {
            CHECK(entry->flags & ENTRY_IS_COUNTED);
            CHECK(!timer_is_over(entry->timer->state));
        }
}
