/*
 * Commands: each is checked, given an id or its timer, and turned into a write, a read or an
 * answer.
 *
 * A command for a timer that is being read or written waits until that is settled; those that wait
 * go on in the order in which they came. So each sees the timer as the one before left it, durable.
 */
#include "engine/engine_private.h"

#include <assert.h>
#include <stdlib.h>

static bool is_create(const struct command *command)
{
    return command->kind == COMMAND_CREATE || command->kind == COMMAND_PUT;
}

void planner_reply(struct engine *engine, struct command *command, enum error_code error,
                   const struct timer *timer)
{
    if (command->names_.is_searching) {
        /* It may still be another one that is meant. What is damaged is nobody's rival. */
        if (error == ERROR_NOT_FOUND || (error == ERROR_CORRUPT && is_create(command))) {
            names_next(engine, command);
            return;
        }
        command->names_.is_searching = false;
        if (is_create(command)) {
            command->results[0].error = error;
            timer_free(command->timers[0]);
            command->timers[0] = NULL;
        }
    }
    command->error = error;
    command->timer = timer;
    timer_free(command->patch);
    command->patch = NULL;
    names_release(engine, command);
    if (command->parent_)
        names_part_done(engine, command);
    else
        list_push(&engine->replies, &command->link);
}

static void place(struct engine *engine, struct timer *timer)
{
    timer->at = wall_max(timer->due, engine->now);
    timer->id = (struct timer_id){timer->at, engine->options.partition,
                                  TIMER_SERIAL(engine->epoch, engine->counter++)};
    if (!timer->created.ms)
        timer->created = engine->now;
    timer->version = 1;
    timer->attempts = 0;
    timer->state = TIMER_SCHEDULED;
}

/* Places a timer that is counted in `pending` already, and has it written. */
static enum error_code create_admitted(struct engine *engine, struct timer *timer,
                                       struct command *command)
{
    const struct engine_options *options = &engine->options;
    struct entry *entry;
    enum error_code error;

    if (engine->counter > TIMER_COUNTER_MAX)
        return ERROR_OVERLOADED; /* after 2^40 timers: a restart begins a new epoch */
    place(engine, timer);
    if (scheduler_is_near(engine, timer) &&
        entries_near_bytes(engine->entries) + entry_footprint_of(timer) > options->near_bytes_max)
        return ERROR_OVERLOADED;
    error = tenant_admit(engine, command, timer);
    if (error)
        return error;
    entry = writer_reserve(engine) ? entries_add(engine->entries, timer, ENTRY_WRITING) : NULL;
    if (!entry) {
        tenant_dismiss(engine, timer);
        return ERROR_NO_MEMORY;
    }
    writer_add(engine, (struct write_note){WRITE_CREATE, command, entry});
    if (scheduler_is_near(engine, timer))
        entries_count(engine->entries, entry);
    return ERROR_NONE;
}

static enum error_code create_one(struct engine *engine, struct timer *timer,
                                  struct command *command)
{
    enum error_code error;

    if (!tenant_admit_pending(engine))
        return ERROR_TOO_MANY;
    error = create_admitted(engine, timer, command);
    if (error)
        tenant_dismiss_pending(engine);
    return error;
}

/* What became of the i-th timer of a create, if it is known already. */
static void create_at(struct engine *engine, struct command *command, size_t i)
{
    struct command_created *result = &command->results[i];

    result->existed = result->is_repeated = false;
    result->error = create_one(engine, command->timers[i], command);
    result->id = command->timers[i]->id;
    if (result->error == ERROR_NONE) {
        command->pending_++;
        return;
    }
    command->error = result->error;
    timer_free(command->timers[i]);
    command->timers[i] = NULL;
}

/* A timer with names in a batch is made by a part of it. */
static void create_part(struct engine *engine, struct command *command, size_t i)
{
    struct command *part = names_part(engine, command, COMMAND_CREATE);

    if (!part) {
        command->results[i].error = command->error = ERROR_NO_MEMORY;
        timer_free(command->timers[i]);
        command->timers[i] = NULL;
        return;
    }
    part->timers = &command->timers[i];
    part->results = &command->results[i];
    part->timer_count = 1;
    names_start(engine, part);
}

