/*
 * Goal: an expression means what docs/recurrence.md says, nonsense is refused with its place, and
 * the instants are right where the clocks are changed.
 * Method: tables, with dates from a calendar; expressions by chance beside cron_oracle.h. What real
 * zones do is tested in tests/zones.
 */
#include "calendar/cron.h"

#include "calendar/cron_oracle.h"
#include "calendar/rfc3339.h"
#include "calendar/zone_testing.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BERLIN    "CET-1CEST,M3.5.0,M10.5.0/3"
#define NEW_YORK  "EST5EDT,M3.2.0,M11.1.0"
#define LORD_HOWE "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"

static struct wall cron_test_moment(const char *text)
{
    struct wall wall;

    if (rfc3339_parse(bytes_of(text), &wall, NULL))
        fail_msg("%s is no time", text);
    return wall;
}

/* ---- the language ---- */

/* From one moment on, the next few in UTC: the dates are those of a printed calendar. */
static const struct {
    const char *text, *after, *expected[3];
} plans[] = {
    {"* * * * *", "2026-11-20T23:59:59.250Z", {"2026-11-21T00:00:00Z", "2026-11-21T00:01:00Z"}},
    {"* * * * * *", "2026-11-20T23:59:59Z", {"2026-11-21T00:00:00Z", "2026-11-21T00:00:01Z"}},
    {"*/20 59 23 31 12 *",
     "2026-01-01T00:00:00Z",
     {"2026-12-31T23:59:00Z", "2026-12-31T23:59:20Z", "2026-12-31T23:59:40Z"}},
    {"30 9 * * MON-FRI", "2026-11-20T09:30:00Z", {"2026-11-23T09:30:00Z", "2026-11-24T09:30:00Z"}},
    {"0 0 * * sat-sun",
     "2026-11-20T09:30:00Z",
     {"2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-28T00:00:00Z"}},
    {"0 0 * * 7", "2026-11-20T09:30:00Z", {"2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"}},
    {"0 0 * * 5-7", "2026-11-21T00:00:00Z", {"2026-11-22T00:00:00Z", "2026-11-27T00:00:00Z"}},
    {"0 0 1 Jan,jul *", "2026-11-20T09:30:00Z", {"2027-01-01T00:00:00Z", "2027-07-01T00:00:00Z"}},
    {"10-40/15 8/6 * * *",
     "2026-11-20T14:20:00Z",
     {"2026-11-20T14:25:00Z", "2026-11-20T14:40:00Z", "2026-11-20T20:10:00Z"}},
    /* both day fields restricted: either will do; a star in one: both must */
    {"0 0 13 * FRI",
     "2026-11-10T00:00:00Z",
     {"2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z"}},
    {"0 0 13 * 1,5", "2026-12-08T00:00:00Z", {"2026-12-11T00:00:00Z", "2026-12-13T00:00:00Z"}},
    {"0 0 */2 * FRI", "2026-11-10T00:00:00Z", {"2026-11-13T00:00:00Z", "2026-11-27T00:00:00Z"}},
    {"0 0 13 * */5", "2026-01-14T00:00:00Z", {"2026-02-13T00:00:00Z", "2026-03-13T00:00:00Z"}},
    {"0 0 13 * ?", "2026-11-20T00:00:00Z", {"2026-12-13T00:00:00Z"}},
    {"0 0 ? * MON", "2026-11-20T00:00:00Z", {"2026-11-23T00:00:00Z"}},
    /* the ends of months */
    {"0 0 L * *", "2027-01-31T00:00:00Z", {"2027-02-28T00:00:00Z", "2027-03-31T00:00:00Z"}},
    {"0 0 L 2 *", "2027-03-01T00:00:00Z", {"2028-02-29T00:00:00Z", "2029-02-28T00:00:00Z"}},
    {"0 0 L-3 * *", "2027-01-28T00:00:00Z", {"2027-02-25T00:00:00Z", "2027-03-28T00:00:00Z"}},
    {"0 0 L-30 * *", "2027-01-02T00:00:00Z", {"2027-03-01T00:00:00Z", "2027-05-01T00:00:00Z"}},
    {"0 0 1,L * *", "2027-01-02T00:00:00Z", {"2027-01-31T00:00:00Z", "2027-02-01T00:00:00Z"}},
    {"0 0 29 2 *", "2096-03-01T00:00:00Z", {"2104-02-29T00:00:00Z"}},
    {"0 0 31 * *", "2026-11-20T00:00:00Z", {"2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"}},
    /* working days: 2026-08-01 is a Saturday, 2026-11-01 a Sunday, 2027-01-31 a Sunday */
    {"0 0 1W * *", "2026-07-15T00:00:00Z", {"2026-08-03T00:00:00Z", "2026-09-01T00:00:00Z"}},
    {"0 0 1W 11 *", "2026-07-15T00:00:00Z", {"2026-11-02T00:00:00Z", "2027-11-01T00:00:00Z"}},
    {"0 0 31W * *", "2026-12-31T00:00:00Z", {"2027-01-29T00:00:00Z", "2027-03-31T00:00:00Z"}},
    {"0 0 15W * *", "2026-08-01T00:00:00Z", {"2026-08-14T00:00:00Z", "2026-09-15T00:00:00Z"}},
    {"0 0 15W 11 *", "2026-08-01T00:00:00Z", {"2026-11-16T00:00:00Z"}},
    {"0 0 LW * *", "2027-01-01T00:00:00Z", {"2027-01-29T00:00:00Z", "2027-02-26T00:00:00Z"}},
    /* days of the week in their month */
    {"0 0 * * 5L", "2026-11-20T00:00:00Z", {"2026-11-27T00:00:00Z", "2026-12-25T00:00:00Z"}},
    {"0 0 * * friL", "2026-11-27T00:00:00Z", {"2026-12-25T00:00:00Z"}},
    {"0 0 * * 7L", "2026-11-20T00:00:00Z", {"2026-11-29T00:00:00Z"}},
    {"0 0 * * MON#1", "2026-11-20T00:00:00Z", {"2026-12-07T00:00:00Z", "2027-01-04T00:00:00Z"}},
    {"0 0 * * 1#5", "2026-11-20T00:00:00Z", {"2026-11-30T00:00:00Z", "2027-03-29T00:00:00Z"}},
    {"0 0 * * 0#2,TUE#2", "2026-11-20T00:00:00Z", {"2026-12-08T00:00:00Z", "2026-12-13T00:00:00Z"}},
    {"0 0 * 2 1#5", "2072-03-01T00:00:00Z", {"2112-02-29T00:00:00Z"}}, /* forty years */
    /* names */
    {"@yearly", "2026-11-20T00:00:00Z", {"2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"}},
    {"@annually", "2026-11-20T00:00:00Z", {"2027-01-01T00:00:00Z"}},
    {"@monthly", "2026-11-20T00:00:00Z", {"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"}},
    {"@weekly", "2026-11-20T00:00:00Z", {"2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"}},
    {"@daily", "2026-11-20T00:00:00Z", {"2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"}},
    {"@midnight", "2026-11-20T00:00:00Z", {"2026-11-21T00:00:00Z"}},
    {"@hourly", "2026-11-20T00:00:00Z", {"2026-11-20T01:00:00Z", "2026-11-20T02:00:00Z"}},
    /* blanks, zeros */
    {"  00\t007  01 * *  ", "2026-11-20T00:00:00Z", {"2026-12-01T07:00:00Z"}},
    {"59 59 23 31 12 ?", "9999-12-31T23:59:58Z", {"9999-12-31T23:59:59Z", NULL}},
};

