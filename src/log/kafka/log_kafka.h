/*
 * log_kafka.h - the log of a partition (log.h) on one partition of a Kafka topic.
 *
 *     log_kafka_client_open(&options, &client, &error);       one for a node
 *     options.client = client;
 *     log_kafka_open(&options, &log, &error);                 one for each partition
 *
 * What the broker acknowledged is on all replicas that are in sync.
 *
 * Errors     ERROR_IO when librdkafka refuses; ERROR_INVALID for a property that it does not take.
 * Threads    As log.h; librdkafka has threads of its own.
 */
#ifndef TICKWHEEL_LOG_KAFKA_LOG_KAFKA_H
#define TICKWHEEL_LOG_KAFKA_LOG_KAFKA_H

#include "log/log.h"

struct log_kafka_property {
    const char *name, *value; /* of librdkafka */
};

struct log_kafka_options {
    const char *brokers; /* host:port, separated by commas */
    const char *topic;   /* borrowed until the log is closed, like all of this */
    uint16_t partition;
    uint64_t append_timeout_ms; /* time after which an append is in doubt */
    /* time for which a broker may lack the next record before it is LOST: a broker that was
     * stopped answers as the former leader, with an old end */
    uint64_t lost_ms;
    const struct log_kafka_property *properties; /* NULL for none; those below take precedence */
    size_t property_count;
    /* Client of the node; borrowed. If NULL, the log opens its own client, which cannot distinguish
     * silent brokers from one silent leader. */
    struct log_kafka_client *client;
};

/* The handles of librdkafka that the logs of a node share, with their connections and threads. */
struct log_kafka_client;

/* Uses the brokers, append_timeout_ms and the properties of the options. Does not wait for a
 * broker. */
enum error_code log_kafka_client_open(const struct log_kafka_options *options,
                                      struct log_kafka_client **ret_client,
                                      struct error *ret_error);

/* Its logs must be closed. NULL is fine. */
void log_kafka_client_close(struct log_kafka_client *client);

/* Does not wait for a broker. If the options have a client, its brokers, time limit and properties
 * are used. */
enum error_code log_kafka_open(const struct log_kafka_options *options, struct log **ret_log,
                               struct error *ret_error);

/* For a thread that serves several logs: watches this descriptor by its edges, beside those of the
 * logs (log_fd). When it is written, the thread calls log_kafka_client_poll, which writes those of
 * logs. A thread in log_wait does that for the client while an append of its own log is in
 * flight. */
int log_kafka_client_fd(const struct log_kafka_client *client);
void log_kafka_client_poll(struct log_kafka_client *client);

#endif
