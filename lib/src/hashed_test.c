/*
 * Goal: what only the hashed wheel promises: rounds, ticks counted from the start, buckets passed
 * over until their nearest round, slots free at once, bounded looks. Method: exact wake-ups of
 * small wheels, an allocator that counts and runs out, random operations on large wheels. The
 * promises that all wheels share are in conformance_test.c.
 */
#include "allocator_oracle.h"
#include "conformance_oracle.h"
#include "seed.h"

#include <tickwheel/hashed.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct tw_hashed *wheel_new(uint64_t start, uint64_t tick, uint32_t size)
{
    struct tw_hashed *wheel = tw_hashed_create(
        &(struct tw_hashed_options){.start = start, .tick = tick, .wheel_size = size});

    assert_non_null(wheel);
    return wheel;
}

static size_t drain(struct tw_hashed *wheel, uint64_t now)
{
    struct tw_expired due[64];
    size_t count = 0;

    do {
        count += tw_hashed_expire(wheel, now, due, 64);
        tw_hashed_check(wheel);
    } while (tw_hashed_is_behind(wheel));
    return count;
}

static uint64_t hung_up;

static void hang_up(uint64_t connection)
{
    hung_up = connection;
}

static void the_example_of_the_header(void **state)
{
    uint64_t now = 1000, connection_id = 42;
    (void)state;

    struct tw_hashed *wheel =
        tw_hashed_create(&(struct tw_hashed_options){.start = now, .tick = 100, .wheel_size = 512});
    tw_handle timer = tw_hashed_schedule(wheel, now + 30000, connection_id);
    assert_true(timer != TW_NONE);

    now = 31000;
    struct tw_expired due[64];
    do {
        size_t n = tw_hashed_expire(wheel, now, due, 64);
        for (size_t i = 0; i < n; i++)
            hang_up(due[i].data);
    } while (tw_hashed_is_behind(wheel));
    assert_int_equal(hung_up, 42);
    tw_hashed_destroy(wheel);
    tw_hashed_destroy(NULL);
}

static void one_bucket_holds_all_rounds(void **state)
{
    struct tw_hashed *wheel = wheel_new(0, 1, 8);
    struct tw_expired due[8];
    (void)state;

    for (uint64_t round = 5; round-- > 0;)
        assert_true(tw_hashed_schedule(wheel, 3 + 8 * round, round) != TW_NONE);
    tw_hashed_check(wheel);
    for (uint64_t round = 0; round < 5; round++) {
        assert_int_equal(tw_hashed_wake_at(wheel), 3 + 8 * round);
        assert_int_equal(tw_hashed_expire(wheel, 3 + 8 * round, due, 8), 1);
        assert_int_equal(due[0].data, round);
        assert_int_equal(due[0].deadline, 3 + 8 * round);
        tw_hashed_check(wheel);
    }
    assert_true(tw_hashed_wake_at(wheel) == TW_NEVER);
    tw_hashed_destroy(wheel);
}

/* The next wake-up is that of a timer, never that of a bucket that is only passed on the way. */
static void a_bucket_is_passed_over_until_its_nearest_round(void **state)
{
    struct tw_hashed *wheel = wheel_new(0, 1, 16);
    (void)state;

    tw_hashed_schedule(wheel, 5 + 16 * 1000, 1);
    tw_hashed_schedule(wheel, 9 + 16 * 70, 2);
    assert_int_equal(tw_hashed_wake_at(wheel), 9 + 16 * 70);
    assert_int_equal(drain(wheel, 9 + 16 * 70), 1);
    assert_int_equal(tw_hashed_wake_at(wheel), 5 + 16 * 1000);
    assert_int_equal(drain(wheel, 5 + 16 * 999), 0);
    assert_int_equal(tw_hashed_wake_at(wheel), 5 + 16 * 1000);
    assert_int_equal(drain(wheel, UINT64_C(1) << 40), 1);
    tw_hashed_destroy(wheel);
}

