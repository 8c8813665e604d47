/* node_cluster.c - who serves a node's replicas; see node_cluster.h. */
#include "node/node_cluster.h"

#include "delivery/brokers.h"
#include "node/node_control.h"
#include "node/node_copy.h"
#include "node/node_engines.h"
#include "node/node_hold.h"
#include "node/node_limits.h"
#include "node/node_members.h"
#include "node/node_once.h"
#include "node/node_replica.h"
#include "node/node_state.h"
#include "node/storage_health.h"
#include "node/storage_loops.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TURN_MS = 5,   /* longest time for events of one log before other replicas have a turn */
    LOOK_MS = 100, /* longest time between two turns of a replica */
    HANDOVER_MS = 500,
    SERVES = 2,         /* turns of replicas that a turn of a shard adds */
    RETRY_MS = 1000,    /* interval of retries after a failure of memory or storage */
    TRIM_LEASES = 30,   /* leases by which a reader may lag when records are trimmed */
    TRIM_AGAIN = 60000, /* milliseconds until a failed trim is repeated */
    NO_NODE = 0,        /* number that no node has */
};

/* Serves the replicas of the partitions of one shard: a thread in a cluster, otherwise a part of
 * the shard's turns. */
struct node_replica_thread {
    struct node *node;
    unsigned index;
    pthread_t thread;
    bool is_running, has_loop, has_ended;
    struct event_loop loop; /* in a cluster */
    struct event_task task;
    struct event_source source; /* the client of the node */
    uint64_t trims;             /* node_log.trims that was obeyed */
};

/* ---- what a replica has others do ---- */

static void node_cluster_replica_order(struct node_replica *replica, enum node_replica_order order)
{
    atomic_fetch_or(&replica->orders, order);
    partition_wake(replica->partition);
}

static void node_cluster_replica_log(struct node_replica *replica, uint64_t ticket,
                                     struct bytes bytes)
{
    if (log_append(replica->log, ticket, bytes, NULL))
        replica->refused_ticket = ticket;
}

/* A transaction of a former owner that is still open would hide the claim from all readers. So
 * it is ended first. */
static void node_cluster_replica_on_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct node_replica *replica = context;

    if (!replica->once || replica_state(replica->replica) != OWNERSHIP_CLAIMING) {
        node_cluster_replica_log(replica, ticket, bytes);
        return;
    }
    buffer_clear(&replica->claim);
    buffer_append_bytes(&replica->claim, bytes);
    replica->claim_ticket = ticket;
    node_once_claim(replica->once);
}

static void node_cluster_replica_on_transact(void *context,
                                             const struct replica_transaction *transaction)
{
    node_once_commit(((struct node_replica *)context)->once, transaction);
}

/* Handles the events of the thread of the transactions. */
static void node_cluster_replica_hear_once(struct node_replica *replica, struct instant now)
{
    for (;;) {
        const struct node_once_event event = node_once_take(replica->once);
        const uint64_t claim_ticket = replica->claim_ticket;

        switch (event.kind) {
        case ONCE_NOTHING:
            return;
        case ONCE_READY:
        case ONCE_REFUSED:
            replica->claim_ticket = 0;
            if (event.kind == ONCE_REFUSED || buffer_failed(&replica->claim))
                replica_failed(replica->replica, claim_ticket, now);
            else
                node_cluster_replica_log(replica, claim_ticket, buffer_bytes(&replica->claim));
            break;
        case ONCE_STAGED:
            replica_stage(replica->replica, event.count);
            break;
        case ONCE_LANDED:
            replica_landed(replica->replica, event.ticket, event.offset, now);
            break;
        case ONCE_FAILED:
            replica_failed(replica->replica, event.ticket, now);
            break;
        case ONCE_GONE:
            replica_give_up(replica->replica, now);
            break;
        }
    }
}

static void node_cluster_replica_on_told(void *context)
{
    node_replica_wake(context);
}

/* Retries later if the engine cannot be allocated, or the holds cannot be read. */
static void node_cluster_replica_make_engine(struct node_replica *replica)
{
    const struct storage_meta *meta = &replica->meta;
    struct node *node = replica->node;
    const uint16_t index = replica->partition->index;
    uint64_t seed = 0;

    replica->wants_engine = !node_hold_load(replica);
    if (replica->wants_engine)
        return;
    entropy_u64(&seed); /* seeds only the jitter of retries */
    struct engine_options options = node_engine_options(node, index, seed);
    options.tenant_counts_own = &replica->tenants;
    replica->engine = engine_create(&options, meta, node_clock_now(&node->clock));
    replica->wants_engine = !replica->engine;
    if (replica->wants_engine)
        return;
    node_limits_count(replica, meta->pending);
    node_cluster_replica_order(replica, REPLICA_BEGIN);
}

