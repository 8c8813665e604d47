/*
 * runner_model_test.c - random verbs to a runner in dispatch mode, on virtual time, and to a model
 * too simple to be wrong: an array of timers that is searched from end to end. They must agree on
 * every answer and on what fires when, tw_runner_check holds after each dispatch, and a runner that
 * says it sleeps must not sleep too long. TEST_SEED replays one seed, TEST_SEEDS says how many.
 */
#include "seed.h"

#include <tickwheel/runner.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERBS = 2000, SEEDS_DEFAULT = 100, TIMERS_MAX = 256, STALE_MAX = 16 };

#define NEVER TW_INSTANT_NEVER_NS

struct runner_model_timer {
    tw_handle handle;
    uint64_t data;
    uint64_t deadline_ns; /* NEVER: none */
    bool is_opened;
    bool is_running;
    bool was_closed; /* while running */
};

static struct runner_model_trial {
    uint64_t random;
    struct tw_virtual clock;
    struct tw_runner *runner;
    struct tw_runner_wheel *wheel;
    uint64_t tick_ns;
    struct runner_model_timer timers[TIMERS_MAX];
    size_t count;
    size_t count_max;
    tw_handle stale[STALE_MAX];
    size_t stale_count;
    uint64_t next_data, fired, verbs, span_bits;
    bool is_handling;
} trial;

static uint64_t draw(uint64_t bound)
{
    uint64_t mixed = trial.random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return (mixed ^ mixed >> 31) % bound;
}

static uint64_t now_ns(void)
{
    return tw_clock_now(&trial.clock.clock).ns;
}

static struct tw_instant draw_deadline(void)
{
    uint64_t reach = draw(UINT64_C(1) << (1 + draw(trial.span_bits)));
    switch (draw(16)) {
    case 0:
        return (struct tw_instant){NEVER};
    case 1:
        return (struct tw_instant){now_ns() - reach % (now_ns() + 1)}; /* overdue */
    case 2:
        reach = tw_instant_add((struct tw_instant){now_ns()}, reach).ns;
        return (struct tw_instant){reach / trial.tick_ns * trial.tick_ns};
    default:
        return tw_instant_add((struct tw_instant){now_ns()}, reach);
    }
}

/* Any timer of the kind, NULL if there is none. */
static struct runner_model_timer *pick(bool is_opened)
{
    size_t from = trial.count ? draw(trial.count) : 0;
    for (size_t i = 0; i < trial.count; i++) {
        struct runner_model_timer *timer = &trial.timers[(from + i) % trial.count];
        if (timer->is_opened == is_opened && !timer->was_closed)
            return timer;
    }
    return NULL;
}

static void forget(struct runner_model_timer *timer)
{
    trial.stale[trial.stale_count++ % STALE_MAX] = timer->handle;
    *timer = trial.timers[--trial.count];
}

static void add(bool is_opened)
{
    uint64_t data = trial.next_data++;
    struct tw_instant deadline = is_opened ? (struct tw_instant){NEVER} : draw_deadline();
    tw_handle handle = is_opened ? tw_runner_open(trial.wheel, data)
                                 : tw_runner_schedule(trial.wheel, deadline, data);
    assert_int_equal(handle != TW_NONE, trial.count < trial.count_max);
    if (handle == TW_NONE)
        return;
    for (size_t i = 0; i < trial.count; i++)
        assert_true(trial.timers[i].handle != handle);
    trial.timers[trial.count++] =
        (struct runner_model_timer){handle, data, deadline.ns, is_opened, false, false};
}

static void change_scheduled(void)
{
    struct runner_model_timer *timer = pick(false);
    if (!timer)
        return;
    enum tw_runner_answer wanted = timer->is_running ? TW_RUNNER_RUNNING : TW_RUNNER_OK;
    if (draw(2)) {
        struct tw_instant deadline = draw_deadline();
        assert_int_equal(tw_runner_reschedule(trial.wheel, timer->handle, deadline), wanted);
        if (!timer->is_running)
            timer->deadline_ns = deadline.ns;
    } else {
        assert_int_equal(tw_runner_cancel(trial.wheel, timer->handle), wanted);
        if (!timer->is_running)
            forget(timer);
    }
}

