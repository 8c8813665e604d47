/*
 * queues.h - the calls of workers: lease, ack, nack, extend.
 *
 * A lease may wait for work. Its request then holds no thread; it is answered when an item is
 * leased to it.
 */
#ifndef TICKWHEEL_API_QUEUES_QUEUES_H
#define TICKWHEEL_API_QUEUES_QUEUES_H

#include "api/core/call.h"

void queues_begin(struct call *call);
void queues_lease(struct call *call);
void queues_ack(struct call *call);
void queues_nack(struct call *call);
void queues_extend(struct call *call);
void queues_closed(struct call *call);

#endif
