/* dispatch_line.h - timers join and leave a dispatch queue: a part of dispatch_queue.h. */
#ifndef TICKWHEEL_ENGINE_DISPATCH_LINE_H
#define TICKWHEEL_ENGINE_DISPATCH_LINE_H

#include "engine/dispatch_queue.h"

enum dispatch_end { DISPATCH_BACK, DISPATCH_FRONT };

/* Adds a timer to a queue. A lane keeps its timers in due order, whatever `end` is. */
void dispatch_enqueue(struct engine *engine, struct dispatch_queue *queue, struct entry *entry,
                      enum dispatch_end end);

/* Removes a timer from its queue. The caller changes its phase and updates the queue. */
void dispatch_count_out(struct engine *engine, struct dispatch_queue *queue, struct entry *entry);

/* Returns when the timer joined its queue of the built-in queue. */
static inline struct wall dispatch_line_joined(const struct entry *entry)
{
    struct wall joined;

    memcpy(&joined.ms, entry->waited_ms, sizeof(joined.ms));
    return joined;
}

#endif