static void node_cluster_replica_on_begin(void *context, const struct storage_meta *meta)
{
    struct node_replica *replica = context;

    replica->meta = *meta;
    atomic_fetch_add(&replica->claims, 1);
    if (replica->log->is_private)
        storage_committed(&replica->node->disk, ERROR_NONE, 0);
    node_cluster_replica_make_engine(replica);
}

static void node_cluster_replica_on_drain(void *context)
{
    struct node_replica *replica = context;

    node_cluster_replica_order(replica, REPLICA_DRAIN);
    if (replica->once)
        node_once_drain(replica->once);
}

static void node_cluster_replica_on_leave(void *context)
{
    struct node_replica *replica = context;

    replica->wants_engine = false;
    if (replica->once)
        node_once_leave(replica->once);
    atomic_store(&replica->acts_until_ns, 0);
    node_cluster_replica_order(replica, REPLICA_LEAVE);
}

static void node_cluster_replica_on_committed(void *context, struct storage_batch *batch)
{
    struct node_replica *replica = context;
    struct node_disk *disk = &replica->node->disk;

    if (replica->log->is_private) {
        if (batch->result && !replica->is_refused_by_log)
            storage_health_note(disk, replica_error(replica->replica));
        storage_committed(disk, batch->result, batch->write_count);
    }
    if (node_hold_take_batch(replica, batch))
        return;
    list_init(&batch->link);
    partition_post(replica->partition, PARTITION_COMMITS, &batch->link);
}

static void node_cluster_replica_on_trim(void *context, uint64_t before)
{
    struct node_replica *replica = context;

    replica->trim_to = before;
    replica->trim_at = (struct instant){0};
}

/* ---- a replica that follows its log ---- */

static unsigned node_cluster_replica_take_in(struct node_replica *replica)
{
    struct list batches;

    list_init(&batches);
    pthread_mutex_lock(&replica->lock);
    list_join(&batches, &replica->batches);
    const unsigned news = replica->news;
    replica->news = 0;
    pthread_mutex_unlock(&replica->lock);
    for (struct list *link; (link = list_pop(&batches));)
        replica_commit(replica->replica, list_item(link, struct storage_batch, link));
    return news;
}

static void node_cluster_replica_hear(struct node_replica *replica, unsigned news,
                                      struct instant now)
{
    if (news & REPLICA_RECOVERED)
        replica_recovered(replica->replica);
    if (news & REPLICA_LEFT)
        replica_left(replica->replica);
    if (news & REPLICA_RELEASE) {
        replica->is_releasing = true;
        replica->release_until = instant_add_ms(now, 2 * replica->node->config->cluster_lease_ms);
        replica_plan(replica->replica, NO_NODE, now);
    }
    if ((news & REPLICA_PLANNED) && !replica->is_releasing)
        replica_plan(replica->replica, atomic_load(&replica->planned), now);
    if (news & REPLICA_PAGE)
        node_copy_hear(replica, now);
    /* the shards have ended, so no delivery is in flight */
    if (news & (REPLICA_DRAINED | REPLICA_RELEASE))
        replica_drained(replica->replica);
}

/* Reports a failure to the log of the daemon. */
static void node_cluster_replica_report(struct node_replica *replica, enum error_code code,
                                        const char *what, const char *text)
{
    struct node *node = replica->node;

    struct error error;

    error_set(&error, code, "partition %u: %s: %.150s", replica->partition->index, what,
              *text ? text : error_title(code));
    storage_health_note(&node->disk, &error);
    mailbox_wake(&node->report.news);
}

static void node_cluster_replica_publish_stats(struct node_replica *replica)
{
    struct replica_stats stats;

    replica_get_stats(replica->replica, &stats);
    atomic_store(&replica->log_bytes, stats.log_bytes);
    atomic_fetch_add(&replica->sweeps, stats.sweeps - replica->counted.sweeps);
    atomic_fetch_add(&replica->sweep_rows, stats.rows - replica->counted.rows);
    atomic_fetch_add(&replica->sweep_failures,
                     stats.sweep_failures - replica->counted.sweep_failures);
    atomic_fetch_add(&replica->restarts, stats.restarts - replica->counted.restarts);
    atomic_fetch_add(&replica->copies, stats.copies - replica->counted.copies);
    atomic_fetch_add(&replica->copy_rows, stats.copy_rows - replica->counted.copy_rows);
    atomic_fetch_add(&replica->copy_failures, stats.copy_failures - replica->counted.copy_failures);
    replica->counted = stats;
}

