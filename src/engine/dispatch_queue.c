/* One dispatch queue: its key, whether it may send now, its alarm. */
#include "engine/dispatch_queue.h"

#include "engine/order.h"
#include "engine/window.h"

#include <stdint.h>
#include <stdlib.h>

/* ---- queues ---- */

struct dispatch_queue *dispatch_queue_by_key(const struct engine *engine, uint64_t key)
{
    struct dispatch_queue *queue = map_get(&engine->dispatch->queues, key);

    assert(!queue || queue->key == key);
    return queue;
}

struct dispatch_queue *dispatch_queue_named(const struct engine *engine, struct bytes queue,
                                            unsigned priority, enum timer_order order)
{
    struct dispatch_queue *named =
        dispatch_queue_by_key(engine, dispatch_name_pulled(engine, queue, priority, order));

    assert(!named || named->kind == DISPATCH_PULLED);
    assert(!named || named->name_size == queue.size);
    return named;
}

struct dispatch_queue *dispatch_queue_where(const struct engine *engine,
                                            const struct dispatch_name *name)
{
    struct dispatch_queue *lane = name->flow ? dispatch_queue_by_key(engine, name->lane) : NULL;

    return lane ? lane : dispatch_queue_by_key(engine, name->key);
}

static void dispatch_queue_init(const struct engine *engine, struct dispatch_queue *queue,
                                const struct dispatch_name *name)
{
    assert(name->kind != DISPATCH_PULLED || name->queue.size > 0);
    list_init(&queue->timers);
    list_init(&queue->link);
    list_init(&queue->changed);
    list_init(&queue->closed);
    spill_backlog_init(&queue->backlog);
    queue->key = name->key;
    queue->kind = name->kind;
    queue->reason = WAIT_ROOM;
    queue->reason_since = engine->now;
    if (queue->kind == DISPATCH_PULLED) {
        assert(name->queue.size <= sizeof(queue->name));
        queue->is_strict = name->is_strict;
        queue->spilled = (struct order_mark){WALL_NEVER, UINT64_MAX};
        queue->spilled_since = queue->spilled;
        queue->name_size = (uint8_t)name->queue.size;
        memcpy(queue->name, name->queue.data, name->queue.size);
    }

    uint64_t rate = dispatch_rate(&engine->options, queue);
    if (rate)
        pace_init(&queue->pace, rate, engine->now);
}

static bool dispatch_queue_join_flow(struct dispatch *dispatch, struct dispatch_queue *lane,
                                     const struct dispatch_name *name)
{
    lane->flow = flows_get(dispatch, name->flow, name->tenant);
    lane->target_key = name->target;
    if (lane->flow)
        list_push(&lane->flow->lanes, &lane->link);
    return lane->flow;
}

/* Adds the queue to what it shares with others: its connection, its tenant's lessee, or its flow.
 * Returns false if out of memory. */
static bool dispatch_queue_join(struct dispatch *dispatch, struct dispatch_queue *queue,
                                const struct dispatch_name *name)
{
    if (name->kind == DISPATCH_WEBHOOK)
        return budget_open(&dispatch->member, &queue->claim, BUDGET_TARGET, name->key,
                           name->tenant);
    if (name->kind == DISPATCH_PULLED)
        return (queue->lessee = leases_join(dispatch, name->tenant));
    if (name->kind == DISPATCH_LANE)
        return dispatch_queue_join_flow(dispatch, queue, name);
    if (name->kind == DISPATCH_BROKER)
        queue->connection = connections_join(dispatch, name->connection);
    return name->kind != DISPATCH_BROKER || queue->connection;
}

static void dispatch_queue_part(struct engine *engine, struct dispatch_queue *queue)
{
    struct dispatch *dispatch = engine->dispatch;

    if (queue->kind == DISPATCH_WEBHOOK)
        budget_close(&queue->claim);
    if (queue->connection)
        connections_part(dispatch, queue->connection);
    if (queue->lessee)
        leases_part(dispatch, queue->lessee);
    if (queue->flow)
        flows_part(engine, queue);
}

struct dispatch_queue *dispatch_queue_get(struct engine *engine, const struct dispatch_name *name)
{
    struct dispatch *dispatch = engine->dispatch;
    struct dispatch_queue *queue = dispatch_queue_by_key(engine, name->key);

