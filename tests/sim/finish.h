/*
 * finish.h - the end of a run: faults stop, time goes on, and all that was promised must come.
 */
#ifndef TICKWHEEL_SIM_FINISH_H
#define TICKWHEEL_SIM_FINISH_H

struct world;

/* Ends the run: one slow origin delays no other, every acknowledged timer is over in a bounded
 * number of steps, every call is answered, what is over is trimmed, and nothing comes back after a
 * restart. */
void finish_run(struct world *world);

#endif
