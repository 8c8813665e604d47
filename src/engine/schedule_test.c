/*
 * Timers that recur. Goal: a schedule's text says exactly what was asked, and the engine fires what
 * is planned, once each, through restarts and outages, as late as the timer allows. Method: random
 * specs written and read back, and small histories of one engine.
 */
#include "engine/engine_testing.h"

#include "base/random.h"
#include "calendar/zones.h"
#include "timer/runs.h"

#include <stdio.h>

static const struct zone_source utc_only = {0};

static struct schedule_spec random_spec(struct random *random)
{
    struct schedule_spec spec = SCHEDULE_SPEC_DEFAULT;

    if (random_below(random, 2)) {
        spec.every_ms = 1 + random_below(random, UINT64_C(1) << random_below(random, 36));
        if (random_below(random, 2))
            spec.from.ms = random_below(random, 8) ? random_below(random, WALL_MS_MAX) : 0;
        spec.count = random_below(random, 2) ? 1 + random_below(random, 1000) : 0;
    } else if (random_below(random, 3)) {
        spec.cron = BYTES("0 9 * JAN,MAR MON#2");
        spec.timezone = BYTES("UTC");
        spec.dst = (enum cron_dst)random_below(random, 4);
    }
    if ((spec.every_ms || spec.cron.size) && random_below(random, 2)) {
        spec.until.ms = random_below(random, WALL_MS_MAX);
        spec.spread_ms = random_below(random, 100000);
        spec.missed = (enum recurrence_missed)random_below(random, 2);
        spec.overlap = (enum schedule_overlap)random_below(random, 3);
    }
    if (random_below(random, 2))
        spec.drop_after_ms = random_below(random, 1000000);
    return spec;
}

/* proves: timer-schedule */
static void test_text_says_what_was_asked(void **state)
{
    const char *seed = getenv("TEST_SEED");
    struct random random = random_seeded(seed ? strtoull(seed, NULL, 0) : 1);

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct schedule_spec spec = random_spec(&random);
        struct buffer text;

        buffer_init(&text);
        schedule_write(&spec, &text);
        struct schedule_spec read = SCHEDULE_SPEC_DEFAULT;
        if (text.size)
            assert_int_equal(schedule_read(buffer_bytes(&text), &read, NULL), ERROR_NONE);
        assert_true(read.every_ms == spec.every_ms && read.from.ms == spec.from.ms);
        assert_true(read.count == spec.count && read.until.ms == spec.until.ms);
        assert_true(bytes_equal(read.cron, spec.cron) &&
                    bytes_equal(read.timezone, spec.timezone) && read.dst == spec.dst);
        assert_true(read.missed == spec.missed && read.drop_after_ms == spec.drop_after_ms);
        assert_true(read.spread_ms == spec.spread_ms && read.overlap == spec.overlap);
        if (text.size) /* cut short it is damaged, wherever */
            assert_int_equal(schedule_read((struct bytes){text.data, text.size - 1}, &read, NULL),
                             ERROR_CORRUPT);
        buffer_deinit(&text);
    }
}

static struct timer *recurring_at(const char *target, const char *schedule, uint64_t due_ms)
{
    struct timer_texts texts = {.target = bytes_of(target), .schedule = bytes_of(schedule)};
    struct timer *timer = timer_alloc(&texts);

    assert_non_null(timer);
    timer->created = START;
    timer->due.ms = START.ms + due_ms;
    return timer;
}

static struct timer *recurring(const char *schedule, uint64_t due_ms)
{
    return recurring_at("http://a.example/", schedule, due_ms);
}

static struct timer_id create_timer(struct engine_fixture *fixture, struct timer *timer)
{
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return created.id;
}

static struct timer_id create_recurring(struct engine_fixture *fixture, const char *schedule,
                                        uint64_t due_ms)
{
    return create_timer(fixture, recurring(schedule, due_ms));
}

/* The due times that are handed out while the clock goes on second by second, each answered. */
static size_t deliver_until(struct engine_fixture *fixture, uint64_t ms, uint64_t *due_ms,
                            size_t capacity)
{
    size_t count = 0;

    for (uint64_t at = fixture->now.ms - START.ms; at <= ms; at += 1000) {
        fixture_advance_to(fixture, at);
        while (fixture_first_out(fixture)) {
            assert_true(count < capacity);
            due_ms[count++] = fixture_first_out(fixture)->timer->due.ms - START.ms;
            fixture_answer(fixture, fixture_first_out(fixture),
                           (struct delivery_outcome){.result = DELIVERY_DONE});
        }
    }
    return count;
}

