/*
 * runner_test.c - each promise of runner.h by itself, in virtual time, without a thread where one
 * is not the point: a runner in dispatch mode does nothing but what the test lets it.
 */
#include "allocator_oracle.h"
#include "runner_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <poll.h>
#include <string.h>

enum { MS = 1000000, SEEN_MAX = 4096 };

/* A runner on virtual time, and what its handler has seen. */
struct runner_rig {
    struct tw_virtual clock;
    struct tw_runner *runner;
    struct tw_runner_wheel *wheel;
    struct tw_expired seen[SEEN_MAX];
    size_t seen_count;
    size_t calls;
    void (*during)(struct runner_rig *rig, const struct tw_expired *due);
    tw_handle other;
    enum tw_runner_answer answer;
};

static void note(void *context, const struct tw_expired *due, size_t count)
{
    struct runner_rig *rig = context;
    rig->calls++;
    for (size_t i = 0; i < count; i++) {
        assert_true(rig->seen_count < SEEN_MAX);
        assert_true(due[i].deadline <= tw_runner_now(rig->runner).ns); /* never early */
        rig->seen[rig->seen_count++] = due[i];
        if (rig->during)
            rig->during(rig, &due[i]);
    }
}

static void rig_init_with(struct runner_rig *rig, struct tw_runner_wheel_options options)
{
    memset(rig, 0, sizeof(*rig));
    assert_true(tw_virtual_init(&rig->clock, (struct tw_instant){5 * MS + 1}));
    rig->runner = tw_runner_create(&(struct tw_runner_options){.clock = &rig->clock.clock});
    assert_non_null(rig->runner);
    options.handler = note;
    options.context = rig;
    rig->wheel = tw_runner_add(rig->runner, &options);
    assert_non_null(rig->wheel);
}

static void rig_init(struct runner_rig *rig)
{
    rig_init_with(rig, (struct tw_runner_wheel_options){0});
}

static void rig_deinit(struct runner_rig *rig)
{
    tw_runner_destroy(rig->runner);
    tw_virtual_deinit(&rig->clock);
}

static struct tw_instant in_ms(const struct runner_rig *rig, uint64_t ms)
{
    return tw_instant_after(&rig->clock.clock, ms * MS);
}

/* Lets so much time pass, and whatever is due by then be handled. */
static size_t pass_ms(struct runner_rig *rig, uint64_t ms)
{
    tw_virtual_advance(&rig->clock, ms * MS);
    size_t count = tw_runner_dispatch(rig->runner, SIZE_MAX);
    tw_runner_check(rig->runner);
    return count;
}

static struct tw_runner_stats stats_of(struct runner_rig *rig)
{
    struct tw_runner_stats stats;
    tw_runner_wheel_stats(rig->wheel, &stats);
    return stats;
}

static void fires_within_a_tick_and_not_before(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    struct tw_instant deadline = in_ms(&rig, 10); /* a nanosecond after a tick */
    tw_handle timer = tw_runner_schedule(rig.wheel, deadline, 77);
    assert_true(timer != TW_NONE);
    assert_int_equal(pass_ms(&rig, 0), 0);
    assert_int_equal(pass_ms(&rig, 10), 0); /* the tick in which it lies has begun before it */
    assert_int_equal(tw_runner_wake_at(rig.runner).ns, 16 * MS);
    assert_int_equal(pass_ms(&rig, 1), 1);
    assert_int_equal(rig.seen[0].data, 77);
    assert_int_equal(rig.seen[0].deadline, deadline.ns);
    assert_int_equal(rig.seen[0].timer, timer);
    assert_int_equal(tw_runner_wake_at(rig.runner).ns, TW_INSTANT_NEVER_NS);
    assert_int_equal(tw_runner_cancel(rig.wheel, timer), TW_RUNNER_DONE);
    rig_deinit(&rig);
}

