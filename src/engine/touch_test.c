/*
 * Extended times: a touch writes a small record beside the row, and the row is moved when its old
 * time comes. Each test sets up a small history; the last one compares random histories, restarts
 * included, with a list of due times.
 */
#include "engine/engine_testing.h"

#include "base/random.h"

#include <stdio.h>
#include <time.h>

static struct command touch_command(const struct timer_id *id, uint64_t due_ms, uint32_t if_version)
{
    return (struct command){.kind = COMMAND_TOUCH,
                            .id = *id,
                            .if_version = if_version,
                            .patch_fields = PATCH_DUE,
                            .patch = timer_for("http://unused.example/", due_ms)};
}

/* Extends a timer to `due_ms`; what the answer shows is checked. */
static enum error_code touch(struct bed *bed, const struct timer_id *id, uint64_t due_ms)
{
    struct command command = touch_command(id, due_ms, 0);

    command_answer(bed, &command);
    if (!command.error)
        assert_true(command.timer->due.ms >= START.ms + due_ms);
    carry_out(bed);
    return command.error;
}

static void assert_shown(struct bed *bed, const struct timer_id *id, uint64_t due_ms,
                         uint32_t version)
{
    struct command command = {.kind = COMMAND_GET, .id = *id};

    command_answer(bed, &command);
    assert_int_equal(command.error, ERROR_NONE);
    assert_true(command.timer->due.ms == START.ms + due_ms);
    assert_int_equal(command.timer->version, version);
    carry_out(bed);
}

static struct engine_stats stats_of(const struct bed *bed)
{
    struct engine_stats stats;

    engine_stats(bed->engine, &stats);
    return stats;
}

static void restart(struct bed *bed)
{
    close_engine(bed);
    open_engine(bed);
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
        struct timer_id id;
        struct bed bed;

        bed_init(&bed);
        create(&bed, "http://a.example/", due_ms, &id);
        for (uint64_t n = 1; n <= TOUCHES; n++)
            assert_int_equal(touch(&bed, &id, due_ms + n), ERROR_NONE);
        assert_int_equal(stats_of(&bed).touched, TOUCHES);
        assert_shown(&bed, &id, last_ms, TOUCHES + 1);
        advance_to(&bed, due_ms - 1);
        assert_int_equal(stats_of(&bed).moved_on, 0);
        advance_to(&bed, due_ms);
        assert_int_equal(stats_of(&bed).moved_on, 1);
        assert_shown(&bed, &id, last_ms, TOUCHES + 1);
        advance_to(&bed, last_ms - 1);
        assert_int_equal(bed.delivered_count, 0);
        advance_to(&bed, last_ms);
        assert_int_equal(bed.delivered_count, 1);
        assert_int_equal(touch(&bed, &id, 2 * HOUR_MS), ERROR_ALREADY_FIRING);
        answer_all(&bed, DELIVERY_DONE);
        assert_int_equal(touch(&bed, &id, 2 * HOUR_MS), ERROR_GONE);
        assert_int_equal(stats_of(&bed).moved_on, 1);
        bed_deinit(&bed);
    }
}

/* Goal: a touch only ever extends, and is conditional. Method: an earlier time and the same one
 * change nothing; a version that is not the timer's is refused. */
/* proves: touch */
static void test_a_touch_never_shortens(void **state)
{
    struct command stale, right;
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", HOUR_MS, &id);
    for (uint64_t due_ms = 0; due_ms <= HOUR_MS; due_ms += HOUR_MS) {
        struct command command = touch_command(&id, due_ms, 0);

        command_answer(&bed, &command);
        assert_int_equal(command.error, ERROR_NONE);
        assert_int_equal(command.timer->version, 1);
        carry_out(&bed);
    }
    assert_shown(&bed, &id, HOUR_MS, 1);
    stale = touch_command(&id, 2 * HOUR_MS, 2);
    command_answer(&bed, &stale);
    assert_int_equal(stale.error, ERROR_VERSION_MISMATCH);
    right = touch_command(&id, 2 * HOUR_MS, 1);
    command_answer(&bed, &right);
    assert_int_equal(right.error, ERROR_NONE);
    carry_out(&bed);
    assert_shown(&bed, &id, 2 * HOUR_MS, 2);
    bed_deinit(&bed);
}

/* Goal: an answered touch survives. Method: restarts before the old time, after it, and after the
 * row was moved. */
