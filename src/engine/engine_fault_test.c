/*
 * Goal: whichever allocation fails, under whatever the engine is just doing, every command is
 * answered, NO_MEMORY means that nothing came of it, and what was answered with success holds: it
 * fires once, not early, and not after a cancel, and is reported once. Method: one history with
 * every kind of command, a restart in its middle, over storage in memory, with the N-th allocation
 * refused alone, and with all that follow it until the history is over; then there is memory again,
 * and time goes on until everything has fired.
 */
#include "engine/engine_testing.h"
#include "timer/queue_target.h"

#include <scarce.h>
#include <stdio.h>
#include <string.h>

enum { TIMERS_MAX = 64, PAYLOAD_SIZE = 8 };

/* What the client knows of a timer. */
struct fault_known {
    struct timer_id id, report; /* and the report of its end, once it was seen */
    bool is_created, is_cancelled;
    bool is_reported; /* it has targets for reports */
    bool is_fired;    /* a delivery of it was answered with DONE */
    uint64_t due_ms;  /* not before */
};

struct fault_world {
    struct engine_fixture fixture;
    struct scarce *scarce;
    struct fault_known known[TIMERS_MAX];
    size_t count;
    bool is_short; /* memory */
};

static void fault_begin(struct fault_world *world)
{
    if (world->is_short)
        scarce_begin(world->scarce);
}

static void fault_end(struct fault_world *world)
{
    if (world->is_short)
        scarce_end(world->scarce);
}

static struct fault_known *known_of(struct fault_world *world, const struct timer *timer)
{
    char text[PAYLOAD_SIZE + 1] = "";

    memcpy(text, timer->texts.payload.data, timer->texts.payload.size);
    size_t i = strtoul(text, NULL, 10);
    assert_true(i < world->count);
    return &world->known[i];
}

/* ---- what the engine wants done ---- */

/* A timer that fires once has one report, however often that is delivered. */
static void look_at_report(struct fault_world *world, const struct timer *report)
{
    struct timer_id about;

    assert_int_equal(timer_id_parse(report->texts.report_of, &about), ERROR_NONE);
    for (size_t i = 0; i < world->count; i++) {
        struct fault_known *known = &world->known[i];

        if (!known->is_created || !timer_id_equal(&known->id, &about))
            continue;
        assert_false(known->is_cancelled);
        assert_true(!known->report.serial || timer_id_equal(&known->report, &report->id));
        known->report = report->id;
        return;
    }
    fail_msg("a report of a timer that was never made");
}

static void look_at(struct fault_world *world, const struct delivery *delivery)
{
    if (delivery->timer->texts.report_of.size) {
        look_at_report(world, delivery->timer);
        return;
    }
    const struct fault_known *known = known_of(world, delivery->timer);

    assert_true(known->is_created);
    assert_false(known->is_cancelled);
    assert_true(known->due_ms <= world->fixture.now.ms);
}

/* One turn, as the engine's thread makes it. Returns whether there was anything to do. */
static bool fault_turn(struct fault_world *world, struct command *command, bool *ret_is_answered)
{
    struct engine_fixture *fixture = &world->fixture;

    if (world->is_short)
        engine_check(fixture->engine);
    fault_begin(world);
    struct command *reply;
    while ((reply = engine_take_reply(fixture->engine))) {
        assert_ptr_equal(reply, command);
        *ret_is_answered = true;
    }
    struct delivery *delivery;
    while ((delivery = engine_take_delivery(fixture->engine))) {
        fault_end(world);
        look_at(world, delivery);
        list_push(&fixture->out, &delivery->link);
        fault_begin(world);
    }
    struct storage_batch *batch;
    struct engine_read *read;
    bool busy = false;
    if ((batch = engine_take_batch(fixture->engine))) {
        busy = true;
        batch->result = storage_write(fixture->storage, &batch, 1, NULL);
        turn_committed(fixture->engine, fixture->now, batch);
    } else if ((read = engine_take_read(fixture->engine))) {
        busy = true;
        engine_read_perform(read, fixture->storage);
        turn_read_done(fixture->engine, fixture->now, read);
    }
    if (command && !*ret_is_answered && engine_take_reply(fixture->engine))
        *ret_is_answered = busy = true;
    fault_end(world);
    return busy;
}

