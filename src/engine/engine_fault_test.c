/*
 * Goal: whichever allocation fails, under whatever the engine is just doing, every command is
 * answered, NO_MEMORY means that nothing came of it, and what was answered with success holds: it
 * fires once, not early, and not after a cancel. Method: one history with every kind of command, a
 * restart in its middle, over storage in memory, with the N-th allocation refused alone, and with
 * all that follow it until the history is over; then there is memory again, and time goes on until
 * everything has fired.
 */
#include "engine/engine_testing.h"
#include "timer/queue_target.h"

#include <scarce.h>
#include <stdio.h>
#include <string.h>

enum { TIMERS_MAX = 64, PAYLOAD_SIZE = 8 };

/* What the client knows of a timer. */
struct known {
    struct timer_id id;
    bool is_created, is_cancelled;
    bool is_fired;   /* a delivery of it was answered with DONE */
    uint64_t due_ms; /* not before */
};

struct world {
    struct bed bed;
    struct scarce *scarce;
    struct known known[TIMERS_MAX];
    size_t count;
    bool is_short; /* memory */
};

static void begin(struct world *world)
{
    if (world->is_short)
        scarce_begin(world->scarce);
}

static void end(struct world *world)
{
    if (world->is_short)
        scarce_end(world->scarce);
}

static struct known *known_of(struct world *world, const struct timer *timer)
{
    char text[PAYLOAD_SIZE + 1] = "";
    size_t i;

    memcpy(text, timer->texts.payload.data, timer->texts.payload.size);
    i = strtoul(text, NULL, 10);
    assert_true(i < world->count);
    return &world->known[i];
}

/* ---- what the engine wants done ---- */

static void look_at(struct world *world, const struct delivery *delivery)
{
    const struct known *known = known_of(world, delivery->timer);

    assert_true(known->is_created);
    assert_false(known->is_cancelled);
    assert_true(known->due_ms <= world->bed.now.ms);
}

/* One turn, as the engine's thread makes it. Returns whether there was anything to do. */
static bool turn(struct world *world, struct command *command, bool *ret_is_answered)
{
    struct bed *bed = &world->bed;
    struct storage_batch *batch;
    struct engine_read *read;
    struct delivery *delivery;
    struct command *reply;
    bool busy = false;

    if (world->is_short)
        engine_check(bed->engine);
    begin(world);
    while ((reply = engine_take_reply(bed->engine))) {
        assert_ptr_equal(reply, command);
        *ret_is_answered = true;
    }
    while ((delivery = engine_take_delivery(bed->engine))) {
        end(world);
        look_at(world, delivery);
        list_push(&bed->out, &delivery->link);
        begin(world);
    }
    if ((batch = engine_take_batch(bed->engine))) {
        busy = true;
        batch->result = storage_commit(bed->storage, &batch, 1, NULL);
        turn_committed(bed->engine, bed->now, batch);
    } else if ((read = engine_take_read(bed->engine))) {
        busy = true;
        engine_read_perform(read, bed->storage);
        turn_read_done(bed->engine, bed->now, read);
    }
    if (command && !*ret_is_answered && engine_take_reply(bed->engine))
        *ret_is_answered = busy = true;
    end(world);
    return busy;
}

static void carry_on(struct world *world)
{
    bool is_answered = false;

    while (turn(world, NULL, &is_answered))
        ;
}

static void pass(struct world *world, uint64_t ms)
{
    struct bed *bed = &world->bed;

    bed->now = wall_add(bed->now, ms);
    for (int turns = 0; turns < 100; turns++) { /* without memory some of it must wait */
        begin(world);
        turn_advance(bed->engine, bed->now);
        end(world);
        carry_on(world);
        if (engine_wake_at(bed->engine).ms > bed->now.ms)
            break;
    }
}

