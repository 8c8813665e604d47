/* Goal: nodes that ask for a number at the same time get different ones, and a node that has one
 * keeps it. Method: threads that claim on the broker in memory of librdkafka, each with a folder of
 * its own. */
#ifdef TICKWHEEL_WITH_LOG_KAFKA

#include "node/node_cluster_testing.h"
#include "steps.h"

enum { NUMBERS = 6 };

struct number_seat {
    struct testing_folder folder;
    struct config config;
    pthread_t thread;
    enum error_code code;
};

static void *number_run(void *argument)
{
    struct number_seat *seat = argument;

    seat->code = cluster_number_find(&seat->config, NULL);
    return NULL;
}

static void number_seat_init(struct number_seat *seat, const char *brokers)
{
    testing_folder_make(&seat->folder);
    config_init(&seat->config);
    assert_int_equal(config_set(&seat->config, "cluster_brokers", brokers, NULL), ERROR_NONE);
    assert_int_equal(config_set(&seat->config, "cluster_name", "test", NULL), ERROR_NONE);
    assert_int_equal(config_set(&seat->config, "partitions", "3", NULL), ERROR_NONE);
    assert_int_equal(config_set(&seat->config, "cluster_node_id", "auto", NULL), ERROR_NONE);
    assert_int_equal(config_set(&seat->config, "data_folder", seat->folder.path, NULL), ERROR_NONE);
    assert_int_equal(seat->config.cluster_node_id, 0);
}

/* proves: cluster-node-auto */
static void test_numbers_are_free_and_kept(void **state)
{
    static struct number_seat seats[NUMBERS];
    char text[200];

    (void)state;
    rd_kafka_t *owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof(text));
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(owner, 1);
    const char *brokers = rd_kafka_mock_cluster_bootstraps(cluster);
    assert_int_equal(rd_kafka_mock_topic_create(cluster, "test.control", 1, 1), 0);
    testing_found(brokers, "test.control", CLUSTER_ID, 3);
    for (size_t i = 0; i < NUMBERS; i++) {
        number_seat_init(&seats[i], brokers);
        assert_int_equal(pthread_create(&seats[i].thread, NULL, number_run, &seats[i]), 0);
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        pthread_join(seats[i].thread, NULL);
        assert_int_equal(seats[i].code, ERROR_NONE);
        assert_in_range(seats[i].config.cluster_node_id, 1000, 999999);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(seats[i].config.cluster_node_id, seats[j].config.cluster_node_id);
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        struct config again = seats[i].config;

        assert_int_equal(cluster_number_keep(&seats[i].config, NULL), ERROR_NONE);
        again.cluster_node_id = 0;
        assert_int_equal(cluster_number_find(&again, NULL), ERROR_NONE);
        assert_int_equal(again.cluster_node_id, seats[i].config.cluster_node_id);
        testing_folder_remove(&seats[i].folder);
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_free_and_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* without librdkafka there is no log */
}

#endif
