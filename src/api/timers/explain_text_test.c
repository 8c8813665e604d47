/*
 * Goal: an explanation names what holds the timer back, and nothing that does not.
 * Method: views of a timer in each place and with each cause; the sentences are compared whole.
 */
#include "api/timers/explain_text.h"

#include "base/bytes.h"
#include "store/storage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NOW = 1800000000 };

struct explain_text_test {
    struct timer timer;
    struct explained explained;
    struct target_status target;
    struct target_pause pause;
};

/* A timer of a webhook that is due in a minute. */
static struct explain_text_test explain_text_test_timer(void)
{
    struct explain_text_test test = {
        .timer = {.state = TIMER_SCHEDULED,
                  .due = {NOW + 60000},
                  .at = {NOW + 60000},
                  .retry = {.attempts_max = 10}},
        .explained = {.place = PLACE_WHEEL, .now = {NOW}, .until = WALL_NEVER},
        .target = {.origin = bytes_of("https://shop.example"),
                   .scope = TARGET_PATH,
                   .path = bytes_of("https://shop.example/recheck")},
        .pause = {.name = bytes_of("https://shop.example"),
                  .note = bytes_of("deploy"),
                  .since = {NOW - 3000},
                  .until = WALL_NEVER},
    };

    test.timer.texts.target = bytes_of("https://shop.example/recheck?order=7");
    test.timer.target.origin_size = sizeof("https://shop.example") - 1;
    return test;
}

static void explain_text_test_is(struct explain_text_test *test, const struct target_pause *pause,
                                 const char *expected)
{
    const struct explain_view view = {.timer = &test->timer,
                                      .explained = &test->explained,
                                      .target = &test->target,
                                      .pause = pause};
    struct buffer text;

    buffer_init(&text);
    explain_say(&view, &text);
    buffer_append(&text, "", 1);
    assert_false(buffer_failed(&text));
    assert_string_equal(text.data, expected);
    buffer_deinit(&text);
}

static void a_timer_whose_time_has_not_come(void **state)
{
    struct explain_text_test test = explain_text_test_timer();

    (void)state;
    explain_text_test_is(&test, NULL, "It fires in 1m.");
    test.pause.until.ms = NOW - 1; /* is over */
    explain_text_test_is(&test, &test.pause, "It fires in 1m.");
    test.pause.until = WALL_NEVER;
    explain_text_test_is(&test, &test.pause,
                         "It is due in 1m. https://shop.example was paused 3s ago (\"deploy\"), "
                         "until it is resumed.");
    test.pause.until.ms = NOW + 3600000;
    test.pause.note = (struct bytes){0};
    explain_text_test_is(&test, &test.pause,
                         "It is due in 1m, and can be tried in 1h at the earliest. "
                         "https://shop.example was paused 3s ago, and resumes by itself in 1h.");
}

static void a_target_that_fails(void **state)
{
    struct explain_text_test test = explain_text_test_timer();

    (void)state;
    test.target.state = BREAKER_OPEN;
    test.target.failures = 27;
    test.target.wait_ms = 6860;
    memcpy(test.target.error, "HTTP 500", 8);
    test.target.error_size = 8;
    explain_text_test_is(&test, NULL,
                         "It is due in 1m. https://shop.example/recheck failed 27 times in a row, "
                         "the last time with \"HTTP 500\"; it is left alone for 7s more.");
    test.target.scope = TARGET_ORIGIN;
    test.target.state = BREAKER_HALF_OPEN;
    test.target.wait_ms = 0;
    test.timer.state = TIMER_RETRYING;
    test.timer.attempts = 2;
    explain_text_test_is(&test, NULL,
                         "Attempt 3 of 10 is due in 1m. https://shop.example failed 27 times in a "
                         "row, the last time with \"HTTP 500\"; one delivery tries it again.");
    test.target.state = BREAKER_CLOSED;
    test.timer.texts.last_error = bytes_of("connection refused");
    explain_text_test_is(&test, NULL,
                         "Attempt 3 of 10 is due in 1m. Attempt 2 failed: connection refused.");
    test.timer.attempts = 0; /* of the firing before */
    explain_text_test_is(&test, NULL,
                         "Attempt 1 of 10 is due in 1m. Its last error: connection refused.");
    test.timer.texts.last_error = bytes_of("waits: There is no calendar \"de\"");
    explain_text_test_is(&test, NULL,
                         "Attempt 1 of 10 is due in 1m. It waits: There is no calendar \"de\".");
    test.timer.attempts = 2;
    test.timer.at.ms = NOW - 85000;
    test.pause.until.ms = NOW + 3600000;
    explain_text_test_is(&test, &test.pause,
                         "Attempt 3 of 10 was due 1m25s ago, and can be tried in 1h at the "
                         "earliest. https://shop.example was paused 3s ago (\"deploy\"), and "
                         "resumes by itself in 1h.");
}