/* proves: count */
static void test_fires_each_as_planned_and_ends(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id = create_recurring(&fixture, "{\"every\":\"10s\",\"count\":5}", 10000);
    uint64_t due_ms[20];
    assert_int_equal(deliver_until(&fixture, 25000, due_ms, 20), 2);
    fixture_close(&fixture);
    fixture_open(&fixture);
    assert_int_equal(deliver_until(&fixture, 200000, due_ms + 2, 18), 3);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(due_ms[i], 10000 * (i + 1));
    enum timer_state shown;
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, &shown), ERROR_GONE);
    assert_int_equal(shown, TIMER_FIRED);
    fixture_deinit(&fixture);
}

/* How three days pass in which nothing can fire. */
enum way {
    WAY_DOWN,        /* the service does not run: an outage, a clean stop */
    WAY_STOPPED,     /* the process stands still: SIGSTOP, a machine that sleeps */
    WAY_PAUSED,      /* the timer is paused */
    WAY_MAINTENANCE, /* deliveries are held; a paused queue or target waits at the same place */
    WAY_NO_WORKER,   /* nobody pulls from its queue */
    WAY_BREAKER,     /* the delivery was postponed before an attempt was made */
    WAY_COUNT,
};

static struct delivery *schedule_pull(struct engine_fixture *fixture)
{
    struct delivery *delivery = turn_pull(fixture->engine, fixture->now, BYTES("q"), 5);

    fixture_carry_out(fixture);
    if (!delivery) /* the first was too late, and another took its place */
        delivery = turn_pull(fixture->engine, fixture->now, BYTES("q"), 5);
    if (delivery)
        list_init(&delivery->link); /* fixture_answer() takes it off a list */
    fixture_carry_out(fixture);
    return delivery;
}

/* Lets time pass up to `ms` and returns the number of firings, with the due time of the last. */
static size_t schedule_fire_until(struct engine_fixture *fixture, enum way way, uint64_t ms,
                                  uint64_t *ret_due_ms)
{
    size_t count = 0;
    struct delivery *delivery;

    fixture_advance_to(fixture, ms);
    while (
        (delivery = way == WAY_NO_WORKER ? schedule_pull(fixture) : fixture_first_out(fixture))) {
        count++;
        *ret_due_ms = delivery->timer->due.ms - START.ms;
        fixture_answer(fixture, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
        fixture_advance_to(fixture, ms);
    }
    return count;
}

static void schedule_pause(struct engine_fixture *fixture, const struct timer_id *id)
{
    const struct timer_texts texts = {.target = BYTES("queue:unused")};
    struct command command = {.kind = COMMAND_PAUSE, .id = *id, .patch = timer_alloc(&texts)};

    assert_non_null(command.patch);
    command.patch->at = STORAGE_PAUSED_AT;
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
}

static void schedule_pass_days(struct engine_fixture *fixture, enum way way, atomic_bool *is_held,
                               const struct timer_id *id)
{
    const uint64_t back_ms = 4 * 24 * HOUR_MS + HOUR_MS;

    if (way == WAY_DOWN)
        fixture_close(fixture);
    if (way == WAY_PAUSED)
        schedule_pause(fixture, id);
    atomic_store(is_held, way == WAY_MAINTENANCE);
    if (way == WAY_MAINTENANCE || way == WAY_NO_WORKER)
        for (uint64_t day = 1; day <= 4; day++)
            fixture_advance_to(fixture, day * 24 * HOUR_MS);
    if (way == WAY_BREAKER) {
        fixture_advance_to(fixture, 24 * HOUR_MS);
        fixture_answer(fixture, fixture_first_out(fixture),
                       (struct delivery_outcome){.result = DELIVERY_POSTPONED});
    }
    fixture->now.ms = START.ms + back_ms;
    atomic_store(is_held, false);
    if (way == WAY_DOWN)
        fixture_open(fixture);
    if (way == WAY_PAUSED)
        assert_int_equal(fixture_ask(fixture, COMMAND_RESUME, id, 0, NULL), ERROR_NONE);
}

/* Of the firings that were missed in three days the last comes, once, whatever held them up; then
 * it goes on as planned. */
/* proves: missed, target-pause, resume */
static void test_the_last_missed_fires_alone(void **state)
{
    static const char *const schedules[] = {
        "{\"every\":\"1d\"}",
        "{\"cron\":\"0 8 * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}",
        "{\"every\":\"1d\",\"late\":{\"drop_after\":\"2h\"}}",
    };
    const uint64_t day_ms = 24 * HOUR_MS;

    (void)state;
    for (unsigned i = 0; i < 3 * WAY_COUNT; i++) {
        const enum way way = (enum way)(i % WAY_COUNT);
        struct engine_fixture fixture;
        atomic_bool is_held = false;
        uint64_t due_ms = 0;

        fixture_prepare(&fixture);
        fixture.options.is_held = &is_held;
        fixture_open(&fixture);
        struct timer_id id = create_timer(
            &fixture, recurring_at(way == WAY_NO_WORKER ? "queue:q" : "http://a.example/",
                                   schedules[i / WAY_COUNT], day_ms));
        schedule_pass_days(&fixture, way, &is_held, &id);
        assert_int_equal(schedule_fire_until(&fixture, way, 4 * day_ms + 2 * HOUR_MS, &due_ms), 1);
        assert_int_equal(due_ms, 4 * day_ms);
        assert_int_equal(schedule_fire_until(&fixture, way, 5 * day_ms - 1, &due_ms), 0);
        assert_int_equal(schedule_fire_until(&fixture, way, 5 * day_ms, &due_ms), 1);
        assert_int_equal(due_ms, 5 * day_ms);
        struct engine_stats stats;
        engine_stats(fixture.engine, &stats);
        assert_int_equal(stats.given_up, stats.dropped); /* the first, where it was too late */
        fixture_deinit(&fixture);
    }
}

/* A firing of which an attempt was made is not replaced by a later one: it is retried. */
static void test_a_firing_that_began_is_retried(void **state)
{
    uint64_t due_ms = 0;

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    create_recurring(&fixture, "{\"every\":\"10s\"}", 10000);
    fixture_advance_to(&fixture, 10000);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_FAILED});
    fixture_advance_to(&fixture, 35000);
    assert_int_equal(fixture_first_out(&fixture)->attempt, 2);
    assert_int_equal(fixture_first_out(&fixture)->timer->due.ms - START.ms, 10000);
    assert_int_equal(schedule_fire_until(&fixture, WAY_STOPPED, 35000, &due_ms), 2);
    assert_int_equal(due_ms, 30000);
    fixture_deinit(&fixture);
}

