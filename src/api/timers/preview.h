/*
 * preview.h - the call that says when a schedule would fire.
 */
#ifndef TICKWHEEL_API_TIMERS_PREVIEW_H
#define TICKWHEEL_API_TIMERS_PREVIEW_H

#include "api/core/call.h"

void preview_end(struct call *call);

#endif
