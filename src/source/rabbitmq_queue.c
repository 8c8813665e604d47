/*
 * rabbitmq_queue.c - reads a queue of RabbitMQ: each message becomes a timer whose target is the
 * same broker (rabbitmq_message.h).
 *
 * A message is acknowledged when its timer is durable. The server may send it again nevertheless:
 * it keeps acknowledgements in memory for a while. So the message-id is the Idempotency-Key of the
 * timer. Messages without one have no name by which a repeat could be recognized.
 *
 * A message that is refused for good goes to the queue QUEUE.rejected with the problem in a header.
 * It is acknowledged when that queue has confirmed it. A client cannot ask whether a queue has a
 * dead-letter exchange, so the setting has to say so. Then the message is rejected instead.
 *
 * The server sends up to `prefetch` messages that are not acknowledged. All of them are in memory,
 * also those that the node has no room for, which are tried again.
 */
#include "source/rabbitmq_message.h"
#include "source/source.h"

#include "api/json/names.h"
#include "base/number.h"
#include "delivery/backend/rabbitmq_link.h"
#include "sys/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RABBITMQ_QUEUE_CHANNEL = 1,
    RABBITMQ_QUEUE_PREFETCH = 500,
    RABBITMQ_QUEUE_PREFETCH_MAX = 4000,
    RABBITMQ_QUEUE_CONNECT_MS = 5000,
    RABBITMQ_QUEUE_CONFIRM_MS = 10000,
    RABBITMQ_QUEUE_IDLE_MS = RABBITMQ_HEARTBEAT_S * 1000 / 4,
    RABBITMQ_QUEUE_ROOM_MS_MIN = 50, /* first pause while the node has no room; each is longer */
    RABBITMQ_QUEUE_ROOM_MS_MAX = 2000,
    RABBITMQ_QUEUE_SIZE_MAX = 246, /* size of its name: QUEUE.rejected may have 255 bytes */
    RABBITMQ_QUEUE_POOL_SIZE = 4096,
};

#define RABBITMQ_QUEUE_REJECTED ".rejected"

/* A message that is not acknowledged. */
struct rabbitmq_delivery {
    uint64_t tag;
    struct instant received;
    amqp_pool_t pool; /* memory of the next three */
    amqp_bytes_t routing_key;
    amqp_basic_properties_t *properties;
    struct buffer body;
    struct buffer request; /* name of the timer; empty without a message-id */
    struct buffer json;
};

struct rabbitmq_queue {
    struct source_thread *source;
    struct source_rows *rows;
    struct broker_url url;
    struct rabbitmq_link link;
    /* the setting */
    const char *queue, *exchange, *connection;
    uint64_t prefetch;
    bool has_dead_letter;
    char rejected[RABBITMQ_QUEUE_SIZE_MAX + sizeof(RABBITMQ_QUEUE_REJECTED)];
    /* messages in the order in which they came; those at `count` and after it are not used */
    struct rabbitmq_delivery *deliveries;
    struct source_row *batch;
    size_t count;
    bool is_partial;   /* the last one is not complete */
    bool is_too_large; /* the last one has a body beyond the limit */
    uint64_t body_left;
    uint64_t number;               /* of messages so far */
    uint64_t published, confirmed; /* tags of messages to QUEUE.rejected */
    struct error error;
};

/* ---- the setting ---- */

static enum error_code rabbitmq_queue_read_parameter(struct rabbitmq_queue *queue,
                                                     const struct broker_parameter *parameter,
                                                     struct error *ret_error)
{
    const struct bytes value = bytes_of(parameter->value);

