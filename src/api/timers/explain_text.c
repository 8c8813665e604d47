/* explain_text.c - the sentences of an explanation; see explain_text.h. */
#include "api/timers/explain_text.h"

#include "api/timers/next.h"
#include "calendar/duration.h"
#include "timer/fanout.h"
#include "store/storage.h"
#include "timer/flow.h"
#include "timer/awaits.h"

bool explain_next(const struct explain_view *view, struct wall *ret_next)
{
    const struct explained *explained = view->explained;
    const bool is_queued = explained->place == PLACE_QUEUED;
    const struct next_view known = {
        .timer = view->timer,
        .now = explained->now,
        .waits_until =
            is_queued && explained->until.ms <= WALL_MS_MAX ? explained->until : (struct wall){0},
        .target = view->target,
        .pause = view->pause,
        .is_maintained = is_queued && explained->reason == WAIT_MAINTENANCE};
    struct next next = {.at = view->timer->at};

    const bool has_next = explained->place == PLACE_INFLIGHT || next_attempt(&known, &next);
    *ret_next = next.at;
    return has_next;
}

/* ---- parts of sentences ---- */

/* Appends "in 2m", "now" or "3s ago", relative to `now`. */
static void explain_say_when(struct buffer *out, struct wall now, struct wall at)
{
    char text[DURATION_TEXT_SIZE];

    duration_format_rough(wall_since(now, at) + wall_since(at, now), text);
    if (at.ms > now.ms)
        buffer_printf(out, "in %s", text);
    else if (at.ms < now.ms)
        buffer_printf(out, "%s ago", text);
    else
        buffer_append_text(out, "now");
}

/* Appends when and why something was paused, and until when. */
static void explain_say_pause(struct buffer *out, struct wall now, struct wall since,
                              struct wall until, struct bytes note)
{
    buffer_append_text(out, " was paused ");
    explain_say_when(out, now, since);
    if (note.size > 0)
        buffer_printf(out, " (\"%.*s\")", (int)note.size, note.data);
    if (until.ms > WALL_MS_MAX) {
        buffer_append_text(out, ", until it is resumed.");
        return;
    }
    buffer_append_text(out, ", and resumes by itself ");
    explain_say_when(out, now, until);
    buffer_append_text(out, ".");
}

static void explain_say_origin(struct buffer *out, const struct explain_view *view)
{
    buffer_append_bytes(out, timer_target_origin(view->timer));
}

/* ---- what is over or under way ---- */

static void explain_say_over(const struct explain_view *view, struct buffer *out)
{
    const struct timer *timer = view->timer;

    buffer_append_text(out, timer->state == TIMER_FIRED       ? "It fired "
                            : timer->state == TIMER_CANCELLED ? "It was cancelled "
                                                              : "It failed for good ");
    explain_say_when(out, view->explained->now, timer->ended);
    if (timer->state == TIMER_DEAD) {
        if (timer->attempts > 0)
            buffer_printf(out, ", after %u attempt%s", timer->attempts,
                          timer->attempts == 1 ? "" : "s");
        if (timer->texts.last_error.size > 0)
            buffer_printf(out, ": %.*s", (int)timer->texts.last_error.size,
                          timer->texts.last_error.data);
        buffer_append_text(out, ". It is not tried again unless it is redriven");
    }
    buffer_append_text(out, ".");
}

static void explain_say_inflight(const struct explain_view *view, struct buffer *out)
{
    const struct explained_lease *lease = &view->explained->lease;
    const unsigned attempt = view->timer->attempts + 1;

    if (lease->until.ms == 0) {
        buffer_printf(out, "Attempt %u is being delivered to ", attempt);
        explain_say_origin(out, view);
        buffer_append_text(out, ".");
        return;
    }
    buffer_append_text(out, "A worker has leased it");
    if (lease->worker_size > 0)
        buffer_printf(out, " (%.*s)", (int)lease->worker_size, lease->worker);
    buffer_printf(out, ", as attempt %u: the lease began ", attempt);
    explain_say_when(out, view->explained->now, lease->since);
    buffer_append_text(out, " and ends ");
    explain_say_when(out, view->explained->now, lease->until);
    buffer_append_text(out, ", unless the worker answers before.");
}

/* ---- what holds a timer back ---- */

static bool explain_is_retry(const struct explain_view *view)
{
    return view->timer->state == TIMER_RETRYING && !view->explained->is_spilled;
}

static bool explain_is_held(const struct explain_view *view)
{
    return target_pause_is_in_force(view->pause, view->explained->now) ||
           (view->target && view->target->state != BREAKER_CLOSED);
}

