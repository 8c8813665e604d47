/*
 * Goal: a zone says when its clocks are changed, for ever, and a file that is not wholly right is
 * refused.
 * Method: files made up byte by byte, whole and damaged in every place. The real ones, beside the
 * C library, are in tests/zones.
 */
#include "calendar/zone.h"

#include "calendar/calendar.h"
#include "base/random.h"
#include "calendar/rfc3339.h"
#include "calendar/zone_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

static int64_t zone_test_moment(const char *text)
{
    struct wall wall;

    if (rfc3339_parse(bytes_of(text), &wall, NULL))
        fail_msg("%s is no time", text);
    return (int64_t)(wall.ms / 1000);
}

static void utc_never_changes(void **state)
{
    struct zone_stretch stretch =
        zone_stretch_at(zone_utc(), zone_test_moment("2026-11-20T00:00:00Z"));

    (void)state;
    zone_check(zone_utc());
    assert_int_equal(stretch.offset_s, 0);
    assert_true(stretch.start == INT64_MIN && stretch.end == INT64_MAX);
    zone_destroy((struct zone *)zone_utc());
    zone_destroy(NULL);
    assert_int_equal(zone_stretch_at(zone_utc(), 0).offset_before_s, 0);
}

/* Two changes of each rule, from calendars; and the same 400 and 7600 years later. */
static void follows_rules(void **state)
{
    static const struct {
        const char *rule, *first, *second;
        int32_t before_s, between_s;
    } cases[] = {
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", 3600, 7200},
        {"EST5EDT,M3.2.0,M11.1.0", "2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z", -18000, -14400},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-04-04T16:00:00Z", "2026-10-03T16:00:00Z", 39600,
         36000},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", 0, 3600},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z",
         39600, 37800},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", -7200,
         -3600},
        {"EET-2EEST,M3.4.4/50,M10.4.4/50", "2026-03-28T00:00:00Z", "2026-10-23T23:00:00Z", 7200,
         10800},
        {"XYZ0:00:30ZYX-1:00:30,J59/0,J60/24:30:15", "2026-02-28T00:00:30Z", "2026-03-01T23:29:45Z",
         -30, 3630},
        {"ABC0DEF,59,60", "2026-03-01T02:00:00Z", "2026-03-02T01:00:00Z", 0, 3600},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct zone *zone = zone_testing_rule(cases[i].rule);

        if (!zone)
            fail_msg("%s was refused", cases[i].rule);
        zone_check(zone);
        for (int64_t cycles = 0; cycles <= 19; cycles += cycles ? 18 : 1) {
            int64_t later = cycles * DAYS_PER_400_YEARS * SECONDS_PER_DAY;
            int64_t first = zone_test_moment(cases[i].first) + later;
            int64_t second = zone_test_moment(cases[i].second) + later;
            struct zone_stretch stretch = zone_stretch_at(zone, first);

            if (stretch.start != first || stretch.end != second ||
                stretch.offset_before_s != cases[i].before_s ||
                stretch.offset_s != cases[i].between_s)
                fail_msg("%s: %lld, %lld", cases[i].rule, (long long)stretch.start,
                         (long long)stretch.end);
            stretch = zone_stretch_at(zone, first - 1);
            assert_int_equal(stretch.end, first);
            assert_int_equal(stretch.offset_s, cases[i].before_s);
        }
        zone_destroy(zone);
    }
}

/* In a leap year day J60 is still the first of March, and day 59 is the leap day. */
static void counts_days_with_and_without_the_leap_day(void **state)
{
    struct zone *zone = zone_testing_rule("ABC0DEF,J60/0,J200");

    (void)state;
    assert_int_equal(zone_stretch_at(zone, zone_test_moment("2028-03-05T00:00:00Z")).start,
                     zone_test_moment("2028-03-01T00:00:00Z"));
    zone_destroy(zone);
    zone = zone_testing_rule("ABC0DEF,59/0,200");
    assert_int_equal(zone_stretch_at(zone, zone_test_moment("2028-03-05T00:00:00Z")).start,
                     zone_test_moment("2028-02-29T00:00:00Z"));
    zone_destroy(zone);
}

