/*
 * node_replica.h - one partition of a node in a cluster, as the threads around it see it: its
 * replica's thread (node_cluster.c), its shard, and the thread of the control topic.
 *
 * A replica has orders for the shard of its partition, which looks at them in each turn; the shard
 * has news for the replica, whose thread it wakes. Batches go to the replica in place of the commit
 * thread, and come back to the inbox of the partition.
 *
 * A node without cluster_brokers has no replicas, and node->replicas is NULL.
 *
 * Threads    Any, unless a member of the struct names its thread.
 */
#ifndef TICKWHEEL_NODE_NODE_REPLICA_H
#define TICKWHEEL_NODE_NODE_REPLICA_H

#include "cluster/planner.h"
#include "cluster/replica.h"
#include "log/kafka/log_kafka.h"
#include "node/node_once.h"
#include "node/shard.h"

enum {
    REPLICA_KEEP_LEASES = 5,
    COPY_GIVERS = 4,
    REPLICA_LOST_LEASES = 3, /* that a log may lack the next record, as with a broker that woke */
};

enum node_replica_order {
    REPLICA_BEGIN = 1, /* `engine` is the shard's from now on */
    REPLICA_DRAIN = 2,
    REPLICA_LEAVE = 4,
};

enum node_replica_news {
    REPLICA_RECOVERED = 1,
    REPLICA_DRAINED = 2,
    REPLICA_LEFT = 4,
    REPLICA_RELEASE = 8, /* the node stops */
    REPLICA_PLANNED = 16,
    REPLICA_PAGE = 32, /* of a copy, or that none comes */
};

struct node_replica {
    struct node *node;
    struct partition *partition;
    char topic[80];
    struct log *log; /* NULL: it follows none; guarded by lock for other threads */
    struct replica *replica;
    pthread_t thread;
    bool is_running;
    struct engine *engine;        /* of REPLICA_BEGIN */
    struct tenant_counts tenants; /* live timers of that engine */
    atomic_uint orders;           /* of enum node_replica_order */
    _Atomic uint64_t
        acts_until_ns;         /* on CLOCK_BOOTTIME: deliveries begin, and reads are answered */
    atomic_bool is_wanted;     /* this node has a part in it; at first, it has a copy */
    atomic_bool is_followed;   /* the log is read; if not, state to next are 0 */
    atomic_bool storage_fails; /* replica_storage_fails */
    atomic_int state;          /* enum ownership_state */
    _Atomic uint32_t owner;    /* by the log; 0: none */
    _Atomic uint64_t epoch;    /* of that owner */
    _Atomic uint64_t next;     /* the offset of the record that is read next */
    _Atomic uint32_t planned;  /* the node that is to own it; 0: none, or not known yet */
    _Atomic uint32_t coming;   /* that is to own it when it has read it; 0: none */
    _Atomic uint32_t standbys[PLAN_STANDBYS_MAX]; /* 0 behind the last one */
    _Atomic uint32_t told_owner;                  /* by the notes of members; 0: none */
    _Atomic uint64_t end;                         /* of the log, by the last note of the owner */
    _Atomic uint64_t claims, refused; /* of this process: that were valid; records that were not */
    _Atomic uint64_t log_bytes, sweeps, sweep_rows, sweep_failures, restarts; /* replica_stats */
    _Atomic uint64_t trims, trim_failures;
    _Atomic uint64_t pending;                          /* live timers, while is_counted */
    atomic_bool is_counted;                            /* they are in the counts of this node */
    _Atomic uint64_t copies, copy_rows, copy_failures; /* replica_stats */
    _Atomic uint64_t copies_given;                     /* whole, to other nodes */
    _Atomic uint32_t givers[COPY_GIVERS]; /* nodes with a copy, by their notes; 0 behind the last */
    _Atomic uint64_t giver_next;          /* the furthest that one of them has read */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC: is_wanted, news */
    struct list batches;    /* of struct storage_batch, for the replica; guarded by lock */
    unsigned news;          /* of enum node_replica_news; guarded by lock */
    bool is_asked;          /* a page is asked for; guarded by lock, as are the next three: */
    bool has_page;
    struct copy_page page;
    struct buffer page_rows;

    /* The replica's thread's. */
    struct storage_meta meta; /* of the engine that is to be made */
    bool wants_engine;
    uint64_t refused_ticket; /* an append that was not sent; 0: none */
    uint64_t trim_to;        /* records before it are to be dropped; 0: none */
    struct instant trim_at;
    struct replica_stats counted; /* in the counts above */
    struct log_kafka_options log_options;
    struct node_once *once; /* NULL: no connection delivers exactly once */
    struct buffer claim;    /* that waits until no older transaction is open */
    uint64_t claim_ticket;  /* its; 0: none waits */
    bool is_releasing, was_acting;
    struct instant release_until;
    struct instant unwanted_at; /* since when it has a copy and no part; {0}: it has one */
    bool must_clear;            /* the copy is to be dropped before another begins */
    struct node_copy_ask copy_ask;
    bool is_copying, awaits_copy; /* NODE_COPY_ASKS, NODE_COPY_WAITS */
    unsigned missed_pages;

    /* The shard's. */
    struct list asked; /* of struct node_request: commands that the engine has */
    size_t reads_out;  /* of the engine, with the read thread */
    bool is_ready, is_draining, is_drained, is_leaving;
};

/* Whether the node owns the partition and its lease holds. True without a cluster. */
bool node_replica_may_act(const struct node *node, uint16_t partition);

/* Until when that holds, on CLOCK_BOOTTIME; it moves. NULL without a cluster. */
const _Atomic uint64_t *node_replica_valid_until(const struct node *node, uint16_t partition);

/* Takes the batches of a shard, which are in a list that is empty afterwards. */
void node_replica_commit(struct node *node, struct list *batches);

/* Whether the message of the delivery is committed together with its outcome (node_once.h); and
 * takes a list of such deliveries, which is empty afterwards. */
bool node_replica_takes(const struct node *node, const struct delivery *delivery);
void node_replica_post(struct node *node, uint16_t partition, struct list *deliveries);

/* What the plan says of the partition. From any thread. */
void node_replica_plan(struct node_replica *replica, const struct plan_entry *entry);

/* Nothing is this node's, whatever the plan says; its copies stay. From any thread. */
void node_replica_refuse(struct node_replica *replica);

void node_replica_tell(struct node_replica *replica, enum node_replica_news news);

#endif
