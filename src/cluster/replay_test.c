/* Goal: a folder of a killed process is opened with every acknowledged timer, and refused when its
 * log lacks one, is damaged or belongs to another folder; what a reader sees, the next start has.
 * Method: the files of an open folder are copied, as a kill would leave them; of the copy files are
 * removed, damaged, or exchanged for those of another copy. The folder is opened to be read
 * (replay_open_folder), and as a node does. */
#include "cluster/replay_testing.h"
#include "store/wheel/diskwheel_check.h"

#include <sys/stat.h>

enum { PARTITIONS = 3 };

struct replay_fixture {
    struct testing_folder folder, killed;
    struct replays node, copy; /* the copy is not open */
};

static int replay_set_up(void **state)
{
    struct replay_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    testing_folder_make(&fixture->killed);
    fixture->node.options = testing_options(&fixture->folder, PARTITIONS);
    fixture->copy.options = testing_options(&fixture->killed, PARTITIONS);
    replays_open(&fixture->node);
    *state = fixture;
    return 0;
}

static int replay_tear_down(void **state)
{
    struct replay_fixture *fixture = *state;

    replays_close(&fixture->node);
    testing_folder_remove(&fixture->folder);
    testing_folder_remove(&fixture->killed);
    free(fixture);
    return 0;
}

static void replay_reopen(struct replay_fixture *fixture)
{
    replays_close(&fixture->node);
    replays_open(&fixture->node);
}

/* Makes the body of a new timer of the partition. */
static void replay_prepare(struct storage *storage, uint16_t partition, uint64_t serial,
                           struct buffer *to)
{
    struct timer *timer = testing_timer(partition, serial, 1000 + serial);
    struct storage_write write = {.timer = timer};
    struct storage_batch batch = {
        .partition = partition, .meta = {.epoch = 1}, .writes = &write, .write_count = 1};
    struct storage_batch *const batches[] = {&batch};

    assert_int_equal(storage_prepare(storage, batches, 1, to, NULL), ERROR_NONE);
    timer_free(timer);
}

/* Acknowledges the timers with these serials, in partitions by turns, each in a record, and applies
 * them. Runs get them when the memory is full, or with replay_reopen. */
static void replay_write(struct replays *node, uint64_t from, uint64_t count)
{
    struct buffer body;

    buffer_init(&body);
    for (uint64_t serial = from; serial < from + count; serial++) {
        const uint16_t partition = (uint16_t)(serial % PARTITIONS);

        buffer_clear(&body);
        replay_prepare(node->storage, partition, serial, &body);
        replays_append(node, (struct frame){.kind = FRAME_COMMIT,
                                            .partition = partition,
                                            .body = buffer_bytes(&body)});
        assert_true(log_local_flush(node->local));
        const struct storage_place place = replays_landed(node, partition);
        assert_int_equal(storage_apply(node->storage, partition, buffer_bytes(&body), &place, NULL),
                         ERROR_NONE);
    }
    buffer_deinit(&body);
}

static uint64_t replay_count(struct storage *storage)
{
    uint64_t count = 0;

    for (uint16_t p = 0; p < PARTITIONS; p++) {
        struct storage_page all = testing_scan_all(storage, p, STORAGE_SCAN_LIVE, 256);

        count += all.count;
        storage_page_free(&all);
    }
    return count;
}

static void replay_kill(struct replay_fixture *fixture)
{
    testing_kill(&fixture->folder, &fixture->killed);
}

/* A reader sees `count` timers and no damage, and changes nothing; so does a start, and a second
 * one. */
