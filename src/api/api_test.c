/*
 * Goal: each route answers as docs/api.md says, in every status it has. Method: real requests over
 * sockets to the API on a node double, which is made to refuse, to fail or to be slow.
 */
#include "api/api.h"

#include "api/core/call.h"
#include "api/core/route.h"
#include "api/testing/fixture.h"
#include "api/timers/timers.h"

#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOTHING BYTES("")
#define QUEUED  "{\"after\":0,\"target\":\"queue:q\"}"

static int api_test_setup(void **state)
{
    static const char *const settings[] = {"body_bytes_max", "2048", /* */
                                           "payload_bytes_max", "1024", NULL};

    *state = fixture_start(settings);
    return 0;
}

static int api_test_teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

/* ---- routes ---- */

/* proves: methods, bad-request, not-found */
static void unknown_paths_and_methods(void **state)
{
    static const char *const nowhere[] = {
        "/v1",       "/v1/timers/", "/v1//timers", "/V1/timers",        "/v1/timers/a/b",
        "/healthz/", "/health",     "//",          "/v1/timers/batch/x"};
    static const struct {
        const char *method, *path, *allow;
    } wrong[] = {
        {"PUT", "/v1/timers", "POST, GET, HEAD"},
        {"DELETE", "/v1/timers", "POST, GET, HEAD"},
        {"GET", "/v1/timers/batch", "POST"},
        {"HEAD", "/v1/timers/batch", "POST"},
        {"POST", "/v1/timers/x", "GET, HEAD, PATCH, DELETE"},
        {"POST", "/healthz", "GET, HEAD"},
        {"OPTIONS", "/metrics", "GET, HEAD"},
        {"BREW", "/", "GET, HEAD"},
    };
    struct api_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        fixture_ask(fixture, "GET", nowhere[i], "", NOTHING, 404, "not-found");
        fixture_ask(fixture, "POST", nowhere[i], FIXTURE_JSON, BYTES("{}"), 404, "not-found");
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fixture_ask(fixture, wrong[i].method, wrong[i].path, "", NOTHING, 405,
                    "method-not-allowed");
        assert_true(reply_has_header(&fixture->reply, "Allow", wrong[i].allow));
    }
    fixture_ask(fixture, "GET", "/%zz", "", NOTHING, 404, "not-found");
    fixture_ask(fixture, "GET", "/v1/timers/%zz", "", NOTHING, 404, "not-found");
    fixture_ask(fixture, "GET", "v1/timers", "", NOTHING, 400, "bad-request");
    fixture_ask(fixture, "GET", "http://localhost/healthz", "", NOTHING, 200, NULL);
}

/* proves: healthz, readyz, openapi */
static void service_routes(void **state)
{
    struct api_fixture *fixture = *state;

    fixture_ask(fixture, "GET", "/healthz", "", NOTHING, 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "{\"status\":\"ok\"}"));
    do /* it says at first that it is recovering */
        client_ask(&fixture->client, "GET", "/readyz", "", NOTHING, &fixture->reply);
    while (fixture->reply.status == 503);
    assert_int_equal(fixture->reply.status, 200);
    assert_true(reply_body_contains(&fixture->reply, "ready"));
    probe_set_not_ready(&fixture->probe, "partition 3 is being read \"");
    fixture_ask(fixture, "GET", "/readyz", "", NOTHING, 503, NULL);
    assert_true(reply_body_contains(&fixture->reply, "partition 3 is being read \\\""));
    assert_true(reply_has_header(&fixture->reply, "Retry-After", "1"));
    fixture_ask(fixture, "HEAD", "/readyz", "", NOTHING, 503, NULL);
    fixture_ask(fixture, "GET", "/openapi.json", "", NOTHING, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "Content-Type", "application/json"));
    json_t *document = json_loadb(fixture->reply.body.data, fixture->reply.body.size, 0, NULL);
    assert_non_null(json_object_get(document, "openapi"));
    json_decref(document);
    fixture_ask(fixture, "GET", "/", "", NOTHING, 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "/openapi.json"));
    fixture_ask(fixture, "HEAD", "/metrics", "", NOTHING, 200, NULL);
}