static bool schedule_has_zone;

static enum error_code schedule_find_zone(void *context, struct bytes name,
                                          const struct zone **ret_zone)
{
    (void)context;
    assert_true(bytes_equal(name, BYTES("US/Pacific")));
    *ret_zone = zone_utc();
    return schedule_has_zone ? ERROR_NONE : ERROR_NOT_FOUND;
}

/* The time zone of a timer is not on the machine: it waits, says why, and goes on when the zone is
 * there, also over restarts, with the last firing that it missed. */
/* proves: zone-missing */
static void test_waits_for_its_zone(void **state)
{
    const char *const text =
        "{\"cron\":\"0 8 * * *\",\"timezone\":\"US/Pacific\",\"dst\":\"shift\"}";
    const uint64_t day_ms = 24 * HOUR_MS;
    uint64_t due_ms = 0;

    (void)state;
    for (int way = 0; way < WAY_COUNT; way += WAY_NO_WORKER) {
        struct engine_fixture fixture;
        fixture_prepare(&fixture);
        fixture.options.zones.find = schedule_find_zone;
        schedule_has_zone = true;
        fixture_open(&fixture);
        struct timer_id id = create_timer(
            &fixture, recurring_at(way ? "queue:q" : "http://a.example/", text, day_ms));
        fixture_close(&fixture);
        schedule_has_zone = false;
        fixture_open(&fixture);
        for (uint64_t hours = 24; hours < 72; hours += 8)
            assert_int_equal(schedule_fire_until(&fixture, (enum way)way, hours * HOUR_MS, &due_ms),
                             0);
        fixture_close(&fixture);
        fixture_open(&fixture);
        struct command get = {.kind = COMMAND_GET, .id = id};
        fixture_command(&fixture, &get);
        assert_int_equal(get.error, ERROR_NONE);
        assert_true(bytes_equal(get.timer->texts.last_error,
                                BYTES("waits: There is no time zone \"US/Pacific\"")));
        assert_int_equal(get.timer->attempts, 0);
        assert_int_equal(get.timer->version, 2); /* once, however often it is looked at */
        fixture_carry_out(&fixture);
        schedule_has_zone = true;
        fixture_advance_to(&fixture, 3 * day_ms);
        assert_int_equal(schedule_fire_until(&fixture, (enum way)way, 3 * day_ms + 120000, &due_ms),
                         1);
        assert_int_equal(due_ms, 3 * day_ms);
        assert_int_equal(schedule_fire_until(&fixture, (enum way)way, 4 * day_ms, &due_ms), 1);
        get = (struct command){.kind = COMMAND_GET, .id = id};
        fixture_command(&fixture, &get);
        assert_int_equal(get.timer->texts.last_error.size, 0);
        fixture_carry_out(&fixture);
        fixture_deinit(&fixture);
    }
}