static void cancelled_is_told_from_done(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    tw_handle timer = tw_runner_schedule(rig.wheel, in_ms(&rig, 3), 1);
    assert_int_equal(tw_runner_cancel(rig.wheel, timer), TW_RUNNER_OK);
    assert_int_equal(tw_runner_cancel(rig.wheel, timer), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_reschedule(rig.wheel, timer, in_ms(&rig, 1)), TW_RUNNER_DONE);
    tw_handle second = tw_runner_schedule(rig.wheel, in_ms(&rig, 4), 2);
    assert_true(second != timer);
    assert_int_equal((uint32_t)second, (uint32_t)timer); /* one slot, another generation */
    assert_int_equal(tw_runner_cancel(rig.wheel, timer), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_cancel(rig.wheel, TW_NONE), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_cancel(rig.wheel, UINT64_MAX), TW_RUNNER_DONE);
    assert_int_equal(pass_ms(&rig, 10), 1);
    assert_int_equal(rig.seen[0].data, 2);
    rig_deinit(&rig);
}

static void cancel_own(struct runner_rig *rig, const struct tw_expired *due)
{
    rig->answer = tw_runner_cancel(rig->wheel, due->timer);
    assert_int_equal(tw_runner_reschedule(rig->wheel, due->timer, in_ms(rig, 1)),
                     TW_RUNNER_RUNNING);
}

static void running_is_told_from_both(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    rig.during = cancel_own;
    assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, 3), 1) != TW_NONE);
    assert_int_equal(pass_ms(&rig, 10), 1);
    assert_int_equal(rig.answer, TW_RUNNER_RUNNING);
    assert_int_equal(pass_ms(&rig, 10), 0);
    assert_int_equal(stats_of(&rig).held, 0);
    rig_deinit(&rig);
}

static void cancel_other(struct runner_rig *rig, const struct tw_expired *due)
{
    (void)due;
    rig->answer = tw_runner_cancel(rig->wheel, rig->other);
}

/* The sibling is due at the same tick. In the same batch it counts as running; else it is taken
 * out, and does not fire. */
static void a_sibling_of_the_same_tick_can_be_cancelled(void **state)
{
    (void)state;
    for (size_t batch = 1; batch <= 2; batch++) {
        struct runner_rig rig;
        rig_init_with(&rig, (struct tw_runner_wheel_options){.batch_count_max = batch});
        rig.during = cancel_other;
        tw_handle first = tw_runner_schedule(rig.wheel, in_ms(&rig, 3), 1);
        rig.other = tw_runner_schedule(rig.wheel, in_ms(&rig, 3), 2);
        assert_true(first != TW_NONE && rig.other != TW_NONE);
        assert_int_equal(pass_ms(&rig, 10), batch);
        assert_int_equal(rig.answer, batch == 1 ? TW_RUNNER_OK : TW_RUNNER_RUNNING);
        rig_deinit(&rig);
    }
}

static void a_deadline_moves_later_and_sooner(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    tw_handle later = tw_runner_schedule(rig.wheel, in_ms(&rig, 5), 1);
    tw_handle sooner = tw_runner_schedule(rig.wheel, in_ms(&rig, 5000), 2);
    assert_int_equal(pass_ms(&rig, 1), 0);
    assert_int_equal(tw_runner_reschedule(rig.wheel, later, in_ms(&rig, 100)), TW_RUNNER_OK);
    assert_int_equal(tw_runner_reschedule(rig.wheel, sooner, in_ms(&rig, 10)), TW_RUNNER_OK);
    assert_int_equal(pass_ms(&rig, 20), 1);
    assert_int_equal(rig.seen[0].data, 2);
    assert_int_equal(pass_ms(&rig, 79), 0);
    assert_int_equal(pass_ms(&rig, 2), 1);
    assert_int_equal(rig.seen[1].data, 1);
    rig_deinit(&rig);
}

static void a_deadline_that_never_comes_can_be_moved(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    struct tw_instant never = {TW_INSTANT_NEVER_NS};
    tw_handle timer = tw_runner_schedule(rig.wheel, never, 1);
    tw_handle last = tw_runner_schedule(rig.wheel, (struct tw_instant){UINT64_MAX - 1}, 2);
    assert_int_equal(pass_ms(&rig, 1000), 0);
    assert_int_equal(stats_of(&rig).pending, 2);
    assert_int_equal(tw_runner_reschedule(rig.wheel, timer, in_ms(&rig, 1)), TW_RUNNER_OK);
    assert_int_equal(pass_ms(&rig, 2), 1);
    assert_int_equal(tw_runner_cancel(rig.wheel, last), TW_RUNNER_OK);
    rig_deinit(&rig);
    /* Not at the end of time either, where ticks of a nanosecond are. */
    rig_init_with(&rig, (struct tw_runner_wheel_options){.tick_ns = 1});
    timer = tw_runner_schedule(rig.wheel, never, 1);
    tw_virtual_set(&rig.clock, (struct tw_instant){UINT64_MAX - 1});
    assert_int_equal(pass_ms(&rig, 0), 0);
    assert_int_equal(tw_runner_cancel(rig.wheel, timer), TW_RUNNER_OK);
    rig_deinit(&rig);
}

