/*
 * Lanes: timers that wait for their flow, in due order, a lane for each flow and target.
 *
 *     queue of the target ──no start allowed──► lane ──called──► front of that queue
 *
 * A timer at the head of its target's queue asks its flow when it could start. If the flow refuses,
 * the timer moves aside to a lane, so that it does not hold up the timers after it. Timers of the
 * same flow and target that become due later join the lane. When the flow has a place again, one
 * lane calls its first timer, and there the timer asks once more. If that target cannot start it
 * now, the called timer waits there without a place, and the next lane calls. So the targets of a
 * flow take turns, each in due order, and one that is paused, or has no worker, holds up no other.
 *
 * A lane is a dispatch queue: its timers are cancelled, spilled, counted and explained like others.
 */
#include "engine/lanes.h"

#include "engine/dispatch_line.h"

/* Makes the timer's lane if needed. Returns NULL if out of memory. */
static struct dispatch_queue *lanes_get(struct engine *engine, const struct dispatch_name *name)
{
    struct dispatch_name of_lane = *name;

    dispatch_name_lane(&of_lane);
    return dispatch_queue_get(engine, &of_lane);
}

/* True if a timer of the same lane is before this one. */
static bool lanes_is_overtaking(const struct dispatch_queue *lane, const struct entry *entry)
{
    const struct entry *first = lane ? dispatch_first(lane) : NULL;

    return first && !(entry->flags & ENTRY_IS_CALLED) &&
           first->timer->due.ms < entry->timer->due.ms;
}

enum lanes_answer lanes_admit(struct engine *engine, struct dispatch_queue *queue,
                              struct entry *entry)
{
    struct dispatch_name name;

    if (entry->timer->texts.flow.size == 0)
        return LANES_STARTS;
    dispatch_name_of(engine, entry->timer, &name);
    struct dispatch_flow *flow = flows_get(engine->dispatch, name.flow, name.tenant);
    if (!flow)
        return LANES_NO_MEMORY;
    if (!lanes_is_overtaking(dispatch_queue_by_key(engine, name.lane), entry) &&
        flows_paused_until(engine, entry->timer).ms == 0 &&
        flows_take_place(engine, flow, entry->timer))
        return LANES_STARTS;
    struct dispatch_queue *lane = lanes_get(engine, &name);
    if (!lane) {
        flows_settle(engine, flow);
        return LANES_NO_MEMORY;
    }
    const bool was_called = entry->flags & ENTRY_IS_CALLED;
    dispatch_count_out(engine, queue, entry);
    dispatch_enqueue(engine, lane, entry, was_called ? DISPATCH_FRONT : DISPATCH_BACK);
    dispatch_queue_update(engine, queue);
    return LANES_WAITS;
}

/* Returns the next lane of the flow that may call a timer; NULL if there is none. */
static struct dispatch_queue *lanes_next(struct engine *engine, struct dispatch_flow *flow)
{
    LIST_FOR_EACH (&flow->lanes, link) {
        struct dispatch_queue *lane = list_item(link, struct dispatch_queue, link);

        if (flows_may_call(engine, lane))
            return lane;
    }
    return NULL;
}

/* Moves the lane's first timer to the front of its target's queue. */
static bool lanes_call_first(struct engine *engine, struct dispatch_queue *lane)
{
    struct entry *entry = dispatch_first(lane);
    struct dispatch_name name;

    dispatch_name_of(engine, entry->timer, &name);
    struct dispatch_queue *queue = dispatch_queue_get(engine, &name);
    if (!queue)
        return false;
    list_remove(&lane->link);
    list_push(&lane->flow->lanes, &lane->link);
    dispatch_count_out(engine, lane, entry);
    lane->called++;
    entry->flags |= ENTRY_IS_CALLED;
    dispatch_enqueue(engine, queue, entry, DISPATCH_FRONT);
    dispatch_queue_update(engine, lane);
    return true;
}

/* Sets the alarms of the flow's lanes to the time of its next start. */
static void lanes_wait(struct engine *engine, struct dispatch_flow *flow)
{
    size_t count = 0;

    LIST_FOR_EACH (&flow->lanes, link)
        count++;
    while (count-- > 0) {
        struct list *link = list_pop(&flow->lanes);

        list_push(&flow->lanes, link);
        struct dispatch_queue *lane = list_item(link, struct dispatch_queue, link);
        if (!list_is_empty(&lane->timers))
            dispatch_queue_update(engine, lane);
    }
}

void lanes_call(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;
    struct list ready;

    for (struct list *link; (link = list_pop(&dispatch->lanes_changed));)
        dispatch_queue_update(engine, list_item(link, struct dispatch_queue, changed));
    list_init(&ready);
    list_join(&ready, &dispatch->flows_ready);
    for (struct list *link; (link = list_pop(&ready));) {
        struct dispatch_flow *flow = list_item(link, struct dispatch_flow, link);
        struct dispatch_queue *lane = lanes_next(engine, flow);

        if (flow->next_at.ms > engine->now.ms) {
            lanes_wait(engine, flow);
            continue;
        }
        if (!lane || !flows_has_place(engine, flow, dispatch_first(lane)->timer))
            continue;
        if (lanes_call_first(engine, lane))
            list_push(&dispatch->flows_called, &flow->link);
    }
}

void lanes_look_back(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;

    for (struct list *link; (link = list_pop(&dispatch->flows_called));) {
        struct dispatch_flow *flow = list_item(link, struct dispatch_flow, link);

        if (lanes_next(engine, flow))
            flows_mark(engine, flow);
        else if (budget_has_place(&flow->claim))
            budget_ask(&flow->claim, 0);
    }
}
