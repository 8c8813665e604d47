/*
 * Goal: figures that nodes count are those of all nodes of a cluster: each node counts once, and
 * there is no answer without one of them. Method: the API on a node whose surveys the test answers:
 * for this node, as number 0, and for the nodes 2 to 4.
 */
#include "api/core/cursor.h"
#include "api/testing/fixture.h"
#include "delivery_log/delivery_query.h"
#include "ops/stats.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { OTHERS = 3 };

static int all_nodes_set_up(void **state)
{
    *state = fixture_start(NULL);
    return 0;
}

static int all_nodes_tear_down(void **state)
{
    fixture_stop(*state);
    return 0;
}

/* Answers for a node that cannot be reached. */
static enum error_code lose_node(struct survey *survey)
{
    return survey->node == 3 ? ERROR_OVERLOADED : ERROR_NONE;
}

static void expect_answer(struct api_fixture *fixture, const char *path, const char *expected)
{
    fixture_ask(fixture, "GET", path, "", BYTES(""), 200, NULL);
    const struct bytes body = lines_at(fixture->reply.body, 0);
    if (!bytes_equal(body, bytes_of(expected)))
        fail_msg("%.*s", (int)body.size, body.data);
}

/* ---- workers of queues ---- */

/* Node N has N workers for "mail", and this one 1; node 3 has others, too. */
static enum error_code tell_workers(struct survey *survey)
{
    assert(survey->kind == SURVEY_WORKERS);
    survey_add(survey, BYTES("mail"))->ready = survey->node ? survey->node : 1;
    if (survey->node == 3 && !survey->queue.size)
        survey_add(survey, BYTES("post"))->ready = 7;
    return ERROR_NONE;
}

/* proves: queues-list */
static void test_workers_of_all_nodes(void **state)
{
#define QUEUE(name, workers)                                               \
    "{\"name\":\"" name "\",\"ready\":0,\"leased\":0,\"workers\":" workers \
    ",\"more_on_disk\":false}"
    struct api_fixture *fixture = *state;

    probe_set_others(&fixture->probe, 0, tell_workers);
    expect_answer(fixture, "/v1/queues", "{\"queues\":[" QUEUE("mail", "1") "],\"complete\":true}");
    probe_set_others(&fixture->probe, OTHERS, tell_workers);
    expect_answer(
        fixture, "/v1/queues",
        "{\"queues\":[" QUEUE("mail", "10") "," QUEUE("post", "7") "],\"complete\":true}");
    expect_answer(fixture, "/v1/queues/mail", QUEUE("mail", "10"));
    probe_set_others(&fixture->probe, OTHERS, lose_node);
    fixture_ask(fixture, "GET", "/v1/queues", "", BYTES(""), 503, "overloaded");
    fixture_ask(fixture, "GET", "/v1/queues/mail", "", BYTES(""), 503, "overloaded");
#undef QUEUE
}

/* ---- tenants ---- */

static void tell_ready(struct survey *survey, const char *tenant, uint64_t ready,
                       uint64_t oldest_ms)
{
    struct survey_row *row = survey_add(survey, bytes_of(tenant));

    row->ready = ready;
    row->oldest.ms = oldest_ms;
}

static void tell_refused(struct survey *survey, const char *tenant, uint64_t refused)
{
    struct survey_row *row = survey_add(survey, bytes_of(tenant));

    row->taken = refused;
    row->is_spilled = true;
}

static enum error_code tell_tenants(struct survey *survey)
{
    assert(survey->kind == SURVEY_TENANTS);
    tell_ready(survey, "someone", 100, 1); /* whom this node does not know */
    if (survey->node == 0)
        tell_ready(survey, "", 2, 1000000000000);
    if (survey->node == 2)
        tell_ready(survey, "", 1, 999999999000);
    if (survey->node == 3)
        tell_refused(survey, "", 4);
    if (survey->node == 0)
        tell_refused(survey, "", 3);
    return ERROR_NONE;
}

/* Node 2 tells of the tenant, and not of others. */
static enum error_code tell_some_tenants(struct survey *survey)
{
    survey->is_cut = survey->node == 2;
    return tell_tenants(survey);
}

/* The tenant may wait at node 3, too. */
static enum error_code tell_other_tenants(struct survey *survey)
{
    survey->is_cut = survey->node >= 2 && survey->node <= 3;
    return tell_tenants(survey);
}

