/*
 * Timers found by name: keys are held by one live timer at a time, a request that comes twice makes
 * one timer, and an event ends all that watch it. Each test sets up a small history; what happens
 * in disorder is the simulation's concern (tests/sim).
 */
#include "engine/engine_testing.h"

#include <stdio.h>
#include <string.h>

/* What is asked of a create, and what came of it. */
struct asked {
    const char *key, *watch, *request, *payload, *labels, *schedule;
    uint64_t due_ms;
};

static struct timer *timer_of_asked(const struct asked *asked)
{
    struct timer_texts texts = {
        .target = BYTES("http://a.example/"),
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

static struct command_created make(struct bed *bed, enum command_kind kind,
                                   const struct asked *asked)
{
    struct timer *timer = timer_of_asked(asked);
    struct command_created created;
    struct command command = {
        .kind = kind, .timers = &timer, .results = &created, .timer_count = 1};

    command_answer(bed, &command);
    assert_int_equal(created.error, command.error);
    carry_out(bed);
    return created;
}

static enum error_code by_key(struct bed *bed, enum command_kind kind, const char *key,
                              struct timer_id *ret_id)
{
    struct command command = {.kind = kind, .name = bytes_of(key)};

    command_answer(bed, &command);
    if (ret_id && command.timer)
        *ret_id = command.timer->id;
    carry_out(bed);
    return command.error;
}

static struct command_completed complete(struct bed *bed, const char *event, enum command_kind each)
{
    struct command command = {.kind = COMMAND_COMPLETE, .name = bytes_of(event), .each = each};

