/* How a command is answered, and what goes on because of that. */
#include "engine/commands.h"

#include "engine/effects.h"
#include "engine/engine_core.h"
#include "engine/ledger.h"

#include <assert.h>
#include <stdlib.h>

void commands_continue(struct engine *engine, struct command *command, enum lookup_step step)
{
    if (step == LOOKUP_WAITS)
        return;
    command->reached_ = step;
    list_push(&engine->commands->ready, &command->link);
}

/* Ends the command. The next command that waits for its lock gets it. */
static void commands_release(struct engine *engine, struct command *command)
{
    struct command *next;
    const enum lookup_step step = lookup_release(engine, command, &next);

    if (next)
        commands_continue(engine, next, step);
    assert(!command->names_.is_locked && !command->names_.ids);
}

void commands_reply(struct engine *engine, struct command *command, enum error_code error,
                    const struct timer *timer)
{
    assert(!timer || error != ERROR_NOT_FOUND);
    if (command->names_.is_searching) {
        /* Another timer may have the name. For a create, a damaged row has none. */
        if (error == ERROR_NOT_FOUND || (error == ERROR_CORRUPT && command_is_create(command))) {
            commands_continue(engine, command, lookup_next(engine, command));
            return;
        }
        command->names_.is_searching = false;
        if (command_is_create(command)) {
            command->results[0].error = error;
            timer_free(command->timers[0]);
            command->timers[0] = NULL;
        }
    }
    ledger_note_answer(engine->ledger, command, error);
    command->fanout_.is_begun = false;
    command->error = error;
    command->timer = timer;
    timer_free(command->patch);
    command->patch = NULL;
    commands_release(engine, command);
    if (command->parent_ || command->fanout_.is_own)
        list_push(&engine->commands->answered, &command->link);
    else
        effects_reply(engine, command);
}

void commands_refuse(struct engine *engine, struct command *command, enum error_code error,
                     const struct timer *timer)
{
    assert(error != ERROR_NOT_FOUND || !timer);
    assert(command_is_create(command) && command->timer_count == 1);
    command->names_.is_searching = false;
    timer_free(command->timers[0]);
    command->timers[0] = NULL;
    command->results[0].error = error;
    commands_reply(engine, command, error, timer);
}

bool commands_scan(struct engine *engine, struct command *command)
{
    struct engine_read *read = calloc(1, sizeof(*read));

    assert(command->scan.rows_max > 0);
    if (!read)
        return false;
    read->kind = ENGINE_READ_SCAN;
    read->scan = command->scan;
    read->scan.partition = engine->options.partition;
    read->scan.tenant = command->tenant;
    if (!read->scan.looks_max)
        read->scan.looks_max = SCAN_LOOKS;
    if (command->kind == COMMAND_COMPLETE) {
        read->scan.labels = command->labels;
        read->goes_on = true;
    }
    read->command_ = command;
    effects_read(engine, read);
    return true;
}
