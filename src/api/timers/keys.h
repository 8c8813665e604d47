/*
 * keys.h - the calls about one timer by the key that its client gave it.
 */
#ifndef TICKWHEEL_API_TIMERS_KEYS_H
#define TICKWHEEL_API_TIMERS_KEYS_H

#include "api/core/call.h"

void keys_put_begin(struct call *call);
void keys_put(struct call *call);
void keys_get(struct call *call);
void keys_patch(struct call *call);  /* begins with timers_patch_begin */
void keys_touch(struct call *call);  /* begins with timers_touch_begin */
void keys_delete(struct call *call); /* begins with timers_delete_begin */

#endif
