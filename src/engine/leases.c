/* The leases of each tenant: their limit, their memory, and the queues that wait for a worker. */
#include "engine/dispatch_queue.h"

#include "base/check.h"
#include "base/share.h"

#include <stdlib.h>

/* ---- tenants ---- */

struct dispatch_lessee *leases_join(struct dispatch *dispatch, uint64_t tenant)
{
    struct dispatch_lessee *lessee = map_get(&dispatch->lessees, tenant);

    if (!lessee) {
        lessee = calloc(1, sizeof(*lessee));
        if (!lessee)
            return NULL;
        lessee->key = tenant;
        if (!budget_open(&dispatch->member, &lessee->claim, BUDGET_LEASES, tenant, tenant)) {
            free(lessee);
            return NULL;
        }
        if (!map_put(&dispatch->lessees, tenant, lessee)) {
            budget_close(&lessee->claim);
            free(lessee);
            return NULL;
        }
    }
    lessee->queue_count++;
    return lessee;
}

void leases_part(struct dispatch *dispatch, struct dispatch_lessee *lessee)
{
    assert(lessee->queue_count > 0);
    if (--lessee->queue_count > 0)
        return;
    assert(lessee->bytes == 0);
    budget_close(&lessee->claim);
    map_remove(&dispatch->lessees, lessee->key);
    free(lessee);
}

/* ---- limits ---- */

/* True if the queue's first timer fits into the memory for leased items, which tenants share like
 * places (base/share.h). One timer may always be leased, however large. */
static bool leases_has_memory(const struct engine *engine, const struct dispatch_queue *queue)
{
    const struct dispatch *dispatch = engine->dispatch;

    assert(dispatch->pulled > 0 || dispatch->pulled_bytes == 0);
    return dispatch->pulled == 0 ||
           share_allows(engine->options.near_bytes_max / 4, dispatch->pulled_bytes,
                        queue->lessee->bytes, entry_footprint(dispatch_first(queue)));
}

bool leases_take_place(struct engine *engine, const struct dispatch_queue *queue)
{
    struct budget_claim *claim = &queue->lessee->claim;

    if (!leases_has_memory(engine, queue))
        return false;
    if (!budget_has_place(claim))
        budget_ask(claim, 1);
    if (budget_has_place(claim) && list_is_empty(&claim->link))
        list_push(&engine->dispatch->leasing, &claim->link);
    return budget_has_place(claim);
}

enum wait_reason leases_reason(const struct engine *engine, const struct dispatch_queue *queue)
{
    const struct budget_claim *claim = &queue->lessee->claim;

    if (claim->asked > 0 && !budget_has_place(claim))
        return WAIT_LEASES;
    return list_is_empty(&queue->timers) || leases_has_memory(engine, queue) ? WAIT_WORKER
                                                                             : WAIT_LEASE_MEMORY;
}

void leases_placed(struct engine *engine, struct budget_claim *claim)
{
    list_remove(&claim->link);
    list_push(&engine->dispatch->leasing, &claim->link);
    engine->dispatch->is_lease_named = false;
    leases_wake_all(engine);
}

void leases_began(struct engine *engine, struct dispatch_queue *queue, const struct entry *entry)
{
    assert(entry->flags & ENTRY_IS_COUNTED);
    assert(engine->dispatch->pulled < engine->dispatch->inflight);
    engine->dispatch->pulled++;
    engine->dispatch->pulled_bytes += entry_footprint(entry);
    queue->lessee->bytes += entry_footprint(entry);
    if (!budget_has_place(&queue->lessee->claim))
        list_remove(&queue->lessee->claim.link);
}

void leases_wake(struct engine *engine, struct dispatch_queue *queue)
{
    assert(!list_is_empty(&queue->timers));
    assert(queue->kind != DISPATCH_PULLED || queue->name_size > 0);
    if (queue->kind == DISPATCH_PULLED && list_is_empty(&queue->link) &&
        !dispatch_queue_is_paused(engine, queue))
        list_push(&engine->dispatch->woken, &queue->link);
}

/* Marks all queues for engine_take_woken. They share the room, so a worker that was refused at any
 * of them may try again. O(queues), once each time that the room was used up. */
void leases_wake_all(struct engine *engine)
{
    engine->dispatch->pull_refused = false;
    size_t cursor = 0;
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        if (!list_is_empty(&queue->timers))
            leases_wake(engine, queue);
}

void leases_ended(struct engine *engine, struct dispatch_queue *queue, const struct entry *entry)
{
    struct dispatch *dispatch = engine->dispatch;

    assert(dispatch->pulled > 0 && dispatch->pulled_bytes >= entry_footprint(entry));
    assert(queue->lessee->bytes >= entry_footprint(entry));
    dispatch->pulled--;
    queue->lessee->bytes -= entry_footprint(entry);
    dispatch->pulled_bytes -= entry_footprint(entry);
    if (dispatch->pull_refused)
        leases_wake_all(engine);
    assert(dispatch->pulled > 0 || dispatch->pulled_bytes == 0);
}

void leases_check(const struct engine *engine)
{
    const struct dispatch *dispatch = engine->dispatch;
    size_t cursor = 0, queues = 0, bytes = 0;

    for (const struct dispatch_lessee *lessee; (lessee = map_next(&dispatch->lessees, &cursor));) {
        CHECK(lessee->queue_count > 0 && map_get(&dispatch->lessees, lessee->key) == lessee);
        queues += lessee->queue_count;
        bytes += lessee->bytes;
    }
    CHECK(bytes == dispatch->pulled_bytes);
    LIST_FOR_EACH (&dispatch->leasing, link)
        CHECK(budget_has_place(list_item(link, struct budget_claim, link)));
    cursor = 0;
    for (const struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        queues -= queue->lessee != NULL;
    CHECK(queues == 0);
}
