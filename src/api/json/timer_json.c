/* timer_json.c - writes a timer as JSON. */
#include "api/json/timer_json.h"

#include "base/base64.h"
#include "base/json_write.h"
#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "timer/runs.h"

#define TIMER_JSON_CONTENT (PATCH_PAYLOAD | PATCH_HEADERS | PATCH_LABELS)

static void timer_json_put_payload(struct buffer *out, const struct timer_texts *texts)
{
    if (texts->content_type.size) {
        json_put_name(out, "body_base64");
        buffer_append_text(out, "\"");
        base64_append(out, texts->payload);
        buffer_append_text(out, "\"");
        json_put_string(out, "content_type", texts->content_type);
    } else if (texts->payload.size) {
        json_put_raw(out, "payload", texts->payload);
    }
}

/* Converts lines "Name: value\n". */
static void timer_json_put_headers(struct buffer *out, struct bytes headers)
{
    if (!headers.size)
        return;
    json_open(out, "headers", '{');
    const char *at = headers.data, *end = at + headers.size;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *colon = memchr(at, ':', (size_t)(end - at));

        if (!line_end || !colon || line_end - colon < 2)
            break; /* never stored like this; the rest cannot be split */
        json_put_pair(out, (struct bytes){at, (size_t)(colon - at)},
                      (struct bytes){colon + 2, (size_t)(line_end - colon - 2)});
        at = line_end + 1;
    }
    json_close(out, '}');
}

static void timer_json_put_watch(struct buffer *out, struct bytes watch)
{
    struct bytes name;

    if (!watch.size)
        return;
    json_open(out, "watch", '[');
    while (timer_watch_next(&watch, &name))
        json_put_string(out, NULL, name);
    json_close(out, ']');
}

static void timer_json_put_labels(struct buffer *out, const struct timer_texts *texts)
{
    if (texts->labels.size)
        json_put_raw(out, "labels", texts->labels);
}

static void timer_json_put_retry(struct buffer *out, const struct retry_policy *retry)
{
    json_open(out, "retry", '{');
    json_put_number(out, "max_attempts", retry->attempts_max);
    duration_put(out, "base", retry->base_ms);
    duration_put(out, "cap", retry->cap_ms);
    duration_put(out, "timeout", retry->timeout_ms);
    duration_put(out, "give_up_after", retry->give_up_ms);
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

void timer_json_put_fields(const struct timer *timer, uint32_t fields, struct buffer *out)
{
    const struct timer_texts *texts = &timer->texts;

    if (fields & PATCH_METHOD)
        json_put_some(out, "method", texts->method);
    if (fields & PATCH_PAYLOAD)
        timer_json_put_payload(out, texts);
    if (fields & PATCH_HEADERS)
        timer_json_put_headers(out, texts->headers);
    if (fields & PATCH_LABELS)
        timer_json_put_labels(out, texts);
    if (fields & PATCH_RETRY)
        timer_json_put_retry(out, &timer->retry);
    if (fields & PATCH_ON_DEAD)
        timer_json_put_report(out, "on_dead", texts->on_dead);
    if (fields & PATCH_ON_SUCCESS)
        timer_json_put_report(out, "on_success", texts->on_success);
}

void timer_json_put_content(const struct timer *timer, struct buffer *out)
{
    timer_json_put_fields(timer, TIMER_JSON_CONTENT, out);
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

void timer_json_put_paused(const struct timer *timer, struct buffer *out)
{
    timer_json_put_paused_since(timer->paused, timer->at, timer->texts.note, out);
}

void timer_json_put_pause(const struct target_pause *pause, struct wall now, struct buffer *out)
{
    if (target_pause_is_in_force(pause, now))
        timer_json_put_paused_since(pause->since, pause->until, pause->note, out);
}

void timer_json_format(const struct timer *timer, struct buffer *out)
{
    const struct timer_texts *texts = &timer->texts;

    json_open(out, NULL, '{');
    timer_id_put(out, "id", &timer->id);
    rfc3339_put(out, "due", timer->due);
    json_put_text(out, "state", timer_state_text(timer->state));
    json_put_number(out, "version", timer->version);
    json_put_some(out, "key", texts->key);
    json_put_string(out, "target", texts->target);
    if (timer_keeps_content(timer->state))
        timer_json_put_fields(timer, PATCH_METHOD | TIMER_JSON_CONTENT, out);
    else
        timer_json_put_labels(out, texts);
    timer_json_put_watch(out, texts->watch);
    if (texts->schedule.size)
        json_put_raw(out, "schedule", texts->schedule);
    timer_json_put_fields(timer, PATCH_RETRY | PATCH_ON_DEAD | PATCH_ON_SUCCESS, out);
    json_put_some(out, "report_of", texts->report_of);
    json_put_number(out, "attempts", timer->attempts);
    rfc3339_put(out, "created", timer->created);
    if (timer_is_final(timer->state))
        rfc3339_put(out, "ended", timer->ended);
    if (timer->state == TIMER_PAUSED)
        timer_json_put_paused(timer, out);
    if (timer->state == TIMER_RETRYING)
        rfc3339_put(out, "next_attempt", timer->at);
    json_put_some(out, "last_error", texts->last_error);
    if (texts->runs.size)
        timer_json_put_runs(timer, out);
    json_close(out, '}');
}
