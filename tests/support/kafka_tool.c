/*
 * kafka_tool.c - for the tests of Kafka: makes a topic, reads the messages of one, deletes records
 * or all of it, and plays a broker that fails.
 *
 *     kafka_tool create SERVERS TOPIC PARTITIONS [replicas=1] [name=value ...]
 *     kafka_tool read SERVERS TOPIC
 *     kafka_tool leaders SERVERS TOPIC
 *     kafka_tool trim SERVERS TOPIC PARTITION
 *     kafka_tool remove SERVERS TOPIC
 *     kafka_tool mock TOPIC PARTITIONS
 *
 * `read` prints a line for each committed message, parted by blanks: the broker's time in ms, the
 * partition, the key, the payload and then each header as name=value; keys, payloads and values in
 * hexadecimal digits, "-" for none.
 *
 * `leaders` prints a line for each partition: its number, the id of its leader, -1 for none, and
 * how many replicas are in sync.
 *
 * `trim` deletes all records that the partition has by then, `remove` the topic.
 *
 * `mock` is librdkafka's own broker, in memory. It prints its address, and then obeys the lines of
 * its standard input until that ends: "fail CODE[:MS] ..." answers the next requests that bring
 * messages with these error codes of Kafka, one each, after so many milliseconds; it prints "ok".
 */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS  20000
#define PRODUCE  0 /* the number of that request in Kafka's protocol */
#define LINE_MAX 4096

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "kafka_tool: %s: %s\n", what, why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK)
        fail(name, text);
}

static rd_kafka_t *open_client(rd_kafka_type_t type, const char *servers)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    set(conf, "bootstrap.servers", servers);
    if (type == RD_KAFKA_CONSUMER) {
        set(conf, "group.id", "kafka_tool");
        set(conf, "enable.auto.commit", "false");
        set(conf, "isolation.level", "read_committed");
        set(conf, "enable.partition.eof", "true");
    }
    char text[256];
    rd_kafka_t *client = rd_kafka_new(type, conf, text, sizeof(text));
    if (!client)
        fail("librdkafka", text);
    return client;
}

/* The answer to a request of an administrator, or the end. */
static rd_kafka_event_t *await_done(rd_kafka_queue_t *queue, const char *what)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, WAIT_MS);

    if (!event)
        fail(what, "no answer");
    if (rd_kafka_event_error(event))
        fail(what, rd_kafka_event_error_string(event));
    return event;
}

static void check_created(rd_kafka_event_t *event)
{
    size_t count;
    const rd_kafka_topic_result_t **topics =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    for (size_t i = 0; i < count; i++)
        if (rd_kafka_topic_result_error(topics[i]))
            fail("create", rd_kafka_topic_result_error_string(topics[i]));
}

static void create(const char *servers, int count, char *arguments[])
{
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, servers);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    static const char replicas[] = "replicas=";
    const bool is_copied = count > 2 && strncmp(arguments[2], replicas, sizeof(replicas) - 1) == 0;
    char text[256];

    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(
        arguments[0], (int)strtol(arguments[1], NULL, 10),
        is_copied ? (int)strtol(arguments[2] + sizeof(replicas) - 1, NULL, 10) : 1, text,
        sizeof(text));
    if (!topic)
        fail("create", text);
    for (int i = is_copied ? 3 : 2; i < count; i++) {
        char *equals = strchr(arguments[i], '=');

        if (!equals)
            fail("create", arguments[i]);
        *equals = '\0';
        rd_kafka_NewTopic_set_config(topic, arguments[i], equals + 1);
    }
    rd_kafka_CreateTopics(client, &topic, 1, NULL, queue);
    rd_kafka_event_t *event = await_done(queue, "create");
    check_created(event);
    rd_kafka_event_destroy(event);
    rd_kafka_NewTopic_destroy(topic);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(client);
}

static void trim(const char *servers, const char *topic, const char *partition)
{
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, servers);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);

    rd_kafka_topic_partition_list_add(list, topic, (int32_t)strtol(partition, NULL, 10))->offset =
        RD_KAFKA_OFFSET_END;
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(list);
    rd_kafka_DeleteRecords(client, &request, 1, NULL, queue);
    rd_kafka_event_t *event = await_done(queue, "trim");
    const rd_kafka_topic_partition_list_t *done =
        rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event));
    if (done->elems[0].err)
        fail("trim", rd_kafka_err2str(done->elems[0].err));
    printf("%lld\n", (long long)done->elems[0].offset);
    rd_kafka_event_destroy(event);
    rd_kafka_DeleteRecords_destroy(request);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(client);
}

