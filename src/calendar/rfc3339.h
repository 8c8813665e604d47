/*
 * rfc3339.h - wall time as text: "2026-11-20T23:59:59.250Z" (RFC 3339).
 *
 * Read strictly: the whole form, with Z or an offset, T and Z in either case, every field in its
 * range for that very month and year. A fraction has 1 to 9 digits and is rounded up to the next
 * millisecond, so that nothing is ever early. A leap second (23:59:60 UTC on the last day of a
 * month) is the start of the next day. A time before 1970 becomes 1970: both have passed.
 *
 * Time       O(1); neither locale nor time zone of the process are looked at.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CALENDAR_RFC3339_H
#define TICKWHEEL_CALENDAR_RFC3339_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

#define RFC3339_TEXT_SIZE 25 /* 24 characters and the NUL */

/* Parses a time. ERROR_INVALID, with the reason in `ret_error` (may be NULL), if the text is
 * none. The result can be up to a day after WALL_MS_MAX, by its offset or rounding. */
enum error_code rfc3339_parse(struct bytes text, struct wall *ret_wall, struct error *ret_error);

/* Writes `wall` in UTC with milliseconds; WALL_MS_MAX for any later time. */
void rfc3339_format(struct wall wall, char ret_text[RFC3339_TEXT_SIZE]);

/* Appends that text as a value of JSON; `name` as in base/json_write.h. */
void rfc3339_put(struct buffer *out, const char *name, struct wall wall);

#endif
