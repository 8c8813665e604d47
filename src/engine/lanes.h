/* lanes.h - timers that wait for their flow: a part of dispatch_queue.h. */
#ifndef TICKWHEEL_ENGINE_LANES_H
#define TICKWHEEL_ENGINE_LANES_H

#include "engine/dispatch_queue.h"

enum lanes_answer { LANES_STARTS, LANES_WAITS, LANES_NO_MEMORY };

/* Lets the first timer of a target's queue start if its flow allows that. Otherwise moves it to its
 * lane; that may free the queue. */
enum lanes_answer lanes_admit(struct engine *engine, struct dispatch_queue *queue,
                              struct entry *entry);

/* Calls timers of the flows that were marked into the queues of their targets, one for each flow.
 * lanes_look_back: lets other lanes call if these cannot start, and gives unused places back. */
void lanes_call(struct engine *engine);
void lanes_look_back(struct engine *engine);

#endif
