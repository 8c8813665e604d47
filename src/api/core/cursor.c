/* cursor.c - the text of a cursor: fixed-width numbers and a checksum, in hexadecimal. */
#include "api/core/cursor.h"

#include "base/random.h"

/* On the wire: format 1, at (8 bytes), partition (2), serial (8), check (4), most significant byte
 * first, in lower-case hexadecimal. */
enum {
    FORMAT = 1,
    CHECKED_SIZE = 1 + 8 + 2 + 8,
    RAW_SIZE = CHECKED_SIZE + 4,
};

static const char digits[] = "0123456789abcdef";

struct cursor cursor_after(const struct cursor *cursor)
{
    struct cursor after = *cursor;

    if (after.serial < UINT64_MAX) {
        after.serial++;
    } else {
        after.serial = 0;
        after.partition++;
        if (after.partition == 0)
            after.at = wall_add(after.at, 1);
    }
    return after;
}

struct storage_position cursor_position(const struct cursor *cursor, uint16_t partition)
{
    if (partition > cursor->partition)
        return (struct storage_position){cursor->at, 0};
    if (partition == cursor->partition)
        return (struct storage_position){cursor->at, cursor->serial};
    return (struct storage_position){wall_add(cursor->at, 1), 0};
}

static uint32_t check_sum(const struct cursor *cursor)
{
    uint64_t sum = random_mix(cursor->at.ms + UINT64_C(0x7469636b));

    sum = random_mix(sum ^ cursor->partition);
    return (uint32_t)random_mix(sum ^ cursor->serial);
}

void cursor_format(const struct cursor *cursor, char ret_text[CURSOR_TEXT_SIZE])
{
    uint8_t raw[RAW_SIZE] = {FORMAT};

    put_be(raw + 1, cursor->at.ms, 8);
    put_be(raw + 9, cursor->partition, 2);
    put_be(raw + 11, cursor->serial, 8);
    put_be(raw + CHECKED_SIZE, check_sum(cursor), 4);
    for (size_t i = 0; i < RAW_SIZE; i++) {
        ret_text[2 * i] = digits[raw[i] >> 4];
        ret_text[2 * i + 1] = digits[raw[i] & 15];
    }
    ret_text[2 * RAW_SIZE] = '\0';
}

enum error_code cursor_parse(struct bytes text, struct cursor *ret_cursor)
{
    if (text.size != 2 * RAW_SIZE)
        return ERROR_INVALID;
    uint8_t raw[RAW_SIZE] = {0};
    for (size_t i = 0; i < text.size; i++) {
        const char *digit = memchr(digits, text.data[i], sizeof(digits) - 1);

        if (!digit)
            return ERROR_INVALID;
        raw[i / 2] = (uint8_t)(raw[i / 2] << 4 | (digit - digits));
    }
    struct cursor cursor = {
        .at = {get_be(raw + 1, 8)},
        .partition = (uint16_t)get_be(raw + 9, 2),
        .serial = get_be(raw + 11, 8),
    };
    if (raw[0] != FORMAT || get_be(raw + CHECKED_SIZE, 4) != check_sum(&cursor))
        return ERROR_INVALID;
    *ret_cursor = cursor;
    return ERROR_NONE;
}
