/*
 * Goal: each target of a timer with several is delivered by a part, made in one batch with the
 * change of the timer, which is over when all parts are. Method: one engine over memory, with
 * deliveries answered by hand, and a next engine where one ended in between.
 */
#include "engine/engine_testing.h"

#include "timer/fanout.h"
#include "timer/runs.h"
#include "timer/schedule.h"

#define FANOUT_TARGETS "http://a.example/\nhttp://b.example/\nhttp://c.example/\n"

static struct timer *fanout_test_timer(const char *targets, const char *schedule)
{
    struct timer *timer = timer_alloc(&(struct timer_texts){
        .target = BYTES("http://a.example/"),
        .targets = bytes_of(targets),
        .schedule = bytes_of(schedule),
        .payload = BYTES("{\"n\":1}"),
        .flow = BYTES("f\n9 0 0"),
        .watch = BYTES("paid\n"),
        .on_dead = BYTES("http://dead/"),
        .on_success = BYTES("http://done/"),
    });

    timer->due = (struct wall){START.ms + 1000};
    timer->retry.attempts_max = 2;
    return timer;
}

static struct timer_id fanout_test_create(struct engine_fixture *fixture, const char *targets,
                                          const char *schedule)
{
    struct timer *timer = fanout_test_timer(targets, schedule);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    turn_submit(fixture->engine, fixture->now, &command);
    fixture_carry_out(fixture);
    assert_int_equal(created.error, ERROR_NONE);
    return created.id;
}

/* Returns the delivery to this target, which is out; NULL if there is none. */
static struct delivery *fanout_test_out(struct engine_fixture *fixture, const char *target)
{
    LIST_FOR_EACH (&fixture->out, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        if (bytes_equal(delivery->timer->texts.target, bytes_of(target)))
            return delivery;
    }
    return NULL;
}

static void fanout_test_answer(struct engine_fixture *fixture, const char *target,
                               enum delivery_result result)
{
    struct delivery *delivery = fanout_test_out(fixture, target);

    assert_non_null(delivery);
    fixture_answer(fixture, delivery,
                   (struct delivery_outcome){.result = result, .error = "HTTP 500"});
}

static size_t fanout_test_out_count(struct engine_fixture *fixture)
{
    size_t count = 0;

    LIST_FOR_EACH (&fixture->out, link)
        count++;
    return count;
}

/* Returns the state of the timer, and the states of its parts as letters. */
static enum timer_state fanout_test_state(struct engine_fixture *fixture, const struct timer_id *id,
                                          const char *letters)
{
    static const char letter_of[] = "sofdc";
    struct command command = {.kind = COMMAND_GET, .id = *id};
    struct fanout fanout;

    fixture_command(fixture, &command);
    assert_non_null(command.timer);
    assert_true(fanout_read(command.timer, &fanout));
    assert_int_equal(fanout.count, strlen(letters));
    for (size_t i = 0; i < fanout.count; i++)
        assert_int_equal(letter_of[fanout.parts[i].state], letters[i]);
    const enum timer_state state = command.timer->state;
    fixture_carry_out(fixture);
    return state;
}

static struct timer_id fanout_test_part(struct engine_fixture *fixture, const struct timer_id *id,
                                        size_t index)
{
    struct command command = {.kind = COMMAND_GET, .id = *id};
    struct fanout fanout;

    fixture_command(fixture, &command);
    assert_true(fanout_read(command.timer, &fanout));
    assert_true(fanout.parts[index].has_id);
    const struct timer_id part = fanout.parts[index].id;
    fixture_carry_out(fixture);
    return part;
}

/* proves: targets, targets-over */
static void test_each_target_gets_its_own_delivery(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = fanout_test_create(&fixture, FANOUT_TARGETS, "");
    assert_int_equal(fanout_test_state(&fixture, &id, "sss"), TIMER_SCHEDULED);
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(fanout_test_out_count(&fixture), 3);
    assert_int_equal(fanout_test_state(&fixture, &id, "ooo"), TIMER_RETRYING);
    LIST_FOR_EACH (&fixture.out, link) {
        const struct timer *part = list_item(link, struct delivery, link)->timer;
        struct timer_id parent;

        assert_true(fanout_is_part(part, &parent));
        assert_true(timer_id_equal(&parent, &id));
        assert_true(bytes_equal(part->texts.payload, BYTES("{\"n\":1}")));
        assert_int_equal(part->due.ms, START.ms + 1000);
        assert_true(bytes_equal(part->texts.flow, BYTES("f\n9 0 0")));
        assert_int_equal(part->texts.watch.size + part->texts.on_dead.size, 0);
    }
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_DONE);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_FAILED);
    fanout_test_answer(&fixture, "http://c.example/", DELIVERY_DONE);
    assert_int_equal(fanout_test_state(&fixture, &id, "off"), TIMER_RETRYING);
    fixture_advance_to(&fixture, 10000); /* only the part that failed is tried again */
    assert_int_equal(fanout_test_out_count(&fixture), 1);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    assert_int_equal(fanout_test_state(&fixture, &id, "fff"), TIMER_FIRED);
    fixture_advance_to(&fixture, 10001);
    assert_non_null(fanout_test_out(&fixture, "http://done/"));
    assert_int_equal(fanout_test_out_count(&fixture), 1);
    fixture_deinit(&fixture);
}

