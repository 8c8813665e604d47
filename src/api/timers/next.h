/*
 * next.h - when a timer can be tried next, and what holds it back until then.
 *
 *     const struct next_view view = {.timer = timer, .now = now, .pause = pause};
 *     if (next_attempt(&view, &next))
 *         ... next.at, next.held_by
 *
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_API_TIMERS_NEXT_H
#define TICKWHEEL_API_TIMERS_NEXT_H

#include "delivery/targets.h"
#include "timer/target_pauses.h"

/* What is known of a timer that is not over. */
struct next_view {
    const struct timer *timer;
    struct wall now;
    struct wall waits_until; /* Time that its dispatch queue waits for; 0 if none is known. */
    const struct target_status *target; /* NULL if its state is unknown */
    const struct target_pause *pause;   /* that of its queue or target; NULL if there is none */
    bool is_maintained;                 /* maintenance holds all deliveries back */
};

struct next {
    struct wall at; /* Earliest time of the next attempt. */
    const char
        *held_by; /* "pause", "maintenance", "breaker" or "target_pause"; NULL for nothing. */
};

/* Returns false if the time is unknown, while maintenance or a pause without an end holds the timer
 * back; `held_by` names it. */
bool next_attempt(const struct next_view *view, struct next *ret_next);

#endif
