/*
 * shard.h - a thread with the partitions that it owns: their engines, and its part of the queues.
 *
 *   node.c           start, stop, admission
 *   node_status.c    health, metrics, and the state of targets and brokers
 *   node_queue.c     requests of workers, on their way to a shard
 *   node_work.c      and on their way to other nodes
 *   node_survey.c    answers of the node about itself, and the nodes that are asked
 *   shard.c          a shard's thread
 *   shard_queue.c    its queue
 *   shard_move.c     partitions that change their shard
 *   partition.c      the inbox of a partition, and its owner
 *   feed.c           changes of timers, for the clients that watch
 *   node_cluster.c   replicas of a cluster's partitions, which follow their logs
 *   node_control.c   members and plan of the cluster
 *   node_limits.c    limits of live timers that hold over all nodes
 *   shard_cluster.c  their engines on a shard
 *   census.c         waiting timers by name, in bounded rows
 *   queue_board.c    which shard has items of a queue, and the workers that wait for them
 *   storage_loops.c  the commit thread and the read thread, which all shards share
 *   backup.c         copies of the storage
 *   maintenance.c    holds all deliveries back
 *   pauses.c         holds back deliveries to the queues and targets that are paused
 *   node_hold.c      changes of both, which a cluster has in its control topic
 *
 * The commit thread takes the batches of all shards that wait, and syncs once for all of them.
 */
#ifndef TICKWHEEL_NODE_SHARD_H
#define TICKWHEEL_NODE_SHARD_H

#include "delivery/brokers.h"
#include "delivery/sender.h"
#include "engine/budget.h"
#include "node/census.h"
#include "node/node.h"
#include "node/node_clock.h"
#include "node/node_counts.h"
#include "node/partition.h"
#include "node/queue_board.h"
#include "sys/clock.h"
#include "sys/mailbox.h"

#include <stdatomic.h>

/* Report of a shard for other threads. */
struct shard_report {
    struct engine_stats stats; /* sum over its partitions */
    struct queue_stats queue;
    uint64_t used_ns; /* processor time of its thread */
    bool is_ready;    /* its partitions have been recovered */
    bool is_drained;  /* while stopping: no delivery is in flight */
    bool is_finished; /* its thread has ended */
};

struct shard {
    struct node *node;
    unsigned index;
    pthread_t thread;
    struct event_loop loop;     /* loop of the thread, which others may join */
    struct mailbox rings;       /* struct partition: those with messages */
    struct mailbox workers;     /* struct node_queue_request: leases */
    struct shard_report report; /* guarded by the node's report_lock */

    /* Private to the thread. */
    struct partition **partitions; /* partitions that it owns; has room for all */
    size_t partition_count;
    size_t placed; /* number of partitions that node_partition_next has chosen */
    struct event_task task;
    struct queue *queue;
    struct queue_heads *heads;
    struct wall now, advanced_at; /* wall time of this turn, and of the last */
    struct instant turn_at;       /* time of this turn */
    struct instant reported;
    bool is_stale; /* whether there were turns since the last report */
    /* in a cluster: whether all copies have once been read up to the ends of their logs */
    bool has_read;
    struct clock_alarm alarm; /* for waits that a step of the clock may end */
    struct event_source alarm_source;
    struct wall alarm_at; /* time to which the alarm is set; 0 if it is not */
};

/* Health of the storage. Times are nanoseconds of CLOCK_BOOTTIME. */
struct storage_health {
    _Atomic uint64_t probed_ns;      /* begin of the running probe; 0 if none runs */
    _Atomic uint64_t read_failed_ns; /* time of the last read that failed; 0 if none did */
    _Atomic uint64_t since_ns;       /* begin of the failure; 0 if the storage works */
    _Atomic uint64_t worked_ns;      /* time since when it works again */
    _Atomic uint64_t failures;       /* number of times that probes or replicas began to fail */
    atomic_bool gives_up;            /* storage_health_gives_up */
};

struct node {
    const struct config *config;
    struct metrics *metrics;
    struct storage *storage;
    struct targets *targets;
    struct node_events events;
    struct node_route route; /* all 0 if every partition is here */
    struct senders *senders;
    struct queue_board *board;
    struct feed *feed;
    struct census *queues, *tenants; /* waiting timers by queue and by tenant */
    pthread_mutex_t refusals_lock;   /* guards `refusals` */
    struct node_refusals refusals;   /* all 0 if refusals are not counted */
    struct budget *budget;           /* places in flight that the engines share */
    struct node_counts counts;
    struct zones *zones;
    uint16_t partition_count;
    unsigned shard_count, shards_running;
    struct partition *partitions;
    struct node_replica *replicas; /* [partition_count], node_cluster.h; NULL without a cluster */
    atomic_uint copies;            /* copies from other nodes that are under way */
    /* whether a connection delivers in transactions of the log; node_once.h */
    bool delivers_once;
    struct node_control *control; /* node_control.h; NULL without a cluster */
    struct node_clock clock;
    struct shard *shards;
    struct event_loop *loops[SHARDS_MAX]; /* loops of the shards */

