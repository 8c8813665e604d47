/*
 * node_once.h - deliveries of a partition whose messages are committed together with their
 * outcomes, in one transaction of Kafka: exactly once (docs/cluster-design.md).
 *
 * A thread for each partition waits for the brokers, so that the thread of the replica goes on with
 * its lease. It stages the messages that wait in a transaction, and gives their deliveries back as
 * DONE when the brokers have all of them. The engine's batches with these outcomes make a commit of
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

#include "log/kafka/log_kafka_once.h"
#include "cluster/replica.h"
#include "node/partition.h"
#include "ops/config.h"

struct node_once_options {
    const struct config *config;         /* borrowed */
    struct partition *partitions;        /* of the node */
    const struct log_kafka_options *log; /* of the partition; borrowed */
    void (*told)(void *context); /* node_once_take has something; from the thread of node_once */
    void *context;
};

enum node_once_event_kind {
    ONCE_NOTHING,
    ONCE_READY,   /* the claim may be appended */
    ONCE_REFUSED, /* the brokers begin no transactions now */
    ONCE_STAGED,  /* `count` messages are in a transaction; their outcomes come later */
    ONCE_LANDED,  /* the transaction `ticket` is committed, its last frame at `offset` */
    ONCE_FAILED,  /* `ticket` is in doubt */
    ONCE_GONE,    /* the staged transaction got no commit in time: it is given up */
};

struct node_once_event {
    enum node_once_event_kind kind;
    uint64_t ticket, offset;
    size_t count;
};

struct node_once;

enum error_code node_once_start(const struct node_once_options *options,
                                struct node_once **ret_once, struct error *ret_error);

/* Ends the thread; deliveries that wait come back before. NULL is fine. */
void node_once_stop(struct node_once *once);

/* Ends transactions of owners before, and takes deliveries from then on. */
void node_once_claim(struct node_once *once);

/* Takes the list, which is empty afterwards. */
void node_once_post(struct node_once *once, struct list *deliveries);

/* Gives back the deliveries that are not staged yet. */
void node_once_drain(struct node_once *once);

void node_once_commit(struct node_once *once, const struct replica_transaction *transaction);

/* Gives back deliveries that are not DONE, as if they had not been handed out. A staged transaction
 * is not committed. */
void node_once_leave(struct node_once *once);

/* The next event; NOTHING: there is none. */
struct node_once_event node_once_take(struct node_once *once);

#endif
