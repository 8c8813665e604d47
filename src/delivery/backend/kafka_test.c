/*
 * Goal: a producer that librdkafka declares broken for good (ERR__FATAL) is replaced, and takes no
 * message from then on. Method: the test plays the connection, on librdkafka's own broker, which
 * answers a message with "out of order sequence number".
 */
#include "delivery/broker_backend.h"
#include "sys/clock.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define WAIT_MS 60000
#define PRODUCE 0 /* the number of that request in Kafka's protocol */

/* The last outcome. */
struct broker_sink {
    uint64_t ticket;
    enum delivery_result result;
    char error[160];
    size_t count;
};

void broker_outcome(struct broker_sink *sink, uint64_t ticket, enum delivery_result result,
                    const char *error)
{
    sink->ticket = ticket;
    sink->result = result;
    snprintf(sink->error, sizeof(sink->error), "%s", error);
    sink->count++;
}

struct kafka_fixture {
    rd_kafka_t *owner;
    rd_kafka_mock_cluster_t *cluster;
    struct broker_url url;
    struct broker_settings settings;
    struct broker_sink sink;
    void *client;
};

static int kafka_set_up(void **state)
{
    struct kafka_fixture *fixture = calloc(1, sizeof(*fixture));
    char text[200];
    struct error error;

    assert_non_null(fixture);
    fixture->owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof(text));
    assert_non_null(fixture->owner);
    fixture->cluster = rd_kafka_mock_cluster_new(fixture->owner, 1);
    assert_non_null(fixture->cluster);
    assert_int_equal(rd_kafka_mock_topic_create(fixture->cluster, "timers", 1, 1), 0);
    snprintf(text, sizeof(text), "kafka://%s", rd_kafka_mock_cluster_bootstraps(fixture->cluster));
    assert_int_equal(broker_url_parse(bytes_of(text), &fixture->url, &error), ERROR_NONE);
    fixture->settings = (struct broker_settings){
        .url = &fixture->url,
        .client_name = "test",
        .connect_timeout_ms = WAIT_MS,
        .inflight_max = 1000000,
        .sink = &fixture->sink,
    };
    assert_int_equal(broker_kafka.create(&fixture->settings, &fixture->client, &error), ERROR_NONE);
    assert_int_equal(broker_kafka.connect(fixture->client, &error), ERROR_NONE);
    *state = fixture;
    return 0;
}

static int kafka_tear_down(void **state)
{
    struct kafka_fixture *fixture = *state;

    broker_kafka.disconnect(fixture->client);
    broker_kafka.destroy(fixture->client);
    rd_kafka_mock_cluster_destroy(fixture->cluster);
    rd_kafka_destroy(fixture->owner);
    free(fixture);
    return 0;
}

static bool publish(struct kafka_fixture *fixture, uint64_t ticket)
{
    struct broker_message message = {.names = {BYTES("timers")}, .payload = BYTES("x")};

    return broker_kafka.publish(fixture->client, ticket, &message);
}

static void test_a_broken_producer(void **state)
{
    struct kafka_fixture *fixture = *state;
    struct broker_sink *sink = &fixture->sink;
    uint64_t ticket = 1;
    struct error error;

    rd_kafka_mock_push_request_errors(fixture->cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    struct instant until = instant_add_ms(instant_now(), WAIT_MS);
    /* It breaks between two calls of wait. A message that it did not take has not failed. */
    while (publish(fixture, ticket++)) {
        assert_string_equal(sink->error, "");
        assert_true(instant_now().ns < until.ns);
    }
    while (broker_kafka.wait(fixture->client, -1, WAIT_MS, &error) == ERROR_NONE)
        assert_true(instant_now().ns < until.ns);
    assert_non_null(strstr(error.text, "sequence"));

    broker_kafka.disconnect(fixture->client);
    assert_int_equal(broker_kafka.connect(fixture->client, &error), ERROR_NONE);
    sink->count = 0;
    assert_true(publish(fixture, ticket));
    while (sink->count == 0)
        assert_int_equal(broker_kafka.wait(fixture->client, -1, WAIT_MS, &error), ERROR_NONE);
    assert_int_equal(sink->ticket, ticket);
    assert_int_equal(sink->result, DELIVERY_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_broken_producer, kafka_set_up, kafka_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
