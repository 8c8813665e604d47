/*
 * Goal: when a timer's next firing is due before the last is over, what happens is what the timer
 * asks for: retries end (retry.until), the next one waits, is skipped, or begins beside it. A
 * backfill keeps its pace.
 * Method: small histories of one engine over memory, whose deliveries come back when the test says,
 * through restarts.
 */
#include "engine/engine_testing.h"
#include "timer/firing.h"
#include "timer/runs.h"

#include <stdio.h>

#define DONE   ((struct delivery_outcome){.result = DELIVERY_DONE, .status = 204})
#define FAILED ((struct delivery_outcome){.result = DELIVERY_FAILED, .status = 500, .error = "500"})

/* Gives work back for `ms`, as a worker does. */
static struct delivery_outcome overlap_nack(uint64_t ms)
{
    return (struct delivery_outcome){.result = DELIVERY_FAILED,
                                     .pause = DELIVERY_PAUSE_EXACT,
                                     .retry_after_ms = ms,
                                     .error = "busy"};
}

/* A timer of this tenant that is first due ten seconds after START. */
static struct timer_id overlap_create_of(struct engine_fixture *fixture, const char *tenant,
                                         const char *schedule, bool until_next)
{
    const struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                      .schedule = bytes_of(schedule),
                                      .payload = BYTES("{\"n\":1}"),
                                      .labels = BYTES("{\"team\":\"a\"}"),
                                      .tenant = bytes_of(tenant),
                                      .on_dead = BYTES("http://dead.example/")};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    assert_non_null(timer);
    command.tenant = bytes_of(tenant);
    command.tenant_pending_max = *tenant ? 2 : 0;
    timer->created = START;
    timer->due.ms = START.ms + 10000;
    timer->retry = (struct retry_policy){100, 1, 1, 1000, 0, until_next};
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return created.id;
}

static struct timer_id overlap_create(struct engine_fixture *fixture, const char *schedule,
                                      bool until_next)
{
    return overlap_create_of(fixture, "", schedule, until_next);
}

/* Answers the delivery that is out to this host; false if there is none. */
static bool overlap_answer(struct engine_fixture *fixture, const char *target,
                           struct delivery_outcome outcome)
{
    LIST_FOR_EACH (&fixture->out, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        if (!bytes_equal(delivery->timer->texts.target, bytes_of(target)))
            continue;
        delivery->started_us = delivery->ended_us = fixture->now.ms * 1000;
        fixture_answer(fixture, delivery, outcome);
        return true;
    }
    return false;
}

#define TARGET "http://a.example/"

/* Reads what the timer shows. The texts of the runs lie in `ret_room`. */
struct shown {
    enum timer_state state;
    uint64_t due_ms;
    uint32_t attempts;
    size_t count;
    struct run runs[RUNS_MAX];
    char room[RUNS_BYTES_MAX];
};

static void overlap_show(struct engine_fixture *fixture, const struct timer_id *id,
                         struct shown *ret_shown)
{
    struct command command = {.kind = COMMAND_GET, .id = *id};

    fixture_command(fixture, &command);
    assert_non_null(command.timer);
    struct bytes rest = {ret_shown->room, command.timer->texts.runs.size};
    if (rest.size)
        memcpy(ret_shown->room, command.timer->texts.runs.data, rest.size);
    ret_shown->state = command.timer->state;
    ret_shown->due_ms = command.timer->due.ms - START.ms;
    ret_shown->attempts = command.timer->attempts;
    ret_shown->count = 0;
    fixture_carry_out(fixture);
    assert_true(runs_is_valid(rest));
    while (runs_next(&rest, &ret_shown->runs[ret_shown->count]))
        ret_shown->count++;
}

static void overlap_assert_run(const struct run *run, uint64_t planned_ms, enum run_outcome outcome,
                               uint32_t attempts, const char *error)
{
    assert_int_equal(run->planned.ms, START.ms + planned_ms);
    assert_int_equal(run->outcome, outcome);
    assert_int_equal(run->attempts, attempts);
    assert_true(bytes_equal(run->error, bytes_of(error)));
}

static size_t overlap_out_count(const struct engine_fixture *fixture)
{
    size_t count = 0;

    LIST_FOR_EACH (&fixture->out, link)
        count++;
    return count;
}

/* ---- retry.until ---- */

