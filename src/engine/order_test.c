/*
 * Goal: workers get the items of a queue in strict order by due time and then in order of creation,
 * whatever else happens: failures, pauses, changes, want of memory, a full disk, crashes. Method:
 * an engine over storage in memory, and a list in which the next item is found by comparing all.
 */
#include "engine/engine_turn_testing.h"
#include "seed.h"
#include "store/testing/memory.h"
#include "store/storage_writing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START ((struct wall){UINT64_C(1800000000000)})

enum { ITEMS_MAX = 40000 };

/* An item as the list knows it. Items are in order of creation. */
struct order_item {
    struct timer_id id;
    struct wall due;
    struct wall paused_until;
    struct delivery *delivery; /* not NULL while it is leased */
    bool is_over;
};

struct order_model {
    struct engine_options options;
    struct storage *storage;
    struct engine *engine;
    struct wall now;
    struct random random;
    struct order_item *items;
    size_t count, over;
    bool fails_commits;
    const struct command *replied; /* the last command that was answered */
};

static void order_model_take_replies(struct order_model *model)
{
    for (struct command *command; (command = engine_take_reply(model->engine));)
        model->replied = command;
}

static void order_model_carry_out(struct order_model *model)
{
    for (bool busy = true; busy;) {
        struct storage_batch *batch = engine_take_batch(model->engine);
        struct engine_read *read = engine_take_read(model->engine);

        busy = batch || read;
        order_model_take_replies(model);
        for (struct delivery *delivery; (delivery = engine_take_recorded(model->engine));)
            free(delivery);
        if (batch) {
            batch->result =
                model->fails_commits ? ERROR_IO : storage_write(model->storage, &batch, 1, NULL);
            turn_committed(model->engine, model->now, batch);
            order_model_take_replies(model);
        }
        if (read) {
            if (read->kind == ENGINE_READ_FIND)
                read->result = storage_find(model->storage, &read->id, &read->timer, NULL);
            else
                read->result = storage_scan(model->storage, &read->scan, &read->page, NULL);
            turn_read_done(model->engine, model->now, read);
        }
    }
}

static void order_model_settle(struct order_model *model)
{
    do {
        turn_advance(model->engine, model->now);
        order_model_carry_out(model);
    } while (engine_wake_at(model->engine).ms <= model->now.ms);
    engine_check(model->engine);
}

static void order_model_advance(struct order_model *model, uint64_t ms)
{
    model->now = wall_add(model->now, ms);
    order_model_settle(model);
}

/* Waits until the command is answered. Writes of the engine are repeated until the disk works. */
static void order_model_wait(struct order_model *model, const struct command *command)
{
    order_model_carry_out(model);
    while (model->replied != command) {
        model->fails_commits = false;
        order_model_advance(model, 10);
    }
    model->replied = NULL;
}

static void order_model_open(struct order_model *model)
{
    struct storage_batch batch = {0}, *batches[] = {&batch};

    assert_int_equal(storage_load_meta(model->storage, 0, &batch.meta, NULL), ERROR_NONE);
    batch.meta.epoch++;
    assert_int_equal(storage_write(model->storage, batches, 1, NULL), ERROR_NONE);
    model->engine = engine_create(&model->options, &batch.meta, model->now);
    order_model_settle(model);
}

static void order_model_init(struct order_model *model, size_t near_bytes_max, uint64_t seed)
{
    *model = (struct order_model){
        .options = ENGINE_OPTIONS_DEFAULT, .now = START, .random = random_seeded(seed)};
    model->options.near_bytes_max = near_bytes_max;
    model->options.seed = seed;
    model->storage = memory_storage_create(1);
    model->items = calloc(ITEMS_MAX, sizeof(*model->items));
    order_model_open(model);
}

static void order_model_deinit(struct order_model *model)
{
    engine_destroy(model->engine);
    storage_close(model->storage);
    free(model->items);
}

