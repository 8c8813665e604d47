/* node.c - start and stop in order; see node.h. */
#include "node/node.h"

#include "calendar/zones.h"
#include "node/backup_record.h"
#include "node/node_advance.h"
#include "node/node_cluster.h"
#include "node/node_control.h"
#include "node/node_deliveries.h"
#include "node/node_engines.h"
#include "node/node_figures.h"
#include "node/node_spans.h"
#include "node/node_state.h"
#include "node/queue_board.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { START_MS = 10000 }; /* time limit for the engines of a start */

#define NODE_USER_AGENT "tickwheel/" TICKWHEEL_VERSION

static void node_target_changed(void *context, const struct target_status *status)
{
    struct node *node = context;

    if (node->events.target_changed)
        node->events.target_changed(node->events.context, status);
}

static enum error_code node_create_targets(struct node *node, struct error *ret_error)
{
    const struct config *config = node->config;
    struct targets_options options = {
        .breaker = {config->target_breaker_failures, config->target_breaker_pause_ms,
                    config->target_breaker_pause_max_ms},
        .changed = node_target_changed,
        .context = node,
    };

    if (entropy_u64(&options.seed) != ERROR_NONE)
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    node->targets = targets_create(&options);
    return node->targets ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
}

static enum error_code node_start_senders(struct node *node, struct error *ret_error)
{
    const struct sender_options options = {
        .config = node->config,
        .user_agent = NODE_USER_AGENT,
        .targets = node->targets,
        .definitions = &node->holds.definitions,
        .done = partition_post_outcomes,
        .context = node->partitions,
    };

    return senders_start(&options, &node->senders, ret_error);
}

static void node_free(struct node *node)
{
    node_advance_stop(node->advance);
    node_figures_stop(node);
    node_cluster_free(node);
    for (uint16_t i = 0; i < node->partition_count; i++)
        partition_set_owner(&node->partitions[i], NULL); /* no shard is woken after this */
    if (node->senders)
        senders_stop(node->senders);
    targets_destroy(node->targets);
    delivery_log_stop(node->delivery_log);
    spans_stop(node->spans);
    for (unsigned i = 0; i < node->shards.count; i++)
        shard_deinit(&node->shards.all[i]);
    free(node->shards.all);
    queue_board_destroy(node->board);
    feed_destroy(node->feed);
    for (uint16_t i = 0; i < node->partition_count; i++)
        partition_deinit(&node->partitions[i]);
    free(node->partitions);
    budget_destroy(node->budget);
    node_counts_deinit(&node->counts);
    zones_destroy(node->zones);
    node_log_close(&node->log);
    node_disk_deinit(&node->disk);
    node_report_deinit(&node->report);
    pthread_mutex_destroy(&node->backups.lock);
    node_holds_deinit(&node->holds);
    node_calendars_deinit(&node->calendars);
    free(node);
}

static struct node *node_alloc(const struct config *config, struct metrics *metrics)
{
    struct node *node = calloc(1, sizeof(*node));

    if (!node)
        return NULL;
    node->partitions = calloc(config->partitions, sizeof(*node->partitions));
    if (!node->partitions || !node_report_init(&node->report)) {
        free(node->partitions);
        free(node);
        return NULL;
    }
    if (!node_disk_init(&node->disk, config, metrics, node->partitions, &node->log,
                        &node->report.news)) {
        node_report_deinit(&node->report);
        free(node->partitions);
        free(node);
        return NULL;
    }
    node->config = config;
    node->metrics = metrics;
    node->partition_count = (uint16_t)config->partitions;
    for (uint16_t i = 0; i < node->partition_count; i++)
        partition_init(&node->partitions[i], i);
    node_counts_init(&node->counts, config);
    pthread_mutex_init(&node->backups.lock, NULL);
    node_calendars_init(&node->calendars);
    node_holds_init(&node->holds, shards_wake, &node->shards);
    return node;
}

