/*
 * receiver_testing.h - for tests: a receiver of webhooks that answers when it is told, so that a
 * test sees how many are in flight. The path of a webhook is a number below RECEIVER_PATHS.
 *
 * Threads    That of the test: it takes in requests only within a call.
 */
#ifndef TICKWHEEL_NODE_RECEIVER_TESTING_H
#define TICKWHEEL_NODE_RECEIVER_TESTING_H

#include "base/time.h"
#include "sys/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    RECEIVER_PATHS = 256,
    RECEIVER_CLIENTS_MAX = 64,
    RECEIVER_WAIT_MS = 120000,
    RECEIVER_QUIET_MS = 2, /* how long it looks whether more come */
};

struct receiver_client {
    int fd;
    char head[4096];
    size_t size;
    bool is_asking; /* a whole request is there, and not answered */
    unsigned path;
};

struct receiver {
    int listener;
    unsigned port;
    struct receiver_client clients[RECEIVER_CLIENTS_MAX];
    size_t client_count;
    size_t out, arrived;           /* requests not answered; all that have come */
    size_t counts[RECEIVER_PATHS]; /* that have come, by path */
};

static inline void receiver_open(struct receiver *receiver)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);

    receiver->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(receiver->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(receiver->listener, 512), 0);
    assert_int_equal(getsockname(receiver->listener, (struct sockaddr *)&address, &size), 0);
    receiver->port = ntohs(address.sin_port);
}

/* Reads from a client; it goes when its connection has ended. */
static inline void receiver_read(struct receiver *receiver, size_t i)
{
    struct receiver_client *client = &receiver->clients[i];
    const ssize_t size =
        recv(client->fd, client->head + client->size, sizeof(client->head) - 1 - client->size, 0);

    if (size <= 0) {
        receiver->out -= client->is_asking;
        close(client->fd);
        *client = receiver->clients[--receiver->client_count];
        return;
    }
    client->size += (size_t)size;
    client->head[client->size] = '\0';
    const char *end = strstr(client->head, "\r\n\r\n");
    if (!end || client->is_asking)
        return;
    assert_true(sscanf(client->head, "POST /%u ", &client->path) == 1);
    assert_true(client->path < RECEIVER_PATHS);
    client->is_asking = true;
    receiver->out++;
    receiver->arrived++;
    receiver->counts[client->path]++;
}

/* Takes in requests until none has come for `quiet_ms`. */
static inline void receiver_look(struct receiver *receiver, int quiet_ms)
{
    for (;;) {
        struct pollfd fds[1 + RECEIVER_CLIENTS_MAX] = {
            {.fd = receiver->listener, .events = POLLIN}};
        const size_t count = receiver->client_count;

        for (size_t i = 0; i < count; i++)
            fds[1 + i] = (struct pollfd){.fd = receiver->clients[i].fd, .events = POLLIN};
        if (poll(fds, (nfds_t)(1 + count), quiet_ms) == 0)
            return;
        for (size_t i = count; i-- > 0;)
            if (fds[1 + i].revents)
                receiver_read(receiver, i);
        if (fds[0].revents) {
            assert_true(receiver->client_count < RECEIVER_CLIENTS_MAX);
            receiver->clients[receiver->client_count++] =
                (struct receiver_client){.fd = accept(receiver->listener, NULL, NULL)};
        }
    }
}

/* Answers one request; false when there is none. */
static inline bool receiver_answer(struct receiver *receiver)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    for (size_t i = 0; i < receiver->client_count; i++) {
        struct receiver_client *client = &receiver->clients[i];

        if (!client->is_asking)
            continue;
        client->is_asking = false;
        client->size = 0;
        receiver->out--;
        assert_int_equal(send(client->fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL),
                         sizeof(answer) - 1);
        return true;
    }
    return false;
}

/* Until `out` are out. */
static inline void receiver_await(struct receiver *receiver, size_t out)
{
    const struct instant until = instant_add_ms(instant_now(), RECEIVER_WAIT_MS);

    while (receiver->out < out) {
        assert_true(instant_now().ns < until.ns);
        receiver_look(receiver, RECEIVER_QUIET_MS);
    }
}

static inline void receiver_close(struct receiver *receiver)
{
    for (size_t i = 0; i < receiver->client_count; i++)
        close(receiver->clients[i].fd);
    close(receiver->listener);
}

#endif