/* Returns the state to show. A replica whose storage fails owns nothing, although its ownership
 * changes only when the place has been loaded. */
static enum ownership_state node_cluster_replica_shown_state(const struct replica *replica)
{
    const enum ownership_state state = replica_state(replica);

    return replica_storage_fails(replica) && state != OWNERSHIP_BROKEN ? OWNERSHIP_RESTORING
                                                                       : state;
}

/* True if it has changed. */
static bool node_cluster_replica_set_failing(struct node_replica *replica, bool fails)
{
    if (replica->storage_fails == fails)
        return false;
    replica->storage_fails = fails;
    atomic_fetch_add(&replica->node->disk.health.failing_replicas, fails ? 1 : -1u);
    return true;
}

static void node_cluster_replica_publish_failure(struct node_replica *replica)
{
    const bool fails = replica_storage_fails(replica->replica);

    if (!node_cluster_replica_set_failing(replica, fails) || !fails)
        return;
    atomic_fetch_add(&replica->node->disk.health.failures, 1);
    node_cluster_replica_report(replica, ERROR_IO, "the storage",
                                replica_error(replica->replica)->text);
    storage_look(&replica->node->disk);
}

/* Publishes the replica's state to other threads. */
static void node_cluster_replica_publish(struct node_replica *replica, struct instant now)
{
    const struct instant until = replica_acts_until(replica->replica);
    const bool is_acting = now.ns < until.ns;
    const enum ownership_state state = node_cluster_replica_shown_state(replica->replica);
    const struct ownership_place *place = replica_place(replica->replica);

    atomic_store(&replica->owner, place->is_released ? NO_NODE : place->owner);
    atomic_store(&replica->epoch, place->epoch);
    atomic_store(&replica->next, place->next);
    atomic_store(&replica->refused, replica_refused(replica->replica));
    atomic_store(&replica->acts_until_ns, until.ns);
    node_cluster_replica_publish_stats(replica);
    node_cluster_replica_publish_failure(replica);
    const bool is_news = atomic_exchange(&replica->state, (int)state) != (int)state;
    if (is_acting != replica->was_acting || is_news)
        partition_wake(replica->partition);
    replica->was_acting = is_acting;
    if (is_news && state == OWNERSHIP_BROKEN)
        node_cluster_replica_report(replica, ERROR_CORRUPT, "the log of the cluster",
                                    replica_error(replica->replica)->text);
}

/* Any node may trim the records that a sweep made redundant, so every node repeats a failed
 * trim. */
static void node_cluster_replica_trim_log(struct node_replica *replica, struct instant now)
{
    if (!replica->trim_to || now.ns < replica->trim_at.ns)
        return;
    replica->trim_at = instant_add_ms(now, TRIM_AGAIN);
    /* fails if a trim is in flight: repeated later */
    log_trim(replica->log, replica->trim_to, NULL);
}

/* The next append of a private log removes one that is in doubt. So only the batches fail. */
static void node_cluster_replica_refuse(struct node_replica *replica, const struct log_event *event,
                                        struct instant now)
{
    struct error error;

    if (event->kind == LOG_FAILED && !replica->log->is_private) {
        replica_failed(replica->replica, event->ticket, now);
        return;
    }
    error_set(&error, event->code, "the log: %.150s", event->reason);
    storage_health_note(&replica->node->disk, &error);
    storage_committed(&replica->node->disk, event->code, 0);
    replica->is_refused_by_log = true;
    replica_refused_append(replica->replica, event->ticket, event->code, now);
    replica->is_refused_by_log = false;
}

static void node_cluster_replica_end(struct node_replica *replica, uint64_t offset)
{
    replica_restored(replica->replica);
    if (replica->log->is_private)
        replica_pass(replica->replica, offset);
}

static void node_cluster_replica_handle(struct node_replica *replica, const struct log_event *event,
                                        struct instant now)
{
    switch (event->kind) {
    case LOG_RECORD:
        replica_read(replica->replica, event->offset, event->bytes, now);
        break;
    case LOG_END:
        node_cluster_replica_end(replica, event->offset);
        break;
    case LOG_LANDED:
        replica_landed(replica->replica, event->ticket, event->offset, now);
        break;
    case LOG_REFUSED:
    case LOG_FAILED:
        node_cluster_replica_refuse(replica, event, now);
        break;
    case LOG_LOST:
        replica_lost(replica->replica);
        break;
    case LOG_TRIMMED:
        atomic_fetch_add(&replica->trims, 1);
        if (event->offset >= replica->trim_to)
            replica->trim_to = 0;
        break;
    case LOG_TRIM_FAILED:
        atomic_fetch_add(&replica->trim_failures, 1);
        break;
    case LOG_NOTHING:
        break;
    }
}

