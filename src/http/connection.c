/*
 * connection.c - one connection: turns bytes into calls of the handler, and answers into bytes.
 *
 * Input is used in the buffer of the loop into which it was read. `in` keeps what cannot be used
 * yet: a part of a head, the rest of a body whose handler has paused, requests that have to wait.
 * As long as it keeps anything, the socket is not read, which slows the client down. Requests with
 * safe methods and without a body may be in flight together (RFC 9112, 9.3.2); any other request is
 * alone. An answer is written into `out` when its turn comes. A large body is sent from its own
 * memory, and nothing is added to `out` until it was sent. So a connection uses at most the memory
 * of one read, one head, the requests in flight, and OUT_BYTES_MAX of output besides the answers
 * themselves.
 */
#include "http/server_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    /* a body of at least this size is sent from its own memory, not copied */
    LARGE_BYTES = 16384,
    OUT_BYTES_MAX = 65536,    /* output in bytes beyond which further answers wait */
    HEAD_BYTES = 384,         /* room for the head of most answers */
    PROGRESS_BYTES_MIN = 4096 /* bytes that a client must send or receive within idle_ms */
};

/* ---- waiting for the client ---- */

static bool connection_has_output(const struct connection *connection)
{
    return connection->out_sent < connection->out.size || connection->large;
}

/* True if the connection can only continue when the client sends or reads. */
static bool connection_is_waiting(const struct connection *connection)
{
    if (connection->lingers || connection_has_output(connection))
        return true;
    if (connection->stream)
        return false;
    if (connection->reading)
        return !connection->reading->is_asleep;
    return list_is_empty(&connection->requests);
}

/* Ends the wait for the client; connection_mark begins a new one. */
static void connection_restart_wait(struct connection *connection)
{
    list_remove(&connection->waiting);
    connection->progress_bytes = 0;
}

/* Begins the wait of a connection that waits for its client. It begins now, so each list stays in
 * the order of waits_since. */
static void connection_mark(struct connection *connection)
{
    struct http_loop *loop = connection->loop;

    if (!connection_is_waiting(connection) && !connection->stream) {
        connection_restart_wait(connection);
    } else if (list_is_empty(&connection->waiting)) {
        connection->waits_since = loop_now(loop);
        list_push(connection->lingers                 ? &loop->lingering
                  : connection_is_waiting(connection) ? &loop->waiting
                                                      : &loop->silent,
                  &connection->waiting);
    }
}

/* Begins the wait anew after PROGRESS_BYTES_MIN bytes. So a client that moves one byte now and then
 * is closed as early as a silent one. */
static void connection_progress(struct connection *connection, size_t size)
{
    connection->progress_bytes += size;
    if (connection->progress_bytes >= PROGRESS_BYTES_MIN)
        connection_restart_wait(connection);
}

/* ---- beginning and end ---- */

static struct tls_identity *connection_identity(struct http_server *server)
{
    pthread_mutex_lock(&server->identity_lock);
    struct tls_identity *identity = server->identity ? tls_identity_hold(server->identity) : NULL;
    pthread_mutex_unlock(&server->identity_lock);
    return identity;
}

/* Begins TLS. Returns false if out of memory. */
static bool connection_begin_tls(struct connection *connection)
{
    struct tls_identity *identity = connection_identity(connection->loop->server);

    if (!identity)
        return true;
    connection->tls = tls_session_open(identity, connection->socket);
    tls_identity_release(identity);
    return connection->tls != NULL;
}

static void connection_ready(struct event_source *source, uint32_t events)
{
    struct connection *connection = list_item(source, struct connection, source);

    if (events & (EPOLLERR | EPOLLHUP)) {
        connection_break(connection);
        return;
    }
    /* TLS may have to read in order to write, and to write in order to read. */
    connection->can_read |= connection->tls || (events & (EPOLLIN | EPOLLRDHUP));
    connection->can_write |= connection->tls || (events & EPOLLOUT);
    connection->has_end |= (events & EPOLLRDHUP) != 0;
    loop_work(connection);
}

struct connection *connection_open(struct http_loop *loop, int socket)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return NULL;
    connection->loop = loop;
    connection->socket = socket;
    connection->source.ready = connection_ready;
    list_init(&connection->link);
    list_init(&connection->waiting);
    list_init(&connection->work);
    list_init(&connection->requests);
    list_init(&connection->leaving);
    list_init(&connection->stranger);
    if (!connection_begin_tls(connection)) {
        free(connection);
        return NULL;
    }
    return connection;
}