    if (strcmp(parameter->name, "queue") == 0) {
        queue->queue = parameter->value;
    } else if (strcmp(parameter->name, "exchange") == 0) {
        queue->exchange = parameter->value;
    } else if (strcmp(parameter->name, "connection") == 0) {
        queue->connection = parameter->value;
    } else if (strcmp(parameter->name, "prefetch") == 0) {
        if (!number_parse(value, 10, &queue->prefetch) || !queue->prefetch ||
            queue->prefetch > RABBITMQ_QUEUE_PREFETCH_MAX)
            return error_set(ret_error, ERROR_INVALID, "prefetch is not a number of 1 to %d",
                             RABBITMQ_QUEUE_PREFETCH_MAX);
    } else if (strcmp(parameter->name, "dead_letter") == 0) {
        queue->has_dead_letter = bytes_equal(value, BYTES("true"));
        if (!queue->has_dead_letter && !bytes_equal(value, BYTES("false")))
            return error_set(ret_error, ERROR_INVALID, "dead_letter is neither true nor false");
    }
    return ERROR_NONE;
}

static enum error_code rabbitmq_queue_read_setting(struct rabbitmq_queue *queue, const char *url,
                                                   struct error *ret_error)
{
    static const char *const own[] = {"queue",    "exchange",    "connection",
                                      "prefetch", "dead_letter", NULL};
    enum error_code code = broker_url_parse(bytes_of(url), &queue->url, ret_error);

    queue->exchange = "";
    queue->prefetch = RABBITMQ_QUEUE_PREFETCH;
    if (!code)
        code = rabbitmq_link_init(&queue->link, &queue->url, own, ret_error);
    for (size_t i = 0; i < queue->url.parameter_count && !code; i++)
        code = rabbitmq_queue_read_parameter(queue, &queue->url.parameters[i], ret_error);
    if (code)
        return code;
    if (!queue->queue || !*queue->queue || strlen(queue->queue) > RABBITMQ_QUEUE_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID,
                         "it needs the parameter queue, a name of 1 to %d bytes",
                         RABBITMQ_QUEUE_SIZE_MAX);
    snprintf(queue->rejected, sizeof(queue->rejected), "%s%s", queue->queue,
             RABBITMQ_QUEUE_REJECTED);
    return ERROR_NONE;
}

static enum error_code rabbitmq_queue_check(const char *url, struct error *ret_error)
{
    struct rabbitmq_queue queue = {0};
    const enum error_code code = rabbitmq_queue_read_setting(&queue, url, ret_error);

    explicit_bzero(&queue.url, sizeof(queue.url));
    return code;
}

/* ---- messages ---- */

static void rabbitmq_queue_drop(struct rabbitmq_queue *queue, size_t i)
{
    struct rabbitmq_delivery *delivery = &queue->deliveries[i];

    empty_amqp_pool(&delivery->pool);
    buffer_deinit(&delivery->body);
    buffer_deinit(&delivery->request);
    buffer_deinit(&delivery->json);
    buffer_deinit(&queue->batch[i].problem);
}

static struct bytes rabbitmq_queue_bytes(amqp_bytes_t bytes)
{
    return (struct bytes){bytes.bytes, bytes.len};
}

static void rabbitmq_queue_read_header(const amqp_table_entry_t *entry,
                                       struct rabbitmq_header *ret_header)
{
    const amqp_field_value_t *value = &entry->value;
    struct rabbitmq_header header = {.name = rabbitmq_queue_bytes(entry->key),
                                     .kind = RABBITMQ_HEADER_NUMBER};

    switch (value->kind) {
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
        header.kind = RABBITMQ_HEADER_TEXT;
        header.text = rabbitmq_queue_bytes(value->value.bytes);
        break;
    case AMQP_FIELD_KIND_BOOLEAN:
        header.kind = RABBITMQ_HEADER_FLAG;
        header.number = value->value.boolean != 0;
        break;
    case AMQP_FIELD_KIND_I8:
        header.number = (int)value->value.i8;
        break;
    case AMQP_FIELD_KIND_U8:
        header.number = value->value.u8;
        break;
    case AMQP_FIELD_KIND_I16:
        header.number = value->value.i16;
        break;
    case AMQP_FIELD_KIND_U16:
        header.number = value->value.u16;
        break;
    case AMQP_FIELD_KIND_I32:
        header.number = value->value.i32;
        break;
    case AMQP_FIELD_KIND_U32:
        header.number = value->value.u32;
        break;
    case AMQP_FIELD_KIND_I64:
        header.number = value->value.i64;
        break;
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP:
        header.kind = value->value.u64 > INT64_MAX               ? RABBITMQ_HEADER_OTHER
                      : value->kind == AMQP_FIELD_KIND_TIMESTAMP ? RABBITMQ_HEADER_TIME
                                                                 : RABBITMQ_HEADER_NUMBER;
        header.number = (int64_t)value->value.u64;
        break;
    default:
        header.kind = RABBITMQ_HEADER_OTHER;
    }
    *ret_header = header;
}