/* Follows the log from where the replica wants to read, unless it waits for a copy from another
 * node. */
static void node_cluster_replica_follow_log(struct node_replica *replica)
{
    const enum node_copy_step step = node_copy_begin(replica);

    replica->awaits_copy = step == NODE_COPY_WAITS;
    if (step != NODE_COPY_NONE)
        return;
    if (replica_seeks(replica->replica) || replica_next(replica->replica) == 0)
        log_follow_begin(replica->log, NULL);
    else
        log_follow(replica->log, replica_next(replica->replica), NULL);
}

static struct instant node_cluster_replica_wakes_at(const struct node_replica *replica,
                                                    struct instant now)
{
    const struct instant wake_at = replica_wake_at(replica->replica, now);
    const struct instant look_at = instant_add_ms(now, LOOK_MS); /* and for copies */

    if (replica->log->is_private && !replica->wants_engine)
        return wake_at;
    return wake_at.ns < look_at.ns ? wake_at : look_at;
}

/* Takes events of the log for TURN_MS at most. Returns false if that was too short. Updates `now`
 * with each event. */
static bool node_cluster_replica_take_events(struct node_replica *replica, struct instant *now)
{
    const struct instant until = instant_add_ms(*now, TURN_MS);
    struct log_event event;

    while (now->ns < until.ns) {
        if (log_wait(replica->log, 0, &event) == LOG_NOTHING)
            return true;
        *now = instant_boot_now();
        node_cluster_replica_handle(replica, &event, *now);
    }
    return false;
}

/* Runs one turn: messages of the shard and events of the log, then the replica. So what follows
 * from an append that has landed, such as the next one, is done at once. */
static void node_cluster_replica_go(struct node_replica *replica)
{
    struct instant now = instant_boot_now();

    if (replica->once)
        node_cluster_replica_hear_once(replica, now);
    node_hold_commit(replica);
    node_cluster_replica_hear(replica, node_cluster_replica_take_in(replica), now);
    const bool took_all = node_cluster_replica_take_events(replica, &now);
    replica_turn(replica->replica, now, wall_now());
    if (replica->refused_ticket)
        replica_failed(replica->replica, replica->refused_ticket, now);
    replica->refused_ticket = 0;
    if (replica->wants_engine)
        node_cluster_replica_make_engine(replica);
    const bool is_rewound = replica_take_rewind(replica->replica);
    if (is_rewound || replica->awaits_copy)
        node_cluster_replica_follow_log(replica);
    node_cluster_replica_trim_log(replica, now);
    node_cluster_replica_publish(replica, now);
    replica->wake_at =
        took_all && !is_rewound ? node_cluster_replica_wakes_at(replica, now) : (struct instant){0};
}

/* True if a stop must wait until this replica has released its partition. */
static bool node_cluster_replica_owns(const struct node_replica *replica)
{
    const enum ownership_state state = replica_state(replica->replica);

    return state == OWNERSHIP_RECOVERING || state == OWNERSHIP_ACTIVE ||
           state == OWNERSHIP_DRAINING;
}

/* True if the copy is to be dropped: the plan has not named this node for a while. */
static bool node_cluster_replica_is_over(struct node_replica *replica)
{
    const struct instant now = instant_boot_now();
    const uint64_t keep_ms = REPLICA_KEEP_LEASES * replica->node->config->cluster_lease_ms;

    if (atomic_load(&replica->is_wanted) || !replica_is_idle(replica->replica))
        replica->unwanted_at = (struct instant){0};
    else if (replica->unwanted_at.ns == 0)
        replica->unwanted_at = now;
    return replica->unwanted_at.ns && now.ns >= instant_add_ms(replica->unwanted_at, keep_ms).ns;
}

static enum error_code node_cluster_replica_open_once(struct node_replica *replica,
                                                      struct error *ret_error)
{
    const struct node_once_options options = {
        .config = replica->node->config,
        .partitions = replica->node->partitions,
        .log = &replica->log_options,
        .told = node_cluster_replica_on_told,
        .context = replica,
    };

    return node_once_start(&options, &replica->once, ret_error);
}