    pthread_mutex_t commit_lock; /* held during a commit */
    _Atomic uint64_t commit_ns;  /* decaying maximum of recent commit durations */
    struct mailbox to_commit, to_read;
    struct mailbox news; /* woken when the results of node_health or node_damage may have changed */
    pthread_t commit_thread, read_thread;

    pthread_mutex_t backup_lock; /* guards the next two fields */
    pthread_t backup_thread;
    bool has_backup_thread; /* whether a thread must be joined */
    atomic_bool backs_up;   /* whether a backup runs */

    /* number of leases sent to other nodes; rotates the first node to ask */
    atomic_uint gathers;
    _Atomic uint64_t placed;    /* number of timers placed by node_partition_next */
    atomic_uint next_partition; /* next partition for timers that no shard keeps */
    atomic_bool is_failing;     /* the last commit failed */
    struct storage_health health;
    atomic_bool is_damaged;     /* a partition cannot be read */
    atomic_bool is_lost;        /* the data folder was removed or replaced */
    atomic_bool is_disk_full;   /* free disk is below the reserve */
    atomic_bool is_disk_scarce; /* less than disk_reserve_bytes above the reserve is free */
    struct tenant_pot disk;     /* bytes of creates while is_disk_scarce */
    atomic_bool is_choked;     /* timers in doubt after failed commits fill their share of memory */
    atomic_bool is_stopping;   /* no more work is admitted */
    atomic_bool is_held;       /* maintenance: no delivery begins */
    pthread_mutex_t hold_lock; /* guards the next field, and the file of the maintenance */
    char hold_note[NODE_NOTE_SIZE_MAX];
    size_t hold_note_size;
    struct target_pause_board pauses; /* paused queues and targets */
    pthread_mutex_t pause_lock;       /* serializes changes and guards their file */
    atomic_bool shards_end;           /* shards end when nothing is in flight */
    atomic_bool shards_give_up;       /* shards end at once */
    atomic_bool wants_look;           /* the read thread should check the disk */
    _Atomic uint64_t looked_ns;       /* time of its last check */
    _Atomic uint64_t unlooked_bytes;  /* committed since */
    atomic_bool storage_ends; /* the commit and read threads end when their mailboxes are empty */

    pthread_mutex_t report_lock;   /* guards the fields below, and the reports of the shards */
    pthread_cond_t report_changed; /* on CLOCK_MONOTONIC */
    struct storage_stats storage_stats;
    struct error storage_error; /* last read or commit that failed; empty text if none did */
};

/* ---- storage_health.c ---- */

/* Checks each second, on the read thread, whether the storage works. */
void storage_health_look(struct node *node);

/* Notes that a read of a partition failed. */
void storage_health_read_failed(struct node *node);

/* True if other nodes should own this node's partitions: its storage has failed for a lease, or
 * has not answered for two. It stays true until the storage has worked for two leases. Called on
 * the thread of the control topic. */
bool storage_health_gives_up(struct node *node, struct instant now);

/* True if the storage fails, with the reason. */
bool storage_health_fails(struct node *node, char *ret_reason, size_t size);

/* ---- storage_loops.c ---- */

void *commit_loop(void *node);

/* Commits small batches on the thread of a shard if the disk is quick and no commit runs.
 * Returns false if the commit thread must do it. */
bool commit_here(struct node *node, struct list *batches);

void *read_loop(void *node);

#define STORAGE_GROUP_MAX 1024 /* maximum of batches in one commit */
/* number of writes from which a commit takes only small batches */
#define STORAGE_GROUP_WRITES_MAX 1024

/* Batches of one commit. */
struct storage_group {
    struct storage_batch *batches[STORAGE_GROUP_MAX];
    size_t count, write_count;
};

/* Moves waiting batches into the group: the oldest until it has enough writes, then all small
 * ones. So a single request waits for a bounded part of a large batch. Batches of one partition
 * keep their order. */
void storage_gather(struct storage_group *group, struct list *waiting);

