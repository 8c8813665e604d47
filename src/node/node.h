/*
 * node.h - one machine's service without its HTTP face: storage, shards and deliveries on their
 * threads.
 *
 *     shard threads   run the engines of their partitions; take commands, completions and outcomes
 *     commit thread   writes the batches of all shards that wait, with one sync
 *     read thread     finds and scans
 *     sender threads  deliver (delivery/sender.h)
 *     backup thread   copies the storage, while a backup is made
 *
 * They exchange messages only; everything in flight is counted and bounded at admission.
 *
 * Threads    All calls but start and stop from any thread. `done` of a request is called on a
 *            shard's thread, or on any when another node has answered, of a queue's request on any
 *            thread: it copies the reply and returns.
 */
#ifndef TICKWHEEL_NODE_NODE_H
#define TICKWHEEL_NODE_NODE_H

#include "cluster/copy.h"
#include "delivery/broker_connection.h"
#include "delivery/queue.h"
#include "delivery/sender.h"
#include "delivery/targets.h"
#include "engine/command.h"
#include "engine/given_up.h"
#include "node/feed.h"
#include "timer/schedule.h"
#include "timer/target_pauses.h"
#include "calendar/zones.h"
#include "ops/config.h"
#include "ops/metrics.h"
#include "sys/event_loop.h"

struct node;

/* A command with someone to answer. Embed it, fill in `command`, `trace` and `done`; it stays the
 * caller's and must live until `done` was called. */
struct node_request {
    struct list link_;
    struct command command;
    struct trace_parent trace; /* that the client named; all 0: none */
    void (*done)(
        struct node_request *request); /* command.timer and .page are valid only during it */
    struct instant submitted_;
    struct tenant_pot_share *share_; /* where it is counted while it is in flight */
};

/* What the node tells of itself as it happens, for the log. From any thread; soon. */
struct node_events {
    void *context;
    void (*target_changed)(void *context, const struct target_status *status); /* may be NULL */
    /* On a shard's thread. It takes `given_up`, which is to be freed with free(). May be NULL. */
    void (*given_up)(void *context, struct given_up *given_up);
};

/* A page of a copy of a partition (cluster/copy.h) that another node is asked for. */
struct node_copy_ask {
    uint32_t node;
    struct storage_export at; /* where the page begins */
    /* Once, from any thread, perhaps within the call that asks. The page is valid only during it;
     * NULL: none comes. */
    void (*done)(struct node_copy_ask *ask, const struct copy_page *page);
};

/* In a cluster: which partitions are this node's, and the way to the others. From any thread; the
 * calls do not wait. */
struct node_route {
    void *context;
    bool (*is_here)(void *context, uint16_t partition);
    /* The node that owns the partition, which is not here; 0: unknown. */
    uint32_t (*owner)(void *context, uint16_t partition);
    /* Takes requests for partitions of other nodes. Each comes back by node_answered, with its
     * timers and its patch taken as an engine takes them, or by node_take_back. */
    void (*pass)(void *context, struct list *requests);
    /* Asks another node for a page of a copy. NULL: no node gives one. */
    void (*copy)(void *context, struct node_copy_ask *ask);
};

/* Opens the storage, recovers every partition and starts the threads. The config and the metrics
 * are borrowed until node_stop; `events` and `route` may be NULL, and are copied. */
enum error_code node_start(const struct config *config, struct metrics *metrics,
                           const struct node_events *events, const struct node_route *route,
                           struct node **ret_node, struct error *ret_error);

/* Stops in order: no new work (STOPPING), deliveries out may end for `config.drain_ms`, the last
 * batch is committed, threads end, storage closes. Every request was answered before it returns. */
void node_stop(struct node *node);

/* Hands a request to its partition's engine (command.partition), or a survey of a node to that
 * node. OVERLOADED when too much is in flight, STOPPING, DISK_FULL: then nothing was taken and
 * `done` is not called. */
enum error_code node_submit(struct node *node, struct node_request *request);

/* Like node_submit, but the request waits in `outbox`, a list that the caller keeps, until
 * node_send. So requests that come together wake a shard once. */
enum error_code node_submit_later(struct node *node, struct node_request *request,
                                  struct list *outbox);