static enum error_code node_cluster_replica_open_kafka(struct node_replica *replica,
                                                       struct error *ret_error)
{
    const struct node *node = replica->node;
    const struct config *config = node->config;

    replica->log_options = (struct log_kafka_options){
        .brokers = config->cluster_brokers,
        .topic = replica->topic,
        .partition = replica->partition->index,
        .append_timeout_ms = OWNERSHIP_APPEND_LEASES * config->cluster_lease_ms,
        .lost_ms = REPLICA_LOST_LEASES * config->cluster_lease_ms,
        .client = node->cluster.control->client,
    };
    const enum error_code code = log_kafka_open(&replica->log_options, &replica->log, ret_error);
    if (code)
        return code;
    if (event_loop_watch(replica->loop, log_kafka_fd(replica->log), &replica->source,
                         EPOLLIN | EPOLLET))
        return ERROR_NONE;
    log_close(replica->log);
    replica->log = NULL;
    return error_set(ret_error, ERROR_IO, "the log cannot be watched");
}

/* Returns the options of a node without a cluster, whose log is its own. */
static struct replica_options node_cluster_private_options(const struct node *node)
{
    return (struct replica_options){
        .cluster = node->log.cluster,
        .lease_ms = node->config->cluster_lease_ms,
        .handover_ms = HANDOVER_MS,
        .is_private = true,
    };
}

static struct replica_options node_cluster_shared_options(const struct node *node)
{
    const struct config *config = node->config;

    return (struct replica_options){
        .cluster = node->cluster.control->cluster,
        .lease_ms = config->cluster_lease_ms,
        .handover_ms = HANDOVER_MS,
        .sweep = {config->cluster_sweep_bytes_min, config->cluster_sweep_factor, 0},
        .copy_records_min = config->cluster_copy_records_min,
        .trim_delay_ms = TRIM_LEASES * config->cluster_lease_ms,
    };
}

static enum error_code node_cluster_replica_create(struct node_replica *replica,
                                                   struct error *ret_error)
{
    const struct node *node = replica->node;
    struct replica_options options = node->cluster.control ? node_cluster_shared_options(node)
                                                           : node_cluster_private_options(node);
    const struct replica_events events = {
        .context = replica,
        .append = node_cluster_replica_on_append,
        .transact = node_cluster_replica_on_transact,
        .begin = node_cluster_replica_on_begin,
        .drain = node_cluster_replica_on_drain,
        .leave = node_cluster_replica_on_leave,
        .committed = node_cluster_replica_on_committed,
        .trim = node_cluster_replica_on_trim,
    };

    options.node = node_self(node);
    options.partition = replica->partition->index;
    options.storage = node->disk.storage;
    if (entropy_u64(&options.seed) != ERROR_NONE)
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    return replica_create(&options, &events, instant_boot_now(), &replica->replica, ret_error);
}

static enum error_code node_cluster_replica_open(struct node_replica *replica,
                                                 struct error *ret_error)
{
    struct node *node = replica->node;
    enum error_code code = ERROR_NONE;

    if (node->cluster.control)
        code = node_cluster_replica_open_kafka(replica, ret_error);
    else
        replica->log = log_local_partition(node->log.local, replica->partition->index);
    if (code)
        return code;
    code = node_cluster_replica_create(replica, ret_error);
    if (!code && node->cluster.delivers_once)
        code = node_cluster_replica_open_once(replica, ret_error);
    if (code) {
        replica_destroy(replica->replica);
        replica->replica = NULL;
        log_close(replica->log);
        replica->log = NULL;
        return code;
    }
    pthread_mutex_lock(&replica->lock);
    if (atomic_load(&replica->planned))
        replica->news |= REPLICA_PLANNED;
    pthread_mutex_unlock(&replica->lock);
    replica->trim_to = 0;
    replica->counted = (struct replica_stats){0};
    node_cluster_replica_follow_log(replica);
    return ERROR_NONE;
}

/* Closes the replica; waiting batches go back. */
static void node_cluster_replica_close(struct node_replica *replica)
{
    node_copy_end(replica);
    node_cluster_replica_take_in(replica);
    replica_stop(replica->replica);
    node_once_stop(replica->once);
    replica->once = NULL;
    log_close(replica->log);
    replica->log = NULL;
    replica_destroy(replica->replica);
    replica->replica = NULL;
}

static enum error_code node_cluster_replica_clear(struct node_replica *replica,
                                                  struct error *ret_error)
{
    const struct storage_place nothing = {0};
    const enum error_code code = storage_partition_clear(
        replica->node->disk.storage, replica->partition->index, &nothing, ret_error);

