/* Goal: a log that finds no memory says so, and a log that ends at any call to the disk keeps every
 * record that it acknowledged. Method: opening, appending into new segments, fencing, trimming and
 * reading with each allocation refused in turn; and two starts that end at the N-th call, for
 * N = 1, 2, ..., by kill -9 or a power cut, on a disk in memory. */
#include "log/files/log_disk_testing.h"
#include "log/files/log_files.h"
#include <scarce.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

enum { SEGMENT = 4096, APPENDS = 30, BODY = 1000 };

static enum error_code count_record(void *context, const struct log_record *record,
                                    struct error *ret_error)
{
    (void)record, (void)ret_error;
    ++*(uint64_t *)context;
    return ERROR_NONE;
}

/* Everything the log can do; returns whether all of it worked, and counts what is durable. */
static bool use_log(const struct disk_calls *disk, uint64_t *durable)
{
    struct log_files_options options = {
        .folder = "memory", .segment_bytes = SEGMENT, .begin = 1, .disk = disk};
    static char body[BODY];
    struct log_files *log;
    uint64_t count = 0;

    enum error_code code = log_files_open(&options, &log, NULL);
    assert_true(code == ERROR_NONE || code == ERROR_NO_MEMORY);
    if (code)
        return false;
    bool is_whole = true;
    for (int i = 0; i < APPENDS; i++) {
        struct log_record record = {.body = {body, BODY}};

        code = log_files_append(log, &record, 1, NULL);
        assert_true(code == ERROR_NONE || code == ERROR_NO_MEMORY);
        *durable += code == ERROR_NONE;
        is_whole = is_whole && !code;
    }
    code = log_files_trim(log, 1, NULL);
    assert_int_equal(code, ERROR_NONE);
    code = log_files_read(log, 1, count_record, &count, NULL);
    assert_true(code == ERROR_NO_MEMORY || count == *durable);
    is_whole = is_whole && !code;
    log_files_check(log);
    log_files_close(log);
    return is_whole;
}

static void test_log_memory(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("log"); scarce_next(&scarce);) {
        struct disk_memory *memory = disk_memory_create(1);
        uint64_t durable = 0, count = 0;

        scarce_begin(&scarce);
        bool is_whole = use_log(&memory->disk, &durable);
        /* The spare that a trim makes ahead may go without. */
        assert_true(scarce_end(&scarce) || is_whole);
        struct log_files_options options = {
            .folder = "memory", .segment_bytes = SEGMENT, .begin = 1, .disk = &memory->disk};
        struct log_files *log;
        assert_int_equal(log_files_open(&options, &log, NULL), ERROR_NONE);
        assert_int_equal(log_files_read(log, 1, count_record, &count, NULL), ERROR_NONE);
        assert_int_equal(count, durable);
        log_files_close(log);
        free(memory);
    }
}

/* ---- the N-th call ---- */

struct log_life {
    struct log_files_options options;
    uint64_t acknowledged; /* the last offset */
};

static void live_append(struct log_life *life, struct log_files *log, size_t size)
{
    static char body[SEGMENT];
    struct log_record record = {.body = {body, size}};

    if (log_files_append(log, &record, 1, NULL) == ERROR_NONE) {
        assert_true(record.offset == life->acknowledged + 1);
        life->acknowledged = record.offset;
    }
}

static void live(struct log_life *life)
{
    static const size_t sizes[] = {3 * BODY, BODY, BODY};
    struct log_files *log;

    for (size_t start = 0; start < 2; start++) {
        if (log_files_open(&life->options, &log, NULL))
            return;
        /* In the second start the first one of them needs a new segment. */
        for (size_t i = 0; i < 3; i++)
            live_append(life, log, sizes[i]);
        if (start)
            log_files_trim(log, life->acknowledged, NULL);
        log_files_close(log);
    }
}

/* Ends at the call `n`, by kill -9 or a power cut; 0: after all of them. Returns their number. */
static uint64_t live_until(uint64_t n, bool is_cut, uint64_t seed)
{
    struct disk_memory *memory = disk_memory_create(n + 1000 * seed);
    struct log_life life = {
        .options = {.folder = "memory", .segment_bytes = SEGMENT, .disk = &memory->disk}};
    uint64_t count = 0;
    struct error error = {0};
    struct log_files *log;

    if (n)
        disk_memory_fail(memory, n, UINT64_MAX / 2, EIO);
    live(&life);
    uint64_t calls = memory->calls;
    memory->fail_at = 0;
    if (is_cut)
        disk_memory_cut(memory);
    if (log_files_open(&life.options, &log, &error))
        fail_msg("call %u: %s", (unsigned)n, error.text);
    assert_true(log_files_end(log) > life.acknowledged);
    assert_int_equal(log_files_read(log, log_files_first(log), count_record, &count, NULL),
                     ERROR_NONE);
    assert_true(log_files_first(log) + count == log_files_end(log));
    log_files_close(log);
    free(memory);
    return calls;
}

static void test_each_call(void **state)
{
    uint64_t calls = live_until(0, true, 0);

    (void)state;
    for (uint64_t n = 1; n <= calls; n++)
        for (int cut = 0; cut < 20; cut++)
            live_until(n, cut > 0, (uint64_t)cut);
    printf("each of %u calls\n", (unsigned)calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log_memory),
                                       cmocka_unit_test(test_each_call)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
