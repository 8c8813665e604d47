/* Goal: what an answer of the server means for an append, a reader and the chain, at single steps.
 * Method: the state of one log, and answers that the test makes up; no server. tests/world runs the
 * same state against a simulated one. */
#include "log/postgres/log_postgres_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define A BYTES("a")
#define B BYTES("b")
#define C BYTES("c")

static uint64_t chain_a(void)
{
    return bytes_hash(0, A);
}

static uint64_t chain_b(void)
{
    return bytes_hash(chain_a(), B);
}

/* A log that was read up to its end, which is after `a`. */
static int state_set_up(void **state)
{
    static struct log_postgres_state log;
    struct log_event event;

    log_postgres_state_init(&log);
    log_postgres_state_follow(&log, LOG_FROM_OFFSET, 0);
    log_postgres_state_read(&log, 0, chain_a(), A);
    log_postgres_state_read_all(&log, 0, 1, false);
    assert_int_equal(log_postgres_state_take(&log, &event), LOG_RECORD);
    assert_int_equal(log_postgres_state_take(&log, &event), LOG_END);
    assert_int_equal(log_postgres_state_take(&log, &event), LOG_NOTHING);
    *state = &log;
    return 0;
}

static int state_tear_down(void **state)
{
    log_postgres_state_deinit(*state);
    return 0;
}

static void append_b(struct log_postgres_state *log)
{
    assert_int_equal(log_postgres_state_append(log, 7, B, (struct instant){9}, NULL), ERROR_NONE);
}

static void answer(struct log_postgres_state *log, struct log_postgres_answer answer)
{
    log->append.is_sent = true;
    log_postgres_state_answer(log, &answer);
    assert_false(log->append.is_sent);
}

static void assert_takes(struct log_postgres_state *log, enum log_kind kind, uint64_t offset)
{
    struct log_event event;

    assert_int_equal(log_postgres_state_take(log, &event), kind);
    assert_int_equal(event.offset, offset);
}

static void test_an_append_lands(void **state)
{
    struct log_postgres_state *log = *state;

    append_b(log);
    assert_int_equal(log->append.step, LOG_POSTGRES_WAITS);
    assert_int_equal(log->append.place, 1);
    assert_true(log->append.before == chain_a() && log->append.chain == chain_b());
    assert_int_equal(log_postgres_state_append(log, 8, C, (struct instant){9}, NULL),
                     ERROR_OVERLOADED);
    answer(log, (struct log_postgres_answer){.is_there = true, .appended_ms = 5});
    assert_takes(log, LOG_LANDED, 1);
    assert_takes(log, LOG_RECORD, 1); /* from memory */
    assert_takes(log, LOG_END, 2);
    assert_takes(log, LOG_NOTHING, 0);
}

/* An owner that takes its records late: the next append goes after the one that has landed. */
static void test_records_that_are_taken_late(void **state)
{
    struct log_postgres_state *log = *state;

    for (uint64_t place = 1; place <= 3; place++) {
        append_b(log);
        assert_int_equal(log->append.place, place);
        answer(log, (struct log_postgres_answer){.is_there = true});
        assert_takes(log, LOG_LANDED, place);
        if (place == 2)
            assert_takes(log, LOG_RECORD, 1);
    }
    append_b(log);
    assert_takes(log, LOG_RECORD, 2);
    answer(log, (struct log_postgres_answer){.is_there = true});
    assert_takes(log, LOG_LANDED, 4);
    append_b(log);
    assert_int_equal(log->append.place, 5);
}

/* The connection broke, and the append was sent again. A row with its chain is the append, which
 * has landed when it was written again without a warning. */
static void test_an_append_is_found(void **state)
{
    struct log_postgres_state *log = *state;
    const struct log_postgres_answer found = {.is_there = true, .chain = chain_b(), .end = 2};

    append_b(log);
    answer(log, (struct log_postgres_answer){.is_there = false});
    assert_int_equal(log->append.step, LOG_POSTGRES_LOOKS);
    answer(log, found);
    assert_int_equal(log->append.step, LOG_POSTGRES_REPEATS);
    answer(log, (struct log_postgres_answer){.is_there = true, .has_warning = true});
    assert_int_equal(log->append.step, LOG_POSTGRES_REPEATS);
    assert_false(log_postgres_state_has_event(log));
    answer(log, (struct log_postgres_answer){.is_there = false}); /* it is not there any more */
    assert_int_equal(log->append.step, LOG_POSTGRES_LOOKS);
    answer(log, found);
    answer(log, (struct log_postgres_answer){.is_there = true});
    assert_takes(log, LOG_LANDED, 1);
}

