/*
 * Goal: what the wall clock put far ahead while it was wrong comes as soon as it is right, in the
 * same life of the engine and in the next; and nothing else is touched. Method: the clock a year
 * ahead while attempts fail, or too much waits; then right, and a restart that is a crash.
 */
#include "engine/engine_testing.h"

#define YEAR_MS     (UINT64_C(365) * 24 * HOUR_MS)
#define AFTER_IT_MS (YEAR_MS + 240 * HOUR_MS)

enum { TIMERS = 40, SPILLED = 400 };

/* Its deliveries are lost, and nothing that was not written is. */
static void crash_at(struct engine_fixture *fixture, uint64_t ms)
{
    struct list *link;

    while ((link = list_pop(&fixture->out)))
        free(list_item(link, struct delivery, link));
    engine_destroy(fixture->engine);
    fixture->now = (struct wall){START.ms + ms};
    fixture_open(fixture);
}

static struct storage_meta meta_of(const struct engine_fixture *fixture)
{
    struct storage_meta meta;

    assert_int_equal(storage_load_meta(fixture->storage, 0, &meta, NULL), ERROR_NONE);
    return meta;
}

/* Timers that failed once, a year ahead; one fails with `outcome`. */
static void fail_a_year_ahead(struct engine_fixture *fixture, const char *target,
                              struct delivery_outcome outcome)
{
    fixture_init(fixture);
    fixture_advance_to(fixture, YEAR_MS);
    for (int i = 0; i < TIMERS; i++)
        assert_int_equal(fixture_create(fixture, target, (uint64_t)i, NULL), ERROR_NONE);
    fixture_advance_to(fixture, YEAR_MS);
    assert_int_equal(fixture->delivered_count, TIMERS);
    while (fixture_first_out(fixture))
        fixture_answer(fixture, fixture_first_out(fixture), outcome);
    assert_int_equal(fixture->delivered_count, TIMERS);
}

static const struct delivery_outcome FAILED = {.result = DELIVERY_FAILED};

/* The first back-off is a second at most. */
static void all_come(struct engine_fixture *fixture, uint64_t after_ms)
{
    fixture_advance_to(fixture, after_ms + 1001);
    assert_int_equal(fixture->delivered_count, 2 * TIMERS);
    fixture_answer_all(fixture, DELIVERY_DONE);
    fixture_deinit(fixture);
}

/* A timer that waits for room on disk has fewer attempts than it had made, by a patch that is
 * durable only when its position is near: it ends there. */
static void test_too_few_attempts_for_what_waits_for_room(void **state)
{
    struct timer *timer = fixture_timer("http://a.example/", 0);
    struct storage_write write = {.timer = timer};
    struct storage_batch batch = {.writes = &write, .write_count = 1}, *batches[] = {&batch};
    struct command patch = {.kind = COMMAND_PATCH,
                            .patch = timer,
                            .patch_fields = PATCH_RETRY}; /* the engine frees it */
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.window_ms = 10000;
    fixture_open(&fixture);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 60000, &patch.id), ERROR_NONE);
    timer->id = patch.id;
    timer->created = START;
    timer->at = write.was_at = wall_add(START, 60000); /* after its due time */
    timer->attempts = 5;
    batch.meta = meta_of(&fixture);
    assert_int_equal(storage_write(fixture.storage, batches, 1, NULL), ERROR_NONE);
    timer->retry.attempts_max = 3;
    turn_submit(fixture.engine, fixture.now, &patch);
    struct storage_batch *out;
    while (!(out = engine_take_batch(fixture.engine))) {
        struct engine_read *read = engine_take_read(fixture.engine);

        assert_non_null(read);
        engine_read_perform(read, fixture.storage);
        turn_read_done(fixture.engine, fixture.now, read);
    }
    fixture.now = wall_add(START, 55000);
    turn_advance(fixture.engine, fixture.now);
    for (struct engine_read *read; (read = engine_take_read(fixture.engine));) {
        engine_read_perform(read, fixture.storage);
        turn_read_done(fixture.engine, fixture.now, read);
    }
    fixture_commit(&fixture, out);
    fixture_carry_out(&fixture);
    assert_int_equal(patch.error, ERROR_NONE);
    fixture_advance_to(&fixture, 61000);
    struct command get = {.kind = COMMAND_GET, .id = patch.id};
    fixture_command(&fixture, &get);
    assert_int_equal(get.error, ERROR_GONE);
    assert_int_equal(get.timer->state, TIMER_DEAD);
    fixture_carry_out(&fixture);
    assert_int_equal(fixture.delivered_count, 0);
    fixture_deinit(&fixture);
}

