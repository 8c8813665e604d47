/* Goal: every time is read as the moment it names, never earlier, and written as RFC 3339 has it.
 * Method: tables of good and bad texts out of memory of exactly their size; timegm() and gmtime_r()
 * as a second opinion on every day of 10,000 years and on random moments. */
#include "base/random.h"
#include "calendar/rfc3339.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

static enum error_code rfc3339_test_parse(const char *text, struct wall *ret_wall,
                                          struct error *ret_error)
{
    size_t size = strlen(text);
    char *exact = malloc(size + !size);

    memcpy(exact, text, size);
    enum error_code code = rfc3339_parse((struct bytes){exact, size}, ret_wall, ret_error);
    free(exact);
    return code;
}

/* proves: at */
static void test_rfc3339_good(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.001Z", 1},
        {"2026-11-20T23:59:59.250Z", UINT64_C(1795219199250)},
        {"2026-11-20t23:59:59.250z", UINT64_C(1795219199250)},
        {"2026-11-21T05:29:59.25+05:30", UINT64_C(1795219199250)},
        {"2026-11-20T18:59:59.25-05:00", UINT64_C(1795219199250)},
        {"2026-11-20T23:59:59.25-00:00", UINT64_C(1795219199250)},
        {"2026-11-21T23:58:59.25+23:59", UINT64_C(1795219199250)},
        /* rounded up: never early */
        {"2026-11-20T23:59:59.0Z", UINT64_C(1795219199000)},
        {"2026-11-20T23:59:59.000000000Z", UINT64_C(1795219199000)},
        {"2026-11-20T23:59:59.000000001Z", UINT64_C(1795219199001)},
        {"2026-11-20T23:59:59.2500001Z", UINT64_C(1795219199251)},
        {"2026-11-20T23:59:59.999000Z", UINT64_C(1795219199999)},
        {"2026-11-20T23:59:59.9990001Z", UINT64_C(1795219200000)},
        {"2026-11-20T23:59:59.999999999Z", UINT64_C(1795219200000)},
        /* leap days */
        {"2000-02-29T00:00:00Z", UINT64_C(951782400000)},
        {"2024-02-29T00:00:00Z", UINT64_C(1709164800000)},
        /* leap seconds: the start of the next second, whatever their fraction */
        {"2016-12-31T23:59:60Z", UINT64_C(1483228800000)},
        {"2016-12-31T23:59:60.999Z", UINT64_C(1483228800000)},
        {"1990-06-30T15:59:60-08:00", UINT64_C(646790400000)},
        {"2017-01-01T05:29:60+05:30", UINT64_C(1483228800000)},
        {"2024-02-29T23:59:60Z", UINT64_C(1709251200000)},
        /* before 1970 */
        {"1969-12-31T23:59:59.999Z", 0},
        {"1969-12-31T23:59:59.9991Z", 0},
        {"1970-01-01T00:59:59+01:00", 0},
        {"0002-01-01T00:00:00Z", 0},
        /* the end */
        {"9999-12-31T23:59:59.999Z", WALL_MS_MAX},
        {"9999-12-31T23:59:59.9991Z", WALL_MS_MAX + 1},
        {"9999-12-31T23:59:60Z", WALL_MS_MAX + 1},
        {"9999-12-31T23:59:59.999-23:59", WALL_MS_MAX + 86340000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wall wall = {77};

        if (rfc3339_test_parse(cases[i].text, &wall, NULL) || wall.ms != cases[i].ms)
            fail_msg("%s is %llu", cases[i].text, (unsigned long long)wall.ms);
    }
}

