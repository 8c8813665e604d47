/*
 * runner_lessons_test.c - goal: scenes in which a runner once hung, spun, woke for nothing or
 * starved stay mended. Method: each scene by itself, in virtual time and in dispatch mode; a scene
 * that hangs is ended by an alarm.
 */
#include "runner_private.h"

#include <tickwheel/executor.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define S UINT64_C(1000000000)

enum { MS = 1000000, HANGS_AFTER_S = 60, CHILD_HANGS_AFTER_S = 10, FIRED_MAX = 64 };

/* A runner on virtual time, and the data of its last fired timers. */
struct runner_lesson {
    struct tw_virtual clock;
    struct tw_runner *runner;
    struct tw_runner_wheel *wheel;
    uint64_t fired[FIRED_MAX];
    size_t fired_count;
};

static void lesson_note(void *context, const struct tw_expired *due, size_t count)
{
    struct runner_lesson *lesson = context;
    for (size_t i = 0; i < count; i++)
        lesson->fired[lesson->fired_count++ % FIRED_MAX] = due[i].data;
}

static void lesson_init_with(struct runner_lesson *lesson, uint64_t start_ns,
                             struct tw_runner_wheel_options options)
{
    memset(lesson, 0, sizeof(*lesson));
    alarm(HANGS_AFTER_S);
    assert_true(tw_virtual_init(&lesson->clock, (struct tw_instant){start_ns}));
    lesson->runner = tw_runner_create(&(struct tw_runner_options){.clock = &lesson->clock.clock});
    assert_non_null(lesson->runner);
    options.context = lesson; /* the first member of a larger one, perhaps */
    options.handler = options.handler ? options.handler : lesson_note;
    lesson->wheel = tw_runner_add(lesson->runner, &options);
    assert_non_null(lesson->wheel);
}

static void lesson_init(struct runner_lesson *lesson, uint64_t start_ns)
{
    lesson_init_with(lesson, start_ns, (struct tw_runner_wheel_options){0});
}

static void lesson_deinit(struct runner_lesson *lesson)
{
    tw_runner_check(lesson->runner);
    tw_runner_destroy(lesson->runner);
    tw_virtual_deinit(&lesson->clock);
    alarm(0);
}

static struct tw_instant at(uint64_t ns)
{
    return (struct tw_instant){ns};
}

/* Sets the clock and dispatches. Returns how many timers were handled. */
static size_t dispatch_at(struct runner_lesson *lesson, uint64_t ns)
{
    tw_virtual_set(&lesson->clock, at(ns));
    return tw_runner_dispatch(lesson->runner, SIZE_MAX);
}

/* Goal: instant 0 is an instant like any other. Method: a clock that stands at 0, as tests begin
 * with, and deadlines of 0; dispatch took 0 for a mark, and never returned. */
static void a_clock_at_zero_fires_what_is_due_at_zero(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    lesson_init(&lesson, 0);
    assert_true(tw_runner_schedule(lesson.wheel, at(0), 1) != TW_NONE);
    assert_int_equal(tw_runner_dispatch(lesson.runner, SIZE_MAX), 1);
    tw_handle opened = tw_runner_open(lesson.wheel, 2);
    assert_int_equal(tw_runner_arm(lesson.wheel, opened, at(0)), TW_RUNNER_OK);
    assert_int_equal(tw_runner_dispatch(lesson.runner, SIZE_MAX), 1);
    assert_int_equal(tw_runner_arm(lesson.wheel, opened, at(1)), TW_RUNNER_OK);
    assert_int_equal(tw_runner_dispatch(lesson.runner, SIZE_MAX), 0);
    assert_int_equal(dispatch_at(&lesson, MS), 1);
    assert_int_equal(lesson.fired_count, 3);
    lesson_deinit(&lesson);
}

/* Goal: a runner's thread, too, handles what is due at 0. Method: it sleeps, a timer is scheduled,
 * and it sleeps again. */
static void a_thread_at_zero_fires_what_is_due_at_zero(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    lesson_init(&lesson, 0);
    assert_true(tw_runner_start(lesson.runner));
    tw_virtual_settle(&lesson.clock, 1);
    assert_true(tw_runner_schedule(lesson.wheel, at(0), 1) != TW_NONE);
    tw_virtual_settle(&lesson.clock, 1);
    tw_runner_stop(lesson.runner);
    assert_int_equal(lesson.fired_count, 1);
    lesson_deinit(&lesson);
}

