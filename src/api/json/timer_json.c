/* timer_json.c - writes a timer as JSON. */
#include "api/json/timer_json.h"

#include "api/json/timer_fields.h"
#include "base/base64.h"
#include "base/json_write.h"
#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "timer/fanout.h"
#include "timer/runs.h"
#include "timer/sensitive_headers.h"

/* ---- the fields ---- */

/* Defines the function of a field that shows a text of the timer, as a string or as raw JSON. */
#define TIMER_SHOW_TEXT(name, put)                                        \
    void timer_show_##name(const struct timer *timer, struct buffer *out) \
    {                                                                     \
        put(out, #name, timer->texts.name);                               \
    }

TIMER_SHOW_TEXT(key, json_put_some)
TIMER_SHOW_TEXT(method, json_put_some)
TIMER_SHOW_TEXT(order, json_put_some)

void timer_show_ack_timeout(const struct timer *timer, struct buffer *out)
{
    if (timer->texts.ack_timeout.size)
        duration_put(out, "ack_timeout", ack_timeout_ms(timer, 0));
}
TIMER_SHOW_TEXT(content_type, json_put_some)
TIMER_SHOW_TEXT(labels, json_put_some_raw)
TIMER_SHOW_TEXT(schedule, json_put_some_raw)
TIMER_SHOW_TEXT(report_of, json_put_some)
TIMER_SHOW_TEXT(firing_of, json_put_some)
TIMER_SHOW_TEXT(debounce, json_put_some_raw)
TIMER_SHOW_TEXT(last_error, json_put_some)

void timer_show_id(const struct timer *timer, struct buffer *out)
{
    timer_id_put(out, "id", &timer->id);
}

void timer_show_due(const struct timer *timer, struct buffer *out)
{
    rfc3339_put(out, "due", timer->due);
}

void timer_show_target(const struct timer *timer, struct buffer *out)
{
    if (!fanout_is_parent(timer))
        json_put_string(out, "target", timer->texts.target);
}

void timer_show_state(const struct timer *timer, struct buffer *out)
{
    json_put_text(out, "state", timer_state_text(fanout_shown_state(timer)));
}

void timer_show_version(const struct timer *timer, struct buffer *out)
{
    json_put_number(out, "version", timer->version);
}

void timer_show_payload(const struct timer *timer, struct buffer *out)
{
    if (!timer->texts.content_type.size)
        json_put_some_raw(out, "payload", timer->texts.payload);
}

void timer_show_body_base64(const struct timer *timer, struct buffer *out)
{
    if (!timer->texts.content_type.size)
        return;
    json_put_name(out, "body_base64");
    buffer_append_text(out, "\"");
    base64_append(out, timer->texts.payload);
    buffer_append_text(out, "\"");
}

/* Converts lines "Name: value\n". */
static void timer_json_put_headers(const struct timer *timer, const struct timer_json_view *view,
                                   struct buffer *out)
{
    struct bytes headers = timer->texts.headers;

    if (!headers.size)
        return;
    json_open(out, "headers", '{');
    const char *at = headers.data, *end = at + headers.size;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *colon = memchr(at, ':', (size_t)(end - at));

        if (!line_end || !colon || line_end - colon < 2)
            break; /* never stored like this; the rest cannot be split */
        const struct bytes name = {at, (size_t)(colon - at)};
        const bool is_hidden =
            view->hides_headers && header_is_sensitive(name, view->sensitive_headers);
        json_put_pair(out, name,
                      is_hidden ? BYTES(HEADER_MASK)
                                : (struct bytes){colon + 2, (size_t)(line_end - colon - 2)});
        at = line_end + 1;
    }
    json_close(out, '}');
}

void timer_json_append_shown_headers(struct bytes headers, const struct timer_json_view *view,
                                     struct buffer *out)
{
    while (headers.size > 0) {
        const struct bytes line = bytes_cut(&headers, '\n');
        struct bytes rest = line;
        const struct bytes name = bytes_cut(&rest, ':');

        if (view->hides_headers && header_is_sensitive(name, view->sensitive_headers))
            continue;
        buffer_append_bytes(out, line);
        buffer_append_text(out, "\n");
    }
}

void timer_show_headers(const struct timer *timer, struct buffer *out)
{
    timer_json_put_headers(timer, &(struct timer_json_view){.hides_headers = false}, out);
}

