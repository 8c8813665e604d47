/*
 * node_replica.h - one partition of a node in a cluster, as the threads around it see it: its
 * replica's thread (node_serve.c), its shard, and the thread of the control topic.
 *
 * A replica has orders for the shard of its partition, which looks at them in each turn; the shard
 * has news for the replica, which it wakes. Batches go to the replica in place of the commit
 * thread, and come back to the inbox of the partition.
 *
 * In a node without a cluster the shard's thread serves the replicas of its partitions, whose logs
 * are files of the node (node_log.h) and private: the node owns each partition as soon as it has
 * read its log.
 *
 * Threads    Any, unless a member of the struct names its thread.
 */
#ifndef TICKWHEEL_NODE_NODE_REPLICA_H
#define TICKWHEEL_NODE_NODE_REPLICA_H

#include "cluster/planner.h"
#include "cluster/replica_copy.h"
#include "log/kafka/log_kafka.h"
#include "node/node.h"
#include "node/node_once.h"
#include "node/partition.h"
#include "sys/event_loop.h"

enum {
    REPLICA_KEEP_LEASES = 5,
    COPY_GIVERS = 4,
    /* leases for which the next record may be missing, as after a broker was stopped */
    REPLICA_LOST_LEASES = 3,
};

enum node_replica_order {
    REPLICA_BEGIN = 1, /* the shard owns `engine` from now on */
    REPLICA_DRAIN = 2,
    REPLICA_LEAVE = 4,
};

enum node_replica_news {
    REPLICA_RECOVERED = 1,
    REPLICA_DRAINED = 2,
    REPLICA_LEFT = 4,
    REPLICA_RELEASE = 8, /* release the partition, because the node stops */
    REPLICA_PLANNED = 16,
    REPLICA_PAGE = 32, /* a page of a copy, or the news that none comes */
};

struct node_replica {
    struct node *node;
    struct partition *partition;
    struct event_loop *loop;      /* loop of the thread that serves the replica */
    atomic_bool is_woken;         /* the replica is to have a turn */
    struct engine *engine;        /* of REPLICA_BEGIN */
    struct tenant_counts tenants; /* live timers of that engine */
    atomic_uint orders;           /* bits of enum node_replica_order */
    _Atomic uint64_t
        /* limit on CLOCK_BOOTTIME for beginning deliveries and answering reads */
        acts_until_ns;
    /* this node has a part in the partition, or had a copy at the start */
    atomic_bool is_wanted;
    atomic_bool is_followed;  /* the log is followed; if not, `state` to `next` are 0 */
    atomic_int state;         /* enum ownership_state */
    _Atomic uint32_t owner;   /* owner by the log; 0 if none */
    _Atomic uint64_t epoch;   /* epoch of that owner */
    _Atomic uint64_t next;    /* offset of the record to read next */
    _Atomic uint32_t planned; /* owner by the plan; 0 if none or unknown */
    _Atomic uint32_t coming;  /* node that becomes the owner when it has read the log; 0 if none */
    _Atomic uint32_t standbys[PLAN_STANDBYS_MAX]; /* unused elements are 0 */
    _Atomic uint32_t told_owner;                  /* owner by the notes of members; 0 if none */
    /* end of the log, by the last note of the owner */
    _Atomic uint64_t end;
    /* counts of this process: valid claims, and refused records */
    _Atomic uint64_t claims, refused;
    _Atomic uint64_t log_bytes, sweeps, sweep_rows, sweep_failures, restarts; /* replica_stats */
    _Atomic uint64_t trims, trim_failures;
    _Atomic uint64_t pending; /* live timers, valid while is_counted */
    /* whether they are in the counts of this node */
    atomic_bool is_counted;
    _Atomic uint64_t copies, copy_rows, copy_failures; /* replica_stats */
    _Atomic uint64_t copies_given;                     /* complete copies given to other nodes */
    /* nodes with a copy, by their notes; unused elements are 0 */
    _Atomic uint32_t givers[COPY_GIVERS];
    _Atomic uint32_t giver_owner; /* gives the first page; 0 if no other node owns it */
    _Atomic uint64_t giver_next;  /* highest offset that one of them has read */

    pthread_mutex_t lock;
    struct list batches; /* struct storage_batch, for the replica; guarded by lock */
    unsigned news;       /* bits of enum node_replica_news; guarded by lock */
    bool is_asked;       /* a page was requested; guarded by lock, as are the next three: */
    bool has_page;
    struct copy_page page;
    struct buffer page_rows;

    /* Private to the thread that serves the replica. */
    struct log *log;            /* NULL if no log is followed */
    struct replica *replica;    /* NULL if no log is followed */
    struct event_source source; /* events of the log */
    struct instant wake_at;     /* CLOCK_BOOTTIME of the next turn, unless is_woken */
    bool storage_fails;         /* replica_storage_fails, or the copy cannot be dropped */
    struct storage_meta meta;   /* of the engine to be made */
    bool wants_engine;
    bool is_refused_by_log;  /* batches come back because the log has refused them */
    uint64_t refused_ticket; /* ticket of an append that could not be sent; 0 if none */
    uint64_t trim_to;        /* offset before which records are to be trimmed; 0 if none */
    struct instant trim_at;
    struct replica_stats counted; /* statistics that are in the counts above */
    struct node_once *once;       /* NULL if no connection delivers exactly once */
    struct buffer claim;          /* claim that waits until all older transactions have ended */
    uint64_t claim_ticket;        /* ticket of that claim; 0 if none waits */
    bool is_releasing, was_acting;
    struct instant release_until;
    /* time since when it has a copy but no part; {0} if it has a part */
    struct instant unwanted_at;
    bool must_clear; /* whether to drop the copy before another one begins */
    struct peers_copy copy_ask;
    bool is_copying, awaits_copy; /* NODE_COPY_ASKS, NODE_COPY_WAITS */
    unsigned missed_pages;

    /* The shard's. */
    struct list asked; /* struct node_request: commands that the engine has */
    size_t reads_out;  /* reads of the engine at the read thread */
    bool is_ready, is_draining, is_drained, is_leaving;
};

/* Returns the number of this node; 1 without a cluster. */
uint32_t node_self(const struct node *node);

/* True if the node owns the partition and its lease is valid. */
bool node_replica_may_act(const struct node *node, uint16_t partition);

/* Returns the time at which that lease ends, on CLOCK_BOOTTIME. Each renewal moves it. */
const _Atomic uint64_t *node_replica_valid_until(const struct node *node, uint16_t partition);

/* Takes the batches of a shard and empties the list. */
void node_replica_commit(struct node *node, struct list *batches);

/* True if the delivery's message is committed together with its outcome (node_once.h).
 * node_replica_post takes a list of such deliveries. */
bool node_replica_takes(const struct node *node, const struct delivery *delivery);
void node_replica_post(struct node *node, uint16_t partition, struct list *deliveries);

/* Sets what the plan says of the partition. May be called from any thread. */
void node_replica_plan(struct node_replica *replica, const struct plan_entry *entry);

/* Makes the node own nothing, whatever the plan says; copies stay. May be called from any
 * thread. */
void node_replica_refuse(struct node_replica *replica);

/* Gives the replica a turn soon. */
void node_replica_wake(struct node_replica *replica);
void node_replica_tell(struct node_replica *replica, enum node_replica_news news);

#endif
