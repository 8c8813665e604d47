/*
 * ical.c - the only file that knows libical.
 *
 * libical accepts almost everything and is built for files of one's own. So the text is checked
 * before it gets there (size, UTF-8 and control characters, depth, number of events), and the rules
 * before they are expanded.
 */
#include "calendar/ical.h"

#include "base/utf8.h"
#include "calendar/calendar.h"

#include <libical/ical.h>
#include <stdlib.h>
#include <strings.h>

enum { ICAL_DEPTH_MAX = 8 };

/* Cost of the rules of a file: about a millisecond of libical for each. A daily rule that leaves
 * days out is thinned: libical visits all days. A rule costs the same again for each century that
 * begins before 1900, through which libical walks too. */
#define ICAL_COST_MAX     160
#define ICAL_COST_THINNED 64
#define ICAL_TOO_OFTEN    "repeats too often, or has too many exceptions"

struct ical_reading {
    icalcomponent *calendar;
    struct holidays_draft *draft;
    struct error *error;
    unsigned steps;    /* instances of rules, and comparisons with exceptions */
    bool has_replaced; /* an event has a RECURRENCE-ID */
    unsigned cost;     /* of the rules, see ical_check_rule */
};

/* ---- before libical ---- */

/* Appends the text as C string, with its folded lines joined and their ends a newline. Characters
 * that no file of text has are refused. */
static enum error_code ical_unfold(struct bytes text, struct buffer *lines, struct error *ret_error)
{
    char *to = buffer_reserve(lines, text.size + 2);

    if (!to)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory for a calendar");
    if (!utf8_is_text(text.data, text.data + text.size))
        return error_set(ret_error, ERROR_INVALID, "it is not UTF-8");
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];

        if (c == '\r' && i + 1 < text.size && text.data[i + 1] == '\n')
            continue;
        if (c == '\n' && i + 1 < text.size && bytes_is_blank(text.data[i + 1]))
            i++;
        else if ((unsigned char)c < ' ' && c != '\n' && c != '\t')
            return error_set(ret_error, ERROR_INVALID,
                             "it is no iCalendar: it has a control character");
        else
            to[size++] = c;
    }
    to[size++] = '\n';
    to[size] = '\0';
    lines->size = size;
    return ERROR_NONE;
}

/* Checks the depth of components, which libical frees by recursion, and the number of events. */
static enum error_code ical_check_lines(struct bytes lines, struct error *ret_error)
{
    unsigned depth = 0, events = 0;

    if (!bytes_has_prefix(lines, BYTES("BEGIN:VCALENDAR\n")))
        return error_set(ret_error, ERROR_INVALID,
                         "it is neither iCalendar, which begins with BEGIN:VCALENDAR, nor a JSON "
                         "array of dates");
    while (lines.size) {
        const struct bytes line = bytes_trim(bytes_cut(&lines, '\n'));

        if (line.size >= 5 && !strncasecmp(line.data, "BEGIN", 5)) {
            events += line.size >= 12 && !strncasecmp(line.data + 6, "VEVENT", 6);
            if (++depth > ICAL_DEPTH_MAX)
                return error_set(ret_error, ERROR_INVALID, "its components are nested too deep");
        } else if (line.size >= 4 && !strncasecmp(line.data, "END:", 4)) {
            depth -= depth > 0;
        }
    }
    if (depth)
        return error_set(ret_error, ERROR_INVALID, "it ends inside a component: an END is missing");
    if (events > ICAL_EVENTS_MAX)
        return error_set(ret_error, ERROR_TOO_MANY, "it has more than %d events", ICAL_EVENTS_MAX);
    return ERROR_NONE;
}

/* ---- one event ---- */

static int64_t ical_day(struct icaltimetype time)
{
    return calendar_days(time.year, (unsigned)time.month, (unsigned)time.day);
}

static bool ical_is_good(struct icaltimetype time)
{
    return !icaltime_is_null_time(time) && time.year >= 1 && time.year <= 9999 && time.month >= 1 &&
           time.month <= 12 && time.day >= 1 &&
           (unsigned)time.day <= calendar_month_days(time.year, (unsigned)time.month);
}