/* Goal: after a step back of the clock a timer that waits for its parts costs few writes, too.
 * Method: a target fails for good, and is redriven when the clock is an hour behind; its delivery
 * takes most of that hour. */
static void test_waiting_behind_a_step_back(void **state)
{
    struct engine_fixture fixture;
    struct wall at = {0};
    unsigned moves = 0;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = fanout_test_create(&fixture, FANOUT_TARGETS, "");
    fixture_advance_to(&fixture, HOUR_MS);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_ENDED);
    fanout_test_answer(&fixture, "http://c.example/", DELIVERY_DONE);
    fixture_advance_to(&fixture, 2000);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    for (uint64_t ms = 2000; ms < HOUR_MS - 1000; ms += 1000) {
        struct command command = {.kind = COMMAND_GET, .id = id};

        fixture_advance_to(&fixture, ms);
        fixture_command(&fixture, &command);
        moves += command.timer->at.ms != at.ms;
        at = command.timer->at;
        fixture_carry_out(&fixture);
    }
    assert_in_range(moves, 1, 3);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_DONE);
    assert_int_equal(fanout_test_state(&fixture, &id, "fff"), TIMER_FIRED);
    fixture_deinit(&fixture);
}

/* proves: targets-redrive */
static void test_a_failed_target_is_redriven_alone(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    for (int of_timer = 0; of_timer < 2; of_timer++) {
        fixture_init(&fixture);
        const struct timer_id id = fanout_test_create(&fixture, FANOUT_TARGETS, "");
        fixture_advance_to(&fixture, 1000);
        fanout_test_answer(&fixture, "http://b.example/", DELIVERY_ENDED);
        assert_int_equal(fanout_test_state(&fixture, &id, "odo"), TIMER_RETRYING);
        fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
        fanout_test_answer(&fixture, "http://c.example/", DELIVERY_DONE);
        assert_int_equal(fanout_test_state(&fixture, &id, "fdf"), TIMER_DEAD);
        fixture_advance_to(&fixture, 1001);
        fanout_test_answer(&fixture, "http://dead/", DELIVERY_DONE);

        const struct timer_id part = fanout_test_part(&fixture, &id, 1);
        assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, of_timer ? &id : &part, 0, NULL),
                         ERROR_NONE);
        fixture_advance_to(&fixture, 1002);
        assert_int_equal(fanout_test_state(&fixture, &id, "fof"), TIMER_RETRYING);
        assert_int_equal(fanout_test_out_count(&fixture), 1);
        fanout_test_answer(&fixture, "http://b.example/", DELIVERY_DONE);
        assert_int_equal(fanout_test_state(&fixture, &id, "fff"), TIMER_FIRED);
        fixture_advance_to(&fixture, 1003);
        assert_non_null(fanout_test_out(&fixture, "http://done/"));
        fixture_deinit(&fixture);
    }
}

/* Of two dead parts one was deleted, and the other cannot be written: that is the answer. */
static void test_a_redrive_that_fails_tells_why(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = fanout_test_create(&fixture, FANOUT_TARGETS, "");
    fixture_advance_to(&fixture, 1000);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_ENDED);
    fanout_test_answer(&fixture, "http://c.example/", DELIVERY_ENDED);
    fixture_advance_to(&fixture, 1001);
    fanout_test_answer(&fixture, "http://dead/", DELIVERY_DONE);
    const struct timer_id part = fanout_test_part(&fixture, &id, 2);
    assert_int_equal(fixture_ask(&fixture, COMMAND_FORGET, &part, 0, NULL), ERROR_NONE);
    struct command redrive = {.kind = COMMAND_REDRIVE, .id = id};
    turn_submit(fixture.engine, fixture.now, &redrive);
    while (!engine_take_reply(fixture.engine)) {
        struct engine_read *read = engine_take_read(fixture.engine);
        if (read) {
            engine_read_perform(read, fixture.storage);
            turn_read_done(fixture.engine, fixture.now, read);
            continue;
        }
        struct storage_batch *batch = engine_take_batch(fixture.engine);
        batch->result = ERROR_IO;
        turn_committed(fixture.engine, fixture.now, batch);
    }
    assert_int_equal(redrive.error, ERROR_IO);
    fixture_carry_out(&fixture);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    fixture_deinit(&fixture);
}

static struct timer_id fanout_test_create_named(struct engine_fixture *fixture, const char *targets)
{
    struct timer *timer = fanout_test_timer(targets, "");
    struct timer_texts texts = timer->texts;
    struct command_created created;
    struct command command = {.kind = COMMAND_CREATE, .results = &created, .timer_count = 1};

    texts.key = BYTES("k");
    texts.on_dead = texts.on_success = texts.flow = texts.watch = (struct bytes){0};
    struct timer *named = timer_copy(timer, &texts);
    timer_free(timer);
    named->due = wall_add(fixture->now, 1000);
    command.timers = &named;
    fixture_command(fixture, &command);
    fixture_carry_out(fixture);
    assert_int_equal(created.error, ERROR_NONE);
    return created.id;
}