    command_answer(bed, &command);
    assert_int_equal(command.error, ERROR_NONE);
    carry_out(bed);
    return command.completed;
}

/* Goal: a live key is one timer's. Method: the same again, another thing under it, and once more
 * when the first is over; all of it again with the timer in the storage alone, after a restart. */
/* proves: key */
static void test_a_key_is_one_live_timer(void **state)
{
    const struct asked first = {.key = "order-1", .due_ms = 2 * HOUR_MS};
    const struct asked other = {.key = "order-1", .due_ms = 2 * HOUR_MS, .payload = "[]"};
    struct command_created created, again;
    struct timer_id id = {{0}, 0, 0};
    struct bed bed;

    (void)state;
    bed_init(&bed);
    for (int round = 0; round < 2; round++) {
        created = make(&bed, COMMAND_CREATE, &first);
        assert_int_equal(created.error, ERROR_NONE);
        assert_int_equal(created.existed, round);
        close_engine(&bed);
        open_engine(&bed);
    }
    again = make(&bed, COMMAND_CREATE, &first);
    assert_true(again.existed && timer_id_equal(&again.id, &created.id));
    assert_int_equal(make(&bed, COMMAND_CREATE, &other).error, ERROR_KEY_IN_USE);
    assert_int_equal(by_key(&bed, COMMAND_GET, "order-1", &id), ERROR_NONE);
    assert_true(timer_id_equal(&id, &created.id));
    assert_int_equal(by_key(&bed, COMMAND_GET, "order-2", NULL), ERROR_NOT_FOUND);
    assert_int_equal(by_key(&bed, COMMAND_CANCEL, "order-1", NULL), ERROR_NONE);
    assert_int_equal(by_key(&bed, COMMAND_GET, "order-1", NULL), ERROR_GONE);
    again = make(&bed, COMMAND_CREATE, &other);
    assert_int_equal(again.error, ERROR_NONE);
    assert_false(again.existed || timer_id_equal(&again.id, &created.id));
    assert_int_equal(by_key(&bed, COMMAND_GET, "order-1", &id), ERROR_NONE);
    assert_true(timer_id_equal(&id, &again.id));
    bed_deinit(&bed);
}

/* Goal: a delay is the same request however late it comes again. Method: due an hour after it was
 * accepted, twice, ten minutes apart; then due two hours after. */
/* proves: create-repeated */
static void test_the_same_delay_is_the_same_request(void **state)
{
    const struct asked asked = {.key = "k", .due_ms = HOUR_MS};
    struct command_created created;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    make(&bed, COMMAND_CREATE, &asked);
    for (uint64_t hours = 1; hours <= 2; hours++) {
        struct timer *timer = timer_of_asked(&asked);
        struct command command = {
            .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

        advance_to(&bed, 600 * 1000);
        timer->created = bed.now;
        timer->due = wall_add(bed.now, hours * HOUR_MS);
        command_answer(&bed, &command);
        carry_out(&bed);
        assert_int_equal(created.error, hours == 1 ? ERROR_NONE : ERROR_KEY_IN_USE);
    }
    bed_deinit(&bed);
}

/* Goal: a schedule is the same request also when it has fired. Method: every hour, asked for again
 * after the first firing; then every two hours. */
/* proves: create-repeated */
static void test_the_same_schedule_is_the_same_request(void **state)
{
    const struct asked hourly = {.key = "k", .schedule = "{\"every\":\"1h\"}", .due_ms = HOUR_MS};
    const struct asked slower = {
        .key = "k", .schedule = "{\"every\":\"2h\"}", .due_ms = 2 * HOUR_MS};
    struct command_created created, again;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    created = make(&bed, COMMAND_CREATE, &hourly);
    advance_to(&bed, HOUR_MS);
    answer_all(&bed, DELIVERY_DONE);
    again = make(&bed, COMMAND_CREATE, &hourly);
    assert_true(!again.error && again.existed && timer_id_equal(&again.id, &created.id));
    assert_int_equal(make(&bed, COMMAND_CREATE, &slower).error, ERROR_KEY_IN_USE);
    bed_deinit(&bed);
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
    size_t made = 0, same = 0, refused = 0;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    for (size_t i = 0; i < COUNT; i++)
        timers[i] = timer_of_asked(&(struct asked){
            .key = i % 5 ? "k" : "", .due_ms = HOUR_MS, .payload = i % 2 ? "{}" : "[]"});
    command_answer(&bed, &command);
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
    carry_out(&bed);
    advance_to(&bed, HOUR_MS);
    assert_int_equal(bed.delivered_count, COUNT / 5 + 1);
    bed_deinit(&bed);
}

/* Goal: a request that comes twice makes one timer, also when that has fired meanwhile. Method: the
 * same Idempotency-Key before and after, with another body, and under another key. */
/* proves: idempotency */
static void test_a_repeated_request_makes_one_timer(void **state)
{
    const struct asked asked = {.request = "0123456789abcdefretry-1", .due_ms = 1000};
    const struct asked differs = {.request = "fedcba9876543210retry-1", .due_ms = 1000};
    const struct asked keyed = {.request = "0123456789abcdefretry-1", .key = "k", .due_ms = 1000};
    struct command_created created, again;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    created = make(&bed, COMMAND_CREATE, &asked);
    assert_false(created.error || created.existed);
    again = make(&bed, COMMAND_CREATE, &asked);
    assert_true(again.existed && timer_id_equal(&again.id, &created.id));
    assert_int_equal(make(&bed, COMMAND_CREATE, &differs).error, ERROR_REQUEST_DIFFERS);
    advance_to(&bed, 1000);
    answer_all(&bed, DELIVERY_DONE);
    again = make(&bed, COMMAND_CREATE, &asked);
    assert_true(again.existed && timer_id_equal(&again.id, &created.id));
    assert_false(make(&bed, COMMAND_CREATE, &keyed).existed);
    answer_all(&bed, DELIVERY_DONE);
    assert_true(make(&bed, COMMAND_CREATE, &keyed).existed); /* over, and still known */
    assert_int_equal(bed.delivered_count, 2);
    bed_deinit(&bed);
}

/* Goal: a put makes or replaces, under one id. Method: twice, with what it watches changed; then
 * both events, of which only the second is watched. */
/* proves: already-firing, put-create, complete-firing */
static void test_put_creates_and_replaces(void **state)
{
    const struct asked first = {.key = "k", .watch = "paid\n", .due_ms = HOUR_MS};
    const struct asked second = {.key = "k", .watch = "shipped\nlost\n", .due_ms = 2000};
    struct command_created created, replaced;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    created = make(&bed, COMMAND_PUT, &first);
    assert_false(created.error || created.existed);
    replaced = make(&bed, COMMAND_PUT, &second);
    assert_true(replaced.existed && timer_id_equal(&replaced.id, &created.id));
    assert_int_equal(complete(&bed, "paid", COMMAND_CANCEL).changed, 0);
    advance_to(&bed, 2000);
    assert_int_equal(bed.delivered_count, 1);
    assert_int_equal(make(&bed, COMMAND_PUT, &first).error, ERROR_ALREADY_FIRING);
    assert_int_equal(complete(&bed, "shipped", COMMAND_CANCEL).firing, 1);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(complete(&bed, "lost", COMMAND_CANCEL).changed, 0);
    replaced = make(&bed, COMMAND_PUT, &first);
    assert_false(replaced.existed || timer_id_equal(&replaced.id, &created.id));
    bed_deinit(&bed);
}

/* Goal: a put that is to replace makes no timer. Method: one that must find its timer, before there
 * is one, at another version, as it should be, and when the timer is over. */
/* proves: put-if-match */
static void test_put_replaces_only_what_lives(void **state)
{
    const struct asked asked = {.key = "k", .due_ms = HOUR_MS};
    static const struct {
        uint32_t if_version;
        enum error_code code;
    } cases[] = {{0, ERROR_VERSION_MISMATCH},
                 {2, ERROR_VERSION_MISMATCH},
                 {1, ERROR_NONE},
                 {0, ERROR_NONE},
                 {3, ERROR_VERSION_MISMATCH}};
    struct bed bed;

    (void)state;
    bed_init(&bed);
    for (size_t i = 0; i < 5; i++) {
        struct timer *timer = timer_of_asked(&asked);
        struct command_created created;
        struct command command = {.kind = COMMAND_PUT,
                                  .timers = &timer,
                                  .results = &created,
                                  .timer_count = 1,
                                  .if_version = cases[i].if_version,
                                  .must_exist = true};

        command_answer(&bed, &command);
        carry_out(&bed);
        assert_int_equal(command.error, cases[i].code);
        if (i == 0)
            make(&bed, COMMAND_CREATE, &asked);
        if (i == 3)
            assert_int_equal(by_key(&bed, COMMAND_CANCEL, "k", NULL), ERROR_NONE);
    }
    assert_int_equal(by_key(&bed, COMMAND_GET, "k", NULL), ERROR_GONE);
    bed_deinit(&bed);
}

/* Goal: of what is found only what this very request made counts as repeated. Method: the same put
 * and the same create again, then what another request made. */
/* proves: put-idempotency */
static void test_a_repetition_is_told_apart(void **state)
{
    const struct asked first = {.request = "0123456789abcdefput-1", .key = "k", .due_ms = HOUR_MS};
    const struct asked other = {.request = "0123456789abcdefput-2", .key = "k", .due_ms = HOUR_MS};
    struct command_created created;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    created = make(&bed, COMMAND_PUT, &first);
    assert_false(created.existed || created.is_repeated);
    for (int i = 0; i < 2; i++) {
        created = make(&bed, i ? COMMAND_CREATE : COMMAND_PUT, &first);
        assert_true(created.existed && created.is_repeated);
        created = make(&bed, COMMAND_CREATE, &other);
        assert_true(created.existed && !created.is_repeated);
    }
    created = make(&bed, COMMAND_PUT, &other); /* it replaces */
    assert_true(created.existed && !created.is_repeated);
    assert_true(make(&bed, COMMAND_PUT, &first).is_repeated);
    bed_deinit(&bed);
}

/* Goal: a put begins its schedule anew. Method: what was made an hour ago is replaced by two
 * firings every ten seconds, counted from now. */
/* proves: put-replace */
static void test_put_begins_a_schedule_anew(void **state)
{
    const struct asked first = {.key = "k", .due_ms = 2 * HOUR_MS};
    const struct asked second = {
        .key = "k", .schedule = "{\"every\":\"10s\",\"count\":2}", .due_ms = HOUR_MS + 10 * 1000};
    struct bed bed;

    (void)state;
    bed_init(&bed);
    make(&bed, COMMAND_PUT, &first);
    advance_to(&bed, HOUR_MS);
    assert_true(make(&bed, COMMAND_PUT, &second).existed);
    for (uint64_t firing = 1; firing <= 3; firing++) {
        advance_to(&bed, HOUR_MS + firing * 10 * 1000);
        assert_int_equal(bed.delivered_count, firing < 2 ? firing : 2);
        answer_all(&bed, DELIVERY_DONE);
    }
    bed_deinit(&bed);
}

/* Goal: a patch of all that have a label reaches those that are due at its time already. Method: of
 * two timers one is; and once more, when there is nothing left to change. */
/* proves: bulk-reschedule */
static void test_labels_are_patched_whenever_due(void **state)
{
    const struct asked values = {.due_ms = HOUR_MS, .payload = "[]"};
    struct bed bed;

    (void)state;
    bed_init(&bed);
    for (uint64_t hours = 1; hours <= 2; hours++)
        make(&bed, COMMAND_CREATE,
             &(struct asked){.labels = "{\"a\":\"b\"}", .due_ms = hours * HOUR_MS});
    for (uint64_t changed = 2; changed <= 2; changed -= 2) {
        struct command command = {.kind = COMMAND_COMPLETE,
                                  .labels = BYTES("{\"a\":\"b\"}"),
                                  .each = COMMAND_PATCH,
                                  .patch_fields = PATCH_DUE | PATCH_PAYLOAD,
                                  .patch = timer_of_asked(&values)};

        command_answer(&bed, &command);
        assert_int_equal(command.error, ERROR_NONE);
        assert_int_equal(command.completed.changed, changed);
        carry_out(&bed);
    }
    bed_deinit(&bed);
}

/* Goal: two changes by label that each move timers to now come to an end. Method: pages of one row,
 * a clock that goes on with each, and no room to deliver. */
/* proves: bulk-selection */
static void test_two_sweeps_come_to_an_end(void **state)
{
    struct command commands[2];
    size_t answered = 0;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    close_engine(&bed);
    bed.options.inflight_max = 0;
    bed.options.scan_rows_max = 1;
    open_engine(&bed);
    for (uint64_t i = 1; i <= 3; i++)
        make(&bed, COMMAND_CREATE, &(struct asked){.labels = "{\"a\":\"b\"}", .due_ms = i});
    for (size_t i = 0; i < 2; i++) {
        commands[i] = (struct command){
            .kind = COMMAND_COMPLETE,
            .labels = BYTES("{\"a\":\"b\"}"),
            .each = COMMAND_PATCH,
            .patch_fields = PATCH_DUE | PATCH_PAYLOAD,
            .patch = timer_of_asked(&(struct asked){.payload = i ? "[]" : "{}"}),
        };
        turn_submit(bed.engine, bed.now, &commands[i]);
    }
    for (size_t round = 0; answered < 2; round++) {
        struct storage_batch *batch = engine_take_batch(bed.engine);
        struct engine_read *read = batch ? NULL : engine_take_read(bed.engine);

        assert_true(round < 1000);
        bed.now.ms++;
        if (batch) {
            batch->result = storage_commit(bed.storage, &batch, 1, NULL);
            turn_committed(bed.engine, bed.now, batch);
        } else if (read) {
            engine_read_perform(read, bed.storage);
            turn_read_done(bed.engine, bed.now, read);
        } else {
            turn_advance(bed.engine, bed.now);
        }
        while (engine_take_reply(bed.engine))
            answered++;
    }
    carry_out(&bed);
    bed_deinit(&bed);
}

/* Goal: an event ends all that watch it, near and far, and nothing else. Method: more watchers than
 * one page of them holds, some far ahead, some that watch other events; then time goes past all. */
/* proves: complete, complete-fire */
static void test_an_event_completes_all_that_watch(void **state)
{
    enum { COUNT = 1000 };
    struct bed bed;

    (void)state;
    bed_init(&bed);
    for (size_t i = 0; i < COUNT; i++)
        make(&bed, COMMAND_CREATE,
             &(struct asked){.watch = i % 4 ? "order\nevery\n" : "other\nevery\n",
                             .due_ms = i % 2 ? 5000 : 24 * HOUR_MS});
    assert_int_equal(complete(&bed, "nothing", COMMAND_CANCEL).changed, 0);
    assert_int_equal(complete(&bed, "order", COMMAND_CANCEL).changed, COUNT / 4 * 3);
    assert_int_equal(complete(&bed, "order", COMMAND_CANCEL).changed, 0);
    advance_to(&bed, 6000);
    assert_int_equal(bed.delivered_count, 0);
    assert_int_equal(complete(&bed, "every", COMMAND_FIRE).changed, COUNT / 4);
    advance_to(&bed, 6001);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(bed.delivered_count, COUNT / 4);
    assert_int_equal(complete(&bed, "other", COMMAND_CANCEL).changed, 0);
    bed_deinit(&bed);
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
    uint64_t twice = 0;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    for (size_t i = 0; i < COUNT; i++) {
        size_t watchers = i == CROWDED ? WATCHERS : i % 3 != 0;

        snprintf(names[i], sizeof(names[i]), "e%zu\n", i == COUNT - 1 ? TWICE : i);
        for (size_t j = 0; j < watchers && i < COUNT - 1; j++)
            make(&bed, COMMAND_CREATE,
                 &(struct asked){.watch = names[i], .due_ms = i == FIRING ? 0 : HOUR_MS});
        events[i] = (struct command_event){.name = {names[i], strlen(names[i]) - 1}};
    }
    command_answer(&bed, &command);
    carry_out(&bed);
    assert_int_equal(command.error, ERROR_NONE);
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
    advance_to(&bed, 2 * HOUR_MS);
    assert_int_equal(bed.delivered_count, 1);
    bed_deinit(&bed);
}

/* Goal: an event that fails is told of, and the others are done. Method: the first look-up fails,
 * then, asked again, the first commit. */
/* proves: complete-many */
static void test_one_of_many_events_may_fail(void **state)
{
    struct command_event events[] = {{.name = BYTES("a")}, {.name = BYTES("b")}};
    struct command command = {
        .kind = COMMAND_COMPLETE, .each = COMMAND_FIRE, .events = events, .event_count = 2};
    struct bed bed;

    (void)state;
    bed_init(&bed);
    make(&bed, COMMAND_CREATE, &(struct asked){.watch = "a\n", .due_ms = HOUR_MS});
    make(&bed, COMMAND_CREATE, &(struct asked){.watch = "b\n", .due_ms = HOUR_MS});
    memory_storage_fail_read(bed.storage, 1, ERROR_IO);
    command_answer(&bed, &command);
    carry_out(&bed);
    assert_int_equal(events[0].error, ERROR_IO);
    assert_int_equal(events[1].error, ERROR_NONE);
    assert_int_equal(events[1].completed.changed, 1);
    memory_storage_fail_commit(bed.storage, 1, ERROR_DISK_FULL);
    for (size_t round = 0; round < 2; round++) {
        command_answer(&bed, &command);
        carry_out(&bed);
        assert_int_equal(events[0].error, round ? ERROR_NONE : ERROR_DISK_FULL);
        assert_int_equal(events[0].completed.changed, round);
        assert_int_equal(events[1].completed.firing, 1);
    }
    assert_int_equal(bed.delivered_count, 2);
    bed_deinit(&bed);
}

/* Goal: a dead letter that is redriven has its names again, unless another timer has had its key
 * since. */
/* proves: redrive */
static void test_a_redriven_timer_has_its_names_again(void **state)
{
    const struct asked asked = {.key = "k", .watch = "paid:1\n"};
    const struct asked other = {.key = "k", .payload = "[]", .due_ms = HOUR_MS};
    const struct delivery_outcome refused = {.result = DELIVERY_ENDED, .error = "no"};
    struct timer_id id, other_id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    id = make(&bed, COMMAND_CREATE, &asked).id;
    answer(&bed, first_out(&bed), refused);
    close_engine(&bed);
    open_engine(&bed);
    assert_int_equal(by_key(&bed, COMMAND_GET, "k", NULL), ERROR_GONE);
    assert_int_equal(complete(&bed, "paid:1", COMMAND_CANCEL).firing, 0);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(by_key(&bed, COMMAND_GET, "k", NULL), ERROR_NONE);
    assert_int_equal(make(&bed, COMMAND_CREATE, &other).error, ERROR_KEY_IN_USE);
    assert_int_equal(complete(&bed, "paid:1", COMMAND_CANCEL).firing, 1);
    answer(&bed, first_out(&bed), refused);
    assert_int_equal(complete(&bed, "paid:1", COMMAND_CANCEL).firing, 0);
    other_id = make(&bed, COMMAND_CREATE, &other).id;
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, &id, 0, NULL), ERROR_KEY_IN_USE);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &other_id, 0, NULL), ERROR_NONE);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, &id, 0, NULL), ERROR_KEY_IN_USE);
    assert_int_equal(make(&bed, COMMAND_CREATE, &other).error, ERROR_NONE);
    bed_deinit(&bed);
}

