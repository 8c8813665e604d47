/* Shares of the places in flight: the tenants, the proofs, and the choice of the next target. */
#include "engine/shares.h"

#include "base/check.h"
#include "base/share.h"

#include <assert.h>
#include <stdlib.h>

/* An unproven target may take another place while it holds fewer than the free places divided by
 * this. */
#define UNPROVEN_PART 8

void shares_init(struct shares *shares, enum shares_rule rule)
{
    *shares = (struct shares){.rule = rule, .round = 1};
    map_init(&shares->tenants);
    list_init(&shares->ready);
    list_init(&shares->blocked);
}

void shares_deinit(struct shares *shares)
{
    size_t cursor = 0;

    for (struct share_tenant *tenant; (tenant = map_next(&shares->tenants, &cursor));)
        free(tenant);
    map_deinit(&shares->tenants);
}

/* Makes blocked tenants ready again. */
static void shares_unblock(struct shares *shares)
{
    list_join(&shares->ready, &shares->blocked);
    shares->round++;
}

void shares_set_max(struct shares *shares, uint32_t max)
{
    shares->max = shares->unproven_max = shares->tenant_max = shares->tenant_unproven_max = max;
    if (max >= SHARES_MIN) {
        shares->unproven_max = shares->tenant_max = max - max / 8;
        shares->tenant_unproven_max = shares->unproven_max / 2;
    }
    shares_unblock(shares);
}

/* ---- tenants ---- */

static struct share_tenant *shares_tenant(struct shares *shares, uint64_t key)
{
    struct share_tenant *tenant = map_get(&shares->tenants, key);

    if (tenant)
        return tenant;
    tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    tenant->key = key;
    list_init(&tenant->link);
    for (size_t class = 0; class < SHARE_CLASSES; class ++)
        for (size_t step = 0; step < SHARE_STEPS; step++)
            list_init(&tenant->targets[class][step]);
    if (map_put(&shares->tenants, key, tenant))
        return tenant;
    free(tenant);
    return NULL;
}

bool shares_join(struct shares *shares, struct share_target *target, uint64_t tenant_key)
{
    target->tenant = shares_tenant(shares, tenant_key);
    if (!target->tenant)
        return false;
    assert(target->tenant->key == tenant_key && target->tenant->target_count < UINT32_MAX);
    assert(target->tenant->held <= shares->held && target->held == 0);
    target->tenant->target_count++;
    return true;
}

void shares_part(struct shares *shares, struct share_target *target)
{
    struct share_tenant *tenant = target->tenant;

    assert(tenant->target_count > 0 && target->held == 0 && list_is_empty(&target->link));
    if (--tenant->target_count > 0)
        return;
    assert(tenant->held == 0 && list_is_empty(&tenant->link));
    map_remove(&shares->tenants, tenant->key);
    free(tenant);
}

/* ---- proofs ---- */

static bool shares_is_proven(const struct shares *shares, uint64_t target_key, struct wall now)
{
    const size_t slot = target_key % SHARES_PROOFS;

    if (shares->rule == SHARES_OF_TENANTS)
        return true;
    assert(shares->proofs[slot].key % SHARES_PROOFS == slot || !shares->proofs[slot].answered.ms);
    return shares->proofs[slot].key == target_key && shares->proofs[slot].answered.ms > 0 &&
           wall_since(shares->proofs[slot].answered, now) < SHARES_PROOF_MS;
}

void shares_prove(struct shares *shares, uint64_t target_key, struct wall now)
{
    const size_t slot = target_key % SHARES_PROOFS;

    assert(now.ms > 0);
    shares->proofs[slot].key = target_key;
    shares->proofs[slot].answered = now;
}

void shares_disprove(struct shares *shares, uint64_t target_key)
{
    const size_t slot = target_key % SHARES_PROOFS;

    if (shares->proofs[slot].key == target_key)
        shares->proofs[slot].answered = (struct wall){0};
}

/* ---- places ---- */

void shares_begin(struct shares *shares, struct share_target *target, enum share_class class)
{
    struct share_tenant *tenant = target->tenant;

    assert(tenant->held <= shares->held && tenant->unproven <= tenant->held);
    assert(shares->held < shares->max);
    shares->held++;
    tenant->held++;
    share_target_hold(target, 1);
    shares->unproven += class == SHARE_UNPROVEN;
    tenant->unproven += class == SHARE_UNPROVEN;
}

void shares_end(struct shares *shares, struct share_target *target, enum share_class class)
{
    struct share_tenant *tenant = target->tenant;

    assert(shares->held > 0 && tenant->held > 0 && target->held > 0);
    assert(class == SHARE_PROVEN || (shares->unproven > 0 && tenant->unproven > 0));
    shares->held--;
    tenant->held--;
    share_target_hold(target, -1);
    shares->unproven -= class == SHARE_UNPROVEN;
    tenant->unproven -= class == SHARE_UNPROVEN;
    shares_unblock(shares);
}

static uint32_t shares_left(uint32_t max, uint32_t held)
{
    return held < max ? max - held : 0;
}

