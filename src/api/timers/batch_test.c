/*
 * Goal: a batch is one answer per line, in order, however the upload is cut, however large it is,
 * and whatever the node does meanwhile; and a client that leaves takes nothing down. Method: real
 * uploads to the API on a real node that has room for what one batch may have under way.
 */
#include "api/timers/timers.h"

#include "api/testing/fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int batch_test_setup(void **state)
{
    char inflight_max[32];
    const char *const settings[] = {
        "body_bytes_max", "4096", "payload_bytes_max", "4096", "inflight_max", inflight_max, NULL};

    snprintf(inflight_max, sizeof(inflight_max), "%d", BATCH_CHUNKS_MAX * BATCH_CHUNK_LINES_MAX);

    *state = fixture_start(settings);
    return 0;
}

static int batch_test_teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

/* ---- lines and answers ---- */

/* proves: batch, batch-minimal */
static void answers_each_line(void **state)
{
    struct api_fixture *fixture = *state;
    struct bytes body =
        BYTES("{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":1}\n"
              "\n"
              "  \t \r\n"
              "not json\r\n"
              "{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":5}\r\n"
              "{\"after\":\"1h\"}\n"
              " {\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":7}");

    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, body, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "Content-Type", "application/x-ndjson"));
    assert_null(reply_header(&fixture->reply, "Preference-Applied").data);
    struct bytes answer = fixture->reply.body;
    assert_int_equal(lines_count(answer), 5);
    lines_check_created(fixture, lines_at(answer, 0), 1);
    assert_true(bytes_contain(lines_at(answer, 1), "{\"line\":4,"));
    assert_true(bytes_contain(lines_at(answer, 1), "\"status\":400"));
    lines_check_created(fixture, lines_at(answer, 2), 5);
    assert_true(bytes_contain(lines_at(answer, 3), "{\"line\":6,"));
    assert_true(bytes_contain(lines_at(answer, 3), "\"status\":422"));
    assert_true(bytes_contain(lines_at(answer, 3), "target"));
    lines_check_created(fixture, lines_at(answer, 4), 7);

    fixture_ask(fixture, "POST", NDJSON_PATH, NDJSON_MINIMAL, body, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "Preference-Applied", "return=minimal"));
    answer = fixture->reply.body;
    assert_int_equal(lines_count(answer), 3);
    assert_true(
        bytes_equal(lines_at(answer, 0), BYTES("{\"created\":3,\"existed\":0,\"failed\":2}")));
    assert_true(bytes_contain(lines_at(answer, 1), "{\"line\":4,"));
    assert_true(bytes_contain(lines_at(answer, 2), "{\"line\":6,"));
}

/* proves: batch-upload */
static void answers_batches_of_nothing(void **state)
{
    struct api_fixture *fixture = *state;

    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, BYTES(""), 200, NULL);
    assert_int_equal(fixture->reply.body.size, 0);
    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, BYTES("\n\n \n"), 200, NULL);
    assert_int_equal(fixture->reply.body.size, 0);
    fixture_ask(fixture, "POST", NDJSON_PATH, NDJSON_MINIMAL, BYTES(""), 200, NULL);
    assert_true(
        bytes_equal(fixture->reply.body, BYTES("{\"created\":0,\"existed\":0,\"failed\":0}\n")));
    fixture_ask(fixture, "POST", NDJSON_PATH, "Content-Type: application/jsonl\r\n", BYTES(""), 200,
                NULL);
    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_JSON, BYTES("{}"), 415, "media-type");
    fixture_ask(fixture, "POST", NDJSON_PATH, "", BYTES("{}"), 415, "media-type");
}

/* A small batch in two pieces, cut at every byte; of known length, and in chunks cut there. */
/* proves: batch-upload */
static void takes_any_cut(void **state)
{
    struct api_fixture *fixture = *state;
    struct client *client = &fixture->client;
    struct bytes body =
        BYTES("{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":0}\n\r\n"
              "x\n{\"after\":60000,\"target\":\"http://a.example/\",\"payload\":\"\xc3\xa4\"}");

    for (size_t cut = 1; cut < body.size; cut++) {
        for (int is_chunked = 0; is_chunked < 2; is_chunked++) {
            struct reply *reply = &fixture->reply;

            if (is_chunked)
                client_printf(
                    client,
                    "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                    "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%.*s\r\n%zx\r\n%s\r\n0\r\n\r\n",
                    cut, (int)cut, body.data, body.size - cut, body.data + cut);
            else {
                client_printf(client,
                              "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                              "Content-Length: %zu\r\n\r\n%.*s",
                              body.size, (int)cut, body.data);
                assert_false(client_has_news(client, 1));
                client_send(client, (struct bytes){body.data + cut, body.size - cut});
            }
            assert_true(client_receive(client, "POST", reply));
            assert_int_equal(reply->status, 200);
            assert_int_equal(lines_count(reply->body), 3);
            assert_int_equal(lines_at(reply->body, 0).size, NDJSON_ID_LINE - 1);
            assert_true(bytes_contain(lines_at(reply->body, 1), "{\"line\":3,"));
            assert_int_equal(lines_at(reply->body, 2).size, NDJSON_ID_LINE - 1);
        }
    }
}

