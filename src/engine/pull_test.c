/*
 * Timers of the built-in queue, as the engine sees them: they wait until they are pulled, and
 * however many there are, a pull that has room finds one. Method: one engine by hand over storage
 * in memory.
 */
#include "engine/engine_turn_testing.h"
#include "storage/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define START ((struct wall){UINT64_C(1800000000000)})

struct bed {
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

static void carry_out(struct bed *bed)
{
    for (bool busy = true; busy;) {
        struct storage_batch *batch = engine_take_batch(bed->engine);
        struct engine_read *read = engine_take_read(bed->engine);
        struct delivery *delivery;

        busy = batch || read;
        while (engine_take_reply(bed->engine))
            ;
        while ((delivery = engine_take_recorded(bed->engine))) {
            free(bed->recorded);
            bed->recorded = delivery;
            bed->recorded_count++;
        }
        if (batch) {
            if (batch->write_count > bed->batch_writes_most)
                bed->batch_writes_most = batch->write_count;
            batch->result =
                bed->fails_commits ? ERROR_IO : storage_commit(bed->storage, &batch, 1, NULL);
            turn_committed(bed->engine, bed->now, batch);
        }
        if (read) {
            while (engine_take_reply(bed->engine))
                ;
            if (read->kind == ENGINE_READ_FIND)
                read->result = storage_find(bed->storage, &read->id, &read->timer, NULL);
            else
                read->result = storage_scan(bed->storage, &read->scan, &read->page, NULL);
            turn_read_done(bed->engine, bed->now, read);
        }
        if (bed->turns++ % 32 == 0)
            engine_check(bed->engine);
    }
}

/* Lets the engine do all that it wants to do at this moment. */
static void settle(struct bed *bed)
{
    do {
        turn_advance(bed->engine, bed->now);
        carry_out(bed);
    } while (engine_wake_at(bed->engine).ms <= bed->now.ms);
}

static void advance(struct bed *bed, uint64_t ms)
{
    bed->now = wall_add(bed->now, ms);
    settle(bed);
}

static void open_engine(struct bed *bed)
{
    struct storage_batch batch = {0}, *batches[] = {&batch};

    assert_int_equal(storage_load_meta(bed->storage, 0, &batch.meta, NULL), ERROR_NONE);
    batch.meta.epoch++;
    assert_int_equal(storage_commit(bed->storage, batches, 1, NULL), ERROR_NONE);
    bed->engine = engine_create(&bed->options, &batch.meta, bed->now);
    settle(bed);
}

static void bed_init(struct bed *bed, size_t near_bytes_max)
{
    *bed = (struct bed){.options = ENGINE_OPTIONS_DEFAULT, .now = START};
    bed->options.near_bytes_max = near_bytes_max;
    bed->storage = memory_storage_create(1);
    open_engine(bed);
}

static void bed_deinit(struct bed *bed)
{
    free(bed->recorded);
    engine_destroy(bed->engine);
    storage_close(bed->storage);
}

static struct timer_id create(struct bed *bed, const char *target, uint64_t after_ms)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    timer->due = wall_add(bed->now, after_ms);
    turn_submit(bed->engine, bed->now, &command);
    carry_out(bed);
    assert_int_equal(created.error, ERROR_NONE);
    return created.id;
}

static enum error_code ask(struct bed *bed, enum command_kind kind, struct timer_id id)
{
    struct command command = {.kind = kind, .id = id};

    turn_submit(bed->engine, bed->now, &command);
    carry_out(bed);
    return command.error;
}

static struct delivery *pull(struct bed *bed, const char *queue, unsigned priority)
{
    struct delivery *delivery = turn_pull(bed->engine, bed->now, bytes_of(queue), priority);

    carry_out(bed);
    return delivery;
}

static void answer(struct bed *bed, struct delivery *delivery, struct delivery_outcome outcome)
{
    delivery->outcome = outcome;
    turn_delivered(bed->engine, bed->now, delivery);
    carry_out(bed);
}

