/*
 * Timers found by name: keys are held by one live timer at a time, a request that comes twice makes
 * one timer, and an event ends all that watch it. Each test sets up a small history; what happens
 * in disorder is the simulation's concern (tests/world).
 */
#include "engine/commands.h"
#include "engine/engine_testing.h"

#include <stdio.h>
#include <string.h>

/* What is asked of a create, and what came of it. */
struct names_asked {
    const char *key, *watch, *request, *payload, *labels, *schedule;
    uint64_t due_ms;
    bool is_claim;
};

static struct timer *timer_of_asked(const struct names_asked *asked)
{
    struct timer_texts texts = {
        .target = asked->is_claim ? (struct bytes){0} : BYTES("http://a.example/"),
        .payload = bytes_of(asked->payload ? asked->payload : "{}"),
        .key = bytes_of(asked->key ? asked->key : ""),
        .watch = bytes_of(asked->watch ? asked->watch : ""),
        .request = bytes_of(asked->request ? asked->request : ""),
        .labels = bytes_of(asked->labels ? asked->labels : ""),
        .schedule = bytes_of(asked->schedule ? asked->schedule : ""),
    };
    struct timer *timer = timer_alloc(&texts);

    assert_non_null(timer);
    timer->due = (struct wall){START.ms + asked->due_ms};
    return timer;
}

static struct command_created names_make(struct engine_fixture *fixture, enum command_kind kind,
                                         const struct names_asked *asked)
{
    struct timer *timer = timer_of_asked(asked);
    struct command_created created;
    struct command command = {
        .kind = kind, .timers = &timer, .results = &created, .timer_count = 1};

    fixture_command(fixture, &command);
    assert_int_equal(created.error, command.error);
    fixture_carry_out(fixture);
    return created;
}

static enum error_code by_key(struct engine_fixture *fixture, enum command_kind kind,
                              const char *key, struct timer_id *ret_id)
{
    struct command command = {.kind = kind, .name = bytes_of(key)};

    fixture_command(fixture, &command);
    if (ret_id && command.timer)
        *ret_id = command.timer->id;
    fixture_carry_out(fixture);
    return command.error;
}

static struct command_completed names_complete(struct engine_fixture *fixture, const char *event,
                                               enum command_kind each)
{
    struct command command = {.kind = COMMAND_COMPLETE, .name = bytes_of(event), .each = each};

    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return command.completed;
}

/* Goal: a live key is one timer's. Method: the same again, another thing under it, and once more
 * when the first is over; all of it again with the timer in the storage alone, after a restart. */
/* proves: key */
static void test_a_key_is_one_live_timer(void **state)
{
    const struct names_asked first = {.key = "order-1", .due_ms = 2 * HOUR_MS};
    const struct names_asked other = {.key = "order-1", .due_ms = 2 * HOUR_MS, .payload = "[]"};
    struct timer_id id = {{0}, 0, 0};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct command_created created;
    for (int round = 0; round < 2; round++) {
        created = names_make(&fixture, COMMAND_CREATE, &first);
        assert_int_equal(created.error, ERROR_NONE);
        assert_int_equal(created.existed, round);
        fixture_close(&fixture);
        fixture_open(&fixture);
    }
    struct command_created again = names_make(&fixture, COMMAND_CREATE, &first);
    assert_true(again.existed && timer_id_equal(&again.id, &created.id));
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &other).error, ERROR_KEY_IN_USE);
    assert_int_equal(by_key(&fixture, COMMAND_GET, "order-1", &id), ERROR_NONE);
    assert_true(timer_id_equal(&id, &created.id));
    assert_int_equal(by_key(&fixture, COMMAND_GET, "order-2", NULL), ERROR_NOT_FOUND);
    assert_int_equal(by_key(&fixture, COMMAND_CANCEL, "order-1", NULL), ERROR_NONE);
    assert_int_equal(by_key(&fixture, COMMAND_GET, "order-1", NULL), ERROR_GONE);
    again = names_make(&fixture, COMMAND_CREATE, &other);
    assert_int_equal(again.error, ERROR_NONE);
    assert_false(again.existed || timer_id_equal(&again.id, &created.id));
    assert_int_equal(by_key(&fixture, COMMAND_GET, "order-1", &id), ERROR_NONE);
    assert_true(timer_id_equal(&id, &again.id));
    fixture_deinit(&fixture);
}

