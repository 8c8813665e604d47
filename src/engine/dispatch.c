/* Timers through the dispatch queues: queued, delivered, spilled. */
#include "engine/dispatch.h"

#include "base/check.h"
#include "engine/dispatch_line.h"
#include "engine/dispatch_spill.h"
#include "engine/effects.h"
#include "engine/fanout.h"
#include "engine/history.h"
#include "engine/lanes.h"
#include "engine/order.h"
#include "engine/outcome.h"
#include "engine/position.h"
#include "engine/watermark.h"
#include "engine/window.h"
#include "timer/awaits.h"

#include <stdlib.h>

enum {
    EXPIRE_BATCH = 256,
    /* maximum of timers queued in one turn; if more are due, the next turn follows at once */
    EXPIRE_MAX = 2048,
};

/* Makes a budget for this engine alone. Returns NULL if out of memory. */
static struct budget *dispatch_own_budget(const struct engine_options *options)
{
    const struct budget_limits limits = {
        .webhooks = options->inflight_max,
        .each = {[BUDGET_TARGET] = options->target_inflight_max,
                 [BUDGET_CONNECTION] = options->broker_inflight_max,
                 [BUDGET_LEASES] = options->pulled_max,
                 [BUDGET_FLOW] = BUDGET_ALL_PLACES}};

    return budget_create(&limits, 1, options->seed);
}

struct dispatch *dispatch_create(const struct engine_options *options)
{
    struct dispatch *dispatch = calloc(1, sizeof(*dispatch));

    if (!dispatch)
        return NULL;
    map_init(&dispatch->queues);
    map_init(&dispatch->connections);
    list_init(&dispatch->asking);
    list_init(&dispatch->placed);
    list_init(&dispatch->woken);
    map_init(&dispatch->lessees);
    list_init(&dispatch->leasing);
    map_init(&dispatch->flows);
    list_init(&dispatch->lanes_changed);
    list_init(&dispatch->flows_ready);
    list_init(&dispatch->flows_called);
    list_init(&dispatch->flows_idle);
    list_init(&dispatch->closed);
    dispatch->idle_max = FLOWS_IDLE_MAX;
    dispatch->is_budget_own = !options->budget;
    dispatch->budget = options->budget ? options->budget : dispatch_own_budget(options);
    if (!dispatch->budget) {
        free(dispatch);
        return NULL;
    }
    budget_join(dispatch->budget, &dispatch->member, options->wake, options->wake_context);
    return dispatch;
}

void dispatch_destroy(struct dispatch *dispatch)
{
    if (!dispatch)
        return;
    budget_leave(&dispatch->member);
    if (dispatch->is_budget_own)
        budget_destroy(dispatch->budget);
    size_t cursor = 0;
    for (struct dispatch_queue *queue; (queue = map_next(&dispatch->queues, &cursor));)
        free(queue);
    map_deinit(&dispatch->queues);
    cursor = 0;
    for (struct dispatch_connection *connection;
         (connection = map_next(&dispatch->connections, &cursor));)
        free(connection);
    map_deinit(&dispatch->connections);
    cursor = 0;
    for (struct dispatch_lessee *lessee; (lessee = map_next(&dispatch->lessees, &cursor));)
        free(lessee);
    map_deinit(&dispatch->lessees);
    flows_destroy(dispatch);
    free(dispatch);
}

/* ---- queued ---- */

/* True if the timer came from the wheel and waits in strict order after one that is spilled. */
static bool dispatch_comes_after_spilled(const struct dispatch_queue *queue,
                                         const struct entry *entry)
{
    return queue->is_strict && entry->phase == ENTRY_SCHEDULED &&
           !order_is_before_spilled(queue, entry->timer);
}

static void dispatch_add(struct engine *engine, struct entry *entry)
{
    assert(entry->row_at.ms == entry->timer->at.ms);
    assert(entry->timer->due.ms <= engine->now.ms);
    assert(entry->timer->attempts < entry->timer->retry.attempts_max);
    struct dispatch_name name;
    if (dispatch_is_overdue(engine, entry->timer))
        dispatch_name_overdue(engine, &name);
    else
        dispatch_name_of(engine, entry->timer, &name);
    struct dispatch_queue *queue = dispatch_queue_where(engine, &name);
    if (!queue)
        queue = dispatch_queue_get(engine, &name);
    if (queue && !dispatch_comes_after_spilled(queue, entry))
        dispatch_enqueue(engine, queue, entry,
                         entry->flags & ENTRY_KEEPS_PLACE ? DISPATCH_FRONT : DISPATCH_BACK);
    else
        dispatch_spill(engine, queue, entry);
    entry->found_due = engine->now;
}