/* Appends when the timer fires, or since when it should have fired. */
static void explain_say_time(const struct explain_view *view, struct buffer *out)
{
    const struct explained *explained = view->explained;
    const struct timer *timer = view->timer;
    const struct wall at = explain_is_retry(view) ? timer->at : timer->due;
    struct wall next;
    const bool has_next = explain_next(view, &next);

    if (at.ms <= explained->now.ms &&
        (!has_next || next.ms <= explained->now.ms || !explain_is_retry(view))) {
        char late[DURATION_TEXT_SIZE];

        duration_format_rough(wall_since(at, explained->now), late);
        buffer_printf(out, "It has been due for %s.", late);
        return;
    }
    if (explain_is_retry(view))
        buffer_printf(out, "Attempt %u of %u %s due ", timer->attempts + 1,
                      timer->retry.attempts_max, at.ms < explained->now.ms ? "was" : "is");
    else
        buffer_append_text(out, explain_is_held(view) ? "It is due " : "It fires ");
    explain_say_when(out, explained->now, at);
    if (has_next && next.ms > at.ms) {
        buffer_append_text(out, ", and can be tried ");
        explain_say_when(out, explained->now, next);
        buffer_append_text(out, " at the earliest");
    }
    buffer_append_text(out, ".");
}

/* Appends the flow that a timer waits for, and its limits. A verdict has no flow, since its timers
 * may be of several: then it says where each is shown. */
static void explain_say_flow(const struct explain_view *view, struct buffer *out)
{
    struct flow flow;

    if (!flow_decode(view->flow.size ? view->flow : view->timer->texts.flow, &flow)) {
        buffer_append_text(out, "Their flows start no more for now: `tickwheel flows` names each, "
                                "and how many wait.");
        return;
    }
    buffer_printf(out, "It waits for flow %.*s:", (int)flow.key.size, flow.key.data);
    if (flow.concurrency)
        buffer_printf(out, " %u of %u running", view->explained->flow_running, flow.concurrency);
    if (flow.rate) {
        char period[DURATION_TEXT_SIZE];

        duration_format(flow.period_ms, period);
        buffer_printf(out, "%s %u may start in %s", flow.concurrency ? "," : "", flow.rate, period);
    }
    buffer_append_text(out, ".");
}

static void explain_say_rate(const struct explain_view *view, struct buffer *out)
{
    const struct named_limits *limits = &view->limits;
    char rate[FLOW_RATE_TEXT_SIZE];

    if (limits->rate && flow_rate_text(limits->rate, limits->period_ms, rate))
        buffer_printf(out, " gets at most %s by its `limits`, and target_rate_max.", rate);
    else
        buffer_append_text(out, " gets only so many a second: target_rate_max.");
}

/* Appends the limit for which a timer waits in a dispatch queue, with the name of its setting. */
static void explain_say_limit(const struct explain_view *view, struct buffer *out)
{
    const struct explained *explained = view->explained;

    buffer_append_text(out, " ");
    switch (explained->reason) {
    case WAIT_ROOM:
        buffer_append_text(out, "As many webhooks are in flight as its share of deliveries_max "
                                "allows.");
        break;
    case WAIT_TARGET_LIMIT:
        buffer_printf(out, "%u deliveries to ", explained->inflight);
        explain_say_origin(out, view);
        buffer_append_text(out, " are in flight, as many as its limit allows.");
        break;
    case WAIT_BREAKER: /* only if the state of the target is unknown: see explain_say_why */
        explain_say_origin(out, view);
        buffer_append_text(out, " failed, and is left alone for a while.");
        break;
    case WAIT_RATE:
        explain_say_origin(out, view);
        explain_say_rate(view, out);
        break;
    case WAIT_CATCH_UP:
        buffer_append_text(out, "Of overdue timers only so many a second are delivered: "
                                "catch_up_rate_max.");
        break;
    case WAIT_WORKER:
        buffer_append_text(out, "No worker asks for items of ");
        explain_say_origin(out, view);
        buffer_append_text(out, timer_order(view->timer) == TIMER_ORDER_STRICT
                                    ? ", or one before it in its strict order is not done."
                                    : ".");
        break;
    case WAIT_LEASES:
        if (explained->inflight_max > 0)
            buffer_printf(out,
                          "Its tenant holds %u leases, of %u for all tenants: queue_leases_max.",
                          explained->inflight, explained->inflight_max);
        else
            buffer_append_text(out, "Its tenant holds as many leases as it may: queue_leases_max.");
        break;
    case WAIT_LEASE_MEMORY:
        buffer_append_text(out, "Leased items of its partition take as much memory as they may.");
        break;
    case WAIT_FLOW:
        explain_say_flow(view, out);
        break;
    case WAIT_PAUSED:
        explain_say_origin(out, view);
        buffer_append_text(out, " is paused.");
        break;
    case WAIT_MAINTENANCE:
        buffer_append_text(out, "The operator holds all deliveries back: maintenance.");
        break;
    case WAIT_STOPPING:
        buffer_append_text(out, "The service is stopping, and begins no delivery.");
        break;
    case WAIT_REASONS:
        break;
    }
}