static void done(struct bed *bed, struct delivery *delivery)
{
    answer(bed, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
}

static struct engine_stats stats_of(struct bed *bed)
{
    struct engine_stats stats;

    engine_stats(bed->engine, &stats);
    return stats;
}

/* Goal: nothing is handed out unasked, by another name or another priority, or before it is due. */
/* proves: lease */
static void test_waits_until_it_is_pulled(void **state)
{
    struct delivery *delivery;
    struct timer_id id;
    struct wall due;
    struct bed bed;

    (void)state;
    bed_init(&bed, 1 << 20);
    id = create(&bed, "queue:mail", 1000);
    assert_null(pull(&bed, "mail", 5));
    advance(&bed, 1000);
    assert_null(engine_take_delivery(bed.engine));
    assert_null(pull(&bed, "mai", 5));
    assert_null(pull(&bed, "mail", 6));
    assert_true(engine_peek(bed.engine, BYTES("mail"), 5, &due));
    assert_int_equal(due.ms, START.ms + 1000);
    delivery = pull(&bed, "mail", 5);
    assert_true(timer_id_equal(&delivery->timer->id, &id));
    assert_int_equal(delivery->attempt, 1);
    assert_null(pull(&bed, "mail", 5));
    done(&bed, delivery);
    assert_int_equal(stats_of(&bed).fired, 1);
    bed_deinit(&bed);
}

/* Goal: "queue:a" and "queue:a?priority=5" are one queue, in order of due times. */
/* proves: target-queue */
static void test_one_lane_for_both_spellings(void **state)
{
    struct timer_id ids[3];
    struct bed bed;

    (void)state;
    bed_init(&bed, 1 << 20);
    ids[2] = create(&bed, "queue:a", 30);
    ids[0] = create(&bed, "queue:a?priority=5", 10);
    ids[1] = create(&bed, "queue:a", 20);
    for (int i = 0; i < 3; i++) /* all three are due when the next is looked at */
        advance(&bed, 10);
    for (int i = 0; i < 3; i++) {
        struct delivery *delivery = pull(&bed, "a", 5);

        assert_true(timer_id_equal(&delivery->timer->id, &ids[i]));
        done(&bed, delivery);
    }
    bed_deinit(&bed);
}

/* Goal: what is ready but not leased can be cancelled and is not handed out afterwards: the stock
 * reservation that is paid late. What is leased cannot. */
/* proves: lease-cancel */
static void test_ready_can_be_cancelled(void **state)
{
    struct delivery *delivery;
    struct timer_id ids[2];
    struct bed bed;

    (void)state;
    bed_init(&bed, 1 << 20);
    ids[0] = create(&bed, "queue:a", 0);
    ids[1] = create(&bed, "queue:a", 0);
    settle(&bed);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, ids[0]), ERROR_NONE);
    delivery = pull(&bed, "a", 5);
    assert_true(timer_id_equal(&delivery->timer->id, &ids[1]));
    assert_int_equal(ask(&bed, COMMAND_CANCEL, ids[1]), ERROR_ALREADY_FIRING);
    assert_null(pull(&bed, "a", 5));
    done(&bed, delivery);
    bed_deinit(&bed);
}

/* Goal: a queue is named once when it gets something, and not again before it was asked. */
static void test_wakes_once(void **state)
{
    struct bytes name;
    struct bed bed;

    (void)state;
    bed_init(&bed, 1 << 20);
    assert_false(engine_take_woken(bed.engine, &name));
    create(&bed, "queue:mail", 5);
    create(&bed, "queue:mail", 5);
    create(&bed, "http://a.example/", 5);
    assert_false(engine_take_woken(bed.engine, &name));
    advance(&bed, 5);
    assert_true(engine_take_woken(bed.engine, &name));
    assert_true(bytes_equal(name, BYTES("mail")));
    assert_false(engine_take_woken(bed.engine, &name));
    create(&bed, "queue:mail", 0);
    settle(&bed);
    assert_true(engine_take_woken(bed.engine, &name));
    free(engine_take_delivery(bed.engine));
    bed_deinit(&bed);
}

