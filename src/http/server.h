/*
 * server.h - an HTTP/1.1 server whose answers may come later and from another thread.
 *
 * A handler sees each request as a few calls on one of the server's threads:
 *
 *     begin        the head has arrived; http_request_answer may refuse at once
 *     body ...     the body as it arrives, in any cuts; http_request_pause holds the client back
 *     end          the whole request has arrived: answer now, or later from any thread
 *     resumed      after http_request_resume, when the request had ended without an answer
 *     streamed     of a request that was answered by http_request_stream: what to send next
 *     left         while an answer is owed: the client sends no more, and may be gone
 *     closed       the answer is sent or the client is gone; the request is freed after this call
 *
 *     static void hello_end(struct http_request *request)
 *     {
 *         struct http_response response = {.status = 200, .content_type = "text/plain"};
 *
 *         buffer_append_text(&response.body, "hello\n");
 *         http_request_answer(request, &response);
 *     }
 *
 * Lifetime   `closed` does not come between `end` and the answer, nor between pause and resume,
 *            even if the client has hung up: a thread that owes an answer or a resume holds a valid
 *            request, and does not touch it after the call.
 * Errors     Malformed HTTP is answered by the library; all other refusals of the server go
 *            through the handler's `refuse`.
 * Ownership  Requests are the server's. A response's body is taken. Threads    Calls for one
 * request never overlap, those for several do. http_request_answer (after `end`) and
 * http_request_resume: any thread. All other calls: within a call of the handler.
 */
#ifndef TICKWHEEL_HTTP_SERVER_H
#define TICKWHEEL_HTTP_SERVER_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"
#include "http/tls.h"
#include "sys/event_loop.h"

#define HTTP_LENGTH_UNKNOWN UINT64_MAX
#define HTTP_HEADERS_MAX    4

/* Bytes of a body that are still read after an early answer, so that the connection stays usable. A
 * body announced as longer, or without a length, costs the connection. */
#define HTTP_KEEP_BODY_MAX UINT64_C(65536)

/* An answer given in the middle of a body waits for the end of the body; a client that sends more
 * bytes than this after the answer is disconnected instead. */
#define HTTP_DISCARD_BYTES_MAX (UINT64_C(64) << 20)

/* How long a stream may send nothing before its handler is asked for a sign of life. */
#define HTTP_STREAM_IDLE_MS 15000

struct http_server;
struct http_request;

struct http_header {
    const char *name; /* lives as long as the server */
    char value[96];
};

struct http_response {
    int status;
    const char *content_type; /* lives as long as the server; NULL: no body */
    struct buffer body;       /* taken */
    struct bytes lent;        /* if set, the body instead: lives as long as the server */
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
};

/* Why the server itself refuses a request. */
enum http_refusal {
    HTTP_REFUSED_MALFORMED,   /* a head that two programs may read differently: 400 */
    HTTP_REFUSED_HEADERS,     /* the head is larger than header_bytes_max: 431 */
    HTTP_REFUSED_CONNECTIONS, /* more than connections_max are open: 503 */
    HTTP_REFUSED_STOPPING,    /* http_server_stop was called: 503 */
};

struct http_handler {
    void (*begin)(void *context, struct http_request *request);
    /* Returns how many bytes were used. Fewer than all is allowed only after http_request_pause:
     * the rest is passed again. */
    size_t (*body)(struct http_request *request, struct bytes chunk);
    void (*end)(struct http_request *request);
    void (*resumed)(struct http_request *request);
    /* Appends what a stream has to send, up to some kilobytes; false: it ends behind that. Called
     * at first, after http_request_wake, while it gives something and the client takes it, and with
     * `is_idle` when nothing was sent for HTTP_STREAM_IDLE_MS. May be NULL without streams. */
    bool (*streamed)(struct http_request *request, bool is_idle, struct buffer *out);
    /* After `end`, once, while another thread owes the answer: the client has ended its side of the
     * connection. It is gone, or has only said that it sends no more and still reads. The answer
     * stays owed; it may come at once. May be NULL. */
    void (*left)(struct http_request *request);
    void (*closed)(struct http_request *request); /* if `begin` or `refuse` was called */
    /* In place of `begin`: answers at once. */
    void (*refuse)(void *context, struct http_request *request, enum http_refusal refusal);
    /* A connection with this sponsor (http_request_vouch) has ended. May be NULL. */
    void (*parted)(void *context, void *sponsor);
    /* On thread 0 .. threads-1, after these calls for all requests that were ready: hands over what
     * they gathered for others. May be NULL. */
    void (*turned)(void *context, unsigned thread);
};

