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

/* The tenant of the next call. */
uint8_t tenants_draw(struct world *world);

/* The command is asked in the name of its tenant, or by mistake in another one's. */
void tenants_sign(struct world *world, struct op *op, uint8_t tenant);

/* The most timers that its engines may count for the tenant: those that live, or may do so soon. */
uint64_t tenants_count_max(const struct world *world, uint8_t tenant);

/* The process starts: what each has is read from the storage. */
void tenants_start(struct world *world);

/* A timer of the tenant begins to live, durably. */
void tenants_judge_new(struct world *world, const struct twin *twin);

/* A call on the timer of another tenant was answered. */
void tenants_judge_foreign(struct world *world, const struct sim_partition *partition,
                           struct op *op);

/* Nothing is out: the counts are what the model says. */
void tenants_check(struct world *world);

#endif
