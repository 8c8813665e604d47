/* Shares of the places in flight: the tenants, the proofs, and the choice of the next queue. */
#include "engine/shares.h"

#include "base/check.h"
#include "engine/dispatch_queue.h"

#include <assert.h>
#include <stdlib.h>

/* An unproven target may hold this part of the places that are left. */
#define UNPROVEN_PART 8

struct shares *shares_create(uint32_t inflight_max)
{
    struct shares *shares = calloc(1, sizeof(*shares));

    if (!shares)
        return NULL;
    shares->max = shares->unproven_max = shares->tenant_max = shares->tenant_unproven_max =
        inflight_max;
    if (inflight_max >= SHARES_MIN) {
        shares->unproven_max = shares->tenant_max = inflight_max - inflight_max / 8;
        shares->tenant_unproven_max = shares->unproven_max / 2;
    }
    map_init(&shares->tenants);
    list_init(&shares->ready);
    return shares;
}

void shares_destroy(struct shares *shares)
{
    if (!shares)
        return;
    size_t cursor = 0;
    for (struct share_tenant *tenant; (tenant = map_next(&shares->tenants, &cursor));)
        free(tenant);
    map_deinit(&shares->tenants);
    free(shares);
}

/* ---- tenants ---- */

struct share_tenant *shares_join(struct shares *shares, uint64_t tenant_key)
{
    struct share_tenant *tenant = map_get(&shares->tenants, tenant_key);

    if (!tenant) {
        tenant = calloc(1, sizeof(*tenant));
        if (!tenant)
            return NULL;
        tenant->key = tenant_key;
        list_init(&tenant->link);
        for (size_t class = 0; class < SHARE_CLASSES; class ++)
            for (size_t step = 0; step < SHARE_STEPS; step++)
                list_init(&tenant->queues[class][step]);
        if (!map_put(&shares->tenants, tenant_key, tenant)) {
            free(tenant);
            return NULL;
        }
    }
    assert(tenant->key == tenant_key && tenant->queue_count < UINT32_MAX);
    assert(tenant->inflight <= shares->inflight);
    tenant->queue_count++;
    return tenant;
}

void shares_part(struct shares *shares, struct share_tenant *tenant)
{
    assert(tenant->queue_count > 0);
    if (--tenant->queue_count > 0)
        return;
    assert(tenant->inflight == 0);
    list_remove(&tenant->link);
    map_remove(&shares->tenants, tenant->key);
    free(tenant);
}

/* ---- proofs ---- */

bool shares_is_proven(const struct shares *shares, uint64_t queue_key, struct wall now)
{
    const size_t slot = queue_key % SHARES_PROOFS;

    assert(shares->proofs[slot].key % SHARES_PROOFS == slot || !shares->proofs[slot].answered.ms);
    return shares->proofs[slot].key == queue_key && shares->proofs[slot].answered.ms > 0 &&
           wall_since(shares->proofs[slot].answered, now) < SHARES_PROOF_MS;
}

void shares_prove(struct shares *shares, uint64_t queue_key, struct wall now)
{
    const size_t slot = queue_key % SHARES_PROOFS;

    assert(now.ms > 0);
    shares->proofs[slot].key = queue_key;
    shares->proofs[slot].answered = now;
}

void shares_disprove(struct shares *shares, uint64_t queue_key)
{
    const size_t slot = queue_key % SHARES_PROOFS;

    if (shares->proofs[slot].key == queue_key)
        shares->proofs[slot].answered = (struct wall){0};
}

/* ---- places ---- */

void shares_begin(struct shares *shares, struct share_tenant *tenant, enum share_class class)
{
    assert(tenant->inflight <= shares->inflight);
    assert(tenant->queue_count > 0 && tenant->unproven <= tenant->inflight);
    assert(shares->inflight < shares->max);
    shares->inflight++;
    tenant->inflight++;
    shares->unproven += class == SHARE_UNPROVEN;
    tenant->unproven += class == SHARE_UNPROVEN;
}

void shares_end(struct shares *shares, struct share_tenant *tenant, enum share_class class)
{
    assert(shares->inflight > 0 && tenant->inflight > 0);
    assert(class == SHARE_PROVEN || (shares->unproven > 0 && tenant->unproven > 0));
    shares->inflight--;
    tenant->inflight--;
    shares->unproven -= class == SHARE_UNPROVEN;
    tenant->unproven -= class == SHARE_UNPROVEN;
}

static uint32_t shares_left(uint32_t max, uint32_t held)
{
    return held < max ? max - held : 0;
}

