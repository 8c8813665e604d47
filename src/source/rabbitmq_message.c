/* rabbitmq_message.c - headers and body of a message as JSON; see rabbitmq_message.h. */
#include "source/rabbitmq_message.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/number.h"
#include "base/utf8.h"
#include "delivery/webhook.h"

#include <inttypes.h>
#include <stdio.h>

/* Headers that the server adds. They change when it sends the message again. */
static const char *const rabbitmq_message_added[] = {"x-death", "x-first-death-", "x-last-death-",
                                                     "x-delivery-count", "x-acquired-count"};

/* Headers that are read here. */
#define RABBITMQ_MESSAGE_DELAY       BYTES("x-delay")
#define RABBITMQ_MESSAGE_AT          BYTES("x-at")
#define RABBITMQ_MESSAGE_EXCHANGE    BYTES("x-exchange")
#define RABBITMQ_MESSAGE_ROUTING_KEY BYTES("x-routing-key")

enum { RABBITMQ_MESSAGE_NUMBER_SIZE = 32 }; /* size of a number as a text */

/* Returns the text of a header that is a text in UTF-8; otherwise an empty one, which the reader of
 * the request refuses. */
static struct bytes rabbitmq_message_text(const struct rabbitmq_header *header)
{
    const bool is_text = header->kind == RABBITMQ_HEADER_TEXT &&
                         utf8_is_text(header->text.data, header->text.data + header->text.size);

    return is_text ? header->text : BYTES("");
}

/* ---- where it goes ---- */

static void rabbitmq_message_append_part(struct bytes part, struct buffer *out)
{
    for (size_t i = 0; i < part.size; i++) {
        const unsigned char c = (unsigned char)part.data[i];

        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            (c && strchr("-._~", c)))
            buffer_append(out, &c, 1);
        else
            buffer_printf(out, "%%%02X", c);
    }
}

void rabbitmq_message_append_target(struct bytes connection, struct bytes exchange,
                                    struct bytes routing_key, struct buffer *out)
{
    buffer_append_text(out, "amqp://");
    buffer_append_bytes(out, connection);
    buffer_append_text(out, "/");
    rabbitmq_message_append_part(exchange, out);
    buffer_append_text(out, "/");
    rabbitmq_message_append_part(routing_key, out);
}

/* A name that is no text makes an empty target, which the reader of the request refuses. */
static void rabbitmq_message_put_target(const struct rabbitmq_message *message, struct buffer *out)
{
    struct bytes exchange = message->exchange, routing_key = message->routing_key;
    struct buffer target;
    bool is_text = true;

    for (size_t i = 0; i < message->header_count; i++) {
        const struct rabbitmq_header *header = &message->headers[i];
        struct bytes *part = bytes_equal(header->name, RABBITMQ_MESSAGE_EXCHANGE) ? &exchange
                             : bytes_equal(header->name, RABBITMQ_MESSAGE_ROUTING_KEY)
                                 ? &routing_key
                                 : NULL;

        if (part)
            *part = header->text;
        is_text &= !part || header->kind == RABBITMQ_HEADER_TEXT;
    }
    buffer_init(&target);
    if (is_text)
        rabbitmq_message_append_target(message->connection, exchange, routing_key, &target);
    json_put_string(out, "target", buffer_bytes(&target));
    buffer_deinit(&target);
}

/* ---- when ---- */

/* Returns the digits of a header as a number: false if it is none, or not below 2^63. */
static bool rabbitmq_message_number(const struct rabbitmq_header *header, int64_t *ret_number)
{
    uint64_t number;

    if (header->kind == RABBITMQ_HEADER_TEXT) {
        if (!number_parse(header->text, 10, &number) || number > INT64_MAX)
            return false;
        *ret_number = (int64_t)number;
        return true;
    }
    *ret_number = header->number;
    return header->kind == RABBITMQ_HEADER_NUMBER;
}

/* A number of milliseconds gets its unit: without one it could mean seconds. */
static void rabbitmq_message_put_delay(const struct rabbitmq_header *header, struct buffer *out)
{
    char text[RABBITMQ_MESSAGE_NUMBER_SIZE];
    int64_t number;

    if (rabbitmq_message_number(header, &number)) {
        snprintf(text, sizeof(text), "%" PRId64 "ms", number);
        json_put_text(out, "after", text);
    } else {
        json_put_string(out, "after", rabbitmq_message_text(header));
    }
}