/* Goal: an outcome is recorded when it is durable, and a returned one changes nothing at all. */
/* proves: item-attempt */
static void test_outcomes(void **state)
{
    struct delivery *delivery;
    struct bed bed;

    (void)state;
    bed_init(&bed, 1 << 20);
    create(&bed, "queue:a", 0);
    settle(&bed);
    delivery = pull(&bed, "a", 5);
    answer(&bed, delivery, (struct delivery_outcome){.result = DELIVERY_RETURNED});
    assert_int_equal(stats_of(&bed).attempts, 0);
    assert_int_equal(stats_of(&bed).waiting, 1);
    delivery = pull(&bed, "a", 5);
    assert_int_equal(delivery->attempt, 1);
    delivery->wants_record = true;
    answer(&bed, delivery,
           (struct delivery_outcome){.result = DELIVERY_FAILED,
                                     .pause = DELIVERY_PAUSE_EXACT,
                                     .retry_after_ms = 700,
                                     .error = "not today"});
    assert_int_equal(bed.recorded_count, 1);
    assert_int_equal(bed.recorded->recorded, ERROR_NONE);
    advance(&bed, 699);
    assert_null(pull(&bed, "a", 5));
    advance(&bed, 1);
    delivery = pull(&bed, "a", 5);
    assert_int_equal(delivery->attempt, 2);
    assert_true(bytes_equal(delivery->timer->texts.last_error, BYTES("not today")));
    delivery->wants_record = true;
    bed.fails_commits = true;
    turn_delivered(bed.engine, bed.now, delivery);
    {
        struct storage_batch *batch = engine_take_batch(bed.engine);

        assert_null(engine_take_recorded(bed.engine)); /* not before the write is back */
        batch->result = ERROR_IO;
        turn_committed(bed.engine, bed.now, batch);
    }
    carry_out(&bed);
    assert_int_equal(bed.recorded_count, 2);
    assert_int_equal(bed.recorded->recorded, ERROR_IO);
    bed.fails_commits = false;
    advance(&bed, 1000); /* it is written again, and told of once only */
    assert_int_equal(bed.recorded_count, 2);
    assert_int_equal(stats_of(&bed).fired, 1);
    bed_deinit(&bed);
}

/* Goal: as many are out as the limits say, in number and in bytes; whoever was refused is woken
 * when there is room. */
/* proves: queue_leases_max (beyond) */
static void test_limits(void **state)
{
    struct delivery *out[4];
    struct bytes name;
    struct bed bed;

    (void)state;
    bed_init(&bed, 1 << 20);
    engine_destroy(bed.engine);
    bed.options.pulled_max = 3;
    open_engine(&bed);
    for (int i = 0; i < 3; i++)
        create(&bed, "queue:a", 0);
    create(&bed, "queue:b", 0);
    settle(&bed);
    for (int i = 0; i < 3; i++)
        assert_non_null(out[i] = pull(&bed, "a", 5));
    while (engine_take_woken(bed.engine, &name))
        ;
    assert_null(pull(&bed, "b", 5));
    assert_false(engine_take_woken(bed.engine, &name));
    done(&bed, out[0]);
    assert_true(engine_take_woken(bed.engine, &name));
    assert_true(bytes_equal(name, BYTES("b")));
    assert_non_null(out[3] = pull(&bed, "b", 5));
    for (int i = 1; i < 4; i++)
        done(&bed, out[i]);
    bed_deinit(&bed);
    bed_init(&bed, 4 << 10); /* a quarter of it is some three timers */
    for (int i = 0; i < 8; i++)
        create(&bed, "queue:a", 0);
    settle(&bed);
    for (int i = 0; i < 4; i++)
        out[i] = pull(&bed, "a", 5);
    assert_non_null(out[0]);
    assert_null(out[3]);
    for (int i = 0; i < 4; i++)
        if (out[i])
            done(&bed, out[i]);
    bed_deinit(&bed);
}

/* Takes what there is without letting time pass; now and then one is handed back unseen, and must
 * come again. Returns how many. */
static size_t drain(struct bed *bed, const char *queue)
{
    struct delivery *delivery;
    size_t count = 0;

    for (size_t i = 0; (delivery = pull(bed, queue, 5)); i++) {
        if (i % 7 == 0) {
            answer(bed, delivery, (struct delivery_outcome){.result = DELIVERY_RETURNED});
        } else {
            done(bed, delivery);
            count++;
        }
        settle(bed);
    }
    return count;
}

/* Goal: a backlog far larger than memory drains at the workers' speed: no worker ever finds a queue
 * empty while spilled timers wait for the place they were moved to. Method: room for some 600
 * timers, 20,000 due at once; the clock stands still while they are pulled. */
static void test_a_spilled_backlog_drains_without_a_pause(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed, 256 << 10);
    for (int i = 0; i < 20000; i++)
        create(&bed, "queue:a", 60000);
    advance(&bed, 60000);
    assert_int_equal(drain(&bed, "a"), 20000);
    assert_true(stats_of(&bed).spilled > 0);
    assert_true(stats_of(&bed).called_in > 0);
    assert_int_equal(stats_of(&bed).fired, 20000);
    bed_deinit(&bed);
}

/* Goal: the same while another target is dead and has a backlog of its own, and a third queue has
 * nobody who pulls. */
