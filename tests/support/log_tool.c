/*
 * log_tool.c - for the tests of a cluster's log: makes its topics, appends to it, and reads it.
 *
 *     log_tool create BROKERS NAME PARTITIONS
 *     log_tool append BROKERS TOPIC PARTITION
 *     log_tool read BROKERS TOPIC PARTITION
 *
 * `create` prints the id of the cluster, the count of brokers and of replicas, "founded" or
 * "checked", and the warning. `append` appends a record, and the next one when that is answered,
 * until its standard input ends; it prints "begun N" and then "landed N OFFSET MS" or
 * "doubt N MS", MS being how long it took. `read` prints a line for each record: its offset and its
 * bytes, which are N.
 */
#include "cluster/kafka/topics_kafka.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { APPEND_TIMEOUT_MS = 4000, READ_TIMEOUT_MS = 60000 };

static void stop_if(enum error_code code, const struct error *error)
{
    if (!code)
        return;
    fprintf(stderr, "log_tool: %s\n", error->text);
    exit(1);
}

static void create(const char *brokers, const char *name, const char *count)
{
    const struct topics_kafka_options options = {
        .brokers = brokers, .name = name, .partition_count = (uint16_t)strtoul(count, NULL, 10)};
    struct topics_kafka_report report;
    struct error error;

    stop_if(topics_kafka_create(&options, &report, &error), &error);
    printf("%016" PRIx64 " %u %u %s %s\n", report.cluster, report.broker_count,
           report.replica_count, report.is_founded ? "founded" : "checked", report.warning);
}

static struct log *open_log(const char *brokers, const char *topic, const char *partition)
{
    const struct log_kafka_options options = {
        .brokers = brokers,
        .topic = topic,
        .partition = (uint16_t)strtoul(partition, NULL, 10),
        .append_timeout_ms = APPEND_TIMEOUT_MS,
    };
    struct log *log = NULL;
    struct error error;

    stop_if(log_kafka_open(&options, &log, &error), &error);
    return log;
}

static bool has_input_ended(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};

    return poll(&input, 1, 0) > 0;
}

static void append(struct log *log)
{
    for (uint64_t ticket = 1; !has_input_ended(); ticket++) {
        const struct instant begun = instant_now();
        char text[24];
        struct log_event event;
        struct error error;

        snprintf(text, sizeof(text), "%" PRIu64, ticket);
        printf("begun %s\n", text);
        fflush(stdout);
        stop_if(log_append(log, ticket, bytes_of(text), &error), &error);
        while (log_wait(log, APPEND_TIMEOUT_MS, &event) != LOG_LANDED && event.kind != LOG_FAILED)
            ;
        const uint64_t took_ms = instant_since_ns(begun, instant_now()) / 1000000;
        if (event.kind == LOG_LANDED)
            printf("landed %s %" PRIu64 " %" PRIu64 "\n", text, event.offset, took_ms);
        else
            printf("doubt %s %" PRIu64 "\n", text, took_ms);
        fflush(stdout);
    }
}

static void read_all(struct log *log)
{
    struct instant until = instant_add_ms(instant_now(), READ_TIMEOUT_MS);
    struct error error = {.text = "the end is not reached"};
    struct log_event event;

    stop_if(log_follow(log, 0, &error), &error);
    while (log_wait(log, READ_TIMEOUT_MS, &event) != LOG_END) {
        if (event.kind == LOG_RECORD)
            printf("%" PRIu64 " %.*s\n", event.offset, (int)event.bytes.size, event.bytes.data);
        stop_if(event.kind == LOG_LOST || instant_now().ns > until.ns ? ERROR_IO : ERROR_NONE,
                &error);
    }
}

int main(int argc, char *argv[])
{
    if (argc == 5 && strcmp(argv[1], "create") == 0) {
        create(argv[2], argv[3], argv[4]);
    } else if (argc == 5 && strcmp(argv[1], "append") == 0) {
        struct log *log = open_log(argv[2], argv[3], argv[4]);
        append(log);
        log_close(log);
    } else if (argc == 5 && strcmp(argv[1], "read") == 0) {
        struct log *log = open_log(argv[2], argv[3], argv[4]);
        read_all(log);
        log_close(log);
    } else {
        fprintf(stderr, "log_tool.c says how to use this\n");
        return 2;
    }
    return 0;
}
