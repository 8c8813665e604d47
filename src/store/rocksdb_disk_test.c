/* Goal: what is acknowledged was synced; a disk that fails or is full costs nothing that was
 * acknowledged, stops no reading, and no writing for longer than it lasts. Method: syncs are
 * counted and refused, files may not grow, and a file system of a few megabytes is filled. */
#include "store/storage_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const struct storage_meta no_meta;

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
    fixture->options = testing_options(&fixture->folder, 1);
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

/* The log's call lands here: counted, and refused when asked to. Threads that work behind a commit
 * call it, too: each counts for itself, and only that of the test is refused. */
static _Thread_local unsigned sync_count, syncs_to_refuse;

int fdatasync(int fd)
{
    sync_count++;
    if (syncs_to_refuse) {
        syncs_to_refuse--;
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static void test_sync(void **state)
{
    struct disk_fixture *fixture = *state;

    testing_write_meta(fixture->storage, 0, no_meta); /* begins a file of the log */
    for (unsigned i = 0; i < 10; i++) {
        const unsigned before = sync_count;

        testing_write_meta(fixture->storage, 0, no_meta);
        assert_int_equal(sync_count, before + 1); /* one for all that a commit writes */
    }
    fixture->options.sync = ROCKSDB_SYNC_NEVER;
    disk_reopen(fixture);
    testing_write_meta(fixture->storage, 0, no_meta);
    sync_count = 0;
    for (unsigned i = 0; i < 10; i++)
        testing_write_meta(fixture->storage, 0, no_meta);
    assert_int_equal(sync_count, 0);
    disk_reopen(fixture); /* but a clean end leaves nothing to chance */
    assert_true(sync_count > 0);
}

/* Commits until it fails; returns how many were acknowledged. */
static uint64_t write_until(struct disk_fixture *fixture, uint64_t first, enum error_code code)
{
    enum error_code result = ERROR_NONE;
    uint64_t serial = first;

    while (!result) {
        struct timer *timer = testing_timer(0, serial, 1000 + serial);
        struct storage_write write = {.timer = timer};
        struct storage_batch batch = {.writes = &write, .write_count = 1};
        struct storage_batch *const batches[] = {&batch};

        assert_true(serial < 10 * 1000 * 1000);
        struct error error;
        result = storage_commit(fixture->storage, batches, 1, &error);
        if (!result)
            serial++;
        else if (result != code)
            fail_msg("%s", error.text);
        timer_free(timer);
    }
    return serial - first;
}

/* Everything acknowledged is there; of one more nothing may be relied on. */
static void assert_disk_count(struct disk_fixture *fixture, uint64_t acknowledged)
{
    struct storage_page page = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_LIVE, 1000);

    assert_true(page.count == acknowledged || page.count == acknowledged + 1);
    for (uint64_t i = 0; i < page.count; i++)
        assert_true(page.timers[i]->id.serial == i + 1);
    storage_page_free(&page);
}

/* A disk that fills up between the log and the tables keeps readers waiting for room. */
static bool disk_can_read(struct disk_fixture *fixture)
{
    struct storage_meta meta;
    const enum error_code code = storage_load_meta(fixture->storage, 0, &meta, NULL);

    assert_true(!code || code == ERROR_IO);
    return !code;
}

/* proves: io */
static void test_sync_fails(void **state)
{
    struct disk_fixture *fixture = *state;
    uint64_t count = 0;

    for (int i = 0; i < 20; i++) {
        syncs_to_refuse = 1;
        count += write_until(fixture, count + 1, ERROR_IO);
        assert_int_equal(syncs_to_refuse, 0);
        assert_disk_count(fixture, count);
        struct timer *timer = testing_timer(0, count + 1, 1001 + count);
        testing_write(fixture->storage, timer, 0, no_meta); /* the next is a new chance */
        count++;
        assert_disk_count(fixture, count);
        timer_free(timer);
    }
}

/* The next file of the log is made behind the commit that began the last one. */
static void disk_wait_for_spare(struct disk_fixture *fixture)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/log/spare", fixture->folder.path);
    while (access(path, F_OK))
        sched_yield();
}

/* proves: io */
static void test_disk_fails(void **state)
{
    struct disk_fixture *fixture = *state;
    struct timer *timer = testing_timer(0, 0, 5);

    fixture->options.memtable_bytes = 1 << 20;
    fixture->options.sync = ROCKSDB_SYNC_NEVER;
    disk_reopen(fixture);
    testing_write_meta(fixture->storage, 0, no_meta); /* begins a file of the log */
    disk_wait_for_spare(fixture);
    struct rlimit limit;
    /* A file of the process may grow no longer: an error that is not "disk full". */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit low = limit;
    low.rlim_cur = 100 * 1000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    uint64_t count = write_until(fixture, 1, ERROR_IO);
    assert_true(count > 10);
    assert_disk_count(fixture, count); /* reading goes on */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    testing_write(fixture->storage, timer, 0, no_meta); /* and writing, as soon as it can */
    testing_assert_found(fixture->storage, timer, 5);
    timer->state = TIMER_FIRED;
    testing_write(fixture->storage, timer, 5, no_meta);
    assert_disk_count(fixture, count);
    disk_reopen(fixture);
    assert_disk_count(fixture, count);
    timer_free(timer);
}

