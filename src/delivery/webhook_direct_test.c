/*
 * Goal: a webhook over a connection of our own and one by libcurl are told apart by nothing: not by
 * the receiver, not by the outcome, not by the breaker, whatever the receiver answers. Method: a
 * peer answers by a script, to http://127.0.0.1 and to http://127.1, a spelling that libcurl alone
 * takes.
 */
#include "delivery/webhook_direct.h"

#include "delivery/webhook_answer.h"
#include "delivery/webhook_fixture.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>

/* ---- names ---- */

/* How often this program's name server was asked for named.test: the only state of the tests that
 * is not on a stack, for nothing but its name leads there. */
static atomic_size_t asked;

/* Of the lease of a delivery to it, which is over when the name is asked for. */
static _Atomic uint64_t valid_until_ns;

typedef int getaddrinfo_function(const char *, const char *, const struct addrinfo *,
                                 struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    getaddrinfo_function *real = (getaddrinfo_function *)dlsym(RTLD_NEXT, "getaddrinfo");

    if (strcasecmp(name, "named.test") != 0)
        return real(name, service, hints, ret_found);
    asked++;
    atomic_store(&valid_until_ns, 0);
    return real("127.0.0.1", service, hints, ret_found);
}

/* By a connection of our own, and by libcurl. */
static const char *const hosts[] = {"127.0.0.1", "127.1"};

/* ---- a script, both ways ---- */

struct direct_script {
    const char *answer;
    enum peer_manner manner;
    const char *error; /* of the outcome; NULL: only that both are equal */
    size_t
        connections; /* for three webhooks in a row, over connections of our own; 0: as libcurl */
};

/* What one way led to. */
struct direct_told {
    struct delivery_outcome outcomes[3];
    struct target_status target;
    size_t connections, requests;
};

static void tell_by(const struct direct_script *script, const char *host,
                    struct direct_told *ret_told)
{
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start_with(&peer, "127.0.0.1", script->answer, NULL, script->manner);
    char target[64];
    snprintf(target, sizeof(target), "http://%s:%u/a", host, peer.port);
    for (size_t i = 0; i < COUNT(ret_told->outcomes); i++) {
        struct webhook_shipment shipment;

        webhook_shipment_init(&shipment, target);
        shipment.timer->retry.timeout_ms = WAIT_S * 1000;
        webhook_fixture_deliver(&fixture, &shipment);
        ret_told->outcomes[i] = shipment.delivery.outcome;
        targets_status(fixture.targets, shipment.timer, instant_now(), &ret_told->target);
        shipment_deinit(&shipment);
    }
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    ret_told->connections = peer.connections;
    ret_told->requests = peer.requests;
}

static void assert_told_alike(const struct direct_script *script, const struct direct_told *own,
                              const struct direct_told *other)
{
    for (size_t i = 0; i < COUNT(own->outcomes); i++) {
        const struct delivery_outcome *a = &own->outcomes[i], *b = &other->outcomes[i];
        const uint64_t apart = a->retry_after_ms > b->retry_after_ms
                                   ? a->retry_after_ms - b->retry_after_ms
                                   : b->retry_after_ms - a->retry_after_ms;

        if (a->result != b->result || a->status != b->status || a->is_answer != b->is_answer ||
            apart > WAIT_S * 1000 || strcmp(a->error, b->error) != 0)
            fail_msg("%.60s: %zu: %d %u \"%s\" %llu ms, by libcurl %d %u \"%s\" %llu ms",
                     script->answer, i, (int)a->result, a->status, a->error,
                     (unsigned long long)a->retry_after_ms, (int)b->result, b->status, b->error,
                     (unsigned long long)b->retry_after_ms);
        if (script->error && strcmp(a->error, script->error) != 0)
            fail_msg("%.60s: \"%s\"", script->answer, a->error);
    }
    if (own->target.scope != other->target.scope || own->target.failures != other->target.failures)
        fail_msg("%.60s: %u failures, by libcurl %u", script->answer, own->target.failures,
                 other->target.failures);
    if (own->requests != other->requests)
        fail_msg("%.60s: %zu requests, by libcurl %zu", script->answer, own->requests,
                 other->requests);
    const size_t wanted = script->connections ? script->connections : other->connections;
    if (own->connections != wanted)
        fail_msg("%.60s: %zu connections, by libcurl %zu", script->answer, own->connections,
                 other->connections);
}