static void carry_on(struct fault_world *world)
{
    bool is_answered = false;

    while (fault_turn(world, NULL, &is_answered))
        ;
}

static void fault_pass(struct fault_world *world, uint64_t ms)
{
    struct engine_fixture *fixture = &world->fixture;

    fixture->now = wall_add(fixture->now, ms);
    for (int turns = 0; turns < 100; turns++) { /* without memory some of it must wait */
        fault_begin(world);
        turn_advance(fixture->engine, fixture->now);
        fault_end(world);
        carry_on(world);
        if (engine_wake_at(fixture->engine).ms > fixture->now.ms)
            break;
    }
}

/* The answer, which comes also when there is no memory at all. What it shows is read at once. */
static enum error_code fault_submit(struct fault_world *world, struct command *command,
                                    void (*look)(struct fault_world *world,
                                                 const struct command *command))
{
    struct engine_fixture *fixture = &world->fixture;

    fault_begin(world);
    turn_submit(fixture->engine, fixture->now, command);
    fault_end(world);
    bool is_answered = false;
    int idle = 0;
    while (!is_answered && idle < 10)
        idle = fault_turn(world, command, &is_answered) ? 0 : idle + 1;
    assert_true(is_answered);
    if (look && !command->error)
        look(world, command);
    carry_on(world);
    assert_true(command->error == ERROR_NONE || command->error == ERROR_NO_MEMORY ||
                command->error == ERROR_NOT_FOUND || command->error == ERROR_GONE ||
                command->error == ERROR_ALREADY_FIRING || command->error == ERROR_UNREADABLE);
    return command->error;
}

/* ---- commands ---- */

struct wish {
    const char *target, *key, *watch, *labels, *schedule, *request, *reports;
    uint64_t after_ms;
};

static struct timer *timer_of_wish(const struct fault_world *world, const struct wish *wish,
                                   size_t i)
{
    char payload[PAYLOAD_SIZE + 1];
    struct timer_texts texts = {
        .target = bytes_of(wish->target ? wish->target : "http://a.example/"),
        .payload = {payload, (size_t)snprintf(payload, sizeof(payload), "%zu", i)},
        .key = bytes_of(wish->key ? wish->key : ""),
        .watch = bytes_of(wish->watch ? wish->watch : ""),
        .labels = bytes_of(wish->labels ? wish->labels : ""),
        .schedule = bytes_of(wish->schedule ? wish->schedule : ""),
        .request = bytes_of(wish->request ? wish->request : ""),
        .on_dead = bytes_of(wish->reports ? wish->reports : ""),
        .on_success = bytes_of(wish->reports ? wish->reports : ""),
        .tenant = BYTES("shop"),
    };

    struct timer *timer = timer_alloc(&texts);
    assert_non_null(timer);
    timer->due = wall_add(world->fixture.now, wish->after_ms);
    return timer;
}

static void learn(struct fault_world *world, size_t i, const struct command_created *created,
                  const struct wish *wish)
{
    if (created->error)
        return;
    assert_false(created->existed);
    world->known[i].is_created = true;
    world->known[i].id = created->id;
    world->known[i].is_reported = wish->reports;
    world->known[i].due_ms = world->fixture.now.ms + wish->after_ms;
}

/* Makes so many at once; each is answered for itself. Returns the first. */
static size_t fault_make(struct fault_world *world, enum command_kind kind, const struct wish *wish,
                         size_t count)
{
    struct timer *timers[TIMERS_MAX];
    struct command_created results[TIMERS_MAX] = {{0}};
    size_t first = world->count;
    struct command command = {.kind = kind,
                              .tenant = BYTES("shop"),
                              .timers = timers,
                              .results = results,
                              .timer_count = count};

    world->count += count;
    assert_true(world->count <= TIMERS_MAX);
    for (size_t i = 0; i < count; i++) {
        timers[i] = timer_of_wish(world, wish, first + i);
        world->known[first + i].due_ms = UINT64_MAX;
    }
    /* It may fire before its answer is looked at, so it counts as made until the answer says no. */
    for (size_t i = 0; i < count; i++)
        learn(world, first + i, &(struct command_created){0}, wish);
    fault_submit(world, &command, NULL);
    for (size_t i = 0; i < count; i++) {
        world->known[first + i].is_created = false;
        learn(world, first + i, &results[i], wish);
    }
    return first;
}

