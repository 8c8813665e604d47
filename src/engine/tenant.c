/*
 * Whose timers a command may see, and how many one tenant may have.
 *
 * A timer is counted from the moment it is let in until its end is durable, so that no crash finds
 * more of them on disk than its tenant may have.
 */
#include "engine/engine_private.h"

static struct bytes tenant_of(const struct command *command)
{
    if (command->kind == COMMAND_CREATE || command->kind == COMMAND_PUT)
        return command->timers[0]->texts.tenant;
    return command->tenant;
}

bool tenant_owns(const struct command *command, const struct timer *timer)
{
    return bytes_equal(timer->texts.tenant, tenant_of(command));
}

enum error_code tenant_admit(struct engine *engine, const struct command *command,
                             const struct timer *timer)
{
    const struct command *asked = command->parent_ ? command->parent_ : command;
    struct tenant_counts *tenant_counts = engine->options.tenant_counts;
    const struct bytes tenant = timer->texts.tenant;

    if (!tenant_counts)
        return ERROR_NONE;
    if (asked->tenant_pending_max &&
        tenant_counts_count(tenant_counts, tenant) >= asked->tenant_pending_max)
        return ERROR_TOO_MANY;
    return tenant_counts_add(tenant_counts, tenant, 1) ? ERROR_NONE : ERROR_NO_MEMORY;
}

/* One whose record was damaged when the storage counted may have gone uncounted. */
void tenant_dismiss(struct engine *engine, const struct timer *timer)
{
    struct tenant_counts *tenant_counts = engine->options.tenant_counts;

    if (tenant_counts && tenant_counts_count(tenant_counts, timer->texts.tenant) > 0)
        tenant_counts_add(tenant_counts, timer->texts.tenant, -1);
}