/* proves: tenants-list */
static void test_tenants_of_all_nodes(void **state)
{
#define TENANTS(figures) \
    "{\"tenants\":[{\"name\":\"-\",\"pending\":0," figures ",\"limits\":{}}],\"next\":null}"
    struct api_fixture *fixture = *state;
    static const char *const all = TENANTS("\"ready\":3,\"oldest\":\"2001-09-09T01:46:39.000Z\","
                                           "\"rate_refused\":7");

    probe_set_others(&fixture->probe, 0, tell_tenants);
    expect_answer(fixture, "/v1/tenants",
                  TENANTS("\"ready\":2,\"oldest\":\"2001-09-09T01:46:40.000Z\","
                          "\"rate_refused\":3"));
    probe_set_others(&fixture->probe, OTHERS, tell_tenants);
    expect_answer(fixture, "/v1/tenants", all);
    probe_set_others(&fixture->probe, OTHERS, tell_some_tenants);
    expect_answer(fixture, "/v1/tenants", all);
    probe_set_others(&fixture->probe, OTHERS, tell_other_tenants);
    expect_answer(fixture, "/v1/tenants", TENANTS("\"rate_refused\":7"));
    probe_set_others(&fixture->probe, OTHERS, lose_node);
    fixture_ask(fixture, "GET", "/v1/tenants", "", BYTES(""), 503, "overloaded");
#undef TENANTS
}

/* ---- failures of targets ---- */

static void tell_failure(struct survey *survey, uint8_t state, uint32_t failures,
                         const char *origin, const char *path, const char *error)
{
    const struct survey_failure failure = {
        .state = state, .failures = failures, .wait_ms = 3600000};

    survey_add_failure(survey, &failure, bytes_of(origin), bytes_of(path), bytes_of(error));
}

/* Of two closed breakers, the one with more failures in a row is worse. An open one is worse than
 * any closed one. */
static enum error_code tell_failures(struct survey *survey)
{
    assert(survey->kind == SURVEY_FAILURES);
    switch (survey->node) {
    case 0:
        tell_failure(survey, BREAKER_CLOSED, 2, "https://b.example", "", "two");
        tell_failure(survey, BREAKER_CLOSED, 1, "https://c.example", "https://c.example/x", "one");
        break;
    case 2:
        tell_failure(survey, BREAKER_CLOSED, 9, "https://a.example", "", "nine");
        tell_failure(survey, BREAKER_CLOSED, 3, "https://c.example", "https://c.example/x",
                     "three");
        break;
    case 3:
        tell_failure(survey, BREAKER_OPEN, 5, "https://a.example", "", "refused");
        tell_failure(survey, BREAKER_CLOSED, 1, "https://c.example", "", "late");
        break;
    default:
        tell_failure(survey, BREAKER_CLOSED, 1, "https://b.example", "", "one");
        tell_failure(survey, BREAKER_CLOSED, 4, "https://c.example", "https://c.example/w", "four");
        break;
    }
    survey_sort_failures(survey);
    return ERROR_NONE;
}

/* Nodes 0 and 2 tell of 601 origins each, 1,001 in all. */
static enum error_code tell_many_failures(struct survey *survey)
{
    const unsigned first = survey->node ? 400 : 0;

    for (unsigned i = first; i <= first + 600 && survey->node <= 2; i++) {
        char origin[40];

        snprintf(origin, sizeof(origin), "https://%04u.example", i);
        tell_failure(survey, BREAKER_CLOSED, 1, origin, "", "");
    }
    return ERROR_NONE;
}