static void test_a_dead_neighbour_does_not_hold_it_up(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed, 256 << 10);
    for (int i = 0; i < 4000; i++) {
        create(&bed, "http://dead.example/", 60000);
        create(&bed, "queue:nobody", 60000);
        create(&bed, "queue:a", 60000);
    }
    advance(&bed, 60000);
    assert_int_equal(drain(&bed, "a"), 4000);
    assert_true(stats_of(&bed).near_bytes < 256 << 10);
    assert_int_equal(drain(&bed, "nobody"), 4000);
    for (struct delivery *delivery; (delivery = engine_take_delivery(bed.engine));)
        free(delivery);
    bed_deinit(&bed);
}

/* Goal: what an earlier life had spilled is called in as well, and so is what failed before it was
 * spilled. Method: those in memory are handed back a few times, but not to their last attempt; then
 * the process dies. */
static void test_a_spilled_backlog_outlives_a_crash(void **state)
{
    struct delivery *delivery;
    struct bed bed;
    uint64_t count;

    (void)state;
    bed_init(&bed, 256 << 10);
    for (int i = 0; i < 5000; i++)
        create(&bed, "queue:a", 60000);
    advance(&bed, 60000);
    count = 5 * stats_of(&bed).waiting;
    for (uint64_t i = 0; i < count && (delivery = pull(&bed, "a", 5)); i++) {
        answer(&bed, delivery,
               (struct delivery_outcome){.result = DELIVERY_FAILED, .pause = DELIVERY_PAUSE_EXACT});
        settle(&bed);
    }
    assert_int_equal(stats_of(&bed).dead, 0);
    engine_destroy(bed.engine);
    open_engine(&bed);
    assert_int_equal(drain(&bed, "a"), 5000);
    bed_deinit(&bed);
}

/* Goal: what is spilled is spilled in small portions, so that no commit is long because of it.
 * Method: memory is filled little by little with what is due; the largest batch is measured. */
static void test_spilling_is_spread(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed, 4 << 20);
    for (int i = 0; i < 20000; i++)
        create(&bed, "queue:a", 0);
    assert_true(stats_of(&bed).spilled > 5000);
    assert_true(bed.batch_writes_most <= 1 + 256 + 1); /* the create, one step, one for each lane */
    assert_int_equal(drain(&bed, "a"), 20000);
    bed_deinit(&bed);
}

/* Goal: neither is it all at once when much comes due at once, and in the end no more waits in
 * memory than may. Method: memory is filled with what is due at one instant; the largest batch is
 * measured. */
static void test_what_is_due_at_once_is_spilled_in_portions(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed, 4 << 20);
    for (int i = 0; i < 8000; i++)
        create(&bed, "queue:a", 1000);
    assert_int_equal(stats_of(&bed).spilled, 0);
    bed.now = wall_add(bed.now, 1000);
    settle(&bed);
    assert_true(stats_of(&bed).spilled > 1000);
    assert_true(stats_of(&bed).near_bytes <= 2 << 20);
    assert_true(bed.batch_writes_most <= 4 * (256 + 1)); /* so many steps, one for each lane */
    assert_int_equal(drain(&bed, "a"), 8000);
    bed_deinit(&bed);
}

/* Goal: a spilled timer is found by commands, and one that was cancelled is not called in. */
/* proves: lease-cancel */
static void test_spilled_timers_can_be_cancelled(void **state)
{
    struct timer_id *ids = calloc(3000, sizeof(*ids));
    struct bed bed;

    (void)state;
    bed_init(&bed, 256 << 10);
    for (int i = 0; i < 3000; i++)
        ids[i] = create(&bed, "queue:a", 60000);
    advance(&bed, 60000);
    for (int i = 0; i < 3000; i += 2)
        assert_int_equal(ask(&bed, COMMAND_CANCEL, ids[i]), ERROR_NONE);
    assert_int_equal(drain(&bed, "a"), 1500);
    free(ids);
    bed_deinit(&bed);
}

/* Goal: a step back of the clock neither loses what is ready nor hands out what is not due any
 * more. */
