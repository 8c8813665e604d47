/* Goal: a probe returns each run that has the record, the newest first, and few others. Method:
 * runs of random records, new rows with rising serials and others with any. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_view.h"

enum { VIEW_RUNS = 12, VIEW_ROWS = 400, VIEW_NAMES = 300, VIEW_PARTITIONS = 3 };

#define VIEW_AT_MAX UINT64_C(1000000)

struct view_fixture {
    struct testing_folder folder;
    struct random random;
    uint64_t serial;
    struct record_key rows[VIEW_RUNS][VIEW_ROWS], names[VIEW_RUNS][VIEW_NAMES];
    struct diskwheel_view *view;
};

static int view_compare(const void *left, const void *right)
{
    const struct record_key *a = left, *b = right;

    return record_key_equal(*a, *b) ? 0 : record_key_before(*a, *b) ? -1 : 1;
}

/* Writes a run; every fourth row is not new. Keys are unique. */
static void view_write(struct view_fixture *fixture, size_t number)
{
    struct record_key *rows = fixture->rows[number], *names = fixture->names[number];
    const uint64_t first = fixture->serial;
    struct diskwheel_writer *writer;

    for (size_t i = 0; i < VIEW_ROWS; i++) {
        const uint64_t at = 1 + random_below(&fixture->random, VIEW_AT_MAX);
        const bool is_new = random_below(&fixture->random, 4) > 0 || !first;

        rows[i] = record_row_key(
            (uint16_t)(i % VIEW_PARTITIONS),
            (struct storage_position){
                {at}, is_new ? ++fixture->serial : 1 + random_below(&fixture->random, first)});
    }
    for (size_t i = 0; i < VIEW_NAMES; i++)
        names[i] = record_name_key(random_next(&fixture->random), i + 1);
    qsort(rows, VIEW_ROWS, sizeof(*rows), view_compare);
    qsort(names, VIEW_NAMES, sizeof(*names), view_compare);
    assert_int_equal(
        diskwheel_writer_open(disk_system(), fixture->folder.path, number, &writer, NULL),
        ERROR_NONE);
    for (size_t i = 0; i < VIEW_ROWS; i++)
        if (!i || !record_key_equal(rows[i - 1], rows[i]))
            diskwheel_writer_add(writer, DISKWHEEL_TIMERS, rows[i], rows[i].low > first,
                                 BYTES("row"));
    for (size_t i = 0; i < VIEW_NAMES; i++)
        diskwheel_writer_add(writer, DISKWHEEL_NAMES, names[i], false, BYTES("name"));
    assert_int_equal(diskwheel_writer_end(writer, NULL), ERROR_NONE);
    assert_int_equal(diskwheel_run_open(disk_system(), fixture->folder.path, number,
                                        VIEW_PARTITIONS, &fixture->view->runs[number], NULL),
                     ERROR_NONE);
    fixture->view->count++;
}

/* Returns the number of runs of a probe, of which one has to be `number`. */
static size_t view_probe(const struct view_fixture *fixture, enum diskwheel_table table,
                         struct record_key key, size_t number)
{
    struct diskwheel_probe probe;
    size_t count = 0, at, before = SIZE_MAX;
    bool is_there = false;

    diskwheel_probe_begin(&probe, fixture->view, table, key);
    while (diskwheel_probe_next(&probe, &at)) {
        assert_true(at < before);
        before = at;
        is_there = is_there || at == number;
        assert_true(diskwheel_run_may_have(fixture->view->runs[at], table, key));
        count++;
    }
    assert_true(is_there || number == SIZE_MAX);
    return count;
}

static struct view_fixture *view_make(void)
{
    struct view_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    fixture->random = random_seeded(testing_seed());
    fixture->view = diskwheel_view_create(VIEW_RUNS);
    assert_non_null(fixture->view);
    testing_folder_make(&fixture->folder);
    return fixture;
}

static void test_probes(void **state)
{
    struct view_fixture *fixture = view_make();
    size_t rows = 0, names = 0, absent = 0;

    (void)state;
    for (size_t i = 0; i < VIEW_RUNS; i++)
        view_write(fixture, i);
    assert_true(diskwheel_view_reserve(fixture->view, VIEW_PARTITIONS, fixture->view->runs,
                                       fixture->view->count, NULL, 0));
    diskwheel_view_index(fixture->view);
    for (size_t i = 0; i < VIEW_RUNS; i++) {
        for (size_t k = 0; k < VIEW_ROWS; k++)
            rows += view_probe(fixture, DISKWHEEL_TIMERS, fixture->rows[i][k], i);
        for (size_t k = 0; k < VIEW_NAMES; k++)
            names += view_probe(fixture, DISKWHEEL_NAMES, fixture->names[i][k], i);
        for (size_t k = 0; k < VIEW_ROWS; k++)
            absent += view_probe(fixture, DISKWHEEL_TIMERS,
                                 record_row_key(1, (struct storage_position){{VIEW_AT_MAX + 9}, k}),
                                 SIZE_MAX);
    }
    assert_int_equal(view_probe(fixture, DISKWHEEL_MOVED, record_pointer_key(0, 1), SIZE_MAX), 0);
    print_message("%zu rows in %zu runs, %zu names in %zu\n", (size_t)VIEW_RUNS * VIEW_ROWS, rows,
                  (size_t)VIEW_RUNS * VIEW_NAMES, names);
    assert_int_equal(absent, 0); /* no run has such positions */
    assert_true(rows < 3 * VIEW_RUNS * VIEW_ROWS / 2);
    assert_true(names < 21 * VIEW_RUNS * VIEW_NAMES / 20);
    diskwheel_view_release(fixture->view);
    testing_folder_remove(&fixture->folder);
    free(fixture);
}

/* Returns the number of rows of a run whose copies are to be found by their serials. */
static size_t view_kept(const struct view_fixture *fixture, size_t number)
{
    struct diskwheel_density density = {.view = fixture->view, .partition = UINT64_MAX};
    size_t kept = 0;

    for (size_t i = 0; i < VIEW_ROWS; i++)
        kept += diskwheel_density_keeps(&density, fixture->view->runs[number],
                                        fixture->rows[number][i]);
    return kept;
}

/* Copies of runs whose serials follow each other are found by them; those of runs far apart would
 * be in the way of all rows between. */
static void test_copies_of_runs_far_apart(void **state)
{
    struct view_fixture *fixture = view_make();

    (void)state;
    view_write(fixture, 0);
    view_write(fixture, 1);
    const size_t kept = view_kept(fixture, 1);
    assert_int_equal(view_kept(fixture, 0), VIEW_ROWS);
    assert_true(kept > VIEW_ROWS / 2 && kept < VIEW_ROWS); /* the new ones */
    fixture->serial += UINT64_C(100) * VIEW_ROWS;
    view_write(fixture, 2);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(view_kept(fixture, i), 0);
    diskwheel_view_release(fixture->view);
    testing_folder_remove(&fixture->folder);
    free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_probes),
                                       cmocka_unit_test(test_copies_of_runs_far_apart)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