/* proves: touch */
static void test_a_touch_survives(void **state)
{
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 5000, &id);
    assert_int_equal(touch(&bed, &id, HOUR_MS), ERROR_NONE);
    restart(&bed);
    assert_shown(&bed, &id, HOUR_MS, 2);
    close_engine(&bed);
    bed.now.ms += 6000;
    open_engine(&bed);
    advance_to(&bed, 6000);
    assert_int_equal(bed.delivered_count, 0);
    assert_int_equal(stats_of(&bed).moved_on, 1);
    restart(&bed);
    assert_shown(&bed, &id, HOUR_MS, 2);
    advance_to(&bed, HOUR_MS - 1);
    assert_int_equal(bed.delivered_count, 0);
    advance_to(&bed, HOUR_MS);
    assert_int_equal(bed.delivered_count, 1);
    bed_deinit(&bed);
}

/* Goal: other commands see a touched timer as it is. Method: each of them after a touch. */
/* proves: touch-refused */
static void test_commands_after_a_touch(void **state)
{
    static const enum command_kind kinds[] = {COMMAND_PATCH, COMMAND_CANCEL, COMMAND_FIRE};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct timer_id id;
        struct bed bed;

        bed_init(&bed);
        create(&bed, "http://a.example/", HOUR_MS, &id);
        assert_int_equal(touch(&bed, &id, 3 * HOUR_MS), ERROR_NONE);
        assert_int_equal(ask(&bed, kinds[i], &id, 1, NULL), ERROR_VERSION_MISMATCH);
        assert_int_equal(ask(&bed, kinds[i], &id, 2, NULL), ERROR_NONE);
        assert_int_equal(bed.delivered_count, kinds[i] == COMMAND_FIRE);
        advance_to(&bed, 2 * HOUR_MS - 1); /* where the patch puts it */
        assert_int_equal(bed.delivered_count, kinds[i] == COMMAND_FIRE);
        advance_to(&bed, 3 * HOUR_MS);
        assert_int_equal(bed.delivered_count, kinds[i] != COMMAND_CANCEL);
        assert_int_equal(stats_of(&bed).moved_on, 0);
        bed_deinit(&bed);
    }
}

/* Goal: one that is overdue or was tried gets a new appointment. Method: a timer whose target has
 * no room, and one whose first attempt failed. */
static void test_what_is_due_is_put_off(void **state)
{
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "queue:q", 0, &id); /* it waits until somebody pulls it */
    advance_to(&bed, 1000);
    assert_int_equal(stats_of(&bed).waiting, 1);
    assert_int_equal(touch(&bed, &id, HOUR_MS), ERROR_NONE);
    assert_int_equal(stats_of(&bed).waiting, 0);
    assert_shown(&bed, &id, HOUR_MS, 2);
    advance_to(&bed, HOUR_MS);
    assert_int_equal(stats_of(&bed).waiting, 1);

    create(&bed, "http://a.example/", HOUR_MS, &id);
    advance_to(&bed, HOUR_MS);
    answer_all(&bed, DELIVERY_FAILED);
    assert_int_equal(touch(&bed, &id, 3 * HOUR_MS), ERROR_NONE);
    advance_to(&bed, 3 * HOUR_MS - 1);
    assert_int_equal(bed.delivered_count, 1);
    advance_to(&bed, 3 * HOUR_MS);
    assert_int_equal(bed.delivered_count, 2);
    assert_int_equal(first_out(&bed)->attempt, 1);
    assert_int_equal(stats_of(&bed).touched, 0);
    bed_deinit(&bed);
}

/* Goal: a touch that failed leaves the timer as it was; a move that failed is made again. Method:
 * one commit fails of each. */
/* proves: bulk-touch */
static void test_a_touch_may_fail(void **state)
{
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 5000, &id);
    memory_storage_fail_commit(bed.storage, 1, ERROR_DISK_FULL);
    assert_int_equal(touch(&bed, &id, HOUR_MS), ERROR_DISK_FULL);
    assert_shown(&bed, &id, 5000, 1);
    assert_int_equal(touch(&bed, &id, 6000), ERROR_NONE);
    memory_storage_fail_commit(bed.storage, 1, ERROR_IO);
    advance_to(&bed, 5000);
    advance_to(&bed, 5999);
    assert_int_equal(bed.delivered_count, 0);
    advance_to(&bed, 6000);
    assert_int_equal(bed.delivered_count, 1);
    bed_deinit(&bed);
}

/* Goal: the extended time holds while the touch is being written, and with the clock set back.
 * Method: time passes the old due time before the commit; then the clock goes back behind it. */
