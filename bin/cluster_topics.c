/* cluster_topics.c - makes and checks the topics of a cluster. */
#include "steps.h"

#include "cluster/kafka/topics_kafka.h"

#include <inttypes.h>
#include <stdio.h>

enum { CLUSTER_TOPICS_RIGHT = 0, CLUSTER_TOPICS_WRONG = 1, CLUSTER_TOPICS_USAGE = 2 };

static struct topics_kafka_options cluster_topics_options(const struct config *config)
{
    return (struct topics_kafka_options){
        .brokers = config->cluster_brokers,
        .name = config->cluster_name,
        .partition_count = (uint16_t)config->partitions,
        .replica_count = config->cluster_replicas,
        .secret = bytes_of(config->cluster_secret),
    };
}

static void cluster_topics_print(const void *context, const char *reason)
{
    (void)context;
    fprintf(stderr, "tickwheeld: waiting: %s\n", reason);
}

static void cluster_topics_log(const void *log, const char *reason)
{
    struct event_log_line line;

    event_log_begin(&line, log, EVENT_LOG_WARN, "cluster_waits");
    event_log_text(&line, "reason", reason);
    event_log_end(&line);
}

int cluster_topics_create(const struct config *config)
{
    struct topics_kafka_options options = cluster_topics_options(config);
    struct topics_kafka_report report;
    struct error error = {.text = ""};

    options.waits = cluster_topics_print;

    if (!*config->cluster_brokers) {
        fprintf(stderr, "tickwheeld: --cluster-create needs cluster_brokers\n");
        return CLUSTER_TOPICS_USAGE;
    }
    if (topics_kafka_create(&options, &report, &error)) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        return CLUSTER_TOPICS_WRONG;
    }
    printf("The cluster %s %s: id %016" PRIx64 ", topics %s.log with %u partitions and "
           "%s.control,\n%u replicas of each on %u brokers.\n",
           options.name, report.is_founded ? "is made" : "was there, and is right", report.cluster,
           options.name, options.partition_count, options.name, report.replica_count,
           report.broker_count);
    if (*report.warning)
        fprintf(stderr, "tickwheeld: warning: %s\n", report.warning);
    return fflush(stdout) == 0 ? CLUSTER_TOPICS_RIGHT : CLUSTER_TOPICS_WRONG;
}

int cluster_topics_change_secret(const struct config *config)
{
    const struct topics_kafka_options options = cluster_topics_options(config);
    struct error error = {.text = ""};

    if (!*config->cluster_brokers || !*config->cluster_secret) {
        fprintf(stderr, "tickwheeld: --cluster-change-secret needs cluster_brokers and "
                        "cluster_secret\n");
        return CLUSTER_TOPICS_USAGE;
    }
    if (topics_kafka_change_secret(&options, &error)) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        return CLUSTER_TOPICS_WRONG;
    }
    printf("The cluster %s has this secret now: nodes without it are refused.\n", options.name);
    return fflush(stdout) == 0 ? CLUSTER_TOPICS_RIGHT : CLUSTER_TOPICS_WRONG;
}

enum error_code cluster_topics_check(const struct config *config, const struct event_log *log,
                                     struct error *ret_error)
{
    struct topics_kafka_options options = cluster_topics_options(config);
    struct topics_kafka_report report;

    options.waits = cluster_topics_log;
    options.context = log;
    const enum error_code code = topics_kafka_check(&options, &report, ret_error);

    if (code)
        return code;
    struct event_log_line line;
    char id[17];
    snprintf(id, sizeof(id), "%016" PRIx64, report.cluster);
    event_log_begin(&line, log, *report.warning ? EVENT_LOG_WARN : EVENT_LOG_INFO, "cluster");
    event_log_text(&line, "name", config->cluster_name);
    event_log_text(&line, "id", id);
    event_log_number(&line, "node", config->cluster_node_id);
    event_log_number(&line, "brokers", report.broker_count);
    event_log_number(&line, "replicas", report.replica_count);
    if (*report.warning)
        event_log_text(&line, "warning", report.warning);
    event_log_end(&line);
    return ERROR_NONE;
}
