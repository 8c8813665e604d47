/* Goal: the embedded storage refuses a folder that is not its own, forgets what is over for long,
 * keeps what is damaged, and is right at every moment while others write. Method: small folders,
 * records written past the storage, and threads. Bad disks are in rocksdb_disk_test.c. */
#include "store/rocksdb_store.h"
#include "store/storage_testing.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <sched.h>

enum { PARTITIONS = 2 };

#define HOUR_MS UINT64_C(3600000)

static const struct storage_meta no_meta;

struct rocksdb_fixture {
    struct testing_folder folder;
    struct rocksdb_options options;
    struct storage *storage;
};

static int rocksdb_set_up(void **state)
{
    struct rocksdb_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, PARTITIONS);
    fixture->storage = testing_open(&fixture->options);
    *state = fixture;
    return 0;
}

static int rocksdb_tear_down(void **state)
{
    struct rocksdb_fixture *fixture = *state;

    storage_close(fixture->storage);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static void reopen_rocksdb(struct rocksdb_fixture *fixture)
{
    storage_close(fixture->storage);
    fixture->storage = testing_open(&fixture->options);
}

/* ---- past the storage ---- */

static void put_raw(struct rocksdb_fixture *fixture, enum store_table table, struct bytes key,
                    struct bytes value)
{
    struct rocksdb_store *store = store_of(fixture->storage);
    rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
    char *text = NULL;

    testing_settle(fixture->storage);
    rocksdb_put_cf(store->db, options, store->tables[table], key.data, key.size, value.data,
                   value.size, &text);
    assert_null(text);
    rocksdb_writeoptions_destroy(options);
}

static size_t count_raw(struct rocksdb_fixture *fixture, enum store_table table)
{
    struct rocksdb_store *store = store_of(fixture->storage);

    testing_settle(fixture->storage);
    rocksdb_iterator_t *rows =
        rocksdb_create_iterator_cf(store->db, store->point_options, store->tables[table]);
    size_t count = 0;

    for (rocksdb_iter_seek_to_first(rows); rocksdb_iter_valid(rows); rocksdb_iter_next(rows))
        count++;
    rocksdb_iter_destroy(rows);
    return count;
}

static void rocksdb_compact(struct rocksdb_fixture *fixture)
{
    struct rocksdb_store *store = store_of(fixture->storage);

    testing_settle(fixture->storage);
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        rocksdb_compact_range_cf(store->db, store->tables[i], NULL, 0, NULL, 0);
}

static struct store_key row_key(const struct timer *timer)
{
    return store_row_key(record_row_key(timer->id.partition,
                                        (struct storage_position){timer->at, timer->id.serial}));
}

static uint64_t rocksdb_corrupt_count(struct rocksdb_fixture *fixture)
{
    struct storage_stats stats;

    storage_stats(fixture->storage, &stats);
    return stats.corrupt_records;
}

static void rocksdb_write_over(struct rocksdb_fixture *fixture, uint64_t serial, uint64_t moved_to,
                               uint64_t ended)
{
    struct timer *timer = testing_timer(0, serial, 1000);

    testing_write(fixture->storage, timer, 0, no_meta);
    timer->at.ms = moved_to;
    testing_write(fixture->storage, timer, 1000, no_meta);
    timer->state = TIMER_FIRED;
    timer->ended.ms = ended;
    testing_write(fixture->storage, timer, moved_to, no_meta);
    timer_free(timer);
}

/* ---- whose folder is it ---- */

static void assert_rocksdb_refused(const struct rocksdb_options *options, enum error_code code,
                                   const char *part)
{
    struct storage *storage = NULL;
    struct error error = {0};

    assert_int_equal(rocksdb_storage_open(options, &storage, &error), code);
    assert_null(storage);
    if (!strstr(error.text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
}

static void test_rocksdb_in_use(void **state)
{
    struct rocksdb_fixture *fixture = *state;

    assert_rocksdb_refused(&fixture->options, ERROR_IO, "is in use by another process");
    reopen_rocksdb(fixture);
}

/* proves: partitions (beyond) */
static void test_other_partition_count(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct rocksdb_options other = fixture->options;

    storage_close(fixture->storage);
    other.partition_count = PARTITIONS + 1;
    assert_rocksdb_refused(&other, ERROR_INVALID,
                           "was made with 2 partitions and cannot be opened with 3");
    fixture->storage = testing_open(&fixture->options);
}

/* Removes one table. */
static bool remove_one(void *context, const struct files_entry *entry)
{
    if (!strstr(entry->name, ".sst"))
        return true;
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", ((struct rocksdb_fixture *)context)->folder.path,
             entry->name);
    assert_int_equal(unlink(path), 0);
    return false;
}

/* A start that is refused leaves what the next start needs to notice a missing file. */
static void assert_mark_holds(struct rocksdb_fixture *fixture)
{
    assert_int_equal(files_list(fixture->folder.path, remove_one, fixture, NULL), ERROR_NONE);
    assert_rocksdb_refused(&fixture->options, ERROR_CORRUPT, "is missing since the last stop");
}

static void test_refusal_keeps_mark(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct rocksdb_options other = fixture->options;

    testing_write_meta(fixture->storage, 0, no_meta);
    storage_close(fixture->storage); /* what waits becomes a table */
    fixture->storage = NULL;
    other.partition_count = PARTITIONS + 1;
    assert_rocksdb_refused(&other, ERROR_INVALID, "cannot be opened with 3");
    assert_mark_holds(fixture);
}

/* A table of zeros cannot be mended. */
static bool spoil_one(void *context, const struct files_entry *entry)
{
    if (!strstr(entry->name, ".sst"))
        return true;
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", ((struct rocksdb_fixture *)context)->folder.path,
             entry->name);
    char *zeros = calloc(1, entry->bytes);
    assert_int_equal(files_write(path, (struct bytes){zeros, entry->bytes}, NULL), ERROR_NONE);
    free(zeros);
    return false;
}

static void test_damage_keeps_mark(void **state)
{
    struct rocksdb_fixture *fixture = *state;

    reopen_rocksdb(fixture);
    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_int_equal(files_list(fixture->folder.path, spoil_one, fixture, NULL), ERROR_NONE);
    assert_rocksdb_refused(&fixture->options, ERROR_CORRUPT, "is damaged; restore a backup");
    assert_mark_holds(fixture);
}

static void test_newer_format(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct buffer number;

    buffer_init(&number);
    record_number_encode(&number, STORE_KEY_FORMAT, RECORD_FORMAT + 1);
    put_raw(fixture, STORE_META, STORE_KEY_FORMAT, buffer_bytes(&number));
    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_rocksdb_refused(&fixture->options, ERROR_INVALID,
                           "newer version: its format is 10, ours 9");
    buffer_deinit(&number);
}

/* A start refuses an older format in the tables each time, and says what to do. */
static void test_older_format(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct buffer number;

    buffer_init(&number);
    record_number_encode(&number, STORE_KEY_FORMAT, RECORD_FORMAT - 1);
    put_raw(fixture, STORE_META, STORE_KEY_FORMAT, buffer_bytes(&number));
    storage_close(fixture->storage);
    fixture->storage = NULL;
    for (int i = 0; i < 2; i++)
        assert_rocksdb_refused(&fixture->options, ERROR_INVALID,
                               "older version: its format is 8, ours 9. Run `tickwheel export`");
    buffer_deinit(&number);
}

static void test_newer_table(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    rocksdb_options_t *options = rocksdb_options_create();
    char *text = NULL;

    rocksdb_column_family_handle_destroy(
        rocksdb_create_column_family(store_of(fixture->storage)->db, options, "later", &text));
    assert_null(text);
    rocksdb_options_destroy(options);
    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_rocksdb_refused(&fixture->options, ERROR_INVALID,
                           "newer version: it has a table \"later\"");
}

static void test_damaged_format(void **state)
{
    struct rocksdb_fixture *fixture = *state;

    put_raw(fixture, STORE_META, STORE_KEY_PARTITIONS, BYTES("\1garbage"));
    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_rocksdb_refused(&fixture->options, ERROR_CORRUPT, "checksum");
}

static void test_folders(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct rocksdb_options options = fixture->options;
    char path[300];

    snprintf(path, sizeof(path), "%s/a/b/c", fixture->folder.path);
    options.folder = path;
    struct storage *storage = testing_open(&options); /* made with all above it */
    storage_close(storage);
    snprintf(path, sizeof(path), "%s/file", fixture->folder.path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_rocksdb_refused(&options, ERROR_IO, path);
}

/* ---- retention ---- */

static void test_retention(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    uint64_t now = wall_now().ms;
    struct timer *alive = testing_timer(0, 9, 1000);

    fixture->options.retain_ms = HOUR_MS;
    reopen_rocksdb(fixture);
    rocksdb_write_over(fixture, 1, 1000, now - 2 * HOUR_MS); /* at home, forgotten */
    rocksdb_write_over(fixture, 2, 2000, now - 2 * HOUR_MS); /* moved, forgotten */
    rocksdb_write_over(fixture, 3, 2000, now);               /* moved, kept */
    testing_write(fixture->storage, alive, 0, no_meta);
    alive->at.ms = 2000;
    testing_write(fixture->storage, alive, 1000, no_meta);
    for (int round = 0; round < 2; round++) {
        testing_assert_not_found(fixture->storage, &(struct timer_id){{1000}, 0, 1},
                                 ERROR_NOT_FOUND);
        testing_assert_not_found(fixture->storage, &(struct timer_id){{1000}, 0, 2},
                                 ERROR_NOT_FOUND);
        testing_assert_found(fixture->storage, alive, 2000);
        struct storage_page page = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_ALL, 10);
        assert_int_equal(page.count, 2);
        assert_true(page.timers[0]->id.serial == 3 && page.timers[1]->id.serial == 9);
        storage_page_free(&page);
        assert_int_equal(count_raw(fixture, STORE_TIMERS), round ? 2 : 4);
        assert_int_equal(count_raw(fixture, STORE_MOVED), round ? 2 : 3);
        rocksdb_compact(fixture);
    }
    assert_int_equal(rocksdb_corrupt_count(fixture), 0);
    timer_free(alive);
}

/* What is damaged is not forgotten, however old it says it is. */
static void test_retention_of_damage(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct timer *timer = testing_timer(0, 1, 1000);
    struct store_key key = row_key(timer);

    fixture->options.retain_ms = HOUR_MS;
    reopen_rocksdb(fixture);
    struct buffer value;
    buffer_init(&value);
    record_row_encode(&value, record_row_key(0, (struct storage_position){{1000}, 1}), timer);
    value.data[1] = TIMER_FIRED; /* a live timer whose state was hit */
    put_raw(fixture, STORE_TIMERS, (struct bytes){key.data, key.size}, buffer_bytes(&value));
    rocksdb_compact(fixture);
    assert_int_equal(count_raw(fixture, STORE_TIMERS), 1);
    struct storage_page page = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_LIVE, 10);
    assert_int_equal(page.count, 0);
    assert_int_equal(rocksdb_corrupt_count(fixture), 1);
    storage_page_free(&page);
    buffer_deinit(&value);
    timer_free(timer);
}

