/* Places in flight that engines share: limits, pools, and the claims that wait in FIFO order. */
#include "engine/budget.h"

#include "base/check.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct budget_pool {
    struct share_target target; /* its places; only webhooks and leases use its other fields */
    enum budget_kind kind;
    /* FLOW, TARGET: limit of its own, of all parts; may also be read without the lock */
    _Atomic uint32_t limit;
    struct pace pace; /* its starts; `told` is 0 before the first with a rate */
    uint32_t claim_count;
    uint32_t checked_held, checked_count; /* for budget_check */
    struct budget *budget;
    struct list waiting; /* claims that wait for places, in the order in which they get them */
};

struct budget {
    struct budget_limits whole; /* limits of all members together */
    uint32_t parts;
    uint64_t seed;
    _Atomic uint32_t max[BUDGET_KIND_COUNT]; /* may also be read without the lock */

    pthread_mutex_t lock; /* guards the fields below */
    struct list members;
    /* members that are not retired; may also be read without the lock */
    _Atomic uint32_t member_count;
    bool was_lowered; /* the limits were lowered, so more places than they allow may be held */
    struct wall now;  /* time last reported by a member */
    struct map pools[BUDGET_KIND_COUNT]; /* key -> budget_pool */
    struct shares webhook_shares, lease_shares;
};

/* Returns the shares among which all pools of this kind divide their places; NULL if each pool has
 * a limit of its own. */
static struct shares *budget_shares(struct budget *budget, enum budget_kind kind)
{
    return kind == BUDGET_TARGET   ? &budget->webhook_shares
           : kind == BUDGET_LEASES ? &budget->lease_shares
                                   : NULL;
}

struct budget *budget_create(const struct budget_limits *limits, uint32_t parts, uint64_t seed)
{
    struct budget *budget = calloc(1, sizeof(*budget));

    assert(parts > 0);
    if (!budget)
        return NULL;
    budget->whole = *limits;
    budget->parts = parts;
    budget->seed = seed;
    pthread_mutex_init(&budget->lock, NULL);
    list_init(&budget->members);
    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++)
        map_init(&budget->pools[kind]);
    shares_init(&budget->webhook_shares, SHARES_OF_TARGETS);
    shares_init(&budget->lease_shares, SHARES_OF_TENANTS);
    return budget;
}

void budget_destroy(struct budget *budget)
{
    if (!budget)
        return;
    assert(list_is_empty(&budget->members));
    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++) {
        assert(map_count(&budget->pools[kind]) == 0);
        map_deinit(&budget->pools[kind]);
    }
    shares_deinit(&budget->webhook_shares);
    shares_deinit(&budget->lease_shares);
    pthread_mutex_destroy(&budget->lock);
    free(budget);
}

uint64_t budget_seed(const struct budget *budget)
{
    return budget->seed;
}

/* ---- places ---- */

/* Returns the part of the members, rounded up. */
static uint64_t budget_part_of(const struct budget *budget, uint64_t limit)
{
    const uint64_t members = atomic_load_explicit(&budget->member_count, memory_order_relaxed);

    return (limit * members + budget->parts - 1) / budget->parts;
}

static uint32_t budget_pool_max(const struct budget_pool *pool)
{
    const uint32_t max = atomic_load_explicit(&pool->budget->max[pool->kind], memory_order_relaxed);
    uint64_t limit = atomic_load_explicit(&pool->limit, memory_order_relaxed);

    if (pool->kind == BUDGET_TARGET)
        limit = budget_part_of(pool->budget, limit);
    return limit < max ? (uint32_t)limit : max;
}

static uint32_t budget_pool_held(const struct budget_pool *pool)
{
    return atomic_load_explicit(&pool->target.held, memory_order_relaxed);
}

static bool budget_has_room(const struct budget_pool *pool)
{
    return !list_is_empty(&pool->waiting) && budget_pool_held(pool) < budget_pool_max(pool);
}

