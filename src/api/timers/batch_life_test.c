/*
 * Goal: a batch stays within its limits, waits for a node that has no room and tells line by line
 * what failed; and neither a client that leaves nor a server that stops takes anything down.
 * Method: real uploads to the API on a real node that holds, refuses and fails.
 */
#include "api/timers/timers.h"

#include "api/core/call.h"
#include "api/testing/fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int batch_life_test_setup(void **state)
{
    static const char *const settings[] = {"body_bytes_max", "4096", "payload_bytes_max", "4096",
                                           NULL};

    *state = fixture_start(settings);
    return 0;
}

static int batch_life_test_teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

/* ---- limits ---- */

/* proves: batch-limits, batch_lines_max */
static void ends_at_the_limit_of_lines(void **state)
{
    static const char *const settings[] = {"batch_lines_max", "2500", NULL};
    struct api_fixture *fixture = fixture_start(settings);

    (void)state;
    struct buffer body;
    buffer_init(&body);
    lines_append(&body, 0, 2500);
    fixture_ask(fixture, "POST", NDJSON_PATH, NDJSON_MINIMAL, buffer_bytes(&body), 200, NULL);
    assert_true(
        bytes_equal(fixture->reply.body, BYTES("{\"created\":2500,\"existed\":0,\"failed\":0}\n")));
    lines_append(&body, 2500, 40000);
    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    assert_int_equal(lines_count(fixture->reply.body), 2501);
    assert_true(bytes_contain(lines_at(fixture->reply.body, 2500), "{\"line\":2501,"));
    assert_true(bytes_contain(lines_at(fixture->reply.body, 2500), "\"status\":413"));
    assert_int_equal(probe_live(&fixture->probe), 5000);
    fixture_ask(fixture, "GET", "/healthz", "", BYTES(""), 200, NULL);
    buffer_deinit(&body);
    fixture_stop(fixture);
}

/* Sends it unannounced, in pieces of so many bytes. */
static void send_in_pieces(struct api_fixture *fixture, struct bytes body, size_t piece)
{
    struct client *client = &fixture->client;

    client_printf(client, "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                          "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < body.size; at += piece) {
        size_t size = body.size - at < piece ? body.size - at : piece;

        client_printf(client, "%zx\r\n%.*s\r\n", size, (int)size, body.data + at);
    }
    client_printf(client, "0\r\n\r\n");
    assert_true(client_receive(client, "POST", &fixture->reply));
}

/* proves: batch-limits, batch_bytes_max (beyond) */
static void ends_at_the_limit_of_bytes(void **state)
{
    static const char *const settings[] = {"batch_bytes_max", "100000", NULL};
    static const size_t pieces[] = {777, 1000, 4096, 16000};
    struct api_fixture *fixture = fixture_start(settings);

    (void)state;
    struct buffer body;
    buffer_init(&body);
    lines_append(&body, 0, 3000);
    size_t lines = lines_count((struct bytes){body.data, 100000});
    assert_true(lines > 1000);
    /* Announced: nothing is created. */
    client_printf(&fixture->client, "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                                    "Content-Length: 100001\r\n\r\n");
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    fixture_check_problem(&fixture->reply, 413, "too-large");
    assert_int_equal(probe_live(&fixture->probe), 0);
    client_close(&fixture->client);
    client_open(&fixture->client, api_port(fixture->api));
    /* Not announced: the lines within the limit are created, however it comes, and the answer ends
     * with the reason. */
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        send_in_pieces(fixture, buffer_bytes(&body), pieces[i]);
        assert_int_equal(fixture->reply.status, 200);
        assert_int_equal(probe_live(&fixture->probe), (i + 1) * lines);
        assert_int_equal(lines_count(fixture->reply.body), lines + 1);
        assert_true(bytes_contain(lines_at(fixture->reply.body, lines), "\"status\":413"));
    }
    buffer_deinit(&body);
    fixture_stop(fixture);
}

/* The limit of bytes is reached with the last line of a command. */
static void ends_at_the_limit_with_a_full_command(void **state)
{
    (void)state;
    struct buffer body;
    buffer_init(&body);
    for (unsigned lines = BATCH_CHUNK_LINES_MAX - 3; lines < BATCH_CHUNK_LINES_MAX + 3; lines++) {
        char limit[32];
        const char *const settings[] = {"batch_bytes_max", limit, NULL};

        buffer_clear(&body);
        lines_append(&body, 0, lines);
        snprintf(limit, sizeof(limit), "%zu", body.size);
        buffer_append_text(&body, "{");
        struct api_fixture *fixture = fixture_start(settings);
        send_in_pieces(fixture, buffer_bytes(&body), body.size);
        assert_int_equal(lines_count(fixture->reply.body), lines + 1);
        assert_int_equal(probe_live(&fixture->probe), lines);
        fixture_stop(fixture);
    }
    buffer_deinit(&body);
}

