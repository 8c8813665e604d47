/*
 * Goal: things of one key come in the order in which they were added, and keys take turns however
 * many things each has. Method: cases by hand; random steps against arrays.
 */
#include "base/turns.h"

#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct turns_job {
    struct turn_link turn;
    int number;
};

static int turns_pop_number(struct turns *turns)
{
    struct turn_link *turn = turns_pop(turns);

    return turn ? list_item(turn, struct turns_job, turn)->number : -1;
}

/* Key 1 has five things and key 2 one, which came last: it waits for one of the others. */
static void test_one_waits_for_one(void **state)
{
    static const int order[] = {0, 5, 1, 2, 3, 4, -1};
    struct turns_job jobs[6];
    struct turns turns;

    (void)state;
    turns_init(&turns);
    for (int i = 0; i < 6; i++) {
        jobs[i].number = i;
        assert_int_equal(turns_push(&turns, &jobs[i].turn, i < 5 ? 1 : 2), i == 0 || i == 5);
    }
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        assert_int_equal(turns_pop_number(&turns), order[i]);
    assert_true(turns_is_empty(&turns));
}

/* Steps of two keys alternate; what ends gives its place to the next of its key. */
static void test_steps_take_turns(void **state)
{
    struct turns_job jobs[3];
    struct turns turns;

    (void)state;
    turns_init(&turns);
    assert_true(turns_push(&turns, &jobs[0].turn, 1));
    assert_false(turns_push(&turns, &jobs[1].turn, 1));
    assert_true(turns_push(&turns, &jobs[2].turn, 2));
    turns_rotate(&turns, &jobs[0].turn);
    assert_ptr_equal(turns.firsts.next, &jobs[2].turn.link);
    turns_rotate(&turns, &jobs[2].turn);
    assert_ptr_equal(turns.firsts.next, &jobs[0].turn.link);
    assert_ptr_equal(turns_remove(&turns, &jobs[0].turn), &jobs[1].turn);
    assert_ptr_equal(turns.firsts.next, &jobs[2].turn.link);
    assert_null(turns_remove(&turns, &jobs[2].turn));
    assert_null(turns_remove(&turns, &jobs[1].turn));
    assert_true(turns_is_empty(&turns));
}

/* Between two things of a key each other key with things had one. */
static void test_random_turns(void **state)
{
    enum { KEYS = 5, JOBS = 2000 };
    struct random random = random_seeded(testing_seed());
    static struct turns_job jobs[JOBS];
    int waiting[KEYS] = {0}, last[KEYS] = {0}, skipped[KEYS] = {0}, pushed = 0, popped = 0;
    struct turns turns;

    (void)state;
    turns_init(&turns);
    while (popped < JOBS) {
        if (pushed < JOBS && random_below(&random, 2)) {
            const uint64_t key = random_below(&random, KEYS);

            jobs[pushed].number = pushed + 1;
            assert_int_equal(turns_push(&turns, &jobs[pushed++].turn, key), waiting[key] == 0);
            waiting[key]++;
            continue;
        }
        struct turn_link *turn = turns_pop(&turns);
        assert_int_equal(turn == NULL, pushed == popped);
        if (!turn)
            continue;
        popped++;
        assert_true(list_item(turn, struct turns_job, turn)->number > last[turn->key]);
        last[turn->key] = list_item(turn, struct turns_job, turn)->number;
        waiting[turn->key]--;
        for (uint64_t key = 0; key < KEYS; key++) {
            skipped[key] = key == turn->key || waiting[key] == 0 ? 0 : skipped[key] + 1;
            assert_true(skipped[key] < KEYS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_waits_for_one),
        cmocka_unit_test(test_steps_take_turns),
        cmocka_unit_test(test_random_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
