/* Batches, and writes that failed. */
#include "engine/commit.h"

#include "base/check.h"
#include "engine/effects.h"
#include "engine/engine_core.h"
#include "engine/ledger.h"
#include "engine/tenant.h"
#include "timer/fanout.h"

#include <assert.h>
#include <stdlib.h>

/* Maximum of batches that the engine has handed out: one is being synced, one is next, the others
 * wait. */
#define BATCHES_OUT_MAX 64

/* Number of final records that triggers a batch even within the pacing delay. */
#define ENDS_MAX 1024

/* A batch that engine_take_batch has handed out, with the engine's notes after it. */
struct engine_batch {
    struct storage_batch batch;
    struct write_note *notes;
    struct buffer ledger; /* bytes of batch.ledger */
};

struct commit {
    struct storage_write *writes; /* writes of the next batch; notes[i] belongs to writes[i] */
    struct write_note *notes;
    size_t write_count, write_capacity;
    size_t messages;              /* how many of those writes have ENTRY_HAS_MESSAGE */
    struct engine_batch *filling; /* batch that will contain them; NULL if there are none */
    struct list rewrites;         /* entries whose WRITE_OWN failed and is to be repeated */
    struct wall rewrite_at;
    size_t batches_out, writes_out; /* batches handed out, and the writes in them */
    bool meta_wanted;               /* a batch is due even without writes */
    bool is_urgent;                 /* something waits for the next batch, so it is due at once */
    struct wall ends_at;            /* time at which a batch is due although nothing waits for it */
    size_t spilling;                /* number of spilled timers whose write is not durable */
    size_t making_bytes;            /* memory of the entries with ENTRY_IS_MADE */
};

struct commit *commit_create(void)
{
    struct commit *commit = calloc(1, sizeof(*commit));

    if (!commit)
        return NULL;
    list_init(&commit->rewrites);
    return commit;
}

void commit_destroy(struct commit *commit)
{
    if (!commit)
        return;
    free(commit->writes);
    free(commit->notes);
    free(commit->filling);
    free(commit);
}

/* ---- writes ---- */

/* Reserves memory for a write, for the new timers written with it, and for the batch that contains
 * them. */
bool commit_reserve(struct engine *engine)
{
    struct commit *commit = engine->commit;
    size_t capacity = commit->write_capacity ? 2 * commit->write_capacity : 64;

    assert(!commit->writes == !commit->notes || commit->write_count == 0);
    assert(commit->write_count <= commit->write_capacity);
    if (!commit->filling)
        commit->filling = calloc(1, sizeof(*commit->filling));
    if (!commit->filling)
        return false;
    if (commit->write_count + 1 + FANOUT_PARTS_MAX <= commit->write_capacity)
        return true;

    struct storage_write *writes = realloc(commit->writes, capacity * sizeof(*writes));
    if (writes)
        commit->writes = writes;
    struct write_note *notes = realloc(commit->notes, capacity * sizeof(*notes));
    if (notes)
        commit->notes = notes;
    if (!writes || !notes)
        return false;
    commit->write_capacity = capacity;
    return true;
}

/* True if the write ends a timer, and no client, sender or later firing waits for it. */
static bool commit_can_wait(const struct write_note *note)
{
    const struct entry *entry = note->entry;
    const uint32_t hurried = ENTRY_HAS_MESSAGE | ENTRY_IS_FORGOTTEN;

    return note->purpose == WRITE_OWN && timer_is_final(entry->timer->state) && !entry->recorded &&
           !entry->report && !(entry->flags & hurried);
}

