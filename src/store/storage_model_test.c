/* Goal: any sequence of commits leaves every backend with what the contract says. Method: random
 * commits to the backend and to a flat array (storage_model.h); all that can be asked is asked of
 * both. The memory backend also crashes, losing held commits; the wheel is flushed, opened again,
 * and crashes. */
#include "store/check_testing.h"
#include "store/wheel/diskwheel_store.h"
#include "store/storage_model.h"
#include "store/wheel/diskwheel_check.h"

static void commit_next(struct model *model, struct storage *storage)
{
    struct model_commit commit;

    model_next(model, &commit);
    struct error error;
    if (storage_write(storage, commit.pointers, commit.count, &error))
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

/* After a crash the storage is what it was after some commit, the last synced or a later one. Each
 * body of a commit is held for itself, so the crash keeps all bodies of the commits that it keeps.
 */
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
        const size_t held = (size_t)random_below(&random, 8);
        const size_t kept = (size_t)random_below(&random, held + 1);
        size_t kept_bodies = 0;

        for (size_t i = (size_t)random_below(&random, 4); i > 0; i--)
            commit_next(model, storage);
        memory_storage_sync(storage);
        assert_int_equal(memory_storage_held(storage), 0);
        uint64_t durable = model->commit_count;
        for (size_t i = 0; i < held; i++) {
            commit_next(model, storage);
            if (i < kept)
                kept_bodies = memory_storage_held(storage);
        }
        assert_true(memory_storage_held(storage) >= held);
        model_assert_equal(model, storage, &random); /* held commits can be read */
        memory_storage_crash(storage, kept_bodies);
        assert_int_equal(memory_storage_held(storage), 0);
        model_deinit(model);
        model_replay(model, seed, durable + kept);
        model_assert_equal(model, storage, &random);
        memory_storage_check(storage);
    }
    model_deinit(model);
    free(model);
    storage_close(storage);
}

/* ---- storages that follow a log ---- */

enum { FOLLOWERS = 3, BODIES_MAX = 400 * MODEL_BATCHES_MAX };

struct model_log {
    struct {
        struct buffer body;
        uint16_t partition;
    } records[BODIES_MAX];
    uint64_t count;
};

static struct storage_place place_of(uint64_t offset)
{
    return (struct storage_place){.next = offset + 1,
                                  .epoch = 1 + offset / 9,
                                  .seq = offset % 9,
                                  .incarnation = 77,
                                  .node = 2};
}

/* Applies what the storage lacks, and often more: records that it has, and those of a crash. */
static void model_follow(struct storage *storage, const struct model_log *log)
{
    for (uint64_t i = 0; i < log->count; i++) {
        const uint16_t partition = log->records[i].partition;
        const struct storage_place place = place_of(i);
        struct storage_place before, after;

        assert_int_equal(storage_load_place(storage, partition, &before, NULL), ERROR_NONE);
        assert_int_equal(
            storage_apply(storage, partition, buffer_bytes(&log->records[i].body), &place, NULL),
            ERROR_NONE);
        assert_int_equal(storage_load_place(storage, partition, &after, NULL), ERROR_NONE);
        const struct storage_place *expected = before.next > i ? &before : &place;
        assert_true(after.next == expected->next && after.epoch == expected->epoch &&
                    after.seq == expected->seq && after.incarnation == 77 && after.node == 2);
    }
}

/* Batches of one partition that follow on each other become one body. */
static void model_log_commit(struct model *model, struct storage *owner, struct model_log *log)
{
    struct model_commit commit;

    model_next(model, &commit);
    for (size_t begin = 0, end; begin < commit.count; begin = end) {
        const uint16_t partition = commit.batches[begin].partition;
        struct buffer *body = &log->records[log->count].body;

        for (end = begin + 1; end < commit.count && commit.batches[end].partition == partition;)
            end++;
        assert_true(log->count < BODIES_MAX);
        buffer_init(body);
        assert_int_equal(storage_prepare(owner, commit.pointers + begin, end - begin, body, NULL),
                         ERROR_NONE);
        log->records[log->count].partition = partition;
        const struct storage_place place = place_of(log->count++);
        assert_int_equal(storage_apply(owner, partition, buffer_bytes(body), &place, NULL),
                         ERROR_NONE);
    }
    model_commit_deinit(&commit);
}

