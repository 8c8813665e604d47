/* How a command gets to its timer. */
#include "engine/commands.h"

#include "engine/dead.h"
#include "engine/dispatch.h"
#include "engine/effects.h"
#include "engine/engine_core.h"
#include "engine/fanout.h"
#include "engine/history.h"
#include "engine/ledger.h"
#include "engine/reload.h"
#include "engine/tenant.h"
#include "engine/watermark.h"
#include "timer/awaits.h"

#include <assert.h>
#include <stdlib.h>

struct commands *commands_create(void)
{
    struct commands *commands = calloc(1, sizeof(*commands));

    if (!commands)
        return NULL;
    list_init(&commands->parts);
    list_init(&commands->ready);
    list_init(&commands->answered);
    turns_init(&commands->sweeps);
    return commands;
}

void commands_destroy(struct commands *commands)
{
    if (!commands)
        return;
    for (struct list *link; (link = list_pop(&commands->parts));) {
        struct command *part = list_item(link, struct command, part_link_);

        lookup_forget_candidates(part);
        free(part);
    }
    free(commands);
}

/* ---- look-ups ---- */

/* Handles a command whose key, Idempotency-Key or event no timer has. */
static void commands_unnamed(struct engine *engine, struct command *command)
{
    assert(!command->names_.is_searching);
    if (command->kind == COMMAND_PUT && command->must_exist)
        commands_refuse(engine, command, ERROR_VERSION_MISMATCH, NULL);
    else if (command_is_create(command))
        create_named(engine, command);
    else
        commands_reply(engine, command, ERROR_NOT_FOUND, NULL);
}

static void commands_fail(struct engine *engine, struct command *command, enum error_code error)
{
    assert(error != ERROR_NONE);
    if (command_is_create(command))
        commands_refuse(engine, command, error, NULL);
    else
        commands_reply(engine, command, error, NULL);
}

static void commands_visit(struct engine *engine, struct command *command);

/* Continues a command after a step of its look-up. */
static void commands_step(struct engine *engine, struct command *command, enum lookup_step step)
{
    assert(step != LOOKUP_CANDIDATE || command->names_.is_searching || command->fanout_.is_own ||
           command->fanout_.is_begun);
    switch (step) {
    case LOOKUP_WAITS:
        break;
    case LOOKUP_CANDIDATE:
        commands_visit(engine, command);
        break;
    case LOOKUP_NONE:
        commands_unnamed(engine, command);
        break;
    case LOOKUP_NO_MEMORY:
        commands_fail(engine, command, ERROR_NO_MEMORY);
        break;
    }
}

/* Continues the commands on `ready`, which answers to other commands have added. */
static void commands_go_on(struct engine *engine)
{
    struct commands *commands = engine->commands;
    struct list *link;

    while (!list_is_empty(&commands->ready) || !list_is_empty(&commands->answered)) {
        while ((link = list_pop(&commands->ready))) {
            struct command *command = list_item(link, struct command, link);

            commands_step(engine, command, command->reached_);
        }
        if (!(link = list_pop(&commands->answered)))
            continue;
        struct command *answered = list_item(link, struct command, link);
        if (answered->fanout_.is_own)
            fanout_commands_done(engine, answered);
        else
            complete_part_done(engine, answered);
    }
}

/* ---- a command and its timer ---- */

static void commands_visit_dead(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;

    assert(tenant_owns(command, timer));
    assert(command->kind == COMMAND_REDRIVE || command->kind == COMMAND_FORGET);
    assert(entry->phase != ENTRY_LOADING && entry->phase != ENTRY_WRITING);
    if (timer->state != TIMER_DEAD || !change_is_kept(engine, timer))
        commands_reply(engine, command, ERROR_NOT_FOUND, NULL);
    else if (command->if_version && command->if_version != timer->version)
        commands_reply(engine, command, ERROR_VERSION_MISMATCH, timer);
    else if (command->kind == COMMAND_FORGET)
        change_forget(engine, entry, command);
    else if (timer->texts.key.size && !command->names_.is_locked)
        commands_step(engine, command, lookup_begin_redrive(engine, timer, command));
    else
        change_redrive(engine, entry, command);
}

