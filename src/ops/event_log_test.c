/*
 * Goal: one event is one line that a machine can split and a person can read, whatever the values
 * hold. Method: lines go to a file in memory under a clock that stands still, and are compared
 * whole.
 */
#include "ops/event_log.h"

#include "ops/metrics.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct event_log_fixture {
    FILE *file;
    char *text;
    size_t size;
    struct event_log log;
};

static struct wall still(void)
{
    return (struct wall){UINT64_C(1795219199250)};
}

static int event_log_setup(void **state)
{
    struct event_log_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    fixture->file = open_memstream(&fixture->text, &fixture->size);
    assert_non_null(fixture->file);
    event_log_init(&fixture->log, fixture->file, EVENT_LOG_INFO, still);
    *state = fixture;
    return 0;
}

static int event_log_teardown(void **state)
{
    struct event_log_fixture *fixture = *state;

    fclose(fixture->file);
    free(fixture->text);
    free(fixture);
    return 0;
}

static void writes_one_line_of_pairs(void **state)
{
    struct event_log_fixture *fixture = *state;
    struct event_log_line line;

    event_log_begin(&line, &fixture->log, EVENT_LOG_INFO, "started");
    event_log_text(&line, "listen", "127.0.0.1:8463");
    event_log_number(&line, "partitions", UINT64_MAX);
    event_log_end(&line);
    assert_string_equal(fixture->text, "time=2026-11-20T23:59:59.250Z level=info event=started "
                                       "listen=127.0.0.1:8463 partitions=18446744073709551615\n");
}

static void quotes_what_would_break_a_line(void **state)
{
    static const struct {
        const char *value, *written;
    } cases[] = {
        {"plain-value_1.0:/", "plain-value_1.0:/"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"C:\\x", "\"C:\\\\x\""},
        {"line\nlevel=error", "\"line\\nlevel=error\""},
        {"\x1b[31m\x7f\r", "\"\\x1b[31m\\x7f\\x0d\""},
        {"grün", "grün"},
        {"\xc2\x9b\x33\x31m", "\"\\xc2\\x9b31m\""}, /* C1: begins a command of terminals */
        {"a\xe2\x80\xae", "\"a\\xe2\\x80\\xae\""},  /* changes the direction of text */
        {"\xff", "\"\\xff\""},                      /* is no UTF-8 */
    };
    struct event_log_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct event_log_line line;
        size_t before = fixture->size;

        event_log_begin(&line, &fixture->log, EVENT_LOG_ERROR, "e");
        event_log_text(&line, "k", cases[i].value);
        event_log_end(&line);
        char wanted[128];
        snprintf(wanted, sizeof(wanted), "time=2026-11-20T23:59:59.250Z level=error event=e k=%s\n",
                 cases[i].written);
        assert_string_equal(fixture->text + before, wanted);
    }
}

static void drops_events_above_its_level(void **state)
{
    struct event_log_fixture *fixture = *state;
    struct event_log_line line;

    event_log_begin(&line, &fixture->log, EVENT_LOG_DEBUG, "detail");
    event_log_text(&line, "k", "v");
    event_log_number(&line, "n", 1);
    event_log_end(&line);
    fflush(fixture->file);
    assert_int_equal(fixture->size, 0);
}

static void leaves_out_whole_pairs_of_a_line_that_is_too_long(void **state)
{
    struct event_log_fixture *fixture = *state;

    /* Every length around the limit, so that each of the cuts is met. */
    for (size_t size = EVENT_LOG_LINE_SIZE - 120; size < EVENT_LOG_LINE_SIZE + 20; size++) {
        fflush(fixture->file);
        size_t before = fixture->size;
        char value[EVENT_LOG_LINE_SIZE * 2];
        memset(value, 'x', size);
        value[size] = '\0';
        struct event_log_line line;
        event_log_begin(&line, &fixture->log, EVENT_LOG_WARN, "long");
        event_log_text(&line, "big", value);
        event_log_text(&line, "small", "y");
        event_log_end(&line);
        const char *at = fixture->text + before;
        assert_true(fixture->size - before <= EVENT_LOG_LINE_SIZE);
        assert_int_equal(at[strlen(at) - 1], '\n');
        assert_ptr_equal(strchr(at, '\n'), at + strlen(at) - 1);
        if (strstr(at, " small=y\n"))
            assert_non_null(strstr(at, value));
        else
            assert_non_null(strstr(at, " cut=1\n"));
        if (strstr(at, " big="))
            assert_non_null(strstr(at, value));
    }
}

