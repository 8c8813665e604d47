/* The limits of named targets: each is that of the tenant's webhooks to its origin `NAME:`, beside
 * those of the node. The engines share them by the budget. */
#include "engine/dispatch_queue.h"

#include "timer/named_limits.h"

void dispatch_queue_look_at_limits(const struct engine *engine, struct dispatch_queue *queue)
{
    if (queue->kind != DISPATCH_WEBHOOK || list_is_empty(&queue->timers) ||
        dispatch_first(queue)->timer->target.kind != TARGET_NAMED)
        return;
    const struct timer *timer = dispatch_first(queue)->timer;
    const struct definition *row =
        engine->definitions ? definitions_find(engine->definitions, timer->texts.tenant,
                                               DEFINITION_TARGET, timer_target_name(timer))
                            : NULL;
    const uint64_t version = row ? row->version : 0;
    if (version == queue->named.version)
        return;
    const struct named_limits limits = row ? named_limits_of(row->value) : (struct named_limits){0};
    const uint64_t rate = limits.rate ? limits.rate * (PACE_ONE * 1000) / limits.period_ms : 0;
    queue->named = (struct dispatch_named){
        .version = version,
        .concurrency = limits.concurrency ? limits.concurrency : BUDGET_ALL_PLACES,
        .rate = limits.rate && rate == 0 ? 1 : rate,
    };
    budget_limit(&queue->claim, queue->named.concurrency);
}

bool dispatch_queue_start(const struct engine *engine, struct dispatch_queue *queue)
{
    struct dispatch_named *named = &queue->named;

    if (named->concurrency) /* an engine with older definitions may have set another */
        budget_limit(&queue->claim, named->concurrency);
    if (!named->rate || named->has_start)
        return true;
    named->has_start =
        budget_start(&queue->claim, named->rate, engine->now, &named->next_at, &named->kept_until);
    return named->has_start;
}
