/*
 * RabbitMQ by librabbitmq: AMQP 0-9-1 with publisher confirms. Messages are persistent and
 * mandatory, so that the server returns a message that it can route to no queue. Confirms number
 * the messages from 1, so the tickets in flight are kept in a ring.
 *
 * If an exchange does not exist, or this client may not write to it, the server closes the whole
 * channel with all messages in flight. One bad target must not stop the others. So an exchange is
 * looked up on a separate channel before the first message is sent to it. If it closes the channel
 * nevertheless, no message is sent to it for EXCHANGE_SHUT_MS.
 */
#include "base/random.h"
#include "delivery/backend/rabbitmq_link.h"
#include "delivery/broker_backend.h"
#include "sys/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define CHANNEL         1 /* channel on which messages are published */
#define CHANNEL_LOOK_UP 2
#define EXCHANGES_MAX   64 /* maximum of exchanges whose look-up is remembered */
#define EXCHANGE_BAD_MS 1000
/* time for which an exchange that closed the channel counts as bad */
#define EXCHANGE_SHUT_MS 10000

struct exchange {
    char name[TARGET_PATH_SIZE_MAX + 1];
    bool is_known;
    struct instant bad_until;
    enum delivery_result result; /* outcome of its messages, while the exchange is bad */
    char error[120];
};

/* A published message that the server has not confirmed yet. */
struct rabbitmq_sent {
    uint64_t ticket;
    uint64_t id_hash; /* hash of the message's id, to recognize the message if it is returned */
    bool is_settled, is_returned;
    char reason[60]; /* why the server returned the message */
};

struct rabbitmq {
    const struct broker_settings *settings;
    struct rabbitmq_link link;
    struct rabbitmq_sent *ring;
    size_t capacity; /* a power of two */
    uint64_t head;   /* delivery tag of the oldest unconfirmed message */
    uint64_t tail;   /* delivery tag of the next message */
    bool is_blocked; /* the server asked the client to stop publishing */
    bool wants_out;  /* the socket is full: wait until it can be written */
    struct exchange exchanges[EXCHANGES_MAX];
    amqp_table_entry_t *entries;
    size_t entry_capacity;
};

static void rabbitmq_version(char ret_text[BROKER_VERSION_SIZE])
{
    snprintf(ret_text, BROKER_VERSION_SIZE, "librabbitmq %.32s", amqp_version());
}

static const char *rabbitmq_refusal(const struct bytes names[], struct bytes key)
{
    if (key.data)
        return "may have no key: the routing key is the end of the path";
    if (names[0].size == 0 && names[1].size == 0)
        return "names neither an exchange nor a queue";
    return NULL;
}

static amqp_bytes_t rabbitmq_bytes_for(struct bytes bytes)
{
    return (amqp_bytes_t){.len = bytes.size, .bytes = (void *)(uintptr_t)bytes.data};
}

static uint64_t rabbitmq_hash_of(struct bytes text)
{
    uint64_t hash = text.size;

    for (size_t i = 0; i < text.size; i++)
        hash = random_mix(hash ^ (uint8_t)text.data[i]);
    return hash;
}

/* ---- settings ---- */

static void rabbitmq_destroy(void *client)
{
    struct rabbitmq *rabbitmq = client;

    free(rabbitmq->entries);
    free(rabbitmq->ring);
    free(rabbitmq);
}

static enum error_code rabbitmq_create(const struct broker_settings *settings, void **ret_client,
                                       struct error *ret_error)
{
    struct rabbitmq *rabbitmq = calloc(1, sizeof(*rabbitmq));

