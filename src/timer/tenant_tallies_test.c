/*
 * Goal: the level down to which tenants come is the highest at which all fit, and a tenant with
 * less keeps all. Method: cases by hand.
 */
#include "timer/tenant_tallies.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_tallies_of_tenants(void **state)
{
    struct tenant_tallies tallies;

    (void)state;
    tenant_tallies_init(&tallies);
    tenant_tallies_add(&tallies, BYTES("a"), 10);
    tenant_tallies_add(&tallies, BYTES("a"), 5);
    tenant_tallies_add(&tallies, BYTES(""), 1);
    assert_int_equal(tenant_tallies_bytes(&tallies, BYTES("a")), 15);
    assert_int_equal(tenant_tallies_bytes(&tallies, BYTES("b")), 0);
    tenant_tallies_check(&tallies);
    assert_int_equal(tallies.bytes, 16);
    assert_int_equal(tallies.count, 3);
    tenant_tallies_subtract(&tallies, BYTES("a"), 100);
    assert_int_equal(tenant_tallies_bytes(&tallies, BYTES("a")), 0);
    tenant_tallies_subtract(&tallies, BYTES("a"), 1);
    tenant_tallies_subtract(&tallies, BYTES("a"), 1);
    tenant_tallies_check(&tallies);
    assert_int_equal(tallies.bytes, 1);
    assert_int_equal(tallies.count, 1);
    tenant_tallies_clear(&tallies);
    tenant_tallies_check(&tallies);
    assert_int_equal(tallies.bytes, 0);
    assert_int_equal(tallies.count, 0);
    tenant_tallies_clear(&tallies);
}

static void test_level_of_tenants(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const struct {
        uint64_t bytes[4], max, level;
    } cases[] = {
        {{10, 10, 10, 10}, 20, 5}, {{1, 2, 100, 100}, 23, 10}, {{1, 1, 1, 100}, 103, 100},
        {{0, 50, 0, 0}, 20, 20},   {{7, 20, 30, 40}, 67, 20},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tenant_tallies tallies;

        tenant_tallies_init(&tallies);
        for (size_t j = 0; j < 4; j++)
            if (cases[i].bytes[j])
                tenant_tallies_add(&tallies, bytes_of(names[j]), cases[i].bytes[j]);
        assert_int_equal(tenant_tallies_level(&tallies, cases[i].max), cases[i].level);
        tenant_tallies_clear(&tallies);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tallies_of_tenants),
        cmocka_unit_test(test_level_of_tenants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
