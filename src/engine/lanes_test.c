/*
 * Goal: a target that is to be left alone keeps nobody else waiting and costs no writes for those
 * that wait; rates hold, and cost those who are due now nothing. Method: one engine by hand, the
 * clock moved from wake-up to wake-up, and every delivery counted.
 */
#include "engine/engine_testing.h"

/* Another engine over the same storage, with the bed's options. */
static void reopen(struct bed *bed)
{
    engine_destroy(bed->engine);
    open_engine(bed);
}

/* Moves on to `ms`, at every time that the engine asked for. */
static void walk_to(struct bed *bed, uint64_t ms)
{
    for (;;) {
        uint64_t wake_ms = engine_wake_at(bed->engine).ms;

        if (wake_ms == WALL_NEVER.ms || wake_ms >= START.ms + ms)
            break;
        advance_to(bed, wake_ms > START.ms ? wake_ms - START.ms : 0);
    }
    advance_to(bed, ms);
}

static size_t out_to(const struct bed *bed, const char *origin)
{
    size_t count = 0;

    LIST_FOR_EACH (&bed->out, link)
        count += bytes_equal(timer_target_origin(list_item(link, struct delivery, link)->timer),
                             bytes_of(origin));
    return count;
}

static struct engine_stats stats_of(const struct bed *bed)
{
    struct engine_stats stats;

    engine_stats(bed->engine, &stats);
    return stats;
}

/* Goal: one that is postponed holds its lane: the others of its target wait where they are, another
 * target does not. Method: two places at each target; the first is postponed by ten seconds. */
static void test_a_postponed_one_holds_its_lane(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    bed.options.target_inflight_max = 1;
    reopen(&bed);
    for (int i = 0; i < 5; i++)
        create(&bed, "http://dead.example/", 1000, NULL);
    create(&bed, "http://alive.example/", 5000, NULL);
    walk_to(&bed, 1000);
    assert_int_equal(out_to(&bed, "http://dead.example"), 1);
    answer(&bed, first_out(&bed),
           (struct delivery_outcome){.result = DELIVERY_POSTPONED, .retry_after_ms = 10000});
    assert_int_equal(bed.delivered_count, 1);
    assert_int_equal(stats_of(&bed).waiting, 4);
    walk_to(&bed, 10999);
    assert_int_equal(bed.delivered_count, 2); /* the healthy one */
    assert_int_equal(out_to(&bed, "http://alive.example"), 1);
    answer(&bed, first_out(&bed), (struct delivery_outcome){.result = DELIVERY_DONE});
    walk_to(&bed, 11000);
    assert_int_equal(out_to(&bed, "http://dead.example"), 1); /* the pause is over */
    walk_to(&bed, 30000);
    assert_int_equal(bed.delivered_count, 3); /* it still has one place */
    for (int i = 0; i < 10 && first_out(&bed); i++)
        answer(&bed, first_out(&bed), (struct delivery_outcome){.result = DELIVERY_DONE});
    assert_int_equal(stats_of(&bed).fired, 6);
    assert_int_equal(stats_of(&bed).attempts, 6); /* the postponed one counts as none */
    bed_deinit(&bed);
}

/* Goal: one that gets through ends the hold at once. Method: two are out; one is postponed, the
 * other one is done. */
static void test_one_that_gets_through_ends_the_hold(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    bed.options.target_inflight_max = 2;
    reopen(&bed);
    for (int i = 0; i < 4; i++)
        create(&bed, "http://a.example/", 1000, NULL);
    walk_to(&bed, 1000);
    assert_int_equal(bed.delivered_count, 2);
    answer(&bed, first_out(&bed),
           (struct delivery_outcome){.result = DELIVERY_POSTPONED, .retry_after_ms = 60000});
    assert_int_equal(bed.delivered_count, 2);
    answer(&bed, first_out(&bed), (struct delivery_outcome){.result = DELIVERY_DONE});
    assert_int_equal(bed.delivered_count, 4);
    bed_deinit(&bed);
}