/* Appends the last error of a timer that waits to be tried. Without an attempt it tells of the
 * firing before, or of what kept this one from being tried. */
static void explain_say_error(const struct timer *timer, struct buffer *out)
{
    const struct bytes error = timer->texts.last_error;

    if (timer->attempts > 0)
        buffer_printf(out, " Attempt %u failed: ", timer->attempts);
    else if (bytes_has_prefix(error, BYTES(TIMER_WAITS)))
        buffer_append_text(out, " It ");
    else
        buffer_append_text(out, " Its last error: ");
    buffer_printf(out, "%.*s.", (int)error.size, error.data);
}

void explain_say_why(const struct explain_view *view, struct buffer *out)
{
    const struct explained *explained = view->explained;
    const struct timer *timer = view->timer;
    const bool is_queued = explained->place == PLACE_QUEUED;

    if (is_queued && explained->reason == WAIT_MAINTENANCE) {
        explain_say_limit(view, out);
    } else if (target_pause_is_in_force(view->pause, explained->now)) {
        buffer_append_text(out, " ");
        buffer_append_bytes(out, view->pause->name);
        explain_say_pause(out, explained->now, view->pause->since, view->pause->until,
                          view->pause->note);
    } else if (view->target && view->target->state != BREAKER_CLOSED) {
        buffer_append_text(out, " ");
        target_status_say(view->target, out);
        buffer_append_text(out, ".");
    } else if (is_queued) {
        explain_say_limit(view, out);
    } else if (explained->is_spilled) {
        buffer_append_text(out, " It is on disk until there is room in memory: near_bytes_max.");
    } else if (timer->state == TIMER_RETRYING && timer->texts.last_error.size > 0) {
        explain_say_error(timer, out);
    }
}

/* ---- what made it late ---- */

/* Stage of the lateness to which waiting for each reason counts. */
static const enum lateness_stage explain_stage_of[WAIT_REASONS] = {
    [WAIT_ROOM] = LATENESS_ROOM,           [WAIT_TARGET_LIMIT] = LATENESS_TARGET_LIMIT,
    [WAIT_BREAKER] = LATENESS_BREAKER,     [WAIT_RATE] = LATENESS_RATE,
    [WAIT_CATCH_UP] = LATENESS_CATCH_UP,   [WAIT_WORKER] = LATENESS_WORKER,
    [WAIT_PAUSED] = LATENESS_PAUSED,       [WAIT_MAINTENANCE] = LATENESS_MAINTENANCE,
    [WAIT_STOPPING] = LATENESS_HANDOFF,    [WAIT_LEASES] = LATENESS_WORKER,
    [WAIT_LEASE_MEMORY] = LATENESS_WORKER, [WAIT_FLOW] = LATENESS_FLOW,
};

static enum lateness_stage explain_worst(const struct lateness *lateness, uint64_t *ret_sum)
{
    enum lateness_stage worst = LATENESS_RETRIES;

    *ret_sum = 0;
    for (enum lateness_stage i = 0; i < LATENESS_STAGES; i++) {
        if (!lateness_is_before(i))
            continue;
        *ret_sum += lateness->ms[i];
        worst = lateness->ms[i] > lateness->ms[worst] ? i : worst;
    }
    return worst;
}

/* Appends the longest of the stages that made the timer late. */
static void explain_say_late(const struct explain_view *view, struct buffer *out)
{
    const struct explained *explained = view->explained;
    uint64_t sum;
    const enum lateness_stage worst = explain_worst(&explained->lateness, &sum);
    char late[DURATION_TEXT_SIZE], most[DURATION_TEXT_SIZE];

    if (sum == 0 ||
        (explained->place == PLACE_QUEUED && worst == explain_stage_of[explained->reason]))
        return; /* explain_say_why has said why */
    duration_format_rough(sum, late);
    duration_format_rough(explained->lateness.ms[worst], most);
    const bool is_next = worst == LATENESS_SET_LATE && view->timer->texts.schedule.size > 0;
    buffer_printf(out, " Attempt %u %s %s late; most of it, %s, came from %s.",
                  explained->lateness.attempt, explained->place == PLACE_QUEUED ? "is" : "was",
                  late, most,
                  is_next ? "the firing before it, which was not over" : lateness_words(worst));
}

