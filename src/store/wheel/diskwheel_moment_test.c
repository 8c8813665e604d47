/* Goal: what random commits meet seldom: a run that is over is dropped, and no other; what comes
 * while the worker writes is neither lost nor comes back; and what failed to be written is still
 * there. Method: a few hundred rows of one partition, so that a run has several blocks, on a disk
 * in memory whose calls can be made to fail, or to do something between. */
#include "store/wheel/diskwheel_testing.h"
#include "sys/clock.h"

enum {
    MOMENT_ROWS = 400,
    MOMENT_RUN = 40,                /* rows of one of the runs that are copied */
    MOMENT_COPIED = 8 * MOMENT_RUN, /* rows of as many runs as are copied together */
};

/* In 2100: rows that live are as far off as final ones, which are kept, so they share a run. */
#define MOMENT_AT UINT64_C(4102444800000)

struct moment_case {
    struct disk_memory *memory;
    struct testing_disk disk;
    struct storage *storage;
    struct storage_meta meta;
    uint64_t trim_to; /* row before which all end while runs are copied */
    bool is_done;     /* what happens between the calls of the disk happened */
    uint64_t wanted;  /* number of a flush */
};

static void moment_open(struct moment_case *moment, uint64_t retain_ms)
{
    const struct diskwheel_options options = {.disk = &moment->disk.disk,
                                              .folder = "/d",
                                              .partition_count = MODEL_PARTITIONS,
                                              .retain_ms = retain_ms,
                                              .runs_max = 2};

    assert_int_equal(diskwheel_storage_open(&options, &moment->storage, NULL), ERROR_NONE);
}

static void moment_begin(struct moment_case *moment)
{
    *moment = (struct moment_case){.memory = disk_memory_create(1)};
    testing_disk_init(&moment->disk, &moment->memory->disk);
    moment->disk.context = moment;
    moment_open(moment, TESTING_FOREVER);
}

static void moment_crash(struct moment_case *moment)
{
    moment->disk.between = NULL;
    moment->disk.fail_at = 0;
    diskwheel_storage_crash(moment->storage);
    disk_memory_cut(moment->memory);
    moment_open(moment, TESTING_FOREVER);
}

static void moment_end(struct moment_case *moment)
{
    moment->disk.between = NULL;
    storage_close(moment->storage);
    free(moment->memory);
}

static void moment_flush(struct moment_case *moment)
{
    assert_int_equal(testing_flush(moment->storage), ERROR_NONE);
}

/* Row n is at MOMENT_AT + n, with the serial n + 1, and ended if it is before `ended`. */
static void moment_write_rows(struct moment_case *moment, uint64_t from, uint64_t to,
                              uint64_t ended)
{
    for (uint64_t n = from; n < to; n++) {
        struct timer *timer = testing_timer(0, n + 1, MOMENT_AT + n);

        if (n < ended) {
            timer->state = TIMER_FIRED;
            timer->ended.ms = MOMENT_AT + n;
        }
        testing_write(moment->storage, timer, 0, moment->meta);
        timer_free(timer);
    }
}

static void moment_forget_rows(struct moment_case *moment, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++) {
        struct timer *timer = testing_timer(0, n + 1, MOMENT_AT + n);

        timer->state = TIMER_FIRED;
        timer->ended.ms = MOMENT_AT + n;
        testing_commit(
            moment->storage,
            (struct storage_write){
                .timer = timer, .was_at = {MOMENT_AT + n}, .was_final = true, .is_forgotten = true},
            moment->meta);
        timer_free(timer);
    }
}

/* Ends all rows before row n. */
static void moment_trim(struct moment_case *moment, uint64_t n)
{
    moment->meta.trim.ms = moment->meta.watermark.ms = MOMENT_AT + n;
    testing_write_meta(moment->storage, 0, moment->meta);
}

static void moment_assert_rows(struct moment_case *moment, uint64_t from, uint64_t to)
{
    struct storage_page page = testing_scan_all(moment->storage, 0, STORAGE_SCAN_ALL, 1000);

    assert_int_equal(page.count, to - from);
    for (size_t i = 0; i < page.count; i++)
        assert_int_equal(page.timers[i]->at.ms, MOMENT_AT + from + i);
    storage_page_free(&page);
}

static size_t moment_run_count(const struct moment_case *moment)
{
    return diskwheel_store_of(moment->storage)->view->count;
}

