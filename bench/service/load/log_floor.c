/*
 * log_floor.c - the least that a durable service can cost, the floor of bench-service: one thread
 * with epoll reads all requests that are ready, appends their bodies to a log, syncs it once and
 * answers them all.
 *
 *     log_floor FILE
 *
 * The log is written over from its begin when it is full, so that a sync writes data only, never an
 * inode. A GET is answered without a sync. Listens on 127.0.0.1 and prints "port N".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 1024
#define READ_BYTES 65536
#define LOG_BYTES  (64 << 20)

struct floor_text {
    char *data;
    size_t size, capacity;
};

struct floor_connection {
    int fd;
    struct floor_text in, out;
};

static struct floor_text appended;

static void require(bool works, const char *what)
{
    if (!works) {
        perror(what);
        exit(1);
    }
}

static void make_room(struct floor_text *text, size_t size)
{
    size_t capacity = text->capacity ? text->capacity : 4096;

    while (capacity - text->size < size)
        capacity *= 2;
    if (capacity == text->capacity)
        return;
    text->data = realloc(text->data, capacity);
    require(text->data, "memory");
    text->capacity = capacity;
}

static void append(struct floor_text *text, const char *data, size_t size)
{
    make_room(text, size);
    memcpy(text->data + text->size, data, size);
    text->size += size;
}

/* As the client wants it: the answer to a touch of many has their count, one for each comma. */
static void answer_ok(struct floor_text *out, const char *body, size_t size)
{
    char text[160], counts[64];
    size_t commas = 0;

    for (const char *at = body; size < READ_BYTES && at < body + size; at++)
        commas += *at == ',';
    int counts_size = snprintf(counts, sizeof(counts),
                               "{\"touched\":%zu,\"already_firing\":0,\"failed\":0}", commas);
    int text_size = snprintf(text, sizeof(text),
                             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                             "Content-Length: %d\r\n\r\n%s",
                             counts_size, counts);
    append(out, text, (size_t)text_size);
}

/* Takes one complete request off `data`. Returns its size, 0 while it is incomplete. */
static size_t take_request(struct floor_connection *connection, const char *data, size_t size)
{
    static const char created[] =
        "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nETag: \"1\"\r\n"
        "Location: /v1/timers/06gvnv4rh00000000400000000\r\nContent-Length: 35\r\n\r\n"
        "{\"id\":\"06gvnv4rh00000000400000000\"}";
    const char *end = memmem(data, size, "\r\n\r\n", 4);
    if (!end)
        return 0;
    size_t head_size = (size_t)(end - data) + 4, body_size = 0;
    for (const char *line = data; line < end; line = (const char *)memchr(line, '\n', size) + 1)
        if (strncasecmp(line, "content-length:", 15) == 0)
            body_size = strtoul(line + 15, NULL, 10);
    if (size < head_size + body_size)
        return 0;
    if (strncmp(data, "POST /v1/timers ", 16) == 0)
        append(&connection->out, created, sizeof(created) - 1);
    else
        answer_ok(&connection->out, data + head_size, body_size);
    if (data[0] == 'P')
        append(&appended, data + head_size, body_size);
    return head_size + body_size;
}

static void read_requests(struct floor_connection *connection)
{
    struct floor_text *in = &connection->in;

    make_room(in, READ_BYTES);
    ssize_t size = recv(connection->fd, in->data + in->size, in->capacity - in->size, MSG_DONTWAIT);
    if (size <= 0 && !(size < 0 && errno == EAGAIN)) {
        close(connection->fd);
        connection->fd = -1;
        return;
    }
    in->size += size > 0 ? (size_t)size : 0;
    size_t taken = 0, one;
    while (in->size > taken && (one = take_request(connection, in->data + taken, in->size - taken)))
        taken += one;
    in->size -= taken;
    memmove(in->data, in->data + taken, in->size);
}

static void sync_log(int log)
{
    static off_t end;

    if (appended.size == 0)
        return;
    if (end + (off_t)appended.size > LOG_BYTES)
        end = 0;
    require(pwrite(log, appended.data, appended.size, end) == (ssize_t)appended.size, "write");
    require(fdatasync(log) == 0, "sync");
    end += (off_t)appended.size;
    appended.size = 0;
}

static void answer(struct floor_connection *connection)
{
    struct floor_text *out = &connection->out;

    if (connection->fd >= 0 && out->size > 0)
        require(send(connection->fd, out->data, out->size, MSG_NOSIGNAL) == (ssize_t)out->size ||
                    errno == ECONNRESET || errno == EPIPE,
                "send");
    out->size = 0;
    if (connection->fd < 0) {
        free(connection->in.data);
        free(out->data);
        free(connection);
    }
}

static void accept_one(int epoll, int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return;
    struct floor_connection *connection = calloc(1, sizeof(*connection));
    require(connection, "memory");
    connection->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    require(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll");
}

static int open_log(const char *path)
{
    static char zeros[1 << 20];
    int log = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    require(log >= 0, path);
    for (off_t at = 0; at < LOG_BYTES; at += (off_t)sizeof(zeros))
        require(pwrite(log, zeros, sizeof(zeros), at) == (ssize_t)sizeof(zeros), path);
    require(fsync(log) == 0, path);
    return log;
}

static int open_listener(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    require(listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0 &&
                listen(listener, 1024) == 0 &&
                getsockname(listener, (struct sockaddr *)&address, &size) == 0,
            "listen");
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **arguments)
{
    static struct epoll_event events[EVENTS_MAX];

    if (count != 2) {
        fputs("usage: log_floor FILE\n", stderr);
        return 2;
    }
    int log = open_log(arguments[1]), listener = open_listener(), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    require(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0, "epoll");
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr)
                read_requests(events[i].data.ptr);
            else
                accept_one(epoll, listener);
        sync_log(log);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr)
                answer(events[i].data.ptr);
    }
}