/* Makes the row of the last message, which is complete. Returns false if out of memory. */
static bool rabbitmq_queue_complete(struct rabbitmq_queue *queue)
{
    struct rabbitmq_delivery *delivery = &queue->deliveries[queue->count - 1];
    const amqp_basic_properties_t *properties = delivery->properties;
    const size_t count =
        properties->_flags & AMQP_BASIC_HEADERS_FLAG ? (size_t)properties->headers.num_entries : 0;
    struct rabbitmq_header *headers = calloc(count + 1, sizeof(*headers));
    struct rabbitmq_message message = {
        .routing_key = rabbitmq_queue_bytes(delivery->routing_key),
        .body = buffer_bytes(&delivery->body),
        .headers = headers,
        .header_count = count,
        .connection = bytes_of(queue->connection),
        .exchange = bytes_of(queue->exchange),
    };

    if (!headers)
        return false;
    for (size_t i = 0; i < count; i++)
        rabbitmq_queue_read_header(&properties->headers.entries[i], &headers[i]);
    if (properties->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG)
        message.content_type = rabbitmq_queue_bytes(properties->content_type);
    if (!queue->is_too_large)
        rabbitmq_message_format(&message, &delivery->json);
    free(headers);
    if (properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG && properties->message_id.len) {
        /* a blank cannot be in an Idempotency-Key of the API, so no client can make this one */
        buffer_printf(&delivery->request, "%s ", source_name(queue->source));
        buffer_append_bytes(&delivery->request, rabbitmq_queue_bytes(properties->message_id));
    }
    queue->batch[queue->count - 1] =
        (struct source_row){.number = ++queue->number,
                            .op = SOURCE_SCHEDULE,
                            .body = buffer_bytes(&delivery->json),
                            .request = buffer_bytes(&delivery->request),
                            .is_too_large = queue->is_too_large};
    buffer_init(&queue->batch[queue->count - 1].problem);
    queue->is_partial = false;
    return !buffer_failed(&delivery->json) && !buffer_failed(&delivery->request);
}

static void rabbitmq_queue_begin_message(struct rabbitmq_queue *queue,
                                         const amqp_basic_deliver_t *method)
{
    if (queue->is_partial || queue->count == queue->prefetch) {
        rabbitmq_link_lose(&queue->link, "the server sends more than it may");
        return;
    }
    struct rabbitmq_delivery *delivery = &queue->deliveries[queue->count];
    *delivery = (struct rabbitmq_delivery){.tag = method->delivery_tag,
                                           .received = instant_now(),
                                           .routing_key = {.len = method->routing_key.len}};
    queue->batch[queue->count++] = (struct source_row){0};
    queue->is_partial = true;
    buffer_init(&delivery->body);
    buffer_init(&delivery->request);
    buffer_init(&delivery->json);
    init_amqp_pool(&delivery->pool, RABBITMQ_QUEUE_POOL_SIZE);
    amqp_pool_alloc_bytes(&delivery->pool, method->routing_key.len, &delivery->routing_key);
    if (!delivery->routing_key.bytes && method->routing_key.len)
        rabbitmq_link_lose(&queue->link, "out of memory");
    else if (method->routing_key.len)
        memcpy(delivery->routing_key.bytes, method->routing_key.bytes, method->routing_key.len);
}

