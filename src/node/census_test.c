/*
 * Goal: rows are exact for names that have one, nothing is lost for the others, the table does not
 * grow, and a group leaves room for others. Method: counts by hand; 100,000 names of one group;
 * and random counts beside a model.
 */
#include "base/random.h"
#include "node/census.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { GROUP_MAX = 64 };

static void census_test_add(struct census *census, unsigned shard, const char *group,
                            const char *name, uint64_t ready, uint64_t oldest_ms)
{
    const struct census_count count = {ready, {oldest_ms}};

    census_add(census, shard, bytes_of(group), bytes_of(name), &count);
}

/* What is shown of the name; ready 0 and oldest 0 without a row. */
static struct census_count shown(struct census *census, const char *name)
{
    struct census_row rows[CENSUS_ROWS_MAX];
    struct census_count others;
    size_t count = census_read(census, rows, &others);

    census_check(census);
    for (size_t i = 0; i < count; i++)
        if (bytes_equal((struct bytes){rows[i].name, rows[i].name_size}, bytes_of(name)))
            return rows[i].count;
    return (struct census_count){0};
}

static void shards_and_priorities_add_up(void **state)
{
    struct census *census = census_create(2, GROUP_MAX, 1);

    (void)state;
    census_begin(census, 0);
    census_test_add(census, 0, "", "mail", 3, 500);
    census_test_add(census, 0, "", "mail", 4, 400);
    census_test_add(census, 0, "a", "a/mail", 1, 900);
    census_end(census);
    census_begin(census, 1);
    census_test_add(census, 1, "", "mail", 5, 450);
    census_end(census);
    assert_int_equal(shown(census, "mail").ready, 12);
    assert_int_equal(shown(census, "mail").oldest.ms, 400);
    assert_int_equal(shown(census, "a/mail").ready, 1);
    census_begin(census, 0); /* all of it was delivered */
    census_end(census);
    assert_int_equal(shown(census, "mail").ready, 5);
    assert_int_equal(shown(census, "mail").oldest.ms, 450);
    assert_int_equal(shown(census, "a/mail").oldest.ms, 0);
    census_destroy(census);
}

/* proves: metric-rows, metric-queue-rows */
static void a_hostile_tenant_takes_its_share_only(void **state)
{
    struct census *census = census_create(1, GROUP_MAX, 2);
    char name[CENSUS_NAME_SIZE];
    struct census_row rows[CENSUS_ROWS_MAX];
    struct census_count others;

    (void)state;
    for (int pass = 0; pass < 3; pass++) {
        census_begin(census, 0);
        for (int i = 0; i < 100000; i++) {
            snprintf(name, sizeof(name), "evil/%d", i);
            census_test_add(census, 0, "evil", name, 1, 1000 + (uint64_t)i);
        }
        census_test_add(census, 0, "good", "good/mail", 7, 300);
        census_end(census);
        assert_int_equal(census_read(census, rows, &others), GROUP_MAX + 1);
        assert_int_equal(others.ready, 100000 - GROUP_MAX);
        assert_int_equal(others.oldest.ms, 1000 + GROUP_MAX);
        assert_int_equal(shown(census, "good/mail").ready, 7);
    }
    /* Many tenants fill the table; who comes next is among the others until a row is idle. */
    census_begin(census, 0);
    for (int i = 0; i < CENSUS_ROWS_MAX; i++) {
        snprintf(name, sizeof(name), "tenant%d", i);
        census_test_add(census, 0, name, name, 1, 1);
    }
    census_end(census);
    size_t count = census_read(census, rows, &others);
    assert_true(count == CENSUS_ROWS_MAX);
    assert_int_equal(others.ready, GROUP_MAX + 1);
    census_check(census);
    census_begin(census, 0);
    census_end(census);
    census_begin(census, 0);
    census_test_add(census, 0, "late", "late", 2, 5);
    census_end(census);
    assert_int_equal(shown(census, "late").ready, 2);
    assert_true(census_read(census, rows, &others) == CENSUS_ROWS_MAX);
    assert_int_equal(others.ready, 0);
    census_destroy(census);
}

/* Two shards count random names; the rows and the others add up to what was counted. */
static void nothing_is_lost(void **state)
{
    struct census *census = census_create(2, GROUP_MAX, 3);
    struct random random = random_seeded(4);
    uint64_t counted[2] = {0};

    (void)state;
    for (int pass = 0; pass < 300; pass++) {
        const unsigned shard = (unsigned)(random_next(&random) % 2);
        const uint64_t adds = random_next(&random) % 400;

        census_begin(census, shard);
        counted[shard] = 0;
        for (uint64_t i = 0; i < adds; i++) {
            char group[16], name[32];
            const uint64_t ready = 1 + random_next(&random) % 9;

            snprintf(group, sizeof(group), "t%u", (unsigned)(random_next(&random) % 20));
            snprintf(name, sizeof(name), "%s/q%u", group, (unsigned)(random_next(&random) % 50));
            census_test_add(census, shard, group, name, ready, 1 + pass);
            counted[shard] += ready;
        }
        census_end(census);
        census_check(census);
        struct census_row rows[CENSUS_ROWS_MAX];
        struct census_count sum;
        size_t count = census_read(census, rows, &sum);
        for (size_t i = 0; i < count; i++)
            sum.ready += rows[i].count.ready;
        assert_int_equal(sum.ready, counted[0] + counted[1]);
    }
    census_destroy(census);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_and_priorities_add_up),
        cmocka_unit_test(a_hostile_tenant_takes_its_share_only),
        cmocka_unit_test(nothing_is_lost),
    };

    return cmocka_run_group_tests_name("census", tests, NULL, NULL);
}