static void assert_replay_killed(struct replay_fixture *fixture, uint64_t count)
{
    struct testing_copy before = {.sum = 0}, after = {.sum = 0};
    struct storage_check check = {.told = NULL};
    struct replay_folder opened;
    struct error error = {.text = ""};
    uint64_t live = 0;

    assert_int_equal(files_list(fixture->killed.path, testing_sum_one, &before, NULL), ERROR_NONE);
    if (replay_open_folder(fixture->killed.path, &opened, &error))
        fail_msg("%s", error.text);
    assert_int_equal(opened.partition_count, PARTITIONS);
    assert_int_equal(opened.cluster, 0);
    assert_int_equal(replay_count(opened.storage), count);
    assert_int_equal(diskwheel_check(opened.storage, &check, NULL), ERROR_NONE);
    storage_close(opened.storage);
    for (uint16_t p = 0; p < PARTITIONS; p++)
        live += check.partitions[p].live;
    assert_true(check.findings == 0 && live == count);
    storage_check_deinit(&check);
    assert_int_equal(files_list(fixture->killed.path, testing_sum_one, &after, NULL), ERROR_NONE);
    assert_true(before.sum == after.sum);
    for (int i = 0; i < 2; i++) {
        replays_open(&fixture->copy);
        assert_int_equal(replay_count(fixture->copy.storage), count);
        replays_close(&fixture->copy);
    }
}

