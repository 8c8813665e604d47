/*
 * wheel_runner.h - functions of the wheel for the runner: shortening its front, memory that is not
 * touched, the kind of a handle. For the wheel and the runner only.
 */
#ifndef TICKWHEEL_WHEEL_RUNNER_H
#define TICKWHEEL_WHEEL_RUNNER_H

#include <tickwheel/wheel.h>

/* What prune does with the entry of an armed timer that is due after the entry's bucket. */
enum wheel_prune { PRUNE_KEEPS_LATER, PRUNE_MOVES_LATER };

/* Removes buckets from the front of the wheel until one holds a timer that is due in it. Reads or
 * moves at most `budget` entries. Returns how many buckets were removed. */
size_t tw__wheel_prune(struct tw_wheel *wheel, enum wheel_prune how, int64_t budget);

/* Allocates memory for `count` timers held at once, as tw_wheel_reserve does, without touching it.
 * Slots are added by the thousand, so a call for one more timer is short. */
bool tw__wheel_reserve_untouched(struct tw_wheel *wheel, size_t count);

/* Whether a handle, stale or not, is of an opened timer. */
bool tw__wheel_is_opened(tw_handle timer);

/* For checks: the earliest deadline of all timers; TW_NEVER without one. O(timers). */
uint64_t tw__wheel_earliest(const struct tw_wheel *wheel);

#endif
