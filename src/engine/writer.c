/*
 * Batches: what is being made durable, and what follows when it is, or when it is not.
 *
 * Many changes gather until the caller takes them as one batch. A change that a client asked for is
 * answered with an error when its batch fails; a change of the engine's own (fired, retried, moved)
 * is a fact, and is written again until it holds.
 *
 * Of a batch that failed the log may have everything all the same, and nobody knows whether that is
 * durable before a later commit succeeds. So the timers of which it matters are *in doubt* until
 * then: nobody gets to see or change them, no read ahead brings them, the watermark stays before
 * them, and they count as living. Then each is looked for, and is what was found.
 */
#include "engine/engine_private.h"

#include <assert.h>
#include <stdlib.h>

/* Batches at a time in the storage's hands: one that syncs, one that fills, and room to gather. */
#define BATCHES_OUT_MAX 64

/* A place for a write, and a batch to take it: once it has been accepted, no want of memory keeps
 * it, and whoever waits for it. */
static bool reserve(struct engine *engine)
{
    size_t capacity = engine->write_capacity ? 2 * engine->write_capacity : 64;
    struct storage_write *writes;
    struct write_note *notes;

    if (!engine->filling)
        engine->filling = calloc(1, sizeof(*engine->filling));
    if (!engine->filling)
        return false;
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
    engine->writes[engine->write_count] = (struct storage_write){
        timer, timer->private_.was_at, note.old, note.purpose == WRITE_TOUCH};
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

    if ((list_is_empty(&engine->rewrites) && list_is_empty(&engine->doubts)) ||
        engine->now.ms < engine->rewrite_at.ms)
        return;
    if (!list_is_empty(&engine->doubts)) {
        engine->meta_wanted |= engine->batches_out == 0;
        engine->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
    }
    list_init(&again);
    list_join(&again, &engine->rewrites);
    LIST_FOR_EACH (&again, link) {
        list_remove(link);
        writer_add_own(engine, timer_of(link));
    }
}

struct storage_batch *engine_take_batch(struct engine *engine)
{
    struct engine_batch *out = engine->filling;

