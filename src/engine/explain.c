/* Where a timer is, and what makes it late. */
#include "engine/engine_private.h"

/* What has passed between the time that it should have acted and the time that it was taken up. */
static void add_before(const struct engine *engine, const struct entry *entry, bool is_retry,
                       struct lateness *lateness)
{
    struct wall base = wall_max(entry->timer->due, entry->timer->created), at = base;

    if (is_retry) {
        lateness_add(lateness, LATENESS_RETRIES, wall_since(base, entry->timer->at));
        at = wall_max(base, entry->timer->at);
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

/* What it has waited in lanes, by reason. What its lane did not keep it for was another one's. */
static void add_waited(const struct engine *engine, const struct lane *lane,
                       const struct entry *entry, struct lateness *lateness)
{
    static const enum lateness_stage stages[WAIT_SUMMED] = {
        [WAIT_ROOM] = LATENESS_ROOM,
        [WAIT_TARGET_LIMIT] = LATENESS_TARGET_LIMIT,
        [WAIT_BREAKER] = LATENESS_BREAKER,
        [WAIT_RATE] = LATENESS_RATE,
    };
    uint64_t left_ms = wall_since(entry->found_due, engine->now);

    if (lane->kind == LANE_PULLED) {
        lateness_add(lateness, LATENESS_WORKER, left_ms);
        return;
    }
    for (size_t i = 0; i < WAIT_SUMMED && lane->kind != LANE_OVERDUE; i++) {
        uint32_t ms = lane->waited_ms[i] - entry->waited_ms[i];

        if (lane->reason == i)
            ms += (uint32_t)wall_since(lane->reason_since, engine->now);
        if (ms > left_ms)
            ms = (uint32_t)left_ms; /* the clock has stepped */
        lateness_add(lateness, stages[i], ms);
        left_ms -= ms;
    }
    /* Or it was out, and given back unseen. */
    lateness_add(lateness, engine->options.catch_up_rate ? LATENESS_CATCH_UP : LATENESS_HANDOFF,
                 left_ms);
}

static void so_far(const struct engine *engine, const struct lane *lane, const struct entry *entry,
                   struct lateness *ret_lateness)
{
    *ret_lateness = (struct lateness){.attempt = entry->timer->attempts + 1};
    add_before(engine, entry, entry->timer->state == TIMER_RETRYING, ret_lateness);
    add_waited(engine, lane, entry, ret_lateness);
}

/* ---- what is kept of a delivery ---- */

void explain_lent(struct engine *engine, const struct lane *lane, const struct entry *entry)
{
    struct history_entry *known = history_begin(&engine->history, entry->timer->id.serial);

    if (known)
        so_far(engine, lane, entry, &known->lateness);
}

static uint64_t span_ms(uint64_t from_us, uint64_t to_us)
{
    return from_us && to_us > from_us ? (to_us - from_us) / 1000 : 0;
}

void explain_returned(struct engine *engine, const struct delivery *delivery)
{
    uint64_t serial = delivery->timer->id.serial;
    struct history_entry *known = history_find(&engine->history, serial);

    if (!known)
        return;
    if (delivery->outcome.result == DELIVERY_RETURNED) {
        history_forget(&engine->history, serial);
        return;
    }
    lateness_add(&known->lateness, LATENESS_HANDOFF,
                 span_ms(delivery->handed_us, delivery->started_us));
    lateness_add(&known->lateness, LATENESS_DELIVERY,
                 span_ms(delivery->started_us, delivery->ended_us));
    known->ended_at = engine->now;
}

void explain_committed(struct engine *engine, const struct timer *timer)
{
    struct history_entry *known = history_find(&engine->history, timer->id.serial);

    if (!known || !known->ended_at.ms)
        return;
    lateness_add(&known->lateness, LATENESS_COMMIT, wall_since(known->ended_at, engine->now));
    known->ended_at.ms = 0;
}

/* ---- one timer ---- */

static void explain_waiting(struct engine *engine, struct lane *lane, const struct entry *entry,
                            struct explained *explained)
{
    explained->place = PLACE_WAITING;
    explained->reason = lanes_reason(engine, lane, &explained->until);
    if (engine->is_draining)
        explained->reason = WAIT_STOPPING;
    so_far(engine, lane, entry, &explained->lateness);
}

/* The row is in the storage alone; it is read when the frontier, half a window or more ahead of the
 * time, comes to it. */
static void explain_disk(const struct engine *engine, const struct timer *timer,
                         struct explained *explained)
{
    uint64_t ahead_ms = engine->options.window_ms;

    explained->place = PLACE_DISK;
    explained->is_spilled = refill_is_spilled(engine, timer);
    explained->read_at.ms = timer->at.ms > ahead_ms ? timer->at.ms - ahead_ms : 0;
}

void explain_timer(struct engine *engine, const struct entry *entry,
                   struct explained *ret_explained)
{
    const struct history_entry *known = history_find(&engine->history, entry->timer->id.serial);
    struct lane *lane = NULL;
    struct tw_wheel_place place;

    *ret_explained = (struct explained){.now = engine->now, .until = WALL_NEVER};
    if (known)
        ret_explained->lateness = known->lateness;
    if (entry->phase == ENTRY_QUEUED || entry->phase == ENTRY_INFLIGHT) {
        lane = map_get(&engine->lanes, entry->queue);
        ret_explained->inflight = lane->inflight;
        ret_explained->inflight_max = lane_inflight_max(&engine->options, lane);
        ret_explained->since = entry->found_due;
    }
    if (timer_is_over(entry->timer->state)) {
        ret_explained->place = PLACE_OVER;
    } else if (entry->phase == ENTRY_INFLIGHT) {
        ret_explained->place = PLACE_OUT;
    } else if (entry->phase == ENTRY_QUEUED) {
        explain_waiting(engine, lane, entry, ret_explained);
    } else if (entry->phase == ENTRY_SCHEDULED &&
               tw_wheel_find(engine->wheel, entry->wheel_handle, &place)) {
        ret_explained->place = PLACE_WHEEL;
        ret_explained->wheel_level = place.level;
        ret_explained->wheel_bucket = place.bucket;
    } else {
        explain_disk(engine, entry->timer, ret_explained);
    }
}
