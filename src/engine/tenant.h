/*
 * tenant.h - whose timers a command may see, and how many timers may live: of one tenant, and of
 * all together.
 *
 * A timer is counted from the moment it is let in until its end is durable, so that no crash finds
 * more of them on disk than its tenant may have.
 */
#ifndef TICKWHEEL_ENGINE_TENANT_H
#define TICKWHEEL_ENGINE_TENANT_H

#include "engine/engine.h"

/* Whether the timer is the asking tenant's; a timer of another tenant is not there. */
bool tenant_owns(const struct command *command, const struct timer *timer);

/* A timer of the tenant is about to live: NONE, TOO_MANY or NO_MEMORY. Counts it. */
enum error_code tenant_admit(struct engine *engine, const struct command *command,
                             const struct timer *timer);

/* A timer of the engine's own is about to live, of a tenant that has others: counts it, here and in
 * `pending`. Not limited. False: no memory, and nothing changed. */
bool tenant_admit_own(struct engine *engine, const struct timer *timer);

/* It does not live any more, durably, or did not come to. */
void tenant_dismiss(struct engine *engine, const struct timer *timer);

/* A timer of the tenant is about to live: counts it in `pending`. False: there are as many as may
 * be, or with is_divided the tenant has its share of them (base/share.h). */
bool tenant_admit_pending(struct engine *engine, struct bytes tenant);

/* It was admitted and will not live, or lives no more. */
void tenant_dismiss_pending(struct engine *engine);

/* It was dismissed, and lives after all: its cancel was not written. Not limited. */
void tenant_restore_pending(struct engine *engine);

#endif
