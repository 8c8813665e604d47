/* Goal: timers that a node of a cluster acknowledged are there after a restart, with its disk or
 * without it, and on the next owner; a number is taken once.
 * Method: whole nodes, with real storages and threads, on the broker in memory of librdkafka. */
#ifdef TICKWHEEL_WITH_LOG_KAFKA

#include "node/node.h"
#include "node/node_cluster_testing.h"

static void test_the_disk_is_lost(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];

    cluster_boot(host);
    assert_int_equal(node_cluster_id(host->node), CLUSTER_ID);
    cluster_await(host, true);
    cluster_fill(fixture, 100);
    assert_cluster_has_all(fixture);
    cluster_halt(host);
    cluster_boot(host);
    cluster_await(host, true);
    assert_cluster_has_all(fixture);
    cluster_fill(fixture, 20);
    cluster_halt(host);
    testing_folder_remove(&host->folder);
    cluster_boot(host);
    cluster_await(host, true);
    assert_cluster_has_all(fixture);
    cluster_fill(fixture, 20);
    cluster_halt(host);
    assert_cluster_is_needed(host);
}

/* The second has followed, and owns all when the first has stopped. */
static void test_the_next_owner(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];

    cluster_boot(first);
    cluster_await(first, true);
    cluster_fill(fixture, 50);
    cluster_boot(second);
    cluster_await_shares(fixture);
    cluster_fill(fixture, 50);
    cluster_halt(first);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
    cluster_fill(fixture, 20);
    cluster_boot(first);
    cluster_await_shares(fixture);
    cluster_halt(second);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
}

static void test_a_number_of_another_host(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    struct error error = {.text = ""};

    cluster_boot(first);
    cluster_await(first, true);
    cluster_set(second, "cluster_node_id", "1");
    assert_int_equal(
        node_start(&second->config, second->metrics, NULL, NULL, &second->node, &error),
        ERROR_INVALID);
    second->node = NULL;
    assert_non_null(strstr(error.text, "another process of the cluster has the number 1"));
    cluster_fill(fixture, 10);
    assert_cluster_has_all(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_disk_is_lost),
        TEST(test_the_next_owner),
        TEST(test_a_number_of_another_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* without librdkafka there is no log */
}

#endif
