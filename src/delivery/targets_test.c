/*
 * Goal: each origin and path of each tenant has a breaker of its own, only those that failed take
 * memory, and of those no more than may be. Method: a few targets by hand with every change noted,
 * then more than fit.
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

static void targets_test_note(void *context, const struct target_status *status)
{
    struct notes *notes = context;

    notes->count++;
    notes->last = status->state;
}

static struct instant targets_test_at(uint64_t ms)
{
    return (struct instant){(1000000 + ms) * 1000000};
}

#define FAILS ((struct target_verdict){{BREAKER_FAILED, BREAKER_UNKNOWN}}) /* no answer */
#define LIVES ((struct target_verdict){{BREAKER_ALIVE, BREAKER_ALIVE}})
#define ERRS  ((struct target_verdict){{BREAKER_ALIVE, BREAKER_FAILED}}) /* a status of 500 */

static struct timer *targets_test_timer(const char *tenant, const char *target, uint64_t timeout_ms)
{
    struct timer *timer =
        timer_alloc(&(struct timer_texts){.target = bytes_of(target), .tenant = bytes_of(tenant)});

    assert_non_null(timer);
    timer->retry.timeout_ms = timeout_ms;
    return timer;
}

/* One delivery that ends at once. False: it could not begin. */
static bool deliver_of(struct targets *targets, const char *tenant, const char *target, uint64_t ms,
                       struct target_verdict verdict)
{
    struct timer *timer = targets_test_timer(tenant, target, 15000);
    struct target_ticket ticket;
    struct target_status status;
    bool may = targets_enter(targets, timer, targets_test_at(ms), &ticket, &status);

    if (may) {
        targets_leave(targets, &ticket, timer, targets_test_at(ms), verdict, BYTES("why"));
    } else {
        assert_true(status.wait_ms > 0 && status.failures > 0);
        assert_true(bytes_equal(status.origin, timer_target_origin(timer)));
    }
    timer_free(timer);
    return may;
}

static bool targets_test_try_one(struct targets *targets, const char *target, uint64_t ms,
                                 struct target_verdict verdict)
{
    return deliver_of(targets, "", target, ms, verdict);
}

static struct target_status targets_test_status(struct targets *targets, const char *tenant,
                                                const char *target, uint64_t ms)
{
    struct timer *timer = targets_test_timer(tenant, target, 15000);
    struct target_status status;

    targets_status(targets, timer, targets_test_at(ms), &status);
    status.origin = (struct bytes){0};
    timer_free(timer);
    return status;
}

static void test_each_origin_for_itself(void **state)
{
    struct notes notes = {0};
    struct targets_options options = {
        .breaker = {2, 1000, 4000}, .seed = 7, .changed = targets_test_note, .context = &notes};
    struct targets *targets = targets_create(&options);

    (void)state;
    assert_non_null(targets);
    for (int i = 0; i < 2; i++)
        assert_true(targets_test_try_one(targets, "http://dead/", 0, FAILS));
    assert_false(targets_test_try_one(targets, "http://dead/", 1, LIVES));
    assert_true(targets_test_try_one(targets, "http://alive/", 1, LIVES));
    assert_true(notes.count == 1 && notes.last == BREAKER_OPEN);
    struct target_status status = targets_test_status(targets, "", "http://dead/", 1);
    assert_true(status.state == BREAKER_OPEN && status.failures == 2 && status.wait_ms == 999);
    status = targets_test_status(targets, "", "http://alive/", 1);
    assert_true(status.state == BREAKER_CLOSED && status.failures == 0 && status.wait_ms == 0);
    assert_true(targets_test_try_one(targets, "http://dead/", 1000, FAILS)); /* the probe */
    struct targets_stats stats;
    targets_stats(targets, &stats);
    assert_true(stats.open == 1 && stats.opened == 2 && stats.postponed == 1);
    assert_true(targets_test_try_one(targets, "http://dead/", 3000, LIVES));
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

    (void)state;
    assert_non_null(targets);
    for (int i = 0; i < 6; i++) {
        char origin[32];
        snprintf(origin, sizeof(origin), "http://dead-%d/", i);
        assert_true(targets_test_try_one(targets, origin, 0, FAILS));
    }
    struct targets_stats stats;
    targets_stats(targets, &stats);
    assert_int_equal(stats.open, 4);
    assert_true(targets_test_try_one(targets, "http://dead-5/", 1, FAILS)); /* none */
    assert_true(targets_test_try_one(targets, "http://dead-0/", 1000, LIVES));
    assert_true(targets_test_try_one(targets, "http://dead-5/", 2000, FAILS));
    assert_false(targets_test_try_one(targets, "http://dead-5/", 2001, FAILS));
    assert_true(targets_test_try_one(targets, "http://dead-0/", 2001, LIVES));
    targets_destroy(targets);
}

