/*
 * runner_lane_test.c - what the lanes of a runner share: the limit, the order of due timers, the
 * clock, memory. Threads with lanes of their own act one after the other, in virtual time and in
 * dispatch mode.
 */
#include "runner_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000000 };

/* A runner on virtual time. */
struct lane_rig {
    struct tw_virtual clock;
    struct tw_runner *runner;
    struct tw_runner_wheel *wheel;
    uint64_t last_ns; /* deadline handled last */
    bool is_in_order; /* each deadline was at or after the one before */
};

static void note_order(void *context, const struct tw_expired *due, size_t count)
{
    struct lane_rig *rig = context;
    for (size_t i = 0; i < count; i++) {
        rig->is_in_order = rig->is_in_order && rig->last_ns <= due[i].deadline;
        rig->last_ns = due[i].deadline;
    }
}

static void lane_rig_init(struct lane_rig *rig, struct tw_runner_wheel_options options)
{
    memset(rig, 0, sizeof(*rig));
    rig->is_in_order = true;
    assert_true(tw_virtual_init(&rig->clock, (struct tw_instant){5 * MS + 1}));
    rig->runner = tw_runner_create(&(struct tw_runner_options){.clock = &rig->clock.clock});
    assert_non_null(rig->runner);
    options.handler = note_order;
    options.context = rig;
    rig->wheel = tw_runner_add(rig->runner, &options);
    assert_non_null(rig->wheel);
}

static void lane_rig_deinit(struct lane_rig *rig)
{
    tw_runner_check(rig->runner);
    tw_runner_destroy(rig->runner);
    tw_virtual_deinit(&rig->clock);
}

static struct tw_instant in_ms(const struct lane_rig *rig, uint64_t ms)
{
    return tw_instant_after(&rig->clock.clock, ms * MS);
}

static size_t lane_pass_ms(struct lane_rig *rig, uint64_t ms)
{
    tw_virtual_advance(&rig->clock, ms * MS);
    return tw_runner_dispatch(rig->runner, SIZE_MAX);
}

static struct tw_runner_stats stats_of(struct lane_rig *rig)
{
    struct tw_runner_stats stats;
    tw_runner_wheel_stats(rig->wheel, &stats);
    return stats;
}

/* Threads that act one after the other, and live until all have acted: so they have different
 * identities, and mostly different lanes. */
struct turn {
    void (*act)(struct turn *turn);
    struct lane_rig *rig;
    tw_handle *timers;
    size_t count, taken;
    uint64_t first_ms;
    sem_t begin, done, end;
    pthread_t thread;
};

enum { TURNS_MAX = 24 };

static void *take_turn(void *argument)
{
    struct turn *turn = argument;
    (void)sem_wait(&turn->begin);
    turn->act(turn);
    (void)sem_post(&turn->done);
    (void)sem_wait(&turn->end);
    return NULL;
}

