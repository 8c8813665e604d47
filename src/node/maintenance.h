/*
 * maintenance.h - holds all deliveries back.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_MAINTENANCE_H
#define TICKWHEEL_NODE_MAINTENANCE_H

#include "node/node.h"

/* Resumes, at the start, a maintenance that was not ended. Not in a cluster. */
enum error_code maintenance_load(struct node *node, struct error *ret_error);

/* Begins and ends maintenance durably, by the file. maintenance_show changes only the memory. */
enum error_code maintenance_begin(struct node *node, struct bytes note, struct error *ret_error);
enum error_code maintenance_end(struct node *node, struct error *ret_error);
void maintenance_show(struct node *node, bool is_held, struct bytes note);

#endif
