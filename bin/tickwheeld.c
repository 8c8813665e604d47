/* tickwheeld.c - the daemon: reads the settings, starts the parts, runs until a signal stops it. */
#include "api/api.h"
#include "api/core/site.h"
#include "calendar/rfc3339.h"
#include "ops/event_log.h"
#include "source_log.h"
#include "steps.h"
#include "delivery/brokers.h"
#include "delivery/signatures.h"
#include "first_key.h"
#include "given_up_log.h"
#include "sealed_log.h"
#include "target_log.h"
#include "http/server.h"
#include "node/node.h"
#include "ops/config_load.h"
#include "ops/metrics_text.h"
#include "sys/clock.h"
#include "sys/notify.h"
#include "sys/output.h"
#include "sys/process.h"
#include "sys/signals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Results of main, and of functions whose result it returns. */
enum exit_code {
    EXIT_CLEAN = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
};

/* Intervals, in milliseconds, at which the health of the service is polled: while it recovers, and
 * later while something changes. */
enum {
    RECOVERING_POLL_MS = 5,
    RUNNING_POLL_MS = 1000,
    FIRST_KEY_POLL_MS = 50,
    NEWS_PAUSE_MS = 200, /* interval between two looks while each of them finds something new */
    ZONES_LOOK_MS = 60000,
};

struct service {
    const struct config *config;
    struct event_log log;
    struct given_up_log given_up_log;
    struct target_log target_log;
    struct notify notify;
    struct signals signals;
    struct metrics *metrics;
    struct passing passing; /* sends requests to other nodes of the cluster */
    struct node *node;
    struct api *api;
    struct first_key first_key;
    struct source_log source_log;
    bool has_auto_number; /* cluster_node_id is auto */
};

static int fail(const struct service *service, const char *event, const struct error *error)
{
    struct event_log_line line;

    event_log_begin(&line, &service->log, EVENT_LOG_ERROR, event);
    event_log_text(&line, "cause", error->text);
    event_log_end(&line);
    return EXIT_FAILED;
}

/* Formats the address as host:port of a URL, with an IPv6 address in brackets. */
static void format_address(const struct service *service, char ret_text[80])
{
    const char *host = service->config->listen_address;
    bool is_ipv6 = strchr(host, ':') != NULL;

    snprintf(ret_text, 80, "%s%s%s:%u", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "",
             api_port(service->api));
}

static void print_banner(const struct service *service, const char *address)
{
    const struct config *config = service->config;
    const char *scheme = *config->tls_certificate ? "https" : "http";
    /* The command line is in the same folder as the daemon, which may have been started by its
     * path. */
    const char *name = program_invocation_name, *slash = strrchr(name, '/');
    int folder_size = slash ? (int)(slash + 1 - name) : 0;

    struct buffer text;
    buffer_init(&text);
    buffer_printf(&text, "\n  tickwheeld %s listens on %s://%s and stores its timers in %s\n",
                  TICKWHEEL_VERSION, scheme, address, config->data_folder);
    buffer_printf(&text, "  The dashboard is at %s://%s/ui\n", scheme, address);
    if (clock_is_virtual()) {
        char now[RFC3339_TEXT_SIZE];

        rfc3339_format(wall_now(), now);
        buffer_printf(&text,
                      "  The clock is virtual and stands at %s until: tickwheel clock advance 3d\n",
                      now);
    }
    if (*config->webhook_allow)
        buffer_printf(&text, "  Webhooks may also call these private networks: %s\n",
                      config->webhook_allow);
    buffer_printf(&text,
                  "\n  To try it, receive webhooks in a second terminal:\n\n"
                  "      %.*stickwheel receive\n\n"
                  "  and schedule a timer in a third:\n\n"
                  "      curl -i %s://%s/v1/timers%s -H 'Content-Type: application/json' \\\n"
                  "           -d '{\"after\": \"3s\", \"target\": \"http://127.0.0.1:9000/hello\", "
                  "\"payload\": {\"order\": 42}}'\n\n"
                  "  Ctrl-C stops the daemon. After kill -9, no acknowledged timer is lost.\n\n",
                  folder_size, name, scheme, address,
                  *config->tokens_file ? " -H 'Authorization: Bearer TOKEN'" : "");
    /* written without waiting, so that a stopped terminal does not delay the start */
    struct output output;
    output_open(&output, STDOUT_FILENO);
    for (size_t at = 0; at < text.size;) {
        const size_t left = text.size - at;
        const size_t size = left < OUTPUT_ATOMIC_MAX ? left : OUTPUT_ATOMIC_MAX;
        const ssize_t written = output_write(&output, text.data + at, size);
        if (written <= 0)
            break;
        at += (size_t)written;
    }
    output_close(&output);
    buffer_deinit(&text);
}

