/* hex_test.c - every byte as a hexadecimal digit, in either case. */
#include "base/hex.h"

#include <stdarg.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

/* Goal: each character has the value that its place among the digits says, and no other has one. */
static void test_digits(void **state)
{
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";

    (void)state;
    for (int c = 1; c < 256; c++) {
        const char *in_lower = strchr(lower, (char)c), *in_upper = strchr(upper, (char)c);
        int value = in_lower ? (int)(in_lower - lower) : -1;

        assert_int_equal(hex_digit_lower((char)c), value);
        assert_int_equal(hex_digit((char)c), in_upper ? (int)(in_upper - upper) : value);
    }
    assert_int_equal(hex_digit('\0'), -1);
}

static void test_hex_numbers(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_true(hex_read("0123456789abcdef", 16, &value));
    assert_true(value == UINT64_C(0x0123456789abcdef));
    assert_true(hex_read("ff0", 2, &value) && value == 0xff);
    assert_false(hex_read("0F", 2, &value) || hex_read("0g", 2, &value));
    assert_true(value == 0xff);
    char text[] = "................";
    hex_write(text, 16, UINT64_C(0x0123456789abcdef));
    assert_string_equal(text, "0123456789abcdef");
    hex_write(text + 1, 3, 0xf00a);
    assert_string_equal(text, "000a456789abcdef");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_hex_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
