/*
 * Goal: tenants that take all they get leave some of a pot to the next one, and one tenant alone
 * gets seven eighths. Method: greedy tenants, one after the other, over pots of several sizes.
 */
#include "base/share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* What a tenant gets that takes as much as it may. */
static uint64_t share_take_all(uint64_t max, uint64_t *all)
{
    uint64_t held = 0;

    for (; share_allows(max, *all, held, 1); held++)
        ++*all;
    return held;
}

static void test_a_greedy_tenant_leaves_an_eighth(void **state)
{
    static const uint64_t pots[] = {16, 100, 1000, 100000};

    (void)state;
    for (size_t i = 0; i < sizeof(pots) / sizeof(pots[0]); i++) {
        uint64_t all = 0;

        assert_in_range(share_take_all(pots[i], &all), pots[i] / 2, pots[i] - pots[i] / 8);
        assert_true(share_take_all(pots[i], &all) > 0);
    }
}

static void test_64_greedy_tenants_leave_a_part_to_the_next(void **state)
{
    const uint64_t max = 1 << 20;
    uint64_t all = 0;

    (void)state;
    for (int i = 0; i < 63; i++)
        assert_true(share_take_all(max, &all) >= max / 1024);
    assert_true(all < max);
    assert_true(share_take_all(max, &all) >= max / 1024);
}

static void test_a_small_pot_is_not_divided(void **state)
{
    uint64_t all = 0;

    (void)state;
    assert_int_equal(share_take_all(15, &all), 15);
    assert_int_equal(share_take_all(15, &all), 0);
}

/* What does not fit is refused, also where sums would overflow; the first thing may be as large as
 * all that is left. */
static void test_one_large_thing(void **state)
{
    (void)state;
    assert_true(share_allows(100, 40, 0, 60));
    assert_false(share_allows(100, 40, 0, 61));
    assert_false(share_allows(100, 40, 0, UINT64_MAX));
    assert_false(share_allows(100, 200, 0, 1)); /* the limit was lowered */
    assert_false(share_allows(100, 40, 40, 54));
    assert_false(share_allows(0, 0, 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_greedy_tenant_leaves_an_eighth),
        cmocka_unit_test(test_64_greedy_tenants_leave_a_part_to_the_next),
        cmocka_unit_test(test_a_small_pot_is_not_divided),
        cmocka_unit_test(test_one_large_thing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
