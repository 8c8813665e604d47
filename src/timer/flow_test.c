/*
 * Goal: a flow's text says what was encoded, and no other text is taken for one. Method: flows with
 * the smallest and largest values, and a table of texts that are none.
 */
#include "timer/flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_what_is_encoded_is_decoded(void **state)
{
    char key[FLOW_KEY_SIZE_MAX];
    const struct flow flows[] = {
        {BYTES("customer 42"), 2, 0, 0},
        {BYTES("a"), 0, 1, FLOW_PERIOD_MS_MIN},
        {{key, sizeof(key)}, FLOW_CONCURRENCY_MAX, FLOW_RATE_MAX, FLOW_PERIOD_MS_MAX},
    };

    (void)state;
    memset(key, 'k', sizeof(key));
    for (size_t i = 0; i < sizeof(flows) / sizeof(flows[0]); i++) {
        struct buffer text;
        struct flow flow;

        buffer_init(&text);
        flow_encode(&flows[i], &text);
        assert_true(bytes_equal(flow_key(buffer_bytes(&text)), flows[i].key));
        assert_true(flow_decode(buffer_bytes(&text), &flow));
        assert_true(bytes_equal(flow.key, flows[i].key));
        assert_int_equal(flow.concurrency, flows[i].concurrency);
        assert_int_equal(flow.rate, flows[i].rate);
        assert_true(flow.period_ms == flows[i].period_ms);
        buffer_deinit(&text);
    }
}

static void test_other_texts_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "a",
                                        "a\n",
                                        "a\n1 0",
                                        "a\n1 0 ",
                                        "\n1 0 0",
                                        "a\n0 0 0",
                                        "a\n1 0 0 ",
                                        "a\n01 0 0",
                                        "a\n1 0 1000",
                                        "a\n0 1 0",
                                        "a\n0 1 999",
                                        "a\n-1 0 0",
                                        "a\n1  0 0",
                                        "a\n100001 0 0",
                                        "a\tb\n1 0 0",
                                        "a\n0 1000001 1000",
                                        "a\n0 1 31622400001"};
    struct flow flow;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (flow_decode(bytes_of(texts[i]), &flow))
            fail_msg("%s", texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_encoded_is_decoded),
        cmocka_unit_test(test_other_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
