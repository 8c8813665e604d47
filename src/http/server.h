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
 * Ownership  Requests belong to the server, and so does the body of a response once it was given.
 * Threads    Calls for one request never overlap; those for different requests do.
 *            http_request_answer (after `end`) and http_request_resume may be called from any
 *            thread, all other functions only within a call of the handler, unless they say so.
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

/* Bytes of a body that are still read after an early answer, so that the connection can be used
 * again. If the body is announced as longer, or has no length, the connection is closed. */
#define HTTP_KEEP_BODY_MAX UINT64_C(65536)

/* Maximum of bytes that a client may send after an answer in the middle of a body. The answer waits
 * for the end of the body; a client that sends more is disconnected. */
#define HTTP_DISCARD_BYTES_MAX (UINT64_C(64) << 20)

/* Time in milliseconds after which a stream that sends nothing must give a sign of life. */
#define HTTP_STREAM_IDLE_MS 15000

struct http_server;
struct http_request;

struct http_header {
    const char *name; /* valid as long as the server */
    char value[96];
};

struct http_response {
    int status;
    const char *content_type; /* valid as long as the server; NULL if there is no body */
    struct buffer body;       /* becomes the server's */
    struct bytes lent;        /* if set, used instead of `body`; valid as long as the server */
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
};

/* Reason for which the server itself refuses a request. */
enum http_refusal {
    HTTP_REFUSED_MALFORMED,   /* a head that two programs may read differently: 400 */
    HTTP_REFUSED_HEADERS,     /* the head is larger than header_bytes_max: 431 */
    HTTP_REFUSED_CONNECTIONS, /* more than connections_max are open: 503 */
    HTTP_REFUSED_STOPPING,    /* http_server_stop was called: 503 */
};

struct http_handler {
    void (*begin)(void *context, struct http_request *request);
    /* Returns how many bytes were used. Fewer than all is allowed only after http_request_pause;
     * the rest is then passed again. */
    size_t (*body)(struct http_request *request, struct bytes chunk);
    void (*end)(struct http_request *request);
    void (*resumed)(struct http_request *request);
    /* Appends up to some kilobytes that a stream has to send. Returns false if the stream ends
     * after them. Called when the stream begins, after http_request_wake, while it appends
     * something and the client reads it, and with `is_idle` when nothing was sent for
     * HTTP_STREAM_IDLE_MS. May be NULL if there are no streams. */
    bool (*streamed)(struct http_request *request, bool is_idle, struct buffer *out);
    /* Called once after `end`, while another thread owes the answer: the client has ended its side
     * of the connection. It may be gone, or may still read. The answer must still be given, and may
     * be given at once. May be NULL. */
    void (*left)(struct http_request *request);
    void (*closed)(struct http_request *request); /* called if `begin` or `refuse` was called */
    /* Called instead of `begin`; must answer at once. */
    void (*refuse)(void *context, struct http_request *request, enum http_refusal refusal);
    /* Called when a connection with this sponsor (http_request_vouch) has ended. May be NULL. */
    void (*parted)(void *context, void *sponsor);
    /* Called on each thread, 0 .. threads-1, after the calls for all requests that were ready, to
     * pass on what they collected. May be NULL. */
    void (*turned)(void *context, unsigned thread);
};

/* Maximum size of a numeric address, including the NUL. */
#define HTTP_PEER_SIZE 46

struct http_options {
    const char *address; /* numeric, IPv4 or IPv6 */
    uint16_t port;       /* 0 means any free port */
    unsigned threads;    /* at least 1 */
    /* The server's loops, one for each of `threads`, which must run until the server has
     * stopped. The server becomes the last task of each. NULL means that the server has threads
     * of its own. */
    struct event_loop *const *loops;
    unsigned connections_max;
    /* Maximum of strangers, which are connections for which http_request_vouch was not called. A
     * further one closes the oldest, first of its own address. Strangers do not count towards
     * connections_max. 0 means that no connection is a stranger. */
    unsigned strangers_max;
    uint64_t stranger_ms; /* age at which a stranger is closed, whatever it sends */
    size_t header_bytes_max;
    uint64_t idle_ms;  /* maximum time without progress; also the time to send a whole head */
    uint64_t drain_ms; /* time for requests in flight to end when the server stops */
    const struct http_handler *handler;
    void *context;                 /* passed to the functions of the handler */
    struct tls_identity *identity; /* held by the server; NULL serves without TLS */
};

