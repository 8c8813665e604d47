/* Which sockets are ready: interests in epoll, changed as rarely as possible. */
#include "delivery/poller.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct poller_socket {
    uint8_t wanted;     /* what the caller asked for last */
    uint8_t registered; /* what the kernel watches, `wanted` included; 0: it does not know of it */
    bool is_adopted;
};

enum error_code poller_open(struct poller *poller)
{
    *poller = (struct poller){.epoll_fd_ = epoll_create1(EPOLL_CLOEXEC)};
    return poller->epoll_fd_ < 0 ? ERROR_IO : ERROR_NONE;
}

void poller_close(struct poller *poller)
{
    close(poller->epoll_fd_);
    free(poller->sockets_);
}

/* The entry of a descriptor; NULL when out of memory. */
static struct poller_socket *poller_find(struct poller *poller, int fd)
{
    size_t index = (size_t)fd, size = poller->sockets_size_ ? poller->sockets_size_ : 64;

    if (index < poller->sockets_size_)
        return &poller->sockets_[index];
    while (size <= index)
        size *= 2;
    struct poller_socket *sockets = realloc(poller->sockets_, size * sizeof(*sockets));
    if (!sockets)
        return NULL;
    memset(sockets + poller->sockets_size_, 0, (size - poller->sockets_size_) * sizeof(*sockets));
    poller->sockets_ = sockets;
    poller->sockets_size_ = size;
    return &sockets[index];
}

/* False: it will not watch it as is wanted. */
static bool poller_tell_kernel(struct poller *poller, int fd, struct poller_socket *socket)
{
    struct epoll_event event = {.data.fd = fd};
    int operation = socket->registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (socket->wanted & POLLER_IN)
        event.events |= EPOLLIN;
    if (socket->wanted & POLLER_OUT)
        event.events |= EPOLLOUT;
    if (!socket->wanted)
        operation = EPOLL_CTL_DEL;
    if ((socket->wanted || socket->registered) &&
        epoll_ctl(poller->epoll_fd_, operation, fd, &event) != 0 && socket->wanted)
        return false; /* the next wish tries again */
    socket->registered = socket->wanted;
    return true;
}

bool poller_adopt(struct poller *poller, int fd)
{
    struct poller_socket *socket = poller_find(poller, fd);

    if (socket)
        *socket = (struct poller_socket){.is_adopted = true};
    return socket != NULL;
}

void poller_forget(struct poller *poller, int fd)
{
    if (fd >= 0 && (size_t)fd < poller->sockets_size_)
        poller->sockets_[fd] = (struct poller_socket){0};
}

bool poller_want(struct poller *poller, int fd, unsigned interest)
{
    struct poller_socket *socket = poller_find(poller, fd);

    if (!socket)
        return false;
    socket->wanted = (uint8_t)interest;
    if (!socket->is_adopted || (interest & ~(unsigned)socket->registered))
        return poller_tell_kernel(poller, fd, socket);
    return true;
}

size_t poller_wait(struct poller *poller, int timeout_ms,
                   struct poller_event ret_events[POLLER_EVENTS_MAX])
{
    struct epoll_event events[POLLER_EVENTS_MAX];
    int count = epoll_wait(poller->epoll_fd_, events, POLLER_EVENTS_MAX, timeout_ms);
    size_t wanted_count = 0;

    for (int i = 0; i < count; i++) {
        int fd = events[i].data.fd;
        struct poller_socket *socket = &poller->sockets_[fd];
        unsigned ready = 0;

        if (events[i].events & EPOLLIN)
            ready |= POLLER_IN;
        if (events[i].events & EPOLLOUT)
            ready |= POLLER_OUT;
        if (events[i].events & (EPOLLERR | EPOLLHUP))
            ready |= POLLER_FAILED;
        if (socket->wanted != socket->registered)
            poller_tell_kernel(poller, fd, socket);
        ready &= socket->wanted | POLLER_FAILED;
        if (socket->wanted && ready)
            ret_events[wanted_count++] = (struct poller_event){fd, ready};
    }
    return wanted_count;
}