static void log_started(const struct service *service, const char *address)
{
    struct event_log_line line;

    event_log_begin(&line, &service->log, EVENT_LOG_INFO, "started");
    event_log_text(&line, "listen", address);
    event_log_text(&line, "version", TICKWHEEL_VERSION);
    event_log_number(&line, "pid", (uint64_t)getpid());
    event_log_text(&line, "data", service->config->data_folder);
    event_log_number(&line, "partitions", service->config->partitions);
    event_log_text(&line, "webhook_allow", service->config->webhook_allow);
    event_log_text(&line, "webhooks", *service->config->webhook_secret ? "signed" : "unsigned");
    event_log_text(&line, "access", *service->config->tokens_file ? "tokens" : "open");
    event_log_text(&line, "tls", *service->config->tls_certificate ? "on" : "off");
    if (clock_is_virtual())
        event_log_text(&line, "clock", "virtual");
    event_log_end(&line);
    if (*service->config->tls_certificate ||
        http_address_is_loopback(service->config->listen_address))
        return;
    event_log_begin(&line, &service->log, EVENT_LOG_WARN, "unencrypted");
    event_log_text(&line, "hint",
                   "tokens and payloads travel unencrypted: set tls_certificate and tls_key, "
                   "or use a proxy with TLS");
    event_log_end(&line);
}

/* Logs the result of a reload. After a failure the old contents stay in use. */
static void log_reload(const struct service *service, const char *what, enum error_code code,
                       const struct error *error)
{
    struct event_log_line line;

    event_log_begin(&line, &service->log, code ? EVENT_LOG_ERROR : EVENT_LOG_INFO,
                    code ? "reload_failed" : "reloaded");
    event_log_text(&line, "what", what);
    if (code) {
        event_log_text(&line, "cause", error->text);
        event_log_text(&line, "hint", "the old contents stay in use");
    }
    event_log_end(&line);
}

/* Replaces the connections to other nodes. The new ones read cluster_ca_file again. */
static void reload_peer_identity(struct service *service)
{
    struct error error = {.text = "out of memory"};
    struct tls_identity *identity = NULL;
    const enum error_code code = secrets_load_peer_identity(service->config, &identity, &error);

    if (identity)
        passing_set_identity(&service->passing, identity);
    tls_identity_release(identity);
    log_reload(service, "cluster_tls_certificate", code, &error);
}

static void log_sender_reload(void *context, const char *what, enum error_code code,
                              const struct error *error)
{
    const struct service *service = context;
    const struct config *config = service->config;
    const bool is_of_files = strcmp(what, "webhooks") == 0
                                 ? *config->webhook_secret_file || *config->webhook_ca_file ||
                                       *config->webhook_token_keys_file
                                 : *config->broker_connections_file != '\0';

    if (code || is_of_files)
        log_reload(service, what, code, error);
}

/* Takes the secret of the cluster from the reloaded settings. The secret with which the cluster was
 * founded stays valid too, so that nodes can be changed one after the other. After the cluster was
 * founded again, a reload ends that. */
static void reload_cluster_secret(struct service *service, const struct config *fresh)
{
    const struct bytes secret = bytes_of(fresh->cluster_secret);
    struct error error = {.text = "out of memory"};
    enum error_code code = cluster_check(fresh, &error);
    bool is_founded = false;

    if (!code)
        code = node_set_secret(service->node, secret, &is_founded);
    if (!code)
        code = passing_set_secret(&service->passing, secret, is_founded);
    log_reload(service, "cluster_secret_file", code, &error);
}

/* Reloads the secrets of webhooks, their certificate authorities, the connections to brokers, and
 * the secret of the cluster. */
static void reload_senders(struct service *service)
{
    const struct config *config = service->config;
    struct error error = {.text = "out of memory"};
    struct config *fresh = malloc(sizeof(*fresh));
    const enum error_code code =
        fresh ? config_reload_secrets(config, fresh, &error) : ERROR_NO_MEMORY;

    if (code)
        log_reload(service, "secrets", code, &error);
    else
        node_reload(service->node, fresh, log_sender_reload, service);
    if (!code)
        sealed_log_write(&service->log, service->node);
    if (!code && *config->cluster_listen && *config->cluster_secret_file)
        reload_cluster_secret(service, fresh);
    if (fresh)
        explicit_bzero(fresh, sizeof(*fresh));
    free(fresh);
}

