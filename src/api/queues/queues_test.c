/*
 * Goal: the calls of workers answer as docs/queues.md says, in every status they have. Method: real
 * requests over sockets to the API on a real node.
 */
#include "api/api.h"

#include "api/testing/fixture.h"

#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOTHING BYTES("")
#define LEASE   "/v1/queues/mail/lease"
#define ACK     "/v1/queues/mail/ack"
#define NACK    "/v1/queues/mail/nack"
#define EXTEND  "/v1/queues/mail/extend"

static int queues_test_setup(void **state)
{
    static const char *const settings[] = {"body_bytes_max", "65536", "queue_wait_max", "20s",
                                           NULL};

    *state = fixture_start(settings);
    return 0;
}

static int queues_test_teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

static void queues_test_create(struct api_fixture *fixture, const char *json)
{
    char path[FIXTURE_PATH_SIZE];

    fixture_create(fixture, json, path, NULL);
}

/* The answer's JSON; to be given back. */
static json_t *post(struct api_fixture *fixture, const char *path, const char *body)
{
    fixture_ask(fixture, "POST", path, FIXTURE_JSON, bytes_of(body), 200, NULL);
    json_t *json = json_loadb(fixture->reply.body.data, fixture->reply.body.size,
                              JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    return json;
}

static size_t item_count(const json_t *answer)
{
    return json_array_size(json_object_get(answer, "items"));
}

static const char *item_text(const json_t *answer, size_t index, const char *name)
{
    return json_string_value(
        json_object_get(json_array_get(json_object_get(answer, "items"), index), name));
}

/* Speaks about one receipt; the word of the answer is checked. */
static void queues_test_report(struct api_fixture *fixture, const char *path, const char *receipt,
                               const char *more, const char *word)
{
    char body[512];

    snprintf(body, sizeof(body), "{\"receipts\":[\"%s\"]%s}", receipt, more);
    json_t *answer = post(fixture, path, body);
    assert_int_equal(json_integer_value(json_object_get(answer, word)), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(answer, "results"), 0)),
                        word);
    json_decref(answer);
}

/* proves: lease, item-content, nack-dead */
static void one_life(void **state)
{
    struct api_fixture *fixture = *state;

    queues_test_create(fixture, "{\"after\":0,\"target\":\"queue:mail\",\"payload\":{\"order\":42},"
                                "\"labels\":{\"team\":\"a\"},\"headers\":{\"x-a\":\"b\"}}");
    queues_test_create(fixture,
                       "{\"after\":0,\"target\":\"queue:mail?priority=9\",\"body_base64\":\"AAE=\","
                       "\"content_type\":\"x/y\"}");
    queues_test_create(fixture, "{\"after\":0,\"target\":\"queue:other\"}");
    json_t *answer = post(fixture, LEASE, "{\"max\":10,\"lease\":\"30s\"}");
    assert_int_equal(item_count(answer), 2);
    assert_non_null(json_object_get(answer, "leased_until"));
    assert_true(reply_body_contains(&fixture->reply, "\"payload\":{\"order\":42}"));
    assert_true(reply_body_contains(&fixture->reply, "\"labels\":{\"team\":\"a\"}"));
    assert_true(reply_body_contains(&fixture->reply, "\"headers\":{\"x-a\":\"b\"}"));
    assert_true(reply_body_contains(&fixture->reply, "\"body_base64\":\"AAE=\""));
    assert_true(reply_body_contains(&fixture->reply, "\"attempt\":1"));
    char receipt[64];
    snprintf(receipt, sizeof(receipt), "%s", item_text(answer, 0, "receipt"));
    queues_test_report(fixture, EXTEND, receipt, ",\"lease\":\"1m\"", "ok");
    queues_test_report(fixture, ACK, receipt, "", "ok");
    queues_test_report(fixture, ACK, receipt, "", "stale");
    queues_test_report(fixture, NACK, item_text(answer, 1, "receipt"),
                       ",\"delay\":0,\"error\":\"no \\\"luck\\\"\"", "ok");
    json_decref(answer);
    answer = post(fixture, LEASE, "{}");
    assert_int_equal(item_count(answer), 1);
    assert_true(reply_body_contains(&fixture->reply, "\"attempt\":2"));
    queues_test_report(fixture, NACK, item_text(answer, 0, "receipt"), ",\"dead\":true", "ok");
    json_decref(answer);
    answer = post(fixture, LEASE, "{\"max\":10}");
    assert_int_equal(item_count(answer), 0);
    json_decref(answer);
}

