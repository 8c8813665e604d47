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
    const char *brokers; /* host:port, with commas between them */
    const char *topic;   /* borrowed until the log is closed, as all of this */
    uint16_t partition;
    uint64_t append_timeout_ms; /* then an append is in doubt */
    uint64_t lost_ms; /* within which a broker may lack the next record, before it is LOST: a broker
                         that stood still takes itself for the leader, and has an old end */
    const struct log_kafka_property *properties; /* NULL: none; those below win */
    size_t property_count;
    /* When a broker answered any log of this node last; all of them store it. NULL: silent brokers
     * are not told from one leader that is silent. */
    _Atomic uint64_t *answered_ns;
};

/* Waits for no broker. */
enum error_code log_kafka_open(const struct log_kafka_options *options, struct log **ret_log,
                               struct error *ret_error);

#endif