/* proves: at-wrong */
static void test_rfc3339_bad(void **state)
{
    static const char *const form = "it is not of the form 2026-11-20T23:59:59Z (RFC 3339)";
    static const char *const fraction = "a fraction has 1 to 9 digits";
    static const char *const offset = "it must end in Z or an offset such as +01:00";
    static const char *const leap = "second 60 only ends a month, in UTC";
    static const char *const zero =
        "it is in the year 1, the zero time of a program that set no time";
    const struct {
        const char *text, *reason;
    } cases[] = {
        {"", form},
        {"0001-01-01T00:00:00Z", zero},
        {"0001-01-01T01:00:00+01:00", zero},
        {"2026-11-20", form},
        {"2026-11-20T23:59Z", form},
        {"2026-11-20T23:59:59", form},
        {"20261120T235959Z", form},
        {"26-11-20T23:59:59Z..", form},
        {"2026/11/20T23:59:59Z", form},
        {"2026-1a-20T23:59:59Z", form},
        {" 2026-11-20T23:59:59Z", form},
        {"+2026-11-20T23:59:59Z", form},
        {"-026-11-20T23:59:59Z", form},
        {"10000-01-01T00:00:00Z", form},
        {"1763683199", form},
        {"2026-11-20T23:59:59.Z", fraction},
        {"2026-11-20T23:59:59.", fraction},
        {"2026-11-20T23:59:59.1234567890Z", fraction},
        {"2026-11-20T23:59:59.1", offset},
        {"2026-11-20T23:59:59,1Z", offset},
        {"2026-11-20T23:59:59 ", offset},
        {"2026-11-20T23:59:59ZZ", offset},
        {"2026-11-20T23:59:59Z ", offset},
        {"2026-11-20T23:59:59+01", offset},
        {"2026-11-20T23:59:59+0100", offset},
        {"2026-11-20T23:59:59+01:0", offset},
        {"2026-11-20T23:59:59+01:000", offset},
        {"2026-11-20T23:59:59+24:00", offset},
        {"2026-11-20T23:59:59+01:60", offset},
        {"2026-11-20T23:59:59*01:00", offset},
        {"2026-11-20T23:59:59[UTC]", offset},
        {"2026-00-20T23:59:59Z", "there is no month 00"},
        {"2026-13-20T23:59:59Z", "there is no month 13"},
        {"2026-11-00T23:59:59Z", "2026-11 has no day 00"},
        {"2026-11-31T23:59:59Z", "2026-11 has no day 31"},
        {"2026-02-29T23:59:59Z", "2026-02 has no day 29"},
        {"1900-02-29T23:59:59Z", "1900-02 has no day 29"},
        {"2000-02-30T23:59:59Z", "2000-02 has no day 30"},
        {"2026-11-20T24:00:00Z", "a day has no time 24:00:00"},
        {"2026-11-20T23:60:00Z", "a day has no time 23:60:00"},
        {"2026-11-30T23:59:61Z", "a day has no time 23:59:61"},
        {"2026-11-20T23:59:60Z", leap},
        {"2016-12-31T22:59:60Z", leap},
        {"2016-12-31T23:59:60+01:00", leap},
        {"1990-06-30T23:59:60-08:00", leap},
        {"0002-01-02T00:00:60+00:01", leap},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error error = {0};
        struct wall wall = {77};

        if (rfc3339_test_parse(cases[i].text, &wall, &error) != ERROR_INVALID || wall.ms != 77)
            fail_msg("'%s' is %llu", cases[i].text, (unsigned long long)wall.ms);
        if (strcmp(error.text, cases[i].reason) != 0)
            fail_msg("'%s': %s", cases[i].text, error.text);
    }
}

/* What the C library makes of the same moment. */
static void reference_format(uint64_t ms, char *ret_text, size_t capacity)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    snprintf(ret_text, capacity, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % 1000));
}

static void rfc3339_test_check_moment(uint64_t ms)
{
    char text[RFC3339_TEXT_SIZE];
    struct wall back = {77};

    rfc3339_format((struct wall){ms}, text);
    char expected[80];
    reference_format(ms, expected, sizeof(expected));
    if (strcmp(text, expected) != 0)
        fail_msg("%llu: %s, not %s", (unsigned long long)ms, text, expected);
    if (rfc3339_test_parse(text, &back, NULL) || back.ms != ms)
        fail_msg("%s: %llu, not %llu", text, (unsigned long long)back.ms, (unsigned long long)ms);
}

/* proves: at */
static void test_every_day(void **state)
{
    (void)state;
    for (uint64_t ms = 0; ms <= WALL_MS_MAX; ms += 86400000)
        rfc3339_test_check_moment(ms +
                                  (ms >> 27) % 2 * 86399999); /* its first moment, or its last */
}

/* Calendar fields with random offsets, the impossible days of short months among them. */
/* proves: at */
static void test_rfc3339_random(void **state)
{
    uint64_t seed = testing_seed();

    (void)state;
    struct random random = random_seeded(seed);
    for (int run = 0; run < 100000; run++) {
        struct tm tm = {.tm_year = 2 + (int)random_below(&random, 9998) - 1900,
                        .tm_mon = (int)random_below(&random, 12),
                        .tm_mday = (int)random_below(&random, 31) + 1,
                        .tm_hour = (int)random_below(&random, 24),
                        .tm_min = (int)random_below(&random, 60),
                        .tm_sec = (int)random_below(&random, 60)},
                  normal = tm;
        int offset = (int)random_below(&random, 24 * 60);
        bool ahead = random_below(&random, 2);
        int64_t seconds = timegm(&normal) + (ahead ? -offset : offset) * 60;
        struct wall wall = {77};
        char text[80];

        snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d%c%02d:%02d", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ahead ? '+' : '-',
                 offset / 60, offset % 60);
        enum error_code code = rfc3339_test_parse(text, &wall, NULL);
        if (normal.tm_mday != tm.tm_mday)
            assert_int_equal(code, ERROR_INVALID);
        else if (code || wall.ms != (seconds < 0 ? 0 : (uint64_t)seconds * 1000))
            fail_msg("%s is %llu", text, (unsigned long long)wall.ms);
        rfc3339_test_check_moment(random_below(&random, WALL_MS_MAX + 1));
    }
}

static void test_beyond(void **state)
{
    (void)state;
    char text[RFC3339_TEXT_SIZE];
    rfc3339_format((struct wall){WALL_MS_MAX + 1}, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    rfc3339_format(WALL_NEVER, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc3339_good), cmocka_unit_test(test_rfc3339_bad),
        cmocka_unit_test(test_every_day),    cmocka_unit_test(test_rfc3339_random),
        cmocka_unit_test(test_beyond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
