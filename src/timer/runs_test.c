/* Goal: the last firings come back as they were written, the newest first, and nothing else is
 * taken for them. Method: golden bytes; random runs against a plain array; every cut and every byte
 * that cannot be refused. A report says how a firing ended: golden bodies. */
#include "timer/report.h"
#include "timer/runs.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_golden(void **state)
{
    const struct run run = {.planned = {0x010203040506},
                            .started = {0x0708090a0b0c},
                            .duration_ms = 0x0d0e0f10,
                            .status = 503,
                            .attempts = 7,
                            .outcome = RUN_FAILED,
                            .error = BYTES("HTTP 503")};
    static const uint8_t golden[] = {6, 5,   4,    3,    2,   1,   12,  11,  10, 9,
                                     8, 7,   0x10, 0x0f, 14,  13,  247, 1,   7,  1,
                                     8, 'H', 'T',  'T',  'P', ' ', '5', '0', '3'};
    char room[RUNS_BYTES_MAX];
    const struct bytes runs = runs_add((struct bytes){0}, &run, room);

    (void)state;
    assert_int_equal(RUN_DROPPED, 3);
    assert_int_equal(RUN_SKIPPED, 4);
    assert_int_equal(runs.size, sizeof(golden));
    assert_memory_equal(runs.data, golden, sizeof(golden));
}

static void assert_run(const struct run *actual, const struct run *expected)
{
    assert_int_equal(actual->planned.ms, expected->planned.ms);
    assert_int_equal(actual->started.ms, expected->started.ms);
    assert_int_equal(actual->duration_ms, expected->duration_ms);
    assert_int_equal(actual->status, expected->status);
    assert_int_equal(actual->attempts, expected->attempts);
    assert_int_equal(actual->outcome, expected->outcome);
    assert_true(bytes_equal(actual->error, expected->error));
}

static struct run random_run(struct random *random, const char *error)
{
    return (struct run){.planned = {random_below(random, UINT64_C(1) << 48)},
                        .started = {random_below(random, UINT64_C(1) << 48)},
                        .duration_ms = (uint32_t)random_next(random),
                        .status = (uint16_t)random_next(random),
                        .attempts = (uint8_t)random_next(random),
                        .outcome = (enum run_outcome)random_below(random, RUN_SKIPPED),
                        .error = {error, random_below(random, RUNS_ERROR_MAX + 1)}};
}

/* proves: runs-count */
static void test_the_last_ones_come_back(void **state)
{
    const char *text = getenv("TEST_SEED");
    struct random random = random_seeded(text ? strtoull(text, NULL, 0) : 1);
    enum { COUNT = 100 };
    struct run added[COUNT], run;
    char rooms[2][RUNS_BYTES_MAX], error[RUNS_ERROR_MAX];
    struct bytes runs = {0};

    (void)state;
    memset(error, 'e', sizeof(error));
    for (size_t i = 0; i < COUNT; i++) {
        added[i] = random_run(&random, error);
        runs = runs_add(runs, &added[i], rooms[i % 2]);
        assert_true(runs_is_valid(runs));

        struct bytes rest = runs;
        size_t count = 0;
        for (; runs_next(&rest, &run); count++)
            assert_run(&run, &added[i - count]);
        assert_int_equal(count, i + 1 < RUNS_MAX ? i + 1 : RUNS_MAX);
    }
}

/* proves: run-error */
static void test_a_long_error_is_cut_between_characters(void **state)
{
    char room[RUNS_BYTES_MAX], text[RUNS_ERROR_MAX + 2], exact[RUNS_ERROR_MAX + 1];
    struct run run = {.outcome = RUN_FAILED}, back;

    (void)state;
    memset(exact, 'x', sizeof(exact));
    memset(text, 'x', sizeof(text));
    memcpy(text + RUNS_ERROR_MAX - 1, "\xc3\xa4", 2); /* one character, of which one byte fits */
    for (size_t size = RUNS_ERROR_MAX - 1; size <= RUNS_ERROR_MAX + 1; size++) {
        run.error = (struct bytes){exact, size};
        struct bytes runs = runs_add((struct bytes){0}, &run, room);
        assert_true(runs_next(&runs, &back));
        assert_int_equal(back.error.size, size < RUNS_ERROR_MAX ? size : RUNS_ERROR_MAX);
    }
    run.error = (struct bytes){text, sizeof(text)};
    struct bytes runs = runs_add((struct bytes){0}, &run, room);
    assert_true(runs_next(&runs, &back));
    assert_int_equal(back.error.size, RUNS_ERROR_MAX - 1);
}

