/*
 * api.c - the handler of the HTTP server: finds the route of a request, checks access, runs its
 * steps; starts and stops the API.
 */
#include "api/api.h"

#include "api/core/call.h"
#include "api/operations/document.h"
#include "api/core/site.h"
#include "api/core/query.h"
#include "api/core/route.h"
#include "sys/clock.h"

#include <stdlib.h>
#include <strings.h>

/* ---- the server's calls, handed on to the route ---- */

static struct call *api_call_create(struct api *api, struct http_request *request)
{
    struct call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->api = api;
    call->http = request;
    list_init(&call->held_link);
    http_request_set_user(request, call);
    return call;
}

/* Sends the only answer that needs no memory: one with an empty body. */
static void api_answer_out_of_memory(struct http_request *request)
{
    struct http_response response = {.status = 503};

    http_response_header(&response, "Retry-After", "1");
    http_request_answer(request, &response);
}

/* Sends a browser from /ui/ to /ui. The path is relative, because a proxy may have put others
 * before it. */
static void api_answer_dashboard(struct call *call)
{
    struct http_response response = {.status = 308};

    http_response_header(&response, "Location", "../ui");
    call_answer(call, &response);
}

static void api_answer_no_route(struct call *call, struct bytes path, const char *allow)
{
    struct http_response response = {.status = problem_status(ERROR_METHOD),
                                     .content_type = "application/problem+json"};

    if (bytes_equal(path, BYTES("/ui/"))) {
        api_answer_dashboard(call);
        return;
    }
    if (!allow[0]) {
        call_answer_error(call, ERROR_NOT_FOUND, "There is nothing at this path");
        return;
    }
    struct problem problem;
    problem_set(&problem, ERROR_METHOD, "", "This path takes %s", allow);
    problem_format(&problem, &response.body);
    buffer_append_text(&response.body, "\n");
    http_response_header(&response, "Allow", "%s", allow);
    call_answer(call, &response);
}

/* Adds the challenge of RFC 6750, with a reason if a token was sent. */
static void api_challenge(struct call *call, struct http_response *response, enum error_code error)
{
    if (error == ERROR_FORBIDDEN)
        http_response_header(
            response, "WWW-Authenticate",
            "Bearer realm=\"tickwheel\", error=\"insufficient_scope\", scope=\"%s\"",
            access_need_word(call->route->need));
    else
        http_response_header(response, "WWW-Authenticate", "Bearer realm=\"tickwheel\"%s",
                             http_request_header(call->http, "Authorization").data
                                 ? ", error=\"invalid_token\""
                                 : "");
}

static void api_answer_no_access(struct call *call, enum error_code error, uint64_t wait_ns)
{
    struct http_response response = {0};
    struct problem problem;

    if (error == ERROR_RATE_EXCEEDED) {
        unsigned rate = (unsigned)call->caller.limits.rate;
        unsigned long long wait_s = (wait_ns + 999999999) / 1000000000;

        problem_set(&problem, error, "", "The limit is %u requests per second; try again in %llu s",
                    rate, wait_s);
        http_response_header(&response, "Retry-After", "%llu", wait_s);
        http_response_header(&response, "RateLimit-Policy", "\"rate\";q=%u;w=1", rate);
        http_response_header(&response, "RateLimit", "\"rate\";r=0;t=%llu", wait_s);
    } else {
        if (error == ERROR_FORBIDDEN)
            problem_set(&problem, error, "", "It lacks the scope %s",
                        access_need_word(call->route->need));
        else
            problem_set(&problem, error, "", "Send it as Authorization: Bearer TOKEN");
        api_challenge(call, &response, error);
    }
    call_answer_refusal(call, &problem, &response);
}

void call_answer_no_access(struct call *call, enum error_code error)
{
    api_answer_no_access(call, error, 0);
}

/* Returns a header in the form that site.h takes. */
static struct bytes api_site_header(const struct call *call, const char *name)
{
    struct bytes value = http_request_header(call->http, name);

    return value.data && http_request_header_count(call->http, name) > 1 ? BYTES("") : value;
}