/* A body that is damaged or of another partition is refused, and changes nothing. */
static void assert_refuses(struct storage *storage, struct buffer *body, uint16_t partition,
                           struct random *random)
{
    const struct storage_place place = place_of(UINT64_MAX / 2);
    const size_t at = (size_t)random_below(random, body->size);
    const uint16_t other = (uint16_t)((partition + 1) % MODEL_PARTITIONS);

    assert_int_equal(storage_apply(storage, other, buffer_bytes(body), &place, NULL),
                     ERROR_CORRUPT);
    body->data[at] ^= 4;
    assert_int_equal(storage_apply(storage, partition, buffer_bytes(body), &place, NULL),
                     ERROR_CORRUPT);
    body->data[at] ^= 4;
}

/* An empty body moves the place. */
static void assert_follows(struct storage *storage, const struct model_log *log)
{
    const uint16_t partition = log->records[log->count - 1].partition;
    struct storage_place place;

    assert_int_equal(storage_load_place(storage, partition, &place, NULL), ERROR_NONE);
    place.seq = 123;
    place.next++;
    assert_int_equal(storage_apply(storage, partition, (struct bytes){0}, &place, NULL),
                     ERROR_NONE);
    assert_int_equal(storage_load_place(storage, partition, &place, NULL), ERROR_NONE);
    assert_true(place.next == log->count + 1 && place.seq == 123);
}

/* Everything out of memory, and through what rewrites files. */
static void follower_flush(struct storage *storage)
{
    assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
}

/* In memory, and one on disk, which is opened again, or flushed, or crashes. */
struct follower {
    struct storage *storage;
    struct testing_folder folder; /* path empty: in memory */
};

static void follower_open(struct follower *follower)
{
    struct diskwheel_options options = testing_options(&follower->folder, MODEL_PARTITIONS);

    options.cluster = TESTING_CLUSTER;
    follower->storage =
        testing_open_backend(*follower->folder.path ? TESTING_WHEEL : TESTING_MEMORY, &options);
    assert_non_null(follower->storage);
    if (!*follower->folder.path)
        memory_storage_hold(follower->storage);
}

static void follower_crash(struct follower *follower, struct random *random)
{
    if (!*follower->folder.path) {
        memory_storage_crash(follower->storage, (size_t)random_below(random, 9));
        memory_storage_check(follower->storage);
    } else if (random_below(random, 2)) {
        follower_flush(follower->storage);
    } else {
        if (random_below(random, 2))
            diskwheel_storage_crash(follower->storage);
        else
            storage_close(follower->storage);
        follower_open(follower);
    }
}

/* The owner changes, and each follower has what the owner has; a crash only puts it behind. */
static void test_followers(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));
    struct model_log *log = calloc(1, sizeof(*log));
    struct follower followers[FOLLOWERS] = {{.storage = NULL}};

    (void)state;
    assert_non_null(model);
    assert_non_null(log);
    testing_folder_make(&followers[0].folder);
    for (size_t i = 0; i < FOLLOWERS; i++)
        follower_open(&followers[i]);
    model_init(model, seed);
    for (int i = 0; i < 150; i++) {
        struct follower *one = &followers[random_below(&random, FOLLOWERS)];

        model_follow(one->storage, log);
        model_log_commit(model, one->storage, log);
        assert_refuses(one->storage, &log->records[log->count - 1].body,
                       log->records[log->count - 1].partition, &random);
        one = &followers[random_below(&random, FOLLOWERS)];
        follower_crash(one, &random);
        if (i % 5 != 0)
            continue;
        model_follow(one->storage, log);
        model_assert_equal(model, one->storage, &random);
    }
    for (size_t i = 0; i < FOLLOWERS; i++) {
        model_follow(followers[i].storage, log);
        model_assert_equal(model, followers[i].storage, &random);
        assert_follows(followers[i].storage, log);
        storage_close(followers[i].storage);
    }
    testing_folder_remove(&followers[0].folder);
    for (uint64_t i = 0; i < log->count; i++)
        buffer_deinit(&log->records[i].body);
    model_deinit(model);
    free(model);
    free(log);
}

/* ---- exports ---- */

/* Appends the next part of a copy, which is taken with nothing in flight, as the log needs it. */
static void model_log_export(struct storage *owner, struct storage_export *export,
                             struct model_log *log, struct random *random)
{
    struct buffer *body = &log->records[log->count].body;