/* The answer, which comes also when there is no memory at all. What it shows is read at once. */
static enum error_code submit(struct world *world, struct command *command,
                              void (*look)(struct world *world, const struct command *command))
{
    struct bed *bed = &world->bed;
    bool is_answered = false;
    int idle = 0;

    begin(world);
    turn_submit(bed->engine, bed->now, command);
    end(world);
    while (!is_answered && idle < 10)
        idle = turn(world, command, &is_answered) ? 0 : idle + 1;
    assert_true(is_answered);
    if (look && !command->error)
        look(world, command);
    carry_on(world);
    assert_true(command->error == ERROR_NONE || command->error == ERROR_NO_MEMORY ||
                command->error == ERROR_NOT_FOUND || command->error == ERROR_GONE ||
                command->error == ERROR_ALREADY_FIRING);
    return command->error;
}

/* ---- commands ---- */

struct wish {
    const char *target, *key, *watch, *labels, *schedule, *request;
    uint64_t after_ms;
};

static struct timer *timer_of_wish(const struct world *world, const struct wish *wish, size_t i)
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
        .tenant = BYTES("shop"),
    };
    struct timer *timer;

    timer = timer_alloc(&texts);
    assert_non_null(timer);
    timer->due = wall_add(world->bed.now, wish->after_ms);
    return timer;
}

static void learn(struct world *world, size_t i, const struct command_created *created,
                  const struct wish *wish)
{
    if (created->error)
        return;
    assert_false(created->existed);
    world->known[i].is_created = true;
    world->known[i].id = created->id;
    world->known[i].due_ms = world->bed.now.ms + wish->after_ms;
}

/* Makes so many at once; each is answered for itself. Returns the first. */
static size_t make(struct world *world, enum command_kind kind, const struct wish *wish,
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
    submit(world, &command, NULL);
    for (size_t i = 0; i < count; i++) {
        world->known[first + i].is_created = false;
        learn(world, first + i, &results[i], wish);
    }
    return first;
}

static void change(struct world *world, enum command_kind kind, size_t i, uint64_t after_ms)
{
    struct known *known = &world->known[i];
    struct command command = {.kind = kind, .tenant = BYTES("shop"), .id = known->id};
    uint64_t due_ms = world->bed.now.ms + after_ms, was_ms = known->due_ms;

    if (!known->is_created)
        return;
    if (kind == COMMAND_PATCH || kind == COMMAND_TOUCH) {
        command.patch = timer_of_wish(world, &(struct wish){.after_ms = after_ms}, i);
        command.patch_fields = PATCH_DUE;
    }
    if (kind == COMMAND_FIRE)
        due_ms = world->bed.now.ms;
    if (kind == COMMAND_CANCEL || kind == COMMAND_GET || kind == COMMAND_EXPLAIN)
        due_ms = was_ms;
    known->due_ms = due_ms < was_ms ? due_ms : was_ms; /* either, until it is answered */
    if (!submit(world, &command, NULL)) {
        known->due_ms = due_ms;
        known->is_cancelled = kind == COMMAND_CANCEL;
    } else {
        known->due_ms = was_ms;
    }
}

/* Cancels all that have the name or the labels; without success some of them may be cancelled. */
static void complete(struct world *world, struct command command, size_t first, size_t count)
{
    enum error_code error;

    command.kind = COMMAND_COMPLETE;
    command.each = COMMAND_CANCEL;
    command.tenant = BYTES("shop");
    error = submit(world, &command, NULL);
    for (size_t i = 0; i < command.event_count && !error; i++)
        error = command.events[i].error;
    for (size_t i = first; i < first + count && !error; i++)
        world->known[i].is_cancelled = world->known[i].is_created;
}

static void look_at_page(struct world *world, const struct command *command)
{
    for (size_t i = 0; i < command->page.count; i++)
        assert_true(known_of(world, command->page.timers[i])->is_created);
}

static void ask_about_many(struct world *world)
{
    uint64_t due[4];
    struct forecast forecast = {
        .from = world->bed.now, .unit_ms = 1000, .count = 4, .rows_max = 100, .due = due};
    struct command list = {.kind = COMMAND_LIST,
                           .tenant = BYTES("shop"),
                           .scan = {.to = {WALL_NEVER, 0}, .rows_max = 100, .bytes_max = 1 << 20}};
    struct command count = {
        .kind = COMMAND_FORECAST, .tenant = BYTES("shop"), .forecast = &forecast};

    submit(world, &list, look_at_page);
    submit(world, &count, NULL);
}