/* A line may be as long as a body; a longer one fails alone, whether it comes in one piece or not.
 */
/* proves: batch-limits */
static void fails_long_lines_alone(void **state)
{
    struct api_fixture *fixture = *state;
    char pad[8192];

    memset(pad, ' ', sizeof(pad));
    struct buffer body;
    buffer_init(&body);
    lines_append(&body, 0, 1);
    buffer_append(&body, "{\"after\":\"1h\",\"target\":\"http://a.example/\"}", 43);
    buffer_append(&body, pad, 4096 - 43);
    buffer_append_text(&body, "\r\n{\"after\":\"1h\",\"target\":\"http://a.example/\"}");
    buffer_append(&body, pad, 4097 - 43);
    buffer_append_text(&body, "\n");
    lines_append(&body, 3, 4);
    buffer_append(&body, pad, sizeof(pad));
    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    assert_int_equal(lines_count(fixture->reply.body), 5);
    lines_check_created(fixture, lines_at(fixture->reply.body, 0), 0);
    assert_true(bytes_contain(lines_at(fixture->reply.body, 1), "{\"id\":"));
    assert_true(bytes_contain(lines_at(fixture->reply.body, 2), "{\"line\":3,"));
    assert_true(bytes_contain(lines_at(fixture->reply.body, 2), "\"status\":413"));
    lines_check_created(fixture, lines_at(fixture->reply.body, 3), 3);
    assert_true(bytes_contain(lines_at(fixture->reply.body, 4), "{\"line\":5,"));
    buffer_deinit(&body);
}

/* ---- large ones ---- */

static void answers_20000_lines_in_order(void **state)
{
    struct api_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    lines_append(&body, 0, 20000);
    fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    struct bytes answer = fixture->reply.body;
    assert_int_equal(answer.size, 20000 * NDJSON_ID_LINE);
    for (unsigned i = 0; i < 20000; i += 487)
        lines_check_created(
            fixture, (struct bytes){answer.data + i * NDJSON_ID_LINE, NDJSON_ID_LINE - 1}, i);
    assert_int_equal(probe_live(&fixture->probe), 20000);
    assert_int_equal(probe_overloaded(&fixture->probe), 0);
    buffer_deinit(&body);
}

