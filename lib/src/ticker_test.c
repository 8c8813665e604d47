/*
 * ticker_test.c - the ticker in virtual time: named cases, and random walks against the definition
 * that tick n is due at start + n periods.
 */
#include "seed.h"

#include <tickwheel/clock.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

static struct tw_instant at(uint64_t ns)
{
    return (struct tw_instant){ns};
}

static void assert_ticks(struct tw_ticks ticks, uint64_t first, uint64_t count)
{
    assert_int_equal(ticks.count, count);
    if (count)
        assert_int_equal(ticks.first, first);
}

static void a_late_tick_shortens_the_next_wait(void **state)
{
    (void)state;
    struct tw_ticker ticker;
    tw_ticker_init(&ticker, 100, TW_TICKER_EACH);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, TW_INSTANT_NEVER_NS);
    tw_ticker_start(&ticker, at(1000));
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 1100);
    assert_ticks(tw_ticker_take(&ticker, at(1099)), 0, 0);
    assert_ticks(tw_ticker_take(&ticker, at(1170)), 1, 1);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 1200); /* 30 to wait, not 100 */
    /* A thousand ticks, each late by another amount, and no error adds up. */
    for (uint64_t i = 2; i <= 1000; i++)
        assert_ticks(tw_ticker_take(&ticker, at(1000 + i * 100 + i * 37 % 100)), i, 1);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 1000 + 1001 * 100);
}

static void missed_ticks_follow_the_policy(void **state)
{
    (void)state;
    struct tw_ticker each, skip, coalesce;
    tw_ticker_init(&each, 10, TW_TICKER_EACH);
    tw_ticker_init(&skip, 10, TW_TICKER_SKIP);
    tw_ticker_init(&coalesce, 10, TW_TICKER_COALESCE);
    tw_ticker_start(&each, at(0));
    tw_ticker_start(&skip, at(0));
    tw_ticker_start(&coalesce, at(0));
    for (uint64_t i = 1; i <= 5; i++) {
        assert_true(tw_ticker_next_at(&each).ns <= 57);
        assert_ticks(tw_ticker_take(&each, at(57)), i, 1);
    }
    assert_ticks(tw_ticker_take(&each, at(57)), 0, 0);
    assert_ticks(tw_ticker_take(&skip, at(57)), 5, 1);
    assert_int_equal(tw_ticker_skipped(&skip), 4);
    assert_ticks(tw_ticker_take(&coalesce, at(57)), 1, 5);
    assert_int_equal(tw_ticker_next_at(&each).ns, 60);
    assert_int_equal(tw_ticker_next_at(&skip).ns, 60);
    assert_int_equal(tw_ticker_next_at(&coalesce).ns, 60);
    assert_int_equal(tw_ticker_skipped(&each) + tw_ticker_skipped(&coalesce), 0);
}

static void a_pause_holds_the_rest_of_the_period(void **state)
{
    (void)state;
    struct tw_ticker ticker;
    tw_ticker_init(&ticker, 100, TW_TICKER_COALESCE);
    tw_ticker_pause(&ticker, at(5)); /* not running: nothing */
    tw_ticker_resume(&ticker, at(6));
    assert_int_equal(tw_ticker_next_at(&ticker).ns, TW_INSTANT_NEVER_NS);
    tw_ticker_start(&ticker, at(0));
    tw_ticker_pause(&ticker, at(130)); /* tick 1 was missed, tick 2 is 70 away */
    assert_int_equal(tw_ticker_next_at(&ticker).ns, TW_INSTANT_NEVER_NS);
    assert_ticks(tw_ticker_take(&ticker, at(9999)), 0, 0);
    tw_ticker_resume(&ticker, at(5000));
    assert_ticks(tw_ticker_take(&ticker, at(5000)), 1, 1);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 5070);
    tw_ticker_pause(&ticker, at(5060));
    tw_ticker_resume(&ticker, at(UINT64_MAX - 3)); /* no tick is left in the range */
    assert_int_equal(tw_ticker_next_at(&ticker).ns, UINT64_MAX);
    assert_ticks(tw_ticker_take(&ticker, at(UINT64_MAX)), 0, 0);
    tw_ticker_pause(&ticker, at(UINT64_MAX - 1));
    tw_ticker_resume(&ticker, at(UINT64_MAX));
    assert_ticks(tw_ticker_take(&ticker, at(UINT64_MAX)), 0, 0);
}

