/* fifo_test.c - the contract of the FIFO, and random verbs beside a model. TEST_SEED replays a run.
 */
#include "oracles.h"
#include "seed.h"

#include <tickwheel/fifo.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

struct fifo_client {
    int number;
    struct tw_task idle;
};

/* Goal: the example of the header. Two clients; the first is heard from again, and goes last. */
static void a_task_armed_again_is_due_last(void **state)
{
    (void)state;
    struct tw_fifo fifo;
    struct fifo_client clients[2] = {{.number = 1}, {.number = 2}};
    struct tw_task *due[4];
    tw_fifo_init(&fifo, 30);
    assert_int_equal(tw_fifo_wake_at(&fifo), TW_NEVER);
    tw_fifo_arm(&fifo, &clients[0].idle, 100);
    tw_fifo_arm(&fifo, &clients[1].idle, 110);
    tw_fifo_arm(&fifo, &clients[0].idle, 120);
    assert_int_equal(tw_fifo_count(&fifo), 2);
    assert_int_equal(tw_fifo_wake_at(&fifo), 140);
    assert_int_equal(tw_fifo_expire(&fifo, 139, due, 4), 0);
    assert_int_equal(tw_fifo_expire(&fifo, 150, due, 4), 2);
    assert_int_equal(tw_task_item(due[0], struct fifo_client, idle)->number, 2);
    assert_int_equal(tw_task_item(due[1], struct fifo_client, idle)->number, 1);
    assert_false(tw_fifo_cancel(&fifo, &clients[0].idle));
    tw_fifo_arm(&fifo, &clients[0].idle, 5); /* counts as 150 */
    assert_int_equal(tw_fifo_wake_at(&fifo), 180);
    assert_true(tw_fifo_cancel(&fifo, &clients[0].idle));
    assert_false(tw_fifo_cancel(&fifo, &clients[0].idle));
    tw_fifo_check(&fifo);
}

static void a_long_delay_does_not_wrap(void **state)
{
    (void)state;
    struct tw_fifo fifo;
    struct tw_task task = {{NULL, NULL}, 0}, *due;
    tw_fifo_init(&fifo, UINT64_MAX);
    tw_fifo_arm(&fifo, &task, 7);
    assert_int_equal(tw_fifo_wake_at(&fifo), TW_NEVER - 1);
    assert_int_equal(tw_fifo_expire(&fifo, TW_NEVER - 2, &due, 1), 0);
    assert_int_equal(tw_fifo_expire(&fifo, TW_NEVER, &due, 1), 1);
}

/* Goal: no sequence of verbs makes the FIFO differ from the model. Method: random bytes of many
 * seeds. */
static void the_fifo_agrees_with_the_model(void **state)
{
    (void)state;
    enum { RUNS = 2000, SIZE = 900 };
    uint64_t seed = testing_seed();
    uint64_t random = seed | 1;
    for (int run = 0; run < RUNS; run++) {
        uint8_t bytes[SIZE];
        for (size_t i = 0; i < SIZE; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            bytes[i] = (uint8_t)(random >> 32);
        }
        fifo_oracle_run(bytes, SIZE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_armed_again_is_due_last),
        cmocka_unit_test(a_long_delay_does_not_wrap),
        cmocka_unit_test(the_fifo_agrees_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
