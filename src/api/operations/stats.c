/* stats.c - the main figures of the daemon, from its metrics: what a dashboard shows. */
#include "api/operations/service.h"

#include "calendar/rfc3339.h"
#include "sys/clock.h"
#include "sys/process.h"

static const struct {
    const char *name;
    enum metric metric;
} stats_figures[] = {
    {"created", METRIC_TIMERS_CREATED},     {"fired", METRIC_TIMERS_FIRED},
    {"cancelled", METRIC_TIMERS_CANCELLED}, {"dead", METRIC_TIMERS_DEAD},
    {"attempts", METRIC_ATTEMPTS},          {"attempts_failed", METRIC_ATTEMPTS_FAILED},
    {"pending", METRIC_TIMERS_PENDING},     {"in_memory", METRIC_TIMERS_IN_MEMORY},
    {"waiting", METRIC_DELIVERIES_WAITING}, {"in_flight", METRIC_DELIVERIES_INFLIGHT},
    {"leased", METRIC_QUEUE_LEASED},        {"workers", METRIC_QUEUE_WAITING},
    {"dead_letters", METRIC_DEAD_LETTERS},  {"breakers_open", METRIC_BREAKERS_OPEN},
    {"disk_bytes", METRIC_DISK_BYTES},      {"disk_free_bytes", METRIC_DISK_FREE_BYTES},
};

static const struct {
    const char *name;
    enum histogram histogram;
} stats_stages[] = {
    {"schedule", HISTOGRAM_LATENESS_SCHEDULE},
    {"queue", HISTOGRAM_LATENESS_QUEUE},
    {"transfer", HISTOGRAM_LATENESS_TRANSFER},
    {"all", HISTOGRAM_DELIVERY_LATENESS},
};

/* Seconds; nothing beyond the scale. */
static void stats_append_quantile(const struct metrics *metrics, enum histogram histogram,
                                  const char *name, double quantile, struct buffer *out)
{
    const uint64_t us = metrics_quantile_us(metrics, histogram, quantile);

    if (us != UINT64_MAX)
        buffer_printf(out, ",\"%s\":%llu.%06llu", name, (unsigned long long)(us / 1000000),
                      (unsigned long long)(us % 1000000));
}

static void stats_append_lateness(const struct metrics *metrics, struct buffer *out)
{
    buffer_append_text(out, ",\"lateness\":{");
    for (size_t i = 0; i < sizeof(stats_stages) / sizeof(stats_stages[0]); i++) {
        const enum histogram histogram = stats_stages[i].histogram;

        buffer_printf(out, "%s\"%s\":{\"count\":%llu", i ? "," : "", stats_stages[i].name,
                      (unsigned long long)metrics_observed(metrics, histogram));
        stats_append_quantile(metrics, histogram, "p50", 0.5, out);
        stats_append_quantile(metrics, histogram, "p99", 0.99, out);
        buffer_append_text(out, "}");
    }
    buffer_append_text(out, "}");
}

void stats_get(struct call *call)
{
    const struct metrics *metrics = call->api->options.metrics;
    struct buffer body;

    node_refresh_metrics(call->api->options.node);
    buffer_init(&body);
    char now[RFC3339_TEXT_SIZE];
    rfc3339_format(wall_now(), now);
    buffer_printf(&body, "{\"now\":\"%s\",\"ready\":%s,\"maintenance\":%s", now,
                  metrics_get(metrics, METRIC_READY) ? "true" : "false",
                  metrics_get(metrics, METRIC_MAINTENANCE) ? "true" : "false");
    for (size_t i = 0; i < sizeof(stats_figures) / sizeof(stats_figures[0]); i++)
        buffer_printf(&body, ",\"%s\":%llu", stats_figures[i].name,
                      (unsigned long long)metrics_get(metrics, stats_figures[i].metric));
    call_append_node(call, &body);
    buffer_printf(&body, ",\"memory_bytes\":%llu", (unsigned long long)process_memory_bytes());
    stats_append_lateness(metrics, &body);
    buffer_append_text(&body, "}");
    call_answer_json(call, 200, &body);
}
