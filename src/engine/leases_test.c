/*
 * Timers of the built-in queue, as the engine sees them: they wait until they are pulled, and
 * however many there are, a pull that has room finds one. Method: one engine by hand over storage
 * in memory.
 */
#include "engine/engine_turn_testing.h"
#include "store/testing/memory.h"
#include "store/storage_writing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define START ((struct wall){UINT64_C(1800000000000)})

struct pull_fixture {
    struct engine_options options;
    struct storage *storage;
    struct engine *engine;
    struct wall now;
    struct delivery *recorded; /* the last one */
    size_t recorded_count;
    bool fails_commits;
    size_t turns;
    size_t batch_writes_most;
};

static void pull_carry_out(struct pull_fixture *fixture)
{
    for (bool busy = true; busy;) {
        struct storage_batch *batch = engine_take_batch(fixture->engine);
        struct engine_read *read = engine_take_read(fixture->engine);

        busy = batch || read;
        while (engine_take_reply(fixture->engine))
            ;
        struct delivery *delivery;
        while ((delivery = engine_take_recorded(fixture->engine))) {
            free(fixture->recorded);
            fixture->recorded = delivery;
            fixture->recorded_count++;
        }
        if (batch) {
            if (batch->write_count > fixture->batch_writes_most)
                fixture->batch_writes_most = batch->write_count;
            batch->result = fixture->fails_commits
                                ? ERROR_IO
                                : storage_write(fixture->storage, &batch, 1, NULL);
            turn_committed(fixture->engine, fixture->now, batch);
        }
        if (read) {
            while (engine_take_reply(fixture->engine))
                ;
            if (read->kind == ENGINE_READ_FIND)
                read->result = storage_find(fixture->storage, &read->id, &read->timer, NULL);
            else
                read->result = storage_scan(fixture->storage, &read->scan, &read->page, NULL);
            turn_read_done(fixture->engine, fixture->now, read);
        }
        if (fixture->turns++ % 32 == 0)
            engine_check(fixture->engine);
    }
}

/* Lets the engine do all that it wants to do at this moment. */
static void pull_settle(struct pull_fixture *fixture)
{
    do {
        turn_advance(fixture->engine, fixture->now);
        pull_carry_out(fixture);
    } while (engine_wake_at(fixture->engine).ms <= fixture->now.ms);
}

static void pull_advance(struct pull_fixture *fixture, uint64_t ms)
{
    fixture->now = wall_add(fixture->now, ms);
    pull_settle(fixture);
}

static void pull_open_engine(struct pull_fixture *fixture)
{
    struct storage_batch batch = {0}, *batches[] = {&batch};

    assert_int_equal(storage_load_meta(fixture->storage, 0, &batch.meta, NULL), ERROR_NONE);
    batch.meta.epoch++;
    assert_int_equal(storage_write(fixture->storage, batches, 1, NULL), ERROR_NONE);
    fixture->engine = engine_create(&fixture->options, &batch.meta, fixture->now);
    pull_settle(fixture);
}

static void pull_init(struct pull_fixture *fixture, size_t near_bytes_max)
{
    *fixture = (struct pull_fixture){.options = ENGINE_OPTIONS_DEFAULT, .now = START};
    fixture->options.near_bytes_max = near_bytes_max;
    fixture->storage = memory_storage_create(1);
    pull_open_engine(fixture);
}

static void pull_deinit(struct pull_fixture *fixture)
{
    free(fixture->recorded);
    engine_destroy(fixture->engine);
    storage_close(fixture->storage);
}

static struct timer_id pull_create(struct pull_fixture *fixture, const char *target,
                                   uint64_t after_ms)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    timer->due = wall_add(fixture->now, after_ms);
    turn_submit(fixture->engine, fixture->now, &command);
    pull_carry_out(fixture);
    assert_int_equal(created.error, ERROR_NONE);
    return created.id;
}

