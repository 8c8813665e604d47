/* next.c - the latest of the times that a timer waits for. */
#include "api/timers/next.h"

#include "store/storage.h"

bool next_attempt(const struct next_view *view, struct next *ret_next)
{
    const struct timer *timer = view->timer;
    /* The row of an extended timer stays at its old time, which `at` is, until that time comes. */
    struct next next = {.at = wall_max(wall_max(timer->at, timer->due), view->waits_until),
                        .held_by = timer->state == TIMER_PAUSED ? "pause" : NULL};

    if (view->target && view->target->state != BREAKER_CLOSED) {
        const struct wall tried = wall_add(view->now, view->target->wait_ms);

        if (tried.ms > next.at.ms)
            next = (struct next){tried, "breaker"};
    }
    if (target_pause_is_in_force(view->pause, view->now) && view->pause->until.ms > next.at.ms)
        next = (struct next){view->pause->until, "target_pause"};
    if (view->is_maintained)
        next.held_by = "maintenance";
    *ret_next = next;
    return !view->is_maintained && next.at.ms <= WALL_MS_MAX && next.at.ms < STORAGE_PAUSED_AT.ms;
}
