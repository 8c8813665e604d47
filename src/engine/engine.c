/* The life of an engine, its effects, and the questions it answers. */
#include "engine/engine_private.h"

#include <assert.h>
#include <stdlib.h>

struct engine *engine_create(const struct engine_options *options, const struct storage_meta *meta,
                             struct wall now)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (!engine)
        return NULL;
    engine->wheel = tw_wheel_create(&(struct tw_wheel_options){.start = now.ms});
    engine->entries = entries_create();
    if (!engine->wheel || !engine->entries) {
        tw_wheel_destroy(engine->wheel);
        entries_destroy(engine->entries);
        free(engine);
        return NULL;
    }
    engine->options = *options;
    engine->now = engine->started = now;
    history_init(&engine->history, options->history_max);
    engine->random = random_seeded(options->seed);
    engine->epoch = meta->epoch;
    engine->watermark = meta->watermark;
    engine->frontier.at = wall_min(meta->watermark, now); /* so that it reads at once */
    engine->trim = meta->trim;
    engine->sample = meta->trim; /* what lies between may be over since a moment ago */
    engine->sampled_at = now;
    engine->meta_taken = *meta;
    engine->over_max = wall_max(meta->over_to, wall_max(meta->watermark, now));
    engine->placed = meta->placed;
    engine->stats.pending = meta->pending;
    refill_init(engine);
    map_init(&engine->lanes);
    map_init(&engine->name_locks);
    struct list *const lists[] = {&engine->ready,        &engine->gone_reads, &engine->rewrites,
                                  &engine->reads,        &engine->replies,    &engine->parts,
                                  &engine->broker_ready, &engine->woken,      &engine->hungry,
                                  &engine->recorded,     &engine->sweeps,     &engine->doubts,
                                  &engine->deliveries};
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        list_init(lists[i]);
    engine_begin(engine, now);
    engine_end(engine);
    return engine;
}

static void read_free(struct engine_read *read)
{
    timer_free(read->timer);
    storage_page_free(&read->page);
    free(read->names.ids);
    free(read);
}

static void free_gone(struct engine *engine)
{
    struct list *link;

    entries_free_gone(engine->entries);
    while ((link = list_pop(&engine->gone_reads)))
        read_free(list_item(link, struct engine_read, link));
}

void engine_destroy(struct engine *engine)
{
    struct list *link;

    if (!engine)
        return;
    free_gone(engine);
    while ((link = list_pop(&engine->recorded)))
        free(list_item(link, struct delivery, link));
    while ((link = list_pop(&engine->reads)))
        read_free(list_item(link, struct engine_read, link));
    while ((link = list_pop(&engine->deliveries)))
        free(list_item(link, struct delivery, link));
    names_deinit(engine);
    lanes_deinit(engine);
    entries_destroy(engine->entries);
    history_deinit(&engine->history);
    tw_wheel_destroy(engine->wheel);
    free(engine->writes);
    free(engine->notes);
    free(engine->filling);
    free(engine);
}

void engine_begin(struct engine *engine, struct wall now)
{
    bool went_back = now.ms < engine->now.ms;

    assert(!engine->is_in_turn);
    assert(list_is_empty(&engine->replies)); /* they may point at what is freed here */
    engine->is_in_turn = true;
    free_gone(engine);
    engine->now = now;
    if (went_back)
        scheduler_clock_went_back(engine);
}

void engine_end(struct engine *engine)
{
    assert(engine->is_in_turn);
    writer_retry(engine);
    scheduler_expire(engine);
    lanes_dispatch(engine);
    if (!engine->is_reading)
        entries_evict(engine->entries);
    scheduler_read_ahead(engine);
    refill_read(engine);
    scheduler_watermark(engine);
    engine->is_in_turn = false;
}

struct entry *engine_take_in(struct engine *engine, struct timer *timer)
{
    struct entry *entry = entries_find(engine->entries, timer->id.serial);

    if (entry) {
        assert(entry->phase == ENTRY_LOADING && !(entry->flags & ENTRY_IN_DOUBT));
        entries_replace(engine->entries, entry, timer);
    } else {
        entry = entries_add(engine->entries, timer, ENTRY_LOADING);
        if (!entry)
            return NULL;
    }
    entry->row_at = timer->at;
    entry->loaded = engine->now;
    return entry;
}