void commit_add(struct engine *engine, struct write_note note)
{
    struct commit *commit = engine->commit;
    struct entry *entry = note.entry;
    const bool is_forgotten = entry->flags & ENTRY_IS_FORGOTTEN;

    assert(note.purpose != WRITE_CREATE || entry->row_at.ms == 0);
    assert(note.purpose != WRITE_TOUCH || entry->successor->at.ms == entry->row_at.ms);
    assert(note.purpose != WRITE_CANCEL || entry->successor->state == TIMER_CANCELLED);
    assert(note.purpose != WRITE_REDRIVE || entry->timer->state == TIMER_DEAD);
    assert(note.purpose != WRITE_REPORT || entry->row_at.ms == 0);
    assert(entry->successor || note.purpose == WRITE_CREATE || write_is_own(note.purpose) ||
           note.purpose == WRITE_FORGET);
    assert(note.purpose != WRITE_FORGET || is_forgotten);
    assert(commit->filling && commit->write_count < commit->write_capacity);
    assert(write_is_own(note.purpose) == !note.command);
    entries_set_phase(engine->entries, entry, ENTRY_WRITING);
    commit->writes[commit->write_count] = (struct storage_write){
        .timer = entry->successor ? entry->successor : entry->timer,
        .was_at = entry->row_at,
        .old = entry->successor ? entry->timer : NULL,
        .is_touch = note.purpose == WRITE_TOUCH,
        .was_final = note.purpose == WRITE_REDRIVE || is_forgotten,
        .is_forgotten = is_forgotten,
    };
    commit->notes[commit->write_count++] = note;
    ledger_note_write(engine->ledger, note.command);
    commit->is_urgent |= !commit_can_wait(&note);
    commit->messages += (entry->flags & ENTRY_HAS_MESSAGE) != 0;
    entry->flags &= ~(uint32_t)ENTRY_HAS_MESSAGE;
    assert(entry->phase == ENTRY_WRITING && commit->write_count <= commit->write_capacity);
}

static void commit_pause(struct engine *engine)
{
    engine->commit->rewrite_at = wall_add(engine->now, engine->options.storage_retry_ms);
    assert(engine->commit->rewrite_at.ms >= engine->now.ms);
}

/* Puts the entry onto `rewrites`, to be written again after a pause. */
static void commit_postpone(struct engine *engine, struct entry *entry)
{
    assert(!entry->successor);
    entries_set_phase(engine->entries, entry, ENTRY_WRITING);
    list_remove(&entry->link);
    list_push(&engine->commit->rewrites, &entry->link);
    commit_pause(engine);
    assert(!list_is_empty(&engine->commit->rewrites));
}

void commit_add_own(struct engine *engine, struct entry *entry)
{
    assert(entry->row_at.ms > 0);
    assert(!entry->successor);
    if (!commit_reserve(engine)) {
        commit_postpone(engine, entry);
        return;
    }
    commit_add(engine, (struct write_note){.purpose = WRITE_OWN, .entry = entry});
    for (struct entry *made = entry->report; made; made = made->report) {
        commit_add(engine, (struct write_note){.purpose = WRITE_REPORT, .entry = made});
        if (!(made->flags & ENTRY_IS_MADE))
            engine->commit->making_bytes += entry_footprint(made);
        made->flags |= ENTRY_IS_MADE;
    }
}

void commit_add_spilled(struct engine *engine, struct entry *entry)
{
    assert(entry->timer->at.ms > engine->now.ms);
    assert(entry->timer->state == TIMER_SCHEDULED);
    assert(!(entry->flags & ENTRY_IS_SPILLING));
    entry->flags |= ENTRY_IS_SPILLING;
    engine->commit->spilling++;
    commit_add_own(engine, entry);
    assert(engine->commit->spilling <= entries_size(engine->entries));
}

void commit_add_forgotten(struct engine *engine, struct entry *entry, struct command *command)
{
    assert(entry->timer->state == TIMER_DEAD && !entry->successor);
    assert(!(entry->flags & ENTRY_IS_FORGOTTEN));
    entry->flags |= ENTRY_IS_FORGOTTEN;
    if (command)
        commit_add(engine, (struct write_note){WRITE_FORGET, command, entry});
    else
        commit_add_own(engine, entry);
}

void commit_want_meta(struct engine *engine)
{
    engine->commit->meta_wanted = true;
}

void commit_hurry(struct engine *engine)
{
    engine->commit->is_urgent = true;
}

bool commit_retry(struct engine *engine)
{
    struct commit *commit = engine->commit;

    if (engine->now.ms < commit_wake_at(engine).ms)
        return false;
    struct list again;
    list_init(&again);
    list_join(&again, &commit->rewrites);
    const bool has_any = !list_is_empty(&again);
    LIST_FOR_EACH (&again, link) {
        list_remove(link);
        commit_add_own(engine, entry_of(link));
    }
    return has_any;
}