/* The type of each problem is a path that shows it. */
/* proves: problem */
static void shows_each_problem(void **state)
{
    struct api_fixture *fixture = *state;

    for (unsigned error = ERROR_NONE + 1; error < ERROR_COUNT; error++) {
        char path[64];

        snprintf(path, sizeof(path), "/problems/%s", error_slug((enum error_code)error));
        char type[80];
        snprintf(type, sizeof(type), "\"type\":\"%s\"", path);
        fixture_ask(fixture, "GET", path, "", NOTHING, 200, NULL);
        assert_true(reply_body_contains(&fixture->reply, type));
        assert_true(reply_body_contains(&fixture->reply, error_title((enum error_code)error)));
    }
    fixture_ask(fixture, "GET", "/problems/none", "", NOTHING, 404, "not-found");
    fixture_ask(fixture, "GET", "/problems/", "", NOTHING, 404, "not-found");
}

/* proves: metrics */
static void counts_requests(void **state)
{
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE];

    fixture_create(fixture, FIXTURE_TIMER, path, NULL);
    fixture_ask(fixture, "GET", path, "", NOTHING, 200, NULL);
    fixture_ask(fixture, "GET", path, "", NOTHING, 200, NULL);
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES("{"), 400, "not-json");
    fixture_ask(fixture, "GET", "/nowhere", "", NOTHING, 404, NULL);
    fixture_ask(fixture, "GET", "/metrics", "", NOTHING, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "Content-Type",
                                 "text/plain; version=0.0.4; charset=utf-8"));
    assert_true(reply_body_contains(&fixture->reply, "route=\"timer_create\",class=\"2xx\"} 1\n"));
    assert_true(reply_body_contains(&fixture->reply, "route=\"timer_create\",class=\"4xx\"} 1\n"));
    assert_true(reply_body_contains(&fixture->reply, "route=\"timer_get\",class=\"2xx\"} 2\n"));
    assert_true(reply_body_contains(&fixture->reply, "route=\"other\",class=\"4xx\"} 1\n"));
    assert_int_equal(metrics_observed(fixture->probe.metrics, HISTOGRAM_HTTP_REQUEST), 6);
}

/* ---- create ---- */

/* proves: create */
static void creates(void **state)
{
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE];

    fixture_create(fixture, FIXTURE_TIMER, path, NULL);
    assert_true(reply_has_header(&fixture->reply, "ETag", "\"1\""));
    assert_true(reply_has_header(&fixture->reply, "Content-Type", "application/json"));
    char text[64];
    fixture_member(fixture, "id", text, sizeof(text));
    assert_string_equal(path + strlen("/v1/timers/"), text);
    fixture_member(fixture, "state", text, sizeof(text));
    assert_string_equal(text, "scheduled");
    fixture_ask(fixture, "POST", "/v1/timers", "content-type:application/json;charset=UTF-8\r\n",
                BYTES(FIXTURE_TIMER), 201, NULL);
    assert_int_equal(probe_live(&fixture->probe), 2);
}

/* proves: media-type */
static void refuses_bad_creates(void **state)
{
    struct api_fixture *fixture = *state;
    static const char *const types[] = {
        "", "Content-Type: text/plain\r\n", "Content-Type: application/json; charset=latin1\r\n",
        "Content-Type: application/merge-patch+json\r\n", FIXTURE_NDJSON};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        fixture_ask(fixture, "POST", "/v1/timers", types[i], BYTES(FIXTURE_TIMER), 415,
                    "media-type");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON "Content-Encoding: gzip\r\n",
                BYTES(FIXTURE_TIMER), 415, "media-type");
    assert_true(reply_has_header(&fixture->reply, "Accept-Encoding", "identity"));
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON "Content-Encoding: Identity\r\n",
                BYTES("{"), 400, "not-json");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, NOTHING, 400, "not-json");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES("{\"after\":"), 400, "not-json");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES("\xff"), 400, "not-json");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES("[]"), 422, "invalid");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON,
                BYTES("{\"after\":\"1h\",\"target\":\"http://a.example/\",\"colour\":1}"), 422,
                "invalid");
    assert_true(reply_body_contains(&fixture->reply, "#/colour"));
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON,
                BYTES("{\"after\":-1,\"target\":\"http://a.example/\"}"), 422, "invalid");
    assert_true(reply_body_contains(&fixture->reply, "#/after"));
    assert_int_equal(probe_live(&fixture->probe), 0);
}

