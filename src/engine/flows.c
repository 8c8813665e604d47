/*
 * Flows: limits that a client sets for the timers that share a key.
 *
 * A flow exists in memory while a timer of it runs or waits for it, and afterwards while its rate
 * remembers the last start; of those that do nothing else, FLOWS_IDLE_MAX are kept. So a key costs
 * nothing otherwise, and no more than the timers that it has in memory.
 *
 * A timer takes a place of its flow (BUDGET_FLOW of budget.h) when its delivery or lease begins, as
 * the last of all limits, and gives it back with the outcome. So a place is never held by a timer
 * that waits for something else: a paused target, a breaker, a worker. A timer that gets none waits
 * in a lane (lanes.c).
 *
 * Limits     Those that the tenant has defined for the flow. Without a definition a timer starts
 *            only within the limits that it carries, whatever others of its flow carry.
 */
#include "engine/dispatch_queue.h"

#include "base/check.h"
#include "timer/flow.h"
#include "timer/target_pauses.h"

#include <stdlib.h>

/* ---- life ---- */

static void flows_free(struct dispatch *dispatch, struct dispatch_flow *flow)
{
    assert(list_is_empty(&flow->lanes) && flow->inflight == 0);
    dispatch->idle_count -= flow->is_idle;
    list_remove(&flow->link);
    budget_close(&flow->claim);
    map_remove(&dispatch->flows, flow->key);
    free(flow);
}

struct dispatch_flow *flows_get(struct dispatch *dispatch, uint64_t key, uint64_t tenant)
{
    struct dispatch_flow *flow = map_get(&dispatch->flows, key);

    if (flow) {
        dispatch->idle_count -= flow->is_idle;
        if (flow->is_idle)
            list_remove(&flow->link);
        flow->is_idle = false;
        return flow;
    }
    flow = calloc(1, sizeof(*flow));
    if (!flow)
        return NULL;
    flow->key = key;
    list_init(&flow->link);
    list_init(&flow->lanes);
    if (!budget_open(&dispatch->member, &flow->claim, BUDGET_FLOW, key, tenant)) {
        free(flow);
        return NULL;
    }
    if (!map_put(&dispatch->flows, key, flow)) {
        budget_close(&flow->claim);
        free(flow);
        return NULL;
    }
    return flow;
}

void flows_settle(struct engine *engine, struct dispatch_flow *flow)
{
    struct dispatch *dispatch = engine->dispatch;

    if (!list_is_empty(&flow->lanes) || flow->inflight > 0 || flow->is_idle)
        return;
    list_remove(&flow->link);
    if (flow->kept_until.ms <= engine->now.ms) {
        flows_free(dispatch, flow);
        return;
    }
    if (!engine->is_draining)
        budget_ask(&flow->claim, 0);
    flow->is_idle = true;
    dispatch->idle_count++;
    list_push(&dispatch->flows_idle, &flow->link);
    if (dispatch->idle_count > dispatch->idle_max)
        flows_free(dispatch, list_item(dispatch->flows_idle.next, struct dispatch_flow, link));
}

void flows_forget(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;

    LIST_FOR_EACH (&dispatch->flows_idle, link) {
        struct dispatch_flow *flow = list_item(link, struct dispatch_flow, link);

        if (flow->kept_until.ms > engine->now.ms)
            break;
        flows_free(dispatch, flow);
    }
}

void flows_destroy(struct dispatch *dispatch)
{
    size_t cursor = 0;

    for (struct dispatch_flow *flow; (flow = map_next(&dispatch->flows, &cursor));)
        free(flow);
    map_deinit(&dispatch->flows);
}

void flows_part(struct engine *engine, struct dispatch_queue *lane)
{
    struct dispatch_flow *flow = lane->flow;

    assert(lane->kind == DISPATCH_LANE && lane->called == 0);
    list_remove(&lane->link);
    flows_settle(engine, flow);
}

/* ---- limits ---- */

/* Returns the limits that its tenant defined for the timer's flow, or else those of the timer. A
 * text that is damaged limits nothing. */
static struct flow flows_limits(const struct engine *engine, const struct timer *timer)
{
    const struct definition *defined =
        engine->definitions ? definitions_find(engine->definitions, timer->texts.tenant,
                                               DEFINITION_FLOW, flow_key(timer->texts.flow))
                            : NULL;
    struct flow limits;

    if (!flow_decode(defined ? defined->value : timer->texts.flow, &limits))
        limits = (struct flow){0};
    if (limits.concurrency == 0)
        limits.concurrency = BUDGET_ALL_PLACES;
    return limits;
}

static uint64_t flows_rate(const struct flow *limits)
{
    const uint64_t rate = limits->rate ? limits->rate * (PACE_ONE * 1000) / limits->period_ms : 0;

    return limits->rate && rate == 0 ? 1 : rate;
}

struct wall flows_paused_until(const struct engine *engine, const struct timer *timer)
{
    const struct target_pause *pause =
        engine->pauses ? target_pauses_of_flow(engine->pauses, timer->texts.tenant,
                                               flow_key(timer->texts.flow))
                       : NULL;

    return target_pause_is_in_force(pause, engine->now) ? pause->until : (struct wall){0};
}

