/*
 * Goal: what only the textbook hierarchy promises: wheels of any size, overflow wheels on demand
 * and their times, tasks in the caller's memory, bounded moves, work without memory. Method: exact
 * wake-ups of small wheels, an allocator that counts and runs out, and an ordered list beside it.
 * The promises that all wheels share are in conformance_test.c.
 */
#include "allocator_oracle.h"
#include "conformance_oracle.h"
#include "seed.h"

#include <tickwheel/hierarchy.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct tw_hierarchy *wheel_new(uint64_t start, uint64_t tick, uint32_t size)
{
    struct tw_hierarchy *wheel = tw_hierarchy_create(
        &(struct tw_hierarchy_options){.start = start, .tick = tick, .wheel_size = size});

    assert_non_null(wheel);
    return wheel;
}

static size_t drain(struct tw_hierarchy *wheel, uint64_t now)
{
    struct tw_task *due[64];
    size_t count = 0;

    do {
        count += tw_hierarchy_expire(wheel, now, due, 64);
        tw_hierarchy_check(wheel);
    } while (tw_hierarchy_is_behind(wheel));
    return count;
}

struct hierarchy_connection {
    int fd;
    struct tw_task idle;
};

static int hung_up;

static void hang_up(struct hierarchy_connection *connection)
{
    hung_up = connection->fd;
}

static void the_example_of_the_header(void **state)
{
    struct tw_hierarchy *wheel = wheel_new(1000, 1, 256);
    struct hierarchy_connection peer = {.fd = 42}, *connection = &peer;
    uint64_t now = 1000;
    (void)state;

    tw_hierarchy_schedule(wheel, &connection->idle, now + 30000);

    now = 31000;
    struct tw_task *due[64];
    do {
        size_t n = tw_hierarchy_expire(wheel, now, due, 64);
        for (size_t i = 0; i < n; i++)
            hang_up(tw_task_item(due[i], struct hierarchy_connection, idle));
    } while (tw_hierarchy_is_behind(wheel));
    assert_int_equal(hung_up, 42);
    assert_true(tw_hierarchy_wake_at(wheel) == TW_NEVER);
    tw_hierarchy_destroy(wheel);
}

static void overflow_wheels_are_made_on_demand(void **state)
{
    const uint64_t delays[] = {9, 10, 99, 100, 999, 1000};
    const unsigned levels[] = {1, 2, 2, 3, 3, 4};
    struct tw_task tasks[6] = {0};
    struct tw_hierarchy *wheel = wheel_new(0, 1, 10);
    (void)state;

    for (size_t i = 0; i < 6; i++) {
        tw_hierarchy_schedule(wheel, &tasks[i], delays[i]);
        assert_int_equal(tw_hierarchy_level_count(wheel), levels[i]);
        tw_hierarchy_check(wheel);
    }
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(drain(wheel, delays[i]), 1);
    assert_int_equal(tw_hierarchy_level_count(wheel), 4);
    tw_hierarchy_destroy(wheel);
}

/* The wake-ups show on which boundaries the tasks move down: multiples of each level's tick,
 * whatever the start is. */
static void each_level_is_trimmed_to_its_tick(void **state)
{
    struct tw_hierarchy *wheel = wheel_new(95, 1, 10);
    struct tw_task task = {0};
    (void)state;

    tw_hierarchy_schedule(wheel, &task, 257);
    assert_int_equal(tw_hierarchy_level_count(wheel), 3);
    assert_int_equal(tw_hierarchy_wake_at(wheel), 200);
    assert_int_equal(drain(wheel, 199), 0);
    assert_int_equal(tw_hierarchy_wake_at(wheel), 200);
    assert_int_equal(drain(wheel, 203), 0);
    assert_int_equal(tw_hierarchy_wake_at(wheel), 250);
    assert_int_equal(drain(wheel, 250), 0);
    assert_int_equal(tw_hierarchy_wake_at(wheel), 257);
    assert_int_equal(drain(wheel, 256), 0);
    assert_int_equal(drain(wheel, 257), 1);
    tw_hierarchy_destroy(wheel);
}

static void a_deadline_between_ticks_waits_for_the_next(void **state)
{
    struct tw_hierarchy *wheel = wheel_new(15, 20, 20);
    struct tw_task task = {0};
    (void)state;

    tw_hierarchy_schedule(wheel, &task, 41);
    assert_int_equal(tw_hierarchy_wake_at(wheel), 60);
    assert_int_equal(drain(wheel, 59), 0);
    assert_int_equal(drain(wheel, 60), 1);
    tw_hierarchy_schedule(wheel, &task, 80);
    assert_int_equal(tw_hierarchy_wake_at(wheel), 80);
    assert_int_equal(drain(wheel, 75), 0);
    tw_hierarchy_schedule(wheel, &task, 74); /* overdue within a tick that has not ended */
    assert_true(tw_hierarchy_wake_at(wheel) <= 75);
    assert_int_equal(drain(wheel, 75), 1);
    tw_hierarchy_destroy(wheel);
}