void connection_break(struct connection *connection)
{
    if (connection->socket < 0)
        return;
    tls_session_close(connection->tls);
    event_loop_close(connection->loop->events, connection->socket, &connection->source);
    connection->tls = NULL;
    connection->socket = -1;
    loop_drop_stranger(connection);
    connection->reading = connection->large = connection->stream = NULL;
    list_remove(&connection->waiting);
    buffer_deinit(&connection->in);
    buffer_deinit(&connection->out);
    connection->out_sent = 0;
    loop_work(connection);
}

static void connection_close_request(struct connection *connection, struct http_request *request)
{
    list_remove(&request->link);
    connection->request_count--;
    request_close(request);
}

/* Closes the requests of a broken connection, except those that other threads hold. Returns
 * whether the connection was freed. */
static bool connection_reap(struct connection *connection)
{
    LIST_FOR_EACH (&connection->leaving, link)
        connection_close_request(connection, list_item(link, struct http_request, link));
    LIST_FOR_EACH (&connection->requests, link) {
        struct http_request *request = list_item(link, struct http_request, link);

        if (!request->is_asleep)
            connection_close_request(connection, request);
    }
    if (connection->request_count > 0)
        return false;
    list_remove(&connection->link);
    list_remove(&connection->work);
    atomic_fetch_sub(&connection->loop->server->connection_count, 1);
    atomic_fetch_sub(&connection->loop->server->vouched_count, connection->is_vouched);
    if (connection->sponsor && connection->loop->server->options.handler->parted)
        connection->loop->server->options.handler->parted(connection->loop->server->options.context,
                                                          connection->sponsor);
    free(connection);
    return true;
}

/* ---- answers ---- */

static void connection_put(struct connection *connection, struct bytes text)
{
    buffer_append_bytes(&connection->out, text);
    connection->out_end += text.size;
}

/* Writes an answer into `out`. It is the connection's last answer if the request says so, or if the
 * server is stopping and no further request has begun. */
static void connection_put_answer(struct connection *connection, struct http_request *request)
{
    struct http_loop *loop = connection->loop;
    const struct bytes body = response_body(request);

    if (connection->requests.prev == &request->link && atomic_load(&loop->server->is_stopping))
        request->ends_connection = true;
    connection->is_last |= request->ends_connection;
    list_remove(&request->link);
    list_push(&connection->leaving, &request->link);
    const size_t size = connection->out.size;
    buffer_reserve(&connection->out, HEAD_BYTES + (body.size < LARGE_BYTES ? body.size : 0));
    response_format_head(loop, request, &connection->out);
    connection->out_end += connection->out.size - size;
    if (body.size >= LARGE_BYTES) {
        connection->large = request;
        connection->large_sent = 0;
    } else {
        connection_put(connection, body);
        buffer_deinit(&request->response.body);
        buffer_init(&request->response.body);
    }
    request->leaves_at = connection->out_end;
    if (request->is_stream) {
        request->leaves_at = UINT64_MAX;
        connection->stream = request;
        connection->has_more = true;
    }
    if (buffer_failed(&connection->out))
        connection_break(connection);
}

/* Writes into `out` the answers whose turn it is. */
static void connection_put_answers(struct connection *connection)
{
    while (connection->socket >= 0 && !connection->large && !list_is_empty(&connection->requests) &&
           connection->out.size - connection->out_sent < OUT_BYTES_MAX) {
        struct http_request *request =
            list_item(connection->requests.next, struct http_request, link);

        if (request->is_asleep || !request->is_answered || request == connection->reading)
            break;
        connection_put_answer(connection, request);
    }
}

static ssize_t connection_send(struct connection *connection, struct bytes out, struct bytes large)
{
    if (connection->tls)
        return tls_session_send(connection->tls, out.size ? out : large);
    struct iovec parts[] = {{(void *)(uintptr_t)out.data, out.size},
                            {(void *)(uintptr_t)large.data, large.size}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = large.size ? 2 : 1};
    return sendmsg(connection->socket, &message, MSG_NOSIGNAL);
}

/* Closes the requests whose answers have been sent. */
static void connection_close_sent(struct connection *connection)
{
    const uint64_t sent = connection->out_end - (connection->out.size - connection->out_sent);

    LIST_FOR_EACH (&connection->leaving, link) {
        struct http_request *request = list_item(link, struct http_request, link);

        if (request->leaves_at > sent || request == connection->large)
            break;
        connection_close_request(connection, request);
        connection_restart_wait(connection);
    }
}