/* proves: cron */
static void fires_when_a_calendar_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        struct wall at = cron_test_moment(plans[i].after);
        struct error error = {0};
        struct cron cron;

        if (cron_parse(bytes_of(plans[i].text), &cron, &error))
            fail_msg("'%s': %s", plans[i].text, error.text);
        for (size_t j = 0; j < 3 && plans[i].expected[j]; j++) {
            struct wall expected = cron_test_moment(plans[i].expected[j]);

            at = cron_next(&cron, zone_utc(), CRON_DST_SHIFT, at);
            char text[RFC3339_TEXT_SIZE];
            rfc3339_format(at, text);
            if (at.ms != expected.ms)
                fail_msg("'%s': %s, not %s", plans[i].text, text, plans[i].expected[j]);
            if (cron_last(&cron, zone_utc(), CRON_DST_SHIFT, at).ms != at.ms)
                fail_msg("'%s': %s is not its own last", plans[i].text, text);
        }
    }
}

static const struct {
    const char *text, *reason;
} nonsense[] = {
    {"", "it has 0 fields: 5 are expected, or 6 with the seconds"},
    {" \t", "it has 0 fields: 5 are expected, or 6 with the seconds"},
    {"* * * *", "it has 4 fields: 5 are expected, or 6 with the seconds"},
    {"0 0 0 1 1 ? 2027", "it has 7 fields or more: 5 are expected, or 6 with the seconds"},
    {"61 * * * *", "minute, character 1: 61 is not in 0-59"},
    {"* 24 * * *", "hour, character 3: 24 is not in 0-23"},
    {"* * 0 * *", "day of month, character 5: 0 is not in 1-31"},
    {"* * 32 * *", "day of month, character 5: 32 is not in 1-31"},
    {"* * * 13 *", "month, character 7: 13 is not in 1-12"},
    {"* * * * 8", "day of week, character 9: 8 is not in 0-7"},
    {"60 * * * * *", "second, character 1: 60 is not in 0-59"},
    {"0 0 99999999999999999999 * *", "day of month, character 5: the number is not in 1-31"},
    {"-1 * * * *", "minute, character 1: a number from 0 to 59 is expected"},
    {"5- * * * *", "minute, character 3: a number from 0 to 59 is expected"},
    {"1,,2 * * * *", "minute, character 3: a value is missing"},
    {"1, * * * *", "minute, character 3: a value is missing"},
    {",1 * * * *", "minute, character 1: a value is missing"},
    {"1.5 * * * *", "minute, character 2: what follows is not understood"},
    {"** * * * *", "minute, character 2: what follows is not understood"},
    {"*-5 * * * *", "minute, character 2: what follows is not understood"},
    {"*,5x * * * *", "minute, character 4: what follows is not understood"},
    {"40-20 * * * *", "minute, character 1: the range runs backwards, from 40 to 20"},
    {"* * * * FRI-MON", "day of week, character 9: the range runs backwards, from 5 to 1"},
    {"* * * * 7-2", "day of week, character 9: the range runs backwards, from 7 to 2"},
    {"*/0 * * * *", "minute, character 3: a step of 0 does not fit: from 1 to 59"},
    {"*/60 * * * *", "minute, character 3: a step of 60 does not fit: from 1 to 59"},
    {"* 1-5/24 * * *", "hour, character 7: a step of 24 does not fit: from 1 to 23"},
    {"*/ * * * *", "minute, character 3: a number from 0 to 999999 is expected"},
    {"*/5/5 * * * *", "minute, character 4: what follows is not understood"},
    {"? * * * *", "minute, character 1: ? is for the day of month and of week only"},
    {"* * ?,5 * *", "day of month, character 5: ? stands alone"},
    {"* * 5,? * *", "day of month, character 7: ? stands alone"},
    {"* * ?/2 * *", "day of month, character 5: ? stands alone"},
    {"* * * FOO *", "month, character 7: a number from 1 to 12 or a name such as JAN is expected"},
    {"* * * * XYZ",
     "day of week, character 9: a number from 0 to 7 or a name such as SUN is expected"},
    {"* * * JANUARY *", "month, character 10: what follows is not understood"},
    {"* MON * * *", "hour, character 3: a number from 0 to 23 is expected"},
    {"* * * * L", "day of week, character 9: L follows a day here: 5L is the month's last "
                  "Friday"},
    {"* * L-0 * *", "day of month, character 7: 0 is not in 1-30"},
    {"* * L-31 * *", "day of month, character 7: 31 is not in 1-30"},
    {"* * L-3W * *", "day of month, character 8: what follows is not understood"},
    {"* * 1-5W * *", "day of month, character 8: what follows is not understood"},
    {"* * W * *", "day of month, character 5: a number from 1 to 31 is expected"},
    {"* * * * 5#6", "day of week, character 11: 6 is not in 1-5"},
    {"* * * * 5#0", "day of week, character 11: 0 is not in 1-5"},
    {"* * * * 1-5#2", "day of week, character 12: what follows is not understood"},
    {"* * * 5L *", "month, character 8: what follows is not understood"},
    {"0 0 31 2 *", "it never fires: no month has such a day"},
    {"0 0 30W 2 *", "it never fires: no month has such a day"},
    {"0 0 31 4,6,9,11 ?", "it never fires: no month has such a day"},
    {"0 0 L-30 2 *", "it never fires: no month has such a day"},
    {"0 0 */30 2 1#5", "it never fires: no month has such a day"},
    {"@reboot", "it is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight and "
                "@hourly"},
    {"@daily ", "it is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight and "
                "@hourly"},
};

