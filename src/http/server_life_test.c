/*
 * Goal: connections and requests end when they should and not before: at limits, when a client is
 * slow, when it disappears in any phase, when the server stops in any phase. Method: real sockets
 * against a handler that counts what it was given and what was taken back; the sanitizers see what
 * was touched afterwards.
 */
#include "http/server.h"

#include "http/server_private.h"
#include "http/testing/client.h"
#include "http/testing/handler.h"
#include "sys/clock.h"
#include "sys/mailbox.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cmocka.h>

static void server_life_test_expect(struct client *client, int status, const char *body)
{
    struct reply reply;

    assert_true(client_receive(client, "GET", &reply));
    assert_int_equal(reply.status, status);
    assert_true(bytes_equal(reply.body, bytes_of(body)));
}

static void server_life_test_get(struct client *client, const char *path)
{
    client_printf(client, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", path);
}

/* Waits until so many connections are open. */
static void await_connections(struct handler *handler, size_t count)
{
    struct instant begun = instant_now();

    while (http_server_connections(handler_server(handler)) != count)
        if (instant_since_ns(begun, instant_now()) > CLIENT_PATIENCE_MS * UINT64_C(1000000))
            fail_msg("there are still %zu connections",
                     http_server_connections(handler_server(handler)));
}

/* ---- limits ---- */

/* proves: headers-too-large, header_bytes_max (beyond) */
static void refuses_large_heads(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.header_bytes_max = 4096});

    (void)state;
    char value[16384];
    for (size_t size = 3000; size < sizeof(value); size += 1000) {
        memset(value, 'v', size);
        value[size] = '\0';
        struct client client;
        client_open(&client, handler_port(handler));
        client_printf(&client, "GET /hello HTTP/1.1\r\nHost: t\r\nX-Value: %s\r\n\r\n", value);
        struct reply reply;
        /* Far over the limit, the library says so itself and may hang up before we have read it. */
        if (!client_receive(&client, "GET", &reply))
            assert_true(size > 8000);
        else if (reply.status != (size <= 4000 ? 200 : 431))
            fail_msg("%zu bytes: %d", size, reply.status);
        else if (reply.status == 431 && size <= 8000) {
            assert_true(reply_has_header(&reply, "X-Test", "431"));
            assert_int_equal(handler_refusal(handler), HTTP_REFUSED_HEADERS);
            assert_true(client_is_at_end(&client));
        }
        client_close(&client);
    }
    handler_destroy(handler);
}

/* proves: http-excess, connections_max */
static void refuses_too_many_connections(void **state)
{
    struct handler *handler =
        handler_start(&(struct http_options){.connections_max = 3, .threads = 1});

    (void)state;
    struct client clients[3];
    for (int i = 0; i < 3; i++) {
        client_open(&clients[i], handler_port(handler));
        server_life_test_get(&clients[i], "/hello");
        server_life_test_expect(&clients[i], 200, "hello");
    }
    struct client late;
    client_open(&late, handler_port(handler));
    server_life_test_get(&late, "/hello");
    server_life_test_expect(&late, 503, "refused");
    assert_int_equal(handler_refusal(handler), HTTP_REFUSED_CONNECTIONS);
    assert_true(client_is_at_end(&late));
    client_close(&late);
    await_connections(handler, 3);
    client_close(&clients[0]);
    await_connections(handler, 2);
    client_open(&late, handler_port(handler));
    server_life_test_get(&late, "/hello");
    server_life_test_expect(&late, 200, "hello");
    client_close(&late);
    for (int i = 1; i < 3; i++)
        client_close(&clients[i]);
    handler_destroy(handler);
}

