/*
 * Goal: each delivery comes back once, with the outcome that the contract names, whatever the
 * broker does; limits hold; what could not be sent spends no attempt. Method: a backend that does
 * what the test says (broker_fixture.h), under the real thread; and a random walk of everything
 * that can happen.
 */
#include "delivery/broker_connection.h"

#include "base/random.h"
#include "delivery/broker_fixture.h"
#include "seed.h"

#define TARGET "redis://orders/stream"
#define LONG   60000

/* Goal: what the broker says is what comes back, stamped with when it was sent. */
static void test_broker_connection_outcomes(void **state)
{
    struct broker_shipment *shipments = shipments_create(3, TARGET, LONG);
    uint64_t began_us = wall_now_us();

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, shipments, 3);
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 3);
    fake_answer(&fixture.fake, 2, DELIVERY_ENDED); /* in any order */
    fake_answer(&fixture.fake, 0, DELIVERY_DONE);
    fake_answer(&fixture.fake, 1, DELIVERY_FAILED);
    broker_fixture_wait(&fixture, 3);
    broker_fixture_stop(&fixture);
    check_outcome(&shipments[0], DELIVERY_DONE, "");
    check_outcome(&shipments[1], DELIVERY_FAILED, "told so");
    check_outcome(&shipments[2], DELIVERY_ENDED, "told so");
    for (size_t i = 0; i < 3; i++) {
        assert_true(shipments[i].delivery.started_us >= began_us);
        assert_true(shipments[i].delivery.ended_us >= shipments[i].delivery.started_us);
        assert_int_equal(shipments[i].delivery.outcome.retry_after_ms, 0);
    }
    shipments_destroy(shipments, 3);
}

/* Goal: what this node may not send any more is not sent; what lies behind it is. */
static void test_broker_lease_is_over(void **state)
{
    static const _Atomic uint64_t never;
    struct broker_shipment *shipments = shipments_create(3, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.fake.answers = true;
    broker_fixture_start(&fixture);
    shipments[0].delivery.valid_until_ns = shipments[1].delivery.valid_until_ns = &never;
    broker_fixture_post(&fixture, shipments, 3);
    broker_fixture_wait(&fixture, 3);
    assert_int_equal(fixture.fake.sent_count, 1);
    broker_fixture_stop(&fixture);
    check_outcome(&shipments[0], DELIVERY_RETURNED, "");
    check_outcome(&shipments[1], DELIVERY_RETURNED, "");
    check_outcome(&shipments[2], DELIVERY_DONE, "");
    shipments_destroy(shipments, 3);
}

/* Goal: never more than inflight_max are unanswered, and each answer lets one more out. */
/* proves: broker_inflight_max */
static void test_inflight_limit(void **state)
{
    struct broker_shipment *shipments = shipments_create(40, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.options.inflight_max = 4;
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, shipments, 40);
    for (size_t i = 0; i < 40; i++) {
        fake_wait_for(&fixture.fake, &fixture.fake.sent_count, i + 4 < 40 ? i + 4 : 40);
        fake_answer(&fixture.fake, i, DELIVERY_DONE);
    }
    broker_fixture_wait(&fixture, 40);
    assert_int_equal(fixture.fake.open_max, 4);
    broker_fixture_stop(&fixture);
    shipments_destroy(shipments, 40);
}

/* Goal: payload is bounded in bytes too; one that is larger than the limit goes alone. */
/* proves: broker_inflight_bytes_max */
static void test_bytes_limit(void **state)
{
    static char payload[600];
    struct timer_texts texts = {.target = BYTES(TARGET), .payload = {payload, sizeof(payload)}};

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.options.inflight_bytes_max = 1300;
    broker_fixture_start(&fixture);
    struct broker_shipment shipments[12];
    for (size_t i = 0; i < COUNT(shipments); i++)
        broker_shipment_init_texts(&shipments[i], &texts);
    broker_fixture_post(&fixture, shipments, COUNT(shipments));
    for (size_t i = 0; i < COUNT(shipments); i++) {
        fake_wait_for(&fixture.fake, &fixture.fake.sent_count,
                      i + 2 < COUNT(shipments) ? i + 2 : COUNT(shipments));
        fake_answer(&fixture.fake, i, DELIVERY_DONE);
    }
    broker_fixture_wait(&fixture, COUNT(shipments));
    assert_int_equal(fixture.fake.open_max, 2);
    broker_fixture_stop(&fixture);

    broker_fixture_init(&fixture);
    fixture.options.inflight_bytes_max = 1;
    fixture.fake.answers = true;
    broker_fixture_start(&fixture);
    for (size_t i = 0; i < COUNT(shipments); i++)
        shipments[i].done_count = 0;
    broker_fixture_post(&fixture, shipments, COUNT(shipments));
    broker_fixture_wait(&fixture, COUNT(shipments));
    assert_int_equal(fixture.fake.open_max, 1);
    broker_fixture_stop(&fixture);
    for (size_t i = 0; i < COUNT(shipments); i++)
        timer_free(shipments[i].timer);
}

/* Goal: a message without an answer is failed at its own time-out, and an answer that comes too
 * late never touches the message that has its slot now. */
static void test_time_out_and_late_answer(void **state)
{
    struct broker_shipment *first = shipments_create(1, TARGET, 20);
    struct broker_shipment *second = shipments_create(1, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.options.inflight_max = 1;
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, first, 1);
    broker_fixture_wait(&fixture, 1);
    check_outcome(first, DELIVERY_FAILED, "did not confirm within 20 ms");
    broker_fixture_post(&fixture, second, 1);
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 2);
    assert_int_equal((uint32_t)fixture.fake.sent[0],
                     (uint32_t)fixture.fake.sent[1]); /* the same slot */
    fake_answer(&fixture.fake, 0, DELIVERY_ENDED);
    fake_answer(&fixture.fake, 1, DELIVERY_DONE);
    broker_fixture_wait(&fixture, 2);
    check_outcome(second, DELIVERY_DONE, "");
    check_outcome(first, DELIVERY_FAILED, "did not confirm");
    broker_fixture_stop(&fixture);
    shipments_destroy(first, 1);
    shipments_destroy(second, 1);
}