/* ---- what happened ---- */

void engine_submit(struct engine *engine, struct command *command)
{
    assert(engine->is_in_turn);
    planner_start(engine, command);
}

void engine_read_done(struct engine *engine, struct engine_read *read)
{
    assert(engine->is_in_turn && engine->reads_out > 0);
    engine->reads_out--;
    if (read->result != ERROR_NONE && read->result != ERROR_NOT_FOUND)
        engine->stats.storage_failures++;
    if (read->kind == ENGINE_READ_FIND)
        planner_found(engine, read);
    else if (read->kind == ENGINE_READ_LOOKUP)
        names_looked_up(engine, read);
    else if (read->command_ && read->command_->kind == COMMAND_COMPLETE)
        names_swept(engine, read);
    else if (read->command_ && read->command_->kind == COMMAND_FORECAST)
        forecast_read(engine, read);
    else if (read->command_)
        planner_listed(engine, read);
    else
        scheduler_loaded(engine, read);
    list_init(&read->link);
    list_push(&engine->gone_reads, &read->link);
}

void engine_delivered(struct engine *engine, struct delivery *delivery)
{
    struct entry *entry = entries_find(engine->entries, delivery->timer->id.serial);

    assert(entry && entry->timer == delivery->timer && entry->phase == ENTRY_INFLIGHT);
    assert(engine->is_in_turn);
    assert(list_is_empty(&engine->replies)); /* one that shows it must not show what follows */
    explain_returned(engine, delivery);
    lanes_returned(engine, entry, &delivery->outcome);
    outcome_apply(engine, entry, delivery);
}

void engine_drain(struct engine *engine)
{
    engine->is_draining = true;
}

/* ---- what to do ---- */

struct engine_read *engine_take_read(struct engine *engine)
{
    struct list *link = list_pop(&engine->reads);

    if (!link)
        return NULL;
    engine->reads_out++;
    return list_item(link, struct engine_read, link);
}

uint16_t engine_read_partition(const struct engine_read *read)
{
    switch (read->kind) {
    case ENGINE_READ_FIND:
        return read->id.partition;
    case ENGINE_READ_LOOKUP:
        return read->lookup.partition;
    case ENGINE_READ_SCAN:
        break;
    }
    return read->scan.partition;
}

void engine_read_perform(struct engine_read *read, struct storage *storage)
{
    switch (read->kind) {
    case ENGINE_READ_FIND:
        read->result = storage_find(storage, &read->id, &read->timer, &read->error);
        break;
    case ENGINE_READ_SCAN:
        read->result = storage_scan(storage, &read->scan, &read->page, &read->error);
        break;
    case ENGINE_READ_LOOKUP:
        read->result = storage_lookup(storage, &read->lookup, &read->names, &read->error);
        break;
    }
}

struct delivery *engine_take_delivery(struct engine *engine)
{
    struct list *link = list_pop(&engine->deliveries);

    return link ? list_item(link, struct delivery, link) : NULL;
}

struct command *engine_take_reply(struct engine *engine)
{
    struct list *link = list_pop(&engine->replies);

    return link ? list_item(link, struct command, link) : NULL;
}

struct delivery *engine_take_recorded(struct engine *engine)
{
    struct list *link = list_pop(&engine->recorded);

    return link ? list_item(link, struct delivery, link) : NULL;
}

struct wall engine_wake_at(const struct engine *engine)
{
    struct wall at = scheduler_wake_at(engine);

    if (list_is_empty(&engine->rewrites) && list_is_empty(&engine->doubts))
        return at;
    return wall_min(at, engine->rewrite_at);
}

/* ---- questions ---- */

bool engine_is_in_turn(const struct engine *engine)
{
    return engine->is_in_turn;
}

bool engine_is_ready(const struct engine *engine)
{
    return engine->is_ready;
}

bool engine_is_idle(const struct engine *engine)
{
    return engine->batches_out == 0 && engine->reads_out == 0 && engine->inflight == 0 &&
           engine->write_count == 0 && !engine->meta_wanted && list_is_empty(&engine->reads) &&
           list_is_empty(&engine->rewrites) && list_is_empty(&engine->doubts) &&
           list_is_empty(&engine->replies);
}

