/*
 * Commands that name their timers: by key, by Idempotency-Key, by the event that they watch.
 *
 * A name is looked up in the storage, which says which timers may have it; each is then met like
 * one that was named by its id, and asked whether it is meant. Only a create must also keep others
 * from taking the same name before its timer is durable: it locks the name from the look-up to the
 * answer, and others wait in the order in which they came. The lock is of the key, or of the
 * Idempotency-Key where there is no key; a hash stands for it, so two names seldom share one, and
 * then only wait for each other.
 *
 * A dead letter that is redriven has its key again: it takes the same lock, and is refused when
 * another timer has had the key since.
 *
 * Where one command is about many timers, each that needs a step of its own becomes a part: a
 * command which the engine makes, and answers to itself. Many timers are found by what they watch,
 * or by going through all that live and looking at their labels. Of many events each is a part too,
 * which has parts of its own.
 */
#include "engine/engine_private.h"

#include "timer/labels.h"

#include <stdlib.h>

enum {
    CANDIDATES_MAX = 8,      /* timers looked at for a name that only one can have */
    COMPLETED_AT_ONCE = 256, /* watchers in a page, each a part; at most scan_rows_max */
    EVENTS_AT_ONCE = 512,    /* of a command's events, each a part */
    SWEPT_AT_ONCE = 1024,    /* rows of a page that are looked at for their labels; the same */
    SWEPT_BYTES = 1 << 20,   /* and their memory */
};

/* A name that a command looks for. */
struct wanted {
    enum name_kind kind;
    struct bytes text;
    uint64_t hash;
};

static bool is_create(const struct command *command)
{
    return command->kind == COMMAND_CREATE || command->kind == COMMAND_PUT;
}

/* The name of this step; false when there is none left. A create asks first whether it is a
 * repetition, and then whether its key is free. */
static bool wanted_at(const struct engine *engine, const struct command *command, unsigned step,
                      struct wanted *ret_wanted)
{
    struct name_space space = {engine->options.partition, command->tenant};
    const struct timer_texts *texts;
    struct bytes request;

    if (!is_create(command)) {
        *ret_wanted =
            (struct wanted){NAME_KEY, command->name, name_hash(space, NAME_KEY, command->name)};
        return step == 0;
    }
    space.tenant = command->timers[0]->texts.tenant;
    texts = &command->timers[0]->texts;
    request = name_of_request(texts->request);
    if (texts->request.size && step-- == 0) {
        *ret_wanted =
            (struct wanted){NAME_REQUEST, request, name_hash_request(space, texts->key, request)};
        return true;
    }
    *ret_wanted = (struct wanted){NAME_KEY, texts->key, name_hash(space, NAME_KEY, texts->key)};
    return texts->key.size && step == 0;
}

static bool read_names(struct engine *engine, struct command *command, uint64_t hash,
                       uint64_t serial_below, size_t count_max)
{
    struct engine_read *read = calloc(1, sizeof(*read));

    if (!read)
        return false;
    read->kind = ENGINE_READ_LOOKUP;
    read->lookup =
        (struct storage_lookup){engine->options.partition, hash, serial_below, count_max};
    read->command_ = command;
    list_push(&engine->reads, &read->link);
    return true;
}

static void forget_candidates(struct command *command)
{
    free(command->names_.ids);
    command->names_.ids = NULL;
    command->names_.count = command->names_.next = 0;
}

/* ---- one timer by its name ---- */

static void fail(struct engine *engine, struct command *command, enum error_code error)
{
    if (is_create(command))
        planner_refuse(engine, command, error, NULL);
    else
        planner_reply(engine, command, error, NULL);
}

/* No timer has any of the names. */
static void nobody(struct engine *engine, struct command *command)
{
    command->names_.is_searching = false;
    if (command->kind == COMMAND_PUT && command->must_exist)
        planner_refuse(engine, command, ERROR_VERSION_MISMATCH, NULL);
    else if (is_create(command))
        planner_create_named(engine, command);
    else
        planner_reply(engine, command, ERROR_NOT_FOUND, NULL);
}