/* So many beyond the limit are told so, and the next one is not even heard. */
/* proves: connections-excess */
static void tells_some_of_too_many(void **state)
{
    enum { TOLD = CONNECTIONS_EXCESS_MAX, ALL = 1 + TOLD };
    struct handler *handler = handler_start(&(struct http_options){.connections_max = 1});
    struct client *clients = calloc(ALL + 1, sizeof(*clients));

    (void)state;
    assert_non_null(clients);
    for (int i = 0; i < ALL; i++)
        client_open(&clients[i], handler_port(handler));
    await_connections(handler, ALL); /* several threads accept, in any order */
    client_open(&clients[ALL], handler_port(handler));
    assert_true(client_is_at_end(&clients[ALL]));
    for (int i = 0; i < ALL; i++) {
        server_life_test_get(&clients[i], "/hello");
        server_life_test_expect(&clients[i], i ? 503 : 200, i ? "refused" : "hello");
    }
    for (int i = 0; i <= ALL; i++)
        client_close(&clients[i]);
    handler_destroy(handler);
    free(clients);
}

/* Far beyond the limit nobody is even answered, but the server is well afterwards. */
/* proves: http-excess */
static void sheds_a_flood_of_connections(void **state)
{
    enum { FLOOD = 200 };
    struct handler *handler = handler_start(&(struct http_options){.connections_max = 1});
    struct client *clients = calloc(FLOOD, sizeof(*clients));

    (void)state;
    assert_non_null(clients);
    for (int i = 0; i < FLOOD; i++)
        client_open(&clients[i], handler_port(handler));
    size_t closed = 0;
    for (int i = 0; i < FLOOD; i++)
        closed += client_has_news(&clients[i], i < 66 ? 0 : 1000);
    assert_true(closed >= 100);
    for (int i = 0; i < FLOOD; i++)
        client_close(&clients[i]);
    await_connections(handler, 0);
    struct client last;
    client_open(&last, handler_port(handler));
    server_life_test_get(&last, "/hello");
    server_life_test_expect(&last, 200, "hello");
    client_close(&last);
    handler_destroy(handler);
    free(clients);
}

/* ---- slow clients ---- */

/* Plays a scene in which a client is at work at least so often. On a machine that stalls for longer
 * than the server waits, the scene fails, and is played again with more time. */
static void server_life_test_play(bool (*scene)(uint64_t idle_ms), uint64_t idle_ms)
{
    for (int left = 4; !scene(idle_ms); idle_ms *= 4)
        assert_true(--left > 0);
}

/* proves: http-slow, http_idle (beyond) */
static void closes_silent_connections(void **state)
{
    static const char *const beginnings[] = {
        "",
        "GET /hel",
        "GET /hello HTTP/1.1\r\nHost: t\r\n",
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nabc",
        "POST /early HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nabc",
        "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n",
    };
    struct handler *handler = handler_start(&(struct http_options){.idle_ms = 100});

    (void)state;
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
        struct client client;

        client_open(&client, handler_port(handler));
        client_printf(&client, "%s", beginnings[i]);
        assert_true(client_await_end(&client));
        client_close(&client);
    }
    handler_destroy(handler);
}

static bool server_life_test_slow_heads(uint64_t idle_ms)
{
    static const char *const beginnings[] = {
        "GET /hello HTTP/1.1\r\nX-Slow: ",
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n",
    };
    struct handler *handler = handler_start(&(struct http_options){.idle_ms = idle_ms});
    bool is_slow = true;

    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
        struct client client;

        client_open(&client, handler_port(handler));
        client_printf(&client, "%s", beginnings[i]);
        int bytes = 0;
        while (!client_has_news(&client, (int)idle_ms / 10) && client_send(&client, BYTES("x")))
            assert_true(bytes++ < 1000);
        is_slow = is_slow && bytes > 3;
        client_close(&client);
    }
    handler_destroy(handler);
    return is_slow;
}

/* One byte now and then: each is activity, but the head never ends. The pace is the socket's own:
 * we wait for news, of which there is none until the server closes. */
/* proves: http-slow, http_idle (beyond) */
static void closes_slow_heads_and_bodies(void **state)
{
    (void)state;
    server_life_test_play(server_life_test_slow_heads, 200);
}

