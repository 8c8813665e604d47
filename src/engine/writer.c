/*
 * Batches: what is being made durable, and what follows when it is, or when it is not.
 *
 * Many changes gather until the caller takes them as one batch. A change that a client asked for is
 * taken back when its batch fails; a change of the engine's own (fired, retried, moved) is a fact,
 * and is written again until it holds.
 */
#include "engine/engine_private.h"

#include <assert.h>
#include <stdlib.h>

/* Batches at a time in the storage's hands: one that syncs, one that fills, and room to gather. */
#define BATCHES_OUT_MAX 64

static bool reserve(struct engine *engine)
{
    size_t capacity = engine->write_capacity ? 2 * engine->write_capacity : 64;
    struct storage_write *writes;
    struct write_note *notes;

    if (engine->write_count < engine->write_capacity)
        return true;
    writes = realloc(engine->writes, capacity * sizeof(*writes));
    if (writes)
        engine->writes = writes;
    notes = realloc(engine->notes, capacity * sizeof(*notes));
    if (notes)
        engine->notes = notes;
    if (!writes || !notes)
        return false;
    engine->write_capacity = capacity;
    return true;
}

bool writer_add(struct engine *engine, struct timer *timer, struct write_note note)
{
    if (!reserve(engine))
        return false;
    timer->private_.phase = PHASE_WRITING;
    list_push(&engine->busy, &timer->private_.link);
    scheduler_wrote(engine, timer);
    engine->writes[engine->write_count] = (struct storage_write){timer, timer->private_.was_at};
    engine->notes[engine->write_count++] = note;
    return true;
}

void writer_add_own(struct engine *engine, struct timer *timer)
{
    if (writer_add(engine, timer, (struct write_note){.purpose = WRITE_OWN}))
        return;
    timer->private_.phase = PHASE_WRITING;
    list_push(&engine->rewrites, &timer->private_.link);
    engine->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
}

void writer_retry(struct engine *engine)
{
    struct list again;

    if (list_is_empty(&engine->rewrites) || engine->now.ms < engine->rewrite_at.ms)
        return;
    list_init(&again);
    list_join(&again, &engine->rewrites);
    LIST_FOR_EACH (&again, link) {
        list_remove(link);
        writer_add_own(engine, timer_of(link));
    }
}

struct storage_batch *engine_take_batch(struct engine *engine)
{
    struct engine_batch *out;

    if ((engine->write_count == 0 && !engine->meta_wanted) ||
        engine->batches_out == BATCHES_OUT_MAX)
        return NULL;
    out = calloc(1, sizeof(*out));
    if (!out)
        return NULL; /* the writes stay where they are; the next call tries again */
    out->batch.partition = engine->options.partition;
    out->batch.meta = engine->meta_taken = (struct storage_meta){
        .epoch = engine->epoch, .watermark = engine->watermark, .trim = engine->trim};
    out->batch.writes = engine->writes;
    out->batch.write_count = engine->write_count;
    out->notes = engine->notes;
    engine->writes = NULL;
    engine->notes = NULL;
    engine->write_count = engine->write_capacity = 0;
    engine->meta_wanted = false;
    engine->batches_out++;
    return &out->batch;
}

/* The old timer makes way for the new one, with the commands that wait for it. */
static void replace(struct engine *engine, struct timer *old, struct timer *timer)
{
    list_join(&timer->private_.waiters, &old->private_.waiters);
    map_put(&engine->timers, timer->id.serial, timer); /* it replaces, so it has room */
    if (old->private_.flags & FLAG_COUNTED)
        engine_count(engine, timer);
    engine_uncount(engine, old);
    list_remove(&old->private_.link);
    old->private_.phase = PHASE_NONE;
    list_push(&engine->gone, &old->private_.link);
}

static void write_succeeded(struct engine *engine, struct timer *timer,
                            const struct write_note *note)
{
    struct command *command = note->command;

    list_remove(&timer->private_.link);
    engine->watermark_is_stale = true;
    if (timer_is_over(timer->state)) {
        /* The row of the final record is where the live one was. */
        if (timer->private_.was_at.ms > engine->over_max.ms)
            engine->over_max = timer->private_.was_at;
    } else {
        timer->private_.was_at = timer->at;
    }
    if (note->old)
        replace(engine, note->old, timer);
    if (note->purpose == WRITE_CREATE)
        engine->stats.created++;
    else if (note->purpose == WRITE_CANCEL)
        engine->stats.cancelled++;
    if (note->purpose == WRITE_CREATE && --command->pending_ == 0)
        planner_reply(engine, command, command->error, command->timer_count > 1 ? NULL : timer);
    else if (note->old)
        planner_reply(engine, command, ERROR_NONE, timer);
    engine_settle(engine, timer);
}

static void create_failed(struct engine *engine, struct timer *timer, struct command *command,
                          enum error_code error)
{
    engine->stats.pending--;
    for (size_t i = 0; i < command->timer_count; i++)
        if (command->timers[i] == timer)
            command->results[i].error = error;
    command->error = error;
    planner_fail_waiters(engine, timer, ERROR_NOT_FOUND); /* who guessed its id */
    engine_forget(engine, timer);
    if (--command->pending_ == 0)
        planner_reply(engine, command, error, NULL);
}

static void write_failed(struct engine *engine, struct timer *timer, const struct write_note *note,
                         enum error_code error)
{
    struct timer *old = note->old;

    list_remove(&timer->private_.link);
    switch (note->purpose) {
    case WRITE_CREATE:
        create_failed(engine, timer, note->command, error);
        return;
    case WRITE_CANCEL:
        engine->stats.pending++;
        /* fall through */
    case WRITE_PATCH:
        list_push(&engine->gone, &timer->private_.link);
        list_remove(&old->private_.link);
        planner_reply(engine, note->command, error, NULL);
        engine_settle(engine, old);
        return;
    case WRITE_OWN:
        planner_fail_waiters(engine, timer,
                             error); /* who asks need not wait until the storage works */
        list_push(&engine->rewrites, &timer->private_.link);
        engine->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
        return;
    }
}

void engine_committed(struct engine *engine, struct wall now, struct storage_batch *batch)
{
    struct engine_batch *out = list_item(batch, struct engine_batch, batch);

    engine_begin(engine, now);
    assert(engine->batches_out > 0);
    engine->batches_out--;
    if (batch->result != ERROR_NONE) {
        engine->stats.storage_failures++;
        engine->watermark_is_stale = true;
        engine->meta_taken = (struct storage_meta){0}; /* the meta record went with the rest */
    }
    for (size_t i = 0; i < batch->write_count; i++)
        if (batch->result == ERROR_NONE)
            write_succeeded(engine, batch->writes[i].timer, &out->notes[i]);
        else
            write_failed(engine, batch->writes[i].timer, &out->notes[i], batch->result);
    free(batch->writes);
    free(out->notes);
    free(out);
    engine_end(engine);
}
