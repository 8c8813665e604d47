/* Goal: a start takes a folder that is new, empty or its own, and refuses every other one with a
 * sentence that says what is wrong, and leaves it as it is. A backup is the store of one moment.
 * Method: folders of others, of clusters, damaged and incomplete ones are opened, and
 * their contents are compared; backups are made while another thread writes. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_store.h"

#include "base/checksum.h"
#include "sys/files.h"

#include <sys/stat.h>

enum { PARTITIONS = 2, FEW = 20, MANY = 20000 };

static const struct storage_meta wheel_folder_meta = {.epoch = 1};

struct wheel_folder {
    struct testing_folder folder;
    struct diskwheel_options options;
    char path[600];
};

static int wheel_folder_set_up(void **state)
{
    struct wheel_folder *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, PARTITIONS);
    *state = fixture;
    return 0;
}

static int wheel_folder_tear_down(void **state)
{
    struct wheel_folder *fixture = *state;

    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static const char *wheel_folder_path(struct wheel_folder *fixture, const char *name)
{
    snprintf(fixture->path, sizeof(fixture->path), "%s/%s", fixture->folder.path, name);
    return fixture->path;
}

static void wheel_folder_put(struct wheel_folder *fixture, const char *name, struct bytes contents)
{
    assert_int_equal(files_write(wheel_folder_path(fixture, name), contents, NULL), ERROR_NONE);
}

static struct buffer wheel_folder_get(struct wheel_folder *fixture, const char *name)
{
    struct buffer contents;

    buffer_init(&contents);
    assert_int_equal(
        files_read_regular(wheel_folder_path(fixture, name), SIZE_MAX, &contents, NULL),
        ERROR_NONE);
    return contents;
}

struct wheel_folder_sum {
    const char *folder;
    uint64_t sum;
};

static void wheel_folder_sum_block(void *context, struct bytes block)
{
    uint32_t *sum = context;

    *sum = checksum_crc32c(*sum, block.data, block.size);
}

static bool wheel_folder_sum_one(void *context, const struct files_entry *entry)
{
    struct wheel_folder_sum *of = context;
    uint32_t sum = checksum_crc32c(0, entry->name, strlen(entry->name));
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", of->folder, entry->name);
    if (entry->is_file)
        assert_int_equal(files_each_block(path, 4096, wheel_folder_sum_block, &sum, NULL),
                         ERROR_NONE);
    of->sum += (uint64_t)sum * (entry->bytes + 1);
    return true;
}

/* Names and contents of all files. */
static uint64_t wheel_folder_sum(const struct wheel_folder *fixture)
{
    struct wheel_folder_sum of = {.folder = fixture->folder.path};

    assert_int_equal(files_list(fixture->folder.path, wheel_folder_sum_one, &of, NULL), ERROR_NONE);
    return of.sum;
}

