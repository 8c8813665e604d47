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

/* What a shard tells other threads about itself. */
struct shard_report {
    struct engine_stats stats; /* the sum of its partitions */
    struct queue_stats queue;
    uint64_t used_ns; /* the time that its thread has used */
    bool is_ready;    /* its partitions are recovered */
    bool is_drained;  /* while stopping: no delivery is out */
    bool is_finished; /* its thread has ended */
};

struct shard {
    struct node *node;
    unsigned index;
    pthread_t thread;
    struct event_loop loop;     /* of the thread, for others to join */
    struct mailbox rings;       /* of struct partition: it has messages */
    struct mailbox workers;     /* of struct node_queue_request: leases */
    struct shard_report report; /* guarded by the node's report_lock */

    /* The thread's own. */
    struct partition **partitions; /* that it owns; room for all */
    size_t partition_count;
    size_t placed; /* how often node_partition_next has chosen one of them */
    struct event_task task;
    struct queue *queue;
    struct queue_heads *heads;
    struct wall now, advanced_at; /* of this turn, and of the last */
    struct instant turn_at;       /* of this turn */
    struct instant reported;
    bool is_stale;            /* turns have passed since the last report */
    bool has_read;            /* in a cluster: once, all copies up to the ends of their logs */
    struct clock_alarm alarm; /* for the waits that a step of the clock may end */
    struct event_source alarm_source;
    struct wall alarm_at; /* that it is set to; 0: none */
};

/* Whether the storage works. Times are nanoseconds of CLOCK_BOOTTIME. */
struct storage_health {
    _Atomic uint64_t probed_ns;      /* begin of the probe that is under way; 0: none is */
    _Atomic uint64_t read_failed_ns; /* the last read that failed; 0: none did */
    _Atomic uint64_t since_ns;       /* since when it fails; 0: it works */
    _Atomic uint64_t worked_ns;      /* since when it works again */
    _Atomic uint64_t failures;       /* of probes and replicas: how often it began to fail */
    atomic_bool gives_up;            /* storage_health_gives_up */
};

struct node {
    const struct config *config;
    struct metrics *metrics;
    struct storage *storage;
    struct targets *targets;
    struct node_events events;
    struct node_route route; /* all 0: every partition is here */
    struct senders *senders;
    struct queue_board *board;
    struct feed *feed;
    struct census *queues, *tenants; /* waiting timers by queue, by tenant */
    pthread_mutex_t refusals_lock;   /* guards the next */
    struct node_refusals refusals;   /* all 0: none are counted */
    struct budget *budget;           /* places in flight, which the engines share */
    struct node_counts counts;
    struct zones *zones;
    uint16_t partition_count;
    unsigned shard_count, shards_running;
    struct partition *partitions;
    struct node_replica *replicas; /* [partition_count], node_cluster.h; NULL: no cluster */
    atomic_uint copies;            /* of other nodes that are under way */
    bool delivers_once;            /* a connection does, in transactions of the log; node_once.h */
    struct node_control *control;  /* node_control.h; NULL: no cluster */
    struct node_clock clock;
    struct shard *shards;
    struct event_loop *loops[SHARDS_MAX]; /* of the shards */

    pthread_mutex_t commit_lock; /* held during a commit */
    _Atomic uint64_t commit_ns;  /* what commits took lately, the slow ones above all */
    struct mailbox to_commit, to_read;
    struct mailbox news; /* woken when what node_health or node_damage tells may have changed */
    pthread_t commit_thread, read_thread;

    pthread_mutex_t backup_lock; /* guards the next two */
    pthread_t backup_thread;
    bool has_backup_thread; /* to be joined */
    atomic_bool backs_up;   /* one is under way */

    atomic_uint gathers;     /* leases that were taken to other nodes, to begin with each of them */
    _Atomic uint64_t placed; /* timers given to partitions by node_partition_next */
    atomic_uint next_partition; /* of those that no shard keeps */
    atomic_bool is_failing;     /* the last commit failed */
    struct storage_health health;
    atomic_bool is_damaged;     /* a partition cannot be read */
    atomic_bool is_lost;        /* the data folder was removed or replaced */
    atomic_bool is_disk_full;   /* free disk is below the reserve */
    atomic_bool is_disk_scarce; /* less than disk_reserve_bytes above the reserve is free */
    struct tenant_pot disk;     /* bytes of the creates since then */
    atomic_bool is_choked;     /* timers in doubt after failed commits have their share of memory */
    atomic_bool is_stopping;   /* nothing more is admitted */
    atomic_bool is_held;       /* maintenance: no delivery begins */
    pthread_mutex_t hold_lock; /* guards the next, and the file of the maintenance */
    char hold_note[NODE_NOTE_SIZE_MAX];
    size_t hold_note_size;
    struct target_pause_board pauses; /* queues and targets that are paused */
    pthread_mutex_t pause_lock;       /* one change at a time, and its file */
    atomic_bool shards_end;           /* shards end as soon as nothing is out ... */
    atomic_bool shards_give_up;       /* ... or at once */
    atomic_bool wants_look;           /* the read thread is to look after the disk */
    _Atomic uint64_t looked_ns;       /* when it did last, an instant */
    _Atomic uint64_t unlooked_bytes;  /* committed since */
    atomic_bool storage_ends; /* the commit and read threads end when their mailboxes are empty */

    pthread_mutex_t report_lock;   /* guards what follows, and the reports of the shards */
    pthread_cond_t report_changed; /* on CLOCK_MONOTONIC */
    struct storage_stats storage_stats;
    struct error storage_error; /* of the last read or commit that failed; text empty: none did */
};

/* ---- storage_health.c ---- */

/* On the read thread, each second: notes whether the storage works. */
void storage_health_look(struct node *node);

