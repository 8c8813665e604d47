/*
 * firing.h - a timer that is one firing of another timer.
 *
 *     struct timer *firing = firing_create(timer, due);
 *
 * A timer whose firings may overlap (schedule.h) hands each of them to a new timer of the same
 * tenant, made in one write with its own step to the next planned instant. The new timer has the
 * content, retry policy, labels, events and reports of the other one, and the planned instant as
 * its due time. It fires once, and is retried, dies and is redriven like any other timer.
 *
 * A backfill (backfill.h) is made of a timer in the same way, and repeats.
 *
 * Errors     Only for want of memory.
 * Ownership  A firing copies what it shows.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_FIRING_H
#define TICKWHEEL_TIMER_FIRING_H

#include "timer/schedule.h"
#include "timer/timer.h"

/* Appends the schedule of a timer that delivers a firing of `timer`, and does not repeat: the mark
 * of a backfill, or nothing. */
void firing_write_mark(const struct timer *timer, struct buffer *to);

/* Makes the firing of `timer` that is due at `due`. Id and position are not set. NULL if out of
 * memory, or if the schedule of `timer` makes no sense. */
struct timer *firing_create(const struct timer *timer, struct wall due);

/* Makes a backfill of `timer`, which repeats. Its firings are those of that timer from the one due
 * at `first` to the one due at `last`; `backfill` says for whom. They follow each other, unless the
 * timer allows its firings to overlap. Id and position are not set. NULL if out of memory. */
struct timer *firing_create_backfill(const struct timer *timer, const struct backfill *backfill,
                                     struct wall first, struct wall last);

#endif
