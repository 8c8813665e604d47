/* Goal: every day has one date and one weekday, and the C library agrees.
 * Method: all days from the year -1 to the year 10001, one after the other, beside gmtime_r(). */
#include "calendar/calendar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

static void agrees_with_the_c_library_on_every_day(void **state)
{
    int64_t first = calendar_days(-1, 1, 1), last = calendar_days(10001, 12, 31);

    (void)state;
    for (int64_t day = first; day <= last; day++) {
        struct date date = calendar_date(day);
        time_t seconds = (time_t)(day * SECONDS_PER_DAY);
        struct tm tm;

        gmtime_r(&seconds, &tm);
        if (date.year != tm.tm_year + 1900 || date.month != tm.tm_mon + 1 ||
            date.day != tm.tm_mday || calendar_weekday(day) != (unsigned)tm.tm_wday ||
            calendar_days(date.year, date.month, date.day) != day)
            fail_msg("day %lld is %d-%u-%u", (long long)day, date.year, date.month, date.day);
        if (calendar_date(day + 1).month != date.month &&
            calendar_month_days(date.year, date.month) != date.day)
            fail_msg("%d-%u has not %u days", date.year, date.month, date.day);
    }
}

static void rounds_down_on_both_sides_of_zero(void **state)
{
    (void)state;
    assert_int_equal(floor_divide(7, 7), 1);
    assert_int_equal(floor_divide(6, 7), 0);
    assert_int_equal(floor_divide(-1, 7), -1);
    assert_int_equal(floor_divide(-7, 7), -1);
    assert_int_equal(floor_divide(-8, 7), -2);
    assert_int_equal(floor_modulo(-8, 7), 6);
    assert_int_equal(floor_modulo(-7, 7), 0);
    assert_int_equal(floor_modulo(13, 7), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_c_library_on_every_day),
        cmocka_unit_test(rounds_down_on_both_sides_of_zero),
    };

    return cmocka_run_group_tests_name("calendar", tests, NULL, NULL);
}
