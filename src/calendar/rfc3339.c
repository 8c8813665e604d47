/* rfc3339.c - parses and formats RFC 3339 times. */
#include "calendar/rfc3339.h"

#include "base/json_write.h"

/*
 * Days are counted in years that begin on the first of March: the leap day is then the last of its
 * year, and how many days lie before a month has one formula. The count begins 400 years before the
 * year 0, so that no number is negative, whatever the offset.
 */
#define DAYS_PER_400_YEARS 146097
#define DAYS_BEFORE_1970   (DAYS_PER_400_YEARS + 719468) /* from March 1st of the year -400 */
#define MINUTES_PER_DAY    1440
#define MS_PER_DAY         86400000
#define SECONDS_SIZE       19 /* of "2026-11-20T23:59:59" */

struct fields {
    unsigned year, month, day, hour, minute, second;
    unsigned ms;        /* rounded up: 0 .. 1000 */
    int offset_minutes; /* local time less UTC */
};

static int64_t rfc3339_days_since_1970(unsigned year, unsigned month, unsigned day)
{
    unsigned y = year + 400 - (month <= 2);         /* year that began in March */
    unsigned m = month > 2 ? month - 3 : month + 9; /* whole months since March */

    return (int64_t)y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 -
           DAYS_BEFORE_1970;
}

/* Converts days to a date. 1460 days are four years without the leap day, 36524 a century
 * without its own. */
static void rfc3339_civil_date(int64_t days, unsigned *ret_year, unsigned *ret_month,
                               unsigned *ret_day)
{
    unsigned count = (unsigned)(days + DAYS_BEFORE_1970);
    unsigned cycle = count / DAYS_PER_400_YEARS, of_cycle = count % DAYS_PER_400_YEARS;
    unsigned y =
        (of_cycle - of_cycle / 1460 + of_cycle / 36524 - of_cycle / (DAYS_PER_400_YEARS - 1)) / 365;
    unsigned of_year = of_cycle - (y * 365 + y / 4 - y / 100);
    unsigned m = (5 * of_year + 2) / 153;

    *ret_day = of_year - (153 * m + 2) / 5 + 1;
    *ret_month = m < 10 ? m + 3 : m - 9;
    *ret_year = y + cycle * 400 - 400 + (m >= 10);
}

static unsigned rfc3339_days_in_month(unsigned year, unsigned month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return month == 2 && leap ? 29 : days[month - 1];
}

