/* cluster_topics.c - makes and checks what carries the log of a cluster: topics, or a table. */
#include "steps.h"

#include "node/node_cluster_log.h"

#include <inttypes.h>
#include <stdio.h>

enum { CLUSTER_TOPICS_RIGHT = 0, CLUSTER_TOPICS_WRONG = 1, CLUSTER_TOPICS_USAGE = 2 };

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
    struct cluster_log_options options = node_cluster_log_options(config);
    struct cluster_log_report report;
    struct error error = {.text = ""};

    options.waits = cluster_topics_print;

    if (!config_is_cluster(config)) {
        fprintf(stderr, "tickwheeld: --cluster-create needs cluster_log or cluster_brokers\n");
        return CLUSTER_TOPICS_USAGE;
    }
    if (cluster_log_create(&options, &report, &error)) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        return CLUSTER_TOPICS_WRONG;
    }
    printf("The cluster %s %s: id %016" PRIx64 ",\n%s.\n", options.name,
           report.is_founded ? "is made" : "was there, and is right", report.cluster, report.text);
    if (*report.warning)
        fprintf(stderr, "tickwheeld: warning: %s\n", report.warning);
    return fflush(stdout) == 0 ? CLUSTER_TOPICS_RIGHT : CLUSTER_TOPICS_WRONG;
}

int cluster_topics_change_secret(const struct config *config)
{
    const struct cluster_log_options options = node_cluster_log_options(config);
    struct error error = {.text = ""};

    if (!config_is_cluster(config) || !*config->cluster_secret) {
        fprintf(stderr, "tickwheeld: --cluster-change-secret needs cluster_secret, and cluster_log "
                        "or cluster_brokers\n");
        return CLUSTER_TOPICS_USAGE;
    }
    if (cluster_log_change_secret(&options, &error)) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        return CLUSTER_TOPICS_WRONG;
    }
    printf("The cluster %s has this secret now: nodes without it are refused.\n", options.name);
    return fflush(stdout) == 0 ? CLUSTER_TOPICS_RIGHT : CLUSTER_TOPICS_WRONG;
}

enum error_code cluster_topics_check(const struct config *config, const struct event_log *log,
                                     struct error *ret_error)
{
    struct cluster_log_options options = node_cluster_log_options(config);
    struct cluster_log_report report;

    options.waits = cluster_topics_log;
    options.context = log;
    const enum error_code code = cluster_log_check(&options, &report, ret_error);

    if (code)
        return code;
    struct event_log_line line;
    char id[17];
    snprintf(id, sizeof(id), "%016" PRIx64, report.cluster);
    event_log_begin(&line, log, *report.warning ? EVENT_LOG_WARN : EVENT_LOG_INFO, "cluster");
    event_log_text(&line, "name", config->cluster_name);
    event_log_text(&line, "id", id);
    event_log_number(&line, "node", config->cluster_node_id);
    event_log_text(&line, "log", report.text);
    if (*report.warning)
        event_log_text(&line, "warning", report.warning);
    event_log_end(&line);
    return ERROR_NONE;
}
