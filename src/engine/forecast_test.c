/*
 * Goal: a forecast counts every timer in the unit in which it is due, and beyond what it may read
 * it says nothing. Method: timers at known times, within the window and on disk; one that recurs; a
 * limit of rows below what there is.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_by_unit),
        cmocka_unit_test(test_ends_where_its_rows_end),
        cmocka_unit_test(test_counts_what_recurs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
