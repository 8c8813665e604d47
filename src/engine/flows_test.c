/*
 * Goal: no more timers of a flow run, or start in a time, than it allows; they start in due order;
 * and a timer that waits for its flow holds up none of another. Method: an engine driven by hand;
 * then random creates, cancels, pauses and outcomes against the rule itself, over restarts and with
 * little memory.
 */
#include "engine/engine_testing.h"

#include "base/random.h"
#include "engine/dispatch_queue.h"
#include "engine/pace.h"
#include "seed.h"
#include "timer/flow.h"
#include "timer/target_pauses.h"

#include <stdio.h>

static struct timer *flows_timer(const char *target, const char *flow, uint64_t due_ms)
{
    struct timer_texts texts = {
        .target = bytes_of(target), .payload = BYTES("{}"), .flow = bytes_of(flow)};
    struct timer *timer = timer_alloc(&texts);

    timer->due = (struct wall){START.ms + due_ms};
    return timer;
}

static enum error_code flows_try(struct engine_fixture *fixture, const char *target,
                                 const char *flow, uint64_t due_ms, struct timer_id *ret_id)
{
    struct timer *timer = flows_timer(target, flow, due_ms);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    turn_submit(fixture->engine, fixture->now, &command);
    fixture_carry_out(fixture);
    *ret_id = created.id;
    return command.error;
}

static struct timer_id flows_create(struct engine_fixture *fixture, const char *target,
                                    const char *flow, uint64_t due_ms)
{
    struct timer_id id;

    assert_int_equal(flows_try(fixture, target, flow, due_ms, &id), ERROR_NONE);
    return id;
}

static size_t flows_out(const struct engine_fixture *fixture, const char *flow)
{
    size_t count = 0;

    LIST_FOR_EACH (&fixture->out, link)
        count += bytes_equal(flow_key(list_item(link, struct delivery, link)->timer->texts.flow),
                             bytes_of(flow));
    return count;
}

