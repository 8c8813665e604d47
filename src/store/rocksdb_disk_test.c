/* Goal: a disk that fails or is full makes the storage refuse a change before any log has it, stops
 * no reading, costs nothing that was in files, and says by the place which records of the log are
 * to be applied again. Method: files may not grow, and a file system of a few megabytes is filled;
 * the records are made anew from their offsets. */
#include "store/rocksdb_store.h"
#include "store/storage_testing.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

struct disk_fixture {
    struct testing_folder folder;
    struct rocksdb_options options;
    struct storage *storage;
    bool can_mount;
};

static int disk_set_up(void **state)
{
    struct disk_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    fixture->can_mount = *state != NULL;
    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, 2);
    fixture->storage = testing_open(&fixture->options);
    *state = fixture;
    return 0;
}

static int disk_tear_down(void **state)
{
    struct disk_fixture *fixture = *state;

    storage_close(fixture->storage);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static void disk_reopen(struct disk_fixture *fixture)
{
    storage_close(fixture->storage);
    fixture->storage = testing_open(&fixture->options);
}

/* Records of the log are a timer each: record n has the serial n + 1. Applies those from `next` on
 * until that fails or `end` is reached. Returns the offset after the last one. */
static uint64_t disk_follow(struct disk_fixture *fixture, uint64_t next, uint64_t end,
                            enum error_code *ret_code)
{
    struct buffer body;

    buffer_init(&body);
    *ret_code = ERROR_NONE;
    while (!*ret_code && next < end) {
        struct timer *timer = testing_timer(0, next + 1, 1001 + next);
        struct storage_write write = {.timer = timer};
        struct storage_batch batch = {.writes = &write, .write_count = 1};
        struct storage_batch *const batches[] = {&batch};
        const struct storage_place place = {.next = next + 1, .epoch = 1, .seq = next + 1};

        assert_true(next < 10 * 1000 * 1000);
        buffer_clear(&body);
        *ret_code = storage_prepare(fixture->storage, batches, 1, &body, NULL);
        if (!*ret_code)
            *ret_code = storage_apply(fixture->storage, 0, buffer_bytes(&body), &place, NULL);
        next += !*ret_code;
        timer_free(timer);
    }
    buffer_deinit(&body);
    return next;
}

/* The partition has the records before `next`, and no others. */
static void assert_disk_records(struct disk_fixture *fixture, uint64_t next)
{
    struct storage_page page = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_LIVE, 1000);

    assert_int_equal(page.count, next);
    for (uint64_t i = 0; i < page.count; i++)
        assert_true(page.timers[i]->id.serial == i + 1);
    storage_page_free(&page);
}

/* Reads fail while the tables lack a record that was applied. */
static bool disk_can_read(struct disk_fixture *fixture)
{
    struct storage_meta meta;
    const enum error_code code = storage_load_meta(fixture->storage, 0, &meta, NULL);

    assert_true(!code || code == ERROR_IO);
    return !code;
}

/* The database has been opened again: calls for the partition fail until its place is loaded, and
 * applying the log from there makes it whole. Returns the number of records applied again. */
static uint64_t disk_rewind(struct disk_fixture *fixture, uint64_t next)
{
    struct storage_place place;
    struct storage_meta meta;
    enum error_code code;

    assert_true(disk_follow(fixture, next, next + 1, &code) == next && code == ERROR_UNREADABLE);
    assert_int_equal(storage_load_meta(fixture->storage, 0, &meta, NULL), ERROR_IO);
    assert_int_equal(storage_load_place(fixture->storage, 0, &place, NULL), ERROR_NONE);
    assert_true(place.next <= next && place.seq == place.next);
    assert_disk_records(fixture, place.next); /* the rows are those of the place */
    assert_true(disk_follow(fixture, place.next, next, &code) == next && code == ERROR_NONE);
    assert_disk_records(fixture, next);
    return next - place.next;
}

/* Sets the size up to which files of the process may grow, beyond which a write fails with an error
 * that is not "disk full". */
static struct rlimit disk_limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit low = {.rlim_cur = bytes, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    return limit;
}

/* Changes are refused, what can be read is whole, and with a disk that works the rest of the log is
 * applied. proves: io */
