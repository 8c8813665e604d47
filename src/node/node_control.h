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

#include "node/node.h"

/* Reads the id of the cluster. IO if the brokers do not answer; NOT_FOUND if the cluster has not
 * been founded. */
enum error_code node_control_init(struct node *node, struct error *ret_error);

/* Joins the cluster after the replicas have started. INVALID if another process has the number
 * of this node; IO if the brokers do not answer. */
enum error_code node_control_start(struct node *node, struct error *ret_error);

/* Announces that other nodes should own this node's partitions. The node continues to send
 * notes. */
void node_control_leave(struct node *node);

/* Gives up the place of the planner and ends the thread, after the replicas have ended. */
void node_control_stop(struct node *node);
void node_control_free(struct node *node);

#endif
