/*
 * diskwheel_testing.h - for tests: a log of random bodies, the store on a wheel that follows it on
 * a disk in memory, and what the store must then be.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_TESTING_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_TESTING_H

#ifndef DISK_SECTORS
#define DISK_SECTORS 1024
#endif

#include "log/files/log_disk_testing.h"
#include "store/storage_model.h"
#include "store/wheel/diskwheel_store.h"

enum { TESTING_BODIES = 4000 };

struct testing_body {
    struct buffer body;
    uint16_t partition;
};

struct testing_bodies {
    struct model *model;
    struct storage *oracle; /* makes the bodies; it never fails */
    struct testing_body bodies[TESTING_BODIES];
    uint64_t count;
};

static inline struct testing_bodies *testing_bodies_create(uint64_t seed)
{
    struct testing_bodies *log = calloc(1, sizeof(*log));

    assert_non_null(log);
    log->model = calloc(1, sizeof(*log->model));
    log->oracle = memory_storage_create(MODEL_PARTITIONS);
    assert_true(log->model && log->oracle);
    model_init(log->model, seed);
    return log;
}

static inline void testing_bodies_free(struct testing_bodies *log)
{
    storage_close(log->oracle);
    for (uint64_t i = 0; i < log->count; i++)
        buffer_deinit(&log->bodies[i].body);
    model_deinit(log->model);
    free(log->model);
    free(log);
}

static inline struct storage_place testing_bodies_place(uint64_t at)
{
    return (struct storage_place){.next = at + 1, .epoch = 1, .seq = at, .node = 1};
}

/* Applies the body at this place of the log. */
static inline enum error_code testing_bodies_apply(struct testing_bodies *log, uint64_t at,
                                                   struct storage *storage)
{
    const struct storage_place place = testing_bodies_place(at);

    return storage_apply(storage, log->bodies[at].partition, buffer_bytes(&log->bodies[at].body),
                         &place, NULL);
}

/* Appends a random commit, of one body or more. */
static inline void testing_bodies_commit(struct testing_bodies *log)
{
    struct model_commit commit;

    model_next(log->model, &commit);
    for (size_t begin = 0, end; begin < commit.count; begin = end) {
        struct testing_body *body = &log->bodies[log->count];

        assert_true(log->count < TESTING_BODIES);
        body->partition = commit.batches[begin].partition;
        for (end = begin + 1;
             end < commit.count && commit.batches[end].partition == body->partition;)
            end++;
        buffer_init(&body->body);
        assert_int_equal(
            storage_prepare(log->oracle, commit.pointers + begin, end - begin, &body->body, NULL),
            ERROR_NONE);
        assert_int_equal(testing_bodies_apply(log, log->count, log->oracle), ERROR_NONE);
        log->count++;
    }
    model_commit_deinit(&commit);
}

/* Applies what the store lacks. */
static inline enum error_code testing_bodies_follow(struct testing_bodies *log,
                                                    struct storage *storage)
{
    enum error_code code = ERROR_NONE;

    for (uint64_t i = 0; i < log->count && !code; i++)
        code = testing_bodies_apply(log, i, storage);
    return code;
}

static inline enum error_code testing_open_on(const struct disk_calls *disk,
                                              struct storage **ret_storage, struct error *ret_error)
{
    const struct diskwheel_options options = {.disk = disk,
                                              .folder = "/d",
                                              .partition_count = MODEL_PARTITIONS,
                                              .retain_ms = TESTING_FOREVER,
                                              .runs_max = 10};

    *ret_storage = NULL;
    return diskwheel_storage_open(&options, ret_storage, ret_error);
}

/* The rows and the meta of each partition are those of its place, and of no other
 * moment. */
static inline void testing_bodies_assert_place(struct testing_bodies *log, struct storage *storage)
{
    struct storage *exact = memory_storage_create(MODEL_PARTITIONS);

    assert_non_null(exact);
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_meta ours, theirs;
        struct storage_place place;

        assert_int_equal(storage_load_place(storage, p, &place, NULL), ERROR_NONE);
        for (uint64_t i = 0; i < place.next; i++)
            if (log->bodies[i].partition == p)
                assert_int_equal(testing_bodies_apply(log, i, exact), ERROR_NONE);
        struct storage_page actual = testing_scan_all(storage, p, STORAGE_SCAN_ALL, 1000);
        struct storage_page expected = testing_scan_all(exact, p, STORAGE_SCAN_ALL, 1000);
        assert_int_equal(actual.count, expected.count);
        for (size_t i = 0; i < actual.count; i++)
            testing_assert_timer(actual.timers[i], expected.timers[i], expected.timers[i]->at);
        storage_page_free(&actual);
        storage_page_free(&expected);
        assert_int_equal(storage_load_meta(storage, p, &ours, NULL), ERROR_NONE);
        assert_int_equal(storage_load_meta(exact, p, &theirs, NULL), ERROR_NONE);
        assert_memory_equal(&ours, &theirs, sizeof(ours));
    }
    storage_close(exact);
}

/* ---- a disk whose calls fail, and between whose writes something happens ---- */

