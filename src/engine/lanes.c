/*
 * Due timers, queued by the origin of their target: each origin has a lane and at most so many
 * deliveries out, so that one that is dead or slow fills its own lane only. Lanes with room take
 * turns. The lanes of queues send nothing by themselves (pull.c).
 */
#include "engine/engine_private.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

/* So many timers are spilled at a time, and as many more as there are lanes: so it costs less to
 * look for the longest one than to spill. */
#define SPILL_STEP 256

/* Whatever else is to be written waits behind what is spilled. So no more of it is being written at
 * a time than so many steps, and as much again as there is of everything else. */
#define SPILL_STEPS_OUT_MAX 4

/* What a target's lane goes by. `queue` is set for one of a queue. */
struct lane_name {
    enum lane_kind kind;
    struct bytes queue; /* PULLED: its full name */
    uint64_t hash;
    char room[QUEUE_FULL_NAME_SIZE_MAX]; /* of the name */
};

/* The seed is nobody's to guess, so nobody can make up a name that shares another one's lane. */
static uint64_t hash_of(const struct engine *engine, struct bytes text, uint64_t salt)
{
    uint64_t hash = random_mix(engine->options.seed ^ random_mix(text.size ^ salt << 32));

    for (size_t i = 0; i < text.size; i += 8) {
        size_t left = text.size - i;

        hash = random_mix(hash ^ get_le(text.data + i, left < 8 ? left : 8));
    }
    return hash;
}

static uint64_t queue_hash(const struct engine *engine, struct bytes queue, unsigned priority)
{
    return hash_of(engine, queue, 1 + priority);
}

static void name_lane(const struct engine *engine, const struct timer *timer,
                      struct lane_name *ret_name)
{
    if (timer_is_pulled(timer)) {
        ret_name->kind = LANE_PULLED;
        ret_name->queue =
            queue_full_name(timer->texts.tenant, timer_target_name(timer), ret_name->room);
        ret_name->hash = queue_hash(engine, ret_name->queue, timer->target.priority);
    } else {
        ret_name->kind =
            target_sharing(&timer->target) == TARGET_SHARES_CONNECTION ? LANE_BROKER : LANE_WEBHOOK;
        ret_name->hash = hash_of(engine, timer_target_origin(timer), 0);
    }
}

static void name_overdue(const struct engine *engine, struct lane_name *ret_name)
{
    ret_name->kind = LANE_OVERDUE;
    ret_name->hash = hash_of(engine, BYTES("overdue"), UINT32_MAX);
}

/* The time from which on a firing counts as late. */
static struct wall late_since(const struct timer *timer)
{
    return timer->state == TIMER_RETRYING ? timer->at : wall_max(timer->due, timer->created);
}

/* Of queues the workers decide how much they take. */
static bool is_overdue(const struct engine *engine, const struct timer *timer)
{
    return engine->options.catch_up_rate &&
           wall_since(late_since(timer), engine->now) > ENGINE_OVERDUE_MS &&
           !timer_is_pulled(timer);
}

struct lane *lanes_find(const struct engine *engine, const struct timer *timer)
{
    struct lane_name name;

    if (is_overdue(engine, timer))
        return engine->overdue;
    name_lane(engine, timer, &name);
    return map_get(&engine->lanes, name.hash);
}

struct lane *lanes_find_queue(const struct engine *engine, struct bytes queue, unsigned priority)
{
    return map_get(&engine->lanes, queue_hash(engine, queue, priority));
}

static struct lane *lane_get(struct engine *engine, const struct lane_name *name)
{
    struct lane *lane = map_get(&engine->lanes, name->hash);
    uint64_t rate;

    if (lane)
        return lane;
    lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    list_init(&lane->waiting);
    list_init(&lane->link);
    list_init(&lane->hungry);
    lane->origin = name->hash;
    lane->kind = name->kind;
    if (lane->kind == LANE_PULLED) {
        lane->queue_size = (uint8_t)name->queue.size;
        memcpy(lane->queue, name->queue.data, name->queue.size);
    }
    lane->reason = WAIT_ROOM;
    lane->reason_since = engine->now;
    rate = lane_rate(&engine->options, lane);
    if (rate)
        pace_init(&lane->pace, rate, engine->now);
    if (!map_put(&engine->lanes, lane->origin, lane)) {
        free(lane);
        return NULL;
    }
    if (lane->kind == LANE_OVERDUE)
        engine->overdue = lane;
    return lane;
}

