/* Goal: a look through a folder of a store on a wheel finds each kind of damage, names the place of
 * each damaged block, and finds nothing in a folder that is fine. Method: timers of every kind;
 * each bit of a run is flipped, one at a time, then two of each byte; records are made wrong past
 * the storage. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_check.h"
#include "store/wheel/diskwheel_store.h"

#include "sys/clock.h"
#include "sys/disk.h"
#include "sys/files.h"

#include <errno.h>

enum { PARTITIONS = 2 };

static const struct storage_meta wheel_check_meta = {.epoch = 1, .watermark = {500}, .trim = {400}};

struct wheel_check {
    struct testing_folder folder;
    struct diskwheel_options options;
    struct storage *storage;
    struct storage_check check;
    char findings[8000];
};

static void wheel_check_told(void *context, const char *finding)
{
    struct wheel_check *fixture = context;
    const size_t size = strlen(fixture->findings);

    snprintf(fixture->findings + size, sizeof(fixture->findings) - size, "%s\n", finding);
}

/* Fills each partition with a timer at id.first, one that was moved, one with all names, one that
 * fired, and a dead letter. */
static void wheel_check_populate(struct wheel_check *fixture)
{
    const struct timer_texts texts = {.target = BYTES("http://127.0.0.1/x"),
                                      .payload = BYTES("1"),
                                      .key = BYTES("order-42"),
                                      .watch = BYTES("a\nb\n"),
                                      .tenant = BYTES("acme"),
                                      .request = BYTES("0123456789abcdefonce")};

    for (uint16_t partition = 0; partition < PARTITIONS; partition++) {
        struct timer *plain = testing_timer(partition, 1, 1000), *named = timer_alloc(&texts);

        testing_write(fixture->storage, plain, 0, wheel_check_meta);
        plain->id.serial = 2;
        testing_write(fixture->storage, plain, 0, wheel_check_meta);
        plain->at.ms = 3000;
        testing_write(fixture->storage, plain, 1000, wheel_check_meta);
        named->id = (struct timer_id){{2000}, partition, 3};
        named->due.ms = named->at.ms = 2000;
        testing_write(fixture->storage, named, 0, wheel_check_meta);
        for (uint64_t serial = 4; serial <= 5; serial++) {
            plain->id = (struct timer_id){{600}, partition, serial};
            plain->at.ms = plain->due.ms = 600;
            plain->state = TIMER_SCHEDULED;
            testing_write(fixture->storage, plain, 0, wheel_check_meta);
            plain->state = serial == 4 ? TIMER_FIRED : TIMER_DEAD;
            plain->ended = wall_now();
            testing_write(fixture->storage, plain, 600, wheel_check_meta);
        }
        timer_free(plain);
        timer_free(named);
    }
}

static int wheel_check_set_up(void **state)
{
    struct wheel_check *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    testing_folder_make(&fixture->folder);
    fixture->options = testing_options(&fixture->folder, PARTITIONS);
    fixture->storage = testing_open(&fixture->options);
    wheel_check_populate(fixture);
    *state = fixture;
    return 0;
}

