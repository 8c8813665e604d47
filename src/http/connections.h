/*
 * connections.h - the open connections of a server: counted, and closed when they keep it waiting.
 *
 * The server marks a connection while it waits for the client's next bytes. One whose mark is older
 * than `idle_ms` is shut down, so a client that sends one byte now and then (slow loris) holds its
 * place no longer than a silent one.
 *
 * Ownership  A connection is the table's from connection_open to connection_close.
 * Threads    Any; one connection's functions from one thread at a time.
 */
#ifndef TICKWHEEL_HTTP_CONNECTIONS_H
#define TICKWHEEL_HTTP_CONNECTIONS_H

#include "base/error.h"
#include "base/list.h"
#include "base/time.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

struct http_request;
struct tls_identity;

/* Connections over the limit that may exist at a time, each to be refused with an answer; further
 * connections are shut down at once. */
#define CONNECTIONS_EXCESS_MAX 64u

struct connection {
    struct list link; /* guarded by connections.lock_ */
    int socket;
    struct tls_identity *identity;  /* that it was shown; NULL: without TLS */
    struct http_request *announced; /* its target is there, no more so far; owned */
    bool is_excess;                 /* opened beyond the limit */
    _Atomic uint64_t waiting_since; /* instant in ns; 0: the server does not wait for the client */
    size_t progress_bytes;          /* of a body, since the mark was last moved */
};

struct connections {
    pthread_mutex_t lock_;
    pthread_cond_t stop_;
    struct list open_; /* guarded by lock_ */
    size_t count_;     /* guarded by lock_ */
    size_t count_max_;
    uint64_t idle_ns_;
    bool is_stopping_; /* guarded by lock_ */
    pthread_t sweeper_;
};

enum error_code connections_start(struct connections *connections, size_t count_max,
                                  uint64_t idle_ms, struct error *ret_error);

/* After the last connection was closed. */
void connections_stop(struct connections *connections);

size_t connections_count(struct connections *connections);

/* NULL when out of memory. It begins with the mark set. */
struct connection *connection_open(struct connections *connections, int socket);

/* Before the socket is closed. NULL is allowed. */
void connection_close(struct connections *connections, struct connection *connection);

/* Sets the mark: the server waits for the client from now on. wait_on: sets it unless it is set.
 * wait_over: removes it. */
void connection_wait(struct connection *connection);
void connection_wait_on(struct connection *connection);
void connection_wait_over(struct connection *connection);

/* `size` bytes of a body came: the mark moves on once they are worth it (4 KiB), which is the least
 * that a client must send within idle_ms. */
void connection_progress(struct connection *connection, size_t size);

#endif
