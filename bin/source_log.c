/* source_log.c - starts sources, and logs how they stand; see source_log.h. */
#include "source_log.h"

enum error_code source_log_check_target(void *node, struct bytes tenant, struct bytes text,
                                        const struct target *target, struct error *ret_error)
{
    return node_check_target(node, tenant, text, target, ret_error);
}

static void source_log_get_limits(void *api, struct bytes tenant, struct tenant_limits *limits)
{
    api_tenant_limits(api, tenant, limits);
}

enum error_code source_log_check(const struct config *config, struct error *ret_error)
{
    struct error cause;
    const enum error_code code = sources_check_settings(config->sources, &cause);

    if (code)
        return error_set(ret_error, code, "sources: %s", cause.text);
    if (*config->sources && config_is_cluster(config) && !*config->cluster_listen)
        return error_set(ret_error, ERROR_INVALID,
                         "sources: a node of a cluster that reads them needs cluster_listen");
    return ERROR_NONE;
}

enum error_code source_log_start(struct source_log *log, const struct api_options *options,
                                 struct api *api, struct error *ret_error)
{
    const struct sources_options sources = {.config = options->config,
                                            .metrics = options->metrics,
                                            .rows = {.node = options->node,
                                                     .config = options->config,
                                                     .target_check = options->target_check,
                                                     .target_context = options->target_context,
                                                     .tenant_limits = source_log_get_limits,
                                                     .limits_context = api}};

    return sources_start(&sources, &log->sources, ret_error);
}

/* Logs what was refused since the last call. */
static void source_log_refused(struct source_logged *before, const struct source_status *status,
                               const struct event_log *to)
{
    struct event_log_line line;

    if (status->refused == before->refused)
        return;
    event_log_begin(&line, to, EVENT_LOG_WARN, "source_refused");
    event_log_text(&line, "source", status->name);
    event_log_number(&line, "count", status->refused - before->refused);
    event_log_text(&line, "last", status->problem);
    event_log_end(&line);
    before->refused = status->refused;
}

void source_log_write(struct source_log *log, const struct event_log *to)
{
    struct source_status status;

    for (size_t i = 0; source_get_status(log->sources, i, &status); i++) {
        struct source_logged *before = &log->of[i];
        struct event_log_line line;

        source_log_refused(before, &status, to);
        before->is_still = before->is_still && (status.is_reading || status.tries);
        if (status.is_reading && before->reads != status.reads)
            event_log_begin(&line, to, EVENT_LOG_INFO, "source_read");
        else if (!status.is_reading && !before->is_still && status.tries)
            event_log_begin(&line, to, EVENT_LOG_WARN, "source_still");
        else
            continue;
        before->reads = status.reads;
        before->is_still = !status.is_reading;
        event_log_text(&line, "source", status.name);
        if (!status.is_reading)
            event_log_text(&line, "cause", status.cause);
        event_log_end(&line);
    }
}
