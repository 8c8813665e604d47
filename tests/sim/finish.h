/*
 * finish.h - the end of a run: faults stop, time continues, and every promise must be kept.
 */
#ifndef TICKWHEEL_SIM_FINISH_H
#define TICKWHEEL_SIM_FINISH_H

struct world;

/* Ends the run: one slow origin delays no other, every acknowledged timer is over in a bounded
 * number of steps, every call is answered, final rows are trimmed, and no timer returns after a
 * restart. */
void finish_run(struct world *world);

#endif