static bool server_life_test_patient(uint64_t idle_ms)
{
    static char piece[4096];
    struct handler *handler = handler_start(&(struct http_options){.idle_ms = idle_ms});

    memset(piece, 'x', sizeof(piece));
    struct client waiting;
    client_open(&waiting, handler_port(handler));
    server_life_test_get(&waiting, "/park");
    handler_await_parked(handler, 1);
    struct client client;
    client_open(&client, handler_port(handler));
    client_printf(&client, "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n",
                  24 * 4096);
    bool is_spared = true;
    for (int i = 0; is_spared && i < 24; i++)
        is_spared = !client_has_news(&client, (int)idle_ms / 20) &&
                    client_send(&client, (struct bytes){piece, sizeof(piece)});
    struct reply reply;
    is_spared = is_spared && client_receive(&client, "POST", &reply);
    if (is_spared)
        assert_int_equal(reply.body.size, 24 * 4096);
    handler_answer(handler);
    server_life_test_expect(&waiting, 200, "parked");
    client_close(&client);
    client_close(&waiting);
    handler_destroy(handler);
    return is_spared;
}

/* A client that is slow but steady, and one that waits for its answer, are left alone. */
/* proves: http-slow, http_idle (at) */
static void spares_the_patient(void **state)
{
    (void)state;
    server_life_test_play(server_life_test_patient, 600);
}

static bool server_life_test_slow_reader(uint64_t idle_ms)
{
    struct handler *handler = handler_start(&(struct http_options){.idle_ms = idle_ms});
    struct client silent;

    client_open(&silent, handler_port(handler));
    server_life_test_get(&silent, "/park");
    struct client client;
    client_open_narrow(&client, handler_port(handler), 1);
    server_life_test_get(&client, "/big");
    int pieces = 0;
    char piece[200];
    while (recv(client.socket, piece, sizeof(piece), 0) > 0 &&
           http_server_connections(handler_server(handler)) == 2) {
        assert_true(pieces++ < 1000);
        assert_false(client_has_news(&silent, (int)idle_ms / 15));
    }
    await_connections(handler, 1);
    handler_answer(handler);
    server_life_test_expect(&silent, 200, "parked");
    client_close(&silent);
    client_close(&client);
    handler_destroy(handler);
    return pieces > 3;
}

/* A piece of the answer now and then, too little, by a machine that has room for little: each is
 * activity. The pace is that of a second connection, on which nothing comes. */
/* proves: http-slow */
static void closes_slow_readers(void **state)
{
    (void)state;
    server_life_test_play(server_life_test_slow_reader, 300);
}

static bool server_life_test_steady_reader(uint64_t idle_ms)
{
    static char piece[256 << 10];
    struct handler *handler = handler_start(&(struct http_options){.idle_ms = idle_ms});
    struct client silent;

    client_open(&silent, handler_port(handler));
    server_life_test_get(&silent, "/park");
    struct client client;
    client_open(&client, handler_port(handler));
    server_life_test_get(&client, "/big");
    size_t taken = 0;
    for (ssize_t size = 1; taken < HANDLER_BIG_SIZE && size > 0; taken += (size_t)size) {
        assert_false(client_has_news(&silent, (int)idle_ms / 25));
        size = recv(client.socket, piece, sizeof(piece), 0);
        size = size < 0 ? 0 : size;
    }
    handler_answer(handler);
    server_life_test_expect(&silent, 200, "parked");
    client_close(&client);
    client_close(&silent);
    handler_destroy(handler);
    return taken >= HANDLER_BIG_SIZE;
}

/* Slow but steady: all of it arrives. */
/* proves: http-slow */
static void spares_steady_readers(void **state)
{
    (void)state;
    server_life_test_play(server_life_test_steady_reader, 1000);
}

