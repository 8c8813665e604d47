#include "http/server.h"

#include "http/connections.h"
#include "sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/*
 * libmicrohttpd runs the sockets; a request that owes an answer or a resume is suspended in it, and
 * a suspended connection is left alone until it is resumed: that is what keeps a request alive
 * while other threads work for it, and why a hang-up is noticed only afterwards.
 *
 * `turn` says who moves the request on. The handler's thread sets ASKED before (end) or within
 * (pause) a call of the handler and SUSPENDED once the connection sleeps; whoever answers or
 * resumes puts MOVING in its place and, had it been SUSPENDED, wakes the connection. So it is woken
 * exactly once, whichever comes first.
 */
enum turn {
    TURN_MOVING,
    TURN_ASKED,
    TURN_SUSPENDED,
};

struct http_server {
    struct http_options options;
    struct MHD_Daemon *daemon;
    struct connections connections;
    uint16_t port;
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* active or held fell while stopping */
    size_t active;           /* requests begun and not closed; guarded by lock */
    size_t held;             /* of these, in a call of the handler or asleep; guarded by lock */
    atomic_bool is_stopping; /* written under lock */
    bool is_closing;         /* nobody may be held any more; guarded by lock */
};

struct http_request {
    struct http_server *server;
    struct MHD_Connection *mhd;
    struct connection *connection;
    void *user;
    atomic_int turn; /* enum turn */
    bool is_begun, is_ended, is_answered;
    bool is_refused; /* by the server itself: the connection is closed afterwards */
    bool hangs_up;
    uint64_t content_length, discarded_bytes;
    struct http_response response; /* with is_answered */
    struct instant begun_at;
    const char *method;
    size_t target_size;
    char target[];
};

/* ---- sleeping and waking ---- */

