/*
 * cron.h - cron expressions: read one, and find the instants that it plans.
 *
 *     struct cron cron;
 *     if (cron_parse(BYTES("30 9 * * MON-FRI"), &cron, &error) == ERROR_NONE)
 *         next = cron_next(&cron, zone, CRON_DST_SHIFT, now);
 *
 * Five fields (minute, hour, day of month, month, day of week) or six (seconds before them), or a
 * name such as @daily; docs/recurrence.md has the whole language. As in Vixie cron, a day is
 * planned when either of the day fields names it where both are restricted, and when both do where
 * one of them begins with a star.
 *
 * A cron expression speaks of readings, of what a clock on the wall shows. Where the clocks are
 * changed, some readings are skipped and some are shown twice; `enum cron_dst` says how
 * planned times are then treated. Whatever it says, the planned instants are a set: they are in
 * order, no two are equal, and they depend on nothing but the arguments.
 *
 * Time       Absolute, in whole seconds, from 1970 to the year 9999. cron_next and cron_last are
 *            bounded work, however far the answer is: bit sets below a day, one step for a
 *            month, a few for the changes of the clocks near the answer.
 * Errors     cron_parse: ERROR_INVALID with field, position and reason.
 * Ownership  The caller embeds it; it points to nothing.
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_CALENDAR_CRON_H
#define TICKWHEEL_CALENDAR_CRON_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"
#include "calendar/zone.h"

#define CRON_TEXT_SIZE_MAX 256

/* X(name, text): how a skipped local time fires, and a local time that is shown twice.
 *
 *            skipped: fires                       shown twice: fires
 *   SHIFT    when the clocks jump over it         the first time; both times where it is planned
 *                                                 for every hour of the day
 *   SKIP     not at all                           as SHIFT
 *   FIRST    when the clocks jump over it         the first time
 *   BOTH     when the clocks jump over it         both times
 */
#define CRON_DST_LIST(X) \
    X(SHIFT, "shift")    \
    X(SKIP, "skip")      \
    X(FIRST, "first")    \
    X(BOTH, "both")

enum cron_dst {
#define X(name, text) CRON_DST_##name,
    CRON_DST_LIST(X)
#undef X
};

/* Sets of values as bits. Days relative to the month are computed for each month. */
struct cron {
    uint64_t seconds_, minutes_; /* 0 .. 59 */
    uint32_t hours_;             /* 0 .. 23 */
    uint32_t days_;              /* 1 .. 31 */
    uint32_t days_from_last_;    /* 0 .. 30: L, L-1, ... */
    uint32_t days_weekday_;      /* 1 .. 31: 1W, 2W, ... */
    uint16_t months_;            /* 1 .. 12 */
    uint8_t weekdays_;           /* 0 .. 6, Sunday first */
    uint8_t weekdays_last_;      /* 0 .. 6: 0L, 1L, ... */
    uint8_t weekdays_nth_[5];    /* 0 .. 6, for #1 .. #5 */
    uint8_t has_last_weekday_;   /* LW: the last weekday of the month */
    /* both day fields are restricted, and a day that matches one of them is planned */
    uint8_t has_either_;
};

/* Parses an expression. Also refuses one that matches no date, such as "0 0 31 2 *". */
enum error_code cron_parse(struct bytes text, struct cron *ret_cron, struct error *ret_error);

/* True if any year has a planned day, as for each expression that cron_parse accepts. */
bool cron_can_fire(const struct cron *cron);

/* Parses "shift", "skip", "first" or "both"; ERROR_INVALID for anything else. */
enum error_code cron_dst_parse(struct bytes text, enum cron_dst *ret_dst, struct error *ret_error);
const char *cron_dst_text(enum cron_dst dst);

/* Returns the first planned instant after `after`; WALL_NEVER if there is none up to
 * WALL_MS_MAX. */
struct wall cron_next(const struct cron *cron, const struct zone *zone, enum cron_dst dst,
                      struct wall after);

/* Returns the last planned instant that is not after `until`; WALL_NEVER if there is none since
 * 1970. */
struct wall cron_last(const struct cron *cron, const struct zone *zone, enum cron_dst dst,
                      struct wall until);

/* Returns the first planned reading at or after `reading` (cron_reading_last: the last at or
 * before it), in seconds on a clock that is never changed. CRON_READING_NONE if there is none in
 * the years 1969 to 9999. */
#define CRON_READING_NONE INT64_MIN
int64_t cron_reading_next(const struct cron *cron, int64_t reading);
int64_t cron_reading_last(const struct cron *cron, int64_t reading);

/* Refuses days of the week that are numbers beside a day of month `?`, which Quartz counts from
 * SUN = 1 and cron from SUN = 0: ERROR_INVALID, with the names to write. cron_parse has taken
 * `text`. */
enum error_code cron_check_weekdays(struct bytes text, struct error *ret_error);

#endif
