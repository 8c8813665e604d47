/*
 * queue_target.h - the names of the built-in queues, which are targets "queue:NAME" or
 * "queue:NAME?priority=0..9" (target.h).
 *
 * Each tenant has queues of its own: the full name of one is "TENANT/NAME", and NAME alone for the
 * unnamed tenant.
 *
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_QUEUE_TARGET_H
#define TICKWHEEL_TIMER_QUEUE_TARGET_H

#include "timer/tenant.h"

#define QUEUE_NAME_SIZE_MAX      64
#define QUEUE_FULL_NAME_SIZE_MAX (TENANT_SIZE_MAX + 1 + QUEUE_NAME_SIZE_MAX)
#define QUEUE_PRIORITY_COUNT     10 /* priorities 0 .. 9; 9 is leased first */
#define QUEUE_PRIORITY_DEFAULT   5

/* True if the name has 1 to QUEUE_NAME_SIZE_MAX characters of A-Z a-z 0-9 . _ - */
bool queue_name_is_valid(struct bytes name);

/* Returns the full name, written to `room` unless it is equal to `name`. */
struct bytes queue_full_name(struct bytes tenant, struct bytes name,
                             char room[QUEUE_FULL_NAME_SIZE_MAX]);

/* Returns the tenant of a full name; empty for the unnamed tenant. */
struct bytes queue_tenant(struct bytes full);

/* Returns the name by which the tenant calls the queue with this full name; empty if the queue
 * belongs to another tenant. */
struct bytes queue_own_name(struct bytes tenant, struct bytes full);

#endif