/* proves: receipt, queue-results */
static void stale_and_unknown(void **state)
{
    struct api_fixture *fixture = *state;

    queues_test_report(fixture, ACK, "", "", "stale");
    queues_test_report(fixture, NACK, "00000000000000010000000000000001", "", "stale");
    queues_test_report(fixture, EXTEND, "what is this?", "", "stale");
    queues_test_create(fixture, "{\"after\":0,\"target\":\"queue:mail\"}");
    json_t *answer = post(fixture, LEASE, "{}");
    queues_test_report(fixture, "/v1/queues/other/ack", item_text(answer, 0, "receipt"), "",
                       "stale");
    probe_fail_commit(&fixture->probe, ERROR_IO);
    queues_test_report(fixture, ACK, item_text(answer, 0, "receipt"), "", "unknown");
    json_decref(answer);
}

/* proves: queue-name, lease-max, lease-wait, lease-time, nack-delay, nack-error, nack-dead */
/* proves: invalid, queue_wait_max (beyond) */
static void queues_test_refuses(void **state)
{
    static const struct {
        const char *path, *body, *pointer;
        int status;
    } wrong[] = {
        {LEASE, "", NULL, 400},
        {LEASE, "{", NULL, 400},
        {LEASE, "{\"max\":0,}", NULL, 400},
        {LEASE, "[]", "\"#\"", 422},
        {LEASE, "{\"max\":0}", "#/max", 422},
        {LEASE, "{\"max\":1001}", "#/max", 422},
        {LEASE, "{\"max\":1.5}", "#/max", 422},
        {LEASE, "{\"max\":-1}", "#/max", 422},
        {LEASE, "{\"max\":18446744073709551617}", "#/max", 422},
        {LEASE, "{\"max\":\"1\"}", "#/max", 422},
        {LEASE, "{\"max\":1,\"max\":1}", "#/max", 422},
        {LEASE, "{\"wait\":\"21s\"}", "#/wait", 422},
        {LEASE, "{\"wait\":\"-1s\"}", "#/wait", 422},
        {LEASE, "{\"wait\":true}", "#/wait", 422},
        {LEASE, "{\"lease\":99}", "#/lease", 422},
        {LEASE, "{\"lease\":\"13h\"}", "#/lease", 422},
        {LEASE, "{\"lease\":[]}", "#/lease", 422},
        {LEASE, "{\"receipts\":[\"a\"]}", "#/receipts", 422},
        {LEASE, "{\"delay\":1}", "#/delay", 422},
        {ACK, "{}", "\"#\"", 422},
        {ACK, "{\"receipts\":[]}", "#/receipts", 422},
        {ACK, "{\"receipts\":\"a\"}", "#/receipts", 422},
        {ACK, "{\"receipts\":[1]}", "#/receipts", 422},
        {ACK, "{\"receipts\":[\"a\"],\"delay\":1}", "#/delay", 422},
        {ACK, "{\"receipts\":[\"a\"],\"lease\":\"1s\"}", "#/lease", 422},
        {ACK, "{\"receipts\":[\"a\"", NULL, 400},
        {NACK, "{\"receipts\":[\"a\"],\"delay\":\"31d\"}", "#/delay", 422},
        {NACK, "{\"receipts\":[\"a\"],\"error\":1}", "#/error", 422},
        {NACK, "{\"receipts\":[\"a\"],\"error\":\"\\u0000\"}", "#/error", 422},
        {NACK, "{\"receipts\":[\"a\"],\"dead\":1}", "#/dead", 422},
        {NACK, "{\"receipts\":[\"a\"],\"dead\":true,\"delay\":\"1s\"}", "#/delay", 422},
        {EXTEND, "{\"receipts\":[\"a\"],\"wait\":1}", "#/wait", 422},
    };
    struct api_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fixture_ask(fixture, "POST", wrong[i].path, FIXTURE_JSON, bytes_of(wrong[i].body),
                    wrong[i].status, wrong[i].status == 400 ? "not-json" : "invalid");
        if (wrong[i].pointer && !reply_body_contains(&fixture->reply, wrong[i].pointer))
            fail_msg("%s does not point to %s", wrong[i].body, wrong[i].pointer);
    }
    fixture_ask(fixture, "POST", LEASE, "Content-Type: text/plain\r\n", BYTES("{}"), 415,
                "media-type");
    fixture_ask(fixture, "GET", LEASE, "", NOTHING, 405, "method-not-allowed");
    fixture_ask(fixture, "POST", "/v1/queues/a%20b/lease", FIXTURE_JSON, BYTES("{}"), 404,
                "not-found");
    fixture_ask(fixture, "POST", "/v1/queues//lease", FIXTURE_JSON, BYTES("{}"), 404, "not-found");
    fixture_ask(fixture, "POST", "/v1/queues/mail", FIXTURE_JSON, BYTES("{}"), 405,
                "method-not-allowed");
    probe_refuse(&fixture->probe, ERROR_OVERLOADED);
    fixture_ask(fixture, "POST", LEASE, FIXTURE_JSON, BYTES("{}"), 503, "overloaded");
    fixture_ask(fixture, "POST", ACK, FIXTURE_JSON, BYTES("{\"receipts\":[\"a\"]}"), 503,
                "overloaded");
}