/* proves: missed */
static void test_each_missed_fires_unless_too_late(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    create_recurring(&fixture,
                     "{\"every\":\"10s\",\"late\":{\"drop_after\":\"1m\",\"missed\":\"each\"}}",
                     10000);
    fixture_close(&fixture);
    fixture.now.ms = START.ms + HOUR_MS;
    fixture_open(&fixture);
    uint64_t due_ms[400];
    assert_int_equal(deliver_until(&fixture, HOUR_MS + 500, due_ms, 400), 7);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(due_ms[i], HOUR_MS - 60000 + 10000 * i);
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.dropped, 1);
    fixture_deinit(&fixture);
}

/* Once and too late: it is dropped, which is told, and not delivered. */
/* proves: drop-after */
static void test_one_that_is_too_late_is_dropped(void **state)
{
    const char *const schedule = "{\"late\":{\"drop_after\":\"5s\"}}";

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id dropped = create_recurring(&fixture, schedule, 1000);
    struct timer_id fired = create_recurring(&fixture, schedule, 2000);
    fixture_advance_to(&fixture, 7000);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(timer_id_equal(&fixture_first_out(&fixture)->timer->id, &fired));
    enum timer_state shown;
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &dropped, 0, &shown), ERROR_GONE);
    assert_int_equal(shown, TIMER_DEAD);
    /* Redriven for a time when it is too late again it is due then, and not dropped once more. */
    struct command redrive = {
        .kind = COMMAND_REDRIVE, .id = dropped, .not_before = wall_add(fixture.now, HOUR_MS)};
    fixture_command(&fixture, &redrive);
    assert_int_equal(redrive.error, ERROR_NONE);
    assert_int_equal(redrive.timer->due.ms, redrive.not_before.ms);
    fixture_carry_out(&fixture);
    fixture_advance_to(&fixture, 7000 + HOUR_MS);
    assert_int_equal(fixture.delivered_count, 2);
    fixture_deinit(&fixture);
}

/* A firing that runs out of attempts is given up, the next one comes; a target that wants no more
 * ends the timer. */
static void test_failed_firings(void **state)
{
    struct timer *timer = recurring("{\"every\":\"1h\"}", HOUR_MS);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    timer->retry.attempts_max = 2;
    fixture_command(&fixture, &command);
    fixture_carry_out(&fixture);
    for (int attempt = 0; attempt < 2; attempt++) {
        fixture_advance_to(&fixture, HOUR_MS + (uint64_t)attempt * 60000);
        fixture_answer(&fixture, fixture_first_out(&fixture),
                       (struct delivery_outcome){.result = DELIVERY_FAILED});
    }
    enum timer_state shown;
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &created.id, 0, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_SCHEDULED);
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    assert_int_equal(fixture_first_out(&fixture)->attempt, 1);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED});
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &created.id, 0, &shown), ERROR_GONE);
    assert_int_equal(shown, TIMER_DEAD);
    fixture_deinit(&fixture);
}

/* A timer of a queue goes on when it is acknowledged and when it runs out of attempts; what was
 * handed back unseen is the same firing still. A redriven one has its schedule again. */