/* proves: too-large */
static void refuses_large_creates(void **state)
{
    struct api_fixture *fixture = *state;
    struct client *client = &fixture->client;
    char body[2049];

    memset(body, ' ', sizeof(body));
    memcpy(body, FIXTURE_TIMER, strlen(FIXTURE_TIMER));
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, (struct bytes){body, 2048}, 201, NULL);
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, (struct bytes){body, 2049}, 413,
                "too-large");
    /* Announced: told at once, and the body is not waited for. */
    client_printf(client, "POST /v1/timers HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                          "Content-Length: 1000000\r\n\r\n");
    assert_true(client_receive(client, "POST", &fixture->reply));
    fixture_check_problem(&fixture->reply, 413, "too-large");
    assert_true(client_is_at_end(client));
    client_close(client);
    client_open(client, api_port(fixture->api));
    /* Not announced: told as soon as it is over the limit and has ended. */
    client_printf(client, "POST /v1/timers HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                          "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 9; i++)
        client_printf(client, "100\r\n%.256s\r\n", body);
    client_printf(client, "0\r\n\r\n");
    assert_true(client_receive(client, "POST", &fixture->reply));
    fixture_check_problem(&fixture->reply, 413, "too-large");
    fixture_ask(fixture, "GET", "/healthz", "", NOTHING, 200, NULL); /* the connection lives on */
    assert_int_equal(probe_live(&fixture->probe), 1);
    assert_int_equal(metrics_get(fixture->probe.metrics, METRIC_REFUSED_TOO_LARGE), 3);
}

/* Sends the beginning of a body, and waits until all bodies take `bytes` of memory. */
static void send_part_of_body(struct api_fixture *fixture, struct client *client, int size,
                              size_t bytes)
{
    client_open(client, api_port(fixture->api));
    client_printf(client, "POST /v1/timers HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                          "Expect: 100-continue\r\nContent-Length: 30001\r\n\r\n");
    assert_true(client_receive(client, "POST", &fixture->reply));
    client_printf(client, "%*s", size, "");
    while (atomic_load(&fixture->api->bodies.held) < bytes)
        fixture_ask(fixture, "GET", "/healthz", "", NOTHING, 200, NULL);
}

/* Bodies that have begun take memory together. */
/* proves: overload, bodies_bytes_max */
static void shares_memory_for_bodies(void **state)
{
    static const char *const settings[] = {"body_bytes_max", "64K", NULL};
    struct api_fixture *fixture = fixture_start(settings);

    (void)state;
    fixture->api->bodies.max = 50000;
    struct client first, second;
    send_part_of_body(fixture, &first, 30000, 30000);
    /* There is room for 20,000 bytes, and not for one more. */
    for (int size = 20000; size <= 20001; size++) {
        client_printf(&fixture->client,
                      "POST /v1/timers HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                      "Content-Length: %d\r\n\r\n%*s",
                      size, size, "");
        assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
        fixture_check_problem(&fixture->reply, size == 20000 ? 400 : 503,
                              size == 20000 ? "not-json" : "overloaded");
    }
    /* Who wants little is served even when there is no room at all. */
    send_part_of_body(fixture, &second, 20000, 50000);
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES(FIXTURE_TIMER), 201, NULL);
    client_close(&first);
    client_close(&second);
    while (atomic_load(&fixture->api->bodies.held) > 0)
        fixture_ask(fixture, "GET", "/healthz", "", NOTHING, 200, NULL);
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES(FIXTURE_TIMER), 201, NULL);
    fixture_stop(fixture);
}

/* Whatever the node says, in its refusal or its answer, is passed on with its Retry-After. */
/* proves: too-many, internal, unavailable, io, no-brokers, pending_max (beyond) */
static void passes_on_what_the_node_says(void **state)
{
    static const struct {
        enum error_code error;
        int status;
        const char *slug, *retry_after;
    } cases[] = {
        {ERROR_OVERLOADED, 503, "overloaded", "1"}, {ERROR_STOPPING, 503, "stopping", "5"},
        {ERROR_DISK_FULL, 503, "disk-full", "30"},  {ERROR_TOO_MANY, 429, "too-many", "1"},
        {ERROR_NO_MEMORY, 503, "no-memory", "1"},   {ERROR_IO, 503, "io", "1"},
        {ERROR_CORRUPT, 500, "corrupt", NULL},      {ERROR_IN_DOUBT, 503, "in-doubt", "1"},
        {ERROR_NO_BROKERS, 503, "no-brokers", "1"},
    };
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE];

    fixture_create(fixture, FIXTURE_TIMER, path, NULL);
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const char *slug = cases[i / 2].slug, *after = cases[i / 2].retry_after;
        int status = cases[i / 2].status;

        (i % 2 ? probe_refuse : probe_fail)(&fixture->probe, cases[i / 2].error);
        fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES(FIXTURE_TIMER), status,
                    slug);
        fixture_ask(fixture, "GET", path, "", NOTHING, status, slug);
        fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("{\"after\":1}"), status, slug);
        fixture_ask(fixture, "DELETE", path, "", NOTHING, status, slug);
        fixture_ask(fixture, "GET", "/v1/timers", "", NOTHING, status, slug);
        if (after)
            assert_true(reply_has_header(&fixture->reply, "Retry-After", after));
        else
            assert_null(reply_header(&fixture->reply, "Retry-After").data);
        (i % 2 ? probe_refuse : probe_fail)(&fixture->probe, ERROR_NONE);
    }
    fixture_ask(fixture, "GET", path, "", NOTHING, 200, NULL);
    assert_true(metrics_get(fixture->probe.metrics, METRIC_REFUSED_DISK_FULL) == 10);
}

