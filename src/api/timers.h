/*
 * timers.h - the calls about one timer: create, get, patch, delete.
 */
#ifndef TICKWHEEL_API_TIMERS_H
#define TICKWHEEL_API_TIMERS_H

#include "api/call.h"

void timers_create_begin(struct call *call);
void timers_create(struct call *call);
void timers_get(struct call *call);
void timers_patch_begin(struct call *call);
void timers_patch(struct call *call);
void timers_delete_begin(struct call *call);
void timers_delete(struct call *call);

/* The version that an If-Match asks for: 0 for any ("*", or no such header: data NULL), and
 * TIMERS_VERSION_NEVER for a tag that no timer has (weak, or not a version). BAD_REQUEST when the
 * field is no single entity tag. */
#define TIMERS_VERSION_NEVER UINT32_MAX
enum error_code timers_if_match(struct bytes field, uint32_t *ret_version);

#endif
