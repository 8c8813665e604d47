/* cluster_log.c - the logs of a cluster on Kafka or PostgreSQL; see cluster_log.h. */
#include "cluster/cluster_log.h"

#include "cluster/kafka/topics_kafka.h"
#include "cluster/postgres/tables_postgres.h"
#include "log/kafka/log_kafka_once.h"
#include "log/postgres/log_postgres_once.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CLUSTER_LOG_NAME_SIZE = 80,
    ONCE_SETTLE_MS = 5000, /* time limit for the brokers to accept the messages of a transaction */
};

struct cluster_log_client {
    struct cluster_log_options options;
    struct log_kafka_client *kafka;       /* NULL on PostgreSQL */
    struct log_postgres_client *postgres; /* NULL on Kafka */
    char log_topic[CLUSTER_LOG_NAME_SIZE], control_topic[CLUSTER_LOG_NAME_SIZE];
};

static bool cluster_log_is_postgres(const struct cluster_log_options *options)
{
    return *options->uri;
}

/* ---- making and checking ---- */

static struct topics_kafka_options cluster_log_topics(const struct cluster_log_options *options)
{
    return (struct topics_kafka_options){
        .brokers = options->brokers,
        .name = options->name,
        .partition_count = options->partition_count,
        .replica_count = options->replica_count,
        .secret = options->secret,
        .waits = options->waits,
        .context = options->context,
        .stops = options->stops,
    };
}

static struct tables_postgres_options cluster_log_tables(const struct cluster_log_options *options)
{
    return (struct tables_postgres_options){
        .uri = options->uri,
        .name = options->name,
        .partition_count = options->partition_count,
        .durability = options->durability == CLUSTER_LOG_SERVER ? TABLES_POSTGRES_SERVER
                                                                : TABLES_POSTGRES_REPLICATED,
        .secret = options->secret,
        .waits = options->waits,
        .context = options->context,
        .stops = options->stops,
    };
}

static void cluster_log_tell_topics(const struct cluster_log_options *options,
                                    const struct topics_kafka_report *report,
                                    struct cluster_log_report *ret_report)
{
    *ret_report =
        (struct cluster_log_report){.cluster = report->cluster, .is_founded = report->is_founded};
    snprintf(ret_report->text, sizeof(ret_report->text),
             "topics %.64s.log with %u partitions and %.64s.control, %u replicas of each on %u "
             "brokers",
             options->name, options->partition_count, options->name, report->replica_count,
             report->broker_count);
    memcpy(ret_report->warning, report->warning, sizeof(ret_report->warning));
}

static void cluster_log_tell_tables(const struct cluster_log_options *options,
                                    const struct tables_postgres_report *report,
                                    struct cluster_log_report *ret_report)
{
    *ret_report =
        (struct cluster_log_report){.cluster = report->cluster, .is_founded = report->is_founded};
    snprintf(ret_report->text, sizeof(ret_report->text),
             "table %.60s_log with %u partitions on PostgreSQL %.30s; what is acknowledged is "
             "%.120s",
             options->name, options->partition_count, report->server, report->means);
    memcpy(ret_report->warning, report->warning, sizeof(ret_report->warning));
}

enum cluster_log_step { CLUSTER_LOG_CREATE, CLUSTER_LOG_CHECK };

static enum error_code cluster_log_run(const struct cluster_log_options *options,
                                       enum cluster_log_step step,
                                       struct cluster_log_report *ret_report,
                                       struct error *ret_error)
{
    enum error_code code;

    if (cluster_log_is_postgres(options)) {
        const struct tables_postgres_options tables = cluster_log_tables(options);
        struct tables_postgres_report report;

        code = step == CLUSTER_LOG_CREATE ? tables_postgres_create(&tables, &report, ret_error)
                                          : tables_postgres_check(&tables, &report, ret_error);
        if (!code)
            cluster_log_tell_tables(options, &report, ret_report);
    } else {
        const struct topics_kafka_options topics = cluster_log_topics(options);
        struct topics_kafka_report report;

        code = step == CLUSTER_LOG_CREATE ? topics_kafka_create(&topics, &report, ret_error)
                                          : topics_kafka_check(&topics, &report, ret_error);
        if (!code)
            cluster_log_tell_topics(options, &report, ret_report);
    }
    return code;
}

enum error_code cluster_log_create(const struct cluster_log_options *options,
                                   struct cluster_log_report *ret_report, struct error *ret_error)
{
    return cluster_log_run(options, CLUSTER_LOG_CREATE, ret_report, ret_error);
}

enum error_code cluster_log_check(const struct cluster_log_options *options,
                                  struct cluster_log_report *ret_report, struct error *ret_error)
{
    return cluster_log_run(options, CLUSTER_LOG_CHECK, ret_report, ret_error);
}

