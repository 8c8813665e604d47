/*
 * topics_kafka.h - the topics of a cluster on Kafka: makes them, and checks that their settings
 * keep what the cluster promises.
 *
 *     const struct topics_kafka_options options = {brokers, "tickwheel", 24};
 *     if (topics_kafka_create(&options, &report, &error)) ... error.text says what endangers what
 *
 * A cluster has the topic NAME.log, with a partition for each of its own, and NAME.control with
 * one. The first record of the control topic founds the cluster: its frame has the id of the
 * cluster, which is random, and the count of partitions. Where two nodes append such a record, the
 * first one counts.
 *
 * Time       Each step waits for the brokers for TOPICS_KAFKA_WAIT_MS at most.
 * Errors     ERROR_IO: the brokers do not answer, or refuse. ERROR_INVALID: a topic has a setting
 *            that endangers timers, or the name is none of a topic. ERROR_NOT_FOUND, of the check
 *            alone: there are no such topics.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_CLUSTER_KAFKA_TOPICS_KAFKA_H
#define TICKWHEEL_CLUSTER_KAFKA_TOPICS_KAFKA_H

#include "log/kafka/log_kafka.h"
#include "cluster/founding.h"

#include <stdatomic.h>

enum {
    TOPICS_KAFKA_WAIT_MS = 30000,
    TOPICS_KAFKA_BROKERS_MS = 60000, /* time for which the creation waits for brokers */
    TOPICS_KAFKA_REPLICAS = 3,
};

struct topics_kafka_options {
    const char *brokers; /* host:port, separated by commas */
    const char *name;    /* name of the cluster */
    uint16_t partition_count;
    uint32_t replica_count; /* replicas of each record; 0 means TOPICS_KAFKA_REPLICAS */
    struct bytes secret;    /* secret of the nodes, for the founding; may be empty */
    /* Called with the reason for which brokers are awaited, once for each reason. May be NULL. */
    void (*waits)(const void *context, const char *reason);
    const void *context;
    const atomic_bool *stops; /* ends the call with ERROR_IO when true; NULL for never */
    const struct log_kafka_property *properties; /* properties of librdkafka; NULL for none */
    size_t property_count;
};

struct topics_kafka_report {
    uint64_t cluster;
    uint32_t broker_count, replica_count; /* replica_count: the fewest replicas of a partition */
    bool is_founded;                      /* whether this call founded the cluster */
    /* what fewer than three replicas risk; empty if there are enough */
    char warning[200];
};

/* Makes the missing topics, and checks all. A second call changes nothing. Waits until there are
 * replica_count brokers. Topics with fewer replicas are recreated if they have only the
 * founding; otherwise they are refused. */
enum error_code topics_kafka_create(const struct topics_kafka_options *options,
                                    struct topics_kafka_report *ret_report,
                                    struct error *ret_error);

/* Changes nothing. */
enum error_code topics_kafka_check(const struct topics_kafka_options *options,
                                   struct topics_kafka_report *ret_report, struct error *ret_error);

/* Reads the id of the cluster and its founding from the first record of its control topic. */
enum error_code topics_kafka_identify(const struct topics_kafka_options *options,
                                      uint64_t *ret_cluster, struct founding *ret_founding,
                                      struct error *ret_error);

/* Founds the cluster again with another secret. Nodes that have only the former one are refused. */
enum error_code topics_kafka_change_secret(const struct topics_kafka_options *options,
                                           struct error *ret_error);

/* Checks a setting of a topic with this number of replicas. Settings that no promise depends on
 * are ignored. */
enum error_code topics_kafka_judge(const char *topic, uint32_t replica_count, const char *setting,
                                   const char *value, struct error *ret_error);

#endif
