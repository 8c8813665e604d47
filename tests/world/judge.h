/*
 * judge.h - whether the replies, batches and deliveries of an engine keep the promises
 * (docs/reliability.md).
 */
#ifndef TICKWHEEL_WORLD_JUDGE_H
#define TICKWHEEL_WORLD_JUDGE_H

#include "engine/engine.h"
#include "host.h"
#include "model.h"

struct world;
struct sim_partition;
struct twin;
struct op;
struct command;

/* Checks a delivery that begins now: it is due, a client wants it, and the limits allow it. */
struct twin *judge_delivery(struct world *world, struct sim_partition *partition,
                            const struct delivery *delivery);

/* Checks the priority that a worker got against the one that it asked for. */
void judge_pulled(struct world *world, const struct sim_partition *partition,
                  const struct delivery *delivery, unsigned priority);

/* Checks an outcome that is handed to the engine next, at `now`. */
void judge_outcome(struct world *world, struct twin *twin, const struct delivery_outcome *outcome,
                   struct wall now);

/* Checks the reply to a command: there is one, its state is durable, and a refusal has a reason. */
void judge_reply(struct world *world, struct sim_partition *partition, struct op *op);

/* Checks that the answer shows a durable version of the twin, as it was. */
void judge_shown(struct world *world, const struct op *op, const struct twin *twin,
                 const struct timer *timer);

/* Checks that the error is one of the storage, and that the storage did fail. */
void judge_storage_error(struct world *world, const struct sim_partition *partition,
                         const struct op *op, uint32_t number, enum error_code error);

/* Checks that a change which clients are told of is durable: no crash takes it back, and each
 * version is told once. */
void judge_event(struct world *world, const struct feed_event *event);

/* Checks that memory and deliveries stay within their limits. */
void judge_stats(struct world *world, struct sim_partition *partition);

/* Checks that nothing is late without a hindrance: no delivery, no writing of an outcome, no
 * answer, no clean stop. */
void judge_lateness(struct world *world);

/* Checks an explanation: where the timer is, why it waits, what made it late. */
void explains_judge(struct world *world, const struct sim_partition *partition,
                    const struct twin *twin, const struct command *command);

/* Ends the run: faults stop, and time goes on. Checks that one slow origin delays no other, that
 * every acknowledged timer ends in a bounded number of steps, that every call is answered, that
 * final rows are trimmed, and that no timer returns after a restart. */
void finish_run(struct world *world);

#endif
