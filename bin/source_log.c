/* source_log.c - starts sources, and logs how they stand; see source_log.h. */
#include "source_log.h"

static enum error_code source_log_check_target(void *node, struct bytes tenant, struct bytes text,
                                               const struct target *target, struct error *ret_error)
{
    return node_check_target(node, tenant, text, target, ret_error);
}

static void source_log_get_limits(void *api, struct bytes tenant, struct tenant_limits *limits)
{
    api_tenant_limits(api, tenant, limits);
}

enum error_code source_log_start(const struct config *config, struct metrics *metrics,
                                 struct node *node, struct api *api, struct sources **ret_sources,
                                 struct error *ret_error)
{
    const struct sources_options options = {.config = config,
                                            .metrics = metrics,
                                            .rows = {.node = node,
                                                     .config = config,
                                                     .target_check = source_log_check_target,
                                                     .target_context = node,
                                                     .tenant_limits = source_log_get_limits,
                                                     .limits_context = api}};

    return sources_start(&options, ret_sources, ret_error);
}

void source_log_write(const struct event_log *log, struct sources *sources,
                      struct source_log *logged)
{
    struct source_status status;

    for (size_t i = 0; source_get_status(sources, i, &status); i++) {
        struct source_logged *before = &logged->of[i];
        struct event_log_line line;

        if (status.is_reading && before->reads != status.reads)
            event_log_begin(&line, log, EVENT_LOG_INFO, "source_read");
        else if (!status.is_reading && *status.cause && !before->is_still && status.tries)
            event_log_begin(&line, log, EVENT_LOG_WARN, "source_still");
        else
            continue;
        *before = (struct source_logged){status.reads, !status.is_reading};
        event_log_text(&line, "source", status.name);
        if (!status.is_reading)
            event_log_text(&line, "cause", status.cause);
        event_log_end(&line);
    }
}