static void fault_change(struct fault_world *world, enum command_kind kind, size_t i,
                         uint64_t after_ms)
{
    struct fault_known *known = &world->known[i];
    struct command command = {.kind = kind, .tenant = BYTES("shop"), .id = known->id};
    uint64_t due_ms = world->fixture.now.ms + after_ms, was_ms = known->due_ms;

    if (!known->is_created)
        return;
    if (kind == COMMAND_PATCH || kind == COMMAND_TOUCH) {
        command.patch = timer_of_wish(world, &(struct wish){.after_ms = after_ms}, i);
        command.patch_fields = PATCH_DUE;
    }
    if (kind == COMMAND_FIRE)
        due_ms = world->fixture.now.ms;
    if (kind == COMMAND_CANCEL || kind == COMMAND_GET || kind == COMMAND_EXPLAIN)
        due_ms = was_ms;
    known->due_ms = due_ms < was_ms ? due_ms : was_ms; /* either, until it is answered */
    if (!fault_submit(world, &command, NULL)) {
        known->due_ms = due_ms;
        known->is_cancelled = kind == COMMAND_CANCEL;
    } else {
        known->due_ms = was_ms;
    }
}

/* Cancels all that have the name or the labels; without success some of them may be cancelled. */
static void fault_complete(struct fault_world *world, struct command command, size_t first,
                           size_t count)
{
    command.kind = COMMAND_COMPLETE;
    command.each = COMMAND_CANCEL;
    command.tenant = BYTES("shop");
    enum error_code error = fault_submit(world, &command, NULL);
    for (size_t i = 0; i < command.event_count && !error; i++)
        error = command.events[i].error;
    for (size_t i = first; i < first + count && !error; i++)
        world->known[i].is_cancelled = world->known[i].is_created;
}

static void look_at_page(struct fault_world *world, const struct command *command)
{
    for (size_t i = 0; i < command->page.count; i++)
        assert_true(known_of(world, command->page.timers[i])->is_created);
}

static void ask_about_many(struct fault_world *world)
{
    uint64_t due[4];
    struct forecast forecast = {
        .from = world->fixture.now, .unit_ms = 1000, .count = 4, .rows_max = 100, .due = due};
    struct command list = {.kind = COMMAND_LIST,
                           .tenant = BYTES("shop"),
                           .scan = {.to = {WALL_NEVER, 0}, .rows_max = 100, .bytes_max = 1 << 20}};
    struct command count = {
        .kind = COMMAND_FORECAST, .tenant = BYTES("shop"), .forecast = &forecast};

    fault_submit(world, &list, look_at_page);
    fault_submit(world, &count, NULL);
}

/* ---- deliveries ---- */

static void fault_note_answer(struct fault_world *world, const struct timer *timer,
                              enum delivery_result result)
{
    if (timer->texts.report_of.size)
        return;
    struct fault_known *known = known_of(world, timer);
    assert_true(!known->is_fired ||
                known->is_reported); /* without memory for its report it comes again */
    known->is_fired = result == DELIVERY_DONE && !timer->texts.schedule.size;
}

static void answer_out(struct fault_world *world, enum delivery_result result)
{
    struct engine_fixture *fixture = &world->fixture;
    struct list out; /* those of now: one that is returned is handed out again */

    list_init(&out);
    list_join(&out, &fixture->out);
    while (!list_is_empty(&out)) {
        struct delivery *delivery = list_item(out.next, struct delivery, link);

        fault_note_answer(world, delivery->timer, result);
        list_remove(&delivery->link);
        delivery->outcome = (struct delivery_outcome){.result = result, .error = "refused"};
        fault_begin(world);
        turn_delivered(fixture->engine, fixture->now, delivery);
        fault_end(world);
        carry_on(world);
    }
}

