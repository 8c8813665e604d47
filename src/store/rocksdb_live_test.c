/* Goal: a folder of a killed process is opened with every acknowledged timer, and refused when its
 * log lacks one; a folder of an older version is taken over. Method: the files of an open database
 * are copied, as a kill would leave them; of the copy files are removed, or exchanged for those of
 * another copy. What waits to be applied waits while the threads that apply it are stopped. */
#include "base/checksum.h"
#include "store/rocksdb_check.h"
#include "store/rocksdb_store.h"
#include "store/storage_testing.h"
#include "sys/files.h"

#include <sys/stat.h>

static const struct storage_meta live_meta = {.epoch = 1};

enum { LIVE_SEGMENT_BYTES = 8 << 10 };

struct live_fixture {
    struct testing_folder folder, killed;
    struct rocksdb_options options;
    struct storage *storage;
    char newest[900]; /* segment of the copy's log */
    size_t segments;
};

static int live_set_up(void **state)
{
    struct live_fixture *fixture = calloc(1, sizeof(*fixture));

    testing_folder_make(&fixture->folder);
    testing_folder_make(&fixture->killed);
    fixture->options = testing_options(&fixture->folder, 1);
    fixture->options.segment_bytes = LIVE_SEGMENT_BYTES;
    fixture->storage = testing_open(&fixture->options);
    *state = fixture;
    return 0;
}

static int live_tear_down(void **state)
{
    struct live_fixture *fixture = *state;

    storage_close(fixture->storage);
    testing_folder_remove(&fixture->folder);
    testing_folder_remove(&fixture->killed);
    free(fixture);
    return 0;
}

static void live_write(struct live_fixture *fixture, uint64_t from, uint64_t count)
{
    for (uint64_t serial = from; serial < from + count; serial++) {
        struct timer *timer = testing_timer(0, serial, 1000 + serial);

        testing_write(fixture->storage, timer, 0, live_meta);
        timer_free(timer);
    }
}

/* ---- kills ---- */

struct live_copy {
    struct live_fixture *fixture;
    char from[600], to[600];
};

static bool live_copy_one(void *context, const struct files_entry *entry)
{
    struct live_copy *copy = context;
    struct live_fixture *fixture = copy->fixture;
    char from[900], to[900];

    if (entry->is_folder)
        return true;
    snprintf(from, sizeof(from), "%s/%s", copy->from, entry->name);
    snprintf(to, sizeof(to), "%s/%s", copy->to, entry->name);
    assert_int_equal(files_copy(from, to, NULL), ERROR_NONE);
    if (entry->name[0] == '0' && strstr(entry->name, ".segment")) {
        fixture->segments++;
        if (strcmp(to, fixture->newest) > 0)
            snprintf(fixture->newest, sizeof(fixture->newest), "%s", to);
    }
    return true;
}

/* Copies a folder, or one in it, to one that is empty or gone. */
static void live_copy_folder(struct live_fixture *fixture, const char *from, const char *to)
{
    struct live_copy copy = {.fixture = fixture};

    snprintf(copy.from, sizeof(copy.from), "%s", from);
    snprintf(copy.to, sizeof(copy.to), "%s", to);
    assert_int_equal(files_make_folder(to, NULL), ERROR_NONE);
    assert_int_equal(files_list(from, live_copy_one, &copy, NULL), ERROR_NONE);
}

static const char *live_log_of(const struct testing_folder *folder, char path[600])
{
    snprintf(path, 600, "%s/" FOLDER_LOG_NAME, folder->path);
    return path;
}

/* The log is copied last: it has what the tables have, and may have more. */
static void live_kill(struct live_fixture *fixture)
{
    char from[600], to[600];

    testing_folder_remove(&fixture->killed);
    fixture->segments = 0;
    fixture->newest[0] = '\0';
    live_copy_folder(fixture, fixture->folder.path, fixture->killed.path);
    live_copy_folder(fixture, live_log_of(&fixture->folder, from),
                     live_log_of(&fixture->killed, to));
    fixture->options.folder = fixture->killed.path;
}

