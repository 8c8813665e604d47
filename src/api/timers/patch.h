/*
 * patch.h - PATCH of a timer, by id and by key: a merge patch (RFC 7396).
 *
 * Threads    See api/core/call.h.
 */
#ifndef TICKWHEEL_API_TIMERS_PATCH_H
#define TICKWHEEL_API_TIMERS_PATCH_H

#include "api/core/call.h"

#define PATCH_TRIES_MAX 64 /* merges of one patch while other requests change its timer */

void patch_begin(struct call *call);
void patch_by_id(struct call *call);
void patch_by_key(struct call *call);

#endif
