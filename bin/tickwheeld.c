/* tickwheeld - the timer service: read the settings, wire the parts, run until told to stop. */
#include "api/api.h"
#include "base/log.h"
#include "delivery/guard.h"
#include "delivery/signature.h"
#include "node/node.h"
#include "ops/config.h"
#include "ops/metrics.h"
#include "sys/clock.h"
#include "sys/notify.h"
#include "sys/process.h"
#include "sys/signals.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum exit_code {
    EXIT_CLEAN = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
};

/* How often to look whether the service is ready: often while it recovers, seldom afterwards. */
enum { RECOVERING_POLL_MS = 5, RUNNING_POLL_MS = 1000 };

/* Files that the storage, the log and the listening sockets keep open besides the connections. */
enum { OTHER_FILES = 2048 };

struct service {
    const struct config *config;
    struct log log;
    struct notify notify;
    struct signals signals;
    struct metrics *metrics;
    struct node *node;
    struct api *api;
};

static enum exit_code fail(const struct service *service, const char *event,
                           const struct error *error)
{
    struct log_line line;

    log_begin(&line, &service->log, LOG_LEVEL_ERROR, event);
    log_text(&line, "cause", error->text);
    log_end(&line);
    return EXIT_FAILED;
}

/* host:port as it stands in a URL. */
static void format_address(const struct service *service, char ret_text[80])
{
    const char *host = service->config->listen_address;
    bool is_ipv6 = strchr(host, ':') != NULL;

    snprintf(ret_text, 80, "%s%s%s:%u", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "",
             api_port(service->api));
}

static void greet(const struct service *service, const char *address)
{
    const struct config *config = service->config;

    printf("\n  tickwheeld %s listens on http://%s and keeps its timers in %s\n", TICKWHEEL_VERSION,
           address, config->data_folder);
    if (*config->webhook_allow)
        printf("  Webhooks may also call these private networks: %s\n", config->webhook_allow);
    printf("\n  Try it. See webhooks arrive, in a second terminal:\n\n"
           "      scripts/receive\n\n"
           "  and schedule one, in a third:\n\n"
           "      curl -i http://%s/v1/timers -H 'Content-Type: application/json' \\\n"
           "           -d '{\"after\": \"3s\", \"target\": \"http://127.0.0.1:9000/hello\", "
           "\"payload\": {\"order\": 42}}'\n\n"
           "  Ctrl-C stops it; kill -9 costs nothing that was acknowledged.\n\n",
           address);
    fflush(stdout);
}

static void log_started(const struct service *service, const char *address)
{
    struct log_line line;

    log_begin(&line, &service->log, LOG_LEVEL_INFO, "started");
    log_text(&line, "listen", address);
    log_text(&line, "version", TICKWHEEL_VERSION);
    log_number(&line, "pid", (uint64_t)getpid());
    log_text(&line, "data", service->config->data_folder);
    log_number(&line, "partitions", service->config->partitions);
    log_text(&line, "webhook_allow", service->config->webhook_allow);
    log_text(&line, "webhooks", *service->config->webhook_secret ? "signed" : "unsigned");
    log_end(&line);
}

static void log_health(const struct service *service, const struct node_health *health,
                       struct instant started)
{
    struct log_line line;

    if (health->is_ready) {
        log_begin(&line, &service->log, LOG_LEVEL_INFO, "ready");
        log_number(&line, "after_ms", instant_since_ns(started, instant_now()) / 1000000);
    } else {
        log_begin(&line, &service->log, LOG_LEVEL_WARN, "unready");
        log_text(&line, "reason", health->reason);
    }
    log_end(&line);
}

/* Until a signal comes: keeps the service manager and the log informed. Returns the signal. */
static int attend(const struct service *service, struct instant started)
{
    uint64_t watchdog_ms = notify_watchdog_interval_ms(&service->notify);
    bool was_ready = false, has_been_ready = false;

    for (;;) {
        uint64_t poll_ms = has_been_ready ? RUNNING_POLL_MS : RECOVERING_POLL_MS;
        struct node_health health;
        int signal;

        node_health(service->node, &health);
        if (health.is_ready != was_ready) {
            log_health(service, &health, started);
            if (!has_been_ready)
                notify_send(&service->notify, "READY=1");
            was_ready = health.is_ready;
            has_been_ready = true;
        }
        if (watchdog_ms != UINT64_MAX)
            notify_send(&service->notify, "WATCHDOG=1");
        signal = signals_wait(&service->signals, watchdog_ms < poll_ms ? watchdog_ms : poll_ms);
        if (signal)
            return signal;
    }
}

static void log_stop(const struct service *service, const char *event, const char *key,
                     const char *value)
{
    const struct metrics *metrics = service->metrics;
    struct log_line line;

    log_begin(&line, &service->log, LOG_LEVEL_INFO, event);
    log_text(&line, key, value);
    log_number(&line, "created", metrics_get(metrics, METRIC_TIMERS_CREATED));
    log_number(&line, "fired", metrics_get(metrics, METRIC_TIMERS_FIRED));
    log_number(&line, "cancelled", metrics_get(metrics, METRIC_TIMERS_CANCELLED));
    log_number(&line, "dead", metrics_get(metrics, METRIC_TIMERS_DEAD));
    log_number(&line, "pending", metrics_get(metrics, METRIC_TIMERS_PENDING));
    log_number(&line, "lateness_p99_us",
               metrics_quantile_us(metrics, HISTOGRAM_DELIVERY_LATENESS, 0.99));
    log_end(&line);
}

