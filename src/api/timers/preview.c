/* preview.c - shows when a schedule would fire. The query has the fields of a create. It is
 * rewritten as the body of a create and read by the parser of creates, so that a preview and a
 * timer never differ. */
#include "api/timers/timers.h"

#include "api/core/query.h"
#include "base/json_write.h"
#include "base/number.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <stdlib.h>

enum {
    PREVIEW_PARAMETERS_MAX = 16,
    COUNT_DEFAULT = 10,
    PREVIEW_COUNT_MAX = 1000,
    PREVIEW_SKIPPED_MAX = 100,
    PREVIEW_STEPS_MAX = 20000, /* instants that are looked at for them */
};

struct preview {
    struct buffer json; /* body of a create */
    struct wall after;
    uint64_t count;
};

/* Parameters; those after PREVIEW_AFTER are fields of a create. */
enum {
    PREVIEW_COUNT,
    PREVIEW_AFTER,
    PREVIEW_EXCEPT = 10,
    PREVIEW_ONLY,
};

static const char *const preview_parameters[] = {"n",     "after",      "every",  "at",
                                                 "count", "until",      "cron",   "timezone",
                                                 "dst",   "on_holiday", "except", "only"};

/* Adds a member of the create; a numeric text becomes a number. */
static void preview_add_member(struct preview *preview, const char *name, struct bytes value)
{
    uint64_t number;

    if (number_parse(value, 10, &number) && number <= UINT64_MAX / 20)
        json_put_number(&preview->json, name, number);
    else
        json_put_string(&preview->json, name, value);
}

/* Adds a list whose entries have commas between them. */
static void preview_add_list(struct preview *preview, const char *name, struct bytes value)
{
    json_open(&preview->json, name, '[');
    while (value.size)
        json_put_string(&preview->json, NULL, bytes_cut(&value, ','));
    json_close(&preview->json, ']');
}

static void preview_take(void *context, size_t index, struct bytes value, struct problem *problem)
{
    const char *name = preview_parameters[index];
    struct preview *preview = context;

    if (index == PREVIEW_COUNT)
        query_number(name, value, 1, PREVIEW_COUNT_MAX, &preview->count, problem);
    else if (index == PREVIEW_AFTER)
        query_wall(name, value, &preview->after, problem);
    else if (index == PREVIEW_EXCEPT || index == PREVIEW_ONLY)
        preview_add_list(preview, name, value);
    else
        preview_add_member(preview, name, value);
}

static enum error_code preview_read_query(struct call *call, struct preview *preview,
                                          struct problem *ret_problem)
{
    static const struct query_form form = {
        .names = preview_parameters,
        .count = sizeof(preview_parameters) / sizeof(preview_parameters[0]),
        .parameters_max = PREVIEW_PARAMETERS_MAX,
        .take = preview_take,
    };

    json_open(&preview->json, NULL, '{');
    json_put_text(&preview->json, "target", "http://preview.invalid");
    enum error_code code = query_read(call->query, call->query_room, &form, preview, ret_problem);
    json_close(&preview->json, '}');
    return code;
}

/* Changes the names of fields in the create's problem to those of the client's parameters. */
static void preview_name_parameters(struct problem *problem)
{
    for (unsigned i = 0; i < problem->fault_count; i++) {
        char *pointer = problem->faults[i].pointer;
        size_t skipped = strspn(pointer, "#/");

        memmove(pointer, pointer + skipped, strlen(pointer + skipped) + 1);
    }
}

/* Reads the query. Faults of the create follow those of the other parameters. */
static enum error_code preview_read(struct call *call, struct preview *preview,
                                    const struct timer_json_limits *limits, struct wall now,
                                    struct timer **ret_timer, struct problem *ret_problem)
{
    enum error_code code = preview_read_query(call, preview, ret_problem);

