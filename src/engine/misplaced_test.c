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
static void crash_at(struct bed *bed, uint64_t ms)
{
    struct list *link;

    while ((link = list_pop(&bed->out)))
        free(list_item(link, struct delivery, link));
    engine_destroy(bed->engine);
    bed->now = (struct wall){START.ms + ms};
    open_engine(bed);
}

static struct storage_meta meta_of(const struct bed *bed)
{
    struct storage_meta meta;

    assert_int_equal(storage_load_meta(bed->storage, 0, &meta, NULL), ERROR_NONE);
    return meta;
}

/* Timers that failed once, a year ahead; one fails with `outcome`. */
static void fail_a_year_ahead(struct bed *bed, const char *target, struct delivery_outcome outcome)
{
    bed_init(bed);
    advance_to(bed, YEAR_MS);
    for (int i = 0; i < TIMERS; i++)
        assert_int_equal(create(bed, target, (uint64_t)i, NULL), ERROR_NONE);
    advance_to(bed, YEAR_MS);
    assert_int_equal(bed->delivered_count, TIMERS);
    while (first_out(bed))
        answer(bed, first_out(bed), outcome);
    assert_int_equal(bed->delivered_count, TIMERS);
}

static const struct delivery_outcome FAILED = {.result = DELIVERY_FAILED};

/* The first back-off is a second at most. */
static void all_come(struct bed *bed, uint64_t after_ms)
{
    advance_to(bed, after_ms + 1001);
    assert_int_equal(bed->delivered_count, 2 * TIMERS);
    answer_all(bed, DELIVERY_DONE);
    bed_deinit(bed);
}

static void test_retries_come_after_a_restart(void **state)
{
    struct bed bed;

    (void)state;
    fail_a_year_ahead(&bed, "http://a.example/", FAILED);
    crash_at(&bed, 0);
    assert_int_equal(bed.delivered_count, TIMERS);
    all_come(&bed, 0);
}

static void test_retries_come_after_a_step_back(void **state)
{
    struct bed bed;

    (void)state;
    fail_a_year_ahead(&bed, "http://a.example/", FAILED);
    advance_to(&bed, 0);
    all_come(&bed, 0);
}

/* A crash before anything is written changes nothing: the next life finds them. */
static void test_retries_come_after_another_crash(void **state)
{
    struct bed bed;
    struct engine_read *read;

    (void)state;
    fail_a_year_ahead(&bed, "http://a.example/", FAILED);
    engine_destroy(bed.engine);
    bed.now = START;
    for (int life = 0; life < 3; life++) {
        struct storage_meta meta = meta_of(&bed);

        bed.engine = engine_create(&bed.options, &meta, bed.now);
        while ((read = engine_take_read(bed.engine))) {
            engine_read_perform(read, bed.storage);
            turn_read_done(bed.engine, bed.now, read);
        }
        engine_destroy(bed.engine);
    }
    open_engine(&bed);
    all_come(&bed, 0);
}

/* Postponed ones, and what workers put off: as far as they may be, and no further. */
static void test_what_was_asked_for_is_kept(void **state)
{
    const uint64_t day_ms = 24 * HOUR_MS;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    assert_int_equal(create(&bed, "http://a.example/", 0, NULL), ERROR_NONE);
    assert_int_equal(create(&bed, "queue:mail", 0, NULL), ERROR_NONE);
    advance_to(&bed, 0);
    answer(&bed, first_out(&bed),
           (struct delivery_outcome){.result = DELIVERY_FAILED, .retry_after_ms = day_ms});
    {
        struct delivery *pulled = turn_pull(bed.engine, bed.now, BYTES("mail"), 5);

        assert_non_null(pulled);
        list_push(&bed.out, &pulled->link);
        answer(&bed, pulled,
               (struct delivery_outcome){.result = DELIVERY_FAILED,
                                         .pause = DELIVERY_PAUSE_EXACT,
                                         .retry_after_ms = 30 * day_ms});
    }
    bed.now.ms -= HOUR_MS;
    advance_to(&bed, 0);
    for (int life = 0; life < 2; life++) {
        crash_at(&bed, day_ms - 1);
        assert_int_equal(bed.delivered_count, 1);
    }
    advance_to(&bed, day_ms);
    assert_int_equal(bed.delivered_count, 2);
    answer_all(&bed, DELIVERY_DONE);
    crash_at(&bed, 0); /* back again, by a day */
    advance_to(&bed, 30 * day_ms - 1);
    assert_null(turn_pull(bed.engine, bed.now, BYTES("mail"), 5));
    advance_to(&bed, 30 * day_ms);
    {
        struct delivery *pulled = turn_pull(bed.engine, bed.now, BYTES("mail"), 5);

        assert_non_null(pulled);
        list_push(&bed.out, &pulled->link);
        answer_all(&bed, DELIVERY_DONE);
    }
    bed_deinit(&bed);
}

