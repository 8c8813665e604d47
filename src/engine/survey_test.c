/*
 * Goal: a survey counts each due timer once, where it waits or is in flight, and only those of the
 * tenant that asks, also where tenants share a connection. Method: one engine by hand with limits
 * of one delivery, and an outage after which timers are overdue.
 */
#include "engine/engine_testing.h"

#include <stdio.h>

static void survey_make(struct engine_fixture *fixture, const char *tenant, const char *target,
                        size_t count)
{
    while (count-- > 0) {
        struct timer_texts texts = {.target = bytes_of(target), .tenant = bytes_of(tenant)};
        struct timer *timer = timer_alloc(&texts);
        struct command_created created;
        struct command command = {
            .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

        assert_non_null(timer);
        timer->due = (struct wall){START.ms + 1000};
        fixture_command(fixture, &command);
        assert_int_equal(created.error, ERROR_NONE);
        fixture_carry_out(fixture);
    }
}

/* What the tenant is told of this name, of the kind: ready and in flight. */
static void survey_expect(struct engine_fixture *fixture, enum survey_kind kind, const char *tenant,
                          const char *name, uint64_t ready, uint64_t taken)
{
    struct survey survey = {.kind = kind};
    struct command command = {
        .kind = COMMAND_SURVEY, .tenant = bytes_of(tenant), .survey = &survey};
    uint64_t found_ready = 0, found_taken = 0;

    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    for (size_t i = 0; i < survey.row_count; i++) {
        if (!bytes_equal(survey_name(&survey, &survey.rows[i]), bytes_of(name)))
            continue;
        found_ready += survey.rows[i].ready;
        found_taken += survey.rows[i].taken;
        assert_true((survey.rows[i].oldest.ms == START.ms + 1000) == (survey.rows[i].ready > 0));
    }
    survey_deinit(&survey);
    assert_int_equal(found_ready, ready);
    assert_int_equal(found_taken, taken);
}

/* What the operator is told of the timers that wait for this reason and target. */
static void survey_expect_held(struct engine_fixture *fixture, enum wait_reason reason,
                               const char *tenant, const char *target, uint64_t ready)
{
    const struct survey_held held = {reason, bytes_of(tenant), bytes_of(target)};
    struct survey_held again;
    struct buffer name;

    buffer_init(&name);
    survey_put_held(&held, &name);
    assert_true(survey_get_held(buffer_bytes(&name), &again));
    assert_true(again.reason == reason && bytes_equal(again.tenant, held.tenant) &&
                bytes_equal(again.target, held.target));
    name.data[1] = (char)0xff; /* a tenant that exceeds the name */
    assert_false(survey_get_held(buffer_bytes(&name), &again));
    buffer_deinit(&name);
    struct survey survey = {.kind = SURVEY_HELD};
    struct command command = {.kind = COMMAND_SURVEY, .survey = &survey};
    uint64_t found = 0;
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    for (size_t i = 0; i < survey.row_count; i++)
        if (survey_get_held(survey_name(&survey, &survey.rows[i]), &again) &&
            again.reason == reason && bytes_equal(again.tenant, bytes_of(tenant)) &&
            bytes_equal(again.target, bytes_of(target)))
            found += survey.rows[i].ready;
    survey_deinit(&survey);
    assert_int_equal(found, ready);
}

/* proves: targets-list, queues-list, tenant-isolation */
static void test_each_timer_is_counted_once(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.target_inflight_max = 1;
    fixture.options.broker_inflight_max = 1;
    fixture_open(&fixture);
    survey_make(&fixture, "shop", "https://a.example/x", 3);
    survey_make(&fixture, "rival", "https://a.example/x", 2);
    survey_make(&fixture, "shop", "redis://main/stream", 3);
    survey_make(&fixture, "rival", "redis://main/stream", 2);
    survey_make(&fixture, "shop", "queue:jobs?priority=1", 2);
    survey_make(&fixture, "shop", "queue:jobs?priority=9", 1);
    survey_expect(&fixture, SURVEY_TARGETS, "shop", "https://a.example", 0, 0);
    fixture_advance_to(&fixture, 1000);
    survey_expect(&fixture, SURVEY_TARGETS, "shop", "https://a.example", 2, 1);
    survey_expect(&fixture, SURVEY_TARGETS, "rival", "https://a.example", 1, 1);
    survey_expect(&fixture, SURVEY_TARGETS, "shop", "redis://main", 2, 1);
    survey_expect(&fixture, SURVEY_TARGETS, "rival", "redis://main", 2, 0);
    survey_expect(&fixture, SURVEY_TARGETS, "", "https://a.example", 0, 0);
    survey_expect(&fixture, SURVEY_QUEUES, "shop", "shop/jobs", 3, 0);
    survey_expect(&fixture, SURVEY_QUEUES, "rival", "shop/jobs", 0, 0);
    survey_expect(&fixture, SURVEY_QUEUES, "", "shop/jobs", 0, 0);
    survey_expect_held(&fixture, WAIT_TARGET_LIMIT, "shop", "https://a.example/x", 2);
    survey_expect_held(&fixture, WAIT_TARGET_LIMIT, "rival", "https://a.example/x", 1);
    survey_expect_held(&fixture, WAIT_WORKER, "shop", "queue:jobs", 3);
    survey_expect_held(&fixture, WAIT_WORKER, "rival", "queue:jobs", 0);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    survey_expect(&fixture, SURVEY_TARGETS, "shop", "https://a.example", 0, 0);
    survey_expect(&fixture, SURVEY_TARGETS, "rival", "redis://main", 0, 0);
    survey_expect(&fixture, SURVEY_QUEUES, "shop", "shop/jobs", 3, 0);
    fixture_deinit(&fixture);
}

/* One that comes back after an attempt joins behind later ones, and is the oldest. */
/* proves: targets-list */
static void test_the_oldest_may_be_behind_others(void **state)
{
    struct engine_fixture fixture;
    struct survey survey = {.kind = SURVEY_TARGETS};
    struct command command = {.kind = COMMAND_SURVEY, .survey = &survey};

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.target_inflight_max = 1;
    fixture_open(&fixture);
    for (uint64_t i = 1; i <= 3; i++)
        fixture_create(&fixture, "https://a.example/x", 1000 * i, NULL);
    fixture_advance_to(&fixture, 3000);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_FAILED});
    fixture_advance_to(&fixture, HOUR_MS);
    fixture_command(&fixture, &command);
    assert_int_equal(survey.row_count, 1);
    assert_int_equal(survey.rows[0].ready, 2);
    assert_int_equal(survey.rows[0].taken, 1);
    assert_int_equal(survey.rows[0].oldest.ms, START.ms + 1000);
    survey_deinit(&survey);
    fixture_deinit(&fixture);
}