    if (!rabbitmq)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    rabbitmq->settings = settings;
    /* Messages that timed out stay in the ring until their confirm, so it has room for twice the
     * limit. */
    for (rabbitmq->capacity = 2; rabbitmq->capacity < 2 * (size_t)settings->inflight_max;)
        rabbitmq->capacity *= 2;
    rabbitmq->ring = calloc(rabbitmq->capacity, sizeof(*rabbitmq->ring));
    enum error_code code = rabbitmq->ring
                               ? rabbitmq_link_init(&rabbitmq->link, settings->url, NULL, ret_error)
                               : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (code) {
        rabbitmq_destroy(rabbitmq);
        return code;
    }
    *ret_client = rabbitmq;
    return ERROR_NONE;
}

/* ---- the connection ---- */

static void rabbitmq_disconnect(void *client)
{
    struct rabbitmq *rabbitmq = client;

    rabbitmq_link_close(&rabbitmq->link);
    for (size_t i = 0; i < EXCHANGES_MAX; i++)
        rabbitmq->exchanges[i].is_known = false;
}

static bool rabbitmq_open_connection(struct rabbitmq *rabbitmq)
{
    const struct broker_settings *settings = rabbitmq->settings;

    if (!rabbitmq_link_open(&rabbitmq->link, settings->connect_timeout_ms, settings->client_name,
                            CHANNEL_LOOK_UP))
        return false;
    amqp_confirm_select(rabbitmq->link.connection, CHANNEL);
    return rabbitmq_link_check(&rabbitmq->link, amqp_get_rpc_reply(rabbitmq->link.connection));
}

static enum error_code rabbitmq_connect_to_server(void *client, struct error *ret_error)
{
    struct rabbitmq *rabbitmq = client;

    rabbitmq->is_blocked = rabbitmq->wants_out = false;
    rabbitmq->head = rabbitmq->tail = 1;
    if (rabbitmq_open_connection(rabbitmq))
        return ERROR_NONE;
    rabbitmq_disconnect(rabbitmq);
    return error_set(ret_error, ERROR_IO, "%s", rabbitmq->link.cause);
}

/* ---- exchanges ---- */

static void rabbitmq_shut(struct exchange *exchange, enum delivery_result result, const char *error,
                          uint64_t for_ms)
{
    exchange->is_known = false;
    exchange->result = result;
    snprintf(exchange->error, sizeof(exchange->error), "%.110s", error);
    exchange->bad_until = instant_add_ms(instant_now(), for_ms);
}

/* Asks the server whether the exchange exists. If the server closes the channel, opens it again. */
static void rabbitmq_look_up(struct rabbitmq *rabbitmq, struct exchange *exchange)
{
    amqp_exchange_declare(rabbitmq->link.connection, CHANNEL_LOOK_UP,
                          amqp_cstring_bytes(exchange->name), amqp_cstring_bytes("direct"), 1, 0, 0,
                          0, amqp_empty_table);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(rabbitmq->link.connection);
    exchange->is_known = reply.reply_type == AMQP_RESPONSE_NORMAL;
    if (exchange->is_known)
        return;
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION ||
        reply.reply.id != AMQP_CHANNEL_CLOSE_METHOD) {
        rabbitmq_link_check(&rabbitmq->link, reply);
        return;
    }
    char text[RABBITMQ_CAUSE_SIZE];
    rabbitmq_link_format_close(&reply.reply, text);
    rabbitmq_shut(exchange,
                  ((const amqp_channel_close_t *)reply.reply.decoded)->reply_code == AMQP_NOT_FOUND
                      ? DELIVERY_ENDED
                      : DELIVERY_FAILED,
                  text, EXCHANGE_BAD_MS);
    amqp_channel_close_ok_t ok = {0};
    if (amqp_send_method(rabbitmq->link.connection, CHANNEL_LOOK_UP, AMQP_CHANNEL_CLOSE_OK_METHOD,
                         &ok) != AMQP_STATUS_OK)
        rabbitmq_link_lose(&rabbitmq->link, "the connection broke");
    else
        rabbitmq_link_open_channel(&rabbitmq->link, CHANNEL_LOOK_UP);
}

/* Returns the entry of this exchange, after a look-up if one is due. If the entry is then neither
 * known nor bad, the look-up failed. */
