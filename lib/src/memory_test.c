/*
 * memory_test.c - goal: memory comes from the functions that were named, aligned and counted.
 * Method: an allocator that counts and runs out; the C library, with every alignment and size at
 * which it does something else.
 */
#include "memory.h"

#include "allocator_oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <string.h>

static void the_c_library_aligns_and_survives_every_size(void **state)
{
    enum { MIB = 1 << 20 };
    static const size_t sizes[] = {1, 63, 4096, MIB, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB};
    struct memory memory = memory_from(tw__memory_source(NULL, NULL, NULL));
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t alignment = _Alignof(max_align_t); alignment <= 4 * MIB; alignment *= 2) {
            char *taken = memory_take_aligned(&memory, alignment, sizes[i]);
            assert_non_null(taken);
            assert_int_equal((uintptr_t)taken % alignment, 0);
            memset(taken, 1, sizes[i]);
            assert_int_equal(memory.bytes, sizes[i]);
            memory_give(&memory, taken, 1, sizes[i]);
            assert_int_equal(memory.bytes, 0);
        }
}

static void what_does_not_fit_is_refused(void **state)
{
    struct memory memory = memory_from(tw__memory_source(NULL, NULL, NULL));
    (void)state;
    assert_null(memory_take(&memory, 0, 8));
    assert_null(memory_take(&memory, UINT64_MAX / 8, 8));
    assert_null(memory_take(&memory, UINT64_MAX, 16));
    assert_null(memory_take_aligned(&memory, 64, SIZE_MAX));
    assert_null(memory_take_aligned(&memory, 2 << 20, SIZE_MAX - 4096));
    memory_give(&memory, NULL, 7, 8);
    assert_int_equal(memory.bytes, 0);
}

static void the_callers_functions_are_used_and_counted(void **state)
{
    struct allocator allocator = {.calls_left = 2};
    struct memory memory =
        memory_from(tw__memory_source(allocator_take, allocator_give, &allocator));
    (void)state;
    void *first = memory_take(&memory, 3, 8), *second = memory_take_aligned(&memory, 64, 100);
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal(memory.bytes, 124);
    assert_int_equal(allocator.bytes, 124);
    assert_null(memory_take(&memory, 1, 1));
    assert_int_equal(memory.bytes, 124);
    memory_give(&memory, first, 3, 8);
    memory_give(&memory, second, 1, 100);
    assert_int_equal(memory.bytes, 0);
    assert_int_equal(allocator.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_c_library_aligns_and_survives_every_size),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(the_callers_functions_are_used_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
