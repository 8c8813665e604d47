/*
 * judge.h - whether what an engine hands out keeps the promises of DESIGN.
 */
#ifndef TICKWHEEL_SIM_JUDGE_H
#define TICKWHEEL_SIM_JUDGE_H

#include "engine/engine.h"

struct world;
struct partition;
struct twin;
struct op;

/* A delivery starts now: it is due, it is wanted, and there is room for it. */
struct twin *judge_delivery(struct world *world, struct partition *partition,
                            const struct delivery *delivery);

/* An outcome is about to be handed to the engine at `now`. */
void judge_outcome(struct world *world, struct twin *twin, const struct delivery_outcome *outcome,
                   struct wall now);

/* A command is answered: once, with what is durable, and refused only with a reason. */
void judge_reply(struct world *world, struct partition *partition, struct op *op);

/* Memory and deliveries stay within their limits. */
void judge_stats(struct world *world, struct partition *partition);

/* Nothing is late that nothing hindered: no delivery, no writing of an outcome, no answer, no clean
 * stop. */
void judge_lateness(struct world *world);

#endif