static unsigned node_count_shards(const struct config *config)
{
    unsigned count = config->shards ? config->shards : process_cores();

    if (count > config->partitions)
        count = config->partitions;
    return count < SHARDS_MAX ? count : SHARDS_MAX;
}

static enum error_code node_create_shards(struct node *node, struct error *ret_error)
{
    const unsigned count = node_count_shards(node->config);
    uint8_t secret[QUEUE_SECRET_SIZE];
    uint64_t seed;

    if (entropy_fill(secret, sizeof(secret)) != ERROR_NONE || entropy_u64(&seed) != ERROR_NONE)
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    node->shards.all = calloc(count, sizeof(*node->shards.all));
    node->board = queue_board_create(count, seed, instant_now());
    node->counts.waiting_queues = census_create(count, NODE_QUEUE_ROWS_MAX, seed);
    node->counts.waiting_tenants = census_create(count, CENSUS_ROWS_MAX, seed);
    bool is_done = node->shards.all && node->board && node->counts.waiting_queues &&
                   node->counts.waiting_tenants;
    while (is_done && node->shards.count < count) {
        node->shards.loops[node->shards.count] = &node->shards.all[node->shards.count].loop;
        is_done =
            shard_init(&node->shards.all[node->shards.count], node, node->shards.count, secret);
        node->shards.count += is_done;
    }
    node->report.count = node->shards.count;
    explicit_bzero(secret, sizeof(secret));
    return is_done ? ERROR_NONE
                   : error_set(ret_error, ERROR_NO_MEMORY, "no memory or files for the shards");
}

/* Waits for the threads of the running shards. The caller has told them to end. */
static void node_join_shards(struct node *node)
{
    shards_wake(&node->shards);
    while (node->shards.running > 0)
        pthread_join(node->shards.all[--node->shards.running].thread, NULL);
}

static enum error_code node_start_advance(struct node *node, struct error *ret_error)
{
    const struct node_advance_options options = {.shard_count = node->shards.count,
                                                 .folder = node->config->data_folder,
                                                 .wake = shards_wake,
                                                 .context = &node->shards};

    return node_advance_start(&options, &node->advance, ret_error);
}

static void node_end_threads(struct node *node)
{
    atomic_store(&node->shards.give_up, true);
    node_join_shards(node);
    node_cluster_stop(node);
    node_log_stop(&node->log);
    node_disk_stop(&node->disk);
}

static enum error_code node_start_threads(struct node *node, struct error *ret_error)
{
    enum error_code code = node_disk_start(&node->disk, ret_error);

    if (code)
        return code;
    code = node_log_start(&node->log, ret_error);
    if (code) {
        node_end_threads(node);
        return code;
    }
    while (node->shards.running < node->shards.count) {
        struct shard *shard = &node->shards.all[node->shards.running];

        if (thread_start(&shard->thread, shard_run, shard, "tw-shard-%u", shard->index) != 0)
            break;
        node->shards.running++;
    }
    if (node->shards.running == node->shards.count)
        return ERROR_NONE;
    node_end_threads(node);
    return error_set(ret_error, ERROR_IO, "no thread for a shard");
}

/* True if requests can be answered, or no claim of a partition gets into the log. */
static bool node_is_decided(const struct shard_report *shard)
{
    return shard->has_engines || shard->is_failing;
}

/* Waits until the engines answer, because no other node would answer in their place. */
static enum error_code node_await_engines(struct node *node, struct error *ret_error)
{
    struct shard_report sum;

    node_report_await(&node->report, node_is_decided, START_MS);
    node_report_sum(&node->report, &sum);
    if (sum.has_engines || !atomic_load(&node->disk.is_failing))
        return ERROR_NONE;
    pthread_mutex_lock(&node->disk.lock);
    *ret_error = node->disk.error;
    pthread_mutex_unlock(&node->disk.lock);
    return ret_error->code;
}