void timer_show_watch(const struct timer *timer, struct buffer *out)
{
    struct bytes watch = timer->texts.watch, name;

    if (!watch.size)
        return;
    json_open(out, "watch", '[');
    while (timer_watch_next(&watch, &name))
        json_put_string(out, NULL, name);
    json_close(out, ']');
}

void timer_show_retry(const struct timer *timer, struct buffer *out)
{
    const struct retry_policy *retry = &timer->retry;

    json_open(out, "retry", '{');
    json_put_number(out, "max_attempts", retry->attempts_max);
    duration_put(out, "base", retry->base_ms);
    duration_put(out, "cap", retry->cap_ms);
    duration_put(out, "timeout", retry->timeout_ms);
    duration_put(out, "give_up_after", retry->give_up_ms);
    if (retry->until_next)
        json_put_text(out, "until", "next");
    json_close(out, '}');
}

static void timer_json_put_report(struct buffer *out, const char *name, struct bytes target)
{
    if (!target.size)
        return;
    json_open(out, name, '{');
    json_put_string(out, "target", target);
    json_close(out, '}');
}

void timer_show_on_dead(const struct timer *timer, struct buffer *out)
{
    timer_json_put_report(out, "on_dead", timer->texts.on_dead);
}

void timer_show_on_success(const struct timer *timer, struct buffer *out)
{
    timer_json_put_report(out, "on_success", timer->texts.on_success);
}

void timer_show_attempts(const struct timer *timer, struct buffer *out)
{
    json_put_number(out, "attempts", timer->attempts);
}

void timer_show_created(const struct timer *timer, struct buffer *out)
{
    rfc3339_put(out, "created", timer->created);
}

void timer_show_ended(const struct timer *timer, struct buffer *out)
{
    if (timer_is_final(timer->state))
        rfc3339_put(out, "ended", timer->ended);
}

void timer_show_next_attempt(const struct timer *timer, struct buffer *out)
{
    if (fanout_shown_state(timer) == TIMER_RETRYING)
        rfc3339_put(out, "next_attempt", timer->at);
}

void timer_show_runs(const struct timer *timer, struct buffer *out)
{
    if (timer->texts.runs.size)
        timer_json_put_runs(timer, out);
}

/* `until` is WALL_MS_MAX at most, or means no end. */
static void timer_json_put_paused_since(struct wall since, struct wall until, struct bytes note,
                                        struct buffer *out)
{
    json_open(out, "paused", '{');
    rfc3339_put(out, "since", since);
    if (until.ms <= WALL_MS_MAX)
        rfc3339_put(out, "until", until);
    json_put_some(out, "note", note);
    json_close(out, '}');
}

void timer_show_paused(const struct timer *timer, struct buffer *out)
{
    if (timer->state == TIMER_PAUSED)
        timer_json_put_paused_since(timer->paused, timer->at, timer->texts.note, out);
}

void timer_json_put_pause(const struct target_pause *pause, struct wall now, struct buffer *out)
{
    if (target_pause_is_in_force(pause, now))
        timer_json_put_paused_since(pause->since, pause->until, pause->note, out);
}

/* ---- a timer ---- */

void timer_json_put_fields(const struct timer *timer, uint64_t fields, struct buffer *out)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (fields >> i & 1 && timer_fields[i].show)
            timer_fields[i].show(timer, out);
}

void timer_json_put_runs(const struct timer *timer, struct buffer *out)
{
    struct bytes runs = timer->texts.runs;
    struct run run;

    json_open(out, "runs", '[');
    while (runs_next(&runs, &run)) {
        json_open(out, NULL, '{');
        run_put(&run, out);
        json_close(out, '}');
    }
    json_close(out, ']');
}

static bool timer_json_is_payload(const struct timer_field_row *field)
{
    return field->show == timer_show_payload || field->show == timer_show_body_base64;
}

void timer_json_format(const struct timer *timer, const struct timer_json_view *view,
                       struct buffer *out)
{
    json_open(out, NULL, '{');
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (timer_fields[i].show &&
            (timer_fields[i].when == FIELD_ALWAYS || timer_keeps_content(timer->state))) {
            if (timer_fields[i].show == timer_show_headers)
                timer_json_put_headers(timer, view, out);
            else if (view->hides_payload && timer_json_is_payload(&timer_fields[i]))
                continue;
            else
                timer_fields[i].show(timer, out);
        }
    if (view->hides_payload && timer->texts.payload.size && timer_keeps_content(timer->state))
        json_put_flag(out, "payload_hidden", true);
    json_close(out, '}');
}
