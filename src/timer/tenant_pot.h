/*
 * tenant_pot.h - something of which tenants hold parts for a while, each its share (base/share.h):
 * requests in flight, memory for bodies and answers.
 *
 *     share = tenant_pot_take(&pot, tenant_key(tenant), 1);   NULL: it would be more than its share
 *     tenant_pot_give(&pot, share, 1);
 *
 * A pot that is not divided has the limit alone: where there are no tokens, all is one tenant's.
 *
 * Errors     Tenants for which there is no memory share one share.
 * Threads    Any: counts are atomic, and an amount is counted before it is judged. A lock is
 *            held to add a tenant, which then stays. init and deinit are for one owner.
 */
#ifndef TICKWHEEL_TIMER_TENANT_POT_H
#define TICKWHEEL_TIMER_TENANT_POT_H

#include "timer/tenant.h"

#include <pthread.h>
#include <stdatomic.h>

#define TENANT_POT_BUCKETS 256

struct tenant_pot_share {
    struct tenant_pot_share *next_; /* next in its bucket; never changes */
    uint64_t key;
    _Atomic uint64_t held;
};

struct tenant_pot {
    uint64_t max;
    bool is_divided;
    _Atomic uint64_t held; /* sum of what all tenants hold */
    pthread_mutex_t lock_; /* held while a tenant is added */
    struct tenant_pot_share others_;
    struct tenant_pot_share *_Atomic buckets_[TENANT_POT_BUCKETS];
};

enum tenant_pot_division { TENANT_POT_WHOLE, TENANT_POT_DIVIDED };

void tenant_pot_init(struct tenant_pot *pot, uint64_t max, enum tenant_pot_division division);
void tenant_pot_deinit(struct tenant_pot *pot);

/* Takes the amount and returns the share that counts it. NULL if the tenant may not have that
 * much. */
struct tenant_pot_share *tenant_pot_take(struct tenant_pot *pot, uint64_t tenant, uint64_t amount);

/* Takes the amount without a limit, for things that cannot be refused. */
struct tenant_pot_share *tenant_pot_force(struct tenant_pot *pot, uint64_t tenant, uint64_t amount);

/* Gives an amount back. `share` may be NULL if `amount` is 0. */
void tenant_pot_give(struct tenant_pot *pot, struct tenant_pot_share *share, uint64_t amount);

/* Gives back all that is held. No other thread may give back to this pot at the same time. */
void tenant_pot_empty(struct tenant_pot *pot);

/* True if the tenant holds no more than its share allows. */
bool tenant_pot_has_room(struct tenant_pot *pot, uint64_t tenant);

#endif
