/*
 * order.h - strict order of the items of a built-in queue: a part of dispatch_queue.h.
 *
 * Timers with `order` "strict" of one queue and priority are in one partition, and have a dispatch
 * queue of their own. It is sorted by due time, and by serial where due times are equal. Workers
 * get its first item only if no earlier one is elsewhere, except those that workers have leased.
 * The queue is *closed* while one may be:
 *
 *   - in the wheel or on disk, because its row has not been read
 *   - *away*: an attempt or a change of it is being written, after which it returns to its place
 *   - at its place, in the pause after a failed attempt: a later item does not pass it
 *   - spilled. The queue keeps the lowest mark of its spilled items. Items after that mark are
 *     spilled too when they become due, and a reload scan takes the first ones.
 *
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_ORDER_H
#define TICKWHEEL_ENGINE_ORDER_H

#include "engine/dispatch_queue.h"

/* True if a worker may get the queue's first item. If not, order_reopened looks again each turn. */
bool order_is_open(const struct engine *engine, struct dispatch_queue *queue);

/* Returns the next queue that was closed and is open now; NULL if there is none. */
struct dispatch_queue *order_reopened(struct engine *engine);

/* Returns the end of the pause of the queue's first item; 0 if it has none. */
struct wall order_paused_until(const struct dispatch_queue *queue);

/* True if the timer comes before the queue's last one, or before all that are spilled. */
bool order_is_before_last(const struct dispatch_queue *queue, const struct timer *timer);
bool order_is_before_spilled(const struct dispatch_queue *queue, const struct timer *timer);

/* Notes that a timer leaves the queue to be written, and will return. If it is QUEUED, its pause
 * stays. */
void order_went_away(struct dispatch_queue *queue, struct entry *entry);

/* Notes that a timer of the queue is being spilled. `queue` is NULL if the queue cannot be made. */
void order_spills(struct engine *engine, struct dispatch_queue *queue, struct entry *entry);

/* Ends both notes, and returns the queue for an update. NULL if there was none. */
struct dispatch_queue *order_came_back(const struct engine *engine, struct entry *entry);

/* True if the entry, whose write has ended, still comes back to its queue. */
bool order_comes_back(const struct engine *engine, const struct entry *entry);

/* Sets the pause of a timer that joins a queue. */
void order_joins(const struct dispatch_queue *queue, struct entry *entry);

/* Notes that a timer of the queue is on disk. `queue` is NULL if the queue cannot be made. */
void order_spilled(const struct engine *engine, struct dispatch_queue *queue,
                   const struct timer *timer);

/* Called when a reload scan begins and ends. Only a whole scan finds all spilled timers. O(queues)
 */
void order_scan_begins(struct engine *engine);
void order_scan_ends(struct engine *engine, bool is_whole);

#endif