static int wheel_check_tear_down(void **state)
{
    struct wheel_check *fixture = *state;

    storage_close(fixture->storage);
    storage_check_deinit(&fixture->check);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static enum error_code wheel_check_look_at(struct wheel_check *fixture, const char *folder,
                                           struct error *ret_error)
{
    struct storage *storage;
    uint16_t partitions;
    uint64_t cluster;

    storage_close(fixture->storage);
    fixture->storage = NULL;
    storage_check_deinit(&fixture->check);
    fixture->check = (struct storage_check){.told = wheel_check_told, .context = fixture};
    fixture->findings[0] = '\0';
    enum error_code code =
        diskwheel_storage_open_to_export(folder, &storage, &partitions, &cluster, ret_error);
    if (code)
        return code;
    code = diskwheel_check(storage, &fixture->check, ret_error);
    storage_close(storage);
    return code;
}

static enum error_code wheel_check_look(struct wheel_check *fixture, struct error *ret_error)
{
    return wheel_check_look_at(fixture, fixture->folder.path, ret_error);
}

/* Checks that there are exactly `count` findings, and that one of them contains `part`. */
static void assert_wheel_finds(struct wheel_check *fixture, uint64_t count, const char *part)
{
    struct error error = {.text = ""};

    if (wheel_check_look(fixture, &error))
        fail_msg("%s", error.text);
    if (fixture->check.findings != count || !strstr(fixture->findings, part))
        fail_msg("%" PRIu64 " findings, not %" PRIu64 " with \"%s\":\n%s", fixture->check.findings,
                 count, part, fixture->findings);
}

static void test_wheel_check_fine(void **state)
{
    struct wheel_check *fixture = *state;

    assert_wheel_finds(fixture, 0, "");
    for (size_t i = 0; i < PARTITIONS; i++) {
        const struct storage_check_partition *partition = &fixture->check.partitions[i];

        assert_int_equal(partition->live, 3);
        assert_int_equal(partition->over, 1);
        assert_int_equal(partition->dead, 1);
        assert_int_equal(partition->damaged, 0);
        assert_int_equal(partition->oldest.ms, 1000);
        assert_int_equal(partition->meta.epoch, 1);
    }
    assert_int_equal(fixture->check.names, 4 * PARTITIONS);
    assert_true(fixture->check.was_closed);
    assert_int_equal(fixture->check.missing, 0);
    /* the same of a folder after a crash, with what its log has */
    fixture->storage = testing_open(&fixture->options);
    diskwheel_storage_crash(fixture->storage);
    fixture->storage = NULL;
    assert_wheel_finds(fixture, 0, "");
    assert_false(fixture->check.was_closed);
}

/* Changes past the storage: into the active stage. NULL ends the record. */
static void wheel_check_put(struct wheel_check *fixture, enum diskwheel_table table,
                            struct record_key key, const struct buffer *value)
{
    struct diskwheel_store *store = diskwheel_store_of(fixture->storage);

    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    assert_true(diskwheel_layer_put(&store->active->layer, table, key,
                                    value ? DISKWHEEL_PUT : DISKWHEEL_GONE, false,
                                    value ? buffer_bytes(value) : (struct bytes){0}));
    store->has_changed = true;
}

static void test_wheel_check_pointers(void **state)
{
    struct wheel_check *fixture = *state;
    const struct record_key row = record_row_key(1, (struct storage_position){{3000}, 2});

    wheel_check_put(fixture, DISKWHEEL_MOVED, record_pointer_key(1, 2), NULL);
    assert_wheel_finds(fixture, 1, "moved, and no pointer leads to it");
    fixture->storage = testing_open(&fixture->options);
    wheel_check_put(fixture, DISKWHEEL_TIMERS, row, NULL);
    assert_wheel_finds(fixture, 1, "meta of partition 1: counts 3 live timers, and there are 2");
    assert_int_equal(fixture->check.missing, 1);
}

static void test_wheel_check_names(void **state)
{
    struct wheel_check *fixture = *state;
    const struct record_key row = record_row_key(0, (struct storage_position){{2000}, 3});

    wheel_check_put(fixture, DISKWHEEL_TIMERS, row, NULL);
    assert_wheel_finds(fixture, 6, "there is no such timer");
}

static void test_wheel_check_rows(void **state)
{
    struct wheel_check *fixture = *state;
    const struct record_key row = record_row_key(0, (struct storage_position){{1000}, 1});
    struct buffer value;

    buffer_init(&value);
    buffer_append_text(&value, "no row");
    wheel_check_put(fixture, DISKWHEEL_TIMERS, row, &value);
    buffer_deinit(&value);
    assert_wheel_finds(fixture, 1, "timers: partition 0, position 1000, serial 1: ");
    assert_int_equal(fixture->check.partitions[0].damaged, 1);
    /* a read sets it aside */
    fixture->storage = testing_open(&fixture->options);
    struct storage_page all = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_ALL, 10);
    storage_page_free(&all);
    assert_wheel_finds(fixture, 1, "a row was set aside");
    assert_int_equal(fixture->check.set_aside, 1);
}

