/*
 * node_queue.h - requests of workers, on their way to a shard of this node.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_QUEUE_H
#define TICKWHEEL_NODE_NODE_QUEUE_H

#include "node/node.h"

/* Takes the receipts of one partition that another node owns. In any case node_queue_acks_done
 * follows. */
typedef void node_queue_report(struct node *node, uint16_t partition,
                               struct node_queue_request *part);

/* Hands a request to the shards of this node, but receipts of partitions of other nodes to
 * `report`; NULL: all partitions are taken to be here. As node_queue_submit. */
enum error_code node_queue_take(struct node *node, struct node_queue_request *request,
                                node_queue_report *report);

/* Sends a lease to where it continues, or answers it. */
void node_queue_route(struct node *node, struct node_queue_request *request);

/* Answers a lease without items. */
void node_queue_answer_empty(struct node_queue_request *request);

/* Notes that one part of an acknowledgement is answered. */
void node_queue_acks_done(struct node_queue_request *request);

#endif
