/*
 * call.c - answers of a request (JSON, timers, problems), its body, and its requests to the node.
 */
#include "api/core/call.h"

#include "api/core/query.h"
#include "base/json_write.h"
#include "http/field.h"
#include "sys/clock.h"
#include "telemetry/spans.h"

#include <stdio.h>
#include <stdlib.h>

#define PROBLEM_TYPE "application/problem+json"
#define TIMER_JSON_BYTES \
    512 /* enough for the JSON of most timers, whose answers are then allocated once */

/* ---- answering ---- */

/* Returns the seconds after which a repeated request may succeed; 0 if repeating does not help. */
static unsigned call_retry_after_s(enum error_code code)
{
    switch (code) {
    case ERROR_TOO_MANY:
    case ERROR_RATE_EXCEEDED:
    case ERROR_OVERLOADED:
    case ERROR_NO_MEMORY:
    case ERROR_IO:
    case ERROR_IN_DOUBT:
    case ERROR_NO_BROKERS:
        return 1;
    case ERROR_STOPPING:
        return 5;
    case ERROR_DISK_FULL:
    case ERROR_UNREADABLE:
        return 30;
    default:
        return 0;
    }
}

static bool call_has_header(const struct http_response *response, const char *name)
{
    for (size_t i = 0; i < response->header_count; i++)
        if (strcmp(response->headers[i].name, name) == 0)
            return true;
    return false;
}

void call_error_headers(struct http_response *response, enum error_code code)
{
    unsigned seconds = call_retry_after_s(code);

    if (seconds && !call_has_header(response, "Retry-After"))
        http_response_header(response, "Retry-After", "%u", seconds);
}

void call_count_refusal(struct metrics *metrics, enum error_code code)
{
    switch (code) {
    case ERROR_OVERLOADED:
    case ERROR_NO_BROKERS:
    case ERROR_NO_MEMORY:
        metrics_add(metrics, METRIC_REFUSED_OVERLOADED, 1);
        break;
    case ERROR_TOO_MANY:
    case ERROR_RATE_EXCEEDED:
        metrics_add(metrics, METRIC_REFUSED_TOO_MANY, 1);
        break;
    case ERROR_DISK_FULL:
        metrics_add(metrics, METRIC_REFUSED_DISK_FULL, 1);
        break;
    case ERROR_STOPPING:
        metrics_add(metrics, METRIC_REFUSED_STOPPING, 1);
        break;
    case ERROR_UNAUTHENTICATED:
        metrics_add(metrics, METRIC_REFUSED_UNAUTHENTICATED, 1);
        break;
    case ERROR_FORBIDDEN:
        metrics_add(metrics, METRIC_REFUSED_FORBIDDEN, 1);
        break;
    case ERROR_FOREIGN_SITE:
        metrics_add(metrics, METRIC_REFUSED_FOREIGN_SITE, 1);
        break;
    case ERROR_TOO_LARGE:
    case ERROR_HEADERS_TOO_LARGE:
        metrics_add(metrics, METRIC_REFUSED_TOO_LARGE, 1);
        break;
    default:
        break;
    }
}

/* Exports the span of a request that was to create timers. */
static void call_export_creation(struct call *call, unsigned status, uint64_t took_us)
{
    char name[ROUTE_PATH_SIZE + 16], id[TIMER_ID_TEXT_SIZE], code[12];
    const struct timer *timer = call->shown;
    struct span span = {
        .context = call->creation,
        .parent = call->trace.span,
        .end_us = wall_now_us(),
        .kind = SPAN_SERVER,
        .has_failed = status >= 500,
    };

    span.start_us = span.end_us - took_us;
    snprintf(name, sizeof(name), "%s %s", call->route->method, call->route->path);
    span_set_text(&span, SPAN_TEXT_name, bytes_of(name));
    span_set_text(&span, SPAN_TEXT_method, bytes_of(call->route->method));
    span_set_text(&span, SPAN_TEXT_route, bytes_of(call->route->path));
    span_set_text(&span, SPAN_TEXT_system, BYTES("tickwheel"));
    span_set_text(&span, SPAN_TEXT_operation, BYTES("create"));
    span_set_text(&span, SPAN_TEXT_operation_type, BYTES("create"));
    span_set_text(&span, SPAN_TEXT_tenant, caller_tenant(&call->caller));
    span_set_number(&span, SPAN_NUMBER_status, status);
    if (status >= 400) {
        snprintf(code, sizeof(code), "%u", status);
        span_set_text(&span, SPAN_TEXT_error_type, bytes_of(code));
    }
    if (timer) {
        timer_id_format(&timer->id, id);
        span_set_text(&span, SPAN_TEXT_timer, bytes_of(id));
        span_set_text(&span, SPAN_TEXT_key, timer->texts.key);
    }
    if (call->created_count)
        span_set_number(&span, SPAN_NUMBER_messages, (int64_t)call->created_count);
    spans_add(node_spans(call->api->options.node), http_request_thread(call->http), &span);
}