static enum error_code pull_ask(struct pull_fixture *fixture, enum command_kind kind,
                                struct timer_id id)
{
    struct command command = {.kind = kind, .id = id};

    turn_submit(fixture->engine, fixture->now, &command);
    pull_carry_out(fixture);
    return command.error;
}

static struct delivery *pull_one(struct pull_fixture *fixture, const char *queue, unsigned priority)
{
    struct delivery *delivery = turn_pull(fixture->engine, fixture->now, bytes_of(queue), priority);

    pull_carry_out(fixture);
    return delivery;
}

static void pull_answer(struct pull_fixture *fixture, struct delivery *delivery,
                        struct delivery_outcome outcome)
{
    delivery->outcome = outcome;
    turn_delivered(fixture->engine, fixture->now, delivery);
    pull_carry_out(fixture);
}

static void pull_done(struct pull_fixture *fixture, struct delivery *delivery)
{
    pull_answer(fixture, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
}

static struct engine_stats pull_stats(struct pull_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

/* Goal: nothing is handed out unasked, by another name or another priority, or before it is due. */
/* proves: lease */
static void test_waits_until_it_is_pulled(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 1 << 20);
    struct timer_id id = pull_create(&fixture, "queue:mail", 1000);
    assert_null(pull_one(&fixture, "mail", 5));
    pull_advance(&fixture, 1000);
    assert_null(engine_take_delivery(fixture.engine));
    assert_null(pull_one(&fixture, "mai", 5));
    assert_null(pull_one(&fixture, "mail", 6));
    struct wall due;
    assert_true(engine_peek(fixture.engine, BYTES("mail"), 5, &due));
    assert_int_equal(due.ms, START.ms + 1000);
    struct delivery *delivery = pull_one(&fixture, "mail", 5);
    assert_true(timer_id_equal(&delivery->timer->id, &id));
    assert_int_equal(delivery->attempt, 1);
    assert_null(pull_one(&fixture, "mail", 5));
    pull_done(&fixture, delivery);
    assert_int_equal(pull_stats(&fixture).fired, 1);
    pull_deinit(&fixture);
}

/* Goal: "queue:a" and "queue:a?priority=5" are one queue, in order of due times. */
/* proves: target-queue */
static void test_one_lane_for_both_spellings(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 1 << 20);
    struct timer_id ids[3];
    ids[2] = pull_create(&fixture, "queue:a", 30);
    ids[0] = pull_create(&fixture, "queue:a?priority=5", 10);
    ids[1] = pull_create(&fixture, "queue:a", 20);
    for (int i = 0; i < 3; i++) /* all three are due when the next is looked at */
        pull_advance(&fixture, 10);
    for (int i = 0; i < 3; i++) {
        struct delivery *delivery = pull_one(&fixture, "a", 5);

        assert_true(timer_id_equal(&delivery->timer->id, &ids[i]));
        pull_done(&fixture, delivery);
    }
    pull_deinit(&fixture);
}

/* Goal: what is ready but not leased can be cancelled and is not handed out afterwards: the stock
 * reservation that is paid late. What is leased cannot. */
/* proves: lease-cancel */
static void test_ready_can_be_cancelled(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 1 << 20);
    struct timer_id ids[2];
    ids[0] = pull_create(&fixture, "queue:a", 0);
    ids[1] = pull_create(&fixture, "queue:a", 0);
    pull_settle(&fixture);
    assert_int_equal(pull_ask(&fixture, COMMAND_CANCEL, ids[0]), ERROR_NONE);
    struct delivery *delivery = pull_one(&fixture, "a", 5);
    assert_true(timer_id_equal(&delivery->timer->id, &ids[1]));
    assert_int_equal(pull_ask(&fixture, COMMAND_CANCEL, ids[1]), ERROR_ALREADY_FIRING);
    assert_null(pull_one(&fixture, "a", 5));
    pull_done(&fixture, delivery);
    pull_deinit(&fixture);
}