static void connection_note_sent(struct connection *connection, size_t size)
{
    const size_t of_out = connection->out.size - connection->out_sent;

    connection_progress(connection, size);
    connection->out_sent += size < of_out ? size : of_out;
    if (size > of_out)
        connection->large_sent += size - of_out;
    if (connection->large && connection->large_sent == response_body(connection->large).size)
        connection->large = NULL;
    if (connection->out_sent == connection->out.size) {
        buffer_deinit(&connection->out);
        buffer_init(&connection->out);
        connection->out_sent = 0;
        if (connection->stream)
            connection_restart_wait(connection);
    }
    connection_close_sent(connection);
}

/* Sends the output with one system call. */
static void connection_flush(struct connection *connection)
{
    if (!connection_has_output(connection) || !connection->can_write)
        return;
    struct bytes out = buffer_bytes(&connection->out);
    if (connection->out_sent > 0)
        out = (struct bytes){out.data + connection->out_sent, out.size - connection->out_sent};
    struct bytes large = {0};
    if (connection->large) {
        large = response_body(connection->large);
        large = (struct bytes){large.data + connection->large_sent,
                               large.size - connection->large_sent};
    }
    const ssize_t sent = connection_send(connection, out, large);
    if (sent > 0)
        connection_note_sent(connection, (size_t)sent);
    else if (sent < 0 && errno == EAGAIN)
        connection->can_write = false;
    else if (sent == 0 || errno != EINTR)
        connection_break(connection);
}

/* ---- streams ---- */

/* Asks the stream for its next piece, once all earlier output was sent. */
static void connection_pull(struct connection *connection, bool is_idle)
{
    struct http_request *request = connection->stream;
    const size_t size = connection->out.size;

    if (!request || connection_has_output(connection))
        return;
    connection->loop->has_called = true;
    const bool goes_on =
        connection->loop->server->options.handler->streamed(request, is_idle, &connection->out);
    connection->has_more = goes_on && connection->out.size > size;
    connection->out_end += connection->out.size - size;
    if (connection->out.size > size)
        connection_restart_wait(connection);
    if (buffer_failed(&connection->out)) {
        connection_break(connection);
    } else if (!goes_on) {
        connection->stream = NULL;
        request->leaves_at = connection->out_end;
        connection_close_sent(connection);
    }
}

/* Asks the stream for more at the end of a turn. */
static void connection_pull_more(struct connection *connection)
{
    if (!connection->stream || !connection->has_more || connection_has_output(connection))
        return;
    connection_pull(connection, false);
    connection_flush(connection);
    if (connection->stream && connection->has_more && !connection_has_output(connection))
        loop_work_next(connection);
}

void connection_stay_alive(struct connection *connection)
{
    connection_restart_wait(connection);
    connection_pull(connection, true);
    loop_work(connection);
}

/* ---- bodies ---- */

/* Ends the body: all of it has arrived, or the server does not read the rest. */
static void connection_end_body(struct connection *connection)
{
    struct http_request *request = connection->reading;

    connection->reading = NULL;
    connection_restart_wait(connection);
    if (!request->is_answered)
        request_settle(request);
}

/* Answers the request with an error of the server itself. The connection reads no further request,
 * because it is unknown where this one ends. */
static void connection_refuse(struct connection *connection, struct http_request *request,
                              enum http_refusal refusal)
{
    const struct http_options *options = &connection->loop->server->options;

    if (!request->is_answered)
        options->handler->refuse(options->context, request, refusal);
    assert(request->is_answered);
    request->ends_connection = connection->is_last = connection->leaves_unread = true;
    connection->reading = NULL;
}

/* Refuses a body with invalid chunks: the handler sees its request end, and another request is
 * refused in its place. */
static void connection_refuse_body(struct connection *connection)
{
    struct http_request *request = connection->reading;

    if (!request->is_answered) {
        connection->loop->server->options.handler->closed(request);
        request->user = NULL;
    }
    connection_refuse(connection, request, HTTP_REFUSED_MALFORMED);
}

/* Passes a part of the body to the handler, or drops it if the request is answered already. Returns
 * how many bytes were used; fewer than all if the request sleeps or the connection is broken. */
