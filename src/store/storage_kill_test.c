/* Goal: kill -9 leaves a storage on disk at a place that it had, with exactly the rows of that
 * place, and never before the offset that it named as kept. Method: a child
 * applies the log that an owner in memory makes of a seed, and reports each record over a pipe,
 * with what storage_load_kept says after it; it is killed at a random moment. The folder must then
 * equal the owner at the folder's place, and at the end of the log once the rest of it is applied.
 * The next child goes on from there. That a log has what is acknowledged is tested in
 * cluster/replay_test.c.
 *
 *     TEST_ROUNDS=150 build/dev/src/store/storage_kill_test */
#include "store/storage_model.h"
#include "sys/clock.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

enum {
    ROUNDS = 12,
    REPORTS_MAX = 40,
    SPIN_NS_MAX = 3000000,
    RECORDS_A_FLUSH = 16, /* so that the kept offset rises */
};

/* What the child says after each record. */
struct crash_report {
    uint64_t next;                   /* offset after the record; 0 if there are no more reports */
    uint64_t kept[MODEL_PARTITIONS]; /* by storage_load_kept */
};

/* ---- the child ---- */

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

static bool crash_report(struct storage *storage, uint64_t next)
{
    struct crash_report report = {.next = next};

    if (next % RECORDS_A_FLUSH == 0 && storage_flush(storage, NULL))
        return false;
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++)
        if (storage_load_kept(storage, p, &report.kept[p], NULL))
            return false;
    return write(STDOUT_FILENO, &report, sizeof(report)) == sizeof(report);
}

static int be_child(char **arguments)
{
    struct testing_folder folder;
    struct crash_owner owner;

    snprintf(folder.path, sizeof(folder.path), "%s", arguments[0]);
    struct diskwheel_options options = testing_options(&folder, MODEL_PARTITIONS);
    crash_owner_init(&owner, strtoull(arguments[1], NULL, 10));
    const uint64_t count = strtoull(arguments[2], NULL, 10);
    struct storage *storage = testing_open(&options);
    for (;;) {
        const struct storage_place place = crash_owner_append(&owner);

        if (storage_apply(storage, owner.partition, buffer_bytes(&owner.body), &place, NULL) ||
            (place.next > count && !crash_report(storage, place.next)))
            return 1;
    }
}

/* ---- the parent ---- */

struct kill_case {
    struct testing_folder folder;
    uint64_t seed;
};

static struct storage *kill_open(const struct testing_folder *folder)
{
    const struct diskwheel_options options = testing_options(folder, MODEL_PARTITIONS);

    return testing_open(&options);
}

static pid_t start_child(const struct kill_case *of, uint64_t count, int *ret_reports)
{
    char seed_text[32], count_text[32], path[] = "/proc/self/exe";
    char *const arguments[] = {path, (char *)of->folder.path, seed_text, count_text, NULL};

    snprintf(seed_text, sizeof(seed_text), "%" PRIu64, of->seed);
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

/* Returns false when there are no more. */
static bool read_report(int reports, struct crash_report *ret_report)
{
    ssize_t got;

    do
        got = read(reports, ret_report, sizeof(*ret_report));
    while (got < 0 && errno == EINTR);
    assert_true(got == sizeof(*ret_report) || got == 0);
    return got > 0;
}

/* Runs a child from `count` on, kills it, and returns what it reported last. */
static struct crash_report crash(const struct kill_case *of, uint64_t count, struct random *random)
{
    uint64_t wanted = 1 + random_below(random, REPORTS_MAX);
    uint64_t spin_ns = random_below(random, SPIN_NS_MAX);
    struct crash_report report = {.next = 0}, last = {.next = 0};
    int reports;
    pid_t child = start_child(of, count, &reports);

    for (uint64_t i = 0; i < wanted; i++) {
        assert_true(read_report(reports, &last)); /* it would have to end for another reason */
        assert_true(last.next == ++count);
    }
    struct instant begin = instant_now();
    while (instant_since_ns(begin, instant_now()) < spin_ns)
        ;
    assert_int_equal(kill(child, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (read_report(reports, &report))
        last = report;
    close(reports);
    return last;
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

/* Returns how many of the partitions have a kept offset, after which none has lost anything. */
static unsigned assert_kept(struct storage *storage, const struct crash_report *report)
{
    unsigned count = 0;

    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_place place;

        assert_int_equal(storage_load_place(storage, p, &place, NULL), ERROR_NONE);
        assert_true(place.next >= report->kept[p]);
        count += report->kept[p] > 0;
    }
    return count;
}

/* A backup has the rows of a place and that place, too. */
static void assert_backup(struct storage *storage, const struct kill_case *of,
                          const struct crash_owner *owner)
{
    struct testing_folder backup;
    struct storage_backup ignored;

    if (!storage->ops->backup)
        return;
    snprintf(backup.path, sizeof(backup.path), "%.200s-copy", of->folder.path);
    assert_int_equal(storage_backup(storage, backup.path, &ignored, NULL), ERROR_NONE);
    struct storage *copy = kill_open(&backup);
    assert_true(last_place(copy) == owner->next);
    assert_storages_equal(copy, owner->storage);
    storage_close(copy);
    testing_folder_remove(&backup);
}

/* Compares the folder of a killed child with the log, and applies the rest of it. Returns the
 * number of records that were applied again. */
static uint64_t assert_killed(const struct kill_case *of, const struct crash_report *report)
{
    struct storage *storage = kill_open(&of->folder);
    struct crash_owner owner;
    const uint64_t applied = last_place(storage);

    assert_true(applied <= report->next + 1); /* the last one was not reported */
    crash_owner_init(&owner, of->seed);
    while (owner.next < applied)
        crash_owner_append(&owner);
    assert_storages_equal(storage, owner.storage);
    assert_backup(storage, of, &owner);
    while (owner.next < report->next) {
        const struct storage_place place = crash_owner_append(&owner);

        assert_int_equal(
            storage_apply(storage, owner.partition, buffer_bytes(&owner.body), &place, NULL),
            ERROR_NONE);
    }
    assert_storages_equal(storage, owner.storage);
    storage_close(storage);
    crash_owner_deinit(&owner);
    return report->next > applied ? report->next - applied : 0;
}

static void test_kill(void **state)
{
    struct kill_case of = {.seed = testing_seed()};
    const char *text = getenv("TEST_ROUNDS");
    const uint64_t rounds = text ? strtoull(text, NULL, 10) : ROUNDS;
    uint64_t count = 0, again = 0;
    unsigned kept = 0;
    struct random random = random_seeded(of.seed ^ 1);

    (void)state;
    testing_folder_make(&of.folder);
    for (uint64_t round = 0; round < rounds; round++) {
        const struct crash_report report = crash(&of, count, &random);
        struct storage *storage = kill_open(&of.folder);

        kept += assert_kept(storage, &report);
        storage_close(storage);
        again += assert_killed(&of, &report);
        count = report.next;
    }
    printf("%" PRIu64 " kills, %" PRIu64 " records, of which %" PRIu64 " were applied again\n",
           rounds, count, again);
    assert_true(again > 0 && kept > 0);
    testing_folder_remove(&of.folder);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill),
    };

    return count == 4 ? be_child(arguments + 1) : cmocka_run_group_tests(tests, NULL, NULL);
}