/* Takes the properties of the last message. A body beyond the limit is kept only to be sent to
 * QUEUE.rejected. */
static void rabbitmq_queue_take_properties(struct rabbitmq_queue *queue, const amqp_frame_t *frame)
{
    struct rabbitmq_delivery *delivery = &queue->deliveries[queue->count - 1];
    const amqp_bytes_t raw = frame->payload.properties.raw;
    amqp_bytes_t copy = {0};
    void *decoded = NULL;

    amqp_pool_alloc_bytes(&delivery->pool, raw.len, &copy);
    if (copy.bytes)
        memcpy(copy.bytes, raw.bytes, raw.len);
    if (!copy.bytes || amqp_decode_properties(AMQP_BASIC_CLASS, &delivery->pool, copy, &decoded) !=
                           AMQP_STATUS_OK) {
        rabbitmq_link_lose(&queue->link, "out of memory");
        return;
    }
    delivery->properties = decoded;
    queue->body_left = frame->payload.properties.body_size;
    queue->is_too_large = queue->body_left > source_config(queue->source)->payload_bytes_max;
}

static void rabbitmq_queue_take_content(struct rabbitmq_queue *queue, const amqp_frame_t *frame)
{
    struct rabbitmq_delivery *delivery = &queue->deliveries[queue->count - 1];
    const amqp_bytes_t part = frame->payload.body_fragment;

    if (frame->frame_type == AMQP_FRAME_HEADER) {
        rabbitmq_queue_take_properties(queue, frame);
    } else {
        if (!queue->is_too_large || !queue->has_dead_letter)
            buffer_append(&delivery->body, part.bytes, part.len);
        queue->body_left -= part.len < queue->body_left ? part.len : queue->body_left;
    }
    if (buffer_failed(&delivery->body) ||
        (!queue->link.is_lost && !queue->body_left && !rabbitmq_queue_complete(queue)))
        rabbitmq_link_lose(&queue->link, "out of memory");
}

static void rabbitmq_queue_take_method(struct rabbitmq_queue *queue, const amqp_method_t *method)
{
    char text[RABBITMQ_CAUSE_SIZE];

    switch (method->id) {
    case AMQP_BASIC_DELIVER_METHOD:
        rabbitmq_queue_begin_message(queue, method->decoded);
        break;
    case AMQP_BASIC_ACK_METHOD:
        queue->confirmed = ((const amqp_basic_ack_t *)method->decoded)->delivery_tag;
        break;
    case AMQP_BASIC_NACK_METHOD:
    case AMQP_BASIC_RETURN_METHOD:
        snprintf(text, sizeof(text), "%.120s takes no message", queue->rejected);
        rabbitmq_link_lose(&queue->link, text);
        break;
    case AMQP_BASIC_CANCEL_METHOD:
        rabbitmq_link_lose(&queue->link, "the queue was deleted or moved");
        break;
    case AMQP_CHANNEL_CLOSE_METHOD:
    case AMQP_CONNECTION_CLOSE_METHOD:
        rabbitmq_link_format_close(method, text);
        rabbitmq_link_lose(&queue->link, text);
        break;
    default:
        break;
    }
}

/* Takes what was received. A message beyond the limit of a payload is the last one of a turn, so
 * that there is one of them in memory at most. */
static void rabbitmq_queue_receive(struct rabbitmq_queue *queue)
{
    struct timeval at_once = {0};
    bool is_full = false;

    while (!queue->link.is_lost && !is_full) {
        amqp_frame_t frame;
        const int status = amqp_simple_wait_frame_noblock(queue->link.connection, &frame, &at_once);

        if (status == AMQP_STATUS_TIMEOUT)
            break;
        if (status != AMQP_STATUS_OK)
            rabbitmq_link_lose(&queue->link, amqp_error_string2(status));
        else if (frame.frame_type == AMQP_FRAME_METHOD)
            rabbitmq_queue_take_method(queue, &frame.payload.method);
        else if (queue->is_partial)
            rabbitmq_queue_take_content(queue, &frame);
        is_full = queue->is_too_large && !queue->is_partial;
        if (queue->is_too_large)
            amqp_maybe_release_buffers(queue->link.connection);
    }
    queue->is_too_large &= queue->is_partial;
    amqp_maybe_release_buffers(queue->link.connection);
}

