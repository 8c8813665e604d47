/*
 * Goal: each call with the key of a debounced timer moves its time, never beyond its limit,
 * whatever happens between the calls, and a call after the firing begins anew. Method: small
 * histories of one engine over memory, through restarts; and calls that come together.
 */
#include "engine/engine_testing.h"
#include "timer/debounce.h"

#include <stdio.h>

#define FOR_MS     UINT64_C(30000)
#define AT_MOST_MS UINT64_C(100000)

/* Makes the timer of a call at the fixture's time, as the API does. */
static struct timer *put_timer(const struct engine_fixture *fixture, const char *payload)
{
    const struct debounce debounce = {FOR_MS, AT_MOST_MS, fixture->now};
    char room[DEBOUNCE_TEXT_SIZE];
    const struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                      .payload = bytes_of(payload),
                                      .key = BYTES("cart"),
                                      .debounce = debounce_write(&debounce, room)};
    struct timer *timer = timer_alloc(&texts);

    assert_non_null(timer);
    timer->created = fixture->now;
    timer->due = debounce_due(&debounce, fixture->now);
    return timer;
}

static struct command_created put_call(struct engine_fixture *fixture, enum command_kind kind,
                                       uint64_t at_ms, const char *payload, uint32_t if_version)
{
    fixture_advance_to(fixture, at_ms);
    struct timer *timer = put_timer(fixture, payload);
    struct command_created created = {0};
    struct command command = {.kind = kind,
                              .timers = &timer,
                              .results = &created,
                              .timer_count = 1,
                              .if_version = if_version};

    fixture_command(fixture, &command);
    assert_int_equal(created.error, command.error);
    fixture_carry_out(fixture);
    return created;
}

static void assert_shows(struct engine_fixture *fixture, const struct timer_id *id, uint64_t due_ms,
                         uint64_t first_ms, const char *payload)
{
    struct command command = {.kind = COMMAND_GET, .id = *id};
    struct debounce debounce;

    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    assert_int_equal(command.timer->due.ms, START.ms + due_ms);
    assert_int_equal(debounce_read(command.timer->texts.debounce, &debounce), ERROR_NONE);
    assert_int_equal(debounce.first.ms, START.ms + first_ms);
    assert_true(bytes_equal(command.timer->texts.payload, bytes_of(payload)));
    fixture_carry_out(fixture);
}

/* proves: debounce, debounce-first */
static void test_each_call_moves_the_time(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = put_call(&fixture, COMMAND_PUT, 1000, "1", 0).id;
    assert_shows(&fixture, &id, 31000, 1000, "1");
    /* by each way to make a timer with a key */
    assert_true(put_call(&fixture, COMMAND_CREATE, 21000, "2", 0).existed);
    assert_shows(&fixture, &id, 51000, 1000, "2");
    fixture_close(&fixture); /* the first call is durable */
    fixture_open(&fixture);
    assert_true(put_call(&fixture, COMMAND_PUT, 50999, "3", 0).existed);
    assert_shows(&fixture, &id, 80999, 1000, "3");
    put_call(&fixture, COMMAND_PUT, 80000, "4", 0);
    assert_shows(&fixture, &id, 101000, 1000, "4"); /* the limit */
    put_call(&fixture, COMMAND_PUT, 100000, "5", 0);
    assert_shows(&fixture, &id, 101000, 1000, "5");
    assert_int_equal(fixture.delivered_count, 0);
    fixture_advance_to(&fixture, 101000);
    assert_int_equal(fixture.delivered_count, 1);
    assert_int_equal(put_call(&fixture, COMMAND_PUT, 101000, "6", 0).error, ERROR_ALREADY_FIRING);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    const struct command_created again = put_call(&fixture, COMMAND_PUT, 110000, "7", 0);
    assert_false(again.existed || timer_id_equal(&again.id, &id));
    assert_shows(&fixture, &again.id, 140000, 110000, "7");
    fixture_deinit(&fixture);
}

/* proves: debounce-if-match */
static void test_a_version_is_matched(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = put_call(&fixture, COMMAND_PUT, 0, "1", 0).id;
    assert_int_equal(put_call(&fixture, COMMAND_PUT, 1000, "2", 7).error, ERROR_VERSION_MISMATCH);
    assert_shows(&fixture, &id, 30000, 0, "1");
    assert_int_equal(put_call(&fixture, COMMAND_PUT, 1000, "2", 1).error, ERROR_NONE);
    assert_shows(&fixture, &id, 31000, 0, "2");
    fixture_deinit(&fixture);
}

/* A firing that is retried is moved, too, but no further than to the limit. */
static void test_retries_are_moved(void **state)
{
    struct engine_fixture fixture;
    struct command command = {.kind = COMMAND_GET};

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = put_call(&fixture, COMMAND_PUT, 0, "1", 0).id;
    fixture_advance_to(&fixture, 30000);
    fixture_answer_all(&fixture, DELIVERY_FAILED);
    put_call(&fixture, COMMAND_PUT, 30000, "2", 0);
    assert_shows(&fixture, &id, 60000, 0, "2");
    command.id = id;
    fixture_command(&fixture, &command);
    assert_int_equal(command.timer->attempts, 0);
    assert_int_equal(command.timer->state, TIMER_SCHEDULED);
    fixture_carry_out(&fixture);
    fixture_deinit(&fixture);
}

/* Calls of one turn: all are applied, one after the other. */
static void test_calls_together(void **state)
{
    enum { CALLS = 20 };
    struct engine_fixture fixture;
    struct timer *timers[CALLS];
    struct command_created created[CALLS];
    struct command commands[CALLS];
    char payload[8];

    (void)state;
    fixture_init(&fixture);
    for (int i = 0; i < CALLS; i++) {
        fixture.now.ms = START.ms + 1000 * (uint64_t)i;
        snprintf(payload, sizeof(payload), "%d", i);
        timers[i] = put_timer(&fixture, payload);
        commands[i] = (struct command){.kind = i % 2 ? COMMAND_CREATE : COMMAND_PUT,
                                       .timers = &timers[i],
                                       .results = &created[i],
                                       .timer_count = 1};
        turn_submit(fixture.engine, fixture.now, &commands[i]);
    }
    fixture_carry_out(&fixture);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(commands[i].error, ERROR_NONE);
        assert_true(timer_id_equal(&created[i].id, &created[0].id));
    }
    assert_shows(&fixture, &created[0].id, 1000 * (CALLS - 1) + FOR_MS, 0, "19");
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_moves_the_time),
        cmocka_unit_test(test_a_version_is_matched),
        cmocka_unit_test(test_retries_are_moved),
        cmocka_unit_test(test_calls_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
