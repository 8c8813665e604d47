/*
 * Goal: a target that is to be left alone keeps nobody else waiting and costs no writes for those
 * that wait; rates hold, and cost those who are due now nothing. Method: one engine by hand, the
 * clock moved from wake-up to wake-up, and every delivery counted.
 */
#include "engine/engine_testing.h"

/* Another engine over the same storage, with the fixture's options. */
static void dispatch_reopen(struct engine_fixture *fixture)
{
    engine_destroy(fixture->engine);
    fixture_open(fixture);
}

/* Moves on to `ms`, at every time that the engine asked for. */
static void walk_to(struct engine_fixture *fixture, uint64_t ms)
{
    for (;;) {
        uint64_t wake_ms = engine_wake_at(fixture->engine).ms;

        if (wake_ms == WALL_NEVER.ms || wake_ms >= START.ms + ms)
            break;
        fixture_advance_to(fixture, wake_ms > START.ms ? wake_ms - START.ms : 0);
    }
    fixture_advance_to(fixture, ms);
}

static size_t out_to(const struct engine_fixture *fixture, const char *origin)
{
    size_t count = 0;

    LIST_FOR_EACH (&fixture->out, link)
        count += bytes_equal(timer_target_origin(list_item(link, struct delivery, link)->timer),
                             bytes_of(origin));
    return count;
}

