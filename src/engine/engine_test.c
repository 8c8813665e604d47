/*
 * Drives one engine by hand over storage in memory: each test sets up a small history and looks at
 * what the engine hands out. What happens in disorder is the simulation's concern (tests/sim).
 */
#include "engine/engine.h"
#include "engine/retry.h"
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
};

static void carry_out(struct bed *bed)
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
            batch->result = storage_commit(bed->storage, &batch, 1, NULL);
            engine_committed(bed->engine, bed->now, batch);
            busy = true;
            continue;
        }
        read = engine_take_read(bed->engine);
        if (read && read->kind == ENGINE_READ_FIND)
            read->result = storage_find(bed->storage, &read->id, &read->timer, NULL);
        else if (read)
            read->result = storage_scan(bed->storage, &read->scan, &read->page, NULL);
        if (read) {
            engine_read_done(bed->engine, bed->now, read);
            busy = true;
        }
        engine_check(bed->engine);
    }
}

static void advance_to(struct bed *bed, uint64_t ms)
{
    bed->now = (struct wall){START.ms + ms};
    do {
        engine_advance(bed->engine, bed->now);
        carry_out(bed);
    } while (engine_wake_at(bed->engine).ms <= bed->now.ms);
}

static void open_engine(struct bed *bed)
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

static void bed_init(struct bed *bed)
{
    *bed = (struct bed){.options = ENGINE_OPTIONS_DEFAULT, .now = START};
    list_init(&bed->out);
    bed->storage = memory_storage_create(1);
    open_engine(bed);
}

static void answer(struct bed *bed, struct delivery *delivery, struct delivery_outcome outcome)
{
    list_remove(&delivery->link);
    delivery->outcome = outcome;
    engine_delivered(bed->engine, bed->now, delivery);
    carry_out(bed);
}

static struct delivery *first_out(struct bed *bed)
{
    return list_is_empty(&bed->out) ? NULL : list_item(bed->out.next, struct delivery, link);
}

static void answer_all(struct bed *bed, enum delivery_result result)
{
    while (first_out(bed))
        answer(bed, first_out(bed), (struct delivery_outcome){.result = result});
}

static void close_engine(struct bed *bed)
{
    engine_drain(bed->engine);
    answer_all(bed, DELIVERY_DONE);
    engine_destroy(bed->engine);
}

static void bed_deinit(struct bed *bed)
{
    close_engine(bed);
    storage_close(bed->storage);
}

static struct timer *timer_for(const char *target, uint64_t due_ms)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);

    timer->due = (struct wall){START.ms + due_ms};
    return timer;
}

static enum error_code create(struct bed *bed, const char *target, uint64_t due_ms,
                              struct timer_id *ret_id)
{
    struct timer *timer = timer_for(target, due_ms);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
    size_t replies = bed->replies;

    engine_submit(bed->engine, bed->now, &command);
    carry_out(bed);
    assert_int_equal(bed->replies, replies + 1);
    assert_int_equal(created.error, command.error);
    if (ret_id)
        *ret_id = created.id;
    return command.error;
}

/* The answer to a command for one timer. `ret_state` is the state shown, if a timer was. */
static enum error_code ask(struct bed *bed, enum command_kind kind, const struct timer_id *id,
                           uint32_t if_version, enum timer_state *ret_state)
{
    struct command command = {.kind = kind, .id = *id, .if_version = if_version};
    struct command *reply = NULL;

    if (kind == COMMAND_PATCH) {
        command.patch = timer_for("http://patched.example/", 2 * HOUR_MS);
        command.patch_fields = PATCH_DUE | PATCH_TARGET;
    }
    engine_submit(bed->engine, bed->now, &command);
    while (!(reply = engine_take_reply(bed->engine))) {
        struct storage_batch *batch = engine_take_batch(bed->engine);
        struct engine_read *read = batch ? NULL : engine_take_read(bed->engine);

        assert_true(batch || read);
        if (batch) {
            batch->result = storage_commit(bed->storage, &batch, 1, NULL);
            engine_committed(bed->engine, bed->now, batch);
        } else if (read->kind == ENGINE_READ_FIND) {
            read->result = storage_find(bed->storage, &read->id, &read->timer, NULL);
            engine_read_done(bed->engine, bed->now, read);
        } else {
            read->result = storage_scan(bed->storage, &read->scan, &read->page, NULL);
            engine_read_done(bed->engine, bed->now, read);
        }
    }
    assert_ptr_equal(reply, &command);
    if (ret_state && command.timer)
        *ret_state = command.timer->state;
    carry_out(bed);
    return command.error;
}