/* Makes items in one command, which are due at or after `after_ms`, in steps. */
static void order_model_create(struct order_model *model, size_t count, uint64_t after_ms,
                               uint64_t step_ms)
{
    struct timer *timers[64];
    struct command_created created[64] = {0};
    struct wall dues[64];
    struct command command = {
        .kind = COMMAND_CREATE, .timers = timers, .results = created, .timer_count = count};

    assert_true(count <= 64 && model->count + count <= ITEMS_MAX);
    for (size_t i = 0; i < count; i++) {
        timers[i] = timer_alloc(&(struct timer_texts){
            .target = BYTES("queue:a"), .payload = BYTES("{}"), .order = BYTES("strict")});
        timers[i]->retry.attempts_max = 100;
        timers[i]->due = dues[i] = wall_add(model->now, after_ms + i * step_ms);
    }
    turn_submit(model->engine, model->now, &command);
    order_model_wait(model, &command);
    for (size_t i = 0; i < count; i++)
        if (!created[i].error)
            model->items[model->count++] = (struct order_item){.id = created[i].id, .due = dues[i]};
}

/* Returns the first item that is due and not leased; NULL if there is none. */
static struct order_item *order_model_first(struct order_model *model)
{
    struct order_item *first = NULL;

    for (size_t i = 0; i < model->count; i++) {
        struct order_item *item = &model->items[i];

        if (!item->is_over && !item->delivery && item->due.ms <= model->now.ms &&
            (!first || item->due.ms < first->due.ms))
            first = item;
    }
    return first;
}

/* Pulls, and checks that only the first item comes, and not in its pause. */
static struct order_item *order_model_pull(struct order_model *model)
{
    struct order_item *first = order_model_first(model);
    order_model_take_replies(model);
    struct delivery *delivery = turn_pull(model->engine, model->now, BYTES("a"), 5);

    order_model_carry_out(model);
    if (!delivery)
        return NULL;
    assert_non_null(first);
    if (!timer_id_equal(&delivery->timer->id, &first->id))
        print_error("got an item due at %llu, expected one due at %llu\n",
                    (unsigned long long)delivery->timer->due.ms, (unsigned long long)first->due.ms);
    assert_true(timer_id_equal(&delivery->timer->id, &first->id));
    /* a pause ends early if the item is spilled */
    assert_true(first->paused_until.ms <= model->now.ms || model->options.near_bytes_max < 1 << 20);
    first->delivery = delivery;
    return first;
}

static void order_model_answer(struct order_model *model, struct order_item *item,
                               enum delivery_result result, uint64_t pause_ms)
{
    struct delivery *delivery = item->delivery;

    delivery->outcome = (struct delivery_outcome){.result = result,
                                                  .pause = DELIVERY_PAUSE_EXACT,
                                                  .retry_after_ms = pause_ms,
                                                  .error = "not today"};
    item->delivery = NULL;
    item->is_over = result == DELIVERY_DONE;
    model->over += item->is_over;
    item->paused_until = result == DELIVERY_FAILED && item->due.ms <= model->now.ms
                             ? wall_add(model->now, pause_ms)
                             : (struct wall){0};
    turn_delivered(model->engine, model->now, delivery);
    /* another worker asks before the outcome is durable */
    if (random_below(&model->random, 4) == 0)
        order_model_pull(model);
    order_model_carry_out(model);
}

static struct order_item *order_model_leased(struct order_model *model)
{
    const size_t start = model->count ? (size_t)random_below(&model->random, model->count) : 0;

    for (size_t i = 0; i < model->count; i++)
        if (model->items[(start + i) % model->count].delivery)
            return &model->items[(start + i) % model->count];
    return NULL;
}

static void order_model_answer_some(struct order_model *model)
{
    static const enum delivery_result results[] = {DELIVERY_DONE, DELIVERY_DONE, DELIVERY_FAILED,
                                                   DELIVERY_RETURNED};
    struct order_item *item = order_model_leased(model);
    const uint64_t pause_ms =
        random_below(&model->random, 2) ? 0 : random_below(&model->random, 3000);

    if (item)
        order_model_answer(model, item, results[random_below(&model->random, 4)], pause_ms);
}

