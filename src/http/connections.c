/* connections.c - the open connections of a server, and the thread that closes idle ones. */
#include "http/connections.h"

#include "sys/clock.h"
#include "sys/thread.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
    PROGRESS_BYTES_MIN = 4096,
    SWEEP_MS_MIN = 10,
    SWEEP_MS_MAX = 1000,
};

static uint64_t connections_sweep_period_ms(const struct connections *connections)
{
    uint64_t ms = connections->idle_ns_ / 1000000 / 4;

    return ms < SWEEP_MS_MIN ? SWEEP_MS_MIN : ms > SWEEP_MS_MAX ? SWEEP_MS_MAX : ms;
}

/* Connections that wait for their client, looked at together. */
struct connections_sweep_batch {
    struct pollfd waiting[256];
    nfds_t count;
};

/* libmicrohttpd overlooks the end of a connection that comes together with data: it waits for
 * another event that never comes. This causes the event; received data can still be read. */
static void connections_nudge_ended(struct connections_sweep_batch *batch)
{
    if (poll(batch->waiting, batch->count, 0) > 0)
        for (nfds_t i = 0; i < batch->count; i++)
            if (batch->waiting[i].revents & POLLRDHUP)
                shutdown(batch->waiting[i].fd, SHUT_RD);
    batch->count = 0;
}

/* Under the lock: connection_close takes it before the socket's number can be used again for
 * another connection. */
static void connections_sweep(struct connections *connections, uint64_t now_ns)
{
    struct connections_sweep_batch batch = {.count = 0};

    LIST_FOR_EACH (&connections->open_, link) {
        struct connection *connection = list_item(link, struct connection, link);
        uint64_t since = atomic_load_explicit(&connection->waiting_since, memory_order_relaxed);

        if (!since)
            continue;
        if (now_ns > since && now_ns - since > connections->idle_ns_) {
            shutdown(connection->socket, SHUT_RDWR);
            continue;
        }
        batch.waiting[batch.count++] =
            (struct pollfd){.fd = connection->socket, .events = POLLRDHUP};
        if (batch.count == sizeof(batch.waiting) / sizeof(batch.waiting[0]))
            connections_nudge_ended(&batch);
    }
    connections_nudge_ended(&batch);
}

static void *connections_sweeper_run(void *argument)
{
    struct connections *connections = argument;
    uint64_t period_ns = connections_sweep_period_ms(connections) * 1000000;

    pthread_mutex_lock(&connections->lock_);
    while (!connections->is_stopping_) {
        uint64_t until_ns = instant_now().ns + period_ns;
        struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                 .tv_nsec = (long)(until_ns % 1000000000)};

        pthread_cond_timedwait(&connections->stop_, &connections->lock_, &until);
        connections_sweep(connections, instant_now().ns);
    }
    pthread_mutex_unlock(&connections->lock_);
    return NULL;
}

enum error_code connections_start(struct connections *connections, size_t count_max,
                                  uint64_t idle_ms, struct error *ret_error)
{
    memset(connections, 0, sizeof(*connections));
    list_init(&connections->open_);
    connections->count_max_ = count_max;
    connections->idle_ns_ = idle_ms > UINT64_MAX / 1000000 ? UINT64_MAX : idle_ms * 1000000;
    pthread_mutex_init(&connections->lock_, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&connections->stop_, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error =
        thread_start(&connections->sweeper_, connections_sweeper_run, connections, "http-idle");
    if (!error)
        return ERROR_NONE;
    pthread_cond_destroy(&connections->stop_);
    pthread_mutex_destroy(&connections->lock_);
    return error_set(ret_error, ERROR_NO_MEMORY, "start a thread: %s", strerror(error));
}

void connections_stop(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock_);
    connections->is_stopping_ = true;
    pthread_cond_signal(&connections->stop_);
    pthread_mutex_unlock(&connections->lock_);
    pthread_join(connections->sweeper_, NULL);
    pthread_cond_destroy(&connections->stop_);
    pthread_mutex_destroy(&connections->lock_);
}

size_t connections_count(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock_);
    size_t count = connections->count_;
    pthread_mutex_unlock(&connections->lock_);
    return count;
}

struct connection *connection_open(struct connections *connections, int socket)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return NULL;
    connection->socket = socket;
    connection_wait(connection);
    pthread_mutex_lock(&connections->lock_);
    list_push(&connections->open_, &connection->link);
    connection->is_excess = ++connections->count_ > connections->count_max_;
    if (connections->count_ > connections->count_max_ + CONNECTIONS_EXCESS_MAX)
        shutdown(socket, SHUT_RDWR);
    pthread_mutex_unlock(&connections->lock_);
    return connection;
}

void connection_close(struct connections *connections, struct connection *connection)
{
    if (!connection)
        return;
    pthread_mutex_lock(&connections->lock_);
    list_remove(&connection->link);
    connections->count_--;
    pthread_mutex_unlock(&connections->lock_);
    free(connection->announced);
    free(connection);
}

void connection_wait(struct connection *connection)
{
    connection->progress_bytes = 0;
    atomic_store_explicit(&connection->waiting_since, instant_now().ns, memory_order_relaxed);
}

void connection_wait_on(struct connection *connection)
{
    if (atomic_load_explicit(&connection->waiting_since, memory_order_relaxed) == 0)
        connection_wait(connection);
}

void connection_wait_over(struct connection *connection)
{
    atomic_store_explicit(&connection->waiting_since, 0, memory_order_relaxed);
}

void connection_progress(struct connection *connection, size_t size)
{
    connection->progress_bytes += size;
    if (connection->progress_bytes >= PROGRESS_BYTES_MIN)
        connection_wait(connection);
}
