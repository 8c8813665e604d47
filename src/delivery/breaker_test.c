/*
 * Goal: a target that fails is left alone, tried by one at a time, and back as soon as that one
 * gets through; nothing from before counts. Method: single steps with the clock in hand, then
 * random steps beside a model that keeps the history of everything.
 */
#include "delivery/breaker.h"

#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct breaker_options options = {3, 1000, 5000};

static struct instant breaker_test_at(uint64_t ms)
{
    return (struct instant){(1000000 + ms) * 1000000};
}

/* Enters and leaves at once. False: it could not enter. */
static bool breaker_test_try_one(struct breaker *breaker, uint64_t ms, enum breaker_verdict verdict)
{
    uint32_t pass;

    if (!breaker_enter(breaker, &options, breaker_test_at(ms), BREAKER_WITNESS, &pass))
        return false;
    breaker_leave(breaker, &options, breaker_test_at(ms), pass, verdict);
    return true;
}

/* proves: target_breaker_failures */
static void test_opens_after_so_many_in_a_row(void **state)
{
    (void)state;
    struct breaker breaker = {0};
    assert_true(breaker_test_try_one(&breaker, 0, BREAKER_FAILED));
    assert_true(breaker_test_try_one(&breaker, 0, BREAKER_FAILED));
    assert_true(breaker_test_try_one(&breaker, 0, BREAKER_ALIVE)); /* the row is broken */
    assert_true(breaker_test_try_one(&breaker, 0, BREAKER_FAILED));
    assert_true(breaker_test_try_one(&breaker, 0, BREAKER_FAILED));
    assert_true(breaker_test_try_one(&breaker, 0, BREAKER_UNKNOWN)); /* this breaks nothing */
    assert_int_equal(breaker.state, BREAKER_CLOSED);
    assert_int_equal(breaker_wait_ms(&breaker, &options, breaker_test_at(0)), 0);
    assert_true(breaker_test_try_one(&breaker, 0, BREAKER_FAILED));
    assert_int_equal(breaker.state, BREAKER_OPEN);
    assert_false(breaker_test_try_one(&breaker, 999, BREAKER_ALIVE));
    assert_int_equal(breaker_wait_ms(&breaker, &options, breaker_test_at(0)), 1000);
    assert_int_equal(breaker_wait_ms(&breaker, &options, breaker_test_at(999)), 1);
    assert_int_equal(breaker_wait_ms(&breaker, &options, breaker_test_at(2000)), 0);
}

/* proves: breaker */
static void test_one_probe_decides(void **state)
{
    (void)state;
    struct breaker breaker = {0};
    for (int i = 0; i < 3; i++)
        breaker_test_try_one(&breaker, 0, BREAKER_FAILED);
    uint32_t pass;
    assert_true(breaker_enter(&breaker, &options, breaker_test_at(1000), BREAKER_WITNESS, &pass));
    assert_int_equal(breaker.state, BREAKER_HALF_OPEN);
    uint32_t other;
    assert_false(breaker_enter(&breaker, &options, breaker_test_at(900000), BREAKER_WITNESS,
                               &other)); /* one only */
    assert_int_equal(breaker_wait_ms(&breaker, &options, breaker_test_at(900000)), 1000);
    assert_true(breaker_leave(&breaker, &options, breaker_test_at(900000), pass, BREAKER_ALIVE));
    assert_int_equal(breaker.state, BREAKER_CLOSED);
    assert_int_equal(breaker.failures, 0);
    assert_true(breaker_test_try_one(&breaker, 900000, BREAKER_FAILED));
    assert_int_equal(breaker.state, BREAKER_CLOSED);
}

/* proves: target_breaker_pause_max */
static void test_pauses_double_up_to_the_longest(void **state)
{
    static const uint64_t pauses[] = {1000, 2000, 4000, 5000, 5000};

    (void)state;
    struct breaker breaker = {0};
    for (int i = 0; i < 2; i++)
        breaker_test_try_one(&breaker, 0, BREAKER_FAILED);
    uint64_t ms = 0;
    uint32_t pass;
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        assert_true(breaker_enter(&breaker, &options, breaker_test_at(ms), BREAKER_WITNESS, &pass));
        assert_true(breaker_leave(&breaker, &options, breaker_test_at(ms), pass, BREAKER_FAILED));
        assert_false(breaker_enter(&breaker, &options, breaker_test_at(ms + pauses[i] - 1),
                                   BREAKER_WITNESS, &pass));
        ms += pauses[i];
    }
    assert_true(breaker_test_try_one(&breaker, ms, BREAKER_ALIVE));
    for (int i = 0; i < 3; i++) /* and begin anew */
        breaker_test_try_one(&breaker, ms, BREAKER_FAILED);
    assert_int_equal(breaker_wait_ms(&breaker, &options, breaker_test_at(ms)), 1000);
}

static void test_a_probe_that_never_got_there(void **state)
{
    (void)state;
    struct breaker breaker = {0};
    for (int i = 0; i < 3; i++)
        breaker_test_try_one(&breaker, 0, BREAKER_FAILED);
    assert_true(breaker_test_try_one(&breaker, 1000, BREAKER_UNKNOWN));
    assert_int_equal(breaker.state, BREAKER_OPEN);
    assert_true(breaker_test_try_one(&breaker, 1000, BREAKER_FAILED)); /* the next may at once */
    assert_int_equal(breaker_wait_ms(&breaker, &options, breaker_test_at(1000)), 2000);
}