static void flows_done(struct engine_fixture *fixture)
{
    fixture_answer(fixture, fixture_first_out(fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
}

/* Two of three run; a timer of another flow and one without are not held up, and each end lets the
 * one that is due next start. */
/* proves: flow-concurrency */
static void test_as_many_run_as_the_flow_allows(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    for (uint64_t i = 0; i < 5; i++)
        flows_create(&fixture, "http://a.example/", "f\n2 0 0", 1000 + i);
    flows_create(&fixture, "http://a.example/", "g\n1 0 0", 1010);
    fixture_create(&fixture, "http://a.example/", 1020, NULL);
    fixture_advance_to(&fixture, 1100);
    assert_int_equal(flows_out(&fixture, "f"), 2);
    assert_int_equal(fixture.delivered_count, 4);
    for (uint64_t due = 1000; due < 1005; due++) {
        assert_true(fixture_first_out(&fixture)->timer->due.ms == START.ms + due);
        flows_done(&fixture);
        if (due == 1001) { /* the others */
            flows_done(&fixture);
            flows_done(&fixture);
        }
    }
    assert_int_equal(fixture.delivered_count, 7);
    assert_int_equal(map_count(&fixture.engine->dispatch->flows), 0);
    fixture_deinit(&fixture);
}

/* One starts in two seconds, and the first at once. */
/* proves: flow-rate */
static void test_as_many_start_as_the_rate_allows(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    for (uint64_t i = 0; i < 3; i++)
        flows_create(&fixture, "http://a.example/", "f\n0 30 60000", 1000 + i);
    for (uint64_t ms = 1000; ms < 5000; ms += 1) {
        fixture_advance_to(&fixture, ms);
        fixture_answer_all(&fixture, DELIVERY_DONE);
        assert_int_equal(fixture.delivered_count, ms < 3000 ? 1 : 2);
    }
    fixture_advance_to(&fixture, 5000);
    assert_int_equal(fixture.delivered_count, 3);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    /* its rate is remembered while it matters */
    assert_int_equal(map_count(&fixture.engine->dispatch->flows), 1);
    fixture_advance_to(&fixture, 7000);
    fixture_advance_to(&fixture, 7001);
    assert_int_equal(map_count(&fixture.engine->dispatch->flows), 0);
    fixture_deinit(&fixture);
}

/* A target that is left alone holds no place of a flow: a timer of the flow with another target
 * starts. */
static void test_a_target_that_fails_holds_no_place(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    for (uint64_t i = 0; i < 3; i++)
        flows_create(&fixture, "http://a.example/", "f\n1 0 0", 1000 + i);
    flows_create(&fixture, "queue:q", "f\n1 0 0", 1003);
    flows_create(&fixture, "http://b.example/", "f\n1 0 0", 1004);
    fixture_advance_to(&fixture, 1100);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_answer(
        &fixture, fixture_first_out(&fixture),
        (struct delivery_outcome){.result = DELIVERY_POSTPONED, .retry_after_ms = 60000});
    assert_int_equal(fixture.delivered_count, 2);
    assert_true(
        bytes_equal(fixture_first_out(&fixture)->timer->texts.target, BYTES("http://b.example/")));
    assert_null(turn_pull(fixture.engine, fixture.now, BYTES("q"), QUEUE_PRIORITY_DEFAULT));
    fixture_deinit(&fixture);
}

/* Workers get as many items as the flow allows, also in one turn. */
static void test_workers_and_flows(void **state)
{
    struct engine_fixture fixture;
    struct delivery *leased[3];

    (void)state;
    fixture_init(&fixture);
    for (uint64_t i = 0; i < 5; i++)
        flows_create(&fixture, "queue:q", "f\n3 0 0", 1000 + i);
    fixture_create(&fixture, "queue:q", 1005, NULL);
    fixture_advance_to(&fixture, 1100);
    engine_begin(fixture.engine, fixture.now);
    for (int i = 0; i < 3; i++) {
        leased[i] = engine_pull(fixture.engine, BYTES("q"), QUEUE_PRIORITY_DEFAULT);
        assert_non_null(leased[i]);
        assert_true(leased[i]->timer->due.ms == START.ms + 1000 + (uint64_t)i);
    }
    struct delivery *plain = engine_pull(fixture.engine, BYTES("q"), QUEUE_PRIORITY_DEFAULT);
    assert_true(plain && plain->timer->due.ms == START.ms + 1005);
    assert_null(engine_pull(fixture.engine, BYTES("q"), QUEUE_PRIORITY_DEFAULT));
    engine_end(fixture.engine);
    for (int i = 0; i < 3; i++)
        list_push(&fixture.out, &leased[i]->link);
    list_push(&fixture.out, &plain->link);
    flows_done(&fixture);
    engine_begin(fixture.engine, fixture.now);
    struct delivery *next = engine_pull(fixture.engine, BYTES("q"), QUEUE_PRIORITY_DEFAULT);
    assert_true(next && next->timer->due.ms == START.ms + 1003);
    assert_null(engine_pull(fixture.engine, BYTES("q"), QUEUE_PRIORITY_DEFAULT));
    engine_end(fixture.engine);
    list_push(&fixture.out, &next->link);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

static struct explained flows_explain(struct engine_fixture *fixture, const struct timer_id *id)
{
    struct command command = {.kind = COMMAND_EXPLAIN, .id = *id};

    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return command.explained;
}

/* proves: flow-explain */
static void test_the_flow_is_named_as_the_cause(void **state)
{
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    flows_create(&fixture, "http://a.example/", "f\n1 0 0", 1000);
    const struct timer_id second = flows_create(&fixture, "http://a.example/", "f\n1 0 0", 1001);
    const struct timer_id item = flows_create(&fixture, "queue:q", "f\n1 0 0", 1002);
    fixture_advance_to(&fixture, 1300);
    struct explained explained = flows_explain(&fixture, &second);
    assert_int_equal(explained.place, PLACE_QUEUED);
    assert_int_equal(explained.reason, WAIT_FLOW);
    assert_int_equal(explained.flow_running, 1);
    assert_int_equal(flows_explain(&fixture, &item).reason, WAIT_FLOW);
    fixture_advance_to(&fixture, 1500);
    flows_done(&fixture);
    explained = flows_explain(&fixture, &second);
    assert_int_equal(explained.place, PLACE_INFLIGHT);
    assert_in_range(explained.lateness.ms[LATENESS_FLOW], 199, 499);
    flows_done(&fixture);
    assert_int_equal(flows_explain(&fixture, &item).reason, WAIT_WORKER);
    fixture_deinit(&fixture);
}

/* A key costs nothing while none of its timers runs or waits, and the number of those that are kept
 * for their rate is limited. */
/* proves: flow-idle, flows-idle (at), flows-idle (beyond) */
static void test_many_keys(void **state)
{
    enum { KEYS = 1000, MOST = 100 };
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(fixture.engine->dispatch->idle_max, FLOWS_IDLE_MAX);
    fixture.engine->dispatch->idle_max = MOST;
    for (int i = 0; i < KEYS; i++) {
        char flow[40];

        snprintf(flow, sizeof(flow), "key-%d\n1 1 3600000", i);
        flows_create(&fixture, "http://a.example/", flow, 0);
        fixture_answer_all(&fixture, DELIVERY_DONE);
    }
    assert_int_equal(fixture.delivered_count, KEYS);
    assert_int_equal(map_count(&fixture.engine->dispatch->flows), MOST);
    fixture_deinit(&fixture);
}

/* ---- random ---- */

enum { FLOWS = 4, TARGETS = 4 };

static const char *const flow_targets[TARGETS] = {"http://a.example/", "http://b.example/",
                                                  "nats://c/s", "queue:q"};

struct flows_model {
    struct engine_fixture fixture;
    struct random random;
    struct timer_id ids[400];
    size_t created;
};

static uint32_t flows_limit(size_t flow)
{
    return flow < 3 ? (uint32_t)flow + 1 : 0;
}

static void flows_model_check(struct flows_model *model)
{
    for (size_t i = 0; i < FLOWS; i++) {
        const char key[] = {(char)('f' + i), 0};

        if (flows_limit(i))
            assert_true(flows_out(&model->fixture, key) <= flows_limit(i));
    }
}

static void flows_model_pull(struct flows_model *model)
{
    struct engine_fixture *fixture = &model->fixture;

    struct delivery *delivery =
        turn_pull(fixture->engine, fixture->now, BYTES("q"), QUEUE_PRIORITY_DEFAULT);
    if (delivery)
        list_push(&fixture->out, &delivery->link);
    fixture_carry_out(fixture);
}

static void flows_model_create(struct flows_model *model)
{
    const size_t flow = random_below(&model->random, FLOWS + 1);
    char text[32] = "";

    if (flow < FLOWS)
        snprintf(text, sizeof(text), "%c\n%u %d %d", (int)('f' + flow), flows_limit(flow),
                 flows_limit(flow) ? 0 : 50, flows_limit(flow) ? 0 : 1000);
    /* refused while memory is short */
    model->created +=
        flows_try(&model->fixture, flow_targets[random_below(&model->random, TARGETS)], text,
                  model->fixture.now.ms - START.ms + random_below(&model->random, 2000),
                  &model->ids[model->created]) == ERROR_NONE;
}

static void flows_model_answer(struct flows_model *model)
{
    static const enum delivery_result results[] = {DELIVERY_DONE, DELIVERY_DONE, DELIVERY_FAILED,
                                                   DELIVERY_POSTPONED, DELIVERY_RETURNED};
    struct delivery *delivery = fixture_first_out(&model->fixture);
    const bool is_webhook =
        delivery && target_sharing(&delivery->timer->target) == TARGET_SHARES_ORIGIN;
    struct delivery_outcome outcome = {
        .result = results[random_below(&model->random, is_webhook ? 4 : 3)], .retry_after_ms = 50};

    if (!delivery)
        return;
    snprintf(outcome.error, sizeof(outcome.error), "as the test says");
    fixture_answer(&model->fixture, delivery, outcome);
}

static void flows_model_step(struct flows_model *model)
{
    struct engine_fixture *fixture = &model->fixture;

    switch (random_below(&model->random, 8)) {
    case 0:
    case 1:
        if (model->created < sizeof(model->ids) / sizeof(*model->ids))
            flows_model_create(model);
        break;
    case 2:
        flows_model_pull(model);
        break;
    case 3:
        if (model->created > 0)
            fixture_ask(fixture, random_below(&model->random, 3) ? COMMAND_CANCEL : COMMAND_PATCH,
                        &model->ids[random_below(&model->random, model->created)], 0, NULL);
        break;
    case 4:
    case 5:
        flows_model_answer(model);
        break;
    default:
        fixture_advance_to(fixture, fixture->now.ms - START.ms + random_below(&model->random, 200));
    }
    flows_model_check(model);
}

static struct engine_stats flows_stats(const struct engine_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

/* Answers all that is out and lets time pass until every timer is over. */
static void flows_model_finish(struct flows_model *model)
{
    struct engine_fixture *fixture = &model->fixture;

    for (int i = 0; i < 4000; i++) {
        flows_model_pull(model);
        fixture_answer_all(fixture, DELIVERY_DONE);
        fixture_advance_to(fixture, fixture->now.ms - START.ms + 3000);
        flows_model_check(model);
    }
    assert_int_equal(flows_stats(fixture).waiting, 0);
    assert_int_equal(map_count(&fixture->engine->dispatch->flows), 0);
    for (size_t i = 0; i < model->created; i++) {
        enum timer_state shown = TIMER_FIRED;

        fixture_ask(fixture, COMMAND_GET, &model->ids[i], 0, &shown);
        assert_true(timer_is_final(shown) || shown == TIMER_PAUSED);
    }
}

static void test_random_flows(void **state)
{
    const uint64_t seed = testing_seed();
    uint64_t spilled = 0;

    (void)state;
    for (uint64_t run = 0; run < 20; run++) {
        struct flows_model model = {.random = random_seeded(seed + run)};

        fixture_prepare(&model.fixture);
        model.fixture.options.seed = run;
        if (run % 2) /* timers are spilled */
            model.fixture.options.near_bytes_max = 24000;
        fixture_open(&model.fixture);
        for (int i = 0; i < 1500; i++)
            flows_model_step(&model);
        flows_model_finish(&model);
        spilled += flows_stats(&model.fixture).spilled;
        fixture_deinit(&model.fixture);
    }
    assert_true(spilled > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_many_run_as_the_flow_allows),
        cmocka_unit_test(test_as_many_start_as_the_rate_allows),
        cmocka_unit_test(test_a_target_that_fails_holds_no_place),
        cmocka_unit_test(test_workers_and_flows),
        cmocka_unit_test(test_the_flow_is_named_as_the_cause),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_random_flows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
