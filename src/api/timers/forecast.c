/*
 * forecast.c - counts the timers due in each coming minute or second, from rows of all partitions.
 *
 * Each partition reads the rows of the time asked for, at most its share of FORECAST_ROWS_MAX. The
 * forecast ends where the first partition stopped, and names that time.
 */
#include "api/timers/timers.h"

#include "api/core/query.h"
#include "api/core/scatter.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <stdlib.h>
#include <string.h>

enum { FORECAST_PARAMETERS_MAX = 8 };

/* The job, its partitions' forecasts and their counts are one allocation, in this order. */
struct job {
    struct api *api;
    struct concurrency_start start;
    struct scatter *scatter;
    const char *unit;
    uint64_t unit_ms;
    uint64_t count;
    size_t parts;
    struct wall now;
    uint64_t rows_max;
    struct forecast forecasts[];
};

/* ---- the query ---- */

enum {
    FORECAST_UNIT,
    FORECAST_COUNT,
};

static const char *const forecast_parameters[] = {"unit", "count"};

static void forecast_take(void *context, size_t index, struct bytes value, struct problem *problem)
{
    bool is_second = bytes_equal(value, BYTES("second"));
    struct job *job = context;

    if (index == FORECAST_COUNT) {
        query_number(forecast_parameters[index], value, 1, FORECAST_COUNT_MAX, &job->count,
                     problem);
        return;
    }
    job->unit = is_second ? "second" : "minute";
    job->unit_ms = is_second ? 1000 : 60 * 1000;
    if (!is_second && !bytes_equal(value, BYTES("minute")))
        query_fault(problem, forecast_parameters[index], "It must be second or minute");
}

/* Reads the query into `job`. Returns false if answered. */
static bool forecast_read_query(struct call *call, struct job *job)
{
    static const struct query_form form = {
        forecast_parameters, 2, .parameters_max = FORECAST_PARAMETERS_MAX, .take = forecast_take};

    return call_read_query(call, &form, job);
}

/* ---- the answer ---- */

static struct wall forecast_until_of(const struct job *job)
{
    struct wall until = WALL_NEVER;

    for (size_t i = 0; i < job->parts; i++)
        until = wall_min(until, job->forecasts[i].until);
    return until;
}

/* Appends only units that were counted to their end. */
static void forecast_append_units(const struct job *job, struct wall until, struct buffer *body)
{
    struct wall from = job->forecasts[0].from;

    json_open(body, "due", '[');
    for (size_t unit = 0; unit < job->count; unit++) {
        if (wall_add(from, (unit + 1) * job->unit_ms).ms > until.ms)
            break;
        uint64_t due = 0;
        for (size_t i = 0; i < job->parts; i++)
            due += job->forecasts[i].due[unit];
        json_put_number(body, NULL, due);
    }
    json_close(body, ']');
}

static void forecast_format(const struct job *job, struct buffer *body)
{
    struct wall until = forecast_until_of(job), end = forecast_end(&job->forecasts[0]);
    uint64_t overdue = 0, rows = 0;

    for (size_t i = 0; i < job->parts; i++) {
        overdue += job->forecasts[i].overdue;
        rows += job->forecasts[i].rows_own;
    }
    json_open(body, NULL, '{');
    rfc3339_put(body, "now", job->now);
    json_put_text(body, "unit", job->unit);
    json_put_number(body, "count", job->count);
    rfc3339_put(body, "from", job->forecasts[0].from);
    rfc3339_put(body, "until", until);
    json_put_flag(body, "complete", until.ms >= end.ms);
    forecast_append_units(job, until, body);
    json_put_number(body, "overdue", overdue);
    json_put_number(body, "rows_read", rows);
    json_put_number(body, "rows_max", job->rows_max);
    json_close(body, '}');
}

static void forecast_finish(struct scatter *scatter)
{
    concurrency_leave(&scatter->call->api->forecasts, caller_key(&scatter->call->caller));
    for (size_t i = 0; i < scatter->count; i++)
        if (scatter->parts[i].error) {
            call_answer_error(scatter->call, scatter->parts[i].error, "");
            return;
        }
    struct buffer body;
    buffer_init(&body);
    forecast_format(scatter->room, &body);
    call_answer_json(scatter->call, 200, &body);
}

/* ---- the call ---- */

static struct job *forecast_job_create(const struct job *settings)
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

static void forecast_begin(struct concurrency_start *start)
{
    scatter_submit(list_item(start, struct job, start)->scatter);
}

void forecast_end_of(struct call *call)
{
    struct job settings = {
        .api = call->api,
        .unit = "minute",
        .unit_ms = 60 * 1000,
        .count = FORECAST_COUNT_DEFAULT,
        .parts = node_partition_count(call->api->options.node),
        .now = wall_now(),
        .rows_max = FORECAST_ROWS_MAX,
    };

    if (settings.rows_max < settings.parts * FORECAST_ROWS_MIN)
        settings.rows_max = settings.parts * FORECAST_ROWS_MIN;
    if (!forecast_read_query(call, &settings))
        return;
    struct job *job = forecast_job_create(&settings);
    struct scatter *scatter = job ? scatter_create(call, job->parts) : NULL;
    if (!scatter) {
        if (!job)
            call_answer_error(call, ERROR_NO_MEMORY, "");
        free(job);
        return;
    }
    scatter->room = job;
    scatter->finish = forecast_finish;
    for (uint16_t i = 0; i < job->parts; i++) {
        scatter->parts[i].node.command.kind = COMMAND_FORECAST;
        scatter->parts[i].node.command.partition = i;
        scatter->parts[i].node.command.forecast = &job->forecasts[i];
    }
    job->scatter = scatter;
    job->start.begin = forecast_begin;
    concurrency_enter(&call->api->forecasts, &job->start, caller_key(&call->caller));
}

void forecast_closed(struct call *call)
{
    scatter_closed(call);
}
