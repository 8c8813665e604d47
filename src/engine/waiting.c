/* Tells how many timers wait in each dispatch queue, and since when. */
#include "engine/dispatch_queue.h"

/* All timers of a queue of webhooks belong to one tenant, as do all items of a built-in queue, so
 * each is reported. Timers for brokers are reported only by kind, as are overdue timers, which
 * belong to all tenants. */
void engine_tell_waiting(const struct engine *engine,
                         void (*tell)(void *context, const struct engine_waiting *waiting),
                         void *context)
{
    size_t cursor = 0;

    for (const struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));) {
        if (queue->count == 0 ||
            (queue->kind != DISPATCH_WEBHOOK && queue->kind != DISPATCH_PULLED))
            continue;
        const struct timer *first = dispatch_first(queue)->timer;
        const struct engine_waiting waiting = {
            .tenant = first->texts.tenant,
            .queue = queue->kind == DISPATCH_PULLED ? (struct bytes){queue->name, queue->name_size}
                                                    : (struct bytes){0},
            .count = queue->count,
            .oldest = first->due,
        };

        tell(context, &waiting);
    }
}
