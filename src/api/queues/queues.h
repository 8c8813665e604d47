/*
 * queues.h - steps of the calls of workers: lease, ack, nack, extend.
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
void queues_left(struct call *call);
void queues_closed(struct call *call);

#endif