static uint32_t shares_least_left(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Whether a queue of the tenant that holds `held` places may take another one. */
static bool shares_may_send(const struct shares *shares, const struct share_tenant *tenant,
                            enum share_class class, uint32_t held)
{
    uint32_t left = shares_least_left(shares_left(shares->max, shares->inflight),
                                      shares_left(shares->tenant_max, tenant->inflight));

    assert(tenant->inflight <= shares->inflight && tenant->unproven <= shares->unproven);
    assert(shares->unproven <= shares->inflight && tenant->unproven <= tenant->inflight);
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

void shares_delist(struct dispatch_queue *queue)
{
    struct share_tenant *tenant = queue->tenant;

    assert(queue->kind == DISPATCH_WEBHOOK);
    assert(tenant->queue_count > 0);
    list_remove(&queue->link);
    for (size_t class = 0; class < SHARE_CLASSES; class ++)
        for (size_t step = 0; step < SHARE_STEPS; step++)
            if (!list_is_empty(&tenant->queues[class][step]))
                return;
    list_remove(&tenant->link);
}

void shares_enlist(struct shares *shares, struct dispatch_queue *queue, struct wall now)
{
    struct share_tenant *tenant = queue->tenant;
    const enum share_class class =
        shares_is_proven(shares, queue->key, now) ? SHARE_PROVEN : SHARE_UNPROVEN;
    struct list *list = &tenant->queues[class][shares_step(queue->inflight)];

    assert(queue->kind == DISPATCH_WEBHOOK && !list_is_empty(&queue->timers));
    assert(queue->inflight <= tenant->inflight);
    if (!list_is_empty(&queue->link) && queue->ready == list)
        return;
    list_remove(&queue->link);
    list_push(list, &queue->link);
    queue->ready = list;
    if (list_is_empty(&tenant->link))
        list_push(&shares->ready, &tenant->link);
}

/* The queue of this class that holds the least, if it may send. */
static struct dispatch_queue *shares_least(struct shares *shares, struct share_tenant *tenant,
                                           enum share_class class, struct wall now)
{
    for (unsigned step = 0; step < SHARE_STEPS; step++) {
        struct list *list = &tenant->queues[class][step];

        while (!list_is_empty(list)) {
            struct dispatch_queue *queue = list_item(list->next, struct dispatch_queue, link);

            assert(queue->tenant == tenant && queue->ready == list);
            assert(!list_is_empty(&queue->timers));
            if (!shares_may_send(shares, tenant, class, step > 0 ? 1u << (step - 1) : 0))
                return NULL;
            if (class == SHARE_UNPROVEN || shares_is_proven(shares, queue->key, now))
                return queue;
            shares_enlist(shares, queue, now); /* its proof has lapsed */
        }
    }
    return NULL;
}

struct dispatch_queue *shares_next(struct shares *shares, struct wall now, struct list *blocked)
{
    while (!list_is_empty(&shares->ready)) {
        struct share_tenant *tenant = list_item(shares->ready.next, struct share_tenant, link);
        const enum share_class first = tenant->turn;
        const enum share_class second = first == SHARE_PROVEN ? SHARE_UNPROVEN : SHARE_PROVEN;
        struct dispatch_queue *queue = shares_least(shares, tenant, first, now);

        assert(tenant->queue_count > 0);
        if (!queue)
            queue = shares_least(shares, tenant, second, now);
        tenant->turn = second;
        list_remove(&tenant->link);
        list_push(queue ? &shares->ready : blocked, &tenant->link);
        if (queue) {
            shares_delist(queue);
            return queue;
        }
    }
    return NULL;
}

/* A tenant takes turns while one of its queues may send. */
static void shares_check_turns(const struct share_tenant *tenant)
{
    bool has_any = false;

    for (size_t class = 0; class < SHARE_CLASSES; class ++)
        for (size_t step = 0; step < SHARE_STEPS; step++) {
            const struct list *list = &tenant->queues[class][step];

            has_any |= !list_is_empty(list);
            LIST_FOR_EACH (list, link) {
                const struct dispatch_queue *queue = list_item(link, struct dispatch_queue, link);

                CHECK(queue->tenant == tenant && queue->ready == list);
            }
        }
    CHECK(has_any == !list_is_empty(&tenant->link));
}

void shares_check(const struct shares *shares)
{
    uint32_t inflight = 0, unproven = 0;
    size_t cursor = 0;

    for (const struct share_tenant *tenant; (tenant = map_next(&shares->tenants, &cursor));) {
        CHECK(tenant->queue_count > 0 && tenant->unproven <= tenant->inflight);
        CHECK(tenant->inflight <= shares->tenant_max);
        CHECK(tenant->unproven <= shares->tenant_unproven_max);
        CHECK(map_get(&shares->tenants, tenant->key) == tenant);
        shares_check_turns(tenant);
        inflight += tenant->inflight;
        unproven += tenant->unproven;
    }
    CHECK(inflight == shares->inflight && inflight <= shares->max);
    CHECK(unproven == shares->unproven && unproven <= shares->unproven_max);
}
