/*
 * webhook_fixture.h - what the tests of webhooks stand on: deliveries that can be waited for, and a
 * peer that keeps what it was sent.
 *
 * No test sleeps: each waits until something has happened, and fails after WAIT_S.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_FIXTURE_H
#define TICKWHEEL_DELIVERY_WEBHOOK_FIXTURE_H

#include "delivery/webhook.h"
#include "sys/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_S         60
#define COUNT(array)   (sizeof(array) / sizeof((array)[0]))
#define DUE_MS         UINT64_C(1795219199250) /* 2026-11-20T23:59:59.250Z */
#define FIXTURE_SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

/* ---- deliveries ---- */

struct webhook_fixture {
    struct guard guard;
    struct targets *targets; /* a breaker opens after 20 failures */
    struct webhook_options options;
    struct webhook *webhook;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t done_count; /* guarded by lock */
};

/* A delivery with its timer, and how often it came back. */
struct webhook_shipment {
    struct delivery delivery;
    struct timer *timer;
    size_t done_count; /* guarded by the fixture's lock */
};

static inline void webhook_fixture_done(void *context, struct list *deliveries)
{
    struct webhook_fixture *fixture = context;
    struct list *link;

    pthread_mutex_lock(&fixture->lock);
    while ((link = list_pop(deliveries))) {
        list_item(link, struct webhook_shipment, delivery.link)->done_count++;
        fixture->done_count++;
    }
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

/* Initializes a fixture. The test then changes fixture->options as needed, and calls
 * webhook_fixture_start. */
static inline void webhook_fixture_init(struct webhook_fixture *fixture, const char *allow)
{
    *fixture = (struct webhook_fixture){0};
    assert_int_equal(guard_init(&fixture->guard, allow, NULL), ERROR_NONE);
    fixture->targets =
        targets_create(&(struct targets_options){{20, 10000, 300000}, 0, 1, NULL, NULL});
    assert_non_null(fixture->targets);
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    fixture->options = (struct webhook_options){
        .secrets = FIXTURE_SECRET,
        .guard = &fixture->guard,
        .targets = fixture->targets,
        .user_agent = "tickwheel/test",
        .connections_max = 256,
        .connect_timeout_ms = 10000,
        .connection_age_ms_max = 300000,
        .connection_requests_max = 500,
        .response_bytes_max = 65536,
        .done = webhook_fixture_done,
        .context = fixture,
    };
}

static inline void webhook_fixture_start(struct webhook_fixture *fixture)
{
    struct error error = {0};

    if (webhook_start(&fixture->options, &fixture->webhook, &error) ||
        webhook_begin(fixture->webhook, &error))
        fail_msg("%s", error.text);
}

static inline void webhook_fixture_stop(struct webhook_fixture *fixture)
{
    webhook_stop(fixture->webhook);
    targets_destroy(fixture->targets);
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
}

static inline void webhook_shipment_init_texts(struct webhook_shipment *shipment,
                                               const struct timer_texts *texts)
{
    *shipment = (struct webhook_shipment){.timer = timer_alloc(texts)};
    assert_non_null(shipment->timer);
    shipment->timer->due = (struct wall){DUE_MS};
    shipment->timer->id = (struct timer_id){{DUE_MS}, 7, TIMER_SERIAL(3, 42)};
    shipment->delivery.timer = shipment->timer;
    shipment->delivery.attempt = 1;
    shipment->delivery.epoch = 9;
    /* Values that the sender must overwrite; if one is still there, a field was forgotten. */
    shipment->delivery.outcome.retry_after_ms = 4711;
    shipment->delivery.outcome.result = DELIVERY_ENDED;
}

static inline void webhook_shipment_init(struct webhook_shipment *shipment, const char *target)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{\"order\": 42}")};

    webhook_shipment_init_texts(shipment, &texts);
}

static inline void shipment_deinit(struct webhook_shipment *shipment)
{
    timer_free(shipment->timer);
}

static inline void webhook_fixture_post(struct webhook_fixture *fixture,
                                        struct webhook_shipment *shipments, size_t count)
{
    struct list list;

    list_init(&list);
    for (size_t i = 0; i < count; i++)
        list_push(&list, &shipments[i].delivery.link);
    webhook_post(fixture->webhook, &list);
    assert_true(list_is_empty(&list));
}

