/*
 * Goal: whatever a client sends, and however it cuts it, each request gets its own answer and the
 * connection stays usable where HTTP allows it. Method: real sockets, bytes sent exactly as written
 * here, against a handler that answers early, late, from another thread or after pauses.
 */
#include "http/server.h"

#include "http/testing/client.h"
#include "http/testing/handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct http_fixture {
    struct handler *handler;
    struct client client;
};

static int server_setup(void **state)
{
    struct http_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    fixture->handler = handler_start(&(struct http_options){.threads = 2});
    client_open(&fixture->client, handler_port(fixture->handler));
    *state = fixture;
    return 0;
}

static int server_teardown(void **state)
{
    struct http_fixture *fixture = *state;

    client_close(&fixture->client);
    handler_destroy(fixture->handler);
    free(fixture);
    return 0;
}

static void assert_body(const struct reply *reply, const char *text)
{
    assert_true(bytes_equal(reply->body, bytes_of(text)));
}

static void server_test_expect(struct client *client, const char *method, int status,
                               const char *body)
{
    struct reply reply;

    assert_true(client_receive(client, method, &reply));
    assert_int_equal(reply.status, status);
    assert_body(&reply, body);
}

/* proves: http-connections */
static void keeps_connections(void **state)
{
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    for (int i = 0; i < 3; i++) {
        struct reply reply;
        client_ask(client, "GET", "/hello", "", BYTES(""), &reply);
        assert_int_equal(reply.status, 200);
        assert_body(&reply, "hello");
        assert_true(reply_has_header(&reply, "content-type", "text/plain"));
        assert_true(reply_has_header(&reply, "X-Test", "200"));
        client_ask(client, "POST", "/echo", "", BYTES("some bytes"), &reply);
        assert_body(&reply, "some bytes");
        client_ask(client, "POST", "/early", "", BYTES("not read"), &reply);
        assert_int_equal(reply.status, 404);
        client_ask(client, "GET", "/early", "", BYTES(""), &reply);
        assert_int_equal(reply.status, 404);
        client_ask(client, "GET", "/lent", "", BYTES(""), &reply);
        assert_body(&reply, "lent");
        client_ask(client, "GET", "/twice", "", BYTES(""), &reply);
        assert_body(&reply, "twice");
        client_ask(client, "HEAD", "/hello", "", BYTES(""), &reply);
        assert_int_equal(reply.status, 200);
        assert_true(reply_has_header(&reply, "Content-Length", "5"));
        client_ask(client, "GET", "/failed", "", BYTES(""), &reply);
        assert_int_equal(reply.status, 503);
        assert_int_equal(reply.body.size, 0);
    }
    assert_int_equal(http_server_connections(handler_server(fixture->handler)), 1);
}

/* Goal: requests that end in one turn of a thread can be answered together, at its end, on several
 * threads. Method: clients whose requests, pipelined and not, are only answered in `turned`. */
static void hands_over_at_the_end_of_a_turn(void **state)
{
    struct http_fixture *fixture = *state;
    struct client clients[6];

    for (size_t i = 0; i < 6; i++)
        client_open(&clients[i], handler_port(fixture->handler));
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 6; i++)
            client_printf(&clients[i], "GET /turned HTTP/1.1\r\nHost: t\r\n\r\n"
                                       "GET /turned HTTP/1.1\r\nHost: t\r\n\r\n"
                                       "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
        for (size_t i = 0; i < 6; i++) {
            server_test_expect(&clients[i], "GET", 200, "turned");
            server_test_expect(&clients[i], "GET", 200, "turned");
            server_test_expect(&clients[i], "GET", 200, "hello");
        }
    }
    for (size_t i = 0; i < 6; i++)
        client_close(&clients[i]);
}

static void closes_when_asked(void **state)
{
    struct http_fixture *fixture = *state;
    struct reply reply;

    client_ask(&fixture->client, "GET", "/hello", "Connection: close\r\n", BYTES(""), &reply);
    assert_body(&reply, "hello");
    assert_true(client_is_at_end(&fixture->client));
}

