/*
 * node.h - one machine's service without its HTTP face: storage, shards and deliveries on their
 * threads.
 *
 *     shard threads   run the engines of their partitions; take commands, completions and outcomes
 *     commit thread   writes what waits for the log of the node, with one sync
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
#include "cluster/peers.h"
#include "delivery/broker_connection.h"
#include "delivery/queue.h"
#include "delivery/sender.h"
#include "delivery/targets.h"
#include "engine/command.h"
#include "engine/given_up.h"
#include "node/feed.h"
#include "timer/schedule.h"
#include "timer/definitions.h"
#include "timer/target_pauses.h"
#include "calendar/zones.h"
#include "ops/config.h"
#include "ops/figures.h"
#include "ops/metrics_text.h"
#include "sys/event_loop.h"

struct node;

/* A command with a callback for its answer. Embed it and fill in `command`, `trace` and `done`.
 * The caller owns it and keeps it until `done` is called. */
struct node_request {
    struct list link_;
    struct command command;
    struct trace_parent trace; /* trace that the client sent; all 0 if none */
    void (*done)(
        struct node_request *request); /* command.timer and .page are valid only during the call */
    struct instant submitted_;
    /* tenant's share in which the request counts while it is in flight */
    struct tenant_pot_share *share_;
    struct peers_request peer_; /* used while another node handles the request */
};

/* Callbacks that report events of the node for the log. Called from any thread; they must return
 * soon. */
struct node_events {
    void *context;
    void (*target_changed)(void *context, const struct target_status *status); /* may be NULL */
    /* Called on a shard's thread. The callee frees `given_up` with free(). May be NULL. */
    void (*given_up)(void *context, struct given_up *given_up);
};

/* In a cluster: says which partitions are this node's, and reaches the other nodes. May be
 * called from any thread, and never waits. */
struct node_route {
    void *context;
    bool (*is_here)(void *context, uint16_t partition);
    /* Returns the node that owns a partition which is not here; 0 if unknown. */
    uint32_t (*owner)(void *context, uint16_t partition);
    /* Takes requests for partitions of other nodes. Each comes back by node_answered, with its
     * timers and its patch owned as an engine owns them, or by node_take_back. */
    void (*pass)(void *context, struct list *requests);
    /* Asks another node for a page of a copy; may call `done` at once. NULL if copies are not
     * available. */
    void (*copy)(void *context, struct peers_copy *copy);
};

/* Opens the storage, recovers every partition and starts the threads. The config and the metrics
 * are borrowed until node_stop; `events` and `route` may be NULL, and are copied. */
enum error_code node_start(const struct config *config, struct metrics *metrics,
                           const struct node_events *events, const struct node_route *route,
                           struct node **ret_node, struct error *ret_error);

/* Stops in this order: refuses new work (STOPPING), lets deliveries in flight end for
 * `config.drain_ms`, commits the last batch, ends the threads, closes the storage. Every request
 * is answered before it returns. */
void node_stop(struct node *node);

/* Hands a request to its partition's engine (command.partition), or a survey of a node to that
 * node. On OVERLOADED (too much is in flight), STOPPING and DISK_FULL nothing was taken and
 * `done` is not called. */
enum error_code node_submit(struct node *node, struct node_request *request);

/* Like node_submit, but the request waits in the caller's list `outbox` until node_send. So
 * requests that arrive together wake a shard once. */
enum error_code node_submit_later(struct node *node, struct node_request *request,
                                  struct list *outbox);

/* Hands over the requests of an outbox and empties it. */
void node_send(struct node *node, struct list *outbox);

/* Submits a request that another node passed on to an engine of this node, even if another node
 * owns the partition by now. */
enum error_code node_submit_here(struct node *node, struct node_request *request);

/* Reads the page of a copy that begins at page->at from the disk, and appends its rows to `to`.
 * Returns false if this node gives no copy. */
bool node_give_copy(struct node *node, struct copy_page *page, struct buffer *to);

/* Completes a request that the route took: calls `done`. May be called from any thread. */
void node_answered(struct node *node, struct node_request *request);

/* Takes back a request whose partition this node owns now, and hands it to the engine. May be
 * called from any thread. */
void node_take_back(struct node *node, struct node_request *request);

