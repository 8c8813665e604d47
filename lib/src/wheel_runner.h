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

/* Schedule and open without data: the slot's mark keeps its value, which is 0 at first. */
tw_handle tw__wheel_schedule_bare(struct tw_wheel *wheel, uint64_t deadline);
tw_handle tw__wheel_open_bare(struct tw_wheel *wheel);

/* The mark of a slot: half of what other functions use for the timer's data; the other half changes
 * when the slot is freed. NULL if the slot was never used. */
uint32_t *tw__wheel_mark(struct tw_wheel *wheel, tw_handle timer);

/* The memory of slots, for prefetching before the wheel is locked: WHEEL_RUN slots, from a multiple
 * of it on, have their records one after the other, and likewise their extras. They never move. */
enum { WHEEL_RUN = 1024, WHEEL_RECORD_SIZE = 16, WHEEL_EXTRA_SIZE = 8 };

/* The record of a slot for which memory is reserved, and what it needs besides if it was moved. */
const char *tw__wheel_record_memory(const struct tw_wheel *wheel, uint32_t index);
const char *tw__wheel_extra_memory(const struct tw_wheel *wheel, uint32_t index);

/* Whether a handle, stale or not, is of an opened timer. */
bool tw__wheel_is_opened(tw_handle timer);

/* For checks: the earliest deadline of all timers; TW_NEVER without one. O(timers). */
uint64_t tw__wheel_earliest(const struct tw_wheel *wheel);

#endif
