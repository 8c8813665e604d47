/*
 * names.h - the names that clients give: keys, events, Idempotency-Keys. What may be one, and which
 * partition keeps it.
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_API_JSON_NAMES_H
#define TICKWHEEL_API_JSON_NAMES_H

#include "node/node.h"

#define NAME_SIZE_MAX 256

/* A name has 1 to 256 bytes and no control character. */
enum error_code name_check(struct bytes name, struct error *ret_error);

/* Checks a name that a timer is given: as name_check, and it is neither `.` nor `..`, which
 * programs take out of the path of a URL. */
enum error_code name_check_new(struct bytes name, struct error *ret_error);

/* The partition of a new timer: by its key, so that timers with one key meet; without a key by its
 * request name; without both, the next one in turn for the thread of this shard. */
uint16_t name_partition_of(struct node *node, unsigned shard, const struct timer *timer);

/* The partition of a key. */
uint16_t name_partition(const struct node *node, struct bytes key);

/* `timer` with this key and, unless it is empty, this request in place of its own; NULL when out of
 * memory. Takes the timer in any case. */
struct timer *name_timer(struct timer *timer, struct bytes key, struct bytes request);

/* The claim (name.h) of a timer with a key and a request; NULL when out of memory. */
struct timer *name_claim(const struct timer *timer);

#endif
