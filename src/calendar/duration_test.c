/* Goal: a duration means what it says, and nothing else is one. Method: tables of good and bad
 * texts out of memory of exactly their size, and random durations written and read back. */
#include "calendar/duration.h"
#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static enum error_code duration_test_parse(const char *text, uint64_t *ret_ms,
                                           struct error *ret_error)
{
    size_t size = strlen(text);
    char *exact = malloc(size + !size);

    memcpy(exact, text, size);
    enum error_code code = duration_parse((struct bytes){exact, size}, ret_ms, ret_error);
    free(exact);
    return code;
}

/* proves: after */
static void test_duration_good(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } cases[] = {
        {"0s", 0},
        {"0ms", 0},
        {"250ms", 250},
        {"90s", 90000},
        {"30m", 1800000},
        {"1h30m", 5400000},
        {"1h90m", 9000000},
        {"2d", 172800000},
        {"1w", 604800000},
        {"1w1d1h1m1s1ms", 694861001},
        {"1h1ms", 3600001},
        {"1m1ms", 60001},
        {"007s", 7000},
        {"18446744073709551615ms", UINT64_MAX},
        {"18446744073709551s615ms", UINT64_MAX},
        {"213503982334d14h25m51s615ms", UINT64_MAX},
        {"0000000000000000000000000000000001s", 1000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t ms = 77;

        if (duration_test_parse(cases[i].text, &ms, NULL) || ms != cases[i].ms)
            fail_msg("%s is %llu", cases[i].text, (unsigned long long)ms);
    }
}

/* proves: after-wrong */
static void test_duration_bad(void **state)
{
    static const char *const unit = "a whole number must be followed by one of w, d, h, m, s, ms";
    static const char *const number = "a whole number is expected before a unit";
    static const char *const order = "each unit may stand once, the larger before the smaller";
    static const char *const size = "it is longer than 2^64 - 1 ms";
    const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "it is empty"},
        {"90", unit},
        {"1h30", unit},
        {"1.5h", unit},
        {"1 h", unit},
        {"1h ", unit},
        {"1H", unit},
        {"1min", unit},
        {"1us", unit},
        {"1mss", unit},
        {"1\xc2\xb5s", unit},
        {"1y", unit},
        {"h", number},
        {" 1h", number},
        {"-1h", number},
        {"+1h", number},
        {"PT1H", number},
        {"1h30m!", unit},
        {"30m1h", order},
        {"1s1s", order},
        {"1ms1s", order},
        {"1d1w", order},
        {"18446744073709551616ms", size},
        {"18446744073709551s616ms", size},
        {"18446744073709552s", size},
        {"99999999999999999999999999999s", size},
        {"30500568905w", size},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error error = {0};
        uint64_t ms = 77;

        if (duration_test_parse(cases[i].text, &ms, &error) != ERROR_INVALID || ms != 77)
            fail_msg("'%s' is %llu", cases[i].text, (unsigned long long)ms);
        if (strcmp(error.text, cases[i].reason) != 0)
            fail_msg("'%s': %s", cases[i].text, error.text);
    }
}

static void test_duration_format_rough(void **state)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {999, "999ms"},
        {1499, "1s"},
        {1500, "2s"},
        {599499, "9m59s"},
        {599500, "10m"},
        {630000, "11m"},
        {3599000, "1h"},
        {36000000 - 1, "10h"},
        {UINT64_C(9) * 86400000 + 1800000, "9d1h"},
        {UINT64_C(10) * 86400000 + 43199999, "10d"},
        {UINT64_MAX, "213503982334d"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[DURATION_TEXT_SIZE];

        assert_int_equal(duration_format_rough(cases[i].ms, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void test_duration_format(void **state)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ms"},
        {999, "999ms"},
        {1000, "1s"},
        {1001, "1s1ms"},
        {60000, "1m"},
        {90000, "1m30s"},
        {3600000, "1h"},
        {5400000, "1h30m"},
        {86400000, "1d"},
        {604800000, "7d"},
        {90061001, "1d1h1m1s1ms"},
        {UINT64_MAX, "213503982334d14h25m51s615ms"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[DURATION_TEXT_SIZE];

        assert_int_equal(duration_format(cases[i].ms, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void test_duration_round_trip(void **state)
{
    uint64_t seed = testing_seed();

    (void)state;
    struct random random = random_seeded(seed);
    for (int run = 0; run < 20000; run++) {
        uint64_t ms = random_next(&random) >> random_below(&random, 64);
        char text[DURATION_TEXT_SIZE];

        duration_format(ms, text);
        uint64_t back = 0;
        if (duration_test_parse(text, &back, NULL) || back != ms)
            fail_msg("%llu became %s", (unsigned long long)ms, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_duration_good),       cmocka_unit_test(test_duration_bad),
        cmocka_unit_test(test_duration_format),     cmocka_unit_test(test_duration_format_rough),
        cmocka_unit_test(test_duration_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
