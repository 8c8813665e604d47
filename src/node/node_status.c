/* Health, metrics, and the state of targets and brokers. */
#include "node/node_members.h"
#include "node/node_ownership.h"
#include "node/node_replica.h"
#include "node/node_state.h"
#include "node/queue_board.h"
#include "node/storage_health.h"
#include "node/storage_loops.h"
#include "sys/clock.h"

#include <assert.h>
#include <stdio.h>

/* Maximum by which the timers of a partition may exceed the mean, because limits are divided
 * among partitions. */
#define PLACED_AHEAD 1024

uint16_t node_partition_count(const struct node *node)
{
    return node->partition_count;
}

unsigned node_shard_count(const struct node *node)
{
    return node->shards.count;
}

struct event_loop *const *node_loops(struct node *node)
{
    return node->shards.loops;
}

/* Returns the next of the shard's own partitions, in turn. NULL if it has none, or this one has
 * PLACED_AHEAD timers more than the mean. */
static struct partition *node_partition_near(struct shard *shard, uint64_t mean)
{
    if (shard->partition_count == 0)
        return NULL;
    struct partition *partition = shard->partitions[shard->placed++ % shard->partition_count];
    return atomic_load(&partition->placed) <= mean + PLACED_AHEAD ? partition : NULL;
}

/* Returns the partition, or the next partition that this node owns. */
static struct partition *node_partition_here(struct node *node, struct partition *wanted)
{
    const struct node_route *route = &node->route;

    for (uint16_t i = 0; i < node->partition_count; i++) {
        const uint16_t index = (uint16_t)((wanted->index + i) % node->partition_count);

        if (route->is_here(route->context, index))
            return &node->partitions[index];
    }
    return wanted;
}

uint16_t node_partition_next(struct node *node, unsigned shard, size_t count)
{
    const uint64_t placed = atomic_fetch_add(&node->counts.placed, count);
    struct partition *partition =
        node_partition_near(&node->shards.all[shard], placed / node->partition_count);

    if (!partition)
        partition = &node->partitions[atomic_fetch_add(&node->counts.next_partition, 1) %
                                      node->partition_count];
    if (node->route.is_here)
        partition = node_partition_here(node, partition);
    atomic_fetch_add(&partition->placed, count);
    return partition->index;
}

enum error_code node_check_target(const struct node *node, struct bytes tenant, struct bytes text,
                                  const struct target *target, struct error *ret_error)
{
    return senders_check(node->senders, tenant, text, target, ret_error);
}

struct named *node_named(const struct node *node)
{
    return webhook_sender_named(senders_find(node->senders, TARGET_NAMED));
}

enum error_code node_reload_named_targets(struct node *node, struct error *ret_error)
{
    return node_holds_configure(&node->holds, node_named(node), node->config->named_targets_file,
                                ret_error);
}

void node_reload(struct node *node, const struct config *config, senders_told told, void *context)
{
    senders_reload(node->senders, config, told, context);
}

void node_append_key_set(struct node *node, struct buffer *out)
{
    sender_webhook_append_key_set(senders_find(node->senders, TARGET_HTTPS), out);
}

struct feed *node_feed(struct node *node)
{
    return node->feed;
}

bool node_broker_status(const struct node *node, size_t index, struct broker_status *ret_status)
{
    struct brokers *brokers = senders_find(node->senders, TARGET_REDIS);

    return brokers_status(brokers, index, ret_status);
}

bool node_target_status(const struct node *node, const struct timer *timer,
                        struct target_status *ret_status)
{
    return senders_status(node->senders, timer, ret_status);
}

void node_tenants(struct node *node,
                  void (*tell)(void *context, struct bytes tenant, uint64_t pending), void *context)
{
    const uint64_t all =
        atomic_load(&node->counts.pending_all) + atomic_load(&node->counts.pending_others);
    uint64_t named = 0;
    size_t cursor = 0;

    for (const struct tenant_counts_tenant *tenant;
         (tenant = tenant_counts_next(&node->counts.tenants, &cursor));) {
        const uint64_t pending = tenant_counts_everywhere(tenant);

        named += pending;
        tell(context, (struct bytes){tenant->name, tenant->name_size}, pending);
    }
    /* The counts are read one after another, so the rest is approximate while timers come and
     * go. */
    tell(context, (struct bytes){0}, all > named ? all - named : 0);
}

static void node_describe_full_disk(struct node *node, struct node_health *ret_health)
{
    pthread_mutex_lock(&node->disk.lock);
    const struct storage_stats stats = node->disk.stats;
    pthread_mutex_unlock(&node->disk.lock);
    snprintf(ret_health->reason, sizeof(ret_health->reason),
             "the disk is nearly full: %llu MiB free, creates need %llu MiB",
             (unsigned long long)(stats.disk_free_bytes >> 20),
             (unsigned long long)(stats.disk_floor_bytes >> 20));
}

struct wall node_wall_coming(struct node *node)
{
    return clock_is_virtual() ? wall_now()
                              : (struct wall){node_clock_now_us(&node->clock) / 1000 + 1};
}

