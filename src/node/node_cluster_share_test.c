/* Goal: nodes share the partitions and their copies as the plan says, and learn the addresses of
 * each other.
 * Method: whole nodes, with real storages and threads, on the broker in memory of librdkafka. */
#ifdef TICKWHEEL_WITH_LOG_KAFKA

#include "node/node.h"
#include "node/node_cluster_testing.h"

/* Each gets a partition, and a copy of another one; those of one that stops go to the others; it
 * gets one when it is back. With two standbys each reads what it had dropped again. */
static void test_three_hosts_share(void **state)
{
    struct cluster_fixture *fixture = *state;

    for (size_t i = 0; i < CLUSTER_NODES; i++)
        cluster_boot(&fixture->hosts[i]);
    cluster_await_shares(fixture);
    cluster_fill(fixture, 60);
    cluster_await_copies(fixture, 2);
    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        cluster_halt(&fixture->hosts[i]);
        if (i == 0) /* the others may have what they are to drop soon */
            assert_cluster_disk_has(&fixture->hosts[i], 2);
        cluster_await_shares(fixture);
        assert_cluster_has_all(fixture);
        cluster_fill(fixture, 30);
        if (i > 0)
            cluster_set(&fixture->hosts[i], "cluster_standbys", "2");
        cluster_boot(&fixture->hosts[i]);
        cluster_await_shares(fixture);
        assert_cluster_has_all(fixture);
    }
    cluster_halt(&fixture->hosts[0]); /* the others make the plan */
    cluster_set(&fixture->hosts[0], "cluster_standbys", "2");
    cluster_boot(&fixture->hosts[0]);
    cluster_await_copies(fixture, 3);
    cluster_halt(&fixture->hosts[0]);
    cluster_halt(&fixture->hosts[1]);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
}

static void test_nodes_know_addresses(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    char address[NODE_ADDRESS_SIZE];

    cluster_boot(first);
    node_tell_address(first->node, "10.0.0.1:8464");
    cluster_boot(second);
    while (!node_peer_address(second->node, 1, address)) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
    assert_string_equal(address, "10.0.0.1:8464");
    assert_false(node_peer_address(second->node, 2, address)); /* it was told none */
    assert_false(node_peer_address(second->node, 3, address)); /* it is no member */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_three_hosts_share),
        TEST(test_nodes_know_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* without librdkafka there is no log */
}

#endif
