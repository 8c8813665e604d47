/*
 * budget.h - places in flight that engines share: of all webhooks, of a tenant's webhooks to an
 * origin, of a connection of a broker, of all leases and of a tenant's leases.
 *
 * Each engine is a member, and has a claim to each pool of places that it uses:
 *
 *     budget_join(budget, &member, wake, context);
 *     budget_open(&member, &claim, BUDGET_TARGET, key, tenant);
 *     budget_ask(&claim, wanted);             places that it wants, now or later
 *     budget_take(&member, now, &placed);     the claims that have got some, by their `link`
 *     class = budget_use(&claim);             a delivery begins in a place,
 *     budget_end(&claim, class, proof);       and has ended
 *     budget_ask(&claim, 0);                  it needs no more: the rest goes to others
 *     budget_leave(&member);                  its places go to others
 *
 * Order      Claims to a pool wait in FIFO order: the first gets a free place, and goes behind the
 *            others if it wants more. Among the targets of webhooks, and among the tenants that
 *            lease, which have a limit for all of them too, shares.h chooses. A place that a member
 *            has got is reserved until it is used or not wanted any more.
 * Notice     A member that gets a place by what another one does is woken, once until its next
 *            budget_take. Places of webhooks are handed out by budget_take of any member, so to be
 *            called at the end of each turn; the others at once.
 * Limits     Those of the node, times the members that are not retired, divided by `parts`, rounded
 *            up. A place is held by one claim alone; more than the limit are held only after it was
 *            lowered.
 * Memory     A pool lives while a claim to it does.
 * Errors     budget_create and budget_open fail for want of memory.
 * Threads    Each member one thread at a time, all at once. One lock, held for O(1) work for each
 *            place; budget_join is O(pools), retire and leave O(claims of the member).
 */
#ifndef TICKWHEEL_ENGINE_BUDGET_H
#define TICKWHEEL_ENGINE_BUDGET_H

#include "engine/shares.h"

enum budget_kind {
    BUDGET_TARGET,     /* a tenant's webhooks to an origin; each also counts among all webhooks */
    BUDGET_CONNECTION, /* a connection of a broker */
    BUDGET_LEASES,     /* a tenant's leases; each also counts among all leases */
    BUDGET_KIND_COUNT,
};

/* More than any limit of deliveries, for a claim that wants as many as possible. */
#define BUDGET_ALL_PLACES 1000000

struct budget_limits {
    uint32_t webhooks; /* limit of all targets together */
    uint32_t each[BUDGET_KIND_COUNT];
};

struct budget;
struct budget_pool;

struct budget_member {
    struct budget *budget;
    struct list link_;
    struct list claims_, granted_; /* of budget_claim */
    atomic_bool has_news_;
    bool is_retired_;
    void (*wake_)(void *context);
    void *context_;
};

/* Places of one pool that one member has or waits for. */
struct budget_claim {
    struct list link; /* for lists of the member */
    enum budget_kind kind;
    uint32_t asked; /* places last asked for, less those used since; written by the member */
    uint32_t places[SHARE_CLASSES]; /* places that it has and does not use; written by the member */
    uint32_t used_[SHARE_CLASSES];  /* the member's */
    struct budget_pool *pool_;
    struct budget_member *member_;
    struct list member_link_;
    struct list wait_link_, grant_link_; /* guarded by the lock, like the next two */
    uint32_t waiting_;                   /* number of further places that it wants */
    uint32_t granted_[SHARE_CLASSES];    /* places granted but not fetched by the member */
};

/* What a delivery shows about its target. */
enum budget_proof { BUDGET_PROOF_NONE, BUDGET_ANSWERED, BUDGET_SILENT };

/* Makes a budget whose limits are divided among `parts` members. The seed is for members that
 * hash their keys. Returns NULL if out of memory. */
struct budget *budget_create(const struct budget_limits *limits, uint32_t parts, uint64_t seed);

/* Without members. */
void budget_destroy(struct budget *budget);

uint64_t budget_seed(const struct budget *budget);

/* Adds a member. `wake` is called on any thread, under the lock, and must not call the budget;
 * NULL for never. */
void budget_join(struct budget *budget, struct budget_member *member, void (*wake)(void *context),
                 void *context);

/* Ends all waits of the member, and its part of the limits. Its places in use stay. */
void budget_retire(struct budget_member *member);

/* Gives back all places of the member, and closes its claims. */
void budget_leave(struct budget_member *member);

/* Opens a claim. `tenant` is the tenant of its webhooks or leases. Returns false if out of
 * memory. */
bool budget_open(struct budget_member *member, struct budget_claim *claim, enum budget_kind kind,
                 uint64_t key, uint64_t tenant);

/* Gives back the unused places. None may be in use. */
void budget_close(struct budget_claim *claim);

/* Asks for `wanted` places in all besides those in use. If it has fewer it waits for more; if it
 * has more it gives some back. A claim that waits for fewer keeps its turn. Leases and
 * connections get free places within the call. Not for retired members. */
void budget_ask(struct budget_claim *claim, uint32_t wanted);

/* Distributes places of webhooks. Adds the claims of this member that have got places to
 * `placed`, unless they are on a list. */
void budget_take(struct budget_member *member, struct wall now, struct list *placed);

/* True if budget_take has places from other members. May be called from any thread. */
static inline bool budget_has_news(const struct budget_member *member)
{
    return atomic_load_explicit(&member->has_news_, memory_order_acquire);
}

static inline bool budget_has_place(const struct budget_claim *claim)
{
    return claim->places[SHARE_PROVEN] > 0 || claim->places[SHARE_UNPROVEN] > 0;
}

/* Uses one of the claim's places. Returns its class. */
enum share_class budget_use(struct budget_claim *claim);

/* Ends the use of a place. */
void budget_end(struct budget_claim *claim, enum share_class class, enum budget_proof proof);

/* Returns the places of the pool that all members hold, and the limit. Both may change at any
 * time. */
uint32_t budget_held(const struct budget_claim *claim);
uint32_t budget_max(const struct budget_claim *claim);

/* For tests: aborts unless every invariant holds. No other thread may use the budget meanwhile.
 * O(claims). */
void budget_check(struct budget *budget);

#endif