#define EMPTY    "Content-Length: 0\r\n\r\n"
#define NOT_HTTP "answer is not HTTP"
#define CLOSED   "connection closed without an answer"

static const struct direct_script scripts[] = {
    /* ends that are known */
    {"HTTP/1.1 200 OK\r\n" EMPTY, PEER_KEEPS, "", 1},
    {"HTTP/1.1 204 No Content\r\n\r\n", PEER_KEEPS, "", 1},
    {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", PEER_KEEPS, "", 1},
    {"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", PEER_KEEPS, NULL, 1},
    {"HTTP/1.1 200\r\ncontent-LENGTH:3\r\n\r\nabc", PEER_KEEPS, "", 1},
    {"HTTP/1.1 500 No\nContent-Length: 1\n\nx", PEER_KEEPS, "HTTP 500", 1},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", PEER_KEEPS, "",
     1},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n00A;x=y\r\n0123456789\r\n0\r\nT: "
     "v\r\n\r\n",
     PEER_KEEPS, "", 1},
    {"HTTP/1.1 410 Gone\r\n" EMPTY, PEER_KEEPS, "HTTP 410", 1},
    {"HTTP/1.1 302 Found\r\nLocation: /b\r\n" EMPTY, PEER_KEEPS,
     "HTTP 302: redirects are not followed", 1},
    {"HTTP/1.1 999 Odd\r\n" EMPTY, PEER_KEEPS, "HTTP 999", 1},
    {"HTTP/1.1   200 OK\r\n" EMPTY, PEER_KEEPS, "", 0},
    {"HTTP/1.1 200OK\r\n" EMPTY, PEER_KEEPS, NULL, 0},
    /* connections that are not used again */
    {"HTTP/1.1 200 OK\r\nConnection: close\r\n" EMPTY, PEER_KEEPS, "", 3},
    {"HTTP/1.1 200 OK\r\nConnection: x, Close\r\n" EMPTY, PEER_KEEPS, "", 3},
    {"HTTP/1.0 200 OK\r\n" EMPTY, PEER_KEEPS, "", 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", PEER_KEEPS, "", 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", PEER_KEEPS, "", 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     PEER_KEEPS, "", 3},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n", PEER_KEEPS, "", 3},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 500 No\r\n" EMPTY,
     PEER_KEEPS, "", 3},
    {"HTTP/1.1 204 No\r\n\r\nHTTP/1.1 500 No\r\n" EMPTY, PEER_KEEPS, "", 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nabcde", PEER_KEEPS, "", 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc", PEER_HANGS_UP, "", 3},
    /* bodies that just end: the status counts */
    {"HTTP/1.1 200 OK\r\n\r\nbody", PEER_HANGS_UP, "", 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbody", PEER_HANGS_UP, "", 3},
    {"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nbo", PEER_HANGS_UP, "HTTP 503", 3},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nbody", PEER_HANGS_UP, "", 3},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nbody", PEER_HANGS_UP, "", 3},
    /* interim answers */
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" EMPTY, PEER_KEEPS, "", 1},
    {"HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 500 No\r\n" EMPTY,
     PEER_KEEPS, "HTTP 500", 1},
    {"HTTP/1.1 103 Hints\r\n\r\n", PEER_HANGS_UP, NULL, 3},
    {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", PEER_HANGS_UP, NULL, 3},
    {"HTTP/1.1 101 Switching\r\n\r\nHTTP/1.1 200 OK\r\n" EMPTY, PEER_HANGS_UP, NULL, 3},
    {"HTTP/1.1 100 Continue\r\n\r\nnonsense\r\n\r\n", PEER_HANGS_UP, NOT_HTTP, 3},
    {"HTTP/1.1 103 Hints\r\nRetry-After: 9\r\n\r\nHTTP/1.1 503 No\r\n" EMPTY, PEER_KEEPS,
     "HTTP 503", 1},
    /* pauses */
    {"HTTP/1.1 503 No\r\nRetry-After: 7\r\n" EMPTY, PEER_KEEPS, "HTTP 503", 1},
    {"HTTP/1.1 429 No\r\nretry-after:\t8 \r\nRetry-After: 9\r\n" EMPTY, PEER_KEEPS, "HTTP 429", 1},
    {"HTTP/1.1 503 No\r\nRetry-After: 7\r\n 8\r\n" EMPTY, PEER_KEEPS, "HTTP 503", 3},
    {"HTTP/1.1 503 No\r\nRetry-After:\r\n 8\r\n" EMPTY, PEER_KEEPS, "HTTP 503", 3},
    {"HTTP/1.1 503 No\r\nRetry-After: 7\r8\r\n" EMPTY, PEER_KEEPS, "HTTP 503", 3},
    {"HTTP/1.1 503 No\r\nRetry-After:\r\n" EMPTY, PEER_KEEPS, "HTTP 503", 1},
    {"HTTP/1.1 503 No\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n" EMPTY, PEER_KEEPS,
     "HTTP 503", 1},
    {"HTTP/1.1 503 No\r\nX: 1\r\nRetry-After: 99999999999999999999\r\n" EMPTY, PEER_KEEPS,
     "HTTP 503", 1},
    /* no answers */
    {"", PEER_HANGS_UP, CLOSED, 3},
    {"H", PEER_HANGS_UP, NULL, 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", PEER_HANGS_UP, NULL, 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", PEER_HANGS_UP, NOT_HTTP, 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", PEER_HANGS_UP, NOT_HTTP, 3},
    {"HTTP/1.1 200 OK\r\nno colon\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/1.1 200 OK\r\nno\rcolon: 1\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/1.1 200 OK\r\nHTTP/x: 1\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/1.1 2000 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/1.1 099 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/1.1 -20 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/1.1 20 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/1.1\t200 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/1.1\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/9.9 200 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"HTTP/0.9 200 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"http/1.1 200 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"\r\nHTTP/1.1 200 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {" HTTP/1.1 200 OK\r\n" EMPTY, PEER_KEEPS, NOT_HTTP, 3},
    {"220 mail.test ESMTP\r\n", PEER_KEEPS, NOT_HTTP, 3},
    {"SSH-2.0-x\r\n", PEER_KEEPS, NOT_HTTP, 3},
};

/* proves: outcome-success, outcome-gone, outcome-retry, outcome-retry-after, outcome-redirect */
static void test_both_ways_tell_alike(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(scripts); i++) {
        struct direct_told told[2];

        for (size_t j = 0; j < 2; j++)
            tell_by(&scripts[i], hosts[j], &told[j]);
        /* Versions of libcurl differ in what they make of odd answers: compared is that of 7.88. */
        const bool is_odd = scripts[i].connections != 1;
        const bool is_other = curl_version_info(CURLVERSION_NOW)->version_num >= 0x080000;
        assert_told_alike(&scripts[i], &told[0], &told[is_odd && is_other ? 0 : 1]);
    }
}

/* However an answer is cut into pieces, it says the same. */
static void test_answer_in_pieces(void **state)
{
    (void)state;
    struct webhook_answer whole, cut;
    webhook_answer_init(&whole);
    webhook_answer_init(&cut);
    for (size_t i = 0; i < COUNT(scripts); i++) {
        const struct bytes text = bytes_of(scripts[i].answer);

        for (size_t size = 1; size < text.size; size++) {
            webhook_answer_begin(&whole, 65536);
            const enum webhook_answer_state wanted = webhook_answer_read(&whole, text);
            enum webhook_answer_state got = WEBHOOK_ANSWER_MORE;
            webhook_answer_begin(&cut, 65536);
            size_t at = 0;
            for (; at < text.size && got == WEBHOOK_ANSWER_MORE; at += size) {
                const size_t left = text.size - at;

                got = webhook_answer_read(
                    &cut, (struct bytes){text.data + at, size < left ? size : left});
            }
            assert_int_equal(got, wanted);
            assert_int_equal(cut.has_status, whole.has_status);
            if (cut.has_status)
                assert_int_equal(cut.status, whole.status);
            if (at >= text.size)
                assert_int_equal(cut.keeps, whole.keeps);
            const char *pause = webhook_answer_retry_after(&whole);
            if (pause)
                assert_string_equal(webhook_answer_retry_after(&cut), pause);
            else
                assert_null(webhook_answer_retry_after(&cut));
        }
    }
    webhook_answer_deinit(&whole);
    webhook_answer_deinit(&cut);
}

/* ---- the request ---- */

struct request_case {
    const char *path;
    struct timer_texts texts;
};

/* Overwrites what differs from one attempt to the next. */
static void mask(char *request, const char *name)
{
    char *at = strcasestr(request, name);

    assert_non_null(at);
    for (at += strlen(name); *at != '\r'; at++)
        *at = '#';
}

/* Every byte is as libcurl would send it. */
/* proves: webhook, headers, payload */
static void test_request_is_the_same(void **state)
{
    static char large[3 << 20];
    const struct request_case cases[] = {
        {"/a/../b?c=%20d", {.payload = BYTES("{}")}},
        {"", {.payload = BYTES("")}},
        {"?q=/", {.payload = BYTES("x"), .content_type = BYTES("text/x-odd")}},
        {"/", {.headers = BYTES("User-Agent: mine\nACCEPT: text/plain\nEmpty:\n")}},
        {"/", {.headers = BYTES("user-agent:\naccept:\nAccept-Encoding: br\nCookie: a=b\n")}},
        {"/", {.headers = BYTES("Authorization: Bearer x\nX: 1\nx: 2\nRange: bytes=0-1\n")}},
        {"/large", {.payload = {large, sizeof(large)}}},
        {"/key",
         {.key = BYTES("k"),
          .trace = BYTES("00-0af7651916cd43dd8448eb211c80319c-"
                         "b7ad6b7169203331-00")}},
    };

    (void)state;
    memset(large, 'x', sizeof(large));
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.event_source = "/events";
    fixture.options.secrets = NULL;
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start_with(&peer, "127.0.0.1", "HTTP/1.1 204 No\r\n\r\n", NULL, PEER_HANGS_UP);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *requests[2];
        size_t sizes[2];

        for (size_t j = 0; j < 2; j++) {
            char target[64];
            snprintf(target, sizeof(target), "http://%s:%u%s", hosts[j], peer.port, cases[i].path);
            struct timer_texts texts = cases[i].texts;
            texts.target = bytes_of(target);
            struct webhook_shipment shipment;
            webhook_shipment_init_texts(&shipment, &texts);
            webhook_fixture_deliver(&fixture, &shipment);
            assert_int_equal(shipment.delivery.outcome.result, DELIVERY_DONE);
            shipment_deinit(&shipment);
            pthread_mutex_lock(&peer.lock);
            sizes[j] = peer.request_size;
            requests[j] = strdup(peer.request);
            pthread_mutex_unlock(&peer.lock);
            assert_non_null(requests[j]);
            mask(requests[j], "\r\nwebhook-timestamp: ");
            mask(requests[j], "\r\ntraceparent: ");
        }
        assert_int_equal(sizes[0], sizes[1]);
        assert_string_equal(requests[0], requests[1]);
        free(requests[0]);
        free(requests[1]);
    }
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
}