/* Waits until something is received, for a stop, or for some time. */
static void rabbitmq_queue_wait(struct rabbitmq_queue *queue, uint64_t ms)
{
    if (!rabbitmq_link_has_input(&queue->link))
        source_wait(queue->source, ms, amqp_get_sockfd(queue->link.connection));
}

/* ---- messages that cannot become a timer ---- */

static amqp_table_entry_t rabbitmq_queue_entry(const char *name, struct bytes text)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(name),
        .value = {.kind = AMQP_FIELD_KIND_UTF8,
                  .value = {.bytes = {.len = text.size, .bytes = (void *)(uintptr_t)text.data}}}};
}

/* True if a header does not go to QUEUE.rejected: an earlier problem, and what would send copies to
 * further queues. */
static bool rabbitmq_queue_is_dropped(struct bytes name)
{
    return bytes_equal(name, BYTES("tickwheel-problem")) || bytes_equal(name, BYTES("CC")) ||
           bytes_equal(name, BYTES("BCC"));
}

/* Makes the headers of a message to QUEUE.rejected: its own, the problem, and the routing key,
 * unless it has that as a header, so that a message that is moved back is as it was. */
static bool rabbitmq_queue_add_headers(struct rabbitmq_delivery *delivery, struct bytes problem,
                                       amqp_table_t *ret_headers)
{
    const amqp_basic_properties_t *properties = delivery->properties;
    const int count =
        properties->_flags & AMQP_BASIC_HEADERS_FLAG ? properties->headers.num_entries : 0;
    amqp_table_entry_t *entries =
        amqp_pool_alloc(&delivery->pool, ((size_t)count + 2) * sizeof(*entries));
    bool has_key = false;
    int kept = 0;

    for (int i = 0; entries && i < count; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];
        const struct bytes name = rabbitmq_queue_bytes(entry->key);

        has_key |= bytes_equal(name, BYTES("x-routing-key"));
        if (!rabbitmq_queue_is_dropped(name))
            entries[kept++] = *entry;
    }
    if (!entries)
        return false;
    entries[kept++] = rabbitmq_queue_entry("tickwheel-problem", problem);
    if (!has_key)
        entries[kept++] =
            rabbitmq_queue_entry("x-routing-key", rabbitmq_queue_bytes(delivery->routing_key));
    *ret_headers = (amqp_table_t){.num_entries = kept, .entries = entries};
    return true;
}

/* Sends a message to QUEUE.rejected, and waits until it is confirmed. If the server does not take
 * it, the link is lost. */
static void rabbitmq_queue_publish(struct rabbitmq_queue *queue, size_t i)
{
    struct rabbitmq_delivery *delivery = &queue->deliveries[i];
    amqp_basic_properties_t properties = *delivery->properties;
    const amqp_bytes_t body = {.len = delivery->body.size, .bytes = delivery->body.data};
    const struct instant began = instant_now();

    properties._flags |= AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
    properties._flags &= ~(amqp_flags_t)(AMQP_BASIC_EXPIRATION_FLAG | AMQP_BASIC_USER_ID_FLAG);
    properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
    if (!rabbitmq_queue_add_headers(delivery, buffer_bytes(&queue->batch[i].problem),
                                    &properties.headers)) {
        rabbitmq_link_lose(&queue->link, "out of memory");
        return;
    }
    int status =
        amqp_basic_publish(queue->link.connection, RABBITMQ_QUEUE_CHANNEL, amqp_empty_bytes,
                           amqp_cstring_bytes(queue->rejected), 1, 0, &properties, body);
    if (status == AMQP_STATUS_TABLE_TOO_BIG) { /* the problem does not fit beside its headers */
        properties.headers = amqp_empty_table;
        status =
            amqp_basic_publish(queue->link.connection, RABBITMQ_QUEUE_CHANNEL, amqp_empty_bytes,
                               amqp_cstring_bytes(queue->rejected), 1, 0, &properties, body);
    }
    if (status != AMQP_STATUS_OK)
        rabbitmq_link_lose(&queue->link, amqp_error_string2(status));
    queue->published++;
    while (!queue->link.is_lost && queue->confirmed != queue->published) {
        if (instant_since_ns(began, instant_now()) / 1000000 > RABBITMQ_QUEUE_CONFIRM_MS)
            rabbitmq_link_lose(&queue->link, "a refused message is not confirmed");
        rabbitmq_queue_wait(queue, RABBITMQ_QUEUE_ROOM_MS_MIN);
        rabbitmq_queue_receive(queue);
    }
}

