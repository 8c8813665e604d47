/* Timers that are made, and names that they take. */
#include "engine/commands.h"

#include "engine/engine_core.h"
#include "engine/position.h"
#include "engine/tenant.h"
#include "engine/watermark.h"
#include "engine/window.h"
#include "timer/fanout.h"
#include "timer/timer.h"
#include "timer/schedule.h"

#include <assert.h>
#include <stdlib.h>

/* Adds a new timer to the next batch. Returns false if out of memory. */
static bool create_write(struct engine *engine, struct timer *timer, struct command *command)
{
    struct entry *entry =
        commit_reserve(engine) ? entries_add(engine->entries, timer, ENTRY_WRITING) : NULL;

    if (!entry)
        return false;
    if (timer->texts.key.size)
        entry->flags |= ENTRY_WAS_NAMED;
    watermark_write(engine, (struct write_note){WRITE_CREATE, command, entry});
    if (!name_is_claim(timer) && window_is_near(engine, timer))
        entries_count(engine->entries, entry);
    return true;
}

/* Makes the final row that claims an Idempotency-Key. The claim ends when its timer is first due,
 * which may be in the future, and is kept as long after that as any final row. The watermark passes
 * rows up to a window early, and the trim follows the watermark. */
static enum error_code create_claim(struct engine *engine, struct timer *timer,
                                    struct command *command)
{
    assert(timer->texts.request.size && !timer->texts.key.size);
    if (!position_first(engine, timer))
        return ERROR_OVERLOADED;
    timer->ended = timer->at;
    timer->at = wall_max(wall_add(timer->at, engine->options.window_ms), watermark_at(engine));
    timer->id.first = timer->at;
    timer->state = TIMER_CANCELLED;
    return create_write(engine, timer, command) ? ERROR_NONE : ERROR_NO_MEMORY;
}

/* Gives a timer that `pending` includes its position, and writes it. */
static enum error_code create_admitted(struct engine *engine, struct timer *timer,
                                       struct command *command)
{
    assert(command_is_create(command));
    if (!position_first(engine, timer))
        return ERROR_OVERLOADED;
    if (window_is_near(engine, timer) &&
        !entries_have_room(engine->entries, timer->texts.tenant, engine->options.near_bytes_max, 0,
                           entry_footprint_of(timer)))
        return ERROR_OVERLOADED;
    enum error_code error = tenant_admit(engine, command, timer);
    if (error)
        return error;
    if (create_write(engine, timer, command))
        return ERROR_NONE;
    tenant_dismiss(engine, timer);
    return ERROR_NO_MEMORY;
}

static enum error_code create_one(struct engine *engine, struct timer *timer,
                                  struct command *command)
{
    if (window_is_unreadable(engine))
        return ERROR_UNREADABLE;
    if (name_is_claim(timer))
        return create_claim(engine, timer, command);
    if (!tenant_admit_pending(engine, timer->texts.tenant))
        return ERROR_TOO_MANY;
    enum error_code error = create_admitted(engine, timer, command);
    if (error)
        tenant_dismiss_pending(engine);
    return error;
}

