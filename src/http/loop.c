/*
 * loop.c - a thread with an epoll loop, and the connections that it accepted.
 *
 * A turn takes the answers of other threads, lets each connection that has something to do read and
 * call the handler, calls `turned`, and then lets each write: so what one turn has for one
 * connection leaves in one write. Sockets are registered once, for the edges of both directions;
 * what a connection may do is remembered there. The wake-up of the loop is written by other threads
 * only when it sleeps.
 */
#include "http/server_private.h"

#include "sys/clock.h"
#include "sys/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    ACCEPTS_MAX = 16,     /* in a turn: other threads take the rest, or the next turn */
    ACCEPT_RETRY_MS = 10, /* after descriptors or memory ran out */
    LINGER_MS = 2000,     /* for the end of the client behind the last answer */
};

/* ---- lists of work ---- */

void loop_work(struct connection *connection)
{
    if (list_is_empty(&connection->work))
        list_push(&connection->loop->work, &connection->work);
}

void loop_work_next(struct connection *connection)
{
    if (list_is_empty(&connection->work))
        list_push(&connection->loop->next, &connection->work);
}

/* ---- other threads ---- */

void loop_post(struct http_loop *loop, struct http_request *request)
{
    atomic_fetch_add(&loop->posting, 1);
    pthread_mutex_lock(&loop->lock);
    list_push(&loop->posted, &request->posted);
    const bool was_asleep = loop->is_asleep;
    loop->is_asleep = false;
    pthread_mutex_unlock(&loop->lock);
    /* Not within the lock: the loop, woken, would wait for it. */
    if (was_asleep)
        eventfd_write(loop->wake, 1);
    atomic_fetch_sub(&loop->posting, 1);
}

void loop_wake(struct http_loop *loop)
{
    eventfd_write(loop->wake, 1);
}

/* False: a post came before. */
static bool loop_fall_asleep(struct http_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->is_asleep = list_is_empty(&loop->posted);
    const bool is_asleep = loop->is_asleep;
    pthread_mutex_unlock(&loop->lock);
    return is_asleep;
}

static void loop_take_posts(struct http_loop *loop)
{
    struct list posts;

    list_init(&posts);
    pthread_mutex_lock(&loop->lock);
    loop->is_asleep = false;
    list_join(&posts, &loop->posted);
    pthread_mutex_unlock(&loop->lock);
    for (struct list *link; (link = list_pop(&posts));) {
        struct http_request *request = list_item(link, struct http_request, posted);

        connection_wake(request->connection, request);
    }
}

/* ---- accepting ---- */