/* A node without room for another request: the refusal counts once. */
/* proves: overload */
static void counts_a_refusal_once(void **state)
{
    static const char *const settings[] = {"inflight_max", "1", NULL};
    struct api_fixture *fixture = fixture_start(settings);
    struct client other;

    (void)state;
    probe_hold(&fixture->probe);
    client_open(&other, api_port(fixture->api));
    client_printf(&other,
                  "POST /v1/timers HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                  "Content-Length: %zu\r\n\r\n%s",
                  strlen(FIXTURE_TIMER), FIXTURE_TIMER);
    probe_await_submitted(&fixture->probe, 1);
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES(FIXTURE_TIMER), 503,
                "overloaded");
    assert_int_equal(metrics_get(fixture->probe.metrics, METRIC_REFUSED_OVERLOADED), 1);
    client_close(&other);
    fixture_stop(fixture);
}

/* So do all other calls: those that ask for many things, and those of workers. */
/* proves: internal, unavailable */
static void each_call_passes_it_on(void **state)
{
    static const struct {
        const char *method, *path, *body;
        bool is_queue; /* its node only refuses */
    } calls[] = {
        {"PUT", "/v1/keys/k/timer", FIXTURE_TIMER, false},
        {"GET", "/v1/keys/k/timer", "", false},
        {"PATCH", "/v1/keys/k/timer", "{\"after\":1}", false},
        {"DELETE", "/v1/keys/k/timer", "", false},
        {"POST", "/v1/watch/a/complete", "", false},
        {"POST", "/v1/timers/cancel", "{\"watch\":\"a\"}", false},
        {"POST", "/v1/timers/cancel", "{\"labels\":{\"a\":\"b\"}}", false},
        {"POST", "/v1/timers/reschedule", "{\"watch\":\"a\",\"after\":1}", false},
        {"GET", "/v1/dead", "", false},
        {"GET", "/v1/dead/groups", "", false},
        {"POST", "/v1/dead/redrive", "{\"all\":true}", false},
        {"DELETE", "/v1/dead?all=true", "", false},
        {"POST", "/v1/queues/q/lease", "{}", true},
        {"POST", "/v1/queues/q/ack", "{\"receipts\":[\"a\"]}", true},
        {"POST", "/v1/queues/q/nack", "{\"receipts\":[\"a\"]}", true},
        {"POST", "/v1/queues/q/extend", "{\"receipts\":[\"a\"]}", true},
    };
    static const struct {
        enum error_code error;
        int status;
        const char *slug, *retry_after;
    } errors[] = {
        {ERROR_OVERLOADED, 503, "overloaded", "1"},
        {ERROR_STOPPING, 503, "stopping", "5"},
        {ERROR_DISK_FULL, 503, "disk-full", "30"},
        {ERROR_NO_MEMORY, 503, "no-memory", "1"},
        {ERROR_IO, 503, "io", "1"},
        {ERROR_UNREADABLE, 503, "unreadable", "30"},
        {ERROR_IN_DOUBT, 503, "in-doubt", "1"},
        {ERROR_CORRUPT, 500, "corrupt", NULL},
        {ERROR_INTERNAL, 500, "internal", NULL},
    };
    struct api_fixture *fixture = *state;

    for (size_t i = 0; i < 2 * sizeof(errors) / sizeof(errors[0]); i++) {
        const bool refuses = i % 2;

        (refuses ? probe_refuse : probe_fail)(&fixture->probe, errors[i / 2].error);
        for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++) {
            const char *after = errors[i / 2].retry_after;

            if (calls[j].is_queue && !refuses)
                continue;
            fixture_ask(fixture, calls[j].method, calls[j].path, FIXTURE_JSON,
                        bytes_of(calls[j].body), errors[i / 2].status, errors[i / 2].slug);
            assert_true(after ? reply_has_header(&fixture->reply, "Retry-After", after)
                              : !reply_header(&fixture->reply, "Retry-After").data);
        }
        (refuses ? probe_refuse : probe_fail)(&fixture->probe, ERROR_NONE);
    }
}