static const char *ical_text(icalcomponent *event, icalproperty_kind kind)
{
    icalproperty *property = icalcomponent_get_first_property(event, kind);
    icalvalue *value = property ? icalproperty_get_value(property) : NULL;
    const char *text = value ? icalvalue_get_text(value) : NULL;

    return text ? text : "";
}

/* Reports what is wrong with an event, which is named by its summary. */
static enum error_code ical_wrong(const struct ical_reading *reading, icalcomponent *event,
                                  enum error_code code, const char *what)
{
    return error_set(reading->error, code, "the event \"%.60s\" %s",
                     ical_text(event, ICAL_SUMMARY_PROPERTY), what);
}

/* Copies a summary; control characters, which an escape can bring, become blanks. */
static struct bytes ical_name(icalcomponent *event, char room[HOLIDAYS_NAME_SIZE_MAX + 4])
{
    const char *text = ical_text(event, ICAL_SUMMARY_PROPERTY);
    size_t size = 0;

    for (; text[size] && size < HOLIDAYS_NAME_SIZE_MAX + 3; size++)
        room[size] = (unsigned char)text[size] < ' ' || text[size] == 0x7F ? ' ' : text[size];
    room[size] = '\0';
    return (struct bytes){room, size};
}

static bool ical_is_cancelled(icalcomponent *event)
{
    return icalcomponent_get_status(event) == ICAL_STATUS_CANCELLED;
}

/* Returns the seconds from the midnight that begins the first day; false if it is negative. */
static bool ical_seconds(icalcomponent *event, struct icaltimetype start, int64_t *ret_seconds)
{
    icalproperty *end = icalcomponent_get_first_property(event, ICAL_DTEND_PROPERTY);
    icalproperty *duration = icalcomponent_get_first_property(event, ICAL_DURATION_PROPERTY);
    const int64_t from =
        start.is_date ? 0 : (int64_t)start.hour * 3600 + start.minute * 60 + start.second;

    *ret_seconds = from;
    if (end) {
        const struct icaltimetype until = icalproperty_get_dtend(end);

        if (!ical_is_good(until))
            return false;
        *ret_seconds = (ical_day(until) - ical_day(start)) * SECONDS_PER_DAY;
        if (!until.is_date)
            *ret_seconds += (int64_t)until.hour * 3600 + until.minute * 60 + until.second;
    } else if (duration) {
        const struct icaldurationtype length = icalproperty_get_duration(duration);

        if (length.is_neg)
            return false;
        *ret_seconds += ((int64_t)length.weeks * 7 + length.days) * SECONDS_PER_DAY +
                        (int64_t)length.hours * 3600 + (int64_t)length.minutes * 60 +
                        length.seconds;
    }
    return *ret_seconds >= from;
}

/* True if the day is taken out of the event's series: by EXDATE, or because an event with the same
 * UID replaces it. */
static bool ical_is_excepted(struct ical_reading *reading, icalcomponent *event, int64_t day)
{
    for (icalproperty *except = icalcomponent_get_first_property(event, ICAL_EXDATE_PROPERTY);
         except; except = icalcomponent_get_next_property(event, ICAL_EXDATE_PROPERTY)) {
        const struct icaltimetype time = icalproperty_get_exdate(except);

        reading->steps++;
        if (ical_is_good(time) && ical_day(time) == day)
            return true;
    }
    const char *uid = reading->has_replaced ? ical_text(event, ICAL_UID_PROPERTY) : "";
    icalcompiter other = icalcomponent_begin_component(reading->calendar, ICAL_VEVENT_COMPONENT);
    for (icalcomponent *at; *uid && (at = icalcompiter_deref(&other)); icalcompiter_next(&other)) {
        icalproperty *replaced = icalcomponent_get_first_property(at, ICAL_RECURRENCEID_PROPERTY);

        reading->steps++;
        if (replaced && ical_is_good(icalproperty_get_recurrenceid(replaced)) &&
            ical_day(icalproperty_get_recurrenceid(replaced)) == day &&
            !strcmp(ical_text(at, ICAL_UID_PROPERTY), uid))
            return true;
    }
    return false;
}

