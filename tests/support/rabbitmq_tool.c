/*
 * rabbitmq_tool.c - for the tests of RabbitMQ: makes queues and exchanges, publishes, and reads a
 * queue.
 *
 *     rabbitmq_tool PORT queue NAME [LENGTH]        durable; LENGTH messages at most
 *     rabbitmq_tool PORT dead NAME QUEUE            durable; what is rejected goes to QUEUE
 *     rabbitmq_tool PORT quorum NAME
 *     rabbitmq_tool PORT exchange NAME QUEUE KEY [TYPE]    durable, bound; direct without a type
 *     rabbitmq_tool PORT delete NAME                an exchange
 *     rabbitmq_tool PORT drop NAME                  a queue
 *     rabbitmq_tool PORT count QUEUE                prints how many messages are ready
 *     rabbitmq_tool PORT publish EXCHANGE KEY
 *     rabbitmq_tool PORT read QUEUE
 *
 * `publish` reads a line for each message, parted by blanks: content type, message id, payload
 * (hexadecimal), and headers as NAME=KIND:VALUE, where the kind is that of AMQP: S, l, T, t, or V
 * for nothing. "-" is no content type and no id. It prints the number of the message, from 1, when
 * it is confirmed.
 *
 * `read` prints a line for each message, parted by blanks: its delivery mode, the routing key, the
 * payload, the content type and message id as headers, and each header, name=value; keys, payloads
 * and values in hexadecimal digits, "-" for none. The value of a header that is no text is its
 * kind.
 */
#define _GNU_SOURCE                    /* getline, strtok_r */
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

static amqp_table_entry_t text_entry(const char *name, const char *text)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(name),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value = {.bytes = amqp_cstring_bytes(text)}}};
}

static void make_queue(amqp_connection_state_t connection, const char *name,
                       amqp_table_entry_t *entries, int count)
{
    amqp_table_t arguments = {.num_entries = count, .entries = entries};

    amqp_queue_declare(connection, CHANNEL, amqp_cstring_bytes(name), 0, 1, 0, 0, arguments);
    check(connection, "no queue");
}

static void make_queue_with_length(amqp_connection_state_t connection, const char *name,
                                   const char *length)
{
    amqp_table_entry_t entries[] = {
        {.key = amqp_cstring_bytes("x-max-length"),
         .value = {.kind = AMQP_FIELD_KIND_I64,
                   .value = {.i64 = length ? strtoll(length, NULL, 10) : 0}}},
        text_entry("x-overflow", "reject-publish"),
    };

    make_queue(connection, name, entries, length ? 2 : 0);
}

static void make_queue_with_dead(amqp_connection_state_t connection, const char *name,
                                 const char *dead)
{
    amqp_table_entry_t entries[] = {text_entry("x-dead-letter-exchange", ""),
                                    text_entry("x-dead-letter-routing-key", dead)};

    make_queue(connection, name, entries, 2);
}

static void count_messages(amqp_connection_state_t connection, const char *queue)
{
    const amqp_queue_declare_ok_t *declared = amqp_queue_declare(
        connection, CHANNEL, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);

    check(connection, "no queue");
    printf("%u\n", declared->message_count);
}

