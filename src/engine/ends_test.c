/*
 * Ends of timers that gather into few batches: when they are taken, and what does not wait for
 * them. One engine, with the batches taken by hand.
 */
#include "engine/engine_testing.h"

enum { PACE_MS = 200 };

static void ends_init(struct engine_fixture *fixture)
{
    fixture_prepare(fixture);
    fixture->options.ends_pace_ms = PACE_MS;
    fixture->options.watermark_interval_ms = HOUR_MS;
    fixture_open(fixture);
}

/* Creates a timer that is due at once, and has it delivered. */
static struct timer_id ends_deliver(struct engine_fixture *fixture)
{
    struct timer_id id;

    assert_int_equal(fixture_create(fixture, "http://a.example/", fixture->now.ms - START.ms, &id),
                     ERROR_NONE);
    fixture_advance_to(fixture, fixture->now.ms - START.ms);
    assert_non_null(fixture_first_out(fixture));
    return id;
}

/* The delivery is answered; no batch is taken. */
static void ends_answer(struct engine_fixture *fixture, enum delivery_result result)
{
    struct delivery *delivery = fixture_first_out(fixture);

    list_remove(&delivery->link);
    delivery->outcome = (struct delivery_outcome){.result = result};
    turn_delivered(fixture->engine, fixture->now, delivery);
}

/* How many writes the next batch has; 0: none is due. It becomes durable. */
static size_t ends_take(struct engine_fixture *fixture)
{
    struct storage_batch *batch = engine_take_batch(fixture->engine);
    const size_t count = batch ? batch->write_count : 0;

    if (batch)
        fixture_commit(fixture, batch);
    engine_check(fixture->engine);
    return count;
}

/* Goal: behind a batch, ends gather for the pace; the first one after a pause does not wait.
 * Method: three deliveries and the time, with the batches counted. */
static void test_ends_gather(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    ends_init(&fixture);
    for (int i = 0; i < 3; i++)
        ends_deliver(&fixture);
    fixture.now = wall_add(fixture.now, PACE_MS);
    turn_advance(fixture.engine, fixture.now);
    ends_answer(&fixture, DELIVERY_DONE);
    assert_int_equal(ends_take(&fixture), 1);
    for (int i = 0; i < 2; i++) {
        ends_answer(&fixture, DELIVERY_DONE);
        assert_int_equal(ends_take(&fixture), 0);
    }
    const struct wall due = wall_add(fixture.now, PACE_MS);
    assert_int_equal(engine_wake_at(fixture.engine).ms, due.ms);
    assert_false(engine_is_idle(fixture.engine));
    turn_advance(fixture.engine, (struct wall){due.ms - 1});
    assert_int_equal(ends_take(&fixture), 0);
    fixture.now = due;
    turn_advance(fixture.engine, fixture.now);
    assert_int_equal(ends_take(&fixture), 2);
    assert_true(engine_is_idle(fixture.engine));
    fixture_deinit(&fixture);
}

/* Goal: what waits for a batch takes the ends along at once. Method: an end that waits, and then
 * one cause for each engine. */
static void test_ends_do_not_hold_up_others(void **state)
{
    enum { CREATE, LOOK, RETRY, DRAIN, CAUSES };

    (void)state;
    for (int cause = 0; cause < CAUSES; cause++) {
        struct engine_fixture fixture;
        struct command create = {.kind = COMMAND_CREATE, .timer_count = 1};
        struct command look = {.kind = COMMAND_GET};
        struct timer *timer = fixture_timer("http://b.example/", HOUR_MS);
        struct command_created created;

        ends_init(&fixture);
        look.id = ends_deliver(&fixture);
        ends_deliver(&fixture);
        ends_answer(&fixture, DELIVERY_DONE);
        assert_int_equal(ends_take(&fixture), 0);
        create.timers = &timer;
        create.results = &created;
        if (cause == CREATE)
            turn_submit(fixture.engine, fixture.now, &create);
        else if (cause == LOOK)
            turn_submit(fixture.engine, fixture.now, &look);
        else if (cause == RETRY)
            ends_answer(&fixture, DELIVERY_FAILED);
        else
            engine_drain(fixture.engine);
        assert_int_equal(ends_take(&fixture), cause == CREATE || cause == RETRY ? 2 : 1);
        struct command *reply = engine_take_reply(fixture.engine);
        assert_ptr_equal(reply, cause == CREATE ? &create : cause == LOOK ? &look : NULL);
        if (cause == LOOK)
            assert_int_equal(look.timer->state, TIMER_FIRED);
        if (cause != CREATE)
            timer_free(timer);
        fixture_deinit(&fixture);
    }
}

/* Goal: a sender that asked for the record of its delivery gets it at once. */
static void test_a_record_does_not_wait(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    ends_init(&fixture);
    ends_deliver(&fixture);
    fixture_first_out(&fixture)->wants_record = true;
    ends_answer(&fixture, DELIVERY_DONE);
    assert_int_equal(ends_take(&fixture), 1);
    struct delivery *delivery = engine_take_recorded(fixture.engine);
    assert_non_null(delivery);
    free(delivery);
    fixture_deinit(&fixture);
}

/* Goal: a clock that steps back leaves no end waiting for longer than the pace. */
static void test_a_clock_that_steps_back(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    ends_init(&fixture);
    fixture_advance_to(&fixture, HOUR_MS);
    ends_deliver(&fixture);
    ends_answer(&fixture, DELIVERY_DONE);
    fixture.now = START;
    turn_advance(fixture.engine, fixture.now);
    assert_int_equal(ends_take(&fixture), 0);
    assert_int_equal(engine_wake_at(fixture.engine).ms, START.ms + PACE_MS);
    fixture.now = wall_add(START, PACE_MS);
    turn_advance(fixture.engine, fixture.now);
    assert_int_equal(ends_take(&fixture), 1);
    fixture_deinit(&fixture);
}

/* Goal: ends are not gathered without bound. Method: as many as one batch is worth, in no time. */
static void test_many_ends_make_a_batch(void **state)
{
    enum { COUNT = 1024 };
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.ends_pace_ms = PACE_MS;
    fixture.options.target_inflight_max = fixture.options.inflight_max = 4 * COUNT;
    fixture_open(&fixture);
    for (int i = 0; i < COUNT; i++)
        fixture_create(&fixture, "http://a.example/", 0, NULL);
    size_t count = 0, due = 0;
    while (!due) {
        fixture_advance_to(&fixture, 0);
        if (!fixture_first_out(&fixture))
            break;
        ends_answer(&fixture, DELIVERY_DONE);
        count++;
        due = ends_take(&fixture);
    }
    assert_int_equal(count, COUNT);
    assert_int_equal(due, COUNT);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_gather),
        cmocka_unit_test(test_ends_do_not_hold_up_others),
        cmocka_unit_test(test_a_record_does_not_wait),
        cmocka_unit_test(test_a_clock_that_steps_back),
        cmocka_unit_test(test_many_ends_make_a_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