/* proves: ack, queue-results */
static void many_receipts(void **state)
{
    struct api_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    for (int count = 1000; count <= 1001; count++) {
        buffer_clear(&body);
        buffer_append_text(&body, "{\"receipts\":[\"a\"");
        for (int i = 1; i < count; i++)
            buffer_append_text(&body, ",\"a\"");
        buffer_append(&body, "]}", 3);
        if (count == 1000) {
            json_t *answer = post(fixture, ACK, body.data);
            assert_int_equal(json_integer_value(json_object_get(answer, "stale")), 1000);
            assert_int_equal(json_array_size(json_object_get(answer, "results")), 1000);
            json_decref(answer);
        } else {
            fixture_ask(fixture, "POST", ACK, FIXTURE_JSON, bytes_of(body.data), 422, "invalid");
        }
    }
    buffer_deinit(&body);
}

/* A worker that waits is answered when there is work, from the node's thread; and at a stop. */
/* proves: lease-wait */
static void long_poll(void **state)
{
    struct api_fixture *fixture = *state;
    struct client other;

    client_open(&other, api_port(fixture->api));
    client_printf(&other, "POST " LEASE " HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                          "Content-Length: 14\r\n\r\n{\"wait\":\"20s\"}");
    queues_test_create(fixture, "{\"after\":0,\"target\":\"queue:mail\"}");
    /* Either order of the two requests is fine: both end with the item at the worker. */
    struct reply reply;
    assert_true(client_receive(&other, "POST", &reply));
    assert_true(reply_body_contains(&reply, "\"receipt\""));
    client_printf(&other, "POST " LEASE " HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                          "Content-Length: 14\r\n\r\n{\"wait\":\"20s\"}");
    fixture_ask(fixture, "GET", "/healthz", "", NOTHING, 200, NULL);
    fixture_stop_api(fixture); /* within the 20 s, or the test is not over in time */
    client_close(&other);
}

/* The node is told that a worker left which waits, and of no other. */
static void worker_that_leaves(void **state)
{
    struct api_fixture *fixture = *state;
    struct client other;

    queues_test_create(fixture, "{\"after\":0,\"target\":\"queue:mail\"}");
    fixture_ask(fixture, "POST", LEASE, FIXTURE_JSON, BYTES("{\"wait\":\"20s\"}"), 200, NULL);
    client_open(&other, api_port(fixture->api));
    client_printf(&other, "POST " LEASE " HTTP/1.1\r\nHost: t\r\n" FIXTURE_JSON
                          "Content-Length: 14\r\n\r\n{\"wait\":\"20s\"}");
    assert_int_equal(probe_given_up(&fixture->probe), 0);
    client_close(&other);
    while (probe_given_up(&fixture->probe) == 0)
        fixture_ask(fixture, "GET", "/healthz", "", NOTHING, 200, NULL);
    assert_int_equal(probe_given_up(&fixture->probe), 1);
    fixture_stop_api(fixture);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, queues_test_setup, queues_test_teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_life),      TEST(stale_and_unknown), TEST(queues_test_refuses),
        TEST(many_receipts), TEST(long_poll),         TEST(worker_that_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
