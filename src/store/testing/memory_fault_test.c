/* Goal: out of memory, a commit changes nothing, a read returns nothing, and nothing leaks or
 * crashes. Method: the sources are compiled into this test with an allocator that fails at the N-th
 * call, for N = 1, 2, ... until a run needs fewer. */
#include <stdlib.h>

struct faults {
    size_t count, fail_at; /* 0: never */
};

static struct faults faults;

static void *failing(void *memory)
{
    if (++faults.count != faults.fail_at)
        return memory;
    free(memory);
    return NULL;
}

static void *failing_realloc(void *memory, size_t size)
{
    /* The old block must survive. */
    return ++faults.count == faults.fail_at ? NULL : realloc(memory, size);
}

#define malloc(size)          failing(malloc(size))
#define calloc(count, size)   failing(calloc(count, size))
#define realloc(memory, size) failing_realloc(memory, size)
#include "base/bytes.c"
#include "store/testing/memory.c"
#include "store/page.c"
#include "store/prepare.c"
#include "timer/timer.c"
#include "store/testing/tree.c"
#undef malloc
#undef calloc
#undef realloc

#include "store/storage_model.h"

static void fail_at(size_t n)
{
    faults = (struct faults){.fail_at = n};
}

/* Whether the call just made had reached its fault. */
static bool was_hit(void)
{
    bool was = faults.fail_at && faults.count >= faults.fail_at;

    fail_at(0);
    return was;
}

static void test_create(void **state)
{
    (void)state;
    fail_at(1);
    struct storage *storage = memory_storage_create(1);
    assert_true(was_hit());
    assert_null(storage);
}

static void test_commits(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct storage *storage = memory_storage_create(MODEL_PARTITIONS);
    struct model *model = calloc(1, sizeof(*model)), *before = calloc(1, sizeof(*before));

    (void)state;
    assert_non_null(storage);
    assert_non_null(model);
    assert_non_null(before);
    memory_storage_hold(storage);
    model_init(model, seed);
    for (uint64_t i = 0; i < 40; i++) {
        struct model_commit commit;

        model_next(model, &commit);
        model_replay(before, seed, i);
        size_t n = 1;
        bool was;
        do {
            fail_at(n++);
            enum error_code code = storage_write(storage, commit.pointers, commit.count, NULL);
            was = was_hit();
            assert_int_equal(code, was ? ERROR_NO_MEMORY : ERROR_NONE);
            if (was) /* the bodies before the one that failed */
                memory_storage_crash(storage, 0);
            if (was && n % 7 == 0)
                model_assert_equal(before, storage, &random);
            memory_storage_check(storage);
        } while (was);
        memory_storage_sync(storage);
        model_assert_equal(model, storage, &random);
        model_commit_deinit(&commit);
        model_deinit(before);
    }
    model_deinit(model);
    free(model);
    free(before);
    storage_close(storage);
}

static void test_reads(void **state)
{
    struct storage *storage = memory_storage_create(1);
    struct storage_scan scan = {.to = {WALL_NEVER, 0}, .rows_max = 50, .bytes_max = SIZE_MAX};

    (void)state;
    assert_non_null(storage);
    struct timer *timer;
    for (uint64_t i = 1; i <= 40; i++) {
        timer = testing_timer(0, i, 1000);
        testing_write(storage, timer, 0, (struct storage_meta){0});
        timer_free(timer);
    }
    struct storage_page page;
    size_t n = 1;
    bool was;
    do {
        fail_at(n++);
        enum error_code code = storage_scan(storage, &scan, &page, NULL);
        was = was_hit();
        assert_int_equal(code, was ? ERROR_NO_MEMORY : ERROR_NONE);
    } while (was);
    assert_true(n > 40);
    assert_int_equal(page.count, 40);
    storage_page_free(&page);
    fail_at(1);
    assert_int_equal(storage_find(storage, &(struct timer_id){{1000}, 0, 7}, &timer, NULL),
                     ERROR_NO_MEMORY);
    assert_true(was_hit());
    storage_close(storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_commits),
        cmocka_unit_test(test_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