static void test_other_bytes_are_refused(void **state)
{
    const struct run run = {.outcome = RUN_FAILED, .error = BYTES("no")};
    char rooms[2][RUNS_BYTES_MAX + RUNS_ROW_SIZE];
    struct bytes runs = {0};

    (void)state;
    for (size_t i = 0; i < RUNS_MAX; i++)
        runs = runs_add(runs, &run, rooms[i % 2]);
    assert_true(runs_is_valid((struct bytes){0}));
    for (size_t size = 1; size < runs.size; size++)
        assert_int_equal(runs_is_valid((struct bytes){runs.data, size}),
                         size % (RUNS_ROW_SIZE + 2) == 0);

    char *all = rooms[0] == runs.data ? rooms[0] : rooms[1];
    all[19] = RUN_OUTCOME_COUNT;
    assert_false(runs_is_valid(runs));
    all[19] = RUN_DONE;
    assert_true(runs_is_valid(runs));
    all[20] = RUNS_ERROR_MAX + 1;
    assert_false(runs_is_valid(runs));
    all[20] = 2;
    memset(all + runs.size, 0, RUNS_ROW_SIZE); /* one row more than there may be */
    assert_false(runs_is_valid((struct bytes){all, runs.size + RUNS_ROW_SIZE}));
}

/* ---- reports ---- */

static struct timer *report_test_timer(void)
{
    struct timer *timer = timer_alloc(&(struct timer_texts){.target = BYTES("https://a.example/x"),
                                                            .payload = BYTES("{\"secret\":1}"),
                                                            .headers = BYTES("X-Key: secret\n"),
                                                            .labels = BYTES("{\"team\":\"a\"}"),
                                                            .key = BYTES("a \"key\""),
                                                            .tenant = BYTES("shop"),
                                                            .trace = BYTES("00-1-2-01"),
                                                            .on_dead = BYTES("queue:dead"),
                                                            .on_success = BYTES("http://b/done")});

    assert_non_null(timer);
    timer->id = (struct timer_id){{1}, 2, 3};
    return timer;
}

static void report_test_assert(struct bytes actual, const char *expected)
{
    if (!bytes_equal(actual, bytes_of(expected)))
        fail_msg("%.*s, not %s", (int)actual.size, actual.data, expected);
}

/* proves: report, report-body */
static void test_a_firing_that_failed(void **state)
{
    const struct run run = {.planned = {1795132800000},
                            .started = {1795132800012},
                            .duration_ms = 40,
                            .status = 503,
                            .attempts = 10,
                            .outcome = RUN_FAILED,
                            .error = BYTES("HTTP 503 \"busy\"")};
    struct timer *timer = report_test_timer(), *report = report_create(timer, &run);

    (void)state;
    assert_non_null(report);
    report_test_assert(report->texts.target, "queue:dead");
    assert_int_equal(report->target.kind, TARGET_QUEUE);
    report_test_assert(
        report->texts.payload,
        "{\"id\":\"0000000004004000000000000c\",\"key\":\"a \\\"key\\\"\","
        "\"labels\":{\"team\":\"a\"},\"planned\":\"2026-11-20T00:00:00.000Z\","
        "\"started\":\"2026-11-20T00:00:00.012Z\",\"duration_ms\":40,\"attempts\":10,"
        "\"outcome\":\"failed\",\"status\":503,\"error\":\"HTTP 503 \\\"busy\\\"\"}");
    report_test_assert(report->texts.report_of, "0000000004004000000000000c");
    report_test_assert(report->texts.tenant, "shop");
    report_test_assert(report->texts.trace, "00-1-2-01");
    assert_int_equal(report->texts.content_type.size + report->texts.headers.size +
                         report->texts.labels.size + report->texts.key.size +
                         report->texts.on_dead.size + report->texts.on_success.size,
                     0);
    timer_free(report);
    timer_free(timer);
}

