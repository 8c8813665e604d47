/* Goal: a disk that is full or fails makes the store refuse changes, stops no reading and loses
 * nothing; with room it goes on. A folder that is gone is noticed. Method: a file system of a few
 * megabytes is filled, files may not grow, and the folder is moved; the records are made anew from
 * their offsets. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_store.h"

#include "base/random.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { WHEEL_DISK_PAYLOAD = 300, WHEEL_DISK_LOG = 100000 };

struct wheel_disk {
    struct testing_folder folder;
    struct diskwheel_options options;
    struct storage *storage;
    struct buffer *log; /* [WHEEL_DISK_LOG]: bodies */
    bool can_mount;
};

static int wheel_disk_set_up(void **state)
{
    struct wheel_disk *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    fixture->log = calloc(WHEEL_DISK_LOG, sizeof(*fixture->log));
    assert_non_null(fixture->log);
    fixture->can_mount = *state != NULL;
    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, 2);
    fixture->options.segment_bytes = 256 << 10;
    fixture->storage = testing_open(&fixture->options);
    *state = fixture;
    return 0;
}

static int wheel_disk_tear_down(void **state)
{
    struct wheel_disk *fixture = *state;

    storage_close(fixture->storage);
    testing_folder_remove(&fixture->folder);
    for (size_t i = 0; i < WHEEL_DISK_LOG; i++)
        buffer_deinit(&fixture->log[i]);
    free(fixture->log);
    free(fixture);
    return 0;
}

/* The timer of record n of the log: its serial is n + 1, and its payload takes its room. */
static struct timer *wheel_disk_timer(uint64_t n)
{
    struct random random = random_seeded(n);
    struct timer_texts texts = {.target = BYTES("http://127.0.0.1:8080/hook")};
    char payload[WHEEL_DISK_PAYLOAD];

    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (char)random_next(&random);
    texts.payload = (struct bytes){payload, sizeof(payload)};
    struct timer *timer = timer_alloc(&texts);
    assert_non_null(timer);
    timer->id = (struct timer_id){{1001 + n}, 0, n + 1};
    timer->due = timer->at = timer->id.first;
    return timer;
}

/* Makes the body of the next record, as its owner does, by `storage`. */
static enum error_code wheel_disk_prepare(struct storage *storage, uint64_t n, struct buffer *body)
{
    struct timer *timer = wheel_disk_timer(n);
    struct storage_write write = {.timer = timer};
    struct storage_batch batch = {.writes = &write, .write_count = 1};
    struct storage_batch *const batches[] = {&batch};
    const enum error_code code = storage_prepare(storage, batches, 1, body, NULL);

    timer_free(timer);
    return code;
}

/* Applies a record that is in the log. */
static enum error_code wheel_disk_apply(struct wheel_disk *fixture, uint64_t n)
{
    const struct storage_place place = {.next = n + 1, .epoch = 1, .seq = n + 1};

    return storage_apply(fixture->storage, 0, buffer_bytes(&fixture->log[n]), &place, NULL);
}

/* Makes records, and applies them, until that fails or `end` is reached. Returns the offset after
 * the last one. */
static uint64_t wheel_disk_follow(struct wheel_disk *fixture, uint64_t next, uint64_t end,
                                  enum error_code *ret_code)
{
    *ret_code = ERROR_NONE;
    while (!*ret_code && next < end) {
        struct buffer *body = &fixture->log[next];

        assert_true(next < WHEEL_DISK_LOG);
        buffer_clear(body);
        *ret_code = wheel_disk_prepare(fixture->storage, next, body);
        if (!*ret_code) /* what can be made can be applied */
            assert_int_equal(wheel_disk_apply(fixture, next), ERROR_NONE);
        next += !*ret_code;
    }
    return next;
}

/* The partition has the records before `next`, and no others, and is at that place. */
static void assert_wheel_disk_records(struct wheel_disk *fixture, uint64_t next)
{
    struct storage_page page = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_LIVE, 1000);
    struct storage_place place;

    assert_int_equal(page.count, next);
    for (uint64_t i = 0; i < page.count; i++)
        assert_true(page.timers[i]->id.serial == i + 1);
    storage_page_free(&page);
    assert_int_equal(storage_load_place(fixture->storage, 0, &place, NULL), ERROR_NONE);
    assert_true(place.next == next && place.seq == next);
}