static void serves_slow_readers(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 1});

    (void)state;
    struct client slow;
    client_open(&slow, handler_port(handler));
    server_life_test_get(&slow, "/big");
    assert_true(client_has_news(&slow, CLIENT_PATIENCE_MS));
    struct client quick;
    /* Its answer fills the socket and waits there; others are served meanwhile. */
    client_open(&quick, handler_port(handler));
    server_life_test_get(&quick, "/hello");
    server_life_test_expect(&quick, 200, "hello");
    struct reply reply;
    assert_true(client_receive(&slow, "GET", &reply));
    assert_int_equal(reply.body.size, HANDLER_BIG_SIZE);
    client_close(&slow);
    client_close(&quick);
    handler_destroy(handler);
}

/* ---- clients that disappear ---- */

enum leaving {
    LEAVE_QUIETLY,
    LEAVE_BY_RESET,
};

static void server_life_test_leave(struct client *client, enum leaving leaving)
{
    if (leaving == LEAVE_BY_RESET)
        client_reset(client);
    else
        client_close(client);
}

/* At every byte of a request whose answer comes from another thread. */
static void survives_clients_that_leave(void **state)
{
    struct bytes request =
        BYTES("POST /bites HTTP/1.1\r\nHost: t\r\nContent-Length: 20\r\n\r\n01234567890123456789");
    /* Room for all, because a busy server finds some after all have left. */
    const unsigned connections_max = (unsigned)request.size + 2;
    struct handler *handler =
        handler_start(&(struct http_options){.threads = 2, .connections_max = connections_max});

    (void)state;
    struct client client;
    for (size_t size = 0; size <= request.size; size++) {
        client_open(&client, handler_port(handler));
        client_send(&client, (struct bytes){request.data, size});
        server_life_test_leave(&client, size % 2 ? LEAVE_QUIETLY : LEAVE_BY_RESET);
    }
    await_connections(handler, 0);
    /* One that only says that it will send no more still gets its answer. */
    client_open(&client, handler_port(handler));
    server_life_test_get(&client, "/hello");
    client_finish(&client);
    server_life_test_expect(&client, 200, "hello");
    assert_true(client_is_at_end(&client));
    client_close(&client);
    handler_destroy(handler);
}

/* While its answer is owed: the request stays until it was given. */
static void keeps_requests_of_clients_that_left(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 2});

    (void)state;
    for (int i = 0; i < 8; i++) {
        struct client client;

        client_open(&client, handler_port(handler));
        if (i % 4 < 2)
            server_life_test_get(&client, "/park");
        else
            client_printf(&client, "POST /held HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nab");
        handler_await_parked(handler, (size_t)i + 1);
        server_life_test_leave(&client, i % 2 ? LEAVE_QUIETLY : LEAVE_BY_RESET);
        if (i % 4 < 2)
            handler_answer(handler);
        else
            handler_resume(handler);
        handler_await_closed(handler, (size_t)i + 1);
    }
    await_connections(handler, 0);
    handler_destroy(handler);
}

/* A handler that owes an answer is told once that the client has ended its side; one that only
 * sends no more gets the answer. */
static void tells_of_clients_that_leave(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 2});
    struct client client;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        client_open(&client, handler_port(handler));
        server_life_test_get(&client, "/park");
        handler_await_parked(handler, i + 1);
        assert_int_equal(handler_left(handler), i);
        server_life_test_leave(&client, i % 2 ? LEAVE_QUIETLY : LEAVE_BY_RESET);
        handler_await_left(handler, i + 1);
        handler_answer(handler);
        handler_await_closed(handler, i + 1);
    }
    client_open(&client, handler_port(handler));
    server_life_test_get(&client, "/park");
    client_finish(&client);
    handler_await_left(handler, 5);
    handler_answer(handler);
    server_life_test_expect(&client, 200, "parked");
    assert_true(client_is_at_end(&client));
    client_close(&client);
    await_connections(handler, 0);
    assert_int_equal(handler_left(handler), 5);
    handler_destroy(handler);
}