static size_t connection_hand_over(struct connection *connection, struct bytes part)
{
    struct http_request *request = connection->reading;
    size_t used = 0;

    while (used < part.size && !request->is_answered) {
        const struct bytes rest = {part.data + used, part.size - used};

        request->has_paused = false;
        connection->loop->has_called = true;
        const size_t more = connection->loop->server->options.handler->body(request, rest);
        assert(more == rest.size || (more < rest.size && request->has_paused) ||
               request->is_answered);
        used += more;
        if (request->hangs_up) {
            connection_break(connection);
            return used;
        }
        if (request->has_paused && !request->is_answered && !request_is_moving(request)) {
            connection_progress(connection, used);
            return used;
        }
    }
    if (request->is_answered) {
        request->discarded_bytes += part.size - used;
        if (request->discarded_bytes > HTTP_DISCARD_BYTES_MAX)
            connection_break(connection);
    }
    connection_progress(connection, part.size);
    return part.size;
}

/* Reads the next part of a body that is not chunked. Returns true if the input may hold more. */
static bool connection_read_plain(struct connection *connection, struct bytes *input)
{
    const size_t size =
        connection->body_left < input->size ? (size_t)connection->body_left : input->size;
    const size_t used = connection_hand_over(connection, (struct bytes){input->data, size});

    *input = (struct bytes){input->data + used, input->size - used};
    connection->body_left -= used;
    return connection->socket >= 0;
}

static bool connection_read_chunked(struct connection *connection, struct bytes *input)
{
    struct bytes data;

    switch (chunk_next(&connection->chunks, input, &data)) {
    case CHUNK_DATA: {
        const size_t unused = data.size - connection_hand_over(connection, data);

        chunk_give_back(&connection->chunks, unused);
        *input = (struct bytes){input->data - unused, input->size + unused};
        break;
    }
    case CHUNK_END:
        connection_end_body(connection);
        break;
    case CHUNK_BAD:
        connection_refuse_body(connection);
        break;
    case CHUNK_MORE:
        break;
    }
    return connection->socket >= 0;
}

/* Reads the body. Returns true if the input may hold more to use. */
static bool connection_read_body(struct connection *connection, struct bytes *input)
{
    const struct http_request *request = connection->reading;

    if (request->is_asleep)
        return false;
    if (request->content_length != HTTP_LENGTH_UNKNOWN && connection->body_left == 0) {
        connection_end_body(connection);
        return true;
    }
    if (input->size == 0)
        return false;
    return request->content_length == HTTP_LENGTH_UNKNOWN
               ? connection_read_chunked(connection, input)
               : connection_read_plain(connection, input);
}

/* ---- heads ---- */

static bool connection_may_begin(const struct connection *connection)
{
    /* Nothing follows a stream, even if its turn has not come yet. */
    if (!list_is_empty(&connection->requests) &&
        list_item(connection->requests.prev, struct http_request, link)->ends_connection)
        return false;
    return !connection->is_last && !connection->large && connection->request_count < PIPELINE_MAX &&
           !(connection->is_exclusive && !list_is_empty(&connection->requests)) &&
           connection->out.size - connection->out_sent < OUT_BYTES_MAX;
}

/* True if the request may run while other requests of the connection run. */
static bool connection_is_joinable(const struct head *head, const char *text)
{
    const struct bytes method = head_part(text, head->method);

    return !head->is_chunked && head->content_length == 0 &&
           (bytes_equal(method, BYTES("GET")) || bytes_equal(method, BYTES("HEAD")));
}

