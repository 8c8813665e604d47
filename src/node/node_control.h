/*
 * node_control.h - a node's thread for the control topic of its cluster: appends the notes of this
 * node, keeps the members and the plan (cluster/control.h), and tells each replica which node is to
 * own its partition.
 *
 * node_control_start returns when the node has joined. Later a node is refused when another process
 * appends notes with its number: then it gives up its partitions and claims none.
 *
 * Threads    That which starts and stops the node.
 */
#ifndef TICKWHEEL_NODE_NODE_CONTROL_H
#define TICKWHEEL_NODE_NODE_CONTROL_H

#include "node/shard.h"

/* Reads the id of the cluster. IO: the brokers do not answer; NOT_FOUND: it is not founded. */
enum error_code node_control_init(struct node *node, struct error *ret_error);

/* Joins the cluster, after the replicas run. INVALID: another process has the number of this node;
 * IO: the brokers do not answer. */
enum error_code node_control_start(struct node *node, struct error *ret_error);

/* Others are to own the partitions of this node, which goes on with its notes. */
void node_control_leave(struct node *node);

/* After the replicas have ended: gives up the planner's place, and ends the thread. */
void node_control_stop(struct node *node);
void node_control_free(struct node *node);

#endif