static void commands_visit_final(struct engine *engine, struct entry *entry,
                                 struct command *command)
{
    const struct timer *timer = entry->timer;
    bool is_known = command->names_.is_searching ? change_is_named(engine, timer)
                                                 : change_is_kept(engine, timer);

    assert(!command_is_create(command) && command->kind != COMMAND_REDRIVE);
    assert(timer_is_final(timer->state));
    if (command->kind == COMMAND_EXPLAIN)
        explain_timer(engine, entry, &command->explained);
    if (command->has_acted) { /* that was the last attempt */
        commands_reply(engine, command, ERROR_NONE, timer);
        return;
    }
    commands_reply(engine, command, is_known ? ERROR_GONE : ERROR_NOT_FOUND,
                   is_known ? timer : NULL);
}

/* Answers whether a worker has leased the timer, whose version the command names. */
static void commands_visit_leased(struct engine *engine, const struct entry *entry,
                                  struct command *command)
{
    const struct timer *timer = entry->timer;
    enum error_code error = ERROR_NONE;

    assert(command->kind == COMMAND_RELEASE);
    if (command->has_acted)
        error = ERROR_NONE;
    else if (command->if_version && command->if_version != timer->version)
        error = ERROR_VERSION_MISMATCH;
    else if (entry->phase != ENTRY_INFLIGHT || !timer_is_pulled(timer))
        error = ERROR_NOT_LEASED;
    commands_reply(engine, command, error, timer);
}

/* Lets the later answer of a receiver act. Its token proves that it is that receiver's. All that it
 * cannot end is GONE: what was answered, another attempt, and a wrong token. */
static void commands_visit_awaited(struct engine *engine, struct entry *entry,
                                   struct command *command)
{
    const struct timer *timer = entry->timer;
    struct awaits awaits;

    assert(command->kind == COMMAND_ANSWER && awaits_is_token(command->answer.token));
    if (command->has_acted)
        commands_reply(engine, command, ERROR_NONE, timer);
    else if (entry->phase == ENTRY_INFLIGHT)
        commands_reply(engine, command, ERROR_ALREADY_FIRING, timer);
    else if (!timer_awaits(timer) || !awaits_read(timer->texts.awaits, &awaits) ||
             !bytes_equal_secret(awaits.token, command->answer.token))
        commands_reply(engine, command, ERROR_GONE, timer);
    else
        change_answer(engine, entry, command);
}

/* Lets a command act on its timer, which no read or write is pending for. */
static void commands_visit_settled(struct engine *engine, struct entry *entry,
                                   struct command *command)
{
    const struct timer *timer = entry->timer;

    assert(timer_id_equal(&timer->id, &command->id));
    assert(entry->phase != ENTRY_LOADING && entry->phase != ENTRY_WRITING);
    if (command->name.size)
        entry->flags |= ENTRY_WAS_NAMED;
    if (command->kind == COMMAND_ANSWER) {
        commands_visit_awaited(engine, entry, command);
    } else if (!tenant_owns(command, timer) || entry->flags & ENTRY_IS_FORGOTTEN ||
               (name_is_claim(timer) && !command_is_create(command))) {
        commands_reply(engine, command, ERROR_NOT_FOUND, NULL);
    } else if (fanout_commands_visit(engine, entry, command)) {
        return;
    } else if (command->kind == COMMAND_REDRIVE || command->kind == COMMAND_FORGET) {
        commands_visit_dead(engine, entry, command);
    } else if (command->names_.is_searching && !lookup_fits(command, timer)) {
        commands_step(engine, command, lookup_next(engine, command));
    } else if (command_is_create(command)) {
        create_taken(engine, entry, command);
    } else if (timer_is_final(timer->state)) {
        commands_visit_final(engine, entry, command);
    } else if (command->kind == COMMAND_GET) {
        commands_reply(engine, command, ERROR_NONE, timer);
    } else if (command->kind == COMMAND_EXPLAIN) {
        explain_timer(engine, entry, &command->explained);
        commands_reply(engine, command, ERROR_NONE, timer);
    } else if (command->kind == COMMAND_RELEASE) {
        commands_visit_leased(engine, entry, command);
    } else if (entry->phase == ENTRY_INFLIGHT ||
               (timer_awaits(timer) && command->kind != COMMAND_CANCEL)) {
        commands_reply(engine, command, ERROR_ALREADY_FIRING, timer);
    } else if (command->if_version && command->if_version != timer->version) {
        commands_reply(engine, command, ERROR_VERSION_MISMATCH, timer);
    } else {
        change_timer(engine, entry, command);
    }
}

