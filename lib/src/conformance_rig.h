/*
 * conformance_rig.h - what the conformance tests share: a wheel of any kind and what came out.
 *
 * A kind that cannot hold a test's deadlines (a ring reaches one rotation) gets its farthest
 * instead, or skips the test. For tests only.
 */
#ifndef TICKWHEEL_CONFORMANCE_RIG_H
#define TICKWHEEL_CONFORMANCE_RIG_H

#include "conformance_oracle.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FIRED_MAX = 4096 };

struct conformance_rig {
    const struct conformance_kind *kind;
    struct conformance_wheel *wheel;
    uint32_t fired[FIRED_MAX]; /* ids of the timers that fired, in order */
    size_t fired_count;
};

static inline void rig_open(struct conformance_rig *rig, const struct conformance_kind *kind,
                            uint64_t start)
{
    *rig = (struct conformance_rig){.kind = kind};
    rig->wheel = kind->create(kind, start < CONFORMANCE_TIME_LAST ? start : CONFORMANCE_TIME_LAST);
    assert_non_null(rig->wheel);
}

static inline void rig_close(struct conformance_rig *rig)
{
    rig->kind->check(rig->wheel);
    rig->kind->destroy(rig->wheel);
}

static inline bool rig_can(const struct conformance_rig *rig, uint64_t deadline)
{
    return deadline >= rig->kind->deadline_min(rig->wheel) &&
           deadline <= rig->kind->deadline_max(rig->wheel);
}

static inline void rig_put(struct conformance_rig *rig, uint32_t id, uint64_t deadline)
{
    assert_true(rig_can(rig, deadline));
    rig->kind->schedule(rig->wheel, id, deadline);
    rig->kind->check(rig->wheel);
}

static inline uint64_t rig_wake_at(const struct conformance_rig *rig)
{
    return rig->kind->wake_at(rig->wheel);
}

/* Calls expire once, and appends the timers to `fired`. Returns their number. */
static inline size_t rig_pull(struct conformance_rig *rig, uint64_t now, size_t limit)
{
    struct conformance_expired due[64];
    size_t count = rig->kind->expire(rig->wheel, now, due, limit < 64 ? limit : 64);

    for (size_t i = 0; i < count; i++) {
        assert_true(due[i].deadline <= rig->kind->now(rig->wheel));
        assert_true(rig->fired_count < FIRED_MAX);
        rig->fired[rig->fired_count++] = due[i].id;
    }
    rig->kind->check(rig->wheel);
    return count;
}

/* Calls expire until nothing is due. */
static inline size_t rig_drain(struct conformance_rig *rig, uint64_t now)
{
    size_t count = 0;

    do
        count += rig_pull(rig, now, 64);
    while (rig->kind->is_behind(rig->wheel));
    assert_true(rig_wake_at(rig) > rig->kind->now(rig->wheel));
    return count;
}

/* Moves the time from wake-up to wake-up until something fires. Returns that time. */
static inline uint64_t rig_sleep(struct conformance_rig *rig, unsigned *ret_wakes)
{
    for (*ret_wakes = 1;; ++*ret_wakes) {
        uint64_t wake_at = rig_wake_at(rig);
        assert_true(wake_at != TW_NEVER);
        assert_true(*ret_wakes <= 64);
        if (rig_drain(rig, wake_at))
            return wake_at;
        assert_true(rig_wake_at(rig) > wake_at);
    }
}

/* Returns the latest time at which a timer with this deadline must have fired. */
static inline uint64_t rig_out_by(const struct conformance_kind *kind, uint64_t deadline)
{
    uint64_t last = CONFORMANCE_TIME_LAST;
    return deadline > last - (kind->tick - 1) ? last : deadline + (kind->tick - 1);
}

/* Schedules one timer on a fresh wheel and proves that it fires once, neither early nor late. */
static inline void rig_prove(const struct conformance_kind *kind, uint64_t start, uint64_t deadline)
{
    struct conformance_rig rig;
    unsigned wakes;

    rig_open(&rig, kind, start);
    if (deadline != TW_NEVER && rig_can(&rig, deadline)) {
        rig_put(&rig, 7, deadline);
        if (deadline > start)
            assert_int_equal(rig_drain(&rig, deadline - 1), 0);
        assert_true(rig_wake_at(&rig) <= rig_out_by(kind, deadline > start ? deadline : start));
        uint64_t at = rig_sleep(&rig, &wakes);
        assert_true(at >= deadline || deadline <= start);
        assert_true(at <= rig_out_by(kind, deadline > start ? deadline : start));
        assert_int_equal(rig.fired_count, 1);
        assert_int_equal(rig.fired[0], 7);
        assert_int_equal(rig_drain(&rig, TW_NEVER), 0);
    }
    rig_close(&rig);
}

/* Returns the deadline `delay` after now, or the last one that the wheel can hold if that is
 * earlier: a ring reaches only one rotation. */
static inline uint64_t rig_reach(const struct conformance_rig *rig, uint64_t delay)
{
    uint64_t now = rig->kind->now(rig->wheel);
    uint64_t farthest = rig->kind->deadline_max(rig->wheel) - now;
    return now + (delay < farthest ? delay : farthest);
}

struct rig_test {
    const char *name;
    void (*run)(void **state);
};

enum { RIG_TESTS_MAX = 32 };

/* Runs each test with each kind of wheel. Returns how many failed. */
static inline int rig_run(const struct rig_test *tests, size_t count)
{
    struct CMUnitTest units[RIG_TESTS_MAX];
    int failed_count = 0;

    for (size_t k = 0; k < conformance_kind_count; k++) {
        for (size_t i = 0; i < count; i++)
            units[i] = (struct CMUnitTest){
                .name = tests[i].name,
                .test_func = tests[i].run,
                .initial_state = (void *)&conformance_kinds[k],
            };
        failed_count +=
            _cmocka_run_group_tests(conformance_kinds[k].name, units, count, NULL, NULL);
    }
    return failed_count;
}

#define RIG_TEST(test) \
    {                  \
#test, test    \
    }

#endif
