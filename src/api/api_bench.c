/*
 * How many single creates a second the HTTP face answers: server, node double and client in one
 * process, over loopback. The double stores nothing and answers at once, so this is the cost of
 * HTTP and JSON, not of a timer. Arguments: connections (512), seconds (3), server threads (1).
 */
#include "api/api.h"
#include "api/fake/node_fake.h"
#include "sys/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS = 64,
    REPLY_SIZE = 4096,
};

struct load {
    struct bytes request;
    unsigned connection_count;
    uint64_t seconds;
    uint64_t answered, failed;
};

static void api_bench_fail(const char *what)
{
    fprintf(stderr, "api_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        api_bench_fail("connect");
    return fd;
}

static void api_bench_ask(struct load *load, int fd)
{
    if (send(fd, load->request.data, load->request.size, MSG_NOSIGNAL) !=
        (ssize_t)load->request.size)
        api_bench_fail("send");
}

/* One request at a time on each connection; answers are small enough to come in one piece. */
static void run_load(struct load *load, uint16_t port)
{
    struct instant begun = instant_now();
    int epoll = epoll_create1(0);

    for (unsigned i = 0; i < load->connection_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = connect_to(port)};

        if (epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event) != 0)
            api_bench_fail("epoll_ctl");
        api_bench_ask(load, event.data.fd);
    }
    while (instant_since_ns(begun, instant_now()) < load->seconds * 1000000000) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, 100);

        for (int i = 0; i < count; i++) {
            char reply[REPLY_SIZE];
            ssize_t size = recv(events[i].data.fd, reply, sizeof(reply), 0);

            if (size < 12)
                api_bench_fail("receive");
            load->answered++;
            load->failed += memcmp(reply + 9, "201", 3) != 0;
            api_bench_ask(load, events[i].data.fd);
        }
    }
    close(epoll);
}

int main(int argc, char **argv)
{
    static const char body[] = "{\"after\":\"1h\",\"target\":\"http://127.0.0.1:9000/hook\","
                               "\"payload\":{\"order\":12345,\"customer\":\"c-889\",\"items\":[1,2,"
                               "3],\"total\":\"19.90\"}}";
    struct load load = {.connection_count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 512,
                        .seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 3};
    struct config config;
    struct metrics *metrics = metrics_create("bench", wall_now());
    struct node *node = node_fake_start(4, argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1);
    struct api_options options = {.config = &config, .metrics = metrics, .node = node};

    config_init(&config);
    config.listen_port = 0;
    struct error error;
    struct api *api;
    if (api_start(&options, &api, &error)) {
        fprintf(stderr, "api_bench: %s\n", error.text);
        return 1;
    }
    struct buffer request;
    buffer_init(&request);
    buffer_printf(
        &request,
        "POST /v1/timers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        sizeof(body) - 1, body);
    load.request = buffer_bytes(&request);
    run_load(&load, api_port(api));
    printf("%llu creates/s over %u connections, %llu not 201\n",
           (unsigned long long)(load.answered / load.seconds), load.connection_count,
           (unsigned long long)load.failed);
    api_stop(api);
    node_fake_stop(node);
    metrics_destroy(metrics);
    buffer_deinit(&request);
    return load.failed > 0;
}