/* Does all that the engine asks for, until it looks up a name. Returns that read. */
static struct engine_read *fanout_test_until_lookup(struct engine_fixture *fixture)
{
    struct engine_read *read = NULL;

    for (bool busy = true; busy;) {
        struct storage_batch *batch = engine_take_batch(fixture->engine);

        busy = batch != NULL;
        if (batch)
            fixture_commit(fixture, batch);
        while (engine_take_reply(fixture->engine))
            busy = true;
        if (busy || !(read = engine_take_read(fixture->engine)))
            continue;
        if (read->kind == ENGINE_READ_LOOKUP)
            return read;
        engine_read_perform(read, fixture->storage);
        turn_read_done(fixture->engine, fixture->now, read);
        busy = true;
    }
    return NULL;
}

/* A part that is redriven and ends before its timer lives again, because the timer's key has to be
 * looked up: the timer ends, too. */
/* proves: targets-redrive, targets-over */
static void test_a_part_ends_before_its_timer_lives_again(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id =
        fanout_test_create_named(&fixture, "http://a.example/\nhttp://b.example/\n");
    fixture_advance_to(&fixture, 1000);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_DONE);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_ENDED);
    assert_int_equal(fanout_test_state(&fixture, &id, "df"), TIMER_DEAD);

    struct command command = {.kind = COMMAND_REDRIVE, .id = fanout_test_part(&fixture, &id, 0)};
    turn_submit(fixture.engine, fixture.now, &command);
    struct engine_read *lookup = fanout_test_until_lookup(&fixture);
    assert_non_null(lookup);
    struct delivery *delivery = engine_take_delivery(fixture.engine);
    assert_non_null(delivery);
    delivery->outcome = (struct delivery_outcome){.result = DELIVERY_DONE};
    turn_delivered(fixture.engine, fixture.now, delivery);
    assert_null(fanout_test_until_lookup(&fixture));
    engine_read_perform(lookup, fixture.storage);
    turn_read_done(fixture.engine, fixture.now, lookup);
    fixture_carry_out(&fixture);
    assert_int_equal(fanout_test_state(&fixture, &id, "ff"), TIMER_FIRED);
    fixture_deinit(&fixture);
}

/* A cancel by key whose timer died by it, and is forgotten at once: an older timer with that
 * key, which was cancelled before, is no answer. */
/* proves: targets-cancel */
static void test_a_cancel_shows_no_older_timer(void **state)
{
    struct engine_fixture fixture;
    struct command command = {.kind = COMMAND_CANCEL, .name = BYTES("k")};
    struct engine_read *read;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.retain_ms = 0;
    fixture_open(&fixture);
    fanout_test_create_named(&fixture, FANOUT_TARGETS);
    fixture_command(&fixture, &command);
    fixture_carry_out(&fixture);
    assert_int_equal(command.error, ERROR_NONE);
    fanout_test_create_named(&fixture, "http://a.example/\nhttp://b.example/\n");
    fixture_advance_to(&fixture, 1000);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_ENDED);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_FAILED);
    command = (struct command){.kind = COMMAND_CANCEL, .name = BYTES("k")};
    turn_submit(fixture.engine, fixture.now, &command);
    while (!engine_take_reply(fixture.engine)) {
        struct storage_batch *batch = engine_take_batch(fixture.engine);

        fixture.now.ms++;
        if (batch) {
            fixture_commit(&fixture, batch);
        } else if ((read = engine_take_read(fixture.engine))) {
            engine_read_perform(read, fixture.storage);
            turn_read_done(fixture.engine, fixture.now, read);
        }
    }
    assert_int_equal(command.error, ERROR_NOT_FOUND);
    fixture_deinit(&fixture);
}

/* proves: targets-cancel */
static void test_a_cancel_ends_the_parts_that_wait(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = fanout_test_create(&fixture, FANOUT_TARGETS, "");
    fixture_advance_to(&fixture, 1000);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_FAILED);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_FAILED);
    assert_int_equal(fixture_ask(&fixture, COMMAND_PATCH, &id, 0, NULL), ERROR_ALREADY_FIRING);
    assert_int_equal(fixture_ask(&fixture, COMMAND_RELEASE, &id, 0, NULL), ERROR_NOT_LEASED);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_ALREADY_FIRING);
    assert_int_equal(fanout_test_state(&fixture, &id, "cco"), TIMER_RETRYING);
    fanout_test_answer(&fixture, "http://c.example/", DELIVERY_FAILED);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(fanout_test_state(&fixture, &id, "ccc"), TIMER_CANCELLED);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_GONE);
    const size_t before = fixture.delivered_count;
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, before);
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.pending, 0);
    fixture_deinit(&fixture);
}

/* Goal: a crash at any batch loses no target and no end. Method: the engine ends before its n-th
 * batch is written, for each n; the next one answers what it delivers. */