/* A request of a worker to a queue. Embed it and fill in `queue`, `done` and, for a lease,
 * `leased`. A lease takes items of one shard after another: `leased` is called for each shard,
 * on its thread, and copies what it needs of `queue.leases`. `done` is called last. */
struct node_queue_request {
    struct list link_;
    struct queue_request queue;
    void (*leased)(struct node_queue_request *request); /* LEASE */
    void (*done)(struct node_queue_request *request);   /* called on any thread */
    /* Private fields of the node. */
    struct instant wait_until_; /* deadline of the wait in the queue; a shard answers at once */
    uint64_t wait_timer_;
    unsigned visited_; /* number of shards without items that were asked */
    bool has_items_;   /* whether `leased` was called */
    /* whether it is on the board; guarded by the board's lock, like the next field */
    bool is_waiting_;
    bool is_given_up_; /* whether it no longer waits */
    /* The worker's request in whose place it waits; and the one that waits on the board in place
     * of this one. NULL if there is none. */
    struct node_queue_request *whole_, *here_;
    struct node_acks *acks_;         /* acknowledgement of which it is a part, or NULL */
    struct tenant_pot_share *share_; /* share that counts its receipts */
};

/* Hands the request to the queue; in a cluster, to the queues of the nodes that have its items.
 * On OVERLOADED, STOPPING and NO_MEMORY nothing was taken and `done` is not called. */
enum error_code node_queue_submit(struct node *node, struct node_queue_request *request);

/* Says that the worker of a lease may be gone: the lease waits no longer, and is answered
 * without items unless a shard is giving it some. May be called while the request exists, even
 * after `done`. */
void node_queue_give_up(struct node *node, struct node_queue_request *request);

/* A copy of all timers, made while the node runs. Embed it and fill in `at` and `done`, which is
 * called on a thread of its own. The caller keeps it until then. */
struct node_backup {
    void (*done)(struct node_backup *backup);
    struct wall at; /* time that it is named by */
    uint32_t keep;  /* of a planned backup: maximum of planned ones to keep; 0 if not planned */
    enum error_code result;
    struct error error; /* cause of the failure */
    char name[64];      /* name of its folder: the time in UTC */
    char folder[4096];  /* path of that folder, in config.backup_folder */
    struct storage_backup copy;
    struct wall finished;
    uint32_t removed;         /* number of older backups that were deleted */
    struct error prune_error; /* why an older one was not deleted; code 0 if none failed */
    struct node *node_;
};

/* Begins a backup, which has everything that was acknowledged before. On BACKUP_OFF (no
 * backup_folder), BACKUP_RUNS (another one runs), DISK_FULL, STOPPING and NO_MEMORY `done` is
 * not called. */
enum error_code node_backup_start(struct node *node, struct node_backup *backup);

/* Checks backup_cron and backup_timezone. ERROR_INVALID names the setting. */
enum error_code node_backup_check_settings(const struct config *config, struct error *ret_error);

/* Begins the backup that backup_cron plans, if it is due. Returns for how many ms the next look may
 * wait, UINT64_MAX without backup_cron; node_news_fd is readable when a backup has ended.
 * *ret_ended is a planned backup that has ended since the last look, or could not begin; NULL if
 * there is none. It is valid until the next call. For one thread. */
uint64_t node_backup_look(struct node *node, struct wall now, const struct node_backup **ret_ended);

#define NODE_NOTE_SIZE_MAX 256 /* maximum size of a note of a maintenance */

enum node_hold_kind {
    /* Pauses a queue or a target of a tenant, by its name (timer/target_pauses.h): none of its
     * deliveries begins. A second pause replaces `until` and the note. */
    NODE_HOLD_PAUSE,
    NODE_HOLD_RESUME, /* no effect if it is not paused */
    /* Maintenance: no delivery of any tenant begins. A second one replaces the note. */
    NODE_HOLD_MAINTAIN,
    NODE_HOLD_END,
    /* Closes the breakers of a tenant's target and of its paths, which is tried at once.
     * TOO_MANY if NODE_RESETS_TENANT_MAX of the tenant, or NODE_RESETS_MAX of all, were reset in
     * the last NODE_RESET_MS. Not durable: a node has no open breakers when it starts. */
    NODE_HOLD_RESET,
    /* Drains a node of the cluster, which then owns no partition; a second drain has no effect.
     * INVALID if the node is the last that takes partitions; NOT_FOUND if the cluster has no such
     * node, or there is no cluster. */
    NODE_HOLD_DRAIN,
    NODE_HOLD_UNDRAIN, /* no effect if the node is not drained */
    /* Defines something by its name, or replaces its definition. VERSION_MISMATCH if `version` of
     * the definition is neither NODE_ANY_VERSION nor that of the definition; 0 means that there is
     * none. TOO_MANY at a limit of timer/definitions.h. */
    NODE_HOLD_DEFINE,
    NODE_HOLD_UNDEFINE, /* likewise; NOT_FOUND if there is none */
};

