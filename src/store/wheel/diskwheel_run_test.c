/* Goal: a run gives back what was written, and nothing else whatever happened to its bytes. Method:
 * random records against arrays; then each byte of a small run is changed in turn. */
#include "log/files/log_disk_testing.h"
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_run_private.h"

#include <errno.h>

enum { RECORDS = 3000, VALUE_MAX = 300, RUN = 7, PARTITIONS = 5, RUN_FILE_MAX = 64 * 1024 };

struct run_record {
    struct record_key key;
    bool is_new;
    char value[VALUE_MAX];
    size_t size;
};

struct run_fixture {
    struct testing_folder folder;
    struct run_record records[DISKWHEEL_TABLES][RECORDS];
    size_t counts[DISKWHEEL_TABLES];
    uint64_t id; /* of the run; 0 while it is unknown */
};

static void run_make_records(struct run_fixture *fixture, struct random *random, size_t most)
{
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES; table++) {
        struct record_key key = {0, 0};

        fixture->counts[table] = (size_t)random_below(random, most);
        for (size_t i = 0; i < fixture->counts[table]; i++) {
            struct run_record *record = &fixture->records[table][i];
            const uint64_t partition = i * PARTITIONS / fixture->counts[table];

            if (random_below(random, 3) == 0)
                key.high += random_below(random, 5000);
            if (table == DISKWHEEL_TIMERS && key.high >> 48 != partition)
                key = (struct record_key){partition << 48 | 1, 0};
            if (table == DISKWHEEL_MOVED)
                key.high = partition;
            key.low += 1 + random_below(random, 100);
            record->key = key;
            record->is_new = random_below(random, 2);
            record->size = 1 + (size_t)random_below(random, VALUE_MAX);
            for (size_t k = 0; k < record->size; k++)
                record->value[k] = (char)random_below(random, i % 2 ? 4 : 256);
        }
    }
}

static void run_write(const struct disk_calls *disk, const char *folder,
                      const struct run_fixture *fixture)
{
    struct diskwheel_writer *writer;

    assert_int_equal(diskwheel_writer_open(disk, folder, RUN, &writer, NULL), ERROR_NONE);
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES; table++)
        for (size_t i = 0; i < fixture->counts[table]; i++) {
            const struct run_record *record = &fixture->records[table][i];

            diskwheel_writer_add(writer, table, record->key, record->is_new,
                                 (struct bytes){record->value, record->size});
        }
    assert_int_equal(diskwheel_writer_end(writer, NULL), ERROR_NONE);
}

/* Walks from a random record on, and marks some. */
static void run_assert_walk(struct run_fixture *fixture, struct diskwheel_run *run,
                            enum diskwheel_table table, struct random *random)
{
    const size_t count = fixture->counts[table];
    struct diskwheel_cursor cursor = {.run = NULL};
    size_t at = (size_t)random_below(random, count + 1);
    struct record_key key =
        at < count ? fixture->records[table][at].key : (struct record_key){UINT64_MAX, 0};
    struct bytes value;

    if (at < count && at > 0 && random_below(random, 2))
        key = record_key_after(fixture->records[table][at - 1].key);
    diskwheel_cursor_seek(&cursor, run, table, key);
    for (; at < count; at++) {
        const struct run_record *record = &fixture->records[table][at];

        if (diskwheel_run_is_marked(run, table, (uint32_t)at))
            continue;
        assert_int_equal(diskwheel_cursor_next(&cursor, &key, &value, NULL), ERROR_NONE);
        assert_true(record_key_equal(key, record->key));
        assert_true(bytes_equal(value, (struct bytes){record->value, record->size}));
        assert_int_equal(cursor.ordinal, at);
    }
    assert_int_equal(diskwheel_cursor_next(&cursor, &key, &value, NULL), ERROR_NOT_FOUND);
    diskwheel_cursor_deinit(&cursor);
    if (count)
        diskwheel_run_mark(run, table, (uint32_t)random_below(random, count));
}

