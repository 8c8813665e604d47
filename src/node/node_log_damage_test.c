/* Goal: a start refuses a log that lacks records of its folder, is damaged or belongs to another
 * one, and then leaves everything as it was; with storage_damage = skip it has what is intact, says
 * what it has lost, and the next start finds no damage. A reader refuses what a start refuses.
 * Method: copies of an open folder, as a kill would leave them, whose log is damaged, removed, or
 * exchanged for that of another copy. */
#include "cluster/replay_testing.h"
#include "node/node_log.h"

enum { PARTITIONS = 3 };

struct damage_fixture {
    struct testing_folder folder, away, killed;
    struct replays node;  /* has `folder` */
    struct config config; /* of `killed` */
    struct tenant_pot inflight;
    struct node_log log; /* as the last start of `killed` left it */
    uint64_t count;      /* timers that it found */
};

static int damage_set_up(void **state)
{
    struct damage_fixture *fixture = calloc(1, sizeof(*fixture));
    char partitions[8];

    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    testing_folder_make(&fixture->away);
    testing_folder_make(&fixture->killed);
    fixture->node.options = testing_options(&fixture->folder, PARTITIONS);
    replays_open(&fixture->node);
    config_init(&fixture->config);
    snprintf(partitions, sizeof(partitions), "%d", PARTITIONS);
    assert_int_equal(config_set(&fixture->config, "data_folder", fixture->killed.path, NULL), 0);
    assert_int_equal(config_set(&fixture->config, "partitions", partitions, NULL), 0);
    tenant_pot_init(&fixture->inflight, 1000, TENANT_POT_WHOLE);
    *state = fixture;
    return 0;
}

static int damage_tear_down(void **state)
{
    struct damage_fixture *fixture = *state;

    replays_close(&fixture->node);
    tenant_pot_deinit(&fixture->inflight);
    testing_folder_remove(&fixture->folder);
    testing_folder_remove(&fixture->away);
    testing_folder_remove(&fixture->killed);
    free(fixture);
    return 0;
}

/* ---- timers ---- */

/* Acknowledges the timers with these serials, in partitions by turns, each in a record. */
static void damage_write(struct replays *node, uint64_t from, uint64_t count)
{
    for (uint64_t serial = from; serial < from + count; serial++) {
        const uint16_t partition = (uint16_t)(serial % PARTITIONS);
        struct timer *timer = testing_timer(partition, serial, 1000 + serial);
        struct storage_write write = {.timer = timer};
        struct storage_batch batch = {
            .partition = partition, .meta = {.epoch = 1}, .writes = &write, .write_count = 1};
        struct storage_batch *const batches[] = {&batch};
        struct buffer body;

        buffer_init(&body);
        assert_int_equal(storage_prepare(node->storage, batches, 1, &body, NULL), ERROR_NONE);
        replays_append(node, (struct frame){.kind = FRAME_COMMIT,
                                            .partition = partition,
                                            .body = buffer_bytes(&body)});
        assert_true(log_local_flush(node->local));
        const struct storage_place place = replays_landed(node, partition);
        assert_int_equal(storage_apply(node->storage, partition, buffer_bytes(&body), &place, NULL),
                         ERROR_NONE);
        buffer_deinit(&body);
        timer_free(timer);
    }
}

static uint64_t damage_count(struct storage *storage)
{
    uint64_t count = 0;

    for (uint16_t p = 0; p < PARTITIONS; p++) {
        struct storage_page all = testing_scan_all(storage, p, STORAGE_SCAN_LIVE, 256);

        count += all.count;
        storage_page_free(&all);
    }
    return count;
}

/* Brings all into tables. */
static void damage_rest(struct damage_fixture *fixture)
{
    replays_close(&fixture->node);
    replays_open(&fixture->node);
}

static void damage_kill(struct damage_fixture *fixture)
{
    testing_kill(&fixture->folder, &fixture->killed);
}

/* ---- starts ---- */

static void damage_told(void *context, uint16_t partition)
{
    (void)context, (void)partition;
}

static void damage_written(void *context, uint64_t bytes, uint64_t ns)
{
    (void)context, (void)bytes, (void)ns;
}

/* Opens the log of the open storage, and applies it as the replicas would. */
static enum error_code damage_open_log(struct damage_fixture *fixture, struct storage *storage,
                                       struct error *ret_error)
{
    struct node_log *log = &fixture->log;

    *log = (struct node_log){.config = &fixture->config,
                             .storage = storage,
                             .inflight = &fixture->inflight,
                             .told = damage_told,
                             .written = damage_written,
                             .context = fixture};
    enum error_code code = node_log_open(log, ret_error);
    if (!code)
        code = replay(log->local, storage, PARTITIONS, ret_error);
    if (!code)
        fixture->count = damage_count(storage);
    return code;
}

