/* Goal: whatever call of the disk fails, and whatever allocation, what was applied is there, the
 * call may be made again, and a crash leaves the state of a place. Method: a script of applies,
 * flushes with rewriting, reads and a start over a disk in memory; its N-th call of the disk fails,
 * reads included, and then its N-th allocation, for N = 1, 2, ... until the script needs fewer. */
#define DISK_SECTORS 128

#include "store/wheel/diskwheel_testing.h"
#include <scarce.h>

enum { FAULT_COMMITS = 12, FAULT_FLUSH_EVERY = 6, FAULT_TRIES = 3, FAULT_TOUCHED = 20 };

struct fault_case {
    struct testing_bodies *log;
    struct disk_memory *memory;
    struct testing_disk disk;
    struct storage *storage; /* NULL while it is not open */
};

static void fault_start(struct fault_case *fault, struct testing_bodies *log, uint64_t seed)
{
    *fault = (struct fault_case){.log = log, .memory = disk_memory_create(seed)};
    testing_disk_init(&fault->disk, &fault->memory->disk);
}

static bool fault_open(struct fault_case *fault)
{
    return !testing_open_on(&fault->disk.disk, &fault->storage, NULL);
}

static bool fault_flush(struct fault_case *fault)
{
    return !testing_flush(fault->storage);
}

static bool fault_scan(struct fault_case *fault)
{
    enum error_code code = ERROR_NONE;

    for (uint16_t p = 0; p < MODEL_PARTITIONS && !code; p++) {
        const struct storage_scan scan = {.partition = p,
                                          .kind = STORAGE_SCAN_ALL,
                                          .to = {WALL_NEVER, 0},
                                          .rows_max = 400,
                                          .bytes_max = SIZE_MAX};
        struct storage_page page;

        code = storage_scan(fault->storage, &scan, &page, NULL);
        if (!code)
            storage_page_free(&page);
    }
    return !code;
}

static bool fault_find(struct fault_case *fault)
{
    const struct model *model = fault->log->model;
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; i < model->count && !code; i += 11) {
        struct timer *timer = NULL;

        code = storage_find(fault->storage, &model->rows[i].timer->id, &timer, NULL);
        code = code == ERROR_NOT_FOUND ? ERROR_NONE : code;
        timer_free(timer);
    }
    return !code;
}

static bool fault_export(struct fault_case *fault)
{
    struct storage_export export = {.partition = 1, .rows_max = 1000, .bytes_max = SIZE_MAX};
    struct buffer body;
    enum error_code code = ERROR_NONE;

    buffer_init(&body);
    while (!code && !export.is_done)
        code = storage_export(fault->storage, &export, &body, NULL);
    buffer_deinit(&body);
    return !code;
}

/* A step fails at most once if one call does. */
static bool fault_try(struct fault_case *fault, bool (*step)(struct fault_case *))
{
    for (int i = 0; i < FAULT_TRIES; i++)
        if (step(fault))
            return true;
    return false;
}

static bool fault_apply(struct fault_case *fault, uint64_t at)
{
    const uint16_t partition = fault->log->bodies[at].partition;
    struct storage_meta meta;

    for (int i = 0; i < FAULT_TRIES; i++) {
        if (!testing_bodies_apply(fault->log, at, fault->storage))
            return true;
        /* what was applied in part is neither written nor read */
        assert_int_not_equal(testing_flush(fault->storage), ERROR_NONE);
        assert_int_equal(storage_load_meta(fault->storage, partition, &meta, NULL), ERROR_IO);
    }
    return false;
}

/* Returns false if it was given up: the faults did not end. */
static bool fault_script(struct fault_case *fault)
{
    bool is_well = fault_try(fault, fault_open);

    for (uint64_t i = 0; i < fault->log->count && is_well; i++) {
        is_well = fault_apply(fault, i);
        if (is_well && i % FAULT_FLUSH_EVERY == FAULT_FLUSH_EVERY - 1)
            is_well = fault_try(fault, fault_flush);
    }
    is_well = is_well && fault_try(fault, fault_scan) && fault_try(fault, fault_find);
    if (!is_well)
        return false;
    diskwheel_storage_crash(fault->storage);
    return fault_try(fault, fault_open) && fault_try(fault, fault_export);
}

