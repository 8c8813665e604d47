/* Timers join and leave a dispatch queue. */
#include "engine/dispatch_line.h"

#include "engine/order.h"

/* True if the entry with this link is before the other one in a lane. */
static bool dispatch_line_before(struct list *link, const struct entry *other)
{
    const struct timer *a = entry_of(link)->timer, *b = other->timer;

    return a->due.ms != b->due.ms ? a->due.ms < b->due.ms : a->id.serial < b->id.serial;
}

/* Adds a timer to a lane, or to a queue in strict order, in due order. The search begins at the
 * front for a timer that returns, and otherwise where the last one was added, so that timers which
 * come in due order cost O(1). */
static void dispatch_line_insert(struct dispatch_queue *lane, struct entry *entry,
                                 enum dispatch_end end)
{
    struct list *head = &lane->timers;
    struct list *at = end == DISPATCH_FRONT ? head : lane->place ? lane->place : head->prev;

    while (at != head && !dispatch_line_before(at, entry))
        at = at->prev;
    while (at->next != head && dispatch_line_before(at->next, entry))
        at = at->next;
    list_push_front(at, &entry->link);
    if (end == DISPATCH_BACK)
        lane->place = &entry->link;
}

static void dispatch_line_push(struct dispatch_queue *queue, struct entry *entry,
                               enum dispatch_end end)
{
    const uint64_t due_ms = entry->timer->due.ms;

    if (list_is_empty(&queue->timers))
        queue->is_mixed = false;
    if (queue->kind == DISPATCH_LANE || queue->is_strict) {
        dispatch_line_insert(queue, entry, end);
    } else if (end == DISPATCH_FRONT) {
        list_push_front(&queue->timers, &entry->link);
        queue->is_mixed |= entry->link.next != &queue->timers &&
                           entry_of(entry->link.next)->timer->due.ms < due_ms;
    } else {
        list_push(&queue->timers, &entry->link);
        queue->is_mixed |= entry->link.prev != &queue->timers &&
                           entry_of(entry->link.prev)->timer->due.ms > due_ms;
    }
}

void dispatch_enqueue(struct engine *engine, struct dispatch_queue *queue, struct entry *entry,
                      enum dispatch_end end)
{
    struct dispatch *dispatch = engine->dispatch;
    size_t bytes = entry_footprint(entry);

    assert(entry->row_at.ms == entry->timer->at.ms);
    assert(!timer_is_final(entry->timer->state));
    assert(entry->flags & ENTRY_IS_COUNTED);
    const bool is_first = list_is_empty(&queue->timers);
    entries_set_phase(engine->entries, entry, ENTRY_QUEUED);
    entries_queue(engine->entries, entry);
    dispatch_line_push(queue, entry, end);
    if (is_first) {
        dispatch_queue_look_at_pause(engine, queue);
        dispatch_queue_look_at_limits(engine, queue);
    }
    dispatch_queue_account(engine, queue, queue->reason);
    memcpy(entry->waited_ms, queue->waited_ms, sizeof(queue->waited_ms));
    if (queue->kind == DISPATCH_PULLED) /* which adds nothing up */
        memcpy(entry->waited_ms, &engine->now.ms, sizeof(engine->now.ms));
    if (queue->is_strict)
        order_joins(queue, entry);
    struct dispatch_queue *left = order_came_back(engine, entry);
    entry->queue = queue->key;
    dispatch->catching_up += queue->kind == DISPATCH_OVERDUE;
    queue->count++;
    queue->bytes += bytes;
    dispatch->queued_bytes += bytes;
    dispatch->queued++;
    leases_wake(engine, queue);
    dispatch_queue_update(engine, queue);
    if (left && left != queue)
        dispatch_queue_update(engine, left);
}

/* Records that a timer which its lane called has left the queue of its target. */
static void dispatch_line_end_call(struct engine *engine, struct entry *entry)
{
    struct dispatch_name name;

    dispatch_name_of(engine, entry->timer, &name);
    struct dispatch_queue *lane = dispatch_queue_by_key(engine, name.lane);
    assert(lane && lane->called > 0);
    entry->flags &= ~(uint32_t)ENTRY_IS_CALLED;
    lane->called--;
    if (list_is_empty(&lane->changed))
        list_push(&engine->dispatch->lanes_changed, &lane->changed);
}

void dispatch_count_out(struct engine *engine, struct dispatch_queue *queue, struct entry *entry)
{
    struct dispatch *dispatch = engine->dispatch;
    size_t bytes = entry_footprint(entry);

    assert(queue->key == entry->queue);
    assert(entry->phase == ENTRY_QUEUED);
    assert(queue->bytes >= bytes && dispatch->queued_bytes >= bytes && dispatch->queued > 0);
    if (queue->place == &entry->link)
        queue->place = entry->link.prev;
    list_remove(&entry->link);
    queue->count--;
    queue->bytes -= bytes;
    dispatch->queued_bytes -= bytes;
    dispatch->queued--;
    dispatch->catching_up -= queue->kind == DISPATCH_OVERDUE;
    if (entry->flags & ENTRY_IS_CALLED)
        dispatch_line_end_call(engine, entry);
    assert(dispatch->queued > 0 || dispatch->queued_bytes == 0);
}
