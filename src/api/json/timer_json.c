/* timer_json.c - writes a timer as JSON. */
#include "api/json/timer_json.h"

#include "base/base64.h"
#include "calendar/duration.h"
#include "base/json.h"
#include "calendar/rfc3339.h"
#include "timer/runs.h"

static void timer_json_append_string(struct buffer *out, const char *name, struct bytes text)
{
    buffer_append_text(out, name);
    json_append_string(out, text);
}

static void timer_json_append_time(struct buffer *out, const char *name, struct wall wall)
{
    char text[RFC3339_TEXT_SIZE];

    rfc3339_format(wall, text);
    buffer_append_text(out, name);
    buffer_append(out, "\"", 1);
    buffer_append(out, text, sizeof(text) - 1);
    buffer_append(out, "\"", 1);
}

static void timer_json_append_duration(struct buffer *out, const char *name, uint64_t ms)
{
    buffer_append_text(out, name);
    buffer_append(out, "\"", 1);
    char text[DURATION_TEXT_SIZE];
    buffer_append(out, text, duration_format(ms, text));
    buffer_append(out, "\"", 1);
}

static void timer_json_append_number(struct buffer *out, const char *name, uint64_t value)
{
    buffer_append_text(out, name);
    buffer_append_u64(out, value);
}

static void timer_json_append_payload(struct buffer *out, const struct timer_texts *texts)
{
    if (texts->content_type.size) {
        buffer_append_text(out, ",\"body_base64\":\"");
        base64_append(out, texts->payload);
        timer_json_append_string(out, "\",\"content_type\":", texts->content_type);
    } else if (texts->payload.size) {
        buffer_append_text(out, ",\"payload\":");
        buffer_append_bytes(out, texts->payload);
    }
}

/* From "Name: value\n" for each. */
static void timer_json_append_headers(struct buffer *out, struct bytes headers)
{
    const char *at = headers.data, *end = at + headers.size;
    const char *separator = ",\"headers\":{";

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *colon = memchr(at, ':', (size_t)(end - at));

        if (!line_end || !colon || line_end - colon < 2)
            break; /* never written so; what follows cannot be told apart */
        timer_json_append_string(out, separator, (struct bytes){at, (size_t)(colon - at)});
        timer_json_append_string(out, ":",
                                 (struct bytes){colon + 2, (size_t)(line_end - colon - 2)});
        separator = ",";
        at = line_end + 1;
    }
    if (at > headers.data)
        buffer_append(out, "}", 1);
}

static void timer_json_append_watch(struct buffer *out, struct bytes watch)
{
    const char *separator = ",\"watch\":[";
    struct bytes name;

    while (timer_watch_next(&watch, &name)) {
        timer_json_append_string(out, separator, name);
        separator = ",";
    }
    buffer_append(out, "]", 1);
}

static void timer_json_append_labels(struct buffer *out, const struct timer_texts *texts)
{
    if (!texts->labels.size)
        return;
    buffer_append_text(out, ",\"labels\":");
    buffer_append_bytes(out, texts->labels);
}

static void timer_json_append_retry(struct buffer *out, const struct retry_policy *retry)
{
    timer_json_append_number(out, ",\"retry\":{\"max_attempts\":", retry->attempts_max);
    timer_json_append_duration(out, ",\"base\":", retry->base_ms);
    timer_json_append_duration(out, ",\"cap\":", retry->cap_ms);
    timer_json_append_duration(out, ",\"timeout\":", retry->timeout_ms);
    timer_json_append_duration(out, ",\"give_up_after\":", retry->give_up_ms);
    buffer_append(out, "}", 1);
}

static void timer_json_append_report(struct buffer *out, const char *name, struct bytes target)
{
    if (!target.size)
        return;
    timer_json_append_string(out, name, target);
    buffer_append(out, "}", 1);
}

static void timer_json_append_reports(struct buffer *out, uint32_t fields,
                                      const struct timer_texts *texts)
{
    if (fields & PATCH_ON_DEAD)
        timer_json_append_report(out, ",\"on_dead\":{\"target\":", texts->on_dead);
    if (fields & PATCH_ON_SUCCESS)
        timer_json_append_report(out, ",\"on_success\":{\"target\":", texts->on_success);
}