/* Refuses requests of web pages of other sites. Returns false if answered. */
static bool api_admit_site(struct call *call, struct bytes authority)
{
    const struct config *config = call->api->options.config;
    const struct site_request request = {
        .method = http_request_method(call->http),
        .host = api_site_header(call, "Host"),
        .authority = authority,
        .origin = api_site_header(call, "Origin"),
        .fetch_site = api_site_header(call, "Sec-Fetch-Site"),
    };

    if (access_is_open(call->api->access) && !site_is_ours(config, &request)) {
        call_answer_error(call, ERROR_FOREIGN_SITE,
                          "Host is none of this server, as when a web page has rebound its name; "
                          "the setting allowed_hosts adds names");
        return false;
    }
    if (site_is_foreign(config, &request)) {
        call_answer_error(call, ERROR_FOREIGN_SITE,
                          "A web page of another origin may not change anything; the setting "
                          "allowed_origins adds origins");
        return false;
    }
    return true;
}

/* Connections without a token end when others take their places, and not because of their age. */
#define STRANGER_MS (UINT64_C(24) * 3600 * 1000)

/* Counts the connection for the tenant. Returns false if the tenant has too many. */
static bool api_vouch(struct call *call)
{
    struct tenant_pot *connections = &call->api->connections;

    if (http_request_is_vouched(call->http))
        return true;
    struct tenant_pot_share *share = tenant_pot_take(connections, caller_key(&call->caller), 1);
    if (share && http_request_vouch(call->http, share))
        return true;
    tenant_pot_give(connections, share, share ? 1 : 0);
    return false;
}

static void api_parted(void *context, void *sponsor)
{
    struct api *api = context;

    tenant_pot_give(&api->connections, sponsor, 1);
}

/* Sets call->caller from the token. Returns false if answered with a refusal. */
static bool api_admit(struct call *call)
{
    const struct config *config = call->api->options.config;
    struct bytes authorization = http_request_header(call->http, "Authorization");
    enum access_need need = call->route->need;

    if (authorization.data && http_request_header_count(call->http, "Authorization") > 1)
        authorization = (struct bytes){0}; /* two tokens: a proxy may have checked the other one */
    if (need == ACCESS_METRICS && config->metrics_access == CONFIG_METRICS_ACCESS_OPEN)
        need = ACCESS_OPEN;
    uint64_t wait_ns = 0;
    enum error_code error = access_check(call->api->access, authorization, need, instant_now(),
                                         &call->caller, &wait_ns);
    if (error) {
        api_answer_no_access(call, error, wait_ns);
        return false;
    }
    call->body_bytes_max = caller_limit(config->body_bytes_max, call->caller.limits.body_bytes_max);
    if (need == ACCESS_OPEN || access_is_open(call->api->access) || api_vouch(call))
        return true;
    call_answer_error(call, ERROR_OVERLOADED, "The tenant has too many connections open");
    return false;
}

/* Refuses coded bodies with the list of accepted codings (RFC 9110, 15.5.16). Returns true if
 * answered. */
static bool api_refuses_coding(struct call *call)
{
    struct bytes coding = http_request_header(call->http, "Content-Encoding");

    if (!coding.data || !call->route->body ||
        (coding.size == 8 && strncasecmp(coding.data, "identity", 8) == 0 &&
         http_request_header_count(call->http, "Content-Encoding") == 1))
        return false;
    struct problem problem;
    problem_set(&problem, ERROR_MEDIA_TYPE, "", "%s", "Send the body without a Content-Encoding");
    struct http_response response = {0};
    http_response_header(&response, "Accept-Encoding", "identity");
    call_answer_refusal(call, &problem, &response);
    return true;
}

/* Refuses parameters of a call that has none. Probes, metrics and the dashboard pass over them.
 * Returns false if answered. */
static bool api_admit_query(struct call *call, struct bytes path)
{
    static const struct query_form form = {.parameters_max = QUERY_PARAMETERS};

    return call->query.size == 0 || call->route->takes_query ||
           !bytes_has_prefix(path, BYTES("/v1/")) || call_read_query(call, &form, NULL);
}

