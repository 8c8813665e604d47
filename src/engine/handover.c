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
    LIST_FOR_EACH (entries_busy(engine->entries), link)
        entries_release(engine->entries, entry_of(link), ret_timers);
}

static bool handover_take(struct engine *engine, struct entry *entry)
{
    assert(entry->timer->id.partition == engine->options.partition);
    assert(!timer_is_over(entry->timer->state));
    list_remove(&entry->link);
    if (!lanes_adopt(engine, entry))
        return false;
    entries_count(engine->entries, entry);
    return true;
}

bool engine_adopt(struct engine *engine, struct list *timers)
{
    LIST_FOR_EACH (timers, link)
        if (!handover_take(engine, entry_of(link))) {
            list_push_front(timers, link);
            return false;
        }
    return true;
}
