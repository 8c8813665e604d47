/*
 * Commands about the parts of timers with several targets (fanout.h).
 *
 * The engine makes commands of its own, which wait for a timer like those of clients:
 *
 *   note   the end of a part, for its timer: made when that end is durable
 *   look   asks a part how it stands, when an engine before this one may have lost a note
 *   change cancels or redrives a part, because a client asked that of the timer
 *
 * A note that is lost for want of memory is found by a look later.
 */
#include "engine/commands.h"

#include "engine/engine_core.h"
#include "engine/fanout.h"
#include "timer/schedule.h"

#include <assert.h>
#include <stdlib.h>

enum fanout_command_kind { FANOUT_NOTES, FANOUT_LOOKS, FANOUT_CHANGES };

/* A command of the engine's own. The texts that it borrows follow it in one allocation. */
struct fanout_command {
    struct command command; /* first, because it is freed as a part */
    enum fanout_command_kind kind;
    struct timer_id parent;
    struct fanout_note note; /* NOTES */
    struct command *client;  /* CHANGES: command of the client, which waits for this one */
};

static struct fanout_command *fanout_command_of(struct command *command)
{
    assert(command->fanout_.is_own);
    return list_item(command, struct fanout_command, command);
}

static struct bytes fanout_command_keep(char **at, struct bytes text)
{
    const struct bytes kept = {*at, text.size};

    if (text.size)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return text.size ? kept : (struct bytes){0};
}

/* Makes a command about the timer `id`. Returns NULL if out of memory. */
static struct fanout_command *fanout_command_make(struct engine *engine,
                                                  enum fanout_command_kind kind,
                                                  enum command_kind does, const struct timer_id *id,
                                                  struct bytes tenant, struct bytes error)
{
    struct fanout_command *made = calloc(1, sizeof(*made) + tenant.size + error.size);
    char *at = (char *)(made + 1);

    if (!made) {
        engine->notes_lost++;
        return NULL;
    }
    list_init(&made->command.link);
    list_init(&made->command.part_link_);
    made->kind = kind;
    made->command.kind = does;
    made->command.partition = engine->options.partition;
    made->command.id = *id;
    made->command.fanout_.is_own = true;
    made->command.tenant = fanout_command_keep(&at, tenant);
    made->note.error = fanout_command_keep(&at, error);
    list_push(&engine->commands->parts, &made->command.part_link_);
    return made;
}

/* ---- notes and looks ---- */

/* Sends a note to the timer that the part belongs to. */
static void fanout_command_note(struct engine *engine, const struct timer_id *parent,
                                struct bytes tenant, const struct fanout_note *note)
{
    /* the timer of a redriven part may live again, for which it needs its key */
    const enum command_kind does = note->state == FANOUT_OPEN ? COMMAND_REDRIVE : COMMAND_GET;
    struct fanout_command *made =
        fanout_command_make(engine, FANOUT_NOTES, does, parent, tenant, note->error);

    if (!made)
        return;
    made->parent = *parent;
    made->note.part = note->part;
    made->note.state = note->state;
    made->note.attempts = note->attempts;
    commands_continue(engine, &made->command, LOOKUP_CANDIDATE);
}

/* Asks each part of a waiting timer how it stands. */
static void fanout_command_look(struct engine *engine, const struct timer *timer)
{
    struct fanout fanout;

    if (!fanout_read(timer, &fanout))
        return;
    for (size_t i = 0; i < fanout.count; i++) {
        const struct fanout_part *part = &fanout.parts[i];

        if (part->state != FANOUT_OPEN)
            continue;
        struct fanout_command *made = fanout_command_make(
            engine, FANOUT_LOOKS, COMMAND_GET, &part->id, timer->texts.tenant, (struct bytes){0});
        if (!made)
            return;
        made->parent = timer->id;
        commands_continue(engine, &made->command, LOOKUP_CANDIDATE);
    }
}

/* Handles what a look found. If the part does not exist any more, its end was not noted and is
 * unknown: it shows as a failure, so that somebody looks at it. */
static void fanout_command_looked(struct engine *engine, const struct fanout_command *look)
{
    const struct command *command = &look->command;
    struct fanout_note note = {.part = command->id,
                               .state = FANOUT_DEAD,
                               .error = BYTES("its outcome is unknown: its record is gone")};

    if (command->timer)
        note = fanout_note_of(command->timer);
    else if (command->error != ERROR_NOT_FOUND)
        engine->notes_lost++;
    if (note.state != FANOUT_OPEN && (command->timer || command->error == ERROR_NOT_FOUND))
        fanout_command_note(engine, &look->parent, command->tenant, &note);
}

