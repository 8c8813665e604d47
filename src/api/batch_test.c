/*
 * Goal: a batch is one answer per line, in order, however the upload is cut, however large it is,
 * and whatever the node does meanwhile; and a client that leaves takes nothing down. Method: real
 * uploads to the API on a node double that holds, reverses, refuses and fails.
 */
#include "api/batch.h"

#include "api/call.h"
#include "api/testing/fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define BATCH   "/v1/timers/batch"
#define MINIMAL FIXTURE_NDJSON "Prefer: return=minimal\r\n"
#define ID_LINE 36 /* {"id":"..."} and its newline */

static int setup(void **state)
{
    static const char *const settings[] = {"body_bytes_max", "4096", "payload_bytes_max", "4096",
                                           NULL};

    *state = fixture_start(settings);
    return 0;
}

static int teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

/* Lines "begin .. end - 1", each with its number as payload. */
static void append_lines(struct buffer *body, unsigned begin, unsigned end)
{
    for (unsigned i = begin; i < end; i++)
        buffer_printf(body, "{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":%u}\n",
                      i);
}

static struct bytes line_of(struct bytes text, size_t index)
{
    for (; index > 0; index--) {
        const char *end = memchr(text.data, '\n', text.size);

        assert_non_null(end);
        text.size -= (size_t)(end + 1 - text.data);
        text.data = end + 1;
    }
    if (text.size)
        text.size = (size_t)((const char *)memchr(text.data, '\n', text.size) - text.data);
    return text;
}

static size_t count_lines(struct bytes text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.size; i++)
        count += text.data[i] == '\n';
    return count;
}

/* Whether a line of the answer is the id of a timer with this payload. */
static void check_created(struct fixture *fixture, struct bytes line, unsigned payload)
{
    char path[64], text[64];
    struct reply reply;
    struct client client;

    assert_true(bytes_has_prefix(line, BYTES("{\"id\":\"")));
    assert_int_equal(line.size, ID_LINE - 1);
    snprintf(path, sizeof(path), "/v1/timers/%.26s", line.data + 7);
    snprintf(text, sizeof(text), "\"payload\":%u,", payload);
    client_open(&client, api_port(fixture->api));
    client_ask(&client, "GET", path, "", BYTES(""), &reply);
    assert_int_equal(reply.status, 200);
    assert_true(reply_body_contains(&reply, text));
    client_close(&client);
}

static bool contains(struct bytes text, const char *part)
{
    return text.size && memmem(text.data, text.size, part, strlen(part)) != NULL;
}

/* Sends until the node holds as many commands as it may get of one batch. Returns what is left. */
static struct bytes send_until_held(struct fixture *fixture, struct bytes body)
{
    while (node_fake_submitted(fixture->node) < BATCH_CHUNKS_MAX) {
        if (body.size == 0)
            node_fake_await_submitted(fixture->node, BATCH_CHUNKS_MAX);
        body = client_send_some(&fixture->client, body, 5);
    }
    return body;
}

/* ---- lines and answers ---- */

static void answers_each_line(void **state)
{
    struct fixture *fixture = *state;
    struct bytes body =
        BYTES("{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":1}\n"
              "\n"
              "  \t \r\n"
              "not json\r\n"
              "{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":5}\r\n"
              "{\"after\":\"1h\"}\n"
              " {\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":7}");
    struct bytes answer;

    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, body, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "Content-Type", "application/x-ndjson"));
    assert_null(reply_header(&fixture->reply, "Preference-Applied").data);
    answer = fixture->reply.body;
    assert_int_equal(count_lines(answer), 5);
    check_created(fixture, line_of(answer, 0), 1);
    assert_true(contains(line_of(answer, 1), "{\"line\":4,"));
    assert_true(contains(line_of(answer, 1), "\"status\":400"));
    check_created(fixture, line_of(answer, 2), 5);
    assert_true(contains(line_of(answer, 3), "{\"line\":6,"));
    assert_true(contains(line_of(answer, 3), "\"status\":422"));
    assert_true(contains(line_of(answer, 3), "target"));
    check_created(fixture, line_of(answer, 4), 7);

    fixture_ask(fixture, "POST", BATCH, MINIMAL, body, 200, NULL);
    assert_true(reply_has_header(&fixture->reply, "Preference-Applied", "return=minimal"));
    answer = fixture->reply.body;
    assert_int_equal(count_lines(answer), 3);
    assert_true(bytes_equal(line_of(answer, 0), BYTES("{\"created\":3,\"failed\":2}")));
    assert_true(contains(line_of(answer, 1), "{\"line\":4,"));
    assert_true(contains(line_of(answer, 2), "{\"line\":6,"));
}