#define NODE_RESET_MS          UINT64_C(60000)
#define NODE_RESETS_TENANT_MAX TARGET_PAUSES_TENANT_MAX
#define NODE_RESETS_MAX        TARGET_PAUSES_MAX

#define NODE_ANY_VERSION UINT64_MAX

/* A change of pauses, maintenance, drained nodes or definitions. Embed it and fill in `kind` to
 * `done`. The caller keeps it and its texts until `done` is called, on any thread, perhaps within
 * node_hold. */
struct node_hold {
    struct list link_;
    enum node_hold_kind kind;
    struct wall at;            /* now */
    struct target_pause pause; /* RESUME, RESET: tenant and name; MAINTAIN: note */
    uint32_t node;             /* DRAIN, UNDRAIN: the node */
    /* DEFINE: tenant, key and value; UNDEFINE: tenant and key; both: the expected version */
    struct definition definition;
    void (*done)(struct node_hold *hold);
    enum error_code result;
    struct error error; /* cause of the failure */
    size_t reset_count; /* RESET: number of breakers with failures on this node */
    uint64_t version;   /* DEFINE: version of the definition */
    uint32_t witness_;  /* DRAIN: another node, which takes partitions */
};

/* Makes the change durable, which waits for the disk or for the log of the cluster, and then
 * calls `done`. On this node no delivery that it holds back begins in a turn after `done`, nor
 * after the answer to a survey. Other nodes of a cluster make the change when they have read it.
 * Fails with TOO_MANY at the limits of pauses; in a cluster also with IN_DOUBT and OVERLOADED. */
void node_hold(struct node *node, struct node_hold *hold);

/* Returns true while maintenance is on, with its note. */
bool node_maintenance(struct node *node, char ret_note[NODE_NOTE_SIZE_MAX], size_t *ret_size);

struct node_advance;

/* Returns what moves the virtual clock (node_advance.h); NULL if the clock is real. */
struct node_advance *node_advance(const struct node *node);

/* Returns the pauses of all tenants. The caller leaves the table (target_pauses_leave). */
struct target_pauses *node_pauses(struct node *node);

/* Returns the named targets, which seal secrets and open them (delivery/named.h). */
struct named *node_named(const struct node *node);

/* Returns the definitions of all tenants: those of named_targets_file, and of the log all others.
 * The caller leaves the table (definitions_leave). */
struct definitions *node_definitions(struct node *node);

/* Returns the definitions of the log alone. The caller leaves the table. */
struct definitions *node_stored_definitions(struct node *node);

/* Reads named_targets_file again; without that setting it does nothing. If it fails, the former
 * definitions stay. */
enum error_code node_reload_named_targets(struct node *node, struct error *ret_error);

/* Answers all waiting workers without items; later ones do not wait. */
void node_queue_stop_waiting(struct node *node);

uint16_t node_partition_count(const struct node *node);

unsigned node_shard_count(const struct node *node);

/* ---- of a cluster; without cluster_brokers there are no members ---- */

#define NODE_ADDRESS_SIZE 256

/* Returns the id of the cluster, from the first record of its control topic; 0 without a
 * cluster. */
uint64_t node_cluster_id(const struct node *node);

/* True if the brokers of the cluster accept no appends, with the reason. */
bool node_brokers_trouble(struct node *node, char *ret_reason, size_t size);

/* Returns the wall time by which the node acts, rounded up to the next millisecond. In a cluster
 * it does not step before the brokers' clock confirms the step. */
struct wall node_wall_coming(struct node *node);

/* True if this node owns the partition and its lease is valid. If not, `ret_node` is the owner
 * as far as this node knows: by the log, or else by the plan; 0 if unknown. This function and
 * the next two may be called from any thread and do not wait. */
