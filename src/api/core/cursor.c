/* cursor.c - the text of a cursor: fixed-width numbers and a checksum, in hexadecimal. */
#include "api/core/cursor.h"

#include "base/hex.h"
#include "base/random.h"

#include <assert.h>

/* Text of a cursor: format 1 plus the order (2 digits), at (8 bytes), partition (2), serial (8),
 * check (4), most significant byte first, in lower-case hexadecimal. */
enum {
    FORMAT = 1,
    AT = 2, /* offsets of digits */
    PARTITION = AT + 16,
    SERIAL = PARTITION + 4,
    CHECK_SUM = SERIAL + 16,
    END = CHECK_SUM + 8,
};

static_assert(END + 1 == CURSOR_TEXT_SIZE, "the text ends with a NUL");

struct storage_position cursor_position(const struct cursor *cursor, uint16_t partition)
{
    if (partition > cursor->partition)
        return (struct storage_position){cursor->at, 0};
    if (partition == cursor->partition)
        return (struct storage_position){cursor->at, cursor->serial};
    return (struct storage_position){wall_add(cursor->at, 1), 0};
}

static uint32_t cursor_check_sum(const struct cursor *cursor, unsigned order)
{
    uint64_t sum = random_mix(cursor->at.ms + UINT64_C(0x7469636b));

    sum = random_mix(sum ^ cursor->partition ^ (uint64_t)order << 16);
    return (uint32_t)random_mix(sum ^ cursor->serial);
}

void cursor_format_order(const struct cursor *cursor, unsigned order,
                         char ret_text[CURSOR_TEXT_SIZE])
{
    assert(order <= CURSOR_ORDER_LAST);
    hex_write(ret_text, AT, FORMAT + order);
    hex_write(ret_text + AT, PARTITION - AT, cursor->at.ms);
    hex_write(ret_text + PARTITION, SERIAL - PARTITION, cursor->partition);
    hex_write(ret_text + SERIAL, CHECK_SUM - SERIAL, cursor->serial);
    hex_write(ret_text + CHECK_SUM, END - CHECK_SUM, cursor_check_sum(cursor, order));
    ret_text[END] = '\0';
}

void cursor_format(const struct cursor *cursor, char ret_text[CURSOR_TEXT_SIZE])
{
    cursor_format_order(cursor, 0, ret_text);
}

enum error_code cursor_parse_order(struct bytes text, unsigned order, struct cursor *ret_cursor)
{
    struct cursor cursor;
    uint64_t format, partition, sum;

    if (text.size != END || !hex_read(text.data, AT, &format) ||
        !hex_read(text.data + AT, PARTITION - AT, &cursor.at.ms) ||
        !hex_read(text.data + PARTITION, SERIAL - PARTITION, &partition) ||
        !hex_read(text.data + SERIAL, CHECK_SUM - SERIAL, &cursor.serial) ||
        !hex_read(text.data + CHECK_SUM, END - CHECK_SUM, &sum))
        return ERROR_INVALID;
    cursor.partition = (uint16_t)partition;
    if (format != FORMAT + order || sum != cursor_check_sum(&cursor, order))
        return ERROR_INVALID;
    *ret_cursor = cursor;
    return ERROR_NONE;
}

enum error_code cursor_parse(struct bytes text, struct cursor *ret_cursor)
{
    return cursor_parse_order(text, 0, ret_cursor);
}