static void change_opened(void)
{
    struct runner_model_timer *timer = pick(true);
    struct tw_instant deadline = draw_deadline();
    if (!timer)
        return;
    bool is_armed = timer->deadline_ns != NEVER;
    enum tw_runner_answer wanted = timer->is_running ? TW_RUNNER_RUNNING
                                   : is_armed        ? TW_RUNNER_OK
                                                     : TW_RUNNER_DONE;
    switch (draw(8)) {
    case 0:
        wanted = timer->is_running ? TW_RUNNER_RUNNING : TW_RUNNER_OK;
        assert_int_equal(tw_runner_close(trial.wheel, timer->handle), wanted);
        timer->was_closed = true;
        timer->deadline_ns = NEVER;
        if (!timer->is_running)
            forget(timer);
        break;
    case 1:
        assert_int_equal(tw_runner_disarm(trial.wheel, timer->handle), wanted);
        timer->deadline_ns = NEVER;
        break;
    case 2:
    case 3:
    case 4:
        assert_int_equal(tw_runner_arm_sooner(trial.wheel, timer->handle, deadline), TW_RUNNER_OK);
        if (deadline.ns < timer->deadline_ns)
            timer->deadline_ns = deadline.ns;
        break;
    default:
        assert_int_equal(tw_runner_arm(trial.wheel, timer->handle, deadline), TW_RUNNER_OK);
        timer->deadline_ns = deadline.ns;
    }
}

static void use_stale(void)
{
    if (trial.stale_count == 0)
        return;
    size_t held = trial.stale_count < STALE_MAX ? trial.stale_count : STALE_MAX;
    tw_handle stale = trial.stale[draw(held)];
    assert_int_equal(tw_runner_cancel(trial.wheel, stale), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_reschedule(trial.wheel, stale, draw_deadline()), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_arm(trial.wheel, stale, draw_deadline()), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_disarm(trial.wheel, stale), TW_RUNNER_DONE);
    assert_int_equal(tw_runner_close(trial.wheel, stale), TW_RUNNER_DONE);
}

static void one_verb(void)
{
    trial.verbs++;
    switch (draw(10)) {
    case 0:
    case 1:
    case 2:
        add(false);
        break;
    case 3:
        add(true);
        break;
    case 4:
        use_stale();
        break;
    case 5:
    case 6:
        change_scheduled();
        break;
    default:
        change_opened();
    }
}

static struct runner_model_timer *find(tw_handle handle)
{
    for (size_t i = 0; i < trial.count; i++)
        if (trial.timers[i].handle == handle)
            return &trial.timers[i];
    fail_msg("a timer fired that nobody knows");
    return NULL;
}

static void handle(void *context, const struct tw_expired *due, size_t count)
{
    (void)context;
    assert_false(trial.is_handling);
    trial.is_handling = true;
    for (size_t i = 0; i < count; i++) {
        struct runner_model_timer *timer = find(due[i].timer);
        assert_int_equal(timer->data, due[i].data);
        assert_int_equal(timer->deadline_ns, due[i].deadline);
        assert_true(due[i].deadline <= now_ns());
        assert_false(timer->is_running);
        timer->is_running = true;
        timer->deadline_ns = NEVER;
        trial.fired++;
    }
    for (uint64_t verbs = draw(4); verbs > 0; verbs--)
        one_verb();
    for (size_t i = 0; i < count; i++) {
        struct runner_model_timer *timer = find(due[i].timer);
        timer->is_running = false;
        if (!timer->is_opened || timer->was_closed)
            forget(timer);
    }
    trial.is_handling = false;
}

/* Every timer that is due by this instant has fired. Each instant but NEVER is reached at the last
 * one; with ticks of a nanosecond the tick before it is not told from it. */
static uint64_t fired_until(void)
{
    if (now_ns() >= NEVER - 1)
        return NEVER - 1;
    uint64_t begun = now_ns() / trial.tick_ns * trial.tick_ns;
    return begun < NEVER - 2 ? begun : NEVER - 3;
}

