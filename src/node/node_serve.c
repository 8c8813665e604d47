/* node_serve.c - the turns of a replica; see node_serve.h. */
#include "node/node_serve.h"

#include "delivery/brokers.h"
#include "node/node_copy.h"
#include "node/node_engines.h"
#include "node/node_hold.h"
#include "node/node_limits.h"
#include "node/node_members.h"
#include "node/node_once.h"
#include "node/node_state.h"
#include "node/storage_health.h"
#include "node/storage_loops.h"
#include "sys/clock.h"
#include "sys/entropy.h"

#include <assert.h>

enum {
    TURN_MS = 5,   /* longest time for events of one log before other replicas have a turn */
    LOOK_MS = 100, /* longest time between two turns of a replica */
    HANDOVER_MS = 500,
    RETRY_MS = 1000,    /* interval of retries after a failure of memory or storage */
    TRIM_LEASES = 30,   /* leases by which a reader may lag when records are trimmed */
    TRIM_AGAIN = 60000, /* milliseconds until a failed trim is repeated */
    NO_NODE = 0,        /* number that no node has */
};

/* ---- what a replica has others do ---- */

static void node_serve_order(struct node_replica *replica, enum node_replica_order order)
{
    atomic_fetch_or(&replica->orders, order);
    partition_wake(replica->partition);
}

static void node_serve_log(struct node_replica *replica, uint64_t ticket, struct bytes bytes)
{
    if (log_append(replica->log, ticket, bytes, NULL))
        replica->refused_ticket = ticket;
}

/* A transaction of a former owner that is still open would hide the claim from all readers. So
 * it is ended first. */
static void node_serve_on_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct node_replica *replica = context;

    if (!replica->once || replica_state(replica->replica) != OWNERSHIP_CLAIMING) {
        node_serve_log(replica, ticket, bytes);
        return;
    }
    buffer_clear(&replica->claim);
    buffer_append_bytes(&replica->claim, bytes);
    replica->claim_ticket = ticket;
    node_once_claim(replica->once);
}

static void node_serve_on_transact(void *context, const struct replica_transaction *transaction)
{
    node_once_commit(((struct node_replica *)context)->once, transaction);
}

/* Handles the events of the thread of the transactions. */
static void node_serve_hear_once(struct node_replica *replica, struct instant now)
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
                node_serve_log(replica, claim_ticket, buffer_bytes(&replica->claim));
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

static void node_serve_on_told(void *context)
{
    node_replica_wake(context);
}

/* Reads which rows of sources the partition has taken. Returns false if that fails. */
static bool node_serve_load_ledger(struct node *node, uint16_t partition, struct buffer *to)
{
    struct error error = {.text = "what was taken from sources: out of memory"};
    enum error_code code = storage_load_ledger(node->disk.storage, partition, to, &error);

    if (code == ERROR_CORRUPT && node->config->storage_damage == CONFIG_STORAGE_DAMAGE_SKIP)
        code = ERROR_NONE;
    if (!code)
        return true;
    error.code = code;
    storage_health_note(&node->disk, &error);
    storage_committed(&node->disk, code, 0);
    return false;
}

/* Retries later if the engine cannot be allocated, or the holds or the ledger cannot be read. */
static void node_serve_make_engine(struct node_replica *replica)
{
    const struct storage_meta *meta = &replica->meta;
    struct node *node = replica->node;
    const uint16_t index = replica->partition->index;
    uint64_t seed = 0;

    assert(!replica->engine); /* the former one has gone before the log is claimed again */
    replica->wants_engine = !node_hold_load(replica);
    if (replica->wants_engine)
        return;
    entropy_u64(&seed); /* seeds only the jitter of retries */
    struct engine_options options = node_engine_options(node, index, seed);
    struct buffer ledger;
    options.tenant_counts_own = &replica->tenants;
    buffer_init(&ledger);
    if (node_serve_load_ledger(node, index, &ledger)) {
        options.ledger = buffer_bytes(&ledger);
        replica->engine = engine_create(&options, meta, node_clock_now(&node->clock));
    }
    buffer_deinit(&ledger);
    replica->wants_engine = !replica->engine;
    if (replica->wants_engine)
        return;
    node_limits_count(replica, meta->pending);
    node_serve_order(replica, REPLICA_BEGIN);
}