/* ---- touches ---- */

static void touch(struct rocksdb_fixture *fixture, struct timer *timer, uint64_t due_ms)
{
    struct storage_write write = {.timer = timer, .was_at = timer->at, .is_touch = true};
    struct storage_batch batch = {
        .partition = timer->id.partition, .writes = &write, .write_count = 1};
    struct storage_batch *const batches[] = {&batch};

    timer->due.ms = due_ms;
    timer->version++;
    assert_int_equal(storage_write(fixture->storage, batches, 1, NULL), ERROR_NONE);
}

/* The bytes of a row, without touches. */
static size_t row_bytes(struct rocksdb_fixture *fixture, const struct timer *timer)
{
    const struct store_key key = row_key(timer);
    struct buffer value;

    buffer_init(&value);
    assert_int_equal(store_get(store_of(fixture->storage), STORE_TIMERS, NULL,
                               (struct bytes){key.data, key.size}, &value, NULL),
                     ERROR_NONE);
    size_t size = value.size;
    buffer_deinit(&value);
    return size;
}

/* Touches hold in memory, in files, behind a compaction and after a start, more of them than are
 * kept one after the other; a row that is over, moved or written anew leaves them behind. */
static void test_touches(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct timer *timer = testing_timer(0, 5, 1000);

    testing_write(fixture->storage, timer, 0, no_meta);
    for (uint64_t n = 1; n <= 200; n++) {
        touch(fixture, timer, 1000 + n);
        testing_assert_found(fixture->storage, timer, 1000);
        if (n % 50 == 0)
            rocksdb_compact(fixture);
        if (n % 70 == 0)
            reopen_rocksdb(fixture);
    }
    size_t size = row_bytes(fixture, timer);
    timer->at = timer->due;
    testing_write(fixture->storage, timer, 1000, no_meta); /* moved on */
    testing_assert_found(fixture->storage, timer, 1200);
    assert_int_equal(row_bytes(fixture, timer), size); /* it has `first` now, and no `due` */
    touch(fixture, timer, 9000);
    timer->state = TIMER_CANCELLED;
    timer->ended = wall_now();
    testing_write(fixture->storage, timer, 1200, no_meta);
    rocksdb_compact(fixture);
    testing_assert_found(fixture->storage, timer, 1200);
    assert_int_equal(rocksdb_corrupt_count(fixture), 0);
    timer_free(timer);
}