/* After the handler has seen the head, decides whether the body will be read. */
static void connection_expect_body(struct connection *connection, struct http_request *request,
                                   const struct head *head, bool has_come)
{
    connection_restart_wait(connection);
    /* The body of an answered request is not read if it is large, or if the client waits for "100
     * Continue". */
    if (request->is_answered &&
        (request->content_length > HTTP_KEEP_BODY_MAX || head->expects_continue)) {
        request->ends_connection = connection->is_last = connection->leaves_unread = true;
        return;
    }
    connection->reading = request;
    connection->body_left = request->content_length;
    connection->chunks = (struct chunk_decoder){0};
    if (head->expects_continue && !request->is_answered && !has_come)
        connection_put(connection, BYTES("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* Begins a request: calls the handler if `result` is HEAD_WHOLE, otherwise refuses it. `has_come`
 * is true if bytes of the body have arrived. */
static void connection_start(struct connection *connection, struct http_request *request,
                             enum head_result result, const struct head *head, bool has_come)
{
    const struct http_options *options = &connection->loop->server->options;

    list_push(&connection->requests, &request->link);
    connection->request_count++;
    connection->is_exclusive = true;
    connection->loop->has_called = true;
    if (result == HEAD_BAD) {
        connection_refuse(connection, request, HTTP_REFUSED_MALFORMED);
    } else if (connection->is_excess) {
        connection_refuse(connection, request, HTTP_REFUSED_CONNECTIONS);
    } else if (result == HEAD_TOO_LARGE) {
        connection_refuse(connection, request, HTTP_REFUSED_HEADERS);
    } else if (atomic_load(&connection->loop->server->is_stopping)) {
        connection_refuse(connection, request, HTTP_REFUSED_STOPPING);
    } else {
        connection->is_exclusive = !connection_is_joinable(head, request->head);
        connection->is_last = request->ends_connection = !head->keeps_alive;
        options->handler->begin(options->context, request);
        connection_expect_body(connection, request, head, has_come);
    }
}

/* Begins the next request, if its whole head has arrived and the requests in flight allow it.
 * Returns true if the input may hold more to use. */
static bool connection_begin(struct connection *connection, struct bytes *input)
{
    if (!connection_may_begin(connection))
        return false;
    while (connection->head_seen == 0 && bytes_has_prefix(*input, BYTES("\r\n")))
        /* skips an empty line before the request line (RFC 9112, 2.2) */
        *input = (struct bytes){input->data + 2, input->size - 2};
    if (input->size == 0 || bytes_equal(*input, BYTES("\r")))
        return false;
    struct head head;
    size_t size = 0;
    enum head_result result = head_find_end(
        *input, connection->loop->server->options.header_bytes_max, &connection->head_seen, &size);
    if (result == HEAD_MORE)
        return false;
    connection->head_seen = 0;
    if (result == HEAD_WHOLE)
        result = head_parse((struct bytes){input->data, size}, &head);
    if (!list_is_empty(&connection->requests) &&
        (result != HEAD_WHOLE || !connection_is_joinable(&head, input->data)))
        return false;
    struct http_request *request = request_create(connection, result == HEAD_WHOLE ? &head : NULL,
                                                  input->data, result == HEAD_WHOLE ? size : 0);
    if (!request) {
        connection_break(connection);
        return false;
    }
    if (result != HEAD_WHOLE)
        size = input->size;
    *input = (struct bytes){input->data + size, input->size - size};
    connection_start(connection, request, result, &head, input->size > 0);
    return true;
}

/* ---- clients that leave ---- */

/* Tells the handler which requests have lost their client. Only the loop knows which of them sleep;
 * another thread may have answered them meanwhile. */
static void connection_tell_left(struct connection *connection)
{
    const struct http_handler *handler = connection->loop->server->options.handler;

    if (!handler->left || !(connection->has_end || connection->is_at_end || connection->socket < 0))
        return;
    LIST_FOR_EACH (&connection->requests, link) {
        struct http_request *request = list_item(link, struct http_request, link);

        if (!request->is_asleep || !request->is_ended || request->has_left)
            continue;
        request->has_left = true;
        handler->left(request);
    }
}

/* ---- turns ---- */

/* Handles the end of the input within a body: the rest will not arrive. */
static void connection_miss_body(struct connection *connection)
{
    if (!connection->reading->is_answered) {
        connection_break(connection);
        return;
    }
    connection->reading->ends_connection = connection->is_last = true;
    connection->reading = NULL;
    connection_put_answers(connection);
}

/* Uses as much of the input as the state of the connection allows. */
static void connection_use(struct connection *connection, struct bytes *input)
{
    bool goes_on = true;

    while (goes_on && connection->socket >= 0) {
        connection_put_answers(connection);
        goes_on = connection->socket >= 0 &&
                  (connection->reading ? connection_read_body(connection, input)
                                       : connection_begin(connection, input));
    }
    if (connection->socket < 0)
        return;
    if (connection->is_at_end && connection->reading && !connection->reading->is_asleep &&
        input->size == 0)
        connection_miss_body(connection);
}

/* Uses the input that earlier reads left. */
static void connection_use_rest(struct connection *connection)
{
    struct buffer *in = &connection->in;
    struct bytes input = buffer_bytes(in);

    connection_use(connection, &input);
    if (connection->socket < 0)
        return;
    if (input.size == 0) {
        buffer_deinit(in);
        buffer_init(in);
    } else if (input.data != in->data) {
        memmove(in->data, input.data, input.size);
        in->size = input.size;
    }
}

/* True if the connection could use input now. */
static bool connection_takes_input(const struct connection *connection)
{
    return connection->lingers || (connection->reading ? !connection->reading->is_asleep
                                                       : connection_may_begin(connection));
}

static ssize_t connection_read_some(struct connection *connection, char *room, size_t size)
{
    const ssize_t received = connection->tls ? tls_session_receive(connection->tls, room, size)
                                             : recv(connection->socket, room, size, 0);

    if (received < 0 && errno == EAGAIN)
        connection->can_read = false;
    else if (received < 0 && errno != EINTR)
        connection_break(connection);
    else if (received == 0)
        connection->is_at_end = true;
    /* A read that returns less than asked has emptied the socket. But only one more read shows
     * whether the client has ended its side. */
    if (received == 0 ||
        (received > 0 && (size_t)received < size && !connection->tls && !connection->has_end))
        connection->can_read = false;
    return received;
}

/* Reads once, and uses the bytes. */
static void connection_receive(struct connection *connection)
{
    struct http_loop *loop = connection->loop;
    const ssize_t size = connection_read_some(connection, loop->room, sizeof(loop->room));
    struct bytes input = {loop->room, size > 0 ? (size_t)size : 0};

    if (connection->socket < 0 || connection->lingers)
        return;
    const bool is_first = connection->in.size == 0;
    if (is_first)
        connection_use(connection, &input);
    if (connection->socket < 0 || (is_first && input.size == 0))
        return;
    buffer_append_bytes(&connection->in, input);
    if (buffer_failed(&connection->in))
        connection_break(connection);
    else if (!is_first)
        connection_use_rest(connection);
}

void connection_turn(struct connection *connection)
{
    /* The handler learns first that the client has left, before other connections change what its
     * requests wait for. */
    connection_tell_left(connection);
    if (connection->socket >= 0 && !connection->lingers)
        connection_use_rest(connection);
    if (connection->socket >= 0 && connection->can_read && !connection->is_at_end &&
        connection_takes_input(connection))
        connection_receive(connection);
}

/* Ends the connection after the last answer. If the client may still be sending, its bytes are read
 * for a while first. Closing at once would reset the connection, perhaps before the client has read
 * the answer. */
static void connection_finish(struct connection *connection)
{
    if (connection->is_at_end || (!connection->leaves_unread && connection->in.size == 0)) {
        if (connection->tls)
            tls_session_finish(connection->tls);
        connection_break(connection);
        return;
    }
    if (connection->lingers)
        return;
    connection->lingers = true;
    buffer_deinit(&connection->in);
    buffer_init(&connection->in);
    if (connection->tls)
        tls_session_finish(connection->tls);
    shutdown(connection->socket, SHUT_WR);
    connection_restart_wait(connection);
}

/* True if another thread still has to answer or resume a request of the connection. */
static bool connection_is_owed(const struct connection *connection)
{
    LIST_FOR_EACH (&connection->requests, link)
        if (list_item(link, struct http_request, link)->is_asleep)
            return true;
    return false;
}

bool connection_end_turn(struct connection *connection)
{
    connection_tell_left(connection);
    if (connection->socket >= 0 && !connection->lingers)
        connection_use_rest(connection);
    if (connection->socket < 0)
        return !connection_reap(connection);
    const bool was_blocked = !connection_takes_input(connection);
    connection_flush(connection);
    if (connection->stream && connection->has_end)
        connection_break(connection); /* no client reads the answers */
    connection_pull_more(connection);
    if (atomic_load(&connection->loop->server->is_closing) && !connection_is_owed(connection))
        connection_break(connection);
    if (connection->socket >= 0 && connection->request_count == 0 &&
        !connection_has_output(connection) &&
        (connection->is_last || (connection->is_at_end && !was_blocked)))
        connection_finish(connection);
    if (connection->socket < 0)
        return !connection_reap(connection);
    if ((connection_has_output(connection) && connection->can_write) ||
        (connection_takes_input(connection) &&
         ((was_blocked && connection->in.size > 0) ||
          (connection->can_read && !connection->is_at_end))) ||
        (was_blocked && connection->is_at_end && connection->request_count == 0))
        loop_work_next(connection);
    connection_mark(connection);
    return true;
}

void connection_wake(struct connection *connection, struct http_request *request)
{
    /* the request is a stream that was woken, possibly before it began */
    if (atomic_exchange(&request->is_posted, false)) {
        connection->has_more = true;
        loop_work(connection);
        return;
    }
    request->is_asleep = false;
    if (request->is_ended && !request->is_answered)
        request_settle(request);
    loop_work(connection);
}