/* "2 time zones that timers need are not on this machine: Asia/Beijing US/Pacific"; cut if it is
 * long. */
static void node_tell_missing(const struct absent_names *missing, const char *what, const char *how,
                              char *ret_text, size_t size)
{
    *ret_text = '\0';
    if (!missing->count)
        return;
    size_t at =
        (size_t)snprintf(ret_text, size, "%zu%s %s%s that timers need %s %s:", missing->count,
                         missing->has_more ? " and more" : "", what, missing->count == 1 ? "" : "s",
                         missing->count == 1 ? "is" : "are", how);
    for (size_t i = 0; i < missing->count && at + strlen(missing->names[i]) + 2 < size; i++)
        at += (size_t)snprintf(ret_text + at, size - at, " %s", missing->names[i]);
}

/* Zones are told before calendars, if both are missing. */
static void node_tell_missing_names(struct node *node, char *ret_text, size_t size)
{
    struct absent_names missing;

    zones_missing(node->zones, &missing);
    node_tell_missing(&missing, "time zone", "not on this machine", ret_text, size);
    if (*ret_text)
        return;
    node_calendars_missing(&node->calendars, &missing);
    node_tell_missing(&missing, "calendar", "missing", ret_text, size);
}

struct node_advance *node_advance(const struct node *node)
{
    return node->advance;
}

void node_health(struct node *node, struct node_health *ret_health)
{
    char trouble[sizeof(ret_health->reason)];
    const char *reason = "";
    struct node_cluster_stats cluster;
    struct shard_report sum;

    storage_look(&node->disk);
    node_cluster_stats(node, &cluster);
    node_report_sum(&node->report, &sum);
    ret_health->is_recovered = sum.is_ready;
    if (atomic_load(&node->is_stopping))
        reason = "stopping";
    else if (atomic_load(&node->disk.is_lost))
        reason = "the data folder was removed or replaced";
    else if (atomic_load(&node->report.is_damaged) && storage_health_is_damaged(&node->disk))
        reason = "damaged: a partition cannot be read";
    else if (storage_health_fails(&node->disk, trouble, sizeof(trouble)))
        reason = trouble;
    else if (atomic_load(&node->report.is_damaged))
        reason = "damaged: a partition cannot be read";
    else if (node_control_trouble(node, trouble, sizeof(trouble)))
        reason = trouble;
    else if (cluster.broken > 0)
        reason = "broken: the log of a partition has lost records, or is damaged";
    else if (!ret_health->is_recovered)
        reason = "recovering";
    ret_health->is_ready = *reason == '\0' && !atomic_load(&node->disk.is_full);
    if (*reason == '\0' && !ret_health->is_ready)
        node_describe_full_disk(node, ret_health);
    else
        snprintf(ret_health->reason, sizeof(ret_health->reason), "%s", reason);
    node_tell_missing_names(node, ret_health->detail, sizeof(ret_health->detail));
    if (!*ret_health->detail)
        backup_tell_trouble(&node->backups, ret_health->detail, sizeof(ret_health->detail));
    if (!*ret_health->detail) {
        pthread_mutex_lock(&node->counts.refusals_lock);
        snprintf(ret_health->detail, sizeof(ret_health->detail), "%s", node->counts.source_trouble);
        pthread_mutex_unlock(&node->counts.refusals_lock);
    }
    if (atomic_load(&node->holds.is_maintained)) {
        const size_t size = strlen(ret_health->detail);

        snprintf(ret_health->detail + size, sizeof(ret_health->detail) - size, "%s%s",
                 size ? "; " : "", "maintenance holds all deliveries back");
    }
}

uint64_t node_dead_dropped(struct node *node)
{
    struct shard_report sum;

    node_report_sum(&node->report, &sum);
    return sum.stats.dead_dropped;
}

uint64_t node_missed_found(struct node *node)
{
    struct shard_report sum;

    node_report_sum(&node->report, &sum);
    return sum.stats.missed_found;
}

void node_damage(struct node *node, struct node_damage *ret_damage)
{
    pthread_mutex_lock(&node->disk.lock);
    ret_damage->failed = node->disk.error;
    snprintf(ret_damage->found, sizeof(ret_damage->found), "%s", node->disk.stats.found);
    pthread_mutex_unlock(&node->disk.lock);
}

int node_news_fd(const struct node *node)
{
    return mailbox_fd(&node->report.news);
}

void node_take_news(struct node *node)
{
    struct list none;

    list_init(&none);
    mailbox_take(&node->report.news, &none);
}

static uint64_t node_waited_ms(const struct census_count *count, struct wall now)
{
    return count->oldest.ms ? wall_since(count->oldest, now) : 0;
}