/* Requests the row of a timer that is not in memory. Until it arrives, a placeholder stands in the
 * map. */
static bool commands_find(struct engine *engine, struct command *command)
{
    struct timer *timer = timer_alloc(&(struct timer_texts){0});

    assert(command->id.partition == engine->options.partition);
    assert(!entries_find(engine->entries, command->id.serial));
    if (!timer)
        return false;
    timer->id = command->id;
    struct entry *placeholder = entries_add(engine->entries, timer, ENTRY_LOADING);
    if (!placeholder) {
        timer_free(timer);
        return false;
    }
    if (!effects_find(engine, placeholder, command)) {
        entries_set_phase(engine->entries, placeholder, ENTRY_ABSENT);
        return false;
    }
    list_push(&placeholder->waiters, &command->link);
    return true;
}

/* Lets the command act on the timer `command->id`, at once or when the timer has been read or
 * written. */
static void commands_visit(struct engine *engine, struct command *command)
{
    struct entry *entry = entries_find(engine->entries, command->id.serial);

    assert(command->kind != COMMAND_LIST && command->kind != COMMAND_FORECAST);
    if (entry && entry->phase == ENTRY_LOADING) {
        /* the waiting command may mean an id with the same serial and another time */
        list_push(&entry->waiters, &command->link);
    } else if (entry && !timer_id_equal(&entry->timer->id, &command->id)) {
        /* a timer with this serial exists, but its id has another time */
        commands_reply(engine, command, ERROR_NOT_FOUND, NULL);
    } else if (entry && entry->phase == ENTRY_WRITING) {
        list_push(&entry->waiters, &command->link);
        commit_hurry(engine);
    } else if (entry) {
        commands_visit_settled(engine, entry, command);
    } else if (command->id.partition != engine->options.partition ||
               command->id.serial >= TIMER_SERIAL(engine->epoch, engine->serials)) {
        commands_reply(engine, command, ERROR_NOT_FOUND, NULL); /* no timer has ever had this id */
    } else if (!commands_find(engine, command)) {
        commands_reply(engine, command, ERROR_NO_MEMORY, NULL);
    }
}

/* Starts a command that names its timer. If recent.h keeps that timer, no look-up is needed. */
static void commands_start_named(struct engine *engine, struct command *command)
{
    const struct name_space space = {engine->options.partition, command->tenant};
    struct timer *timer = entries_recall(engine->entries, space, command->name);
    struct entry *entry = timer ? reload_take_in(engine, timer) : NULL;

    if (!entry) {
        timer_free(timer);
        commands_step(engine, command, lookup_begin(engine, command));
        return;
    }
    lookup_recalled(command, &timer->id);
    reload_settle(engine, entry);
    commands_visit(engine, command);
}

static void commands_begin(struct engine *engine, struct command *command)
{
    assert(!command_is_work(command->kind));
    if (command->names_.is_searching || command->names_.is_locked) {
        /* The command waited for a timer that may have its name, or for a dead letter. */
        commands_visit(engine, command);
        return;
    }
    switch (command->kind) {
    case COMMAND_CREATE:
        create_start(engine, command);
        break;
    case COMMAND_PUT:
        commands_step(engine, command, lookup_begin(engine, command));
        break;
    case COMMAND_COMPLETE:
        complete_start(engine, command);
        break;
    case COMMAND_LIST:
        if (!commands_scan(engine, command))
            commands_reply(engine, command, ERROR_NO_MEMORY, NULL);
        break;
    case COMMAND_FORECAST:
        forecast_start(engine, command);
        break;
    case COMMAND_SURVEY:
        commands_reply(engine, command, dispatch_survey(engine, command), NULL);
        break;
    case COMMAND_GET:
    case COMMAND_EXPLAIN:
    case COMMAND_PATCH:
    case COMMAND_TOUCH:
    case COMMAND_CANCEL:
    case COMMAND_FIRE:
    case COMMAND_PAUSE:
    case COMMAND_RESUME:
    case COMMAND_RELEASE:
        if (command->name.size)
            commands_start_named(engine, command);
        else
            commands_visit(engine, command);
        break;
    case COMMAND_REDRIVE:
    case COMMAND_FORGET:
    case COMMAND_ANSWER:
        commands_visit(engine, command);
        break;
    case COMMAND_LEDGER:
    case COMMAND_LEASE:
    case COMMAND_REPORT:
    case COMMAND_KIND_COUNT:
        break; /* excluded by the assertion above */
    }
}

