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
        if (queue->count == 0 || (queue->kind != DISPATCH_WEBHOOK &&
                                  queue->kind != DISPATCH_PULLED && queue->kind != DISPATCH_LANE))
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

enum wait_reason waiting_postponed_reason(const struct engine *engine,
                                          const struct live_postponed *postponed)
{
    const struct bytes url = live_postponed_url(postponed);
    const struct target_pause *pause = NULL;
    struct target target;

    if (engine->is_draining)
        return WAIT_STOPPING;
    if (engine->is_held)
        return WAIT_MAINTENANCE;
    if (engine->pauses && url.size && !target_parse(url, &target, NULL))
        pause = target_pauses_of(engine->pauses, live_postponed_tenant(postponed), url, &target);
    return pause && pause->until.ms > engine->now.ms ? WAIT_PAUSED : WAIT_BREAKER;
}

/* A delivery in flight waits for the breaker if its target has not answered since a hold began: the
 * sender may not have refused it yet. */
bool waiting_is_postponed(const struct engine *engine, const struct entry *entry)
{
    if (entry->live.slot)
        return false;
    if (entry->phase != ENTRY_INFLIGHT)
        return entry->phase == ENTRY_WRITING && timer_is_postponed(entry->timer);
    const struct dispatch_queue *queue = dispatch_queue_by_key(engine, entry->queue);
    return queue && queue->failing_since.ms;
}
