/* Goal: messages and frames are in their topics together or not at all; a frame that does not lie
 * where it must is not committed; a refused message is told of, and a fenced producer does nothing
 * more. Method: librdkafka's own broker, in memory, which answers as the test says; or the broker
 * that LOG_KAFKA_BROKERS names, with the topics log-0, log-1 and so on, one for each test. The
 * broker in memory has no markers, and shows what is not committed: those tests need a real one. */
#include "log/kafka/log_kafka_once.h"
#include "sys/clock.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define WAIT_MS 60000
#define PRODUCE 0  /* the numbers of requests in Kafka's protocol */
#define ADD     24 /* partitions to a transaction */

struct kafka_once_fixture {
    rd_kafka_t *owner;
    rd_kafka_mock_cluster_t *cluster; /* NULL: a real broker */
    char topic[24], id[24];
    struct log_kafka_options log;
    struct log_kafka_once_options options;
    struct log_once *once;
};

static struct log_once *kafka_once_open_one(const struct kafka_once_fixture *fixture)
{
    struct log_once *once = NULL;
    struct error error;

    if (log_kafka_once_open(&fixture->options, &once, &error))
        fail_msg("%s", error.text);
    return once;
}

static void kafka_once_begin_mock(struct kafka_once_fixture *fixture)
{
    char text[200];

    fixture->owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof(text));
    assert_non_null(fixture->owner);
    fixture->cluster = rd_kafka_mock_cluster_new(fixture->owner, 1);
    assert_non_null(fixture->cluster);
    assert_int_equal(rd_kafka_mock_topic_create(fixture->cluster, fixture->topic, 2, 1), 0);
    fixture->log.brokers = rd_kafka_mock_cluster_bootstraps(fixture->cluster);
}

static int kafka_once_set_up(void **state)
{
    static unsigned topic_count;
    struct kafka_once_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    snprintf(fixture->id, sizeof(fixture->id), "once-%u", topic_count);
    snprintf(fixture->topic, sizeof(fixture->topic), "log-%u", topic_count++);
    fixture->log = (struct log_kafka_options){
        .brokers = getenv("LOG_KAFKA_BROKERS"),
        .topic = fixture->topic,
        .partition = 1,
        .append_timeout_ms = WAIT_MS,
    };
    if (!fixture->log.brokers)
        kafka_once_begin_mock(fixture);
    fixture->options = (struct log_kafka_once_options){
        .log = &fixture->log,
        .id = fixture->id,
        .open_timeout_ms = WAIT_MS,
        .settle_timeout_ms = 20000,
    };
    fixture->once = kafka_once_open_one(fixture);
    *state = fixture;
    return 0;
}

static int kafka_once_tear_down(void **state)
{
    struct kafka_once_fixture *fixture = *state;

    log_once_close(fixture->once);
    if (fixture->cluster) {
        rd_kafka_mock_cluster_destroy(fixture->cluster);
        rd_kafka_destroy(fixture->owner);
    }
    free(fixture);
    return 0;
}

/* To a partition that has no frames: librdkafka chooses it by the key. */
static struct log_kafka_message kafka_once_message(const struct kafka_once_fixture *fixture)
{
    static const struct named_bytes header = {"webhook-id", {"tmr_1", 5}};

    return (struct log_kafka_message){.topic = fixture->topic,
                                      .key = BYTES("d"), /* of partition 0 */
                                      .value = BYTES("due"),
                                      .headers = &header,
                                      .header_count = 1};
}