/* Goal: a delay is the same request however late it comes again. Method: due an hour after it was
 * accepted, twice, ten minutes apart; then due two hours after. */
/* proves: create-repeated */
static void test_the_same_delay_is_the_same_request(void **state)
{
    const struct names_asked asked = {.key = "k", .due_ms = HOUR_MS};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    names_make(&fixture, COMMAND_CREATE, &asked);
    for (uint64_t hours = 1; hours <= 2; hours++) {
        struct timer *timer = timer_of_asked(&asked);
        struct command_created created;
        struct command command = {
            .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

        fixture_advance_to(&fixture, 600 * 1000);
        timer->created = fixture.now;
        timer->due = wall_add(fixture.now, hours * HOUR_MS);
        fixture_command(&fixture, &command);
        fixture_carry_out(&fixture);
        assert_int_equal(created.error, hours == 1 ? ERROR_NONE : ERROR_KEY_IN_USE);
    }
    fixture_deinit(&fixture);
}

/* Goal: a schedule is the same request also when it has fired. Method: every hour, asked for again
 * after the first firing; then every two hours. */
/* proves: create-repeated */
static void test_the_same_schedule_is_the_same_request(void **state)
{
    const struct names_asked hourly = {
        .key = "k", .schedule = "{\"every\":\"1h\"}", .due_ms = HOUR_MS};
    const struct names_asked slower = {
        .key = "k", .schedule = "{\"every\":\"2h\"}", .due_ms = 2 * HOUR_MS};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct command_created created = names_make(&fixture, COMMAND_CREATE, &hourly);
    fixture_advance_to(&fixture, HOUR_MS);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    struct command_created again = names_make(&fixture, COMMAND_CREATE, &hourly);
    assert_true(!again.error && again.existed && timer_id_equal(&again.id, &created.id));
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &slower).error, ERROR_KEY_IN_USE);
    fixture_deinit(&fixture);
}

/* Goal: of creates that come at once with one key one wins, and each is answered. Method: a batch
 * of the same key many times beside timers without one, all before anything is durable. */
/* proves: create-conflict */
static void test_one_of_many_at_once_wins(void **state)
{
    enum { COUNT = 50 };
    struct timer *timers[COUNT];
    struct command_created created[COUNT];
    struct command command = {
        .kind = COMMAND_CREATE, .timers = timers, .results = created, .timer_count = COUNT};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (size_t i = 0; i < COUNT; i++)
        timers[i] = timer_of_asked(&(struct names_asked){
            .key = i % 5 ? "k" : "", .due_ms = HOUR_MS, .payload = i % 2 ? "{}" : "[]"});
    fixture_command(&fixture, &command);
    size_t made = 0, same = 0, refused = 0;
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 5 == 0) {
            assert_int_equal(created[i].error, ERROR_NONE);
            continue;
        }
        made += !created[i].error && !created[i].existed;
        same += !created[i].error && created[i].existed;
        refused += created[i].error == ERROR_KEY_IN_USE;
    }
    assert_int_equal(made, 1);
    assert_int_equal(same, 19);
    assert_int_equal(refused, 20);
    fixture_carry_out(&fixture);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, COUNT / 5 + 1);
    fixture_deinit(&fixture);
}

/* Goal: a request that comes twice makes one timer, also when that has fired meanwhile. Method: the
 * same Idempotency-Key before and after, with another body, and under another key. */
/* proves: idempotency */
static void test_a_repeated_request_makes_one_timer(void **state)
{
    const struct names_asked asked = {.request = "0123456789abcdefretry-1", .due_ms = 1000};
    const struct names_asked differs = {.request = "fedcba9876543210retry-1", .due_ms = 1000};
    const struct names_asked keyed = {
        .request = "0123456789abcdefretry-1", .key = "k", .due_ms = 1000};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct command_created created = names_make(&fixture, COMMAND_CREATE, &asked);
    assert_false(created.error || created.existed);
    struct command_created again = names_make(&fixture, COMMAND_CREATE, &asked);
    assert_true(again.existed && timer_id_equal(&again.id, &created.id));
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &differs).error, ERROR_REQUEST_DIFFERS);
    fixture_advance_to(&fixture, 1000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    again = names_make(&fixture, COMMAND_CREATE, &asked);
    assert_true(again.existed && timer_id_equal(&again.id, &created.id));
    assert_false(names_make(&fixture, COMMAND_CREATE, &keyed).existed);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_true(names_make(&fixture, COMMAND_CREATE, &keyed).existed); /* over, and still known */
    assert_int_equal(fixture.delivered_count, 2);
    fixture_deinit(&fixture);
}

