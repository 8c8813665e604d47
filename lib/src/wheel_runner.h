/*
 * wheel_runner.h - functions of the wheel for the runner: reading and shortening its front, and
 * memory that is not touched. For the wheel and the runner only.
 */
#ifndef TICKWHEEL_WHEEL_RUNNER_H
#define TICKWHEEL_WHEEL_RUNNER_H

#include <tickwheel/wheel.h>

/* What prune does with the entry of an armed timer that is due after the entry's bucket. */
enum wheel_prune { PRUNE_KEEPS_LATER, PRUNE_MOVES_LATER };

/* Removes buckets from the front of the wheel until one holds a timer that is due in it. Reads or
 * moves at most `budget` entries. Returns how many buckets were removed. */
size_t tw__wheel_prune(struct tw_wheel *wheel, enum wheel_prune how, int64_t budget);

/* Stores in `ret_data` the data of up to `limit` timers that are due in the first non-empty bucket.
 * Returns their number; 0 while expire is behind. Reads at most `budget` entries. */
size_t tw__wheel_peek(const struct tw_wheel *wheel, uint64_t *ret_data, size_t limit,
                      int64_t budget);

/* Allocates memory for `count` timers held at once, as tw_wheel_reserve does, without touching it.
 * Slots are added by the thousand, so a call for one more timer is short. */
bool tw__wheel_reserve_untouched(struct tw_wheel *wheel, size_t count);

#endif