static void ticks_are_counted_from_the_start(void **state)
{
    struct tw_hashed *wheel = wheel_new(95, 10, 4);
    (void)state;

    tw_hashed_schedule(wheel, 106, 1);
    tw_hashed_schedule(wheel, 105, 2);
    tw_hashed_schedule(wheel, 95 + 400, 3);
    assert_int_equal(tw_hashed_wake_at(wheel), 105);
    assert_int_equal(drain(wheel, 104), 0);
    assert_int_equal(drain(wheel, 105), 1);
    assert_int_equal(tw_hashed_wake_at(wheel), 115);
    assert_int_equal(drain(wheel, 115), 1);
    assert_int_equal(tw_hashed_wake_at(wheel), 495);
    assert_int_equal(drain(wheel, 486), 0);
    tw_hashed_schedule(wheel, 486, 4); /* reached, within a tick that has not ended */
    assert_int_equal(drain(wheel, 486), 1);
    assert_int_equal(drain(wheel, 495), 1);
    tw_hashed_destroy(wheel);
}

static void a_size_is_rounded_up_to_a_power_of_two(void **state)
{
    const uint32_t sizes[] = {1, 2, 3, 5, 9, 1000};
    const uint32_t powers[] = {1, 2, 4, 8, 16, 1024};
    (void)state;

    for (size_t i = 0; i < 6; i++) {
        struct tw_hashed *one = wheel_new(0, 1, sizes[i]), *other = wheel_new(0, 1, powers[i]);
        assert_int_equal(tw_hashed_memory(one), tw_hashed_memory(other));
        for (uint64_t deadline = 1; deadline < 40; deadline++)
            assert_true(tw_hashed_schedule(one, deadline * 7, deadline) != TW_NONE);
        tw_hashed_check(one);
        assert_int_equal(drain(one, 39 * 7), 39);
        tw_hashed_destroy(one);
        tw_hashed_destroy(other);
    }
}

/* A cancelled nearest timer may leave its wake-up behind, but only that. */
static void wake_at_after_cancelling_the_nearest(void **state)
{
    struct tw_hashed *wheel = wheel_new(0, 1, 8);
    tw_handle first = tw_hashed_schedule(wheel, 10, 1);
    tw_handle second = tw_hashed_schedule(wheel, 26, 2);
    (void)state;

    assert_true(tw_hashed_cancel(wheel, first));
    tw_hashed_check(wheel);
    assert_in_range(tw_hashed_wake_at(wheel), 10, 26);
    assert_int_equal(drain(wheel, 10), 0);
    assert_int_equal(tw_hashed_wake_at(wheel), 26);
    assert_true(tw_hashed_cancel(wheel, second));
    assert_true(tw_hashed_wake_at(wheel) == TW_NEVER);
    tw_hashed_destroy(wheel);
}

static void stale_handles_are_harmless(void **state)
{
    struct tw_hashed *wheel = wheel_new(0, 1, 8);
    tw_handle stale = tw_hashed_schedule(wheel, 5, 1);
    (void)state;

    assert_true(tw_hashed_cancel(wheel, stale));
    for (uint64_t i = 0; i < 1000; i++) {
        tw_handle timer = tw_hashed_schedule(wheel, 1000, i);
        assert_true(timer != stale);
        assert_false(tw_hashed_cancel(wheel, stale));
        assert_false(tw_hashed_reschedule(wheel, stale, 1));
        assert_true(tw_hashed_reschedule(wheel, timer, 2000));
        assert_true(tw_hashed_cancel(wheel, timer));
        stale = timer;
    }
    assert_false(tw_hashed_cancel(wheel, TW_NONE));
    assert_false(tw_hashed_cancel(wheel, UINT64_MAX));
    assert_false(tw_hashed_cancel(wheel, 77));
    tw_hashed_destroy(wheel);
}

static void a_limit_on_timers_is_kept(void **state)
{
    struct tw_hashed *wheel = tw_hashed_create(&(struct tw_hashed_options){.timer_count_max = 3});
    tw_handle timers[3];
    struct tw_expired due[8];
    (void)state;

    for (size_t i = 0; i < 3; i++)
        timers[i] = tw_hashed_schedule(wheel, 100 + i, i);
    assert_true(tw_hashed_schedule(wheel, 1, 9) == TW_NONE);
    assert_false(tw_hashed_reserve(wheel, 4));
    assert_true(tw_hashed_cancel(wheel, timers[1]));
    assert_true(tw_hashed_schedule(wheel, 1, 9) != TW_NONE); /* free at once */
    assert_true(tw_hashed_schedule(wheel, 1, 9) == TW_NONE);
    assert_int_equal(tw_hashed_expire(wheel, 1, due, 8), 1);
    assert_true(tw_hashed_schedule(wheel, TW_NEVER, 9) != TW_NONE);
    tw_hashed_check(wheel);
    tw_hashed_destroy(wheel);
}

