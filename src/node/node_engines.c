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
    options.budget = node->budget;
    options.wake = partition_wake;
    options.wake_context = &node->partitions[partition];
    options.target_rate = engines_rate_part(node, partition, config->target_rate_max);
    options.catch_up_rate = engines_rate_part(node, partition, config->catch_up_rate_max);
    options.history_max = engines_part(node, partition, HISTORY_MAX);
    options.retain_ms = config->retain_ms;
    options.dead_retain_ms = config->dead_retain_ms;
    options.dead_bytes_max = config->dead_bytes_max / count;
    options.watermark_interval_ms = config->watermark_interval_ms;
    options.second_scan_ms = SECOND_SCAN_MS;
    options.ends_pace_ms = *config->cluster_brokers ? CLUSTER_ENDS_PACE_MS : 0;
    options.seed = seed;
    options.zones = node_zones_used(node);
    options.tenant_counts = &node->counts.tenants;
    options.is_watched = feed_is_watched(node->feed);
    return options;
}

/* Reads each partition's meta record and writes it back with the next epoch. So the ids and
 * deliveries of this process differ from those of earlier ones. */
static enum error_code engines_begin_epochs(struct node *node, struct storage_batch *batches,
                                            struct error *ret_error)
{
    struct storage_batch **pointers = calloc(node->partition_count, sizeof(struct storage_batch *));

    if (!pointers)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    enum error_code code = ERROR_NONE;
    for (uint16_t i = 0; i < node->partition_count && code == ERROR_NONE; i++) {
        batches[i].partition = i;
        pointers[i] = &batches[i];
        code = storage_load_meta(node->disk.storage, i, &batches[i].meta, ret_error);
        if (code == ERROR_NONE && batches[i].meta.epoch++ >= TIMER_EPOCH_MAX)
            code = error_set(ret_error, ERROR_INVALID, "the data folder was opened too often");
        if (code == ERROR_NONE)
            code =
                storage_load_tenant_counts(node->disk.storage, i, &node->counts.tenants, ret_error);
        if (code == ERROR_NONE)
            atomic_fetch_add(&node->counts.pending_all, batches[i].meta.pending);
    }
    if (code == ERROR_NONE)
        code = storage_commit(node->disk.storage, pointers, node->partition_count, ret_error);
    free(pointers);
    return code;
}

enum error_code node_start_engines(struct node *node, struct error *ret_error)
{
    struct storage_batch *batches = calloc(node->partition_count, sizeof(*batches));

    if (!batches)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    enum error_code code = engines_begin_epochs(node, batches, ret_error);
    uint64_t seed;
    if (code == ERROR_NONE && entropy_u64(&seed) != ERROR_NONE)
        code = error_set(ret_error, ERROR_IO, "the system gives no entropy");
    for (uint16_t i = 0; i < node->partition_count && code == ERROR_NONE; i++) {
        struct engine_options options = node_engine_options(node, i, seed + i);

        node->partitions[i].engine = engine_create(&options, &batches[i].meta, wall_now());
        if (node->partitions[i].engine)
            shard_add(&node->shards.all[i % node->shards.count], &node->partitions[i]);
        else
            code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    }
    free(batches);
    return code;
}