/* ---- one timer ---- */

/* proves: get, final-id */
static void shows(void **state)
{
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE];

    fixture_create(fixture, FIXTURE_TIMER, path, NULL);
    fixture_ask(fixture, "GET", path, "", NOTHING, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "ETag", "\"1\""));
    assert_true(reply_body_contains(&fixture->reply, "\"payload\":{\"n\":1}"));
    fixture_ask(fixture, "HEAD", path, "", NOTHING, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "ETag", "\"1\""));
    fixture_ask(fixture, "GET", path, "", BYTES("a body that nobody reads"), 200, NULL);
    char text[128];
    /* The same id with a letter escaped is the same resource. */
    snprintf(text, sizeof(text), "/v1/timers/%%%02x%s", path[11], path + 12);
    fixture_ask(fixture, "GET", text, "", NOTHING, 200, NULL);
    for (enum timer_state over = TIMER_FIRED; over <= TIMER_DEAD; over++) {
        fixture_create_ended(fixture, over, path);
        fixture_ask(fixture, "GET", path, "", NOTHING, 410, "gone");
        snprintf(text, sizeof(text), "\"state\":\"%s\"", timer_state_text(over));
        assert_true(reply_body_contains(&fixture->reply, "\"timer\":{"));
        assert_true(reply_body_contains(&fixture->reply, text));
    }
}

/* proves: unknown-id, not-found */
static void knows_no_other_ids(void **state)
{
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE];
    struct timer_id id;

    fixture_create(fixture, FIXTURE_TIMER, path, &id);
    char longer[FIXTURE_PATH_SIZE + 4];
    snprintf(longer, sizeof(longer), "%sa", path);
    fixture_ask(fixture, "GET", longer, "", NOTHING, 404, "not-found");
    fixture_ask(fixture, "PATCH", longer, FIXTURE_JSON, BYTES("{\"after\":1}"), 404, "not-found");
    fixture_ask(fixture, "DELETE", longer, "", NOTHING, 404, "not-found");
    snprintf(longer, sizeof(longer), "%.*s", (int)strlen(path) - 1, path);
    fixture_ask(fixture, "GET", longer, "", NOTHING, 404, "not-found");
    id.serial++;
    memcpy(longer, "/v1/timers/", 11);
    timer_id_format(&id, longer + 11);
    fixture_ask(fixture, "GET", longer, "", NOTHING, 404, "not-found");
    id.partition = PROBE_PARTITIONS; /* there is no such partition to be asked */
    timer_id_format(&id, longer + 11);
    fixture_ask(fixture, "GET", longer, "", NOTHING, 404, "not-found");
    fixture_ask(fixture, "DELETE", longer, "", NOTHING, 404, "not-found");
}

/* proves: patch */
static void patches(void **state)
{
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE], receipt[FIXTURE_RECEIPT_SIZE];

    fixture_create(fixture, FIXTURE_TIMER, path, NULL);
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("{\"payload\":[2]}"), 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "ETag", "\"2\""));
    assert_true(reply_body_contains(&fixture->reply, "\"payload\":[2]"));
    assert_null(reply_header(&fixture->reply, "Location").data);
    fixture_ask(fixture, "PATCH", path, "Content-Type: application/merge-patch+json\r\n",
                BYTES("{\"labels\":{\"a\":\"b\"}}"), 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "\"labels\":{\"a\":\"b\"}"));
    fixture_ask(fixture, "PATCH", path, "Content-Type: text/json\r\n", BYTES("{\"after\":1}"), 415,
                "media-type");
    assert_true(
        reply_body_contains(&fixture->reply, "application/json or application/merge-patch+json"));
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("{}"), 422, "invalid");
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("{\"id\":\"x\"}"), 422, "invalid");
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("nope"), 400, "not-json");
    fixture_create(fixture, QUEUED, path, NULL);
    fixture_lease(fixture, "q", receipt);
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("{\"after\":1}"), 409,
                "already-firing");
    fixture_ask(fixture, "DELETE", path, "", NOTHING, 409, "already-firing");
    fixture_report(fixture, "q", "ack", receipt, "");
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("{\"after\":1}"), 410, "gone");
    assert_true(reply_body_contains(&fixture->reply, "\"state\":\"fired\""));
}