/* A page without a bound has all rows, those in memory too. */
static void test_page_of_all(void **state)
{
    const struct storage_scan scan = {.kind = STORAGE_SCAN_ALL,
                                      .to = {WALL_NEVER, 0},
                                      .rows_max = SIZE_MAX,
                                      .bytes_max = SIZE_MAX};
    struct moment_case moment;
    struct storage_page page;

    (void)state;
    moment_begin(&moment);
    moment_write_rows(&moment, 0, 9, 0);
    assert_int_equal(storage_scan(moment.storage, &scan, &page, NULL), ERROR_NONE);
    assert_int_equal(page.count, 9);
    storage_page_free(&page);
    moment_end(&moment);
}

/* Rows before the begin of a trim stay: another trim may begin there. */
static void test_trim_spares_rows_before_it(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    moment_trim(&moment, 50);
    moment_write_rows(&moment, 20, 100, 100);
    moment_flush(&moment);
    moment_trim(&moment, 100);
    moment_assert_rows(&moment, 20, 50);
    moment_flush(&moment);
    moment_crash(&moment);
    moment_assert_rows(&moment, 20, 50);
    moment_end(&moment);
}

/* Rows that were marked and are then cut are over once. */
static void test_marked_and_cut(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    moment_write_rows(&moment, 0, MOMENT_ROWS, 290);
    moment_flush(&moment);
    moment_forget_rows(&moment, 0, 290);
    moment_flush(&moment);
    moment_trim(&moment, 290);
    moment_flush(&moment);
    moment_flush(&moment);
    moment_assert_rows(&moment, 290, MOMENT_ROWS);
    moment_end(&moment);
}

/* A run lives as long as one of its rows does, also one in the block of a cut, and no longer. */
static void test_cut_within_a_block(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    moment_write_rows(&moment, 0, MOMENT_ROWS, MOMENT_ROWS);
    moment_flush(&moment);
    moment_trim(&moment, MOMENT_ROWS - 1);
    moment_flush(&moment);
    moment_flush(&moment);
    moment_assert_rows(&moment, MOMENT_ROWS - 1, MOMENT_ROWS);
    moment_trim(&moment, MOMENT_ROWS);
    moment_flush(&moment);
    moment_assert_rows(&moment, 0, 0);
    assert_int_equal(moment_run_count(&moment), 0);
    assert_int_equal(moment.memory->live_count, 1); /* the state */
    moment_end(&moment);
}

static void moment_trim_between(void *context)
{
    struct moment_case *moment = context;

    if (moment->is_done)
        return;
    moment->is_done = true;
    moment_trim(moment, 100);
    moment_assert_rows(moment, 100, MOMENT_ROWS);
}

/* A trim while its rows are written ends them, in memory and in what is written next. */
static void test_trim_while_rows_are_written(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    moment_write_rows(&moment, 0, MOMENT_ROWS, 200);
    moment.disk.between = moment_trim_between;
    moment_flush(&moment);
    moment.disk.between = NULL;
    assert_true(moment.is_done);
    moment_assert_rows(&moment, 100, MOMENT_ROWS);
    moment_flush(&moment);
    moment_crash(&moment);
    moment_assert_rows(&moment, 100, MOMENT_ROWS);
    moment_end(&moment);
}

static void moment_trim_all_final(void *context)
{
    struct moment_case *moment = context;

    if (moment->is_done)
        return;
    moment->is_done = true;
    moment_trim(moment, 200);
}

/* A row is deleted, and while that is written a trim cuts it. The state is of the moment before the
 * trim, and lacks the row. */
static void test_trim_of_what_was_deleted(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    moment_write_rows(&moment, 1, MOMENT_ROWS, 200);
    moment_flush(&moment);
    moment_write_rows(&moment, 0, 1, 1); /* the first that is written: then the trim comes */
    moment_forget_rows(&moment, 1, 100);
    moment.disk.between = moment_trim_all_final;
    moment_flush(&moment);
    assert_true(moment.is_done);
    moment_assert_rows(&moment, 200, MOMENT_ROWS);
    moment_crash(&moment);
    struct storage_page page = testing_scan_all(moment.storage, 0, STORAGE_SCAN_ALL, 1000);
    assert_int_equal(page.count, 1 + MOMENT_ROWS - 100);
    storage_page_free(&page);
    moment_end(&moment);
}

