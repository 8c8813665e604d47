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

/* Checks that a name has 1 to 256 bytes and no control character. */
enum error_code name_check(struct bytes name, struct error *ret_error);

/* Checks a name for a timer like name_check; it must not be `.` or `..` either, which programs
 * remove from the path of a URL. */
enum error_code name_check_new(struct bytes name, struct error *ret_error);

/* Returns the partition of a new timer: by its key, so that timers with one key meet; without a
 * key by its request name; without both, the next one in turn for the thread of this shard. */
uint16_t name_partition_of(struct node *node, unsigned shard, const struct timer *timer);

/* Returns the partition of a key. */
uint16_t name_partition(const struct node *node, struct bytes key);

/* Returns the partition of a timer's queue, where those in strict order are. */
uint16_t name_partition_of_queue(const struct node *node, const struct timer *timer);

/* Returns the partition of a timer's flow, where its timers without a key of their own are. */
uint16_t name_partition_of_flow(const struct node *node, const struct timer *timer);

/* Returns `timer` with this key and, unless it is empty, this request instead of its own; NULL
 * if out of memory. Takes the timer in any case. */
struct timer *name_timer(struct timer *timer, struct bytes key, struct bytes request);

/* Returns the claim (name.h) of a timer with a key and a request; NULL if out of memory. */
struct timer *name_claim(const struct timer *timer);

#endif
