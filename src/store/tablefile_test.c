/* Goal: a table with one flipped bit, wherever it is, becomes what it was; with a block of zeros it
 * keeps all other records, and RocksDB reads it. Method: tables that RocksDB wrote, small and
 * large, compressed and not; each block of them in turn is damaged. */
#include "store/rocksdb_store.h"
#include "store/storage_testing.h"
#include "store/tableblock.h"
#include "store/tablefile.h"
#include "sys/files.h"

#include <limits.h>

enum { FOOTER = 53, BLOCKS_MAX = 4096, TABLES_MAX_OF_A_TEST = 8 };

struct table_file {
    char path[PATH_MAX];
    struct buffer bytes;
    struct tablefile_block blocks[BLOCKS_MAX]; /* all, as they follow each other */
    size_t count;
};

struct table_fixture {
    struct testing_folder folder;
    struct rocksdb_options options;
    struct table_file *tables;
    size_t count;
};

static void table_write(const struct rocksdb_options *options, uint64_t count, uint64_t trim)
{
    struct storage *storage = testing_open(options);
    struct storage_write *writes = calloc(count, sizeof(*writes));
    struct storage_batch batch = {
        .meta = {.epoch = 1}, .writes = writes, .write_count = (size_t)count};
    struct storage_batch *const batches[] = {&batch};

    for (uint64_t i = 0; i < count; i++)
        writes[i].timer = testing_timer(0, i + 1, 1001 + i);
    assert_int_equal(storage_write(storage, batches, 1, NULL), ERROR_NONE);
    batch.write_count = 0;
    batch.meta.watermark.ms = batch.meta.trim.ms = trim; /* a deleted range */
    assert_int_equal(storage_write(storage, batches, 1, NULL), ERROR_NONE);
    for (size_t i = 0; i < count; i++)
        timer_free(writes[i].timer);
    free(writes);
    storage_close(storage); /* what waits becomes tables */
}

static void table_split(struct table_file *table)
{
    struct bytes rest = buffer_bytes(&table->bytes);

    while (rest.size > FOOTER) {
        const struct tablefile_block block = {table->bytes.size - rest.size,
                                              tableblock_find_end(rest)};
        const size_t size = (size_t)block.size + TABLEBLOCK_TRAILER;

        assert_true(block.size && table->count < BLOCKS_MAX);
        table->blocks[table->count++] = block;
        rest = (struct bytes){rest.data + size, rest.size - size};
    }
    assert_int_equal(rest.size, FOOTER);
}

static bool table_take(void *context, const struct files_entry *entry)
{
    struct table_fixture *fixture = context;

    if (!strstr(entry->name, ".sst"))
        return true;
    struct table_file *table = &fixture->tables[fixture->count++];
    assert_true(fixture->count <= TABLES_MAX_OF_A_TEST);
    snprintf(table->path, sizeof(table->path), "%s/%s", fixture->folder.path, entry->name);
    buffer_init(&table->bytes);
    assert_int_equal(files_read(table->path, SIZE_MAX / 2, &table->bytes, NULL), ERROR_NONE);
    table_split(table);
    return true;
}

static void table_make(struct table_fixture *fixture, uint64_t count, uint64_t trim)
{
    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, 1);
    fixture->options.cluster = TESTING_CLUSTER;
    fixture->options.memtable_bytes = 16 << 20;
    table_write(&fixture->options, count, trim);
    fixture->tables = calloc(TABLES_MAX_OF_A_TEST, sizeof(*fixture->tables));
    fixture->count = 0;
    assert_int_equal(files_list(fixture->folder.path, table_take, fixture, NULL), ERROR_NONE);
    assert_true(fixture->count >= 2);
}

static void table_destroy(struct table_fixture *fixture)
{
    for (size_t i = 0; i < fixture->count; i++)
        buffer_deinit(&fixture->tables[i].bytes);
    free(fixture->tables);
    testing_folder_remove(&fixture->folder);
}

