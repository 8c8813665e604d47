/*
 * Goal: the calls about events answer as docs/api.md says, and ask every partition. Method: real
 * requests over sockets to the API on a real node, with timers that watch events: eight, and others
 * that a worker has leased.
 */
#include "api/timers/timers.h"

#include "api/testing/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY "/v1/watch/complete"
#define ONE  "/v1/watch/a/complete"

static int watch_test_setup(void **state)
{
    static const char *const settings[] = {"body_bytes_max", "65536", NULL};

    *state = fixture_start(settings);
    return 0;
}

static int watch_test_teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

static void watch_test_check(struct api_fixture *fixture, const char *body, const char *answer)
{
    fixture_ask(fixture, "POST", MANY, FIXTURE_JSON, bytes_of(body), 200, NULL);
    assert_true(fixture->reply.body.size == strlen(answer) + 1 &&
                memcmp(fixture->reply.body.data, answer, strlen(answer)) == 0);
}

/* Timers that watch `event`: eight that are due in an hour, so that partitions have different
 * counts, and `firing` that are being delivered. */
static void watch_test_create(struct api_fixture *fixture, const char *event, int firing)
{
    char json[128], path[FIXTURE_PATH_SIZE], receipt[FIXTURE_RECEIPT_SIZE];

    for (int i = 0; i < 8 + firing; i++) {
        snprintf(json, sizeof(json), "{\"after\":\"%s\",\"target\":\"queue:q\",\"watch\":[\"%s\"]}",
                 i < 8 ? "1h" : "0s", event);
        fixture_create(fixture, json, path, NULL);
        if (i >= 8)
            fixture_lease(fixture, "q", receipt);
    }
}

/* proves: complete-many */
static void each_event_is_answered(void **state)
{
    struct api_fixture *fixture = *state;

    watch_test_create(fixture, "a", 6);
    watch_test_create(fixture, "b", 1);
    const size_t before = probe_submitted(&fixture->probe);
    watch_test_check(
        fixture, "{\"watch\":[\"a\",\"\\u0062\"]}",
        "{\"cancelled\":16,\"already_firing\":7,\"failed\":0,\"results\":["
        "{\"cancelled\":8,\"already_firing\":6},{\"cancelled\":8,\"already_firing\":1}]}");
    watch_test_check(fixture, " { \"fire\" : true , \"watch\" : [ \"a\" ] } ",
                     "{\"fired\":0,\"already_firing\":6,\"failed\":0,\"results\":["
                     "{\"fired\":0,\"already_firing\":6}]}");
    assert_int_equal(probe_submitted(&fixture->probe) - before, 2 * PROBE_PARTITIONS);
}

/* `count` events of one character each. */
static struct bytes many_events(char *room, size_t count)
{
    struct bytes text = {room, 0};

    memcpy(room, "{\"watch\":[", 10);
    text.size = 10;
    for (size_t i = 0; i < count; i++, text.size += 4)
        memcpy(room + text.size, i ? ",\"e\"" : " \"e\"", 4);
    memcpy(room + text.size, "]}", 2);
    text.size += 2;
    return text;
}

/* proves: complete-many, event-count */
static void as_many_as_may_be(void **state)
{
    static char room[WATCH_EVENTS_MAX * 4 + 64];

    fixture_ask(*state, "POST", MANY, FIXTURE_JSON, many_events(room, WATCH_EVENTS_MAX), 200, NULL);
    fixture_ask(*state, "POST", MANY, FIXTURE_JSON, many_events(room, WATCH_EVENTS_MAX + 1), 422,
                "invalid");
}

/* proves: complete-many */
static void what_is_wrong_is_refused(void **state)
{
    static const char *const bodies[] = {
        "[]",
        "{}",
        "{\"watch\":[]}",
        "{\"watch\":\"a\"}",
        "{\"watch\":[1]}",
        "{\"watch\":[\"\"]}",
        "{\"watch\":[\"a\",\"\\n\"]}",
        "{\"watch\":[\"a\"],\"watch\":[\"a\"]}",
        "{\"watch\":[\"a\"],\"fire\":1}",
        "{\"watch\":[\"a\"],\"other\":1}",
    };
    struct api_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
        fixture_ask(fixture, "POST", MANY, FIXTURE_JSON, bytes_of(bodies[i]), 422, "invalid");
    fixture_ask(fixture, "POST", MANY, FIXTURE_JSON, BYTES("{\"watch\":[\"a\",\"\\t\"]}"), 422,
                "invalid");
    assert_true(reply_body_contains(&fixture->reply, "\"#/watch/1\""));
    fixture_ask(fixture, "POST", MANY, FIXTURE_JSON, BYTES("{\"watch\":"), 400, "not-json");
    fixture_ask(fixture, "POST", MANY, "Content-Type: text/plain\r\n", BYTES("{}"), 415,
                "media-type");
    fixture_ask(fixture, "POST", ONE, FIXTURE_JSON, BYTES("{\"watch\":[\"a\"]}"), 422, "invalid");
    fixture_ask(fixture, "GET", MANY, "", BYTES(""), 405, "method-not-allowed");
    assert_int_equal(probe_submitted(&fixture->probe), 0);
}

/* proves: complete-many */
static void a_busy_node_is_told_of(void **state)
{
    struct api_fixture *fixture = *state;

    probe_refuse(&fixture->probe, ERROR_OVERLOADED);
    fixture_ask(fixture, "POST", MANY, FIXTURE_JSON, BYTES("{\"watch\":[\"a\"]}"), 503,
                "overloaded");
    probe_refuse(&fixture->probe, ERROR_NONE);
    watch_test_create(fixture, "a", 1);
    probe_fail_commit(&fixture->probe, ERROR_IO);
    fixture_ask(fixture, "POST", MANY, FIXTURE_JSON, BYTES("{\"watch\":[\"a\"]}"), 200, NULL);
    assert_true(reply_body_contains(&fixture->reply,
                                    "\"already_firing\":1,\"failed\":1,\"results\":["
                                    "{\"type\":\"/problems/io\",\"status\":503}]}"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, watch_test_setup, watch_test_teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_event_is_answered),
        TEST(as_many_as_may_be),
        TEST(what_is_wrong_is_refused),
        TEST(a_busy_node_is_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