/* proves: report-body */
static void test_the_shortest(void **state)
{
    const struct run run = {.planned = {1795132800000}, .attempts = 1, .outcome = RUN_DONE};
    struct timer *timer = timer_alloc(&(struct timer_texts){.on_success = BYTES("queue:done")});

    (void)state;
    assert_non_null(timer);
    struct timer *report = report_create(timer, &run);
    assert_non_null(report);
    report_test_assert(
        report->texts.payload,
        "{\"id\":\"00000000000000000000000000\",\"planned\":\"2026-11-20T00:00:00.000Z\","
        "\"attempts\":1,\"outcome\":\"done\"}");
    timer_free(report);
    timer_free(timer);
}

/* proves: report */
static void test_report_targets(void **state)
{
    struct timer *timer = report_test_timer();

    (void)state;
    for (int outcome = 0; outcome < RUN_OUTCOME_COUNT; outcome++)
        report_test_assert(report_target(timer, (enum run_outcome)outcome),
                           outcome == RUN_DONE ? "http://b/done" : "queue:dead");
    timer_free(timer);
}

static void test_skipped_firings_in_a_row_are_one_run(void **state)
{
    const struct run skipped[] = {
        {.planned = {10}, .until = {30}, .count = 3, .outcome = RUN_SKIPPED, .error = BYTES("a")},
        {.planned = {40}, .until = {50}, .count = 2, .outcome = RUN_SKIPPED, .error = BYTES("b")}};
    char rooms[2][RUNS_BYTES_MAX];
    struct bytes runs = runs_add((struct bytes){0}, &(struct run){.outcome = RUN_DONE}, rooms[0]);
    struct run run;

    (void)state;
    runs = runs_add(runs, &skipped[0], rooms[1]);
    runs = runs_add(runs, &skipped[1], rooms[0]);
    assert_true(runs_is_valid(runs));
    assert_int_equal(runs_summarize(runs).skipped, 5);
    assert_true(runs_next(&runs, &run));
    assert_int_equal(run.planned.ms, 10);
    assert_int_equal(run.until.ms, 50);
    assert_int_equal(run.count, 5);
    assert_int_equal(run.started.ms, 0);
    assert_true(bytes_equal(run.error, BYTES("b")));
    assert_true(runs_next(&runs, &run) && run.outcome == RUN_DONE && !runs.size);
}

static void test_a_summary_counts_from_the_last_one(void **state)
{
    static const struct {
        const char *outcomes; /* the oldest first; l: dropped after an attempt */
        struct runs_summary expected;
    } rows[] = {{"", {RUNS_LAST_NEVER, 0, 0}},      {"d", {RUNS_LAST_OK, 0, 0}},
                {"fffd", {RUNS_LAST_OK, 0, 0}},     {"dfe", {RUNS_LAST_FAILED, 2, 0}},
                {"dfss", {RUNS_LAST_FAILED, 1, 2}}, {"dsfse", {RUNS_LAST_FAILED, 2, 0}},
                {"dss", {RUNS_LAST_OK, 0, 2}},      {"ss", {RUNS_LAST_SKIPPED, 0, 2}},
                {"dl", {RUNS_LAST_FAILED, 1, 0}},   {"dlsl", {RUNS_LAST_FAILED, 2, 0}},
                {"ls", {RUNS_LAST_FAILED, 1, 1}},   {"ld", {RUNS_LAST_OK, 0, 0}}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char rooms[2][RUNS_BYTES_MAX];
        struct bytes runs = {0};
        size_t room = 0;

        for (const char *at = rows[i].outcomes; *at; at++, room = !room)
            runs = runs_add(runs,
                            &(struct run){.attempts = *at == 'l',
                                          .outcome = *at == 'd'   ? RUN_DONE
                                                     : *at == 'f' ? RUN_FAILED
                                                     : *at == 'e' ? RUN_ENDED
                                                                  : RUN_DROPPED},
                            rooms[room]);
        const struct runs_summary summary = runs_summarize(runs);
        assert_int_equal(summary.last, rows[i].expected.last);
        assert_int_equal(summary.failures, rows[i].expected.failures);
        assert_int_equal(summary.skipped, rows[i].expected.skipped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_the_last_ones_come_back),
        cmocka_unit_test(test_a_long_error_is_cut_between_characters),
        cmocka_unit_test(test_other_bytes_are_refused),
        cmocka_unit_test(test_a_firing_that_failed),
        cmocka_unit_test(test_the_shortest),
        cmocka_unit_test(test_report_targets),
        cmocka_unit_test(test_skipped_firings_in_a_row_are_one_run),
        cmocka_unit_test(test_a_summary_counts_from_the_last_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