/* After an outage timers wait for their rate, before they come to the queue of their target. */
/* proves: targets-list */
static void test_the_overdue_are_counted_at_their_target(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.catch_up_rate = 1000; /* one a second */
    fixture_open(&fixture);
    survey_make(&fixture, "shop", "https://a.example/x", 5);
    survey_make(&fixture, "shop", "https://b.example/x", 5);
    fixture_close(&fixture);
    fixture.now = (struct wall){START.ms + HOUR_MS};
    fixture_open(&fixture);
    fixture_advance_to(&fixture, HOUR_MS);
    const uint64_t sent = fixture.delivered_count;
    assert_in_range(sent, 1, 9);
    uint64_t of_a = 0;
    LIST_FOR_EACH (&fixture.out, link)
        of_a +=
            bytes_equal(list_item(link, struct delivery, link)->timer->texts.tenant, BYTES("shop"));
    survey_expect(&fixture, SURVEY_TARGETS, "shop", "https://a.example", 5 - of_a, of_a);
    survey_expect(&fixture, SURVEY_TARGETS, "shop", "https://b.example", 5 - (sent - of_a),
                  sent - of_a);
    survey_expect(&fixture, SURVEY_TARGETS, "rival", "https://b.example", 0, 0);
    survey_expect_held(&fixture, WAIT_CATCH_UP, "", "", 10 - sent);
    fixture_deinit(&fixture);
}

/* Of the failures of several nodes each target keeps the worst, and 1,000 hosts are told of. */
static void test_failures_are_sorted_and_bounded(void **state)
{
    struct survey survey = {.kind = SURVEY_FAILURES};

    (void)state;
    for (unsigned i = SURVEY_ROWS_MAX; i-- > 0;) {
        char origin[16];
        const struct bytes name = {origin, (size_t)snprintf(origin, sizeof(origin), "%04u", i)};

        for (unsigned j = 1; j <= 3; j++)
            survey_add_failure(&survey, &(struct survey_failure){.failures = j % 3}, name,
                               (struct bytes){0}, BYTES("error"));
        survey_add_failure(&survey, &(struct survey_failure){0}, name, BYTES("path"), BYTES(""));
    }
    survey_sort_failures(&survey);
    assert_int_equal(survey.failure_count, 2 * SURVEY_ROWS_MAX);
    assert_false(survey.is_cut);
    survey_add_failure(&survey, &(struct survey_failure){0}, BYTES("0000 more"), BYTES(""),
                       BYTES(""));
    survey_sort_failures(&survey);
    assert_int_equal(survey.failure_count, 2 * SURVEY_ROWS_MAX - 1);
    assert_true(survey.is_cut);
    for (size_t i = 0; i < survey.failure_count; i++) {
        const struct survey_failure *failure = &survey.failures[i];

        assert_true(i == 0 || bytes_compare(survey_origin(&survey, failure - 1),
                                            survey_origin(&survey, failure)) <= 0);
        assert_true(failure->failures == (survey_error(&survey, failure).size ? 2 : 0));
    }
    survey_deinit(&survey);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_timer_is_counted_once),
        cmocka_unit_test(test_the_oldest_may_be_behind_others),
        cmocka_unit_test(test_the_overdue_are_counted_at_their_target),
        cmocka_unit_test(test_failures_are_sorted_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
