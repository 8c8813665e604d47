/* Goal: the limits in a definition are read as they are written, and a damaged definition limits
 * nothing. Method: tables of texts. */
#include "timer/named_limits.h"

#include "base/json_write.h"
#include "timer/flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_limits_of_definitions(void **state)
{
    static const struct {
        const char *text;
        struct named_limits limits;
    } rows[] = {
        {"{\"url\":\"http://a\",\"limits\":{\"concurrency\":2,\"rate\":\"10/s\"}}", {2, 10, 1000}},
        {"{\"limits\":{\"rate\":\"999999/d\"},\"ca\":\"x\"}", {0, 999999, 86400000}},
        {"{\"limits\":{\"rate\":\"1\\/m\"}}", {0, 1, 60000}},
        {"{\"limits\":{\"concurrency\":100000}}", {100000, 0, 0}},
        {"{\"limits\":{}}", {0, 0, 0}},
        {"{\"headers\":{\"limits\":\"a\"},\"url\":\"limits\"}", {0, 0, 0}},
        {"{\"limits\":{\"concurrency\":2,\"concurrency\":3}}", {0, 0, 0}},
        {"{\"limits\":{\"concurrency\":2,\"more\":3}}", {0, 0, 0}},
        {"{\"limits\":{\"concurrency\":100001}}", {0, 0, 0}},
        {"{\"limits\":{\"concurrency\":2", {0, 0, 0}},
        {"{\"limits\":7}", {0, 0, 0}},
        {"[\"limits\"]", {0, 0, 0}},
        {"", {0, 0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct named_limits limits = named_limits_of(bytes_of(rows[i].text));
        struct buffer out;

        assert_int_equal(limits.concurrency, rows[i].limits.concurrency);
        assert_int_equal(limits.rate, rows[i].limits.rate);
        assert_int_equal(limits.period_ms, rows[i].limits.period_ms);
        buffer_init(&out);
        json_open(&out, NULL, '{');
        named_limits_put(&limits, &out);
        json_close(&out, '}');
        const struct named_limits again = named_limits_of(buffer_bytes(&out));
        assert_memory_equal(&again, &limits, sizeof(limits));
        buffer_deinit(&out);
    }
}

static void test_rates(void **state)
{
    static const char *const rows[] = {
        "",    "/s",   "0/s",       "01/s",  "10",
        "10/", "10/w", "1000000/s", "10/s ", "99999999999999999999/s"};
    uint32_t rate = 7;
    uint64_t period_ms = 7;
    char text[FLOW_RATE_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_false(flow_rate_parse(bytes_of(rows[i]), &rate, &period_ms));
    assert_int_equal(rate, 7);
    assert_true(flow_rate_parse(BYTES("999999/h"), &rate, &period_ms));
    assert_true(flow_rate_text(rate, period_ms, text));
    assert_string_equal(text, "999999/h");
    assert_false(flow_rate_text(1, 90000, text));
    assert_false(flow_rate_text(1000000, 1000, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_of_definitions),
        cmocka_unit_test(test_rates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
