/*
 * Commands about many timers: those that watch an event, or those with labels.
 *
 * For each timer the engine makes a *part*: a command whose answer goes to the command about many.
 * Timers are found by the event that they watch, or by a walk over all live timers that compares
 * labels. A command about many events has a part for each event, which has a part for each timer.
 */
#include "engine/commands.h"

#include "engine/engine_core.h"
#include "engine/tenant.h"
#include "engine/watermark.h"
#include "timer/tenant.h"
#include "timer/timer.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* maximum of watchers in a page, each of which becomes a part; at most scan_rows_max */
    COMPLETED_AT_ONCE = 256,
    /* maximum of a command's events that run at once, each of them a part */
    EVENTS_AT_ONCE = 512,
    SWEPT_AT_ONCE = 1024,  /* maximum of timers with the labels in a page */
    SWEPT_BYTES = 1 << 20, /* maximum memory of those timers, in bytes */
    SWEEPS_AT_ONCE = 8,    /* maximum of pages at once, each for another tenant */
};

struct command *complete_part(struct engine *engine, struct command *command,
                              enum command_kind kind)
{
    struct command *part = calloc(1, sizeof(*part));

    assert(kind != COMMAND_LIST && kind != COMMAND_FORECAST);
    assert(command->kind == COMMAND_COMPLETE || command->kind == COMMAND_CREATE);
    if (!part)
        return NULL;
    list_init(&part->link);
    list_init(&part->part_link_);
    part->kind = kind;
    part->parent_ = command;
    part->tenant = command->tenant;
    list_push(&engine->commands->parts, &part->part_link_);
    command->pending_++;
    return part;
}

static size_t complete_at_once(const struct engine *engine)
{
    const uint32_t rows_max = engine->options.scan_rows_max;

    assert(engine->options.scan_rows_max > 0);
    return rows_max < COMPLETED_AT_ONCE ? rows_max : COMPLETED_AT_ONCE;
}

static void complete_reply(struct engine *engine, struct command *command, enum error_code error);

static void complete_next_watchers(struct engine *engine, struct command *command,
                                   uint64_t serial_below)
{
    assert(command->pending_ == 0 && command->name.size > 0);
    assert(command->event_count == 0);
    if (!lookup_watchers(engine, command, serial_below, complete_at_once(engine)))
        complete_reply(engine, command, ERROR_NO_MEMORY);
}

/* Requests pages for the commands whose turn it is. Only one command of a tenant runs at a time,
 * because two that move timers to now would find each other's changes without end. */
static void complete_next_sweeps(struct engine *engine)
{
    struct commands *commands = engine->commands;

    LIST_FOR_EACH (&commands->sweeps.firsts, link) {
        struct command *command =
            list_item(list_item(link, struct turn_link, link), struct command, sweep_);

        if (commands->sweeping >= SWEEPS_AT_ONCE)
            return;
        if (command->is_sweeping_)
            continue;
        command->is_sweeping_ = true;
        commands->sweeping++;
        if (!commands_scan(engine, command)) {
            complete_reply(engine, command, ERROR_NO_MEMORY);
            return; /* complete_reply has already begun the next commands */
        }
    }
}

static void complete_begin_sweep(struct engine *engine, struct command *command)
{
    const uint32_t rows_max = engine->options.scan_rows_max;

    command->is_sweeping_ = false;
    command->scan = (struct storage_scan){
        .partition = engine->options.partition,
        .kind = STORAGE_SCAN_LIVE,
        .from = {watermark_at(engine), 0},
        .to = {WALL_NEVER, 0},
        .rows_max = rows_max < SWEPT_AT_ONCE ? rows_max : SWEPT_AT_ONCE,
        .bytes_max = SWEPT_BYTES,
    };
}

static void complete_end_sweep(struct engine *engine, struct command *command)
{
    struct commands *commands = engine->commands;

    assert(command->pending_ == 0 && command->is_sweeping_ && commands->sweeping > 0);
    commands->sweeping--;
    struct turn_link *next = turns_remove(&commands->sweeps, &command->sweep_);
    if (next)
        complete_begin_sweep(engine, list_item(next, struct command, sweep_));
    complete_next_sweeps(engine);
}

