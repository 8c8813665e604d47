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
    LINES_MORE,      /* the chunk is used up; no further line is complete */
    LINES_LINE,      /* `ret_line` is one */
    LINES_TOO_LONG,  /* a line was longer than the limit and is lost */
    LINES_NO_MEMORY, /* a line was lost because memory is short */
};

struct lines {
    struct buffer carry_;    /* the beginning of a line whose end has not come */
    size_t line_max_;        /* in bytes, without its end */
    uint64_t number_;        /* of the last line returned, 1-based */
    enum lines_result lost_; /* the line at hand is being skipped, and why; LINES_MORE: it is not */
    bool is_carry_returned_; /* `carry_` is what the caller holds: forget it at the next call */
};

void lines_init(struct lines *lines, size_t line_max);
void lines_deinit(struct lines *lines);

/* Takes the next line off the front of `chunk`. */
enum lines_result lines_next(struct lines *lines, struct bytes *chunk, struct bytes *ret_line);

/* The stream has ended: a last line without its newline, or LINES_MORE. */
enum lines_result lines_last(struct lines *lines, struct bytes *ret_line);

/* Which line the last result was, from 1; passed-over lines count. */
static inline uint64_t lines_number(const struct lines *lines)
{
    return lines->number_;
}

#endif