static void test_what_entered_before_does_not_count(void **state)
{
    (void)state;
    struct breaker breaker = {0};
    uint32_t old[10];
    for (int i = 0; i < 10; i++)
        assert_true(
            breaker_enter(&breaker, &options, breaker_test_at(0), BREAKER_WITNESS, &old[i]));
    for (int i = 0; i < 3; i++)
        breaker_leave(&breaker, &options, breaker_test_at(0), old[i], BREAKER_FAILED);
    assert_false(breaker_leave(&breaker, &options, breaker_test_at(10), old[3], BREAKER_ALIVE));
    assert_int_equal(breaker.state, BREAKER_OPEN);
    uint32_t pass;
    assert_true(breaker_enter(&breaker, &options, breaker_test_at(1000), BREAKER_WITNESS, &pass));
    assert_false(breaker_leave(&breaker, &options, breaker_test_at(1000), old[4], BREAKER_ALIVE));
    assert_false(breaker_leave(&breaker, &options, breaker_test_at(1000), old[5], BREAKER_FAILED));
    assert_int_equal(breaker.state, BREAKER_HALF_OPEN);
    breaker_leave(&breaker, &options, breaker_test_at(1000), pass, BREAKER_ALIVE);
    for (int i = 6; i < 10; i++)
        breaker_leave(&breaker, &options, breaker_test_at(1001), old[i], BREAKER_FAILED);
    assert_int_equal(breaker.state, BREAKER_CLOSED);
    assert_int_equal(breaker.failures, 0);
}

/* proves: target_breaker_failures (beyond) */
static void test_switched_off(void **state)
{
    const struct breaker_options off = {0, 1000, 5000};

    (void)state;
    struct breaker breaker = {0};
    uint32_t pass;
    for (int i = 0; i < 100; i++) {
        assert_true(breaker_enter(&breaker, &off, breaker_test_at(0), BREAKER_WITNESS, &pass));
        assert_false(breaker_leave(&breaker, &off, breaker_test_at(0), pass, BREAKER_FAILED));
    }
    assert_int_equal(breaker.state, BREAKER_CLOSED);
}

/* Whatever happens: nobody enters before a pause is over or while a probe is out; a pause is at
 * most the longest; a target that answers is entered again within it. */
static void test_random_lives(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    for (int life = 0; life < 200; life++) {
        struct breaker breaker = {0};
        uint32_t out[8];
        size_t count = 0;
        uint64_t ms = 0, opened_ms = 0;
        bool is_probing = false;

        for (int step = 0; step < 400; step++) {
            bool was_open = breaker.state == BREAKER_OPEN;

            ms += random_below(&random, 700);
            uint32_t pass;
            if (count < 8 && random_below(&random, 2)) {
                bool may =
                    breaker_enter(&breaker, &options, breaker_test_at(ms), BREAKER_WITNESS, &pass);

                assert_int_equal(may, breaker.state == BREAKER_CLOSED ||
                                          (was_open && ms >= opened_ms + breaker.pause_ms));
                assert_false(may && is_probing);
                is_probing = is_probing || (may && was_open);
                if (may)
                    out[count++] = pass;
            } else if (count > 0) {
                size_t which = (size_t)random_below(&random, count);
                enum breaker_verdict verdict =
                    random_below(&random, 3) ? BREAKER_FAILED : BREAKER_ALIVE;

                pass = out[which];
                out[which] = out[--count];
                if (breaker_leave(&breaker, &options, breaker_test_at(ms), pass, verdict))
                    opened_ms = ms;
                is_probing = is_probing && breaker.state == BREAKER_HALF_OPEN;
            }
            assert_true(breaker.pause_ms <= options.pause_max_ms);
            assert_true(breaker_wait_ms(&breaker, &options, breaker_test_at(ms)) <=
                        options.pause_max_ms);
        }
    }
}

/* A delivery whose silence means nothing passes when a probe may, but does not keep a probe away;
 * an answer to it closes the breaker, a failure opens it again. */
/* proves: breaker */
static void test_the_minor_are_no_probe(void **state)
{
    (void)state;
    struct breaker breaker = {0};
    for (uint32_t i = 0; i < options.failures_max; i++)
        assert_true(breaker_test_try_one(&breaker, 0, BREAKER_FAILED));
    uint32_t pass;
    assert_false(breaker_enter(&breaker, &options, breaker_test_at(999), BREAKER_MINOR, &pass));
    for (int i = 0; i < 3; i++) {
        assert_true(breaker_enter(&breaker, &options, breaker_test_at(1000), BREAKER_MINOR, &pass));
        assert_false(
            breaker_leave(&breaker, &options, breaker_test_at(1000), pass, BREAKER_UNKNOWN));
    }
    uint32_t probe;
    assert_true(breaker_enter(&breaker, &options, breaker_test_at(1000), BREAKER_WITNESS, &probe));
    assert_false(breaker_enter(&breaker, &options, breaker_test_at(1000), BREAKER_MINOR, &pass));
    assert_true(breaker_leave(&breaker, &options, breaker_test_at(1000), probe, BREAKER_FAILED));
    assert_true(breaker_enter(&breaker, &options, breaker_test_at(3000), BREAKER_MINOR, &pass));
    assert_true(breaker_leave(&breaker, &options, breaker_test_at(3000), pass, BREAKER_FAILED));
    assert_int_equal(breaker_wait_ms(&breaker, &options, breaker_test_at(3000)), 4000);
    assert_true(breaker_enter(&breaker, &options, breaker_test_at(7000), BREAKER_MINOR, &pass));
    assert_true(breaker_leave(&breaker, &options, breaker_test_at(7000), pass, BREAKER_ALIVE));
    assert_int_equal(breaker.state, BREAKER_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_after_so_many_in_a_row),
        cmocka_unit_test(test_one_probe_decides),
        cmocka_unit_test(test_pauses_double_up_to_the_longest),
        cmocka_unit_test(test_a_probe_that_never_got_there),
        cmocka_unit_test(test_what_entered_before_does_not_count),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_the_minor_are_no_probe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
