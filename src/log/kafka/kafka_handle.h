/*
 * kafka_handle.h - a handle of librdkafka. Every handle of this program is set up, asked and closed
 * here.
 *
 *     const struct kafka_setup setup = {.type = RD_KAFKA_PRODUCER, .brokers = "...", ...};
 *     kafka_handle_open(&handle, &setup, &error);
 *     kafka_handle_send(&handle, &message);
 *     rd_kafka_poll(handle.client, 0);                calls setup.report
 *     kafka_handle_close(&handle);
 *
 * Errors     ERROR_INVALID for a property that librdkafka does not take, without its value;
 *            ERROR_IO if librdkafka gives no handle.
 * Ownership  The setup is borrowed by the open alone. A handle stays at its address while it is
 *            open.
 * Threads    librdkafka has threads of its own. `is_down` and `cause` change in rd_kafka_poll.
 */
#ifndef TICKWHEEL_LOG_KAFKA_KAFKA_HANDLE_H
#define TICKWHEEL_LOG_KAFKA_KAFKA_HANDLE_H

#include "log/kafka/log_kafka.h"

#include <librdkafka/rdkafka.h>

enum { KAFKA_LISTS = 3 };

struct kafka_setup {
    rd_kafka_type_t type;
    const char *brokers;
    struct kafka_list {
        const struct log_kafka_property *properties;
        size_t count;
    } lists[KAFKA_LISTS]; /* a later property wins; the brokers win over all */
    void *context;
    void (*report)(void *context, const rd_kafka_message_t *message); /* NULL: no reports */
    int event_fd; /* eventfd that is written when rd_kafka_poll has something; 0: none */
};

/* All 0 before it is opened for the first time. Later `is_down` and `cause` stay. */
struct kafka_handle {
    rd_kafka_t *client; /* NULL: closed */
    bool is_down;       /* librdkafka reaches no broker */
    char cause[160];    /* of the last error of a connection; or empty */
    void *context_;
    void (*report_)(void *context, const rd_kafka_message_t *message);
    rd_kafka_queue_t *events_;
};

struct kafka_message {
    const char *topic;
    int32_t partition; /* RD_KAFKA_PARTITION_UA: chosen by the key */
    struct bytes key, value;
    const struct named_bytes *headers;
    size_t header_count;
    void *opaque; /* of its report */
};

/* Settings of handles whose requests are answered soon, or sent again to another broker. */
struct kafka_list kafka_quick(void);

/* Whether librdkafka takes the properties. */
enum error_code kafka_setup_check(const struct kafka_setup *setup, struct error *ret_error);

/* Waits for no broker. If it fails, the handle is closed. */
enum error_code kafka_handle_open(struct kafka_handle *handle, const struct kafka_setup *setup,
                                  struct error *ret_error);

/* Drops messages without a report. Fine for a closed handle. */
void kafka_handle_close(struct kafka_handle *handle);

/* Copies the message. */
rd_kafka_resp_err_t kafka_handle_send(struct kafka_handle *handle,
                                      const struct kafka_message *message);

/* Asks a broker for the leaders of the topic; NULL: of the topics that the handle uses. The handle
 * takes them from the answer, which may come from any broker. */
rd_kafka_resp_err_t kafka_handle_ask(struct kafka_handle *handle, const char *topic,
                                     uint64_t timeout_ms);

/* Writes `event_fd` when the queue has something; and ends that, and frees the queue. NULL is fine.
 */
void kafka_queue_watch(rd_kafka_queue_t *queue, int event_fd);
void kafka_queue_close(rd_kafka_queue_t *queue);

#endif
