/*
 * completes.h - one command about many timers: an event that they watch has happened, or they share
 * a label; each is cancelled, fired or moved.
 *
 * Each timer is either changed by the command or by what it was doing, and counted once: of the
 * event and the expiry exactly one wins.
 */
#ifndef TICKWHEEL_SIM_COMPLETES_H
#define TICKWHEEL_SIM_COMPLETES_H

#include "host.h"

struct world;
struct op;

/* The command is answered. */
void completes_judge(struct world *world, const struct partition *partition, struct op *op);

#endif
