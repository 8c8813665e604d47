/*
 * Goal: a firing whose target fails is given up after retry.give_up_after, whether attempts are
 * made or a breaker holds it back, so live timers do not gather; the time for which somebody paused
 * it does not count. Method: one engine whose deliveries fail, or are postponed, on a clock that is
 * moved by hand.
 */
#include "engine/engine_testing.h"

#include <stdio.h>
#include <string.h>

#define GIVE_UP_MS UINT64_C(60000)
#define STEP_MS    UINT64_C(1000)

static const struct delivery_outcome FAILS = {.result = DELIVERY_FAILED, .error = "HTTP 500"};
static const struct delivery_outcome PATH_OPEN = {.result = DELIVERY_POSTPONED,
                                                  .holds = DELIVERY_HOLDS_TIMER,
                                                  .retry_after_ms = 5 * STEP_MS,
                                                  .error = "not tried: its path failed"};
static const struct delivery_outcome ORIGIN_OPEN = {.result = DELIVERY_POSTPONED,
                                                    .holds = DELIVERY_HOLDS_QUEUE,
                                                    .retry_after_ms = 5 * STEP_MS,
                                                    .error = "not tried: its target failed"};

static struct timer_id give_up_create(struct engine_fixture *fixture, uint64_t due_ms,
                                      uint64_t give_up_ms)
{
    struct timer *timer = fixture_timer("http://a.example/", due_ms);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    timer->retry = (struct retry_policy){100, STEP_MS, STEP_MS, STEP_MS, give_up_ms, false};
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return created.id;
}

/* Answers all deliveries that are out alike, a second at a time, up to `to_ms`. */
static void give_up_pass(struct engine_fixture *fixture, uint64_t to_ms,
                         const struct delivery_outcome *outcome)
{
    while (fixture->now.ms < START.ms + to_ms) {
        while (fixture_first_out(fixture))
            fixture_answer(fixture, fixture_first_out(fixture), *outcome);
        fixture_advance_to(fixture, fixture->now.ms - START.ms + STEP_MS);
    }
    while (fixture_first_out(fixture))
        fixture_answer(fixture, fixture_first_out(fixture), *outcome);
}

static enum timer_state give_up_state(struct engine_fixture *fixture, const struct timer_id *id,
                                      uint32_t *ret_attempts, char ret_error[200])
{
    struct command command = {.kind = COMMAND_GET, .id = *id};

    fixture_command(fixture, &command);
    assert_non_null(command.timer);
    const enum timer_state state = command.timer->state;
    *ret_attempts = command.timer->attempts;
    snprintf(ret_error, 200, "%.*s", (int)command.timer->texts.last_error.size,
             command.timer->texts.last_error.data);
    fixture_carry_out(fixture);
    return state;
}

static void assert_lives(struct engine_fixture *fixture, const struct timer_id *id)
{
    uint32_t attempts;
    char error[200];

    assert_int_equal(give_up_state(fixture, id, &attempts, error), TIMER_RETRYING);
    assert_null(strstr(error, "given up"));
}

/* Each kind of failure, and with none the timer stays; also where half of it was before a restart.
 */
/* proves: retry-give-up */
static void test_a_firing_is_given_up(void **state)
{
    static const struct {
        const struct delivery_outcome *outcome;
        bool has_attempts;
        const char *error;
    } cases[] = {
        {&FAILS, true, "given up after 1m (retry.give_up_after): HTTP 500"},
        {&PATH_OPEN, false, "given up after 1m (retry.give_up_after): not tried: its path failed"},
        {&ORIGIN_OPEN, false,
         "given up after 1m (retry.give_up_after): not tried: its target failed"},
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (int restarts = 0; restarts < 2; restarts++) {
            struct engine_fixture fixture;
            char error[200];
            uint32_t attempts;

            fixture_init(&fixture);
            const struct timer_id id = give_up_create(&fixture, STEP_MS, GIVE_UP_MS);
            const struct timer_id stays = give_up_create(&fixture, STEP_MS, 0);
            give_up_pass(&fixture, GIVE_UP_MS / 2, cases[i].outcome);
            if (restarts) {
                fixture_close(&fixture);
                fixture_open(&fixture);
            }
            give_up_pass(&fixture, GIVE_UP_MS, cases[i].outcome);
            assert_lives(&fixture, &id);
            give_up_pass(&fixture, GIVE_UP_MS + 15 * STEP_MS, cases[i].outcome);
            assert_int_equal(give_up_state(&fixture, &id, &attempts, error), TIMER_DEAD);
            assert_int_equal(attempts > 0, cases[i].has_attempts);
            assert_string_equal(error, cases[i].error);
            assert_lives(&fixture, &stays);
            fixture_deinit(&fixture);
        }
    }
}

