/*
 * Goal: `except`, `only` and `on_holiday` plan exactly what their words say, in any zone, on days
 * on which the clocks change, and in leap years.
 * Method: an oracle too simple to be wrong: every instant of the pattern within some years, each
 * moved day by day, sorted, each once. And examples whose truth is known from a calendar on paper.
 */
#include "timer/recurrence.h"

#include "base/random.h"
#include "calendar/calendar.h"
#include "calendar/rfc3339.h"
#include "calendar/zones.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define DAY_MS     INT64_C(86400000)
#define ORACLE_MAX 20000

static struct zones *zones;
static struct holidays *holidays;

static enum error_code recurrence_dates_find(void *context, struct bytes name,
                                             const struct holidays **ret_days)
{
    (void)context;
    if (!bytes_equal(name, BYTES("de")))
        return ERROR_NOT_FOUND;
    *ret_days = holidays;
    return ERROR_NONE;
}

static struct wall at(const char *text)
{
    struct wall wall;

    if (rfc3339_parse(bytes_of(text), &wall, NULL))
        fail_msg("%s", text);
    return wall;
}

static void set_zone(struct recurrence *recurrence, const char *zone)
{
    assert_int_equal(zones_get(zones, bytes_of(zone), &recurrence->zone, NULL), ERROR_NONE);
}

static void set_list(struct dates_list *list, const char *text)
{
    struct error error;

    if (*text && dates_parse(bytes_of(text), recurrence_dates_find, NULL, list, &error))
        fail_msg("%s: %s", text, error.text);
}

static struct recurrence dated(const char *cron, const char *zone, const char *except,
                               const char *only, enum dates_move move)
{
    struct recurrence recurrence = {.kind = RECURRENCE_CRON, .until = WALL_NEVER};

    if (cron_parse(bytes_of(cron), &recurrence.cron.cron, NULL))
        fail_msg("%s", cron);
    set_zone(&recurrence, zone);
    set_list(&recurrence.dates.except, except);
    set_list(&recurrence.dates.only, only);
    recurrence.dates.move = move;
    return recurrence;
}

/* Checks the instants after `after`, one after the other, and back again. */
static void check_plans(const struct recurrence *recurrence, const char *after,
                        const char *const *planned)
{
    struct wall last = at(after);

    for (size_t i = 0; planned[i]; i++) {
        struct wall next = recurrence_next(recurrence, last);

        if (next.ms != at(planned[i]).ms)
            fail_msg("not %s but %llu", planned[i], (unsigned long long)next.ms);
        assert_int_equal(recurrence_last(recurrence, next).ms, next.ms);
        if (i)
            assert_int_equal(recurrence_last(recurrence, (struct wall){next.ms - 1}).ms, last.ms);
        last = next;
    }
}

/* proves: except-only, on-holiday */
static void examples_of_the_manual(void **state)
{
    (void)state;
    /* Christmas 2026: Friday the 25th and Saturday the 26th are holidays; 1 January is a Friday. */
    const struct recurrence skip =
        dated("0 9 * * *", "Europe/Berlin", "[\"SAT-SUN\",\"calendar:de\"]", "", DATES_MOVE_SKIP);
    check_plans(&skip, "2026-12-23T12:00:00Z",
                (const char *[]){"2026-12-24T08:00:00Z", "2026-12-28T08:00:00Z",
                                 "2026-12-29T08:00:00Z", "2026-12-30T08:00:00Z",
                                 "2026-12-31T08:00:00Z", "2027-01-04T08:00:00Z", NULL});
    /* rent on the first of the month */
    const struct recurrence next =
        dated("0 9 1 * *", "Europe/Berlin", "[\"SAT-SUN\",\"calendar:de\"]", "", DATES_MOVE_NEXT);
    check_plans(&next, "2026-10-15T00:00:00Z",
                (const char *[]){"2026-11-02T08:00:00Z", "2026-12-01T08:00:00Z",
                                 "2027-01-04T08:00:00Z", "2027-02-01T08:00:00Z", NULL});
    const struct recurrence previous = dated(
        "0 9 1 * *", "Europe/Berlin", "[\"SAT-SUN\",\"calendar:de\"]", "", DATES_MOVE_PREVIOUS);
    check_plans(&previous, "2026-10-15T00:00:00Z",
                (const char *[]){"2026-10-30T08:00:00Z", "2026-12-01T08:00:00Z",
                                 "2026-12-31T08:00:00Z", "2027-02-01T08:00:00Z", NULL});
    const struct recurrence only = dated(
        "0 9 * * *", "UTC", "", "[\"2026-12-24/2026-12-25\",\"2027-02-03\"]", DATES_MOVE_SKIP);
    check_plans(&only, "2026-01-01T00:00:00Z",
                (const char *[]){"2026-12-24T09:00:00Z", "2026-12-25T09:00:00Z",
                                 "2027-02-03T09:00:00Z", NULL});
    assert_int_equal(recurrence_next(&only, at("2027-02-03T09:00:00Z")).ms, WALL_NEVER.ms);
}