    replica->must_clear = code != ERROR_NONE;
    return code;
}

static void node_cluster_replica_vanish(struct node_replica *replica)
{
    atomic_store(&replica->is_followed, false);
    atomic_store(&replica->state, OWNERSHIP_RESTORING);
    atomic_store(&replica->owner, NO_NODE);
    atomic_store(&replica->epoch, 0);
    atomic_store(&replica->next, 0);
    atomic_store(&replica->log_bytes, 0);
}

static enum error_code node_cluster_replica_drop(struct node_replica *replica,
                                                 struct error *ret_error)
{
    node_cluster_replica_close(replica);
    const enum error_code code = node_cluster_replica_clear(replica, ret_error);
    node_cluster_replica_vanish(replica);
    return code;
}

/* ---- the thread ---- */

/* Follows the log if this node has a part in the partition. */
static enum error_code node_cluster_replica_begin(struct node_replica *replica,
                                                  struct error *ret_error)
{
    enum error_code code =
        replica->must_clear ? node_cluster_replica_clear(replica, ret_error) : ERROR_NONE;

    node_cluster_replica_set_failing(replica, replica->must_clear);
    if (code || !atomic_load(&replica->is_wanted))
        return code;
    code = node_cluster_replica_open(replica, ret_error);
    if (code)
        return code;
    replica->unwanted_at = (struct instant){0};
    atomic_store(&replica->is_followed, true);
    return ERROR_NONE;
}

/* True if the node stops, and the replica follows no log, has released its partition, or ran out of
 * time for that. */
static bool node_cluster_replica_has_ended(struct node_replica *replica)
{
    pthread_mutex_lock(&replica->lock);
    const bool is_stopped = replica->news & REPLICA_RELEASE;
    pthread_mutex_unlock(&replica->lock);
    if (!replica->replica)
        return is_stopped || replica->is_releasing;
    return replica->is_releasing && (!node_cluster_replica_owns(replica) ||
                                     instant_boot_now().ns >= replica->release_until.ns);
}

static void node_cluster_replica_step(struct node_replica *replica)
{
    struct error error = {.text = ""};
    enum error_code code = ERROR_NONE;

    replica->wake_at = (struct instant){UINT64_MAX};
    if (node_cluster_replica_has_ended(replica))
        return;
    if (!replica->replica)
        code = node_cluster_replica_begin(replica, &error);
    else if (!replica->is_releasing && node_cluster_replica_is_over(replica))
        code = node_cluster_replica_drop(replica, &error);
    if (code) {
        node_cluster_replica_report(replica, code, "a copy", error.text);
        replica->wake_at = instant_add_ms(instant_boot_now(), RETRY_MS);
    } else if (replica->replica) {
        node_cluster_replica_go(replica);
    }
}

/* Returns the replica of the thread after `last`; the first if that is NULL. */
static struct node_replica *node_cluster_thread_next(const struct node_replica_thread *thread,
                                                     const struct node_replica *last)
{
    const struct node *node = thread->node;
    const size_t next =
        last ? (size_t)(last - node->cluster.replicas) + node->shards.count : thread->index;

    return next < node->partition_count ? &node->cluster.replicas[next] : NULL;
}

static void node_cluster_thread_serve(struct node_replica_thread *thread)
{
    struct node_replica *replica = NULL;
    bool has_ended = true;

    while ((replica = node_cluster_thread_next(thread, replica))) {
        if (atomic_exchange(&replica->is_woken, false) ||
            instant_boot_now().ns >= replica->wake_at.ns)
            node_cluster_replica_step(replica);
        has_ended = has_ended && node_cluster_replica_has_ended(replica);
    }
    thread->has_ended = has_ended;
}

static void node_cluster_thread_end(struct event_task *task)
{
    node_cluster_thread_serve(list_item(task, struct node_replica_thread, task));
}

static uint64_t node_cluster_thread_wait_ns(struct event_task *task)
{
    const struct node_replica_thread *thread = list_item(task, struct node_replica_thread, task);
    struct instant wake_at = {UINT64_MAX};
    const struct node_replica *replica = NULL;

    while ((replica = node_cluster_thread_next(thread, replica))) {
        if (atomic_load(&replica->is_woken))
            return 0;
        if (replica->wake_at.ns < wake_at.ns)
            wake_at = replica->wake_at;
    }
    return wake_at.ns == UINT64_MAX ? UINT64_MAX : instant_since_ns(instant_boot_now(), wake_at);
}

/* ---- without a cluster: within the turns of a shard ---- */