/* Hands over the requests of an outbox, which is empty afterwards. */
void node_send(struct node *node, struct list *outbox);

/* A request that another node passed on: to the engine of this node, wherever the partition is. */
enum error_code node_submit_here(struct node *node, struct node_request *request);

/* Reads the page of a copy that begins at page->at, and puts its rows behind `to`. False: this node
 * gives none. It reads from the disk. */
bool node_give_copy(struct node *node, struct copy_page *page, struct buffer *to);

/* A request that the route took has its answer: calls `done`. From any thread. */
void node_answered(struct node *node, struct node_request *request);

/* Its partition has come here: the engine takes it. From any thread. */
void node_take_back(struct node *node, struct node_request *request);

/* What a worker asks of a queue. Embed it, fill in `queue`, `done` and for a lease `leased`. A
 * lease takes items of one shard after the other: `leased` is called for each, on its thread, and
 * copies what it needs of `queue.leases`, in the order of the shard. `done` comes last. */
struct node_queue_request {
    struct list link_;
    struct queue_request queue;
    void (*leased)(struct node_queue_request *request); /* LEASE */
    void (*done)(struct node_queue_request *request);   /* on any thread */
    /* The node's own. */
    struct instant wait_until_; /* the queue's; a shard answers at once */
    uint64_t wait_timer_;
    unsigned visited_;               /* shards that were asked although they have nothing */
    bool has_items_;                 /* `leased` was called */
    bool is_waiting_;                /* on the board; guarded by its lock, like the next */
    bool is_given_up_;               /* it does not wait any more */
    struct node_acks *acks_;         /* it is a part of these, or NULL */
    bool is_here_;                   /* it is not passed to other nodes */
    struct tenant_pot_share *share_; /* where its receipts are counted */
};

/* Hands it to the queue; in a cluster, to the queues of other nodes where theirs are the items.
 * OVERLOADED, STOPPING, NO_MEMORY: then nothing was taken and `done` is not called. */
enum error_code node_queue_submit(struct node *node, struct node_queue_request *request);

/* The worker of a lease that was submitted may be gone: it waits no more, and is answered with
 * nothing unless a shard is giving it items. While the request lives, also after `done`. */
void node_queue_give_up(struct node *node, struct node_queue_request *request);

/* A copy of all timers, made while the node runs. Embed it and fill in `done`; it stays the
 * caller's and must live until `done` was called, on a thread of its own. */
struct node_backup {
    void (*done)(struct node_backup *backup);
    enum error_code result;
    struct error error; /* what went wrong */
    char name[64];      /* of its folder: the time in UTC */
    char folder[4096];  /* that folder, in config.backup_folder */
    struct storage_backup copy;
    struct wall finished;
    struct node *node_;
};

/* Begins one. Whatever was acknowledged before is in it. BACKUP_OFF without a folder for them,
 * BACKUP_RUNS while another is under way, DISK_FULL, STOPPING, NO_MEMORY: then `done` is not
 * called. */
enum error_code node_backup_start(struct node *node, struct node_backup *backup);

#define NODE_NOTE_SIZE_MAX 256 /* of a maintenance */

enum node_hold_kind {
    /* A queue or a target of a tenant, by its name (timer/target_pauses.h): none of its deliveries
     * begins. A second pause replaces `until` and the note. */
    NODE_HOLD_PAUSE,
    NODE_HOLD_RESUME, /* if it is paused */
    /* Maintenance: no delivery of any tenant begins. A second one replaces the note. */
    NODE_HOLD_MAINTAIN,
    NODE_HOLD_END,
    /* Closes the breakers of a target of a tenant and of its paths, and has it tried at once.
     * TOO_MANY: NODE_RESETS_TENANT_MAX of the tenant, or NODE_RESETS_MAX of all, were reset in the
     * last NODE_RESET_MS. Not durable: a node that starts meanwhile has no open breakers. */
    NODE_HOLD_RESET,
};

#define NODE_RESET_MS          UINT64_C(60000)
#define NODE_RESETS_TENANT_MAX TARGET_PAUSES_TENANT_MAX
#define NODE_RESETS_MAX        TARGET_PAUSES_MAX

