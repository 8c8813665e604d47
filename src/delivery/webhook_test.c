/*
 * Goal: each delivery comes back once, with the outcome that the contract names, whatever the
 * target does; and no target can reach an address that is not allowed, or hold up another. Method:
 * real sockets on this machine. tests/support/receiver.c plays the targets that behave well and
 * ill, a peer in this process (webhook_fixture.h) keeps what it was sent, and this program's own
 * getaddrinfo plays the name server.
 */
#include "delivery/webhook.h"

#include "delivery/receiver_process.h"
#include "delivery/signature.h"
#include "delivery/webhook_fixture.h"

#include <dlfcn.h>
#include <netdb.h>

#define OK_RESPONSE "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

/* ---- names ---- */

/* The answers of this program's name server, which libcurl's threads ask: the only state of the
 * tests that is not on a stack, for nothing but its name leads there. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool hangs; /* questions for hang.test get no answer while it is set */
    size_t hanging;
} names = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0};

static const char *const known_names[][3] = {
    {"private.test", "127.0.0.1"},          {"metadata.test", "169.254.169.254"},
    {"nat64.test", "64:ff9b::a9fe:a9fe"},   {"mapped.test", "::ffff:10.0.0.1"},
    {"two.test", "127.0.0.1", "127.0.0.2"},
};

typedef int getaddrinfo_function(const char *, const char *, const struct addrinfo *,
                                 struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    getaddrinfo_function *real = (getaddrinfo_function *)dlsym(RTLD_NEXT, "getaddrinfo");

    if (strcmp(name, "hang.test") == 0) {
        pthread_mutex_lock(&names.lock);
        names.hanging++;
        pthread_cond_broadcast(&names.changed);
        while (names.hangs)
            pthread_cond_wait(&names.changed, &names.lock);
        names.hanging--;
        pthread_cond_broadcast(&names.changed);
        pthread_mutex_unlock(&names.lock);
        return EAI_AGAIN;
    }
    for (size_t i = 0; i < COUNT(known_names); i++) {
        if (strcmp(name, known_names[i][0]) != 0)
            continue;
        int code = real(known_names[i][1], service, hints, ret_found);
        if (code == 0 && known_names[i][2]) {
            struct addrinfo *last = *ret_found;

            while (last->ai_next)
                last = last->ai_next;
            code = real(known_names[i][2], service, hints, &last->ai_next);
        }
        return code;
    }
    return strspn(name, "0123456789.") == strlen(name) || strchr(name, ':')
               ? real(name, service, hints, ret_found)
               : EAI_NONAME;
}

static void set_hanging(bool hangs)
{
    pthread_mutex_lock(&names.lock);
    names.hangs = hangs;
    pthread_cond_broadcast(&names.changed);
    while (!hangs && names.hanging > 0)
        pthread_cond_wait(&names.changed, &names.lock);
    pthread_mutex_unlock(&names.lock);
}

/* Where the targets are, in the spelling of the way that is tested: 127.0.0.1 is called over a
 * connection of our own, 127.1 by libcurl. */
static const char *loopback;

static const char *url(char text[128], const char *host, unsigned port, const char *path)
{
    snprintf(text, 128, "http://%s:%u%s", host, port, path);
    return text;
}

/* A port where nobody listens: the system gave it out, and got it back. */
static unsigned closed_port(void)
{
    struct webhook_peer peer;

    peer_start(&peer, "127.0.0.1", "", NULL);
    unsigned port = peer.port;
    peer_stop(&peer);
    return port;
}

/* ---- outcomes ---- */

struct outcome_case {
    const char *path;
    enum delivery_result result;
    uint64_t retry_after_ms;
    const char *error;
    uint16_t status;
};

/* proves: target-connect, outcome-success, outcome-gone, outcome-retry, outcome-redirect */
/* proves: webhook_connect_timeout (at) */
static void test_webhook_outcomes(void **state)
{
    static const struct outcome_case cases[] = {
        {"/ok", DELIVERY_DONE, 0, "", 200},
        {"/status/201", DELIVERY_DONE, 0, "", 201},
        {"/status/204", DELIVERY_DONE, 0, "", 204},
        {"/status/299", DELIVERY_DONE, 0, "", 299},
        {"/slow/20", DELIVERY_DONE, 0, "", 200},
        {"/partial", DELIVERY_DONE, 0, "", 200},
        {"/large/1000", DELIVERY_DONE, 0, "", 200},
        {"/large/3000000", DELIVERY_DONE, 0, "", 200}, /* more than response_bytes_max */
        {"/redirect", DELIVERY_FAILED, 0, "HTTP 302: redirects are not followed", 302},
        {"/status/308", DELIVERY_FAILED, 0, "HTTP 308: redirects are not followed", 308},
        {"/status/400", DELIVERY_FAILED, 0, "HTTP 400", 400},
        {"/gone", DELIVERY_ENDED, 0, "HTTP 410", 410},
        {"/status/429", DELIVERY_FAILED, 0, "HTTP 429", 429},
        {"/status/500", DELIVERY_FAILED, 0, "HTTP 500", 500},
        {"/status/503", DELIVERY_FAILED, 0, "HTTP 503", 503},
        {"/retry-after/2", DELIVERY_FAILED, 2001, "HTTP 503", 503},
        {"/retry-after/86400", DELIVERY_FAILED, 86400001, "HTTP 503", 503},
        {"/close", DELIVERY_FAILED, 0, "connection closed without an answer", 0},
    };
    struct receiver_process receiver = receiver_start(NULL, NULL);

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct outcome_case *it = &cases[i];
        char target[128];
        struct delivery_outcome outcome =
            webhook_fixture_outcome(&fixture, url(target, loopback, receiver.port, it->path));

        if (outcome.result != it->result || outcome.status != it->status ||
            outcome.retry_after_ms != it->retry_after_ms || strcmp(outcome.error, it->error) != 0)
            fail_msg("%s: %d, %u, %s", it->path, outcome.result, outcome.status, outcome.error);
    }
    webhook_fixture_stop(&fixture);
    /* One request each: no redirect was followed, nothing was sent twice. */
    assert_int_equal(receiver_stop(&receiver), COUNT(cases));
}

