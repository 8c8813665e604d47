/*
 * timers.h - the calls about one timer: create, get, patch, touch, delete.
 */
#ifndef TICKWHEEL_API_TIMERS_TIMERS_H
#define TICKWHEEL_API_TIMERS_TIMERS_H

#include "api/core/call.h"

/* Answers with the timer of a command, or with its error. */
void timers_done(struct node_request *request);
void timers_get_done(struct node_request *request);

/* Puts the id of the path into the command. False: answered, there is no such timer. */
bool timers_address(struct call *call, enum command_kind kind);

/* Reads the body of a touch into the command: a time and no other field. False: answered. */
bool timers_read_touch(struct call *call);

/* Reads If-Match into the command. False: answered. */
bool timers_read_if_match(struct call *call);

/* Reads the body as a create, with `key` as its key (empty: the body's own) and the request's
 * Idempotency-Key. NULL: answered. */
struct timer *timers_read_create(struct call *call, struct bytes key);

void timers_create(struct call *call);
void timers_get(struct call *call);
void timers_runs(struct call *call);
void timers_touch_begin(struct call *call);
void timers_touch(struct call *call);
void timers_delete_begin(struct call *call);
void timers_delete(struct call *call);

/* The version that an If-Match asks for: 0 for any ("*", or no such header: data NULL), and
 * TIMERS_VERSION_NEVER for a tag that no timer has (weak, or not a version). BAD_REQUEST when the
 * field is no single entity tag. */
#define TIMERS_VERSION_NEVER UINT32_MAX
enum error_code timers_if_match(struct bytes field, uint32_t *ret_version);

#endif
