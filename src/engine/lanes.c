/*
 * Due timers, queued by the origin of their target: each origin has a lane and at most so many
 * deliveries out, so that one that is dead or slow fills its own lane only. Lanes with room take
 * turns.
 */
#include "engine/engine_private.h"

#include <assert.h>
#include <stdlib.h>

static uint64_t origin_hash(struct bytes target)
{
    struct bytes origin = timer_target_origin(target);
    uint64_t hash = random_mix(origin.size);

    for (size_t i = 0; i < origin.size; i += 8) {
        size_t left = origin.size - i;

        hash = random_mix(hash ^ get_le(origin.data + i, left < 8 ? left : 8));
    }
    return hash;
}

static struct lane *lane_get(struct engine *engine, uint64_t origin)
{
    struct lane *lane = map_get(&engine->lanes, origin);

    if (lane)
        return lane;
    lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    list_init(&lane->waiting);
    list_init(&lane->link);
    lane->origin = origin;
    if (!map_put(&engine->lanes, origin, lane)) {
        free(lane);
        return NULL;
    }
    return lane;
}

/* Brings the lane onto or off the list of those that may send, and frees it when it is of no use.
 */
static void lane_update(struct engine *engine, struct lane *lane)
{
    bool may_send =
        !list_is_empty(&lane->waiting) && lane->inflight < engine->options.target_inflight_max;

    if (!may_send)
        list_remove(&lane->link);
    else if (list_is_empty(&lane->link))
        list_push(&engine->ready, &lane->link);
    if (list_is_empty(&lane->waiting) && lane->inflight == 0) {
        map_remove(&engine->lanes, lane->origin);
        free(lane);
    }
}

/* Moves a due timer to a later place in the storage, so that those behind it come into memory. Its
 * due time stays: it will be late, and says so. */
static void spill(struct engine *engine, struct timer *timer)
{
    uint64_t window_ms = engine->options.window_ms;

    timer->at = wall_add(engine->now, window_ms + 1 + random_below(&engine->random, window_ms + 1));
    engine->stats.spilled++;
    writer_add_own(engine, timer);
}

void lanes_add(struct engine *engine, struct timer *timer)
{
    struct lane *lane;

    timer->private_.lane = origin_hash(timer->texts.target);
    timer->private_.noticed = engine->now;
    lane = lane_get(engine, timer->private_.lane);
    if (!lane) {
        spill(engine, timer);
        return;
    }
    timer->private_.phase = PHASE_WAITING;
    list_push(&lane->waiting, &timer->private_.link);
    lane->waiting_bytes += timer->footprint;
    engine->waiting_bytes += timer->footprint;
    engine->stats.waiting++;
    lane_update(engine, lane);
}

static void unqueue(struct engine *engine, struct lane *lane, struct timer *timer)
{
    assert(timer->private_.phase == PHASE_WAITING);
    list_remove(&timer->private_.link);
    lane->waiting_bytes -= timer->footprint;
    engine->waiting_bytes -= timer->footprint;
    engine->stats.waiting--;
    timer->private_.phase = PHASE_NONE;
}

void lanes_remove(struct engine *engine, struct timer *timer)
{
    struct lane *lane = map_get(&engine->lanes, timer->private_.lane);

    unqueue(engine, lane, timer);
    lane_update(engine, lane);
}

static void lend(struct engine *engine, struct timer *timer, struct delivery *delivery)
{
    timer->private_.phase = PHASE_OUT;
    timer->state = TIMER_DELIVERING;
    list_push(&engine->busy, &timer->private_.link);
    engine->inflight++;
    delivery->timer = timer;
    delivery->attempt = timer->attempts + 1;
    delivery->epoch = engine->epoch;
    delivery->noticed = timer->private_.noticed;
    list_push(&engine->deliveries, &delivery->link);
}

static struct lane *longest(const struct engine *engine)
{
    struct lane *lane, *ret = NULL;
    size_t cursor = 0;

    while ((lane = map_next(&engine->lanes, &cursor)))
        if (!ret || lane->waiting_bytes > ret->waiting_bytes)
            ret = lane;
    return ret;
}

/* What waits for room at its target holds at most half of the memory, else the targets that are
 * dead would keep the timers of all others from coming into it. The longest lane gives up its later
 * half, so a healthy one keeps what it has. O(lanes) for each halving. */
static void relieve(struct engine *engine)
{
    while (engine->waiting_bytes > engine->options.near_bytes_max / 2) {
        struct lane *lane = longest(engine);
        size_t kept = lane->waiting_bytes / 2;

        while (lane->waiting_bytes > kept) {
            struct timer *timer = timer_of(lane->waiting.prev);

            unqueue(engine, lane, timer);
            spill(engine, timer);
        }
        lane_update(engine, lane);
    }
}

static void send(struct engine *engine)
{
    struct list *link;

    while (engine->inflight < engine->options.inflight_max && (link = list_pop(&engine->ready))) {
        struct lane *lane = list_item(link, struct lane, link);
        struct timer *timer = timer_of(lane->waiting.next);
        struct delivery *delivery = calloc(1, sizeof(*delivery));

        if (!delivery) { /* memory may be back at the next call */
            list_push_front(&engine->ready, &lane->link);
            return;
        }
        unqueue(engine, lane, timer);
        lane->inflight++;
        lend(engine, timer, delivery);
        lane_update(engine, lane);
    }
}

void lanes_dispatch(struct engine *engine)
{
    if (engine->is_draining)
        return;
    send(engine);
    relieve(engine);
}

void lanes_returned(struct engine *engine, struct timer *timer)
{
    struct lane *lane = map_get(&engine->lanes, timer->private_.lane);

    list_remove(&timer->private_.link);
    timer->private_.phase = PHASE_NONE;
    engine->inflight--;
    lane->inflight--;
    lane_update(engine, lane);
}

void lanes_clock_went_back(struct engine *engine)
{
    struct lane *lane;
    struct list early;
    size_t cursor = 0;

    list_init(&early);
    while ((lane = map_next(&engine->lanes, &cursor)))
        LIST_FOR_EACH (&lane->waiting, link)
            if (timer_of(link)->at.ms > engine->now.ms) {
                unqueue(engine, lane, timer_of(link));
                list_push(&early, link);
            }
    LIST_FOR_EACH (&early, link) {
        struct timer *timer = timer_of(link);

        list_remove(link);
        lane = map_get(&engine->lanes, timer->private_.lane);
        if (lane)
            lane_update(engine, lane);
        scheduler_rest(engine, timer);
    }
}

struct wall lanes_oldest(const struct engine *engine)
{
    struct wall oldest = WALL_NEVER;
    size_t cursor = 0;
    struct lane *lane;

    while ((lane = map_next(&engine->lanes, &cursor)))
        LIST_FOR_EACH (&lane->waiting, link)
            oldest = wall_min(oldest, timer_of(link)->at);
    return oldest;
}

void lanes_deinit(struct engine *engine)
{
    size_t cursor = 0;
    struct lane *lane;

    while ((lane = map_next(&engine->lanes, &cursor)))
        free(lane);
    map_deinit(&engine->lanes);
}
