/* Goal: spans that threads add arrive once each, or are counted as dropped; contexts are those that
 * the conventions ask for. Method: a server of this test that counts spans by their names, and
 * answers nothing while it is told to. */
#include "telemetry/spans.h"

#include "sys/clock.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { ADDERS = 2, SPANS_EACH = 3000 };

struct spans_test_server {
    int listener;
    char url[64];
    pthread_t thread;
    atomic_bool is_silent;
    atomic_size_t spans, requests;
};

/* Returns the size of the body that a head announces; 0 if the head is not complete. */
static size_t spans_test_head(const char *text, size_t *ret_head_size)
{
    const char *end = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");

    if (!end || !length)
        return 0;
    *ret_head_size = (size_t)(end + 4 - text);
    return strtoul(length + strlen("Content-Length: "), NULL, 10);
}

/* Reads requests of one connection until it is closed. */
static void spans_test_serve(struct spans_test_server *server, int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    static char text[4 << 20];
    size_t size = 0, head_size = 0;
    ssize_t got;

    while ((got = read(fd, text + size, sizeof(text) - 1 - size)) > 0) {
        size += (size_t)got;
        text[size] = '\0';
        const size_t body_size = spans_test_head(text, &head_size);
        if (!body_size || size < head_size + body_size)
            continue;
        atomic_fetch_add(&server->requests, 1);
        while (atomic_load(&server->is_silent)) {
            char more;
            if (recv(fd, &more, 1, 0) <= 0)
                return;
        }
        for (const char *at = text; (at = strstr(at, "\"name\":\"test\"")); at++)
            atomic_fetch_add(&server->spans, 1);
        size = 0;
        if (write(fd, answer, sizeof(answer) - 1) < 0)
            return;
    }
}

static void *spans_test_run(void *argument)
{
    struct spans_test_server *server = argument;
    int fd;

    while ((fd = accept(server->listener, NULL, NULL)) >= 0) {
        spans_test_serve(server, fd);
        close(fd);
    }
    return NULL;
}

static void spans_test_listen(struct spans_test_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    *server = (struct spans_test_server){.listener = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server->listener, 16), 0);
    getsockname(server->listener, (struct sockaddr *)&address, &size);
    snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u/", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&server->thread, NULL, spans_test_run, server), 0);
}

static void spans_test_end(struct spans_test_server *server)
{
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
}

static struct config spans_test_config;

static struct spans *spans_test_start(const struct spans_test_server *server,
                                      struct metrics *metrics)
{
    const struct spans_options options = {
        .config = &spans_test_config, .metrics = metrics, .feeders = ADDERS};
    struct spans *spans;
    struct error error;

    config_init(&spans_test_config);
    assert_int_equal(config_set(&spans_test_config, "otlp_endpoint", server->url, &error),
                     ERROR_NONE);
    assert_int_equal(spans_start(&options, &spans, &error), ERROR_NONE);
    return spans;
}

struct spans_test_adder {
    struct spans *spans;
    unsigned number;
    pthread_t thread;
};

static void *spans_test_add(void *argument)
{
    struct spans_test_adder *adder = argument;

    for (int i = 0; i < SPANS_EACH; i++) {
        struct span span = {.context = spans_child(adder->spans, adder->number, NULL)};

        span_set_text(&span, SPAN_TEXT_name, BYTES("test"));
        spans_add(adder->spans, adder->number, &span);
    }
    return NULL;
}

static void spans_test_add_all(struct spans *spans)
{
    struct spans_test_adder adders[ADDERS];

    for (unsigned i = 0; i < ADDERS; i++) {
        adders[i] = (struct spans_test_adder){spans, i, 0};
        assert_int_equal(pthread_create(&adders[i].thread, NULL, spans_test_add, &adders[i]), 0);
    }
    for (unsigned i = 0; i < ADDERS; i++)
        pthread_join(adders[i].thread, NULL);
}

/* proves: otlp-never-waits */
static void test_each_arrives_once(void **state)
{
    struct metrics *metrics = metrics_create("test", (struct wall){0});
    struct spans_test_server server;
    struct error cause;

    (void)state;
    spans_test_listen(&server);
    struct spans *spans = spans_test_start(&server, metrics);
    spans_test_add_all(spans);
    assert_int_equal(spans_dropped(spans, &cause), 0);
    spans_stop(spans);
    assert_int_equal(server.spans, ADDERS * SPANS_EACH);
    assert_true(server.requests >= ADDERS * SPANS_EACH / 512);
    assert_int_equal(metrics_get(metrics, METRIC_SPANS_EXPORTED), ADDERS * SPANS_EACH);
    spans_test_end(&server);
    metrics_destroy(metrics);
}

/* proves: otlp-never-waits */
static void test_silent_server(void **state)
{
    struct metrics *metrics = metrics_create("test", (struct wall){0});
    struct spans_test_server server;
    struct error cause;

    (void)state;
    spans_test_listen(&server);
    atomic_store(&server.is_silent, true);
    struct spans *spans = spans_test_start(&server, metrics);
    for (int i = 0; i < 10; i++)
        spans_test_add_all(spans);
    const uint64_t dropped = spans_dropped(spans, &cause);
    assert_true(dropped > 0);
    assert_non_null(strstr(cause.text, "queue is full"));
    assert_int_equal(metrics_get(metrics, METRIC_SPANS_QUEUE_FULL), dropped);
    const struct instant begun = instant_now();
    spans_stop(spans);
    assert_true(instant_since_ns(begun, instant_now()) < UINT64_C(20000000000));
    assert_int_equal(metrics_get(metrics, METRIC_SPANS_UNREACHABLE) + dropped,
                     10 * ADDERS * SPANS_EACH);
    assert_int_equal(metrics_get(metrics, METRIC_SPANS_EXPORTED), 0);
    spans_test_end(&server);
    metrics_destroy(metrics);
}

/* proves: otlp-traces, otlp-sampling */
static void test_contexts(void **state)
{
    static const struct trace_parent on = {7, 8, 9, true}, off = {7, 8, 9, false};
    struct metrics *metrics = metrics_create("test", (struct wall){0});
    struct spans_test_server server;

    (void)state;
    spans_test_listen(&server);
    struct spans *spans = spans_test_start(&server, metrics);
    const struct trace_parent child = spans_child(spans, 0, &on);
    assert_true(child.trace_high == 7 && child.trace_low == 8 && child.span && child.span != 9);
    assert_true(child.is_sampled && !spans_child(spans, 0, &off).is_sampled);
    const struct trace_parent next = spans_follow(spans, 0, &on);
    assert_true(next.trace_low != 8 && next.is_sampled && !spans_follow(spans, 1, &off).is_sampled);
    const struct trace_parent alone = spans_follow(spans, 0, NULL);
    assert_true(alone.is_sampled && alone.trace_low != next.trace_low && alone.span != next.span);
    spans_stop(spans);
    assert_int_equal(server.requests, 0);
    spans_test_end(&server);
    metrics_destroy(metrics);
}

/* Goal: without an endpoint there is nothing to stop. */
static void test_spans_off(void **state)
{
    struct spans *spans = (struct spans *)&spans_test_config;
    struct error error;

    (void)state;
    config_init(&spans_test_config);
    const struct spans_options options = {.config = &spans_test_config, .feeders = 1};
    assert_int_equal(spans_start(&options, &spans, &error), ERROR_NONE);
    assert_null(spans);
    spans_stop(spans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_arrives_once),
        cmocka_unit_test(test_silent_server),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_spans_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