static void survives_readers_that_leave(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 1});

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct client client;

        client_open(&client, handler_port(handler));
        server_life_test_get(&client, "/big");
        assert_true(client_has_news(&client, CLIENT_PATIENCE_MS));
        server_life_test_leave(&client, i % 2 ? LEAVE_QUIETLY : LEAVE_BY_RESET);
    }
    handler_await_closed(handler, 4);
    await_connections(handler, 0);
    handler_destroy(handler);
}

/* ---- stopping ---- */

static void *server_life_test_stop(void *argument)
{
    handler_stop(argument);
    return NULL;
}

/* Whether the port refuses connections. */
static void await_refusal(uint16_t port)
{
    struct instant begun = instant_now();

    while (client_can_connect(port))
        if (instant_since_ns(begun, instant_now()) > CLIENT_PATIENCE_MS * UINT64_C(1000000))
            fail_msg("the port still accepts connections");
}

/* proves: stop, drain (at) */
static void answers_what_is_under_way_before_it_stops(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 2});

    (void)state;
    struct client idle;
    client_open(&idle, handler_port(handler));
    server_life_test_get(&idle, "/hello");
    server_life_test_expect(&idle, 200, "hello");
    struct client parked;
    client_open(&parked, handler_port(handler));
    server_life_test_get(&parked, "/park");
    struct client uploading;
    client_open(&uploading, handler_port(handler));
    client_printf(&uploading, "POST /held HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab");
    handler_await_parked(handler, 2);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, server_life_test_stop, handler), 0);
    await_refusal(handler_port(handler));
    /* A further request on an open connection is refused in words. */
    server_life_test_get(&idle, "/hello");
    server_life_test_expect(&idle, 503, "refused");
    assert_int_equal(handler_refusal(handler), HTTP_REFUSED_STOPPING);
    assert_true(client_is_at_end(&idle));
    for (int i = 0; i < 2; i++) /* whichever was parked first */
        handler_answer_or_resume(handler);
    server_life_test_expect(&parked, 200, "parked");
    assert_true(client_is_at_end(&parked));
    client_printf(&uploading, "cd");
    handler_await_parked(handler, 3);
    handler_answer_or_resume(handler);
    server_life_test_expect(&uploading, 200, "abcd");
    assert_true(client_is_at_end(&uploading));
    pthread_join(thread, NULL);
    client_close(&parked);
    client_close(&uploading);
    client_close(&idle);
    handler_destroy(handler);
}

/* Uploads that do not end are cut off; answers that are owed are waited for without limit. */
/* proves: drain (beyond) */
static void stops_after_its_patience(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 2, .drain_ms = 50});

    (void)state;
    struct client idle;
    client_open(&idle, handler_port(handler));
    struct client uploading;
    client_open(&uploading, handler_port(handler));
    client_printf(&uploading, "POST /held HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab");
    handler_await_parked(handler, 1);
    struct client parked;
    client_open(&parked, handler_port(handler));
    server_life_test_get(&parked, "/park");
    handler_await_parked(handler, 2);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, server_life_test_stop, handler), 0);
    handler_answer_or_resume(handler); /* it goes on reading, and nothing comes */
    assert_false(client_has_news(&parked, 200));
    handler_answer_or_resume(handler);
    pthread_join(thread, NULL);
    assert_true(client_await_end(&uploading));
    assert_true(client_await_end(&parked)); /* too late for an answer, or with it */
    assert_true(client_await_end(&idle));
    client_close(&parked);
    client_close(&uploading);
    client_close(&idle);
    handler_destroy(handler);
}

/* ---- starting ---- */