/* Goal: a patch that depends on its timer is merged again when another request changed the timer
 * meanwhile, 64 times at most; with If-Match it is refused at once. */
/* proves: patch-merge, patch-merges */
static void merges(void **state)
{
    const struct bytes patch = BYTES("{\"labels\":{\"a\":\"b\"},\"headers\":{\"X-A\":null}}");
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE], receipt[FIXTURE_RECEIPT_SIZE];

    fixture_create(fixture, FIXTURE_TIMER, path, NULL);
    probe_outpace(&fixture->probe, 1);
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON "If-Match: \"1\"\r\n", patch, 412,
                "version-mismatch");
    probe_outpace(&fixture->probe, PATCH_TRIES_MAX - 1);
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, patch, 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "\"labels\":{\"a\":\"b\"}"));
    assert_true(reply_has_header(&fixture->reply, "ETag", "\"2\""));
    probe_outpace(&fixture->probe, PATCH_TRIES_MAX);
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, patch, 503, "overloaded");
    probe_outpace(&fixture->probe, 0);
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("{\"labels\":{\"a\":1}}"), 422,
                "invalid");
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, BYTES("{\"key\":\"k\"}"), 422, "invalid");
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON "If-Match: \"5\"\r\n", patch, 412,
                "version-mismatch");
    fixture_create(fixture, QUEUED, path, NULL);
    fixture_lease(fixture, "q", receipt);
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, patch, 409, "already-firing");
    fixture_report(fixture, "q", "ack", receipt, "");
    fixture_ask(fixture, "PATCH", path, FIXTURE_JSON, patch, 410, "gone");
    assert_true(reply_body_contains(&fixture->reply, "\"state\":\"fired\""));
}

/* proves: touch, touch-refused, bulk-touch */
static void touches(void **state)
{
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE], receipt[FIXTURE_RECEIPT_SIZE];

    fixture_create(fixture, FIXTURE_TIMER, path, NULL);
    char touch[FIXTURE_PATH_SIZE + 8];
    snprintf(touch, sizeof(touch), "%s/touch", path);
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON, BYTES("{\"after\":\"2h\"}"), 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "ETag", "\"2\""));
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON "If-Match: \"1\"\r\n",
                BYTES("{\"at\":\"2999-01-01T00:00:00Z\"}"), 412, "version-mismatch");
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON "If-Match: 1\r\n", BYTES("{\"after\":1}"), 400,
                "bad-request");
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON, BYTES("{}"), 422, "invalid");
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON, BYTES("{\"after\":1,\"payload\":1}"), 422,
                "invalid");
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON, BYTES("{\"payload\":1}"), 422, "invalid");
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON, BYTES("{\"after\":1,\"at\":1}"), 422,
                "invalid");
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON, BYTES("{"), 400, "not-json");
    fixture_ask(fixture, "POST", touch, "", BYTES("{\"after\":1}"), 415, "media-type");
    fixture_ask(fixture, "GET", touch, "", NOTHING, 405, "method-not-allowed");
    fixture_ask(fixture, "POST", "/v1/timers/nonsense/touch", FIXTURE_JSON, BYTES("{\"after\":1}"),
                404, "not-found");
    fixture_ask(fixture, "POST", "/v1/keys/%00/touch", FIXTURE_JSON, BYTES("{\"after\":1}"), 404,
                "not-found");
    char body[128];
    snprintf(body, sizeof(body), "{\"ids\":[\"%s\",\"nonsense\"],\"after\":\"3h\"}", path + 11);
    fixture_ask(fixture, "POST", "/v1/timers/touch", FIXTURE_JSON, bytes_of(body), 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "\"touched\":1,\"already_firing\":0,"
                                                     "\"failures\":[{\"id\":\"nonsense\""));
    fixture_ask(fixture, "POST", "/v1/timers/touch", FIXTURE_JSON,
                BYTES("{\"watch\":\"a\",\"after\":1}"), 422, "invalid");
    fixture_ask(fixture, "POST", "/v1/timers/touch", FIXTURE_JSON,
                BYTES("{\"labels\":{\"a\":\"b\"},\"after\":1}"), 422, "invalid");
    fixture_ask(fixture, "POST", "/v1/timers/touch", FIXTURE_JSON, BYTES("{\"ids\":[\"a\"]}"), 422,
                "invalid");
    fixture_create(fixture, QUEUED, path, NULL);
    snprintf(touch, sizeof(touch), "%s/touch", path);
    fixture_lease(fixture, "q", receipt);
    fixture_ask(fixture, "POST", touch, FIXTURE_JSON, BYTES("{\"after\":1}"), 409,
                "already-firing");
}

