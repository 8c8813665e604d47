/*
 * Goal: a partition that changes its engine loses no timer, delivers none twice because of that,
 * and answers for deliveries that began before. Method: one engine by hand over storage in memory,
 * released and adopted at chosen moments.
 */
#include "engine/engine_testing.h"

/* The next engine of the bed's partition, with an epoch of its own. */
static void hand_over(struct bed *bed)
{
    struct list timers;

    list_init(&timers);
    engine_drain(bed->engine);
    carry_out(bed);
    assert_true(engine_is_settled(bed->engine));
    engine_release(bed->engine, &timers);
    engine_destroy(bed->engine);

    struct storage_batch batch = {0}, *batches[] = {&batch};

    assert_int_equal(storage_load_meta(bed->storage, 0, &batch.meta, NULL), ERROR_NONE);
    bed->epoch = ++batch.meta.epoch;
    assert_int_equal(storage_commit(bed->storage, batches, 1, NULL), ERROR_NONE);
    bed->engine = engine_create(&bed->options, &batch.meta, bed->now);
    assert_non_null(bed->engine);
    assert_true(engine_adopt(bed->engine, &timers));
    assert_true(list_is_empty(&timers));
    carry_out(bed);
}

static struct engine_stats stats_of(const struct bed *bed)
{
    struct engine_stats stats;

    engine_stats(bed->engine, &stats);
    return stats;
}

static void test_what_waits_is_found_again(void **state)
{
    struct timer_id near, far, cancelled;
    enum timer_state shown;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    assert_int_equal(create(&bed, "http://a.example/", 50, &near), ERROR_NONE);
    assert_int_equal(create(&bed, "http://a.example/", HOUR_MS, &far), ERROR_NONE);
    assert_int_equal(create(&bed, "http://a.example/", 60, &cancelled), ERROR_NONE);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &cancelled, 0, NULL), ERROR_NONE);
    hand_over(&bed);
    assert_int_equal(stats_of(&bed).pending, 2);
    advance_to(&bed, 100);
    assert_int_equal(bed.delivered_count, 1);
    assert_true(timer_id_equal(&first_out(&bed)->timer->id, &near));
    assert_int_equal(ask(&bed, COMMAND_GET, &cancelled, 0, &shown), ERROR_GONE);
    assert_int_equal(ask(&bed, COMMAND_GET, &far, 0, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_SCHEDULED);
    bed_deinit(&bed);
}

/* The outcome of a delivery comes to the engine after the one that began it, or to a later one. */
static void test_deliveries_are_handed_over(void **state)
{
    for (int moves = 1; moves <= 3; moves++) {
        struct timer_id done, failed, queued;
        struct delivery *pulled;
        enum timer_state shown;
        struct bed bed;

        (void)state;
        bed_init(&bed);
        assert_int_equal(create(&bed, "http://a.example/done", 10, &done), ERROR_NONE);
        assert_int_equal(create(&bed, "http://b.example/failed", 10, &failed), ERROR_NONE);
        assert_int_equal(create(&bed, "queue:mail", 10, &queued), ERROR_NONE);
        advance_to(&bed, 20);
        assert_int_equal(bed.delivered_count, 2);
        pulled = turn_pull(bed.engine, bed.now, BYTES("mail"), 0);
        for (unsigned priority = 1; !pulled && priority < 10; priority++)
            pulled = turn_pull(bed.engine, bed.now, BYTES("mail"), priority);
        assert_non_null(pulled);
        list_push(&bed.out, &pulled->link);
        for (int i = 0; i < moves; i++)
            hand_over(&bed);
        assert_int_equal(stats_of(&bed).inflight, 3);
        assert_int_equal(stats_of(&bed).pulled, 1);
        advance_to(&bed, 30);
        assert_int_equal(bed.delivered_count, 2); /* none of them once more */
        assert_int_equal(ask(&bed, COMMAND_CANCEL, &done, 0, &shown), ERROR_ALREADY_FIRING);
        answer(&bed, first_out(&bed), (struct delivery_outcome){.result = DELIVERY_DONE});
        answer(&bed, first_out(&bed),
               (struct delivery_outcome){.result = DELIVERY_FAILED, .error = "no"});
        answer(&bed, first_out(&bed), (struct delivery_outcome){.result = DELIVERY_RETURNED});
        assert_int_equal(stats_of(&bed).inflight, 0);
        assert_int_equal(ask(&bed, COMMAND_GET, &done, 0, &shown), ERROR_GONE);
        assert_int_equal(shown, TIMER_FIRED);
        assert_int_equal(ask(&bed, COMMAND_GET, &failed, 0, &shown), ERROR_NONE);
        assert_int_equal(shown, TIMER_RETRYING);
        assert_int_equal(ask(&bed, COMMAND_CANCEL, &queued, 0, &shown), ERROR_NONE);
        bed_deinit(&bed);
    }
}

/* A drained engine that stays delivers what came due meanwhile. */
static void test_resume(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    assert_int_equal(create(&bed, "http://a.example/", 10, NULL), ERROR_NONE);
    engine_drain(bed.engine);
    advance_to(&bed, 20);
    assert_int_equal(bed.delivered_count, 0);
    engine_resume(bed.engine);
    advance_to(&bed, 20);
    assert_int_equal(bed.delivered_count, 1);
    bed_deinit(&bed);
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
