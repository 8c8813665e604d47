/*
 * node_serve.h - serves a replica of a node (node_replica.h): opens its log while the node has a
 * part in the partition, hands it the log's events and the shard's batches, and makes the engine.
 *
 * Threads    The one that serves the replica (node_cluster.h).
 */
#ifndef TICKWHEEL_NODE_NODE_SERVE_H
#define TICKWHEEL_NODE_NODE_SERVE_H

#include "node/node_replica.h"

/* Runs one turn, and sets the time of the next one (wake_at). */
void node_serve_turn(struct node_replica *replica);

/* Passes the log's events to an open replica, before its turn, for a bounded time. Returns false if
 * events are left. Updates `now` with each event. */
bool node_serve_take_events(struct node_replica *replica, struct instant *now);

/* True if the node stops, and the replica follows no log, has released its partition, or ran out
 * of time for that. */
bool node_serve_has_ended(struct node_replica *replica);

/* Closes the log and the replica, if there is one. */
void node_serve_close(struct node_replica *replica);

#endif