/* Reads the calendars of holidays again. */
static void reload_calendars(struct service *service)
{
    struct error error;

    if (*service->config->calendars)
        log_reload(service, "calendars", node_reload_calendars(service->node, &error), &error);
}

/* Reads the named targets of the configuration again. */
static void reload_named_targets(struct service *service)
{
    struct error error = {.text = "out of memory"};

    if (*service->config->named_targets_file)
        log_reload(service, "named_targets_file", node_reload_named_targets(service->node, &error),
                   &error);
}

/* Reloads tokens and certificates independently: a broken certificate must not keep a token from
 * being revoked. */
static void reload(struct service *service)
{
    struct error error = {.text = "out of memory"};
    struct tokens *tokens = NULL;
    enum error_code code = secrets_load_tokens(service->config, &tokens, &error);

    if (tokens) {
        code = api_replace_tokens(service->api, tokens);
        if (code)
            tokens_free(tokens);
    }
    log_reload(service, *service->config->tokens_file ? "tokens_file" : "nothing", code, &error);
    reload_named_targets(service); /* before the senders, which say which secrets do not open */
    reload_senders(service);
    reload_calendars(service);
    if (*service->config->cluster_listen && *service->config->cluster_tls_certificate)
        reload_peer_identity(service);
    if (!*service->config->tls_certificate)
        return;

    struct tls_identity *identity = NULL;
    code = secrets_load_identity(service->config, &identity, &error);
    if (identity)
        api_replace_identity(service->api, identity);
    tls_identity_release(identity);
    log_reload(service, "tls_certificate", code, &error);
}

static void log_health(const struct service *service, const struct node_health *health,
                       struct instant started)
{
    struct event_log_line line;

    if (health->is_ready) {
        event_log_begin(&line, &service->log, EVENT_LOG_INFO, "ready");
        event_log_number(&line, "after_ms", instant_since_ns(started, instant_now()) / 1000000);
    } else {
        event_log_begin(&line, &service->log, EVENT_LOG_WARN, "unready");
        event_log_text(&line, "reason", health->reason);
    }
    event_log_end(&line);
    if (health->is_ready)
        sealed_log_write(&service->log, service->node);
}

/* Warns of a maintenance that an earlier run, or the daemon that made the backup, has begun. */
static void log_maintenance(const struct service *service)
{
    char note[NODE_NOTE_SIZE_MAX + 1];
    struct event_log_line line;
    size_t size;

    if (!node_maintenance(service->node, note, &size))
        return;
    note[size] = '\0';
    event_log_begin(&line, &service->log, EVENT_LOG_WARN, "maintenance");
    event_log_text(&line, "note", note);
    event_log_text(&line, "hint", "no delivery begins until: tickwheel maintenance end");
    event_log_end(&line);
}

static void log_target(void *context, const struct target_status *status)
{
    struct service *service = context;

    target_log_write(&service->target_log, status, instant_now());
}

/* State of a broker connection, as it was logged last. */
struct broker_logged {
    uint64_t connects;
    bool is_down;
};

/* Logs when a broker becomes reachable or unreachable, but not each attempt. */
static void log_brokers(const struct service *service, struct broker_logged logged[BROKERS_MAX])
{
    struct broker_status status;

    for (size_t i = 0; node_broker_status(service->node, i, &status); i++) {
        struct event_log_line line;
        if (status.is_up && (logged[i].is_down || logged[i].connects != status.connects))
            event_log_begin(&line, &service->log, EVENT_LOG_INFO, "broker_connected");
        else if (!status.is_up && *status.cause && !logged[i].is_down)
            event_log_begin(&line, &service->log, EVENT_LOG_WARN, "broker_unreachable");
        else
            continue;
        logged[i] = (struct broker_logged){status.connects, !status.is_up};
        event_log_text(&line, "broker", status.name);
        event_log_text(&line, "kind", status.scheme);
        if (!status.is_up)
            event_log_text(&line, "cause", status.cause);
        else if (*status.lost)
            event_log_text(&line, "lost", status.lost);
        event_log_end(&line);
    }
}

static void add_given_up(void *context, struct given_up *given_up)
{
    struct service *service = context;

    given_up_log_add(&service->given_up_log, given_up);
}