/* The attempt's number reaches the receiver, which fails the first two. */
/* proves: webhook-headers */
static void test_attempts(void **state)
{
    struct receiver_process receiver = receiver_start(NULL, NULL);

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct webhook_shipment shipment;
    char target[128];
    webhook_shipment_init(&shipment, url(target, loopback, receiver.port, "/flaky/2"));
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        shipment.delivery.attempt = attempt;
        shipment.done_count = 0;
        webhook_fixture_deliver(&fixture, &shipment);
        assert_int_equal(shipment.delivery.outcome.result,
                         attempt <= 2 ? DELIVERY_FAILED : DELIVERY_DONE);
    }
    shipment_deinit(&shipment);
    webhook_fixture_stop(&fixture);
    receiver_stop(&receiver);
}

/* proves: no-credentials */
static void test_bad_targets(void **state)
{
    static const char *const bad[] = {
        "",
        "queue:jobs",
        "ftp://127.0.0.1/",
        "http://user:secret@127.0.0.1/",
        "http://%31%32%37.0.0.1/",
        "http://[fe80::1%25lo]/",
        "file:///etc/passwd",
        "http://",
        "http://[::",
        "http://a b.test",
        "http://127.0.0.1:70000/",
        "http://a:b",
        "HTTP:/127.0.0.1",
        "http://127.0.0.1/a\r\nX-Forged: 1",
        "http://127.0.0.1/\x01",
        "http://127.0.0.1 /",
        "http://%00/",
    };

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct delivery_outcome outcome;
    for (size_t i = 0; i < COUNT(bad); i++) {
        outcome = webhook_fixture_outcome(&fixture, bad[i]);
        if (outcome.result != DELIVERY_ENDED || !strstr(outcome.error, "target is not"))
            fail_msg("\"%s\": %d, %s", bad[i], (int)outcome.result, outcome.error);
    }
    char target[128];
    outcome = webhook_fixture_outcome(&fixture, url(target, loopback, closed_port(), "/"));
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "connection refused");
    outcome = webhook_fixture_outcome(&fixture, "http://unknown.test/");
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "host name not found");
    webhook_fixture_stop(&fixture);
}

/* ---- answers of all kinds ---- */

static struct delivery_outcome outcome_of_response(const char *response, enum peer_manner manner)
{
    struct webhook_fixture fixture;

    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start_with(&peer, "127.0.0.1", response, NULL, manner);
    char target[128];
    struct delivery_outcome outcome =
        webhook_fixture_outcome(&fixture, url(target, loopback, peer.port, "/"));
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    return outcome;
}

static uint64_t retry_after(const char *status, const char *value)
{
    char response[300];

    snprintf(response, sizeof(response),
             "HTTP/1.1 %s\r\nContent-Length: 0\r\nRetry-After: %s\r\n\r\n", status, value);
    return outcome_of_response(response, PEER_KEEPS).retry_after_ms;
}

/* proves: outcome-retry-after */
static void test_retry_after(void **state)
{
    time_t soon = time(NULL) + 90;

    (void)state;
    assert_int_equal(retry_after("429 Too Many Requests", "7"), 7001);
    assert_int_equal(retry_after("503 Service Unavailable", "0"), 0);
    assert_int_equal(retry_after("503 Service Unavailable", "soon"), 0);
    assert_int_equal(retry_after("500 Error", "7"), 7001);
    assert_int_equal(retry_after("403 Forbidden", "7"), 7001); /* as GitHub limits rates */
    assert_int_equal(retry_after("429 Too Many Requests", "30.5"), 30501);
    assert_int_equal(retry_after("429 Too Many Requests", "1.2340"), 1235);
    assert_int_equal(retry_after("200 OK", "7"), 0);
    assert_true(retry_after("503 Unavailable", "9223372036854775807") >=
                UINT64_C(9223372036854775807));
    struct tm parts;
    char date[100];
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&soon, &parts));
    assert_in_range(retry_after("503 Unavailable", date), 1001, 90001);
    assert_int_equal(retry_after("503 Unavailable", "Fri, 01 Jan 2021 00:00:00 GMT"), 0);
}