static void call_count_answer(struct call *call, const struct http_response *response)
{
    struct metrics *metrics = call->api->options.metrics;
    size_t route = call->route ? (size_t)(call->route - call->api->routes) : METRIC_ROUTE_OTHER;

    const uint64_t took_us =
        instant_since_ns(http_request_begun_at(call->http), instant_now()) / 1000;
    metrics_add_request(metrics, route, (unsigned)response->status);
    metrics_observe_traced_us(metrics, HISTOGRAM_HTTP_REQUEST, took_us, &call->trace);
    if (call->creation.is_sampled)
        call_export_creation(call, (unsigned)response->status, took_us);
    call->answer_counted = response->body.capacity;
    call->answer_share =
        tenant_pot_force(&call->api->answers, caller_key(&call->caller), call->answer_counted);
}

void call_answer(struct call *call, struct http_response *response)
{
    call_count_answer(call, response);
    http_request_answer(call->http, response);
}

void call_stream(struct call *call, struct http_response *response)
{
    call_count_answer(call, response);
    http_request_stream(call->http, response);
}

void call_put_node(const struct call *call, struct buffer *out)
{
    const struct config *config = call->api->options.config;

    if (config_is_cluster(config))
        json_put_number(out, "node", config->cluster_node_id);
}

void call_answer_json(struct call *call, int status, struct buffer *body)
{
    struct http_response response = {.status = status, .content_type = "application/json"};

    buffer_append_text(body, "\n");
    response.body = *body;
    call_answer(call, &response);
}

bool call_refuses_large_answer(struct call *call)
{
    if (tenant_pot_has_room(&call->api->answers, caller_key(&call->caller)))
        return false;
    call_answer_error(call, ERROR_OVERLOADED, "Too many answers wait to be read");
    return true;
}

static void call_answer_with(struct call *call, enum error_code code,
                             struct http_response *response)
{
    response->status = problem_status(code);
    response->content_type = PROBLEM_TYPE;
    buffer_append_text(&response->body, "\n");
    call_error_headers(response, code);
    call_count_refusal(call->api->options.metrics, code);
    call_answer(call, response);
}

void call_answer_refusal(struct call *call, const struct problem *problem,
                         struct http_response *response)
{
    problem_format(problem, &response->body);
    call_answer_with(call, problem->code, response);
}

void call_answer_problem(struct call *call, const struct problem *problem)
{
    struct http_response response = {0};

    call_answer_refusal(call, problem, &response);
}

void call_describe_error(const struct api *api, const struct caller *caller, enum error_code code,
                         struct problem *ret_problem)
{
    unsigned long long all = api->options.config->pending_max;
    unsigned long long own = caller->limits.pending_max;
    const bool is_of_log = code == ERROR_OVERLOADED || code == ERROR_IN_DOUBT;
    char trouble[200];

    if (is_of_log && node_brokers_trouble(api->options.node, trouble, sizeof(trouble)))
        problem_set(ret_problem, code == ERROR_OVERLOADED ? ERROR_NO_BROKERS : code, "", "%s",
                    trouble);
    else if (code == ERROR_TOO_MANY && own && all)
        problem_set(ret_problem, code, "",
                    "pending_max is %llu live timers of the tenant, and %llu in all; there is room "
                    "when one of them ends",
                    own, all);
    else if (code == ERROR_TOO_MANY && (own || all))
        problem_set(ret_problem, code, "",
                    "pending_max is %llu live timers%s; there is room when one of them ends",
                    own ? own : all,
                    own                                 ? " of the tenant"
                    : *api->options.config->tokens_file ? ", and a tenant has a share of them"
                                                        : "");
    else
        problem_set(ret_problem, code, "", "%s", "");
}

void call_answer_error(struct call *call, enum error_code code, const char *detail)
{
    struct problem problem;

    if (detail[0])
        problem_set(&problem, code, "", "%s", detail);
    else
        call_describe_error(call->api, &call->caller, code, &problem);
    call_answer_problem(call, &problem);
}