void commands_start(struct engine *engine, struct command *command)
{
    commands_begin(engine, command);
    commands_go_on(engine);
}

/* ---- commands of sources ---- */

void commands_start_source(struct engine *engine, struct command *command)
{
    const enum error_code error = command->kind == COMMAND_LEDGER
                                      ? ledger_begin(engine->ledger, command)
                                      : ledger_admit(engine->ledger, &command->origin);

    if (!error && command->kind != COMMAND_LEDGER)
        commands_start(engine, command);
    if (!error)
        return;
    command->origin = (struct command_origin){0};
    command_drop_timers(command);
    command_fail(command, error);
    effects_reply(engine, command);
}

void commands_settle_source(struct engine *engine, enum error_code result)
{
    struct list answered, *link;

    list_init(&answered);
    ledger_settle(engine->ledger, result, &answered);
    while ((link = list_pop(&answered)))
        effects_reply(engine, list_item(link, struct command, link));
}

/* ---- commands that waited ---- */

void commands_resume(struct engine *engine, struct entry *entry)
{
    if (list_is_empty(&entry->waiters))
        return;
    struct list waiters;
    list_init(&waiters);
    list_join(&waiters, &entry->waiters);
    LIST_FOR_EACH (&waiters, link) {
        list_remove(link);
        commands_start(engine, list_item(link, struct command, link));
    }
}

void commands_fail_waiters(struct engine *engine, struct entry *entry, enum error_code error)
{
    assert(error != ERROR_NONE);
    struct list *link;
    while ((link = list_pop(&entry->waiters)))
        commands_reply(engine, list_item(link, struct command, link), error, NULL);
    assert(list_is_empty(&entry->waiters));
    commands_go_on(engine);
}

/* ---- writes ---- */

static void commands_created(struct engine *engine, const struct write_note *note,
                             enum error_code result)
{
    struct command *command = note->command;
    const struct timer *timer = note->entry->timer;

    assert(note->purpose == WRITE_CREATE && command_is_create(command));
    assert(command->pending_ > 0);
    if (result) {
        for (size_t i = 0; i < command->timer_count; i++)
            if (command->timers[i] == timer)
                command->results[i].error = result;
        command->error = result;
    }
    if (--command->pending_ == 0)
        commands_reply(engine, command, command->error,
                       result || command->timer_count > 1 ? NULL : timer);
}

void commands_written(struct engine *engine, const struct write_note *note, enum error_code result)
{
    struct entry *entry = note->entry;

    assert(result || entry->phase == ENTRY_WRITING);
    assert(write_is_own(note->purpose) == !note->command);
    watermark_mark_stale(engine);
    if (!result && note->purpose == WRITE_OWN)
        history_committed(engine->history, entry->timer->id.serial, engine->now);
    if (note->purpose != WRITE_CREATE && !write_is_own(note->purpose))
        commands_reply(engine, note->command, result, result ? NULL : entry->timer);
    if (result) /* the storage failed: answers now rather than when it works again */
        commands_fail_waiters(engine, entry, result);
    if (note->purpose == WRITE_CREATE)
        commands_created(engine, note, result);
    if (!result)
        fanout_commands_written(engine, entry, note->purpose);
    if (result && note->purpose == WRITE_CREATE) {
        entries_set_phase(engine->entries, entry, ENTRY_ABSENT);
    } else if (!result || write_is_asked(note->purpose)) {
        reload_settle(engine, entry);
        dispatch_settled(engine, entry);
        commands_resume(engine, entry);
    }
    commands_go_on(engine);
}

/* ---- reads ---- */

/* Answers the commands with the id that was not found. Commands with the same serial and another
 * id, which waited too, request their own row. */