static void remove_topic(const char *servers, const char *topic)
{
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, servers);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_DeleteTopic_t *request = rd_kafka_DeleteTopic_new(topic);
    size_t count;

    rd_kafka_DeleteTopics(client, &request, 1, NULL, queue);
    rd_kafka_event_t *event = await_done(queue, "remove");
    const rd_kafka_topic_result_t **topics =
        rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &count);
    for (size_t i = 0; i < count; i++)
        if (rd_kafka_topic_result_error(topics[i]))
            fail("remove", rd_kafka_topic_result_error_string(topics[i]));
    rd_kafka_event_destroy(event);
    rd_kafka_DeleteTopic_destroy(request);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(client);
}

static void print_hex(const void *data, size_t size)
{
    const unsigned char *bytes = data;

    if (!data) {
        printf("-");
        return;
    }
    for (size_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
}

static void print_message(const rd_kafka_message_t *message)
{
    rd_kafka_timestamp_type_t type;

    printf("%lld %d ", (long long)rd_kafka_message_timestamp(message, &type),
           (int)message->partition);
    print_hex(message->key, message->key_len);
    printf(" ");
    print_hex(message->payload, message->len);
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t size;
    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
        for (size_t i = 0; !rd_kafka_header_get_all(headers, i, &name, &value, &size); i++) {
            printf(" %s=", name);
            print_hex(value, size);
        }
    printf("\n");
}

static void read_all(const char *servers, const char *topic)
{
    rd_kafka_t *client = open_client(RD_KAFKA_CONSUMER, servers);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    const struct rd_kafka_metadata *metadata;

    if (rd_kafka_metadata(client, 0, handle, &metadata, WAIT_MS) || metadata->topic_cnt != 1)
        fail("read", "no such topic");
    int left = metadata->topics[0].partition_cnt; /* whose end was not told */
    for (int i = 0; i < left; i++)
        rd_kafka_topic_partition_list_add(list, topic, metadata->topics[0].partitions[i].id)
            ->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(client, list);
    while (left > 0) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, WAIT_MS);

        if (!message)
            fail("read", "nothing comes");
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            left--;
        else if (message->err)
            fail("read", rd_kafka_message_errstr(message));
        else
            print_message(message);
        rd_kafka_message_destroy(message);
    }
    rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_topic_destroy(handle);
    rd_kafka_consumer_close(client);
    rd_kafka_destroy(client);
}

static void push_errors(rd_kafka_mock_cluster_t *cluster, const char *line)
{
    if (strncmp(line, "fail ", 5) != 0)
        fail("no such order", line);
    char *end;
    for (const char *at = line + 5; *at && *at != '\n'; at = end) {
        long code = strtol(at, &end, 10);
        long delay_ms = *end == ':' ? strtol(end + 1, &end, 10) : 0;
        rd_kafka_mock_broker_push_request_error_rtts(cluster, 1, PRODUCE, 1,
                                                     (rd_kafka_resp_err_t)code, (int)delay_ms);
    }
}

static void mock(const char *topic, const char *partitions)
{
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, "");
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(client, 1);
    char line[LINE_MAX];

    if (!cluster ||
        rd_kafka_mock_topic_create(cluster, topic, (int)strtol(partitions, NULL, 10), 1))
        fail("mock", "no cluster");
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        push_errors(cluster, line);
        printf("ok\n");
        fflush(stdout);
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(client);
}

static void print_leaders(const char *servers, const char *name)
{
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, servers);
    const struct rd_kafka_metadata *metadata;
    const rd_kafka_resp_err_t failure = rd_kafka_metadata(client, 1, NULL, &metadata, WAIT_MS);

    if (failure)
        fail("leaders", rd_kafka_err2str(failure));
    for (int i = 0; i < metadata->topic_cnt; i++)
        if (strcmp(metadata->topics[i].topic, name) == 0)
            for (int k = 0; k < metadata->topics[i].partition_cnt; k++)
                printf("%d %d %d\n", metadata->topics[i].partitions[k].id,
                       metadata->topics[i].partitions[k].leader,
                       metadata->topics[i].partitions[k].isr_cnt);
    rd_kafka_metadata_destroy(metadata);
    rd_kafka_destroy(client);
}

int main(int argc, char *argv[])
{
    if (argc >= 5 && strcmp(argv[1], "create") == 0)
        create(argv[2], argc - 3, argv + 3);
    else if (argc == 4 && strcmp(argv[1], "read") == 0)
        read_all(argv[2], argv[3]);
    else if (argc == 4 && strcmp(argv[1], "leaders") == 0)
        print_leaders(argv[2], argv[3]);
    else if (argc == 5 && strcmp(argv[1], "trim") == 0)
        trim(argv[2], argv[3], argv[4]);
    else if (argc == 4 && strcmp(argv[1], "remove") == 0)
        remove_topic(argv[2], argv[3]);
    else if (argc == 4 && strcmp(argv[1], "mock") == 0)
        mock(argv[2], argv[3]);
    else
        fail("usage", "kafka_tool.c says how to use this");
    return 0;
}
