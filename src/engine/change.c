/* Timers that are changed by a command: patched, touched, replaced, fired, paused, resumed,
 * cancelled, redriven. */
#include "engine/commands.h"

#include "engine/dead.h"
#include "engine/dispatch.h"
#include "engine/engine_core.h"
#include "engine/history.h"
#include "engine/outcome.h"
#include "engine/position.h"
#include "engine/tenant.h"
#include "engine/watermark.h"
#include "engine/window.h"
#include "timer/debounce.h"
#include "timer/awaits.h"
#include "timer/schedule.h"

#include <assert.h>
#include <stdlib.h>

/* Copies a timer that a command changes. The timer itself stays until the copy is durable, so a
 * failed write needs no rollback. Returns NULL if out of memory. */
static struct timer *change_successor(const struct timer *timer, const struct timer_texts *texts)
{
    struct timer *copy = timer_copy(timer, texts);

    if (!copy)
        return NULL;
    copy->version++;
    return copy;
}

/* Removes a timer from the wheel or its dispatch queue before it is written. */
static void change_unqueue(struct engine *engine, struct entry *entry)
{
    assert(entry->phase == ENTRY_SCHEDULED || entry->phase == ENTRY_QUEUED ||
           entry->phase == ENTRY_EVICTABLE);
    if (entry->phase == ENTRY_SCHEDULED)
        window_unschedule(engine, entry);
    else if (entry->phase == ENTRY_QUEUED)
        dispatch_remove(engine, entry);
}

/* Writes `copy`, which is to replace the entry's timer. If it is NULL, answers that memory is out.
 * Returns false then. */
static bool change_write(struct engine *engine, struct entry *entry, struct timer *copy,
                         struct command *command, enum write_purpose purpose)
{
    assert(entry->phase != ENTRY_WRITING && entry->phase != ENTRY_LOADING);
    assert(purpose != WRITE_CREATE && purpose != WRITE_OWN);
    assert(entry->phase != ENTRY_INFLIGHT);
    assert(!entry->successor);
    if (!copy || !commit_reserve(engine) || !dispatch_keep_place(engine, entry)) {
        timer_free(copy);
        commands_reply(engine, command, ERROR_NO_MEMORY, NULL);
        return false;
    }
    change_unqueue(engine, entry);
    entry->successor = copy;
    watermark_write(engine, (struct write_note){purpose, command, entry});
    return true;
}

/* True if the changed timer must stay in memory and exceeds the limit of memory. */
static bool change_is_too_much(const struct engine *engine, const struct entry *entry,
                               const struct timer *copy)
{
    size_t held = entry->flags & ENTRY_IS_COUNTED ? entry_footprint(entry) : 0;
    size_t needed = entry_footprint_of(copy);

    assert(copy->id.serial == entry->timer->id.serial);
    assert(copy != entry->timer);
    return window_is_near(engine, copy) && needed > held &&
           !entries_have_room(engine->entries, copy->texts.tenant, engine->options.near_bytes_max,
                              held, needed);
}

/* Writes the changed timer, unless memory is short. */
static void change_write_small(struct engine *engine, struct entry *entry, struct timer *copy,
                               struct command *command)
{
    if (copy && change_is_too_much(engine, entry, copy)) {
        timer_free(copy);
        commands_reply(engine, command, ERROR_OVERLOADED, entry->timer);
        return;
    }
    change_write(engine, entry, copy, command, WRITE_PATCH);
}

/* True if a change of the schedule or due time leaves the next firing and its attempts as they are.
 * That is so if the due time is equal, or if the timer recurs and the firing is due already, so
 * that a new schedule begins after it. A new time for the same schedule moves the firing. */
static bool change_keeps_firing(const struct engine *engine, const struct timer *timer,
                                struct bytes schedule, struct wall due)
{
    const bool recurs = schedule_recurs(schedule);

    assert(!timer_is_final(timer->state));
    if (!recurs || !schedule_recurs(timer->texts.schedule) ||
        schedule_plans_same(timer->texts.schedule, schedule))
        return due.ms == timer->due.ms && recurs == schedule_recurs(timer->texts.schedule);
    return timer->due.ms <= engine->now.ms;
}

/* Gives the timer a new due time and no attempts. If it is paused, it stays so until a client ends
 * the pause. */
static void change_appoint(const struct engine *engine, struct timer *timer, struct wall due)
{
    assert(!timer_is_final(timer->state));
    timer->due = due;
    timer->attempts = 0;
    timer->failing = (struct wall){0};
    if (timer->state == TIMER_PAUSED)
        return;
    timer->at = wall_max(due, engine->now);
    timer->state = TIMER_SCHEDULED;
    history_wait(engine->history, timer, LATENESS_SET_LATE, due);
}