static void arm_again(struct runner_rig *rig, const struct tw_expired *due)
{
    if (rig->seen_count < 5)
        assert_int_equal(tw_runner_arm(rig->wheel, due->timer, in_ms(rig, 10)), TW_RUNNER_OK);
}

static void an_opened_timer_is_armed_many_times(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    rig.during = arm_again; /* also while its handler runs */
    tw_handle timer = tw_runner_open(rig.wheel, 9);
    assert_int_equal(pass_ms(&rig, 100), 0);
    assert_int_equal(tw_runner_disarm(rig.wheel, timer), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_arm(rig.wheel, timer, in_ms(&rig, 10)), TW_RUNNER_OK);
    for (int i = 0; i < 100; i++)
        (void)pass_ms(&rig, 1);
    assert_int_equal(rig.seen_count, 5);
    assert_int_equal(rig.seen[4].timer, timer);
    assert_int_equal(tw_runner_arm(rig.wheel, timer, in_ms(&rig, 10)), TW_RUNNER_OK);
    assert_int_equal(stats_of(&rig).pending, 1);
    assert_int_equal(tw_runner_disarm(rig.wheel, timer), TW_RUNNER_OK);
    assert_int_equal(tw_runner_disarm(rig.wheel, timer), TW_RUNNER_DONE);
    assert_int_equal(pass_ms(&rig, 100), 0);
    assert_int_equal(tw_runner_arm(rig.wheel, timer, in_ms(&rig, 10)), TW_RUNNER_OK);
    assert_int_equal(tw_runner_close(rig.wheel, timer), TW_RUNNER_OK);
    assert_int_equal(tw_runner_close(rig.wheel, timer), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_arm(rig.wheel, timer, in_ms(&rig, 1)), TW_RUNNER_DONE);
    assert_int_equal(pass_ms(&rig, 100), 0);
    assert_int_equal(stats_of(&rig).held, 0);
    rig_deinit(&rig);
}

static void the_earliest_of_several_counts(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    tw_handle timer = tw_runner_open(rig.wheel, 9);
    assert_int_equal(tw_runner_arm_sooner(rig.wheel, timer, in_ms(&rig, 50)), TW_RUNNER_OK);
    assert_int_equal(tw_runner_arm_sooner(rig.wheel, timer, in_ms(&rig, 20)), TW_RUNNER_OK);
    assert_int_equal(tw_runner_arm_sooner(rig.wheel, timer, in_ms(&rig, 90)), TW_RUNNER_OK);
    assert_int_equal(pass_ms(&rig, 19), 0);
    assert_int_equal(pass_ms(&rig, 2), 1);
    /* What it had is over and does not count any more. */
    assert_int_equal(tw_runner_arm_sooner(rig.wheel, timer, in_ms(&rig, 30)), TW_RUNNER_OK);
    assert_int_equal(pass_ms(&rig, 29), 0);
    assert_int_equal(pass_ms(&rig, 2), 1);
    assert_int_equal(tw_runner_close(rig.wheel, timer), TW_RUNNER_OK);
    rig_deinit(&rig);
}

static void disarm_own(struct runner_rig *rig, const struct tw_expired *due)
{
    assert_int_equal(tw_runner_disarm(rig->wheel, due->timer), TW_RUNNER_RUNNING);
    assert_int_equal(tw_runner_arm(rig->wheel, due->timer, in_ms(rig, 1)), TW_RUNNER_OK);
    rig->answer = tw_runner_close(rig->wheel, due->timer);
    assert_int_equal(tw_runner_close(rig->wheel, due->timer), TW_RUNNER_DONE);
    /* A timer that takes its slot meanwhile is another: it is not running. */
    rig->other = tw_runner_open(rig->wheel, 1);
    assert_true(rig->other != due->timer);
    assert_int_equal(tw_runner_disarm(rig->wheel, due->timer), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_disarm(rig->wheel, rig->other), TW_RUNNER_DONE);
}

