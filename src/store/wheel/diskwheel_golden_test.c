/* Goal: a folder that an earlier version wrote is read as it was, and goes on. Method: the folder
 * tests/golden/wheel-1 is opened; its records are compared with its file told.txt, and a copy of it
 * takes more timers. tests/golden/wheel_reader_test.py reads the same folder by the comments alone.
 *
 *     build/dev/src/store/wheel/diskwheel_golden_test FOLDER
 *
 * makes such a folder with its told.txt, for a new format only. What is there stays as it is. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_check.h"
#include "store/wheel/diskwheel_merge.h"
#include "store/wheel/diskwheel_store.h"

#include "base/checksum.h"
#include "base/random.h"
#include "sys/files.h"

#define GOLDEN_FOLDER TW_SOURCE_FOLDER "/tests/golden/wheel-1"
#define GOLDEN_AT     UINT64_C(4102444800000) /* the year 2100 */

enum { GOLDEN_PARTITIONS = 3, GOLDEN_LARGE = 20000, GOLDEN_CLUSTER = 7 };

/* ---- what a folder has, as lines ---- */

struct golden_lines {
    char **lines;
    size_t count;
};

static void golden_add(struct golden_lines *lines, struct buffer *line)
{
    lines->lines = realloc(lines->lines, (lines->count + 1) * sizeof(*lines->lines));
    assert_non_null(lines->lines);
    buffer_append(line, "", 1);
    assert_false(buffer_failed(line));
    lines->lines[lines->count++] = strdup(line->data);
    buffer_deinit(line);
}

/* Adds a record: table, key in hex, CRC-32C of the value. */
static void golden_add_record(struct golden_lines *lines, const char *table, struct bytes key,
                              struct bytes value)
{
    struct buffer line;

    buffer_init(&line);
    buffer_printf(&line, "%s ", table);
    for (size_t i = 0; i < key.size; i++)
        buffer_printf(&line, "%02x", (uint8_t)key.data[i]);
    buffer_printf(&line, " %08x\n", checksum_crc32c(0, value.data, value.size));
    golden_add(lines, &line);
}

/* Adds the records of a body, but for names: a copy has those of its timers, the folder also those
 * of trimmed ones. */
static void golden_add_body(struct golden_lines *lines, struct bytes body)
{
    static const char *const tables[] = {"meta", "timers", "moved"};
    struct rowop op;

    assert_true(rowop_open(&body));
    while (rowop_next(&body, &op)) {
        assert_int_equal(op.kind, ROWOP_PUT);
        if (op.table != ROWOP_NAMES)
            golden_add_record(lines, tables[op.table], op.key, op.value);
    }
}

/* Adds the names of all partitions, of a store at rest. */
static void golden_add_names(struct golden_lines *lines, struct storage *storage)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    const struct record_key from = {0, 0};
    struct diskwheel_record record;
    struct diskwheel_merge merge;

    assert_null(store->frozen);
    diskwheel_merge_init(&merge, DISKWHEEL_NAMES);
    assert_true(diskwheel_merge_add_stage(&merge, store->active, store->active->cuts, from));
    for (size_t i = store->view->count; i-- > 0;) {
        struct diskwheel_run *run = store->view->runs[i];

        assert_true(diskwheel_merge_add_run(&merge, run, run->cuts, from));
    }
    while (!diskwheel_merge_next(&merge, &record, NULL)) {
        const struct store_key key = store_row_key(record.key);

        golden_add_record(lines, "names", (struct bytes){key.data, key.size}, record.value);
    }
    diskwheel_merge_deinit(&merge);
}

static void golden_add_partition(struct golden_lines *lines, struct storage *storage,
                                 uint16_t partition)
{
    struct storage_export export = {.partition = partition, .rows_max = 100, .bytes_max = 1 << 20};
    struct storage_place place;
    struct buffer body, line;

    assert_int_equal(storage_load_place(storage, partition, &place, NULL), ERROR_NONE);
    buffer_init(&line);
    buffer_printf(&line, "place %u %" PRIu64 "\n", partition, place.next);
    golden_add(lines, &line);
    while (!export.is_done) {
        struct error error;

        buffer_init(&body);
        if (storage_export(storage, &export, &body, &error))
            fail_msg("%s", error.text);
        if (body.size)
            golden_add_body(lines, buffer_bytes(&body));
        buffer_deinit(&body);
    }
}

static int golden_compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Returns all lines, sorted, as one text. */
static struct buffer golden_told(struct storage *storage)
{
    struct golden_lines lines = {0};
    struct buffer text;