/* proves: targets-list, survey-rows */
static void test_failures_of_all_nodes(void **state)
{
#define IDLE(target) \
    "{\"target\":\"" target "\",\"waiting\":0,\"in_flight\":0,\"more_on_disk\":false,"
#define CLOSED(failures, error) \
    "\"breaker\":\"closed\",\"failures\":" failures ",\"last_error\":\"" error "\""
    struct api_fixture *fixture = *state;

    probe_set_others(&fixture->probe, 0, tell_failures);
    expect_answer(fixture, "/v1/targets",
                  "{\"targets\":[" IDLE("https://b.example")
                      CLOSED("2", "two") ",\"paths\":[]}," IDLE(
                          "https://c.example") "\"breaker\":\"closed\",\"failures\":0,\"paths\":["
                                               "{\"path\":\"https://c.example/x\"," CLOSED(
                                                   "1", "one") "}]}],"
                                                               "\"in_flight_max\":128,\"rate_max\":"
                                                               "0,\"complete\":true}");
    probe_set_others(&fixture->probe, OTHERS, tell_failures);
    fixture_ask(fixture, "GET", "/v1/targets", "", BYTES(""), 200, NULL);
    const struct reply *reply = &fixture->reply;
    assert_true(reply_body_contains(
        reply, "{\"targets\":[" IDLE(
                   "https://a.example") "\"breaker\":\"open\",\"failures\":5,\"tried_at\":\"20"));
    assert_true(reply_body_contains(
        reply,
        "Z\",\"last_error\":\"refused\",\"paths\":[]}," IDLE("https://b.example") CLOSED(
            "2", "two") ",\"paths\":[]}," IDLE("https://c.example")
            CLOSED("1", "late") ",\"paths\":[{\"path\":\"https://c.example/w\"," CLOSED(
                "4", "four") "},"
                             "{\"path\":\"https://c.example/x\"," CLOSED("3", "three") "}]}],"));
    probe_set_others(&fixture->probe, OTHERS, tell_many_failures);
    fixture_ask(fixture, "GET", "/v1/targets", "", BYTES(""), 200, NULL);
    assert_true(reply_body_contains(reply, "0000.example"));
    assert_true(reply_body_contains(reply, "0999.example"));
    assert_false(reply_body_contains(reply, "1000.example"));
    assert_true(reply_body_contains(reply, "\"complete\":false"));
    probe_set_others(&fixture->probe, OTHERS, lose_node);
    fixture_ask(fixture, "GET", "/v1/targets", "", BYTES(""), 503, "overloaded");
#undef IDLE
#undef CLOSED
}

/* ---- statistics ---- */

/* Node 4 is of a version that knows fewer figures. */
static enum error_code tell_stats(struct survey *survey)
{
    assert(survey->kind == SURVEY_STATS);
    survey->numbers = calloc(STATS_COUNT + 1, sizeof(*survey->numbers));
    survey->number_count = survey->node == 4 ? STATS_TIMERS_PENDING : STATS_COUNT + 1;
    survey->numbers[STATS_TIMERS_CREATED] = 1 + survey->node;
    survey->numbers[STATS_BREAKERS_OPEN] = 10;
    survey->numbers[STATS_COUNT] = 1000; /* a figure that is not known here */
    survey->numbers[STATS_STAGE_DELIVERY_LATENESS * METRICS_BUCKET_COUNT + 5 + survey->node] = 25;
    return ERROR_NONE;
}

/* proves: stats */
static void test_statistics_of_all_nodes(void **state)
{
    struct api_fixture *fixture = *state;
    const struct reply *reply = &fixture->reply;

    probe_set_others(&fixture->probe, 0, tell_stats);
    fixture_ask(fixture, "GET", "/v1/stats", "", BYTES(""), 200, NULL);
    assert_true(reply_body_contains(reply, "\"created\":1,\"fired\":0,"));
    assert_true(
        reply_body_contains(reply, "\"all\":{\"count\":25,\"p50\":0.001000,\"p99\":0.001000}}"));
    probe_set_others(&fixture->probe, OTHERS, tell_stats);
    fixture_ask(fixture, "GET", "/v1/stats", "", BYTES(""), 200, NULL);
    assert_true(reply_body_contains(reply, "\"created\":13,\"fired\":0,"));
    assert_true(reply_body_contains(reply, "\"breakers_open\":30,"));
    assert_true(reply_body_contains(reply, "\"schedule\":{\"count\":0,"));
    /* The second of four nodes has the half, the fourth the rest. */
    assert_true(
        reply_body_contains(reply, "\"all\":{\"count\":100,\"p50\":0.003000,\"p99\":0.007000}}"));
    probe_set_others(&fixture->probe, OTHERS, lose_node);
    fixture_ask(fixture, "GET", "/v1/stats", "", BYTES(""), 503, "overloaded");
}

/* ---- deliveries ---- */

enum { DELIVERIES = 60, DELIVERIES_SLOW = 3 };

/* Each node has a delivery at each stamp from 1 to DELIVERIES of which its number is no divisor, so
 * that stamps are shared. Node 3 searches few at a time. */
static enum error_code tell_deliveries(struct survey *survey)
{
    const uint64_t node = survey->node ? survey->node : 1;
    struct delivery_query query;
    uint64_t next = 0, looks = 0;