static void test_an_append_is_refused(void **state)
{
    struct log_postgres_state *log = *state;

    append_b(log);
    answer(log, (struct log_postgres_answer){.is_there = false});
    answer(log, (struct log_postgres_answer){.is_there = true, .chain = 77, .end = 2});
    assert_takes(log, LOG_REFUSED, 1);
    append_b(log);
    answer(log, (struct log_postgres_answer){.is_there = false});
    answer(log, (struct log_postgres_answer){.has_before = true, .before = chain_a(), .end = 1});
    assert_int_equal(log->append.step, LOG_POSTGRES_WAITS); /* the other one was rolled back */
}

/* What was trimmed at its place may have been the append. */
static void test_a_place_that_is_trimmed(void **state)
{
    struct log_postgres_state *log = *state;

    append_b(log);
    answer(log, (struct log_postgres_answer){.is_there = false});
    answer(log, (struct log_postgres_answer){.end = 9});
    assert_takes(log, LOG_FAILED, 1);
    assert_takes(log, LOG_NOTHING, 0);
}

/* The record before the append is not there, and none after it: LOST, and no append goes anywhere
 * before the log is followed anew. */
static void test_an_append_after_a_lost_record(void **state)
{
    struct log_postgres_state *log = *state;
    uint64_t place, chain;

    assert_true(log_postgres_state_trims(log, &place, &chain));
    assert_true(place == 0 && chain == chain_a());
    append_b(log);
    answer(log, (struct log_postgres_answer){.is_there = false});
    answer(log, (struct log_postgres_answer){.end = 0});
    assert_takes(log, LOG_REFUSED, 1);
    assert_takes(log, LOG_LOST, 0);
    assert_false(log_postgres_state_trims(log, &place, &chain));
    append_b(log);
    assert_takes(log, LOG_REFUSED, 1);
    log_postgres_state_follow(log, LOG_FROM_BEGIN, 0);
    append_b(log);
    assert_takes(log, LOG_REFUSED, 1);
    log_postgres_state_read_all(log, 0, 0, false);
    assert_takes(log, LOG_END, 0);
    append_b(log);
    assert_int_equal(log->append.step, LOG_POSTGRES_WAITS);
}

/* Readers see a row that is not replicated yet, if the server has restarted. Its owner does not
 * take it as durable before it has landed, nor what follows it. */
static void test_the_own_record_waits(void **state)
{
    struct log_postgres_state *log = *state;

    append_b(log);
    log_postgres_state_read(log, 1, chain_b(), B);
    log_postgres_state_read(log, 2, bytes_hash(chain_b(), C), C);
    log_postgres_state_read_all(log, 1, 3, false);
    assert_takes(log, LOG_NOTHING, 0);
    answer(log, (struct log_postgres_answer){.is_there = true});
    assert_takes(log, LOG_LANDED, 1);
    assert_takes(log, LOG_RECORD, 1);
    append_b(log);
    log_postgres_state_read(log, 2, bytes_hash(chain_b(), C), C); /* another one is read */
    assert_takes(log, LOG_RECORD, 2);
}

/* A node that starts at an offset gets the record before it, to compare. */
static void test_the_record_before(void **state)
{
    struct log_postgres_state *log = *state;

    log_postgres_state_follow(log, LOG_FROM_OFFSET, 2);
    assert_int_equal(log_postgres_state_wanted(log), 1);
    log_postgres_state_read(log, 1, chain_b(), B);
    log_postgres_state_read_all(log, 1, 2, false);
    assert_takes(log, LOG_RECORD, 1);
    assert_takes(log, LOG_END, 2);
    log_postgres_state_follow(log, LOG_FROM_OFFSET, 2); /* it was trimmed */
    log_postgres_state_read(log, 2, 5, C);
    assert_takes(log, LOG_RECORD, 2);
    log_postgres_state_follow(log, LOG_FROM_OFFSET, 2);
    log_postgres_state_read(log, 3, 5, C);
    assert_takes(log, LOG_LOST, 0);
    log_postgres_state_follow(log, LOG_FROM_OFFSET, 2);
    log_postgres_state_read_all(log, 1, 0, false);
    assert_takes(log, LOG_LOST, 0);
}

static void test_the_chain_breaks(void **state)
{
    struct log_postgres_state *log = *state;

    log_postgres_state_read(log, 1, chain_b() + 1, B);
    assert_takes(log, LOG_LOST, 0);
    log_postgres_state_follow(log, LOG_FROM_OFFSET, 0);
    log_postgres_state_read(log, 0, chain_a(), A);
    log_postgres_state_read(log, 2, 5, C);
    assert_takes(log, LOG_RECORD, 0);
    assert_takes(log, LOG_LOST, 0);
}

