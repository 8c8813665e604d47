/*
 * Goal: a timer that repeats shows its last firings as its target saw them, the newest first,
 * through restarts, changes and failed commits; and the end of a firing makes one report, which is
 * durable with it. Method: small histories of one engine over memory,
 * whose deliveries come back with times and outcomes of the test.
 */
#include "engine/engine_testing.h"
#include "timer/runs.h"

#include <stdio.h>

/* A timer that repeats each second, from one second after START. */
static struct timer_id outcome_create(struct engine_fixture *fixture, const char *schedule)
{
    const struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                      .schedule = bytes_of(schedule)};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    assert_non_null(timer);
    timer->created = START;
    timer->due.ms = START.ms + 1000;
    timer->retry = (struct retry_policy){2, 1, 1, 1000, 0, false};
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return created.id;
}

/* The delivery that is out began at the fixture's time, and took `duration_ms`. */
static void outcome_answer(struct engine_fixture *fixture, uint64_t duration_ms,
                           struct delivery_outcome outcome)
{
    struct delivery *delivery = fixture_first_out(fixture);

    assert_non_null(delivery);
    delivery->started_us = fixture->now.ms * 1000 + 999;
    delivery->ended_us = (fixture->now.ms + duration_ms) * 1000;
    fixture_answer(fixture, delivery, outcome);
}

#define DONE   ((struct delivery_outcome){.result = DELIVERY_DONE, .status = 204})
#define FAILED ((struct delivery_outcome){.result = DELIVERY_FAILED, .status = 500, .error = "500"})

/* What the timer shows; the texts lie in `ret_room`. */
static size_t outcome_runs(struct engine_fixture *fixture, const struct timer_id *id,
                           char ret_room[RUNS_BYTES_MAX], struct run ret_runs[RUNS_MAX])
{
    struct command command = {.kind = COMMAND_GET, .id = *id};
    size_t count = 0;

    fixture_command(fixture, &command);
    assert_non_null(command.timer);
    struct bytes rest = {ret_room, command.timer->texts.runs.size};
    if (rest.size)
        memcpy(ret_room, command.timer->texts.runs.data, rest.size);
    fixture_carry_out(fixture);
    assert_true(runs_is_valid(rest));
    while (runs_next(&rest, &ret_runs[count]))
        count++;
    return count;
}

static void outcome_assert_run(const struct run *run, uint64_t planned_ms, uint64_t started_ms,
                               uint32_t attempts, enum run_outcome outcome, const char *error)
{
    assert_int_equal(run->planned.ms, START.ms + planned_ms);
    assert_int_equal(run->started.ms, started_ms ? START.ms + started_ms : 0);
    assert_int_equal(run->attempts, attempts);
    assert_int_equal(run->outcome, outcome);
    assert_true(bytes_equal(run->error, bytes_of(error)));
}

static void outcome_assert_skipped(const struct run *run, uint64_t first_ms, uint64_t last_ms,
                                   uint32_t count, const char *error)
{
    assert_int_equal(run->outcome, RUN_SKIPPED);
    assert_int_equal(run->planned.ms, START.ms + first_ms);
    assert_int_equal(run->until.ms, START.ms + last_ms);
    assert_int_equal(run->count, count);
    assert_true(bytes_equal(run->error, bytes_of(error)));
}

/* proves: runs, run-planned, run-outcome */
static void test_each_firing_is_a_run(void **state)
{
    struct run runs[RUNS_MAX];
    char room[RUNS_BYTES_MAX];
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = outcome_create(&fixture, "{\"every\":\"1s\"}");
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 0);
    fixture_advance_to(&fixture, 1003);
    outcome_answer(&fixture, 30, DONE);
    fixture_advance_to(&fixture, 2000);
    outcome_answer(&fixture, 10, FAILED); /* its first attempt is no run */
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 1);
    fixture_advance_to(&fixture, 2005);
    outcome_answer(&fixture, 20, FAILED);
    fixture_close(&fixture); /* what is durable is shown */
    fixture_open(&fixture);
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 2);
    outcome_assert_run(&runs[0], 2000, 2005, 2, RUN_FAILED, "500");
    assert_int_equal(runs[0].duration_ms, 20);
    assert_int_equal(runs[0].status, 500);
    outcome_assert_run(&runs[1], 1000, 1003, 1, RUN_DONE, "");
    assert_int_equal(runs[1].duration_ms, 30);
    assert_int_equal(runs[1].status, 204);

    fixture_advance_to(&fixture, 3000);
    outcome_answer(&fixture, 5, (struct delivery_outcome){DELIVERY_ENDED, .error = "410"});
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 3); /* and a dead letter keeps them */
    outcome_assert_run(&runs[0], 3000, 3000, 1, RUN_ENDED, "410");
    fixture_deinit(&fixture);
}

