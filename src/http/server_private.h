/*
 * server_private.h - what server.c (start and stop), listener.c (the socket), loop.c (a thread and
 * its connections), connection.c (one connection), request.c (one request) and response.c (the
 * bytes of an answer) share. No other file includes it.
 */
#ifndef TICKWHEEL_HTTP_SERVER_PRIVATE_H
#define TICKWHEEL_HTTP_SERVER_PRIVATE_H

#include "base/list.h"
#include "http/chunk.h"
#include "http/head.h"
#include "http/server.h"
#include "sys/mailbox.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

/* Connections over the limit that may exist at a time, each to be refused with an answer; further
 * connections are closed at once. */
#define CONNECTIONS_EXCESS_MAX 64u

/* Requests of a connection that are begun and not closed. */
#define PIPELINE_MAX 16u

/* Which thread moves a request on. A call of the handler that may leave it to another begins with
 * ASKED. If it is still ASKED after the call, the loop makes it ASLEEP and leaves it alone. The
 * thread that answers or resumes makes it MOVING, and posts it to its loop if it was ASLEEP: so it
 * is posted exactly once, and not at all if the answer came within the call. */
enum request_turn {
    TURN_MOVING,
    TURN_ASKED,
    TURN_ASLEEP,
};

struct http_request {
    struct list link;   /* of connection.requests, later of connection.leaving */
    struct list posted; /* of loop.posts, later of loop.woken */
    struct connection *connection;
    void *user;
    atomic_int turn; /* enum request_turn */
    bool is_asleep;  /* from request_is_moving until its post arrives; then the other fields
                             are another thread's */
    bool is_ended;   /* `end` was called */
    bool is_answered;
    bool has_paused;      /* within this call of `body` */
    bool ends_connection; /* the answer is the last one */
    bool hangs_up;
    bool has_left;                 /* `left` was called */
    bool is_stream;                /* answered by http_request_stream, and not at its end */
    atomic_bool is_posted;         /* a stream that was woken: on loop.posted, or about to be */
    uint64_t discarded_bytes;      /* of the body, after the answer */
    uint64_t leaves_at;            /* the place in the connection's output where its answer ends */
    struct http_response response; /* with is_answered */
    struct instant begun_at;
    struct head_part method, target;
    bool is_http_1_0;
    uint64_t content_length; /* as http_request_content_length tells */
    size_t field_count;
    struct head_field *fields; /* behind the request, with the head */
    const char *head;
};

/* connection.c tells when `in` and `out` are used. */
struct connection {
    struct list link;     /* of loop.open */
    struct list waiting;  /* of loop.waiting or loop.lingering, if it waits for the client; of
                            loop.silent, if it is a stream that has sent everything */
    struct list work;     /* of loop.work or loop.next, if there is something to do; before that, of
                            loop.incoming */
    struct list stranger; /* of loop.strangers, until it is vouched for */
    struct instant accepted_at; /* of a stranger */
    struct in6_addr peer;       /* IPv4 is mapped */
    bool is_vouched;            /* counted in server.vouched_count */
    void *sponsor;              /* the handler's; or NULL */
    struct http_loop *loop;
    struct event_source source;
    int socket;              /* -1: broken */
    struct tls_session *tls; /* NULL: without TLS */
    struct instant waits_since;
    struct list requests; /* begun and without an answer in `out`, in order */
    struct list leaving;  /* with an answer in `out`, in order */
    unsigned request_count;
    struct http_request *reading; /* whose body is being read, the last of `requests`; or NULL */
    struct chunk_decoder chunks;  /* of its body */
    uint64_t body_left;           /* of its body, if it does not come in chunks */
    size_t head_seen;             /* of `in`, by head_find_end */
    size_t progress_bytes;        /* moved since waits_since */
    struct buffer in;             /* received and not used yet; no memory while empty */
    struct buffer out;            /* heads and small bodies; no memory while empty */
    size_t out_sent;              /* of `out` */
    uint64_t out_end;             /* bytes ever put into `out` */
    struct http_request *stream;  /* whose body goes on; or NULL */
    bool has_more;                /* the stream gave something, and may give more */
    struct http_request *large;   /* its body follows `out`, from its own memory; or NULL */
    size_t large_sent;
    bool can_read, can_write; /* as far as is known: epoll tells each change once */
    bool has_end;       /* epoll told of the client's end: a read may yet find data before it */
    bool is_excess;     /* opened beyond the limit */
    bool is_at_end;     /* the client sends no more */
    bool is_exclusive;  /* its requests may not be joined by another */
    bool is_last;       /* no further request is begun */
    bool leaves_unread; /* the client may still be sending when the last answer has left */
    bool lingers;       /* the last answer has left: what comes is read and dropped */
};