void dispatch_settled(struct engine *engine, struct entry *entry)
{
    struct dispatch_queue *queue =
        order_comes_back(engine, entry) ? NULL : order_came_back(engine, entry);

    if (queue)
        dispatch_queue_update(engine, queue);
}

/* True if the timer of a queue is no longer due, after a step back of the clock. */
static bool dispatch_is_early(const struct engine *engine, const struct timer *timer)
{
    return !position_is_due(engine, timer) && !position_is_spilled(engine, timer);
}

/* Puts an early timer where it waits until it is due. */
static void dispatch_reschedule(struct engine *engine, struct entry *entry)
{
    spill_reschedule(engine, entry);
    dispatch_settled(engine, entry);
}

void dispatch_requeue(struct engine *engine, struct entry *entry, struct wall due)
{
    struct timer *timer = entry->timer;

    assert(entry->row_at.ms == entry->timer->at.ms);
    assert(entry->timer->state == TIMER_DELIVERING);
    assert(entry->phase == ENTRY_INFLIGHT);
    timer->state = entry->flags & ENTRY_WAS_RETRYING ? TIMER_RETRYING : TIMER_SCHEDULED;
    timer->due = due;
    entries_show(engine->entries, entry);
    if (dispatch_is_early(engine, timer)) {
        entry->found_due = (struct wall){0}; /* it has no pause */
        dispatch_keep_place(engine, entry);
        dispatch_reschedule(engine, entry);
        return;
    }

    struct dispatch_name name;
    dispatch_name_of(engine, timer, &name);
    struct dispatch_queue *queue = dispatch_queue_get(engine, &name);
    if (queue)
        dispatch_enqueue(engine, queue, entry, DISPATCH_FRONT);
    else
        dispatch_spill(engine, NULL, entry);
}

/* Moves the row of a timer to its due time, because the row's position is reached and the time was
 * extended. Clients do not see this as a change. */
