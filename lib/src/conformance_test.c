/*
 * Goal: every wheel keeps the promises that all share. Method: each test runs over each kind of
 * wheel through one interface; last, random operations are compared with an ordered list.
 */
#include "conformance_rig.h"
#include "seed.h"

static void an_empty_wheel_never_wakes(void **state)
{
    const uint64_t times[] = {0, 1, UINT32_MAX, UINT64_C(1) << 63, TW_NEVER};
    struct conformance_rig rig;

    rig_open(&rig, *state, 0);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_true(rig_wake_at(&rig) == TW_NEVER);
        assert_int_equal(rig_drain(&rig, times[i]), 0);
        assert_int_equal(rig.kind->count(rig.wheel), 0);
    }
    assert_true(rig.kind->now(rig.wheel) == CONFORMANCE_TIME_LAST);
    rig_close(&rig);
}

static void a_timer_fires_once_at_its_deadline_near_every_boundary(void **state)
{
    const struct conformance_kind *kind = *state;
    const uint64_t big[] = {UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 63};
    uint64_t span = kind->tick;

    for (unsigned level = 0; level < 66; level++) {
        for (uint64_t before = 0; before < 3; before++) {
            for (uint64_t delay = 1; delay < 4; delay++) {
                rig_prove(kind, span - before, span - before + delay);
                rig_prove(kind, span - before, span - before + delay * kind->tick);
                rig_prove(kind, before, span + delay - 2);
            }
            rig_prove(kind, CONFORMANCE_TIME_LAST - span - before, CONFORMANCE_TIME_LAST - before);
        }
        if (kind->size < 2 || span > CONFORMANCE_TIME_LAST / kind->size)
            break;
        span *= kind->size;
    }
    for (size_t i = 0; i < 3; i++)
        for (uint64_t before = 0; before < 3; before++) {
            rig_prove(kind, 0, big[i] - before);
            rig_prove(kind, big[i] - before, big[i] + 1);
            rig_prove(kind, big[i] - before, big[i] - before + kind->tick * kind->size);
        }
}

static void the_last_instant_fires_and_never_does_not(void **state)
{
    struct conformance_rig rig;

    rig_open(&rig, *state, 3);
    if (!rig_can(&rig, TW_NEVER)) {
        rig_close(&rig);
        skip();
    }
    rig_put(&rig, 1, TW_NEVER);
    assert_true(rig_wake_at(&rig) == TW_NEVER);
    assert_int_equal(rig.kind->count(rig.wheel), 0);
    rig_put(&rig, 2, CONFORMANCE_TIME_LAST);
    assert_int_equal(rig.kind->count(rig.wheel), 1);
    assert_int_equal(rig_drain(&rig, CONFORMANCE_TIME_LAST - 1), 0);
    assert_int_equal(rig_drain(&rig, TW_NEVER), 1);
    assert_int_equal(rig.fired[0], 2);
    assert_int_equal(rig_drain(&rig, TW_NEVER), 0);
    assert_true(rig.kind->reschedule(rig.wheel, 1, 5)); /* from never back to time */
    assert_int_equal(rig_drain(&rig, TW_NEVER), 1);
    rig_put(&rig, 3, TW_NEVER);
    assert_true(rig.kind->cancel(rig.wheel, 3));
    assert_false(rig.kind->cancel(rig.wheel, 3));
    rig_close(&rig);
}

static void a_cancelled_timer_does_not_fire_and_a_fired_one_is_not_cancelled(void **state)
{
    struct conformance_rig rig;

    rig_open(&rig, *state, 1000);
    for (uint32_t id = 0; id < 6; id++)
        rig_put(&rig, id, rig_reach(&rig, 1 + id % 3));
    assert_true(rig.kind->cancel(rig.wheel, 1));
    assert_true(rig.kind->cancel(rig.wheel, 5));
    assert_false(rig.kind->cancel(rig.wheel, 1));
    assert_int_equal(rig.kind->count(rig.wheel), 4);
    assert_int_equal(rig_drain(&rig, 1000 + 3 * rig.kind->tick * 2), 4);
    for (size_t i = 0; i < rig.fired_count; i++)
        assert_true(rig.fired[i] != 1 && rig.fired[i] != 5);
    for (uint32_t id = 0; id < 6; id++) {
        assert_false(rig.kind->cancel(rig.wheel, id));
        assert_false(rig.kind->reschedule(rig.wheel, id, 2000));
    }
    assert_true(rig_wake_at(&rig) == TW_NEVER);
    rig_close(&rig);
}