static void look_up(struct engine *engine, struct command *command)
{
    struct wanted wanted;

    forget_candidates(command);
    if (command->kind == COMMAND_REDRIVE) { /* the newest with the key must be its own timer */
        if (!read_names(engine, command, command->names_.lock, UINT64_MAX, 1))
            fail(engine, command, ERROR_NO_MEMORY);
        return;
    }
    command->names_.is_searching = true;
    if (!wanted_at(engine, command, command->names_.step, &wanted))
        nobody(engine, command);
    else if (!read_names(engine, command, wanted.hash, UINT64_MAX, CANDIDATES_MAX))
        fail(engine, command, ERROR_NO_MEMORY);
}

void names_next(struct engine *engine, struct command *command)
{
    struct command_names *names = &command->names_;

    if (names->next < names->count) {
        command->id = names->ids[names->next++];
        planner_on_timer(engine, command);
    } else if (command->parent_ && !is_create(command)) {
        nobody(engine, command); /* a part that had its timer named */
    } else {
        names->step++;
        look_up(engine, command);
    }
}

bool names_fit(const struct command *command, const struct timer *timer)
{
    const struct command *parent = command->parent_;
    const struct timer_texts *texts;
    struct bytes request;

    if (parent && parent->kind == COMMAND_COMPLETE)
        return parent->name.size ? name_fits(timer, NAME_WATCH, parent->name)
                                 : labels_have_all(timer->texts.labels, parent->labels);
    if (!is_create(command))
        return name_fits(timer, NAME_KEY, command->name);
    texts = &command->timers[0]->texts;
    request = name_of_request(texts->request);
    if (texts->request.size && command->names_.step == 0)
        return name_fits(timer, NAME_REQUEST, request) && name_fits(timer, NAME_KEY, texts->key);
    return name_fits(timer, NAME_KEY, texts->key);
}

static bool retry_equal(const struct retry_policy *a, const struct retry_policy *b)
{
    return a->attempts_max == b->attempts_max && a->base_ms == b->base_ms &&
           a->cap_ms == b->cap_ms && a->timeout_ms == b->timeout_ms;
}

/* What recurs is due when its schedule says, sooner or later. */
static bool recurs(const struct timer *timer)
{
    struct schedule_spec spec;

    return timer->texts.schedule.size && !schedule_read(timer->texts.schedule, &spec, NULL) &&
           (spec.every_ms || spec.cron.size);
}

/* Whether a create asks for the timer that is there. A time that was given as a delay is the same
 * when the delay is. */
static bool asks_the_same(const struct timer *there, const struct timer *asked)
{
    const struct timer_texts *a = &there->texts, *b = &asked->texts;

    return bytes_equal(a->target, b->target) && bytes_equal(a->payload, b->payload) &&
           bytes_equal(a->content_type, b->content_type) && bytes_equal(a->headers, b->headers) &&
           bytes_equal(a->labels, b->labels) && bytes_equal(a->watch, b->watch) &&
           bytes_equal(a->schedule, b->schedule) && retry_equal(&there->retry, &asked->retry) &&
           (there->due.ms == asked->due.ms ||
            there->due.ms - there->created.ms == asked->due.ms - asked->created.ms ||
            recurs(there));
}

static void existed(struct engine *engine, struct command *command, const struct timer *timer,
                    enum error_code error)
{
    command->results[0].existed = !error;
    command->results[0].id = timer->id;
    planner_refuse(engine, command, error, timer);
}

void names_taken(struct engine *engine, const struct timer *timer, struct command *command)
{
    const struct timer *asked = command->timers[0];

    command->results[0].is_repeated = false;
    if (asked->texts.request.size && command->names_.step == 0) {
        /* A repetition gets what the first one got, as long as that is known. */
        bool is_same = bytes_equal(timer->texts.request, asked->texts.request);

        command->results[0].is_repeated = is_same;
        existed(engine, command, timer, is_same ? ERROR_NONE : ERROR_REQUEST_DIFFERS);
    } else {
        bool is_same = asks_the_same(timer, asked);

        existed(engine, command, timer, is_same ? ERROR_NONE : ERROR_KEY_IN_USE);
    }
}

