/*
 * duration.h - a length of time as people write it: "90s", "1h30m", "250ms", "2d".
 *
 * One or more whole numbers, each with its unit, the larger unit first and each unit once: w (7
 * days), d (24 hours), h, m, s, ms. No sign, no space, no fraction, nothing without a unit.
 *
 * Time       O(text).
 * Threads    Any.
 */
#ifndef TICKWHEEL_CALENDAR_DURATION_H
#define TICKWHEEL_CALENDAR_DURATION_H

#include "base/bytes.h"
#include "base/error.h"

#define DURATION_TEXT_SIZE 32 /* size of the longest text, with its NUL */

/* Parses a duration. ERROR_INVALID, with the reason in `ret_error` (may be NULL), if the text is
 * none or exceeds 2^64 - 1 ms. */
enum error_code duration_parse(struct bytes text, uint64_t *ret_ms, struct error *ret_error);

/* Writes the exact text, from days down, without units that are zero; "0s" if all are. Returns
 * its length. */
size_t duration_format(uint64_t ms, char ret_text[DURATION_TEXT_SIZE]);

/* Writes the text for people, who do not ask for the milliseconds of an hour: rounded to 1 s from
 * a second on, to 1 m from ten minutes, to 1 h from ten hours, to 1 d from ten days. */
size_t duration_format_rough(uint64_t ms, char ret_text[DURATION_TEXT_SIZE]);

/* Appends the exact text as a value of JSON; `name` as in base/json_write.h. */
void duration_put(struct buffer *out, const char *name, uint64_t ms);

#endif
