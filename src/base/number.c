/* number.c - whole numbers read out of text. */
#include "base/number.h"

#include "base/hex.h"

#include <assert.h>

bool number_parse(struct bytes text, unsigned base, uint64_t *ret_value)
{
    assert(base >= 2 && base <= 16);
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        int digit = hex_digit_lower(text.data[i]);

        if (digit < 0 || (unsigned)digit >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, (unsigned)digit, &value))
            return false;
    }
    if (text.size == 0)
        return false;
    *ret_value = value;
    return true;
}

bool number_parse_scaled(struct bytes text, uint64_t *ret_value)
{
    static const char units[] = "KMGT";
    const char *unit = text.size ? memchr(units, text.data[text.size - 1], strlen(units)) : NULL;

    if (unit)
        text.size--;
    uint64_t value;
    if (!number_parse(text, 10, &value) ||
        (unit && __builtin_mul_overflow(value, UINT64_C(1) << 10 * (unit - units + 1), &value)))
        return false;
    *ret_value = value;
    return true;
}