/* ---- a peer that the test plays itself ---- */

static int listen_here(unsigned *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 10), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void take_request_head(int fd)
{
    char text[4096] = "";
    size_t size = 0;

    while (!strstr(text, "\r\n\r\n")) {
        ssize_t got = recv(fd, text + size, sizeof(text) - 1 - size, 0);

        assert_true(got > 0);
        size += (size_t)got;
        text[size] = '\0';
    }
}

static void peer_say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* proves: method, webhook */
static void test_methods(void **state)
{
    static const struct {
        const char *method; /* of the timer */
        const char *line;   /* the start of the request */
        const char *length; /* Content-Length; NULL: none, and no body */
    } cases[] = {
        {"PUT", "PUT /a HTTP/1.1\r\n", "2"},
        {"DELETE", "DELETE /a HTTP/1.1\r\n", NULL},
        {"", "POST /a HTTP/1.1\r\n", "2"},
        {"GET", "GET /a HTTP/1.1\r\n", NULL},
        {"PATCH", "PATCH /a HTTP/1.1\r\n", "2"},
        {"", "POST /a HTTP/1.1\r\n", "2"},
        {"GET\r\nX: y", "POST /a HTTP/1.1\r\n", "2"}, /* no create makes such a one */
    };
    (void)state;
    for (size_t host = 0; host < COUNT(hosts); host++) {
        struct webhook_fixture fixture;
        webhook_fixture_init(&fixture, "127.0.0.0/8");
        webhook_fixture_start(&fixture);
        struct webhook_peer peer;
        peer_start(&peer, "127.0.0.1", "HTTP/1.1 200 OK\r\n" EMPTY, NULL);
        char target[64];
        snprintf(target, sizeof(target), "http://%s:%u/a", hosts[host], peer.port);
        for (size_t i = 0; i < COUNT(cases); i++) {
            const struct timer_texts texts = {.target = bytes_of(target),
                                              .method = bytes_of(cases[i].method),
                                              .payload = bytes_of(cases[i].length ? "{}" : "")};
            struct webhook_shipment shipment;
            webhook_shipment_init_texts(&shipment, &texts);
            webhook_fixture_deliver(&fixture, &shipment);
            assert_int_equal(shipment.delivery.outcome.result, DELIVERY_DONE);
            assert_memory_equal(peer.request, cases[i].line, strlen(cases[i].line));
            const char *length = strcasestr(peer.request, "content-length: ");
            if (!cases[i].length != !length || (length && strncmp(length + 16, "2\r\n", 3) != 0))
                fail_msg("%s", peer.request);
            shipment_deinit(&shipment);
        }
        webhook_fixture_stop(&fixture);
        peer_stop(&peer);
    }
}

