/* Goal: what counts as one character is exactly what RFC 3629 says. Method: every start of two
 * bytes, with the ends that matter, against the definition spelt out. */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

/* A character as its number, by the definition; false when there is none. */
static bool reference_utf8(const uint8_t *at, size_t size, uint32_t *ret_char)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};

    if (size == 1) {
        *ret_char = at[0];
        return at[0] < 0x80;
    }
    if (at[0] >> (7 - size) != (2 << size) - 2)
        return false;
    uint32_t c = at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (at[i] >> 6 != 2)
            return false;
        c = c << 6 | (at[i] & 0x3fu);
    }
    *ret_char = c;
    return c >= lowest[size] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
}

/* Every start of two bytes, with the ends that matter. */
static void test_utf8(void **state)
{
    static const uint8_t ends[] = {0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff};

    (void)state;
    for (unsigned start = 0; start < 0x10000; start++) {
        for (size_t i = 0; i < sizeof(ends) * sizeof(ends); i++) {
            uint8_t text[4] = {(uint8_t)(start >> 8), (uint8_t)start, ends[i / sizeof(ends)],
                               ends[i % sizeof(ends)]};

            for (size_t left = 1; left <= 4; left++) {
                size_t expected = 0;

                uint32_t c;
                for (size_t size = 1; size <= left && !expected; size++)
                    if (reference_utf8(text, size, &c))
                        expected = size;
                if (utf8_size((char *)text, (char *)text + left) != expected)
                    fail_msg("%02x%02x%02x%02x up to %zu", text[0], text[1], text[2], text[3],
                             left);
            }
        }
    }
    assert_int_equal(utf8_size("", ""), 0);
    assert_int_equal(utf8_cut("a\xe2\x82\xac"
                              "b",
                              3),
                     1);
    assert_int_equal(utf8_cut("a\xe2\x82\xac"
                              "b",
                              4),
                     4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