/* Goal: a queue is named once when it gets something, and not again before it was asked. */
static void test_wakes_once(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 1 << 20);
    struct bytes name;
    assert_false(engine_take_woken(fixture.engine, &name));
    pull_create(&fixture, "queue:mail", 5);
    pull_create(&fixture, "queue:mail", 5);
    pull_create(&fixture, "http://a.example/", 5);
    assert_false(engine_take_woken(fixture.engine, &name));
    pull_advance(&fixture, 5);
    assert_true(engine_take_woken(fixture.engine, &name));
    assert_true(bytes_equal(name, BYTES("mail")));
    assert_false(engine_take_woken(fixture.engine, &name));
    pull_create(&fixture, "queue:mail", 0);
    pull_settle(&fixture);
    assert_true(engine_take_woken(fixture.engine, &name));
    free(engine_take_delivery(fixture.engine));
    pull_deinit(&fixture);
}

/* Goal: an outcome is recorded when it is durable, and a returned one changes nothing at all. */
/* proves: item-attempt */
static void test_pulled_outcomes(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 1 << 20);
    pull_create(&fixture, "queue:a", 0);
    pull_settle(&fixture);
    struct delivery *delivery = pull_one(&fixture, "a", 5);
    pull_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_RETURNED});
    assert_int_equal(pull_stats(&fixture).attempts, 0);
    assert_int_equal(pull_stats(&fixture).waiting, 1);
    delivery = pull_one(&fixture, "a", 5);
    assert_int_equal(delivery->attempt, 1);
    delivery->wants_record = true;
    pull_answer(&fixture, delivery,
                (struct delivery_outcome){.result = DELIVERY_FAILED,
                                          .pause = DELIVERY_PAUSE_EXACT,
                                          .retry_after_ms = 700,
                                          .error = "not today"});
    assert_int_equal(fixture.recorded_count, 1);
    assert_int_equal(fixture.recorded->recorded, ERROR_NONE);
    pull_advance(&fixture, 699);
    assert_null(pull_one(&fixture, "a", 5));
    pull_advance(&fixture, 1);
    delivery = pull_one(&fixture, "a", 5);
    assert_int_equal(delivery->attempt, 2);
    assert_true(bytes_equal(delivery->timer->texts.last_error, BYTES("not today")));
    delivery->wants_record = true;
    fixture.fails_commits = true;
    turn_delivered(fixture.engine, fixture.now, delivery);
    {
        struct storage_batch *batch = engine_take_batch(fixture.engine);

        assert_null(engine_take_recorded(fixture.engine)); /* not before the write is back */
        batch->result = ERROR_IO;
        turn_committed(fixture.engine, fixture.now, batch);
    }
    pull_carry_out(&fixture);
    assert_int_equal(fixture.recorded_count, 2);
    assert_int_equal(fixture.recorded->recorded, ERROR_IO);
    fixture.fails_commits = false;
    pull_advance(&fixture, 1000); /* it is written again, and told of once only */
    assert_int_equal(fixture.recorded_count, 2);
    assert_int_equal(pull_stats(&fixture).fired, 1);
    pull_deinit(&fixture);
}

/* Goal: as many are out as the limits say, in number and in bytes; whoever was refused is woken
 * when there is room. */