/* What no honest receiver sends: it is no pause, or a very long one that the engine cuts to a day;
 * never a short one made of an overflow. */
static void test_absurd_retry_after(void **state)
{
    static const char *const none[] = {
        "",   "-1", "- 1", "soon",  "NaN", "0x10", "Fri",  "99999999999999999999999999 years",
        "7.", ".5", "1.x", "1.2.3", "0",   "-999", "\xff", "Mon, 32 Foo 2030 99:99:99 GMT",
    };
    static const char *const endless[] = {
        "9223372036854775808",           "18446744073709551616",
        "99999999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT",
        "00000000009223372036854775808",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(none); i++) {
        uint64_t ms = retry_after("429 Too Many Requests", none[i]);

        if (ms != 0)
            fail_msg("\"%s\": %llu ms", none[i], (unsigned long long)ms);
    }
    for (size_t i = 0; i < COUNT(endless); i++) {
        uint64_t ms = retry_after("503 Unavailable", endless[i]);

        if (ms < UINT64_C(24) * 3600 * 1000)
            fail_msg("\"%s\": %llu ms", endless[i], (unsigned long long)ms);
    }
}

/* One transfer after the other: what libcurl kept of the first answer is gone by then. */
static void test_a_folded_header_after_another_answer(void **state)
{
    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.connections_max = 1;
    webhook_fixture_start(&fixture);
    struct webhook_peer usual;
    peer_start_with(&usual, "127.0.0.1", OK_RESPONSE, NULL, PEER_HANGS_UP);
    struct webhook_peer folded;
    peer_start_with(&folded, "127.0.0.1",
                    "HTTP/1.1 200 OK\r\n folded: 1\r\nContent-Length: 0\r\n\r\n", NULL,
                    PEER_HANGS_UP);
    for (int i = 0; i < 3; i++) {
        char target[128];
        struct delivery_outcome outcome =
            webhook_fixture_outcome(&fixture, url(target, loopback, usual.port, "/"));

        assert_int_equal(outcome.result, DELIVERY_DONE);
        outcome = webhook_fixture_outcome(&fixture, url(target, loopback, folded.port, "/"));
        if (outcome.result != DELIVERY_DONE) /* newer versions of libcurl ignore the line */
            assert_string_equal(outcome.error, "answer is not HTTP");
    }
    webhook_fixture_stop(&fixture);
    peer_stop(&usual);
    peer_stop(&folded);
}

/* proves: outcome-retry */
static void test_odd_answers(void **state)
{
    static char many[200000];

    (void)state;
    struct delivery_outcome outcome = outcome_of_response(
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" OK_RESPONSE, PEER_KEEPS);
    assert_int_equal(outcome.result, DELIVERY_DONE);
    outcome = outcome_of_response("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 No\r\n"
                                  "Content-Length: 0\r\n\r\n",
                                  PEER_KEEPS);
    assert_string_equal(outcome.error, "HTTP 500");
    /* An interim answer, and headers that do not end, are no answer. */
    outcome = outcome_of_response("HTTP/1.1 103 Early Hints\r\n\r\n", PEER_HANGS_UP);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    outcome = outcome_of_response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", PEER_HANGS_UP);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    outcome = outcome_of_response("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nX: ",
                                  PEER_HANGS_UP);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    outcome = outcome_of_response("nonsense\r\n\r\n", PEER_HANGS_UP);
    assert_int_equal(outcome.result, DELIVERY_FAILED); /* ENDED would give up on a passing fault */
    assert_string_equal(outcome.error, "answer is not HTTP");
    outcome = outcome_of_response("HTTP/9.9 200 OK\r\n\r\n", PEER_HANGS_UP);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    /* To libcurl these are a 200. */
    outcome = outcome_of_response("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/\r\n\r\n", PEER_HANGS_UP);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    outcome = outcome_of_response("http/1.1 500 No\r\nContent-Length: 0\r\n\r\n", PEER_KEEPS);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "answer is not HTTP");
    outcome = outcome_of_response("HTTP/x.1 500 No\r\nContent-Length: 0\r\n\r\n", PEER_KEEPS);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    outcome = outcome_of_response("HTTP/1.1 103 Early Hints\r\n\r\nHttp/1.1 410 Gone\r\n"
                                  "Content-Length: 0\r\n\r\n",
                                  PEER_KEEPS);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    /* A body without a length that just ends, an HTTP/1.0 answer: both are ones. */
    outcome = outcome_of_response("HTTP/1.1 200 OK\r\n\r\nbody", PEER_HANGS_UP);
    assert_int_equal(outcome.result, DELIVERY_DONE);
    outcome = outcome_of_response("HTTP/1.0 200 OK\r\n\r\n", PEER_HANGS_UP);
    assert_int_equal(outcome.result, DELIVERY_DONE);
    /* Headers without end are cut off. */
    snprintf(many, sizeof(many), "HTTP/1.1 200 OK\r\n");
    for (size_t size = strlen(many); size < sizeof(many) - 100; size += strlen(many + size))
        snprintf(many + size, 100, "x-header-%zu: a value of some size\r\n", size);
    outcome = outcome_of_response(many, PEER_KEEPS);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "answer with too many headers");
}

