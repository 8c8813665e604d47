/*
 * Goal: the request says exactly what the contract promises, and nothing that a client wrote can
 * forge a header, reframe the request or leak a password. Method: build it for chosen timers and
 * compare.
 */
#include "delivery/webhook_request.h"

#include "delivery/webhook.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DUE_MS       UINT64_C(1795219199250)

static struct timer *webhook_request_test_make_timer(struct timer_texts texts)
{
    struct timer *timer = timer_alloc(&texts);

    assert_non_null(timer);
    timer->due = (struct wall){DUE_MS};
    timer->id = (struct timer_id){{DUE_MS}, 7, TIMER_SERIAL(3, 42)};
    return timer;
}

/* All lines, each with a newline, in `ret_text`, from the list for libcurl; its last entry switches
 * "Expect" off. The lines that are sent say as much. */
static void build_in(struct webhook_request *request, const struct timer *timer, uint32_t attempt,
                     const struct webhook_envelope *envelope, char *ret_text, size_t size)
{
    struct delivery delivery = {.timer = timer, .attempt = attempt, .epoch = 9};

    assert_int_equal(webhook_request_build(request, &delivery, envelope), ERROR_NONE);
    struct buffer sent;
    buffer_init(&sent);
    buffer_append_bytes(&sent, webhook_request_lines(request));
    struct bytes rest = buffer_bytes(&sent);
    struct curl_slist *header = webhook_request_list(request);
    for (; header->next; header = header->next) {
        int line_size = snprintf(ret_text, size, "%s\n", header->data);

        assert_in_range(line_size, 1, size - 1);
        struct bytes line = bytes_cut(&rest, '\n');
        assert_int_equal(line.size, line_size);
        assert_memory_equal(line.data, ret_text, line.size - 2);
        assert_true(line.data[line.size - 2] == ret_text[line.size - 2] ||
                    (line.data[line.size - 2] == ':' && ret_text[line.size - 2] == ';'));
        assert_int_equal(line.data[line.size - 1], '\r');
        ret_text += line_size;
        size -= (size_t)line_size;
    }
    *ret_text = '\0';
    assert_int_equal(rest.size, 0);
    assert_string_equal(header->data, "expect:");
    buffer_deinit(&sent);
}

/* Those of the timer's own: what comes behind the last one of the service. */
static const char *own_lines(const char *text)
{
    const char *last = strstr(text, "\ntraceparent: ");

    assert_non_null(last);
    return strchr(last + 1, '\n') + 1;
}

/* The same, signed or not, without CloudEvents. */
static void build(struct webhook_request *request, const struct timer *timer, uint32_t attempt,
                  struct signature *signature, char *ret_text, size_t size)
{
    struct webhook_envelope envelope = {
        .signature = signature, .now_s = 1614265330, .trace = {0x0af7651916cd43dd, 1, 2, true}};

    build_in(request, timer, attempt, &envelope, ret_text, size);
}

/* ---- headers ---- */