void timer_json_format_fields(const struct timer *timer, uint32_t fields, struct buffer *out)
{
    if (fields & PATCH_PAYLOAD)
        timer_json_append_payload(out, &timer->texts);
    if (fields & PATCH_HEADERS && timer->texts.headers.size)
        timer_json_append_headers(out, timer->texts.headers);
    if (fields & PATCH_LABELS)
        timer_json_append_labels(out, &timer->texts);
    if (fields & PATCH_RETRY)
        timer_json_append_retry(out, &timer->retry);
    timer_json_append_reports(out, fields, &timer->texts);
}

void timer_json_format_content(const struct timer *timer, struct buffer *out)
{
    const struct timer_texts *texts = &timer->texts;

    timer_json_append_payload(out, texts);
    if (texts->headers.size)
        timer_json_append_headers(out, texts->headers);
    timer_json_append_labels(out, texts);
}

void timer_json_format_runs(const struct timer *timer, struct buffer *out)
{
    struct bytes runs = timer->texts.runs;
    const char *separator = "";

    buffer_append_text(out, "[");
    struct run run;
    for (; runs_next(&runs, &run); separator = ",") {
        buffer_append_text(out, separator);
        buffer_append_text(out, "{");
        run_append_json(&run, out);
        buffer_append_text(out, "}");
    }
    buffer_append_text(out, "]");
}

/* `until` is WALL_MS_MAX at most, or stands for no time at all. */
static void timer_json_append_paused(struct wall since, struct wall until, struct bytes note,
                                     struct buffer *out)
{
    timer_json_append_time(out, ",\"paused\":{\"since\":", since);
    if (until.ms <= WALL_MS_MAX)
        timer_json_append_time(out, ",\"until\":", until);
    if (note.size)
        timer_json_append_string(out, ",\"note\":", note);
    buffer_append(out, "}", 1);
}

void timer_json_format_paused(const struct timer *timer, struct buffer *out)
{
    timer_json_append_paused(timer->paused, timer->at, timer->texts.note, out);
}

void timer_json_append_pause(const struct target_pause *pause, struct wall now, struct buffer *out)
{
    if (target_pause_is_in_force(pause, now))
        timer_json_append_paused(pause->since, pause->until, pause->note, out);
}

void timer_json_format(const struct timer *timer, struct buffer *out)
{
    const struct timer_texts *texts = &timer->texts;
    char id[TIMER_ID_TEXT_SIZE];

    timer_id_format(&timer->id, id);
    buffer_append_text(out, "{\"id\":\"");
    buffer_append(out, id, sizeof(id) - 1);
    timer_json_append_time(out, "\",\"due\":", timer->due);
    buffer_append_text(out, ",\"state\":\"");
    buffer_append_text(out, timer_state_text(timer->state));
    timer_json_append_number(out, "\",\"version\":", timer->version);
    if (texts->key.size)
        timer_json_append_string(out, ",\"key\":", texts->key);
    timer_json_append_string(out, ",\"target\":", texts->target);
    if (timer_keeps_content(timer->state))
        timer_json_format_content(timer, out);
    else
        timer_json_append_labels(out, texts);
    if (texts->watch.size)
        timer_json_append_watch(out, texts->watch);
    if (texts->schedule.size) {
        buffer_append_text(out, ",\"schedule\":");
        buffer_append_bytes(out, texts->schedule);
    }
    timer_json_append_retry(out, &timer->retry);
    timer_json_append_reports(out, PATCH_ON_DEAD | PATCH_ON_SUCCESS, texts);
    if (texts->report_of.size)
        timer_json_append_string(out, ",\"report_of\":", texts->report_of);
    timer_json_append_number(out, ",\"attempts\":", timer->attempts);
    timer_json_append_time(out, ",\"created\":", timer->created);
    if (timer_is_final(timer->state))
        timer_json_append_time(out, ",\"ended\":", timer->ended);
    if (timer->state == TIMER_PAUSED)
        timer_json_format_paused(timer, out);
    if (timer->state == TIMER_RETRYING)
        timer_json_append_time(out, ",\"next_attempt\":", timer->at);
    if (texts->last_error.size)
        timer_json_append_string(out, ",\"last_error\":", texts->last_error);
    if (texts->runs.size) {
        buffer_append_text(out, ",\"runs\":");
        timer_json_format_runs(timer, out);
    }
    buffer_append(out, "}", 1);
}