/* Reads are enough to end a failure: an engine that cannot read commits nothing. */
/* proves: io */
static void test_a_reader_ends_the_failure(void **state)
{
    struct disk_fixture *fixture = *state;
    struct rlimit limit;

    testing_write_meta(fixture->storage, 0, no_meta); /* begins a file of the log */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit none = limit;
    none.rlim_cur = 1;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const uint64_t count = write_until(fixture, 1, ERROR_IO);
    assert_false(disk_can_read(fixture)); /* whether the last commit is on the disk is not known */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    while (!disk_can_read(fixture))
        sched_yield();
    assert_disk_count(fixture, count);
}

/* ---- a partition that follows a log ---- */

static struct storage_place disk_place(uint64_t next)
{
    return (struct storage_place){.next = next, .epoch = 1, .seq = next};
}

/* Applies records, a timer each, until that fails; returns how many are applied. */
static uint64_t follow_until(struct disk_fixture *fixture, uint64_t next, uint64_t end,
                             enum error_code *ret_code)
{
    struct buffer body;

    buffer_init(&body);
    *ret_code = ERROR_NONE;
    while (!*ret_code && next < end) {
        struct timer *timer = testing_timer(0, next + 1, 1000 + next);
        struct storage_write write = {.timer = timer};
        struct storage_batch batch = {.writes = &write, .write_count = 1};
        struct storage_batch *const batches[] = {&batch};
        const struct storage_place place = disk_place(next + 1);

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

/* The disk fails, and the database is opened again with an older place: nothing is read or applied
 * before that place is loaded, and what the log has then makes it whole. */
static void test_a_follower_is_rewound(void **state)
{
    struct disk_fixture *fixture = *state;
    struct storage_place place;
    struct storage_meta meta;
    struct rlimit limit;
    enum error_code code;

    fixture->options.cluster = TESTING_CLUSTER;
    disk_reopen(fixture);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit none = limit;
    none.rlim_cur = 1;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const uint64_t next = follow_until(fixture, 0, UINT64_MAX, &code);
    assert_true(code == ERROR_IO && next > 10);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(follow_until(fixture, next, next + 1, &code) == next && code == ERROR_IO);
    assert_int_equal(storage_load_meta(fixture->storage, 0, &meta, NULL), ERROR_IO);
    assert_int_equal(storage_load_place(fixture->storage, 0, &place, NULL), ERROR_NONE);
    assert_true(place.next < next && place.seq == place.next);
    assert_true(follow_until(fixture, place.next, next + 1, &code) == next + 1);
    assert_disk_count(fixture, next + 1);
    disk_reopen(fixture);
    assert_disk_count(fixture, next + 1);
}

/* proves: disk-full */
static void test_disk_full(void **state)
{
    struct disk_fixture *fixture = *state;
    struct timer *timer = testing_timer(0, 0, 5);

    storage_close(fixture->storage);
    fixture->storage = NULL;
    char path[300];
    snprintf(path, sizeof(path), "%s/small", fixture->folder.path);
    char folder[300];
    snprintf(folder, sizeof(folder), "%s/small/data", fixture->folder.path);
    char ballast[300];
    snprintf(ballast, sizeof(ballast), "%s/small/ballast", fixture->folder.path);
    assert_int_equal(mkdir(path, 0700), 0);
    if (!fixture->can_mount || mount("none", path, "tmpfs", 0, "size=32m") != 0) {
        timer_free(timer);
        skip();
    }
    int fd = open(ballast, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && posix_fallocate(fd, 0, 26 << 20) == 0);
    fixture->options.folder = folder;
    fixture->options.segment_bytes = 256 << 10;
    fixture->storage = testing_open(&fixture->options);
    uint64_t count = 0;
    /* What a closed database leaves behind may make room for a few more. */
    for (int i = 0; i < 5; i++) {
        count += write_until(fixture, count + 1, ERROR_DISK_FULL);
        if (disk_can_read(fixture))
            assert_disk_count(fixture, count);
    }
    assert_true(close(fd) == 0 && unlink(ballast) == 0); /* with room again it goes on at once */
    testing_write(fixture->storage, timer, 0, no_meta);
    testing_assert_found(fixture->storage, timer, 5);
    timer->state = TIMER_FIRED;
    testing_write(fixture->storage, timer, 5, no_meta);
    assert_disk_count(fixture, count);
    disk_reopen(fixture);
    assert_disk_count(fixture, count);
    storage_close(fixture->storage);
    fixture->storage = NULL;
    timer_free(timer);
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
        TEST(test_sync),
        TEST(test_sync_fails),
        TEST(test_disk_fails),
        TEST(test_a_reader_ends_the_failure),
        TEST(test_a_follower_is_rewound),
        {"test_disk_full", test_disk_full, disk_set_up, disk_tear_down, can_mount},
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