static void speaks_http_1_0(void **state)
{
    struct http_fixture *fixture = *state;

    client_printf(&fixture->client, "GET /hello HTTP/1.0\r\n\r\n");
    server_test_expect(&fixture->client, "GET", 200, "hello");
    assert_true(client_is_at_end(&fixture->client));
}

/* proves: http-connections */
static void answers_pipelined_requests_in_order(void **state)
{
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    client_printf(client, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n"
                          "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc"
                          "GET /park HTTP/1.1\r\nHost: t\r\n\r\n"
                          "POST /early HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nxx"
                          "POST /bites HTTP/1.1\r\nHost: t\r\nContent-Length: 8\r\n\r\n01234567"
                          "HEAD /twice HTTP/1.1\r\nHost: t\r\n\r\n"
                          "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    server_test_expect(client, "GET", 200, "hello");
    server_test_expect(client, "POST", 200, "abc");
    handler_answer(fixture->handler);
    server_test_expect(client, "GET", 200, "parked");
    server_test_expect(client, "POST", 404, "early");
    server_test_expect(client, "POST", 200, "01234567");
    server_test_expect(client, "HEAD", 200, "");
    server_test_expect(client, "GET", 200, "hello");
}

/* Each request, cut in two at every byte, as a body of known length and in chunks. */
static void server_takes_any_cut(void **state)
{
    static const char *const requests[] = {
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 7\r\n\r\n0123456",
        "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\n012\r\n4\r\n3456\r\n0\r\n\r\n",
        "POST /bites HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
        "7\r\n0123456\r\n0\r\n\r\n",
        /* It pauses with all of a chunk used, and the next one is there already. */
        "POST /bites HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\n012\r\n1\r\n3\r\n3\r\n456\r\n0\r\n\r\n",
    };
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct bytes all = bytes_of(requests[i]);

        for (size_t cut = 1; cut < all.size; cut++) {
            client_send(client, (struct bytes){all.data, cut});
            assert_false(client_has_news(client, 1));
            client_send(client, (struct bytes){all.data + cut, all.size - cut});
            server_test_expect(client, "POST", 200, "0123456");
        }
    }
}

/* libmicrohttpd 1.0.1 refuses them. */
static void reads_over_chunk_extensions(void **state)
{
    struct http_fixture *fixture = *state;

    client_printf(&fixture->client,
                  "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n"
                  "\r\n3\r\n012\r\n4;x=y\r\n3456\r\n0\r\n\r\n");
    struct reply reply;
    assert_true(client_receive(&fixture->client, "POST", &reply));
    if (reply.status != 400) {
        assert_int_equal(reply.status, 200);
        assert_body(&reply, "0123456");
    }
}

static void reads_large_bodies(void **state)
{
    static char body[1 << 20];
    struct http_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)('a' + i % 23);
    for (int i = 0; i < 2; i++) {
        struct reply reply;
        client_ask(&fixture->client, "POST", i ? "/bites" : "/echo", "",
                   (struct bytes){body, i ? 30000 : sizeof(body)}, &reply);
        assert_int_equal(reply.status, 200);
        assert_int_equal(reply.body.size, i ? 30000 : sizeof(body));
        assert_memory_equal(reply.body.data, body, reply.body.size);
    }
}

/* proves: http-connections */
static void expects_100_continue(void **state)
{
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    client_printf(client, "POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
                          "Content-Length: 3\r\n\r\n");
    server_test_expect(client, "POST", 100, "");
    client_printf(client, "abc");
    server_test_expect(client, "POST", 200, "abc");
    /* Refused: no 100, the answer at once, and the body is not waited for. */
    client_printf(client, "POST /early HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
                          "Content-Length: 3\r\n\r\n");
    server_test_expect(client, "POST", 404, "early");
    assert_true(client_is_at_end(client));
}

