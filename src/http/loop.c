/*
 * loop.c - the connections of a thread, as a task of the loop that it runs.
 *
 * In the first half of a turn each connection that has something to do reads and calls the handler.
 * Then `turned` is called, and other tasks of the loop may work. The second half takes their
 * answers and writes. So all output of one turn for one connection is sent by one write. After
 * TURN_NS the first half ends, so that other tasks need not wait long; the connections left are
 * first in the next turn. A socket is registered once, edge-triggered for both directions, and its
 * connection stores whether it can be read and written.
 */
#include "http/server_private.h"

#include "sys/clock.h"
#include "sys/process.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_MAX = 16,     /* maximum of connections accepted in a turn */
    ACCEPT_RETRY_MS = 10, /* pause after the system ran out of descriptors or memory */
    LINGER_MS = 2000,     /* time to wait for the client's end after the last answer */
    TURN_NS = 1000000,    /* time for calls of the handler in one half of a turn */
};

void loop_wake(struct http_loop *loop)
{
    event_loop_wake(loop->events);
}

/* True if this half of the turn has used its time. */
static bool loop_is_over_time(struct instant begun)
{
    return instant_since_ns(begun, instant_now()) > TURN_NS;
}

static void loop_take_posts(struct http_loop *loop)
{
    const struct instant begun = instant_now();

    mailbox_take(&loop->posts, &loop->woken);
    for (struct list *link; (link = list_pop(&loop->woken));) {
        struct http_request *request = list_item(link, struct http_request, posted);

        connection_wake(request->connection, request);
        if (loop_is_over_time(begun))
            return;
    }
}

/* ---- strangers ---- */

/* Returns the stranger to close so that another one can connect: the oldest of the same address,
 * otherwise the oldest of all. So a peer that opens many connections closes its own. */
static struct connection *loop_find_victim(struct http_loop *loop, const struct connection *latest)
{
    LIST_FOR_EACH (&loop->strangers, link) {
        struct connection *connection = list_item(link, struct connection, stranger);

        if (connection != latest &&
            memcmp(&connection->peer, &latest->peer, sizeof(latest->peer)) == 0)
            return connection;
    }
    return list_item(loop->strangers.next, struct connection, stranger);
}

static void loop_add_stranger(struct http_loop *loop, struct connection *connection)
{
    const struct http_server *server = loop->server;
    const unsigned max =
        (server->options.strangers_max + server->loop_count - 1) / server->loop_count;

    if (max == 0)
        return;
    connection->accepted_at = loop_now(loop);
    list_push(&loop->strangers, &connection->stranger);
    if (++loop->stranger_count > max)
        connection_break(loop_find_victim(loop, connection));
}

/* Returns when the oldest stranger must be closed. */
static struct instant loop_end_of_stranger(const struct http_loop *loop)
{
    if (list_is_empty(&loop->strangers))
        return (struct instant){UINT64_MAX};
    return instant_add_ms(list_item(loop->strangers.next, struct connection, stranger)->accepted_at,
                          loop->server->options.stranger_ms);
}

static void loop_expire_strangers(struct http_loop *loop)
{
    while (loop_end_of_stranger(loop).ns <= loop_now(loop).ns)
        connection_break(list_item(loop->strangers.next, struct connection, stranger));
}

/* ---- accepting ---- */

bool loop_listen_on(struct http_loop *loop)
{
    /* For each new connection the system wakes only one of the sleeping threads. */
    return event_loop_watch(loop->events, loop->server->listener, &loop->listener,
                            EPOLLIN | EPOLLEXCLUSIVE);
}

static void loop_listen_off(struct http_loop *loop)
{
    event_loop_ignore(loop->events, &loop->listener);
}

static void loop_accept_later(struct http_loop *loop)
{
    loop->accepts_at = instant_add_ms(loop_now(loop), ACCEPT_RETRY_MS);
}

static void loop_adopt(struct http_loop *loop, struct connection *connection)
{
    list_push(&loop->open, &connection->link);
    loop_work(connection);
    loop_add_stranger(loop, connection);
    if (!event_loop_watch(loop->events, connection->socket, &connection->source,
                          EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET))
        connection_break(connection);
}

static void loop_take_incoming(struct http_loop *loop)
{
    struct list incoming;

    list_init(&incoming);
    mailbox_take(&loop->incoming, &incoming);
    for (struct list *link; (link = list_pop(&incoming));)
        loop_adopt(loop, list_item(link, struct connection, work));
}

static struct in6_addr loop_peer(const struct sockaddr_storage *peer)
{
    struct in6_addr address = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

    if (peer->ss_family == AF_INET6)
        return ((const struct sockaddr_in6 *)peer)->sin6_addr;
    if (peer->ss_family == AF_INET)
        memcpy(&address.s6_addr[12], &((const struct sockaddr_in *)peer)->sin_addr, 4);
    return address;
}