static void take_turns(struct turn *turns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(sem_init(&turns[i].begin, 0, 0), 0);
        assert_int_equal(sem_init(&turns[i].done, 0, 0), 0);
        assert_int_equal(sem_init(&turns[i].end, 0, 0), 0);
        assert_int_equal(pthread_create(&turns[i].thread, NULL, take_turn, &turns[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        (void)sem_post(&turns[i].begin);
        (void)sem_wait(&turns[i].done);
    }
    for (size_t i = 0; i < count; i++) {
        (void)sem_post(&turns[i].end);
        assert_int_equal(pthread_join(turns[i].thread, NULL), 0);
        (void)sem_destroy(&turns[i].begin);
        (void)sem_destroy(&turns[i].done);
        (void)sem_destroy(&turns[i].end);
    }
}

static void act_cancel(struct turn *turn)
{
    assert_int_equal(tw_runner_cancel(turn->rig->wheel, turn->timers[0]), TW_RUNNER_OK);
}

/* One timer a millisecond, until `count` or the first that is refused. */
static void act_schedule(struct turn *turn)
{
    for (turn->taken = 0; turn->taken < turn->count; turn->taken++) {
        struct tw_instant deadline = in_ms(turn->rig, turn->first_ms + turn->taken);
        tw_handle timer = tw_runner_schedule(turn->rig->wheel, deadline, turn->taken);
        if (timer == TW_NONE)
            return;
        if (turn->timers)
            turn->timers[turn->taken] = timer;
    }
}

static void act_schedule_and_cancel(struct turn *turn)
{
    act_schedule(turn);
    assert_int_equal(turn->taken, turn->count);
    for (size_t i = 0; i < turn->count; i++)
        assert_int_equal(tw_runner_cancel(turn->rig->wheel, turn->timers[i]), TW_RUNNER_OK);
}

/* Goal: a place is free whichever thread cancels. Method: other threads cancel. */
static void the_limit_counts_what_other_threads_gave_back(void **state)
{
    (void)state;
    struct lane_rig rig;
    tw_handle other = TW_NONE;
    lane_rig_init(&rig, (struct tw_runner_wheel_options){.timer_count_max = 8});
    for (int i = 0; i < 8; i++)
        other = tw_runner_schedule(rig.wheel, in_ms(&rig, 10), 1);
    for (int i = 0; i < 20; i++) {
        struct turn turn = {.act = act_cancel, .rig = &rig, .timers = &other};
        take_turns(&turn, 1);
        other = tw_runner_schedule(rig.wheel, in_ms(&rig, 10), 1);
        assert_true(other != TW_NONE);
        assert_int_equal(tw_runner_schedule(rig.wheel, in_ms(&rig, 10), 1), TW_NONE);
    }
    tw_runner_check(rig.runner);
    lane_rig_deinit(&rig);
}

/* Goal: the limit is exact over all lanes. Method: several threads take one place each, of the 64
 * that their lanes are granted; the last takes the others. */
static void the_limit_is_exact_over_lanes(void **state)
{
    (void)state;
    struct lane_rig rig;
    struct turn turns[5];
    lane_rig_init(&rig, (struct tw_runner_wheel_options){.timer_count_max = 150});
    for (size_t i = 0; i < 5; i++)
        turns[i] = (struct turn){
            .act = act_schedule, .rig = &rig, .count = i < 4 ? 1 : 1000, .first_ms = 1};
    take_turns(turns, 5);
    assert_int_equal(turns[4].taken, 150 - 4);
    assert_int_equal(tw_runner_schedule(rig.wheel, in_ms(&rig, 1), 1), TW_NONE);
    assert_int_equal(lane_pass_ms(&rig, 1000), 150);
    assert_int_equal(stats_of(&rig).held, 0);
    lane_rig_deinit(&rig);
}

/* Goal: timers of all lanes are handled in the order of their ticks. Method: threads schedule at
 * ticks that overlap, and the runner is late for all of them. */
static void lanes_are_handled_in_order(void **state)
{
    (void)state;
    struct lane_rig rig;
    struct turn turns[4];
    lane_rig_init(&rig, (struct tw_runner_wheel_options){0});
    for (size_t i = 0; i < 4; i++)
        turns[i] = (struct turn){
            .act = act_schedule, .rig = &rig, .count = 500, .first_ms = 1000 - 150 * i};
    take_turns(turns, 4);
    assert_int_equal(lane_pass_ms(&rig, 2000), 2000);
    assert_true(rig.is_in_order);
    lane_rig_deinit(&rig);
}

/* Goal: an instant that the clock has shown counts for all lanes. Method: two lanes have a due
 * timer, one is handled, and the clock is set back. */
static void a_clock_set_back_counts_for_all_lanes(void **state)
{
    (void)state;
    struct lane_rig rig;
    struct turn turns[2];
    lane_rig_init(&rig, (struct tw_runner_wheel_options){.batch_count_max = 1});
    for (size_t i = 0; i < 2; i++)
        turns[i] =
            (struct turn){.act = act_schedule, .rig = &rig, .count = 1, .first_ms = 100 + 100 * i};
    take_turns(turns, 2);
    assert_int_equal(lane_pass_ms(&rig, 1), 0);
    tw_virtual_advance(&rig.clock, 500 * MS);
    assert_int_equal(tw_runner_dispatch(rig.runner, 1), 1);
    tw_virtual_set(&rig.clock, (struct tw_instant){5 * MS + 1});
    assert_int_equal(tw_runner_dispatch(rig.runner, 1), 1);
    lane_rig_deinit(&rig);
}

/* Goal: memory follows the most timers held at once, not the threads that held them. Method: many
 * threads, one after the other, each hold and cancel 20,000 timers. */
static void memory_is_shared_by_threads(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct lane_rig rig;
    struct turn turns[TURNS_MAX];
    tw_handle *timers = calloc(COUNT, sizeof(*timers));
    assert_non_null(timers);
    lane_rig_init(&rig, (struct tw_runner_wheel_options){0});
    for (size_t i = 0; i < TURNS_MAX; i++)
        turns[i] = (struct turn){.act = act_schedule_and_cancel,
                                 .rig = &rig,
                                 .timers = timers,
                                 .count = COUNT,
                                 .first_ms = 1};
    take_turns(turns, TURNS_MAX);
    uint64_t reserved = atomic_load(&rig.wheel->reserved);
    printf("%d threads, %d timers at once: memory for %" PRIu64 ", %zu bytes\n", TURNS_MAX, COUNT,
           reserved, stats_of(&rig).memory);
    assert_in_range(reserved, COUNT, 2 * (COUNT + GRANT) + (LANES + 1) * STEP_MAX);
    tw_runner_check(rig.runner);
    free(timers);
    lane_rig_deinit(&rig);
}

/* A deadline is rounded up to its tick without overflow, on both sides of 2^63 ns and just before
 * the instant that is never reached: no timer is early or lost. */
static void deadlines_are_rounded_up_at_the_ends_of_time(void **state)
{
    const uint64_t starts[] = {(UINT64_C(1) << 63) - 2 * MS - 7, UINT64_MAX - 9 * MS};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct lane_rig rig;
        lane_rig_init(&rig, (struct tw_runner_wheel_options){0});
        tw_virtual_set(&rig.clock, (struct tw_instant){starts[i]});
        for (uint64_t ms = 1; ms <= 4; ms++)
            assert_true(tw_runner_schedule(rig.wheel, in_ms(&rig, ms), ms) != TW_NONE);
        struct tw_instant never = {TW_INSTANT_NEVER_NS};
        assert_true(tw_runner_schedule(rig.wheel, never, 5) != TW_NONE);
        size_t fired = 0;
        for (uint64_t ms = 1; ms <= 5; ms++) {
            fired += lane_pass_ms(&rig, 1);
            assert_true(rig.last_ns <= tw_runner_now(rig.runner).ns);
            assert_true(fired == ms || fired == ms - 1); /* a tick late at most */
        }
        assert_int_equal(fired, 4);
        lane_rig_deinit(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_counts_what_other_threads_gave_back),
        cmocka_unit_test(the_limit_is_exact_over_lanes),
        cmocka_unit_test(lanes_are_handled_in_order),
        cmocka_unit_test(a_clock_set_back_counts_for_all_lanes),
        cmocka_unit_test(memory_is_shared_by_threads),
        cmocka_unit_test(deadlines_are_rounded_up_at_the_ends_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
