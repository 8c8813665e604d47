/* What made a delivery late: what passed before it was queued, and what its queue kept it for. */
#include "engine/dispatch_queue.h"
#include "engine/history.h"

#include <assert.h>

/* The time from when the timer should have acted to when it was queued. */
static void lateness_before_queue(const struct engine *engine, const struct entry *entry,
                                  bool is_retry, struct lateness *lateness)
{
    const struct timer *timer = entry->timer;
    struct wall base = wall_max(timer->due, timer->created), at = base;

    assert(entry->found_due.ms > 0);
    if (is_retry) {
        lateness_add(lateness, LATENESS_RETRIES, wall_since(base, timer->at));
        at = wall_max(base, timer->at);
    }
    if (engine->started.ms > at.ms) {
        lateness_add(lateness, LATENESS_DOWN, wall_since(at, engine->started));
        at = engine->started;
    }
    if (entry->loaded.ms > at.ms) {
        lateness_add(lateness, LATENESS_DISK, wall_since(at, entry->loaded));
        at = entry->loaded;
    }
    lateness_add(lateness, LATENESS_WHEEL, wall_since(at, entry->found_due));
}

/* How long its queue was paused while it waited there, as far as it is known: of the last pause. */
static uint64_t lateness_paused_ms(const struct engine *engine, const struct dispatch_queue *queue,
                                   const struct entry *entry)
{
    const struct wall end = queue->reason == WAIT_PAUSED ? engine->now : queue->pause_ended;

    return queue->pause_began.ms ? wall_since(wall_max(queue->pause_began, entry->found_due), end)
                                 : 0;
}

/* The time in queues, by reason. What its present queue did not keep it for was another one's. */
static void lateness_in_queue(const struct engine *engine, const struct dispatch_queue *queue,
                              const struct entry *entry, struct lateness *lateness)
{
    assert(queue->reason < WAIT_REASONS);
    const enum lateness_stage stages[WAIT_SUMMED] = {
        [WAIT_ROOM] = queue->kind == DISPATCH_BROKER
                          ? LATENESS_TARGET_LIMIT /* or its tenant's turn */
                          : LATENESS_ROOM,
        [WAIT_TARGET_LIMIT] = LATENESS_TARGET_LIMIT,
        [WAIT_BREAKER] = LATENESS_BREAKER,
        [WAIT_RATE] = LATENESS_RATE,
    };
    uint64_t left_ms = wall_since(entry->found_due, engine->now);
    const uint64_t paused_ms = lateness_paused_ms(engine, queue, entry);

    lateness_add(lateness, LATENESS_PAUSED, paused_ms < left_ms ? paused_ms : left_ms);
    left_ms -= paused_ms < left_ms ? paused_ms : left_ms;
    if (queue->kind == DISPATCH_PULLED) {
        lateness_add(lateness, LATENESS_WORKER, left_ms);
        return;
    }
    for (size_t i = 0; i < WAIT_SUMMED && queue->kind != DISPATCH_OVERDUE; i++) {
        uint32_t ms = queue->waited_ms[i] - entry->waited_ms[i];

        if (queue->reason == i)
            ms += (uint32_t)wall_since(queue->reason_since, engine->now);
        if (ms > left_ms)
            ms = (uint32_t)left_ms; /* the clock has stepped */
        lateness_add(lateness, stages[i], ms);
        left_ms -= ms;
    }
    /* Or it was in flight, and given back unseen. */
    lateness_add(lateness, engine->options.catch_up_rate ? LATENESS_CATCH_UP : LATENESS_HANDOFF,
                 left_ms);
}

static void lateness_so_far(const struct engine *engine, const struct dispatch_queue *queue,
                            const struct entry *entry, struct lateness *ret_lateness)
{
    assert(entry->phase == ENTRY_QUEUED && entry->queue == queue->key);
    *ret_lateness = (struct lateness){.attempt = entry->timer->attempts + 1};
    lateness_before_queue(engine, entry, entry->timer->state == TIMER_RETRYING, ret_lateness);
    lateness_in_queue(engine, queue, entry, ret_lateness);
}

void lateness_of_delivery(struct engine *engine, const struct dispatch_queue *queue,
                          const struct entry *entry)
{
    struct history_entry *kept = history_begin(engine->history, entry->timer->id.serial);

    assert(entry->phase == ENTRY_QUEUED && entry->timer->due.ms <= engine->now.ms);
    if (kept)
        lateness_so_far(engine, queue, entry, &kept->lateness);
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
    if (engine->is_held)
        explained->reason = WAIT_MAINTENANCE;
    if (engine->is_draining)
        explained->reason = WAIT_STOPPING;
    if (explained->reason == WAIT_LEASES) { /* those of its tenant, in all of its queues */
        explained->inflight = budget_held(claim);
        explained->inflight_max = budget_max(claim);
    }
    lateness_so_far(engine, queue, entry, &explained->lateness);
}