/* Reads `count` digits at `at`. Returns false if they are none. */
static bool rfc3339_read_digits(const char *at, size_t count, unsigned *ret_value)
{
    unsigned value = 0;

    for (size_t i = 0; i < count; i++) {
        unsigned digit = (unsigned)(uint8_t)at[i] - '0';

        if (digit > 9)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

/* Reads ".123456789": 1 to 9 digits. Returns the position after them; NULL if there are none or
 * more. */
static const char *rfc3339_read_fraction(const char *at, const char *end, unsigned *ret_ms)
{
    unsigned ns = 0, digits = 0;

    for (at++; at < end && *at >= '0' && *at <= '9'; at++) {
        if (++digits > 9)
            return NULL;
        ns = ns * 10 + (unsigned)(*at - '0');
    }
    if (digits == 0)
        return NULL;
    for (; digits < 9; digits++)
        ns *= 10;
    *ret_ms = (ns + 999999) / 1000000;
    return at;
}

/* Reads "Z" or "+05:30", up to the end of the text. */
static bool rfc3339_read_offset(const char *at, const char *end, int *ret_minutes)
{
    if (end - at == 1 && (*at | 0x20) == 'z') {
        *ret_minutes = 0;
        return true;
    }
    unsigned hours, minutes;
    if (end - at != 6 || (*at != '+' && *at != '-') || at[3] != ':' ||
        !rfc3339_read_digits(at + 1, 2, &hours) || !rfc3339_read_digits(at + 4, 2, &minutes) ||
        hours > 23 || minutes > 59)
        return false;
    *ret_minutes = (int)(hours * 60 + minutes);
    if (*at == '-')
        *ret_minutes = -*ret_minutes;
    return true;
}

/* Reads "2026-11-20T23:59:59": checks the form, not the ranges. */
static bool rfc3339_read_seconds(struct bytes text, struct fields *ret)
{
    const char *at = text.data;

    return text.size > SECONDS_SIZE && rfc3339_read_digits(at, 4, &ret->year) && at[4] == '-' &&
           rfc3339_read_digits(at + 5, 2, &ret->month) && at[7] == '-' &&
           rfc3339_read_digits(at + 8, 2, &ret->day) && (at[10] | 0x20) == 't' &&
           rfc3339_read_digits(at + 11, 2, &ret->hour) && at[13] == ':' &&
           rfc3339_read_digits(at + 14, 2, &ret->minute) && at[16] == ':' &&
           rfc3339_read_digits(at + 17, 2, &ret->second);
}

/* True if second 60 can follow this minute: it is the last of a month in UTC. */
static bool rfc3339_can_leap(int64_t minutes_since_1970)
{
    int64_t next = minutes_since_1970 + 1 + DAYS_BEFORE_1970 * MINUTES_PER_DAY; /* not negative */
    unsigned year, month, day;

    rfc3339_civil_date(next / MINUTES_PER_DAY - DAYS_BEFORE_1970, &year, &month, &day);
    return next % MINUTES_PER_DAY == 0 && day == 1;
}

enum error_code rfc3339_parse(struct bytes text, struct wall *ret_wall, struct error *ret_error)
{
    struct fields f = {0};
    const char *end = text.data + text.size;

    if (!rfc3339_read_seconds(text, &f))
        return error_set(ret_error, ERROR_INVALID,
                         "it is not of the form 2026-11-20T23:59:59Z (RFC 3339)");
    const char *at = text.data + SECONDS_SIZE;
    if (*at == '.' && !(at = rfc3339_read_fraction(at, end, &f.ms)))
        return error_set(ret_error, ERROR_INVALID, "a fraction has 1 to 9 digits");
    if (!rfc3339_read_offset(at, end, &f.offset_minutes))
        return error_set(ret_error, ERROR_INVALID, "it must end in Z or an offset such as +01:00");
    if (f.year <= 1)
        return error_set(ret_error, ERROR_INVALID,
                         "it is in the year %u, the zero time of a program that set no time",
                         f.year);
    if (f.month < 1 || f.month > 12)
        return error_set(ret_error, ERROR_INVALID, "there is no month %02u", f.month);
    if (f.day < 1 || f.day > rfc3339_days_in_month(f.year, f.month))
        return error_set(ret_error, ERROR_INVALID, "%04u-%02u has no day %02u", f.year, f.month,
                         f.day);
    if (f.hour > 23 || f.minute > 59 || f.second > 60)
        return error_set(ret_error, ERROR_INVALID, "a day has no time %02u:%02u:%02u", f.hour,
                         f.minute, f.second);
    int64_t minutes = rfc3339_days_since_1970(f.year, f.month, f.day) * MINUTES_PER_DAY +
                      f.hour * 60 + f.minute - f.offset_minutes;
    if (f.second == 60) {
        if (!rfc3339_can_leap(minutes))
            return error_set(ret_error, ERROR_INVALID, "second 60 only ends a month, in UTC");
        f.ms = 0; /* the next second begins later than any fraction of this one */
    }
    int64_t ms = minutes * 60000 + f.second * 1000 + f.ms;
    ret_wall->ms = ms < 0 ? 0 : (uint64_t)ms;
    return ERROR_NONE;
}

static void rfc3339_put_digits(char *to, size_t count, unsigned value)
{
    while (count-- > 0) {
        to[count] = (char)('0' + value % 10);
        value /= 10;
    }
}

void rfc3339_format(struct wall wall, char ret_text[RFC3339_TEXT_SIZE])
{
    uint64_t ms = wall.ms > WALL_MS_MAX ? WALL_MS_MAX : wall.ms;
    unsigned ms_of_day = (unsigned)(ms % MS_PER_DAY), year, month, day;

    rfc3339_civil_date((int64_t)(ms / MS_PER_DAY), &year, &month, &day);
    memcpy(ret_text, "0000-00-00T00:00:00.000Z", RFC3339_TEXT_SIZE);
    rfc3339_put_digits(ret_text, 4, year);
    rfc3339_put_digits(ret_text + 5, 2, month);
    rfc3339_put_digits(ret_text + 8, 2, day);
    rfc3339_put_digits(ret_text + 11, 2, ms_of_day / 3600000);
    rfc3339_put_digits(ret_text + 14, 2, ms_of_day / 60000 % 60);
    rfc3339_put_digits(ret_text + 17, 2, ms_of_day / 1000 % 60);
    rfc3339_put_digits(ret_text + 20, 3, ms_of_day % 1000);
}

void rfc3339_put(struct buffer *out, const char *name, struct wall wall)
{
    char text[RFC3339_TEXT_SIZE + 1] = "\"";

    rfc3339_format(wall, text + 1);
    text[RFC3339_TEXT_SIZE] = '"';
    json_put_raw(out, name, (struct bytes){text, sizeof(text)});
}
