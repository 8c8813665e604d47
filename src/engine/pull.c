/*
 * Dispatch queues of the built-in queue. They send only on a pull, so a due timer that no
 * worker has asked for yet waits like one whose target has no room: it can be cancelled, changed,
 * and spilled.
 */
#include "engine/dispatch_queue.h"
#include "engine/lanes.h"
#include "engine/order.h"

/* Returns the dispatch queue whose first timer workers get next; NULL if none has one for them. */
static struct dispatch_queue *pull_next(const struct engine *engine, struct bytes queue,
                                        unsigned priority)
{
    struct dispatch_queue *next = NULL;

    for (enum timer_order order = TIMER_ORDER_DUE; order <= TIMER_ORDER_STRICT; order++) {
        struct dispatch_queue *found = dispatch_queue_named(engine, queue, priority, order);

        if (found && !list_is_empty(&found->timers) && !dispatch_queue_is_paused(engine, found) &&
            order_is_open(engine, found) &&
            (!next || dispatch_first(found)->timer->due.ms < dispatch_first(next)->timer->due.ms))
            next = found;
    }
    return next;
}

bool engine_peek(const struct engine *engine, struct bytes queue, unsigned priority,
                 struct wall *ret_due)
{
    const struct dispatch_queue *found = pull_next(engine, queue, priority);

    if (found)
        *ret_due = dispatch_first(found)->timer->due;
    return found;
}

struct delivery *engine_pull(struct engine *engine, struct bytes queue, unsigned priority)
{
    assert(engine->is_in_turn);
    struct delivery *delivery = NULL;
    while (!delivery && !engine->is_draining && !engine->is_held) {
        struct dispatch_queue *found = pull_next(engine, queue, priority);

        if (!found)
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