/* RFC 9636 writes summer time all year as one that ends when the next begins. */
static void summer_all_year_never_changes(void **state)
{
    struct zone *zone = zone_testing_rule("XXX3EDT4,0/0,J365/23");

    (void)state;
    assert_non_null(zone);
    zone_check(zone);
    struct zone_stretch stretch = zone_stretch_at(zone, zone_test_moment("2026-11-20T00:00:00Z"));
    assert_int_equal(stretch.offset_s, -4 * 3600);
    assert_true(stretch.start == INT64_MIN && stretch.end == INT64_MAX);
    zone_destroy(zone);
}

static void refuses_rules(void **state)
{
    static const char *const rules[] = {
        "C",
        "CE-1",
        "CET",
        "CET-",
        "CET-25",
        "CET-1:60",
        "CET-1:00:60",
        "CET-1:",
        "CET-001:5555",
        "<CET-1",
        "<C>-1",
        "CET-1 ",
        " CET-1",
        "C3T-1",
        "<C_T>-1",
        "CET-1CEST",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M3.5.0,M10.5.0/3,",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5,M10.5.0",
        "CET-1CEST,J0,J200",
        "CET-1CEST,J366,J200",
        "CET-1CEST,366,J200",
        "CET-1CEST,M3.5.0/168,M10.5.0",
        "CET-1CEST,M3.5.0/-168,M10.5.0",
        "CET-1CEST,M3.5.0/,M10.5.0",
        "CET-1CE,M3.5.0,M10.5.0",
        "CET-1CEST-25,M3.5.0,M10.5.0",
        /* so soon after one another that a reading would come three times, or be doubtful */
        "ABC0DEF,J100/0,J100/2",
        "ABC0DEF-20,J100/0,J101/0",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (zone_testing_rule(rules[i]))
            fail_msg("'%s' was read", rules[i]);
}

static void follows_the_table_then_the_footer(void **state)
{
    const struct zone_change changes[] = {
        {-1000000000, 1800},             /* before 1969: only its effect is kept */
        {1000000000, 3600},              /* 2001-09-09 */
        {1100000000, 3600},              /* no change */
        {1767225600, 3600 + 1800},       /* 2026-01-01 */
        {1767225600 + 86400 * 30, 3600}, /* 2026-01-31 */
    };
    struct zone *zone = zone_testing_changes(100, changes, 5, "CET-1CEST,M3.5.0,M10.5.0/3");

    (void)state;
    assert_non_null(zone);
    zone_check(zone);
    struct zone_stretch stretch = zone_stretch_at(zone, 0);
    assert_true(stretch.start == INT64_MIN && stretch.end == 1000000000);
    assert_int_equal(stretch.offset_s, 1800);
    assert_int_equal(stretch.offset_before_s, 1800);
    stretch = zone_stretch_at(zone, 1000000000);
    assert_int_equal(stretch.start, 1000000000);
    assert_int_equal(stretch.end, 1767225600);
    assert_int_equal(stretch.offset_before_s, 1800);
    assert_int_equal(zone_stretch_at(zone, 1767225600).offset_s, 5400);
    stretch = zone_stretch_at(zone, 1767225600 + 86400 * 30);
    assert_int_equal(stretch.end, zone_test_moment("2026-03-29T01:00:00Z"));
    assert_int_equal(zone_stretch_at(zone, stretch.end).offset_s, 7200);
    zone_destroy(zone);

    zone = zone_testing_changes(100, changes, 4, NULL); /* no footer: the last offset stays */
    assert_int_equal(zone_stretch_at(zone, zone_test_moment("9999-07-01T00:00:00Z")).offset_s,
                     5400);
    zone_destroy(zone);
    assert_null(zone_testing_changes(100, changes, 4, "CET-1CEST,M3.5.0,M10.5.0/3"));
    assert_null(zone_testing_changes(100, changes, 5, "EET-2"));
    assert_null(zone_testing_changes(26 * 3600, NULL, 0, NULL));
}

static void refuses_changes_that_touch(void **state)
{
    const struct zone_change far[] = {{1000000000, 3600}, {1000000000 + 7200, 0}};
    const struct zone_change near[] = {{1000000000, 3600}, {1000000000 + 7199, 0}};
    const struct zone_change disordered[] = {{1000000000, 3600}, {1000000000, 0}};
    const struct zone_change beyond[] = {{INT64_C(253402300800), 3600}};
    struct zone *zone = zone_testing_changes(0, far, 2, NULL);

    (void)state;
    assert_non_null(zone);
    zone_check(zone);
    zone_destroy(zone);
    assert_null(zone_testing_changes(0, near, 2, NULL));
    assert_null(zone_testing_changes(0, disordered, 2, NULL));
    assert_null(zone_testing_changes(0, beyond, 1, NULL));
}

/* proves: zone-file */
static void refuses_files_with_the_reason(void **state)
{
    const struct zone_change change = {1000000000, 3600};
    static const struct {
        size_t at; /* in the second header, or behind it */
        const char *put, *reason;
    } cases[] = {
        {0, "TZIF", "it does not begin with TZif"},
        {4, "1", "its version is older than 2"},
        {32, "\x01", "it is over a limit"},
        {31, "\x01", "it ends within its data"},
        {31 - 8, "\x01", "its counts do not agree"},
        {44 + 8, "\x02", "a transition has no type"},
        {44 + 9, "\x01", "an offset is larger than 26 hours"},
        {44 + 9 + 4, "\x02", "a type is damaged"},
        {44 + 9 + 5, "\x04", "a type is damaged"},
    };

    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    struct error error;
    struct zone *zone;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        buffer_clear(&buffer);
        zone_testing_file(&buffer, 0, &change, 1, "CET-1");
        size_t second = 44 + 6 + 4;
        memcpy(buffer.data + second + cases[i].at, cases[i].put, strlen(cases[i].put));
        assert_int_equal(zone_parse(buffer_bytes(&buffer), &zone, &error), ERROR_INVALID);
        if (!strstr(error.text, cases[i].reason))
            fail_msg("%s, not %s", error.text, cases[i].reason);
    }
    /* a leap second, and room for it */
    buffer_clear(&buffer);
    zone_testing_file(&buffer, 0, NULL, 0, "UTC0");
    buffer.data[54 + 31] = 1;
    buffer_append(&buffer, "0123456789ab", 12);
    assert_int_equal(zone_parse(buffer_bytes(&buffer), &zone, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "leap seconds"));
    /* something behind the footer */
    buffer_clear(&buffer);
    zone_testing_file(&buffer, 0, NULL, 0, "UTC0");
    buffer_append(&buffer, "x", 1);
    assert_int_equal(zone_parse(buffer_bytes(&buffer), &zone, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "footer"));
    /* as long as may be, and too long */
    buffer_reserve(&buffer, ZONE_FILE_SIZE_MAX + 1);
    memset(buffer.data, 0, ZONE_FILE_SIZE_MAX + 1);
    buffer.size = ZONE_FILE_SIZE_MAX;
    assert_int_equal(zone_parse(buffer_bytes(&buffer), &zone, &error), ERROR_INVALID);
    assert_null(strstr(error.text, "too long"));
    buffer.size = ZONE_FILE_SIZE_MAX + 1;
    assert_int_equal(zone_parse(buffer_bytes(&buffer), &zone, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "too long"));
    buffer_deinit(&buffer);
}

