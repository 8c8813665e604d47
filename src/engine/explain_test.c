/*
 * Goal: explain says where a timer is at every station of its life, why it waits there, and of what
 * its lateness is made, to the millisecond. Method: one engine by hand, led from one station to the
 * next.
 */
#include "engine/engine_testing.h"

#include "engine/history.h"

static struct explained explain(struct engine_fixture *fixture, const struct timer_id *id,
                                enum error_code wanted)
{
    struct command command = {.kind = COMMAND_EXPLAIN, .id = *id};

    fixture_command(fixture, &command);
    assert_int_equal(command.error, wanted);
    fixture_carry_out(fixture);
    return command.explained;
}

static void explain_reopen(struct engine_fixture *fixture)
{
    engine_destroy(fixture->engine);
    fixture_open(fixture);
}

/* proves: explain, explain-place */
static void test_from_disk_to_over(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", HOUR_MS, &id);
    struct explained explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.place, PLACE_DISK);
    assert_false(explained.is_spilled);
    assert_true(explained.read_at.ms == START.ms + HOUR_MS - fixture.options.window_ms);
    for (uint64_t ms = 0; ms < HOUR_MS; ms += 1000)
        fixture_advance_to(&fixture, ms);
    explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.place, PLACE_WHEEL);
    assert_in_range(explained.wheel_level, 0, 2); /* within 10 s and what the wheel lags behind */
    assert_int_equal(explained.wheel_bucket,
                     (START.ms + HOUR_MS) >> (8 * explained.wheel_level) & 0xff);
    fixture_advance_to(&fixture, HOUR_MS);
    explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.place, PLACE_INFLIGHT);
    assert_int_equal(explained.inflight, 1);
    assert_int_equal(explained.lateness.attempt, 1);
    fixture_advance_to(&fixture, HOUR_MS + 70);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    explained = explain(&fixture, &id, ERROR_GONE);
    assert_int_equal(explained.place, PLACE_FINAL);
    assert_int_equal(explained.lateness.attempt, 1);
    id.serial++;
    explain(&fixture, &id, ERROR_NOT_FOUND);
    fixture_deinit(&fixture);
}

/* Each reason to wait in turn, and that its time is counted for it alone. */
/* proves: explain-waiting */
static void test_reasons_to_wait(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture.options.target_inflight_max = 1;
    fixture.options.target_rate = 500; /* one in two seconds */
    explain_reopen(&fixture);
    fixture_create(&fixture, "http://a.example/", 1000, NULL);
    fixture_create(&fixture, "http://a.example/", 1000, NULL);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 1001, &id);
    struct timer_id queued;
    fixture_create(&fixture, "queue:jobs", 1001, &queued);
    fixture_advance_to(&fixture, 1000);
    fixture_advance_to(&fixture, 1001);
    struct explained explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.place, PLACE_QUEUED);
    assert_int_equal(explained.reason, WAIT_TARGET_LIMIT);
    assert_true(explained.inflight == 1 && explained.inflight_max == 1);
    assert_int_equal(explain(&fixture, &queued, ERROR_NONE).reason, WAIT_WORKER);
    fixture_advance_to(&fixture, 1301); /* 300 ms for want of a place */
    fixture_answer_all(&fixture, DELIVERY_DONE);
    explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.reason, WAIT_RATE);
    assert_true(explained.until.ms == START.ms + 3000);
    assert_int_equal(explained.lateness.ms[LATENESS_TARGET_LIMIT], 300);
    fixture_advance_to(&fixture, 3000); /* 1699 ms for the rate; the second one goes */
    assert_int_equal(fixture.delivered_count, 2);
    fixture_advance_to(&fixture, 3100); /* 100 ms for want of a place */
    fixture_answer(
        &fixture, fixture_first_out(&fixture),
        (struct delivery_outcome){.result = DELIVERY_POSTPONED, .retry_after_ms = 20000});
    explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.reason, WAIT_BREAKER);
    assert_true(explained.until.ms == START.ms + 23100);
    assert_true(fixture.out.next == &fixture.out);
    for (uint64_t ms = 3200; ms <= 23100; ms += 100)
        fixture_advance_to(&fixture, ms);
    explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.place, PLACE_INFLIGHT);
    assert_int_equal(explained.lateness.ms[LATENESS_TARGET_LIMIT], 400);
    assert_int_equal(explained.lateness.ms[LATENESS_RATE], 1699);
    assert_int_equal(explained.lateness.ms[LATENESS_BREAKER], 20000);
    assert_int_equal(explained.lateness.ms[LATENESS_WHEEL], 0);
    assert_int_equal(explained.lateness.ms[LATENESS_ROOM], 0);
    engine_drain(fixture.engine);
    assert_int_equal(explain(&fixture, &queued, ERROR_NONE).reason, WAIT_STOPPING);
    fixture_deinit(&fixture);
}