/* ---- durable ---- */

/* Hands the delivery whose outcome was written back to its sender. */
static void commit_tell_recorded(struct engine *engine, struct entry *entry, enum error_code result)
{
    struct delivery *delivery = entry->recorded;

    assert(entry->phase == ENTRY_WRITING);
    if (!delivery)
        return;
    assert(delivery->epoch == engine->epoch);
    entry->recorded = NULL;
    effects_recorded(engine, delivery, result);
}

static void commit_count(struct engine_stats *stats, enum write_purpose purpose)
{
    assert(purpose <= WRITE_REPORT);
    if (purpose == WRITE_CREATE || purpose == WRITE_REPORT)
        stats->created++;
    else if (purpose == WRITE_CANCEL)
        stats->cancelled++;
    else if (purpose == WRITE_TOUCH)
        stats->touched++;
}

/* True if the write replaces the timer by its successor. */
static bool commit_has_successor(enum write_purpose purpose)
{
    assert(purpose <= WRITE_REPORT);
    return purpose != WRITE_CREATE && purpose != WRITE_FORGET && !write_is_own(purpose);
}

/* Reports a durable change to the feed. A write of the engine's own without an outcome only moves
 * the row, and is not reported. */
static void commit_tell(struct engine *engine, struct entry *entry, enum write_purpose purpose,
                        const struct timer *timer)
{
    static const enum feed_kind kinds[] = {
        [WRITE_CREATE] = FEED_CREATED,   [WRITE_PATCH] = FEED_CHANGED,
        [WRITE_TOUCH] = FEED_CHANGED,    [WRITE_CANCEL] = FEED_CANCELLED,
        [WRITE_REDRIVE] = FEED_REDRIVEN, [WRITE_FORGET] = FEED_DELETED,
        [WRITE_REPORT] = FEED_CREATED,   [WRITE_OWN] = FEED_NONE,
    };
    enum feed_kind kind = entry->flags & ENTRY_IS_FORGOTTEN ? FEED_DELETED : kinds[purpose];

    if (entry->outcome != FEED_NONE)
        kind = (enum feed_kind)entry->outcome;
    entry->outcome = FEED_NONE;
    if (kind != FEED_NONE)
        effects_tell(engine, kind, timer);
}

static void commit_succeeded(struct engine *engine, struct entry *entry, enum write_purpose purpose)
{
    struct timer *timer = entry->successor ? entry->successor : entry->timer;

    assert(commit_has_successor(purpose) == (entry->successor != NULL));
    assert(engine->commit->spilling > 0 || !(entry->flags & ENTRY_IS_SPILLING));
    assert(entry->phase == ENTRY_WRITING);
    engine->commit->spilling -= (entry->flags & ENTRY_IS_SPILLING) != 0;
    if (entry->flags & ENTRY_IS_MADE)
        engine->commit->making_bytes -= entry_footprint(entry);
    entry->flags &= ~(uint32_t)(ENTRY_IS_SPILLING | ENTRY_IS_MADE);
    commit_tell_recorded(engine, entry, ERROR_NONE);
    if (timer_is_final(timer->state) && !(entry->flags & ENTRY_IS_FORGOTTEN) &&
        !name_is_claim(timer))
        tenant_dismiss(engine, timer);
    if (!timer_is_final(timer->state) || storage_is_dead_letter(timer))
        entry->row_at = timer->at;
    if (entry->successor && !timer_is_final(timer->state)) {
        const bool was_paused = entry->timer->state == TIMER_PAUSED;

        engine->stats.paused += timer->state == TIMER_PAUSED && !was_paused;
        engine->stats.resumed += timer->state != TIMER_PAUSED && was_paused;
        if (was_paused != (timer->state == TIMER_PAUSED))
            entry->outcome = was_paused ? FEED_RESUMED : FEED_PAUSED;
    }
    entry->successor = NULL;
    entry->report = NULL;
    if (timer != entry->timer)
        entries_replace(engine->entries, entry, timer);
    entries_show(engine->entries, entry);
    if (!name_is_claim(timer)) {
        commit_count(&engine->stats, purpose);
        commit_tell(engine, entry, purpose, timer);
    }
    assert(!entry->successor && !entry->recorded);
    assert(timer_is_final(entry->timer->state) || entry->row_at.ms == entry->timer->at.ms);
}

