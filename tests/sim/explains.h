/*
 * explains.h - whether an explanation is true: where the timer is, why it waits, and what made it
 * late.
 */
#ifndef TICKWHEEL_SIM_EXPLAINS_H
#define TICKWHEEL_SIM_EXPLAINS_H

#include "host.h"
#include "model.h"

struct command;

void explains_judge(struct world *world, const struct sim_partition *partition,
                    const struct twin *twin, const struct command *command);

#endif
