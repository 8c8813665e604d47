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
    bool is_below; /* used within tenant_tallies_level */
};

struct tenant_tallies {
    struct map tenants; /* key -> tally */
    /* things that could not be counted by tenant, because memory was out */
    struct tenant_tally others;
    uint64_t bytes, count; /* sums over all tenants */
};

void tenant_tallies_init(struct tenant_tallies *tallies);

/* Removes all tallies. */
void tenant_tallies_clear(struct tenant_tallies *tallies);

void tenant_tallies_add(struct tenant_tallies *tallies, struct bytes tenant, uint64_t bytes);

/* Subtracts a thing, at most what is counted for the tenant. */
void tenant_tallies_subtract(struct tenant_tallies *tallies, struct bytes tenant, uint64_t bytes);

/* Returns how many bytes the tenant's things take. */
uint64_t tenant_tallies_bytes(const struct tenant_tallies *tallies, struct bytes tenant);

/* Returns the level to which tenants that have more must be reduced, so that all together have at
 * most `max` (max-min fairness). A few rounds of O(tenants). */
uint64_t tenant_tallies_level(struct tenant_tallies *tallies, uint64_t max);

/* For tests: aborts unless the sums are correct. */
void tenant_tallies_check(const struct tenant_tallies *tallies);

#endif