/* Gives a place to the first waiting claim. */
static void budget_grant(struct budget_pool *pool, enum share_class class,
                         const struct budget_member *acting)
{
    struct budget_claim *claim =
        list_item(list_pop(&pool->waiting), struct budget_claim, wait_link_);
    struct budget_member *member = claim->member_;
    struct shares *shares = budget_shares(pool->budget, pool->kind);

    assert(claim->waiting_ > 0 && !member->is_retired_);
    if (shares)
        shares_begin(shares, &pool->target, class);
    else
        share_target_hold(&pool->target, 1);
    claim->granted_[class]++;
    if (--claim->waiting_ > 0)
        list_push(&pool->waiting, &claim->wait_link_);
    if (list_is_empty(&claim->grant_link_))
        list_push(&member->granted_, &claim->grant_link_);
    if (member != acting && !atomic_exchange(&member->has_news_, true) && member->wake_)
        member->wake_(member->context_);
}

/* Adds the pool to the targets of `shares` that want a place, or removes it from them. */
static void budget_pool_enlist(struct shares *shares, struct budget_pool *pool)
{
    if (budget_has_room(pool))
        shares_enlist(shares, &pool->target, pool->budget->now);
    else
        shares_delist(&pool->target);
}

/* Distributes the free places that pools of one kind share. */
static void budget_share_out(struct shares *shares, struct budget *budget,
                             const struct budget_member *acting)
{
    enum share_class class;
    struct share_target *target;

    while ((target = shares_next(shares, budget->now, &class))) {
        struct budget_pool *pool = list_item(target, struct budget_pool, target);

        if (budget_has_room(pool)) /* its limit may have been lowered */
            budget_grant(pool, class, acting);
        budget_pool_enlist(shares, pool);
    }
}

/* Distributes the pool's free places after its places or claims have changed. The free places of
 * webhooks are distributed by the next budget_take. */
static void budget_pool_changed(struct budget_pool *pool, const struct budget_member *acting)
{
    struct shares *shares = budget_shares(pool->budget, pool->kind);

    if (!shares) {
        while (budget_has_room(pool))
            budget_grant(pool, SHARE_PROVEN, acting);
        return;
    }
    budget_pool_enlist(shares, pool);
    if (pool->kind == BUDGET_LEASES)
        budget_share_out(shares, pool->budget, acting);
}

static void budget_give_back(struct budget_pool *pool, enum share_class class, uint32_t places)
{
    struct shares *shares = budget_shares(pool->budget, pool->kind);

    for (; places > 0; places--)
        if (shares)
            shares_end(shares, &pool->target, class);
        else
            share_target_hold(&pool->target, -1);
}

/* ---- claims ---- */

static uint32_t budget_unused(const struct budget_claim *claim)
{
    return claim->places[SHARE_PROVEN] + claim->places[SHARE_UNPROVEN];
}

/* Moves the places that the member was granted to the fields that only the member uses. */
static void budget_fetch(struct budget_claim *claim)
{
    for (int class = 0; class < SHARE_CLASSES; class ++) {
        claim->places[class] += claim->granted_[class];
        claim->granted_[class] = 0;
    }
    list_remove(&claim->grant_link_);
}

/* Ends the claim's wait, and gives back all of its places except `kept`. */
static void budget_give_up(struct budget_claim *claim, uint32_t kept)
{
    budget_fetch(claim);
    claim->waiting_ = 0;
    list_remove(&claim->wait_link_);
    for (int class = SHARE_CLASSES; class -- > 0;) {
        const uint32_t rest = budget_unused(claim) - claim->places[class];
        const uint32_t left = kept > rest ? kept - rest : 0;

        if (claim->places[class] <= left)
            continue;
        budget_give_back(claim->pool_, (enum share_class) class, claim->places[class] - left);
        claim->places[class] = left;
    }
}

static struct budget_pool *budget_pool_get(struct budget *budget, enum budget_kind kind,
                                           uint64_t key, uint64_t tenant)
{
    struct budget_pool *pool = map_get(&budget->pools[kind], key);
    struct shares *shares = budget_shares(budget, kind);

    if (pool)
        return pool;
    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return NULL;
    pool->budget = budget;
    pool->kind = kind;
    pool->target.key = key;
    atomic_init(&pool->limit, UINT32_MAX);
    list_init(&pool->target.link);
    list_init(&pool->waiting);
    if (shares && !shares_join(shares, &pool->target, tenant)) {
        free(pool);
        return NULL;
    }
    if (map_put(&budget->pools[kind], key, pool))
        return pool;
    if (shares)
        shares_part(shares, &pool->target);
    free(pool);
    return NULL;
}

