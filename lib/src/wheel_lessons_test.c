/*
 * wheel_lessons_test.c - bugs that other timer libraries had, each one a test of ours.
 *
 * The names say where the bug was; the sentence above each test says what it was.
 */
#include <tickwheel/wheel.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <stdint.h>

static size_t drain_count(struct tw_wheel *wheel, uint64_t now)
{
    struct tw_expired due[16];
    size_t count = 0;
    do
        count += tw_wheel_expire(wheel, now, due, 16);
    while (tw_wheel_is_behind(wheel));
    tw_wheel_check(wheel);
    return count;
}

/* Cancelled timers held their memory until their bucket came round. */
static void netty_2541_cancelled_timers_hold_no_memory(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    size_t memory = 0;
    for (uint64_t i = 0; i < 1000000; i++) {
        tw_handle timer = tw_wheel_schedule(wheel, 3600000 - i % 1000, i);
        assert_true(tw_wheel_cancel(wheel, timer));
        if (i == 10000)
            memory = tw_wheel_memory(wheel);
    }
    assert_int_equal(tw_wheel_memory(wheel), memory);
    assert_int_equal(drain_count(wheel, 4000000), 0);
    tw_wheel_destroy(wheel);
}

/* A delay of 2^63 - 1 overflowed, and the timer fired at once. Deadlines here are absolute and
 * unsigned: there is no sum to overflow, and each end of the range waits for its time. */
static void netty_7760_the_longest_delays_do_not_fire_at_once(void **state)
{
    (void)state;
    static const uint64_t deadlines[] = {INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1};
    for (size_t i = 0; i < 3; i++) {
        struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = 1000});
        assert_true(tw_wheel_schedule(wheel, deadlines[i], 1) != TW_NONE);
        assert_int_equal(drain_count(wheel, 1000), 0);
        assert_int_equal(drain_count(wheel, deadlines[i] - 1), 0);
        assert_int_equal(tw_wheel_wake_at(wheel), deadlines[i]);
        assert_int_equal(drain_count(wheel, deadlines[i]), 1);
        tw_wheel_destroy(wheel);
    }
}

/* The wheel panicked when its top level wrapped, after twelve days of running. Each level's wrap is
 * crossed here, step by step and in one jump, with timers on both sides. */
static void tokio_8334_levels_wrap_without_harm(void **state)
{
    (void)state;
    for (unsigned bits = 8; bits <= 56; bits += 8) {
        uint64_t wrap = UINT64_C(1) << bits;
        for (uint64_t step = 1; step <= 64; step *= 8) {
            struct tw_wheel *wheel =
                tw_wheel_create(&(struct tw_wheel_options){.start = wrap - 100});
            size_t fired = 0;
            for (uint64_t at = wrap - 90; at < wrap + 90; at += 3)
                assert_true(tw_wheel_schedule(wheel, at, at) != TW_NONE);
            for (uint64_t now = wrap - 100; now < wrap + 90 + step; now += step) {
                size_t due_by_now = 0;
                for (uint64_t at = wrap - 90; at < wrap + 90; at += 3)
                    due_by_now += at <= now;
                fired += drain_count(wheel, now);
                assert_int_equal(fired, due_by_now);
            }
            tw_wheel_destroy(wheel);
        }
    }
}

/* Timers never fired when the start was not a multiple of the tick. */
static void agrona_73_any_start_will_do(void **state)
{
    (void)state;
    for (uint64_t start = 1; start < UINT64_C(1) << 40; start = start * 3 + 7) {
        struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = start});
        for (uint64_t delay = 0; delay < 600; delay += 37)
            assert_true(tw_wheel_schedule(wheel, start + delay, delay) != TW_NONE);
        for (uint64_t now = start, last = start; now < start + 600; last = now, now += 5) {
            size_t want = 0;
            for (uint64_t delay = 0; delay < 600; delay += 37)
                want += (now == start || start + delay > last) && start + delay <= now;
            assert_int_equal(drain_count(wheel, now), want);
        }
        tw_wheel_destroy(wheel);
    }
}

/* A slot was looked at twice, or the next wake-up was computed from the wrong one. Here whoever
 * sleeps until wake_at wakes at each deadline in turn, and at no tick twice. */
static void wahern_20_21_wake_at_leads_from_one_deadline_to_the_next(void **state)
{
    (void)state;
    static const uint64_t starts[] = {0, 63, 64, 255, 256, 4095, 65535, (UINT64_C(1) << 32) - 1};
    for (size_t i = 0; i < 8; i++) {
        struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = starts[i]});
        for (uint64_t delay = 1; delay < UINT64_C(1) << 36; delay *= 2)
            assert_true(tw_wheel_schedule(wheel, starts[i] + delay, 0) != TW_NONE);
        for (uint64_t delay = 1; delay < UINT64_C(1) << 36; delay *= 2) {
            assert_int_equal(tw_wheel_wake_at(wheel), starts[i] + delay);
            assert_int_equal(drain_count(wheel, starts[i] + delay), 1);
        }
        assert_int_equal(tw_wheel_wake_at(wheel), TW_NEVER);
        tw_wheel_destroy(wheel);
    }
}

