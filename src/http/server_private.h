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

/* Maximum of connections beyond the limit that are open to be refused with an answer. Further ones
 * are closed at once. */
#define CONNECTIONS_EXCESS_MAX 64u

/* Maximum of requests of a connection that have begun and are not closed. */
#define PIPELINE_MAX 16u

/* Which thread continues a request. Before a call of the handler that may leave the answer to
 * another thread, the state is ASKED. If it still is after the call, the loop sets ASLEEP and no
 * longer touches the request. The thread that answers or resumes sets MOVING, and posts the request
 * to its loop if the state was ASLEEP. So it is posted exactly once, and not at all if the answer
 * was given within the call. */
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
    /* true from request_is_moving until the request's post arrives; meanwhile another thread owns
     * the other fields */
    bool is_asleep;
    bool is_ended; /* `end` was called */
    bool is_answered;
    bool has_paused;      /* the current call of `body` paused the request */
    bool ends_connection; /* the connection ends after this answer */
    bool hangs_up;
    bool has_left;  /* `left` was called */
    bool is_stream; /* answered by http_request_stream, and the stream has not ended */
    /* the stream was woken: the request is in loop.posted, or is about to be */
    atomic_bool is_posted;
    uint64_t discarded_bytes;      /* bytes of the body that arrived after the answer */
    uint64_t leaves_at;            /* offset of the end of the answer in the connection's output */
    struct http_response response; /* valid if is_answered */
    struct instant begun_at;
    struct head_part method, target;
    bool is_http_1_0;
    uint64_t content_length; /* result of http_request_content_length */
    size_t field_count;
    struct head_field *fields; /* stored after this struct, with the head */
    const char *head;
};

/* A connection. The opening comment of connection.c says when `in` and `out` are used. */
struct connection {
    struct list link; /* in loop.open */
    /* in loop.waiting or loop.lingering while the connection waits for the client; in loop.silent
     * while its stream has nothing to send */
    struct list waiting;
    /* in loop.work or loop.next while the connection has something to do; in loop.incoming before
     * it belongs to the loop */
    struct list work;
    struct list stranger;       /* in loop.strangers until http_request_vouch */
    struct instant accepted_at; /* time at which a stranger was accepted */
    struct in6_addr peer;       /* IPv4 addresses are stored as mapped */
    bool is_vouched;            /* server.vouched_count includes the connection */
    void *sponsor;              /* pointer of the handler; NULL if there is none */
    struct http_loop *loop;
    struct event_source source;
    int socket;              /* -1 if closed */
    struct tls_session *tls; /* NULL if the server has no TLS */
    struct instant waits_since;
    struct list requests; /* requests that have begun and have no answer in `out`, in order */
    struct list leaving;  /* requests whose answer is in `out`, in order */
    unsigned request_count;
    /* request whose body is being read, the last of `requests`; NULL if there is none */
    struct http_request *reading;
    struct chunk_decoder chunks; /* decodes the body of `reading` */
    /* bytes of the body of `reading` that have not arrived; unused if it is chunked */
    uint64_t body_left;
    size_t head_seen;            /* bytes of `in` that head_find_end has searched */
    size_t progress_bytes;       /* bytes received or sent since waits_since */
    struct buffer in;            /* bytes received and not used yet; has no memory while empty */
    struct buffer out;           /* heads and small bodies; has no memory while empty */
    size_t out_sent;             /* bytes of `out` that were sent */
    uint64_t out_end;            /* total of bytes ever put into `out` */
    struct http_request *stream; /* request whose stream is being sent; NULL if there is none */
    bool has_more; /* the stream's last piece was not empty, so more may follow at once */
    /* request whose body is sent after `out`, from its own memory; NULL if there is none */
    struct http_request *large;
    size_t large_sent;
    bool can_read, can_write; /* last known state of the socket; epoll reports only changes */
    /* epoll has reported that the client ended its side; a read may still find data */
    bool has_end;
    bool is_excess;     /* opened beyond connections_max */
    bool is_at_end;     /* the client sends no more */
    bool is_exclusive;  /* the request in flight must be the only one */
    bool is_last;       /* no further request is begun */
    bool leaves_unread; /* the client may still be sending after the last answer */
    bool lingers;       /* the last answer was sent; input is read and dropped */
};

/* The connections of one thread. */
struct http_loop {
    struct http_server *server;
    unsigned index;
    /* loop that calls this one as a task: from the options, or `own` */
    struct event_loop *events;
    struct event_loop own;
    pthread_t thread; /* the thread that runs `own` */
    struct event_task task;
    struct event_source listener;
    struct mailbox posts;      /* requests that were answered or resumed */
    struct mailbox incoming;   /* connections that other loops have accepted for this loop */
    atomic_uint posting;       /* threads within loop_post */
    struct list woken;         /* requests from `posts` that are to be continued */
    struct instant accepts_at; /* time at which the loop listens again; 0 if it listens */
    struct list open;
    struct list waiting;   /* ordered by waits_since */
    struct list silent;    /* streams with nothing to send, ordered by waits_since */
    struct list lingering; /* ordered by waits_since */
    struct list strangers; /* ordered by accepted_at */
    unsigned stranger_count;
    struct list work, next; /* connections to handle in this turn and in the next */
    bool has_called;        /* the handler was called after the last call of `turned` */
    bool is_listening;
    bool is_closing; /* the connections were told to close */
    bool has_left;
    uint64_t date_s; /* second that `date` shows */
    char date[40];   /* "Date: ...\r\n" */
    char room[65536];
};