    assert(name->kind < DISPATCH_KIND_COUNT);
    assert(!queue || queue->kind == name->kind);
    if (queue)
        return queue;
    queue = calloc(1, sizeof(*queue));
    if (!queue)
        return NULL;
    dispatch_queue_init(engine, queue, name);
    if (!dispatch_queue_join(dispatch, queue, name)) {
        free(queue);
        return NULL;
    }
    if (!map_put(&dispatch->queues, queue->key, queue)) {
        dispatch_queue_part(engine, queue);
        free(queue);
        return NULL;
    }
    if (queue->kind == DISPATCH_OVERDUE) {
        assert(!dispatch->overdue);
        dispatch->overdue = queue;
    }
    return queue;
}

static void dispatch_clear_alarm(struct engine *engine, struct dispatch_queue *queue)
{
    queue->wants_alarm = false;
    window_clear_alarm(engine, &queue->alarm);
    assert(queue->alarm == TW_NONE && !queue->wants_alarm);
}

static void dispatch_queue_free(struct engine *engine, struct dispatch_queue *queue)
{
    assert(queue->bytes == 0 && queue->backlog.scan == 0);
    assert(list_is_empty(&queue->timers));
    assert(list_is_empty(&queue->link) || queue->kind == DISPATCH_LANE);
    list_remove(&queue->changed);
    list_remove(&queue->closed);
    assert(queue->away == 0 && queue->spilling == 0);
    assert(queue->inflight == 0 && list_is_empty(&queue->backlog.link));
    dispatch_clear_alarm(engine, queue);
    if (engine->dispatch->overdue == queue)
        engine->dispatch->overdue = NULL;
    map_remove(&engine->dispatch->queues, queue->key);
    dispatch_queue_part(engine, queue);
    free(queue);
}

/* ---- pauses ---- */

/* If the target was reset, ends its hold. */
static void dispatch_queue_look_at_reset(struct engine *engine, struct dispatch_queue *queue)
{
    const struct timer *timer = dispatch_first(queue)->timer;

    if (!engine->resets || queue->held_until.ms == 0)
        return;
    const struct target_pause *reset =
        target_pauses_of(engine->resets, timer->texts.tenant, timer->texts.target, &timer->target);
    if (reset && queue->held_since.ms <= reset->since.ms)
        queue->held_until = queue->failing_since = (struct wall){0};
}

void dispatch_queue_look_at_pause(struct engine *engine, struct dispatch_queue *queue)
{
    queue->paused_until = (struct wall){0};
    if (!engine->pauses || list_is_empty(&queue->timers) || queue->kind == DISPATCH_OVERDUE)
        return;
    const struct timer *timer = dispatch_first(queue)->timer;
    const struct target_pause *pause =
        target_pauses_of(engine->pauses, timer->texts.tenant, timer->texts.target, &timer->target);
    if (pause)
        queue->paused_until = pause->until;
    if (queue->kind == DISPATCH_LANE)
        queue->paused_until = wall_max(queue->paused_until, flows_paused_until(engine, timer));
    dispatch_queue_look_at_reset(engine, queue);
}

void dispatch_look_at_pauses(struct engine *engine)
{
    struct target_pause_board *board = engine->options.pauses;

    if (!board || atomic_load(&board->board.version) == engine->pauses_version)
        return;
    target_pauses_leave(engine->pauses);
    target_pauses_leave(engine->resets);
    engine->resets = target_pause_board_take_resets(board);
    engine->pauses = target_pause_board_take(board, &engine->pauses_version);
    size_t cursor = 0;
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));) {
        dispatch_queue_look_at_pause(engine, queue);
        if (!list_is_empty(&queue->timers)) /* the queue cannot be freed by this update */
            dispatch_queue_update(engine, queue);
    }
}

/* ---- alarms ---- */

static void dispatch_set_alarm(struct engine *engine, struct dispatch_queue *queue, struct wall at)
{
    assert(at.ms >= engine->now.ms);
    queue->wants_alarm = !window_set_alarm(engine, &queue->alarm, queue, at);
    engine->dispatch->alarms_wanted |= queue->wants_alarm;
    assert(queue->wants_alarm || queue->alarm != TW_NONE);
}

void dispatch_queue_alarm(struct engine *engine, struct dispatch_queue *queue)
{
    assert(queue->alarm != TW_NONE);
    queue->alarm = TW_NONE;
    dispatch_queue_update(engine, queue);
}