static void pull_all(struct fault_world *world)
{
    struct engine_fixture *fixture = &world->fixture;

    for (unsigned priority = 0; priority < QUEUE_PRIORITY_COUNT; priority++) {
        fault_begin(world);
        struct delivery *delivery =
            turn_pull(fixture->engine, fixture->now, BYTES("shop/jobs"), priority);
        fault_end(world);
        if (!delivery)
            continue;
        look_at(world, delivery);
        list_push(&fixture->out, &delivery->link);
    }
}

/* ---- lives of the engine ---- */

static void open_it(struct fault_world *world)
{
    struct engine_fixture *fixture = &world->fixture;
    struct storage_batch batch = {0}, *batches[] = {&batch};

    for (fixture->engine = NULL; !fixture->engine;) {
        fault_begin(world);
        if (!storage_load_meta(fixture->storage, 0, &batch.meta, NULL)) {
            batch.meta.epoch++;
            if (!storage_write(fixture->storage, batches, 1, NULL))
                fixture->engine = engine_create(&fixture->options, &batch.meta, fixture->now);
        }
        fault_end(world);
        if (!fixture->engine && world->scarce->from_then_on)
            world->is_short = false; /* there is no start without memory */
    }
    carry_on(world);
}

/* What is out comes back to nobody, and what was not recorded yet comes again. */
static void kill_it(struct fault_world *world)
{
    struct engine_fixture *fixture = &world->fixture;

    while (fixture_first_out(fixture)) {
        struct delivery *delivery = fixture_first_out(fixture);

        list_remove(&delivery->link);
        free(delivery);
    }
    for (size_t i = 0; i < world->count; i++)
        world->known[i].is_fired = false;
    engine_destroy(fixture->engine);
    memory_storage_check(fixture->storage);
    open_it(world);
}

static void history(struct fault_world *world)
{
    static const struct wish soon = {.after_ms = 2000, .reports = "http://r.example/"},
                             far = {.after_ms = HOUR_MS},
                             item = {.target = "queue:jobs",
                                     .after_ms = 1000,
                                     .reports = "queue:jobs"},
                             beat = {.schedule = "{\"every\":\"5s\",\"count\":3}",
                                     .after_ms = 5000},
                             named = {.key = "order", .after_ms = HOUR_MS, .watch = "paid\n"},
                             asked = {.request = "0123456789abcdefonce", .after_ms = 3000},
                             watching = {.watch = "paid\nlost\n", .after_ms = 2 * HOUR_MS},
                             labelled = {.labels = "{\"a\":\"b\"}", .after_ms = 3 * HOUR_MS},
                             other = {.target = "http://b.example/", .after_ms = 2000};
    struct command_event events[] = {{.name = BYTES("lost")}, {.name = BYTES("nobody")}};

    size_t few = fault_make(world, COMMAND_CREATE, &soon, 4);
    size_t distant = fault_make(world, COMMAND_CREATE, &far, 5);
    fault_make(world, COMMAND_CREATE, &item, 3);
    fault_make(world, COMMAND_CREATE, &beat, 1);
    fault_make(world, COMMAND_CREATE, &asked, 1);
    fault_make(world, COMMAND_CREATE, &other, 2);
    fault_make(world, COMMAND_PUT, &named, 1);
    size_t watchers = fault_make(world, COMMAND_CREATE, &watching, 3);
    fault_change(world, COMMAND_CANCEL, few, 0);
    fault_change(world, COMMAND_PATCH, few + 1, 4000);
    fault_change(world, COMMAND_TOUCH, few + 2, 6000);
    fault_change(world, COMMAND_CANCEL, distant, 0);
    fault_change(world, COMMAND_PATCH, distant + 1, 2 * HOUR_MS);
    fault_change(world, COMMAND_TOUCH, distant + 2, 3 * HOUR_MS);
    fault_change(world, COMMAND_FIRE, distant + 3, 0);
    fault_change(world, COMMAND_EXPLAIN, distant + 4, 0);
    answer_out(world, DELIVERY_DONE);
    fault_complete(world, (struct command){.events = events, .event_count = 2}, watchers, 3);
    fault_pass(world, 2000);
    answer_out(world, DELIVERY_FAILED);
    pull_all(world);
    kill_it(world); /* some are out, some wait for their retry */
    watchers = fault_make(world, COMMAND_CREATE, &labelled, 3);
    fault_complete(world, (struct command){.labels = BYTES("{\"a\":\"b\"}")}, watchers, 3);
    ask_about_many(world);
    fault_change(world, COMMAND_GET, distant + 1, 0);
    fault_pass(world, 10000);
    pull_all(world);
    answer_out(world, DELIVERY_RETURNED);
    fault_pass(world, 10000);
    answer_out(world, DELIVERY_DONE);
    fault_pass(world, HOUR_MS);
    answer_out(world, DELIVERY_ENDED); /* the patience of some ends: dead letters */
}