/* What cannot fit into memory is not begun. */
/* proves: batch-limits, answers_bytes_max */
static void batch_life_test_shares_memory_for_answers(void **state)
{
    struct api_fixture *fixture = *state;

    fixture->api->answers.max = 100000;
    struct buffer body;
    buffer_init(&body);
    lines_append(&body, 0, 20000);
    for (int i = 0; i < 2; i++) { /* what the first one took is free again */
        fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
        assert_in_range(fixture->reply.body.size, 100000, 100000 + 10 * 1024 * NDJSON_ID_LINE);
        assert_true(bytes_contain(fixture->reply.body, "\"status\":503"));
        assert_true(lines_count(fixture->reply.body) > 2000);
    }
    buffer_deinit(&body);
}

/* proves: batch-limits, batches_max */
static void limits_batches_at_a_time(void **state)
{
    enum { BATCHES = 256 };
    struct api_fixture *fixture = *state;
    struct client *clients = calloc(BATCHES, sizeof(*clients));

    assert_non_null(clients);
    for (int i = 0; i < BATCHES; i++) {
        client_open(&clients[i], api_port(fixture->api));
        client_printf(&clients[i], "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                                   "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n");
        assert_true(client_receive(&clients[i], "POST", &fixture->reply));
        assert_int_equal(fixture->reply.status, 100);
    }
    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, BYTES("x"), 503, "overloaded");
    assert_true(reply_has_header(&fixture->reply, "Retry-After", "1"));
    client_printf(&clients[0], "x");
    assert_true(client_receive(&clients[0], "POST", &fixture->reply));
    assert_int_equal(fixture->reply.status, 200);
    client_ask(&clients[0], "POST", NDJSON_PATH, FIXTURE_NDJSON, BYTES("x"), &fixture->reply);
    assert_int_equal(fixture->reply.status, 200);
    for (int i = 0; i < BATCHES; i++)
        client_close(&clients[i]);
    free(clients);
}

/* ---- a node that has no room, or fails ---- */

/* A batch waits for its own commands; where none is under way, nobody would wake it, and its lines
 * fail. */
/* proves: batch-busy */
static void waits_for_room(void **state)
{
    static const char *const settings[] = {"inflight_max", "1100",
                                           NULL}; /* one command at a time */
    struct api_fixture *fixture = fixture_start(settings);
    struct buffer body;

    (void)state;
    buffer_init(&body);
    lines_append(&body, 0, 20000);
    fixture_ask(fixture, "POST", NDJSON_PATH, NDJSON_MINIMAL, buffer_bytes(&body), 200, NULL);
    assert_true(bytes_equal(fixture->reply.body,
                            BYTES("{\"created\":20000,\"existed\":0,\"failed\":0}\n")));
    assert_int_equal(metrics_get(fixture->probe.metrics, METRIC_REFUSED_OVERLOADED), 0);
    probe_refuse(&fixture->probe, ERROR_OVERLOADED);
    body.size = 0;
    lines_append(&body, 0, 2000);
    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    assert_int_equal(lines_count(fixture->reply.body), 2000);
    assert_true(bytes_contain(lines_at(fixture->reply.body, 0), "{\"line\":1,"));
    assert_true(bytes_contain(lines_at(fixture->reply.body, 0), "\"status\":503"));
    assert_true(bytes_contain(lines_at(fixture->reply.body, 1999), "{\"line\":2000,"));
    buffer_deinit(&body);
    fixture_stop(fixture);
}

/* proves: batch-busy */
static void tells_of_failures_line_by_line(void **state)
{
    struct api_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    lines_append(&body, 0, 1500);
    probe_fail(&fixture->probe, ERROR_TOO_MANY);
    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    assert_int_equal(lines_count(fixture->reply.body), 1500);
    assert_true(bytes_contain(lines_at(fixture->reply.body, 1499), "\"status\":429"));
    probe_fail(&fixture->probe, ERROR_NONE);
    probe_refuse(&fixture->probe, ERROR_DISK_FULL);
    fixture_ask(fixture, "POST", NDJSON_PATH, NDJSON_MINIMAL, buffer_bytes(&body), 200, NULL);
    assert_true(bytes_equal(lines_at(fixture->reply.body, 0),
                            BYTES("{\"created\":0,\"existed\":0,\"failed\":1500}")));
    assert_true(bytes_contain(lines_at(fixture->reply.body, 1500), "disk-full"));
    buffer_deinit(&body);
}

/* ---- clients that leave, servers that stop ---- */

static void await_created(struct api_fixture *fixture, size_t count)
{
    struct client client;

    /* Each look is a round trip, which gives the server time. */
    client_open(&client, api_port(fixture->api));
    struct reply reply;
    for (int i = 0; i < 200000 && probe_live(&fixture->probe) < count; i++)
        client_ask(&client, "GET", "/healthz", "", BYTES(""), &reply);
    client_close(&client);
    assert_int_equal(probe_live(&fixture->probe), count);
}