static void complete_reply(struct engine *engine, struct command *command, enum error_code error)
{
    assert(command->kind == COMMAND_COMPLETE && command->pending_ == 0);
    if (!command->name.size && !command->event_count)
        complete_end_sweep(engine, command);
    commands_reply(engine, command, error, NULL);
}

/* Ends the handling of a page, so that another tenant may have one. */
static void complete_next_page(struct engine *engine, struct command *command)
{
    assert(command->is_sweeping_ && engine->commands->sweeping > 0);
    command->is_sweeping_ = false;
    engine->commands->sweeping--;
    turns_rotate(&engine->commands->sweeps, &command->sweep_);
    complete_next_sweeps(engine);
}

/* Requests the next page, or answers the command after the last one. */
static void complete_more(struct engine *engine, struct command *command)
{
    const struct command_names *names = &command->names_;

    assert(command->pending_ == 0 && command->event_count == 0);
    assert(command->kind == COMMAND_COMPLETE);
    if (command->error)
        complete_reply(engine, command, command->error);
    else if (!command->name.size && storage_position_before(command->scan.from, command->scan.to))
        complete_next_page(engine, command);
    else if (command->name.size && names->count == complete_at_once(engine))
        complete_next_watchers(engine, command, names->ids[names->count - 1].serial);
    else
        complete_reply(engine, command, ERROR_NONE);
}

/* Makes a part for each timer of the page. */
static void complete_page(struct engine *engine, struct command *command)
{
    struct command_names *names = &command->names_;

    assert(names->next == 0);
    assert(command->kind == COMMAND_COMPLETE);
    assert(command->pending_ == 0);
    for (size_t i = 0; i < names->count; i++) {
        struct command *part = complete_part(engine, command, command->each);

        if (!part) {
            command->error = ERROR_NO_MEMORY;
            break;
        }
        part->id = names->ids[i];
        part->names_.is_searching = true;
        commands_continue(engine, part, LOOKUP_CANDIDATE);
    }
    if (command->pending_ == 0)
        complete_more(engine, command);
}

static void complete_count(struct command *command, enum error_code error)
{
    assert(command->kind == COMMAND_COMPLETE);
    assert(command->pending_ > 0);
    switch (error) {
    case ERROR_NONE:
        command->completed.changed++;
        break;
    case ERROR_ALREADY_FIRING:
        command->completed.firing++;
        break;
    case ERROR_NOT_FOUND:
    case ERROR_GONE:
    case ERROR_PAUSED:
        break; /* the timer has ended or was paused since the page was read */
    case ERROR_CORRUPT:
        /* the row is damaged and set aside by the storage; it must not block the others forever */
        break;
    default:
        command->error = error;
    }
}

static void complete_begin_event(struct engine *engine, struct command *command,
                                 struct command_event *event)
{
    struct command *part = complete_part(engine, command, COMMAND_COMPLETE);

    assert(event >= command->events && event < command->events + command->event_count);
    assert(command->event_count > 0);
    if (!part) {
        event->error = ERROR_NO_MEMORY;
        return;
    }
    part->name = event->name;
    part->each = command->each;
    part->events = event; /* the part's counts and error are stored here */
    complete_start(engine, part);
}

/* Begins as many events as may run at once, or answers if all are done. */
static void complete_next_events(struct engine *engine, struct command *command)
{
    assert(command->event_count > 0);
    assert(command->event_next_ <= command->event_count);
    while (command->pending_ < EVENTS_AT_ONCE && command->event_next_ < command->event_count)
        complete_begin_event(engine, command, &command->events[command->event_next_++]);
    if (command->pending_ == 0)
        complete_reply(engine, command, ERROR_NONE);
}

static void complete_take_answer(struct command *command, const struct command *part)
{
    assert(command->pending_ > 0);
    assert(part->parent_ == command);
    if (command->event_count) {
        part->events->completed = part->completed;
        part->events->error = part->error;
    } else if (command->kind == COMMAND_COMPLETE) {
        complete_count(command, part->error);
    } else if (part->error) {
        command->error = part->error;
    }
}

