/* Start and stop in order, the door, health and metrics. */
#include "shard/node_private.h"

#include "storage/rocksdb.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/thread.h"
#include "calendar/zones.h"

#include <stdio.h>
#include <stdlib.h>

/* Deliveries of which explain knows what made them late, about 100 bytes each. */
#define HISTORY_MAX 65536

#define NODE_USER_AGENT "tickwheel/" TICKWHEEL_VERSION

static struct mailbox *mailbox_of(struct node *node, size_t index)
{
    struct mailbox *const mailboxes[] = {&node->requests, &node->commits, &node->reads,
                                         &node->outcomes, &node->workers, &node->to_commit,
                                         &node->to_read};

    return index < sizeof(mailboxes) / sizeof(*mailboxes) ? mailboxes[index] : NULL;
}

static void post_outcomes(void *context, struct list *deliveries)
{
    struct node *node = context;

    mailbox_post_all(&node->outcomes, deliveries);
}

static enum error_code find_zone(void *context, struct bytes name, const struct zone **ret_zone)
{
    struct node *node = context;

    return node->zones ? zones_get(node->zones, name, ret_zone, NULL) : ERROR_NOT_FOUND;
}

struct zone_source node_zones(struct node *node)
{
    return (struct zone_source){find_zone, node};
}

/* The share of a limit that one partition has: together they have all of it, each at least 1. */
static uint64_t share(const struct node *node, uint16_t partition, uint64_t limit)
{
    uint64_t part = limit / node->partition_count + (partition < limit % node->partition_count);

    return part ? part : 1;
}

/* The same for a rate, which an engine counts in thousandths. 0 stays no limit. */
static uint64_t rate_share(const struct node *node, uint16_t partition, uint32_t rate)
{
    return rate ? share(node, partition, (uint64_t)rate * 1000) : 0;
}

static struct engine_options engine_options_of(struct node *node, uint16_t partition, uint64_t seed)
{
    const struct config *config = node->config;
    struct engine_options options = ENGINE_OPTIONS_DEFAULT;
    uint64_t count = node->partition_count;

    options.partition = partition;
    options.window_ms = config->window_ms;
    options.near_bytes_max = config->near_bytes_max / count;
    options.pending_max = config->pending_max;
    options.pending_all = &node->pending_all;
    options.inflight_max = (uint32_t)share(node, partition, config->deliveries_max);
    options.target_inflight_max = (uint32_t)share(node, partition, config->target_deliveries_max);
    options.broker_inflight_max = (uint32_t)share(node, partition, config->broker_inflight_max);
    options.target_rate = rate_share(node, partition, config->target_rate_max);
    options.catch_up_rate = rate_share(node, partition, config->catch_up_rate_max);
    options.history_max = share(node, partition, HISTORY_MAX);
    options.pulled_max = (uint32_t)share(node, partition, config->queue_leases_max);
    options.retain_ms = config->retain_ms;
    options.watermark_interval_ms = config->watermark_interval_ms;
    options.seed = seed;
    options.zones = node_zones(node);
    options.tenant_counts = &node->tenant_counts;
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
        if (code == ERROR_NONE)
            code = storage_load_tenant_counts(node->storage, i, &node->tenant_counts, ret_error);
        if (code == ERROR_NONE)
            atomic_fetch_add(&node->pending_all, batches[i].meta.pending);
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
        .damage = config->storage_damage == CONFIG_STORAGE_DAMAGE_SKIP ? ROCKSDB_DAMAGE_SKIP
                                                                       : ROCKSDB_DAMAGE_REFUSE,
    };
    enum error_code code = rocksdb_storage_open(&options, &node->storage, ret_error);

    if (!code)
        storage_stats(node->storage, &node->report.storage);
    return code;
}

static void tell_changed(void *context, const struct target_status *status)
{
    struct node *node = context;

    if (node->events.target_changed)
        node->events.target_changed(node->events.context, status);
}

static enum error_code create_targets(struct node *node, struct error *ret_error)
{
    const struct config *config = node->config;
    struct targets_options options = {
        .breaker = {config->target_breaker_failures, config->target_breaker_pause_ms,
                    config->target_breaker_pause_max_ms},
        .changed = tell_changed,
        .context = node,
    };

    if (entropy_u64(&options.seed) != ERROR_NONE)
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    node->targets = targets_create(&options);
    return node->targets ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
}

