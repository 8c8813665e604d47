/*
 * completes.h - one command about many timers: an event that they watch has happened, or they share
 * a label; each is cancelled, fired or moved.
 *
 * Each timer is changed either by the command or by its own course, and counted once: exactly one
 * of the event and the expiry wins.
 */
#ifndef TICKWHEEL_SIM_COMPLETES_H
#define TICKWHEEL_SIM_COMPLETES_H

#include "host.h"

struct world;
struct op;

/* The command is answered. */
void completes_judge(struct world *world, const struct sim_partition *partition, struct op *op);

#endif