/* Logs damage that the storage found when it was opened, and each new cause of a failure. */
static void log_damage(const struct service *service, struct node_damage *logged)
{
    struct node_damage damage;

    node_damage(service->node, &damage);
    struct event_log_line line;
    if (strcmp(damage.found, logged->found) != 0) {
        event_log_begin(&line, &service->log, EVENT_LOG_WARN, "storage_damaged");
        event_log_text(&line, "found", damage.found);
        event_log_end(&line);
    }
    if (strcmp(damage.failed.text, logged->failed.text) != 0) {
        event_log_begin(&line, &service->log, EVENT_LOG_ERROR, "storage_failed");
        event_log_text(&line, "cause", damage.failed.text);
        event_log_end(&line);
    }
    *logged = damage;
}

/* Logs how many dead letters were dropped since the last look. */
static void log_dead_dropped(const struct service *service, uint64_t *logged)
{
    const uint64_t dropped = node_dead_dropped(service->node);

    if (dropped > *logged) {
        struct event_log_line line;
        event_log_begin(&line, &service->log, EVENT_LOG_WARN, "dead_letters_dropped");
        event_log_number(&line, "count", dropped - *logged);
        event_log_number(&line, "dead_bytes_max", service->config->dead_bytes_max);
        event_log_end(&line);
    }
    *logged = dropped; /* if the count is lower, a partition was opened again and counts from 0 */
}

/* What was logged about deliveries, or about spans, that were dropped. */
struct dropped_logged {
    uint64_t count;
    struct instant at;
};

#define DROPPED_LOGGED_NS UINT64_C(60000000000) /* minimum interval of these lines */

/* Logs, at most once a minute, how many were dropped since the last line. */
static void log_dropped(const struct service *service, const char *event, uint64_t dropped,
                        const struct error *cause, struct dropped_logged *logged)
{
    const struct instant now = instant_now();
    struct event_log_line line;

    if (dropped <= logged->count ||
        (logged->count && instant_since_ns(logged->at, now) < DROPPED_LOGGED_NS))
        return;
    event_log_begin(&line, &service->log, EVENT_LOG_WARN, event);
    event_log_number(&line, "count", dropped - logged->count);
    event_log_text(&line, "cause", cause->text);
    event_log_end(&line);
    *logged = (struct dropped_logged){dropped, now};
}

/* Logs damage and failures of the history file. Each text is logged once. */
static void log_history_trouble(const struct service *service, struct error *logged)
{
    struct event_log_line line;
    struct error trouble;

    node_history_trouble(service->node, &trouble);
    if (strcmp(trouble.text, logged->text) == 0)
        return;
    event_log_begin(&line, &service->log, EVENT_LOG_WARN, "history_failed");
    event_log_text(&line, "cause", trouble.text);
    event_log_end(&line);
    *logged = trouble;
}

/* Logs how many timers should have fired over ten minutes ago and were overlooked by their engine,
 * which is a bug. */
static void log_missed_found(const struct service *service, uint64_t *logged)
{
    const uint64_t found = node_missed_found(service->node);

    if (found > *logged) {
        struct event_log_line line;
        event_log_begin(&line, &service->log, EVENT_LOG_ERROR, "missed_found");
        event_log_number(&line, "count", found - *logged);
        event_log_end(&line);
    }
    *logged = found; /* if the count is lower, a partition was opened again and counts from 0 */
}

/* What is missing and was logged. */
struct missing_logged {
    struct absent_names zones, calendars;
};

static void log_missing_line(const struct service *service, bool is_missing, const char *what,
                             const char *name)
{
    char event[32];
    struct event_log_line line;

    snprintf(event, sizeof(event), "%s_%s", what, is_missing ? "missing" : "back");
    event_log_begin(&line, &service->log, is_missing ? EVENT_LOG_WARN : EVENT_LOG_INFO, event);
    event_log_text(&line, what, name);
    if (is_missing && !strcmp(what, "zone"))
        event_log_text(&line, "folder", service->config->zoneinfo_folder);
    event_log_end(&line);
}

/* Logs each time zone or calendar that timers need and that is not on the machine, and each that is
 * there again or not needed any more. */
static void log_missing(const struct service *service, const char *what,
                        const struct absent_names *missing, struct absent_names *logged)
{
    for (size_t i = 0, k = 0; i < missing->count || k < logged->count;) {
        const int order = i == missing->count  ? 1
                          : k == logged->count ? -1
                                               : strcmp(missing->names[i], logged->names[k]);

        if (order < 0)
            log_missing_line(service, true, what, missing->names[i]);
        else if (order > 0)
            log_missing_line(service, false, what, logged->names[k]);
        i += order <= 0;
        k += order >= 0;
    }
    *logged = *missing;
}