/* Goal: when the clock is set back, the latest instant seen counts, and dispatch returns. Method: a
 * timer for an instant that the clock has shown before, and one for an instant that it has not; the
 * first was compared with the clock and found not due, again and again. */
static void a_clock_set_back_fires_what_it_has_shown(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    lesson_init(&lesson, S);
    assert_true(tw_runner_schedule(lesson.wheel, at(10 * S), 1) != TW_NONE);
    assert_int_equal(dispatch_at(&lesson, 10 * S), 1);
    tw_virtual_set(&lesson.clock, at(5 * S));
    assert_true(tw_runner_schedule(lesson.wheel, at(7 * S), 2) != TW_NONE);
    assert_true(tw_runner_schedule(lesson.wheel, at(12 * S), 3) != TW_NONE);
    assert_int_equal(tw_runner_dispatch(lesson.runner, SIZE_MAX), 1);
    assert_int_equal(lesson.fired[1], 2);
    assert_int_equal(dispatch_at(&lesson, 6 * S), 0);
    assert_int_equal(dispatch_at(&lesson, 12 * S - MS), 0);
    assert_int_equal(dispatch_at(&lesson, 12 * S), 1);
    assert_int_equal(lesson.fired[2], 3);
    lesson_deinit(&lesson);
}

/* Goal: likewise for a wheel that is added after the clock was set back. */
static void a_wheel_added_after_a_step_back_sees_the_latest_time(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    lesson_init(&lesson, S);
    assert_int_equal(dispatch_at(&lesson, 10 * S), 0);
    tw_virtual_set(&lesson.clock, at(5 * S));
    struct tw_runner_wheel *added =
        tw_runner_add(lesson.runner, &(struct tw_runner_wheel_options){.handler = lesson_note,
                                                                       .context = &lesson});
    assert_non_null(added);
    assert_true(tw_runner_schedule(added, at(7 * S), 1) != TW_NONE);
    assert_true(tw_runner_schedule(added, at(11 * S), 2) != TW_NONE);
    assert_int_equal(tw_runner_dispatch(lesson.runner, SIZE_MAX), 1);
    assert_int_equal(lesson.fired[0], 1);
    assert_int_equal(dispatch_at(&lesson, 11 * S), 1);
    lesson_deinit(&lesson);
}

/* A clock whose next reader is preempted after reading it: meanwhile five seconds pass and another
 * thread adds a wheel, with a timer. */
struct preempting_clock {
    struct tw_clock clock; /* first */
    struct runner_lesson *lesson;
    struct tw_runner_wheel *added;
    bool preempts;
};

static uint64_t preempting_now_ns(const struct tw_clock *clock)
{
    struct preempting_clock *self = (struct preempting_clock *)(uintptr_t)clock;
    struct runner_lesson *lesson = self->lesson;
    uint64_t read_ns = tw_clock_now(&lesson->clock.clock).ns;
    if (!self->preempts)
        return read_ns;
    self->preempts = false;
    tw_virtual_advance(&lesson->clock, 5 * S);
    self->added =
        tw_runner_add(lesson->runner,
                      &(struct tw_runner_wheel_options){.handler = lesson_note, .context = lesson});
    assert_non_null(self->added);
    assert_true(tw_runner_schedule(self->added, at(read_ns + 2 * S), 1) != TW_NONE);
    return read_ns;
}

/* Goal: a wheel that is newer than the runner's last reading of the clock does not hang it. Method:
 * the wheel is added between that reading and the walk over the wheels. */
static void a_wheel_added_behind_the_runners_back_is_handled(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    lesson_init(&lesson, S);
    tw_runner_destroy(lesson.runner);
    struct preempting_clock clock = {{preempting_now_ns, NULL}, &lesson, NULL, false};
    lesson.runner = tw_runner_create(&(struct tw_runner_options){.clock = &clock.clock});
    assert_non_null(lesson.runner);
    clock.preempts = true;
    size_t count = tw_runner_dispatch(lesson.runner, SIZE_MAX);
    count += tw_runner_dispatch(lesson.runner, SIZE_MAX);
    assert_int_equal(count, 1);
    assert_int_equal(lesson.fired[0], 1);
    lesson_deinit(&lesson);
}