static void budget_pool_part(struct budget_pool *pool)
{
    struct budget *budget = pool->budget;
    struct shares *shares = budget_shares(budget, pool->kind);

    assert(pool->claim_count > 0);
    if (--pool->claim_count > 0)
        return;
    assert(budget_pool_held(pool) == 0 && list_is_empty(&pool->waiting));
    map_remove(&budget->pools[pool->kind], pool->target.key);
    if (shares)
        shares_part(shares, &pool->target);
    free(pool);
}

bool budget_open(struct budget_member *member, struct budget_claim *claim, enum budget_kind kind,
                 uint64_t key, uint64_t tenant)
{
    struct budget *budget = member->budget;

    *claim = (struct budget_claim){.kind = kind, .member_ = member};
    list_init(&claim->link);
    list_init(&claim->member_link_);
    list_init(&claim->wait_link_);
    list_init(&claim->grant_link_);
    pthread_mutex_lock(&budget->lock);
    claim->pool_ = budget_pool_get(budget, kind, key, tenant);
    if (claim->pool_) {
        claim->pool_->claim_count++;
        list_push(&member->claims_, &claim->member_link_);
    }
    pthread_mutex_unlock(&budget->lock);
    return claim->pool_;
}

static void budget_close_claim(struct budget_claim *claim)
{
    struct budget_pool *pool = claim->pool_;

    budget_give_up(claim, 0);
    for (int class = 0; class < SHARE_CLASSES; class ++)
        budget_give_back(pool, (enum share_class) class, claim->used_[class]);
    budget_pool_changed(pool, claim->member_);
    list_remove(&claim->member_link_);
    list_remove(&claim->link);
    budget_pool_part(pool);
}

void budget_close(struct budget_claim *claim)
{
    struct budget *budget = claim->member_->budget;

    assert(claim->used_[SHARE_PROVEN] == 0 && claim->used_[SHARE_UNPROVEN] == 0);
    pthread_mutex_lock(&budget->lock);
    budget_close_claim(claim);
    pthread_mutex_unlock(&budget->lock);
}

void budget_ask(struct budget_claim *claim, uint32_t wanted)
{
    struct budget *budget = claim->member_->budget;

    assert(!claim->member_->is_retired_);
    pthread_mutex_lock(&budget->lock);
    budget_fetch(claim);
    const uint32_t unused = budget_unused(claim);
    if (wanted <= unused) {
        budget_give_up(claim, wanted);
    } else {
        claim->waiting_ = wanted - unused;
        if (list_is_empty(&claim->wait_link_))
            list_push(&claim->pool_->waiting, &claim->wait_link_);
    }
    budget_pool_changed(claim->pool_, claim->member_);
    budget_fetch(claim);
    claim->asked = wanted;
    pthread_mutex_unlock(&budget->lock);
}

void budget_limit(struct budget_claim *claim, uint32_t limit)
{
    struct budget_pool *pool = claim->pool_;
    struct budget *budget = pool->budget;

    assert((claim->kind == BUDGET_FLOW || claim->kind == BUDGET_TARGET) && limit > 0);
    if (atomic_load_explicit(&pool->limit, memory_order_relaxed) == limit)
        return;
    pthread_mutex_lock(&budget->lock);
    atomic_store_explicit(&pool->limit, limit, memory_order_relaxed);
    budget->was_lowered |= budget_pool_held(pool) > budget_pool_max(pool);
    budget_pool_changed(pool, claim->member_);
    if (claim->kind == BUDGET_FLOW) /* the places of webhooks are fetched by budget_take */
        budget_fetch(claim);
    pthread_mutex_unlock(&budget->lock);
}

/* Clocks of members may differ by the length of a turn, so a time that is a little earlier than the
 * last one counts as that. */
#define BUDGET_TURN_MS 1000

bool budget_start(struct budget_claim *claim, uint64_t rate, struct wall now, struct wall *ret_next,
                  struct wall *ret_full)
{
    struct budget_pool *pool = claim->pool_;
    struct budget *budget = pool->budget;