static enum error_code start_senders(struct node *node, struct error *ret_error)
{
    const struct sender_options options = {
        .config = node->config,
        .user_agent = NODE_USER_AGENT,
        .targets = node->targets,
        .done = post_outcomes,
        .context = node,
    };

    return senders_start(&options, &node->senders, ret_error);
}

static void free_all(struct node *node)
{
    if (node->senders)
        senders_stop(node->senders);
    targets_destroy(node->targets);
    queue_loop_destroy(node);
    for (uint16_t i = 0; node->engines && i < node->partition_count; i++)
        engine_destroy(node->engines[i]);
    free(node->engines);
    tenant_counts_deinit(&node->tenant_counts);
    zones_destroy(node->zones);
    storage_close(node->storage);
    for (size_t i = 0; mailbox_of(node, i); i++)
        mailbox_deinit(mailbox_of(node, i));
    pthread_cond_destroy(&node->report.changed);
    pthread_mutex_destroy(&node->report.lock);
    pthread_mutex_destroy(&node->backup_lock);
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
    tenant_counts_init(&node->tenant_counts);
    for (size_t i = 0; mailbox_of(node, i); i++)
        if (mailbox_init(mailbox_of(node, i)) != ERROR_NONE) {
            while (i > 0)
                mailbox_deinit(mailbox_of(node, --i));
            free(node);
            return NULL;
        }
    pthread_mutex_init(&node->report.lock, NULL);
    pthread_mutex_init(&node->backup_lock, NULL);
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
    if (thread_start(&node->commit_thread, commit_loop, node, "commit") != 0)
        return error_set(ret_error, ERROR_IO, "no thread for commits");
    if (thread_start(&node->read_thread, read_loop, node, "read") != 0) {
        atomic_store(&node->storage_ends, true);
        pthread_join(node->commit_thread, NULL);
        return error_set(ret_error, ERROR_IO, "no thread for reads");
    }
    if (thread_start(&node->engine_thread, engine_loop, node, "shard-0") != 0) {
        end_storage_threads(node);
        return error_set(ret_error, ERROR_IO, "no thread for the engine");
    }
    return ERROR_NONE;
}

enum error_code node_start(const struct config *config, struct metrics *metrics,
                           const struct node_events *events, struct node **ret_node,
                           struct error *ret_error)
{
    struct node *node = node_alloc(config, metrics);
    enum error_code code;

    if (!node)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory or file descriptors");
    if (events)
        node->events = *events;
    code = zones_create(ZONES_FOLDER, &node->zones, ret_error);
    if (code == ERROR_NOT_FOUND) /* cron then knows UTC alone, and says so of any other zone */
        code = ERROR_NONE;
    if (code == ERROR_NONE)
        code = open_storage(node, ret_error);
    if (code == ERROR_NONE)
        code = create_targets(node, ret_error);
    if (code == ERROR_NONE)
        code = start_senders(node, ret_error);
    if (code == ERROR_NONE && queue_loop_create(node) != ERROR_NONE)
        code = error_set(ret_error, ERROR_NO_MEMORY, "no memory or entropy for the queue");
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
    backup_join(node);
    senders_drain(node->senders);
    wait_for(node, &node->report.is_drained, drain_ms);
    senders_stop(node->senders); /* what is in flight comes back as failed, to be tried again */
    node->senders = NULL;
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
    const enum command_kind kind = request->command.kind;
    const bool creates = kind == COMMAND_CREATE || kind == COMMAND_PUT;
    const bool reads = kind == COMMAND_GET || kind == COMMAND_EXPLAIN || kind == COMMAND_LIST ||
                       kind == COMMAND_FORECAST;
    const size_t count = command_weight(&request->command);

    if (atomic_load(&node->is_stopping))
        return refuse(node, ERROR_STOPPING, METRIC_REFUSED_STOPPING);
    if (creates && atomic_load(&node->is_disk_full))
        return refuse(node, ERROR_DISK_FULL, METRIC_REFUSED_DISK_FULL);
    /* What a write that fails was about stays in memory until one succeeds. */
    if (!reads && atomic_load(&node->is_failing) && atomic_load(&node->is_choked))
        return refuse(node, ERROR_OVERLOADED, METRIC_REFUSED_OVERLOADED);
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

enum error_code node_queue_submit(struct node *node, struct node_queue_request *request)
{
    size_t count = request->queue.receipt_count;