/* A change of pauses or maintenance. Embed it and fill in `kind` to `done`; it stays the caller's,
 * with its texts, until `done` was called: on any thread, perhaps within node_hold. */
struct node_hold {
    struct list link_;
    enum node_hold_kind kind;
    struct wall at;            /* now */
    struct target_pause pause; /* RESUME, RESET: tenant and name; MAINTAIN: note */
    void (*done)(struct node_hold *hold);
    enum error_code result;
    struct error error; /* what went wrong */
    size_t reset_count; /* RESET: breakers that had failures, on this node */
};

/* Makes the change, durable and for good: it waits for the disk, or for the log of the cluster. No
 * delivery that it holds back begins on this node in a turn that begins after `done`, nor after the
 * answer to a survey; other nodes of a cluster make it when they have read it.
 * TOO_MANY: as many are paused as may be; IN_DOUBT, OVERLOADED: of a cluster. */
void node_hold(struct node *node, struct node_hold *hold);

/* Whether it is on, and its note. */
bool node_maintenance(struct node *node, char ret_note[NODE_NOTE_SIZE_MAX], size_t *ret_size);

/* The pauses of all tenants; the caller leaves the table (target_pauses_leave). */
struct target_pauses *node_pauses(struct node *node);

/* Whether the file of pauses can be read, in a data folder at rest. */
enum error_code node_check_pauses(const char *folder, struct error *ret_error);

/* From now on no worker waits: those that do are answered, with nothing. */
void node_queue_stop_waiting(struct node *node);

uint16_t node_partition_count(const struct node *node);

unsigned node_shard_count(const struct node *node);

/* ---- of a cluster; without cluster_brokers there are no members ---- */

#define NODE_ADDRESS_SIZE 256

/* The id of the cluster, from the first record of its control topic; 0 without a cluster. */
uint64_t node_cluster_id(const struct node *node);

/* Whether the brokers of the cluster take no appends, and why. */
bool node_brokers_trouble(struct node *node, char *ret_reason, size_t size);

/* The wall time by which the node acts, rounded up to the next millisecond. In a cluster it does
 * not step before the brokers' clock confirms it. */
struct wall node_wall_coming(struct node *node);

/* Whether the partition is this node's, and its lease holds. If not, `ret_node` is its owner as far
 * as this node knows: by the log, or else by the plan; 0: unknown. From any thread, as the next
 * two; they do not wait. */
bool node_owns(struct node *node, uint16_t partition, uint32_t *ret_node);

/* "host:port" at which other nodes reach this member, as its last note says. False: the node is no
 * member, or has told no address. */
bool node_peer_address(struct node *node, uint32_t member, char ret_address[NODE_ADDRESS_SIZE]);

struct node_member_view {
    uint32_t node;
    bool is_alive, is_planner;
    bool is_stopping; /* or has stopped: it is to own nothing */
    unsigned weight;  /* its share of the partitions; 0: none */
    unsigned load;    /* parts in 1,000 of the time of its shards that are used */
    struct wall seen; /* when its last note was read; {0}: never by this process */
    struct bytes address, peer_address, zone; /* empty: not told */
};

/* Tells of the members by number, dead ones too for some minutes. `tell` copies the texts. */
void node_members(struct node *node,
                  void (*tell)(void *context, const struct node_member_view *member),
                  void *context);

#define NODE_STANDBYS_MAX 3

#define NODE_OTHERS_MAX 64

/* The other nodes of the cluster that a survey of all nodes asks, by their numbers: those that are
 * alive and do not stop, and those that own a partition. Returns how many. */
size_t node_others(struct node *node, uint32_t ret_nodes[NODE_OTHERS_MAX]);

struct node_partition_view {
    uint32_t owner, planned; /* by the log, by the plan; 0: none, or not known */
    uint32_t next;           /* by the plan: owns it when it has read its log; 0: none */
    uint32_t standbys[NODE_STANDBYS_MAX]; /* by the plan; 0 behind the last one */
    uint64_t epoch, behind;               /* behind: records that this node has not read */
    const char *state;                    /* of this node, a word of docs/cluster-design.md */
};

/* False: there is no cluster. */
bool node_partition(struct node *node, uint16_t partition, struct node_partition_view *ret_view);