/* proves: queue_leases_max (beyond) */
static void test_limits(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 1 << 20);
    engine_destroy(fixture.engine);
    fixture.options.pulled_max = 3;
    pull_open_engine(&fixture);
    for (int i = 0; i < 3; i++)
        pull_create(&fixture, "queue:a", 0);
    pull_create(&fixture, "queue:b", 0);
    pull_settle(&fixture);
    struct delivery *out[4];
    for (int i = 0; i < 3; i++)
        assert_non_null(out[i] = pull_one(&fixture, "a", 5));
    struct bytes name;
    while (engine_take_woken(fixture.engine, &name))
        ;
    assert_null(pull_one(&fixture, "b", 5));
    assert_false(engine_take_woken(fixture.engine, &name));
    pull_done(&fixture, out[0]);
    assert_true(engine_take_woken(fixture.engine, &name));
    assert_true(bytes_equal(name, BYTES("b")));
    assert_non_null(out[3] = pull_one(&fixture, "b", 5));
    for (int i = 1; i < 4; i++)
        pull_done(&fixture, out[i]);
    pull_deinit(&fixture);
    pull_init(&fixture, 4 << 10); /* a quarter of it is some three timers */
    for (int i = 0; i < 8; i++)
        pull_create(&fixture, "queue:a", 0);
    pull_settle(&fixture);
    for (int i = 0; i < 4; i++)
        out[i] = pull_one(&fixture, "a", 5);
    assert_non_null(out[0]);
    assert_null(out[3]);
    for (int i = 0; i < 4; i++)
        if (out[i])
            pull_done(&fixture, out[i]);
    pull_deinit(&fixture);
}

/* Takes what there is without letting time pass; now and then one is handed back unseen, and must
 * come again. Returns how many. */
static size_t pull_drain(struct pull_fixture *fixture, const char *queue)
{
    struct delivery *delivery;
    size_t count = 0;

    for (size_t i = 0; (delivery = pull_one(fixture, queue, 5)); i++) {
        if (i % 7 == 0) {
            pull_answer(fixture, delivery, (struct delivery_outcome){.result = DELIVERY_RETURNED});
        } else {
            pull_done(fixture, delivery);
            count++;
        }
        pull_settle(fixture);
    }
    return count;
}

/* Goal: a backlog far larger than memory drains at the workers' speed: no worker ever finds a queue
 * empty while spilled timers wait for the place they were moved to. Method: room for some 600
 * timers, 20,000 due at once; the clock stands still while they are pulled. */
static void test_a_spilled_backlog_drains_without_a_pause(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 256 << 10);
    for (int i = 0; i < 20000; i++)
        pull_create(&fixture, "queue:a", 60000);
    pull_advance(&fixture, 60000);
    assert_int_equal(pull_drain(&fixture, "a"), 20000);
    assert_true(pull_stats(&fixture).spilled > 0);
    assert_true(pull_stats(&fixture).reloaded > 0);
    assert_int_equal(pull_stats(&fixture).fired, 20000);
    pull_deinit(&fixture);
}

/* Goal: the same while another target is dead and has a backlog of its own, and a third queue has
 * nobody who pulls. */
static void test_a_dead_neighbour_does_not_hold_it_up(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 256 << 10);
    for (int i = 0; i < 4000; i++) {
        pull_create(&fixture, "http://dead.example/", 60000);
        pull_create(&fixture, "queue:nobody", 60000);
        pull_create(&fixture, "queue:a", 60000);
    }
    pull_advance(&fixture, 60000);
    assert_int_equal(pull_drain(&fixture, "a"), 4000);
    assert_true(pull_stats(&fixture).near_bytes < 256 << 10);
    assert_int_equal(pull_drain(&fixture, "nobody"), 4000);
    for (struct delivery *delivery; (delivery = engine_take_delivery(fixture.engine));)
        free(delivery);
    pull_deinit(&fixture);
}

/* Goal: what an earlier life had spilled is reloaded as well, and so is what failed before it was
 * spilled. Method: those in memory are handed back a few times, but not to their last attempt; then
 * the process dies. */