enum error_code cluster_log_identify(const struct cluster_log_options *options,
                                     uint64_t *ret_cluster, struct founding *ret_founding,
                                     struct error *ret_error)
{
    if (!cluster_log_is_postgres(options)) {
        const struct topics_kafka_options topics = cluster_log_topics(options);

        return topics_kafka_identify(&topics, ret_cluster, ret_founding, ret_error);
    }
    const struct tables_postgres_options tables = cluster_log_tables(options);
    struct tables_postgres_report report;
    const enum error_code code = tables_postgres_check(&tables, &report, ret_error);
    if (!code) {
        *ret_cluster = report.cluster;
        *ret_founding = report.founding;
    }
    return code;
}

enum error_code cluster_log_change_secret(const struct cluster_log_options *options,
                                          struct error *ret_error)
{
    const struct topics_kafka_options topics = cluster_log_topics(options);
    const struct tables_postgres_options tables = cluster_log_tables(options);

    return cluster_log_is_postgres(options) ? tables_postgres_change_secret(&tables, ret_error)
                                            : topics_kafka_change_secret(&topics, ret_error);
}

/* ---- the logs ---- */

enum error_code cluster_log_client_open(const struct cluster_log_options *options,
                                        struct cluster_log_client **ret_client,
                                        struct error *ret_error)
{
    const struct log_kafka_options kafka = {.brokers = options->brokers,
                                            .append_timeout_ms = options->append_timeout_ms};
    const struct log_postgres_options postgres = {.uri = options->uri,
                                                  .name = options->name,
                                                  .append_timeout_ms = options->append_timeout_ms,
                                                  .must_replicate =
                                                      options->durability != CLUSTER_LOG_SERVER};
    struct cluster_log_client *client = calloc(1, sizeof(*client));

    if (!client)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    client->options = *options;
    snprintf(client->log_topic, sizeof(client->log_topic), "%s.log", options->name);
    snprintf(client->control_topic, sizeof(client->control_topic), "%s.control", options->name);
    const enum error_code code =
        cluster_log_is_postgres(options)
            ? log_postgres_client_open(&postgres, &client->postgres, ret_error)
            : log_kafka_client_open(&kafka, &client->kafka, ret_error);
    if (code)
        free(client);
    else
        *ret_client = client;
    return code;
}

void cluster_log_client_close(struct cluster_log_client *client)
{
    if (!client)
        return;
    log_kafka_client_close(client->kafka);
    log_postgres_client_close(client->postgres);
    free(client);
}

int cluster_log_client_fd(const struct cluster_log_client *client)
{
    return client->kafka ? log_kafka_client_fd(client->kafka) : -1;
}

void cluster_log_client_poll(struct cluster_log_client *client)
{
    if (client->kafka)
        log_kafka_client_poll(client->kafka);
}

static void cluster_log_kafka(struct cluster_log_client *client, uint32_t partition,
                              struct log_kafka_options *ret_options)
{
    const bool is_control = partition == CLUSTER_LOG_CONTROL;

    *ret_options = (struct log_kafka_options){
        .brokers = client->options.brokers,
        .topic = is_control ? client->control_topic : client->log_topic,
        .partition = is_control ? 0 : (uint16_t)partition,
        .append_timeout_ms = client->options.append_timeout_ms,
        .client = client->kafka,
    };
}

enum error_code cluster_log_open(struct cluster_log_client *client, uint32_t partition,
                                 uint64_t lost_ms, struct log **ret_log, struct error *ret_error)
{
    const bool is_control = partition == CLUSTER_LOG_CONTROL;
    struct log_kafka_options kafka;

    if (client->postgres)
        return log_postgres_open(client->postgres, is_control ? LOG_POSTGRES_CONTROL : partition,
                                 ret_log, ret_error);
    cluster_log_kafka(client, partition, &kafka);
    kafka.lost_ms = lost_ms;
    return log_kafka_open(&kafka, ret_log, ret_error);
}

enum error_code cluster_log_open_once(struct cluster_log_client *client, uint32_t partition,
                                      struct log *log, uint64_t lease_ms,
                                      struct log_once **ret_once, struct error *ret_error)
{
    struct log_kafka_options kafka;
    char id[CLUSTER_LOG_NAME_SIZE + 12];
    const struct log_kafka_once_options options = {
        .log = &kafka, .id = id, .open_timeout_ms = lease_ms, .settle_timeout_ms = ONCE_SETTLE_MS};

    if (client->postgres)
        return log_postgres_once_open(log, ret_once, ret_error);
    cluster_log_kafka(client, partition, &kafka);
    snprintf(id, sizeof(id), "%s.%u", client->options.name, partition);
    return log_kafka_once_open(&options, ret_once, ret_error);
}
