/*
 * Goal: whatever a client sends, and however it cuts it, each request gets its own answer and the
 * connection stays usable where HTTP allows it. Method: real sockets, bytes sent exactly as written
 * here, against a handler that answers early, late, from another thread or after pauses.
 */
#include "http/server.h"

#include "http/server_private.h"
#include "http/testing/client.h"
#include "http/testing/handler.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

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
        client_ask(client, "GET", "/big", "", BYTES(""), &reply); /* it leaves in many pieces */
        assert_int_equal(reply.body.size, HANDLER_BIG_SIZE);
        client_ask(client, "HEAD", "/big", "", BYTES(""), &reply);
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
    struct client *client = &fixture->client;

    client_printf(client, "GET /hello HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n");
    struct reply reply;
    assert_true(client_receive(client, "GET", &reply));
    assert_true(reply_has_header(&reply, "Connection", "keep-alive"));
    client_printf(client, "GET /hello HTTP/1.0\r\n\r\nGET /hello HTTP/1.0\r\n\r\n");
    server_test_expect(client, "GET", 200, "hello");
    assert_true(client_is_at_end(client));
}

/* When it returns, the turn in which the thread did its last work is over. */
static void server_test_pass_a_turn(struct handler *handler)
{
    struct client client;
    struct reply reply;

    client_open(&client, handler_port(handler));
    client_ask(&client, "GET", "/hello", "", BYTES(""), &reply);
    client_close(&client);
}

/* Goal: requests that change nothing do not wait for each other, others do, and answers keep their
 * order. Method: requests that the test answers, on one thread; more of them than may be in flight.
 */