static void assert_replay_says(const struct error *error, const char *part)
{
    if (!strstr(error->text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error->text, part);
}

/* Neither a reader nor a start takes the copy. */
static void assert_replay_refused(struct replay_fixture *fixture, const char *part)
{
    struct replay_folder opened;
    struct error error = {.text = ""};

    assert_int_equal(replay_open_folder(fixture->killed.path, &opened, &error), ERROR_CORRUPT);
    assert_null(opened.storage);
    assert_replay_says(&error, part);
    assert_int_equal(replays_try_open(&fixture->copy, &error), ERROR_CORRUPT);
    assert_replay_says(&error, part);
}

/* ---- what is acknowledged is there ---- */

/* proves: create-durable */
static void test_replay_killed(void **state)
{
    struct replay_fixture *fixture = *state;

    for (uint64_t count = 100; count <= 600; count += 100) {
        replay_write(&fixture->node, count - 99, 100);
        replay_kill(fixture);
        assert_replay_killed(fixture, count);
    }
}

/* Nothing but the log has the last ones. proves: create-durable */
static void test_replay_acknowledged_before_the_tables(void **state)
{
    struct replay_fixture *fixture = *state;

    fixture->node.options.memory_bytes = 8 << 20;
    replay_reopen(fixture);
    for (uint64_t count = 100; count <= 300; count += 100) {
        uint64_t kept, sum = 0;

        replay_write(&fixture->node, count - 99, 100);
        for (uint16_t p = 0; p<PARTITIONS; p++, sum += kept> 1)
            assert_int_equal(storage_load_kept(fixture->node.storage, p, &kept, NULL), ERROR_NONE);
        assert_int_equal(sum, count > 200 ? PARTITIONS : 0);
        replay_kill(fixture);
        assert_replay_killed(fixture, count);
        if (count == 200)
            replay_reopen(fixture); /* which writes all into tables */
    }
}

/* Tables that are older than the log, which has the rest. */
static void test_replay_older_tables(void **state)
{
    struct replay_fixture *fixture = *state;

    replay_write(&fixture->node, 1, 10);
    replay_kill(fixture);
    replay_write(&fixture->node, 11, 10);
    testing_copy_log(&fixture->folder, &fixture->killed);
    assert_replay_killed(fixture, 20);
}

/* The log drops the records that files of tables have, and nothing is lost with them. */
static void test_replay_trimmed(void **state)
{
    struct replay_fixture *fixture = *state;
    struct log_local_stats stats = {.first = 1};
    struct log_event event;
    uint64_t count = 0, kept;

    for (; stats.first == 1 && count < 100000; count += 100) {
        replay_write(&fixture->node, count + 1, 100);
        for (uint16_t p = 0; p < PARTITIONS; p++) {
            assert_int_equal(storage_load_kept(fixture->node.storage, p, &kept, NULL), ERROR_NONE);
            assert_int_equal(log_trim(log_local_partition(fixture->node.local, p), kept, NULL),
                             ERROR_NONE);
        }
        log_local_trim(fixture->node.local);
        for (uint16_t p = 0; p < PARTITIONS; p++)
            assert_int_equal(log_wait(log_local_partition(fixture->node.local, p), 0, &event),
                             LOG_TRIMMED);
        log_local_get_stats(fixture->node.local, &stats);
    }
    assert_true(stats.first > 1);
    replay_kill(fixture);
    assert_replay_killed(fixture, count);
}

/* REACHED that a power cut has torn, or that is gone, holds up no start. */
static void test_replay_reached_torn(void **state)
{
    struct replay_fixture *fixture = *state;
    char path[300];

    snprintf(path, sizeof(path), "%.200s/" LOG_HOME_REACHED, fixture->killed.path);
    replay_write(&fixture->node, 1, 10);
    for (int is_gone = 0; is_gone <= 1; is_gone++) {
        replay_kill(fixture);
        assert_int_equal(is_gone ? unlink(path) : truncate(path, 20), 0);
        assert_replay_killed(fixture, 10);
    }
}

/* The end of a log that is not synced may be gone after a power cut; it is known by its id. */
static void test_replay_unsynced(void **state)
{
    struct replay_fixture *fixture = *state;
    struct testing_folder away;
    char log[300], away_log[300];

    fixture->node.sync = LOG_FILES_SYNC_NEVER;
    replay_reopen(fixture);
    replay_write(&fixture->node, 1, 10);
    testing_folder_make(&away);
    testing_copy_log(&fixture->folder, &away);
    replay_write(&fixture->node, 11, 10);
    replay_kill(fixture);
    testing_copy_folder(testing_log_of(&away, away_log), testing_log_of(&fixture->killed, log));
    assert_replay_killed(fixture, 10);
    testing_folder_remove(&away);
}

/* Without FOLDER, which somebody removed because it was damaged, the log that is there counts. */
static void test_replay_without_identity(void **state)
{
    struct replay_fixture *fixture = *state;
    char path[300];

    snprintf(path, sizeof(path), "%.200s/FOLDER", fixture->killed.path);
    replay_write(&fixture->node, 1, 10);
    replay_reopen(fixture);
    replay_write(&fixture->node, 11, 10);
    replay_kill(fixture);
    assert_int_equal(unlink(path), 0);
    assert_replay_killed(fixture, 20);
    assert_true(files_exists(path));
    assert_replay_killed(fixture, 20);
}

/* ---- what is refused ---- */

struct replay_segments {
    char newest[64], oldest[64];
    unsigned count;
};

static bool replay_take_segment(void *context, const struct files_entry *entry)
{
    struct replay_segments *segments = context;

    if (!strstr(entry->name, ".segment"))
        return true;
    if (!segments->count || strcmp(entry->name, segments->newest) > 0)
        snprintf(segments->newest, sizeof(segments->newest), "%s", entry->name);
    if (!segments->count || strcmp(entry->name, segments->oldest) < 0)
        snprintf(segments->oldest, sizeof(segments->oldest), "%s", entry->name);
    segments->count++;
    return true;
}

static struct replay_segments replay_list_segments(const struct replay_fixture *fixture)
{
    struct replay_segments segments = {.count = 0};
    char log[300];

    assert_int_equal(
        files_list(testing_log_of(&fixture->killed, log), replay_take_segment, &segments, NULL),
        ERROR_NONE);
    return segments;
}

/* proves: missing-log */
static void test_replay_segment_missing(void **state)
{
    struct replay_fixture *fixture = *state;
    char path[400], log[300];

    replay_write(&fixture->node, 1, 200);
    for (int is_cut = 0; is_cut <= 1; is_cut++) {
        replay_kill(fixture);
        const struct replay_segments segments = replay_list_segments(fixture);
        assert_true(segments.count > 2);
        snprintf(path, sizeof(path), "%s/%s", testing_log_of(&fixture->killed, log),
                 segments.newest);
        assert_int_equal(is_cut ? truncate(path, 100) : unlink(path), 0);
        assert_replay_refused(fixture, ".segment");
    }
}

/* proves: missing-log */
static void test_replay_log_missing(void **state)
{
    struct replay_fixture *fixture = *state;
    char log[300];

    replay_write(&fixture->node, 1, 10);
    replay_kill(fixture);
    files_remove_folder(testing_log_of(&fixture->killed, log));
    assert_replay_refused(fixture, "is missing: it held writes that were acknowledged");
}

/* The storage of a cluster's node is whole by itself: its log is elsewhere. */
static void test_replay_folder_of_a_cluster(void **state)
{
    struct replay_fixture *fixture = *state;
    struct diskwheel_options options = fixture->copy.options;
    struct replay_folder opened;

    options.cluster = TESTING_CLUSTER;
    struct storage *storage = testing_open(&options);
    testing_write_meta(storage, 1, (struct storage_meta){.epoch = 9});
    storage_close(storage);
    assert_int_equal(replay_open_folder(fixture->killed.path, &opened, NULL), ERROR_NONE);
    assert_int_equal(opened.cluster, TESTING_CLUSTER);
    assert_int_equal(opened.partition_count, PARTITIONS);
    storage_close(opened.storage);
}

/* ---- frames ---- */

static void replay_append_body(struct replays *node, struct bytes body, bool has_more)
{
    replays_append(
        node,
        (struct frame){.kind = FRAME_COMMIT, .partition = 1, .has_more = has_more, .body = body});
    assert_true(log_local_flush(node->local));
    replays_landed(node, 1);
}

/* A commit of several frames takes effect with its last one. One that was not finished has none,
 * and a claim after it begins anew. */
static void test_replay_commits_in_parts(void **state)
{
    struct replay_fixture *fixture = *state;
    struct buffer body;

    buffer_init(&body);
    replay_prepare(fixture->node.storage, 1, 1, &body);
    const struct bytes first = {body.data, body.size / 2};
    const struct bytes second = {body.data + first.size, body.size - first.size};
    replay_append_body(&fixture->node, first, true);
    replay_kill(fixture);
    assert_replay_killed(fixture, 0);
    replays_append(&fixture->node, (struct frame){.kind = FRAME_CLAIM, .partition = 1});
    assert_true(log_local_flush(fixture->node.local));
    replays_landed(&fixture->node, 1);
    replay_append_body(&fixture->node, first, true);
    replay_kill(fixture);
    assert_replay_killed(fixture, 0);
    replay_append_body(&fixture->node, second, false);
    replay_kill(fixture);
    assert_replay_killed(fixture, 1);
    buffer_deinit(&body);
}

/* A record that no node has written to this log is damage, not to be passed over. */
static void test_replay_foreign_records(void **state)
{
    struct replay_fixture *fixture = *state;
    struct frame frame = {
        .kind = FRAME_COMMIT, .partition = 1, .epoch = 1, .seq = 1, .body = BYTES("no body")};
    struct log *log = log_local_partition(fixture->node.local, 1);
    struct log_event event;
    struct buffer bytes;

    for (int i = 0; i < 4; i++) {
        frame.partition = i == 0 ? 2 : 1;
        buffer_init(&bytes);
        frame_encode(&frame, fixture->node.cluster + (i == 1), &bytes);
        if (i == 2)
            bytes.data[bytes.size - 1] = (char)(bytes.data[bytes.size - 1] ^ 1);
        assert_int_equal(log_append(log, 1, buffer_bytes(&bytes), NULL), ERROR_NONE);
        assert_true(log_local_flush(fixture->node.local));
        assert_int_equal(log_wait(log, 0, &event), LOG_LANDED);
        buffer_deinit(&bytes);
        replay_kill(fixture);
        assert_replay_refused(fixture, i == 0 ? "the log has a record of partition 2 in 1" : "");
        replay_tear_down(state);
        replay_set_up(state);
        fixture = *state;
        log = log_local_partition(fixture->node.local, 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, replay_set_up, replay_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_replay_killed),           TEST(test_replay_acknowledged_before_the_tables),
        TEST(test_replay_older_tables),     TEST(test_replay_trimmed),
        TEST(test_replay_reached_torn),     TEST(test_replay_unsynced),
        TEST(test_replay_without_identity), TEST(test_replay_log_missing),
        TEST(test_replay_segment_missing),  TEST(test_replay_folder_of_a_cluster),
        TEST(test_replay_commits_in_parts), TEST(test_replay_foreign_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