/* Goal: one life from create to fired. Method: a due time inside the window, and the clock just
 * before it, at it, and after the answer. */
static void test_fires_at_its_due_time_and_not_before(void **state)
{
    struct bed bed;
    struct timer_id id;
    enum timer_state shown;

    (void)state;
    bed_init(&bed);
    assert_int_equal(create(&bed, "http://a.example/x", 5000, &id), ERROR_NONE);
    advance_to(&bed, 4999);
    assert_int_equal(bed.delivered_count, 0);
    advance_to(&bed, 5000);
    assert_int_equal(bed.delivered_count, 1);
    assert_int_equal(ask(&bed, COMMAND_GET, &id, 0, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_DELIVERING);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(ask(&bed, COMMAND_GET, &id, 0, &shown), ERROR_GONE);
    assert_int_equal(shown, TIMER_FIRED);
    advance_to(&bed, 10000);
    assert_int_equal(bed.delivered_count, 1);
    bed_deinit(&bed);
}

/* Goal: a timer beyond the window is in the storage alone and still fires on time. Method: the
 * statistics after the create, then the clock moved in steps of a second. */
static void test_far_timer_is_read_ahead(void **state)
{
    struct engine_stats stats;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", HOUR_MS, NULL);
    engine_stats(bed.engine, &stats);
    assert_int_equal(stats.in_memory, 0);
    assert_int_equal(stats.pending, 1);
    for (uint64_t ms = 0; ms < HOUR_MS; ms += 1000)
        advance_to(&bed, ms);
    engine_stats(bed.engine, &stats);
    assert_int_equal(stats.in_memory, 1);
    advance_to(&bed, HOUR_MS - 1);
    assert_int_equal(bed.delivered_count, 0);
    advance_to(&bed, HOUR_MS);
    assert_int_equal(bed.delivered_count, 1);
    bed_deinit(&bed);
}

/* Goal: a step forward fires what became due, at once. Method: from the start straight past
 * everything. */
static void test_clock_step_forward_fires_what_became_due(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 1000, NULL);
    create(&bed, "http://a.example/", HOUR_MS, NULL);
    create(&bed, "http://a.example/", 9000 * HOUR_MS, NULL);
    create(&bed, "http://a.example/", 9001 * HOUR_MS, NULL);
    advance_to(&bed, 9000 * HOUR_MS);
    assert_int_equal(bed.delivered_count, 3);
    bed_deinit(&bed);
}

/* Goal: a step back fires nothing twice and nothing early, also what is created behind the
 * watermark. Method: fire one, step back an hour, create one due before the old time, go over it
 * all again. */
static void test_clock_step_back_fires_nothing_twice_or_early(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", HOUR_MS, NULL);
    create(&bed, "http://a.example/", HOUR_MS + 2000, NULL);
    advance_to(&bed, HOUR_MS + 1000);
    assert_int_equal(bed.delivered_count, 1);
    answer_all(&bed, DELIVERY_DONE);
    advance_to(&bed, HOUR_MS + 1999);
    advance_to(&bed, 1000); /* the watermark is an hour ahead now */
    create(&bed, "http://a.example/", 2000, NULL);
    assert_int_equal(bed.delivered_count, 1);
    close_engine(&bed); /* and recovery must find it all the same */
    open_engine(&bed);
    assert_int_equal(bed.delivered_count, 1);
    advance_to(&bed, 2000);
    assert_int_equal(bed.delivered_count, 2);
    answer_all(&bed, DELIVERY_DONE);
    advance_to(&bed, HOUR_MS + 1999);
    assert_int_equal(bed.delivered_count, 2);
    advance_to(&bed, HOUR_MS + 2000);
    assert_int_equal(bed.delivered_count, 3);
    bed_deinit(&bed);
}

/* Goal: a due timer that waits for room goes back to waiting for its time when the clock does.
 * Method: one place at the target, two timers, a step back. */
static void test_clock_step_back_while_waiting_for_room(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    engine_destroy(bed.engine);
    bed.options.target_inflight_max = 1;
    open_engine(&bed);
    create(&bed, "http://a.example/1", 1000, NULL);
    create(&bed, "http://a.example/2", 1000, NULL);
    advance_to(&bed, 1000);
    assert_int_equal(bed.delivered_count, 1);
    advance_to(&bed, 0);
    answer_all(&bed, DELIVERY_DONE);
    assert_int_equal(bed.delivered_count, 1);
    advance_to(&bed, 1000);
    assert_int_equal(bed.delivered_count, 2);
    bed_deinit(&bed);
}

/* Goal: nothing is delivered after a cancel that was answered, near or far, before or after a
 * restart. */