static void test_retries_come_after_a_restart(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fail_a_year_ahead(&fixture, "http://a.example/", FAILED);
    crash_at(&fixture, 0);
    assert_int_equal(fixture.delivered_count, TIMERS);
    all_come(&fixture, 0);
}

static void test_retries_come_after_a_step_back(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fail_a_year_ahead(&fixture, "http://a.example/", FAILED);
    fixture_advance_to(&fixture, 0);
    all_come(&fixture, 0);
}

/* A crash before anything is written changes nothing: the next life finds them. */
static void test_retries_come_after_another_crash(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fail_a_year_ahead(&fixture, "http://a.example/", FAILED);
    engine_destroy(fixture.engine);
    fixture.now = START;
    struct engine_read *read;
    for (int life = 0; life < 3; life++) {
        struct storage_meta meta = meta_of(&fixture);

        fixture.engine = engine_create(&fixture.options, &meta, fixture.now);
        while ((read = engine_take_read(fixture.engine))) {
            engine_read_perform(read, fixture.storage);
            turn_read_done(fixture.engine, fixture.now, read);
        }
        engine_destroy(fixture.engine);
    }
    fixture_open(&fixture);
    all_come(&fixture, 0);
}

/* Postponed ones, and what workers put off: as far as they may be, and no further. */
static void test_what_was_asked_for_is_kept(void **state)
{
    const uint64_t day_ms = 24 * HOUR_MS;

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 0, NULL), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "queue:mail", 0, NULL), ERROR_NONE);
    fixture_advance_to(&fixture, 0);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_FAILED, .retry_after_ms = day_ms});
    {
        struct delivery *pulled = turn_pull(fixture.engine, fixture.now, BYTES("mail"), 5);

        assert_non_null(pulled);
        list_push(&fixture.out, &pulled->link);
        fixture_answer(&fixture, pulled,
                       (struct delivery_outcome){.result = DELIVERY_FAILED,
                                                 .pause = DELIVERY_PAUSE_EXACT,
                                                 .retry_after_ms = 30 * day_ms});
    }
    fixture.now.ms -= HOUR_MS;
    fixture_advance_to(&fixture, 0);
    for (int life = 0; life < 2; life++) {
        crash_at(&fixture, day_ms - 1);
        assert_int_equal(fixture.delivered_count, 1);
    }
    fixture_advance_to(&fixture, day_ms);
    assert_int_equal(fixture.delivered_count, 2);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    crash_at(&fixture, 0); /* back again, by a day */
    fixture_advance_to(&fixture, 30 * day_ms - 1);
    assert_null(turn_pull(fixture.engine, fixture.now, BYTES("mail"), 5));
    fixture_advance_to(&fixture, 30 * day_ms);
    {
        struct delivery *pulled = turn_pull(fixture.engine, fixture.now, BYTES("mail"), 5);

        assert_non_null(pulled);
        list_push(&fixture.out, &pulled->link);
        fixture_answer_all(&fixture, DELIVERY_DONE);
    }
    fixture_deinit(&fixture);
}

/* A search is made once: when what it looked for is put right, `placed` says so. Rows of others
 * that are far ahead are passed, and stay. */