/* The address of this node for the other ones: it is in the next note. Cut at NODE_ADDRESS_SIZE. */
void node_tell_address(struct node *node, const char *address);

/* The secret of the cluster, not empty, is this one from now on, as control_set_secret has it.
 * `ret_is_founded`: the cluster is founded with the one before. From any thread. NO_MEMORY: nothing
 * changed. */
enum error_code node_set_secret(struct node *node, struct bytes secret, bool *ret_is_founded);

/* The partition for `count` new timers that no name ties to one. On the thread of that shard: one
 * of its own as a rule, so that they need no other thread; another shard's when its own are ahead,
 * so that the partitions stay even. In a cluster one of this node, if it has any. */
uint16_t node_partition_next(struct node *node, unsigned shard, size_t count);

/* The loops of the shards' threads, for tasks that submit from there, which answers reach without a
 * wake-up. They run until node_stop. */
struct event_loop *const *node_loops(struct node *node);

/* Time zones by name, for requests. */
struct zone_source node_zones(struct node *node);

/* Looks whether the tz database of the machine changed. Reads the disk. */
void node_refresh_zones(struct node *node);

/* Time zones that timers need and that are not on this machine. */
void node_missing_zones(struct node *node, struct zones_missing *ret_missing);

/* Whether a timer may be created with this target: INVALID says why not. From any thread. */
enum error_code node_check_target(const struct node *node, struct bytes tenant, struct bytes text,
                                  const struct target *target, struct error *ret_error);

/* The senders take over the secrets, certificates and broker connections of these settings. All
 * others are as at the start. */
void node_reload(struct node *node, const struct config *config, senders_told told, void *context);

/* The changes of timers, for the clients that watch. */
struct feed *node_feed(struct node *node);

/* How the broker connection `index` stands; false when there is none. */
bool node_broker_status(const struct node *node, size_t index, struct broker_status *ret_status);

/* How the target of the timer stands; false when its kind has no breaker. */
bool node_target_status(const struct node *node, const struct timer *timer,
                        struct target_status *ret_status);

struct node_health {
    bool is_ready;     /* recovered, storage works, takes creates, not stopping */
    bool is_recovered; /* all partitions have been read: what is due is delivered */
    char reason[256];  /* why it is not ready */
    char detail[256];  /* a fault although it is ready; empty: none */
};

/* Dead letters that were dropped because of dead_bytes_max. */
uint64_t node_dead_dropped(struct node *node);

/* Timers that the second scan found overdue and in no phase (engine/second_scan.h). */
uint64_t node_missed_found(struct node *node);

/* What the storage found wrong when it was opened, and how the last read or commit failed, for the
 * log; empty: nothing. */
struct node_damage {
    char found[STORAGE_FOUND_SIZE];
    struct error failed;
};

void node_damage(struct node *node, struct node_damage *ret_damage);

void node_health(struct node *node, struct node_health *ret_health);

/* For poll: readable when the health, the damage or the dead letters may have changed, brokers
 * apart; until node_take_news. Of one thread. */
int node_news_fd(const struct node *node);
void node_take_news(struct node *node);

/* Tells how many live timers each tenant has that has, or had, some: on all nodes, by the notes of
 * the others. The unnamed tenant's name is empty. `tell` copies the name. */
void node_tenants(struct node *node,
                  void (*tell)(void *context, struct bytes tenant, uint64_t pending),
                  void *context);

/* Counts of the requests that the rate of a tenant refused; `each` tells of tenants with some. */
struct node_refusals {
    void *context;
    void (*each)(void *context, void (*tell)(void *to, struct bytes tenant, uint64_t refused),
                 void *to);
};

/* From now on surveys of this node tell of them. NULL: of none; it waits until a survey that is
 * under way is over. */
void node_set_refusals(struct node *node, const struct node_refusals *refusals);

#define NODE_QUEUE_ROWS_MAX 64 /* of the queues of a tenant, among metrics_waiting.queues */

/* The waiting timers by queue and by tenant. */
void node_waiting(struct node *node, struct metrics_waiting *ret_waiting);

/* Brings the gauges in `metrics` (pending, oldest overdue, disk, memory, ...) up to date. Called
 * before they are shown. */
void node_refresh_metrics(struct node *node);

#endif
