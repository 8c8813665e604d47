/*
 * Goal: the calls about events answer as docs/api.md says, and ask every partition. Method: real
 * requests over sockets to the API on a node double, where partition P says of each event that it
 * changed one timer and that P were being delivered.
 */
#include "api/timers/timers.h"

#include "api/testing/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
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

/* proves: complete-many */
static void each_event_is_answered(void **state)
{
    watch_test_check(
        *state, "{\"watch\":[\"a\",\"\\u0061\"]}",
        "{\"cancelled\":8,\"already_firing\":12,\"failed\":0,\"results\":["
        "{\"cancelled\":4,\"already_firing\":6},{\"cancelled\":4,\"already_firing\":6}]}");
    watch_test_check(*state, " { \"fire\" : true , \"watch\" : [ \"a\" ] } ",
                     "{\"fired\":4,\"already_firing\":6,\"failed\":0,\"results\":["
                     "{\"fired\":4,\"already_firing\":6}]}");
    assert_int_equal(node_fake_submitted(((struct api_fixture *)*state)->node),
                     2 * FIXTURE_PARTITIONS);
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
    assert_int_equal(node_fake_submitted(fixture->node), 0);
}

/* proves: complete-many */
static void a_busy_node_is_told_of(void **state)
{
    struct api_fixture *fixture = *state;

    node_fake_refuse(fixture->node, ERROR_OVERLOADED);
    fixture_ask(fixture, "POST", MANY, FIXTURE_JSON, BYTES("{\"watch\":[\"a\"]}"), 503,
                "overloaded");
    node_fake_refuse(fixture->node, ERROR_NONE);
    node_fake_fail(fixture->node, ERROR_IO);
    watch_test_check(fixture, "{\"watch\":[\"a\"]}",
                     "{\"cancelled\":4,\"already_firing\":6,\"failed\":1,\"results\":["
                     "{\"type\":\"/problems/io\",\"status\":503}]}");
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