/* ---- a batch ---- */

/* Takes the result of sending: a link on which nothing can be sent is lost. */
static void rabbitmq_queue_note_sent(struct rabbitmq_queue *queue, int status)
{
    if (status != AMQP_STATUS_OK)
        rabbitmq_link_lose(&queue->link, amqp_error_string2(status));
}

/* Acknowledges those of the first `count` messages whose timers are durable. */
static void rabbitmq_queue_settle_done(struct rabbitmq_queue *queue, size_t count)
{
    const amqp_connection_state_t connection = queue->link.connection;
    size_t done = 0;

    for (size_t i = 0; i < count; i++)
        done += queue->batch[i].state == SOURCE_ROW_DONE;
    const bool has_all = done == count;
    for (size_t i = has_all ? count - 1 : 0; i < count && !queue->link.is_lost; i++)
        if (queue->batch[i].state == SOURCE_ROW_DONE)
            rabbitmq_queue_note_sent(queue, amqp_basic_ack(connection, RABBITMQ_QUEUE_CHANNEL,
                                                           queue->deliveries[i].tag, has_all));
}

/* Rejects those of the first `count` messages that were refused, or sends them to
 * QUEUE.rejected. Comes last: if that fails, no other message is sent again. */
static void rabbitmq_queue_settle_refused(struct rabbitmq_queue *queue, size_t count)
{
    const amqp_connection_state_t connection = queue->link.connection;

    for (size_t i = 0; i < count && !queue->link.is_lost; i++) {
        const uint64_t tag = queue->deliveries[i].tag;

        if (queue->batch[i].state != SOURCE_ROW_REFUSED)
            continue;
        if (!queue->has_dead_letter)
            rabbitmq_queue_publish(queue, i);
        if (!queue->link.is_lost)
            rabbitmq_queue_note_sent(
                queue, queue->has_dead_letter
                           ? amqp_basic_reject(connection, RABBITMQ_QUEUE_CHANNEL, tag, 0)
                           : amqp_basic_ack(connection, RABBITMQ_QUEUE_CHANNEL, tag, 0));
    }
}

/* Drops messages that are done or refused, and moves the others to the front. */
static void rabbitmq_queue_compact(struct rabbitmq_queue *queue)
{
    size_t kept = 0;

    for (size_t i = 0; i < queue->count; i++) {
        if (queue->batch[i].state == SOURCE_ROW_DONE ||
            queue->batch[i].state == SOURCE_ROW_REFUSED) {
            rabbitmq_queue_drop(queue, i);
            continue;
        }
        queue->deliveries[kept] = queue->deliveries[i];
        queue->batch[kept++] = queue->batch[i];
    }
    queue->count = kept;
}

/* Takes the messages that are complete. `ret_postponed` is set if the node has no room for some. */
static enum error_code rabbitmq_queue_take(struct rabbitmq_queue *queue, bool *ret_postponed)
{
    const size_t count = queue->count - queue->is_partial;
    bool postponed = false;