/* proves: cron, cron-bytes */
static void refuses_nonsense_with_its_place(void **state)
{
    (void)state;
    struct error error;
    struct cron cron;
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        size_t size = strlen(nonsense[i].text);
        char *exact = malloc(size + !size);

        memset(&error, 0, sizeof(error));
        memset(&cron, 0x77, sizeof(cron));
        memcpy(exact, nonsense[i].text, size);
        enum error_code code = cron_parse((struct bytes){exact, size}, &cron, &error);
        free(exact);
        if (code != ERROR_INVALID || cron.has_either_ != 0x77)
            fail_msg("'%s' was read", nonsense[i].text);
        if (strcmp(error.text, nonsense[i].reason) != 0)
            fail_msg("'%s': %s", nonsense[i].text, error.text);
    }
    char longest[CRON_TEXT_SIZE_MAX + 2];
    snprintf(longest, sizeof(longest), "%-*s", CRON_TEXT_SIZE_MAX, "* * * * *");
    assert_int_equal(cron_parse(bytes_of(longest), &cron, &error), ERROR_NONE);
    snprintf(longest, sizeof(longest), "%-*s", CRON_TEXT_SIZE_MAX + 1, "* * * * *");
    assert_int_equal(cron_parse(bytes_of(longest), &cron, &error), ERROR_INVALID);
    assert_string_equal(error.text, "it is longer than 256 characters");
}

