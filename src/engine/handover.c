/*
 * A partition changes its engine while deliveries are under way: the old engine gives the timers of
 * those deliveries to the next one, so that none is delivered twice because of the move. Everything
 * else is in the storage, where the next engine finds it as after a restart.
 */
#include "engine/engine_private.h"

#include <assert.h>

bool engine_is_settled(const struct engine *engine)
{
    return engine->batches_out == 0 && engine->reads_out == 0 && engine->write_count == 0 &&
           !engine->meta_wanted && list_is_empty(&engine->reads) &&
           list_is_empty(&engine->rewrites) && list_is_empty(&engine->doubts) &&
           list_is_empty(&engine->deliveries) && list_is_empty(&engine->recorded) &&
           list_is_empty(&engine->replies);
}

void engine_resume(struct engine *engine)
{
    engine->is_draining = false;
}

void engine_release(struct engine *engine, struct list *ret_timers)
{
    assert(engine->is_draining && engine_is_settled(engine));
    LIST_FOR_EACH (&engine->busy, link) {
        struct timer *timer = timer_of(link);

        assert(timer->private_.phase == PHASE_OUT);
        map_remove(&engine->timers, timer->id.serial);
        engine_uncount(engine, timer);
        list_remove(link);
        timer->private_.phase = PHASE_NONE;
        list_push(ret_timers, link);
    }
}

static bool handover_take(struct engine *engine, struct timer *timer)
{
    assert(timer->id.partition == engine->options.partition);
    assert(!timer_is_over(timer->state) && timer->private_.phase == PHASE_NONE);
    if (!map_put(&engine->timers, timer->id.serial, timer))
        return false;
    list_remove(&timer->private_.link);
    if (lanes_adopt(engine, timer)) {
        engine_count(engine, timer);
        return true;
    }
    map_remove(&engine->timers, timer->id.serial);
    return false;
}

bool engine_adopt(struct engine *engine, struct list *timers)
{
    LIST_FOR_EACH (timers, link)
        if (!handover_take(engine, timer_of(link))) {
            list_remove(link);
            list_push_front(timers, link);
            return false;
        }
    return true;
}
