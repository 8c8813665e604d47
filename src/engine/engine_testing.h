/*
 * engine_testing.h - for the tests of this folder: one engine, driven by hand over memory.
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_TESTING_H
#define TICKWHEEL_ENGINE_ENGINE_TESTING_H

#include "engine/engine_turn_testing.h"
#include "store/testing/memory.h"
#include "store/storage_writing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define HOUR_MS UINT64_C(3600000)
#define START   ((struct wall){UINT64_C(1800000000000)})

/* An engine with its storage, and what it has handed out. */
struct engine_fixture {
    struct engine_options options;
    struct storage *storage;
    struct engine *engine;
    struct wall now;
    struct list out;        /* deliveries not yet answered */
    size_t delivered_count; /* handed out in all */
    size_t replies;
    uint64_t epoch;
};

static inline void fixture_commit(struct engine_fixture *fixture, struct storage_batch *batch)
{
    batch->result = storage_write(fixture->storage, &batch, 1, NULL);
    turn_committed(fixture->engine, fixture->now, batch);
}

static inline void fixture_carry_out(struct engine_fixture *fixture)
{
    for (bool busy = true; busy;) {
        struct storage_batch *batch = engine_take_batch(fixture->engine);
        struct engine_read *read;
        struct delivery *delivery;

        busy = false;
        while ((delivery = engine_take_delivery(fixture->engine))) {
            assert_true(delivery->timer->due.ms <= fixture->now.ms);
            list_push(&fixture->out, &delivery->link);
            fixture->delivered_count++;
        }
        while (engine_take_reply(fixture->engine))
            fixture->replies++;
        if (batch) {
            fixture_commit(fixture, batch);
            busy = true;
            continue;
        }
        read = engine_take_read(fixture->engine);
        if (read) {
            engine_read_perform(read, fixture->storage);
            turn_read_done(fixture->engine, fixture->now, read);
            busy = true;
        }
        engine_check(fixture->engine);
    }
}

static inline void fixture_advance_to(struct engine_fixture *fixture, uint64_t ms)
{
    fixture->now = (struct wall){START.ms + ms};
    do {
        turn_advance(fixture->engine, fixture->now);
        fixture_carry_out(fixture);
    } while (engine_wake_at(fixture->engine).ms <= fixture->now.ms);
}

/* An engine of the next epoch for the fixture's partition; what it asks for is still to be done. */
static inline void fixture_create_engine(struct engine_fixture *fixture)
{
    struct storage_batch batch = {0}, *batches[] = {&batch};

    assert_int_equal(storage_load_meta(fixture->storage, 0, &batch.meta, NULL), ERROR_NONE);
    fixture->epoch = ++batch.meta.epoch;
    assert_int_equal(storage_write(fixture->storage, batches, 1, NULL), ERROR_NONE);
    struct buffer ledger;
    buffer_init(&ledger);
    assert_int_equal(storage_load_ledger(fixture->storage, 0, &ledger, NULL), ERROR_NONE);
    fixture->options.ledger = buffer_bytes(&ledger);
    fixture->engine = engine_create(&fixture->options, &batch.meta, fixture->now);
    buffer_deinit(&ledger);
    assert_non_null(fixture->engine);
}

static inline void fixture_open(struct engine_fixture *fixture)
{
    fixture_create_engine(fixture);
    fixture_carry_out(fixture);
    assert_true(engine_is_ready(fixture->engine));
}

/* A fixture whose engine is still to be opened, with other options. */
static inline void fixture_prepare(struct engine_fixture *fixture)
{
    *fixture = (struct engine_fixture){.options = ENGINE_OPTIONS_DEFAULT, .now = START};
    list_init(&fixture->out);
    fixture->storage = memory_storage_create(1);
}

static inline void fixture_init(struct engine_fixture *fixture)
{
    fixture_prepare(fixture);
    fixture_open(fixture);
}

static inline void fixture_answer(struct engine_fixture *fixture, struct delivery *delivery,
                                  struct delivery_outcome outcome)
{
    list_remove(&delivery->link);
    delivery->outcome = outcome;
    turn_delivered(fixture->engine, fixture->now, delivery);
    fixture_carry_out(fixture);
}

static inline struct delivery *fixture_first_out(struct engine_fixture *fixture)
{
    return list_is_empty(&fixture->out) ? NULL
                                        : list_item(fixture->out.next, struct delivery, link);
}

static inline void fixture_answer_all(struct engine_fixture *fixture, enum delivery_result result)
{
    while (fixture_first_out(fixture))
        fixture_answer(fixture, fixture_first_out(fixture),
                       (struct delivery_outcome){.result = result});
}

static inline void fixture_close(struct engine_fixture *fixture)
{
    engine_drain(fixture->engine);
    fixture_answer_all(fixture, DELIVERY_DONE);
    engine_destroy(fixture->engine);
}

static inline void fixture_deinit(struct engine_fixture *fixture)
{
    fixture_close(fixture);
    storage_close(fixture->storage);
}

static inline struct timer *fixture_timer(const char *target, uint64_t due_ms)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);

    timer->due = (struct wall){START.ms + due_ms};
    return timer;
}

static inline enum error_code fixture_create(struct engine_fixture *fixture, const char *target,
                                             uint64_t due_ms, struct timer_id *ret_id)
{
    struct timer *timer = fixture_timer(target, due_ms);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
    size_t replies = fixture->replies;

    turn_submit(fixture->engine, fixture->now, &command);
    fixture_carry_out(fixture);
    assert_int_equal(fixture->replies, replies + 1);
    assert_int_equal(created.error, command.error);
    if (ret_id)
        *ret_id = created.id;
    return command.error;
}

/* Has one command carried out, up to its answer; what is shown then stays until the next call. */
static inline void fixture_command(struct engine_fixture *fixture, struct command *command)
{
    struct command *reply = NULL;

    turn_submit(fixture->engine, fixture->now, command);
    while (!(reply = engine_take_reply(fixture->engine))) {
        struct storage_batch *batch = engine_take_batch(fixture->engine);
        struct engine_read *read = batch ? NULL : engine_take_read(fixture->engine);

        assert_true(batch || read);
        if (batch) {
            fixture_commit(fixture, batch);
        } else {
            engine_read_perform(read, fixture->storage);
            turn_read_done(fixture->engine, fixture->now, read);
        }
    }
    assert_ptr_equal(reply, command);
}

/* The answer to a command for one timer. `ret_state` is the state shown, if a timer was. */
static inline enum error_code fixture_ask(struct engine_fixture *fixture, enum command_kind kind,
                                          const struct timer_id *id, uint32_t if_version,
                                          enum timer_state *ret_state)
{
    struct command command = {.kind = kind, .id = *id, .if_version = if_version};

    if (kind == COMMAND_PATCH) {
        command.patch = fixture_timer("http://patched.example/", 2 * HOUR_MS);
        command.patch_fields = PATCH_DUE | PATCH_TARGET;
    }
    fixture_command(fixture, &command);
    if (ret_state && command.timer)
        *ret_state = command.timer->state;
    fixture_carry_out(fixture);
    return command.error;
}

#endif