struct testing_disk {
    struct disk_calls disk;
    const struct disk_calls *below;
    uint64_t calls, fail_at; /* number of calls; the one that fails, 0 for none */
    int fail_with;           /* an errno */
    /* Called before a file is made, written or synced, without a lock of the store. NULL has no
     * effect. */
    void (*between)(void *context);
    void *context;
};

static inline struct testing_disk *testing_disk_of(const struct disk_calls *disk)
{
    return disk->state;
}

static inline int testing_disk_step(struct testing_disk *of)
{
    return ++of->calls == of->fail_at ? of->fail_with : 0;
}

static inline void testing_disk_between(const struct testing_disk *of)
{
    if (of->between)
        of->between(of->context);
}

static inline int testing_disk_open(const struct disk_calls *disk, const char *path,
                                    enum disk_access access, int *ret_file)
{
    struct testing_disk *of = testing_disk_of(disk);

    if (access == DISK_MAKE)
        testing_disk_between(of);
    const int failed = testing_disk_step(of);
    return failed ? failed : of->below->open(of->below, path, access, ret_file);
}

static inline void testing_disk_close(const struct disk_calls *disk, int file)
{
    const struct testing_disk *of = testing_disk_of(disk);

    of->below->close(of->below, file);
}

static inline int testing_disk_size(const struct disk_calls *disk, int file, uint64_t *ret_bytes)
{
    struct testing_disk *of = testing_disk_of(disk);
    const int failed = testing_disk_step(of);

    return failed ? failed : of->below->size(of->below, file, ret_bytes);
}

static inline int testing_disk_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
                                    size_t size, size_t *ret_size)
{
    struct testing_disk *of = testing_disk_of(disk);
    const int failed = testing_disk_step(of);

    return failed ? failed : of->below->read(of->below, file, at, to, size, ret_size);
}

/* One that fails has written half. */
static inline int testing_disk_write(const struct disk_calls *disk, int file, uint64_t at,
                                     struct bytes bytes)
{
    struct testing_disk *of = testing_disk_of(disk);

    testing_disk_between(of);
    const int failed = testing_disk_step(of);
    if (failed)
        bytes.size /= 2;
    const int below = of->below->write(of->below, file, at, bytes);
    return failed ? failed : below;
}

static inline int testing_disk_start_sync(const struct disk_calls *disk, int file, uint64_t at,
                                          uint64_t size)
{
    struct testing_disk *of = testing_disk_of(disk);
    const int failed = testing_disk_step(of);

    return failed ? failed : of->below->start_sync(of->below, file, at, size);
}

static inline int testing_disk_sync(const struct disk_calls *disk, int file)
{
    struct testing_disk *of = testing_disk_of(disk);

    testing_disk_between(of);
    const int failed = testing_disk_step(of);
    return failed ? failed : of->below->sync(of->below, file);
}

static inline int testing_disk_rename(const struct disk_calls *disk, const char *from,
                                      const char *to)
{
    struct testing_disk *of = testing_disk_of(disk);
    const int failed = testing_disk_step(of);

    return failed ? failed : of->below->rename(of->below, from, to);
}

static inline int testing_disk_remove(const struct disk_calls *disk, const char *path)
{
    struct testing_disk *of = testing_disk_of(disk);
    const int failed = testing_disk_step(of);

    return failed ? failed : of->below->remove(of->below, path);
}

static inline int testing_disk_sync_folder(const struct disk_calls *disk, const char *path)
{
    struct testing_disk *of = testing_disk_of(disk);
    const int failed = testing_disk_step(of);

    return failed ? failed : of->below->sync_folder(of->below, path);
}

static inline enum error_code testing_disk_make_folder(const struct disk_calls *disk,
                                                       const char *path, struct error *ret_error)
{
    struct testing_disk *of = testing_disk_of(disk);
    const int failed = testing_disk_step(of);

    return failed ? disk_failed(failed, "make", path, ret_error)
                  : of->below->make_folder(of->below, path, ret_error);
}

static inline enum error_code testing_disk_list(const struct disk_calls *disk, const char *path,
                                                bool (*each)(void *context,
                                                             const struct files_entry *entry),
                                                void *context, struct error *ret_error)
{
    struct testing_disk *of = testing_disk_of(disk);
    const int failed = testing_disk_step(of);

    return failed ? disk_failed(failed, "list", path, ret_error)
                  : of->below->list(of->below, path, each, context, ret_error);
}

static inline void testing_disk_init(struct testing_disk *of, const struct disk_calls *below)
{
    *of = (struct testing_disk){.below = below,
                                .disk = {.state = of,
                                         .open = testing_disk_open,
                                         .close = testing_disk_close,
                                         .size = testing_disk_size,
                                         .read = testing_disk_read,
                                         .write = testing_disk_write,
                                         .start_sync = testing_disk_start_sync,
                                         .sync = testing_disk_sync,
                                         .rename = testing_disk_rename,
                                         .remove = testing_disk_remove,
                                         .sync_folder = testing_disk_sync_folder,
                                         .make_folder = testing_disk_make_folder,
                                         .list = testing_disk_list}};
}

/* Waits for the worker, too: the disk in memory is no thread's. */
static inline enum error_code testing_flush(struct storage *storage)
{
    const enum error_code code = storage_flush(storage, NULL);

    diskwheel_storage_rest(storage);
    return code;
}

#endif
