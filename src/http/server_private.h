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

/* Most connections over the limit at a time, each of which is refused with an answer. Further
 * connections are closed at once. */
#define CONNECTIONS_EXCESS_MAX 64u

/* Most requests of a connection that are begun and not closed. */
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
    struct list link;   /* in connection.requests, later in connection.leaving */
    struct list posted; /* in loop.posts, later in loop.woken */
    struct connection *connection;
    void *user;
    atomic_int turn; /* enum request_turn */
    /* set from request_is_moving until the post of the request arrives; meanwhile another thread
     * owns the other fields */
    bool is_asleep;
    bool is_ended; /* `end` was called */
    bool is_answered;
    bool has_paused;      /* the current call of `body` paused the request */
    bool ends_connection; /* the answer is the last one */
    bool hangs_up;
    bool has_left;                 /* `left` was called */
    bool is_stream;                /* answered by http_request_stream, and the stream goes on */
    atomic_bool is_posted;         /* the stream was woken: it is in loop.posted, or about to be */
    uint64_t discarded_bytes;      /* bytes of the body that came after the answer */
    uint64_t leaves_at;            /* offset in the connection's output at which the answer ends */
    struct http_response response; /* with is_answered */
    struct instant begun_at;
    struct head_part method, target;
    bool is_http_1_0;
    uint64_t content_length; /* what http_request_content_length returns */
    size_t field_count;
    struct head_field *fields; /* stored behind this struct, with the head */
    const char *head;
};

/* connection.c tells when `in` and `out` are used. */
struct connection {
    struct list link; /* of loop.open */
    /* in loop.waiting or loop.lingering while it waits for the client; in loop.silent while its
     * stream has sent everything */
    struct list waiting;
    /* in loop.work or loop.next while there is something to do; before that in loop.incoming */
    struct list work;
    struct list stranger;       /* in loop.strangers until http_request_vouch */
    struct instant accepted_at; /* when a stranger was accepted */
    struct in6_addr peer;       /* an IPv4 address is mapped */
    bool is_vouched;            /* counted in server.vouched_count */
    void *sponsor;              /* pointer of the handler, or NULL */
    struct http_loop *loop;
    struct event_source source;
    int socket;              /* -1: broken */
    struct tls_session *tls; /* NULL: without TLS */
    struct instant waits_since;
    struct list requests; /* requests begun and without an answer in `out`, in order */
    struct list leaving;  /* requests with an answer in `out`, in order */
    unsigned request_count;
    /* the request whose body is being read, the last of `requests`; or NULL */
    struct http_request *reading;
    struct chunk_decoder chunks; /* decodes the body of `reading` */
    /* bytes of the body of `reading` that have not come, if it is not chunked */
    uint64_t body_left;
    size_t head_seen;            /* bytes of `in` that head_find_end has looked at */
    size_t progress_bytes;       /* bytes moved since waits_since */
    struct buffer in;            /* received and not used yet; no memory while empty */
    struct buffer out;           /* heads and small bodies; no memory while empty */
    size_t out_sent;             /* of `out` */
    uint64_t out_end;            /* bytes ever put into `out` */
    struct http_request *stream; /* the request whose stream is being sent; or NULL */
    bool has_more;               /* the stream gave something, and may give more */
    /* the request whose body is sent after `out`, from its own memory; or NULL */
    struct http_request *large;
    size_t large_sent;
    bool can_read, can_write; /* as far as is known: epoll reports each change once */
    /* epoll reported the end of the client's side; a read may still find data before it */
    bool has_end;
    bool is_excess;     /* opened beyond the limit */
    bool is_at_end;     /* the client sends no more */
    bool is_exclusive;  /* its requests may not be joined by another */
    bool is_last;       /* no further request is begun */
    bool leaves_unread; /* when the last answer has left, the client may still be sending */
    bool lingers;       /* the last answer has left: what comes is read and dropped */
};