/* ---- alarms ---- */

static void disarm(struct engine *engine, struct lane *lane)
{
    lane->wants_alarm = false;
    if (lane->alarm == TW_NONE)
        return;
    tw_wheel_cancel(engine->wheel, lane->alarm);
    lane->alarm = TW_NONE;
    engine->alarms--;
}

static void arm(struct engine *engine, struct lane *lane, struct wall at)
{
    if (lane->alarm != TW_NONE) {
        lane->wants_alarm = false;
        tw_wheel_reschedule(engine->wheel, lane->alarm, at.ms);
        return;
    }
    lane->alarm = tw_wheel_schedule(engine->wheel, at.ms, (uintptr_t)lane | LANES_ALARM);
    lane->wants_alarm = lane->alarm == TW_NONE;
    engine->alarms += !lane->wants_alarm;
    engine->alarms_wanted |= lane->wants_alarm;
}

void lanes_alarm(struct engine *engine, struct lane *lane)
{
    lane->alarm = TW_NONE;
    engine->alarms--;
    lanes_update(engine, lane);
}

void lanes_lose_alarms(struct engine *engine)
{
    struct lane *lane;
    size_t cursor = 0;

    while ((lane = map_next(&engine->lanes, &cursor)))
        lane->alarm = TW_NONE;
    engine->alarms = 0;
}

/* ---- what a lane may do ---- */

static bool is_held(const struct engine *engine, const struct lane *lane)
{
    return lane->held_until.ms > engine->now.ms;
}

static bool lacks_pace(struct engine *engine, struct lane *lane)
{
    uint64_t rate = lane_rate(&engine->options, lane);

    return rate && !pace_has(&lane->pace, rate, engine->now);
}

enum wait_reason lanes_reason(struct engine *engine, struct lane *lane, struct wall *ret_until)
{
    *ret_until = WALL_NEVER;
    if (lane->kind == LANE_PULLED)
        return WAIT_WORKER;
    if (is_held(engine, lane)) {
        *ret_until = lane->held_until;
        return WAIT_BREAKER;
    }
    if (lane->inflight >= lane_inflight_max(&engine->options, lane))
        return WAIT_TARGET_LIMIT;
    if (lacks_pace(engine, lane)) {
        *ret_until = pace_next(&lane->pace, lane_rate(&engine->options, lane));
        return lane->kind == LANE_OVERDUE ? WAIT_CATCH_UP : WAIT_RATE;
    }
    return lane->kind == LANE_OVERDUE ? WAIT_CATCH_UP : WAIT_ROOM;
}

/* The time since the last change goes to what was the reason then. */
static void account(struct engine *engine, struct lane *lane, enum wait_reason reason)
{
    if (lane->reason < WAIT_SUMMED)
        lane->waited_ms[lane->reason] += (uint32_t)wall_since(lane->reason_since, engine->now);
    lane->reason_since = engine->now;
    lane->reason = reason;
}

/* A lane without timers whose rate or pause is not forgotten yet stays until it may be. */
static struct wall kept_until(const struct engine *engine, const struct lane *lane)
{
    uint64_t rate = lane_rate(&engine->options, lane);

    return wall_max(rate ? pace_full(&lane->pace, rate) : (struct wall){0}, lane->held_until);
}

static void lane_free(struct engine *engine, struct lane *lane)
{
    disarm(engine, lane);
    if (engine->overdue == lane)
        engine->overdue = NULL;
    map_remove(&engine->lanes, lane->origin);
    free(lane);
}