bool node_owns(struct node *node, uint16_t partition, uint32_t *ret_node);

/* Returns "host:port" at which other nodes reach this member, from its last note. Returns false
 * if the node is no member or has no address. */
bool node_peer_address(struct node *node, uint32_t member, char ret_address[NODE_ADDRESS_SIZE]);

struct node_member_view {
    uint32_t node;
    bool is_alive, is_planner;
    bool is_stopping; /* it is stopping or has stopped, and must own nothing */
    bool is_drained;  /* it must own nothing, until it is undrained */
    unsigned weight;  /* relative share of the partitions; 0 for none */
    unsigned load;    /* used part of the time of its shards, in thousandths */
    struct wall seen; /* time at which its last note was read; {0} if this process read none */
    struct bytes address, peer_address, zone; /* empty if unknown */
};

/* Calls `tell` for each member in order of numbers, dead ones included for some minutes. `tell`
 * copies the texts. */
void node_members(struct node *node,
                  void (*tell)(void *context, const struct node_member_view *member),
                  void *context);

#define NODE_STANDBYS_MAX 3

#define NODE_OTHERS_MAX 64

/* Returns the number of other nodes that a survey of all nodes asks, and their ids: nodes that
 * are alive and not stopping, and nodes that own a partition. */
size_t node_others(struct node *node, uint32_t ret_nodes[NODE_OTHERS_MAX]);

struct node_partition_view {
    uint32_t owner, planned; /* owner by the log and by the plan; 0 if none or unknown */
    /* node that becomes the owner, by the plan, when it has read the log; 0 if none */
    uint32_t next;
    uint32_t standbys[NODE_STANDBYS_MAX]; /* standbys by the plan; unused elements are 0 */
    /* behind: number of records that this node has not read */
    uint64_t epoch, behind;
    const char *state; /* state on this node, a word of docs/cluster-design.md */
};

/* Returns false without a cluster. */
bool node_partition(struct node *node, uint16_t partition, struct node_partition_view *ret_view);

/* Sets the address at which other nodes reach this node; the next note has it. Longer ones are
 * cut at NODE_ADDRESS_SIZE. */
void node_tell_address(struct node *node, const char *address);

/* Writes a text that tells the timers of this node from those of all others, across restarts: the
 * id of its log, or in a cluster the id of that and the number of the node. */
void node_name_log(const struct node *node, char *ret_text, size_t size);

/* Sets the secret of the cluster, which is not empty (control_set_secret). `ret_is_founded`: the
 * cluster is still founded with the old one. May be called from any thread. On NO_MEMORY nothing
 * changes. */
enum error_code node_set_secret(struct node *node, struct bytes secret, bool *ret_is_founded);

/* Returns the partition for `count` new timers without a key, on the thread of that shard. It
 * usually is one of the shard's own, which needs no other thread. It is another shard's if the
 * own ones have more timers than the others. In a cluster it is one of this node, if there is
 * any. */
uint16_t node_partition_next(struct node *node, unsigned shard, size_t count);

/* Returns the event loops of the shards' threads. Tasks that submit from there get their answers
 * without a wake-up. The loops run until node_stop. */
struct event_loop *const *node_loops(struct node *node);

/* Returns the loop that serves the listener for other nodes: that of the control topic. It runs
 * until node_stop. */
struct event_loop *node_peers_loop(struct node *node);

/* Returns the source of time zones by name, for requests. It has no calendars. */
struct zone_source node_zones(struct node *node);

/* Returns the calendars of holidays; the caller leaves the table (calendars_leave). */
struct calendars *node_calendars(struct node *node);

/* Reads the files of the setting `calendars` again. If it fails, the former ones stay. */
enum error_code node_reload_calendars(struct node *node, struct error *ret_error);

/* Returns the calendars that timers need and that are missing. */
void node_missing_calendars(struct node *node, struct absent_names *ret_missing);

/* Reads the disk to see whether the tz database of the machine changed. */
void node_refresh_zones(struct node *node);

/* Returns the time zones that timers need and that are not on this machine. */
void node_missing_zones(struct node *node, struct absent_names *ret_missing);

/* Checks whether a timer may be created with this target. INVALID has the reason. May be called
 * from any thread. */
