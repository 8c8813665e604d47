/* Goal: what is dropped first is the oldest of a tenant that has the most, so a tenant with less
 * than half of that loses nothing. Method: one that adds much beside one that added little before;
 * then random additions and removals beside sums of our own. */
#include "timer/tenant_latest.h"
#include "timer/timer_testing.h"

#include <stdlib.h>

enum { GREEDY = 1, QUIET = 2, TENANTS = 5, THINGS = 200 };

struct latest_thing {
    struct tenant_latest_place place;
    uint64_t tenant, number, amount;
};

static struct latest_thing *first_thing(const struct tenant_latest *latest)
{
    struct tenant_latest_place *place = tenant_latest_first(latest);

    return place ? list_item(place, struct latest_thing, place) : NULL;
}

static void test_the_quiet_lose_nothing(void **state)
{
    struct latest_thing quiet[3], greedy[100];
    struct tenant_latest latest;

    (void)state;
    tenant_latest_init(&latest);
    assert_null(tenant_latest_first(&latest));
    for (size_t i = 0; i < 3; i++)
        tenant_latest_add(&latest, QUIET, &quiet[i].place, 10);
    for (size_t i = 0; i < 100; i++) {
        tenant_latest_add(&latest, GREEDY, &greedy[i].place, 10);
        greedy[i].number = i;
    }
    uint64_t number = 0;
    while (latest.amount > 500) {
        struct latest_thing *thing = first_thing(&latest);

        assert_ptr_equal(thing, &greedy[number++]);
        assert_ptr_equal(tenant_latest_next(&thing->place), &greedy[number].place);
        tenant_latest_remove(&latest, &thing->place);
        assert_false(tenant_latest_has(&thing->place));
    }
    assert_int_equal(number, 53);
    for (size_t i = 0; i < 3; i++)
        assert_true(tenant_latest_has(&quiet[i].place));
    assert_null(tenant_latest_next(&greedy[99].place));
    tenant_latest_deinit(&latest);
}

static void test_any_order(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct latest_thing *things = calloc(THINGS, sizeof(*things));
    uint64_t held[TENANTS] = {0}, number = 0;
    struct tenant_latest latest;

    (void)state;
    assert_non_null(things);
    tenant_latest_init(&latest);
    for (int round = 0; round < 20000; round++) {
        struct latest_thing *thing = &things[random_below(&random, THINGS)];

        if (tenant_latest_has(&thing->place)) {
            held[thing->tenant] -= thing->amount;
            tenant_latest_remove(&latest, &thing->place);
        } else {
            thing->tenant = random_below(&random, TENANTS);
            thing->amount = random_below(&random, 100);
            thing->number = number++;
            held[thing->tenant] += thing->amount;
            tenant_latest_add(&latest, thing->tenant, &thing->place, thing->amount);
        }
        uint64_t sum = 0, most = 0;
        for (size_t i = 0; i < TENANTS; i++) {
            sum += held[i];
            most = held[i] > most ? held[i] : most;
        }
        assert_int_equal(latest.amount, sum);
        thing = first_thing(&latest);
        assert_true(thing || sum == 0);
        assert_true(!thing || 2 * held[thing->tenant] >= most);
        for (size_t i = 0; thing && i < THINGS; i++)
            assert_true(!tenant_latest_has(&things[i].place) || things[i].tenant != thing->tenant ||
                        things[i].number >= thing->number);
    }
    tenant_latest_deinit(&latest);
    free(things);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_quiet_lose_nothing),
        cmocka_unit_test(test_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