    assert((claim->kind == BUDGET_FLOW || claim->kind == BUDGET_TARGET) && rate > 0);
    pthread_mutex_lock(&budget->lock);
    if (claim->kind == BUDGET_TARGET)
        rate = budget_part_of(budget, rate);
    if (pool->pace.told.ms == 0)
        pace_init(&pool->pace, rate, now);
    if (wall_since(now, pool->pace.told) < BUDGET_TURN_MS)
        now = wall_max(now, pool->pace.told);
    const bool has = pace_has(&pool->pace, rate, now);
    if (has)
        pace_take(&pool->pace, rate, now);
    *ret_next = pace_next(&pool->pace, rate);
    *ret_full = pace_full(&pool->pace, rate);
    pthread_mutex_unlock(&budget->lock);
    return has;
}

void budget_take(struct budget_member *member, struct wall now, struct list *placed)
{
    struct budget *budget = member->budget;

    pthread_mutex_lock(&budget->lock);
    budget->now = now;
    budget_share_out(&budget->webhook_shares, budget, member);
    atomic_store_explicit(&member->has_news_, false, memory_order_relaxed);
    LIST_FOR_EACH (&member->granted_, link) {
        struct budget_claim *claim = list_item(link, struct budget_claim, grant_link_);

        budget_fetch(claim);
        if (list_is_empty(&claim->link))
            list_push(placed, &claim->link);
    }
    pthread_mutex_unlock(&budget->lock);
}

enum share_class budget_use(struct budget_claim *claim)
{
    const enum share_class class = claim->places[SHARE_PROVEN] > 0 ? SHARE_PROVEN : SHARE_UNPROVEN;

    assert(claim->places[class] > 0 && claim->asked > 0);
    claim->places[class]--;
    claim->used_[class]++;
    claim->asked--;
    return class;
}

void budget_end(struct budget_claim *claim, enum share_class class, enum budget_proof proof)
{
    struct budget_pool *pool = claim->pool_;
    struct budget *budget = pool->budget;

    pthread_mutex_lock(&budget->lock);
    assert(claim->used_[class] > 0);
    claim->used_[class]--;
    budget_give_back(pool, class, 1);
    if (proof == BUDGET_ANSWERED)
        shares_prove(&budget->webhook_shares, pool->target.key, budget->now);
    else if (proof == BUDGET_SILENT)
        shares_disprove(&budget->webhook_shares, pool->target.key);
    budget_pool_changed(pool, claim->member_);
    pthread_mutex_unlock(&budget->lock);
}

/* ---- members ---- */

/* Recomputes all limits after the number of members has changed. */
static void budget_scale(struct budget *budget, const struct budget_member *acting)
{
    shares_set_max(&budget->webhook_shares,
                   (uint32_t)budget_part_of(budget, budget->whole.webhooks));
    shares_set_max(&budget->lease_shares,
                   (uint32_t)budget_part_of(budget, budget->whole.each[BUDGET_LEASES]));
    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++) {
        const uint32_t max = (uint32_t)budget_part_of(budget, budget->whole.each[kind]);
        const bool is_more = max > atomic_load(&budget->max[kind]) ||
                             (kind == BUDGET_TARGET && !acting->is_retired_);
        size_t cursor = 0;

        atomic_store(&budget->max[kind], max);
        for (struct budget_pool *pool; is_more && (pool = map_next(&budget->pools[kind], &cursor));)
            budget_pool_changed(pool, acting);
    }
}

void budget_join(struct budget *budget, struct budget_member *member, void (*wake)(void *context),
                 void *context)
{
    *member = (struct budget_member){.budget = budget, .wake_ = wake, .context_ = context};
    list_init(&member->claims_);
    list_init(&member->granted_);
    pthread_mutex_lock(&budget->lock);
    list_init(&member->link_);
    list_push(&budget->members, &member->link_);
    budget->member_count++;
    budget_scale(budget, member);
    budget_share_out(&budget->webhook_shares, budget, member);
    budget_share_out(&budget->lease_shares, budget, member);
    pthread_mutex_unlock(&budget->lock);
}