/* The outcome of a worker has no end of its own: the engine's time is its end. */
static void test_a_run_without_an_end_ends_now(void **state)
{
    struct run runs[RUNS_MAX];
    char room[RUNS_BYTES_MAX];
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = outcome_create(&fixture, "{\"every\":\"1s\"}");
    fixture_advance_to(&fixture, 1000);
    fixture_first_out(&fixture)->started_us = (START.ms + 1000) * 1000;
    fixture_advance_to(&fixture, 1700);
    fixture_answer(&fixture, fixture_first_out(&fixture), DONE);
    fixture_advance_to(&fixture, 2000);
    fixture_answer(&fixture, fixture_first_out(&fixture), DONE); /* one without a start */
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 2);
    assert_int_equal(runs[1].duration_ms, 700);
    outcome_assert_run(&runs[0], 2000, 0, 1, RUN_DONE, "");
    assert_int_equal(runs[0].duration_ms, 0);
    fixture_deinit(&fixture);
}

/* proves: runs, runs-count */
static void test_the_last_twenty_stay(void **state)
{
    struct run runs[RUNS_MAX];
    char room[RUNS_BYTES_MAX];
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = outcome_create(&fixture, "{\"every\":\"1s\",\"count\":22}");
    for (uint64_t i = 1; i <= 22; i++) {
        fixture_advance_to(&fixture, 1000 * i);
        outcome_answer(&fixture, i, DONE);
        const size_t count = outcome_runs(&fixture, &id, room, runs);
        assert_int_equal(count, i < RUNS_MAX ? i : RUNS_MAX);
        for (size_t k = 0; k < count; k++)
            assert_int_equal(runs[k].duration_ms, i - k);
    }
    fixture_deinit(&fixture);
}

/* proves: run-outcome, drop-after */
static void test_a_firing_without_an_attempt_is_a_run(void **state)
{
    struct run runs[RUNS_MAX];
    char room[RUNS_BYTES_MAX];
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id =
        outcome_create(&fixture, "{\"every\":\"1s\",\"late\":{\"drop_after\":\"1m\"}}");
    fixture_advance_to(&fixture, 70500); /* the first is too late, the last one missed is not */
    outcome_answer(&fixture, 1, DONE);
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 3);
    outcome_assert_run(&runs[0], 70000, 70500, 1, RUN_DONE, "");
    outcome_assert_skipped(&runs[1], 2000, 69000, 68,
                           "missed because it was too late for them, too");
    outcome_assert_run(&runs[2], 1000, 0, 0, RUN_DROPPED, "dropped: it was 1m9s500ms late");
    fixture_deinit(&fixture);
}

/* proves: run-skipped */
static void test_planned_firings_that_nobody_attempts_are_one_run(void **state)
{
    struct run runs[RUNS_MAX];
    char room[RUNS_BYTES_MAX];
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = outcome_create(&fixture, "{\"every\":\"1s\"}");
    fixture_advance_to(&fixture, 5500); /* the one at 5 s is in place of four before it */
    outcome_answer(&fixture, 1, DONE);
    fixture_advance_to(&fixture, 6000);
    fixture_first_out(&fixture)->started_us = (START.ms + 6000) * 1000;
    fixture_advance_to(&fixture, 9500);
    fixture_answer(&fixture, fixture_first_out(&fixture), DONE);
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 4);
    outcome_assert_skipped(&runs[0], 7000, 8000, 2,
                           "missed because the firing before was not over");
    outcome_assert_run(&runs[1], 6000, 6000, 1, RUN_DONE, "");
    outcome_assert_run(&runs[2], 5000, 5500, 1, RUN_DONE, "");
    outcome_assert_skipped(&runs[3], 1000, 4000, 4, "missed because of a busy engine");
    fixture_deinit(&fixture);
}

