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

/* Counts a timer of the tenant that will live. Returns NONE, TOO_MANY or NO_MEMORY. */
enum error_code tenant_admit(struct engine *engine, const struct command *command,
                             const struct timer *timer);

/* Counts a timer of the engine's own, here and in `pending`, of a tenant that has others. Not
 * limited. Returns false if out of memory; nothing changed. */
bool tenant_admit_own(struct engine *engine, const struct timer *timer);

/* Stops counting a timer that durably ended, or was never made. */
void tenant_dismiss(struct engine *engine, const struct timer *timer);

/* Counts a timer of the tenant in `pending`. Returns false at the limit, or with is_divided if
 * the tenant has its share (base/share.h). */
bool tenant_admit_pending(struct engine *engine, struct bytes tenant);

/* Stops counting a timer that was admitted and does not live. */
void tenant_dismiss_pending(struct engine *engine);

/* Counts a dismissed timer again that lives after all, because its cancel was not written. Not
 * limited. */
void tenant_restore_pending(struct engine *engine);

#endif
