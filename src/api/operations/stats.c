/* stats.c - the main figures of the daemon, from its metrics; of a cluster those of all nodes. */
#include "api/core/call.h"

#include "api/core/tally.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "ops/stats.h"
#include "sys/clock.h"
#include "sys/process.h"

/* Appends a quantile in seconds; nothing if it is beyond the last bucket. */
static void stats_append_quantile(const uint64_t *buckets, const char *name, double quantile,
                                  struct buffer *out)
{
    const uint64_t us = metrics_bucket_quantile_us(buckets, quantile);

    if (us == UINT64_MAX)
        return;
    json_put_name(out, name);
    buffer_printf(out, "%llu.%06llu", (unsigned long long)(us / 1000000),
                  (unsigned long long)(us % 1000000));
}

static void stats_append_lateness(const uint64_t *numbers, struct buffer *out)
{
    static const char *const names[] = {
#define X(id, name) name,
        STATS_STAGE_LIST(X)
#undef X
    };

    json_open(out, "lateness", '{');
    for (size_t i = 0; i < STATS_STAGE_COUNT; i++) {
        const uint64_t *buckets = stats_buckets(numbers, (enum stats_stage)i);
        uint64_t count = 0;

        for (size_t j = 0; j < METRICS_BUCKET_COUNT; j++)
            count += buckets[j];
        json_open(out, names[i], '{');
        json_put_number(out, "count", count);
        stats_append_quantile(buckets, "p50", 0.5, out);
        stats_append_quantile(buckets, "p99", 0.99, out);
        json_close(out, '}');
    }
    json_close(out, '}');
}

/* Adds a node's figures. A node of another version may have fewer or more. */
static void stats_add(const struct survey *survey, uint64_t numbers[STATS_COUNT])
{
    for (size_t i = 0; i < STATS_COUNT && i < survey->number_count; i++)
        numbers[i] += survey->numbers[i];
}

static void stats_finish(struct node_tally *tally)
{
    const struct metrics *metrics = tally->call->api->options.metrics;
    uint64_t numbers[STATS_COUNT] = {0};
    struct buffer body;

    for (size_t i = 0; i < tally->part_count; i++)
        stats_add(&tally->parts[i].survey, numbers);
    buffer_init(&body);
    json_open(&body, NULL, '{');
    rfc3339_put(&body, "now", wall_now());
    json_put_flag(&body, "ready", metrics_get(metrics, METRIC_READY));
    json_put_flag(&body, "maintenance", metrics_get(metrics, METRIC_MAINTENANCE));
#define X(id, name) json_put_number(&body, name, numbers[STATS_##id]);
    STATS_LIST(X)
#undef X
    call_put_node(tally->call, &body);
    json_put_number(&body, "disk_bytes", metrics_get(metrics, METRIC_DISK_BYTES));
    json_put_number(&body, "disk_free_bytes", metrics_get(metrics, METRIC_DISK_FREE_BYTES));
    json_put_number(&body, "memory_bytes", process_memory_bytes());
    stats_append_lateness(numbers, &body);
    json_close(&body, '}');
    call_answer_json(tally->call, 200, &body);
}

/* The survey of this node updates its metrics. */
void stats_get(struct call *call)
{
    tally_ask(call, SURVEY_STATS, (struct bytes){0}, 0, NULL, stats_finish);
}