/* Headers of the largest size that is read, and one byte more. */
/* proves: webhook-answer-headers */
static void test_headers_to_the_byte(void **state)
{
    static const char start[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
    static char head[66000];

    (void)state;
    for (size_t more = 0; more < 2; more++) {
        const size_t size = 64 * 1024 + more;
        size_t at = strlen(start);

        memset(head, 'v', sizeof(head));
        memcpy(head, start, at);
        while (at < size - 2) {
            const size_t rest = size - 2 - at, line = rest < 1100 ? rest : 1000;

            memcpy(head + at, "X: ", 3);
            at += line;
            memcpy(head + at - 2, "\r\n", 2);
        }
        memcpy(head + size - 2, "\r\n", 3);
        struct delivery_outcome outcome = outcome_of_response(head, PEER_KEEPS);
        assert_int_equal(outcome.result, more ? DELIVERY_FAILED : DELIVERY_DONE);
        if (more)
            assert_string_equal(outcome.error, "answer with too many headers");
    }
}

/* What comes after response_bytes_max, framing included, is not waited for: here it never comes. */
/* proves: webhook_response_bytes_max (beyond) */
static void test_long_answer(void **state)
{
    static const char *const starts[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    };
    (void)state;
    static char response[100000];
    memset(response, 'x', sizeof(response) - 1);
    for (size_t i = 0; i < COUNT(starts); i++) {
        memcpy(response, starts[i], strlen(starts[i]));
        struct webhook_fixture fixture;
        webhook_fixture_init(&fixture, "127.0.0.0/8");
        webhook_fixture_start(&fixture);
        struct webhook_peer peer;
        peer_start(&peer, "127.0.0.1", response, NULL);
        char target[128];
        struct webhook_shipment shipment;
        webhook_shipment_init(&shipment, url(target, loopback, peer.port, "/"));
        shipment.timer->retry.timeout_ms = 20000;
        webhook_fixture_deliver(&fixture, &shipment);
        assert_int_equal(shipment.delivery.outcome.result, DELIVERY_DONE);
        assert_true(shipment.delivery.ended_us - shipment.delivery.started_us < 15000000);
        shipment_deinit(&shipment);
        webhook_fixture_stop(&fixture);
        peer_stop(&peer);
    }
}

/* ---- what the receiver sees ---- */

static const char *header(struct webhook_peer *peer, const char *name, char ret_value[256])
{
    char start[64];

    snprintf(start, sizeof(start), "\r\n%s: ", name);
    const char *line = strstr(peer->request, start);
    if (!line)
        return NULL;
    line += strlen(start);
    snprintf(ret_value, 256, "%.*s", (int)strcspn(line, "\r"), line);
    return ret_value;
}

static void assert_header(struct webhook_peer *peer, const char *name, const char *wanted)
{
    char value[256];

    if (!header(peer, name, value))
        fail_msg("there is no %s", name);
    assert_string_equal(value, wanted);
}

/* The receiver's check, with the timestamp that it was sent. */
static void assert_signed(struct webhook_peer *peer, const char *secret, struct bytes body)
{
    struct buffer wanted;

    buffer_init(&wanted);
    char id[256];
    assert_non_null(header(peer, "webhook-id", id));
    char timestamp[256];
    assert_non_null(header(peer, "webhook-timestamp", timestamp));
    char value[256];
    assert_non_null(header(peer, "webhook-signature", value));
    assert_in_range(strtoull(timestamp, NULL, 10), wall_now_us() / 1000000 - WAIT_S,
                    wall_now_us() / 1000000);
    struct signature *signature;
    assert_int_equal(signature_create(secret, &signature, NULL), ERROR_NONE);
    signature_append(signature, bytes_of(id), strtoull(timestamp, NULL, 10), body, &wanted);
    buffer_append(&wanted, "", 1);
    assert_string_equal(value, wanted.data);
    signature_destroy(signature);
    buffer_deinit(&wanted);
}

/* proves: no-credentials, payload, headers, webhook, webhook-signature, webhook-headers */
static void test_request(void **state)
{
    static const struct bytes body = {"{\"order\": 42}", 13};
    static const char *const unwanted[] = {"authorization", "forged", "expect", "cookie",
                                           "accept-encoding"};
    struct timer_texts texts = {.payload = body,
                                .headers = BYTES("X-Team: checkout\nWebhook-Id: forged\n")};

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "127.0.0.1", OK_RESPONSE, NULL);
    char host[64];
    snprintf(host, sizeof(host), "127.0.0.1:%u", peer.port);
    char target[128];
    url(target, loopback, peer.port, "/a/../b?c=%20d");
    texts.target = bytes_of(target);
    struct webhook_shipment shipment;
    webhook_shipment_init_texts(&shipment, &texts);
    shipment.delivery.attempt = 3;
    webhook_fixture_deliver(&fixture, &shipment);
    assert_int_equal(shipment.delivery.outcome.result, DELIVERY_DONE);
    char id[WEBHOOK_ID_SIZE];
    webhook_id_format(shipment.timer, id);
    assert_memory_equal(peer.request, "POST /a/../b?c=%20d HTTP/1.1\r\n", 30);
    assert_header(&peer, "Host", host);
    assert_header(&peer, "content-type", "application/json");
    assert_header(&peer, "Content-Length", "13");
    assert_header(&peer, "User-Agent", "tickwheel/test");
    assert_header(&peer, "webhook-id", id);
    assert_header(&peer, "tickwheel-due", "2026-11-20T23:59:59.250Z");
    assert_header(&peer, "tickwheel-attempt", "3");
    assert_header(&peer, "tickwheel-epoch", "9");
    assert_header(&peer, "X-Team", "checkout");
    assert_signed(&peer, FIXTURE_SECRET, body);
    assert_memory_equal(peer.request + peer.request_size - body.size, body.data, body.size);
    /* Nothing that nobody asked for. */
    for (size_t i = 0; i < COUNT(unwanted); i++)
        assert_null(strcasestr(peer.request, unwanted[i]));
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    shipment_deinit(&shipment);
}

