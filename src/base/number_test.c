/* Goal: a number is read exactly as it is written, or refused as a whole. Method: the ends of the
 * range in each base, every character, and the units. */
#include "base/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void number_test_reads(const char *text, unsigned base, uint64_t wanted)
{
    uint64_t value = ~wanted;

    assert_true(number_parse(bytes_of(text), base, &value));
    assert_true(value == wanted);
}

static void number_test_refuses(const char *text, unsigned base)
{
    uint64_t value = 7;

    assert_false(number_parse(bytes_of(text), base, &value));
    assert_true(value == 7);
}

static void test_number_ends(void **state)
{
    (void)state;
    number_test_reads("0", 10, 0);
    number_test_reads("00010", 10, 10);
    number_test_reads("18446744073709551615", 10, UINT64_MAX);
    number_test_refuses("18446744073709551616", 10);
    number_test_refuses("99999999999999999999", 10);
    number_test_reads("ffffffffffffffff", 16, UINT64_MAX);
    number_test_refuses("10000000000000000", 16);
    number_test_reads("1777777777777777777777", 8, UINT64_MAX);
    number_test_refuses("2000000000000000000000", 8);
    number_test_refuses("", 10);
    assert_false(number_parse((struct bytes){0}, 10, &(uint64_t){0}));
}

static void test_number_characters(void **state)
{
    static const char digits[] = "0123456789abcdef";

    (void)state;
    for (unsigned base = 2; base <= 16; base++)
        for (int c = 0; c < 256; c++) {
            const char text[] = {'1', (char)c};
            const char *digit = memchr(digits, c, base);
            uint64_t value;

            assert_int_equal(number_parse((struct bytes){text, 2}, base, &value), digit != NULL);
            if (digit)
                assert_int_equal(value, base + (uint64_t)(digit - digits));
        }
}

static void test_number_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t value; /* 0: refused */
    } cases[] = {
        {"1", 1},
        {"1K", 1024},
        {"3M", 3 << 20},
        {"2G", UINT64_C(2) << 30},
        {"1T", UINT64_C(1) << 40},
        {"16777215T", UINT64_C(16777215) << 40},
        {"16777216T", 0},
        {"18446744073709551616", 0},
        {"K", 0},
        {"1k", 0},
        {"1KK", 0},
        {"1 K", 0},
        {"", 0},
        {"1P", 0},
        {"-1K", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t value = 0;
        bool is_read = number_parse_scaled(bytes_of(cases[i].text), &value);

        if (is_read != (cases[i].value != 0) || value != cases[i].value)
            fail_msg("\"%s\" is %llu", cases[i].text, (unsigned long long)value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_ends),
        cmocka_unit_test(test_number_characters),
        cmocka_unit_test(test_number_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
