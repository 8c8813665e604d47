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

/* A delivery starts now: it is due, it is wanted, and there is room for it. */
struct twin *judge_delivery(struct world *world, struct sim_partition *partition,
                            const struct delivery *delivery);

/* A worker asked for this priority and got this. */
void judge_pulled(struct world *world, const struct sim_partition *partition,
                  const struct delivery *delivery, unsigned priority);

/* An outcome is about to be handed to the engine at `now`. */
void judge_outcome(struct world *world, struct twin *twin, const struct delivery_outcome *outcome,
                   struct wall now);

/* A command is answered: once, with a durable state, and refused only with a reason. */
void judge_reply(struct world *world, struct sim_partition *partition, struct op *op);

/* The answer shows a version of the twin that is durable, as it was. */
void judge_shown(struct world *world, const struct op *op, const struct twin *twin,
                 const struct timer *timer);

/* The error is one of the storage, and the storage did fail. */
void judge_storage_error(struct world *world, const struct sim_partition *partition,
                         const struct op *op, uint32_t number, enum error_code error);

/* A change that is told is durable: no crash takes it back, and each version is told once. */
void judge_event(struct world *world, const struct feed_event *event);

/* Memory and deliveries stay within their limits. */
void judge_stats(struct world *world, struct sim_partition *partition);

/* Nothing is late that nothing hindered: no delivery, no writing of an outcome, no answer, no clean
 * stop. */
void judge_lateness(struct world *world);

/* Whether an explanation is true: where the timer is, why it waits, what made it late. */
void explains_judge(struct world *world, const struct sim_partition *partition,
                    const struct twin *twin, const struct command *command);

/* The end of a run: faults stop, and time goes on. One slow origin delays no other, every
 * acknowledged timer is over in a bounded number of steps, every call is answered, final rows are
 * trimmed, and no timer returns after a restart. */
void finish_run(struct world *world);

#endif
