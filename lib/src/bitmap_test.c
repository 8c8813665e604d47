/*
 * Goal: the set finds its next member, in every size and position. Method: against an array of
 * bools, sizes around the powers of 64, random members; allocation failure.
 */
#include "bitmap.h"

#include "allocator_oracle.h"
#include "conformance_oracle.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SIZE_MAX_HERE = 300000 };

static void compare(const struct bitmap *bitmap, const bool *has, uint32_t from)
{
    uint32_t size = bitmap->size, expected = from, member = 0, distance = 0, steps = 0;

    while (expected < size && !has[expected])
        expected++;
    bool is_found = tw__bitmap_next(bitmap, from, &member);
    assert_int_equal(is_found, expected < size);
    if (is_found)
        assert_int_equal(member, expected);

    while (steps < size && !has[((uint64_t)from + steps) % size])
        steps++;
    assert_int_equal(bitmap_next_round(bitmap, from, &distance), steps < size);
    if (steps < size)
        assert_int_equal(distance, steps);
}

static void the_next_member_is_that_of_an_array(void **state)
{
    const uint32_t sizes[] = {1, 2, 10, 63, 64, 65, 127, 4095, 4096, 4097, 20000, 262145};
    struct conformance_source source = {.state = testing_seed()};
    bool *has = malloc(SIZE_MAX_HERE);
    (void)state;

    assert_non_null(has);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct memory memory = memory_from(tw__memory_source(NULL, NULL, NULL));
        struct bitmap bitmap;
        memset(has, 0, SIZE_MAX_HERE);
        assert_true(tw__bitmap_init(&bitmap, sizes[i], &memory));
        for (unsigned step = 0; step < 400; step++) {
            uint32_t member = (uint32_t)conformance_below(&source, sizes[i]);
            if (step % 100 < 40) {
                has[member] = true;
                bitmap_set(&bitmap, member);
            } else { /* back towards the empty set */
                for (uint32_t walk = 0; walk < sizes[i] && !has[member]; walk++)
                    member = (member + 1) % sizes[i];
                has[member] = false;
                bitmap_clear(&bitmap, member);
            }
            assert_int_equal(bitmap_has(&bitmap, member), has[member]);
            compare(&bitmap, has, member);
            compare(&bitmap, has, (uint32_t)conformance_below(&source, sizes[i]));
        }
        compare(&bitmap, has, 0);
        compare(&bitmap, has, sizes[i] - 1);
        tw__bitmap_deinit(&bitmap, &memory);
        assert_int_equal(memory.bytes, 0);
    }
    free(has);
}

static void without_memory_there_is_no_set(void **state)
{
    struct allocator allocator = {0};
    struct memory memory =
        memory_from(tw__memory_source(allocator_take, allocator_give, &allocator));
    struct bitmap bitmap;
    (void)state;

    assert_false(tw__bitmap_init(&bitmap, 100, &memory));
    tw__bitmap_deinit(&bitmap, &memory);
    assert_int_equal(memory.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_member_is_that_of_an_array),
        cmocka_unit_test(without_memory_there_is_no_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
