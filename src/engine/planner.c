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

void planner_reply(struct engine *engine, struct command *command, enum error_code error,
                   const struct timer *timer)
{
    command->error = error;
    command->timer = timer;
    if (command->kind == COMMAND_PATCH) {
        timer_free(command->patch);
        command->patch = NULL;
    }
    list_push(&engine->replies, &command->link);
}

static void place(struct engine *engine, struct timer *timer)
{
    timer->at = wall_max(timer->due, engine->now);
    timer->id = (struct timer_id){timer->at, engine->options.partition,
                                  TIMER_SERIAL(engine->epoch, engine->counter++)};
    timer->created = engine->now;
    timer->version = 1;
    timer->attempts = 0;
    timer->state = TIMER_SCHEDULED;
    timer->private_ = (struct timer_private){0};
    list_init(&timer->private_.link);
    list_init(&timer->private_.waiters);
}

static enum error_code create_one(struct engine *engine, struct timer *timer,
                                  struct command *command)
{
    const struct engine_options *options = &engine->options;
    struct write_note note = {.purpose = WRITE_CREATE, .command = command};

    if (options->pending_max && engine->stats.pending >= options->pending_max)
        return ERROR_TOO_MANY;
    if (engine->counter > TIMER_COUNTER_MAX)
        return ERROR_OVERLOADED; /* after 2^40 timers: a restart begins a new epoch */
    place(engine, timer);
    if (scheduler_is_near(engine, timer) &&
        engine->stats.near_bytes + timer->footprint > options->near_bytes_max)
        return ERROR_OVERLOADED;
    if (!map_put(&engine->timers, timer->id.serial, timer))
        return ERROR_NO_MEMORY;
    if (!writer_add(engine, timer, note)) {
        map_remove(&engine->timers, timer->id.serial);
        return ERROR_NO_MEMORY;
    }
    if (scheduler_is_near(engine, timer))
        engine_count(engine, timer);
    engine->stats.pending++;
    return ERROR_NONE;
}

static void create(struct engine *engine, struct command *command)
{
    command->pending_ = 0;
    command->error = ERROR_NONE;
    for (size_t i = 0; i < command->timer_count; i++) {
        struct timer *timer = command->timers[i];
        struct command_created *result = &command->results[i];

        result->error = create_one(engine, timer, command);
        result->id = timer->id;
        if (result->error == ERROR_NONE) {
            command->pending_++;
            continue;
        }
        command->error = result->error;
        timer_free(timer);
        command->timers[i] = NULL;
    }
    if (command->pending_ == 0)
        planner_reply(engine, command, command->error, NULL);
}

/* The copy of a timer that a command changes: the old one stays as it is until the new one is
 * durable, so a failed write takes nothing back. NULL when out of memory. */
static struct timer *successor(const struct timer *timer, const struct timer_texts *texts)
{
    struct timer *copy = timer_copy(timer, texts);

    if (!copy)
        return NULL;
    list_init(&copy->private_.link);
    list_init(&copy->private_.waiters);
    copy->private_.was_at = timer->private_.was_at;
    copy->version++;
    return copy;
}

/* Writes `copy` (may be NULL: out of memory) in place of `timer`. */
static bool change(struct engine *engine, struct timer *timer, struct timer *copy,
                   struct command *command, enum write_purpose purpose)
{
    if (!copy || !writer_add(engine, copy, (struct write_note){purpose, command, timer})) {
        timer_free(copy);
        planner_reply(engine, command, ERROR_NO_MEMORY, NULL);
        return false;
    }
    scheduler_unrest(engine, timer);
    timer->private_.phase = PHASE_WRITING; /* it waits for the end of its successor's write */
    list_push(&engine->busy, &timer->private_.link);
    return true;
}

/* Whether the changed timer must be in memory and takes more of it than there is. */
static bool is_too_much(const struct engine *engine, const struct timer *timer,
                        const struct timer *copy)
{
    size_t held = timer->private_.flags & FLAG_COUNTED ? timer->footprint : 0;

    return scheduler_is_near(engine, copy) && copy->footprint > held &&
           engine->stats.near_bytes - held + copy->footprint > engine->options.near_bytes_max;
}

static void patch(struct engine *engine, struct timer *timer, struct command *command)
{
    uint32_t fields = command->patch_fields;
    const struct timer *values = command->patch;
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
    if (copy && is_too_much(engine, timer, copy)) {
        timer_free(copy);
        planner_reply(engine, command, ERROR_OVERLOADED, timer);
        return;
    }
    change(engine, timer, copy, command, WRITE_PATCH);
}

static void cancel(struct engine *engine, struct timer *timer, struct command *command)
{
    struct timer *copy = successor(timer, &timer->texts);

    if (copy) {
        copy->state = TIMER_CANCELLED;
        copy->ended = engine->now;
    }
    if (change(engine, timer, copy, command, WRITE_CANCEL))
        engine->stats.pending--;
}

/* A command meets its timer, which is at rest. */
static void meet(struct engine *engine, struct timer *timer, struct command *command)
{
    if (timer_is_over(timer->state)) {
        bool is_kept = wall_since(timer->ended, engine->now) <= engine->options.retain_ms;

        planner_reply(engine, command, is_kept ? ERROR_GONE : ERROR_NOT_FOUND,
                      is_kept ? timer : NULL);
    } else if (command->kind == COMMAND_GET) {
        planner_reply(engine, command, ERROR_NONE, timer);
    } else if (timer->private_.phase == PHASE_OUT) {
        planner_reply(engine, command, ERROR_ALREADY_FIRING, timer);
    } else if (command->if_version && command->if_version != timer->version) {
        planner_reply(engine, command, ERROR_VERSION_MISMATCH, timer);
    } else if (command->kind == COMMAND_PATCH) {
        patch(engine, timer, command);
    } else {
        cancel(engine, timer, command);
    }
}