/* Instants that are moved onto another one fire once with it; several of a day keep their times. */
static void moved_firings_coincide(void **state)
{
    (void)state;
    const struct recurrence next =
        dated("0 9,18 * * *", "UTC", "[\"SAT-SUN\"]", "", DATES_MOVE_NEXT);
    check_plans(&next, "2026-12-04T10:00:00Z", /* a Friday */
                (const char *[]){"2026-12-04T18:00:00Z", "2026-12-07T09:00:00Z",
                                 "2026-12-07T18:00:00Z", "2026-12-08T09:00:00Z", NULL});
    const struct recurrence mixed =
        dated("0 9 * * SAT", "UTC", "[\"SAT-SUN\"]", "", DATES_MOVE_NEXT);
    check_plans(&mixed, "2026-12-04T10:00:00Z",
                (const char *[]){"2026-12-07T09:00:00Z", "2026-12-14T09:00:00Z", NULL});
    assert_int_equal(recurrence_origin_first(&mixed, at("2026-12-07T09:00:00Z")).ms,
                     at("2026-12-05T09:00:00Z").ms);
    /* no workday within DATES_MOVE_DAYS_MAX: left out */
    const struct recurrence far =
        dated("0 9 1 1 *", "UTC", "[\"2027-01-01/2027-06-30\"]", "", DATES_MOVE_NEXT);
    check_plans(&far, "2026-06-01T00:00:00Z", (const char *[]){"2028-01-01T09:00:00Z", NULL});
}

/* `until` bounds where instants are moved to, not where they come from: 1 November 2026, a Sunday,
 * is after it, and fires on Friday, 30 October. */
/* proves: until, on-holiday */
static void until_bounds_moved_instants(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct recurrence month =
            dated("0 9 1 * *", "UTC", "[\"SAT-SUN\"]", "", DATES_MOVE_PREVIOUS);

        if (i) { /* the same by `every`: 31 days from 1 October */
            month.kind = RECURRENCE_EVERY;
            month.every = (struct recurrence_every){at("2026-10-01T09:00:00Z"), 31 * DAY_MS, 0};
        }
        month.until = at("2026-10-30T09:00:00Z");
        check_plans(&month, "2026-09-15T00:00:00Z",
                    (const char *[]){"2026-10-01T09:00:00Z", "2026-10-30T09:00:00Z", NULL});
        assert_int_equal(recurrence_last(&month, WALL_NEVER).ms, month.until.ms);
        assert_int_equal(recurrence_next(&month, month.until).ms, WALL_NEVER.ms);
        assert_int_equal(recurrence_origin_last(&month, month.until).ms,
                         at("2026-11-01T09:00:00Z").ms);
        month.until.ms--;
        assert_int_equal(recurrence_next(&month, at("2026-10-01T09:00:00Z")).ms, WALL_NEVER.ms);
        assert_int_equal(recurrence_last(&month, WALL_NEVER).ms, at("2026-10-01T09:00:00Z").ms);
    }
}

/* 29 February is a Monday in 2044 and 2072; 31 December 2028 a Sunday. */
static void rare_dates_are_found(void **state)
{
    (void)state;
    const struct recurrence leap = dated("0 0 29 2 *", "UTC", "", "[\"MON\"]", DATES_MOVE_SKIP);
    check_plans(&leap, "2026-01-01T00:00:00Z",
                (const char *[]){"2044-02-29T00:00:00Z", "2072-02-29T00:00:00Z", NULL});
    const struct recurrence never =
        dated("0 0 25 12 *", "UTC", "[\"calendar:de\"]", "", DATES_MOVE_SKIP);
    assert_int_equal(recurrence_next(&never, at("2026-01-01T00:00:00Z")).ms, WALL_NEVER.ms);
    const struct recurrence all = dated("* * * * *", "UTC", "[\"SUN-SAT\"]", "", DATES_MOVE_SKIP);
    assert_int_equal(recurrence_next(&all, at("2026-01-01T00:00:00Z")).ms, WALL_NEVER.ms);
    assert_int_equal(recurrence_last(&all, at("2026-01-01T00:00:00Z")).ms, WALL_NEVER.ms);
    const struct recurrence moved = dated("0 0 * * *", "UTC", "[\"SUN-SAT\"]", "", DATES_MOVE_NEXT);
    assert_int_equal(recurrence_next(&moved, at("2026-01-01T00:00:00Z")).ms, WALL_NEVER.ms);
    assert_int_equal(recurrence_last(&moved, at("2026-01-01T00:00:00Z")).ms, WALL_NEVER.ms);
}