/* Cancels an item, or changes its labels, which keeps its place. */
static void order_model_change_some(struct order_model *model, enum command_kind kind)
{
    if (!model->count)
        return;
    struct order_item *item = &model->items[random_below(&model->random, model->count)];
    struct order_item *first = order_model_first(model);
    struct command command = {.kind = kind};

    if (first && random_below(&model->random, 2))
        item = first;
    command.id = item->id;
    if (kind == COMMAND_PATCH) {
        command.patch = timer_alloc(
            &(struct timer_texts){.target = BYTES("queue:a"), .labels = BYTES("{\"a\":\"b\"}")});
        command.patch_fields = PATCH_LABELS;
    }
    turn_submit(model->engine, model->now, &command);
    order_model_pull(model); /* before the change is durable */
    order_model_wait(model, &command);
    if (!command.error && kind == COMMAND_CANCEL && !item->is_over) {
        item->is_over = true;
        model->over++;
    }
}

/* Lets the clock step back. A pause that was over stays so. An item that is not due any more has no
 * pause when it is due again. */
static void order_model_step_back(struct order_model *model, uint64_t ms)
{
    const struct wall was = model->now;

    model->now.ms -= ms;
    for (size_t i = 0; i < model->count; i++) {
        struct order_item *item = &model->items[i];

        if (item->due.ms > model->now.ms || item->paused_until.ms <= was.ms)
            item->paused_until = (struct wall){0};
    }
    order_model_settle(model);
}

/* Outcomes are durable before the crash; otherwise their items come again. The next engine's clock
 * may be behind. */
static void order_model_crash(struct order_model *model)
{
    model->fails_commits = false;
    order_model_advance(model, 2 * model->options.storage_retry_ms);
    for (size_t i = 0; i < model->count; i++) {
        free(model->items[i].delivery);
        model->items[i].delivery = NULL;
        model->items[i].paused_until = (struct wall){0};
    }
    engine_destroy(model->engine);
    if (random_below(&model->random, 3) == 0)
        model->now.ms -= random_below(&model->random, 600000);
    order_model_open(model);
}

static void order_model_step(struct order_model *model)
{
    switch (random_below(&model->random, 16)) {
    case 0:
    case 1:
        order_model_create(model, 1 + random_below(&model->random, 8),
                           random_below(&model->random, 4), random_below(&model->random, 2));
        break;
    case 2:
        order_model_create(model, 1 + random_below(&model->random, 64),
                           random_below(&model->random, 2000), 0);
        break;
    case 3:
    case 4:
    case 5:
        order_model_advance(model, random_below(&model->random, 3));
        break;
    case 6:
        order_model_advance(model, random_below(&model->random, 1000));
        break;
    case 7:
        order_model_change_some(model, COMMAND_CANCEL);
        break;
    case 8:
        order_model_change_some(model, COMMAND_PATCH);
        break;
    case 9:
        model->fails_commits = random_below(&model->random, 8) == 0;
        break;
    case 10:
        if (random_below(&model->random, 20) == 0)
            order_model_crash(model);
        break;
    case 11:
        if (random_below(&model->random, 10) == 0)
            order_model_step_back(model, random_below(&model->random, 2)
                                             ? random_below(&model->random, 2000)
                                             : random_below(&model->random, 600000));
        else
            order_model_answer_some(model);
        break;
    case 12:
        order_model_answer_some(model);
        break;
    default:
        order_model_pull(model);
        break;
    }
}

