/*
 * Goal: a forecast counts every timer in the unit in which it is due, and beyond what it may read
 * it says nothing. Method: timers at known times, within the window and on disk; one that recurs; a
 * limit of rows below what there is; timers that were touched, wait for their parts or are held.
 */
#include "engine/engine_testing.h"

#include "engine/forecast.h"

enum { UNITS = 10 };

static void look_ahead(struct engine_fixture *fixture, struct forecast *forecast, uint64_t rows_max)
{
    static uint64_t due[UNITS];
    struct command command = {.kind = COMMAND_FORECAST, .forecast = forecast};

    memset(due, 0xff, sizeof(due)); /* what is left over of this shows */
    *forecast = (struct forecast){
        .from = fixture->now, .unit_ms = 60000, .count = UNITS, .rows_max = rows_max, .due = due};
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
}

/* proves: forecast */
static void test_counts_by_unit(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", 0, NULL); /* out, and due no more */
    fixture_create(&fixture, "queue:jobs", 0, NULL);
    fixture_create(&fixture, "http://a.example/", 59999, NULL);
    for (uint64_t i = 0; i < 3; i++)
        fixture_create(&fixture, "http://a.example/", 60000 + i, NULL);
    fixture_create(&fixture, "http://a.example/", 10 * 60000 - 1, NULL);
    fixture_create(&fixture, "http://a.example/", 10 * 60000, NULL);
    fixture_create(&fixture, "http://a.example/", 9000 * HOUR_MS, NULL);
    fixture_advance_to(&fixture, 1);
    struct forecast forecast;
    look_ahead(&fixture, &forecast, 1000);
    assert_int_equal(forecast.overdue, 2);
    assert_int_equal(forecast.due[0], 2); /* from a moment later than those two */
    assert_int_equal(forecast.due[1], 2);
    assert_int_equal(forecast.due[9], 2);
    for (int i = 2; i < 9; i++)
        assert_int_equal(forecast.due[i], 0);
    assert_true(forecast.until.ms == forecast_end(&forecast).ms);
    assert_int_equal(forecast.rows, 8);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    look_ahead(&fixture, &forecast, 1000);
    assert_int_equal(forecast.overdue, 1);
    fixture_deinit(&fixture);
}

/* proves: forecast, forecast-rows */
static void test_ends_where_its_rows_end(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (uint64_t i = 0; i < 3000; i++)
        fixture_create(&fixture, "http://a.example/", 60000 + i * 100, NULL);
    struct forecast forecast;
    look_ahead(&fixture, &forecast, 3001);
    assert_true(forecast.until.ms == forecast_end(&forecast).ms);
    assert_int_equal(forecast.due[1] + forecast.due[2] + forecast.due[3] + forecast.due[4] +
                         forecast.due[5],
                     3000);
    look_ahead(&fixture, &forecast, 1300); /* more than a page */
    assert_int_equal(forecast.rows, 1300);
    assert_true(forecast.until.ms >= START.ms + 60000 + 1299 * 100 &&
                forecast.until.ms <= START.ms + 60000 + 1300 * 100);
    assert_int_equal(forecast.due[1], 600);
    assert_int_equal(forecast.due[2], 600);
    fixture_deinit(&fixture);
}