static void make_exchange(amqp_connection_state_t connection, char *names[])
{
    amqp_exchange_declare(connection, CHANNEL, amqp_cstring_bytes(names[0]),
                          amqp_cstring_bytes(names[3] ? names[3] : "direct"), 0, 1, 0, 0,
                          amqp_empty_table);
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

        printf(" %.*s=", (int)entry->key.len, (const char *)entry->key.bytes);
        if (entry->value.kind == AMQP_FIELD_KIND_UTF8)
            print_hex(entry->value.value.bytes);
        else
            printf("%02x", entry->value.kind);
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

static amqp_bytes_t read_hex(char *text)
{
    amqp_bytes_t bytes = {.len = strlen(text) / 2, .bytes = text};

    for (size_t i = 0; i < bytes.len; i++) {
        const char digits[] = {text[2 * i], text[2 * i + 1], '\0'};

        text[i] = (char)strtoul(digits, NULL, 16);
    }
    return bytes;
}

/* Reads NAME=KIND:VALUE. */
static amqp_table_entry_t read_header(char *text)
{
    char *kind = strchr(text, '=');
    amqp_table_entry_t entry;

    if (!kind || !kind[1] || kind[2] != ':')
        fail("no header");
    *kind++ = '\0';
    entry = text_entry(text, kind + 2);
    entry.value.kind = (uint8_t)*kind;
    if (*kind == AMQP_FIELD_KIND_BOOLEAN)
        entry.value.value.boolean = kind[2] == '1';
    else if (*kind != AMQP_FIELD_KIND_UTF8)
        entry.value.value.i64 = strtoll(kind + 2, NULL, 10);
    return entry;
}

static void publish_line(amqp_connection_state_t connection, char *names[], char *line)
{
    amqp_table_entry_t entries[100];
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG,
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
        .headers = {.entries = entries},
    };
    char *rest = NULL, *type = strtok_r(line, " \n", &rest), *id = strtok_r(NULL, " \n", &rest),
         *body = strtok_r(NULL, " \n", &rest);

    if (!body)
        fail("no message");
    if (strcmp(type, "-") != 0)
        properties._flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
    if (strcmp(id, "-") != 0)
        properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
    properties.content_type = amqp_cstring_bytes(type);
    properties.message_id = amqp_cstring_bytes(id);
    for (char *word; (word = strtok_r(NULL, " \n", &rest)) && properties.headers.num_entries < 100;)
        entries[properties.headers.num_entries++] = read_header(word);
    if (amqp_basic_publish(connection, CHANNEL, amqp_cstring_bytes(names[0]),
                           amqp_cstring_bytes(names[1]), 0, 0, &properties,
                           strcmp(body, "-") == 0 ? amqp_empty_bytes : read_hex(body)) !=
        AMQP_STATUS_OK)
        fail("not published");
}

static void publish_all(amqp_connection_state_t connection, char *names[])
{
    uint64_t published = 0, confirmed = 0;
    char *line = NULL;
    size_t size = 0;

    amqp_confirm_select(connection, CHANNEL);
    check(connection, "no confirms");
    for (; getline(&line, &size, stdin) > 0; published++)
        publish_line(connection, names, line);
    free(line);
    while (confirmed < published) {
        amqp_frame_t frame;
        amqp_maybe_release_buffers(connection);
        if (amqp_simple_wait_frame(connection, &frame) != AMQP_STATUS_OK)
            fail("the connection broke");
        if (frame.frame_type != AMQP_FRAME_METHOD)
            continue;
        if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
            fail("not confirmed");
        const amqp_basic_ack_t *ack = frame.payload.method.decoded;
        /* Several at once are those until this one that have no confirm of their own. */
        if (!ack->multiple)
            confirmed++;
        else
            confirmed = ack->delivery_tag;
        printf(ack->multiple ? "-%llu\n" : "%llu\n", (unsigned long long)ack->delivery_tag);
        fflush(stdout);
    }
}

int main(int argc, char *argv[])
{
    if (argc < 4)
        fail("PORT queue|dead|quorum|exchange|delete|drop|count|publish|read NAME ...");
    amqp_connection_state_t connection = open_connection((int)strtol(argv[1], NULL, 10));
    if (strcmp(argv[2], "queue") == 0) {
        make_queue_with_length(connection, argv[3], argc > 4 ? argv[4] : NULL);
    } else if (strcmp(argv[2], "dead") == 0 && argc == 5) {
        make_queue_with_dead(connection, argv[3], argv[4]);
    } else if (strcmp(argv[2], "quorum") == 0) {
        make_queue(connection, argv[3],
                   (amqp_table_entry_t[]){text_entry("x-queue-type", "quorum")}, 1);
    } else if (strcmp(argv[2], "count") == 0) {
        count_messages(connection, argv[3]);
    } else if (strcmp(argv[2], "publish") == 0 && argc == 5) {
        publish_all(connection, argv + 3);
    } else if (strcmp(argv[2], "exchange") == 0 && argc >= 6) {
        make_exchange(connection, argv + 3);
    } else if (strcmp(argv[2], "delete") == 0) {
        amqp_exchange_delete(connection, CHANNEL, amqp_cstring_bytes(argv[3]), 0);
        check(connection, "not deleted");
    } else if (strcmp(argv[2], "drop") == 0) {
        amqp_queue_delete(connection, CHANNEL, amqp_cstring_bytes(argv[3]), 0, 0);
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
