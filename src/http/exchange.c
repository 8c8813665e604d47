/* exchange.c - one request as libmicrohttpd sees it: its callbacks, turned into calls of the
 * handler. */
#include "http/server_private.h"

#include "sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    HEAD_EXTRA_BYTES = 8192,
    PARAMETER_BYTES = 64, /* the library's record of a parameter of a query */
    ANSWER_BYTES = 1024,  /* memory that must be left for the answer */
};

/* ---- reading ---- */

/* What a walk over the headers of a head finds. */
struct exchange_fields {
    unsigned hosts, lengths, codings;
    struct bytes length, coding; /* the last ones; data NULL when there is none */
    bool is_bad;                 /* a name or a value that programs may read differently */
};

/* A byte of a token of RFC 9110. */
static bool exchange_is_field_byte(char byte)
{
    const unsigned letter = ((unsigned char)byte | 0x20u) - 'a';
    const unsigned digit = (unsigned char)byte - (unsigned)'0';

    return letter < 26 || digit < 10 || byte == '-' ||
           (byte && strchr("!#$%&'*+.^_`|~", byte) != NULL);
}

/* The size of a name that is a token, otherwise 0: "Content-Length " is another header for some
 * programs. */
static size_t exchange_field_name_size(const char *name)
{
    size_t size = 0;

    while (exchange_is_field_byte(name[size]))
        size++;
    return name[size] ? 0 : size;
}

/* Whether the value has no control character: a bare CR ends a line for some programs. */
static bool exchange_is_field_value(const char *value)
{
    for (; *value; value++)
        if ((*value > 0 && *value < ' ' && *value != '\t') || *value == 0x7f)
            return false;
    return true;
}

static bool exchange_field_is(struct bytes name, struct bytes wanted)
{
    return name.size == wanted.size && strncasecmp(name.data, wanted.data, wanted.size) == 0;
}

static enum MHD_Result exchange_see_field(void *context, enum MHD_ValueKind kind, const char *name,
                                          const char *value)
{
    struct exchange_fields *fields = context;
    const struct bytes token = {name, exchange_field_name_size(name)};

    (void)kind;
    if (!token.size || (value && !exchange_is_field_value(value)))
        fields->is_bad = true;
    if (exchange_field_is(token, BYTES(MHD_HTTP_HEADER_HOST))) {
        fields->hosts++;
    } else if (exchange_field_is(token, BYTES(MHD_HTTP_HEADER_CONTENT_LENGTH))) {
        fields->lengths++;
        fields->length = bytes_of(value ? value : "");
    } else if (exchange_field_is(token, BYTES(MHD_HTTP_HEADER_TRANSFER_ENCODING))) {
        fields->codings++;
        fields->coding = bytes_of(value ? value : "");
    }
    return MHD_YES;
}

/* Whether every program reads the same headers: HTTP/1.1 has exactly one Host, HTTP/1.0 may have
 * none, and what frames the body comes at most once. */
static bool exchange_is_clear(const struct exchange_fields *fields, const char *version)
{
    return !fields->is_bad && fields->lengths <= 1 && fields->codings <= 1 && fields->hosts <= 1 &&
           (fields->hosts == 1 || strcmp(version, MHD_HTTP_VERSION_1_0) == 0);
}

/* Reads the length that the head announces for the body. False: the head contradicts itself, which
 * is how requests are smuggled past a proxy. */
