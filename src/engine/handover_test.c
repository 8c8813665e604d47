/*
 * Goal: a partition that changes its shard loses no timer, delivers none twice because of that, and
 * answers for deliveries that began before. Method: one engine by hand over storage in memory,
 * released and adopted at chosen moments.
 */
#include "engine/engine_testing.h"

/* The engine moves to another thread, with everything that is in flight. */
static void handover_to_next(struct engine_fixture *fixture)
{
    engine_begin(fixture->engine, fixture->now);
    engine_reserve_epoch(fixture->engine);
    engine_end(fixture->engine);
    assert_int_equal(engine_reservation(fixture->engine), ENGINE_RESERVING);
    fixture_carry_out(fixture);
    assert_int_equal(engine_reservation(fixture->engine), ENGINE_RESERVED);
    engine_release(fixture->engine);
    engine_adopt(fixture->engine);
    fixture->epoch++;
    struct storage_meta meta;
    assert_int_equal(storage_load_meta(fixture->storage, 0, &meta, NULL), ERROR_NONE);
    assert_int_equal(meta.epoch, fixture->epoch);
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
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id near;
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 50, &near), ERROR_NONE);
    struct timer_id far;
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, &far), ERROR_NONE);
    struct timer_id cancelled;
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 60, &cancelled), ERROR_NONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &cancelled, 0, NULL), ERROR_NONE);
    handover_to_next(&fixture);
    assert_int_equal(handover_stats(&fixture).pending, 2);
    fixture_advance_to(&fixture, 100);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(timer_id_equal(&fixture_first_out(&fixture)->timer->id, &near));
    enum timer_state shown;
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &cancelled, 0, &shown), ERROR_GONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &far, 0, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_SCHEDULED);
    fixture_deinit(&fixture);
}

/* The outcome of a delivery comes to the engine after the one that began it, or to a later one. */
static void test_deliveries_are_handed_over(void **state)
{
    for (int moves = 1; moves <= 3; moves++) {
        (void)state;
        struct engine_fixture fixture;
        fixture_init(&fixture);
        struct timer_id done;
        assert_int_equal(fixture_create(&fixture, "http://a.example/done", 10, &done), ERROR_NONE);
        struct timer_id failed;
        assert_int_equal(fixture_create(&fixture, "http://b.example/failed", 10, &failed),
                         ERROR_NONE);
        struct timer_id queued;
        assert_int_equal(fixture_create(&fixture, "queue:mail", 10, &queued), ERROR_NONE);
        fixture_advance_to(&fixture, 20);
        assert_int_equal(fixture.delivered_count, 2);
        struct delivery *pulled = turn_pull(fixture.engine, fixture.now, BYTES("mail"), 0);
        for (unsigned priority = 1; !pulled && priority < 10; priority++)
            pulled = turn_pull(fixture.engine, fixture.now, BYTES("mail"), priority);
        assert_non_null(pulled);
        list_push(&fixture.out, &pulled->link);
        for (int i = 0; i < moves; i++)
            handover_to_next(&fixture);
        assert_int_equal(handover_stats(&fixture).inflight, 3);
        assert_int_equal(handover_stats(&fixture).pulled, 1);
        fixture_advance_to(&fixture, 30);
        assert_int_equal(fixture.delivered_count, 2); /* none of them once more */
        enum timer_state shown;
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

/* Goal: ids and deliveries after a move are told from those before, and a batch of the time between
 * reservation and release does not take the epoch back. Method: a create before, between and after,
 * and the meta that the storage has. */
static void test_the_epoch_rises(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id before;
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, &before), ERROR_NONE);
    engine_begin(fixture.engine, fixture.now);
    engine_reserve_epoch(fixture.engine);
    engine_end(fixture.engine);
    fixture_carry_out(&fixture);
    struct timer_id between;
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, &between), ERROR_NONE);
    struct storage_meta meta;
    assert_int_equal(storage_load_meta(fixture.storage, 0, &meta, NULL), ERROR_NONE);
    assert_int_equal(meta.epoch, fixture.epoch + 1);
    assert_int_equal(between.serial >> 40, before.serial >> 40);
    engine_release(fixture.engine);
    engine_adopt(fixture.engine);
    struct timer_id after;
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, &after), ERROR_NONE);
    assert_int_equal(after.serial >> 40, (before.serial >> 40) + 1);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 10, NULL), ERROR_NONE);
    fixture_advance_to(&fixture, 20);
    assert_int_equal(fixture_first_out(&fixture)->epoch, fixture.epoch + 1);
    fixture.epoch++;
    fixture_deinit(&fixture);
}

/* Goal: without a durable epoch there is no move, and the next try succeeds. Method: the batch that
 * carries the epoch fails. */
static void test_a_storage_that_fails_keeps_the_engine(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    engine_begin(fixture.engine, fixture.now);
    engine_reserve_epoch(fixture.engine);
    engine_end(fixture.engine);
    struct storage_batch *batch = engine_take_batch(fixture.engine);
    assert_non_null(batch);
    batch->result = ERROR_IO;
    engine_begin(fixture.engine, fixture.now);
    engine_committed(fixture.engine, batch);
    engine_end(fixture.engine);
    assert_int_equal(engine_reservation(fixture.engine), ENGINE_RESERVE_REFUSED);
    fixture_carry_out(&fixture);
    struct timer_id id;
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, &id), ERROR_NONE);
    handover_to_next(&fixture);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_waits_is_found_again),
        cmocka_unit_test(test_deliveries_are_handed_over),
        cmocka_unit_test(test_the_epoch_rises),
        cmocka_unit_test(test_a_storage_that_fails_keeps_the_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
