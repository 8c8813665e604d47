/* dates.c - the dates on which a schedule may fire. */
#include "calendar/dates.h"

#include "base/json.h"
#include "calendar/calendar.h"

#include <stdio.h>

static const char dates_weekday_names[7][4] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

static const char *const dates_move_texts[] = {
#define X(name, text) text,
    DATES_MOVE_LIST(X)
#undef X
};

/* ---- entries ---- */

static bool dates_parse_weekday(struct bytes text, unsigned *ret_weekday)
{
    for (unsigned i = 0; i < 7; i++)
        if (bytes_equal(text, bytes_of(dates_weekday_names[i]))) {
            *ret_weekday = i;
            return true;
        }
    return false;
}

/* Parses "SAT" or "FRI-MON", which goes on after the end of the week. */
static bool dates_parse_weekdays(struct bytes text, uint8_t *ret_bits)
{
    const bool is_range = text.size == 7 && text.data[3] == '-';
    unsigned first, last;

    if (!dates_parse_weekday((struct bytes){text.data, is_range ? 3 : text.size}, &first))
        return false;
    last = first;
    if (is_range && !dates_parse_weekday((struct bytes){text.data + 4, 3}, &last))
        return false;
    *ret_bits = (uint8_t)(1u << last);
    for (unsigned day = first; day != last; day = (day + 1) % 7)
        *ret_bits |= (uint8_t)(1u << day);
    return true;
}

bool dates_is_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return name.size >= 1 && name.size <= DATES_NAME_SIZE_MAX && name.data[0] != '.';
}

/* Parses "calendar:NAME". */
static bool dates_parse_calendar(struct bytes text, struct bytes *ret_name)
{
    const struct bytes prefix = BYTES("calendar:");

    if (!bytes_has_prefix(text, prefix))
        return false;
    *ret_name = (struct bytes){text.data + prefix.size, text.size - prefix.size};
    return dates_is_name(*ret_name);
}

enum error_code dates_check_entry(struct bytes entry, struct error *ret_error)
{
    int64_t first, last;
    uint8_t weekdays;
    struct bytes name;

    if (entry.size &&
        (holidays_parse_span(entry, &first, &last) || dates_parse_weekdays(entry, &weekdays) ||
         dates_parse_calendar(entry, &name)))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_INVALID,
                     "It must be a date (2026-12-24), a range (2026-12-24/2027-01-01), weekdays "
                     "(SAT, FRI-SUN) or calendar:NAME");
}

static enum error_code dates_add_calendar(struct dates_list *list, struct bytes name,
                                          dates_find find, void *context, struct error *ret_error)
{
    const struct holidays *days = NULL;

    if (list->calendar_count == DATES_CALENDARS_MAX)
        return error_set(ret_error, ERROR_INVALID, "There may be at most %d calendars",
                         DATES_CALENDARS_MAX);
    const enum error_code code = find ? find(context, name, &days) : ERROR_NONE;
    if (code)
        return error_set(ret_error, code, "There is no calendar \"%.*s\"", (int)name.size,
                         name.data);
    list->calendars[list->calendar_count].name = name;
    list->calendars[list->calendar_count++].days = days;
    return ERROR_NONE;
}

static enum error_code dates_add(struct dates_list *list, struct bytes entry, dates_find find,
                                 void *context, struct error *ret_error)
{
    int64_t first, last;
    uint8_t weekdays;
    struct bytes name;

    if (dates_parse_calendar(entry, &name))
        return dates_add_calendar(list, name, find, context, ret_error);
    if (dates_parse_weekdays(entry, &weekdays)) {
        list->weekdays |= weekdays;
    } else if (holidays_parse_span(entry, &first, &last)) {
        list->ranges[list->range_count++] = (struct dates_range){(int32_t)first, (int32_t)last};
    } else {
        return dates_check_entry(entry, ret_error);
    }
    return ERROR_NONE;
}

enum error_code dates_parse(struct bytes text, dates_find find, void *context,
                            struct dates_list *ret_list, struct error *ret_error)
{
    struct dates_list list = {.text = text};
    struct json_reader reader;
    struct json_string entry;
    enum error_code code = ERROR_NONE;
    unsigned count = 0;