static void test_recurring_in_a_queue(void **state)
{
    struct timer *timer = recurring_at("queue:q", "{\"every\":\"1h\"}", HOUR_MS);

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    timer->retry.attempts_max = 1;
    struct timer_id id = create_timer(&fixture, timer);
    assert_null(schedule_pull(&fixture));
    enum timer_state shown;
    struct delivery *delivery;
    for (uint64_t hours = 1; hours <= 4; hours++) {
        fixture_advance_to(&fixture, hours * HOUR_MS);
        fixture_answer(&fixture, schedule_pull(&fixture),
                       (struct delivery_outcome){.result = DELIVERY_RETURNED});
        delivery = schedule_pull(&fixture);
        assert_int_equal(delivery->timer->due.ms - START.ms, hours * HOUR_MS);
        assert_int_equal(delivery->attempt, 1);
        fixture_answer(
            &fixture, delivery,
            (struct delivery_outcome){.result = hours % 2 ? DELIVERY_DONE : DELIVERY_FAILED});
        assert_null(schedule_pull(&fixture));
        assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, &shown), ERROR_NONE);
        assert_int_equal(shown, TIMER_SCHEDULED);
    }
    fixture_advance_to(&fixture, 5 * HOUR_MS);
    fixture_answer(&fixture, schedule_pull(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED});
    fixture_close(&fixture);
    fixture_open(&fixture);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    fixture_answer(&fixture, schedule_pull(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
    fixture_advance_to(&fixture, 6 * HOUR_MS);
    delivery = schedule_pull(&fixture);
    assert_int_equal(delivery->timer->due.ms - START.ms, 6 * HOUR_MS);
    fixture_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
    fixture_deinit(&fixture);
}

/* What nobody pulled in time is dropped when it would be handed out, and the next one is. What was
 * dropped fires at once when it is redriven. */
/* proves: drop-after, redrive */
static void test_too_late_for_its_worker(void **state)
{
    const char *const schedule = "{\"late\":{\"drop_after\":\"5s\"}}";

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id dropped = create_timer(&fixture, recurring_at("queue:q", schedule, 1000));
    create_timer(&fixture, recurring_at("queue:q", schedule, 1500));
    create_timer(&fixture, recurring_at("queue:q", schedule, 2000));
    fixture_advance_to(&fixture, 7000);
    struct delivery *delivery = schedule_pull(&fixture);
    assert_int_equal(delivery->timer->due.ms - START.ms, 2000);
    fixture_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
    assert_null(schedule_pull(&fixture));
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.dropped, 2);
    assert_int_equal(stats.pulled, 0);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &dropped, 0, NULL), ERROR_NONE);
    delivery = schedule_pull(&fixture);
    assert_int_equal(delivery->timer->due.ms - START.ms, 7000);
    fixture_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
    fixture_deinit(&fixture);
}

/* The spread moves every firing by the same; a clock that is far on finds the next one at once. */
/* proves: spread */
static void test_spread_and_far_clock(void **state)
{
    const struct schedule_spec spec = {.every_ms = 1000,
                                       .from = WALL_NEVER,
                                       .until = WALL_NEVER,
                                       .drop_after_ms = UINT64_MAX,
                                       .spread_ms = 300};

    (void)state;
    struct schedule schedule;
    assert_int_equal(schedule_make(&spec, START, (struct bytes){0}, &utc_only, &schedule, NULL),
                     ERROR_NONE);
    assert_int_equal(schedule_first(&schedule, START).ms, START.ms + 1300);
    assert_int_equal(schedule_next(&schedule, (struct wall){START.ms + 1300}, START).ms,
                     START.ms + 2300);
    assert_int_equal(schedule_next(&schedule, (struct wall){START.ms + 1300},
                                   (struct wall){START.ms + 365 * 24 * HOUR_MS + 299})
                         .ms,
                     START.ms + 365 * 24 * HOUR_MS - 700);
}

/* Goal: a timer that another daemon had is made as it was. Method: a paused one, one that was
 * tried, and one that is due; then a new engine, and what each of them does. */