/* ---- deliveries ---- */

static void answer_out(struct world *world, enum delivery_result result)
{
    struct bed *bed = &world->bed;
    struct list out; /* those of now: one that is returned is handed out again */

    list_init(&out);
    list_join(&out, &bed->out);
    while (!list_is_empty(&out)) {
        struct delivery *delivery = list_item(out.next, struct delivery, link);
        struct known *known = known_of(world, delivery->timer);
        bool recurs = delivery->timer->texts.schedule.size > 0;

        assert_false(known->is_fired);
        known->is_fired = result == DELIVERY_DONE && !recurs;
        list_remove(&delivery->link);
        delivery->outcome = (struct delivery_outcome){.result = result, .error = "refused"};
        begin(world);
        turn_delivered(bed->engine, bed->now, delivery);
        end(world);
        carry_on(world);
    }
}

static void pull_all(struct world *world)
{
    struct bed *bed = &world->bed;
    struct delivery *delivery;

    for (unsigned priority = 0; priority < QUEUE_PRIORITY_COUNT; priority++) {
        begin(world);
        delivery = turn_pull(bed->engine, bed->now, BYTES("shop/jobs"), priority);
        end(world);
        if (!delivery)
            continue;
        look_at(world, delivery);
        list_push(&bed->out, &delivery->link);
    }
}

/* ---- lives of the engine ---- */

static void open_it(struct world *world)
{
    struct bed *bed = &world->bed;
    struct storage_batch batch = {0}, *batches[] = {&batch};

    for (bed->engine = NULL; !bed->engine;) {
        begin(world);
        if (!storage_load_meta(bed->storage, 0, &batch.meta, NULL)) {
            batch.meta.epoch++;
            if (!storage_commit(bed->storage, batches, 1, NULL))
                bed->engine = engine_create(&bed->options, &batch.meta, bed->now);
        }
        end(world);
        if (!bed->engine && world->scarce->from_then_on)
            world->is_short = false; /* there is no start without memory */
    }
    carry_on(world);
}

/* What is out comes back to nobody, and what was not recorded yet comes again. */
static void kill_it(struct world *world)
{
    struct bed *bed = &world->bed;

    while (first_out(bed)) {
        struct delivery *delivery = first_out(bed);

        list_remove(&delivery->link);
        free(delivery);
    }
    for (size_t i = 0; i < world->count; i++)
        world->known[i].is_fired = false;
    engine_destroy(bed->engine);
    memory_storage_check(bed->storage);
    open_it(world);
}

static void history(struct world *world)
{
    static const struct wish soon = {.after_ms = 2000}, far = {.after_ms = HOUR_MS},
                             item = {.target = "queue:jobs", .after_ms = 1000},
                             beat = {.schedule = "{\"every\":\"5s\",\"count\":3}",
                                     .after_ms = 5000},
                             named = {.key = "order", .after_ms = HOUR_MS, .watch = "paid\n"},
                             asked = {.request = "0123456789abcdefonce", .after_ms = 3000},
                             watching = {.watch = "paid\nlost\n", .after_ms = 2 * HOUR_MS},
                             labelled = {.labels = "{\"a\":\"b\"}", .after_ms = 3 * HOUR_MS},
                             other = {.target = "http://b.example/", .after_ms = 2000};
    struct command_event events[] = {{.name = BYTES("lost")}, {.name = BYTES("nobody")}};
    size_t few, distant, watchers;

    few = make(world, COMMAND_CREATE, &soon, 4);
    distant = make(world, COMMAND_CREATE, &far, 5);
    make(world, COMMAND_CREATE, &item, 3);
    make(world, COMMAND_CREATE, &beat, 1);
    make(world, COMMAND_CREATE, &asked, 1);
    make(world, COMMAND_CREATE, &other, 2);
    make(world, COMMAND_PUT, &named, 1);
    watchers = make(world, COMMAND_CREATE, &watching, 3);
    change(world, COMMAND_CANCEL, few, 0);
    change(world, COMMAND_PATCH, few + 1, 4000);
    change(world, COMMAND_TOUCH, few + 2, 6000);
    change(world, COMMAND_CANCEL, distant, 0);
    change(world, COMMAND_PATCH, distant + 1, 2 * HOUR_MS);
    change(world, COMMAND_TOUCH, distant + 2, 3 * HOUR_MS);
    change(world, COMMAND_FIRE, distant + 3, 0);
    change(world, COMMAND_EXPLAIN, distant + 4, 0);
    answer_out(world, DELIVERY_DONE);
    complete(world, (struct command){.events = events, .event_count = 2}, watchers, 3);
    pass(world, 2000);
    answer_out(world, DELIVERY_FAILED);
    pull_all(world);
    kill_it(world); /* some are out, some wait for their retry */
    watchers = make(world, COMMAND_CREATE, &labelled, 3);
    complete(world, (struct command){.labels = BYTES("{\"a\":\"b\"}")}, watchers, 3);
    ask_about_many(world);
    change(world, COMMAND_GET, distant + 1, 0);
    pass(world, 10000);
    pull_all(world);
    answer_out(world, DELIVERY_RETURNED);
    pass(world, 10000);
    answer_out(world, DELIVERY_DONE);
    pass(world, HOUR_MS);
    answer_out(world, DELIVERY_ENDED); /* the patience of some ends: dead letters */
}