static void tells_why_it_cannot_start(void **state)
{
    struct handler *handler = handler_start(&(struct http_options){.threads = 1});
    struct http_options options = {.address = "127.0.0.1",
                                   .port = handler_port(handler),
                                   .threads = 1,
                                   .connections_max = 1,
                                   .header_bytes_max = 4096,
                                   .idle_ms = 1000};

    (void)state;
    struct http_server *server;
    struct error error;
    assert_int_equal(http_server_start(&options, &server, &error), ERROR_IO);
    assert_non_null(strstr(error.text, "in use"));
    options.address = "localhost";
    assert_int_equal(http_server_start(&options, &server, &error), ERROR_INVALID);
    options.address = "192.0.2.1"; /* for documentation: nobody has it */
    assert_int_equal(http_server_start(&options, &server, &error), ERROR_IO);
    handler_destroy(handler);
}

/* More clients than the library's event buffer holds, in step: none is forgotten. */
static void serves_many_in_step(void **state)
{
    enum {
        CLIENTS = 256,
        ROUNDS = 20,
    };
    struct handler *handler =
        handler_start(&(struct http_options){.threads = 1, .connections_max = CLIENTS});
    struct client *clients = calloc(CLIENTS, sizeof(*clients));

    (void)state;
    assert_non_null(clients);
    for (int i = 0; i < CLIENTS; i++)
        client_open(&clients[i], handler_port(handler));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++)
            server_life_test_get(&clients[i], "/park");
        for (int i = 0; i < CLIENTS; i++)
            handler_answer(handler);
        for (int i = 0; i < CLIENTS; i++)
            server_life_test_expect(&clients[i], 200, "parked");
    }
    for (int i = 0; i < CLIENTS; i++)
        client_close(&clients[i]);
    handler_destroy(handler);
    free(clients);
}

/* ---- on loops of others ---- */

enum { LOOPS = 2 };

/* A task that works beside the server on its thread, as a shard does. */
struct neighbour {
    struct event_loop loop;
    struct event_task task;
    struct mailbox orders; /* woken: to end */
    pthread_t thread;
    atomic_size_t turns;
    bool is_over;
};

static void neighbour_end(struct event_task *task)
{
    struct neighbour *neighbour = list_item(task, struct neighbour, task);
    struct list none;

    list_init(&none);
    neighbour->is_over = mailbox_has_news(&neighbour->orders);
    mailbox_take(&neighbour->orders, &none);
    atomic_fetch_add(&neighbour->turns, 1);
}

static uint64_t neighbour_wait_ns(struct event_task *task)
{
    return mailbox_has_news(&list_item(task, struct neighbour, task)->orders) ? 0 : UINT64_MAX;
}

static void *neighbour_run(void *argument)
{
    struct neighbour *neighbour = argument;

    while (!neighbour->is_over)
        event_loop_turn(&neighbour->loop);
    return NULL;
}

static void neighbours_start(struct neighbour neighbours[LOOPS], struct event_loop *ret_loops[])
{
    for (int i = 0; i < LOOPS; i++) {
        struct neighbour *neighbour = &neighbours[i];

        *neighbour =
            (struct neighbour){.task = {.end = neighbour_end, .wait_ns = neighbour_wait_ns}};
        assert_int_equal(event_loop_init(&neighbour->loop), ERROR_NONE);
        mailbox_init_in(&neighbour->orders, &neighbour->loop);
        event_loop_join(&neighbour->loop, &neighbour->task);
        ret_loops[i] = &neighbour->loop;
        assert_int_equal(pthread_create(&neighbour->thread, NULL, neighbour_run, neighbour), 0);
    }
}

static void neighbours_stop(struct neighbour neighbours[LOOPS])
{
    for (int i = 0; i < LOOPS; i++) {
        mailbox_wake(&neighbours[i].orders);
        pthread_join(neighbours[i].thread, NULL);
        mailbox_deinit(&neighbours[i].orders);
        event_loop_deinit(&neighbours[i].loop);
    }
}

/* Goal: a server on loops that others run spreads few connections evenly, waits at its end for an
 * answer that is owed, and leaves loops that go on. Method: two servers in a row on the loops of
 * two threads; the answer is given while the first one stops. */
