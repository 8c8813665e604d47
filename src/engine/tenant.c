/*
 * Whose timers a command may see, and how many one tenant may have.
 *
 * A timer is counted from the moment it is let in until its end is durable, so that no crash finds
 * more of them on disk than its tenant may have.
 */
#include "engine/tenant.h"

#include "base/share.h"

#include "engine/engine_core.h"

#include <assert.h>

static struct bytes tenant_asking(const struct command *command)
{
    assert((command->kind != COMMAND_CREATE && command->kind != COMMAND_PUT) ||
           command->timer_count > 0);
    if (command->kind == COMMAND_CREATE || command->kind == COMMAND_PUT)
        return command->timers[0]->texts.tenant;
    return command->tenant;
}

bool tenant_owns(const struct command *command, const struct timer *timer)
{
    return bytes_equal(timer->texts.tenant, tenant_asking(command));
}

/* Counts the timer in the counts of this engine. If out of memory, removes it from those of all
 * engines again. */
static enum error_code tenant_count_own(struct engine *engine, const struct timer *timer)
{
    struct tenant_counts *own = engine->options.tenant_counts_own;

    if (!own || tenant_counts_add(own, timer->texts.tenant, 1))
        return ERROR_NONE;
    tenant_counts_dismiss(engine->options.tenant_counts, timer->texts.tenant, 1);
    return ERROR_NO_MEMORY;
}

enum error_code tenant_admit(struct engine *engine, const struct command *command,
                             const struct timer *timer)
{
    const struct command *asked = command->parent_ ? command->parent_ : command;
    struct tenant_counts *tenant_counts = engine->options.tenant_counts;

    assert(timer->id.partition == engine->options.partition);
    if (!tenant_counts)
        return ERROR_NONE;
    const enum error_code code =
        tenant_counts_admit(tenant_counts, timer->texts.tenant, asked->tenant_pending_max);
    return code ? code : tenant_count_own(engine, timer);
}

/* Counts a timer that no client asked for, in the counts of all engines. */
static bool tenant_admit_made(struct tenant_counts *tenant_counts, const struct timer *timer)
{
    if (timer->texts.firing_of.size > 0)
        return !tenant_counts_admit_known(tenant_counts, timer->texts.tenant);
    return tenant_counts_add(tenant_counts, timer->texts.tenant, 1);
}

bool tenant_admit_own(struct engine *engine, const struct timer *timer)
{
    struct tenant_counts *tenant_counts = engine->options.tenant_counts;

    assert(timer->id.partition == engine->options.partition);
    if (tenant_counts &&
        (!tenant_admit_made(tenant_counts, timer) || tenant_count_own(engine, timer)))
        return false;
    tenant_restore_pending(engine);
    return true;
}

bool tenant_is_full(const struct engine *engine, struct bytes tenant)
{
    return engine->options.tenant_counts &&
           tenant_counts_is_full(engine->options.tenant_counts, tenant);
}

/* The counts lack a timer whose record was damaged when the storage counted, so it may not be in
 * them. */
void tenant_dismiss(struct engine *engine, const struct timer *timer)
{
    assert(timer->id.partition == engine->options.partition);
    if (engine->options.tenant_counts)
        tenant_counts_dismiss(engine->options.tenant_counts, timer->texts.tenant, 1);
    if (engine->options.tenant_counts_own)
        tenant_counts_dismiss(engine->options.tenant_counts_own, timer->texts.tenant, 1);
}

/* ---- the limit of all tenants together ---- */

/* True if the tenant may have one more of `all` live timers. If that held even if all of them were
 * its own, its own number is not looked up. */
static bool tenant_may_have_more(const struct engine_options *options, struct bytes tenant,
                                 uint64_t all)
{
    const uint64_t max = options->pending_max;

    if (!max)
        return true;
    if (!options->is_divided || !options->tenant_counts || all >= max)
        return all < max;
    return share_allows(max, all, all, 1) ||
           share_allows(max, all, tenant_counts_live(options->tenant_counts, tenant, all), 1);
}

bool tenant_admit_pending(struct engine *engine, struct bytes tenant)
{
    const struct engine_options *options = &engine->options;
    const uint64_t before =
        options->pending_all ? atomic_fetch_add(options->pending_all, 1) : engine->stats.pending;
    const uint64_t others = options->pending_others ? atomic_load(options->pending_others) : 0;

    if (!tenant_may_have_more(options, tenant, before + others)) {
        if (options->pending_all)
            atomic_fetch_sub(options->pending_all, 1);
        return false;
    }
    engine->stats.pending++;
    return true;
}

void tenant_dismiss_pending(struct engine *engine)
{
    engine->stats.pending--;
    if (engine->options.pending_all)
        atomic_fetch_sub(engine->options.pending_all, 1);
}

void tenant_restore_pending(struct engine *engine)
{
    engine->stats.pending++;
    if (engine->options.pending_all)
        atomic_fetch_add(engine->options.pending_all, 1);
    assert(engine->stats.pending > 0);
}