static bool kafka_once_stage(struct kafka_once_fixture *fixture, struct log_once_report *reports,
                             size_t count)
{
    const struct log_kafka_message message = kafka_once_message(fixture);
    struct error error;

    if (log_once_begin(fixture->once, false, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < count; i++)
        log_kafka_once_put(fixture->once, i, &message);
    return log_once_settle(fixture->once, reports, count);
}

static enum error_code kafka_once_commit(struct kafka_once_fixture *fixture, uint64_t from,
                                         uint64_t to, uint64_t *ret_offset)
{
    static const struct bytes frames[] = {{"one", 3}, {"two", 3}};
    const struct log_once_commit commit = {frames, 2, from, to, 20000};
    struct error error;

    return log_once_commit(fixture->once, &commit, ret_offset, &error);
}

static void test_together(void **state)
{
    struct kafka_once_fixture *fixture = *state;
    struct log_once_report reports[100];
    uint64_t offset;

    assert_true(kafka_once_stage(fixture, reports, 100));
    assert_int_equal(reports[99].fate, LOG_ONCE_TAKEN);
    assert_int_equal(kafka_once_commit(fixture, 0, 0, &offset), ERROR_NONE);
    assert_int_equal(offset, 1);
    assert_true(kafka_once_stage(fixture, reports, 1)); /* behind the marker */
    assert_int_equal(kafka_once_commit(fixture, 2, 3, &offset), ERROR_NONE);
    assert_int_equal(offset, fixture->cluster ? 3 : 4);
}

/* Another record lies before the frames, as it seems: they are not committed. */
static void test_out_of_place(void **state)
{
    struct kafka_once_fixture *fixture = *state;
    struct log_once_report report;
    uint64_t offset;

    assert_true(kafka_once_stage(fixture, &report, 1));
    assert_int_equal(kafka_once_commit(fixture, 0, 0, &offset), ERROR_NONE);
    assert_true(kafka_once_stage(fixture, &report, 1));
    assert_int_equal(kafka_once_commit(fixture, 0, 1, &offset), ERROR_IO);
    log_once_close(fixture->once);
    fixture->once = kafka_once_open_one(fixture);
    assert_true(kafka_once_stage(fixture, &report, 1));
    assert_int_equal(kafka_once_commit(fixture, 4, 7, &offset),
                     ERROR_NONE); /* behind what was aborted */
}

static void test_a_refused_message(void **state)
{
    struct kafka_once_fixture *fixture = *state;
    struct log_once_report report;
    uint64_t offset;

    if (!fixture->cluster)
        skip();
    rd_kafka_mock_push_request_errors(fixture->cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    assert_false(kafka_once_stage(fixture, &report, 1));
    assert_int_equal(report.fate, LOG_ONCE_CROWDED);
    assert_non_null(strstr(report.reason, "too large"));
    log_once_close(fixture->once);
    fixture->once = kafka_once_open_one(fixture);
    assert_true(kafka_once_stage(fixture, &report, 1));
    assert_int_equal(kafka_once_commit(fixture, 0, 0, &offset), ERROR_NONE);
}

/* No message is told of: the topic does not join the transaction. */
static void test_a_topic_that_is_not_allowed(void **state)
{
    struct kafka_once_fixture *fixture = *state;
    struct log_once_report reports[2];

    if (!fixture->cluster)
        skip();
    rd_kafka_mock_push_request_errors(fixture->cluster, ADD, 1,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_false(kafka_once_stage(fixture, reports, 2));
    assert_int_equal(reports[0].fate, LOG_ONCE_SUSPECT);
    assert_int_equal(reports[1].fate, LOG_ONCE_SUSPECT);
    assert_non_null(strstr(reports[1].reason, "authorization"));
}

static void test_no_such_topic(void **state)
{
    struct kafka_once_fixture *fixture = *state;
    struct log_kafka_message message = kafka_once_message(fixture);
    struct log_once_report report;

    if (fixture->cluster)
        skip(); /* it makes them */
    message.topic = "missing";
    assert_int_equal(log_once_begin(fixture->once, false, NULL), ERROR_NONE);
    log_kafka_once_put(fixture->once, 0, &message);
    assert_false(log_once_settle(fixture->once, &report, 1));
    assert_int_equal(report.fate, LOG_ONCE_REFUSED);
    assert_non_null(strstr(report.reason, "Unknown topic"));
}

/* The broker in memory fences nobody. */
static void test_a_fenced_producer(void **state)
{
    struct kafka_once_fixture *fixture = *state;
    struct log_once_report report;
    uint64_t offset;

    if (fixture->cluster)
        skip();
    assert_true(kafka_once_stage(fixture, &report, 1));
    struct log_once *next = kafka_once_open_one(fixture);
    assert_int_equal(kafka_once_commit(fixture, 0, 0, &offset), ERROR_IO);
    log_once_close(fixture->once);
    fixture->once = next;
    assert_true(kafka_once_stage(fixture, &report, 1));
    assert_int_equal(kafka_once_commit(fixture, 0, 0, &offset), ERROR_NONE);
}

/* While no broker is there. */
static void test_nobody_answers(void **state)
{
    struct kafka_once_fixture *fixture = *state;
    struct log_once_report report;
    struct log_once *once = NULL;
    struct error error;

    if (!fixture->cluster)
        skip();
    log_once_close(fixture->once);
    fixture->options.settle_timeout_ms = 1000;
    fixture->once = kafka_once_open_one(fixture);
    assert_int_equal(rd_kafka_mock_broker_set_down(fixture->cluster, 1), 0);
    assert_false(kafka_once_stage(fixture, &report, 1));
    assert_int_equal(report.fate, LOG_ONCE_UNKNOWN);
    fixture->options.open_timeout_ms = 500;
    assert_int_equal(log_kafka_once_open(&fixture->options, &once, &error), ERROR_IO);
    assert_null(once);
    assert_int_equal(rd_kafka_mock_broker_set_up(fixture->cluster, 1), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kafka_once_set_up, kafka_once_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_together),          TEST(test_out_of_place),
        TEST(test_a_refused_message), TEST(test_a_topic_that_is_not_allowed),
        TEST(test_no_such_topic),     TEST(test_a_fenced_producer),
        TEST(test_nobody_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