    assert_true(log->count < BODIES_MAX);
    export->rows_max = 1 + (size_t)random_below(random, 12);
    export->bytes_max = 1 + (size_t)random_below(random, 3000);
    buffer_init(body);
    assert_int_equal(storage_export(owner, export, body, NULL), ERROR_NONE);
    if (body->size)
        log->records[log->count++].partition = export->partition;
    else
        buffer_deinit(body); /* it was begun, and taken back */
}

/* Changes, and parts of copies of all partitions, in any order. Answers the place of the first
 * part. */
static uint64_t model_log_exports(struct model *model, struct storage *owner, struct model_log *log,
                                  struct random *random)
{
    struct storage_export exports[MODEL_PARTITIONS] = {
        {.partition = 0}, {.partition = 1}, {.partition = 2}};
    const uint64_t begin = log->count;
    const uint64_t commits = random_below(random, 11);
    bool is_done = false;

    while (!is_done) {
        is_done = true;
        for (size_t p = 0; p < MODEL_PARTITIONS; p++) {
            if (!exports[p].is_done && random_below(random, 2))
                model_log_export(owner, &exports[p], log, random);
            is_done = is_done && exports[p].is_done;
        }
        if (random_below(random, 10) < commits && log->count < BODIES_MAX - 300)
            model_log_commit(model, owner, log);
    }
    return begin;
}

static void model_apply_from(struct storage *storage, const struct model_log *log, uint64_t begin)
{
    for (uint64_t i = begin; i < log->count; i++) {
        const struct storage_place place = place_of(i);

        assert_int_equal(storage_apply(storage, log->records[i].partition,
                                       buffer_bytes(&log->records[i].body), &place, NULL),
                         ERROR_NONE);
    }
}

/* A storage that lacks what is in front of the copy is emptied, and becomes what the owner is. */
static void assert_export_is_whole(struct model *model, struct follower *follower,
                                   const struct model_log *log, uint64_t begin,
                                   struct random *random)
{
    const struct storage_place place = {.next = begin, .epoch = 4, .sweep_end = begin + 1};

    model_apply_from(follower->storage, log, random_below(random, begin + 1));
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_place back;

        assert_int_equal(storage_partition_clear(follower->storage, p, &place, NULL), ERROR_NONE);
        assert_int_equal(storage_load_place(follower->storage, p, &back, NULL), ERROR_NONE);
        assert_true(back.next == begin && back.sweep_end == place.sweep_end);
    }
    if (*follower->folder.path)
        follower_crash(follower, random);
    else
        memory_storage_crash(follower->storage, (size_t)random_below(random, 9));
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) /* a crash may have taken it back */
        assert_int_equal(storage_partition_clear(follower->storage, p, &place, NULL), ERROR_NONE);
    model_apply_from(follower->storage, log, begin);
    model_assert_equal(model, follower->storage, random);
}

static void model_clear_all(const struct follower *followers)
{
    for (size_t i = 0; i < 4 * MODEL_PARTITIONS; i++)
        assert_int_equal(storage_partition_clear(followers[i % 4].storage, (uint16_t)(i / 4),
                                                 &(struct storage_place){.next = 0}, NULL),
                         ERROR_NONE);
}

/* Emptied partitions are as new ones: a log is begun with them. */
static void assert_clear_is_new(struct model *model, const struct follower *followers,
                                struct model_log *log, struct random *random)
{
    model_clear_all(followers);
    for (size_t i = 0; i < 4; i++)
        model_assert_equal(model, followers[i].storage, random);
    for (int i = 0; i < 4; i++)
        model_log_commit(model, followers[0].storage, log);
    for (size_t i = 0; i < 4; i++) {
        model_apply_from(followers[i].storage, log, 0);
        model_assert_equal(model, followers[i].storage, random);
    }
}

