/* cron.c - the next and the last planned instant of a cron expression in a time zone. */
#include "calendar/cron.h"

#include "calendar/calendar.h"

#include <assert.h>

/* Years of readings that are examined. At the bounds a clock may show a day before or after that of
 * UTC. */
enum { YEAR_MIN = 1969, YEAR_MAX = 10000 };

#define WALL_S_MAX ((int64_t)(WALL_MS_MAX / 1000))

static const char *const dst_texts[] = {
#define X(name, text) text,
    CRON_DST_LIST(X)
#undef X
};

const char *cron_dst_text(enum cron_dst dst)
{
    return dst_texts[dst];
}

enum error_code cron_dst_parse(struct bytes text, enum cron_dst *ret_dst, struct error *ret_error)
{
    for (unsigned i = 0; i < sizeof(dst_texts) / sizeof(dst_texts[0]); i++)
        if (bytes_equal(text, bytes_of(dst_texts[i]))) {
            *ret_dst = (enum cron_dst)i;
            return ERROR_NONE;
        }
    return error_set(ret_error, ERROR_INVALID, "it is none of shift, skip, first and both");
}

/* ---- bits ---- */

/* Returns the lowest bit at or above `from` (cron_bit_last: the highest at or below it); -1 if
 * there is none. */
static int cron_bit_next(uint64_t bits, int from)
{
    bits = from > 63 ? 0 : bits >> from << from;
    return bits ? __builtin_ctzll(bits) : -1;
}

static int cron_bit_last(uint64_t bits, int from)
{
    bits = from < 0 ? 0 : bits << (63 - from) >> (63 - from);
    return bits ? 63 - __builtin_clzll(bits) : -1;
}

/* ---- the days of a month ---- */

/* Returns the day from Monday to Friday that is nearest to `day` and in its month. */
static unsigned cron_nearest_weekday(unsigned day, unsigned weekday_of_first, unsigned length)
{
    unsigned weekday = (weekday_of_first + day - 1) % 7;

    if (weekday == 6)
        return day > 1 ? day - 1 : day + 2;
    if (weekday == 0)
        return day < length ? day + 1 : day - 2;
    return day;
}

static uint32_t cron_days_of_month(const struct cron *cron, unsigned weekday_of_first,
                                   unsigned length)
{
    uint32_t days = cron->days_;

    for (int n = -1; (n = cron_bit_next(cron->days_from_last_, n + 1)) >= 0;)
        if ((unsigned)n < length)
            days |= UINT32_C(1) << (length - (unsigned)n);
    for (int n = -1; (n = cron_bit_next(cron->days_weekday_, n + 1)) >= 0;)
        if ((unsigned)n <= length)
            days |= UINT32_C(1) << cron_nearest_weekday((unsigned)n, weekday_of_first, length);
    if (cron->has_last_weekday_)
        days |= UINT32_C(1) << cron_nearest_weekday(length, weekday_of_first, length);
    return days;
}

static uint32_t cron_days_of_week(const struct cron *cron, unsigned weekday_of_first,
                                  unsigned length)
{
    if (cron->weekdays_ == 0x7f)
        return UINT32_MAX;
    uint32_t days = 0;
    for (unsigned day = 1; day <= length; day++) {
        unsigned weekday = 1u << (weekday_of_first + day - 1) % 7;

        if ((cron->weekdays_ | cron->weekdays_nth_[(day - 1) / 7]) & weekday ||
            (day + 7 > length && cron->weekdays_last_ & weekday))
            days |= UINT32_C(1) << day;
    }
    return days;
}

/* Returns the planned days of a month, by the weekday of its first day and its length: bits 1 ..
 * length. */
static uint32_t cron_planned_days(const struct cron *cron, unsigned weekday_of_first,
                                  unsigned length)
{
    uint32_t of_month = cron_days_of_month(cron, weekday_of_first, length);
    uint32_t of_week = cron_days_of_week(cron, weekday_of_first, length);
    uint32_t all = (uint32_t)((UINT64_C(2) << length) - 2);

    return (cron->has_either_ ? of_month | of_week : of_month & of_week) & all;
}

/* There are fourteen kinds of years, by their first weekday and leap or not. All of them occur. */
bool cron_can_fire(const struct cron *cron)
{
    for (unsigned kind = 0; kind < 14; kind++) {
        int year = kind < 7 ? 2001 : 2000;
        unsigned weekday = kind % 7;

        for (unsigned month = 1; month <= 12; month++) {
            unsigned length = calendar_month_days(year, month);

            if ((cron->months_ >> month & 1) && cron_planned_days(cron, weekday, length))
                return true;
            weekday = (weekday + length) % 7;
        }
    }
    return false;
}

