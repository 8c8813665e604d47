/*
 * engine_testing.h - for the tests of this folder: one engine, driven by hand over memory.
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_TESTING_H
#define TICKWHEEL_ENGINE_ENGINE_TESTING_H

#include "engine/engine_turn_testing.h"
#include "storage/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define HOUR_MS UINT64_C(3600000)
#define START   ((struct wall){UINT64_C(1800000000000)})

/* An engine with its storage, and what it has handed out. */
struct bed {
    struct engine_options options;
    struct storage *storage;
    struct engine *engine;
    struct wall now;
    struct list out;        /* deliveries not yet answered */
    size_t delivered_count; /* handed out in all */
    size_t replies;
    uint64_t epoch;
    bool is_in_doubt; /* the next commit is told as failed, and is on disk all the same */
};

static inline void commit(struct bed *bed, struct storage_batch *batch)
{
    batch->result = storage_commit(bed->storage, &batch, 1, NULL);
    if (bed->is_in_doubt)
        batch->result = ERROR_IO;
    bed->is_in_doubt = false;
    turn_committed(bed->engine, bed->now, batch);
}

static inline void carry_out(struct bed *bed)
{
    for (bool busy = true; busy;) {
        struct storage_batch *batch = engine_take_batch(bed->engine);
        struct engine_read *read;
        struct delivery *delivery;

        busy = false;
        while ((delivery = engine_take_delivery(bed->engine))) {
            assert_true(delivery->timer->due.ms <= bed->now.ms);
            list_push(&bed->out, &delivery->link);
            bed->delivered_count++;
        }
        while (engine_take_reply(bed->engine))
            bed->replies++;
        if (batch) {
            commit(bed, batch);
            busy = true;
            continue;
        }
        read = engine_take_read(bed->engine);
        if (read) {
            engine_read_perform(read, bed->storage);
            turn_read_done(bed->engine, bed->now, read);
            busy = true;
        }
        engine_check(bed->engine);
    }
}

static inline void advance_to(struct bed *bed, uint64_t ms)
{
    bed->now = (struct wall){START.ms + ms};
    do {
        turn_advance(bed->engine, bed->now);
        carry_out(bed);
    } while (engine_wake_at(bed->engine).ms <= bed->now.ms);
}

static inline void open_engine(struct bed *bed)
{
    struct storage_batch batch = {0}, *batches[] = {&batch};

    assert_int_equal(storage_load_meta(bed->storage, 0, &batch.meta, NULL), ERROR_NONE);
    bed->epoch = ++batch.meta.epoch;
    assert_int_equal(storage_commit(bed->storage, batches, 1, NULL), ERROR_NONE);
    bed->engine = engine_create(&bed->options, &batch.meta, bed->now);
    assert_non_null(bed->engine);
    carry_out(bed);
    assert_true(engine_is_ready(bed->engine));
}

/* A bed whose engine is still to be opened, with other options. */
static inline void bed_prepare(struct bed *bed)
{
    *bed = (struct bed){.options = ENGINE_OPTIONS_DEFAULT, .now = START};
    list_init(&bed->out);
    bed->storage = memory_storage_create(1);
}

static inline void bed_init(struct bed *bed)
{
    bed_prepare(bed);
    open_engine(bed);
}

static inline void answer(struct bed *bed, struct delivery *delivery,
                          struct delivery_outcome outcome)
{
    list_remove(&delivery->link);
    delivery->outcome = outcome;
    turn_delivered(bed->engine, bed->now, delivery);
    carry_out(bed);
}

static inline struct delivery *first_out(struct bed *bed)
{
    return list_is_empty(&bed->out) ? NULL : list_item(bed->out.next, struct delivery, link);
}

static inline void answer_all(struct bed *bed, enum delivery_result result)
{
    while (first_out(bed))
        answer(bed, first_out(bed), (struct delivery_outcome){.result = result});
}

static inline void close_engine(struct bed *bed)
{
    engine_drain(bed->engine);
    answer_all(bed, DELIVERY_DONE);
    engine_destroy(bed->engine);
}

static inline void bed_deinit(struct bed *bed)
{
    close_engine(bed);
    storage_close(bed->storage);
}

static inline struct timer *timer_for(const char *target, uint64_t due_ms)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);

    timer->due = (struct wall){START.ms + due_ms};
    return timer;
}

static inline enum error_code create(struct bed *bed, const char *target, uint64_t due_ms,
                                     struct timer_id *ret_id)
{
    struct timer *timer = timer_for(target, due_ms);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
    size_t replies = bed->replies;

    turn_submit(bed->engine, bed->now, &command);
    carry_out(bed);
    assert_int_equal(bed->replies, replies + 1);
    assert_int_equal(created.error, command.error);
    if (ret_id)
        *ret_id = created.id;
    return command.error;
}

/* Has one command carried out, up to its answer; what is shown then stays until the next call. */
static inline void command_answer(struct bed *bed, struct command *command)
{
    struct command *reply = NULL;

    turn_submit(bed->engine, bed->now, command);
    while (!(reply = engine_take_reply(bed->engine))) {
        struct storage_batch *batch = engine_take_batch(bed->engine);
        struct engine_read *read = batch ? NULL : engine_take_read(bed->engine);
        struct engine_stats stats;

        engine_stats(bed->engine, &stats);
        assert_true(batch || read || stats.in_doubt);
        if (!batch && !read) { /* its timer is in doubt: the storage is asked again after a pause */
            bed->now = wall_add(bed->now, bed->options.storage_retry_ms);
            turn_advance(bed->engine, bed->now);
        } else if (batch) {
            commit(bed, batch);
        } else {
            engine_read_perform(read, bed->storage);
            turn_read_done(bed->engine, bed->now, read);
        }
    }
    assert_ptr_equal(reply, command);
}

/* The answer to a command for one timer. `ret_state` is the state shown, if a timer was. */
static inline enum error_code ask(struct bed *bed, enum command_kind kind,
                                  const struct timer_id *id, uint32_t if_version,
                                  enum timer_state *ret_state)
{
    struct command command = {.kind = kind, .id = *id, .if_version = if_version};

    if (kind == COMMAND_PATCH) {
        command.patch = timer_for("http://patched.example/", 2 * HOUR_MS);
        command.patch_fields = PATCH_DUE | PATCH_TARGET;
    }
    command_answer(bed, &command);
    if (ret_state && command.timer)
        *ret_state = command.timer->state;
    carry_out(bed);
    return command.error;
}

#endif
