/*
 * budget.h - places in flight that engines share: of all webhooks, of a tenant's webhooks to an
 * origin, of a connection of a broker, of all leases, of a tenant's leases, and of a flow; and the
 * rates of flows and named targets.
 *
 * Each engine is a member, and has a claim to each pool of places that it uses:
 *
 *     budget_join(budget, &member, wake, context);
 *     budget_open(&member, &claim, BUDGET_TARGET, key, tenant);
 *     budget_ask(&claim, wanted);             asks for places, which may come later
 *     budget_take(&member, now, &placed);     lists the claims that got places, by their `link`
 *     class = budget_use(&claim);             a delivery begins and uses a place
 *     budget_end(&claim, class, proof);       the delivery has ended
 *     budget_ask(&claim, 0);                  gives unused places to other claims
 *     budget_leave(&member);                  gives all places to other members
 *
 * Order      Claims to a pool wait in FIFO order. The first gets a free place; if it wants more, it
 *            becomes the last. Targets of webhooks, and tenants that lease, also have a limit for
 *            all of them together: shares.h decides which pool gets a place. A place that a member
 *            got is reserved for it until it is used or given back.
 * Notice     A member that gets a place because of another member is woken, once until its next
 *            budget_take. Places of webhooks are distributed only by budget_take of any member, so
 *            each calls it at the end of each turn. Other places are distributed at once.
 * Limits     Those of the node, times the number of members that are not retired, divided by
 *            `parts`, rounded up. One claim holds each place. More places than the limit are held
 *            only after it was lowered. A flow also has a limit of its own, which is not divided,
 *            and a named target one that is.
 * Memory     A pool exists while a claim to it is open.
 * Errors     budget_create and budget_open fail for want of memory.
 * Threads    One thread at a time for each member; members may run in parallel. One lock is held
 *            for O(1) work for each place; budget_join is O(pools), budget_retire and budget_leave
 *            are O(claims of the member).
 */
#ifndef TICKWHEEL_ENGINE_BUDGET_H
#define TICKWHEEL_ENGINE_BUDGET_H

#include "engine/pace.h"
#include "engine/shares.h"

enum budget_kind {
    /* a tenant's webhooks to an origin; each place also counts towards the limit of all webhooks */
    BUDGET_TARGET,
    BUDGET_CONNECTION, /* a connection of a broker */
    /* a tenant's leases; each place also counts towards the limit of all leases */
    BUDGET_LEASES,
    BUDGET_FLOW, /* a tenant's flow */
    BUDGET_KIND_COUNT,
};

/* Exceeds any limit of deliveries: asked for by a claim that wants as many places as possible. */
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
    /* struct budget_claim: all of the member's, and those with places to fetch */
    struct list claims_, granted_;
    atomic_bool has_news_;
    bool is_retired_;
    void (*wake_)(void *context);
    void *context_;
};

/* Places of one pool that one member has or waits for. */
struct budget_claim {
    struct list link; /* for lists of the member */
    enum budget_kind kind;
    uint32_t asked; /* unused places last asked for, less those used since; written by the member */
    /* places that the claim holds and does not use; written by the member */
    uint32_t places[SHARE_CLASSES];
    uint32_t used_[SHARE_CLASSES]; /* places in use; private to the member */
    struct budget_pool *pool_;
    struct budget_member *member_;
    struct list member_link_;
    struct list wait_link_, grant_link_; /* guarded by the lock, like the next two */
    uint32_t waiting_;                   /* number of places that the claim waits for */
    /* places granted by the pool that the member has not fetched yet */
    uint32_t granted_[SHARE_CLASSES];
};

/* Evidence of a delivery about its target: none, it answered, or it stayed silent. */
enum budget_proof { BUDGET_PROOF_NONE, BUDGET_ANSWERED, BUDGET_SILENT };

/* Makes a budget whose limits are divided among `parts` members. `seed` is the secret with which
 * all members hash the keys of their claims. Returns NULL if out of memory. */
struct budget *budget_create(const struct budget_limits *limits, uint32_t parts, uint64_t seed);

/* All members must have left. */
void budget_destroy(struct budget *budget);

uint64_t budget_seed(const struct budget *budget);

/* Adds a member. `wake` is called on any thread, under the lock, when the member gets a place; it
 * must not call the budget. NULL if the member needs no wake-up. */
void budget_join(struct budget *budget, struct budget_member *member, void (*wake)(void *context),
                 void *context);

/* Ends all waits of the member, and lowers the limits by the member's part. Its places in use
 * stay. */
void budget_retire(struct budget_member *member);

/* Gives back all places of the member, and closes its claims. */
void budget_leave(struct budget_member *member);

/* Opens a claim. `tenant` is the tenant_key of the owner of its webhooks or leases. Returns false
 * if out of memory. */
bool budget_open(struct budget_member *member, struct budget_claim *claim, enum budget_kind kind,
                 uint64_t key, uint64_t tenant);

/* Closes the claim and gives back its unused places. None may be in use. */
void budget_close(struct budget_claim *claim);

/* Asks for `wanted` places besides those in use. If the claim holds fewer, it waits for the rest;
 * if it holds more, it gives the surplus back. A waiting claim that asks for fewer keeps its turn.
 * Leases and connections get free places within the call. Not for retired members. */
void budget_ask(struct budget_claim *claim, uint32_t wanted);

/* Sets the limit of the claim's flow or named target, which other members use until one sets
 * another. */
void budget_limit(struct budget_claim *claim, uint32_t limit);

/* Counts a start in the claim's flow or named target, whose rate is `rate` (pace.h); that of a
 * named target is divided. Returns false if the rate allows none now. *ret_next is the earliest
 * time of the next start, and *ret_full the time from which the past has no effect on the rate. */
bool budget_start(struct budget_claim *claim, uint64_t rate, struct wall now, struct wall *ret_next,
                  struct wall *ret_full);

/* Distributes the places of webhooks. Adds this member's claims that got places to `placed`, unless
 * they are on a list. */
void budget_take(struct budget_member *member, struct wall now, struct list *placed);

/* True if budget_take would find places for this member. May be called from any thread. */
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

/* Returns the number of places of the pool that all members hold; budget_max: its limit. Both may
 * change at any time. */
uint32_t budget_held(const struct budget_claim *claim);
uint32_t budget_max(const struct budget_claim *claim);

/* For tests: aborts unless every invariant holds. No other thread may use the budget meanwhile.
 * O(claims). */
void budget_check(struct budget *budget);

#endif