static void dispatch_move_row(struct engine *engine, struct entry *entry)
{
    assert(entry->row_at.ms == entry->timer->at.ms);
    assert(entry->timer->state == TIMER_SCHEDULED);
    assert(entry->timer->at.ms < entry->timer->due.ms);
    entry->timer->at = entry->timer->due;
    engine->stats.rows_moved++;
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

/* Resumes a timer whose pause ends now. */
static void dispatch_resume(struct engine *engine, struct entry *entry)
{
    struct timer *copy = timer_resumed(entry->timer, engine->now);

    if (!copy) {
        window_park_without_memory(engine, entry);
        return;
    }
    history_wait(engine->history, copy, LATENESS_PAUSED, entry->timer->paused);
    entries_replace(engine->entries, entry, copy); /* a reply may still show the paused timer */
    engine->stats.resumed++;
    entry->outcome = FEED_RESUMED;
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

void dispatch_due(struct engine *engine, struct entry *entry)
{
    assert(entry->phase == ENTRY_SCHEDULED || entry->phase == ENTRY_LOADING ||
           entry->phase == ENTRY_WRITING);
    assert(!timer_is_final(entry->timer->state));
    if (entry->timer->state == TIMER_PAUSED) {
        dispatch_resume(engine, entry);
    } else if (timer_awaits(entry->timer)) {
        outcome_unanswered(engine, entry);
    } else if (entry->timer->due.ms > engine->now.ms) {
        dispatch_move_row(engine, entry);
    } else if (fanout_is_parent(entry->timer)) {
        fanout_due(engine, entry);
    } else if (entry->timer->attempts >= entry->timer->retry.attempts_max) {
        outcome_exhausted(engine, entry);
    } else {
        engine->stats.due += entry->timer->attempts == 0;
        dispatch_add(engine, entry);
    }
}

/* Handles a timer that the wheel says is due. */
static void dispatch_expired(struct engine *engine, struct entry *entry)
{
    assert(!timer_is_final(entry->timer->state));
    assert(entry->phase == ENTRY_SCHEDULED);
    /* possible only if there was no memory for a new wheel after a step back of the clock */
    if (entry->timer->at.ms > engine->now.ms) {
        window_park_without_memory(engine, entry);
        dispatch_settled(engine, entry);
    } else {
        dispatch_due(engine, entry);
    }
}

void dispatch_expire(struct engine *engine)
{
    size_t taken = 0;
    while (taken < EXPIRE_MAX && window_is_due(engine)) {
        struct window_due due[EXPIRE_BATCH];
        size_t count = window_expire(engine, due, EXPIRE_BATCH);
        assert(count <= EXPIRE_BATCH);

        /* Alarms first: each may free its queue, but no other one. */
        for (size_t i = 0; i < count; i++)
            if (due[i].alarm_owner)
                dispatch_queue_alarm(engine, due[i].alarm_owner);
        for (size_t i = 0; i < count; i++) {
            if (!due[i].entry)
                continue;
            if (fanout_is_parent(due[i].entry->timer))
                taken += FANOUT_PARTS_MAX; /* each part is a timer that is made */
            dispatch_expired(engine, due[i].entry);
        }
        taken += count ? count : EXPIRE_BATCH;
    }
}

/* Moves overdue timers to the queues of their targets, at catch_up_rate. */
static void dispatch_release_overdue(struct engine *engine)
{
    struct dispatch_queue *overdue = engine->dispatch->overdue;

    assert(!overdue || overdue->kind == DISPATCH_OVERDUE);
    while (overdue && !list_is_empty(&overdue->timers) && !dispatch_lacks_pace(engine, overdue)) {
        struct entry *entry = dispatch_first(overdue);
        struct dispatch_name name;

        dispatch_name_of(engine, entry->timer, &name);
        struct dispatch_queue *queue = dispatch_queue_where(engine, &name);
        if (!queue)
            queue = dispatch_queue_get(engine, &name);
        if (!queue)
            break; /* out of memory: continues with the next turn */
        assert(queue != overdue && queue->kind != DISPATCH_PULLED);
        pace_take(&overdue->pace, dispatch_rate(&engine->options, overdue), engine->now);
        dispatch_count_out(engine, overdue, entry);
        dispatch_enqueue(engine, queue, entry, DISPATCH_BACK);
    }
    if (overdue)
        dispatch_queue_update(engine, overdue);
}

void dispatch_remove(struct engine *engine, struct entry *entry)
{
    struct dispatch_queue *queue = dispatch_queue_by_key(engine, entry->queue);

    assert(entry->phase == ENTRY_QUEUED);
    assert(queue);
    dispatch_count_out(engine, queue, entry);
    dispatch_queue_update(engine, queue);
}

bool dispatch_keep_place(struct engine *engine, struct entry *entry)
{
    struct dispatch_name name;

    if (timer_order(entry->timer) != TIMER_ORDER_STRICT || timer_is_final(entry->timer->state))
        return true;
    dispatch_name_of(engine, entry->timer, &name);
    struct dispatch_queue *queue = dispatch_queue_get(engine, &name);
    if (!queue)
        return false;
    if (entry->flags & ENTRY_KEEPS_PLACE ||
        (entry->phase == ENTRY_QUEUED && entry->queue != queue->key)) /* in a lane */
        return true;
    if (entry->phase != ENTRY_QUEUED)
        entry->queue = queue->key;
    order_went_away(queue, entry);
    return true;
}

/* ---- places ---- */

static uint32_t dispatch_wanted(struct budget_claim *claim)
{
    const size_t wanted = claim->kind == BUDGET_CONNECTION
                              ? list_item(claim, struct dispatch_connection, claim)->wanted
                              : list_item(claim, struct dispatch_queue, claim)->wanted;

    assert(claim->kind != BUDGET_LEASES);
    return wanted < BUDGET_ALL_PLACES ? (uint32_t)wanted : BUDGET_ALL_PLACES;
}

/* Records which lessees have places, so that engine_take_woken returns their queues. dispatch_send
 * uses all other places. */
static void dispatch_look_at_leases(struct engine *engine)
{
    LIST_FOR_EACH (&engine->dispatch->placed, link) {
        struct budget_claim *claim = list_item(link, struct budget_claim, link);

        if (claim->kind == BUDGET_LEASES)
            leases_placed(engine, claim);
    }
}

void dispatch_take_places(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;

    if (!budget_has_news(&dispatch->member))
        return;
    budget_take(&dispatch->member, engine->now, &dispatch->placed);
    dispatch_look_at_leases(engine);
}

bool dispatch_has_places(const struct engine *engine)
{
    const struct dispatch *dispatch = engine->dispatch;

    return budget_has_news(&dispatch->member) ||
           (!dispatch->is_budget_own && !list_is_empty(&dispatch->leasing));
}

void dispatch_drain(struct engine *engine)
{
    budget_retire(&engine->dispatch->member);
}

/* ---- delivered ---- */

/* Begins a delivery. Returns true if the target is unproven, so that the delivery counts in
 * `unproven`. */
static bool dispatch_begin(struct engine *engine, struct dispatch_queue *queue, struct entry *entry)
{
    struct dispatch *dispatch = engine->dispatch;

    assert(!engine->is_draining);
    assert(queue->inflight <= dispatch->inflight);
    const bool is_unproven = budget_use(dispatch_claim(queue)) == SHARE_UNPROVEN;
    queue->named.has_start = false;
    queue->inflight++;
    dispatch->inflight++;
    dispatch->unproven += is_unproven;
    entry->flags &= ~(uint32_t)ENTRY_IS_UNPROVEN;
    entry->flags |= is_unproven ? ENTRY_IS_UNPROVEN : 0;
    if (queue->kind == DISPATCH_PULLED)
        leases_began(engine, queue, entry);
    entries_set_phase(engine->entries, entry, ENTRY_INFLIGHT);
    return is_unproven;
}

/* Moves the begin of the target's failure. It does not include time for which an operator held the
 * target back, time before an earlier firing, or time of a clock that was ahead. */
static void dispatch_date_failure(const struct engine *engine, struct dispatch_queue *queue,
                                  struct timer *timer, struct wall due)
{
    const struct wall held =
        wall_min(wall_max(queue->pause_ended, engine->held_ended), engine->now);

    if (queue->failing_since.ms)
        queue->failing_since = wall_min(wall_max(queue->failing_since, held), engine->now);
    if (due.ms != timer->due.ms)
        timer->failing = (struct wall){0};
    if (timer->failing.ms)
        timer->failing = wall_min(wall_max(timer->failing, held), engine->now);
}

/* Hands the queue's first timer's firing to a timer of its own, which joins the queue when it is
 * durable. Returns false if that is impossible. May free the queue. */
static bool dispatch_begin_apart(struct engine *engine, struct dispatch_queue *queue,
                                 struct entry *entry, struct wall due)
{
    const enum lateness_stage missed_by = lateness_cause(engine, queue, entry);
    struct outcome_next next;
    struct entry *firing = outcome_make_apart(engine, entry->timer, due, &next);

    if (!firing)
        return false;
    if (queue->is_strict) /* no later item passes the firing while it is written */
        order_went_away(queue, entry);
    dispatch_count_out(engine, queue, entry);
    dispatch_queue_update(engine, queue);
    outcome_begins_apart(engine, entry, firing, &next, missed_by);
    return true;
}

/* Removes a timer from its queue; that may free the queue. */
static void dispatch_take_out(struct engine *engine, struct dispatch_queue *queue,
                              struct entry *entry)
{
    dispatch_count_out(engine, queue, entry);
    dispatch_queue_update(engine, queue);
}

/* Returns whether the limits of the queue's named target, and of its flow, let the timer start. */
static enum lanes_answer dispatch_admit(struct engine *engine, struct dispatch_queue *queue,
                                        struct entry *entry)
{
    if (dispatch_queue_start(engine, queue))
        return lanes_admit(engine, queue, entry);
    dispatch_queue_update(engine, queue);
    return LANES_WAITS;
}

bool dispatch_deliver(struct engine *engine, struct dispatch_queue *queue,
                      struct delivery **ret_delivery)
{
    struct entry *entry = dispatch_first(queue);
    struct timer *timer = entry->timer;
    uint64_t rate = dispatch_rate(&engine->options, queue);

    assert(!engine->is_draining);
    assert(entry->phase == ENTRY_QUEUED);
    assert(entry->row_at.ms == timer->at.ms);
    *ret_delivery = NULL;
    struct wall due;
    const enum outcome_firing firing = outcome_firing(engine, timer, &due);
    if (firing == OUTCOME_APART && dispatch_begin_apart(engine, queue, entry, due)) {
        return true;
    }
    if (firing != OUTCOME_FIRES && firing != OUTCOME_APART) {
        dispatch_take_out(engine, queue, entry);
        if (firing == OUTCOME_WAITS)
            outcome_waits(engine, entry);
        else if (firing == OUTCOME_MOVES)
            outcome_moves(engine, entry, due);
        else if (firing == OUTCOME_OVERTAKEN)
            outcome_overtaken(engine, entry);
        else if (firing == OUTCOME_LEFT_OUT)
            outcome_left_out(engine, entry);
        else
            outcome_dropped(engine, entry);
        return true;
    }
    dispatch_date_failure(engine, queue, timer, due);
    if (outcome_is_abandoned(engine, timer, queue->failing_since)) {
        dispatch_take_out(engine, queue, entry);
        outcome_abandoned(engine, entry);
        return true;
    }

    struct delivery *delivery = calloc(1, sizeof(*delivery));
    if (!delivery)
        return false;
    assert(due.ms <= engine->now.ms); /* a timer is never early */
    const enum lanes_answer answer = dispatch_admit(engine, queue, entry);
    if (answer != LANES_STARTS) {
        free(delivery);
        return answer == LANES_WAITS;
    }
    delivery->row_due = timer->due;
    if (due.ms != timer->due.ms)
        delivery->missed_by = lateness_cause(engine, queue, entry);
    timer->due = due;
    entry->found_due = wall_max(entry->found_due, due);
    lateness_of_delivery(engine, queue, entry, &delivery->lateness);
    dispatch_count_out(engine, queue, entry);
    if (rate)
        pace_take(&queue->pace, rate, engine->now);
    entry->flags &= ~(uint32_t)ENTRY_WAS_RETRYING;
    if (timer->state == TIMER_RETRYING)
        entry->flags |= ENTRY_WAS_RETRYING;
    timer->state = TIMER_DELIVERING;
    entries_show(engine->entries, entry);
    delivery->is_unproven = dispatch_begin(engine, queue, entry);
    if (timer->texts.flow.size)
        flows_began(engine, flows_of(engine, timer), entry);
    delivery->timer = timer;
    delivery->attempt = timer->attempts + 1;
    delivery->epoch = engine->epoch;
    delivery->found_due = entry->found_due;
    dispatch_queue_update(engine, queue);
    *ret_delivery = delivery;
    return true;
}

/* Updates how long the target is left alone: a postponed webhook sets the time, and a successful
 * one clears it. */
static void dispatch_hold(struct engine *engine, struct dispatch_queue *queue,
                          const struct delivery_outcome *outcome)
{
    assert(outcome->result != DELIVERY_POSTPONED || queue->inflight > 0);
    assert(queue->kind == DISPATCH_WEBHOOK || queue->held_until.ms == 0);
    if (queue->kind != DISPATCH_WEBHOOK)
        return;
    if (outcome->result == DELIVERY_DONE)
        queue->held_until = (struct wall){0};
    if (outcome->result == DELIVERY_DONE || outcome->is_answer)
        queue->failing_since = (struct wall){0};
    if (outcome->result != DELIVERY_POSTPONED || outcome->holds != DELIVERY_HOLDS_QUEUE)
        return;
    queue->held_until = wall_add(engine->now, outcome_postpone_ms(outcome));
    queue->held_since = engine->now;
    if (!queue->failing_since.ms)
        queue->failing_since = engine->now;
}

/* Gives the place of a delivery back. An answer to a webhook proves its target; a missing answer
 * ends the proof. */
static void dispatch_end_place(struct engine *engine, struct dispatch_queue *queue,
                               const struct entry *entry, const struct delivery_outcome *outcome)
{
    const bool is_unproven = entry->flags & ENTRY_IS_UNPROVEN;
    enum budget_proof proof = BUDGET_PROOF_NONE;

    assert(!is_unproven || (queue->kind == DISPATCH_WEBHOOK && engine->dispatch->unproven > 0));
    if (queue->kind == DISPATCH_WEBHOOK)
        proof = outcome->result == DELIVERY_DONE || outcome->is_answer ? BUDGET_ANSWERED
                : outcome->result == DELIVERY_FAILED                   ? BUDGET_SILENT
                                                                       : BUDGET_PROOF_NONE;
    engine->dispatch->unproven -= is_unproven;
    budget_end(dispatch_claim(queue), is_unproven ? SHARE_UNPROVEN : SHARE_PROVEN, proof);
}

void dispatch_returned(struct engine *engine, struct entry *entry,
                       const struct delivery_outcome *outcome)
{
    struct dispatch *dispatch = engine->dispatch;
    struct dispatch_queue *queue = dispatch_queue_by_key(engine, entry->queue);

    assert(entry->timer->state == TIMER_DELIVERING);
    assert(entry->phase == ENTRY_INFLIGHT);
    assert(queue && queue->inflight > 0 && dispatch->inflight > 0);
    dispatch_hold(engine, queue, outcome);
    dispatch->inflight--;
    queue->inflight--;
    dispatch_end_place(engine, queue, entry, outcome);
    if (entry->flags & ENTRY_IS_IN_FLOW)
        flows_ended(engine, entry);
    if (queue->kind == DISPATCH_PULLED)
        leases_ended(engine, queue, entry);
    if (queue->is_strict && outcome->result == DELIVERY_FAILED)
        order_went_away(queue, entry);
    dispatch_queue_update(engine, queue);
}

/* Delivers one timer of the queue. Returns false if out of memory; the next turn tries again. */
static bool dispatch_send_one(struct engine *engine, struct dispatch_queue *queue)
{
    assert(queue->kind == DISPATCH_WEBHOOK || queue->kind == DISPATCH_BROKER);
    struct delivery *delivery;
    if (!dispatch_deliver(engine, queue, &delivery)) {
        dispatch_queue_update(engine, queue);
        return false;
    }
    if (delivery)
        effects_deliver(engine, delivery);
    return true;
}

/* Uses one place of a claim that was taken off `placed`, and lists the claim again if it has
 * more. */
static bool dispatch_send_placed(struct engine *engine, struct budget_claim *claim)
{
    struct dispatch_connection *connection;
    struct dispatch_queue *queue;

    assert(budget_has_place(claim));
    if (claim->kind == BUDGET_FLOW) {
        flows_mark(engine, list_item(claim, struct dispatch_flow, claim));
        return true;
    }
    if (claim->kind == BUDGET_CONNECTION) {
        connection = list_item(claim, struct dispatch_connection, claim);
        queue = connections_next(connection);
    } else {
        queue = list_item(claim, struct dispatch_queue, claim);
    }
    if (queue && queue->wanted > 0)
        return dispatch_send_one(engine, queue);
    /* the queue is paused, or its timers were cancelled */
    dispatch_want(engine->dispatch, claim, 0);
    return true;
}

/* Asks the budget for the places that are wanted now, and fetches those that are free. */
static void dispatch_ask(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;
    struct list asked;

    list_init(&asked);
    list_join(&asked, &dispatch->asking);
    LIST_FOR_EACH (&asked, link) {
        struct budget_claim *claim = list_item(link, struct budget_claim, link);

        budget_ask(claim, dispatch_wanted(claim));
    }
    budget_take(&dispatch->member, engine->now, &dispatch->placed);
    for (struct list *link; (link = list_pop(&asked));) {
        struct budget_claim *claim = list_item(link, struct budget_claim, link);
        struct dispatch_queue *queue = list_item(claim, struct dispatch_queue, claim);
        struct wall until;

        if (budget_has_place(claim))
            list_push(&dispatch->placed, link);
        /* other engines may have used the target's last place */
        else if (claim->kind == BUDGET_TARGET)
            dispatch_queue_account(engine, queue, dispatch_queue_reason(engine, queue, &until));
    }
}

static void dispatch_send_ready(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;

    assert(!engine->is_draining);
    do {
        lanes_call(engine);
        dispatch_ask(engine);
        dispatch_look_at_leases(engine);
        for (struct list *link; (link = list_pop(&dispatch->placed));)
            if (!dispatch_send_placed(engine, list_item(link, struct budget_claim, link)))
                return;
        lanes_look_back(engine);
    } while (!list_is_empty(&dispatch->asking) || !list_is_empty(&dispatch->flows_ready) ||
             !list_is_empty(&dispatch->lanes_changed));
}

/* ---- a turn ---- */

void dispatch_send(struct engine *engine)
{
    assert(engine->dispatch->pulled <= engine->dispatch->inflight);
    if (engine->is_draining) {
        budget_take(&engine->dispatch->member, engine->now, &engine->dispatch->placed);
        return;
    }
    if (engine->dispatch->alarms_wanted)
        dispatch_set_alarms(engine);
    flows_forget(engine);
    for (struct dispatch_queue *queue; (queue = order_reopened(engine));)
        if (!list_is_empty(&queue->timers)) {
            leases_wake(engine, queue);
            dispatch_queue_update(engine, queue);
        }
    if (!engine->is_held) {
        dispatch_release_overdue(engine);
        dispatch_send_ready(engine);
    }
    dispatch_relieve(engine);
}

/* ---- the clock ---- */

/* Moves timers that are no longer due, after a step back of the clock, from the queue to
 * `early`. */
static void dispatch_take_early(struct engine *engine, struct dispatch_queue *queue,
                                struct list *early)
{
    LIST_FOR_EACH (&queue->timers, link) {
        if (dispatch_is_early(engine, entry_of(link)->timer)) {
            if (queue->is_strict)
                order_went_away(queue, entry_of(link));
            dispatch_count_out(engine, queue, entry_of(link));
            list_push(early, link);
        }
    }
}

void dispatch_clock_went_back(struct engine *engine, enum dispatch_wheel wheel, struct list *away)
{
    struct list early;
    list_init(&early);
    /* an item that is on disk, at the time at which it failed, may come before others */
    if (engine->now.ms < watermark_placed(engine).ms)
        engine->dispatch->order_is_known = false;
    size_t cursor = 0;
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));) {
        if (wheel == DISPATCH_WHEEL_NEW)
            queue->alarm = TW_NONE;
        queue->held_until =
            wall_min(queue->held_until, wall_add(engine->now, engine->options.storage_retry_ms));
        queue->named.next_at = queue->named.kept_until = (struct wall){0};
        queue->reason_since = engine->now;
        queue->wants_alarm = true; /* its alarm was set for the old time */
        dispatch_take_early(engine, queue, &early);
    }
    flows_look_again(engine);
    LIST_FOR_EACH (&early, link) {
        struct entry *entry = entry_of(link);
        struct dispatch_queue *queue = dispatch_queue_by_key(engine, entry->queue);

        list_remove(link);
        if (queue)
            dispatch_queue_update(engine, queue);
        entries_show(engine->entries, entry);
        dispatch_reschedule(engine, entry);
    }
    LIST_FOR_EACH (away, link) {
        list_remove(link);
        if (dispatch_is_early(engine, entry_of(link)->timer))
            dispatch_reschedule(engine, entry_of(link));
        else
            dispatch_due(engine, entry_of(link));
    }
    dispatch_set_alarms(engine);
}