/* True if the list, which ends with ICAL_RECURRENCE_ARRAY_MAX, is empty or has one of the
 * values. */
static bool ical_allows(const short *list, int value, int other)
{
    size_t i = 0;

    for (; list[i] != ICAL_RECURRENCE_ARRAY_MAX; i++)
        if (list[i] == value || list[i] == other)
            return true;
    return i == 0;
}

static bool ical_has(const short *list)
{
    return list[0] != ICAL_RECURRENCE_ARRAY_MAX;
}

/* True if the weekday of the first day is one of BYDAY. */
static bool ical_allows_weekday(const struct icalrecurrencetype *rule, unsigned weekday,
                                bool *ret_has_place)
{
    bool is_allowed = !ical_has(rule->by_day);

    *ret_has_place = false;
    for (size_t i = 0; rule->by_day[i] != ICAL_RECURRENCE_ARRAY_MAX; i++) {
        is_allowed |= icalrecurrencetype_day_day_of_week(rule->by_day[i]) == weekday + 1;
        *ret_has_place |= icalrecurrencetype_day_position(rule->by_day[i]) != 0;
    }
    return is_allowed;
}

/* True if the places of BYSETPOS exist in each set that is not empty, or in every month. */
static bool ical_has_places(const struct icalrecurrencetype *rule, bool has_place)
{
    const bool is_long = !has_place && !ical_has(rule->by_month_day) &&
                         !ical_has(rule->by_year_day) && ical_has(rule->by_day) &&
                         rule->freq >= ICAL_MONTHLY_RECURRENCE;

    for (size_t i = 0; rule->by_set_pos[i] != ICAL_RECURRENCE_ARRAY_MAX; i++)
        if (abs(rule->by_set_pos[i]) > (is_long ? 4 : 1))
            return false;
    return true;
}

/* Refuses rules that cannot be those of a holiday. libical walks through the years until a rule
 * names a day, up to the year 2582, so each rule must name the event's first day, as RFC 5545 asks,
 * and have nothing that contradicts itself. */
static enum error_code ical_check_rule(struct ical_reading *reading, icalcomponent *event,
                                       const struct icalrecurrencetype *rule,
                                       struct icaltimetype start)
{
    static const unsigned costs[] = {[ICAL_DAILY_RECURRENCE] = 16,
                                     [ICAL_WEEKLY_RECURRENCE] = 8,
                                     [ICAL_MONTHLY_RECURRENCE] = 4,
                                     [ICAL_YEARLY_RECURRENCE] = 1};
    const int month_days = (int)calendar_month_days(start.year, (unsigned)start.month);
    const int of_year = (int)(ical_day(start) - calendar_days(start.year, 1, 1)) + 1;
    const unsigned ancient = start.year < 1900 ? (1999 - (unsigned)start.year) / 100 : 0;
    const bool is_thinned =
        rule->freq == ICAL_DAILY_RECURRENCE &&
        (ical_has(rule->by_month) || ical_has(rule->by_month_day) || ical_has(rule->by_year_day));
    bool has_place;

    if (rule->freq < ICAL_DAILY_RECURRENCE || rule->freq > ICAL_YEARLY_RECURRENCE)
        return ical_wrong(reading, event, ERROR_INVALID,
                          "has an RRULE that is not DAILY, WEEKLY, MONTHLY or YEARLY");
    if (ical_has(rule->by_hour) || ical_has(rule->by_minute) || ical_has(rule->by_second) ||
        ical_has(rule->by_week_no) || rule->rscale)
        return ical_wrong(reading, event, ERROR_INVALID,
                          "has an RRULE with BYWEEKNO, RSCALE or a part of the day");
    if (!ical_allows(rule->by_month, start.month, start.month) ||
        !ical_allows(rule->by_month_day, start.day, start.day - month_days - 1) ||
        !ical_allows(rule->by_year_day, of_year, of_year - 366 - calendar_is_leap(start.year)) ||
        !ical_allows_weekday(rule, calendar_weekday(ical_day(start)), &has_place))
        return ical_wrong(reading, event, ERROR_INVALID,
                          "has an RRULE that does not name its own DTSTART");
    if ((has_place && (ical_has(rule->by_month_day) || ical_has(rule->by_year_day))) ||
        !ical_has_places(rule, has_place))
        return ical_wrong(reading, event, ERROR_INVALID,
                          "has an RRULE whose places of weekdays may not exist");
    reading->cost += (is_thinned ? ICAL_COST_THINNED : costs[rule->freq]) * (1 + ancient);
    return reading->cost > ICAL_COST_MAX
               ? ical_wrong(reading, event, ERROR_TOO_MANY, "is one RRULE too many")
               : ERROR_NONE;
}