static struct exchange *rabbitmq_find_exchange(struct rabbitmq *rabbitmq, struct bytes name)
{
    struct exchange *exchange = &rabbitmq->exchanges[rabbitmq_hash_of(name) % EXCHANGES_MAX];

    if (strcmp(exchange->name, name.data) != 0) {
        /* the default exchange always exists */
        *exchange = (struct exchange){.is_known = name.size == 0};
        snprintf(exchange->name, sizeof(exchange->name), "%s", name.data);
    }
    if (!exchange->is_known && instant_now().ns >= exchange->bad_until.ns) {
        exchange->is_known = name.size == 0;
        if (!exchange->is_known)
            rabbitmq_look_up(rabbitmq, exchange);
    }
    return exchange;
}

/* The server closed the channel: marks the exchange that it names in `reason` as bad. */
static void rabbitmq_blame_exchange(struct rabbitmq *rabbitmq, const char *reason)
{
    for (size_t i = 0; i < EXCHANGES_MAX; i++) {
        struct exchange *exchange = &rabbitmq->exchanges[i];

        if (!exchange->is_known || !*exchange->name)
            continue;
        char quoted[sizeof(exchange->name) + 3];
        snprintf(quoted, sizeof(quoted), "'%s'", exchange->name);
        if (strstr(reason, quoted))
            rabbitmq_shut(exchange, DELIVERY_FAILED, reason, EXCHANGE_SHUT_MS);
    }
}

/* ---- messages out ---- */

static bool rabbitmq_reserve_entries(struct rabbitmq *rabbitmq, size_t count)
{
    if (count <= rabbitmq->entry_capacity)
        return true;
    amqp_table_entry_t *entries = realloc(rabbitmq->entries, count * sizeof(*entries));
    if (!entries)
        return false;
    rabbitmq->entries = entries;
    rabbitmq->entry_capacity = count;
    return true;
}

/* AMQP has a separate field for the content type, and limits names to 255 bytes. */
static amqp_basic_properties_t rabbitmq_make_properties(struct rabbitmq *rabbitmq,
                                                        const struct broker_message *message)
{
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG,
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
        .message_id = amqp_cstring_bytes(message->id),
    };
    int count = 0;

    for (size_t i = 0; i < message->field_count; i++) {
        const struct named_bytes *field = &message->fields[i];

        if (strcmp(field->name, "content-type") == 0 && field->value.size <= 255)
            properties.content_type = rabbitmq_bytes_for(field->value);
        else if (strlen(field->name) <= 255)
            rabbitmq->entries[count++] = (amqp_table_entry_t){
                .key = amqp_cstring_bytes(field->name),
                .value = {.kind = AMQP_FIELD_KIND_UTF8,
                          .value = {.bytes = rabbitmq_bytes_for(field->value)}},
            };
    }
    properties.headers = (amqp_table_t){.num_entries = count, .entries = rabbitmq->entries};
    return properties;
}

/* True if the socket can be written. librabbitmq would wait for that. */
static bool rabbitmq_has_room(struct rabbitmq *rabbitmq)
{
    struct pollfd polled = {.fd = amqp_get_sockfd(rabbitmq->link.connection), .events = POLLOUT};

    if (rabbitmq->is_blocked || rabbitmq->tail - rabbitmq->head == rabbitmq->capacity)
        return false;
    rabbitmq->wants_out = poll(&polled, 1, 0) == 0;
    return !rabbitmq->wants_out;
}

