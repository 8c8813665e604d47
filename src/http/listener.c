/* listener.c - the socket that a server listens on, and what its address says. */
#include "http/server_private.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 4096, /* maximum of connections that wait to be accepted; the system may lower it */
    UNSENT_BYTES_MAX = 128 << 10,
};

/* Returns the port of the socket; 0 if the system does not report it. */
static uint16_t listener_port(int listener)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);

    if (getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* Returns the socket, or -1 with errno. */
static int listener_open(const struct addrinfo *address)
{
    int listener =
        socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (listener < 0)
        return -1;
    int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    int unsent_max = UNSENT_BYTES_MAX;
    /* Accepted connections inherit this. Answers that a client does not read stay in this process,
     * where they are counted. The system would buffer megabytes for each connection. */
    setsockopt(listener, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_max, sizeof(unsent_max));
    /* Sends small packets at once: an answer is sent by one write, so nothing follows that could be
     * sent with it. */
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
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
    int listener = listener_open(found);
    freeaddrinfo(found);
    if (listener < 0)
        return error_set(ret_error, ERROR_IO, "listen on %s port %u: %s", address, port,
                         strerror(errno));
    *ret_port = listener_port(listener);
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