enum error_code node_check_target(const struct node *node, struct bytes tenant, struct bytes text,
                                  const struct target *target, struct error *ret_error);

/* Passes the secrets, certificates and broker connections of these settings to the senders. All
 * other settings stay as they were at the start. */
void node_reload(struct node *node, const struct config *config, senders_told told, void *context);

/* Appends the public keys of the tokens that webhooks carry, as a JWK set. */
void node_append_key_set(struct node *node, struct buffer *out);

/* Returns the feed of changes of timers, for clients that watch. */
struct feed *node_feed(struct node *node);

/* Returns the state of the broker connection `index`. False if there is none. */
bool node_broker_status(const struct node *node, size_t index, struct broker_status *ret_status);

/* Returns the state of the target of a timer. False if its kind has no breaker. */
bool node_target_status(const struct node *node, const struct timer *timer,
                        struct target_status *ret_status);

struct node_health {
    bool is_ready;     /* recovered, storage works, takes creates, not stopping */
    bool is_recovered; /* all partitions have been read, and deliveries begin */
    char reason[256];  /* reason why it is not ready */
    char detail[256];  /* fault of a node that is ready, and maintenance; empty if none */
};

/* Returns the number of dead letters dropped because of dead_bytes_max. */
uint64_t node_dead_dropped(struct node *node);

/* Returns the number of deliveries that the delivery log could not write, and the cause of the last
 * failure. A disk that is nearly full is no failure. */
uint64_t node_deliveries_failed(struct node *node, struct error *ret_cause);

/* Returns what exports spans; NULL without otlp_endpoint. */
struct spans *node_spans(const struct node *node);

/* Returns the number of spans that were dropped, and the last cause. */
uint64_t node_spans_dropped(struct node *node, struct error *ret_cause);

/* Returns the points of a window of the history of this node's figures (ops/figures.h), in order of
 * time, and how many there are. */
size_t node_history(struct node *node, enum figures_window window, struct wall now,
                    struct figures_point ret_points[FIGURES_POINTS]);

/* Returns the last damage or failure of the file of the history; its text is empty if there was
 * none. */
void node_history_trouble(struct node *node, struct error *ret_trouble);

/* Returns the number of timers that the second scan found overdue and in no phase
 * (engine/second_scan.h). */
uint64_t node_missed_found(struct node *node);

/* Damage that the storage found when it was opened, and the last failure of a read or commit,
 * for the log. Empty texts mean none. */
struct node_damage {
    char found[STORAGE_FOUND_SIZE];
    struct error failed;
};

void node_damage(struct node *node, struct node_damage *ret_damage);

void node_health(struct node *node, struct node_health *ret_health);

/* Returns a descriptor for poll. It is readable when the health, the damage or the dead letters
 * may have changed (not the brokers), until node_take_news. For one thread. */
int node_news_fd(const struct node *node);
void node_take_news(struct node *node);

/* Calls `tell` with the live timers of each tenant that has or had some, on all nodes as far as
 * their notes say. The unnamed tenant's name is empty. `tell` copies the name. */
void node_tenants(struct node *node,
                  void (*tell)(void *context, struct bytes tenant, uint64_t pending),
                  void *context);

/* Counts of requests that the rate of a tenant refused. `each` calls back for each tenant with
 * some. */
struct node_refusals {
    void *context;
    void (*each)(void *context, void (*tell)(void *to, struct bytes tenant, uint64_t refused),
                 void *to);
};

/* Sets the counts that surveys of this node report. With NULL surveys report none; it waits
 * until a running survey ends. */
void node_set_refusals(struct node *node, const struct node_refusals *refusals);

/* maximum of rows of one tenant's queues in metrics_waiting.queues */
#define NODE_QUEUE_ROWS_MAX 64

#define NODE_SOURCE_TROUBLE_SIZE 160

/* Sets what the health tells of sources of timers that are not read; empty for nothing. Anyone may
 * see it. */
void node_set_source_trouble(struct node *node, const char *text);

/* Returns the waiting timers by queue and by tenant. */
void node_waiting(struct node *node, struct metrics_waiting *ret_waiting);

/* Updates the gauges in `metrics` (pending, oldest overdue, disk, memory, ...) before they are
 * shown. */
void node_refresh_metrics(struct node *node);

#endif
