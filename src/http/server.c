/* server.c - starts and stops the HTTP server: listener, workers, drain. */
#include "http/server_private.h"

#include "sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void server_worker_turned(void *context)
{
    const struct http_worker *worker = context;
    const struct http_options *options = &worker->server->options;

    if (options->handler->turned)
        options->handler->turned(options->context, worker->index);
}

/* One more daemon with its loop. */
static enum error_code server_start_worker(struct http_server *server, struct error *ret_error)
{
    struct http_worker *worker = &server->workers[server->worker_count];

    worker->server = server;
    worker->index = server->worker_count;
    worker->daemon = exchange_start(worker);
    if (!worker->daemon)
        return error_set(ret_error, ERROR_IO, "start the server: %s",
                         errno ? strerror(errno) : "libmicrohttpd does not");
    const struct loop_options options = {.daemon = worker->daemon,
                                         .listener = server->listener,
                                         .number = worker->index,
                                         .turned = server_worker_turned,
                                         .context = worker};
    enum error_code error = loop_start(&worker->loop, &options, ret_error);
    if (error) {
        MHD_quiesce_daemon(worker->daemon); /* or it would close the socket of all */
        MHD_stop_daemon(worker->daemon);
        return error;
    }
    server->worker_count++;
    return ERROR_NONE;
}

/* No new connections from here on: clients are refused by the system. */
static void server_stop_listening(struct http_server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++)
        loop_quiesce(&server->workers[i].loop);
    close(server->listener);
}

/* With all requests closed, or to be closed. */
static void server_stop_workers(struct http_server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        loop_stop(&server->workers[i].loop);
        MHD_stop_daemon(server->workers[i].daemon);
    }
}

static void server_free(struct http_server *server)
{
    tls_identity_release(server->identity);
    pthread_mutex_destroy(&server->identity_lock);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

static struct http_server *server_alloc(const struct http_options *options)
{
    struct http_server *server =
        calloc(1, sizeof(*server) + options->threads * sizeof(server->workers[0]));

    if (!server)
        return NULL;
    server->options = *options;
    if (options->identity)
        server->identity = tls_identity_hold(options->identity);
    pthread_mutex_init(&server->identity_lock, NULL);
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return server;
}

enum error_code http_server_start(const struct http_options *options,
                                  struct http_server **ret_server, struct error *ret_error)
{
    struct http_server *server = server_alloc(options);

    if (!server)
        return error_set(ret_error, ERROR_NO_MEMORY, "start the server");
    enum error_code error =
        loop_listen(options->address, options->port, &server->listener, &server->port, ret_error);
    if (error)
        goto failed;
    error = connections_start(&server->connections, options->connections_max, options->idle_ms,
                              ret_error);
    if (error)
        goto failed_connections;
    for (unsigned i = 0; i < options->threads && !error; i++)
        error = server_start_worker(server, ret_error);
    if (error)
        goto failed_workers;
    *ret_server = server;
    return ERROR_NONE;

failed_workers:
    server_stop_listening(server);
    server_stop_workers(server);
    connections_stop(&server->connections);
    server_free(server);
    return error;
failed_connections:
    close(server->listener);
failed:
    server_free(server);
    return error;
}

/* Waits until every request under way has ended, at most drain_ms. */
static void server_drain(struct http_server *server)
{
    uint64_t drain_ns = server->options.drain_ms * 1000000;
    uint64_t until_ns = instant_now().ns + drain_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                             .tv_nsec = (long)(until_ns % 1000000000)};

    pthread_mutex_lock(&server->lock);
    while (server->active > 0)
        if (pthread_cond_timedwait(&server->changed, &server->lock, &until) == ETIMEDOUT)
            break;
    /* Sleeping connections cannot be closed, and from here on none falls asleep. */
    server->is_closing = true;
    while (server->held > 0)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

void http_server_stop(struct http_server *server)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->is_stopping, true);
    pthread_mutex_unlock(&server->lock);
    server_stop_listening(server);
    server_drain(server);
    server_stop_workers(server);
    connections_stop(&server->connections);
    server_free(server);
}

void http_server_set_identity(struct http_server *server, struct tls_identity *identity)
{
    pthread_mutex_lock(&server->identity_lock);
    assert(server->identity);
    struct tls_identity *old = server->identity;
    server->identity = tls_identity_hold(identity);
    pthread_mutex_unlock(&server->identity_lock);
    tls_identity_release(old);
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

size_t http_server_connections(struct http_server *server)
{
    return connections_count(&server->connections);
}