/* proves: targets-crash */
static void test_a_crash_at_any_batch_loses_nothing(void **state)
{
    (void)state;
    for (int crash_at = 1; crash_at < 12; crash_at++) {
        struct engine_fixture fixture;
        int batches = 0;
        bool has_crashed = false;

        fixture_init(&fixture);
        const struct timer_id id = fanout_test_create(&fixture, FANOUT_TARGETS, "");
        fixture.now = (struct wall){START.ms + 1000};
        turn_advance(fixture.engine, fixture.now);
        while (!has_crashed) {
            struct storage_batch *batch = engine_take_batch(fixture.engine);
            struct engine_read *read = batch ? NULL : engine_take_read(fixture.engine);
            struct delivery *delivery = batch || read ? NULL : engine_take_delivery(fixture.engine);

            while (engine_take_reply(fixture.engine)) {
            }
            if (batch && ++batches == crash_at) {
                has_crashed = true;
                batch->result = ERROR_IO;
                turn_committed(fixture.engine, fixture.now, batch);
            } else if (batch) {
                fixture_commit(&fixture, batch);
            } else if (read) {
                engine_read_perform(read, fixture.storage);
                turn_read_done(fixture.engine, fixture.now, read);
            } else if (delivery) {
                delivery->outcome = (struct delivery_outcome){.result = DELIVERY_DONE};
                turn_delivered(fixture.engine, fixture.now, delivery);
            } else {
                break;
            }
        }
        engine_destroy(fixture.engine);
        fixture_open(&fixture);
        for (uint64_t ms = 1000; ms < 60000; ms += 1000) {
            fixture_advance_to(&fixture, ms);
            fixture_answer_all(&fixture, DELIVERY_DONE);
        }
        assert_int_equal(fanout_test_state(&fixture, &id, "fff"), TIMER_FIRED);
        struct engine_stats stats;
        engine_stats(fixture.engine, &stats);
        assert_int_equal(stats.pending, 0);
        fixture_deinit(&fixture);
        if (!has_crashed)
            break;
        assert_true(crash_at < 11);
    }
}

/* Lets the engine read until it has a batch, and returns that. */
static struct storage_batch *fanout_test_next_batch(struct engine_fixture *fixture)
{
    struct storage_batch *batch;

    while (!(batch = engine_take_batch(fixture->engine))) {
        struct engine_read *read = engine_take_read(fixture->engine);

        assert_non_null(read);
        engine_read_perform(read, fixture->storage);
        turn_read_done(fixture->engine, fixture->now, read);
    }
    assert_int_equal(batch->write_count, 1);
    return batch;
}

/* Ends the deliveries of all parts, and makes that durable. Returns the next batch, which changes
 * their timer. */
static struct storage_batch *fanout_test_until_note(struct engine_fixture *fixture)
{
    LIST_FOR_EACH (&fixture->out, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        list_remove(link);
        delivery->outcome = (struct delivery_outcome){.result = DELIVERY_DONE};
        turn_delivered(fixture->engine, fixture->now, delivery);
    }
    fixture_commit(fixture, engine_take_batch(fixture->engine));
    return fanout_test_next_batch(fixture);
}

/* Checks that a timer of two targets has done its firing at 1 s, and that this was reported. */
static void fanout_test_is_reported(struct engine_fixture *fixture, const struct timer_id *id)
{
    struct command command = {.kind = COMMAND_GET, .id = *id};
    struct run run;

    fixture_command(fixture, &command);
    struct bytes runs = command.timer->texts.runs;
    assert_true(runs_next(&runs, &run));
    assert_int_equal(run.outcome, RUN_DONE);
    assert_int_equal(run.planned.ms, START.ms + 1000);
    fixture_carry_out(fixture);
    assert_non_null(fanout_test_out(fixture, "http://done/"));
}

#define FANOUT_REPEATS "{\"every\":\"10m\",\"from\":\"2027-01-15T08:00:01.000Z\"}"

/* A note that waits for its timer while the write of that fails goes on waiting. */
/* proves: targets-crash, targets-over */
static void test_a_note_waits_for_a_failing_write(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    for (int repeats = 0; repeats < 2; repeats++) {
        fixture_init(&fixture);
        const struct timer_id id = fanout_test_create(
            &fixture, "http://a.example/\nhttp://b.example/\n", repeats ? FANOUT_REPEATS : "");
        fixture_advance_to(&fixture, 1000);
        for (int i = 0; i < 3; i++) {
            struct storage_batch *batch =
                i ? engine_take_batch(fixture.engine) : fanout_test_until_note(&fixture);

            assert_non_null(batch);
            batch->result = ERROR_IO;
            turn_committed(fixture.engine, fixture.now, batch);
            fixture.now = wall_add(fixture.now, fixture.options.storage_retry_ms);
            turn_advance(fixture.engine, fixture.now);
        }
        fixture_carry_out(&fixture);
        assert_int_equal(fanout_test_state(&fixture, &id, "ff"),
                         repeats ? TIMER_SCHEDULED : TIMER_FIRED);
        fixture_advance_to(&fixture, 2000);
        if (repeats)
            fanout_test_is_reported(&fixture, &id);
        fixture_deinit(&fixture);
    }
}