static void assert_nothing_lives(struct engine_fixture *fixture)
{
    struct command list = {
        .kind = COMMAND_LIST,
        .scan = {.kind = STORAGE_SCAN_ALL, .to = {WALL_NEVER, 0}, .rows_max = 9, .bytes_max = 9999},
    };
    struct engine_stats stats;

    fixture_command(fixture, &list);
    assert_int_equal(list.error, ERROR_NONE);
    assert_int_equal(list.page.count, 0);
    engine_stats(fixture->engine, &stats);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.created, 0);
    fixture_carry_out(fixture);
}

/* Goal: a claim keeps its Idempotency-Key from other requests until its timer is forgotten, and is
 * no timer to anybody. Method: the same claim, another one and a timer without a key, before and
 * after a restart; then until the claim is forgotten, in small steps and in one. */
/* proves: idempotency-differs */
static void test_a_claim_keeps_its_name(void **state)
{
    const struct names_asked claim = {
        .request = "0123456789abcdefonce", .due_ms = HOUR_MS, .is_claim = true};
    const struct names_asked other = {.request = "fedcba9876543210once", .is_claim = true};
    const struct names_asked timer = {.request = "fedcba9876543210once", .due_ms = 9 * HOUR_MS};

    (void)state;
    for (uint64_t step_ms = 1000 * 60; step_ms <= 2 * HOUR_MS; step_ms += 2 * HOUR_MS - 60000) {
        struct engine_fixture fixture;

        fixture_init(&fixture);
        const uint64_t kept_ms = HOUR_MS + fixture.options.retain_ms;
        const struct timer_id id = names_make(&fixture, COMMAND_CREATE, &claim).id;
        for (uint64_t ms = 0; ms <= kept_ms; ms += step_ms) {
            fixture_advance_to(&fixture, ms);
            const struct command_created again = names_make(&fixture, COMMAND_CREATE, &claim);
            assert_true(again.is_repeated && timer_id_equal(&again.id, &id));
            assert_int_equal(names_make(&fixture, COMMAND_CREATE, &other).error,
                             ERROR_REQUEST_DIFFERS);
            assert_int_equal(names_make(&fixture, COMMAND_CREATE, &timer).error,
                             ERROR_REQUEST_DIFFERS);
            assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_NOT_FOUND);
            assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_NOT_FOUND);
            assert_nothing_lives(&fixture);
            fixture_close(&fixture);
            fixture_open(&fixture);
        }
        fixture_advance_to(&fixture, kept_ms + fixture.options.watermark_interval_ms + 1);
        assert_false(names_make(&fixture, COMMAND_CREATE, &timer).existed);
        assert_int_equal(names_make(&fixture, COMMAND_CREATE, &claim).error, ERROR_REQUEST_DIFFERS);
        fixture_deinit(&fixture);
    }
}

/* Goal: a claim whose commit failed is made by the next request. */
/* proves: io */
static void test_a_claim_after_a_failure(void **state)
{
    const struct names_asked claim = {
        .request = "0123456789abcdefonce", .due_ms = HOUR_MS, .is_claim = true};
    const struct names_asked other = {.request = "fedcba9876543210once", .is_claim = true};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &claim).error, ERROR_IO);
    assert_false(names_make(&fixture, COMMAND_CREATE, &claim).is_repeated);
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &other).error, ERROR_REQUEST_DIFFERS);
    assert_nothing_lives(&fixture);
    fixture_deinit(&fixture);
}

/* Goal: a put makes or replaces, under one id. Method: twice, with what it watches changed; then
 * both events, of which only the second is watched. */
