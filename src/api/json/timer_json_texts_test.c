/* Goal: target, payload, headers and labels are stored exactly as they are meant, and nothing
 * passes that a receiver could read as something else. Method: tables of requests with what is
 * stored, or with the pointer and sentence of the refusal. */
#include "api/json/timer_json_check.h"

#define ONE(member)     "{\"after\":0,\"target\":\"http://h\"," member "}"
#define TIMES_4(text)   text text text text
#define TIMES_32(text)  TIMES_4(TIMES_4(text)) TIMES_4(TIMES_4(text))
#define TIMES_256(text) TIMES_4(TIMES_32(text)) TIMES_4(TIMES_32(text))

/* proves: payload, body-base64 */
static void test_payload(void **state)
{
    static const char *const values[] = {
        "null",
        "false",
        "0",
        "-1.50e+3",
        "\"\"",
        "\"\\u0000 \xc3\xa9\"",
        "[]",
        "{ \"a\" : [ 1 ] }",
        "{\"a\":1,\"a\":2}",
        "[123456789012345678901234567890]",
        "\"34567890123456789012345678901234567890\"", /* 40 bytes with the quotes */
    };

    (void)state;
    struct timer *timer;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char json[200];

        snprintf(json, sizeof(json), "{\"target\":\"http://h\",\"payload\" : %s ,\"after\":0}",
                 values[i]);
        timer = parsed(CREATE, json, NULL);
        assert_text(timer->texts.payload, values[i]);
        assert_text(timer->texts.content_type, "");
        timer_free(timer);
    }
    timer = CREATED(",\"body_base64\":\"Zm9vYg==\",\"content_type\":\"text/plain; charset=utf-8\"");
    assert_text(timer->texts.payload, "foob");
    assert_text(timer->texts.content_type, "text/plain; charset=utf-8");
    timer_free(timer);
    timer = CREATED(",\"content_type\":\"a\\/b\",\"body_base64\":\"+\\/+\\/\"");
    assert_text(timer->texts.payload, "\xfb\xff\xbf");
    assert_text(timer->texts.content_type, "a/b");
    timer_free(timer);
    timer = CREATED(",\"body_base64\":\"\",\"content_type\":\"a/b\"");
    assert_text(timer->texts.payload, "");
    assert_text(timer->texts.content_type, "a/b");
    timer_free(timer);
    timer = CREATED(",\"content_type\":\"a/b\",\"body_base64\":"
                    "\"MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MA==\"");
    assert_int_equal(timer->texts.payload.size, 40);
    timer_free(timer);
}