static uint32_t cron_planned_days_in(const struct cron *cron, int year, unsigned month)
{
    return cron_planned_days(cron, calendar_weekday(calendar_days(year, month, 1)),
                             calendar_month_days(year, month));
}

/* ---- readings ---- */

/* Returns the first planned time of day that is not before `time`, in seconds; -1 if there is none.
 * 0 finds the first one of a day. */
static int cron_time_next(const struct cron *cron, int time)
{
    int hour = time / 3600, minute = time / 60 % 60, second = time % 60;

    if ((cron->hours_ >> hour & 1) && (cron->minutes_ >> minute & 1)) {
        second = cron_bit_next(cron->seconds_, second);
        if (second >= 0)
            return hour * 3600 + minute * 60 + second;
    }
    second = cron_bit_next(cron->seconds_, 0);
    if (cron->hours_ >> hour & 1) {
        minute = cron_bit_next(cron->minutes_, minute + 1);
        if (minute >= 0)
            return hour * 3600 + minute * 60 + second;
    }
    hour = cron_bit_next(cron->hours_, hour + 1);
    return hour < 0 ? -1 : hour * 3600 + cron_bit_next(cron->minutes_, 0) * 60 + second;
}

/* Returns the last planned time of day that is not after `time`. SECONDS_PER_DAY - 1 finds the last
 * one of a day. */
static int cron_time_last(const struct cron *cron, int time)
{
    int hour = time / 3600, minute = time / 60 % 60, second = time % 60;

    if ((cron->hours_ >> hour & 1) && (cron->minutes_ >> minute & 1)) {
        second = cron_bit_last(cron->seconds_, second);
        if (second >= 0)
            return hour * 3600 + minute * 60 + second;
    }
    second = cron_bit_last(cron->seconds_, 59);
    if (cron->hours_ >> hour & 1) {
        minute = cron_bit_last(cron->minutes_, minute - 1);
        if (minute >= 0)
            return hour * 3600 + minute * 60 + second;
    }
    hour = cron_bit_last(cron->hours_, hour - 1);
    return hour < 0 ? -1 : hour * 3600 + cron_bit_last(cron->minutes_, 59) * 60 + second;
}

static int64_t cron_reading_of(int year, int month, int day, int time)
{
    return calendar_days(year, (unsigned)month, (unsigned)day) * SECONDS_PER_DAY + time;
}

int64_t cron_reading_next(const struct cron *cron, int64_t reading)
{
    int64_t first = calendar_days(YEAR_MIN, 1, 1) * SECONDS_PER_DAY;

    if (reading < first)
        reading = first;
    int64_t days = floor_divide(reading, SECONDS_PER_DAY);
    if (days >= calendar_days(YEAR_MAX + 1, 1, 1))
        return CRON_READING_NONE;
    struct date date = calendar_date(days);
    int month = date.month;
    int day = date.day;
    if ((cron->months_ >> month & 1) &&
        (cron_planned_days_in(cron, date.year, date.month) >> day & 1)) {
        int time = cron_time_next(cron, (int)(reading - days * SECONDS_PER_DAY));
        if (time >= 0)
            return days * SECONDS_PER_DAY + time;
    }
    day++; /* on a later day any time is allowed */
    for (int year = date.year; year <= YEAR_MAX; year++, month = 1, day = 1)
        for (; (month = cron_bit_next(cron->months_, month)) >= 0; month++, day = 1) {
            if (year != date.year || month != date.month)
                day = 1;
            day = cron_bit_next(cron_planned_days_in(cron, year, (unsigned)month), day);
            if (day >= 0)
                return cron_reading_of(year, month, day, cron_time_next(cron, 0));
        }
    return CRON_READING_NONE;
}

int64_t cron_reading_last(const struct cron *cron, int64_t reading)
{
    int64_t end = calendar_days(YEAR_MAX + 1, 1, 1) * SECONDS_PER_DAY;

    if (reading >= end)
        reading = end - 1;
    int64_t days = floor_divide(reading, SECONDS_PER_DAY);
    if (days < calendar_days(YEAR_MIN, 1, 1))
        return CRON_READING_NONE;
    struct date date = calendar_date(days);
    int month = date.month;
    int day = date.day;
    if ((cron->months_ >> month & 1) &&
        (cron_planned_days_in(cron, date.year, date.month) >> day & 1)) {
        int time = cron_time_last(cron, (int)(reading - days * SECONDS_PER_DAY));
        if (time >= 0)
            return days * SECONDS_PER_DAY + time;
    }
    day--;
    for (int year = date.year; year >= YEAR_MIN; year--, month = 12)
        for (; (month = cron_bit_last(cron->months_, month)) >= 0; month--) {
            if (year != date.year || month != date.month)
                day = 31;
            day = cron_bit_last(cron_planned_days_in(cron, year, (unsigned)month), day);
            if (day >= 0)
                return cron_reading_of(year, month, day, cron_time_last(cron, SECONDS_PER_DAY - 1));
        }
    return CRON_READING_NONE;
}

