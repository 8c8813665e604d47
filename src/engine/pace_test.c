/*
 * Goal: no stretch of time lets more through than its rate and one burst, and who waits as long as
 * told gets through, so the rate is reached. Method: random rates and steps, with every passage
 * kept and every stretch between two of them looked at.
 */
#include "engine/pace.h"

#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START UINT64_C(1800000000000)

enum { PASSAGES = 400 };

#define TOKENS UINT64_C(1000000000000) /* of one event */

static uint64_t burst_of(uint64_t rate)
{
    return rate * 100 > TOKENS ? rate * 100 : TOKENS;
}

/* proves: delivery-rate, target_rate_max (beyond), catch_up_rate_max (beyond) */
static void test_never_more_than_the_rate(void **state)
{
    struct random random = random_seeded(testing_seed());
    static uint64_t at[PASSAGES];

    (void)state;
    for (int run = 0; run < 300; run++) {
        uint64_t rate = 1 + random_below(&random, UINT64_C(1) << random_below(&random, 42));
        struct wall now = {START};
        struct pace pace;

        pace_init(&pace, rate, now);
        for (size_t count = 0; count < PASSAGES;) {
            if (pace_has(&pace, rate, now)) {
                pace_take(&pace, rate, now);
                at[count] = now.ms;
                for (size_t i = 0; i <= count; i++)
                    assert_true((count - i + 1) * TOKENS <=
                                (at[count] - at[i]) * rate + burst_of(rate));
                count++;
            } else if (random_below(&random, 4)) {
                struct wall next = pace_next(&pace, rate);

                assert_true(next.ms > now.ms);
                now.ms = next.ms - 1;
                assert_false(pace_has(&pace, rate, now)); /* not sooner than told ... */
                now = next;
                assert_true(pace_has(&pace, rate, now)); /* ... but then */
            } else {
                now.ms += random_below(&random, 5000);
            }
        }
    }
}

/* Goal: what is taken late does not count as taken when the bucket was last looked at. Method: a
 * full bucket, looked at and taken from later. */
static void test_a_full_bucket_gains_nothing(void **state)
{
    struct wall now = {START};

    (void)state;
    struct pace pace;
    pace_init(&pace, PACE_ONE, now);
    assert_true(pace_has(&pace, PACE_ONE, now));
    now.ms += 900;
    pace_take(&pace, PACE_ONE, now);
    assert_false(pace_has(&pace, PACE_ONE, wall_add(now, 999)));
    assert_true(pace_next(&pace, PACE_ONE).ms == now.ms + 1000);
}

/* proves: target_rate_max (at), catch_up_rate_max (at) */
static void test_the_rate_is_reached(void **state)
{
    struct wall now = {START};

    (void)state;
    struct pace pace;
    const uint64_t rate = 250 * PACE_ONE;
    pace_init(&pace, rate, now);
    int count = 0;
    for (; now.ms < START + 10000; now.ms += 50) /* its caller is woken late */
        for (; pace_has(&pace, rate, now); count++)
            pace_take(&pace, rate, now);
    assert_in_range(count, 2500 - 13, 2500 + 25);
}

static void test_steps_of_the_clock(void **state)
{
    struct wall now = {START};

    (void)state;
    struct pace pace;
    pace_init(&pace, PACE_ONE, now);
    assert_true(pace_has(&pace, PACE_ONE, now));
    pace_take(&pace, PACE_ONE, now);
    now.ms -= 3600 * 1000; /* back: nothing is given, and the wait is as long as it was */
    assert_false(pace_has(&pace, PACE_ONE, now));
    assert_true(pace_next(&pace, PACE_ONE).ms == now.ms + 1000);
    now.ms += UINT64_C(1) << 47; /* forward: one burst */
    assert_true(pace_has(&pace, PACE_ONE, now));
    pace_take(&pace, PACE_ONE, now);
    assert_false(pace_has(&pace, PACE_ONE, now));
    assert_true(pace_full(&pace, PACE_ONE).ms == now.ms + 1000);
}

static void test_the_ends_of_the_range(void **state)
{
    struct wall now = {START};

    (void)state;
    struct pace pace;
    pace_init(&pace, 1, now); /* one in a billion seconds */
    pace_take(&pace, 1, now);
    assert_true(pace_next(&pace, 1).ms == START + TOKENS);
    pace_init(&pace, PACE_RATE_MAX, now);
    int count = 0;
    for (; pace_has(&pace, PACE_RATE_MAX, now); count++)
        pace_take(&pace, PACE_RATE_MAX, now);
    assert_int_equal(count, 1000000);
    assert_true(pace_full(&pace, PACE_RATE_MAX).ms == START + 100);
}

/* Goal: a rate may change between calls, and a lower one keeps no more than its own burst. */
static void test_another_rate(void **state)
{
    struct wall now = {START};
    struct pace pace;

    (void)state;
    pace_init(&pace, 1000 * PACE_ONE, now); /* a burst of 100 */
    pace_take(&pace, PACE_ONE, now);
    assert_false(pace_has(&pace, PACE_ONE, now));
    assert_false(pace_has(&pace, 1000 * PACE_ONE, now));
    now.ms += 1;
    assert_true(pace_has(&pace, 1000 * PACE_ONE, now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_more_than_the_rate),
        cmocka_unit_test(test_a_full_bucket_gains_nothing),
        cmocka_unit_test(test_the_rate_is_reached),
        cmocka_unit_test(test_steps_of_the_clock),
        cmocka_unit_test(test_the_ends_of_the_range),
        cmocka_unit_test(test_another_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