/* proves: http-connections, pipelined */
static void runs_safe_requests_together(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 1});
    struct client client;

    (void)state;
    client_open(&client, handler_port(handler));
    for (unsigned i = 0; i < PIPELINE_MAX; i++)
        client_printf(&client, "GET /park HTTP/1.1\r\nHost: t\r\n\r\n");
    handler_await_parked(handler, PIPELINE_MAX);
    client_printf(&client, "HEAD /hello HTTP/1.1\r\nHost: t\r\n\r\n"
                           "POST /park HTTP/1.1\r\nHost: t\r\n\r\n"
                           "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    server_test_pass_a_turn(handler);
    assert_int_equal(handler_ended(handler), PIPELINE_MAX + 1);
    for (unsigned i = 0; i < PIPELINE_MAX; i++)
        handler_answer(handler);
    for (unsigned i = 0; i < PIPELINE_MAX; i++)
        server_test_expect(&client, "GET", 200, "parked");
    server_test_expect(&client, "HEAD", 200, "");
    handler_await_parked(handler, PIPELINE_MAX + 1);
    server_test_pass_a_turn(handler);
    assert_int_equal(handler_ended(handler), PIPELINE_MAX + 4);
    handler_answer(handler);
    server_test_expect(&client, "POST", 200, "parked");
    server_test_expect(&client, "GET", 200, "hello");
    client_close(&client);
    handler_destroy(handler);
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

/* Sends it a byte at a time, each in a packet of its own. */
static void server_test_trickle(struct client *client, struct bytes text)
{
    const int on = 1;

    setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    for (size_t i = 0; i < text.size; i++)
        if (!client_send(client, (struct bytes){text.data + i, 1}))
            return;
}

/* Each request, cut in two at every byte and at all of them: bodies of known length and chunked. */
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
        "\r\nPOST /echo HTTP/1.1\r\nhOST:t\r\nTransfer-Encoding: \tChunked \r\n\r\n"
        "0003;x=y;z=\"a b\"\r\n012\r\n4;\r\n3456\r\n0\r\nA: b\r\nC-D:\r\n\r\n",
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
        server_test_trickle(client, all);
        server_test_expect(client, "POST", 200, "0123456");
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

/* An expectation of a request without a body means nothing. */
static void expects_100_continue_and_has_no_body(void **state)
{
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    client_printf(client, "POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n\r\n"
                          "GET /early HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n\r\n"
                          "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    server_test_expect(client, "POST", 200, "");
    server_test_expect(client, "GET", 404, "early");
    server_test_expect(client, "GET", 200, "hello");
}

/* Goal: a client that is refused while it sends reads the answer, and no reset in place of it.
 * Method: it sends many times what sockets hold, and only then reads. */
static void answers_clients_that_go_on_sending(void **state)
{
    static char piece[1 << 20];
    struct http_fixture *fixture = *state;
    struct client *client = &fixture->client;

    memset(piece, 'x', sizeof(piece));
    client_printf(client, "POST /early HTTP/1.1\r\nHost: t\r\nContent-Length: 33554432\r\n\r\n");
    for (int i = 0; i < 32; i++)
        assert_true(client_send(client, (struct bytes){piece, sizeof(piece)}));
    server_test_expect(client, "POST", 404, "early");
    assert_true(client_is_at_end(client));
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

/* proves: request-headers (at), request-headers (beyond) */
static void refuses_too_many_headers(void **state)
{
    struct http_fixture *fixture = *state;

    for (unsigned more = 0; more < 2; more++) {
        client_printf(&fixture->client, "GET /hello HTTP/1.1\r\nHost: t\r\n");
        for (unsigned i = 1; i < HEAD_FIELDS_MAX + more; i++)
            client_printf(&fixture->client, "X:\r\n");
        client_printf(&fixture->client, "\r\n");
        server_test_expect(&fixture->client, "GET", more ? 431 : 200, more ? "refused" : "hello");
    }
    assert_true(client_is_at_end(&fixture->client));
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

/* The request is refused and the connection closed, in one piece as well as byte by byte. */
static void server_test_refused(struct http_fixture *fixture, struct bytes text)
{
    for (int in_bytes = 0; in_bytes < 2; in_bytes++) {
        struct client client;

        client_open(&client, handler_port(fixture->handler));
        if (in_bytes)
            server_test_trickle(&client, text);
        else
            client_send(&client, text);
        struct reply reply;
        if (!client_receive(&client, "POST", &reply) || reply.status != 400)
            fail_msg("%.*s: not refused", (int)text.size, text.data);
        if (!client_is_at_end(&client))
            fail_msg("%.*s: the connection stays open", (int)text.size, text.data);
        assert_int_equal(handler_refusal(fixture->handler), HTTP_REFUSED_MALFORMED);
        client_close(&client);
    }
    assert_int_equal(handler_ended(fixture->handler), 0);
}

/* proves: bad-request */
static void refuses_unclear_framing(void **state)
{
    static const char *const headers[] = {
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: \r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: 3 3\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Content-Length : 3\r\n",
        "Content-Length\t: 3\r\n",
        "Host: t\r\nContent-Length: 3\r\n",
        "host: other\r\n",
        "X: a\rContent-Length: 3\r\n",
        "X: a\nContent-Length: 3\r\n",
        "X: a\r\n\tContent-Length: 3\r\n",
        "X: a\r\n Content-Length: 3\r\n",
        " X: a\r\n",
        "X: \x01\r\n",
        "X: \x7f\r\n",
        "X\x80: a\r\n",
        "X a\r\n",
        ": a\r\n",
        "X\r\n",
        "\n",
        "\r\r\n",
    };
    struct http_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        char text[256];

        const int size =
            snprintf(text, sizeof(text), "POST /echo HTTP/1.1\r\nHost: t\r\n%s\r\nabc", headers[i]);
        server_test_refused(fixture, (struct bytes){text, (size_t)size});
    }
}

/* A NUL ends a text for some programs. */
/* proves: bad-request */
static void refuses_zero_bytes(void **state)
{
    struct http_fixture *fixture = *state;

    server_test_refused(fixture, BYTES("POST /echo HTTP/1.1\r\nHost: t\r\n"
                                       "Content-Length: 0\0\r\n\r\n"));
    server_test_refused(fixture, BYTES("GET /hello HTTP/1.1\r\nHost: t\r\nX: a\0b\r\n\r\n"));
    server_test_refused(fixture, BYTES("GET /hello HTTP/1.1\r\nHost: t\r\nX\0: a\r\n\r\n"));
    server_test_refused(fixture, BYTES("GET /hello\0 HTTP/1.1\r\nHost: t\r\n\r\n"));
    server_test_refused(fixture, BYTES("GET\0 /hello HTTP/1.1\r\nHost: t\r\n\r\n"));
    server_test_refused(fixture, BYTES("\0GET /hello HTTP/1.1\r\nHost: t\r\n\r\n"));
    server_test_refused(fixture,
                        BYTES("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked"
                              "\r\n\r\n3\0\r\nabc\r\n0\r\n\r\n"));
}

/* proves: bad-request */
static void refuses_unclear_chunks(void **state)
{
    static const char *const bodies[] = {
        "3\nabc\r\n0\r\n\r\n",            /* after a size */
        "3;a=b\nabc\r\n0\r\n\r\n",        /* in an extension */
        "3;a\nb\r\nabc\r\n0\r\n\r\n",     /* */
        "3\r\nabc\n0\r\n\r\n",            /* after data */
        "3\r\nabc\r\n0\n\r\n",            /* after the last size */
        "3\r\nabc\r\n0\r\n\n",            /* at the end */
        "3\r\nabc\r\n0\r\nA: b\n\r\n",    /* in a trailer */
        "3\r\nabc\r\n0\r\nA : b\r\n\r\n", /* */
        "3\r\nabc\r\n0\r\n A: b\r\n\r\n", /* */
        "3\r\nabc\r\n0\r\nA\r\n\r\n",     /* */
        "3\rabc\r\n0\r\n\r\n",            /* a bare carriage return */
        "3;\rabc\r\n0\r\n\r\n",           /* */
        "3\r\nabcd\r\n0\r\n\r\n",         /* more data than announced */
        "3\r\nabc0\r\n\r\n",              /* */
        "x\r\n",                          /* no size */
        "\r\n",                           /* */
        ";a\r\n",                         /* */
        "-3\r\nabc\r\n0\r\n\r\n",         /* */
        "0x3\r\nabc\r\n0\r\n\r\n",        /* */
        " 3\r\nabc\r\n0\r\n\r\n",         /* */
        "3 \r\nabc\r\n0\r\n\r\n",         /* */
        "3 ;a\r\nabc\r\n0\r\n\r\n",       /* */
        "0000000000000003\r\nabc\r\n0\r\n\r\n",
        "ffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    };
    struct http_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        char text[256];

        const int size = snprintf(text, sizeof(text),
                                  "POST /echo HTTP/1.1\r\nHost: t\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n%s",
                                  bodies[i]);
        server_test_refused(fixture, (struct bytes){text, (size_t)size});
    }
}

/* proves: chunk-extra */
static void bounds_extensions_and_trailers(void **state)
{
    static char name[CHUNK_EXTRA_BYTES_MAX + 1];
    struct http_fixture *fixture = *state;

    memset(name, 'n', sizeof(name));
    for (int more = 0; more < 2; more++) {
        struct client client;

        client_open(&client, handler_port(fixture->handler));
        client_printf(&client, "POST /echo HTTP/1.1\r\nHost: t\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n3;");
        client_send(&client, (struct bytes){name, CHUNK_EXTRA_BYTES_MAX / 2});
        client_printf(&client, "\r\nabc\r\n0\r\n");
        client_send(&client, (struct bytes){name, CHUNK_EXTRA_BYTES_MAX / 2 - 1 + (size_t)more});
        client_printf(&client, ":\r\n\r\n");
        server_test_expect(&client, "POST", more ? 400 : 200, more ? "refused" : "abc");
        client_close(&client);
    }
}

/* proves: bad-request */
static void needs_a_clear_head(void **state)
{
    static const struct {
        const char *head;
        int status;
    } cases[] = {
        {"GET /hello HTTP/1.1\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200},
        {"GET  /hello HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /hello  HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /hello HTTP/1.1 \r\nHost: t\r\n\r\n", 400},
        {"GET /hello HTTP/1.2\r\nHost: t\r\n\r\n", 400},
        {"GET /hello HTTP/2.0\r\nHost: t\r\n\r\n", 400},
        {"GET /hello http/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /hello\r\n\r\n", 400},
        {"GET\t/hello HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /hel\tlo HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /hell\xc3\xb6 HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"G(T /hello HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {" GET /hello HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"\nGET /hello HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"\r\rGET /hello HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"\x16\x03\x01\x02", 400},
        {"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
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
        cmocka_unit_test_setup_teardown(runs_safe_requests_together, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(reads_large_bodies, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(expects_100_continue, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(expects_100_continue_and_has_no_body, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(answers_clients_that_go_on_sending, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(refuses_large_bodies_before_they_come, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(refuses_within_a_body, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(stops_reading_what_nobody_wants, server_setup,
                                        server_teardown),
        cmocka_unit_test_setup_teardown(refuses_too_many_headers, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(hangs_up, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(answers_from_another_thread, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(refuses_unclear_framing, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(refuses_zero_bytes, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(refuses_unclear_chunks, server_setup, server_teardown),
        cmocka_unit_test_setup_teardown(bounds_extensions_and_trailers, server_setup,
                                        server_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
