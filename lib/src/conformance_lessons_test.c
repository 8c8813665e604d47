/*
 * Goal: none of our wheels has the bugs that users of other wheels have met. Method: each bug is a
 * test by name, over each kind of wheel through one interface.
 */
#include "conformance_rig.h"

/* timer-wheel issue 2: the handler of one timer cancels others of the bucket that is firing. */
static void lesson_cancelling_a_sibling_in_the_firing_bucket(void **state)
{
    struct conformance_rig rig;

    for (uint32_t victim = 0; victim < 5; victim++) {
        rig_open(&rig, *state, 90);
        for (uint32_t id = 0; id < 5; id++)
            rig_put(&rig, id, rig_reach(&rig, 1));
        assert_int_equal(rig_pull(&rig, rig_out_by(rig.kind, 91), 1), 1);
        bool was_waiting = rig.kind->cancel(rig.wheel, victim);
        assert_int_equal(was_waiting, rig.fired[0] != victim);
        rig.kind->check(rig.wheel);
        assert_int_equal(rig_drain(&rig, rig_out_by(rig.kind, 91)), was_waiting ? 3 : 4);
        for (size_t i = 1; i < rig.fired_count; i++)
            assert_true(rig.fired[i] != victim && rig.fired[i] != rig.fired[0]);
        rig_close(&rig);
    }
}

/* Chronos issue 221: what the handler decides about a timer must outlive the firing. */
static void lesson_an_update_from_the_handler_stands(void **state)
{
    struct conformance_rig rig;

    rig_open(&rig, *state, 90);
    for (uint32_t id = 0; id < 3; id++)
        rig_put(&rig, id, rig_reach(&rig, 1));
    uint64_t now = rig_out_by(rig.kind, 91);
    assert_int_equal(rig_pull(&rig, now, 1), 1);
    uint32_t self = rig.fired[0];
    uint32_t sibling = (self + 1) % 3;
    uint64_t later = rig_reach(&rig, 40 * rig.kind->tick);
    rig_put(&rig, self, later);
    assert_true(rig.kind->reschedule(rig.wheel, sibling, later));
    assert_int_equal(rig_drain(&rig, now), 1);
    assert_int_equal(rig_drain(&rig, later - 1), 0);
    assert_int_equal(rig_drain(&rig, rig_out_by(rig.kind, later)), 2);
    rig_close(&rig);
}

/* Cadence issue 7058: a timer written behind the frontier that was already read. */
static void lesson_a_deadline_behind_the_frontier_is_due_at_once(void **state)
{
    struct conformance_rig rig;

    rig_open(&rig, *state, 500);
    assert_int_equal(rig_drain(&rig, 1003), 0);
    if (!rig_can(&rig, 700)) {
        rig_close(&rig);
        skip();
    }
    rig_put(&rig, 1, 700);
    rig_put(&rig, 2, 1003);
    rig_put(&rig, 3, 0);
    assert_true(rig_wake_at(&rig) <= 1003);
    assert_int_equal(rig_drain(&rig, 1003), 3);
    rig_put(&rig, 4, UINT64_MAX - 5);
    assert_true(rig.kind->reschedule(rig.wheel, 4, 999));
    assert_int_equal(rig_drain(&rig, 1003), 1);
    rig_close(&rig);
}

/* Dkron issue 1210: whoever comes late skips what fell due in between. */
static void lesson_a_jump_skips_nothing(void **state)
{
    struct conformance_rig rig;

    rig_open(&rig, *state, 77);
    for (uint32_t id = 0; id < CONFORMANCE_IDS; id++)
        rig_put(&rig, id, rig_reach(&rig, UINT64_C(1) << id % 60));
    assert_int_equal(rig_drain(&rig, UINT64_C(1) << 62), CONFORMANCE_IDS);
    assert_true(rig_wake_at(&rig) == TW_NEVER);
    rig_close(&rig);
}

/* Quartz.NET issue 3148: a clock that is set back stops the scheduler for as long. */
static void lesson_a_clock_set_back_changes_nothing(void **state)
{
    struct conformance_rig rig;

    rig_open(&rig, *state, 10000);
    assert_int_equal(rig_drain(&rig, 20000), 0);
    uint64_t deadline = rig_reach(&rig, 5);
    rig_put(&rig, 1, deadline);
    assert_int_equal(rig_drain(&rig, 15000), 0);
    assert_int_equal(rig_drain(&rig, 0), 0);
    assert_true(rig.kind->now(rig.wheel) == 20000);
    assert_true(rig_wake_at(&rig) <= rig_out_by(rig.kind, deadline));
    assert_int_equal(rig_drain(&rig, rig_out_by(rig.kind, deadline)), 1);
    rig_close(&rig);
}

/* Netty issue 7760: a delay of 2^63 - 1 overflows and fires at once. Node issue 4541: more than
 * 2^31 - 1 does. */
static void lesson_a_huge_delay_does_not_fire_at_once(void **state)
{
    const uint64_t delays[] = {INT32_MAX, UINT64_C(1) << 31, UINT32_MAX, UINT64_C(1) << 32,
                               INT64_MAX};
    const uint64_t starts[] = {0, 1, 123456789, INT32_MAX, UINT64_C(1) << 62, INT64_MAX};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        for (size_t j = 0; j < sizeof delays / sizeof delays[0]; j++)
            rig_prove(*state, starts[i], starts[i] + delays[j]);
}

/* tokio issue 8334: the wheel panics when its top level wraps. Keeps timers of every magnitude
 * going while time passes through all levels. */