/* Distributes connections among the loops in turn. Without this, few connections would all belong
 * to the loop that wakes up first. */
static void loop_give_socket(struct http_loop *loop, int socket,
                             const struct sockaddr_storage *peer)
{
    struct http_server *server = loop->server;
    const size_t count = atomic_fetch_add(&server->connection_count, 1) + 1;
    const size_t max = server->options.connections_max + server->options.strangers_max;
    struct http_loop *owner =
        server->loops[atomic_fetch_add(&server->accepted, 1) % server->loop_count];
    struct connection *connection =
        count > max + CONNECTIONS_EXCESS_MAX ? NULL : connection_open(owner, socket);

    if (!connection) {
        close(socket);
        atomic_fetch_sub(&server->connection_count, 1);
        return;
    }
    /* With strangers_max, an old stranger is closed for a new one, so a new one is never
     * refused. */
    connection->is_excess = count > max && server->options.strangers_max == 0;
    connection->peer = loop_peer(peer);
    if (owner == loop)
        loop_adopt(loop, connection);
    else
        mailbox_post(&owner->incoming, &connection->work);
}

static void loop_accept(struct http_loop *loop)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
        socklen_t size = sizeof(peer);
        const int socket = accept4(loop->server->listener, (struct sockaddr *)&peer, &size,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (socket >= 0) {
            loop_give_socket(loop, socket, &peer);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            loop_listen_off(loop);
            loop_accept_later(loop);
            return;
        }
    }
}

/* ---- time ---- */

/* Returns when the first connection of the list will have waited for `ms`. */
static struct instant loop_end_of_wait(const struct list *waiting, uint64_t ms)
{
    if (list_is_empty(waiting))
        return (struct instant){UINT64_MAX};
    return instant_add_ms(list_item(waiting->next, struct connection, waiting)->waits_since, ms);
}

/* Sends a sign of life on streams that have sent nothing for HTTP_STREAM_IDLE_MS. */
static void loop_keep_alive(struct http_loop *loop)
{
    while (loop_end_of_wait(&loop->silent, HTTP_STREAM_IDLE_MS).ns <= loop_now(loop).ns)
        connection_stay_alive(list_item(loop->silent.next, struct connection, waiting));
}

static void loop_expire(struct http_loop *loop, struct list *waiting, uint64_t ms)
{
    while (loop_end_of_wait(waiting, ms).ns <= loop_now(loop).ns)
        connection_break(list_item(waiting->next, struct connection, waiting));
}

static uint64_t loop_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* True if the next turn has something to do. */
static bool loop_has_work(struct http_loop *loop)
{
    const struct http_server *server = loop->server;

    return !list_is_empty(&loop->next) || !list_is_empty(&loop->work) ||
           !list_is_empty(&loop->woken) || mailbox_has_news(&loop->posts) ||
           mailbox_has_news(&loop->incoming) ||
           (loop->is_listening && atomic_load(&server->is_stopping)) ||
           (!loop->is_closing && atomic_load(&server->is_closing));
}