/* The worker copies runs. */
static void moment_trim_rewriting(void *context)
{
    struct moment_case *moment = context;

    if (moment->is_done || !diskwheel_store_of(moment->storage)->rewritten)
        return;
    moment->is_done = true;
    moment_trim(moment, moment->trim_to);
    moment_assert_rows(moment, moment->trim_to, MOMENT_COPIED);
}

static void moment_copy_and_trim(uint64_t trim_to)
{
    struct moment_case moment;

    moment_begin(&moment);
    moment.trim_to = trim_to;
    moment.disk.between = moment_trim_rewriting;
    for (uint64_t n = 0; n < MOMENT_COPIED; n += MOMENT_RUN) {
        moment_write_rows(&moment, n, n + MOMENT_RUN, MOMENT_COPIED);
        moment_flush(&moment);
    }
    moment.disk.between = NULL;
    assert_true(moment.is_done);
    moment_assert_rows(&moment, trim_to, MOMENT_COPIED);
    moment_flush(&moment);
    moment_crash(&moment);
    moment_assert_rows(&moment, trim_to, MOMENT_COPIED);
    moment_end(&moment);
}

/* The trim moves the cuts of some runs, or of all. */
static void test_trim_while_runs_are_copied(void **state)
{
    (void)state;
    moment_copy_and_trim(100);
    moment_copy_and_trim(300);
}

static void moment_forget_rewriting(void *context)
{
    struct moment_case *moment = context;
    struct diskwheel_store *store = diskwheel_store_of(moment->storage);

    if (moment->is_done || !store->rewritten)
        return;
    moment->is_done = true;
    moment_forget_rows(moment, 0, 50);
    pthread_mutex_lock(&store->lock);
    store->owed_count = 0; /* nothing delays the flush */
    diskwheel_worker_ask(store);
    pthread_mutex_unlock(&store->lock);
}

/* Rows are deleted after they were copied, and the flush that writes this comes before the copies
 * take the place of their runs. */
static void test_flush_while_runs_are_copied(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    moment.disk.between = moment_forget_rewriting;
    for (uint64_t n = 0; n < MOMENT_COPIED; n += MOMENT_RUN) {
        moment_write_rows(&moment, n, n + MOMENT_RUN, MOMENT_COPIED);
        moment_flush(&moment);
    }
    assert_true(moment.is_done);
    moment_assert_rows(&moment, 50, MOMENT_COPIED);
    moment_crash(&moment);
    moment_assert_rows(&moment, 50, MOMENT_COPIED);
    moment_end(&moment);
}

/* Asks for a flush when the first file is removed, which is done when the next one is. */
static int moment_remove(const struct disk_calls *disk, const char *path)
{
    struct moment_case *moment = testing_disk_of(disk)->context;
    struct diskwheel_store *store = diskwheel_store_of(moment->storage);
    const bool is_first = !moment->wanted;

    if (is_first)
        moment_write_rows(moment, MOMENT_COPIED, MOMENT_COPIED + 1, 0);
    pthread_mutex_lock(&store->lock);
    if (is_first) {
        store->owed_count = 0; /* nothing delays the flush */
        moment->wanted = diskwheel_worker_ask(store);
    }
    moment->is_done = store->flushed >= moment->wanted;
    pthread_mutex_unlock(&store->lock);
    return testing_disk_remove(disk, path);
}

/* To remove the files of runs that were rewritten takes long: a flush does not wait for its end. */
static void test_flush_while_files_are_removed(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    for (uint64_t n = 0; n < MOMENT_COPIED; n += MOMENT_RUN) {
        if (n + MOMENT_RUN == MOMENT_COPIED)
            moment.disk.disk.remove = moment_remove;
        moment_write_rows(&moment, n, n + MOMENT_RUN, MOMENT_COPIED);
        moment_flush(&moment);
    }
    assert_true(moment.is_done);
    moment_assert_rows(&moment, 0, MOMENT_COPIED + 1);
    moment.disk.disk.remove = testing_disk_remove;
    moment_end(&moment);
}

static void moment_touch_all(struct moment_case *moment, uint32_t version)
{
    for (uint64_t n = 0; n < MOMENT_ROWS; n++) {
        struct timer *timer = testing_timer(0, n + 1, MOMENT_AT + n);

        timer->due.ms += 10 + version;
        timer->version += version;
        testing_commit(
            moment->storage,
            (struct storage_write){.timer = timer, .was_at = {MOMENT_AT + n}, .is_touch = true},
            moment->meta);
        timer_free(timer);
    }
}

