/*
 * Goal: engines that share a budget hold no more places together than it allows, none starves, one
 * that ends gives all back, and each is told when it may go on. Method: a few cases by hand; then
 * random commands and outcomes for several engines on a clock by hand, which have turns only when
 * engine_wake_at says so.
 */
#include "engine/budget.h"
#include "engine/engine_testing.h"

#include "base/random.h"
#include "timer/queue_target.h"
#include "seed.h"

#include <stdio.h>

enum { ENGINES = 6, ORIGINS = 4 };

static const char *const origins[ORIGINS] = {"http://a/", "http://b/", "nats://a/s", "queue:q"};

struct shared {
    struct budget *budget;
    struct budget_limits limits;
    struct engine_fixture fixtures[ENGINES];
    struct wall now;
    size_t turns;
};

static void shared_open_engine(struct shared *shared, int i)
{
    struct engine_fixture *fixture = &shared->fixtures[i];

    fixture->options.budget = shared->budget;
    fixture->options.seed = 100 + (uint64_t)i;
    fixture->now = shared->now;
    list_init(&fixture->out);
    fixture_open(fixture);
}

static void shared_init(struct shared *shared, const struct budget_limits *limits)
{
    *shared = (struct shared){.now = START, .limits = *limits};
    shared->budget = budget_create(limits, ENGINES, 1);
    assert_non_null(shared->budget);
    for (int i = 0; i < ENGINES; i++) {
        fixture_prepare(&shared->fixtures[i]);
        shared_open_engine(shared, i);
    }
}

static void shared_deinit(struct shared *shared)
{
    for (int i = 0; i < ENGINES; i++)
        engine_drain(shared->fixtures[i].engine);
    for (int i = 0; i < ENGINES; i++)
        fixture_deinit(&shared->fixtures[i]);
    budget_destroy(shared->budget);
}

static size_t shared_out_of(const struct engine_fixture *fixture, int origin)
{
    size_t count = 0;

    LIST_FOR_EACH (&fixture->out, link)
        count += bytes_equal(list_item(link, struct delivery, link)->timer->texts.target,
                             bytes_of(origins[origin]));
    return count;
}

/* Deliveries to the origin that are out, of all engines. */
static size_t shared_out(const struct shared *shared, int origin)
{
    size_t count = 0;

    for (int i = 0; i < ENGINES; i++)
        count += shared_out_of(&shared->fixtures[i], origin);
    return count;
}

static struct engine_stats shared_stats(const struct shared *shared, int i)
{
    struct engine_stats stats;

    engine_stats(shared->fixtures[i].engine, &stats);
    return stats;
}

static void shared_check(struct shared *shared)
{
    budget_check(shared->budget);
    assert_true(shared_out(shared, 0) <= shared->limits.each[BUDGET_TARGET]);
    assert_true(shared_out(shared, 1) <= shared->limits.each[BUDGET_TARGET]);
    assert_true(shared_out(shared, 0) + shared_out(shared, 1) <= shared->limits.webhooks);
    assert_true(shared_out(shared, 2) <= shared->limits.each[BUDGET_CONNECTION]);
    assert_true(shared_out(shared, 3) <= shared->limits.each[BUDGET_LEASES]);
}

/* No worker comes for what the queues of the engine have. */
static void shared_end_pulls(struct engine_fixture *fixture)
{
    for (struct bytes name; engine_take_woken(fixture->engine, &name);)
        ;
    engine_end_pulls(fixture->engine);
}

/* Turns of the engines that ask for one, until none does. The caller's order is the first one's. */
static void shared_run(struct shared *shared, int first)
{
    bool is_busy = true;

    while (is_busy) {
        is_busy = false;
        for (int i = 0; i < ENGINES; i++) {
            struct engine_fixture *fixture = &shared->fixtures[(first + i) % ENGINES];

            fixture->now = shared->now;
            if (!fixture->engine || engine_wake_at(fixture->engine).ms > shared->now.ms)
                continue;
            turn_advance(fixture->engine, shared->now);
            fixture_carry_out(fixture);
            shared_end_pulls(fixture);
            shared->turns++;
            is_busy = true;
        }
    }
    shared_check(shared);
}