void dispatch_limits_changed(struct engine *engine)
{
    size_t cursor = 0;

    flows_look_again(engine);
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));) {
        if (queue->kind != DISPATCH_WEBHOOK || list_is_empty(&queue->timers))
            continue;
        dispatch_queue_look_at_limits(engine, queue);
        dispatch_queue_update(engine, queue);
    }
}

/* ---- questions ---- */

size_t dispatch_queued(const struct engine *engine)
{
    assert(engine->dispatch->queued <= entries_size(engine->entries));
    return engine->dispatch->queued;
}

size_t dispatch_queued_bytes(const struct engine *engine)
{
    assert(engine->dispatch->queued > 0 || engine->dispatch->queued_bytes == 0);
    return engine->dispatch->queued_bytes;
}

size_t dispatch_leased(const struct engine *engine)
{
    return engine->dispatch->pulled;
}

size_t dispatch_inflight(const struct engine *engine)
{
    assert(engine->dispatch->inflight <= entries_size(engine->entries));
    return engine->dispatch->inflight;
}

struct wall dispatch_oldest(const struct engine *engine)
{
    struct wall oldest = WALL_NEVER;
    size_t cursor = 0;

    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        LIST_FOR_EACH (&queue->timers, link)
            oldest = wall_min(oldest, entry_of(link)->timer->at);
    return oldest;
}

