/*
 * Goal: a calendar names exactly the days that its file means, for files as they are published, and
 * refuses what it cannot understand whole.
 * Method: real holidays and rules whose days other programs computed (holidays_testing.h), tables
 * of files that are wrong, and files at each limit and beyond it.
 */
#include "calendar/holidays.h"

#include "calendar/calendar.h"
#include "calendar/holidays_testing.h"
#include "calendar/ical.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define EVENT(lines) \
    "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:x\r\n" lines "END:VEVENT\r\nEND:VCALENDAR\r\n"

static struct holidays *parse(struct bytes text)
{
    struct holidays *holidays;
    struct error error;

    if (holidays_parse(text, &holidays, &error))
        fail_msg("%s", error.text);
    holidays_check(holidays);
    return holidays;
}

static void check_refused(struct bytes text, enum error_code code, const char *reason)
{
    struct holidays *holidays = NULL;
    struct error error = {.text = ""};

    assert_int_equal(holidays_parse(text, &holidays, &error), code);
    assert_null(holidays);
    if (!strstr(error.text, reason))
        fail_msg("not \"%s\" but \"%s\"", reason, error.text);
}

/* Checks all days from 2026 to 2028. The name of a day is one of those that the table has. */
static void check_days(const struct holidays *holidays, const struct holidays_testing_day *days,
                       size_t count)
{
    size_t next = 0;

    for (int64_t day = calendar_days(2026, 1, 1); day < calendar_days(2029, 1, 1); day++) {
        const struct holiday *holiday = holidays_find(holidays, day);
        char text[HOLIDAYS_DAY_SIZE], name[HOLIDAYS_NAME_SIZE_MAX + 1];

        holidays_format_day(day, text);
        const bool is_named = next < count && strcmp(days[next].day, text) == 0;
        if (is_named != !!holiday)
            fail_msg("%s is %s", text, holiday ? "named" : "not named");
        if (!holiday)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)holiday->name.size, holiday->name.data);
        if (!strstr(days[next++].name, name))
            fail_msg("%s is called %s", text, name);
    }
    assert_int_equal(next, count);
}

/* proves: ical-days */
static void published_holidays(void **state)
{
    const size_t count = sizeof(holidays_testing_bavaria) / sizeof(holidays_testing_bavaria[0]);
    struct buffer text, json;

    (void)state;
    buffer_init(&text);
    buffer_init(&json);
    buffer_append_text(&text, "\xEF\xBB\xBF"
                              "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n");
    for (size_t i = 0; i < count; i++) {
        const char *day = holidays_testing_bavaria[i].day;

        buffer_printf(&text,
                      "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:%.4s%.2s%s\r\nSUMMARY:%s\r\n"
                      "TRANSP:TRANSPARENT\r\nEND:VEVENT\r\n",
                      day, day + 5, day + 8, holidays_testing_bavaria[i].name);
        buffer_printf(&json, "%s{\"date\":\"%s\",\"name\":\"%s\"}", i ? "," : " [", day,
                      holidays_testing_bavaria[i].name);
    }
    buffer_append_text(&text, "END:VCALENDAR\r\n");
    buffer_append_text(&json, "]\n");
    struct holidays *holidays = parse(buffer_bytes(&text));
    check_days(holidays, holidays_testing_bavaria, count);
    holidays_leave(holidays);
    holidays = parse(buffer_bytes(&json));
    check_days(holidays, holidays_testing_bavaria, count);
    holidays_leave(holidays);
    buffer_deinit(&text);
    buffer_deinit(&json);
}

/* proves: ical-days */
static void rules_of_holidays(void **state)
{
    struct holidays *holidays = parse(bytes_of(holidays_testing_rules));

    (void)state;
    check_days(holidays, holidays_testing_rule_days,
               sizeof(holidays_testing_rule_days) / sizeof(holidays_testing_rule_days[0]));
    assert_non_null(holidays_find(holidays, calendar_days(2099, 7, 4)));
    assert_null(holidays_find(holidays, calendar_days(2100, 7, 4)));
    assert_null(holidays_find(holidays, -1));
    holidays_leave(holidays);
}

