/* Goal: what was applied is read at once, in order, while it waits for the tables, and waits within
 * bounds; a killed process leaves the rows of a place, not before the offset that was named as
 * kept. Method: the files of an open database are copied, as a kill would leave them. Each record
 * is one timer, so a place says how many there must be. What waits to be written waits while the
 * thread that writes it is stopped. */
#include "store/check_testing.h"
#include "store/kill_testing.h"
#include "store/rocksdb_store.h"

static const struct storage_meta live_meta = {.epoch = 1};

struct live_fixture {
    struct testing_folder folder, killed;
    struct rocksdb_options options;
    struct storage *storage;
};

static int live_set_up(void **state)
{
    struct live_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    testing_folder_make(&fixture->killed);
    fixture->options = testing_options(&fixture->folder, 1);
    fixture->storage = testing_open(&fixture->options);
    *state = fixture;
    return 0;
}

static int live_tear_down(void **state)
{
    struct live_fixture *fixture = *state;

    storage_close(fixture->storage);
    testing_folder_remove(&fixture->folder);
    testing_folder_remove(&fixture->killed);
    free(fixture);
    return 0;
}

static void live_write(struct storage *storage, uint64_t from, uint64_t count)
{
    for (uint64_t serial = from; serial < from + count; serial++) {
        struct timer *timer = testing_timer(0, serial, 1000 + serial);

        testing_write(storage, timer, 0, live_meta);
        timer_free(timer);
    }
}

static uint64_t live_place(struct storage *storage)
{
    struct storage_place place;

    assert_int_equal(storage_load_place(storage, 0, &place, NULL), ERROR_NONE);
    return place.next;
}

static uint64_t live_kept(struct storage *storage)
{
    uint64_t next;

    assert_int_equal(storage_load_kept(storage, 0, &next, NULL), ERROR_NONE);
    return next;
}

static void assert_live_timers(struct storage *storage, size_t count)
{
    struct storage_page all = testing_scan_all(storage, 0, STORAGE_SCAN_LIVE, 256);

    assert_int_equal(all.count, count);
    storage_page_free(&all);
}

/* ---- kills ---- */

/* Copies the folder now. The copy must have a place from `kept` to `written`, and exactly its rows;
 * with the rest of the log it has all. Returns its place. */
static uint64_t assert_live_killed(struct live_fixture *fixture, uint64_t kept, uint64_t written)
{
    struct storage_check check = {.told = NULL};
    struct rocksdb_options options = fixture->options;

    testing_kill(&fixture->folder, &fixture->killed);
    assert_int_equal(testing_check(fixture->killed.path, &check, NULL), ERROR_NONE);
    assert_int_equal(check.findings, 0);
    options.folder = fixture->killed.path;
    struct storage *storage = testing_open(&options);
    const uint64_t next = live_place(storage);
    assert_true(next >= kept && next <= written);
    assert_live_timers(storage, next);
    assert_int_equal(check.partitions[0].live, next);
    live_write(storage, next + 1, written - next);
    assert_live_timers(storage, written);
    storage_close(storage);
    storage = testing_open(&options);
    assert_live_timers(storage, written);
    storage_close(storage);
    storage_check_deinit(&check);
    return next;
}

static void test_live_killed(void **state)
{
    struct live_fixture *fixture = *state;
    uint64_t last_kept = 0;

    for (uint64_t count = 100; count <= 1000; count += 100) {
        live_write(fixture->storage, count - 99, 100);
        const uint64_t kept = live_kept(fixture->storage);
        assert_true(kept >= last_kept && kept <= count);
        assert_live_killed(fixture, kept, count);
        last_kept = kept;
    }
    assert_true(last_kept > 0); /* memtables became full */
}

/* Nothing is kept before it is in files, and everything after a flush, of all tables. */
static void test_live_flushed(void **state)
{
    struct live_fixture *fixture = *state;

    live_write(fixture->storage, 1, 10);
    assert_int_equal(live_kept(fixture->storage), 0);
    assert_int_equal(assert_live_killed(fixture, 0, 10), 0);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    assert_int_equal(live_kept(fixture->storage), 10);
    assert_int_equal(assert_live_killed(fixture, 10, 10), 10);
    live_write(fixture->storage, 11, 5);
    assert_int_equal(live_kept(fixture->storage), 10);
    assert_int_equal(assert_live_killed(fixture, 10, 15), 10);
    storage_close(fixture->storage); /* like a clean stop */
    fixture->storage = testing_open(&fixture->options);
    assert_int_equal(live_kept(fixture->storage), 15);
}

/* ---- what waits ---- */

enum { LIVE_MEMTABLE_BYTES = 8 << 20, LIVE_QUEUE_BYTES = LIVE_MEMTABLE_BYTES / 8 };