/* Adds the timers that a breaker postponed and that are in no queue. */
static void dispatch_count_postponed(const struct engine *engine, struct engine_stats *stats)
{
    const struct live *live = entries_live(engine->entries);

    for (const struct live_postponed *of = NULL; (of = live_next_postponed(live, of));) {
        const enum wait_reason reason = waiting_postponed_reason(engine, of);
        struct wall *oldest = &stats->oldest_overdue[OVERDUE_WEBHOOK];

        stats->held[reason] += of->count;
        if (reason != WAIT_PAUSED)
            *oldest = wall_min(*oldest, live_postponed_oldest(of));
    }
}

/* Returns, by kind, the number of waiting timers, and the due time of the one that is late by the
 * most; 0 if none is late. Timers of a paused queue or target wait on purpose and are not late. */
static void dispatch_overdue(const struct engine *engine, struct engine_stats *ret_stats)
{
    static const enum overdue_kind of_queue[] = {[DISPATCH_WEBHOOK] = OVERDUE_WEBHOOK,
                                                 [DISPATCH_BROKER] = OVERDUE_BROKER,
                                                 [DISPATCH_PULLED] = OVERDUE_QUEUE,
                                                 [DISPATCH_OVERDUE] = OVERDUE_CATCH_UP,
                                                 [DISPATCH_LANE] = OVERDUE_WEBHOOK};
    static const enum overdue_kind of_target[] = {[TARGET_SHARES_ORIGIN] = OVERDUE_WEBHOOK,
                                                  [TARGET_SHARES_CONNECTION] = OVERDUE_BROKER,
                                                  [TARGET_SHARES_WORKERS] = OVERDUE_QUEUE};
    struct wall *ret_oldest = ret_stats->oldest_overdue;
    size_t cursor = 0;

    for (int i = 0; i < OVERDUE_KIND_COUNT; i++) {
        ret_stats->ready[i] = 0;
        ret_oldest[i] = engine->now;
    }
    memset(ret_stats->held, 0, sizeof(ret_stats->held));
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));) {
        const enum overdue_kind kind =
            queue->kind == DISPATCH_LANE && queue->count > 0
                ? of_target[target_sharing(&dispatch_first(queue)->timer->target)]
                : of_queue[queue->kind];
        struct wall *oldest = &ret_oldest[kind];

        ret_stats->ready[kind] += queue->count;
        ret_stats->held[dispatch_reason(engine, queue)] += queue->count;
        if (!list_is_empty(&queue->timers) && !dispatch_queue_is_paused(engine, queue))
            *oldest = wall_min(*oldest, dispatch_first(queue)->timer->due);
    }
    LIST_FOR_EACH (entries_busy(engine->entries), link) {
        const struct timer *timer = entry_of(link)->timer;
        struct wall *oldest = &ret_oldest[of_target[target_sharing(&timer->target)]];
        const bool is_postponed = waiting_is_postponed(engine, entry_of(link));

        ret_stats->held[WAIT_BREAKER] += is_postponed;
        if (entry_of(link)->phase == ENTRY_INFLIGHT || is_postponed)
            *oldest = wall_min(*oldest, timer->due);
    }
    dispatch_count_postponed(engine, ret_stats);
    for (int i = 0; i < OVERDUE_KIND_COUNT; i++)
        if (ret_oldest[i].ms >= engine->now.ms)
            ret_oldest[i] = (struct wall){0};
}