void fanout_commands_written(struct engine *engine, struct entry *entry, enum write_purpose purpose)
{
    const struct timer *timer = entry->timer;
    struct timer_id parent;

    if (fanout_is_parent(timer)) {
        if (fanout_wants_look(engine, entry) && fanout_is_open(timer))
            fanout_command_look(engine, timer);
        return;
    }
    if ((!timer_is_final(timer->state) && purpose != WRITE_REDRIVE) ||
        entry->flags & ENTRY_IS_FORGOTTEN || !fanout_is_part(timer, &parent))
        return;
    const struct fanout_note note = fanout_note_of(timer);
    fanout_command_note(engine, &parent, timer->texts.tenant, &note);
}

/* Makes a dead timer live again, because one of its parts was redriven. It stays dead if another
 * timer has taken its key. */
static void fanout_command_revive(struct engine *engine, struct entry *entry,
                                  struct fanout_command *noted)
{
    const struct timer *timer = entry->timer;
    struct command *command = &noted->command;

    if (timer->texts.key.size && !command->names_.is_locked) {
        commands_continue(engine, command, lookup_begin_redrive(engine, timer, command));
        return;
    }
    struct timer *copy = entry->phase == ENTRY_EVICTABLE && change_is_kept(engine, timer)
                             ? fanout_revived(engine, timer, &noted->note)
                             : NULL;
    if (copy)
        change_revive(engine, entry, copy, command);
    else
        commands_reply(engine, command, ERROR_GONE, NULL);
}

/* Applies a note to its timer. */
static void fanout_command_apply(struct engine *engine, struct entry *entry,
                                 struct fanout_command *noted)
{
    const struct timer *timer = entry->timer;

    /* The part may have ended again while the timer's key was looked up. The note of that came
     * before this one, perhaps to a dead timer. */
    if (noted->note.state == FANOUT_OPEN)
        entry->flags |= ENTRY_WANTS_LOOK;
    if (timer->state == TIMER_DEAD && noted->note.state == FANOUT_OPEN) {
        fanout_command_revive(engine, entry, noted);
        return;
    }
    if (!timer_is_final(timer->state) &&
        (entry->phase == ENTRY_SCHEDULED || entry->phase == ENTRY_EVICTABLE))
        fanout_take(engine, entry, &noted->note);
    commands_reply(engine, &noted->command, ERROR_NONE, NULL);
}

/* ---- a client's command for all parts ---- */

/* Asks all parts in this state. Returns false if there are none. */
static bool fanout_command_change(struct engine *engine, const struct timer *timer,
                                  enum fanout_state state, struct command *client)
{
    struct fanout fanout;

    client->pending_ = 0;
    client->fanout_.changed = 0;
    client->fanout_.error = ERROR_NONE;
    if (!fanout_read(timer, &fanout) || !fanout_count(&fanout, state))
        return false;
    for (size_t i = 0; i < fanout.count; i++) {
        const struct fanout_part *part = &fanout.parts[i];

        if (part->state != state || !part->has_id)
            continue;
        struct fanout_command *made =
            fanout_command_make(engine, FANOUT_CHANGES, client->kind, &part->id,
                                timer->texts.tenant, (struct bytes){0});
        if (!made) {
            client->fanout_.error = ERROR_NO_MEMORY;
            continue;
        }
        made->client = client;
        made->command.not_before = client->not_before;
        made->command.tenant_pending_max = client->tenant_pending_max;
        made->command.patch_fields = client->patch_fields;
        if (client->patch)
            made->command.patch = timer_copy(client->patch, &client->patch->texts);
        client->pending_++;
        commands_continue(engine, &made->command, LOOKUP_CANDIDATE);
    }
    client->fanout_.is_begun = client->pending_ > 0;
    if (!client->fanout_.is_begun)
        commands_reply(engine, client, ERROR_NO_MEMORY, NULL);
    return true;
}

static void fanout_command_changed(struct engine *engine, const struct fanout_command *change)
{
    struct command *client = change->client;

    assert(client->pending_ > 0);
    if (change->command.error == ERROR_NONE)
        client->fanout_.changed++;
    else if (!client->fanout_.error || client->fanout_.error == ERROR_NOT_FOUND)
        client->fanout_.error = change->command.error; /* that one was deleted says the least */
    if (--client->pending_ == 0)
        commands_continue(engine, client, LOOKUP_CANDIDATE);
}

/* Answers a client's command after all parts have answered. Returns false if the timer itself is to
 * be cancelled now, because it recurs. */