static void a_pull_is_limited_and_in_order_of_tick(void **state)
{
    struct conformance_rig rig;
    uint64_t deadlines[60], latest = 0;

    rig_open(&rig, *state, 12345);
    for (uint32_t id = 0; id < 60; id++) {
        deadlines[id] = rig_reach(&rig, 1 + (id * 37 % 60) * rig.kind->tick);
        rig_put(&rig, id, deadlines[id]);
    }
    for (size_t left = 60; left > 0; left -= left < 7 ? left : 7)
        while (rig_pull(&rig, 12345 + 61 * rig.kind->tick, left < 7 ? left : 7) == 0)
            assert_true(rig_wake_at(&rig) <= rig.kind->now(rig.wheel));
    assert_int_equal(rig.fired_count, 60);
    for (size_t i = 0; i < rig.fired_count; i++) {
        uint64_t deadline = deadlines[rig.fired[i]];
        assert_true(latest <= rig_out_by(rig.kind, deadline));
        latest = deadline > latest ? deadline : latest;
    }
    rig_close(&rig);
}

static void a_limit_of_nothing_takes_nothing_and_loses_nothing(void **state)
{
    struct conformance_rig rig;

    rig_open(&rig, *state, 0);
    rig_put(&rig, 1, 1);
    assert_int_equal(rig_pull(&rig, 10 * rig.kind->tick, 0), 0);
    assert_true(rig_wake_at(&rig) <= 10 * rig.kind->tick);
    assert_int_equal(rig_drain(&rig, 0), 1);
    rig_close(&rig);
}

static void years_of_periodic_timers(void **state)
{
    const uint64_t year = UINT64_C(365) * 24 * 3600 * 1000;
    struct conformance_rig rig;
    unsigned wakes;
    uint64_t now = 0, fired_count = 0, expected = 0;

    rig_open(&rig, *state, 0);
    for (uint32_t id = 0; id < 20; id++)
        rig_put(&rig, id, rig_reach(&rig, (id + 1) * 86400007));
    if (!rig_can(&rig, 40 * year)) {
        rig_close(&rig);
        skip();
    }
    while (rig_wake_at(&rig) <= 10 * year) {
        rig.fired_count = 0;
        now = rig_sleep(&rig, &wakes);
        for (size_t i = 0; i < rig.fired_count; i++) {
            uint64_t period = (rig.fired[i] + 1) * UINT64_C(86400007);
            uint64_t deadline = now / period * period; /* no drift: the period counts from 0 */
            rig_put(&rig, rig.fired[i], deadline + period);
        }
        fired_count += rig.fired_count;
    }
    for (uint64_t id = 0; id < 20; id++)
        expected += now / ((id + 1) * 86400007);
    assert_in_range(fired_count, expected - 20, expected);
    rig_close(&rig);
}

static void random_operations_agree_with_an_ordered_list(void **state)
{
    const struct conformance_kind *kind = *state;
    struct conformance_source source = {.state = testing_seed()};
    struct conformance_tally tally = conformance_model_run(kind, &source, 60000);

    print_message("%s: %llu steps, %llu fired, %.3g years at a unit of 1 ms\n", kind->name,
                  (unsigned long long)tally.steps, (unsigned long long)tally.fired,
                  tally.time / (365.25 * 24 * 3600 * 1000));
    assert_true(tally.fired > 100);
}

int main(void)
{
    const struct rig_test tests[] = {
        RIG_TEST(an_empty_wheel_never_wakes),
        RIG_TEST(a_timer_fires_once_at_its_deadline_near_every_boundary),
        RIG_TEST(the_last_instant_fires_and_never_does_not),
        RIG_TEST(a_cancelled_timer_does_not_fire_and_a_fired_one_is_not_cancelled),
        RIG_TEST(a_pull_is_limited_and_in_order_of_tick),
        RIG_TEST(a_limit_of_nothing_takes_nothing_and_loses_nothing),
        RIG_TEST(years_of_periodic_timers),
        RIG_TEST(random_operations_agree_with_an_ordered_list),
    };
    return rig_run(tests, sizeof tests / sizeof tests[0]);
}
