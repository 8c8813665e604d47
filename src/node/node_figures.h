/*
 * node_figures.h - samples of a node's figures for their history (ops/figures.h), taken and written
 * by a thread of its own.
 *
 * Threads    start and stop: the ones that start and stop the node.
 */
#ifndef TICKWHEEL_NODE_NODE_FIGURES_H
#define TICKWHEEL_NODE_NODE_FIGURES_H

#include "node/node.h"

/* Reads the history and starts the thread. The storage and the shards exist. */
enum error_code node_figures_start(struct node *node, struct error *ret_error);

/* Adds what was counted since the last sample, and ends the thread. Does nothing if it was not
 * started. */
void node_figures_stop(struct node *node);

#endif