static bool fanout_command_answer(struct engine *engine, const struct timer *timer,
                                  struct command *client)
{
    if (client->kind == COMMAND_REDRIVE) {
        const bool is_done = client->fanout_.changed > 0;
        const enum error_code error = is_done ? ERROR_NONE : client->fanout_.error;

        commands_reply(engine, client, error, error == ERROR_NOT_FOUND ? NULL : timer);
        return true;
    }
    if (fanout_is_open(timer) && !timer_is_final(timer->state)) {
        commands_reply(engine, client, ERROR_ALREADY_FIRING, timer);
        return true;
    }
    if (timer->state != TIMER_CANCELLED)
        return false;
    commands_reply(engine, client, ERROR_NONE, timer);
    return true;
}

/* Begins a client's command that concerns the parts. Returns false if it does not. */
static bool fanout_command_begin(struct engine *engine, const struct entry *entry,
                                 struct command *client)
{
    const struct timer *timer = entry->timer;

    if (client->kind == COMMAND_REDRIVE && timer->state == TIMER_DEAD &&
        change_is_kept(engine, timer) &&
        (!client->if_version || client->if_version == timer->version))
        return fanout_command_change(engine, timer, FANOUT_DEAD, client);
    if (timer_is_final(timer->state) || command_is_read(client->kind) ||
        client->kind == COMMAND_RESUME || client->kind == COMMAND_RELEASE ||
        command_is_create(client) || client->kind == COMMAND_REDRIVE ||
        client->kind == COMMAND_FORGET)
        return false;
    if (client->if_version && client->if_version != timer->version)
        return false;
    if (client->kind == COMMAND_CANCEL) {
        client->if_version = 0; /* what the parts do from here on changes the version */
        return fanout_command_change(engine, timer, FANOUT_OPEN, client);
    }
    if (!fanout_is_waiting(timer))
        return false;
    commands_reply(engine, client, ERROR_ALREADY_FIRING, timer);
    return true;
}

/* True if the command would make a part repeat, or give it several targets. Its timer would wait
 * for it forever. */
static bool fanout_command_spoils(const struct timer *timer, const struct command *command)
{
    struct timer_id parent;

    return command->kind == COMMAND_PATCH && !timer_is_final(timer->state) &&
           fanout_is_part(timer, &parent) &&
           ((command->patch_fields & PATCH_SCHEDULE &&
             schedule_recurs(command->patch->texts.schedule)) ||
            (command->patch_fields & PATCH_TARGET && command->patch->texts.targets.size > 0));
}

bool fanout_commands_visit(struct engine *engine, struct entry *entry, struct command *command)
{
    if (command->fanout_.is_own && fanout_command_of(command)->kind == FANOUT_NOTES) {
        fanout_command_apply(engine, entry, fanout_command_of(command));
        return true;
    }
    if (fanout_command_spoils(entry->timer, command)) {
        commands_reply(engine, command, ERROR_INVALID, NULL);
        return true;
    }
    if (!fanout_is_parent(entry->timer))
        return false;
    if (command->names_.is_searching && !lookup_fits(command, entry->timer))
        return false;
    if (!command->fanout_.is_begun)
        return fanout_command_begin(engine, entry, command);
    if (fanout_command_answer(engine, entry->timer, command))
        return true;
    command->fanout_.is_begun = false; /* by key it may go on to another timer */
    return false;
}

void fanout_commands_read(struct engine *engine, const struct timer *timer)
{
    if (fanout_may_lack_note(engine, timer))
        fanout_command_look(engine, timer);
}

/* True if a note with this answer has not reached its timer. */
static bool fanout_command_is_lost(enum error_code error)
{
    return error && error != ERROR_NOT_FOUND && error != ERROR_GONE && error != ERROR_KEY_IN_USE;
}

/* True if the note of a part's end can go on waiting for its timer after a failed write. The
 * note of a redriven part cannot: that write may be its own, and would be repeated without a
 * pause. */
static bool fanout_command_can_wait(const struct engine *engine, const struct fanout_command *note)
{
    const struct entry *entry = entries_find(engine->entries, note->parent.serial);

    return note->note.state != FANOUT_OPEN && entry && entry->phase == ENTRY_WRITING;
}

void fanout_commands_done(struct engine *engine, struct command *command)
{
    struct fanout_command *done = fanout_command_of(command);
    const bool is_lost = done->kind == FANOUT_NOTES && fanout_command_is_lost(command->error);

    if (is_lost && fanout_command_can_wait(engine, done)) {
        commands_continue(engine, command, LOOKUP_CANDIDATE);
        return;
    }
    if (is_lost)
        engine->notes_lost++;
    else if (done->kind == FANOUT_LOOKS)
        fanout_command_looked(engine, done);
    else if (done->kind == FANOUT_CHANGES)
        fanout_command_changed(engine, done);
    list_remove(&command->part_link_);
    free(done);
}
