/*
 * node_hold.h - changes of pauses and maintenance in a cluster are notes in its control topic
 * (cluster/holds.h). A change is answered when this node has read it.
 *
 * Threads    That of the control topic.
 */
#ifndef TICKWHEEL_NODE_NODE_HOLD_H
#define TICKWHEEL_NODE_NODE_HOLD_H

#include "node/node_members.h"

/* Asks for the next change if none is under way. */
void node_hold_ask(struct node_control *control, struct instant now);

/* Callbacks of the control. */
void node_hold_on_held(void *context, const struct holds *holds, const struct holds_change *change,
                       uint64_t ask, enum error_code code);
void node_hold_on_unheld(void *context, uint64_t ask, enum error_code code);

/* Answers the remaining requests when the node ends. */
void node_hold_end_all(struct node_control *control);

#endif
