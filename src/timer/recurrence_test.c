/*
 * Goal: what is planned depends on nothing but the recurrence, and what was missed is found in a
 * step, whatever was missed.
 * Method: tables; and a plain list of all planned instants as the oracle, for recurrences and
 * moments by chance.
 */
#include "timer/recurrence.h"

#include "base/random.h"
#include "calendar/rfc3339.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000)
#define HOUR   (3600 * SECOND)
#define DAY    (24 * HOUR)

static const struct recurrence_late each_late = {RECURRENCE_MISSED_EACH, UINT64_MAX};
static const struct recurrence_late last_late = {RECURRENCE_MISSED_LAST, UINT64_MAX};

static struct recurrence every(uint64_t first_ms, uint64_t period_ms)
{
    return (struct recurrence){.kind = RECURRENCE_EVERY,
                               .until = WALL_NEVER,
                               .every = {.first = {first_ms}, .period_ms = period_ms}};
}

static struct recurrence cron(const char *text)
{
    struct recurrence recurrence = {.kind = RECURRENCE_CRON, .until = WALL_NEVER};

    if (cron_parse(bytes_of(text), &recurrence.cron.cron, NULL))
        fail_msg("%s", text);
    recurrence.zone = zone_utc();
    return recurrence;
}

static uint64_t recurrence_test_next(const struct recurrence *recurrence, uint64_t after_ms)
{
    return recurrence_next(recurrence, (struct wall){after_ms}).ms;
}

static uint64_t last(const struct recurrence *recurrence, uint64_t at_ms)
{
    return recurrence_last(recurrence, (struct wall){at_ms}).ms;
}

/* proves: every */
static void every_is_a_fixed_rate(void **state)
{
    struct recurrence recurrence = every(1000, 250);

    (void)state;
    assert_int_equal(recurrence_test_next(&recurrence, 0), 1000);
    assert_int_equal(recurrence_test_next(&recurrence, 999), 1000);
    assert_int_equal(recurrence_test_next(&recurrence, 1000), 1250);
    assert_int_equal(recurrence_test_next(&recurrence, 1249), 1250);
    assert_int_equal(recurrence_test_next(&recurrence, 1000000001), 1000000250);
    assert_int_equal(last(&recurrence, 999), WALL_NEVER.ms);
    assert_int_equal(last(&recurrence, 1000), 1000);
    assert_int_equal(last(&recurrence, 1249), 1000);
    assert_int_equal(last(&recurrence, 1250), 1250);
}

/* proves: count, until */
static void count_and_until_end_it(void **state)
{
    struct recurrence recurrence = every(1000, 250);

    (void)state;
    recurrence.every.count = 3;
    assert_int_equal(recurrence_test_next(&recurrence, 1250), 1500);
    assert_int_equal(recurrence_test_next(&recurrence, 1500), WALL_NEVER.ms);
    assert_int_equal(last(&recurrence, 999999), 1500);
    recurrence.until.ms = 1499;
    assert_int_equal(recurrence_test_next(&recurrence, 1250), WALL_NEVER.ms);
    assert_int_equal(last(&recurrence, 999999), 1250);
    recurrence.until.ms = 1500; /* itself included */
    assert_int_equal(recurrence_test_next(&recurrence, 1250), 1500);
    recurrence.until.ms = 999;
    assert_int_equal(recurrence_test_next(&recurrence, 0), WALL_NEVER.ms);
    assert_int_equal(last(&recurrence, 5000), WALL_NEVER.ms);
    recurrence = cron("0 * * * *");
    recurrence.until.ms = 2 * HOUR;
    assert_int_equal(recurrence_test_next(&recurrence, HOUR), 2 * HOUR);
    assert_int_equal(recurrence_test_next(&recurrence, 2 * HOUR), WALL_NEVER.ms);
    assert_int_equal(last(&recurrence, 5 * HOUR), 2 * HOUR);
}

static void nothing_overflows(void **state)
{
    struct recurrence recurrence = every(0, UINT64_MAX);

    (void)state;
    assert_int_equal(recurrence_test_next(&recurrence, 0), WALL_NEVER.ms);
    assert_int_equal(last(&recurrence, UINT64_MAX), 0);
    recurrence = every(WALL_MS_MAX - 1, 1);
    assert_int_equal(recurrence_test_next(&recurrence, 0), WALL_MS_MAX - 1);
    assert_int_equal(recurrence_test_next(&recurrence, WALL_MS_MAX - 1), WALL_MS_MAX);
    assert_int_equal(recurrence_test_next(&recurrence, WALL_MS_MAX), WALL_NEVER.ms);
    assert_int_equal(recurrence_test_next(&recurrence, UINT64_MAX), WALL_NEVER.ms);
    recurrence = every(WALL_MS_MAX + 1, 1);
    assert_int_equal(recurrence_test_next(&recurrence, 0), WALL_NEVER.ms);
    recurrence = every(0, 1);
    recurrence.every.count = UINT64_MAX;
    assert_int_equal(recurrence_test_next(&recurrence, UINT64_MAX - 1), WALL_NEVER.ms);
    assert_int_equal(last(&recurrence, UINT64_MAX - 1), WALL_MS_MAX);
}