struct http_server {
    struct http_options options;
    int listener;
    uint16_t port;
    pthread_mutex_t identity_lock;
    struct tls_identity *identity; /* guarded by identity_lock; NULL without TLS */
    atomic_size_t connection_count;
    /* connections that are no strangers, if strangers_max is set */
    atomic_size_t vouched_count;
    /* number of accepted connections; it chooses the loop of the next one */
    atomic_uint accepted;
    atomic_size_t active; /* requests that have begun and are not closed */
    pthread_mutex_t lock;
    /* signalled during a stop: no request is active, or a loop is quiet or has ended */
    pthread_cond_t changed;
    unsigned quiet_count;    /* loops that no longer listen; guarded by lock */
    unsigned left_count;     /* loops that have ended; guarded by lock */
    atomic_bool is_stopping; /* written under lock */
    atomic_bool is_closing;  /* all connections are to be closed */
    unsigned started_count;  /* number of loops that were started */
    unsigned loop_count;
    struct http_loop *loops[];
};

/* ---- what requests and connections ask of their loop ---- */

/* Returns the instant when this turn began. */
static inline struct instant loop_now(const struct http_loop *loop)
{
    return event_loop_now(loop->events);
}

/* Posts a sleeping request that was answered or resumed to its loop. May be called from any
 * thread. */
static inline void loop_post(struct http_loop *loop, struct http_request *request)
{
    atomic_fetch_add(&loop->posting, 1);
    mailbox_post(&loop->posts, &request->posted);
    atomic_fetch_sub(&loop->posting, 1);
}

/* Removes the post of a stream that is about to be closed. */
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

/* Removes the connection from the strangers, because it is vouched for or has ended. */
static inline void loop_drop_stranger(struct connection *connection)
{
    if (list_is_empty(&connection->stranger))
        return;
    list_remove(&connection->stranger);
    connection->loop->stranger_count--;
}

/* ---- listener.c ---- */

/* Opens a socket that listens on a numeric address and port. Port 0 means any free one, which is
 * returned in `ret_port`. */
enum error_code loop_listen(const char *address, uint16_t port, int *ret_socket, uint16_t *ret_port,
                            struct error *ret_error);

/* ---- loop.c ---- */

/* Adds a loop to the server, which must not be called yet. */
enum error_code loop_create(struct http_server *server, unsigned index);

/* Starts the loop's thread. All loops must exist. Returns 0 or an errno. */
int loop_start(struct http_loop *loop);

/* Asks epoll to report connections that wait to be accepted. Returns false, with errno, if that
 * fails now. */
bool loop_listen_on(struct http_loop *loop);

/* Ends the wait of the loop. May be called from any thread. */
void loop_wake(struct http_loop *loop);

/* Waits for threads that are still within a call of the loop. Called after the loop has ended. */
void loop_join(struct http_loop *loop);

void loop_destroy(struct http_loop *loop);

/* ---- connection.c ---- */

/* Opens a connection of this loop, which may belong to another thread. Returns NULL if out of
 * memory. */
struct connection *connection_open(struct http_loop *loop, int socket);

/* Reads, parses and calls the handler, as far as possible in this turn. */
void connection_turn(struct connection *connection);

/* Writes the answers at the end of a turn. Returns false if the connection has ended and was
 * freed. */
bool connection_end_turn(struct connection *connection);

/* Asks the stream for a sign of life, because it has sent nothing for HTTP_STREAM_IDLE_MS. */
void connection_stay_alive(struct connection *connection);

/* Continues a request of the connection that was answered or resumed. */
void connection_wake(struct connection *connection, struct http_request *request);

/* Closes the socket. The connection is freed once no other thread owes an answer. */
void connection_break(struct connection *connection);

/* ---- request.c ---- */

/* Makes a request with copies of what the handler may ask for. `head` is NULL if the head was
 * invalid. Returns NULL if out of memory. */
struct http_request *request_create(struct connection *connection, const struct head *head,
                                    const char *text, size_t size);

/* Calls `closed` and frees the request. */
void request_close(struct http_request *request);

/* Called after a call of the handler that began with ASKED. Returns false if the request must
 * wait. */
bool request_is_moving(struct http_request *request);

/* Calls `end` or `resumed` until the request is answered or sleeps. */
void request_settle(struct http_request *request);

/* ---- response.c ---- */

/* Returns the body of the answer. A small body is copied into the output after the head. */
struct bytes response_body(const struct http_request *request);

/* Writes the head of the answer. */
void response_format_head(struct http_loop *loop, const struct http_request *request,
                          struct buffer *out);

#endif
