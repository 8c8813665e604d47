/* The values of JSON's strings and numbers: the second half of json.h. */
#include "base/json.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <assert.h>

/* ---- escapes ---- */

/* Returns the value of four hexadecimal digits; UINT32_MAX if they are invalid. */
static uint32_t json_text_hex4(const char *at, const char *end)
{
    if (end - at < 4)
        return UINT32_MAX;
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);

        if (digit < 0)
            return UINT32_MAX;
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

static bool json_text_is_high_surrogate(uint32_t unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool json_text_is_low_surrogate(uint32_t unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

static const char escape_letters[] = "\"\\/bfnrt", escape_values[] = "\"\\/\b\f\n\r\t";

const char *json_escape_read(const char *at, const char *end, uint32_t *ret_char,
                             const char **ret_error)
{
    *ret_error = "this is no escape";
    if (end - at < 2)
        return NULL;
    if (at[1] != 'u') {
        const char *letter = memchr(escape_letters, at[1], sizeof(escape_letters) - 1);
        if (!letter)
            return NULL;
        *ret_char = (uint8_t)escape_values[letter - escape_letters];
        return at + 2;
    }
    uint32_t unit = json_text_hex4(at + 2, end);
    if (unit == UINT32_MAX)
        return NULL;
    *ret_error = "this surrogate has no other half";
    if (json_text_is_low_surrogate(unit))
        return NULL;
    if (!json_text_is_high_surrogate(unit)) {
        *ret_char = unit;
        return at + 6;
    }
    if (end - at < 8 || at[6] != '\\' || at[7] != 'u')
        return NULL;
    uint32_t low = json_text_hex4(at + 8, end);
    if (!json_text_is_low_surrogate(low))
        return NULL;
    *ret_char = 0x10000 + ((unit & 0x3ff) << 10 | (low & 0x3ff));
    return at + 12;
}

static size_t json_text_utf8_put(char to[4], uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

bool json_string_decode(const struct json_string *string, char *to, size_t capacity,
                        size_t *ret_size)
{
    const char *at = string->raw.data, *end = at + string->raw.size;
    size_t size = 0;

    while (at < end) {
        const char *run = at;

        at = memchr(run, '\\', (size_t)(end - run));
        if (!at)
            at = end;
        if ((size_t)(at - run) > capacity - size)
            return false;
        memcpy(to + size, run, (size_t)(at - run));
        size += (size_t)(at - run);
        if (at == end)
            break;
        const char *error;
        uint32_t c;
        at = json_escape_read(at, end, &c, &error);
        assert(at); /* the reader has accepted this escape before */
        char bytes[4];
        size_t more = json_text_utf8_put(bytes, c);
        if (more > capacity - size)
            return false;
        memcpy(to + size, bytes, more);
        size += more;
    }
    *ret_size = size;
    return true;
}

/* ---- numbers ---- */

/* Parts of a number: its significant digits, followed by `scale` zeros. If `scale` is negative,
 * that many of the digits are after the point. The digits have no zeros at either end. */
struct decimal {
    const char *first,
        *last; /* first and last digit that is not zero; the point may be between them */
    int64_t scale;
    bool negative;
};

/* Returns the exponent, limited to a value far beyond the length of any text. */
static int64_t json_text_exponent_of(const char *at, const char *end)
{
    bool negative = at < end && *at == '-';

    if (at < end && (*at == '-' || *at == '+'))
        at++;
    int64_t value = 0;
    for (; at < end; at++)
        if (value < INT64_MAX / 100)
            value = value * 10 + (*at - '0');
    return negative ? -value : value;
}

/* Finds the parts of a number. Returns false if it is zero. */
static bool json_text_decimal_of(struct bytes number, struct decimal *ret)
{
    const char *at = number.data, *end = at + number.size;

    *ret = (struct decimal){.negative = *at == '-'};
    if (*at == '-')
        at++;
    int64_t behind = 0; /* number of digits after the point, up to `last` */
    bool point = false;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        behind += point;
        ret->scale += !point;
        if (*at != '0') {
            if (!ret->first)
                ret->first = at;
            ret->last = at;
            ret->scale = -behind;
        }
    }
    if (at < end)
        ret->scale += json_text_exponent_of(at + 1, end);
    return ret->first;
}

enum json_u64 json_number_u64(struct bytes number, uint64_t *ret_value)
{
    struct decimal decimal;

    if (!json_text_decimal_of(number, &decimal)) {
        *ret_value = 0;
        return JSON_U64_OK;
    }
    if (decimal.negative)
        return JSON_U64_NEGATIVE;
    if (decimal.scale < 0)
        return JSON_U64_FRACTION;
    uint64_t value = 0;
    for (const char *at = decimal.first; at <= decimal.last; at++) {
        if (*at == '.')
            continue;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return JSON_U64_TOO_LARGE;
    }
    for (; decimal.scale > 0; decimal.scale--)
        if (__builtin_mul_overflow(value, 10, &value))
            return JSON_U64_TOO_LARGE;
    *ret_value = value;
    return JSON_U64_OK;
}
