/*
 * Goal: each origin has a breaker of its own, only those that failed take memory, and of those no
 * more than may be. Method: a few origins by hand with every change noted, then more than fit.
 */
#include "delivery/targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

struct notes {
    size_t count;
    enum breaker_state last;
};

static void note(void *context, const struct target_status *status)
{
    struct notes *notes = context;

    notes->count++;
    notes->last = status->state;
}

static struct instant at(uint64_t ms)
{
    return (struct instant){(1000000 + ms) * 1000000};
}

static bool try_one(struct targets *targets, const char *origin, uint64_t ms,
                    enum breaker_verdict verdict)
{
    struct target_ticket ticket;
    struct target_status status;

    if (!targets_enter(targets, bytes_of(origin), at(ms), &ticket, &status)) {
        assert_true(status.wait_ms > 0 && status.failures > 0);
        assert_true(bytes_equal(status.origin, bytes_of(origin)));
        return false;
    }
    targets_leave(targets, &ticket, bytes_of(origin), at(ms), verdict);
    return true;
}

static void test_each_origin_for_itself(void **state)
{
    struct notes notes = {0};
    struct targets_options options = {
        .breaker = {2, 1000, 4000}, .seed = 7, .changed = note, .context = &notes};
    struct targets *targets = targets_create(&options);
    struct target_status status;
    struct targets_stats stats;

    (void)state;
    assert_non_null(targets);
    for (int i = 0; i < 2; i++)
        assert_true(try_one(targets, "http://dead", 0, BREAKER_FAILED));
    assert_false(try_one(targets, "http://dead", 1, BREAKER_ALIVE));
    assert_true(try_one(targets, "http://alive", 1, BREAKER_ALIVE));
    assert_true(notes.count == 1 && notes.last == BREAKER_OPEN);
    targets_status(targets, BYTES("http://dead"), at(1), &status);
    assert_true(status.state == BREAKER_OPEN && status.failures == 2 && status.wait_ms == 999);
    targets_status(targets, BYTES("http://alive"), at(1), &status);
    assert_true(status.state == BREAKER_CLOSED && status.failures == 0 && status.wait_ms == 0);
    assert_true(try_one(targets, "http://dead", 1000, BREAKER_FAILED)); /* the probe */
    targets_stats(targets, &stats);
    assert_true(stats.open == 1 && stats.opened == 2 && stats.postponed == 1);
    assert_true(try_one(targets, "http://dead", 3000, BREAKER_ALIVE));
    targets_stats(targets, &stats);
    assert_true(stats.open == 0 && stats.opened == 2);
    assert_true(notes.count == 3 && notes.last == BREAKER_CLOSED);
    targets_destroy(targets);
    targets_destroy(NULL);
}

/* Beyond the limit a target has no breaker, until one that recovered makes room. */
/* proves: targets-failing */
static void test_no_more_than_may_be(void **state)
{
    struct targets_options options = {.breaker = {1, 1000, 1000}, .count_max = 4};
    struct targets *targets = targets_create(&options);
    struct targets_stats stats;
    char origin[32];

    (void)state;
    assert_non_null(targets);
    for (int i = 0; i < 6; i++) {
        snprintf(origin, sizeof(origin), "http://dead-%d", i);
        assert_true(try_one(targets, origin, 0, BREAKER_FAILED));
    }
    targets_stats(targets, &stats);
    assert_int_equal(stats.open, 4);
    assert_true(try_one(targets, "http://dead-5", 1, BREAKER_FAILED)); /* none */
    assert_true(try_one(targets, "http://dead-0", 1000, BREAKER_ALIVE));
    assert_true(try_one(targets, "http://dead-5", 2000, BREAKER_FAILED));
    assert_false(try_one(targets, "http://dead-5", 2001, BREAKER_FAILED));
    assert_true(try_one(targets, "http://dead-0", 2001, BREAKER_ALIVE));
    targets_destroy(targets);
}

/* A target that answers is not kept, however many of them there are. */
static void test_the_healthy_take_no_room(void **state)
{
    struct targets_options options = {.breaker = {3, 1000, 1000}, .count_max = 1};
    struct targets *targets = targets_create(&options);
    char origin[32];

    (void)state;
    assert_non_null(targets);
    for (int i = 0; i < 100; i++) {
        snprintf(origin, sizeof(origin), "http://flaky-%d", i);
        assert_true(try_one(targets, origin, 0, BREAKER_FAILED));
        assert_true(try_one(targets, origin, 0, BREAKER_ALIVE));
    }
    for (int i = 0; i < 3; i++)
        assert_true(try_one(targets, "http://dead", 0, BREAKER_FAILED));
    assert_false(try_one(targets, "http://dead", 0, BREAKER_FAILED));
    targets_destroy(targets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_origin_for_itself),
        cmocka_unit_test(test_no_more_than_may_be),
        cmocka_unit_test(test_the_healthy_take_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