static void api_begin(void *context, struct http_request *request)
{
    struct call *call = api_call_create(context, request);

    if (!call) {
        api_answer_out_of_memory(request);
        return;
    }
    call_read_trace(call);
    struct http_target target;
    if (http_target_parse(http_request_target(request), &target)) {
        call_answer_error(call, ERROR_BAD_REQUEST, "The request target is not a valid one");
        return;
    }
    struct route_match match;
    char path[ROUTE_PATH_SIZE];
    struct problem problem;
    const enum error_code code = route_take_key(&target.path, &target.query, path, &problem);
    route_find(call->api->routes, call->api->route_count, http_request_method(request), target.path,
               call->parameter_text, &match);
    call->route = match.route;
    call->parameter = match.parameter;
    call->query = target.query.size ? target.query : (struct bytes){0};
    call->query_room = call->query.size ? malloc(call->query.size) : NULL;
    if (!call->route)
        api_answer_no_route(call, target.path, match.allow);
    else if (!api_admit_site(call, target.authority) || !api_admit(call) ||
             api_refuses_coding(call))
        return; /* answered */
    else if (code)
        call_answer_problem(call, &problem);
    else if (call->query.size && !call->query_room)
        call_answer_error(call, ERROR_NO_MEMORY, "");
    else if (api_admit_query(call, target.path) && call->route->begin)
        call->route->begin(call);
}

static size_t api_body(struct http_request *request, struct bytes chunk)
{
    struct call *call = http_request_user(request);

    return call->route->body ? call->route->body(call, chunk) : chunk.size;
}

static void api_end(struct http_request *request)
{
    struct call *call = http_request_user(request);
    const struct bytes mark = BYTES("\xef\xbb\xbf"); /* byte order mark, as Windows writes it */

    if (bytes_has_prefix(buffer_bytes(&call->body), mark)) {
        call->body.size -= mark.size;
        memmove(call->body.data, call->body.data + mark.size, call->body.size);
    }
    /* A route checks a body itself if it reads it in pieces. */
    const bool is_whole = !call->route->body || call->route->body == call_collect;
    const enum error_code error =
        is_whole ? access_recheck(call->api->access, &call->caller) : ERROR_NONE;
    if (error)
        api_answer_no_access(call, error, 0);
    else
        call->route->end(call);
}

static void api_resumed(struct http_request *request)
{
    struct call *call = http_request_user(request);
    void (*const resume)(struct call * call) = call->resume ? call->resume : call->route->resumed;

    call->resume = NULL;
    resume(call);
}

static bool api_streamed(struct http_request *request, bool is_idle, struct buffer *out)
{
    struct call *call = http_request_user(request);

    return call->route->streamed(call, is_idle, out);
}

static void api_left(struct http_request *request)
{
    struct call *call = http_request_user(request);

    if (call->route->left)
        call->route->left(call);
}

static void api_closed(struct http_request *request)
{
    struct call *call = http_request_user(request);

    if (!call)
        return;
    pthread_mutex_lock(&call->api->lock);
    list_remove(&call->held_link);
    pthread_mutex_unlock(&call->api->lock);
    if (call->route && call->route->closed)
        call->route->closed(call);
    tenant_pot_give(&call->api->bodies, call->body_share, call->body_counted);
    tenant_pot_give(&call->api->answers, call->answer_share, call->answer_counted);
    buffer_deinit(&call->body);
    timer_free(call->shown);
    timer_free(call->unclaimed);
    calendars_leave(call->calendars);
    free(call->query_room);
    free(call);
}

static void api_turned(void *context, unsigned thread)
{
    struct api *api = context;

    if (!list_is_empty(&api->outboxes[thread]))
        node_send(api->options.node, &api->outboxes[thread]);
}

static void api_refuse(void *context, struct http_request *request, enum http_refusal refusal)
{
    struct call *call = api_call_create(context, request);

    if (!call) {
        api_answer_out_of_memory(request);
        return;
    }
    switch (refusal) {
    case HTTP_REFUSED_MALFORMED:
        call_answer_error(
            call, ERROR_BAD_REQUEST,
            "The request is not clear: its head, its Host, the length of its body or a chunk");
        break;
    case HTTP_REFUSED_HEADERS:
        call_answer_error(call, ERROR_HEADERS_TOO_LARGE, "");
        break;
    case HTTP_REFUSED_CONNECTIONS:
        metrics_add(call->api->options.metrics, METRIC_REFUSED_CONNECTIONS, 1);
        call_answer_error(call, ERROR_OVERLOADED, "Too many connections are open");
        break;
    case HTTP_REFUSED_STOPPING:
        call_answer_error(call, ERROR_STOPPING, "");
        break;
    }
}

