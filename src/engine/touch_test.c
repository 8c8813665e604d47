/*
 * Extended times: a touch writes a small record beside the row, and the row is moved when its old
 * time comes. Each test sets up a small history; the last one compares random histories, restarts
 * included, with a list of due times.
 */
#include "engine/engine_testing.h"

#include "base/random.h"
#include "seed.h"

#include <stdio.h>

static struct command touch_command(const struct timer_id *id, uint64_t due_ms, uint32_t if_version)
{
    return (struct command){.kind = COMMAND_TOUCH,
                            .id = *id,
                            .if_version = if_version,
                            .patch_fields = PATCH_DUE,
                            .patch = fixture_timer("http://unused.example/", due_ms)};
}

/* Extends a timer to `due_ms`; what the answer shows is checked. */
static enum error_code touch_timer(struct engine_fixture *fixture, const struct timer_id *id,
                                   uint64_t due_ms)
{
    struct command command = touch_command(id, due_ms, 0);

    fixture_command(fixture, &command);
    if (!command.error)
        assert_true(command.timer->due.ms >= START.ms + due_ms);
    fixture_carry_out(fixture);
    return command.error;
}

static void touch_assert_shown(struct engine_fixture *fixture, const struct timer_id *id,
                               uint64_t due_ms, uint32_t version)
{
    struct command command = {.kind = COMMAND_GET, .id = *id};

    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    assert_true(command.timer->due.ms == START.ms + due_ms);
    assert_int_equal(command.timer->version, version);
    fixture_carry_out(fixture);
}

static struct engine_stats touch_stats(const struct engine_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

static void restart(struct engine_fixture *fixture)
{
    fixture_close(fixture);
    fixture_open(fixture);
}

/* Goal: however often a timer is touched, it fires once, at the last due time, and its row moves
 * once a rotation. Method: a thousand touches, near and far, and time to the brink of each. */
/* proves: bulk-touch */
static void test_many_touches_move_the_row_once(void **state)
{
    enum { TOUCHES = 1000 };
    static const uint64_t dues_ms[] = {5000, HOUR_MS};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const uint64_t due_ms = dues_ms[i], last_ms = due_ms + TOUCHES;
        struct engine_fixture fixture;

        fixture_init(&fixture);
        struct timer_id id;
        fixture_create(&fixture, "http://a.example/", due_ms, &id);
        for (uint64_t n = 1; n <= TOUCHES; n++)
            assert_int_equal(touch_timer(&fixture, &id, due_ms + n), ERROR_NONE);
        assert_int_equal(touch_stats(&fixture).touched, TOUCHES);
        touch_assert_shown(&fixture, &id, last_ms, TOUCHES + 1);
        fixture_advance_to(&fixture, due_ms - 1);
        assert_int_equal(touch_stats(&fixture).rows_moved, 0);
        fixture_advance_to(&fixture, due_ms);
        assert_int_equal(touch_stats(&fixture).rows_moved, 1);
        touch_assert_shown(&fixture, &id, last_ms, TOUCHES + 1);
        fixture_advance_to(&fixture, last_ms - 1);
        assert_int_equal(fixture.delivered_count, 0);
        fixture_advance_to(&fixture, last_ms);
        assert_int_equal(fixture.delivered_count, 1);
        assert_int_equal(touch_timer(&fixture, &id, 2 * HOUR_MS), ERROR_ALREADY_FIRING);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        assert_int_equal(touch_timer(&fixture, &id, 2 * HOUR_MS), ERROR_GONE);
        assert_int_equal(touch_stats(&fixture).rows_moved, 1);
        fixture_deinit(&fixture);
    }
}

/* Goal: a touch only ever extends, and is conditional. Method: an earlier time and the same one
 * change nothing; a version that is not the timer's is refused. */
/* proves: touch */
static void test_a_touch_never_shortens(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", HOUR_MS, &id);
    for (uint64_t due_ms = 0; due_ms <= HOUR_MS; due_ms += HOUR_MS) {
        struct command command = touch_command(&id, due_ms, 0);

        fixture_command(&fixture, &command);
        assert_int_equal(command.error, ERROR_NONE);
        assert_int_equal(command.timer->version, 1);
        fixture_carry_out(&fixture);
    }
    touch_assert_shown(&fixture, &id, HOUR_MS, 1);
    struct command stale = touch_command(&id, 2 * HOUR_MS, 2);
    fixture_command(&fixture, &stale);
    assert_int_equal(stale.error, ERROR_VERSION_MISMATCH);
    struct command right = touch_command(&id, 2 * HOUR_MS, 1);
    fixture_command(&fixture, &right);
    assert_int_equal(right.error, ERROR_NONE);
    fixture_carry_out(&fixture);
    touch_assert_shown(&fixture, &id, 2 * HOUR_MS, 2);
    fixture_deinit(&fixture);
}

/* Goal: an answered touch survives. Method: restarts before the old time, after it, and after the
 * row was moved. */