/* Goal: a deadline already reached is due at once, also with coarse ticks. Method: ticks of a
 * second; deadlines within the second that has begun, and one that is not reached yet. */
static void a_reached_deadline_does_not_wait_for_a_coarse_tick(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    lesson_init_with(&lesson, 500 * MS, (struct tw_runner_wheel_options){.tick_ns = S});
    assert_int_equal(dispatch_at(&lesson, 1500 * UINT64_C(1000000)), 0);
    assert_true(tw_runner_schedule(lesson.wheel, at(S + S / 5), 1) != TW_NONE);
    assert_true(tw_runner_schedule(lesson.wheel, at(S + S / 2), 2) != TW_NONE);
    assert_true(tw_runner_schedule(lesson.wheel, at(S + S / 2 + 1), 3) != TW_NONE);
    tw_handle opened = tw_runner_open(lesson.wheel, 4);
    assert_int_equal(tw_runner_arm(lesson.wheel, opened, at(S + 1)), TW_RUNNER_OK);
    assert_int_equal(tw_runner_dispatch(lesson.runner, SIZE_MAX), 3);
    assert_int_equal(tw_runner_arm(lesson.wheel, opened, at(0)), TW_RUNNER_OK);
    assert_int_equal(tw_runner_dispatch(lesson.runner, SIZE_MAX), 1);
    tw_runner_check(lesson.runner);
    assert_int_equal(tw_runner_wake_at(lesson.runner).ns, 2 * S);
    assert_int_equal(dispatch_at(&lesson, 2 * S), 1);
    assert_int_equal(lesson.fired[4], 3);
    lesson_deinit(&lesson);
}

static sigset_t mask_in_handler;

static void note_mask(void *context, const struct tw_expired *due, size_t count)
{
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask_in_handler);
    lesson_note(context, due, count);
}

/* Goal: the program's signals never interrupt the runner's thread. Method: a handler reads the mask
 * of its thread; the mask of the thread that started the runner stays. */
static void the_runners_thread_blocks_signals(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    sigset_t mask;
    lesson_init_with(&lesson, S, (struct tw_runner_wheel_options){.handler = note_mask});
    assert_true(tw_runner_start(lesson.runner));
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    assert_int_equal(sigismember(&mask, SIGTERM), 0);
    assert_true(tw_runner_schedule(lesson.wheel, at(S), 1) != TW_NONE);
    tw_virtual_settle(&lesson.clock, 1);
    tw_runner_stop(lesson.runner);
    assert_int_equal(lesson.fired_count, 1);
    assert_int_equal(sigismember(&mask_in_handler, SIGTERM), 1);
    assert_int_equal(sigismember(&mask_in_handler, SIGUSR1), 1);
    lesson_deinit(&lesson);
}

/* Whether a child of fork ends after it has destroyed the runner or the executor. */
static bool child_can_destroy(struct tw_runner *runner, struct tw_executor *executor)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(CHILD_HANGS_AFTER_S);
        tw_runner_destroy(runner);
        tw_executor_destroy(executor);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Goal: the child of a fork can free what its parent's threads use. Method: a runner that sleeps, a
 * runner of an event loop and an executor at rest; destroy waited for threads that do not exist in
 * the child. The parent's go on. */
static void a_child_of_fork_can_destroy(void **state)
{
    (void)state;
    struct runner_lesson lesson, looped;
    lesson_init(&lesson, S);
    assert_true(tw_runner_start(lesson.runner));
    assert_true(tw_runner_schedule(lesson.wheel, at(2 * S), 1) != TW_NONE);
    tw_virtual_settle(&lesson.clock, 1);
    assert_true(child_can_destroy(lesson.runner, NULL));
    tw_virtual_set(&lesson.clock, at(2 * S));
    tw_virtual_settle(&lesson.clock, 1);
    lesson_init(&looped, S);
    assert_true(tw_runner_fd(looped.runner) >= 0);
    assert_true(child_can_destroy(looped.runner, NULL));
    struct tw_executor *executor =
        tw_executor_create(&(struct tw_executor_options){.thread_count = 2, .budget_ns = S});
    assert_non_null(executor);
    assert_true(child_can_destroy(NULL, executor));
    tw_executor_destroy(executor);
    lesson_deinit(&looped);
    tw_runner_stop(lesson.runner);
    assert_int_equal(lesson.fired_count, 1);
    lesson_deinit(&lesson);
}

