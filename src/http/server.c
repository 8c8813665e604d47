/* server.c - starts and stops the HTTP server: listener, loops, drain. */
#include "http/server_private.h"

#include "sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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
        calloc(1, sizeof(*server) + options->threads * sizeof(server->loops[0]));

    if (!server)
        return NULL;
    server->options = *options;
    if (options->identity)
        server->identity = tls_identity_hold(options->identity);
    pthread_mutex_init(&server->identity_lock, NULL);
    pthread_mutex_init(&server->lock, NULL);
    instant_condition_init(&server->changed);
    return server;
}

static void server_wake_loops(struct http_server *server)
{
    for (unsigned i = 0; i < server->started_count; i++)
        loop_wake(server->loops[i]);
}

/* Waits until a count of loops, guarded by the lock, includes all of them. */
static void server_wait_for_loops(struct http_server *server, const unsigned *count)
{
    server_wake_loops(server);
    pthread_mutex_lock(&server->lock);
    while (*count < server->started_count)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

/* Stops accepting connections. From then on the system refuses clients, and the server refuses
 * further requests. */
static void server_stop_listening(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->is_stopping, true);
    pthread_mutex_unlock(&server->lock);
    server_wait_for_loops(server, &server->quiet_count);
    close(server->listener);
}

/* Waits until every request in flight has ended, for at most drain_ms. */
static void server_drain(struct http_server *server)
{
    const struct timespec until =
        instant_timespec(instant_add_ms(instant_now(), server->options.drain_ms));

    pthread_mutex_lock(&server->lock);
    while (atomic_load(&server->active) > 0)
        if (pthread_cond_timedwait(&server->changed, &server->lock, &until) == ETIMEDOUT)
            break;
    pthread_mutex_unlock(&server->lock);
}

/* Closes all connections, and waits for the answers that other threads still have to give. */
static void server_close(struct http_server *server)
{
    atomic_store(&server->is_closing, true);
    server_wait_for_loops(server, &server->left_count);
    for (unsigned i = 0; i < server->started_count; i++)
        loop_join(server->loops[i]);
    for (unsigned i = 0; i < server->loop_count; i++)
        loop_destroy(server->loops[i]);
    server_free(server);
}

/* Creates all loops before the first one runs, and runs all before the first one accepts
 * connections, because a loop passes connections to others. */
static enum error_code server_start_loops(struct http_server *server, struct error *ret_error)
{
    for (unsigned i = 0; i < server->options.threads; i++)
        if (loop_create(server, i))
            return error_set(ret_error, ERROR_NO_MEMORY,
                             "start the server: no memory or file descriptors");
    int error = 0;
    while (!error && server->started_count < server->loop_count) {
        error = loop_start(server->loops[server->started_count]);
        server->started_count += !error;
    }
    for (unsigned i = 0; i < server->loop_count && !error; i++)
        if (!loop_listen_on(server->loops[i]))
            error = errno;
    return error ? error_set(ret_error, ERROR_IO, "start the server: %s", strerror(error))
                 : ERROR_NONE;
}

enum error_code http_server_start(const struct http_options *options,
                                  struct http_server **ret_server, struct error *ret_error)
{
    struct http_server *server = server_alloc(options);

    if (!server)
        return error_set(ret_error, ERROR_NO_MEMORY, "start the server");
    enum error_code error =
        loop_listen(options->address, options->port, &server->listener, &server->port, ret_error);
    if (error) {
        server_free(server);
        return error;
    }
    error = server_start_loops(server, ret_error);
    if (error) {
        server_stop_listening(server);
        server_close(server);
        return error;
    }
    *ret_server = server;
    return ERROR_NONE;
}

void http_server_stop(struct http_server *server)
{
    if (!server)
        return;
    server_stop_listening(server);
    server_drain(server);
    server_close(server);
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
    return atomic_load(&server->connection_count);
}