/* ---- locks ---- */

static void lock(struct engine *engine, struct command *command, uint64_t hash)
{
    struct name_lock *held = map_get(&engine->name_locks, hash);

    command->names_.lock = hash;
    command->names_.is_locked = true;
    if (held) {
        list_push(&held->waiters, &command->link);
        return;
    }
    held = malloc(sizeof(*held));
    if (held) {
        held->hash = hash;
        list_init(&held->waiters);
    }
    if (!held || !map_put(&engine->name_locks, hash, held)) {
        free(held);
        command->names_.is_locked = false;
        fail(engine, command, ERROR_NO_MEMORY);
        return;
    }
    look_up(engine, command);
}

void names_redrive(struct engine *engine, const struct timer *timer, struct command *command)
{
    lock(engine, command, name_hash(name_space_of(timer), NAME_KEY, timer->texts.key));
}

/* Whoever took the key after the dead letter lost it is newer. */
static void redrive_looked_up(struct engine *engine, struct command *command,
                              const struct engine_read *read)
{
    const struct storage_names *found = &read->names;

    if (read->result)
        planner_reply(engine, command, read->result, NULL);
    else if (found->count && !timer_id_equal(&found->ids[0], &command->id))
        planner_reply(engine, command, ERROR_KEY_IN_USE, NULL);
    else
        planner_on_timer(engine, command);
}

static void end_sweep(struct engine *engine, struct command *command);

void names_release(struct engine *engine, struct command *command)
{
    struct name_lock *held;
    struct list *next;

    forget_candidates(command);
    if (command->kind == COMMAND_COMPLETE && !command->name.size && !command->event_count)
        end_sweep(engine, command);
    if (!command->names_.is_locked)
        return;
    command->names_.is_locked = false;
    held = map_get(&engine->name_locks, command->names_.lock);
    next = list_pop(&held->waiters);
    if (next) {
        look_up(engine, list_item(next, struct command, link));
        return;
    }
    map_remove(&engine->name_locks, held->hash);
    free(held);
}

/* ---- many ---- */

struct command *names_part(struct engine *engine, struct command *command, enum command_kind kind)
{
    struct command *part = calloc(1, sizeof(*part));

    if (!part)
        return NULL;
    list_init(&part->link);
    list_init(&part->part_link_);
    part->kind = kind;
    part->parent_ = command;
    part->tenant = command->tenant;
    list_push(&engine->parts, &part->part_link_);
    command->pending_++;
    return part;
}

static size_t completed_at_once(const struct engine *engine)
{
    const uint32_t rows_max = engine->options.scan_rows_max;

    return rows_max < COMPLETED_AT_ONCE ? rows_max : COMPLETED_AT_ONCE;
}

static void next_watchers(struct engine *engine, struct command *command, uint64_t serial_below)
{
    const struct name_space space = {engine->options.partition, command->tenant};
    const uint64_t hash = name_hash(space, NAME_WATCH, command->name);

    if (!read_names(engine, command, hash, serial_below, completed_at_once(engine)))
        planner_reply(engine, command, ERROR_NO_MEMORY, NULL);
}

/* One at a time: two that each move timers to now would find what the other moved, without end. */
static void begin_sweep(struct engine *engine)
{
    struct command *command = list_item(engine->sweeps.next, struct command, link);
    const uint32_t rows_max = engine->options.scan_rows_max;

    command->scan = (struct storage_scan){
        .partition = engine->options.partition,
        .kind = STORAGE_SCAN_LIVE,
        .from = {engine->watermark, 0},
        .to = {WALL_NEVER, 0},
        .rows_max = rows_max < SWEPT_AT_ONCE ? rows_max : SWEPT_AT_ONCE,
        .bytes_max = SWEPT_BYTES,
    };
    planner_scan(engine, command);
}