/* What the log has beyond the folder is looked at, too. */
static void test_wheel_check_with_a_log(void **state)
{
    struct wheel_check *fixture = *state;
    struct timer *timer = testing_timer(0, 7, 5000);
    struct storage *storage;
    uint16_t partitions;
    uint64_t cluster;

    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_int_equal(diskwheel_storage_open_to_export(fixture->folder.path, &storage, &partitions,
                                                      &cluster, NULL),
                     ERROR_NONE);
    testing_write(storage, timer, 0, wheel_check_meta);
    assert_int_equal(diskwheel_check(storage, &fixture->check, NULL), ERROR_NONE);
    assert_int_equal(fixture->check.findings, 0);
    assert_int_equal(fixture->check.partitions[0].live, 4);
    storage_close(storage);
    timer_free(timer);
}

/* Every record of wheel_check_populate is there. */
static bool wheel_check_is_whole(const struct wheel_check *fixture)
{
    bool is_whole = fixture->check.names == 4 * PARTITIONS;

    for (size_t i = 0; i < PARTITIONS; i++) {
        const struct storage_check_partition *partition = &fixture->check.partitions[i];

        is_whole = is_whole && partition->live == 3 && partition->over == 1 && partition->dead == 1;
    }
    return is_whole;
}

/* A run of the folder, at rest and without CLOSED, whose bytes are written again and again. */
struct wheel_check_run {
    char path[400], name[DISKWHEEL_RUN_NAME_SIZE];
    struct buffer bytes;
};

/* Returns false if there is no such run. */
static bool wheel_check_take_run(struct wheel_check *fixture, uint64_t number,
                                 struct wheel_check_run *run)
{
    if (!number) {
        storage_close(fixture->storage);
        fixture->storage = NULL;
        snprintf(run->path, sizeof(run->path), "%s/" FOLDER_CLOSED_NAME, fixture->folder.path);
        assert_int_equal(unlink(run->path), 0);
    }
    diskwheel_run_name(number, run->name);
    snprintf(run->path, sizeof(run->path), "%s/%s", fixture->folder.path, run->name);
    buffer_init(&run->bytes);
    return files_exists(run->path) && !files_read_regular(run->path, SIZE_MAX, &run->bytes, NULL);
}

/* Writes the first bytes of the run, and looks through the folder. */
static enum error_code wheel_check_with(struct wheel_check *fixture,
                                        const struct wheel_check_run *run, size_t size,
                                        struct error *ret_error)
{
    FILE *file = fopen(run->path, "w");

    assert_true(file && fwrite(run->bytes.data, 1, size, file) == size && !fclose(file));
    return wheel_check_look(fixture, ret_error);
}

static void wheel_check_put_byte(const struct wheel_check_run *run, size_t at, int byte)
{
    FILE *file = fopen(run->path, "r+");

    assert_true(file && !fseek(file, (long)at, SEEK_SET) && fputc(byte, file) != EOF &&
                !fclose(file));
}

/* Looks through the folder while bits of a byte of the run are flipped. */
static void wheel_check_flip(struct wheel_check *fixture, const struct wheel_check_run *run,
                             size_t at, int bits)
{
    const int byte = (uint8_t)run->bytes.data[at];
    struct error error;

    wheel_check_put_byte(run, at, byte ^ bits);
    if (wheel_check_look(fixture, &error))
        fail_msg("%s", error.text);
    wheel_check_put_byte(run, at, byte);
    assert_true(fixture->check.findings > 0);
    assert_non_null(strstr(fixture->findings, ": byte "));
    assert_non_null(strstr(fixture->findings, run->name));
}