/* Goal: a hold is not forgotten with the last timer of its lane, and ends with a step back of the
 * clock rather than last longer. Method: hold, a new timer meanwhile; an hour back. */
static void test_a_hold_outlives_its_timers_but_no_step_back(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    walk_to(&bed, 2 * HOUR_MS);
    create(&bed, "http://a.example/", 2 * HOUR_MS, NULL);
    answer(&bed, first_out(&bed),
           (struct delivery_outcome){.result = DELIVERY_POSTPONED, .retry_after_ms = 20000});
    create(&bed, "http://a.example/", 2 * HOUR_MS, NULL);
    walk_to(&bed, 2 * HOUR_MS + 19999);
    assert_int_equal(bed.delivered_count, 1);
    advance_to(&bed, HOUR_MS);
    create(&bed, "http://a.example/", HOUR_MS, NULL);
    walk_to(&bed, HOUR_MS + bed.options.storage_retry_ms);
    assert_int_equal(bed.delivered_count, 2);
    bed_deinit(&bed);
}

/* Goal: no second sees more deliveries to one origin than its rate and one burst, and the rate is
 * reached, also when the lane is empty between them. Method: 100 timers at 10 a second, answered at
 * once; then one at a time. */
static void test_a_target_has_a_rate(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    bed.options.target_rate = 10 * 1000;
    reopen(&bed);
    for (int i = 0; i < 100; i++)
        create(&bed, "http://a.example/", 1000, NULL);
    create(&bed, "http://b.example/", 1500, NULL);
    for (uint64_t ms = 1000; ms <= 5000; ms += 10) {
        walk_to(&bed, ms);
        answer_all(&bed, DELIVERY_DONE);
        assert_in_range(bed.delivered_count, (ms - 1000) / 100 + (ms > 1500),
                        (ms - 1000) / 100 + 1 + (ms >= 1500));
    }
    assert_int_equal(stats_of(&bed).waiting, 59);
    walk_to(&bed, 11000);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(bed.delivered_count, 101);
    for (uint64_t i = 0; i < 20; i++) { /* an empty lane has not forgotten */
        create(&bed, "http://a.example/", 11000, NULL);
        answer_all(&bed, DELIVERY_DONE);
    }
    assert_in_range(bed.delivered_count, 101, 102);
    walk_to(&bed, 14000);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(bed.delivered_count, 121);
    bed_deinit(&bed);
}

/* Goal: after an outage what is overdue is delivered by its rate, oldest first, and what is due now
 * at once. Method: 50 timers due while nobody is there, 20 a second; meanwhile one that is due now,
 * and workers of a queue, who ask for theirs. */
static void test_catching_up(void **state)
{
    struct delivery *pulled;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    for (uint64_t i = 0; i < 50; i++)
        create(&bed, "http://a.example/late", 1000 + i, NULL);
    create(&bed, "queue:jobs?priority=3", 1000, NULL);
    create(&bed, "http://a.example/now", HOUR_MS + 500, NULL);
    engine_destroy(bed.engine);
    bed.options.catch_up_rate = 20 * 1000;
    bed.now = (struct wall){START.ms + HOUR_MS};
    open_engine(&bed);
    assert_int_equal(bed.delivered_count, 2); /* a burst of a tenth of a second */
    assert_int_equal(stats_of(&bed).catching_up, 48);
    pulled = turn_pull(bed.engine, bed.now, BYTES("jobs"), 3);
    assert_non_null(pulled);
    list_push(&bed.out, &pulled->link);
    walk_to(&bed, HOUR_MS + 499);
    assert_int_equal(bed.delivered_count, 2 + 9);
    walk_to(&bed, HOUR_MS + 500);
    assert_int_equal(bed.delivered_count, 2 + 10 + 1);
    assert_true(
        bytes_equal(list_item(bed.out.prev, struct delivery, link)->timer->texts.target,
                    BYTES("http://a.example/now")) ||
        bytes_equal(list_item(bed.out.prev->prev, struct delivery, link)->timer->texts.target,
                    BYTES("http://a.example/now")));
    answer_all(&bed, DELIVERY_DONE);
    walk_to(&bed, HOUR_MS + 2399);
    assert_int_equal(stats_of(&bed).catching_up, 1);
    walk_to(&bed, HOUR_MS + 2400);
    assert_int_equal(bed.delivered_count, 51);
    assert_int_equal(stats_of(&bed).catching_up, 0);
    bed_deinit(&bed);
}

