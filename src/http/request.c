/* request.c - sleeping, waking and answering of one request, and its accessors. */
#include "http/server_private.h"

#include "sys/clock.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

/*
 * libmicrohttpd runs the sockets; a request that owes an answer or a resume is suspended in it, and
 * a suspended connection is left alone until it is resumed: that is what keeps a request alive
 * while other threads work for it, and why a hang-up is noticed only afterwards.
 *
 * `turn` says which thread continues the request. The thread of the handler sets ASKED before (end)
 * or within (pause) a call of the handler, and SUSPENDED once the connection sleeps. The thread
 * that answers or resumes sets MOVING and, had the turn been SUSPENDED, wakes the connection. So
 * the connection is woken exactly once, whichever comes first.
 */
/* ---- sleeping and waking ---- */

void server_count_down(struct http_server *server, size_t *count)
{
    pthread_mutex_lock(&server->lock);
    (*count)--;
    if (atomic_load(&server->is_stopping))
        pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

bool request_hold(struct http_request *request)
{
    struct http_server *server = request->server;

    pthread_mutex_lock(&server->lock);
    bool is_held = !server->is_closing;
    server->held += is_held;
    pthread_mutex_unlock(&server->lock);
    return is_held;
}

void request_release(struct http_request *request)
{
    server_count_down(request->server, &request->server->held);
}

static void request_wake(struct http_request *request)
{
    struct http_server *server = request->server;
    struct http_worker *worker = request->worker;

    /* From here on the request belongs to its own thread again. */
    MHD_resume_connection(request->mhd);
    loop_wake(&worker->loop);
    server_count_down(server, &server->held);
}

void request_fall_asleep(struct http_request *request)
{
    MHD_suspend_connection(request->mhd);
    int asked = TURN_ASKED;
    if (!atomic_compare_exchange_strong(&request->turn, &asked, TURN_SUSPENDED))
        request_wake(request);
}

bool request_is_asleep(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);

    return info && info->suspended;
}

void http_request_resume(struct http_request *request)
{
    if (atomic_exchange(&request->turn, TURN_MOVING) == TURN_SUSPENDED)
        request_wake(request);
}

void http_request_pause(struct http_request *request)
{
    assert(!request->is_ended && !request->is_answered);
    request->has_paused = true;
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

enum MHD_Result request_queue(struct http_request *request)
{
    struct http_response *from = &request->response;
    struct MHD_Response *response;
    bool closes = request->is_refused || atomic_load(&request->server->is_stopping);

    if (from->lent.data)
        response = MHD_create_response_from_buffer(from->lent.size, http_unconst(from->lent.data),
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
    enum MHD_Result result = MHD_queue_response(request->mhd, (unsigned)from->status, response);
    MHD_destroy_response(response);
    connection_wait_over(request->connection);
    return result;
}

/* ---- queries ---- */

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

static enum MHD_Result request_count_header(void *context, enum MHD_ValueKind kind,
                                            const char *name, const char *value)
{
    struct header_counter *counter = context;

    (void)kind, (void)value;
    counter->count += strcasecmp(name, counter->name) == 0;
    return MHD_YES;
}

size_t http_request_header_count(const struct http_request *request, const char *name)
{
    struct header_counter counter = {.name = name};

    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, request_count_header, &counter);
    return counter.count;
}

uint64_t http_request_content_length(const struct http_request *request)
{
    return request->content_length;
}

unsigned http_request_thread(const struct http_request *request)
{
    return request->worker->index;
}

struct instant http_request_begun_at(const struct http_request *request)
{
    return request->begun_at;
}

void http_response_header(struct http_response *response, const char *name, const char *format, ...)
{
    struct http_header *header = &response->headers[response->header_count++];

    assert(response->header_count <= HTTP_HEADERS_MAX);
    header->name = name;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(header->value, sizeof(header->value), format, arguments);
    va_end(arguments);
    assert(size >= 0 && (size_t)size < sizeof(header->value));
    (void)size;
}