/* A flipped bit of a run costs nothing wherever it is, and is found: file and offset are named. */
static void test_wheel_check_flipped_bits(void **state)
{
    struct wheel_check *fixture = *state;
    unsigned blocks = 0, indexes = 0;
    struct wheel_check_run run;
    struct error error;
    uint64_t number;

    for (number = 0; wheel_check_take_run(fixture, number, &run); number++) {
        for (size_t i = 0; i < 8 * run.bytes.size; i++) {
            wheel_check_flip(fixture, &run, i / 8, 1 << i % 8);
            assert_int_equal(fixture->check.findings, 1);
            assert_int_equal(fixture->check.blocks_unread, 0);
            assert_int_equal(fixture->check.missing, 0);
            assert_true(wheel_check_is_whole(fixture));
            if (strstr(fixture->findings, "made anew"))
                indexes++;
            else if (strstr(fixture->findings, "is flipped; each read turns it back"))
                blocks++;
            else
                fail_msg("%s", fixture->findings);
        }
        assert_int_equal(wheel_check_look(fixture, &error), ERROR_NONE);
        assert_int_equal(fixture->check.findings, 0);
        buffer_deinit(&run.bytes);
    }
    assert_true(number > 1 && blocks > 0 && indexes > 0);
}

/* A backup has the flipped bits of the runs that it shares. They are findings there, too. */
static void test_wheel_check_backup(void **state)
{
    struct wheel_check *fixture = *state;
    struct storage_backup backup;
    struct wheel_check_run run;
    char folder[400];

    assert_true(wheel_check_take_run(fixture, 0, &run));
    wheel_check_put_byte(&run, 40, run.bytes.data[40] ^ 1);
    buffer_deinit(&run.bytes);
    fixture->storage = testing_open(&fixture->options);
    snprintf(folder, sizeof(folder), "%s/backup", fixture->folder.path);
    assert_int_equal(storage_backup(fixture->storage, folder, &backup, NULL), ERROR_NONE);
    assert_int_equal(wheel_check_look_at(fixture, folder, NULL), ERROR_NONE);
    assert_int_equal(fixture->check.findings, 1);
    assert_non_null(strstr(fixture->findings, "is flipped; each read turns it back"));
    assert_non_null(strstr(fixture->findings, run.name));
    assert_true(wheel_check_is_whole(fixture));
}

/* Two flipped bits of a block cost its records. */
static void test_wheel_check_damaged_blocks(void **state)
{
    struct wheel_check *fixture = *state;
    unsigned blocks = 0, indexes = 0;
    struct wheel_check_run run;
    uint64_t number;

    for (number = 0; wheel_check_take_run(fixture, number, &run); number++) {
        for (size_t i = 0; i < run.bytes.size; i++) {
            wheel_check_flip(fixture, &run, i, 3 << i % 7);
            if (strstr(fixture->findings, "made anew")) { /* behind the blocks: nothing is lost */
                assert_int_equal(fixture->check.findings, 1);
                assert_true(wheel_check_is_whole(fixture));
                indexes++;
            } else {
                assert_int_equal(fixture->check.blocks_unread, 1);
                blocks++;
            }
        }
        buffer_deinit(&run.bytes);
    }
    assert_true(number > 1 && blocks > 0 && indexes > 0);
}

/* A disk on which the first block of each file cannot be read. */
static int wheel_check_bad_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
                                size_t size, size_t *ret_size)
{
    const struct disk_calls *system = disk_system();

    (void)disk;
    return at ? system->read(system, file, at, to, size, ret_size) : EIO;
}