static void scheduling_a_scheduled_task_moves_it(void **state)
{
    struct tw_hierarchy *wheel = wheel_new(0, 1, 10);
    struct tw_task task = {0};
    (void)state;

    assert_false(tw_task_is_scheduled(&task));
    assert_false(tw_hierarchy_cancel(wheel, &task));
    assert_false(tw_hierarchy_reschedule(wheel, &task, 5));
    tw_hierarchy_schedule(wheel, &task, 500);
    tw_hierarchy_schedule(wheel, &task, 3);
    assert_true(tw_task_is_scheduled(&task));
    assert_int_equal(tw_task_deadline(&task), 3);
    assert_int_equal(tw_hierarchy_count(wheel), 1);
    assert_int_equal(drain(wheel, 1000), 1);
    assert_false(tw_task_is_scheduled(&task));
    tw_hierarchy_destroy(wheel);
    tw_hierarchy_destroy(NULL);
}

/* 100,000 tasks of one overflow bucket come down in portions, and may be changed in between. */
static void a_full_bucket_is_moved_in_portions(void **state)
{
    enum { COUNT = 100000, LIMIT = 16 };
    struct tw_hierarchy *wheel = wheel_new(0, 1, 16);
    struct tw_task *tasks = calloc(COUNT, sizeof *tasks);
    struct tw_task *due[LIMIT];
    size_t calls = 0, fired_count = 0, cancelled_count = 0;
    (void)state;

    assert_non_null(tasks);
    for (size_t i = 0; i < COUNT; i++)
        tw_hierarchy_schedule(wheel, &tasks[i], 4096 + 255);
    do {
        size_t count = tw_hierarchy_expire(wheel, 4096, due, LIMIT);
        assert_int_equal(count, 0);
        if (calls % 8 == 0) {
            tw_hierarchy_check(wheel);
            cancelled_count += tw_hierarchy_cancel(wheel, &tasks[COUNT / 2 + calls]);
            assert_true(tw_hierarchy_reschedule(wheel, &tasks[calls], 4096));
            assert_true(tw_hierarchy_reschedule(wheel, &tasks[calls], 5000));
            assert_true(tw_hierarchy_reschedule(wheel, &tasks[COUNT - 1 - calls], 4351));
        }
        calls++;
    } while (tw_hierarchy_wake_at(wheel) <= 4096);
    assert_true(calls >= COUNT / (TW_HIERARCHY_MOVES_MAX + LIMIT));
    for (uint64_t now = 4097; tw_hierarchy_count(wheel) > 0; now = tw_hierarchy_wake_at(wheel))
        while (tw_hierarchy_wake_at(wheel) <= now)
            fired_count += tw_hierarchy_expire(wheel, now, due, LIMIT);
    assert_int_equal(fired_count + cancelled_count, COUNT);
    tw_hierarchy_destroy(wheel);
    free(tasks);
}

/* The cost model of docs/wheel.md: a task is moved at most once for each level above the lowest
 * that its delay reaches. Prints the document's figures. */
static void a_task_is_moved_at_most_once_a_level(void **state)
{
    enum { COUNT = 20000 };
    const uint64_t delays[] = {100, 1000, 30000, 600000, 3600000};
    const uint32_t sizes[] = {10, 64, 256, 1024};
    struct conformance_source source = {.state = testing_seed()};
    struct tw_task *tasks = calloc(COUNT, sizeof *tasks);
    (void)state;

    assert_non_null(tasks);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 4; j++) {
            uint64_t start = conformance_choose(&source) >> 2;
            struct tw_hierarchy *wheel = wheel_new(start, 1, sizes[j]);
            for (size_t k = 0; k < COUNT; k++)
                tw_hierarchy_schedule(wheel, &tasks[k],
                                      start + 1 + conformance_below(&source, delays[i]));
            while (tw_hierarchy_count(wheel) > 0) {
                struct tw_task *due[64];
                tw_hierarchy_expire(wheel, tw_hierarchy_wake_at(wheel), due, 64);
            }
            uint64_t moves = tw_hierarchy_move_count(wheel);
            assert_true(moves <= COUNT * (tw_hierarchy_level_count(wheel) - 1));
            print_message("delays up to %7llu, wheels of %4u: %.2f moves a task\n",
                          (unsigned long long)delays[i], (unsigned)sizes[j], (double)moves / COUNT);
            tw_hierarchy_destroy(wheel);
        }
    free(tasks);
}

