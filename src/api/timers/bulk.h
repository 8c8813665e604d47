/*
 * bulk.h - the calls about many timers at once: cancel, reschedule and touch.
 */
#ifndef TICKWHEEL_API_TIMERS_BULK_H
#define TICKWHEEL_API_TIMERS_BULK_H

#include "api/core/scatter.h"

#define BULK_NAMES_MAX 5000 /* ids, and keys, in one call */

void bulk_cancel(struct call *call);
void bulk_reschedule(struct call *call);
void bulk_touch(struct call *call);

#endif