/* Reads changes of the tz database each minute. Returns for how long the next look can wait. */
static uint64_t look_at_zones(const struct service *service, struct instant *looked,
                              struct missing_logged *logged)
{
    struct absent_names missing;
    uint64_t passed_ms = instant_since_ns(*looked, instant_now()) / 1000000;

    if (passed_ms >= ZONES_LOOK_MS) {
        node_refresh_zones(service->node);
        *looked = instant_now();
        passed_ms = 0;
    }
    node_missing_zones(service->node, &missing);
    log_missing(service, "zone", &missing, &logged->zones);
    node_missing_calendars(service->node, &missing);
    log_missing(service, "calendar", &missing, &logged->calendars);
    return ZONES_LOOK_MS - passed_ms;
}

/* Begins planned backups, and logs how they ended. Returns how long the next look may wait. */
static uint64_t look_at_backups(const struct service *service)
{
    const struct node_backup *ended;
    const uint64_t pause_ms = node_backup_look(service->node, wall_machine_now(), &ended);
    struct event_log_line line;

    if (!ended)
        return pause_ms;
    event_log_begin(&line, &service->log, ended->result ? EVENT_LOG_ERROR : EVENT_LOG_INFO,
                    ended->result ? "backup_failed" : "backup_made");
    if (ended->result) {
        event_log_text(&line, "cause", ended->error.text);
    } else {
        event_log_text(&line, "folder", ended->folder);
        event_log_number(&line, "timers", ended->copy.timers);
        event_log_number(&line, "bytes", ended->copy.bytes);
        event_log_number(&line, "deleted", ended->removed);
    }
    event_log_end(&line);
    if (ended->prune_error.code) {
        event_log_begin(&line, &service->log, EVENT_LOG_WARN, "backup_not_deleted");
        event_log_text(&line, "cause", ended->prune_error.text);
        event_log_end(&line);
    }
    return pause_ms;
}

/* Waits for a signal or news of the service, for `pause_ms_max`. Brokers and sources report no
 * news, so with them it waits for at most `pause_ms`. */
static int wait_for_news(struct service *service, uint64_t pause_ms, uint64_t pause_ms_max)
{
    const uint64_t rest_ms = pause_ms < NEWS_PAUSE_MS ? pause_ms : NEWS_PAUSE_MS;
    struct broker_status status;
    int signal = signals_wait(&service->signals, -1, rest_ms);

    if (signal || pause_ms <= NEWS_PAUSE_MS)
        return signal;
    if (pause_ms == RUNNING_POLL_MS && !*service->config->sources &&
        !node_broker_status(service->node, 0, &status))
        pause_ms = pause_ms_max;
    return signals_wait(&service->signals, node_news_fd(service->node), pause_ms);
}

/* True if two reasons differ before their colon. The rest may change each second. */
static bool reason_differs(const char *one, const char *other)
{
    const size_t size = strcspn(one, ":");

    return size != strcspn(other, ":") || memcmp(one, other, size) != 0;
}

/* Reports health to the service manager and the log, and reloads at SIGHUP, until a signal asks to
 * stop. Returns that signal. */
static int run_until_signal(struct service *service, struct instant started)
{
    uint64_t watchdog_ms = notify_watchdog_interval_ms(&service->notify);
    bool was_ready = false, has_started = false, has_key = false;
    char reason_logged[sizeof(((struct node_health *)NULL)->reason)] = "recovering";
    struct broker_logged logged[BROKERS_MAX] = {{0}};
    struct node_damage damage_logged = {.found = ""};
    uint64_t dropped_logged = 0, missed_logged = 0;
    struct dropped_logged deliveries_logged = {0}, spans_logged = {0};
    struct error history_logged = {.text = ""};
    struct missing_logged missing_logged = {.zones = {.count = 0}};
    struct instant zones_looked = instant_now();

    for (;;) {
        uint64_t poll_ms = has_started ? RUNNING_POLL_MS : RECOVERING_POLL_MS;
        struct node_health health;

        node_take_news(service->node);
        node_health(service->node, &health);
        const bool starts = health.is_recovered && !has_started;
        const bool is_news = reason_differs(health.reason, reason_logged);
        if (health.is_ready != was_ready || starts || is_news) {
            log_health(service, &health, started);
            snprintf(reason_logged, sizeof(reason_logged), "%s", health.reason);
        }
        if (starts)
            log_maintenance(service);
        if (starts) /* also if the disk is full, because due timers are still delivered */
            notify_send(&service->notify, "READY=1");
        was_ready = health.is_ready;
        has_started |= starts;
        log_brokers(service, logged);
        source_log_write(&service->source_log, &service->log);
        log_damage(service, &damage_logged);
        log_dead_dropped(service, &dropped_logged);
        struct error cause;
        log_dropped(service, "deliveries_dropped", node_deliveries_failed(service->node, &cause),
                    &cause, &deliveries_logged);
        log_dropped(service, "spans_dropped", node_spans_dropped(service->node, &cause), &cause,
                    &spans_logged);
        log_history_trouble(service, &history_logged);
        log_missed_found(service, &missed_logged);
        given_up_log_write(&service->given_up_log, instant_now());
        if (target_log_write_omitted(&service->target_log, instant_now()) && has_started)
            poll_ms = RUNNING_POLL_MS / 2;
        uint64_t pause_ms = look_at_zones(service, &zones_looked, &missing_logged);
        const uint64_t backup_ms = has_started ? look_at_backups(service) : pause_ms;
        has_key = has_key || (has_started && !first_key_look(&service->first_key, service->config,
                                                             service->node, &service->log));
        if (!has_key && poll_ms > FIRST_KEY_POLL_MS)
            poll_ms = FIRST_KEY_POLL_MS;
        if (backup_ms < pause_ms)
            pause_ms = backup_ms;
        if (watchdog_ms != UINT64_MAX)
            notify_send(&service->notify, "WATCHDOG=1");

        if (watchdog_ms < pause_ms)
            pause_ms = watchdog_ms;
        int signal = wait_for_news(service, pause_ms < poll_ms ? pause_ms : poll_ms, pause_ms);
        if (signal == SIGHUP)
            reload(service);
        else if (signal)
            return signal;
    }
}