/* A batch tells how many messages of a transaction end with it. */
static void test_messages_are_counted(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    for (int i = 0; i < 2; i++) {
        outcome_create(&fixture, "");
        fixture_advance_to(&fixture, 1000);
        struct delivery *delivery = fixture_first_out(&fixture);
        assert_non_null(delivery);
        list_remove(&delivery->link);
        delivery->outcome = DONE;
        delivery->is_in_transaction = i == 0;
        turn_delivered(fixture.engine, fixture.now, delivery);
        struct storage_batch *batch = engine_take_batch(fixture.engine);
        assert_non_null(batch);
        assert_int_equal(batch->messages, i == 0);
        fixture_commit(&fixture, batch);
        fixture_carry_out(&fixture);
    }
    fixture_deinit(&fixture);
}

/* A timer that fires once has none; one that is replaced keeps those it has. */
/* proves: runs */
static void test_only_what_repeats_has_runs(void **state)
{
    struct run runs[RUNS_MAX];
    char room[RUNS_BYTES_MAX];
    struct engine_fixture fixture;
    struct timer_id once;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = outcome_create(&fixture, "{\"every\":\"1s\"}");
    fixture_advance_to(&fixture, 1000);
    outcome_answer(&fixture, 1, DONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_PATCH, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 1);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 1);

    assert_int_equal(fixture_create(&fixture, "http://a.example/", 2000, &once), ERROR_NONE);
    fixture_advance_to(&fixture, 2000);
    outcome_answer(&fixture, 1, DONE);
    assert_int_equal(outcome_runs(&fixture, &once, room, runs), 0);
    fixture_deinit(&fixture);
}

/* An outcome whose commit failed is written again: one run, not two. */
static void test_a_repeated_write_is_one_run(void **state)
{
    struct run runs[RUNS_MAX];
    char room[RUNS_BYTES_MAX];
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = outcome_create(&fixture, "{\"every\":\"1s\"}");
    fixture_advance_to(&fixture, 1000);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    outcome_answer(&fixture, 1, DONE);
    fixture_advance_to(&fixture, 1500);
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 1);
    fixture_close(&fixture);
    fixture_open(&fixture);
    assert_int_equal(outcome_runs(&fixture, &id, room, runs), 1);
    fixture_deinit(&fixture);
}

/* ---- reports ---- */

static struct timer_id outcome_create_reported(struct engine_fixture *fixture, const char *schedule,
                                               uint64_t due_ms)
{
    struct timer *timer = timer_alloc(&(struct timer_texts){.target = BYTES("http://a.example/"),
                                                            .schedule = bytes_of(schedule),
                                                            .key = BYTES("bill"),
                                                            .labels = BYTES("{\"a\":\"b\"}"),
                                                            .on_dead = BYTES("http://dead/"),
                                                            .on_success = BYTES("http://done/")});
    struct command_created created;
    struct command command = {
        .kind = COMMAND_PUT, .timers = &timer, .results = &created, .timer_count = 1};

    assert_non_null(timer);
    timer->due.ms = START.ms + due_ms;
    timer->retry = (struct retry_policy){2, 1, 1, 1000, 0, false};
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return created.id;
}

