/*
 * Dispatch queues of the built-in queue. They send only on a pull, so a due timer that no
 * worker has asked for yet waits like one whose target has no room: it can be cancelled, changed,
 * and spilled.
 */
#include "engine/dispatch_queue.h"
#include "engine/lanes.h"

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

struct delivery *engine_pull(struct engine *engine, struct bytes queue, unsigned priority)
{
    assert(engine->is_in_turn);
    struct delivery *delivery = NULL;
    while (!delivery && !engine->is_draining && !engine->is_held) {
        struct dispatch_queue *found = dispatch_queue_named(engine, queue, priority);

        if (!found || list_is_empty(&found->timers) || dispatch_queue_is_paused(engine, found))
            break;
        if (!leases_take_place(engine, found)) {
            engine->dispatch->pull_refused = true;
            break;
        }
        if (!dispatch_deliver(engine, found, &delivery))
            break;
        lanes_call(engine);
        lanes_look_back(engine);
    }
    assert(!delivery || engine->dispatch->pulled > 0);
    return delivery;
}

void engine_end_pulls(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;

    LIST_FOR_EACH (&dispatch->leasing, link) {
        struct budget_claim *claim = list_item(link, struct budget_claim, link);

        if (!dispatch->is_lease_named)
            break;
        list_remove(link);
        budget_ask(claim, 0);
    }
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