/* proves: webhook-headers, webhook-epoch */
static void test_webhook_request_headers(void **state)
{
    struct timer *timer =
        webhook_request_test_make_timer((struct timer_texts){.payload = BYTES("{}")});

    (void)state;
    struct webhook_request request;
    webhook_request_init(&request);
    struct buffer signed_text;
    buffer_init(&signed_text);
    struct signature *signature;
    assert_int_equal(signature_create("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &signature, NULL),
                     ERROR_NONE);
    char id[WEBHOOK_ID_SIZE];
    webhook_id_format(timer, id);
    signature_append(signature, bytes_of(id), 1614265330, BYTES("{}"), &signed_text);
    buffer_append(&signed_text, "", 1);
    char text[4000];
    for (int i = 0; i < 2; i++) { /* the memory is used again */
        build(&request, timer, 3, signature, text, sizeof(text));
        char wanted[4000];
        snprintf(wanted, sizeof(wanted),
                 "content-type: application/json\nwebhook-id: %s\nwebhook-timestamp: 1614265330\n"
                 "webhook-signature: %s\ntickwheel-due: 2026-11-20T23:59:59.250Z\n"
                 "tickwheel-attempt: 3\ntickwheel-epoch: 9\n"
                 "traceparent: 00-0af7651916cd43dd0000000000000001-0000000000000002-01\n",
                 id, signed_text.data);
        assert_string_equal(text, wanted);
    }
    build(&request, timer, 1, NULL, text, sizeof(text));
    assert_null(strstr(text, "webhook-signature"));
    buffer_deinit(&signed_text);
    signature_destroy(signature);
    webhook_request_deinit(&request);
    timer_free(timer);
}

/* The longest texts of all kinds fit into the memory that is reserved, to which the list points. */
static void test_longest_headers(void **state)
{
    static const char secrets[] =
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX "
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc= "
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc=";
    static char key[300], name[1001], path[] = "/tmp/webhook_request_test.XXXXXX";
    struct token_issuer *issuer;
    struct signature *signature;
    struct webhook_request request;

    (void)state;
    memset(key, '%', sizeof(key)); /* of which each becomes three characters */
    memset(name, 'n', sizeof(name) - 1);
    EVP_PKEY *pair = EVP_RSA_gen(4096);
    FILE *file = fdopen(mkstemp(path), "w");
    assert_int_equal(PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    EVP_PKEY_free(pair);
    assert_int_equal(
        token_issuer_create(&(struct token_issuer_options){name, path, NULL, 300}, &issuer, NULL),
        ERROR_NONE);
    unlink(path);
    assert_int_equal(signature_create(secrets, &signature, NULL), ERROR_NONE);
    struct timer *timer = webhook_request_test_make_timer((struct timer_texts){
        .payload = BYTES("{}"),
        .key = {key, sizeof(key)},
        .trace = BYTES("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")});
    const struct webhook_envelope envelope = {.signature = signature,
                                              .issuer = issuer,
                                              .event_source = name,
                                              .now_s = UINT64_MAX / 2,
                                              .trace = {1, 2, 3, true}};
    const struct delivery delivery = {.timer = timer, .attempt = UINT32_MAX, .epoch = UINT64_MAX};
    webhook_request_init(&request);
    assert_int_equal(webhook_request_build(&request, &delivery, &envelope), ERROR_NONE);
    const struct bytes lines = webhook_request_lines(&request);
    size_t found = 0;
    for (struct curl_slist *at = webhook_request_list(&request); at->next; at = at->next) {
        assert_in_range((uintptr_t)at->data, (uintptr_t)lines.data,
                        (uintptr_t)lines.data + lines.size);
        found += strncmp(at->data, "authorization: Bearer ey", 24) == 0;
    }
    assert_int_equal(found, 1);
    webhook_request_deinit(&request);
    signature_destroy(signature);
    token_issuer_destroy(issuer);
    timer_free(timer);
}

/* The id is the same on every attempt and another for another due time. */
/* proves: webhook-id */
static void test_id(void **state)
{
    struct timer *timer =
        webhook_request_test_make_timer((struct timer_texts){.payload = BYTES("{}")});

    (void)state;
    struct webhook_request request;
    webhook_request_init(&request);
    char timer_id[TIMER_ID_TEXT_SIZE];
    timer_id_format(&timer->id, timer_id);
    char line[100];
    snprintf(line, sizeof(line), "%s-%llu", timer_id, (unsigned long long)DUE_MS);
    char id[WEBHOOK_ID_SIZE];
    webhook_id_format(timer, id);
    assert_string_equal(id, line);
    snprintf(line, sizeof(line), "\nwebhook-id: %s\n", id);
    char text[4000];
    for (uint32_t attempt = 1; attempt <= 100; attempt++) {
        timer->attempts = attempt;
        timer->at = wall_add(timer->due, attempt * 1000);
        timer->version++;
        timer->state = attempt > 1 ? TIMER_RETRYING : TIMER_DELIVERING;
        build(&request, timer, attempt, NULL, text, sizeof(text));
        assert_non_null(strstr(text, line));
    }
    timer->due.ms++;
    build(&request, timer, 1, NULL, text, sizeof(text));
    assert_null(strstr(text, line));
    timer->due.ms = UINT64_MAX; /* the longest there is */
    webhook_id_format(timer, id);
    assert_true(strlen(id) < WEBHOOK_ID_SIZE);
    timer->due.ms = 0;
    webhook_id_format(timer, id);
    assert_string_equal(id + TIMER_ID_TEXT_SIZE - 1, "-0");
    webhook_request_deinit(&request);
    timer_free(timer);
}

struct own_case {
    const char *lines;
    const char *wanted;
};

/* proves: headers */
static void test_own_headers(void **state)
{
    static const struct own_case cases[] = {
        {"", ""},
        {"X-One: 1\n", "X-One: 1\n"},
        {"X-One: 1", "X-One: 1\n"}, /* the last newline may be missing */
        {"X-One: 1\nauthorization: Bearer a.b=\n", "X-One: 1\nauthorization: Bearer a.b=\n"},
        {"a:1\nb:  2\t \n", "a: 1\nb: 2\n"},
        {"Empty:\nSpaces:   \n", "Empty;\nSpaces;\n"}, /* as libcurl wants empty ones */
        {"colon: a:b:c\n", "colon: a:b:c\n"},
        {"X-Utf: gr\xc3\xbc\xc3\x9f\n", "X-Utf: gr\xc3\xbc\xc3\x9f\n"},
        {"User-Agent: other\n", "User-Agent: other\n"},
        /* reserved, in any spelling */
        {"webhook-id: forged\nWebhook-Timestamp: 1\nWEBHOOK-SIGNATURE: v1,x\nwebhook-: x\n", ""},
        {"tickwheel-due: x\nTickwheel-Attempt: 0\ntickwheel-epoch: 99\nTICKWHEEL-NEW: x\n", ""},
        {"Host: other\ncontent-length: 0\nTransfer-Encoding: chunked\nConnection: close\n", ""},
        {"Content-Type: text/plain\nExpect: 100-continue\nTE: trailers\nUpgrade: h2c\n", ""},
        {"Trailer: x\nKeep-Alive: 1\nProxy-Authorization: x\n", ""},
        /* malformed: a name that is no token, control characters */
        {"no colon\n", ""},
        {": no name\n", ""},
        {"two words: x\n", ""},
        {"host : x\n", ""},
        {" host: x\n", ""},
        {"x: a\rhost: b\n", ""},
        {"x: a\r\n", ""},
        {"x: \x01\n", ""},
        {"x: \x7f\n", ""},
        {"x\xc3\xbc: a\n", ""},
        {"\n\n\nx: 1\n\n", "x: 1\n"},
    };

    (void)state;
    struct webhook_request request;
    webhook_request_init(&request);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct timer *timer = webhook_request_test_make_timer(
            (struct timer_texts){.headers = bytes_of(cases[i].lines)});

        char text[4000];
        build(&request, timer, 1, NULL, text, sizeof(text));
        assert_string_equal(own_lines(text), cases[i].wanted);
        timer_free(timer);
    }
    webhook_request_deinit(&request);
}

/* As many and as long as they come; a NUL in them ends nothing. */
static void test_own_headers_of_odd_sizes(void **state)
{
    char *text = malloc(1 << 20);

    (void)state;
    assert_non_null(text);
    struct webhook_request request;
    webhook_request_init(&request);
    struct buffer lines;
    buffer_init(&lines);
    for (int i = 0; i < 5000; i++)
        buffer_append_text(&lines, i % 2 ? "a:\n" : "b:1\n");
    buffer_append_text(&lines, "long:");
    for (int i = 0; i < 20000; i++)
        buffer_append_text(&lines, "x");
    struct timer *timer =
        webhook_request_test_make_timer((struct timer_texts){.headers = buffer_bytes(&lines)});
    build(&request, timer, 1, NULL, text, 1 << 20);
    assert_int_equal(strlen(own_lines(text)), 2500 * 3 + 2500 * 5 + 20000 + 7);
    timer_free(timer);
    timer = webhook_request_test_make_timer(
        (struct timer_texts){.headers = {"a: 1\0\nb: 2\n\0c: 3\nd: 4", 21}});
    build(&request, timer, 1, NULL, text, 1 << 20);
    assert_string_equal(own_lines(text), "b: 2\nd: 4\n");
    timer_free(timer);
    free(text);
    buffer_deinit(&lines);
    webhook_request_deinit(&request);
}

static void test_content_type(void **state)
{
    static const struct own_case cases[] = {
        {"text/plain; charset=utf-8", "content-type: text/plain; charset=utf-8\n"},
        {"text/plain\r\nhost: x", "content-type: application/json\n"},
        {"", "content-type: application/json\n"},
    };

    (void)state;
    struct webhook_request request;
    webhook_request_init(&request);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct timer *timer = webhook_request_test_make_timer(
            (struct timer_texts){.content_type = bytes_of(cases[i].lines)});

        char text[4000];
        build(&request, timer, 1, NULL, text, sizeof(text));
        assert_memory_equal(text, cases[i].wanted, strlen(cases[i].wanted));
        assert_null(strstr(text, "host"));
        timer_free(timer);
    }
    webhook_request_deinit(&request);
}

