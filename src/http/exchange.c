#include "http/server_private.h"

#include "sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

enum {
    HEAD_EXTRA_BYTES = 8192,
};

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
    return request_queue(request);
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
    return request->is_answered && answers_at_once(request) ? request_queue(request) : MHD_YES;
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

    if (!request_hold(request))
        return MHD_NO;
    connection_wait_on(request->connection); /* if it slept */
    /* Who was resumed before it fell asleep goes on at once: the library would not call again. */
    while (*size > 0 && !request->is_answered && !request->hangs_up) {
        size_t used;

        request->has_paused = false;
        used = server->options.handler->body(request, (struct bytes){data, *size});
        assert(used == *size || (used < *size && request->has_paused));
        data += used;
        *size -= used;
        connection_progress(request->connection, used);
        if (atomic_load(&request->turn) != TURN_MOVING) {
            connection_wait_over(request->connection);
            request_fall_asleep(request);
            return MHD_YES;
        }
    }
    request_release(request);
    return request->hangs_up ? MHD_NO : MHD_YES;
}

/* The whole request is there: queues the answer, or sleeps until there is one. */
static enum MHD_Result settle(struct http_request *request)
{
    const struct http_handler *handler = request->server->options.handler;

    while (!request->is_answered) {
        bool is_first = !request->is_ended;

        if (!request_hold(request))
            return MHD_NO;
        request->is_ended = true;
        atomic_store(&request->turn, TURN_ASKED);
        (is_first ? handler->end : handler->resumed)(request);
        if (atomic_load(&request->turn) != TURN_MOVING) {
            request_fall_asleep(request);
            return MHD_YES;
        }
        request_release(request);
    }
    return request_queue(request);
}

/* ---- libmicrohttpd's calls ---- */

/* The request line is there. */
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
    struct worker *worker = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    size_t size = strlen(target);
    struct http_request *request = malloc(sizeof(*request) + size);

    if (!request || !info || !info->socket_context) {
        free(request);
        return NULL;
    }
    memset(request, 0, sizeof(*request));
    request->server = worker->server;
    request->worker = worker;
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
    if (request_is_asleep(request))
        return MHD_YES;
    if (*size && request->is_answered)
        return discard(request, size);
    if (*size)
        return take_body(request, data, size);
    connection_wait_over(request->connection);
    return settle(request);
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct http_request *request = *state;
    struct http_server *server;

    (void)context, (void)mhd, (void)code;
    *state = NULL;
    if (!request)
        return;
    server = request->server;
    connection_wait(request->connection);
    if (request->is_begun)
        server->options.handler->closed(request);
    if (request->is_answered)
        buffer_deinit(&request->response.body);
    if (request->is_begun)
        server_count_down(server, &server->active);
    free(request);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = ((struct worker *)context)->server;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        *state = info ? connection_open(&server->connections, info->connect_fd) : NULL;
    } else {
        connection_close(&server->connections, *state);
        *state = NULL;
    }
}

struct MHD_Daemon *exchange_start(struct worker *worker)
{
    struct http_server *server = worker->server;
    const struct http_options *options = &server->options;
    uint64_t idle_s = options->idle_ms / 1000 + 1;

    errno = 0;
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, worker, /* */
        MHD_OPTION_LISTEN_SOCKET, server->listener,                                  /* */
        /* Who is over the limit is refused by us, wherever the connections lie. */
        MHD_OPTION_CONNECTION_LIMIT, options->connections_max + CONNECTIONS_EXCESS_MAX + 64u,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(idle_s > UINT32_MAX ? UINT32_MAX : idle_s),
        /* A head in its raw and its parsed form. The library wipes all of it after each request, so
         * it should not be larger than it must. */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->header_bytes_max + HEAD_EXTRA_BYTES, /* */
        MHD_OPTION_URI_LOG_CALLBACK, on_target, worker,                                   /* */
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, worker,                                /* */
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, worker, MHD_OPTION_END);
}