/* A timer that cannot live again, because its write fails, costs no write after that. */
/* proves: targets-redrive */
static void test_a_failed_revival_is_not_repeated(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = fanout_test_create(&fixture, FANOUT_TARGETS, "");
    fixture_advance_to(&fixture, 1000);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_ENDED);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    fanout_test_answer(&fixture, "http://c.example/", DELIVERY_DONE);
    fixture_advance_to(&fixture, 1001);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    struct command command = {.kind = COMMAND_REDRIVE, .id = fanout_test_part(&fixture, &id, 1)};
    turn_submit(fixture.engine, fixture.now, &command);
    fixture_commit(&fixture, fanout_test_next_batch(&fixture));
    while (engine_take_reply(fixture.engine))
        ;
    struct storage_batch *batch = fanout_test_next_batch(&fixture);
    batch->result = ERROR_IO;
    turn_committed(fixture.engine, fixture.now, batch);
    assert_null(engine_take_batch(fixture.engine));
    fixture_carry_out(&fixture);
    fixture_deinit(&fixture);
}

/* Goal: a note that is lost with its engine is found, although its timer repeats and waits for its
 * next firing. Method: the engine ends before the note is written. The next one has a second scan
 * of all rows, or none until the next firing is due. */
/* proves: targets-crash, targets-over */
static void test_a_lost_note_is_found(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    for (int is_scanned = 0; is_scanned < 2; is_scanned++) {
        fixture_init(&fixture);
        const struct timer_id id =
            fanout_test_create(&fixture, "http://a.example/\nhttp://b.example/\n", FANOUT_REPEATS);
        fixture_advance_to(&fixture, 1000);
        struct storage_batch *batch = fanout_test_until_note(&fixture);
        batch->result = ERROR_IO;
        turn_committed(fixture.engine, fixture.now, batch);
        engine_destroy(fixture.engine);
        fixture.options.second_scan_ms = is_scanned ? 60000 : 0;
        fixture_open(&fixture);
        fixture_advance_to(&fixture, 2000);
        assert_int_equal(fanout_test_state(&fixture, &id, is_scanned ? "ff" : "oo"),
                         TIMER_SCHEDULED);
        if (!is_scanned)
            fixture_advance_to(&fixture, 601000);
        fixture_advance_to(&fixture, fixture.now.ms - START.ms + 1000);
        fanout_test_is_reported(&fixture, &id);
        if (!is_scanned) /* and the next one has begun */
            assert_int_equal(fanout_test_state(&fixture, &id, "oo"), TIMER_SCHEDULED);
        fixture_deinit(&fixture);
    }
}

/* The feed tells when parts are made and when one ends. */
/* proves: events */
static void test_the_feed_tells_of_parts(void **state)
{
    static const enum feed_kind wanted[] = {FEED_CHANGED, FEED_CHANGED, FEED_FIRED};
    struct engine_fixture fixture;
    atomic_bool is_watched = true;
    size_t count = 0;
    struct list events, *link;

    (void)state;
    list_init(&events);
    fixture_prepare(&fixture);
    fixture.options.is_watched = &is_watched;
    fixture_open(&fixture);
    const struct timer_id id =
        fanout_test_create(&fixture, "http://a.example/\nhttp://b.example/\n", "");
    fixture_advance_to(&fixture, 1000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    engine_take_events(fixture.engine, &events);
    while ((link = list_pop(&events))) {
        struct feed_event *event = list_item(link, struct feed_event, link);

        if (timer_id_equal(&event->timer->id, &id) && event->kind != FEED_CREATED)
            assert_int_equal(event->kind, wanted[count++]);
        feed_event_destroy(event);
    }
    assert_int_equal(count, 3);
    fixture_deinit(&fixture);
}

/* Parts count as live timers, also beyond the limit. */
/* proves: targets-counted */
static void test_parts_are_counted_and_never_refused(void **state)
{
    struct engine_fixture fixture;
    struct engine_stats stats;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.pending_max = 2;
    fixture_open(&fixture);
    fanout_test_create(&fixture, FANOUT_TARGETS, "");
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(fanout_test_out_count(&fixture), 3);
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.pending, 4);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_TOO_MANY);
    fixture_deinit(&fixture);
}

/* A part stays one delivery, or its timer would wait for it forever. */
/* proves: targets-over */
static void test_a_part_stays_one_delivery(void **state)
{
    static const struct {
        enum timer_patch_field field;
        struct timer_texts texts;
    } changes[] = {
        {PATCH_SCHEDULE,
         {.target = BYTES("http://b.example/"), .schedule = BYTES("{\"every\":\"10s\"}")}},
        {PATCH_TARGET, {.target = BYTES("log:a"), .targets = BYTES("log:a\nlog:b\n")}},
    };
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = fanout_test_create(&fixture, FANOUT_TARGETS, "");
    fixture_advance_to(&fixture, 1000);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_FAILED);
    const struct timer_id part = fanout_test_part(&fixture, &id, 1);
    for (size_t i = 0; i < 2; i++) {
        struct command command = {.kind = COMMAND_PATCH,
                                  .id = part,
                                  .patch_fields = changes[i].field,
                                  .patch = timer_alloc(&changes[i].texts)};

        fixture_command(&fixture, &command);
        assert_int_equal(command.error, ERROR_INVALID);
        fixture_carry_out(&fixture);
    }
    fixture_advance_to(&fixture, 10000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fanout_test_state(&fixture, &id, "fff"), TIMER_FIRED);
    fixture_deinit(&fixture);
}