static void node_serve_on_begin(void *context, const struct storage_meta *meta)
{
    struct node_replica *replica = context;

    replica->meta = *meta;
    atomic_fetch_add(&replica->claims, 1);
    if (replica->log->is_private)
        storage_committed(&replica->node->disk, ERROR_NONE, 0);
    node_serve_make_engine(replica);
}

static void node_serve_on_drain(void *context)
{
    struct node_replica *replica = context;

    node_serve_order(replica, REPLICA_DRAIN);
    if (replica->once)
        node_once_drain(replica->once);
}

static void node_serve_on_leave(void *context)
{
    struct node_replica *replica = context;

    replica->wants_engine = false;
    if (replica->once)
        node_once_leave(replica->once);
    atomic_store(&replica->acts_until_ns, 0);
    node_serve_order(replica, REPLICA_LEAVE);
}

static void node_serve_on_committed(void *context, struct storage_batch *batch)
{
    struct node_replica *replica = context;
    struct node_disk *disk = &replica->node->disk;

    if (replica_is_failing(replica->replica)) /* before anyone can ask for what the storage lacks */
        atomic_store(&replica->acts_until_ns, 0);
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

static void node_serve_on_trim(void *context, uint64_t before)
{
    struct node_replica *replica = context;

    replica->trim_to = before;
    replica->trim_at = (struct instant){0};
}

/* ---- a replica that follows its log ---- */

static unsigned node_serve_take_in(struct node_replica *replica)
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

static void node_serve_hear(struct node_replica *replica, unsigned news, struct instant now)
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
static void node_serve_report(struct node_replica *replica, enum error_code code, const char *what,
                              const char *text)
{
    struct node *node = replica->node;

    struct error error;

    error_set(&error, code, "partition %u: %s: %.150s", replica->partition->index, what,
              *text ? text : error_title(code));
    storage_health_note(&node->disk, &error);
    mailbox_wake(&node->report.news);
}

static void node_serve_publish_stats(struct node_replica *replica)
{
    const struct replica_stats counted = replica->counted;
    struct replica_stats stats;

    replica_get_stats(replica->replica, &stats);
    atomic_store_explicit(&replica->log_bytes, stats.log_bytes, memory_order_relaxed);
    replica->counted = stats;
    stats.log_bytes = counted.log_bytes;
    if (!memcmp(&stats, &counted, sizeof(stats))) /* as in most turns */
        return;
    atomic_fetch_add(&replica->sweeps, stats.sweeps - counted.sweeps);
    atomic_fetch_add(&replica->sweep_rows, stats.rows - counted.rows);
    atomic_fetch_add(&replica->sweep_failures, stats.sweep_failures - counted.sweep_failures);
    atomic_fetch_add(&replica->restarts, stats.restarts - counted.restarts);
    atomic_fetch_add(&replica->copies, stats.copies - counted.copies);
    atomic_fetch_add(&replica->copy_rows, stats.copy_rows - counted.copy_rows);
    atomic_fetch_add(&replica->copy_failures, stats.copy_failures - counted.copy_failures);
}

/* Returns the state to show. A replica whose storage fails owns nothing, although its ownership
 * changes only when the place has been loaded. */
static enum ownership_state node_serve_shown_state(const struct replica *replica)
{
    const enum ownership_state state = replica_state(replica);

    return replica_storage_fails(replica) && state != OWNERSHIP_BROKEN ? OWNERSHIP_RESTORING
                                                                       : state;
}

/* Sets storage_fails. Returns true if it has changed. */
static bool node_serve_set_failing(struct node_replica *replica, bool fails)
{
    if (replica->storage_fails == fails)
        return false;
    replica->storage_fails = fails;
    atomic_fetch_add(&replica->node->disk.health.failing_replicas, fails ? 1 : -1u);
    return true;
}

static void node_serve_publish_failure(struct node_replica *replica)
{
    const bool fails = replica_storage_fails(replica->replica);

    if (!node_serve_set_failing(replica, fails) || !fails)
        return;
    atomic_fetch_add(&replica->node->disk.health.failures, 1);
    node_serve_report(replica, ERROR_IO, "the storage", replica_error(replica->replica)->text);
    storage_look(&replica->node->disk);
}

/* Publishes the replica's state to other threads. */
static void node_serve_publish(struct node_replica *replica, struct instant now)
{
    const struct instant until = replica_acts_until(replica->replica);
    const bool is_acting = now.ns < until.ns;
    const enum ownership_state state = node_serve_shown_state(replica->replica);
    const struct ownership_place *place = replica_place(replica->replica);

    atomic_store_explicit(&replica->owner, place->has_acted ? NO_NODE : place->owner,
                          memory_order_relaxed);
    atomic_store_explicit(&replica->epoch, place->epoch, memory_order_relaxed);
    atomic_store_explicit(&replica->next, place->next, memory_order_relaxed);
    atomic_store_explicit(&replica->refused, replica_refused(replica->replica),
                          memory_order_relaxed);
    if (atomic_load(&replica->acts_until_ns) != until.ns)
        atomic_store(&replica->acts_until_ns, until.ns);
    node_serve_publish_stats(replica);
    node_serve_publish_failure(replica);
    const bool is_news = atomic_load(&replica->state) != (int)state;
    if (is_news)
        atomic_store(&replica->state, (int)state);
    if (is_acting != replica->was_acting || is_news)
        partition_wake(replica->partition);
    replica->was_acting = is_acting;
    if (is_news && state == OWNERSHIP_BROKEN)
        node_serve_report(replica, ERROR_CORRUPT, "the log of the cluster",
                          replica_error(replica->replica)->text);
}

/* Any node may trim the records that a sweep made redundant, so every node repeats a failed
 * trim. */
static void node_serve_trim_log(struct node_replica *replica, struct instant now)
{
    if (!replica->trim_to || now.ns < replica->trim_at.ns)
        return;
    replica->trim_at = instant_add_ms(now, TRIM_AGAIN);
    /* fails if a trim is in flight: repeated later */
    log_trim(replica->log, replica->trim_to, NULL);
}

/* The next append of a private log removes one that is in doubt. So only the batches fail. */
static void node_serve_refuse(struct node_replica *replica, const struct log_event *event,
                              struct instant now)
{
    struct error error;

    if (!replica->log->is_private) {
        if (event->kind == LOG_FAILED)
            replica_failed(replica->replica, event->ticket, now);
        else
            replica_fenced(replica->replica, event->ticket, now);
        return;
    }
    error_set(&error, event->code, "the log: %.150s", event->reason);
    storage_health_note(&replica->node->disk, &error);
    storage_committed(&replica->node->disk, event->code, 0);
    replica->is_refused_by_log = true;
    replica_refused_append(replica->replica, event->ticket, event->code, now);
    replica->is_refused_by_log = false;
}

static void node_serve_end(struct node_replica *replica, uint64_t offset)
{
    replica_restored(replica->replica);
    if (replica->log->is_private)
        replica_pass(replica->replica, offset);
}

/* Handles an event of the log. While the replica waits for rows of another node, the log is still
 * read from where it was followed before. */
static void node_serve_handle(struct node_replica *replica, const struct log_event *event,
                              struct instant now)
{
    const bool is_read =
        event->kind == LOG_RECORD || event->kind == LOG_END || event->kind == LOG_LOST;

    if (is_read && (replica->awaits_copy || replica->is_copying))
        return;
    switch (event->kind) {
    case LOG_RECORD:
        replica_read(replica->replica, event->offset, event->bytes, now);
        break;
    case LOG_END:
        node_serve_end(replica, event->offset);
        break;
    case LOG_LANDED:
        replica_landed(replica->replica, event->ticket, event->offset, now);
        break;
    case LOG_REFUSED:
    case LOG_FAILED:
        node_serve_refuse(replica, event, now);
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
static void node_serve_follow_log(struct node_replica *replica)
{
    const enum node_copy_step step = node_copy_begin(replica);

    replica->awaits_copy = step == NODE_COPY_WAITS;
    if (step != NODE_COPY_NONE)
        return;
    if (replica_seeks(replica->replica))
        log_follow_begin(replica->log, NULL);
    else
        log_follow(replica->log, replica_next(replica->replica), NULL);
}

static struct instant node_serve_wakes_at(const struct node_replica *replica, struct instant now)
{
    const struct instant wake_at = replica_wake_at(replica->replica, now);
    /* time of the next look, which is for copies too */
    const struct instant look_at = instant_add_ms(now, LOOK_MS);

    if (replica->log->is_private && !replica->wants_engine)
        return wake_at;
    return wake_at.ns < look_at.ns ? wake_at : look_at;
}

bool node_serve_take_events(struct node_replica *replica, struct instant *now)
{
    const struct instant until = instant_add_ms(*now, TURN_MS);
    struct log_event event;

    while (now->ns < until.ns) {
        if (log_wait(replica->log, 0, &event) == LOG_NOTHING)
            return true;
        *now = instant_boot_now();
        node_serve_handle(replica, &event, *now);
    }
    return false;
}

/* Runs one turn: messages of the shard and events of the log, then the replica. So what follows
 * from an append that has landed, such as the next one, is done at once. */
static void node_serve_go(struct node_replica *replica)
{
    struct instant now = instant_boot_now();

    if (replica->once)
        node_serve_hear_once(replica, now);
    node_hold_commit(replica);
    node_serve_hear(replica, node_serve_take_in(replica), now);
    const bool took_all = node_serve_take_events(replica, &now);
    replica_turn(replica->replica, now, wall_now());
    if (replica->refused_ticket)
        replica_failed(replica->replica, replica->refused_ticket, now);
    replica->refused_ticket = 0;
    if (replica->wants_engine)
        node_serve_make_engine(replica);
    const bool is_rewound = replica_take_rewind(replica->replica);
    if (is_rewound || replica->awaits_copy)
        node_serve_follow_log(replica);
    node_serve_trim_log(replica, now);
    node_serve_publish(replica, now);
    replica->wake_at =
        took_all && !is_rewound ? node_serve_wakes_at(replica, now) : (struct instant){0};
}

/* True if a stop must wait until this replica has released its partition. */
static bool node_serve_owns(const struct node_replica *replica)
{
    const enum ownership_state state = replica_state(replica->replica);

    return state == OWNERSHIP_RECOVERING || state == OWNERSHIP_ACTIVE ||
           state == OWNERSHIP_DRAINING;
}

/* True if the copy is to be dropped: the plan has not named this node for a while. */
static bool node_serve_is_over(struct node_replica *replica)
{
    const struct instant now = instant_boot_now();
    const uint64_t keep_ms = REPLICA_KEEP_LEASES * replica->node->config->cluster_lease_ms;

    if (atomic_load(&replica->is_wanted) || !replica_is_idle(replica->replica))
        replica->unwanted_at = (struct instant){0};
    else if (replica->unwanted_at.ns == 0)
        replica->unwanted_at = now;
    return replica->unwanted_at.ns && now.ns >= instant_add_ms(replica->unwanted_at, keep_ms).ns;
}

static enum error_code node_serve_open_once(struct node_replica *replica, struct error *ret_error)
{
    const struct node_once_options options = {
        .config = replica->node->config,
        .partitions = replica->node->partitions,
        .brokers = senders_find(replica->node->senders, TARGET_KAFKA),
        .client = replica->node->cluster.control->client,
        .log = replica->log,
        .partition = replica->partition->index,
        .told = node_serve_on_told,
        .context = replica,
    };

    return node_once_start(&options, &replica->once, ret_error);
}

static enum error_code node_serve_open_shared(struct node_replica *replica, struct error *ret_error)
{
    const struct node *node = replica->node;
    const uint64_t lost_ms = REPLICA_LOST_LEASES * node->config->cluster_lease_ms;
    const uint16_t index = replica->partition->index;
    struct cluster_log_client *client = node->cluster.control->client;

    const enum error_code code = cluster_log_open(client, index, lost_ms, &replica->log, ret_error);
    if (code)
        return code;
    if (event_loop_watch(replica->loop, log_fd(replica->log), &replica->source, EPOLLIN | EPOLLET))
        return ERROR_NONE;
    log_close(replica->log);
    replica->log = NULL;
    return error_set(ret_error, ERROR_IO, "the log cannot be watched");
}

/* Returns the options of a node without a cluster, whose log is its own. */
static struct replica_options node_serve_private_options(const struct node *node)
{
    return (struct replica_options){
        .cluster = node->log.cluster,
        .lease_ms = node->config->cluster_lease_ms,
        .handover_ms = HANDOVER_MS,
    };
}

static struct replica_options node_serve_shared_options(const struct node *node)
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

static enum error_code node_serve_create(struct node_replica *replica, struct error *ret_error)
{
    const struct node *node = replica->node;
    struct replica_options options =
        node->cluster.control ? node_serve_shared_options(node) : node_serve_private_options(node);
    const struct replica_events events = {
        .context = replica,
        .append = node_serve_on_append,
        .transact = node_serve_on_transact,
        .begin = node_serve_on_begin,
        .drain = node_serve_on_drain,
        .leave = node_serve_on_leave,
        .committed = node_serve_on_committed,
        .trim = node_serve_on_trim,
    };

    options.node = node_self(node);
    options.partition = replica->partition->index;
    options.storage = node->disk.storage;
    options.is_private = replica->log->is_private;
    if (entropy_u64(&options.seed) != ERROR_NONE)
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    return replica_create(&options, &events, instant_boot_now(), &replica->replica, ret_error);
}

static enum error_code node_serve_open(struct node_replica *replica, struct error *ret_error)
{
    struct node *node = replica->node;
    enum error_code code = ERROR_NONE;

    assert(!replica->replica && !replica->log && !replica->once);
    if (node->cluster.control)
        code = node_serve_open_shared(replica, ret_error);
    else
        replica->log = log_local_partition(node->log.local, replica->partition->index);
    if (code)
        return code;
    code = node_serve_create(replica, ret_error);
    if (!code && node->cluster.delivers_once)
        code = node_serve_open_once(replica, ret_error);
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
    node_serve_follow_log(replica);
    return ERROR_NONE;
}

/* Stops the replica and closes its log. Batches that wait go back to the engine. */
static void node_serve_shut(struct node_replica *replica)
{
    assert(replica->replica && replica->log);
    node_copy_end(replica);
    /* the node may have been told to stop since the last turn */
    if (node_serve_take_in(replica) & REPLICA_RELEASE)
        replica->is_releasing = true;
    replica_stop(replica->replica);
    node_once_stop(replica->once);
    replica->once = NULL;
    log_close(replica->log);
    replica->log = NULL;
    replica_destroy(replica->replica);
    replica->replica = NULL;
}

static enum error_code node_serve_clear(struct node_replica *replica, struct error *ret_error)
{
    const struct storage_place nothing = {0};
    const enum error_code code = storage_partition_clear(
        replica->node->disk.storage, replica->partition->index, &nothing, ret_error);

    replica->must_clear = code != ERROR_NONE;
    return code;
}

static void node_serve_vanish(struct node_replica *replica)
{
    atomic_store(&replica->is_followed, false);
    atomic_store(&replica->state, OWNERSHIP_RESTORING);
    atomic_store(&replica->owner, NO_NODE);
    atomic_store(&replica->epoch, 0);
    atomic_store(&replica->next, 0);
    atomic_store(&replica->log_bytes, 0);
}

void node_serve_close(struct node_replica *replica)
{
    if (!replica->replica)
        return;
    node_serve_shut(replica);
    node_serve_vanish(replica);
}

static enum error_code node_serve_drop(struct node_replica *replica, struct error *ret_error)
{
    node_serve_shut(replica);
    const enum error_code code = node_serve_clear(replica, ret_error);
    node_serve_vanish(replica);
    return code;
}

/* ---- turns ---- */

/* Follows the log if this node has a part in the partition. */
static enum error_code node_serve_begin(struct node_replica *replica, struct error *ret_error)
{
    enum error_code code = replica->must_clear ? node_serve_clear(replica, ret_error) : ERROR_NONE;

    node_serve_set_failing(replica, replica->must_clear);
    if (code || !atomic_load(&replica->is_wanted))
        return code;
    code = node_serve_open(replica, ret_error);
    if (code)
        return code;
    replica->unwanted_at = (struct instant){0};
    atomic_store(&replica->is_followed, true);
    return ERROR_NONE;
}

bool node_serve_has_ended(struct node_replica *replica)
{
    if (replica->replica)
        return replica->is_releasing &&
               (!node_serve_owns(replica) || instant_boot_now().ns >= replica->release_until.ns);
    pthread_mutex_lock(&replica->lock);
    const bool is_stopped = replica->news & REPLICA_RELEASE;
    pthread_mutex_unlock(&replica->lock);
    return is_stopped || replica->is_releasing;
}

void node_serve_turn(struct node_replica *replica)
{
    struct error error = {.text = ""};
    enum error_code code = ERROR_NONE;

    replica->wake_at = (struct instant){UINT64_MAX};
    if (node_serve_has_ended(replica))
        return;
    if (!replica->replica)
        code = node_serve_begin(replica, &error);
    else if (!replica->is_releasing && node_serve_is_over(replica))
        code = node_serve_drop(replica, &error);
    if (code) {
        node_serve_report(replica, code, "a copy", error.text);
        replica->wake_at = instant_add_ms(instant_boot_now(), RETRY_MS);
    } else if (replica->replica) {
        node_serve_go(replica);
    }
}