void budget_retire(struct budget_member *member)
{
    struct budget *budget = member->budget;

    if (member->is_retired_)
        return;
    pthread_mutex_lock(&budget->lock);
    member->is_retired_ = true;
    budget->member_count--;
    budget->was_lowered = true;
    budget_scale(budget, member);
    LIST_FOR_EACH (&member->claims_, link) {
        struct budget_claim *claim = list_item(link, struct budget_claim, member_link_);

        budget_give_up(claim, 0);
        list_remove(&claim->link);
    }
    /* in a second loop, when no claim of the member waits any more */
    LIST_FOR_EACH (&member->claims_, link)
        budget_pool_changed(list_item(link, struct budget_claim, member_link_)->pool_, member);
    budget_share_out(&budget->webhook_shares, budget, member);
    pthread_mutex_unlock(&budget->lock);
}

void budget_leave(struct budget_member *member)
{
    struct budget *budget = member->budget;

    budget_retire(member);
    pthread_mutex_lock(&budget->lock);
    LIST_FOR_EACH (&member->claims_, link)
        budget_close_claim(list_item(link, struct budget_claim, member_link_));
    list_remove(&member->link_);
    budget_share_out(&budget->webhook_shares, budget, member);
    pthread_mutex_unlock(&budget->lock);
}

/* ---- questions ---- */

uint32_t budget_held(const struct budget_claim *claim)
{
    return budget_pool_held(claim->pool_);
}

uint32_t budget_max(const struct budget_claim *claim)
{
    return budget_pool_max(claim->pool_);
}

static uint32_t budget_claim_check(const struct budget_claim *claim)
{
    uint32_t held = 0, granted = 0;

    for (int class = 0; class < SHARE_CLASSES; class ++) {
        granted += claim->granted_[class];
        held += claim->granted_[class] + claim->places[class] + claim->used_[class];
    }
    CHECK((claim->waiting_ > 0) == !list_is_empty(&claim->wait_link_));
    CHECK((granted > 0) == !list_is_empty(&claim->grant_link_));
    CHECK(claim->member_->is_retired_ ||
          claim->asked == claim->waiting_ + granted + budget_unused(claim));
    return held;
}

/* Counts the places that claims hold for each pool, to compare them with the pool's own number. */
static void budget_sum_up(struct budget *budget)
{
    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++) {
        size_t cursor = 0;

        for (struct budget_pool *pool; (pool = map_next(&budget->pools[kind], &cursor));)
            pool->checked_held = pool->checked_count = 0;
    }
    LIST_FOR_EACH (&budget->members, link)
        LIST_FOR_EACH (&list_item(link, struct budget_member, link_)->claims_, claim_link) {
            const struct budget_claim *claim =
                list_item(claim_link, struct budget_claim, member_link_);

            claim->pool_->checked_held += budget_claim_check(claim);
            claim->pool_->checked_count++;
        }
}

static void budget_pool_check(struct budget *budget, const struct budget_pool *pool)
{
    const uint32_t held = budget_pool_held(pool);

    CHECK(pool->claim_count > 0 && pool->checked_count == pool->claim_count);
    CHECK(pool->checked_held == held);
    CHECK(budget->was_lowered || held <= budget_pool_max(pool));
    if (budget_shares(budget, pool->kind))
        CHECK(budget_has_room(pool) == !list_is_empty(&pool->target.link) ||
              (budget->was_lowered && !budget_has_room(pool)));
    else
        CHECK(!budget_has_room(pool));
}

void budget_check(struct budget *budget)
{
    pthread_mutex_lock(&budget->lock);
    budget_sum_up(budget);
    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++) {
        const struct shares *shares = budget_shares(budget, (enum budget_kind)kind);
        uint32_t held = 0;
        size_t cursor = 0;

        for (const struct budget_pool *pool; (pool = map_next(&budget->pools[kind], &cursor));) {
            budget_pool_check(budget, pool);
            held += budget_pool_held(pool);
        }
        if (!shares)
            continue;
        shares_check(shares);
        CHECK(shares->held == held);
        CHECK(budget->was_lowered ||
              (held <= shares->max && shares->unproven <= shares->unproven_max));
    }
    pthread_mutex_unlock(&budget->lock);
}