/* A read of a partition failed. */
void storage_health_read_failed(struct node *node);

/* Whether others are to own the partitions of this node: its storage has failed for a lease, or has
 * not answered for two. It stays so until the storage has worked for two leases. On the thread of
 * the control topic. */
bool storage_health_gives_up(struct node *node, struct instant now);

/* Whether the storage fails, and why. */
bool storage_health_fails(struct node *node, char *ret_reason, size_t size);

/* ---- storage_loops.c ---- */

void *commit_loop(void *node);

/* Commits small batches on the thread of a shard if the disk is quick and no commit is under way.
 * False: it is for the commit thread. */
bool commit_here(struct node *node, struct list *batches);

void *read_loop(void *node);

#define STORAGE_GROUP_MAX        1024 /* batches in one commit */
#define STORAGE_GROUP_WRITES_MAX 1024 /* from here on a commit takes small batches only */

/* What one commit makes durable. */
struct storage_group {
    struct storage_batch *batches[STORAGE_GROUP_MAX];
    size_t count, write_count;
};

/* Moves batches that wait into the group: the oldest until it has enough writes, then all small
 * ones: a single request waits for a bounded part of a large batch. Those of one partition keep
 * their order. */
void storage_gather(struct storage_group *group, struct list *waiting);

/* Has the read thread look after the disk, at most once a second. */
void storage_look(struct node *node);

/* ---- shard.c ---- */

/* Everything but the thread and the partitions. False: no memory, or no file descriptors. */
bool shard_init(struct shard *shard, struct node *node, unsigned index, const uint8_t *secret);
void shard_deinit(struct shard *shard);

void *shard_run(void *shard);

/* Has all shards look at what changed, when no message says so. */
void node_wake_shards(struct node *node);

/* Makes the partition the shard's, before its thread starts. */
void shard_add(struct shard *shard, struct partition *partition);

/* Sends off what the engine wants done. */
void shard_send_off(struct shard *shard);

/* After all threads have ended: fails what the engines still wait for, so that every request is
 * answered. */
void shard_fail_rest(struct shard *shard);

/* ---- shard_queue.c ---- */

bool shard_queue_create(struct shard *shard, const uint8_t *secret);
void shard_queue_destroy(struct shard *shard);

/* Takes in what workers ask. */
void shard_queue_take_in(struct shard *shard);
void shard_queue_submit(struct shard *shard, struct node_queue_request *request);

/* Does what there is to do now, within bounds. */
void shard_queue_turn(struct shard *shard);

/* Serves everything that was begun, so that a partition may leave the node. */
void shard_queue_settle(struct shard *shard);

/* At a stop: gives everything back. */
void shard_queue_drain(struct shard *shard);

/* How long it has nothing to do, if nothing comes. */
uint64_t shard_queue_wait_ns(struct shard *shard, struct instant now);

/* ---- node_queue.c ---- */

/* Sends a lease where it goes next, or answers it. */
void node_queue_route(struct node *node, struct node_queue_request *request);

/* Answers a lease with nothing. */
void node_queue_answer_empty(struct node_queue_request *request);

/* One of the parts of an acknowledgement is answered. */
void node_queue_acks_done(struct node_queue_request *request);

/* ---- node_work.c ---- */

/* A request of another node, or one whose partition has come here: the queue of this node answers
 * it. It is counted as in flight. */
void node_work_begin(struct node *node, struct node_request *request);

/* Passes the receipts of one partition, which another node owns, to that node. In any case
 * node_queue_acks_done follows. */
void node_work_report(struct node *node, uint16_t partition, struct node_queue_request *part);

/* Whether a lease may find items at other nodes. */
bool node_work_is_elsewhere(const struct node *node);

/* Takes a lease: asks the queue of this node, and then those of others. NO_MEMORY, or what
 * node_queue_submit says. */
enum error_code node_work_gather(struct node *node, struct node_queue_request *request);

/* ---- node_survey.c ---- */

/* Answers a survey of this node, with `done`, before it returns. STOPPING: it was not taken. */
enum error_code node_survey_answer(struct node *node, struct node_request *request);

/* ---- maintenance.c ---- */

/* At the start: goes on with the maintenance that was not ended. Not in a cluster. */
enum error_code maintenance_load(struct node *node, struct error *ret_error);

/* Durable, in the file; and what they have in common, without it. */
enum error_code maintenance_begin(struct node *node, struct bytes note, struct error *ret_error);
enum error_code maintenance_end(struct node *node, struct error *ret_error);
void maintenance_show(struct node *node, bool is_held, struct bytes note);

/* ---- pauses.c ---- */

/* At the start: reads the pauses of queues and targets; in a cluster there are none yet. */
enum error_code pauses_load(struct node *node, struct error *ret_error);

/* Durable, in the file. */
enum error_code pauses_put(struct node *node, const struct target_pause *pause,
                           struct error *ret_error);
enum error_code pauses_remove(struct node *node, struct bytes tenant, struct bytes name,
                              struct wall now, struct error *ret_error);

/* NODE_HOLD_RESET on this node. */
enum error_code pauses_reset(struct node *node, struct bytes tenant, struct bytes name,
                             struct wall now, size_t *ret_count, struct error *ret_error);

/* Tells the clients that watch whether the queue or the target of that name is paused now. */
void pauses_tell(struct node *node, struct bytes tenant, struct bytes name);
enum error_code pauses_refuse(enum error_code code, struct error *ret_error);

/* Writes them into the folder of a backup. */
enum error_code pauses_back_up(struct node *node, const char *folder, struct error *ret_error);

/* ---- backup.c ---- */

/* Waits for the one under way. */
void backup_join(struct node *node);

#endif
