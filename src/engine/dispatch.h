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

struct dispatch *dispatch_create(const struct engine_options *options); /* NULL: out of memory */
void dispatch_destroy(struct dispatch *dispatch);

/* ---- timers ---- */

/* Queues what the wheel has due, within bounds. */
void dispatch_expire(struct engine *engine);

/* The place of a timer's row is reached: it is queued, unless its time was extended, it has no
 * attempt left, or its pause ends there. */
void dispatch_due(struct engine *engine, struct entry *entry);

/* Takes a QUEUED timer out of its queue; its phase is the caller's to change. */
void dispatch_remove(struct engine *engine, struct entry *entry);

/* Once a turn: begins deliveries, and spills what takes too much memory. */
void dispatch_send(struct engine *engine);

/* A delivery came back; its entry is INFLIGHT still. */
void dispatch_returned(struct engine *engine, struct entry *entry,
                       const struct delivery_outcome *outcome);

/* Its target never saw it: it is queued again, in front, as if it had never been handed out, with
 * the due time of its row. */
void dispatch_requeue(struct engine *engine, struct entry *entry, struct wall due);

/* Takes in the places that other engines of the budget have left to this one; and whether there are
 * any. */
void dispatch_take_places(struct engine *engine);
bool dispatch_has_places(const struct engine *engine);

/* No delivery begins any more: what it has not used, and its turn, goes to other engines. */
void dispatch_drain(struct engine *engine);

/* Looks once more which queues are paused, when that has changed. O(queues) then. */
void dispatch_look_at_pauses(struct engine *engine);

/* Names every queue with items once more, in engine_take_woken. O(queues). */
void leases_wake_all(struct engine *engine);

/* `is_wheel_new`: all alarms are gone. */
enum dispatch_wheel { DISPATCH_WHEEL_KEPT, DISPATCH_WHEEL_NEW };
void dispatch_clock_went_back(struct engine *engine, enum dispatch_wheel wheel);

/* ---- queues, for reload.h ---- */

/* The queue in which a timer would wait; NULL when there is none now. */
struct dispatch_queue *dispatch_find(const struct engine *engine, const struct timer *timer);
struct spill_backlog *dispatch_backlog(struct dispatch_queue *queue);
size_t dispatch_queue_bytes(const struct dispatch_queue *queue);

/* The queue's backlog has changed. The queue may be freed. */
void dispatch_backlog_changed(struct engine *engine, struct spill_backlog *backlog);

/* How many more timers may be spilled before some of those that were are durable. */
size_t dispatch_spillable(const struct engine *engine);

/* The longest queue gives up its later half, as far as it may. */
void dispatch_halve_longest(struct engine *engine);

/* What the timers of the longest queue take, but the first. */
size_t dispatch_longest_tail_bytes(const struct engine *engine);

/* ---- questions ---- */

size_t dispatch_queued(const struct engine *engine);       /* timers in all queues */
size_t dispatch_queued_bytes(const struct engine *engine); /* their memory */
size_t dispatch_inflight(const struct engine *engine);

/* The earliest position of all timers that are queued; WALL_NEVER when none is. */
struct wall dispatch_oldest(const struct engine *engine);

void dispatch_stats(const struct engine *engine, struct engine_stats *stats);

/* Fills in what there is to say of a timer that is QUEUED or INFLIGHT. */
void dispatch_explain(struct engine *engine, const struct entry *entry,
                      struct explained *explained);

/* Fills in the survey of a command: NONE or NO_MEMORY. O(timers that are queued). */
enum error_code dispatch_survey(struct engine *engine, struct command *command);

void dispatch_check(const struct engine *engine);

#endif