static struct engine_stats dispatch_stats_of(const struct engine_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

/* Goal: one that is postponed holds its dispatch queue: the others of its target wait where they
 * are, another target does not. Method: two places at each target; the first is postponed by ten
 * seconds. */
static void test_a_postponed_one_holds_its_queue(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture.options.target_inflight_max = 1;
    dispatch_reopen(&fixture);
    for (int i = 0; i < 5; i++)
        fixture_create(&fixture, "http://dead.example/", 1000, NULL);
    fixture_create(&fixture, "http://alive.example/", 5000, NULL);
    walk_to(&fixture, 1000);
    assert_int_equal(out_to(&fixture, "http://dead.example"), 1);
    fixture_answer(
        &fixture, fixture_first_out(&fixture),
        (struct delivery_outcome){.result = DELIVERY_POSTPONED, .retry_after_ms = 10000});
    assert_int_equal(fixture.delivered_count, 1);
    assert_int_equal(dispatch_stats_of(&fixture).waiting, 4);
    assert_int_equal(dispatch_stats_of(&fixture).held[WAIT_BREAKER], 4);
    walk_to(&fixture, 10999);
    assert_int_equal(fixture.delivered_count, 2); /* the healthy one */
    assert_int_equal(out_to(&fixture, "http://alive.example"), 1);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
    walk_to(&fixture, 11000);
    assert_int_equal(out_to(&fixture, "http://dead.example"), 1); /* the pause is over */
    walk_to(&fixture, 30000);
    assert_int_equal(fixture.delivered_count, 3); /* it still has one place */
    for (int i = 0; i < 10 && fixture_first_out(&fixture); i++)
        fixture_answer(&fixture, fixture_first_out(&fixture),
                       (struct delivery_outcome){.result = DELIVERY_DONE});
    assert_int_equal(dispatch_stats_of(&fixture).fired, 6);
    assert_int_equal(dispatch_stats_of(&fixture).attempts,
                     6); /* the postponed one counts as none */
    fixture_deinit(&fixture);
}

static void dispatch_expect_postponed(struct engine_fixture *fixture, uint64_t count,
                                      uint64_t oldest_ms)
{
    const struct engine_stats stats = dispatch_stats_of(fixture);

    assert_int_equal(stats.held[WAIT_BREAKER], count);
    assert_int_equal(stats.oldest_overdue[OVERDUE_WEBHOOK].ms, oldest_ms);
}

/* Goal: timers that a breaker postponed are late and wait for it, wherever they are. Method: a path
 * fails, which holds no queue. Its timers are postponed to the wheel, then to the disk only; the
 * engine restarts, and delivers them. */
/* proves: verdict, metrics */
static void test_what_a_breaker_postponed_waits_for_it(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture.options.second_scan_ms = 60000;
    dispatch_reopen(&fixture);
    const uint64_t waits_ms[] = {1000, 3 * HOUR_MS}, due_ms = HOUR_MS; /* the rows are counted */
    for (uint64_t i = 0; i < 3; i++)
        fixture_create(&fixture, "http://dead.example/x?a=1", due_ms - 1000 * i, NULL);
    walk_to(&fixture, due_ms);
    for (size_t i = 0; i < 2; i++) {
        dispatch_expect_postponed(&fixture, 0, START.ms + due_ms - 2000);
        for (size_t left = 3; left > 0; left--)
            fixture_answer(&fixture, fixture_first_out(&fixture),
                           (struct delivery_outcome){.result = DELIVERY_POSTPONED,
                                                     .holds = DELIVERY_HOLDS_TIMER,
                                                     .retry_after_ms = waits_ms[i],
                                                     .error = "not tried: its path failed"});
        dispatch_expect_postponed(&fixture, 3, START.ms + due_ms - 2000);
        if (i == 0)
            walk_to(&fixture, due_ms + 2 * 1000 + 1);
    }
    fixture_close(&fixture);
    fixture_open(&fixture);
    walk_to(&fixture, 2 * HOUR_MS);
    dispatch_expect_postponed(&fixture, 3, START.ms + due_ms - 2000);
    walk_to(&fixture, 8 * HOUR_MS);
    dispatch_expect_postponed(&fixture, 0, START.ms + due_ms - 2000); /* in flight */
    fixture_answer_all(&fixture, DELIVERY_DONE);
    dispatch_expect_postponed(&fixture, 0, 0);
    fixture_deinit(&fixture);
}

struct dispatch_test_waiting {
    size_t webhooks;
    struct wall queue_oldest;
};

static void dispatch_test_note(void *context, const struct engine_waiting *told)
{
    struct dispatch_test_waiting *waiting = context;

    if (!told->queue.size) {
        waiting->webhooks += told->count;
        return;
    }
    assert_true(bytes_equal(told->queue, BYTES("a")) && told->count == 1);
    waiting->queue_oldest = told->oldest;
}

/* Goal: items that no worker takes do not look like late webhooks. Method: an item is due first,
 * and two webhooks after it, of which one is in flight and the other waits for its place. */
/* proves: metrics */
static void test_lateness_by_kind(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture.options.target_inflight_max = 1;
    dispatch_reopen(&fixture);
    fixture_create(&fixture, "queue:a", 1000, NULL);
    fixture_create(&fixture, "http://a.example/", 3000, NULL);
    fixture_create(&fixture, "http://a.example/", 4000, NULL);
    walk_to(&fixture, 10000);
    const uint64_t webhooks_ms[] = {START.ms + 3000, START.ms + 4000, 0};
    for (size_t i = 0; i < 3; i++) {
        const struct engine_stats stats = dispatch_stats_of(&fixture);

        assert_int_equal(stats.oldest_overdue[OVERDUE_WEBHOOK].ms, webhooks_ms[i]);
        assert_int_equal(stats.oldest_overdue[OVERDUE_QUEUE].ms, START.ms + 1000);
        assert_int_equal(stats.oldest_overdue[OVERDUE_BROKER].ms, 0);
        assert_int_equal(stats.oldest_overdue[OVERDUE_CATCH_UP].ms, 0);
        assert_int_equal(stats.ready[OVERDUE_QUEUE], 1);
        assert_int_equal(stats.ready[OVERDUE_WEBHOOK], i == 0);
        assert_int_equal(stats.held[WAIT_WORKER], 1);
        assert_int_equal(stats.held[WAIT_TARGET_LIMIT], i == 0);
        assert_int_equal(stats.held[WAIT_ROOM] + stats.held[WAIT_BREAKER], 0);
        struct dispatch_test_waiting waiting = {0};
        engine_tell_waiting(fixture.engine, dispatch_test_note, &waiting);
        assert_int_equal(waiting.queue_oldest.ms, START.ms + 1000);
        assert_int_equal(waiting.webhooks, i == 0);
        if (fixture_first_out(&fixture))
            fixture_answer(&fixture, fixture_first_out(&fixture),
                           (struct delivery_outcome){.result = DELIVERY_DONE});
    }
    fixture_deinit(&fixture);
}

/* Goal: one that gets through ends the hold at once. Method: two are out; one is postponed, the
 * other one is done. */
static void test_one_that_gets_through_ends_the_hold(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture.options.target_inflight_max = 2;
    dispatch_reopen(&fixture);
    for (int i = 0; i < 4; i++)
        fixture_create(&fixture, "http://a.example/", 1000, NULL);
    walk_to(&fixture, 1000);
    assert_int_equal(fixture.delivered_count, 2);
    fixture_answer(
        &fixture, fixture_first_out(&fixture),
        (struct delivery_outcome){.result = DELIVERY_POSTPONED, .retry_after_ms = 60000});
    assert_int_equal(fixture.delivered_count, 2);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
    assert_int_equal(fixture.delivered_count, 4);
    fixture_deinit(&fixture);
}

/* Goal: a hold is not forgotten with the last timer of its dispatch queue, and ends with a step
 * back of the clock rather than last longer. Method: hold, a new timer meanwhile; an hour back. */
static void test_a_hold_outlives_its_timers_but_no_step_back(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    walk_to(&fixture, 2 * HOUR_MS);
    fixture_create(&fixture, "http://a.example/", 2 * HOUR_MS, NULL);
    fixture_answer(
        &fixture, fixture_first_out(&fixture),
        (struct delivery_outcome){.result = DELIVERY_POSTPONED, .retry_after_ms = 20000});
    fixture_create(&fixture, "http://a.example/", 2 * HOUR_MS, NULL);
    walk_to(&fixture, 2 * HOUR_MS + 19999);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_advance_to(&fixture, HOUR_MS);
    fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL);
    walk_to(&fixture, HOUR_MS + fixture.options.storage_retry_ms);
    assert_int_equal(fixture.delivered_count, 2);
    fixture_deinit(&fixture);
}