static void answers_batches_of_nothing(void **state)
{
    struct fixture *fixture = *state;

    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, BYTES(""), 200, NULL);
    assert_int_equal(fixture->reply.body.size, 0);
    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, BYTES("\n\n \n"), 200, NULL);
    assert_int_equal(fixture->reply.body.size, 0);
    fixture_ask(fixture, "POST", BATCH, MINIMAL, BYTES(""), 200, NULL);
    assert_true(bytes_equal(fixture->reply.body, BYTES("{\"created\":0,\"failed\":0}\n")));
    fixture_ask(fixture, "POST", BATCH, "Content-Type: application/jsonl\r\n", BYTES(""), 200,
                NULL);
    fixture_ask(fixture, "POST", BATCH, FIXTURE_JSON, BYTES("{}"), 415, "media-type");
    fixture_ask(fixture, "POST", BATCH, "", BYTES("{}"), 415, "media-type");
}

/* A small batch in two pieces, cut at every byte; of known length, and in chunks cut there. */
static void takes_any_cut(void **state)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->client;
    struct bytes body =
        BYTES("{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":0}\n\r\n"
              "x\n{\"after\":1000,\"target\":\"http://a.example/\",\"payload\":\"\xc3\xa4\"}");

    for (size_t cut = 1; cut < body.size; cut++) {
        for (int is_chunked = 0; is_chunked < 2; is_chunked++) {
            struct reply *reply = &fixture->reply;

            if (is_chunked)
                client_printf(
                    client,
                    "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                    "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%.*s\r\n%zx\r\n%s\r\n0\r\n\r\n",
                    cut, (int)cut, body.data, body.size - cut, body.data + cut);
            else {
                client_printf(client,
                              "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                              "Content-Length: %zu\r\n\r\n%.*s",
                              body.size, (int)cut, body.data);
                assert_false(client_has_news(client, 1));
                client_send(client, (struct bytes){body.data + cut, body.size - cut});
            }
            assert_true(client_receive(client, "POST", reply));
            assert_int_equal(reply->status, 200);
            assert_int_equal(count_lines(reply->body), 3);
            assert_int_equal(line_of(reply->body, 0).size, ID_LINE - 1);
            assert_true(contains(line_of(reply->body, 1), "{\"line\":3,"));
            assert_int_equal(line_of(reply->body, 2).size, ID_LINE - 1);
        }
    }
}

/* A line may be as long as a body; a longer one fails alone, whether it comes in one piece or not.
 */
static void fails_long_lines_alone(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;
    char pad[8192];

    memset(pad, ' ', sizeof(pad));
    buffer_init(&body);
    append_lines(&body, 0, 1);
    buffer_append(&body, "{\"after\":\"1h\",\"target\":\"http://a.example/\"}", 43);
    buffer_append(&body, pad, 4096 - 43);
    buffer_append_text(&body, "\r\n{\"after\":\"1h\",\"target\":\"http://a.example/\"}");
    buffer_append(&body, pad, 4097 - 43);
    buffer_append_text(&body, "\n");
    append_lines(&body, 3, 4);
    buffer_append(&body, pad, sizeof(pad));
    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    assert_int_equal(count_lines(fixture->reply.body), 5);
    check_created(fixture, line_of(fixture->reply.body, 0), 0);
    assert_true(contains(line_of(fixture->reply.body, 1), "{\"id\":"));
    assert_true(contains(line_of(fixture->reply.body, 2), "{\"line\":3,"));
    assert_true(contains(line_of(fixture->reply.body, 2), "\"status\":413"));
    check_created(fixture, line_of(fixture->reply.body, 3), 3);
    assert_true(contains(line_of(fixture->reply.body, 4), "{\"line\":5,"));
    buffer_deinit(&body);
}

/* ---- large ones ---- */