void lanes_update(struct engine *engine, struct lane *lane)
{
    bool is_empty = list_is_empty(&lane->waiting);
    struct wall until;

    account(engine, lane, lanes_reason(engine, lane, &until));
    if (is_empty || lane->reason == WAIT_TARGET_LIMIT || until.ms != WALL_NEVER.ms)
        list_remove(&lane->link);
    else if ((lane->kind == LANE_WEBHOOK || lane->kind == LANE_BROKER) &&
             list_is_empty(&lane->link))
        list_push(lane->kind == LANE_BROKER ? &engine->broker_ready : &engine->ready, &lane->link);
    if (!refill_is_hungry(engine, lane))
        list_remove(&lane->hungry);
    else if (list_is_empty(&lane->hungry))
        list_push(&engine->hungry, &lane->hungry);
    if (is_empty)
        until = lane->inflight ? WALL_NEVER : kept_until(engine, lane);
    if (until.ms != WALL_NEVER.ms && until.ms > engine->now.ms)
        arm(engine, lane, until);
    else
        disarm(engine, lane);
    if (is_empty && lane->inflight == 0 && lane->spilled_pass == 0 && until.ms <= engine->now.ms)
        lane_free(engine, lane);
}

/* Moves a due timer to a later place in the storage, so that those behind it come into memory. Its
 * due time stays: it will be late, and says so. */
static void spill(struct engine *engine, struct lane *lane, struct entry *entry)
{
    entry->timer->at = refill_spill_to(engine, lane);
    entry->timer->state = TIMER_SCHEDULED; /* it waits for room now, not for its next attempt */
    entry->flags |= ENTRY_IS_SPILLING;
    engine->spilling++;
    engine->stats.spilled++;
    writer_add_own(engine, entry);
}

/* Tells once that there is something to pull. */
static void wake(struct engine *engine, struct lane *lane)
{
    if (lane->kind == LANE_PULLED && list_is_empty(&lane->link))
        list_push(&engine->woken, &lane->link);
}

static void unqueue(struct engine *engine, struct lane *lane, struct entry *entry)
{
    assert(entry->phase == ENTRY_QUEUED);
    list_remove(&entry->link);
    lane->waiting_bytes -= entry_footprint(entry);
    engine->waiting_bytes -= entry_footprint(entry);
    engine->stats.waiting--;
    engine->stats.catching_up -= lane->kind == LANE_OVERDUE;
}

static void enqueue(struct engine *engine, struct lane *lane, struct entry *entry)
{
    entry->queue = lane->origin;
    account(engine, lane, lane->reason);
    memcpy(entry->waited_ms, lane->waited_ms, sizeof(lane->waited_ms));
    engine->stats.catching_up += lane->kind == LANE_OVERDUE;
    lane->waiting_bytes += entry_footprint(entry);
    engine->waiting_bytes += entry_footprint(entry);
    engine->stats.waiting++;
    wake(engine, lane);
    lanes_update(engine, lane);
}

void lanes_add(struct engine *engine, struct entry *entry)
{
    struct lane_name name;
    struct lane *lane;

    if (is_overdue(engine, entry->timer))
        name_overdue(engine, &name);
    else
        name_lane(engine, entry->timer, &name);
    lane = lane_get(engine, &name);
    entry->found_due = engine->now;
    if (!lane) {
        spill(engine, NULL, entry);
        return;
    }
    entries_set_phase(engine->entries, entry, ENTRY_QUEUED);
    list_push(&lane->waiting, &entry->link);
    enqueue(engine, lane, entry);
}

void lanes_add_again(struct engine *engine, struct entry *entry)
{
    struct lane_name name;
    struct lane *lane;

    name_lane(engine, entry->timer, &name);
    lane = lane_get(engine, &name);
    if (!lane) {
        spill(engine, NULL, entry);
        return;
    }
    entries_set_phase(engine->entries, entry, ENTRY_QUEUED);
    list_push_front(&lane->waiting, &entry->link);
    enqueue(engine, lane, entry);
}

/* Lets what is overdue go over to the lanes of its targets, as its rate allows. */
static void release(struct engine *engine)
{
    struct lane *overdue = engine->overdue;

    while (overdue && !list_is_empty(&overdue->waiting) && !lacks_pace(engine, overdue)) {
        struct entry *entry = entry_of(overdue->waiting.next);
        struct lane_name name;
        struct lane *lane;

        name_lane(engine, entry->timer, &name);
        lane = lane_get(engine, &name);
        if (!lane)
            break; /* no memory: as long as nothing else calls, there is no need to hurry */
        pace_take(&overdue->pace, lane_rate(&engine->options, overdue), engine->now);
        unqueue(engine, overdue, entry);
        entries_set_phase(engine->entries, entry, ENTRY_QUEUED);
        list_push(&lane->waiting, &entry->link);
        enqueue(engine, lane, entry);
    }
    if (overdue)
        lanes_update(engine, overdue);
}