/* A sector that the disk cannot read is a finding, too. */
static void test_wheel_check_bad_sector(void **state)
{
    struct wheel_check *fixture = *state;
    struct disk_calls bad = *disk_system();
    struct storage *storage;
    uint16_t partitions;
    uint64_t cluster;

    bad.read = wheel_check_bad_read;
    storage_close(fixture->storage);
    fixture->storage = NULL;
    assert_int_equal(diskwheel_storage_open_to_export(fixture->folder.path, &storage, &partitions,
                                                      &cluster, NULL),
                     ERROR_NONE);
    const struct diskwheel_view *view = diskwheel_store_of(storage)->view;
    for (size_t i = 0; i < view->count; i++)
        view->runs[i]->disk = &bad;
    fixture->check = (struct storage_check){.told = wheel_check_told, .context = fixture};
    assert_int_equal(diskwheel_check(storage, &fixture->check, NULL), ERROR_NONE);
    assert_int_equal(fixture->check.blocks_unread, view->count);
    assert_non_null(strstr(fixture->findings, "byte 0: the block of"));
    assert_non_null(strstr(fixture->findings, "it cannot be read"));
    storage_close(storage);
}

/* A run whose index is damaged serves all of its records, and is replaced after the next flush. */
static void test_wheel_check_mended(void **state)
{
    struct wheel_check *fixture = *state;
    char path[400], name[DISKWHEEL_RUN_NAME_SIZE];
    struct storage_stats stats;

    storage_close(fixture->storage);
    diskwheel_run_name(0, name);
    snprintf(path, sizeof(path), "%s/%s", fixture->folder.path, name);
    FILE *file = fopen(path, "r+");
    assert_true(file && !fseek(file, -49, SEEK_END)); /* the last byte of the index */
    const int byte = fgetc(file);
    assert_true(!fseek(file, -49, SEEK_END) && fputc(byte ^ 1, file) != EOF && !fclose(file));
    fixture->storage = testing_open(&fixture->options);
    storage_stats(fixture->storage, &stats);
    assert_non_null(strstr(stats.found, "nothing is lost"));
    struct storage_page all = testing_scan_all(fixture->storage, 0, STORAGE_SCAN_LIVE, 10);
    assert_int_equal(all.count, 3);
    testing_assert_found(fixture->storage, all.timers[1], all.timers[1]->at.ms);
    storage_page_free(&all);
    testing_write_meta(fixture->storage, 0, wheel_check_meta);
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    diskwheel_storage_rest(fixture->storage);
    assert_false(files_exists(path));
    assert_wheel_finds(fixture, 0, "");
    assert_int_equal(fixture->check.partitions[0].live, 3);
}

/* A run that was cut short is refused wherever it ends, because what it had is unknown. So is one
 * with two damages, of which one is in its index or its end, unless all records are there. */
static void test_wheel_check_cut_short(void **state)
{
    struct wheel_check *fixture = *state;
    struct wheel_check_run run;
    struct error error;

    for (uint64_t number = 0; wheel_check_take_run(fixture, number, &run); number++) {
        for (size_t size = 0; size < run.bytes.size; size++) {
            assert_int_equal(wheel_check_with(fixture, &run, size, &error), ERROR_CORRUPT);
            assert_non_null(strstr(error.text, run.name));
        }
        for (size_t at = 20; at < run.bytes.size - 88; at += 20) {
            char *const end = &run.bytes.data[run.bytes.size - (at % 40 ? 1 : 49)];

            *end ^= 1;
            run.bytes.data[at] ^= 1;
            const enum error_code code = wheel_check_with(fixture, &run, run.bytes.size, &error);
            assert_true(code == ERROR_CORRUPT || (!code && wheel_check_is_whole(fixture)));
            *end ^= 1;
            run.bytes.data[at] ^= 1;
        }
        assert_int_equal(wheel_check_with(fixture, &run, run.bytes.size, &error), ERROR_NONE);
        buffer_deinit(&run.bytes);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, wheel_check_set_up, wheel_check_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wheel_check_fine),       TEST(test_wheel_check_pointers),
        TEST(test_wheel_check_names),      TEST(test_wheel_check_rows),
        TEST(test_wheel_check_with_a_log), TEST(test_wheel_check_flipped_bits),
        TEST(test_wheel_check_cut_short),  TEST(test_wheel_check_mended),
        TEST(test_wheel_check_bad_sector), TEST(test_wheel_check_damaged_blocks),
        TEST(test_wheel_check_backup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