/* proves: already-firing, put-create, complete-firing */
static void test_put_creates_and_replaces(void **state)
{
    const struct names_asked first = {.key = "k", .watch = "paid\n", .due_ms = HOUR_MS};
    const struct names_asked second = {.key = "k", .watch = "shipped\nlost\n", .due_ms = 2000};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct command_created created = names_make(&fixture, COMMAND_PUT, &first);
    assert_false(created.error || created.existed);
    struct command_created replaced = names_make(&fixture, COMMAND_PUT, &second);
    assert_true(replaced.existed && timer_id_equal(&replaced.id, &created.id));
    assert_int_equal(names_complete(&fixture, "paid", COMMAND_CANCEL).changed, 0);
    fixture_advance_to(&fixture, 2000);
    assert_int_equal(fixture.delivered_count, 1);
    assert_int_equal(names_make(&fixture, COMMAND_PUT, &first).error, ERROR_ALREADY_FIRING);
    assert_int_equal(names_complete(&fixture, "shipped", COMMAND_CANCEL).firing, 1);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(names_complete(&fixture, "lost", COMMAND_CANCEL).changed, 0);
    replaced = names_make(&fixture, COMMAND_PUT, &first);
    assert_false(replaced.existed || timer_id_equal(&replaced.id, &created.id));
    fixture_deinit(&fixture);
}

/* Goal: a put that is to replace makes no timer. Method: one that must find its timer, before there
 * is one, at another version, as it should be, and when the timer is over. */
/* proves: put-if-match */
static void test_put_replaces_only_what_lives(void **state)
{
    const struct names_asked asked = {.key = "k", .due_ms = HOUR_MS};
    static const struct {
        uint32_t if_version;
        enum error_code code;
    } cases[] = {{0, ERROR_VERSION_MISMATCH},
                 {2, ERROR_VERSION_MISMATCH},
                 {1, ERROR_NONE},
                 {0, ERROR_NONE},
                 {3, ERROR_VERSION_MISMATCH}};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (size_t i = 0; i < 5; i++) {
        struct timer *timer = timer_of_asked(&asked);
        struct command_created created;
        struct command command = {.kind = COMMAND_PUT,
                                  .timers = &timer,
                                  .results = &created,
                                  .timer_count = 1,
                                  .if_version = cases[i].if_version,
                                  .must_exist = true};

        fixture_command(&fixture, &command);
        fixture_carry_out(&fixture);
        assert_int_equal(command.error, cases[i].code);
        if (i == 0)
            names_make(&fixture, COMMAND_CREATE, &asked);
        if (i == 3)
            assert_int_equal(by_key(&fixture, COMMAND_CANCEL, "k", NULL), ERROR_NONE);
    }
    assert_int_equal(by_key(&fixture, COMMAND_GET, "k", NULL), ERROR_GONE);
    fixture_deinit(&fixture);
}

/* Goal: of what is found only what this very request made counts as repeated. Method: the same put
 * and the same create again, then what another request made. */
/* proves: put-idempotency */
static void test_a_repetition_is_told_apart(void **state)
{
    const struct names_asked first = {
        .request = "0123456789abcdefput-1", .key = "k", .due_ms = HOUR_MS};
    const struct names_asked other = {
        .request = "0123456789abcdefput-2", .key = "k", .due_ms = HOUR_MS};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct command_created created = names_make(&fixture, COMMAND_PUT, &first);
    assert_false(created.existed || created.is_repeated);
    for (int i = 0; i < 2; i++) {
        created = names_make(&fixture, i ? COMMAND_CREATE : COMMAND_PUT, &first);
        assert_true(created.existed && created.is_repeated);
        created = names_make(&fixture, COMMAND_CREATE, &other);
        assert_true(created.existed && !created.is_repeated);
    }
    created = names_make(&fixture, COMMAND_PUT, &other); /* it replaces */
    assert_true(created.existed && !created.is_repeated);
    assert_true(names_make(&fixture, COMMAND_PUT, &first).is_repeated);
    fixture_deinit(&fixture);
}

/* Goal: a put begins its schedule anew. Method: what was made an hour ago is replaced by two
 * firings every ten seconds, counted from now. */
/* proves: put-replace */
static void test_put_begins_a_schedule_anew(void **state)
{
    const struct names_asked first = {.key = "k", .due_ms = 2 * HOUR_MS};
    const struct names_asked second = {
        .key = "k", .schedule = "{\"every\":\"10s\",\"count\":2}", .due_ms = HOUR_MS + 10 * 1000};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    names_make(&fixture, COMMAND_PUT, &first);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_true(names_make(&fixture, COMMAND_PUT, &second).existed);
    for (uint64_t firing = 1; firing <= 3; firing++) {
        fixture_advance_to(&fixture, HOUR_MS + firing * 10 * 1000);
        assert_int_equal(fixture.delivered_count, firing < 2 ? firing : 2);
        fixture_answer_all(&fixture, DELIVERY_DONE);
    }
    fixture_deinit(&fixture);
}