/* There is memory again: everything that was promised comes. */
static void last_hours(struct world *world)
{
    for (int i = 0; i < 40; i++) {
        pass(world, HOUR_MS / 4);
        pull_all(world);
        answer_out(world, DELIVERY_DONE);
    }
}

static void look_for_all(struct world *world)
{
    for (size_t i = 0; i < world->count; i++) {
        struct known *known = &world->known[i];
        struct command command = {.kind = COMMAND_GET, .tenant = BYTES("shop"), .id = known->id};

        if (!known->is_created)
            continue;
        assert_int_equal(submit(world, &command, NULL), ERROR_GONE);
    }
}

static void test_history(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("engine"); scarce_next(&scarce);) {
        struct world world = {.scarce = &scarce};

        world.bed = (struct bed){.options = ENGINE_OPTIONS_DEFAULT, .now = START};
        world.bed.options.retain_ms = 24 * HOUR_MS;
        list_init(&world.bed.out);
        world.bed.storage = memory_storage_create(1);
        world.is_short = true;
        open_it(&world);
        history(&world);
        world.is_short = false;
        last_hours(&world);
        look_for_all(&world);
        engine_check(world.bed.engine);
        close_engine(&world.bed);
        memory_storage_check(world.bed.storage);
        storage_close(world.bed.storage);
    }
}

/* ---- a time zone that cannot be read ---- */

struct zone_shelf {
    enum error_code code; /* what comes of reading */
};

static enum error_code find_zone(void *context, struct bytes name, const struct zone **ret_zone)
{
    const struct zone_shelf *shelf = context;

    (void)name;
    if (!shelf->code)
        *ret_zone = zone_utc();
    return shelf->code;
}

/* Goal: what recurs goes on, also when there is no memory for its time zone, or no descriptor to
 * read it with, just when it has fired. Method: daily in a zone; the first time its zone cannot be
 * read, so it comes again, and then it can. */
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
        struct bed bed;

        bed_init(&bed);
        engine_destroy(bed.engine);
        bed.options.zones = (struct zone_source){find_zone, &shelf};
        open_engine(&bed);
        timer->due = (struct wall){START.ms + 1000};
        command_answer(&bed, &command);
        carry_out(&bed);
        advance_to(&bed, 1000);
        assert_int_equal(bed.delivered_count, 1);
        shelf.code = codes[i];
        answer_all(&bed, DELIVERY_DONE);
        advance_to(&bed, 5000);
        assert_int_equal(bed.delivered_count, 2);
        shelf.code = ERROR_NONE;
        answer_all(&bed, DELIVERY_DONE);
        assert_int_equal(ask(&bed, COMMAND_GET, &created.id, 0, NULL), ERROR_NONE);
        advance_to(&bed, 25 * HOUR_MS);
        assert_int_equal(bed.delivered_count, 3);
        bed_deinit(&bed);
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