/* Without further faults everything is there, in this process and after its death. */
static void fault_judge(struct fault_case *fault, struct random *random)
{
    fault->disk.fail_at = 0;
    if (!fault->storage)
        assert_true(fault_open(fault));
    assert_int_equal(testing_bodies_follow(fault->log, fault->storage), ERROR_NONE);
    model_assert_equal(fault->log->model, fault->storage, random);
    if (random_below(random, 2))
        assert_true(fault_flush(fault));
    diskwheel_storage_crash(fault->storage);
    disk_memory_cut(fault->memory);
    assert_true(fault_open(fault));
    testing_bodies_assert_place(fault->log, fault->storage);
    assert_int_equal(testing_bodies_follow(fault->log, fault->storage), ERROR_NONE);
    model_assert_equal(fault->log->model, fault->storage, random);
    assert_true(fault_flush(fault));
    model_assert_equal(fault->log->model, fault->storage, random);
    storage_close(fault->storage);
    assert_int_equal(fault->memory->open_count, 0);
    free(fault->memory);
}

static struct testing_bodies *fault_make_log(uint64_t seed)
{
    struct testing_bodies *log = testing_bodies_create(seed);

    for (int i = 0; i < FAULT_COMMITS; i++)
        testing_bodies_commit(log);
    return log;
}

static void test_each_call_of_the_disk(void **state)
{
    const uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct testing_bodies *log = fault_make_log(seed);
    bool was_reached = true;
    uint64_t n = 0;

    (void)state;
    while (was_reached) {
        struct fault_case fault;

        fault_start(&fault, log, seed);
        fault.disk.fail_at = ++n;
        fault.disk.fail_with = random_below(&random, 2) ? EIO : ENOSPC;
        assert_true(fault_script(&fault));
        was_reached = fault.disk.calls >= n;
        fault_judge(&fault, &random);
    }
    print_message("%" PRIu64 " calls\n", n - 1);
    assert_true(n > 50);
    testing_bodies_free(log);
}

static void test_each_allocation(void **state)
{
    const uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct testing_bodies *log = fault_make_log(seed);

    (void)state;
    for (struct scarce scarce = scarce_sweep("wheel"); scarce_next(&scarce);) {
        struct fault_case fault;

        fault_start(&fault, log, seed);
        scarce_begin(&scarce);
        const bool is_well = fault_script(&fault);
        assert_true(scarce_end(&scarce) || is_well);
        fault_judge(&fault, &random);
    }
    testing_bodies_free(log);
}

static void fault_assert_touched(struct storage *storage)
{
    struct storage_page page = testing_scan_all(storage, 0, STORAGE_SCAN_ALL, 1000);

    assert_int_equal(page.count, FAULT_TOUCHED);
    for (size_t i = 0; i < page.count; i++)
        assert_true(page.timers[i]->due.ms == page.timers[i]->at.ms + 5);
    storage_page_free(&page);
}

/* A flush of touches that finds no memory may be made again: the touched rows are there. */
static void test_touches_without_memory(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("touches"); scarce_next(&scarce);) {
        struct fault_case fault;

        fault_start(&fault, NULL, 1);
        assert_true(fault_open(&fault));
        for (uint64_t touch = 0; touch < 2; touch++) {
            for (uint64_t i = 0; i < FAULT_TOUCHED; i++) {
                struct timer *timer = testing_timer(0, i + 1, 1000 + i);

                timer->due.ms += touch ? 5 : 0;
                timer->version += (uint32_t)touch;
                testing_commit(fault.storage,
                               (struct storage_write){.timer = timer,
                                                      .was_at = {touch ? 1000 + i : 0},
                                                      .is_touch = touch > 0},
                               (struct storage_meta){0});
                timer_free(timer);
            }
            if (!touch)
                assert_true(fault_flush(&fault));
        }
        scarce_begin(&scarce);
        const bool is_flushed = fault_flush(&fault);
        assert_true(scarce_end(&scarce) || is_flushed);
        fault_assert_touched(fault.storage);
        assert_true(fault_flush(&fault));
        fault_assert_touched(fault.storage);
        diskwheel_storage_crash(fault.storage);
        assert_true(fault_open(&fault));
        fault_assert_touched(fault.storage);
        storage_close(fault.storage);
        free(fault.memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_of_the_disk),
        cmocka_unit_test(test_each_allocation),
        cmocka_unit_test(test_touches_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
