#include "api/timers/forecast.h"

#include "api/core/scatter.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <stdlib.h>
#include <string.h>

enum { FORECAST_PARAMETERS_MAX = 8 };

/* One answer for all partitions; behind it lie their forecasts, and behind those their numbers. */
struct job {
    struct api *api;
    const char *unit;
    uint64_t unit_ms;
    size_t count, parts;
    struct wall now;
    uint64_t rows_max;
    struct forecast forecasts[];
};

/* ---- the query ---- */

static bool read_count(struct bytes text, size_t *ret_count)
{
    size_t count = 0;

    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        count = count * 10 + (size_t)(text.data[i] - '0');
        if (count > FORECAST_COUNT_MAX)
            return false;
    }
    *ret_count = count;
    return count > 0;
}

static bool take(struct job *job, const struct http_parameter *parameter,
                 struct problem *ret_problem)
{
    if (bytes_equal(parameter->name, BYTES("unit"))) {
        bool is_second = bytes_equal(parameter->value, BYTES("second"));

        job->unit = is_second ? "second" : "minute";
        job->unit_ms = is_second ? 1000 : 60 * 1000;
        if (is_second || bytes_equal(parameter->value, BYTES("minute")))
            return true;
        problem_set(ret_problem, ERROR_INVALID, "", "%s", "`unit`: It must be second or minute");
    } else if (bytes_equal(parameter->name, BYTES("count"))) {
        if (read_count(parameter->value, &job->count))
            return true;
        problem_set(ret_problem, ERROR_INVALID, "", "`count`: It must be 1 to %d",
                    FORECAST_COUNT_MAX);
    } else {
        problem_set(ret_problem, ERROR_INVALID, "", "%s", "The parameters are unit and count");
    }
    return false;
}

static bool is_repeated(const struct http_parameter *parameters, size_t at,
                        struct problem *ret_problem)
{
    for (size_t i = 0; i < at; i++)
        if (bytes_equal(parameters[i].name, parameters[at].name)) {
            problem_set(ret_problem, ERROR_INVALID, "", "`%.*s`: It is given twice",
                        (int)parameters[at].name.size, parameters[at].name.data);
            return true;
        }
    return false;
}

/* Into the settings of `job`. False: answered. */
static bool read_query(struct call *call, struct job *job)
{
    struct http_parameter parameters[FORECAST_PARAMETERS_MAX];
    char *room = malloc(call->query.size + 1);
    struct problem problem;
    size_t count = 0;
    bool is_good = room != NULL;

    if (!room)
        problem_set(&problem, ERROR_NO_MEMORY, "", "%s", "");
    if (room && http_query_parse(call->query, room, parameters, FORECAST_PARAMETERS_MAX, &count)) {
        problem_set(&problem, ERROR_BAD_REQUEST, "", "%s", "The query cannot be read");
        is_good = false;
    }
    for (size_t i = 0; i < count && is_good; i++)
        is_good = !is_repeated(parameters, i, &problem) && take(job, &parameters[i], &problem);
    free(room);
    if (!is_good)
        call_answer_problem(call, &problem);
    return is_good;
}

/* ---- the answer ---- */

static struct wall until_of(const struct job *job)
{
    struct wall until = WALL_NEVER;

    for (size_t i = 0; i < job->parts; i++)
        until = wall_min(until, job->forecasts[i].until);
    return until;
}

static void append_time(struct buffer *body, const char *before, struct wall wall)
{
    char text[RFC3339_TEXT_SIZE];

    rfc3339_format(wall, text);
    buffer_printf(body, "%s\"%s\"", before, text);
}

/* Units that are counted to their end, and no others. */
static void append_units(const struct job *job, struct wall until, struct buffer *body)
{
    struct wall from = job->forecasts[0].from;

    buffer_append_text(body, ",\"due\":[");
    for (size_t unit = 0; unit < job->count; unit++) {
        uint64_t due = 0;

        if (wall_add(from, (unit + 1) * job->unit_ms).ms > until.ms)
            break;
        for (size_t i = 0; i < job->parts; i++)
            due += job->forecasts[i].due[unit];
        buffer_append_text(body, unit ? "," : "");
        buffer_append_u64(body, due);
    }
    buffer_append_text(body, "]");
}

