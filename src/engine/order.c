/* Strict order of the items of a built-in queue. */
#include "engine/order.h"

#include "engine/commit.h"
#include "engine/window.h"

#define ORDER_MARK_LAST ((struct order_mark){WALL_NEVER, UINT64_MAX})

static struct order_mark order_mark_of(const struct timer *timer)
{
    return (struct order_mark){timer->due, timer->id.serial};
}

static bool order_mark_before(struct order_mark a, struct order_mark b)
{
    return a.due.ms != b.due.ms ? a.due.ms < b.due.ms : a.serial < b.serial;
}

static struct order_mark order_mark_min(struct order_mark a, struct order_mark b)
{
    return order_mark_before(a, b) ? a : b;
}

/* ---- pauses ----
 *
 * An entry that is QUEUED keeps the end of its pause in the part of `waited_ms` that built-in
 * queues do not use. While it is away, `found_due` has that time. */

static struct wall order_pause_of(const struct entry *entry)
{
    struct wall until;

    memcpy(&until.ms, entry->waited_ms + 2, sizeof(until.ms));
    return until;
}

void order_joins(const struct dispatch_queue *queue, struct entry *entry)
{
    const bool is_paused =
        entry->flags & ENTRY_KEEPS_PLACE && entry->timer->state == TIMER_RETRYING;
    const struct wall until = is_paused ? entry->found_due : (struct wall){0};

    assert(queue->kind == DISPATCH_PULLED && queue->is_strict);
    memcpy(entry->waited_ms + 2, &until.ms, sizeof(until.ms));
}

struct wall order_paused_until(const struct dispatch_queue *queue)
{
    const struct entry *first = dispatch_first(queue);

    assert(queue->is_strict);
    return first ? order_pause_of(first) : (struct wall){0};
}

/* ---- whether workers may get the first item ---- */

static bool order_has_no_earlier(const struct engine *engine, const struct dispatch_queue *queue)
{
    const struct timer *first = dispatch_first(queue)->timer;
    const struct wall reached = wall_min(engine->now, wall_max(first->at, first->due));

    return engine->dispatch->order_is_known && queue->away == 0 &&
           order_pause_of(dispatch_first(queue)).ms <= engine->now.ms &&
           order_is_before_spilled(queue, first) && window_has_passed(engine, reached);
}

bool order_is_open(const struct engine *engine, struct dispatch_queue *queue)
{
    if (!queue->is_strict || list_is_empty(&queue->timers) || order_has_no_earlier(engine, queue))
        return true;
    if (list_is_empty(&queue->closed))
        list_push(&engine->dispatch->closed, &queue->closed);
    return false;
}

struct dispatch_queue *order_reopened(struct engine *engine)
{
    LIST_FOR_EACH (&engine->dispatch->closed, link) {
        struct dispatch_queue *queue = list_item(link, struct dispatch_queue, closed);

        if (!list_is_empty(&queue->timers) && !order_has_no_earlier(engine, queue))
            continue;
        list_remove(&queue->closed);
        return queue;
    }
    return NULL;
}

bool order_is_before_last(const struct dispatch_queue *queue, const struct timer *timer)
{
    return queue->is_strict && !list_is_empty(&queue->timers) &&
           order_mark_before(order_mark_of(timer),
                             order_mark_of(entry_of(queue->timers.prev)->timer));
}

bool order_is_before_spilled(const struct dispatch_queue *queue, const struct timer *timer)
{
    return order_mark_before(order_mark_of(timer), queue->spilled);
}

/* ---- away ---- */

void order_went_away(struct dispatch_queue *queue, struct entry *entry)
{
    assert(queue->is_strict && !(entry->flags & ENTRY_KEEPS_PLACE));
    assert(entry->queue == queue->key);
    if (entry->phase == ENTRY_QUEUED)
        entry->found_due = order_pause_of(entry);
    else if (entry->phase != ENTRY_INFLIGHT)
        entry->found_due = (struct wall){0};
    entry->flags |= ENTRY_KEEPS_PLACE;
    queue->away++;
}

struct dispatch_queue *order_came_back(const struct engine *engine, struct entry *entry)
{
    const bool was_away = entry->flags & ENTRY_KEEPS_PLACE;
    const bool was_spilling = entry->flags & ENTRY_IS_SET_ASIDE;

    if (!was_away && !was_spilling)
        return NULL;
    struct dispatch_queue *queue = map_get(&engine->dispatch->queues, entry->queue);
    assert(queue && queue->away >= was_away && queue->spilling >= was_spilling);
    entry->flags &= ~(uint32_t)(ENTRY_KEEPS_PLACE | ENTRY_IS_SET_ASIDE);
    queue->away -= was_away;
    queue->spilling -= was_spilling;
    return queue;
}

bool order_comes_back(const struct engine *engine, const struct entry *entry)
{
    const struct timer *timer = entry->timer;

    return entry->phase == ENTRY_WRITING ||
           (entry->phase == ENTRY_SCHEDULED && timer->state != TIMER_PAUSED &&
            timer->due.ms <= engine->now.ms);
}

/* ---- spilled ---- */

void order_spilled(const struct engine *engine, struct dispatch_queue *queue,
                   const struct timer *timer)
{
    if (!queue) {
        engine->dispatch->order_is_known = false;
        engine->dispatch->order_was_missed = true;
    } else if (queue->is_strict) {
        queue->spilled = order_mark_min(queue->spilled, order_mark_of(timer));
        queue->spilled_since = order_mark_min(queue->spilled_since, order_mark_of(timer));
    }
}

void order_spills(struct engine *engine, struct dispatch_queue *queue, struct entry *entry)
{
    if (timer_order(entry->timer) != TIMER_ORDER_STRICT)
        return;
    order_spilled(engine, queue, entry->timer);
    order_came_back(engine, entry); /* it waits for room now */
    if (!queue || !queue->is_strict)
        return;
    entry->queue = queue->key;
    entry->flags |= ENTRY_IS_SET_ASIDE;
    queue->spilling++;
}

void order_scan_begins(struct engine *engine)
{
    size_t cursor = 0;

    engine->dispatch->order_was_missed = false;
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        queue->spilled_since = ORDER_MARK_LAST;
}

/* Notes the timers whose spilled rows are not durable: the scan may have missed them. */
static void order_note_spilling(const struct engine *engine, const struct list *entries)
{
    LIST_FOR_EACH (entries, link) {
        const struct entry *entry = entry_of(link);

        if (entry->flags & ENTRY_IS_SET_ASIDE)
            order_spilled(engine, map_get(&engine->dispatch->queues, entry->queue), entry->timer);
    }
}

void order_scan_ends(struct engine *engine, bool is_whole)
{
    size_t cursor = 0;

    if (!is_whole)
        return;
    engine->dispatch->order_is_known = !engine->dispatch->order_was_missed;
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        queue->spilled = queue->spilled_since;
    order_note_spilling(engine, entries_busy(engine->entries));
    order_note_spilling(engine, commit_rewrites(engine));
}