/* proves: target-connect */
static void test_ipv6(void **state)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0) {
        close(listener);
        skip(); /* a machine without IPv6 */
    }
    assert_int_equal(listen(listener, 10), 0);
    getsockname(listener, (struct sockaddr *)&address, &size);
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "::1");
    webhook_fixture_start(&fixture);
    char target[64];
    snprintf(target, sizeof(target), "http://[::1]:%u/", ntohs(address.sin6_port));
    struct webhook_shipment shipments[2];
    int fd = -1;
    for (size_t i = 0; i < 2; i++) {
        webhook_shipment_init(&shipments[i], target);
        webhook_fixture_post(&fixture, &shipments[i], 1);
        fd = fd < 0 ? accept(listener, NULL, NULL) : fd;
        take_request_head(fd);
        peer_say(fd, "HTTP/1.1 204 No\r\n\r\n");
        webhook_fixture_wait(&fixture, i + 1);
        assert_string_equal(shipments[i].delivery.outcome.error, "");
        shipment_deinit(&shipments[i]);
    }
    webhook_fixture_stop(&fixture);
    close(fd);
    close(listener);
}

/* Bytes that come on an idle connection are no answer to the next request, which goes to another
 * connection. Only here: some versions of libcurl take them for one (7.88). */
static void test_unasked_answer(void **state)
{
    (void)state;
    unsigned port;
    int listener = listen_here(&port);
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    char target[64];
    snprintf(target, sizeof(target), "http://%s:%u/", hosts[0], port);
    struct webhook_shipment shipments[2];
    webhook_shipment_init(&shipments[0], target);
    webhook_shipment_init(&shipments[1], target);
    webhook_fixture_post(&fixture, &shipments[0], 1);
    int first = accept(listener, NULL, NULL);
    take_request_head(first);
    peer_say(first, "HTTP/1.1 200 OK\r\n" EMPTY);
    webhook_fixture_wait(&fixture, 1);
    peer_say(first, "HTTP/1.1 200 OK\r\n" EMPTY);
    webhook_fixture_post(&fixture, &shipments[1], 1);
    int second = accept(listener, NULL, NULL);
    take_request_head(second);
    peer_say(second, "HTTP/1.1 500 No\r\n" EMPTY);
    webhook_fixture_wait(&fixture, 2);
    assert_string_equal(shipments[0].delivery.outcome.error, "");
    assert_string_equal(shipments[1].delivery.outcome.error, "HTTP 500");
    shipment_deinit(&shipments[0]);
    shipment_deinit(&shipments[1]);
    webhook_fixture_stop(&fixture);
    close(first);
    close(second);
    close(listener);
}

