/* base64.c - encodes and strictly decodes base64. */
#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Returns the six bits of a character; more than 63 for an invalid one. */
static inline uint32_t base64_value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (uint32_t)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (uint32_t)(c - 'a' + 26);
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0' + 52);
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

bool base64_decode(struct bytes text, void *to, size_t *ret_size)
{
    size_t groups = text.size / 4;
    uint8_t *out = to;

    if (text.size % 4 != 0)
        return false;
    size_t padding = 0;
    if (text.size > 0 && text.data[text.size - 1] == '=')
        padding = text.data[text.size - 2] == '=' ? 2 : 1;
    for (size_t i = 0; i < groups; i++) {
        const char *at = text.data + 4 * i;
        size_t missing = i + 1 == groups ? padding : 0;
        uint32_t a = base64_value_of(at[0]), b = base64_value_of(at[1]);
        uint32_t c = missing > 1 ? 0 : base64_value_of(at[2]),
                 d = missing > 0 ? 0 : base64_value_of(at[3]);
        uint32_t bits = a << 18 | b << 12 | c << 6 | d;

        if ((a | b | c | d) > 63 || (bits & ((1u << 8 * missing) - 1)) != 0)
            return false;
        *out++ = (uint8_t)(bits >> 16);
        if (missing < 2)
            *out++ = (uint8_t)(bits >> 8);
        if (missing < 1)
            *out++ = (uint8_t)bits;
    }
    *ret_size = groups * 3 - padding;
    return true;
}

void base64_append(struct buffer *out, struct bytes bytes)
{
    size_t groups = bytes.size / 3 + (bytes.size % 3 != 0);
    char *to = buffer_reserve(out, groups * 4);

    if (!to)
        return;
    for (size_t i = 0; i < groups; i++, to += 4) {
        const uint8_t *at = (const uint8_t *)bytes.data + 3 * i;
        size_t left = bytes.size - 3 * i;
        uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)(left > 1 ? at[1] : 0) << 8 |
                        (uint32_t)(left > 2 ? at[2] : 0);

        to[0] = alphabet[bits >> 18];
        to[1] = alphabet[bits >> 12 & 63];
        to[2] = left > 1 ? alphabet[bits >> 6 & 63] : '=';
        to[3] = left > 2 ? alphabet[bits & 63] : '=';
    }
    out->size += groups * 4;
}

void base64_append_url(struct buffer *out, struct bytes bytes)
{
    const size_t start = out->size;

    base64_append(out, bytes);
    if (buffer_failed(out))
        return;
    while (out->size > start && out->data[out->size - 1] == '=')
        out->size--;
    for (size_t i = start; i < out->size; i++) {
        if (out->data[i] == '+')
            out->data[i] = '-';
        else if (out->data[i] == '/')
            out->data[i] = '_';
    }
}
