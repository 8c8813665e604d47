/*
 * receiver.c - the target of webhooks, for tests and benchmarks: a small HTTP/1.1 server.
 *
 *     receiver [--address IP] [--port N] [--log FILE] [--status CODE]
 *
 * Listens on 127.0.0.1, or on the address, prints "port N" when it does, and ends on SIGTERM or
 * SIGINT with "requests N". The path says how it behaves; a path it does not know is answered like
 * /ok:
 *
 *     /ok              200, or what --status says     /slow/250        200, after this many ms
 *     /status/500      that status                    /hang            never answers
 *     /redirect        302 to /ok                     /close           hangs up without an answer
 *     /gone            410                            /retry-after/2   503 and "Retry-After: 2"
 *     /flaky/3         503 while tickwheel-attempt is at most 3, then 200
 *     /partial         200, and hangs up in the middle of the body
 *     /large/100000    200 with a body of this many bytes
 *     /trickle/20      200, and an endless body, one byte in this many ms
 *
 * The log has one line for each request: when it had arrived (microseconds since 1970), webhook-id,
 * tickwheel-due (milliseconds since 1970), tickwheel-attempt, tickwheel-epoch, path; "-" and 0
 * stand for none. It is written out whenever nothing came for 50 ms, and at the end.
 *
 * One thread, keep-alive and pipelining. A body must come with Content-Length. Being a test's tool,
 * it aborts when the system refuses memory or a descriptor.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX     512
#define READ_BYTES     16384
#define PATH_SIZE      256
#define LOG_BYTES_MAX  (1 << 20)
#define LINE_BYTES_MAX 512
#define IDLE_MS        50
#define NEVER          UINT64_MAX

struct text {
    char *data;
    size_t size, capacity;
};

struct receiver_connection {
    int fd;
    struct text in, out;
    size_t in_start;     /* bytes of `in` that are dealt with */
    uint64_t answer_at;  /* when to go on, monotonic ms; 0: it need not wait; NEVER: /hang */
    uint64_t trickle_ms; /* /trickle: between two bytes; 0: another path */
    bool hangs_up;       /* once `out` is sent */
    bool wants_out;      /* `out` did not fit into the socket */
    bool ended;          /* the other side sends no more */
};

struct receiver_request {
    char path[PATH_SIZE];
    char id[80];
    uint64_t due_ms, attempt, epoch, body_size;
    bool is_close;
};

struct receiver_server {
    int epoll_fd, listen_fd, signal_fd;
    int status;
    FILE *log;
    struct text log_text;
    uint64_t requests;
    struct receiver_connection **connections; /* by descriptor */
    int connections_size;
    uint64_t wake_at; /* the earliest answer_at; NEVER: none */
};

static void require(bool works, const char *what)
{
    if (!works) {
        perror(what);
        abort();
    }
}

static uint64_t clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t now_ms(void)
{
    return clock_us(CLOCK_MONOTONIC) / 1000;
}

static void text_reserve(struct text *text, size_t size)
{
    size_t capacity = text->capacity ? text->capacity : 1024;

    while (capacity - text->size < size)
        capacity *= 2;
    if (capacity != text->capacity) {
        text->data = realloc(text->data, capacity);
        require(text->data, "memory");
        text->capacity = capacity;
    }
}

static void text_append(struct text *text, const char *data, size_t size)
{
    text_reserve(text, size);
    memcpy(text->data + text->size, data, size);
    text->size += size;
}

/* ---- reading a request ---- */

/* "2026-11-20T23:59:59.250Z" in milliseconds since 1970; 0 for anything else. */
static uint64_t parse_due(const char *text)
{
    struct tm when = {0};
    int ms;

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &when.tm_year, &when.tm_mon, &when.tm_mday,
               &when.tm_hour, &when.tm_min, &when.tm_sec, &ms) != 7)
        return 0;
    when.tm_year -= 1900;
    when.tm_mon -= 1;
    return (uint64_t)timegm(&when) * 1000 + (uint64_t)ms;
}

/* The value of `line` when it is a header called `name`, without leading spaces; otherwise NULL. */
static const char *header_value(const char *line, const char *name)
{
    size_t size = strlen(name);

    if (strncasecmp(line, name, size) != 0 || line[size] != ':')
        return NULL;
    line += size + 1;
    return line + strspn(line, " \t");
}

