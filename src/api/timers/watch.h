/*
 * watch.h - completes events: one, or many in a call.
 */
#ifndef TICKWHEEL_API_TIMERS_WATCH_H
#define TICKWHEEL_API_TIMERS_WATCH_H

#include "api/core/call.h"

#define WATCH_EVENTS_MAX 5000 /* in one call */

/* The event in the path. */
void watch_complete_begin(struct call *call);
void watch_complete(struct call *call);

/* Those in the body. */
void watch_complete_many(struct call *call);

#endif
