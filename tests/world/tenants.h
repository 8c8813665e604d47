/*
 * tenants.h - two or three tenants with limits of their own, which use equal names and now and then
 * try ids of one another. Tenant 0 is the unnamed one, which has no limit.
 */
#ifndef TICKWHEEL_WORLD_TENANTS_H
#define TICKWHEEL_WORLD_TENANTS_H

#include "base/bytes.h"
#include "model.h"

struct world;
struct op;
struct sim_partition;

struct bytes tenants_text(uint8_t tenant);

/* Draws the tenant of the next call. */
uint8_t tenants_draw(struct world *world);

/* Puts a tenant's name into the command: usually that of `tenant`, and by mistake another one's. */
void tenants_sign(struct world *world, struct op *op, uint8_t tenant);

/* Returns the highest number of timers that the engines may count for the tenant: those that live,
 * or may live soon. */
uint64_t tenants_count_max(const struct world *world, uint8_t tenant);

/* The process starts: reads the counts of the tenants from the storage. */
void tenants_start(struct world *world);

/* Checks the limit of the tenant when a timer of it becomes durable. */
void tenants_judge_new(struct world *world, const struct twin *twin);

/* Checks the answer to a call on the timer of another tenant. */
void tenants_judge_foreign(struct world *world, const struct sim_partition *partition,
                           struct op *op);

/* Checks that the counts are those of the model. Nothing is in flight. */
void tenants_check(struct world *world);

#endif
