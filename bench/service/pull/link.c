/* link.c - a connection of the pull benchmark: connects, sends, reads lines and exact sizes. */
#include "system.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536

void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("pull_client: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    exit(1);
}

void link_open(struct link *link, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    memset(link, 0, sizeof(*link));
    link->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&address, sizeof(address)))
        fail("connect to port %d: %s", port, strerror(errno));
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

void link_close(struct link *link)
{
    close(link->fd);
    free(link->in);
    free(link->out);
}

static void make_room(char **data, size_t *capacity, size_t wanted)
{
    size_t next = *capacity ? *capacity : READ_BYTES;

    if (wanted <= *capacity)
        return;
    while (next < wanted)
        next *= 2;
    *data = realloc(*data, next);
    if (!*data)
        fail("out of memory");
    *capacity = next;
}

void link_append(struct link *link, const char *data, size_t size)
{
    make_room(&link->out, &link->out_capacity, link->out_size + size);
    memcpy(link->out + link->out_size, data, size);
    link->out_size += size;
}

void link_printf(struct link *link, const char *format, ...)
{
    char text[512];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof(text))
        fail("a line of %d bytes", size);
    link_append(link, text, (size_t)size);
}

void link_flush(struct link *link)
{
    for (size_t sent = 0; sent < link->out_size;) {
        ssize_t n = send(link->fd, link->out + sent, link->out_size - sent, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            fail("send: %s", strerror(errno));
        sent += n > 0 ? (size_t)n : 0;
    }
    link->out_size = 0;
}

static void receive(struct link *link)
{
    ssize_t n;

    if (link->in_start > 0) {
        memmove(link->in, link->in + link->in_start, link->in_size - link->in_start);
        link->in_size -= link->in_start;
        link->in_start = 0;
    }
    make_room(&link->in, &link->in_capacity, link->in_size + READ_BYTES + 1);
    n = recv(link->fd, link->in + link->in_size, READ_BYTES, 0);
    if (n == 0 || (n < 0 && errno != EINTR))
        fail("receive: %s", n == 0 ? "the server hung up" : strerror(errno));
    link->in_size += n > 0 ? (size_t)n : 0;
}

char *link_read_line(struct link *link)
{
    size_t looked = 0;

    for (;;) {
        size_t left = link->in_size - link->in_start - looked;
        char *end = left ? memchr(link->in + link->in_start + looked, '\n', left) : NULL;

        if (end) {
            char *line = link->in + link->in_start;

            link->in_start = (size_t)(end - link->in) + 1;
            *end = '\0';
            if (end > line && end[-1] == '\r')
                end[-1] = '\0';
            return line;
        }
        looked = link->in_size - link->in_start;
        receive(link);
    }
}

char *link_read(struct link *link, size_t size)
{
    char *data;

    while (link->in_size - link->in_start < size)
        receive(link);
    data = link->in + link->in_start;
    link->in_start += size;
    return data;
}
