/*
 * Goal: a backfill's text and its rate mean what was asked, and a damaged text is refused. Method:
 * known texts through a schedule, rates reckoned by hand.
 */
#include "timer/firing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BACKFILL                                                                    \
    "{\"of\":\"06gvoga8sk0000000400000000\",\"from\":\"2026-02-01T00:00:00.000Z\"," \
    "\"to\":\"2026-02-01T01:00:00.000Z\",\"rate\":\"10/s\",\"count\":60,\"done\":59}"

static void test_backfill_rates(void **state)
{
    static const struct {
        const char *text;
        uint64_t pace_ms;
    } cases[] = {{"1/s", 1000},
                 {"10/s", 100},
                 {"3/s", 334},
                 {"1000/s", 1},
                 {"1/m", 60000},
                 {"1/h", 3600000},
                 {"7/h", 514286},
                 {"", 0},
                 {"/s", 0},
                 {"0/s", 0},
                 {"01/s", 0},
                 {"1001/s", 0},
                 {"10", 0},
                 {"10/d", 0},
                 {"-1/s", 0},
                 {"1/ss", 0},
                 {"99999999999999999999/s", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint64_t pace_ms = 0;

        assert_int_equal(backfill_rate_parse(bytes_of(cases[i].text), &pace_ms),
                         cases[i].pace_ms > 0);
        assert_int_equal(pace_ms, cases[i].pace_ms);
    }
}

static void test_backfill_text(void **state)
{
    const struct bytes text = BYTES("{\"every\":\"1m\",\"backfill\":" BACKFILL "}");
    struct schedule_spec spec;
    struct backfill backfill;
    struct buffer again;

    (void)state;
    assert_int_equal(schedule_read(text, &spec, NULL), ERROR_NONE);
    buffer_init(&again);
    schedule_write(&spec, &again);
    assert_true(bytes_equal(buffer_bytes(&again), text));
    assert_true(schedule_backfill(text, &backfill));
    assert_true(backfill.count == 60 && backfill.done == 59 && backfill.pace_ms == 100);
    for (int i = 0; i < 2; i++) { /* never more than there are */
        buffer_clear(&again);
        schedule_write_done(text, &again);
        assert_true(schedule_backfill(buffer_bytes(&again), &backfill));
        assert_int_equal(backfill.done, 60);
    }
    buffer_deinit(&again);
    assert_false(schedule_backfill(BYTES("{\"every\":\"1m\"}"), &backfill));
    assert_false(schedule_backfill((struct bytes){0}, &backfill));
}

static void test_backfill_damaged_texts(void **state)
{
    static const char *const texts[] = {
        "{\"backfill\":1}",
        "{\"backfill\":{}}",
        "{\"backfill\":{\"of\":\"\"}}",
        "{\"backfill\":{\"of\":\"a\"}}",
        "{\"backfill\":{\"of\":\"06gvoga8sk0000000400000000\",\"count\":1}}",
        "{\"backfill\":{\"of\":\"06gvoga8sk0000000400000000\",\"rate\":\"1/s\"}}",
        "{\"backfill\":{\"of\":\"06gvoga8sk0000000400000000\",\"rate\":\"1/s\",\"count\":10001}}",
        "{\"backfill\":{\"of\":\"06gvoga8sk0000000400000000\",\"x\":1}}",
    };
    struct schedule_spec spec;
    struct backfill backfill;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        assert_int_equal(schedule_read(bytes_of(texts[i]), &spec, NULL), ERROR_CORRUPT);
        assert_false(schedule_backfill(bytes_of(texts[i]), &backfill));
    }
}

