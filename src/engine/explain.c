/* Where a timer is, for clients that ask. */
#include "engine/commands.h"

#include "engine/dispatch.h"
#include "engine/engine_core.h"
#include "engine/history.h"
#include "engine/position.h"
#include "engine/window.h"
#include "timer/awaits.h"

#include <assert.h>

/* Explains a timer that is only on disk. Its row is read when the frontier reaches it, at least
 * half a window before its time. */
static void explain_on_disk(const struct engine *engine, const struct timer *timer,
                            struct explained *explained)
{
    uint64_t ahead_ms = engine->options.window_ms;

    assert(explained->until.ms == WALL_NEVER.ms);
    assert(!timer_is_final(timer->state));
    explained->place = PLACE_DISK;
    explained->is_spilled = position_is_spilled(engine, timer);
    explained->read_at.ms = timer->at.ms > ahead_ms ? timer->at.ms - ahead_ms : 0;
}

/* True if the attempt whose lateness is kept was put off before it began: the breaker was open when
 * it was handed out. Its number is then that of the attempt that is still to come. */
static bool explain_is_of_no_attempt(const struct history_entry *kept, const struct timer *timer)
{
    return !timer_is_final(timer->state) && kept->lateness.attempt > timer->attempts &&
           kept->carry.base.ms == history_base(timer).ms;
}

void explain_timer(struct engine *engine, const struct entry *entry,
                   struct explained *ret_explained)
{
    const struct timer *timer = entry->timer;
    const struct history_entry *kept = history_find(engine->history, timer->id.serial);

    assert(entry->phase != ENTRY_ABSENT && entry->phase != ENTRY_LOADING);
    *ret_explained = (struct explained){.now = engine->now, .until = WALL_NEVER};
    if (kept && (entry->phase == ENTRY_INFLIGHT || timer_awaits(timer) ||
                 !explain_is_of_no_attempt(kept, timer)))
        ret_explained->lateness = kept->lateness;
    struct tw_wheel_place place;
    if (timer_is_final(timer->state)) {
        ret_explained->place = PLACE_FINAL;
    } else if (entry->phase == ENTRY_QUEUED || entry->phase == ENTRY_INFLIGHT) {
        dispatch_explain(engine, entry, ret_explained);
    } else if (entry->phase == ENTRY_SCHEDULED && window_find(engine, entry, &place)) {
        ret_explained->place = PLACE_WHEEL;
        ret_explained->wheel_level = place.level;
        ret_explained->wheel_bucket = place.bucket;
    } else {
        explain_on_disk(engine, timer, ret_explained);
    }
    assert(timer_is_final(timer->state) == (ret_explained->place == PLACE_FINAL));
}