/* Goal: a put that asks for the schedule that is there leaves its phase and its firing. Method: the
 * put of a deploy every two seconds, over a timer that fires every three; then while its firing
 * waits for another attempt, with another payload and with another period. */
/* proves: put-equal */
static void test_an_equal_put_moves_nothing(void **state)
{
    struct names_asked asked = {
        .key = "k", .schedule = "{\"every\":\"3s\"}", .due_ms = 3000, .payload = "1"};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    names_make(&fixture, COMMAND_PUT, &asked);
    for (uint64_t ms = 1000; ms <= 12000; ms += 1000) {
        fixture_advance_to(&fixture, ms);
        assert_int_equal(fixture.delivered_count, ms / 3000);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        asked.due_ms = ms + 3000;
        if (ms % 2000 == 0)
            assert_true(names_make(&fixture, COMMAND_PUT, &asked).existed);
    }
    fixture_advance_to(&fixture, 15000);
    struct timer_id id = fixture_first_out(&fixture)->timer->id;
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_FAILED, .error = "down"});
    static const char *const schedules[] = {"{\"every\":\"3s\"}", "{\"every\":\"5s\"}"};
    for (size_t i = 0; i < 2; i++) {
        asked = (struct names_asked){
            .key = "k", .schedule = schedules[i], .due_ms = 30000, .payload = i ? "2" : "1"};
        names_make(&fixture, COMMAND_PUT, &asked);
        struct command get = {.kind = COMMAND_GET, .id = id};
        fixture_command(&fixture, &get);
        assert_int_equal(get.timer->due.ms, START.ms + 15000);
        assert_int_equal(get.timer->state, TIMER_RETRYING);
        assert_int_equal(get.timer->attempts, 1);
        assert_true(bytes_equal(get.timer->texts.last_error, BYTES("down")));
        fixture_carry_out(&fixture);
    }
    fixture_advance_to(&fixture, 40000);
    assert_int_equal(fixture_first_out(&fixture)->timer->due.ms, START.ms + 15000);
    assert_true(bytes_equal(fixture_first_out(&fixture)->timer->texts.payload, BYTES("2")));
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

/* Goal: a patch of all that have a label reaches those that are due at its time already. Method: of
 * two timers one is; and once more, when there is nothing left to change. */
/* proves: bulk-reschedule */
static void test_labels_are_patched_whenever_due(void **state)
{
    const struct names_asked values = {.due_ms = HOUR_MS, .payload = "[]"};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (uint64_t hours = 1; hours <= 2; hours++)
        names_make(&fixture, COMMAND_CREATE,
                   &(struct names_asked){.labels = "{\"a\":\"b\"}", .due_ms = hours * HOUR_MS});
    for (uint64_t changed = 2; changed <= 2; changed -= 2) {
        struct command command = {.kind = COMMAND_COMPLETE,
                                  .labels = BYTES("{\"a\":\"b\"}"),
                                  .each = COMMAND_PATCH,
                                  .patch_fields = PATCH_DUE | PATCH_PAYLOAD,
                                  .patch = timer_of_asked(&values)};

        fixture_command(&fixture, &command);
        assert_int_equal(command.error, ERROR_NONE);
        assert_int_equal(command.completed.changed, changed);
        fixture_carry_out(&fixture);
    }
    fixture_deinit(&fixture);
}

/* Goal: two changes by label that each move timers to now come to an end. Method: pages of one row,
 * a clock that goes on with each, and no room to deliver. */