/* Listens and serves. Returns ERROR_INVALID if the address is wrong, ERROR_IO if it cannot be
 * bound. The options are copied; handler and context are borrowed until http_server_stop. */
enum error_code http_server_start(const struct http_options *options,
                                  struct http_server **ret_server, struct error *ret_error);

/* Stops accepting, gives requests in flight drain_ms to end, then closes the remaining connections.
 * Waits, without a time limit, for every answer and resume that other threads owe. */
void http_server_stop(struct http_server *server);

/* Replaces the identity for new connections; open ones keep theirs. Only for a server that was
 * started with an identity. May be called from any thread. */
void http_server_set_identity(struct http_server *server, struct tls_identity *identity);

/* True if the numeric address can be reached from this machine only. */
bool http_address_is_loopback(const char *address);

/* Returns the port on which the server listens. */
uint16_t http_server_port(const struct http_server *server);

/* Returns the number of open connections, for metrics and tests. May be called from any thread. */
size_t http_server_connections(struct http_server *server);

/* Answers the request, once. After an answer within `begin` or `body`, the handler gets neither the
 * rest of the body nor `end`. */
void http_request_answer(struct http_request *request, struct http_response *response);

/* Answers with the head of `response`, and a body that continues until `streamed` or the client
 * ends it. The connection is closed then. At most the output of one call of `streamed` waits for
 * the client. Only within `end`. */
void http_request_stream(struct http_request *request, struct http_response *response);

/* Requests a call of `streamed`, because the stream has something to send. May be called from any
 * thread, until `closed` returns. */
void http_request_wake(struct http_request *request);

/* Stops calls of `body` until http_request_resume, which must follow. Only within `body`. */
void http_request_pause(struct http_request *request);

/* Called once for each pause; or after `end` instead of an answer, to get a call of `resumed`. */
void http_request_resume(struct http_request *request);

/* Closes the connection without an answer. Only within `body`. */
void http_request_hang_up(struct http_request *request);

/* Marks the connection as no stranger, because the peer has proved its identity. Returns false if
 * connections_max such connections are open. `sponsor` is passed to `parted`, which is not called
 * if it is NULL. Only within `begin`, `body` and `end`. */
bool http_request_vouch(struct http_request *request, void *sponsor);
bool http_request_is_vouched(const struct http_request *request);

/* Writes the numeric address of the client, or of the proxy that forwarded the request. */
void http_request_peer(const struct http_request *request, char ret_text[HTTP_PEER_SIZE]);

/* Sets a pointer for the handler's own use, NULL at first. */
void http_request_set_user(struct http_request *request, void *user);
void *http_request_user(const struct http_request *request);

/* Returns the method as the client sent it, such as "GET". For HEAD the server itself omits the
 * body. */
struct bytes http_request_method(const struct http_request *request);

/* Returns path and query as they were sent, not decoded. */
struct bytes http_request_target(const struct http_request *request);

/* Returns the first header of that name; data is NULL if there is none. http_request_header_count
 * tells if there are several. Not after `end`. */
struct bytes http_request_header(const struct http_request *request, const char *name);
size_t http_request_header_count(const struct http_request *request, const char *name);

/* Returns the length of the body that the head announced: 0 if there is none, HTTP_LENGTH_UNKNOWN
 * if it is chunked. */
uint64_t http_request_content_length(const struct http_request *request);

/* Returns the thread that calls the handler for this request: 0 .. threads-1. */
unsigned http_request_thread(const struct http_request *request);

/* Returns when the request line was read. */
struct instant http_request_begun_at(const struct http_request *request);

/* Adds a header to a response; a value that does not fit is a bug in the caller. */
void http_response_header(struct http_response *response, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
