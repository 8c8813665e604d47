/* What made a delivery late: causes before the timer was queued, and the time in its queue by
 * reason. */
#include "engine/dispatch_line.h"
#include "engine/history.h"

/* Adds `ms`, but at most `left_ms`, to the stage. Returns what is left of `left_ms`. */
static uint64_t lateness_take(struct lateness *lateness, enum lateness_stage stage, uint64_t ms,
                              uint64_t left_ms)
{
    ms = ms < left_ms ? ms : left_ms;
    lateness_add(lateness, stage, ms);
    return left_ms - ms;
}

/* Adds the time from `base` on that earlier attempts have explained. If firings of a recurring
 * timer were missed and skipped, the base is later than it was, and the explained time must be cut.
 * Then the breaker's part is kept first, because it was usually the last cause. Returns the end of
 * the explained time. */
static struct wall lateness_carried(const struct history_carry *carry, struct wall base,
                                    struct lateness *lateness)
{
    uint64_t left_ms = wall_since(base, carry->to);

    if (carry->base.ms > base.ms)
        return base; /* the carry belongs to another due time */
    left_ms = lateness_take(lateness, LATENESS_BREAKER, carry->ms[LATENESS_BREAKER], left_ms);
    for (enum lateness_stage i = 0; i < LATENESS_HANDOFF; i++)
        if (i != LATENESS_BREAKER)
            left_ms = lateness_take(lateness, i, carry->ms[i], left_ms);
    return wall_max(base, (struct wall){carry->to.ms - left_ms});
}

/* Adds the time until the position of the timer's row, which is after the due time if the timer was
 * put off. Without a known cause it counts as a retry, or as a due time in the past. Returns the
 * end of that time. */
static struct wall lateness_before_place(const struct engine *engine, const struct entry *entry,
                                         struct lateness *lateness)
{
    const struct timer *timer = entry->timer;
    const struct history_entry *kept = history_find(engine->history, timer->id.serial);
    const struct wall base = history_base(timer);
    struct wall at = base;

    if (timer->at.ms <= base.ms)
        return base;
    if (kept && kept->carry.to.ms <= timer->at.ms && kept->carry.to.ms <= engine->now.ms)
        at = lateness_carried(&kept->carry, base, lateness);
    const bool is_retry = timer->state == TIMER_RETRYING;
    /* the timer was spilled, so its position only limits the time */
    if (!is_retry && entry->loaded.ms > at.ms)
        return at;
    /* one that was spilled may be found before its position */
    const struct wall place = wall_min(timer->at, entry->found_due);
    if (place.ms > at.ms && place.ms <= engine->now.ms) {
        lateness_add(lateness, is_retry ? LATENESS_RETRIES : LATENESS_SET_LATE,
                     wall_since(at, place));
        at = place;
    }
    return at;
}

/* Adds the time between the moment at which the timer should have been queued and that at which it
 * was. */
static void lateness_before_queue(const struct engine *engine, const struct entry *entry,
                                  struct lateness *lateness)
{
    const struct timer *timer = entry->timer;
    const bool was_put_back =
        timer->state == TIMER_SCHEDULED && timer->at.ms > history_base(timer).ms;
    struct wall at = lateness_before_place(engine, entry, lateness);

    assert(entry->found_due.ms > 0);
    if (engine->started.ms > at.ms) {
        lateness_add(lateness, LATENESS_DOWN, wall_since(at, engine->started));
        at = engine->started;
    }
    if (entry->loaded.ms > at.ms) {
        lateness_add(lateness, was_put_back ? LATENESS_PUT_BACK : LATENESS_DISK,
                     wall_since(at, entry->loaded));
        at = entry->loaded;
    }
    lateness_add(lateness, LATENESS_WHEEL, wall_since(at, entry->found_due));
}

/* Returns for how long its queue was paused while the timer waited there, in milliseconds. Only the
 * last pause is known. */
static uint64_t lateness_paused_ms(const struct engine *engine, const struct dispatch_queue *queue,
                                   const struct entry *entry)
{
    const struct wall end = queue->reason == WAIT_PAUSED ? engine->now : queue->pause_ended;

    return queue->pause_began.ms ? wall_since(wall_max(queue->pause_began, entry->found_due), end)
                                 : 0;
}

/* Returns for how long maintenance held the timer back, in milliseconds. Only the last maintenance
 * is known. */
static uint64_t lateness_held_ms(const struct engine *engine, const struct entry *entry)
{
    const struct wall end = engine->is_held ? engine->now : engine->held_ended;

    return engine->held_began.ms ? wall_since(wall_max(engine->held_began, entry->found_due), end)
                                 : 0;
}

/* Adds the time in queues by reason. Time that its present queue cannot explain was spent in
 * another queue. */
