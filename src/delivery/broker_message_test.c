/*
 * Goal: a message has the fields that docs/brokers.md names, and nothing of a timer can add or
 * change one of them. Method: messages built from deliveries, compared field by field.
 */
#include "delivery/broker_message.h"

#include "delivery/broker_fixture.h"

static void check_field(const struct broker_message *message, size_t index, const char *name,
                        const char *value)
{
    const struct named_bytes *field = &message->fields[index];

    assert_true(index < message->field_count);
    assert_string_equal(field->name, name);
    assert_string_equal(field->value.data, value);
    assert_int_equal(field->value.size, strlen(value));
}

/* proves: broker-fields */
static void test_fields(void **state)
{
    struct timer_texts texts = {
        .target = BYTES("amqp://c/e%2F1/r%20k"),
        .payload = BYTES("\0binary"),
        .content_type = BYTES("text/plain"),
        .headers = BYTES("X-One:  1 \nWebhook-Id: forged\nTickwheel-Attempt: 9\nno colon\n"
                         ": nameless\nx-cr: a\rb\nContent-Type: x\nlast: \xc3\xbc"),
    };

    (void)state;
    struct broker_shipment shipment;
    broker_shipment_init_texts(&shipment, &texts);
    shipment.delivery.attempt = 3;
    struct broker_builder builder;
    broker_builder_init(&builder);
    struct broker_message message;
    struct error error;
    assert_int_equal(broker_message_build(&builder, &shipment.delivery, &message, &error),
                     ERROR_NONE);
    assert_string_equal(message.names[0].data, "e/1");
    assert_int_equal(message.names[0].size, 3);
    assert_string_equal(message.names[1].data, "r k");
    assert_null(message.key.data);
    assert_true(bytes_equal(message.payload, texts.payload));
    assert_int_equal(message.field_count, 7);
    check_field(&message, 0, "X-One", "1");
    check_field(&message, 1, "last", "\xc3\xbc");
    check_field(&message, 2, "content-type", "text/plain");
    check_field(&message, 3, "webhook-id", message.id);
    check_field(&message, 4, "tickwheel-due", "2026-11-20T23:59:59.250Z");
    check_field(&message, 5, "tickwheel-attempt", "3");
    check_field(&message, 6, "tickwheel-epoch", "9");
    char id[64];
    timer_id_format(&shipment.timer->id, id);
    assert_memory_equal(message.id, id, strlen(id));
    assert_string_equal(message.id + strlen(id), "-1795219199250");
    timer_free(shipment.timer);
    broker_builder_deinit(&builder);
}

/* Goal: a message has the ids of the attempt's span, if there is one, and those of the creation, if
 * the timer has them. Headers of the timer with these names are not sent. */
/* proves: otlp-traces */
static void test_broker_message_trace(void **state)
{
    static const char created_by[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    static const char *const traces[] = {created_by, TRACE_UNSAMPLED, ""};
    struct broker_builder builder;

    (void)state;
    broker_builder_init(&builder);
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
        struct timer_texts texts = {.target = BYTES("kafka://c/topic"),
                                    .headers = BYTES("Traceparent: forged\n"),
                                    .trace = bytes_of(traces[i])};
        struct broker_shipment shipment;
        struct broker_message message;
        struct error error;

        broker_shipment_init_texts(&shipment, &texts);
        assert_int_equal(broker_message_build(&builder, &shipment.delivery, &message, &error),
                         ERROR_NONE);
        assert_int_equal(message.field_count, 5);
        shipment.delivery.trace = (struct trace_parent){1, 2, 3, i == 0};
        assert_int_equal(broker_message_build(&builder, &shipment.delivery, &message, &error),
                         ERROR_NONE);
        assert_int_equal(message.field_count, i == 0 ? 7 : 6);
        check_field(&message, 5, "traceparent",
                    i == 0 ? "00-00000000000000010000000000000002-0000000000000003-01"
                           : "00-00000000000000010000000000000002-0000000000000003-00");
        if (i == 0)
            check_field(&message, 6, "tickwheel-linked-traceparent", created_by);
        timer_free(shipment.timer);
    }
    broker_builder_deinit(&builder);
}

/* Goal: the memory is used again, and grows with what is needed. */
static void test_broker_message_many(void **state)
{
    (void)state;
    struct broker_builder builder;
    broker_builder_init(&builder);
    struct broker_message message;
    struct error error;
    for (size_t count = 0; count < 300; count += 7) {
        char headers[4000];
        struct timer_texts texts = {.target = BYTES("redis://c/s?key=k%31"),
                                    .headers = {headers, count * 5}};

        for (size_t i = 0; i < count; i++)
            memcpy(headers + 5 * i, "a: b\n", 5);
        struct broker_shipment shipment;
        broker_shipment_init_texts(&shipment, &texts);
        assert_int_equal(broker_message_build(&builder, &shipment.delivery, &message, &error),
                         ERROR_NONE);
        assert_int_equal(message.field_count, count + 5);
        assert_string_equal(message.key.data, "k1");
        check_field(&message, count, "content-type", "application/json");
        timer_free(shipment.timer);
    }
    broker_builder_deinit(&builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_broker_message_trace),
        cmocka_unit_test(test_broker_message_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
