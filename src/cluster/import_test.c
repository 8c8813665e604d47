/* Goal: the log that an import makes gives an empty replica all that the folder has, and the next
 * owner a higher epoch; an import makes equal records each time; a part of one serves nothing; of
 * copies that followed another log, the furthest whole one is taken. Method: random timers of
 * storage_model.h in memory, and replicas that read the records. */
#include "cluster/import.h"
#include "cluster/import_choice.h"
#include "cluster/replica.h"
#include "store/storage_model.h"

#define IMPORT_CLUSTER UINT64_C(9)

enum { IMPORT_RECORDS_MAX = 100, IMPORT_COMMITS = 60, IMPORT_LEASE_MS = 1000, IMPORT_COPIES = 3 };

struct import_log {
    struct buffer records[IMPORT_RECORDS_MAX];
    size_t count;
    uint64_t live, live_counted;
};

/* What the folders have of the partition, and the choice. */
static struct import_choice import_choose_of(struct storage *const *storages, size_t count,
                                             uint16_t partition)
{
    struct import_copy copies[IMPORT_COPIES];
    struct import_choice choice;

    for (size_t i = 0; i < count; i++) {
        struct storage_meta meta;

        assert_int_equal(storage_load_meta(storages[i], partition, &meta, NULL), ERROR_NONE);
        assert_int_equal(storage_load_place(storages[i], partition, &copies[i].place, NULL),
                         ERROR_NONE);
        copies[i].epoch = meta.epoch;
    }
    import_choose(copies, count, &choice);
    assert_true(choice.stranger == IMPORT_NO_COPY);
    return choice;
}

static void import_log_fill_from(struct import_log *log, struct storage *storage,
                                 uint16_t partition, uint64_t epoch)
{
    struct import *import;

    *log = (struct import_log){.count = 0};
    assert_int_equal(import_open(storage, partition, IMPORT_CLUSTER, epoch, &import, NULL),
                     ERROR_NONE);
    for (;;) {
        assert_int_equal(import_next(import, NULL), ERROR_NONE);
        if (!import_frame(import).size)
            break;
        assert_true(log->count < IMPORT_RECORDS_MAX);
        for (size_t i = 0; i < log->count; i++)
            assert_true(import_is_repeat(import, buffer_bytes(&log->records[i])));
        assert_false(import_is_repeat(import, import_frame(import)));
        buffer_init(&log->records[log->count]);
        buffer_append_bytes(&log->records[log->count++], import_frame(import));
    }
    log->live = import_live(import);
    log->live_counted = import_live_counted(import);
    import_close(import);
}

static void import_log_fill(struct import_log *log, struct storage *storage, uint16_t partition)
{
    import_log_fill_from(log, storage, partition, import_choose_of(&storage, 1, partition).epoch);
}

static void import_log_clear(struct import_log *log)
{
    for (size_t i = 0; i < log->count; i++)
        buffer_deinit(&log->records[i]);
    log->count = 0;
}

/* ---- a reader ---- */

struct import_reader {
    struct replica *replica;
    struct frame claim; /* the last record that it appended */
};

static void import_on_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct import_reader *reader = context;

    (void)ticket;
    assert_int_equal(frame_decode(bytes, IMPORT_CLUSTER, &reader->claim, NULL), ERROR_NONE);
}

static struct instant import_now(uint64_t ms)
{
    return (struct instant){UINT64_C(5000000000) + 1000000 * ms};
}

static void import_reader_open(struct import_reader *reader, struct storage *storage,
                               uint16_t partition)
{
    const struct replica_options options = {.node = 4,
                                            .partition = partition,
                                            .cluster = IMPORT_CLUSTER,
                                            .lease_ms = IMPORT_LEASE_MS,
                                            .storage = storage};
    const struct replica_events events = {.context = reader, .append = import_on_append};

    *reader = (struct import_reader){.replica = NULL};
    assert_int_equal(replica_create(&options, &events, import_now(0), &reader->replica, NULL),
                     ERROR_NONE);
}

/* Reads the first records, and that there are no more. */
static void import_reader_read(struct import_reader *reader, const struct import_log *log,
                               size_t count)
{
    struct replica *replica = reader->replica;

    for (int i = 0; i < 2; i++) {
        replica_take_rewind(replica);
        while (replica_next(replica) < count && !replica_is_failing(replica))
            replica_read(replica, replica_next(replica),
                         buffer_bytes(&log->records[replica_next(replica)]), import_now(0));
        replica_turn(replica, import_now(0), (struct wall){1});
    }
    replica_restored(replica);
    replica_turn(replica, import_now(0), (struct wall){1});
}