/* Waits until `count` deliveries have come back in total. */
static inline void webhook_fixture_wait(struct webhook_fixture *fixture, size_t count)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&fixture->lock);
    while (fixture->done_count < count)
        if (pthread_cond_timedwait(&fixture->changed, &fixture->lock, &until) != 0)
            break;
    if (fixture->done_count < count)
        fail_msg("only %zu of %zu came back", fixture->done_count, count);
    pthread_mutex_unlock(&fixture->lock);
}

static inline size_t webhook_fixture_done_count(struct webhook_fixture *fixture,
                                                const struct webhook_shipment *shipments,
                                                size_t count)
{
    size_t sum = 0;

    pthread_mutex_lock(&fixture->lock);
    for (size_t i = 0; i < count; i++)
        sum += shipments[i].done_count;
    pthread_mutex_unlock(&fixture->lock);
    return sum;
}

/* Posts one delivery, and waits until it has come back. */
static inline void webhook_fixture_deliver(struct webhook_fixture *fixture,
                                           struct webhook_shipment *shipment)
{
    uint64_t before_us = wall_now_us();
    size_t wanted = fixture->done_count + 1;

    webhook_fixture_post(fixture, shipment, 1);
    webhook_fixture_wait(fixture, wanted);
    assert_int_equal(shipment->done_count, 1);
    assert_in_range(shipment->delivery.started_us, before_us, wall_now_us());
    assert_in_range(shipment->delivery.ended_us, shipment->delivery.started_us, wall_now_us());
}

/* Returns the outcome of a delivery to `target`. */
static inline struct delivery_outcome webhook_fixture_outcome(struct webhook_fixture *fixture,
                                                              const char *target)
{
    struct webhook_shipment shipment;

    webhook_shipment_init(&shipment, target);
    webhook_fixture_deliver(fixture, &shipment);
    shipment_deinit(&shipment);
    return shipment.delivery.outcome;
}

/* ---- a peer ---- */

/* What a peer does with a connection after the first answer. */
enum peer_manner {
    PEER_KEEPS,     /* answers one request after the other */
    PEER_HANGS_UP,  /* closes the connection after each answer, without announcing it */
    PEER_IS_ABSENT, /* reads the second request, and closes the connection without an answer */
};

/* A server that handles one connection after the other. It answers each request with `response`,
 * and stores the last request. */
struct webhook_peer {
    const char *response;
    size_t response_size;
    SSL_CTX *tls; /* NULL serves plain HTTP */
    enum peer_manner manner;
    bool is_parallel; /* true for a thread for each connection; set before the first one */
    unsigned port;
    int listen_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    char *request; /* ends with a NUL; guarded by lock, as are the fields below */
    size_t request_size;
    size_t connections, closed, requests;
    struct in_addr local; /* address that the client called */
};

#define PEER_REQUEST_MAX (4 << 20)

struct peer_stream {
    int fd;
    SSL *tls;
};

static inline ssize_t peer_read(struct peer_stream *stream, char *data, size_t size)
{
    return stream->tls ? SSL_read(stream->tls, data, (int)size) : recv(stream->fd, data, size, 0);
}

static inline void peer_write(struct peer_stream *stream, const char *data, size_t size)
{
    if (stream->tls)
        SSL_write(stream->tls, data, (int)size);
    else
        while (size > 0) {
            ssize_t sent = send(stream->fd, data, size, MSG_NOSIGNAL);

            if (sent <= 0)
                return;
            data += sent;
            size -= (size_t)sent;
        }
}

/* Reads a whole request into `data`. Returns false if the connection ended before. */
static inline bool peer_read_request(struct webhook_peer *peer, struct peer_stream *stream,
                                     char *data)
{
    size_t size = 0, wanted = SIZE_MAX;

    while (size < wanted) {
        ssize_t got = peer_read(stream, data + size, PEER_REQUEST_MAX - size);
        const char *end, *length;

        if (got <= 0)
            return false;
        size += (size_t)got;
        data[size] = '\0';
        end = strstr(data, "\r\n\r\n");
        length = strstr(data, "Content-Length: ");
        if (end && wanted == SIZE_MAX)
            wanted = (size_t)(end - data) + 4 + (length ? strtoul(length + 16, NULL, 10) : 0);
    }
    pthread_mutex_lock(&peer->lock);
    memcpy(peer->request, data, size + 1);
    peer->request_size = size;
    peer->requests++;
    pthread_mutex_unlock(&peer->lock);
    return true;
}