static void table_flip_each(const struct table_file *table)
{
    const struct bytes was = buffer_bytes(&table->bytes);
    char *now = malloc(was.size);
    struct tablefile_repair repair;

    memcpy(now, was.data, was.size);
    for (size_t i = 0; i <= table->count; i++) {
        const bool is_footer = i == table->count;
        const struct tablefile_block *block = is_footer ? NULL : &table->blocks[i];
        const size_t at = is_footer ? was.size - FOOTER : (size_t)block->offset;
        const size_t size = is_footer ? FOOTER : (size_t)block->size + TABLEBLOCK_TRAILER;
        const size_t step = is_footer ? 1 : size; /* a bit of each block, every bit of the footer */

        for (size_t bit = i * 7919 % (8 * step); bit < 8 * size; bit += step) {
            now[at + bit / 8] = (char)(now[at + bit / 8] ^ 1 << bit % 8);
            if (!tablefile_mend(now, was.size, &repair))
                fail_msg("%s: bit %zu of block %zu of %zu", table->path, bit, i, table->count);
            assert_memory_equal(now, was.data, was.size);
            assert_true(repair.bits == 1 && !repair.blocks_lost && !repair.has_new_end);
        }
    }
    free(now);
}

static void test_table_bit(void **state)
{
    static const uint64_t counts[] = {1, 40, 5000};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        struct table_fixture fixture;

        table_make(&fixture, counts[i], 0);
        for (size_t j = 0; j < fixture.count; j++)
            table_flip_each(&fixture.tables[j]);
        table_destroy(&fixture);
    }
}

static void test_table_sound(void **state)
{
    struct table_fixture fixture;
    struct tablefile_repair repair;

    (void)state;
    table_make(&fixture, 100, 0);
    for (size_t i = 0; i < fixture.count; i++) {
        struct buffer *bytes = &fixture.tables[i].bytes;

        assert_true(tablefile_mend(bytes->data, bytes->size, &repair));
        assert_true(tablefile_was_sound(&repair));
        assert_true(repair.table[0] != '\0');
    }
    table_destroy(&fixture);
}

static size_t table_count_live(const struct table_fixture *fixture)
{
    struct storage *storage = testing_open(&fixture->options);
    struct storage_page all = testing_scan_all(storage, 0, STORAGE_SCAN_LIVE, 256);
    const size_t count = all.count;

    storage_page_free(&all);
    storage_close(storage);
    return count;
}

/* Half of the block becomes zeros. What RocksDB reads then is what is in the other blocks. */
static void table_zero(struct table_fixture *fixture, struct table_file *table, size_t i,
                       size_t timers)
{
    const struct bytes was = buffer_bytes(&table->bytes);
    struct tablefile_block block = {0};
    char *now = malloc(was.size);
    struct tablefile_repair repair;

    memcpy(now, was.data, was.size);
    if (i < table->count)
        block = table->blocks[i];
    memset(now + (i < table->count ? block.offset : was.size - FOOTER), 0,
           i < table->count ? (size_t)block.size / 2 + 1 : FOOTER);
    if (!tablefile_mend(now, was.size, &repair))
        fail_msg("%s: block %zu of %zu", table->path, i, table->count);
    const bool is_properties = i + 2 == table->count;
    assert_true(repair.has_new_end || repair.bits);
    assert_int_equal(repair.has_properties, !is_properties);
    if (repair.blocks_lost) {
        assert_true(repair.blocks_lost == 1 && repair.damaged.offset == block.offset);
    } else if (!is_properties) {
        assert_int_equal(files_write(table->path, (struct bytes){now, was.size}, NULL), ERROR_NONE);
        assert_int_equal(table_count_live(fixture), timers);
    }
    free(now);
}

static void test_table_zeros(void **state)
{
    struct table_fixture fixture;

    (void)state;
    for (size_t i = 0;; i++) {
        table_make(&fixture, 500, 900);
        struct table_file *table = &fixture.tables[0];
        for (size_t j = 1; j < fixture.count; j++)
            if (fixture.tables[j].bytes.size > table->bytes.size)
                table = &fixture.tables[j];
        const size_t count = table->count;
        table_zero(&fixture, table, i, 500);
        table_destroy(&fixture);
        if (i == count)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_sound),
        cmocka_unit_test(test_table_bit),
        cmocka_unit_test(test_table_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