static void test_a_spilled_backlog_outlives_a_crash(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 256 << 10);
    for (int i = 0; i < 5000; i++)
        pull_create(&fixture, "queue:a", 60000);
    pull_advance(&fixture, 60000);
    uint64_t count = 5 * pull_stats(&fixture).waiting;
    struct delivery *delivery;
    for (uint64_t i = 0; i < count && (delivery = pull_one(&fixture, "a", 5)); i++) {
        pull_answer(
            &fixture, delivery,
            (struct delivery_outcome){.result = DELIVERY_FAILED, .pause = DELIVERY_PAUSE_EXACT});
        pull_settle(&fixture);
    }
    assert_int_equal(pull_stats(&fixture).dead, 0);
    engine_destroy(fixture.engine);
    pull_open_engine(&fixture);
    assert_int_equal(pull_drain(&fixture, "a"), 5000);
    pull_deinit(&fixture);
}

/* Goal: what is spilled is spilled in small portions, so that no commit is long because of it.
 * Method: memory is filled little by little with what is due; the largest batch is measured. */
static void test_spilling_is_spread(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 4 << 20);
    for (int i = 0; i < 20000; i++)
        pull_create(&fixture, "queue:a", 0);
    assert_true(pull_stats(&fixture).spilled > 5000);
    assert_true(fixture.batch_writes_most <=
                1 + 256 + 1); /* the create, one step, one for each dispatch queue */
    assert_int_equal(pull_drain(&fixture, "a"), 20000);
    pull_deinit(&fixture);
}

/* Goal: neither is it all at once when much comes due at once, and in the end no more waits in
 * memory than may. Method: memory is filled with what is due at one instant; the largest batch is
 * measured. */
static void test_what_is_due_at_once_is_spilled_in_portions(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 4 << 20);
    for (int i = 0; i < 4500; i++)
        pull_create(&fixture, "queue:a", 1000);
    assert_int_equal(pull_stats(&fixture).spilled, 0);
    fixture.now = wall_add(fixture.now, 1000);
    pull_settle(&fixture);
    assert_true(pull_stats(&fixture).spilled > 500);
    assert_true(pull_stats(&fixture).near_bytes <= 2 << 20);
    assert_true(fixture.batch_writes_most <=
                4 * (256 + 1)); /* so many steps, one for each dispatch queue */
    assert_int_equal(pull_drain(&fixture, "a"), 4500);
    pull_deinit(&fixture);
}

/* Goal: a spilled timer is found by commands, and one that was cancelled is not reloaded. */
/* proves: lease-cancel */
static void test_spilled_timers_can_be_cancelled(void **state)
{
    struct timer_id *ids = calloc(3000, sizeof(*ids));

    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 256 << 10);
    for (int i = 0; i < 3000; i++)
        ids[i] = pull_create(&fixture, "queue:a", 60000);
    pull_advance(&fixture, 60000);
    for (int i = 0; i < 3000; i += 2)
        assert_int_equal(pull_ask(&fixture, COMMAND_CANCEL, ids[i]), ERROR_NONE);
    assert_int_equal(pull_drain(&fixture, "a"), 1500);
    free(ids);
    pull_deinit(&fixture);
}

/* Goal: a step back of the clock neither loses what is ready nor hands out what is not due any
 * more. */
/* proves: clock-step */
static void test_the_clock_steps_back(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 256 << 10);
    pull_create(&fixture, "queue:a", 1000);
    pull_create(&fixture, "queue:a", 1000);
    pull_advance(&fixture, 1000);
    struct delivery *delivery = pull_one(&fixture, "a", 5);
    fixture.now.ms -= 500;
    pull_settle(&fixture);
    assert_null(pull_one(&fixture, "a", 5));
    pull_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_RETURNED});
    assert_null(pull_one(&fixture, "a", 5));
    pull_advance(&fixture, 499);
    assert_null(pull_one(&fixture, "a", 5));
    pull_advance(&fixture, 1);
    assert_int_equal(pull_drain(&fixture, "a"), 2);
    pull_deinit(&fixture);
}

/* Goal: a dead letter keeps what it carried and begins anew, once, also after a restart; nothing
 * else is redriven. */
