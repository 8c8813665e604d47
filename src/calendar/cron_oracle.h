/*
 * cron_oracle.h - cron expressions by another way, for tests only: regular expressions say what is
 * one, and each moment is held against each item of each field, without sets or jumps.
 */
#ifndef TICKWHEEL_CALENDAR_CRON_ORACLE_H
#define TICKWHEEL_CALENDAR_CRON_ORACLE_H

#include "calendar/calendar.h"
#include "calendar/cron.h"
#include "base/random.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#define ORACLE_TEXT_SIZE (CRON_TEXT_SIZE_MAX + 1)

struct cron_oracle {
    unsigned item_counts[6];
    char items[6][CRON_TEXT_SIZE_MAX][16]; /* second .. day of week; names have become numbers */
    bool has_either;
    uint8_t known[6][64]; /* of the fields that do not look at a date: 0 unknown, 1 no, 2 yes */
};

/* A moment as a clock shows it. */
struct cron_moment {
    int year;
    unsigned month, day, weekday, length; /* of the month */
    unsigned hour, minute, second;
};

static inline struct cron_moment oracle_moment(int64_t reading)
{
    int64_t days = floor_divide(reading, SECONDS_PER_DAY);
    unsigned time = (unsigned)(reading - days * SECONDS_PER_DAY);
    struct date date = calendar_date(days);

    return (struct cron_moment){date.year,
                                date.month,
                                date.day,
                                calendar_weekday(days),
                                calendar_month_days(date.year, date.month),
                                time / 3600,
                                time / 60 % 60,
                                time % 60};
}

#define ORACLE_MONTHS   "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
#define ORACLE_WEEKDAYS "SUN|MON|TUE|WED|THU|FRI|SAT"

static const char *const oracle_values[6] = {
    "0*[0-5]?[0-9]",
    "0*[0-5]?[0-9]",
    "0*(1?[0-9]|2[0-3])",
    "0*([1-9]|[12][0-9]|3[01])",
    "(0*([1-9]|1[0-2])|" ORACLE_MONTHS ")",
    "(0*[0-7]|" ORACLE_WEEKDAYS ")",
};
static const char *const oracle_others[6] = {
    "", "",
    "", "|L|LW|L-0*([1-9]|[12][0-9]|30)|0*([1-9]|[12][0-9]|3[01])W",
    "", "|(0*[0-7]|" ORACLE_WEEKDAYS ")(L|#0*[1-5])",
};
static const unsigned oracle_min[6] = {0, 0, 0, 1, 1, 0}, oracle_max[6] = {59, 59, 23, 31, 12, 6};

/* Whether the item has a form that the field knows; a step is looked at later. */
static inline bool oracle_has_form(unsigned field, const char *item)
{
    static regex_t forms[6];
    static bool is_ready[6];
    char pattern[512];

    if (!is_ready[field]) {
        const char *value = oracle_values[field];

        snprintf(pattern, sizeof(pattern), "^((\\*|%s|%s-%s)(/[0-9]+)?%s)$", value, value, value,
                 oracle_others[field]);
        if (regcomp(&forms[field], pattern, REG_EXTENDED | REG_NOSUB))
            abort();
        is_ready[field] = true;
    }
    return regexec(&forms[field], item, 0, NULL, 0) == 0;
}

/* "MON-FRI" becomes "1-5". */
static inline void oracle_number(unsigned field, const char *item, char ret_item[16],
                                 bool *ret_fits)
{
    static const char words[] = ORACLE_MONTHS "|" ORACLE_WEEKDAYS;
    char out[64];
    size_t size = 0;

    *ret_fits = true;
    for (; *item && size < sizeof(out) - 4; item++) {
        bool is_word = false;

        for (unsigned i = 0; i < 19 && field >= 4; i++)
            if (strncmp(item, words + 4 * i, 3) == 0) {
                size += (size_t)snprintf(out + size, 4, "%u", i < 12 ? i + 1 : i - 12);
                item += 2;
                is_word = true;
                break;
            }
        if (!is_word &&
            !(*item == '0' && (size == 0 || out[size - 1] < '0' || out[size - 1] > '9') &&
              item[1] >= '0' && item[1] <= '9'))
            out[size++] = *item;
    }
    out[size] = '\0';
    if (*item || size >= 16)
        *ret_fits = false;
    else
        memcpy(ret_item, out, size + 1);
}

/* First, last and step of an item that is a range of some kind. */
static inline void oracle_range(unsigned field, const char *item, unsigned ret[3])
{
    const char *dash = strchr(item, '-'), *slash = strchr(item, '/');

    ret[2] = slash ? (unsigned)strtoul(slash + 1, NULL, 10) : 1;
    if (*item == '*') {
        ret[0] = oracle_min[field];
        ret[1] = oracle_max[field];
        return;
    }
    ret[0] = ret[1] = (unsigned)strtoul(item, NULL, 10);
    if (dash)
        ret[1] = (unsigned)strtoul(dash + 1, NULL, 10);
    else if (slash && ret[0] <= oracle_max[field])
        ret[1] = oracle_max[field];
    if (field == 5 && ret[1] == 0)
        ret[1] = ret[0] ? 7 : 0;
}

