/* Names of dispatch queues: what the timers of one have in common. */
#include "engine/dispatch_queue.h"

#include "timer/flow.h"
#include "timer/target_pauses.h"

/* Salt for the hash of a tenant's name. That hash is the salt for its origins. */
#define DISPATCH_SALT_TENANT (UINT64_C(1) << 32)

/* Hashes a name. The seed is secret, so that no client can choose a name with the hash of another
 * queue. It is the seed of the budget, so that all members have the same key for a target. */
static uint64_t dispatch_hash(const struct engine *engine, struct bytes text, uint64_t salt)
{
    const uint64_t seed = budget_seed(engine->dispatch->budget);
    uint64_t hash = random_mix(seed ^ random_mix(text.size ^ random_mix(salt)));

    for (size_t i = 0; i < text.size; i += 8) {
        size_t left = text.size - i;

        hash = random_mix(hash ^ get_le(text.data + i, left < 8 ? left : 8));
    }
    return hash;
}

uint64_t dispatch_name_pulled(const struct engine *engine, struct bytes queue, unsigned priority,
                              enum timer_order order)
{
    assert(priority < QUEUE_PRIORITY_COUNT);
    assert(queue.size > 0 && queue.size <= QUEUE_FULL_NAME_SIZE_MAX);
    return dispatch_hash(engine, queue,
                         1 + priority + (order == TIMER_ORDER_STRICT ? QUEUE_PRIORITY_COUNT : 0));
}

/* Salt for the hash of a flow's key, added to that of the tenant. */
#define DISPATCH_SALT_FLOW (UINT64_C(1) << 33)

/* Sets the keys of the timer's flow and lane. */
static void dispatch_name_flow(const struct engine *engine, const struct timer *timer,
                               struct dispatch_name *name)
{
    name->flow = name->lane = 0;
    if (timer->texts.flow.size == 0)
        return;
    name->flow = dispatch_hash(engine, flow_key(timer->texts.flow),
                               random_mix(name->tenant + DISPATCH_SALT_FLOW));
    name->lane = random_mix(name->flow ^ random_mix(name->key));
}

void dispatch_name_lane(struct dispatch_name *name)
{
    assert(name->flow);
    name->kind = DISPATCH_LANE;
    name->target = name->key;
    name->key = name->lane;
}

void dispatch_name_of(const struct engine *engine, const struct timer *timer,
                      struct dispatch_name *ret_name)
{
    assert(!timer_is_final(timer->state));
    if (timer_is_pulled(timer)) {
        ret_name->kind = DISPATCH_PULLED;
        ret_name->queue =
            queue_full_name(timer->texts.tenant, timer_target_name(timer), ret_name->room);
        ret_name->is_strict = timer_order(timer) == TIMER_ORDER_STRICT;
        ret_name->key = dispatch_name_pulled(engine, ret_name->queue, timer->target.priority,
                                             timer_order(timer));
        ret_name->tenant = dispatch_hash(engine, timer->texts.tenant, DISPATCH_SALT_TENANT);
    } else {
        char room[TARGET_PAUSE_NAME_SIZE_MAX];
        const struct bytes origin = target_pause_origin(timer, room);

        ret_name->kind = target_sharing(&timer->target) == TARGET_SHARES_CONNECTION
                             ? DISPATCH_BROKER
                             : DISPATCH_WEBHOOK;
        ret_name->tenant = dispatch_hash(engine, timer->texts.tenant, DISPATCH_SALT_TENANT);
        ret_name->key = dispatch_hash(engine, origin, ret_name->tenant);
        if (ret_name->kind == DISPATCH_BROKER)
            ret_name->connection = dispatch_hash(engine, timer_target_origin(timer), 0);
    }
    dispatch_name_flow(engine, timer, ret_name);
}

void dispatch_name_overdue(const struct engine *engine, struct dispatch_name *ret_name)
{
    assert(engine->options.catch_up_rate > 0);
    ret_name->kind = DISPATCH_OVERDUE;
    ret_name->key = dispatch_hash(engine, BYTES("overdue"), UINT32_MAX);
    ret_name->flow = ret_name->lane = 0;
}

/* Returns the time from which a firing counts as late. */
static struct wall dispatch_late_since(const struct timer *timer)
{
    return timer->state == TIMER_RETRYING ? timer->at : wall_max(timer->due, timer->created);
}

/* True if the timer is overdue. Timers of built-in queues never are, because workers decide how
 * fast they take them. */
bool dispatch_is_overdue(const struct engine *engine, const struct timer *timer)
{
    assert(!timer_is_final(timer->state));
    return engine->options.catch_up_rate &&
           wall_since(dispatch_late_since(timer), engine->now) > ENGINE_OVERDUE_MS &&
           !timer_is_pulled(timer);
}
