/*
 * Goal: whatever happens, each target of a timer is delivered to at least once or cancelled, the
 * timer is over if and only if all its targets are, and no crash or failed write loses or adds a
 * target. Method: random steps on an engine over memory (time, outcomes, cancels, redrives, failed
 * writes, kills before and after a batch is durable), and a count of what each target was told.
 */
#include "engine/engine_testing.h"

#include "seed.h"
#include "timer/fanout.h"

enum {
    RUNS = 150,
    TIMERS = 6,
    STEPS = 120,
    FINISH_MAX = 3000, /* steps until all are over, with targets that answer */
};

#define MODEL_RETAIN_MS (UINT64_C(30) * 24 * 3600 * 1000)

struct fanout_twin {
    struct timer_id id;
    size_t count; /* number of targets */
    bool is_cancelled;
    uint32_t done[FANOUT_PARTS_MAX]; /* number of successes that were handed to the engine */
};

struct fanout_model {
    struct engine_fixture fixture;
    struct random random;
    struct fanout_twin twins[TIMERS];
};

static uint64_t fanout_model_below(struct fanout_model *model, uint64_t bound)
{
    return random_below(&model->random, bound);
}

static void fanout_model_create(struct fanout_model *model, struct fanout_twin *twin)
{
    char targets[512];
    size_t size = 0;

    twin->count = 1 + fanout_model_below(model, FANOUT_PARTS_MAX);
    for (size_t i = 0; i < twin->count; i++)
        size +=
            (size_t)snprintf(targets + size, sizeof(targets) - size, "http://t%zu.example/\n", i);
    struct timer *timer = timer_alloc(&(struct timer_texts){
        .target = BYTES("http://t0.example/"), .targets = {targets, size}, .payload = BYTES("1")});
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    timer->due = wall_add(model->fixture.now, fanout_model_below(model, 20000));
    timer->retry.attempts_max = 1 + (uint32_t)fanout_model_below(model, 3);
    fixture_command(&model->fixture, &command);
    assert_int_equal(created.error, ERROR_NONE);
    twin->id = created.id;
    fixture_carry_out(&model->fixture);
}

/* Returns the twin and the index of the target of a delivery. */
static struct fanout_twin *fanout_model_find(struct fanout_model *model,
                                             const struct delivery *delivery, size_t *ret_index)
{
    const struct timer *timer = delivery->timer;
    struct timer_id parent;

    assert_true(fanout_is_part(timer, &parent));
    *ret_index = strtoul(timer->texts.target.data + strlen("http://t"), NULL, 10);
    for (size_t i = 0; i < TIMERS; i++)
        if (timer_id_equal(&model->twins[i].id, &parent))
            return &model->twins[i];
    fail_msg("a part of a timer that nobody made");
    return NULL;
}

/* A target has one delivery at a time, and none after a cancel that was answered with success. */
static void fanout_model_check_out(struct fanout_model *model)
{
    bool is_out[TIMERS][FANOUT_PARTS_MAX] = {{false}};

    LIST_FOR_EACH (&model->fixture.out, link) {
        size_t index;
        const struct fanout_twin *twin =
            fanout_model_find(model, list_item(link, struct delivery, link), &index);
        bool *is_target_out = &is_out[twin - model->twins][index];

        assert_true(index < twin->count);
        assert_false(twin->is_cancelled);
        assert_false(*is_target_out);
        *is_target_out = true;
    }
}

/* Returns whether the timer is over, which is so if and only if its targets are. */
static bool fanout_model_check_twin(struct fanout_model *model, const struct fanout_twin *twin)
{
    struct command command = {.kind = COMMAND_GET, .id = twin->id};
    struct fanout fanout;

    fixture_command(&model->fixture, &command);
    assert_non_null(command.timer);
    assert_true(fanout_read(command.timer, &fanout));
    const enum timer_state state = command.timer->state;
    const size_t fired = fanout_count(&fanout, FANOUT_FIRED);
    const size_t dead = fanout_count(&fanout, FANOUT_DEAD);
    const size_t cancelled = fanout_count(&fanout, FANOUT_CANCELLED);
    const bool is_over = fired + dead + cancelled == twin->count;

    assert_int_equal(fanout.count, twin->count);
    for (size_t i = 0; i < twin->count; i++)
        assert_true(fanout.parts[i].state != FANOUT_FIRED || twin->done[i] > 0);
    if (is_over) /* a timer that was cancelled before it was due has no parts */
        assert_int_equal(state, dead ? TIMER_DEAD : cancelled ? TIMER_CANCELLED : TIMER_FIRED);
    else
        assert_true(!timer_is_final(state) || (state == TIMER_CANCELLED && twin->is_cancelled));
    fixture_carry_out(&model->fixture);
    return timer_is_final(state);
}