static void test_disk_fails(void **state)
{
    struct disk_fixture *fixture = *state;
    enum error_code code;

    fixture->options.memtable_bytes = 1 << 20;
    disk_reopen(fixture);
    const struct rlimit limit = disk_limit_files(100 * 1000);
    const uint64_t next = disk_follow(fixture, 0, UINT64_MAX, &code);
    assert_true(code == ERROR_IO && next > 10);
    for (int i = 0; i < 3; i++) { /* and it says so each time */
        assert_true(disk_follow(fixture, next, next + 1, &code) == next && code == ERROR_IO);
        if (disk_can_read(fixture))
            assert_disk_records(fixture, next);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(disk_rewind(fixture, next) > 0);
    assert_true(disk_follow(fixture, next, next + 10, &code) == next + 10);
    disk_reopen(fixture);
    assert_disk_records(fixture, next + 10);
}

/* No file may grow at all. proves: io */
static void test_a_follower_is_rewound(void **state)
{
    struct disk_fixture *fixture = *state;
    enum error_code code;

    fixture->options.cluster = TESTING_CLUSTER;
    disk_reopen(fixture);
    const struct rlimit limit = disk_limit_files(1);
    const uint64_t next = disk_follow(fixture, 0, UINT64_MAX, &code);
    assert_true(code == ERROR_IO && next > 10);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(disk_rewind(fixture, next) > 0);
    assert_true(disk_follow(fixture, next, next + 1, &code) == next + 1);
    disk_reopen(fixture);
    assert_disk_records(fixture, next + 1);
}

/* The tables refuse what a log has already: then reads fail, too, because they could not see it,
 * and a read is enough to end that, because an engine that cannot read changes nothing. proves: io
 */
static void test_a_reader_ends_the_failure(void **state)
{
    struct disk_fixture *fixture = *state;
    struct rocksdb_store *store = store_of(fixture->storage);
    struct storage_meta meta;
    enum error_code code;

    store_queue_stop(store); /* nothing is applied but by reads */
    disk_follow(fixture, 0, 10, &code);
    testing_settle(fixture->storage);
    disk_follow(fixture, 10, 20, &code);
    assert_true(store->queue.written < store->queue.pushed);
    const struct rlimit limit = disk_limit_files(1);
    assert_int_equal(store_flush(store, NULL), ERROR_IO); /* RocksDB takes no more writes */
    for (int i = 0; i < 3; i++)
        assert_int_equal(storage_load_meta(fixture->storage, 1, &meta, NULL), ERROR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    while (storage_load_meta(fixture->storage, 1, &meta, NULL))
        sched_yield();
    assert_int_equal(disk_rewind(fixture, 20), 20);
}

/* What is held back for a full disk is given once, and taken again when there is room. */
static void test_relieve(void **state)
{
    struct disk_fixture *fixture = *state;

    fixture->options.segment_bytes = 256 << 10;
    disk_reopen(fixture);
    for (int i = 0; i < 2; i++) {
        storage_tend(fixture->storage);
        assert_true(storage_relieve(fixture->storage));
        assert_false(storage_relieve(fixture->storage));
    }
}

/* Loads the place, and applies the log from there up to `end`. Returns `end`. */
static uint64_t disk_catch_up(struct disk_fixture *fixture, uint64_t end)
{
    struct storage_place place;
    struct error error = {.text = ""};
    enum error_code code;

    if (storage_load_place(fixture->storage, 0, &place, &error))
        fail_msg("%s", error.text);
    assert_true(disk_follow(fixture, place.next, end, &code) == end);
    return end;
}

/* Applies records until the disk is full, as a replica does: after each failure from the place on.
 * What can be read meanwhile is whole. Returns the offset after the records that were applied. */
static uint64_t disk_fill(struct disk_fixture *fixture, uint64_t next)
{
    struct storage_place place = {.next = next};
    enum error_code code = ERROR_NONE;

    while (code != ERROR_DISK_FULL) {
        code = storage_load_place(fixture->storage, 0, &place, NULL);
        if (code)
            continue;
        assert_true(place.next <= next);
        place.next = disk_follow(fixture, place.next, UINT64_MAX, &code);
        next = place.next > next ? place.next : next;
        assert_true(code == ERROR_DISK_FULL || code == ERROR_IO || code == ERROR_UNREADABLE);
        if (disk_can_read(fixture))
            assert_disk_records(fixture, place.next);
    }
    return next;
}

/* proves: disk-full */
static void test_disk_full(void **state)
{
    struct disk_fixture *fixture = *state;
    enum error_code code;

    storage_close(fixture->storage);
    fixture->storage = NULL;
    char path[300];
    snprintf(path, sizeof(path), "%s/small", fixture->folder.path);
    char folder[300];
    snprintf(folder, sizeof(folder), "%s/small/data", fixture->folder.path);
    char ballast[300];
    snprintf(ballast, sizeof(ballast), "%s/small/ballast", fixture->folder.path);
    assert_int_equal(mkdir(path, 0700), 0);
    if (!fixture->can_mount || mount("none", path, "tmpfs", 0, "size=32m") != 0)
        skip();
    int fd = open(ballast, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && posix_fallocate(fd, 0, 26 << 20) == 0);
    fixture->options.folder = folder;
    fixture->options.segment_bytes = 256 << 10;
    fixture->storage = testing_open(&fixture->options);
    storage_tend(fixture->storage); /* makes the ballast */
    uint64_t next = 0;
    /* The ballast, and what a closed database leaves behind, make room for a few more. */
    for (int i = 0; i < 5; i++) {
        next = disk_fill(fixture, next);
        assert_false(storage_relieve(fixture->storage)); /* the change took it */
    }
    assert_true(close(fd) == 0 && unlink(ballast) == 0); /* with room again it goes on at once */
    next = disk_catch_up(fixture, next + 10);
    assert_disk_records(fixture, next);
    disk_reopen(fixture);
    assert_disk_records(fixture, next);
    assert_true(disk_follow(fixture, next, next + 1, &code) == next + 1);
    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_int_equal(umount(path), 0);
}

/* Mounts of our own, which vanish with the process; only root may have them. Before there are
 * threads: those of RocksDB must see them too. */
static bool separate_mounts(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, disk_set_up, disk_tear_down)

int main(void)
{
    void *can_mount = separate_mounts() ? (void *)1 : NULL;
    const struct CMUnitTest tests[] = {
        TEST(test_disk_fails),
        TEST(test_a_follower_is_rewound),
        TEST(test_a_reader_ends_the_failure),
        TEST(test_relieve),
        {"test_disk_full", test_disk_full, disk_set_up, disk_tear_down, can_mount},
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