/* proves: dst */
static void reads_the_words_of_dst(void **state)
{
    (void)state;
    enum cron_dst dst = CRON_DST_SKIP;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(cron_dst_parse(bytes_of(cron_dst_text((enum cron_dst)i)), &dst, NULL),
                         ERROR_NONE);
        assert_int_equal(dst, i);
    }
    assert_int_equal(cron_dst_parse(BYTES("Shift"), &dst, NULL), ERROR_INVALID);
    assert_int_equal(cron_dst_parse(BYTES(""), &dst, NULL), ERROR_INVALID);
    assert_string_equal(cron_dst_text(CRON_DST_BOTH), "both");
}

/* ---- where the clocks are changed ---- */

struct dst_case {
    const char *rule, *text, *after;
    enum cron_dst dst;
    const char *expected[5];
};

static void check_dst(const struct dst_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct zone *zone = zone_testing_rule(cases[i].rule);
        struct wall at = cron_test_moment(cases[i].after);

        assert_non_null(zone);
        struct cron cron;
        assert_int_equal(cron_parse(bytes_of(cases[i].text), &cron, NULL), ERROR_NONE);
        for (size_t j = 0; j < 5 && cases[i].expected[j]; j++) {
            struct wall before = {at.ms};

            at = cron_next(&cron, zone, cases[i].dst, at);
            char text[RFC3339_TEXT_SIZE];
            rfc3339_format(at, text);
            if (at.ms != cron_test_moment(cases[i].expected[j]).ms)
                fail_msg("'%s' %s: %s, not %s", cases[i].text, cron_dst_text(cases[i].dst), text,
                         cases[i].expected[j]);
            assert_int_equal(cron_last(&cron, zone, cases[i].dst, at).ms, at.ms);
            if (j)
                assert_int_equal(cron_last(&cron, zone, cases[i].dst, (struct wall){at.ms - 1}).ms,
                                 before.ms);
        }
        zone_destroy(zone);
    }
}

/* robfig/cron #541 and many before it. In Berlin 2026-03-29 has no 02:00 to 03:00, in New York
 * 2026-03-08, on Lord Howe 2026-10-04 no 02:00 to 02:30. */
