/* Goal: a damaged block of a table costs its own records, which are counted and kept; everything
 * around it goes on, also across compactions and restarts. Method: a folder with one table of
 * timers; a bit of the file is flipped at rest, and what the storage then says is compared with
 * what was written. */
#include "store/rocksdb_store.h"
#include "store/check_testing.h"
#include "store/storage_testing.h"
#include "store/tableblock.h"

#include "sys/files.h"

#include <limits.h>
#include <sys/stat.h>

#define TIMERS 3000

enum { FOOTER_BYTES = 53, BLOCKS_MAX = 256, BLOCKS_AT_END = 5 /* no records */ };

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
    assert_int_equal(storage_write(storage, batches, 1, NULL), ERROR_NONE);
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

/* Closes, which writes all into a table. */
static void block_rest(struct block_fixture *fixture)
{
    storage_close(fixture->storage);
    fixture->storage = NULL;
    fixture->table_bytes = 0;
    assert_int_equal(files_list(fixture->folder.path, block_take_largest, fixture, NULL),
                     ERROR_NONE);
    assert_true(fixture->table_bytes > 20000);
}

/* What is damaged: a bit, or half of the block. */
enum block_damage { BLOCK_BIT, BLOCK_ZEROS };

static void block_damage(const struct block_fixture *fixture, const struct tablefile_block *block,
                         enum block_damage damage)
{
    const size_t half = (size_t)block->size / 2;
    struct buffer table;

    buffer_init(&table);
    assert_int_equal(files_read(fixture->table, TABLEFILE_BYTES_MAX, &table, NULL), ERROR_NONE);
    char *at = table.data + block->offset;
    if (damage == BLOCK_BIT)
        at[half] = (char)(at[half] ^ 0x10);
    else
        memset(at, 0, half);
    assert_int_equal(files_write(fixture->table, buffer_bytes(&table), NULL), ERROR_NONE);
    buffer_deinit(&table);
}

/* All blocks of the table, and its footer as the last. */
static size_t block_list(const struct block_fixture *fixture, struct tablefile_block *ret_blocks)
{
    struct buffer table;
    size_t count = 0;
    uint64_t at = 0;

    buffer_init(&table);
    assert_int_equal(files_read(fixture->table, 1 << 30, &table, NULL), ERROR_NONE);
    for (; at + FOOTER_BYTES < table.size; at += ret_blocks[count++].size + TABLEBLOCK_TRAILER) {
        const struct bytes rest = {table.data + at, table.size - (size_t)at};

        assert_true(count < BLOCKS_MAX);
        ret_blocks[count] = (struct tablefile_block){at, tableblock_find_end(rest)};
        assert_true(ret_blocks[count].size > 0);
    }
    ret_blocks[count++] = (struct tablefile_block){at, FOOTER_BYTES};
    buffer_deinit(&table);
    return count;
}

/* A block of records in the middle. */
static void block_zero(const struct block_fixture *fixture)
{
    struct tablefile_block blocks[BLOCKS_MAX];

    block_damage(fixture, &blocks[block_list(fixture, blocks) / 3], BLOCK_ZEROS);
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
    block_zero(fixture);
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
    block_zero(fixture);
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
    block_zero(fixture);
    fixture->storage = testing_open(&fixture->options);
    struct rocksdb_store *store = store_of(fixture->storage);
    rocksdb_compact_range_cf(store->db, store->tables[STORE_TIMERS], NULL, 0, NULL, 0);
    enum error_code code = ERROR_IO;
    for (int i = 0; code && i < 6; i++) {
        code = storage_write(fixture->storage, batches, 1, NULL);
        if (!code && !i)
            fail_msg("the compaction did not meet the block");
    }
    assert_int_equal(code, ERROR_NONE);
    rocksdb_compact_range_cf(store->db, store->tables[STORE_TIMERS], NULL, 0, NULL, 0);
    assert_int_equal(storage_write(fixture->storage, batches, 1, NULL), ERROR_NONE);
    assert_block_told(fixture->storage, block_count_all(fixture->storage) - 1);
    timer_free(timer);
}

