/*
 * wheel_endless_test.c - memory follows the most timers held at once, not what is done with them.
 *
 * Each test does one kind of endless work to 100,000 timers, a million operations a round, while
 * time moves on and some fire. The bytes allocated after the first tenth of the rounds must be
 * those at the end. TEST_ROUNDS says how many rounds; 100 is the run of 100 million operations:
 *
 *     TEST_ROUNDS=100 build/release/lib/wheel_endless_test
 *
 * TEST_SEED replays one draw of timers and deadlines.
 */
#include "seed.h"

#include <tickwheel/wheel.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TIMERS = 100000,
    OPERATIONS = 1000000, /* of a round */
    ROUNDS_DEFAULT = 5,
    TICK = 100,          /* operations */
    REACH = 1 << 20,     /* the longest delay, in ticks */
    BYTES_PER_TIMER = 64 /* a bound to be well below: 1.5 stale entries a timer are allowed */
};

struct wheel_endless_work {
    struct tw_wheel *wheel;
    tw_handle timers[TIMERS];
    uint64_t random;
    uint64_t fired_count;
};

static uint64_t draw(struct wheel_endless_work *work)
{
    uint64_t mixed = work->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static uint64_t deadline(struct wheel_endless_work *work)
{
    return tw_wheel_now(work->wheel) + 1 + draw(work) % REACH;
}

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

static struct wheel_endless_work *begin(void)
{
    struct wheel_endless_work *work = test_calloc(1, sizeof(*work));
    work->random = testing_seed();
    work->wheel = tw_wheel_create(NULL);
    return work;
}

/* One tick; `again` is done to whatever fired. */
static void tick(struct wheel_endless_work *work,
                 void (*again)(struct wheel_endless_work *, uint32_t which))
{
    struct tw_expired due[64];
    uint64_t now = tw_wheel_now(work->wheel) + 1;
    do {
        size_t n = tw_wheel_expire(work->wheel, now, due, 64);
        work->fired_count += n;
        for (size_t i = 0; i < n; i++)
            again(work, (uint32_t)due[i].data);
    } while (tw_wheel_is_behind(work->wheel));
}

/* Does the work and ends the wheel. `step` is one operation on one timer. */
static void run(struct wheel_endless_work *work, const char *what,
                void (*step)(struct wheel_endless_work *, uint32_t which),
                void (*again)(struct wheel_endless_work *, uint32_t which))
{
    uint64_t rounds = number("TEST_ROUNDS", ROUNDS_DEFAULT);
    uint64_t first = rounds >= 10 ? rounds / 10 : 1;
    size_t memory = 0;
    for (uint64_t round = 1; round <= rounds; round++) {
        for (uint32_t i = 0; i < OPERATIONS; i++) {
            step(work, (uint32_t)(draw(work) % TIMERS));
            if (i % TICK == 0)
                tick(work, again);
        }
        if (round == first)
            memory = tw_wheel_memory(work->wheel);
    }
    size_t at_end = tw_wheel_memory(work->wheel);
    print_message("%s: %" PRIu64 " million operations on %d timers, %" PRIu64
                  " fired: %zu bytes after the first %" PRIu64 " million, %zu at the end\n",
                  what, rounds, TIMERS, work->fired_count, memory, first, at_end);
    assert_int_equal(at_end, memory);
    assert_true(at_end < TIMERS * BYTES_PER_TIMER + (1 << 20));
    tw_wheel_check(work->wheel);
    tw_wheel_destroy(work->wheel);
    test_free(work);
}

static void schedule(struct wheel_endless_work *work, uint32_t which)
{
    work->timers[which] = tw_wheel_schedule(work->wheel, deadline(work), which);
    assert_true(work->timers[which] != TW_NONE);
}

static void cancel_and_schedule(struct wheel_endless_work *work, uint32_t which)
{
    assert_true(tw_wheel_cancel(work->wheel, work->timers[which]));
    schedule(work, which);
}

static void endless_schedule_and_cancel(void **state)
{
    (void)state;
    struct wheel_endless_work *work = begin();
    for (uint32_t i = 0; i < TIMERS; i++)
        schedule(work, i);
    run(work, "schedule and cancel", cancel_and_schedule, schedule);
}

/* Half of the new deadlines are earlier than the old, the worst there is: each makes an entry. */
static void reschedule(struct wheel_endless_work *work, uint32_t which)
{
    assert_true(tw_wheel_reschedule(work->wheel, work->timers[which], deadline(work)));
}

static void endless_reschedule(void **state)
{
    (void)state;
    struct wheel_endless_work *work = begin();
    for (uint32_t i = 0; i < TIMERS; i++)
        schedule(work, i);
    run(work, "reschedule earlier and later", reschedule, schedule);
}

static void arm(struct wheel_endless_work *work, uint32_t which)
{
    assert_true(tw_wheel_arm(work->wheel, work->timers[which], deadline(work)));
}

static void arm_or_disarm(struct wheel_endless_work *work, uint32_t which)
{
    if (draw(work) % 4 == 0)
        (void)tw_wheel_disarm(work->wheel, work->timers[which]);
    else
        arm(work, which);
}

static void endless_arm_of_opened(void **state)
{
    (void)state;
    struct wheel_endless_work *work = begin();
    for (uint32_t i = 0; i < TIMERS; i++) {
        work->timers[i] = tw_wheel_open(work->wheel, i);
        arm(work, i);
    }
    run(work, "arm and disarm of opened ones", arm_or_disarm, arm);
}

static void anything(struct wheel_endless_work *work, uint32_t which)
{
    if (draw(work) % 2)
        reschedule(work, which);
    else
        cancel_and_schedule(work, which);
}

static void endless_mixture(void **state)
{
    (void)state;
    struct wheel_endless_work *work = begin();
    for (uint32_t i = 0; i < TIMERS; i++)
        schedule(work, i);
    run(work, "all of it", anything, schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endless_schedule_and_cancel),
        cmocka_unit_test(endless_reschedule),
        cmocka_unit_test(endless_arm_of_opened),
        cmocka_unit_test(endless_mixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