/* Tells epoll that connections which wait to be accepted are of interest. False: not now. */
static bool loop_listen_on(struct http_loop *loop)
{
    /* Of the threads that sleep, one is woken for a connection. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data = {.ptr = loop}};

    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->server->listener, &event) == 0;
}

static void loop_listen_off(struct http_loop *loop)
{
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->server->listener, NULL);
}

static void loop_accept_later(struct http_loop *loop)
{
    loop->accepts_at = instant_add_ms(loop->now, ACCEPT_RETRY_MS);
}

static void loop_adopt(struct http_loop *loop, int socket)
{
    struct http_server *server = loop->server;
    const size_t count = atomic_fetch_add(&server->connection_count, 1) + 1;
    const size_t max = server->options.connections_max;
    struct connection *connection =
        count > max + CONNECTIONS_EXCESS_MAX ? NULL : connection_open(loop, socket);

    if (!connection) {
        if (count > max + CONNECTIONS_EXCESS_MAX)
            close(socket);
        atomic_fetch_sub(&server->connection_count, 1);
        return;
    }
    connection->is_excess = count > max;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data = {.ptr = connection}};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, socket, &event) != 0)
        connection_break(connection);
}

static void loop_accept(struct http_loop *loop)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        const int socket =
            accept4(loop->server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (socket >= 0) {
            loop_adopt(loop, socket);
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

/* When the first connection of the list has waited for too long. */
static struct instant loop_end_of_wait(const struct list *waiting, uint64_t ms)
{
    if (list_is_empty(waiting))
        return (struct instant){UINT64_MAX};
    return instant_add_ms(list_item(waiting->next, struct connection, waiting)->waits_since, ms);
}

static void loop_expire(struct http_loop *loop, struct list *waiting, uint64_t ms)
{
    while (loop_end_of_wait(waiting, ms).ns <= loop->now.ns)
        connection_break(list_item(waiting->next, struct connection, waiting));
}

static uint64_t loop_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How long epoll may wait; -1 for ever. */
static int loop_timeout_ms(const struct http_loop *loop)
{
    uint64_t until_ns = loop_min(loop_end_of_wait(&loop->waiting, loop->server->options.idle_ms).ns,
                                 loop_end_of_wait(&loop->lingering, LINGER_MS).ns);

    if (loop->accepts_at.ns)
        until_ns = loop_min(until_ns, loop->accepts_at.ns);
    if (!list_is_empty(&loop->next) || !list_is_empty(&loop->work) || loop->has_called)
        return 0;
    if (until_ns == UINT64_MAX)
        return -1;
    const uint64_t ms = instant_since_ns(loop->now, (struct instant){until_ns}) / 1000000 + 1;
    return (int)loop_min(ms, 3600000);
}

/* ---- turns ---- */

static void loop_take_event(struct http_loop *loop, const struct epoll_event *event)
{
    if (!event->data.ptr)
        return; /* another thread has woken the loop */
    if (event->data.ptr == loop) {
        loop_accept(loop);
        return;
    }
    struct connection *connection = event->data.ptr;
    if (event->events & (EPOLLERR | EPOLLHUP)) {
        connection_break(connection);
        return;
    }
    /* TLS may have to read in order to write, and to write in order to read. */
    connection->can_read |= connection->tls || (event->events & (EPOLLIN | EPOLLRDHUP));
    connection->can_write |= connection->tls || (event->events & EPOLLOUT);
    connection->has_end |= (event->events & EPOLLRDHUP) != 0;
    loop_work(connection);
}

static void loop_wait(struct http_loop *loop)
{
    struct epoll_event events[EVENTS_MAX];
    int timeout_ms = loop_timeout_ms(loop);

    if (timeout_ms != 0 && !loop_fall_asleep(loop))
        timeout_ms = 0;
    const int count = epoll_wait(loop->epoll, events, EVENTS_MAX, timeout_ms);
    loop->now = instant_now();
    list_join(&loop->work, &loop->next);
    for (int i = 0; i < count; i++)
        loop_take_event(loop, &events[i]);
    if (loop->accepts_at.ns && loop->accepts_at.ns <= loop->now.ns) {
        loop->accepts_at = (struct instant){0};
        if (!loop_listen_on(loop))
            loop_accept_later(loop);
    }
}

static void loop_run_turn(struct http_loop *loop)
{
    const struct http_options *options = &loop->server->options;

    loop_wait(loop);
    loop_take_posts(loop);
    LIST_FOR_EACH (&loop->work, link)
        connection_turn(list_item(link, struct connection, work));
    if (loop->has_called && options->handler->turned)
        options->handler->turned(options->context, loop->index);
    loop->has_called = false;
    loop_take_posts(loop);
    loop_expire(loop, &loop->waiting, options->idle_ms);
    loop_expire(loop, &loop->lingering, LINGER_MS);
    for (struct list *link; (link = list_pop(&loop->work));)
        connection_end_turn(list_item(link, struct connection, work));
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

static void *loop_run(void *argument)
{
    struct http_loop *loop = argument;
    struct http_server *server = loop->server;
    bool is_closing = false;

    while (!is_closing || !list_is_empty(&loop->open)) {
        loop_run_turn(loop);
        if (loop->is_listening && atomic_load(&server->is_stopping))
            loop_stop_listening(loop);
        if (is_closing || !atomic_load(&server->is_closing))
            continue;
        is_closing = true;
        LIST_FOR_EACH (&loop->open, link)
            loop_work(list_item(link, struct connection, link));
    }
    return NULL;
}

/* ---- starting and ending ---- */

static void loop_free(struct http_loop *loop)
{
    if (loop->epoll >= 0)
        close(loop->epoll);
    if (loop->wake >= 0)
        close(loop->wake);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

static struct http_loop *loop_alloc(struct http_server *server, unsigned index)
{
    struct http_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return NULL;
    loop->server = server;
    loop->index = index;
    pthread_mutex_init(&loop->lock, NULL);
    list_init(&loop->posted);
    list_init(&loop->open);
    list_init(&loop->waiting);
    list_init(&loop->lingering);
    list_init(&loop->work);
    list_init(&loop->next);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return loop;
}

/* 0, or an errno. */
static int loop_register(struct http_loop *loop)
{
    /* By its edges: each write is told, and none needs to be read. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.ptr = NULL}};

    if (loop->epoll < 0 || loop->wake < 0 ||
        epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &event) != 0 || !loop_listen_on(loop))
        return errno;
    loop->is_listening = true;
    return 0;
}

enum error_code loop_start(struct http_server *server, unsigned index, struct error *ret_error)
{
    struct http_loop *loop = loop_alloc(server, index);

    if (!loop)
        return error_set(ret_error, ERROR_NO_MEMORY, "start the server");
    int error = loop_register(loop);
    if (!error)
        error = thread_start(&loop->thread, loop_run, loop, "http-%u", index);
    if (error) {
        loop_free(loop);
        return error_set(ret_error, ERROR_IO, "start the server: %s", strerror(error));
    }
    server->loops[index] = loop;
    server->loop_count++;
    return ERROR_NONE;
}

void loop_join(struct http_loop *loop)
{
    pthread_join(loop->thread, NULL);
    while (atomic_load(&loop->posting) > 0) /* the last answer was taken before its thread left */
        sched_yield();
    loop_free(loop);
}