static inline bool oracle_is_range(const char *item)
{
    return strpbrk(item, "LW#") == NULL;
}

/* One item of a field; false when it is nonsense. */
static inline bool oracle_read_item(struct cron_oracle *oracle, unsigned field, const char *item)
{
    char *to = oracle->items[field][oracle->item_counts[field]++];
    bool fits = true;
    unsigned range[3];

    if (!oracle_has_form(field, item))
        return false;
    oracle_number(field, item, to, &fits);
    if (!fits)
        return false; /* a step of many digits: nothing else is that long */
    if (!oracle_is_range(to))
        return true;
    oracle_range(field, to, range);
    return range[0] <= range[1] &&
           (!strchr(to, '/') ||
            (range[2] >= 1 && range[2] <= oracle_max[field] - oracle_min[field]));
}

static inline bool oracle_read_field(struct cron_oracle *oracle, unsigned field, char *text)
{
    char *item = text, *comma;

    if ((field == 3 || field == 5) && strcmp(text, "?") == 0)
        text[0] = '*';
    for (;; item = comma + 1) {
        comma = strchr(item, ',');
        if (comma)
            *comma = '\0';
        if (!oracle_read_item(oracle, field, item))
            return false;
        if (!comma)
            return true;
    }
}

static inline bool oracle_date(const struct cron_oracle *oracle, const struct cron_moment *moment);

/* False when the text is no expression, or one that never fires. */
static inline bool oracle_read(struct bytes text, struct cron_oracle *ret)
{
    static const char *const names[] = {
        "@yearly 0 0 1 1 *", "@annually 0 0 1 1 *", "@monthly 0 0 1 * *", "@weekly 0 0 * * 0",
        "@daily 0 0 * * *",  "@midnight 0 0 * * *", "@hourly 0 * * * *"};
    char copy[ORACLE_TEXT_SIZE], *words[7], *save = NULL;
    unsigned count = 0;

    if (text.size > CRON_TEXT_SIZE_MAX || (text.size && memchr(text.data, '\0', text.size)))
        return false;
    snprintf(copy, sizeof(copy), "%.*s", (int)text.size, text.data);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t size = strcspn(names[i], " ");

        if (strlen(copy) == size && strncmp(copy, names[i], size) == 0)
            snprintf(copy, sizeof(copy), "%s", names[i] + size);
    }
    for (char *at = copy; *at; at++)
        if (*at >= 'a' && *at <= 'z')
            *at -= 'a' - 'A';
    for (char *word = strtok_r(copy, " \t", &save); word && count < 7;
         word = strtok_r(NULL, " \t", &save))
        words[count++] = word;
    if (count != 5 && count != 6)
        return false;
    memset(ret->item_counts, 0, sizeof(ret->item_counts));
    memset(ret->known, 0, sizeof(ret->known));
    ret->has_either = !strchr("*?", words[count - 3][0]) && !strchr("*?", words[count - 1][0]);
    if (count == 5 && !oracle_read_item(ret, 0, "0"))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!oracle_read_field(ret, 6 - count + i, words[i]))
            return false;
    for (int64_t day = 0; day < DAYS_PER_400_YEARS; day++) {
        struct cron_moment moment = oracle_moment(day * SECONDS_PER_DAY);

        if (oracle_date(ret, &moment))
            return true;
    }
    return false;
}

static inline bool oracle_names(unsigned field, const char *item, unsigned value)
{
    unsigned range[3];

    oracle_range(field, item, range);
    for (unsigned v = range[0]; v <= range[1]; v += range[2])
        if (v == value || (field == 5 && v == 7 && value == 0))
            return true;
    return false;
}

static inline unsigned oracle_weekday(const struct cron_moment *moment, unsigned day)
{
    return (moment->weekday + 35 + day - moment->day) % 7;
}

static inline bool oracle_is_workday(const struct cron_moment *moment, unsigned day)
{
    unsigned weekday = oracle_weekday(moment, day);

    return day >= 1 && day <= moment->length && weekday >= 1 && weekday <= 5;
}

static inline bool oracle_names_day(const char *item, const struct cron_moment *moment)
{
    unsigned wanted = (unsigned)strtoul(item, NULL, 10);

    if (strcmp(item, "LW") == 0) {
        for (wanted = moment->length; !oracle_is_workday(moment, wanted);)
            wanted--;
        return moment->day == wanted;
    }
    if (item[0] == 'L')
        return moment->day + (item[1] ? strtoul(item + 2, NULL, 10) : 0) == moment->length;
    if (strchr(item, 'W')) {
        if (wanted > moment->length)
            return false;
        for (unsigned distance = 0; distance < 3; distance++)
            for (int side = -1; side <= 1; side += 2) {
                int day = (int)wanted + side * (int)distance;

                if (day > 0 && oracle_is_workday(moment, (unsigned)day))
                    return moment->day == (unsigned)day;
            }
        abort();
    }
    return oracle_names(3, item, moment->day);
}

