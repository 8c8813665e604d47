/*
 * log_kafka.h - the log of a partition (log.h) on one partition of a Kafka topic.
 *
 *     log_kafka_open(&options, &log, &error);
 *
 * What the broker acknowledged is on all replicas that are in sync.
 *
 * Errors     ERROR_IO when librdkafka refuses; ERROR_INVALID for a property that it does not take.
 * Threads    As log.h; librdkafka has threads of its own.
 */
#ifndef TICKWHEEL_LOG_KAFKA_LOG_KAFKA_H
#define TICKWHEEL_LOG_KAFKA_LOG_KAFKA_H

#include "log/log.h"

#include <stdatomic.h>

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
    /* Time at which a broker last answered any log of this node; all logs store it. NULL: silent
     * brokers cannot be distinguished from one silent leader. */
    _Atomic uint64_t *answered_ns;
};

/* Does not wait for a broker. */
enum error_code log_kafka_open(const struct log_kafka_options *options, struct log **ret_log,
                               struct error *ret_error);

#endif
