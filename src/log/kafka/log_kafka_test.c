/* Goal: what the broker acknowledged is read back in one order, at the offsets that were told; an
 * append without success is told as in doubt, and the next one goes through; a log that was cut is
 * told. Method: librdkafka's own broker, in memory, which answers as the test says; or the broker
 * that LOG_KAFKA_BROKERS names, with the topics log-0, log-1 and so on, one for each test. */
#include "log/kafka/log_kafka.h"
#include "sys/clock.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define WAIT_MS    60000
#define STILL_MS   40000 /* of a broker, while another one has its place */
#define SESSION_MS 1000  /* after which it has */
#define ABSENCE_MS 30000 /* after it an append that no broker took has failed */
#define PRODUCE    0     /* the numbers of these requests in Kafka's protocol */
#define FETCH      1

struct log_kafka_fixture {
    rd_kafka_t *owner;
    rd_kafka_mock_cluster_t *cluster; /* NULL: a real broker */
    rd_kafka_mock_cluster_t *three;   /* with three brokers, for the test that made it */
    char topic[24];
    struct log_kafka_options options;
    struct log *log;
};

static struct log *log_kafka_open_one(const struct log_kafka_fixture *fixture)
{
    struct log *log = NULL;
    struct error error;

    if (log_kafka_open(&fixture->options, &log, &error))
        fail_msg("%s", error.text);
    return log;
}

static void log_kafka_begin_mock(struct log_kafka_fixture *fixture)
{
    char text[200];

    fixture->owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof(text));
    assert_non_null(fixture->owner);
    fixture->cluster = rd_kafka_mock_cluster_new(fixture->owner, 1);
    assert_non_null(fixture->cluster);
    assert_int_equal(rd_kafka_mock_topic_create(fixture->cluster, fixture->topic, 2, 1), 0);
    fixture->options.brokers = rd_kafka_mock_cluster_bootstraps(fixture->cluster);
}

static int log_kafka_set_up(void **state)
{
    static unsigned topic_count;
    struct log_kafka_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    snprintf(fixture->topic, sizeof(fixture->topic), "log-%u", topic_count++);
    fixture->options = (struct log_kafka_options){
        .brokers = getenv("LOG_KAFKA_BROKERS"),
        .topic = fixture->topic,
        .partition = 1,
        .append_timeout_ms = WAIT_MS,
    };
    if (!fixture->options.brokers)
        log_kafka_begin_mock(fixture);
    fixture->log = log_kafka_open_one(fixture);
    *state = fixture;
    return 0;
}

static int log_kafka_tear_down(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    log_close(fixture->log);
    if (fixture->three)
        rd_kafka_mock_cluster_destroy(fixture->three);
    if (fixture->cluster) {
        rd_kafka_mock_cluster_destroy(fixture->cluster);
        rd_kafka_destroy(fixture->owner);
    }
    free(fixture);
    return 0;
}

/* The next event that is one. */
static struct log_event log_kafka_next(struct log *log)
{
    const struct instant until = instant_add_ms(instant_now(), WAIT_MS);
    struct log_event event;

    while (log_wait(log, WAIT_MS, &event) == LOG_NOTHING)
        assert_true(instant_now().ns < until.ns);
    return event;
}

static void log_kafka_send(struct log *log, uint64_t ticket, const char *text)
{
    struct error error;

    if (log_append(log, ticket, bytes_of(text), &error))
        fail_msg("%s", error.text);
}

static void assert_lands(struct log *log, uint64_t ticket, const char *text, uint64_t offset)
{
    log_kafka_send(log, ticket, text);
    const struct log_event event = log_kafka_next(log);
    assert_int_equal(event.kind, LOG_LANDED);
    assert_int_equal(event.ticket, ticket);
    assert_int_equal(event.offset, offset);
}

static void assert_reads(struct log *log, const char *text, uint64_t offset)
{
    const struct log_event event = log_kafka_next(log);

    assert_int_equal(event.kind, LOG_RECORD);
    assert_int_equal(event.offset, offset);
    assert_true(bytes_equal(event.bytes, bytes_of(text)));
}