/* proves: retry-until */
static void test_retries_end_with_the_next_firing(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = overlap_create(&fixture, "{\"every\":\"10s\"}", true);
    fixture_advance_to(&fixture, 10000);
    /* the next attempt is before 20 s: it is a retry, like any other */
    assert_true(overlap_answer(&fixture, TARGET, overlap_nack(10000 - 1)));
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.state, TIMER_RETRYING);
    assert_int_equal(shown.count, 0);
    fixture_close(&fixture); /* the policy is durable */
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 19998);
    assert_null(fixture_first_out(&fixture));
    fixture_advance_to(&fixture, 19999);
    /* the one after it would not be */
    assert_true(overlap_answer(&fixture, TARGET, overlap_nack(1)));
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.state, TIMER_SCHEDULED);
    assert_int_equal(shown.due_ms, 20000);
    assert_int_equal(shown.attempts, 0);
    assert_int_equal(shown.count, 1);
    overlap_assert_run(&shown.runs[0], 10000, RUN_FAILED, 2,
                       "given up: the next firing is due (retry.until): busy");
    assert_true(overlap_answer(&fixture, "http://dead.example/", DONE)); /* its report */
    fixture_advance_to(&fixture, 20000);
    assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms + 20000);
    fixture_deinit(&fixture);
}

/* An attempt that is under way when the next firing is due is the last. */
static void test_a_late_answer_is_no_retry(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id =
        overlap_create(&fixture, "{\"every\":\"10s\",\"late\":{\"missed\":\"each\"}}", true);
    fixture_advance_to(&fixture, 10000);
    fixture_advance_to(&fixture, 35000);
    assert_true(overlap_answer(&fixture, TARGET, FAILED));
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.count, 1);
    overlap_assert_run(&shown.runs[0], 10000, RUN_FAILED, 1,
                       "given up: the next firing is due (retry.until): 500");
    fixture_advance_to(&fixture, 35000);
    assert_int_equal(shown.due_ms, 20000);
    assert_true(overlap_answer(&fixture, TARGET, DONE)); /* each is attempted once */
    overlap_show(&fixture, &id, &shown);
    overlap_assert_run(&shown.runs[0], 20000, RUN_DONE, 1, "");
    fixture_deinit(&fixture);
}

/* A retry that comes too late, because the service was down. */
static void test_an_outage_ends_the_retries(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = overlap_create(&fixture, "{\"every\":\"10s\"}", true);
    fixture_advance_to(&fixture, 10000);
    assert_true(overlap_answer(&fixture, TARGET, overlap_nack(5000)));
    fixture_close(&fixture);
    fixture.now.ms = START.ms + 35000;
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 35000);
    overlap_show(&fixture, &id, &shown);
    assert_true(shown.count >= 1);
    overlap_assert_run(&shown.runs[shown.count - 1], 10000, RUN_FAILED, 1,
                       "given up: the next firing is due (retry.until): busy");
    assert_true(overlap_answer(&fixture, TARGET, DONE));
    overlap_show(&fixture, &id, &shown);
    overlap_assert_run(&shown.runs[0], 30000, RUN_DONE, 1, "");
    fixture_deinit(&fixture);
}

/* The last firing has no next one. */
static void test_the_last_firing_is_retried(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = overlap_create(&fixture, "{\"every\":\"10s\",\"count\":1}", true);
    fixture_advance_to(&fixture, 10000);
    assert_true(overlap_answer(&fixture, TARGET, overlap_nack(50000)));
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.state, TIMER_RETRYING);
    fixture_deinit(&fixture);
}

/* ---- overlap ---- */

#define SKIPPED "skipped because the firing before was not over (overlap)"

/* proves: overlap-skip */
static void test_firings_during_another_are_skipped(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id =
        overlap_create(&fixture, "{\"every\":\"10s\",\"overlap\":\"skip\"}", false);
    fixture_advance_to(&fixture, 10000);
    fixture_advance_to(&fixture, 40000); /* due while it is out, the last at this moment */
    assert_true(overlap_answer(&fixture, TARGET, DONE));
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.due_ms, 50000);
    assert_int_equal(shown.count, 2);
    overlap_assert_run(&shown.runs[0], 20000, RUN_SKIPPED, 0, SKIPPED);
    assert_int_equal(shown.runs[0].until.ms, START.ms + 40000);
    assert_int_equal(shown.runs[0].count, 3);
    overlap_assert_run(&shown.runs[1], 10000, RUN_DONE, 1, "");
    assert_null(fixture_first_out(&fixture));
    /* one that was due before it was attempted is not overlapped, but late */
    fixture_close(&fixture);
    fixture.now.ms = START.ms + 75000;
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 75000);
    assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms + 70000);
    fixture_deinit(&fixture);
}