/* Around the sizes at which commands are sent off, with the last line ended and not. */
/* proves: batch-upload */
static void answers_batches_of_every_size(void **state)
{
    struct api_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    for (unsigned lines = 1; lines <= 3 * BATCH_CHUNK_LINES_MAX + 4; lines++) {
        unsigned rest = lines % BATCH_CHUNK_LINES_MAX;

        if (rest > 4 && rest < BATCH_CHUNK_LINES_MAX - 4)
            continue;
        buffer_clear(&body);
        lines_append(&body, 0, lines);
        fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
        assert_int_equal(fixture->reply.body.size, lines * NDJSON_ID_LINE);
        body.size--;
        fixture_ask(fixture, "POST", NDJSON_PATH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
        assert_int_equal(fixture->reply.body.size, lines * NDJSON_ID_LINE);
    }
    buffer_deinit(&body);
}

/* Answers come in reverse order, and every third line is wrong: the order of the lines stays. */
/* proves: batch */
static void keeps_order_whatever_the_order_of_answers(void **state)
{
    struct api_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    for (unsigned i = 0; i < 9000; i++) {
        if (i % 3 == 2)
            buffer_append_text(&body, "wrong\n");
        else
            lines_append(&body, i, i + 1);
    }
    probe_hold(&fixture->probe);
    client_printf(&fixture->client,
                  "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                  "Content-Length: %zu\r\n\r\n",
                  body.size);
    client_send(&fixture->client, buffer_bytes(&body));
    probe_await_submitted(&fixture->probe, BATCH_CHUNKS_MAX);
    probe_release(&fixture->probe);
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    struct bytes answer = fixture->reply.body;
    assert_int_equal(lines_count(answer), 9000);
    for (unsigned i = 0; i < 9000; i++) {
        struct bytes line = lines_at(answer, 0);
        char text[32];

        snprintf(text, sizeof(text), "{\"line\":%u,", i + 1);
        if (i % 3 == 2)
            assert_true(bytes_has_prefix(line, bytes_of(text)));
        else if (i % 101 == 0)
            lines_check_created(fixture, line, i);
        answer = (struct bytes){line.data + line.size + 1, answer.size - line.size - 1};
    }
    buffer_deinit(&body);
}

/* The client is held back once enough is on its way, and everything arrives nevertheless. */
/* proves: batch-busy */
static void holds_the_client_back(void **state)
{
    struct api_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    lines_append(&body, 0, 100000);
    probe_hold(&fixture->probe);
    client_printf(&fixture->client,
                  "POST " NDJSON_PATH " HTTP/1.1\r\nHost: t\r\n" NDJSON_MINIMAL
                  "Content-Length: %zu\r\n\r\n",
                  body.size);
    struct bytes rest = batch_send_until_held(fixture, buffer_bytes(&body));
    assert_int_equal(probe_overloaded(&fixture->probe), 0);
    probe_release(&fixture->probe);
    assert_true(client_send(&fixture->client, rest));
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    assert_true(bytes_equal(fixture->reply.body,
                            BYTES("{\"created\":100000,\"existed\":0,\"failed\":0}\n")));
    buffer_deinit(&body);
}

/* Large lines go in smaller commands, so that memory stays bounded by bytes too. */
static void bounds_commands_by_bytes(void **state)
{
    struct api_fixture *fixture = *state;
    char pad[2049];

    memset(pad, 'p', sizeof(pad) - 1);
    pad[sizeof(pad) - 1] = '\0';
    struct buffer body;
    buffer_init(&body);
    for (int i = 0; i < 3000; i++)
        buffer_printf(
            &body, "{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":\"%s\"}\n", pad);
    fixture_ask(fixture, "POST", NDJSON_PATH, NDJSON_MINIMAL, buffer_bytes(&body), 200, NULL);
    assert_true(
        bytes_equal(fixture->reply.body, BYTES("{\"created\":3000,\"existed\":0,\"failed\":0}\n")));
    assert_true(probe_submitted(&fixture->probe) >= 3000 * 2048 / BATCH_CHUNK_BYTES_MAX);
    buffer_deinit(&body);
}

/* A number of `after` that looks like seconds needs a unit, unless the client says that it counts
 * in milliseconds. One timer alone is created, with a warning. A byte order mark is skipped. */
/* proves: after-bare, batch */
static void numbers_need_a_unit(void **state)
{
    struct api_fixture *fixture = *state;
    static const char body[] = "\xef\xbb\xbf{\"after\":1800,\"target\":\"http://a.example/\"}\n"
                               "{\"after\":59999,\"target\":\"http://a.example/\"}\n"
                               "{\"after\":60000,\"target\":\"http://a.example/\"}\n"
                               "{\"after\":0,\"target\":\"http://a.example/\"}\n"
                               "{\"after\":\"1800ms\",\"target\":\"http://a.example/\"}\n";

    fixture_ask(fixture, "POST", "/v1/timers/batch", "Content-Type: application/x-ndjson\r\n",
                bytes_of(body), 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "{\"line\":1,"));
    assert_true(reply_body_contains(
        &fixture->reply,
        "A number is milliseconds: give a unit, as in \\\"1800ms\\\" or \\\"1800s\\\""));
    assert_true(reply_body_contains(&fixture->reply, "{\"line\":2,"));
    assert_false(reply_body_contains(&fixture->reply, "{\"line\":3,"));
    fixture_ask(fixture, "POST", "/v1/timers/batch",
                "Content-Type: application/x-ndjson\r\n"
                "Prefer: return=minimal, after=milliseconds\r\n",
                bytes_of(body), 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "\"created\":5"));

    const struct bytes one = BYTES("\xef\xbb\xbf{\"after\":1800,\"target\":\"http://a.example/\"}");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, one, 201, NULL);
    assert_non_null(reply_header(&fixture->reply, "Tickwheel-Warning").data);
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON "Prefer: after=milliseconds\r\n", one,
                201, NULL);
    assert_null(reply_header(&fixture->reply, "Tickwheel-Warning").data);
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON "Prefer: after=unit\r\n", one, 422,
                "invalid");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON,
                BYTES("{\"after\":60000,\"target\":\"http://a.example/\"}"), 201, NULL);
    assert_null(reply_header(&fixture->reply, "Tickwheel-Warning").data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_need_a_unit, batch_test_setup, batch_test_teardown),
        cmocka_unit_test_setup_teardown(answers_each_line, batch_test_setup, batch_test_teardown),
        cmocka_unit_test_setup_teardown(answers_batches_of_nothing, batch_test_setup,
                                        batch_test_teardown),
        cmocka_unit_test_setup_teardown(takes_any_cut, batch_test_setup, batch_test_teardown),
        cmocka_unit_test_setup_teardown(fails_long_lines_alone, batch_test_setup,
                                        batch_test_teardown),
        cmocka_unit_test_setup_teardown(answers_20000_lines_in_order, batch_test_setup,
                                        batch_test_teardown),
        cmocka_unit_test_setup_teardown(answers_batches_of_every_size, batch_test_setup,
                                        batch_test_teardown),
        cmocka_unit_test_setup_teardown(keeps_order_whatever_the_order_of_answers, batch_test_setup,
                                        batch_test_teardown),
        cmocka_unit_test_setup_teardown(holds_the_client_back, batch_test_setup,
                                        batch_test_teardown),
        cmocka_unit_test_setup_teardown(bounds_commands_by_bytes, batch_test_setup,
                                        batch_test_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