/* All spellings of an origin share its limits; another port or scheme is another target. */
static void test_an_origin_has_many_spellings(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture.options.target_inflight_max = 1;
    dispatch_reopen(&fixture);
    fixture_create(&fixture, "http://a.example/x", 1000, NULL);
    fixture_create(&fixture, "http://A.Example/y", 1000, NULL);
    fixture_create(&fixture, "http://a.example:80/z", 1000, NULL);
    walk_to(&fixture, 1000);
    assert_int_equal(fixture.delivered_count, 1);
    assert_int_equal(dispatch_stats_of(&fixture).waiting, 2);
    fixture_create(&fixture, "http://a.example:81/", 1000, NULL);
    fixture_create(&fixture, "https://a.example/", 1000, NULL);
    assert_int_equal(fixture.delivered_count, 3);
    fixture_deinit(&fixture);
}

/* Goal: no second sees more deliveries to one origin than its rate and one burst, and the rate is
 * reached, also when the dispatch queue is empty between them. Method: 100 timers at 10 a second,
 * answered at once; then one at a time. */
static void test_a_target_has_a_rate(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture.options.target_rate = 10 * 1000;
    dispatch_reopen(&fixture);
    for (int i = 0; i < 100; i++)
        fixture_create(&fixture, "http://a.example/", 1000, NULL);
    fixture_create(&fixture, "http://b.example/", 1500, NULL);
    for (uint64_t ms = 1000; ms <= 5000; ms += 10) {
        walk_to(&fixture, ms);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        assert_in_range(fixture.delivered_count, (ms - 1000) / 100 + (ms > 1500),
                        (ms - 1000) / 100 + 1 + (ms >= 1500));
    }
    assert_int_equal(dispatch_stats_of(&fixture).waiting, 59);
    walk_to(&fixture, 11000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, 101);
    for (uint64_t i = 0; i < 20; i++) { /* an empty dispatch queue has not forgotten */
        fixture_create(&fixture, "http://a.example/", 11000, NULL);
        fixture_answer_all(&fixture, DELIVERY_DONE);
    }
    assert_in_range(fixture.delivered_count, 101, 102);
    walk_to(&fixture, 14000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, 121);
    fixture_deinit(&fixture);
}

/* Goal: after an outage what is overdue is delivered by its rate, oldest first, and what is due now
 * at once. Method: 50 timers due while nobody is there, 20 a second; meanwhile one that is due now,
 * and workers of a queue, who ask for theirs. */
static void test_catching_up(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (uint64_t i = 0; i < 50; i++)
        fixture_create(&fixture, "http://a.example/late", 1000 + i, NULL);
    fixture_create(&fixture, "queue:jobs?priority=3", 1000, NULL);
    fixture_create(&fixture, "http://a.example/now", HOUR_MS + 500, NULL);
    engine_destroy(fixture.engine);
    fixture.options.catch_up_rate = 20 * 1000;
    fixture.now = (struct wall){START.ms + HOUR_MS};
    fixture_open(&fixture);
    assert_int_equal(fixture.delivered_count, 2); /* a burst of a tenth of a second */
    assert_int_equal(dispatch_stats_of(&fixture).catching_up, 48);
    struct delivery *pulled = turn_pull(fixture.engine, fixture.now, BYTES("jobs"), 3);
    assert_non_null(pulled);
    list_push(&fixture.out, &pulled->link);
    walk_to(&fixture, HOUR_MS + 499);
    assert_int_equal(fixture.delivered_count, 2 + 9);
    walk_to(&fixture, HOUR_MS + 500);
    assert_int_equal(fixture.delivered_count, 2 + 10 + 1);
    assert_true(
        bytes_equal(list_item(fixture.out.prev, struct delivery, link)->timer->texts.target,
                    BYTES("http://a.example/now")) ||
        bytes_equal(list_item(fixture.out.prev->prev, struct delivery, link)->timer->texts.target,
                    BYTES("http://a.example/now")));
    fixture_answer_all(&fixture, DELIVERY_DONE);
    walk_to(&fixture, HOUR_MS + 2399);
    assert_int_equal(dispatch_stats_of(&fixture).catching_up, 1);
    walk_to(&fixture, HOUR_MS + 2400);
    assert_int_equal(fixture.delivered_count, 51);
    assert_int_equal(dispatch_stats_of(&fixture).catching_up, 0);
    fixture_deinit(&fixture);
}