static void serves_on_loops_of_others(void **state)
{
    enum { CLIENTS = 8 };
    struct neighbour neighbours[LOOPS];
    struct event_loop *loops[LOOPS];

    (void)state;
    neighbours_start(neighbours, loops);
    for (int round = 0; round < 2; round++) {
        struct handler *handler =
            handler_start(&(struct http_options){.loops = loops, .threads = LOOPS});
        struct client clients[CLIENTS];
        int on_first = 0;
        for (int i = 0; i < CLIENTS; i++) {
            struct reply reply;

            client_open(&clients[i], handler_port(handler));
            server_life_test_get(&clients[i], "/thread");
            assert_true(client_receive(&clients[i], "GET", &reply));
            on_first += bytes_equal(reply.body, BYTES("0"));
        }
        assert_int_equal(on_first, CLIENTS / 2);
        for (int i = 0; i < CLIENTS; i++) {
            server_life_test_get(&clients[i], "/twice");
            server_life_test_expect(&clients[i], 200, "twice");
        }
        server_life_test_get(&clients[0], "/park");
        handler_await_parked(handler, 1);
        pthread_t stopper;
        assert_int_equal(pthread_create(&stopper, NULL, server_life_test_stop, handler), 0);
        handler_answer(handler);
        server_life_test_expect(&clients[0], 200, "parked");
        pthread_join(stopper, NULL);
        for (int i = 0; i < CLIENTS; i++)
            client_close(&clients[i]);
        handler_destroy(handler);
    }
    neighbours_stop(neighbours);
}

/* Goal: clients do not keep other tasks of the thread from their turns. Method: many requests that
 * take longer than a turn may; the other task has a turn for each of them at least. */
static void leaves_turns_to_others(void **state)
{
    enum { CLIENTS = 10 };
    struct neighbour neighbours[LOOPS];
    struct event_loop *loops[LOOPS];

    (void)state;
    neighbours_start(neighbours, loops);
    struct handler *handler = handler_start(&(struct http_options){.loops = loops, .threads = 1});
    struct client clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        client_open(&clients[i], handler_port(handler));
    await_connections(handler, CLIENTS);
    const size_t turns = atomic_load(&neighbours[0].turns);
    for (int i = 0; i < CLIENTS; i++)
        server_life_test_get(&clients[i], "/slow");
    for (int i = 0; i < CLIENTS; i++)
        server_life_test_expect(&clients[i], 200, "slow");
    assert_true(atomic_load(&neighbours[0].turns) - turns >= CLIENTS - 1);
    for (int i = 0; i < CLIENTS; i++)
        client_close(&clients[i]);
    handler_destroy(handler);
    neighbours_stop(neighbours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_large_heads),
        cmocka_unit_test(refuses_too_many_connections),
        cmocka_unit_test(tells_some_of_too_many),
        cmocka_unit_test(sheds_a_flood_of_connections),
        cmocka_unit_test(closes_silent_connections),
        cmocka_unit_test(closes_slow_heads_and_bodies),
        cmocka_unit_test(spares_the_patient),
        cmocka_unit_test(closes_slow_readers),
        cmocka_unit_test(spares_steady_readers),
        cmocka_unit_test(serves_slow_readers),
        cmocka_unit_test(survives_clients_that_leave),
        cmocka_unit_test(keeps_requests_of_clients_that_left),
        cmocka_unit_test(tells_of_clients_that_leave),
        cmocka_unit_test(survives_readers_that_leave),
        cmocka_unit_test(answers_what_is_under_way_before_it_stops),
        cmocka_unit_test(stops_after_its_patience),
        cmocka_unit_test(tells_why_it_cannot_start),
        cmocka_unit_test(serves_many_in_step),
        cmocka_unit_test(serves_on_loops_of_others),
        cmocka_unit_test(leaves_turns_to_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
