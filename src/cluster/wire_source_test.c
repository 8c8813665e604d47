/* Goal: commands of a source, and what was taken of it, arrive at another node as they were sent,
 * and an older node refuses them. Method: golden bytes; each kind that may have an origin, and an
 * answer, compared field by field; contradictions under a sum that fits. */
#include "cluster/wire.h"
#include "timer/timer_testing.h"

#include <stdlib.h>

static const struct command_origin an_origin = {
    .source = 0x0a0b0c, .epoch = 3, .batch = 0x300000001, .row = 77};

/* Makes a message of one command. */
static void source_message(struct buffer *buffer, const struct command *command)
{
    buffer_init(buffer);
    const size_t begin = wire_begin(buffer, &(struct wire_head){WIRE_COMMANDS, 5, 7, 1});
    assert_int_equal(wire_put_command(buffer, begin, command), ERROR_NONE);
    wire_end(buffer, begin);
    assert_false(buffer_failed(buffer));
}

static bool source_takes(const struct buffer *message, struct command *ret_command)
{
    struct wire_reader reader;

    assert_int_equal(wire_open(buffer_bytes(message), &reader, NULL), ERROR_NONE);
    if (!wire_take_command(&reader, ret_command))
        return false;
    assert_true(wire_is_over(&reader));
    return true;
}

static void test_an_origin_comes_back(void **state)
{
    struct timer *timer = timer_alloc(&(struct timer_texts){.target = BYTES("log:x")});
    struct command_created result;
    const struct command commands[] = {
        {.kind = COMMAND_CREATE, .timers = &timer, .results = &result, .timer_count = 1},
        {.kind = COMMAND_PUT, .timers = &timer, .results = &result, .timer_count = 1},
        {.kind = COMMAND_TOUCH, .name = BYTES("k"), .patch = timer, .patch_fields = PATCH_DUE},
        {.kind = COMMAND_CANCEL, .name = BYTES("k")},
        {.kind = COMMAND_COMPLETE, .name = BYTES("paid"), .each = COMMAND_CANCEL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        struct command command = commands[i], again;
        struct buffer buffer;

        command.origin = an_origin;
        source_message(&buffer, &command);
        assert_true(source_takes(&buffer, &again));
        assert_int_equal(again.kind, command.kind);
        assert_memory_equal(&again.origin, &an_origin, sizeof(an_origin));
        wire_command_deinit(&again);
        buffer_deinit(&buffer);
    }
    timer_free(timer);
}

static void test_golden_origin(void **state)
{
    static const uint8_t golden[] = {
        128 + COMMAND_CANCEL,
        2,
        0,
        0,
        0,
        0,
        0, /* partition, no tenant */
        12,
        11,
        10,
        0,
        0,
        0,
        0,
        0, /* source */
        3,
        0,
        0,
        0,
        0,
        0,
        0,
        0, /* epoch */
        1,
        0,
        0,
        0,
        3,
        0,
        0,
        0, /* batch */
        77,
        0,
        0,
        0,
        0,
        0,
        0,
        0, /* row */
    };
    const struct command command = {
        .kind = COMMAND_CANCEL, .partition = 2, .name = BYTES("k"), .origin = an_origin};
    struct buffer buffer;

    (void)state;
    source_message(&buffer, &command);
    assert_memory_equal(buffer.data + 21, golden, sizeof(golden));
    buffer_deinit(&buffer);
}

/* Origins that no source has, and kinds that are unknown. */
static void test_origins_that_no_node_sends(void **state)
{
    struct timer *timers[] = {timer_alloc(&(struct timer_texts){.target = BYTES("log:x")}),
                              timer_alloc(&(struct timer_texts){.target = BYTES("log:y")})};
    struct command_created results[2];
    struct command_event event = {.name = BYTES("e")};
    struct command_ledger ledger = {.source = 0, .epoch = 1};
    const struct command cases[] = {
        {.kind = COMMAND_GET, .name = BYTES("k"), .origin = an_origin},
        {.kind = COMMAND_FIRE, .name = BYTES("k"), .origin = an_origin},
        {.kind = COMMAND_CREATE,
         .timers = timers,
         .results = results,
         .timer_count = 2,
         .origin = an_origin},
        {.kind = COMMAND_COMPLETE,
         .each = COMMAND_CANCEL,
         .events = &event,
         .event_count = 1,
         .origin = an_origin},
        {.kind = COMMAND_LEDGER, .ledger = &ledger},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct buffer buffer;
        struct command again;

        source_message(&buffer, &cases[i]);
        assert_false(source_takes(&buffer, &again));
        buffer_deinit(&buffer);
    }
    timer_free(timers[0]);
    timer_free(timers[1]);
}

/* Sends what was taken from one node to another. */
static enum error_code source_answer(const struct command *answered, struct command *asked)
{
    struct buffer buffer;
    struct wire_reader reader;
    struct wire_answer again;
    struct wire_held held;

    buffer_init(&buffer);
    const size_t begin = wire_begin(&buffer, &(struct wire_head){WIRE_ANSWERS, 5, 7, 1});
    wire_put_answer(&buffer, begin, &(struct wire_answer){.fate = WIRE_ANSWERED}, answered);
    wire_end(&buffer, begin);
    assert_int_equal(wire_open(buffer_bytes(&buffer), &reader, NULL), ERROR_NONE);
    assert_true(wire_take_answer(&reader, asked, &again, &held));
    assert_true(wire_is_over(&reader) && again.fate == WIRE_ANSWERED);
    wire_held_deinit(&held);
    buffer_deinit(&buffer);
    return asked->error;
}

static void test_a_ledger_comes_back(void **state)
{
    struct command_ledger_row rows[] = {{5, ERROR_NONE}, {1u << 30, ERROR_KEY_IN_USE}};
    struct command_ledger ledger = {.source = 9, .epoch = 4}, told = ledger, asked = ledger;
    struct command command = {.kind = COMMAND_LEDGER, .ledger = &ledger, .partition = 3}, again;
    struct command request = {.kind = COMMAND_LEDGER, .ledger = &asked};
    struct buffer buffer;

    (void)state;
    source_message(&buffer, &command);
    assert_true(source_takes(&buffer, &again));
    assert_true(again.kind == COMMAND_LEDGER && again.partition == 3);
    assert_true(again.ledger->source == 9 && again.ledger->epoch == 4 && !again.ledger->count);
    wire_command_deinit(&again);
    buffer_deinit(&buffer);

    command.ledger = &told;
    told.batch = 12;
    told.rows = rows;
    told.count = 2;
    for (int round = 0; round < 2; round++) { /* the second answer replaces the first */
        assert_int_equal(source_answer(&command, &request), ERROR_NONE);
        assert_true(asked.source == 9 && asked.epoch == 4 && asked.batch == 12);
        assert_int_equal(asked.count, 2);
        for (size_t i = 0; i < 2; i++)
            assert_true(asked.rows[i].row == rows[i].row && asked.rows[i].error == rows[i].error);
    }
    wire_fail(&request, ERROR_IN_DOUBT);
    assert_true(request.error == ERROR_IN_DOUBT && !asked.rows && !asked.count);
    command.error = ERROR_VERSION_MISMATCH;
    told.count = 0;
    assert_int_equal(source_answer(&command, &request), ERROR_VERSION_MISMATCH);
    assert_int_equal(asked.count, 0);
    free(asked.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_origin_comes_back),
        cmocka_unit_test(test_golden_origin),
        cmocka_unit_test(test_origins_that_no_node_sends),
        cmocka_unit_test(test_a_ledger_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