static void lesson_the_top_level_wraps(void **state)
{
    struct conformance_rig rig;
    unsigned wakes;

    rig_open(&rig, *state, 1);
    rig_put(&rig, 0, rig_reach(&rig, 1));
    while (rig_wake_at(&rig) != TW_NEVER && rig.fired_count < 2000) {
        uint64_t now = rig_sleep(&rig, &wakes);
        uint64_t delay = now / 16 + 1;
        if (delay > CONFORMANCE_TIME_LAST - now)
            break;
        rig_put(&rig, 0, rig_reach(&rig, delay));
    }
    assert_true(rig.fired_count > 100);
    rig_close(&rig);
}

/* Agrona issue 73: timers never fire when the start is not aligned to the tick. */
static void lesson_a_start_between_ticks(void **state)
{
    const struct conformance_kind *kind = *state;

    for (uint64_t start = 0; start < 2 * kind->tick && start < 300; start++)
        for (uint64_t delay = 0; delay < 2 * kind->tick && delay < 30; delay++)
            rig_prove(kind, start, start + delay);
    rig_prove(kind, 3 * kind->tick - 1, 3 * kind->tick);
    rig_prove(kind, 3 * kind->tick - 1, 3 * kind->tick + 1);
    rig_prove(kind, 12345678901, 12345678901 + kind->tick * kind->size);
}

/* wahern's timeout issues 20 and 21: a slot is checked twice and the next wake-up is wrong. */
static void lesson_the_next_wake_up_is_right(void **state)
{
    struct conformance_rig rig;
    unsigned wakes;

    rig_open(&rig, *state, 0);
    for (uint32_t id = 0; id < 100; id++)
        rig_put(&rig, id, rig_reach(&rig, (id + 1) * (id + 1) * 3));
    while (rig_wake_at(&rig) != TW_NEVER) {
        size_t before = rig.fired_count;
        uint64_t at = rig_sleep(&rig, &wakes);
        for (size_t i = before; i < rig.fired_count; i++) {
            uint64_t deadline = (rig.fired[i] + 1) * (rig.fired[i] + 1) * 3;
            if (rig_can(&rig, TW_NEVER)) /* not a ring, to which some were brought nearer */
                assert_true(at >= deadline && at <= rig_out_by(rig.kind, deadline));
        }
    }
    assert_int_equal(rig.fired_count, 100);
    rig_close(&rig);
}

/* msquic issue 3206: moving a timer does not move the next wake-up. A wheel may keep the old one
 * when the timer moves to a later time, but only until then. */
static void lesson_rescheduling_moves_the_next_wake_up(void **state)
{
    struct conformance_rig rig;
    unsigned wakes;

    rig_open(&rig, *state, 0);
    uint64_t near_by = rig_reach(&rig, 2 * rig.kind->tick),
             middle = rig_reach(&rig, 30 * rig.kind->tick);
    uint64_t far_off = rig_reach(&rig, 60 * rig.kind->tick);
    rig_put(&rig, 1, middle);
    assert_true(rig.kind->reschedule(rig.wheel, 1, far_off));
    assert_int_equal(rig_drain(&rig, far_off - 1), 0);
    assert_true(rig_sleep(&rig, &wakes) ==
                rig_out_by(rig.kind, far_off) / rig.kind->tick * rig.kind->tick);
    rig_close(&rig);

    rig_open(&rig, *state, 0);
    rig_put(&rig, 1, middle);
    assert_true(rig.kind->reschedule(rig.wheel, 1, near_by));
    assert_true(rig_wake_at(&rig) <= rig_out_by(rig.kind, near_by));
    assert_true(rig_sleep(&rig, &wakes) <= rig_out_by(rig.kind, near_by));
    rig_close(&rig);
}

/* Netty issue 2541: cancelled timers hold memory until their bucket comes round. */
static void lesson_cancelled_timers_hold_no_memory(void **state)
{
    struct conformance_rig rig;
    size_t before = 0;

    rig_open(&rig, *state, 0);
    for (unsigned round = 0; round < 400; round++) {
        for (uint32_t id = 0; id < CONFORMANCE_IDS; id++)
            rig.kind->schedule(rig.wheel, id, rig_reach(&rig, 3600000 + round));
        for (uint32_t id = 0; id < CONFORMANCE_IDS; id++)
            assert_true(rig.kind->cancel(rig.wheel, id));
        if (round == 100)
            before = rig.kind->memory(rig.wheel);
    }
    assert_int_equal(rig.kind->memory(rig.wheel), before);
    assert_int_equal(rig.kind->count(rig.wheel), 0);
    rig_close(&rig);
}

int main(void)
{
    const struct rig_test tests[] = {
        RIG_TEST(lesson_cancelling_a_sibling_in_the_firing_bucket),
        RIG_TEST(lesson_an_update_from_the_handler_stands),
        RIG_TEST(lesson_a_deadline_behind_the_frontier_is_due_at_once),
        RIG_TEST(lesson_a_jump_skips_nothing),
        RIG_TEST(lesson_a_clock_set_back_changes_nothing),
        RIG_TEST(lesson_a_huge_delay_does_not_fire_at_once),
        RIG_TEST(lesson_the_top_level_wraps),
        RIG_TEST(lesson_a_start_between_ticks),
        RIG_TEST(lesson_the_next_wake_up_is_right),
        RIG_TEST(lesson_rescheduling_moves_the_next_wake_up),
        RIG_TEST(lesson_cancelled_timers_hold_no_memory),
    };
    return rig_run(tests, sizeof tests / sizeof tests[0]);
}