    for (size_t i = 0; i < count; i++)
        queue->batch[i].state = SOURCE_ROW_NEW;
    enum error_code code = source_rows_take(queue->rows, queue->batch, count);
    const struct instant now = instant_now();
    for (size_t i = 0; i < count; i++) {
        const uint64_t us = instant_since_ns(queue->deliveries[i].received, now) / 1000;

        if (queue->batch[i].state == SOURCE_ROW_DONE)
            source_observe(queue->source, us);
        if (queue->batch[i].state == SOURCE_ROW_POSTPONED && !postponed)
            source_set_age(queue->source, us / 1000);
        postponed |= queue->batch[i].state == SOURCE_ROW_POSTPONED;
    }
    if (!postponed)
        source_set_age(queue->source, 0);
    source_count(queue->source, queue->batch, count);
    rabbitmq_queue_settle_done(queue, count);
    rabbitmq_queue_settle_refused(queue, count);
    rabbitmq_queue_compact(queue);
    *ret_postponed = postponed;
    return code ? error_set(&queue->error, code, "the messages: %s", error_title(code))
                : ERROR_NONE;
}

/* ---- the thread ---- */

/* Checks that timers may have the exchange of the setting as their target. They may not while the
 * settings of brokers lack the connection. */
static enum error_code rabbitmq_queue_check_target(struct rabbitmq_queue *queue)
{
    struct buffer target;
    struct error cause;

    buffer_init(&target);
    rabbitmq_message_append_target(bytes_of(queue->connection), bytes_of(queue->exchange),
                                   BYTES("x"), &target);
    const enum error_code code =
        source_rows_check_target(queue->rows, buffer_bytes(&target), &cause);
    buffer_deinit(&target);
    return code ? error_set(&queue->error, code, "its timers' target: %.200s", cause.text)
                : ERROR_NONE;
}

static bool rabbitmq_queue_answered(struct rabbitmq_queue *queue)
{
    return rabbitmq_link_check(&queue->link, amqp_get_rpc_reply(queue->link.connection));
}

/* Connects and becomes the only consumer. Returns false if the link is lost. */
static bool rabbitmq_queue_begin(struct rabbitmq_queue *queue)
{
    const amqp_bytes_t name = amqp_cstring_bytes(queue->queue);

    if (!rabbitmq_link_open(&queue->link, RABBITMQ_QUEUE_CONNECT_MS, "tickwheeld",
                            RABBITMQ_QUEUE_CHANNEL))
        return false;
    const amqp_connection_state_t connection = queue->link.connection;
    if (!queue->has_dead_letter) {
        amqp_queue_declare(connection, RABBITMQ_QUEUE_CHANNEL, amqp_cstring_bytes(queue->rejected),
                           1, 0, 0, 0, amqp_empty_table);
        if (!rabbitmq_queue_answered(queue))
            return false;
        amqp_confirm_select(connection, RABBITMQ_QUEUE_CHANNEL);
        if (!rabbitmq_queue_answered(queue))
            return false;
    }
    amqp_basic_qos(connection, RABBITMQ_QUEUE_CHANNEL, 0, (uint16_t)queue->prefetch, 0);
    if (!rabbitmq_queue_answered(queue))
        return false;
    amqp_basic_consume(connection, RABBITMQ_QUEUE_CHANNEL, name, amqp_empty_bytes, 0, 0, 1,
                       amqp_empty_table);
    return rabbitmq_queue_answered(queue);
}

/* Reads until the link is lost or something else fails. */
static enum error_code rabbitmq_queue_read(struct rabbitmq_queue *queue)
{
    uint64_t pause_ms = RABBITMQ_QUEUE_ROOM_MS_MIN;
    enum error_code code = ERROR_NONE;