/* proves: import-restore */
static void test_a_timer_is_made_as_it_was(void **state)
{
    struct timer_id ids[3];

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (size_t i = 0; i < 3; i++) {
        struct timer *timer = recurring("{\"every\":\"10s\"}", 0);

        timer->created = (struct wall){START.ms - 25000};
        timer->due = (struct wall){START.ms - 5000};
        timer->version = 7;
        timer->attempts = i == 1 ? 3 : 0;
        timer->state = i == 0 ? TIMER_PAUSED : i == 1 ? TIMER_RETRYING : TIMER_SCHEDULED;
        timer->at = i == 0   ? STORAGE_PAUSED_AT
                    : i == 1 ? (struct wall){START.ms + 60000} /* its next attempt */
                             : (struct wall){0};
        timer->paused = (struct wall){i == 0 ? START.ms - 6000 : 0};
        ids[i] = create_timer(&fixture, timer);
        fixture_close(&fixture);
        fixture_open(&fixture);
    }
    fixture_advance_to(&fixture, 1000);
    for (size_t i = 0; i < 3; i++) {
        struct command get = {.kind = COMMAND_GET, .id = ids[i]};

        fixture_command(&fixture, &get);
        fixture_carry_out(&fixture);
        assert_int_equal(get.error, ERROR_NONE);
        assert_int_equal(get.timer->created.ms, START.ms - 25000);
        if (i == 0) {
            assert_int_equal(get.timer->version, 7);
            assert_int_equal(get.timer->state, TIMER_PAUSED);
            assert_int_equal(get.timer->due.ms, START.ms - 5000);
        }
    }
    assert_int_equal(fixture_ask(&fixture, COMMAND_RESUME, &ids[0], 0, NULL), ERROR_NONE);
    fixture_advance_to(&fixture, 2000);
    assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms - 5000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_advance_to(&fixture, 5000); /* in its phase */
    assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms + 5000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

/* 1970 is an instant as any other: `every` from there is aligned to it, and the text says so. */
/* proves: every-start */
static void test_from_1970(void **state)
{
    struct schedule_spec spec = SCHEDULE_SPEC_DEFAULT, read;
    struct schedule schedule;
    struct buffer text;

    (void)state;
    buffer_init(&text);
    spec.every_ms = HOUR_MS;
    spec.from.ms = 0;
    schedule_write(&spec, &text);
    assert_true(bytes_equal(buffer_bytes(&text),
                            BYTES("{\"every\":\"1h\",\"from\":\"1970-01-01T00:00:00.000Z\"}")));
    assert_int_equal(schedule_read(buffer_bytes(&text), &read, NULL), ERROR_NONE);
    assert_int_equal(schedule_make(&read, (struct wall){START.ms + 1234567}, (struct bytes){0},
                                   &utc_only, &schedule, NULL),
                     ERROR_NONE);
    assert_int_equal(schedule_first(&schedule, (struct wall){START.ms + 1234567}).ms,
                     START.ms + HOUR_MS);
    assert_int_equal(schedule_next(&schedule, (struct wall){0}, (struct wall){0}).ms, HOUR_MS);
    buffer_deinit(&text);
}

struct schedule_rules {
    struct zones *zones;
    const char *like; /* the zone whose rules Test/Zone has now */
};

static enum error_code schedule_find_rules(void *context, struct bytes name,
                                           const struct zone **ret_zone)
{
    const struct schedule_rules *rules = context;

    assert_true(bytes_equal(name, BYTES("Test/Zone")));
    return zones_get(rules->zones, bytes_of(rules->like), ret_zone, NULL);
}

static struct wall schedule_due(struct engine_fixture *fixture, const struct timer_id *id)
{
    struct command get = {.kind = COMMAND_GET, .id = *id};

    fixture_command(fixture, &get);
    assert_int_equal(get.error, ERROR_NONE);
    const struct wall due = get.timer->due;
    fixture_carry_out(fixture);
    return due;
}

/* The rules of a zone change between two runs, with the second scan and without it: noon is noon by
 * the new rules, once a day. A time that a client set stays. */
/* proves: zone-rules */
static void test_follows_the_rules_of_its_zone(void **state)
{
    const char *const text =
        "{\"cron\":\"0 12 * * *\",\"timezone\":\"Test/Zone\",\"dst\":\"shift\"}";
    struct schedule_rules rules = {.like = ""};

    (void)state;
    assert_int_equal(zones_create(ZONES_FOLDER, &rules.zones, NULL), ERROR_NONE);
    for (int i = 0; i < 8; i++) {
        const bool is_later = i & 1, is_scanned = i & 2, is_by_hand = i & 4;
        const uint64_t before_h = is_later ? 3 : 4, after_h = is_later ? 4 : 3; /* START is 08:00 */
        struct engine_fixture fixture;
        struct schedule schedule;
        struct schedule_spec spec;
        char room[SCHEDULE_MARK_SIZE];

        if (!is_later && !is_scanned)
            continue; /* what is due earlier only the scan can know */
        fixture_prepare(&fixture);
        fixture.options.zones =
            (struct zone_source){.find = schedule_find_rules, .context = &rules};
        fixture.options.second_scan_ms = is_scanned ? 60000 : 0;
        rules.like = is_later ? "Europe/Berlin" : "Europe/London";
        fixture_open(&fixture);
        assert_int_equal(schedule_read(bytes_of(text), &spec, NULL), ERROR_NONE);
        assert_int_equal(
            schedule_make(&spec, START, (struct bytes){0}, &fixture.options.zones, &schedule, NULL),
            ERROR_NONE);
        const struct wall due = schedule_first(&schedule, START);
        assert_int_equal(due.ms - START.ms, before_h * HOUR_MS);
        struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                    .schedule = bytes_of(text),
                                    .zoned = schedule_mark(&schedule, due, room)};
        struct timer *timer = timer_alloc(&texts);
        timer->created = START;
        timer->due.ms = due.ms + is_by_hand * 600000;
        struct timer_id id = create_timer(&fixture, timer);
        fixture_close(&fixture);

        rules.like = is_later ? "Europe/London" : "Europe/Berlin";
        fixture_open(&fixture);
        fixture_advance_to(&fixture, 1000);
        if (is_by_hand || is_scanned)
            assert_int_equal(schedule_due(&fixture, &id).ms - START.ms,
                             is_by_hand ? before_h * HOUR_MS + 600000 : after_h * HOUR_MS);
        uint64_t due_ms[8];
        size_t count = 0;
        for (uint64_t ms = 1000; ms <= 53 * HOUR_MS; ms += 300000) {
            fixture_advance_to(&fixture, ms);
            for (struct delivery *out; (out = fixture_first_out(&fixture)); count++) {
                assert_true(count < 8);
                due_ms[count] = out->timer->due.ms - START.ms;
                fixture_answer(&fixture, out, (struct delivery_outcome){.result = DELIVERY_DONE});
            }
        }
        size_t at = 0;
        if (is_by_hand)
            assert_int_equal(due_ms[at++], before_h * HOUR_MS + 600000);
        if (!is_by_hand || is_later) /* noon by the new rules comes after the time set by hand */
            assert_int_equal(due_ms[at++], after_h * HOUR_MS);
        assert_int_equal(due_ms[at++], (24 + after_h) * HOUR_MS);
        assert_int_equal(due_ms[at++], (48 + after_h) * HOUR_MS);
        assert_int_equal(count, at);
        fixture_deinit(&fixture);
    }
    zones_destroy(rules.zones);
}

