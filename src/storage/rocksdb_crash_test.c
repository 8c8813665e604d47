/* Goal: what a commit returned for is there after kill -9, whole, and what it did not return for is
 * there whole or not at all. Method: a child commits what storage_model.h makes of a seed and
 * reports each commit over a pipe; it is killed at a random moment; the folder must then hold the
 * model after the last reported commit or after the one that was under way. The next child goes on
 * from there. */
#include "storage/storage_model.h"
#include "sys/clock.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

enum { ROUNDS = 25, REPORTS_MAX = 40, SPIN_NS_MAX = 3000000 };

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

/* ---- the parent ---- */

static pid_t start_child(const struct testing_folder *folder, uint64_t seed, uint64_t count,
                         int *ret_reports)
{
    char seed_text[32], count_text[32], path[] = "/proc/self/exe";
    char *const arguments[] = {path, (char *)folder->path, seed_text, count_text, NULL};

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
                      struct random *random)
{
    uint64_t wanted = 1 + random_below(random, REPORTS_MAX), report;
    uint64_t spin_ns = random_below(random, SPIN_NS_MAX);
    int reports;
    pid_t child = start_child(folder, seed, count, &reports);

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
        uint64_t reported = crash(&folder, seed, count, &random);
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

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill),
    };

    if (count == 4)
        return be_child(arguments + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
