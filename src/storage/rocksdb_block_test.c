/* Goal: a damaged block of a table costs its own records, which are counted and kept; everything
 * around it goes on, also across compactions and restarts. Method: a folder with one table of
 * timers; a bit of the file is flipped at rest, and what the storage then says is compared with
 * what was written. */
#include "storage/rocksdb_block.h"
#include "storage/rocksdb_check.h"
#include "storage/storage_testing.h"

#include "sys/files.h"

#include <limits.h>
#include <sys/stat.h>

#define TIMERS 3000

static const struct storage_meta meta = {.epoch = 1};

struct block_fixture {
    struct testing_folder folder;
    struct rocksdb_options options;
    struct storage *storage;
    char table[PATH_MAX]; /* the largest file */
    uint64_t table_bytes;
};

static uint64_t block_first_of(uint64_t serial)
{
    return 1000 + serial;
}

static void block_write_all(struct storage *storage)
{
    struct storage_write *writes = calloc(TIMERS, sizeof(*writes));
    struct storage_batch batch = {.meta = meta, .writes = writes, .write_count = TIMERS};
    struct storage_batch *const batches[] = {&batch};

    for (uint64_t i = 0; i < TIMERS; i++)
        writes[i].timer = testing_timer(0, i + 1, block_first_of(i + 1));
    assert_int_equal(storage_commit(storage, batches, 1, NULL), ERROR_NONE);
    for (size_t i = 0; i < TIMERS; i++)
        timer_free(writes[i].timer);
    free(writes);
}

static int block_set_up(void **state)
{
    struct block_fixture *fixture = calloc(1, sizeof(*fixture));

    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, 1);
    fixture->options.memtable_bytes = 8 << 20; /* one table */
    fixture->storage = testing_open(&fixture->options);
    block_write_all(fixture->storage);
    *state = fixture;
    return 0;
}

static int block_tear_down(void **state)
{
    struct block_fixture *fixture = *state;

    storage_close(fixture->storage);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static bool block_take_largest(void *context, const struct files_entry *entry)
{
    struct block_fixture *fixture = context;

    if (strstr(entry->name, ".sst") && entry->bytes > fixture->table_bytes) {
        fixture->table_bytes = entry->bytes;
        snprintf(fixture->table, sizeof(fixture->table), "%s/%s", fixture->folder.path,
                 entry->name);
    }
    return true;
}

/* Writes the log into a table, and closes. */
static void block_rest(struct block_fixture *fixture)
{
    storage_close(fixture->storage);
    storage_close(testing_open(&fixture->options));
    fixture->storage = NULL;
    fixture->table_bytes = 0;
    assert_int_equal(files_list(fixture->folder.path, block_take_largest, fixture, NULL),
                     ERROR_NONE);
    assert_true(fixture->table_bytes > 20000);
}

static void block_flip(const struct block_fixture *fixture, uint64_t at)
{
    char byte;

    assert_int_equal(files_read_at(fixture->table, at, &byte, 1, NULL), ERROR_NONE);
    byte = (char)(byte ^ 0x10);
    assert_int_equal(files_patch(fixture->table, at, (struct bytes){&byte, 1}, NULL), ERROR_NONE);
}

static size_t block_count_all(struct storage *storage)
{
    struct storage_page all = testing_scan_all(storage, 0, STORAGE_SCAN_LIVE, 256);
    size_t count = all.count;

    storage_page_free(&all);
    return count;
}

/* As many as are missing, more or less, and not silently. */
static void assert_block_told(struct storage *storage, size_t found)
{
    struct storage_stats stats;

    storage_stats(storage, &stats);
    assert_in_range(stats.corrupt_blocks, 1, 1);
    assert_in_range(TIMERS - found, 1, TIMERS / 10);
    assert_in_range(stats.corrupt_records, (TIMERS - found) / 2, 2 * (TIMERS - found));
    assert_non_null(strstr(stats.found, "records of the table \"timers\" were set aside"));
}

/* proves: damaged-block */
static void test_block_scanned(void **state)
{
    struct block_fixture *fixture = *state;

    block_rest(fixture);
    block_flip(fixture, fixture->table_bytes / 2);
    fixture->storage = testing_open(&fixture->options);
    size_t found = block_count_all(fixture->storage);
    assert_block_told(fixture->storage, found);
    storage_close(fixture->storage);
    fixture->storage = testing_open(&fixture->options);
    assert_int_equal(block_count_all(fixture->storage), found);
    assert_block_told(fixture->storage, found);
}

/* The timers of the block are not found, all others are; the file as it was is kept. */
static void test_block_found(void **state)
{
    struct block_fixture *fixture = *state;

    block_rest(fixture);
    block_flip(fixture, fixture->table_bytes / 2);
    struct stat before;
    assert_int_equal(stat(fixture->table, &before), 0);
    fixture->storage = testing_open(&fixture->options);
    size_t found = 0;
    for (uint64_t serial = 1; serial <= TIMERS; serial++) {
        const struct timer_id id = {{block_first_of(serial)}, 0, serial};
        struct timer *timer = NULL;
        enum error_code code = storage_find(fixture->storage, &id, &timer, NULL);

        assert_true(code == ERROR_NONE || code == ERROR_NOT_FOUND);
        found += !code;
        timer_free(timer);
    }
    assert_block_told(fixture->storage, found);
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/" FOLDER_DAMAGED_NAME "%s", fixture->folder.path,
             strrchr(fixture->table, '/'));
    struct stat kept;
    assert_int_equal(stat(path, &kept), 0);
    assert_true(kept.st_ino == before.st_ino);
}