static void answers_20000_lines_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;
    struct bytes answer;

    buffer_init(&body);
    append_lines(&body, 0, 20000);
    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    answer = fixture->reply.body;
    assert_int_equal(answer.size, 20000 * ID_LINE);
    for (unsigned i = 0; i < 20000; i += 487)
        check_created(fixture, (struct bytes){answer.data + i * ID_LINE, ID_LINE - 1}, i);
    assert_int_equal(node_fake_created(fixture->node), 20000);
    assert_true(node_fake_inflight_peak(fixture->node) <= BATCH_CHUNKS_MAX * BATCH_CHUNK_LINES_MAX);
    buffer_deinit(&body);
}

/* Around the sizes at which commands are sent off, with the last line ended and not. */
static void answers_batches_of_every_size(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    for (unsigned lines = 1; lines <= 3 * BATCH_CHUNK_LINES_MAX + 4; lines++) {
        unsigned rest = lines % BATCH_CHUNK_LINES_MAX;

        if (rest > 4 && rest < BATCH_CHUNK_LINES_MAX - 4)
            continue;
        buffer_clear(&body);
        append_lines(&body, 0, lines);
        fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
        assert_int_equal(fixture->reply.body.size, lines * ID_LINE);
        body.size--;
        fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
        assert_int_equal(fixture->reply.body.size, lines * ID_LINE);
    }
    buffer_deinit(&body);
}

/* Answers come in reverse order, and every third line is wrong: the order of the lines stays. */
static void keeps_order_whatever_the_order_of_answers(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;
    struct bytes answer;

    buffer_init(&body);
    for (unsigned i = 0; i < 9000; i++) {
        if (i % 3 == 2)
            buffer_append_text(&body, "wrong\n");
        else
            append_lines(&body, i, i + 1);
    }
    node_fake_hold(fixture->node);
    client_printf(&fixture->client,
                  "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                  "Content-Length: %zu\r\n\r\n",
                  body.size);
    client_send(&fixture->client, buffer_bytes(&body));
    node_fake_await_submitted(fixture->node, BATCH_CHUNKS_MAX);
    node_fake_release(fixture->node);
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    answer = fixture->reply.body;
    assert_int_equal(count_lines(answer), 9000);
    for (unsigned i = 0; i < 9000; i++) {
        struct bytes line = line_of(answer, 0);
        char text[32];

        snprintf(text, sizeof(text), "{\"line\":%u,", i + 1);
        if (i % 3 == 2)
            assert_true(bytes_has_prefix(line, bytes_of(text)));
        else if (i % 101 == 0)
            check_created(fixture, line, i);
        answer = (struct bytes){line.data + line.size + 1, answer.size - line.size - 1};
    }
    buffer_deinit(&body);
}

/* The client is held back once enough is on its way, and everything arrives nevertheless. */
static void holds_the_client_back(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;
    struct bytes rest;

    buffer_init(&body);
    append_lines(&body, 0, 100000);
    node_fake_hold(fixture->node);
    client_printf(&fixture->client,
                  "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" MINIMAL "Content-Length: %zu\r\n\r\n",
                  body.size);
    rest = send_until_held(fixture, buffer_bytes(&body));
    assert_true(node_fake_inflight_peak(fixture->node) <= BATCH_CHUNKS_MAX * BATCH_CHUNK_LINES_MAX);
    node_fake_release(fixture->node);
    assert_true(client_send(&fixture->client, rest));
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    assert_true(bytes_equal(fixture->reply.body, BYTES("{\"created\":100000,\"failed\":0}\n")));
    buffer_deinit(&body);
}

/* Large lines go in smaller commands, so that memory stays bounded by bytes too. */
static void bounds_commands_by_bytes(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;
    char pad[2049];

    memset(pad, 'p', sizeof(pad) - 1);
    pad[sizeof(pad) - 1] = '\0';
    buffer_init(&body);
    for (int i = 0; i < 3000; i++)
        buffer_printf(&body, "{\"after\":1,\"target\":\"http://a.example/\",\"payload\":\"%s\"}\n",
                      pad);
    node_fake_hold(fixture->node);
    client_printf(&fixture->client,
                  "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" MINIMAL "Content-Length: %zu\r\n\r\n",
                  body.size);
    client_send(&fixture->client, buffer_bytes(&body));
    node_fake_await_submitted(fixture->node, 5);
    assert_true(node_fake_inflight_peak(fixture->node) <= 5 * (BATCH_CHUNK_BYTES_MAX / 2048 + 1));
    node_fake_release(fixture->node);
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    assert_true(bytes_equal(fixture->reply.body, BYTES("{\"created\":3000,\"failed\":0}\n")));
    buffer_deinit(&body);
}

