/* wire.c - the API behind a socket without a port, for fuzzing. */
#include "api/testing/wire.h"

#include "sys/clock.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <semaphore.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* Every answer comes within this time, or the test hangs. */
enum {
    PATIENCE_MS = 120000,
};

/* ---- the socket ---- */

/* Makes a name in the abstract space, which the system frees with the last socket that has it. */
static socklen_t socket_name(uint64_t port, struct sockaddr_un *ret_name)
{
    *ret_name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int size = snprintf(ret_name->sun_path + 1, sizeof(ret_name->sun_path) - 1, "tickwheel-%d-%u",
                        getpid(), (unsigned)port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
}

enum error_code __wrap_loop_listen(const char *address, uint16_t port, int *ret_socket,
                                   uint16_t *ret_port, struct error *ret_error);

/* Replaces the server's own function. */
enum error_code __wrap_loop_listen(const char *address, uint16_t port, int *ret_socket,
                                   uint16_t *ret_port, struct error *ret_error)
{
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name;
    socklen_t size = socket_name(port, &name);

    (void)address, (void)ret_error;
    REQUIRE(bind(listener, (struct sockaddr *)&name, size) == 0);
    REQUIRE(listen(listener, 16) == 0);
    *ret_socket = listener;
    *ret_port = port;
    return ERROR_NONE;
}

void __real_node_hold(struct node *node, struct node_hold *hold);
void __wrap_node_hold(struct node *node, struct node_hold *hold);

/* Whatever comes in, no delivery leaves the machine: maintenance does not end. */
void __wrap_node_hold(struct node *node, struct node_hold *hold)
{
    if (hold->kind != NODE_HOLD_END) {
        __real_node_hold(node, hold);
        return;
    }
    hold->result = error_set(&hold->error, ERROR_OVERLOADED, "a test");
    hold->done(hold);
}

static sem_t wire_held;

static void wire_is_held(struct node_hold *hold)
{
    (void)hold;
    sem_post(&wire_held);
}

struct wire *wire_start(const struct config *config, struct tokens *tokens)
{
    struct wire *wire = calloc(1, sizeof(*wire));

    REQUIRE(wire);
    struct node_probe *probe = &wire->probe;
    probe->config = *config;
    REQUIRE(config_set(&probe->config, "allowed_hosts", "a", NULL) == ERROR_NONE);
    probe_start(probe);
    struct node_hold hold = {.kind = NODE_HOLD_MAINTAIN, .done = wire_is_held};
    REQUIRE(sem_init(&wire_held, 0, 0) == 0);
    node_hold(probe->node, &hold);
    while (sem_wait(&wire_held) != 0)
        continue;
    REQUIRE(!hold.result);
    node_queue_stop_waiting(probe->node);
    struct api_options options = {
        .config = &probe->config, .metrics = probe->metrics, .node = probe->node, .tokens = tokens};
    REQUIRE(api_start(&options, &wire->api, NULL) == ERROR_NONE);
    return wire;
}

void wire_stop(struct wire *wire)
{
    if (!wire)
        return;
    api_stop(wire->api);
    probe_stop(&wire->probe);
    free(wire);
}

/* ---- an exchange ---- */

/* Reads the bytes that have come. Returns false if the server has closed. */
static bool receive(int socket, struct buffer *answers)
{
    char part[16384];
    ssize_t size;

    while ((size = recv(socket, part, sizeof(part), MSG_DONTWAIT)) > 0)
        buffer_append(answers, part, (size_t)size);
    return size < 0 && (errno == EAGAIN || errno == EINTR);
}

/* True if the server has read everything that was sent. */
static bool is_read(int socket)
{
    int left;

    REQUIRE(ioctl(socket, SIOCOUTQ, &left) == 0);
    return left == 0;
}

/* Sends, and waits until the server has read it all. Reads answers meanwhile. Returns false if the
 * server has closed. */
static bool deliver(int socket, struct bytes piece, struct buffer *answers)
{
    struct instant begun = instant_now();

    while (piece.size > 0 || !is_read(socket)) {
        ssize_t size =
            piece.size > 0 ? send(socket, piece.data, piece.size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

        if (size > 0)
            piece = (struct bytes){piece.data + size, piece.size - (size_t)size};
        if ((size < 0 && errno != EAGAIN) || !receive(socket, answers))
            return false;
        sched_yield();
        REQUIRE(instant_since_ns(begun, instant_now()) < UINT64_C(1000000) * PATIENCE_MS);
    }
    return true;
}

void wire_exchange(struct wire *wire, const struct bytes *pieces, size_t count,
                   struct buffer *ret_answers)
{
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pollfd wanted = {.fd = client, .events = POLLIN};
    struct sockaddr_un name;
    socklen_t size = socket_name(wire->probe.config.listen_port, &name);

    REQUIRE(connect(client, (struct sockaddr *)&name, size) == 0);
    bool is_open = true;
    for (size_t i = 0; i < count && is_open; i++)
        is_open = deliver(client, pieces[i], ret_answers);
    shutdown(client, SHUT_WR);
    while (receive(client, ret_answers))
        REQUIRE(poll(&wanted, 1, PATIENCE_MS) > 0 || errno == EINTR);
    REQUIRE(!buffer_failed(ret_answers));
    close(client);
}

/* ---- answers ---- */

static struct bytes wire_take_line(struct bytes *rest)
{
    struct bytes line = *rest;

    for (size_t i = 0; i + 1 < rest->size; i++) {
        if (rest->data[i] == '\r') {
            REQUIRE(rest->data[i + 1] == '\n');
            line.size = i;
            *rest = (struct bytes){rest->data + i + 2, rest->size - i - 2};
            return line;
        }
        REQUIRE((uint8_t)rest->data[i] >= ' ' || rest->data[i] == '\t');
    }
    abort();
}

/* Returns the index of a header among those that the service sends. */
static size_t header_index(struct bytes line, struct bytes *ret_value)
{
    static const char *const known[] = {"Date",
                                        "Content-Length",
                                        "Content-Type",
                                        "Connection",
                                        "ETag",
                                        "Location",
                                        "Idempotent-Replayed",
                                        "Retry-After",
                                        "Allow",
                                        "Accept-Encoding",
                                        "RateLimit",
                                        "RateLimit-Policy",
                                        "Cache-Control",
                                        "Vary",
                                        "WWW-Authenticate",
                                        "Preference-Applied",
                                        "X-Accel-Buffering",
                                        "Tickwheel-Warning"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t size = strlen(known[i]);

        if (line.size > size + 1 && strncasecmp(line.data, known[i], size) == 0 &&
            line.data[size] == ':') {
            *ret_value = (struct bytes){line.data + size + 2, line.size - size - 2};
            return i;
        }
    }
    abort();
}

static size_t number_of(struct bytes digits)
{
    REQUIRE(digits.size > 0 && digits.size < 10);
    size_t value = 0;
    for (size_t i = 0; i < digits.size; i++) {
        REQUIRE(digits.data[i] >= '0' && digits.data[i] <= '9');
        value = value * 10 + (size_t)(digits.data[i] - '0');
    }
    return value;
}

static bool begins_with(struct bytes text, const char *begin)
{
    size_t size = strlen(begin);

    return text.size >= size && memcmp(text.data, begin, size) == 0;
}

/* Removes the head from the front. Returns the size of the body; SIZE_MAX if the head does not say
 * it. */
static size_t take_head(struct bytes *answers, struct wire_reply *ret_reply)
{
    const size_t length_index = 1, type_index = 2;
    struct bytes line = wire_take_line(answers);

    REQUIRE(begins_with(line, "HTTP/1.1 ") || begins_with(line, "HTTP/1.0 "));
    REQUIRE(line.size > 13 && line.data[12] == ' ');
    *ret_reply = (struct wire_reply){.status = (int)number_of((struct bytes){line.data + 9, 3}),
                                     .head = *answers};
    size_t length = SIZE_MAX;
    unsigned seen = 0;
    while ((line = wire_take_line(answers)).size > 0) {
        struct bytes value;
        size_t index = header_index(line, &value);

        REQUIRE(!(seen & 1u << index));
        seen |= 1u << index;
        if (index == length_index)
            length = number_of(value);
        else if (index == type_index)
            ret_reply->type = value;
    }
    ret_reply->head.size = (size_t)(line.data - ret_reply->head.data);
    return length;
}

bool wire_take_reply(struct bytes *answers, enum wire_body body, struct wire_reply *ret_reply)
{
    size_t length;

    do {
        if (answers->size == 0)
            return false;
        length = take_head(answers, ret_reply);
        REQUIRE(ret_reply->status >= 100 && ret_reply->status < 600);
    } while (ret_reply->status < 200);
    REQUIRE(length != SIZE_MAX || ret_reply->status == 204);
    if (length == SIZE_MAX)
        length = 0;
    if (body == WIRE_BODY_OR_NOT && (answers->size == 0 || begins_with(*answers, "HTTP/1.")))
        length = 0;
    REQUIRE(answers->size >= length);
    ret_reply->body = (struct bytes){answers->data, length};
    *answers = (struct bytes){answers->data + length, answers->size - length};
    return true;
}