static void an_opened_timer_can_be_closed_by_its_handler(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    rig.during = disarm_own;
    tw_handle timer = tw_runner_open(rig.wheel, 9);
    assert_int_equal(tw_runner_arm(rig.wheel, timer, in_ms(&rig, 1)), TW_RUNNER_OK);
    assert_int_equal(pass_ms(&rig, 10), 1);
    assert_int_equal(rig.answer, TW_RUNNER_RUNNING);
    assert_int_equal(pass_ms(&rig, 10), 0);
    assert_int_equal(stats_of(&rig).held, 1);
    rig_deinit(&rig);
}

/* Goal: time-outs that are always cancelled, or always extended, do not wake the runner. Method: a
 * hundred thousand of each; wake_at stays after the runner has looked once. */
static void pairs_and_moves_wake_nobody(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    tw_handle moved = tw_runner_schedule(rig.wheel, in_ms(&rig, 30000), 1);
    assert_int_equal(pass_ms(&rig, 1), 0);
    uint64_t wake_ns = tw_runner_wake_at(rig.runner).ns;
    for (uint64_t i = 0; i < 100000; i++) {
        tw_handle timer = tw_runner_schedule(rig.wheel, in_ms(&rig, 30000 + i), 1);
        assert_int_equal(tw_runner_cancel(rig.wheel, timer), TW_RUNNER_OK);
        assert_int_equal(tw_runner_reschedule(rig.wheel, moved, in_ms(&rig, 60000 + i)),
                         TW_RUNNER_OK);
    }
    assert_int_equal(tw_runner_wake_at(rig.runner).ns, wake_ns);
    rig_deinit(&rig);
}

/* Netty #2541: cancelled timers held memory until their bucket came round. */
static void netty_2541_cancelled_timers_hold_no_memory(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    size_t memory = 0;
    for (uint64_t i = 0; i < 300000; i++) {
        tw_handle timer = tw_runner_schedule(rig.wheel, in_ms(&rig, 3600000 - i), i);
        assert_int_equal(tw_runner_cancel(rig.wheel, timer), TW_RUNNER_OK);
        if (i % 1000 == 0)
            (void)tw_runner_dispatch(rig.runner, SIZE_MAX);
        if (i == 10000)
            memory = stats_of(&rig).memory;
    }
    tw_runner_check(rig.runner);
    assert_true(memory > 0 && stats_of(&rig).memory == memory);
    rig_deinit(&rig);
}

static void the_limit_is_exact(void **state)
{
    (void)state;
    static const size_t limits[] = {1, 2, 63, 64, 65, 1000};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct runner_rig rig;
        rig_init_with(&rig, (struct tw_runner_wheel_options){.timer_count_max = limits[i]});
        tw_handle timers[1001];
        for (size_t j = 0; j < limits[i]; j++)
            assert_true((timers[j] = tw_runner_schedule(rig.wheel, in_ms(&rig, j), j)) != TW_NONE);
        assert_int_equal(tw_runner_schedule(rig.wheel, in_ms(&rig, 1), 1), TW_NONE);
        assert_int_equal(tw_runner_open(rig.wheel, 1), TW_NONE);
        assert_int_equal(stats_of(&rig).held, limits[i]);
        assert_int_equal(tw_runner_cancel(rig.wheel, timers[limits[i] / 2]), TW_RUNNER_OK);
        assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, 1), 1) != TW_NONE);
        assert_int_equal(tw_runner_schedule(rig.wheel, in_ms(&rig, 1), 1), TW_NONE);
        assert_int_equal(pass_ms(&rig, 2000), limits[i]);
        for (size_t j = 0; j < limits[i]; j++)
            assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, j), j) != TW_NONE);
        assert_int_equal(tw_runner_schedule(rig.wheel, in_ms(&rig, 1), 1), TW_NONE);
        rig_deinit(&rig);
    }
}