/* ---- traces ---- */

#define LINK "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"

/* Goal: the link is sent as it was kept, and decides whether the new trace is sampled; the new one
 * is another trace. Method: a timer with a sampled link, with one that is not, without, and with
 * what is none. */
/* proves: traceparent */
static void test_trace(void **state)
{
    static const struct {
        const char *trace, *flags, *line;
    } cases[] = {
        {LINK "1", "-01\n", "\ntickwheel-linked-traceparent: " LINK "1\n"},
        {LINK "0", "-00\n", "\ntickwheel-linked-traceparent: " LINK "0\n"},
        {"", "-01\n", NULL},
        {"nonsense", "-01\n", NULL},
        {TRACE_UNSAMPLED, "-00\n", NULL},
    };
    struct random high = random_seeded(1), low = random_seeded(2);

    (void)state;
    struct webhook_request request;
    webhook_request_init(&request);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct timer *timer = webhook_request_test_make_timer(
            (struct timer_texts){.trace = bytes_of(cases[i].trace)});
        struct delivery delivery = {.timer = timer};
        struct webhook_envelope envelope = {.now_s = 1,
                                            .trace = webhook_request_trace(&delivery, &high, &low)};

        char text[4000];
        build_in(&request, timer, 1, &envelope, text, sizeof(text));
        const char *line = strstr(text, "\ntraceparent: 00-");
        assert_non_null(line);
        assert_null(strstr(line, "\ntraceparent: 00-0af7651916cd43dd"));
        assert_memory_equal(line + strlen("\ntraceparent: ") + TRACE_PARENT_SIZE - 3,
                            cases[i].flags, 4);
        if (cases[i].line)
            assert_non_null(strstr(text, cases[i].line));
        else
            assert_null(strstr(text, "linked"));
        delivery.trace = (struct trace_parent){1, 2, 3, false}; /* of its span */
        const struct trace_parent own = webhook_request_trace(&delivery, &high, &low);
        assert_true(own.trace_low == 2 && own.span == 3 && !own.is_sampled);
        timer_free(timer);
    }
    webhook_request_deinit(&request);
}