static void moment_assert_touched(struct moment_case *moment, uint32_t version)
{
    struct storage_page page = testing_scan_all(moment->storage, 0, STORAGE_SCAN_LIVE, 1000);

    assert_int_equal(page.count, MOMENT_ROWS);
    for (size_t i = 0; i < page.count; i++)
        assert_int_equal(page.timers[i]->due.ms, MOMENT_AT + 10 + i + version);
    storage_page_free(&page);
    for (uint64_t n = 0; n < MOMENT_ROWS; n += 50) {
        struct timer *timer = NULL;

        assert_int_equal(storage_find(moment->storage,
                                      &(struct timer_id){{MOMENT_AT + n}, 0, n + 1}, &timer, NULL),
                         ERROR_NONE);
        assert_int_equal(timer->due.ms, MOMENT_AT + 10 + n + version);
        timer_free(timer);
    }
}

static void moment_touch_between(void *context)
{
    struct moment_case *moment = context;

    if (moment->is_done)
        return;
    moment->is_done = true;
    moment_touch_all(moment, 2);
    moment_assert_touched(moment, 2);
}

/* A touch in memory, an older one that is being written, and the row in a run. */
static void test_touch_while_a_touch_is_written(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    moment_write_rows(&moment, 0, MOMENT_ROWS, 0);
    moment_flush(&moment);
    moment_touch_all(&moment, 1);
    moment.disk.between = moment_touch_between;
    moment_flush(&moment);
    moment.disk.between = NULL;
    assert_true(moment.is_done);
    moment_assert_touched(&moment, 2);
    moment_crash(&moment);
    moment_assert_touched(&moment, 1); /* that of the state */
    moment_end(&moment);
}

static void moment_clear_between(void *context)
{
    struct moment_case *moment = context;

    if (moment->is_done)
        return;
    moment->is_done = true;
    assert_int_equal(
        storage_partition_clear(moment->storage, 0, &(struct storage_place){.next = 1}, NULL),
        ERROR_NONE);
    moment_assert_rows(moment, 0, 0);
    moment_write_rows(moment, 7, 9, 0);
}

static void test_clear_while_rows_are_written(void **state)
{
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    moment_write_rows(&moment, 0, 100, 0);
    moment_flush(&moment);
    moment_write_rows(&moment, 100, 200, 0);
    moment.disk.between = moment_clear_between;
    moment_flush(&moment);
    moment.disk.between = NULL;
    assert_true(moment.is_done);
    moment_assert_rows(&moment, 7, 9);
    moment_flush(&moment);
    moment_assert_rows(&moment, 7, 9);
    moment_crash(&moment);
    moment_assert_rows(&moment, 7, 9);
    moment_end(&moment);
}

/* If the state without a run cannot be written, the run's file is kept for the state before. */
static void test_state_that_fails(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 12; n++) {
        struct moment_case moment;

        moment_begin(&moment);
        moment_write_rows(&moment, 0, 100, 100);
        moment_flush(&moment);
        moment_trim(&moment, 100);
        moment.disk.fail_at = moment.disk.calls + n;
        moment.disk.fail_with = EIO;
        testing_flush(moment.storage);
        moment_assert_rows(&moment, 0, 0);
        moment_crash(&moment);
        moment_end(&moment);
    }
}

/* Damage is told after its run is gone, and after the next start. */
static void test_damage_outlives_its_run(void **state)
{
    struct moment_case moment;
    struct storage_stats before, after;
    char name[DISKWHEEL_RUN_NAME_SIZE];

    (void)state;
    moment_begin(&moment);
    moment_write_rows(&moment, 0, MOMENT_ROWS, MOMENT_ROWS);
    moment_flush(&moment);
    diskwheel_run_name(diskwheel_store_of(moment.storage)->view->runs[0]->number, name);
    *disk_memory_byte(moment.memory, name, 100) ^= 3;
    struct storage_page page = testing_scan_all(moment.storage, 0, STORAGE_SCAN_ALL, 1000);
    assert_true(page.count > 0 && page.count < MOMENT_ROWS);
    storage_stats(moment.storage, &before);
    assert_int_equal(before.corrupt_blocks, 1);
    assert_int_equal(before.corrupt_records, MOMENT_ROWS - page.count);
    storage_page_free(&page);
    moment_trim(&moment, MOMENT_ROWS);
    moment_flush(&moment);
    assert_int_equal(moment_run_count(&moment), 0);
    moment_crash(&moment);
    storage_stats(moment.storage, &after);
    assert_int_equal(after.corrupt_blocks, before.corrupt_blocks);
    assert_int_equal(after.corrupt_records, before.corrupt_records);
    moment_end(&moment);
}