/* Reads until the other side closes; returns how many bytes. */
static size_t drain(int fd)
{
    static char text[65536];
    size_t size = 0;
    ssize_t got;

    while ((got = recv(fd, text, sizeof(text), 0)) > 0)
        size += (size_t)got;
    return size;
}

/* An answer before the end of a request that does not fit into the sockets: a refusal ends it at
 * once, any other when all is sent. */
static void test_early_answer(void **state)
{
    static char large[16 << 20];
    static const char *const answers[] = {"HTTP/1.1 413 Large\r\n" EMPTY,
                                          "HTTP/1.1 202 Taken\r\n" EMPTY};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        unsigned port;
        int listener = listen_here(&port);
        struct webhook_fixture fixture;
        webhook_fixture_init(&fixture, "127.0.0.0/8");
        webhook_fixture_start(&fixture);
        char target[64];
        snprintf(target, sizeof(target), "http://%s:%u/", hosts[i % 2], port);
        struct timer_texts texts = {.target = bytes_of(target), .payload = {large, sizeof(large)}};
        struct webhook_shipment shipment;
        webhook_shipment_init_texts(&shipment, &texts);
        shipment.timer->retry.timeout_ms = WAIT_S * 1000;
        webhook_fixture_post(&fixture, &shipment, 1);
        int fd = accept(listener, NULL, NULL);
        peer_say(fd, answers[i / 2]);
        if (i / 2 == 0) {
            webhook_fixture_wait(&fixture, 1); /* with most of it unread */
            assert_true(drain(fd) < sizeof(large));
            assert_string_equal(shipment.delivery.outcome.error, "HTTP 413");
        } else {
            size_t left = sizeof(large);
            while (left > 0) {
                static char text[65536];
                ssize_t got = recv(fd, text, sizeof(text), 0);

                assert_true(got > 0);
                left -= (size_t)got < left ? (size_t)got : left;
            }
            webhook_fixture_wait(&fixture, 1);
            assert_string_equal(shipment.delivery.outcome.error, "");
        }
        shipment_deinit(&shipment);
        webhook_fixture_stop(&fixture);
        close(fd);
        close(listener);
    }
}