static void import_reader_close(struct import_reader *reader)
{
    replica_stop(reader->replica);
    replica_destroy(reader->replica);
}

/* ---- tests ---- */

/* Makes `place` the place of a partition that is new or is being copied. */
static void import_move(struct storage *storage, uint16_t partition, struct storage_place place)
{
    assert_int_equal(storage_apply(storage, partition, (struct bytes){0}, &place, NULL),
                     ERROR_NONE);
}

/* Writes as a single node did, whose timers have no place: like a copy that is not finished. */
static void import_write(struct storage *storage, struct storage_batch *const *batches,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        import_move(storage, batches[i]->partition,
                    (struct storage_place){.next = 1, .copy_end = STORAGE_COPYING});
    assert_int_equal(storage_write(storage, batches, count, NULL), ERROR_NONE);
    for (size_t i = 0; i < count; i++)
        import_move(storage, batches[i]->partition, (struct storage_place){.next = 0});
}

static struct storage *import_make(struct model *model, uint64_t seed)
{
    struct storage *storage = memory_storage_create(MODEL_PARTITIONS);

    assert_non_null(storage);
    model_init(model, seed);
    for (int i = 0; i < IMPORT_COMMITS; i++) {
        struct model_commit commit;

        model_next(model, &commit);
        import_write(storage, commit.pointers, commit.count);
        model_commit_deinit(&commit);
    }
    return storage;
}

static void assert_next_owner(struct import_reader *reader, uint64_t epoch)
{
    assert_int_equal(replica_state(reader->replica), OWNERSHIP_STANDBY);
    assert_true(replica_is_whole(reader->replica));
    replica_plan(reader->replica, 4, import_now(10));
    replica_turn(reader->replica, import_now(10), (struct wall){1});
    assert_true(reader->claim.kind == FRAME_CLAIM && reader->claim.epoch == epoch);
}

static void test_an_import(void **state)
{
    const uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));
    struct storage *copy = memory_storage_create(MODEL_PARTITIONS);

    (void)state;
    assert_non_null(model);
    assert_non_null(copy);
    struct storage *storage = import_make(model, seed);
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct import_log log, again;
        struct import_reader reader;

        import_log_fill(&log, storage, p);
        import_log_fill(&again, storage, p);
        assert_int_equal(log.count, again.count);
        for (size_t i = 0; i < log.count; i++)
            assert_true(
                bytes_equal(buffer_bytes(&log.records[i]), buffer_bytes(&again.records[i])));
        assert_true(log.live == log.live_counted && log.live == model->metas[p].pending);
        for (size_t part = 1; part < log.count; part++) {
            import_reader_open(&reader, copy, p);
            import_reader_read(&reader, &log, part);
            assert_true(part + 1 >= log.count || /* all but the release */
                        replica_state(reader.replica) == OWNERSHIP_RESTORING);
            import_reader_close(&reader);
        }
        import_reader_open(&reader, copy, p);
        import_reader_read(&reader, &log, log.count);
        assert_next_owner(&reader, model->metas[p].epoch + 1);
        import_reader_close(&reader);
        import_log_clear(&log);
        import_log_clear(&again);
    }
    model_assert_equal(model, copy, &random);
    memory_storage_check(copy);
    storage_close(copy);
    storage_close(storage);
    model_deinit(model);
    free(model);
}

/* Applies a batch to the copies of a cluster; a copy that stays behind does not get it. */
static void import_apply(struct storage *const *copies, size_t count,
                         struct storage_batch *const *batch, uint64_t next)
{
    const struct storage_place place = {.next = next, .epoch = 4, .seq = next, .node = 1};
    const uint16_t partition = batch[0]->partition;
    struct buffer body;

    buffer_init(&body);
    assert_int_equal(storage_prepare(copies[0], batch, 1, &body, NULL), ERROR_NONE);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(storage_apply(copies[i], partition, buffer_bytes(&body), &place, NULL),
                         ERROR_NONE);
    buffer_deinit(&body);
}

