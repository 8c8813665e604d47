/* client.c - the HTTP client of tests: connects, sends bytes, reads one answer at a time. */
#include "http/testing/client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

void client_open(struct client *client, uint16_t port)
{
    client_open_narrow(client, port, 0);
}

void client_open_narrow(struct client *client, uint16_t port, int room)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = CLIENT_PATIENCE_MS / 1000};

    buffer_init(&client->in);
    client->taken = 0;
    client->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(client->socket >= 0);
    if (room)
        setsockopt(client->socket, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    setsockopt(client->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(client->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    int on = 1;
    setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int result = connect(client->socket, (struct sockaddr *)&address, sizeof(address));
    assert(result == 0);
    (void)result;
}

bool client_can_connect(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool can = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return can;
}

void client_close(struct client *client)
{
    close(client->socket);
    buffer_deinit(&client->in);
}

void client_reset(struct client *client)
{
    struct linger linger = {.l_onoff = 1};

    setsockopt(client->socket, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    client_close(client);
}

bool client_send(struct client *client, struct bytes data)
{
    while (data.size > 0) {
        ssize_t sent = send(client->socket, data.data, data.size, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        data.data += sent;
        data.size -= (size_t)sent;
    }
    return true;
}

struct bytes client_send_some(struct client *client, struct bytes data, int ms)
{
    struct pollfd wanted = {.fd = client->socket, .events = POLLOUT};

    while (data.size > 0 && poll(&wanted, 1, ms) > 0 && !(wanted.revents & (POLLERR | POLLHUP))) {
        ssize_t sent = send(client->socket, data.data, data.size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent <= 0)
            break;
        data.data += sent;
        data.size -= (size_t)sent;
    }
    return data;
}

bool client_printf(struct client *client, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    char *text;
    int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    assert(size >= 0);
    bool is_sent = client_send(client, (struct bytes){text, (size_t)size});
    free(text);
    return is_sent;
}

void client_finish(struct client *client)
{
    shutdown(client->socket, SHUT_WR);
}

bool client_has_news(struct client *client, int ms)
{
    struct pollfd wanted = {.fd = client->socket, .events = POLLIN};

    return poll(&wanted, 1, ms) > 0;
}

enum { RECEIVE_BYTES = 65536 };

/* Reads some more, and a NUL behind it, for numbers are read with strtol. False at the end of the
 * connection. */
static bool receive_more(struct client *client)
{
    char *room = buffer_reserve(&client->in, RECEIVE_BYTES + 1);

    assert(room);
    ssize_t size = recv(client->socket, room, RECEIVE_BYTES, 0);
    if (size <= 0)
        return false;
    room[size] = '\0';
    client->in.size += (size_t)size;
    return true;
}

bool client_is_at_end(struct client *client)
{
    errno = 0;
    return client->taken == client->in.size && !receive_more(client) && errno != EAGAIN;
}

bool client_await_end(struct client *client)
{
    do {
        errno = 0;
        client->in.size = client->taken = 0;
    } while (receive_more(client));
    return errno != EAGAIN;
}

struct bytes reply_header(const struct reply *reply, const char *name)
{
    const char *at = reply->head.data, *end = at + reply->head.size;
    size_t size = strlen(name);

    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        if ((size_t)(end - at) > size + 1 && strncasecmp(at, name, size) == 0 && at[size] == ':') {
            const char *value = at + size + 1, *stop = memchr(value, '\r', (size_t)(end - value));

            while (*value == ' ')
                value++;
            return (struct bytes){value, (size_t)(stop - value)};
        }
    }
    return (struct bytes){0};
}

bool reply_has_header(const struct reply *reply, const char *name, const char *value)
{
    return bytes_equal(reply_header(reply, name), bytes_of(value));
}

bool reply_body_contains(const struct reply *reply, const char *text)
{
    return reply->body.size && memmem(reply->body.data, reply->body.size, text, strlen(text));
}

bool client_receive(struct client *client, const char *method, struct reply *ret_reply)
{
    /* What was taken is not needed any more; keep the buffer from growing. */
    client->in.size -= client->taken;
    if (client->taken > 0)
        memmove(client->in.data, client->in.data + client->taken, client->in.size);
    client->taken = 0;
    const char *end;
    while (
        !(end = client->in.size ? memmem(client->in.data, client->in.size, "\r\n\r\n", 4) : NULL))
        if (!receive_more(client))
            return false;
    const char *begin = client->in.data;
    ret_reply->head = (struct bytes){begin, (size_t)(end - begin) + 4};
    ret_reply->status = (int)strtol(begin + 9, NULL, 10);
    struct bytes length = reply_header(ret_reply, "Content-Length");
    ret_reply->body =
        (struct bytes){NULL, length.data ? (size_t)strtoull(length.data, NULL, 10) : 0};
    if (strcmp(method, "HEAD") == 0 || ret_reply->status < 200)
        ret_reply->body.size = 0;
    while (client->in.size < ret_reply->head.size + ret_reply->body.size)
        if (!receive_more(client))
            return false;
    ret_reply->head.data = client->in.data; /* it may have moved */
    ret_reply->body.data = client->in.data + ret_reply->head.size;
    client->taken = ret_reply->head.size + ret_reply->body.size;
    return true;
}

void client_ask(struct client *client, const char *method, const char *target, const char *headers,
                struct bytes body, struct reply *ret_reply)
{
    client_printf(client, "%s %s HTTP/1.1\r\nHost: test\r\n%s", method, target, headers);
    if (body.size)
        client_printf(client, "Content-Length: %zu\r\n", body.size);
    client_send(client, BYTES("\r\n"));
    client_send(client, body);
    bool is_answered = client_receive(client, method, ret_reply);
    assert(is_answered);
    (void)is_answered;
}