static inline bool oracle_names_weekday(const char *item, const struct cron_moment *moment)
{
    unsigned wanted = (unsigned)strtoul(item, NULL, 10) % 7;
    const char *nth = strchr(item, '#');

    if (nth)
        return moment->weekday == wanted && (moment->day + 6) / 7 == strtoul(nth + 1, NULL, 10);
    if (strchr(item, 'L'))
        return moment->weekday == wanted && moment->day + 7 > moment->length;
    return oracle_names(5, item, moment->weekday);
}

/* A field that looks at no date; remembered, for this is asked millions of times. */
static inline bool oracle_field(struct cron_oracle *oracle, unsigned field, unsigned value)
{
    uint8_t *known = &oracle->known[field][value];

    if (!*known) {
        *known = 1;
        for (unsigned i = 0; i < oracle->item_counts[field]; i++)
            if (oracle_names(field, oracle->items[field][i], value))
                *known = 2;
    }
    return *known == 2;
}

static inline bool oracle_date(const struct cron_oracle *oracle, const struct cron_moment *moment)
{
    bool of_year = false, of_month = false, of_week = false;

    for (unsigned i = 0; i < oracle->item_counts[4] && !of_year; i++)
        of_year = oracle_names(4, oracle->items[4][i], moment->month);
    for (unsigned i = 0; of_year && i < oracle->item_counts[3] && !of_month; i++)
        of_month = oracle_names_day(oracle->items[3][i], moment);
    for (unsigned i = 0; of_year && i < oracle->item_counts[5] && !of_week; i++)
        of_week = oracle_names_weekday(oracle->items[5][i], moment);
    return of_year && (oracle->has_either ? of_month || of_week : of_month && of_week);
}

static inline bool oracle_plans(struct cron_oracle *oracle, const struct cron_moment *moment)
{
    return oracle_field(oracle, 0, moment->second) && oracle_field(oracle, 1, moment->minute) &&
           oracle_field(oracle, 2, moment->hour) && oracle_date(oracle, moment);
}

/* Planned for each hour of the day. */
static inline bool oracle_is_hourly(struct cron_oracle *oracle)
{
    for (unsigned hour = 0; hour < 24; hour++)
        if (!oracle_field(oracle, 2, hour))
            return false;
    return true;
}

/* ---- expressions by chance ---- */

static inline size_t oracle_random_item(struct random *random, unsigned field, char *to,
                                        size_t room)
{
    unsigned min = oracle_min[field], span = oracle_max[field] - min + 1;
    unsigned first = min + (unsigned)random_below(random, span);
    unsigned last = first + (unsigned)random_below(random, min + span - first);
    unsigned step = 1 + (unsigned)random_below(random, span / 2 < 20 ? span / 2 : 20);

    switch (random_below(random, field == 3 || field == 5 ? 11 : 6)) {
    case 0:
        return (size_t)snprintf(to, room, "*");
    case 1:
        return (size_t)snprintf(to, room, "*/%u", step);
    case 2:
        return (size_t)snprintf(to, room, "%u-%u", first, last);
    case 3:
        return (size_t)snprintf(to, room, "%u-%u/%u", first, last, step);
    case 4:
        return (size_t)snprintf(to, room, "%u/%u", first, step);
    case 6:
        return (size_t)snprintf(to, room, field == 3 ? "L" : "%uL", first);
    case 7:
        return (size_t)snprintf(to, room, field == 3 ? "L-%u" : "%u#5", field == 3 ? step : first);
    case 8:
        return (size_t)snprintf(to, room, field == 3 ? "%uW" : "%u#2", first);
    case 9:
        return (size_t)snprintf(to, room, field == 3 ? "LW" : "5-7");
    default:
        return (size_t)snprintf(to, room, "%u", first);
    }
}

/* Six fields when `has_seconds`; may be one that never fires. */
static inline void oracle_random(struct random *random, int has_seconds,
                                 char ret_text[ORACLE_TEXT_SIZE])
{
    size_t size = 0;

    for (unsigned field = has_seconds ? 0 : 1; field < 6; field++) {
        unsigned items = random_below(random, 3) ? 1 : 2;

        for (unsigned i = 0; i < items; i++) {
            if (i)
                ret_text[size++] = ',';
            /* Months and days that are restricted at each turn would leave little to see. */
            if (field >= 3 && random_below(random, 2))
                size += (size_t)snprintf(ret_text + size, ORACLE_TEXT_SIZE - size, "*");
            else
                size += oracle_random_item(random, field, ret_text + size, ORACLE_TEXT_SIZE - size);
        }
        ret_text[size++] = ' ';
    }
    ret_text[size - 1] = '\0';
}

#endif