static bool rabbitmq_publish(void *client, uint64_t ticket, const struct broker_message *message)
{
    struct rabbitmq *rabbitmq = client;
    struct broker_sink *sink = rabbitmq->settings->sink;

    if (rabbitmq->link.is_lost || !rabbitmq_has_room(rabbitmq))
        return false;
    const struct exchange *exchange = rabbitmq_find_exchange(rabbitmq, message->names[0]);
    if (rabbitmq->link.is_lost)
        return false;
    if (!exchange->is_known) {
        broker_outcome(sink, ticket, exchange->result, exchange->error);
        return true;
    }
    if (!rabbitmq_reserve_entries(rabbitmq, message->field_count)) {
        broker_outcome(sink, ticket, DELIVERY_FAILED, "out of memory");
        return true;
    }
    amqp_basic_properties_t properties = rabbitmq_make_properties(rabbitmq, message);
    rabbitmq->ring[rabbitmq->tail++ & (rabbitmq->capacity - 1)] = (struct rabbitmq_sent){
        .ticket = ticket, .id_hash = rabbitmq_hash_of(bytes_of(message->id))};
    int status = amqp_basic_publish(rabbitmq->link.connection, CHANNEL,
                                    rabbitmq_bytes_for(message->names[0]),
                                    rabbitmq_bytes_for(message->names[1]), 1, 0, &properties,
                                    rabbitmq_bytes_for(message->payload));
    if (status != AMQP_STATUS_OK)
        rabbitmq_link_lose(&rabbitmq->link, amqp_error_string2(status));
    return true;
}

/* ---- incoming frames ---- */

static void rabbitmq_settle(struct rabbitmq *rabbitmq, uint64_t tag, enum delivery_result result)
{
    struct rabbitmq_sent *sent = &rabbitmq->ring[tag & (rabbitmq->capacity - 1)];

    if (tag < rabbitmq->head || tag >= rabbitmq->tail || sent->is_settled)
        return;
    sent->is_settled = true;
    if (sent->is_returned) {
        char text[100];
        snprintf(text, sizeof(text), "no queue takes it: %s", sent->reason);
        broker_outcome(rabbitmq->settings->sink, sent->ticket, DELIVERY_ENDED, text);
    } else {
        broker_outcome(rabbitmq->settings->sink, sent->ticket, result,
                       result == DELIVERY_DONE ? "" : "the broker did not take it (nack)");
    }
    while (rabbitmq->head < rabbitmq->tail &&
           rabbitmq->ring[rabbitmq->head & (rabbitmq->capacity - 1)].is_settled)
        rabbitmq->head++;
}

/* Sets the result of a message; with `multiple`, of all messages up to this one. */
static void rabbitmq_settle_all(struct rabbitmq *rabbitmq, uint64_t tag, amqp_boolean_t multiple,
                                enum delivery_result result)
{
    if (!multiple) {
        rabbitmq_settle(rabbitmq, tag, result);
        return;
    }
    for (uint64_t at = rabbitmq->head; at <= tag && at < rabbitmq->tail; at++)
        rabbitmq_settle(rabbitmq, at, result);
}

/* Marks a message that the server returned. Its confirm will follow. */
static void rabbitmq_take_back(struct rabbitmq *rabbitmq, const amqp_basic_return_t *returned)
{
    char reason[sizeof(rabbitmq->ring->reason)];

    snprintf(reason, sizeof(reason), "%.*s",
             (int)(returned->reply_text.len < 50 ? returned->reply_text.len : 50),
             (const char *)returned->reply_text.bytes);
    amqp_message_t message;
    if (!rabbitmq_link_check(&rabbitmq->link,
                             amqp_read_message(rabbitmq->link.connection, CHANNEL, &message, 0)))
        return;
    uint64_t hash = rabbitmq_hash_of(
        (struct bytes){message.properties.message_id.bytes, message.properties.message_id.len});
    amqp_destroy_message(&message);
    for (uint64_t tag = rabbitmq->head; tag < rabbitmq->tail; tag++) {
        struct rabbitmq_sent *sent = &rabbitmq->ring[tag & (rabbitmq->capacity - 1)];

        if (sent->is_settled || sent->is_returned || sent->id_hash != hash)
            continue;
        sent->is_returned = true;
        memcpy(sent->reason, reason, sizeof(reason));
        return;
    }
}