static void lateness_in_queue(const struct engine *engine, const struct dispatch_queue *queue,
                              const struct entry *entry, struct lateness *lateness)
{
    assert(queue->reason < WAIT_REASONS);
    const enum lateness_stage stages[WAIT_SUMMED] = {
        [WAIT_ROOM] = queue->kind == DISPATCH_BROKER
                          ? LATENESS_TARGET_LIMIT /* this includes waiting for the tenant's turn */
                          : LATENESS_ROOM,
        [WAIT_TARGET_LIMIT] = LATENESS_TARGET_LIMIT,
        [WAIT_BREAKER] = LATENESS_BREAKER,
        [WAIT_RATE] = LATENESS_RATE,
    };
    uint64_t left_ms = wall_since(entry->found_due, engine->now);

    left_ms =
        lateness_take(lateness, LATENESS_PAUSED, lateness_paused_ms(engine, queue, entry), left_ms);
    left_ms =
        lateness_take(lateness, LATENESS_MAINTENANCE, lateness_held_ms(engine, entry), left_ms);
    if (queue->kind == DISPATCH_LANE) {
        lateness_add(lateness, LATENESS_FLOW, left_ms);
        return;
    }
    if (queue->kind == DISPATCH_PULLED) {
        const uint64_t here_ms = wall_since(dispatch_line_joined(entry), engine->now);

        left_ms = lateness_take(lateness, LATENESS_WORKER, here_ms, left_ms);
        lateness_add(lateness, entry->timer->texts.flow.size ? LATENESS_FLOW : LATENESS_WORKER,
                     left_ms);
        return;
    }
    for (size_t i = 0; i < WAIT_SUMMED && queue->kind != DISPATCH_OVERDUE; i++) {
        uint32_t ms = queue->waited_ms[i] - entry->waited_ms[i];

        if (queue->reason == i)
            ms += (uint32_t)wall_since(queue->reason_since, engine->now);
        left_ms = lateness_take(lateness, stages[i], ms, left_ms);
    }
    /* The timer may also have been in flight, and returned without reaching its target. */
    lateness_add(lateness,
                 engine->options.catch_up_rate       ? LATENESS_CATCH_UP
                 : entry->timer->texts.flow.size > 0 ? LATENESS_FLOW
                                                     : LATENESS_HANDOFF,
                 left_ms);
}

static void lateness_so_far(const struct engine *engine, const struct dispatch_queue *queue,
                            const struct entry *entry, struct lateness *ret_lateness)
{
    assert(entry->phase == ENTRY_QUEUED && entry->queue == queue->key);
    *ret_lateness = (struct lateness){.attempt = entry->timer->attempts + 1};
    lateness_before_queue(engine, entry, ret_lateness);
    lateness_in_queue(engine, queue, entry, ret_lateness);
}

enum lateness_stage lateness_cause(const struct engine *engine, const struct dispatch_queue *queue,
                                   const struct entry *entry)
{
    struct lateness lateness;
    enum lateness_stage cause = 0;

    lateness_so_far(engine, queue, entry, &lateness);
    for (enum lateness_stage i = 0; i < LATENESS_STAGES; i++)
        cause = lateness.ms[i] > lateness.ms[cause] ? i : cause;
    return cause;
}

void lateness_of_delivery(struct engine *engine, const struct dispatch_queue *queue,
                          const struct entry *entry, struct lateness *ret_lateness)
{
    assert(entry->phase == ENTRY_QUEUED && entry->timer->due.ms <= engine->now.ms);
    lateness_so_far(engine, queue, entry, ret_lateness);
    struct history_entry *kept = history_begin(
        engine->history, tenant_key(entry->timer->texts.tenant), entry->timer->id.serial);
    if (kept)
        kept->lateness = *ret_lateness;
}

/* Corrects the reason of a timer with a flow: it may be the flow that holds it back, or what its
 * target waits for. */
static void lateness_explain_flow(struct engine *engine, struct dispatch_queue *queue,
                                  const struct entry *entry, struct explained *explained)
{
    const struct dispatch_flow *flow = flows_of(engine, entry->timer);
    const struct wall paused_until = flows_paused_until(engine, entry->timer);
    const bool is_full = flow && flows_is_full(engine, flow, entry->timer);
    const bool is_paced = flow && flow->next_at.ms > engine->now.ms;

    explained->flow_running = flow ? budget_held(&flow->claim) : 0;
    if (queue->kind == DISPATCH_LANE && explained->reason == WAIT_FLOW && !is_full && !is_paced) {
        struct dispatch_queue *target = dispatch_queue_by_key(engine, queue->target_key);

        explained->reason =
            target ? dispatch_queue_reason(engine, target, &explained->until) : WAIT_ROOM;
    } else if (paused_until.ms > 0 &&
               (explained->reason != WAIT_PAUSED || paused_until.ms > explained->until.ms)) {
        explained->reason = WAIT_PAUSED;
        explained->until = paused_until;
    } else if (explained->reason != WAIT_PAUSED && explained->reason != WAIT_BREAKER &&
               (is_full || is_paced)) {
        explained->reason = WAIT_FLOW;
        explained->until = is_paced ? flow->next_at : WALL_NEVER;
    }
}

void dispatch_explain(struct engine *engine, const struct entry *entry, struct explained *explained)
{
    struct dispatch_queue *queue = dispatch_queue_by_key(engine, entry->queue);

    assert(queue && queue->key == entry->queue);
    assert(entry->phase == ENTRY_QUEUED || entry->phase == ENTRY_INFLIGHT);
    const struct budget_claim *claim = dispatch_claim(queue);
    const bool has_limit = claim && claim->kind != BUDGET_LEASES;
    explained->inflight = has_limit ? budget_held(claim) : queue->inflight;
    explained->inflight_max = has_limit ? budget_max(claim) : UINT32_MAX;
    explained->since = entry->found_due;
    if (entry->phase == ENTRY_INFLIGHT) {
        explained->place = PLACE_INFLIGHT;
        return;
    }
    explained->place = PLACE_QUEUED;
    explained->reason = dispatch_queue_reason(engine, queue, &explained->until);
    if (entry->timer->texts.flow.size)
        lateness_explain_flow(engine, queue, entry, explained);
    if (engine->is_held || engine->is_draining) {
        explained->reason = engine->is_draining ? WAIT_STOPPING : WAIT_MAINTENANCE;
        explained->until = WALL_NEVER;
    }
    if (explained->reason == WAIT_LEASES) { /* the tenant's leases of all its queues */
        explained->inflight = budget_held(claim);
        explained->inflight_max = budget_max(claim);
    }
    lateness_so_far(engine, queue, entry, &explained->lateness);
}