/* proves: payload */
static void test_too_large(void **state)
{
    static const struct bad_case cases[] = {
        {ONE("\"payload\":\"345678901234567890123456789012345678901\""), "#/payload",
         "It may have at most 40 bytes"},
        {ONE("\"body_base64\":\"MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\""),
         "#/body_base64", "It may have at most 40 bytes"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_TOO_LARGE, cases);
    ASSERT_REFUSED(VALUES, ERROR_TOO_LARGE, cases);
}

/* proves: body-base64 */
static void test_bad_payload(void **state)
{
    static const char *const base64 = "It is not base64 (RFC 4648, with padding)";
    static const char *const type = "It must be a media type such as text/plain";
    const struct bad_case cases[] = {
        {ONE("\"payload\":1,\"payload\":1"), "#/payload", "It is given twice"},
        {ONE("\"body_base64\":\"Zg\""), "#/body_base64", base64},
        {ONE("\"body_base64\":\"Zg=\\n\""), "#/body_base64", base64},
        {ONE("\"body_base64\":\"Zh==\""), "#/body_base64", base64},
        {ONE("\"body_base64\":7"), "#/body_base64", "It must be a string"},
        {ONE("\"content_type\":\"\""), "#/content_type", type},
        {ONE("\"content_type\":\"text\""), "#/content_type", type},
        {ONE("\"content_type\":\"/plain\""), "#/content_type", type},
        {ONE("\"content_type\":\"text/\""), "#/content_type", type},
        {ONE("\"content_type\":\"text/;a=b\""), "#/content_type", type},
        {ONE("\"content_type\":\"text /plain\""), "#/content_type", type},
        {ONE("\"content_type\":\" text/plain\""), "#/content_type", type},
        {ONE("\"content_type\":\"text/plain \""), "#/content_type", type},
        {ONE("\"content_type\":\"text/plain;\\r\\nX: y\""), "#/content_type", type},
        {ONE("\"content_type\":\"text/plain\\u0000\""), "#/content_type", type},
        {ONE("\"content_type\":[]"), "#/content_type", "It must be a string"},
        {ONE("\"content_type\":\"a/" TIMES_256("b") "\""), "#/content_type",
         "It may have at most 256 bytes"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
}

/* proves: method */
static void test_bad_method(void **state)
{
    static const char *const one = "It must be POST, PUT, PATCH, GET or DELETE";
    static const char *const no_body = "GET and DELETE have no body: leave `payload` out";
    static const char *const webhook = "It goes with an http or https `target`";
    const struct bad_case cases[] = {
        {ONE("\"method\":\"put\""), "#/method", one},
        {ONE("\"method\":\"\""), "#/method", one},
        {ONE("\"method\":\"HEAD\""), "#/method", one},
        {ONE("\"method\":\"PUT\\r\\nX: y\""), "#/method", one},
        {ONE("\"method\":7"), "#/method", "It must be a string"},
        {ONE("\"method\":\"PUT\",\"method\":\"PUT\""), "#/method", "It is given twice"},
        {ONE("\"method\":\"GET\",\"payload\":null,\"payload\":0"), "#/payload",
         "It is given twice"},
        {ONE("\"method\":\"GET\",\"payload\":1"), "#/method", no_body},
        {ONE("\"method\":\"DELETE\",\"body_base64\":\"\",\"content_type\":\"a/b\""), "#/method",
         no_body},
        {"{\"after\":1,\"target\":\"queue:q\",\"method\":\"PUT\"}", "#/method", webhook},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
}

static void test_bad_target(void **state)
{
#define TO(target) "{\"after\":1,\"target\":" target "}"
    static const struct bad_case cases[] = {
        {TO("7"), "#/target", "It must be a string"},
        {TO("\"\""), "#/target", NULL},
        {TO("\"kafka://c\""), "#/target", "It says no place behind the connection's name"},
        {TO("\"http://u:p@h/\""), "#/target", "It must not name a user or password"},
        {TO("\"http://h/\\u0000\""), "#/target",
         "The character at byte 9 must be written as % and two hexadecimal digits"},
        {TO("\"http://[::1]:80/\""), "#/target", "This host may not be called"},
        {TO("\"http:\\/\\/[::1]:80/\""), "#/target", "This host may not be called"},
        {TO("\"http://h/" TIMES_32("aa") "\""), "#/target", "It may have at most 64 bytes"},
        {TO("\"http://h\",\"target\":\"http://h\""), "#/target", "It is given twice"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
    struct timer *timer = parsed(
        CREATE, TO("\"http://h/012345678901234567890123456789012345678901234567890/\\u0035/7\""),
        NULL);
    assert_int_equal(timer->texts.target.size, 64);
    timer_free(timer);
}

/* Targets of reports are checked as `target` is. */
/* proves: report */
static void test_reports(void **state)
{
    static const struct bad_case cases[] = {
        {ONE("\"on_dead\":\"queue:d\""), "#/on_dead", "It must be an object"},
        {ONE("\"on_dead\":{}"), "#/on_dead", "A `target` is needed"},
        {ONE("\"on_dead\":{\"target\":null}"), "#/on_dead/target", "It must be a string"},
        {ONE("\"on_dead\":{\"target\":\"\"}"), "#/on_dead/target", NULL},
        {ONE("\"on_dead\":{\"traget\":\"queue:d\"}"), "#/on_dead/traget",
         "There is no field `traget`: did you mean `target`?"},
        {ONE("\"on_dead\":{\"target\":\"queue:d\",\"target\":\"queue:d\"}"), "#/on_dead/target",
         "It is given twice"},
        {ONE("\"on_success\":{\"target\":\"http://[::1]:80/\"}"), "#/on_success/target",
         "This host may not be called"},
        {ONE("\"on_success\":{\"target\":\"http://h/" TIMES_32("aa") "\"}"), "#/on_success/target",
         "It may have at most 64 bytes"},
        {ONE("\"on_dead\":{\"target\":\"queue:d\"},\"on_dead\":{}"), "#/on_dead",
         "It is given twice"},
        {ONE("\"report_of\":\"x\""), "#/report_of", "It is read-only: the server sets it"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
    struct timer *timer = CREATED(",\"on_dead\":{\"t\\u0061rget\":\"queue:\\u0064\"},"
                                  "\"on_success\":{ \"target\" : \"http://s/\" }");
    assert_text(timer->texts.target, "http://h");
    assert_text(timer->texts.on_dead, "queue:d");
    assert_text(timer->texts.on_success, "http://s/");
    timer_free(timer);
}

/* proves: headers */
static void test_headers(void **state)
{
    static const struct {
        const char *json, *stored;
    } cases[] = {
        {"{}", ""},
        {"{\"X-A\":\"b\"}", "X-A: b\n"},
        {"{ \"X-A\" : \"b c\" , \"!#$%&'*+-.^_`|~09\" : \":\" }",
         "X-A: b c\n!#$%&'*+-.^_`|~09: :\n"},
        {"{\"\\u0041\":\"\\u00e9\\/\"}", "A: \xc3\xa9/\n"},
        {"{\"Hosts\":\"a\",\"Webhook\":\"b\",\"Tes\":\"c\"}", "Hosts: a\nWebhook: b\nTes: c\n"},
        {"{\"A\":\"12345678901234567890123456789012345678901234\"}",
         "A: 12345678901234567890123456789012345678901234\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char json[200];

        snprintf(json, sizeof(json), ONE("\"headers\":%s"), cases[i].json);
        struct timer *timer = parsed(CREATE, json, NULL);
        assert_text(timer->texts.headers, cases[i].stored);
        timer_free(timer);
    }
}

/* proves: headers */
static void test_bad_headers(void **state)
{
#define HEADERS(members) ONE("\"headers\":{" members "}")
    static const char *const name = "This is no name of a header";
    static const char *const value =
        "A header's value is not empty, has no space at its ends and no control characters";
    const struct bad_case cases[] = {
        {ONE("\"headers\":[]"), "#/headers", "It must be an object of strings"},
        {ONE("\"headers\":\"A: b\""), "#/headers", "It must be an object of strings"},
        {HEADERS("\"A\":1"), "#/headers/A", "It must be a string"},
        {HEADERS("\"A\":\"b\",\"C\":[]"), "#/headers/C", "It must be a string"},
        {HEADERS("\"\":\"b\""), "#/headers/", name},
        {HEADERS("\"A B\":\"c\""), "#/headers/A%20B", name},
        {HEADERS("\"A:\":\"c\""), "#/headers/A:", name},
        {HEADERS("\":path\":\"c\""), "#/headers/:path", name},
        {HEADERS("\"A\\r\\nB\":\"c\""), "#/headers/A%0D%0AB", name},
        {HEADERS("\"\\u00e9\":\"c\""), "#/headers/%C3%A9", name},
        {HEADERS("\"A\\u0000\":\"c\""), "#/headers/A%00", name},
        {HEADERS("\"A/B\":\"c\""), "#/headers/A~1B", name},
        {HEADERS("\"A\":\"\""), "#/headers/A", value},
        {HEADERS("\"A\":\" b\""), "#/headers/A", value},
        {HEADERS("\"A\":\"b \""), "#/headers/A", value},
        {HEADERS("\"A\":\"b\\nC: d\""), "#/headers/A", value},
        {HEADERS("\"A\":\"b\\rc\""), "#/headers/A", value},
        {HEADERS("\"A\":\"b\\tc\""), "#/headers/A", value},
        {HEADERS("\"A\":\"b\\u0000\""), "#/headers/A", value},
        {HEADERS("\"A\":\"b\x7f\""), "#/headers/A", value},
        {HEADERS("\"A\":\"b\",\"A\":\"c\""), "#/headers/A", "This header is named twice"},
        {HEADERS("\"X-A\":\"b\",\"x-\\u0061\":\"c\""), "#/headers/x-a",
         "This header is named twice"},
        {HEADERS("\"A\":\"123456789012345678901234567890123456789012345\""), "#/headers",
         "They may have at most 48 bytes together"},
    };
    static const char *const forbidden[] = {
        "Host",       "content-length", "Content-Type",     "Transfer-Encoding",
        "CONNECTION", "keep-alive",     "Proxy-Connection", "expect",
        "TE",         "trailer",        "upgrade",          "traceparent",
        "webhook-id", "Webhook-X",      "tickwheel-due",    "Tickwheel-",
        "WEBHOOK-",
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
    for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
        char json[100], pointer[40];
        struct bad_case one = {json, pointer, "The server sets this header itself"};

        snprintf(json, sizeof(json), HEADERS("\"%s\":\"a\""), forbidden[i]);
        snprintf(pointer, sizeof(pointer), "#/headers/%s", forbidden[i]);
        timer_check_assert_refused(CREATE, ERROR_INVALID, &one, 1);
    }
}

/* proves: labels, label-bytes (at) */
static void test_labels(void **state)
{
    static const struct {
        const char *json, *stored;
    } cases[] = {
        {"{}", ""},
        {" { } ", ""},
        {"{\"a\":\"\"}", "{\"a\":\"\"}"},
        {"{ \"a\" : \"b\" ,\n\"c\":\" d \" }", "{\"a\":\"b\",\"c\":\" d \"}"},
        {"{\"b\":\"1\",\"a\":\"2\",\"A\":\"3\"}", "{\"b\":\"1\",\"a\":\"2\",\"A\":\"3\"}"},
        {"{\"\\u0061\":\"\\/\\u00e9\\u0001\\u0022\"}", "{\"a\":\"/\xc3\xa9\\u0001\\\"\"}"},
        {"{\"\xc3\xa9\":\"\\ud83d\\ude00\"}", "{\"\xc3\xa9\":\"\xf0\x9f\x98\x80\"}"},
        {"{\"" TIMES_256("k") "\":\"" TIMES_256("v") "\"}",
         "{\"" TIMES_256("k") "\":\"" TIMES_256("v") "\"}"},
        {"{\"k\":\"" TIMES_256("\\u0076") "\"}", "{\"k\":\"" TIMES_256("v") "\"}"},
        {"{\"k\":\"" TIMES_256("\\n") "\"}", "{\"k\":\"" TIMES_256("\\n") "\"}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char json[2000];

        snprintf(json, sizeof(json), ONE("\"labels\":%s"), cases[i].json);
        struct timer *timer = parsed(CREATE, json, NULL);
        assert_text(timer->texts.labels, cases[i].stored);
        timer_free(timer);
    }
}

/* proves: labels, label-bytes (beyond) */
static void test_bad_labels(void **state)
{
#define LABELS(members) ONE("\"labels\":{" members "}")
    static const char *const size = "A label's name and its value may have at most 256 bytes each";
    const struct bad_case cases[] = {
        {LABELS("\"a\":null"), "#/labels/a", "It must be a string"},
        {LABELS("\"a/b\":{}"), "#/labels/a~1b", "It must be a string"},
        {LABELS("\"\":\"a\""), "#/labels/", "A label needs a name"},
        {LABELS("\"a\":\"1\",\"a\":\"1\""), "#/labels/a", "This label is named twice"},
        {LABELS("\"a\\n\":\"1\",\"\\u0061\\u000a\":\"2\""), "#/labels/a%0A",
         "This label is named twice"},
        {LABELS("\"a\":\"1\",\"b\":\"2\",\"c\":\"3\",\"d\":\"4\""), "#/labels",
         "It may have at most 3 members"},
        {LABELS("\"a\":\"" TIMES_256("b") "b\""), "#/labels/a", size},
        {LABELS("\"a\":\"" TIMES_256("b") "\\n\""), "#/labels/a", size},
        {LABELS("\"a\":\"" TIMES_256("\\n") "b\""), "#/labels/a", size},
        {LABELS("\"" TIMES_256("a") "a\":\"b\""), "#/labels", size},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
}

/* The largest request that fits the scratch on the stack, and the smallest that does not. */
static void test_sizes(void **state)
{
    (void)state;
    for (size_t size = 1000; size < 1050; size++) {
        struct buffer buffer;

        buffer_init(&buffer);
        buffer_append_text(&buffer, ONE("\"headers\":{\"\\u0041\":\"b\"},"
                                        "\"labels\":{\"k\":\"" TIMES_256("\\n") "\"}"));
        buffer.size--;
        while (buffer.size < size)
            buffer_append(&buffer, " ", 1);
        buffer_append(&buffer, "}", 1);
        struct timer *timer = NULL;
        struct problem problem;
        assert_int_equal(timer_check_parse(CREATE, buffer_bytes(&buffer), NULL, &timer, &problem),
                         ERROR_NONE);
        assert_text(timer->texts.headers, "A: b\n");
        assert_text(timer->texts.labels, "{\"k\":\"" TIMES_256("\\n") "\"}");
        timer_free(timer);
        buffer_deinit(&buffer);
    }
}

/* An escaped text takes its place in the scratch and is decoded there: there is no room for both.
 */
static void test_escaped_base64(void **state)
{
    struct timer_json_limits wide = limits;

    (void)state;
    wide.payload_bytes_max = 4000;
    struct timer *timer = NULL;
    struct problem problem;
    uint32_t fields;
    assert_int_equal(timer_json_parse_values(
                         BYTES("{\"content_type\":\"a\\/b\",\"body_base64\":\"" TIMES_256("Zm9v")
                                   TIMES_256("Zm9v") "\\/+\\/+\"}"),
                         &wide, NOW, &fields, &timer, &problem),
                     ERROR_NONE);
    assert_int_equal(timer->texts.payload.size, 512 * 3 + 3);
    assert_text(timer->texts.payload, TIMES_256("foo") TIMES_256("foo") "\xff\xef\xfe");
    assert_text(timer->texts.content_type, "a/b");
    timer_free(timer);
}

/* As many members as there may be, and one more. */
/* proves: headers, labels_max, header-count */
static void test_many(void **state)
{
    struct timer_json_limits wide = limits;

    (void)state;
    wide.labels_max = 1000;
    wide.headers_bytes_max = 10000;
    for (size_t more = 0; more < 2; more++) {
        struct buffer labels;
        buffer_init(&labels);
        struct buffer headers;
        buffer_init(&headers);
        buffer_append_text(&labels, "{\"after\":0,\"target\":\"http://h\",\"labels\":{\"a\":\"\"");
        buffer_append_text(&headers,
                           "{\"after\":0,\"target\":\"http://h\",\"headers\":{\"a\":\"b\"");
        for (size_t i = 1; i < wide.labels_max + more; i++)
            buffer_printf(&labels, ",\"%zu\":\"\"", i);
        for (size_t i = 1; i < 64 + more; i++)
            buffer_printf(&headers, ",\"%zu\":\"b\"", i);
        buffer_append_text(&labels, "}}");
        buffer_append_text(&headers, "}}");
        struct timer *timer = NULL;
        struct problem problem;
        if (more) {
            assert_int_equal(
                timer_json_parse_create(buffer_bytes(&labels), &wide, NOW, &timer, &problem),
                ERROR_INVALID);
            assert_string_equal(problem.faults[0].pointer, "#/labels");
            assert_string_equal(problem.faults[0].detail, "It may have at most 1000 members");
            assert_int_equal(
                timer_json_parse_create(buffer_bytes(&headers), &wide, NOW, &timer, &problem),
                ERROR_INVALID);
            assert_string_equal(problem.faults[0].pointer, "#/headers");
            assert_string_equal(problem.faults[0].detail, "It may have at most 64 members");
        } else {
            assert_int_equal(
                timer_json_parse_create(buffer_bytes(&labels), &wide, NOW, &timer, &problem),
                ERROR_NONE);
            assert_true(
                bytes_has_prefix(timer->texts.labels, BYTES("{\"a\":\"\",\"1\":\"\",\"2\"")));
            timer_free(timer);
            assert_int_equal(
                timer_json_parse_create(buffer_bytes(&headers), &wide, NOW, &timer, &problem),
                ERROR_NONE);
            assert_true(bytes_has_prefix(timer->texts.headers, BYTES("a: b\n1: b\n2: b\n")));
            timer_free(timer);
        }
        buffer_deinit(&labels);
        buffer_deinit(&headers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payload),        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_bad_payload),    cmocka_unit_test(test_bad_method),
        cmocka_unit_test(test_bad_target),     cmocka_unit_test(test_reports),
        cmocka_unit_test(test_headers),        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_labels),         cmocka_unit_test(test_bad_labels),
        cmocka_unit_test(test_sizes),          cmocka_unit_test(test_many),
        cmocka_unit_test(test_escaped_base64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