    assert(survey->kind == SURVEY_DELIVERIES && delivery_query_decode(survey->queue, &query));
    for (uint64_t stamp = DELIVERIES; stamp > 0 && !next; stamp--) {
        const struct delivery_entry entry = {
            .attempt = (uint32_t)node, .ended_us = stamp * 1000000, .outcome = RUN_DONE};
        const uint32_t links[DELIVERY_INDEXES] = {0};
        struct buffer encoded;

        if (stamp >= query.before || (node > 1 && stamp % node == 0))
            continue;
        buffer_init(&encoded);
        delivery_entry_encode(&entry, &encoded);
        delivery_entry_place(encoded.data, stamp, links);
        survey_append(survey, buffer_bytes(&encoded));
        buffer_deinit(&encoded);
        looks++;
        if (looks == query.limit || (node == 3 && looks == DELIVERIES_SLOW))
            next = stamp;
    }
    survey_append(survey, (struct bytes){0})->ready = next;
    return ERROR_NONE;
}

static enum error_code tell_deliveries_but_of_old_nodes(struct survey *survey)
{
    const bool is_old = survey->node && survey->node % 2 == 0;

    return is_old ? ERROR_BAD_REQUEST : tell_deliveries(survey);
}

/* Counts the deliveries of a page in `seen`, by stamp and node. Returns the cursor of the next page
 * in `ret_cursor`; empty if this is the last. */
static void take_deliveries(const struct reply *reply, unsigned seen[DELIVERIES + 1][5],
                            uint64_t *last, char ret_cursor[CURSOR_TEXT_SIZE])
{
    struct buffer text;

    buffer_init(&text);
    buffer_append(&text, reply->body.data, reply->body.size);
    buffer_append(&text, "", 1);
    const char *at = text.data;
    while ((at = strstr(at, "{\"id\":\""))) {
        const uint64_t stamp = strtoull(at + 7, NULL, 16);
        const char *attempt = strstr(at, "\"attempt\":");

        assert_true(stamp > 0 && stamp <= *last && attempt);
        seen[stamp][strtoul(attempt + 10, NULL, 10)]++;
        *last = stamp;
        at = attempt;
    }
    const char *next = strstr(text.data, "\"next\":\"");
    snprintf(ret_cursor, CURSOR_TEXT_SIZE, "%s", next ? next + 8 : "");
    buffer_deinit(&text);
}

/* proves: delivery-log */
static void test_deliveries_of_all_nodes(void **state)
{
    struct api_fixture *fixture = *state;

    probe_set_others(&fixture->probe, OTHERS, tell_deliveries);
    for (unsigned limit = 1; limit < 100; limit += 7) {
        unsigned seen[DELIVERIES + 1][5] = {{0}};
        uint64_t last = UINT64_MAX;
        char cursor[CURSOR_TEXT_SIZE] = "", path[100];

        do {
            snprintf(path, sizeof(path), "/v1/deliveries?limit=%u%s%s", limit,
                     *cursor ? "&cursor=" : "", cursor);
            fixture_ask(fixture, "GET", path, "", BYTES(""), 200, NULL);
            take_deliveries(&fixture->reply, seen, &last, cursor);
        } while (*cursor);
        for (unsigned stamp = 1; stamp <= DELIVERIES; stamp++)
            for (unsigned node = 1; node <= 4; node++)
                assert_int_equal(seen[stamp][node], node == 1 || stamp % node != 0);
    }
    probe_set_others(&fixture->probe, OTHERS, lose_node);
    fixture_ask(fixture, "GET", "/v1/deliveries", "", BYTES(""), 503, "overloaded");

    /* Nodes of an earlier version are named; the others answer. */
    assert_false(reply_body_contains(&fixture->reply, "missing"));
    probe_set_others(&fixture->probe, OTHERS, tell_deliveries_but_of_old_nodes);
    fixture_ask(fixture, "GET", "/v1/deliveries?limit=200", "", BYTES(""), 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "\"missing\":[2,4]}"));
    assert_true(reply_body_contains(&fixture->reply, "-3\",\"at\""));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, all_nodes_set_up, all_nodes_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_workers_of_all_nodes),    TEST(test_tenants_of_all_nodes),
        TEST(test_failures_of_all_nodes),   TEST(test_statistics_of_all_nodes),
        TEST(test_deliveries_of_all_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
