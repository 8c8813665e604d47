/* Goal: what is damaged is kept for the operator as it was, within a bound, and counted also after
 * the next start; the rest is served, and all of it if one bit is flipped. Method: bits of a run's
 * file and of records in memory are flipped, and the files of the folder `damaged` are compared
 * with what was there. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_store.h"

#include <fcntl.h>

enum { ASIDE_TIMERS = 3000, ASIDE_RECORDS = 20 };

static const struct storage_meta aside_meta = {.epoch = 1};

struct aside_fixture {
    struct testing_folder folder;
    struct diskwheel_options options;
    struct storage *storage;
};

static int aside_set_up(void **state)
{
    struct aside_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, 1);
    fixture->storage = testing_open(&fixture->options);
    *state = fixture;
    return 0;
}

static int aside_tear_down(void **state)
{
    struct aside_fixture *fixture = *state;

    storage_close(fixture->storage);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static void aside_write(struct aside_fixture *fixture, uint64_t begin, uint64_t end)
{
    for (uint64_t serial = begin; serial < end; serial++) {
        struct timer *timer = testing_timer(0, serial, 1000 + serial);

        testing_write(fixture->storage, timer, 0, aside_meta);
        timer_free(timer);
    }
}

static uint64_t aside_count(struct aside_fixture *fixture)
{
    struct storage_page all = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_LIVE, 256);
    const uint64_t count = all.count;

    storage_page_free(&all);
    return count;
}

/* Flips bits of a file's byte. Returns the bytes of the range as they are then; the caller frees
 * them. */
static char *aside_flip(const char *path, uint64_t at, size_t size, size_t flipped, int bits)
{
    const int file = open(path, O_RDWR | O_CLOEXEC);
    char *bytes = malloc(size);

    assert_true(file >= 0 && bytes);
    assert_int_equal(pread(file, bytes, size, (off_t)at), size);
    bytes[flipped] ^= (char)bits;
    assert_int_equal(pwrite(file, bytes, size, (off_t)at), size);
    close(file);
    return bytes;
}

static struct buffer aside_read(struct aside_fixture *fixture, const char *name)
{
    struct buffer contents;
    char path[400];

    snprintf(path, sizeof(path), "%s/" FOLDER_DAMAGED_NAME "/%s", fixture->folder.path, name);
    buffer_init(&contents);
    assert_int_equal(files_read_regular(path, SIZE_MAX, &contents, NULL), ERROR_NONE);
    return contents;
}

/* The damaged block is kept as it was, beside a note that says this. */
static void aside_assert_kept(struct aside_fixture *fixture, const char *name, struct bytes was,
                              const char *said)
{
    char bytes_name[80];

    snprintf(bytes_name, sizeof(bytes_name), "%.60s.bytes", name);
    struct buffer kept = aside_read(fixture, bytes_name);
    assert_true(bytes_equal(buffer_bytes(&kept), was));
    buffer_deinit(&kept);
    kept = aside_read(fixture, name);
    buffer_append(&kept, "", 1);
    assert_non_null(strstr(kept.data, said));
    buffer_deinit(&kept);
}

static void test_a_block_is_set_aside(void **state)
{
    struct aside_fixture *fixture = *state;
    struct storage_stats stats;
    char name[100], run_name[DISKWHEEL_RUN_NAME_SIZE];

    aside_write(fixture, 1, ASIDE_TIMERS + 1);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    diskwheel_storage_rest(fixture->storage);
    const struct diskwheel_run *run = diskwheel_store_of(fixture->storage)->view->runs[0];
    const struct diskwheel_run_table *timers = &run->tables[DISKWHEEL_TIMERS];
    assert_true(timers->index.count > 2);
    const struct diskwheel_index_block block = diskwheel_index_block(&timers->index, 1);
    const uint64_t lost = block.count;
    char *was = aside_flip(run->path, block.offset, block.size, block.size / 2, 24);
    diskwheel_run_name(run->number, run_name);
    snprintf(name, sizeof(name), "%.40s-at-%" PRIu64, run_name, block.offset);

    for (int i = 0; i < 3; i++) {
        if (i < 2) /* the third start knows before a read */
            assert_int_equal(aside_count(fixture), ASIDE_TIMERS - lost);
        storage_stats(fixture->storage, &stats);
        assert_int_equal(stats.corrupt_blocks, 1);
        assert_int_equal(stats.corrupt_records, lost);
        storage_tend(fixture->storage);
        aside_assert_kept(fixture, name, (struct bytes){was, block.size},
                          "records of the table \"timers\" were set aside");
        storage_close(fixture->storage);
        fixture->storage = testing_open(&fixture->options);
    }
    storage_stats(fixture->storage, &stats);
    assert_non_null(strstr(stats.found, "records of the table \"timers\" were set aside"));
    aside_write(fixture, ASIDE_TIMERS + 1, ASIDE_TIMERS + 10); /* it goes on */
    assert_int_equal(aside_count(fixture), ASIDE_TIMERS + 9 - lost);
    free(was);
}

