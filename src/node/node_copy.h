/*
 * node_copy.h - copies of partitions from other nodes, and for them (cluster/copy.h).
 */
#ifndef TICKWHEEL_NODE_NODE_COPY_H
#define TICKWHEEL_NODE_NODE_COPY_H

#include "cluster/roster.h"
#include "node/node_replica.h"

enum node_copy_step {
    NODE_COPY_NONE,  /* no copy: follow the log */
    NODE_COPY_ASKS,  /* a copy is under way; the replica says when to follow the log */
    NODE_COPY_WAITS, /* must wait for other copies or for this node's address: try again */
};

/* Finds the nodes that can give a copy, on the thread of the control topic. */
void node_copy_find_givers(struct node *node, const struct roster *roster, uint16_t partition);

/* Asks for a copy if that is better than following the log; takes a page; forgets a copy before
 * the replica ends. All on the replica's thread. */
enum node_copy_step node_copy_begin(struct node_replica *replica);
void node_copy_hear(struct node_replica *replica, struct instant now);
void node_copy_end(struct node_replica *replica);

#endif