static void dates_as_json(void **state)
{
    struct holidays *holidays = parse(BYTES("[\"2026-12-24/2027-01-01\", \"2026-12-31\", "
                                            "{\"name\":\"caf\\u00e9\", \"date\":\"2028-02-29\"}]"));
    size_t count;

    (void)state;
    assert_int_equal(holidays_all(holidays, &count)[0].first, calendar_days(2026, 12, 24));
    assert_int_equal(count, 2);
    assert_true(bytes_equal(holidays_find(holidays, calendar_days(2028, 2, 29))->name,
                            BYTES("caf\xC3\xA9")));
    holidays_leave(holidays);
    holidays = parse(BYTES("[]"));
    assert_null(holidays_find(holidays, 0));
    holidays_leave(holidays);
}

static void what_is_refused(void **state)
{
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"", "neither iCalendar"},
        {"<html>", "neither iCalendar"},
        {"{}", "neither iCalendar"},
        {"[\"2026-02-29\"]", "element 1 has no date"},
        {"[\"2026-12-24/2026-12-23\"]", "element 1 has no date"},
        {"[\"2026-12-24/\"]", "element 1 has no date"},
        {"[\"2026-12-24\", 7]", "element 2 is neither"},
        {"[{\"date\":\"2026-12-24\",\"date\":\"2026-12-25\"}]", "element 1 is neither"},
        {"[{\"name\":\"x\"}]", "element 1 has no date"},
        {"[{\"date\":\"2026-12-24\",\"name\":\"a\\u0001\"}]", "control character"},
        {"[\"2026-12-24\"", "not valid JSON"},
        {"[\"2026-12-24\"] x", "not valid JSON"},
        {"BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "an END is missing"},
        {"BEGIN:VCALENDAR\nSUMMARY:\x01\nEND:VCALENDAR\n", "control character"},
        {"BEGIN:VCALENDAR\nSUMMARY:\xFF\nEND:VCALENDAR\n", "not UTF-8"},
        {EVENT("DTSTART:tomorrow\r\n"), "not valid"},
        {EVENT("DTSTART;VALUE=DATE:20260230\r\n"), "DTSTART"},
        {EVENT(""), "DTSTART"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nDTEND;VALUE=DATE:20251231\r\n"), "ends before"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nDURATION:-P1D\r\n"), "ends before"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=SECONDLY\r\n"),
         "RRULE that is not DAILY"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=HOURLY;COUNT=2\r\n"), "not DAILY"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=YEARLY;BYMONTH=13\r\n"), "RRULE"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=FANCY\r\n"), "not valid"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30\r\n"),
         "does not name its own DTSTART"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\n"
               "RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYMONTHDAY=1;BYSETPOS=7\r\n"),
         "places of weekdays"},
        {EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=MONTHLY;BYDAY=5MO;BYMONTHDAY=5\r\n"),
         "places of weekdays"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=YEARLY;BYWEEKNO=1\r\n"), "BYWEEKNO"},
        {EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=YEARLY\r\nRRULE:FREQ=DAILY\r\n"),
         "at most one RRULE"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_refused(bytes_of(rows[i].text), ERROR_INVALID, rows[i].reason);
}

static void repeat(struct buffer *text, const char *begin, const char *lines, const char *end,
                   int count)
{
    buffer_clear(text);
    buffer_append_text(text, begin);
    for (int i = 0; i < count; i++)
        buffer_append_text(text, lines);
    buffer_append_text(text, end);
}

/* proves: calendar-file, calendar-events, calendar-days, calendar-rules */
static void limits(void **state)
{
    static const char event[] = "BEGIN:VEVENT\nDTSTART;VALUE=DATE:20260101\nEND:VEVENT\n";
    static const char yearly[] =
        "BEGIN:VEVENT\nDTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY\nEND:VEVENT\n";
    /* libical visits each day, and each year from the first one */
    static const char thinned[] = "BEGIN:VEVENT\nDTSTART;VALUE=DATE:19700101\n"
                                  "RRULE:FREQ=DAILY;BYMONTH=1;BYMONTHDAY=1\nEND:VEVENT\n";
    static const char ancient[] =
        "BEGIN:VEVENT\nDTSTART;VALUE=DATE:17760704\nRRULE:FREQ=YEARLY\nEND:VEVENT\n";
    static const char begin[] = "BEGIN:VCALENDAR\n", end[] = "END:VCALENDAR\n";
    struct buffer text;

    (void)state;
    buffer_init(&text);
    repeat(&text, begin, event, end, ICAL_EVENTS_MAX);
    holidays_leave(parse(buffer_bytes(&text)));
    repeat(&text, begin, event, end, ICAL_EVENTS_MAX + 1);
    check_refused(buffer_bytes(&text), ERROR_TOO_MANY, "more than 2000 events");
    repeat(&text, begin, yearly, end, 161);
    check_refused(buffer_bytes(&text), ERROR_TOO_MANY, "more than 8192 days");
    repeat(&text, begin, thinned, end, 2);
    holidays_leave(parse(buffer_bytes(&text)));
    repeat(&text, begin, thinned, end, 3);
    check_refused(buffer_bytes(&text), ERROR_TOO_MANY, "one RRULE too many");
    repeat(&text, begin, ancient, end, 50);
    holidays_leave(parse(buffer_bytes(&text)));
    repeat(&text, begin, ancient, end, 54);
    check_refused(buffer_bytes(&text), ERROR_TOO_MANY, "one RRULE too many");
    repeat(&text, "[", "\"2026-01-01\",", "\"2026-01-01\"]", HOLIDAYS_SPANS_MAX - 1);
    holidays_leave(parse(buffer_bytes(&text)));
    repeat(&text, "[", "\"2026-01-01\",", "\"2026-01-01\"]", HOLIDAYS_SPANS_MAX);
    check_refused(buffer_bytes(&text), ERROR_TOO_MANY, "more than 8192 days");
    repeat(&text, begin, "BEGIN:VTODO\n", end, 50000);
    check_refused(buffer_bytes(&text), ERROR_INVALID, "nested too deep");
    repeat(&text, begin, "BEG\n IN:VTODO\n", end, 9);
    check_refused(buffer_bytes(&text), ERROR_INVALID, "nested too deep");
    repeat(&text, "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY\n",
           "EXDATE;VALUE=DATE:20260102\n", "END:VEVENT\nEND:VCALENDAR\n", 1500);
    check_refused(buffer_bytes(&text), ERROR_TOO_MANY, "too many exceptions");
    repeat(&text, "[", " ", "]", HOLIDAYS_BYTES_MAX - 2);
    holidays_leave(parse(buffer_bytes(&text)));
    repeat(&text, "[", " ", "]", HOLIDAYS_BYTES_MAX - 1);
    check_refused(buffer_bytes(&text), ERROR_TOO_MANY, "1048576 bytes");
    buffer_deinit(&text);
}

static void long_names_are_cut(void **state)
{
    struct buffer text;
    struct holidays *holidays;

    (void)state;
    buffer_init(&text);
    repeat(&text, "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260101\nSUMMARY:a",
           "\xC3\xA9", "\nEND:VEVENT\nEND:VCALENDAR\n", 100);
    holidays = parse(buffer_bytes(&text));
    assert_int_equal(holidays_find(holidays, calendar_days(2026, 1, 1))->name.size,
                     HOLIDAYS_NAME_SIZE_MAX - 1);
    holidays_leave(holidays);
    buffer_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_holidays),
        cmocka_unit_test(rules_of_holidays),
        cmocka_unit_test(dates_as_json),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(limits),
        cmocka_unit_test(long_names_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
