/*
 * log_kafka_once.h - messages to topics of the log's brokers, and frames of the log, in one
 * transaction of Kafka: readers of committed records see all of them or none.
 *
 *     log_kafka_once_open(&options, &once, &error);            ends the transaction of another one
 *     log_kafka_once_begin(once, &error);
 *     log_kafka_once_put(once, 0, &message); ...
 *     log_kafka_once_settle(once, reports, count);             the brokers have them, or not
 *     log_kafka_once_commit(once, &commit, &offset, &error);   frames follow, and it is decided
 *
 * A producer is of no more use when a call has failed, or a message was not taken: close it, and
 * open another one. That ends its transaction: without effect, unless its commit was decided
 * before. So a late request cannot meet a later transaction of its producer (KAFKA-17754).
 *
 * Errors     ERROR_IO with the cause. A commit is in doubt then.
 * Threads    One owner, which waits for the brokers in each call. librdkafka has its own threads.
 */
#ifndef TICKWHEEL_LOG_KAFKA_LOG_KAFKA_ONCE_H
#define TICKWHEEL_LOG_KAFKA_LOG_KAFKA_ONCE_H

#include "log/kafka/log_kafka.h"

struct log_kafka_once_options {
    const struct log_kafka_options *log; /* log that gets the frames; borrowed */
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

enum log_kafka_fate {
    LOG_KAFKA_UNKNOWN,   /* no answer in time, or not sent because of others */
    LOG_KAFKA_TAKEN,     /* in the topic when the transaction is committed */
    LOG_KAFKA_REFUSED,   /* refused now; perhaps not later */
    LOG_KAFKA_SUSPECT,   /* a topic of the transaction was refused, perhaps its own */
    LOG_KAFKA_TOO_LARGE, /* it is too large, or others that were sent with it */
    LOG_KAFKA_NEVER,     /* no broker will accept it */
};

struct log_kafka_report {
    enum log_kafka_fate fate;
    const char *reason; /* static text, unless TAKEN */
};

struct log_kafka_commit {
    const struct bytes *frames;
    size_t frame_count;
    uint64_t from,
        to; /* the first frame must be between these offsets, and the frames contiguous */
    uint64_t timeout_ms;
};

struct log_kafka_once;

/* Waits until every transaction of this id has ended. An older producer with it is fenced. */
enum error_code log_kafka_once_open(const struct log_kafka_once_options *options,
                                    struct log_kafka_once **ret_once, struct error *ret_error);

/* Closes it without waiting for brokers. An open transaction is aborted by the next open, or by
 * its time limit. NULL is allowed. */
void log_kafka_once_close(struct log_kafka_once *once);

enum error_code log_kafka_once_begin(struct log_kafka_once *once, struct error *ret_error);

/* Adds the message `index`: 0, 1, 2 and so on. Copies its bytes. */
void log_kafka_once_put(struct log_kafka_once *once, size_t index,
                        const struct log_kafka_message *message);

/* Waits until all messages are accepted, or one is not. Returns true if all are. */
bool log_kafka_once_settle(struct log_kafka_once *once, struct log_kafka_report *reports,
                           size_t count);

/* Adds the frames and commits. `ret_offset` is the offset of the last one. */
enum error_code log_kafka_once_commit(struct log_kafka_once *once,
                                      const struct log_kafka_commit *commit, uint64_t *ret_offset,
                                      struct error *ret_error);

#endif
