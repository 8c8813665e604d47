/*
 * Goal: an engine that is watched tells of each durable change of a timer, once and with the timer
 * as it is then; one that is not watched tells nothing. Method: an engine over memory, driven by
 * hand through every way in which a timer changes.
 */
#include "engine/engine_testing.h"

#include <stdio.h>

/* The kinds told since the last call, as words. */
static const char *feed_event_told(struct engine_fixture *fixture, char ret_words[1024])
{
    struct list events;
    size_t size = 0;

    list_init(&events);
    assert_int_equal(engine_take_events(fixture->engine, &events), 0);
    ret_words[0] = '\0';
    for (struct list *link; (link = list_pop(&events));) {
        struct feed_event *event = list_item(link, struct feed_event, link);

        assert_true(event->at.ms <= fixture->now.ms && feed_event_bytes(event) > 0);
        assert_int_equal(event->timer->texts.payload.size, 0);
        size += (size_t)snprintf(ret_words + size, 1024 - size, "%s%s", size ? " " : "",
                                 feed_kind_text(event->kind));
        feed_event_destroy(event);
    }
    return ret_words;
}

static void feed_event_fixture(struct engine_fixture *fixture, const atomic_bool *is_watched)
{
    fixture_prepare(fixture);
    fixture->options.is_watched = is_watched;
    fixture->options.dead_retain_ms = HOUR_MS;
    fixture_open(fixture);
}

/* proves: events */
static void each_change_is_told(void **state)
{
    const struct delivery_outcome failed = {.result = DELIVERY_FAILED, .error = "HTTP 500"};
    const struct delivery_outcome ended = {.result = DELIVERY_ENDED, .error = "HTTP 410"};
    atomic_bool is_watched = true;
    struct engine_fixture fixture;
    struct timer_id id;
    char told[1024];

    (void)state;
    feed_event_fixture(&fixture, &is_watched);
    fixture_create(&fixture, "http://a.example/", HOUR_MS, &id);
    assert_string_equal(feed_event_told(&fixture, told), "created");
    fixture_ask(&fixture, COMMAND_PATCH, &id, 0, NULL);
    assert_string_equal(feed_event_told(&fixture, told), "changed");
    fixture_ask(&fixture, COMMAND_FIRE, &id, 0, NULL);
    assert_string_equal(feed_event_told(&fixture, told), "changed");
    fixture_advance_to(&fixture, 10);
    fixture_answer(&fixture, fixture_first_out(&fixture), failed);
    assert_string_equal(feed_event_told(&fixture, told), "retried");
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_string_equal(feed_event_told(&fixture, told), "fired");
    fixture_create(&fixture, "http://a.example/", 3 * HOUR_MS, &id);
    fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL);
    assert_string_equal(feed_event_told(&fixture, told), "created cancelled");
    fixture_create(&fixture, "http://a.example/", 0, &id);
    fixture_advance_to(&fixture, 2 * HOUR_MS + 1);
    fixture_answer(&fixture, fixture_first_out(&fixture), ended);
    assert_string_equal(feed_event_told(&fixture, told), "created dead");
    fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL);
    assert_string_equal(feed_event_told(&fixture, told), "redriven");
    fixture_advance_to(&fixture, 2 * HOUR_MS + 2);
    fixture_answer(&fixture, fixture_first_out(&fixture), ended);
    assert_string_equal(feed_event_told(&fixture, told), "dead");
    fixture_ask(&fixture, COMMAND_FORGET, &id, 0, NULL);
    assert_string_equal(feed_event_told(&fixture, told), "deleted");
    fixture_deinit(&fixture);
}

/* A timer that repeats: a firing given up is no death. Its report is a timer that is created. */
static void a_firing_given_up_is_told(void **state)
{
    const struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                      .schedule = BYTES("{\"every\":\"1s\"}"),
                                      .on_dead = BYTES("queue:failed")};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
    atomic_bool is_watched = true;
    struct engine_fixture fixture;
    char told[1024];

    (void)state;
    feed_event_fixture(&fixture, &is_watched);
    timer->due = wall_add(fixture.now, 1000);
    timer->retry.attempts_max = 1;
    fixture_command(&fixture, &command);
    fixture_carry_out(&fixture);
    fixture_advance_to(&fixture, 1000);
    fixture_answer_all(&fixture, DELIVERY_FAILED);
    assert_string_equal(feed_event_told(&fixture, told), "created failed created");
    fixture_advance_to(&fixture, 2000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_string_equal(feed_event_told(&fixture, told), "fired");
    fixture_deinit(&fixture);
}

/* Nothing is told of a write that failed, of a row that is put elsewhere, or to nobody. */
static void nothing_else_is_told(void **state)
{
    atomic_bool is_watched = false;
    struct engine_fixture fixture;
    struct timer_id id;
    char told[1024];

    (void)state;
    feed_event_fixture(&fixture, &is_watched);
    fixture_create(&fixture, "http://a.example/", HOUR_MS, &id);
    assert_string_equal(feed_event_told(&fixture, told), "");
    atomic_store(&is_watched, true);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_IO);
    assert_string_equal(feed_event_told(&fixture, told), "");
    fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL); /* goes with the engine */
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_change_is_told),
        cmocka_unit_test(a_firing_given_up_is_told),
        cmocka_unit_test(nothing_else_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
