/*
 * Goal: the next attempt is at the latest of the times that hold the timer back, with its name.
 * Method: a table of views, each with one more thing that holds back.
 */
#include "api/timers/next.h"

#include "store/storage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NOW = 1000, NEVER = -1 };

/* Fails unless the view has this time, or NEVER, and this cause. */
static void next_test_is(const struct next_view *view, int at, const char *held_by)
{
    struct next next;

    assert_int_equal(next_attempt(view, &next), at != NEVER);
    if (at != NEVER)
        assert_int_equal(next.at.ms, at);
    if (held_by)
        assert_string_equal(next.held_by, held_by);
    else
        assert_null(next.held_by);
}

static void the_latest_cause_counts(void **state)
{
    struct timer timer = {.state = TIMER_SCHEDULED, .due = {2000}, .at = {2000}};
    struct target_status target = {.state = BREAKER_OPEN, .wait_ms = 1500};
    struct target_pause pause = {.until = {3000}};
    struct next_view view = {.timer = &timer, .now = {NOW}};

    (void)state;
    next_test_is(&view, 2000, NULL);
    view.waits_until.ms = 2100;
    next_test_is(&view, 2100, NULL);
    view.target = &target;
    next_test_is(&view, 2500, "breaker");
    view.pause = &pause;
    next_test_is(&view, 3000, "target_pause");
    target.wait_ms = 2500;
    next_test_is(&view, 3500, "breaker");
    target.state = BREAKER_CLOSED;
    pause.until.ms = NOW; /* is over */
    next_test_is(&view, 2100, NULL);
    pause.until = WALL_NEVER;
    next_test_is(&view, NEVER, "target_pause");
    view.is_maintained = true;
    next_test_is(&view, NEVER, "maintenance");
}

static void a_cause_that_ends_before_the_timer_is_due_holds_nothing_back(void **state)
{
    const struct timer timer = {.state = TIMER_SCHEDULED, .due = {5000}, .at = {2000}};
    const struct target_status target = {.state = BREAKER_OPEN, .wait_ms = 1500};
    const struct target_pause pause = {.until = {3000}};
    const struct next_view view = {
        .timer = &timer, .now = {NOW}, .target = &target, .pause = &pause};

    (void)state;
    next_test_is(&view, 5000, NULL); /* extended: its row is still at its old time */
}

static void a_paused_timer_has_a_time_if_its_pause_has_an_end(void **state)
{
    struct timer timer = {.state = TIMER_PAUSED, .due = {2000}, .at = STORAGE_PAUSED_AT};
    const struct next_view view = {.timer = &timer, .now = {NOW}};

    (void)state;
    next_test_is(&view, NEVER, "pause");
    timer.at.ms = 4000;
    next_test_is(&view, 4000, "pause");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_cause_counts),
        cmocka_unit_test(a_cause_that_ends_before_the_timer_is_due_holds_nothing_back),
        cmocka_unit_test(a_paused_timer_has_a_time_if_its_pause_has_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