/* 100,000 timers of later rounds share the bucket of one that is due. */
static void a_full_bucket_is_looked_at_in_portions(void **state)
{
    enum { COUNT = 100000 };
    struct tw_hashed *wheel = wheel_new(0, 1, 8);
    tw_handle *timers = calloc(COUNT, sizeof *timers);
    struct tw_expired due[16];
    size_t calls = 0, fired_count = 0;
    (void)state;

    assert_non_null(timers);
    for (size_t i = 0; i < COUNT; i++)
        timers[i] = tw_hashed_schedule(wheel, 8 * (i % 5 + 2), i);
    assert_true(tw_hashed_schedule(wheel, 8, COUNT) != TW_NONE);
    for (; tw_hashed_wake_at(wheel) <= 8 || calls == 0; calls++) {
        fired_count += tw_hashed_expire(wheel, 8, due, 16);
        if (calls % 8 == 0) {
            assert_true(tw_hashed_reschedule(wheel, timers[calls], 7)); /* overdue, mid-sweep */
            assert_true(tw_hashed_reschedule(wheel, timers[COUNT - 1 - calls], 24));
            assert_true(tw_hashed_cancel(wheel, timers[COUNT / 2 + calls]));
            fired_count++;
            tw_hashed_check(wheel);
        }
    }
    assert_true(calls >= COUNT / (TW_HASHED_LOOKS_MAX + 16));
    while (tw_hashed_count(wheel) > 0)
        fired_count += tw_hashed_expire(wheel, tw_hashed_wake_at(wheel), due, 16);
    assert_int_equal(fired_count, COUNT + 1);
    tw_hashed_destroy(wheel);
    free(timers);
}

/* The cost model of docs/wheel.md: a timer is looked at in vain at most once a rotation, and at
 * most once for each other timer of its bucket. Prints the document's figures. */
static void a_timer_is_looked_at_once_a_rotation_or_once_a_neighbour(void **state)
{
    enum { COUNT = 20000 };
    const uint64_t delays[] = {100, 1000, 30000, 600000, 3600000};
    const uint32_t sizes[] = {512, 4096, 65536};
    struct conformance_source source = {.state = testing_seed()};
    (void)state;

    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 3; j++) {
            struct tw_hashed *wheel = wheel_new(0, 1, sizes[j]);
            for (uint64_t k = 0; k < COUNT; k++)
                tw_hashed_schedule(wheel, 1 + conformance_below(&source, delays[i]), k);
            while (tw_hashed_count(wheel) > 0) {
                struct tw_expired due[64];
                tw_hashed_expire(wheel, tw_hashed_wake_at(wheel), due, 64);
            }
            double looks = (double)tw_hashed_look_count(wheel) / COUNT;
            double rotations = (double)delays[i] / sizes[j], neighbours = (double)COUNT / sizes[j];
            /* Half of either, as delays are uniform; a tenth more for chance. */
            assert_true(looks <= 0.55 * rotations && looks <= 0.55 * neighbours + 1);
            print_message("delays up to %7llu, wheel of %5u: %.2f looks a timer\n",
                          (unsigned long long)delays[i], (unsigned)sizes[j], looks);
            tw_hashed_destroy(wheel);
        }
}

static struct tw_hashed_options counted(struct allocator *allocator)
{
    return (struct tw_hashed_options){.wheel_size = 64,
                                      .allocate = allocator_take,
                                      .release = allocator_give,
                                      .context = allocator};
}

/* Fails the N-th allocation for N = 1, 2, …: what fails leaves the wheel as it was. */
static void allocation_failures_are_answers(void **state)
{
    (void)state;
    for (size_t calls_left = 0; calls_left < 12; calls_left++) {
        struct allocator allocator = {.calls_left = calls_left};
        struct tw_hashed_options options = counted(&allocator);
        struct tw_hashed *wheel = tw_hashed_create(&options);
        if (!wheel) {
            assert_true(calls_left < 3);
            assert_int_equal(allocator.bytes, 0);
            continue;
        }
        size_t count = 0;
        while (count < 100000 && tw_hashed_schedule(wheel, count + 1, count) != TW_NONE)
            count++;
        assert_true(count < 100000);
        tw_hashed_check(wheel);
        assert_false(tw_hashed_reserve(wheel, 200000));
        assert_int_equal(tw_hashed_count(wheel), count);
        assert_int_equal(allocator.bytes, tw_hashed_memory(wheel));
        assert_int_equal(drain(wheel, 100000), count);
        for (size_t i = 0; i < count; i++) /* the slots are there, no memory is needed */
            assert_true(tw_hashed_schedule(wheel, 200000 + i, i) != TW_NONE);
        tw_hashed_destroy(wheel);
        assert_int_equal(allocator.bytes, 0);
    }
}