/* Goal: without a connection nothing is an attempt; with one it goes on by itself. */
/* proves: broker-down */
static void test_postponed_while_down(void **state)
{
    struct broker_shipment *soon = shipments_create(3, TARGET, 20);
    struct broker_shipment *later = shipments_create(3, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.fake.is_down = fixture.fake.answers = true;
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, later, 3);
    broker_fixture_post(&fixture, soon, 3);
    broker_fixture_wait(&fixture, 3);
    for (size_t i = 0; i < 3; i++) {
        check_outcome(&soon[i], DELIVERY_POSTPONED,
                      "no connection to broker \"orders\": it is away");
        assert_true(soon[i].delivery.outcome.retry_after_ms > 0);
        assert_int_equal(soon[i].delivery.started_us, 0);
    }
    struct broker_status status;
    broker_connection_status(fixture.connection, &status);
    assert_false(status.is_up);
    assert_string_equal(status.cause, "it is away");
    fake_set(&fixture.fake, &fixture.fake.is_down, false);
    broker_fixture_wait(&fixture, 6);
    for (size_t i = 0; i < 3; i++)
        check_outcome(&later[i], DELIVERY_DONE, "");
    broker_connection_status(fixture.connection, &status);
    assert_true(status.is_up && status.connects == 1);
    assert_true(*status.cause == '\0' && *status.lost == '\0');
    broker_fixture_stop(&fixture);
    shipments_destroy(soon, 3);
    shipments_destroy(later, 3);
}

/* Goal: what was under way when the connection broke fails, what waited goes on the next one. */
static void test_loss(void **state)
{
    struct broker_shipment *shipments = shipments_create(10, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.options.inflight_max = 4;
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, shipments, 10);
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 4);
    fake_answer(&fixture.fake, 0, DELIVERY_DONE); /* the connection has been of use */
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 5);
    fake_set(&fixture.fake, &fixture.fake.is_to_lose, true);
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 9);
    for (size_t i = 1; i < 5; i++)
        fake_answer(&fixture.fake, i, DELIVERY_DONE); /* of the old connection: nobody listens */
    for (size_t i = 5; i < 9; i++)
        fake_answer(&fixture.fake, i, DELIVERY_DONE);
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 10);
    fake_answer(&fixture.fake, 9, DELIVERY_DONE);
    broker_fixture_wait(&fixture, 10);
    struct broker_status status;
    broker_connection_status(fixture.connection, &status);
    assert_true(status.is_up && status.connects == 2);
    assert_string_equal(status.lost, "it hung up");
    broker_fixture_stop(&fixture);
    for (size_t i = 0; i < 10; i++)
        check_outcome(&shipments[i], i >= 1 && i < 5 ? DELIVERY_FAILED : DELIVERY_DONE,
                      i >= 1 && i < 5 ? "lost before the broker confirmed: it hung up" : "");
    assert_int_equal(fixture.fake.connects, 2);
    shipments_destroy(shipments, 10);
}