/* An outage, catching up, a delivery and its commit: with stamps as the node sets them. */
/* proves: explain-lateness */
static void test_stages_of_an_outage(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id first;
    fixture_create(&fixture, "http://a.example/", 5000, &first);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 5000, &id);
    engine_destroy(fixture.engine);
    fixture.options.catch_up_rate = 1000;
    fixture.now = (struct wall){START.ms + 65000};
    fixture_open(&fixture);
    struct explained explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.place, PLACE_QUEUED);
    assert_int_equal(explained.reason, WAIT_CATCH_UP);
    fixture_advance_to(&fixture, 66000);
    assert_int_equal(fixture.delivered_count, 2);
    struct delivery *delivery = list_item(fixture.out.prev, struct delivery, link);
    assert_true(timer_id_equal(&delivery->timer->id, &id));
    delivery->handed_us = fixture.now.ms * 1000;
    delivery->started_us = delivery->handed_us + 7000;
    delivery->ended_us = delivery->started_us + 30000;
    fixture_answer(&fixture, delivery,
                   (struct delivery_outcome){.result = DELIVERY_FAILED, .error = "HTTP 500"});
    explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.lateness.attempt, 1);
    assert_int_equal(explained.lateness.ms[LATENESS_DOWN], 60000);
    assert_int_equal(explained.lateness.ms[LATENESS_CATCH_UP], 1000);
    assert_int_equal(explained.lateness.ms[LATENESS_HANDOFF], 7);
    assert_int_equal(explained.lateness.ms[LATENESS_DELIVERY], 30);
    assert_int_equal(explained.lateness.ms[LATENESS_RETRIES], 0);
    while (fixture_first_out(&fixture)) { /* lost with the process */
        delivery = fixture_first_out(&fixture);
        list_remove(&delivery->link);
        free(delivery);
    }
    explain_reopen(&fixture); /* what was in memory alone is not known any more */
    assert_int_equal(explain(&fixture, &id, ERROR_NONE).lateness.attempt, 0);
    fixture_deinit(&fixture);
}

/* The time until an outcome is durable is its commit's; a retry counts what came before it. */
/* proves: explain-lateness */
static void test_commit_and_retries(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 1000, &id);
    fixture_advance_to(&fixture, 1000);
    struct delivery *delivery = fixture_first_out(&fixture);
    list_remove(&delivery->link);
    delivery->outcome = (struct delivery_outcome){
        .result = DELIVERY_FAILED, .pause = DELIVERY_PAUSE_EXACT, .retry_after_ms = 2000};
    turn_delivered(fixture.engine, fixture.now, delivery);
    struct storage_batch *batch = engine_take_batch(fixture.engine);
    assert_non_null(batch);
    batch->result = storage_write(fixture.storage, &batch, 1, NULL);
    fixture.now.ms += 45;
    turn_committed(fixture.engine, fixture.now, batch);
    fixture_carry_out(&fixture);
    struct explained explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.place, PLACE_WHEEL);
    assert_int_equal(explained.lateness.ms[LATENESS_COMMIT], 45);
    fixture_advance_to(&fixture, 3000);
    explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.place, PLACE_INFLIGHT);
    assert_int_equal(explained.lateness.attempt, 2);
    assert_int_equal(explained.lateness.ms[LATENESS_RETRIES], 2000);
    assert_int_equal(explained.lateness.ms[LATENESS_COMMIT], 0);
    fixture_deinit(&fixture);
}

static struct explained explain_waited(struct engine_fixture *fixture, const struct timer_id *id,
                                       enum lateness_stage stage, uint32_t ms)
{
    struct explained explained = explain(fixture, id, ERROR_NONE);

    assert_int_equal(explained.place, PLACE_INFLIGHT);
    for (enum lateness_stage i = 0; i <= LATENESS_HANDOFF; i++)
        assert_int_equal(explained.lateness.ms[i], i == stage ? ms : 0);
    const struct delivery *delivery = fixture_first_out(fixture);
    assert_memory_equal(&delivery->lateness, &explained.lateness, sizeof(delivery->lateness));
    return explained;
}

/* A path that fails holds back its timers one by one: that is the breaker's time, however often
 * each is put off, and attempts between count as what they are. */