/* Of a log that is followed: its record, and the end behind it, may be read before it is told that
 * the record has landed. */
static void assert_lands_and_reads(struct log *log, uint64_t ticket, const char *text,
                                   uint64_t offset)
{
    bool has_landed = false, is_read = false, has_ended = false;

    log_kafka_send(log, ticket, text);
    while (!has_landed || !has_ended) {
        const struct log_event event = log_kafka_next(log);

        assert_int_equal(event.offset, offset + (event.kind == LOG_END));
        if (event.kind == LOG_LANDED) {
            assert_false(has_landed);
            assert_int_equal(event.ticket, ticket);
            has_landed = true;
        } else if (event.kind == LOG_END) {
            assert_true(is_read);
            has_ended = true;
        } else {
            assert_int_equal(event.kind, LOG_RECORD);
            assert_false(is_read);
            assert_true(bytes_equal(event.bytes, bytes_of(text)));
            is_read = true;
        }
    }
}

static void assert_ends(struct log *log, uint64_t offset)
{
    const struct log_event event = log_kafka_next(log);

    assert_int_equal(event.kind, LOG_END);
    assert_int_equal(event.offset, offset);
}

/* Without what it was about to tell. */
static struct log *log_kafka_open_again(struct log_kafka_fixture *fixture)
{
    log_close(fixture->log);
    return fixture->log = log_kafka_open_one(fixture);
}

/* Two nodes append, and both read one order. */
static void test_one_order(void **state)
{
    struct log_kafka_fixture *fixture = *state;
    struct log *one = fixture->log, *two = log_kafka_open_one(fixture);

    assert_int_equal(log_follow(one, 0, NULL), ERROR_NONE);
    assert_ends(one, 0);
    assert_lands(two, 7, "claim of two", 0);
    assert_reads(one, "claim of two", 0);
    assert_ends(one, 1);
    log_close(one);
    fixture->log = one = log_kafka_open_one(fixture);
    assert_lands(one, 1, "claim of one", 1);
    assert_lands(two, 8, "late", 2);
    assert_int_equal(log_follow(two, 1, NULL), ERROR_NONE);
    assert_reads(two, "claim of one", 1);
    assert_reads(two, "late", 2);
    assert_ends(two, 3);
    assert_int_equal(log_follow(two, 0, NULL), ERROR_NONE); /* again */
    assert_reads(two, "claim of two", 0);
    log_close(two);
}

/* A record that is nearly as large as a client sends by default: 1,000,000 bytes. */
static void test_a_large_record(void **state)
{
    enum { LARGE = 990000 };
    const struct log_kafka_fixture *fixture = *state;
    char *text = malloc(LARGE + 1);

    assert_non_null(text);
    for (uint32_t i = 0, random = 1; i < LARGE; i++, random = random * 1664525 + 1013904223)
        text[i] = (char)('0' + (random >> 24) % 64); /* noise: compression saves little */
    text[LARGE] = '\0';
    assert_lands(fixture->log, 1, text, 0);
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_reads(fixture->log, text, 0);
    free(text);
}