static void rabbitmq_message_put_at(const struct rabbitmq_header *header, struct buffer *out)
{
    char text[RABBITMQ_MESSAGE_NUMBER_SIZE];
    int64_t number;

    if (header->kind == RABBITMQ_HEADER_TIME && header->number >= 0 &&
        header->number <= INT64_MAX / 1000)
        number = 1000 * header->number;
    else if (!rabbitmq_message_number(header, &number)) {
        json_put_string(out, "at", rabbitmq_message_text(header));
        return;
    }
    snprintf(text, sizeof(text), "%" PRId64, number);
    json_put_raw(out, "at", bytes_of(text));
}

/* ---- what it has ---- */

/* True if the header was added by the server, or is one that a delivery sets itself. */
static bool rabbitmq_message_is_left(struct bytes name)
{
    for (size_t i = 0; i < sizeof(rabbitmq_message_added) / sizeof(*rabbitmq_message_added); i++)
        if (bytes_has_prefix(name, bytes_of(rabbitmq_message_added[i])))
            return true;
    return webhook_header_is_reserved(name);
}

static void rabbitmq_message_put_header(const struct rabbitmq_header *header, struct buffer *out)
{
    char text[RABBITMQ_MESSAGE_NUMBER_SIZE];

    switch (header->kind) {
    case RABBITMQ_HEADER_TEXT:
        json_put_pair(out, header->name, rabbitmq_message_text(header));
        break;
    case RABBITMQ_HEADER_FLAG:
        json_put_pair(out, header->name, header->number ? BYTES("true") : BYTES("false"));
        break;
    case RABBITMQ_HEADER_NUMBER:
    case RABBITMQ_HEADER_TIME:
        snprintf(text, sizeof(text), "%" PRId64, header->number);
        json_put_pair(out, header->name, bytes_of(text));
        break;
    case RABBITMQ_HEADER_OTHER:
        break;
    }
}

/* A body that is JSON is shown as such. Null would be no payload, and blanks around a value would
 * be lost. */
static bool rabbitmq_message_is_json(const struct rabbitmq_message *message)
{
    struct json_reader reader;
    struct bytes value;

    if (!bytes_equal(message->content_type, BYTES("application/json")))
        return false;
    json_reader_init(&reader, message->body);
    return json_skip(&reader, &value) && json_finish(&reader) && value.size == message->body.size &&
           !bytes_equal(value, BYTES("null"));
}

static void rabbitmq_message_put_body(const struct rabbitmq_message *message, struct buffer *out)
{
    if (rabbitmq_message_is_json(message)) {
        json_put_raw(out, "payload", message->body);
        return;
    }
    json_put_name(out, "body_base64");
    buffer_append_text(out, "\"");
    base64_append(out, message->body);
    buffer_append_text(out, "\"");
    json_put_string(out, "content_type",
                    message->content_type.size ? message->content_type
                                               : BYTES("application/octet-stream"));
}

void rabbitmq_message_format(const struct rabbitmq_message *message, struct buffer *out)
{
    json_open(out, NULL, '{');
    rabbitmq_message_put_target(message, out);
    for (size_t i = 0; i < message->header_count; i++) {
        const struct rabbitmq_header *header = &message->headers[i];

        if (bytes_equal(header->name, RABBITMQ_MESSAGE_DELAY))
            rabbitmq_message_put_delay(header, out);
        else if (bytes_equal(header->name, RABBITMQ_MESSAGE_AT))
            rabbitmq_message_put_at(header, out);
    }
    json_open(out, "headers", '{');
    for (size_t i = 0; i < message->header_count; i++) {
        const struct rabbitmq_header *header = &message->headers[i];

        if (!bytes_equal(header->name, RABBITMQ_MESSAGE_DELAY) &&
            !bytes_equal(header->name, RABBITMQ_MESSAGE_AT) &&
            !bytes_equal(header->name, RABBITMQ_MESSAGE_EXCHANGE) &&
            !bytes_equal(header->name, RABBITMQ_MESSAGE_ROUTING_KEY) &&
            !rabbitmq_message_is_left(header->name))
            rabbitmq_message_put_header(header, out);
    }
    json_close(out, '}');
    rabbitmq_message_put_body(message, out);
    json_close(out, '}');
}