/* HertzBeat #4328 (a restart aligns every periodic job), Sidekiq #3012 (everything fires at :00):
 * what comes next is asked for by all at one moment, as after a start, and each keeps its phase. */
static void lesson_a_restart_does_not_align_periodic_jobs(void **state)
{
    enum { JOBS = 1000 };
    static unsigned due_at[60 * 1000];
    struct random random = random_seeded(1);
    struct wall restart = {UINT64_C(1795219199250)};

    (void)state;
    memset(due_at, 0, sizeof(due_at));
    unsigned most = 0;
    for (int i = 0; i < JOBS; i++) {
        uint64_t created = UINT64_C(1700000000000) + random_below(&random, DAY);
        struct recurrence recurrence = every(created, 60 * SECOND);
        uint64_t planned = recurrence_resume(&recurrence, &last_late, restart, restart).ms;

        assert_true(planned > restart.ms && planned <= restart.ms + 60 * SECOND);
        assert_int_equal((planned - created) % (60 * SECOND), 0);
        if (++due_at[planned % (60 * SECOND)] > most)
            most = due_at[planned % (60 * SECOND)];
    }
    assert_true(most < 5);
}

/* A delivery that is late, or tried again for a while, does not move the next ones. */
/* proves: every */
static void lesson_lateness_does_not_add_up(void **state)
{
    struct recurrence recurrence = every(1000, 10 * SECOND);
    struct wall planned = {1000};

    (void)state;
    for (uint64_t i = 1; i < 1000; i++) {
        struct wall done = wall_add(planned, 700 + i % 9000);

        planned = recurrence_resume(&recurrence, &each_late, planned, done);
        assert_int_equal(planned.ms, 1000 + i * 10 * SECOND);
    }
}

/* An outage of ten years, every second of it planned. */
/* proves: missed */
static void what_was_missed_is_passed_over_in_one_step(void **state)
{
    const uint64_t start = UINT64_C(1795219200000), outage = 3650 * DAY;
    struct recurrence kinds[] = {every(start, SECOND), cron("* * * * * *")};
    struct recurrence_late dropping = {RECURRENCE_MISSED_EACH, 5 * 60 * SECOND};
    struct wall previous = {start}, now = {start + outage + 300};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct recurrence *it = &kinds[i];

        assert_int_equal(recurrence_resume(it, &each_late, previous, now).ms, start + SECOND);
        assert_int_equal(recurrence_resume(it, &last_late, previous, now).ms, start + outage);
        assert_int_equal(recurrence_resume(it, &last_late, (struct wall){start + outage}, now).ms,
                         start + outage + SECOND);
        /* the first that is at most five minutes late, then each */
        assert_int_equal(recurrence_resume(it, &dropping, previous, now).ms,
                         start + outage - 299 * SECOND);
        assert_int_equal(
            recurrence_resume(it, &dropping, (struct wall){start + outage - 299 * SECOND}, now).ms,
            start + outage - 298 * SECOND);
    }
}

/* proves: drop-after */
static void exactly_as_late_as_allowed_is_not_too_late(void **state)
{
    struct recurrence recurrence = every(1000, 1000);
    struct recurrence_late late = {RECURRENCE_MISSED_EACH, 500};

    (void)state;
    assert_int_equal(
        recurrence_resume(&recurrence, &late, (struct wall){2000}, (struct wall){3500}).ms, 3000);
    assert_int_equal(
        recurrence_resume(&recurrence, &late, (struct wall){2000}, (struct wall){3501}).ms, 4000);
    late.missed = RECURRENCE_MISSED_LAST;
    assert_int_equal(
        recurrence_resume(&recurrence, &late, (struct wall){1000}, (struct wall){3500}).ms, 3000);
    assert_int_equal(
        recurrence_resume(&recurrence, &late, (struct wall){1000}, (struct wall){3501}).ms, 4000);
    late.drop_after_ms = 0; /* never late at all */
    assert_int_equal(
        recurrence_resume(&recurrence, &late, (struct wall){1000}, (struct wall){3000}).ms, 3000);
    assert_int_equal(
        recurrence_resume(&recurrence, &late, (struct wall){1000}, (struct wall){3001}).ms, 4000);
    recurrence.every.count = 2; /* the last was missed, and is too late: over */
    assert_int_equal(
        recurrence_resume(&recurrence, &late, (struct wall){1000}, (struct wall){3001}).ms,
        WALL_NEVER.ms);
}

/* Quartz.NET #3148: after the clock was set back, the same comes next as before; nothing stops and
 * nothing comes twice. */
