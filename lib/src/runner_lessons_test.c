/*
 * runner_lessons_test.c - goal: scenes in which a runner once hung, spun, woke for nothing or
 * starved stay mended. Method: each scene by itself, in virtual time and in dispatch mode; a scene
 * that hangs is ended by an alarm.
 */
#include "runner_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

enum { MS = 1000000, S = 1000 * MS, HANGS_AFTER_S = 5, FIRED_MAX = 64 };

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
    options.context = lesson;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_at_zero_fires_what_is_due_at_zero),
        cmocka_unit_test(a_thread_at_zero_fires_what_is_due_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
