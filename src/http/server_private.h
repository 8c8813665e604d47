/*
 * server_private.h - what server.c (start and stop), exchange.c (the library's calls) and request.c
 * (sleeping, waking, answering) share. No other file includes it.
 */
#ifndef TICKWHEEL_HTTP_SERVER_PRIVATE_H
#define TICKWHEEL_HTTP_SERVER_PRIVATE_H

#include "http/connections.h"
#include "http/loop.h"
#include "http/server.h"

enum http_turn {
    TURN_MOVING,
    TURN_ASKED,
    TURN_SUSPENDED,
};

/* A daemon of libmicrohttpd and the thread that runs it. All workers share the listening socket. */
struct http_worker {
    struct http_server *server;
    struct MHD_Daemon *daemon;
    struct loop loop;
    unsigned index;
};

/* libmicrohttpd takes texts without const that it only reads. */
static inline void *http_unconst(const char *text)
{
    return (void *)(uintptr_t)text;
}

struct http_server {
    struct http_options options;
    struct connections connections;
    int listener;
    uint16_t port;
    pthread_mutex_t identity_lock;
    struct tls_identity *identity; /* guarded by identity_lock; NULL: without TLS */
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* active or held fell while stopping */
    size_t active;           /* requests begun and not closed; guarded by lock */
    size_t held;             /* of these, in a call of the handler or asleep; guarded by lock */
    atomic_bool is_stopping; /* written under lock */
    bool is_closing;         /* no further request may be held; guarded by lock */
    unsigned worker_count;
    struct http_worker workers[];
};

struct http_request {
    struct http_server *server;
    struct http_worker *worker; /* whose thread calls the handler */
    struct MHD_Connection *mhd;
    struct connection *connection;
    void *user;
    atomic_int turn; /* enum http_turn */
    bool is_begun, is_ended, is_answered;
    bool has_paused; /* within this call of `body` */
    bool is_refused; /* by the server itself: the connection is closed afterwards */
    bool hangs_up;
    uint64_t content_length, discarded_bytes;
    struct http_response response; /* with is_answered */
    struct instant begun_at;
    const char *method;
    size_t target_size;
    char target[];
};

/* ---- request.c ---- */

/* Call before a call of the handler that may leave the request asleep. The server does not stop
 * until the request is released or woken. False: the server is closing, and no request may begin.
 */
bool request_hold(struct http_request *request);
void request_release(struct http_request *request);

/* Puts the held request to sleep until `turn` is MOVING. */
void request_fall_asleep(struct http_request *request);

/* Between the chunks of a body the library calls on although the connection sleeps. */
bool request_is_asleep(const struct http_request *request);

/* Hands the answer to the library. */
enum MHD_Result request_queue(struct http_request *request);

/* Counts down and signals http_server_stop. The server may be gone when this returns. */
void server_count_down(struct http_server *server, size_t *count);

/* ---- exchange.c ---- */

/* A daemon of the library that calls the worker's handler. NULL, with errno if the library tells.
 */
struct MHD_Daemon *exchange_start(struct http_worker *worker);

#endif