static void fanout_model_answer(struct fanout_model *model, enum delivery_result result)
{
    struct delivery *delivery = fixture_first_out(&model->fixture);
    size_t index;

    for (uint64_t n = fanout_model_below(model, 8);
         delivery && n > 0 && delivery->link.next != &model->fixture.out; n--)
        delivery = list_item(delivery->link.next, struct delivery, link);
    if (!delivery)
        return;
    fanout_model_find(model, delivery, &index)->done[index] += result == DELIVERY_DONE;
    fixture_answer(&model->fixture, delivery,
                   (struct delivery_outcome){.result = result, .error = "HTTP 500"});
}

/* The process dies, perhaps right after an outcome. Its last batch may have become durable. */
static void fanout_model_crash(struct fanout_model *model)
{
    struct engine_fixture *fixture = &model->fixture;
    struct delivery *delivery = fixture_first_out(fixture);
    size_t index;

    if (delivery) {
        fanout_model_find(model, delivery, &index)->done[index]++;
        list_remove(&delivery->link);
        delivery->outcome = (struct delivery_outcome){.result = DELIVERY_DONE};
        turn_delivered(fixture->engine, fixture->now, delivery);
    }
    turn_advance(fixture->engine, fixture->now);
    struct storage_batch *batch = engine_take_batch(fixture->engine);
    if (batch) {
        if (fanout_model_below(model, 2))
            storage_write(fixture->storage, &batch, 1, NULL);
        batch->result = ERROR_IO;
        turn_committed(fixture->engine, fixture->now, batch);
    }
    struct delivery *late;
    while ((late = engine_take_delivery(fixture->engine)))
        free(late);
    while (fixture_first_out(fixture)) {
        struct delivery *lost = fixture_first_out(fixture);

        list_remove(&lost->link);
        free(lost);
    }
    engine_destroy(fixture->engine);
    fixture_open(fixture);
}

static void fanout_model_pass(struct fanout_model *model, uint64_t ms)
{
    fixture_advance_to(&model->fixture, model->fixture.now.ms - START.ms + ms);
}

static void fanout_model_command(struct fanout_model *model, enum command_kind kind)
{
    struct fanout_twin *twin = &model->twins[fanout_model_below(model, TIMERS)];

    if (fixture_ask(&model->fixture, kind, &twin->id, 0, NULL) == ERROR_NONE &&
        kind == COMMAND_CANCEL)
        twin->is_cancelled = true;
}

static void fanout_model_step(struct fanout_model *model)
{
    static const enum delivery_result results[] = {DELIVERY_DONE, DELIVERY_DONE, DELIVERY_FAILED,
                                                   DELIVERY_ENDED};

    switch (fanout_model_below(model, 16)) {
    case 0:
        fanout_model_crash(model);
        break;
    case 1:
        memory_storage_fail_commit(model->fixture.storage, 1 + fanout_model_below(model, 3),
                                   ERROR_IO);
        fanout_model_answer(model, DELIVERY_DONE);
        fanout_model_pass(model, 1000);
        memory_storage_fail_commit(model->fixture.storage, 0, ERROR_NONE);
        fanout_model_pass(model, 1000);
        break;
    case 2:
        fanout_model_command(model, fanout_model_below(model, 3) ? COMMAND_GET : COMMAND_CANCEL);
        break;
    case 3:
        fanout_model_command(model, COMMAND_REDRIVE);
        break;
    case 4:
    case 5:
    case 6:
        fanout_model_pass(model, fanout_model_below(model, 10) ? 3000 : 600000);
        break;
    default:
        fanout_model_answer(model, results[fanout_model_below(model, 4)]);
        break;
    }
    fanout_model_check_out(model);
}

/* Lets all targets answer until all timers are over. */
static void fanout_model_finish(struct fanout_model *model)
{
    bool are_over = false;

    for (int i = 0; i < FINISH_MAX && !are_over; i++) {
        while (fixture_first_out(&model->fixture)) {
            fanout_model_check_out(model);
            fanout_model_answer(model, DELIVERY_DONE);
        }
        fanout_model_pass(model, 60000);
        are_over = list_is_empty(&model->fixture.out);
        for (size_t t = 0; t < TIMERS; t++)
            are_over &= fanout_model_check_twin(model, &model->twins[t]);
    }
    assert_true(are_over);
    struct engine_stats stats;
    engine_stats(model->fixture.engine, &stats);
    assert_int_equal(stats.pending, 0);
}

static void test_random_steps(void **state)
{
    struct random seeds = random_seeded(testing_seed());

    (void)state;
    for (int run = 0; run < RUNS; run++) {
        struct fanout_model model = {.random = random_seeded(random_next(&seeds))};

        fixture_prepare(&model.fixture);
        model.fixture.options.retain_ms = MODEL_RETAIN_MS;
        if (fanout_model_below(&model, 2))
            model.fixture.options.near_bytes_max = 64 << 10;
        fixture_open(&model.fixture);
        for (size_t i = 0; i < TIMERS; i++)
            fanout_model_create(&model, &model.twins[i]);
        for (int step = 0; step < STEPS; step++) {
            fanout_model_step(&model);
            fanout_model_check_twin(&model, &model.twins[fanout_model_below(&model, TIMERS)]);
        }
        fanout_model_finish(&model);
        fixture_deinit(&model.fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_steps)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