/* Opens the folder again after a crash, and applies what its log has: also on a full disk. */
static void wheel_disk_crash(struct wheel_disk *fixture, uint64_t next)
{
    struct storage_place place;

    diskwheel_storage_crash(fixture->storage);
    fixture->storage = testing_open(&fixture->options);
    assert_int_equal(storage_load_place(fixture->storage, 0, &place, NULL), ERROR_NONE);
    assert_true(place.next <= next);
    assert_wheel_disk_records(fixture, place.next);
    for (; place.next < next; place.next++)
        assert_int_equal(wheel_disk_apply(fixture, place.next), ERROR_NONE);
    assert_wheel_disk_records(fixture, next);
}

static struct rlimit wheel_disk_limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit low = {.rlim_cur = bytes, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    return limit;
}

/* No file may grow: changes are refused when memory is full, and with a disk that works they go on.
 * proves: io */
static void test_wheel_disk_fails(void **state)
{
    struct wheel_disk *fixture = *state;
    enum error_code code;

    uint64_t next = wheel_disk_follow(fixture, 0, 10, &code);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    const struct rlimit limit = wheel_disk_limit_files(1);
    next = wheel_disk_follow(fixture, next, UINT64_MAX, &code);
    assert_true(code == ERROR_IO && next > 10);
    for (int i = 0; i < 3; i++) { /* it says so each time */
        assert_int_equal(wheel_disk_follow(fixture, next, next + 1, &code), next);
        assert_int_equal(code, ERROR_IO);
        assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_IO);
        assert_wheel_disk_records(fixture, next);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(wheel_disk_follow(fixture, next, next + 10, &code), next + 10);
    assert_wheel_disk_records(fixture, next + 10);
    wheel_disk_crash(fixture, next + 10);
}

/* What is held back for a full disk is given once, and taken again when there is room. */
static void test_wheel_relieve(void **state)
{
    struct wheel_disk *fixture = *state;
    struct storage_stats stats;

    for (int i = 0; i < 2; i++) {
        storage_tend(fixture->storage);
        storage_stats(fixture->storage, &stats);
        assert_int_equal(stats.disk_floor_bytes,
                         2 * diskwheel_store_of(fixture->storage)->ballast.bytes);
        assert_true(storage_relieve(fixture->storage));
        assert_false(storage_relieve(fixture->storage));
    }
    storage_tend(fixture->storage);
    storage_close(fixture->storage);
    fixture->storage = testing_open(&fixture->options);
    assert_true(storage_relieve(fixture->storage)); /* it was there since the run before */
}

/* Changes to a folder that was moved away would go to no place or to a wrong one. */
static void test_wheel_folder_is_moved(void **state)
{
    struct wheel_disk *fixture = *state;
    struct storage_place place;
    struct storage_stats stats;
    char moved[300];
    enum error_code code;

    wheel_disk_follow(fixture, 0, 10, &code);
    snprintf(moved, sizeof(moved), "%s-moved", fixture->folder.path);
    assert_int_equal(rename(fixture->folder.path, moved), 0);
    assert_int_equal(mkdir(fixture->folder.path, 0700), 0);
    storage_stats(fixture->storage, &stats);
    assert_true(stats.is_lost);
    assert_int_equal(wheel_disk_follow(fixture, 10, 11, &code), 10);
    assert_int_equal(code, ERROR_IO);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_IO);
    assert_int_equal(storage_load_place(fixture->storage, 0, &place, NULL), ERROR_IO);
    assert_int_equal(rmdir(fixture->folder.path), 0); /* it is empty */
    assert_int_equal(rename(moved, fixture->folder.path), 0);
    assert_wheel_disk_records(fixture, 10);
    assert_int_equal(wheel_disk_follow(fixture, 10, 11, &code), 11);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    storage_stats(fixture->storage, &stats);
    assert_false(stats.is_lost);
}

