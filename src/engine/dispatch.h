/*
 * dispatch.h - due timers in dispatch queues, by target, and their deliveries.
 *
 * Each tenant's origin of webhooks, each tenant's connection of a broker, and each priority of a
 * built-in queue has a dispatch queue, so that a target that is dead, slow or paused fills its own
 * queue only. Deliveries in flight have a limit for each, at a broker for each connection. Queues
 * with room take turns. Those of built-in queues send only on a
 * pull. Overdue timers, after an outage, go to their queues by a rate of their own.
 *
 * Errors     Without memory a timer waits where it is, or is spilled.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_DISPATCH_H
#define TICKWHEEL_ENGINE_DISPATCH_H

#include "engine/engine.h"
#include "engine/entries.h"
#include "engine/spill.h"

struct dispatch;
struct dispatch_queue;

/* returns NULL if out of memory */
struct dispatch *dispatch_create(const struct engine_options *options);
void dispatch_destroy(struct dispatch *dispatch);

/* ---- timers ---- */

/* Queues the timers that the wheel says are due, within bounds. */
void dispatch_expire(struct engine *engine);

/* Handles a timer whose row's position is reached. Queues it, unless its time was extended, no
 * attempt is left, or its pause ends at that time. */
void dispatch_due(struct engine *engine, struct entry *entry);

/* Removes a QUEUED timer from its queue. The caller changes its phase. */
void dispatch_remove(struct engine *engine, struct entry *entry);

/* Keeps the place in strict order of a timer that a command changes. Returns false if out of
 * memory. */
bool dispatch_keep_place(struct engine *engine, struct entry *entry);

/* Handles a timer that the end of its write, or want of memory, may keep out of its queue. */
void dispatch_settled(struct engine *engine, struct entry *entry);

/* Begins deliveries, and spills if memory is short. Once a turn. */
void dispatch_send(struct engine *engine);

/* Begins to deliver the queue's first timer. If the timer is too late for delivery, drops it and
 * sets *ret_delivery to NULL. Returns false if out of memory. May free the queue. */
bool dispatch_deliver(struct engine *engine, struct dispatch_queue *queue,
                      struct delivery **ret_delivery);

/* Returns the cause of most of a queued timer's lateness so far. */
enum lateness_stage lateness_cause(const struct engine *engine, const struct dispatch_queue *queue,
                                   const struct entry *entry);

/* Computes, stores and returns the causes of lateness when a delivery begins. */
void lateness_of_delivery(struct engine *engine, const struct dispatch_queue *queue,
                          const struct entry *entry, struct lateness *ret_lateness);

/* Handles the outcome of a delivery; its entry is still INFLIGHT. */
void dispatch_returned(struct engine *engine, struct entry *entry,
                       const struct delivery_outcome *outcome);

/* Puts a timer whose target never saw the delivery back at the head of its queue, with the due time
 * of its row. */
void dispatch_requeue(struct engine *engine, struct entry *entry, struct wall due);

/* Uses the places that other engines of the budget gave up. dispatch_has_places: whether there are
 * any. */
void dispatch_take_places(struct engine *engine);
bool dispatch_has_places(const struct engine *engine);

/* Begins no more deliveries. Unused places and turns go to other engines. */
void dispatch_drain(struct engine *engine);

/* Checks which queues are paused, if the pauses have changed since the last call. O(queues) in that
 * case. */
void dispatch_look_at_pauses(struct engine *engine);

/* Applies new limits of flows and named targets. O(flows and queues). */
void dispatch_limits_changed(struct engine *engine);

/* Makes engine_take_woken return every queue that has items, also those it returned before.
 * O(queues). */
void leases_wake_all(struct engine *engine);

/* DISPATCH_WHEEL_NEW: the wheel was replaced, so all alarms must be set again. `away` has the
 * SCHEDULED entries that come back to their place in strict order, and are not in the new wheel. */
enum dispatch_wheel { DISPATCH_WHEEL_KEPT, DISPATCH_WHEEL_NEW };
void dispatch_clock_went_back(struct engine *engine, enum dispatch_wheel wheel, struct list *away);

/* ---- queues, for reload.h ---- */

/* Returns the queue in which a timer would wait; NULL if it does not exist now. */
struct dispatch_queue *dispatch_find(const struct engine *engine, const struct timer *timer);
struct spill_backlog *dispatch_backlog(struct dispatch_queue *queue);
size_t dispatch_queue_bytes(const struct dispatch_queue *queue);

/* Notes that a timer stays on disk. Returns the backlog of its queue; NULL if it does not exist. */
struct spill_backlog *dispatch_pass_over(struct engine *engine, const struct timer *timer);

/* Spills a timer once more whose spilled position is too far ahead. */
void dispatch_spill_again(struct engine *engine, struct entry *entry);

/* Spills the last timer of a queue in strict order if this one comes before it. */
bool dispatch_swap(struct engine *engine, const struct timer *timer);

/* Called when a reload scan begins and ends. O(queues) */
void dispatch_scan_begins(struct engine *engine);
void dispatch_scan_ends(struct engine *engine, bool is_whole);

/* Updates a queue after the notes about its spilled timers have changed. May free the queue. */
void dispatch_backlog_changed(struct engine *engine, struct spill_backlog *backlog);

/* Returns how many more timers may be spilled before writes of spilled ones must succeed. */
size_t dispatch_spillable(const struct engine *engine);

/* Spills the second half of the longest queue, as far as dispatch_spillable allows. */
void dispatch_halve_longest(struct engine *engine);

/* Returns the memory of the longest queue's timers except the first. */
size_t dispatch_longest_tail_bytes(const struct engine *engine);

/* ---- questions ---- */

size_t dispatch_queued(const struct engine *engine);       /* number of timers in all queues */
size_t dispatch_queued_bytes(const struct engine *engine); /* their memory */
size_t dispatch_inflight(const struct engine *engine);
size_t dispatch_leased(const struct engine *engine); /* those in flight that workers have leased */

/* Returns the earliest position of all queued timers; WALL_NEVER if there is none. */
struct wall dispatch_oldest(const struct engine *engine);

void dispatch_stats(const struct engine *engine, struct engine_stats *stats);

/* Fills in `explained` for a QUEUED or INFLIGHT timer. */
void dispatch_explain(struct engine *engine, const struct entry *entry,
                      struct explained *explained);

/* Fills in the survey of a command. Returns NONE or NO_MEMORY. O(queued timers). */
enum error_code dispatch_survey(struct engine *engine, struct command *command);

void dispatch_check(const struct engine *engine);

#endif
