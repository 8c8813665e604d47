/*
 * Goal: connections that nothing vouches for take no places from others: they are few, the oldest
 * goes first, and none lives long. Method: a real server with small limits, and clients that say
 * nothing, little, or enough.
 */
#include "http/testing/client.h"
#include "http/testing/handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LONG_MS = 60000 };

static void vouch(struct client *client, int status)
{
    struct reply reply;

    client_ask(client, "GET", "/vouch", "", BYTES(""), &reply);
    assert_int_equal(reply.status, status);
}

static void oldest_makes_room(void **state)
{
    struct handler *handler = handler_start(
        &(struct http_options){.threads = 1, .strangers_max = 2, .stranger_ms = LONG_MS});
    struct client known, strangers[5];
    struct reply reply;

    (void)state;
    client_open(&known, handler_port(handler));
    vouch(&known, 200);
    for (int i = 0; i < 5; i++) {
        client_open(&strangers[i], handler_port(handler));
        client_ask(&strangers[i], "GET", "/hello", "", BYTES(""), &reply);
        if (i >= 2)
            assert_true(client_is_at_end(&strangers[i - 2]));
    }
    client_ask(&known, "GET", "/hello", "", BYTES(""), &reply);
    assert_int_equal(http_server_connections(handler_server(handler)), 3);
    client_ask(&strangers[4], "GET", "/hello", "", BYTES(""), &reply);
    client_close(&known);
    for (int i = 0; i < 5; i++)
        client_close(&strangers[i]);
    handler_destroy(handler);
}

/* Bytes that it sends now and then do not give a stranger more time; a proof does. */
static void stranger_has_its_time(void **state)
{
    struct handler *handler =
        handler_start(&(struct http_options){.threads = 2, .strangers_max = 8, .stranger_ms = 300});
    struct client known, silent, talks;
    struct reply reply;

    (void)state;
    client_open(&known, handler_port(handler));
    vouch(&known, 200);
    client_open(&silent, handler_port(handler));
    client_open(&talks, handler_port(handler));
    assert_true(client_printf(&talks, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n"));
    while (!client_has_news(&talks, 20) && client_send(&talks, BYTES("X: y\r\n")))
        continue;
    assert_true(client_await_end(&silent));
    client_ask(&known, "GET", "/hello", "", BYTES(""), &reply);
    assert_int_equal(reply.status, 200);
    client_close(&known);
    client_close(&silent);
    client_close(&talks);
    handler_destroy(handler);
}

/* Those that were vouched for are limited by themselves. */
static void places_of_the_known_are_their_own(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){
        .threads = 1, .connections_max = 1, .strangers_max = 4, .stranger_ms = LONG_MS});
    struct client first, second, strangers[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        client_open(&strangers[i], handler_port(handler));
    client_open(&first, handler_port(handler));
    vouch(&first, 200);
    vouch(&first, 200);
    client_open(&second, handler_port(handler));
    vouch(&second, 503);
    client_close(&first);
    do {
        client_close(&second);
        client_open(&second, handler_port(handler));
        struct reply reply;
        client_ask(&second, "GET", "/vouch", "", BYTES(""), &reply);
        if (reply.status == 200)
            break; /* the server has seen the end of the first */
    } while (true);
    client_close(&second);
    for (int i = 0; i < 4; i++)
        client_close(&strangers[i]);
    handler_destroy(handler);
}

/* Where all places are taken, a new one is one stranger more for a moment: it is answered. */
static void new_one_is_answered_when_all_is_full(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){
        .threads = 1, .connections_max = 1, .strangers_max = 2, .stranger_ms = LONG_MS});
    struct client known, strangers[4];
    struct reply reply;

    (void)state;
    client_open(&known, handler_port(handler));
    vouch(&known, 200);
    for (int i = 0; i < 4; i++) {
        client_open(&strangers[i], handler_port(handler));
        client_ask(&strangers[i], "GET", "/hello", "", BYTES(""), &reply);
        assert_int_equal(reply.status, 200);
    }
    client_close(&known);
    for (int i = 0; i < 4; i++)
        client_close(&strangers[i]);
    handler_destroy(handler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oldest_makes_room),
        cmocka_unit_test(stranger_has_its_time),
        cmocka_unit_test(places_of_the_known_are_their_own),
        cmocka_unit_test(new_one_is_answered_when_all_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
