/* Goal: whatever the disk does, a store that is opened again and applies its log from the places
 * that it has is what the log says. Method: random commits (storage_model.h) on a disk in memory
 * that loses power at any call, tears what was not synced, and fails calls; some commits, reads and
 * clears come while the worker writes, and flushes are asked for. */
#include "store/wheel/diskwheel_testing.h"

enum { CRASH_COMMITS = 12, CRASH_ROUNDS = 60, CRASH_MEANWHILE = 8 };

struct crash {
    struct disk_memory *memory;
    struct testing_disk disk;
    struct storage *storage;
    struct testing_bodies *log;
    struct random random;
    uint64_t flushed, failed;           /* flushes that succeeded, and that did not */
    uint64_t meanwhile;                 /* commits while the worker wrote */
    bool was_cleared[MODEL_PARTITIONS]; /* perhaps not on disk: a crash may take it back */
};

/* Commits, and the store follows. */
static void crash_commit(struct crash *crash)
{
    const uint64_t before = crash->log->count;

    testing_bodies_commit(crash->log);
    for (uint64_t i = before; i < crash->log->count; i++)
        assert_int_equal(testing_bodies_apply(crash->log, i, crash->storage), ERROR_NONE);
}

static void crash_clear(struct crash *crash, uint16_t partition)
{
    assert_int_equal(storage_partition_clear(crash->storage, partition,
                                             &(struct storage_place){.next = 0}, NULL),
                     ERROR_NONE);
    crash->was_cleared[partition] = true;
    struct tenant_counts counts;
    struct storage_page page = testing_scan_all(crash->storage, partition, STORAGE_SCAN_ALL, 100);
    assert_int_equal(page.count, 0);
    storage_page_free(&page);
    tenant_counts_init(&counts);
    assert_int_equal(storage_load_tenant_counts(crash->storage, partition, &counts, NULL),
                     ERROR_NONE);
    for (size_t i = 0; i < MODEL_TENANTS; i++)
        assert_int_equal(tenant_counts_count(&counts, bytes_of(model_tenants[i])), 0);
    tenant_counts_deinit(&counts);
}

/* Called when the worker is about to write a file: the test commits, clears a partition, compares
 * what it reads, and asks for a flush, each with some chance. */
static void crash_meanwhile(void *context)
{
    struct crash *crash = context;

    if (crash->log->count > TESTING_BODIES / 2 ||
        random_below(&crash->random, CRASH_MEANWHILE) != 0)
        return;
    crash_commit(crash);
    crash->meanwhile++;
    if (random_below(&crash->random, 6) == 0) {
        crash_clear(crash, (uint16_t)random_below(&crash->random, MODEL_PARTITIONS));
        assert_int_equal(testing_bodies_follow(crash->log, crash->storage), ERROR_NONE);
    }
    if (random_below(&crash->random, 4) == 0)
        model_assert_equal(crash->log->model, crash->storage, &crash->random);
    if (random_below(&crash->random, 4) == 0) {
        struct diskwheel_store *store = diskwheel_store_of(crash->storage);

        pthread_mutex_lock(&store->lock);
        diskwheel_worker_ask(store);
        pthread_mutex_unlock(&store->lock);
    }
}

/* Commits and flushes; calls of the disk fail, or its power does. */
static void crash_work(struct crash *crash)
{
    const bool fails = random_below(&crash->random, 2);

    if (fails) /* some calls fail; or all do after a certain one, as when the power went */
        disk_memory_fail(crash->memory, 1 + random_below(&crash->random, 60),
                         random_below(&crash->random, 2) ? 1 + random_below(&crash->random, 3)
                                                         : UINT32_MAX,
                         random_below(&crash->random, 2) ? EIO : ENOSPC);
    for (uint64_t i = random_below(&crash->random, CRASH_COMMITS); i > 0; i--) {
        crash_commit(crash);
        if (random_below(&crash->random, 3))
            continue;
        if (testing_flush(crash->storage))
            crash->failed++;
        else
            crash->flushed++;
    }
}

static void crash_open(struct crash *crash)
{
    struct error error;

    if (testing_open_on(&crash->disk.disk, &crash->storage, &error))
        fail_msg("%s", error.text);
    crash->disk.between = crash_meanwhile;
}

static void crash_end(struct crash *crash)
{
    uint64_t kept[MODEL_PARTITIONS];

    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
        assert_int_equal(storage_load_kept(crash->storage, p, &kept[p], NULL), ERROR_NONE);
    const bool is_clean = random_below(&crash->random, 4) == 0;
    crash->disk.between = NULL;
    if (is_clean)
        storage_close(crash->storage);
    else
        diskwheel_storage_crash(crash->storage);
    disk_memory_cut(crash->memory);
    disk_memory_fail(crash->memory, 0, 0, 0);
    crash_open(crash);
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_place place;

        if (crash->was_cleared[p]) {
            crash_clear(crash, p);
            crash->was_cleared[p] = false;
            continue;
        }
        assert_int_equal(storage_load_place(crash->storage, p, &place, NULL), ERROR_NONE);
        assert_true(place.next >= kept[p]); /* what was said to be durable is */
    }
    testing_bodies_assert_place(crash->log, crash->storage);
    assert_int_equal(testing_bodies_follow(crash->log, crash->storage), ERROR_NONE);
}

static void test_power_cuts_and_failing_calls(void **state)
{
    const uint64_t seed = testing_seed();
    struct crash *crash = calloc(1, sizeof(*crash));

    (void)state;
    assert_non_null(crash);
    crash->random = random_seeded(seed);
    crash->memory = disk_memory_create(seed);
    crash->log = testing_bodies_create(seed ^ 1);
    testing_disk_init(&crash->disk, &crash->memory->disk);
    crash->disk.context = crash;
    crash_open(crash);
    for (int round = 0; round < CRASH_ROUNDS && crash->log->count < TESTING_BODIES / 2; round++) {
        crash_work(crash);
        crash_end(crash);
        model_assert_equal(crash->log->model, crash->storage, &crash->random);
    }
    print_message("%" PRIu64 " bodies, %" PRIu64 " flushes, %" PRIu64 " failed, %" PRIu64
                  " commits meanwhile\n",
                  crash->log->count, crash->flushed, crash->failed, crash->meanwhile);
    assert_true(crash->flushed > 0 && crash->failed > 0 && crash->meanwhile > 0);
    crash->disk.between = NULL;
    storage_close(crash->storage);
    testing_bodies_free(crash->log);
    free(crash->memory);
    free(crash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_power_cuts_and_failing_calls)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