/* Each length that is too short, and each byte with each of its bits turned over, out of memory of
 * exactly the size: refused, or a zone of which every invariant holds. */
static void no_damage_goes_through(void **state)
{
    const struct zone_change changes[] = {{1000000000, 3600}, {1100000000, 7200}};

    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    zone_testing_file(&buffer, 0, changes, 2, "EET-2EEST,M3.5.0/3,M10.5.0/4");
    struct zone *zone;
    for (size_t size = 0; size <= buffer.size; size++) {
        char *exact = malloc(size + !size);

        memcpy(exact, buffer.data, size);
        enum error_code code = zone_parse((struct bytes){exact, size}, &zone, NULL);
        free(exact);
        assert_int_equal(code, size == buffer.size ? ERROR_NONE : ERROR_INVALID);
    }
    zone_destroy(zone);
    size_t refused = 0;
    for (size_t bit = 0; bit < buffer.size * 8; bit++) {
        char *exact = malloc(buffer.size);

        memcpy(exact, buffer.data, buffer.size);
        exact[bit / 8] ^= (char)(1 << bit % 8);
        if (zone_parse((struct bytes){exact, buffer.size}, &zone, NULL) == ERROR_NONE) {
            zone_check(zone);
            zone_destroy(zone);
        } else {
            refused++;
        }
        free(exact);
    }
    assert_true(refused > buffer.size);
    buffer_deinit(&buffer);
}