    buffer_init(&text);
    for (uint16_t i = 0; i < GOLDEN_PARTITIONS; i++)
        golden_add_partition(&lines, storage, i);
    golden_add_names(&lines, storage);
    qsort(lines.lines, lines.count, sizeof(*lines.lines), golden_compare);
    for (size_t i = 0; i < lines.count; i++) {
        buffer_append_text(&text, lines.lines[i]);
        free(lines.lines[i]);
    }
    free(lines.lines);
    assert_false(buffer_failed(&text));
    return text;
}

/* ---- making one ---- */

static struct timer *golden_folder_timer(uint16_t partition, uint64_t serial)
{
    const struct timer_texts texts = {.target = BYTES("http://127.0.0.1/x"),
                                      .payload = BYTES("1"),
                                      .key = BYTES("order-42"),
                                      .watch = BYTES("a\nb\n"),
                                      .tenant = BYTES("acme"),
                                      .request = BYTES("0123456789abcdefonce")};
    struct timer *timer;

    if (serial % 4)
        return testing_timer(partition, serial, GOLDEN_AT + serial * 1000);
    timer = timer_alloc(&texts);
    assert_non_null(timer);
    timer->id = (struct timer_id){{GOLDEN_AT + serial * 1000}, partition, serial};
    timer->due.ms = timer->at.ms = GOLDEN_AT + serial * 1000;
    timer->created.ms = 1;
    return timer;
}

/* A payload that no compression makes smaller, in a block of its own. */
static struct timer *golden_large(uint64_t serial)
{
    struct timer_texts texts = {.target = BYTES("http://127.0.0.1/x")};
    char *payload = malloc(GOLDEN_LARGE);
    struct random random = random_seeded(serial);

    assert_non_null(payload);
    for (size_t i = 0; i < GOLDEN_LARGE; i++)
        payload[i] = (char)random_next(&random);
    texts.payload = (struct bytes){payload, GOLDEN_LARGE};
    struct timer *timer = timer_alloc(&texts);
    assert_non_null(timer);
    free(payload);
    timer->id = (struct timer_id){{GOLDEN_AT + serial * 1000}, 0, serial};
    timer->due.ms = timer->at.ms = timer->id.first.ms;
    return timer;
}

static void golden_write(struct storage *storage, uint16_t partition, uint64_t begin, uint64_t end,
                         struct storage_meta meta)
{
    for (uint64_t serial = begin; serial < end; serial++) {
        struct timer *timer = golden_folder_timer(partition, serial);

        testing_write(storage, timer, 0, meta);
        timer_free(timer);
    }
}

/* Ends, moves and touches some. */
static void golden_change(struct storage *storage, uint16_t partition, uint64_t begin, uint64_t end,
                          struct storage_meta meta)
{
    for (uint64_t serial = begin; serial < end; serial++) {
        struct timer *timer = golden_folder_timer(partition, serial);
        struct storage_write write = {.timer = timer, .was_at = timer->at};

        timer->version++;
        if (serial % 3 == 0) {
            timer->state = serial % 2 ? TIMER_FIRED : TIMER_CANCELLED;
            timer->ended.ms = GOLDEN_AT;
        } else if (serial % 7 == 0) {
            timer->at.ms += 3600 * 1000;
        } else {
            timer->due.ms += 5000;
            write.is_touch = true;
        }
        testing_commit(storage, write, meta);
        timer_free(timer);
    }
}

static void golden_note(struct storage *storage, struct bytes holds, struct bytes ledger,
                        struct storage_meta meta)
{
    struct storage_batch batch = {.meta = meta, .holds = holds, .ledger = ledger};

    testing_commit_batch(storage, &batch);
}

static void golden_make(const char *folder)
{
    const struct diskwheel_options options = {.folder = folder,
                                              .partition_count = GOLDEN_PARTITIONS,
                                              .cluster = GOLDEN_CLUSTER,
                                              .retain_ms = TESTING_FOREVER};
    const struct storage_meta meta = {.epoch = 1, .watermark = {GOLDEN_AT}};
    const struct storage_meta trimmed = {
        .epoch = 1, .watermark = {GOLDEN_AT + 21000}, .trim = {GOLDEN_AT + 21000}};
    const struct storage_place cleared = {.next = 5};
    struct storage *storage;
    struct timer *large = golden_large(1000);
    char path[600];

    assert_int_equal(diskwheel_storage_open(&options, &storage, NULL), ERROR_NONE);
    golden_write(storage, 0, 1, 200, meta);
    golden_write(storage, 1, 1, 60, meta);
    golden_write(storage, 2, 1, 20, meta);
    testing_write(storage, large, 0, meta);
    assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
    golden_change(storage, 0, 1, 80, meta);
    for (uint64_t serial = 1; serial < 21; serial++) {
        struct timer *timer = golden_folder_timer(1, serial);

        timer->state = TIMER_FIRED;
        timer->ended.ms = GOLDEN_AT;
        testing_write(storage, timer, timer->at.ms, meta);
        timer_free(timer);
    }
    assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
    testing_write_meta(storage, 1, trimmed);
    assert_int_equal(storage_partition_clear(storage, 2, &cleared, NULL), ERROR_NONE);
    golden_note(storage, BYTES("what is paused"), (struct bytes){0}, meta);
    golden_note(storage, (struct bytes){0}, BYTES("what was taken"), meta);
    golden_write(storage, 0, 200, 210, meta);
    assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
    struct buffer told = golden_told(storage);
    snprintf(path, sizeof(path), "%s/told.txt", folder);
    assert_int_equal(files_write(path, buffer_bytes(&told), NULL), ERROR_NONE);
    storage_close(storage);
    buffer_deinit(&told);
    timer_free(large);
}

