/*
 * node_figures.h - samples of a node's figures for their history (ops/figures.h), taken and written
 * by the read thread, which waits for the disk anyway.
 *
 * Threads    start and stop: the ones that start and stop the node.
 */
#ifndef TICKWHEEL_NODE_NODE_FIGURES_H
#define TICKWHEEL_NODE_NODE_FIGURES_H

#include "node/node.h"

/* Reads the history, before the read thread starts. The storage and the shards exist. */
enum error_code node_figures_start(struct node *node, struct error *ret_error);

/* Adds what was counted since the last sample, after the read thread has ended. Does nothing if it
 * was not started. */
void node_figures_stop(struct node *node);

#endif
