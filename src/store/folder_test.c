/* Goal: a start takes a folder that is new, empty or its own, and refuses every other folder
 * unchanged, with a sentence that says whose it is. Method: folders with the files of others, of
 * newer versions and with a damaged FOLDER are opened and checked; their contents and modes are
 * compared. */
#include "base/checksum.h"
#include "store/check_testing.h"
#include "store/kill_testing.h"
#include "store/wheel/diskwheel_store.h"
#include "store/storage_testing.h"
#include "sys/files.h"

#include <sys/stat.h>

static const struct storage_meta folder_meta = {.epoch = 1};

struct folder_fixture {
    struct testing_folder folder;
    struct diskwheel_options options;
    char path[600];
};

static int folder_set_up(void **state)
{
    struct folder_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, 2);
    *state = fixture;
    return 0;
}

static int folder_tear_down(void **state)
{
    struct folder_fixture *fixture = *state;

    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static const char *folder_path(struct folder_fixture *fixture, const char *name)
{
    snprintf(fixture->path, sizeof(fixture->path), "%s/%s", fixture->folder.path, name);
    return fixture->path;
}

static void folder_put(struct folder_fixture *fixture, const char *name, struct bytes contents)
{
    assert_int_equal(files_write(folder_path(fixture, name), contents, NULL), ERROR_NONE);
}

/* Names, sizes and modes of all that lies in a folder. */
static bool folder_sum_one(void *context, const struct files_entry *entry)
{
    uint64_t *sum = context;

    *sum += (uint64_t)checksum_crc32c(0, entry->name, strlen(entry->name)) * (entry->bytes + 1);
    return true;
}

static uint64_t folder_sum(const struct folder_fixture *fixture)
{
    struct stat info;
    uint64_t sum = 0;

    assert_int_equal(stat(fixture->folder.path, &info), 0);
    assert_int_equal(files_list(fixture->folder.path, folder_sum_one, &sum, NULL), ERROR_NONE);
    return sum * 4096 + info.st_mode;
}

static void assert_folder_not_opened(struct folder_fixture *fixture, enum error_code code,
                                     const char *part)
{
    struct storage *storage = NULL;
    struct error error = {.text = ""};

    assert_int_equal(diskwheel_storage_open(&fixture->options, &storage, &error), code);
    if (!strstr(error.text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
}

static void assert_folder_refused(struct folder_fixture *fixture, enum error_code code,
                                  const char *part)
{
    const uint64_t sum = folder_sum(fixture);

    assert_folder_not_opened(fixture, code, part);
    assert_true(folder_sum(fixture) == sum);
}

static void assert_folder_check(struct folder_fixture *fixture, enum error_code code,
                                const char *part)
{
    struct storage_check check = {.told = NULL};
    struct error error = {.text = ""};

    assert_int_equal(testing_check(fixture->folder.path, &check, &error), code);
    if (!strstr(error.text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
    storage_check_deinit(&check);
}

/* Opens the folder, writes `count` timers, and closes it. */
static void folder_fill(struct folder_fixture *fixture, uint64_t count)
{
    struct storage *storage = testing_open(&fixture->options);

    for (uint64_t serial = 1; serial <= count; serial++) {
        struct timer *timer = testing_timer(0, serial, 1000 + serial);

        testing_write(storage, timer, 0, folder_meta);
        timer_free(timer);
    }
    storage_close(storage);
}

static void assert_folder_timers(struct folder_fixture *fixture, size_t count)
{
    struct storage *storage = testing_open(&fixture->options);
    struct storage_page all = testing_scan_all(storage, 0, STORAGE_SCAN_LIVE, 256);

    assert_int_equal(all.count, count);
    storage_page_free(&all);
    storage_close(storage);
}

/* ---- other people's files ---- */

/* proves: folder-of-others */
static void test_folder_of_others(void **state)
{
    static const char *const names[] = {"letter.txt", ".bashrc", "run-1", "000001.sst", "STATUS"};
    struct folder_fixture *fixture = *state;

    assert_int_equal(chmod(fixture->folder.path, 0775), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        folder_put(fixture, names[i], BYTES("mine"));
        assert_folder_refused(fixture, ERROR_INVALID, names[i]);
        assert_folder_check(fixture, ERROR_INVALID, "is no data folder");
        assert_int_equal(unlink(folder_path(fixture, names[i])), 0);
    }
    assert_int_equal(mkdir(folder_path(fixture, "Documents"), 0755), 0);
    assert_folder_refused(fixture, ERROR_INVALID, "Documents");
    assert_int_equal(rmdir(fixture->path), 0);
    /* An empty file system has this. */
    assert_int_equal(mkdir(folder_path(fixture, "lost+found"), 0700), 0);
    folder_fill(fixture, 3);
    struct stat info;
    assert_int_equal(stat(fixture->folder.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    /* What somebody puts beside our files does not matter. */
    folder_put(fixture, "letter.txt", BYTES("mine"));
    assert_folder_timers(fixture, 3);
}

/* A start that was killed before the store was made leaves a folder that is ours. */
static void test_folder_half_made(void **state)
{
    struct folder_fixture *fixture = *state;
    const struct folder_identity identity = {.is_known = true};

    assert_int_equal(folder_write_identity(fixture->folder.path, &identity, NULL), ERROR_NONE);
    folder_put(fixture, "letter.txt", BYTES("mine"));
    folder_fill(fixture, 1);
    assert_folder_timers(fixture, 1);
}

/* ---- newer versions ---- */

/* Whatever a later version writes after the number, and into any other file. proves: newer-folder
 */
static void test_folder_of_newer_version(void **state)
{
    static const char *const others[] = {FOLDER_CLOSED_NAME, FOLDER_STATE_NAME,
                                         FOLDER_REACHED_NAME};
    struct folder_fixture *fixture = *state;
    char said[64];

    snprintf(said, sizeof(said), "newer version: its format is 999, ours %d", FOLDER_FORMAT);

    folder_fill(fixture, 3);
    folder_put(fixture, FOLDER_IDENTITY_NAME,
               BYTES("tickwheel folder\nformat 999\nwords of later\n"));
    assert_folder_refused(fixture, ERROR_INVALID, said);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        folder_put(fixture, others[i], BYTES("tickwheel 999\nanother/path/of a file\n"));
        assert_folder_refused(fixture, ERROR_INVALID, said);
        assert_folder_check(fixture, ERROR_INVALID, said);
    }
}

/* Goal: a folder of an older format is refused unchanged by a start and a check, with what can be
 * done: that of RocksDB is taken over; one without FOLDER has the files of a store that is not
 * ours. */
static void test_folder_too_old(void **state)
{
    struct folder_fixture *fixture = *state;

    folder_put(fixture, "CURRENT", BYTES("MANIFEST-000005\n"));
    assert_folder_refused(fixture, ERROR_INVALID, "holds other files, such as CURRENT");
    assert_folder_check(fixture, ERROR_INVALID, "is no data folder");
    folder_put(fixture, FOLDER_CLOSED_NAME, BYTES("tickwheel closed 1\n"));
    assert_folder_refused(fixture, ERROR_INVALID, "older version, before format 5, ours is 10");
    assert_folder_check(fixture, ERROR_INVALID, "`tickwheel export`");
    folder_put(fixture, FOLDER_IDENTITY_NAME,
               BYTES("tickwheel folder\nformat 8\nwords of before\n"));
    assert_folder_refused(fixture, ERROR_INVALID, "older version: its format is 8, ours 10");
    assert_folder_refused(fixture, ERROR_INVALID, "`tickwheel export`");
    assert_folder_check(fixture, ERROR_INVALID, "older version: its format is 8, ours 10");
    folder_put(fixture, FOLDER_IDENTITY_NAME,
               BYTES("tickwheel folder\nformat 9\nwords of before\n"));
    assert_folder_refused(fixture, ERROR_INVALID, "older version: its format is 9, ours 10");
    assert_folder_refused(fixture, ERROR_INVALID, "`make take-over FOLDER=");
    assert_folder_check(fixture, ERROR_INVALID, "`make take-over FOLDER=");
}

static void test_folder_damaged_identity(void **state)
{
    struct folder_fixture *fixture = *state;
    const size_t digits = sizeof("tickwheel folder\nformat ") - 1;
    struct buffer text;

    folder_fill(fixture, 3);
    buffer_init(&text);
    assert_int_equal(files_read(folder_path(fixture, FOLDER_IDENTITY_NAME), 4096, &text, NULL),
                     ERROR_NONE);
    for (size_t i = 0; i < text.size; i++) {
        text.data[i] ^= 1;
        folder_put(fixture, FOLDER_IDENTITY_NAME, buffer_bytes(&text));
        /* A bit of the number, 10, makes it another one. */
        if (i == digits || i == digits + 1)
            assert_folder_refused(fixture, ERROR_INVALID,
                                  i == digits ? "older version" : "newer version");
        else
            assert_folder_refused(fixture, ERROR_CORRUPT, "FOLDER is damaged; restore a backup");
        text.data[i] ^= 1;
        folder_put(fixture, FOLDER_IDENTITY_NAME, (struct bytes){text.data, i});
        assert_folder_refused(fixture, ERROR_CORRUPT, "FOLDER is damaged; restore a backup");
    }
    buffer_deinit(&text);
    assert_int_equal(unlink(folder_path(fixture, FOLDER_IDENTITY_NAME)), 0);
    /* A single node's would have a log. */
    assert_folder_refused(fixture, ERROR_INVALID, "follows the log of a cluster");
    fixture->options.cluster = TESTING_CLUSTER;
    assert_folder_timers(fixture, 3);
}

/* ---- folders of clusters ---- */

static struct folder_identity folder_identity_of(struct folder_fixture *fixture)
{
    struct folder_identity identity;

    assert_int_equal(folder_identify(fixture->folder.path, &identity, NULL), ERROR_NONE);
    return identity;
}

/* The timers of a single node are in no log that a cluster reads, and a single node does not have
 * the log of a cluster. */
static void test_folder_of_a_cluster(void **state)
{
    struct folder_fixture *fixture = *state;

    folder_fill(fixture, 3);
    fixture->options.cluster = TESTING_CLUSTER;
    assert_folder_not_opened(fixture, ERROR_INVALID, "has timers of a single node");
    fixture->options.cluster = 0;
    assert_folder_timers(fixture, 3); /* it is none the worse */
    testing_folder_remove(&fixture->folder);
    fixture->options.cluster = TESTING_CLUSTER;
    folder_fill(fixture, 3);
    fixture->options.cluster = TESTING_CLUSTER + 1;
    assert_folder_refused(fixture, ERROR_INVALID, "is of the cluster 0000000000000005");
    fixture->options.cluster = 0;
    assert_folder_refused(fixture, ERROR_INVALID, "follows the log of a cluster");
    fixture->options.cluster = TESTING_CLUSTER;
    assert_folder_timers(fixture, 3);
}

/* A cluster takes the folder of a single node without timers, whose places are those of a log that
 * it does not have. They are empty from then on, even after a kill. */
static void test_folder_joins_a_cluster(void **state)
{
    struct folder_fixture *fixture = *state;
    const uint8_t id[STORAGE_LOG_ID_SIZE] = "any log";
    struct testing_folder killed;
    struct storage_place place;
    struct storage_meta meta;

    struct storage *storage = testing_open(&fixture->options);
    assert_int_equal(storage_set_log(storage, id, NULL), ERROR_NONE);
    for (uint16_t p = 0; p < 2; p++)
        testing_write_meta(storage, p, folder_meta);
    storage_close(storage);
    assert_true(folder_identity_of(fixture).has_log);
    fixture->options.cluster = TESTING_CLUSTER;
    storage = testing_open(&fixture->options);
    testing_folder_make(&killed);
    testing_kill(&fixture->folder, &killed);
    storage_close(storage);
    assert_true(folder_identity_of(fixture).cluster == TESTING_CLUSTER);
    assert_false(folder_identity_of(fixture).has_log);
    fixture->options.folder = killed.path;
    storage = testing_open(&fixture->options);
    for (uint16_t p = 0; p < 2; p++) {
        assert_int_equal(storage_load_place(storage, p, &place, NULL), ERROR_NONE);
        assert_int_equal(place.next, 0);
        assert_int_equal(storage_load_meta(storage, p, &meta, NULL), ERROR_NONE);
        assert_int_equal(meta.epoch, 0);
    }
    storage_close(storage);
    testing_folder_remove(&killed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_set_up, folder_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_folder_of_others),        TEST(test_folder_half_made),
        TEST(test_folder_of_newer_version), TEST(test_folder_damaged_identity),
        TEST(test_folder_too_old),          TEST(test_folder_of_a_cluster),
        TEST(test_folder_joins_a_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
