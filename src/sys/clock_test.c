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

/* The last test, because a process does not go back to the machine's time. */
static void a_virtual_clock_stands_until_it_is_moved(void **state)
{
    const struct wall start = {UINT64_C(1798761600000)}; /* 2027-01-01T00:00:00Z */
    const uint64_t machine_us = wall_machine_now_us();
    const struct instant machine = instant_now();

    (void)state;
    assert_false(clock_is_virtual());
    clock_start_virtual(start);
    assert_true(clock_is_virtual());
    const struct instant begin = instant_timers_now();
    assert_int_equal(wall_now().ms, start.ms);
    assert_int_equal(wall_now_us(), start.ms * 1000);
    assert_int_equal(wall_coming().ms, start.ms); /* it has no parts of a millisecond */
    assert_int_equal(instant_wall(instant_add_ms(begin, 30000)).ms, start.ms + 30000);
    clock_move_virtual(wall_add(start, 86400000));
    assert_int_equal(wall_now().ms, start.ms + 86400000);
    assert_int_equal(instant_since_ns(begin, instant_timers_now()), UINT64_C(86400000000000));
    clock_move_virtual(clock_virtual_end());
    assert_int_equal(wall_now().ms, start.ms + UINT64_C(15768000000000)); /* 500 * 365 days */
    assert_int_equal(instant_since_ns(begin, instant_timers_now()), UINT64_C(15768000000000000000));
    assert_true(wall_machine_now_us() >= machine_us && instant_now().ns >= machine.ns);
    assert_in_range(wall_machine_now_us() - machine_us, 0, 600000000);
    assert_in_range(instant_since_ns(machine, instant_now()), 0, UINT64_C(600000000000));
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
        cmocka_unit_test(a_virtual_clock_stands_until_it_is_moved),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
