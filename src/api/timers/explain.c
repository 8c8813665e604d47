/* explain.c - explains where a timer is and why it is late, in a sentence and in fields. */

#include "api/timers/timers.h"

#include "api/json/timer_fields.h"
#include "calendar/duration.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"

/* ---- the parts ---- */

static const char *explain_place_text(const struct explained *explained, const struct timer *timer)
{
    if (timer->state == TIMER_PAUSED)
        return "paused";
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

static const char *explain_reason_text(enum wait_reason reason)
{
    static const char *const texts[] = {
#define X(name, text) text,
        WAIT_REASON_LIST(X)
#undef X
    };

    return texts[reason];
}

static const char *explain_stage_text(enum lateness_stage stage)
{
    static const char *const texts[] = {
#define X(name, text) text,
        LATENESS_LIST(X)
#undef X
    };

    return texts[stage];
}

/* ---- the sentence ---- */

/* Appends "in 1h30m", "now" or "3.2s ago", relative to `now`. */
static void explain_say_when(struct buffer *out, struct wall now, struct wall at)
{
    char text[DURATION_TEXT_SIZE];

    if (at.ms > now.ms) {
        duration_format(wall_since(now, at), text);
        buffer_printf(out, "in %s", text);
    } else if (at.ms < now.ms) {
        duration_format(wall_since(at, now), text);
        buffer_printf(out, "%s ago", text);
    } else {
        buffer_append_text(out, "now");
    }
}

static void explain_say_why_waiting(struct buffer *out, const struct explained *explained)
{
    static const char *const why[] = {
        [WAIT_ROOM] = "as many webhooks are under way as may be",
        [WAIT_TARGET_LIMIT] = "as many webhooks are under way to its target as may be",
        [WAIT_BREAKER] = "its target has failed and is left alone for a while",
        [WAIT_RATE] = "its target gets only so many a second",
        [WAIT_CATCH_UP] = "it is overdue, and of those only so many a second are delivered",
        [WAIT_WORKER] = "no worker has pulled it yet",
        [WAIT_LEASES] = "as many leases are held as may be",
        [WAIT_LEASE_MEMORY] = "leased items of its partition take as much memory as they may",
        [WAIT_PAUSED] = "its queue or its target is paused",
        [WAIT_MAINTENANCE] = "the operator holds all deliveries back",
        [WAIT_STOPPING] = "the service is stopping and begins no delivery",
    };

    buffer_printf(out, "It is due and waits, because %s", why[explained->reason]);
    if (explained->reason == WAIT_LEASES)
        buffer_printf(out, ": its tenant holds %u, of %u for all tenants", explained->inflight,
                      explained->inflight_max);
    buffer_append_text(out, ".");
}

static void explain_say_over(struct buffer *out, const struct timer *timer)
{
    const char *what = timer->state == TIMER_FIRED       ? "It has fired"
                       : timer->state == TIMER_CANCELLED ? "It was cancelled"
                                                         : "It is dead: it will not be tried again";

    buffer_append_text(out, what);
    buffer_append_text(out, timer->texts.last_error.size && timer->state == TIMER_DEAD
                                ? ". Its last error says why."
                                : ".");
}

static void explain_say_paused(struct buffer *out, const struct timer *timer, struct wall now)
{
    buffer_append_text(out, "It was paused ");
    explain_say_when(out, now, timer->paused);
    if (timer->at.ms < STORAGE_PAUSED_AT.ms) {
        buffer_append_text(out, ", and resumes by itself ");
        explain_say_when(out, now, timer->at);
        buffer_append_text(out, ".");
    } else {
        buffer_append_text(out, ", until it is resumed.");
    }
}

static void explain_say_leased(struct buffer *out, const struct timer *timer,
                               const struct explained *explained)
{
    const struct explained_lease *lease = &explained->lease;

    buffer_append_text(out, "A worker has leased it");
    if (lease->worker_size > 0)
        buffer_printf(out, " (%.*s)", (int)lease->worker_size, lease->worker);
    buffer_printf(out, ", as attempt %u: the lease began ", timer->attempts + 1);
    explain_say_when(out, explained->now, lease->since);
    buffer_append_text(out, " and ends ");
    explain_say_when(out, explained->now, lease->until);
    buffer_append_text(out, ", unless the worker answers before.");
}

static void explain_say_where(struct buffer *out, const struct timer *timer,
                              const struct explained *explained)
{
    if (timer->state == TIMER_PAUSED) {
        explain_say_paused(out, timer, explained->now);
        return;
    }
    switch (explained->place) {
    case PLACE_FINAL:
        explain_say_over(out, timer);
        break;
    case PLACE_WHEEL:
        buffer_printf(out,
                      "It waits in memory for its time, in bucket %u of level %u of the wheel.",
                      explained->wheel_bucket, explained->wheel_level);
        break;
    case PLACE_DISK:
        if (explained->is_spilled)
            buffer_append_text(out, "It is due, and was put back to disk for want of room in "
                                    "memory; it is reloaded as soon as there is room.");
        else if (explained->read_at.ms > explained->now.ms)
            buffer_append_text(out, "It waits on disk, beyond the window that is in memory.");
        else
            buffer_append_text(out, "It is on disk and will be read into memory as soon as there "
                                    "is room and its turn comes.");
        break;
    case PLACE_QUEUED:
        explain_say_why_waiting(out, explained);
        break;
    case PLACE_INFLIGHT:
        if (explained->lease.until.ms > 0)
            explain_say_leased(out, timer, explained);
        else
            buffer_printf(out, "It is being delivered: attempt %u.", timer->attempts + 1);
        break;
    }
}

/* Returns the earliest time of the next attempt, as far as known. False while a pause or
 * maintenance without an end holds the timer back. */
static bool explain_next(const struct timer *timer, const struct explained *explained,
                         const struct target_status *target, const struct target_pause *pause,
                         struct wall *ret_next)
{
    struct wall next = timer->at;

    if (explained->place == PLACE_INFLIGHT) {
        *ret_next = next;
        return true;
    }
    if (explained->place == PLACE_QUEUED && explained->until.ms <= WALL_MS_MAX)
        next = wall_max(next, explained->until);
    if (target && target->state != BREAKER_CLOSED)
        next = wall_max(next, wall_add(explained->now, target->wait_ms));
    if (target_pause_is_in_force(pause, explained->now))
        next = wall_max(next, pause->until);
    *ret_next = next;
    return next.ms <= WALL_MS_MAX &&
           !(explained->place == PLACE_QUEUED && explained->reason == WAIT_MAINTENANCE);
}

static void explain_say_time(struct buffer *out, const struct timer *timer,
                             const struct explained *explained, const struct target_status *target,
                             const struct target_pause *pause)
{
    struct wall next;
    const bool is_held =
        !explain_next(timer, explained, target, pause, &next) || next.ms > timer->at.ms;
    bool is_retry = timer->state == TIMER_RETRYING && !explained->is_spilled;

    if (explained->place != PLACE_WHEEL && explained->place != PLACE_DISK)
        return;
    buffer_append_text(out, is_retry ? " Its next attempt is " : " It was to fire ");
    if (!is_retry && timer->due.ms > explained->now.ms) {
        out->size -= sizeof("was to fire ") - 1;
        buffer_append_text(out, is_held ? "is due " : "fires ");
    }
    explain_say_when(out, explained->now,
                     is_retry ? (is_held && next.ms <= WALL_MS_MAX ? next : timer->at)
                              : timer->due);
    buffer_append_text(out, is_retry && is_held ? " at the earliest." : ".");
    if (!target_pause_is_in_force(pause, explained->now))
        return;
    buffer_append_text(out, " Its queue or its target is paused");
    if (pause->until.ms <= WALL_MS_MAX) {
        buffer_append_text(out, ", and resumes by itself ");
        explain_say_when(out, explained->now, pause->until);
    } else {
        buffer_append_text(out, ", until it is resumed");
    }
    buffer_append_text(out, ".");
}

/* Appends what delays the next attempt beyond its time. */
static void explain_say_breaker(struct buffer *out, const struct target_status *target,
                                const struct explained *explained)
{
    char text[DURATION_TEXT_SIZE];

    if (!target || target->state == BREAKER_CLOSED || explained->place == PLACE_FINAL ||
        explained->place == PLACE_INFLIGHT)
        return;
    duration_format(target->wait_ms, text);
    buffer_printf(out, " The breaker of its %s is %s after %u failures in a row: it is tried %s%s.",
                  target->scope == TARGET_PATH ? "path" : "target",
                  breaker_state_text(target->state), (unsigned)target->failures,
                  target->wait_ms ? "again in " : "again now", target->wait_ms ? text : "");
}

/* Appends the longest of the stages that made the timer late. */
static void explain_say_late(struct buffer *out, const struct timer *timer,
                             const struct explained *explained)
{
    static const char *const what[LATENESS_STAGES] = {
        [LATENESS_RETRIES] = "earlier attempts",
        [LATENESS_SET_LATE] = "a due time that was past when it was set",
        [LATENESS_DOWN] = "the service not running",
        [LATENESS_PUT_BACK] = "want of room in memory",
        [LATENESS_DISK] = "being read late from disk",
        [LATENESS_WHEEL] = "a busy engine",
        [LATENESS_CATCH_UP] = "the rate for what is overdue",
        [LATENESS_ROOM] = "all places for webhooks being taken",
        [LATENESS_TARGET_LIMIT] = "all places of its target being taken",
        [LATENESS_BREAKER] = "its target being left alone",
        [LATENESS_RATE] = "its target's rate",
        [LATENESS_WORKER] = "no worker asking for it",
        [LATENESS_PAUSED] = "a pause of it, its queue or its target",
        [LATENESS_MAINTENANCE] = "the operator holding all deliveries back",
        [LATENESS_HANDOFF] = "the way from the engine to the network",
    };
    const struct lateness *lateness = &explained->lateness;
    enum lateness_stage worst = LATENESS_RETRIES;
    uint64_t sum = 0;

    for (enum lateness_stage i = 0; i <= LATENESS_HANDOFF; i++) {
        sum += lateness->ms[i];
        worst = lateness->ms[i] > lateness->ms[worst] ? i : worst;
    }
    if (sum == 0)
        return;
    char late[DURATION_TEXT_SIZE];
    duration_format(sum, late);
    char most[DURATION_TEXT_SIZE];
    duration_format(lateness->ms[worst], most);
    const bool has_no_lease = explained->place == PLACE_QUEUED && worst == LATENESS_WORKER &&
                              explained->reason != WAIT_WORKER;
    const bool is_next = worst == LATENESS_SET_LATE && timer->texts.schedule.size > 0;
    buffer_printf(out, " Attempt %u %s %s late; most of it, %s, came from %s.", lateness->attempt,
                  explained->place == PLACE_QUEUED ? "is" : "was", late, most,
                  has_no_lease ? "no lease being free or asked for"
                  : is_next    ? "the firing before it, which was not over"
                               : what[worst]);
}

static void explain_append_sentence(const struct timer *timer, const struct explained *explained,
                                    const struct target_status *target,
                                    const struct target_pause *pause, struct buffer *out)
{
    struct buffer text;

    buffer_init(&text);
    explain_say_where(&text, timer, explained);
    explain_say_time(&text, timer, explained, target, pause);
    explain_say_breaker(&text, target, explained);
    explain_say_late(&text, timer, explained);
    if (buffer_failed(&text))
        out->failed = true;
    else
        json_put_string(out, "explanation", buffer_bytes(&text));
    buffer_deinit(&text);
}

/* ---- the fields ---- */

static void explain_append_lateness(const struct lateness *lateness, struct buffer *out)
{
    if (lateness->attempt == 0)
        return;
    uint64_t sum = 0;
    for (enum lateness_stage i = 0; i <= LATENESS_HANDOFF; i++)
        sum += lateness->ms[i];
    json_open(out, "lateness", '{');
    json_put_number(out, "attempt", lateness->attempt);
    json_put_number(out, "late_ms", sum);
    json_open(out, "stages_ms", '{');
    for (enum lateness_stage i = 0; i < LATENESS_STAGES; i++)
        if (lateness->ms[i] > 0)
            json_put_number(out, explain_stage_text(i), lateness->ms[i]);
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

static void explain_append_place(const struct timer *timer, const struct explained *explained,
                                 struct buffer *out)
{
    if (timer->state == TIMER_PAUSED)
        return;
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
        json_put_text(out, "for", explain_reason_text(explained->reason));
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

static void explain_append_target(const struct timer *timer, const struct explained *explained,
                                  const struct target_status *target,
                                  const struct target_pause *pause, struct buffer *out)
{
    json_open(out, "target", '{');
    json_put_string(out, "origin", timer_target_origin(timer));
    if (explained->place == PLACE_QUEUED || explained->place == PLACE_INFLIGHT) {
        json_put_number(out, "deliveries", explained->inflight);
        if (explained->inflight_max != UINT32_MAX)
            json_put_number(out, "deliveries_max", explained->inflight_max);
    }
    if (target) {
        json_put_text(out, "breaker", breaker_state_text(target->state));
        json_put_number(out, "failures", target->failures);
        if (target->state != BREAKER_CLOSED)
            json_put_number(out, "tried_again_in_ms", target->wait_ms);
    }
    timer_json_put_pause(pause, explained->now, out);
    json_close(out, '}');
}

void explain_format(const struct timer *timer, const struct explained *explained,
                    const struct target_status *target, const struct target_pause *pause,
                    struct buffer *out)
{
    struct wall next;

    json_open(out, NULL, '{');
    timer_id_put(out, "id", &timer->id);
    json_put_text(out, "state", timer_state_text(timer->state));
    json_put_text(out, "where", explain_place_text(explained, timer));
    explain_append_sentence(timer, explained, target, pause, out);
    json_put_number(out, "partition", timer->id.partition);
    rfc3339_put(out, "now", explained->now);
    rfc3339_put(out, "due", timer->due);
    if (explained->place == PLACE_FINAL)
        rfc3339_put(out, "ended", timer->ended);
    else if (timer->state == TIMER_PAUSED)
        timer_show_paused(timer, out);
    else if (explain_next(timer, explained, target, pause, &next))
        rfc3339_put(out, "next", next);
    json_put_number(out, "version", timer->version);
    json_put_number(out, "attempts", timer->attempts);
    json_put_number(out, "attempts_max", timer->retry.attempts_max);
    json_put_some(out, "last_error", timer->texts.last_error);
    explain_append_place(timer, explained, out);
    explain_append_target(timer, explained, target, pause, out);
    explain_append_lateness(&explained->lateness, out);
    json_put_some(out, "traceparent", timer->texts.trace);
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
    buffer_init(&body);
    struct target_status status;
    struct target_pauses *pauses = node_pauses(call->api->options.node);
    explain_format(
        timer, &command->explained,
        node_target_status(call->api->options.node, timer, &status) ? &status : NULL,
        target_pauses_of(pauses, timer->texts.tenant, timer->texts.target, &timer->target), &body);
    target_pauses_leave(pauses);
    call_answer_json(call, 200, &body);
}

void explain_end(struct call *call)
{
    if (timers_address(call, COMMAND_EXPLAIN))
        call_submit(call, explain_done);
}