/* A run of ASIDE_TIMERS timers, at rest. Returns its second block. */
static struct diskwheel_index_block aside_write_run(struct aside_fixture *fixture,
                                                    char ret_path[400])
{
    aside_write(fixture, 1, ASIDE_TIMERS + 1);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    diskwheel_storage_rest(fixture->storage);
    const struct diskwheel_run *run = diskwheel_store_of(fixture->storage)->view->runs[0];
    assert_true(run->tables[DISKWHEEL_TIMERS].index.count > 2);
    snprintf(ret_path, 400, "%s", run->path);
    return diskwheel_index_block(&run->tables[DISKWHEEL_TIMERS].index, 1);
}

static void aside_assert_damage(struct aside_fixture *fixture, uint64_t blocks, uint64_t records)
{
    struct storage_stats stats;

    storage_stats(fixture->storage, &stats);
    assert_int_equal(stats.corrupt_blocks, blocks);
    assert_int_equal(stats.corrupt_records, records);
}

/* A block with a flipped bit is read, counted and kept, and its run is replaced. */
static void test_a_flipped_bit_is_turned_back(void **state)
{
    struct aside_fixture *fixture = *state;
    struct storage_stats stats;
    char path[400], name[100];

    const struct diskwheel_index_block block = aside_write_run(fixture, path);
    char *was = aside_flip(path, block.offset, block.size, block.size / 2, 8);
    snprintf(name, sizeof(name), "%.40s-at-%" PRIu64, strrchr(path, '/') + 1, block.offset);
    aside_assert_damage(fixture, 0, 0);
    for (int i = 0; i < 2; i++) { /* the second start knows before a read */
        if (!i)
            assert_int_equal(aside_count(fixture), ASIDE_TIMERS);
        aside_assert_damage(fixture, 1, 0);
        storage_tend(fixture->storage);
        storage_stats(fixture->storage, &stats);
        assert_non_null(strstr(stats.found, "and nothing is lost: a flipped bit"));
        aside_assert_kept(fixture, name, (struct bytes){was, block.size}, "nothing is lost");
        storage_close(fixture->storage);
        fixture->storage = testing_open(&fixture->options);
    }
    assert_true(files_exists(path));
    aside_write(fixture, ASIDE_TIMERS + 1, ASIDE_TIMERS + 10);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    diskwheel_storage_rest(fixture->storage);
    assert_false(files_exists(path));
    assert_int_equal(aside_count(fixture), ASIDE_TIMERS + 9);
    aside_assert_damage(fixture, 1, 0);
    free(was);
}

/* A flipped bit that only rewriting reads is kept, too, before the file goes. */
static void test_a_flipped_bit_of_a_run_that_goes(void **state)
{
    struct aside_fixture *fixture = *state;
    struct storage_stats stats;
    char path[400];

    const struct diskwheel_index_block block = aside_write_run(fixture, path);
    free(aside_flip(path, block.offset, block.size, block.size / 2, 8));
    const struct diskwheel_run *run = diskwheel_store_of(fixture->storage)->view->runs[0];
    ((struct diskwheel_run *)(uintptr_t)run)->stale_at = 1; /* as if it were to be rewritten */
    aside_write(fixture, ASIDE_TIMERS + 1, ASIDE_TIMERS + 10);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    diskwheel_storage_rest(fixture->storage);
    assert_false(files_exists(path));
    aside_assert_damage(fixture, 1, 0);
    storage_stats(fixture->storage, &stats);
    assert_non_null(strstr(stats.found, "and nothing is lost: a flipped bit"));
    assert_int_equal(aside_count(fixture), ASIDE_TIMERS + 9);
}

