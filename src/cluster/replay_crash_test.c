/* Goal: after kill -9 everything that was acknowledged is there, whole, and what was not is there
 * whole or not at all. Method: a child makes commits of a seed (storage_model.h), appends them to
 * the log of its folder, all partitions with one write, reports each when it has landed, and then
 * applies it; it is killed at a random moment. The folder must then hold the model after the last
 * reported commit or after the one that was under way: opened to be read, and as the next child
 * does, which goes on from there. */
#include "cluster/replay_testing.h"
#include "store/storage_model.h"
#include "sys/clock.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

enum { ROUNDS = 20, REPORTS_MAX = 40, SPIN_NS_MAX = 3000000, COMMITS_A_TRIM = 16 };

static struct diskwheel_options replay_crash_options(const struct testing_folder *folder)
{
    return testing_options(folder, MODEL_PARTITIONS);
}

/* ---- the child ---- */

/* Appends the commit: the batches of each partition as one frame. A body without bytes has none. */
static void replay_crash_append(struct replays *replays, const struct model_commit *commit,
                                struct buffer bodies[MODEL_PARTITIONS])
{
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_batch *batches[MODEL_BATCHES_MAX];
        size_t count = 0;

        buffer_clear(&bodies[p]);
        for (size_t i = 0; i < commit->count; i++)
            if (commit->pointers[i]->partition == p)
                batches[count++] = commit->pointers[i];
        if (count == 0)
            continue;
        if (storage_prepare(replays->storage, batches, count, &bodies[p], NULL))
            exit(1);
        replays_append(
            replays,
            (struct frame){.kind = FRAME_COMMIT, .partition = p, .body = buffer_bytes(&bodies[p])});
    }
}

/* Drops what the tables have in files from the log. */
static void replay_crash_trim(struct replays *replays)
{
    struct log_event event;
    uint64_t kept;

    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
        if (storage_load_kept(replays->storage, p, &kept, NULL) ||
            log_trim(log_local_partition(replays->local, p), kept, NULL))
            exit(1);
    log_local_trim(replays->local);
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
        log_wait(log_local_partition(replays->local, p), 0, &event);
}

static int replay_crash_be_child(char **arguments)
{
    struct testing_folder folder;
    const uint64_t seed = strtoull(arguments[1], NULL, 10);
    const uint64_t count = strtoull(arguments[2], NULL, 10);
    struct model *model = calloc(1, sizeof(*model));
    struct buffer bodies[MODEL_PARTITIONS];
    struct storage_place places[MODEL_PARTITIONS];
    struct model_commit commit;

    snprintf(folder.path, sizeof(folder.path), "%s", arguments[0]);
    struct replays replays = {.options = replay_crash_options(&folder)};
    if (!model || replays_try_open(&replays, NULL))
        return 1;
    model_replay(model, seed, count);
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
        buffer_init(&bodies[p]);
    for (;;) {
        model_next(model, &commit);
        replay_crash_append(&replays, &commit, bodies);
        log_local_flush(replays.local);
        for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
            if (bodies[p].size)
                places[p] = replays_landed(&replays, p);
        if (write(STDOUT_FILENO, &model->commit_count, 8) != 8)
            return 1;
        for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
            if (bodies[p].size &&
                storage_apply(replays.storage, p, buffer_bytes(&bodies[p]), &places[p], NULL))
                return 1;
        if (model->commit_count % COMMITS_A_TRIM == 0)
            replay_crash_trim(&replays);
        model_commit_deinit(&commit);
    }
}

/* ---- the parent ---- */

static pid_t replay_crash_start(const struct testing_folder *folder, uint64_t seed, uint64_t count,
                                int *ret_reports)
{
    char seed_text[32], count_text[32], path[] = "/proc/self/exe";
    char *const arguments[] = {path, (char *)folder->path, seed_text, count_text, NULL};
    posix_spawn_file_actions_t files;
    pid_t child;
    int ends[2];

    snprintf(seed_text, sizeof(seed_text), "%" PRIu64, seed);
    snprintf(count_text, sizeof(count_text), "%" PRIu64, count);
    assert_int_equal(pipe(ends), 0);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&files, ends[0]);
    posix_spawn_file_actions_addclose(&files, ends[1]);
    assert_int_equal(posix_spawn(&child, path, &files, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    *ret_reports = ends[0];
    return child;
}

/* Returns the next report, or 0 when there are no more. */
static uint64_t replay_crash_read_report(int reports)
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
static uint64_t replay_crash_run(const struct testing_folder *folder, uint64_t seed, uint64_t count,
                                 struct random *random)
{
    const uint64_t wanted = 1 + random_below(random, REPORTS_MAX);
    const uint64_t spin_ns = random_below(random, SPIN_NS_MAX);
    uint64_t report;
    int reports, status;
    pid_t child = replay_crash_start(folder, seed, count, &reports);

    for (uint64_t i = 0; i < wanted; i++) {
        report = replay_crash_read_report(reports);
        assert_true(report == ++count); /* it would have to end for another reason */
    }
    const struct instant begin = instant_now();
    while (instant_since_ns(begin, instant_now()) < spin_ns)
        continue;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while ((report = replay_crash_read_report(reports)))
        count = report;
    close(reports);
    return count;
}

/* Returns which commit the storage holds: each writes its number into the metas that it touches. */
static uint64_t replay_crash_last_commit(struct storage *storage)
{
    uint64_t last = 0;

    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_meta meta;

        assert_int_equal(storage_load_meta(storage, p, &meta, NULL), ERROR_NONE);
        last = meta.epoch > last ? meta.epoch : last;
    }
    return last;
}

/* The storage holds the model after `reported` commits, or after one more. Returns which. */
static uint64_t assert_replay_commits(struct storage *storage, uint64_t seed, uint64_t reported,
                                      struct random *random)
{
    struct model *model = calloc(1, sizeof(*model));
    const uint64_t count = replay_crash_last_commit(storage);

    assert_non_null(model);
    assert_true(count == reported || count == reported + 1);
    model_replay(model, seed, count);
    model_assert_equal(model, storage, random);
    model_deinit(model);
    free(model);
    return count;
}

/* proves: create-durable */
static void test_replay_kill(void **state)
{
    uint64_t seed = testing_seed(), count = 0, in_doubt = 0;
    struct random random = random_seeded(seed ^ 1);
    struct testing_folder folder;
    struct replay_folder opened;
    struct error error = {.text = ""};

    (void)state;
    testing_folder_make(&folder);
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t reported = replay_crash_run(&folder, seed, count, &random);

        if (replay_open_folder(folder.path, &opened, &error))
            fail_msg("%s", error.text);
        count = assert_replay_commits(opened.storage, seed, reported, &random);
        storage_close(opened.storage);
        struct replays replays = {.options = replay_crash_options(&folder)};
        replays_open(&replays);
        assert_true(assert_replay_commits(replays.storage, seed, reported, &random) == count);
        replays_close(&replays);
        in_doubt += count - reported;
    }
    printf("%d kills, %" PRIu64 " commits, of which %" PRIu64 " were made and not reported\n",
           ROUNDS, count, in_doubt);
    testing_folder_remove(&folder);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_kill),
    };

    return count == 4 ? replay_crash_be_child(arguments + 1)
                      : cmocka_run_group_tests(tests, NULL, NULL);
}
