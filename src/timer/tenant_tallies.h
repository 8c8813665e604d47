/*
 * tenant_tallies.h - how many things each tenant has, and how many bytes they take.
 *
 * Errors     Tenants for which there is no memory are counted together.
 * Threads    None: its owner's.
 */
#ifndef TICKWHEEL_TIMER_TENANT_TALLIES_H
#define TICKWHEEL_TIMER_TENANT_TALLIES_H

#include "base/map.h"
#include "timer/tenant.h"

struct tenant_tally {
    uint64_t key; /* tenant_key */
    uint64_t bytes, count;
    bool is_below; /* scratch field of tenant_tallies_level */
};

struct tenant_tallies {
    struct map tenants;         /* key -> tally */
    struct tenant_tally others; /* things for which there was no memory */
    uint64_t bytes, count;      /* sums of all */
};

void tenant_tallies_init(struct tenant_tallies *tallies);

/* Forgets all. */
void tenant_tallies_clear(struct tenant_tallies *tallies);

void tenant_tallies_add(struct tenant_tallies *tallies, struct bytes tenant, uint64_t bytes);

/* Subtracts at most the count and the bytes that the tenant has. */
void tenant_tallies_subtract(struct tenant_tallies *tallies, struct bytes tenant, uint64_t bytes);

/* Returns the bytes of the tenant's things. */
uint64_t tenant_tallies_bytes(const struct tenant_tallies *tallies, struct bytes tenant);

/* Returns the level down to which the tenants with more have to come, so that all together have no
 * more than `max` (max-min fairness). O(tenants) for each round, of which there are few. */
uint64_t tenant_tallies_level(struct tenant_tallies *tallies, uint64_t max);

/* For tests: aborts unless the sums are right. */
void tenant_tallies_check(const struct tenant_tallies *tallies);

#endif
