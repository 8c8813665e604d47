/*
 * queues.h - the calls of workers: lease, ack, nack, extend; and how full the queues are.
 *
 * A lease may wait for work. Its request then holds no thread; it is answered when an item is
 * leased to it.
 */
#ifndef TICKWHEEL_API_QUEUES_QUEUES_H
#define TICKWHEEL_API_QUEUES_QUEUES_H

#include "api/core/call.h"

/* Checks the name of a queue. queues_begin also checks the head of a body. */
void queues_begin_name(struct call *call);
void queues_begin(struct call *call);
void queues_lease(struct call *call);
void queues_left(struct call *call);
void queues_ack(struct call *call);
void queues_nack(struct call *call);
void queues_extend(struct call *call);
void queues_closed(struct call *call);

/* ---- overview.c, targets.c: how full the queues are, the next items of one, and deliveries to
 * each target; closed by tally_closed ---- */

void queues_list(struct call *call);
void queues_get(struct call *call);
void queues_peek(struct call *call);
void targets_list(struct call *call);

#endif