struct dispatch_flow *flows_of(const struct engine *engine, const struct timer *timer)
{
    struct dispatch_name name;

    dispatch_name_of(engine, timer, &name);
    return name.flow ? map_get(&engine->dispatch->flows, name.flow) : NULL;
}

bool flows_is_full(const struct engine *engine, const struct dispatch_flow *flow,
                   const struct timer *timer)
{
    return !budget_has_place(&flow->claim) &&
           budget_held(&flow->claim) >= flows_limits(engine, timer).concurrency;
}

bool flows_has_place(struct engine *engine, struct dispatch_flow *flow, const struct timer *timer)
{
    const struct flow limits = flows_limits(engine, timer);

    assert(!engine->is_draining);
    if (flow->next_at.ms > engine->now.ms)
        return false;
    budget_limit(&flow->claim, limits.concurrency);
    if (budget_has_place(&flow->claim) && budget_held(&flow->claim) > limits.concurrency)
        budget_ask(&flow->claim, 0); /* granted by the limit of another timer */
    if (!budget_has_place(&flow->claim))
        budget_ask(&flow->claim, 1);
    return budget_has_place(&flow->claim);
}

bool flows_take_place(struct engine *engine, struct dispatch_flow *flow, const struct timer *timer)
{
    const struct flow limits = flows_limits(engine, timer);
    const uint64_t rate = flows_rate(&limits);

    if (!flows_has_place(engine, flow, timer))
        return false;
    if (!rate)
        return true;
    const bool has =
        budget_start(&flow->claim, rate, engine->now, &flow->next_at, &flow->kept_until);
    if (!has)
        budget_ask(&flow->claim, 0);
    return has;
}

/* ---- runs ---- */

bool flows_may_call(const struct engine *engine, const struct dispatch_queue *lane)
{
    return !list_is_empty(&lane->timers) && lane->called == 0 &&
           !dispatch_queue_is_paused(engine, lane);
}

void flows_mark(struct engine *engine, struct dispatch_flow *flow)
{
    if (!list_is_empty(&flow->lanes) && list_is_empty(&flow->link))
        list_push(&engine->dispatch->flows_ready, &flow->link);
}

void flows_began(struct engine *engine, struct dispatch_flow *flow, struct entry *entry)
{
    budget_use(&flow->claim);
    flow->inflight++;
    entry->flags |= ENTRY_IS_IN_FLOW;
    flows_mark(engine, flow);
}

void flows_ended(struct engine *engine, struct entry *entry)
{
    struct dispatch_flow *flow = flows_of(engine, entry->timer);

    assert(entry->flags & ENTRY_IS_IN_FLOW);
    assert(flow && flow->inflight > 0);
    entry->flags &= ~(uint32_t)ENTRY_IS_IN_FLOW;
    flow->inflight--;
    budget_end(&flow->claim, SHARE_PROVEN, BUDGET_PROOF_NONE);
    flows_mark(engine, flow);
    flows_settle(engine, flow);
}

void flows_look_again(struct engine *engine)
{
    size_t cursor = 0;

    for (struct dispatch_flow *flow; (flow = map_next(&engine->dispatch->flows, &cursor));) {
        flow->next_at = (struct wall){0};
        flows_mark(engine, flow);
    }
}

void flows_check(const struct engine *engine)
{
    const struct dispatch *dispatch = engine->dispatch;
    size_t cursor = 0, lanes = 0, called = 0, inflight = 0, idle = 0;

    for (const struct dispatch_flow *flow; (flow = map_next(&dispatch->flows, &cursor));) {
        CHECK(!list_is_empty(&flow->lanes) || flow->inflight > 0 || flow->is_idle);
        CHECK(!flow->is_idle || (list_is_empty(&flow->lanes) && flow->inflight == 0));
        inflight += flow->inflight;
        idle += flow->is_idle;
        LIST_FOR_EACH (&flow->lanes, link) {
            const struct dispatch_queue *lane = list_item(link, struct dispatch_queue, link);

            CHECK(lane->kind == DISPATCH_LANE && lane->flow == flow);
            lanes++;
            called += lane->called;
            /* a timer that may be called is called, or something else will mark the flow */
            CHECK(!flows_may_call(engine, lane) || !list_is_empty(&lane->changed) ||
                  engine->is_draining || engine->is_held || !list_is_empty(&flow->link) ||
                  flow->next_at.ms > engine->now.ms || flow->claim.asked > 0);
        }
    }
    cursor = 0;
    for (const struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        lanes -= queue->kind == DISPATCH_LANE;
    cursor = 0;
    for (const struct entry *entry; (entry = entries_next(engine->entries, &cursor));) {
        CHECK(!(entry->flags & ENTRY_IS_CALLED) || entry->phase == ENTRY_QUEUED);
        CHECK(!(entry->flags & ENTRY_IS_IN_FLOW) || entry->phase == ENTRY_INFLIGHT);
        called -= (entry->flags & ENTRY_IS_CALLED) != 0;
        inflight -= (entry->flags & ENTRY_IS_IN_FLOW) != 0;
    }
    CHECK(lanes == 0 && called == 0 && inflight == 0 && idle == dispatch->idle_count);
    CHECK(idle <= dispatch->idle_max);
}