static void shared_create(struct shared *shared, int i, int origin, uint64_t after_ms)
{
    struct engine_fixture *fixture = &shared->fixtures[i];

    fixture->now = shared->now;
    assert_int_equal(
        fixture_create(fixture, origins[origin], shared->now.ms - START.ms + after_ms, NULL),
        ERROR_NONE);
}

static void shared_answer(struct shared *shared, int i, struct delivery *delivery,
                          enum delivery_result result)
{
    shared->fixtures[i].now = shared->now;
    fixture_answer(&shared->fixtures[i], delivery, (struct delivery_outcome){.result = result});
}

/* Goal: with a limit of one, the engines take turns, each time after the others that wait. */
static void test_engines_take_turns(void **state)
{
    static const struct budget_limits limits = {1000, {1, 1, 1}};

    (void)state;
    for (int origin = 0; origin < 3; origin += 2) {
        struct shared shared;
        shared_init(&shared, &limits);
        for (int j = 0; j < 5; j++)
            for (int i = 0; i < ENGINES; i++)
                shared_create(&shared, i, origin, 0);
        shared_run(&shared, 0);
        for (int j = 0; j < 5; j++)
            for (int i = 0; i < ENGINES; i++) {
                assert_int_equal(shared_out(&shared, origin), 1);
                struct delivery *delivery = fixture_first_out(&shared.fixtures[i]);
                assert_non_null(delivery);
                shared_answer(&shared, i, delivery, DELIVERY_DONE);
                shared_run(&shared, ENGINES - 1);
            }
        assert_int_equal(shared_out(&shared, origin), 0);
        assert_true(shared.turns < ENGINES * 5 * 4);
        shared_deinit(&shared);
    }
}

/* One engine alone has all places. */
static void test_one_engine_has_all(void **state)
{
    static const struct budget_limits limits = {1000, {12, 13, 14}};

    (void)state;
    struct shared shared;
    shared_init(&shared, &limits);
    for (int j = 0; j < 20; j++) {
        shared_create(&shared, 2, 0, 0);
        shared_create(&shared, 2, 2, 0);
        shared_create(&shared, 2, 3, 0);
    }
    shared_run(&shared, 0);
    assert_int_equal(shared_out(&shared, 0), 12);
    assert_int_equal(shared_out(&shared, 2), 13);
    struct engine_fixture *fixture = &shared.fixtures[2];
    struct delivery *delivery;
    while (
        (delivery = turn_pull(fixture->engine, fixture->now, BYTES("q"), QUEUE_PRIORITY_DEFAULT)))
        list_push(&fixture->out, &delivery->link);
    assert_int_equal(shared_out(&shared, 3), 14);
    shared_check(&shared);
    shared_deinit(&shared);
}

/* Goal: an engine that drains, and one that is lost with its deliveries, leave their places and
 * their turns. */
static void test_an_engine_ends(void **state)
{
    static const struct budget_limits limits = {1000, {ENGINES, ENGINES, ENGINES}};

    (void)state;
    for (int origin = 0; origin < 3; origin += 2)
        for (int is_lost = 0; is_lost < 2; is_lost++) {
            struct shared shared;
            shared_init(&shared, &limits);
            for (int j = 0; j < 20; j++)
                shared_create(&shared, 0, origin, 0);
            shared_create(&shared, 1, origin, 0);
            shared_create(&shared, 2, origin, 0);
            shared_run(&shared, 0);
            assert_int_equal(shared_out_of(&shared.fixtures[0], origin), ENGINES);
            engine_drain(shared.fixtures[1].engine); /* the first that waits */
            if (is_lost) {
                struct list out;

                list_init(&out);
                list_join(&out, &shared.fixtures[0].out);
                engine_destroy(shared.fixtures[0].engine);
                shared.fixtures[0].engine = NULL;
                for (struct list *link; (link = list_pop(&out));)
                    free(list_item(link, struct delivery, link));
                shared_run(&shared, 0);
            } else {
                engine_drain(shared.fixtures[0].engine);
                shared_answer(&shared, 0, fixture_first_out(&shared.fixtures[0]), DELIVERY_DONE);
                shared_answer(&shared, 0, fixture_first_out(&shared.fixtures[0]), DELIVERY_DONE);
                shared_answer(&shared, 0, fixture_first_out(&shared.fixtures[0]), DELIVERY_DONE);
                shared_run(&shared, 0);
            }
            assert_int_equal(shared_out_of(&shared.fixtures[1], origin), 0);
            assert_int_equal(shared_out_of(&shared.fixtures[2], origin), 1);
            if (is_lost)
                shared_open_engine(&shared, 0);
            shared_deinit(&shared);
        }
}