/* proves: bulk-selection */
static void test_two_sweeps_come_to_an_end(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture_close(&fixture);
    fixture.options.inflight_max = 0;
    fixture.options.scan_rows_max = 1;
    fixture_open(&fixture);
    for (uint64_t i = 1; i <= 3; i++)
        names_make(&fixture, COMMAND_CREATE,
                   &(struct names_asked){.labels = "{\"a\":\"b\"}", .due_ms = i});
    struct command commands[2];
    for (size_t i = 0; i < 2; i++) {
        commands[i] = (struct command){
            .kind = COMMAND_COMPLETE,
            .labels = BYTES("{\"a\":\"b\"}"),
            .each = COMMAND_PATCH,
            .patch_fields = PATCH_DUE | PATCH_PAYLOAD,
            .patch = timer_of_asked(&(struct names_asked){.payload = i ? "[]" : "{}"}),
        };
        turn_submit(fixture.engine, fixture.now, &commands[i]);
    }
    size_t answered = 0;
    for (size_t round = 0; answered < 2; round++) {
        struct storage_batch *batch = engine_take_batch(fixture.engine);
        struct engine_read *read = batch ? NULL : engine_take_read(fixture.engine);

        assert_true(round < 1000);
        fixture.now.ms++;
        if (batch) {
            batch->result = storage_write(fixture.storage, &batch, 1, NULL);
            turn_committed(fixture.engine, fixture.now, batch);
        } else if (read) {
            engine_read_perform(read, fixture.storage);
            turn_read_done(fixture.engine, fixture.now, read);
        } else {
            turn_advance(fixture.engine, fixture.now);
        }
        while (engine_take_reply(fixture.engine))
            answered++;
    }
    fixture_carry_out(&fixture);
    fixture_deinit(&fixture);
}

/* Goal: a call by label of one tenant does not wait until those of another have gone through all
 * timers. Method: ten calls of one and then one of the other, over several pages of timers. */
/* proves: tenant-shares */
static void test_tenants_sweep_in_turn(void **state)
{
    enum { GREEDY = 10, PAGES = 3 };
    struct command commands[GREEDY + 1];
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    for (uint64_t i = 0; i < (PAGES - 1) * SCAN_LOOKS + 1; i++)
        names_make(&fixture, COMMAND_CREATE, &(struct names_asked){.due_ms = HOUR_MS + i});
    for (size_t i = 0; i <= GREEDY; i++) {
        commands[i] = (struct command){.kind = COMMAND_COMPLETE,
                                       .labels = BYTES("{\"no\":\"timer\"}"),
                                       .tenant = i < GREEDY ? BYTES("greedy") : BYTES("quiet"),
                                       .each = COMMAND_CANCEL};
        turn_submit(fixture.engine, fixture.now, &commands[i]);
    }
    size_t before = 0, answered = 0, reads = 0;
    for (struct engine_read *read; (read = engine_take_read(fixture.engine)); reads++) {
        engine_read_perform(read, fixture.storage);
        turn_read_done(fixture.engine, fixture.now, read);
        for (struct command *reply; (reply = engine_take_reply(fixture.engine)); answered++)
            if (reply == &commands[GREEDY])
                before = answered;
        engine_check(fixture.engine);
    }
    assert_int_equal(answered, GREEDY + 1);
    assert_int_equal(reads, (GREEDY + 1) * PAGES);
    assert_true(before <= 1); /* the two that began go through all at the same pace */
    fixture_deinit(&fixture);
}

/* Goal: an event ends all that watch it, near and far, and nothing else. Method: more watchers than
 * one page of them holds, some far ahead, some that watch other events; then time goes past all. */
/* proves: complete */
static void test_an_event_completes_all_that_watch(void **state)
{
    enum { COUNT = 1000 };

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (size_t i = 0; i < COUNT; i++)
        names_make(&fixture, COMMAND_CREATE,
                   &(struct names_asked){.watch = i % 4 ? "order\nevery\n" : "other\nevery\n",
                                         .due_ms = i % 2 ? 5000 : 24 * HOUR_MS});
    assert_int_equal(names_complete(&fixture, "nothing", COMMAND_CANCEL).changed, 0);
    assert_int_equal(names_complete(&fixture, "order", COMMAND_CANCEL).changed, COUNT / 4 * 3);
    assert_int_equal(names_complete(&fixture, "order", COMMAND_CANCEL).changed, 0);
    fixture_advance_to(&fixture, 6000);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(names_complete(&fixture, "every", COMMAND_FIRE).changed, COUNT / 4);
    fixture_advance_to(&fixture, 6001);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, COUNT / 4);
    assert_int_equal(names_complete(&fixture, "other", COMMAND_CANCEL).changed, 0);
    fixture_deinit(&fixture);
}

/* Goal: of many events each is answered for itself, in its place. Method: more of them than are
 * begun at once, some that nobody watches, one twice, one with more watchers than a page, one whose
 * timer is being delivered. */