static uint64_t loop_wait_ns(struct event_task *task)
{
    struct http_loop *loop = list_item(task, struct http_loop, task);

    if (loop_has_work(loop))
        return 0;
    uint64_t until_ns = loop_min(loop_end_of_wait(&loop->waiting, loop->server->options.idle_ms).ns,
                                 loop_end_of_wait(&loop->lingering, LINGER_MS).ns);

    until_ns = loop_min(until_ns, loop_end_of_wait(&loop->silent, HTTP_STREAM_IDLE_MS).ns);
    until_ns = loop_min(until_ns, loop_end_of_stranger(loop).ns);
    if (loop->accepts_at.ns)
        until_ns = loop_min(until_ns, loop->accepts_at.ns);
    if (until_ns == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t now_ns = instant_now().ns;
    return until_ns > now_ns ? until_ns - now_ns : 0;
}

/* ---- turns ---- */

static void loop_listener_ready(struct event_source *source, uint32_t events)
{
    (void)events;
    loop_accept(list_item(source, struct http_loop, listener));
}

static void loop_retry_accepting(struct http_loop *loop)
{
    if (!loop->accepts_at.ns || loop->accepts_at.ns > loop_now(loop).ns)
        return;
    loop->accepts_at = (struct instant){0};
    if (!loop_listen_on(loop))
        loop_accept_later(loop);
}

/* Lets each connection read until the time is used up. The connections left are first in the next
 * turn. */
static void loop_run_connections(struct http_loop *loop)
{
    const struct instant begun = instant_now();
    struct list turn;

    list_init(&turn);
    list_join(&turn, &loop->next);
    list_join(&turn, &loop->work);
    do {
        struct list *link = list_pop(&turn);

        if (!link)
            break;
        list_push(&loop->work, link);
        connection_turn(list_item(link, struct connection, work));
    } while (!loop_is_over_time(begun));
    list_join(&turn, &loop->next);
    list_join(&loop->next, &turn);
}

/* Calls `turned`, so that the handler passes on what it has collected. */
static void loop_tell_turned(struct http_loop *loop)
{
    const struct http_options *options = &loop->server->options;

    if (loop->has_called && options->handler->turned)
        options->handler->turned(options->context, loop->index);
    loop->has_called = false;
}

static void loop_begin_turn(struct event_task *task)
{
    struct http_loop *loop = list_item(task, struct http_loop, task);

    loop_retry_accepting(loop);
    loop_take_incoming(loop);
    loop_take_posts(loop);
    loop_run_connections(loop);
    loop_tell_turned(loop);
}

static void loop_stop_listening(struct http_loop *loop)
{
    struct http_server *server = loop->server;

    loop_listen_off(loop);
    loop->is_listening = false;
    loop->accepts_at = (struct instant){0};
    pthread_mutex_lock(&server->lock);
    server->quiet_count++;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* Takes the task off the event loop, and counts it among those that have ended. It runs no more. */
static void loop_leave(struct http_loop *loop)
{
    struct http_server *server = loop->server;

    event_loop_leave(loop->events, &loop->task);
    loop->has_left = true;
    pthread_mutex_lock(&server->lock);
    server->left_count++;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void loop_end_turn(struct event_task *task)
{
    struct http_loop *loop = list_item(task, struct http_loop, task);
    struct http_server *server = loop->server;

    loop_take_posts(loop);
    loop_expire(loop, &loop->waiting, server->options.idle_ms);
    loop_expire(loop, &loop->lingering, LINGER_MS);
    loop_expire_strangers(loop);
    loop_keep_alive(loop);
    for (struct list *link; (link = list_pop(&loop->work));)
        connection_end_turn(list_item(link, struct connection, work));
    loop_tell_turned(loop); /* connections continue with input that they had read before */
    if (loop->is_listening && atomic_load(&server->is_stopping))
        loop_stop_listening(loop);
    if (!loop->is_closing && atomic_load(&server->is_closing)) {
        loop->is_closing = true;
        LIST_FOR_EACH (&loop->open, link)
            loop_work(list_item(link, struct connection, link));
    }
    if (loop->is_closing && list_is_empty(&loop->open) && !mailbox_has_news(&loop->incoming))
        loop_leave(loop);
}

/* ---- starting and ending ---- */

/* Runs a loop on a thread of the server's own. */
static void *loop_run(void *argument)
{
    struct http_loop *loop = argument;

    while (!loop->has_left)
        event_loop_turn(loop->events);
    return NULL;
}

enum error_code loop_create(struct http_server *server, unsigned index)
{
    struct event_loop *const *loops = server->options.loops;
    struct http_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return ERROR_NO_MEMORY;
    if (!loops && event_loop_init(&loop->own) != ERROR_NONE) {
        free(loop);
        return ERROR_IO;
    }
    loop->server = server;
    loop->index = index;
    loop->events = loops ? loops[index] : &loop->own;
    loop->listener.ready = loop_listener_ready;
    loop->task = (struct event_task){
        .begin = loop_begin_turn, .end = loop_end_turn, .wait_ns = loop_wait_ns};
    loop->is_listening = true;
    mailbox_init_in(&loop->posts, loop->events);
    mailbox_init_in(&loop->incoming, loop->events);
    list_init(&loop->woken);
    list_init(&loop->open);
    list_init(&loop->waiting);
    list_init(&loop->silent);
    list_init(&loop->lingering);
    list_init(&loop->strangers);
    list_init(&loop->work);
    list_init(&loop->next);
    server->loops[server->loop_count++] = loop;
    return ERROR_NONE;
}

int loop_start(struct http_loop *loop)
{
    event_loop_join(loop->events, &loop->task);
    return loop->events == &loop->own
               ? thread_start(&loop->thread, loop_run, loop, "http-%u", loop->index)
               : 0;
}

void loop_join(struct http_loop *loop)
{
    if (loop->events == &loop->own)
        pthread_join(loop->thread, NULL);
    /* a thread may still be within loop_post although its answer was taken */
    while (atomic_load(&loop->posting) > 0)
        sched_yield();
}

void loop_destroy(struct http_loop *loop)
{
    mailbox_deinit(&loop->posts);
    mailbox_deinit(&loop->incoming);
    if (loop->events == &loop->own)
        event_loop_deinit(&loop->own);
    free(loop);
}
