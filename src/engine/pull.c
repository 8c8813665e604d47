/*
 * Lanes of the built-in queue. They send only what somebody asks for, so a due timer that nobody
 * has asked for yet waits like one whose target has no room: it can be cancelled, changed, and
 * spilled.
 */
#include "engine/engine_private.h"

#include <assert.h>
#include <stdlib.h>

bool engine_peek(const struct engine *engine, struct bytes queue, unsigned priority,
                 struct wall *ret_due)
{
    const struct lane *lane = lanes_find_queue(engine, queue, priority);

    if (!lane || list_is_empty(&lane->waiting))
        return false;
    *ret_due = entry_of(lane->waiting.next)->timer->due;
    return true;
}

bool engine_peek_next(const struct engine *engine, struct bytes queue, unsigned priority,
                      const void **cursor, struct wall *ret_due, size_t *ret_bytes)
{
    const struct lane *lane = lanes_find_queue(engine, queue, priority);
    const struct list *last = *cursor ? *cursor : (lane ? &lane->waiting : NULL);

    if (!lane || last->next == &lane->waiting)
        return false;
    *cursor = last->next;
    *ret_due = entry_of(last->next)->timer->due;
    *ret_bytes = entry_footprint(entry_of(last->next));
    return true;
}

/* One timer may always be out, however large it is. */
bool pull_has_room(const struct engine *engine, const struct entry *entry)
{
    return engine->pulled == 0 ||
           (engine->pulled < engine->options.pulled_max &&
            engine->pulled_bytes + entry_footprint(entry) <= engine->options.near_bytes_max / 4);
}

void pull_lent(struct engine *engine, const struct entry *entry)
{
    engine->pulled++;
    engine->pulled_bytes += entry_footprint(entry);
}

/* Whoever was refused may try again, in any queue, for the room is one for all of them. O(lanes),
 * but once for each time that the room was exhausted. */
static void wake_refused(struct engine *engine)
{
    size_t cursor = 0;
    struct lane *lane;

    engine->pull_refused = false;
    while ((lane = map_next(&engine->lanes, &cursor)))
        if (lane->kind == LANE_PULLED && !list_is_empty(&lane->waiting) &&
            list_is_empty(&lane->link))
            list_push(&engine->woken, &lane->link);
}

void pull_returned(struct engine *engine, const struct entry *entry)
{
    assert(engine->pulled > 0 && engine->pulled_bytes >= entry_footprint(entry));
    engine->pulled--;
    engine->pulled_bytes -= entry_footprint(entry);
    if (engine->pull_refused)
        wake_refused(engine);
}

/* False when there is nothing to lend now. */
static bool lend_or_drop(struct engine *engine, struct bytes queue, unsigned priority,
                         struct list *pulled)
{
    struct lane *lane = lanes_find_queue(engine, queue, priority);

    if (!lane || list_is_empty(&lane->waiting) || engine->is_draining)
        return false;
    if (!pull_has_room(engine, entry_of(lane->waiting.next))) {
        engine->pull_refused = true;
        return false;
    }
    return lanes_lend(engine, lane, pulled);
}

struct delivery *engine_pull(struct engine *engine, struct bytes queue, unsigned priority)
{
    struct list pulled, *link;

    assert(engine->is_in_turn);
    list_init(&pulled);
    while (list_is_empty(&pulled) && lend_or_drop(engine, queue, priority, &pulled))
        continue;
    link = list_pop(&pulled);
    return link ? list_item(link, struct delivery, link) : NULL;
}

bool engine_take_woken(struct engine *engine, struct bytes *ret_queue)
{
    struct list *link = list_pop(&engine->woken);
    struct lane *lane;

    if (!link)
        return false;
    lane = list_item(link, struct lane, link);
    *ret_queue = (struct bytes){lane->queue, lane->queue_size};
    return true;
}