/* proves: disk-full */
static void test_wheel_disk_full(void **state)
{
    struct wheel_disk *fixture = *state;
    char path[300], folder[320], filler[320];
    struct storage_backup backup;
    struct storage_stats stats;
    uint64_t next = 0;
    enum error_code code;

    storage_close(fixture->storage);
    fixture->storage = NULL;
    snprintf(path, sizeof(path), "%s/small", fixture->folder.path);
    snprintf(folder, sizeof(folder), "%s/data", path);
    snprintf(filler, sizeof(filler), "%s/filler", path);
    assert_int_equal(mkdir(path, 0700), 0);
    if (!fixture->can_mount || mount("none", path, "tmpfs", 0, "size=16m") != 0)
        skip();
    const int fd = open(filler, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && posix_fallocate(fd, 0, 12 << 20) == 0);
    fixture->options.folder = folder;
    fixture->storage = testing_open(&fixture->options);
    storage_tend(fixture->storage); /* makes the ballast */
    for (int i = 0; i < 3; i++) {
        next = wheel_disk_follow(fixture, next, UINT64_MAX, &code);
        assert_int_equal(code, ERROR_DISK_FULL);
        assert_wheel_disk_records(fixture, next);
        storage_tend(fixture->storage);
        assert_false(storage_relieve(fixture->storage)); /* the flush took it */
        storage_stats(fixture->storage, &stats);
        assert_true(stats.disk_free_bytes < stats.disk_floor_bytes);
        wheel_disk_crash(fixture, next);
    }
    /* what is in memory cannot be written for a backup */
    snprintf(folder, sizeof(folder), "%s/copy", fixture->folder.path);
    assert_int_equal(storage_backup(fixture->storage, folder, &backup, NULL), ERROR_DISK_FULL);
    assert_false(files_exists(folder));
    assert_true(close(fd) == 0 && unlink(filler) == 0); /* with room it goes on at once */
    assert_int_equal(wheel_disk_follow(fixture, next, next + 10, &code), next + 10);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    assert_int_equal(storage_backup(fixture->storage, folder, &backup, NULL), ERROR_NONE);
    assert_int_equal(backup.timers, next + 10);
    snprintf(folder, sizeof(folder), "%s/data", path);
    assert_wheel_disk_records(fixture, next + 10);
    storage_tend(fixture->storage);
    assert_true(storage_relieve(fixture->storage));
    wheel_disk_crash(fixture, next + 10);
    assert_wheel_disk_records(fixture, next + 10);
    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_int_equal(umount(path), 0);
}

/* A backup to a disk that gets full leaves nothing. */
static void test_wheel_backup_to_a_full_disk(void **state)
{
    struct wheel_disk *fixture = *state;
    char path[300], folder[320];
    struct storage_backup backup;
    enum error_code code;

    snprintf(path, sizeof(path), "%s/small", fixture->folder.path);
    snprintf(folder, sizeof(folder), "%s/copy", path);
    assert_int_equal(mkdir(path, 0700), 0);
    if (!fixture->can_mount || mount("none", path, "tmpfs", 0, "size=64k") != 0)
        skip();
    wheel_disk_follow(fixture, 0, 10, &code);
    assert_int_equal(storage_backup(fixture->storage, folder, &backup, NULL), ERROR_NONE);
    files_remove_folder(folder);
    wheel_disk_follow(fixture, 10, 500, &code);
    struct error error;
    assert_int_equal(storage_backup(fixture->storage, folder, &backup, &error), ERROR_IO);
    assert_non_null(strstr(error.text, "No space left"));
    assert_false(files_exists(folder));
    assert_int_equal(umount(path), 0);
}

/* Mounts of our own, which vanish with the process; only root may have them. Before there are
 * threads: the worker's must see them too. */
static bool wheel_disk_separate_mounts(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, wheel_disk_set_up, wheel_disk_tear_down)

int main(void)
{
    void *can_mount = wheel_disk_separate_mounts() ? (void *)1 : NULL;
    const struct CMUnitTest tests[] = {
        TEST(test_wheel_disk_fails),
        TEST(test_wheel_relieve),
        TEST(test_wheel_folder_is_moved),
        {"test_wheel_disk_full", test_wheel_disk_full, wheel_disk_set_up, wheel_disk_tear_down,
         can_mount},
        {"test_wheel_backup_to_a_full_disk", test_wheel_backup_to_a_full_disk, wheel_disk_set_up,
         wheel_disk_tear_down, can_mount},
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
