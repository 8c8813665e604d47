/* Goal: whatever a message has, the request made of it is JSON that the reader of requests takes or
 * refuses, with the body unchanged if it takes it, and equal messages make equal requests. Method:
 * the bytes are cut into headers, names and the body. */
#include "source/rabbitmq_message.h"

#include "api/json/timer_json.h"
#include "base/json.h"

#include <stdlib.h>

enum { HEADERS_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes a text, whose size is in its first byte. */
static struct bytes rabbitmq_message_fuzz_text(struct bytes *rest)
{
    const size_t size = rest->size ? (uint8_t)*rest->data : 0;
    struct bytes text = {rest->data, rest->size ? 1 : 0};

    rest->data += text.size;
    rest->size -= text.size;
    text = (struct bytes){rest->data, size < rest->size ? size : rest->size};
    rest->data += text.size;
    rest->size -= text.size;
    return text;
}

/* Names begin so often with those that have a meaning that the fuzzer finds them. */
static struct bytes rabbitmq_message_fuzz_name(struct bytes *rest)
{
    static const char *const names[] = {"x-delay", "x-at", "x-exchange", "x-routing-key"};
    const struct bytes name = rabbitmq_message_fuzz_text(rest);
    const size_t choice = name.size == 1 ? (uint8_t)*name.data : SIZE_MAX;

    return choice < sizeof(names) / sizeof(*names) ? bytes_of(names[choice]) : name;
}

static void rabbitmq_message_fuzz_check(const struct rabbitmq_message *message, struct bytes json)
{
    const struct timer_json_limits limits = {.payload_bytes_max = 1 << 20,
                                             .target_bytes_max = 2048,
                                             .labels_max = 4,
                                             .headers_bytes_max = 1 << 14,
                                             .bare_after = TIMER_JSON_BARE_REFUSED};
    struct json_reader reader;
    struct problem problem;
    struct timer *timer;
    struct bytes raw;

    json_reader_init(&reader, json);
    if (!json_skip(&reader, &raw) || !json_finish(&reader))
        abort();
    if (timer_json_parse_create(json, &limits, (struct wall){1795132890000}, &timer, &problem))
        return;
    if (!bytes_equal(timer->texts.payload, message->body) ||
        !bytes_has_prefix(timer->texts.target, BYTES("amqp://main/")))
        abort();
    timer_free(timer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes rest = {(const char *)data, size};
    struct rabbitmq_header headers[HEADERS_MAX];
    struct rabbitmq_message message = {
        .headers = headers, .connection = BYTES("main"), .exchange = BYTES("shop")};
    struct buffer first, second;

    message.routing_key = rabbitmq_message_fuzz_text(&rest);
    message.content_type = rabbitmq_message_fuzz_text(&rest);
    if (!message.content_type.size)
        message.content_type = BYTES("application/json");
    const struct bytes kinds = rabbitmq_message_fuzz_text(&rest);
    for (size_t i = 0; i < kinds.size && i < HEADERS_MAX; i++) {
        struct rabbitmq_header *header = &headers[message.header_count++];

        *header = (struct rabbitmq_header){
            .name = rabbitmq_message_fuzz_name(&rest),
            .kind = (enum rabbitmq_header_kind)((uint8_t)kinds.data[i] % 5),
            .text = rabbitmq_message_fuzz_text(&rest)};
        for (size_t j = 0; j < header->text.size && j < 8; j++)
            header->number =
                (int64_t)((uint64_t)header->number << 8 | (uint8_t)header->text.data[j]);
        if (header->kind == RABBITMQ_HEADER_FLAG)
            header->number &= 1;
    }
    message.body = rest;
    buffer_init(&first);
    buffer_init(&second);
    rabbitmq_message_format(&message, &first);
    rabbitmq_message_format(&message, &second);
    if (buffer_failed(&first) || !bytes_equal(buffer_bytes(&first), buffer_bytes(&second)))
        abort();
    rabbitmq_message_fuzz_check(&message, buffer_bytes(&first));
    buffer_deinit(&first);
    buffer_deinit(&second);
    return 0;
}
