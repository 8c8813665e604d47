/*
 * node_work.h - requests of workers that other nodes pass on: the queue of this node answers them.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_WORK_H
#define TICKWHEEL_NODE_NODE_WORK_H

#include "node/node.h"

/* Begins a request of another node, or one whose partition this node owns now. The queue of this
 * node answers it; it is counted as in flight. */
void node_work_begin(struct node *node, struct node_request *request);

#endif