/* proves: redrive */
static void test_redrive(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 256 << 10);
    struct timer_id id = pull_create(&fixture, "queue:a", 0);
    struct timer_id other = pull_create(&fixture, "queue:b", 0);
    pull_settle(&fixture);
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    struct delivery *delivery = pull_one(&fixture, "a", 5);
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    pull_answer(&fixture, delivery,
                (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "no such order"});
    assert_int_equal(pull_stats(&fixture).dead, 1);
    assert_int_equal(pull_stats(&fixture).pending, 1);
    pull_advance(&fixture, 60000);
    engine_destroy(fixture.engine);
    pull_open_engine(&fixture);
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, id), ERROR_NONE);
    assert_int_equal(pull_stats(&fixture).pending, 2);
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    engine_destroy(fixture.engine);
    pull_open_engine(&fixture);
    assert_int_equal(pull_stats(&fixture).pending, 2);
    delivery = pull_one(&fixture, "a", 5);
    assert_non_null(delivery);
    assert_int_equal(delivery->attempt, 1);
    assert_true(bytes_equal(delivery->timer->texts.payload, BYTES("{}")));
    assert_true(bytes_equal(delivery->timer->texts.last_error, BYTES("no such order")));
    pull_done(&fixture, delivery);
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    assert_int_equal(pull_ask(&fixture, COMMAND_CANCEL, other), ERROR_NONE);
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, other), ERROR_NOT_FOUND);
    pull_deinit(&fixture);
}

/* Goal: a redrive that could not be written changes nothing, and a dead letter is forgotten in the
 * end. */
/* proves: redrive */
static void test_redrive_fails(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 256 << 10);
    struct timer_id id = pull_create(&fixture, "queue:a", 0);
    pull_settle(&fixture);
    struct delivery *delivery = pull_one(&fixture, "a", 5);
    pull_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_ENDED});
    fixture.fails_commits = true;
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, id), ERROR_IO);
    fixture.fails_commits = false;
    pull_advance(&fixture, fixture.options.storage_retry_ms);
    assert_int_equal(pull_stats(&fixture).pending, 0);
    assert_null(pull_one(&fixture, "a", 5));
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, id), ERROR_NONE);
    delivery = pull_one(&fixture, "a", 5);
    pull_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_ENDED});
    pull_advance(&fixture, fixture.options.dead_retain_ms + 1);
    assert_int_equal(pull_ask(&fixture, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    pull_deinit(&fixture);
}

/* Goal: a stop hands out nothing more, and takes back what is out. */
static void test_drain_with_leases(void **state)
{
    (void)state;
    struct pull_fixture fixture;
    pull_init(&fixture, 256 << 10);
    pull_create(&fixture, "queue:a", 0);
    pull_create(&fixture, "queue:a", 0);
    pull_settle(&fixture);
    struct delivery *delivery = pull_one(&fixture, "a", 5);
    engine_drain(fixture.engine);
    assert_null(pull_one(&fixture, "a", 5));
    pull_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_RETURNED});
    assert_true(engine_is_idle(fixture.engine));
    pull_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_until_it_is_pulled),
        cmocka_unit_test(test_one_lane_for_both_spellings),
        cmocka_unit_test(test_ready_can_be_cancelled),
        cmocka_unit_test(test_wakes_once),
        cmocka_unit_test(test_pulled_outcomes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_spilled_backlog_drains_without_a_pause),
        cmocka_unit_test(test_a_dead_neighbour_does_not_hold_it_up),
        cmocka_unit_test(test_a_spilled_backlog_outlives_a_crash),
        cmocka_unit_test(test_spilling_is_spread),
        cmocka_unit_test(test_what_is_due_at_once_is_spilled_in_portions),
        cmocka_unit_test(test_spilled_timers_can_be_cancelled),
        cmocka_unit_test(test_the_clock_steps_back),
        cmocka_unit_test(test_drain_with_leases),
        cmocka_unit_test(test_redrive),
        cmocka_unit_test(test_redrive_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