static void parse_header(const char *line, struct receiver_request *request)
{
    const char *value;

    switch (line[0] | 0x20) {
    case 'c':
        if ((value = header_value(line, "content-length")))
            request->body_size = strtoull(value, NULL, 10);
        else if ((value = header_value(line, "connection")))
            request->is_close = strncasecmp(value, "close", 5) == 0;
        break;
    case 't':
        if ((value = header_value(line, "tickwheel-due")))
            request->due_ms = parse_due(value);
        else if ((value = header_value(line, "tickwheel-attempt")))
            request->attempt = strtoull(value, NULL, 10);
        else if ((value = header_value(line, "tickwheel-epoch")))
            request->epoch = strtoull(value, NULL, 10);
        break;
    case 'w':
        if ((value = header_value(line, "webhook-id")))
            snprintf(request->id, sizeof(request->id), "%.*s", (int)strcspn(value, "\r\n"), value);
        break;
    }
}

/* Reads one request off the front of `data`. Returns the bytes it took; 0 when there is more to
 * come. */
static size_t parse_request(const char *data, size_t size, struct receiver_request *ret_request)
{
    const char *end = size ? memmem(data, size, "\r\n\r\n", 4) : NULL;

    if (!end)
        return 0;
    *ret_request = (struct receiver_request){.id = "-"};
    size_t head_size = (size_t)(end - data) + 4;
    const char *path = memchr(data, ' ', head_size);
    if (path) {
        path++;
        const char *path_end = path + strcspn(path, " ?\r\n");
        snprintf(ret_request->path, PATH_SIZE, "%.*s", (int)(path_end - path), path);
    }
    for (const char *line = strchr(data, '\n'); line && line < end; line = strchr(line + 1, '\n'))
        parse_header(line + 1, ret_request);
    if (size - head_size < ret_request->body_size)
        return 0;
    return head_size + ret_request->body_size;
}

static void log_flush(struct receiver_server *server)
{
    if (server->log && server->log_text.size > 0) {
        fwrite(server->log_text.data, 1, server->log_text.size, server->log);
        fflush(server->log);
    }
    server->log_text.size = 0;
}

static void log_request(struct receiver_server *server, const struct receiver_request *request,
                        uint64_t arrived_us)
{
    struct text *text = &server->log_text;

    server->requests++;
    if (!server->log)
        return;
    text_reserve(text, LINE_BYTES_MAX);
    text->size += (size_t)snprintf(text->data + text->size, LINE_BYTES_MAX,
                                   "%" PRIu64 " %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n",
                                   arrived_us, request->id, request->due_ms, request->attempt,
                                   request->epoch, request->path);
    if (text->size >= LOG_BYTES_MAX)
        log_flush(server);
}

/* ---- answering it ---- */

/* The number behind `prefix` at the front of `path`; false when the path is another. */
static bool path_number(const char *path, const char *prefix, uint64_t *ret_number)
{
    size_t size = strlen(prefix);

    if (strncmp(path, prefix, size) != 0)
        return false;
    *ret_number = strtoull(path + size, NULL, 10);
    return true;
}

