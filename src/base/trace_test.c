/* Goal: a traceparent is taken just when W3C Trace Context says so, and what is written is one.
 * Method: the standard's example and its rules, one violation at a time; new ones read back. */
#include "base/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define GOOD "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

/* proves: traceparent */
static void test_the_example_of_the_standard(void **state)
{
    (void)state;
    struct trace_parent parent;
    assert_true(trace_parent_parse(BYTES(GOOD), &parent));
    assert_true(parent.trace_high == 0x0af7651916cd43dd && parent.trace_low == 0x8448eb211c80319c);
    assert_true(parent.span == 0xb7ad6b7169203331 && parent.is_sampled);
    char text[TRACE_PARENT_SIZE + 1];
    trace_parent_format(&parent, text);
    assert_string_equal(text, GOOD);
    parent.is_sampled = false;
    trace_parent_format(&parent, text);
    assert_string_equal(text, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
}

/* proves: traceparent */
static void test_what_is_none(void **state)
{
    static const char *const bad[] = {
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes-later",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
        "0X-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
        " 0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-\xc3\xa9",
    };
    struct trace_parent parent = {1, 2, 3, true};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(trace_parent_parse(bytes_of(bad[i]), &parent));
    assert_true(parent.trace_high == 1 && parent.span == 3);
}

/* A later version is read as far as this one goes. */
static void test_later_versions(void **state)
{
    (void)state;
    struct trace_parent parent;
    assert_true(trace_parent_parse(
        BYTES("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-extra"), &parent));
    char text[TRACE_PARENT_SIZE + 1];
    trace_parent_format(&parent, text);
    assert_string_equal(text, GOOD);
    assert_true(trace_parent_parse(BYTES("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02"),
                                   &parent));
    assert_false(parent.is_sampled);
}

static void test_new_ones_read_back(void **state)
{
    struct random high = random_seeded(1), low = random_seeded(2);

    (void)state;
    struct trace_parent last = {0}, again;
    for (int i = 0; i < 1000; i++) {
        struct trace_parent parent = trace_parent_new(&high, &low, i % 2);
        char text[TRACE_PARENT_SIZE + 1];
        trace_parent_format(&parent, text);
        assert_true(trace_parent_parse(bytes_of(text), &again));
        assert_memory_equal(&parent.trace_high, &again.trace_high, 3 * sizeof(uint64_t));
        assert_int_equal(again.is_sampled, i % 2);
        assert_true(parent.trace_high != last.trace_high && parent.trace_low != last.trace_low &&
                    parent.span != last.span);
        last = parent;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_example_of_the_standard),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_later_versions),
        cmocka_unit_test(test_new_ones_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