    json_reader_init(&reader, text);
    if (json_peek(&reader) != JSON_ARRAY || !json_enter_array(&reader))
        return error_set(ret_error, ERROR_INVALID, "It must be an array");
    while (!code && json_next_element(&reader)) {
        if (json_peek(&reader) != JSON_STRING || !json_read_string(&reader, &entry))
            code = error_set(ret_error, ERROR_INVALID, "It must be an array of strings");
        else if (count++ == DATES_ENTRIES_MAX)
            code = error_set(ret_error, ERROR_INVALID, "There may be at most %d entries",
                             DATES_ENTRIES_MAX);
        else
            code = dates_add(&list, entry.raw, find, context, ret_error);
    }
    if (!code && (!json_finish(&reader) || !count))
        code = error_set(ret_error, ERROR_INVALID, "It must have an entry");
    if (!code)
        *ret_list = list;
    return code;
}

bool dates_move_parse(struct bytes text, enum dates_move *ret_move)
{
    for (size_t i = 0; i < sizeof(dates_move_texts) / sizeof(dates_move_texts[0]); i++)
        if (bytes_equal(text, bytes_of(dates_move_texts[i]))) {
            *ret_move = (enum dates_move)i;
            return true;
        }
    return false;
}

const char *dates_move_text(enum dates_move move)
{
    return dates_move_texts[move];
}

/* ---- days ---- */

static const struct dates_range *dates_find_range(const struct dates_list *list, int64_t day)
{
    for (size_t i = 0; i < list->range_count; i++)
        if (list->ranges[i].first <= day && day <= list->ranges[i].last)
            return &list->ranges[i];
    return NULL;
}

/* Returns the index of a calendar that names the day; calendar_count if none does. */
static size_t dates_find_calendar(const struct dates_list *list, int64_t day)
{
    size_t i = 0;

    while (i < list->calendar_count && !holidays_find(list->calendars[i].days, day))
        i++;
    return i;
}

static bool dates_names(const struct dates_list *list, int64_t day)
{
    return list->weekdays >> calendar_weekday(day) & 1 || dates_find_range(list, day) ||
           dates_find_calendar(list, day) < list->calendar_count;
}

bool dates_permit(const struct dates *dates, int64_t day)
{
    return !dates_names(&dates->except, day) &&
           (!dates->only.text.size || dates_names(&dates->only, day));
}

int64_t dates_next(const struct dates *dates, int64_t day, int64_t days_max)
{
    for (int64_t i = 0; i < days_max; i++)
        if (dates_permit(dates, day + i))
            return day + i;
    return DATES_NONE;
}

int64_t dates_last(const struct dates *dates, int64_t day, int64_t days_max)
{
    for (int64_t i = 0; i < days_max; i++)
        if (dates_permit(dates, day - i))
            return day - i;
    return DATES_NONE;
}

void dates_reason(const struct dates *dates, int64_t day, char ret_text[DATES_REASON_SIZE])
{
    const struct dates_list *list = &dates->except;
    const size_t index = dates_find_calendar(list, day);
    const struct dates_range *range = dates_find_range(list, day);

    if (index < list->calendar_count) {
        const struct holiday *holiday = holidays_find(list->calendars[index].days, day);

        snprintf(ret_text, DATES_REASON_SIZE, "%.*s%scalendar %.*s", (int)holiday->name.size,
                 holiday->name.data ? holiday->name.data : "", holiday->name.size ? ", " : "",
                 (int)list->calendars[index].name.size, list->calendars[index].name.data);
    } else if (range) {
        char first[HOLIDAYS_DAY_SIZE], last[HOLIDAYS_DAY_SIZE];

        holidays_format_day(range->first, first);
        holidays_format_day(range->last, last);
        snprintf(ret_text, DATES_REASON_SIZE, "except %s%s%s", first,
                 range->first == range->last ? "" : "/", range->first == range->last ? "" : last);
    } else if (list->weekdays >> calendar_weekday(day) & 1) {
        snprintf(ret_text, DATES_REASON_SIZE, "except %s",
                 dates_weekday_names[calendar_weekday(day)]);
    } else {
        snprintf(ret_text, DATES_REASON_SIZE, "not in only");
    }
}