/* Asks the read thread to check the disk, at most once a second. */
void storage_look(struct node *node);

/* ---- shard.c ---- */

/* Initializes everything but the thread and the partitions. Returns false if out of memory or
 * file descriptors. */
bool shard_init(struct shard *shard, struct node *node, unsigned index, const uint8_t *secret);
void shard_deinit(struct shard *shard);

void *shard_run(void *shard);

/* Wakes all shards after a change that no message reports. */
void node_wake_shards(struct node *node);

/* Adds the partition to the shard before its thread starts. */
void shard_add(struct shard *shard, struct partition *partition);

/* Sends off what the engines want done. */
void shard_send_off(struct shard *shard);

/* Fails everything that engines still wait for, after all threads have ended, so that every
 * request is answered. */
void shard_fail_rest(struct shard *shard);

/* ---- shard_queue.c ---- */

bool shard_queue_create(struct shard *shard, const uint8_t *secret);
void shard_queue_destroy(struct shard *shard);

/* Takes the workers' new requests. */
void shard_queue_take_in(struct shard *shard);
void shard_queue_submit(struct shard *shard, struct node_queue_request *request);

/* Does the work of a turn, within bounds. */
void shard_queue_turn(struct shard *shard);

/* Completes everything that was begun, so that a partition may leave the node. */
void shard_queue_settle(struct shard *shard);

/* Gives everything back at a stop. */
void shard_queue_drain(struct shard *shard);

/* Returns how long it has nothing to do, if nothing arrives. */
uint64_t shard_queue_wait_ns(struct shard *shard, struct instant now);

/* ---- node_queue.c ---- */

/* Sends a lease to where it continues, or answers it. */
void node_queue_route(struct node *node, struct node_queue_request *request);

/* Answers a lease without items. */
void node_queue_answer_empty(struct node_queue_request *request);

/* Notes that one part of an acknowledgement is answered. */
void node_queue_acks_done(struct node_queue_request *request);

/* ---- node_work.c ---- */

/* Begins a request of another node, or one whose partition this node owns now. The queue of this
 * node answers it; it is counted as in flight. */
void node_work_begin(struct node *node, struct node_request *request);

/* Passes the receipts of one partition to the node that owns it. node_queue_acks_done follows in
 * any case. */
void node_work_report(struct node *node, uint16_t partition, struct node_queue_request *part);

/* True if a lease may find items on other nodes. */
bool node_work_is_elsewhere(const struct node *node);

/* Takes a lease, asks the queue of this node and then those of others. Returns NO_MEMORY, or the
 * errors of node_queue_submit. */
enum error_code node_work_gather(struct node *node, struct node_queue_request *request);

/* ---- node_survey.c ---- */

/* Answers a survey of this node by `done` before it returns. On STOPPING it was not taken. */
enum error_code node_survey_answer(struct node *node, struct node_request *request);

/* ---- maintenance.c ---- */

/* Resumes, at the start, a maintenance that was not ended. Not in a cluster. */
enum error_code maintenance_load(struct node *node, struct error *ret_error);

/* Begins and ends maintenance durably, by the file. maintenance_show changes only the memory. */
enum error_code maintenance_begin(struct node *node, struct bytes note, struct error *ret_error);
enum error_code maintenance_end(struct node *node, struct error *ret_error);
void maintenance_show(struct node *node, bool is_held, struct bytes note);

/* ---- pauses.c ---- */

/* Reads the pauses of queues and targets at the start; in a cluster there are none yet. */
enum error_code pauses_load(struct node *node, struct error *ret_error);

/* Changes pauses durably, in the file. */
enum error_code pauses_put(struct node *node, const struct target_pause *pause,
                           struct error *ret_error);
enum error_code pauses_remove(struct node *node, struct bytes tenant, struct bytes name,
                              struct wall now, struct error *ret_error);

/* Applies NODE_HOLD_RESET on this node. */
enum error_code pauses_reset(struct node *node, struct bytes tenant, struct bytes name,
                             struct wall now, size_t *ret_count, struct error *ret_error);

/* Reports to clients that watch whether the queue or target of that name is paused now. */
void pauses_tell(struct node *node, struct bytes tenant, struct bytes name);
enum error_code pauses_refuse(enum error_code code, struct error *ret_error);

/* Writes the pauses into the folder of a backup. */
enum error_code pauses_back_up(struct node *node, const char *folder, struct error *ret_error);

/* ---- backup.c ---- */

/* Waits for the running backup. */
void backup_join(struct node *node);

#endif