/* Returns the file of the only run. */
static struct disk_file *moment_run_file(struct moment_case *moment)
{
    const struct diskwheel_view *view = diskwheel_store_of(moment->storage)->view;
    char name[DISKWHEEL_RUN_NAME_SIZE];

    assert_int_equal(view->count, 1);
    diskwheel_run_name(view->runs[0]->number, name);
    return &moment->memory->files
                [disk_memory_find(moment->memory->live, moment->memory->live_count, name)->file];
}

/* A run of another folder with the same number, the same keys and as many records is refused. */
static void test_run_of_a_twin(void **state)
{
    struct moment_case one, other;

    (void)state;
    moment_begin(&one);
    moment_begin(&other);
    moment_write_rows(&one, 0, 100, 0);
    moment_write_rows(&other, 0, 100, 100);
    moment_flush(&one);
    moment_flush(&other);
    *moment_run_file(&one) = *moment_run_file(&other);
    storage_close(one.storage);
    assert_int_equal(testing_open_on(&one.memory->disk, &one.storage, NULL), ERROR_CORRUPT);
    free(one.memory);
    moment_end(&other);
}

/* Rewriting drops final records that are old enough, and nothing else. */
static void test_rewriting_forgets(void **state)
{
    static const struct {
        enum timer_state state;
        uint64_t at_ms, ended_ms; /* UINT64_MAX: now */
        bool is_kept;
    } rows[] = {{TIMER_SCHEDULED, 1000, 0, true},
                {TIMER_FIRED, 1001, 1001, false},
                {TIMER_FIRED, 1002, UINT64_MAX, true},
                {TIMER_DEAD, 0, 1003, true}};
    const size_t count = sizeof(rows) / sizeof(*rows);
    struct moment_case moment;

    (void)state;
    moment_begin(&moment);
    diskwheel_storage_crash(moment.storage);
    moment_open(&moment, 3600 * 1000);
    for (uint64_t i = 0; i < 4 * count; i++) { /* runs enough to be rewritten */
        struct timer *timer = testing_timer(0, i + 1, rows[i % count].at_ms);

        timer->id.first.ms = 1000;
        timer->state = rows[i % count].state;
        timer->ended.ms =
            rows[i % count].ended_ms == UINT64_MAX ? wall_now().ms : rows[i % count].ended_ms;
        if (!rows[i % count].at_ms)
            timer->at.ms = STORAGE_DEAD_FROM.ms + 5;
        testing_write(moment.storage, timer, timer->state == TIMER_DEAD ? 1000 : 0, moment.meta);
        timer_free(timer);
        if (i % count == count - 1)
            moment_flush(&moment);
    }
    assert_true(moment_run_count(&moment) <= 2);
    uint64_t records = 0;
    const struct diskwheel_view *view = diskwheel_store_of(moment.storage)->view;
    for (size_t i = 0; i < view->count; i++)
        records += view->runs[i]->tables[DISKWHEEL_TIMERS].record_count;
    assert_true(records < 4 * count);
    struct storage_page page = testing_scan_all(moment.storage, 0, STORAGE_SCAN_ALL, 1000);
    assert_int_equal(page.count, 4 * (count - 1));
    storage_page_free(&page);
    moment_end(&moment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_of_all),
        cmocka_unit_test(test_trim_spares_rows_before_it),
        cmocka_unit_test(test_marked_and_cut),
        cmocka_unit_test(test_cut_within_a_block),
        cmocka_unit_test(test_trim_while_rows_are_written),
        cmocka_unit_test(test_trim_of_what_was_deleted),
        cmocka_unit_test(test_trim_while_runs_are_copied),
        cmocka_unit_test(test_flush_while_runs_are_copied),
        cmocka_unit_test(test_flush_while_files_are_removed),
        cmocka_unit_test(test_touch_while_a_touch_is_written),
        cmocka_unit_test(test_clear_while_rows_are_written),
        cmocka_unit_test(test_state_that_fails),
        cmocka_unit_test(test_damage_outlives_its_run),
        cmocka_unit_test(test_run_of_a_twin),
        cmocka_unit_test(test_rewriting_forgets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
