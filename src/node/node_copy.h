/*
 * node_copy.h - copies of partitions from other nodes, and for them (cluster/copy.h).
 */
#ifndef TICKWHEEL_NODE_NODE_COPY_H
#define TICKWHEEL_NODE_NODE_COPY_H

#include "cluster/roster.h"
#include "node/node_replica.h"

enum node_copy_step {
    NODE_COPY_NONE,  /* the log is to be followed */
    NODE_COPY_ASKS,  /* pages come; the log is followed when the replica says so */
    NODE_COPY_WAITS, /* for copies of other partitions, or the own address: try again */
};

/* On the thread of the control topic: the nodes that may give a copy. */
void node_copy_find_givers(struct node *node, const struct roster *roster, uint16_t partition);

/* On the replica's thread: asks for a copy, if that is better than to follow the log; takes a
 * page; and forgets it, before the replica ends too. */
enum node_copy_step node_copy_begin(struct node_replica *replica);
void node_copy_hear(struct node_replica *replica, struct instant now);
void node_copy_end(struct node_replica *replica);

#endif