    if (atomic_load(&node->is_stopping))
        return refuse(node, ERROR_STOPPING, METRIC_REFUSED_STOPPING);
    if (atomic_fetch_add(&node->inflight, count) + count > node->config->inflight_max) {
        atomic_fetch_sub(&node->inflight, count);
        return refuse(node, ERROR_OVERLOADED, METRIC_REFUSED_OVERLOADED);
    }
    list_init(&request->link_);
    mailbox_post(&node->workers, &request->link_);
    return ERROR_NONE;
}

void node_queue_stop_waiting(struct node *node)
{
    atomic_store(&node->stops_waiting, true); /* seen within REPORT_NS */
}

uint16_t node_partition_count(const struct node *node)
{
    return node->partition_count;
}

uint16_t node_partition_next(struct node *node)
{
    return (uint16_t)(atomic_fetch_add(&node->next_partition, 1) % node->partition_count);
}

enum error_code node_check_target(const struct node *node, struct bytes tenant, struct bytes text,
                                  const struct target *target, struct error *ret_error)
{
    return senders_check(node->senders, tenant, text, target, ret_error);
}

bool node_broker_status(const struct node *node, size_t index, struct broker_status *ret_status)
{
    struct brokers *brokers = senders_find(node->senders, TARGET_REDIS);

    if (index >= brokers_count(brokers))
        return false;
    brokers_status(brokers, index, ret_status);
    return true;
}

bool node_target_status(const struct node *node, const struct timer *timer,
                        struct target_status *ret_status)
{
    return senders_status(node->senders, timer, ret_status);
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

void node_damage(struct node *node, struct node_damage *ret_damage)
{
    pthread_mutex_lock(&node->report.lock);
    ret_damage->failed = node->report.storage_error;
    snprintf(ret_damage->found, sizeof(ret_damage->found), "%s", node->report.storage.found);
    pthread_mutex_unlock(&node->report.lock);
}

void node_refresh_metrics(struct node *node)
{
    struct metrics *metrics = node->metrics;
    struct node_health health;
    struct engine_stats stats;
    struct storage_stats storage;
    struct queue_stats queue;
    struct targets_stats targets;

    targets_stats(node->targets, &targets);
    pthread_mutex_lock(&node->report.lock);
    stats = node->report.stats;
    queue = node->report.queue;
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
        {METRIC_TIMERS_DROPPED, stats.dropped},
        {METRIC_TIMERS_TOUCHED, stats.touched},
        {METRIC_TIMERS_MOVED_ON, stats.rows_moved},
        {METRIC_TIMERS_SPILLED, stats.spilled},
        {METRIC_TIMERS_CALLED_IN, stats.reloaded},
        {METRIC_TIMERS_IN_MEMORY, stats.in_memory},
        {METRIC_NEAR_BYTES, stats.near_bytes},
        {METRIC_OLDEST_OVERDUE_MS,
         stats.oldest_overdue.ms ? wall_since(stats.oldest_overdue, wall_now()) : 0},
        {METRIC_ATTEMPTS, stats.attempts},
        {METRIC_ATTEMPTS_FAILED, stats.attempts_failed},
        {METRIC_DELIVERIES_INFLIGHT, stats.inflight},
        {METRIC_DELIVERIES_WAITING, stats.waiting},
        {METRIC_ATTEMPTS_POSTPONED, targets.postponed},
        {METRIC_BREAKERS_OPEN, targets.open},
        {METRIC_BREAKERS_OPENED, targets.opened},
        {METRIC_TIMERS_CATCHING_UP, stats.catching_up},
        {METRIC_QUEUE_LEASED, queue.leased},
        {METRIC_QUEUE_WAITING, queue.waiting},
        {METRIC_QUEUE_LEASES, queue.leases},
        {METRIC_QUEUE_ACKS, queue.acks},
        {METRIC_QUEUE_NACKS, queue.nacks},
        {METRIC_QUEUE_LEASES_ENDED, queue.ended},
        {METRIC_QUEUE_RECEIPTS_STALE, queue.stales},
        {METRIC_STORAGE_FAILURES, stats.storage_failures},
        {METRIC_RECORDS_CORRUPT, storage.corrupt_records},
        {METRIC_LOGS_TORN, storage.torn_logs},
        {METRIC_WRITES_LOST, storage.lost_writes},
        {METRIC_DISK_BYTES, storage.disk_bytes},
        {METRIC_DISK_FREE_BYTES, storage.disk_free_bytes},
        {METRIC_READY, health.is_ready},
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        metrics_set(metrics, values[i].metric, values[i].value);
}
