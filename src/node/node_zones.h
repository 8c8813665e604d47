/*
 * node_zones.h - time zones by name, for timers: those that are missing are remembered.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_ZONES_H
#define TICKWHEEL_NODE_NODE_ZONES_H

#include "node/node.h"

struct zone_source node_zones_used(struct node *node);

#endif