static enum error_code schedule_find_named(void *context, struct bytes name,
                                           const struct zone **ret_zone)
{
    return zones_get(context, name, ret_zone, NULL);
}

/* Puts a timer with this schedule under the key "k", as the API does. */
static struct timer_id schedule_put_key(struct engine_fixture *fixture, const char *text)
{
    struct schedule schedule;
    struct schedule_spec spec;
    struct command_created created;
    char room[SCHEDULE_MARK_SIZE];

    assert_int_equal(schedule_read(bytes_of(text), &spec, NULL), ERROR_NONE);
    assert_int_equal(schedule_make(&spec, fixture->now, (struct bytes){0}, &fixture->options.zones,
                                   &schedule, NULL),
                     ERROR_NONE);
    const struct wall due = schedule_first(&schedule, fixture->now);
    struct timer *timer =
        timer_alloc(&(struct timer_texts){.target = BYTES("http://a.example/"),
                                          .key = BYTES("k"),
                                          .schedule = bytes_of(text),
                                          .zoned = schedule_mark(&schedule, due, room)});
    timer->created = fixture->now;
    timer->due = due;
    struct command command = {
        .kind = COMMAND_PUT, .timers = &timer, .results = &created, .timer_count = 1};
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return created.id;
}

/* A timer gets another zone by a put, and its next instant is the same by both: it fires then. */
/* proves: zone-rules */
static void test_a_put_with_another_zone(void **state)
{
    struct engine_fixture fixture;
    struct zones *zones;

    (void)state;
    assert_int_equal(zones_create(ZONES_FOLDER, &zones, NULL), ERROR_NONE);
    for (int is_due = 0; is_due < 2; is_due++) {
        fixture_prepare(&fixture);
        fixture.options.zones = (struct zone_source){.find = schedule_find_named, .context = zones};
        fixture_open(&fixture);
        fixture_advance_to(&fixture, 60000);
        schedule_put_key(&fixture, "{\"cron\":\"*/5 * * * *\",\"timezone\":\"Europe/Berlin\","
                                   "\"dst\":\"shift\"}");
        if (is_due) /* the firing is due when the put comes, and its delivery has not begun */
            fixture.now = (struct wall){START.ms + 300000};
        const struct timer_id id = schedule_put_key(
            &fixture,
            "{\"cron\":\"*/5 * * * *\",\"timezone\":\"Europe/London\",\"dst\":\"shift\"}");
        assert_int_equal(schedule_due(&fixture, &id).ms, START.ms + 300000);
        fixture_advance_to(&fixture, 300000);
        assert_non_null(fixture_first_out(&fixture));
        assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms + 300000);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        assert_int_equal(schedule_due(&fixture, &id).ms, START.ms + 600000);
        fixture_deinit(&fixture);
    }
    zones_destroy(zones);
}

