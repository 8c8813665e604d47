/* loop.c - the epoll loop that drives one libmicrohttpd daemon, and the listening socket. */
#include "http/loop.h"

#include "http/server.h"
#include "sys/thread.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 4096, /* the system may lower it */
    UNSENT_BYTES_MAX = 128 << 10,
    ACCEPT_RETRY_MS = 10,
};

/* ---- listening ---- */

/* The port of the socket; 0 when the system does not tell. */
static uint16_t loop_bound_port(int listener)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);

    if (getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* Returns the socket, or -1 with errno. */
static int loop_listen_at(const struct addrinfo *address)
{
    int listener =
        socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (listener < 0)
        return -1;
    int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    int unsent_max = UNSENT_BYTES_MAX;
    /* Inherited by accepted connections. Answers that a client does not read stay in this process,
     * where they are counted: the system would buffer megabytes for each connection. */
    setsockopt(listener, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_max, sizeof(unsent_max));
    if (bind(listener, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(listener, BACKLOG) == 0)
        return listener;
    int error = errno;
    close(listener);
    errno = error;
    return -1;
}

enum error_code loop_listen(const char *address, uint16_t port, int *ret_socket, uint16_t *ret_port,
                            struct error *ret_error)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    char port_text[8];

    snprintf(port_text, sizeof(port_text), "%u", port);
    struct addrinfo *found;
    if (getaddrinfo(address, port_text, &hints, &found) != 0)
        return error_set(ret_error, ERROR_INVALID, "%s is not a numeric address", address);
    int listener = loop_listen_at(found);
    freeaddrinfo(found);
    if (listener < 0)
        return error_set(ret_error, ERROR_IO, "listen on %s port %u: %s", address, port,
                         strerror(errno));
    *ret_port = loop_bound_port(listener);
    if (*ret_port == 0) {
        close(listener);
        return error_set(ret_error, ERROR_IO, "listen on %s: the system does not say at which port",
                         address);
    }
    *ret_socket = listener;
    return ERROR_NONE;
}

bool http_address_is_loopback(const char *address)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;

    if (getaddrinfo(address, NULL, &hints, &found) != 0)
        return false;
    bool is_loopback = false;
    if (found->ai_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)found->ai_addr;

        is_loopback = ntohl(ipv4->sin_addr.s_addr) >> 24 == 127;
    } else if (found->ai_family == AF_INET6) {
        const struct in6_addr *ipv6 = &((const struct sockaddr_in6 *)found->ai_addr)->sin6_addr;

        is_loopback =
            IN6_IS_ADDR_LOOPBACK(ipv6) || (IN6_IS_ADDR_V4MAPPED(ipv6) && ipv6->s6_addr[12] == 127);
    }
    freeaddrinfo(found);
    return is_loopback;
}

/* ---- running ---- */

static int loop_timeout_ms(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (MHD_get_timeout(daemon, &ms) != MHD_YES)
        return -1;
    return ms > 60000 ? 60000 : (int)ms;
}

/* Whether a connection waits to be accepted. */
static bool loop_has_waiting(const struct loop *loop)
{
    struct pollfd listener = {.fd = loop->listener_, .events = POLLIN};

    return poll(&listener, 1, 0) > 0;
}

static void loop_become_quiet(struct loop *loop)
{
    MHD_quiesce_daemon(loop->daemon_);
    loop->listener_ = -1;
    pthread_mutex_lock(&loop->lock_);
    loop->is_quiet_ = true;
    pthread_cond_signal(&loop->quiet_);
    pthread_mutex_unlock(&loop->lock_);
}

/* One turn of the loop. Returns whether a connection waits that could not be accepted. */
static bool loop_turn(struct loop *loop, bool is_stuck)
{
    struct pollfd wanted[] = {{.fd = loop->wake_, .events = POLLIN},
                              {.fd = loop->epoll_, .events = POLLIN},
                              {.fd = loop->listener_, .events = POLLIN}};
    size_t accepted = loop->accepted_;

    /* Ready descriptors stay ready: they can wait for the end of the pause. */
    if (is_stuck)
        poll(wanted, 1, ACCEPT_RETRY_MS);
    else
        poll(wanted, 3, loop_timeout_ms(loop->daemon_));
    eventfd_t count;
    /* Clear the flag before the work: a wake-up that comes in between then causes another turn. */
    if (wanted[0].revents)
        eventfd_read(loop->wake_, &count);
    atomic_store(&loop->is_woken_, false);
    if (atomic_exchange(&loop->wants_quiet_, false))
        loop_become_quiet(loop);
    MHD_run(loop->daemon_);
    loop->turned_(loop->context_);
    return (is_stuck || wanted[2].revents) && loop->accepted_ == accepted && loop_has_waiting(loop);
}

static void *loop_run(void *argument)
{
    struct loop *loop = argument;
    bool is_stuck = false;

    while (!atomic_load(&loop->wants_stop_))
        is_stuck = loop_turn(loop, is_stuck);
    return NULL;
}

enum error_code loop_start(struct loop *loop, const struct loop_options *options,
                           struct error *ret_error)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(options->daemon, MHD_DAEMON_INFO_EPOLL_FD);

    *loop = (struct loop){.daemon_ = options->daemon,
                          .turned_ = options->turned,
                          .context_ = options->context,
                          .epoll_ = info->epoll_fd,
                          .listener_ = options->listener};
    loop->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_ < 0)
        return error_set(ret_error, ERROR_IO, "make an eventfd: %s", strerror(errno));
    pthread_mutex_init(&loop->lock_, NULL);
    pthread_cond_init(&loop->quiet_, NULL);
    int error = thread_start(&loop->thread_, loop_run, loop, "http-%u", options->number);
    if (!error)
        return ERROR_NONE;
    pthread_cond_destroy(&loop->quiet_);
    pthread_mutex_destroy(&loop->lock_);
    close(loop->wake_);
    return error_set(ret_error, ERROR_NO_MEMORY, "start a thread: %s", strerror(error));
}

void loop_accepted(struct loop *loop)
{
    loop->accepted_++;
}

void loop_wake(struct loop *loop)
{
    if (!atomic_exchange(&loop->is_woken_, true))
        eventfd_write(loop->wake_, 1);
}

void loop_quiesce(struct loop *loop)
{
    atomic_store(&loop->wants_quiet_, true);
    loop_wake(loop);
    pthread_mutex_lock(&loop->lock_);
    while (!loop->is_quiet_)
        pthread_cond_wait(&loop->quiet_, &loop->lock_);
    pthread_mutex_unlock(&loop->lock_);
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->wants_stop_, true);
    loop_wake(loop);
    pthread_join(loop->thread_, NULL);
    pthread_cond_destroy(&loop->quiet_);
    pthread_mutex_destroy(&loop->lock_);
    close(loop->wake_);
}