static void log_stop(const struct service *service, const char *event, const char *key,
                     const char *value)
{
    const struct metrics *metrics = service->metrics;
    struct event_log_line line;

    event_log_begin(&line, &service->log, EVENT_LOG_INFO, event);
    event_log_text(&line, key, value);
    event_log_number(&line, "created", metrics_get(metrics, METRIC_TIMERS_CREATED));
    event_log_number(&line, "fired", metrics_get(metrics, METRIC_TIMERS_FIRED));
    event_log_number(&line, "cancelled", metrics_get(metrics, METRIC_TIMERS_CANCELLED));
    event_log_number(&line, "dead", metrics_get(metrics, METRIC_TIMERS_DEAD));
    event_log_number(&line, "pending", metrics_get(metrics, METRIC_TIMERS_PENDING));
    event_log_number(&line, "lateness_p99_us",
                     metrics_quantile_us(metrics, HISTOGRAM_DELIVERY_LATENESS, 0.99));
    event_log_end(&line);
}

static int serve(struct service *service, bool wants_banner, struct instant started)
{
    struct api_options options = {
        .config = service->config,
        .metrics = service->metrics,
        .node = service->node,
        .target_check = source_log_check_target,
        .target_context = service->node,
    };
    struct error error = {.text = ""};

    if (secrets_load_tokens(service->config, &options.tokens, &error))
        return fail(service, "start_failed", &error);
    if (secrets_load_identity(service->config, &options.identity, &error)) {
        tokens_free(options.tokens);
        return fail(service, "start_failed", &error);
    }
    enum error_code code = api_start(&options, &service->api, &error);
    tls_identity_release(options.identity);
    if (code)
        return fail(service, "listen_failed", &error);

    char address[80];
    process_let_abort();
    format_address(service, address);
    log_started(service, address);
    if (wants_banner)
        print_banner(service, address);
    code = source_log_start(&service->source_log, &options, service->api, &error);
    int signal = code ? 0 : run_until_signal(service, started);
    notify_send(&service->notify, "STOPPING=1");
    sources_stop(service->source_log.sources);
    node_refresh_metrics(service->node);
    log_stop(service, "stopping", "signal", signal == SIGINT ? "SIGINT" : "SIGTERM");
    api_stop(service->api);
    return code ? fail(service, "start_failed", &error) : EXIT_CLEAN;
}

/* Starts the node, and in a cluster the passing of requests to and from other nodes. */
static enum error_code open_node(struct service *service, struct error *ret_error)
{
    const struct config *config = service->config;
    const struct node_events events = {
        .context = service, .target_changed = log_target, .given_up = add_given_up};
    const struct node_route *route = *config->cluster_listen ? &service->passing.route : NULL;

    passing_init(&service->passing, NULL);
    enum error_code code =
        node_start(config, service->metrics, &events, route, &service->node, ret_error);
    if (code)
        return code;
    if (service->has_auto_number)
        code = cluster_number_keep(config, ret_error);
    if (!code && route)
        code = cluster_open(config, &service->log, &service->passing, service->node, ret_error);
    if (code)
        node_stop(service->node);
    return code;
}