static const struct http_handler api_handler = {
    .parted = api_parted,
    .begin = api_begin,
    .body = api_body,
    .end = api_end,
    .resumed = api_resumed,
    .streamed = api_streamed,
    .left = api_left,
    .closed = api_closed,
    .turned = api_turned,
    .refuse = api_refuse,
};

/* Sets the table of routes, and what follows from it. */

/* Waiting leases hold requests, and the server waits for its requests. */
static enum error_code api_add_routes(struct api *api)
{
    api->routes = routes;
    api->route_count = routes_count;
    for (size_t i = 0; i < routes_count; i++)
        metrics_label_route(api->options.metrics, i, routes[i].label);
    api_format_openapi(&api->openapi);
    api_format_openapi_strict(&api->openapi_strict);
    return buffer_failed(&api->openapi) || buffer_failed(&api->openapi_strict) ? ERROR_NO_MEMORY
                                                                               : ERROR_NONE;
}

enum error_code api_start(const struct api_options *options, struct api **ret_api,
                          struct error *ret_error)
{
    const struct config *config = options->config;
    struct api *api = calloc(1, sizeof(*api));
    struct http_options http = {
        .address = config->listen_address,
        .port = (uint16_t)config->listen_port,
        .threads = node_shard_count(options->node),
        .loops = node_loops(options->node),
        .connections_max = config->connections_max,
        .header_bytes_max = config->header_bytes_max,
        .idle_ms = config->http_idle_ms,
        .drain_ms = config->drain_ms,
        .handler = &api_handler,
        .context = api,
        .identity = options->identity,
        .stranger_ms = STRANGER_MS,
    };

    if (!api)
        tokens_free(options->tokens);
    if (!api || shared_init(api, options)) {
        free(api);
        return error_set(ret_error, ERROR_NO_MEMORY, "start the API");
    }
    http.strangers_max = shared_strangers_max(api, config);
    http.connections_max -= http.strangers_max;
    enum error_code error = api_add_routes(api);
    error = error ? error_set(ret_error, error, "start the API")
                  : http_server_start(&http, &api->server, ret_error);
    if (error) {
        buffer_deinit(&api->openapi);
        buffer_deinit(&api->openapi_strict);
        shared_deinit(api);
        free(api);
        return error;
    }
    *ret_api = api;
    return ERROR_NONE;
}

void api_stop(struct api *api)
{
    if (!api)
        return;
    /* Leases that wait hold requests, and the server waits for its requests. */
    node_queue_stop_waiting(api->options.node);
    feed_stop(node_feed(api->options.node));
    http_server_stop(api->server);
    buffer_deinit(&api->openapi);
    buffer_deinit(&api->openapi_strict);
    shared_deinit(api);
    free(api);
}

enum error_code api_replace_tokens(struct api *api, struct tokens *tokens)
{
    const enum error_code error = access_replace(api->access, tokens);

    if (error)
        return error;
    pthread_mutex_lock(&api->lock);
    LIST_FOR_EACH (&api->held, link) {
        struct call *call = list_item(link, struct call, held_link);

        call->recheck(call);
    }
    pthread_mutex_unlock(&api->lock);
    return ERROR_NONE;
}

/* Context of api_take_limits. */
struct api_limits_search {
    struct bytes tenant;
    struct tenant_limits *limits;
};

static void api_take_limits(void *context, const struct access_tenant *tenant)
{
    const struct api_limits_search *search = context;

    if (bytes_equal(tenant->name, search->tenant))
        *search->limits = tenant->limits;
}

void api_tenant_limits(struct api *api, struct bytes tenant, struct tenant_limits *limits)
{
    struct api_limits_search search = {tenant, limits};

    access_tell_tenants(api->access, api_take_limits, &search);
}

void api_replace_identity(struct api *api, struct tls_identity *identity)
{
    http_server_set_identity(api->server, identity);
}

uint16_t api_port(const struct api *api)
{
    return http_server_port(api->server);
}

void api_format_openapi(struct buffer *out)
{
    struct buffer strict;

    buffer_init(&strict);
    api_format_openapi_strict(&strict);
    document_format_plain(buffer_bytes(&strict), out);
    out->failed |= buffer_failed(&strict);
    buffer_deinit(&strict);
}

void api_format_openapi_strict(struct buffer *out)
{
    document_format(routes, routes_count, out);
}

void api_format_routes(struct buffer *out)
{
    document_format_overview(routes, routes_count, out);
}
