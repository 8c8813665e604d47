/*
 * Goal: targets that never answer leave places in flight to those that do, and a tenant to the
 * others. Method: one engine by hand with 64 places; silent targets get all that they may, then
 * healthy ones of either tenant must be sent at once.
 */
#include "engine/engine_testing.h"
#include "engine/shares.h"

#include <stdio.h>

enum { PLACES = 64 };

static void shares_test_open(struct engine_fixture *fixture)
{
    fixture_prepare(fixture);
    fixture->options.inflight_max = PLACES;
    fixture_open(fixture);
}

static void shares_test_create(struct engine_fixture *fixture, const char *tenant,
                               const char *target)
{
    struct timer *timer =
        timer_alloc(&(struct timer_texts){.target = bytes_of(target), .tenant = bytes_of(tenant)});
    struct command_created created;
    struct command command = {.kind = COMMAND_CREATE,
                              .timers = &timer,
                              .results = &created,
                              .timer_count = 1,
                              .tenant = bytes_of(tenant)};

    timer->due = timer->at = fixture->now;
    turn_submit(fixture->engine, fixture->now, &command);
    fixture_carry_out(fixture);
    assert_int_equal(command.error, ERROR_NONE);
}

/* How many deliveries of the tenant are out, to an origin or to any. */
static size_t shares_test_out(const struct engine_fixture *fixture, const char *tenant,
                              const char *origin)
{
    size_t count = 0;

    LIST_FOR_EACH (&fixture->out, link) {
        const struct timer *timer = list_item(link, struct delivery, link)->timer;

        count += bytes_equal(timer->texts.tenant, bytes_of(tenant)) &&
                 (!origin || bytes_equal(timer_target_origin(timer), bytes_of(origin)));
    }
    return count;
}

static void shares_test_answer(struct engine_fixture *fixture, const char *origin,
                               enum delivery_result result)
{
    LIST_FOR_EACH (&fixture->out, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        if (bytes_equal(timer_target_origin(delivery->timer), bytes_of(origin)))
            fixture_answer(fixture, delivery, (struct delivery_outcome){.result = result});
    }
}

static void shares_test_flood(struct engine_fixture *fixture, const char *tenant, int hosts,
                              int each)
{
    for (int i = 0; i < hosts * each; i++) {
        char target[48];
        snprintf(target, sizeof(target), "http://silent-%s-%d/", tenant, i % hosts);
        shares_test_create(fixture, tenant, target);
    }
}

/* However many targets are silent, a new one is sent to at once, with either tenant. */
/* proves: target-isolation */
static void test_silent_targets_leave_places(void **state)
{
    static const int hosts[] = {1, 3, 10, 20};

    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        struct engine_fixture fixture;

        shares_test_open(&fixture);
        shares_test_flood(&fixture, "a", hosts[i], 64);
        shares_test_flood(&fixture, "b", hosts[i], 64);
        assert_in_range(shares_test_out(&fixture, "a", NULL), hosts[i], PLACES / 2);
        shares_test_create(&fixture, "a", "http://healthy/");
        shares_test_create(&fixture, "b", "http://healthy/");
        assert_int_equal(shares_test_out(&fixture, "a", "http://healthy"), 1);
        assert_int_equal(shares_test_out(&fixture, "b", "http://healthy"), 1);
        fixture_deinit(&fixture);
    }
}

/* More silent targets than places: those that answered lately have places of their own, until they
 * do not answer. */
/* proves: target-isolation */
static void test_the_proven_have_places(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    shares_test_open(&fixture);
    shares_test_create(&fixture, "a", "http://healthy/");
    shares_test_answer(&fixture, "http://healthy", DELIVERY_DONE);
    shares_test_flood(&fixture, "a", 100, 1);
    shares_test_flood(&fixture, "b", 100, 1);
    assert_int_equal(shares_test_out(&fixture, "a", NULL), 28);
    assert_int_equal(shares_test_out(&fixture, "b", NULL), 28);
    shares_test_create(&fixture, "b", "http://healthy/"); /* not proven for this tenant */
    assert_int_equal(shares_test_out(&fixture, "b", "http://healthy"), 0);
    for (int i = 0; i < 3; i++)
        shares_test_create(&fixture, "a", "http://healthy/");
    assert_int_equal(shares_test_out(&fixture, "a", "http://healthy"), 3);
    shares_test_answer(&fixture, "http://healthy", DELIVERY_FAILED);
    shares_test_create(&fixture, "a", "http://healthy/");
    assert_int_equal(shares_test_out(&fixture, "a", "http://healthy"), 0);
    fixture_deinit(&fixture);
}

/* A proof lapses. */
static void test_a_proof_lapses(void **state)
{
    (void)state;
    for (uint64_t left_ms = 0; left_ms < 2; left_ms++) {
        struct engine_fixture fixture;
        shares_test_open(&fixture);
        shares_test_create(&fixture, "", "http://healthy/");
        shares_test_answer(&fixture, "http://healthy", DELIVERY_DONE);
        shares_test_flood(&fixture, "", 100, 1);
        fixture_advance_to(&fixture, SHARES_PROOF_MS - left_ms);
        shares_test_create(&fixture, "", "http://healthy/");
        assert_int_equal(shares_test_out(&fixture, "", "http://healthy"), left_ms);
        fixture_deinit(&fixture);
    }
}

/* Proven targets that fall silent together, as behind one provider, leave places to the others. */
/* proves: target-isolation */
static void test_the_proven_fall_silent(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    shares_test_open(&fixture);
    shares_test_flood(&fixture, "a", 10, 1);
    shares_test_create(&fixture, "a", "http://healthy/");
    for (int i = 0; i < 10; i++) {
        char origin[48];
        snprintf(origin, sizeof(origin), "http://silent-a-%d", i);
        shares_test_answer(&fixture, origin, DELIVERY_DONE);
    }
    shares_test_answer(&fixture, "http://healthy", DELIVERY_DONE);
    shares_test_flood(&fixture, "a", 10, 64);
    assert_in_range(shares_test_out(&fixture, "a", NULL), 40, PLACES - PLACES / 8 - 1);
    shares_test_create(&fixture, "a", "http://healthy/");
    shares_test_create(&fixture, "b", "http://healthy/");
    assert_int_equal(shares_test_out(&fixture, "a", "http://healthy"), 1);
    assert_int_equal(shares_test_out(&fixture, "b", "http://healthy"), 1);
    fixture_deinit(&fixture);
}

/* A healthy target alone is not held back: after the first answers it has half of the places. */
static void test_a_healthy_target_gets_on(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    shares_test_open(&fixture);
    for (int i = 0; i < 200; i++)
        shares_test_create(&fixture, "", "http://healthy/");
    assert_in_range(shares_test_out(&fixture, "", NULL), 2, PLACES / 8);
    shares_test_answer(&fixture, "http://healthy", DELIVERY_DONE);
    assert_in_range(fixture.delivered_count, PLACES / 4, 200);
    while (!list_is_empty(&fixture.out))
        shares_test_answer(&fixture, "http://healthy", DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, 200);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_targets_leave_places),
        cmocka_unit_test(test_the_proven_have_places),
        cmocka_unit_test(test_a_proof_lapses),
        cmocka_unit_test(test_the_proven_fall_silent),
        cmocka_unit_test(test_a_healthy_target_gets_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