/* Starts on `killed`, and stops again. */
static enum error_code damage_start(struct damage_fixture *fixture, const char *policy,
                                    struct error *ret_error)
{
    const struct diskwheel_options options = testing_options(&fixture->killed, PARTITIONS);
    struct storage *storage;

    assert_int_equal(config_set(&fixture->config, "storage_damage", policy, NULL), 0);
    enum error_code code = diskwheel_storage_open(&options, &storage, ret_error);
    if (code)
        return code;
    code = damage_open_log(fixture, storage, ret_error);
    node_log_close(&fixture->log);
    storage_close(storage);
    return code;
}

static void assert_damage_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", text, part);
}

/* Refused by a reader and by starts, each in the same words, and the log stays as it is. */
static void assert_damage_refused(struct damage_fixture *fixture, const char *part)
{
    struct testing_copy before = {.sum = 0}, after = {.sum = 0};
    struct replay_folder opened;
    struct error error = {.text = ""};
    char log[300];

    const bool has_log = files_exists(testing_log_of(&fixture->killed, log));
    if (has_log)
        assert_int_equal(files_list(log, testing_sum_one, &before, NULL), ERROR_NONE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(replay_open_folder(fixture->killed.path, &opened, &error), ERROR_CORRUPT);
        assert_damage_says(error.text, part);
        assert_int_equal(damage_start(fixture, "refuse", &error), ERROR_CORRUPT);
        assert_damage_says(error.text, part);
    }
    if (has_log)
        assert_int_equal(files_list(log, testing_sum_one, &after, NULL), ERROR_NONE);
    assert_true(before.sum == after.sum);
}

/* Starts with `count` timers and without damage, and so does the next start. A reader sees them. */
static void assert_damage_starts(struct damage_fixture *fixture, uint64_t count)
{
    struct replay_folder opened;
    struct error error = {.text = ""};

    for (int i = 0; i < 2; i++) {
        if (damage_start(fixture, "refuse", &error))
            fail_msg("%s", error.text);
        assert_int_equal(fixture->count, count);
        assert_int_equal(fixture->log.lost, 0);
        assert_string_equal(fixture->log.loss.text, "");
        if (replay_open_folder(fixture->killed.path, &opened, &error))
            fail_msg("%s", error.text);
        assert_int_equal(damage_count(opened.storage), count);
        storage_close(opened.storage);
    }
}

/* With storage_damage = skip there are `count` timers, and `lost` records are counted, with perhaps
 * those that only some partitions have in their tables. Once is enough. */
static void assert_damage_skipped(struct damage_fixture *fixture, uint64_t count, uint64_t lost,
                                  const char *part)
{
    struct error error = {.text = ""};

    if (damage_start(fixture, "skip", &error))
        fail_msg("%s", error.text);
    assert_int_equal(fixture->count, count);
    assert_in_range(fixture->log.lost, lost, lost + PARTITIONS - 1);
    assert_damage_says(fixture->log.loss.text, part);
    assert_damage_starts(fixture, count);
}

/* ---- a log that lacks records ---- */

/* proves: missing-log */
static void test_damage_log_missing(void **state)
{
    struct damage_fixture *fixture = *state;
    char log[300];

    damage_write(&fixture->node, 1, 10);
    damage_rest(fixture);
    damage_write(&fixture->node, 11, 10);
    damage_kill(fixture);
    files_remove_folder(testing_log_of(&fixture->killed, log));
    assert_damage_refused(fixture, "is missing: it held writes that were acknowledged");
    testing_copy_log(&fixture->folder, &fixture->killed); /* it was found */
    assert_damage_starts(fixture, 20);
    damage_kill(fixture);
    files_remove_folder(log);
    assert_damage_skipped(fixture, 10, 10, "is missing");
}

static bool damage_take_first(void *context, const struct files_entry *entry)
{
    char *name = context;

    if (strstr(entry->name, ".segment") && (!name[0] || strcmp(entry->name, name) < 0))
        snprintf(name, 64, "%s", entry->name);
    return true;
}

/* Goal: damage costs the records of one segment, and what follows is there. Method: a flipped bit
 * in the middle of the first of several segments. proves: missing-log */
