/*
 * requests.h - clients that name their timers: by key, by the event that they wait for, by a label;
 * and clients that ask again because they did not hear the answer.
 */
#ifndef TICKWHEEL_SIM_REQUESTS_H
#define TICKWHEEL_SIM_REQUESTS_H

#include "content.h"
#include "plan.h"

struct world;

/* Gives the content names, as often as the plan says. */
void requests_name(struct world *world, struct content *content);

/* One of ACTION_PUT and what follows it. The partition is up. */
void requests_act(struct world *world, enum action action, uint16_t partition);

#endif
