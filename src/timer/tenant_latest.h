/*
 * tenant_latest.h - the latest things of tenants, of which old ones are dropped to keep within a
 * bound: those of the tenant that has the most. A tenant with less than half of what that one has
 * loses none.
 *
 *     tenant_latest_add(&latest, tenant_key(tenant), &thing->place, bytes);
 *     while (latest.amount > max)
 *         place = tenant_latest_first(&latest), then tenant_latest_remove(&latest, place)
 *
 * Time       O(1).
 * Errors     Tenants for which there is no memory are one tenant.
 * Ownership  The things are the caller's, and so are their places.
 * Threads    None: its owner's.
 */
#ifndef TICKWHEEL_TIMER_TENANT_LATEST_H
#define TICKWHEEL_TIMER_TENANT_LATEST_H

#include "base/list.h"
#include "base/map.h"
#include "timer/tenant.h"

struct tenant_latest_owner {
    struct list link_;  /* in the list of the class of its amount */
    struct list things; /* oldest first */
    uint64_t key;       /* tenant_key */
    uint64_t amount;
};

/* Place of a thing in the lists; all zero if it is in none. */
struct tenant_latest_place {
    struct list link_;
    struct tenant_latest_owner *owner_;
    uint64_t amount_;
};

struct tenant_latest {
    uint64_t amount;          /* sum of the amounts of all tenants */
    struct map owners_;       /* key -> owner */
    struct list classes_[65]; /* lists of owners by the number of bits of their amounts */
    struct tenant_latest_owner others_;
};

void tenant_latest_init(struct tenant_latest *latest);

/* Removes all things. */
void tenant_latest_deinit(struct tenant_latest *latest);

/* Adds a thing as the newest of a tenant. */
void tenant_latest_add(struct tenant_latest *latest, uint64_t tenant,
                       struct tenant_latest_place *place, uint64_t amount);

void tenant_latest_remove(struct tenant_latest *latest, struct tenant_latest_place *place);

/* Returns the thing to drop first: the oldest of a tenant that has more than half of what any other
 * has. NULL if there are no things. */
struct tenant_latest_place *tenant_latest_first(const struct tenant_latest *latest);

/* Returns the next newer thing of the same owner; NULL if there is none. The owner is the same
 * tenant, unless memory was short. */
static inline struct tenant_latest_place *
tenant_latest_next(const struct tenant_latest_place *place)
{
    struct list *next = place->link_.next;

    return next == &place->owner_->things ? NULL
                                          : list_item(next, struct tenant_latest_place, link_);
}

static inline bool tenant_latest_has(const struct tenant_latest_place *place)
{
    return place->owner_ != NULL;
}

#endif