static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    size_t refused = 0, calls = SIZE_MAX;
    for (size_t n = 0; n < calls; n++) {
        struct allocator allocator = {.calls_left = n};
        struct runner_rig rig;
        memset(&rig, 0, sizeof(rig));
        assert_true(tw_virtual_init(&rig.clock, (struct tw_instant){0}));
        rig.runner = tw_runner_create(&(struct tw_runner_options){.clock = &rig.clock.clock,
                                                                  .allocate = allocator_take,
                                                                  .release = allocator_give,
                                                                  .context = &allocator});
        struct tw_runner_wheel_options options = {.handler = note, .context = &rig};
        rig.wheel = rig.runner ? tw_runner_add(rig.runner, &options) : NULL;
        size_t taken = 0;
        for (uint64_t i = 0; rig.wheel && i < 3000; i++)
            taken += tw_runner_schedule(rig.wheel, in_ms(&rig, i), i) != TW_NONE;
        refused += taken < 3000;
        if (rig.wheel) {
            assert_int_equal(pass_ms(&rig, 4000), taken);
            assert_true(stats_of(&rig).memory <= allocator.bytes);
        }
        if (taken == 3000)
            calls = allocator.calls;
        rig_deinit(&rig);
        assert_int_equal(allocator.bytes, 0);
    }
    assert_true(refused > 10);
}

static void stop_hands_back_what_did_not_fire(void **state)
{
    (void)state;
    struct runner_rig rig;
    static unsigned char found[300];
    memset(found, 0, sizeof(found));
    rig_init(&rig);
    tw_handle timers[300];
    for (uint64_t i = 0; i < 300; i++)
        timers[i] = tw_runner_schedule(rig.wheel, in_ms(&rig, i), i);
    tw_handle opened = tw_runner_open(rig.wheel, 300), armed = tw_runner_open(rig.wheel, 0);
    assert_int_equal(tw_runner_arm(rig.wheel, armed, in_ms(&rig, 500)), TW_RUNNER_OK);
    assert_int_equal(pass_ms(&rig, 0), 1); /* due when it was scheduled */
    assert_int_equal(pass_ms(&rig, 100), 99);
    assert_int_equal(tw_runner_cancel(rig.wheel, timers[200]), TW_RUNNER_OK);
    tw_runner_stop(rig.runner);
    tw_runner_stop(rig.runner);
    assert_int_equal(tw_runner_schedule(rig.wheel, in_ms(&rig, 1), 1), TW_NONE);
    assert_int_equal(tw_runner_open(rig.wheel, 1), TW_NONE);
    assert_int_equal(tw_runner_arm(rig.wheel, opened, in_ms(&rig, 1)), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_cancel(rig.wheel, timers[201]), TW_RUNNER_OK);
    assert_int_equal(tw_runner_dispatch(rig.runner, SIZE_MAX), 0);
    struct tw_expired left[7];
    size_t sum = 0;
    for (size_t n; (n = tw_runner_take_left(rig.wheel, left, 7)) > 0; sum += n)
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(found[left[i].data]++, 0);
            assert_int_equal(left[i].deadline, left[i].data ? 5 * MS + 1 + left[i].data * MS
                                                            : 505 * UINT64_C(1000000) + 1);
        }
    assert_int_equal(sum, 300 - 100 - 2 + 1);
    assert_int_equal(tw_runner_cancel(rig.wheel, timers[250]), TW_RUNNER_DONE);
    assert_int_equal(stats_of(&rig).pending, 0);
    tw_runner_check(rig.runner);
    rig_deinit(&rig);
}

static void wheels_of_one_runner_have_their_own_ticks(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    struct runner_rig coarse = {.runner = rig.runner};
    struct tw_runner_wheel_options options = {
        .handler = note, .context = &coarse, .tick_ns = 100 * MS};
    coarse.wheel = tw_runner_add(rig.runner, &options);
    assert_true(tw_runner_schedule(coarse.wheel, in_ms(&rig, 10), 2) != TW_NONE);
    assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, 10), 1) != TW_NONE);
    assert_int_equal(pass_ms(&rig, 0), 0);
    assert_int_equal(pass_ms(&rig, 11), 1);
    assert_int_equal(tw_runner_wake_at(rig.runner).ns, 100 * MS);
    assert_int_equal(pass_ms(&rig, 83), 0);
    assert_int_equal(pass_ms(&rig, 1), 1);
    assert_int_equal(coarse.seen_count, 1);
    rig_deinit(&rig);
}