static void create(struct engine *engine, struct command *command)
{
    if (command->timer_count == 1 && planner_is_named(command->timers[0])) {
        names_start(engine, command);
        return;
    }
    command->error = ERROR_NONE;
    command->pending_ = 1; /* so that what is answered at once is not the last */
    for (size_t i = 0; i < command->timer_count; i++) {
        if (planner_is_named(command->timers[i]))
            create_part(engine, command, i);
        else
            create_at(engine, command, i);
    }
    if (--command->pending_ == 0)
        planner_reply(engine, command, command->error, NULL);
}

void planner_create_named(struct engine *engine, struct command *command)
{
    command->error = ERROR_NONE;
    command->pending_ = 0;
    create_at(engine, command, 0);
    if (command->pending_ == 0)
        planner_reply(engine, command, command->error, NULL);
}

void planner_refuse(struct engine *engine, struct command *command, enum error_code error,
                    const struct timer *timer)
{
    command->names_.is_searching = false;
    timer_free(command->timers[0]);
    command->timers[0] = NULL;
    command->results[0].error = error;
    planner_reply(engine, command, error, timer);
}

/* The copy of a timer that a command changes: the old one stays as it is until the new one is
 * durable, so a failed write takes nothing back. NULL when out of memory. */
static struct timer *successor(const struct timer *timer, const struct timer_texts *texts)
{
    struct timer *copy = timer_copy(timer, texts);

    if (!copy)
        return NULL;
    copy->version++;
    return copy;
}

/* Writes `copy` (may be NULL: out of memory) in place of the entry's timer. */
static bool change(struct engine *engine, struct entry *entry, struct timer *copy,
                   struct command *command, enum write_purpose purpose)
{
    if (!copy || !writer_reserve(engine)) {
        timer_free(copy);
        planner_reply(engine, command, ERROR_NO_MEMORY, NULL);
        return false;
    }
    scheduler_unrest(engine, entry);
    entry->successor = copy;
    writer_add(engine, (struct write_note){purpose, command, entry});
    return true;
}

/* Whether the changed timer must be in memory and takes more of it than there is. */
static bool is_too_much(const struct engine *engine, const struct entry *entry,
                        const struct timer *copy)
{
    size_t held = entry->flags & ENTRY_IS_COUNTED ? entry_footprint(entry) : 0;
    size_t needed = entry_footprint_of(copy);

    return scheduler_is_near(engine, copy) && needed > held &&
           entries_near_bytes(engine->entries) - held + needed > engine->options.near_bytes_max;
}