/* One touch that has no row, or a damaged one, costs that timer, and no other and no file. */
static void test_touch_of_damage(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct timer *lost = testing_timer(0, 5, 1000), *damaged = testing_timer(0, 6, 1000);
    struct timer *right = testing_timer(0, 7, 1000);
    struct store_key key = row_key(damaged);

    testing_write(fixture->storage, right, 0, no_meta);
    put_raw(fixture, STORE_TIMERS, (struct bytes){key.data, key.size}, BYTES("\1garbage"));
    touch(fixture, lost, 2000);
    touch(fixture, damaged, 2000);
    touch(fixture, right, 2000);
    rocksdb_compact(fixture);
    struct storage_page page = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_LIVE, 10);
    assert_int_equal(page.count, 1);
    storage_page_free(&page);
    assert_int_equal(rocksdb_corrupt_count(fixture), 2);
    testing_assert_not_found(fixture->storage, &lost->id, ERROR_CORRUPT);
    testing_assert_found(fixture->storage, right, 1000);
    timer_free(lost);
    timer_free(damaged);
    timer_free(right);
}

/* ---- damage ---- */

static void test_quarantine(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct timer *timer = testing_timer(1, 5, 1000);
    struct store_key key = row_key(timer);
    struct bytes garbage = BYTES("\1\0not a record, and to be kept as it is");
    char aside[1 + RECORD_ROW_SIZE] = "t";

    testing_write(fixture->storage, timer, 0, no_meta);
    put_raw(fixture, STORE_TIMERS, (struct bytes){key.data, key.size}, garbage);
    put_raw(fixture, STORE_TIMERS, (struct bytes){key.data, 9}, garbage); /* no keys of ours */
    put_raw(fixture, STORE_TIMERS, BYTES("\0\1 and so on, longer than any"), garbage);
    struct storage_page page = testing_scan_all(fixture->storage, 1, STORAGE_SCAN_LIVE, 10);
    assert_int_equal(page.count, 0);
    storage_page_free(&page);
    assert_int_equal(rocksdb_corrupt_count(fixture), 3);
    assert_int_equal(count_raw(fixture, STORE_TIMERS), 0);
    assert_int_equal(count_raw(fixture, STORE_QUARANTINE), 3);
    memcpy(aside + 1, key.data, key.size);
    struct buffer kept;
    buffer_init(&kept);
    assert_int_equal(store_get(store_of(fixture->storage), STORE_QUARANTINE, NULL,
                               (struct bytes){aside, sizeof(aside)}, &kept, NULL),
                     ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&kept), garbage));
    buffer_deinit(&kept);
    reopen_rocksdb(fixture);
    assert_int_equal(rocksdb_corrupt_count(fixture), 3);
    testing_assert_not_found(fixture->storage, &timer->id, ERROR_CORRUPT);
    timer_free(timer);
}

