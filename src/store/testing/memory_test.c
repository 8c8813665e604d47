/* Goal: the storage of the simulation loses exactly what it is told to lose, and fails exactly when
 * it is told to. Method: each hook alone; what crashes do to random commits is in
 * storage_model_test.c. */
#include "store/storage_testing.h"

static const struct storage_meta no_meta;

static int memory_set_up(void **state)
{
    *state = memory_storage_create(2);
    return *state ? 0 : -1;
}

static int memory_tear_down(void **state)
{
    memory_storage_check(*state);
    storage_close(*state);
    return 0;
}

static void write_one(struct storage *storage, uint64_t serial)
{
    struct timer *timer = testing_timer(0, serial, 1000);

    testing_write(storage, timer, 0, (struct storage_meta){.pending = serial});
    timer_free(timer);
}

static void assert_memory_count(struct storage *storage, size_t count)
{
    struct storage_page page = testing_scan_all(storage, 0, STORAGE_SCAN_ALL, 100);

    assert_int_equal(page.count, count);
    storage_page_free(&page);
    struct storage_meta meta;
    assert_int_equal(storage_load_meta(storage, 0, &meta, NULL), ERROR_NONE);
    assert_int_equal(meta.pending, count);
}

static void test_crash(void **state)
{
    struct storage *storage = *state;

    write_one(storage, 1);
    memory_storage_crash(storage, 0); /* nothing is held: what was committed stays */
    assert_memory_count(storage, 1);
    memory_storage_hold(storage);
    write_one(storage, 2);
    memory_storage_sync(storage);
    for (uint64_t i = 3; i <= 6; i++)
        write_one(storage, i);
    assert_int_equal(memory_storage_held(storage), 4);
    assert_memory_count(storage, 6);
    memory_storage_crash(storage, 3); /* the oldest three made it */
    assert_int_equal(memory_storage_held(storage), 0);
    assert_memory_count(storage, 5);
    memory_storage_crash(storage, 0); /* and are safe now */
    assert_memory_count(storage, 5);
    write_one(storage, 6); /* it still holds */
    memory_storage_crash(storage, 0);
    assert_memory_count(storage, 5);
    write_one(storage, 6);
    memory_storage_crash(storage, 7); /* more than there are: all */
    assert_memory_count(storage, 6);
}

/* Closing with commits that are held frees them too. */
static void test_close_while_holding(void **state)
{
    memory_storage_hold(*state);
    write_one(*state, 1);
}

static void test_failing_commits(void **state)
{
    struct storage *storage = *state;
    struct timer *timer = testing_timer(0, 9, 1000);
    struct storage_write write = {.timer = timer};
    struct storage_batch batch = {.writes = &write, .write_count = 1};
    struct storage_batch *const batches[] = {&batch};

    memory_storage_fail_commit(storage, 2, ERROR_DISK_FULL);
    write_one(storage, 1);
    struct error error;
    assert_int_equal(storage_write(storage, batches, 1, &error), ERROR_DISK_FULL);
    assert_int_equal(error.code, ERROR_DISK_FULL);
    assert_memory_count(storage, 1);
    write_one(storage, 2); /* only that one */
    memory_storage_fail_commit(storage, 1, ERROR_IO);
    memory_storage_fail_commit(storage, 0, ERROR_IO); /* called off */
    write_one(storage, 3);
    assert_memory_count(storage, 3);
    timer_free(timer);
}

static void test_failing_reads(void **state)
{
    struct storage *storage = *state;
    struct timer_id id = {{1000}, 0, 1};
    struct storage_scan scan = {.to = {WALL_NEVER, 0}, .rows_max = 1, .bytes_max = 1};

    write_one(storage, 1);
    memory_storage_fail_read(storage, 3, ERROR_IO);
    struct timer *timer;
    assert_int_equal(storage_find(storage, &id, &timer, NULL), ERROR_NONE);
    timer_free(timer);
    struct storage_page page;
    assert_int_equal(storage_scan(storage, &scan, &page, NULL), ERROR_NONE);
    storage_page_free(&page);
    testing_assert_not_found(storage, &id, ERROR_IO);
    assert_int_equal(storage_find(storage, &id, &timer, NULL), ERROR_NONE);
    timer_free(timer);
    memory_storage_fail_read(storage, 1, ERROR_NO_MEMORY);
    assert_int_equal(storage_scan(storage, &scan, &page, NULL), ERROR_NO_MEMORY);
    assert_int_equal(storage_scan(storage, &scan, &page, NULL), ERROR_NONE);
    storage_page_free(&page);
}

static void test_damage(void **state)
{
    struct storage *storage = *state;
    struct timer *timer = testing_timer(1, 5, 1000);

    assert_false(memory_storage_damage(storage, &timer->id));
    testing_write(storage, timer, 0, no_meta);
    timer->at.ms = 2000;
    testing_write(storage, timer, 1000, no_meta);
    assert_true(memory_storage_damage(storage, &timer->id)); /* wherever its row is */
    testing_assert_not_found(storage, &timer->id, ERROR_CORRUPT);
    assert_false(memory_storage_damage(storage, &timer->id)); /* it was set aside */
    testing_assert_not_found(storage, &timer->id, ERROR_CORRUPT);
    timer_free(timer);
}

/* A crash takes back what was written over a damaged record, and what was set aside stays aside. */
static void test_damage_and_crash(void **state)
{
    struct storage *storage = *state;
    struct timer *timer = testing_timer(1, 5, 1000);

    testing_write(storage, timer, 0, no_meta);
    memory_storage_hold(storage);
    assert_true(memory_storage_damage(storage, &timer->id));
    testing_assert_not_found(storage, &timer->id, ERROR_CORRUPT);
    testing_write(storage, timer, 1000, no_meta);
    testing_assert_found(storage, timer, 1000);
    memory_storage_crash(storage, 0);
    testing_assert_not_found(storage, &timer->id, ERROR_CORRUPT);
    timer_free(timer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_set_up, memory_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_crash),           TEST(test_close_while_holding),
        TEST(test_failing_commits), TEST(test_failing_reads),
        TEST(test_damage),          TEST(test_damage_and_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