static void test_cancel(void **state)
{
    struct timer_id near, far;
    enum timer_state shown;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 2000, &near);
    create(&bed, "http://a.example/", HOUR_MS, &far);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &near, 2, NULL), ERROR_VERSION_MISMATCH);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &near, 1, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_CANCELLED);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &near, 0, NULL), ERROR_GONE);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &far, 0, &shown), ERROR_NONE);
    close_engine(&bed);
    open_engine(&bed);
    advance_to(&bed, 2 * HOUR_MS);
    assert_int_equal(bed.delivered_count, 0);
    bed_deinit(&bed);
}

/* Goal: what is out can be neither cancelled nor changed. */
static void test_firing_refuses_changes(void **state)
{
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 0, &id);
    assert_int_equal(bed.delivered_count, 1);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &id, 0, NULL), ERROR_ALREADY_FIRING);
    assert_int_equal(ask(&bed, COMMAND_PATCH, &id, 0, NULL), ERROR_ALREADY_FIRING);
    bed_deinit(&bed);
}

/* Goal: a patch moves the appointment, keeps the id, and outlives a restart. */
static void test_patch_moves_the_appointment(void **state)
{
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 1000, &id);
    assert_int_equal(ask(&bed, COMMAND_PATCH, &id, 7, NULL), ERROR_VERSION_MISMATCH);
    assert_int_equal(ask(&bed, COMMAND_PATCH, &id, 1, NULL), ERROR_NONE);
    advance_to(&bed, HOUR_MS);
    assert_int_equal(bed.delivered_count, 0);
    assert_int_equal(ask(&bed, COMMAND_CANCEL, &id, 1, NULL), ERROR_VERSION_MISMATCH);
    close_engine(&bed);
    open_engine(&bed);
    advance_to(&bed, 2 * HOUR_MS);
    assert_int_equal(bed.delivered_count, 1);
    assert_true(
        bytes_equal(first_out(&bed)->timer->texts.target, BYTES("http://patched.example/")));
    assert_true(timer_id_equal(&first_out(&bed)->timer->id, &id));
    bed_deinit(&bed);
}

/* Goal: failures are tried again up to attempts_max, then it is dead, with the reason. */
static void test_retries_are_bounded(void **state)
{
    struct timer_id id;
    enum timer_state shown;
    struct bed bed;
    uint32_t attempts = 0;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 0, &id);
    for (uint64_t ms = 0; ms < 100 * HOUR_MS; ms += 60000) {
        advance_to(&bed, ms);
        while (first_out(&bed)) {
            struct delivery_outcome outcome = {.result = DELIVERY_FAILED, .error = "HTTP 500"};

            assert_int_equal(first_out(&bed)->attempt, ++attempts);
            answer(&bed, first_out(&bed), outcome);
        }
    }
    assert_int_equal(attempts, RETRY_POLICY_DEFAULT.attempts_max);
    advance_to(&bed, 100 * HOUR_MS);
    assert_int_equal(ask(&bed, COMMAND_GET, &id, 0, &shown), ERROR_NOT_FOUND); /* long forgotten */
    create(&bed, "http://a.example/", 0, &id);
    answer(&bed, first_out(&bed),
           (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "HTTP 410"});
    assert_int_equal(ask(&bed, COMMAND_GET, &id, 0, &shown), ERROR_GONE);
    assert_int_equal(shown, TIMER_DEAD);
    bed_deinit(&bed);
}

/* Goal: Retry-After is honoured. */
static void test_retry_after(void **state)
{
    struct delivery_outcome outcome = {.result = DELIVERY_FAILED, .retry_after_ms = 120000};
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 0, NULL);
    answer(&bed, first_out(&bed), outcome);
    advance_to(&bed, 119999);
    assert_int_equal(bed.delivered_count, 1);
    advance_to(&bed, 121000);
    assert_int_equal(bed.delivered_count, 2);
    bed_deinit(&bed);
}

/* Goal: a create is acknowledged only when durable, and a failed commit takes it back. */
static void test_failed_commit_takes_the_create_back(void **state)
{
    struct engine_stats stats;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    memory_storage_fail_commit(bed.storage, 1, ERROR_IO);
    assert_int_equal(create(&bed, "http://a.example/", 1000, NULL), ERROR_IO);
    engine_stats(bed.engine, &stats);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(create(&bed, "http://a.example/", 1000, NULL), ERROR_NONE);
    advance_to(&bed, 1000);
    assert_int_equal(bed.delivered_count, 1);
    bed_deinit(&bed);
}