/* Rescheduling did not update the next wake-up. To an earlier deadline it must, at once; to a later
 * one it may stay, but then one wake-up at the old deadline puts it right. */
static void msquic_3206_rescheduling_updates_the_wake_up(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle timer = tw_wheel_schedule(wheel, 5000, 1);
    assert_true(tw_wheel_reschedule(wheel, timer, 900));
    assert_int_equal(tw_wheel_wake_at(wheel), 900);
    assert_true(tw_wheel_reschedule(wheel, timer, 100000));
    assert_true(tw_wheel_wake_at(wheel) <= 100000);
    assert_int_equal(drain_count(wheel, tw_wheel_wake_at(wheel)), 0);
    assert_int_equal(drain_count(wheel, 5000), 0);
    assert_int_equal(tw_wheel_wake_at(wheel), 100000);
    assert_int_equal(drain_count(wheel, 100000), 1);
    tw_wheel_destroy(wheel);
}

/* A delay of more than 2^31 - 1 ms fired at once. */
static void node_4541_delays_over_31_bits_wait(void **state)
{
    (void)state;
    for (uint64_t delay = INT32_MAX - 1; delay < UINT64_C(1) << 34; delay = delay * 2 + 1) {
        struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = 77});
        assert_true(tw_wheel_schedule(wheel, 77 + delay, 1) != TW_NONE);
        assert_int_equal(drain_count(wheel, 78), 0);
        assert_int_equal(drain_count(wheel, 77 + delay - 1), 0);
        assert_int_equal(drain_count(wheel, 77 + delay), 1);
        tw_wheel_destroy(wheel);
    }
}

/* Cancelling a sibling in the slot that was firing broke the list. */
static void timer_wheel_2_a_firing_timer_may_cancel_its_siblings(void **state)
{
    (void)state;
    enum { TIMERS = 200 };
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle timers[TIMERS];
    bool is_gone[TIMERS] = {false};
    size_t fired = 0, cancelled = 0;
    for (uint64_t i = 0; i < TIMERS; i++)
        timers[i] = tw_wheel_schedule(wheel, 50, i);
    do {
        struct tw_expired due;
        if (tw_wheel_expire(wheel, 50, &due, 1) == 0)
            continue;
        assert_false(is_gone[due.data]);
        is_gone[due.data] = true;
        fired++;
        for (size_t i = due.data % 7; i < TIMERS; i += 67) {
            bool done = tw_wheel_cancel(wheel, timers[i]);
            assert_int_equal(done, !is_gone[i]);
            is_gone[i] = true;
            cancelled += done;
        }
        tw_wheel_check(wheel);
    } while (tw_wheel_is_behind(wheel));
    assert_int_equal(fired + cancelled, TIMERS);
    assert_true(cancelled > 0);
    tw_wheel_destroy(wheel);
}

/* An update that arrived during the callback was overwritten when the callback returned. Here
 * whoever handles a timer arms it or another anew, and that stands. */
static void chronos_221_arming_while_firing_stands(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle first = tw_wheel_open(wheel, 1), second = tw_wheel_open(wheel, 2);
    struct tw_expired due;
    assert_true(tw_wheel_arm(wheel, first, 10));
    assert_true(tw_wheel_arm(wheel, second, 10));
    assert_int_equal(tw_wheel_expire(wheel, 10, &due, 1), 1);
    assert_true(tw_wheel_arm(wheel, first, 500)); /* the one fires, the other waits: both move */
    assert_true(tw_wheel_arm(wheel, second, 700));
    assert_int_equal(drain_count(wheel, 499), 0);
    assert_int_equal(tw_wheel_expire(wheel, 500, &due, 1), 1);
    assert_int_equal(due.data, 1);
    assert_int_equal(drain_count(wheel, 699), 0);
    assert_int_equal(tw_wheel_expire(wheel, 700, &due, 1), 1);
    assert_int_equal(due.data, 2);
    tw_wheel_destroy(wheel);
}

/* A timer written behind the frontier of what had been read was never read. Here one armed for a
 * tick already passed comes out next, also in the middle of a drain. */