/* proves: complete-many */
static void test_many_events_are_each_answered(void **state)
{
    enum { COUNT = 2000, WATCHERS = 300, FIRING = 7, CROWDED = 11, TWICE = 13 };
    static char names[COUNT][16];
    static struct command_event events[COUNT];
    struct command command = {
        .kind = COMMAND_COMPLETE, .each = COMMAND_CANCEL, .events = events, .event_count = COUNT};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (size_t i = 0; i < COUNT; i++) {
        size_t watchers = i == CROWDED ? WATCHERS : i % 3 != 0;

        snprintf(names[i], sizeof(names[i]), "e%zu\n", i == COUNT - 1 ? TWICE : i);
        for (size_t j = 0; j < watchers && i < COUNT - 1; j++)
            names_make(
                &fixture, COMMAND_CREATE,
                &(struct names_asked){.watch = names[i], .due_ms = i == FIRING ? 0 : HOUR_MS});
        events[i] = (struct command_event){.name = {names[i], strlen(names[i]) - 1}};
    }
    fixture_command(&fixture, &command);
    fixture_carry_out(&fixture);
    assert_int_equal(command.error, ERROR_NONE);
    uint64_t twice = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t watchers = i == CROWDED ? WATCHERS : i % 3 != 0;

        assert_int_equal(events[i].error, ERROR_NONE);
        assert_int_equal(events[i].completed.firing, i == FIRING);
        if (i == TWICE || i == COUNT - 1)
            twice += events[i].completed.changed;
        else
            assert_int_equal(events[i].completed.changed, i == FIRING ? 0 : watchers);
    }
    assert_int_equal(twice, 1);
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_deinit(&fixture);
}

/* Goal: an event that fails is told of, and the others are done. Method: the first look-up fails,
 * then, asked again, the first commit. */
/* proves: complete-many */
static void test_one_of_many_events_may_fail(void **state)
{
    struct command_event events[] = {{.name = BYTES("a")}, {.name = BYTES("b")}};
    struct command command = {
        .kind = COMMAND_COMPLETE, .each = COMMAND_FIRE, .events = events, .event_count = 2};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    names_make(&fixture, COMMAND_CREATE, &(struct names_asked){.watch = "a\n", .due_ms = HOUR_MS});
    names_make(&fixture, COMMAND_CREATE, &(struct names_asked){.watch = "b\n", .due_ms = HOUR_MS});
    memory_storage_fail_read(fixture.storage, 1, ERROR_IO);
    fixture_command(&fixture, &command);
    fixture_carry_out(&fixture);
    assert_int_equal(events[0].error, ERROR_IO);
    assert_int_equal(events[1].error, ERROR_NONE);
    assert_int_equal(events[1].completed.changed, 1);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_DISK_FULL);
    for (size_t round = 0; round < 2; round++) {
        fixture_command(&fixture, &command);
        fixture_carry_out(&fixture);
        assert_int_equal(events[0].error, round ? ERROR_NONE : ERROR_DISK_FULL);
        assert_int_equal(events[0].completed.changed, round);
        assert_int_equal(events[1].completed.firing, 1);
    }
    assert_int_equal(fixture.delivered_count, 2);
    fixture_deinit(&fixture);
}

/* Goal: a dead letter that is redriven has its names again, unless another timer has had its key
 * since. */
/* proves: redrive */
static void test_a_redriven_timer_has_its_names_again(void **state)
{
    const struct names_asked asked = {.key = "k", .watch = "paid:1\n"};
    const struct names_asked other = {.key = "k", .payload = "[]", .due_ms = HOUR_MS};
    const struct delivery_outcome refused = {.result = DELIVERY_ENDED, .error = "no"};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id = names_make(&fixture, COMMAND_CREATE, &asked).id;
    fixture_answer(&fixture, fixture_first_out(&fixture), refused);
    fixture_close(&fixture);
    fixture_open(&fixture);
    assert_int_equal(by_key(&fixture, COMMAND_GET, "k", NULL), ERROR_GONE);
    assert_int_equal(names_complete(&fixture, "paid:1", COMMAND_CANCEL).firing, 0);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(by_key(&fixture, COMMAND_GET, "k", NULL), ERROR_NONE);
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &other).error, ERROR_KEY_IN_USE);
    assert_int_equal(names_complete(&fixture, "paid:1", COMMAND_CANCEL).firing, 1);
    fixture_answer(&fixture, fixture_first_out(&fixture), refused);
    assert_int_equal(names_complete(&fixture, "paid:1", COMMAND_CANCEL).firing, 0);
    struct timer_id other_id = names_make(&fixture, COMMAND_CREATE, &other).id;
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_KEY_IN_USE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &other_id, 0, NULL), ERROR_NONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_KEY_IN_USE);
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &other).error, ERROR_NONE);
    fixture_deinit(&fixture);
}

