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

/* True if the timer belongs to the asking tenant; a timer of another tenant does not exist for
 * it. */
bool tenant_owns(const struct command *command, const struct timer *timer);

/* Counts a timer that is about to be created for the tenant. Returns NONE, TOO_MANY or
 * NO_MEMORY. */
enum error_code tenant_admit(struct engine *engine, const struct command *command,
                             const struct timer *timer);

/* Counts a timer that the engine creates itself for a tenant that has others. The tenant's limit
 * applies to a firing (timer/firing.h), and none to a report or a part. Returns false if out of
 * memory or at that limit; then nothing changed. */
bool tenant_admit_own(struct engine *engine, const struct timer *timer);

/* True if the tenant's own limit, as it was known last, admits no more live timers. */
bool tenant_is_full(const struct engine *engine, struct bytes tenant);

/* Stops counting a timer whose end is durable, or that was not created after all. */
void tenant_dismiss(struct engine *engine, const struct timer *timer);

/* Counts one more live timer of the tenant in the total of all. Returns false if the limit is
 * reached or, with is_divided, if the tenant has used its share (base/share.h). */
bool tenant_admit_pending(struct engine *engine, struct bytes tenant);

/* Stops counting a timer that was admitted but is not live. */
void tenant_dismiss_pending(struct engine *engine);

/* Counts a timer again that stays live, because its cancel could not be written. No limit
 * applies. */
void tenant_restore_pending(struct engine *engine);

#endif
