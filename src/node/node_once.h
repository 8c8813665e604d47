/*
 * node_once.h - deliveries of a partition whose messages are committed together with their
 * outcomes, in one transaction of the cluster's log: exactly once (docs/cluster-design.md).
 *
 * A thread for each partition waits for the servers, so that the thread of the replica goes on with
 * its lease. It stages the messages that wait in a transaction, and gives their deliveries back as
 * DONE when the servers have all of them. The engine's batches with these outcomes make a commit of
 * the replica, whose frames end the transaction.
 *
 *     node_once_claim(once);                  READY: no other transaction is open; append the claim
 *     node_once_post(once, &deliveries);      STAGED: replica_stage
 *     node_once_commit(once, &transaction);   LANDED or FAILED
 *     node_once_leave(once);                  this node owns the partition no more
 *
 * Ownership  A delivery comes back by partition_post_outcomes, with an outcome; none is dropped.
 * Threads    post and drain from any thread; the others from that of the replica.
 */
#ifndef TICKWHEEL_NODE_NODE_ONCE_H
#define TICKWHEEL_NODE_NODE_ONCE_H

#include "cluster/cluster_log.h"
#include "cluster/replica.h"
#include "delivery/brokers.h"
#include "node/partition.h"
#include "ops/config.h"

struct node_once_options {
    const struct config *config;  /* borrowed */
    struct partition *partitions; /* partitions of the node */
    struct brokers *brokers;      /* borrowed, as are the next two */
    struct cluster_log_client *client;
    struct log *log; /* log of the partition */
    uint16_t partition;
    void (*told)(void *context); /* called on node_once's thread when node_once_take has an event */
    void *context;
};

enum node_once_event_kind {
    ONCE_NOTHING,
    ONCE_READY,   /* the claim may be appended */
    ONCE_REFUSED, /* the servers begin no transactions now */
    ONCE_STAGED,  /* `count` messages are in a transaction; their outcomes follow */
    ONCE_LANDED,  /* transaction `ticket` is committed; its last frame is at `offset` */
    ONCE_FAILED,  /* `ticket` is in doubt */
    ONCE_GONE,    /* no commit came in time: the staged transaction is aborted */
};

struct node_once_event {
    enum node_once_event_kind kind;
    uint64_t ticket, offset;
    size_t count;
};

struct node_once;

enum error_code node_once_start(const struct node_once_options *options,
                                struct node_once **ret_once, struct error *ret_error);

/* Ends the thread, after giving back the deliveries that wait. NULL is allowed. */
void node_once_stop(struct node_once *once);

/* Ends transactions of former owners, and accepts deliveries from then on. */
void node_once_claim(struct node_once *once);

/* Takes the deliveries and empties the list. */
void node_once_post(struct node_once *once, struct list *deliveries);

/* Gives back the deliveries that are not staged. */
void node_once_drain(struct node_once *once);

void node_once_commit(struct node_once *once, const struct replica_transaction *transaction);

/* Gives back the deliveries that are not DONE, as if they had not been handed out. Aborts a
 * staged transaction. */
void node_once_leave(struct node_once *once);

/* Returns the next event; NOTHING if there is none. */
struct node_once_event node_once_take(struct node_once *once);

#endif