/* The next delivery is a report of the timer to this target, whose body ends like this. */
static void outcome_take_report(struct engine_fixture *fixture, const struct timer_id *of,
                                const char *target, const char *end)
{
    struct delivery *delivery = fixture_first_out(fixture);
    char id[TIMER_ID_TEXT_SIZE], body[512];

    assert_non_null(delivery);
    timer_id_format(of, id);
    snprintf(body, sizeof(body), "{\"id\":\"%s\",\"key\":\"bill\",\"labels\":{\"a\":\"b\"},%s", id,
             end);
    const struct timer *report = delivery->timer;
    assert_true(bytes_equal(report->texts.target, bytes_of(target)));
    assert_true(bytes_equal(report->texts.report_of, bytes_of(id)));
    if (!bytes_equal(report->texts.payload, bytes_of(body)))
        fail_msg("%.*s", (int)report->texts.payload.size, report->texts.payload.data);
    assert_int_equal(report->texts.content_type.size + report->texts.on_dead.size, 0);
    fixture_answer(fixture, delivery, DONE);
    assert_null(fixture_first_out(fixture));
}

#define PLANNED(second) "\"planned\":\"2027-01-15T08:00:0" second "Z\","

/* Each end goes to its target; an attempt that is followed by another, and a cancel, to none. */
/* proves: report, report-body */
static void test_each_end_is_reported(void **state)
{
    struct engine_fixture fixture;
    struct engine_stats stats;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = outcome_create_reported(
        &fixture, "{\"every\":\"1s\",\"late\":{\"drop_after\":\"1m\"}}", 1000);
    fixture_advance_to(&fixture, 1003);
    outcome_answer(&fixture, 30, DONE);
    fixture_advance_to(&fixture, 1004);
    outcome_take_report(&fixture, &id, "http://done/",
                        PLANNED("1.000") "\"started\":\"2027-01-15T08:00:01.003Z\","
                                         "\"duration_ms\":30,\"attempts\":1,"
                                         "\"outcome\":\"done\",\"status\":204}");
    fixture_advance_to(&fixture, 2000);
    outcome_answer(&fixture, 10, FAILED);
    assert_null(fixture_first_out(&fixture));
    fixture_advance_to(&fixture, 2005);
    outcome_answer(&fixture, 20, FAILED);
    fixture_advance_to(&fixture, 2006);
    outcome_take_report(
        &fixture, &id, "http://dead/",
        PLANNED("2.000") "\"started\":\"2027-01-15T08:00:02.005Z\","
                         "\"duration_ms\":20,\"attempts\":2,"
                         "\"outcome\":\"failed\",\"status\":500,\"error\":\"500\"}");
    fixture_close(&fixture);
    fixture.now.ms = START.ms + 70500;
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 70501);
    outcome_answer(&fixture, 0, (struct delivery_outcome){DELIVERY_ENDED, .error = "410"});
    fixture_advance_to(&fixture, 70502);
    assert_int_equal(fixture.delivered_count,
                     8); /* 4 attempts; of 4 firings, one of them dropped, each has a report */
    fixture_answer_all(&fixture, DELIVERY_DONE);
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.pending, 0);

    const struct timer_id cancelled = outcome_create_reported(&fixture, "", 80000);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &cancelled, 0, NULL), ERROR_NONE);
    fixture_advance_to(&fixture, 90000);
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.pending, 0);
    fixture_deinit(&fixture);
}

/* A redrive that ends makes a report of its own. */
/* proves: report */
static void test_a_redrive_is_reported_again(void **state)
{
    const struct delivery_outcome gone = {DELIVERY_ENDED, .error = "410"};
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = outcome_create_reported(&fixture, "", 1000);
    for (uint64_t i = 1; i <= 2; i++) {
        fixture_advance_to(&fixture, 1000 * i);
        outcome_answer(&fixture, 1, gone);
        fixture_advance_to(&fixture, 1000 * i + 1);
        assert_true(
            bytes_equal(fixture_first_out(&fixture)->timer->texts.target, BYTES("http://dead/")));
        fixture_answer(&fixture, fixture_first_out(&fixture), DONE);
        if (i == 1)
            assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    }
    assert_int_equal(fixture.delivered_count, 4);
    fixture_deinit(&fixture);
}