static void reserve_takes_the_memory_beforehand(void **state)
{
    struct allocator allocator = {.calls_left = SIZE_MAX};
    struct tw_hashed_options options = counted(&allocator);
    struct tw_hashed *wheel = tw_hashed_create(&options);
    (void)state;

    assert_true(tw_hashed_reserve(wheel, 50000));
    size_t calls = allocator.calls;
    for (uint64_t i = 0; i < 50000; i++)
        assert_true(tw_hashed_schedule(wheel, i, i) != TW_NONE);
    assert_int_equal(allocator.calls, calls);
    tw_hashed_destroy(wheel);
}

/* Netty issue 2541 at length: a million hour-long timers, each cancelled after a thousand others.
 */
static void lesson_cancelled_timers_hold_no_memory(void **state)
{
    struct tw_hashed *wheel = wheel_new(0, 1, 512);
    tw_handle ring[1000] = {0};
    size_t memory = 0;
    (void)state;

    for (uint64_t i = 0; i < 1000000; i++) {
        tw_hashed_cancel(wheel, ring[i % 1000]);
        ring[i % 1000] = tw_hashed_schedule(wheel, i / 1000 + 3600000, i);
        if (i == 2000)
            memory = tw_hashed_memory(wheel);
    }
    assert_int_equal(tw_hashed_memory(wheel), memory);
    assert_int_equal(tw_hashed_count(wheel), 1000);
    tw_hashed_destroy(wheel);
}

/* Every number of rows above the buckets, with the invariants checked throughout. */
static void large_wheels_keep_their_nearest(void **state)
{
    struct conformance_source source = {.state = testing_seed()};
    (void)state;

    for (unsigned bits = 0; bits <= 14; bits++) {
        struct tw_hashed *wheel = wheel_new(0, 1, UINT32_C(1) << bits);
        tw_handle timers[300] = {0};
        struct tw_expired due[64];
        for (unsigned step = 0; step < 600; step++) {
            size_t i = (size_t)conformance_below(&source, 300);
            uint64_t deadline = tw_hashed_now(wheel) + conformance_below(&source, 100000);
            if (conformance_below(&source, 3) == 0)
                tw_hashed_cancel(wheel, timers[i]);
            else if (!tw_hashed_reschedule(wheel, timers[i], deadline))
                timers[i] = tw_hashed_schedule(wheel, deadline, i);
            if (conformance_below(&source, 4) == 0)
                tw_hashed_expire(wheel, tw_hashed_now(wheel) + conformance_below(&source, 3000),
                                 due, 64);
            if (step % 10 == 0)
                tw_hashed_check(wheel);
        }
        drain(wheel, TW_NEVER);
        assert_int_equal(tw_hashed_count(wheel), 0);
        tw_hashed_destroy(wheel);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_header),
        cmocka_unit_test(one_bucket_holds_all_rounds),
        cmocka_unit_test(a_bucket_is_passed_over_until_its_nearest_round),
        cmocka_unit_test(ticks_are_counted_from_the_start),
        cmocka_unit_test(a_size_is_rounded_up_to_a_power_of_two),
        cmocka_unit_test(wake_at_after_cancelling_the_nearest),
        cmocka_unit_test(stale_handles_are_harmless),
        cmocka_unit_test(a_limit_on_timers_is_kept),
        cmocka_unit_test(a_full_bucket_is_looked_at_in_portions),
        cmocka_unit_test(a_timer_is_looked_at_once_a_rotation_or_once_a_neighbour),
        cmocka_unit_test(allocation_failures_are_answers),
        cmocka_unit_test(reserve_takes_the_memory_beforehand),
        cmocka_unit_test(lesson_cancelled_timers_hold_no_memory),
        cmocka_unit_test(large_wheels_keep_their_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