/* Goal: of a redrive and a create with the same key that come at once the one wins that
 * takes the lock first. */
static void test_a_redrive_takes_the_lock_of_its_key(void **state)
{
    const struct asked asked = {.key = "k"}, other = {.key = "k", .payload = "[]"};

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct timer *timer = timer_of_asked(&other);
        struct command_created created;
        struct command create = {
            .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
        struct command redrive = {.kind = COMMAND_REDRIVE};
        struct bed bed;

        bed_init(&bed);
        redrive.id = make(&bed, COMMAND_CREATE, &asked).id;
        answer(&bed, first_out(&bed), (struct delivery_outcome){.result = DELIVERY_ENDED});
        turn_submit(bed.engine, bed.now, &redrive);
        if (round == 0) { /* it finds its timer and takes the lock */
            struct engine_read *read = engine_take_read(bed.engine);

            engine_read_perform(read, bed.storage);
            turn_read_done(bed.engine, bed.now, read);
        }
        turn_submit(bed.engine, bed.now, &create);
        carry_out(&bed);
        assert_int_equal(redrive.error, round ? ERROR_KEY_IN_USE : ERROR_NONE);
        assert_int_equal(create.error, round ? ERROR_NONE : ERROR_KEY_IN_USE);
        bed_deinit(&bed);
    }
}