static void test_damage_of_a_record(void **state)
{
    struct damage_fixture *fixture = *state;
    char log[300], path[400], name[64] = "";
    struct error error = {.text = ""};
    struct buffer bytes;

    damage_write(&fixture->node, 1, 200);
    damage_kill(fixture);
    testing_log_of(&fixture->killed, log);
    assert_int_equal(files_list(log, damage_take_first, name, NULL), ERROR_NONE);
    snprintf(path, sizeof(path), "%s/%s", log, name);
    buffer_init(&bytes);
    assert_int_equal(files_read(path, REPLAYS_SEGMENT_BYTES, &bytes, NULL), ERROR_NONE);
    bytes.data[bytes.size / 2] = (char)(bytes.data[bytes.size / 2] ^ 1);
    assert_int_equal(files_write(path, buffer_bytes(&bytes), NULL), ERROR_NONE);
    buffer_deinit(&bytes);
    assert_damage_refused(fixture, "storage_damage = skip");
    if (damage_start(fixture, "skip", &error))
        fail_msg("%s", error.text);
    assert_true(fixture->log.lost > 0 && fixture->log.lost < 100);
    assert_int_equal(fixture->count, 200 - fixture->log.lost);
    assert_damage_starts(fixture, fixture->count);
}

/* The tables have what the log does not: it is an older copy of the log. proves: missing-log */
static void test_damage_older_log(void **state)
{
    struct damage_fixture *fixture = *state;

    damage_write(&fixture->node, 1, 10);
    testing_copy_log(&fixture->folder, &fixture->away);
    damage_write(&fixture->node, 11, 10);
    damage_rest(fixture);
    damage_kill(fixture);
    testing_copy_log(&fixture->away, &fixture->killed);
    assert_damage_refused(fixture, "records up to 20 were in it");
    assert_damage_skipped(fixture, 20, 0, "records up to 20 were in it");
}

/* How far the log had come is known without a table: an older copy of it ends before. So does a
 * copy from before the first record. proves: missing-log */
static void test_damage_young_older_log(void **state)
{
    struct damage_fixture *fixture = *state;
    struct testing_folder *copies[2] = {&fixture->away, &(struct testing_folder){.path = ""}};

    testing_folder_make(copies[1]);
    for (uint64_t i = 0; i < 2; i++) {
        testing_copy_log(&fixture->folder, copies[i]);
        damage_write(&fixture->node, 10 * i + 1, 10);
    }
    for (uint64_t i = 0; i < 2; i++) {
        damage_kill(fixture);
        testing_copy_log(copies[i], &fixture->killed);
        assert_damage_refused(fixture, "records up to 20 were in it");
        assert_damage_skipped(fixture, 10 * i, 20 - 10 * i, "records up to 20 were in it");
    }
    testing_folder_remove(copies[1]);
}

/* ---- a log of another folder ---- */

/* Whether or not tables were written, whose places do not show whose log it is. proves: missing-log
 */
static void test_damage_log_of_another(void **state)
{
    struct damage_fixture *fixture = *state, *other;
    void *other_state;

    damage_set_up(&other_state);
    other = other_state;
    damage_write(&other->node, 101, 20);
    damage_write(&fixture->node, 1, 10);
    damage_kill(fixture);
    testing_copy_log(&other->folder, &fixture->killed);
    assert_damage_refused(fixture, "is the log of another data folder");
    assert_damage_skipped(fixture, 0, 10, "is the log of another data folder");
    damage_rest(fixture);
    damage_write(&fixture->node, 11, 10);
    damage_kill(fixture);
    testing_copy_log(&other->folder, &fixture->killed);
    assert_damage_refused(fixture, "is the log of another data folder");
    assert_damage_skipped(fixture, 10, 10, "is the log of another data folder");
    damage_tear_down(&other_state);
}

/* A backup has no log, so a log beside it is that of another folder. After it is removed one begins
 * behind the places of the tables. proves: missing-log */
static void test_damage_backup_with_a_log(void **state)
{
    struct damage_fixture *fixture = *state;
    struct diskwheel_options options = testing_options(&fixture->killed, PARTITIONS);
    struct storage_backup backup;
    struct storage_place place;
    char log[300];

    damage_write(&fixture->node, 1, 10);
    testing_folder_remove(&fixture->killed);
    assert_int_equal(storage_backup(fixture->node.storage, fixture->killed.path, &backup, NULL),
                     ERROR_NONE);
    testing_copy_log(&fixture->folder, &fixture->killed);
    assert_damage_refused(fixture, "holds writes of tables that are not here");
    files_remove_folder(testing_log_of(&fixture->killed, log));
    assert_damage_starts(fixture, 10);
    struct replays copy = {.options = options};
    replays_open(&copy);
    for (uint16_t p = 0; p < PARTITIONS; p++) {
        assert_int_equal(storage_load_place(copy.storage, p, &place, NULL), ERROR_NONE);
        assert_int_equal(place.next, 11);
    }
    damage_write(&copy, 11, 10);
    replays_close(&copy);
    assert_damage_starts(fixture, 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, damage_set_up, damage_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_damage_log_missing),    TEST(test_damage_of_a_record),
        TEST(test_damage_older_log),      TEST(test_damage_young_older_log),
        TEST(test_damage_log_of_another), TEST(test_damage_backup_with_a_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
