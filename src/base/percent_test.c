/*
 * Goal: a text is decoded exactly, and one that could hide a NUL or end a line is refused. Method:
 * a table of texts.
 */
#include "base/percent.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_decoded(void **state)
{
    static const struct {
        const char *text, *decoded;
    } cases[] = {
        {"", ""}, {"a", "a"}, {"%41b%c3%BC+%25", "Ab\xc3\xbc+%"}, {"%01", "\x01"}, {"%0a", "\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes text = bytes_of(cases[i].text);
        size_t size = percent_decoded_size(text);

        assert_int_equal(size, strlen(cases[i].decoded));
        char decoded[32];
        assert_ptr_equal(percent_decode(text, decoded), decoded + size);
        assert_memory_equal(decoded, cases[i].decoded, size);
    }
}

static void test_percent_refused(void **state)
{
    static const char *const cases[] = {"%", "%4", "%4g", "%g4", "a%", "%00", "a b", "a\n", "\x7f"};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_true(percent_decoded_size(bytes_of(cases[i])) == SIZE_MAX);
    assert_true(percent_decoded_size((struct bytes){"a\0b", 3}) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoded),
        cmocka_unit_test(test_percent_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
