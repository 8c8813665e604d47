/*
 * Goal: a handle names its slot until that is given back, and nothing ever after. Method: random
 * takes and gives against an array; generations driven to their end by hand; an allocator that
 * counts and runs out.
 */
#include "slab.h"

#include "allocator_oracle.h"
#include "conformance_oracle.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct thing {
    struct slab_slot slot;
    uint64_t value;
};

static void handles_name_their_slot_until_it_is_given_back(void **state)
{
    enum { COUNT = 5000 };
    struct conformance_source source = {.state = testing_seed()};
    struct memory memory = memory_from(tw__memory_source(NULL, NULL, NULL));
    struct slab slab;
    tw_handle *handles = calloc(COUNT, sizeof *handles);
    bool *is_used = calloc(COUNT, sizeof *is_used);
    size_t used_count = 0;
    (void)state;

    assert_true(handles && is_used);
    tw__slab_init(&slab, sizeof(struct thing), 0, &memory);
    for (uint64_t step = 0; step < 50000; step++) {
        size_t i = (size_t)conformance_below(&source, COUNT);
        struct thing *thing = (struct thing *)tw__slab_find(&slab, handles[i]);
        assert_int_equal(thing != NULL, is_used[i]);
        if (thing) {
            assert_int_equal(thing->value, i);
            tw__slab_give(&slab, &thing->slot);
        } else {
            thing = (struct thing *)tw__slab_take(&slab);
            assert_non_null(thing);
            thing->value = i;
            handles[i] = slab_handle(&thing->slot);
        }
        is_used[i] = !is_used[i];
        used_count += is_used[i] ? 1 : (size_t)-1;
        if (step % 1000 == 0)
            assert_int_equal(tw__slab_check(&slab), used_count);
    }
    tw__slab_deinit(&slab);
    assert_int_equal(memory.bytes, 0);
    free(handles);
    free(is_used);
}

static void a_slot_whose_generations_are_used_up_is_retired(void **state)
{
    struct memory memory = memory_from(tw__memory_source(NULL, NULL, NULL));
    struct slab slab;
    (void)state;

    tw__slab_init(&slab, sizeof(struct thing), 2, &memory);
    struct slab_slot *slot = tw__slab_take(&slab);
    tw_handle first = slab_handle(slot);
    slot->generation = UINT32_MAX;
    tw_handle last = slab_handle(slot);
    assert_null(tw__slab_find(&slab, first));
    assert_ptr_equal(tw__slab_find(&slab, last), slot);
    tw__slab_give(&slab, slot);
    assert_null(tw__slab_find(&slab, last));
    tw__slab_check(&slab);
    for (unsigned i = 0; i < 3; i++) { /* never let again, and not counted against the limit */
        struct slab_slot *other = tw__slab_take(&slab), *another = tw__slab_take(&slab);
        assert_true(other && another && other != slot && another != slot);
        assert_null(tw__slab_take(&slab));
        assert_null(tw__slab_find(&slab, first));
        assert_null(tw__slab_find(&slab, last));
        tw__slab_give(&slab, other);
        tw__slab_give(&slab, another);
    }
    assert_true(tw__slab_reserve(&slab, 2));
    assert_int_equal(tw__slab_check(&slab), 0);
    tw__slab_deinit(&slab);
}

static void without_memory_nothing_is_taken_and_nothing_lost(void **state)
{
    (void)state;
    for (size_t calls_left = 0; calls_left < 20; calls_left++) {
        struct allocator allocator = {.calls_left = calls_left};
        struct memory memory =
            memory_from(tw__memory_source(allocator_take, allocator_give, &allocator));
        struct slab slab;
        size_t count = 0;
        tw__slab_init(&slab, sizeof(struct thing), 0, &memory);
        while (tw__slab_take(&slab))
            count++;
        assert_int_equal(tw__slab_check(&slab), count);
        assert_false(tw__slab_reserve(&slab, count + 1));
        assert_true(tw__slab_reserve(&slab, count));
        assert_int_equal(allocator.bytes, memory.bytes);
        tw__slab_deinit(&slab);
        assert_int_equal(allocator.bytes, 0);
    }
}

/* In few allocations, so that they are large and lie in huge pages; but not far ahead of need. */
static void blocks_are_allocated_by_the_run(void **state)
{
    enum { COUNT = 300000 };
    const size_t needed = COUNT * sizeof(struct thing);
    struct allocator allocator = {.calls_left = SIZE_MAX};
    struct memory memory =
        memory_from(tw__memory_source(allocator_take, allocator_give, &allocator));
    struct slab slab;
    (void)state;

    tw__slab_init(&slab, sizeof(struct thing), 0, &memory);
    assert_true(tw__slab_reserve(&slab, COUNT));
    assert_int_equal(allocator.calls, 2); /* the directory and one run */
    for (size_t i = 0; i < COUNT; i++)
        assert_non_null(tw__slab_take(&slab));
    assert_int_equal(allocator.calls, 2);
    assert_int_equal(tw__slab_check(&slab), COUNT);
    tw__slab_deinit(&slab);
    assert_int_equal(allocator.bytes, 0);

    allocator = (struct allocator){.calls_left = SIZE_MAX};
    tw__slab_init(&slab, sizeof(struct thing), 0, &memory);
    for (size_t i = 0; i < COUNT; i++) {
        struct slab_slot *slot = tw__slab_take(&slab);
        assert_non_null(slot);
        assert_ptr_equal(tw__slab_find(&slab, slab_handle(slot)), slot);
    }
    assert_in_range(allocator.calls, 1, 40);
    assert_in_range(allocator.bytes, needed, needed + needed / 4 + 65536);
    assert_int_equal(tw__slab_check(&slab), COUNT);
    tw__slab_deinit(&slab);
    assert_int_equal(allocator.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_name_their_slot_until_it_is_given_back),
        cmocka_unit_test(a_slot_whose_generations_are_used_up_is_retired),
        cmocka_unit_test(without_memory_nothing_is_taken_and_nothing_lost),
        cmocka_unit_test(blocks_are_allocated_by_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
