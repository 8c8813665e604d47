/*
 * node_deliveries.h - the deliveries of a node in its delivery log, and the search for them.
 *
 * Threads    start: the one that starts the node. add: that of the shard. ask: any.
 */
#ifndef TICKWHEEL_NODE_NODE_DELIVERIES_H
#define TICKWHEEL_NODE_NODE_DELIVERIES_H

#include "node/node.h"

/* Opens the delivery log, unless it is turned off. The storage, its log and the shards exist. */
enum error_code node_deliveries_start(struct node *node, struct error *ret_error);

/* Adds an attempt that has ended, with any outcome, and takes its answer. A delivery that never
 * began is no attempt. */
void node_deliveries_add(struct node *node, unsigned shard, struct delivery *delivery);

/* Answers a survey of deliveries (SURVEY_DELIVERIES) by `done`, on the thread of the delivery log
 * if there is one. If this returns an error, `done` is not called. */
enum error_code node_deliveries_ask(struct node *node, struct node_request *request);

#endif