/* Empty, binary and large bodies; a content type; two secrets; none. */
/* proves: body-base64, webhook, webhook-signature */
static void test_bodies(void **state)
{
    static char large[2 << 20]; /* libcurl alone would ask first, from 1 MiB on */
    static const char *const secrets[] = {FIXTURE_SECRET " whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
                                          FIXTURE_SECRET, ""};
    const struct bytes bodies[] = {{"", 0}, {"\0\r\n\0", 4}, {large, sizeof(large)}};

    (void)state;
    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = (char)(i * 7 + i / 1000);
    for (size_t i = 0; i < COUNT(secrets); i++) {
        struct timer_texts texts = {.payload = bodies[i], .content_type = BYTES("text/x-odd")};

        struct webhook_fixture fixture;
        webhook_fixture_init(&fixture, "127.0.0.0/8");
        fixture.options.secrets = secrets[i];
        webhook_fixture_start(&fixture);
        struct webhook_peer peer;
        peer_start(&peer, "127.0.0.1", OK_RESPONSE, NULL);
        char target[128];
        texts.target = bytes_of(url(target, loopback, peer.port, "/"));
        struct webhook_shipment shipment;
        webhook_shipment_init_texts(&shipment, &texts);
        webhook_fixture_deliver(&fixture, &shipment);
        assert_int_equal(shipment.delivery.outcome.result, DELIVERY_DONE);
        assert_header(&peer, "content-type", "text/x-odd");
        assert_null(strcasestr(peer.request, "expect"));
        assert_memory_equal(peer.request + peer.request_size - bodies[i].size, bodies[i].data,
                            bodies[i].size);
        char value[256];
        if (*secrets[i])
            assert_signed(&peer, secrets[i], bodies[i]);
        else
            assert_null(header(&peer, "webhook-signature", value));
        webhook_fixture_stop(&fixture);
        peer_stop(&peer);
        shipment_deinit(&shipment);
    }
}

/* What the environment says of proxies is not for us. */
static void test_environment(void **state)
{
    (void)state;
    char proxy[128];
    setenv("http_proxy", url(proxy, "127.0.0.1", closed_port(), ""), 1);
    setenv("ALL_PROXY", proxy, 1);
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "127.0.0.1", OK_RESPONSE, NULL);
    char target[128];
    assert_int_equal(
        webhook_fixture_outcome(&fixture, url(target, loopback, peer.port, "/")).result,
        DELIVERY_DONE);
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
}

/* ---- connections ---- */

/* One after the other, all go over one connection. When it was closed meanwhile, another one
 * replaces it, any number of times. */
static void test_keep_alive(void **state)
{
    (void)state;
    for (enum peer_manner manner = PEER_KEEPS; manner <= PEER_HANGS_UP; manner++) {
        struct webhook_fixture fixture;
        webhook_fixture_init(&fixture, "127.0.0.0/8");
        webhook_fixture_start(&fixture);
        struct webhook_peer peer;
        peer_start_with(&peer, "127.0.0.1", OK_RESPONSE, NULL, manner);
        for (int i = 0; i < 50; i++) {
            char target[128];
            struct delivery_outcome outcome =
                webhook_fixture_outcome(&fixture, url(target, loopback, peer.port, "/"));

            if (outcome.result != DELIVERY_DONE)
                fail_msg("manner %d, number %d: %s", (int)manner, i, outcome.error);
            if (manner == PEER_HANGS_UP)
                peer_wait_closed(&peer);
        }
        webhook_fixture_stop(&fixture);
        peer_stop(&peer);
        assert_int_equal(peer.connections, manner == PEER_KEEPS ? 1 : 50);
        assert_int_equal(peer.requests, 50);
    }
}

