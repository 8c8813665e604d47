/*
 * Goal: no more timers of a named target are in flight, or start in a time, than its definition
 * allows, and a change holds at once. Method: an engine by hand that reads a board of definitions,
 * and every delivery counted.
 */
#include "engine/engine_testing.h"

#include "engine/dispatch_queue.h"

struct limits_fixture {
    struct engine_fixture engine;
    struct definition_board board;
    uint64_t version;
};

static void limits_define(struct limits_fixture *fixture, const char *name, const char *value)
{
    char room[DEFINITION_KEY_SIZE_MAX];
    const struct definition row = {
        .key = definition_key(DEFINITION_TARGET, bytes_of(name), room),
        .value = bytes_of(value),
        .since = START,
        .version = ++fixture->version,
    };
    uint64_t version;
    struct definitions *next, *last = definition_board_take(&fixture->board, &version);

    assert_int_equal(definitions_put(last, &row, &next), ERROR_NONE);
    definition_board_show(&fixture->board, next);
    definitions_leave(last);
}

static void limits_undefine(struct limits_fixture *fixture, const char *name)
{
    char room[DEFINITION_KEY_SIZE_MAX];
    uint64_t version;
    struct definitions *next, *last = definition_board_take(&fixture->board, &version);

    assert_int_equal(definitions_remove(last, (struct bytes){0},
                                        definition_key(DEFINITION_TARGET, bytes_of(name), room),
                                        &next),
                     ERROR_NONE);
    definition_board_show(&fixture->board, next);
    definitions_leave(last);
}

static void limits_init(struct limits_fixture *fixture)
{
    fixture->version = 0;
    definition_board_init(&fixture->board);
    definition_board_show(&fixture->board, definitions_create());
    fixture_prepare(&fixture->engine);
    fixture->engine.options.definitions = &fixture->board;
    fixture_open(&fixture->engine);
}

static void limits_deinit(struct limits_fixture *fixture)
{
    fixture_deinit(&fixture->engine);
    definition_board_deinit(&fixture->board);
}

static size_t limits_out(const struct limits_fixture *fixture, const char *origin)
{
    size_t count = 0;

    LIST_FOR_EACH (&fixture->engine.out, link)
        count += bytes_equal(timer_target_origin(list_item(link, struct delivery, link)->timer),
                             bytes_of(origin));
    return count;
}

/* Two, four from a change on, none more after a lower one until enough have ended; all without a
 * definition. A target of another name, and a URL, are not limited. */
/* proves: named-target-limits */
static void test_so_many_are_in_flight(void **state)
{
    struct limits_fixture fixture;
    struct engine_fixture *engine = &fixture.engine;

    (void)state;
    limits_init(&fixture);
    limits_define(&fixture, "billing", "{\"url\":\"http://a\",\"limits\":{\"concurrency\":2}}");
    limits_define(&fixture, "other", "{\"url\":\"http://a\"}");
    for (int i = 0; i < 20; i++)
        fixture_create(engine, "billing:/x", 1000, NULL);
    for (int i = 0; i < 5; i++) {
        fixture_create(engine, "other:/x", 1000, NULL);
        fixture_create(engine, "http://a/x", 1000, NULL);
    }
    fixture_advance_to(engine, 1000);
    assert_int_equal(limits_out(&fixture, "billing:"), 2);
    assert_int_equal(limits_out(&fixture, "other:"), 5);
    assert_int_equal(limits_out(&fixture, "http://a"), 5);
    limits_define(&fixture, "billing", "{\"url\":\"http://a\",\"limits\":{\"concurrency\":4}}");
    fixture_advance_to(engine, 1001);
    assert_int_equal(limits_out(&fixture, "billing:"), 4);
    limits_define(&fixture, "billing", "{\"url\":\"http://a\",\"limits\":{\"concurrency\":1}}");
    fixture_advance_to(engine, 1002);
    assert_int_equal(limits_out(&fixture, "billing:"), 4);
    const size_t before = engine->delivered_count;
    while (limits_out(&fixture, "billing:") > 1)
        fixture_answer(engine, fixture_first_out(engine),
                       (struct delivery_outcome){.result = DELIVERY_DONE});
    assert_int_equal(engine->delivered_count, before);
    limits_undefine(&fixture, "billing");
    fixture_advance_to(engine, 1003);
    assert_int_equal(limits_out(&fixture, "billing:"), 17);
    limits_deinit(&fixture);
}

/* Ten a second; then without a limit. */
/* proves: named-target-limits */
static void test_so_many_start(void **state)
{
    struct limits_fixture fixture;
    struct engine_fixture *engine = &fixture.engine;

    (void)state;
    limits_init(&fixture);
    limits_define(&fixture, "billing", "{\"url\":\"http://a\",\"limits\":{\"rate\":\"10/s\"}}");
    for (int i = 0; i < 40; i++)
        fixture_create(engine, "billing:/x", 1000, NULL);
    for (uint64_t ms = 1000; ms <= 2950; ms += 50) {
        fixture_advance_to(engine, ms);
        fixture_answer_all(engine, DELIVERY_DONE);
        assert_int_equal(engine->delivered_count, (ms - 1000) / 100 + 1);
    }
    limits_undefine(&fixture, "billing");
    fixture_advance_to(engine, 2951);
    fixture_answer_all(engine, DELIVERY_DONE);
    assert_int_equal(engine->delivered_count, 40);
    limits_deinit(&fixture);
}

/* An empty dispatch queue remembers its starts, and is freed when they do not matter any more. */
static void test_an_empty_queue_remembers(void **state)
{
    struct limits_fixture fixture;
    struct engine_fixture *engine = &fixture.engine;
    const struct dispatch *dispatch;

    (void)state;
    limits_init(&fixture);
    dispatch = engine->engine->dispatch;
    limits_define(&fixture, "billing", "{\"url\":\"http://a\",\"limits\":{\"rate\":\"6/m\"}}");
    fixture_create(engine, "billing:/x", 1000, NULL);
    fixture_advance_to(engine, 1000);
    fixture_answer_all(engine, DELIVERY_DONE);
    fixture_create(engine, "billing:/x", 2000, NULL);
    fixture_advance_to(engine, 10999);
    assert_int_equal(engine->delivered_count, 1);
    fixture_advance_to(engine, 11000);
    assert_int_equal(engine->delivered_count, 2);
    fixture_answer_all(engine, DELIVERY_DONE);
    fixture_advance_to(engine, 20999);
    assert_int_equal(map_count(&dispatch->queues), 1);
    fixture_advance_to(engine, 21000);
    assert_int_equal(map_count(&dispatch->queues), 0);
    limits_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_are_in_flight),
        cmocka_unit_test(test_so_many_start),
        cmocka_unit_test(test_an_empty_queue_remembers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
