/*
 * Goal: a stream sends what its handler has, as it comes, to a client that reads; one that does not
 * read costs a bounded amount of memory, and is closed; the end of either side ends it. Method: a
 * real server, and a client that reads as the test says.
 */
#include "http/testing/client.h"
#include "http/testing/handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cmocka.h>

static void stream_open(struct client *client, struct handler *handler, const char *method,
                        const char *path)
{
    client_open(client, handler_port(handler));
    assert_true(client_printf(client, "%s %s HTTP/1.1\r\nHost: a\r\n\r\n", method, path));
}

/* Reads until the text has come. */
static void stream_expect(struct client *client, const char *text)
{
    char seen[4096] = "";
    size_t size = 0;

    while (!strstr(seen, text)) {
        assert_true(client_has_news(client, CLIENT_PATIENCE_MS) && size + 1 < sizeof(seen));
        const ssize_t more = recv(client->socket, seen + size, sizeof(seen) - 1 - size, 0);
        assert_true(more > 0);
        size += (size_t)more;
        seen[size] = '\0';
    }
}

static void sends_what_comes_until_its_end(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 2});
    struct client client;

    (void)state;
    stream_open(&client, handler, "GET", "/stream");
    stream_expect(&client, "Connection: close\r\n\r\nbegins\n");
    handler_await_parked(handler, 1);
    handler_say(handler, "one\n");
    stream_expect(&client, "one\n");
    handler_say(handler, "two\n");
    stream_expect(&client, "two\n");
    handler_say(handler, "end");
    stream_expect(&client, "end");
    assert_true(client_is_at_end(&client));
    handler_await_closed(handler, 1);
    client_close(&client);
    handler_destroy(handler);
}

static void ends_with_its_client(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 2});
    struct client client;

    (void)state;
    stream_open(&client, handler, "GET", "/stream");
    stream_expect(&client, "begins\n");
    client_close(&client);
    handler_await_closed(handler, 1);
    stream_open(&client, handler, "GET", "/flood");
    stream_expect(&client, "abcde\n");
    client_reset(&client);
    handler_await_closed(handler, 2);
    handler_destroy(handler);
}

/* A stream outlives the time in which a client must say something: it is the server's turn. */
static void lives_longer_than_idle_clients(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.idle_ms = 50});
    struct client client, idle;

    (void)state;
    stream_open(&client, handler, "GET", "/stream");
    stream_expect(&client, "begins\n");
    for (int i = 0; i < 3; i++) {
        client_open(&idle, handler_port(handler));
        assert_true(client_is_at_end(&idle));
        client_close(&idle);
    }
    handler_await_parked(handler, 1);
    handler_say(handler, "still here\n");
    stream_expect(&client, "still here\n");
    client_close(&client);
    handler_destroy(handler);
}

/* proves: http-slow */
static void closes_a_client_that_does_not_read(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.idle_ms = 200});
    struct client client;

    (void)state;
    stream_open(&client, handler, "GET", "/flood");
    handler_await_closed(handler, 1);
    /* What the system took, and one piece. */
    assert_true(handler_flooded(handler) < 16u << 20);
    client_close(&client);
    handler_destroy(handler);
}

static void has_no_body_for_head(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 1});
    struct client client;

    (void)state;
    stream_open(&client, handler, "HEAD", "/stream");
    struct reply reply;
    assert_true(client_receive(&client, "HEAD", &reply));
    assert_int_equal(reply.status, 200);
    assert_true(client_is_at_end(&client));
    client_close(&client);
    handler_destroy(handler);
}

/* At a stop, streams are closed when the others have had their time. */
static void ends_at_a_stop(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.drain_ms = 50});
    struct client client;

    (void)state;
    stream_open(&client, handler, "GET", "/stream");
    stream_expect(&client, "begins\n");
    handler_stop(handler);
    assert_true(client_await_end(&client));
    client_close(&client);
    handler_destroy(handler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_what_comes_until_its_end),
        cmocka_unit_test(ends_with_its_client),
        cmocka_unit_test(lives_longer_than_idle_clients),
        cmocka_unit_test(closes_a_client_that_does_not_read),
        cmocka_unit_test(has_no_body_for_head),
        cmocka_unit_test(ends_at_a_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