/* proves: clock-step */
static void test_the_clock_steps_back(void **state)
{
    struct delivery *delivery;
    struct bed bed;

    (void)state;
    bed_init(&bed, 256 << 10);
    create(&bed, "queue:a", 1000);
    create(&bed, "queue:a", 1000);
    advance(&bed, 1000);
    delivery = pull(&bed, "a", 5);
    bed.now.ms -= 500;
    settle(&bed);
    assert_null(pull(&bed, "a", 5));
    answer(&bed, delivery, (struct delivery_outcome){.result = DELIVERY_RETURNED});
    assert_null(pull(&bed, "a", 5));
    advance(&bed, 499);
    assert_null(pull(&bed, "a", 5));
    advance(&bed, 1);
    assert_int_equal(drain(&bed, "a"), 2);
    bed_deinit(&bed);
}

/* Goal: a dead letter keeps what it carried and begins anew, once, also after a restart; nothing
 * else is redriven. */
/* proves: redrive */
static void test_redrive(void **state)
{
    struct delivery *delivery;
    struct timer_id id, other;
    struct bed bed;

    (void)state;
    bed_init(&bed, 256 << 10);
    id = create(&bed, "queue:a", 0);
    other = create(&bed, "queue:b", 0);
    settle(&bed);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    delivery = pull(&bed, "a", 5);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    answer(&bed, delivery,
           (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "no such order"});
    assert_int_equal(stats_of(&bed).dead, 1);
    assert_int_equal(stats_of(&bed).pending, 1);
    advance(&bed, 60000);
    engine_destroy(bed.engine);
    open_engine(&bed);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, id), ERROR_NONE);
    assert_int_equal(stats_of(&bed).pending, 2);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    engine_destroy(bed.engine);
    open_engine(&bed);
    assert_int_equal(stats_of(&bed).pending, 2);
    delivery = pull(&bed, "a", 5);
    assert_non_null(delivery);
    assert_int_equal(delivery->attempt, 1);
    assert_true(bytes_equal(delivery->timer->texts.payload, BYTES("{}")));
    assert_true(bytes_equal(delivery->timer->texts.last_error, BYTES("no such order")));
    done(&bed, delivery);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, other), ERROR_NONE);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, other), ERROR_NOT_FOUND);
    bed_deinit(&bed);
}

/* Goal: a redrive that could not be written changes nothing, and a dead letter is forgotten in the
 * end. */
/* proves: redrive */
static void test_redrive_fails(void **state)
{
    struct delivery *delivery;
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed, 256 << 10);
    id = create(&bed, "queue:a", 0);
    settle(&bed);
    delivery = pull(&bed, "a", 5);
    answer(&bed, delivery, (struct delivery_outcome){.result = DELIVERY_ENDED});
    bed.fails_commits = true;
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, id), ERROR_IO);
    bed.fails_commits = false;
    advance(&bed, bed.options.storage_retry_ms);
    assert_int_equal(stats_of(&bed).pending, 0);
    assert_null(pull(&bed, "a", 5));
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, id), ERROR_NONE);
    delivery = pull(&bed, "a", 5);
    answer(&bed, delivery, (struct delivery_outcome){.result = DELIVERY_ENDED});
    advance(&bed, bed.options.retain_ms + 1);
    assert_int_equal(ask(&bed, COMMAND_REDRIVE, id), ERROR_NOT_FOUND);
    bed_deinit(&bed);
}

/* Goal: a stop hands out nothing more, and takes back what is out. */
static void test_drain(void **state)
{
    struct delivery *delivery;
    struct bed bed;

    (void)state;
    bed_init(&bed, 256 << 10);
    create(&bed, "queue:a", 0);
    create(&bed, "queue:a", 0);
    settle(&bed);
    delivery = pull(&bed, "a", 5);
    engine_drain(bed.engine);
    assert_null(pull(&bed, "a", 5));
    answer(&bed, delivery, (struct delivery_outcome){.result = DELIVERY_RETURNED});
    assert_true(engine_is_idle(bed.engine));
    bed_deinit(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_until_it_is_pulled),
        cmocka_unit_test(test_one_lane_for_both_spellings),
        cmocka_unit_test(test_ready_can_be_cancelled),
        cmocka_unit_test(test_wakes_once),
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_spilled_backlog_drains_without_a_pause),
        cmocka_unit_test(test_a_dead_neighbour_does_not_hold_it_up),
        cmocka_unit_test(test_a_spilled_backlog_outlives_a_crash),
        cmocka_unit_test(test_spilling_is_spread),
        cmocka_unit_test(test_what_is_due_at_once_is_spilled_in_portions),
        cmocka_unit_test(test_spilled_timers_can_be_cancelled),
        cmocka_unit_test(test_the_clock_steps_back),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_redrive),
        cmocka_unit_test(test_redrive_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
