/*
 * Goal: a row that the engine lost is found, counted and fired; a row that waits for a reason is
 * not taken for one; and rows whose time zone is missing are counted from the start on. Method:
 * rows put into the storage behind the engine, and timers that wait in each way.
 */
#include "engine/engine_testing.h"

static struct engine_stats second_scan_stats(const struct engine_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

/* Puts a live row into the storage that the engine does not know. */
static void second_scan_put(struct engine_fixture *fixture, uint64_t due_ms, const char *schedule)
{
    struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                .schedule = bytes_of(schedule)};
    struct timer *timer = timer_alloc(&texts);
    struct storage_write write = {.timer = timer};
    struct storage_batch batch = {.writes = &write, .write_count = 1}, *batches[] = {&batch};

    assert_non_null(timer);
    timer->due.ms = timer->at.ms = START.ms + due_ms;
    timer->created = START;
    timer->id = (struct timer_id){timer->at, 0, TIMER_SERIAL(1, UINT64_C(1) << 30)};
    assert_int_equal(storage_load_meta(fixture->storage, 0, &batch.meta, NULL), ERROR_NONE);
    assert_int_equal(storage_write(fixture->storage, batches, 1, NULL), ERROR_NONE);
    timer_free(timer);
}

/* proves: second-scan */
static void test_a_lost_row_fires(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.second_scan_ms = 60000;
    fixture_open(&fixture);
    fixture_advance_to(&fixture, HOUR_MS);
    second_scan_put(&fixture, HOUR_MS - 1000, "");
    for (uint64_t minute = 1; minute <= 9; minute++)
        fixture_advance_to(&fixture, HOUR_MS + minute * 60000);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(second_scan_stats(&fixture).missed_found, 0);
    fixture_advance_to(&fixture, HOUR_MS + 11 * 60000);
    assert_int_equal(second_scan_stats(&fixture).missed_found, 1);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    assert_int_equal(second_scan_stats(&fixture).missed_found, 1);
    fixture_deinit(&fixture);
}

/* In flight for hours, without a worker, paused, behind a frontier for want of memory, retried much
 * later, held: each is known. */
/* proves: second-scan */
static void test_what_waits_is_not_lost(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;
    atomic_bool is_held = false;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.second_scan_ms = 60000;
    fixture.options.is_held = &is_held;
    fixture.options.near_bytes_max = 16384;
    fixture_open(&fixture);
    for (int i = 0; i < 40; i++)
        fixture_create(&fixture, i % 2 ? "queue:q" : "http://a.example/", 60000, &id);
    fixture_create(&fixture, "http://b.example/", 1000, &id);
    fixture_advance_to(&fixture, 1000);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_FAILED,
                                             .pause = DELIVERY_PAUSE_EXACT,
                                             .retry_after_ms = 2 * HOUR_MS});
    for (uint64_t minute = 1; minute <= 70; minute++) {
        atomic_store(&is_held, minute > 30);
        fixture_advance_to(&fixture, minute * 60000);
    }
    assert_int_equal(second_scan_stats(&fixture).missed_found, 0);
    atomic_store(&is_held, false);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

static bool second_scan_has_zone;

static enum error_code second_scan_find_zone(void *context, struct bytes name,
                                             const struct zone **ret_zone)
{
    (void)context, (void)name;
    *ret_zone = zone_utc();
    return second_scan_has_zone ? ERROR_NONE : ERROR_NOT_FOUND;
}

/* Also of a timer that is due in a year. */
/* proves: zone-missing */
static void test_missing_zones_are_known_at_once(void **state)
{
    struct engine_fixture fixture;
    _Atomic uint64_t generation = 1;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.second_scan_ms = 60000;
    fixture.options.zones =
        (struct zone_source){.find = second_scan_find_zone, .generation = &generation};
    second_scan_has_zone = false;
    second_scan_put(&fixture, 8760 * HOUR_MS,
                    "{\"cron\":\"0 8 15 1 *\",\"timezone\":\"US/Pacific\",\"dst\":\"shift\"}");
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(second_scan_stats(&fixture).zoneless, 1);
    second_scan_has_zone = true;
    fixture_advance_to(&fixture, 120000);
    assert_int_equal(second_scan_stats(&fixture).zoneless, 1);
    atomic_store(&generation, 2);
    fixture_advance_to(&fixture, 240000);
    assert_int_equal(second_scan_stats(&fixture).zoneless, 0);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_row_fires),
        cmocka_unit_test(test_what_waits_is_not_lost),
        cmocka_unit_test(test_missing_zones_are_known_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