/* The connections of a thread. */
struct http_loop {
    struct http_server *server;
    unsigned index;
    struct event_loop *events; /* that it is a task of: one of the options, or `own` */
    struct event_loop own;
    pthread_t thread; /* that runs `own` */
    struct event_task task;
    struct event_source listener;
    struct mailbox posts;      /* requests that were answered or resumed */
    struct mailbox incoming;   /* connections that other loops have accepted for it */
    atomic_uint posting;       /* threads within loop_post */
    struct list woken;         /* of posts, to be moved on */
    struct instant accepts_at; /* the listener is left alone until then; 0: it is listened to */
    struct list open;
    struct list waiting;   /* by waits_since */
    struct list silent;    /* by waits_since: streams that have sent everything */
    struct list lingering; /* by waits_since */
    struct list strangers; /* by accepted_at */
    unsigned stranger_count;
    struct list work, next; /* connections for this turn and the next */
    bool has_called;        /* the handler, since `turned` */
    bool is_listening;
    bool is_closing; /* its connections are told */
    bool has_left;
    uint64_t date_s; /* of `date`, in seconds */
    char date[40];   /* "Date: ...\r\n" */
    char room[65536];
};

struct http_server {
    struct http_options options;
    int listener;
    uint16_t port;
    pthread_mutex_t identity_lock;
    struct tls_identity *identity; /* guarded by identity_lock; NULL: without TLS */
    atomic_size_t connection_count;
    atomic_size_t vouched_count; /* connections that are no strangers, if there are strangers */
    atomic_uint accepted;        /* connections so far, to give them out in turn */
    atomic_size_t active;        /* requests begun and not closed */
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* while stopping: nothing is active, a loop is quiet or has left */
    unsigned quiet_count;    /* loops that no longer listen; guarded by lock */
    unsigned left_count;     /* loops that are over; guarded by lock */
    atomic_bool is_stopping; /* written under lock */
    atomic_bool is_closing;  /* connections are closed */
    unsigned started_count;  /* of the loops */
    unsigned loop_count;
    struct http_loop *loops[];
};

/* ---- what requests and connections ask of their loop ---- */

/* When this turn began. */
static inline struct instant loop_now(const struct http_loop *loop)
{
    return event_loop_now(loop->events);
}

/* The answer or the resume of a sleeping request. Any thread. */
static inline void loop_post(struct http_loop *loop, struct http_request *request)
{
    atomic_fetch_add(&loop->posting, 1);
    mailbox_post(&loop->posts, &request->posted);
    atomic_fetch_sub(&loop->posting, 1);
}

/* Takes back the post of a stream, which is about to be closed. */
static inline void loop_forget(struct http_loop *loop, struct http_request *request)
{
    mailbox_take(&loop->posts, &loop->woken);
    list_remove(&request->posted);
}

/* Puts the connection on the list of work for this turn, or for the next. */
static inline void loop_work(struct connection *connection)
{
    if (list_is_empty(&connection->work))
        list_push(&connection->loop->work, &connection->work);
}

static inline void loop_work_next(struct connection *connection)
{
    if (list_is_empty(&connection->work))
        list_push(&connection->loop->next, &connection->work);
}

/* The connection is no stranger any more, or has ended. */
static inline void loop_drop_stranger(struct connection *connection)
{
    if (list_is_empty(&connection->stranger))
        return;
    list_remove(&connection->stranger);
    connection->loop->stranger_count--;
}

/* ---- listener.c ---- */

/* A socket that listens on a numeric address and port (0: any free one, told in `ret_port`). */
enum error_code loop_listen(const char *address, uint16_t port, int *ret_socket, uint16_t *ret_port,
                            struct error *ret_error);

/* ---- loop.c ---- */

/* Adds a loop to the server. It gets no calls yet. */
enum error_code loop_create(struct http_server *server, unsigned index);

/* Once all loops are there. Returns 0 or an errno. */
int loop_start(struct http_loop *loop);

/* Tells epoll that connections which wait to be accepted are of interest. False with errno: not
 * now. */
bool loop_listen_on(struct http_loop *loop);

/* Ends the wait of the loop. Any thread. */
void loop_wake(struct http_loop *loop);

/* After it has left: waits for the threads that are about to end a call of it. */
void loop_join(struct http_loop *loop);

void loop_destroy(struct http_loop *loop);

/* ---- connection.c ---- */

/* A connection for this loop, which may be another thread's. NULL: no memory. */
struct connection *connection_open(struct http_loop *loop, int socket);

/* Reads, parses, and calls the handler, as far as that goes in this turn. */
void connection_turn(struct connection *connection);

/* At the end of a turn: writes. False: the connection is over and was freed. */
bool connection_end_turn(struct connection *connection);

/* Its stream has sent nothing for HTTP_STREAM_IDLE_MS. */
void connection_stay_alive(struct connection *connection);

/* A request of the connection was answered or resumed. */
void connection_wake(struct connection *connection, struct http_request *request);

/* Closes the socket. The connection is freed when no other thread owes an answer. */
void connection_break(struct connection *connection);

/* ---- request.c ---- */

/* Copies what the handler may ask for; `head` NULL: it could not be parsed. NULL: out of memory. */
struct http_request *request_create(struct connection *connection, const struct head *head,
                                    const char *text, size_t size);

/* Calls `closed` and frees it. */
void request_close(struct http_request *request);

/* After a call of the handler that began with ASKED: false when it must wait. */
bool request_is_moving(struct http_request *request);

/* Calls `end` or `resumed` until there is an answer, or the request sleeps. */
void request_settle(struct http_request *request);

/* ---- response.c ---- */

/* The body of the answer, of which a small one is written behind the head. */
struct bytes response_body(const struct http_request *request);

/* Writes the head of the answer. */
void response_format_head(struct http_loop *loop, const struct http_request *request,
                          struct buffer *out);

#endif
