/*
 * epoll_server.c - an echo server that closes idle connections.
 *
 *     epoll_server PORT IDLE_MS PRETENDED
 *
 * Each file descriptor has a timer, opened once and armed again at every read, which costs one
 * store; while no timer is due the process sleeps. PRETENDED more timers stand for connections
 * without a socket, with time-outs an hour away: a million of them show the cost of a million
 * time-outs without a million file descriptors. SIGUSR1 prints statistics, SIGTERM and Ctrl-C end
 * the program.
 */
#include <tickwheel/clock.h>
#include <tickwheel/wheel.h>

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { FILES_MAX = 1 << 20, PRETENDED_IDLE_MS = 3600000, PORTION = 256 };

struct echo_server {
    int epoll, listener, signals, spare;
    int file_count; /* file descriptors are below it; timers from there on are pretended */
    uint64_t idle_ms;
    struct tw_wheel *wheel;
    tw_handle *timers; /* by descriptor, which is also a timer's data */
    uint64_t hung_up_count, wake_up_count;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ms(void)
{
    return tw_clock_now(tw_clock_monotonic()).ns / 1000000;
}

/* [quote: arm] */
/* The current millisecond has begun, so one more is added: no connection is closed too early. */
static void heard_from(struct echo_server *server, int fd, uint64_t idle_ms)
{
    tw_wheel_arm(server->wheel, server->timers[fd], now_ms() + 1 + idle_ms);
}

static void hang_up(struct echo_server *server, int fd)
{
    tw_wheel_disarm(server->wheel, server->timers[fd]);
    if (fd < server->file_count)
        close(fd);
}
/* [end] */

static bool watch(struct echo_server *server, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd >= 0 && epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void welcome(struct echo_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && errno == EMFILE) { /* out of descriptors: the spare one is used to refuse the
                                        connection */
        close(server->spare);
        close(accept(server->listener, NULL, NULL));
        server->spare = dup(server->listener);
    } else if (fd >= 0) {
        heard_from(server, fd, server->idle_ms);
        if (!watch(server, fd))
            hang_up(server, fd);
    }
}

/* Sends the bytes back. A client that does not read them is disconnected, too. */
static void echo(struct echo_server *server, int fd)
{
    char bytes[4096];
    ssize_t count = read(fd, bytes, sizeof(bytes));
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0 || send(fd, bytes, (size_t)count, MSG_NOSIGNAL) != count)
        hang_up(server, fd);
    else
        heard_from(server, fd, server->idle_ms);
}

/* Prints the statistics, and returns the signal that asked for them. */
static uint32_t report(struct echo_server *server)
{
    struct signalfd_siginfo signal;
    if (read(server->signals, &signal, sizeof(signal)) != sizeof(signal))
        die("signalfd");
    printf("%zu time-outs held, %" PRIu64 " hung up, %" PRIu64 " wake-ups\n",
           tw_wheel_count(server->wheel), server->hung_up_count, server->wake_up_count);
    return signal.ssi_signo;
}

/* One portion per turn: if a million timers are due at once, the sockets are served in between. */
static void hang_up_on_idle(struct echo_server *server)
{
    struct tw_expired due[PORTION];
    size_t count = tw_wheel_expire(server->wheel, now_ms(), due, PORTION);
    for (size_t i = 0; i < count; i++)
        hang_up(server, (int)due[i].data);
    server->hung_up_count += count;
}

static void serve(struct echo_server *server)
{
    for (bool is_over = false; !is_over;) {
        struct epoll_event events[PORTION];
        int timeout_ms = tw_wheel_timeout(server->wheel, now_ms());
        int count = epoll_wait(server->epoll, events, PORTION, timeout_ms);
        server->wake_up_count++;
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == server->listener)
                welcome(server);
            else if (events[i].data.fd == server->signals)
                is_over = report(server) != SIGUSR1;
            else
                echo(server, events[i].data.fd);
        }
        hang_up_on_idle(server);
    }
}

/* Opens a timer for each possible descriptor and for each pretended connection. */
static void open_timers(struct echo_server *server, int pretended)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        die("getrlimit");
    files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        die("setrlimit");
    server->file_count = (int)files.rlim_cur;
    int count = server->file_count + pretended;
    server->timers = calloc((size_t)count, sizeof(*server->timers));
    server->wheel = tw_wheel_create(&(struct tw_wheel_options){.start = now_ms()});
    if (!server->timers || !server->wheel || !tw_wheel_reserve(server->wheel, (size_t)count))
        die("timers");
    for (int fd = 0; fd < count; fd++)
        server->timers[fd] = tw_wheel_open(server->wheel, (uint64_t)fd);
    for (int fd = server->file_count; fd < count; fd++)
        heard_from(server, fd, PRETENDED_IDLE_MS);
}

/* Returns the port, which the system chooses if `port` is 0. */
static unsigned listen_on(struct echo_server *server, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);

    at.sin_port = htons(port);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(server->listener, (struct sockaddr *)&at, size) < 0 ||
        listen(server->listener, 4096) < 0 ||
        getsockname(server->listener, (struct sockaddr *)&at, &size) < 0 ||
        !watch(server, server->listener))
        die("listen");
    server->spare = dup(server->listener);
    return ntohs(at.sin_port);
}

int main(int argc, char **argv)
{
    sigset_t signals;
    if (argc != 4) {
        fprintf(stderr, "usage: epoll_server PORT IDLE_MS PRETENDED\n");
        return 2;
    }
    struct echo_server server = {.epoll = epoll_create1(EPOLL_CLOEXEC),
                                 .idle_ms = strtoul(argv[2], NULL, 10)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_timers(&server, (int)strtol(argv[3], NULL, 10));

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    server.signals = signalfd(-1, &signals, SFD_CLOEXEC);
    if (!watch(&server, server.signals))
        die("signalfd");

    unsigned port = listen_on(&server, (uint16_t)strtoul(argv[1], NULL, 10));
    printf("listening on 127.0.0.1:%u, %zu time-outs held in %zu MiB\n", port,
           tw_wheel_count(server.wheel), tw_wheel_memory(server.wheel) >> 20);
    serve(&server);
    tw_wheel_destroy(server.wheel);
    free(server.timers);
    return 0;
}