/* ---- batches ---- */

struct wall commit_due_at(const struct engine *engine)
{
    const struct commit *commit = engine->commit;

    assert(commit->batches_out <= BATCHES_OUT_MAX);
    if ((commit->write_count == 0 && !commit->meta_wanted) ||
        commit->batches_out == BATCHES_OUT_MAX || ledger_must_wait(engine->ledger))
        return WALL_NEVER;
    if (commit->is_urgent || engine->is_draining || commit->write_count >= ENDS_MAX)
        return engine->now;
    return wall_max(commit->ends_at, engine->now);
}

struct storage_batch *commit_take(struct engine *engine)
{
    struct commit *commit = engine->commit;
    struct engine_batch *out = commit->filling;

    assert(commit->write_count == 0 || out);
    assert(commit->write_count <= commit->write_capacity && commit->batches_out <= BATCHES_OUT_MAX);
    if (commit_due_at(engine).ms > engine->now.ms)
        return NULL;
    if (!out)
        out = calloc(1, sizeof(*out));
    if (!out)
        return NULL; /* Only the watermark would be written, which the next call can do. */
    commit->filling = out;
    if (!ledger_take(engine->ledger, &out->ledger)) {
        buffer_deinit(&out->ledger);
        return NULL; /* out of memory: the next call tries again */
    }
    commit->filling = NULL;
    out->batch.ledger = buffer_bytes(&out->ledger);
    out->batch.partition = engine->options.partition;
    out->batch.writes = commit->writes;
    out->batch.write_count = commit->write_count;
    out->batch.messages = commit->messages;
    commit->writes_out += commit->write_count;
    out->notes = commit->notes;
    commit->writes = NULL;
    commit->notes = NULL;
    commit->write_count = commit->write_capacity = commit->messages = 0;
    commit->meta_wanted = commit->is_urgent = false;
    commit->ends_at = wall_add(engine->now, engine->options.ends_pace_ms);
    commit->batches_out++;
    return &out->batch;
}

void commit_back(struct engine *engine, struct storage_batch *batch)
{
    struct commit *commit = engine->commit;

    assert(batch->meta.epoch == engine->epoch);
    assert(batch->partition == engine->options.partition);
    assert(commit->batches_out > 0 && commit->writes_out >= batch->write_count);
    commit->batches_out--;
    commit->writes_out -= batch->write_count;
    if (batch->result != ERROR_NONE)
        engine->stats.storage_failures++;
}

/* Settles a timer whose change failed: its row is unchanged. */
static void commit_change_failed(struct engine *engine, struct entry *entry)
{
    assert(entry->phase == ENTRY_WRITING && entry->successor && entry->row_at.ms > 0);
    entries_retire(engine->entries, entry->successor);
    entry->successor = NULL;
}

/* Stops counting the timer as live, in all counts. */
static void commit_dismiss(struct engine *engine, const struct timer *timer)
{
    if (name_is_claim(timer))
        return;
    tenant_dismiss_pending(engine);
    tenant_dismiss(engine, timer);
}

static void commit_failed(struct engine *engine, struct entry *entry, enum write_purpose purpose,
                          enum error_code error)
{
    assert(commit_has_successor(purpose) == (entry->successor != NULL));
    assert(error != ERROR_NONE && entry->phase == ENTRY_WRITING);
    switch (purpose) {
    case WRITE_CREATE:
        commit_dismiss(engine, entry->timer);
        break;
    case WRITE_CANCEL:
        tenant_restore_pending(engine);
        commit_change_failed(engine, entry);
        break;
    case WRITE_REDRIVE:
        commit_dismiss(engine, entry->timer);
        commit_change_failed(engine, entry);
        break;
    case WRITE_PATCH:
    case WRITE_TOUCH:
        commit_change_failed(engine, entry);
        break;
    case WRITE_OWN:
        commit_tell_recorded(engine, entry, error);
        commit_postpone(engine, entry);
        break;
    case WRITE_REPORT: /* has the same result as the outcome written with it */
        break;
    case WRITE_FORGET:
        commit_postpone(engine, entry);
        break;
    }
}

