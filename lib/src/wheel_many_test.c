/* wheel_many_test.c - the contract of the verbs for many. */
#include "wheel_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdlib.h>

enum { MANY = 200 };

struct many_rig {
    struct tw_wheel *wheel;
    uint64_t deadlines[MANY];
    uint64_t data[MANY];
    tw_handle timers[MANY];
};

static struct many_rig *many_create(const struct tw_wheel_options *options)
{
    struct many_rig *many = test_calloc(1, sizeof(*many));
    many->wheel = tw_wheel_create(options);
    assert_non_null(many->wheel);
    for (size_t i = 0; i < MANY; i++) {
        many->deadlines[i] = 1000 - i;
        many->data[i] = 40 + i;
    }
    return many;
}

static void many_destroy(struct many_rig *many)
{
    tw_wheel_check(many->wheel);
    tw_wheel_destroy(many->wheel);
    test_free(many);
}

static size_t many_schedule(struct many_rig *many)
{
    return tw_wheel_schedule_many(many->wheel, many->deadlines, many->data, MANY, many->timers);
}

static void many_open(struct many_rig *many)
{
    for (size_t i = 0; i < MANY; i++) {
        many->timers[i] = tw_wheel_open(many->wheel, many->data[i]);
        assert_true(many->timers[i] != TW_NONE);
    }
}

/* Goal: deadline, data and handle of a place belong together. Method: slots that were freed in
 * another order, and one deadline of each kind: overdue, never, far. */
static void schedules_each_with_its_own(void **state)
{
    (void)state;
    struct tw_expired due[MANY];
    struct many_rig *many = many_create(&(struct tw_wheel_options){.start = 500});
    assert_int_equal(many_schedule(many), MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_true(tw_wheel_cancel(many->wheel, many->timers[i * 77 % MANY]));
    many->deadlines[3] = 0;
    many->deadlines[4] = TW_NEVER;
    many->deadlines[5] = UINT64_C(1) << 40;
    assert_int_equal(many_schedule(many), MANY);
    assert_int_equal(tw_wheel_count(many->wheel), MANY - 1);
    assert_int_equal(tw_wheel_expire(many->wheel, 1000, due, MANY), MANY - 2);
    for (size_t i = 0; i < MANY - 2; i++) {
        size_t place = due[i].data - 40;
        assert_int_equal(due[i].deadline, many->deadlines[place]);
        assert_int_equal(due[i].timer, many->timers[place]);
    }
    many_destroy(many);
}

/* Goal: at the limit the first timers are scheduled, and nothing is stored for the others. */
static void schedules_the_first_ones_at_the_limit(void **state)
{
    (void)state;
    struct many_rig *many = many_create(&(struct tw_wheel_options){.timer_count_max = 130});
    many->timers[130] = 77;
    assert_int_equal(many_schedule(many), 130);
    assert_int_equal(many->timers[130], 77);
    assert_int_equal(tw_wheel_count(many->wheel), 130);
    assert_int_equal(many_schedule(many), 0);
    assert_int_equal(tw_wheel_cancel_many(many->wheel, many->timers, 130), 130);
    many_destroy(many);
}

static void *allocate_some(void *context, size_t alignment, size_t size)
{
    size_t *left = context;
    return *left > 0 && (*left)-- ? aligned_alloc(alignment, (size + alignment - 1) & -alignment)
                                  : NULL;
}

static void release_some(void *context, void *memory, size_t size)
{
    (void)context, (void)size;
    free(memory);
}

/* Goal: out of memory in the middle. Method: memory for one segment of slots; the handles that were
 * returned are good. */
static void schedules_the_first_ones_without_memory(void **state)
{
    (void)state;
    size_t left = 20, rest = 0;
    struct tw_wheel_options options = {
        .allocate = allocate_some, .release = release_some, .context = &left};
    struct many_rig *many = many_create(&options);
    assert_true(tw_wheel_reserve(many->wheel, 5000));
    left = 0;
    for (size_t n; (n = many_schedule(many)) > 0; rest = n)
        assert_true(n == MANY || rest == 0 || rest == MANY);
    assert_true(tw_wheel_count(many->wheel) >= 5000);
    assert_int_equal(tw_wheel_cancel_many(many->wheel, many->timers, rest), rest);
    many_destroy(many);
}

/* Goal: the answers count what single calls would have done, and a handle counts as often as it is
 * good. */
static void answers_count_the_good_handles(void **state)
{
    (void)state;
    struct many_rig *many = many_create(NULL);
    struct tw_wheel *wheel = many->wheel;
    many_open(many);
    assert_int_equal(tw_wheel_disarm_many(wheel, many->timers, MANY), 0);
    assert_int_equal(tw_wheel_arm_many(wheel, many->timers, many->deadlines, MANY), MANY);
    assert_int_equal(tw_wheel_count(wheel), MANY);
    many->deadlines[0] = TW_NEVER;
    assert_int_equal(tw_wheel_arm_many(wheel, many->timers, many->deadlines, MANY), MANY);
    assert_int_equal(tw_wheel_count(wheel), MANY - 1);
    tw_handle twice[] = {many->timers[1], many->timers[2], many->timers[1], TW_NONE};
    assert_int_equal(tw_wheel_arm_many(wheel, twice, (uint64_t[]){5, 6, 7, 8}, 4), 3);
    assert_int_equal(tw_wheel_wake_at(wheel), 5);
    struct tw_expired due[2];
    assert_int_equal(tw_wheel_expire(wheel, 7, due, 2), 2);
    assert_int_equal(due[1].deadline, 7);
    assert_int_equal(tw_wheel_disarm_many(wheel, many->timers, MANY), MANY - 3);
    assert_int_equal(tw_wheel_close_many(wheel, twice, 4), 2);
    assert_int_equal(tw_wheel_close_many(wheel, many->timers, MANY), MANY - 2);
    assert_int_equal(tw_wheel_arm_many(wheel, many->timers, many->deadlines, MANY), 0);
    assert_int_equal(tw_wheel_disarm_many(wheel, many->timers, MANY), 0);
    assert_int_equal(tw_wheel_cancel_many(wheel, many->timers, MANY), 0);
    many_destroy(many);
}

static void none_is_fine(void **state)
{
    (void)state;
    struct many_rig *many = many_create(NULL);
    assert_int_equal(tw_wheel_schedule_many(many->wheel, NULL, NULL, 0, NULL), 0);
    assert_int_equal(tw_wheel_cancel_many(many->wheel, NULL, 0), 0);
    assert_int_equal(tw_wheel_arm_many(many->wheel, NULL, NULL, 0), 0);
    assert_int_equal(tw_wheel_disarm_many(many->wheel, NULL, 0), 0);
    assert_int_equal(tw_wheel_close_many(many->wheel, NULL, 0), 0);
    many_destroy(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_each_with_its_own),
        cmocka_unit_test(schedules_the_first_ones_at_the_limit),
        cmocka_unit_test(schedules_the_first_ones_without_memory),
        cmocka_unit_test(answers_count_the_good_handles),
        cmocka_unit_test(none_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
