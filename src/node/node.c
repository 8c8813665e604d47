/* Start and stop in order, the door, health and metrics. */
#include "node/node_private.h"

#include "storage/rocksdb.h"
#include "sys/clock.h"
#include "sys/entropy.h"

#include <stdio.h>
#include <stdlib.h>

#define NODE_USER_AGENT "tickwheel/" TICKWHEEL_VERSION

static struct mailbox *mailbox_of(struct node *node, size_t index)
{
    struct mailbox *const mailboxes[] = {&node->requests, &node->commits,   &node->reads,
                                         &node->outcomes, &node->to_commit, &node->to_read};

    return index < sizeof(mailboxes) / sizeof(*mailboxes) ? mailboxes[index] : NULL;
}

static void post_outcomes(void *context, struct list *deliveries)
{
    struct node *node = context;

    mailbox_post_all(&node->outcomes, deliveries);
}

/* A share of a limit for one partition, never nothing. */
static uint32_t share(const struct node *node, uint32_t limit)
{
    return limit / node->partition_count ? limit / node->partition_count : 1;
}

static struct engine_options engine_options_of(const struct node *node, uint16_t partition,
                                               uint64_t seed)
{
    const struct config *config = node->config;
    struct engine_options options = ENGINE_OPTIONS_DEFAULT;
    uint64_t count = node->partition_count;

    options.partition = partition;
    options.window_ms = config->window_ms;
    options.near_bytes_max = config->near_bytes_max / count;
    options.pending_max = config->pending_max ? (config->pending_max + count - 1) / count : 0;
    options.inflight_max = share(node, config->deliveries_max);
    options.target_inflight_max = share(node, config->target_deliveries_max);
    options.retain_ms = config->retain_ms;
    options.watermark_interval_ms = config->watermark_interval_ms;
    options.seed = seed;
    return options;
}

/* Reads each partition's meta record and writes it back with the next epoch: from then on every id
 * and every delivery of this process can be told from those of an earlier one. */
static enum error_code begin_epochs(struct node *node, struct storage_batch *batches,
                                    struct error *ret_error)
{
    struct storage_batch **pointers = calloc(node->partition_count, sizeof(struct storage_batch *));
    enum error_code code = ERROR_NONE;

    if (!pointers)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    for (uint16_t i = 0; i < node->partition_count && code == ERROR_NONE; i++) {
        batches[i].partition = i;
        pointers[i] = &batches[i];
        code = storage_load_meta(node->storage, i, &batches[i].meta, ret_error);
        if (code == ERROR_NONE && batches[i].meta.epoch++ >= TIMER_EPOCH_MAX)
            code = error_set(ret_error, ERROR_INVALID, "the data folder was opened too often");
    }
    if (code == ERROR_NONE)
        code = storage_commit(node->storage, pointers, node->partition_count, ret_error);
    free(pointers);
    return code;
}

static enum error_code start_engines(struct node *node, struct error *ret_error)
{
    struct storage_batch *batches = calloc(node->partition_count, sizeof(*batches));
    enum error_code code;
    uint64_t seed;

    node->engines = calloc(node->partition_count, sizeof(struct engine *));
    if (!batches || !node->engines) {
        free(batches);
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    }
    code = begin_epochs(node, batches, ret_error);
    if (code == ERROR_NONE && entropy_u64(&seed) != ERROR_NONE)
        code = error_set(ret_error, ERROR_IO, "the system gives no entropy");
    for (uint16_t i = 0; i < node->partition_count && code == ERROR_NONE; i++) {
        struct engine_options options = engine_options_of(node, i, seed + i);

        node->engines[i] = engine_create(&options, &batches[i].meta, wall_now());
        if (!node->engines[i])
            code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    }
    free(batches);
    return code;
}

static enum error_code open_storage(struct node *node, struct error *ret_error)
{
    const struct config *config = node->config;
    struct rocksdb_options options = {
        .folder = config->data_folder,
        .partition_count = node->partition_count,
        .retain_ms = config->retain_ms,
        .cache_bytes = config->storage_cache_bytes,
        .memtable_bytes = config->storage_memtable_bytes,
        .sync = config->storage_sync == CONFIG_STORAGE_SYNC_ALWAYS ? ROCKSDB_SYNC_ALWAYS
                                                                   : ROCKSDB_SYNC_NEVER,
    };