/* Works until all items are over. Each that waits comes, though no other event helps. */
static void order_model_drain(struct order_model *model)
{
    model->fails_commits = false;
    for (struct order_item *item; (item = order_model_leased(model));)
        order_model_answer(model, item, DELIVERY_DONE, 0);
    for (unsigned idle = 0; model->over < model->count;) {
        struct order_item *item = order_model_pull(model);

        if (item) {
            order_model_answer(model, item, DELIVERY_DONE, 0);
            idle = 0;
        } else {
            for (struct order_item *pulled; (pulled = order_model_leased(model));)
                order_model_answer(model, pulled, DELIVERY_DONE, 0);
            order_model_advance(model, idle++ ? 10000 : 0);
            assert_true(idle < 1000); /* the clock may have stepped back by hours */
        }
    }
}

static void test_any_run(void **state)
{
    (void)state;
    const char *seeds_asked = getenv("SEEDS");
    struct random seeds = random_seeded(testing_seed());

    for (int i = seeds_asked ? (int)strtoul(seeds_asked, NULL, 10) : 30; i > 0; i--) {
        const uint64_t seed = random_next(&seeds);
        const size_t near_bytes = random_below(&seeds, 2) ? 1 << 20 : 48 << 10;
        struct order_model model;

        order_model_init(&model, near_bytes, seed);
        for (int step = 0; step < 600; step++)
            order_model_step(&model);
        order_model_drain(&model);
        order_model_deinit(&model);
    }
}

/* Goal: a backlog of equal due times far larger than memory comes in order, also after a crash. */
static void test_large_backlog(void **state)
{
    (void)state;
    struct order_model model;

    order_model_init(&model, 256 << 10, 1);
    for (int i = 0; i < 100; i++)
        order_model_create(&model, 64, 60000, 0);
    order_model_advance(&model, 60000);
    for (int i = 0; i < 1000; i++) {
        struct order_item *item = order_model_pull(&model);

        if (item)
            order_model_answer(&model, item, DELIVERY_DONE, 0);
        else
            order_model_settle(&model);
    }
    order_model_crash(&model);
    order_model_drain(&model);
    struct engine_stats stats;
    engine_stats(model.engine, &stats);
    assert_true(stats.spilled > 0 && stats.reloaded > 0);
    order_model_deinit(&model);
}

/* Lets the only item that is first fail, with a pause. */
static struct order_item *order_model_fail_first(struct order_model *model, uint64_t pause_ms)
{
    struct order_item *item = order_model_pull(model);

    assert_non_null(item);
    order_model_answer(model, item, DELIVERY_FAILED, pause_ms);
    return item;
}

#define MINUTE_MS UINT64_C(60000)

/* An item that failed keeps its place and its pause when the clock steps back to before the
 * failure, whether or not the row of the failure is near. */
/* proves: strict-retry, clock-step */
static void test_a_step_back_keeps_a_failed_item(void **state)
{
    static const uint64_t backs_ms[] = {1, MINUTE_MS, 5 * MINUTE_MS, 59 * MINUTE_MS};
    (void)state;

    for (size_t i = 0; i < sizeof(backs_ms) / sizeof(backs_ms[0]); i++) {
        struct order_model model;

        order_model_init(&model, 1 << 20, 1);
        order_model_create(&model, 3, 1000, 0);
        order_model_advance(&model, 60 * MINUTE_MS);
        const struct order_item *failed = order_model_fail_first(&model, 30 * MINUTE_MS);
        order_model_settle(&model);
        order_model_step_back(&model, backs_ms[i]);
        assert_null(order_model_pull(&model));
        order_model_advance(&model, 30 * MINUTE_MS + backs_ms[i] - 1);
        assert_null(order_model_pull(&model));
        order_model_advance(&model, 1);
        assert_ptr_equal(order_model_pull(&model), failed);
        order_model_drain(&model);
        order_model_deinit(&model);
    }
}

