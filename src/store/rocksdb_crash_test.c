/* Goal: what a commit returned for is there after kill -9, whole, and what it did not return for is
 * there whole or not at all. Method: a child commits what storage_model.h makes of a seed and
 * reports each commit over a pipe; it is killed at a random moment; the folder must then hold the
 * model after the last reported commit or after the one that was under way. The next child goes on
 * from there.
 *
 * Another child follows a log, whose records an owner in memory makes of the seed. After the kill
 * the folder must hold the log up to its place, which may be older than what was applied. */
#include "store/storage_model.h"
#include "sys/clock.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

enum { ROUNDS = 25, FOLLOWER_ROUNDS = 12, REPORTS_MAX = 40, SPIN_NS_MAX = 3000000 };

/* ---- the child ---- */

static int be_child(char **arguments)
{
    struct testing_folder folder;
    uint64_t seed = strtoull(arguments[1], NULL, 10), count = strtoull(arguments[2], NULL, 10);
    struct model *model = calloc(1, sizeof(*model));

    snprintf(folder.path, sizeof(folder.path), "%s", arguments[0]);
    struct rocksdb_options options = testing_options(&folder, MODEL_PARTITIONS);
    struct storage *storage;
    if (!model || rocksdb_storage_open(&options, &storage, NULL))
        return 1;
    model_replay(model, seed, count);
    for (;;) {
        struct model_commit commit;
        model_next(model, &commit);
        if (storage_commit(storage, commit.pointers, commit.count, NULL) ||
            write(STDOUT_FILENO, &model->commit_count, 8) != 8)
            return 1;
        model_commit_deinit(&commit);
    }
}

/* ---- a child that follows a log ---- */

/* An owner in memory, which makes the records of the log one after the other. */
struct crash_owner {
    struct model *model;
    struct storage *storage;
    struct model_commit commit;
    size_t done; /* batches of the commit */
    struct buffer body;
    uint16_t partition; /* of the body */
    uint64_t next;      /* offset behind the body */
};

static void crash_owner_init(struct crash_owner *owner, uint64_t seed)
{
    *owner = (struct crash_owner){.model = calloc(1, sizeof(*owner->model)),
                                  .storage = memory_storage_create(MODEL_PARTITIONS)};
    assert_non_null(owner->model);
    assert_non_null(owner->storage);
    model_init(owner->model, seed);
    buffer_init(&owner->body);
}

static void crash_owner_deinit(struct crash_owner *owner)
{
    model_commit_deinit(&owner->commit);
    model_deinit(owner->model);
    free(owner->model);
    storage_close(owner->storage);
    buffer_deinit(&owner->body);
}

/* The next record: a batch. */
static struct storage_place crash_owner_append(struct crash_owner *owner)
{
    if (owner->done == owner->commit.count) {
        model_commit_deinit(&owner->commit);
        model_next(owner->model, &owner->commit);
        owner->done = 0;
    }
    struct storage_batch *const *batches = &owner->commit.pointers[owner->done++];
    const struct storage_place place = {.next = ++owner->next, .epoch = 3, .seq = owner->next};
    owner->partition = (*batches)->partition;
    buffer_clear(&owner->body);
    assert_int_equal(storage_prepare(owner->storage, batches, 1, &owner->body, NULL), ERROR_NONE);
    assert_int_equal(
        storage_apply(owner->storage, owner->partition, buffer_bytes(&owner->body), &place, NULL),
        ERROR_NONE);
    return place;
}

static int be_follower(char **arguments)
{
    struct testing_folder folder;
    struct crash_owner owner;

    snprintf(folder.path, sizeof(folder.path), "%s", arguments[0]);
    struct rocksdb_options options = testing_options(&folder, MODEL_PARTITIONS);
    options.cluster = TESTING_CLUSTER;
    struct storage *storage;
    if (rocksdb_storage_open(&options, &storage, NULL))
        return 1;
    crash_owner_init(&owner, strtoull(arguments[1], NULL, 10));
    const uint64_t count = strtoull(arguments[2], NULL, 10);
    for (;;) {
        const struct storage_place place = crash_owner_append(&owner);

        if (storage_apply(storage, owner.partition, buffer_bytes(&owner.body), &place, NULL))
            return 1;
        if (place.next > count && write(STDOUT_FILENO, &place.next, 8) != 8)
            return 1;
    }
}

/* ---- the parent ---- */