/* proves: clock-step */
static void lesson_a_clock_set_back_neither_stops_nor_repeats(void **state)
{
    struct recurrence recurrence = every(0, HOUR);
    struct wall previous = {100 * HOUR}, back = {50 * HOUR};

    (void)state;
    assert_int_equal(recurrence_resume(&recurrence, &last_late, previous, back).ms, 101 * HOUR);
    assert_int_equal(recurrence_resume(&recurrence, &each_late, previous, back).ms, 101 * HOUR);
}

/* ---- by chance ---- */

enum { PLANNED_MAX = 3000 };

/* All planned instants of the first days after `start`, one by one. */
static size_t list_all(const struct recurrence *recurrence, uint64_t start, uint64_t end,
                       uint64_t ret[PLANNED_MAX])
{
    size_t count = 0;

    if (recurrence->kind == RECURRENCE_EVERY) {
        uint64_t at = recurrence->every.first.ms, number = 0;

        for (; at <= end && at <= recurrence->until.ms; at += recurrence->every.period_ms) {
            if (recurrence->every.count && number++ == recurrence->every.count)
                break;
            ret[count++] = at;
        }
        return count;
    }
    for (uint64_t at = start; at <= end && at <= recurrence->until.ms; at += 60 * SECOND)
        if (at / (60 * SECOND) % 60 % 7 == 0) /* of the expression below, in UTC */
            ret[count++] = at;
    return count;
}

static void recurrence_test_check_moment(const struct recurrence *recurrence,
                                         const uint64_t *planned, size_t count, uint64_t a)
{
    uint64_t after = WALL_NEVER.ms, before = WALL_NEVER.ms;

    for (size_t i = count; i-- > 0 && planned[i] > a;)
        after = planned[i];
    for (size_t i = 0; i < count && planned[i] <= a; i++)
        before = planned[i];
    assert_int_equal(recurrence_test_next(recurrence, a), after);
    assert_int_equal(last(recurrence, a), before);
}

static void check_resume(const struct recurrence *recurrence, const uint64_t *planned, size_t count,
                         uint64_t previous, uint64_t now, uint64_t drop_after)
{
    for (int missed = 0; missed < 2; missed++) {
        struct recurrence_late late = {(enum recurrence_missed)missed, drop_after};
        uint64_t expected = WALL_NEVER.ms;

        for (size_t i = 0; i < count; i++) {
            bool is_dropped = planned[i] < now && now - planned[i] > drop_after;
            bool is_replaced =
                late.missed == RECURRENCE_MISSED_LAST && i + 1 < count && planned[i + 1] <= now;

            if (planned[i] <= previous || is_dropped || is_replaced)
                continue;
            expected = planned[i];
            break;
        }
        assert_int_equal(
            recurrence_resume(recurrence, &late, (struct wall){previous}, (struct wall){now}).ms,
            expected);
    }
}

static void agrees_with_a_plain_list(void **state)
{
    static uint64_t planned[PLANNED_MAX];
    struct random random = random_seeded(testing_seed());

    (void)state;
    for (int run = 0; run < 400; run++) {
        uint64_t start = UINT64_C(1795219200000), span = 7 * DAY;
        struct recurrence recurrence = cron("*/7 * * * *");

        if (run % 4)
            recurrence = every(start + random_below(&random, DAY),
                               5 * 60 * SECOND + random_below(&random, DAY));
        if (run % 4 == 1)
            recurrence.every.count = 1 + random_below(&random, 20);
        recurrence.until.ms = start + span / 2 + random_below(&random, span / 2);
        size_t count = list_all(&recurrence, start, start + span, planned);
        for (int i = 0; i < 50; i++) {
            uint64_t a = start + random_below(&random, span),
                     b = start + random_below(&random, span);

            if (run % 4 == 0 && a < start + DAY)
                a += DAY; /* this list does not know what was before */
            if (count && i % 4 == 0)
                a = planned[random_below(&random, count)] + random_below(&random, 3) - 1;
            if (run % 4 == 0 && a < start)
                continue;
            recurrence_test_check_moment(&recurrence, planned, count, a);
            check_resume(&recurrence, planned, count, a, b, random_below(&random, DAY));
        }
    }
}

/* ---- the name of a firing ---- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_is_a_fixed_rate),
        cmocka_unit_test(count_and_until_end_it),
        cmocka_unit_test(nothing_overflows),
        cmocka_unit_test(lesson_a_restart_does_not_align_periodic_jobs),
        cmocka_unit_test(lesson_lateness_does_not_add_up),
        cmocka_unit_test(what_was_missed_is_passed_over_in_one_step),
        cmocka_unit_test(exactly_as_late_as_allowed_is_not_too_late),
        cmocka_unit_test(lesson_a_clock_set_back_neither_stops_nor_repeats),
        cmocka_unit_test(agrees_with_a_plain_list),
    };

    return cmocka_run_group_tests_name("recurrence", tests, NULL, NULL);
}