/* Goal: an outcome whose commit failed is written again and never delivered again. */
static void test_failed_commit_of_an_outcome_is_repeated(void **state)
{
    struct timer_id id;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    create(&bed, "http://a.example/", 0, &id);
    memory_storage_fail_commit(bed.storage, 1, ERROR_IO);
    answer_all(&bed, DELIVERY_DONE);
    advance_to(&bed, 10000);
    assert_int_equal(bed.delivered_count, 1);
    close_engine(&bed);
    open_engine(&bed);
    advance_to(&bed, 20000);
    assert_int_equal(bed.delivered_count, 1);
    assert_int_equal(ask(&bed, COMMAND_GET, &id, 0, NULL), ERROR_GONE);
    bed_deinit(&bed);
}

/* Goal: a target that never answers keeps only its own timers waiting. */
static void test_a_slow_target_delays_no_other(void **state)
{
    struct bed bed;
    size_t slow = 0, fast = 0;

    (void)state;
    bed_init(&bed);
    for (int i = 0; i < 1000; i++)
        create(&bed, "http://slow.example/", 1000, NULL);
    for (int i = 0; i < 100; i++)
        create(&bed, "http://fast.example/", 1001, NULL);
    advance_to(&bed, 1001);
    LIST_FOR_EACH (&bed.out, link) {
        const struct timer *timer = list_item(link, struct delivery, link)->timer;

        slow += bytes_equal(timer->texts.target, BYTES("http://slow.example/"));
        fast += bytes_equal(timer->texts.target, BYTES("http://fast.example/"));
    }
    assert_int_equal(slow, bed.options.target_inflight_max);
    assert_int_equal(fast, 100);
    bed_deinit(&bed);
}

/* Goal: memory is bounded by its setting when far more is due at once, and all is delivered.
 * Method: room for about 60 timers, 2,000 due at the same millisecond. */
static void test_memory_is_bounded(void **state)
{
    struct engine_stats stats;
    struct bed bed;

    (void)state;
    bed_init(&bed);
    engine_destroy(bed.engine);
    bed.options.near_bytes_max = 32 << 10;
    open_engine(&bed);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(create(&bed, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    for (uint64_t ms = HOUR_MS; bed.delivered_count < 2000 && ms < 3 * HOUR_MS; ms += 1000) {
        advance_to(&bed, ms);
        engine_stats(bed.engine, &stats);
        assert_in_range(stats.near_bytes, 0, bed.options.near_bytes_max + 1024);
        answer_all(&bed, DELIVERY_DONE);
    }
    assert_int_equal(bed.delivered_count, 2000);
    bed_deinit(&bed);
}

/* Goal: limits refuse, with their own error. */
static void test_limits_refuse(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    engine_destroy(bed.engine);
    bed.options.pending_max = 2;
    open_engine(&bed);
    assert_int_equal(create(&bed, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    assert_int_equal(create(&bed, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    assert_int_equal(create(&bed, "http://a.example/", HOUR_MS, NULL), ERROR_TOO_MANY);
    bed_deinit(&bed);
}

/* Goal: the back-off is within its bounds and reaches both ends of them. */
static void test_backoff_is_full_jitter(void **state)
{
    struct retry_policy policy = {10, 1000, 60000, 1000};
    struct random random = random_seeded(1);
    uint64_t least = UINT64_MAX, most = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t ms = retry_delay_ms(&policy, 3, 0, &random);

        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
        assert_in_range(retry_delay_ms(&policy, 1, 0, &random), 1, 1000);
        assert_in_range(retry_delay_ms(&policy, 64, 0, &random), 1, 60000);
        assert_in_range(retry_delay_ms(&policy, 1, 5000, &random), 5000, 5000);
    }
    assert_in_range(least, 1, 50);
    assert_in_range(most, 3950, 4000);
    assert_int_equal(retry_delay_ms(&policy, 1, UINT64_MAX, &random), 24 * HOUR_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fires_at_its_due_time_and_not_before),
        cmocka_unit_test(test_far_timer_is_read_ahead),
        cmocka_unit_test(test_clock_step_forward_fires_what_became_due),
        cmocka_unit_test(test_clock_step_back_fires_nothing_twice_or_early),
        cmocka_unit_test(test_clock_step_back_while_waiting_for_room),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_firing_refuses_changes),
        cmocka_unit_test(test_patch_moves_the_appointment),
        cmocka_unit_test(test_retries_are_bounded),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_failed_commit_takes_the_create_back),
        cmocka_unit_test(test_failed_commit_of_an_outcome_is_repeated),
        cmocka_unit_test(test_a_slow_target_delays_no_other),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_limits_refuse),
        cmocka_unit_test(test_backoff_is_full_jitter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
