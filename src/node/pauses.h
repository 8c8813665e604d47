/*
 * pauses.h - holds back deliveries to the queues and targets that are paused.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_PAUSES_H
#define TICKWHEEL_NODE_PAUSES_H

#include "node/node_holds.h"

/* Reads the pauses of queues and targets at the start; in a cluster there are none yet. */
enum error_code pauses_load(struct node_holds *holds, struct error *ret_error);

/* Returns the pauses of all tenants; the caller leaves the table (target_pauses_leave). */
struct target_pauses *pauses_take(struct node_holds *holds);

/* Changes pauses durably, in the file. */
enum error_code pauses_put(struct node_holds *holds, const struct target_pause *pause,
                           struct error *ret_error);
enum error_code pauses_remove(struct node_holds *holds, struct bytes tenant, struct bytes name,
                              struct wall now, struct error *ret_error);

/* Applies NODE_HOLD_RESET on this node. */
enum error_code pauses_reset(struct node_holds *holds, struct bytes tenant, struct bytes name,
                             struct wall now, size_t *ret_count, struct error *ret_error);

/* Reports to clients that watch whether the queue or target of that name is paused now. */
void pauses_tell(struct node_holds *holds, struct bytes tenant, struct bytes name);
enum error_code pauses_refuse(enum error_code code, struct error *ret_error);

/* Writes the pauses into the folder of a backup. */
enum error_code pauses_back_up(struct node_holds *holds, const char *folder,
                               struct error *ret_error);

#endif