/* Checks the topics of the cluster, and finds the number of the node. */
static enum error_code prepare_cluster(struct service *service, struct config *config,
                                       struct error *ret_error)
{
    const struct event_log *log = &service->log;
    enum error_code code = cluster_topics_check(config, log, ret_error);

    service->has_auto_number = config->cluster_node_id == 0;
    if (!code && service->has_auto_number)
        code = cluster_number_find(config, ret_error);
    if (code || !service->has_auto_number)
        return code;
    struct event_log_line line;
    event_log_begin(&line, log, EVENT_LOG_INFO, "cluster_number");
    event_log_number(&line, "node", config->cluster_node_id);
    event_log_end(&line);
    return code;
}

static int run(struct config *config, bool wants_banner, char *environment[])
{
    struct service service = {.config = config};
    struct instant started = instant_now();
    struct error error = {.text = ""};

    event_log_init(&service.log, stderr,
                   config->log_level == CONFIG_LOG_LEVEL_DEBUG ? EVENT_LOG_DEBUG : EVENT_LOG_INFO,
                   wall_machine_now);
    given_up_log_init(&service.given_up_log, &service.log);
    target_log_init(&service.target_log, &service.log, config->target_breaker_failures);
    notify_init(&service.notify, environment);
    if (signals_open(&service.signals, &error))
        return fail(&service, "start_failed", &error);
    process_return_memory();
    process_catch_abort();
    error_set(&error, ERROR_NO_MEMORY, "out of memory");
    service.metrics = metrics_create(TICKWHEEL_VERSION, wall_machine_now());
    if (!service.metrics || event_log_start(&service.log, service.metrics, &error))
        return fail(&service, "start_failed", &error);
    file_limit_fit(config, &service.log);
    int exit_code;
    if (memory_limit_check(config, &error) || data_folder_check(config->data_folder, &error)) {
        exit_code = fail(&service, "start_failed", &error);
    } else if (clock_start(config, &error)) {
        exit_code = fail(&service, "start_failed", &error);
    } else if (config_is_cluster(config) && prepare_cluster(&service, config, &error)) {
        exit_code = fail(&service, "start_failed", &error);
    } else if (open_node(&service, &error)) {
        exit_code = fail(&service, "start_failed", &error);
    } else {
        exit_code = serve(&service, wants_banner, started);
        passing_close(&service.passing);
        node_stop(service.node);
        given_up_log_write_rest(&service.given_up_log);
        if (exit_code == EXIT_CLEAN)
            log_stop(&service, "stopped", "exit", "clean");
    }
    event_log_stop(&service.log);
    metrics_destroy(service.metrics);
    target_log_deinit(&service.target_log);
    given_up_log_deinit(&service.given_up_log);
    first_key_deinit(&service.first_key);
    signals_close(&service.signals);
    return exit_code;
}

static int print(struct buffer *text)
{
    bool is_printed = !buffer_failed(text) &&
                      fwrite(text->data, 1, text->size, stdout) == text->size &&
                      fflush(stdout) == 0;

    buffer_deinit(text);
    return is_printed ? EXIT_CLEAN : EXIT_FAILED;
}

/* Runs `tickwheeld --make-token TENANT [SCOPES]`. Standard output gets only the token and its line
 * of the tokens file. */
static int make_token(int argc, char *argv[])
{
    unsigned scopes = TOKEN_SCOPE_SCHEDULE | TOKEN_SCOPE_READ;
    struct error error = {.text = "SCOPES is a list of schedule, read, admin and payload, "
                                  "separated by commas"};
    struct buffer line;

    buffer_init(&line);
    if (argc < 3 || argc > 4)
        error_set(&error, ERROR_INVALID, "--make-token takes TENANT and, optionally, SCOPES");
    char token[TOKEN_TEXT_SIZE];
    if (argc < 3 || argc > 4 || (argc == 4 && !token_scopes_parse(bytes_of(argv[3]), &scopes)) ||
        token_make(bytes_of(argv[2]), scopes, token, &line, &error)) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        buffer_deinit(&line);
        return EXIT_USAGE;
    }
    fprintf(stderr, "The token, which cannot be shown again, and the line for the tokens file:\n");
    buffer_append_text(&line, "\n");
    int code = printf("%s\n", token) > 0 ? EXIT_CLEAN : EXIT_FAILED;
    return code == EXIT_CLEAN ? print(&line) : (buffer_deinit(&line), code);
}