/* The owner, a copy that stayed behind, and a part that had read as far as the owner. */
static void import_copies_make(struct storage **ret_copies, struct model *model, uint64_t seed)
{
    const struct storage_place part = {
        .next = 1000, .epoch = 9, .seq = 1000, .node = 1, .sweep_end = 10};
    uint64_t next = 1;

    for (size_t i = 0; i < IMPORT_COPIES; i++) {
        ret_copies[i] = memory_storage_create(MODEL_PARTITIONS);
        assert_non_null(ret_copies[i]);
    }
    model_init(model, seed);
    for (int i = 0; i < IMPORT_COMMITS; i++) {
        const size_t count = i < IMPORT_COMMITS / 2 ? 2 : 1;
        struct model_commit commit;

        model_next(model, &commit);
        for (size_t batch = 0; batch < commit.count; batch++)
            import_apply(ret_copies, count, &commit.pointers[batch], next++);
        model_commit_deinit(&commit);
    }
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
        assert_int_equal(storage_partition_clear(ret_copies[2], p, &part, NULL), ERROR_NONE);
}

static void test_copies_of_a_cluster(void **state)
{
    const uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));
    struct storage *copy = memory_storage_create(MODEL_PARTITIONS), *copies[IMPORT_COPIES];

    (void)state;
    assert_true(model && copy);
    import_copies_make(copies, model, seed);
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage *const shuffled[] = {copies[1], copies[2], copies[0]};
        const struct import_choice choice = import_choose_of(shuffled, IMPORT_COPIES, p);
        struct import_log log;
        struct import_reader reader;

        assert_true(choice.taken == 2 && choice.further == 1);
        import_log_fill_from(&log, shuffled[choice.taken], p, choice.epoch);
        assert_true(log.live == log.live_counted && log.live == model->metas[p].pending);
        import_reader_open(&reader, copy, p);
        import_reader_read(&reader, &log, log.count);
        assert_next_owner(&reader, choice.epoch + 1);
        assert_true(choice.epoch > 9 && choice.epoch > model->metas[p].epoch);
        import_reader_close(&reader);
        import_log_clear(&log);
    }
    model_assert_equal(model, copy, &random);
    for (size_t i = 0; i < IMPORT_COPIES; i++)
        storage_close(copies[i]);
    storage_close(copy);
    model_deinit(model);
    free(model);
}

/* Another change of the folder makes other records. */
static void test_a_changed_folder(void **state)
{
    struct model *model = calloc(1, sizeof(*model));
    struct storage *storage;
    struct import_log before, after;
    struct model_commit commit;

    (void)state;
    assert_non_null(model);
    storage = import_make(model, testing_seed());
    import_log_fill(&before, storage, 0);
    do {
        model_next(model, &commit);
        import_write(storage, commit.pointers, commit.count);
        model_commit_deinit(&commit);
    } while (commit.batches[0].partition != 0);
    import_log_fill(&after, storage, 0);
    assert_false(bytes_equal(buffer_bytes(&before.records[0]), buffer_bytes(&after.records[0])));
    import_log_clear(&before);
    import_log_clear(&after);
    storage_close(storage);
    model_deinit(model);
    free(model);
}

/* An empty folder gives an empty partition, and a row that is larger than a record several. */
static void test_import_sizes(void **state)
{
    struct storage *storage = memory_storage_create(1), *copy = memory_storage_create(1);
    char *payload = calloc(1, 2000000);
    struct import_log log;
    struct import_reader reader;

    (void)state;
    assert_true(storage && copy && payload);
    import_log_fill(&log, storage, 0);
    assert_true(log.count == 3 && log.live == 0); /* begin, end, release */
    import_log_clear(&log);
    memset(payload, 'p', 1999999);
    struct timer *timer =
        timer_alloc(&(struct timer_texts){.target = BYTES("log:"), .payload = bytes_of(payload)});
    assert_non_null(timer);
    timer->id = (struct timer_id){{1000}, 0, 7};
    timer->at = timer->due = (struct wall){1000};
    struct storage_write write = {.timer = timer};
    struct storage_batch batch = {.meta.epoch = 6, .writes = &write, .write_count = 1};
    struct storage_batch *const batches[] = {&batch};
    import_write(storage, batches, 1);
    import_log_fill(&log, storage, 0);
    assert_true(log.count >= 6 && log.live == 1);
    import_reader_open(&reader, copy, 0);
    import_reader_read(&reader, &log, log.count);
    assert_next_owner(&reader, 7);
    testing_assert_found(copy, timer, 1000);
    import_reader_close(&reader);
    import_log_clear(&log);
    timer_free(timer);
    free(payload);
    storage_close(copy);
    storage_close(storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_import),
        cmocka_unit_test(test_copies_of_a_cluster),
        cmocka_unit_test(test_a_changed_folder),
        cmocka_unit_test(test_import_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
