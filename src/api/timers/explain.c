/*
 * explain.c - explains where a timer is, what it waits for and why it is late: in sentences
 * (explain_text.h) and in fields.
 */

#include "api/timers/explain_text.h"
#include "api/timers/timers.h"

#include "api/json/timer_fields.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "timer/awaits.h"
#include "timer/fanout.h"
#include "timer/flow.h"

/* ---- the parts ---- */

static const char *explain_place_text(const struct explained *explained, const struct timer *timer)
{
    if (timer->state == TIMER_PAUSED)
        return "paused";
    if (timer_awaits(timer))
        return "delivering";
    switch (explained->place) {
    case PLACE_FINAL:
        return "over";
    case PLACE_WHEEL:
        return "wheel";
    case PLACE_QUEUED:
        return "waiting";
    case PLACE_INFLIGHT:
        return "delivering";
    case PLACE_DISK:
        break;
    }
    return timer_is_final(timer->state) ? "over" : "disk";
}

/* Appends the two texts of an explanation. */
static void explain_append_texts(const struct explain_view *view, struct buffer *out)
{
    struct buffer text;

    buffer_init(&text);
    explain_say(view, &text);
    const size_t size = text.size;
    explain_say_detail(view, &text);
    if (buffer_failed(&text)) {
        out->failed = true;
    } else {
        json_put_string(out, "explanation", (struct bytes){text.data, size});
        json_put_string(out, "detail", (struct bytes){text.data + size, text.size - size});
    }
    buffer_deinit(&text);
}

/* ---- the fields ---- */

static void explain_append_lateness(const struct lateness *lateness, struct buffer *out)
{
    if (lateness->attempt == 0)
        return;
    uint64_t sum = 0;
    for (enum lateness_stage i = 0; i < LATENESS_STAGES; i++)
        sum += lateness_is_before(i) ? lateness->ms[i] : 0;
    json_open(out, "lateness", '{');
    json_put_number(out, "attempt", lateness->attempt);
    json_put_number(out, "late_ms", sum);
    json_open(out, "stages_ms", '{');
    for (enum lateness_stage i = 0; i < LATENESS_STAGES; i++)
        if (lateness->ms[i] > 0)
            json_put_number(out, lateness_text(i), lateness->ms[i]);
    json_close(out, '}');
    json_close(out, '}');
}

static void explain_append_lease(const struct explained_lease *lease, struct buffer *out)
{
    if (lease->until.ms == 0)
        return;
    json_open(out, "lease", '{');
    rfc3339_put(out, "since", lease->since);
    rfc3339_put(out, "until", lease->until);
    json_put_some(out, "worker", (struct bytes){lease->worker, lease->worker_size});
    json_close(out, '}');
}

/* Appends the delivery of an attempt that is answered later. */
static void explain_append_awaited(const struct timer *timer, struct buffer *out)
{
    struct awaits awaits = {.started_us = 0};

    awaits_read(timer->texts.awaits, &awaits);
    json_open(out, "delivery", '{');
    json_put_number(out, "attempt", timer->attempts + 1);
    rfc3339_put(out, "since", (struct wall){awaits.started_us / 1000});
    rfc3339_put(out, "answer_until", timer->at);
    json_close(out, '}');
}

static void explain_append_place(const struct timer *timer, const struct explained *explained,
                                 struct buffer *out)
{
    if (timer->state == TIMER_PAUSED)
        return;
    if (timer_awaits(timer)) {
        explain_append_awaited(timer, out);
        return;
    }
    if (explained->place == PLACE_WHEEL) {
        json_open(out, "wheel", '{');
        json_put_number(out, "level", explained->wheel_level);
        json_put_number(out, "bucket", explained->wheel_bucket);
        json_close(out, '}');
    }
    if (explained->place == PLACE_DISK) {
        json_open(out, "disk", '{');
        json_put_flag(out, "put_back", explained->is_spilled);
        rfc3339_put(out, "read_from", explained->read_at);
        json_close(out, '}');
    }
    if (explained->place == PLACE_QUEUED) {
        json_open(out, "waiting", '{');
        json_put_text(out, "for", wait_text(explained->reason));
        rfc3339_put(out, "since", explained->since);
        if (explained->until.ms <= WALL_MS_MAX)
            rfc3339_put(out, "until", explained->until);
        json_close(out, '}');
    }
    if (explained->place == PLACE_INFLIGHT) {
        json_open(out, "delivery", '{');
        json_put_number(out, "attempt", timer->attempts + 1);
        rfc3339_put(out, "since", explained->since);
        explain_append_lease(&explained->lease, out);
        json_close(out, '}');
    }
}

