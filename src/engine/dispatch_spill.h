/* dispatch_spill.h - spilled timers of dispatch queues: a part of dispatch_queue.h. */
#ifndef TICKWHEEL_ENGINE_DISPATCH_SPILL_H
#define TICKWHEEL_ENGINE_DISPATCH_SPILL_H

#include "engine/dispatch_queue.h"

/* Spills a timer. `queue` is NULL if its queue could not be made. */
void dispatch_spill(struct engine *engine, struct dispatch_queue *queue, struct entry *entry);

/* Limits queued timers to half of the memory; timers of dead targets could otherwise use all of it.
 * The longest queue spills its last timers, so a healthy queue keeps its own. More are spilled when
 * these are written. One timer may always wait, however large. */
void dispatch_relieve(struct engine *engine);

#endif