/* The connections of a thread. */
struct http_loop {
    struct http_server *server;
    unsigned index;
    /* the loop that these connections are a task of: one of the options, or `own` */
    struct event_loop *events;
    struct event_loop own;
    pthread_t thread; /* the thread that runs `own` */
    struct event_task task;
    struct event_source listener;
    struct mailbox posts;      /* requests that were answered or resumed */
    struct mailbox incoming;   /* connections that other loops have accepted for this loop */
    atomic_uint posting;       /* threads within loop_post */
    struct list woken;         /* requests from `posts` that have to go on */
    struct instant accepts_at; /* the loop does not listen before this instant; 0: it listens */
    struct list open;
    struct list waiting;   /* by waits_since */
    struct list silent;    /* streams that have sent everything, by waits_since */
    struct list lingering; /* by waits_since */
    struct list strangers; /* by accepted_at */
    unsigned stranger_count;
    struct list work, next; /* connections to handle in this turn and in the next */
    bool has_called;        /* the handler was called since `turned` */
    bool is_listening;
    bool is_closing; /* the connections were told to close */
    bool has_left;
    uint64_t date_s; /* the second that `date` shows */
    char date[40];   /* "Date: ...\r\n" */
    char room[65536];
};

struct http_server {
    struct http_options options;
    int listener;
    uint16_t port;
    pthread_mutex_t identity_lock;
    struct tls_identity *identity; /* guarded by identity_lock; NULL: no TLS */
    atomic_size_t connection_count;
    /* connections that are vouched for, if the server knows strangers */
    atomic_size_t vouched_count;
    /* connections so far: the number chooses the loop of the next one */
    atomic_uint accepted;
    atomic_size_t active; /* requests begun and not closed */
    pthread_mutex_t lock;
    /* signalled while stopping: no request is active, or a loop is quiet or has ended */
    pthread_cond_t changed;
    unsigned quiet_count;    /* loops that no longer listen; guarded by lock */
    unsigned left_count;     /* loops that have ended; guarded by lock */
    atomic_bool is_stopping; /* written under lock */
    atomic_bool is_closing;  /* connections are closed */
    unsigned started_count;  /* loops that were started */
    unsigned loop_count;
    struct http_loop *loops[];
};

/* ---- what requests and connections ask of their loop ---- */

/* Returns the instant when this turn began. */
static inline struct instant loop_now(const struct http_loop *loop)
{
    return event_loop_now(loop->events);
}

/* Posts a sleeping request that was answered or resumed to its loop. Any thread. */
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

/* Takes the connection off the strangers: it is vouched for, or has ended. */
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

/* Adds a loop to the server. The loop gets no calls yet. */
enum error_code loop_create(struct http_server *server, unsigned index);

/* Starts the thread of the loop, once all loops exist. Returns 0 or an errno. */
int loop_start(struct http_loop *loop);

/* Has epoll report connections that wait to be accepted. False with errno: not now. */
bool loop_listen_on(struct http_loop *loop);

/* Ends the wait of the loop. Any thread. */
void loop_wake(struct http_loop *loop);

/* Waits for the threads that are still within a call of the loop. After the loop has ended. */
void loop_join(struct http_loop *loop);

void loop_destroy(struct http_loop *loop);

/* ---- connection.c ---- */

/* Opens a connection of this loop, which may belong to another thread. NULL: out of memory. */
struct connection *connection_open(struct http_loop *loop, int socket);

/* Reads, parses, and calls the handler, as far as that goes in this turn. */
void connection_turn(struct connection *connection);

/* At the end of a turn: writes. False: the connection is over and was freed. */
bool connection_end_turn(struct connection *connection);

/* Has the stream send a sign of life: it has sent nothing for HTTP_STREAM_IDLE_MS. */
void connection_stay_alive(struct connection *connection);

/* A request of the connection was answered or resumed. */
void connection_wake(struct connection *connection, struct http_request *request);

/* Closes the socket. The connection is freed when no other thread owes an answer. */
void connection_break(struct connection *connection);

/* ---- request.c ---- */

/* Makes a request with copies of what the handler may ask for; `head` NULL: the head was
 * invalid. NULL: out of memory. */
struct http_request *request_create(struct connection *connection, const struct head *head,
                                    const char *text, size_t size);

/* Calls `closed` and frees the request. */
void request_close(struct http_request *request);

/* After a call of the handler that began with ASKED: false when it must wait. */
bool request_is_moving(struct http_request *request);

/* Calls `end` or `resumed` until there is an answer, or the request sleeps. */
void request_settle(struct http_request *request);

/* ---- response.c ---- */

/* Returns the body of the answer. A small body is copied behind the head. */
struct bytes response_body(const struct http_request *request);

/* Writes the head of the answer. */
void response_format_head(struct http_loop *loop, const struct http_request *request,
                          struct buffer *out);

#endif