/* Goal: what is held back so can be cancelled, does not fill the memory, and is not lost by a
 * restart. Method: little memory, more overdue timers than fit into it, one cancelled, two
 * restarts. */
static void test_catching_up_in_little_memory(void **state)
{
    enum { COUNT = 600 };

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id ids[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        fixture_create(&fixture, "http://a.example/late", 20000 + i, &ids[i]);
    engine_destroy(fixture.engine);
    fixture.options.near_bytes_max = 64 << 10;
    fixture.options.catch_up_rate = 100 * 1000;
    fixture.now = (struct wall){START.ms + HOUR_MS};
    fixture_open(&fixture);
    walk_to(&fixture, HOUR_MS + 100);
    assert_true(dispatch_stats_of(&fixture).near_bytes <= fixture.options.near_bytes_max);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &ids[COUNT - 1], 0, NULL), ERROR_NONE);
    for (uint64_t ms = 200; ms < 20000 && dispatch_stats_of(&fixture).pending > 0; ms += 50) {
        walk_to(&fixture, HOUR_MS + ms);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        assert_true(fixture.delivered_count <= ms / 10 + 30); /* bursts at each start */
        if (ms == 1000 || ms == 2000)
            dispatch_reopen(&fixture);
    }
    assert_int_equal(fixture.delivered_count, COUNT - 1);
    assert_int_equal(dispatch_stats_of(&fixture).pending, 0);
    fixture_deinit(&fixture);
}

/* Goal: a timer that is made while a burst of another target's fills the memory, and is due behind
 * it, does not wait until all of that was put off. Method: shortly before the burst, two are made:
 * the one that is due soon is in memory, the other is not; each fires once. */
static void test_what_is_due_soon_overtakes_a_burst(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_prepare(&fixture);
    fixture.options.near_bytes_max = 32 << 10;
    fixture_open(&fixture);
    struct timer_id id;
    for (int i = 0; i < 2000; i++)
        fixture_create(&fixture, "http://a.example/", HOUR_MS, &id);
    fixture_advance_to(&fixture, HOUR_MS - fixture.options.window_ms / 4);
    size_t in_memory = dispatch_stats_of(&fixture).in_memory;
    assert_in_range(in_memory, 1, 500);
    fixture_create(&fixture, "http://b.example/", HOUR_MS + fixture.options.window_ms / 5, &id);
    assert_int_equal(dispatch_stats_of(&fixture).in_memory, in_memory + 1);
    fixture_create(&fixture, "http://b.example/", HOUR_MS + fixture.options.window_ms / 2, &id);
    assert_int_equal(dispatch_stats_of(&fixture).in_memory, in_memory + 1);
    size_t delivered = fixture.delivered_count;
    for (uint64_t ms = HOUR_MS; fixture.delivered_count < 2002 && ms < 3 * HOUR_MS; ms += 1000) {
        fixture_advance_to(&fixture, ms);
        assert_in_range(dispatch_stats_of(&fixture).near_bytes, 0,
                        fixture.options.near_bytes_max + 1024);
        fixture_answer_all(&fixture, DELIVERY_DONE);
    }
    assert_int_equal(delivered, 0);
    assert_int_equal(fixture.delivered_count, 2002);
    assert_int_equal(dispatch_stats_of(&fixture).pending, 0);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_postponed_one_holds_its_queue),
        cmocka_unit_test(test_what_a_breaker_postponed_waits_for_it),
        cmocka_unit_test(test_lateness_by_kind),
        cmocka_unit_test(test_one_that_gets_through_ends_the_hold),
        cmocka_unit_test(test_a_hold_outlives_its_timers_but_no_step_back),
        cmocka_unit_test(test_an_origin_has_many_spellings),
        cmocka_unit_test(test_a_target_has_a_rate),
        cmocka_unit_test(test_catching_up),
        cmocka_unit_test(test_catching_up_in_little_memory),
        cmocka_unit_test(test_what_is_due_soon_overtakes_a_burst),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
