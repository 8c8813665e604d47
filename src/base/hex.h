/* hex.h - digits to the base of sixteen. */
#ifndef TICKWHEEL_BASE_HEX_H
#define TICKWHEEL_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the value of a digit 0-9 a-f; -1 for any other character. */
static inline int hex_digit_lower(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns the value of a digit in either case; -1 for any other character. */
static inline int hex_digit(char c)
{
    return hex_digit_lower(c >= 'A' && c <= 'F' ? (char)(c | 0x20) : c);
}

/* Reads `count` lower-case digits, at most 16. Returns false if another character is among them. */
static inline bool hex_read(const char *at, size_t count, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (size_t i = 0; i < count; i++) {
        int digit = hex_digit_lower(at[i]);

        if (digit < 0)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *ret_value = value;
    return true;
}

/* Writes `count` lower-case digits, at most 16, of the lowest bits of `value`, without a NUL. */
static inline void hex_write(char *at, size_t count, uint64_t value)
{
    for (; count > 0; value >>= 4)
        at[--count] = "0123456789abcdef"[value & 15];
}

#endif
