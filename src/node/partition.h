/*
 * partition.h - a partition of a running node: its engine, its inbox, and the shard that owns it.
 *
 * Messages for a partition wait in its inbox. The first one posts the partition to the mailbox of
 * the shard that owns it, which takes the whole inbox in its next turn. A partition keeps its shard
 * as long as the node runs.
 *
 * Threads    partition_post and partition_post_all from any thread. The engine is the owner's; all
 *            other calls are too.
 */
#ifndef TICKWHEEL_NODE_PARTITION_H
#define TICKWHEEL_NODE_PARTITION_H

#include "engine/engine.h"
#include "sys/mailbox.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHARDS_MAX 64 /* that own partitions of a node */

enum partition_message {
    PARTITION_COMMITS,  /* struct storage_batch, back from the commit thread */
    PARTITION_OUTCOMES, /* struct delivery, back from a sender */
    PARTITION_READS,    /* struct engine_read, back from the read thread */
    PARTITION_REQUESTS, /* struct node_request */
    PARTITION_ACKS,     /* struct node_queue_request with receipts */
    PARTITION_MESSAGE_COUNT,
};

struct partition {
    struct list link; /* is_rung: in the mailbox of its owner, or on the way to it */
    struct engine *engine;
    uint16_t index;
    size_t commits_out;      /* batches on their way to the commit thread and back; the owner's */
    _Atomic uint64_t placed; /* timers that node_partition_next has given it */
    pthread_mutex_t lock;
    struct mailbox *owner; /* the shard's, or NULL before the start and at the end; guarded by lock,
                              as are the next two */
    bool is_rung;
    struct list inbox[PARTITION_MESSAGE_COUNT];
};

void partition_init(struct partition *partition, uint16_t index);
void partition_deinit(struct partition *partition); /* with its engine */

void partition_post(struct partition *partition, enum partition_message kind, struct list *message);

/* Posts messages for several partitions, and rings each shard once. `index_of` says whose one is.
 * The list is empty afterwards. */
void partition_post_all(struct partition partitions[], enum partition_message kind,
                        struct list *messages, uint16_t (*index_of)(struct list *message));

/* Moves the inbox to `ret_inbox`, when a ring has arrived at the owner. */
void partition_take(struct partition *partition, struct list ret_inbox[PARTITION_MESSAGE_COUNT]);

/* Gives deliveries, each with an outcome, back to their engines. From any thread. */
void partition_post_outcomes(void *partitions, struct list *deliveries);

/* From now on the partition is posted to `owner`, at once if messages wait. NULL: messages wait. */
void partition_set_owner(struct partition *partition, struct mailbox *owner);

/* Wakes the shard that owns it, if one does. From any thread. */
void partition_wake(void *partition);

#endif