static void test_a_search_ends(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fail_a_year_ahead(&fixture, "http://a.example/", FAILED);
    assert_true(meta_of(&fixture).placed.ms > START.ms + YEAR_MS - 49 * HOUR_MS);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fixture_create(&fixture, "http://far.example/", AFTER_IT_MS, NULL),
                         ERROR_NONE);
    crash_at(&fixture, 0);
    fixture_advance_to(&fixture, 1001);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, 2 * TIMERS);
    crash_at(&fixture, 2000); /* it finds nothing */
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 2000, NULL), ERROR_NONE);
    assert_true(meta_of(&fixture).placed.ms <= START.ms + 2000);
    fixture_advance_to(&fixture, AFTER_IT_MS - 1);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, 2 * TIMERS + 1);
    fixture_advance_to(&fixture, AFTER_IT_MS);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, 2 * TIMERS + 101);
    fixture_deinit(&fixture);
}

/* More than there is room for, to a target that takes one at a time. */
static void spill_a_year_ahead(struct engine_fixture *fixture)
{
    fixture_init(fixture);
    fixture_close(fixture);
    fixture->options.near_bytes_max = 64 << 10;
    fixture->options.target_inflight_max = 1;
    fixture_open(fixture);
    fixture_advance_to(fixture, YEAR_MS);
    for (int i = 0; i < SPILLED; i++)
        assert_int_equal(fixture_create(fixture, "http://a.example/", (uint64_t)i, NULL),
                         ERROR_NONE);
    fixture_advance_to(fixture, YEAR_MS);
    struct engine_stats stats;
    engine_stats(fixture->engine, &stats);
    assert_true(stats.spilled > SPILLED / 2);
    assert_int_equal(fixture->delivered_count, 1);
}

/* Each answer makes room for the next, and no time passes. */
static void test_spilled_come_after_a_restart(void **state)
{
    (void)state;
    for (int lives = 1; lives <= 2; lives++) {
        struct engine_fixture fixture;
        spill_a_year_ahead(&fixture);
        crash_at(&fixture, 1000);
        if (lives == 2) { /* what was reloaded lies where it lay, whatever is written meanwhile */
            assert_int_equal(fixture_create(&fixture, "http://b.example/", AFTER_IT_MS, NULL),
                             ERROR_NONE);
            crash_at(&fixture, 2000);
        }
        fixture_answer_all(&fixture, DELIVERY_DONE);
        assert_int_equal(fixture.delivered_count, SPILLED + (size_t)lives);
        fixture_deinit(&fixture);
    }
}

/* Those for which there is no room are put nearer, so that not every pass must go so far. */
static void test_spilled_are_put_nearer(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    spill_a_year_ahead(&fixture);
    crash_at(&fixture, 1000);
    crash_at(&fixture, 2000);
    fixture_advance_to(&fixture, 2000);
    crash_at(&fixture, 3000);
    assert_int_equal(fixture_create(&fixture, "http://b.example/", 3000, NULL), ERROR_NONE);
    assert_true(meta_of(&fixture).placed.ms < START.ms + YEAR_MS / 2);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

/* A timer far ahead is cancelled, and another life trims what is left of it, as soon as it may. */
static void test_final_records_are_trimmed_after_a_restart(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 100 * HOUR_MS, &id), ERROR_NONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
    crash_at(&fixture, 1000);
    for (uint64_t hour = 1; hour < 110; hour++)
        fixture_advance_to(&fixture, hour * HOUR_MS);
    struct timer *timer;
    assert_int_equal(storage_find(fixture.storage, &id, &timer, NULL), ERROR_NOT_FOUND);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_few_attempts_for_what_waits_for_room),
        cmocka_unit_test(test_retries_come_after_a_restart),
        cmocka_unit_test(test_retries_come_after_a_step_back),
        cmocka_unit_test(test_retries_come_after_another_crash),
        cmocka_unit_test(test_what_was_asked_for_is_kept),
        cmocka_unit_test(test_a_search_ends),
        cmocka_unit_test(test_spilled_come_after_a_restart),
        cmocka_unit_test(test_spilled_are_put_nearer),
        cmocka_unit_test(test_final_records_are_trimmed_after_a_restart),
    };

    return cmocka_run_group_tests_name("misplaced", tests, NULL, NULL);
}