    return rocksdb_storage_open(&options, &node->storage, ret_error);
}

static enum error_code start_webhook(struct node *node, struct error *ret_error)
{
    const struct config *config = node->config;
    struct webhook_options options = {
        .secrets = config->webhook_secret,
        .guard = &node->guard,
        .ca_file = *config->webhook_ca_file ? config->webhook_ca_file : NULL,
        .user_agent = NODE_USER_AGENT,
        .connections_max = config->webhook_connections_max,
        .connect_timeout_ms = config->webhook_connect_timeout_ms,
        .response_bytes_max = config->webhook_response_bytes_max,
        .done = post_outcomes,
        .context = node,
    };

    return webhook_start(&options, &node->webhook, ret_error);
}

static void free_all(struct node *node)
{
    if (node->webhook)
        webhook_stop(node->webhook);
    for (uint16_t i = 0; node->engines && i < node->partition_count; i++)
        engine_destroy(node->engines[i]);
    free(node->engines);
    storage_close(node->storage);
    for (size_t i = 0; mailbox_of(node, i); i++)
        mailbox_deinit(mailbox_of(node, i));
    pthread_cond_destroy(&node->report.changed);
    pthread_mutex_destroy(&node->report.lock);
    free(node);
}

static struct node *node_alloc(const struct config *config, struct metrics *metrics)
{
    struct node *node = calloc(1, sizeof(*node));
    pthread_condattr_t monotonic;

    if (!node)
        return NULL;
    node->config = config;
    node->metrics = metrics;
    node->partition_count = (uint16_t)config->partitions;
    for (size_t i = 0; mailbox_of(node, i); i++)
        if (mailbox_init(mailbox_of(node, i)) != ERROR_NONE) {
            while (i > 0)
                mailbox_deinit(mailbox_of(node, --i));
            free(node);
            return NULL;
        }
    pthread_mutex_init(&node->report.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&node->report.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    node->report.storage.disk_free_bytes = UINT64_MAX;
    return node;
}

static void end_storage_threads(struct node *node)
{
    atomic_store(&node->storage_ends, true);
    pthread_join(node->commit_thread, NULL);
    pthread_join(node->read_thread, NULL);
}

static enum error_code start_threads(struct node *node, struct error *ret_error)
{
    if (pthread_create(&node->commit_thread, NULL, commit_loop, node) != 0)
        return error_set(ret_error, ERROR_IO, "no thread for commits");
    if (pthread_create(&node->read_thread, NULL, read_loop, node) != 0) {
        atomic_store(&node->storage_ends, true);
        pthread_join(node->commit_thread, NULL);
        return error_set(ret_error, ERROR_IO, "no thread for reads");
    }
    if (pthread_create(&node->engine_thread, NULL, engine_loop, node) != 0) {
        end_storage_threads(node);
        return error_set(ret_error, ERROR_IO, "no thread for the engine");
    }
    return ERROR_NONE;
}

enum error_code node_start(const struct config *config, struct metrics *metrics,
                           struct node **ret_node, struct error *ret_error)
{
    struct node *node = node_alloc(config, metrics);
    enum error_code code;

    if (!node)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory or file descriptors");
    code = guard_init(&node->guard, config->webhook_allow, ret_error);
    if (code == ERROR_NONE)
        code = open_storage(node, ret_error);
    if (code == ERROR_NONE)
        code = start_webhook(node, ret_error);
    if (code == ERROR_NONE)
        code = start_engines(node, ret_error);
    if (code == ERROR_NONE)
        code = start_threads(node, ret_error);
    if (code != ERROR_NONE) {
        free_all(node);
        return code;
    }
    *ret_node = node;
    return ERROR_NONE;
}

/* Waits until the engine thread has set `flag` of the report, at most `timeout_ms`. */
static void wait_for(struct node *node, const bool *flag, uint64_t timeout_ms)
{
    struct timespec until = instant_timespec(instant_add_ms(instant_now(), timeout_ms));
    int timed_out = 0;

    pthread_mutex_lock(&node->report.lock);
    while (!*flag && !timed_out)
        timed_out = pthread_cond_timedwait(&node->report.changed, &node->report.lock, &until);
    pthread_mutex_unlock(&node->report.lock);
}

void node_stop(struct node *node)
{
    uint64_t drain_ms = node->config->drain_ms;

    atomic_store(&node->is_stopping, true);
    wait_for(node, &node->report.is_drained, drain_ms);
    webhook_stop(node->webhook); /* what is still out comes back as failed, to be tried again */
    node->webhook = NULL;
    atomic_store(&node->engine_ends, true);
    wait_for(node, &node->report.is_finished, drain_ms + 1000);
    atomic_store(&node->engine_gives_up, true); /* only a storage that fails gets so far */
    pthread_join(node->engine_thread, NULL);
    end_storage_threads(node);
    engine_loop_fail_rest(node);
    free_all(node);
}

static enum error_code refuse(struct node *node, enum error_code code, enum metric reason)
{
    metrics_add(node->metrics, reason, 1);
    return code;
}

enum error_code node_submit(struct node *node, struct node_request *request)
{
    bool creates = request->command.kind == COMMAND_CREATE;
    size_t count = creates ? request->command.timer_count : 1;