/* Sleeps until wake_at each time, to the end. Returns how many wake-ups there were. */
static size_t wake_ups_to_the_end(struct runner_lesson *lesson)
{
    size_t wake_ups = 0;
    for (uint64_t at_ns; (at_ns = tw_runner_wake_at(lesson->runner).ns) != NEVER_NS; wake_ups++)
        (void)dispatch_at(lesson, at_ns);
    return wake_ups;
}

/* Goal: the runner sleeps while none is due, whatever was cancelled or put off. Method: a timer in
 * each millisecond of three seconds, of which the runner has heard; all are cancelled, or all are
 * moved to one later time. It woke 3,000 times. */
static void timers_that_were_given_up_do_not_wake(void **state)
{
    enum { COUNT = 3000 };
    (void)state;
    for (int is_moved = 0; is_moved < 2; is_moved++) {
        struct runner_lesson lesson;
        tw_handle timers[COUNT];
        lesson_init(&lesson, S);
        for (size_t i = 0; i < COUNT; i++)
            timers[i] = tw_runner_schedule(lesson.wheel, at(S + (i + 1) * MS), i);
        assert_int_equal(dispatch_at(&lesson, S), 0);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(is_moved ? tw_runner_reschedule(lesson.wheel, timers[i], at(9 * S))
                                      : tw_runner_cancel(lesson.wheel, timers[i]),
                             TW_RUNNER_OK);
        assert_true(tw_runner_schedule(lesson.wheel, at(10 * S), 1) != TW_NONE);
        size_t wake_ups = wake_ups_to_the_end(&lesson);
        printf("%zu wake-ups for %d timers that were %s\n", wake_ups, COUNT,
               is_moved ? "put off" : "cancelled");
        assert_in_range(wake_ups, 1, 12);
        assert_int_equal(lesson.fired_count, is_moved ? COUNT + 1 : 1);
        lesson_deinit(&lesson);
    }
}

/* Goal: what is given up does not hide what is not. Method: every tenth of the timers stays; each
 * of these fires at its time, with at most one more wake-up before it. */
static void given_up_timers_hide_no_other(void **state)
{
    enum { COUNT = 3000 };
    (void)state;
    struct runner_lesson lesson;
    tw_handle timers[COUNT];
    lesson_init(&lesson, S);
    for (size_t i = 0; i < COUNT; i++)
        timers[i] = tw_runner_schedule(lesson.wheel, at(S + (i + 1) * MS), i);
    assert_int_equal(dispatch_at(&lesson, S), 0);
    for (size_t i = 0; i < COUNT; i++)
        if (i % 10 != 9)
            assert_int_equal(tw_runner_cancel(lesson.wheel, timers[i]), TW_RUNNER_OK);
    size_t wake_ups = 0;
    for (uint64_t at_ns; (at_ns = tw_runner_wake_at(lesson.runner).ns) != NEVER_NS; wake_ups++) {
        size_t count = lesson.fired_count;
        (void)dispatch_at(&lesson, at_ns);
        for (; count < lesson.fired_count; count++)
            assert_int_equal(at_ns, S + (lesson.fired[count % FIRED_MAX] + 1) * MS);
    }
    assert_int_equal(lesson.fired_count, COUNT / 10);
    printf("%zu wake-ups for %d of %d timers\n", wake_ups, COUNT / 10, COUNT);
    assert_in_range(wake_ups, COUNT / 10, 2 * COUNT / 10 + 20);
    lesson_deinit(&lesson);
}

/* Due timers whose handler schedules far ones, as busy threads do meanwhile. */
struct busy_lesson {
    struct runner_lesson lesson; /* first: the context of the handler */
    size_t due_count, far_count, calls;
};

static void schedule_far(void *context, const struct tw_expired *due, size_t count)
{
    struct busy_lesson *busy = context;
    lesson_note(&busy->lesson, due, count);
    busy->calls++;
    if (busy->lesson.fired_count > busy->due_count)
        return;
    for (size_t i = 0; i < 1000; i++, busy->far_count++)
        assert_true(tw_runner_schedule(busy->lesson.wheel, at(3600 * S), 1) != TW_NONE);
}

