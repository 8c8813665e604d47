/* Goal: a message becomes the request that its headers ask for, and what is wrong in them reaches
 * the reader of the request. Method: a table of messages with the JSON that they make. */
#include "source/rabbitmq_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define NAMED(name)                                    \
    {                                                  \
        sizeof(name) > 1 ? name : "", sizeof(name) - 1 \
    }
#define TEXT(name, value)                                  \
    {                                                      \
        NAMED(name), RABBITMQ_HEADER_TEXT, NAMED(value), 0 \
    }
#define NUMBER(name, value)                             \
    {                                                   \
        NAMED(name), RABBITMQ_HEADER_NUMBER, {0}, value \
    }
#define OF(kind, name, value)                           \
    {                                                   \
        NAMED(name), RABBITMQ_HEADER_##kind, {0}, value \
    }

enum { HEADERS_MAX = 6 };

static const struct example {
    const char *type, *body, *json;
    struct rabbitmq_header headers[HEADERS_MAX];
} examples[] = {
    {"application/json",
     "{\"n\":  1}",
     "{\"target\":\"amqp://main/shop/a%2Fb%20c\",\"after\":\"1500ms\",\"headers\":{},"
     "\"payload\":{\"n\":  1}}",
     {NUMBER("x-delay", 1500)}},
    {"",
     "\xff",
     "{\"target\":\"amqp://main/e%25/k\",\"after\":\"90s\",\"headers\":{\"n\":\"-5\","
     "\"paid\":\"false\",\"team\":\"shop\"},\"body_base64\":\"/w==\","
     "\"content_type\":\"application/octet-stream\"}",
     {TEXT("x-delay", "90s"), TEXT("x-exchange", "e%"), TEXT("x-routing-key", "k"), NUMBER("n", -5),
      OF(FLAG, "paid", 0), TEXT("team", "shop")}},
    {"application/json",
     "{",
     "{\"target\":\"amqp://main/shop/"
     "a%2Fb%20c\",\"at\":1795132890000,\"headers\":{\"since\":\"7\"},"
     "\"body_base64\":\"ew==\",\"content_type\":\"application/json\"}",
     {NUMBER("x-at", 1795132890000), OF(OTHER, "list", 0), OF(TIME, "since", 7)}},
    {"application/json",
     "null",
     "{\"target\":\"amqp://main/shop/a%2Fb%20c\",\"at\":1795132890000,\"headers\":{},"
     "\"body_base64\":\"bnVsbA==\",\"content_type\":\"application/json\"}",
     {TEXT("x-at", "1795132890000")}},
    {"application/json",
     "1",
     "{\"target\":\"amqp://main/shop/a%2Fb%20c\",\"at\":1795132890000,\"headers\":{},"
     "\"payload\":1}",
     {OF(TIME, "x-at", 1795132890)}},
    /* what the server adds, and what a delivery sets, is not of the message */
    {"application/json",
     "1",
     "{\"target\":\"amqp://main/shop/a%2Fb%20c\",\"at\":\"2099-01-01T00:00:00Z\",\"headers\":{},"
     "\"payload\":1}",
     {TEXT("x-at", "2099-01-01T00:00:00Z"), OF(OTHER, "x-death", 0),
      TEXT("x-first-death-queue", "q"), NUMBER("x-delivery-count", 3), TEXT("Webhook-Id", "old"),
      TEXT("tickwheel-attempt", "1")}},
    /* refused where the request is read */
    {"application/json",
     "1",
     "{\"target\":\"\",\"after\":\"-1ms\",\"headers\":{\"a\":\"\"},\"payload\":1}",
     {NUMBER("x-delay", -1), NUMBER("x-exchange", 1), TEXT("a", "\xff")}},
    {"application/json",
     "1",
     "{\"target\":\"amqp://main/shop/a%2Fb%20c\",\"after\":\"\",\"at\":\"\",\"headers\":{},"
     "\"payload\":1}",
     {OF(OTHER, "x-delay", 0), OF(TIME, "x-at", INT64_MAX)}},
    {"application/json",
     "1",
     "{\"target\":\"amqp://main/shop/a%2Fb%20c\",\"after\":\"9223372036854775808\",\"headers\":{},"
     "\"payload\":1}",
     {TEXT("x-delay", "9223372036854775808")}},
};

static void test_a_message_is_a_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
        const struct example *example = &examples[i];
        struct rabbitmq_message message = {
            .routing_key = BYTES("a/b c"),
            .content_type = bytes_of(example->type),
            .body = bytes_of(example->body),
            .headers = example->headers,
            .connection = BYTES("main"),
            .exchange = BYTES("shop"),
        };
        struct buffer json;

        while (message.header_count < HEADERS_MAX &&
               example->headers[message.header_count].name.size)
            message.header_count++;
        buffer_init(&json);
        rabbitmq_message_format(&message, &json);
        assert_false(buffer_failed(&json));
        if (!bytes_equal(buffer_bytes(&json), bytes_of(example->json)))
            fail_msg("%zu: %.*s", i, (int)json.size, json.data);
        buffer_deinit(&json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_is_a_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
