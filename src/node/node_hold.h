/*
 * node_hold.h - changes of pauses and maintenance are records of a log.
 *
 * In a cluster they are notes in its control topic (cluster/holds.h), and its thread is their
 * carrier (node_holds.h). A node without a cluster commits a copy of the holds after each change,
 * in the log of the partition NODE_HOLD_PARTITION. The thread that serves its replica is the
 * carrier.
 * The storage keeps the copy with the rows of the partition, so a backup has it.
 *
 * A change is answered when the carrier has read it, or when its commit is durable.
 *
 * Threads    The carrier's, unless a function says otherwise.
 */
#ifndef TICKWHEEL_NODE_NODE_HOLD_H
#define TICKWHEEL_NODE_NODE_HOLD_H

#include "node/node_members.h"
#include "node/node_replica.h"

enum { NODE_HOLD_PARTITION = 0 };

/* ---- in a cluster ---- */

/* Sends the next change to the control topic if none is under way. */
void node_hold_ask(struct node_control *control, struct instant now);

/* Callbacks of the control. */
void node_hold_on_held(void *context, const struct holds *holds, const struct holds_change *change,
                       uint64_t ask, enum error_code code);
void node_hold_on_unheld(void *context, uint64_t ask, enum error_code code);

/* ---- without a cluster; without effect for another partition, and in a cluster ---- */

/* Applies the holds that the storage has, and then lets this node claim the other partitions: so no
 * delivery begins before the holds apply. Call it when the node owns the replica's partition.
 * Returns false if the holds cannot be read: call it again later. */
bool node_hold_load(struct node_replica *replica);

/* Gives the replica the next change if none is under way. */
void node_hold_commit(struct node_replica *replica);

/* Takes a batch with its result if it is the batch of a change. Returns false for any other
 * batch. */
bool node_hold_take_batch(struct node_replica *replica, const struct storage_batch *batch);

/* ---- both ---- */

/* Answers the remaining requests at the end of the node, when the carrier may have ended
 * already. */
void node_hold_end_all(struct node *node);

#endif
