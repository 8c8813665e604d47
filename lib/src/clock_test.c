/*
 * clock_test.c - clocks and waiting. The virtual clock is driven by hand; of the system's clocks
 * only what holds on any machine is asked.
 */
#include <tickwheel/clock.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void sums_stop_at_the_end_of_the_range(void **state)
{
    (void)state;
    struct tw_instant late = {UINT64_MAX - 5};
    assert_int_equal(tw_instant_add(late, 5).ns, UINT64_MAX);
    assert_int_equal(tw_instant_add(late, 6).ns, UINT64_MAX);
    assert_int_equal(tw_instant_add(late, UINT64_MAX).ns, UINT64_MAX);
    assert_int_equal(tw_instant_since((struct tw_instant){7}, (struct tw_instant){10}), 3);
    assert_int_equal(tw_instant_since((struct tw_instant){10}, (struct tw_instant){7}), 0);
    assert_int_equal(tw_wall_add((struct tw_wall){UINT64_MAX - 1}, 2).ns, UINT64_MAX);
    assert_int_equal(tw_wall_since((struct tw_wall){7}, (struct tw_wall){10}), 3);
    assert_int_equal(tw_wall_since((struct tw_wall){10}, (struct tw_wall){7}), 0);
}

static void an_instant_after_now_is_the_clocks(void **state)
{
    (void)state;
    struct tw_virtual clock;
    assert_true(tw_virtual_init(&clock, (struct tw_instant){1000}));
    assert_int_equal(tw_instant_after(&clock.clock, 0).ns, 1000);
    assert_int_equal(tw_instant_after(&clock.clock, 5).ns, 1005);
    assert_int_equal(tw_instant_after(&clock.clock, UINT64_MAX).ns, UINT64_MAX);
    tw_virtual_deinit(&clock);
}

static void the_monotonic_clock_goes_on(void **state)
{
    (void)state;
    const struct tw_clock *clock = tw_clock_monotonic();
    struct tw_instant before = tw_clock_now(clock);
    for (int i = 0; i < 1000; i++) {
        struct tw_instant now = tw_clock_now(clock);
        assert_true(now.ns >= before.ns);
        before = now;
    }
    /* After 2020, whatever the machine's calendar. */
    assert_true(tw_wall_now().ns > UINT64_C(1577836800000000000));
}

static void a_wait_ends_no_earlier_than_asked(void **state)
{
    (void)state;
    const struct tw_clock *clock = tw_clock_monotonic();
    struct tw_waiter waiter;
    assert_true(tw_waiter_init(&waiter));
    for (uint64_t ns = 1; ns < 3000000; ns = ns * 7 + 1) {
        struct tw_instant until = tw_instant_after(clock, ns);
        assert_true(tw_clock_wait(clock, &waiter, until));
        assert_true(tw_clock_now(clock).ns >= until.ns);
    }
    tw_waiter_deinit(&waiter);
}

static void a_wake_is_remembered_once(void **state)
{
    (void)state;
    const struct tw_clock *clock = tw_clock_monotonic();
    struct tw_waiter waiter;
    assert_true(tw_waiter_init(&waiter));
    tw_waiter_wake(&waiter);
    tw_waiter_wake(&waiter);
    assert_false(tw_clock_wait(clock, &waiter, (struct tw_instant){TW_INSTANT_NEVER_NS}));
    assert_true(tw_clock_wait(clock, &waiter, (struct tw_instant){1}));
    tw_waiter_deinit(&waiter);
}

struct sleeper {
    struct tw_virtual *clock;
    struct tw_waiter waiter;
    pthread_t thread;
    uint64_t until_ns;
    bool has_reached;
};

static void *sleep_once(void *argument)
{
    struct sleeper *sleeper = argument;
    sleeper->has_reached = tw_clock_wait(&sleeper->clock->clock, &sleeper->waiter,
                                         (struct tw_instant){sleeper->until_ns});
    return NULL;
}

static void start_sleeper(struct sleeper *sleeper, struct tw_virtual *clock, uint64_t until_ns)
{
    sleeper->clock = clock;
    sleeper->until_ns = until_ns;
    assert_true(tw_waiter_init(&sleeper->waiter));
    assert_int_equal(pthread_create(&sleeper->thread, NULL, sleep_once, sleeper), 0);
}

static bool end_sleeper(struct sleeper *sleeper)
{
    assert_int_equal(pthread_join(sleeper->thread, NULL), 0);
    tw_waiter_deinit(&sleeper->waiter);
    return sleeper->has_reached;
}

static void virtual_time_moves_when_told_to(void **state)
{
    (void)state;
    struct tw_virtual clock;
    struct sleeper sleepers[3];
    assert_true(tw_virtual_init(&clock, (struct tw_instant){100}));
    for (size_t i = 0; i < 3; i++)
        start_sleeper(&sleepers[i], &clock, 200 + 100 * i);
    tw_virtual_settle(&clock, 3);
    tw_virtual_advance(&clock, 99);
    tw_virtual_settle(&clock, 3);
    tw_virtual_advance(&clock, 1);
    assert_true(end_sleeper(&sleepers[0]));
    tw_virtual_settle(&clock, 2);
    tw_waiter_wake(&sleepers[1].waiter);
    assert_false(end_sleeper(&sleepers[1]));
    tw_virtual_settle(&clock, 1);
    tw_virtual_set(&clock, (struct tw_instant){10}); /* backwards ends no wait */
    tw_virtual_settle(&clock, 1);
    tw_virtual_advance(&clock, UINT64_MAX);
    assert_true(end_sleeper(&sleepers[2]));
    assert_int_equal(tw_clock_now(&clock.clock).ns, TW_INSTANT_NEVER_NS - 1);
    tw_virtual_deinit(&clock);
}

/* The header's example. */
static void the_example(void **state)
{
    (void)state;
    struct tw_virtual virtual;
    tw_virtual_init(&virtual, (struct tw_instant){1000});
    tw_virtual_advance(&virtual, 500);
    struct tw_instant now = tw_clock_now(&virtual.clock);
    assert_int_equal(now.ns, 1500);
    tw_virtual_deinit(&virtual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_stop_at_the_end_of_the_range),
        cmocka_unit_test(an_instant_after_now_is_the_clocks),
        cmocka_unit_test(the_monotonic_clock_goes_on),
        cmocka_unit_test(a_wait_ends_no_earlier_than_asked),
        cmocka_unit_test(a_wake_is_remembered_once),
        cmocka_unit_test(virtual_time_moves_when_told_to),
        cmocka_unit_test(the_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