/* Reads the row of a timer that is not in memory; a stand-in keeps its place in the map. */
static bool find(struct engine *engine, struct command *command)
{
    struct engine_read *read = calloc(1, sizeof(*read));
    struct timer *stand_in = timer_alloc(&(struct timer_texts){0});

    if (!read || !stand_in || !map_put(&engine->timers, command->id.serial, stand_in)) {
        free(read);
        timer_free(stand_in);
        return false;
    }
    stand_in->id = command->id;
    stand_in->private_.phase = PHASE_FINDING;
    list_init(&stand_in->private_.link);
    list_init(&stand_in->private_.waiters);
    list_push(&engine->busy, &stand_in->private_.link);
    list_push(&stand_in->private_.waiters, &command->link);
    read->kind = ENGINE_READ_FIND;
    read->id = command->id;
    read->ticket_ = stand_in->private_.ticket = ++engine->tickets;
    list_push(&engine->reads, &read->link);
    return true;
}

static void on_timer(struct engine *engine, struct command *command)
{
    struct timer *timer = map_get(&engine->timers, command->id.serial);

    if (timer && timer->private_.phase == PHASE_FINDING) {
        list_push(&timer->private_.waiters, &command->link); /* perhaps with another id */
    } else if (timer && !timer_id_equal(&timer->id, &command->id)) {
        planner_reply(engine, command, ERROR_NOT_FOUND, NULL); /* the same serial, another time */
    } else if (timer && timer->private_.phase == PHASE_WRITING) {
        list_push(&timer->private_.waiters, &command->link);
    } else if (timer) {
        meet(engine, timer, command);
    } else if (command->id.partition != engine->options.partition ||
               command->id.serial >= TIMER_SERIAL(engine->epoch, engine->counter)) {
        planner_reply(engine, command, ERROR_NOT_FOUND, NULL); /* no such id was ever given */
    } else if (!find(engine, command)) {
        planner_reply(engine, command, ERROR_NO_MEMORY, NULL);
    }
}

static void list(struct engine *engine, struct command *command)
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
    switch (command->kind) {
    case COMMAND_CREATE:
        create(engine, command);
        break;
    case COMMAND_LIST:
        list(engine, command);
        break;
    case COMMAND_GET:
    case COMMAND_PATCH:
    case COMMAND_CANCEL:
        on_timer(engine, command);
        break;
    }
}

void planner_resume(struct engine *engine, struct timer *timer)
{
    struct list waiters;

    if (list_is_empty(&timer->private_.waiters))
        return;
    list_init(&waiters);
    list_join(&waiters, &timer->private_.waiters);
    LIST_FOR_EACH (&waiters, link) {
        list_remove(link);
        planner_start(engine, list_item(link, struct command, link));
    }
}

void planner_fail_waiters(struct engine *engine, struct timer *timer, enum error_code error)
{
    struct list *link;

    while ((link = list_pop(&timer->private_.waiters)))
        planner_reply(engine, list_item(link, struct command, link), error, NULL);
}

void planner_stands_in(struct engine *engine, struct timer *stand_in, struct timer *timer)
{
    list_join(&timer->private_.waiters, &stand_in->private_.waiters);
    list_remove(&stand_in->private_.link);
    stand_in->private_.phase = PHASE_NONE;
    list_push(&engine->gone, &stand_in->private_.link);
}

/* The read found nothing, or failed. Commands with the id that was looked for are answered; others
 * with the same serial waited by chance, and look for their own. */
static void not_found(struct engine *engine, struct timer *stand_in, enum error_code error)
{
    struct list waiters;

    list_init(&waiters);
    list_join(&waiters, &stand_in->private_.waiters);
    engine_forget(engine, stand_in);
    LIST_FOR_EACH (&waiters, link) {
        struct command *command = list_item(link, struct command, link);

        list_remove(link);
        if (timer_id_equal(&command->id, &stand_in->id))
            planner_reply(engine, command, error, NULL);
        else
            planner_start(engine, command);
    }
}

void planner_found(struct engine *engine, struct engine_read *read)
{
    struct timer *stand_in = map_get(&engine->timers, read->id.serial);
    struct timer *timer = read->timer;

    /* A read ahead may have brought the timer meanwhile; then this one is stale. */
    if (!stand_in || stand_in->private_.phase != PHASE_FINDING ||
        stand_in->private_.ticket != read->ticket_)
        return;
    if (read->result == ERROR_NONE && !timer_id_equal(&timer->id, &read->id))
        read->result = ERROR_NOT_FOUND;
    if (read->result == ERROR_NONE && !map_put(&engine->timers, timer->id.serial, timer))
        read->result = ERROR_NO_MEMORY;
    if (read->result != ERROR_NONE) {
        not_found(engine, stand_in, read->result);
        return;
    }
    read->timer = NULL;
    timer->private_ = (struct timer_private){.was_at = timer->private_.was_at};
    list_init(&timer->private_.link);
    list_init(&timer->private_.waiters);
    planner_stands_in(engine, stand_in, timer);
    engine_settle(engine, timer);
}

void planner_listed(struct engine *engine, struct engine_read *read)
{
    /* The storage does not know which timers are out for delivery. */
    for (size_t i = 0; i < read->page.count; i++) {
        struct timer *shown = read->page.timers[i];
        const struct timer *timer = map_get(&engine->timers, shown->id.serial);

        if (timer && timer->private_.phase == PHASE_OUT)
            shown->state = TIMER_DELIVERING;
    }
    read->command_->page = read->page;
    planner_reply(engine, read->command_, read->result, NULL);
}