/* The same for an item without a pause, also while the failure is being written. */
/* proves: strict-retry, clock-step */
static void test_a_step_back_makes_no_pause(void **state)
{
    static const uint64_t backs_ms[] = {1, MINUTE_MS, 5 * MINUTE_MS, 59 * MINUTE_MS};
    (void)state;

    for (size_t i = 0; i < 2 * sizeof(backs_ms) / sizeof(backs_ms[0]); i++) {
        const bool is_writing = i & 1;
        struct order_model model;

        order_model_init(&model, 1 << 20, 1);
        order_model_create(&model, 3, 1000, 0);
        order_model_advance(&model, 60 * MINUTE_MS);
        model.fails_commits = is_writing;
        const struct order_item *failed = order_model_fail_first(&model, 0);
        order_model_step_back(&model, backs_ms[i / 2]);
        model.fails_commits = false;
        if (is_writing)
            order_model_advance(&model, model.options.storage_retry_ms);
        assert_ptr_equal(order_model_pull(&model), failed);
        order_model_drain(&model);
        order_model_deinit(&model);
    }
}

/* A failed item comes first although the next engine's clock is behind, and the row of the failure
 * is far ahead. */
/* proves: strict-order, strict-retry, clock-step */
static void test_a_start_with_a_clock_behind(void **state)
{
    static const uint64_t backs_ms[] = {1, MINUTE_MS, 5 * MINUTE_MS, 59 * MINUTE_MS};
    (void)state;

    for (size_t i = 0; i < sizeof(backs_ms) / sizeof(backs_ms[0]); i++) {
        struct order_model model;

        order_model_init(&model, 1 << 20, 1);
        order_model_create(&model, 3, 1000, 0);
        order_model_advance(&model, 60 * MINUTE_MS);
        order_model_fail_first(&model, 30 * MINUTE_MS);
        engine_destroy(model.engine);
        model.items[0].paused_until = (struct wall){0};
        model.now.ms -= backs_ms[i];
        order_model_open(&model);
        assert_ptr_equal(order_model_pull(&model), &model.items[0]);
        order_model_drain(&model);
        order_model_deinit(&model);
    }
}

/* A timer whose firing began apart keeps its place until its next one is reached. If the clock
 * steps back so far that the timer leaves memory, the queue is open without it. */
/* proves: strict-order, clock-step */
static void test_a_step_back_leaves_no_queue_closed(void **state)
{
    struct order_model model;
    struct command_created created;
    struct timer *timer = timer_alloc(&(struct timer_texts){
        .target = BYTES("queue:a"),
        .order = BYTES("strict"),
        .schedule = BYTES("{\"every\":\"10s\",\"from\":\"2027-01-15T07:59:01.000Z\","
                          "\"until\":\"2027-01-15T08:00:21.000Z\","
                          "\"late\":{\"missed\":\"each\"},\"overlap\":\"allow\","
                          "\"backfill\":{\"of\":\"06gvoga8sk0000000400000000\","
                          "\"from\":\"2027-01-15T08:00:00.000Z\","
                          "\"to\":\"2027-01-15T08:00:22.000Z\","
                          "\"rate\":\"1/s\",\"count\":3,\"done\":0}}")});
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    (void)state;
    timer->due = wall_add(START, 1000);
    order_model_init(&model, 1 << 20, 1);
    turn_submit(model.engine, model.now, &command);
    order_model_wait(&model, &command);
    order_model_advance(&model, 60 * MINUTE_MS);
    assert_null(turn_pull(model.engine, model.now, BYTES("a"), 5)); /* the firing begins */
    order_model_carry_out(&model);
    model.now.ms -= 5 * MINUTE_MS;
    order_model_settle(&model);
    struct delivery *delivery = turn_pull(model.engine, model.now, BYTES("a"), 5);
    assert_non_null(delivery);
    free(delivery);
    order_model_deinit(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_run),
        cmocka_unit_test(test_large_backlog),
        cmocka_unit_test(test_a_step_back_keeps_a_failed_item),
        cmocka_unit_test(test_a_step_back_makes_no_pause),
        cmocka_unit_test(test_a_start_with_a_clock_behind),
        cmocka_unit_test(test_a_step_back_leaves_no_queue_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
