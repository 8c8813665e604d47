/*
 * runner_priority_test.c - goal: a thread of a realtime policy does not wait long for a lane whose
 * holder has a lower priority. Method: all threads share one processor; the holder loses it with
 * its lane locked, to a thread that needs this lane, and in the second scene also to one that
 * computes. Skipped where the policy is not permitted.
 */
#include "runner_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

enum { MS = 1000000, LATEST_MS = 400, HOG_MS = 2000, HIGH = 10, MIDDLE = 5, LOW = 1 };

struct priority_scene {
    struct tw_runner *runner;
    struct tw_runner_wheel *wheel;
    struct runner_lane *lane;
    tw_handle timer;
    bool has_hog;
    bool is_hogging_refused;
    pthread_t hog;
    atomic_bool is_done;
    uint64_t waited_ns;
};

static uint64_t monotonic_now_ns(void)
{
    return tw_clock_now(tw_clock_monotonic()).ns;
}

static void priority_ignore(void *context, const struct tw_expired *due, size_t count)
{
    (void)context, (void)due, (void)count;
}

/* Keeps the calling thread, and those that it creates, on one processor. False if that is refused.
 */
static bool priority_use_one_processor(void)
{
#ifdef __linux__
    unsigned long mask[128] = {0};
    long length = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
    for (size_t word = 0; length > 0 && word < (size_t)length / sizeof(*mask); word++)
        if (mask[word]) {
            mask[word] &= ~mask[word] + 1; /* the lowest */
            memset(mask + word + 1, 0, sizeof(mask) - (word + 1) * sizeof(*mask));
            return syscall(SYS_sched_setaffinity, 0, sizeof(mask), mask) == 0;
        }
#endif
    return false;
}

/* Starts a thread under SCHED_FIFO. False where that is not permitted. */
static bool priority_start(pthread_t *ret_thread, int priority, void *(*run)(void *),
                           void *argument)
{
    pthread_attr_t attributes;
    struct sched_param parameters = {.sched_priority = priority};
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &parameters);
    bool is_made = pthread_create(ret_thread, &attributes, run, argument) == 0;
    pthread_attr_destroy(&attributes);
    return is_made;
}

static void *priority_hog(void *argument)
{
    struct priority_scene *scene = argument;
    uint64_t end_ns = monotonic_now_ns() + (uint64_t)HOG_MS * MS;
    while (!atomic_load(&scene->is_done) && monotonic_now_ns() < end_ns)
        ;
    return NULL;
}

/* Needs the lane that is locked. */
static void *priority_wait(void *argument)
{
    struct priority_scene *scene = argument;
    if (scene->has_hog && !priority_start(&scene->hog, MIDDLE, priority_hog, scene))
        scene->is_hogging_refused = true;
    uint64_t began_ns = monotonic_now_ns();
    (void)tw_runner_cancel(scene->wheel, scene->timer);
    scene->waited_ns = monotonic_now_ns() - began_ns;
    atomic_store(&scene->is_done, true);
    return NULL;
}

/* The lane is locked while this thread starts, and until it has the processor again. */
static void priority_play(struct priority_scene *scene, enum tw_runner_wait wait)
{
    pthread_t high;
    scene->runner = tw_runner_create(&(struct tw_runner_options){.wait = wait});
    scene->wheel =
        tw_runner_add(scene->runner, &(struct tw_runner_wheel_options){.handler = priority_ignore});
    struct tw_instant later = tw_instant_after(tw_clock_monotonic(), UINT64_C(3600000) * MS);
    scene->timer = tw_runner_schedule(scene->wheel, later, 1);
    scene->lane = tw__runner_lane_of(scene->wheel, scene->timer);
    tw__runner_lane_lock(scene->lane);
    bool is_permitted = priority_start(&high, HIGH, priority_wait, scene);
    tw__runner_lane_unlock(scene->lane);
    if (is_permitted)
        pthread_join(high, NULL);
    if (is_permitted && scene->has_hog && !scene->is_hogging_refused)
        pthread_join(scene->hog, NULL);
    tw_runner_destroy(scene->runner);
    if (!is_permitted)
        skip();
    printf("waited %.3f ms\n", (double)scene->waited_ns / MS);
    assert_false(scene->is_hogging_refused);
}

/* Plays the scene until a wait is short, ten times at most: a busy machine may prolong any of them,
 * and a thread that waits for one of a lower priority waits long each time. */
static void priority_expect_a_short_wait(bool has_hog, enum tw_runner_wait wait)
{
    uint64_t shortest_ns = UINT64_MAX;
    for (int i = 0; i < 10 && shortest_ns >= (uint64_t)LATEST_MS * MS; i++) {
        struct priority_scene scene = {.has_hog = has_hog};
        priority_play(&scene, wait);
        shortest_ns = scene.waited_ns < shortest_ns ? scene.waited_ns : shortest_ns;
    }
    assert_true(shortest_ns < (uint64_t)LATEST_MS * MS);
}

static void a_realtime_thread_lets_the_holder_run(void **state)
{
    (void)state;
    if (!priority_use_one_processor())
        skip();
    priority_expect_a_short_wait(false, TW_RUNNER_YIELD);
}

static void a_holder_inherits_the_priority(void **state)
{
    (void)state;
    struct sched_param low = {.sched_priority = LOW}, before = {.sched_priority = 0};
    if (!priority_use_one_processor() || pthread_setschedparam(pthread_self(), SCHED_FIFO, &low))
        skip();
    priority_expect_a_short_wait(true, TW_RUNNER_WAIT_BY_POLICY);
    assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_OTHER, &before), 0);
}

/* Goal: all works as well when threads inherit. Method: each verb once, in dispatch mode. */
static void every_verb_works_with_inheritance(void **state)
{
    (void)state;
    struct tw_runner_stats stats;
    struct tw_instant now = {0}, never = {TW_INSTANT_NEVER_NS};
    struct tw_runner *runner =
        tw_runner_create(&(struct tw_runner_options){.wait = TW_RUNNER_INHERIT});
    struct tw_runner_wheel *wheel =
        tw_runner_add(runner, &(struct tw_runner_wheel_options){.handler = priority_ignore});
    tw_handle once = tw_runner_schedule(wheel, never, 1), opened = tw_runner_open(wheel, 2);
    assert_int_equal(tw_runner_reschedule(wheel, once, now), TW_RUNNER_OK);
    assert_int_equal(tw_runner_arm(wheel, opened, now), TW_RUNNER_OK);
    assert_int_equal(tw_runner_dispatch(runner, SIZE_MAX), 2);
    assert_int_equal(tw_runner_cancel(wheel, once), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_arm_sooner(wheel, opened, never), TW_RUNNER_OK);
    assert_int_equal(tw_runner_disarm(wheel, opened), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_close(wheel, opened), TW_RUNNER_OK);
    tw_runner_wheel_stats(wheel, &stats);
    assert_int_equal(stats.held, 0);
    tw_runner_check(runner);
    tw_runner_destroy(runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verb_works_with_inheritance),
        cmocka_unit_test(a_realtime_thread_lets_the_holder_run),
        cmocka_unit_test(a_holder_inherits_the_priority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
