/*
 * Goal: a server that runs out of memory ends the connections that it cannot serve; every
 * request is closed, all memory freed, and it stops. Method: one life of a server with
 * the N-th allocation refused, for every N (scarce.h); the client and the handler allocate nothing.
 */
#include "http/server.h"

#include <arpa/inet.h>
#include <scarce.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void server_fault_begin(void *context, struct http_request *request)
{
    atomic_fetch_add((atomic_int *)context, 1);
    http_request_set_user(request, context);
}

static size_t server_fault_body(struct http_request *request, struct bytes chunk)
{
    (void)request;
    return chunk.size;
}

/* A small answer is copied, a large one is not. */
static void server_fault_end(struct http_request *request)
{
    static const char large[20000];
    struct http_response response = {.status = 200, .lent = BYTES("an answer")};

    if (bytes_equal(http_request_target(request), BYTES("/large")))
        response.lent = (struct bytes){large, sizeof(large)};
    http_request_answer(request, &response);
}

static void server_fault_closed(struct http_request *request)
{
    atomic_fetch_sub((atomic_int *)http_request_user(request), 1);
}

static void server_fault_refuse(void *context, struct http_request *request,
                                enum http_refusal refusal)
{
    struct http_response response = {.status = 400};

    (void)refusal;
    server_fault_begin(context, request);
    http_request_answer(request, &response);
}

/* Sends all, the first part of it alone, and reads until the server closes. Returns how many bytes
 * of answers came. */
static size_t server_fault_talk(uint16_t port, struct bytes requests, size_t first)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    char room[4096];
    size_t received = 0;

    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof(address)), 0);
    send(client, requests.data, first, MSG_NOSIGNAL);
    /* Until the first answer: so the server has read a part of the second request alone. */
    recv(client, room, 1, MSG_PEEK);
    send(client, requests.data + first, requests.size - first, MSG_NOSIGNAL);
    for (ssize_t size; (size = recv(client, room, sizeof(room), 0)) > 0;)
        received += (size_t)size;
    close(client);
    return received;
}

static void serves_without_memory(void **state)
{
    static const char requests[] = "GET /small HTTP/1.1\r\nHost: t\r\n\r\nPOST /small HTTP/1.1\r\n"
                                   "Host: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "3\r\nabc\r\n0\r\n\r\n"
                                   "GET /large HTTP/1.1\r\nHost: t\r\n\r\n"
                                   "GET /small HTTP/1.1\r\nHost: t\r\nHost: t\r\n\r\n";
    static const struct http_handler handler = {.begin = server_fault_begin,
                                                .body = server_fault_body,
                                                .end = server_fault_end,
                                                .closed = server_fault_closed,
                                                .refuse = server_fault_refuse};
    const struct bytes all = {requests, sizeof(requests) - 1};
    atomic_int open_requests = 0;
    size_t whole = 0;

    (void)state;
    for (struct scarce scarce = scarce_sweep("server"); scarce_next(&scarce);) {
        const struct http_options options = {.address = "127.0.0.1",
                                             .threads = 1,
                                             .connections_max = 4,
                                             .header_bytes_max = 4096,
                                             .idle_ms = 60000,
                                             .drain_ms = 60000,
                                             .handler = &handler,
                                             .context = &open_requests};
        struct http_server *server = NULL;
        struct error error;
        size_t received = 0;

        scarce_begin(&scarce);
        const enum error_code code = http_server_start(&options, &server, &error);
        if (!code) {
            received = server_fault_talk(http_server_port(server), all, 60);
            http_server_stop(server);
        }
        const bool was_refused = scarce_end(&scarce);
        assert_int_equal(atomic_load(&open_requests), 0);
        assert_true(was_refused || !code);
        if (!was_refused)
            whole = received;
    }
    assert_true(whole > 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
