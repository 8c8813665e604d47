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
bool writer_reserve(struct engine *engine)
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

void writer_add(struct engine *engine, struct write_note note)
{
    struct entry *entry = note.entry;
    struct timer *timer = entry->successor ? entry->successor : entry->timer;

    assert(engine->filling && engine->write_count < engine->write_capacity);
    entries_set_phase(engine->entries, entry, ENTRY_WRITING);
    scheduler_wrote(engine, timer, entry->row_at);
    engine->writes[engine->write_count] = (struct storage_write){
        .timer = timer,
        .was_at = entry->row_at,
        .old = entry->successor ? entry->timer : NULL,
        .is_touch = note.purpose == WRITE_TOUCH,
        .was_final = note.purpose == WRITE_REDRIVE,
    };
    engine->notes[engine->write_count++] = note;
}

/* It is written again, after a pause. */
static void postpone_write(struct engine *engine, struct entry *entry)
{
    entries_set_phase(engine->entries, entry, ENTRY_WRITING);
    list_remove(&entry->link);
    list_push(&engine->rewrites, &entry->link);
    engine->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
}

void writer_add_own(struct engine *engine, struct entry *entry)
{
    assert(!entry->successor);
    if (writer_reserve(engine))
        writer_add(engine, (struct write_note){.purpose = WRITE_OWN, .entry = entry});
    else
        postpone_write(engine, entry);
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
        writer_add_own(engine, entry_of(link));
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

/* Whoever delivered it learns what became of its outcome. */
static void tell_recorded(struct engine *engine, struct entry *entry, enum error_code result)
{
    struct delivery *delivery = entry->recorded;

    if (!delivery)
        return;
    entry->recorded = NULL;
    delivery->timer = NULL;
    delivery->recorded = result;
    list_init(&delivery->link);
    list_push(&engine->recorded, &delivery->link);
}

static void write_succeeded(struct engine *engine, struct entry *entry,
                            const struct write_note *note)
{
    struct command *command = note->command;
    const bool is_change = entry->successor != NULL;
    struct timer *timer = is_change ? entry->successor : entry->timer;

    engine->spilling -= (entry->flags & ENTRY_IS_SPILLING) != 0;
    entry->flags &= ~(uint32_t)ENTRY_IS_SPILLING;
    tell_recorded(engine, entry, ERROR_NONE);
    engine->watermark_is_stale = true;
    if (timer_is_over(timer->state)) {
        tenant_dismiss(engine, timer);
    } else {
        entry->row_at = timer->at;
    }
    entry->successor = NULL;
    if (is_change)
        entries_replace(engine->entries, entry, timer);
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
    else if (is_change)
        planner_reply(engine, command, ERROR_NONE, timer);
    engine_settle(engine, entry);
}

/* ---- in doubt ---- */

static void doubt(struct engine *engine, struct entry *entry, enum entry_phase phase)
{
    entries_uncount(engine->entries, entry);
    entries_set_phase(engine->entries, entry, phase);
    entry->flags |= ENTRY_IN_DOUBT;
    list_remove(&entry->link);
    list_push(&engine->doubts, &entry->link);
    engine->stats.in_doubt++;
    engine->stats.in_doubt_bytes += entry_footprint(entry);
    engine->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
}

static void believe(struct engine *engine, struct entry *entry)
{
    entry->flags &= ~(uint32_t)ENTRY_IN_DOUBT;
    engine->stats.in_doubt--;
    engine->stats.in_doubt_bytes -= entry_footprint(entry);
}

/* Whoever waits for them need not wait until the storage works. */
static void fail_waiters(struct engine *engine, enum error_code error)
{
    LIST_FOR_EACH (&engine->doubts, link)
        planner_fail_waiters(engine, entry_of(link), error);
}

/* A commit succeeded: what can be read now is durable. */
static void ask(struct engine *engine)
{
    struct list asked;

    list_init(&asked);
    list_join(&asked, &engine->doubts);
    LIST_FOR_EACH (&asked, link) {
        list_remove(link);
        if (!planner_find(engine, entry_of(link)))
            list_push(&engine->doubts, link);
    }
}

/* The timer is over, as its engine wants it. If the storage has that already, it has counted it. */
static void found_own(struct engine *engine, struct entry *entry, const struct engine_read *read)
{
    believe(engine, entry);
    if (read->timer && timer_is_over(read->timer->state)) {
        write_succeeded(engine, entry, &(struct write_note){.purpose = WRITE_OWN});
    } else {
        writer_add_own(engine, entry);
    }
}

void writer_found(struct engine *engine, struct entry *entry, struct engine_read *read)
{
    if (entry->ticket != read->ticket_)
        return;
    if (read->result != ERROR_NONE && read->result != ERROR_NOT_FOUND &&
        read->result != ERROR_CORRUPT) {
        planner_fail_waiters(engine, entry, read->result);
        list_remove(&entry->link);
        list_push(&engine->doubts, &entry->link);
        engine->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
        return;
    }
    if (entry->phase == ENTRY_WRITING) {
        found_own(engine, entry, read);
        return;
    }
    if (read->result == ERROR_NOT_FOUND || (read->timer && timer_is_over(read->timer->state))) {
        tenant_dismiss_pending(engine);
        tenant_dismiss(engine, entry->timer);
    }
    believe(engine, entry); /* a placeholder like any other, from here on */
}

/* ---- failed ---- */

static void create_failed(struct engine *engine, struct entry *entry, struct command *command,
                          enum error_code error)
{
    for (size_t i = 0; i < command->timer_count; i++)
        if (command->timers[i] == entry->timer)
            command->results[i].error = error;
    command->error = error;
    planner_fail_waiters(engine, entry, error); /* who guessed its id, or found its name */
    doubt(engine, entry, ENTRY_LOADING);
    if (--command->pending_ == 0)
        planner_reply(engine, command, error, NULL);
}

/* The row lies where it was or where the change put it, and may live even if it did not. */
static void change_failed(struct engine *engine, struct entry *entry, enum error_code error)
{
    struct timer *successor = entry->successor;

    planner_fail_waiters(engine, entry, error);
    entry->timer->at = wall_min(entry->row_at, successor->at);
    entry->successor = NULL;
    entries_retire(engine->entries, successor);
    doubt(engine, entry, ENTRY_LOADING);
}

static void write_failed(struct engine *engine, struct entry *entry, const struct write_note *note,
                         enum error_code error)
{
    switch (note->purpose) {
    case WRITE_CREATE:
        create_failed(engine, entry, note->command, error);
        return;
    case WRITE_CANCEL:
        tenant_restore_pending(engine);
        /* fall through */
    case WRITE_REDRIVE:
    case WRITE_PATCH:
    case WRITE_TOUCH:
        planner_reply(engine, note->command, error, NULL);
        change_failed(engine, entry, error);
        return;
    case WRITE_OWN:
        tell_recorded(engine, entry, error);
        planner_fail_waiters(engine, entry,
                             error); /* who asks need not wait until the storage works */
        if (timer_is_over(entry->timer->state))
            doubt(engine, entry, ENTRY_WRITING);
        else
            postpone_write(engine, entry); /* the same row, however often */
        return;
    }
}

void engine_committed(struct engine *engine, struct storage_batch *batch)
{
    struct engine_batch *out = list_item(batch, struct engine_batch, batch);

    assert(engine->is_in_turn && engine->batches_out > 0);
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
            write_succeeded(engine, out->notes[i].entry, &out->notes[i]);
        else
            write_failed(engine, out->notes[i].entry, &out->notes[i], batch->result);
    if (batch->result == ERROR_NONE)
        ask(engine);
    /* A success settles what an earlier failure left in doubt too. */
    if (batch->result == ERROR_NONE && engine->batches_out == 0 && engine->write_count == 0 &&
        list_is_empty(&engine->rewrites) && engine->stats.in_doubt == 0)
        refill_nothing_out(engine);
    free(batch->writes);
    free(out->notes);
    free(out);
}