static void answer(struct receiver_connection *connection, uint64_t status, const char *header)
{
    static const char plain[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    if (status == 200 && !*header) { /* the common case costs one copy */
        text_append(&connection->out, plain, sizeof(plain) - 1);
        return;
    }
    char head[256];
    int size =
        snprintf(head, sizeof(head), "HTTP/1.1 %" PRIu64 " Status\r\nContent-Length: 0\r\n%s\r\n",
                 status, header);
    text_append(&connection->out, head, (size_t)size);
}

static void answer_large(struct receiver_connection *connection, uint64_t size)
{
    char head[128];
    int head_size = snprintf(head, sizeof(head),
                             "HTTP/1.1 200 OK\r\nContent-Length: %" PRIu64 "\r\n\r\n", size);

    text_append(&connection->out, head, (size_t)head_size);
    text_reserve(&connection->out, size);
    memset(connection->out.data + connection->out.size, 'x', size);
    connection->out.size += size;
}

static void answer_at(struct receiver_server *server, struct receiver_connection *connection,
                      uint64_t at)
{
    connection->answer_at = at;
    if (at < server->wake_at)
        server->wake_at = at;
}

static void handle(struct receiver_server *server, struct receiver_connection *connection,
                   const struct receiver_request *request)
{
    static const char endless[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
    static const char half[] = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf a body";
    const char *path = request->path;
    uint64_t number;

    if (path_number(path, "/slow/", &number)) {
        answer(connection, (uint64_t)server->status, "");
        answer_at(server, connection, now_ms() + number);
    } else if (path_number(path, "/status/", &number)) {
        answer(connection, number, "");
    } else if (path_number(path, "/retry-after/", &number)) {
        char header[64];
        snprintf(header, sizeof(header), "Retry-After: %" PRIu64 "\r\n", number);
        answer(connection, 503, header);
    } else if (path_number(path, "/flaky/", &number)) {
        answer(connection, request->attempt <= number ? 503 : 200, "");
    } else if (path_number(path, "/large/", &number)) {
        answer_large(connection, number);
    } else if (path_number(path, "/trickle/", &number)) {
        text_append(&connection->out, endless, sizeof(endless) - 1);
        connection->trickle_ms = number + 1;
        answer_at(server, connection, now_ms() + number);
    } else if (strcmp(path, "/gone") == 0) {
        answer(connection, 410, "");
    } else if (strcmp(path, "/redirect") == 0) {
        answer(connection, 302, "Location: /ok\r\n");
    } else if (strcmp(path, "/hang") == 0) {
        connection->answer_at = NEVER;
    } else if (strcmp(path, "/close") == 0) {
        connection->hangs_up = true;
    } else if (strcmp(path, "/partial") == 0) {
        text_append(&connection->out, half, sizeof(half) - 1);
        connection->hangs_up = true;
    } else {
        answer(connection, (uint64_t)server->status, "");
    }
    connection->hangs_up |= request->is_close;
}

/* ---- connections ---- */

static void watch(struct receiver_server *server, int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    require(epoll_ctl(server->epoll_fd, operation, fd, &event) == 0, "epoll");
}

static void hang_up(struct receiver_server *server, struct receiver_connection *connection)
{
    server->connections[connection->fd] = NULL;
    close(connection->fd);
    free(connection->in.data);
    free(connection->out.data);
    free(connection);
}

/* Sends what there is to send. False when the connection is over. */
static bool flush(struct receiver_server *server, struct receiver_connection *connection)
{
    struct text *out = &connection->out;

    while (out->size > 0) {
        ssize_t sent = send(connection->fd, out->data, out->size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0)
            return false;
        out->size -= (size_t)sent;
        memmove(out->data, out->data + sent, out->size);
    }
    bool wants_out = out->size > 0;
    if (wants_out != connection->wants_out) {
        connection->wants_out = wants_out;
        watch(server, EPOLL_CTL_MOD, connection->fd, wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    return wants_out || !(connection->hangs_up || connection->ended);
}

/* Answers the complete requests, up to the first that must wait. */
static void proceed(struct receiver_server *server, struct receiver_connection *connection)
{
    struct text *in = &connection->in;
    uint64_t arrived_us = clock_us(CLOCK_REALTIME);

    while (!connection->answer_at && !connection->hangs_up) {
        struct receiver_request request;
        size_t taken = parse_request(in->data + connection->in_start,
                                     in->size - connection->in_start, &request);
        if (taken == 0)
            break;
        connection->in_start += taken;
        log_request(server, &request, arrived_us);
        handle(server, connection, &request);
    }
    if (connection->in_start > 0) {
        in->size -= connection->in_start;
        memmove(in->data, in->data + connection->in_start, in->size);
        connection->in_start = 0;
    }
    if (connection->answer_at ? connection->ended : !flush(server, connection))
        hang_up(server, connection);
}

static void receive(struct receiver_server *server, struct receiver_connection *connection)
{
    struct text *in = &connection->in;

    text_reserve(in, READ_BYTES);
    ssize_t size = recv(connection->fd, in->data + in->size, in->capacity - in->size - 1, 0);
    if (size > 0) {
        in->size += (size_t)size;
        in->data[in->size] = '\0'; /* the parser may run to the end of the text, never past it */
    } else if (size == 0 || errno != EAGAIN) {
        connection->ended = true;
    }
    proceed(server, connection);
}

static void accept_all(struct receiver_server *server)
{
    int fd;

    while ((fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= server->connections_size) {
            int size = fd * 2 + 64;

            server->connections =
                realloc(server->connections, (size_t)size * sizeof(*server->connections));
            require(server->connections, "memory");
            memset(server->connections + server->connections_size, 0,
                   (size_t)(size - server->connections_size) * sizeof(*server->connections));
            server->connections_size = size;
        }
        struct receiver_connection *connection = calloc(1, sizeof(*connection));
        require(connection, "memory");
        connection->fd = fd;
        server->connections[fd] = connection;
        watch(server, EPOLL_CTL_ADD, fd, EPOLLIN);
    }
    require(errno == EAGAIN || errno == ECONNABORTED, "accept");
}

/* The next byte of /trickle. */
static void trickle(struct receiver_server *server, struct receiver_connection *connection,
                    uint64_t now)
{
    text_append(&connection->out, "x", 1);
    if (flush(server, connection))
        answer_at(server, connection, now + connection->trickle_ms - 1);
    else
        hang_up(server, connection);
}

/* Sends the answers of /slow whose time has come, and finds out when the next one is due. */
static void answer_slow(struct receiver_server *server)
{
    uint64_t now = now_ms();

    if (now < server->wake_at)
        return;
    server->wake_at = NEVER;
    for (int fd = 0; fd < server->connections_size; fd++) {
        struct receiver_connection *connection = server->connections[fd];

        if (!connection || !connection->answer_at)
            continue;
        if (connection->answer_at <= now && connection->trickle_ms) {
            trickle(server, connection, now);
        } else if (connection->answer_at <= now) {
            connection->answer_at = 0;
            proceed(server, connection);
        } else {
            answer_at(server, connection, connection->answer_at);
        }
    }
}

/* ---- the server ---- */

static void serve(struct receiver_server *server)
{
    for (;;) {
        uint64_t wait_ms = server->log_text.size > 0 ? IDLE_MS : NEVER;

        if (server->wake_at != NEVER) {
            uint64_t now = now_ms(), left = server->wake_at > now ? server->wake_at - now : 0;

            wait_ms = left < wait_ms ? left : wait_ms;
        }
        struct epoll_event events[EVENTS_MAX];
        int count =
            epoll_wait(server->epoll_fd, events, EVENTS_MAX, wait_ms == NEVER ? -1 : (int)wait_ms);
        require(count >= 0 || errno == EINTR, "epoll");
        if (count == 0)
            log_flush(server);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == server->signal_fd)
                return;
            if (fd == server->listen_fd)
                accept_all(server);
            else if (events[i].events & ~(uint32_t)EPOLLOUT)
                receive(server, server->connections[fd]);
            else
                proceed(server, server->connections[fd]);
        }
        answer_slow(server);
    }
}

static void start(struct receiver_server *server, const char *text, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof(address);
    struct rlimit limit;

    require(inet_pton(AF_INET, text, &address.sin_addr) == 1, text);
    getrlimit(RLIMIT_NOFILE, &limit); /* as many connections as the system allows */
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    server->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    require(server->signal_fd >= 0 && server->epoll_fd >= 0 && server->listen_fd >= 0, "start");
    int yes = 1;
    setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    setsockopt(server->listen_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* inherited */
    require(bind(server->listen_fd, (struct sockaddr *)&address, size) == 0, "bind");
    require(listen(server->listen_fd, 4096) == 0, "listen");
    getsockname(server->listen_fd, (struct sockaddr *)&address, &size);
    watch(server, EPOLL_CTL_ADD, server->signal_fd, EPOLLIN);
    watch(server, EPOLL_CTL_ADD, server->listen_fd, EPOLLIN);
    printf("port %u\n", ntohs(address.sin_port));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"address", required_argument, NULL, 'a'},
                                            {"port", required_argument, NULL, 'p'},
                                            {"log", required_argument, NULL, 'l'},
                                            {"status", required_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    struct receiver_server server = {.status = 200, .wake_at = NEVER};
    const char *address = "127.0.0.1";
    unsigned port = 0;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'a') {
            address = optarg;
        } else if (option == 'p') {
            port = (unsigned)strtoul(optarg, NULL, 10);
        } else if (option == 's') {
            server.status = (int)strtol(optarg, NULL, 10);
        } else if (option == 'l') {
            server.log = fopen(optarg, "a");
            require(server.log, optarg);
        } else {
            fprintf(stderr, "usage: receiver [--address IP] [--port N] [--log FILE] "
                            "[--status CODE]\n");
            return 2;
        }
    }
    start(&server, address, (uint16_t)port);
    serve(&server);
    log_flush(&server);
    printf("requests %" PRIu64 "\n", server.requests);
    for (int fd = 0; fd < server.connections_size; fd++)
        if (server.connections[fd])
            hang_up(&server, server.connections[fd]);
    free(server.connections);
    free(server.log_text.data);
    if (server.log)
        fclose(server.log);
    return 0;
}
