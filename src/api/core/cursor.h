/*
 * cursor.h - a place in the list of all timers, as a client carries it to the next page.
 *
 * The list is ordered by (at, partition, serial). A cursor names the first place that is not yet
 * listed. Its text is opaque to clients, carries a check sum, and is read strictly: a text that
 * cursor_format did not write is an error, not a wrong page.
 *
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_API_CORE_CURSOR_H
#define TICKWHEEL_API_CORE_CURSOR_H

#include "store/storage.h"

#define CURSOR_TEXT_SIZE 47 /* 46 hexadecimal digits and the NUL */

struct cursor {
    struct wall at;
    uint16_t partition;
    uint64_t serial;
};

static inline bool cursor_before(const struct cursor *a, const struct cursor *b)
{
    if (a->at.ms != b->at.ms)
        return a->at.ms < b->at.ms;
    return a->partition != b->partition ? a->partition < b->partition : a->serial < b->serial;
}

/* Returns the first position of `partition` at or after the cursor. */
struct storage_position cursor_position(const struct cursor *cursor, uint16_t partition);

void cursor_format(const struct cursor *cursor, char ret_text[CURSOR_TEXT_SIZE]);

/* Returns ERROR_INVALID for any text that cursor_format did not write. */
enum error_code cursor_parse(struct bytes text, struct cursor *ret_cursor);

/* The same for a list in another order, from 1 to CURSOR_ORDER_LAST: a cursor goes with one. */
#define CURSOR_ORDER_LAST       15
#define CURSOR_ORDER_DELIVERIES 15 /* deliveries, whose `at` is a stamp */
void cursor_format_order(const struct cursor *cursor, unsigned order,
                         char ret_text[CURSOR_TEXT_SIZE]);
enum error_code cursor_parse_order(struct bytes text, unsigned order, struct cursor *ret_cursor);

#endif
