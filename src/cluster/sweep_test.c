/* Goal: the bytes of a sweep's records are those of docs/cluster-design.md, and nothing else is
 * read as one; a sweep is due as the settings say; a reader knows the bytes of the log, and which
 * sweep has the rows that it misses. Method: single calls. Replicas on each other's logs:
 * replica_test, and tests/world. */
#include "cluster/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const char sweep_begin[] = "\1\0\0\0\0\0\0\0\0";
static const char sweep_rows[] = "\2\7\0\0\0\0\0\0\0rows";
static const char sweep_end[] = "\3\7\0\0\0\0\0\0\0\5\1\0\0\0\0\0\0";

static void assert_record(struct sweep_record record, const char *bytes, size_t size)
{
    const struct bytes rows = record.rows;
    struct buffer buffer;
    struct sweep_record back;

    buffer_init(&buffer);
    sweep_encode(&record, &buffer);
    buffer_append_bytes(&buffer, rows);
    assert_int_equal(buffer.size, size);
    assert_memory_equal(buffer.data, bytes, size);
    assert_true(sweep_decode(buffer_bytes(&buffer), &back));
    assert_true(back.kind == record.kind && back.begin == record.begin);
    assert_true(back.bytes == record.bytes && bytes_equal(back.rows, rows));
    buffer_deinit(&buffer);
}

static void test_sweep_golden(void **state)
{
    (void)state;
    assert_record((struct sweep_record){.kind = SWEEP_BEGIN}, sweep_begin, 9);
    assert_record((struct sweep_record){.kind = SWEEP_ROWS, .begin = 7, .rows = BYTES("rows")},
                  sweep_rows, 13);
    assert_record((struct sweep_record){.kind = SWEEP_END, .begin = 7, .bytes = 261}, sweep_end,
                  17);
}

static void test_sweep_refused(void **state)
{
    const struct bytes wrong[] = {
        {sweep_begin, 8},          {sweep_begin, 10}, {sweep_rows, 9},
        {sweep_end, 16},           {sweep_end, 18},   {sweep_rows + 1, 12},
        {"\1\1\0\0\0\0\0\0\0", 9}, {"", 0},           {"\4\0\0\0\0\0\0\0\0", 9},
    };
    struct sweep_record record;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_false(sweep_decode(wrong[i], &record));
}

static void test_sweep_due(void **state)
{
    const struct sweep_limits limits = {.log_bytes_min = 1000, .factor = 3}, none = {.factor = 2};

    (void)state;
    assert_false(sweep_is_due(&limits, &(struct sweep_log){.bytes = 1000}));
    assert_true(sweep_is_due(&limits, &(struct sweep_log){.bytes = 1001}));
    assert_false(sweep_is_due(&limits, &(struct sweep_log){.bytes = 6002, .live_bytes = 2000}));
    assert_true(sweep_is_due(&limits, &(struct sweep_log){.bytes = 6003, .live_bytes = 2000}));
    assert_false(sweep_is_due(&none, &(struct sweep_log){.bytes = UINT64_MAX}));
}

/* Records before the sweep are no longer counted. Each record is counted once. */
static void test_sweep_bytes(void **state)
{
    const uint64_t each = 100 + SWEEP_RECORD_OVERHEAD;
    struct sweep_log log;

    (void)state;
    sweep_log_init(&log, &(struct storage_place){.next = 5, .log_bytes = 1000, .live_bytes = 7});
    assert_true(log.bytes == 1000 && log.live_bytes == 7);
    sweep_count(&log, 4, 100);
    assert_int_equal(log.bytes, 1000);
    for (uint64_t i = 5; i < 9; i++)
        sweep_count(&log, i, 100);
    sweep_count(&log, 8, 100);
    assert_int_equal(log.bytes, 1000 + 4 * each);
    assert_int_equal(sweep_read(&log, 8, &(struct sweep_record){.kind = SWEEP_BEGIN}), SWEEP_PASS);
    sweep_count(&log, 9, 100);
    assert_int_equal(sweep_read(&log, 9, &(struct sweep_record){.kind = SWEEP_ROWS, .begin = 8}),
                     SWEEP_PASS);
    assert_int_equal(log.trim, 0);
    sweep_count(&log, 10, 100);
    assert_int_equal(
        sweep_read(&log, 10, &(struct sweep_record){.kind = SWEEP_END, .begin = 8, .bytes = 60}),
        SWEEP_PASS);
    assert_true(log.trim == 8 && log.live_bytes == 60 && log.bytes == 2 * each);
}

static void test_sweep_missing_rows(void **state)
{
    const struct sweep_record begin = {.kind = SWEEP_BEGIN};
    const struct sweep_record rows = {.kind = SWEEP_ROWS, .begin = 50};
    const struct sweep_record end = {.kind = SWEEP_END, .begin = 50, .bytes = 9};
    const struct sweep_record other = {.kind = SWEEP_ROWS, .begin = 40};
    struct sweep_log log;

    (void)state;
    sweep_log_init(&log, &(struct storage_place){.next = 50, .sweep_end = 51});
    assert_int_equal(sweep_read(&log, 50, &begin), SWEEP_PASS);
    assert_int_equal(sweep_read(&log, 51, &rows), SWEEP_APPLY);
    assert_int_equal(sweep_read(&log, 52, &other), SWEEP_BROKEN);
    assert_int_equal(sweep_read(&log, 52, &begin), SWEEP_BROKEN); /* the first was given up */
    assert_int_equal(log.missing_end, 51);
    assert_int_equal(sweep_read(&log, 53, &end), SWEEP_PASS);
    assert_true(log.missing_end == 0 && log.trim == 50 && log.live_bytes == 9);
    assert_int_equal(sweep_read(&log, 54, &rows), SWEEP_PASS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep_golden),       cmocka_unit_test(test_sweep_refused),
        cmocka_unit_test(test_sweep_due),          cmocka_unit_test(test_sweep_bytes),
        cmocka_unit_test(test_sweep_missing_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