/* A patch of `spread` alone begins no count anew: what has fired still counts. */
/* proves: count, cron-count, patch-schedule */
static void test_another_spread_counts_on(void **state)
{
    static const char *const plans[] = {"\"cron\":\"* * * * *\"",
                                        "\"every\":\"1m\",\"from\":\"2027-01-15T08:01:00.000Z\","
                                        "\"only\":[\"FRI\"]"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct engine_fixture fixture;
        char text[200];
        uint64_t due_ms[8];

        fixture_init(&fixture);
        snprintf(text, sizeof(text), "{%s,\"count\":3}", plans[i]);
        struct timer *timer = recurring(text, 60000);
        timer->created.ms++; /* START itself is no instant of `cron` */
        struct timer_id id = create_timer(&fixture, timer);
        assert_int_equal(deliver_until(&fixture, 130000, due_ms, 8), 2);
        snprintf(text, sizeof(text), "{%s,\"count\":3,\"spread\":\"5s\"}", plans[i]);
        struct command patch = {.kind = COMMAND_PATCH,
                                .id = id,
                                .patch = recurring(text, 185000),
                                .patch_fields = PATCH_SCHEDULE | PATCH_DUE};
        fixture_command(&fixture, &patch);
        assert_int_equal(patch.error, ERROR_NONE);
        fixture_carry_out(&fixture);
        assert_int_equal(deliver_until(&fixture, 600000, due_ms, 8), 1);
        assert_int_equal(due_ms[0], 185000);
        fixture_deinit(&fixture);
    }
}

/* A firing that its target refuses for good is redriven, and the timer counts on from there. */
/* proves: cron-count, redrive */
static void test_a_refused_firing_counts_on(void **state)
{
    struct engine_fixture fixture;
    char counted[SCHEDULE_COUNTED_SIZE];
    uint64_t due_ms[8];

    (void)state;
    fixture_init(&fixture);
    /* its schedule is newer than the timer, so that it counts from START on */
    struct timer *timer = timer_alloc(&(struct timer_texts){
        .target = BYTES("http://a.example/"),
        .schedule = BYTES("{\"cron\":\"* * * * *\",\"count\":2}"),
        .counted = schedule_counted_anew((struct wall){START.ms + 1}, counted)});
    timer->created.ms = START.ms - HOUR_MS;
    timer->due.ms = START.ms + 60000;
    struct timer_id id = create_timer(&fixture, timer);
    fixture_advance_to(&fixture, 60000);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "HTTP 410"});
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(deliver_until(&fixture, 600000, due_ms, 8), 2);
    assert_int_equal(due_ms[0], 60000);
    assert_int_equal(due_ms[1], 120000);
    fixture_deinit(&fixture);
}

/* With `overlap` `skip` firings beyond `count` are not skipped: they are not planned. */
/* proves: cron-count, overlap-skip */
static void test_no_firing_beyond_count_is_skipped(void **state)
{
    struct engine_fixture fixture;
    struct run run = {.count = 0};

    (void)state;
    fixture_init(&fixture);
    struct timer *timer =
        recurring("{\"cron\":\"* * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"count\":3,"
                  "\"overlap\":\"skip\"}",
                  60000);
    timer->created.ms++; /* START itself is no instant of it */
    struct timer_id id = create_timer(&fixture, timer);
    fixture_advance_to(&fixture, 60000);
    fixture_advance_to(&fixture, 600000); /* the delivery takes nine minutes */
    fixture_answer_all(&fixture, DELIVERY_DONE);
    struct command get = {.kind = COMMAND_GET, .id = id};
    fixture_command(&fixture, &get);
    assert_int_equal(get.error, ERROR_GONE);
    struct bytes runs = get.timer->texts.runs;
    assert_true(runs_next(&runs, &run));
    assert_int_equal(run.outcome, RUN_SKIPPED);
    assert_int_equal(run.count, 2);
    assert_int_equal(run.planned.ms, START.ms + 120000);
    assert_int_equal(run.until.ms, START.ms + 180000);
    fixture_carry_out(&fixture);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_says_what_was_asked),
        cmocka_unit_test(test_fires_each_as_planned_and_ends),
        cmocka_unit_test(test_the_last_missed_fires_alone),
        cmocka_unit_test(test_a_firing_that_began_is_retried),
        cmocka_unit_test(test_waits_for_its_zone),
        cmocka_unit_test(test_each_missed_fires_unless_too_late),
        cmocka_unit_test(test_one_that_is_too_late_is_dropped),
        cmocka_unit_test(test_failed_firings),
        cmocka_unit_test(test_recurring_in_a_queue),
        cmocka_unit_test(test_too_late_for_its_worker),
        cmocka_unit_test(test_a_timer_is_made_as_it_was),
        cmocka_unit_test(test_spread_and_far_clock),
        cmocka_unit_test(test_from_1970),
        cmocka_unit_test(test_follows_the_rules_of_its_zone),
        cmocka_unit_test(test_a_put_with_another_zone),
        cmocka_unit_test(test_another_spread_counts_on),
        cmocka_unit_test(test_a_refused_firing_counts_on),
        cmocka_unit_test(test_no_firing_beyond_count_is_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
