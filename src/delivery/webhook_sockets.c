/* webhook_sockets.c - a source of events for each socket of libcurl's, by its descriptor. */
#include "delivery/webhook_sockets.h"

#include <stdlib.h>
#include <unistd.h>

struct webhook_socket {
    struct event_source source;
    struct webhook_sockets *sockets;
    int fd;
    bool is_opened; /* added by webhook_sockets_add */
    /* libcurl asks to close a connection's socket. It closes other sockets by itself, including
     * those whose connection failed */
    bool is_connection;
};

/* Stops watching a socket, which may be closed already. */
static void webhook_socket_free(struct webhook_socket *socket)
{
    struct webhook_sockets *sockets = socket->sockets;

    sockets->open_count -= socket->is_connection;
    event_loop_ignore(sockets->loop, &socket->source);
    free(map_remove(&sockets->by_fd_, (uint64_t)socket->fd));
}

void webhook_sockets_deinit(struct webhook_sockets *sockets)
{
    size_t cursor = 0;

    for (struct webhook_socket *socket; (socket = map_next(&sockets->by_fd_, &cursor)); cursor = 0)
        webhook_socket_free(socket);
    map_deinit(&sockets->by_fd_);
}

static void webhook_socket_ready(struct event_source *source, uint32_t events)
{
    struct webhook_socket *socket = list_item(source, struct webhook_socket, source);
    const int ready = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                      (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                      (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;

    if (socket->is_opened && !socket->is_connection && !(ready & CURL_CSELECT_ERR)) {
        socket->is_connection = true;
        socket->sockets->open_count++;
    }
    curl_multi_socket_action(socket->sockets->multi, socket->fd, ready, &running);
}

/* Makes an entry for a socket. Returns NULL if out of memory. */
static struct webhook_socket *webhook_socket_create(struct webhook_sockets *sockets, int fd)
{
    struct webhook_socket *socket = malloc(sizeof(*socket));

    if (!socket)
        return NULL;
    *socket =
        (struct webhook_socket){.source.ready = webhook_socket_ready, .sockets = sockets, .fd = fd};
    if (map_put(&sockets->by_fd_, (uint64_t)fd, socket))
        return socket;
    free(socket);
    return NULL;
}

bool webhook_sockets_add(struct webhook_sockets *sockets, int fd)
{
    struct webhook_socket *closed = map_get(&sockets->by_fd_, (uint64_t)fd);

    if (closed)
        webhook_socket_free(closed);
    struct webhook_socket *socket = webhook_socket_create(sockets, fd);
    if (socket)
        socket->is_opened = true;
    return socket != NULL;
}

int webhook_sockets_close(struct webhook_sockets *sockets, int fd)
{
    struct webhook_socket *socket = map_remove(&sockets->by_fd_, (uint64_t)fd);

    if (!socket)
        return close(fd);
    sockets->open_count -= socket->is_connection;
    const int result = event_loop_close(sockets->loop, fd, &socket->source);
    free(socket);
    return result;
}

int webhook_sockets_watch(CURL *easy, curl_socket_t fd, int what, void *context, void *unused)
{
    struct webhook_sockets *sockets = context;
    struct webhook_socket *socket = map_get(&sockets->by_fd_, (uint64_t)fd);
    uint32_t events = 0;

    (void)easy;
    (void)unused;
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= EPOLLOUT;
    if (!socket && events)
        socket = webhook_socket_create(sockets, fd);
    if (!socket)
        return 0;
    if (what == CURL_POLL_REMOVE && !socket->is_connection)
        webhook_socket_free(socket);
    else
        event_loop_watch(sockets->loop, fd, &socket->source, events);
    return 0;
}
