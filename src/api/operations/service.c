/* service.c - answers health, readiness, metrics, the OpenAPI documents and the index. */
#include "api/core/call.h"

#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "http/field.h"
#include "sys/clock.h"

#include <stdlib.h>

void service_healthz(struct call *call)
{
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_text(&body, "status", "ok");
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

void service_readyz(struct call *call)
{
    struct http_response response = {.status = 200, .content_type = "application/json"};
    struct node_health health;

    node_health(call->api->options.node, &health);
    json_open(&response.body, NULL, '{');
    if (health.is_ready) {
        json_put_text(&response.body, "status", "ready");
        json_put_some(&response.body, "detail", bytes_of(health.detail));
        if (clock_is_virtual()) {
            json_put_text(&response.body, "clock", "virtual");
            rfc3339_put(&response.body, "now", wall_now());
        }
    } else {
        /* This is none of the service's errors, so the type is HTTP's own (RFC 9457, 4.2.1). */
        response.status = 503;
        response.content_type = "application/problem+json";
        json_put_text(&response.body, "type", "about:blank");
        json_put_text(&response.body, "title", "Service Unavailable");
        json_put_number(&response.body, "status", 503);
        json_put_text(&response.body, "detail", health.reason);
        http_response_header(&response, "Retry-After", "1");
    }
    json_close(&response.body, '}');
    buffer_append_text(&response.body, "\n");
    call_answer(call, &response);
}

void service_key_set(struct call *call)
{
    struct buffer body;

    buffer_init(&body);
    node_append_key_set(call->api->options.node, &body);
    call_answer_json(call, 200, &body);
}

/* Returns the text format, unless the client names OpenMetrics and does not prefer the text. */
static enum metrics_format service_metrics_format(const struct call *call)
{
    const struct bytes accept = http_request_header(call->http, "Accept");
    const unsigned weight = http_accept_weight(accept, "application/openmetrics-text", "1.0.0");

    return weight > 0 && weight >= http_accept_weight(accept, "text/plain", "0.0.4")
               ? METRICS_OPENMETRICS
               : METRICS_TEXT;
}

void service_metrics(struct call *call)
{
    const enum metrics_format format = service_metrics_format(call);
    struct http_response response = {.status = 200, .content_type = metrics_content_type(format)};

    struct metrics_waiting *waiting = malloc(sizeof(*waiting));
    if (!waiting) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    http_response_header(&response, "Vary", "Accept");
    node_refresh_metrics(call->api->options.node);
    node_waiting(call->api->options.node, waiting);
    metrics_format(call->api->options.metrics, format, waiting, &response.body);
    free(waiting);
    call_answer(call, &response);
}

/* Shows a problem without a cause, because the `type` of a problem is a path of this server. */
void service_problem(struct call *call)
{
    for (unsigned error = ERROR_NONE + 1; error < ERROR_COUNT; error++) {
        if (!bytes_equal(call->parameter, bytes_of(error_slug((enum error_code)error))))
            continue;
        struct problem problem;
        problem_set(&problem, (enum error_code)error, "", "%s", "");
        struct buffer body;
        buffer_init(&body);
        problem_format(&problem, &body);
        call_answer_json(call, 200, &body);
        return;
    }
    call_answer_error(call, ERROR_NOT_FOUND, "There is no problem of this type");
}

static void service_lend(struct call *call, const struct buffer *document)
{
    struct http_response response = {
        .status = 200, .content_type = "application/json", .lent = buffer_bytes(document)};

    call_answer(call, &response);
}

void service_openapi(struct call *call)
{
    service_lend(call, &call->api->openapi);
}

void service_openapi_strict(struct call *call)
{
    service_lend(call, &call->api->openapi_strict);
}

void service_index(struct call *call)
{
    static const char *const members[][2] = {
        {"service", "tickwheel"},     {"version", TICKWHEEL_VERSION}, {"timers", "/v1/timers"},
        {"openapi", "/openapi.json"}, {"metrics", "/metrics"},        {"health", "/healthz"},
        {"readiness", "/readyz"},
    };
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
        json_put_text(&body, members[i][0], members[i][1]);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}