static void figures_say_how_late(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init_with(&rig, (struct tw_runner_wheel_options){.tick_ns = 1});
    for (uint64_t i = 1; i <= 1000; i++)
        assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, i), 1) != TW_NONE);
    assert_int_equal(pass_ms(&rig, 1000), 1000); /* late by 0 to 999 ms */
    struct tw_runner_stats stats = stats_of(&rig);
    assert_in_range(stats.late_ns_p50, 499 * MS, 532 * MS);
    assert_in_range(stats.late_ns_p90, 899 * MS, 960 * MS);
    assert_in_range(stats.late_ns_p99, 989 * MS, 999 * MS);
    assert_int_equal(stats.late_ns_max, 999 * MS);
    assert_int_equal(stats.late_ns_p999, 999 * MS);
    assert_int_equal(stats.callbacks, 1000 / BATCH_DEFAULT + 1);
    assert_int_equal(stats.callbacks, rig.calls);
    assert_int_equal(stats.callback_ns_max, 0);
    assert_int_equal(stats.scheduled, 1000);
    assert_int_equal(stats.fired, 1000);
    assert_int_equal(stats.cancelled + stats.pending + stats.held, 0);
    struct tw_wheel_occupancy occupancy;
    tw_runner_wheel_occupancy(rig.wheel, &occupancy);
    assert_true(occupancy.entry_count >= occupancy.bucket_count && occupancy.entry_count <= 1000);
    rig_deinit(&rig);
}

static void the_histogram_is_off_by_a_sixteenth_at_most(void **state)
{
    (void)state;
    static const uint64_t samples[] = {
        0, 1, 15, 16, 17, 31, 32, 1000, 123456789, UINT64_MAX / 3, UINT64_MAX};
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct runner_histogram histogram;
        memset(&histogram, 0, sizeof(histogram));
        assert_int_equal(tw__histogram_at(&histogram, 500), 0);
        tw__histogram_add(&histogram, samples[i]);
        assert_int_equal(tw__histogram_at(&histogram, 500), samples[i]); /* never above the max */
        tw__histogram_add(&histogram, UINT64_MAX);
        uint64_t half = tw__histogram_at(&histogram, 500);
        assert_true(half >= samples[i] && half - samples[i] <= samples[i] / 16);
        assert_int_equal(tw__histogram_at(&histogram, 1000), UINT64_MAX);
    }
}

/* A clock that is set back: nothing fires twice, the runner neither spins nor stops for good. A
 * clock that leaps, as after a suspend: all that was missed fires once. */
static void clocks_that_step_do_no_harm(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    for (uint64_t i = 1; i <= 100; i++)
        assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, 10 * i), i) != TW_NONE);
    assert_int_equal(pass_ms(&rig, 505), 50);
    struct tw_instant before = tw_clock_now(&rig.clock.clock);
    tw_virtual_set(&rig.clock, (struct tw_instant){5 * MS + 1});
    assert_int_equal(pass_ms(&rig, 100), 0);
    tw_virtual_set(&rig.clock, before);
    assert_int_equal(pass_ms(&rig, 4), 0);
    assert_int_equal(pass_ms(&rig, 2), 1);
    assert_int_equal(pass_ms(&rig, 86400000), 49);
    assert_int_equal(pass_ms(&rig, 86400000), 0);
    rig_deinit(&rig);
}

/* Chronos #221: an update that arrived during the callback was overwritten. */
static void chronos_221_an_update_during_the_callback_counts(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    rig.during = arm_again;
    tw_handle timer = tw_runner_open(rig.wheel, 9);
    assert_int_equal(tw_runner_arm(rig.wheel, timer, in_ms(&rig, 1)), TW_RUNNER_OK);
    assert_int_equal(pass_ms(&rig, 2), 1);
    assert_int_equal(stats_of(&rig).pending, 1);
    assert_int_equal(pass_ms(&rig, 11), 1);
    rig_deinit(&rig);
}

static bool is_readable(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, 0) == 1;
}

