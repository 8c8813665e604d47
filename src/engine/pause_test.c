/*
 * Paused timers: they keep nothing waiting, survive restarts, and go on as after an outage. Each
 * test sets up a small history; tests/sim pauses and resumes at random.
 */
#include "engine/engine_testing.h"

#include "timer/queue_target.h"

static enum error_code pause_until(struct engine_fixture *fixture, const struct timer_id *id,
                                   struct wall until, const char *note)
{
    struct command command = {.kind = COMMAND_PAUSE,
                              .id = *id,
                              .patch = timer_alloc(&(struct timer_texts){.note = bytes_of(note)})};

    command.patch->at = until;
    fixture_command(fixture, &command);
    if (!command.error) {
        assert_int_equal(command.timer->state, TIMER_PAUSED);
        assert_true(bytes_equal(command.timer->texts.note, bytes_of(note)));
    }
    fixture_carry_out(fixture);
    return command.error;
}

static struct engine_stats pause_stats(const struct engine_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

static enum timer_state pause_state(struct engine_fixture *fixture, const struct timer_id *id)
{
    enum timer_state state = TIMER_DEAD;

    fixture_ask(fixture, COMMAND_GET, id, 0, &state);
    return state;
}

/* Goal: what is paused is not delivered, over restarts and however long; resumed, it is delivered
 * at once, as it was due. Method: a day beyond the due time, with a restart. */
/* proves: pause, resume */
static void a_paused_timer_waits_for_its_resumption(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", 5000, &id);
    assert_int_equal(pause_until(&fixture, &id, STORAGE_PAUSED_AT, "deploy"), ERROR_NONE);
    fixture_advance_to(&fixture, 24 * HOUR_MS);
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 48 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(pause_state(&fixture, &id), TIMER_PAUSED);
    assert_int_equal(fixture_ask(&fixture, COMMAND_RESUME, &id, 3, NULL), ERROR_VERSION_MISMATCH);
    assert_int_equal(fixture_ask(&fixture, COMMAND_RESUME, &id, 2, NULL), ERROR_NONE);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(fixture_first_out(&fixture)->timer->due.ms == START.ms + 5000);
    assert_int_equal(fixture_first_out(&fixture)->timer->texts.note.size, 0);
    assert_int_equal(pause_stats(&fixture).resumed, 1);
    fixture_deinit(&fixture);
}

/* Goal: thousands of overdue paused timers keep neither watermark nor memory. Method: they are
 * paused before they are due, and the watermark passes them. */
/* proves: pause */
static void paused_timers_hold_nothing_up(void **state)
{
    enum { PAUSED = 2000 };
    struct engine_fixture fixture;
    struct timer_id ids[PAUSED];

    (void)state;
    fixture_init(&fixture);
    for (size_t i = 0; i < PAUSED; i++)
        fixture_create(&fixture, "http://a.example/", 1000, &ids[i]);
    for (size_t i = 0; i < PAUSED; i++)
        assert_int_equal(pause_until(&fixture, &ids[i], STORAGE_PAUSED_AT, ""), ERROR_NONE);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(pause_stats(&fixture).in_memory, 0);
    assert_int_equal(pause_stats(&fixture).near_bytes, 0);
    assert_int_equal(pause_stats(&fixture).pending, PAUSED);
    assert_true(pause_stats(&fixture).watermark.ms > START.ms + 1000);
    fixture_deinit(&fixture);
}

/* Goal: a pause ends at its time by itself, to the millisecond. Method: within the window and
 * beyond it, before and after the due time. */
/* proves: pause-until */
static void a_pause_ends_at_its_time(void **state)
{
    static const uint64_t untils_ms[] = {2000, 9000, HOUR_MS, 3 * HOUR_MS};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const uint64_t due_ms = 2 * HOUR_MS, until_ms = untils_ms[i];
        const uint64_t fires_ms = until_ms > due_ms ? until_ms : due_ms;
        struct engine_fixture fixture;
        struct timer_id id;

        fixture_init(&fixture);
        fixture_create(&fixture, "http://a.example/", due_ms, &id);
        pause_until(&fixture, &id, (struct wall){START.ms + until_ms}, "");
        fixture_advance_to(&fixture, until_ms - 1);
        assert_int_equal(pause_state(&fixture, &id), TIMER_PAUSED);
        fixture_advance_to(&fixture, until_ms);
        assert_true(pause_state(&fixture, &id) != TIMER_PAUSED);
        if (fires_ms > until_ms) {
            fixture_advance_to(&fixture, fires_ms - 1);
            assert_int_equal(fixture.delivered_count, 0);
        }
        fixture_advance_to(&fixture, fires_ms);
        assert_int_equal(fixture.delivered_count, 1);
        fixture_deinit(&fixture);
    }
}