static void test_damaged_pointer(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct timer *timer = testing_timer(1, 5, 1000);
    struct store_key key = store_pointer_key(record_pointer_key(1, 5));

    testing_write(fixture->storage, timer, 0, no_meta);
    timer->at.ms = 2000;
    testing_write(fixture->storage, timer, 1000, no_meta);
    put_raw(fixture, STORE_MOVED, (struct bytes){key.data, key.size}, BYTES("\1garbage"));
    for (int round = 0; round < 2; round++) {
        testing_assert_not_found(fixture->storage, &timer->id, ERROR_CORRUPT);
        assert_int_equal(rocksdb_corrupt_count(fixture), 1);
        /* Its address is lost, but not the timer: it will ring. */
        struct storage_page page = testing_scan_all(fixture->storage, 1, STORAGE_SCAN_LIVE, 10);
        assert_int_equal(page.count, 1);
        storage_page_free(&page);
        reopen_rocksdb(fixture);
    }
    timer->at.ms = 3000;
    testing_write(fixture->storage, timer, 2000, no_meta);
    testing_assert_found(fixture->storage, timer, 3000);
    timer_free(timer);
}

static void test_damaged_meta(void **state)
{
    struct rocksdb_fixture *fixture = *state;
    struct store_key key = store_meta_key(1);

    put_raw(fixture, STORE_META, (struct bytes){key.data, key.size}, BYTES("\1garbage"));
    reopen_rocksdb(fixture); /* the other partitions are none the worse */
    struct storage_meta meta;
    assert_int_equal(storage_load_meta(fixture->storage, 0, &meta, NULL), ERROR_NONE);
    struct error error;
    assert_int_equal(storage_load_meta(fixture->storage, 1, &meta, &error), ERROR_CORRUPT);
    testing_write_meta(fixture->storage, 1, no_meta);
    assert_int_equal(storage_load_meta(fixture->storage, 1, &meta, &error), ERROR_NONE);
}