/* Goal: far timers that are scheduled meanwhile do not delay those that are due. Method: 20,000 due
 * at one instant, whose handler schedules 1,000 far ones each time; the runner goes from full batch
 * to full batch. It once read 4,000 messages and more before each. */
static void far_timers_do_not_starve_due_ones(void **state)
{
    (void)state;
    struct busy_lesson busy = {.due_count = 20000};
    lesson_init_with(&busy.lesson, S, (struct tw_runner_wheel_options){.handler = schedule_far});
    for (size_t i = 0; i < busy.due_count; i++)
        assert_true(tw_runner_schedule(busy.lesson.wheel, at(2 * S), i) != TW_NONE);
    assert_int_equal(dispatch_at(&busy.lesson, S), 0);
    assert_int_equal(dispatch_at(&busy.lesson, 2 * S), busy.due_count);
    assert_int_equal(busy.calls, (busy.due_count + BATCH_DEFAULT - 1) / BATCH_DEFAULT);
    struct tw_runner_stats stats;
    tw_runner_wheel_stats(busy.lesson.wheel, &stats);
    assert_int_equal(stats.pending, busy.far_count);
    assert_int_equal(dispatch_at(&busy.lesson, 3600 * S), busy.far_count);
    lesson_deinit(&busy.lesson);
}

/* Goal: a near timer among far ones is handled in time. Method: while timers are due, the
 * handler sets one that is due at once behind far ones; it fires before the others are through. */
static void a_near_timer_is_found_among_far_ones(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    lesson_init(&lesson, S);
    for (size_t i = 0; i < 30000; i++)
        assert_true(tw_runner_schedule(lesson.wheel, at(3600 * S), 0) != TW_NONE);
    assert_true(tw_runner_schedule(lesson.wheel, at(S), 1) != TW_NONE);
    for (size_t i = 0; i < 30000; i++)
        assert_true(tw_runner_schedule(lesson.wheel, at(3600 * S), 0) != TW_NONE);
    for (size_t i = 0; i < 64; i++)
        assert_true(tw_runner_schedule(lesson.wheel, at(S), 2) != TW_NONE);
    assert_int_equal(tw_runner_dispatch(lesson.runner, SIZE_MAX), 65);
    assert_int_equal(lesson.fired_count, 65);
    tw_runner_check(lesson.runner);
    lesson_deinit(&lesson);
}

/* Goal: at the end of the range of instants no call hangs, each deadline but NEVER comes, and NEVER
 * does not. Method: a clock that goes beyond the range, and ticks that divide it, do not, or span a
 * quarter of it. */
static uint64_t end_now_ns(const struct tw_clock *clock)
{
    return *(const uint64_t *)(const void *)(clock + 1);
}