/* ---- CloudEvents ---- */

/* Goal: the required attributes of CloudEvents 1.0 in binary mode, none of them twice, a subject in
 * percents. Method: a timer with a key and headers of its own that meddle, another without. */
/* proves: cloudevents */
static void test_cloudevents(void **state)
{
    struct timer *timer = webhook_request_test_make_timer((struct timer_texts){
        .key = BYTES("order \"42\"%/\xc3\xa9"),
        .headers = BYTES("Ce-Id: forged\nCE-Source: forged\nce-specversion: 9\nce-time: x\n"
                         "ce-colour: blue\n")});
    struct timer *other = webhook_request_test_make_timer(
        (struct timer_texts){.headers = BYTES("Ce-Type: shop.recheck\n")});
    struct webhook_envelope envelope = {.now_s = 1, .event_source = "/shop/timers"};

    (void)state;
    struct webhook_request request;
    webhook_request_init(&request);
    char id[WEBHOOK_ID_SIZE];
    webhook_id_format(timer, id);
    char text[4000];
    build_in(&request, timer, 1, &envelope, text, sizeof(text));
    char wanted[1000];
    snprintf(wanted, sizeof(wanted),
             "\nce-specversion: 1.0\nce-id: %s\nce-source: /shop/timers\n"
             "ce-time: 2026-11-20T23:59:59.250Z\nce-type: tickwheel.timer.due\n"
             "ce-subject: order%%20%%2242%%22%%25/%%C3%%A9\nce-colour: blue\n",
             id);
    assert_non_null(strstr(text, wanted));
    assert_null(strstr(text, "forged"));
    build_in(&request, other, 1, &envelope, text, sizeof(text));
    assert_non_null(strstr(text, "\nCe-Type: shop.recheck\n"));
    assert_null(strstr(text, "\nce-type: "));
    assert_null(strstr(text, "ce-subject"));
    envelope.event_source = NULL;
    build_in(&request, timer, 1, &envelope, text, sizeof(text));
    assert_null(strstr(text, "\nce-id: "));
    assert_non_null(strstr(text, "\nCe-Id: forged\n"));
    webhook_request_deinit(&request);
    timer_free(timer);
    timer_free(other);
}

/* ---- the URL ---- */

/* proves: headers */
static void test_reserved(void **state)
{
    (void)state;
    assert_true(webhook_header_is_reserved(BYTES("Webhook-Id")));
    assert_true(webhook_header_is_reserved(BYTES("HOST")));
    assert_true(webhook_header_is_reserved(BYTES("tickwheel-")));
    assert_false(webhook_header_is_reserved(BYTES("webhook")));
    assert_false(webhook_header_is_reserved(BYTES("x-webhook-id")));
    assert_false(webhook_header_is_reserved(BYTES("hostname")));
    assert_false(webhook_header_is_reserved(BYTES("authorization")));
    assert_true(webhook_header_is_reserved(BYTES("Traceparent")));
    assert_true(webhook_header_is_reserved(BYTES("tracestate")));
    assert_false(webhook_header_is_reserved(BYTES("ce-type")));
    assert_false(webhook_header_is_reserved(BYTES("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_webhook_request_headers),
        cmocka_unit_test(test_longest_headers),
        cmocka_unit_test(test_id),
        cmocka_unit_test(test_own_headers),
        cmocka_unit_test(test_own_headers_of_odd_sizes),
        cmocka_unit_test(test_content_type),
        cmocka_unit_test(test_reserved),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_cloudevents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