/* What is announced and does not come is not waited for, whatever follows. */
static void expects_100_continue_and_has_no_body(void **state)
{
    static const char *const follow[] = {"", "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n", "{"};
    struct http_fixture *fixture = *state;

    for (size_t i = 0; i < 6; i++) {
        const char *path = i < 3 ? "/echo" : "/park";

        struct client client;
        client_open(&client, handler_port(fixture->handler));
        client_printf(&client, "POST %s HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n\r\n%s",
                      path, follow[i % 3]);
        if (i >= 3) {
            handler_await_parked(fixture->handler, 1);
            handler_answer(fixture->handler);
        }
        server_test_expect(&client, "POST", 200, i < 3 ? "" : "parked");
        assert_true(client_is_at_end(&client));
        client_close(&client);
    }
}

/* proves: unread-body */
static void refuses_large_bodies_before_they_come(void **state)
{
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    static char body[HTTP_KEEP_BODY_MAX];

    /* One that is not too large is read, and the connection kept. */
    memset(body, 'x', sizeof(body));
    client_printf(client, "POST /early HTTP/1.1\r\nHost: t\r\nContent-Length: 65536\r\n\r\n");
    client_send(client, (struct bytes){body, sizeof(body)});
    server_test_expect(client, "POST", 404, "early");
    client_printf(client, "POST /early HTTP/1.1\r\nHost: t\r\nContent-Length: 65537\r\n\r\n");
    server_test_expect(client, "POST", 404, "early");
    assert_true(client_is_at_end(client));
}