/* ---- instants ---- */

/* Time is handled stretch by stretch. Within a stretch, an instant is its reading less the offset.
 * Readings that the clocks skip at the begin of a stretch are examined as a range. From one stretch
 * to the next planned reading may be years. No offset is larger than ZONE_OFFSET_S_MAX, so
 * transitions that are surely before the nearest planned reading are skipped. So one answer visits
 * at most the transitions of a few days, and zone_parse ensures that those are few. */

/* Returns the first instant of the stretch whose reading counts. If the clocks went back, `dst` may
 * ignore the readings that they repeat. */
static int64_t cron_counted_from(const struct cron *cron, enum cron_dst dst,
                                 const struct zone_stretch *stretch)
{
    bool is_every_hour = cron->hours_ == 0xffffff;

    if (dst == CRON_DST_BOTH || (dst != CRON_DST_FIRST && is_every_hour) ||
        stretch->offset_s >= stretch->offset_before_s)
        return stretch->start;
    return stretch->start + stretch->offset_before_s - stretch->offset_s;
}

/* True if the clocks skip a planned reading at the begin of the stretch, and `dst` counts that. */
static bool cron_has_shifted(const struct cron *cron, enum cron_dst dst,
                             const struct zone_stretch *stretch)
{
    if (dst == CRON_DST_SKIP || stretch->offset_s <= stretch->offset_before_s)
        return false;
    int64_t reading = cron_reading_next(cron, stretch->start + stretch->offset_before_s);
    return reading != CRON_READING_NONE && reading < stretch->start + stretch->offset_s;
}

static struct wall cron_wall_of(int64_t seconds)
{
    return (struct wall){(uint64_t)seconds * 1000};
}

struct wall cron_next(const struct cron *cron, const struct zone *zone, enum cron_dst dst,
                      struct wall after)
{
    int64_t at = after.ms / 1000 < WALL_MS_MAX / 1000 ? (int64_t)(after.ms / 1000) + 1 : INT64_MAX;

    while (at <= WALL_S_MAX) {
        struct zone_stretch stretch = zone_stretch_at(zone, at);
        int64_t from = cron_counted_from(cron, dst, &stretch);

        assert(stretch.start <= at && at < stretch.end);
        if (at == stretch.start && cron_has_shifted(cron, dst, &stretch))
            return cron_wall_of(at);
        if (from < at)
            from = at;
        int64_t reading = cron_reading_next(cron, from + stretch.offset_s);

        assert(reading == CRON_READING_NONE || reading >= from + stretch.offset_s);
        if (reading != CRON_READING_NONE && reading - stretch.offset_s < stretch.end)
            return reading - stretch.offset_s <= WALL_S_MAX
                       ? cron_wall_of(reading - stretch.offset_s)
                       : WALL_NEVER;
        at = stretch.end;
        if (reading == CRON_READING_NONE)
            reading = INT64_MAX;
        if (at - ZONE_OFFSET_S_MAX >= from + stretch.offset_s && reading - ZONE_OFFSET_S_MAX > at)
            at = reading - ZONE_OFFSET_S_MAX;
    }
    return WALL_NEVER;
}

struct wall cron_last(const struct cron *cron, const struct zone *zone, enum cron_dst dst,
                      struct wall until)
{
    int64_t at = until.ms < WALL_MS_MAX ? (int64_t)(until.ms / 1000) : WALL_S_MAX;

    while (at >= 0) {
        struct zone_stretch stretch = zone_stretch_at(zone, at);
        int64_t reading = cron_reading_last(cron, at + stretch.offset_s), shown = at;

        assert(stretch.start <= at && at < stretch.end);
        if (reading == CRON_READING_NONE)
            reading = INT64_MIN / 2;
        if (reading - stretch.offset_s >= cron_counted_from(cron, dst, &stretch))
            return reading >= stretch.offset_s ? cron_wall_of(reading - stretch.offset_s)
                                               : WALL_NEVER;
        if (stretch.start >= 0 && cron_has_shifted(cron, dst, &stretch))
            return cron_wall_of(stretch.start);
        at = stretch.start == INT64_MIN ? -1 : stretch.start - 1;
        if (at + ZONE_OFFSET_S_MAX <= shown + stretch.offset_s && reading + ZONE_OFFSET_S_MAX < at)
            at = reading + ZONE_OFFSET_S_MAX;
    }
    return WALL_NEVER;
}