/* proves: touch */
static void test_a_touch_survives(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 5000, &id);
    assert_int_equal(touch_timer(&fixture, &id, HOUR_MS), ERROR_NONE);
    restart(&fixture);
    touch_assert_shown(&fixture, &id, HOUR_MS, 2);
    fixture_close(&fixture);
    fixture.now.ms += 6000;
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 6000);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(touch_stats(&fixture).rows_moved, 1);
    restart(&fixture);
    touch_assert_shown(&fixture, &id, HOUR_MS, 2);
    fixture_advance_to(&fixture, HOUR_MS - 1);
    assert_int_equal(fixture.delivered_count, 0);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_deinit(&fixture);
}

/* Goal: other commands see a touched timer as it is. Method: each of them after a touch. */
/* proves: touch-refused */
static void test_commands_after_a_touch(void **state)
{
    static const enum command_kind kinds[] = {COMMAND_PATCH, COMMAND_CANCEL, COMMAND_FIRE};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct engine_fixture fixture;

        fixture_init(&fixture);
        struct timer_id id;
        fixture_create(&fixture, "http://a.example/", HOUR_MS, &id);
        assert_int_equal(touch_timer(&fixture, &id, 3 * HOUR_MS), ERROR_NONE);
        assert_int_equal(fixture_ask(&fixture, kinds[i], &id, 1, NULL), ERROR_VERSION_MISMATCH);
        assert_int_equal(fixture_ask(&fixture, kinds[i], &id, 2, NULL), ERROR_NONE);
        assert_int_equal(fixture.delivered_count, kinds[i] == COMMAND_FIRE);
        fixture_advance_to(&fixture, 2 * HOUR_MS - 1); /* where the patch puts it */
        assert_int_equal(fixture.delivered_count, kinds[i] == COMMAND_FIRE);
        fixture_advance_to(&fixture, 3 * HOUR_MS);
        assert_int_equal(fixture.delivered_count, kinds[i] != COMMAND_CANCEL);
        assert_int_equal(touch_stats(&fixture).rows_moved, 0);
        fixture_deinit(&fixture);
    }
}

/* Goal: one that is overdue or was tried gets a new appointment. Method: a timer whose target has
 * no room, and one whose first attempt failed. */
static void test_what_is_due_is_put_off(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "queue:q", 0, &id); /* it waits until somebody pulls it */
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(touch_stats(&fixture).waiting, 1);
    assert_int_equal(touch_timer(&fixture, &id, HOUR_MS), ERROR_NONE);
    assert_int_equal(touch_stats(&fixture).waiting, 0);
    touch_assert_shown(&fixture, &id, HOUR_MS, 2);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(touch_stats(&fixture).waiting, 1);

    fixture_create(&fixture, "http://a.example/", HOUR_MS, &id);
    fixture_advance_to(&fixture, HOUR_MS);
    fixture_answer_all(&fixture, DELIVERY_FAILED);
    assert_int_equal(touch_timer(&fixture, &id, 3 * HOUR_MS), ERROR_NONE);
    fixture_advance_to(&fixture, 3 * HOUR_MS - 1);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_advance_to(&fixture, 3 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 2);
    assert_int_equal(fixture_first_out(&fixture)->attempt, 1);
    assert_int_equal(touch_stats(&fixture).touched, 0);
    fixture_deinit(&fixture);
}

/* Goal: a touch that failed leaves the timer as it was; a move that failed is made again. Method:
 * one commit fails of each. */
/* proves: bulk-touch */
static void test_a_touch_may_fail(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 5000, &id);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_DISK_FULL);
    assert_int_equal(touch_timer(&fixture, &id, HOUR_MS), ERROR_DISK_FULL);
    touch_assert_shown(&fixture, &id, 5000, 1);
    assert_int_equal(touch_timer(&fixture, &id, 6000), ERROR_NONE);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    fixture_advance_to(&fixture, 5000);
    fixture_advance_to(&fixture, 5999);
    assert_int_equal(fixture.delivered_count, 0);
    fixture_advance_to(&fixture, 6000);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_deinit(&fixture);
}

/* Goal: the extended time holds while the touch is being written, and with the clock set back.
 * Method: time passes the old due time before the commit; then the clock goes back behind it. */
static void test_time_goes_on_meanwhile(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 5000, &id);
    struct command command = touch_command(&id, HOUR_MS, 0);
    turn_submit(fixture.engine, fixture.now, &command);
    struct storage_batch *batch = engine_take_batch(fixture.engine);
    fixture.now.ms += 5500;
    turn_advance(fixture.engine, fixture.now);
    assert_null(engine_take_delivery(fixture.engine));
    batch->result = storage_write(fixture.storage, &batch, 1, NULL);
    turn_committed(fixture.engine, fixture.now, batch);
    fixture_carry_out(&fixture);
    assert_int_equal(fixture.delivered_count, 0);
    fixture_advance_to(&fixture, 1000);
    fixture_advance_to(&fixture, HOUR_MS - 1);
    assert_int_equal(fixture.delivered_count, 0);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_deinit(&fixture);
}

