/*
 * storage_testing.h - for the tests of this folder: folders that vanish, comparisons of timers,
 * calls that must succeed.
 */
#ifndef TICKWHEEL_STORE_STORAGE_TESTING_H
#define TICKWHEEL_STORE_STORAGE_TESTING_H

#include "store/testing/memory.h"
#include "store/storage_writing.h"
#include "store/wheel/diskwheel.h"
#include "timer/timer_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- folders ---- */

struct testing_folder {
    char path[256];
};

static inline void testing_folder_make(struct testing_folder *folder)
{
    const char *parent = getenv("TMPDIR");

    snprintf(folder->path, sizeof(folder->path), "%s/tickwheel-storage-XXXXXX",
             parent ? parent : "/tmp");
    assert_non_null(mkdtemp(folder->path));
}

static inline int testing_remove_one(const char *path, const struct stat *info, int kind,
                                     struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static inline void testing_folder_remove(const struct testing_folder *folder)
{
    nftw(folder->path, testing_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- opening ---- */

#define TESTING_FOREVER UINT64_MAX
#define TESTING_CLUSTER 5 /* of options, where partitions follow a log */

static inline struct diskwheel_options testing_options(const struct testing_folder *folder,
                                                       uint16_t partition_count)
{
    return (struct diskwheel_options){
        .folder = folder->path,
        .partition_count = partition_count,
        .retain_ms = TESTING_FOREVER,
        .memory_bytes = 600 << 10, /* so that tests write runs; a stage has 256 KiB at least */
        .runs_max = 8,
    };
}

/* The backend of a test that runs on each. */
enum testing_backend { TESTING_MEMORY, TESTING_WHEEL };

static inline struct storage *testing_open(const struct diskwheel_options *options)
{
    struct storage *storage = NULL;
    struct error error;

    if (diskwheel_storage_open(options, &storage, &error))
        fail_msg("%s", error.text);
    return storage;
}

static inline struct storage *testing_open_backend(enum testing_backend backend,
                                                   const struct diskwheel_options *options)
{
    return backend == TESTING_MEMORY ? memory_storage_create(options->partition_count)
                                     : testing_open(options);
}

/* The tables hold what was written: for tests that look past the storage. */
static inline void testing_settle(struct storage *storage)
{
    struct storage_meta meta;

    assert_int_equal(storage_load_meta(storage, 0, &meta, NULL), ERROR_NONE);
}

/* ---- timers ---- */

static inline void testing_assert_texts(const struct timer *actual, const struct timer *expected,
                                        bool is_over)
{
    const struct bytes none = {0};

#define SAME(a, b) assert_true(bytes_equal(a, b))
    SAME(actual->texts.target, expected->texts.target);
    SAME(actual->texts.payload, is_over ? none : expected->texts.payload);
    SAME(actual->texts.content_type, is_over ? none : expected->texts.content_type);
    SAME(actual->texts.headers, is_over ? none : expected->texts.headers);
    SAME(actual->texts.labels, expected->texts.labels);
    SAME(actual->texts.last_error, expected->texts.last_error);
    SAME(actual->texts.key, expected->texts.key);
    SAME(actual->texts.watch, is_over ? none : expected->texts.watch);
    SAME(actual->texts.request, expected->texts.request);
    SAME(actual->texts.schedule, is_over ? none : expected->texts.schedule);
    SAME(actual->texts.tenant, expected->texts.tenant);
    SAME(actual->texts.trace, is_over ? none : expected->texts.trace);
    SAME(actual->texts.runs, expected->texts.runs);
    SAME(actual->texts.on_dead, is_over ? none : expected->texts.on_dead);
    SAME(actual->texts.on_success, is_over ? none : expected->texts.on_success);
    SAME(actual->texts.flow, is_over ? none : expected->texts.flow);
    SAME(actual->texts.report_of, expected->texts.report_of);
    SAME(actual->texts.targets, expected->texts.targets);
    SAME(actual->texts.parts, expected->texts.parts);
    SAME(actual->texts.zoned, timer_keeps_content(expected->state) ? expected->texts.zoned : none);
    SAME(actual->texts.ack_timeout,
         timer_keeps_content(expected->state) ? expected->texts.ack_timeout : none);
    SAME(actual->texts.awaits, expected->state == TIMER_DELIVERING ? expected->texts.awaits : none);
    SAME(actual->texts.note, expected->state == TIMER_PAUSED ? expected->texts.note : none);
#undef SAME
}

/* `actual` came out of a storage where `expected` went in, at the row `at`. */
static inline void testing_assert_timer(const struct timer *actual, const struct timer *expected,
                                        struct wall at)
{
    bool is_over = timer_is_final(expected->state);

    assert_true(timer_id_equal(&actual->id, &expected->id));
    assert_true(actual->due.ms == expected->due.ms);
    assert_true(actual->at.ms == at.ms);
    assert_true(actual->created.ms == expected->created.ms);
    assert_true(actual->ended.ms == (is_over ? expected->ended.ms : 0));
    assert_true(actual->paused.ms == expected->paused.ms);
    assert_int_equal(actual->version, expected->version);
    assert_int_equal(actual->attempts, expected->attempts);
    assert_int_equal(actual->state, expected->state);
    assert_int_equal(actual->retry.attempts_max, expected->retry.attempts_max);
    assert_true(actual->retry.base_ms == expected->retry.base_ms);
    assert_true(actual->retry.cap_ms == expected->retry.cap_ms);
    assert_true(actual->retry.timeout_ms == expected->retry.timeout_ms);
    assert_true(actual->retry.give_up_ms == expected->retry.give_up_ms);
    assert_true(actual->failing.ms == expected->failing.ms);
    assert_true(actual->footprint >= sizeof(*actual));
    testing_assert_texts(actual, expected, !timer_keeps_content(expected->state));
}

/* ---- calls that must succeed ---- */

static inline void testing_commit_batch(struct storage *storage, struct storage_batch *batch)
{
    struct error error = {.text = ""};

    if (storage_write(storage, &batch, 1, &error))
        fail_msg("%s", error.text);
}

static inline void testing_commit(struct storage *storage, struct storage_write write,
                                  struct storage_meta meta)
{
    struct storage_batch batch = {
        .partition = write.timer->id.partition, .meta = meta, .writes = &write, .write_count = 1};

    testing_commit_batch(storage, &batch);
}

/* Commits one timer, whose row was at `was_at_ms` (0: it had none), and leaves it to the caller. */
static inline void testing_write(struct storage *storage, struct timer *timer, uint64_t was_at_ms,
                                 struct storage_meta meta)
{
    testing_commit(storage, (struct storage_write){.timer = timer, .was_at = {was_at_ms}}, meta);
}

static inline void testing_write_meta(struct storage *storage, uint16_t partition,
                                      struct storage_meta meta)
{
    struct storage_batch batch = {.partition = partition, .meta = meta};

    testing_commit_batch(storage, &batch);
}

static inline void testing_assert_found(struct storage *storage, const struct timer *expected,
                                        uint64_t at_ms)
{
    struct timer *timer = NULL;

    assert_int_equal(storage_find(storage, &expected->id, &timer, NULL), ERROR_NONE);
    testing_assert_timer(timer, expected, (struct wall){at_ms});
    timer_free(timer);
}

static inline void testing_assert_not_found(struct storage *storage, const struct timer_id *id,
                                            enum error_code code)
{
    struct timer *const untouched = (struct timer *)1;
    struct timer *timer = untouched;
    struct error error = {0};

    assert_int_equal(storage_find(storage, id, &timer, &error), code);
    assert_ptr_equal(timer, untouched);
    assert_int_equal(error.code, code);
}

/* The whole of a partition, in pages of `rows_max`; to be freed. */
static inline struct storage_page testing_scan_all(struct storage *storage, uint16_t partition,
                                                   enum storage_scan_kind kind, size_t rows_max)
{
    struct storage_scan scan = {.partition = partition,
                                .kind = kind,
                                .to = {WALL_NEVER, 0},
                                .rows_max = rows_max,
                                .bytes_max = SIZE_MAX};
    struct storage_page all = {0}, page;
    struct error error;

    while (storage_position_before(scan.from, scan.to)) {
        if (storage_scan(storage, &scan, &page, &error))
            fail_msg("%s", error.text);
        assert_true(page.count <= rows_max);
        assert_true(storage_position_before(scan.from, page.next));
        all.timers = realloc(all.timers, (all.count + page.count + 1) * sizeof(*all.timers));
        assert_non_null(all.timers);
        for (size_t i = 0; i < page.count; i++)
            all.timers[all.count++] = page.timers[i];
        free(page.timers);
        scan.from = page.next;
    }
    return all;
}

#endif