/* Goal: of a redrive and a create with the same key that come at once the one wins that
 * takes the lock first. */
static void test_a_redrive_takes_the_lock_of_its_key(void **state)
{
    const struct names_asked asked = {.key = "k"}, other = {.key = "k", .payload = "[]"};

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct timer *timer = timer_of_asked(&other);
        struct command_created created;
        struct command create = {
            .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
        struct command redrive = {.kind = COMMAND_REDRIVE};
        struct engine_fixture fixture;

        fixture_init(&fixture);
        redrive.id = names_make(&fixture, COMMAND_CREATE, &asked).id;
        fixture_answer(&fixture, fixture_first_out(&fixture),
                       (struct delivery_outcome){.result = DELIVERY_ENDED});
        turn_submit(fixture.engine, fixture.now, &redrive);
        if (round == 0) { /* it finds its timer and takes the lock */
            struct engine_read *read = engine_take_read(fixture.engine);

            engine_read_perform(read, fixture.storage);
            turn_read_done(fixture.engine, fixture.now, read);
        }
        turn_submit(fixture.engine, fixture.now, &create);
        fixture_carry_out(&fixture);
        assert_int_equal(redrive.error, round ? ERROR_KEY_IN_USE : ERROR_NONE);
        assert_int_equal(create.error, round ? ERROR_NONE : ERROR_KEY_IN_USE);
        fixture_deinit(&fixture);
    }
}

/* Goal: a failing storage leaves a name as it was, and every command is answered. Method: look-up
 * and write fail in turn; then the same create succeeds. */
/* proves: io */
static void test_a_failure_takes_no_name(void **state)
{
    const struct names_asked asked = {.key = "k", .due_ms = HOUR_MS};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    memory_storage_fail_read(fixture.storage, 1, ERROR_IO);
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &asked).error, ERROR_IO);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_DISK_FULL);
    assert_int_equal(names_make(&fixture, COMMAND_CREATE, &asked).error, ERROR_DISK_FULL);
    assert_int_equal(by_key(&fixture, COMMAND_GET, "k", NULL), ERROR_NOT_FOUND);
    struct command_created created = names_make(&fixture, COMMAND_CREATE, &asked);
    assert_false(created.error || created.existed);
    fixture_close(&fixture);
    fixture_open(&fixture); /* which knows the name from the storage alone */
    memory_storage_fail_read(fixture.storage, 1, ERROR_IO);
    assert_int_equal(by_key(&fixture, COMMAND_CANCEL, "k", NULL), ERROR_IO);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    assert_int_equal(names_make(&fixture, COMMAND_PUT, &asked).error, ERROR_IO);
    assert_int_equal(by_key(&fixture, COMMAND_CANCEL, "k", NULL), ERROR_NONE);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_is_one_live_timer),
        cmocka_unit_test(test_the_same_delay_is_the_same_request),
        cmocka_unit_test(test_the_same_schedule_is_the_same_request),
        cmocka_unit_test(test_one_of_many_at_once_wins),
        cmocka_unit_test(test_a_repeated_request_makes_one_timer),
        cmocka_unit_test(test_a_claim_keeps_its_name),
        cmocka_unit_test(test_a_claim_after_a_failure),
        cmocka_unit_test(test_put_creates_and_replaces),
        cmocka_unit_test(test_put_replaces_only_what_lives),
        cmocka_unit_test(test_a_repetition_is_told_apart),
        cmocka_unit_test(test_put_begins_a_schedule_anew),
        cmocka_unit_test(test_an_equal_put_moves_nothing),
        cmocka_unit_test(test_labels_are_patched_whenever_due),
        cmocka_unit_test(test_two_sweeps_come_to_an_end),
        cmocka_unit_test(test_tenants_sweep_in_turn),
        cmocka_unit_test(test_an_event_completes_all_that_watch),
        cmocka_unit_test(test_many_events_are_each_answered),
        cmocka_unit_test(test_one_of_many_events_may_fail),
        cmocka_unit_test(test_a_redriven_timer_has_its_names_again),
        cmocka_unit_test(test_a_redrive_takes_the_lock_of_its_key),
        cmocka_unit_test(test_a_failure_takes_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