/* proves: forecast */
static void test_counts_what_recurs(void **state)
{
    struct command_created created;
    struct timer *timer;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct buffer text;
    buffer_init(&text);
    struct schedule_spec spec = SCHEDULE_SPEC_DEFAULT;
    spec.every_ms = 10000;
    spec.from = (struct wall){START.ms + 60000};
    schedule_write(&spec, &text);
    timer = timer_alloc(&(struct timer_texts){.target = BYTES("http://a.example/"),
                                              .schedule = buffer_bytes(&text)});
    timer->due = spec.from;
    timer->created = START;
    fixture_command(&fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(&fixture);
    struct forecast forecast;
    look_ahead(&fixture, &forecast, 1000);
    assert_int_equal(forecast.due[0], 0);
    for (int i = 1; i < UNITS; i++)
        assert_int_equal(forecast.due[i], 6);
    assert_int_equal(forecast.firings, 53);
    look_ahead(&fixture, &forecast, 80); /* ten firings beside the row */
    assert_int_equal(forecast.firings, 10);
    assert_true(forecast.until.ms == START.ms + 60000 + 11 * 10000);
    assert_int_equal(forecast.due[1], 6);
    buffer_deinit(&text);
    fixture_deinit(&fixture);
}

/* A timer that was touched counts where it is due now, not where its row is; one that leaves the
 * time of the forecast does not count. */
/* proves: forecast, touch */
static void test_counts_touched_timers_where_they_are_due(void **state)
{
    static const uint64_t due_ms[] = {5 * 60000 + 1, HOUR_MS};
    struct engine_fixture fixture;
    struct forecast forecast;
    struct timer_id id;

    (void)state;
    fixture_init(&fixture);
    for (size_t i = 0; i < 2; i++) {
        fixture_create(&fixture, "http://a.example/", 60000, &id);
        struct command touch = {.kind = COMMAND_TOUCH,
                                .id = id,
                                .patch_fields = PATCH_DUE,
                                .patch = fixture_timer("http://a.example/", due_ms[i])};
        fixture_command(&fixture, &touch);
        assert_int_equal(touch.error, ERROR_NONE);
        fixture_carry_out(&fixture);
    }
    look_ahead(&fixture, &forecast, 1000);
    assert_int_equal(forecast.rows, 2);
    assert_int_equal(forecast.overdue, 0);
    for (int i = 0; i < UNITS; i++)
        assert_int_equal(forecast.due[i], i == 5);
    fixture_deinit(&fixture);
}

/* A timer that waits for its parts has fired: only a part that is tried again is still to come. */
/* proves: forecast, targets */
static void test_counts_parts_alone(void **state)
{
    struct engine_fixture fixture;
    struct forecast forecast;
    struct command_created created;
    struct timer *timer = timer_alloc(
        &(struct timer_texts){.target = BYTES("http://a.example/"),
                              .targets = BYTES("http://a.example/\nhttp://b.example/\n")});
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    (void)state;
    fixture_init(&fixture);
    timer->due = (struct wall){START.ms + 1000};
    timer->retry.attempts_max = 2;
    fixture_command(&fixture, &command);
    fixture_carry_out(&fixture);
    look_ahead(&fixture, &forecast, 1000);
    assert_int_equal(forecast.due[0], 1);
    fixture_advance_to(&fixture, 1000);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_FAILED,
                                             .pause = DELIVERY_PAUSE_EXACT,
                                             .retry_after_ms = 120000});
    look_ahead(&fixture, &forecast, 1000);
    assert_int_equal(forecast.overdue, 0);
    for (int i = 0; i < UNITS; i++)
        assert_int_equal(forecast.due[i], i == 2);
    fixture_deinit(&fixture);
}

/* Timers whose target or flow is paused do not count. */
/* proves: forecast */
static void test_counts_nothing_of_a_paused_flow(void **state)
{
    static const char *const names[] = {"http://a.example", "flow:f"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct target_pause_board board;
        struct target_pauses *none = target_pauses_create(), *pauses;
        const struct target_pause pause = {
            .name = bytes_of(names[i]), .since = START, .until = WALL_NEVER};
        struct engine_fixture fixture;
        struct forecast forecast;
        struct command_created created;
        struct timer *timer = timer_alloc(
            &(struct timer_texts){.target = BYTES("http://a.example/"), .flow = BYTES("f\n9 0 0")});
        struct command command = {
            .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

        target_pause_board_init(&board);
        assert_int_equal(target_pauses_put(none, START, &pause, &pauses), ERROR_NONE);
        target_pauses_leave(none);
        target_pause_board_show(&board, pauses);
        fixture_prepare(&fixture);
        fixture.options.pauses = &board;
        fixture_open(&fixture);
        timer->due = (struct wall){START.ms + 1000};
        fixture_command(&fixture, &command);
        fixture_carry_out(&fixture);
        look_ahead(&fixture, &forecast, 1000);
        assert_int_equal(forecast.rows, 1);
        assert_int_equal(forecast.due[0], 0);
        fixture_deinit(&fixture);
        target_pause_board_deinit(&board);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_by_unit),
        cmocka_unit_test(test_ends_where_its_rows_end),
        cmocka_unit_test(test_counts_what_recurs),
        cmocka_unit_test(test_counts_touched_timers_where_they_are_due),
        cmocka_unit_test(test_counts_parts_alone),
        cmocka_unit_test(test_counts_nothing_of_a_paused_flow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
