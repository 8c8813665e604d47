/*
 * holidays.h - a calendar of holidays: which days it names, and how it calls them.
 *
 *     struct holidays *holidays;
 *     if (holidays_parse(file, &holidays, &error) == ERROR_NONE)
 *         holiday = holidays_find(holidays, calendar_days(2026, 12, 25));
 *     holidays_leave(holidays);
 *
 * Two forms are read: iCalendar (RFC 5545; calendar/ical.h), and a JSON array whose elements are
 * "2026-12-25", "2026-12-24/2027-01-01", or {"date": one of these, "name": "Christmas Day"}. Days
 * have no zone: who asks says which day it is at the place in question.
 *
 * Time       Days since 1970-01-01, up to HOLIDAYS_DAY_END; nothing is a holiday outside.
 *            holidays_find is O(log spans).
 * Errors     ERROR_INVALID with the reason for a text that breaks its form; ERROR_TOO_MANY beyond a
 *            limit; ERROR_NO_MEMORY. Then nothing was made.
 * Ownership  Holidays belong to their holders; the last one that leaves frees them. They never
 *            change.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CALENDAR_HOLIDAYS_H
#define TICKWHEEL_CALENDAR_HOLIDAYS_H

#include "base/bytes.h"
#include "base/error.h"

#define HOLIDAYS_BYTES_MAX     (1024 * 1024) /* maximum size of a text */
#define HOLIDAYS_SPANS_MAX     8192          /* maximum of spans of days that a text names */
#define HOLIDAYS_NAME_SIZE_MAX 120           /* a longer name of a holiday is cut */
#define HOLIDAYS_DAY_END       47482         /* 2100-01-01, the first day that is not read */

/* A span of days with one name; the spans of a calendar do not overlap. */
struct holiday {
    int32_t first, last; /* days since 1970-01-01; both belong to the span */
    struct bytes name;   /* may be empty; valid UTF-8 without control characters */
};

struct holidays;

/* Parses a text of either form. */
enum error_code holidays_parse(struct bytes text, struct holidays **ret_holidays,
                               struct error *ret_error);

/* Adds a holder. holidays_leave removes one, and frees the calendar after the last; NULL has no
 * effect. */
struct holidays *holidays_hold(struct holidays *holidays);
void holidays_leave(struct holidays *holidays);

/* Returns the span that contains `day`; NULL if the calendar does not name it. If several did, it
 * is the one that began first. */
const struct holiday *holidays_find(const struct holidays *holidays, int64_t day);

/* Returns the spans in order. */
const struct holiday *holidays_all(const struct holidays *holidays, size_t *ret_count);

/* ---- for the readers of the forms ---- */

struct holidays_draft {
    struct holiday *spans; /* names are offsets into `names` until holidays_make */
    size_t count, capacity;
    struct buffer names;
};

void holidays_draft_init(struct holidays_draft *draft);
void holidays_draft_deinit(struct holidays_draft *draft);

/* Adds a span; the parts outside the days that are read are cut off. */
enum error_code holidays_draft_add(struct holidays_draft *draft, int64_t first, int64_t last,
                                   struct bytes name, struct error *ret_error);

/* Makes a calendar of the draft, which is empty then. */
enum error_code holidays_make(struct holidays_draft *draft, struct holidays **ret_holidays,
                              struct error *ret_error);

/* Parses "2026-12-25", or two such dates in order with a slash between them. False for anything
 * else. */
bool holidays_parse_span(struct bytes text, int64_t *ret_first, int64_t *ret_last);

/* Writes a day as "2026-12-25". */
#define HOLIDAYS_DAY_SIZE 24
void holidays_format_day(int64_t day, char ret_text[HOLIDAYS_DAY_SIZE]);

/* For tests: aborts unless every invariant holds. O(spans). */
void holidays_check(const struct holidays *holidays);

#endif