/* ---- connections ---- */

/* Both ways share one limit: a connection that waits for its next webhook makes room for another.
 */
/* proves: webhook_connections_max */
static void test_one_limit_for_both(void **state)
{
    struct webhook_peer peers[2];

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.connections_max = 1;
    webhook_fixture_start(&fixture);
    for (size_t i = 0; i < COUNT(peers); i++)
        peer_start(&peers[i], "127.0.0.1", "HTTP/1.1 204 No\r\n\r\n", NULL);
    for (size_t round = 1; round <= 3; round++)
        for (size_t i = 0; i < COUNT(peers); i++) {
            for (size_t again = 0; again < 2; again++) {
                char target[64];
                snprintf(target, sizeof(target), "http://%s:%u/", hosts[i], peers[i].port);
                assert_int_equal(webhook_fixture_outcome(&fixture, target).result, DELIVERY_DONE);
            }
            pthread_mutex_lock(&peers[i].lock);
            assert_int_equal(peers[i].connections, round);
            pthread_mutex_unlock(&peers[i].lock);
        }
    webhook_fixture_stop(&fixture);
    for (size_t i = 0; i < COUNT(peers); i++)
        peer_stop(&peers[i]);
}

/* libcurl resolves a name for one webhook, on a connection that is closed after it; the others
 * share a connection of our own. They look alike to the receiver. */
