/*
 * Goal: a partition that changes its engine loses no timer, delivers none twice because of that,
 * and answers for deliveries that began before. Method: one engine by hand over storage in memory,
 * released and adopted at chosen moments.
 */
#include "engine/engine_testing.h"

/* The next engine of the fixture's partition, with an epoch of its own. */
static void hand_over(struct engine_fixture *fixture)
{
    struct list timers;

    list_init(&timers);
    engine_drain(fixture->engine);
    fixture_carry_out(fixture);
    assert_true(engine_is_settled(fixture->engine));
    engine_release(fixture->engine, &timers);
    engine_destroy(fixture->engine);

    struct storage_batch batch = {0}, *batches[] = {&batch};

    assert_int_equal(storage_load_meta(fixture->storage, 0, &batch.meta, NULL), ERROR_NONE);
    fixture->epoch = ++batch.meta.epoch;
    assert_int_equal(storage_commit(fixture->storage, batches, 1, NULL), ERROR_NONE);
    fixture->engine = engine_create(&fixture->options, &batch.meta, fixture->now);
    assert_non_null(fixture->engine);
    assert_true(engine_adopt(fixture->engine, &timers));
    assert_true(list_is_empty(&timers));
    fixture_carry_out(fixture);
}

static struct engine_stats handover_stats(const struct engine_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

static void test_what_waits_is_found_again(void **state)
{
    struct timer_id near, far, cancelled;
    enum timer_state shown;
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 50, &near), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, &far), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 60, &cancelled), ERROR_NONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &cancelled, 0, NULL), ERROR_NONE);
    hand_over(&fixture);
    assert_int_equal(handover_stats(&fixture).pending, 2);
    fixture_advance_to(&fixture, 100);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(timer_id_equal(&fixture_first_out(&fixture)->timer->id, &near));
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &cancelled, 0, &shown), ERROR_GONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &far, 0, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_SCHEDULED);
    fixture_deinit(&fixture);
}

/* The outcome of a delivery comes to the engine after the one that began it, or to a later one. */
static void test_deliveries_are_handed_over(void **state)
{
    for (int moves = 1; moves <= 3; moves++) {
        struct timer_id done, failed, queued;
        struct delivery *pulled;
        enum timer_state shown;
        struct engine_fixture fixture;

        (void)state;
        fixture_init(&fixture);
        assert_int_equal(fixture_create(&fixture, "http://a.example/done", 10, &done), ERROR_NONE);
        assert_int_equal(fixture_create(&fixture, "http://b.example/failed", 10, &failed),
                         ERROR_NONE);
        assert_int_equal(fixture_create(&fixture, "queue:mail", 10, &queued), ERROR_NONE);
        fixture_advance_to(&fixture, 20);
        assert_int_equal(fixture.delivered_count, 2);
        pulled = turn_pull(fixture.engine, fixture.now, BYTES("mail"), 0);
        for (unsigned priority = 1; !pulled && priority < 10; priority++)
            pulled = turn_pull(fixture.engine, fixture.now, BYTES("mail"), priority);
        assert_non_null(pulled);
        list_push(&fixture.out, &pulled->link);
        for (int i = 0; i < moves; i++)
            hand_over(&fixture);
        assert_int_equal(handover_stats(&fixture).inflight, 3);
        assert_int_equal(handover_stats(&fixture).pulled, 1);
        fixture_advance_to(&fixture, 30);
        assert_int_equal(fixture.delivered_count, 2); /* none of them once more */
        assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &done, 0, &shown),
                         ERROR_ALREADY_FIRING);
        fixture_answer(&fixture, fixture_first_out(&fixture),
                       (struct delivery_outcome){.result = DELIVERY_DONE});
        fixture_answer(&fixture, fixture_first_out(&fixture),
                       (struct delivery_outcome){.result = DELIVERY_FAILED, .error = "no"});
        fixture_answer(&fixture, fixture_first_out(&fixture),
                       (struct delivery_outcome){.result = DELIVERY_RETURNED});
        assert_int_equal(handover_stats(&fixture).inflight, 0);
        assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &done, 0, &shown), ERROR_GONE);
        assert_int_equal(shown, TIMER_FIRED);
        assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &failed, 0, &shown), ERROR_NONE);
        assert_int_equal(shown, TIMER_RETRYING);
        assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &queued, 0, &shown), ERROR_NONE);
        fixture_deinit(&fixture);
    }
}

/* A drained engine that stays delivers what came due meanwhile. */
static void test_resume(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 10, NULL), ERROR_NONE);
    engine_drain(fixture.engine);
    fixture_advance_to(&fixture, 20);
    assert_int_equal(fixture.delivered_count, 0);
    engine_resume(fixture.engine);
    fixture_advance_to(&fixture, 20);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_waits_is_found_again),
        cmocka_unit_test(test_deliveries_are_handed_over),
        cmocka_unit_test(test_resume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