static void cadence_7058_a_deadline_behind_the_frontier_fires(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    struct tw_expired due[64];
    for (uint64_t i = 0; i < 60; i++)
        assert_true(tw_wheel_schedule(wheel, 1000 + i * 3, i) != TW_NONE);
    assert_int_equal(tw_wheel_expire(wheel, 2000, due, 30), 30);
    assert_true(tw_wheel_schedule(wheel, 500, 1000) != TW_NONE);
    assert_true(tw_wheel_schedule(wheel, 1089, 1001) != TW_NONE);
    assert_int_equal(drain_count(wheel, 2000), 32);
    assert_true(tw_wheel_schedule(wheel, 1999, 1002) != TW_NONE);
    assert_int_equal(drain_count(wheel, 2000), 1);
    tw_wheel_destroy(wheel);
}

/* A clock set back stopped the scheduler for as long. Here an earlier time changes nothing, and
 * what was armed meanwhile for the time that has been is due at once. */
static void quartz_3148_a_clock_set_back_stops_nothing(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    assert_int_equal(drain_count(wheel, 3600000), 0);
    assert_true(tw_wheel_schedule(wheel, 5000, 1) != TW_NONE);
    assert_int_equal(drain_count(wheel, 4000), 1);
    assert_int_equal(tw_wheel_now(wheel), 3600000);
    tw_wheel_destroy(wheel);
}

/* How timers are told that they are not wanted any more. */
enum giving_up { CANCELLED, DISARMED };

/* Wake-ups until the wheel is empty, of a caller that sleeps until wake_at each time: a last timer
 * behind `count` that were given up, one each `step` ticks. */
static size_t wake_ups_behind(uint64_t start, size_t count, uint64_t step, enum giving_up how)
{
    struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = start});
    tw_handle *timers = calloc(count, sizeof(*timers));
    struct tw_expired due;
    size_t wake_ups = 0, fired = 0;
    assert_non_null(timers);
    for (size_t i = 0; i < count; i++) {
        uint64_t deadline = start + (i + 1) * step;
        timers[i] =
            how == CANCELLED ? tw_wheel_schedule(wheel, deadline, i) : tw_wheel_open(wheel, i);
        if (how == DISARMED)
            assert_true(tw_wheel_arm(wheel, timers[i], deadline));
    }
    uint64_t last = start + (count + 1) * step;
    assert_true(tw_wheel_schedule(wheel, last, 77) != TW_NONE);
    for (size_t i = 0; i < count; i++)
        assert_true(how == CANCELLED ? tw_wheel_cancel(wheel, timers[i])
                                     : tw_wheel_disarm(wheel, timers[i]));
    for (uint64_t at; (at = tw_wheel_wake_at(wheel)) != TW_NEVER; wake_ups++) {
        assert_true(at <= last);
        do
            fired += tw_wheel_expire(wheel, at, &due, 1);
        while (tw_wheel_is_behind(wheel));
        tw_wheel_check(wheel);
        assert_int_equal(fired, at == last);
    }
    free(timers);
    tw_wheel_destroy(wheel);
    return wake_ups;
}

/* libuv, tokio: a loop woke for each timer that had been cancelled. Goal: cancelled timers do not
 * wake a caller one by one. Method: 30,000 of them before one that is due, at distances that lie on
 * several levels; 30,001 wake-ups before the front of the wheel was pruned. */
static void cancelled_timers_do_not_wake_one_by_one(void **state)
{
    static const uint64_t steps[] = {1, 7, 300, 70000, UINT64_C(1) << 27, UINT64_C(1) << 34};
    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        for (enum giving_up how = CANCELLED; how <= DISARMED; how++) {
            size_t wake_ups = wake_ups_behind((UINT64_C(1) << 32) - 5000, 30000, steps[i], how);
            printf("%zu wake-ups with a cancelled timer each %" PRIu64 " ticks\n", wake_ups,
                   steps[i]);
            assert_in_range(wake_ups, 1, 16);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_timers_do_not_wake_one_by_one),
        cmocka_unit_test(netty_2541_cancelled_timers_hold_no_memory),
        cmocka_unit_test(netty_7760_the_longest_delays_do_not_fire_at_once),
        cmocka_unit_test(tokio_8334_levels_wrap_without_harm),
        cmocka_unit_test(agrona_73_any_start_will_do),
        cmocka_unit_test(wahern_20_21_wake_at_leads_from_one_deadline_to_the_next),
        cmocka_unit_test(msquic_3206_rescheduling_updates_the_wake_up),
        cmocka_unit_test(node_4541_delays_over_31_bits_wait),
        cmocka_unit_test(timer_wheel_2_a_firing_timer_may_cancel_its_siblings),
        cmocka_unit_test(chronos_221_arming_while_firing_stands),
        cmocka_unit_test(cadence_7058_a_deadline_behind_the_frontier_fires),
        cmocka_unit_test(quartz_3148_a_clock_set_back_stops_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
