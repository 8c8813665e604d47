/* What the place of a timer's row says. */
#include "engine/position.h"

#include "engine/engine_core.h"
#include "timer/awaits.h"

#include <assert.h>

/* Number of windows by which timers are spilled ahead. Timers are reloaded as soon as their queue
 * has room, so this only limits how often those of a queue without room are rewritten. */
#define SPILL_WINDOWS 4

uint64_t position_pause_ms_max(const struct timer *timer)
{
    const uint64_t postponed_ms = 2 * POSITION_POSTPONE_MS_MAX + 1, cap_ms = timer->retry.cap_ms;
    const uint64_t most_ms = cap_ms > postponed_ms ? cap_ms : postponed_ms;

    if (timer_is_pulled(timer)) /* workers choose the pause of items that they give back */
        return POSITION_PAUSE_MS_MAX;
    return most_ms < POSITION_PAUSE_MS_MAX ? most_ms : POSITION_PAUSE_MS_MAX;
}

bool position_first(struct engine *engine, struct timer *timer)
{
    if (engine->serials > TIMER_COUNTER_MAX)
        return false;
    const struct wall latest = wall_add(engine->now, position_pause_ms_max(timer));
    /* a later position would look like one that a wrong clock had set */
    if (timer->state == TIMER_RETRYING)
        timer->at = wall_max(timer->due, wall_min(timer->at, latest));
    else if (timer->state != TIMER_PAUSED)
        timer->at = timer->due;
    timer->at = wall_max(timer->at, engine->now);
    timer->id = (struct timer_id){timer->at, engine->options.partition,
                                  TIMER_SERIAL(engine->epoch, engine->serials++)};
    if (!timer->created.ms)
        timer->created = engine->now;
    assert(!timer_is_final(timer->state) && timer->state != TIMER_DELIVERING);
    assert(timer->version > 0 && timer->at.ms >= engine->now.ms);
    return true;
}

uint64_t position_spill_ms(const struct engine *engine)
{
    assert(engine->options.window_ms > 0);
    return SPILL_WINDOWS * (engine->options.window_ms + 1);
}

uint64_t position_spill_ms_max(const struct engine *engine)
{
    return 3 * position_spill_ms(engine);
}

/* True if the timer failed in strict order. It waits at its place in its queue, and its position is
 * only the time of that failure. */
static bool position_keeps_place(const struct timer *timer)
{
    return timer->state == TIMER_RETRYING && timer->attempts > 0 &&
           timer_order(timer) == TIMER_ORDER_STRICT;
}

struct wall position_placed_at(const struct engine *engine, const struct timer *timer)
{
    assert(timer->id.partition == engine->options.partition);
    if (timer->at.ms <= timer->due.ms || timer->state == TIMER_PAUSED || timer_awaits(timer))
        return (struct wall){0};

    uint64_t reach_ms = position_keeps_place(timer)      ? 1
                        : timer->state == TIMER_RETRYING ? position_pause_ms_max(timer)
                                                         : position_spill_ms_max(engine);
    return (struct wall){wall_since((struct wall){reach_ms}, timer->at)};
}

bool position_is_spilled(const struct engine *engine, const struct timer *timer)
{
    assert(timer->id.partition == engine->options.partition);
    return (timer->state == TIMER_SCHEDULED || position_keeps_place(timer)) &&
           timer->at.ms > engine->now.ms && timer->due.ms <= engine->now.ms;
}

bool position_is_early(const struct engine *engine, const struct timer *timer)
{
    assert(timer->id.partition == engine->options.partition);
    if (timer->state == TIMER_RETRYING && !position_keeps_place(timer))
        return position_placed_at(engine, timer).ms > engine->now.ms;
    return (timer->state == TIMER_SCHEDULED || position_keeps_place(timer)) &&
           timer->at.ms > timer->due.ms && timer->due.ms > engine->now.ms;
}

bool position_is_due(const struct engine *engine, const struct timer *timer)
{
    assert(!timer_is_final(timer->state));
    return wall_max(timer->at, timer->due).ms <= engine->now.ms;
}