void dispatch_stats(const struct engine *engine, struct engine_stats *stats)
{
    const struct dispatch *dispatch = engine->dispatch;

    assert(dispatch->catching_up <= dispatch->queued);
    assert(dispatch->pulled <= dispatch->inflight && dispatch->unproven <= dispatch->inflight);
    stats->waiting = dispatch->queued;
    stats->catching_up = dispatch->catching_up;
    stats->inflight = dispatch->inflight;
    stats->unproven = dispatch->unproven;
    stats->pulled = dispatch->pulled;
    dispatch_overdue(engine, stats);
}

static void dispatch_queue_check(const struct engine *engine, const struct dispatch_queue *queue)
{
    CHECK(dispatch_queue_by_key(engine, queue->key) == queue);
    CHECK((queue->kind == DISPATCH_BROKER) == (queue->connection != NULL));
    CHECK(queue->wanted <= queue->count);
    CHECK(queue->kind != DISPATCH_WEBHOOK || !budget_has_place(&queue->claim) ||
          !list_is_empty(&queue->claim.link));
    CHECK(queue->inflight > 0 || !list_is_empty(&queue->timers) || queue->backlog.scan > 0 ||
          queue->called > 0 || queue->away > 0 || queue->spilling > 0 ||
          !list_is_empty(&queue->changed) || queue->alarm != TW_NONE || queue->wants_alarm);
    CHECK(list_is_empty(&queue->backlog.link) !=
          spill_is_starved(engine, &queue->backlog, dispatch_queue_usable_bytes(queue)));

    size_t bytes = 0, count = 0;
    struct wall due = {0};
    LIST_FOR_EACH (&queue->timers, link) {
        CHECK(entry_of(link)->phase == ENTRY_QUEUED && entry_of(link)->queue == queue->key);
        CHECK(queue->is_mixed || due.ms <= entry_of(link)->timer->due.ms);
        due = entry_of(link)->timer->due;
        bytes += entry_footprint(entry_of(link));
        count++;
    }
    CHECK(bytes == queue->bytes && count == queue->count);
}