static void rabbitmq_take_method(struct rabbitmq *rabbitmq, const amqp_method_t *method)
{
    const amqp_basic_ack_t *ack = method->decoded;
    const amqp_basic_nack_t *nack = method->decoded;
    char text[RABBITMQ_CAUSE_SIZE];

    switch (method->id) {
    case AMQP_BASIC_ACK_METHOD:
        rabbitmq_settle_all(rabbitmq, ack->delivery_tag, ack->multiple, DELIVERY_DONE);
        break;
    case AMQP_BASIC_NACK_METHOD:
        rabbitmq_settle_all(rabbitmq, nack->delivery_tag, nack->multiple, DELIVERY_FAILED);
        break;
    case AMQP_BASIC_RETURN_METHOD:
        rabbitmq_take_back(rabbitmq, method->decoded);
        break;
    case AMQP_CONNECTION_BLOCKED_METHOD:
        rabbitmq->is_blocked = true;
        break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        rabbitmq->is_blocked = false;
        break;
    case AMQP_CHANNEL_CLOSE_METHOD:
    case AMQP_CONNECTION_CLOSE_METHOD:
        rabbitmq_link_format_close(method, text);
        rabbitmq_blame_exchange(rabbitmq, text);
        rabbitmq_link_lose(&rabbitmq->link, text);
        break;
    default:
        break;
    }
}

/* Takes every received frame. librabbitmq handles heartbeats meanwhile. */
static void rabbitmq_receive(struct rabbitmq *rabbitmq)
{
    struct timeval at_once = {0};

    while (!rabbitmq->link.is_lost) {
        amqp_frame_t frame;
        int status = amqp_simple_wait_frame_noblock(rabbitmq->link.connection, &frame, &at_once);

        if (status == AMQP_STATUS_TIMEOUT)
            break;
        if (status != AMQP_STATUS_OK)
            rabbitmq_link_lose(&rabbitmq->link, amqp_error_string2(status));
        else if (frame.frame_type == AMQP_FRAME_METHOD)
            rabbitmq_take_method(rabbitmq, &frame.payload.method);
    }
    amqp_maybe_release_buffers(rabbitmq->link.connection);
}

static enum error_code rabbitmq_wait(void *client, int wake_fd, int timeout_ms,
                                     struct error *ret_error)
{
    struct rabbitmq *rabbitmq = client;
    int heartbeat_ms = RABBITMQ_HEARTBEAT_S * 1000 / 4;
    struct pollfd polled[2] = {
        {.fd = wake_fd, .events = POLLIN},
        {.fd = amqp_get_sockfd(rabbitmq->link.connection),
         .events = (short)(POLLIN | (rabbitmq->wants_out ? POLLOUT : 0))},
    };

    if (timeout_ms < 0 || timeout_ms > heartbeat_ms)
        timeout_ms = heartbeat_ms;
    /* A look-up may have read frames that follow its own answer. */
    if (rabbitmq->link.is_lost || rabbitmq_link_has_input(&rabbitmq->link))
        timeout_ms = 0;
    if (poll(polled, 2, timeout_ms) < 0 && errno != EINTR)
        return error_set(ret_error, ERROR_IO, "the system refuses to wait");
    if (!rabbitmq->link.is_lost)
        rabbitmq_receive(rabbitmq);
    return rabbitmq->link.is_lost ? error_set(ret_error, ERROR_IO, "%s", rabbitmq->link.cause)
                                  : ERROR_NONE;
}

const struct broker_backend broker_rabbitmq = {
    .scheme = "amqp",
    .version = rabbitmq_version,
    .refusal = rabbitmq_refusal,
    .create = rabbitmq_create,
    .connect = rabbitmq_connect_to_server,
    .publish = rabbitmq_publish,
    .wait = rabbitmq_wait,
    .disconnect = rabbitmq_disconnect,
    .destroy = rabbitmq_destroy,
};
