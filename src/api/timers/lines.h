/*
 * lines.h - cuts a stream that arrives in any pieces into lines; keeps no more than one line.
 *
 *     while ((result = lines_next(&lines, &chunk, &line)) != LINES_MORE)
 *         use(line);                      // until the chunk is used up
 *     if (lines_last(&lines, &line) ...)  // the rest behind the last newline
 *
 * Lines end with LF or CRLF; lines of nothing but spaces are passed over, but counted.
 *
 * Ownership  A line lies in the chunk or in the splitter, until the next call.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_API_TIMERS_LINES_H
#define TICKWHEEL_API_TIMERS_LINES_H

#include "base/bytes.h"

enum lines_result {
    LINES_MORE,      /* the chunk is consumed; no further line is complete */
    LINES_LINE,      /* `ret_line` is a line */
    LINES_TOO_LONG,  /* a line exceeded the limit and is lost */
    LINES_NO_MEMORY, /* a line was lost because memory is short */
};

struct lines {
    struct buffer carry_;    /* begin of a line whose end has not come */
    size_t line_max_;        /* in bytes, without the line end */
    uint64_t number_;        /* number of the last line returned, from 1 */
    enum lines_result lost_; /* why the present line is skipped; LINES_MORE if it is not */
    bool is_carry_returned_; /* `carry_` was returned: drop it at the next call */
};

void lines_init(struct lines *lines, size_t line_max);
void lines_deinit(struct lines *lines);

/* Removes the next line from the front of `chunk`. */
enum lines_result lines_next(struct lines *lines, struct bytes *chunk, struct bytes *ret_line);

/* Ends the stream: returns a last line without its newline, or LINES_MORE. */
enum lines_result lines_last(struct lines *lines, struct bytes *ret_line);

/* Returns the number of the last line, from 1; skipped lines count. */
static inline uint64_t lines_number(const struct lines *lines)
{
    return lines->number_;
}

#endif