/* One cursor placed again and again, mostly ahead, finds what a new one would. */
static void run_assert_seeks(const struct run_fixture *fixture, struct diskwheel_run *run,
                             enum diskwheel_table table, struct random *random)
{
    const size_t count = fixture->counts[table];
    struct diskwheel_cursor cursor = {.run = NULL};
    struct record_key key, bound;
    struct bytes value;

    for (size_t at = 0; at < count; at += (size_t)random_below(random, 30)) {
        size_t expected = at;

        if (random_below(random, 50) == 0)
            at = expected = (size_t)random_below(random, count);
        while (expected < count && diskwheel_run_is_marked(run, table, (uint32_t)expected))
            expected++;
        const struct record_key from = fixture->records[table][at].key;
        diskwheel_cursor_seek(&cursor, run, table, from);
        assert_true(diskwheel_cursor_bound(&cursor, &bound) && !record_key_before(bound, from));
        const enum error_code code = diskwheel_cursor_next(&cursor, &key, &value, NULL);
        assert_int_equal(code, expected < count ? ERROR_NONE : ERROR_NOT_FOUND);
        if (code)
            continue;
        assert_true(record_key_equal(key, fixture->records[table][expected].key));
        assert_int_equal(cursor.ordinal, expected);
    }
    diskwheel_cursor_deinit(&cursor);
}

static void test_what_was_written(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct run_fixture *fixture = calloc(1, sizeof(*fixture));

    (void)state;
    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    for (int turn = 0; turn < 6; turn++) {
        struct diskwheel_run *run;
        size_t absent = 0;

        run_make_records(fixture, &random, turn == 0 ? 1 : RECORDS);
        run_write(disk_system(), fixture->folder.path, fixture);
        assert_int_equal(
            diskwheel_run_open(disk_system(), fixture->folder.path, RUN, PARTITIONS, &run, NULL),
            ERROR_NONE);
        for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES; table++) {
            for (size_t i = 0; i < fixture->counts[table]; i++)
                assert_true(diskwheel_run_may_have(run, table, fixture->records[table][i].key));
            for (int i = 0; i < 50; i++)
                run_assert_walk(fixture, run, table, &random);
            run_assert_seeks(fixture, run, table, &random);
        }
        for (uint64_t i = 0; i < 1000 && fixture->counts[DISKWHEEL_MOVED] > 100; i++)
            absent += diskwheel_run_may_have(run, DISKWHEEL_MOVED,
                                             (struct record_key){2, UINT64_C(1) << 40 | i});
        assert_true(absent < 20); /* of 1000; 16 bits a record promise 2 */
        assert_int_equal(run->tables[DISKWHEEL_TIMERS].marked_count > 0,
                         fixture->counts[DISKWHEEL_TIMERS] > 0);
        diskwheel_run_release(run);
    }
    testing_folder_remove(&fixture->folder);
    free(fixture);
}

/* Reads all, and fails if something is returned that was not written. */
static size_t run_read_damaged(const struct run_fixture *fixture, struct disk_memory *memory)
{
    struct diskwheel_run *run;
    size_t found = 0;

    if (diskwheel_run_open_known(&memory->disk, "/d", RUN, fixture->id, PARTITIONS, &run, NULL))
        return 0;
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES; table++) {
        struct diskwheel_cursor cursor = {.run = NULL};
        struct record_key key;
        struct bytes value;
        enum error_code code;
        size_t at = 0;

        diskwheel_cursor_seek(&cursor, run, table, (struct record_key){0, 0});
        while ((code = diskwheel_cursor_next(&cursor, &key, &value, NULL)) != ERROR_NOT_FOUND) {
            if (code) {
                assert_int_equal(code, ERROR_CORRUPT);
                continue;
            }
            while (at < fixture->counts[table] &&
                   record_key_before(fixture->records[table][at].key, key))
                at++;
            assert_true(at < fixture->counts[table]);
            const struct run_record *record = &fixture->records[table][at];
            assert_true(record_key_equal(key, record->key));
            assert_true(bytes_equal(value, (struct bytes){record->value, record->size}));
            found++;
        }
        diskwheel_cursor_deinit(&cursor);
    }
    diskwheel_run_release(run);
    return found;
}