/* proves: target-connect, webhook */
static void test_name_is_learnt(void **state)
{
    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.secrets = NULL;
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "127.0.0.1", "HTTP/1.1 204 No\r\n\r\n", NULL);
    char target[64], first[4096];
    snprintf(target, sizeof(target), "http://Named.test:%u/a?b", peer.port);
    const size_t before = asked;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(webhook_fixture_outcome(&fixture, target).result, DELIVERY_DONE);
        pthread_mutex_lock(&peer.lock);
        assert_int_equal(peer.connections, i == 0 ? 1 : 2);
        mask(peer.request, "\r\nwebhook-timestamp: ");
        mask(peer.request, "\r\ntraceparent: ");
        if (i == 0)
            snprintf(first, sizeof(first), "%s", peer.request);
        assert_string_equal(peer.request, first);
        pthread_mutex_unlock(&peer.lock);
    }
    assert_int_equal(asked - before, 1);
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
}

/* A learnt address that takes no connection is not the last word: libcurl's is, in one attempt. A
 * kept connection that was closed makes no difference. */
static void test_learnt_address_is_gone(void **state)
{
    (void)state;
    for (enum peer_manner manner = PEER_KEEPS; manner <= PEER_HANGS_UP; manner++) {
        struct webhook_fixture fixture;
        webhook_fixture_init(&fixture, "127.0.0.0/8");
        webhook_fixture_start(&fixture);
        struct webhook_peer peer;
        peer_start_with(&peer, "127.0.0.1", "HTTP/1.1 204 No\r\n\r\n", NULL, manner);
        char target[64];
        snprintf(target, sizeof(target), "http://named.test:%u/", peer.port);
        assert_int_equal(webhook_fixture_outcome(&fixture, target).result, DELIVERY_DONE);
        peer_stop(&peer);
        for (size_t i = 0; i < 3; i++) {
            struct delivery_outcome outcome = webhook_fixture_outcome(&fixture, target);

            assert_int_equal(outcome.result, DELIVERY_FAILED);
            assert_string_equal(outcome.error, "connection refused");
        }
        webhook_fixture_stop(&fixture);
    }
}

/* An address is learnt where it is allowed, and nowhere else is it called. */
/* proves: target-connect */
static void test_name_is_refused(void **state)
{
    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "");
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "127.0.0.1", "HTTP/1.1 204 No\r\n\r\n", NULL);
    char target[64];
    snprintf(target, sizeof(target), "http://named.test:%u/", peer.port);
    for (size_t i = 0; i < 3; i++)
        assert_non_null(strstr(webhook_fixture_outcome(&fixture, target).error, "loopback"));
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    assert_int_equal(peer.connections, 0);
}

