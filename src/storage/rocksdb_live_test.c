/* Goal: a folder of a killed process that lacks a log is refused; a folder that was only killed, or
 * restored and killed, is not. Method: the files of an open database are copied, as a kill would
 * leave them; of the copy logs are removed or cut. */
#include "base/checksum.h"
#include "storage/rocksdb_store.h"
#include "storage/storage_testing.h"
#include "sys/files.h"

#include <sys/stat.h>

static const struct storage_meta live_meta = {.epoch = 1};

struct live_fixture {
    struct testing_folder folder, killed;
    struct rocksdb_options options;
    struct storage *storage;
    char newest[600]; /* log of the copy */
    size_t logs;
};

static int live_set_up(void **state)
{
    struct live_fixture *fixture = calloc(1, sizeof(*fixture));

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

static void live_write(struct live_fixture *fixture, uint64_t from, uint64_t count)
{
    for (uint64_t serial = from; serial < from + count; serial++) {
        struct timer *timer = testing_timer(0, serial, 1000 + serial);

        testing_write(fixture->storage, timer, 0, live_meta);
        timer_free(timer);
    }
}

static bool live_copy_one(void *context, const struct files_entry *entry)
{
    struct live_fixture *fixture = context;

    if (entry->is_folder)
        return true;
    char from[600];
    snprintf(from, sizeof(from), "%s/%s", fixture->folder.path, entry->name);
    char to[600];
    snprintf(to, sizeof(to), "%s/%s", fixture->killed.path, entry->name);
    assert_int_equal(files_copy(from, to, NULL), ERROR_NONE);
    if (strstr(entry->name, ".log")) {
        fixture->logs++;
        if (strcmp(to, fixture->newest) > 0)
            snprintf(fixture->newest, sizeof(fixture->newest), "%s", to);
    }
    return true;
}

static void live_kill(struct live_fixture *fixture)
{
    fixture->logs = 0;
    fixture->newest[0] = '\0';
    assert_int_equal(files_list(fixture->folder.path, live_copy_one, fixture, NULL), ERROR_NONE);
    fixture->options.folder = fixture->killed.path;
    assert_true(fixture->logs > 0);
}

static void assert_live_refused(struct live_fixture *fixture, const char *part)
{
    struct storage *storage = NULL;
    struct error error = {.text = ""};

    assert_int_equal(rocksdb_storage_open(&fixture->options, &storage, &error), ERROR_CORRUPT);
    if (!strstr(error.text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
}

static void assert_live_timers(struct live_fixture *fixture, size_t count)
{
    struct storage *storage = testing_open(&fixture->options);
    struct storage_page all = testing_scan_all(storage, 0, STORAGE_SCAN_LIVE, 256);

    assert_int_equal(all.count, count);
    storage_page_free(&all);
    storage_close(storage);
}

/* proves: missing-log */
static void test_live_only_log_missing(void **state)
{
    struct live_fixture *fixture = *state;

    live_write(fixture, 1, 10);
    live_kill(fixture);
    assert_int_equal(unlink(fixture->newest), 0);
    assert_live_refused(fixture, ".log is missing");
    fixture->options.damage = ROCKSDB_DAMAGE_SKIP;
    assert_live_timers(fixture, 0);
}

/* proves: missing-log */
static void test_live_log_empty(void **state)
{
    struct live_fixture *fixture = *state;

    live_write(fixture, 1, 10);
    live_kill(fixture);
    assert_int_equal(truncate(fixture->newest, 0), 0);
    assert_live_refused(fixture, ".log was cut short");
}

/* proves: missing-log */
static void test_live_last_log_missing(void **state)
{
    struct live_fixture *fixture = *state;
    char *text = NULL;

    rocksdb_disable_file_deletions(store_of(fixture->storage)->db, &text); /* older logs stay */
    assert_null(text);
    uint64_t serial = 1;
    do {
        live_write(fixture, serial, 50);
        serial += 50;
        live_kill(fixture);
    } while (fixture->logs < 2 && serial < 10000);
    assert_true(fixture->logs > 1);
    assert_int_equal(unlink(fixture->newest), 0);
    assert_live_refused(fixture, ".log is missing");
}

/* LIVE of earlier runs refuses no folder: after stops without their mark, with new logs, and after
 * a run without syncs. rocksdb_crash_test kills at any moment. */
static void test_live_sound(void **state)
{
    struct live_fixture *fixture = *state;
    uint64_t serial = 1;

    for (int round = 0; round < 9; round++) {
        live_write(fixture, serial, 400);
        serial += 400;
        storage_close(fixture->storage);
        testing_folder_remove(&fixture->killed);
        assert_int_equal(mkdir(fixture->killed.path, 0700), 0);
        live_kill(fixture);
        char closed[600];
        snprintf(closed, sizeof(closed), "%s/" FOLDER_CLOSED_NAME, fixture->killed.path);
        assert_int_equal(unlink(closed), 0);
        assert_live_timers(fixture, serial - 1);
        fixture->options.folder = fixture->folder.path;
        fixture->options.sync = round % 3 ? ROCKSDB_SYNC_ALWAYS : ROCKSDB_SYNC_NEVER;
        fixture->storage = testing_open(&fixture->options);
    }
}

/* A restored backup keeps the LIVE that it finds in the folder, of a database with more logs. */
static void test_live_of_another(void **state)
{
    struct live_fixture *fixture = *state;
    char path[600], text[100];
    int size = snprintf(text, sizeof(text), "tickwheel live 1\nlog 999999 1\n");

    live_write(fixture, 1, 10);
    storage_close(fixture->storage);
    size += snprintf(text + size, sizeof(text) - (size_t)size, "sum %08x\n",
                     checksum_crc32c(0, text, (size_t)size));
    snprintf(path, sizeof(path), "%s/" FOLDER_LIVE_NAME, fixture->folder.path);
    assert_int_equal(files_write(path, (struct bytes){text, (size_t)size}, NULL), ERROR_NONE);
    fixture->storage = testing_open(&fixture->options);
    live_kill(fixture);
    assert_live_timers(fixture, 10);
    snprintf(path, sizeof(path), "%s/" FOLDER_LIVE_NAME, fixture->killed.path);
    assert_int_equal(unlink(path), -1);
    assert_int_equal(files_write(path, (struct bytes){text, (size_t)size}, NULL), ERROR_NONE);
    snprintf(path, sizeof(path), "%s/" FOLDER_CLOSED_NAME, fixture->killed.path);
    assert_int_equal(unlink(path), 0);
    assert_live_refused(fixture, "999999.log is missing"); /* so LIVE is read */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_live_only_log_missing, live_set_up, live_tear_down),
        cmocka_unit_test_setup_teardown(test_live_log_empty, live_set_up, live_tear_down),
        cmocka_unit_test_setup_teardown(test_live_last_log_missing, live_set_up, live_tear_down),
        cmocka_unit_test_setup_teardown(test_live_of_another, live_set_up, live_tear_down),
        cmocka_unit_test_setup_teardown(test_live_sound, live_set_up, live_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