static void assert_wheel_refused(struct wheel_folder *fixture, enum error_code code,
                                 const char *part)
{
    const struct diskwheel_options options = {.folder = fixture->folder.path,
                                              .partition_count = fixture->options.partition_count,
                                              .cluster = fixture->options.cluster,
                                              .retain_ms = TESTING_FOREVER};
    const uint64_t sum = wheel_folder_sum(fixture);
    struct storage *storage = NULL;
    struct error error = {.text = ""};

    assert_int_equal(diskwheel_storage_open(&options, &storage, &error), code);
    if (!strstr(error.text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
    assert_true(wheel_folder_sum(fixture) == sum);
}

static void wheel_write(struct storage *storage, uint16_t partition, uint64_t serial)
{
    struct timer *timer = testing_timer(partition, serial, 1000 + serial);

    testing_write(storage, timer, 0, wheel_folder_meta);
    timer_free(timer);
}

/* Opens the folder, writes timers from `begin` up to `end`, and closes it. */
static void wheel_folder_fill(struct wheel_folder *fixture, uint64_t begin, uint64_t end)
{
    struct storage *storage = testing_open(&fixture->options);

    for (uint64_t serial = begin; serial < end; serial++)
        wheel_write(storage, 0, serial);
    storage_close(storage);
}

static void assert_wheel_timers(struct storage *storage, uint64_t count)
{
    struct storage_page all = testing_scan_all(storage, 0, STORAGE_SCAN_LIVE, 256);

    assert_int_equal(all.count, count);
    for (size_t i = 0; i < all.count; i++)
        assert_true(all.timers[i]->id.serial == i + 1);
    storage_page_free(&all);
}

static void assert_wheel_folder_timers(struct wheel_folder *fixture, uint64_t count)
{
    struct storage *storage = testing_open(&fixture->options);

    assert_wheel_timers(storage, count);
    storage_close(storage);
}

/* Writes the name of the folder's only run. */
static void wheel_folder_run(struct wheel_folder *fixture, char ret_name[DISKWHEEL_RUN_NAME_SIZE])
{
    diskwheel_run_name(0, ret_name);
    assert_true(files_exists(wheel_folder_path(fixture, ret_name)));
}

/* ---- whose it is ---- */

/* proves: partitions (beyond) */
static void test_wheel_folder_in_use(void **state)
{
    struct wheel_folder *fixture = *state;
    struct storage *storage = testing_open(&fixture->options);

    assert_wheel_refused(fixture, ERROR_IO, "");
    storage_close(storage);
    fixture->options.partition_count++;
    assert_wheel_refused(fixture, ERROR_INVALID,
                         "was made with 2 partitions, and cannot be opened with 3");
}

/* ---- files that changed while nothing ran ---- */

static void test_wheel_folder_lost_files(void **state)
{
    struct wheel_folder *fixture = *state;
    char run[DISKWHEEL_RUN_NAME_SIZE];

    wheel_folder_fill(fixture, 1, FEW);
    wheel_folder_run(fixture, run);
    struct buffer was_run = wheel_folder_get(fixture, run);
    struct buffer was_state = wheel_folder_get(fixture, FOLDER_STATE_NAME);
    assert_int_equal(unlink(wheel_folder_path(fixture, run)), 0);
    assert_wheel_refused(fixture, ERROR_CORRUPT, "is missing since the last stop");
    wheel_folder_put(fixture, run, (struct bytes){was_run.data, was_run.size - 1});
    assert_wheel_refused(fixture, ERROR_CORRUPT, "at the last stop");
    wheel_folder_put(fixture, run, buffer_bytes(&was_run));
    assert_int_equal(unlink(wheel_folder_path(fixture, FOLDER_STATE_NAME)), 0);
    assert_wheel_refused(fixture, ERROR_CORRUPT, "is missing since the last stop");
    /* without the list of the last stop: the runs are kept */
    assert_int_equal(unlink(wheel_folder_path(fixture, FOLDER_CLOSED_NAME)), 0);
    assert_wheel_refused(fixture, ERROR_CORRUPT, "STATE is missing beside files of a store");
    wheel_folder_put(fixture, FOLDER_STATE_NAME, buffer_bytes(&was_state));
    wheel_folder_fill(fixture, FEW, FEW + 1);
    wheel_folder_put(fixture, FOLDER_STATE_NAME, buffer_bytes(&was_state)); /* an older one */
    assert_wheel_refused(fixture, ERROR_CORRUPT, "at the last stop");
    buffer_deinit(&was_run);
    buffer_deinit(&was_state);
}

/* A run that is missing after a crash. */
static void test_wheel_folder_lost_run(void **state)
{
    struct wheel_folder *fixture = *state;
    char run[DISKWHEEL_RUN_NAME_SIZE];

    wheel_folder_fill(fixture, 1, FEW);
    wheel_folder_run(fixture, run);
    assert_int_equal(unlink(wheel_folder_path(fixture, run)), 0);
    assert_int_equal(unlink(wheel_folder_path(fixture, FOLDER_CLOSED_NAME)), 0);
    assert_wheel_refused(fixture, ERROR_CORRUPT, "is missing; restore a backup");
}

/* Every byte of FOLDER and of STATE counts. */
static void test_wheel_folder_damage(void **state)
{
    static const char *const names[] = {FOLDER_IDENTITY_NAME, FOLDER_STATE_NAME};
    struct wheel_folder *fixture = *state;

    wheel_folder_fill(fixture, 1, FEW);
    assert_int_equal(unlink(wheel_folder_path(fixture, FOLDER_CLOSED_NAME)), 0);
    for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
        struct buffer was = wheel_folder_get(fixture, names[k]);

        for (size_t i = 0; i < was.size; i++) {
            struct storage *storage = NULL;
            uint16_t partitions;
            uint64_t cluster;

            was.data[i] ^= 1;
            wheel_folder_put(fixture, names[k], buffer_bytes(&was));
            const enum error_code code = diskwheel_storage_open_to_export(
                fixture->folder.path, &storage, &partitions, &cluster, NULL);
            assert_true(code == ERROR_CORRUPT || code == ERROR_INVALID);
            was.data[i] ^= 1;
        }
        wheel_folder_put(fixture, names[k], buffer_bytes(&was));
        buffer_deinit(&was);
    }
    assert_wheel_folder_timers(fixture, FEW - 1);
}

/* ---- read without a change ---- */

static void test_wheel_folder_read(void **state)
{
    struct wheel_folder *fixture = *state;
    struct storage *storage;
    uint16_t partitions;
    uint64_t cluster;

    struct error error;
    assert_int_equal(diskwheel_storage_open_to_export(fixture->folder.path, &storage, &partitions,
                                                      &cluster, &error),
                     ERROR_INVALID);
    assert_non_null(strstr(error.text, "is no data folder"));
    wheel_folder_put(fixture, "run-0000000000000000", BYTES("a run"));
    assert_int_equal(diskwheel_storage_open_to_export(fixture->folder.path, &storage, &partitions,
                                                      &cluster, &error),
                     ERROR_CORRUPT);
    assert_non_null(strstr(error.text, "STATE is missing"));
    assert_int_equal(unlink(wheel_folder_path(fixture, "run-0000000000000000")), 0);
    fixture->options.cluster = TESTING_CLUSTER;
    wheel_folder_fill(fixture, 1, FEW);
    const uint64_t sum = wheel_folder_sum(fixture);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(diskwheel_storage_open_to_export(fixture->folder.path, &storage,
                                                          &partitions, &cluster, NULL),
                         ERROR_NONE);
        assert_int_equal(partitions, PARTITIONS);
        assert_int_equal(cluster, TESTING_CLUSTER);
        wheel_write(storage, 0, FEW); /* as of its log */
        assert_wheel_timers(storage, FEW);
        assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
        assert_wheel_refused(fixture, ERROR_IO, "");
        storage_close(storage);
        assert_true(wheel_folder_sum(fixture) == sum);
    }
}

