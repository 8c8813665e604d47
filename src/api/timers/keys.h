/*
 * keys.h - the calls about one timer by the key that its client gave it.
 */
#ifndef TICKWHEEL_API_TIMERS_KEYS_H
#define TICKWHEEL_API_TIMERS_KEYS_H

#include "api/core/call.h"

/* Puts the key of the path into the command. False: answered, no timer can have this key. */
bool keys_address(struct call *call, enum command_kind kind);

void keys_put_begin(struct call *call);
void keys_put(struct call *call);
void keys_get(struct call *call);
void keys_touch(struct call *call);  /* begins with timers_touch_begin */
void keys_delete(struct call *call); /* begins with timers_delete_begin */

#endif
