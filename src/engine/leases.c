/*
 * Dispatch queues of the built-in queue. They send only on a pull, so a due timer that no
 * worker has asked for yet waits like one whose target has no room: it can be cancelled, changed,
 * and spilled.
 */
#include "engine/dispatch_queue.h"

#include <assert.h>

bool engine_peek(const struct engine *engine, struct bytes queue, unsigned priority,
                 struct wall *ret_due)
{
    const void *cursor = NULL;
    size_t bytes;

    return engine_peek_next(engine, queue, priority, &cursor, ret_due, &bytes);
}

bool engine_peek_next(const struct engine *engine, struct bytes queue, unsigned priority,
                      const void **cursor, struct wall *ret_due, size_t *ret_bytes)
{
    const struct dispatch_queue *found = dispatch_queue_named(engine, queue, priority);
    const struct list *last = *cursor ? *cursor : (found ? &found->timers : NULL);

    assert(found || !*cursor);
    if (!found || last->next == &found->timers || dispatch_queue_is_paused(engine, found))
        return false;
    assert(entry_of(last->next)->phase == ENTRY_QUEUED &&
           entry_of(last->next)->queue == found->key);
    *cursor = last->next;
    *ret_due = entry_of(last->next)->timer->due;
    *ret_bytes = entry_footprint(entry_of(last->next));
    return true;
}

/* One timer may always be in flight, however large it is. */
static bool leases_has_memory(const struct engine *engine, const struct entry *entry)
{
    const struct dispatch *dispatch = engine->dispatch;

    assert(dispatch->pulled > 0 || dispatch->pulled_bytes == 0);
    assert(entry->phase == ENTRY_QUEUED);
    return dispatch->pulled == 0 ||
           dispatch->pulled_bytes + entry_footprint(entry) <= engine->options.near_bytes_max / 4;
}

/* False: the engine waits for a place now. */
static bool leases_has_place(struct engine *engine)
{
    struct budget_claim *leases = &engine->dispatch->leases;

    if (!budget_has_place(leases))
        budget_ask(leases, 1);
    return budget_has_place(leases);
}

void leases_placed(struct engine *engine)
{
    engine->dispatch->is_lease_named = false;
    leases_wake_all(engine);
}

void leases_began(struct engine *engine, const struct entry *entry)
{
    assert(entry->flags & ENTRY_IS_COUNTED);
    assert(engine->dispatch->pulled < engine->dispatch->inflight);
    engine->dispatch->pulled++;
    engine->dispatch->pulled_bytes += entry_footprint(entry);
}

void leases_wake(struct engine *engine, struct dispatch_queue *queue)
{
    assert(!list_is_empty(&queue->timers));
    assert(queue->kind != DISPATCH_PULLED || queue->name_size > 0);
    if (queue->kind == DISPATCH_PULLED && list_is_empty(&queue->link) &&
        !dispatch_queue_is_paused(engine, queue))
        list_push(&engine->dispatch->woken, &queue->link);
}

/* A worker that was refused may try again, in any queue, for the room is one for all of them.
 * O(queues), but once for each time that the room was exhausted. */
void leases_wake_all(struct engine *engine)
{
    engine->dispatch->pull_refused = false;
    size_t cursor = 0;
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        if (!list_is_empty(&queue->timers))
            leases_wake(engine, queue);
}

void leases_ended(struct engine *engine, const struct entry *entry)
{
    struct dispatch *dispatch = engine->dispatch;

    assert(dispatch->pulled > 0 && dispatch->pulled_bytes >= entry_footprint(entry));
    dispatch->pulled--;
    dispatch->pulled_bytes -= entry_footprint(entry);
    if (dispatch->pull_refused)
        leases_wake_all(engine);
    assert(dispatch->pulled > 0 || dispatch->pulled_bytes == 0);
}

struct delivery *engine_pull(struct engine *engine, struct bytes queue, unsigned priority)
{
    assert(engine->is_in_turn);
    struct delivery *delivery = NULL;
    while (!delivery && !engine->is_draining && !engine->is_held) {
        struct dispatch_queue *found = dispatch_queue_named(engine, queue, priority);

        if (!found || list_is_empty(&found->timers) || dispatch_queue_is_paused(engine, found))
            break;
        if (!leases_has_memory(engine, dispatch_first(found)) || !leases_has_place(engine)) {
            engine->dispatch->pull_refused = true;
            break;
        }
        if (!dispatch_deliver(engine, found, &delivery))
            break;
    }
    assert(!delivery || engine->dispatch->pulled > 0);
    return delivery;
}

void engine_end_pulls(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;

    if (budget_has_place(&dispatch->leases) && dispatch->is_lease_named)
        budget_ask(&dispatch->leases, 0);
}

bool engine_take_woken(struct engine *engine, struct bytes *ret_queue)
{
    struct list *link = list_pop(&engine->dispatch->woken);

    if (!link) {
        engine->dispatch->is_lease_named = true;
        return false;
    }
    const struct dispatch_queue *queue = list_item(link, struct dispatch_queue, link);
    assert(queue->kind == DISPATCH_PULLED);
    assert(queue->name_size > 0 && queue->name_size <= sizeof(queue->name));
    *ret_queue = (struct bytes){queue->name, queue->name_size};
    return true;
}