/* There is memory again: everything that was promised comes. */
static void last_hours(struct fault_world *world)
{
    for (int i = 0; i < 40; i++) {
        fault_pass(world, HOUR_MS / 4);
        pull_all(world);
        answer_out(world, DELIVERY_DONE);
    }
}

static void look_for_all(struct fault_world *world)
{
    for (size_t i = 0; i < world->count; i++) {
        struct fault_known *known = &world->known[i];
        struct command command = {.kind = COMMAND_GET, .tenant = BYTES("shop"), .id = known->id};

        if (!known->is_created)
            continue;
        assert_int_equal(fault_submit(world, &command, NULL), ERROR_GONE);
        if (known->is_fired && known->is_reported)
            assert_true(known->report.serial != 0);
    }
}

static void test_history(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("engine"); scarce_next(&scarce);) {
        struct fault_world world = {.scarce = &scarce};

        world.fixture = (struct engine_fixture){.options = ENGINE_OPTIONS_DEFAULT, .now = START};
        world.fixture.options.retain_ms = 24 * HOUR_MS;
        list_init(&world.fixture.out);
        world.fixture.storage = memory_storage_create(1);
        world.is_short = true;
        open_it(&world);
        history(&world);
        world.is_short = false;
        last_hours(&world);
        look_for_all(&world);
        engine_check(world.fixture.engine);
        fixture_close(&world.fixture);
        memory_storage_check(world.fixture.storage);
        storage_close(world.fixture.storage);
    }
}

/* ---- a time zone that cannot be read ---- */

struct zone_shelf {
    enum error_code code; /* what comes of reading */
};

static enum error_code fault_find_zone(void *context, struct bytes name,
                                       const struct zone **ret_zone)
{
    const struct zone_shelf *shelf = context;

    (void)name;
    if (!shelf->code)
        *ret_zone = zone_utc();
    return shelf->code;
}

/* Goal: what recurs goes on, also when there is no memory for its time zone, or no descriptor to
 * read it with, just when it has fired. Method: daily in a zone; its zone cannot be read when
 * it has fired, so it waits until it can, and comes again. */
static void test_a_zone_that_cannot_be_read(void **state)
{
    static const enum error_code codes[] = {ERROR_NO_MEMORY, ERROR_IO};

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct zone_shelf shelf = {ERROR_NONE};
        struct timer *timer = timer_alloc(&(struct timer_texts){
            .target = BYTES("http://a.example/"),
            .schedule = BYTES("{\"cron\":\"0 9 * * *\",\"timezone\":\"Europe/Berlin\"}")});
        struct command_created created;
        struct command command = {
            .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
        struct engine_fixture fixture;

        fixture_init(&fixture);
        engine_destroy(fixture.engine);
        fixture.options.zones = (struct zone_source){.find = fault_find_zone, .context = &shelf};
        fixture_open(&fixture);
        timer->due = (struct wall){START.ms + 1000};
        fixture_command(&fixture, &command);
        fixture_carry_out(&fixture);
        fixture_advance_to(&fixture, 1000);
        assert_int_equal(fixture.delivered_count, 1);
        shelf.code = codes[i];
        fixture_answer_all(&fixture, DELIVERY_DONE);
        fixture_advance_to(&fixture, 5000);
        assert_int_equal(fixture.delivered_count, 1);
        shelf.code = ERROR_NONE;
        fixture_advance_to(&fixture, 20000);
        assert_int_equal(fixture.delivered_count, 2);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &created.id, 0, NULL), ERROR_NONE);
        fixture_advance_to(&fixture, 25 * HOUR_MS);
        assert_int_equal(fixture.delivered_count, 3);
        fixture_deinit(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_a_zone_that_cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
