/*
 * node_engines.h - how the engines of a node are made: each has its part of the limits.
 *
 * Threads    That which starts the node; node_engine_options any.
 */
#ifndef TICKWHEEL_NODE_NODE_ENGINES_H
#define TICKWHEEL_NODE_NODE_ENGINES_H

#include "engine/engine.h"
#include "node/node.h"

/* Makes node->budget, before the engines. */
enum error_code node_create_budget(struct node *node, struct error *ret_error);

struct engine_options node_engine_options(struct node *node, uint16_t partition, uint64_t seed);

#endif