/* Lets the log drop what the files of the tables have, and moves the places of partitions that had
 * no record for a while, which would hold it back. */
static void node_cluster_thread_trim(struct node_replica_thread *thread)
{
    struct node_log *log = &thread->node->log;
    const uint64_t trims = atomic_load(&log->trims);
    struct node_replica *replica = NULL;

    if (thread->trims == trims)
        return;
    thread->trims = trims;
    while ((replica = node_cluster_thread_next(thread, replica))) {
        uint64_t kept = 0;

        if (replica->replica &&
            !storage_load_kept(thread->node->disk.storage, replica->partition->index, &kept,
                               NULL) &&
            kept)
            log_trim(replica->log, kept, NULL);
    }
    if (thread->index == 0) /* for all partitions */
        log_local_note_end(log->local);
}

/* Appends the batches of this turn, and takes their results if this thread waited for the disk. */
static void node_cluster_thread_commit(struct event_task *task)
{
    struct node_replica_thread *thread = list_item(task, struct node_replica_thread, task);
    struct node *node = thread->node;

    node_cluster_thread_serve(thread);
    node_log_send(&node->log, node->shards.all[thread->index].is_quiet);
    node_cluster_thread_trim(thread);
    /* a replica that took a result may have another turn: here it costs no system call */
    for (int i = 0; i < SERVES && task->wait_ns(task) == 0; i++)
        node_cluster_thread_serve(thread);
}

/* Called from any thread when the log has news for the partition. */
static void node_cluster_on_told(void *context, uint16_t partition)
{
    struct node *node = context;

    if (node->cluster.replicas)
        node_replica_wake(&node->cluster.replicas[partition]);
}

static void node_cluster_on_written(void *context, uint64_t bytes, uint64_t ns)
{
    struct node *node = context;

    storage_written(&node->disk, bytes, ns);
}

enum error_code node_cluster_open_log(struct node *node, struct error *ret_error)
{
    node->log.config = node->config;
    node->log.storage = node->disk.storage;
    node->log.inflight = &node->counts.inflight;
    node->log.told = node_cluster_on_told;
    node->log.written = node_cluster_on_written;
    node->log.context = node;
    return node_log_open(&node->log, ret_error);
}

/* ---- in a cluster ---- */

/* Called when a log has events. */
static void node_cluster_thread_on_log(struct event_source *source, uint32_t events)
{
    (void)events;
    atomic_store(&list_item(source, struct node_replica, source)->is_woken, true);
}

/* Called when appends of any log were answered. */
static void node_cluster_thread_on_client(struct event_source *source, uint32_t events)
{
    (void)events;
    log_kafka_client_poll(
        list_item(source, struct node_replica_thread, source)->node->cluster.control->client);
}

static void node_cluster_thread_close(const struct node_replica_thread *thread)
{
    struct node_replica *replica = NULL;

    while ((replica = node_cluster_thread_next(thread, replica)))
        if (replica->replica) {
            node_cluster_replica_close(replica);
            node_cluster_replica_vanish(replica);
        }
}

/* Closes the logs after all replicas have released their partitions, because to close one may
 * take time. */
static void *node_cluster_thread_run(void *argument)
{
    struct node_replica_thread *thread = argument;

    while (!thread->has_ended)
        event_loop_turn(&thread->loop);
    node_cluster_thread_close(thread);
    return NULL;
}

static enum error_code node_cluster_thread_start(struct node *node, unsigned index,
                                                 struct error *ret_error)
{
    struct node_replica_thread *thread = &node->cluster.replica_threads[index];

    thread->is_running =
        event_loop_watch(&thread->loop, log_kafka_client_fd(node->cluster.control->client),
                         &thread->source, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE) &&
        thread_start(&thread->thread, node_cluster_thread_run, thread, "tw-replicas-%u", index) ==
            0;
    return thread->is_running ? ERROR_NONE
                              : error_set(ret_error, ERROR_IO, "no thread for the replicas");
}

/* ---- start and stop ---- */

/* Resumes from the copy of an earlier run. */
static enum error_code node_cluster_prepare(struct node *node, uint16_t index,
                                            struct error *ret_error)
{
    struct node_replica *replica = &node->cluster.replicas[index];
    const unsigned shard = index % node->shards.count;
    const bool is_alone = !node->cluster.control;
    struct storage_place place;

