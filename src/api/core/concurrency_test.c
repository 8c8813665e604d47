/*
 * Goal: never more than so many at a time, in order, each once, and no `begin` within another,
 * whether the work ends at once or later on another thread. Method: requests that end in `begin`,
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

struct concurrency_fixture {
    struct concurrency limit;
    atomic_int at_work, begun, within;
};

struct work {
    struct concurrency_start start;
    struct concurrency_fixture *fixture;
    int number;
};

static struct work *work_of(struct concurrency_start *start)
{
    return list_item(start, struct work, start);
}

/* ---- work that ends later ---- */

static void begin_slowly(struct concurrency_start *start)
{
    struct work *work = work_of(start);

    assert_int_equal(atomic_fetch_add(&work->fixture->begun, 1), work->number);
    assert_true(atomic_fetch_add(&work->fixture->at_work, 1) < AT_A_TIME);
}

static void begins_in_order_as_others_leave(void **state)
{
    (void)state;
    struct concurrency_fixture fixture = {0};
    concurrency_init(&fixture.limit, AT_A_TIME, AT_A_TIME);
    struct work works[10];
    for (int i = 0; i < 10; i++) {
        works[i] = (struct work){{.begin = begin_slowly}, &fixture, i};
        concurrency_enter(&fixture.limit, &works[i].start, 1);
        assert_int_equal(fixture.begun, i < AT_A_TIME ? i + 1 : AT_A_TIME);
    }
    for (int i = 0; i < 10; i++) {
        atomic_fetch_sub(&fixture.at_work, 1);
        concurrency_leave(&fixture.limit, 1);
        assert_int_equal(fixture.begun, i + 1 + AT_A_TIME < 10 ? i + 1 + AT_A_TIME : 10);
    }
    concurrency_deinit(&fixture.limit);
}

/* Ten requests of one tenant wait when another one comes: it is the next to begin. */
static void tenants_take_turns(void **state)
{
    (void)state;
    struct concurrency_fixture fixture = {0};
    struct work works[11];

    concurrency_init(&fixture.limit, 1, 1);
    for (int i = 0; i < 10; i++) {
        works[i] = (struct work){{.begin = begin_slowly}, &fixture, i < 2 ? i : i + 1};
        concurrency_enter(&fixture.limit, &works[i].start, 1);
    }
    works[10] = (struct work){{.begin = begin_slowly}, &fixture, 2};
    concurrency_enter(&fixture.limit, &works[10].start, 2);
    for (int i = 0; i < 11; i++) {
        atomic_fetch_sub(&fixture.at_work, 1);
        concurrency_leave(&fixture.limit, i == 2 ? 2 : 1);
    }
    assert_int_equal(fixture.begun, 11);
    concurrency_deinit(&fixture.limit);
}

/* One tenant gets all places but one, in which another one begins at once. */
static void a_place_is_left(void **state)
{
    (void)state;
    struct concurrency_fixture fixture = {0};
    struct work works[AT_A_TIME + 1];

    concurrency_init(&fixture.limit, AT_A_TIME, AT_A_TIME - 1);
    for (int i = 0; i < AT_A_TIME; i++) {
        works[i] = (struct work){{.begin = begin_slowly}, &fixture, i < AT_A_TIME - 1 ? i : i + 1};
        concurrency_enter(&fixture.limit, &works[i].start, 1);
    }
    assert_int_equal(fixture.begun, AT_A_TIME - 1);
    works[AT_A_TIME] = (struct work){{.begin = begin_slowly}, &fixture, AT_A_TIME - 1};
    concurrency_enter(&fixture.limit, &works[AT_A_TIME].start, 2);
    assert_int_equal(fixture.begun, AT_A_TIME);
    for (int i = 0; i <= AT_A_TIME; i++) {
        atomic_fetch_sub(&fixture.at_work, 1);
        concurrency_leave(&fixture.limit, i == AT_A_TIME - 1 ? 2 : 1);
    }
    assert_int_equal(fixture.begun, AT_A_TIME + 1);
    concurrency_deinit(&fixture.limit);
}

/* ---- work that ends at once ---- */

static void begin_quickly(struct concurrency_start *start)
{
    struct concurrency_fixture *fixture = work_of(start)->fixture;

    assert_int_equal(atomic_fetch_add(&fixture->within, 1), 0);
    atomic_fetch_add(&fixture->begun, 1);
    concurrency_leave(&fixture->limit, 1);
    atomic_fetch_sub(&fixture->within, 1);
}

static void many_that_end_at_once_need_no_stack(void **state)
{
    struct concurrency_fixture fixture = {0};
    struct work first = {{.begin = begin_slowly}, &fixture, 0};
    struct work *works = calloc(QUICK_COUNT, sizeof(*works));

    (void)state;
    assert_non_null(works);
    concurrency_init(&fixture.limit, 1, 1);
    concurrency_enter(&fixture.limit, &first.start, 1);
    for (int i = 0; i < QUICK_COUNT; i++) {
        works[i] = (struct work){{.begin = begin_quickly}, &fixture, i};
        concurrency_enter(&fixture.limit, &works[i].start, 1);
    }
    assert_int_equal(fixture.begun, 1);
    concurrency_leave(&fixture.limit, 1);
    assert_int_equal(fixture.begun, QUICK_COUNT + 1);
    concurrency_deinit(&fixture.limit);
    free(works);
}

/* ---- threads ---- */

/* Its start lies on the stack of the thread that enters, which leaves once it was begun. */
struct visitor {
    struct work work;
    atomic_bool has_begun;
};

static void begin_visit(struct concurrency_start *start)
{
    struct visitor *visitor = list_item(start, struct visitor, work.start);

    assert_true(atomic_fetch_add(&visitor->work.fixture->at_work, 1) < AT_A_TIME);
    atomic_fetch_add(&visitor->work.fixture->begun, 1);
    atomic_store(&visitor->has_begun, true);
}

static void *visit(void *argument)
{
    struct concurrency_fixture *fixture = argument;

    for (int i = 0; i < EACH; i++) {
        struct visitor visitor = {.work = {{.begin = begin_visit}, fixture, i}};

        concurrency_enter(&fixture->limit, &visitor.work.start, 1);
        while (!atomic_load(&visitor.has_begun))
            sched_yield();
        atomic_fetch_sub(&fixture->at_work, 1);
        concurrency_leave(&fixture->limit, 1);
    }
    return NULL;
}

static void threads_take_turns(void **state)
{
    (void)state;
    struct concurrency_fixture fixture = {0};
    concurrency_init(&fixture.limit, AT_A_TIME, AT_A_TIME);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &fixture), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(fixture.begun, THREADS * EACH);
    assert_int_equal(fixture.at_work, 0);
    concurrency_deinit(&fixture.limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_in_order_as_others_leave),
        cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(a_place_is_left),
        cmocka_unit_test(many_that_end_at_once_need_no_stack),
        cmocka_unit_test(threads_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