/* ---- several targets ---- */

/* Appends how many targets of a firing are not over, and which timer delivers to the first. */
static void explain_say_targets(const struct timer *timer, struct buffer *out)
{
    struct fanout fanout;
    char id[TIMER_ID_TEXT_SIZE];
    size_t i = 0;

    fanout_read(timer, &fanout);
    while (fanout.parts[i].state != FANOUT_OPEN)
        i++;
    timer_id_format(&fanout.parts[i].id, id);
    buffer_printf(out, "%s %zu of its %zu targets %s not over: %.*s, by the timer %s.",
                  fanout_is_waiting(timer) ? "It fired, and"
                                           : "Its next firing waits for the one before:",
                  fanout_count(&fanout, FANOUT_OPEN), fanout.count,
                  fanout_count(&fanout, FANOUT_OPEN) == 1 ? "is" : "are",
                  (int)fanout.parts[i].target.size, fanout.parts[i].target.data, id);
}

/* Appends until when the receiver of an attempt may answer later. */
static void explain_say_awaited(const struct explain_view *view, struct buffer *out)
{
    const struct timer *timer = view->timer;
    struct awaits awaits = {.started_us = 0};

    awaits_read(timer->texts.awaits, &awaits);
    buffer_printf(out, "Attempt %u of %u waits for the later answer of ", timer->attempts + 1,
                  timer->retry.attempts_max);
    explain_say_origin(out, view);
    buffer_append_text(out, ", which accepted it ");
    explain_say_when(out, view->explained->now, (struct wall){awaits.started_us / 1000});
    buffer_append_text(out, "; the time for it ends ");
    explain_say_when(out, view->explained->now, timer->at);
    buffer_append_text(out, ".");
}

/* ---- the two texts ---- */

void explain_say(const struct explain_view *view, struct buffer *out)
{
    const struct timer *timer = view->timer;
    const struct explained *explained = view->explained;

    if (explained->place == PLACE_FINAL) {
        explain_say_over(view, out);
    } else if (timer->state == TIMER_PAUSED) {
        buffer_append_text(out, "It");
        explain_say_pause(out, explained->now, timer->paused,
                          timer->at.ms < STORAGE_PAUSED_AT.ms ? timer->at : WALL_NEVER,
                          timer->texts.note);
    } else if (timer_awaits(timer)) {
        explain_say_awaited(view, out);
    } else if (explained->place == PLACE_INFLIGHT) {
        explain_say_inflight(view, out);
    } else if (fanout_is_waiting(timer) ||
               (timer->state == TIMER_RETRYING && fanout_is_open(timer))) {
        explain_say_targets(timer, out);
    } else {
        explain_say_time(view, out);
        explain_say_why(view, out);
    }
    explain_say_late(view, out);
}

void explain_say_detail(const struct explain_view *view, struct buffer *out)
{
    const struct explained *explained = view->explained;

    if (view->timer->state == TIMER_PAUSED) {
        buffer_append_text(out, "On disk, beside those that have a time.");
        return;
    }
    switch (explained->place) {
    case PLACE_FINAL:
        buffer_append_text(out, "Its last state is kept on disk.");
        break;
    case PLACE_WHEEL:
        buffer_printf(out, "In memory, in bucket %u of level %u of the wheel.",
                      explained->wheel_bucket, explained->wheel_level);
        break;
    case PLACE_DISK:
        buffer_append_text(out, "On disk");
        if (explained->is_spilled)
            buffer_append_text(out, ": it was due, and put back for want of room in memory.");
        else if (explained->read_at.ms > explained->now.ms)
            buffer_append_text(out, ", beyond the window that is in memory.");
        else
            buffer_append_text(out, ": the window has reached it, and reads it next.");
        break;
    case PLACE_QUEUED:
        buffer_append_text(out, "In the dispatch queue of ");
        explain_say_origin(out, view);
        buffer_append_text(out, ".");
        break;
    case PLACE_INFLIGHT:
        buffer_append_text(out, "Handed out by the engine, which waits for the outcome.");
        break;
    }
}
