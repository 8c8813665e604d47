/*
 * Goal: never more than so many at a time, in order, each once, and no `begin` within another,
 * whether the work ends at once or later on another thread. Method: turns that end within `begin`,
 * many in a row, which a recursion would not survive; then threads that enter and leave, counted.
 */
#include "api/core/concurrency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    AT_A_TIME = 3,
    QUICK_COUNT = 200000,
    THREADS = 4,
    EACH = 20000,
};

struct bed {
    struct concurrency turns;
    atomic_int at_work, begun, within;
};

struct work {
    struct turn turn;
    struct bed *bed;
    int number;
};

static struct work *work_of(struct turn *turn)
{
    return list_item(turn, struct work, turn);
}

/* ---- work that ends later ---- */

static void begin_slowly(struct turn *turn)
{
    struct work *work = work_of(turn);

    assert_int_equal(atomic_fetch_add(&work->bed->begun, 1), work->number);
    assert_true(atomic_fetch_add(&work->bed->at_work, 1) < AT_A_TIME);
}

static void begins_in_order_as_others_leave(void **state)
{
    struct bed bed = {0};
    struct work works[10];

    (void)state;
    concurrency_init(&bed.turns, AT_A_TIME);
    for (int i = 0; i < 10; i++) {
        works[i] = (struct work){{.begin = begin_slowly}, &bed, i};
        concurrency_enter(&bed.turns, &works[i].turn);
        assert_int_equal(bed.begun, i < AT_A_TIME ? i + 1 : AT_A_TIME);
    }
    for (int i = 0; i < 10; i++) {
        atomic_fetch_sub(&bed.at_work, 1);
        concurrency_leave(&bed.turns);
        assert_int_equal(bed.begun, i + 1 + AT_A_TIME < 10 ? i + 1 + AT_A_TIME : 10);
    }
    concurrency_deinit(&bed.turns);
}

/* ---- work that ends at once ---- */

static void begin_quickly(struct turn *turn)
{
    struct bed *bed = work_of(turn)->bed;

    assert_int_equal(atomic_fetch_add(&bed->within, 1), 0);
    atomic_fetch_add(&bed->begun, 1);
    concurrency_leave(&bed->turns);
    atomic_fetch_sub(&bed->within, 1);
}

static void many_that_end_at_once_need_no_stack(void **state)
{
    struct bed bed = {0};
    struct work first = {{.begin = begin_slowly}, &bed, 0};
    struct work *works = calloc(QUICK_COUNT, sizeof(*works));

    (void)state;
    assert_non_null(works);
    concurrency_init(&bed.turns, 1);
    concurrency_enter(&bed.turns, &first.turn);
    for (int i = 0; i < QUICK_COUNT; i++) {
        works[i] = (struct work){{.begin = begin_quickly}, &bed, i};
        concurrency_enter(&bed.turns, &works[i].turn);
    }
    assert_int_equal(bed.begun, 1);
    concurrency_leave(&bed.turns);
    assert_int_equal(bed.begun, QUICK_COUNT + 1);
    concurrency_deinit(&bed.turns);
    free(works);
}

/* ---- threads ---- */

/* Its turn lies on the stack of the thread that enters, which leaves once it was begun. */
struct visitor {
    struct work work;
    atomic_bool has_begun;
};

static void begin_visit(struct turn *turn)
{
    struct visitor *visitor = list_item(turn, struct visitor, work.turn);

    assert_true(atomic_fetch_add(&visitor->work.bed->at_work, 1) < AT_A_TIME);
    atomic_fetch_add(&visitor->work.bed->begun, 1);
    atomic_store(&visitor->has_begun, true);
}

static void *visit(void *argument)
{
    struct bed *bed = argument;

    for (int i = 0; i < EACH; i++) {
        struct visitor visitor = {.work = {{.begin = begin_visit}, bed, i}};

        concurrency_enter(&bed->turns, &visitor.work.turn);
        while (!atomic_load(&visitor.has_begun))
            sched_yield();
        atomic_fetch_sub(&bed->at_work, 1);
        concurrency_leave(&bed->turns);
    }
    return NULL;
}

static void threads_take_turns(void **state)
{
    struct bed bed = {0};
    pthread_t threads[THREADS];

    (void)state;
    concurrency_init(&bed.turns, AT_A_TIME);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &bed), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(bed.begun, THREADS * EACH);
    assert_int_equal(bed.at_work, 0);
    concurrency_deinit(&bed.turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_in_order_as_others_leave),
        cmocka_unit_test(many_that_end_at_once_need_no_stack),
        cmocka_unit_test(threads_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
