/* Goal: spans in the JSON of OTLP, with right values from outside; nothing secret in a URL. Method:
 * texts written by hand after the specification; cuts at every limit. */
#include "telemetry/span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct span span_test_make(void)
{
    struct span span = {
        .context = {UINT64_C(0x5b8efff798038103), UINT64_C(0xd269b633813fc60c),
                    UINT64_C(0xeee19b7ec3c1b174), true},
        .start_us = UINT64_C(1544712660123456),
        .end_us = UINT64_C(1544712661123456),
        .kind = SPAN_CLIENT,
    };

    span_set_text(&span, SPAN_TEXT_name, BYTES("deliver shop.example"));
    return span;
}

static void span_test_assert(const struct span *span, const char *json)
{
    struct buffer out;

    buffer_init(&out);
    span_append_json(span, &out);
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, json);
    buffer_deinit(&out);
}

/* proves: otlp-spans */
static void test_span_json(void **state)
{
    struct span span = span_test_make();

    (void)state;
    span_test_assert(&span, "{\"traceId\":\"5b8efff798038103d269b633813fc60c\","
                            "\"spanId\":\"eee19b7ec3c1b174\",\"flags\":1,"
                            "\"name\":\"deliver shop.example\",\"kind\":3,"
                            "\"startTimeUnixNano\":\"1544712660123456000\","
                            "\"endTimeUnixNano\":\"1544712661123456000\",\"attributes\":[]}");
    span.parent = 1;
    span.link = (struct trace_parent){0, 2, 3, false};
    span.has_failed = true;
    span.end_us = span.start_us - 1; /* the clock was set back meanwhile */
    span_set_text(&span, SPAN_TEXT_error, BYTES("HTTP 500"));
    span_set_text(&span, SPAN_TEXT_key, BYTES("a\"b\x01\xff\xc3\xa9"));
    span_set_number(&span, SPAN_NUMBER_lateness, 0);
    span_set_number(&span, SPAN_NUMBER_status, 500);
    span_test_assert(
        &span,
        "{\"traceId\":\"5b8efff798038103d269b633813fc60c\",\"spanId\":\"eee19b7ec3c1b174\","
        "\"parentSpanId\":\"0000000000000001\",\"flags\":1,\"name\":\"deliver shop.example\","
        "\"kind\":3,\"startTimeUnixNano\":\"1544712660123456000\","
        "\"endTimeUnixNano\":\"1544712660123456000\",\"attributes\":["
        "{\"key\":\"tickwheel.timer.key\",\"value\":{\"stringValue\":"
        "\"a\\\"b\\u0001\xef\xbf\xbd\xc3\xa9\"}},"
        "{\"key\":\"http.response.status_code\",\"value\":{\"intValue\":\"500\"}},"
        "{\"key\":\"tickwheel.lateness_ms\",\"value\":{\"intValue\":\"0\"}}],"
        "\"links\":[{\"traceId\":\"00000000000000000000000000000002\","
        "\"spanId\":\"0000000000000003\"}],"
        "\"status\":{\"code\":2,\"message\":\"HTTP 500\"}}");
}

/* Goal: a span comes back as it was, after others; texts are cut at their limit, never within a
 * character. */
/* proves: otlp-spans */
static void test_span_bytes(void **state)
{
    static char long_text[3000];
    struct buffer bytes;
    struct span span = span_test_make(), back;

    (void)state;
    for (size_t i = 0; i + 2 <= sizeof(long_text); i += 2)
        memcpy(long_text + i, "\xc3\xa9", 2);
    buffer_init(&bytes);
    span_encode(&span, &bytes);
    span_set_text(&span, SPAN_TEXT_url, (struct bytes){long_text + 1, sizeof(long_text) - 1});
    span_set_text(&span, SPAN_TEXT_key, (struct bytes){long_text, 256});
    span_set_text(&span, SPAN_TEXT_outcome, BYTES("0123456789abcdefX"));
    span_encode(&span, &bytes);
    assert_true(bytes.size <= 2 * SPAN_SIZE_MAX);
    struct bytes rest = buffer_bytes(&bytes);
    assert_true(span_decode(&rest, &back));
    assert_true(back.context.span == span.context.span && back.texts[SPAN_TEXT_key].size == 0);
    assert_true(span_decode(&rest, &back));
    assert_int_equal(rest.size, 0);
    assert_int_equal(back.texts[SPAN_TEXT_url].size, 2047); /* the 2,048th is half a character */
    assert_int_equal(back.texts[SPAN_TEXT_key].size, 256);
    assert_true(bytes_equal(back.texts[SPAN_TEXT_outcome], BYTES("0123456789abcdef")));
    assert_true(bytes_equal(back.texts[SPAN_TEXT_name], BYTES("deliver shop.example")));
    assert_false(span_decode(&rest, &back));
    for (size_t size = 0; size < bytes.size / 2; size++) { /* cut anywhere, it reads no further */
        rest = (struct bytes){bytes.data, size};
        while (span_decode(&rest, &back))
            assert_true(rest.size <= size);
    }
    buffer_deinit(&bytes);
}

/* proves: otlp-no-secrets */
static void test_span_url(void **state)
{
    static const struct {
        const char *url, *wanted;
    } cases[] = {
        {"https://shop.example/hook", "https://shop.example/hook"},
        {"https://shop.example/hook?token=abc&x=", "https://shop.example/hook?token=REDACTED&x="
                                                   "REDACTED"},
        {"http://h/?abc", "http://h/?REDACTED"},
        {"http://h/?", "http://h/?"},
        {"http://h/?&a=b=c&", "http://h/?&a=REDACTED&"},
        {"http://user:pass@h:80/p@q", "http://REDACTED@h:80/p@q"},
        {"http://a@b@h?x=y", "http://REDACTED@h?x=REDACTED"},
        {"http://h/p#secret", "http://h/p"},
        {"http://h/p?a=b#secret", "http://h/p?a=REDACTED"},
        {"http://[::1]:1/", "http://[::1]:1/"},
        {"name:/p?a=b", "name:/p?a=REDACTED"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buffer out;

        buffer_init(&out);
        span_append_url(&out, bytes_of(cases[i].url));
        buffer_append(&out, "", 1);
        assert_string_equal(out.data, cases[i].wanted);
        buffer_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_span_json),
        cmocka_unit_test(test_span_bytes),
        cmocka_unit_test(test_span_url),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
