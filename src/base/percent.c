/* percent.c - percent-encoding: checked first, decoded without a check. */
#include "base/percent.h"

#include "base/hex.h"

int percent_byte(struct bytes text, size_t at)
{
    if (text.size - at < 3)
        return -1;
    int high = hex_digit(text.data[at + 1]);
    int low = hex_digit(text.data[at + 2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

size_t percent_decoded_size(struct bytes text)
{
    size_t size = 0;

    for (size_t i = 0; i < text.size; i++, size++) {
        unsigned char c = (unsigned char)text.data[i];

        if (c <= ' ' || c == 0x7f)
            return SIZE_MAX;
        if (c != '%')
            continue;
        if (percent_byte(text, i) <= 0)
            return SIZE_MAX;
        i += 2;
    }
    return size;
}

char *percent_decode(struct bytes text, char *to)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] != '%') {
            *to++ = text.data[i];
            continue;
        }
        *to++ = (char)percent_byte(text, i);
        i += 2;
    }
    return to;
}