/* A failed write of the timer and its parts is repeated whole. */
/* proves: targets-crash */
static void test_parts_are_made_in_one_batch(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    fanout_test_create(&fixture, FANOUT_TARGETS, "");
    fixture.now = (struct wall){START.ms + 1000};
    for (int i = 0; i < 2; i++) {
        turn_advance(fixture.engine, fixture.now);
        struct storage_batch *batch = engine_take_batch(fixture.engine);
        assert_non_null(batch);
        assert_int_equal(batch->write_count, 4);
        if (i == 0) {
            batch->result = ERROR_IO;
            turn_committed(fixture.engine, fixture.now, batch);
            fixture.now = wall_add(fixture.now, 1000);
        } else {
            fixture_commit(&fixture, batch);
        }
    }
    fixture_carry_out(&fixture);
    assert_int_equal(fanout_test_out_count(&fixture), 3);
    fixture_deinit(&fixture);
}

/* Timers that are due together make their parts as these become durable. */
static void test_parts_of_many_timers_have_a_limit(void **state)
{
    enum { TIMERS = 200, NEAR_BYTES = 300000 };
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.near_bytes_max = NEAR_BYTES;
    fixture_open(&fixture);
    for (size_t i = 0; i < TIMERS; i++)
        fanout_test_create(&fixture, FANOUT_TARGETS, "");
    /* of each timer three parts, and the report of its end */
    for (uint64_t ms = 1000; fixture.delivered_count < 4 * TIMERS; ms += 50) {
        assert_true(ms < HOUR_MS);
        fixture.now = (struct wall){START.ms + ms};
        turn_advance(fixture.engine, fixture.now);
        struct storage_batch *batch = engine_take_batch(fixture.engine);
        size_t made = 0;
        for (size_t i = 0; batch && i < batch->write_count; i++)
            made += batch->writes[i].was_at.ms == 0;
        assert_true(made < 80); /* an eighth of the memory, and a timer's parts; not 600 */
        if (batch)
            fixture_commit(&fixture, batch);
        fixture_carry_out(&fixture);
        fixture_answer_all(&fixture, DELIVERY_DONE);
    }
    assert_int_equal(fixture.delivered_count, 4 * TIMERS);
    fixture_deinit(&fixture);
}

/* proves: targets-repeat */
static void test_a_firing_does_not_wait_for_the_one_before(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id =
        fanout_test_create(&fixture, "http://a.example/\nhttp://b.example/\n",
                           "{\"every\":\"10s\",\"from\":\"2027-01-15T08:00:01.000Z\"}");
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(fanout_test_state(&fixture, &id, "oo"), TIMER_SCHEDULED);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_DONE);
    assert_int_equal(fanout_test_state(&fixture, &id, "ff"), TIMER_SCHEDULED);
    fixture_advance_to(&fixture, 1001);
    fanout_test_answer(&fixture, "http://done/", DELIVERY_DONE);
    fixture_advance_to(&fixture, 11000);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    fixture_advance_to(&fixture, 21000); /* the second b is not over */
    assert_int_equal(fanout_test_out_count(&fixture), 3);

    struct command command = {.kind = COMMAND_GET, .id = id};
    fixture_command(&fixture, &command);
    struct bytes runs = command.timer->texts.runs;
    struct run run;
    assert_true(runs_next(&runs, &run));
    assert_int_equal(run.outcome, RUN_FAILED);
    assert_int_equal(run.planned.ms, START.ms + 11000);
    assert_true(bytes_equal(run.error, BYTES("1 of 2 targets were not over at the next firing")));
    assert_true(runs_next(&runs, &run));
    assert_int_equal(run.outcome, RUN_DONE);
    assert_int_equal(run.planned.ms, START.ms + 1000);
    assert_false(runs_next(&runs, &run));
    fixture_carry_out(&fixture);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

/* A backfill keeps its pace with several targets: its next firing waits for the parts of the one
 * before, also in the next engine, and each part has its mark. */
