/*
 * explain_text.h - what holds a timer back and what made it late, in the words of those who ask.
 *
 *     explain_say(&view, &text);          It has been due for 3s. No worker asks for items of ...
 *     explain_say_detail(&view, &text);   In a dispatch queue, for the reason "worker".
 *
 * The first names the cause as people think of it: a receiver that fails, a pause, a queue without
 * a worker, a limit and its setting. The second has the engine's words: window, level, bucket.
 *
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_API_TIMERS_EXPLAIN_TEXT_H
#define TICKWHEEL_API_TIMERS_EXPLAIN_TEXT_H

#include "delivery/targets.h"
#include "engine/explain.h"
#include "timer/named_limits.h"
#include "timer/target_pauses.h"

struct explain_view {
    const struct timer *timer;
    const struct explained *explained;
    const struct target_status *target; /* NULL if its state is unknown */
    const struct target_pause *pause;   /* that of its queue or target; NULL if there is none */
    struct named_limits limits;         /* those of its named target; 0 if it has none */
    struct bytes flow; /* text of the limits that are defined for its flow; empty if none are */
};

/* Returns the earliest time of the next attempt, as far as known. False while a pause or
 * maintenance without an end holds the timer back. */
bool explain_next(const struct explain_view *view, struct wall *ret_next);

/* Appends a blank and what holds the timer back, the strongest cause first. Nothing if that is its
 * due time. */
void explain_say_why(const struct explain_view *view, struct buffer *out);

void explain_say(const struct explain_view *view, struct buffer *out);
void explain_say_detail(const struct explain_view *view, struct buffer *out);

#endif
