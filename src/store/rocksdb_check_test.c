/* Goal: --check sees each kind of damage, and nothing wrong in a folder that is fine. Method: a
 * folder with timers of every kind; past the storage one thing in it is made wrong, and the
 * findings are compared with what they must say. Then the same for its files. */
#include "store/check_testing.h"
#include "store/rocksdb_store.h"
#include "store/storage_testing.h"

#include "sys/clock.h"
#include "sys/files.h"

#define PARTITIONS 2

static const struct storage_meta meta = {.epoch = 1, .watermark = {500}, .trim = {400}};

struct check_fixture {
    struct testing_folder folder;
    struct rocksdb_options options;
    struct storage *storage;
    struct storage_check check;
    char findings[8000];
};

static void tell(void *context, const char *finding)
{
    struct check_fixture *fixture = context;
    size_t size = strlen(fixture->findings);

    snprintf(fixture->findings + size, sizeof(fixture->findings) - size, "%s\n", finding);
}

/* Fills each partition with a timer at id.first, one with all names, one that was moved, one that
 * fired, and a dead letter. */
static void populate(struct check_fixture *fixture)
{
    const struct timer_texts texts = {.target = BYTES("http://127.0.0.1/x"),
                                      .payload = BYTES("1"),
                                      .key = BYTES("order-42"),
                                      .watch = BYTES("a\nb\n"),
                                      .tenant = BYTES("acme"),
                                      .request = BYTES("0123456789abcdefonce")};

    for (uint16_t partition = 0; partition < PARTITIONS; partition++) {
        struct timer *plain = testing_timer(partition, 1, 1000), *named = timer_alloc(&texts);

        testing_write(fixture->storage, plain, 0, meta);
        plain->id.serial = 2;
        testing_write(fixture->storage, plain, 0, meta);
        plain->at.ms = 3000;
        testing_write(fixture->storage, plain, 1000, meta);
        named->id = (struct timer_id){{2000}, partition, 3};
        named->due.ms = named->at.ms = 2000;
        testing_write(fixture->storage, named, 0, meta);
        for (uint64_t serial = 4; serial <= 5; serial++) {
            plain->id = (struct timer_id){{600}, partition, serial};
            plain->at.ms = plain->due.ms = 600;
            plain->state = TIMER_SCHEDULED;
            testing_write(fixture->storage, plain, 0, meta);
            plain->state = serial == 4 ? TIMER_FIRED : TIMER_DEAD;
            plain->ended = wall_now();
            testing_write(fixture->storage, plain, 600, meta);
        }
        timer_free(plain);
        timer_free(named);
    }
}

static int check_set_up(void **state)
{
    struct check_fixture *fixture = calloc(1, sizeof(*fixture));

    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, PARTITIONS);
    fixture->storage = testing_open(&fixture->options);
    populate(fixture);
    *state = fixture;
    return 0;
}