static pid_t start_child(const struct testing_folder *folder, uint64_t seed, uint64_t count,
                         const char *kind, int *ret_reports)
{
    char seed_text[32], count_text[32], path[] = "/proc/self/exe";
    char *const arguments[] = {path,       (char *)folder->path, seed_text,
                               count_text, (char *)kind,         NULL};

    snprintf(seed_text, sizeof(seed_text), "%" PRIu64, seed);
    snprintf(count_text, sizeof(count_text), "%" PRIu64, count);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&files, ends[0]);
    posix_spawn_file_actions_addclose(&files, ends[1]);
    pid_t child;
    assert_int_equal(posix_spawn(&child, path, &files, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    *ret_reports = ends[0];
    return child;
}

/* The next report, or 0 when there are no more. */
static uint64_t read_report(int reports)
{
    uint64_t count;
    ssize_t got;

    do
        got = read(reports, &count, sizeof(count));
    while (got < 0 && errno == EINTR);
    assert_true(got == sizeof(count) || got == 0);
    return got ? count : 0;
}

/* Runs a child from `count` on, kills it, and returns what it reported last. */
static uint64_t crash(const struct testing_folder *folder, uint64_t seed, uint64_t count,
                      const char *kind, struct random *random)
{
    uint64_t wanted = 1 + random_below(random, REPORTS_MAX), report;
    uint64_t spin_ns = random_below(random, SPIN_NS_MAX);
    int reports;
    pid_t child = start_child(folder, seed, count, kind, &reports);

    for (uint64_t i = 0; i < wanted; i++) {
        report = read_report(reports);
        assert_true(report == ++count); /* it would have to end for another reason */
    }
    struct instant begin = instant_now();
    while (instant_since_ns(begin, instant_now()) < spin_ns)
        ;
    assert_int_equal(kill(child, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while ((report = read_report(reports)))
        count = report;
    close(reports);
    return count;
}

/* Which commit the folder holds: every commit writes its number into the metas that it touches. */
static uint64_t last_commit(struct storage *storage)
{
    uint64_t last = 0;

    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_meta meta;

        assert_int_equal(storage_load_meta(storage, p, &meta, NULL), ERROR_NONE);
        if (meta.epoch > last)
            last = meta.epoch;
    }
    return last;
}

static void test_kill(void **state)
{
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed ^ 1);
    struct model *model = calloc(1, sizeof(*model));

    (void)state;
    assert_non_null(model);
    struct testing_folder folder;
    testing_folder_make(&folder);
    uint64_t count = 0, in_doubt = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t reported = crash(&folder, seed, count, "commits", &random);
        struct rocksdb_options options = testing_options(&folder, MODEL_PARTITIONS);
        struct storage *storage = testing_open(&options);

        count = last_commit(storage);
        assert_true(count == reported || count == reported + 1);
        in_doubt += count - reported;
        model_replay(model, seed, count);
        model_assert_equal(model, storage, &random);
        model_deinit(model);
        storage_close(storage);
    }
    printf("%d kills, %" PRIu64 " commits, of which %" PRIu64 " were made and not reported\n",
           ROUNDS, count, in_doubt);
    testing_folder_remove(&folder);
    free(model);
}

static uint64_t last_place(struct storage *storage)
{
    uint64_t last = 0;

    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_place place;

        assert_int_equal(storage_load_place(storage, p, &place, NULL), ERROR_NONE);
        assert_true(place.seq == place.next && (!place.next || place.epoch == 3));
        last = place.next > last ? place.next : last;
    }
    return last;
}

static void assert_storages_equal(struct storage *actual, struct storage *expected)
{
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_page ours = testing_scan_all(actual, p, STORAGE_SCAN_ALL, 1000);
        struct storage_page theirs = testing_scan_all(expected, p, STORAGE_SCAN_ALL, 1000);
        struct storage_meta our_meta, their_meta;

        assert_int_equal(ours.count, theirs.count);
        for (size_t i = 0; i < ours.count; i++)
            testing_assert_timer(ours.timers[i], theirs.timers[i], theirs.timers[i]->at);
        storage_page_free(&ours);
        storage_page_free(&theirs);
        assert_int_equal(storage_load_meta(actual, p, &our_meta, NULL), ERROR_NONE);
        assert_int_equal(storage_load_meta(expected, p, &their_meta, NULL), ERROR_NONE);
        assert_memory_equal(&our_meta, &their_meta, sizeof(our_meta));
    }
}

/* A copy has the rows of a place and that place; and so has the folder after the kill. */
static void assert_follower(const struct testing_folder *folder, uint64_t seed,
                            uint64_t *ret_applied)
{
    struct rocksdb_options options = testing_options(folder, MODEL_PARTITIONS);
    options.cluster = TESTING_CLUSTER;
    struct storage *storage = testing_open(&options), *copy;
    struct testing_folder backup;
    struct storage_backup ignored;
    struct crash_owner owner;

    *ret_applied = last_place(storage);
    crash_owner_init(&owner, seed);
    while (owner.next < *ret_applied)
        crash_owner_append(&owner);
    assert_storages_equal(storage, owner.storage);
    snprintf(backup.path, sizeof(backup.path), "%.200s-copy", folder->path);
    assert_int_equal(storage_backup(storage, backup.path, &ignored, NULL), ERROR_NONE);
    options.folder = backup.path;
    copy = testing_open(&options);
    assert_true(last_place(copy) == *ret_applied);
    assert_storages_equal(copy, owner.storage);
    storage_close(copy);
    storage_close(storage);
    testing_folder_remove(&backup);
    crash_owner_deinit(&owner);
}

static void test_kill_followers(void **state)
{
    uint64_t seed = testing_seed(), count = 0, lost = 0, applied;
    struct random random = random_seeded(seed ^ 1);
    struct testing_folder folder;

    (void)state;
    testing_folder_make(&folder);
    for (int round = 0; round < FOLLOWER_ROUNDS; round++) {
        count = crash(&folder, seed, count, "follows", &random);
        assert_follower(&folder, seed, &applied);
        assert_true(applied <= count + 1);
        lost += count > applied ? count - applied : 0;
    }
    printf("%d kills, %" PRIu64 " records, of which %" PRIu64 " were applied again\n",
           FOLLOWER_ROUNDS, count, lost);
    assert_true(lost > 0);
    testing_folder_remove(&folder);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_kill_followers),
    };

    if (count == 5)
        return !strcmp(arguments[4], "follows") ? be_follower(arguments + 1)
                                                : be_child(arguments + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