static void refuses_within_a_body(void **state)
{
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    client_printf(client, "POST /limit HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100; i++)
        assert_true(client_printf(client, "5\r\n01234\r\n"));
    client_printf(client, "0\r\n\r\n");
    server_test_expect(client, "POST", 413, "limit");
    assert_int_equal(handler_ended(fixture->handler), 0);
    client_printf(client, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    server_test_expect(client, "GET", 200, "hello");
}

/* Who goes on sending after the answer is cut off, at a known length. */
/* proves: discarded-body */
static void stops_reading_what_nobody_wants(void **state)
{
    static char piece[1 << 20];
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    memset(piece, 'x', sizeof(piece));
    client_printf(client, "POST /limit HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    uint64_t sent = 0;
    while (client_printf(client, "%zx\r\n", sizeof(piece)) &&
           client_send(client, (struct bytes){piece, sizeof(piece)}) &&
           client_printf(client, "\r\n"))
        sent += sizeof(piece);
    assert_true(sent >= HTTP_DISCARD_BYTES_MAX - sizeof(piece));
    assert_true(sent <
                HTTP_DISCARD_BYTES_MAX + (64 << 20)); /* what the sockets hold comes on top */
    handler_await_closed(fixture->handler, 1);
}

static void ask_with_parameters(struct client *client, int count)
{
    client_printf(client, "GET /hello?a=b");
    for (int i = 1; i < count; i++)
        client_printf(client, i % 2 ? "&" : "&a=b");
    client_printf(client, " HTTP/1.1\r\nHost: t\r\n\r\n");
}

/* proves: query-parameters */
static void disconnects_who_sends_too_many_parameters(void **state)
{
    enum { FIT = ((8192 + 8192) / 2 - 1024) / 64 };
    static const int too_many[] = {FIT + 1, 300, 5000};
    struct http_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(too_many) / sizeof(too_many[0]); i++) {
        struct client client;

        client_open(&client, handler_port(fixture->handler));
        ask_with_parameters(&client, FIT);
        struct reply reply;
        assert_true(client_receive(&client, "GET", &reply));
        ask_with_parameters(&client, too_many[i]);
        assert_true(client_is_at_end(&client));
        client_close(&client);
    }
    assert_int_equal(handler_ended(fixture->handler), 3);
}

/* The library gives it up without a word. That nothing is left of it, the sanitizer tells. */
static void forgets_what_is_given_up(void **state)
{
    struct http_fixture *fixture = *state;
    struct client client;

    client_open(&client, handler_port(fixture->handler));
    client_send(&client, BYTES("GET /\0?"));
    for (int i = 0; i < 1000; i++)
        client_printf(&client, "a&");
    client_printf(&client, " HTTP/1.1\r\nHost: t\r\n\r\n");
    client_printf(&client, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    client_close(&client);
    client_printf(&fixture->client, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    server_test_expect(&fixture->client, "GET", 200, "hello");
}

static void hangs_up(void **state)
{
    struct http_fixture *fixture = *state;

    client_printf(&fixture->client,
                  "POST /hangup HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nabc");
    assert_true(client_is_at_end(&fixture->client));
    handler_await_closed(fixture->handler, 1);
}

static void answers_from_another_thread(void **state)
{
    struct http_fixture *fixture = *state;
    struct client clients[8];

    for (int i = 0; i < 8; i++) {
        client_open(&clients[i], handler_port(fixture->handler));
        client_printf(&clients[i], "POST /park HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nx");
    }
    handler_await_parked(fixture->handler, 8);
    struct reply reply;
    client_ask(&fixture->client, "GET", "/hello", "", BYTES(""), &reply); /* nobody is held up */
    for (int i = 0; i < 8; i++)
        handler_answer(fixture->handler);
    for (int i = 0; i < 8; i++) {
        server_test_expect(&clients[i], "POST", 200, "parked");
        client_close(&clients[i]);
    }
}

/* proves: bad-request */
static void refuses_unclear_framing(void **state)
{
    static const char *const headers[] = {
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: \r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Content-Length : 3\r\n",
        "Content-Length\t: 3\r\n",
        "Host: t\r\nContent-Length: 3\r\n",
        "host: other\r\n",
        "X: a\rContent-Length: 3\r\n",
        "X: \x01\r\n",
    };
    struct http_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        struct client client;

        client_open(&client, handler_port(fixture->handler));
        client_printf(&client, "POST /echo HTTP/1.1\r\nHost: t\r\n%s\r\nabc", headers[i]);
        struct reply reply;
        /* The library refuses some of them itself, by hanging up or by 400 or 413. */
        if (client_receive(&client, "POST", &reply)) {
            if (reply.status != 400 && reply.status != 413)
                fail_msg("%s: %d", headers[i], reply.status);
            if (!client_await_end(&client))
                fail_msg("%s: the connection stays open", headers[i]);
        }
        client_close(&client);
    }
    assert_int_equal(handler_ended(fixture->handler), 0);
}

/* proves: bad-request */
static void needs_a_clear_head(void **state)
{
    static const struct {
        const char *head;
        int status;
    } cases[] = {
        {"GET /hello HTTP/1.1\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nX-Host: t\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost : t\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: t\r\nHost: t\r\n\r\n", 400},
        {"GET /hello HTTP/1.0\r\nHost: t\r\nHost: u\r\n\r\n", 400},
        {"GET /hello HTTP/1.0\r\n\r\n", 200},
        {"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200},
        {"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n"
         "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         400},
        {"GET /hello HTTP/1.1\r\nHOST: t\r\nX: a\tb \xff\r\n\r\n", 200},
    };
    struct http_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct client client;

        client_open(&client, handler_port(fixture->handler));
        client_send(&client, bytes_of(cases[i].head));
        struct reply reply;
        assert_true(client_receive(&client, "GET", &reply));
        if (reply.status != cases[i].status)
            fail_msg("%s: %d", cases[i].head, reply.status);
        if (reply.status == 400)
            assert_true(client_await_end(&client));
        client_close(&client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_connections, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(hands_over_at_the_end_of_a_turn, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(needs_a_clear_head, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(closes_when_asked, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(speaks_http_1_0, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(answers_pipelined_requests_in_order, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(server_takes_any_cut, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(reads_over_chunk_extensions, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(reads_large_bodies, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(expects_100_continue, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(expects_100_continue_and_has_no_body, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(refuses_large_bodies_before_they_come, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(refuses_within_a_body, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(stops_reading_what_nobody_wants, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(disconnects_who_sends_too_many_parameters, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(forgets_what_is_given_up, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(hangs_up, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(answers_from_another_thread, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(refuses_unclear_framing, server_setup, server_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
