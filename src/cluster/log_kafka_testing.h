/*
 * log_kafka_testing.h - records that tests append to logs by themselves.
 */
#ifndef TICKWHEEL_CLUSTER_LOG_KAFKA_TESTING_H
#define TICKWHEEL_CLUSTER_LOG_KAFKA_TESTING_H

#include "log/kafka/log_kafka.h"
#include "cluster/frame.h"
#include "store/storage_testing.h"
#include "sys/clock.h"

#define LOG_KAFKA_TESTING_MS UINT64_C(120000)

/* Waits until the record has landed. */
static inline void testing_append(const char *brokers, const char *topic, uint16_t partition,
                                  struct bytes bytes)
{
    const struct log_kafka_options options = {
        .brokers = brokers,
        .topic = topic,
        .partition = partition,
        .append_timeout_ms = LOG_KAFKA_TESTING_MS,
    };
    const struct instant until = instant_add_ms(instant_now(), LOG_KAFKA_TESTING_MS);
    struct log_event event;
    struct log *log;

    assert_int_equal(log_kafka_open(&options, &log, NULL), ERROR_NONE);
    assert_int_equal(log_append(log, 1, bytes, NULL), ERROR_NONE);
    while (log_wait(log, 1000, &event) != LOG_LANDED) {
        assert_int_equal(event.kind, LOG_NOTHING);
        assert_true(instant_now().ns < until.ns);
    }
    log_close(log);
}

/* The first record of a control topic. */
static inline void testing_found(const char *brokers, const char *topic, uint64_t cluster,
                                 uint16_t partition_count)
{
    const char body[2] = {(char)(partition_count & 255), (char)(partition_count >> 8)};
    const struct frame frame = {.kind = FRAME_NOTE, .body = {body, sizeof(body)}};
    struct buffer bytes;

    buffer_init(&bytes);
    frame_encode(&frame, cluster, &bytes);
    testing_append(brokers, topic, 0, buffer_bytes(&bytes));
    buffer_deinit(&bytes);
}

#endif