/* ---- limits ---- */

static void ends_at_the_limit_of_lines(void **state)
{
    static const char *const settings[] = {"batch_lines_max", "2500", NULL};
    struct fixture *fixture = fixture_start(settings);
    struct buffer body;

    (void)state;
    buffer_init(&body);
    append_lines(&body, 0, 2500);
    fixture_ask(fixture, "POST", BATCH, MINIMAL, buffer_bytes(&body), 200, NULL);
    assert_true(bytes_equal(fixture->reply.body, BYTES("{\"created\":2500,\"failed\":0}\n")));
    append_lines(&body, 2500, 40000);
    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    assert_int_equal(count_lines(fixture->reply.body), 2501);
    assert_true(contains(line_of(fixture->reply.body, 2500), "{\"line\":2501,"));
    assert_true(contains(line_of(fixture->reply.body, 2500), "\"status\":413"));
    assert_int_equal(node_fake_created(fixture->node), 5000);
    fixture_ask(fixture, "GET", "/healthz", "", BYTES(""), 200, NULL);
    buffer_deinit(&body);
    fixture_stop(fixture);
}

static void ends_at_the_limit_of_bytes(void **state)
{
    static const char *const settings[] = {"batch_bytes_max", "100000", NULL};
    struct fixture *fixture = fixture_start(settings);
    struct client *client = &fixture->client;
    struct buffer body;

    (void)state;
    buffer_init(&body);
    append_lines(&body, 0, 3000);
    /* Announced: nothing is created. */
    client_printf(client, "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                          "Content-Length: 100001\r\n\r\n");
    assert_true(client_receive(client, "POST", &fixture->reply));
    fixture_check_problem(&fixture->reply, 413, "too-large");
    assert_int_equal(node_fake_created(fixture->node), 0);
    client_close(client);
    client_open(client, api_port(fixture->api));
    /* Not announced: what came before the limit is created, and the answer ends with the reason. */
    client_printf(client, "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                          "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < body.size; at += 1000) {
        size_t size = body.size - at < 1000 ? body.size - at : 1000;

        client_printf(client, "%zx\r\n%.*s\r\n", size, (int)size, body.data + at);
    }
    client_printf(client, "0\r\n\r\n");
    assert_true(client_receive(client, "POST", &fixture->reply));
    assert_int_equal(fixture->reply.status, 200);
    assert_int_equal(count_lines(fixture->reply.body), node_fake_created(fixture->node) + 1);
    assert_true(
        contains(line_of(fixture->reply.body, node_fake_created(fixture->node)), "\"status\":413"));
    assert_true(node_fake_created(fixture->node) > 1000);
    buffer_deinit(&body);
    fixture_stop(fixture);
}

/* The limit of bytes is reached with the last line of a command. */
static void ends_at_the_limit_with_a_full_command(void **state)
{
    struct buffer body;

    (void)state;
    buffer_init(&body);
    for (unsigned lines = BATCH_CHUNK_LINES_MAX - 3; lines < BATCH_CHUNK_LINES_MAX + 3; lines++) {
        char limit[32];
        const char *const settings[] = {"batch_bytes_max", limit, NULL};
        struct fixture *fixture;

        buffer_clear(&body);
        append_lines(&body, 0, lines);
        snprintf(limit, sizeof(limit), "%zu", body.size - 1);
        fixture = fixture_start(settings);
        client_printf(&fixture->client,
                      "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                      "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%.*s\r\n0\r\n\r\n",
                      body.size, (int)body.size, body.data);
        assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
        assert_int_equal(count_lines(fixture->reply.body), lines + 1);
        assert_int_equal(node_fake_created(fixture->node), lines);
        fixture_stop(fixture);
    }
    buffer_deinit(&body);
}

/* What cannot fit into memory is not begun. */
static void shares_memory_for_answers(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;

    fixture->api->budget.answers_bytes_max = 100000;
    buffer_init(&body);
    append_lines(&body, 0, 20000);
    for (int i = 0; i < 2; i++) { /* what the first one took is free again */
        fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
        assert_in_range(fixture->reply.body.size, 100000, 100000 + 10 * 1024 * ID_LINE);
        assert_true(contains(fixture->reply.body, "\"status\":503"));
        assert_true(count_lines(fixture->reply.body) > 2000);
    }
    buffer_deinit(&body);
}

static void limits_batches_at_a_time(void **state)
{
    enum { BATCHES = 256 };
    struct fixture *fixture = *state;
    struct client *clients = calloc(BATCHES, sizeof(*clients));

    assert_non_null(clients);
    for (int i = 0; i < BATCHES; i++) {
        client_open(&clients[i], api_port(fixture->api));
        client_printf(&clients[i], "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                                   "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n");
        assert_true(client_receive(&clients[i], "POST", &fixture->reply));
        assert_int_equal(fixture->reply.status, 100);
    }
    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, BYTES("x"), 503, "overloaded");
    assert_true(reply_has_header(&fixture->reply, "Retry-After", "1"));
    client_printf(&clients[0], "x");
    assert_true(client_receive(&clients[0], "POST", &fixture->reply));
    assert_int_equal(fixture->reply.status, 200);
    client_ask(&clients[0], "POST", BATCH, FIXTURE_NDJSON, BYTES("x"), &fixture->reply);
    assert_int_equal(fixture->reply.status, 200);
    for (int i = 0; i < BATCHES; i++)
        client_close(&clients[i]);
    free(clients);
}

/* ---- a node that has no room, or fails ---- */

static void waits_for_room(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    append_lines(&body, 0, 20000);
    node_fake_set_inflight_max(fixture->node, 1100); /* one command at a time */
    fixture_ask(fixture, "POST", BATCH, MINIMAL, buffer_bytes(&body), 200, NULL);
    assert_true(bytes_equal(fixture->reply.body, BYTES("{\"created\":20000,\"failed\":0}\n")));
    /* Without anything of its own under way, nobody would wake it: those lines fail. */
    node_fake_set_inflight_max(fixture->node, 100);
    body.size = 0;
    append_lines(&body, 0, 2000);
    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    assert_int_equal(count_lines(fixture->reply.body), 2000);
    assert_true(contains(line_of(fixture->reply.body, 0), "{\"line\":1,"));
    assert_true(contains(line_of(fixture->reply.body, 0), "\"status\":503"));
    assert_true(contains(line_of(fixture->reply.body, 1999), "{\"line\":2000,"));
    body.size = 0;
    append_lines(&body, 0, 100);
    fixture_ask(fixture, "POST", BATCH, MINIMAL, buffer_bytes(&body), 200, NULL);
    assert_true(bytes_equal(fixture->reply.body, BYTES("{\"created\":100,\"failed\":0}\n")));
    buffer_deinit(&body);
}

static void tells_of_failures_line_by_line(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    append_lines(&body, 0, 1500);
    node_fake_fail(fixture->node, ERROR_TOO_MANY);
    fixture_ask(fixture, "POST", BATCH, FIXTURE_NDJSON, buffer_bytes(&body), 200, NULL);
    assert_int_equal(count_lines(fixture->reply.body), 1500);
    assert_true(contains(line_of(fixture->reply.body, 1499), "\"status\":429"));
    node_fake_fail(fixture->node, ERROR_NONE);
    node_fake_refuse(fixture->node, ERROR_DISK_FULL);
    fixture_ask(fixture, "POST", BATCH, MINIMAL, buffer_bytes(&body), 200, NULL);
    assert_true(
        bytes_equal(line_of(fixture->reply.body, 0), BYTES("{\"created\":0,\"failed\":1500}")));
    assert_true(contains(line_of(fixture->reply.body, 1500), "disk-full"));
    buffer_deinit(&body);
}

/* ---- clients that leave, servers that stop ---- */

static void await_created(struct fixture *fixture, size_t count)
{
    struct client client;
    struct reply reply;

    /* Each look is a round trip, which gives the server time. */
    client_open(&client, api_port(fixture->api));
    for (int i = 0; i < 200000 && node_fake_created(fixture->node) < count; i++)
        client_ask(&client, "GET", "/healthz", "", BYTES(""), &reply);
    client_close(&client);
    assert_int_equal(node_fake_created(fixture->node), count);
}

/* Complete lines count, the incomplete one does not. */
static void creates_what_came_before_the_client_left(void **state)
{
    struct fixture *fixture = *state;
    size_t created = 0;

    for (unsigned lines = 0; lines < 5000; lines += 937) {
        struct client client;
        struct buffer body;

        buffer_init(&body);
        append_lines(&body, 0, lines);
        buffer_append_text(&body, "{\"after\":1,\"target\":\"http://a.example/\"}");
        client_open(&client, api_port(fixture->api));
        client_printf(&client,
                      "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
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
static void outlives_clients_that_leave(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    append_lines(&body, 0, 12000);
    for (int i = 0; i < 6; i++) {
        struct client client;

        node_fake_hold(fixture->node);
        client_open(&client, api_port(fixture->api));
        client_printf(&client,
                      "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" FIXTURE_NDJSON
                      "Content-Length: %zu\r\n\r\n",
                      body.size * (i < 3 ? 2 : 1));
        client_send_some(&client, (struct bytes){body.data, body.size / (i % 3 + 1)}, 20);
        if (i % 2)
            client_reset(&client);
        else
            client_close(&client);
        node_fake_release(fixture->node);
        fixture_ask(fixture, "GET", "/healthz", "", BYTES(""), 200, NULL);
    }
    buffer_deinit(&body);
}

static void *stop(void *argument)
{
    fixture_stop_api(argument);
    return NULL;
}

static void answers_before_it_stops(void **state)
{
    struct fixture *fixture = *state;
    struct buffer body;
    pthread_t thread;

    buffer_init(&body);
    append_lines(&body, 0, 3000);
    node_fake_hold(fixture->node);
    client_printf(&fixture->client,
                  "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" MINIMAL "Content-Length: %zu\r\n\r\n",
                  body.size);
    client_send(&fixture->client, buffer_bytes(&body));
    node_fake_await_submitted(fixture->node, 2);
    assert_int_equal(pthread_create(&thread, NULL, stop, fixture), 0);
    assert_false(client_has_news(&fixture->client, 20));
    node_fake_release(fixture->node);
    assert_true(client_receive(&fixture->client, "POST", &fixture->reply));
    assert_true(bytes_equal(fixture->reply.body, BYTES("{\"created\":3000,\"failed\":0}\n")));
    pthread_join(thread, NULL);
    buffer_deinit(&body);
}

/* The upload never ends: the server does not wait for it longer than it was told. */
static void stops_in_the_middle(void **state)
{
    static const char *const settings[] = {"drain", "50ms", NULL};
    struct fixture *fixture = fixture_start(settings);
    struct buffer body;
    pthread_t thread;

    (void)state;
    buffer_init(&body);
    append_lines(&body, 0, 30000);
    node_fake_hold(fixture->node);
    client_printf(&fixture->client,
                  "POST " BATCH " HTTP/1.1\r\nHost: t\r\n" MINIMAL "Content-Length: %zu\r\n\r\n",
                  body.size * 2);
    send_until_held(fixture, buffer_bytes(&body));
    assert_int_equal(pthread_create(&thread, NULL, stop, fixture), 0);
    assert_false(client_has_news(&fixture->client, 100));
    node_fake_release(fixture->node);
    pthread_join(thread, NULL);
    assert_true(client_await_end(&fixture->client));
    buffer_deinit(&body);
    fixture_stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_each_line, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_batches_of_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_any_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(fails_long_lines_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_20000_lines_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_batches_of_every_size, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_order_whatever_the_order_of_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(holds_the_client_back, setup, teardown),
        cmocka_unit_test_setup_teardown(bounds_commands_by_bytes, setup, teardown),
        cmocka_unit_test(ends_at_the_limit_of_lines),
        cmocka_unit_test(ends_at_the_limit_of_bytes),
        cmocka_unit_test(ends_at_the_limit_with_a_full_command),
        cmocka_unit_test_setup_teardown(shares_memory_for_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_batches_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_for_room, setup, teardown),
        cmocka_unit_test_setup_teardown(tells_of_failures_line_by_line, setup, teardown),
        cmocka_unit_test_setup_teardown(creates_what_came_before_the_client_left, setup, teardown),
        cmocka_unit_test_setup_teardown(outlives_clients_that_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_before_it_stops, setup, teardown),
        cmocka_unit_test(stops_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