static void survives_a_file_that_takes_nothing(void **state)
{
    FILE *full = fopen("/dev/full", "w");

    (void)state;
    assert_non_null(full);
    struct event_log log;
    event_log_init(&log, full, EVENT_LOG_INFO, still);
    struct event_log_line line;
    event_log_begin(&line, &log, EVENT_LOG_INFO, "started");
    event_log_end(&line);
    fclose(full);
}

/* A pipe that nobody reads: lines that do not fit are dropped at once and counted, a stop ends.
 * When it is read again, all lines but those come, and one that gives their count. */
/* proves: log-never-waits */
static void waits_for_no_reader(void **state)
{
    enum { LINES = 10000 };
    struct metrics *metrics = metrics_create("test", still());
    struct event_log log;
    int ends[2];

    (void)state;
    assert_non_null(metrics);
    for (int is_read = 0; is_read < 2; is_read++) {
        assert_int_equal(pipe(ends), 0);
        FILE *file = fdopen(ends[1], "w");
        FILE *reader = fdopen(ends[0], "r");
        event_log_init(&log, file, EVENT_LOG_INFO, still);
        assert_int_equal(event_log_start(&log, metrics, NULL), ERROR_NONE);
        const uint64_t before = metrics_get(metrics, METRIC_LOG_LINES_DROPPED);
        for (uint64_t i = 0; i < LINES; i++) {
            struct event_log_line line;

            event_log_begin(&line, &log, EVENT_LOG_INFO, "e");
            event_log_number(&line, "i", i);
            event_log_end(&line);
        }
        const uint64_t dropped = metrics_get(metrics, METRIC_LOG_LINES_DROPPED) - before;
        assert_in_range(dropped, 1, LINES - 3000);
        if (is_read) {
            char text[EVENT_LOG_LINE_SIZE];
            uint64_t told = 0;
            for (uint64_t next = 0; next < LINES;) {
                assert_non_null(fgets(text, sizeof(text), reader));
                const char *number = strrchr(text, '=');
                const uint64_t value = strtoull(number + 1, NULL, 10);
                const bool is_told = strstr(text, " event=log_lines_dropped count=") != NULL;

                assert_true(is_told || value == next);
                told += is_told ? value : 0;
                next += is_told ? value : 1;
            }
            assert_int_equal(told, dropped);
        }
        event_log_stop(&log);
        fclose(file);
        fclose(reader);
    }
    metrics_destroy(metrics);
}

static unsigned event_log_count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks));)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* Goal: without lines for a while there is no thread, and a later line is written. */
static void has_no_thread_without_lines(void **state)
{
    const unsigned threads = event_log_count_threads();
    struct metrics *metrics = metrics_create("0", (struct wall){0});
    struct event_log_line line;
    struct event_log log;
    char text[EVENT_LOG_LINE_SIZE];
    int pipes[2];

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    FILE *file = fdopen(pipes[1], "w");
    assert_non_null(file);
    event_log_init(&log, file, EVENT_LOG_INFO, still);
    assert_int_equal(event_log_start(&log, metrics, NULL), ERROR_NONE);
    for (int i = 0; i < 2; i++) {
        assert_true(i == 0 || event_log_count_threads() == threads);
        event_log_begin(&line, &log, EVENT_LOG_INFO, "started");
        event_log_end(&line);
        assert_true(read(pipes[0], text, sizeof(text)) > 0);
        while (event_log_count_threads() > threads)
            poll(NULL, 0, 10);
    }
    event_log_stop(&log);
    metrics_destroy(metrics);
    fclose(file);
    close(pipes[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_one_line_of_pairs, event_log_setup,
                                        event_log_teardown),
        cmocka_unit_test_setup_teardown(quotes_what_would_break_a_line, event_log_setup,
                                        event_log_teardown),
        cmocka_unit_test_setup_teardown(drops_events_above_its_level, event_log_setup,
                                        event_log_teardown),
        cmocka_unit_test_setup_teardown(leaves_out_whole_pairs_of_a_line_that_is_too_long,
                                        event_log_setup, event_log_teardown),
        cmocka_unit_test(survives_a_file_that_takes_nothing),
        cmocka_unit_test(waits_for_no_reader),
        cmocka_unit_test(has_no_thread_without_lines),
    };

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