static void end_sweep(struct engine *engine, struct command *command)
{
    list_remove(&command->link);
    if (!list_is_empty(&engine->sweeps))
        begin_sweep(engine);
}

/* Goes on where the last page ended, or answers. */
static void complete_more(struct engine *engine, struct command *command)
{
    const struct command_names *names = &command->names_;

    if (command->error)
        planner_reply(engine, command, command->error, NULL);
    else if (!command->name.size && storage_position_before(command->scan.from, command->scan.to))
        planner_scan(engine, command);
    else if (command->name.size && names->count == completed_at_once(engine))
        next_watchers(engine, command, names->ids[names->count - 1].serial);
    else
        planner_reply(engine, command, ERROR_NONE, NULL);
}

/* A part for each timer of the page; the guard keeps the first from being the last. */
static void complete_page(struct engine *engine, struct command *command)
{
    struct command_names *names = &command->names_;

    command->pending_ = 1;
    for (size_t i = 0; i < names->count; i++) {
        struct command *part = names_part(engine, command, command->each);

        if (!part) {
            command->error = ERROR_NO_MEMORY;
            break;
        }
        part->id = names->ids[i];
        part->names_.is_searching = true;
        planner_on_timer(engine, part);
    }
    if (--command->pending_ == 0)
        complete_more(engine, command);
}

static void count_completed(struct command *command, enum error_code error)
{
    switch (error) {
    case ERROR_NONE:
        command->completed.changed++;
        break;
    case ERROR_ALREADY_FIRING:
        command->completed.firing++;
        break;
    case ERROR_NOT_FOUND:
    case ERROR_GONE:
        break; /* it ended by itself meanwhile */
    case ERROR_CORRUPT:
        break; /* the storage has set it aside; it must not stand before the others for ever */
    default:
        command->error = error;
    }
}

static void begin_event(struct engine *engine, struct command *command, struct command_event *event)
{
    struct command *part = names_part(engine, command, COMMAND_COMPLETE);

    if (!part) {
        event->error = ERROR_NO_MEMORY;
        return;
    }
    part->name = event->name;
    part->each = command->each;
    part->events = event; /* where its answer goes */
    names_start(engine, part);
}

/* Begins as many events as may be under way, or answers when all are done. An event that ends at
 * once comes back to here: then whoever is at it goes on. */
static void next_events(struct engine *engine, struct command *command)
{
    if (command->pending_ >= EVENTS_AT_ONCE)
        return;
    command->pending_ += EVENTS_AT_ONCE;
    while (command->pending_ < 2 * EVENTS_AT_ONCE && command->event_next_ < command->event_count)
        begin_event(engine, command, &command->events[command->event_next_++]);
    command->pending_ -= EVENTS_AT_ONCE;
    if (command->pending_ == 0)
        planner_reply(engine, command, ERROR_NONE, NULL);
}

static void take_answer(struct command *command, const struct command *part)
{
    if (command->event_count) {
        part->events->completed = part->completed;
        part->events->error = part->error;
    } else if (command->kind == COMMAND_COMPLETE) {
        count_completed(command, part->error);
    } else if (part->error) {
        command->error = part->error;
    }
}

void names_part_done(struct engine *engine, struct command *part)
{
    struct command *command = part->parent_;

    take_answer(command, part);
    list_remove(&part->part_link_);
    free(part);
    command->pending_--;
    if (command->event_count) {
        next_events(engine, command);
        return;
    }
    if (command->pending_ > 0)
        return;
    if (command->kind == COMMAND_COMPLETE)
        complete_more(engine, command);
    else
        planner_reply(engine, command, command->error, NULL);
}

/* ---- where it begins, and goes on ---- */

