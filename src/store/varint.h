/*
 * varint.h - numbers as the runs of wheel/ store them: groups of seven bits, the lowest first, each
 * but the last with its highest bit set.
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_STORE_VARINT_H
#define TICKWHEEL_STORE_VARINT_H

#include "base/bytes.h"

#define VARINT_BYTES_MAX 10

/* Removes a number from the begin of `text`. Returns false if none ends within it, or if it has
 * more than 64 bits. */
static inline bool varint_next(struct bytes *text, uint64_t *ret_number)
{
    uint64_t number = 0;

    for (size_t i = 0; i < text->size && i < VARINT_BYTES_MAX; i++) {
        const uint8_t byte = (uint8_t)text->data[i];

        if (i == VARINT_BYTES_MAX - 1 && byte > 1)
            return false;
        number |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) {
            *text = (struct bytes){text->data + i + 1, text->size - i - 1};
            *ret_number = number;
            return true;
        }
    }
    return false;
}

static inline void varint_append(struct buffer *to, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        buffer_append(to, &(char){(char)((number & 0x7f) | 0x80)}, 1);
    buffer_append(to, &(char){(char)number}, 1);
}

#endif