/* Clocks in Berlin jump from 02:00 to 03:00 on Sunday, 28 March 2027. */
static void moved_times_follow_the_clocks(void **state)
{
    (void)state;
    struct recurrence berlin =
        dated("30 2 * * SAT", "Europe/Berlin", "[\"SAT\"]", "", DATES_MOVE_NEXT);
    check_plans(&berlin, "2027-03-15T00:00:00Z",
                (const char *[]){"2027-03-21T01:30:00Z", "2027-03-28T01:00:00Z",
                                 "2027-04-04T00:30:00Z", NULL});
    berlin.cron.dst = CRON_DST_SKIP;
    check_plans(&berlin, "2027-03-15T00:00:00Z",
                (const char *[]){"2027-03-21T01:30:00Z", "2027-04-04T00:30:00Z", NULL});
    /* 9:00 stays 9:00 over the change */
    const struct recurrence nine =
        dated("0 9 * * SAT", "Europe/Berlin", "[\"SAT\"]", "", DATES_MOVE_NEXT);
    check_plans(&nine, "2027-03-15T00:00:00Z",
                (const char *[]){"2027-03-21T08:00:00Z", "2027-03-28T07:00:00Z", NULL});
}

/* ---- the oracle ---- */

struct oracle {
    uint64_t instants[ORACLE_MAX];
    size_t count;
};

static int64_t oracle_offset_ms(const struct recurrence *recurrence, int64_t at_ms)
{
    return 1000 * (int64_t)zone_stretch_at(recurrence->zone, floor_divide(at_ms, 1000)).offset_s;
}

/* Returns the first instant that shows the reading, or the moment at which the clocks jump over it;
 * 0 if such times are skipped. Looks at each minute of two days. */
static uint64_t oracle_resolve(const struct recurrence *recurrence, int64_t reading_ms)
{
    const int64_t rest = floor_modulo(reading_ms, 60000);
    int64_t last_shown = INT64_MIN;

    for (int64_t ms = reading_ms - rest - DAY_MS; ms < reading_ms + DAY_MS; ms += 60000) {
        const int64_t shown = ms + oracle_offset_ms(recurrence, ms);

        if (shown == reading_ms - rest)
            return (uint64_t)(ms + rest);
        if (last_shown < reading_ms && shown > reading_ms && shown - last_shown > 60000)
            return recurrence->kind == RECURRENCE_CRON && recurrence->cron.dst == CRON_DST_SKIP
                       ? 0
                       : (uint64_t)ms;
        last_shown = shown;
    }
    return 0;
}

static uint64_t oracle_move(const struct recurrence *recurrence, uint64_t ms)
{
    const int64_t reading = (int64_t)ms + oracle_offset_ms(recurrence, (int64_t)ms);
    const int64_t from = floor_divide(reading, DAY_MS);
    int64_t day = from;

    for (int i = 0; i <= DATES_MOVE_DAYS_MAX; i++) {
        if (dates_permit(&recurrence->dates, day))
            return day == from ? ms : oracle_resolve(recurrence, reading + (day - from) * DAY_MS);
        if (recurrence->dates.move == DATES_MOVE_SKIP)
            return 0;
        day += recurrence->dates.move == DATES_MOVE_NEXT ? 1 : -1;
    }
    return 0;
}

