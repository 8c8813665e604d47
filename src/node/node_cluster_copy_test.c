/* Goal: a node without its disk has its timers from a copy of another node or from the log, which
 * the owner sweeps; each message to Kafka is written once.
 * Method: whole nodes, with real storages and threads, on the broker in memory of librdkafka. */
#ifdef TICKWHEEL_WITH_LOG_KAFKA

#include "node/node_cluster_testing.h"
#include "node/node_ownership.h"

/* The owner copies its rows into the log, and a host without a disk reads both. */
static void test_the_log_is_swept(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_cluster_stats stats = {0};

    cluster_set(host, "cluster_sweep_bytes_min", "8K");
    cluster_boot(host);
    cluster_await(host, true);
    cluster_fill(fixture, 150);
    while (stats.sweeps < CLUSTER_PARTITIONS) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
        node_cluster_stats(host->node, &stats);
    }
    assert_true(stats.sweep_rows >= CLUSTER_PARTITIONS && stats.sweep_failures == 0);
    assert_true(stats.log_bytes > 0 && stats.restarts == 0);
    assert_cluster_has_all(fixture);
    cluster_halt(host);
    testing_folder_remove(&host->folder);
    cluster_boot(host);
    cluster_await(host, true);
    assert_cluster_has_all(fixture);
}

/* Until each partition has begun with a copy, or with the log. */
static struct node_cluster_stats cluster_await_begun(struct cluster_host *host)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_cluster_stats stats = {0};

    while (stats.copies + stats.copy_failures < CLUSTER_PARTITIONS) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
        node_cluster_stats(host->node, &stats);
    }
    return stats;
}

/* A host without a disk gets its copies from another one, page by page. When none gives it one, or
 * the giver goes, it reads the log. */
static void test_copies_of_other_hosts(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    struct node_cluster_stats stats, given;

    cluster_boot(first);
    cluster_await(first, true);
    cluster_fill(fixture, 90);
    cluster_boot_copying(second);
    stats = cluster_await_begun(second);
    cluster_await_shares(fixture);
    node_cluster_stats(first->node, &given);
    assert_int_equal(stats.copies, CLUSTER_PARTITIONS);
    assert_int_equal(given.copies_given, CLUSTER_PARTITIONS);
    assert_true(stats.copy_rows >= 90 && stats.copy_failures == 0 && stats.restarts == 0);
    cluster_fill(fixture, 30);
    cluster_halt(first);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
    testing_folder_remove(&first->folder);
    first->is_cut = true;
    cluster_boot_copying(first);
    stats = cluster_await_begun(first);
    cluster_await_shares(fixture);
    assert_true(stats.copies == 0 && stats.copy_failures == CLUSTER_PARTITIONS);
    cluster_halt(second);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
}

/* How many records the topic has, when `least` of them have come. */
static size_t cluster_count(struct cluster_fixture *fixture, const char *topic, size_t least)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    const struct log_kafka_options options = {
        .brokers = rd_kafka_mock_cluster_bootstraps(fixture->brokers),
        .topic = topic,
        .append_timeout_ms = CLUSTER_WAIT_MS,
    };
    struct log_event event = {.kind = LOG_NOTHING};
    struct log *log;
    size_t count = 0;

    assert_int_equal(log_kafka_open(&options, &log, NULL), ERROR_NONE);
    assert_int_equal(log_follow(log, 0, NULL), ERROR_NONE);
    while (count < least || event.kind != LOG_END) {
        assert_true(instant_now().ns < until.ns);
        count += log_wait(log, 1000, &event) == LOG_RECORD;
    }
    log_close(log);
    return count;
}

/* Each message is in its topic once, and its timer is over. */
static void test_exactly_once(void **state)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    char connections[200];

    snprintf(connections, sizeof(connections), "bus=kafka://%s?exactly_once=true",
             rd_kafka_mock_cluster_bootstraps(fixture->brokers));
    cluster_set(host, "broker_connections", connections);
    assert_int_equal(rd_kafka_mock_topic_create(fixture->brokers, "due", 1, 1), 0);
    cluster_boot(host);
    cluster_await(host, true);
    for (size_t i = 0; i < CLUSTER_TIMERS; i++) {
        const uint16_t partition = (uint16_t)(i % CLUSTER_PARTITIONS);
        enum error_code code;

        do {
            code = cluster_create_to(host, partition, "kafka://bus/due", 0, &fixture->ids[i]);
            assert_true(!code || cluster_may_repeat(code, until));
        } while (code);
    }
    cluster_count(fixture, "due", CLUSTER_TIMERS);
    for (size_t i = 0; i < CLUSTER_TIMERS; i++)
        while (cluster_get(host, &fixture->ids[i]) != ERROR_GONE)
            assert_true(instant_now().ns < until.ns);
    cluster_halt(host);
    assert_int_equal(cluster_count(fixture, "due", CLUSTER_TIMERS), CLUSTER_TIMERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_log_is_swept),
        TEST(test_copies_of_other_hosts),
        TEST(test_exactly_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* without librdkafka there is no log */
}

#endif