/* Goal: a failing storage leaves a name as it was, and every command is answered. Method: look-up
 * and write fail in turn; then the same create succeeds. */
/* proves: io */
static void test_a_failure_takes_no_name(void **state)
{
    const struct asked asked = {.key = "k", .due_ms = HOUR_MS};
    struct command_created created;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    memory_storage_fail_read(bed.storage, 1, ERROR_IO);
    assert_int_equal(make(&bed, COMMAND_CREATE, &asked).error, ERROR_IO);
    memory_storage_fail_commit(bed.storage, 1, ERROR_DISK_FULL);
    assert_int_equal(make(&bed, COMMAND_CREATE, &asked).error, ERROR_DISK_FULL);
    assert_int_equal(by_key(&bed, COMMAND_GET, "k", NULL), ERROR_NOT_FOUND);
    created = make(&bed, COMMAND_CREATE, &asked);
    assert_false(created.error || created.existed);
    memory_storage_fail_read(bed.storage, 1, ERROR_IO);
    assert_int_equal(by_key(&bed, COMMAND_CANCEL, "k", NULL), ERROR_IO);
    memory_storage_fail_commit(bed.storage, 1, ERROR_IO);
    assert_int_equal(make(&bed, COMMAND_PUT, &asked).error, ERROR_IO);
    assert_int_equal(by_key(&bed, COMMAND_CANCEL, "k", NULL), ERROR_NONE);
    bed_deinit(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_is_one_live_timer),
        cmocka_unit_test(test_the_same_delay_is_the_same_request),
        cmocka_unit_test(test_the_same_schedule_is_the_same_request),
        cmocka_unit_test(test_one_of_many_at_once_wins),
        cmocka_unit_test(test_a_repeated_request_makes_one_timer),
        cmocka_unit_test(test_put_creates_and_replaces),
        cmocka_unit_test(test_put_replaces_only_what_lives),
        cmocka_unit_test(test_a_repetition_is_told_apart),
        cmocka_unit_test(test_put_begins_a_schedule_anew),
        cmocka_unit_test(test_labels_are_patched_whenever_due),
        cmocka_unit_test(test_two_sweeps_come_to_an_end),
        cmocka_unit_test(test_an_event_completes_all_that_watch),
        cmocka_unit_test(test_many_events_are_each_answered),
        cmocka_unit_test(test_one_of_many_events_may_fail),
        cmocka_unit_test(test_a_redriven_timer_has_its_names_again),
        cmocka_unit_test(test_a_redrive_takes_the_lock_of_its_key),
        cmocka_unit_test(test_a_failure_takes_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