static const struct dst_case skipped_hour[] = {
    {BERLIN,
     "30 2 * * *",
     "2026-03-28T12:00:00Z",
     CRON_DST_SHIFT,
     {"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
    {BERLIN,
     "30 2 * * *",
     "2026-03-28T12:00:00Z",
     CRON_DST_SKIP,
     {"2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"}},
    {BERLIN,
     "30 2 * * *",
     "2026-03-28T12:00:00Z",
     CRON_DST_FIRST,
     {"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
    {BERLIN,
     "30 2 * * *",
     "2026-03-28T12:00:00Z",
     CRON_DST_BOTH,
     {"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
    /* once, however many are skipped, and also when 03:00 is planned anyway */
    {BERLIN,
     "*/15 2,3 * * *",
     "2026-03-28T12:00:00Z",
     CRON_DST_SHIFT,
     {"2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z"}},
    /* the ends of the gap: 02:00 is skipped, 03:00 is not */
    {BERLIN,
     "0 2 * * *",
     "2026-03-28T12:00:00Z",
     CRON_DST_SHIFT,
     {"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
    {BERLIN, "0 2 * * *", "2026-03-28T12:00:00Z", CRON_DST_SKIP, {"2026-03-30T00:00:00Z"}},
    {BERLIN, "0 3 * * *", "2026-03-28T12:00:00Z", CRON_DST_SKIP, {"2026-03-29T01:00:00Z"}},
    {BERLIN,
     "59 59 2 * * *",
     "2026-03-28T12:00:00Z",
     CRON_DST_SHIFT,
     {"2026-03-29T01:00:00Z", "2026-03-30T00:59:59Z"}},
    /* the second before the jump, seen from after it */
    {BERLIN,
     "59 59 1 * * *",
     "2026-03-28T12:00:00Z",
     CRON_DST_SKIP,
     {"2026-03-29T00:59:59Z", "2026-03-29T23:59:59Z"}},
    {NEW_YORK,
     "30 2 8 3 *",
     "2026-01-01T00:00:00Z",
     CRON_DST_SHIFT,
     {"2026-03-08T07:00:00Z", "2027-03-08T07:30:00Z"}},
    {LORD_HOWE,
     "15 2 * * *",
     "2026-10-03T00:00:00Z",
     CRON_DST_SHIFT,
     {"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
    {LORD_HOWE,
     "45 2 * * *",
     "2026-10-03T00:00:00Z",
     CRON_DST_SHIFT,
     {"2026-10-03T15:45:00Z", "2026-10-04T15:45:00Z"}},
    /* a job that is planned on that one night alone */
    {BERLIN,
     "30 2 29 3 *",
     "2026-03-28T12:00:00Z",
     CRON_DST_SHIFT,
     {"2026-03-29T01:00:00Z", "2027-03-29T00:30:00Z"}},
};

/* proves: dst */
static void lesson_a_job_in_the_skipped_hour_is_not_lost(void **state)
{
    (void)state;
    check_dst(skipped_hour, sizeof(skipped_hour) / sizeof(skipped_hour[0]));
}

/* In Berlin 02:00 to 03:00 comes twice on 2026-10-25: from 00:00 UTC and from 01:00 UTC. */
/* proves: dst */
static void lesson_a_job_in_the_repeated_hour_runs_once(void **state)
{
    static const struct dst_case cases[] = {
        {BERLIN,
         "30 2 * * *",
         "2026-10-24T12:00:00Z",
         CRON_DST_SHIFT,
         {"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
        {BERLIN,
         "30 2 * * *",
         "2026-10-24T12:00:00Z",
         CRON_DST_SKIP,
         {"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
        {BERLIN,
         "30 2 * * *",
         "2026-10-24T12:00:00Z",
         CRON_DST_FIRST,
         {"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
        {BERLIN,
         "30 2 * * *",
         "2026-10-24T12:00:00Z",
         CRON_DST_BOTH,
         {"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
        {BERLIN,
         "0 2,3 * * *",
         "2026-10-24T12:00:00Z",
         CRON_DST_SHIFT,
         {"2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"}},
        {BERLIN,
         "0 2,3 * * *",
         "2026-10-24T12:00:00Z",
         CRON_DST_BOTH,
         {"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
        {BERLIN, "59 59 2 * * *", "2026-10-25T00:59:59Z", CRON_DST_FIRST, {"2026-10-26T01:59:59Z"}},
        {LORD_HOWE,
         "45 1 * * *",
         "2026-04-04T00:00:00Z",
         CRON_DST_BOTH,
         {"2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-05T15:15:00Z"}},
        {LORD_HOWE,
         "45 1 * * *",
         "2026-04-04T00:00:00Z",
         CRON_DST_SHIFT,
         {"2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"}},
    };

    (void)state;
    check_dst(cases, sizeof(cases) / sizeof(cases[0]));
}

/* A job for every quarter of an hour must not be silent for an hour of real time; `first` asks for
 * just that. */
static void what_is_planned_for_each_hour_does_not_pause(void **state)
{
    static const struct dst_case cases[] = {
        {BERLIN,
         "*/30 * * * *",
         "2026-10-25T00:00:00Z",
         CRON_DST_SHIFT,
         {"2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z",
          "2026-10-25T02:00:00Z"}},
        {BERLIN,
         "*/30 0-23 * * *",
         "2026-10-25T00:00:00Z",
         CRON_DST_SKIP,
         {"2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z",
          "2026-10-25T02:00:00Z"}},
        {BERLIN,
         "*/30 * * * *",
         "2026-10-25T00:00:00Z",
         CRON_DST_FIRST,
         {"2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"}},
        {BERLIN,
         "*/30 1-23 * * *",
         "2026-10-25T00:00:00Z",
         CRON_DST_SHIFT,
         {"2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"}},
        {BERLIN,
         "30 * * * *",
         "2026-03-29T00:00:00Z",
         CRON_DST_SHIFT,
         {"2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"}},
        {BERLIN,
         "30 * * * *",
         "2026-03-29T00:00:00Z",
         CRON_DST_SKIP,
         {"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"}},
    };

    (void)state;
    check_dst(cases, sizeof(cases) / sizeof(cases[0]));
}

/* Samoa had no 30 December 2011, and Manila shows what two of a day would be. */
static void a_whole_day_may_be_skipped_or_come_twice(void **state)
{
    const struct zone_change skipped = {1325239200, 14 * 3600}; /* 2011-12-30T10:00:00Z */
    const struct zone_change repeated = {1325239200, -10 * 3600};
    struct zone *zone = zone_testing_changes(-10 * 3600, &skipped, 1, NULL);
    struct wall after = cron_test_moment("2011-12-29T20:00:00Z");

    (void)state;
    struct cron cron;
    assert_int_equal(cron_parse(BYTES("0 12 * * *"), &cron, NULL), ERROR_NONE);
    struct wall at = cron_next(&cron, zone, CRON_DST_SHIFT, after);
    assert_int_equal(at.ms, cron_test_moment("2011-12-29T22:00:00Z").ms);
    at = cron_next(&cron, zone, CRON_DST_SHIFT, at); /* noon of the 30th */
    assert_int_equal(at.ms, cron_test_moment("2011-12-30T10:00:00Z").ms);
    at = cron_next(&cron, zone, CRON_DST_SHIFT, at);
    assert_int_equal(at.ms, cron_test_moment("2011-12-30T22:00:00Z").ms);
    zone_destroy(zone);

    zone = zone_testing_changes(14 * 3600, &repeated, 1, NULL);
    after = cron_test_moment("2011-12-29T21:00:00Z"); /* 11:00 of the 30th */
    at = cron_next(&cron, zone, CRON_DST_BOTH, after);
    assert_int_equal(at.ms, cron_test_moment("2011-12-29T22:00:00Z").ms);
    assert_int_equal(cron_next(&cron, zone, CRON_DST_BOTH, at).ms,
                     cron_test_moment("2011-12-30T22:00:00Z").ms);
    assert_int_equal(cron_next(&cron, zone, CRON_DST_FIRST, at).ms,
                     cron_test_moment("2011-12-31T22:00:00Z").ms);
    zone_destroy(zone);
}

/* Each last Sunday of March, at half past two: there is none in Berlin. */
/* proves: dst */
static void what_no_clock_shows_never_fires_with_skip(void **state)
{
    struct zone *zone = zone_testing_rule(BERLIN);
    struct wall after = cron_test_moment("2026-01-01T00:00:00Z");

    (void)state;
    struct cron cron;
    assert_int_equal(cron_parse(BYTES("30 2 * 3 0L"), &cron, NULL), ERROR_NONE);
    assert_int_equal(cron_next(&cron, zone, CRON_DST_SKIP, after).ms, WALL_NEVER.ms);
    assert_int_equal(cron_last(&cron, zone, CRON_DST_SKIP, WALL_NEVER).ms, WALL_NEVER.ms);
    assert_int_equal(cron_next(&cron, zone, CRON_DST_SHIFT, after).ms,
                     cron_test_moment("2026-03-29T01:00:00Z").ms);
    zone_destroy(zone);
}

static void ends_with_the_year_9999_and_begins_with_1970(void **state)
{
    struct zone *zone = zone_testing_rule("<+14>-14");

    (void)state;
    struct cron cron;
    assert_int_equal(cron_parse(BYTES("* * * * * *"), &cron, NULL), ERROR_NONE);
    assert_int_equal(cron_next(&cron, zone, CRON_DST_SHIFT, (struct wall){0}).ms, 1000);
    assert_int_equal(cron_last(&cron, zone, CRON_DST_SHIFT, (struct wall){0}).ms, 0);
    assert_int_equal(cron_last(&cron, zone, CRON_DST_SHIFT, WALL_NEVER).ms, WALL_MS_MAX - 999);
    assert_int_equal(cron_next(&cron, zone, CRON_DST_SHIFT, (struct wall){WALL_MS_MAX - 1000}).ms,
                     WALL_MS_MAX - 999);
    assert_int_equal(cron_next(&cron, zone, CRON_DST_SHIFT, (struct wall){WALL_MS_MAX - 999}).ms,
                     WALL_NEVER.ms);
    assert_int_equal(cron_next(&cron, zone, CRON_DST_SHIFT, WALL_NEVER).ms, WALL_NEVER.ms);
    assert_int_equal(cron_parse(BYTES("0 0 1 1 *"), &cron, NULL), ERROR_NONE);
    /* New Year of 1970 was before 1970-01-01T00:00:00Z there, that of 10000 is before the end */
    assert_int_equal(cron_last(&cron, zone, CRON_DST_SHIFT, (struct wall){1000}).ms, WALL_NEVER.ms);
    assert_int_equal(cron_last(&cron, zone, CRON_DST_SHIFT, WALL_NEVER).ms,
                     cron_test_moment("9999-12-31T10:00:00Z").ms);
    zone_destroy(zone);
}

/* ---- by chance ---- */

/* The oracle looks at each day of some years, and at each second of a few planned days. */
static void check_readings(const char *text, struct cron_oracle *oracle, const struct cron *cron,
                           int64_t reading)
{
    int64_t next = cron_reading_next(cron, reading), at = reading;

    if (next == CRON_READING_NONE)
        fail_msg("'%s' has nothing after %lld", text, (long long)reading);
    struct cron_moment moment = oracle_moment(next);
    if (next < reading || !oracle_plans(oracle, &moment))
        fail_msg("'%s': %lld is not planned", text, (long long)next);
    /* Nothing between: first the seconds up to midnight, then day by day, then seconds again. */
    for (int64_t end = (floor_divide(at, SECONDS_PER_DAY) + 1) * SECONDS_PER_DAY;
         at < next && at < end; at++) {
        moment = oracle_moment(at);
        if (oracle_plans(oracle, &moment))
            fail_msg("'%s': %lld was passed over", text, (long long)at);
    }
    int64_t day;
    for (day = floor_divide(at, SECONDS_PER_DAY); (day + 1) * SECONDS_PER_DAY <= next; day++) {
        moment = oracle_moment(day * SECONDS_PER_DAY);
        if (oracle_date(oracle, &moment))
            fail_msg("'%s': the day %lld was passed over", text, (long long)day);
    }
    for (at = day * SECONDS_PER_DAY > at ? day * SECONDS_PER_DAY : at; at < next; at++) {
        moment = oracle_moment(at);
        if (oracle_plans(oracle, &moment))
            fail_msg("'%s': %lld was passed over", text, (long long)at);
    }
    int64_t last = cron_reading_last(cron, next);
    if (last != next)
        fail_msg("'%s': the last at %lld is %lld", text, (long long)next, (long long)last);
    last = cron_reading_last(cron, next - 1);
    if (last != CRON_READING_NONE && (last >= reading || cron_reading_next(cron, last + 1) != next))
        fail_msg("'%s': before %lld is %lld", text, (long long)next, (long long)last);
}

/* proves: cron */
static void agrees_with_the_oracle_on_expressions_by_chance(void **state)
{
    static struct cron_oracle oracle;
    struct random random = random_seeded(testing_seed());

    (void)state;
    unsigned refused = 0;
    for (unsigned run = 0; run < 300; run++) {
        char text[ORACLE_TEXT_SIZE];

        oracle_random(&random, (int)(run % 2), text);
        bool is_one = oracle_read(bytes_of(text), &oracle);
        struct cron cron;
        if ((cron_parse(bytes_of(text), &cron, NULL) == ERROR_NONE) != is_one)
            fail_msg("'%s' is %s", text, is_one ? "one" : "none");
        refused += !is_one;
        for (unsigned i = 0; is_one && i < 4; i++)
            check_readings(text, &oracle, &cron,
                           (int64_t)random_below(&random, (uint64_t)200 * 366 * SECONDS_PER_DAY));
    }
    assert_true(refused < 100);
}

/* A day of the week as a number beside `?` is Quartz's, or cron's: the names for both are told. */
/* proves: cron-quartz */
static void tells_the_names_of_numbers_beside_a_question_mark(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"0 0 9 ? * 2-6",
         "day of week, character 11: beside ? write names: MON-FRI, if SUN is 1 as "
         "in Quartz, or TUE-SAT, if SUN is 0 as in cron"},
        {"0 9 ? * 1",
         "day of week, character 9: beside ? write names: SUN, if SUN is 1 as in Quartz, "
         "or MON, if SUN is 0 as in cron"},
        {"0 0 9 ? * MON,7",
         "day of week, character 11: beside ? write names: MON,SAT, if SUN is 1 as "
         "in Quartz, or MON,SUN, if SUN is 0 as in cron"},
        {"0 0 9 ? * 6L", "day of week, character 11: beside ? write names: FRIL, if SUN is 1 as in "
                         "Quartz, or SATL, if SUN is 0 as in cron"},
        {"0 0 9 ? * 6#3",
         "day of week, character 11: beside ? write names: FRI#3, if SUN is 1 as in "
         "Quartz, or SAT#3, if SUN is 0 as in cron"},
        {"0\t0 9 ? * 2/2",
         "day of week, character 11: beside ? write names: MON/2, if SUN is 1 as in "
         "Quartz, or TUE/2, if SUN is 0 as in cron"},
        {"0 0 9 ? * MON-FRI", NULL},
        {"0 0 9 ? * MON#2", NULL},
        {"0 0 9 ? * */2", NULL},
        {"0 0 9 ? * ?", NULL},
        {"0 0 9 * * 2-6", NULL},
        {"0 0 9 15 * ?", NULL},
        {"@daily", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error error = {.text = ""};
        struct cron cron;

        assert_int_equal(cron_parse(bytes_of(cases[i].text), &cron, NULL), ERROR_NONE); /* stored */
        const enum error_code code = cron_check_weekdays(bytes_of(cases[i].text), &error);
        assert_int_equal(code, cases[i].reason ? ERROR_INVALID : ERROR_NONE);
        assert_string_equal(error.text, cases[i].reason ? cases[i].reason : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fires_when_a_calendar_says),
        cmocka_unit_test(refuses_nonsense_with_its_place),
        cmocka_unit_test(tells_the_names_of_numbers_beside_a_question_mark),
        cmocka_unit_test(reads_the_words_of_dst),
        cmocka_unit_test(lesson_a_job_in_the_skipped_hour_is_not_lost),
        cmocka_unit_test(lesson_a_job_in_the_repeated_hour_runs_once),
        cmocka_unit_test(what_is_planned_for_each_hour_does_not_pause),
        cmocka_unit_test(a_whole_day_may_be_skipped_or_come_twice),
        cmocka_unit_test(what_no_clock_shows_never_fires_with_skip),
        cmocka_unit_test(ends_with_the_year_9999_and_begins_with_1970),
        cmocka_unit_test(agrees_with_the_oracle_on_expressions_by_chance),
    };

    return cmocka_run_group_tests_name("cron", tests, NULL, NULL);
}