static void test_comparisons(void **state)
{
    struct log_postgres_state *log = *state;
    const struct {
        struct log_postgres_anchor anchor;
        bool is_lost;
    } cases[] = {
        {{.is_there = true, .has_records = true, .chain = chain_a(), .last = 4}, false},
        {{.has_records = true, .last = 4}, false}, /* trimmed */
        {{.is_there = true, .has_records = true, .chain = 5, .last = 4}, true},
        {{.has_records = false}, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_true(log_postgres_state_has_anchor(log));
        log_postgres_state_compare(log, 1, chain_a(), &cases[i].anchor);
        assert_int_equal(log_postgres_state_has_event(log), cases[i].is_lost);
        if (!cases[i].is_lost)
            continue;
        assert_takes(log, LOG_LOST, 0);
        log_postgres_state_follow(log, LOG_FROM_OFFSET, 0);
        log_postgres_state_read(log, 0, chain_a(), A);
        assert_takes(log, LOG_RECORD, 0);
    }
}

/* The chains are compared on each new connection, and after a second. */
static void test_when_it_compares(void **state)
{
    struct log_postgres_compared compared = {0};
    const struct instant now = {UINT64_C(1000000000000)};

    (void)state;
    assert_true(log_postgres_compares(&compared, 1, now));
    assert_false(log_postgres_compares(&compared, 1, instant_add_ms(now, 999)));
    assert_true(log_postgres_compares(&compared, 1, instant_add_ms(now, 1000)));
    assert_true(log_postgres_compares(&compared, 2, instant_add_ms(now, 1001)));
    assert_false(log_postgres_compares(&compared, 2, instant_add_ms(now, 2000)));
}

/* Appends of the control log go to its end, wherever that is. */
static void test_a_control_log(void **state)
{
    struct log_postgres_state *log = *state;

    log->is_control = true;
    append_b(log);
    answer(log, (struct log_postgres_answer){.is_there = false});
    answer(log, (struct log_postgres_answer){.is_there = true, .chain = 77, .end = 4});
    assert_int_equal(log->append.step, LOG_POSTGRES_SEEKS);
    answer(log, (struct log_postgres_answer){.is_there = true, .place = 3, .chain = 99});
    assert_true(log->append.step == LOG_POSTGRES_WAITS && log->append.place == 4 &&
                log->append.before == 99);
}

/* Records that another connection inserts: they are read after the answer, and the next append goes
 * after the last one. */
static void test_a_transaction_lands(void **state)
{
    struct log_postgres_state *log = *state;
    const uint64_t chain_c = bytes_hash(chain_b(), C);

    assert_false(log_postgres_state_transact(log, 2, B)); /* not its place */
    assert_false(log_postgres_state_transact(log, 0, B));
    assert_true(log_postgres_state_transact(log, 1, B));
    assert_int_equal(log->append.step, LOG_POSTGRES_TRANSACTS);
    assert_true(log->append.place == 1 && log->append.before == chain_a());
    assert_int_equal(log_postgres_state_append(log, 8, C, (struct instant){9}, NULL),
                     ERROR_OVERLOADED);
    assert_false(log_postgres_state_transact(log, 1, B));
    log_postgres_state_read(log, 1, chain_b(), B); /* visible, and perhaps not replicated */
    log_postgres_state_read(log, 2, chain_c, C);
    log_postgres_state_read_all(log, 1, 3, false);
    assert_takes(log, LOG_NOTHING, 0);
    log_postgres_state_transacted(log, true, 3, chain_c);
    assert_takes(log, LOG_NOTHING, 0);
    append_b(log);
    assert_true(log->append.place == 3 && log->append.before == chain_c);
    log_postgres_state_read(log, 1, chain_b(), B);
    assert_takes(log, LOG_RECORD, 1);
}

/* One that did not land, or may not have: the next append names the same place. */
static void test_a_transaction_in_doubt(void **state)
{
    struct log_postgres_state *log = *state;

    assert_true(log_postgres_state_transact(log, 1, C));
    log_postgres_state_transacted(log, false, 2, 77);
    assert_takes(log, LOG_NOTHING, 0);
    append_b(log);
    assert_true(log->append.place == 1 && log->append.before == chain_a());
    assert_false(log_postgres_state_transact(log, 1, C)); /* an append is in flight */
}

int main(void)
{
#define STATE_TEST(test) cmocka_unit_test_setup_teardown(test, state_set_up, state_tear_down)
    const struct CMUnitTest tests[] = {
        STATE_TEST(test_an_append_lands),         STATE_TEST(test_records_that_are_taken_late),
        STATE_TEST(test_a_transaction_lands),     STATE_TEST(test_a_transaction_in_doubt),
        STATE_TEST(test_an_append_is_found),      STATE_TEST(test_an_append_is_refused),
        STATE_TEST(test_a_place_that_is_trimmed), STATE_TEST(test_an_append_after_a_lost_record),
        STATE_TEST(test_the_own_record_waits),    STATE_TEST(test_the_record_before),
        STATE_TEST(test_the_chain_breaks),        STATE_TEST(test_comparisons),
        STATE_TEST(test_when_it_compares),        STATE_TEST(test_a_control_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