/* proves: backfill-order, backfill-mark */
static void test_a_backfill_waits_for_its_parts(void **state)
{
    struct engine_fixture fixture;
    struct backfill backfill;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id id = fanout_test_create(
        &fixture, "http://a.example/\nhttp://b.example/\n",
        "{\"every\":\"10s\",\"from\":\"2027-01-15T07:59:01.000Z\","
        "\"until\":\"2027-01-15T08:00:21.000Z\",\"late\":{\"missed\":\"each\"},"
        "\"backfill\":{\"of\":\"06gvoga8sk0000000400000000\","
        "\"from\":\"2027-01-15T08:00:00.000Z\",\"to\":\"2027-01-15T08:00:22.000Z\","
        "\"rate\":\"1/m\",\"count\":3,\"done\":0}}");
    fixture_advance_to(&fixture, 30000); /* all three are due */
    assert_int_equal(fanout_test_out_count(&fixture), 2);
    const struct timer *part = fanout_test_out(&fixture, "http://b.example/")->timer;
    assert_true(schedule_backfill(part->texts.schedule, &backfill));
    assert_true(bytes_equal(backfill.of, BYTES("06gvoga8sk0000000400000000")));
    assert_int_equal(part->due.ms, START.ms + 1000);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_FAILED);
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 200000); /* b is not over */
    assert_int_equal(fanout_test_out_count(&fixture), 1);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_DONE);
    fixture_advance_to(&fixture, 200001);
    assert_int_equal(fanout_test_out_count(&fixture), 3);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_advance_to(&fixture, 259999);
    fixture_answer_all(&fixture, DELIVERY_DONE); /* a report */
    assert_int_equal(fanout_test_out_count(&fixture), 0);
    fixture_advance_to(&fixture, 260000);
    assert_int_equal(fanout_test_out_count(&fixture), 2);
    assert_int_equal(fanout_test_out(&fixture, "http://a.example/")->timer->due.ms,
                     START.ms + 21000);
    struct command command = {.kind = COMMAND_GET, .id = id};
    fixture_command(&fixture, &command);
    assert_true(schedule_backfill(command.timer->texts.schedule, &backfill));
    assert_int_equal(backfill.done, 2);
    fixture_carry_out(&fixture);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fanout_test_state(&fixture, &id, "ff"), TIMER_FIRED);
    fixture_deinit(&fixture);
}

/* At the limit of live timers the next firing waits for the parts of the one before. */
/* proves: targets-counted */
static void test_at_the_limit_firings_wait_for_parts(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.pending_max = 3;
    fixture_open(&fixture);
    fanout_test_create(&fixture, "http://a.example/\nhttp://b.example/\n",
                       "{\"every\":\"10s\",\"from\":\"2027-01-15T08:00:01.000Z\"}");
    fixture_advance_to(&fixture, 1000);
    fixture_advance_to(&fixture, 11000);
    fixture_advance_to(&fixture, 21000);
    assert_int_equal(fanout_test_out_count(&fixture), 2);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_DONE);
    fixture_advance_to(&fixture, 21001);
    assert_non_null(fanout_test_out(&fixture, "http://done/"));
    assert_int_equal(fanout_test_out(&fixture, "http://a.example/")->timer->due.ms,
                     START.ms + 21000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

/* With `overlap`, a firing is skipped while a part is open, or is a timer of its own. */
/* proves: targets-repeat */
static void test_overlap(void **state)
{
    struct engine_fixture fixture;
    struct run run;

    (void)state;
    fixture_init(&fixture);
    const struct timer_id skips = fanout_test_create(
        &fixture, "http://a.example/\nhttp://b.example/\n",
        "{\"every\":\"10s\",\"from\":\"2027-01-15T08:00:01.000Z\",\"overlap\":\"skip\"}");
    fixture_advance_to(&fixture, 1000);
    fanout_test_answer(&fixture, "http://b.example/", DELIVERY_DONE);
    fixture_advance_to(&fixture, 11000);
    assert_int_equal(fanout_test_out_count(&fixture), 1);
    assert_int_equal(fanout_test_state(&fixture, &skips, "of"), TIMER_SCHEDULED);
    fanout_test_answer(&fixture, "http://a.example/", DELIVERY_DONE);
    fixture_advance_to(&fixture, 21000);
    assert_non_null(fanout_test_out(&fixture, "http://a.example/"));
    struct command command = {.kind = COMMAND_GET, .id = skips};
    fixture_command(&fixture, &command);
    struct bytes runs = command.timer->texts.runs;
    assert_true(runs_next(&runs, &run));
    assert_int_equal(run.outcome, RUN_DONE); /* the first, which ended after the skipped one */
    assert_true(runs_next(&runs, &run));
    assert_int_equal(run.outcome, RUN_SKIPPED);
    assert_int_equal(run.planned.ms, START.ms + 11000);
    fixture_carry_out(&fixture);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &skips, 0, NULL), ERROR_ALREADY_FIRING);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &skips, 0, NULL), ERROR_NONE);

    fanout_test_create(
        &fixture, "http://a.example/\nhttp://b.example/\n",
        "{\"every\":\"10s\",\"from\":\"2027-01-15T08:00:31.000Z\",\"overlap\":\"allow\"}");
    fixture_advance_to(&fixture, 22000);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_advance_to(&fixture, 51000);
    assert_true(fanout_test_out_count(&fixture) >= 2);
    const struct timer *part = fixture_first_out(&fixture)->timer;
    struct timer_id firing;
    assert_true(fanout_is_part(part, &firing));
    assert_int_equal(fanout_test_state(&fixture, &firing, "oo"), TIMER_RETRYING);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

/* Missed firings are made up for by one delivery to each target: that of the last missed instant.
 * Method: three firings are missed, with each value of `overlap`. */