/* Goal: what is held back so can be cancelled, does not fill the memory, and is not lost by a
 * restart. Method: little memory, more overdue timers than fit into it, one cancelled, two
 * restarts. */
static void test_catching_up_in_little_memory(void **state)
{
    enum { COUNT = 600 };
    struct timer_id ids[COUNT];
    struct bed bed;

    (void)state;
    bed_init(&bed);
    for (uint64_t i = 0; i < COUNT; i++)
        create(&bed, "http://a.example/late", 20000 + i, &ids[i]);
    engine_destroy(bed.engine);
    bed.options.near_bytes_max = 64 << 10;
    bed.options.catch_up_rate = 100 * 1000;
    bed.now = (struct wall){START.ms + HOUR_MS};
    open_engine(&bed);
    walk_to(&bed, HOUR_MS + 100);
    assert_true(stats_of(&bed).near_bytes <= bed.options.near_bytes_max);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &ids[COUNT - 1], 0, NULL), ERROR_NONE);
    for (uint64_t ms = 200; ms < 20000 && stats_of(&bed).pending > 0; ms += 50) {
        walk_to(&bed, HOUR_MS + ms);
        answer_all(&bed, DELIVERY_DONE);
        assert_true(bed.delivered_count <= ms / 10 + 30); /* bursts at each start */
        if (ms == 1000 || ms == 2000)
            reopen(&bed);
    }
    assert_int_equal(bed.delivered_count, COUNT - 1);
    assert_int_equal(stats_of(&bed).pending, 0);
    bed_deinit(&bed);
}

/* Goal: a timer that is made while a burst of another target's fills the memory, and is due behind
 * it, does not wait until all of that was put off. Method: shortly before the burst, two are made:
 * the one that is due soon is in memory, the other is not; each fires once. */
static void test_what_is_due_soon_overtakes_a_burst(void **state)
{
    size_t in_memory, delivered;
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_prepare(&bed);
    bed.options.near_bytes_max = 32 << 10;
    open_engine(&bed);
    for (int i = 0; i < 2000; i++)
        create(&bed, "http://a.example/", HOUR_MS, &id);
    advance_to(&bed, HOUR_MS - bed.options.window_ms / 4);
    in_memory = stats_of(&bed).in_memory;
    assert_in_range(in_memory, 1, 500);
    create(&bed, "http://b.example/", HOUR_MS + bed.options.window_ms / 5, &id);
    assert_int_equal(stats_of(&bed).in_memory, in_memory + 1);
    create(&bed, "http://b.example/", HOUR_MS + bed.options.window_ms / 2, &id);
    assert_int_equal(stats_of(&bed).in_memory, in_memory + 1);
    delivered = bed.delivered_count;
    for (uint64_t ms = HOUR_MS; bed.delivered_count < 2002 && ms < 3 * HOUR_MS; ms += 1000) {
        advance_to(&bed, ms);
        assert_in_range(stats_of(&bed).near_bytes, 0, bed.options.near_bytes_max + 1024);
        answer_all(&bed, DELIVERY_DONE);
    }
    assert_int_equal(delivered, 0);
    assert_int_equal(bed.delivered_count, 2002);
    assert_int_equal(stats_of(&bed).pending, 0);
    bed_deinit(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_postponed_one_holds_its_lane),
        cmocka_unit_test(test_one_that_gets_through_ends_the_hold),
        cmocka_unit_test(test_a_hold_outlives_its_timers_but_no_step_back),
        cmocka_unit_test(test_a_target_has_a_rate),
        cmocka_unit_test(test_catching_up),
        cmocka_unit_test(test_catching_up_in_little_memory),
        cmocka_unit_test(test_what_is_due_soon_overtakes_a_burst),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