void dispatch_set_alarms(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;

    dispatch->alarms_wanted = false;
    size_t cursor = 0;
    for (struct dispatch_queue *queue;
         !dispatch->alarms_wanted && (queue = dispatch_next(engine, &cursor));)
        if (queue->wants_alarm)
            dispatch_set_alarm(engine, queue, engine->now);
}

/* ---- what a queue may do ---- */

struct budget_claim *dispatch_claim(struct dispatch_queue *queue)
{
    switch (queue->kind) {
    case DISPATCH_WEBHOOK:
        return &queue->claim;
    case DISPATCH_BROKER:
        return &queue->connection->claim;
    case DISPATCH_PULLED:
        return &queue->lessee->claim;
    default:
        return NULL;
    }
}

/* True if all places of its target are in use, by this engine or others of the budget. */
static bool dispatch_queue_is_full(struct dispatch_queue *queue)
{
    const struct budget_claim *claim = dispatch_claim(queue);

    return claim && !budget_has_place(claim) && budget_held(claim) >= budget_max(claim);
}

uint64_t dispatch_rate(const struct engine_options *options, const struct dispatch_queue *queue)
{
    assert(queue->kind < DISPATCH_KIND_COUNT);
    const uint64_t rate = queue->kind == DISPATCH_WEBHOOK   ? options->target_rate
                          : queue->kind == DISPATCH_OVERDUE ? options->catch_up_rate
                                                            : 0;
    return rate * (PACE_ONE / 1000);
}

bool dispatch_lacks_pace(struct engine *engine, struct dispatch_queue *queue)
{
    uint64_t rate = dispatch_rate(&engine->options, queue);

    assert(!rate || queue->pace.told.ms > 0);
    return rate && !pace_has(&queue->pace, rate, engine->now);
}

enum wait_reason dispatch_queue_reason(struct engine *engine, struct dispatch_queue *queue,
                                       struct wall *ret_until)
{
    assert(queue->kind < DISPATCH_KIND_COUNT);
    assert(queue->kind == DISPATCH_WEBHOOK || queue->held_until.ms == 0);
    *ret_until = WALL_NEVER;
    if (dispatch_queue_is_paused(engine, queue)) {
        *ret_until = queue->paused_until;
        return WAIT_PAUSED;
    }
    if (!order_is_open(engine, queue)) {
        if (order_paused_until(queue).ms > engine->now.ms)
            *ret_until = order_paused_until(queue);
        return WAIT_WORKER;
    }
    if (queue->kind == DISPATCH_PULLED)
        return leases_reason(engine, queue);
    if (queue->kind == DISPATCH_LANE) {
        if (queue->flow->next_at.ms > engine->now.ms)
            *ret_until = queue->flow->next_at;
        return WAIT_FLOW;
    }
    if (queue->held_until.ms > engine->now.ms) {
        *ret_until = queue->held_until;
        return WAIT_BREAKER;
    }
    if (dispatch_queue_is_full(queue))
        return WAIT_TARGET_LIMIT;
    if (queue->named.next_at.ms > engine->now.ms) {
        *ret_until = queue->named.next_at;
        return WAIT_RATE;
    }
    if (dispatch_lacks_pace(engine, queue)) {
        *ret_until = pace_next(&queue->pace, dispatch_rate(&engine->options, queue));
        return queue->kind == DISPATCH_OVERDUE ? WAIT_CATCH_UP : WAIT_RATE;
    }
    return queue->kind == DISPATCH_OVERDUE ? WAIT_CATCH_UP : WAIT_ROOM;
}

/* Returns why the lane's timers wait. If its flow could let one start, that is what holds its
 * target's queue back. */
static enum wait_reason dispatch_lane_reason(const struct engine *engine,
                                             const struct dispatch_queue *lane)
{
    const struct dispatch_queue *queue = dispatch_queue_by_key(engine, lane->target_key);

    if (lane->reason != WAIT_FLOW || lane->called == 0 || !queue || list_is_empty(&lane->timers) ||
        lane->flow->next_at.ms > engine->now.ms ||
        flows_is_full(engine, lane->flow, dispatch_first(lane)->timer))
        return lane->reason;
    return queue->reason;
}