/* A search is made once: when what it looked for is put right, `placed` says so. Rows of others
 * that are far ahead are passed, and stay. */
static void test_a_search_ends(void **state)
{
    struct bed bed;

    (void)state;
    fail_a_year_ahead(&bed, "http://a.example/", FAILED);
    assert_true(meta_of(&bed).placed.ms > START.ms + YEAR_MS - 49 * HOUR_MS);
    for (int i = 0; i < 100; i++)
        assert_int_equal(create(&bed, "http://far.example/", AFTER_IT_MS, NULL), ERROR_NONE);
    crash_at(&bed, 0);
    advance_to(&bed, 1001);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(bed.delivered_count, 2 * TIMERS);
    crash_at(&bed, 2000); /* it finds nothing */
    assert_int_equal(create(&bed, "http://a.example/", 2000, NULL), ERROR_NONE);
    assert_true(meta_of(&bed).placed.ms <= START.ms + 2000);
    advance_to(&bed, AFTER_IT_MS - 1);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(bed.delivered_count, 2 * TIMERS + 1);
    advance_to(&bed, AFTER_IT_MS);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(bed.delivered_count, 2 * TIMERS + 101);
    bed_deinit(&bed);
}

/* More than there is room for, to a target that takes one at a time. */
static void spill_a_year_ahead(struct bed *bed)
{
    struct engine_stats stats;

    bed_init(bed);
    close_engine(bed);
    bed->options.near_bytes_max = 64 << 10;
    bed->options.target_inflight_max = 1;
    open_engine(bed);
    advance_to(bed, YEAR_MS);
    for (int i = 0; i < SPILLED; i++)
        assert_int_equal(create(bed, "http://a.example/", (uint64_t)i, NULL), ERROR_NONE);
    advance_to(bed, YEAR_MS);
    engine_stats(bed->engine, &stats);
    assert_true(stats.spilled > SPILLED / 2);
    assert_int_equal(bed->delivered_count, 1);
}

/* Each answer makes room for the next, and no time passes. */
static void test_spilled_come_after_a_restart(void **state)
{
    struct bed bed;

    (void)state;
    for (int lives = 1; lives <= 2; lives++) {
        spill_a_year_ahead(&bed);
        crash_at(&bed, 1000);
        if (lives == 2) { /* what was called in lies where it lay, whatever is written meanwhile */
            assert_int_equal(create(&bed, "http://b.example/", AFTER_IT_MS, NULL), ERROR_NONE);
            crash_at(&bed, 2000);
        }
        answer_all(&bed, DELIVERY_DONE);
        assert_int_equal(bed.delivered_count, SPILLED + (size_t)lives);
        bed_deinit(&bed);
    }
}

/* Those for which there is no room are put nearer, so that not every pass must go so far. */
static void test_spilled_are_put_nearer(void **state)
{
    struct bed bed;

    (void)state;
    spill_a_year_ahead(&bed);
    crash_at(&bed, 1000);
    crash_at(&bed, 2000);
    advance_to(&bed, 2000);
    crash_at(&bed, 3000);
    assert_int_equal(create(&bed, "http://b.example/", 3000, NULL), ERROR_NONE);
    assert_true(meta_of(&bed).placed.ms < START.ms + YEAR_MS / 2);
    answer_all(&bed, DELIVERY_DONE);
    bed_deinit(&bed);
}

/* A timer far ahead is cancelled, and another life trims what is left of it, as soon as it may. */
static void test_final_records_are_trimmed_after_a_restart(void **state)
{
    struct bed bed;
    struct timer_id id;
    struct timer *timer;

    (void)state;
    bed_init(&bed);
    assert_int_equal(create(&bed, "http://a.example/", 100 * HOUR_MS, &id), ERROR_NONE);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
    crash_at(&bed, 1000);
    for (uint64_t hour = 1; hour < 110; hour++)
        advance_to(&bed, hour * HOUR_MS);
    assert_int_equal(storage_find(bed.storage, &id, &timer, NULL), ERROR_NOT_FOUND);
    bed_deinit(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