static bool run_was_mended(struct run_fixture *fixture, struct disk_memory *memory)
{
    struct diskwheel_run *run;

    assert_int_equal(
        diskwheel_run_open_known(&memory->disk, "/d", RUN, fixture->id, PARTITIONS, &run, NULL),
        ERROR_NONE);
    const bool was_mended = run->is_mended;
    fixture->id = run->id;
    diskwheel_run_release(run);
    return was_mended;
}

static void test_each_byte_changed(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct run_fixture *fixture = calloc(1, sizeof(*fixture));
    struct disk_memory *memory = disk_memory_create(random_next(&random));
    char name[DISKWHEEL_RUN_NAME_SIZE];
    size_t all = 0, mended = 0;

    (void)state;
    assert_non_null(fixture);
    assert_int_equal(memory->disk.make_folder(&memory->disk, "/d", NULL), ERROR_NONE);
    run_make_records(fixture, &random, 60);
    run_write(&memory->disk, "/d", fixture);
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES; table++)
        all += fixture->counts[table];
    assert_int_equal(run_read_damaged(fixture, memory), all);
    assert_false(run_was_mended(fixture, memory));
    diskwheel_run_name(RUN, name);
    for (uint64_t at = 0; at < RUN_FILE_MAX; at++) {
        char *byte = disk_memory_byte(memory, name, at);

        if (!byte)
            break;
        const char was = *byte;
        *byte = (char)(was ^ (1 + (char)random_below(&random, 255)));
        const size_t found = run_read_damaged(fixture, memory);
        const bool is_mended = run_was_mended(fixture, memory);
        assert_true(is_mended ? found == all : found < all); /* behind the blocks, or in one */
        mended += is_mended;
        *byte = was;
    }
    assert_int_equal(run_read_damaged(fixture, memory), all);
    assert_true(mended > DISKWHEEL_RUN_FOOT && !run_was_mended(fixture, memory));
    free(memory);
    free(fixture);
}

enum { SYNC_BYTES = 5 << 20, SYNC_PIECE = 2 << 20 };

struct run_sync_disk {
    struct disk_calls disk; /* the system's, but for the begin of a sync */
    uint64_t begun;         /* bytes whose sync began */
    int fail_with;          /* an errno; 0 for none */
};

static int run_start_sync(const struct disk_calls *disk, int file, uint64_t at, uint64_t size)
{
    struct run_sync_disk *of = (struct run_sync_disk *)(uintptr_t)disk; /* its first field */
    uint64_t bytes = 0;

    assert_int_equal(disk_system()->size(disk_system(), file, &bytes), 0);
    assert_int_equal(at, of->begun);
    assert_int_equal(at + size, bytes);
    assert_int_equal(disk_system()->start_sync(disk_system(), file, at, size), 0);
    of->begun = bytes;
    return of->fail_with;
}

/* While a large run is written, all but its last part is on the way to the disk. */
static void test_sync_begins_early(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct run_sync_disk disk = {.disk = *disk_system()};
    struct testing_folder folder;
    char value[4096];

    (void)state;
    disk.disk.start_sync = run_start_sync;
    testing_folder_make(&folder);
    for (int turn = 0; turn < 2; turn++) {
        struct diskwheel_writer *writer;
        struct record_key key = {1, 1};

        disk.begun = 0;
        disk.fail_with = turn ? EIO : 0;
        assert_int_equal(diskwheel_writer_open(&disk.disk, folder.path, RUN, &writer, NULL),
                         ERROR_NONE);
        while (diskwheel_writer_bytes(writer) < SYNC_BYTES) {
            for (size_t i = 0; i < sizeof(value); i++)
                value[i] = (char)random_below(&random, 256);
            diskwheel_writer_add(writer, DISKWHEEL_TIMERS, key, true,
                                 (struct bytes){value, sizeof(value)});
            key = record_key_after(key);
        }
        if (!turn)
            assert_true(disk.begun + SYNC_PIECE >= SYNC_BYTES);
        assert_int_equal(diskwheel_writer_end(writer, NULL), turn ? ERROR_IO : ERROR_NONE);
    }
    testing_folder_remove(&folder);
}