/* Begins to create the i-th timer. Sets its result if that is known at once. */
static void create_at(struct engine *engine, struct command *command, size_t i)
{
    struct command_created *result = &command->results[i];

    assert(command_is_create(command) && !command->names_.is_searching);
    assert(i < command->timer_count);
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

/* Makes a part for a timer with a key or Idempotency-Key in a batch. */
static void create_part(struct engine *engine, struct command *command, size_t i)
{
    struct command *part = complete_part(engine, command, COMMAND_CREATE);

    assert(i < command->timer_count);
    assert(command->timer_count > 1);
    if (!part) {
        command->results[i].error = command->error = ERROR_NO_MEMORY;
        timer_free(command->timers[i]);
        command->timers[i] = NULL;
        return;
    }
    part->timers = &command->timers[i];
    part->results = &command->results[i];
    part->timer_count = 1;
    commands_continue(engine, part, lookup_begin(engine, part));
}

void create_start(struct engine *engine, struct command *command)
{
    assert(command->kind == COMMAND_CREATE && command->timer_count > 0);
    if (command->timer_count == 1 && lookup_is_named(command->timers[0])) {
        commands_continue(engine, command, lookup_begin(engine, command));
        return;
    }
    command->error = ERROR_NONE;
    command->pending_ = 1; /* keeps the command open if a timer is answered at once */
    for (size_t i = 0; i < command->timer_count; i++) {
        if (lookup_is_named(command->timers[i]))
            create_part(engine, command, i);
        else
            create_at(engine, command, i);
    }
    if (--command->pending_ == 0)
        commands_reply(engine, command, command->error, NULL);
}

void create_named(struct engine *engine, struct command *command)
{
    assert(command_is_create(command));
    assert(!command->names_.is_searching);
    assert(command->timer_count == 1);
    command->error = ERROR_NONE;
    command->pending_ = 0;
    create_at(engine, command, 0);
    if (command->pending_ == 0)
        commands_reply(engine, command, command->error, NULL);
}

/* ---- names that are taken ---- */

/* True if a create asks for the timer that exists already. If both give their times as delays, the
 * delays are compared. */
static bool create_asks_equal(const struct timer *there, const struct timer *asked)
{
    return timer_texts_have(&there->texts, UINT32_MAX, &asked->texts) &&
           retry_policy_equal(&there->retry, &asked->retry) &&
           (there->due.ms == asked->due.ms ||
            there->due.ms - there->created.ms == asked->due.ms - asked->created.ms ||
            schedule_recurs(there->texts.schedule));
}

static void create_existed(struct engine *engine, struct command *command,
                           const struct timer *timer, enum error_code error)
{
    assert(command->timer_count == 1);
    assert(!error || error == ERROR_KEY_IN_USE || error == ERROR_REQUEST_DIFFERS);
    command->results[0].existed = !error;
    command->results[0].id = timer->id;
    commands_refuse(engine, command, error, timer);
}

/* True if the timer is being delivered, also by its parts. */
static bool create_is_firing(const struct entry *entry)
{
    return entry->phase == ENTRY_INFLIGHT || timer_awaits(entry->timer) ||
           fanout_is_waiting(entry->timer);
}

static void create_answer_taken(struct engine *engine, const struct entry *entry,
                                struct command *command)
{
    const struct timer *timer = entry->timer, *asked = command->timers[0];
    const bool is_inflight = create_is_firing(entry);

    assert(command->timer_count == 1);
    assert(command->names_.is_searching);
    command->results[0].is_repeated = false;
    if (asked->texts.request.size && command->names_.step == 0) {
        /* A repeated request gets the result of the first one, as long as that is known. */
        bool is_same = bytes_equal(timer->texts.request, asked->texts.request);

        command->results[0].is_repeated = is_same;
        create_existed(engine, command, timer, is_same ? ERROR_NONE : ERROR_REQUEST_DIFFERS);
    } else {
        bool is_same = create_asks_equal(timer, asked);

        /* The receiver of this delivery may have read the client's data as they were before. So the
         * create is refused, like a put. */
        if (is_same && is_inflight)
            commands_refuse(engine, command, ERROR_ALREADY_FIRING, timer);
        else
            create_existed(engine, command, timer, is_same ? ERROR_NONE : ERROR_KEY_IN_USE);
    }
}

/* Handles a create whose key or Idempotency-Key a timer has, which no read or write is pending
 * for. */
void create_taken(struct engine *engine, struct entry *entry, struct command *command)
{
    const struct timer *timer = entry->timer;
    const bool is_repetition = command->timers[0]->texts.request.size && command->names_.step == 0;

    assert(command->names_.is_searching);
    assert(command_is_create(command));
    assert(entry->phase != ENTRY_LOADING && entry->phase != ENTRY_WRITING);
    if (timer_is_final(timer->state) && !(is_repetition && change_is_named(engine, timer)))
        commands_continue(engine, command, lookup_next(engine, command));
    else if ((command->kind == COMMAND_CREATE && !command->timers[0]->texts.debounce.size) ||
             is_repetition)
        create_answer_taken(engine, entry, command);
    else if (create_is_firing(entry))
        commands_refuse(engine, command, ERROR_ALREADY_FIRING, timer);
    else if (command->if_version && command->if_version != timer->version)
        commands_refuse(engine, command, ERROR_VERSION_MISMATCH, timer);
    else
        change_put(engine, entry, command);
}