    if ((engine->write_count == 0 && !engine->meta_wanted) ||
        engine->batches_out == BATCHES_OUT_MAX)
        return NULL;
    if (!out)
        out = calloc(1, sizeof(*out));
    if (!out)
        return NULL; /* of the watermark alone, which can wait for the next call */
    engine->filling = NULL;
    out->batch.partition = engine->options.partition;
    out->batch.meta = engine->meta_taken = (struct storage_meta){.epoch = engine->epoch,
                                                                 .watermark = engine->watermark,
                                                                 .trim = engine->trim,
                                                                 .placed = engine->placed,
                                                                 .over_to = engine->over_max};
    out->batch.writes = engine->writes;
    out->batch.write_count = engine->write_count;
    engine->writes_out += engine->write_count;
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

/* Whoever delivered it learns what became of its outcome. */
static void tell_recorded(struct engine *engine, struct timer *timer, enum error_code result)
{
    struct delivery *delivery = timer->private_.recorded;

    if (!delivery)
        return;
    timer->private_.recorded = NULL;
    delivery->timer = NULL;
    delivery->recorded = result;
    list_init(&delivery->link);
    list_push(&engine->recorded, &delivery->link);
}

static void write_succeeded(struct engine *engine, struct timer *timer,
                            const struct write_note *note)
{
    struct command *command = note->command;

    list_remove(&timer->private_.link);
    timer->private_.was_over = false;
    engine->spilling -= (timer->private_.flags & FLAG_SPILLING) != 0;
    timer->private_.flags &= ~(uint32_t)FLAG_SPILLING;
    tell_recorded(engine, timer, ERROR_NONE);
    engine->watermark_is_stale = true;
    if (timer_is_over(timer->state)) {
        tenant_dismiss(engine, timer);
    } else {
        timer->private_.was_at = timer->at;
    }
    if (note->old)
        replace(engine, note->old, timer);
    if (note->purpose == WRITE_OWN)
        explain_committed(engine, timer);
    if (note->purpose == WRITE_CREATE)
        engine->stats.created++;
    else if (note->purpose == WRITE_CANCEL)
        engine->stats.cancelled++;
    else if (note->purpose == WRITE_TOUCH)
        engine->stats.touched++;
    if (note->purpose == WRITE_CREATE && --command->pending_ == 0)
        planner_reply(engine, command, command->error, command->timer_count > 1 ? NULL : timer);
    else if (note->old)
        planner_reply(engine, command, ERROR_NONE, timer);
    engine_settle(engine, timer);
}

/* ---- in doubt ---- */

static void doubt(struct engine *engine, struct timer *timer, enum phase phase)
{
    engine_uncount(engine, timer);
    timer->private_.phase = (uint8_t)phase;
    timer->private_.flags |= FLAG_IN_DOUBT;
    list_push(&engine->doubts, &timer->private_.link);
    engine->stats.in_doubt++;
    engine->stats.in_doubt_bytes += timer->footprint;
    engine->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
}

static void believe(struct engine *engine, struct timer *timer)
{
    timer->private_.flags &= ~(uint32_t)FLAG_IN_DOUBT;
    engine->stats.in_doubt--;
    engine->stats.in_doubt_bytes -= timer->footprint;
}

/* Whoever waits for them need not wait until the storage works. */
static void fail_waiters(struct engine *engine, enum error_code error)
{
    LIST_FOR_EACH (&engine->doubts, link)
        planner_fail_waiters(engine, timer_of(link), error);
}

/* A commit succeeded: what can be read now is durable. */
static void ask(struct engine *engine)
{
    struct list asked;

    list_init(&asked);
    list_join(&asked, &engine->doubts);
    LIST_FOR_EACH (&asked, link) {
        list_remove(link);
        if (!planner_find(engine, timer_of(link)))
            list_push(&engine->doubts, link);
    }
}

/* The timer is over, as its engine wants it. If the storage has that already, it has counted it. */
static void found_own(struct engine *engine, struct timer *timer, const struct engine_read *read)
{
    believe(engine, timer);
    list_remove(&timer->private_.link);
    if (read->timer && timer_is_over(read->timer->state)) {
        list_push(&engine->busy, &timer->private_.link);
        write_succeeded(engine, timer, &(struct write_note){.purpose = WRITE_OWN});
    } else {
        writer_add_own(engine, timer);
    }
}

void writer_found(struct engine *engine, struct timer *timer, struct engine_read *read)
{
    if (timer->private_.ticket != read->ticket_)
        return;
    if (read->result != ERROR_NONE && read->result != ERROR_NOT_FOUND &&
        read->result != ERROR_CORRUPT) {
        planner_fail_waiters(engine, timer, read->result);
        list_remove(&timer->private_.link);
        list_push(&engine->doubts, &timer->private_.link);
        engine->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
        return;
    }
    if (timer->private_.phase == PHASE_WRITING) {
        found_own(engine, timer, read);
        return;
    }
    if (read->result == ERROR_NOT_FOUND || (read->timer && timer_is_over(read->timer->state))) {
        tenant_dismiss_pending(engine);
        tenant_dismiss(engine, timer);
    }
    believe(engine, timer); /* a stand-in like any other, from here on */
}

/* ---- failed ---- */

static void create_failed(struct engine *engine, struct timer *timer, struct command *command,
                          enum error_code error)
{
    for (size_t i = 0; i < command->timer_count; i++)
        if (command->timers[i] == timer)
            command->results[i].error = error;
    command->error = error;
    planner_fail_waiters(engine, timer, error); /* who guessed its id, or found its name */
    list_remove(&timer->private_.link);
    doubt(engine, timer, PHASE_FINDING);
    if (--command->pending_ == 0)
        planner_reply(engine, command, error, NULL);
}

/* The row lies where it was or where the change put it, and may live even if it did not. */
static void change_failed(struct engine *engine, struct timer *old, const struct timer *changed,
                          enum error_code error)
{
    planner_fail_waiters(engine, old, error);
    list_remove(&old->private_.link);
    old->at = wall_min(old->private_.was_at, changed->at);
    doubt(engine, old, PHASE_FINDING);
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
        tenant_restore_pending(engine);
        /* fall through */
    case WRITE_REDRIVE:
    case WRITE_PATCH:
    case WRITE_TOUCH:
        list_push(&engine->gone, &timer->private_.link);
        planner_reply(engine, note->command, error, NULL);
        change_failed(engine, old, timer, error);
        return;
    case WRITE_OWN:
        tell_recorded(engine, timer, error);
        planner_fail_waiters(engine, timer,
                             error); /* who asks need not wait until the storage works */
        if (timer_is_over(timer->state)) {
            doubt(engine, timer, PHASE_WRITING);
            return;
        }
        list_push(&engine->rewrites, &timer->private_.link); /* the same row, however often */
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
    engine->writes_out -= batch->write_count;
    if (batch->result != ERROR_NONE) {
        engine->stats.storage_failures++;
        engine->watermark_is_stale = true;
        engine->meta_taken = (struct storage_meta){0}; /* the meta record went with the rest */
        fail_waiters(engine, batch->result);
    }
    for (size_t i = 0; i < batch->write_count; i++)
        if (batch->result == ERROR_NONE)
            write_succeeded(engine, batch->writes[i].timer, &out->notes[i]);
        else
            write_failed(engine, batch->writes[i].timer, &out->notes[i], batch->result);
    if (batch->result == ERROR_NONE)
        ask(engine);
    /* A success settles what an earlier failure left in doubt too. */
    if (batch->result == ERROR_NONE && engine->batches_out == 0 && engine->write_count == 0 &&
        list_is_empty(&engine->rewrites) && engine->stats.in_doubt == 0)
        refill_nothing_out(engine);
    free(batch->writes);
    free(out->notes);
    free(out);
    engine_end(engine);
}