/* A receiver that reads a request on a kept connection and closes got one request for each attempt:
 * such an attempt has failed, and the next one has a new connection. */
/* proves: one-request */
static void test_one_request_an_attempt(void **state)
{
    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start_with(&peer, "127.0.0.1", "HTTP/1.1 204 No\r\n\r\n", NULL, PEER_IS_ABSENT);
    for (int i = 0; i < 20; i++) {
        char target[64];
        snprintf(target, sizeof(target), "http://127.0.0.1:%u/", peer.port);
        struct delivery_outcome outcome = webhook_fixture_outcome(&fixture, target);

        assert_int_equal(outcome.result, i % 2 == 0 ? DELIVERY_DONE : DELIVERY_FAILED);
        assert_string_equal(outcome.error, i % 2 == 0 ? "" : "connection closed without an answer");
    }
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    assert_int_equal(peer.requests, 20);
    assert_int_equal(peer.connections, 10);
}

/* A connection carries so many requests, and is closed at its greatest age, without a further one
 * too: the peer sees the end of it before the next delivery comes. */
/* proves: webhook_connection_requests_max, webhook_connection_age_max */
static void test_connection_wears_out(void **state)
{
    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.connection_requests_max = 5;
    fixture.options.connection_age_ms_max = 200;
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "127.0.0.1", "HTTP/1.1 204 No\r\n\r\n", NULL);
    char target[64];
    snprintf(target, sizeof(target), "http://127.0.0.1:%u/", peer.port);
    for (int i = 0; i < 20; i++)
        assert_int_equal(webhook_fixture_outcome(&fixture, target).result, DELIVERY_DONE);
    pthread_mutex_lock(&peer.lock);
    const size_t connections = peer.connections;
    pthread_mutex_unlock(&peer.lock);
    assert_in_range(connections, 4, 19); /* more than four when the machine is slow */
    webhook_fixture_outcome(&fixture, target);
    peer_wait_closed(&peer);
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
}

/* A delivery whose lease is over when its connection is there is not sent, by either way, and
 * counts as no failure of the target. */
static void test_lease_is_over(void **state)
{
    static const char *const targets[] = {"127.0.0.1", "127.1", "named.test"};
    static const _Atomic uint64_t never;

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "127.0.0.1", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", NULL);
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct webhook_shipment shipment;
        struct target_status status;
        char target[64];

        snprintf(target, sizeof(target), "http://%s:%u/a", targets[i], peer.port);
        webhook_shipment_init(&shipment, target);
        atomic_store(&valid_until_ns, UINT64_MAX);
        shipment.delivery.valid_until_ns = i == 2 ? &valid_until_ns : &never;
        webhook_fixture_post(&fixture, &shipment, 1);
        webhook_fixture_wait(&fixture, i + 1);
        assert_int_equal(shipment.delivery.outcome.result, DELIVERY_RETURNED);
        assert_true(shipment.delivery.started_us == 0);
        targets_status(fixture.targets, shipment.timer, instant_now(), &status);
        assert_int_equal(status.failures, 0);
        shipment_deinit(&shipment);
    }
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    assert_int_equal(peer.requests, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways_tell_alike),
        cmocka_unit_test(test_answer_in_pieces),
        cmocka_unit_test(test_request_is_the_same),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_unasked_answer),
        cmocka_unit_test(test_early_answer),
        cmocka_unit_test(test_one_limit_for_both),
        cmocka_unit_test(test_name_is_learnt),
        cmocka_unit_test(test_learnt_address_is_gone),
        cmocka_unit_test(test_name_is_refused),
        cmocka_unit_test(test_lease_is_over),
        cmocka_unit_test(test_one_request_an_attempt),
        cmocka_unit_test(test_connection_wears_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
