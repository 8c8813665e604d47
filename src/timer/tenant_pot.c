/* Shares of pots, in buckets by tenant. */
#include "timer/tenant_pot.h"

#include "base/share.h"

#include <assert.h>
#include <stdlib.h>

void tenant_pot_init(struct tenant_pot *pot, uint64_t max, enum tenant_pot_division division)
{
    pot->max = max;
    pot->is_divided = division == TENANT_POT_DIVIDED;
    atomic_init(&pot->held, 0);
    pthread_mutex_init(&pot->lock_, NULL);
    pot->others_ = (struct tenant_pot_share){.next_ = NULL};
    for (size_t i = 0; i < TENANT_POT_BUCKETS; i++)
        atomic_init(&pot->buckets_[i], NULL);
}

void tenant_pot_deinit(struct tenant_pot *pot)
{
    for (size_t i = 0; i < TENANT_POT_BUCKETS; i++)
        for (struct tenant_pot_share *share = atomic_load(&pot->buckets_[i]), *next; share;
             share = next) {
            next = share->next_;
            free(share);
        }
    pthread_mutex_destroy(&pot->lock_);
}

static struct tenant_pot_share *tenant_pot_find(struct tenant_pot *pot, uint64_t tenant)
{
    struct tenant_pot_share *share = atomic_load(&pot->buckets_[tenant % TENANT_POT_BUCKETS]);

    while (share && share->key != tenant)
        share = share->next_;
    return share;
}

static struct tenant_pot_share *tenant_pot_add(struct tenant_pot *pot, uint64_t tenant)
{
    struct tenant_pot_share *_Atomic *bucket = &pot->buckets_[tenant % TENANT_POT_BUCKETS];

    pthread_mutex_lock(&pot->lock_);
    struct tenant_pot_share *share = tenant_pot_find(pot, tenant);
    if (!share && (share = calloc(1, sizeof(*share)))) {
        share->key = tenant;
        share->next_ = atomic_load(bucket);
        atomic_store(bucket, share);
    }
    pthread_mutex_unlock(&pot->lock_);
    return share ? share : &pot->others_;
}

static struct tenant_pot_share *tenant_pot_share_of(struct tenant_pot *pot, uint64_t tenant)
{
    struct tenant_pot_share *share = tenant_pot_find(pot, tenant);

    return share ? share : tenant_pot_add(pot, tenant);
}

static bool tenant_pot_allows(const struct tenant_pot *pot, uint64_t all, uint64_t held,
                              uint64_t more)
{
    if (pot->is_divided)
        return share_allows(pot->max, all, held, more);
    return all <= pot->max && more <= pot->max - all;
}

struct tenant_pot_share *tenant_pot_take(struct tenant_pot *pot, uint64_t tenant, uint64_t amount)
{
    struct tenant_pot_share *share = tenant_pot_share_of(pot, tenant);
    const uint64_t all = atomic_fetch_add(&pot->held, amount);
    const uint64_t held = atomic_fetch_add(&share->held, amount);

    if (tenant_pot_allows(pot, all, held, amount))
        return share;
    tenant_pot_give(pot, share, amount);
    return NULL;
}

struct tenant_pot_share *tenant_pot_force(struct tenant_pot *pot, uint64_t tenant, uint64_t amount)
{
    struct tenant_pot_share *share = tenant_pot_share_of(pot, tenant);

    atomic_fetch_add(&pot->held, amount);
    atomic_fetch_add(&share->held, amount);
    return share;
}

void tenant_pot_give(struct tenant_pot *pot, struct tenant_pot_share *share, uint64_t amount)
{
    if (amount == 0)
        return;
    assert(share && atomic_load(&share->held) >= amount);
    atomic_fetch_sub(&share->held, amount);
    atomic_fetch_sub(&pot->held, amount);
}

void tenant_pot_empty(struct tenant_pot *pot)
{
    for (size_t i = 0; i < TENANT_POT_BUCKETS; i++)
        for (struct tenant_pot_share *share = atomic_load(&pot->buckets_[i]); share;
             share = share->next_)
            tenant_pot_give(pot, share, atomic_load(&share->held));
    tenant_pot_give(pot, &pot->others_, atomic_load(&pot->others_.held));
}

bool tenant_pot_has_room(struct tenant_pot *pot, uint64_t tenant)
{
    const struct tenant_pot_share *share = tenant_pot_find(pot, tenant);

    return tenant_pot_allows(pot, atomic_load(&pot->held), share ? atomic_load(&share->held) : 0,
                             0);
}