void lanes_remove(struct engine *engine, struct entry *entry)
{
    struct lane *lane = map_get(&engine->lanes, entry->queue);

    unqueue(engine, lane, entry);
    lanes_update(engine, lane);
}

static void lend(struct engine *engine, struct lane *lane, struct entry *entry)
{
    lane->inflight++;
    engine->webhooks_inflight += lane->kind == LANE_WEBHOOK;
    if (lane->kind == LANE_PULLED)
        pull_lent(engine, entry);
    entries_set_phase(engine->entries, entry, ENTRY_INFLIGHT);
    engine->inflight++;
}

bool lanes_adopt(struct engine *engine, struct entry *entry)
{
    struct lane_name name;
    struct lane *lane;

    name_lane(engine, entry->timer, &name);
    lane = lane_get(engine, &name);
    if (!lane || !entries_adopt(engine->entries, entry))
        return false;
    entry->queue = lane->origin;
    lend(engine, lane, entry);
    lanes_update(engine, lane);
    return true;
}

bool lanes_lend(struct engine *engine, struct lane *lane, struct list *deliveries)
{
    struct entry *entry = entry_of(lane->waiting.next);
    struct timer *timer = entry->timer;
    uint64_t rate = lane_rate(&engine->options, lane);
    struct delivery *delivery;

    if (outcome_is_too_late(engine, timer)) {
        unqueue(engine, lane, entry);
        lanes_update(engine, lane);
        outcome_dropped(engine, entry);
        return true;
    }
    delivery = calloc(1, sizeof(*delivery));
    if (!delivery)
        return false;
    explain_lent(engine, lane, entry);
    unqueue(engine, lane, entry);
    if (rate)
        pace_take(&lane->pace, rate, engine->now);
    entry->flags &= ~(uint32_t)ENTRY_WAS_RETRYING;
    if (timer->state == TIMER_RETRYING)
        entry->flags |= ENTRY_WAS_RETRYING;
    timer->state = TIMER_DELIVERING;
    lend(engine, lane, entry);
    delivery->timer = timer;
    delivery->attempt = timer->attempts + 1;
    delivery->epoch = engine->epoch;
    delivery->noticed = entry->found_due;
    list_push(deliveries, &delivery->link);
    lanes_update(engine, lane);
    return true;
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

size_t lanes_longest_tail_bytes(const struct engine *engine)
{
    const struct lane *lane = longest(engine);

    if (!lane || list_is_empty(&lane->waiting))
        return 0;
    return lane->waiting_bytes - entry_footprint(entry_of(lane->waiting.next));
}

static size_t spill_step(const struct engine *engine)
{
    return SPILL_STEP + map_count(&engine->lanes);
}

size_t lanes_spillable(const struct engine *engine)
{
    size_t max =
        SPILL_STEPS_OUT_MAX * spill_step(engine) + engine->write_count + engine->writes_out;

    return 2 * engine->spilling < max ? max - 2 * engine->spilling : 0;
}

/* A lane gives up those that wait at its end, until it holds `kept` bytes or `count` are
 * gone. */
static void spill_tail(struct engine *engine, struct lane *lane, size_t kept, size_t count)
{
    while (lane->waiting_bytes > kept && count-- > 0 && engine->stats.waiting > 1) {
        struct entry *entry = entry_of(lane->waiting.prev);

        unqueue(engine, lane, entry);
        spill(engine, lane, entry);
    }
    lanes_update(engine, lane);
}

void lanes_halve_longest(struct engine *engine)
{
    struct lane *lane = longest(engine);

    spill_tail(engine, lane, lane->waiting_bytes / 2, lanes_spillable(engine));
}

/* What waits for room at its target holds at most half of the memory, else the targets that are
 * dead would keep the timers of all others from coming into it. The longest lane gives up what came
 * to it last, so a healthy one keeps what it has; the rest of what is too much when these are
 * written. One timer may always wait, however large. */
static void relieve(struct engine *engine)
{
    while (engine->waiting_bytes > engine->options.near_bytes_max / 2 &&
           engine->stats.waiting > 1 && lanes_spillable(engine) > 0) {
        struct lane *lane = longest(engine);

        spill_tail(engine, lane, lane->waiting_bytes / 2, spill_step(engine));
    }
}

/* Lets the lane at the front of `ready` send one. False when out of memory, which may be back at
 * the next call. */
static bool send_one(struct engine *engine, struct list *ready)
{
    struct lane *lane = list_item(list_pop(ready), struct lane, link);

    if (lanes_lend(engine, lane, &engine->deliveries))
        return true;
    list_push_front(ready, &lane->link);
    return false;
}

static void send(struct engine *engine)
{
    while (engine->webhooks_inflight < engine->options.inflight_max &&
           !list_is_empty(&engine->ready))
        if (!send_one(engine, &engine->ready))
            return;
    while (!list_is_empty(&engine->broker_ready))
        if (!send_one(engine, &engine->broker_ready))
            return;
}

/* Lets the lanes that want it be looked at again. O(lanes). */
static void arm_wanting(struct engine *engine)
{
    struct lane *lane;
    size_t cursor = 0;

    engine->alarms_wanted = false;
    while (!engine->alarms_wanted && (lane = map_next(&engine->lanes, &cursor)))
        if (lane->wants_alarm)
            arm(engine, lane, engine->now);
}

void lanes_dispatch(struct engine *engine)
{
    if (engine->is_draining)
        return;
    if (engine->alarms_wanted)
        arm_wanting(engine);
    release(engine);
    send(engine);
    relieve(engine);
}

/* A webhook that was postponed says that its target is to be left alone, one that got through that
 * it is back. */
static void hold(struct engine *engine, struct lane *lane, const struct delivery_outcome *outcome)
{
    if (lane->kind != LANE_WEBHOOK)
        return;
    if (outcome->result == DELIVERY_DONE)
        lane->held_until = (struct wall){0};
    else if (outcome->result == DELIVERY_POSTPONED)
        lane->held_until = wall_add(engine->now, outcome_postpone_ms(outcome));
}

void lanes_returned(struct engine *engine, struct entry *entry,
                    const struct delivery_outcome *outcome)
{
    struct lane *lane = map_get(&engine->lanes, entry->queue);

    hold(engine, lane, outcome);
    list_remove(&entry->link);
    engine->inflight--;
    lane->inflight--;
    engine->webhooks_inflight -= lane->kind == LANE_WEBHOOK;
    if (lane->kind == LANE_PULLED)
        pull_returned(engine, entry);
    lanes_update(engine, lane);
}

void lanes_clock_went_back(struct engine *engine)
{
    struct lane *lane;
    struct list early;
    size_t cursor = 0;

    list_init(&early);
    while ((lane = map_next(&engine->lanes, &cursor))) {
        lane->held_until =
            wall_min(lane->held_until, wall_add(engine->now, engine->options.storage_retry_ms));
        lane->reason_since = engine->now;
        lane->wants_alarm = true; /* the one that it has is by the old time */
        LIST_FOR_EACH (&lane->waiting, link) {
            const struct timer *timer = entry_of(link)->timer;

            if (wall_max(timer->at, timer->due).ms > engine->now.ms &&
                !refill_is_spilled(engine, timer)) {
                unqueue(engine, lane, entry_of(link));
                list_push(&early, link);
            }
        }
    }
    LIST_FOR_EACH (&early, link) {
        struct entry *entry = entry_of(link);

        list_remove(link);
        lane = map_get(&engine->lanes, entry->queue);
        if (lane)
            lanes_update(engine, lane);
        scheduler_rest_or_go(engine, entry);
    }
    arm_wanting(engine);
}

struct wall lanes_oldest(const struct engine *engine)
{
    struct wall oldest = WALL_NEVER;
    size_t cursor = 0;
    struct lane *lane;

    while ((lane = map_next(&engine->lanes, &cursor)))
        LIST_FOR_EACH (&lane->waiting, link)
            oldest = wall_min(oldest, entry_of(link)->timer->at);
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
