/* percent.c - percent-encoding: checked first, decoded without a check. */
#include "base/percent.h"

#include "base/hex.h"

size_t percent_decoded_size(struct bytes text)
{
    size_t size = 0;

    for (size_t i = 0; i < text.size; i++, size++) {
        unsigned char c = (unsigned char)text.data[i];

        if (c <= ' ' || c == 0x7f)
            return SIZE_MAX;
        if (c != '%')
            continue;
        if (text.size - i < 3 || hex_digit(text.data[i + 1]) < 0 ||
            hex_digit(text.data[i + 2]) < 0 || (text.data[i + 1] == '0' && text.data[i + 2] == '0'))
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
        *to++ = (char)(hex_digit(text.data[i + 1]) << 4 | hex_digit(text.data[i + 2]));
        i += 2;
    }
    return to;
}