enum error_code node_start(const struct config *config, struct metrics *metrics,
                           const struct node_events *events, const struct node_route *route,
                           struct node **ret_node, struct error *ret_error)
{
    struct node *node = node_alloc(config, metrics);

    if (!node)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory or file descriptors");
    if (events)
        node->events = *events;
    if (route)
        node->route = *route;
    enum error_code code = zones_create_anyway(config->zoneinfo_folder, &node->zones, ret_error);
    node->feed = feed_create();
    if (!node->feed && code == ERROR_NONE)
        code = error_set(ret_error, ERROR_NO_MEMORY, "no memory for the feed");
    const bool is_cluster = config_is_cluster(config);
    if (code == ERROR_NONE && is_cluster) /* the folder must be one of this cluster */
        code = node_control_init(node, ret_error);
    if (code == ERROR_NONE)
        code = node_disk_open(&node->disk, node_cluster_id(node), ret_error);
    if (code == ERROR_NONE)
        backup_record_clean(config->data_folder);
    if (code == ERROR_NONE && !is_cluster)
        code = node_cluster_open_log(node, ret_error);
    if (code == ERROR_NONE)
        code = node_create_shards(node, ret_error);
    if (code == ERROR_NONE)
        code = node_deliveries_start(node, ret_error);
    if (code == ERROR_NONE)
        code = node_spans_start(node, ret_error);
    if (code == ERROR_NONE)
        code = node_figures_start(node, ret_error);
    if (code == ERROR_NONE)
        code = node_create_targets(node, ret_error);
    if (code == ERROR_NONE)
        code = node_start_senders(node, ret_error);
    if (code == ERROR_NONE)
        code = node_calendars_load(&node->calendars, config->calendars, ret_error);
    if (code == ERROR_NONE)
        code = node_holds_start(&node->holds, node->feed, node->targets, &node->calendars,
                                config->data_folder, ret_error);
    if (code == ERROR_NONE)
        code = node_reload_named_targets(node, ret_error);
    if (code == ERROR_NONE)
        code = node_create_budget(node, ret_error);
    if (code == ERROR_NONE)
        code = node_cluster_init(node, ret_error);
    if (code == ERROR_NONE && clock_is_virtual())
        code = node_start_advance(node, ret_error);
    if (code == ERROR_NONE)
        code = node_start_threads(node, ret_error);
    if (code == ERROR_NONE) {
        code =
            is_cluster ? node_cluster_start(node, ret_error) : node_await_engines(node, ret_error);
        if (code)
            node_end_threads(node);
    }
    if (code != ERROR_NONE) {
        node_free(node);
        return code;
    }
    *ret_node = node;
    return ERROR_NONE;
}

static bool node_is_drained(const struct shard_report *shard)
{
    return shard->is_drained;
}

static bool node_is_finished(const struct shard_report *shard)
{
    return shard->is_finished;
}

void node_stop(struct node *node)
{
    uint64_t drain_ms = node->config->drain_ms;

    atomic_store(&node->is_stopping, true);
    node_advance_interrupt(node->advance);
    node_queue_stop_waiting(node);
    backup_join(&node->backups);
    senders_drain(node->senders);
    shards_wake(&node->shards);
    node_report_await(&node->report, node_is_drained, drain_ms);
    node_control_leave(node);
    /* deliveries in flight come back as failed and are retried later */
    senders_stop(node->senders);
    node->senders = NULL;
    atomic_store(&node->shards.end, true);
    shards_wake(&node->shards);
    node_report_await(&node->report, node_is_finished, drain_ms + 1000);
    atomic_store(&node->shards.give_up, true); /* reached only if the storage fails */
    node_join_shards(node);
    node_cluster_stop(node);
    node_log_stop(&node->log);
    node_disk_stop(&node->disk);
    for (unsigned i = 0; i < node->shards.count; i++)
        shard_fail_rest(&node->shards.all[i]);
    node_free(node);
}