static struct wall oldest_overdue(const struct engine *engine)
{
    struct wall oldest = WALL_NEVER;
    size_t cursor = 0;
    struct lane *lane;

    while ((lane = map_next(&engine->lanes, &cursor)))
        if (!list_is_empty(&lane->waiting))
            oldest = wall_min(oldest, entry_of(lane->waiting.next)->timer->due);
    LIST_FOR_EACH (entries_busy(engine->entries), link)
        if (entry_of(link)->phase == ENTRY_INFLIGHT)
            oldest = wall_min(oldest, entry_of(link)->timer->due);
    return oldest.ms < engine->now.ms ? oldest : (struct wall){0};
}

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats)
{
    *ret_stats = engine->stats;
    ret_stats->in_memory = entries_size(engine->entries);
    ret_stats->near_bytes = entries_near_bytes(engine->entries);
    ret_stats->inflight = engine->inflight;
    ret_stats->pulled = engine->pulled;
    ret_stats->oldest_overdue = oldest_overdue(engine);
    ret_stats->watermark = engine->watermark;
    ret_stats->frontier = engine->frontier.at;
}

size_t engine_footprint(const struct timer *timer)
{
    return entry_footprint_of(timer);
}

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

void engine_check(const struct engine *engine)
{
    size_t scheduled = 0, queued = 0, inflight = 0, spilling = 0, cursor = 0;
    size_t out_by_kind[LANE_KIND_COUNT] = {0};
    const struct entry *entry;

    entries_check(engine->entries);
    tw_wheel_check(engine->wheel);
    while ((entry = entries_next(engine->entries, &cursor))) {
        const struct timer *timer = entry->timer;
        uint8_t phase = entry->phase;

        scheduled += phase == ENTRY_SCHEDULED;
        queued += phase == ENTRY_QUEUED;
        inflight += phase == ENTRY_INFLIGHT;
        spilling += (entry->flags & ENTRY_IS_SPILLING) != 0;
        if (phase == ENTRY_SCHEDULED || phase == ENTRY_QUEUED || phase == ENTRY_INFLIGHT) {
            CHECK(entry->flags & ENTRY_IS_COUNTED);
            CHECK(!timer_is_over(timer->state));
            CHECK(entry->row_at.ms == timer->at.ms);
            CHECK(timer->at.ms >= engine->watermark.ms);
        }
        CHECK(phase != ENTRY_QUEUED || wall_max(timer->at, timer->due).ms <= engine->now.ms ||
              refill_is_spilled(engine, timer));
    }
    CHECK(scheduled + engine->alarms == tw_wheel_count(engine->wheel));
    CHECK(queued == engine->stats.waiting);
    CHECK(inflight == engine->inflight);
    CHECK(spilling == engine->spilling);
    CHECK(engine->webhooks_inflight <= engine->options.inflight_max);
    CHECK(engine->pulled <= (engine->options.pulled_max ? engine->options.pulled_max : 1));
    CHECK(engine->trim.ms <= engine->watermark.ms);
    CHECK(engine->is_reading || !entries_has_evictable(engine->entries));
    cursor = 0;
    for (const struct lane *lane; (lane = map_next(&engine->lanes, &cursor));) {
        CHECK(lane->inflight <= lane_inflight_max(&engine->options, lane));
        CHECK(lane->inflight > 0 || !list_is_empty(&lane->waiting) || lane->spilled_pass > 0 ||
              lane->alarm != TW_NONE || lane->wants_alarm);
        CHECK(list_is_empty(&lane->hungry) != refill_is_hungry(engine, lane));
        out_by_kind[lane->kind] += lane->inflight;
    }
    CHECK(out_by_kind[LANE_WEBHOOK] == engine->webhooks_inflight);
    CHECK(out_by_kind[LANE_PULLED] == engine->pulled);
    CHECK(out_by_kind[LANE_WEBHOOK] + out_by_kind[LANE_BROKER] + out_by_kind[LANE_PULLED] ==
          inflight);
}