static int check_tear_down(void **state)
{
    struct check_fixture *fixture = *state;

    storage_close(fixture->storage);
    storage_check_deinit(&fixture->check);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static enum error_code check_look(struct check_fixture *fixture, struct error *ret_error)
{
    storage_close(fixture->storage);
    fixture->storage = NULL;
    storage_check_deinit(&fixture->check);
    fixture->check = (struct storage_check){.told = tell, .context = fixture};
    fixture->findings[0] = '\0';
    return testing_check(fixture->folder.path, &fixture->check, ret_error);
}

/* Checks that there are exactly `count` findings, and that one of them contains `part`. */
static void assert_finds(struct check_fixture *fixture, uint64_t count, const char *part)
{
    struct error error = {.text = ""};

    if (check_look(fixture, &error))
        fail_msg("%s", error.text);
    if (fixture->check.findings != count || !strstr(fixture->findings, part))
        fail_msg("%" PRIu64 " findings, not %" PRIu64 " with \"%s\":\n%s", fixture->check.findings,
                 count, part, fixture->findings);
}

/* ---- past the storage ---- */

static void put(struct check_fixture *fixture, enum store_table table, struct store_key key,
                struct buffer *value)
{
    struct rocksdb_store *store = store_of(fixture->storage);
    char *text = NULL;

    testing_settle(fixture->storage);
    if (value)
        rocksdb_put_cf(store->db, store->write_options, store->tables[table], key.data, key.size,
                       value->data, value->size, &text);
    else
        rocksdb_delete_cf(store->db, store->write_options, store->tables[table], key.data, key.size,
                          &text);
    assert_null(text);
    if (value)
        buffer_deinit(value);
}

static struct record_key row_at(uint16_t partition, uint64_t at, uint64_t serial)
{
    return record_row_key(partition, (struct storage_position){{at}, serial});
}

static void put_row(struct check_fixture *fixture, struct record_key key, struct timer *timer)
{
    struct buffer value;

    buffer_init(&value);
    record_row_encode(&value, key, timer);
    put(fixture, STORE_TIMERS, store_row_key(key), &value);
    timer_free(timer);
}

static void put_meta(struct check_fixture *fixture, const struct storage_meta *changed)
{
    struct buffer value;

    buffer_init(&value);
    record_meta_encode(&value, 1, changed);
    put(fixture, STORE_META, store_meta_key(1), &value);
}

static void put_garbage(struct check_fixture *fixture, enum store_table table, struct store_key key)
{
    struct buffer value;

    buffer_init(&value);
    buffer_append_text(&value, "\1garbage, and no record");
    put(fixture, table, key, &value);
}

static struct store_key check_key_of(const char *text)
{
    struct store_key key = {.size = strlen(text)};

    memcpy(key.data, text, key.size);
    return key;
}

static uint64_t hash_of(const char *name)
{
    return name_hash((struct name_space){1, BYTES("acme")}, NAME_KEY, bytes_of(name));
}

/* ---- what is fine ---- */

static void test_fine(void **state)
{
    struct check_fixture *fixture = *state;

    assert_finds(fixture, 0, "");
    for (size_t i = 0; i < PARTITIONS; i++) {
        const struct storage_check_partition *partition = &fixture->check.partitions[i];

        assert_int_equal(partition->live, 3);
        assert_int_equal(partition->over, 1);
        assert_int_equal(partition->dead, 1);
        assert_int_equal(partition->oldest.ms, 1000);
        assert_true(partition->bytes > 0);
    }
    assert_int_equal(fixture->check.pointers, PARTITIONS);
    assert_int_equal(fixture->check.names, 4 * PARTITIONS);
    assert_int_equal(fixture->check.format, RECORD_FORMAT);
    assert_true(fixture->check.was_closed);
}

/* ---- records ---- */

static void test_rows(void **state)
{
    struct check_fixture *fixture = *state;

    put_garbage(fixture, STORE_TIMERS, store_row_key(row_at(1, 1000, 1)));
    assert_finds(fixture, 1, "timers: partition 1, position 1000, serial 1: a record");
    assert_int_equal(fixture->check.partitions[1].damaged, 1);
    fixture->storage = testing_open(&fixture->options);
    put_garbage(fixture, STORE_TIMERS, check_key_of("short"));
    put_garbage(fixture, STORE_TIMERS, store_row_key(row_at(7, 1000, 1)));
    assert_finds(fixture, 3, "partition 7, position 1000, serial 1: there is no such partition");
    assert_non_null(strstr(fixture->findings, "timers: key 73686f7274: is no key of a row"));
    fixture->storage = testing_open(&fixture->options);
    struct timer *timer = testing_timer(1, 1, 1000);
    timer->version = 9; /* a good row at another's key */
    put_row(fixture, row_at(1, 1000, 1), timer);
    timer = testing_timer(0, 77, 300);
    put_row(fixture, row_at(0, 300, 77), timer);
    assert_finds(fixture, 4, "lives before the watermark 500");
    assert_non_null(
        strstr(fixture->findings, "partition 0: counts 3 live timers, and there are 4"));
}

/* A flipped bit in a payload, which only the checksum shows. */
static void test_flipped_bit(void **state)
{
    struct check_fixture *fixture = *state;
    struct timer *timer = testing_timer(1, 1, 1000);
    const struct record_key key = row_at(1, 1000, 1);
    struct buffer value;

    buffer_init(&value);
    record_row_encode(&value, key, timer);
    char *digit = memmem(value.data, value.size, "{\"n\":1}", 7);
    assert_non_null(digit);
    digit[5] = '3';
    put(fixture, STORE_TIMERS, store_row_key(key), &value);
    assert_finds(fixture, 1, "partition 1, position 1000, serial 1: a record whose checksum");
    timer_free(timer);
}

static void test_epoch(void **state)
{
    struct check_fixture *fixture = *state;
    struct timer *timer = testing_timer(1, TIMER_SERIAL(2, 1), 1000);

    testing_write(fixture->storage, timer, 0, meta);
    timer_free(timer);
    assert_finds(fixture, 1, "its epoch 2 is not reached yet");
}

static void test_pointers(void **state)
{
    struct check_fixture *fixture = *state;
    const struct record_key at = record_pointer_key(1, 2);

    put(fixture, STORE_MOVED, store_pointer_key(at), NULL);
    assert_finds(fixture, 1, "moved, and no pointer leads to it");
    fixture->storage = testing_open(&fixture->options);
    struct buffer value;
    buffer_init(&value);
    record_pointer_encode(&value, at, (struct record_pointer){{4000}, {0}});
    put(fixture, STORE_MOVED, store_pointer_key(at), &value);
    assert_finds(fixture, 2, "moved, but its pointer says position 4000");
    assert_non_null(strstr(fixture->findings, "leads to position 4000, where no row is"));
    fixture->storage = testing_open(&fixture->options);
    put_garbage(fixture, STORE_MOVED, store_pointer_key(at));
    assert_finds(fixture, 1, "moved: partition 1, serial 2: a record");
}

static void test_names(void **state)
{
    struct check_fixture *fixture = *state;
    const struct record_key key = record_name_key(hash_of("order-42"), 3);
    const struct record_key other = record_name_key(hash_of("other"), 3);
    const struct record_key none = record_name_key(hash_of("none"), 9);
    struct record_name name = {.id = {{2000}, 1, 3}};

    put(fixture, STORE_NAMES, store_row_key(key), NULL);
    assert_finds(fixture, 1, "a name of it has no entry");
    fixture->storage = testing_open(&fixture->options);
    struct buffer value;
    buffer_init(&value);
    record_name_encode(&value, other, &name);
    put(fixture, STORE_NAMES, store_row_key(other), &value);
    assert_finds(fixture, 2, "that timer has no such name");
    fixture->storage = testing_open(&fixture->options);
    name.id.serial = 9;
    buffer_init(&value);
    record_name_encode(&value, none, &name);
    put(fixture, STORE_NAMES, store_row_key(none), &value);
    assert_finds(fixture, 3, "there is no such timer");
    fixture->storage = testing_open(&fixture->options);
    put_garbage(fixture, STORE_NAMES, store_row_key(key));
    assert_finds(fixture, 3, "names: hash");
}

static void test_metas(void **state)
{
    struct check_fixture *fixture = *state;
    struct storage_meta changed = meta;

    changed.pending = 4;
    put_meta(fixture, &changed);
    assert_finds(fixture, 1, "meta of partition 1: counts 4 live timers, and there are 3");
    fixture->storage = testing_open(&fixture->options);
    changed.pending = 3;
    changed.trim.ms = 501;
    put_meta(fixture, &changed);
    assert_finds(fixture, 1, "trim 501 is past the watermark 500");
    fixture->storage = testing_open(&fixture->options);
    put_garbage(fixture, STORE_META, check_key_of("whatever"));
    changed.trim.ms = 400;
    put_meta(fixture, &changed);
    assert_finds(fixture, 1, "default: key 7768617465766572: is none of ours");
    fixture->storage = testing_open(&fixture->options);
    put_garbage(fixture, STORE_META, store_meta_key(1));
    assert_finds(fixture, 3, "meta of partition 1: a record");
    fixture->storage = testing_open(&fixture->options);
    put_garbage(fixture, STORE_META, store_note_key(STORAGE_HOLDS, 0));
    assert_finds(fixture, 4, "default: the pauses and the maintenance: a record");
}

/* An incomplete copy is reported as one, because its rows and counts need not agree. */
static void test_restoring(void **state)
{
    struct check_fixture *fixture = *state;
    struct storage_place place = {.next = 101, .epoch = 1}; /* beyond what is there */

    const struct folder_identity identity = {.is_known = true, .cluster = TESTING_CLUSTER};

    storage_close(fixture->storage);
    fixture->options.cluster = TESTING_CLUSTER;
    assert_int_equal(folder_write_identity(fixture->folder.path, &identity, NULL), ERROR_NONE);
    fixture->storage = testing_open(&fixture->options);
    assert_int_equal(storage_apply(fixture->storage, 0, (struct bytes){0}, &place, NULL),
                     ERROR_NONE);
    place.sweep_end = 101;
    assert_int_equal(storage_apply(fixture->storage, 1, (struct bytes){0}, &place, NULL),
                     ERROR_NONE);
    assert_finds(fixture, 1, "partition 1 was being restored from the log of its cluster");
    fixture->storage = testing_open(&fixture->options);
    place = (struct storage_place){.next = 102, .epoch = 1, .copy_end = STORAGE_COPYING};
    assert_int_equal(storage_apply(fixture->storage, 1, (struct bytes){0}, &place, NULL),
                     ERROR_NONE);
    assert_finds(fixture, 1, "partition 1 was being restored from the log of its cluster");
    fixture->storage = testing_open(&fixture->options);
    place.copy_end = 0;
    assert_int_equal(storage_apply(fixture->storage, 1, (struct bytes){0}, &place, NULL),
                     ERROR_NONE);
    assert_finds(fixture, 0, "");
}

static void test_tenants(void **state)
{
    struct check_fixture *fixture = *state;
    struct store_key key = check_key_of("t..acme");

    put_be(key.data + 1, 1, 2);
    struct buffer value;
    buffer_init(&value);
    record_number_encode(&value, (struct bytes){key.data, key.size}, 2);
    put(fixture, STORE_META, key, &value);
    assert_finds(fixture, 1, "partition 1, tenant acme: counts 2 live timers, and there are 1");
    fixture->storage = testing_open(&fixture->options);
    put(fixture, STORE_META, key, NULL);
    assert_finds(fixture, 1, "partition 1, tenant acme: counts 0 live timers, and there are 1");
    fixture->storage = testing_open(&fixture->options);
    put_garbage(fixture, STORE_META, key);
    assert_finds(fixture, 2, "default: key 74000161636d65: a record");
}

/* A record that a reader has set aside is still reported, and its row still counted. */
static void test_set_aside(void **state)
{
    struct check_fixture *fixture = *state;

    put_garbage(fixture, STORE_TIMERS, store_row_key(row_at(1, 1000, 1)));
    struct storage_page page = testing_scan_all(fixture->storage, 1, STORAGE_SCAN_LIVE, 10);
    assert_int_equal(page.count, 2);
    storage_page_free(&page);
    assert_finds(fixture, 1, "position 1000, serial 1: a row was set aside");
    assert_int_equal(fixture->check.set_aside, 1);
}

/* ---- folders and files ---- */

static void assert_check_refused(struct check_fixture *fixture, enum error_code code,
                                 const char *part)
{
    struct error error = {.text = ""};

    assert_int_equal(check_look(fixture, &error), code);
    if (!strstr(error.text, part))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
}

static void test_check_in_use(void **state)
{
    struct check_fixture *fixture = *state;
    struct error error;

    assert_int_equal(testing_check(fixture->folder.path, &fixture->check, &error), ERROR_IO);
    assert_non_null(strstr(error.text, "is in use by another process"));
}

static void test_newer(void **state)
{
    struct check_fixture *fixture = *state;
    struct buffer value;

    buffer_init(&value);
    record_number_encode(&value, STORE_KEY_FORMAT, RECORD_FORMAT + 1);
    put(fixture, STORE_META, check_key_of("format"), &value);
    assert_check_refused(fixture, ERROR_INVALID, "newer version: its format is 10, ours 9");
}

static bool take_name(void *context, const struct files_entry *entry)
{
    const char *wanted = *(const char **)context;
    size_t size = strlen(entry->name);

    if (size < 4 || strcmp(entry->name + size - 4, wanted) != 0 || !entry->bytes)
        return true;
    *(char **)context = strdup(entry->name);
    return false;
}

/* Writes the path of the file whose name ends with `end`, or is CURRENT. */
static void path_of(struct check_fixture *fixture, const char *end, char ret_path[600])
{
    const char *name = end;

    if (strcmp(end, "CURRENT") != 0)
        assert_int_equal(files_list(fixture->folder.path, take_name, &name, NULL), ERROR_NONE);
    snprintf(ret_path, 600, "%s/%s", fixture->folder.path, name);
    if (name != end)
        free((char *)name);
}

/* Files were removed or changed while nothing ran: --check and a start report the same. */
static void test_files(void **state)
{
    struct check_fixture *fixture = *state;
    struct error error = {.text = ""};

    assert_finds(fixture, 0, "");
    char path[600];
    path_of(fixture, ".sst", path);
    assert_int_equal(truncate(path, 100), 0);
    assert_check_refused(fixture, ERROR_CORRUPT, " has 100 bytes, and had ");
    assert_int_equal(rocksdb_storage_open(&fixture->options, &fixture->storage, &error),
                     ERROR_CORRUPT);
    assert_non_null(strstr(error.text, ".sst has 100 bytes"));
    assert_non_null(strstr(error.text, "restore a backup, or remove "));
    assert_int_equal(unlink(path), 0);
    assert_check_refused(fixture, ERROR_CORRUPT, "is missing since the last stop");
    char closed[600];
    snprintf(closed, sizeof(closed), "%s/" FOLDER_CLOSED_NAME, fixture->folder.path);
    assert_int_equal(truncate(closed, 60), 0);
    assert_check_refused(fixture, ERROR_CORRUPT, "CLOSED is damaged");
}

/* Without CURRENT RocksDB would make a new database, and delete the present files. */
static void test_no_current(void **state)
{
    struct check_fixture *fixture = *state;
    struct error error = {.text = ""};

    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_int_equal(folder_unseal(fixture->folder.path, NULL), ERROR_NONE);
    char path[600];
    path_of(fixture, "CURRENT", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rocksdb_storage_open(&fixture->options, &fixture->storage, &error),
                     ERROR_CORRUPT);
    assert_non_null(strstr(error.text, "CURRENT is missing beside files of a database"));
    assert_check_refused(fixture, ERROR_CORRUPT, "restore a backup");
}

/* ---- backups ---- */

/* proves: backup */
static void test_backup(void **state)
{
    struct check_fixture *fixture = *state;
    char path[600];
    struct storage_check check = {.told = tell, .context = fixture};
    struct timer *later = testing_timer(0, 50, 5000);
    struct rocksdb_options options = fixture->options;

    snprintf(path, sizeof(path), "%s/copy", fixture->folder.path);
    struct storage_backup backup;
    assert_int_equal(storage_backup(fixture->storage, path, &backup, NULL), ERROR_NONE);
    assert_int_equal(backup.timers, 3 * PARTITIONS);
    assert_int_equal(storage_backup(fixture->storage, path, &backup, NULL), ERROR_BACKUP_EXISTS);
    testing_write(fixture->storage, later, 0, meta);
    assert_int_equal(testing_check(path, &check, NULL), ERROR_NONE);
    assert_int_equal(check.findings, 0);
    assert_true(check.was_closed);
    assert_int_equal(check.disk_bytes, backup.bytes);
    options.folder = path;
    struct storage *copy = testing_open(&options);
    testing_assert_not_found(copy, &later->id, ERROR_NOT_FOUND);
    testing_assert_found(fixture->storage, later, 5000);
    storage_close(copy);
    storage_check_deinit(&check);
    timer_free(later);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, check_set_up, check_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fine),       TEST(test_rows),         TEST(test_flipped_bit), TEST(test_epoch),
        TEST(test_pointers),   TEST(test_names),        TEST(test_metas),       TEST(test_tenants),
        TEST(test_set_aside),  TEST(test_check_in_use), TEST(test_newer),       TEST(test_files),
        TEST(test_no_current), TEST(test_backup),       TEST(test_restoring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