/* ---- reading it ---- */

static struct buffer golden_expected(void)
{
    struct buffer text;

    buffer_init(&text);
    assert_int_equal(files_read_regular(GOLDEN_FOLDER "/told.txt", 1 << 20, &text, NULL),
                     ERROR_NONE);
    return text;
}

static void assert_golden_folder(struct storage *storage)
{
    struct buffer told = golden_told(storage), expected = golden_expected();

    assert_true(expected.size > 1000);
    assert_true(bytes_equal(buffer_bytes(&told), buffer_bytes(&expected)));
    buffer_deinit(&told);
    buffer_deinit(&expected);
}

static void test_golden_folder_is_read(void **state)
{
    struct storage_check check = {.told = NULL};
    struct storage *storage;
    struct error error;
    uint16_t partitions;
    uint64_t cluster;

    (void)state;
    if (diskwheel_storage_open_to_export(GOLDEN_FOLDER, &storage, &partitions, &cluster, &error))
        fail_msg("%s", error.text);
    assert_int_equal(partitions, GOLDEN_PARTITIONS);
    assert_int_equal(cluster, GOLDEN_CLUSTER);
    assert_golden_folder(storage);
    assert_int_equal(diskwheel_check(storage, &check, &error), ERROR_NONE);
    assert_int_equal(check.findings, 0);
    storage_check_deinit(&check);
    /* it has marks, a cut of some rows and one of a whole partition, and blocks of both kinds */
    const struct diskwheel_view *view = diskwheel_store_of(storage)->view;
    assert_true(view->count > 1);
    const struct diskwheel_run *run = view->runs[0];
    assert_true(atomic_load(&run->tables[DISKWHEEL_TIMERS].marked_count) > 0);
    assert_true(atomic_load(&run->cuts[1]) == GOLDEN_AT + 21000);
    assert_true(atomic_load(&run->cuts[2]) == DISKWHEEL_CUT_ALL);
    assert_true(run->tables[DISKWHEEL_TIMERS].index.count > 2);
    assert_true(run->tables[DISKWHEEL_MOVED].record_count == 0);
    assert_true(run->tables[DISKWHEEL_NAMES].record_count > 0);
    storage_close(storage);
}

static bool golden_copy_one(void *context, const struct files_entry *entry)
{
    char from[600], to[600];

    snprintf(from, sizeof(from), GOLDEN_FOLDER "/%s", entry->name);
    snprintf(to, sizeof(to), "%s/%s", (const char *)context, entry->name);
    assert_int_equal(files_copy(from, to, NULL), ERROR_NONE);
    return true;
}

/* A copy of the folder is written: all that it had is there, after its runs were rewritten, too. */
static void test_golden_folder_goes_on(void **state)
{
    const struct storage_meta meta = {.epoch = 1, .watermark = {GOLDEN_AT}};
    struct testing_folder folder;
    struct storage *storage;
    struct error error;

    (void)state;
    testing_folder_make(&folder);
    assert_int_equal(files_list(GOLDEN_FOLDER, golden_copy_one, folder.path, NULL), ERROR_NONE);
    const struct diskwheel_options options = {.folder = folder.path,
                                              .partition_count = GOLDEN_PARTITIONS,
                                              .cluster = GOLDEN_CLUSTER,
                                              .retain_ms = TESTING_FOREVER,
                                              .runs_max = 1};
    for (int i = 0; i < 2; i++) {
        if (diskwheel_storage_open(&options, &storage, &error))
            fail_msg("%s", error.text);
        assert_golden_folder(storage);
        testing_write_meta(storage, 2, meta);
        testing_write_meta(storage, 2, (struct storage_meta){0});
        assert_int_equal(
            storage_partition_clear(storage, 2, &(struct storage_place){.next = 5}, NULL),
            ERROR_NONE);
        assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
        diskwheel_storage_rest(storage);
        assert_golden_folder(storage);
        storage_close(storage);
    }
    testing_folder_remove(&folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden_folder_is_read),
                                       cmocka_unit_test(test_golden_folder_goes_on)};

    if (argc == 2) {
        golden_make(argv[1]);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