/* No more at a time than there may be connections: 40 of 20 ms each over 4 take 200 ms. */
/* proves: webhook_connections_max */
static void test_connections_max(void **state)
{
    struct receiver_process receiver = receiver_start(NULL, NULL);

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.connections_max = 4;
    webhook_fixture_start(&fixture);
    struct webhook_shipment shipments[40];
    char target[128];
    for (size_t i = 0; i < COUNT(shipments); i++)
        webhook_shipment_init(&shipments[i], url(target, loopback, receiver.port, "/slow/20"));
    struct instant start = instant_now();
    webhook_fixture_post(&fixture, shipments, COUNT(shipments));
    webhook_fixture_wait(&fixture, COUNT(shipments));
    assert_true(instant_since_ns(start, instant_now()) >= 190 * 1000000ull);
    for (size_t i = 0; i < COUNT(shipments); i++) {
        assert_int_equal(shipments[i].delivery.outcome.result, DELIVERY_DONE);
        shipment_deinit(&shipments[i]);
    }
    webhook_fixture_stop(&fixture);
    receiver_stop(&receiver);
}

/* proves: retry-timeout, outcome-retry */
static void test_time_out(void **state)
{
    struct receiver_process receiver = receiver_start(NULL, NULL);

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    struct webhook_shipment shipment;
    char target[128];
    webhook_shipment_init(&shipment, url(target, loopback, receiver.port, "/hang"));
    shipment.timer->retry.timeout_ms = 150;
    webhook_fixture_deliver(&fixture, &shipment);
    assert_int_equal(shipment.delivery.outcome.result, DELIVERY_FAILED);
    assert_string_equal(shipment.delivery.outcome.error, "timed out after 150 ms");
    assert_in_range(shipment.delivery.ended_us - shipment.delivery.started_us, 149000, 10000000);
    shipment_deinit(&shipment);
    webhook_fixture_stop(&fixture);
    receiver_stop(&receiver);
}

/* A socket that listens, but whose queue is full, leaves the next connection without an answer. */
/* proves: outcome-retry, webhook_connect_timeout (beyond) */
static void test_connect_time_out(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 0), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    fixture.options.connect_timeout_ms = 200;
    webhook_fixture_start(&fixture);
    struct webhook_shipment shipments[8];
    for (size_t i = 0; i < COUNT(shipments); i++) {
        char target[128];
        webhook_shipment_init(&shipments[i], url(target, loopback, ntohs(address.sin_port), "/"));
        shipments[i].timer->retry.timeout_ms = 5000;
    }
    webhook_fixture_post(&fixture, shipments, COUNT(shipments));
    webhook_fixture_wait(&fixture, COUNT(shipments));
    size_t unconnected = 0;
    for (size_t i = 0; i < COUNT(shipments); i++) {
        const struct delivery_outcome *outcome = &shipments[i].delivery.outcome;

        assert_int_equal(outcome->result, DELIVERY_FAILED);
        if (strcmp(outcome->error, "no connection within 200 ms") == 0) {
            assert_in_range(shipments[i].delivery.ended_us - shipments[i].delivery.started_us,
                            199000, 4000000);
            unconnected++;
        } else {
            assert_string_equal(outcome->error, "timed out after 5 s");
        }
        shipment_deinit(&shipments[i]);
    }
    assert_in_range(unconnected, 1, COUNT(shipments) - 1);
    webhook_fixture_stop(&fixture);
    close(fd);
}

/* Targets that never answer hold up none of the others, and come back at the stop. */
/* proves: target-isolation */
static void test_hung_target(void **state)
{
    struct receiver_process receiver = receiver_start(NULL, NULL);
    static struct webhook_shipment hung[128], quick[1000];

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    char target[128];
    for (size_t i = 0; i < COUNT(hung); i++)
        webhook_shipment_init(&hung[i], url(target, loopback, receiver.port, "/hang"));
    for (size_t i = 0; i < COUNT(quick); i++)
        webhook_shipment_init(&quick[i], url(target, loopback, receiver.port, "/ok"));
    webhook_fixture_post(&fixture, hung, COUNT(hung));
    webhook_fixture_post(&fixture, quick, COUNT(quick));
    webhook_fixture_wait(&fixture, COUNT(quick));
    assert_int_equal(webhook_fixture_done_count(&fixture, quick, COUNT(quick)), COUNT(quick));
    assert_int_equal(webhook_fixture_done_count(&fixture, hung, COUNT(hung)), 0);
    webhook_fixture_stop(&fixture);
    for (size_t i = 0; i < COUNT(quick); i++) {
        assert_int_equal(quick[i].done_count, 1);
        assert_int_equal(quick[i].delivery.outcome.result, DELIVERY_DONE);
        shipment_deinit(&quick[i]);
    }
    for (size_t i = 0; i < COUNT(hung); i++) {
        assert_int_equal(hung[i].done_count, 1);
        assert_int_equal(hung[i].delivery.outcome.result, DELIVERY_FAILED);
        assert_string_equal(hung[i].delivery.outcome.error, "the service is stopping");
        shipment_deinit(&hung[i]);
    }
    assert_int_equal(receiver_stop(&receiver), COUNT(hung) + COUNT(quick));
}