/* Bytes of a numeric address, with the NUL. */
#define HTTP_PEER_SIZE 46

struct http_options {
    const char *address; /* numeric, IPv4 or IPv6 */
    uint16_t port;       /* 0: any free one */
    unsigned threads;    /* 1 .. */
    /* The loops of so many threads, which run until the server has stopped; they are joined behind
     * the tasks that they have. NULL: the server has threads of its own. */
    struct event_loop *const *loops;
    unsigned connections_max;
    /* Largest number of strangers: connections that http_request_vouch was not called for. A
     * further one closes the oldest, first of its own address. Strangers do not count towards
     * connections_max. 0 disables this: no connection is a stranger. */
    unsigned strangers_max;
    uint64_t stranger_ms; /* age at which a stranger is closed, whatever it sends */
    size_t header_bytes_max;
    uint64_t idle_ms;  /* the longest silence; also the time to send a whole head */
    uint64_t drain_ms; /* at a stop, the time that requests in flight have to end */
    const struct http_handler *handler;
    void *context;                 /* the handler's */
    struct tls_identity *identity; /* held by the server; NULL: without TLS */
};

/* Listens and serves. ERROR_INVALID for the address, ERROR_IO when it cannot be bound. The options
 * are copied; handler and context are borrowed until http_server_stop. */
enum error_code http_server_start(const struct http_options *options,
                                  struct http_server **ret_server, struct error *ret_error);

/* Stops accepting, gives requests in flight drain_ms to end, then closes the remaining
 * connections. Waits for every answer and resume that is owed, without a limit. */
void http_server_stop(struct http_server *server);

/* New connections are shown this identity; open connections keep theirs. For a server that was
 * started with an identity. Any thread. */
void http_server_set_identity(struct http_server *server, struct tls_identity *identity);

/* Whether only this machine can reach a numeric address. */
bool http_address_is_loopback(const char *address);

/* The port that is listened on. */
uint16_t http_server_port(const struct http_server *server);

/* Open connections, for metrics and tests. Any thread. */
size_t http_server_connections(struct http_server *server);

/* Answers, once. Within `begin` and `body`: the rest of the body is not seen any more and `end`
 * does not come. */
void http_request_answer(struct http_request *request, struct http_response *response);

/* Answers with the head of `response`, and a body that goes on until `streamed` or the client ends
 * it: the connection ends with it. At most what one call of `streamed` gives waits for the client.
 * Within `end`. */
void http_request_stream(struct http_request *request, struct http_response *response);

/* A stream has something to send. Any thread, until `closed` returns. */
void http_request_wake(struct http_request *request);

/* Within `body`: no more calls until http_request_resume, which must come. */
void http_request_pause(struct http_request *request);

/* Once for each pause, or instead of the answer after `end`, to have `resumed` called. */
void http_request_resume(struct http_request *request);

/* Within `body`: breaks the connection off without an answer. */
void http_request_hang_up(struct http_request *request);

/* The peer has proved who it is: its connection is no stranger any more. False if connections_max
 * of them are open already. `sponsor` is for `parted`; NULL: it is not called. Within `begin`,
 * `body` and `end`. */
bool http_request_vouch(struct http_request *request, void *sponsor);
bool http_request_is_vouched(const struct http_request *request);

/* Writes the numeric address of the client, or of the proxy in front of it. */
void http_request_peer(const struct http_request *request, char ret_text[HTTP_PEER_SIZE]);

/* A pointer of the handler's own, NULL at first. */
void http_request_set_user(struct http_request *request, void *user);
void *http_request_user(const struct http_request *request);

/* "GET"; HEAD is what the client sent, the server cuts the body off by itself. */
struct bytes http_request_method(const struct http_request *request);

/* Path and query as sent, not decoded. */
struct bytes http_request_target(const struct http_request *request);

/* The first header of that name; data is NULL when there is none. Several lines of one name:
 * http_request_header_count. Not after `end`. */
struct bytes http_request_header(const struct http_request *request, const char *name);
size_t http_request_header_count(const struct http_request *request, const char *name);

/* What the head announced: 0 without a body, HTTP_LENGTH_UNKNOWN when it comes in chunks. */
uint64_t http_request_content_length(const struct http_request *request);

/* The thread that calls the handler for it: 0 .. threads-1. */
unsigned http_request_thread(const struct http_request *request);

/* When its first line was read. */
struct instant http_request_begun_at(const struct http_request *request);

/* Adds a header to a response; a value that does not fit is a bug in the caller. */
void http_response_header(struct http_response *response, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