enum { MOVED_BLOCKS_RECORDS = 200, MOVED_BLOCKS_VALUE = 256 };

/* Each value is random, so no block is compressed, and blocks of one size begin with equal keys in
 * every such run. */
static void run_write_random(struct disk_memory *memory, const char *folder, struct random *random)
{
    struct diskwheel_writer *writer;
    char value[MOVED_BLOCKS_VALUE];

    assert_int_equal(diskwheel_writer_open(&memory->disk, folder, RUN, &writer, NULL), ERROR_NONE);
    for (uint64_t i = 0; i < MOVED_BLOCKS_RECORDS; i++) {
        for (size_t k = 0; k < sizeof(value); k++)
            value[k] = (char)random_next(random);
        diskwheel_writer_add(writer, DISKWHEEL_MOVED, (struct record_key){1, 1 + i}, true,
                             (struct bytes){value, sizeof(value)});
    }
    assert_int_equal(diskwheel_writer_end(writer, NULL), ERROR_NONE);
}

static void run_copy_block(struct disk_memory *to, uint64_t at, struct disk_memory *from,
                           uint64_t from_at, uint32_t size)
{
    char name[DISKWHEEL_RUN_NAME_SIZE];

    diskwheel_run_name(RUN, name);
    for (uint64_t i = 0; i < size; i++)
        *disk_memory_byte(to, name, at + i) = *disk_memory_byte(from, name, from_at + i);
}

static enum error_code run_read_block(struct diskwheel_run *run, struct record_key first)
{
    struct diskwheel_cursor cursor = {.run = NULL};
    struct record_key key;
    struct bytes value;

    diskwheel_cursor_seek(&cursor, run, DISKWHEEL_MOVED, first);
    const enum error_code code = diskwheel_cursor_next(&cursor, &key, &value, NULL);
    diskwheel_cursor_deinit(&cursor);
    return code;
}

/* A whole block is damaged where another one was, and in another run. */
static void test_blocks_elsewhere(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct disk_memory *memory = disk_memory_create(1), *other = disk_memory_create(2);
    struct diskwheel_run *run;

    (void)state;
    run_write_random(memory, "/d", &random);
    run_write_random(other, "/e", &random);
    assert_int_equal(diskwheel_run_open(&memory->disk, "/d", RUN, PARTITIONS, &run, NULL),
                     ERROR_NONE);
    const struct diskwheel_index *index = &run->tables[DISKWHEEL_MOVED].index;
    assert_true(index->count > 3);
    const struct diskwheel_index_block second = diskwheel_index_block(index, 1);
    const struct diskwheel_index_block third = diskwheel_index_block(index, 2);
    assert_int_equal(second.size, third.size);
    run_copy_block(memory, second.offset, memory, third.offset, second.size);
    run_copy_block(memory, third.offset, other, third.offset, third.size);
    assert_int_equal(run_read_block(run, diskwheel_index_first(index, 0)), ERROR_NONE);
    assert_int_equal(run_read_block(run, diskwheel_index_first(index, 1)), ERROR_CORRUPT);
    assert_int_equal(run_read_block(run, diskwheel_index_first(index, 2)), ERROR_CORRUPT);
    for (int i = 0; i < 2; i++) /* counted once */
        assert_int_equal(run_read_block(run, diskwheel_index_first(index, 2)), ERROR_CORRUPT);
    assert_int_equal(run->damaged_blocks, 2);
    diskwheel_run_mark(run, DISKWHEEL_MOVED, 0);
    diskwheel_run_mark(run, DISKWHEEL_MOVED, 0);
    assert_int_equal(run->tables[DISKWHEEL_MOVED].marked_count, 1);
    diskwheel_run_release(run);
    free(memory);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written),
        cmocka_unit_test(test_each_byte_changed),
        cmocka_unit_test(test_sync_begins_early),
        cmocka_unit_test(test_blocks_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
