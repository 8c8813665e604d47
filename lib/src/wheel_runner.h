/*
 * wheel_runner.h - functions of the wheel for the runner: shortening its front, memory that is not
 * touched, the kind of a handle. For the wheel and the runner only.
 */
#ifndef TICKWHEEL_WHEEL_RUNNER_H
#define TICKWHEEL_WHEEL_RUNNER_H

#include <tickwheel/wheel.h>

/* What prune does with the entry of an armed timer that is due after the entry's bucket. */
enum wheel_prune { PRUNE_KEEPS_LATER, PRUNE_MOVES_LATER };

/* Removes buckets from the front of the wheel, up to one in which a timer is due. Reads or moves at
 * most `budget` entries. Returns the number of removed buckets. */
size_t tw__wheel_prune(struct tw_wheel *wheel, enum wheel_prune how, int64_t budget);

/* Allocates memory for `count` timers held at the same time, as tw_wheel_reserve does, but does not
 * write to it. Slots are added by the thousand, so a call for one more timer is short. */
bool tw__wheel_reserve_untouched(struct tw_wheel *wheel, size_t count);

/* Schedule and open a timer without data. The mark of the slot keeps its value, which is 0 at
 * first. */
tw_handle tw__wheel_schedule_bare(struct tw_wheel *wheel, uint64_t deadline);
tw_handle tw__wheel_open_bare(struct tw_wheel *wheel);

/* Returns the mark of a slot, which is one half of what other functions use for the timer's data;
 * the other half changes when the slot is freed. NULL if the slot was never used. */
uint32_t *tw__wheel_mark(struct tw_wheel *wheel, tw_handle timer);

/* Layout of the memory of slots, for prefetching before the wheel is locked. WHEEL_RUN slots, from
 * a multiple of that number on, have their records one after the other, and their extras likewise.
 * They never move. */
enum { WHEEL_RUN = 1024, WHEEL_RECORD_SIZE = 16, WHEEL_EXTRA_SIZE = 8 };

/* Returns the record of a slot for which memory is reserved. The second function: what the slot
 * also needs if its timer was moved. */
const char *tw__wheel_record_memory(const struct tw_wheel *wheel, uint32_t index);
const char *tw__wheel_extra_memory(const struct tw_wheel *wheel, uint32_t index);

/* True if the handle, stale or not, belongs to a timer that was opened. */
bool tw__wheel_is_opened(tw_handle timer);

/* For checks: returns the earliest deadline of all timers; TW_NEVER if there are none.
 * O(timers). */
uint64_t tw__wheel_earliest(const struct tw_wheel *wheel);

#endif