/* A target that answers is not kept, however many of them there are. */
static void test_the_healthy_take_no_room(void **state)
{
    struct targets_options options = {.breaker = {3, 1000, 1000}, .count_max = 1};
    struct targets *targets = targets_create(&options);

    (void)state;
    assert_non_null(targets);
    for (int i = 0; i < 100; i++) {
        char origin[32];
        snprintf(origin, sizeof(origin), "http://flaky-%d/", i);
        assert_true(targets_test_try_one(targets, origin, 0, FAILS));
        assert_true(targets_test_try_one(targets, origin, 0, LIVES));
    }
    for (int i = 0; i < 3; i++)
        assert_true(targets_test_try_one(targets, "http://dead/", 0, FAILS));
    assert_false(targets_test_try_one(targets, "http://dead/", 0, FAILS));
    targets_destroy(targets);
}

/* The failures of a tenant's deliveries hold back that tenant only. */
/* proves: breaker, target-isolation */
static void test_each_tenant_for_itself(void **state)
{
    struct targets_options options = {.breaker = {2, 1000, 4000}, .seed = 7};
    struct targets *targets = targets_create(&options);

    (void)state;
    assert_non_null(targets);
    for (int i = 0; i < 2; i++)
        assert_true(deliver_of(targets, "a", "http://host/x", 0, FAILS));
    assert_false(deliver_of(targets, "a", "http://host/y", 1, LIVES));
    assert_true(deliver_of(targets, "b", "http://host/x", 1, LIVES));
    assert_true(deliver_of(targets, "", "http://host/x", 1, LIVES));
    assert_int_equal(targets_test_status(targets, "a", "http://host/x", 1).state, BREAKER_OPEN);
    assert_int_equal(targets_test_status(targets, "b", "http://host/x", 1).failures, 0);
    targets_destroy(targets);
}

/* Errors of a path hold back that path, whatever its query, and not the origin. */
/* proves: breaker, target-isolation */
static void test_each_path_for_itself(void **state)
{
    struct targets_options options = {.breaker = {2, 1000, 4000}, .seed = 7};
    struct targets *targets = targets_create(&options);

    (void)state;
    assert_non_null(targets);
    for (int i = 0; i < 2; i++)
        assert_true(deliver_of(targets, "a", "http://host/bad?n=1", 0, ERRS));
    assert_false(deliver_of(targets, "a", "http://host/bad?n=2", 1, LIVES));
    assert_true(deliver_of(targets, "a", "http://host/good", 1, LIVES));
    assert_true(deliver_of(targets, "b", "http://host/bad?n=1", 1, LIVES));
    assert_int_equal(targets_test_status(targets, "a", "http://host/bad", 1).scope, TARGET_PATH);
    assert_int_equal(targets_test_status(targets, "a", "http://host/bad", 1).wait_ms, 999);
    assert_int_equal(targets_test_status(targets, "a", "http://host/good", 1).state,
                     BREAKER_CLOSED);
    /* Its origin fails meanwhile; the path's probe, which is held back, stays to be had. */
    for (int i = 0; i < 2; i++)
        assert_true(deliver_of(targets, "a", "http://host/good", 500, FAILS));
    assert_false(deliver_of(targets, "a", "http://host/bad", 1000, LIVES));
    assert_int_equal(targets_test_status(targets, "a", "http://host/bad", 1000).scope,
                     TARGET_ORIGIN);
    assert_true(deliver_of(targets, "a", "http://host/bad", 1500, LIVES));
    struct targets_stats stats;
    targets_stats(targets, &stats);
    assert_true(stats.open == 0 && stats.opened == 2 && stats.postponed == 2);
    targets_destroy(targets);
}

/* A delivery whose time-out is too short to tell is not the probe: others may be. */
/* proves: breaker */
static void test_short_time_outs_are_no_probe(void **state)
{
    struct targets_options options = {.breaker = {1, 1000, 4000}, .seed = 7};
    struct targets *targets = targets_create(&options);
    struct timer *hasty = targets_test_timer("a", "http://host/x", TARGETS_TIMEOUT_MS_MIN - 1);

    (void)state;
    assert_non_null(targets);
    assert_true(deliver_of(targets, "a", "http://host/x", 0, FAILS));
    struct target_ticket ticket;
    struct target_status status;
    assert_false(targets_enter(targets, hasty, targets_test_at(999), &ticket, &status));
    assert_true(targets_enter(targets, hasty, targets_test_at(1000), &ticket, &status));
    assert_true(deliver_of(targets, "a", "http://host/x", 1000, LIVES));
    targets_leave(targets, &ticket, hasty, targets_test_at(1001), TARGET_VERDICT_UNKNOWN,
                  (struct bytes){0});
    assert_int_equal(targets_test_status(targets, "a", "http://host/x", 1001).state,
                     BREAKER_CLOSED);
    timer_free(hasty);
    targets_destroy(targets);
}

