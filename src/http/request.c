/* request.c - one request: made of its head, handed to the handler, answered, closed. */
#include "http/server_private.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct http_request *request_create(struct connection *connection, const struct head *head,
                                    const char *text, size_t size)
{
    const size_t field_bytes = head ? head->field_count * sizeof(head->fields[0]) : 0;
    struct http_request *request = malloc(sizeof(*request) + field_bytes + size);

    if (!request)
        return NULL;
    request->connection = connection;
    request->user = NULL;
    atomic_init(&request->turn, TURN_MOVING);
    request->is_asleep = request->is_ended = request->is_answered = request->has_paused = false;
    request->ends_connection = request->hangs_up = request->is_stream = request->has_left = false;
    atomic_init(&request->is_posted, false);
    list_init(&request->posted);
    request->discarded_bytes = 0;
    request->begun_at = loop_now(connection->loop);
    request->method = head ? head->method : (struct head_part){0, 0};
    request->target = head ? head->target : (struct head_part){0, 0};
    request->is_http_1_0 = head && head->is_http_1_0;
    request->content_length = !head              ? 0
                              : head->is_chunked ? HTTP_LENGTH_UNKNOWN
                                                 : head->content_length;
    request->field_count = head ? head->field_count : 0;
    request->fields = (struct head_field *)(request + 1);
    char *copy = (char *)request->fields + field_bytes;
    request->head = copy;
    if (head)
        memcpy(request->fields, head->fields, field_bytes);
    memcpy(copy, text, size);
    atomic_fetch_add(&connection->loop->server->active, 1);
    return request;
}

void request_close(struct http_request *request)
{
    struct http_server *server = request->connection->loop->server;

    server->options.handler->closed(request);
    if (atomic_load(&request->is_posted))
        loop_forget(request->connection->loop, request);
    if (request->is_answered)
        buffer_deinit(&request->response.body);
    free(request);
    if (atomic_fetch_sub(&server->active, 1) > 1 || !atomic_load(&server->is_stopping))
        return;
    pthread_mutex_lock(&server->lock);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* ---- whose turn it is ---- */

bool request_is_moving(struct http_request *request)
{
    int asked = TURN_ASKED;

    request->is_asleep = atomic_compare_exchange_strong(&request->turn, &asked, (int)TURN_ASLEEP);
    return !request->is_asleep;
}

void request_settle(struct http_request *request)
{
    const struct http_handler *handler = request->connection->loop->server->options.handler;

    request->connection->loop->has_called = true;
    while (!request->is_answered) {
        const bool is_first = !request->is_ended;

        request->is_ended = true;
        atomic_store(&request->turn, TURN_ASKED);
        (is_first ? handler->end : handler->resumed)(request);
        if (!request_is_moving(request))
            return;
    }
}

void http_request_resume(struct http_request *request)
{
    struct http_loop *loop = request->connection->loop;

    if (atomic_exchange(&request->turn, TURN_MOVING) == TURN_ASLEEP)
        loop_post(loop, request);
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
        response->status = 503;
        response->content_type = NULL;
    }
    request->response = *response;
    request->is_answered = true;
    http_request_resume(request);
}

void http_request_stream(struct http_request *request, struct http_response *response)
{
    assert(request->is_ended);
    request->ends_connection = true;
    request->is_stream = !bytes_equal(http_request_method(request), BYTES("HEAD"));
    http_request_answer(request, response);
}

void http_request_wake(struct http_request *request)
{
    if (!atomic_exchange(&request->is_posted, true))
        loop_post(request->connection->loop, request);
}

/* ---- queries ---- */

bool http_request_vouch(struct http_request *request, void *sponsor)
{
    struct connection *connection = request->connection;
    struct http_server *server = connection->loop->server;

    if (connection->is_vouched)
        return true;
    if (atomic_fetch_add(&server->vouched_count, 1) >= server->options.connections_max) {
        atomic_fetch_sub(&server->vouched_count, 1);
        return false;
    }
    connection->is_vouched = true;
    connection->sponsor = sponsor;
    loop_drop_stranger(connection);
    return true;
}

bool http_request_is_vouched(const struct http_request *request)
{
    return request->connection->is_vouched;
}

void http_request_peer(const struct http_request *request, char ret_text[HTTP_PEER_SIZE])
{
    const struct in6_addr *peer = &request->connection->peer;

    *ret_text = '\0';
    if (IN6_IS_ADDR_V4MAPPED(peer))
        inet_ntop(AF_INET, &peer->s6_addr[12], ret_text, HTTP_PEER_SIZE);
    else
        inet_ntop(AF_INET6, peer, ret_text, HTTP_PEER_SIZE);
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
    return head_part(request->head, request->method);
}

struct bytes http_request_target(const struct http_request *request)
{
    return head_part(request->head, request->target);
}

/* True if the name of the field is `name`, in any letter case. */
static bool request_field_is(const struct http_request *request, size_t index, const char *name,
                             size_t name_size)
{
    const struct head_part field = request->fields[index].name;

    return field.size == name_size && strncasecmp(request->head + field.at, name, name_size) == 0;
}

struct bytes http_request_header(const struct http_request *request, const char *name)
{
    const size_t name_size = strlen(name);

    for (size_t i = 0; i < request->field_count; i++)
        if (request_field_is(request, i, name, name_size))
            return head_part(request->head, request->fields[i].value);
    return (struct bytes){0};
}

size_t http_request_header_count(const struct http_request *request, const char *name)
{
    const size_t name_size = strlen(name);
    size_t count = 0;

    for (size_t i = 0; i < request->field_count; i++)
        count += request_field_is(request, i, name, name_size);
    return count;
}

uint64_t http_request_content_length(const struct http_request *request)
{
    return request->content_length;
}

unsigned http_request_thread(const struct http_request *request)
{
    return request->connection->loop->index;
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