/* A compaction that meets the block makes RocksDB refuse writes: the block is set aside then. */
static void test_block_compacted(void **state)
{
    struct block_fixture *fixture = *state;
    struct timer *timer = testing_timer(0, TIMERS + 1, 500);
    const struct storage_write write = {.timer = timer};
    struct storage_batch batch = {.meta = meta, .write_count = 1};
    struct storage_batch *const batches[] = {&batch};

    batch.writes = (struct storage_write[]){write};
    block_rest(fixture);
    block_flip(fixture, fixture->table_bytes / 2);
    fixture->storage = testing_open(&fixture->options);
    struct rocksdb_store *store = store_of(fixture->storage);
    rocksdb_compact_range_cf(store->db, store->tables[STORE_TIMERS], NULL, 0, NULL, 0);
    enum error_code code = ERROR_IO;
    for (int i = 0; code && i < 6; i++) {
        code = storage_commit(fixture->storage, batches, 1, NULL);
        if (!code && !i)
            fail_msg("the compaction did not meet the block");
    }
    assert_int_equal(code, ERROR_NONE);
    rocksdb_compact_range_cf(store->db, store->tables[STORE_TIMERS], NULL, 0, NULL, 0);
    assert_int_equal(storage_commit(fixture->storage, batches, 1, NULL), ERROR_NONE);
    assert_block_told(fixture->storage, block_count_all(fixture->storage) - 1);
    timer_free(timer);
}

/* --check passes over the block, changes nothing, and says how many timers it costs. */
static void test_block_checked(void **state)
{
    struct block_fixture *fixture = *state;
    struct rocksdb_check check = {.told = NULL};
    struct error error = {.text = ""};

    block_rest(fixture);
    block_flip(fixture, fixture->table_bytes / 2);
    if (rocksdb_check(fixture->folder.path, &check, &error))
        fail_msg("%s", error.text);
    uint64_t found = check.partitions[0].live;
    assert_int_equal(check.blocks_unread, 1);
    assert_in_range(check.missing, 1, TIMERS / 10);
    assert_int_equal(check.missing, TIMERS - found);
    assert_int_equal(check.findings, 2); /* the block, and the count */
    rocksdb_check_deinit(&check);
    fixture->storage = testing_open(&fixture->options);
    assert_int_equal(block_count_all(fixture->storage), found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_block_scanned, block_set_up, block_tear_down),
        cmocka_unit_test_setup_teardown(test_block_found, block_set_up, block_tear_down),
        cmocka_unit_test_setup_teardown(test_block_compacted, block_set_up, block_tear_down),
        cmocka_unit_test_setup_teardown(test_block_checked, block_set_up, block_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
