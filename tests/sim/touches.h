/*
 * touches.h - clients that extend the time of a timer, or of several at once, again and again; and
 * what that may change: a touch never shortens, and is no new appointment while the old one is
 * still to come.
 */
#ifndef TICKWHEEL_SIM_TOUCHES_H
#define TICKWHEEL_SIM_TOUCHES_H

#include "model.h"

struct world;
struct op;

/* ACTION_TOUCH. The partition is up. */
void touches_act(struct world *world, uint16_t partition);

/* Whether the touch made `timer` of the twin's row; `content` has its new due time already. */
bool touches_could(const struct world *world, const struct op *op, const struct twin *twin,
                   const struct timer *timer);

/* The row was moved to its due time, which was extended since it was put where it is. */
bool touches_moved_on(const struct twin *twin, const struct timer *timer);

/* A touch is answered with success. */
void touches_judge(struct world *world, struct op *op);

#endif