/* proves: explain-lateness */
static void test_path_is_left_alone(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/x", 1000, &id);
    fixture_advance_to(&fixture, 1000);
    for (int i = 0; i < 3; i++) {
        struct delivery *delivery = fixture_first_out(&fixture);

        fixture_answer(&fixture, delivery,
                       (struct delivery_outcome){.result = DELIVERY_POSTPONED,
                                                 .holds = DELIVERY_HOLDS_TIMER,
                                                 .retry_after_ms = 2000});
        struct explained explained = explain(&fixture, &id, ERROR_NONE);
        assert_int_equal(explained.place, PLACE_WHEEL);
        assert_int_equal(explained.lateness.attempt, 0); /* no attempt began */
        struct command get = {.kind = COMMAND_GET, .id = id};
        fixture_command(&fixture, &get);
        const uint64_t next_ms = get.timer->at.ms - START.ms;
        fixture_carry_out(&fixture);
        fixture_advance_to(&fixture, next_ms);
        explain_waited(&fixture, &id, LATENESS_BREAKER, (uint32_t)(next_ms - 1000));
    }
    const uint64_t held_ms = fixture.now.ms - START.ms - 1000;
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_FAILED,
                                             .pause = DELIVERY_PAUSE_EXACT,
                                             .retry_after_ms = 700});
    fixture_advance_to(&fixture, 1000 + held_ms + 700);
    struct explained explained = explain(&fixture, &id, ERROR_NONE);
    assert_int_equal(explained.lateness.attempt, 2);
    assert_int_equal(explained.lateness.ms[LATENESS_BREAKER], held_ms);
    assert_int_equal(explained.lateness.ms[LATENESS_RETRIES], 700);
    assert_int_equal(explained.lateness.ms[LATENESS_WHEEL], 0);
    fixture_deinit(&fixture);
}

/* The next firing is late because the one before it was not over. */
/* proves: explain-lateness */
static void test_firing_before_it(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                .schedule = BYTES("{\"every\":\"1s\"}")};
    struct timer *timer = timer_alloc(&texts);
    timer->due.ms = START.ms + 1000;
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
    fixture_command(&fixture, &command);
    fixture_carry_out(&fixture);
    id = created.id;
    fixture_advance_to(&fixture, 1000);
    fixture_advance_to(&fixture, 3400); /* those of 2000 and 3000 are missed; one of them comes */
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
    fixture_advance_to(&fixture, 3400);
    assert_non_null(fixture_first_out(&fixture));
    const uint64_t late_ms = fixture.now.ms - fixture_first_out(&fixture)->timer->due.ms;
    assert_true(late_ms > 0);
    explain_waited(&fixture, &id, LATENESS_SET_LATE, (uint32_t)late_ms);
    fixture_deinit(&fixture);
}

/* A pause of the timer, by which its due time passes, and one of all deliveries. */
/* proves: explain-lateness */
static void test_paused_and_held(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    atomic_bool is_held;
    fixture_init(&fixture);
    atomic_init(&is_held, false);
    fixture.options.is_held = &is_held;
    explain_reopen(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 1000, &id);
    struct timer_texts no_texts = {.note = {NULL, 0}};
    struct command pause = {.kind = COMMAND_PAUSE, .id = id, .patch = timer_alloc(&no_texts)};
    pause.patch->at = (struct wall){START.ms + 4000};
    fixture_command(&fixture, &pause);
    assert_int_equal(pause.error, ERROR_NONE);
    fixture_carry_out(&fixture);
    fixture_advance_to(&fixture, 4000);
    explain_waited(&fixture, &id, LATENESS_PAUSED, 3000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_create(&fixture, "http://b.example/", 5000, &id);
    atomic_store(&is_held, true);
    fixture_advance_to(&fixture, 5000);
    fixture_advance_to(&fixture, 6500);
    atomic_store(&is_held, false);
    fixture_advance_to(&fixture, 7300);
    explain_waited(&fixture, &id, LATENESS_MAINTENANCE, 2300);
    fixture_deinit(&fixture);
}

/* No more is kept than may be, the latest. */
/* proves: explain-lateness */
static void test_history_keeps_the_last(void **state)
{
    (void)state;
    struct history *history = history_create(3);
    assert_non_null(history);
    for (uint64_t serial = 1; serial <= 5; serial++)
        history_begin(history, 1, serial)->lateness.attempt = (uint32_t)serial;
    assert_null(history_find(history, 2));
    assert_int_equal(history_find(history, 3)->lateness.attempt, 3);
    history_forget(history, 4);
    assert_null(history_find(history, 4));
    assert_int_equal(history_begin(history, 1, 5)->lateness.attempt, 0); /* anew, in its place */
    for (uint64_t serial = 10; serial < 20; serial++)
        assert_non_null(history_begin(history, 1, serial));
    assert_null(history_find(history, 5));
    assert_non_null(history_find(history, 17));
    history_begin(history, 2, 30); /* of another tenant, and it stays */
    for (uint64_t serial = 40; serial < 50; serial++)
        assert_non_null(history_begin(history, 1, serial));
    assert_non_null(history_find(history, 30));
    assert_non_null(history_find(history, 49));
    history_destroy(history);
    history = history_create(0);
    assert_null(history_begin(history, 1, 1));
    history_destroy(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_disk_to_over),      cmocka_unit_test(test_reasons_to_wait),
        cmocka_unit_test(test_stages_of_an_outage),    cmocka_unit_test(test_commit_and_retries),
        cmocka_unit_test(test_history_keeps_the_last), cmocka_unit_test(test_path_is_left_alone),
        cmocka_unit_test(test_firing_before_it),       cmocka_unit_test(test_paused_and_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
