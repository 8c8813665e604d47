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
};

static const char *const preview_parameters[] = {"n",     "after", "every",    "at", "count",
                                                 "until", "cron",  "timezone", "dst"};

/* Adds a member of the create; a numeric text becomes a number. */
static void preview_add_member(struct preview *preview, const char *name, struct bytes value)
{
    uint64_t number;

    if (number_parse(value, 10, &number) && number <= UINT64_MAX / 20)
        json_put_number(&preview->json, name, number);
    else
        json_put_string(&preview->json, name, value);
}

static void preview_take(void *context, size_t index, struct bytes value, struct problem *problem)
{
    const char *name = preview_parameters[index];
    struct preview *preview = context;

    if (index == PREVIEW_COUNT)
        query_number(name, value, 1, PREVIEW_COUNT_MAX, &preview->count, problem);
    else if (index == PREVIEW_AFTER)
        query_wall(name, value, &preview->after, problem);
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

static void preview_format(const struct schedule *schedule, const struct preview *preview,
                           struct buffer *body)
{
    struct wall at = preview->after;

    json_open(body, NULL, '{');
    json_open(body, "instants", '[');
    for (uint64_t i = 0; i < preview->count; i++) {
        at = recurrence_next(&schedule->recurrence, at);
        if (at.ms == WALL_NEVER.ms)
            break;
        rfc3339_put(body, NULL, at);
    }
    json_close(body, ']');
    json_close(body, '}');
}

void preview_end(struct call *call)
{
    struct timer_json_limits limits = call->api->limits;
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