static void stretches_lie_side_by_side(void **state)
{
    struct zone *zone = zone_testing_rule("CET-1CEST,M3.5.0,M10.5.0/3");
    int64_t at = zone_test_moment("1970-01-01T00:00:00Z");
    struct zone_stretch stretch = zone_stretch_at(zone, at);

    (void)state;
    int64_t count = 0;
    struct zone_stretch next;
    for (; stretch.end < zone_test_moment("9999-12-31T00:00:00Z"); stretch = next, count++) {
        next = zone_stretch_at(zone, stretch.end);
        assert_int_equal(next.start, stretch.end);
        assert_int_equal(next.offset_before_s, stretch.offset_s);
        assert_int_equal(zone_stretch_at(zone, stretch.end - 1).end, stretch.end);
    }
    assert_int_equal(count, 2 * (9999 - 1970 + 1));
    zone_destroy(zone);
}

/* proves: timezone-bytes */
static void names_cannot_leave_their_folder(void **state)
{
    static const char *const good[] = {
        "UTC",        "Europe/Berlin", "America/Argentina/Buenos_Aires",
        "Etc/GMT+12", "Etc/GMT-14",    "America/Port-au-Prince",
        "NZ-CHAT",    "EST5EDT"};
    static const char *const bad[] = {
        "",
        "/",
        "/etc/passwd",
        "../etc/passwd",
        "Europe/../../etc/passwd",
        "Europe/..",
        "..",
        ".",
        "./UTC",
        "Europe//Berlin",
        "Europe/",
        "Europe/Berlin/",
        "Europe\\Berlin",
        "Europe/Ber lin",
        "Europe/Berlin\n",
        "zone.tab",
        "tzdata.zi",
        "%2e%2e/UTC",
        "~/UTC",
        ":UTC",
        "Europe/B\xc3\xa4",
        "posix/UTC",
        "right/UTC",
        "localtime",
        "posixrules",
        "a23456789012345678901234567890123456789012345678901234567890abcd",
    };

    (void)state;
    struct error error;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (zone_name_check(bytes_of(good[i]), &error))
            fail_msg("%s: %s", good[i], error.text);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (zone_name_check(bytes_of(bad[i]), NULL) != ERROR_INVALID)
            fail_msg("%s is a name", bad[i]);
    assert_int_equal(zone_name_check((struct bytes){"UTC\0x", 5}, NULL), ERROR_INVALID);
    assert_int_equal(zone_name_check((struct bytes){bad[25], ZONE_NAME_SIZE_MAX}, NULL),
                     ERROR_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utc_never_changes),
        cmocka_unit_test(follows_rules),
        cmocka_unit_test(counts_days_with_and_without_the_leap_day),
        cmocka_unit_test(summer_all_year_never_changes),
        cmocka_unit_test(refuses_rules),
        cmocka_unit_test(follows_the_table_then_the_footer),
        cmocka_unit_test(refuses_changes_that_touch),
        cmocka_unit_test(refuses_files_with_the_reason),
        cmocka_unit_test(no_damage_goes_through),
        cmocka_unit_test(stretches_lie_side_by_side),
        cmocka_unit_test(names_cannot_leave_their_folder),
    };

    return cmocka_run_group_tests_name("zone", tests, NULL, NULL);
}