static void explain_append_target(const struct explain_view *view, struct buffer *out)
{
    const struct explained *explained = view->explained;
    const struct target_status *target = view->target;

    json_open(out, "target", '{');
    json_put_string(out, "origin", timer_target_origin(view->timer));
    if (explained->place == PLACE_QUEUED || explained->place == PLACE_INFLIGHT) {
        json_put_number(out, "deliveries", explained->inflight);
        if (explained->inflight_max != UINT32_MAX)
            json_put_number(out, "deliveries_max", explained->inflight_max);
    }
    if (target) {
        json_put_text(out, "breaker", breaker_state_text(target->state));
        json_put_number(out, "failures", target->failures);
        if (target->failures > 0)
            json_put_some(out, "last_error", (struct bytes){target->error, target->error_size});
        if (target->state != BREAKER_CLOSED)
            json_put_number(out, "tried_again_in_ms", target->wait_ms);
    }
    timer_json_put_pause(view->pause, explained->now, out);
    json_close(out, '}');
}

static void explain_format(const struct explain_view *view, struct buffer *out)
{
    const struct timer *timer = view->timer;
    const struct explained *explained = view->explained;
    struct wall next;

    json_open(out, NULL, '{');
    timer_id_put(out, "id", &timer->id);
    json_put_text(out, "state", timer_state_text(fanout_shown_state(timer)));
    json_put_text(out, "where", explain_place_text(explained, timer));
    explain_append_texts(view, out);
    json_put_number(out, "partition", timer->id.partition);
    rfc3339_put(out, "now", explained->now);
    rfc3339_put(out, "due", timer->due);
    if (explained->place == PLACE_FINAL)
        rfc3339_put(out, "ended", timer->ended);
    else if (timer->state == TIMER_PAUSED)
        timer_show_paused(timer, out);
    else if (!timer_awaits(timer) && explain_next(view, &next))
        rfc3339_put(out, "next", next);
    json_put_number(out, "version", timer->version);
    json_put_number(out, "attempts", timer->attempts);
    json_put_number(out, "attempts_max", timer->retry.attempts_max);
    json_put_some(out, "last_error", timer->texts.last_error);
    explain_append_place(timer, explained, out);
    explain_append_target(view, out);
    explain_append_lateness(&explained->lateness, out);
    if (timer->texts.trace.size == TRACE_PARENT_SIZE)
        json_put_string(out, "traceparent", timer->texts.trace);
    json_close(out, '}');
}

/* ---- the call ---- */

static void explain_done(struct node_request *request)
{
    struct call *call = call_of(request);
    const struct command *command = &request->command;
    const struct timer *timer = command->timer;

    if (!timer || (command->error && command->error != ERROR_GONE)) {
        call_answer_error(call, command->error ? command->error : ERROR_NOT_FOUND, "");
        return;
    }
    struct buffer body;
    struct target_status status;
    struct target_pauses *pauses = node_pauses(call->api->options.node);
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct definition *limits = definitions_find(
        definitions, timer->texts.tenant, DEFINITION_FLOW, flow_key(timer->texts.flow));
    const struct definition *named =
        timer->target.kind == TARGET_NAMED
            ? definitions_find(definitions, timer->texts.tenant, DEFINITION_TARGET,
                               timer_target_name(timer))
            : NULL;
    const struct explain_view view = {
        .timer = timer,
        .explained = &command->explained,
        .limits = named ? named_limits_of(named->value) : (struct named_limits){0},
        .flow = limits ? limits->value : (struct bytes){0},
        .target = node_target_status(call->api->options.node, timer, &status) ? &status : NULL,
        .pause = target_pauses_of_both(pauses, timer->texts.tenant, timer->texts.flow,
                                       timer->texts.target, &timer->target),
    };

    buffer_init(&body);
    explain_format(&view, &body);
    definitions_leave(definitions);
    target_pauses_leave(pauses);
    call_answer_json(call, 200, &body);
}

void explain_end(struct call *call)
{
    if (timers_address(call, COMMAND_EXPLAIN))
        call_submit(call, explain_done);
}