static void patch(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    const struct command *asked = command->parent_ ? command->parent_ : command;
    uint32_t fields = asked->patch_fields;
    const struct timer *values = asked->patch;
    struct timer_texts texts = timer->texts;
    struct timer *copy;

    if (fields & PATCH_TARGET)
        texts.target = values->texts.target;
    if (fields & PATCH_PAYLOAD) {
        texts.payload = values->texts.payload;
        texts.content_type = values->texts.content_type;
    }
    if (fields & PATCH_HEADERS)
        texts.headers = values->texts.headers;
    if (fields & PATCH_LABELS)
        texts.labels = values->texts.labels;
    if (fields & PATCH_DUE)
        texts.last_error = (struct bytes){0};
    copy = successor(timer, &texts);
    if (copy && fields & PATCH_RETRY)
        copy->retry = values->retry;
    if (copy && fields & PATCH_DUE) { /* a new appointment begins anew */
        copy->due = values->due;
        copy->at = wall_max(copy->due, engine->now);
        copy->attempts = 0;
        copy->state = TIMER_SCHEDULED;
    }
    if (copy && is_too_much(engine, entry, copy)) {
        timer_free(copy);
        planner_reply(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    change(engine, entry, copy, command, WRITE_PATCH);
}

/* Extends the time. The row stays where it is, with a small record that says so, and is moved when
 * its place is reached (scheduler_take_up): once, however often it was touched. One that is overdue
 * or was tried gets a new appointment, like any patch. */
static void touch(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    const struct wall due = command->patch->due;
    struct timer *copy;

    if (due.ms <= timer->due.ms) {
        planner_reply(engine, command, ERROR_NONE, timer);
        return;
    }
    if (timer->state != TIMER_SCHEDULED || timer->attempts || timer->due.ms <= engine->now.ms ||
        due.ms <= timer->at.ms) {
        patch(engine, entry, command);
        return;
    }
    copy = successor(timer, &timer->texts);
    if (copy)
        copy->due = due;
    if (copy && is_too_much(engine, entry, copy)) {
        timer_free(copy);
        planner_reply(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    change(engine, entry, copy, command, WRITE_TOUCH);
}

/* The one that has the key is replaced by the new one, under its id. */
static void put(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    struct timer *asked = command->timers[0], *copy;
    struct timer_texts texts = asked->texts;

    texts.request = timer->texts.request; /* a name, which stays for life */
    copy = successor(timer, &texts);
    if (copy) {
        copy->created =
            asked->created.ms ? asked->created : engine->now; /* `every` counts from it */
        copy->due = asked->due;
        copy->at = wall_max(copy->due, engine->now);
        copy->retry = asked->retry;
        copy->attempts = 0;
        copy->state = TIMER_SCHEDULED;
    }
    if (copy && is_too_much(engine, entry, copy)) {
        timer_free(copy);
        planner_refuse(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    timer_free(asked);
    command->timers[0] = NULL;
    command->results[0] = (struct command_created){.existed = true, .id = timer->id};
    change(engine, entry, copy, command, WRITE_PATCH);
}

static void fire(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    struct timer *copy = successor(timer, &timer->texts);

    if (copy) {
        copy->due = wall_min(copy->due, engine->now);
        copy->at = engine->now;
    }
    if (copy && is_too_much(engine, entry, copy)) {
        timer_free(copy);
        planner_reply(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    change(engine, entry, copy, command, WRITE_PATCH);
}

static void cancel(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    struct timer *copy = successor(timer, &timer->texts);

    if (copy) {
        copy->state = TIMER_CANCELLED;
        copy->ended = engine->now;
    }
    if (change(engine, entry, copy, command, WRITE_CANCEL))
        tenant_dismiss_pending(engine);
}

static void dismiss_redriven(struct engine *engine, const struct timer *timer)
{
    tenant_dismiss(engine, timer);
    tenant_dismiss_pending(engine);
}

/* A dead letter begins anew; its last error stays, until another one takes its place. */
static void redrive(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    enum error_code error = ERROR_TOO_MANY;
    struct timer *copy;

    if (tenant_admit_pending(engine)) {
        error = tenant_admit(engine, command, timer);
        if (error)
            tenant_dismiss_pending(engine);
    }
    if (error) {
        planner_reply(engine, command, error, timer);
        return;
    }
    copy = successor(timer, &timer->texts);
    if (copy) {
        copy->state = TIMER_SCHEDULED;
        copy->attempts = 0;
        copy->ended = (struct wall){0};
        copy->due = outcome_redriven_due(engine, copy);
        copy->at = wall_max(copy->due, engine->now);
    }
    if (copy && is_too_much(engine, entry, copy)) {
        timer_free(copy);
        dismiss_redriven(engine, timer);
        planner_reply(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    if (!change(engine, entry, copy, command, WRITE_REDRIVE))
        dismiss_redriven(engine, timer);
}

/* Whether the final state is still told. */
static bool is_kept(const struct engine *engine, const struct timer *timer)
{
    return wall_since(timer->ended, engine->now) <= engine->options.retain_ms;
}

static void meet_dead(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;

    if (timer->state != TIMER_DEAD || !is_kept(engine, timer))
        planner_reply(engine, command, ERROR_NOT_FOUND, NULL);
    else if (timer->texts.key.size && !command->names_.is_locked)
        names_redrive(engine, timer, command);
    else
        redrive(engine, entry, command);
}

/* A create meets who has its name, which is at rest. */
static void meet_taken(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    const bool is_repetition = command->timers[0]->texts.request.size && command->names_.step == 0;

    if (timer_is_over(timer->state) && !(is_repetition && is_kept(engine, timer)))
        names_next(engine, command);
    else if (command->kind == COMMAND_CREATE || is_repetition)
        names_taken(engine, timer, command);
    else if (entry->phase == ENTRY_INFLIGHT)
        planner_refuse(engine, command, ERROR_ALREADY_FIRING, timer);
    else if (command->if_version && command->if_version != timer->version)
        planner_refuse(engine, command, ERROR_VERSION_MISMATCH, timer);
    else
        put(engine, entry, command);
}

/* A command meets its timer, which is at rest. */
static void meet(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;

    if (!tenant_owns(command, timer)) {
        planner_reply(engine, command, ERROR_NOT_FOUND, NULL);
    } else if (command->kind == COMMAND_REDRIVE) {
        meet_dead(engine, entry, command);
    } else if (command->names_.is_searching && !names_fit(command, timer)) {
        names_next(engine, command);
    } else if (is_create(command)) {
        meet_taken(engine, entry, command);
    } else if (timer_is_over(timer->state)) {
        bool is_known = is_kept(engine, timer);

        if (command->kind == COMMAND_EXPLAIN)
            explain_timer(engine, entry, &command->explained);

        planner_reply(engine, command, is_known ? ERROR_GONE : ERROR_NOT_FOUND,
                      is_known ? timer : NULL);
    } else if (command->kind == COMMAND_GET) {
        planner_reply(engine, command, ERROR_NONE, timer);
    } else if (command->kind == COMMAND_EXPLAIN) {
        explain_timer(engine, entry, &command->explained);
        planner_reply(engine, command, ERROR_NONE, timer);
    } else if (entry->phase == ENTRY_INFLIGHT) {
        planner_reply(engine, command, ERROR_ALREADY_FIRING, timer);
    } else if (command->if_version && command->if_version != timer->version) {
        planner_reply(engine, command, ERROR_VERSION_MISMATCH, timer);
    } else if (command->kind == COMMAND_PATCH) {
        patch(engine, entry, command);
    } else if (command->kind == COMMAND_TOUCH) {
        touch(engine, entry, command);
    } else if (command->kind == COMMAND_FIRE) {
        fire(engine, entry, command);
    } else {
        cancel(engine, entry, command);
    }
}

bool planner_find(struct engine *engine, struct entry *entry)
{
    struct engine_read *read = calloc(1, sizeof(*read));

    if (!read)
        return false;
    entries_set_phase(engine->entries, entry, (enum entry_phase)entry->phase); /* it is busy */
    read->kind = ENGINE_READ_FIND;
    read->id = entry->timer->id;
    read->ticket_ = entry->ticket = ++engine->tickets;
    list_push(&engine->reads, &read->link);
    return true;
}

/* Reads the row of a timer that is not in memory; a placeholder keeps its place in the map. */
static bool find(struct engine *engine, struct command *command)
{
    struct timer *timer = timer_alloc(&(struct timer_texts){0});
    struct entry *placeholder;

    if (!timer)
        return false;
    timer->id = command->id;
    placeholder = entries_add(engine->entries, timer, ENTRY_LOADING);
    if (!placeholder) {
        timer_free(timer);
        return false;
    }
    if (!planner_find(engine, placeholder)) {
        entries_set_phase(engine->entries, placeholder, ENTRY_ABSENT);
        return false;
    }
    list_push(&placeholder->waiters, &command->link);
    return true;
}

void planner_on_timer(struct engine *engine, struct command *command)
{
    struct entry *entry = entries_find(engine->entries, command->id.serial);

    if (entry && entry->phase == ENTRY_LOADING) {
        list_push(&entry->waiters, &command->link); /* perhaps with another id */
    } else if (entry && !timer_id_equal(&entry->timer->id, &command->id)) {
        planner_reply(engine, command, ERROR_NOT_FOUND, NULL); /* the same serial, another time */
    } else if (entry && entry->phase == ENTRY_WRITING) {
        list_push(&entry->waiters, &command->link);
    } else if (entry) {
        meet(engine, entry, command);
    } else if (command->id.partition != engine->options.partition ||
               command->id.serial >= TIMER_SERIAL(engine->epoch, engine->counter)) {
        planner_reply(engine, command, ERROR_NOT_FOUND, NULL); /* no such id was ever given */
    } else if (!find(engine, command)) {
        planner_reply(engine, command, ERROR_NO_MEMORY, NULL);
    }
}

void planner_scan(struct engine *engine, struct command *command)
{
    struct engine_read *read = calloc(1, sizeof(*read));

    if (!read) {
        planner_reply(engine, command, ERROR_NO_MEMORY, NULL);
        return;
    }
    read->kind = ENGINE_READ_SCAN;
    read->scan = command->scan;
    read->scan.partition = engine->options.partition;
    read->command_ = command;
    list_push(&engine->reads, &read->link);
}

void planner_start(struct engine *engine, struct command *command)
{
    if (command->names_.is_searching || command->names_.is_locked) {
        /* It waited for a timer that may have its name, or for a dead letter. */
        planner_on_timer(engine, command);
        return;
    }
    switch (command->kind) {
    case COMMAND_CREATE:
        create(engine, command);
        break;
    case COMMAND_PUT:
    case COMMAND_COMPLETE:
        names_start(engine, command);
        break;
    case COMMAND_LIST:
        planner_scan(engine, command);
        break;
    case COMMAND_FORECAST:
        forecast_start(engine, command);
        break;
    case COMMAND_GET:
    case COMMAND_EXPLAIN:
    case COMMAND_PATCH:
    case COMMAND_TOUCH:
    case COMMAND_CANCEL:
    case COMMAND_FIRE:
    case COMMAND_REDRIVE:
        if (command->name.size)
            names_start(engine, command);
        else
            planner_on_timer(engine, command);
        break;
    }
}

void planner_resume(struct engine *engine, struct entry *entry)
{
    struct list waiters;

    if (list_is_empty(&entry->waiters))
        return;
    list_init(&waiters);
    list_join(&waiters, &entry->waiters);
    LIST_FOR_EACH (&waiters, link) {
        list_remove(link);
        planner_start(engine, list_item(link, struct command, link));
    }
}

void planner_fail_waiters(struct engine *engine, struct entry *entry, enum error_code error)
{
    struct list *link;

    while ((link = list_pop(&entry->waiters)))
        planner_reply(engine, list_item(link, struct command, link), error, NULL);
}

/* Commands with the id that was looked for are answered; others with the same serial waited by
 * chance, and look for their own. */
void planner_not_found(struct engine *engine, struct entry *placeholder, enum error_code error)
{
    struct list waiters;

    list_init(&waiters);
    list_join(&waiters, &placeholder->waiters);
    entries_set_phase(engine->entries, placeholder, ENTRY_ABSENT);
    LIST_FOR_EACH (&waiters, link) {
        struct command *command = list_item(link, struct command, link);

        list_remove(link);
        if (timer_id_equal(&command->id, &placeholder->timer->id))
            planner_reply(engine, command, error, NULL);
        else
            planner_start(engine, command);
    }
}

void planner_found(struct engine *engine, struct engine_read *read)
{
    struct entry *entry = entries_find(engine->entries, read->id.serial);
    struct timer *timer = read->timer;

    /* A read ahead may have brought the timer meanwhile; then this one is stale. */
    if (entry && entry->flags & ENTRY_IN_DOUBT)
        writer_found(engine, entry, read);
    if (!entry || entry->phase != ENTRY_LOADING || entry->flags & ENTRY_IN_DOUBT ||
        entry->ticket != read->ticket_)
        return;
    if (read->result == ERROR_NONE && !timer_id_equal(&timer->id, &read->id))
        read->result = ERROR_NOT_FOUND;
    if (read->result != ERROR_NONE) {
        planner_not_found(engine, entry, read->result);
        return;
    }
    read->timer = NULL;
    engine_take_in(engine, timer);
    engine_settle(engine, entry);
}

/* The storage knows neither who asks nor which timers are out for delivery. */
void planner_listed(struct engine *engine, struct engine_read *read)
{
    struct storage_page *page = &read->page;
    size_t count = 0;

    for (size_t i = 0; i < page->count; i++) {
        struct timer *shown = page->timers[i];
        const struct entry *entry = entries_find(engine->entries, shown->id.serial);

        if (!tenant_owns(read->command_, shown)) {
            timer_free(shown);
            continue;
        }
        /* Nor does this page know what became of a row after it was read. */
        if (entry && entry->phase == ENTRY_INFLIGHT && entry->timer->version == shown->version)
            shown->state = TIMER_DELIVERING;
        page->timers[count++] = shown;
    }
    page->count = count;
    read->command_->page = read->page;
    planner_reply(engine, read->command_, read->result, NULL);
}