static void test_exports(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));
    struct model_log *log = calloc(1, sizeof(*log));
    struct follower followers[4] = {{.storage = NULL}}; /* two on disk, two in memory */

    (void)state;
    assert_non_null(model);
    assert_non_null(log);
    testing_folder_make(&followers[0].folder);
    testing_folder_make(&followers[1].folder);
    for (int run = 0; run < 12; run++) {
        for (size_t i = 0; i < 4; i++)
            follower_open(&followers[i]);
        struct storage *owner = followers[run % 2 ? 1 : 3].storage;
        model_init(model, seed + (uint64_t)run);
        for (uint64_t i = random_below(&random, 60); i > 0; i--)
            model_log_commit(model, owner, log);
        const uint64_t begin = model_log_exports(model, owner, log, &random);
        assert_export_is_whole(model, &followers[0], log, begin, &random);
        assert_export_is_whole(model, &followers[2], log, begin, &random);
        if (run % 2 == 0) /* a store on disk keeps names of trimmed rows until it rewrites them */
            memory_storage_check(followers[2].storage);
        while (log->count)
            buffer_deinit(&log->records[--log->count].body);
        model_deinit(model);
        model_init(model, seed);
        assert_clear_is_new(model, followers, log, &random);
        model_clear_all(followers);
        for (size_t i = 0; i < 4; i++)
            storage_close(followers[i].storage);
        while (log->count)
            buffer_deinit(&log->records[--log->count].body);
        model_deinit(model);
    }
    testing_folder_remove(&followers[0].folder);
    testing_folder_remove(&followers[1].folder);
    free(model);
    free(log);
}

/* ---- copies ---- */

/* The next part of a copy goes to both receivers. The giver need not be the one of the part before;
 * the cursor says all that it must know. A part of an earlier place is not taken. */
static void model_copy_part(struct storage *giver, struct storage_export *export,
                            struct storage *receivers[2], struct storage_place *at,
                            struct random *random)
{
    struct storage_export own = {.partition = export->partition};
    struct buffer body;
    uint8_t table;
    const struct bytes key = storage_export_cursor(export, &table);

    assert_true(storage_export_seek(&own, table, key));
    own.rows_max = 1 + (size_t)random_below(random, 12);
    own.bytes_max = 1 + (size_t)random_below(random, 3000);
    buffer_init(&body);
    assert_int_equal(storage_export(giver, &own, &body, NULL), ERROR_NONE);
    if (own.place.next < at->copy_end) {
        buffer_deinit(&body);
        return;
    }
    if (!at->next)
        *at = own.place;
    at->copy_end = own.place.next;
    struct storage_place place = *at;
    for (size_t i = 0; i < 2; i++) {
        place.copy_end = STORAGE_COPYING;
        if (table == 0 && key.size == 0)
            assert_int_equal(storage_partition_clear(receivers[i], export->partition, &place, NULL),
                             ERROR_NONE);
        assert_int_equal(
            storage_apply(receivers[i], export->partition, buffer_bytes(&body), &place, NULL),
            ERROR_NONE);
        if (own.is_done)
            assert_int_equal(
                storage_apply(receivers[i], export->partition, (struct bytes){0}, at, NULL),
                ERROR_NONE);
    }
    *export = own;
    buffer_deinit(&body);
}

/* Copies the partition from either of two givers, of which the second one follows late, as changes
 * go on. Then the receivers read the log from the place of the first part on. */
static void model_copy(struct model *model, struct storage *const givers[2],
                       struct storage *receivers[2], struct model_log *log, uint16_t partition,
                       struct random *random)
{
    const uint64_t commits = random_below(random, 11);
    struct storage_export export = {.partition = partition};
    struct storage_place at = {0};

    model_follow(givers[1], log);
    assert_int_equal(storage_load_place(givers[0], partition, &at, NULL), ERROR_NONE);
    if (!at.next)
        return; /* it was never changed */
    at = (struct storage_place){0};
    while (!export.is_done) {
        model_copy_part(givers[random_below(random, 2)], &export, receivers, &at, random);
        if (random_below(random, 10) < commits && log->count < BODIES_MAX - 300)
            model_log_commit(model, givers[0], log);
        if (random_below(random, 10) == 0)
            model_follow(givers[1], log);
    }
    assert_true(at.copy_end >= at.next && at.copy_end <= log->count);
    for (uint64_t i = at.next; i < log->count; i++) {
        const struct storage_place place = place_of(i);

        for (size_t j = 0; j < 2 && log->records[i].partition == partition; j++)
            assert_int_equal(storage_apply(receivers[j], partition,
                                           buffer_bytes(&log->records[i].body), &place, NULL),
                             ERROR_NONE);
    }
}

/* Parts of a copy that were made as the log went on, and the log from the first one on, make of any
 * partition what the owner has. */
