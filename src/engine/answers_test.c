/*
 * Goal: an attempt that is answered later ends once, when and as it is said, and a restart neither
 * repeats nor forgets it. Method: an engine over storage in memory, driven by hand.
 */
#include "engine/engine_testing.h"
#include "timer/awaits.h"

#include <stdio.h>

#define URL   "http://receiver.example/"
#define TOKEN "00000000000000000000000000000001"

static const char token_forged[] = "0123456789abcdef0123456789abcdef";

/* Answers the delivery that waits first with 202 and this token. */
static struct timer_id answers_test_accept(struct engine_fixture *fixture, const char *token)
{
    struct delivery *delivery = fixture_first_out(fixture);

    assert_non_null(delivery);
    const struct timer_id id = delivery->timer->id;
    snprintf(delivery->ack_token, sizeof(delivery->ack_token), "%s", token);
    delivery->started_us = 1000 * fixture->now.ms;
    fixture_answer(fixture, delivery, (struct delivery_outcome){.result = DELIVERY_AWAITED});
    return id;
}

static struct command answers_test_command(const struct timer_id *id, enum command_answer_verb verb,
                                           const char *token)
{
    return (struct command){.kind = COMMAND_ANSWER,
                            .id = *id,
                            .answer = {.verb = verb,
                                       .token = bytes_of(token),
                                       .reason = BYTES("no such order"),
                                       .by_ms = HOUR_MS}};
}

static enum error_code answers_test_say(struct engine_fixture *fixture, const struct timer_id *id,
                                        enum command_answer_verb verb, const char *token)
{
    struct command command = answers_test_command(id, verb, token);

    fixture_command(fixture, &command);
    fixture_carry_out(fixture);
    for (struct delivery *told; (told = engine_take_answered(fixture->engine));)
        engine_free_answered(told);
    return command.error;
}

static enum timer_state answers_test_state(struct engine_fixture *fixture,
                                           const struct timer_id *id)
{
    struct timer *timer;

    assert_int_equal(storage_find(fixture->storage, id, &timer, NULL), ERROR_NONE);
    const enum timer_state state = timer->state;
    timer_free(timer);
    return state;
}

/* Replaces the engine as after kill -9. */
static void answers_test_restart(struct engine_fixture *fixture)
{
    fixture_close(fixture);
    fixture_open(fixture);
}

/* proves: answer-durable, answer-once, answer-time */
static void test_a_restart_waits_on(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_init(&fixture);
    fixture.options.ack_timeout_ms = 2 * HOUR_MS;
    answers_test_restart(&fixture);
    assert_int_equal(fixture_create(&fixture, URL, 1, &id), ERROR_NONE);
    fixture_advance_to(&fixture, 1);
    answers_test_accept(&fixture, TOKEN);
    assert_int_equal(answers_test_state(&fixture, &id), TIMER_DELIVERING);
    const size_t count = fixture.delivered_count;
    answers_test_restart(&fixture);
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, count);
    assert_int_equal(answers_test_say(&fixture, &id, ANSWER_ACK, token_forged), ERROR_GONE);
    assert_int_equal(answers_test_say(&fixture, &id, ANSWER_EXTEND, TOKEN), ERROR_NONE);
    fixture_advance_to(&fixture, 3 * HOUR_MS - 1);
    assert_int_equal(answers_test_state(&fixture, &id), TIMER_DELIVERING);
    fixture_advance_to(&fixture, 3 * HOUR_MS);
    assert_int_not_equal(answers_test_state(&fixture, &id), TIMER_DELIVERING);
    assert_int_equal(answers_test_say(&fixture, &id, ANSWER_ACK, TOKEN), ERROR_GONE);
    fixture_deinit(&fixture);
}

/* A receiver that asks for an hour more at each half hour. */
/* proves: answer-extend */
static void test_a_wait_ends(void **state)
{
    const uint64_t last = 1 + ACK_TIMEOUT_MS_MAX;
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(fixture_create(&fixture, URL, 1, &id), ERROR_NONE);
    fixture_advance_to(&fixture, 1);
    answers_test_accept(&fixture, TOKEN);
    for (uint64_t at = 1 + HOUR_MS / 2; at < last; at += HOUR_MS / 2) {
        fixture_advance_to(&fixture, at);
        assert_int_equal(answers_test_say(&fixture, &id, ANSWER_EXTEND, TOKEN), ERROR_NONE);
    }
    fixture_advance_to(&fixture, last - 1);
    assert_int_equal(answers_test_state(&fixture, &id), TIMER_DELIVERING);
    fixture_advance_to(&fixture, last);
    assert_int_not_equal(answers_test_state(&fixture, &id), TIMER_DELIVERING);
    assert_int_equal(answers_test_say(&fixture, &id, ANSWER_EXTEND, TOKEN), ERROR_GONE);
    fixture_deinit(&fixture);
}

/* An answer comes when the end is on disk, not before. */
/* proves: answer-ack */
static void test_a_later_ack_waits_for_the_disk(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(fixture_create(&fixture, URL, 1, &id), ERROR_NONE);
    fixture_advance_to(&fixture, 1);
    answers_test_accept(&fixture, TOKEN);
    struct command command = answers_test_command(&id, ANSWER_ACK, TOKEN);
    turn_submit(fixture.engine, fixture.now, &command);
    struct engine_read *read =
        engine_take_read(fixture.engine); /* the timer may have left memory */
    if (read) {
        engine_read_perform(read, fixture.storage);
        turn_read_done(fixture.engine, fixture.now, read);
    }
    assert_null(engine_take_reply(fixture.engine));
    assert_int_equal(answers_test_state(&fixture, &id), TIMER_DELIVERING);
    fixture_carry_out(&fixture);
    assert_int_equal(command.error, ERROR_NONE);
    assert_int_equal(answers_test_state(&fixture, &id), TIMER_FIRED);
    assert_int_equal(answers_test_say(&fixture, &id, ANSWER_ACK, TOKEN), ERROR_GONE);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_restart_waits_on),
        cmocka_unit_test(test_a_wait_ends),
        cmocka_unit_test(test_a_later_ack_waits_for_the_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