/* Nothing that is due by a tick that has begun is left, and the runner will look in time. */
static void judge(void)
{
    struct tw_runner_stats stats;
    uint64_t pending = 0, earliest = NEVER, begun = fired_until();
    for (size_t i = 0; i < trial.count; i++) {
        struct runner_model_timer *timer = &trial.timers[i];
        pending += !timer->is_opened || timer->deadline_ns != NEVER;
        earliest = timer->deadline_ns < earliest ? timer->deadline_ns : earliest;
    }
    assert_true(earliest > begun);
    uint64_t latest = tw_instant_add((struct tw_instant){earliest}, trial.tick_ns - 1).ns;
    if (earliest != NEVER)
        assert_true(tw_runner_wake_at(trial.runner).ns <=
                    (latest < NEVER - 2 ? latest : NEVER - 1));
    tw_runner_wheel_stats(trial.wheel, &stats);
    assert_int_equal(stats.pending, pending);
    assert_int_equal(stats.held, trial.count);
    assert_int_equal(stats.fired, trial.fired);
    tw_runner_check(trial.runner);
}

static void dispatch(void)
{
    static const size_t limits[] = {1, 3, 1000, SIZE_MAX};
    uint64_t wake_ns = tw_runner_wake_at(trial.runner).ns, now = now_ns();
    switch (draw(4)) {
    case 0:
        if (wake_ns > now && wake_ns - now < UINT64_C(1) << 50) {
            tw_virtual_set(&trial.clock, (struct tw_instant){wake_ns});
            break;
        }
        /* fall through */
    default:
        tw_virtual_advance(&trial.clock, draw(UINT64_C(1) << draw(trial.span_bits + 1)));
    }
    size_t limit = limits[draw(4)];
    do
        (void)tw_runner_dispatch(trial.runner, limit);
    while (tw_runner_wake_at(trial.runner).ns == 0);
    judge();
}

static void drain(void)
{
    struct tw_expired left[5];
    tw_runner_stop(trial.runner);
    for (size_t n; (n = tw_runner_take_left(trial.wheel, left, 5)) > 0;)
        for (size_t i = 0; i < n; i++) {
            struct runner_model_timer *timer = find(left[i].timer);
            assert_int_equal(timer->deadline_ns, left[i].deadline);
            assert_int_equal(timer->data, left[i].data);
            timer->deadline_ns = NEVER;
            if (!timer->is_opened)
                forget(timer);
        }
    for (size_t i = 0; i < trial.count; i++)
        assert_true(trial.timers[i].is_opened && trial.timers[i].deadline_ns == NEVER);
    tw_runner_check(trial.runner);
}

static void run_seed(uint64_t seed)
{
    static const uint64_t ticks[] = {1, 2, 3, 7, 1000, 1000000, 999983, UINT64_C(1) << 62};
    uint64_t fired = trial.fired, verbs = trial.verbs;
    memset(&trial, 0, sizeof(trial));
    trial.random = seed;
    trial.tick_ns = ticks[draw(8)];
    trial.count_max = 1 + draw(TIMERS_MAX);
    trial.span_bits = 4 + draw(38);
    uint64_t start_ns = draw(UINT64_C(1) << 44);
    if (draw(4) == 0) /* up to the end of the range */
        start_ns = NEVER - draw(UINT64_C(1) << (trial.span_bits + 6));
    assert_true(tw_virtual_init(&trial.clock, (struct tw_instant){start_ns}));
    trial.runner = tw_runner_create(&(struct tw_runner_options){.clock = &trial.clock.clock});
    trial.wheel = tw_runner_add(
        trial.runner, &(struct tw_runner_wheel_options){.handler = handle,
                                                        .tick_ns = trial.tick_ns,
                                                        .timer_count_max = trial.count_max,
                                                        .batch_count_max = 1 + draw(20)});
    for (uint64_t i = 0, often = 2 + draw(30); i < VERBS; i++)
        draw(often) ? one_verb() : dispatch();
    dispatch();
    drain();
    tw_runner_destroy(trial.runner);
    tw_virtual_deinit(&trial.clock);
    trial.fired += fired;
    trial.verbs += verbs;
}

static void random_verbs(void **state)
{
    (void)state;
    const char *many = getenv("TEST_SEEDS");
    const uint64_t seed = testing_seed();
    uint64_t count = getenv("TEST_SEED") ? 1 : many ? strtoull(many, NULL, 0) : SEEDS_DEFAULT;
    for (uint64_t i = 0; i < count; i++) {
        testing_seed_print(seed + i);
        run_seed(seed + i);
    }
    printf("%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " verbs, %" PRIu64 " fired\n", count,
           seed, trial.verbs, trial.fired);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_verbs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
