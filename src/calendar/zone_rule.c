/* zone_rule.c - reads the rule in the footer of a TZif file, a POSIX TZ string. */
#include "calendar/zone_private.h"

enum {
    NAME_SIZE_MIN = 3, /* as of "CET" */
    ZONE_DESIGNATION_SIZE_MAX = 31,
    OFFSET_HOURS_MAX = 24,
    TIME_HOURS_MAX = 167, /* the time of a rule may be up to a week before or after its day */
};

struct zone_rule_reader {
    const char *at, *end;
};

static bool zone_rule_take(struct zone_rule_reader *reader, char c)
{
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* Reads a number of one to three digits that is in [min, max]. */
static bool zone_rule_read_number(struct zone_rule_reader *reader, unsigned min, unsigned max,
                                  unsigned *ret_number)
{
    const char *digits = reader->at;
    unsigned number = 0;

    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        if (reader->at - digits == 3)
            return false;
        number = number * 10 + (unsigned)(*reader->at++ - '0');
    }
    if (reader->at == digits || number < min || number > max)
        return false;
    *ret_number = number;
    return true;
}

/* Skips a name such as "CEST" or "<+0330>", which is not needed. */
static bool zone_rule_skip_name(struct zone_rule_reader *reader)
{
    bool is_quoted = zone_rule_take(reader, '<');
    const char *name = reader->at;

    for (; reader->at < reader->end; reader->at++) {
        char c = *reader->at, lower = (char)(c | 0x20);
        bool is_letter = lower >= 'a' && lower <= 'z';

        if (!is_letter && !(is_quoted && ((c >= '0' && c <= '9') || c == '+' || c == '-')))
            break;
    }
    ptrdiff_t size = reader->at - name;
    return size >= NAME_SIZE_MIN && size <= ZONE_DESIGNATION_SIZE_MAX &&
           (!is_quoted || zone_rule_take(reader, '>'));
}

/* Reads a time in the form "[+-]hh[:mm[:ss]]". */
static bool zone_rule_read_time(struct zone_rule_reader *reader, unsigned hours_max,
                                int32_t *ret_seconds)
{
    bool is_negative = zone_rule_take(reader, '-');

    if (!is_negative)
        zone_rule_take(reader, '+');
    unsigned hours;
    if (!zone_rule_read_number(reader, 0, hours_max, &hours))
        return false;
    unsigned minutes = 0, seconds = 0;
    if (zone_rule_take(reader, ':')) {
        if (!zone_rule_read_number(reader, 0, 59, &minutes))
            return false;
        if (zone_rule_take(reader, ':') && !zone_rule_read_number(reader, 0, 59, &seconds))
            return false;
    }
    *ret_seconds = (int32_t)(hours * 3600 + minutes * 60 + seconds);
    if (is_negative)
        *ret_seconds = -*ret_seconds;
    return true;
}

/* Reads ",M3.5.0/2", ",J60" or ",59/-1"; the default time is two o'clock. */
static bool zone_rule_read_day(struct zone_rule_reader *reader, struct zone_rule_day *ret)
{
    if (!zone_rule_take(reader, ','))
        return false;
    unsigned month = 0, week = 0, day;
    if (zone_rule_take(reader, 'M')) {
        if (!zone_rule_read_number(reader, 1, 12, &month) || !zone_rule_take(reader, '.') ||
            !zone_rule_read_number(reader, 1, 5, &week) || !zone_rule_take(reader, '.') ||
            !zone_rule_read_number(reader, 0, 6, &day))
            return false;
        ret->kind = 'M';
    } else if (zone_rule_take(reader, 'J')) {
        if (!zone_rule_read_number(reader, 1, 365, &day))
            return false;
        ret->kind = 'J';
    } else {
        if (!zone_rule_read_number(reader, 0, 365, &day))
            return false;
        ret->kind = 'D';
    }
    ret->month = (uint8_t)month;
    ret->week = (uint8_t)week;
    ret->day = (uint16_t)day;
    ret->time_of_day_s = 2 * 3600;
    return !zone_rule_take(reader, '/') ||
           zone_rule_read_time(reader, TIME_HOURS_MAX, &ret->time_of_day_s);
}

bool zone_rule_parse(struct bytes text, struct zone_rule *ret_rule)
{
    struct zone_rule_reader reader = {text.data, text.data + text.size};
    int32_t west_s; /* offset as written in the text, where west is positive */

    if (!zone_rule_skip_name(&reader) || !zone_rule_read_time(&reader, OFFSET_HOURS_MAX, &west_s))
        return false;
    struct zone_rule rule = {0};
    rule.offset_s = -west_s;
    if (reader.at < reader.end) {
        rule.has_summer = true;
        rule.summer_offset_s = rule.offset_s + 3600;
        if (!zone_rule_skip_name(&reader))
            return false;
        if (reader.at < reader.end && *reader.at != ',') {
            if (!zone_rule_read_time(&reader, OFFSET_HOURS_MAX, &west_s))
                return false;
            rule.summer_offset_s = -west_s;
        }
        if (!zone_rule_read_day(&reader, &rule.summer_start) ||
            !zone_rule_read_day(&reader, &rule.summer_end))
            return false;
    }
    if (reader.at != reader.end)
        return false;
    *ret_rule = rule;
    return true;
}

static int64_t zone_rule_day_in_year(const struct zone_rule_day *rule, int year)
{
    int64_t first = calendar_days(year, 1, 1);

    if (rule->kind == 'D')
        return first + rule->day;
    if (rule->kind == 'J') /* day 60 is always the first of March, also in a leap year */
        return first + rule->day - 1 + (calendar_is_leap(year) && rule->day >= 60);
    first = calendar_days(year, rule->month, 1);
    unsigned int day = (rule->day + 7 - calendar_weekday(first)) % 7 + (rule->week - 1u) * 7;
    if (day >= calendar_month_days(year, rule->month))
        day -= 7;
    return first + day;
}

void zone_rule_year(const struct zone_rule *rule, int year, int64_t *ret_start, int64_t *ret_end)
{
    *ret_start = zone_rule_day_in_year(&rule->summer_start, year) * SECONDS_PER_DAY +
                 rule->summer_start.time_of_day_s - rule->offset_s;
    *ret_end = zone_rule_day_in_year(&rule->summer_end, year) * SECONDS_PER_DAY +
               rule->summer_end.time_of_day_s - rule->summer_offset_s;
}
