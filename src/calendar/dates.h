/*
 * dates.h - the dates on which a schedule may fire: `except`, `only`, and what becomes of a firing
 * on another date.
 *
 *     struct dates dates = {0};
 *     code = dates_parse(text, find, context, &dates.except, &error);
 *     if (!dates_permit(&dates, calendar_days(2026, 12, 25)))
 *         dates_reason(&dates, calendar_days(2026, 12, 25), reason);     Christmas Day, calendar de
 *
 * An entry is a date (2026-12-24), a range of dates (2026-12-24/2027-01-01), a weekday or a range
 * of them (SAT, FRI-SUN), or a calendar of holidays (calendar:NAME).
 *
 * Time       Days since 1970-01-01. dates_permit is O(entries).
 * Errors     ERROR_INVALID with the reason; what `find` returns for a calendar.
 * Ownership  A list borrows its calendars, and its text.
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_CALENDAR_DATES_H
#define TICKWHEEL_CALENDAR_DATES_H

#include "calendar/holidays.h"

#define DATES_ENTRIES_MAX   32
#define DATES_CALENDARS_MAX 8
#define DATES_SEARCH_DAYS \
    18628 /* how far to search: 51 years, in which 29 February is each weekday */

/* Maximum of days by which a firing is moved; it is left out if none of them is permitted. */
#define DATES_MOVE_DAYS_MAX 62

/* Maximum size of the name of a calendar: letters, digits, '.', '_' and '-'. */
#define DATES_NAME_SIZE_MAX 63

struct dates_range {
    int32_t first, last;
};

struct dates_list {
    struct bytes text; /* JSON array of strings without escapes or blanks; empty for no list */
    uint8_t weekdays;  /* 1 << 0 is Sunday */
    uint8_t range_count, calendar_count;
    struct dates_range ranges[DATES_ENTRIES_MAX];
    struct {
        struct bytes name;
        const struct holidays *days;
    } calendars[DATES_CALENDARS_MAX];
};

/* X(name, text): what becomes of a firing on a date that is not permitted: it is left out, or moved
 * to the same time of the nearest date after, or before it, that is permitted. */
#define DATES_MOVE_LIST(X)  \
    X(SKIP, "skip")         \
    X(NEXT, "next_workday") \
    X(PREVIOUS, "previous_workday")

enum dates_move {
#define X(name, text) DATES_MOVE_##name,
    DATES_MOVE_LIST(X)
#undef X
};

struct dates {
    struct dates_list except, only;
    enum dates_move move;
};

/* Finds a calendar of holidays by name. */
typedef enum error_code (*dates_find)(void *context, struct bytes name,
                                      const struct holidays **ret_days);

/* Parses the JSON array `text`, whose strings have no escapes. If `find` is NULL, only the forms of
 * its entries are checked. */
enum error_code dates_parse(struct bytes text, dates_find find, void *context,
                            struct dates_list *ret_list, struct error *ret_error);

/* Checks one entry; ERROR_INVALID with the reason, as a sentence about "it". */
enum error_code dates_check_entry(struct bytes entry, struct error *ret_error);

/* True if `name` can be that of a calendar. */
bool dates_is_name(struct bytes name);

/* Parses "skip", "next_workday" or "previous_workday". Returns false for anything else. */
bool dates_move_parse(struct bytes text, enum dates_move *ret_move);
const char *dates_move_text(enum dates_move move);

/* True if there is a list. */
static inline bool dates_any(const struct dates *dates)
{
    return dates->except.text.size > 0 || dates->only.text.size > 0;
}

/* True if a list names a calendar. */
static inline bool dates_has_calendar(const struct dates *dates)
{
    return dates->except.calendar_count > 0 || dates->only.calendar_count > 0;
}

/* True if no entry of `except` names the day, and one of `only` does if it has any. */
bool dates_permit(const struct dates *dates, int64_t day);

/* Returns the first permitted day from `day` on (dates_last: the last until `day`).
 * DATES_NONE if there is none among so many days. */
#define DATES_NONE INT64_MIN
int64_t dates_next(const struct dates *dates, int64_t day, int64_t days_max);
int64_t dates_last(const struct dates *dates, int64_t day, int64_t days_max);

/* Writes why the day is not permitted: "Christmas Day, calendar de". */
#define DATES_REASON_SIZE 256
void dates_reason(const struct dates *dates, int64_t day, char ret_text[DATES_REASON_SIZE]);

#endif