static void test_time_goes_on_meanwhile(void **state)
{
    struct storage_batch *batch;
    struct command command;
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 5000, &id);
    command = touch_command(&id, HOUR_MS, 0);
    turn_submit(bed.engine, bed.now, &command);
    batch = engine_take_batch(bed.engine);
    bed.now.ms += 5500;
    turn_advance(bed.engine, bed.now);
    assert_null(engine_take_delivery(bed.engine));
    batch->result = storage_commit(bed.storage, &batch, 1, NULL);
    turn_committed(bed.engine, bed.now, batch);
    carry_out(&bed);
    assert_int_equal(bed.delivered_count, 0);
    advance_to(&bed, 1000);
    advance_to(&bed, HOUR_MS - 1);
    assert_int_equal(bed.delivered_count, 0);
    advance_to(&bed, HOUR_MS);
    assert_int_equal(bed.delivered_count, 1);
    bed_deinit(&bed);
}

/* Goal: one that waits for room, and whose row stands before its extended time, is called back when
 * the clock is. Method: time beyond both; back between them; and on. */
static void test_the_clock_goes_back_between(void **state)
{
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "queue:q", 5000, &id);
    assert_int_equal(touch(&bed, &id, 8000), ERROR_NONE);
    advance_to(&bed, 9000);
    assert_int_equal(stats_of(&bed).waiting, 1);
    advance_to(&bed, 6000);
    assert_int_equal(stats_of(&bed).waiting, 0);
    advance_to(&bed, 7999);
    assert_int_equal(stats_of(&bed).waiting, 0);
    advance_to(&bed, 8000);
    assert_int_equal(stats_of(&bed).waiting, 1);
    bed_deinit(&bed);
}

/* Goal: random histories end as a list says that is too simple to be wrong. Method: touches,
 * patches, cancels, restarts and steps of time over a few timers; each delivery must be of a timer
 * that lives, due by now, and after each step nothing due may be missing. */
struct twin {
    struct timer_id id;
    uint64_t due_ms;
    bool is_over;
};

enum { TWINS = 12, STEPS = 3000 };

static void settle_twins(struct bed *bed, struct twin *twins)
{
    struct delivery *delivery;

    while ((delivery = first_out(bed))) {
        size_t i = 0;

        while (i < TWINS && !timer_id_equal(&twins[i].id, &delivery->timer->id))
            i++;
        assert_true(i < TWINS && !twins[i].is_over);
        assert_true(START.ms + twins[i].due_ms <= bed->now.ms);
        twins[i].is_over = true;
        answer(bed, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
    }
    for (size_t i = 0; i < TWINS; i++)
        assert_true(twins[i].is_over || START.ms + twins[i].due_ms > bed->now.ms);
}

static void change_twin(struct bed *bed, struct random *random, struct twin *twin)
{
    const uint64_t now_ms = bed->now.ms - START.ms;
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
    command_answer(bed, &command);
    assert_int_equal(command.error, expected);
    if (!expected) {
        twin->is_over = choice == 0;
        if (choice == 1 || due_ms > twin->due_ms)
            twin->due_ms = due_ms;
        assert_true(choice == 0 || command.timer->due.ms == START.ms + twin->due_ms);
    }
    carry_out(bed);
}

/* proves: touch */
static void test_random_histories(void **state)
{
    const char *given = getenv("TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    struct random random = random_seeded(seed);
    struct twin twins[TWINS];
    struct bed bed;

    (void)state;
    print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
    bed_init(&bed);
    for (size_t i = 0; i < TWINS; i++)
        twins[i].is_over = true;
    for (size_t step = 0; step < STEPS; step++) {
        struct twin *twin = &twins[random_below(&random, TWINS)];
        const uint64_t now_ms = bed.now.ms - START.ms;

        if (step < TWINS)
            twin = &twins[step];
        if (twin->is_over && (step < TWINS || random_below(&random, 4) == 0)) {
            twin->due_ms = now_ms + 1 + random_below(&random, 60000);
            twin->is_over = false;
            assert_int_equal(create(&bed, "http://a.example/", twin->due_ms, &twin->id),
                             ERROR_NONE);
        } else if (random_below(&random, 3) == 0) {
            advance_to(&bed, now_ms + random_below(&random, random_below(&random, 2) ? 10 : 9000));
        } else if (random_below(&random, 20) == 0) {
            restart(&bed);
        } else {
            change_twin(&bed, &random, twin);
        }
        settle_twins(&bed, twins);
    }
    advance_to(&bed, bed.now.ms - START.ms + 60001);
    settle_twins(&bed, twins);
    bed_deinit(&bed);
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