static void pop_empties_a_wheel_in_any_state(void **state)
{
    struct tw_hierarchy *wheel = wheel_new(0, 1, 4);
    struct tw_task tasks[3000] = {0};
    struct tw_task *due[1];
    size_t count = 0;
    (void)state;

    for (size_t i = 0; i < 3000; i++) /* most in one overflow bucket, which is left half moved */
        tw_hierarchy_schedule(wheel, &tasks[i],
                              i < 2500   ? 64 + i % 4
                              : i < 2990 ? 3 * i
                                         : TW_NEVER);
    assert_int_equal(tw_hierarchy_expire(wheel, 64, due, 1), 1);
    assert_true(tw_hierarchy_wake_at(wheel) <= 64);
    assert_int_equal(tw_hierarchy_count(wheel), 2989);
    for (struct tw_task *task; (task = tw_hierarchy_pop(wheel)) != NULL; count++) {
        assert_false(tw_task_is_scheduled(task));
        if (count % 100 == 0)
            tw_hierarchy_check(wheel);
    }
    assert_int_equal(count, 2999);
    assert_int_equal(tw_hierarchy_count(wheel), 0);
    assert_true(tw_hierarchy_wake_at(wheel) == TW_NEVER);
    tw_hierarchy_destroy(wheel);
}

static struct tw_hierarchy_options counted(struct allocator *allocator, uint32_t size)
{
    return (struct tw_hierarchy_options){.wheel_size = size,
                                         .allocate = allocator_take,
                                         .release = allocator_give,
                                         .context = allocator};
}

static void reserve_makes_the_wheels_beforehand(void **state)
{
    const uint64_t delays[] = {0, 1, 8, 9, 98, 99, 100, 12345, UINT64_C(1) << 40, TW_NEVER};
    const uint64_t starts[] = {0, 9, 95, 999, 123456789};
    (void)state;

    for (size_t i = 0; i < 10; i++)
        for (size_t j = 0; j < 5; j++) {
            struct allocator allocator = {.calls_left = SIZE_MAX};
            struct tw_hierarchy_options options = counted(&allocator, 10);
            struct tw_task task = {0};
            options.start = starts[j];
            struct tw_hierarchy *wheel = tw_hierarchy_create(&options);
            assert_true(tw_hierarchy_reserve(wheel, delays[i]));
            tw_hierarchy_check(wheel);
            size_t calls = allocator.calls;
            uint64_t room = TW_NEVER - starts[j];
            tw_hierarchy_schedule(wheel, &task,
                                  starts[j] + (delays[i] < room ? delays[i] : room - 1));
            assert_int_equal(allocator.calls, calls);
            assert_int_equal(allocator.bytes, tw_hierarchy_memory(wheel));
            tw_hierarchy_destroy(wheel);
            assert_int_equal(allocator.bytes, 0);
        }
}

/* The same for ticks and starts of any kind, which decide how many boundaries a delay crosses. */
static void reserve_counts_the_boundaries_between(void **state)
{
    struct conformance_source source = {.state = testing_seed()};
    (void)state;

    for (unsigned i = 0; i < 20000; i++) {
        struct allocator allocator = {.calls_left = SIZE_MAX};
        struct tw_hierarchy_options options =
            counted(&allocator, 2 + (uint32_t)conformance_below(&source, 12));
        struct tw_task task = {0};
        options.tick = 1 + conformance_below(&source, 12);
        options.start = conformance_below(&source, 3000);
        uint64_t delay = conformance_below(&source, 2000);
        struct tw_hierarchy *wheel = tw_hierarchy_create(&options);
        assert_true(tw_hierarchy_reserve(wheel, delay));
        size_t calls = allocator.calls;
        tw_hierarchy_schedule(wheel, &task, options.start + delay);
        assert_int_equal(allocator.calls, calls);
        tw_hierarchy_destroy(wheel);
    }
}

static void creation_fails_cleanly_without_memory(void **state)
{
    size_t calls_left = 0;
    struct tw_hierarchy *wheel;
    (void)state;

    for (;; calls_left++) {
        struct allocator allocator = {.calls_left = calls_left};
        struct tw_hierarchy_options options = counted(&allocator, 64);
        wheel = tw_hierarchy_create(&options);
        if (wheel) {
            assert_false(tw_hierarchy_reserve(wheel, 100000));
            tw_hierarchy_check(wheel);
            assert_int_equal(tw_hierarchy_level_count(wheel), 1);
        }
        tw_hierarchy_destroy(wheel);
        assert_int_equal(allocator.bytes, 0);
        if (wheel)
            break;
    }
    assert_in_range(calls_left, 2, 5);
}