static void commands_not_found(struct engine *engine, struct entry *placeholder,
                               enum error_code error)
{
    assert(placeholder->phase == ENTRY_LOADING);
    assert(error != ERROR_NONE);
    struct list waiters;
    list_init(&waiters);
    list_join(&waiters, &placeholder->waiters);
    entries_set_phase(engine->entries, placeholder, ENTRY_ABSENT);
    LIST_FOR_EACH (&waiters, link) {
        struct command *command = list_item(link, struct command, link);

        list_remove(link);
        if (timer_id_equal(&command->id, &placeholder->timer->id))
            commands_reply(engine, command, error, NULL);
        else
            commands_start(engine, command);
    }
    commands_go_on(engine);
}

void commands_found(struct engine *engine, struct engine_read *read)
{
    struct entry *entry = entries_find(engine->entries, read->id.serial);

    assert(read->kind == ENGINE_READ_FIND);
    /* A read ahead may have loaded the timer meanwhile, so this read is stale. */
    if (!entry || entry->phase != ENTRY_LOADING || entry->ticket != read->ticket_)
        return;
    if (read->result == ERROR_NONE && !timer_id_equal(&read->timer->id, &read->id))
        read->result = ERROR_NOT_FOUND;
    if (read->result != ERROR_NONE) {
        commands_not_found(engine, entry, read->result);
        return;
    }
    reload_take_in(engine, read->timer);
    read->timer = NULL;
    reload_settle(engine, entry);
    commands_resume(engine, entry);
}

/* Among timers that had the key, the one that took it from the dead letter is newer than the
 * letter. An older one is found only if the letter and its name have been deleted. */
static void commands_redrive_looked_up(struct engine *engine, struct command *command,
                                       const struct engine_read *read)
{
    const struct storage_names *found = &read->names;

    assert(command->kind == COMMAND_REDRIVE);
    assert(command->names_.is_locked);
    if (read->result)
        commands_reply(engine, command, read->result, NULL);
    else if (found->count && found->ids[0].serial > command->id.serial)
        commands_reply(engine, command, ERROR_KEY_IN_USE, NULL);
    else
        commands_visit(engine, command);
}

void commands_looked_up(struct engine *engine, struct engine_read *read)
{
    struct command *command = read->command_;

    assert(read->kind == ENGINE_READ_LOOKUP);
    assert(command);
    if (command->kind != COMMAND_COMPLETE)
        lookup_forget_candidates(command);
    if (command->kind == COMMAND_COMPLETE) {
        complete_looked_up(engine, command, read);
    } else if (command->kind == COMMAND_REDRIVE) {
        commands_redrive_looked_up(engine, command, read);
    } else if (read->result) {
        commands_fail(engine, command, read->result);
    } else {
        lookup_take(command, read);
        commands_step(engine, command, lookup_next(engine, command));
    }
    commands_go_on(engine);
}

/* Corrects the states of listed timers, because the storage does not know which of them are being
 * delivered. */
static void commands_listed(struct engine *engine, struct engine_read *read)
{
    struct storage_page *page = &read->page;

    assert(page->count <= read->scan.rows_max);
    assert(read->command_->kind == COMMAND_LIST);
    size_t count = 0;
    for (size_t i = 0; i < page->count; i++) {
        struct timer *shown = page->timers[i];
        const struct entry *entry = entries_find(engine->entries, shown->id.serial);

        if (name_is_claim(shown) ||
            (storage_is_dead_letter(shown) && !dead_is_kept(engine, shown))) {
            timer_free(shown);
            continue;
        }
        shown->state = fanout_shown_state(shown);
        /* The page has the row as it was when it was read, without later changes. */
        if (entry && entry->phase == ENTRY_INFLIGHT && entry->timer->version == shown->version)
            shown->state = TIMER_DELIVERING;
        page->timers[count++] = shown;
    }
    page->count = count;
    read->command_->page = read->page;
    commands_reply(engine, read->command_, read->result, NULL);
}

void commands_page(struct engine *engine, struct engine_read *read)
{
    assert(read->kind == ENGINE_READ_SCAN);
    assert(read->command_);
    switch (read->command_->kind) {
    case COMMAND_COMPLETE:
        complete_swept(engine, read);
        break;
    case COMMAND_FORECAST:
        forecast_read(engine, read);
        break;
    default:
        commands_listed(engine, read);
        break;
    }
    commands_go_on(engine);
}

void commands_rows_read(struct engine *engine, const struct storage_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        fanout_commands_read(engine, page->timers[i]);
    commands_go_on(engine);
}
