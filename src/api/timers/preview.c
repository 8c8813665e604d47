/*
 * The query says what the body of a create would: it is put together as one and read by the same
 * code, so that a preview and a timer never differ.
 */
#include "api/timers/preview.h"

#include "base/json.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <stdlib.h>

enum {
    PREVIEW_PARAMETERS_MAX = 16,
    COUNT_DEFAULT = 10,
    PREVIEW_COUNT_MAX = 1000,
};

struct preview {
    struct buffer json; /* of a create */
    struct wall after;
    size_t count;
    bool has_after, has_count; /* were given */
    struct problem problem;
};

static bool wrong(struct preview *preview, const char *name, const char *detail)
{
    problem_set(&preview->problem, ERROR_INVALID, "", "`%s`: %s", name, detail);
    return false;
}

static bool read_number(struct bytes text, uint64_t max, uint64_t *ret_number)
{
    *ret_number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        *ret_number = *ret_number * 10 + (uint64_t)(text.data[i] - '0');
        if (*ret_number > max)
            return false;
    }
    return text.size > 0;
}

static bool read_wall(struct bytes text, struct wall *ret_wall)
{
    return read_number(text, WALL_MS_MAX, &ret_wall->ms) || !rfc3339_parse(text, ret_wall, NULL);
}

/* A member of the create; a text that is a number becomes one. */
static void add_member(struct preview *preview, struct bytes name, struct bytes value)
{
    uint64_t number;

    buffer_append_text(&preview->json, ",");
    json_append_string(&preview->json, name);
    buffer_append_text(&preview->json, ":");
    if (read_number(value, UINT64_MAX / 20, &number))
        buffer_append_u64(&preview->json, number);
    else
        json_append_string(&preview->json, value);
}

static bool take(struct preview *preview, const struct http_parameter *parameter)
{
    static const char *const fields[] = {"every", "at",       "count", "until",
                                         "cron",  "timezone", "dst"};
    uint64_t count;

    if (bytes_equal(parameter->name, BYTES("n"))) {
        if (preview->has_count)
            return wrong(preview, "n", "It is given twice");
        preview->has_count = true;
        preview->count =
            read_number(parameter->value, PREVIEW_COUNT_MAX, &count) ? (size_t)count : 0;
        if (preview->count == 0)
            problem_set(&preview->problem, ERROR_INVALID, "", "`n`: It must be 1 to %d",
                        PREVIEW_COUNT_MAX);
        return preview->count > 0;
    }
    if (bytes_equal(parameter->name, BYTES("after"))) {
        if (preview->has_after)
            return wrong(preview, "after", "It is given twice");
        preview->has_after = true;
        return read_wall(parameter->value, &preview->after) ||
               wrong(preview, "after", "It must be a time of RFC 3339, or Unix milliseconds");
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (bytes_equal(parameter->name, bytes_of(fields[i]))) {
            add_member(preview, parameter->name, parameter->value);
            return true;
        }
    problem_set(&preview->problem, ERROR_INVALID, "", "%s",
                "The parameters are every, at, count, until, cron, timezone, dst, after and n");
    return false;
}

static bool read_query(struct call *call, struct preview *preview)
{
    struct http_parameter parameters[PREVIEW_PARAMETERS_MAX];
    char *room = malloc(call->query.size + 1);
    size_t count = 0;
    bool is_good = room != NULL;

    if (!room)
        problem_set(&preview->problem, ERROR_NO_MEMORY, "", "%s", "");
    if (room && http_query_parse(call->query, room, parameters, PREVIEW_PARAMETERS_MAX, &count)) {
        problem_set(&preview->problem, ERROR_BAD_REQUEST, "", "%s", "The query cannot be read");
        is_good = false;
    }
    buffer_append_text(&preview->json, "{\"target\":\"http://preview.invalid\"");
    for (size_t i = 0; i < count && is_good; i++)
        is_good = take(preview, &parameters[i]);
    buffer_append_text(&preview->json, "}");
    free(room);
    return is_good;
}

static void format(const struct schedule *schedule, const struct preview *preview,
                   struct buffer *body)
{
    char text[RFC3339_TEXT_SIZE];
    struct wall at = preview->after;

    buffer_append_text(body, "{\"instants\":[");
    for (size_t i = 0; i < preview->count; i++) {
        at = recurrence_next(&schedule->recurrence, at);
        if (at.ms == WALL_NEVER.ms)
            break;
        rfc3339_format(at, text);
        buffer_append_text(body, i ? ",\"" : "\"");
        buffer_append_text(body, text);
        buffer_append_text(body, "\"");
    }
    buffer_append_text(body, "]}");
}

void preview_end(struct call *call)
{
    struct timer_json_limits limits = call->api->limits;
    struct wall now = wall_now();
    struct preview preview = {.after = {now.ms - 1}, .count = COUNT_DEFAULT};
    struct schedule schedule;
    struct timer *timer = NULL;
    struct buffer body;

    limits.target_check = NULL;
    buffer_init(&preview.json);
    buffer_init(&body);
    if (!read_query(call, &preview)) {
        call_answer_problem(call, &preview.problem);
    } else if (buffer_failed(&preview.json)) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
    } else if (timer_json_parse_create(buffer_bytes(&preview.json), &limits, now, &timer,
                                       &preview.problem)) {
        call_answer_problem(call, &preview.problem);
    } else if (schedule_of(timer, &limits.zones, &schedule, NULL) || !schedule.recurs) {
        call_answer_error(call, ERROR_INVALID, "Give `every` or `cron`");
    } else {
        format(&schedule, &preview, &body);
        call_answer_json(call, 200, &body);
    }
    timer_free(timer);
    buffer_deinit(&preview.json);
}