/* Nothing is written but by reads and full queues. */
static struct rocksdb_store *live_stop_applying(struct live_fixture *fixture)
{
    storage_close(fixture->storage);
    fixture->options.memtable_bytes = LIVE_MEMTABLE_BYTES;
    fixture->storage = testing_open(&fixture->options);
    store_queue_stop(store_of(fixture->storage));
    return store_of(fixture->storage);
}

/* A read writes what waits; a flush does, too. */
static void test_live_waits_for_the_tables(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = live_stop_applying(fixture);

    live_write(fixture->storage, 1, 100);
    assert_true(store->queue.written < store->queue.pushed);
    assert_live_timers(fixture->storage, 100);
    assert_true(store->queue.written == store->queue.pushed && store->queue.bytes == 0);
    live_write(fixture->storage, 101, 100);
    assert_true(store->queue.written < store->queue.pushed);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    assert_int_equal(live_kept(fixture->storage), 200);
}

/* An empty body moves only the place, and waits like the others. */
static void test_live_places_wait(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = live_stop_applying(fixture);
    const struct storage_place place = {.next = 2, .epoch = 1, .seq = 2, .node = 1};
    const uint64_t written = store->queue.written;

    live_write(fixture->storage, 1, 1);
    assert_int_equal(storage_apply(fixture->storage, 0, (struct bytes){0}, &place, NULL),
                     ERROR_NONE);
    assert_int_equal(store->queue.written, written);
    assert_int_equal(store->queue.pushed, written + 2);
    assert_int_equal(live_place(fixture->storage), 2);
    assert_live_timers(fixture->storage, 1);
    assert_int_equal(store->queue.written, written + 2);
}

/* Of changes of a timer that wait together, the tables get the older ones first. */
static void test_live_applied_in_order(void **state)
{
    struct live_fixture *fixture = *state;
    struct timer *timer = testing_timer(0, 1, 1001);

    live_stop_applying(fixture);
    testing_write(fixture->storage, timer, 0, live_meta);
    for (uint32_t version = 2; version < 10; version++) {
        timer->version = version;
        testing_write(fixture->storage, timer, timer->at.ms, live_meta);
    }
    testing_assert_found(fixture->storage, timer, 1001);
    timer_free(timer);
}

/* What is written at a time is a part of the queue, with the place of its last change: a kill after
 * that leaves the rows of this place. */
static void test_live_killed_between_two_writes(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = live_stop_applying(fixture);
    uint64_t count = 0;

    while (store->queue.bytes < LIVE_QUEUE_BYTES - (10 << 10))
        live_write(fixture->storage, ++count, 1);
    assert_int_equal(store_apply_to(store, store->queue.written + 1, NULL), ERROR_NONE);
    assert_true(store->queue.written < store->queue.pushed);
    assert_int_equal(store_flush(store, NULL), ERROR_NONE);
    const uint64_t kept = live_kept(fixture->storage);
    assert_true(kept > 0 && kept < count);
    assert_int_equal(assert_live_killed(fixture, kept, count), kept);
}

/* proves: apply-queue */
static void test_live_queue_is_bounded(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = live_stop_applying(fixture);
    uint64_t count = 0;
    size_t bytes_max = 0;

    for (; store->queue.written < 2 * LIVE_QUEUE_BYTES / 100 && count < 100000; count++) {
        live_write(fixture->storage, count + 1, 1);
        if (store->queue.bytes > bytes_max)
            bytes_max = store->queue.bytes;
    }
    assert_true(bytes_max > LIVE_QUEUE_BYTES / 2 && bytes_max < LIVE_QUEUE_BYTES + 1000);
    assert_live_timers(fixture->storage, count);
}

/* ---- threads ---- */

static int live_merge_threads(void)
{
    rocksdb_env_t *env = rocksdb_create_default_env();
    const int count = rocksdb_env_get_low_priority_background_threads(env);

    rocksdb_env_destroy(env);
    return count;
}

/* Goal: a database at rest keeps one thread for merges, and has all of them while it merges. */
static void test_live_threads(void **state)
{
    struct live_fixture *fixture = *state;
    uint64_t count = 0;

    storage_tend(fixture->storage);
    assert_int_equal(live_merge_threads(), 1);
    while (live_merge_threads() == 1) { /* tables of the first level are merged soon */
        live_write(fixture->storage, ++count, 1);
        assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
        storage_tend(fixture->storage);
    }
    assert_int_equal(live_merge_threads(), STORE_MERGES);
    storage_tend(fixture->storage);
    assert_int_equal(live_merge_threads(), STORE_MERGES);
    assert_live_timers(fixture->storage, count);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, live_set_up, live_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_live_killed),
        TEST(test_live_flushed),
        TEST(test_live_waits_for_the_tables),
        TEST(test_live_places_wait),
        TEST(test_live_applied_in_order),
        TEST(test_live_killed_between_two_writes),
        TEST(test_live_queue_is_bounded),
        TEST(test_live_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