/* Fails the N-th allocation for N = 1, 2, …: tasks beyond the top wheel are still exact. */
static void without_memory_for_overflow_wheels_nothing_is_early_late_or_lost(void **state)
{
    enum { COUNT = 200 };
    struct conformance_source source = {.state = testing_seed()};
    (void)state;

    for (size_t calls_left = 3; calls_left < 9; calls_left++) {
        struct allocator allocator = {.calls_left = calls_left};
        struct tw_hierarchy_options options = counted(&allocator, 10);
        struct tw_task tasks[COUNT] = {0};
        size_t fired_count = 0;
        options.start = conformance_choose(&source);
        struct tw_hierarchy *wheel = tw_hierarchy_create(&options);
        assert_non_null(wheel);
        uint64_t start = tw_hierarchy_now(wheel);
        for (size_t i = 0; i < COUNT; i++)
            tw_hierarchy_schedule(wheel, &tasks[i], start + conformance_below(&source, 3000));
        tw_hierarchy_check(wheel);
        while (tw_hierarchy_count(wheel) > 0) {
            struct tw_task *due[64];
            uint64_t now = tw_hierarchy_wake_at(wheel);
            size_t count = tw_hierarchy_expire(wheel, now, due, 64);
            for (size_t i = 0; i < count; i++)
                assert_true(tw_task_deadline(due[i]) == now);
            fired_count += count;
            tw_hierarchy_check(wheel);
        }
        assert_int_equal(fired_count, COUNT);
        tw_hierarchy_destroy(wheel);
        assert_int_equal(allocator.bytes, 0);
    }
}

/* Once a wheel has the levels it needs, a million operations allocate nothing. */
static void memory_is_flat(void **state)
{
    struct allocator allocator = {.calls_left = SIZE_MAX};
    struct tw_hierarchy_options options = counted(&allocator, 20);
    struct tw_hierarchy *wheel = tw_hierarchy_create(&options);
    struct conformance_source source = {.state = testing_seed()};
    struct tw_task tasks[1000] = {0};
    struct tw_task *due[64];
    (void)state;

    assert_true(tw_hierarchy_reserve(wheel, 2000000));
    size_t calls = allocator.calls;
    for (uint64_t i = 0; i < 1000000; i++) {
        tw_hierarchy_schedule(wheel, &tasks[conformance_below(&source, 1000)],
                              i + 1 + conformance_below(&source, 900000));
        if (i % 16 == 0)
            tw_hierarchy_expire(wheel, i, due, 64);
    }
    assert_int_equal(allocator.calls, calls);
    tw_hierarchy_check(wheel);
    while (tw_hierarchy_pop(wheel) != NULL)
        ;
    tw_hierarchy_destroy(wheel);
}

/* The bucket was due by now and is empty: the wheel need not be called again for it. */
static void cancelling_what_is_left_over_ends_being_behind(void **state)
{
    struct tw_hierarchy *wheel = tw_hierarchy_create(NULL);
    struct tw_task tasks[3] = {0};
    struct tw_task *due[1];
    (void)state;

    assert_non_null(wheel);
    tw_hierarchy_schedule(wheel, &tasks[0], 5);
    tw_hierarchy_schedule(wheel, &tasks[1], 5);
    tw_hierarchy_schedule(wheel, &tasks[2], 100000);
    assert_int_equal(tw_hierarchy_expire(wheel, 5, due, 1), 1);
    assert_true(tw_hierarchy_is_behind(wheel));
    assert_true(tw_hierarchy_cancel(wheel, &tasks[due[0] == &tasks[0]]));
    assert_false(tw_hierarchy_is_behind(wheel));
    assert_true(tw_hierarchy_cancel(wheel, &tasks[2]));
    assert_true(tw_hierarchy_wake_at(wheel) == TW_NEVER);
    tw_hierarchy_check(wheel);
    tw_hierarchy_destroy(wheel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_header),
        cmocka_unit_test(overflow_wheels_are_made_on_demand),
        cmocka_unit_test(each_level_is_trimmed_to_its_tick),
        cmocka_unit_test(a_deadline_between_ticks_waits_for_the_next),
        cmocka_unit_test(scheduling_a_scheduled_task_moves_it),
        cmocka_unit_test(a_full_bucket_is_moved_in_portions),
        cmocka_unit_test(a_task_is_moved_at_most_once_a_level),
        cmocka_unit_test(pop_empties_a_wheel_in_any_state),
        cmocka_unit_test(reserve_makes_the_wheels_beforehand),
        cmocka_unit_test(reserve_counts_the_boundaries_between),
        cmocka_unit_test(creation_fails_cleanly_without_memory),
        cmocka_unit_test(without_memory_for_overflow_wheels_nothing_is_early_late_or_lost),
        cmocka_unit_test(memory_is_flat),
        cmocka_unit_test(cancelling_what_is_left_over_ends_being_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