static void reset_stop_and_set(void **state)
{
    (void)state;
    struct tw_ticker ticker;
    tw_ticker_init(&ticker, 10, TW_TICKER_SKIP);
    tw_ticker_start(&ticker, at(0));
    assert_ticks(tw_ticker_take(&ticker, at(35)), 3, 1);
    tw_ticker_set_tick(&ticker, 100);
    assert_int_equal(tw_ticker_tick(&ticker), 100);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 40);
    assert_ticks(tw_ticker_take(&ticker, at(40)), 101, 1);
    tw_ticker_reset(&ticker, at(47));
    assert_int_equal(tw_ticker_tick(&ticker), 0);
    assert_int_equal(tw_ticker_skipped(&ticker), 0);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 57);
    tw_ticker_pause(&ticker, at(50));
    tw_ticker_reset(&ticker, at(52));
    tw_ticker_resume(&ticker, at(60));
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 70);
    tw_ticker_stop(&ticker);
    assert_ticks(tw_ticker_take(&ticker, at(1000)), 0, 0);
    tw_ticker_start(&ticker, at(1000));
    assert_ticks(tw_ticker_take(&ticker, at(1010)), 1, 1);
}

/* The machine was suspended, or stood still, for a day: one tick where that is wanted, and the
 * phase is kept. */
static void a_day_asleep_is_no_storm(void **state)
{
    (void)state;
    const uint64_t day = UINT64_C(86400000000000);
    struct tw_ticker ticker;
    tw_ticker_init(&ticker, 1000000, TW_TICKER_SKIP);
    tw_ticker_start(&ticker, at(7));
    assert_ticks(tw_ticker_take(&ticker, at(day)), 86399999, 1);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, day + 7);
}

/* A clock that is set back brings no tick twice, and none early. */
static void a_clock_set_back_repeats_nothing(void **state)
{
    (void)state;
    struct tw_ticker ticker;
    tw_ticker_init(&ticker, 10, TW_TICKER_EACH);
    tw_ticker_start(&ticker, at(1000));
    assert_ticks(tw_ticker_take(&ticker, at(1010)), 1, 1);
    assert_ticks(tw_ticker_take(&ticker, at(5)), 0, 0);
    assert_ticks(tw_ticker_take(&ticker, at(1019)), 0, 0);
    assert_ticks(tw_ticker_take(&ticker, at(1020)), 2, 1);
}

static void *wait_for_ticks(void *argument)
{
    void **arguments = argument;
    struct tw_virtual *clock = arguments[0];
    struct tw_ticker ticker;
    uint64_t *sum = arguments[2];
    tw_ticker_init(&ticker, 1000000, TW_TICKER_COALESCE);
    assert_int_equal(tw_ticker_wait(&ticker, &clock->clock, arguments[1]).count, 0); /* stopped */
    tw_ticker_start(&ticker, at(0));
    for (;;) {
        struct tw_ticks ticks = tw_ticker_wait(&ticker, &clock->clock, arguments[1]);
        if (ticks.count == 0)
            return NULL;
        *sum += ticks.count;
    }
}

static void waiting_follows_the_clock(void **state)
{
    (void)state;
    struct tw_virtual clock;
    struct tw_waiter waiter;
    uint64_t sum = 0;
    void *arguments[] = {&clock, &waiter, &sum};
    pthread_t thread;
    assert_true(tw_virtual_init(&clock, at(0)) && tw_waiter_init(&waiter));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ticks, arguments), 0);
    for (int i = 0; i < 50; i++) {
        tw_virtual_settle(&clock, 1);
        tw_virtual_advance(&clock, 700000); /* every other one or so is a tick */
    }
    tw_virtual_settle(&clock, 1);
    tw_waiter_wake(&waiter);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sum, 35);
    tw_waiter_deinit(&waiter);
    tw_virtual_deinit(&clock);
}