/* Goal: a connection on which nothing is answered is made again, long before the time-out. */
static void test_silence(void **state)
{
    struct broker_shipment *shipment = shipments_create(1, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.options.silence_ms = 30;
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, shipment, 1);
    broker_fixture_wait(&fixture, 1);
    check_outcome(shipment, DELIVERY_FAILED, "the broker does not answer");
    fake_wait_for(&fixture.fake, &fixture.fake.connects, 2);
    broker_fixture_stop(&fixture);
    shipments_destroy(shipment, 1);
}

/* Goal: a connection that answers is kept, although one message stays without an answer for longer
 * than silence_ms. A machine that stops this test for so long proves nothing. */
static void test_slow_is_not_silent(void **state)
{
    enum { SILENCE_MS = 500, SHIPMENTS = 5000 };
    struct broker_shipment *shipments = shipments_create(SHIPMENTS, TARGET, LONG);
    struct instant began = instant_now(), answered = began;

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.options.silence_ms = SILENCE_MS;
    broker_fixture_start(&fixture);
    size_t sent = 0;
    broker_fixture_post(&fixture, &shipments[sent++], 1);
    uint64_t gap_ns = 0;
    while (sent < SHIPMENTS &&
           instant_since_ns(began, instant_now()) < 2 * SILENCE_MS * 1000000ull) {
        broker_fixture_post(&fixture, &shipments[sent++], 1);
        fake_wait_for(&fixture.fake, &fixture.fake.sent_count, sent);
        fake_answer(&fixture.fake, sent - 1, DELIVERY_DONE);
        broker_fixture_wait(&fixture, sent - 1);
        if (instant_since_ns(answered, instant_now()) > gap_ns)
            gap_ns = instant_since_ns(answered, instant_now());
        answered = instant_now();
        poll(NULL, 0, 1);
    }
    if (gap_ns < SILENCE_MS / 2 * 1000000ull)
        assert_int_equal(fixture.fake.connects, 1);
    broker_fixture_stop(&fixture);
    shipments_destroy(shipments, SHIPMENTS);
}

/* Goal: time-outs that are much shorter than any broker takes do not cost the others their
 * connection. */
static void test_short_time_outs_break_nothing(void **state)
{
    struct broker_shipment *hasty = shipments_create(20, TARGET, 1);
    struct broker_shipment *patient = shipments_create(1, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, patient, 1);
    broker_fixture_post(&fixture, hasty, 20);
    broker_fixture_wait(&fixture, 20);
    fake_answer(&fixture.fake, 0, DELIVERY_DONE);
    broker_fixture_wait(&fixture, 21);
    check_outcome(patient, DELIVERY_DONE, "");
    assert_int_equal(fixture.fake.connects, 1);
    broker_fixture_stop(&fixture);
    shipments_destroy(hasty, 20);
    shipments_destroy(patient, 1);
}

/* Goal: a client without room takes nothing: the message waits, and goes when there is some. */
static void test_full_client(void **state)
{
    struct broker_shipment *shipments = shipments_create(3, TARGET, LONG);
    struct broker_shipment *soon = shipments_create(1, TARGET, 20);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.fake.is_full = fixture.fake.answers = true;
    broker_fixture_start(&fixture);
    fake_wait_for(&fixture.fake, &fixture.fake.connects, 1);
    broker_fixture_post(&fixture, shipments, 3);
    broker_fixture_post(&fixture, soon, 1);
    broker_fixture_wait(&fixture, 1);
    check_outcome(soon, DELIVERY_POSTPONED, "no room at broker \"orders\"");
    assert_int_equal(soon->delivery.started_us, 0);
    fake_set(&fixture.fake, &fixture.fake.is_full, false);
    broker_fixture_wait(&fixture, 4);
    broker_fixture_stop(&fixture);
    assert_int_equal(fixture.fake.sent_count, 3);
    shipments_destroy(shipments, 3);
    shipments_destroy(soon, 1);
}

/* Goal: a stop hands everything back: under way as failed, waiting as postponed, and what `done`
 * posts meanwhile too. */
static void test_broker_connection_stop(void **state)
{
    struct broker_shipment *shipments = shipments_create(10, TARGET, LONG);
    struct broker_shipment *last = shipments_create(2, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.options.inflight_max = 4;
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, shipments, 10);
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 4);
    struct list again;
    shipments_list(last, 2, &again);
    pthread_mutex_lock(&fixture.lock);
    fixture.again = &again;
    pthread_mutex_unlock(&fixture.lock);
    broker_connection_stop(fixture.connection);
    assert_int_equal(broker_fixture_done_count(&fixture), 12);
    for (size_t i = 0; i < 10; i++)
        check_outcome(&shipments[i], i < 4 ? DELIVERY_FAILED : DELIVERY_POSTPONED,
                      "the service is stopping");
    check_outcome(&last[0], DELIVERY_POSTPONED, "the service is stopping");
    check_outcome(&last[1], DELIVERY_POSTPONED, "the service is stopping");
    broker_fixture_deinit(&fixture);
    shipments_destroy(shipments, 10);
    shipments_destroy(last, 2);
}