static uint32_t shares_least_left(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* True if a target that holds `held` places may take another one, by the shares of the tenant and
 * of the target. */
static bool shares_may_send(const struct shares *shares, const struct share_tenant *tenant,
                            enum share_class class, uint32_t held)
{
    if (shares->rule == SHARES_OF_TENANTS)
        return share_allows(shares->max, shares->held, tenant->held, 1);
    uint32_t left = shares_least_left(shares_left(shares->max, shares->held),
                                      shares_left(shares->tenant_max, tenant->held));

    assert(tenant->held <= shares->held && tenant->unproven <= shares->unproven);
    assert(shares->unproven <= shares->held && tenant->unproven <= tenant->held);
    if (shares->max < SHARES_MIN)
        return left > 0;
    if (class == SHARE_PROVEN)
        return left > 0 && (held == 0 || held < left);
    left = shares_least_left(left, shares_left(shares->unproven_max, shares->unproven));
    left = shares_least_left(left, shares_left(shares->tenant_unproven_max, tenant->unproven));
    return left > 0 && (held == 0 || held < left / UNPROVEN_PART);
}

/* ---- turns ---- */

static unsigned shares_step(uint32_t held)
{
    unsigned step = 0;

    for (; held > 0 && step < SHARE_STEPS - 1; held >>= 1)
        step++;
    return step;
}

static bool shares_tenant_wants(const struct share_tenant *tenant)
{
    for (size_t class = 0; class < SHARE_CLASSES; class ++)
        for (size_t step = 0; step < SHARE_STEPS; step++)
            if (!list_is_empty(&tenant->targets[class][step]))
                return true;
    return false;
}

void shares_delist(struct share_target *target)
{
    if (list_is_empty(&target->link))
        return;
    list_remove(&target->link);
    if (!shares_tenant_wants(target->tenant))
        list_remove(&target->tenant->link);
}

void shares_enlist(struct shares *shares, struct share_target *target, struct wall now)
{
    struct share_tenant *tenant = target->tenant;
    const enum share_class class =
        shares_is_proven(shares, target->key, now) ? SHARE_PROVEN : SHARE_UNPROVEN;
    struct list *list = &tenant->targets[class][shares_step(target->held)];

    assert(target->held <= tenant->held);
    if (!list_is_empty(&target->link) && target->ready == list)
        return;
    list_remove(&target->link);
    list_push(list, &target->link);
    target->ready = list;
    if (!list_is_empty(&tenant->link) && tenant->blocked_round == shares->round) {
        list_remove(&tenant->link);
        tenant->blocked_round = 0;
    }
    if (list_is_empty(&tenant->link))
        list_push(&shares->ready, &tenant->link);
}

/* Returns the tenant's target of this class that holds the fewest places, if it may take another;
 * otherwise NULL. */
static struct share_target *shares_least(struct shares *shares, struct share_tenant *tenant,
                                         enum share_class class, struct wall now)
{
    for (unsigned step = 0; step < SHARE_STEPS; step++) {
        struct list *list = &tenant->targets[class][step];

        while (!list_is_empty(list)) {
            struct share_target *target = list_item(list->next, struct share_target, link);

            assert(target->tenant == tenant && target->ready == list);
            if (!shares_may_send(shares, tenant, class, step > 0 ? 1u << (step - 1) : 0))
                return NULL;
            if (class == SHARE_UNPROVEN || shares_is_proven(shares, target->key, now))
                return target;
            /* its proof has expired, so it moves to the other class */
            shares_enlist(shares, target, now);
        }
    }
    return NULL;
}

struct share_target *shares_next(struct shares *shares, struct wall now,
                                 enum share_class *ret_class)
{
    while (shares_has_ready(shares)) {
        struct share_tenant *tenant = list_item(shares->ready.next, struct share_tenant, link);
        const enum share_class first = tenant->turn;
        const enum share_class second = first == SHARE_PROVEN ? SHARE_UNPROVEN : SHARE_PROVEN;
        struct share_target *target = shares_least(shares, tenant, first, now);

        assert(tenant->target_count > 0);
        *ret_class = first;
        if (!target) {
            target = shares_least(shares, tenant, second, now);
            *ret_class = second;
        }
        if (!target && second == SHARE_PROVEN) { /* proofs may have expired during the first try */
            target = shares_least(shares, tenant, SHARE_UNPROVEN, now);
            *ret_class = SHARE_UNPROVEN;
        }
        tenant->turn = second;
        list_remove(&tenant->link);
        list_push(target ? &shares->ready : &shares->blocked, &tenant->link);
        tenant->blocked_round = target ? 0 : shares->round;
        if (target) {
            shares_delist(target);
            return target;
        }
    }
    return NULL;
}

/* Aborts unless the tenant is on a list exactly while one of its targets wants a place. */
static void shares_check_turns(const struct share_tenant *tenant)
{
    for (size_t class = 0; class < SHARE_CLASSES; class ++)
        for (size_t step = 0; step < SHARE_STEPS; step++) {
            const struct list *list = &tenant->targets[class][step];

            LIST_FOR_EACH (list, link) {
                const struct share_target *target = list_item(link, struct share_target, link);

                CHECK(target->tenant == tenant && target->ready == list);
                CHECK(shares_step(target->held) == step);
            }
        }
    CHECK(shares_tenant_wants(tenant) == !list_is_empty(&tenant->link));
}

void shares_check(const struct shares *shares)
{
    uint32_t held = 0, unproven = 0;
    size_t cursor = 0;

    for (const struct share_tenant *tenant; (tenant = map_next(&shares->tenants, &cursor));) {
        CHECK(tenant->target_count > 0 && tenant->unproven <= tenant->held);
        CHECK(map_get(&shares->tenants, tenant->key) == tenant);
        shares_check_turns(tenant);
        held += tenant->held;
        unproven += tenant->unproven;
    }
    CHECK(held == shares->held && unproven == shares->unproven && unproven <= held);
    LIST_FOR_EACH (&shares->blocked, link)
        CHECK(list_item(link, struct share_tenant, link)->blocked_round == shares->round);
}