/* Complete lines count, the incomplete one does not. */
/* proves: batch-aborted */
static void creates_what_came_before_the_client_left(void **state)
{
    struct api_fixture *fixture = *state;
    size_t created = 0;

    for (unsigned lines = 0; lines < 5000; lines += 937) {
        struct buffer body;

        buffer_init(&body);
        lines_append(&body, 0, lines);
        buffer_append_text(&body, "{\"after\":\"1h\",\"target\":\"http://a.example/\"}");
        struct client client;
        client_open(&client, api_port(fixture->api));
        client_printf(&client,
                      "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                      "Content-Length: %zu\r\n\r\n",
                      body.size + 1);
        client_send(&client, buffer_bytes(&body));
        client_close(&client);
        created += lines;
        await_created(fixture, created);
        buffer_deinit(&body);
    }
}

/* With commands under way, by a reset too: the node's answers find nobody, and all is freed. */
/* proves: batch-aborted */
static void batch_life_test_outlives_clients_that_leave(void **state)
{
    struct api_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    lines_append(&body, 0, 12000);
    for (int i = 0; i < 6; i++) {
        probe_hold(&fixture->probe);
        struct client client;
        client_open(&client, api_port(fixture->api));
        client_printf(&client,
                      "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                      "Content-Length: %zu\r\n\r\n",
                      body.size * (i < 3 ? 2 : 1));
        client_send_some(&client, (struct bytes){body.data, body.size / (i % 3 + 1)}, 20);
        if (i % 2)
            client_reset(&client);
        else
            client_close(&client);
        probe_release(&fixture->probe);
        fixture_ask(fixture, "GET", "/healthz", "", BYTES(""), 200, NULL);
    }
    buffer_deinit(&body);
}

static void *batch_life_test_stop(void *argument)
{
    fixture_stop_api(argument);
    return NULL;
}

static void batch_life_test_answers_before_it_stops(void **state)
{
    struct api_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    lines_append(&body, 0, 3000);
    probe_hold(&fixture->probe);
    client_printf(&fixture->client,
                  "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" NDJSON_MINIMAL
                  "Content-Length: %zu\r\n\r\n",
                  body.size);
    client_send(&fixture->client, buffer_bytes(&body));
    probe_await_submitted(&fixture->probe, 2);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, batch_life_test_stop, fixture), 0);
    assert_false(client_has_news(&fixture->client, 20));
    probe_release(&fixture->probe);
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    assert_true(
        bytes_equal(fixture->reply.body, BYTES("{\"created\":3000,\"existed\":0,\"failed\":0}\n")));
    pthread_join(thread, NULL);
    buffer_deinit(&body);
}

/* The upload never ends: the server does not wait for it longer than it was told. */
static void stops_in_the_middle(void **state)
{
    static const char *const settings[] = {"drain", "50ms", NULL};
    struct api_fixture *fixture = fixture_start(settings);

    (void)state;
    struct buffer body;
    buffer_init(&body);
    lines_append(&body, 0, 30000);
    probe_hold(&fixture->probe);
    client_printf(&fixture->client,
                  "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" NDJSON_MINIMAL
                  "Content-Length: %zu\r\n\r\n",
                  body.size * 2);
    batch_send_until_held(fixture, buffer_bytes(&body));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, batch_life_test_stop, fixture), 0);
    assert_false(client_has_news(&fixture->client, 100));
    probe_release(&fixture->probe);
    pthread_join(thread, NULL);
    assert_true(client_await_end(&fixture->client));
    buffer_deinit(&body);
    fixture_stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_at_the_limit_of_lines),
        cmocka_unit_test(ends_at_the_limit_of_bytes),
        cmocka_unit_test(ends_at_the_limit_with_a_full_command),
        cmocka_unit_test_setup_teardown(batch_life_test_shares_memory_for_answers,
                                        batch_life_test_setup, batch_life_test_teardown),
        cmocka_unit_test_setup_teardown(limits_batches_at_a_time, batch_life_test_setup,
                                        batch_life_test_teardown),
        cmocka_unit_test(waits_for_room),
        cmocka_unit_test_setup_teardown(tells_of_failures_line_by_line, batch_life_test_setup,
                                        batch_life_test_teardown),
        cmocka_unit_test_setup_teardown(creates_what_came_before_the_client_left,
                                        batch_life_test_setup, batch_life_test_teardown),
        cmocka_unit_test_setup_teardown(batch_life_test_outlives_clients_that_leave,
                                        batch_life_test_setup, batch_life_test_teardown),
        cmocka_unit_test_setup_teardown(batch_life_test_answers_before_it_stops,
                                        batch_life_test_setup, batch_life_test_teardown),
        cmocka_unit_test(stops_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