struct views {
    size_t count;
    char texts[4][160];
};

/* Goal: a reset closes the breakers of one target of one tenant, however it is written, and of its
 * paths; the target is tried at once, and fails anew from the beginning. */
/* proves: target-reset, tenant-isolation */
static void test_a_reset_closes_one_target(void **state)
{
    struct notes notes = {0};
    struct targets *targets = targets_create(&(struct targets_options){
        .breaker = {2, 1000, 8000}, .changed = targets_test_note, .context = &notes});
    struct targets_stats stats;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        deliver_of(targets, "shop", "https://A.example:443/x", 0, FAILS);
        deliver_of(targets, "bank", "https://a.example/x", 0, FAILS);
        deliver_of(targets, "shop", "https://b.example/x", 0, ERRS);
    }
    assert_false(deliver_of(targets, "shop", "https://A.example:443/x", 1, LIVES));
    assert_false(deliver_of(targets, "shop", "https://b.example/x", 1, LIVES));
    targets_stats(targets, &stats);
    assert_int_equal(stats.open, 3);
    notes = (struct notes){0};
    assert_int_equal(targets_reset(targets, BYTES("shop"), BYTES("https://a.example")), 1);
    assert_int_equal(targets_reset(targets, BYTES("shop"), BYTES("https://b.example")), 1);
    assert_int_equal(targets_reset(targets, BYTES("shop"), BYTES("https://b.example")), 0);
    assert_int_equal(notes.count, 2);
    assert_int_equal(notes.last, BREAKER_CLOSED);
    targets_stats(targets, &stats);
    assert_int_equal(stats.open, 1);
    assert_false(deliver_of(targets, "bank", "https://a.example/x", 2, LIVES));
    assert_true(deliver_of(targets, "shop", "https://b.example/x", 2, LIVES));
    assert_true(deliver_of(targets, "shop", "https://A.example:443/x", 2, FAILS));
    assert_true(deliver_of(targets, "shop", "https://A.example:443/x", 2, FAILS));
    assert_false(deliver_of(targets, "shop", "https://A.example:443/x", 3, LIVES));
    targets_destroy(targets);
}

static void targets_test_tell(void *context, const struct target_status *status)
{
    struct views *views = context;

    assert_true(views->count < 4);
    snprintf(views->texts[views->count++], sizeof(views->texts[0]), "%.*s %.*s %s %u %d %.*s",
             (int)status->origin.size, status->origin.data, (int)status->path.size,
             status->path.data, breaker_state_text(status->state), (unsigned)status->failures,
             (int)status->wait_ms, (int)status->error_size, status->error);
}

/* Each tenant is told of its own targets that fail, of an origin and of a path, and why. */
/* proves: targets-list */
static void test_each_tenant_is_told_of_its_own(void **state)
{
    struct targets_options options = {.breaker = {1, 1000, 4000}, .seed = 7};
    struct targets *targets = targets_create(&options);
    struct views views = {0};

    (void)state;
    assert_non_null(targets);
    assert_true(deliver_of(targets, "a", "http://host/x?y=1", 0, ERRS));
    assert_true(deliver_of(targets, "b", "http://dead/z", 0, FAILS));
    assert_true(deliver_of(targets, "b", "http://well/", 0, FAILS));
    assert_true(deliver_of(targets, "b", "http://well/", 1000, LIVES));
    targets_each(targets, BYTES("a"), targets_test_at(1), targets_test_tell, &views);
    assert_int_equal(views.count, 1);
    assert_string_equal(views.texts[0], "http://host http://host/x open 1 999 why");
    targets_each(targets, BYTES("b"), targets_test_at(1), targets_test_tell, &views);
    assert_int_equal(views.count, 2);
    assert_string_equal(views.texts[1], "http://dead  open 1 999 why");
    targets_each(targets, BYTES(""), targets_test_at(1), targets_test_tell, &views);
    assert_int_equal(views.count, 2);
    targets_destroy(targets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_origin_for_itself),
        cmocka_unit_test(test_each_tenant_for_itself),
        cmocka_unit_test(test_each_path_for_itself),
        cmocka_unit_test(test_short_time_outs_are_no_probe),
        cmocka_unit_test(test_a_reset_closes_one_target),
        cmocka_unit_test(test_each_tenant_is_told_of_its_own),
        cmocka_unit_test(test_no_more_than_may_be),
        cmocka_unit_test(test_the_healthy_take_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
