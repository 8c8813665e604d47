/*
 * Goal: the clocks have the units and the epochs that they promise.
 * Method: compared with the C library's own reading before and after.
 */
#include "sys/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/timex.h>
#include <time.h>

#include <cmocka.h>

static void wall_time_is_milliseconds_since_1970(void **state)
{
    /* time() may read a coarser clock, a tick behind: hence a second of slack. */
    uint64_t before = (uint64_t)time(NULL);
    uint64_t ms = wall_now().ms, us = wall_now_us();
    uint64_t after = (uint64_t)time(NULL);

    (void)state;
    assert_in_range(ms / 1000, before, after + 1);
    assert_in_range(us / 1000000, before, after + 1);
}

static void instants_never_run_back(void **state)
{
    struct instant last = instant_now();

    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct instant now = instant_now();

        assert_true(now.ns >= last.ns);
        last = now;
    }
}

static void instants_are_nanoseconds(void **state)
{
    struct instant start = instant_now();
    clock_t spent = clock();

    (void)state;
    /* Busy for 20 ms of processor time takes at least as long on the clock. */
    while (clock() - spent < CLOCKS_PER_SEC / 50)
        ;
    assert_true(instant_since_ns(start, instant_now()) >= 19 * 1000 * 1000);
    assert_true(instant_since_ns(start, instant_now()) < UINT64_C(60) * 1000 * 1000 * 1000);
}

/* However late it is asked. */
/* proves: lease-time */
static void an_instant_is_not_shown_later_than_it_is(void **state)
{
    struct instant before = instant_now();
    struct wall wall = wall_now();
    struct instant start = instant_now(), end = instant_add_ms(start, 43200000);
    uint64_t most_ms = wall.ms + 43200000 + instant_since_ns(before, start) / 1000000 + 2;

    (void)state;
    while (instant_since_ns(start, instant_now()) < 20 * 1000 * 1000)
        assert_in_range(instant_wall(end).ms, wall.ms, most_ms);
    assert_true(instant_wall(end).ms > wall.ms + 20000000);
    assert_true(instant_wall(before).ms >= wall.ms);
}

static void the_coming_millisecond_is_the_next(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct wall before = wall_now(), coming = wall_coming(), after = wall_now();

        if (before.ms <= after.ms) /* nobody set the clock */
            assert_in_range(coming.ms, before.ms + 1, after.ms + 1);
    }
}

/* As the call for programs that only read it says. */
static void knows_whether_the_clock_is_synchronised(void **state)
{
    struct ntptimeval now;
    bool is_synchronised = ntp_gettime(&now) != TIME_ERROR;
    struct clock_sync sync = wall_sync();

    (void)state;
    if (is_synchronised == (ntp_gettime(&now) != TIME_ERROR)) /* it did not change meanwhile */
        assert_true(sync.is_synchronised == is_synchronised);
    if (sync.is_synchronised)
        assert_in_range(sync.error_us, 0, 16000000); /* beyond it the kernel says that it is not */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wall_time_is_milliseconds_since_1970),
        cmocka_unit_test(the_coming_millisecond_is_the_next),
        cmocka_unit_test(knows_whether_the_clock_is_synchronised),
        cmocka_unit_test(instants_never_run_back),
        cmocka_unit_test(instants_are_nanoseconds),
        cmocka_unit_test(an_instant_is_not_shown_later_than_it_is),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