static bool allows_host(void *node, struct bytes host)
{
    return node_allows_host(node, host);
}

static enum exit_code serve(struct service *service, bool wants_banner, struct instant started)
{
    struct api_options options = {
        .config = service->config,
        .metrics = service->metrics,
        .node = service->node,
        .host_allowed = allows_host,
        .host_context = service->node,
    };
    struct error error = {.text = ""};
    char address[80];
    int signal;

    if (api_start(&options, &service->api, &error))
        return fail(service, "listen_failed", &error);
    format_address(service, address);
    log_started(service, address);
    if (wants_banner)
        greet(service, address);
    signal = attend(service, started);
    notify_send(&service->notify, "STOPPING=1");
    node_refresh_metrics(service->node);
    log_stop(service, "stopping", "signal", signal == SIGINT ? "SIGINT" : "SIGTERM");
    api_stop(service->api);
    return EXIT_CLEAN;
}

/* More connections than files would end in refused connections: say so at the start. */
static void raise_file_limit(const struct service *service)
{
    uint64_t wanted = (uint64_t)service->config->connections_max +
                      service->config->webhook_connections_max + OTHER_FILES;
    uint64_t limit = process_raise_file_limit(wanted);
    struct log_line line;

    if (limit >= wanted)
        return;
    log_begin(&line, &service->log, LOG_LEVEL_WARN, "few_files");
    log_number(&line, "limit", limit);
    log_number(&line, "wanted", wanted);
    log_end(&line);
}

static enum exit_code run(const struct config *config, bool wants_banner, char *environment[])
{
    struct service service = {.config = config};
    struct instant started = instant_now();
    struct error error = {.text = ""};
    enum exit_code exit_code;

    log_init(&service.log, stderr,
             config->log_level == CONFIG_LOG_LEVEL_DEBUG ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO,
             wall_now);
    notify_init(&service.notify, environment);
    if (signals_open(&service.signals, &error))
        return fail(&service, "start_failed", &error);
    raise_file_limit(&service);
    service.metrics = metrics_create(TICKWHEEL_VERSION, wall_now());
    if (!service.metrics) {
        error_set(&error, ERROR_NO_MEMORY, "out of memory");
        exit_code = fail(&service, "start_failed", &error);
    } else if (node_start(config, service.metrics, &service.node, &error)) {
        exit_code = fail(&service, "start_failed", &error);
    } else {
        exit_code = serve(&service, wants_banner, started);
        node_stop(service.node);
        if (exit_code == EXIT_CLEAN)
            log_stop(&service, "stopped", "exit", "clean");
    }
    metrics_destroy(service.metrics);
    signals_close(&service.signals);
    return exit_code;
}

static enum exit_code print(struct buffer *text)
{
    bool is_printed = !buffer_failed(text) &&
                      fwrite(text->data, 1, text->size, stdout) == text->size &&
                      fflush(stdout) == 0;

    buffer_deinit(text);
    return is_printed ? EXIT_CLEAN : EXIT_FAILED;
}

/* What the table of settings cannot judge by itself. */
static enum error_code check(const struct config *config, struct error *ret_error)
{
    struct signature *signature = NULL;
    struct guard guard;
    struct error cause;
    enum error_code code = guard_init(&guard, config->webhook_allow, &cause);

    if (code)
        return error_set(ret_error, code, "webhook_allow: %s", cause.text);
    if (*config->webhook_secret)
        code = signature_create(config->webhook_secret, &signature, &cause);
    signature_destroy(signature);
    return code ? error_set(ret_error, code, "webhook_secret: %s", cause.text) : ERROR_NONE;
}

int main(int argc, char *argv[])
{
    struct config_request request;
    struct config config;
    struct buffer text;
    struct error error;

    if (config_load(argc, argv, environ, &config, &request, &error) || check(&config, &error)) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        return EXIT_USAGE;
    }
    buffer_init(&text);
    switch (request.action) {
    case CONFIG_ACTION_RUN:
        break;
    case CONFIG_ACTION_HELP:
        config_format_help(&text);
        return print(&text);
    case CONFIG_ACTION_VERSION:
        buffer_append_text(&text, "tickwheeld " TICKWHEEL_VERSION "\n");
        return print(&text);
    case CONFIG_ACTION_PRINT:
        config_format(&config, &text);
        return print(&text);
    case CONFIG_ACTION_CHECK:
        buffer_append_text(&text, "The settings are valid.\n");
        return print(&text);
    case CONFIG_ACTION_PRINT_DOCS:
        config_format_docs(&text);
        return print(&text);
    case CONFIG_ACTION_PRINT_EXAMPLE:
        config_format_example(&text);
        return print(&text);
    }
    return run(&config, request.wants_banner || process_is_terminal(STDOUT_FILENO), environ);
}