static void dispatch_check_entries(const struct engine *engine)
{
    size_t queued = 0, inflight = 0, cursor = 0;

    for (const struct entry *entry; (entry = entries_next(engine->entries, &cursor));) {
        const struct timer *timer = entry->timer;

        queued += entry->phase == ENTRY_QUEUED;
        inflight += entry->phase == ENTRY_INFLIGHT;
        if (entry->phase != ENTRY_QUEUED && entry->phase != ENTRY_INFLIGHT)
            continue;
        CHECK(entry->live.slot == 0); /* otherwise it would be counted twice */
        CHECK(entry->flags & ENTRY_IS_COUNTED);
        CHECK(!timer_is_final(timer->state) && entry->row_at.ms == timer->at.ms);
        CHECK(entry->phase == ENTRY_INFLIGHT || position_is_due(engine, timer) ||
              position_is_spilled(engine, timer));
    }
    CHECK(queued == engine->dispatch->queued);
    CHECK(inflight == engine->dispatch->inflight);
}

void dispatch_check(const struct engine *engine)
{
    const struct dispatch *dispatch = engine->dispatch;

    dispatch_check_entries(engine);
    if (dispatch->is_budget_own)
        budget_check(dispatch->budget);
    connections_check(engine);
    leases_check(engine);
    flows_check(engine);
    size_t inflight[DISPATCH_KIND_COUNT] = {0}, bytes = 0, cursor = 0;
    for (const struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));) {
        dispatch_queue_check(engine, queue);
        inflight[queue->kind] += queue->inflight;
        bytes += queue->bytes;
    }
    CHECK(bytes == dispatch->queued_bytes);
    CHECK(inflight[DISPATCH_PULLED] == dispatch->pulled);
    CHECK(inflight[DISPATCH_WEBHOOK] + inflight[DISPATCH_BROKER] + inflight[DISPATCH_PULLED] ==
          dispatch->inflight);
}