struct write_note commit_result(struct engine *engine, struct storage_batch *batch, size_t index,
                                const struct timer **ret_before)
{
    const struct engine_batch *out = list_item(batch, struct engine_batch, batch);
    const struct write_note note = out->notes[index];

    assert(note.entry->phase == ENTRY_WRITING && write_is_own(note.purpose) == !note.command);
    assert(index < batch->write_count);
    *ret_before = note.entry->timer;
    if (batch->result == ERROR_NONE)
        commit_succeeded(engine, note.entry, note.purpose);
    else
        commit_failed(engine, note.entry, note.purpose, batch->result);
    return note;
}

void commit_end(struct storage_batch *batch)
{
    struct engine_batch *out = list_item(batch, struct engine_batch, batch);

    assert(out->notes || batch->write_count == 0);
    buffer_deinit(&out->ledger);
    free(batch->writes);
    free(out->notes);
    free(out);
}

/* ---- questions ---- */

const struct list *commit_rewrites(const struct engine *engine)
{
    return &engine->commit->rewrites;
}

struct wall commit_wake_at(const struct engine *engine)
{
    const struct commit *commit = engine->commit;

    return list_is_empty(&commit->rewrites) ? WALL_NEVER : commit->rewrite_at;
}

void commit_clock_went_back(struct engine *engine)
{
    struct commit *commit = engine->commit;

    commit->rewrite_at =
        wall_min(commit->rewrite_at, wall_add(engine->now, engine->options.storage_retry_ms));
    commit->ends_at =
        wall_min(commit->ends_at, wall_add(engine->now, engine->options.ends_pace_ms));
    assert(commit->rewrite_at.ms <= wall_add(engine->now, engine->options.storage_retry_ms).ms);
}

bool commit_is_idle(const struct engine *engine)
{
    const struct commit *commit = engine->commit;

    assert(commit->batches_out <= BATCHES_OUT_MAX);
    assert(commit->batches_out > 0 || commit->writes_out == 0);
    return commit->batches_out == 0 && commit->write_count == 0 && !commit->meta_wanted &&
           list_is_empty(&commit->rewrites);
}

bool commit_is_certain(const struct engine *engine)
{
    const struct commit *commit = engine->commit;

    return commit->batches_out == 0 && commit->write_count == 0 && list_is_empty(&commit->rewrites);
}

size_t commit_unwritten(const struct engine *engine)
{
    assert(engine->commit->batches_out > 0 || engine->commit->writes_out == 0);
    return engine->commit->write_count + engine->commit->writes_out;
}

size_t commit_spilling(const struct engine *engine)
{
    assert(engine->commit->spilling <= entries_size(engine->entries));
    return engine->commit->spilling;
}

size_t commit_making_bytes(const struct engine *engine)
{
    return engine->commit->making_bytes;
}

void commit_check(const struct engine *engine)
{
    const struct commit *commit = engine->commit;
    size_t spilling = 0, making_bytes = 0, cursor = 0;

    for (const struct entry *entry; (entry = entries_next(engine->entries, &cursor));) {
        spilling += (entry->flags & ENTRY_IS_SPILLING) != 0;
        if (entry->flags & ENTRY_IS_MADE)
            making_bytes += entry_footprint(entry);
        CHECK(!entry->report ||
              (entry->report->phase == ENTRY_WRITING && !entry->report->row_at.ms));
        CHECK(!(entry->flags & ENTRY_IS_SPILLING) || entry->phase == ENTRY_WRITING);
    }
    CHECK(spilling == commit->spilling && making_bytes == commit->making_bytes);
    CHECK(commit->write_count <= commit->write_capacity);
    CHECK(commit->batches_out <= BATCHES_OUT_MAX);
    for (size_t i = 0; i < commit->write_count; i++)
        CHECK(commit->notes[i].entry->phase == ENTRY_WRITING);
    LIST_FOR_EACH (&commit->rewrites, link)
        CHECK(entry_of(link)->phase == ENTRY_WRITING && !entry_of(link)->successor);
}