/* Counts of tenants that were damaged are made anew, all of them, and are right from then on. */
static void test_damaged_tenant_counts(void **state)
{
    static const char *const names[] = {"shop", "rival"};
    struct rocksdb_fixture *fixture = *state;
    struct store_tenant_key key = store_tenant_key(1, BYTES("shop"));

    for (uint64_t serial = 1; serial <= 6; serial++) {
        struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                    .tenant = bytes_of(names[serial % 2])};
        struct timer *timer = timer_alloc(&texts);

        timer->id = (struct timer_id){{100}, (uint16_t)(serial == 6 ? 0 : 1), serial};
        timer->due.ms = timer->at.ms = 100;
        testing_write(fixture->storage, timer, 0, no_meta);
        if (serial == 1) {
            timer->state = TIMER_FIRED;
            testing_write(fixture->storage, timer, 100, no_meta);
        }
        timer_free(timer);
    }
    for (int round = 0; round < 4; round++) {
        if (round == 1)
            put_raw(fixture, STORE_META, (struct bytes){key.data, key.size}, BYTES("\1garbage"));
        if (round == 2)
            put_raw(fixture, STORE_META, BYTES("t"), BYTES("\1garbage"));
        reopen_rocksdb(fixture);
        struct tenant_counts tenant_counts;
        tenant_counts_init(&tenant_counts);
        assert_int_equal(storage_load_tenant_counts(fixture->storage, 1, &tenant_counts, NULL),
                         ERROR_NONE);
        assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("shop")), 2);
        assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("rival")), 2);
        assert_int_equal(storage_load_tenant_counts(fixture->storage, 0, &tenant_counts, NULL),
                         ERROR_NONE);
        assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("shop")), 3);
        tenant_counts_deinit(&tenant_counts);
        testing_write_meta(fixture->storage, 1, no_meta);
    }
}

