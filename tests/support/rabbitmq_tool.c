/*
 * rabbitmq_tool.c - for the tests of RabbitMQ: makes queues and exchanges, and reads a queue.
 *
 *     rabbitmq_tool PORT queue NAME [LENGTH]        durable; LENGTH messages at most
 *     rabbitmq_tool PORT exchange NAME QUEUE KEY    durable, direct, and bound to the queue
 *     rabbitmq_tool PORT delete NAME                an exchange
 *     rabbitmq_tool PORT read QUEUE
 *
 * `read` prints a line for each message, parted by blanks: its delivery mode, the routing key, the
 * payload, the content type and message id as headers, and each header, name=value; keys, payloads
 * and values in hexadecimal digits, "-" for none.
 */
#if __has_include(<rabbitmq-c/amqp.h>) /* see src/delivery/backend/rabbitmq.c */
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_tcp_socket.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define CHANNEL 1

static void fail(const char *what)
{
    fprintf(stderr, "rabbitmq_tool: %s\n", what);
    exit(1);
}

static void check(amqp_connection_state_t connection, const char *what)
{
    if (amqp_get_rpc_reply(connection).reply_type != AMQP_RESPONSE_NORMAL)
        fail(what);
}

static amqp_connection_state_t open_connection(int port)
{
    amqp_connection_state_t connection = amqp_new_connection();
    amqp_socket_t *tcp = amqp_tcp_socket_new(connection);

    if (!tcp || amqp_socket_open(tcp, "127.0.0.1", port) != AMQP_STATUS_OK)
        fail("no connection");
    if (amqp_login(connection, "/", 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN, "guest",
                   "guest")
            .reply_type != AMQP_RESPONSE_NORMAL)
        fail("no login");
    amqp_channel_open(connection, CHANNEL);
    check(connection, "no channel");
    return connection;
}

static void make_queue(amqp_connection_state_t connection, const char *name, const char *length)
{
    amqp_table_entry_t entries[] = {
        {.key = amqp_cstring_bytes("x-max-length"),
         .value = {.kind = AMQP_FIELD_KIND_I64,
                   .value = {.i64 = length ? strtoll(length, NULL, 10) : 0}}},
        {.key = amqp_cstring_bytes("x-overflow"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8,
                   .value = {.bytes = amqp_cstring_bytes("reject-publish")}}},
    };
    amqp_table_t arguments = {.num_entries = length ? 2 : 0, .entries = entries};

    amqp_queue_declare(connection, CHANNEL, amqp_cstring_bytes(name), 0, 1, 0, 0, arguments);
    check(connection, "no queue");
}

static void make_exchange(amqp_connection_state_t connection, char *names[])
{
    amqp_exchange_declare(connection, CHANNEL, amqp_cstring_bytes(names[0]),
                          amqp_cstring_bytes("direct"), 0, 1, 0, 0, amqp_empty_table);
    check(connection, "no exchange");
    amqp_queue_bind(connection, CHANNEL, amqp_cstring_bytes(names[1]), amqp_cstring_bytes(names[0]),
                    amqp_cstring_bytes(names[2]), amqp_empty_table);
    check(connection, "not bound");
}

static void print_hex(amqp_bytes_t data)
{
    const unsigned char *bytes = data.bytes;

    if (data.len == 0)
        printf("-");
    for (size_t i = 0; i < data.len; i++)
        printf("%02x", bytes[i]);
}

static void print_message(const amqp_envelope_t *envelope)
{
    const amqp_basic_properties_t *properties = &envelope->message.properties;

    printf("%d ", properties->delivery_mode);
    print_hex(envelope->routing_key);
    printf(" ");
    print_hex(envelope->message.body);
    printf(" content-type=");
    print_hex(properties->content_type);
    printf(" message-id=");
    print_hex(properties->message_id);
    for (int i = 0; i < properties->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];

        if (entry->value.kind != AMQP_FIELD_KIND_UTF8)
            fail("a header that is no text");
        printf(" %.*s=", (int)entry->key.len, (const char *)entry->key.bytes);
        print_hex(entry->value.value.bytes);
    }
    printf("\n");
}

static void read_all(amqp_connection_state_t connection, const char *queue)
{
    amqp_bytes_t name = amqp_cstring_bytes(queue);
    const amqp_queue_declare_ok_t *declared =
        amqp_queue_declare(connection, CHANNEL, name, 1, 0, 0, 0, amqp_empty_table);
    struct timeval patience = {.tv_sec = 20};
    uint32_t left = declared ? declared->message_count : 0;

    check(connection, "no queue");
    amqp_basic_consume(connection, CHANNEL, name, amqp_empty_bytes, 0, 1, 0, amqp_empty_table);
    check(connection, "no consumer");
    for (; left > 0; left--) {
        amqp_maybe_release_buffers(connection);
        amqp_envelope_t envelope;
        if (amqp_consume_message(connection, &envelope, &patience, 0).reply_type !=
            AMQP_RESPONSE_NORMAL)
            fail("nothing comes");
        print_message(&envelope);
        amqp_destroy_envelope(&envelope);
    }
}

int main(int argc, char *argv[])
{
    if (argc < 4)
        fail("PORT queue|exchange|delete|read NAME ...");
    amqp_connection_state_t connection = open_connection((int)strtol(argv[1], NULL, 10));
    if (strcmp(argv[2], "queue") == 0) {
        make_queue(connection, argv[3], argc > 4 ? argv[4] : NULL);
    } else if (strcmp(argv[2], "exchange") == 0 && argc == 6) {
        make_exchange(connection, argv + 3);
    } else if (strcmp(argv[2], "delete") == 0) {
        amqp_exchange_delete(connection, CHANNEL, amqp_cstring_bytes(argv[3]), 0);
        check(connection, "not deleted");
    } else if (strcmp(argv[2], "read") == 0) {
        read_all(connection, argv[3]);
    } else {
        fail("no such command");
    }
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(connection);
    return 0;
}