/* Copies the rows of a census, and then the row of the others. Returns how many. */
static size_t node_show_census(struct census *census, struct metrics_waiting_row *ret_rows)
{
    struct census_row rows[CENSUS_ROWS_MAX];
    struct census_count others;
    const struct wall now = wall_now();

    static_assert(METRICS_WAITING_ROWS == CENSUS_ROWS_MAX + 1, "one for the others");
    const size_t count = census_read(census, rows, &others);
    for (size_t i = 0; i < count; i++) {
        /* A slash separates tenant and queue, if there is a tenant. */
        const bool has_slash = rows[i].group_size > 0 && rows[i].group_size < rows[i].name_size;
        const size_t cut = rows[i].group_size + (size_t)has_slash;

        snprintf(ret_rows[i].tenant, sizeof(ret_rows[i].tenant), "%.*s", (int)rows[i].group_size,
                 rows[i].name);
        snprintf(ret_rows[i].queue, sizeof(ret_rows[i].queue), "%.*s",
                 (int)(rows[i].name_size - cut), rows[i].name + cut);
        ret_rows[i].ready = rows[i].count.ready;
        ret_rows[i].oldest_ms = node_waited_ms(&rows[i].count, now);
    }
    ret_rows[count] = (struct metrics_waiting_row){.tenant = METRICS_OTHERS,
                                                   .queue = METRICS_OTHERS,
                                                   .ready = others.ready,
                                                   .oldest_ms = node_waited_ms(&others, now)};
    return count + 1;
}

void node_waiting(struct node *node, struct metrics_waiting *ret_waiting)
{
    ret_waiting->queue_count = node_show_census(node->counts.waiting_queues, ret_waiting->queues);
    ret_waiting->tenant_count =
        node_show_census(node->counts.waiting_tenants, ret_waiting->tenants);
    zones_missing(node->zones, &ret_waiting->zones);
    node_calendars_missing(&node->calendars, &ret_waiting->calendars);
    zones_version(node->zones, ret_waiting->tzdata);
}

static uint64_t node_count_pauses(struct node *node)
{
    struct target_pauses *pauses = node_holds_pauses(&node->holds);
    const struct wall now = wall_now();
    uint64_t count = 0;

    for (size_t i = 0; i < pauses->count; i++)
        count += target_pause_is_in_force(&pauses->rows[i], now);
    target_pauses_leave(pauses);
    return count;
}

void node_refresh_metrics(struct node *node)
{
    struct metrics *metrics = node->metrics;
    struct targets_stats targets;

    targets_stats(node->targets, &targets);
    struct shard_report sum;
    node_report_sum(&node->report, &sum);
    sum.stats.storage_failures += atomic_load(&node->disk.health.failures);
    sum.queue.waiting += queue_board_waiting(node->board);
    pthread_mutex_lock(&node->disk.lock);
    const struct storage_stats storage = node->disk.stats;
    pthread_mutex_unlock(&node->disk.lock);
    struct node_cluster_stats cluster;
    node_cluster_stats(node, &cluster);
    struct delivery_ring_stats deliveries = {0};
    if (node->delivery_log)
        delivery_log_stats(node->delivery_log, &deliveries);
    struct node_health health;
    node_health(node, &health);
#define X(id, field, ...) metrics_set(metrics, METRIC_##id, sum.stats.field);
    METRIC_ENGINE_LIST(X)
#undef X
#define X(id, field, ...) metrics_set(metrics, METRIC_##id, targets.field);
    METRIC_TARGETS_LIST(X)
#undef X
#define X(id, field, ...) metrics_set(metrics, METRIC_##id, sum.queue.field);
    METRIC_QUEUE_LIST(X)
#undef X
#define X(id, field, ...) metrics_set(metrics, METRIC_##id, storage.field);
    METRIC_STORAGE_LIST(X)
#undef X
#define X(id, field, ...) metrics_set(metrics, METRIC_##id, deliveries.field);
    METRIC_DELIVERY_LOG_LIST(X)
#undef X
#define X(id, field, ...) metrics_set(metrics, METRIC_##id, cluster.field);
    METRIC_CLUSTER_LIST(X)
#undef X
    for (unsigned i = 0; i < OVERDUE_KIND_COUNT; i++) {
        const struct wall oldest = sum.stats.oldest_overdue[i];

        metrics_set(metrics, METRIC_READY_WEBHOOK + i, sum.stats.ready[i]);
        metrics_set(metrics, METRIC_OLDEST_WEBHOOK_MS + i,
                    oldest.ms ? wall_since(oldest, wall_now()) : 0);
    }
    metrics_set(metrics, METRIC_READY, health.is_ready);
    metrics_set(metrics, METRIC_MAINTENANCE, atomic_load(&node->holds.is_maintained));
    metrics_set(metrics, METRIC_PAUSES, node_count_pauses(node));
}

void node_name_log(const struct node *node, char *ret_text, size_t size)
{
    uint8_t id[STORAGE_LOG_ID_SIZE] = {0};

    if (node->cluster.control)
        snprintf(ret_text, size, "cluster %016llx node %u",
                 (unsigned long long)node_cluster_id(node), (unsigned)node_self(node));
    else if (storage_get_log(node->disk.storage, id))
        snprintf(ret_text, size, "log %016llx%016llx", (unsigned long long)get_be((char *)id, 8),
                 (unsigned long long)get_be((char *)id + 8, 8));
    else
        snprintf(ret_text, size, "no log");
}