/* Runs `tickwheeld --make-webhook-key`. Standard output gets only the two keys. */
static int make_webhook_key(int argc)
{
    struct buffer keys;

    buffer_init(&keys);
    const char *error = argc > 2                    ? "--make-webhook-key takes no argument"
                        : signature_make_key(&keys) ? "the system gives no entropy"
                                                    : NULL;
    if (!error) {
        fprintf(stderr, "The private key for webhook_secret, and the public key for receivers:\n");
        return print(&keys);
    }
    fprintf(stderr, "tickwheeld: %s\n", error);
    buffer_deinit(&keys);
    return EXIT_USAGE;
}

static bool is_cluster_action(enum config_action action)
{
    return action == CONFIG_ACTION_CLUSTER_CREATE || action == CONFIG_ACTION_CLUSTER_SECRET ||
           action == CONFIG_ACTION_CLUSTER_IMPORT;
}

/* Runs the action, and returns its exit code. */
static int run_cluster_action(const struct config_request *request, const struct config *config)
{
    switch (request->action) {
    case CONFIG_ACTION_CLUSTER_CREATE:
        return cluster_topics_create(config);
    case CONFIG_ACTION_CLUSTER_SECRET:
        return cluster_topics_change_secret(config);
    default:
        return cluster_import(config, request->folders, request->folder_count);
    }
}

/* Prints what the action asks for, and returns the exit code. Does nothing and returns -1 for an
 * action that prints nothing. */
static int print_what_is_asked(enum config_action action, const struct config *config)
{
    struct buffer text;

    buffer_init(&text);
    switch (action) {
    case CONFIG_ACTION_HELP:
        config_format_help(&text);
        break;
    case CONFIG_ACTION_VERSION:
        buffer_append_text(&text, "tickwheeld " TICKWHEEL_VERSION "\nbrokers: ");
        brokers_format_backends(broker_backends, &text);
        buffer_append_text(&text, "\n");
        break;
    case CONFIG_ACTION_PRINT:
        config_format(config, &text);
        break;
    case CONFIG_ACTION_CHECK:
        buffer_append_text(&text, "The settings are valid.\n");
        break;
    case CONFIG_ACTION_PRINT_OPENAPI:
        api_format_openapi(&text);
        break;
    case CONFIG_ACTION_PRINT_OPENAPI_STRICT:
        api_format_openapi_strict(&text);
        break;
    case CONFIG_ACTION_PRINT_ROUTES:
        api_format_routes(&text);
        break;
    case CONFIG_ACTION_PRINT_METRICS:
        metrics_format_docs(&text);
        break;
    case CONFIG_ACTION_PRINT_DOCS:
        config_format_docs(&text);
        break;
    case CONFIG_ACTION_PRINT_EXAMPLE:
        config_format_example(&text);
        break;
    case CONFIG_ACTION_RUN:
    case CONFIG_ACTION_CHECK_DATA:
    case CONFIG_ACTION_CHECK_JSON:
    case CONFIG_ACTION_RESTORE:
    case CONFIG_ACTION_CLUSTER_CREATE:
    case CONFIG_ACTION_CLUSTER_SECRET:
    case CONFIG_ACTION_CLUSTER_IMPORT:
        return -1;
    }
    return print(&text);
}

int main(int argc, char *argv[])
{
    if (!process_hold_standard_files())
        return EXIT_FAILED;
    process_settle_files();
    if (argc > 1 && strcmp(argv[1], "--make-token") == 0)
        return make_token(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--make-webhook-key") == 0)
        return make_webhook_key(argc);

    struct config_request request;
    struct config config;
    struct error error;
    enum error_code refused = config_load(argc, argv, environ, &config, &request, &error);
    config_hide_secrets(argc, argv);
    if (refused || clock_allow_loopback(&config, &error) || settings_check(&config, &error)) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        return EXIT_USAGE;
    }
    if (request.action == CONFIG_ACTION_CHECK_DATA)
        return check_data(request.folders[0], CHECK_PRINTS_LINES);
    if (request.action == CONFIG_ACTION_CHECK_JSON)
        return check_data(request.folders[0], CHECK_PRINTS_JSON);
    if (request.action == CONFIG_ACTION_RESTORE)
        return data_folder_restore(request.folders[0], config.data_folder);
    if (is_cluster_action(request.action))
        return run_cluster_action(&request, &config);

    const int printed = print_what_is_asked(request.action, &config);
    if (printed >= 0)
        return printed;
    return run(&config, request.wants_banner || process_is_terminal(STDOUT_FILENO), environ);
}