/* ---- backups ---- */

/* proves: backup */
static void test_wheel_backup(void **state)
{
    struct wheel_folder *fixture = *state;
    const uint8_t log[STORAGE_LOG_ID_SIZE] = "the id of a log";
    uint8_t id[STORAGE_LOG_ID_SIZE];
    struct storage_backup backup;
    struct testing_folder copy;
    struct diskwheel_options options = fixture->options;

    snprintf(copy.path, sizeof(copy.path), "%.200s/copy", fixture->folder.path);
    options.folder = copy.path;
    struct storage *storage = testing_open(&fixture->options);
    assert_int_equal(storage_set_log(storage, log, NULL), ERROR_NONE);
    for (uint64_t serial = 1; serial < FEW; serial++)
        for (uint16_t partition = 0; partition < PARTITIONS; partition++)
            wheel_write(storage, partition, serial);
    assert_int_equal(storage_backup(storage, copy.path, &backup, NULL), ERROR_NONE);
    assert_int_equal(backup.timers, (FEW - 1) * PARTITIONS);
    assert_int_equal(storage_backup(storage, copy.path, &backup, NULL), ERROR_BACKUP_EXISTS);
    wheel_write(storage, 0, FEW);
    /* the folder is read without the original, and written without changing it */
    assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
    struct storage *second = testing_open(&options);
    assert_true(diskwheel_store_of(second)->folder_state.was_closed);
    assert_int_equal(diskwheel_store_of(second)->folder_state.bytes, backup.bytes);
    assert_false(storage_get_log(second, id));
    assert_wheel_timers(second, FEW - 1);
    wheel_write(second, 0, FEW);
    wheel_write(second, 0, FEW + 1);
    storage_close(second);
    assert_wheel_timers(storage, FEW);
    storage_close(storage);
    assert_wheel_folder_timers(fixture, FEW);
}