/* The last firings of a schedule are skipped like any, and recorded. */
/* proves: overlap-skip */
static void test_the_last_firings_are_skipped(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id =
        overlap_create(&fixture, "{\"every\":\"10s\",\"count\":3,\"overlap\":\"skip\"}", false);
    fixture_advance_to(&fixture, 10000);
    fixture_advance_to(&fixture, 60000);
    assert_true(overlap_answer(&fixture, TARGET, DONE));
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.state, TIMER_FIRED);
    assert_int_equal(shown.count, 2);
    overlap_assert_run(&shown.runs[0], 20000, RUN_SKIPPED, 0, SKIPPED);
    assert_int_equal(shown.runs[0].until.ms, START.ms + 30000);
    assert_int_equal(shown.runs[0].count, 2);
    fixture_deinit(&fixture);
}

/* proves: overlap-wait */
static void test_firings_wait_without_the_field(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = overlap_create(&fixture, "{\"every\":\"10s\"}", false);
    fixture_advance_to(&fixture, 10000);
    fixture_advance_to(&fixture, 45000);
    assert_int_equal(overlap_out_count(&fixture), 1);
    assert_true(overlap_answer(&fixture, TARGET, DONE));
    fixture_advance_to(&fixture, 45000);
    assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms + 40000);
    overlap_show(&fixture, &id, &shown);
    overlap_assert_run(&shown.runs[0], 20000, RUN_SKIPPED, 0,
                       "missed because the firing before was not over");
    fixture_deinit(&fixture);
}

/* Returns the firing that is out and due at that time; NULL if there is none. */
static struct delivery *overlap_out(struct engine_fixture *fixture, uint64_t due_ms)
{
    LIST_FOR_EACH (&fixture->out, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        if (delivery->timer->due.ms == START.ms + due_ms)
            return delivery;
    }
    return NULL;
}

/* proves: overlap-allow, firing-timer */
static void test_firings_begin_beside_each_other(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id =
        overlap_create(&fixture, "{\"every\":\"10s\",\"count\":3,\"overlap\":\"allow\"}", false);
    char name[TIMER_ID_TEXT_SIZE], child[TIMER_ID_TEXT_SIZE];
    timer_id_format(&id, name);
    fixture_advance_to(&fixture, 10000);
    assert_int_equal(overlap_out_count(&fixture), 1);
    fixture_advance_to(&fixture, 20000);
    assert_int_equal(overlap_out_count(&fixture), 2);
    struct delivery *first = overlap_out(&fixture, 10000), *second = overlap_out(&fixture, 20000);
    assert_true(first && second && first->timer->id.serial != second->timer->id.serial);
    assert_true(first->timer->id.serial != id.serial && second->timer->id.serial != id.serial);
    assert_true(bytes_equal(first->timer->texts.firing_of, bytes_of(name)));
    assert_true(bytes_equal(first->timer->texts.payload, BYTES("{\"n\":1}")));
    assert_true(bytes_equal(first->timer->texts.labels, BYTES("{\"team\":\"a\"}")));
    assert_int_equal(first->timer->retry.attempts_max, 100);
    assert_false(schedule_recurs(first->timer->texts.schedule));
    timer_id_format(&second->timer->id, child);
    const struct timer_id second_id = second->timer->id;
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.due_ms, 30000);
    assert_int_equal(shown.count, 2);
    overlap_assert_run(&shown.runs[0], 20000, RUN_BEGUN, 0, child);
    const struct timer_id first_id = first->timer->id;
    /* each ends by itself, also after a restart, before which the first is done; the last firing is
     * the timer's own */
    fixture_answer(&fixture, second, overlap_nack(60000));
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 30000);
    assert_int_equal(overlap_out_count(&fixture), 1);
    assert_true(timer_id_equal(&overlap_out(&fixture, 30000)->timer->id, &id));
    fixture_answer(&fixture, overlap_out(&fixture, 30000), DONE);
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.state, TIMER_FIRED);
    overlap_show(&fixture, &first_id, &shown);
    assert_int_equal(shown.state, TIMER_FIRED);
    overlap_show(&fixture, &second_id, &shown);
    assert_int_equal(shown.state, TIMER_RETRYING);
    fixture_advance_to(&fixture, 90000);
    assert_non_null(overlap_out(&fixture, 20000));
    fixture_answer(&fixture, overlap_out(&fixture, 20000), DONE);
    overlap_show(&fixture, &second_id, &shown);
    assert_int_equal(shown.state, TIMER_FIRED);
    fixture_deinit(&fixture);
}