/* Ends the rule with the days that are read. */
static void ical_limit_rule(struct icalrecurrencetype *rule)
{
    const struct icaltimetype end = {.year = 2099, .month = 12, .day = 31, .is_date = 1};

    if (!rule->count && (icaltime_is_null_time(rule->until) || rule->until.year > end.year))
        rule->until = end;
}

/* Adds the days of one instance, which begins on `day`. */
static enum error_code ical_add(struct ical_reading *reading, int64_t day, int64_t days,
                                struct bytes name)
{
    return holidays_draft_add(reading->draft, day, day + days - 1, name, reading->error);
}

static enum error_code ical_expand(struct ical_reading *reading, icalcomponent *event,
                                   struct icaltimetype start, int64_t days, struct bytes name)
{
    icalproperty *property = icalcomponent_get_first_property(event, ICAL_RRULE_PROPERTY);
    struct icalrecurrencetype rule = icalproperty_get_rrule(property);
    enum error_code code = ical_check_rule(reading, event, &rule, start);

    if (code)
        return code;
    ical_limit_rule(&rule);
    icalrecur_iterator *instances = icalrecur_iterator_new(rule, start);
    if (!instances)
        return ical_wrong(reading, event, ERROR_INVALID, "has an RRULE that is not valid");
    while (!code) {
        const struct icaltimetype at = icalrecur_iterator_next(instances);

        if (icaltime_is_null_time(at) || ical_day(at) >= HOLIDAYS_DAY_END)
            break;
        if (++reading->steps > ICAL_STEPS_MAX)
            code = ical_wrong(reading, event, ERROR_TOO_MANY, ICAL_TOO_OFTEN);
        else if (ical_day(at) + days > 0 && !ical_is_excepted(reading, event, ical_day(at)))
            code = ical_add(reading, ical_day(at), days, name);
    }
    icalrecur_iterator_free(instances);
    return code;
}

/* Reads the days of RDATE; those with a period begin where it does. They are read before anything
 * else looks at the event's properties, because libical keeps one place in them. */
static enum error_code ical_read_more(struct ical_reading *reading, icalcomponent *event,
                                      struct buffer *days)
{
    for (icalproperty *more = icalcomponent_get_first_property(event, ICAL_RDATE_PROPERTY); more;
         more = icalcomponent_get_next_property(event, ICAL_RDATE_PROPERTY)) {
        const struct icaldatetimeperiodtype at = icalproperty_get_rdate(more);
        const struct icaltimetype time = icaltime_is_null_time(at.time) ? at.period.start : at.time;

        if (!ical_is_good(time))
            return ical_wrong(reading, event, ERROR_INVALID, "has an RDATE that is not valid");
        const int64_t day = ical_day(time);
        buffer_append(days, &day, sizeof(day));
    }
    return buffer_failed(days)
               ? error_set(reading->error, ERROR_NO_MEMORY, "out of memory for a calendar")
               : ERROR_NONE;
}

/* Adds the days of RDATE. */
static enum error_code ical_add_more(struct ical_reading *reading, icalcomponent *event,
                                     int64_t days, struct bytes name)
{
    struct buffer more;

    buffer_init(&more);
    enum error_code code = ical_read_more(reading, event, &more);
    for (size_t at = 0; !code && at < more.size; at += sizeof(int64_t)) {
        int64_t day;

        memcpy(&day, more.data + at, sizeof(day));
        if (++reading->steps > ICAL_STEPS_MAX)
            code = ical_wrong(reading, event, ERROR_TOO_MANY, ICAL_TOO_OFTEN);
        else if (!ical_is_excepted(reading, event, day))
            code = ical_add(reading, day, days, name);
    }
    buffer_deinit(&more);
    return code;
}