/* Nor does a name server that never answers; and the stop does not wait for it. */
/* proves: target-isolation */
static void test_hung_name_server(void **state)
{
    struct receiver_process receiver = receiver_start(NULL, NULL);
    static struct webhook_shipment hung[20], quick[500];

    (void)state;
    set_hanging(true);
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.0/8");
    webhook_fixture_start(&fixture);
    for (size_t i = 0; i < COUNT(hung); i++) {
        webhook_shipment_init(&hung[i], "http://hang.test/");
        hung[i].timer->retry.timeout_ms = i < 10 ? 300 : WAIT_S * 1000;
    }
    char target[128];
    for (size_t i = 0; i < COUNT(quick); i++)
        webhook_shipment_init(&quick[i], url(target, loopback, receiver.port, "/ok"));
    webhook_fixture_post(&fixture, hung, COUNT(hung));
    webhook_fixture_post(&fixture, quick, COUNT(quick));
    webhook_fixture_wait(&fixture, COUNT(quick) + 10); /* with those that were timed out */
    assert_int_equal(webhook_fixture_done_count(&fixture, quick, COUNT(quick)), COUNT(quick));
    webhook_fixture_stop(&fixture);
    set_hanging(false);
    for (size_t i = 0; i < COUNT(quick); i++)
        shipment_deinit(&quick[i]);
    for (size_t i = 0; i < COUNT(hung); i++) {
        assert_int_equal(hung[i].done_count, 1);
        assert_string_equal(hung[i].delivery.outcome.error,
                            i < 10 ? "host name not resolved within 300 ms"
                                   : "the service is stopping");
        shipment_deinit(&hung[i]);
    }
    receiver_stop(&receiver);
}

/* Posted and stopped at once: each comes back, exactly once. */
static void test_stop_at_once(void **state)
{
    struct receiver_process receiver = receiver_start(NULL, NULL);
    static struct webhook_shipment shipments[300];

    (void)state;
    for (int round = 0; round < 5; round++) {
        struct webhook_fixture fixture;
        webhook_fixture_init(&fixture, "127.0.0.0/8");
        fixture.options.connections_max = 16;
        webhook_fixture_start(&fixture);
        char target[128];
        for (size_t i = 0; i < COUNT(shipments); i++)
            webhook_shipment_init(&shipments[i], url(target, loopback, receiver.port, "/slow/1"));
        webhook_fixture_post(&fixture, shipments, 100);
        webhook_fixture_wait(&fixture, (size_t)round * 20);
        webhook_fixture_post(&fixture, shipments + 100, 200);
        webhook_fixture_stop(&fixture);
        for (size_t i = 0; i < COUNT(shipments); i++) {
            assert_int_equal(shipments[i].done_count, 1);
            assert_true(shipments[i].delivery.outcome.result == DELIVERY_DONE ||
                        strcmp(shipments[i].delivery.outcome.error, "the service is stopping") ==
                            0);
            assert_true(shipments[i].delivery.ended_us >= shipments[i].delivery.started_us);
            shipment_deinit(&shipments[i]);
        }
    }
    receiver_stop(&receiver);
}

struct late {
    struct webhook_fixture fixture;
    struct webhook_shipment shipments[3];
};

/* Each posts the next from within `done`, when the thread looks at its mailbox no more. */
static void post_late(void *context, struct list *deliveries)
{
    struct late *late = context;
    struct list list;

    list_init(&list);
    struct list *link;
    while ((link = list_pop(deliveries))) {
        struct webhook_shipment *shipment = list_item(link, struct webhook_shipment, delivery.link);

        shipment->done_count++;
        if (shipment + 1 < late->shipments + COUNT(late->shipments))
            list_push(&list, &shipment[1].delivery.link);
    }
    webhook_post(late->fixture.webhook, &list);
}

