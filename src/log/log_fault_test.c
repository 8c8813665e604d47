/* Goal: a log that finds no memory says so and keeps every record. Method: opening, appending into
 * new segments, fencing, trimming and reading with each allocation refused in turn, on a disk in
 * memory. */
#include "log/log_disk_testing.h"
#include "log/log_files.h"
#include <scarce.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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
    struct log *log;
    uint64_t count = 0;

    enum error_code code = log_files_open(&options, &log, NULL);
    assert_true(code == ERROR_NONE || code == ERROR_NO_MEMORY);
    if (code)
        return false;
    bool is_whole = true;
    for (int i = 0; i < APPENDS; i++) {
        struct log_record record = {.epoch = 9, .body = {body, BODY}};

        code = log_append(log, &record, 1, NULL);
        assert_true(code == ERROR_NONE || code == ERROR_NO_MEMORY);
        *durable += code == ERROR_NONE;
        is_whole = is_whole && !code;
    }
    code = log_fence(log, 30, 2, NULL);
    is_whole = is_whole && !code;
    code = log_trim(log, 1, NULL);
    assert_int_equal(code, ERROR_NONE);
    code = log_read(log, 1, count_record, &count, NULL);
    assert_true(code == ERROR_NO_MEMORY || count == *durable);
    is_whole = is_whole && !code;
    log_files_check(log);
    log_close(log);
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
        struct log *log;
        assert_int_equal(log_files_open(&options, &log, NULL), ERROR_NONE);
        assert_int_equal(log_read(log, 1, count_record, &count, NULL), ERROR_NONE);
        assert_int_equal(count, durable);
        log_close(log);
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
