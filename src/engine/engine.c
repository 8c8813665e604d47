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
    if (!engine->wheel) {
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
    map_init(&engine->timers);
    map_init(&engine->lanes);
    map_init(&engine->name_locks);
    struct list *const lists[] = {
        &engine->busy,       &engine->lingering, &engine->gone,         &engine->ready,
        &engine->gone_reads, &engine->rewrites,  &engine->reads,        &engine->deliveries,
        &engine->replies,    &engine->parts,     &engine->broker_ready, &engine->woken,
        &engine->hungry,     &engine->recorded,  &engine->sweeps,       &engine->doubts};
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        list_init(lists[i]);
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

    while ((link = list_pop(&engine->gone)))
        timer_free(timer_of(link));
    while ((link = list_pop(&engine->gone_reads)))
        read_free(list_item(link, struct engine_read, link));
}

void engine_destroy(struct engine *engine)
{
    struct timer *timer;
    struct list *link;
    size_t cursor = 0;

    if (!engine)
        return;
    free_gone(engine);
    /* Successors that no batch has taken yet are in no map. */
    for (size_t i = 0; i < engine->write_count; i++)
        if (engine->notes[i].old)
            timer_free(engine->writes[i].timer);
    while ((timer = map_next(&engine->timers, &cursor))) {
        free(timer->private_.recorded);
        timer_free(timer);
    }
    while ((link = list_pop(&engine->recorded)))
        free(list_item(link, struct delivery, link));
    while ((link = list_pop(&engine->reads)))
        read_free(list_item(link, struct engine_read, link));
    while ((link = list_pop(&engine->deliveries)))
        free(list_item(link, struct delivery, link));
    names_deinit(engine);
    lanes_deinit(engine);
    map_deinit(&engine->timers);
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

    assert(list_is_empty(&engine->replies)); /* they may point at what is freed here */
    free_gone(engine);
    engine->now = now;
    if (went_back)
        scheduler_clock_went_back(engine);
}

void engine_end(struct engine *engine)
{
    writer_retry(engine);
    scheduler_expire(engine);
    lanes_dispatch(engine);
    if (!engine->is_reading)
        LIST_FOR_EACH (&engine->lingering, link)
            engine_forget(engine, timer_of(link));
    scheduler_read_ahead(engine);
    refill_read(engine);
    scheduler_watermark(engine);
}

bool engine_take_in(struct engine *engine, struct timer *timer)
{
    timer->private_ = (struct timer_private){.was_at = timer->at, .loaded = engine->now};
    list_init(&timer->private_.link);
    list_init(&timer->private_.waiters);
    return map_put(&engine->timers, timer->id.serial, timer);
}

void engine_forget(struct engine *engine, struct timer *timer)
{
    assert(list_is_empty(&timer->private_.waiters));
    map_remove(&engine->timers, timer->id.serial);
    engine_uncount(engine, timer);
    list_remove(&timer->private_.link);
    timer->private_.phase = PHASE_NONE;
    list_push(&engine->gone, &timer->private_.link);
}

void engine_count(struct engine *engine, struct timer *timer)
{
    if (timer->private_.flags & FLAG_COUNTED)
        return;
    timer->private_.flags |= FLAG_COUNTED;
    engine->stats.near_bytes += timer->footprint;
}

void engine_uncount(struct engine *engine, struct timer *timer)
{
    if (!(timer->private_.flags & FLAG_COUNTED))
        return;
    timer->private_.flags &= ~(uint32_t)FLAG_COUNTED;
    engine->stats.near_bytes -= timer->footprint;
}

/* ---- what happened ---- */

void engine_submit(struct engine *engine, struct wall now, struct command *command)
{
    engine_begin(engine, now);
    planner_start(engine, command);
    engine_end(engine);
}

void engine_advance(struct engine *engine, struct wall now)
{
    engine_begin(engine, now);
    engine_end(engine);
}

void engine_read_done(struct engine *engine, struct wall now, struct engine_read *read)
{
    engine_begin(engine, now);
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
    engine_end(engine);
}

void engine_delivered(struct engine *engine, struct wall now, struct delivery *delivery)
{
    struct timer *timer = map_get(&engine->timers, delivery->timer->id.serial);

    assert(timer == delivery->timer && timer->private_.phase == PHASE_OUT);
    engine_begin(engine, now);
    explain_returned(engine, delivery);
    lanes_returned(engine, timer, &delivery->outcome);
    outcome_apply(engine, timer, delivery);
    engine_end(engine);
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
            oldest = wall_min(oldest, timer_of(lane->waiting.next)->due);
    LIST_FOR_EACH (&engine->busy, link)
        if (timer_of(link)->private_.phase == PHASE_OUT)
            oldest = wall_min(oldest, timer_of(link)->due);
    return oldest.ms < engine->now.ms ? oldest : (struct wall){0};
}

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats)
{
    *ret_stats = engine->stats;
    ret_stats->in_memory = map_count(&engine->timers);
    ret_stats->inflight = engine->inflight;
    ret_stats->pulled = engine->pulled;
    ret_stats->oldest_overdue = oldest_overdue(engine);
    ret_stats->watermark = engine->watermark;
    ret_stats->frontier = engine->frontier.at;
}

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

void engine_check(const struct engine *engine)
{
    size_t resting = 0, waiting = 0, out = 0, spilling = 0, near_bytes = 0, cursor = 0;
    size_t out_by_kind[LANE_KIND_COUNT] = {0};
    const struct timer *timer;

    tw_wheel_check(engine->wheel);
    while ((timer = map_next(&engine->timers, &cursor))) {
        uint8_t phase = timer->private_.phase;

        CHECK(phase != PHASE_NONE);
        resting += phase == PHASE_RESTING;
        waiting += phase == PHASE_WAITING;
        out += phase == PHASE_OUT;
        spilling += (timer->private_.flags & FLAG_SPILLING) != 0;
        if (timer->private_.flags & FLAG_COUNTED)
            near_bytes += timer->footprint;
        CHECK((phase == PHASE_FINDING || phase == PHASE_WRITING) ||
              list_is_empty(&timer->private_.waiters));
        if (phase == PHASE_RESTING || phase == PHASE_WAITING || phase == PHASE_OUT) {
            CHECK(timer->private_.flags & FLAG_COUNTED);
            CHECK(!timer_is_over(timer->state));
            CHECK(timer->private_.was_at.ms == timer->at.ms);
            CHECK(timer->at.ms >= engine->watermark.ms);
        }
        CHECK(phase != PHASE_WAITING || wall_max(timer->at, timer->due).ms <= engine->now.ms ||
              refill_is_spilled(engine, timer));
    }
    CHECK(resting + engine->alarms == tw_wheel_count(engine->wheel));
    CHECK(waiting == engine->stats.waiting);
    CHECK(out == engine->inflight);
    CHECK(spilling == engine->spilling);
    CHECK(engine->webhooks_inflight <= engine->options.inflight_max);
    CHECK(engine->pulled <= (engine->options.pulled_max ? engine->options.pulled_max : 1));
    CHECK(near_bytes == engine->stats.near_bytes);
    CHECK(engine->trim.ms <= engine->watermark.ms);
    CHECK(engine->is_reading || list_is_empty(&engine->lingering));
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
    CHECK(out_by_kind[LANE_WEBHOOK] + out_by_kind[LANE_BROKER] + out_by_kind[LANE_PULLED] == out);
}