/* What is made of a timer has its content, and neither its name nor its past. */
static void test_a_timer_is_made(void **state)
{
    const struct timer_texts texts = {.target = BYTES("queue:a"),
                                      .key = BYTES("k"),
                                      .payload = BYTES("1"),
                                      .last_error = BYTES("e"),
                                      .schedule =
                                          BYTES("{\"every\":\"1m\",\"late\":{\"drop_after\":"
                                                "\"5s\"}}")};
    struct timer *timer = timer_alloc(&texts);
    const struct backfill asked = {.of = BYTES("06gvoga8sk0000000400000000"),
                                   .rate = BYTES("1/s"),
                                   .pace_ms = 1000,
                                   .count = 2};
    struct schedule schedule;
    struct backfill backfill;

    (void)state;
    assert_non_null(timer);
    timer->created.ms = 1000;
    timer->attempts = 3;
    timer->version = 9;
    timer->retry.until_next = true;
    struct timer *made =
        firing_create_backfill(timer, &asked, (struct wall){61000}, (struct wall){121000});
    assert_non_null(made);
    assert_true(made->due.ms == 61000 && made->version == 1 && made->attempts == 0);
    assert_true(!made->texts.key.size && !made->texts.last_error.size && made->texts.payload.size);
    assert_false(made->retry.until_next);
    made->created.ms = 500000;
    assert_int_equal(schedule_of(made, &(struct zone_source){0}, &schedule, NULL), ERROR_NONE);
    assert_int_equal(schedule_next(&schedule, made->due, (struct wall){500000}).ms, 121000);
    assert_int_equal(schedule_next(&schedule, (struct wall){121000}, (struct wall){500000}).ms,
                     WALL_NEVER.ms);
    assert_false(schedule_drops(&schedule, made->due, (struct wall){500000}));

    /* one of its firings, as a timer of its own */
    struct timer *firing = firing_create(made, (struct wall){121000});
    assert_non_null(firing);
    assert_true(schedule_backfill(firing->texts.schedule, &backfill));
    assert_true(bytes_equal(backfill.of, asked.of) && backfill.count == 0);
    assert_false(schedule_recurs(firing->texts.schedule));
    timer_free(firing);
    timer_free(made);
    timer_free(timer);
}

/* With `previous_workday` a backfill fires what a dry run counts. 1 November 2026 is a Sunday, so
 * its firing is on Friday, 30 October: the last one, although it comes from a later instant. */
/* proves: backfill, on-holiday */
static void test_a_backfill_of_moved_firings(void **state)
{
    const struct wall first = {UINT64_C(1790845200000)}, last = {UINT64_C(1793350800000)};
    const struct timer_texts texts = {
        .target = BYTES("queue:a"),
        .schedule = BYTES("{\"cron\":\"0 9 1 * *\",\"timezone\":\"UTC\",\"dst\":\"shift\","
                          "\"except\":[\"SAT-SUN\"],\"on_holiday\":\"previous_workday\"}")};
    struct timer *timer = timer_alloc(&texts);
    const struct backfill asked = {.of = BYTES("06gvoga8sk0000000400000000"),
                                   .rate = BYTES("1/s"),
                                   .pace_ms = 1000,
                                   .count = 2};
    const struct wall now = {last.ms + UINT64_C(1000000000)};
    struct schedule schedule;

    (void)state;
    assert_int_equal(schedule_of(timer, &(struct zone_source){0}, &schedule, NULL), ERROR_NONE);
    assert_int_equal(schedule_after(&schedule, (struct wall){first.ms - 1}).ms, first.ms);
    assert_int_equal(schedule_after(&schedule, first).ms, last.ms);
    struct timer *made = firing_create_backfill(timer, &asked, first, last);
    assert_non_null(made);
    made->created = now;
    assert_int_equal(schedule_of(made, &(struct zone_source){0}, &schedule, NULL), ERROR_NONE);
    assert_int_equal(schedule_next(&schedule, first, now).ms, last.ms);
    assert_int_equal(schedule_next(&schedule, last, now).ms, WALL_NEVER.ms);
    timer_free(made);
    timer_free(timer);
}

/* A late timer with `count` and moved firings delivers the last one that `count` permits. */
/* proves: cron-count, on-holiday */
static void test_a_late_count_of_moved_firings(void **state)
{
    const struct wall first = {UINT64_C(1790845200000)}, last = {UINT64_C(1793350800000)};
    const struct timer_texts texts = {
        .target = BYTES("queue:a"),
        .schedule =
            BYTES("{\"count\":2,\"cron\":\"0 9 1 * *\",\"timezone\":\"UTC\",\"dst\":\"shift\","
                  "\"except\":[\"SAT-SUN\"],\"on_holiday\":\"previous_workday\"}")};
    struct timer *timer = timer_alloc(&texts);
    const struct wall now = {last.ms + UINT64_C(10000000000)}; /* months later */
    struct schedule schedule;

    (void)state;
    timer->created = (struct wall){first.ms - 1000};
    assert_int_equal(schedule_of(timer, &(struct zone_source){0}, &schedule, NULL), ERROR_NONE);
    assert_int_equal(schedule_next(&schedule, first, now).ms, last.ms);
    assert_int_equal(schedule_latest(&schedule, first, now).ms, last.ms);
    assert_int_equal(schedule_next(&schedule, last, now).ms, WALL_NEVER.ms);
    timer_free(timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backfill_rates),
        cmocka_unit_test(test_backfill_text),
        cmocka_unit_test(test_backfill_damaged_texts),
        cmocka_unit_test(test_a_timer_is_made),
        cmocka_unit_test(test_a_backfill_of_moved_firings),
        cmocka_unit_test(test_a_late_count_of_moved_firings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