/* Goal: an engine that was left a place, and needs it no more, leaves it to the next one. Method:
 * its timer is cancelled, or its target paused for it alone, before it has seen the place. */
static void test_an_unused_place_goes_on(void **state)
{
    static const struct budget_limits limits = {1000, {1, 1, 1}};

    (void)state;
    for (int origin = 0; origin < 3; origin += 2)
        for (int is_paused = 0; is_paused < 2; is_paused++) {
            struct shared shared;
            struct target_pause_board board;
            struct timer_id id;
            shared_init(&shared, &limits);
            target_pause_board_init(&board);
            struct engine_fixture *first = &shared.fixtures[0], *second = &shared.fixtures[1];
            fixture_close(second);
            second->options.pauses = &board;
            shared_open_engine(&shared, 1);
            shared_create(&shared, 0, origin, 0);
            assert_int_equal(fixture_create(second, origins[origin], 0, &id), ERROR_NONE);
            shared_create(&shared, 2, origin, 0);
            shared_run(&shared, 0);
            struct delivery *delivery = fixture_first_out(first);
            assert_non_null(delivery);
            shared_answer(&shared, 0, delivery, DELIVERY_DONE);
            assert_int_equal(engine_wake_at(second->engine).ms, shared.now.ms); /* it has it */
            if (is_paused) {
                const struct target_pause pause = {.name = origin ? BYTES("nats://a")
                                                                  : BYTES("http://a"),
                                                   .since = START,
                                                   .until = WALL_NEVER};
                struct target_pauses *none = target_pauses_create(), *next;

                assert_int_equal(target_pauses_put(none, START, &pause, &next), ERROR_NONE);
                target_pauses_leave(none);
                target_pause_board_show(&board, next);
            } else {
                assert_int_equal(fixture_ask(second, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
            }
            shared_run(&shared, 0);
            assert_int_equal(shared_out_of(second, origin), 0);
            assert_int_equal(shared_out_of(&shared.fixtures[2], origin), 1);
            shared_deinit(&shared);
            target_pause_board_deinit(&board);
        }
}

/* Goal: a place for a lease that no worker comes for is left to others. */
static void test_an_unused_lease_goes_on(void **state)
{
    static const struct budget_limits limits = {1000, {1, 1, 1}};

    (void)state;
    struct shared shared;
    shared_init(&shared, &limits);
    for (int i = 0; i < 3; i++)
        shared_create(&shared, i, 3, 0);
    shared_run(&shared, 0);
    struct engine *first = shared.fixtures[0].engine, *second = shared.fixtures[1].engine;
    struct engine *third = shared.fixtures[2].engine;
    struct bytes name;
    while (engine_take_woken(second, &name) || engine_take_woken(third, &name))
        ;
    struct delivery *delivery = turn_pull(first, shared.now, BYTES("q"), QUEUE_PRIORITY_DEFAULT);
    assert_non_null(delivery);
    assert_null(turn_pull(second, shared.now, BYTES("q"), QUEUE_PRIORITY_DEFAULT));
    assert_null(turn_pull(third, shared.now, BYTES("q"), QUEUE_PRIORITY_DEFAULT));
    assert_false(engine_take_woken(second, &name));
    list_push(&shared.fixtures[0].out, &delivery->link);
    shared_answer(&shared, 0, delivery, DELIVERY_DONE);
    turn_advance(second, shared.now);
    engine_end_pulls(second); /* no worker has seen that there is something */
    assert_true(engine_take_woken(second, &name) && bytes_equal(name, BYTES("q")));
    assert_false(engine_take_woken(second, &name));
    assert_int_equal(engine_wake_at(second).ms, shared.now.ms);
    assert_null(turn_pull(third, shared.now, BYTES("q"), QUEUE_PRIORITY_DEFAULT));
    engine_end_pulls(second);
    assert_int_equal(engine_wake_at(third).ms, shared.now.ms);
    delivery = turn_pull(third, shared.now, BYTES("q"), QUEUE_PRIORITY_DEFAULT);
    assert_non_null(delivery);
    list_push(&shared.fixtures[2].out, &delivery->link);
    shared_check(&shared);
    shared_deinit(&shared);
}

/* Goal: explain names the limit that a timer waits for, and the places that others hold. */
static void test_explain_knows_the_others(void **state)
{
    static const struct budget_limits limits = {1000, {2, 2, 2}};

    (void)state;
    for (int origin = 0; origin < 3; origin += 2) {
        struct shared shared;
        struct timer_id id;
        struct command command = {.kind = COMMAND_EXPLAIN};
        shared_init(&shared, &limits);
        shared_create(&shared, 0, origin, 0);
        shared_create(&shared, 1, origin, 0);
        struct engine_fixture *fixture = &shared.fixtures[2];
        assert_int_equal(fixture_create(fixture, origins[origin], 0, &id), ERROR_NONE);
        shared_run(&shared, 0);
        command.id = id;
        fixture_command(fixture, &command);
        assert_int_equal(command.explained.place, PLACE_QUEUED);
        assert_int_equal(command.explained.reason, WAIT_TARGET_LIMIT);
        assert_true(command.explained.inflight == 2 && command.explained.inflight_max == 2);
        shared.now = wall_add(shared.now, 70);
        shared_answer(&shared, 0, fixture_first_out(&shared.fixtures[0]), DELIVERY_DONE);
        shared_run(&shared, 0);
        command = (struct command){.kind = COMMAND_EXPLAIN, .id = id};
        fixture_command(fixture, &command);
        assert_int_equal(command.explained.place, PLACE_INFLIGHT);
        assert_int_equal(command.explained.lateness.ms[LATENESS_TARGET_LIMIT], 70);
        shared_deinit(&shared);
    }
}

/* ---- random ---- */

enum { IDS = 64 };

struct chaos {
    struct shared shared;
    struct random random;
    struct timer_id ids[ENGINES][IDS]; /* of the last timers of each engine */
    size_t id_count[ENGINES];
};

static const enum delivery_result results[] = {DELIVERY_DONE, DELIVERY_DONE, DELIVERY_FAILED,
                                               DELIVERY_POSTPONED, DELIVERY_RETURNED};

static void chaos_answer(struct chaos *chaos, int i)
{
    struct delivery *delivery = NULL;
    size_t skip = random_below(&chaos->random, 3);

    LIST_FOR_EACH (&chaos->shared.fixtures[i].out, link) {
        delivery = list_item(link, struct delivery, link);
        if (skip-- == 0)
            break;
    }
    if (delivery)
        shared_answer(&chaos->shared, i, delivery,
                      results[random_below(&chaos->random, sizeof(results) / sizeof(*results))]);
}

static void chaos_create(struct chaos *chaos, int i)
{
    struct engine_fixture *fixture = &chaos->shared.fixtures[i];
    const char *target = origins[random_below(&chaos->random, ORIGINS)];
    const uint64_t at_ms = chaos->shared.now.ms - START.ms + random_below(&chaos->random, 40);
    struct timer_id *id = &chaos->ids[i][chaos->id_count[i]++ % IDS];

    fixture->now = chaos->shared.now;
    assert_int_equal(fixture_create(fixture, target, at_ms, id), ERROR_NONE);
}

/* A timer is cancelled, or paused, or resumed. */
static void chaos_change(struct chaos *chaos, int i)
{
    static const enum command_kind kinds[] = {COMMAND_CANCEL, COMMAND_FIRE, COMMAND_RESUME};
    const size_t count = chaos->id_count[i] < IDS ? chaos->id_count[i] : IDS;
    struct engine_fixture *fixture = &chaos->shared.fixtures[i];

    if (count == 0)
        return;
    fixture->now = chaos->shared.now;
    fixture_ask(fixture, kinds[random_below(&chaos->random, 3)],
                &chaos->ids[i][random_below(&chaos->random, count)], 0, NULL);
}

static void chaos_pull(struct chaos *chaos, int i)
{
    struct engine_fixture *fixture = &chaos->shared.fixtures[i];
    struct delivery *delivery =
        turn_pull(fixture->engine, chaos->shared.now, BYTES("q"), QUEUE_PRIORITY_DEFAULT);

    if (delivery)
        list_push(&fixture->out, &delivery->link);
    fixture->now = chaos->shared.now;
    fixture_carry_out(fixture);
    shared_end_pulls(fixture);
}

/* An engine ends as a partition that is given up, or lost with its deliveries, and comes again. */
static void chaos_end(struct chaos *chaos, int i)
{
    struct engine_fixture *fixture = &chaos->shared.fixtures[i];
    struct delivery *delivery;

    engine_drain(fixture->engine);
    shared_run(&chaos->shared, i);
    if (random_below(&chaos->random, 2))
        while ((delivery = fixture_first_out(fixture)))
            shared_answer(&chaos->shared, i, delivery, DELIVERY_RETURNED);
    struct list out;
    list_init(&out);
    list_join(&out, &fixture->out);
    engine_destroy(fixture->engine);
    fixture->engine = NULL;
    for (struct list *link; (link = list_pop(&out));)
        free(list_item(link, struct delivery, link));
    shared_run(&chaos->shared, i);
    shared_open_engine(&chaos->shared, i);
}

static void chaos_step(struct chaos *chaos)
{
    const int i = (int)random_below(&chaos->random, ENGINES);

    switch (random_below(&chaos->random, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        chaos_create(chaos, i);
        break;
    case 4:
        chaos_change(chaos, i);
        break;
    case 5:
    case 6:
    case 7:
        chaos_pull(chaos, i);
        break;
    case 8:
        chaos->shared.now = wall_add(chaos->shared.now, random_below(&chaos->random, 100));
        break;
    case 9:
        if (random_below(&chaos->random, 20) == 0)
            chaos_end(chaos, i);
        break;
    default:
        chaos_answer(chaos, i);
    }
    shared_run(&chaos->shared, i);
}

/* All targets answer, and workers take what there is: then every timer gets its turn, one delivery
 * after the other, in as many turns as there are timers and engines. */
static void chaos_calm_down(struct chaos *chaos)
{
    struct shared *shared = &chaos->shared;
    size_t left = 1;

    for (size_t round = 0; left > 0; round++) {
        assert_true(round < 20000);
        left = 0;
        const int first = (int)random_below(&chaos->random, ENGINES);
        bool is_any_out = false;
        for (int j = 0; j < ENGINES; j++) {
            const int i = (first + j) % ENGINES;
            struct delivery *delivery;

            chaos_pull(chaos, i);
            delivery = fixture_first_out(&shared->fixtures[i]);
            is_any_out = is_any_out || delivery;
            if (delivery)
                shared_answer(shared, i, delivery, DELIVERY_DONE);
            shared_run(shared, i);
        }
        for (int i = 0; i < ENGINES; i++)
            left += shared_stats(shared, i).pending;
        if (!is_any_out)
            shared->now = wall_add(shared->now, 1000);
    }
}

static void test_random_engines(void **state)
{
    const uint64_t seed = testing_seed();

    (void)state;
    for (uint64_t run = 0; run < 10; run++) {
        struct chaos *chaos = calloc(1, sizeof(*chaos));
        chaos->random = random_seeded(seed + run);
        const uint32_t webhooks = 1 + (uint32_t)random_below(&chaos->random, 20);
        const struct budget_limits limits = {webhooks,
                                             {1 + (uint32_t)random_below(&chaos->random, webhooks),
                                              1 + (uint32_t)random_below(&chaos->random, 4),
                                              1 + (uint32_t)random_below(&chaos->random, 4)}};

        shared_init(&chaos->shared, &limits);
        for (int i = 0; i < 1500; i++)
            chaos_step(chaos);
        chaos_calm_down(chaos);
        shared_deinit(&chaos->shared);
        free(chaos);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engines_take_turns),
        cmocka_unit_test(test_one_engine_has_all),
        cmocka_unit_test(test_an_engine_ends),
        cmocka_unit_test(test_an_unused_place_goes_on),
        cmocka_unit_test(test_an_unused_lease_goes_on),
        cmocka_unit_test(test_explain_knows_the_others),
        cmocka_unit_test(test_random_engines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
