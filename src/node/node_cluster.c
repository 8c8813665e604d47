/* node_cluster.c - the threads that serve a node's replicas; see node_cluster.h. */
#include "node/node_cluster.h"

#include "delivery/brokers.h"
#include "node/node_control.h"
#include "node/node_hold.h"
#include "node/node_members.h"
#include "node/node_serve.h"
#include "node/node_state.h"
#include "node/storage_loops.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <stdio.h>
#include <stdlib.h>

enum { SERVES = 2 }; /* turns of replicas that a turn of a shard adds */

/* Serves the replicas of the partitions of one shard: a thread in a cluster, otherwise a part of
 * the shard's turns. */
struct node_replica_thread {
    struct node *node;
    unsigned index;
    pthread_t thread;
    bool is_running, has_loop, has_ended;
    struct event_loop loop; /* in a cluster */
    struct event_task task;
    struct event_source source; /* events of the node's client of the brokers */
    uint64_t trims;             /* value of log_local_trims_due at the last trim */
};

/* ---- the threads ---- */

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
    const struct instant now = instant_boot_now();
    struct node_replica *replica = NULL;
    bool has_ended = true;

    while ((replica = node_cluster_thread_next(thread, replica))) {
        if ((atomic_load(&replica->is_woken) && atomic_exchange(&replica->is_woken, false)) ||
            now.ns >= replica->wake_at.ns)
            node_serve_turn(replica);
        has_ended = has_ended && node_serve_has_ended(replica);
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

/* Lets the log drop the records that the files of the tables contain. Also moves the places of
 * partitions without recent records: their old places would keep the log from dropping anything. */
static void node_cluster_thread_trim(struct node_replica_thread *thread)
{
    struct node_log *log = &thread->node->log;
    const uint64_t trims = log_local_trims_due(log->local);
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

/* Takes the appends that are durable, so that the engines answer them in this turn. What the
 * engines write then joins the next appends. */
static void node_cluster_thread_take(struct event_task *task)
{
    struct node_replica_thread *thread = list_item(task, struct node_replica_thread, task);
    struct instant now = instant_boot_now();
    struct node_replica *replica = NULL;

    while ((replica = node_cluster_thread_next(thread, replica)))
        if (replica->replica && atomic_load(&replica->is_woken))
            node_serve_take_events(replica, &now);
}

/* Appends the batches of this turn, and takes their results if this thread waited for the disk. */
static void node_cluster_thread_commit(struct event_task *task)
{
    struct node_replica_thread *thread = list_item(task, struct node_replica_thread, task);
    struct node *node = thread->node;

    node_cluster_thread_serve(thread);
    node_log_send(&node->log, node->shards.all[thread->index].is_quiet);
    node_cluster_thread_trim(thread);
    /* a replica that took a result may need another turn, which costs no system call here */
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
    cluster_log_client_poll(
        list_item(source, struct node_replica_thread, source)->node->cluster.control->client);
}

static void node_cluster_thread_close(const struct node_replica_thread *thread)
{
    struct node_replica *replica = NULL;

    while ((replica = node_cluster_thread_next(thread, replica)))
        node_serve_close(replica);
}

/* Closes the logs after all replicas have released their partitions, because closing a log may take
 * time. */
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

    const int fd = cluster_log_client_fd(node->cluster.control->client);

    thread->is_running = (fd < 0 || event_loop_watch(&thread->loop, fd, &thread->source,
                                                     EPOLLIN | EPOLLET | EPOLLEXCLUSIVE)) &&
                         thread_start(&thread->thread, node_cluster_thread_run, thread,
                                      "tw-replicas-%u", index) == 0;
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
        thread->task = (struct event_task){.begin = node_cluster_thread_take,
                                           .end = node_cluster_thread_commit,
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
