/* Goal: the map is a map, whatever the keys. Method: edge keys, keys that all fall on one slot, and
 * random operations against a flat array, with the gap-closing of removal as the suspect. */
#include "base/map.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_edges(void **state)
{
    (void)state;
    struct map map;
    map_init(&map);
    assert_null(map_get(&map, 0));
    assert_null(map_remove(&map, 0));
    size_t cursor = 0;
    assert_null(map_next(&map, &cursor));
    int a;
    assert_true(map_put(&map, 0, &a));
    int b;
    assert_true(map_put(&map, UINT64_MAX, &b));
    assert_ptr_equal(map_get(&map, 0), &a);
    assert_ptr_equal(map_get(&map, UINT64_MAX), &b);
    assert_null(map_get(&map, 1));
    assert_true(map_put(&map, 0, &b)); /* replaces */
    assert_int_equal(map_count(&map), 2);
    assert_ptr_equal(map_remove(&map, 0), &b);
    assert_null(map_remove(&map, 0));
    assert_int_equal(map_count(&map), 1);
    map_deinit(&map);
    assert_int_equal(map_count(&map), 0);
}

static void test_reserve(void **state)
{
    (void)state;
    struct map map;
    map_init(&map);
    assert_true(map_reserve(&map, 1000));
    size_t capacity = map.capacity_;
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(map_put(&map, i, &map));
    assert_int_equal(map.capacity_, capacity); /* so none of them could have failed */
    map_deinit(&map);
}

/* `values[key]` is what the map holds. */
static void map_test_assert_holds(const struct map *map, const uint64_t *keys, void *const *values,
                                  size_t count)
{
    size_t present = 0;

    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(map_get(map, keys[i]), values[i]);
        present += values[i] != NULL;
    }
    assert_int_equal(map_count(map), present);
    size_t cursor = 0, walked = 0;
    while (map_next(map, &cursor))
        walked++;
    assert_int_equal(walked, present);
}

static void run_random(uint64_t *keys, size_t count, uint64_t seed)
{
    struct random random = random_seeded(seed);

    assert_true(count <= 64);
    struct map map;
    map_init(&map);
    char targets[64];
    void *values[64] = {0};
    for (int step = 0; step < 20000; step++) {
        size_t i = (size_t)random_below(&random, count);

        if (random_below(&random, 2)) {
            values[i] = &targets[random_below(&random, sizeof(targets))];
            assert_true(map_put(&map, keys[i], values[i]));
        } else {
            assert_ptr_equal(map_remove(&map, keys[i]), values[i]);
            values[i] = NULL;
        }
        if (step % 16 == 0)
            map_test_assert_holds(&map, keys, values, count);
    }
    map_deinit(&map);
}

static void test_map_random(void **state)
{
    (void)state;
    uint64_t keys[64];
    for (uint64_t i = 0; i < 64; i++)
        keys[i] = i;
    run_random(keys, 64, 5);
    run_random(keys, 9, 6);
}

/* Keys whose home is the last slot of a small table, so that every probe runs over the edge. */
static void test_collisions(void **state)
{
    (void)state;
    uint64_t keys[11];
    size_t count = 0;
    for (uint64_t key = 0; count < 11; key++)
        if ((random_mix(key) & 15) >= 14)
            keys[count++] = key;
    run_random(keys, 11, 7);
}

static void test_grow_and_shrink(void **state)
{
    enum { COUNT = 100000 };

    (void)state;
    struct map map;
    map_init(&map);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_true(map_put(&map, i << 32, &map));
    assert_int_equal(map_count(&map), COUNT);
    for (uint64_t i = 0; i < COUNT - 10; i++)
        assert_ptr_equal(map_remove(&map, i << 32), &map);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_ptr_equal(map_get(&map, i << 32), i < COUNT - 10 ? NULL : &map);
    assert_true(map.capacity_ <= 4096); /* what was removed gives its memory back */
    map_deinit(&map);
}

/* What one call moved out of the old table: slots passed, and entries. */
static void assert_small_step(const struct map *map, const struct map *before)
{
    if (map->old_ && map->old_ == before->old_)
        assert_true(map->old_next_ - before->old_next_ <= MAP_STEP_SLOTS);
    else if (before->old_)
        assert_true(before->old_capacity_ - before->old_next_ <= MAP_STEP_SLOTS);
}

/* Goal: no call pays for all entries, and the map stays right while it is moved. Method: up to
 * MAP_TEST_MOVING entries, with lookups of present and absent keys, replacements and removals in
 * the middle of every move, against an array; the progress of the move is compared from call to
 * call. */
static void test_moves_in_steps(void **state)
{
    enum { MAP_TEST_MOVING = 200000 };
    struct random random = random_seeded(11);
    uint8_t *values = calloc(MAP_TEST_MOVING, 1); /* 0: absent */

    (void)state;
    assert_non_null(values);
    struct map map;
    map_init(&map);
    size_t count = 0, moving = 0;
    char targets[8];
    for (size_t step = 0; step < 4 * MAP_TEST_MOVING; step++) {
        const bool grows = step < 3 * MAP_TEST_MOVING;
        const size_t i = (size_t)random_below(&random, MAP_TEST_MOVING);
        const struct map before = map;
        void *expected = values[i] ? &targets[values[i]] : NULL;

        moving += map.old_ != NULL;
        assert_ptr_equal(map_get(&map, i << 20), expected);
        if (random_below(&random, 8) < (grows ? 7u : 1u)) {
            count += !values[i];
            values[i] = (uint8_t)(1 + random_below(&random, 7));
            assert_true(map_put(&map, i << 20, &targets[values[i]]));
        } else {
            assert_ptr_equal(map_remove(&map, i << 20), expected);
            count -= values[i] != 0;
            values[i] = 0;
        }
        assert_int_equal(map_count(&map), count);
        assert_small_step(&map, &before);
        if (step % 50000 == 0) {
            size_t cursor = 0, walked = 0;

            while (map_next(&map, &cursor))
                walked++;
            assert_int_equal(walked, count);
        }
    }
    assert_true(moving > MAP_TEST_MOVING / 100); /* else the moves were not what was tested */
    for (size_t i = 0; i < MAP_TEST_MOVING; i++)
        assert_ptr_equal(map_get(&map, i << 20), values[i] ? &targets[values[i]] : NULL);
    map_deinit(&map);
    free(values);
}

/* A reserve in the middle of a move ends it, and leaves room that no put has to grow. */
static void test_reserve_while_moving(void **state)
{
    (void)state;
    struct map map;
    map_init(&map);
    uint64_t count = 0;
    while (!map.old_ || map.capacity_ < 1024)
        assert_true(map_put(&map, count++, &map));
    assert_true(map_reserve(&map, 100000));
    assert_true(map.capacity_ / 4 * 3 >= 100000);
    for (size_t capacity = map.capacity_; count < 100000; count++) {
        assert_true(map_put(&map, count, &map));
        assert_int_equal(map.capacity_, capacity);
    }
    for (uint64_t i = 0; i < count; i++)
        assert_ptr_equal(map_get(&map, i), &map);
    map_deinit(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_map_random),
        cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_grow_and_shrink),
        cmocka_unit_test(test_moves_in_steps),
        cmocka_unit_test(test_reserve_while_moving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
