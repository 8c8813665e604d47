/*
 * Goal: a tenant takes no more than its share of a pot, gives it back, and a pot that is not
 * divided is one tenant's to its limit. Method: cases by hand; threads that take and give.
 */
#include "timer/tenant_pot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MAX = 1024, THREADS = 4, ROUNDS = 20000 };

static uint64_t take_all(struct tenant_pot *pot, uint64_t tenant)
{
    uint64_t held = 0;

    while (tenant_pot_take(pot, tenant, 1))
        held++;
    return held;
}

static void test_shares(void **state)
{
    struct tenant_pot pot;

    (void)state;
    tenant_pot_init(&pot, MAX, TENANT_POT_DIVIDED);
    assert_int_equal(take_all(&pot, 1), MAX - MAX / 8);
    assert_true(tenant_pot_has_room(&pot, 1 + TENANT_POT_BUCKETS)); /* of the same bucket */
    struct tenant_pot_share *share = tenant_pot_take(&pot, 1 + TENANT_POT_BUCKETS, 50);
    assert_non_null(share);
    assert_null(tenant_pot_take(&pot, 2, MAX));
    tenant_pot_give(&pot, share, 50);
    tenant_pot_give(&pot, NULL, 0);
    assert_int_equal(atomic_load(&share->held), 0);
    assert_int_equal(atomic_load(&pot.held), MAX - MAX / 8);
    tenant_pot_empty(&pot);
    assert_int_equal(atomic_load(&pot.held), 0);
    assert_int_equal(take_all(&pot, 1), MAX - MAX / 8);
    share = tenant_pot_force(&pot, 3, MAX); /* an answer that is there already */
    assert_false(tenant_pot_has_room(&pot, 4));
    tenant_pot_give(&pot, share, MAX);
    assert_true(tenant_pot_has_room(&pot, 4));
    tenant_pot_deinit(&pot);
}

static void test_a_whole_pot(void **state)
{
    struct tenant_pot pot;

    (void)state;
    tenant_pot_init(&pot, MAX, TENANT_POT_WHOLE);
    assert_int_equal(take_all(&pot, 1), MAX);
    assert_null(tenant_pot_take(&pot, 2, 1));
    tenant_pot_deinit(&pot);
}

static void *take_and_give(void *context)
{
    struct tenant_pot *pot = context;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct tenant_pot_share *share = tenant_pot_take(pot, i % 5, 1 + i % 3);

        tenant_pot_give(pot, share, share ? 1 + i % 3 : 0);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct tenant_pot pot;
    pthread_t threads[THREADS];

    (void)state;
    tenant_pot_init(&pot, 16, TENANT_POT_DIVIDED);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &pot), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&pot.held), 0);
    for (uint64_t i = 0; i < 5; i++)
        assert_true(tenant_pot_has_room(&pot, i));
    tenant_pot_deinit(&pot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_a_whole_pot),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