/* Counts down and tells who waits in http_server_stop. The server may be gone when this returns. */
static void count_down(struct http_server *server, size_t *count)
{
    pthread_mutex_lock(&server->lock);
    (*count)--;
    if (atomic_load(&server->is_stopping))
        pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* Before a call of the handler that may leave the request asleep: until it is released, or woken,
 * the server does not stop. False: it is closing, and nothing new may begin. */
static bool hold(struct http_server *server)
{
    bool is_held;

    pthread_mutex_lock(&server->lock);
    is_held = !server->is_closing;
    server->held += is_held;
    pthread_mutex_unlock(&server->lock);
    return is_held;
}

static void release(struct http_server *server)
{
    count_down(server, &server->held);
}

static void wake(struct http_request *request)
{
    struct http_server *server = request->server;

    /* From here on the request belongs to its own thread again. */
    MHD_resume_connection(request->mhd);
    release(server);
}

/* Puts the held request to sleep until `turn` is MOVING. */
static void fall_asleep(struct http_request *request)
{
    int asked = TURN_ASKED;

    MHD_suspend_connection(request->mhd);
    if (!atomic_compare_exchange_strong(&request->turn, &asked, TURN_SUSPENDED))
        wake(request);
}

void http_request_resume(struct http_request *request)
{
    if (atomic_exchange(&request->turn, TURN_MOVING) == TURN_SUSPENDED)
        wake(request);
}

void http_request_pause(struct http_request *request)
{
    assert(!request->is_ended && !request->is_answered);
    atomic_store(&request->turn, TURN_ASKED);
}

void http_request_hang_up(struct http_request *request)
{
    request->hangs_up = true;
}

void http_request_answer(struct http_request *request, struct http_response *response)
{
    assert(!request->is_answered);
    if (buffer_failed(&response->body)) {
        buffer_deinit(&response->body);
        response->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        response->content_type = NULL;
    }
    request->response = *response;
    request->is_answered = true;
    http_request_resume(request);
}

/* ---- answering ---- */

static enum MHD_Result queue(struct http_request *request)
{
    struct http_response *from = &request->response;
    struct MHD_Response *response;
    enum MHD_Result result;
    bool closes = request->is_refused || atomic_load(&request->server->is_stopping);

    if (from->lent.data)
        response = MHD_create_response_from_buffer(from->lent.size, (void *)from->lent.data,
                                                   MHD_RESPMEM_PERSISTENT);
    else
        response = MHD_create_response_from_buffer(from->body.size, from->body.data,
                                                   MHD_RESPMEM_MUST_FREE);
    if (!response)
        return MHD_NO; /* the body is freed with the request */
    buffer_init(&from->body);
    if (from->content_type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, from->content_type);
    for (size_t i = 0; i < from->header_count; i++)
        MHD_add_response_header(response, from->headers[i].name, from->headers[i].value);
    if (closes)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    result = MHD_queue_response(request->mhd, (unsigned)from->status, response);
    MHD_destroy_response(response);
    connection_wait_over(request->connection);
    return result;
}

/* The whole request is there: queues the answer, or sleeps until there is one. */
static enum MHD_Result settle(struct http_request *request)
{
    struct http_server *server = request->server;
    const struct http_handler *handler = server->options.handler;

    while (!request->is_answered) {
        bool is_first = !request->is_ended;

        if (!hold(server))
            return MHD_NO;
        request->is_ended = true;
        atomic_store(&request->turn, TURN_ASKED);
        (is_first ? handler->end : handler->resumed)(request);
        if (atomic_load(&request->turn) != TURN_MOVING) {
            fall_asleep(request);
            return MHD_YES;
        }
        release(server);
    }
    return queue(request);
}

/* ---- reading ---- */

/* What the head announces of the body. False: it contradicts itself, which is how requests are
 * smuggled past a proxy. */
static bool read_framing(struct http_request *request)
{
    struct bytes length = http_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    struct bytes coding = http_request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    uint64_t value = 0;

    if (coding.data) {
        request->content_length = HTTP_LENGTH_UNKNOWN;
        return !length.data && coding.size == 7 && strncasecmp(coding.data, "chunked", 7) == 0;
    }
    if (length.data && (length.size == 0 || length.size > 19))
        return false;
    for (size_t i = 0; i < length.size; i++) {
        if (length.data[i] < '0' || length.data[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(length.data[i] - '0');
    }
    request->content_length = value;
    return http_request_header_count(request, MHD_HTTP_HEADER_CONTENT_LENGTH) <= 1;
}

static bool has_large_head(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return info && info->header_size > request->server->options.header_bytes_max;
}

/* Whether an answer to the head goes out at once, at the price of the connection, instead of after
 * the body. A client that waits for "100 Continue" must not be kept waiting. */
static bool answers_at_once(const struct http_request *request)
{
    return request->content_length > HTTP_KEEP_BODY_MAX ||
           http_request_header(request, MHD_HTTP_HEADER_EXPECT).data;
}

static enum MHD_Result refuse(struct http_request *request, enum http_refusal refusal)
{
    struct http_server *server = request->server;

    request->is_refused = true;
    server->options.handler->refuse(server->options.context, request, refusal);
    assert(request->is_answered);
    return queue(request);
}

static enum MHD_Result begin(struct http_request *request, const char *method)
{
    struct http_server *server = request->server;

    request->is_begun = true;
    request->method = method;
    pthread_mutex_lock(&server->lock);
    server->active++;
    pthread_mutex_unlock(&server->lock);
    if (!read_framing(request))
        return refuse(request, HTTP_REFUSED_MALFORMED);
    if (request->connection->is_excess)
        return refuse(request, HTTP_REFUSED_CONNECTIONS);
    if (has_large_head(request))
        return refuse(request, HTTP_REFUSED_HEADERS);
    if (atomic_load(&server->is_stopping))
        return refuse(request, HTTP_REFUSED_STOPPING);
    server->options.handler->begin(server->options.context, request);
    if (request->content_length == 0)
        connection_wait_over(request->connection);
    else
        connection_wait(request->connection);
    return request->is_answered && answers_at_once(request) ? queue(request) : MHD_YES;
}

/* Part of a body that nobody wants any more. */
static enum MHD_Result discard(struct http_request *request, size_t *size)
{
    request->discarded_bytes += *size;
    connection_progress(request->connection, *size);
    *size = 0;
    return request->discarded_bytes > HTTP_DISCARD_BYTES_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result take_body(struct http_request *request, const char *data, size_t *size)
{
    struct http_server *server = request->server;
    struct bytes chunk = {data, *size};
    size_t used;

    if (request->is_answered)
        return discard(request, size);
    if (!hold(server))
        return MHD_NO;
    connection_wait_on(request->connection); /* if it slept */
    used = server->options.handler->body(request, chunk);
    assert(used <= chunk.size);
    *size -= used;
    if (atomic_load(&request->turn) != TURN_MOVING) {
        connection_wait_over(request->connection);
        fall_asleep(request);
        return MHD_YES;
    }
    connection_progress(request->connection, used);
    release(server);
    return request->hangs_up ? MHD_NO : MHD_YES;
}

/* ---- libmicrohttpd's calls ---- */

/* The request line is there. */
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    size_t size = strlen(target);
    struct http_request *request = malloc(sizeof(*request) + size);

    if (!request || !info || !info->socket_context) {
        free(request);
        return NULL;
    }
    memset(request, 0, sizeof(*request));
    request->server = context;
    request->mhd = mhd;
    request->connection = info->socket_context;
    request->begun_at = instant_now();
    request->target_size = size;
    memcpy(request->target, target, size);
    return request;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    struct http_request *request = *state;

    (void)context, (void)mhd, (void)path, (void)version;
    if (!request)
        return MHD_NO;
    if (!request->is_begun)
        return begin(request, method);
    if (*size)
        return take_body(request, data, size);
    connection_wait_over(request->connection);
    return settle(request);
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = context;
    struct http_request *request = *state;

    (void)mhd, (void)code;
    *state = NULL;
    if (!request)
        return;
    connection_wait(request->connection);
    if (request->is_begun)
        server->options.handler->closed(request);
    if (request->is_answered)
        buffer_deinit(&request->response.body);
    if (request->is_begun)
        count_down(server, &server->active);
    free(request);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        *state = info ? connection_open(&server->connections, info->connect_fd) : NULL;
    } else {
        connection_close(&server->connections, *state);
        *state = NULL;
    }
}

/* ---- starting and stopping ---- */

static enum error_code start_daemon(struct http_server *server, const struct addrinfo *address,
                                    struct error *ret_error)
{
    const struct http_options *options = &server->options;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    /* Some connections more than allowed are let in, to be refused with an answer. */
    unsigned limit = options->connections_max + options->connections_max / 8 + 16;
    uint64_t idle_s = (options->idle_ms + 999) / 1000;
    const union MHD_DaemonInfo *info;

    if (address->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    errno = 0;
    server->daemon = MHD_start_daemon(
        flags, options->port, NULL, NULL, on_request, server, /* */
        MHD_OPTION_SOCK_ADDR, address->ai_addr,               /* */
        MHD_OPTION_THREAD_POOL_SIZE, options->threads > 1 ? options->threads : 0,
        MHD_OPTION_CONNECTION_LIMIT, limit < options->threads ? options->threads : limit,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(idle_s > UINT32_MAX ? UINT32_MAX : idle_s),
        /* Room for a head of the allowed size beside its parsed form, and for one that is too large
         * to be told so. */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->header_bytes_max * 2 + 16384,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, server, /* */
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_LISTEN_BACKLOG_SIZE, 4096u, MHD_OPTION_END);
    if (!server->daemon)
        return error_set(ret_error, ERROR_IO, "listen on %s port %u: %s", options->address,
                         options->port, errno ? strerror(errno) : "cannot start the server");
    info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    server->port = info ? info->port : options->port;
    return ERROR_NONE;
}

static enum error_code listen_and_serve(struct http_server *server, struct error *ret_error)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *address;
    enum error_code error;
    char port[8];

    snprintf(port, sizeof(port), "%u", server->options.port);
    if (getaddrinfo(server->options.address, port, &hints, &address) != 0)
        return error_set(ret_error, ERROR_INVALID, "%s is not a numeric address",
                         server->options.address);
    error = start_daemon(server, address, ret_error);
    freeaddrinfo(address);
    return error;
}

enum error_code http_server_start(const struct http_options *options,
                                  struct http_server **ret_server, struct error *ret_error)
{
    struct http_server *server = calloc(1, sizeof(*server));
    pthread_condattr_t monotonic;
    enum error_code error;

    if (!server)
        return error_set(ret_error, ERROR_NO_MEMORY, "start the server");
    server->options = *options;
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    error = connections_start(&server->connections, options->connections_max, options->idle_ms,
                              ret_error);
    if (error)
        goto failed;
    error = listen_and_serve(server, ret_error);
    if (error)
        goto failed_listen;
    *ret_server = server;
    return ERROR_NONE;

failed_listen:
    connections_stop(&server->connections);
failed:
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server);
    return error;
}

/* Waits until every request under way has ended, at most drain_ms. */
static void drain(struct http_server *server)
{
    uint64_t until_ns = instant_now().ns + server->options.drain_ms * 1000000;
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
    MHD_socket listener;

    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->is_stopping, true);
    pthread_mutex_unlock(&server->lock);
    listener = MHD_quiesce_daemon(server->daemon);
    drain(server);
    MHD_stop_daemon(server->daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    connections_stop(&server->connections);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

/* ---- queries ---- */

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

size_t http_server_connections(struct http_server *server)
{
    return connections_count(&server->connections);
}

void http_request_set_user(struct http_request *request, void *user)
{
    request->user = user;
}

void *http_request_user(const struct http_request *request)
{
    return request->user;
}

struct bytes http_request_method(const struct http_request *request)
{
    return bytes_of(request->method);
}

struct bytes http_request_target(const struct http_request *request)
{
    return (struct bytes){request->target, request->target_size};
}

struct bytes http_request_header(const struct http_request *request, const char *name)
{
    struct bytes value = {0};

    MHD_lookup_connection_value_n(request->mhd, MHD_HEADER_KIND, name, strlen(name), &value.data,
                                  &value.size);
    return value;
}

struct header_counter {
    const char *name;
    size_t count;
};

static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct header_counter *counter = context;

    (void)kind, (void)value;
    counter->count += strcasecmp(name, counter->name) == 0;
    return MHD_YES;
}

size_t http_request_header_count(const struct http_request *request, const char *name)
{
    struct header_counter counter = {.name = name};

    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, count_header, &counter);
    return counter.count;
}

uint64_t http_request_content_length(const struct http_request *request)
{
    return request->content_length;
}

struct instant http_request_begun_at(const struct http_request *request)
{
    return request->begun_at;
}

void http_response_header(struct http_response *response, const char *name, const char *format, ...)
{
    struct http_header *header = &response->headers[response->header_count++];
    va_list arguments;
    int size;

    assert(response->header_count <= HTTP_HEADERS_MAX);
    header->name = name;
    va_start(arguments, format);
    size = vsnprintf(header->value, sizeof(header->value), format, arguments);
    va_end(arguments);
    assert(size >= 0 && (size_t)size < sizeof(header->value));
    (void)size;
}
