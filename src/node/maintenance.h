/*
 * maintenance.h - holds all deliveries back.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_MAINTENANCE_H
#define TICKWHEEL_NODE_MAINTENANCE_H

#include "node/node_holds.h"

/* Resumes, at the start, a maintenance that was not ended. Not in a cluster. */
enum error_code maintenance_load(struct node_holds *holds, struct error *ret_error);

/* Begins and ends maintenance durably, by the file. maintenance_show changes only the memory. */
enum error_code maintenance_begin(struct node_holds *holds, struct bytes note,
                                  struct error *ret_error);
enum error_code maintenance_end(struct node_holds *holds, struct error *ret_error);
void maintenance_show(struct node_holds *holds, bool is_held, struct bytes note);

/* True if maintenance is on, with its note. */
bool maintenance_is_on(struct node_holds *holds, char ret_note[NODE_NOTE_SIZE_MAX],
                       size_t *ret_size);

#endif
