/*
 * utf8.h - the shape of one character of UTF-8 (RFC 3629): no overlong forms, no surrogates,
 * nothing above U+10FFFF.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_BASE_UTF8_H
#define TICKWHEEL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the size of the character at `at`, 1 .. 4; 0 if the bytes until `end` do not begin with
 * one. */
static inline size_t utf8_size(const char *at, const char *end)
{
    const uint8_t *byte = (const uint8_t *)at;
    size_t left = (size_t)(end - at);
    uint8_t lowest = 0x80, highest = 0xbf; /* bounds of the second byte */

    if (left == 0)
        return 0;
    if (byte[0] < 0x80)
        return 1;
    if (byte[0] < 0xc2 || byte[0] > 0xf4)
        return 0;
    if (byte[0] == 0xe0)
        lowest = 0xa0; /* lower values are overlong forms */
    else if (byte[0] == 0xed)
        highest = 0x9f; /* higher values are surrogates */
    else if (byte[0] == 0xf0)
        lowest = 0x90;
    else if (byte[0] == 0xf4)
        highest = 0x8f; /* higher values are beyond U+10FFFF */
    if (left < 2 || byte[1] < lowest || byte[1] > highest)
        return 0;
    if (byte[0] < 0xe0)
        return 2;
    if (left < 3 || (byte[2] & 0xc0) != 0x80)
        return 0;
    if (byte[0] < 0xf0)
        return 3;
    return left >= 4 && (byte[3] & 0xc0) == 0x80 ? 4 : 0;
}

/* Returns the code of the character at `at`, which has this size. */
static inline uint32_t utf8_code(const char *at, size_t size)
{
    static const uint8_t first_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (uint8_t)at[0] & first_mask[size];

    for (size_t i = 1; i < size; i++)
        code = code << 6 | ((uint8_t)at[i] & 0x3f);
    return code;
}

/* True for control characters (C0, DEL and C1), and for characters that change the direction of
 * text or break lines: none of them goes to a terminal as it is. */
static inline bool utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/* Returns the largest size, up to `limit`, at which `text` can be cut between characters. `text` is
 * valid UTF-8 and longer than `limit`. */
static inline size_t utf8_cut(const char *text, size_t limit)
{
    while (limit > 0 && ((uint8_t)text[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

/* True if all bytes until `end` are valid UTF-8. */
static inline bool utf8_is_text(const char *at, const char *end)
{
    for (size_t size; at < end; at += size)
        if ((size = utf8_size(at, end)) == 0)
            return false;
    return true;
}

#endif