/* Goal: a change of a paused timer changes it and leaves it paused; a cancel ends it, and its final
 * state is told and trimmed like any other. Method: one change after the other, and then time. */
/* proves: pause-changes */
static void changes_leave_it_paused(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.retain_ms = HOUR_MS;
    fixture_open(&fixture);
    fixture_create(&fixture, "http://a.example/", 5000, &id);
    pause_until(&fixture, &id, STORAGE_PAUSED_AT, "");
    assert_int_equal(fixture_ask(&fixture, COMMAND_PATCH, &id, 2, NULL), ERROR_NONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_FIRE, &id, 0, NULL), ERROR_PAUSED);
    struct command touch = {.kind = COMMAND_TOUCH,
                            .id = id,
                            .patch_fields = PATCH_DUE,
                            .patch = fixture_timer("http://unused.example/", 9 * HOUR_MS)};
    fixture_command(&fixture, &touch);
    assert_int_equal(touch.timer->state, TIMER_PAUSED);
    assert_true(touch.timer->due.ms == START.ms + 9 * HOUR_MS);
    fixture_carry_out(&fixture);
    fixture_advance_to(&fixture, 10 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 4, NULL), ERROR_NONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_GONE);
    fixture_advance_to(&fixture, 11 * HOUR_MS - 1000);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_GONE);
    fixture_advance_to(&fixture, 13 * HOUR_MS);
    fixture_advance_to(&fixture, 15 * HOUR_MS);
    const struct storage_scan scan = {
        .kind = STORAGE_SCAN_ALL, .to = {WALL_NEVER, 0}, .rows_max = 9, .bytes_max = SIZE_MAX};
    struct storage_page page;
    assert_int_equal(storage_scan(fixture.storage, &scan, &page, NULL), ERROR_NONE);
    assert_int_equal(page.count, 0);
    storage_page_free(&page);
    fixture_deinit(&fixture);
}

/* Goal: an attempt that was made counts after a pause too, and a delivery that has begun cannot be
 * paused. */
/* proves: pause, pause-refused */
static void attempts_are_kept(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", 0, &id);
    fixture_advance_to(&fixture, 1);
    assert_int_equal(pause_until(&fixture, &id, STORAGE_PAUSED_AT, ""), ERROR_ALREADY_FIRING);
    fixture_answer_all(&fixture, DELIVERY_FAILED);
    assert_int_equal(pause_until(&fixture, &id, STORAGE_PAUSED_AT, ""), ERROR_NONE);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, 1);
    assert_int_equal(fixture_ask(&fixture, COMMAND_RESUME, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(fixture_first_out(&fixture)->attempt, 2);
    fixture_deinit(&fixture);
}

/* Goal: while the flag is set nothing is handed out, neither sent nor pulled; then everything is.
 * Method: a webhook and an item, due before and during. */
/* proves: maintenance */
static void maintenance_holds_everything_back(void **state)
{
    struct engine_fixture fixture;
    atomic_bool is_held;

    (void)state;
    atomic_init(&is_held, true);
    fixture_prepare(&fixture);
    fixture.options.is_held = &is_held;
    fixture_open(&fixture);
    fixture_create(&fixture, "http://a.example/", 0, NULL);
    fixture_create(&fixture, "queue:q", 1000, NULL);
    fixture_advance_to(&fixture, 5000);
    struct bytes woken;
    assert_true(engine_take_woken(fixture.engine, &woken));
    assert_null(turn_pull(fixture.engine, fixture.now, woken, QUEUE_PRIORITY_DEFAULT));
    assert_int_equal(fixture.delivered_count, 0);
    assert_true(engine_wake_at(fixture.engine).ms > fixture.now.ms);
    atomic_store(&is_held, false);
    assert_true(engine_wake_at(fixture.engine).ms <= fixture.now.ms);
    fixture_advance_to(&fixture, 5000);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(engine_take_woken(fixture.engine, &woken));
    struct delivery *pulled = turn_pull(fixture.engine, fixture.now, woken, QUEUE_PRIORITY_DEFAULT);
    assert_non_null(pulled);
    list_push(&fixture.out, &pulled->link);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_timer_waits_for_its_resumption),
        cmocka_unit_test(paused_timers_hold_nothing_up),
        cmocka_unit_test(a_pause_ends_at_its_time),
        cmocka_unit_test(changes_leave_it_paused),
        cmocka_unit_test(attempts_are_kept),
        cmocka_unit_test(maintenance_holds_everything_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
