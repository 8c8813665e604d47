/* Goal: whatever the disk does, a store that is opened again and applies its log from the places
 * that it has is what the log says. Method: random commits (storage_model.h) on a disk in memory
 * that loses power at any call, tears what was not synced, and fails calls. */
#define DISK_SECTORS 1024

#include "log/files/log_disk_testing.h"
#include "store/storage_model.h"
#include "store/wheel/diskwheel_store.h"

enum { CRASH_BODIES = 4000, CRASH_COMMITS = 12, CRASH_ROUNDS = 60 };

struct crash_body {
    struct buffer body;
    uint16_t partition;
};

struct crash {
    struct disk_memory *memory;
    struct storage *storage; /* NULL: it could not be opened */
    struct model *model;
    struct storage *oracle; /* makes the bodies; it never crashes */
    struct crash_body bodies[CRASH_BODIES];
    uint64_t count;
    struct random random;
    uint64_t flushed, failed; /* flushes that succeeded, and that did not */
};

static struct storage_place crash_place(uint64_t at)
{
    return (struct storage_place){.next = at + 1, .epoch = 1, .seq = at, .node = 1};
}

static enum error_code crash_open(struct crash *crash, struct error *ret_error)
{
    const struct diskwheel_options options = {.disk = &crash->memory->disk,
                                              .folder = "/d",
                                              .partition_count = MODEL_PARTITIONS,
                                              .retain_ms = TESTING_FOREVER,
                                              .runs_max = 10};

    crash->storage = NULL;
    return diskwheel_storage_open(&options, &crash->storage, ret_error);
}

/* Applies what the store lacks. */
static enum error_code crash_follow(struct crash *crash)
{
    enum error_code code = ERROR_NONE;

    for (uint64_t i = 0; i < crash->count && !code; i++) {
        const struct storage_place place = crash_place(i);

        code = storage_apply(crash->storage, crash->bodies[i].partition,
                             buffer_bytes(&crash->bodies[i].body), &place, NULL);
    }
    return code;
}

static void crash_commit(struct crash *crash)
{
    struct model_commit commit;

    model_next(crash->model, &commit);
    for (size_t begin = 0, end; begin < commit.count; begin = end) {
        struct crash_body *body = &crash->bodies[crash->count];
        const struct storage_place place = crash_place(crash->count);

        assert_true(crash->count < CRASH_BODIES);
        body->partition = commit.batches[begin].partition;
        for (end = begin + 1;
             end < commit.count && commit.batches[end].partition == body->partition;)
            end++;
        buffer_init(&body->body);
        assert_int_equal(
            storage_prepare(crash->oracle, commit.pointers + begin, end - begin, &body->body, NULL),
            ERROR_NONE);
        assert_int_equal(
            storage_apply(crash->oracle, body->partition, buffer_bytes(&body->body), &place, NULL),
            ERROR_NONE);
        crash->count++;
        if (crash->storage)
            storage_apply(crash->storage, body->partition, buffer_bytes(&body->body), &place, NULL);
    }
    model_commit_deinit(&commit);
}

/* Commits and flushes; calls of the disk fail, or its power does. */
static void crash_work(struct crash *crash)
{
    const bool fails = random_below(&crash->random, 2);

    if (fails) /* some calls, or all from one on: the power went */
        disk_memory_fail(crash->memory, 1 + random_below(&crash->random, 60),
                         random_below(&crash->random, 2) ? 1 + random_below(&crash->random, 3)
                                                         : UINT32_MAX,
                         random_below(&crash->random, 2) ? EIO : ENOSPC);
    for (uint64_t i = random_below(&crash->random, CRASH_COMMITS); i > 0; i--) {
        crash_commit(crash);
        if (random_below(&crash->random, 3) || !crash->storage)
            continue;
        const enum error_code code = storage_flush(crash->storage, NULL);
        diskwheel_storage_rest(crash->storage); /* the disk in memory is no thread's */
        if (code)
            crash->failed++;
        else
            crash->flushed++;
    }
}

static void crash_end(struct crash *crash)
{
    uint64_t kept[MODEL_PARTITIONS];

    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
        assert_int_equal(storage_load_kept(crash->storage, p, &kept[p], NULL), ERROR_NONE);
    const bool is_clean = random_below(&crash->random, 4) == 0;
    if (is_clean)
        storage_close(crash->storage);
    else
        diskwheel_storage_crash(crash->storage);
    disk_memory_cut(crash->memory);
    disk_memory_fail(crash->memory, 0, 0, 0);
    struct error error;
    if (crash_open(crash, &error))
        fail_msg("%s", error.text);
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_place place;

        assert_int_equal(storage_load_place(crash->storage, p, &place, NULL), ERROR_NONE);
        assert_true(place.next >= kept[p]); /* what was said to be durable is */
    }
    assert_int_equal(crash_follow(crash), ERROR_NONE);
}

static void test_power_cuts_and_failing_calls(void **state)
{
    const uint64_t seed = testing_seed();
    struct crash *crash = calloc(1, sizeof(*crash));

    (void)state;
    assert_non_null(crash);
    crash->random = random_seeded(seed);
    crash->model = calloc(1, sizeof(*crash->model));
    crash->memory = disk_memory_create(seed);
    crash->oracle = memory_storage_create(MODEL_PARTITIONS);
    model_init(crash->model, seed ^ 1);
    assert_int_equal(crash_open(crash, NULL), ERROR_NONE);
    for (int round = 0; round < CRASH_ROUNDS && crash->count < CRASH_BODIES / 2; round++) {
        crash_work(crash);
        crash_end(crash);
        model_assert_equal(crash->model, crash->storage, &crash->random);
    }
    print_message("%" PRIu64 " bodies, %" PRIu64 " flushes, %" PRIu64 " failed\n", crash->count,
                  crash->flushed, crash->failed);
    assert_true(crash->flushed > 0 && crash->failed > 0);
    storage_close(crash->storage);
    storage_close(crash->oracle);
    for (uint64_t i = 0; i < crash->count; i++)
        buffer_deinit(&crash->bodies[i].body);
    model_deinit(crash->model);
    free(crash->model);
    free(crash->memory);
    free(crash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_power_cuts_and_failing_calls)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