/* One timer a second for an open breaker of its path, or of its origin: the number that lives rises
 * for as long as the field says, and then no more; with no such bound it rises on. */
/* proves: retry-give-up */
static void test_live_timers_are_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct delivery_outcome *outcome = i % 2 ? &ORIGIN_OPEN : &PATH_OPEN;
        struct engine_fixture fixture;
        struct engine_stats stats;
        uint64_t most = 0;

        fixture_init(&fixture);
        for (uint64_t ms = STEP_MS; ms <= 6 * GIVE_UP_MS; ms += STEP_MS) {
            give_up_create(&fixture, ms, i < 2 ? GIVE_UP_MS : 0);
            give_up_pass(&fixture, ms, outcome);
            engine_stats(fixture.engine, &stats);
            if (stats.pending > most)
                most = stats.pending;
        }
        if (i < 2)
            assert_in_range(most, GIVE_UP_MS / STEP_MS, 3 * GIVE_UP_MS / 2 / STEP_MS);
        else
            assert_int_equal(most, 6 * GIVE_UP_MS / STEP_MS);
        fixture_deinit(&fixture);
    }
}

/* The timer is paused and resumed; the daemon is in maintenance. Before, half of the time is over,
 * and afterwards it begins anew. */
/* proves: retry-give-up */
static void test_a_pause_is_no_failure(void **state)
{
    struct command pause = {.kind = COMMAND_PAUSE}, resume = {.kind = COMMAND_RESUME};

    (void)state;
    for (int is_maintenance = 0; is_maintenance < 2; is_maintenance++) {
        struct engine_fixture fixture;
        atomic_bool is_held;
        char error[200];
        uint32_t attempts;

        atomic_init(&is_held, false);
        fixture_prepare(&fixture);
        fixture.options.is_held = &is_held;
        fixture_open(&fixture);
        const struct timer_id id = give_up_create(&fixture, STEP_MS, GIVE_UP_MS);
        give_up_pass(&fixture, GIVE_UP_MS / 2, &FAILS);
        if (is_maintenance) {
            atomic_store(&is_held, true);
        } else {
            pause.id = resume.id = id;
            pause.patch = fixture_timer("http://a.example/", 0);
            pause.patch->at = STORAGE_PAUSED_AT;
            fixture_command(&fixture, &pause);
            fixture_carry_out(&fixture);
            assert_int_equal(pause.error, ERROR_NONE);
        }
        give_up_pass(&fixture, 9 * GIVE_UP_MS, &FAILS);
        if (is_maintenance) {
            atomic_store(&is_held, false);
        } else {
            fixture_command(&fixture, &resume);
            fixture_carry_out(&fixture);
        }
        give_up_pass(&fixture, 9 * GIVE_UP_MS + GIVE_UP_MS * 3 / 4, &FAILS);
        assert_lives(&fixture, &id);
        give_up_pass(&fixture, 10 * GIVE_UP_MS + 5 * STEP_MS, &FAILS);
        assert_int_equal(give_up_state(&fixture, &id, &attempts, error), TIMER_DEAD);
        fixture_deinit(&fixture);
    }
}

/* A worker that asks for an item again in an hour does not count against it. */
/* proves: retry-give-up */
static void test_what_a_worker_asks_for_is_no_failure(void **state)
{
    const struct delivery_outcome later = {.result = DELIVERY_FAILED,
                                           .pause = DELIVERY_PAUSE_EXACT,
                                           .retry_after_ms = HOUR_MS,
                                           .error = "later"};
    struct engine_fixture fixture;
    uint32_t attempts;
    char error[200];

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = give_up_create(&fixture, STEP_MS, GIVE_UP_MS);
    for (uint64_t i = 0; i < 9; i++) {
        fixture_advance_to(&fixture, STEP_MS + i * HOUR_MS);
        while (fixture_first_out(&fixture))
            fixture_answer(&fixture, fixture_first_out(&fixture), later);
    }
    assert_int_equal(give_up_state(&fixture, &id, &attempts, error), TIMER_RETRYING);
    assert_int_equal(attempts, 9);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_firing_is_given_up),
        cmocka_unit_test(test_live_timers_are_bounded),
        cmocka_unit_test(test_a_pause_is_no_failure),
        cmocka_unit_test(test_what_a_worker_asks_for_is_no_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