    if (code && code != ERROR_INVALID)
        return code;
    if (buffer_failed(&preview->json))
        return problem_set(ret_problem, ERROR_NO_MEMORY, "", "%s", "");
    struct problem problem;
    enum error_code create_code =
        timer_json_parse_create(buffer_bytes(&preview->json), limits, now, ret_timer, &problem);
    if (!create_code)
        return code;
    preview_name_parameters(&problem);
    if (!code)
        *ret_problem = problem;
    for (unsigned i = 0; code && i < problem.fault_count; i++)
        problem_add(ret_problem, code, problem.faults[i].pointer, "%s", problem.faults[i].detail);
    return code ? code : create_code;
}

/* Returns an instant before the next day of the schedule, and after most of those that show the day
 * of `at`: the clocks change by less than these hours. */
static struct wall preview_leave_day(const struct recurrence *recurrence, struct wall at,
                                     int64_t day)
{
    static const uint64_t steps_ms[] = {12 * 3600000, 4 * 3600000, 3600000, 60000};

    for (size_t i = 0; i < sizeof(steps_ms) / sizeof(steps_ms[0]); i++)
        for (struct wall next = wall_add(at, steps_ms[i]); recurrence_day(recurrence, next) == day;
             next = wall_add(at, steps_ms[i]))
            at = next;
    return at;
}

/* Lists the dates until `last` on which an instant would be, but for `except` and `only`, and
 * why. */
static void preview_format_skipped(const struct recurrence *recurrence, struct wall after,
                                   struct wall last, struct buffer *body)
{
    unsigned count = 0;

    json_open(body, "skipped", '[');
    for (int step = 0; step < PREVIEW_STEPS_MAX && count < PREVIEW_SKIPPED_MAX; step++) {
        struct wall moved;
        const struct wall at = recurrence_next_plain(recurrence, after, &moved);
        char text[DATES_REASON_SIZE];

        if (at.ms > last.ms)
            break;
        after = at;
        if (moved.ms == at.ms)
            continue;
        const int64_t day = recurrence_day(recurrence, at);
        json_open(body, NULL, '{');
        holidays_format_day(day, text);
        json_put_text(body, "date", text);
        dates_reason(&recurrence->dates, day, text);
        json_put_text(body, "reason", text);
        if (moved.ms != WALL_NEVER.ms)
            rfc3339_put(body, "moved_to", moved);
        json_close(body, '}');
        count++;
        after = preview_leave_day(recurrence, at, day);
    }
    json_close(body, ']');
}

static void preview_format(const struct schedule *schedule, const struct preview *preview,
                           struct buffer *body)
{
    struct wall at = preview->after, last = at;
    struct schedule left = *schedule; /* of which `count` counts down */

    json_open(body, NULL, '{');
    json_open(body, "instants", '[');
    for (uint64_t i = 0; i < preview->count; i++) {
        at = schedule_after(&left, at);
        if (at.ms == WALL_NEVER.ms)
            break;
        schedule_take(&left, at);
        rfc3339_put(body, NULL, at);
        last = at;
    }
    json_close(body, ']');
    if (dates_any(&schedule->recurrence.dates))
        preview_format_skipped(&schedule->recurrence, preview->after, last, body);
    json_close(body, '}');
}

void preview_end(struct call *call)
{
    struct timer_json_limits limits = call_timer_limits(call);
    struct wall now = wall_now();
    struct preview preview = {.after = {now.ms - 1}, .count = COUNT_DEFAULT};

    limits.target_check = NULL;
    buffer_init(&preview.json);
    struct buffer body;
    buffer_init(&body);
    struct schedule schedule;
    struct timer *timer = NULL;
    struct problem problem;
    if (preview_read(call, &preview, &limits, now, &timer, &problem)) {
        call_answer_problem(call, &problem);
    } else if (schedule_of(timer, &limits.zones, &schedule, NULL) || !schedule.recurs) {
        call_answer_error(call, ERROR_INVALID, "Give `every` or `cron`");
    } else {
        preview_format(&schedule, &preview, &body);
        call_answer_json(call, 200, &body);
    }
    timer_free(timer);
    buffer_deinit(&preview.json);
}
