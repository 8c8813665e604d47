/*
 * rabbitmq_message.h - a message of a RabbitMQ queue as the request that makes its timer.
 *
 * The headers x-delay and x-at say when the timer is due, x-exchange and x-routing-key where the
 * message goes then. The other headers, the content type and the body become those of the timer.
 * What is not right in them is found where the request is read (api/json/timer_json.h).
 *
 * Errors     A buffer remembers that it could not grow.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_SOURCE_RABBITMQ_MESSAGE_H
#define TICKWHEEL_SOURCE_RABBITMQ_MESSAGE_H

#include "base/bytes.h"

enum rabbitmq_header_kind {
    RABBITMQ_HEADER_TEXT,
    RABBITMQ_HEADER_NUMBER,
    RABBITMQ_HEADER_TIME, /* seconds since 1970 */
    RABBITMQ_HEADER_FLAG,
    RABBITMQ_HEADER_OTHER, /* a list, a table, a fraction, nothing */
};

struct rabbitmq_header {
    struct bytes name;
    enum rabbitmq_header_kind kind;
    struct bytes text; /* of a TEXT */
    int64_t number;    /* of the others; a FLAG has 0 or 1 */
};

struct rabbitmq_message {
    struct bytes routing_key, content_type, body;
    const struct rabbitmq_header *headers;
    size_t header_count;
    /* from the setting of the source */
    struct bytes connection; /* name of the broker connection of the target */
    struct bytes exchange;   /* exchange of the target, without x-exchange */
};

/* Appends the JSON of the request. Equal messages have equal texts, also one that the server sends
 * again. */
void rabbitmq_message_format(const struct rabbitmq_message *message, struct buffer *out);

/* Appends the target of a message: amqp://CONNECTION/EXCHANGE/ROUTING-KEY. */
void rabbitmq_message_append_target(struct bytes connection, struct bytes exchange,
                                    struct bytes routing_key, struct buffer *out);

#endif