/* libical leaves out what it does not understand; without its rule an event would lose days. */
static enum error_code ical_check_event(const struct ical_reading *reading, icalcomponent *event)
{
    if (icalcomponent_get_first_property(event, ICAL_XLICERROR_PROPERTY))
        return ical_wrong(reading, event, ERROR_INVALID, "has a line that is not valid");
    if (icalcomponent_count_properties(event, ICAL_RRULE_PROPERTY) > 1 ||
        icalcomponent_count_properties(event, ICAL_DTSTART_PROPERTY) != 1)
        return ical_wrong(reading, event, ERROR_INVALID,
                          "does not have one DTSTART and at most one RRULE");
    if (icalcomponent_count_properties(event, ICAL_EXDATE_PROPERTY) > ICAL_EVENTS_MAX)
        return ical_wrong(reading, event, ERROR_TOO_MANY, "has too many EXDATEs");
    return ERROR_NONE;
}

static enum error_code ical_take_event(struct ical_reading *reading, icalcomponent *event)
{
    char room[HOLIDAYS_NAME_SIZE_MAX + 4];
    const struct bytes name = ical_name(event, room);
    enum error_code code = ical_check_event(reading, event);
    int64_t seconds;

    if (code || ical_is_cancelled(event))
        return code;
    const struct icaltimetype start =
        icalproperty_get_dtstart(icalcomponent_get_first_property(event, ICAL_DTSTART_PROPERTY));
    if (!ical_is_good(start))
        return ical_wrong(reading, event, ERROR_INVALID, "has a DTSTART that is not valid");
    if (!ical_seconds(event, start, &seconds))
        return ical_wrong(reading, event, ERROR_INVALID, "ends before it begins");
    const int64_t whole = (seconds + SECONDS_PER_DAY - 1) / SECONDS_PER_DAY;
    const int64_t days = whole > 0 ? whole : 1;
    if (icalcomponent_get_first_property(event, ICAL_RRULE_PROPERTY))
        code = ical_expand(reading, event, start, days, name);
    else if (!ical_is_excepted(reading, event, ical_day(start)) ||
             icalcomponent_get_first_property(event, ICAL_RECURRENCEID_PROPERTY))
        code = ical_add(reading, ical_day(start), days, name);
    return code ? code : ical_add_more(reading, event, days, name);
}

/* ---- all of it ---- */

static enum error_code ical_take_calendar(struct ical_reading *reading)
{
    enum error_code code = ERROR_NONE;
    icalcompiter event = icalcomponent_begin_component(reading->calendar, ICAL_VEVENT_COMPONENT);

    for (icalcompiter other = event; !reading->has_replaced && icalcompiter_deref(&other);
         icalcompiter_next(&other))
        reading->has_replaced = icalcomponent_get_first_property(icalcompiter_deref(&other),
                                                                 ICAL_RECURRENCEID_PROPERTY);
    for (icalcomponent *at; !code && (at = icalcompiter_deref(&event)); icalcompiter_next(&event))
        code = ical_take_event(reading, at);
    return code;
}

enum error_code ical_parse(struct bytes text, struct holidays_draft *draft, struct error *ret_error)
{
    struct buffer lines;
    struct ical_reading reading = {.draft = draft, .error = ret_error};

    buffer_init(&lines);
    enum error_code code = ical_unfold(text, &lines, ret_error);
    if (!code)
        code = ical_check_lines(buffer_bytes(&lines), ret_error);
    if (!code) {
        icalcomponent *root = icalparser_parse_string(lines.data);

        reading.calendar = root;
        if (!root || icalcomponent_isa(root) != ICAL_VCALENDAR_COMPONENT)
            code = error_set(ret_error, ERROR_INVALID, "it is not one VCALENDAR");
        else
            code = ical_take_calendar(&reading);
        if (root)
            icalcomponent_free(root);
    }
    buffer_deinit(&lines);
    return code;
}