static void change_patch(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    const struct command *asked = command->parent_ ? command->parent_ : command;
    uint32_t fields = asked->patch_fields;
    const struct timer *values = asked->patch;
    struct timer_texts texts = timer->texts;

    assert(asked->patch_fields != 0);
    assert((command->parent_ ? command->parent_ : command)->patch);
    timer_texts_patch(&texts, fields, &values->texts);
    if (fields & PATCH_DUE && change_keeps_firing(engine, timer, texts.schedule, values->due))
        fields &= ~(uint32_t)PATCH_DUE;
    if (fields & PATCH_DUE)
        texts.last_error = (struct bytes){0};
    char room[SCHEDULE_COUNTED_SIZE];
    if (!schedule_counts_same(timer->texts.schedule, texts.schedule) &&
        schedule_recurs(texts.schedule))
        texts.counted = schedule_counted_anew(wall_min(engine->now, values->due), room);
    struct timer *copy = change_successor(timer, &texts);
    if (copy && fields & PATCH_RETRY)
        copy->retry = values->retry;
    if (copy && fields & PATCH_DUE)
        change_appoint(engine, copy, values->due);
    change_write_small(engine, entry, copy, command);
}

/* Extends the timer's time. The row stays at its position, with a short record beside it, and is
 * moved once that position is reached (dispatch_due). If the timer is overdue, was attempted or is
 * paused, its row is rewritten as by a patch. */