static void test_late_post(void **state)
{
    struct receiver_process receiver = receiver_start(NULL, NULL);

    (void)state;
    struct late late;
    webhook_fixture_init(&late.fixture, "127.0.0.0/8");
    late.fixture.options.done = post_late;
    late.fixture.options.context = &late;
    char target[128];
    for (size_t i = 0; i < COUNT(late.shipments); i++)
        webhook_shipment_init(&late.shipments[i], url(target, loopback, receiver.port, "/hang"));
    webhook_fixture_start(&late.fixture);
    webhook_fixture_post(&late.fixture, late.shipments, 1);
    webhook_fixture_stop(&late.fixture);
    for (size_t i = 0; i < COUNT(late.shipments); i++) {
        assert_int_equal(late.shipments[i].done_count, 1);
        assert_string_equal(late.shipments[i].delivery.outcome.error, "the service is stopping");
        shipment_deinit(&late.shipments[i]);
    }
    receiver_stop(&receiver);
}

/* ---- the guard ---- */

struct refused_case {
    const char *host;
    const char *kind;
};

/* However the address is spelled or the name resolves: no connection is made. */
/* proves: target-connect */
static void test_refused_addresses(void **state)
{
    static const struct refused_case cases[] = {
        {"127.0.0.1", "loopback"},
        {"2130706433", "loopback"},
        {"0x7f.1", "loopback"},
        {"0177.0.0.01", "loopback"},
        {"localhost", "loopback"},
        {"LOCALHOST", "loopback"},
        {"api.localhost", "loopback"},
        {"private.test", "loopback"},
        {"two.test", "loopback"},
        {"0.0.0.0", "unspecified"},
        {"[::1]", "loopback"},
        {"[::ffff:127.0.0.1]", "loopback"},
        {"169.254.169.254", "cloud metadata"},
        {"metadata.test", "cloud metadata"},
        {"nat64.test", "cloud metadata"},
        {"mapped.test", "private"},
        {"10.255.255.1", "private"},
    };
    struct receiver_process receiver = receiver_start(NULL, NULL);

    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "");
    webhook_fixture_start(&fixture);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char target[128];
        struct delivery_outcome outcome =
            webhook_fixture_outcome(&fixture, url(target, cases[i].host, receiver.port, "/ok"));

        if (outcome.result != DELIVERY_FAILED || !strstr(outcome.error, "address refused: ") ||
            !strstr(outcome.error, cases[i].kind) || !strstr(outcome.error, "webhook_allow"))
            fail_msg("%s: %d, %s", cases[i].host, (int)outcome.result, outcome.error);
    }
    webhook_fixture_stop(&fixture);
    assert_int_equal(receiver_stop(&receiver), 0);
}

/* Of a name's two addresses only the allowed one is called. */
/* proves: target-connect */
static void test_allowed_address(void **state)
{
    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "127.0.0.2/32");
    webhook_fixture_start(&fixture);
    struct webhook_peer peer;
    peer_start(&peer, "0.0.0.0", OK_RESPONSE, NULL);
    char target[128];
    assert_int_equal(
        webhook_fixture_outcome(&fixture, url(target, "two.test", peer.port, "/")).result,
        DELIVERY_DONE);
    webhook_fixture_stop(&fixture);
    peer_stop(&peer);
    assert_int_equal(peer.connections, 1);
    assert_int_equal(peer.local.s_addr, inet_addr("127.0.0.2"));
}

/* ---- start ---- */

static void test_webhook_start_fails(void **state)
{
    (void)state;
    struct webhook_fixture fixture;
    webhook_fixture_init(&fixture, "");
    fixture.options.secrets = "whsec_short";
    struct error error = {0};
    assert_int_equal(webhook_start(&fixture.options, &fixture.webhook, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "secret 1"));
    fixture.options.secrets = "";
    fixture.options.ca_file = "/nonexistent/ca.pem";
    assert_int_equal(webhook_start(&fixture.options, &fixture.webhook, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "/nonexistent/ca.pem"));
    fixture.options.ca_file = "/dev/null";
    assert_int_equal(webhook_start(&fixture.options, &fixture.webhook, &error), ERROR_INVALID);
    fixture.options.ca_file = NULL;
    webhook_fixture_start(&fixture); /* and stops with nothing done */
    webhook_fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_webhook_outcomes),
        cmocka_unit_test(test_attempts),
        cmocka_unit_test(test_bad_targets),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_absurd_retry_after),
        cmocka_unit_test(test_a_folded_header_after_another_answer),
        cmocka_unit_test(test_odd_answers),
        cmocka_unit_test(test_headers_to_the_byte),
        cmocka_unit_test(test_long_answer),
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_late_post),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_connections_max),
        cmocka_unit_test(test_time_out),
        cmocka_unit_test(test_connect_time_out),
        cmocka_unit_test(test_hung_target),
        cmocka_unit_test(test_hung_name_server),
        cmocka_unit_test(test_stop_at_once),
        cmocka_unit_test(test_refused_addresses),
        cmocka_unit_test(test_allowed_address),
        cmocka_unit_test(test_webhook_start_fails),
    };

    loopback = "127.0.0.1";
    int failed = cmocka_run_group_tests_name("directly", tests, NULL, NULL);
    loopback = "127.1";
    return failed + cmocka_run_group_tests_name("by libcurl", tests, NULL, NULL);
}
