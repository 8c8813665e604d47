/* Goal: a node whose disk or whose log fails serves nothing of what fails, and serves again later.
 * Method: whole nodes, with real storages and threads, on the broker in memory of librdkafka. */
#ifdef TICKWHEEL_WITH_LOG_KAFKA

#include "node/node_cluster_testing.h"
#include "node/node_ownership.h"

#include <errno.h>

/* A disk that takes no writes: the host is not ready and says why, others own its partitions, and
 * it gets its part when the disk works again. */
/* proves: dead-disk */
static void test_a_disk_is_dead(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_health health;
    char path[300];

    snprintf(path, sizeof(path), "%s/probe", host->folder.path);
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        cluster_boot(&fixture->hosts[i]);
    cluster_await_shares(fixture);
    cluster_fill(fixture, 30);
    while (mkdir(path, 0700)) /* no file can be written there; now and then there is one */
        assert_int_equal(errno, EEXIST);
    cluster_await(host, false);
    while (cluster_share(host) > 0 ||
           cluster_share(&fixture->hosts[1]) + cluster_share(&fixture->hosts[2]) <
               CLUSTER_PARTITIONS) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
    node_health(host->node, &health);
    assert_non_null(strstr(health.reason, "the storage fails, and other nodes own"));
    assert_non_null(strstr(health.reason, path));
    node_refresh_metrics(host->node);
    assert_true(metrics_get(host->metrics, METRIC_STORAGE_FAILURES) >= 1);
    assert_int_equal(rmdir(path), 0);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
}

/* Until the node owns no partition, and the engines are gone. */
static void cluster_await_standby(struct cluster_host *host)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_partition_view view;

    for (uint16_t i = 0; i < CLUSTER_PARTITIONS; i++)
        while (node_partition(host->node, i, &view) && strcmp(view.state, "standby") != 0) {
            assert_true(instant_now().ns < until.ns);
            poll(NULL, 0, 10);
        }
}

/* Timers that fall due when the lease is over do not keep their partition from going. */
static void test_timers_are_due_after_the_lease(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    struct timer_id id;

    cluster_boot(host);
    cluster_await(host, true);
    for (uint64_t after_ms = 500; after_ms < 4000; after_ms += 100)
        for (uint16_t i = 0; i < CLUSTER_PARTITIONS; i++)
            cluster_create_after(host, i, after_ms, &id); /* a busy machine may refuse some */
    assert_int_equal(rd_kafka_mock_broker_set_down(fixture->brokers, 1), 0);
    cluster_await_standby(host);
    assert_int_equal(rd_kafka_mock_broker_set_up(fixture->brokers, 1), 0);
    cluster_await(host, true);
}

/* A node without its log is silent, answers every request, and is back when the log is. */
static void test_the_log_is_silent(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    struct timer_id id;

    cluster_boot(host);
    cluster_await(host, true);
    cluster_fill(fixture, 30);
    assert_int_equal(rd_kafka_mock_broker_set_down(fixture->brokers, 1), 0);
    assert_int_not_equal(cluster_create(host, 0, &id), ERROR_NONE);
    cluster_await(host, false);
    assert_int_not_equal(cluster_get(host, &fixture->ids[0]), ERROR_NONE);
    assert_int_equal(rd_kafka_mock_broker_set_up(fixture->brokers, 1), 0);
    cluster_await(host, true);
    assert_cluster_has_all(fixture);
    cluster_fill(fixture, 10);
}

/* A partition with a damaged log is not served; the others are, and the node says why it is not
 * ready. */
static void test_a_log_is_damaged(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    struct node_cluster_stats stats;
    struct node_health health;
    struct timer_id id;

    cluster_boot(host);
    cluster_await(host, true);
    node_cluster_stats(host->node, &stats);
    assert_int_equal(stats.broken, 0);
    testing_append(rd_kafka_mock_cluster_bootstraps(fixture->brokers), "test.log", 1,
                   bytes_of("no frame"));
    cluster_await(host, false);
    node_health(host->node, &health);
    assert_non_null(strstr(health.reason, "broken"));
    node_cluster_stats(host->node, &stats);
    assert_int_equal(stats.broken, 1);
    assert_int_not_equal(cluster_create(host, 1, &id), ERROR_NONE);
    assert_int_equal(cluster_create(host, 0, &id), ERROR_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_disk_is_dead),
        TEST(test_the_log_is_silent),
        TEST(test_a_log_is_damaged),
        TEST(test_timers_are_due_after_the_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* without librdkafka there is no log */
}

#endif