/* ---- reading while writing ---- */

struct race {
    struct rocksdb_fixture *fixture;
    struct timer_id id;
    atomic_bool is_over;
};

/* The timer is there at every moment, wherever it is. */
static void *find_on_and_on(void *argument)
{
    struct race *race = argument;
    uintptr_t found = 0;

    do {
        struct timer *timer;
        struct storage_scan scan = {.to = {WALL_NEVER, 0}, .rows_max = 10, .bytes_max = 1 << 20};

        if (storage_find(race->fixture->storage, &race->id, &timer, NULL))
            return NULL;
        timer_free(timer);
        struct storage_page page;
        if (storage_scan(race->fixture->storage, &scan, &page, NULL))
            return NULL;
        found += page.count == 1;
        storage_page_free(&page);
    } while (!atomic_load(&race->is_over));
    return (void *)found;
}

static void test_find_while_moving(void **state)
{
    struct race race = {.fixture = *state};
    struct timer *timer = testing_timer(0, 1, 1000);

    race.id = timer->id;
    testing_write(race.fixture->storage, timer, 0, no_meta);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_on_and_on, &race), 0);
    for (uint64_t i = 0; i < 4000; i++) {
        uint64_t was_at = timer->at.ms;
        timer->at.ms = 1000 + i % 3; /* home every third time */
        testing_write(race.fixture->storage, timer, was_at, no_meta);
    }
    atomic_store(&race.is_over, true);
    void *found[2];
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], &found[i]);
    assert_true(found[0] && found[1]);
    timer_free(timer);
}

static void *find_whatever_is_there(void *argument)
{
    struct race *race = argument;

    while (!atomic_load(&race->is_over)) {
        struct timer *timer;

        if (!storage_find(race->fixture->storage, &race->id, &timer, NULL))
            timer_free(timer);
    }
    return NULL;
}

/* What a reader found damaged may be whole again when it comes to set it aside. */
static void test_write_over_damage(void **state)
{
    struct race race = {.fixture = *state};
    struct timer *timer = testing_timer(0, 1, 1000);
    struct store_key key = row_key(timer);

    race.id = timer->id;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, find_whatever_is_there, &race), 0);
    for (int i = 0; i < 3000; i++) {
        put_raw(race.fixture, STORE_TIMERS, (struct bytes){key.data, key.size}, BYTES("garbage"));
        if (i % 2)
            sched_yield();
        testing_write(race.fixture->storage, timer, 1000, no_meta);
        testing_assert_found(race.fixture->storage, timer, 1000);
    }
    atomic_store(&race.is_over, true);
    pthread_join(thread, NULL);
    testing_assert_found(race.fixture->storage, timer, 1000);
    assert_true(rocksdb_corrupt_count(race.fixture) > 0);
    timer_free(timer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rocksdb_set_up, rocksdb_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rocksdb_in_use),
        TEST(test_other_partition_count),
        TEST(test_refusal_keeps_mark),
        TEST(test_damage_keeps_mark),
        TEST(test_newer_format),
        TEST(test_older_format),
        TEST(test_newer_table),
        TEST(test_damaged_format),
        TEST(test_folders),
        TEST(test_retention),
        TEST(test_retention_of_damage),
        TEST(test_touches),
        TEST(test_touch_of_damage),
        TEST(test_quarantine),
        TEST(test_damaged_pointer),
        TEST(test_damaged_tenant_counts),
        TEST(test_damaged_meta),
        TEST(test_find_while_moving),
        TEST(test_write_over_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