    if (atomic_load(&node->is_stopping))
        return refuse(node, ERROR_STOPPING, METRIC_REFUSED_STOPPING);
    if (creates && atomic_load(&node->is_disk_full))
        return refuse(node, ERROR_DISK_FULL, METRIC_REFUSED_DISK_FULL);
    if (atomic_fetch_add(&node->inflight, count) + count > node->config->inflight_max) {
        atomic_fetch_sub(&node->inflight, count);
        return refuse(node, ERROR_OVERLOADED, METRIC_REFUSED_OVERLOADED);
    }
    request->submitted_ = instant_now();
    list_init(&request->link_);
    list_init(&request->command.link);
    mailbox_post(&node->requests, &request->link_);
    return ERROR_NONE;
}

uint16_t node_partition_count(const struct node *node)
{
    return node->partition_count;
}

uint16_t node_partition_next(struct node *node)
{
    return (uint16_t)(atomic_fetch_add(&node->next_partition, 1) % node->partition_count);
}

bool node_allows_host(const struct node *node, struct bytes host)
{
    return guard_allows_host(&node->guard, host);
}

void node_health(struct node *node, struct node_health *ret_health)
{
    const char *reason = "";

    if (atomic_load(&node->is_stopping))
        reason = "stopping";
    else if (atomic_load(&node->is_failing))
        reason = "the storage fails";
    else if (!atomic_load(&node->is_ready))
        reason = "recovering";
    ret_health->is_ready = *reason == '\0';
    snprintf(ret_health->reason, sizeof(ret_health->reason), "%s", reason);
}

void node_refresh_metrics(struct node *node)
{
    struct metrics *metrics = node->metrics;
    struct node_health health;
    struct engine_stats stats;
    struct storage_stats storage;

    pthread_mutex_lock(&node->report.lock);
    stats = node->report.stats;
    storage = node->report.storage;
    pthread_mutex_unlock(&node->report.lock);
    node_health(node, &health);
    const struct {
        enum metric metric;
        uint64_t value;
    } values[] = {
        {METRIC_TIMERS_PENDING, stats.pending},
        {METRIC_TIMERS_CREATED, stats.created},
        {METRIC_TIMERS_FIRED, stats.fired},
        {METRIC_TIMERS_CANCELLED, stats.cancelled},
        {METRIC_TIMERS_DEAD, stats.dead},
        {METRIC_TIMERS_SPILLED, stats.spilled},
        {METRIC_TIMERS_IN_MEMORY, stats.in_memory},
        {METRIC_NEAR_BYTES, stats.near_bytes},
        {METRIC_OLDEST_OVERDUE_MS,
         stats.oldest_overdue.ms ? wall_since(stats.oldest_overdue, wall_now()) : 0},
        {METRIC_ATTEMPTS, stats.attempts},
        {METRIC_ATTEMPTS_FAILED, stats.attempts_failed},
        {METRIC_DELIVERIES_INFLIGHT, stats.inflight},
        {METRIC_DELIVERIES_WAITING, stats.waiting},
        {METRIC_STORAGE_FAILURES, stats.storage_failures},
        {METRIC_RECORDS_CORRUPT, storage.corrupt_records},
        {METRIC_DISK_BYTES, storage.disk_bytes},
        {METRIC_DISK_FREE_BYTES, storage.disk_free_bytes},
        {METRIC_READY, health.is_ready},
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        metrics_set(metrics, values[i].metric, values[i].value);
}