void names_start(struct engine *engine, struct command *command)
{
    struct wanted wanted;

    command->names_ = (struct command_names){0};
    if (command->kind == COMMAND_COMPLETE) {
        command->error = ERROR_NONE;
        command->completed = (struct command_completed){0};
        if (command->event_count) {
            command->pending_ = command->event_next_ = 0;
            next_events(engine, command);
            return;
        }
        if (command->name.size) {
            next_watchers(engine, command, UINT64_MAX);
            return;
        }
        list_push(&engine->sweeps, &command->link);
        if (engine->sweeps.next == &command->link)
            begin_sweep(engine);
    } else if (is_create(command)) {
        /* The key is the last name, if there is one, and the Idempotency-Key else. */
        for (unsigned step = 0; wanted_at(engine, command, step, &wanted); step++)
            command->names_.lock = wanted.hash;
        lock(engine, command, command->names_.lock);
    } else {
        look_up(engine, command);
    }
}

void names_looked_up(struct engine *engine, struct engine_read *read)
{
    struct command *command = read->command_;
    struct command_names *names = &command->names_;

    forget_candidates(command);
    if (command->kind == COMMAND_REDRIVE) {
        redrive_looked_up(engine, command, read);
        return;
    }
    if (read->result && command->kind == COMMAND_COMPLETE) {
        planner_reply(engine, command, read->result, NULL);
        return;
    }
    if (read->result) {
        fail(engine, command, read->result);
        return;
    }
    names->ids = read->names.ids;
    names->count = read->names.count;
    read->names = (struct storage_names){0};
    if (command->kind == COMMAND_COMPLETE)
        complete_page(engine, command);
    else
        names_next(engine, command);
}

/* Whether a patch with a due time has nothing to change. */
static bool is_patched(const struct timer *timer, const struct timer *values, uint32_t fields)
{
    const struct timer_texts *a = &timer->texts, *b = &values->texts;

    return timer->due.ms == values->due.ms && timer->attempts == 0 &&
           (!(fields & PATCH_TARGET) || bytes_equal(a->target, b->target)) &&
           (!(fields & PATCH_PAYLOAD) || (bytes_equal(a->payload, b->payload) &&
                                          bytes_equal(a->content_type, b->content_type))) &&
           (!(fields & PATCH_HEADERS) || bytes_equal(a->headers, b->headers)) &&
           (!(fields & PATCH_LABELS) || bytes_equal(a->labels, b->labels)) &&
           (!(fields & PATCH_RETRY) || retry_equal(&timer->retry, &values->retry));
}

/* What this very command moved ahead comes up again there. If that moved it once more, and there
 * were enough of them, it would never end. */
static bool is_meant(const struct engine *engine, const struct command *command,
                     const struct timer *timer)
{
    if (!tenant_owns(command, timer))
        return false;
    if (command->each == COMMAND_FIRE && wall_max(timer->at, timer->due).ms <= engine->now.ms)
        return false; /* due already */
    if (command->each == COMMAND_PATCH && command->patch_fields & PATCH_DUE &&
        is_patched(timer, command->patch, command->patch_fields))
        return false;
    return labels_have_all(timer->texts.labels, command->labels);
}

void names_swept(struct engine *engine, struct engine_read *read)
{
    struct command *command = read->command_;
    struct command_names *names = &command->names_;
    const struct storage_page *page = &read->page;

    forget_candidates(command);
    names->ids = malloc((page->count + 1) * sizeof(*names->ids));
    if (read->result || !names->ids) {
        planner_reply(engine, command, read->result ? read->result : ERROR_NO_MEMORY, NULL);
        return;
    }
    for (size_t i = 0; i < page->count; i++)
        if (is_meant(engine, command, page->timers[i]))
            names->ids[names->count++] = page->timers[i]->id;
    command->scan.from = page->next;
    complete_page(engine, command);
}

void names_deinit(struct engine *engine)
{
    struct name_lock *held;
    struct list *link;
    size_t cursor = 0;

    while ((held = map_next(&engine->name_locks, &cursor)))
        free(held);
    map_deinit(&engine->name_locks);
    while ((link = list_pop(&engine->parts))) {
        struct command *part = list_item(link, struct command, part_link_);

        forget_candidates(part);
        free(part);
    }
}