static uint64_t draw(uint64_t *random)
{
    uint64_t mixed = *random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

/* The model: paused time is cut out; by `lived` ns of the rest, lived / period ticks are due. */
static void walk(uint64_t seed)
{
    uint64_t random = seed, period = 1 + draw(&random) % 1000, now = draw(&random) % 1000;
    uint64_t lived = 0, taken = 0;
    enum tw_ticker_policy policy = (enum tw_ticker_policy)(draw(&random) % 3);
    bool is_paused = false;
    struct tw_ticker ticker;
    tw_ticker_init(&ticker, period, policy);
    tw_ticker_start(&ticker, at(now));
    for (int i = 0; i < 500; i++) {
        uint64_t step = draw(&random) % (3 * period);
        now += step;
        lived += is_paused ? 0 : step;
        if (draw(&random) % 4 == 0) {
            is_paused ? tw_ticker_resume(&ticker, at(now)) : tw_ticker_pause(&ticker, at(now));
            is_paused = !is_paused;
        }
        struct tw_ticks ticks = tw_ticker_take(&ticker, at(now));
        uint64_t due = is_paused ? 0 : lived / period - taken;
        uint64_t passed = policy == TW_TICKER_EACH && due ? 1 : due;
        assert_int_equal(ticks.count, policy == TW_TICKER_COALESCE ? due : due > 0);
        taken += passed;
        if (ticks.count)
            assert_int_equal(ticks.first + ticks.count - 1, taken);
        assert_int_equal(tw_ticker_tick(&ticker), taken);
        if (!is_paused && lived / period > taken)
            assert_true(tw_ticker_next_at(&ticker).ns <= now);
        else if (!is_paused)
            assert_int_equal(tw_ticker_next_at(&ticker).ns, now - lived + (taken + 1) * period);
    }
}

/* Goal: the period changes without drift, and no tick is lost or doubled. Method: named instants.
 */
static void the_period_changes_while_it_runs(void **state)
{
    (void)state;
    struct tw_ticker ticker;
    tw_ticker_init(&ticker, 100, TW_TICKER_EACH);
    assert_int_equal(tw_ticker_period(&ticker), 100);
    assert_false(tw_ticker_is_running(&ticker));
    tw_ticker_start(&ticker, at(1000));
    assert_true(tw_ticker_is_running(&ticker));
    tw_ticker_set_period(&ticker, 250, at(1050)); /* counted from 1000 */
    assert_int_equal(tw_ticker_period(&ticker), 250);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 1250);
    assert_ticks(tw_ticker_take(&ticker, at(1260)), 1, 1);
    tw_ticker_set_period(&ticker, 10, at(1263)); /* late as it is */
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 1263);
    assert_ticks(tw_ticker_take(&ticker, at(1263)), 2, 1);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 1273);
    tw_ticker_set_period(&ticker, 1000, at(1295)); /* 1273, 1283 and 1293 were missed */
    assert_true(tw_ticker_next_at(&ticker).ns <= 1295);
    for (uint64_t tick = 3; tick <= 5; tick++)
        assert_ticks(tw_ticker_take(&ticker, at(1295)), tick, 1);
    assert_ticks(tw_ticker_take(&ticker, at(1295)), 0, 0);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 2293);
    tw_ticker_pause(&ticker, at(1393)); /* 100 after the last */
    assert_false(tw_ticker_is_running(&ticker));
    tw_ticker_set_period(&ticker, 300, at(1400));
    tw_ticker_resume(&ticker, at(5000));
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 5200);
    tw_ticker_pause(&ticker, at(5100));
    tw_ticker_set_period(&ticker, 50, at(5100));
    tw_ticker_resume(&ticker, at(6000));
    assert_ticks(tw_ticker_take(&ticker, at(6000)), 6, 1);
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 6050);
    tw_ticker_stop(&ticker);
    tw_ticker_set_period(&ticker, 7, at(6010));
    tw_ticker_start(&ticker, at(7000));
    assert_int_equal(tw_ticker_next_at(&ticker).ns, 7007);
}