/* A second bit of the block flips after the first one was counted: then its records are lost. */
static void test_more_bits_flip_later(void **state)
{
    struct aside_fixture *fixture = *state;
    char path[400];

    const struct diskwheel_index_block block = aside_write_run(fixture, path);
    const uint64_t lost = block.count;
    free(aside_flip(path, block.offset, block.size, block.size / 2, 8));
    assert_int_equal(aside_count(fixture), ASIDE_TIMERS);
    aside_assert_damage(fixture, 1, 0);
    free(aside_flip(path, block.offset, block.size, block.size / 3, 8));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(aside_count(fixture), ASIDE_TIMERS - lost);
        aside_assert_damage(fixture, 1, lost);
    }
}

/* Flips a bit of a row that is in memory. */
static void aside_damage(struct aside_fixture *fixture, uint64_t serial)
{
    const struct record_key key =
        record_row_key(0, (struct storage_position){{1000 + serial}, serial});
    const struct diskwheel_entry *entry = diskwheel_layer_find(
        &diskwheel_store_of(fixture->storage)->active->layer, DISKWHEEL_TIMERS, key);

    assert_non_null(entry);
    ((struct diskwheel_entry *)(uintptr_t)entry)->value[entry->size / 2] ^= 1;
}

static void test_a_record_is_set_aside(void **state)
{
    struct aside_fixture *fixture = *state;

    aside_write(fixture, 1, 10);
    aside_damage(fixture, 5);
    const struct record_key key = record_row_key(0, (struct storage_position){{1005}, 5});
    const struct diskwheel_entry *entry = diskwheel_layer_find(
        &diskwheel_store_of(fixture->storage)->active->layer, DISKWHEEL_TIMERS, key);
    struct buffer was;
    buffer_init(&was);
    buffer_append_bytes(&was, diskwheel_entry_value(entry));
    assert_int_equal(aside_count(fixture), 8);
    struct buffer kept = aside_read(fixture, "timers-00000000000003ed-0000000000000005.bytes");
    assert_true(bytes_equal(buffer_bytes(&kept), buffer_bytes(&was)));
    buffer_deinit(&kept);
    buffer_deinit(&was);
}

struct aside_listing {
    uint64_t files;
};

static bool aside_list_one(void *context, const struct files_entry *entry)
{
    struct aside_listing *listing = context;

    (void)entry;
    listing->files++;
    return true;
}

/* More damage than is kept is counted. */
static void test_what_is_set_aside_is_bounded(void **state)
{
    struct aside_fixture *fixture = *state;
    struct aside_listing listing = {0};
    struct storage_stats stats;
    char path[400];

    aside_write(fixture, 1, ASIDE_RECORDS + 1);
    struct diskwheel_store *store = diskwheel_store_of(fixture->storage);
    store->quarantine.is_counted = true;
    snprintf(path, sizeof(path), "%s/" FOLDER_DAMAGED_NAME, fixture->folder.path);
    assert_int_equal(files_make_folder(path, NULL), ERROR_NONE);
    store->quarantine.files = 4096 - 6; /* as if they were there */
    for (uint64_t serial = 1; serial <= 10; serial++)
        aside_damage(fixture, serial);
    assert_int_equal(aside_count(fixture), ASIDE_RECORDS - 10);
    storage_stats(fixture->storage, &stats);
    assert_int_equal(stats.corrupt_records, 10);
    assert_int_equal(files_list(path, aside_list_one, &listing, NULL), ERROR_NONE);
    assert_int_equal(listing.files, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, aside_set_up, aside_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_block_is_set_aside),
        TEST(test_a_flipped_bit_is_turned_back),
        TEST(test_a_flipped_bit_of_a_run_that_goes),
        TEST(test_more_bits_flip_later),
        TEST(test_a_record_is_set_aside),
        TEST(test_what_is_set_aside_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