    replica->node = node;
    replica->partition = &node->partitions[index];
    replica->loop =
        is_alone ? &node->shards.all[shard].loop : &node->cluster.replica_threads[shard].loop;
    replica->source.ready = node_cluster_thread_on_log;
    atomic_init(&replica->is_woken, true);
    pthread_mutex_init(&replica->lock, NULL);
    list_init(&replica->batches);
    list_init(&replica->asked);
    buffer_init(&replica->claim);
    tenant_counts_init(&replica->tenants);
    buffer_init(&replica->page_rows);
    snprintf(replica->topic, sizeof(replica->topic), "%s.log", node->config->cluster_name);
    partition_set_owner(replica->partition, &node->shards.all[shard].rings);
    const enum error_code code = storage_load_place(node->disk.storage, index, &place, ret_error);
    if (code)
        return code;
    atomic_store(&replica->is_wanted, is_alone || place.next > 0);
    if (is_alone && index == NODE_HOLD_PARTITION)
        atomic_store(&replica->planned, node_self(node));
    return ERROR_NONE;
}

static enum error_code node_cluster_prepare_thread(struct node *node, unsigned index)
{
    struct node_replica_thread *thread = &node->cluster.replica_threads[index];

    thread->node = node;
    thread->index = index;
    if (!node->cluster.control) {
        thread->task = (struct event_task){.end = node_cluster_thread_commit,
                                           .wait_ns = node_cluster_thread_wait_ns};
        node->shards.all[index].committer = &thread->task;
        return ERROR_NONE;
    }
    thread->source.ready = node_cluster_thread_on_client;
    thread->task =
        (struct event_task){.end = node_cluster_thread_end, .wait_ns = node_cluster_thread_wait_ns};
    const enum error_code code = event_loop_init(&thread->loop);
    thread->has_loop = !code;
    if (!code)
        event_loop_join(&thread->loop, &thread->task);
    return code;
}

enum error_code node_cluster_init(struct node *node, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    node->cluster.delivers_once =
        brokers_has_exactly_once(senders_find(node->senders, TARGET_KAFKA));
    node->cluster.replicas = calloc(node->partition_count, sizeof(*node->cluster.replicas));
    node->cluster.replica_threads =
        calloc(node->shards.count, sizeof(*node->cluster.replica_threads));
    if (!node->cluster.replicas || !node->cluster.replica_threads) {
        free(node->cluster.replicas);
        node->cluster.replicas = NULL; /* nothing of them is to be freed */
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    }
    for (unsigned i = 0; i < node->shards.count && !code; i++)
        if (node_cluster_prepare_thread(node, i))
            code = error_set(ret_error, ERROR_IO, "no descriptor left");
    for (uint16_t i = 0; i < node->partition_count; i++) {
        const enum error_code failed = node_cluster_prepare(node, i, code ? NULL : ret_error);

        code = code ? code : failed;
    }
    return code;
}

enum error_code node_cluster_start(struct node *node, struct error *ret_error)
{
    for (unsigned i = 0; i < node->shards.count; i++) {
        const enum error_code code = node_cluster_thread_start(node, i, ret_error);

        if (code)
            return code;
    }
    return node_control_start(node, ret_error);
}

void node_cluster_stop(struct node *node)
{
    for (uint16_t i = 0; node->cluster.replicas && i < node->partition_count; i++)
        node_replica_tell(&node->cluster.replicas[i], REPLICA_RELEASE);
    for (unsigned i = 0; node->cluster.replicas && i < node->shards.count; i++) {
        struct node_replica_thread *thread = &node->cluster.replica_threads[i];

        if (thread->is_running)
            pthread_join(thread->thread, NULL);
        else
            node_cluster_thread_close(thread);
        thread->is_running = false;
    }
    node_control_stop(node);
    node_hold_end_all(node);
}

void node_cluster_free(struct node *node)
{
    node_cluster_stop(node);
    for (uint16_t i = 0; node->cluster.replicas && i < node->partition_count; i++) {
        struct node_replica *replica = &node->cluster.replicas[i];

        if (atomic_load(&replica->orders) & REPLICA_BEGIN)
            engine_destroy(replica->engine); /* no shard took it */
        buffer_deinit(&replica->claim);
        tenant_counts_deinit(&replica->tenants);
        buffer_deinit(&replica->page_rows);
        pthread_mutex_destroy(&replica->lock);
    }
    for (unsigned i = 0; node->cluster.replica_threads && i < node->shards.count; i++)
        if (node->cluster.replica_threads[i].has_loop)
            event_loop_deinit(&node->cluster.replica_threads[i].loop);
    node_control_free(node);
    free(node->cluster.replica_threads);
    node->cluster.replica_threads = NULL;
    free(node->cluster.replicas);
    node->cluster.replicas = NULL;
}