    source_tell(queue->source, NULL);
    while (!code && !queue->link.is_lost && source_goes_on(queue->source)) {
        bool postponed = false;

        rabbitmq_queue_receive(queue);
        if (!queue->link.is_lost && queue->count > queue->is_partial) {
            code = rabbitmq_queue_check_target(queue);
            if (!code)
                code = rabbitmq_queue_take(queue, &postponed);
        }
        if (code || queue->link.is_lost)
            break;
        if (postponed) {
            source_wait(queue->source, pause_ms, -1);
            pause_ms = pause_ms < RABBITMQ_QUEUE_ROOM_MS_MAX ? 2 * pause_ms : pause_ms;
        } else {
            pause_ms = RABBITMQ_QUEUE_ROOM_MS_MIN;
            if (queue->count == queue->is_partial) /* none came during a confirm */
                rabbitmq_queue_wait(queue, RABBITMQ_QUEUE_IDLE_MS);
        }
    }
    return code;
}

static const char *rabbitmq_queue_connect_and_read(void *reader)
{
    struct rabbitmq_queue *queue = reader;
    enum error_code code = ERROR_NONE;

    queue->is_partial = queue->is_too_large = false;
    queue->published = queue->confirmed = 0;
    if (rabbitmq_queue_check_target(queue))
        return queue->error.text;
    if (rabbitmq_queue_begin(queue)) {
        code = rabbitmq_queue_read(queue);
        if (!queue->link.is_lost) /* the server takes the acknowledgements before it answers */
            amqp_connection_close(queue->link.connection, AMQP_REPLY_SUCCESS);
    }
    rabbitmq_link_close(&queue->link);
    source_set_age(queue->source, 0);
    while (queue->count > 0)
        rabbitmq_queue_drop(queue, --queue->count);
    return code ? queue->error.text : queue->link.cause;
}

static void rabbitmq_queue_run(struct source_thread *source)
{
    struct rabbitmq_queue queue = {.source = source, .rows = source_rows_of(source)};
    const enum error_code code =
        rabbitmq_queue_read_setting(&queue, source_url(source), &queue.error);

    assert(!code); /* rabbitmq_queue_check */
    if (!queue.connection)
        queue.connection = source_name(source);
    queue.deliveries = calloc(queue.prefetch, sizeof(*queue.deliveries));
    queue.batch = calloc(queue.prefetch, sizeof(*queue.batch));
    if (queue.deliveries && queue.batch)
        source_repeat(source, rabbitmq_queue_connect_and_read, &queue);
    else
        source_tell(source, "out of memory");
    free(queue.deliveries);
    free(queue.batch);
    explicit_bzero(&queue.url, sizeof(queue.url));
}

/* Returns true if the queue is there and has no consumer. */
static bool rabbitmq_queue_is_unread(struct source_thread *source)
{
    struct rabbitmq_queue queue = {.source = source};
    const amqp_queue_declare_ok_t *found = NULL;

    if (rabbitmq_queue_read_setting(&queue, source_url(source), &queue.error))
        return false;
    if (rabbitmq_link_open(&queue.link, RABBITMQ_QUEUE_CONNECT_MS, "tickwheeld",
                           RABBITMQ_QUEUE_CHANNEL))
        found = amqp_queue_declare(queue.link.connection, RABBITMQ_QUEUE_CHANNEL,
                                   amqp_cstring_bytes(queue.queue), 1, 0, 0, 0, amqp_empty_table);
    const bool is_unread = found && found->consumer_count == 0;
    if (found)
        amqp_connection_close(queue.link.connection, AMQP_REPLY_SUCCESS);
    rabbitmq_link_close(&queue.link);
    explicit_bzero(&queue.url, sizeof(queue.url));
    return is_unread;
}

const struct source_kind source_rabbitmq = {
    .scheme = "amqp://",
    .check = rabbitmq_queue_check,
    .run = rabbitmq_queue_run,
    .is_unread = rabbitmq_queue_is_unread,
};

const struct source_kind source_rabbitmq_tls = {
    .scheme = "amqps://",
    .check = rabbitmq_queue_check,
    .run = rabbitmq_queue_run,
    .is_unread = rabbitmq_queue_is_unread,
};