/* Firings that are missed are one firing, as `late` says, also where they may overlap. */
static void test_missed_firings_do_not_pile_up(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id =
        overlap_create(&fixture, "{\"every\":\"10s\",\"overlap\":\"allow\"}", false);
    fixture_close(&fixture);
    fixture.now.ms = START.ms + 45000;
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 45000);
    assert_int_equal(overlap_out_count(&fixture), 1);
    assert_non_null(overlap_out(&fixture, 40000));
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.due_ms, 50000);
    assert_int_equal(shown.count, 2);
    assert_int_equal(shown.runs[0].outcome, RUN_BEGUN);
    overlap_assert_run(&shown.runs[1], 10000, RUN_SKIPPED, 0,
                       "missed because of the service not running");
    assert_int_equal(shown.runs[1].count, 3);
    fixture_deinit(&fixture);
}

/* Lets firings begin where two timers may live: one beside its timer. */
static void overlap_reach_limit(struct engine_fixture *fixture, const char *tenant)
{
    const struct timer_id id =
        overlap_create_of(fixture, tenant, "{\"every\":\"10s\",\"overlap\":\"allow\"}", false);

    fixture_advance_to(fixture, 10000);
    fixture_advance_to(fixture, 20000);
    fixture_advance_to(fixture, 30000);
    assert_int_equal(overlap_out_count(fixture), 2);
    assert_true(timer_id_equal(&overlap_out(fixture, 20000)->timer->id, &id));
    fixture_answer(fixture, overlap_out(fixture, 10000), DONE);
    fixture_answer(fixture, overlap_out(fixture, 20000), DONE);
    fixture_advance_to(fixture, 31000);
    assert_false(timer_id_equal(&overlap_out(fixture, 30000)->timer->id, &id));
}

/* At the limit of live timers a firing waits for the one before. */
/* proves: overlap-limit */
static void test_at_the_limit_of_overlap_firings_wait(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.pending_max = 2;
    fixture_open(&fixture);
    overlap_reach_limit(&fixture, "");
    fixture_deinit(&fixture);
}

/* So it does at the limit of its tenant, which the create told. */
/* proves: overlap-limit, tenant-pending */
static void test_at_the_limit_of_the_tenant_firings_wait(void **state)
{
    struct engine_fixture fixture;
    struct tenant_counts tenant_counts;

    (void)state;
    tenant_counts_init(&tenant_counts);
    fixture_prepare(&fixture);
    fixture.options.tenant_counts = &tenant_counts;
    fixture_open(&fixture);
    overlap_reach_limit(&fixture, "shop");
    assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("shop")), 2);
    assert_true(tenant_counts_is_full(&tenant_counts, BYTES("shop")));
    fixture_deinit(&fixture);
    tenant_counts_deinit(&tenant_counts);
}

/* An answer that is not taken yet shows the timer as it was, when a firing begins meanwhile. */
static void test_an_answer_shows_no_firing_that_begins_later(void **state)
{
    struct engine_fixture fixture;
    struct command command = {.kind = COMMAND_GET};

    (void)state;
    fixture_init(&fixture);
    command.id = overlap_create(&fixture, "{\"every\":\"10s\",\"overlap\":\"allow\"}", false);
    fixture_advance_to(&fixture, 9999);
    fixture.now.ms = START.ms + 10000;
    turn_advance(fixture.engine, fixture.now); /* the first firing begins, and is written */
    turn_submit(fixture.engine, fixture.now, &command);
    struct storage_batch *batch = engine_take_batch(fixture.engine);
    assert_int_equal(storage_write(fixture.storage, &batch, 1, NULL), ERROR_NONE);
    fixture.now.ms = START.ms + 35000; /* then that of 20 s is missed, and that of 30 s begins */
    turn_committed(fixture.engine, fixture.now, batch);
    assert_ptr_equal(engine_take_reply(fixture.engine), &command);
    assert_int_equal(command.timer->version, 2);
    assert_int_equal(command.timer->due.ms, START.ms + 20000);
    fixture_carry_out(&fixture);
    assert_int_equal(overlap_out(&fixture, 30000)->timer->due.ms, START.ms + 30000);
    fixture_deinit(&fixture);
}

/* ---- backfills ---- */