static inline void peer_serve(struct webhook_peer *peer, int fd, char *data)
{
    struct peer_stream stream = {.fd = fd};
    struct sockaddr_in local = {0};
    socklen_t size = sizeof(local);

    getsockname(fd, (struct sockaddr *)&local, &size);
    pthread_mutex_lock(&peer->lock);
    peer->connections++;
    peer->local = local.sin_addr;
    pthread_mutex_unlock(&peer->lock);
    if (peer->tls) {
        stream.tls = SSL_new(peer->tls);
        SSL_set_fd(stream.tls, fd);
    }
    if (!stream.tls || SSL_accept(stream.tls) == 1)
        while (peer_read_request(peer, &stream, data)) {
            peer_write(&stream, peer->response, peer->response_size);
            if (peer->manner == PEER_IS_ABSENT)
                peer_read_request(peer, &stream, data);
            if (peer->manner != PEER_KEEPS)
                break;
        }
    if (stream.tls)
        SSL_free(stream.tls);
    close(fd);
    pthread_mutex_lock(&peer->lock);
    peer->closed++;
    pthread_mutex_unlock(&peer->lock);
}

/* Waits until every connection that the peer accepted has ended. */
static inline void peer_wait_closed(struct webhook_peer *peer)
{
    const struct instant until = instant_add_ms(instant_now(), WAIT_S * 1000);

    for (bool is_over = false; !is_over; sched_yield()) {
        pthread_mutex_lock(&peer->lock);
        is_over = peer->closed == peer->connections;
        pthread_mutex_unlock(&peer->lock);
        if (instant_now().ns > until.ns)
            fail_msg("a connection is still open");
    }
}

struct peer_connection {
    struct webhook_peer *peer;
    int fd;
};

static inline void *peer_run_one(void *context)
{
    struct peer_connection *connection = context;
    char *data = malloc(PEER_REQUEST_MAX + 1);

    assert_non_null(data);
    peer_serve(connection->peer, connection->fd, data);
    free(data);
    free(connection);
    return NULL;
}

static inline void peer_serve_beside(struct webhook_peer *peer, int fd)
{
    struct peer_connection *connection = malloc(sizeof(*connection));
    pthread_t thread;

    assert_non_null(connection);
    *connection = (struct peer_connection){peer, fd};
    assert_int_equal(pthread_create(&thread, NULL, peer_run_one, connection), 0);
    pthread_detach(thread);
}

static inline void *peer_run(void *context)
{
    struct webhook_peer *peer = context;
    char *data = malloc(PEER_REQUEST_MAX + 1);
    sigset_t signals;
    int fd;

    sigemptyset(&signals);
    /* OpenSSL may write to a closed socket. The signal is blocked only in this thread, because
     * elsewhere that would hide mistakes. */
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    while (data && (fd = accept(peer->listen_fd, NULL, NULL)) >= 0) /* ended by peer_stop */
        if (peer->is_parallel)
            peer_serve_beside(peer, fd);
        else
            peer_serve(peer, fd, data);
    free(data);
    return NULL;
}

static inline void peer_start_with(struct webhook_peer *peer, const char *host,
                                   const char *response, SSL_CTX *tls, enum peer_manner manner)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(host)};
    socklen_t size = sizeof(address);

    *peer = (struct webhook_peer){
        .response = response, .response_size = strlen(response), .tls = tls, .manner = manner};
    peer->request = calloc(1, PEER_REQUEST_MAX + 1);
    peer->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_non_null(peer->request);
    assert_true(peer->listen_fd >= 0);
    assert_int_equal(bind(peer->listen_fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(peer->listen_fd, 100), 0);
    getsockname(peer->listen_fd, (struct sockaddr *)&address, &size);
    peer->port = ntohs(address.sin_port);
    pthread_mutex_init(&peer->lock, NULL);
    assert_int_equal(pthread_create(&peer->thread, NULL, peer_run, peer), 0);
}

static inline void peer_start(struct webhook_peer *peer, const char *host, const char *response,
                              SSL_CTX *tls)
{
    peer_start_with(peer, host, response, tls, PEER_KEEPS);
}

/* Stops the peer. The webhooks must be stopped first, because the peer serves a connection until it
 * is closed. */
static inline void peer_stop(struct webhook_peer *peer)
{
    shutdown(peer->listen_fd, SHUT_RDWR);
    pthread_join(peer->thread, NULL);
    if (peer->is_parallel)
        peer_wait_closed(peer);
    close(peer->listen_fd);
    pthread_mutex_destroy(&peer->lock);
    free(peer->request);
}

#endif