static bool exchange_read_framing(struct http_request *request, const char *version)
{
    struct exchange_fields fields = {0};

    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, exchange_see_field, &fields);
    if (!exchange_is_clear(&fields, version))
        return false;
    if (fields.coding.data) {
        request->content_length = HTTP_LENGTH_UNKNOWN;
        return !fields.length.data && exchange_field_is(fields.coding, BYTES("chunked"));
    }
    if (fields.length.data && (fields.length.size == 0 || fields.length.size > 19))
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < fields.length.size; i++) {
        if (fields.length.data[i] < '0' || fields.length.data[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(fields.length.data[i] - '0');
    }
    request->content_length = value;
    return true;
}

static bool exchange_has_large_head(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return info && info->header_size > request->server->options.header_bytes_max;
}

/* Whether an answer to the head goes out at once, at the price of the connection, instead of after
 * the body. A client that waits for "100 Continue" must not be kept waiting. */
static bool exchange_answers_at_once(const struct http_request *request)
{
    return request->content_length > HTTP_KEEP_BODY_MAX ||
           http_request_header(request, MHD_HTTP_HEADER_EXPECT).data;
}

/* Whether a body is announced, but none comes, which no client may do. After the "100
 * Continue" for a body that never comes, the library takes no answer once the next request has
 * arrived. */
static bool exchange_has_empty_promise(const struct http_request *request)
{
    return request->content_length == 0 &&
           http_request_header(request, MHD_HTTP_HEADER_EXPECT).data;
}

static enum MHD_Result exchange_refuse(struct http_request *request, enum http_refusal refusal)
{
    struct http_server *server = request->server;

    request->is_refused = true;
    server->options.handler->refuse(server->options.context, request, refusal);
    assert(request->is_answered);
    return request_queue(request);
}

/* The whole request has arrived: queues the answer, or sleeps until there is an answer. */
static enum MHD_Result exchange_settle(struct http_request *request)
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

static enum MHD_Result exchange_begin(struct http_request *request, const char *method,
                                      const char *version)
{
    struct http_server *server = request->server;

    request->is_begun = true;
    request->connection->announced = NULL;
    request->method = method;
    pthread_mutex_lock(&server->lock);
    server->active++;
    pthread_mutex_unlock(&server->lock);
    if (!exchange_read_framing(request, version))
        return exchange_refuse(request, HTTP_REFUSED_MALFORMED);
    if (request->connection->is_excess)
        return exchange_refuse(request, HTTP_REFUSED_CONNECTIONS);
    if (exchange_has_large_head(request))
        return exchange_refuse(request, HTTP_REFUSED_HEADERS);
    if (atomic_load(&server->is_stopping))
        return exchange_refuse(request, HTTP_REFUSED_STOPPING);
    server->options.handler->begin(server->options.context, request);
    if (request->content_length == 0)
        connection_wait_over(request->connection);
    else
        connection_wait(request->connection);
    if (exchange_has_empty_promise(request))
        return exchange_settle(request);
    return request->is_answered && exchange_answers_at_once(request) ? request_queue(request)
                                                                     : MHD_YES;
}

/* Counts and drops a part of a body whose request is answered already. */
static enum MHD_Result exchange_discard(struct http_request *request, size_t *size)
{
    request->discarded_bytes += *size;
    connection_progress(request->connection, *size);
    *size = 0;
    return request->discarded_bytes > HTTP_DISCARD_BYTES_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result exchange_take_body(struct http_request *request, const char *data,
                                          size_t *size)
{
    struct http_server *server = request->server;

    if (!request_hold(request))
        return MHD_NO;
    connection_wait_on(request->connection); /* if it slept */
    /* A request that was resumed before it fell asleep continues at once: the library would not
     * call again. */
    while (*size > 0 && !request->is_answered && !request->hangs_up) {
        request->has_paused = false;
        size_t used = server->options.handler->body(request, (struct bytes){data, *size});
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

/* ---- libmicrohttpd's calls ---- */

/* A head in its raw and its parsed form. The library wipes all of it after each request, so it
 * should not be larger than it must. */
static size_t exchange_head_room(const struct http_server *server)
{
    return server->options.header_bytes_max + HEAD_EXTRA_BYTES;
}

/* Whether the parameters need more memory than the library has left beside the head, which takes
 * half of the room or the size of the target, whichever is larger. The library would neither answer
 * nor hang up. */
static bool exchange_has_too_many_parameters(const struct http_server *server, const char *target,
                                             size_t size)
{
    size_t room = exchange_head_room(server),
           taken = ANSWER_BYTES + (size > room / 2 ? size : room / 2);

    for (const char *at = strchr(target, '?'); at && taken <= room; at = strchr(at + 1, '&'))
        taken += PARAMETER_BYTES;
    return taken > room;
}

/* Frees a request that the library gave up for want of memory without telling. */
static void exchange_forget_announced(struct connection *connection)
{
    free(connection->announced);
    connection->announced = NULL;
}

/* The request line has arrived. */
static void *exchange_on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
    struct http_worker *worker = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info ? info->socket_context : NULL;
    size_t size = strlen(target);

    if (!connection)
        return NULL;
    if (exchange_has_too_many_parameters(worker->server, target, size)) {
        shutdown(connection->socket, SHUT_RDWR);
        return NULL;
    }
    struct http_request *request = malloc(sizeof(*request) + size);
    if (!request)
        return NULL;
    memset(request, 0, sizeof(*request));
    request->server = worker->server;
    request->worker = worker;
    request->mhd = mhd;
    request->connection = connection;
    request->begun_at = instant_now();
    request->target_size = size;
    memcpy(request->target, target, size);
    exchange_forget_announced(connection);
    connection->announced = request;
    return request;
}

static enum MHD_Result exchange_on_request(void *context, struct MHD_Connection *mhd,
                                           const char *path, const char *method,
                                           const char *version, const char *data, size_t *size,
                                           void **state)
{
    struct http_request *request = *state;

    (void)context, (void)mhd, (void)path;
    if (!request)
        return MHD_NO;
    if (!request->is_begun)
        return exchange_begin(request, method, version);
    if (request_is_asleep(request))
        return MHD_YES;
    if (*size && request->is_answered)
        return exchange_discard(request, size);
    if (*size)
        return exchange_take_body(request, data, size);
    connection_wait_over(request->connection);
    return exchange_settle(request);
}

static void exchange_on_completed(void *context, struct MHD_Connection *mhd, void **state,
                                  enum MHD_RequestTerminationCode code)
{
    struct http_request *request = *state;

    (void)context, (void)mhd, (void)code;
    *state = NULL;
    if (!request)
        return;
    struct http_server *server = request->server;
    connection_wait(request->connection);
    if (!request->is_begun) {
        exchange_forget_announced(request->connection);
        return;
    }
    server->options.handler->closed(request);
    if (request->is_answered)
        buffer_deinit(&request->response.body);
    server_count_down(server, &server->active);
    free(request);
}

/* Shows the present identity of the server: the daemon only knows the identity it began with. */
static bool exchange_show_identity(struct http_server *server, struct MHD_Connection *mhd,
                                   struct connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    pthread_mutex_lock(&server->identity_lock);
    connection->identity = server->identity ? tls_identity_hold(server->identity) : NULL;
    pthread_mutex_unlock(&server->identity_lock);
    return !connection->identity ||
           (info && tls_identity_show(connection->identity, info->tls_session));
}

static void exchange_on_connection(void *context, struct MHD_Connection *mhd, void **state,
                                   enum MHD_ConnectionNotificationCode code)
{
    struct http_worker *worker = context;
    struct http_server *server = worker->server;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        loop_accepted(&worker->loop);
        *state = info ? connection_open(&server->connections, info->connect_fd) : NULL;
        if (*state && !exchange_show_identity(server, mhd, *state))
            shutdown(info->connect_fd, SHUT_RDWR);
    } else {
        struct connection *connection = *state;
        struct tls_identity *identity = connection ? connection->identity : NULL;

        connection_close(&server->connections, connection);
        tls_identity_release(identity);
        *state = NULL;
    }
}

struct MHD_Daemon *exchange_start(struct http_worker *worker)
{
    struct http_server *server = worker->server;
    const struct http_options *options = &server->options;
    uint64_t idle_s = options->idle_ms / 1000 + 1;
    const struct tls_identity *identity = server->identity;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_KEY, 0, identity ? http_unconst(tls_identity_key(identity)) : NULL},
        {MHD_OPTION_HTTPS_MEM_CERT, 0,
         identity ? http_unconst(tls_identity_certificate(identity)) : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, http_unconst(TLS_PRIORITIES)},
        {MHD_OPTION_END, 0, NULL},
    };

    errno = 0;
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (identity ? MHD_USE_TLS : 0), 0, NULL, NULL,
        exchange_on_request, worker,                /* */
        MHD_OPTION_ARRAY, identity ? tls : tls + 3, /* */
        MHD_OPTION_LISTEN_SOCKET, server->listener, /* */
        /* Connections over the limit are refused by this server, with an answer. */
        MHD_OPTION_CONNECTION_LIMIT, options->connections_max + CONNECTIONS_EXCESS_MAX + 64u,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(idle_s > UINT32_MAX ? UINT32_MAX : idle_s),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, exchange_head_room(server), /* */
        MHD_OPTION_URI_LOG_CALLBACK, exchange_on_target, worker,        /* */
        MHD_OPTION_NOTIFY_COMPLETED, exchange_on_completed, worker,     /* */
        MHD_OPTION_NOTIFY_CONNECTION, exchange_on_connection, worker, MHD_OPTION_END);
}