static void test_copies(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));
    struct model_log *log = calloc(1, sizeof(*log));
    struct follower followers[4] = {{.storage = NULL}}; /* two on disk, two in memory */

    (void)state;
    assert_non_null(model);
    assert_non_null(log);
    testing_folder_make(&followers[0].folder);
    testing_folder_make(&followers[1].folder);
    for (int run = 0; run < 12; run++) {
        for (size_t i = 0; i < 4; i++)
            follower_open(&followers[i]);
        struct storage *const givers[2] = {followers[run % 3 ? 3 : 1].storage,
                                           followers[run % 3 == 1 ? 1 : 3].storage};
        struct storage *receivers[2] = {followers[0].storage, followers[2].storage};
        model_init(model, seed + (uint64_t)run);
        for (uint64_t i = random_below(&random, 60); i > 0; i--)
            model_log_commit(model, givers[0], log);
        if (log->count) /* the rows of a copy before, which is too old */
            model_apply_from(receivers[run % 2], log, random_below(&random, log->count));
        for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
            model_copy(model, givers, receivers, log, p, &random);
        for (size_t i = 0; i < 2; i++) {
            model_follow(receivers[i], log);
            if (i == 0 && random_below(&random, 2))
                follower_flush(receivers[i]);
            model_assert_equal(model, receivers[i], &random);
        }
        if (run % 3 == 2) /* a store on disk keeps names of trimmed rows until it rewrites them */
            memory_storage_check(receivers[1]);
        model_clear_all(followers);
        for (size_t i = 0; i < 4; i++)
            storage_close(followers[i].storage);
        while (log->count)
            buffer_deinit(&log->records[--log->count].body);
        model_deinit(model);
    }
    testing_folder_remove(&followers[0].folder);
    testing_folder_remove(&followers[1].folder);
    free(model);
    free(log);
}

/* Every file of the folder is readable, and it is marked as complete. */
static void model_check_folder(const struct testing_folder *folder)
{
    struct storage_check check = {.told = NULL};
    struct error error;

    assert_int_equal(testing_check(folder->path, &check, &error), ERROR_NONE);
    assert_int_equal(check.blocks_unread, 0); /* the model's metas are of no engine */
    assert_true(check.was_closed);
    storage_check_deinit(&check);
}

/* A backup is what the storage is, passes a check, and can take its place. Returns the storage to
 * go on with, whose folder is `folder` then. */
static struct storage *model_back_up(struct model *model, struct storage *storage,
                                     struct testing_folder *folder, struct random *random)
{
    struct testing_folder copy = *folder;
    struct diskwheel_options options = testing_options(&copy, MODEL_PARTITIONS);
    struct storage_backup backup;
    struct error error;

    const size_t size = strlen(copy.path);
    assert_true(size + 2 < sizeof(copy.path));
    snprintf(copy.path + size, sizeof(copy.path) - size, "%c",
             copy.path[size - 1] == '+' ? '-' : '+');
    if (storage_backup(storage, copy.path, &backup, &error))
        fail_msg("%s", error.text);
    model_check_folder(&copy);
    options.cluster = TESTING_CLUSTER;
    struct storage *second = testing_open(&options);
    model_assert_equal(model, second, random);
    const bool goes_on = random_below(random, 2);
    storage_close(goes_on ? storage : second);
    testing_folder_remove(goes_on ? folder : &copy);
    if (!goes_on)
        return storage;
    *folder = copy;
    return second;
}

static void test_on_disk(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));

    (void)state;
    assert_non_null(model);
    struct testing_folder folder;
    testing_folder_make(&folder);
    struct diskwheel_options options = testing_options(&folder, MODEL_PARTITIONS);
    options.cluster = TESTING_CLUSTER;
    struct storage *storage = testing_open(&options);
    model_init(model, seed);
    for (int i = 0; i < 250; i++) {
        commit_next(model, storage);
        if (random_below(&random, 20) == 0)
            follower_flush(storage);
        if (random_below(&random, 20) == 0) {
            storage_close(storage);
            storage = testing_open(&options);
        }
        if (i % 30 == 29)
            storage = model_back_up(model, storage, &folder, &random);
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
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_memory_crashes),
        cmocka_unit_test(test_followers), cmocka_unit_test(test_exports),
        cmocka_unit_test(test_copies),    cmocka_unit_test(test_on_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