struct timer_json_view call_view(const struct call *call)
{
    const bool sees_all = caller_may(&call->caller, TOKEN_SCOPE_PAYLOAD);

    return (struct timer_json_view){
        .hides_headers = !sees_all,
        .hides_payload = !sees_all && call->caller.hides_payload,
        .sensitive_headers = call->api->limits.sensitive_headers,
    };
}

/* Answers with a problem that includes the timer as a member. */
static void call_answer_because_of(struct call *call, enum error_code error,
                                   const struct timer *timer)
{
    struct problem problem;

    problem_set(&problem, error, "", "%s", "");
    struct http_response response = {0};
    json_open(&response.body, NULL, '{');
    problem_put(&problem, &response.body);
    if (timer) {
        const struct timer_json_view view = call_view(call);

        json_put_name(&response.body, "timer");
        timer_json_format(timer, &view, &response.body);
    }
    json_close(&response.body, '}');
    call_answer_with(call, error, &response);
}

void call_answer_timer(struct call *call, int status, enum error_code error,
                       const struct timer *timer)
{
    struct http_response response = {.status = status, .content_type = "application/json"};
    const struct timer_json_view view = call_view(call);

    if (error == ERROR_GONE || error == ERROR_KEY_IN_USE) {
        call_answer_because_of(call, error, timer);
        return;
    }
    if (error) {
        call_answer_error(call, error, "");
        return;
    }
    if (call->is_after_bare)
        http_response_header(&response, "Tickwheel-Warning",
                             "a number of `after` is milliseconds; write a unit, as in \"30m\"");
    buffer_reserve(&response.body, TIMER_JSON_BYTES);
    timer_json_format(timer, &view, &response.body);
    buffer_append_text(&response.body, "\n");
    http_response_header(&response, "ETag", "\"%u\"", timer->version);
    if (status == 201) {
        char id[TIMER_ID_TEXT_SIZE];
        timer_id_format(&timer->id, id);
        http_response_header(&response, "Location", "/v1/timers/%s", id);
        if (call->created.is_repeated)
            http_response_header(&response, "Idempotent-Replayed", "true");
    }
    call_answer(call, &response);
}

/* ---- queries ---- */

bool call_read_query(struct call *call, const struct query_form *form, void *context)
{
    struct problem problem;

    if (!query_read(call->query, call->query_room, form, context, &problem))
        return true;
    call_answer_problem(call, &problem);
    return false;
}

/* ---- bodies ---- */

bool call_refuses_length(struct call *call, uint64_t bytes_max)
{
    uint64_t length = http_request_content_length(call->http);

    if (length == HTTP_LENGTH_UNKNOWN || length <= bytes_max)
        return false;
    struct problem problem;
    problem_set(&problem, ERROR_TOO_LARGE, "", "The body may have at most %llu bytes",
                (unsigned long long)bytes_max);
    call_answer_problem(call, &problem);
    return true;
}

bool call_refuses_type(struct call *call, const char *type, const char *other)
{
    struct bytes field = http_request_header(call->http, "Content-Type");

    if (field.data &&
        (http_media_type_is(field, type) || (other && http_media_type_is(field, other))))
        return false;
    struct problem problem;
    problem_set(&problem, ERROR_MEDIA_TYPE, "", "The content type must be %s%s%s, in UTF-8", type,
                other ? " or " : "", other ? other : "");
    call_answer_problem(call, &problem);
    return true;
}

bool call_refuses_body(struct call *call)
{
    return call_refuses_length(call, call->body_bytes_max);
}

/* Reserves memory for a body of this size. Returns false without room. Small bodies are always
 * admitted; otherwise a few clients that never finish a large body would lock out all others. */
static bool call_count_body(struct call *call, size_t size)
{
    size_t more = size - call->body_counted;

    if (size <= CALL_SMALL_BODY_BYTES)
        return true;
    struct tenant_pot_share *share =
        tenant_pot_take(&call->api->bodies, caller_key(&call->caller), more);
    if (!share)
        return false;
    call->body_share = share;
    call->body_counted = size;
    return true;
}

void call_begin_json(struct call *call)
{
    if (!call_refuses_type(call, "application/json", NULL))
        call_refuses_body(call);
}

void call_free_state(struct call *call)
{
    free(call->state);
}

