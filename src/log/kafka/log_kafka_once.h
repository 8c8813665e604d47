/*
 * log_kafka_once.h - messages to topics of the log's brokers, and frames of the log, in one
 * transaction of Kafka (log_once.h): readers of committed records see all of them or none.
 *
 * An open transaction is aborted by the next open, or by its time limit. A producer is not used
 * again after a failure, so a late request cannot meet a later transaction of it (KAFKA-17754).
 *
 * Threads    librdkafka has its own.
 */
#ifndef TICKWHEEL_LOG_KAFKA_LOG_KAFKA_ONCE_H
#define TICKWHEEL_LOG_KAFKA_LOG_KAFKA_ONCE_H

#include "log/kafka/log_kafka.h"
#include "log/log_once.h"

struct log_kafka_once_options {
    const struct log_kafka_options *log; /* log that gets the frames */
    const char *id;                      /* transactional.id, one for each partition */
    uint64_t open_timeout_ms;
    uint64_t settle_timeout_ms;
};

struct log_kafka_message {
    const char *topic;
    struct bytes key, value; /* key.data is NULL if there is none */
    const struct named_bytes *headers;
    size_t header_count;
};

/* Waits until every transaction of this id has ended. An older producer with it is fenced. Texts of
 * the log's options are borrowed until the close. */
enum error_code log_kafka_once_open(const struct log_kafka_once_options *options,
                                    struct log_once **ret_once, struct error *ret_error);

/* Adds the message `index`: 0, 1, 2 and so on. Copies its bytes. */
void log_kafka_once_put(struct log_once *once, size_t index,
                        const struct log_kafka_message *message);

#endif