/* proves: if-match, cancel */
static void deletes(void **state)
{
    struct api_fixture *fixture = *state;
    char path[FIXTURE_PATH_SIZE];

    fixture_create(fixture, FIXTURE_TIMER, path, NULL);
    fixture_ask(fixture, "DELETE", path, "If-Match: \"9\"\r\n", NOTHING, 412, "version-mismatch");
    fixture_ask(fixture, "DELETE", path, "If-Match: \"1\"\r\n", NOTHING, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "ETag", "\"2\""));
    assert_true(reply_body_contains(&fixture->reply, "\"state\":\"cancelled\""));
    fixture_ask(fixture, "DELETE", path, "", NOTHING, 410, "gone");
}

/* Every form of If-Match, against a timer of version 1. */
/* proves: if-match, bad-request, state-conflict */
static void honours_if_match(void **state)
{
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {"If-Match: \"1\"\r\n", 200},
        {"If-Match:\"1\"\r\n", 200},
        {"If-Match: *\r\n", 200},
        {"", 200},
        {"If-Match: \"2\"\r\n", 412},
        {"If-Match: \"0\"\r\n", 412},
        {"If-Match: \"01\"\r\n", 412},
        {"If-Match: \"\"\r\n", 412},
        {"If-Match: \"x\"\r\n", 412},
        {"If-Match: \"1x\"\r\n", 412},
        {"If-Match: \"4294967295\"\r\n", 412},
        {"If-Match: \"4294967296\"\r\n", 412},
        {"If-Match: \"4294967297\"\r\n", 412},
        {"If-Match: \"18446744073709551617\"\r\n", 412},
        {"If-Match: W/\"1\"\r\n", 412},
        {"If-Match: 1\r\n", 400},
        {"If-Match: \r\n", 400},
        {"If-Match: \"1\r\n", 400},
        {"If-Match: \"1\", \"2\"\r\n", 400},
        {"If-Match: \"1\"\r\nIf-Match: \"2\"\r\n", 400},
    };
    struct api_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[FIXTURE_PATH_SIZE];

        fixture_create(fixture, FIXTURE_TIMER, path, NULL);
        char headers[200];
        snprintf(headers, sizeof(headers), FIXTURE_JSON "%s", cases[i].header);
        fixture_ask(fixture, "PATCH", path, headers, BYTES("{\"payload\":2}"), cases[i].status,
                    NULL);
        fixture_ask(fixture, "GET", path, "", NOTHING, 200, NULL);
        assert_true(
            reply_has_header(&fixture->reply, "ETag", cases[i].status == 200 ? "\"2\"" : "\"1\""));
    }
}

/* ---- under way ---- */

static void api_test_outlives_clients_that_leave(void **state)
{
    struct api_fixture *fixture = *state;

    probe_hold(&fixture->probe);
    for (int i = 0; i < 20; i++) {
        struct client client;
        client_open(&client, api_port(fixture->api));
        client_printf(&client,
                      "POST /v1/timers HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                      "Content-Length: %zu\r\n\r\n%s",
                      strlen(FIXTURE_TIMER), FIXTURE_TIMER);
        client_printf(&client, "GET /v1/timers HTTP/1.1\r\nHost: t\r\n\r\n");
        probe_await_submitted(&fixture->probe, (size_t)i + 1);
        if (i % 2)
            client_close(&client);
        else
            client_reset(&client);
    }
    probe_release(&fixture->probe);
    fixture_ask(fixture, "GET", "/healthz", "", NOTHING, 200, NULL);
}

static void *api_test_stop(void *argument)
{
    fixture_stop_api(argument);
    return NULL;
}

/* proves: stop */
static void api_test_answers_before_it_stops(void **state)
{
    struct api_fixture *fixture = *state;

    probe_hold(&fixture->probe);
    client_printf(&fixture->client,
                  "POST /v1/timers HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                  "Content-Length: %zu\r\n\r\n%s",
                  strlen(FIXTURE_TIMER), FIXTURE_TIMER);
    probe_await_submitted(&fixture->probe, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, api_test_stop, fixture), 0);
    assert_false(client_has_news(&fixture->client, 20));
    probe_release(&fixture->probe);
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    assert_int_equal(fixture->reply.status, 201);
    assert_true(client_is_at_end(&fixture->client));
    pthread_join(thread, NULL);
}

