/* file_limit.c - divides the limit of open files between clients, webhooks and the storage. */
#include "steps.h"

#include "sys/process.h"

/* Files reserved for the storage, its log, the listening sockets, and connections beyond
 * connections_max, which are open until they are refused. */
enum { OTHER_FILES = 2048 };

/* Returns the part of `room` that `wanted` gets, in proportion to `all`; at least 1. */
static uint32_t share(uint64_t room, uint64_t wanted, uint64_t all)
{
    uint64_t part = room * wanted / all;

    return part > 0 ? (uint32_t)part : 1;
}

void file_limit_fit(struct config *config, const struct event_log *log)
{
    uint64_t connections = (uint64_t)config->connections_max + config->webhook_connections_max;
    uint64_t wanted = connections + OTHER_FILES;
    uint64_t limit = process_raise_file_limit(wanted);
    uint64_t others = limit / 2 < OTHER_FILES ? limit / 2 : OTHER_FILES;

    if (limit >= wanted)
        return;
    config->connections_max = share(limit - others, config->connections_max, connections);
    config->webhook_connections_max =
        share(limit - others, config->webhook_connections_max, connections);

    struct event_log_line line;
    event_log_begin(&line, log, EVENT_LOG_WARN, "few_files");
    event_log_number(&line, "limit", limit);
    event_log_number(&line, "wanted", wanted);
    event_log_number(&line, "connections_max", config->connections_max);
    event_log_number(&line, "webhook_connections_max", config->webhook_connections_max);
    event_log_text(&line, "hint", "raise the limit of open files (ulimit -n, LimitNOFILE=)");
    event_log_end(&line);
}