/* proves: targets-repeat, missed */
static void test_missed_firings_are_delivered_once(void **state)
{
    static const char *const schedules[] = {
        "{\"every\":\"10s\",\"from\":\"2027-01-15T08:00:01.000Z\"}",
        "{\"every\":\"10s\",\"from\":\"2027-01-15T08:00:01.000Z\",\"overlap\":\"skip\"}",
        "{\"every\":\"10s\",\"from\":\"2027-01-15T08:00:01.000Z\",\"overlap\":\"allow\"}",
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct engine_fixture fixture;

        fixture_init(&fixture);
        const struct timer_id id =
            fanout_test_create(&fixture, "http://a.example/\nhttp://b.example/\n", schedules[i]);
        fixture_advance_to(&fixture, 26000);
        assert_int_equal(fixture.delivered_count, 2);
        LIST_FOR_EACH (&fixture.out, link)
            assert_int_equal(list_item(link, struct delivery, link)->timer->due.ms,
                             START.ms + 21000);
        struct command command = {.kind = COMMAND_GET, .id = id};
        fixture_command(&fixture, &command);
        assert_int_equal(command.timer->due.ms, START.ms + 31000);
        struct bytes runs = command.timer->texts.runs;
        struct run run;
        for (bool found = false; !found;) {
            assert_true(runs_next(&runs, &run));
            found = run.outcome == RUN_SKIPPED;
        }
        assert_int_equal(run.count, 2);
        assert_int_equal(run.planned.ms, START.ms + 1000);
        assert_int_equal(run.until.ms, START.ms + 11000);
        assert_false(runs_next(&runs, &run));
        fixture_carry_out(&fixture);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        fixture_deinit(&fixture);
    }
}

/* The texts of timers and parts: what is written is read, and damage reads as no parts. */
static void test_texts(void **state)
{
    struct timer_id part = {{1}, 2, 3};
    struct fanout fanout = {.due = {5}, .started = {6}, .known = 7, .count = 2}, read;
    char room[FANOUT_TEXT_SIZE_MAX], of[FANOUT_OF_SIZE], error[FANOUT_ERROR_SIZE_MAX + 2];

    (void)state;
    memset(error, 'e', sizeof(error));
    error[3] = '\n';
    fanout.parts[0] = (struct fanout_part){.state = FANOUT_DEAD,
                                           .attempts = 4,
                                           .has_id = true,
                                           .id = part,
                                           .last_error = {error, sizeof(error)}};
    const struct bytes text = fanout_write(&fanout, room);
    struct timer *timer =
        timer_alloc(&(struct timer_texts){.targets = BYTES("log:a\nlog:b\n"), .parts = text});
    assert_true(fanout_read(timer, &read));
    assert_int_equal(read.count, 2);
    assert_int_equal(read.due.ms + read.started.ms + read.known, 18);
    assert_int_equal(read.parts[0].last_error.size, FANOUT_ERROR_SIZE_MAX);
    assert_int_equal(read.parts[0].last_error.data[3], ' ');
    assert_int_equal(read.parts[1].state, FANOUT_UNMADE);
    assert_true(bytes_equal(read.parts[1].target, BYTES("log:b")));
    for (size_t size = 0; size < text.size; size++) {
        timer->texts.parts.size = size;
        assert_true(fanout_read(timer, &read));
        assert_int_equal(fanout_count(&read, FANOUT_UNMADE), 2);
    }
    timer->texts.parts = fanout_write_of(&part, of);
    struct timer_id parent;
    assert_true(fanout_is_part(timer, &parent));
    assert_true(timer_id_equal(&parent, &part));
    timer_free(timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_target_gets_its_own_delivery),
        cmocka_unit_test(test_waiting_behind_a_step_back),
        cmocka_unit_test(test_a_failed_target_is_redriven_alone),
        cmocka_unit_test(test_a_redrive_that_fails_tells_why),
        cmocka_unit_test(test_a_part_ends_before_its_timer_lives_again),
        cmocka_unit_test(test_a_cancel_shows_no_older_timer),
        cmocka_unit_test(test_a_cancel_ends_the_parts_that_wait),
        cmocka_unit_test(test_a_crash_at_any_batch_loses_nothing),
        cmocka_unit_test(test_a_note_waits_for_a_failing_write),
        cmocka_unit_test(test_a_failed_revival_is_not_repeated),
        cmocka_unit_test(test_a_lost_note_is_found),
        cmocka_unit_test(test_the_feed_tells_of_parts),
        cmocka_unit_test(test_parts_are_counted_and_never_refused),
        cmocka_unit_test(test_a_part_stays_one_delivery),
        cmocka_unit_test(test_parts_are_made_in_one_batch),
        cmocka_unit_test(test_parts_of_many_timers_have_a_limit),
        cmocka_unit_test(test_a_firing_does_not_wait_for_the_one_before),
        cmocka_unit_test(test_a_backfill_waits_for_its_parts),
        cmocka_unit_test(test_at_the_limit_firings_wait_for_parts),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_missed_firings_are_delivered_once),
        cmocka_unit_test(test_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