static void format(const struct job *job, struct buffer *body)
{
    struct wall until = until_of(job), end = forecast_end(&job->forecasts[0]);
    uint64_t overdue = 0, rows = 0;

    for (size_t i = 0; i < job->parts; i++) {
        overdue += job->forecasts[i].overdue;
        rows += job->forecasts[i].rows;
    }
    append_time(body, "{\"now\":", job->now);
    buffer_printf(body, ",\"unit\":\"%s\",\"count\":%zu", job->unit, job->count);
    append_time(body, ",\"from\":", job->forecasts[0].from);
    append_time(body, ",\"until\":", until);
    buffer_printf(body, ",\"complete\":%s", until.ms < end.ms ? "false" : "true");
    append_units(job, until, body);
    buffer_printf(body, ",\"overdue\":%llu,\"rows_read\":%llu,\"rows_max\":%llu}",
                  (unsigned long long)overdue, (unsigned long long)rows,
                  (unsigned long long)job->rows_max);
}

static void finish(struct scatter *fan)
{
    struct buffer body;

    for (size_t i = 0; i < fan->count; i++)
        if (fan->parts[i].error) {
            call_answer_error(fan->call, fan->parts[i].error, "");
            return;
        }
    buffer_init(&body);
    format(fan->room, &body);
    call_answer_json(fan->call, 200, &body);
}

/* ---- the call ---- */

static struct job *job_create(const struct job *settings)
{
    size_t numbers = settings->parts * settings->count;
    size_t head = sizeof(struct job) + settings->parts * sizeof(struct forecast);
    struct job *job = calloc(1, head + numbers * sizeof(uint64_t));

    if (!job)
        return NULL;
    *job = *settings;
    for (size_t i = 0; i < job->parts; i++)
        job->forecasts[i] = (struct forecast){
            .from = {job->now.ms / job->unit_ms * job->unit_ms},
            .unit_ms = job->unit_ms,
            .count = job->count,
            .rows_max = job->rows_max / job->parts,
            .due = (uint64_t *)(void *)((char *)job + head) + i * job->count,
        };
    return job;
}

static bool enter(struct api *api)
{
    if (atomic_fetch_add(&api->forecasts, 1) < FORECASTS_MAX)
        return true;
    atomic_fetch_sub(&api->forecasts, 1);
    return false;
}

void forecast_end_of(struct call *call)
{
    struct job *job, settings = {
                         .api = call->api,
                         .unit = "minute",
                         .unit_ms = 60 * 1000,
                         .count = FORECAST_COUNT_DEFAULT,
                         .parts = node_partition_count(call->api->options.node),
                         .now = wall_now(),
                         .rows_max = FORECAST_ROWS_MAX,
                     };
    struct scatter *fan;

    if (settings.rows_max < settings.parts * FORECAST_ROWS_MIN)
        settings.rows_max = settings.parts * FORECAST_ROWS_MIN;
    if (!read_query(call, &settings))
        return;
    if (!enter(call->api)) {
        call_answer_error(call, ERROR_OVERLOADED, "Too many forecasts are under way");
        return;
    }
    job = job_create(&settings);
    fan = job ? scatter_create(call, job->parts) : NULL;
    if (!fan) {
        atomic_fetch_sub(&call->api->forecasts, 1);
        if (!job)
            call_answer_error(call, ERROR_NO_MEMORY, "");
        free(job);
        return;
    }
    fan->room = job;
    fan->finish = finish;
    for (uint16_t i = 0; i < job->parts; i++) {
        fan->parts[i].node.command.kind = COMMAND_FORECAST;
        fan->parts[i].node.command.partition = i;
        fan->parts[i].node.command.forecast = &job->forecasts[i];
    }
    scatter_submit(fan);
}

void forecast_closed(struct call *call)
{
    if (call->state)
        atomic_fetch_sub(&call->api->forecasts, 1);
    scatter_closed(call);
}