static void the_descriptor_is_readable_when_there_is_something_to_do(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init(&rig);
    int fd = tw_runner_fd(rig.runner);
    assert_true(fd >= 0 && tw_runner_fd(rig.runner) == fd);
    assert_true(is_readable(fd)); /* what came before wants a look */
    assert_int_equal(pass_ms(&rig, 0), 0);
    assert_false(is_readable(fd));
    assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, 100), 1) != TW_NONE);
    assert_true(is_readable(fd)); /* sooner than never */
    assert_int_equal(pass_ms(&rig, 0), 0);
    assert_false(is_readable(fd));
    assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, 200), 2) != TW_NONE);
    assert_false(is_readable(fd)); /* later than what it waits for: no need to look */
    tw_handle sooner = tw_runner_schedule(rig.wheel, in_ms(&rig, 50), 3);
    assert_true(is_readable(fd));
    assert_int_equal(pass_ms(&rig, 0), 0);
    assert_int_equal(tw_runner_cancel(rig.wheel, sooner), TW_RUNNER_OK);
    assert_false(is_readable(fd));
    assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, 100), 4) != TW_NONE);
    tw_virtual_advance(&rig.clock, 150 * MS);
    size_t handled = tw_runner_dispatch(rig.runner, 1);
    assert_true(handled >= 1);
    assert_int_equal(handled + pass_ms(&rig, 0), 2);
    assert_false(is_readable(fd));
    rig_deinit(&rig);
}

/* The same in real time: the descriptor alone says when. */
static void the_descriptor_waits_for_the_deadline(void **state)
{
    (void)state;
    struct runner_rig rig = {0};
    rig.runner = tw_runner_create(NULL);
    rig.wheel = tw_runner_add(rig.runner, &(struct tw_runner_wheel_options){
                                              .handler = note, .context = &rig, .tick_ns = 1000});
    int fd = tw_runner_fd(rig.runner);
    struct tw_instant soon = tw_instant_add(tw_runner_now(rig.runner), 5 * MS);
    assert_true(tw_runner_schedule(rig.wheel, soon, 1) != TW_NONE);
    while (rig.seen_count == 0) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&wanted, 1, 60000), 1);
        (void)tw_runner_dispatch(rig.runner, SIZE_MAX);
    }
    assert_true(tw_runner_now(rig.runner).ns >= soon.ns);
    assert_true(tw_runner_wakes(rig.runner) <= 3);
    tw_runner_destroy(rig.runner);
}

static void dispatch_is_bounded_by_its_limit(void **state)
{
    (void)state;
    struct runner_rig rig;
    rig_init_with(&rig, (struct tw_runner_wheel_options){.batch_count_max = 4});
    int fd = tw_runner_fd(rig.runner);
    for (int i = 0; i < 100; i++)
        assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, 1), 1) != TW_NONE);
    tw_virtual_advance(&rig.clock, 10 * MS);
    for (size_t handled = 0; handled < 100; handled += 4) {
        assert_true(is_readable(fd));
        assert_int_equal(tw_runner_dispatch(rig.runner, 3), 4);
    }
    assert_int_equal(tw_runner_dispatch(rig.runner, 3), 0);
    assert_false(is_readable(fd));
    rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fires_within_a_tick_and_not_before),
        cmocka_unit_test(cancelled_is_told_from_done),
        cmocka_unit_test(running_is_told_from_both),
        cmocka_unit_test(a_sibling_of_the_same_tick_can_be_cancelled),
        cmocka_unit_test(a_deadline_moves_later_and_sooner),
        cmocka_unit_test(a_deadline_that_never_comes_can_be_moved),
        cmocka_unit_test(an_opened_timer_is_armed_many_times),
        cmocka_unit_test(the_earliest_of_several_counts),
        cmocka_unit_test(an_opened_timer_can_be_closed_by_its_handler),
        cmocka_unit_test(pairs_and_moves_wake_nobody),
        cmocka_unit_test(netty_2541_cancelled_timers_hold_no_memory),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(without_memory_nothing_is_lost),
        cmocka_unit_test(stop_hands_back_what_did_not_fire),
        cmocka_unit_test(wheels_of_one_runner_have_their_own_ticks),
        cmocka_unit_test(figures_say_how_late),
        cmocka_unit_test(the_histogram_is_off_by_a_sixteenth_at_most),
        cmocka_unit_test(clocks_that_step_do_no_harm),
        cmocka_unit_test(chronos_221_an_update_during_the_callback_counts),
        cmocka_unit_test(the_descriptor_is_readable_when_there_is_something_to_do),
        cmocka_unit_test(the_descriptor_waits_for_the_deadline),
        cmocka_unit_test(dispatch_is_bounded_by_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