static void assert_live_refused(struct live_fixture *fixture, const char *part)
{
    struct storage *storage = NULL;
    struct error error = {.text = ""};

    assert_int_equal(rocksdb_storage_open(&fixture->options, &storage, &error), ERROR_CORRUPT);
    if (!strstr(error.text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
}

static void assert_live_check_refused(struct live_fixture *fixture, const char *part)
{
    struct rocksdb_check check = {.told = NULL};
    struct error error = {.text = ""};

    assert_int_equal(rocksdb_check(fixture->killed.path, &check, &error), ERROR_CORRUPT);
    if (!strstr(error.text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
    rocksdb_check_deinit(&check);
}

static void assert_live_timers(struct live_fixture *fixture, size_t count)
{
    struct storage *storage = testing_open(&fixture->options);
    struct storage_page all = testing_scan_all(storage, 0, STORAGE_SCAN_LIVE, 256);

    assert_int_equal(all.count, count);
    storage_page_free(&all);
    storage_close(storage);
}

/* proves: create-durable */
static void test_live_killed(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_check check = {.told = NULL};

    for (uint64_t serial = 1; serial < 600; serial += 100) {
        live_write(fixture, serial, 100);
        live_kill(fixture);
        check = (struct rocksdb_check){.told = NULL};
        assert_int_equal(rocksdb_check(fixture->killed.path, &check, NULL), ERROR_NONE);
        assert_int_equal(check.findings, 0);
        assert_int_equal(check.partitions[0].live, serial + 99); /* in tables and log */
        rocksdb_check_deinit(&check);
        assert_live_timers(fixture, serial + 99);
        assert_live_timers(fixture, serial + 99);
    }
}

/* proves: missing-log */
static void test_live_log_missing(void **state)
{
    struct live_fixture *fixture = *state;
    char path[600];

    live_write(fixture, 1, 10);
    live_kill(fixture);
    files_remove_folder(live_log_of(&fixture->killed, path));
    assert_live_refused(fixture, "storage_damage = skip");
    fixture->options.damage = ROCKSDB_DAMAGE_SKIP;
    assert_live_timers(fixture, 0);
    fixture->options.damage = ROCKSDB_DAMAGE_REFUSE; /* once is enough */
    assert_live_timers(fixture, 0);
}

/* proves: missing-log */
static void test_live_last_segment_missing(void **state)
{
    struct live_fixture *fixture = *state;
    uint64_t serial = 1;

    do {
        live_write(fixture, serial, 10);
        serial += 10;
        live_kill(fixture);
    } while (fixture->segments < 2 && serial < 10000);
    assert_true(fixture->segments > 1);
    assert_int_equal(unlink(fixture->newest), 0);
    assert_live_refused(fixture, ".segment");
    fixture->options.damage = ROCKSDB_DAMAGE_SKIP;
    struct storage *storage = testing_open(&fixture->options);
    struct storage_stats stats;
    storage_stats(storage, &stats);
    assert_non_null(strstr(stats.found, ".segment"));
    storage_close(storage);
}

/* proves: missing-log */
static void test_live_segment_cut(void **state)
{
    struct live_fixture *fixture = *state;

    live_write(fixture, 1, 10);
    live_kill(fixture);
    assert_int_equal(truncate(fixture->newest, 100), 0);
    assert_live_refused(fixture, ".segment");
}

/* The tables hold what the log does not: it is an older copy of the log. proves: missing-log */
static void test_live_older_log(void **state)
{
    struct live_fixture *fixture = *state;
    struct testing_folder away;
    char log[600];

    testing_folder_make(&away);
    live_write(fixture, 1, 10);
    live_copy_folder(fixture, live_log_of(&fixture->folder, log), away.path);
    live_write(fixture, 11, 10);
    storage_close(fixture->storage); /* brings all into the tables */
    fixture->storage = testing_open(&fixture->options);
    live_kill(fixture);
    files_remove_folder(live_log_of(&fixture->killed, log));
    live_copy_folder(fixture, away.path, log);
    assert_live_refused(fixture, "log");
    fixture->options.damage = ROCKSDB_DAMAGE_SKIP;
    assert_live_timers(fixture, 20);
    testing_folder_remove(&away);
}

/* proves: missing-log */
static void test_live_log_of_another(void **state)
{
    struct live_fixture *fixture = *state;
    struct live_fixture *other;
    void *other_state;
    char from[600], to[600];

    live_set_up(&other_state);
    other = other_state;
    live_write(fixture, 1, 10);
    storage_close(fixture->storage);
    fixture->storage = testing_open(&fixture->options);
    live_write(other, 101, 20);
    live_kill(fixture);
    files_remove_folder(live_log_of(&fixture->killed, to));
    live_copy_folder(fixture, live_log_of(&other->folder, from), to);
    assert_live_refused(fixture, "is the log of another data folder");
    snprintf(from, sizeof(from), "%s/" FOLDER_IDENTITY_NAME, fixture->killed.path);
    assert_int_equal(unlink(from), 0); /* as in a folder of an older version: the mark shows it */
    assert_live_refused(fixture, "is not the log of these tables");
    fixture->options.damage = ROCKSDB_DAMAGE_SKIP;
    assert_live_timers(fixture, 10);
    fixture->options.damage = ROCKSDB_DAMAGE_REFUSE;
    assert_live_timers(fixture, 10);
    live_tear_down(&other_state);
}

/* No table was written yet, so nothing in the tables shows whose log it is. proves: missing-log */
static void test_live_young_folder(void **state)
{
    struct live_fixture *fixture = *state, *other;
    void *other_state;
    char from[600], to[600];

    live_set_up(&other_state);
    other = other_state;
    live_write(fixture, 1, 10);
    live_write(other, 101, 20);
    live_kill(fixture);
    files_remove_folder(live_log_of(&fixture->killed, to));
    live_copy_folder(fixture, live_log_of(&other->folder, from), to);
    assert_live_refused(fixture, "is the log of another data folder");
    assert_live_check_refused(fixture, "is the log of another data folder");
    fixture->options.damage = ROCKSDB_DAMAGE_SKIP;
    struct storage *storage = testing_open(&fixture->options);
    struct storage_stats stats;
    storage_stats(storage, &stats);
    assert_int_equal(stats.lost_writes, 10);
    assert_non_null(strstr(stats.found, "another data folder"));
    storage_close(storage);
    fixture->options.damage = ROCKSDB_DAMAGE_REFUSE; /* once is enough */
    assert_live_timers(fixture, 0);
    live_tear_down(&other_state);
}

/* How far the log had come is known without a table: an older copy of it ends before. So does a
 * copy from before the first record. proves: missing-log */
static void test_live_young_older_log(void **state)
{
    struct live_fixture *fixture = *state;
    struct testing_folder copies[2];
    char log[600];

    for (uint64_t i = 0; i < 2; i++) {
        testing_folder_make(&copies[i]);
        live_copy_folder(fixture, live_log_of(&fixture->folder, log), copies[i].path);
        live_write(fixture, 10 * i + 1, 10);
    }
    for (uint64_t i = 0; i < 2; i++) {
        struct storage_stats stats;

        live_kill(fixture);
        files_remove_folder(live_log_of(&fixture->killed, log));
        live_copy_folder(fixture, copies[i].path, log);
        assert_live_refused(fixture, "records up to 20 were in it");
        assert_live_check_refused(fixture, "records up to 20 were in it");
        fixture->options.damage = ROCKSDB_DAMAGE_SKIP;
        struct storage *storage = testing_open(&fixture->options);
        storage_stats(storage, &stats);
        assert_int_equal(stats.lost_writes, 20 - 10 * i);
        storage_close(storage);
        fixture->options.damage = ROCKSDB_DAMAGE_REFUSE;
        assert_live_timers(fixture, 10 * i);
        testing_folder_remove(&copies[i]);
    }
}

/* A backup has no log, so a log beside it is that of another folder. proves: missing-log */
static void test_live_backup_with_a_log(void **state)
{
    struct live_fixture *fixture = *state;
    struct storage_backup backup;
    char from[600], to[600];

    live_write(fixture, 1, 10);
    testing_folder_remove(&fixture->killed);
    assert_int_equal(storage_backup(fixture->storage, fixture->killed.path, &backup, NULL),
                     ERROR_NONE);
    live_copy_folder(fixture, live_log_of(&fixture->folder, from),
                     live_log_of(&fixture->killed, to));
    fixture->options.folder = fixture->killed.path;
    assert_live_refused(fixture, "holds writes of tables that are not here");
    assert_live_check_refused(fixture, "holds writes of tables that are not here");
    files_remove_folder(to);
    assert_live_timers(fixture, 10);
}

/* REACHED that a power cut has torn, or that is gone, holds up no start. */
static void test_live_reached_torn(void **state)
{
    struct live_fixture *fixture = *state;
    char path[600];

    live_write(fixture, 1, 10);
    for (int is_gone = 0; is_gone <= 1; is_gone++) {
        live_kill(fixture);
        snprintf(path, sizeof(path), "%s/" FOLDER_REACHED_NAME, fixture->killed.path);
        assert_int_equal(is_gone ? unlink(path) : truncate(path, 20), 0);
        assert_live_timers(fixture, 10);
        assert_live_timers(fixture, 10);
        fixture->options.folder = fixture->folder.path;
    }
}

/* A log that is not synced may end before, for the power took its end; it is known by its id. */
static void test_live_unsynced(void **state)
{
    struct live_fixture *fixture = *state;
    struct testing_folder away;
    char log[600];

    testing_folder_make(&away);
    storage_close(fixture->storage);
    fixture->options.sync = ROCKSDB_SYNC_NEVER;
    fixture->storage = testing_open(&fixture->options);
    live_write(fixture, 1, 10);
    live_copy_folder(fixture, live_log_of(&fixture->folder, log), away.path);
    live_write(fixture, 11, 10);
    live_kill(fixture);
    files_remove_folder(live_log_of(&fixture->killed, log));
    live_copy_folder(fixture, away.path, log);
    assert_live_timers(fixture, 10);
    testing_folder_remove(&away);
}

/* A folder of a version before FOLDER is taken as it is, and knows its log from then on. */
static void test_live_without_identity(void **state)
{
    struct live_fixture *fixture = *state;
    char path[600];

    live_write(fixture, 1, 10);
    live_kill(fixture);
    snprintf(path, sizeof(path), "%s/" FOLDER_IDENTITY_NAME, fixture->killed.path);
    assert_int_equal(unlink(path), 0);
    assert_live_timers(fixture, 10);
    assert_true(files_exists(path));
    snprintf(path, sizeof(path), "%s/" FOLDER_CLOSED_NAME, fixture->killed.path);
    assert_int_equal(unlink(path), 0);
    char from[600], to[600];
    files_remove_folder(live_log_of(&fixture->killed, to));
    live_copy_folder(fixture, live_log_of(&fixture->folder, from), to);
    assert_live_timers(fixture, 10);
}

/* The log does not grow for ever: it drops the records that files of tables hold. */
static void test_live_trimmed(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = store_of(fixture->storage);
    uint64_t serial = 1;

    for (; log_files_first(store->log.files) == 1 && serial < 100000; serial += 100)
        live_write(fixture, serial, 100);
    assert_true(log_files_first(store->log.files) > 1);
    live_kill(fixture);
    assert_live_timers(fixture, serial - 1);
}

/* A copy of the tables that is older than the log, which has the rest. */
static void test_live_older_tables(void **state)
{
    struct live_fixture *fixture = *state;
    char from[600], to[600];

    live_write(fixture, 1, 10);
    live_kill(fixture);
    live_write(fixture, 11, 10);
    files_remove_folder(live_log_of(&fixture->killed, to));
    live_copy_folder(fixture, live_log_of(&fixture->folder, from), to);
    assert_live_timers(fixture, 20);
}

/* ---- the tables follow the log ---- */

enum { FOLLOW_MEMTABLE_BYTES = 8 << 20, FOLLOW_QUEUE_BYTES = FOLLOW_MEMTABLE_BYTES / 8 };

/* Nothing is applied but by reads and full queues. */
static struct rocksdb_store *live_stop_applying(struct live_fixture *fixture)
{
    storage_close(fixture->storage);
    fixture->options.memtable_bytes = FOLLOW_MEMTABLE_BYTES;
    fixture->options.segment_bytes = 0;
    fixture->storage = testing_open(&fixture->options);
    store_queue_stop(store_of(fixture->storage));
    return store_of(fixture->storage);
}

/* proves: create-durable */
static void test_live_acknowledged_before_the_tables(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = live_stop_applying(fixture);

    live_write(fixture, 1, 100);
    assert_true(store->queue.written < store->queue.pushed);
    live_kill(fixture);
    assert_live_timers(fixture, 100);
    testing_settle(fixture->storage); /* a read applies what waits */
    assert_true(store->queue.written == store->queue.pushed && store->queue.bytes == 0);
}

/* The changes of a partition that follows a log wait in the queue, too, each with its place. */
static void test_live_followed_before_the_tables(void **state)
{
    struct live_fixture *fixture = *state;
    struct storage_place place = {.epoch = 1, .node = 1};
    struct timer *timer = testing_timer(0, 1, 1001);
    struct storage_write write = {.timer = timer};
    struct storage_batch batch = {.writes = &write, .write_count = 1, .meta = live_meta};
    struct storage_batch *const batches[] = {&batch};
    struct buffer body;

    testing_folder_remove(&fixture->killed);
    testing_folder_make(&fixture->killed);
    fixture->options.folder = fixture->killed.path;
    fixture->options.cluster = TESTING_CLUSTER;
    struct rocksdb_store *store = live_stop_applying(fixture);
    buffer_init(&body);
    assert_int_equal(storage_prepare(fixture->storage, batches, 1, &body, NULL), ERROR_NONE);
    const uint64_t written = store->queue.written;
    for (place.seq = 1; place.seq <= 2; place.seq++) { /* the second one only moves the place */
        place.next = place.seq;
        assert_int_equal(storage_apply(fixture->storage, 0,
                                       place.seq == 1 ? buffer_bytes(&body) : (struct bytes){0},
                                       &place, NULL),
                         ERROR_NONE);
    }
    buffer_deinit(&body);
    assert_int_equal(store->queue.written, written);
    assert_int_equal(store->queue.pushed, written + 2);
    assert_int_equal(storage_load_place(fixture->storage, 0, &place, NULL), ERROR_NONE);
    assert_int_equal(place.next, 2);
    testing_assert_found(fixture->storage, timer, 1001);
    assert_int_equal(store->queue.written, written + 2);
    timer_free(timer);
}

/* Of two changes of a timer that wait together, the tables get the older one first. */
static void test_live_applied_in_order(void **state)
{
    struct live_fixture *fixture = *state;
    struct timer *timer = testing_timer(0, 1, 1001);

    live_stop_applying(fixture);
    testing_write(fixture->storage, timer, 0, live_meta);
    for (uint32_t version = 2; version < 10; version++) {
        timer->version = version;
        testing_write(fixture->storage, timer, timer->at.ms, live_meta);
    }
    testing_assert_found(fixture->storage, timer, 1001);
    timer_free(timer);
}

/* What is written at a time is a part of the queue, and the mark says which: a kill behind it costs
 * nothing. proves: create-durable */
static void test_live_killed_between_two_writes(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = live_stop_applying(fixture);
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
    uint64_t count = 0;

    while (store->queue.bytes < FOLLOW_QUEUE_BYTES - (10 << 10))
        live_write(fixture, ++count, 1);
    assert_int_equal(store_apply_to(store, store->queue.written + 1, NULL), ERROR_NONE);
    assert_true(store->queue.written < store->queue.pushed);
    rocksdb_flushoptions_set_wait(options, 1);
    char *text = NULL;
    rocksdb_flush_cf(store->db, options, store->tables[STORE_TIMERS], &text);
    assert_null(text);
    rocksdb_flushoptions_destroy(options);
    live_kill(fixture);
    assert_live_timers(fixture, count);
}

/* proves: apply-queue */
static void test_live_queue_is_bounded(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = live_stop_applying(fixture);
    uint64_t count = 0;
    size_t bytes_max = 0;

    for (; store->applied < 2 * FOLLOW_QUEUE_BYTES / 100 && count < 100000; count++) {
        live_write(fixture, count + 1, 1);
        if (store->queue.bytes > bytes_max)
            bytes_max = store->queue.bytes;
    }
    assert_true(bytes_max > FOLLOW_QUEUE_BYTES / 2 && bytes_max < FOLLOW_QUEUE_BYTES + 1000);
    struct storage_page all = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_LIVE, 256);
    assert_int_equal(all.count, count);
    storage_page_free(&all);
}

/* A folder of format 5 has a log, and the start that raises the format needs its records. */
static void test_live_raised_with_its_log(void **state)
{
    struct live_fixture *fixture = *state;
    struct rocksdb_store *store = store_of(fixture->storage);
    rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
    struct buffer value;
    char *text = NULL;

    buffer_init(&value);
    record_number_encode(&value, STORE_KEY_FORMAT, 5);
    rocksdb_put_cf(store->db, options, store->tables[STORE_META], STORE_KEY_FORMAT.data,
                   STORE_KEY_FORMAT.size, value.data, value.size, &text);
    assert_null(text);
    live_write(fixture, 1, 10);
    storage_close(fixture->storage); /* brings the number into the tables */
    fixture->options.damage = ROCKSDB_DAMAGE_REFUSE;
    fixture->storage = testing_open(&fixture->options);
    live_write(fixture, 11, 10);
    live_kill(fixture);
    assert_live_timers(fixture, 20);
    rocksdb_writeoptions_destroy(options);
    buffer_deinit(&value);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, live_set_up, live_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_live_killed),
        TEST(test_live_log_missing),
        TEST(test_live_last_segment_missing),
        TEST(test_live_segment_cut),
        TEST(test_live_older_log),
        TEST(test_live_log_of_another),
        TEST(test_live_young_folder),
        TEST(test_live_young_older_log),
        TEST(test_live_backup_with_a_log),
        TEST(test_live_reached_torn),
        TEST(test_live_unsynced),
        TEST(test_live_without_identity),
        TEST(test_live_trimmed),
        TEST(test_live_older_tables),
        TEST(test_live_acknowledged_before_the_tables),
        TEST(test_live_followed_before_the_tables),
        TEST(test_live_applied_in_order),
        TEST(test_live_killed_between_two_writes),
        TEST(test_live_queue_is_bounded),
        TEST(test_live_raised_with_its_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