/* Makes a backfill of the minute's six instants before START, by that rate. */
static struct timer_id overlap_backfill(struct engine_fixture *fixture, const char *overlap,
                                        const char *rate)
{
    char schedule[100];
    snprintf(schedule, sizeof(schedule), "{\"every\":\"10s\",\"overlap\":\"%s\"}", overlap);
    const struct timer_texts texts = {.target = BYTES(TARGET), .schedule = bytes_of(schedule)};
    struct backfill backfill = {.of = BYTES("06gvoga8sk0000000400000000"),
                                .rate = bytes_of(rate),
                                .from = {START.ms - 60000},
                                .to = START,
                                .count = 6};
    struct timer *timer = timer_alloc(&texts);

    assert_non_null(timer);
    assert_true(backfill_rate_parse(backfill.rate, &backfill.pace_ms));
    timer->created.ms = START.ms - 1000000;
    timer->retry = (struct retry_policy){2, 1, 1, 1000, 0, false};
    struct timer *made = firing_create_backfill(timer, &backfill, (struct wall){START.ms - 60000},
                                                (struct wall){START.ms - 10000});
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &made, .results = &created, .timer_count = 1};

    assert_non_null(made);
    timer_free(timer);
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return created.id;
}

static uint64_t overlap_done(struct engine_fixture *fixture, const struct timer_id *id)
{
    struct command command = {.kind = COMMAND_GET, .id = *id};
    struct backfill backfill;

    fixture_command(fixture, &command);
    assert_true(schedule_backfill(command.timer->texts.schedule, &backfill));
    fixture_carry_out(fixture);
    return backfill.done;
}

/* proves: backfill-order, backfill-survives */
static void test_a_backfill_keeps_its_pace(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = overlap_backfill(&fixture, "wait", "1/s");
    for (uint64_t i = 0; i < 6; i++) {
        fixture_advance_to(&fixture, 1000 * i);
        assert_int_equal(overlap_out_count(&fixture), 1);
        assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms - 60000 + 10000 * i);
        assert_int_equal(overlap_done(&fixture, &id), i);
        assert_true(overlap_answer(&fixture, TARGET, DONE));
        if (i == 3) { /* the pace is durable */
            fixture_close(&fixture);
            fixture_open(&fixture);
        }
        fixture_advance_to(&fixture, 1000 * i + 999);
        assert_int_equal(overlap_out_count(&fixture), 0);
    }
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.state, TIMER_FIRED);
    assert_int_equal(shown.count, 6);
    fixture_deinit(&fixture);
}

/* A firing that is given up does not end the others, and a slow one holds them up. */
static void test_a_backfill_goes_on_after_a_failure(void **state)
{
    struct engine_fixture fixture;
    struct shown shown;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = overlap_backfill(&fixture, "skip", "1000/s");
    fixture_advance_to(&fixture, 0);
    fixture_advance_to(&fixture, 5000);
    assert_int_equal(overlap_out_count(&fixture), 1);
    assert_true(overlap_answer(&fixture, TARGET, FAILED));
    fixture_advance_to(&fixture, 6000);
    assert_true(overlap_answer(&fixture, TARGET, FAILED));
    fixture_advance_to(&fixture, 7000);
    assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms - 50000);
    overlap_show(&fixture, &id, &shown);
    assert_int_equal(shown.count, 1);
    assert_int_equal(shown.runs[0].outcome, RUN_FAILED);
    assert_int_equal(overlap_done(&fixture, &id), 1);
    fixture_deinit(&fixture);
}

static void test_a_backfill_whose_firings_overlap(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    overlap_backfill(&fixture, "allow", "1/s");
    for (uint64_t i = 0; i < 6; i++) {
        fixture_advance_to(&fixture, 1000 * i);
        assert_int_equal(overlap_out_count(&fixture), i + 1);
    }
    LIST_FOR_EACH (&fixture.out, link) {
        const struct timer *timer = list_item(link, struct delivery, link)->timer;
        struct backfill backfill;

        assert_true(schedule_backfill(timer->texts.schedule, &backfill));
        assert_true(bytes_equal(backfill.of, BYTES("06gvoga8sk0000000400000000")));
    }
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retries_end_with_the_next_firing),
        cmocka_unit_test(test_a_late_answer_is_no_retry),
        cmocka_unit_test(test_an_outage_ends_the_retries),
        cmocka_unit_test(test_the_last_firing_is_retried),
        cmocka_unit_test(test_firings_during_another_are_skipped),
        cmocka_unit_test(test_the_last_firings_are_skipped),
        cmocka_unit_test(test_firings_wait_without_the_field),
        cmocka_unit_test(test_firings_begin_beside_each_other),
        cmocka_unit_test(test_missed_firings_do_not_pile_up),
        cmocka_unit_test(test_at_the_limit_of_overlap_firings_wait),
        cmocka_unit_test(test_at_the_limit_of_the_tenant_firings_wait),
        cmocka_unit_test(test_an_answer_shows_no_firing_that_begins_later),
        cmocka_unit_test(test_a_backfill_keeps_its_pace),
        cmocka_unit_test(test_a_backfill_goes_on_after_a_failure),
        cmocka_unit_test(test_a_backfill_whose_firings_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