size_t call_collect(struct call *call, struct bytes chunk)
{
    size_t bytes_max = call->body_bytes_max;

    if (chunk.size > bytes_max - call->body.size) {
        struct problem problem;
        problem_set(&problem, ERROR_TOO_LARGE, "", "The body may have at most %zu bytes",
                    bytes_max);
        call_answer_problem(call, &problem);
        return chunk.size;
    }
    if (!call_count_body(call, call->body.size + chunk.size)) {
        call_answer_error(call, ERROR_OVERLOADED, "Too many large requests are under way");
        return chunk.size;
    }
    buffer_append_bytes(&call->body, chunk);
    if (buffer_failed(&call->body))
        call_answer_error(call, ERROR_NO_MEMORY, "");
    return chunk.size;
}

/* ---- traces ---- */

void call_read_trace(struct call *call)
{
    const struct bytes field = http_request_header(call->http, "traceparent");

    if (!field.data || http_request_header_count(call->http, "traceparent") != 1 ||
        !trace_parent_parse(field, &call->trace))
        call->trace = (struct trace_parent){0};
}

struct bytes call_trace(struct call *call, char ret_text[TRACE_PARENT_SIZE + 1])
{
    struct spans *spans = node_spans(call->api->options.node);
    const struct trace_parent *parent = call->trace.span ? &call->trace : NULL;

    if (spans) {
        call->creation = spans_child(spans, http_request_thread(call->http), parent);
        if (!parent && !call->creation.is_sampled)
            return BYTES(TRACE_UNSAMPLED);
        parent = &call->creation;
    }
    if (!parent)
        return (struct bytes){0};
    trace_parent_format(parent, ret_text);
    return (struct bytes){ret_text, TRACE_PARENT_SIZE};
}

/* ---- the node ---- */

/* `Prefer: after=milliseconds` says that numbers are milliseconds; with `Prefer: after=unit`
 * numbers that look like seconds are refused. */
static enum timer_json_bare call_bare_after(const struct call *call)
{
    const struct bytes prefer = http_request_header(call->http, "Prefer");

    if (http_prefers(prefer, "after", "milliseconds"))
        return TIMER_JSON_BARE_TAKEN;
    return http_prefers(prefer, "after", "unit") ? TIMER_JSON_BARE_REFUSED : TIMER_JSON_BARE_NOTED;
}

struct timer_json_limits call_timer_limits(struct call *call)
{
    struct timer_json_limits limits = call->api->limits;

    limits.tenant = caller_tenant(&call->caller);
    limits.bare_after = call_bare_after(call);
    limits.is_after_bare = &call->is_after_bare;
    if (!call->calendars)
        call->calendars = node_calendars(call->api->options.node);
    limits.zones.calendars = call->calendars;
    return limits;
}

struct wall call_wall_coming(const struct call *call)
{
    return node_wall_coming(call->api->options.node);
}

static void call_name_caller(const struct call *call, struct node_request *request)
{
    request->command.tenant = caller_tenant(&call->caller);
    request->command.tenant_pending_max = call->caller.limits.pending_max;
    request->trace = call->trace;
}

enum error_code call_hold(struct call *call, void (*recheck)(struct call *call))
{
    struct caller caller = call->caller;

    call->recheck = recheck;
    pthread_mutex_lock(&call->api->lock);
    list_push(&call->api->held, &call->held_link);
    pthread_mutex_unlock(&call->api->lock);
    return access_recheck(call->api->access, &caller);
}

enum error_code call_ask(struct call *call, struct node_request *request)
{
    call_name_caller(call, request);
    return node_submit(call->api->options.node, request);
}

void call_resume(struct call *call, void (*resume)(struct call *call))
{
    call->resume = resume;
    http_request_resume(call->http);
}

struct timer *call_copy_timer(const struct timer *timer)
{
    return timer_copy(timer, &timer->texts);
}

static void call_answer_reply(struct call *call)
{
    call->answer(&call->node);
}

/* Copies the timer of the reply, on the shard's thread, while it is valid. */
static void call_keep_reply(struct node_request *request)
{
    struct call *call = call_of(request);
    struct command *command = &request->command;

    if (command->timer) {
        call->shown = call_copy_timer(command->timer);
        command->timer = call->shown;
        if (!call->shown)
            command->error = ERROR_NO_MEMORY;
    }
    call_resume(call, call_answer_reply);
}

enum error_code call_submit(struct call *call, void (*answer)(struct node_request *request))
{
    struct api *api = call->api;

    call->answer = answer;
    call->node.done = call_keep_reply;
    call_name_caller(call, &call->node);
    enum error_code error = node_submit_later(api->options.node, &call->node,
                                              &api->outboxes[http_request_thread(call->http)]);
    if (error)
        call_answer_error(call, error, "");
    return error;
}