static void change_touch(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    const struct wall due = command->patch->due;

    assert(!timer_is_final(timer->state));
    assert(command->patch && command->patch_fields == PATCH_DUE);
    if (due.ms <= timer->due.ms) {
        commands_reply(engine, command, ERROR_NONE, timer);
        return;
    }
    if (timer->state != TIMER_SCHEDULED || timer->attempts || timer->due.ms <= engine->now.ms ||
        due.ms <= timer->at.ms) {
        change_patch(engine, entry, command);
        return;
    }
    struct timer *copy = change_successor(timer, &timer->texts);
    if (copy)
        copy->due = due;
    if (copy && change_is_too_much(engine, entry, copy)) {
        timer_free(copy);
        commands_reply(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    change_write(engine, entry, copy, command, WRITE_TOUCH);
}

/* Returns the due time after a put. It is unchanged if the new schedule plans the same instants. */
static struct wall change_put_due(const struct timer *timer, const struct timer *asked)
{
    struct schedule_spec spec;

    if (!schedule_plans_same(timer->texts.schedule, asked->texts.schedule) ||
        schedule_read(asked->texts.schedule, &spec, NULL) || timer->due.ms > spec.until.ms)
        return asked->due;
    return timer->due;
}

/* Sets the debounce of the changed texts, if the call has one, and returns the due time. A call
 * that is not the first one of its timer keeps the time of the first. */
static struct wall change_debounce(const struct timer *timer, const struct timer *asked,
                                   struct timer_texts *texts, char room[DEBOUNCE_TEXT_SIZE])
{
    struct debounce old, new;

    if (!asked->texts.debounce.size || debounce_read(asked->texts.debounce, &new))
        return change_put_due(timer, asked);
    const struct wall call = new.first;
    if (timer->texts.debounce.size && !debounce_read(timer->texts.debounce, &old))
        new.first = wall_min(old.first, call);
    texts->debounce = debounce_write(&new, room);
    return debounce_due(&new, call);
}

/* Replaces the timer that has the key by the timer of the command, under the old id. */
void change_put(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    struct timer *asked = command->timers[0];
    struct timer_texts texts = asked->texts;

    assert(command->timer_count == 1);
    assert(command->kind == COMMAND_PUT || asked->texts.debounce.size > 0);
    assert(!timer_is_final(timer->state));
    /* the Idempotency-Key names the timer as long as it lives */
    texts.request = timer->texts.request;
    /* kept, because clients put the same schedule again at each start */
    texts.runs = timer->texts.runs;
    texts.note = timer->texts.note; /* kept, because the timer stays paused */
    if (bytes_equal(texts.targets, timer->texts.targets))
        texts.parts = timer->texts.parts;
    char debounce[DEBOUNCE_TEXT_SIZE];
    const struct wall due = change_debounce(timer, asked, &texts, debounce);
    const bool is_kept = change_keeps_firing(engine, timer, texts.schedule, due);
    if (is_kept)
        texts.last_error = timer->texts.last_error;
    const bool plans_same = schedule_plans_same(timer->texts.schedule, texts.schedule);
    /* the mark of another plan would look like rules of its zone that have changed */
    if (plans_same && due.ms == timer->due.ms)
        texts.zoned = timer->texts.zoned;
    if (schedule_counts_same(timer->texts.schedule, texts.schedule))
        texts.counted = timer->texts.counted;
    struct timer *copy = change_successor(timer, &texts);
    if (copy) {
        copy->retry = asked->retry;
        /* intervals of `every` count from `created` */
        if (!plans_same)
            copy->created = asked->created.ms ? asked->created : engine->now;
        if (!is_kept)
            change_appoint(engine, copy, due);
    }
    if (copy && change_is_too_much(engine, entry, copy)) {
        timer_free(copy);
        commands_refuse(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    timer_free(asked);
    command->timers[0] = NULL;
    command->results[0] = (struct command_created){.existed = true, .id = timer->id};
    change_write(engine, entry, copy, command, WRITE_PATCH);
}

/* True for a part of a command about an event, but not about labels. */
static bool change_is_by_event(const struct command *command)
{
    return command->parent_ && command->parent_->name.size > 0;
}

static void change_fire(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    const bool is_paused = timer->state == TIMER_PAUSED;

    assert(entry->phase != ENTRY_INFLIGHT);
    assert(!timer_is_final(timer->state));
    if (is_paused && !change_is_by_event(command)) {
        commands_reply(engine, command, ERROR_PAUSED, timer);
        return;
    }
    struct timer *copy = change_successor(timer, &timer->texts);
    if (copy) {
        copy->due = wall_min(copy->due, engine->now);
        copy->at = is_paused ? copy->at : engine->now;
    }
    change_write_small(engine, entry, copy, command);
}

/* Moves the row of a paused timer to the end of its pause, so that watermark, frontier and
 * memory do not wait for it. */
static void change_pause(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    const struct timer *asked = command->parent_ ? command->parent_->patch : command->patch;
    struct timer_texts texts = timer->texts;

    assert(asked && asked->at.ms > 0 && asked->at.ms <= STORAGE_PAUSED_AT.ms);
    texts.note = asked->texts.note;
    struct timer *copy = change_successor(timer, &texts);
    if (copy) {
        copy->paused = timer->state == TIMER_PAUSED ? timer->paused : engine->now;
        copy->at = wall_max(asked->at, engine->now);
        copy->state = TIMER_PAUSED;
    }
    change_write_small(engine, entry, copy, command);
}

/* Resumes a timer. Resuming is never refused for want of memory, like the end of a pause by time.
 * If there is no room, the timer leaves memory again. */
static void change_resume(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;

    if (timer->state == TIMER_PAUSED) {
        struct timer *copy = timer_resumed(timer, engine->now);

        if (copy)
            history_wait(engine->history, copy, LATENESS_PAUSED, timer->paused);
        change_write(engine, entry, copy, command, WRITE_PATCH);
    } else if (command->parent_) /* the command about many timers counts its changes */
        commands_reply(engine, command, ERROR_NOT_FOUND, NULL);
    else
        commands_reply(engine, command, ERROR_NONE, timer);
}

static void change_cancel(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    struct timer_texts texts = timer->texts;

    texts.awaits = (struct bytes){0};
    struct timer *copy = change_successor(timer, &texts);

    assert(!timer_is_final(timer->state));
    if (copy) {
        copy->state = TIMER_CANCELLED;
        copy->ended = engine->now;
        copy->paused = copy->failing = (struct wall){0};
        /* that position is after any trim, so the row would stay forever */
        if (entry->row_at.ms == STORAGE_PAUSED_AT.ms)
            copy->at = wall_max(engine->now, watermark_at(engine));
    }
    if (change_write(engine, entry, copy, command, WRITE_CANCEL))
        tenant_dismiss_pending(engine);
}

/* Returns until when the timer waits if its receiver asks for so much more time. That ends with the
 * longest wait after the begin of the attempt: no receiver holds a timer for ever. */
static struct wall change_extended(const struct engine *engine, const struct timer *timer,
                                   uint64_t by_ms)
{
    struct awaits awaits = {.started_us = 0};

    awaits_read(timer->texts.awaits, &awaits);
    const struct wall end = wall_add((struct wall){awaits.started_us / 1000}, ACK_TIMEOUT_MS_MAX);
    const struct wall until = wall_min(wall_add(engine->now, by_ms), end);
    return wall_max(wall_min(until, (struct wall){WALL_MS_MAX}), timer->due);
}

/* The end of the attempt is repeated until it is durable, as the outcome of any delivery is. The
 * command waits for that beside the timer. */
void change_answer(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;

    assert(timer_awaits(timer) && !command->has_acted);
    if (command->answer.verb == ANSWER_EXTEND) {
        struct timer *copy = change_successor(timer, &timer->texts);

        if (copy)
            copy->at = change_extended(engine, timer, command->answer.by_ms);
        change_write_small(engine, entry, copy, command);
        return;
    }
    change_unqueue(engine, entry);
    outcome_answered(engine, entry, &command->answer);
    command->has_acted = true;
    list_push(&entry->waiters, &command->link);
    commit_hurry(engine);
}

static void change_dismiss_redriven(struct engine *engine, const struct timer *timer)
{
    assert(timer->state == TIMER_DEAD);
    tenant_dismiss(engine, timer);
    tenant_dismiss_pending(engine);
}

/* Returns when a redriven dead letter is delivered, at most the longest pause ahead. A later
 * position would look like one that a wrong clock had set. */
static struct wall change_redriven_from(const struct engine *engine, const struct timer *timer,
                                        struct wall not_before)
{
    const struct wall most = wall_add(engine->now, position_pause_ms_max(timer));

    return wall_max(engine->now, wall_min(wall_min(not_before, most), (struct wall){WALL_MS_MAX}));
}

/* Counts the timer of a dead letter as live again. On an error nothing is counted. */
static enum error_code change_admit_redriven(struct engine *engine, const struct timer *timer,
                                             const struct command *command)
{
    if (!tenant_admit_pending(engine, timer->texts.tenant))
        return ERROR_TOO_MANY;
    const enum error_code error = tenant_admit(engine, command, timer);
    if (error)
        tenant_dismiss_pending(engine);
    return error;
}

void change_revive(struct engine *engine, struct entry *entry, struct timer *copy,
                   struct command *command)
{
    const struct timer *timer = entry->timer;

    assert(entry->phase == ENTRY_EVICTABLE && timer->state == TIMER_DEAD);
    const enum error_code error =
        copy ? change_admit_redriven(engine, timer, command) : ERROR_NO_MEMORY;
    if (error) {
        timer_free(copy);
        commands_reply(engine, command, error, NULL);
        return;
    }
    if (!change_write(engine, entry, copy, command, WRITE_REDRIVE))
        change_dismiss_redriven(engine, timer);
}

/* Makes a dead letter live again. It shows its last error until a firing sets another one. */
void change_redrive(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;

    assert(entry->phase == ENTRY_EVICTABLE);
    assert(timer->state == TIMER_DEAD);
    assert(!command->patch || command->patch_fields == PATCH_TARGET);
    const enum error_code error = change_admit_redriven(engine, timer, command);
    if (error) {
        commands_reply(engine, command, error, timer);
        return;
    }
    struct timer_texts texts = timer->texts;
    if (command->patch)
        timer_texts_patch(&texts, command->patch_fields, &command->patch->texts);
    struct timer *copy = change_successor(timer, &texts);
    if (copy) {
        const struct wall from = change_redriven_from(engine, timer, command->not_before);

        copy->attempts = 0;
        copy->ended = (struct wall){0};
        copy->due = outcome_redriven_due(engine, copy, from);
        copy->at = wall_max(copy->due, from);
        /* An overdue timer that is SCHEDULED at a later position would be taken for a spilled
         * one. */
        copy->state =
            copy->at.ms > wall_max(copy->due, engine->now).ms ? TIMER_RETRYING : TIMER_SCHEDULED;
        history_forget(engine->history, copy->id.serial);
        history_wait(engine->history, copy, LATENESS_SET_LATE, copy->due);
    }
    if (copy && change_is_too_much(engine, entry, copy)) {
        timer_free(copy);
        change_dismiss_redriven(engine, timer);
        commands_reply(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    if (!change_write(engine, entry, copy, command, WRITE_REDRIVE))
        change_dismiss_redriven(engine, timer);
}

/* Deletes a dead letter and its names. */
void change_forget(struct engine *engine, struct entry *entry, struct command *command)
{
    assert(command->kind == COMMAND_FORGET);
    if (!dead_forget(engine, entry, command))
        commands_reply(engine, command, ERROR_NO_MEMORY, NULL);
}

bool change_is_named(const struct engine *engine, const struct timer *timer)
{
    assert(timer_is_final(timer->state));
    return wall_since(timer->ended, engine->now) <= engine->options.retain_ms;
}

bool change_is_kept(const struct engine *engine, const struct timer *timer)
{
    assert(timer_is_final(timer->state));
    return storage_is_dead_letter(timer) ? dead_is_kept(engine, timer)
                                         : change_is_named(engine, timer);
}

void change_timer(struct engine *engine, struct entry *entry, struct command *command)
{
    assert(entry->phase != ENTRY_INFLIGHT && entry->phase != ENTRY_WRITING);
    assert(!timer_is_final(entry->timer->state));
    switch (command->kind) {
    case COMMAND_PATCH:
        change_patch(engine, entry, command);
        break;
    case COMMAND_TOUCH:
        change_touch(engine, entry, command);
        break;
    case COMMAND_FIRE:
        change_fire(engine, entry, command);
        break;
    case COMMAND_PAUSE:
        change_pause(engine, entry, command);
        break;
    case COMMAND_RESUME:
        change_resume(engine, entry, command);
        break;
    default:
        assert(command->kind == COMMAND_CANCEL);
        change_cancel(engine, entry, command);
        break;
    }
}
