/* figures.c - answers GET /v1/history: the past of the figures of this node, of all tenants. */
#include "api/core/call.h"

#include "api/core/query.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <stdlib.h>

enum { FIGURES_PARAMETERS_MAX = 8 };

static const char *const figures_names[] = {
#define X(id, name, step_s, points) name,
    FIGURES_WINDOW_LIST(X)
#undef X
};

static const char *const figures_parameters[] = {"window"};

static void figures_take_window(void *context, size_t index, struct bytes value,
                                struct problem *problem)
{
    enum figures_window *window = context;

    for (size_t i = 0; i < FIGURES_WINDOWS; i++)
        if (bytes_equal(value, bytes_of(figures_names[i]))) {
            *window = (enum figures_window)i;
            return;
        }
    query_fault(problem, figures_parameters[index], "It must be 1h, 24h or 7d");
}

/* Appends a quantile in seconds; nothing if it is beyond the last bucket. */
static void figures_put_quantile(const struct figures_point *point, const char *name, double share,
                                 struct buffer *out)
{
    uint64_t buckets[METRICS_BUCKET_COUNT];

    for (size_t i = 0; i < METRICS_BUCKET_COUNT; i++)
        buckets[i] = point->late[i];
    const uint64_t us = metrics_bucket_quantile_us(buckets, share);
    if (us == 0 || us == UINT64_MAX)
        return;
    json_put_name(out, name);
    buffer_printf(out, "%llu.%06llu", (unsigned long long)(us / 1000000),
                  (unsigned long long)(us % 1000000));
}

static void figures_put_point(const struct figures_point *point, struct buffer *out)
{
    static const char *const counts[] = {
#define X(id, name) name,
        FIGURES_COUNT_LIST(X)
#undef X
    };

    json_open(out, NULL, '{');
    rfc3339_put(out, "at", point->at);
    json_put_number(out, "span_ms", point->span_ms);
    for (size_t i = 0; i < FIGURES_COUNTS; i++)
        json_put_number(out, counts[i], point->counts[i]);
    figures_put_quantile(point, "late_p50", 0.5, out);
    figures_put_quantile(point, "late_p99", 0.99, out);
    json_open(out, "waiting", '{');
    for (size_t i = 0; i < WAIT_REASONS; i++)
        if (point->waiting[i])
            json_put_number(out, wait_text((enum wait_reason)i), point->waiting[i]);
    json_close(out, '}');
    json_close(out, '}');
}

void figures_get(struct call *call)
{
    static const struct query_form form = {figures_parameters, 1,
                                           .parameters_max = FIGURES_PARAMETERS_MAX,
                                           .take = figures_take_window};
    enum figures_window window = FIGURES_HOUR;
    const struct wall now = wall_machine_now();
    struct figures_point *points;
    struct buffer body;

    if (!call_read_query(call, &form, &window) || call_refuses_large_answer(call))
        return;
    points = malloc(FIGURES_POINTS * sizeof(*points));
    if (!points) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    const size_t count = node_history(call->api->options.node, window, now, points);
    buffer_init(&body);
    json_open(&body, NULL, '{');
    rfc3339_put(&body, "now", now);
    call_put_node(call, &body);
    json_put_text(&body, "window", figures_names[window]);
    json_put_number(&body, "step_seconds", figures_step_s(window));
    json_open(&body, "points", '[');
    for (size_t i = 0; i < count; i++)
        figures_put_point(&points[i], &body);
    json_close(&body, ']');
    json_close(&body, '}');
    free(points);
    call_answer_json(call, 200, &body);
}