enum wait_reason dispatch_reason(const struct engine *engine, const struct dispatch_queue *queue)
{
    return engine->is_draining            ? WAIT_STOPPING
           : engine->is_held              ? WAIT_MAINTENANCE
           : queue->kind == DISPATCH_LANE ? dispatch_lane_reason(engine, queue)
                                          : queue->reason;
}

void dispatch_queue_account(struct engine *engine, struct dispatch_queue *queue,
                            enum wait_reason reason)
{
    assert(reason < WAIT_REASONS);
    assert(reason != WAIT_WORKER || queue->kind == DISPATCH_PULLED);
    if (queue->reason < WAIT_SUMMED)
        queue->waited_ms[queue->reason] += (uint32_t)wall_since(queue->reason_since, engine->now);
    if (reason == WAIT_PAUSED && queue->reason != WAIT_PAUSED)
        queue->pause_began = engine->now;
    if (reason != WAIT_PAUSED && queue->reason == WAIT_PAUSED)
        queue->pause_ended = engine->now;
    queue->reason_since = engine->now;
    queue->reason = reason;
}

/* Returns until when a queue without timers is kept, because its rate or its hold still matters. */
static struct wall dispatch_kept_until(const struct engine *engine,
                                       const struct dispatch_queue *queue)
{
    uint64_t rate = dispatch_rate(&engine->options, queue);

    assert(queue->bytes == 0);
    assert(list_is_empty(&queue->timers) && queue->inflight == 0);
    return wall_max(rate ? pace_full(&queue->pace, rate) : (struct wall){0},
                    wall_max(queue->named.kept_until, queue->held_until));
}

/* Wants a place for each timer if the queue may send, otherwise none. */
static void dispatch_queue_enlist(struct engine *engine, struct dispatch_queue *queue,
                                  struct wall until)
{
    const bool may_send =
        !list_is_empty(&queue->timers) && queue->reason != WAIT_PAUSED && until.ms == WALL_NEVER.ms;
    const size_t wanted = !may_send                          ? 0
                          : queue->count < BUDGET_ALL_PLACES ? queue->count
                                                             : BUDGET_ALL_PLACES;

    assert(queue->count > 0 || list_is_empty(&queue->timers));
    if (queue->kind == DISPATCH_WEBHOOK) {
        queue->wanted = wanted;
        dispatch_want(engine->dispatch, &queue->claim, wanted);
    } else if (queue->kind == DISPATCH_BROKER) {
        connections_want(engine, queue, wanted);
    } else if (queue->kind == DISPATCH_LANE) {
        if (may_send && queue->called == 0)
            flows_mark(engine, queue->flow);
    } else if (!may_send) {
        list_remove(&queue->link);
    }
}

size_t dispatch_queue_usable_bytes(const struct dispatch_queue *queue)
{
    const struct entry *first = dispatch_first(queue);

    /* what is being spilled cannot be read yet */
    return first && queue->is_strict && queue->spilling == 0 &&
                   !order_is_before_spilled(queue, first->timer)
               ? 0
               : queue->bytes;
}

void dispatch_queue_update(struct engine *engine, struct dispatch_queue *queue)
{
    bool is_empty = list_is_empty(&queue->timers);

    assert(queue->inflight <= engine->dispatch->inflight);
    assert(queue->bytes <= engine->dispatch->queued_bytes);
    assert(!is_empty || queue->bytes == 0);
    const bool was_paused = queue->reason == WAIT_PAUSED;
    struct wall until;
    dispatch_queue_account(engine, queue, dispatch_queue_reason(engine, queue, &until));
    dispatch_queue_enlist(engine, queue, until);
    if (was_paused && !is_empty)
        leases_wake(engine, queue);
    spill_update(engine, &queue->backlog, dispatch_queue_usable_bytes(queue));
    if (is_empty)
        until = queue->inflight || queue->called || queue->away || queue->spilling
                    ? WALL_NEVER
                    : dispatch_kept_until(engine, queue);
    if (until.ms != WALL_NEVER.ms && until.ms > engine->now.ms)
        dispatch_set_alarm(engine, queue, until);
    else
        dispatch_clear_alarm(engine, queue);
    if (is_empty && queue->inflight == 0 && queue->called == 0 && queue->away == 0 &&
        queue->spilling == 0 && queue->backlog.scan == 0 && until.ms <= engine->now.ms)
        dispatch_queue_free(engine, queue);
}