static int oracle_compare(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static void oracle_fill(struct oracle *oracle, const struct recurrence *recurrence, uint64_t from,
                        uint64_t to)
{
    struct recurrence plain = *recurrence;

    plain.dates = (struct dates){0};
    plain.until = WALL_NEVER; /* an instant after `until` may be moved to before it */
    oracle->count = 0;
    for (struct wall at_ = recurrence_next(&plain, (struct wall){from}); at_.ms < to;
         at_ = recurrence_next(&plain, at_)) {
        const uint64_t moved = oracle_move(recurrence, at_.ms);

        assert_true(oracle->count < ORACLE_MAX);
        if (moved && moved <= recurrence->until.ms)
            oracle->instants[oracle->count++] = moved;
    }
    qsort(oracle->instants, oracle->count, sizeof(oracle->instants[0]), oracle_compare);
}

static const char *const model_lists[] = {
    "",
    "[\"SAT-SUN\"]",
    "[\"calendar:de\",\"SAT-SUN\"]",
    "[\"FRI\",\"2027-03-20/2027-04-10\"]",
    "[\"2026-10-20/2026-10-28\",\"2027-03-28\",\"WED-THU\"]",
    "[\"2026-12-01/2027-02-20\"]",
    "[\"calendar:de\"]",
    "[\"MON\",\"TUE\",\"2028-02-29\"]",
};

static struct recurrence draw(struct random *random)
{
    static const char *const crons[] = {"0 9 * * *",     "30 2 * * *", "15 0,2,23 * * *",
                                        "0 12 1,15 * *", "0 0 * * *",  "30 1-3 * * SUN",
                                        "0 8 29 2 *",    "59 23 L * *"};
    static const char *const names[] = {
        "UTC",          "Europe/Berlin",       "America/New_York", "America/Sao_Paulo",
        "Pacific/Apia", "Australia/Lord_Howe", "Asia/Beirut"};
    const size_t lists = sizeof(model_lists) / sizeof(model_lists[0]);
    struct recurrence recurrence =
        dated(crons[random_below(random, 8)], names[random_below(random, 7)],
              model_lists[1 + random_below(random, lists - 1)],
              random_below(random, 3) ? "" : model_lists[1 + random_below(random, lists - 1)],
              (enum dates_move)random_below(random, 3));

    recurrence.cron.dst = (enum cron_dst)random_below(random, 3);
    if (random_below(random, 3) == 0) {
        recurrence.kind = RECURRENCE_EVERY;
        recurrence.every = (struct recurrence_every){
            {at("2026-07-03T10:17:21.123Z").ms}, 60000 * (60 + random_below(random, 4000)), 0};
    }
    if (random_below(random, 4) == 0)
        recurrence.until = wall_add(at("2026-08-01T00:00:00Z"), random_below(random, 500 * DAY_MS));
    return recurrence;
}

/* proves: except-only, on-holiday */
static void agrees_with_the_oracle(void **state)
{
    struct oracle *oracle = malloc(sizeof(*oracle));
    const uint64_t from = at("2026-06-01T00:00:00Z").ms, to = at("2028-06-01T00:00:00Z").ms;
    /* answers near the ends may be beyond what the oracle knows */
    const uint64_t first = at("2026-09-01T00:00:00Z").ms, last = at("2028-02-15T00:00:00Z").ms;
    const uint64_t seed = testing_seed();
    struct random random = random_seeded(seed);

    (void)state;
    for (int run = 0; run < 150; run++) {
        const struct recurrence recurrence = draw(&random);

        oracle_fill(oracle, &recurrence, from, to);
        for (int i = 0; i < 120; i++) {
            uint64_t ms = first + random_below(&random, last - first);
            if (oracle->count && random_below(&random, 2))
                ms = oracle->instants[random_below(&random, oracle->count)] -
                     random_below(&random, 2);
            if (ms < first || ms > last)
                continue;
            size_t next = 0;
            while (next < oracle->count && oracle->instants[next] <= ms)
                next++;
            const uint64_t found = recurrence_next(&recurrence, (struct wall){ms}).ms;
            const uint64_t expected = next < oracle->count ? oracle->instants[next] : WALL_NEVER.ms;
            if (found != expected && (expected < last || found < last))
                fail_msg("run %d: after %llu %llu, not %llu", run, (unsigned long long)ms,
                         (unsigned long long)found, (unsigned long long)expected);
            const uint64_t before = recurrence_last(&recurrence, (struct wall){ms}).ms;
            const uint64_t known = next ? oracle->instants[next - 1] : WALL_NEVER.ms;
            if (before != known && known != WALL_NEVER.ms && known > first)
                fail_msg("run %d: until %llu %llu, not %llu", run, (unsigned long long)ms,
                         (unsigned long long)before, (unsigned long long)known);
        }
    }
    free(oracle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_of_the_manual), cmocka_unit_test(moved_firings_coincide),
        cmocka_unit_test(rare_dates_are_found),   cmocka_unit_test(moved_times_follow_the_clocks),
        cmocka_unit_test(agrees_with_the_oracle), cmocka_unit_test(until_bounds_moved_instants),
    };

    if (zones_create(ZONES_FOLDER, &zones, NULL) ||
        holidays_parse(BYTES("BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Christmas\n"
                             "DTSTART;VALUE=DATE:20001225\nDTEND;VALUE=DATE:20001227\n"
                             "RRULE:FREQ=YEARLY\nEND:VEVENT\nBEGIN:VEVENT\nSUMMARY:New Year\n"
                             "DTSTART;VALUE=DATE:20000101\nRRULE:FREQ=YEARLY\nEND:VEVENT\n"
                             "END:VCALENDAR\n"),
                       &holidays, NULL))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    holidays_leave(holidays);
    zones_destroy(zones);
    return failed;
}
