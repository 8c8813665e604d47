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
    void (*report)(void *context, const rd_kafka_message_t *message); /* NULL disables reports */
    int event_fd; /* eventfd that is written when rd_kafka_poll has something; 0 if none */
};

/* All 0 before the first open; `is_down` and `cause` survive a close. */
struct kafka_handle {
    rd_kafka_t *client; /* NULL if closed */
    bool is_down;       /* whether librdkafka reaches no broker */
    char cause[160];    /* last error of a connection; empty if none */
    void *context_;
    void (*report_)(void *context, const rd_kafka_message_t *message);
    rd_kafka_queue_t *events_;
};

struct kafka_message {
    const char *topic;
    int32_t partition; /* RD_KAFKA_PARTITION_UA if the key chooses it */
    struct bytes key, value;
    const struct named_bytes *headers;
    size_t header_count;
    void *opaque; /* _private of its report */
};

/* Returns settings for requests that are answered soon, or sent again to another broker. */
struct kafka_list kafka_quick(void);

/* Checks whether librdkafka takes the properties. */
enum error_code kafka_setup_check(const struct kafka_setup *setup, struct error *ret_error);

/* Does not wait for a broker. If it fails, the handle is closed. */
enum error_code kafka_handle_open(struct kafka_handle *handle, const struct kafka_setup *setup,
                                  struct error *ret_error);

/* Closes the handle, and drops its messages without reports. Fine for a closed handle. */
void kafka_handle_close(struct kafka_handle *handle);

/* Sends a copy of the message. */
rd_kafka_resp_err_t kafka_handle_send(struct kafka_handle *handle,
                                      const struct kafka_message *message);

/* Asks any broker for the leaders of the topic; if that is NULL, of all topics that the handle
 * uses. The handle takes them from the answer. */
rd_kafka_resp_err_t kafka_handle_ask(struct kafka_handle *handle, const char *topic,
                                     uint64_t timeout_ms);

/* Makes the queue write the eventfd when it has something. */
void kafka_queue_watch(rd_kafka_queue_t *queue, int event_fd);

/* Ends that, and frees the queue. NULL is fine. */
void kafka_queue_close(rd_kafka_queue_t *queue);

#endif