static bool block_has_notes(const struct block_fixture *fixture)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/" FOLDER_DAMAGED_NAME, fixture->folder.path);
    return files_exists(path);
}

/* --check passes over the block, changes nothing, and says how many timers it costs. */
static void test_block_checked(void **state)
{
    struct block_fixture *fixture = *state;
    struct storage_check check = {.told = NULL};
    struct error error = {.text = ""};

    block_rest(fixture);
    block_zero(fixture);
    if (testing_check(fixture->folder.path, &check, &error))
        fail_msg("%s", error.text);
    uint64_t found = check.partitions[0].live;
    assert_int_equal(check.blocks_unread, 1);
    assert_in_range(check.missing, 1, TIMERS / 10);
    assert_int_equal(check.missing, TIMERS - found);
    assert_int_equal(check.findings, 2); /* the block, and the count */
    assert_false(block_has_notes(fixture));
    storage_check_deinit(&check);
    fixture->storage = testing_open(&fixture->options);
    assert_int_equal(block_count_all(fixture->storage), found);
}

/* Damages the block from the end with this number; false: there are not so many. */
static bool block_try(enum block_damage damage, size_t from_end)
{
    struct tablefile_block blocks[BLOCKS_MAX];
    struct storage_check check = {.told = NULL};
    struct storage_stats stats;
    struct block_fixture *fixture;
    void *state;

    block_set_up(&state);
    fixture = state;
    block_rest(fixture);
    const size_t count = block_list(fixture, blocks);
    if (from_end < count) {
        block_damage(fixture, &blocks[count - 1 - from_end], damage);
        struct error error = {.text = ""};
        if (testing_check(fixture->folder.path, &check, &error))
            fail_msg("block %zu of %zu: %s", from_end, count, error.text);
        assert_true(check.findings > 0);
        assert_int_equal(check.partitions[0].live + check.missing, TIMERS);
        const uint64_t live = check.partitions[0].live;
        storage_check_deinit(&check);
        assert_false(block_has_notes(fixture));
        if (rocksdb_storage_open(&fixture->options, &fixture->storage, &error))
            fail_msg("block %zu of %zu: %s", from_end, count, error.text);
        assert_int_equal(block_count_all(fixture->storage), live);
        assert_int_equal(live, TIMERS);
        for (uint64_t serial = 1; serial <= TIMERS; serial += 97) {
            const struct timer_id id = {{block_first_of(serial)}, 0, serial};
            struct timer *timer = NULL;

            assert_int_equal(storage_find(fixture->storage, &id, &timer, NULL), ERROR_NONE);
            timer_free(timer);
        }
        storage_stats(fixture->storage, &stats);
        assert_in_range(stats.corrupt_blocks, 0, 1); /* RocksDB does without a filter */
        assert_int_equal(stats.corrupt_records, 0);
        storage_close(fixture->storage); /* and once more, with the notes */
        fixture->storage = testing_open(&fixture->options);
        assert_int_equal(block_count_all(fixture->storage), TIMERS);
    }
    block_tear_down(&state);
    return from_end < count;
}

/* Behind the records nothing is lost by zeros either. */
static void test_block_zeros_at_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < BLOCKS_AT_END; i++)
        assert_true(block_try(BLOCK_ZEROS, i));
}

/* Nothing is lost by a flipped bit, in whichever block. */
static void test_block_bit(void **state)
{
    (void)state;
    for (size_t i = 0; block_try(BLOCK_BIT, i); i += i < BLOCKS_AT_END ? 1 : 17)
        continue;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_bit),
        cmocka_unit_test(test_block_zeros_at_end),
        cmocka_unit_test_setup_teardown(test_block_scanned, block_set_up, block_tear_down),
        cmocka_unit_test_setup_teardown(test_block_found, block_set_up, block_tear_down),
        cmocka_unit_test_setup_teardown(test_block_compacted, block_set_up, block_tear_down),
        cmocka_unit_test_setup_teardown(test_block_checked, block_set_up, block_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
