/* Goal: a node acts by no time that its brokers have not confirmed. Method: clocks that the test
 * sets, by steps of every size and direction. */
#include "node/node_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#define SECOND_US INT64_C(1000000)
#define BOOT_US   (100 * SECOND_US)
#define WALL_US   (1700000000 * SECOND_US)

static const int64_t steps_us[] = {
    SECOND_US / 5, SECOND_US / 2,    SECOND_US,
    5 * SECOND_US, 3600 * SECOND_US, 365 * 86400 * SECOND_US,
};

static struct node_clock trusting(void)
{
    struct node_clock clock = {.is_held = false};

    atomic_store(&clock.trusted_us, WALL_US - BOOT_US);
    return clock;
}

static int64_t now_us(struct node_clock *clock, int64_t passed_us, int64_t step_us)
{
    return (int64_t)node_clock_at_us(clock, (uint64_t)(WALL_US + passed_us + step_us),
                                     (uint64_t)(BOOT_US + passed_us));
}

/* A step changes nothing before it is confirmed; one that is out of bounds never does, and the time
 * goes on meanwhile. */
/* proves: cluster-clock-step */
static void test_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(steps_us) / sizeof(*steps_us); i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const int64_t step_us = sign * steps_us[i], trusted_us = WALL_US - BOOT_US;
            struct node_clock clock = trusting();

            assert_int_equal(now_us(&clock, 0, step_us), WALL_US);
            assert_true(clock.is_held);
            assert_int_equal(now_us(&clock, SECOND_US, step_us), WALL_US + SECOND_US);
            /* An append that was sent before the step shows nothing. */
            assert_false(node_clock_measure(&clock, trusted_us, trusted_us + step_us, 0));
            assert_int_equal(now_us(&clock, SECOND_US, step_us), WALL_US + SECOND_US);
            const int32_t offset_ms = (int32_t)(step_us / 1000 > INT32_MAX    ? INT32_MAX
                                                : step_us / 1000 < -INT32_MAX ? -INT32_MAX
                                                                              : step_us / 1000);
            assert_true(
                node_clock_measure(&clock, trusted_us + step_us, trusted_us + step_us, offset_ms));
            const bool is_right = abs(offset_ms) <= NODE_CLOCK_SKEW_MS_MAX;
            assert_int_equal(node_clock_is_wrong(&clock), !is_right);
            assert_int_equal(now_us(&clock, 2 * SECOND_US, step_us),
                             WALL_US + 2 * SECOND_US + (is_right ? step_us : 0));
            /* Back again. */
            assert_true(node_clock_measure(&clock, trusted_us, trusted_us, 0));
            assert_false(node_clock_is_wrong(&clock));
            assert_int_equal(now_us(&clock, 3 * SECOND_US, 0), WALL_US + 3 * SECOND_US);
            assert_false(clock.is_held);
        }
}

/* Small steps add up. */
static void test_many_small_steps(void **state)
{
    struct node_clock clock = trusting();

    (void)state;
    for (int64_t step_us = 0; step_us <= 10 * SECOND_US; step_us += 20000)
        assert_in_range(now_us(&clock, 0, step_us), WALL_US, WALL_US + NODE_CLOCK_STEP_US);
}

static void test_the_clocks_of_the_machine(void **state)
{
    struct node_clock clock;

    (void)state;
    node_clock_init(&clock);
    const uint64_t first_us = node_clock_now_us(&clock), second_us = node_clock_now_us(&clock);
    assert_true(second_us + 1000 >= first_us && !clock.is_held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_many_small_steps),
        cmocka_unit_test(test_the_clocks_of_the_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
