/*
 * calendar.h - days and dates of the Gregorian calendar, without clocks, zones or the C library.
 *
 *     struct date date = calendar_date(calendar_days(2026, 11, 20) + 42);
 *
 * A day is its number since 1970-01-01; a reading is what a clock on the wall shows, as seconds
 * since its own 1970-01-01T00:00:00, whatever its zone.
 *
 * Time       O(1). Years from -400 to 11000.
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_CALENDAR_CALENDAR_H
#define TICKWHEEL_CALENDAR_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

#define SECONDS_PER_DAY 86400
/* number of days after which the calendar repeats, a whole number of weeks */
#define DAYS_PER_400_YEARS 146097

struct date {
    int32_t year;
    uint8_t month; /* 1 .. 12 */
    uint8_t day;   /* 1 .. 31 */
};

/* Returns the quotient rounded down; the remainder is then 0 .. divisor - 1. */
static inline int64_t floor_divide(int64_t number, int64_t divisor)
{
    return number / divisor - (number % divisor < 0);
}

static inline int64_t floor_modulo(int64_t number, int64_t divisor)
{
    return number - floor_divide(number, divisor) * divisor;
}

static inline bool calendar_is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static inline unsigned calendar_month_days(int year, unsigned month)
{
    return month == 2 ? 28u + calendar_is_leap(year) : 30 + ((month + month / 8) & 1);
}

/* Counts days in years that begin on the first of March, so that the leap day is the last of its
 * year. The count begins 400 years before the year 0, so that nothing is negative. */
static inline int64_t calendar_days(int year, unsigned month, unsigned day)
{
    int64_t y = (int64_t)year + 400 - (month <= 2);
    unsigned m = month > 2 ? month - 3 : month + 9;

    return y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 -
           (DAYS_PER_400_YEARS + 719468);
}

static inline struct date calendar_date(int64_t days)
{
    int64_t count = days + DAYS_PER_400_YEARS + 719468;
    int64_t cycle = count / DAYS_PER_400_YEARS, rest = count % DAYS_PER_400_YEARS;
    int64_t y = (rest - rest / 1460 + rest / 36524 - rest / (DAYS_PER_400_YEARS - 1)) / 365;
    unsigned of_year = (unsigned)(rest - (y * 365 + y / 4 - y / 100));
    unsigned m = (5 * of_year + 2) / 153;

    return (struct date){(int32_t)(y + cycle * 400 - 400 + (m >= 10)),
                         (uint8_t)(m < 10 ? m + 3 : m - 9),
                         (uint8_t)(of_year - (153 * m + 2) / 5 + 1)};
}

/* Returns the day of the week; 0 is Sunday. */
static inline unsigned calendar_weekday(int64_t days)
{
    return (unsigned)floor_modulo(days + 4, 7);
}

#endif