/* Goal: one that waits for room, and whose row stands before its extended time, is called back when
 * the clock is. Method: time beyond both; back between them; and on. */
static void test_the_clock_goes_back_between(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "queue:q", 5000, &id);
    assert_int_equal(touch_timer(&fixture, &id, 8000), ERROR_NONE);
    fixture_advance_to(&fixture, 9000);
    assert_int_equal(touch_stats(&fixture).waiting, 1);
    fixture_advance_to(&fixture, 6000);
    assert_int_equal(touch_stats(&fixture).waiting, 0);
    fixture_advance_to(&fixture, 7999);
    assert_int_equal(touch_stats(&fixture).waiting, 0);
    fixture_advance_to(&fixture, 8000);
    assert_int_equal(touch_stats(&fixture).waiting, 1);
    fixture_deinit(&fixture);
}

/* Goal: random histories end as a list says that is too simple to be wrong. Method: touches,
 * patches, cancels, restarts and steps of time over a few timers; each delivery must be of a timer
 * that lives, due by now, and after each step nothing due may be missing. */
struct touch_twin {
    struct timer_id id;
    uint64_t due_ms;
    bool is_over;
};

enum { TWINS = 12, STEPS = 3000 };

static void settle_twins(struct engine_fixture *fixture, struct touch_twin *twins)
{
    struct delivery *delivery;

    while ((delivery = fixture_first_out(fixture))) {
        size_t i = 0;

        while (i < TWINS && !timer_id_equal(&twins[i].id, &delivery->timer->id))
            i++;
        assert_true(i < TWINS && !twins[i].is_over);
        assert_true(START.ms + twins[i].due_ms <= fixture->now.ms);
        twins[i].is_over = true;
        fixture_answer(fixture, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
    }
    for (size_t i = 0; i < TWINS; i++)
        assert_true(twins[i].is_over || START.ms + twins[i].due_ms > fixture->now.ms);
}

static void change_twin(struct engine_fixture *fixture, struct random *random,
                        struct touch_twin *twin)
{
    const uint64_t now_ms = fixture->now.ms - START.ms;
    const uint64_t due_ms = now_ms + 1 + random_below(random, random_below(random, 2) ? 20 : 60000);
    struct command command = touch_command(&twin->id, due_ms, 0);
    enum error_code expected = twin->is_over ? ERROR_GONE : ERROR_NONE;
    const uint64_t choice = random_below(random, 8);

    if (choice == 0) {
        timer_free(command.patch);
        command.patch = NULL;
        command.kind = COMMAND_CANCEL;
    } else if (choice == 1) {
        command.kind = COMMAND_PATCH;
    }
    fixture_command(fixture, &command);
    assert_int_equal(command.error, expected);
    if (!expected) {
        twin->is_over = choice == 0;
        if (choice == 1 || due_ms > twin->due_ms)
            twin->due_ms = due_ms;
        assert_true(choice == 0 || command.timer->due.ms == START.ms + twin->due_ms);
    }
    fixture_carry_out(fixture);
}

/* proves: touch */
static void test_random_histories(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct touch_twin twins[TWINS];
    for (size_t i = 0; i < TWINS; i++)
        twins[i].is_over = true;
    for (size_t step = 0; step < STEPS; step++) {
        struct touch_twin *twin = &twins[random_below(&random, TWINS)];
        const uint64_t now_ms = fixture.now.ms - START.ms;

        if (step < TWINS)
            twin = &twins[step];
        if (twin->is_over && (step < TWINS || random_below(&random, 4) == 0)) {
            twin->due_ms = now_ms + 1 + random_below(&random, 60000);
            twin->is_over = false;
            assert_int_equal(fixture_create(&fixture, "http://a.example/", twin->due_ms, &twin->id),
                             ERROR_NONE);
        } else if (random_below(&random, 3) == 0) {
            fixture_advance_to(
                &fixture, now_ms + random_below(&random, random_below(&random, 2) ? 10 : 9000));
        } else if (random_below(&random, 20) == 0) {
            restart(&fixture);
        } else {
            change_twin(&fixture, &random, twin);
        }
        settle_twins(&fixture, twins);
    }
    fixture_advance_to(&fixture, fixture.now.ms - START.ms + 60001);
    settle_twins(&fixture, twins);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_touches_move_the_row_once),
        cmocka_unit_test(test_a_touch_never_shortens),
        cmocka_unit_test(test_a_touch_survives),
        cmocka_unit_test(test_commands_after_a_touch),
        cmocka_unit_test(test_what_is_due_is_put_off),
        cmocka_unit_test(test_a_touch_may_fail),
        cmocka_unit_test(test_time_goes_on_meanwhile),
        cmocka_unit_test(test_the_clock_goes_back_between),
        cmocka_unit_test(test_random_histories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