/* Whatever is asked for on a connection that is open already, while one request is still owed its
 * answer. */
/* proves: stop, unavailable */
static void refuses_every_call_while_it_stops(void **state)
{
    struct api_fixture *fixture = *state;
    struct client *clients = calloc(routes_count, sizeof(*clients));

    assert_non_null(clients);
    for (size_t i = 0; i < routes_count; i++) {
        client_open(&clients[i], api_port(fixture->api));
        client_ask(&clients[i], "GET", "/healthz", "", NOTHING, &fixture->reply);
        assert_int_equal(fixture->reply.status, 200);
    }
    probe_hold(&fixture->probe);
    client_printf(&fixture->client, "GET /v1/timers HTTP/1.1\r\nHost: t\r\n\r\n");
    probe_await_submitted(&fixture->probe, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, api_test_stop, fixture), 0);
    while (client_can_connect(api_port(fixture->api)))
        ;
    size_t refused = 0;
    for (size_t i = 0; i < routes_count; i++) {
        client_ask(&clients[i], routes[i].method, routes[i].path, FIXTURE_JSON, NOTHING,
                   &fixture->reply);
        refused += fixture->reply.status == 503 &&
                   reply_has_header(&fixture->reply, "Retry-After", "5") &&
                   reply_has_header(&fixture->reply, "Content-Type", "application/problem+json") &&
                   reply_body_contains(&fixture->reply, "/problems/stopping");
        client_close(&clients[i]);
    }
    probe_release(&fixture->probe);
    pthread_join(thread, NULL);
    assert_int_equal(refused, routes_count);
    free(clients);
}

/* proves: http-excess, headers-too-large */
static void refuses_what_is_beyond_its_limits(void **state)
{
    static const char *const settings[] = {
        "connections_max", "1", "header_bytes_max", "4096", "http_idle", "1s", NULL};
    struct api_fixture *fixture = fixture_start(settings);
    char headers[6000] = "X: ";

    (void)state;
    fixture_ask(fixture, "GET", "/healthz", "", NOTHING, 200, NULL);
    struct client second;
    client_open(&second, api_port(fixture->api));
    struct reply reply;
    client_ask(&second, "GET", "/healthz", "", NOTHING, &reply);
    fixture_check_problem(&reply, 503, "overloaded");
    assert_true(reply_has_header(&reply, "Retry-After", "1"));
    assert_int_equal(metrics_get(fixture->probe.metrics, METRIC_REFUSED_CONNECTIONS), 1);
    client_close(&second);
    memset(headers + 3, 'x', 5000);
    memcpy(headers + 5003, "\r\n", 3);
    fixture_ask(fixture, "GET", "/healthz", headers, NOTHING, 431, "headers-too-large");
    client_close(&fixture->client);
    client_open(&fixture->client, api_port(fixture->api));
    client_printf(&fixture->client, "POST /v1/timers HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                                    "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    if (fixture->reply.status == 400) /* 503 while the system still counts the one before */
        fixture_check_problem(&fixture->reply, 400, "bad-request");
    fixture_stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unknown_paths_and_methods, api_test_setup,
                                        api_test_teardown),
        cmocka_unit_test_setup_teardown(service_routes, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(shows_each_problem, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(counts_requests, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(creates, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_creates, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(refuses_large_creates, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(shares_memory_for_bodies, api_test_setup,
                                        api_test_teardown),
        cmocka_unit_test_setup_teardown(passes_on_what_the_node_says, api_test_setup,
                                        api_test_teardown),
        cmocka_unit_test(counts_a_refusal_once),
        cmocka_unit_test_setup_teardown(each_call_passes_it_on, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(shows, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(knows_no_other_ids, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(patches, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(merges, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(touches, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(deletes, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(honours_if_match, api_test_setup, api_test_teardown),
        cmocka_unit_test_setup_teardown(api_test_outlives_clients_that_leave, api_test_setup,
                                        api_test_teardown),
        cmocka_unit_test_setup_teardown(api_test_answers_before_it_stops, api_test_setup,
                                        api_test_teardown),
        cmocka_unit_test_setup_teardown(refuses_every_call_while_it_stops, api_test_setup,
                                        api_test_teardown),
        cmocka_unit_test(refuses_what_is_beyond_its_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