static void check_the_end_of_the_range(uint64_t tick_ns)
{
    struct {
        struct tw_clock clock; /* it may show TW_INSTANT_NEVER_NS, which no other clock does */
        uint64_t now_ns;
    } clock = {{end_now_ns, NULL}, UINT64_MAX - 1000};
    struct runner_lesson lesson = {.fired_count = 0};
    struct tw_expired left[4];
    alarm(HANGS_AFTER_S);
    struct tw_runner *runner = tw_runner_create(&(struct tw_runner_options){.clock = &clock.clock});
    struct tw_runner_wheel *wheel =
        tw_runner_add(runner, &(struct tw_runner_wheel_options){
                                  .handler = lesson_note, .context = &lesson, .tick_ns = tick_ns});
    tw_handle never = tw_runner_schedule(wheel, at(UINT64_MAX), 1);
    assert_true(never != TW_NONE);
    assert_int_equal(tw_runner_dispatch(runner, SIZE_MAX), 0);
    assert_int_equal(tw_runner_wake_at(runner).ns, UINT64_MAX);
    assert_true(tw_runner_schedule(wheel, at(UINT64_MAX - 1), 2) != TW_NONE);
    assert_int_equal(tw_runner_dispatch(runner, SIZE_MAX), 0);
    assert_int_equal(tw_runner_wake_at(runner).ns, UINT64_MAX - 1);
    clock.now_ns = UINT64_MAX - 2;
    assert_int_equal(tw_runner_dispatch(runner, SIZE_MAX), 0);
    assert_int_equal(tw_runner_wake_at(runner).ns, UINT64_MAX - 1);
    tw_runner_check(runner);
    clock.now_ns = tick_ns % 2 ? UINT64_MAX : UINT64_MAX - 1;
    assert_int_equal(tw_runner_dispatch(runner, SIZE_MAX), 1);
    assert_int_equal(lesson.fired[0], 2);
    clock.now_ns = UINT64_MAX;
    assert_true(tw_runner_schedule(wheel, at(UINT64_MAX - 1), 3) != TW_NONE);
    assert_true(tw_runner_schedule(wheel, at(0), 4) != TW_NONE);
    assert_int_equal(tw_runner_dispatch(runner, SIZE_MAX), 2);
    assert_int_equal(tw_runner_dispatch(runner, SIZE_MAX), 0);
    assert_int_equal(tw_runner_wake_at(runner).ns, UINT64_MAX);
    assert_int_equal(tw_runner_reschedule(wheel, never, at(UINT64_MAX)), TW_RUNNER_OK);
    tw_runner_check(runner);
    tw_runner_stop(runner);
    assert_int_equal(tw_runner_take_left(wheel, left, 4), 1);
    assert_int_equal(left[0].data, 1);
    tw_runner_destroy(runner);
    alarm(0);
}

static void the_range_of_instants_has_an_end(void **state)
{
    (void)state;
    const uint64_t ticks[] = {0, 1, 2, 3, 5, 7, 1000, UINT64_C(1) << 62};
    for (size_t i = 0; i < sizeof(ticks) / sizeof(*ticks); i++)
        check_the_end_of_the_range(ticks[i]);
}

/* Goal: a thread sleeps when its clock has reached the end of the range. Method: it would spin, and
 * the clock would never see it settled. */
static void a_thread_sleeps_at_the_end_of_the_range(void **state)
{
    (void)state;
    struct runner_lesson lesson;
    lesson_init(&lesson, 0);
    assert_true(tw_runner_start(lesson.runner));
    tw_virtual_settle(&lesson.clock, 1);
    tw_virtual_set(&lesson.clock, at(UINT64_MAX));
    assert_true(tw_clock_now(&lesson.clock.clock).ns < TW_INSTANT_NEVER_NS);
    tw_virtual_settle(&lesson.clock, 1);
    tw_runner_stop(lesson.runner);
    lesson_deinit(&lesson);
}

/* Goal: a batch whose size exceeds the address space is refused. Method: only where size_t is small
 * enough for that; elsewhere the memory is too much to ask for. */
static void a_batch_beyond_the_address_space_is_refused(void **state)
{
    (void)state;
    if (sizeof(size_t) > 4)
        skip();
    struct tw_runner *runner = tw_runner_create(NULL);
    assert_null(tw_runner_add(runner, &(struct tw_runner_wheel_options){
                                          .handler = lesson_note, .batch_count_max = 1 << 30}));
    tw_runner_destroy(runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_at_zero_fires_what_is_due_at_zero),
        cmocka_unit_test(a_thread_at_zero_fires_what_is_due_at_zero),
        cmocka_unit_test(a_clock_set_back_fires_what_it_has_shown),
        cmocka_unit_test(a_wheel_added_after_a_step_back_sees_the_latest_time),
        cmocka_unit_test(a_wheel_added_behind_the_runners_back_is_handled),
        cmocka_unit_test(a_reached_deadline_does_not_wait_for_a_coarse_tick),
        cmocka_unit_test(the_runners_thread_blocks_signals),
        cmocka_unit_test(a_child_of_fork_can_destroy),
        cmocka_unit_test(timers_that_were_given_up_do_not_wake),
        cmocka_unit_test(given_up_timers_hide_no_other),
        cmocka_unit_test(far_timers_do_not_starve_due_ones),
        cmocka_unit_test(a_near_timer_is_found_among_far_ones),
        cmocka_unit_test(the_range_of_instants_has_an_end),
        cmocka_unit_test(a_thread_sleeps_at_the_end_of_the_range),
        cmocka_unit_test(a_batch_beyond_the_address_space_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