/* Goal: a pause after more missed time than half of the range keeps the missed ticks. */
static void a_pause_after_centuries_keeps_what_was_missed(void **state)
{
    (void)state;
    struct tw_ticker ticker;
    uint64_t now = (UINT64_C(1) << 63) + 10;
    tw_ticker_init(&ticker, 1, TW_TICKER_COALESCE);
    tw_ticker_start(&ticker, at(0));
    tw_ticker_pause(&ticker, at(now));
    tw_ticker_resume(&ticker, at(now));
    assert_ticks(tw_ticker_take(&ticker, at(now)), 1, now);
}

/* The model: time passes a nanosecond at a time, and a tick is due when a period has passed since
 * the one before. */
static void walk_with_periods(uint64_t seed)
{
    uint64_t random = seed, now = draw(&random) % 1000, period = 1 + draw(&random) % 100;
    uint64_t since = 0, pending = 0, taken = 0;
    enum tw_ticker_policy policy = (enum tw_ticker_policy)(draw(&random) % 3);
    bool is_paused = false;
    struct tw_ticker ticker;
    tw_ticker_init(&ticker, period, policy);
    tw_ticker_start(&ticker, at(now));
    for (int i = 0; i < 500; i++) {
        for (uint64_t step = draw(&random) % 200; step > 0; step--, now++) {
            since += !is_paused;
            pending += !is_paused && since >= period;
            since = !is_paused && since >= period ? 0 : since;
        }
        if (draw(&random) % 8 == 0) {
            is_paused ? tw_ticker_resume(&ticker, at(now)) : tw_ticker_pause(&ticker, at(now));
            is_paused = !is_paused;
        } else if (draw(&random) % 4 == 0) {
            period = 1 + draw(&random) % 100;
            tw_ticker_set_period(&ticker, period, at(now));
        }
        if (!is_paused && since >= period) { /* changed, also while it was paused */
            pending++;
            since = 0;
        }
        assert_int_equal(tw_ticker_is_running(&ticker), !is_paused);
        if (!is_paused && pending > 0)
            assert_true(tw_ticker_next_at(&ticker).ns <= now);
        else
            assert_int_equal(tw_ticker_next_at(&ticker).ns,
                             is_paused ? TW_INSTANT_NEVER_NS : now - since + period);
        if (draw(&random) % 3 == 0)
            continue; /* late */
        struct tw_ticks ticks = tw_ticker_take(&ticker, at(now));
        uint64_t due = is_paused ? 0 : pending;
        uint64_t passed = policy == TW_TICKER_EACH && due ? 1 : due;
        assert_int_equal(ticks.count, policy == TW_TICKER_COALESCE ? due : due > 0);
        taken += passed;
        pending -= passed;
        assert_int_equal(tw_ticker_tick(&ticker), taken);
    }
}

static void random_walks(void **state)
{
    (void)state;
    const uint64_t seed = testing_seed();
    for (uint64_t i = 0; i < 1000; i++)
        walk(seed + i);
    for (uint64_t i = 0; i < 200; i++)
        walk_with_periods(seed + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_tick_shortens_the_next_wait),
        cmocka_unit_test(missed_ticks_follow_the_policy),
        cmocka_unit_test(a_pause_holds_the_rest_of_the_period),
        cmocka_unit_test(reset_stop_and_set),
        cmocka_unit_test(a_day_asleep_is_no_storm),
        cmocka_unit_test(a_clock_set_back_repeats_nothing),
        cmocka_unit_test(waiting_follows_the_clock),
        cmocka_unit_test(the_period_changes_while_it_runs),
        cmocka_unit_test(a_pause_after_centuries_keeps_what_was_missed),
        cmocka_unit_test(random_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