void complete_part_done(struct engine *engine, struct command *part)
{
    struct command *command = part->parent_;

    assert(command->pending_ > 0);
    assert(part->parent_);
    complete_take_answer(command, part);
    list_remove(&part->part_link_);
    free(part);
    command->pending_--;
    if (command->event_count) {
        complete_next_events(engine, command);
        return;
    }
    if (command->pending_ > 0)
        return;
    if (command->kind == COMMAND_COMPLETE)
        complete_more(engine, command);
    else
        commands_reply(engine, command, command->error, NULL);
}

void complete_start(struct engine *engine, struct command *command)
{
    assert(!command->parent_ || command->name.size > 0);
    assert(command->kind == COMMAND_COMPLETE);
    command->names_ = (struct command_names){0};
    command->error = ERROR_NONE;
    command->completed = (struct command_completed){0};
    if (command->event_count) {
        command->pending_ = command->event_next_ = 0;
        complete_next_events(engine, command);
    } else if (command->name.size) {
        complete_next_watchers(engine, command, UINT64_MAX);
    } else {
        if (turns_push(&engine->commands->sweeps, &command->sweep_, tenant_key(command->tenant)))
            complete_begin_sweep(engine, command);
        complete_next_sweeps(engine);
    }
}

void complete_looked_up(struct engine *engine, struct command *command, struct engine_read *read)
{
    assert(command->kind == COMMAND_COMPLETE && command->name.size > 0);
    assert(command->pending_ == 0);
    lookup_forget_candidates(command);
    if (read->result) {
        complete_reply(engine, command, read->result);
        return;
    }
    lookup_take(command, read);
    complete_page(engine, command);
}

/* True if a patch that contains a due time would change nothing. */
static bool complete_is_patched(const struct timer *timer, const struct timer *values,
                                uint32_t fields)
{
    assert(fields & PATCH_DUE);
    return timer->due.ms == values->due.ms && timer->attempts == 0 &&
           timer_texts_have(&timer->texts, fields, &values->texts) &&
           (!(fields & PATCH_RETRY) || retry_policy_equal(&timer->retry, &values->retry));
}

/* True if a command by labels that pauses, resumes or fires would leave the timer as it is. */
static bool complete_is_done(const struct engine *engine, const struct command *command,
                             const struct timer *timer)
{
    const bool is_paused = timer->state == TIMER_PAUSED;

    assert(!timer_is_final(timer->state));
    switch (command->each) {
    case COMMAND_PAUSE:
        return is_paused && timer->at.ms == command->patch->at.ms &&
               bytes_equal(timer->texts.note, command->patch->texts.note);
    case COMMAND_RESUME:
        return !is_paused;
    case COMMAND_FIRE:
        return is_paused || wall_max(timer->at, timer->due).ms <= engine->now.ms;
    default:
        return false;
    }
}

/* True unless this command has already moved the timer ahead, where the scan finds it again.
 * Without this check it might never end. */
static bool complete_is_meant(const struct engine *engine, const struct command *command,
                              const struct timer *timer)
{
    assert(!timer_is_final(timer->state));
    assert(command->labels.size > 0 && tenant_owns(command, timer));
    if (complete_is_done(engine, command, timer))
        return false;
    return command->each != COMMAND_PATCH || !(command->patch_fields & PATCH_DUE) ||
           !complete_is_patched(timer, command->patch, command->patch_fields);
}

void complete_swept(struct engine *engine, struct engine_read *read)
{
    struct command *command = read->command_;
    struct command_names *names = &command->names_;
    const struct storage_page *page = &read->page;

    assert(command->pending_ == 0 && !command->name.size);
    assert(command->kind == COMMAND_COMPLETE);
    lookup_forget_candidates(command);
    names->ids = malloc((page->count + 1) * sizeof(*names->ids));
    if (read->result || !names->ids) {
        complete_reply(engine, command, read->result ? read->result : ERROR_NO_MEMORY);
        return;
    }
    for (size_t i = 0; i < page->count; i++)
        if (complete_is_meant(engine, command, page->timers[i]))
            names->ids[names->count++] = page->timers[i]->id;
    command->scan.from = page->next;
    complete_page(engine, command);
}