/* A producer that librdkafka declares broken for good is replaced. */
static void test_a_failed_append(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    if (!fixture->cluster)
        skip();
    rd_kafka_mock_push_request_errors(fixture->cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    log_kafka_send(fixture->log, 5, "refused");
    assert_int_equal(log_append(fixture->log, 6, BYTES("too soon"), NULL), ERROR_OVERLOADED);
    const struct log_event event = log_kafka_next(fixture->log);
    assert_int_equal(event.kind, LOG_FAILED);
    assert_int_equal(event.ticket, 5);
    assert_non_null(event.reason);
    assert_lands(fixture->log, 6, "taken", 0);
}

/* While no broker is there. */
static void test_an_append_in_doubt(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    if (!fixture->cluster)
        skip();
    fixture->options.append_timeout_ms = 300;
    struct log *log = log_kafka_open_one(fixture);
    assert_int_equal(rd_kafka_mock_broker_set_down(fixture->cluster, 1), 0);
    log_kafka_send(log, 5, "unknown");
    const struct log_event event = log_kafka_next(log);
    assert_int_equal(event.kind, LOG_FAILED);
    assert_int_equal(event.ticket, 5);
    log_close(log);
    assert_int_equal(rd_kafka_mock_broker_set_up(fixture->cluster, 1), 0);
    assert_lands(fixture->log, 6, "known", 0);
}

/* An append that no broker can take is given up long before its time-out, and the cause is told
 * before that. `set_away` takes the broker away, or brings it back. */
static void judge_an_absence(struct log_kafka_fixture *fixture,
                             void (*set_away)(struct log_kafka_fixture *fixture, bool is_away))
{
    char text[200] = "";

    assert_int_equal(log_kafka_client_open(&fixture->options, &fixture->options.client, NULL),
                     ERROR_NONE);
    struct log *log = log_kafka_open_one(fixture);
    assert_lands(log, 4, "before", 0);
    assert_int_equal(log_get_trouble(log, text, sizeof(text)), LOG_FINE);
    set_away(fixture, true);
    const struct instant begun = instant_now();
    log_kafka_send(log, 5, "unknown");
    struct log_event event = {.kind = LOG_NOTHING};
    while (log_get_trouble(log, text, sizeof(text)) != LOG_ALONE) {
        assert_int_equal(event.kind, LOG_NOTHING);
        log_wait(log, 50, &event);
    }
    assert_non_null(strstr(text, "no broker answers at "));
    assert_non_null(strstr(text, fixture->options.brokers));
    if (event.kind == LOG_NOTHING)
        event = log_kafka_next(log);
    assert_int_equal(event.kind, LOG_FAILED);
    assert_int_equal(event.ticket, 5);
    assert_true(instant_since_ns(begun, instant_now()) < ABSENCE_MS * UINT64_C(1000000));
    set_away(fixture, false);
    log_kafka_send(log, 6, "known");
    event = log_kafka_next(log);
    assert_int_equal(event.kind, LOG_LANDED);
    assert_int_equal(event.ticket, 6);
    assert_int_equal(log_get_trouble(log, text, sizeof(text)), LOG_FINE);
    log_close(log);
    log_kafka_client_close(fixture->options.client);
    fixture->options.client = NULL;
}

static void refuse_connections(struct log_kafka_fixture *fixture, bool is_away)
{
    assert_int_equal(is_away ? rd_kafka_mock_broker_set_down(fixture->cluster, 1)
                             : rd_kafka_mock_broker_set_up(fixture->cluster, 1),
                     0);
}

/* It takes requests, and answers none of them. */
static void stand_still(struct log_kafka_fixture *fixture, bool is_away)
{
    assert_int_equal(rd_kafka_mock_broker_set_rtt(fixture->cluster, 1, is_away ? WAIT_MS : 0), 0);
}

static void test_no_broker_is_there(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    if (!fixture->cluster)
        skip();
    judge_an_absence(fixture, refuse_connections);
}

static void test_no_broker_answers(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    if (!fixture->cluster)
        skip();
    judge_an_absence(fixture, stand_still);
}

/* The leader takes requests and connections, and answers none of them; later the brokers agree on
 * another one. The append that it has goes to that one, and so does the reader. */
static void test_a_leader_that_stands_still(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    if (!fixture->cluster)
        skip();
    rd_kafka_mock_cluster_t *three = rd_kafka_mock_cluster_new(fixture->owner, 3);
    assert_non_null(three);
    log_close(fixture->log);
    fixture->log = NULL;
    fixture->three = three;
    fixture->options.brokers = rd_kafka_mock_cluster_bootstraps(three);
    fixture->options.append_timeout_ms = STILL_MS;
    assert_int_equal(rd_kafka_mock_topic_create(three, fixture->topic, 2, 3), 0);
    assert_int_equal(rd_kafka_mock_partition_set_leader(three, fixture->topic, 1, 1), 0);
    struct log *log = fixture->log = log_kafka_open_one(fixture);
    assert_int_equal(log_follow(log, 0, NULL), ERROR_NONE);
    assert_ends(log, 0);
    assert_lands_and_reads(log, 1, "before", 0);
    assert_int_equal(rd_kafka_mock_broker_set_rtt(three, 1, 4 * STILL_MS), 0);
    log_kafka_send(log, 2, "meanwhile");
    const struct instant lead_at = instant_add_ms(instant_now(), SESSION_MS);
    const struct instant until = instant_add_ms(lead_at, STILL_MS);
    bool has_led = false, has_landed = false, is_read = false;
    while (!has_landed || !is_read) {
        struct log_event event;

        assert_true(instant_now().ns < until.ns);
        log_wait(log, 100, &event);
        assert_int_not_equal(event.kind, LOG_FAILED);
        has_landed |= event.kind == LOG_LANDED && event.ticket == 2;
        is_read |= event.kind == LOG_RECORD;
        if (has_led || instant_now().ns < lead_at.ns)
            continue;
        has_led = true;
        assert_int_equal(rd_kafka_mock_partition_set_leader(three, fixture->topic, 1, 2), 0);
    }
}

/* A place behind the end is one of another log, or of one that lost records. */
static void test_a_cut_log(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    assert_lands(fixture->log, 1, "only", 0);
    assert_int_equal(log_follow(fixture->log, 9, NULL), ERROR_NONE);
    const struct log_event event = log_kafka_next(fixture->log);
    assert_int_equal(event.kind, LOG_LOST);
    assert_non_null(event.reason);
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_reads(fixture->log, "only", 0);
}

/* A broker that stood still, and takes itself for the leader, has the end of then: it refuses what
 * lies behind. The record is asked for until the leader is another one. */
static void test_an_old_end(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    if (!fixture->cluster)
        skip();
    fixture->options.lost_ms = WAIT_MS;
    assert_lands(log_kafka_open_again(fixture), 1, "read before", 0);
    assert_lands(fixture->log, 2, "next", 1);
    rd_kafka_mock_push_request_errors(fixture->cluster, FETCH, 2,
                                      RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE,
                                      RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(log_follow(fixture->log, 1, NULL), ERROR_NONE);
    assert_reads(fixture->log, "next", 1);
    assert_ends(fixture->log, 2);
    rd_kafka_mock_push_request_errors(fixture->cluster, FETCH, 1,
                                      RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE);
    assert_ends(fixture->log, 2); /* as it is followed again */
    assert_lands_and_reads(fixture->log, 3, "goes on", 2);
}

/* Then it is lost. */
static void test_an_end_that_stays(void **state)
{
    struct log_kafka_fixture *fixture = *state;

    if (!fixture->cluster)
        skip();
    fixture->options.lost_ms = 500;
    assert_lands(log_kafka_open_again(fixture), 1, "only", 0);
    assert_int_equal(log_follow(fixture->log, 9, NULL), ERROR_NONE);
    assert_int_equal(log_kafka_next(fixture->log).kind, LOG_LOST);
}

static void test_a_trimmed_log(void **state)
{
    struct log_kafka_fixture *fixture = *state;
    struct log_event event;

    for (uint64_t i = 0; i < 5; i++)
        assert_lands(fixture->log, i + 1, i == 3 ? "the first" : "another", i);
#ifdef __SANITIZE_ADDRESS__
    /* librdkafka 2.0.2 leaks a queue when its broker in memory refuses this request. */
    if (fixture->cluster)
        return;
#endif
    assert_int_equal(log_trim(fixture->log, 3, NULL), ERROR_NONE);
    assert_int_equal(log_trim(fixture->log, 3, NULL), ERROR_OVERLOADED);
    event = log_kafka_next(fixture->log);
    if (fixture->cluster) { /* it has no such request */
        assert_int_equal(event.kind, LOG_TRIM_FAILED);
        assert_non_null(event.reason);
    } else {
        assert_true(event.kind == LOG_TRIMMED && event.offset == 3);
        assert_int_equal(log_follow(fixture->log, 2, NULL), ERROR_NONE);
        assert_int_equal(log_kafka_next(fixture->log).kind, LOG_LOST);
        assert_int_equal(log_follow_begin(fixture->log, NULL), ERROR_NONE);
        assert_reads(fixture->log, "the first", 3);
    }
    assert_lands(log_kafka_open_again(fixture), 9, "goes on", 5);
    assert_int_equal(log_follow_begin(fixture->log, NULL), ERROR_NONE);
    assert_reads(fixture->log, fixture->cluster ? "another" : "the first",
                 fixture->cluster ? 0 : 3);
}

static unsigned log_kafka_count_threads(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[100];
    unsigned count = 0;

    assert_non_null(status);
    while (count == 0 && fgets(line, sizeof(line), status))
        sscanf(line, "Threads: %u", &count);
    fclose(status);
    assert_true(count > 0);
    return count;
}

/* Both appends are in flight. Waits for what `log` tells of its own. */
static void assert_is_told(struct log *log, uint64_t ticket, enum log_kind kind)
{
    const struct log_event event = log_kafka_next(log);

    assert_int_equal(event.kind, kind);
    assert_int_equal(event.ticket, ticket);
}

/* The logs of a node have one client: another log makes no thread, and each has its own events. An
 * append that fails takes no other one with it. */
static void test_logs_share_a_client(void **state)
{
    enum { LOGS = 24 };
    struct log_kafka_fixture *fixture = *state;
    struct log_kafka_options *options = &fixture->options;
    struct log *logs[LOGS];

    assert_int_equal(log_kafka_client_open(options, &options->client, NULL), ERROR_NONE);
    const unsigned threads = log_kafka_count_threads();
    for (size_t i = 0; i < LOGS; i++) {
        options->partition = i % 2;
        logs[i] = log_kafka_open_one(fixture);
    }
    assert_int_equal(log_kafka_count_threads(), threads);
    log_kafka_send(logs[0], 1, "of 0");
    log_kafka_send(logs[1], 2, "of 1");
    assert_is_told(logs[1], 2, LOG_LANDED); /* which takes the report of the other one, too */
    assert_is_told(logs[0], 1, LOG_LANDED);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(log_follow(logs[i], 0, NULL), ERROR_NONE);
    assert_reads(logs[1], "of 1", 0);
    assert_reads(logs[0], "of 0", 0);
    if (fixture->cluster) {
        rd_kafka_mock_push_request_errors(fixture->cluster, PRODUCE, 1,
                                          RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
        log_kafka_send(logs[2], 3, "refused");
        assert_is_told(logs[2], 3, LOG_FAILED);
        log_kafka_send(logs[2], 4, "taken");
        log_kafka_send(logs[3], 5, "taken");
        assert_is_told(logs[3], 5, LOG_LANDED);
        assert_is_told(logs[2], 4, LOG_LANDED);
    }
    log_kafka_send(logs[4], 6, "whose log is closed");
    for (size_t i = 0; i < LOGS; i++)
        log_close(logs[i]);
    log_kafka_client_close(options->client);
    options->client = NULL;
}

static void test_properties(void **state)
{
    struct log_kafka_fixture *fixture = *state;
    const struct log_kafka_property wrong[] = {{"no.such.property", "1"}};
    const struct log_kafka_property right[] = {{"acks", "0"}, {"client.id", "test"}};
    struct log *log = NULL;
    struct error error;

    fixture->options.properties = wrong;
    fixture->options.property_count = 1;
    assert_int_equal(log_kafka_open(&fixture->options, &log, &error), ERROR_INVALID);
    assert_null(log);
    assert_non_null(strstr(error.text, "no.such.property"));
    fixture->options.properties = right; /* what the promises stand on stays */
    fixture->options.property_count = 2;
    log = log_kafka_open_one(fixture);
    assert_lands(log, 1, "acknowledged", 0);
    log_close(log);
    log_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, log_kafka_set_up, log_kafka_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_order),
        TEST(test_a_large_record),
        TEST(test_a_failed_append),
        TEST(test_an_append_in_doubt),
        TEST(test_no_broker_is_there),
        TEST(test_no_broker_answers),
        TEST(test_a_cut_log),
        TEST(test_a_trimmed_log),
        TEST(test_a_leader_that_stands_still),
        TEST(test_an_old_end),
        TEST(test_an_end_that_stays),
        TEST(test_logs_share_a_client),
        TEST(test_properties),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