/* Goal: draining does not wait for a broker that is away, but does for one that answers. */
static void test_drain(void **state)
{
    struct broker_shipment *shipments = shipments_create(4, TARGET, LONG);

    (void)state;
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.fake.is_down = true;
    broker_fixture_start(&fixture);
    broker_fixture_post(&fixture, shipments, 2);
    broker_connection_drain(fixture.connection);
    broker_fixture_wait(&fixture, 2);
    check_outcome(&shipments[0], DELIVERY_POSTPONED, "no connection");
    broker_fixture_stop(&fixture);

    broker_fixture_init(&fixture);
    fixture.options.inflight_max = 1;
    broker_fixture_start(&fixture);
    fake_wait_for(&fixture.fake, &fixture.fake.connects, 1);
    broker_fixture_post(&fixture, shipments + 2, 2);
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 1);
    broker_connection_drain(fixture.connection);
    fake_answer(&fixture.fake, 0, DELIVERY_DONE);
    fake_wait_for(&fixture.fake, &fixture.fake.sent_count, 2);
    fake_answer(&fixture.fake, 1, DELIVERY_DONE);
    broker_fixture_wait(&fixture, 2);
    check_outcome(&shipments[2], DELIVERY_DONE, "");
    check_outcome(&shipments[3], DELIVERY_DONE, "");
    broker_fixture_stop(&fixture);
    shipments_destroy(shipments, 4);
}

/* Goal: whatever happens in whatever order, each delivery comes back exactly once. Method: random
 * messages, answers, time-outs, losses, outages and full clients. */
static void test_random_walk(void **state)
{
    enum { SHIPMENTS = 3000 };
    struct broker_shipment *shipments = calloc(SHIPMENTS, sizeof(*shipments));

    (void)state;
    uint64_t seed = testing_seed();
    struct random random = random_seeded(seed);
    struct broker_fixture fixture;
    broker_fixture_init(&fixture);
    fixture.options.inflight_max = 1 + (uint32_t)random_below(&random, 40);
    fixture.options.silence_ms = 200;
    broker_fixture_start(&fixture);
    size_t posted = 0;
    while (posted < SHIPMENTS) {
        size_t count = 1 + random_below(&random, 20);

        count = count < SHIPMENTS - posted ? count : SHIPMENTS - posted;
        for (size_t i = posted; i < posted + count; i++)
            broker_shipment_init(&shipments[i], TARGET, 1 + random_below(&random, 200));
        broker_fixture_post(&fixture, shipments + posted, count);
        posted += count;
        fake_set(&fixture.fake, &fixture.fake.answers, random_below(&random, 8) > 0);
        fake_set(&fixture.fake, &fixture.fake.is_full, random_below(&random, 16) == 0);
        fake_set(&fixture.fake, &fixture.fake.is_down, random_below(&random, 32) == 0);
        if (random_below(&random, 16) == 0)
            fake_set(&fixture.fake, &fixture.fake.is_to_lose, true);
        if (random_below(&random, 4) == 0)
            broker_fixture_wait(&fixture, posted / 2);
    }
    if (random_below(&random, 2)) {
        fake_set(&fixture.fake, &fixture.fake.is_full, false);
        broker_fixture_wait(&fixture, SHIPMENTS);
    }
    broker_connection_stop(fixture.connection);
    assert_int_equal(broker_fixture_done_count(&fixture), SHIPMENTS);
    for (size_t i = 0; i < SHIPMENTS; i++)
        assert_int_equal(shipments[i].done_count, 1);
    broker_fixture_deinit(&fixture);
    shipments_destroy(shipments, SHIPMENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broker_connection_outcomes),
        cmocka_unit_test(test_broker_lease_is_over),
        cmocka_unit_test(test_inflight_limit),
        cmocka_unit_test(test_bytes_limit),
        cmocka_unit_test(test_time_out_and_late_answer),
        cmocka_unit_test(test_postponed_while_down),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_slow_is_not_silent),
        cmocka_unit_test(test_short_time_outs_break_nothing),
        cmocka_unit_test(test_full_client),
        cmocka_unit_test(test_broker_connection_stop),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_random_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