/* A commit that failed: the outcome and its report are there once. */
/* proves: report-once */
static void test_a_report_written_again_is_one(void **state)
{
    static const char *const schedules[] = {"", "{\"every\":\"1h\"}"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct engine_fixture fixture;
        struct engine_stats stats;

        fixture_init(&fixture);
        outcome_create_reported(&fixture, schedules[i], 1000);
        fixture_advance_to(&fixture, 1000);
        memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
        outcome_answer(&fixture, 1, DONE);
        assert_null(fixture_first_out(&fixture)); /* not before it is durable */
        fixture_advance_to(&fixture, 5000);
        assert_int_equal(fixture.delivered_count, 2);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        fixture_close(&fixture);
        fixture_open(&fixture);
        fixture_advance_to(&fixture, 6000);
        assert_int_equal(fixture.delivered_count, 2);
        engine_stats(fixture.engine, &stats);
        assert_int_equal(stats.pending, i);
        fixture_deinit(&fixture);
    }
}

/* Reports count as pending, and are not refused for want of places: of the whole engine, and of
 * their tenant. */
/* proves: report-counted */
static void test_reports_are_counted_and_never_refused(void **state)
{
    struct engine_fixture fixture;
    struct engine_stats stats;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.pending_max = 1;
    fixture_open(&fixture);
    outcome_create_reported(&fixture, "{\"every\":\"1s\"}", 1000);
    fixture_advance_to(&fixture, 1000);
    outcome_answer(&fixture, 1, DONE);
    fixture_advance_to(&fixture, 1001);
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.pending, 2);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 5000, NULL), ERROR_TOO_MANY);
    fixture_deinit(&fixture);
}

static size_t outcome_error_size(struct engine_fixture *fixture, const struct timer_id *id)
{
    struct command command = {.kind = COMMAND_GET, .id = *id};

    fixture_command(fixture, &command);
    assert_non_null(command.timer);
    const size_t size = command.timer->texts.last_error.size;
    fixture_carry_out(fixture);
    return size;
}

/* The error of an attempt, and that of a firing, last until a success. */
/* proves: timer-attempts */
static void test_a_success_ends_the_error(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    const struct timer_id often = outcome_create(&fixture, "{\"every\":\"1s\"}");
    struct timer_id once;
    fixture_advance_to(&fixture, 1000);
    outcome_answer(&fixture, 1, FAILED);
    fixture_advance_to(&fixture, 1100);
    outcome_answer(&fixture, 1, FAILED);
    assert_int_equal(outcome_error_size(&fixture, &often), 3); /* the firing is given up */
    fixture_advance_to(&fixture, 2000);
    assert_int_equal(outcome_error_size(&fixture, &often), 3);
    outcome_answer(&fixture, 1, DONE);
    assert_int_equal(outcome_error_size(&fixture, &often), 0);
    fixture_ask(&fixture, COMMAND_CANCEL, &often, 0, NULL);
    fixture_create(&fixture, "http://a.example/", 3000, &once);
    fixture_advance_to(&fixture, 3000);
    outcome_answer(&fixture, 1,
                   (struct delivery_outcome){.result = DELIVERY_FAILED,
                                             .pause = DELIVERY_PAUSE_EXACT,
                                             .retry_after_ms = 100,
                                             .error = "500"});
    assert_int_equal(outcome_error_size(&fixture, &once), 3);
    fixture_advance_to(&fixture, 3200);
    outcome_answer(&fixture, 1, DONE);
    assert_int_equal(outcome_error_size(&fixture, &once), 0);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_firing_is_a_run),
        cmocka_unit_test(test_a_success_ends_the_error),
        cmocka_unit_test(test_a_run_without_an_end_ends_now),
        cmocka_unit_test(test_the_last_twenty_stay),
        cmocka_unit_test(test_a_firing_without_an_attempt_is_a_run),
        cmocka_unit_test(test_planned_firings_that_nobody_attempts_are_one_run),
        cmocka_unit_test(test_messages_are_counted),
        cmocka_unit_test(test_only_what_repeats_has_runs),
        cmocka_unit_test(test_a_repeated_write_is_one_run),
        cmocka_unit_test(test_each_end_is_reported),
        cmocka_unit_test(test_a_redrive_is_reported_again),
        cmocka_unit_test(test_a_report_written_again_is_one),
        cmocka_unit_test(test_reports_are_counted_and_never_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