/* A backup that fails leaves nothing. */
static void test_wheel_backup_fails(void **state)
{
    struct wheel_folder *fixture = *state;
    struct storage *storage = testing_open(&fixture->options);
    struct storage_backup backup;
    struct error error;
    char path[700], run[DISKWHEEL_RUN_NAME_SIZE];

    for (uint64_t serial = 1; serial < FEW; serial++)
        wheel_write(storage, 0, serial);
    assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
    wheel_folder_put(fixture, "letter.txt", BYTES("mine"));
    snprintf(path, sizeof(path), "%s/letter.txt/copy", fixture->folder.path);
    assert_int_equal(storage_backup(storage, path, &backup, &error), ERROR_IO);
    /* the run is open, and has no name any more: neither a link nor a copy is made */
    wheel_folder_run(fixture, run);
    assert_int_equal(unlink(wheel_folder_path(fixture, run)), 0);
    snprintf(path, sizeof(path), "%s/copy", fixture->folder.path);
    assert_int_equal(storage_backup(storage, path, &backup, &error), ERROR_IO);
    assert_non_null(strstr(error.text, run));
    assert_false(files_exists(path));
    storage_close(storage);
}

struct wheel_writer {
    struct storage *storage;
    atomic_bool ends;
    uint64_t written;
};

static void *wheel_keep_writing(void *context)
{
    struct wheel_writer *writer = context;

    while ((!atomic_load(&writer->ends) && writer->written < MANY) || writer->written < FEW) {
        wheel_write(writer->storage, 0, writer->written + 1);
        writer->written++;
    }
    return NULL;
}

/* While a thread writes, each copy has the rows of its place, and at least those that were applied
 * when it was asked for. */
static void test_wheel_backup_while_serving(void **state)
{
    struct wheel_folder *fixture = *state;
    struct diskwheel_options options = fixture->options;
    struct wheel_writer writer = {.storage = testing_open(&fixture->options)};
    struct testing_folder copy;
    struct storage_backup backup;
    struct storage_place place;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wheel_keep_writing, &writer), 0);
    for (int i = 0; i < 10; i++) {
        snprintf(copy.path, sizeof(copy.path), "%.200s/copy-%d", fixture->folder.path, i);
        options.folder = copy.path;
        assert_int_equal(storage_load_place(writer.storage, 0, &place, NULL), ERROR_NONE);
        const uint64_t least = place.next;
        assert_int_equal(storage_backup(writer.storage, copy.path, &backup, NULL), ERROR_NONE);
        struct storage *second = testing_open(&options);
        assert_int_equal(storage_load_place(second, 0, &place, NULL), ERROR_NONE);
        assert_true(place.next >= least);
        assert_int_equal(place.next, backup.timers);
        assert_wheel_timers(second, place.next);
        storage_close(second);
        testing_folder_remove(&copy);
    }
    atomic_store(&writer.ends, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_wheel_timers(writer.storage, writer.written);
    storage_close(writer.storage);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, wheel_folder_set_up, wheel_folder_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wheel_folder_in_use),

        TEST(test_wheel_folder_lost_files), TEST(test_wheel_folder_lost_run),
        TEST(test_wheel_folder_damage),

        TEST(test_wheel_folder_read),       TEST(test_wheel_backup),
        TEST(test_wheel_backup_fails),      TEST(test_wheel_backup_while_serving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
