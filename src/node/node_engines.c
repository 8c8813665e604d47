/* node_engines.c - how the engines of a node are made; see node_engines.h. */
#include "node/node_engines.h"

#include "node/node_state.h"
#include "node/node_zones.h"
#include "sys/clock.h"
#include "sys/entropy.h"

#include <stdlib.h>

/* Number of recent deliveries whose lateness is explained, at about 100 bytes each. */
#define HISTORY_MAX 65536

/* Delay that collects final records of a cluster into one append, which costs the brokers
 * milliseconds of processor. After a crash the webhooks of this interval are repeated, besides
 * those in flight. */
#define CLUSTER_ENDS_PACE_MS 200

/* Interval of the scans for timers that the engine lost. */
#define SECOND_SCAN_MS 60000

/* Returns one partition's part of a number; all parts add up to the number. */
static uint64_t engines_part(const struct node *node, uint16_t partition, uint64_t number)
{
    return number / node->partition_count + (partition < number % node->partition_count);
}

/* Returns one partition's part of a rate, in thousandths: at least 1, because there are fewer
 * partitions than that. 0 means unlimited. */
static uint64_t engines_rate_part(const struct node *node, uint16_t partition, uint32_t rate)
{
    return engines_part(node, partition, (uint64_t)rate * 1000);
}

enum error_code node_create_budget(struct node *node, struct error *ret_error)
{
    const struct config *config = node->config;
    const struct budget_limits limits = {.webhooks = config->deliveries_max,
                                         .each = {
                                             [BUDGET_TARGET] = config->target_deliveries_max,
                                             [BUDGET_CONNECTION] = config->broker_inflight_max,
                                             [BUDGET_LEASES] = config->queue_leases_max,
                                             [BUDGET_FLOW] = BUDGET_ALL_PLACES,
                                         }};
    uint64_t seed;

    if (entropy_u64(&seed) != ERROR_NONE)
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    node->budget = budget_create(&limits, node->partition_count, seed);
    return node->budget ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
}

struct engine_options node_engine_options(struct node *node, uint16_t partition, uint64_t seed)
{
    const struct config *config = node->config;
    struct engine_options options = ENGINE_OPTIONS_DEFAULT;
    uint64_t count = node->partition_count;

    options.partition = partition;
    options.window_ms = config->window_ms;
    options.near_bytes_max = config->near_bytes_max / count;
    options.is_divided = *config->tokens_file;
    options.pending_max = config->pending_max;
    options.pending_all = &node->counts.pending_all;
    options.pending_others = &node->counts.pending_others;
    options.is_held = &node->holds.is_maintained;
    options.pauses = &node->holds.pauses;
    options.definitions = &node->holds.definitions;
    options.budget = node->budget;
    options.wake = partition_wake;
    options.wake_context = &node->partitions[partition];
    options.target_rate = engines_rate_part(node, partition, config->target_rate_max);
    options.catch_up_rate = engines_rate_part(node, partition, config->catch_up_rate_max);
    options.history_max = engines_part(node, partition, HISTORY_MAX);
    options.retain_ms = config->retain_ms;
    options.dead_retain_ms = config->dead_retain_ms;
    options.ack_timeout_ms = config->ack_timeout_ms;
    options.dead_bytes_max = config->dead_bytes_max / count;
    options.watermark_interval_ms = config->watermark_interval_ms;
    options.second_scan_ms = SECOND_SCAN_MS;
    /* A virtual clock would stop for each scan and look: those at the start go beyond its end. */
    if (clock_is_virtual())
        options.second_scan_ms = options.look_ms = 2 * CLOCK_VIRTUAL_MS_MAX;
    options.ends_pace_ms = config_is_cluster(config) ? CLUSTER_ENDS_PACE_MS : 0;
    options.seed = seed;
    options.zones = node_zones_used(node);
    options.calendars = &node->calendars.board;
    options.tenant_counts = &node->counts.tenants;
    options.is_watched = feed_is_watched(node->feed);
    return options;
}
