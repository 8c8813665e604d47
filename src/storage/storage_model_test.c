/* Goal: any sequence of commits leaves every backend with what the contract says. Method: random
 * commits to the backend and to a flat array (storage_model.h); all that can be asked is asked of
 * both. The memory backend also crashes, losing held commits; RocksDB is reopened, flushed and
 * compacted. */
#include "storage/rocksdb_store.h"
#include "storage/storage_model.h"

static void commit_next(struct model *model, struct storage *storage)
{
    struct model_commit commit;

    model_next(model, &commit);
    struct error error;
    if (storage_commit(storage, commit.pointers, commit.count, &error))
        fail_msg("%s", error.text);
    model_commit_deinit(&commit);
}

static void test_memory(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));

    (void)state;
    assert_non_null(model);
    for (int run = 0; run < 10; run++) {
        struct storage *storage = memory_storage_create(MODEL_PARTITIONS);

        assert_non_null(storage);
        model_init(model, seed + (uint64_t)run);
        for (int i = 0; i < 150; i++) {
            commit_next(model, storage);
            memory_storage_check(storage);
            if (i % 5 == 0)
                model_assert_equal(model, storage, &random);
        }
        model_assert_equal(model, storage, &random);
        model_deinit(model);
        storage_close(storage);
    }
    free(model);
}

/* After a crash the storage is what it was after some commit, the last synced or a later one. */
static void test_memory_crashes(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct storage *storage = memory_storage_create(MODEL_PARTITIONS);
    struct model *model = calloc(1, sizeof(*model));

    (void)state;
    assert_non_null(storage);
    assert_non_null(model);
    memory_storage_hold(storage);
    model_init(model, seed);
    for (int round = 0; round < 60; round++) {
        size_t held = (size_t)random_below(&random, 8), kept = (size_t)random_below(&random, 10);

        for (size_t i = (size_t)random_below(&random, 4); i > 0; i--)
            commit_next(model, storage);
        memory_storage_sync(storage);
        assert_int_equal(memory_storage_held(storage), 0);
        uint64_t durable = model->commit_count;
        for (size_t i = 0; i < held; i++)
            commit_next(model, storage);
        assert_int_equal(memory_storage_held(storage), held);
        model_assert_equal(model, storage, &random); /* held commits can be read */
        memory_storage_crash(storage, kept);
        assert_int_equal(memory_storage_held(storage), 0);
        model_deinit(model);
        model_replay(model, seed, durable + (kept < held ? kept : held));
        model_assert_equal(model, storage, &random);
        memory_storage_check(storage);
    }
    model_deinit(model);
    free(model);
    storage_close(storage);
}

/* Everything out of the memtables, and through the compaction filters. */
static void model_compact(struct storage *storage)
{
    struct rocksdb_store *store = store_of(storage);

    testing_settle(storage);
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        rocksdb_compact_range_cf(store->db, store->tables[i], NULL, 0, NULL, 0);
}

static void test_rocksdb(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));

    (void)state;
    assert_non_null(model);
    struct testing_folder folder;
    testing_folder_make(&folder);
    struct rocksdb_options options = testing_options(&folder, MODEL_PARTITIONS);
    options.sync = ROCKSDB_SYNC_NEVER;
    struct storage *storage = testing_open(&options);
    model_init(model, seed);
    for (int i = 0; i < 250; i++) {
        commit_next(model, storage);
        if (random_below(&random, 20) == 0)
            model_compact(storage);
        if (random_below(&random, 20) == 0) {
            storage_close(storage);
            storage = testing_open(&options);
        }
        if (i % 5 == 0)
            model_assert_equal(model, storage, &random);
    }
    model_assert_equal(model, storage, &random);
    model_deinit(model);
    free(model);
    storage_close(storage);
    testing_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_crashes),
        cmocka_unit_test(test_rocksdb),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