static void a_timer_that_waits(void **state)
{
    static const struct {
        enum wait_reason reason;
        const char *text;
    } cases[] = {
        {WAIT_ROOM, "As many webhooks are in flight as its share of deliveries_max allows."},
        {WAIT_TARGET_LIMIT,
         "5 deliveries to https://shop.example are in flight, as many as its limit allows."},
        {WAIT_BREAKER, "https://shop.example failed, and is left alone for a while."},
        {WAIT_RATE, "https://shop.example gets only so many a second: target_rate_max."},
        {WAIT_CATCH_UP,
         "Of overdue timers only so many a second are delivered: catch_up_rate_max."},
        {WAIT_WORKER, "No worker asks for items of https://shop.example."},
        {WAIT_PAUSED, "https://shop.example is paused."},
        {WAIT_MAINTENANCE, "The operator holds all deliveries back: maintenance."},
        {WAIT_STOPPING, "The service is stopping, and begins no delivery."},
        {WAIT_LEASES, "Its tenant holds 5 leases, of 8 for all tenants: queue_leases_max."},
        {WAIT_LEASE_MEMORY, "Leased items of its partition take as much memory as they may."},
        {WAIT_FLOW, "It waits for flow customer-42: 2 of 2 running, 90 may start in 1m30s."},
    };
    struct explain_text_test test = explain_text_test_timer();

    (void)state;
    assert_int_equal(sizeof(cases) / sizeof(cases[0]), WAIT_REASONS);
    test.timer.due.ms = test.timer.at.ms = NOW - 5000;
    test.explained.place = PLACE_QUEUED;
    test.explained.inflight = 5;
    test.explained.inflight_max = 8;
    test.explained.flow_running = 2;
    test.timer.texts.flow = BYTES("customer-42\n2 90 90000");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[200];

        test.explained.reason = cases[i].reason;
        snprintf(expected, sizeof(expected), "It has been due for 5s. %s", cases[i].text);
        explain_text_test_is(&test, NULL, expected);
    }
    /* Maintenance holds back what a pause would, too. */
    test.explained.reason = WAIT_MAINTENANCE;
    explain_text_test_is(&test, &test.pause,
                         "It has been due for 5s. The operator holds all deliveries back: "
                         "maintenance.");
}

static void what_made_it_late(void **state)
{
    struct explain_text_test test = explain_text_test_timer();

    (void)state;
    test.timer.due.ms = test.timer.at.ms = NOW - 5000;
    test.explained.place = PLACE_QUEUED;
    test.explained.reason = WAIT_WORKER;
    test.explained.lateness =
        (struct lateness){1, {[LATENESS_WORKER] = 4000, [LATENESS_WHEEL] = 2}};
    explain_text_test_is(
        &test, NULL, "It has been due for 5s. No worker asks for items of https://shop.example.");
    test.explained.lateness.ms[LATENESS_DOWN] = 4500;
    explain_text_test_is(&test, NULL,
                         "It has been due for 5s. No worker asks for items of "
                         "https://shop.example. Attempt 1 is 9s late; most of it, 5s, came from "
                         "the service not running.");
    test.explained.place = PLACE_DISK;
    test.explained.is_spilled = true;
    test.explained.lateness = (struct lateness){0};
    explain_text_test_is(&test, NULL,
                         "It has been due for 5s. It is on disk until there is room in memory: "
                         "near_bytes_max.");
}

static void a_timer_that_is_over(void **state)
{
    struct explain_text_test test = explain_text_test_timer();

    (void)state;
    test.explained.place = PLACE_FINAL;
    test.timer.ended.ms = NOW - 90000;
    test.timer.state = TIMER_FIRED;
    test.target.state = BREAKER_OPEN; /* no longer matters to this timer */
    explain_text_test_is(&test, &test.pause, "It fired 1m30s ago.");
    test.timer.state = TIMER_CANCELLED;
    explain_text_test_is(&test, NULL, "It was cancelled 1m30s ago.");
    test.timer.state = TIMER_DEAD;
    test.timer.attempts = 10;
    test.timer.texts.last_error = bytes_of("HTTP 410");
    explain_text_test_is(&test, NULL,
                         "It failed for good 1m30s ago, after 10 attempts: HTTP 410. It is not "
                         "tried again unless it is redriven.");
}

static void a_timer_that_is_paused(void **state)
{
    struct explain_text_test test = explain_text_test_timer();

    (void)state;
    test.explained.place = PLACE_DISK;
    test.timer.state = TIMER_PAUSED;
    test.timer.paused.ms = NOW - 2000;
    test.timer.at = STORAGE_PAUSED_AT;
    explain_text_test_is(&test, NULL, "It was paused 2s ago, until it is resumed.");
    test.timer.at.ms = NOW + 7000;
    test.timer.texts.note = bytes_of("wait");
    explain_text_test_is(&test, NULL,
                         "It was paused 2s ago (\"wait\"), and resumes by itself in 7s.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_whose_time_has_not_come),
        cmocka_unit_test(a_target_that_fails),
        cmocka_unit_test(a_timer_that_waits),
        cmocka_unit_test(what_made_it_late),
        cmocka_unit_test(a_timer_that_is_over),
        cmocka_unit_test(a_timer_that_is_paused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
