/* wheel.c - creating a wheel, and the verbs on one timer. */
#include "wheel_private.h"
#include "wheel_runner.h"

#include <limits.h>
#include <string.h>

enum {
    MANY_AHEAD = 24, /* number of timers by which the verbs for many prefetch ahead */
    /* number of records, of slots never used, by which schedule_many prefetches ahead */
    RECORDS_AHEAD = 32
};

_Static_assert((int)MANY_AHEAD < (int)FREE_TOP, "free slots are known that far ahead");

struct tw_wheel *tw_wheel_create(const struct tw_wheel_options *options)
{
    struct tw_wheel_options with = options ? *options : (struct tw_wheel_options){0};
    struct memory memory =
        memory_from(tw__memory_source(with.allocate, with.release, with.context));
    struct tw_wheel *wheel = memory_take_aligned(&memory, LINE_SIZE, sizeof(*wheel));
    if (!wheel)
        return NULL;
    memset(wheel, 0, sizeof(*wheel));
    wheel->memory = memory;
    wheel->now = with.start < TW_NEVER ? with.start : TW_NEVER - 1;
    wheel->cursor = wheel->now;
    wheel->next = TW_NEVER;
    tw__wheel_set_ends(wheel);
    for (unsigned level = 0; level < LEVELS; level++)
        for (unsigned bit = 0; bit < DIGIT_BITS; bit++)
            wheel->levels[level * DIGIT_BITS + bit] = wheel->buckets[level];
    wheel->sweep_number = 1;
    wheel->stale_slack = STALE_SLACK;
    wheel->moves_max = TW_WHEEL_MOVES_MAX;
    wheel->timer_count_max = SLOTS_MAX;
    if (with.timer_count_max && with.timer_count_max < SLOTS_MAX)
        wheel->timer_count_max = (uint32_t)with.timer_count_max;
    return wheel;
}

bool tw__wheel_reserve_untouched(struct tw_wheel *wheel, size_t count)
{
    uint64_t slots = (uint64_t)count + wheel->retired_count;
    if (count > wheel->timer_count_max || slots > SLOTS_MAX)
        return false;
    return slots <= wheel->slot_capacity || tw__wheel_grow(wheel, slots);
}

bool tw_wheel_reserve(struct tw_wheel *wheel, size_t count)
{
    if (!tw__wheel_reserve_untouched(wheel, count))
        return false;
    tw__wheel_touch(wheel, (uint64_t)count + wheel->retired_count);
    return true;
}

bool tw__wheel_is_opened(tw_handle timer)
{
    return tw__wheel_kind_of(timer) == IS_OPENED;
}

/* Adds slots. Returns false if the limit is reached or memory is out. */
static bool wheel_add_slots(struct tw_wheel *wheel)
{
    /* No slots are added beyond the limit, so that taking a free slot need not check it. */
    uint64_t count = (uint64_t)wheel->slot_count + 1;
    if (count - wheel->retired_count > wheel->timer_count_max || count > SLOTS_MAX)
        return false;
    return tw__wheel_grow(wheel, count);
}

/* Finds the piece of the next slot that was never used, and allocates it if needed. Returns false
 * if the limit is reached or memory is out. */
static bool wheel_find_fresh(struct tw_wheel *wheel)
{
    uint32_t index = wheel->slot_count;
    if (index == wheel->slot_capacity && !wheel_add_slots(wheel))
        return false;
    uint64_t end = (uint64_t)(index | (SEGMENT_SLOTS - 1)) + 1;
    wheel->fresh_end = end < wheel->slot_capacity ? (uint32_t)end : wheel->slot_capacity;
    wheel->fresh_record = (uintptr_t)tw__wheel_record(wheel, index);
    return true;
}

/* Counts `count` slots from `slot_count` on as used. */
static inline void wheel_count_fresh(struct tw_wheel *wheel, uint32_t count)
{
    wheel->slot_count += count;
    wheel->fresh_record += (uintptr_t)count * sizeof(struct wheel_record);
}

/* Takes the slot that was freed last, because it is still in the cache. There must be one. */
static inline uint32_t wheel_slot_take_free(struct tw_wheel *wheel)
{
    uint32_t *place = &wheel->free_top[--wheel->free_count % FREE_TOP];
    uint32_t index = *place;
    *place = tw__wheel_record(wheel, index)->below;
    return index;
}

/* The state and generation of a slot that was never used. */
#define GENERATION_FIRST (GENERATION_STEP | STATE_NONE | NO_STALE)

/* True if a timer in STATE_NEAR or STATE_MOVED can keep its entry, and be in STATE_MOVED, for a
 * deadline that is not before the present one. */
static inline bool wheel_is_later(const struct tw_wheel *wheel, const struct wheel_record *record,
                                  uint64_t deadline)
{
    return tw__wheel_is_near(wheel, deadline) && (uint32_t)deadline >= record->tick_low;
}

/* Gives a record for which wheel_is_later is true that deadline. `generation` is the record's new
 * one, with its present state. */
static inline void wheel_move_later(struct tw_wheel *wheel, struct wheel_record *record,
                                    uint32_t index, uint32_t generation, uint64_t deadline)
{
    if (UNLIKELY((generation & (NO_STALE | STATE_MASK)) == STATE_NEAR))
        tw__wheel_extra(wheel, index)->entry_tick = record->tick_low;
    record->generation = generation | STATE_MOVED;
    record->tick_low = (uint32_t)deadline;
}

/* Keeps the entry of a slot for a deadline that is not before the entry; or for any deadline if the
 * entry is at the cursor. `generation` is the record's new one, without a state. */
static void wheel_keep_entry(struct tw_wheel *wheel, struct wheel_record *record, uint32_t index,
                             uint32_t generation, uint64_t deadline)
{
    union wheel_extra *extra = tw__wheel_extra(wheel, index);
    uint32_t state = record->generation & STATE_MASK;
    /* the tick of the entry is stored in `extras` */
    bool is_second = !(generation & NO_STALE) && state == STATE_MOVED;
    uint32_t entry_tick = is_second ? extra->entry_tick : record->tick_low;
    if (state == STATE_WIDE || !tw__wheel_is_near(wheel, deadline)) {
        record->generation = generation | STATE_WIDE;
        record->tick_low = entry_tick; /* if the slot has only one entry, any tick will do */
        extra->due = deadline;
        return;
    }
    wheel_move_later(wheel, record, index, generation | state, deadline);
}

/* True if an entry of the slot is known to be early enough for a deadline. If the tick of the entry
 * is not known, it is not after the old deadline. */
static bool wheel_entry_is_good(const struct tw_wheel *wheel, const struct wheel_record *record,
                                uint32_t index, uint64_t deadline)
{
    uint32_t state = record->generation & STATE_MASK;
    if (state == STATE_NONE)
        return false;
    if (deadline >= tw__wheel_due(wheel, record, index))
        return true;
    if (state != STATE_MOVED || record->generation & NO_STALE)
        return state == STATE_NEAR && record->tick_low == (uint32_t)wheel->cursor;
    uint32_t tick_low = tw__wheel_extra(wheel, index)->entry_tick;
    return deadline >= tw__wheel_near_tick(wheel, tick_low) || tick_low == (uint32_t)wheel->cursor;
}

/* Sets the deadline of a timer in any state. A new entry is made if there is none, or if the
 * present one would be reached too late. An entry at the cursor is early enough. */
static void wheel_put_slowly(struct tw_wheel *wheel, struct wheel_record *record, uint32_t index,
                             uint64_t deadline)
{
    uint32_t generation = (record->generation | IS_ARMED) & ~(uint32_t)STATE_MASK;
    tw__wheel_set_ends(wheel);
    wheel->armed_count += !(record->generation & IS_ARMED);
    if (wheel_entry_is_good(wheel, record, index, deadline)) {
        wheel_keep_entry(wheel, record, index, generation, deadline);
        return;
    }
    if ((record->generation & STATE_MASK) == STATE_NONE) {
        tw__wheel_enter(wheel, record, index, generation, deadline);
        return;
    }
    tw__wheel_enter(wheel, record, index, generation & ~NO_STALE, deadline);
    (void)tw__wheel_count_stale(wheel);
}

/* True if the entry of a timer in STATE_MOVED is known to be early enough for a near deadline.
 * `generation` is that of the record. */
static inline bool wheel_is_after_entry(const struct tw_wheel *wheel, uint32_t index,
                                        uint32_t generation, uint64_t deadline)
{
    return (generation & (NO_STALE | STATE_MASK)) == STATE_MOVED &&
           (uint32_t)deadline >= tw__wheel_extra(wheel, index)->entry_tick;
}

/* Sets a deadline if that is quick: there is room for an entry, or the slot has a near entry that
 * is early enough. Otherwise returns false and changes nothing. `generation` is that of the record.
 *
 * Here and below, rare cases are in functions that are not inlined and are called last, so that the
 * common path saves no registers. A processor overlaps the memory accesses of as many timers as fit
 * into its instruction window, so each instruction less shortens the wait. */
static inline bool wheel_put_quickly(struct tw_wheel *wheel, struct wheel_record *record,
                                     uint32_t index, uint32_t generation, uint64_t deadline)
{
    uint32_t state = generation & STATE_MASK;
    uint32_t armed = generation | IS_ARMED;
    if (state == STATE_NONE) {
        if (!tw__wheel_enter_quickly(wheel, record, index, armed, deadline))
            return false;
    } else if (UNLIKELY(state == STATE_WIDE)) {
        return false;
    } else if (wheel_is_later(wheel, record, deadline)) {
        wheel_move_later(wheel, record, index, armed, deadline);
    } else if (tw__wheel_is_near(wheel, deadline) &&
               wheel_is_after_entry(wheel, index, generation, deadline)) {
        record->generation = armed;
        record->tick_low = (uint32_t)deadline;
    } else {
        armed &= ~(STATE_MASK | NO_STALE);
        if (!tw__wheel_enter_quickly(wheel, record, index, armed, deadline))
            return false;
        if (!(generation & IS_ARMED))
            wheel->armed_count++;
        return tw__wheel_count_stale(wheel);
    }
    if (!(generation & IS_ARMED))
        wheel->armed_count++; /* a branch, as in wheel_clear_deadline */
    return true;
}

static __attribute__((noinline)) bool wheel_set_slowly(struct tw_wheel *wheel,
                                                       struct wheel_record *record, uint32_t index,
                                                       uint64_t deadline)
{
    if (deadline == TW_NEVER)
        (void)tw__wheel_clear_deadline(wheel, record);
    else
        wheel_put_slowly(wheel, record, index, deadline);
    return true;
}

/* Sets the deadline in the cases that wheel_set_deadline does not handle. The handle is not stale.
 * Returns true. */
static __attribute__((noinline)) bool wheel_set_general(struct tw_wheel *wheel, tw_handle timer,
                                                        uint64_t deadline)
{
    uint32_t index = (uint32_t)timer;
    struct wheel_record *record = tw__wheel_record(wheel, index);
    if (LIKELY(wheel_put_quickly(wheel, record, index, record->generation, deadline)))
        return true;
    return wheel_set_slowly(wheel, record, index, deadline);
}

/* Gives an armed timer in STATE_NEAR or STATE_MOVED a deadline for which wheel_is_later is false.
 * The handle is not stale. Returns true. */
static __attribute__((noinline)) bool wheel_set_earlier(struct tw_wheel *wheel, tw_handle timer,
                                                        uint64_t deadline)
{
    uint32_t index = (uint32_t)timer;
    struct wheel_record *record = tw__wheel_record(wheel, index);
    uint32_t generation = record->generation;
    if (wheel_is_after_entry(wheel, index, generation, deadline) &&
        tw__wheel_is_near(wheel, deadline)) {
        record->tick_low = (uint32_t)deadline;
        return true;
    }
    generation &= ~(STATE_MASK | NO_STALE);
    if (UNLIKELY(!tw__wheel_enter_quickly(wheel, record, index, generation, deadline)))
        return wheel_set_slowly(wheel, record, index, deadline);
    return tw__wheel_count_stale(wheel);
}

/* Changes the deadline of a held timer. Usually an armed timer gets a later deadline, or a timer
 * without an entry gets its first one. One comparison proves each of these cases, and that the
 * handle is valid. Returns false if the handle is stale. */
static inline bool wheel_set_deadline(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline,
                                      uint32_t kind)
{
    uint32_t index = (uint32_t)timer;
    (void)kind; /* used by assert() only */
    assert(tw__wheel_kind_of(timer) == kind || !tw__wheel_lookup(wheel, timer));
    if (UNLIKELY(index >= wheel->slot_count))
        return false;
    struct wheel_record *record = tw__wheel_record(wheel, index);
    uint32_t generation = record->generation;
    uint32_t differs = generation ^ (uint32_t)(timer >> 32);
    /* Generations from `least` on are armed, and in STATE_NEAR without stale entries or in
     * STATE_MOVED. */
    uint32_t least = IS_ARMED | STATE_NEAR | NO_STALE;
    if (LIKELY(differs - least <= NOT_IN_HANDLE - least)) {
        if (LIKELY(wheel_is_later(wheel, record, deadline))) {
            record->generation = generation | STATE_MOVED;
            record->tick_low = (uint32_t)deadline;
            return true;
        }
        return wheel_set_earlier(wheel, timer, deadline);
    } else if (differs <= (STATE_NONE | NO_STALE)) {
        if (LIKELY(
                tw__wheel_enter_quickly(wheel, record, index, generation | IS_ARMED, deadline))) {
            wheel->armed_count++;
            return true;
        }
    } else if ((differs | IS_ARMED | (STATE_NEAR ^ STATE_MOVED) | NO_STALE) == NOT_IN_HANDLE) {
        if (LIKELY(wheel_is_later(wheel, record, deadline))) {
            if (!(generation & IS_ARMED))
                wheel->armed_count++;
            wheel_move_later(wheel, record, index, generation | IS_ARMED, deadline);
            return true;
        }
    }
    if (UNLIKELY(differs > NOT_IN_HANDLE))
        return false;
    return wheel_set_general(wheel, timer, deadline);
}

static __attribute__((noinline)) tw_handle wheel_schedule_slowly(struct tw_wheel *wheel,
                                                                 uint32_t index, uint64_t deadline)
{
    struct wheel_record *record = tw__wheel_record(wheel, index);
    (void)wheel_set_slowly(wheel, record, index, deadline);
    return tw__wheel_handle(record->generation, index);
}

/* Schedules a timer in a slot that was never used, whatever the deadline. */
static __attribute__((noinline)) tw_handle wheel_schedule_first(struct tw_wheel *wheel,
                                                                uint64_t deadline, uint64_t data)
{
    uint32_t index = wheel->slot_count;
    if (index >= wheel->fresh_end && !wheel_find_fresh(wheel))
        return TW_NONE;
    wheel_count_fresh(wheel, 1);
    struct wheel_record *record = tw__wheel_record(wheel, index);
    record->data = data;
    record->generation = GENERATION_FIRST;
    return wheel_schedule_slowly(wheel, index, deadline);
}

/* Schedules a timer in a free slot; there must be one. */
static __attribute__((noinline)) tw_handle wheel_schedule_again(struct tw_wheel *wheel,
                                                                uint64_t deadline, uint64_t data)
{
    uint32_t index = wheel_slot_take_free(wheel);
    struct wheel_record *record = tw__wheel_record(wheel, index);
    uint32_t generation = record->generation;
    record->data = data;
    if (UNLIKELY(!wheel_put_quickly(wheel, record, index, generation, deadline)))
        return wheel_schedule_slowly(wheel, index, deadline);
    return tw__wheel_handle(generation, index);
}

/* Schedules a timer in the cases that tw_wheel_schedule does not handle. */
static __attribute__((noinline)) tw_handle wheel_schedule_other(struct tw_wheel *wheel,
                                                                uint64_t deadline, uint64_t data)
{
    if (wheel->free_count > 0)
        return wheel_schedule_again(wheel, deadline, data);
    if (wheel->slot_count < wheel->fresh_end && tw__wheel_make_room(wheel, deadline))
        return tw_wheel_schedule(wheel, deadline, data);
    return wheel_schedule_first(wheel, deadline, data);
}

tw_handle tw_wheel_schedule(struct tw_wheel *wheel, uint64_t deadline, uint64_t data)
{
    uint32_t index = wheel->slot_count;
    struct wheel_record *record = (struct wheel_record *)wheel->fresh_record;
    if (UNLIKELY(index >= wheel->fresh_end || !tw__wheel_append_quickly(wheel, index, deadline)))
        return wheel_schedule_other(wheel, deadline, data);
    wheel->armed_count++;
    record->data = data;
    record->generation = GENERATION_FIRST | IS_ARMED | STATE_NEAR;
    record->tick_low = (uint32_t)deadline;
    wheel_count_fresh(wheel, 1);
    return tw__wheel_handle(GENERATION_FIRST, index);
}

tw_handle tw__wheel_schedule_bare(struct tw_wheel *wheel, uint64_t deadline)
{
    if (UNLIKELY(wheel->free_count == 0))
        return tw_wheel_schedule(wheel, deadline, 0);
    uint32_t index = wheel_slot_take_free(wheel);
    struct wheel_record *record = tw__wheel_record(wheel, index);
    uint32_t generation = record->generation;
    if (UNLIKELY(!wheel_put_quickly(wheel, record, index, generation, deadline)))
        return wheel_schedule_slowly(wheel, index, deadline);
    return tw__wheel_handle(generation, index);
}

bool tw_wheel_reschedule(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    return wheel_set_deadline(wheel, timer, deadline, 0);
}

bool tw_wheel_cancel(struct tw_wheel *wheel, tw_handle timer)
{
    return tw__wheel_end(wheel, timer, 0);
}

tw_handle tw_wheel_open(struct tw_wheel *wheel, uint64_t data)
{
    uint32_t index = wheel->slot_count, generation = GENERATION_FIRST;
    struct wheel_record *record;
    if (wheel->free_count > 0) {
        index = wheel_slot_take_free(wheel);
        record = tw__wheel_record(wheel, index);
        generation = record->generation;
    } else {
        if (UNLIKELY(index >= wheel->fresh_end))
            return wheel_find_fresh(wheel) ? tw_wheel_open(wheel, data) : TW_NONE;
        record = (struct wheel_record *)wheel->fresh_record;
        wheel_count_fresh(wheel, 1);
    }
    record->generation = generation | IS_OPENED;
    record->data = data;
    return tw__wheel_handle(generation | IS_OPENED, index);
}

tw_handle tw__wheel_open_bare(struct tw_wheel *wheel)
{
    if (wheel->free_count == 0)
        return tw_wheel_open(wheel, 0);
    uint32_t index = wheel_slot_take_free(wheel);
    struct wheel_record *record = tw__wheel_record(wheel, index);
    record->generation |= IS_OPENED;
    return tw__wheel_handle(record->generation, index);
}

uint32_t *tw__wheel_mark(struct tw_wheel *wheel, tw_handle timer)
{
    uint32_t index = (uint32_t)timer;
    return index < wheel->slot_count ? &tw__wheel_record(wheel, index)->mark : NULL;
}

/* Not inlined into tw_wheel_arm_many, where it would need more registers than there are. */
__attribute__((noinline)) bool tw_wheel_arm(struct tw_wheel *wheel, tw_handle timer,
                                            uint64_t deadline)
{
    return wheel_set_deadline(wheel, timer, deadline, IS_OPENED);
}

bool tw_wheel_disarm(struct tw_wheel *wheel, tw_handle timer)
{
    struct wheel_record *record = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!record))
        return false;
    assert(tw__wheel_kind_of(timer) == IS_OPENED);
    return tw__wheel_clear_deadline(wheel, record);
}

bool tw_wheel_close(struct tw_wheel *wheel, tw_handle timer)
{
    return tw__wheel_end(wheel, timer, IS_OPENED);
}

void tw_wheel_prefetch(const struct tw_wheel *wheel, tw_handle timer)
{
    if (UNLIKELY((uint32_t)timer >= wheel->slot_count))
        return;
    tw__prefetch_to_write(tw__wheel_record(wheel, (uint32_t)timer));
}

/* Verbs for many timers. A processor overlaps the waits of a dozen single calls at most, and of
 * fewer if the address of a store comes from a load that waits. */

static inline void wheel_prefetch_record(const struct tw_wheel *wheel, tw_handle timer)
{
    if (LIKELY((uint32_t)timer < wheel->slot_count))
        tw__prefetch_to_write(tw__wheel_record(wheel, (uint32_t)timer));
}

/* Prefetches the records of the first timers, with which a loop over all begins. */
static void wheel_prefetch_first(const struct tw_wheel *wheel, const tw_handle *timers,
                                 size_t count)
{
    for (size_t i = 0; i < count && i < MANY_AHEAD; i++)
        wheel_prefetch_record(wheel, timers[i]);
}

/* Prefetches the free slot that will be taken after `ahead` others; `ahead` is below FREE_TOP. */
static inline void wheel_prefetch_free(const struct tw_wheel *wheel, uint32_t ahead)
{
    if (ahead >= wheel->free_count)
        return; /* slots that were never used are next to each other */
    uint32_t index = wheel->free_top[(wheel->free_count - 1 - ahead) % FREE_TOP];
    tw__prefetch_to_write(tw__wheel_record(wheel, index));
}

/* Schedules timers in slots before `fresh_end`, as long as that is quick. Returns their number. */
static __attribute__((noinline)) size_t wheel_schedule_fresh(struct tw_wheel *wheel,
                                                             const uint64_t *deadlines,
                                                             const uint64_t *data, size_t count,
                                                             tw_handle *ret_timers)
{
    uint64_t cursor = wheel->cursor, quick_end = wheel->quick_end;
    uint32_t first = wheel->slot_count;
    size_t done = 0, room = wheel->fresh_end - first;
    struct wheel_record *records = (struct wheel_record *)wheel->fresh_record;
    for (room = count < room ? count : room; done < room; done++) {
        uint32_t index = first + (uint32_t)done;
        uint64_t deadline = deadlines[done];
        if (UNLIKELY(!tw__wheel_append_between(wheel, cursor, quick_end, index, deadline)))
            break;
        tw__prefetch_to_write(&records[done + RECORDS_AHEAD]);
        records[done].data = data[done];
        records[done].generation = GENERATION_FIRST | IS_ARMED | STATE_NEAR;
        records[done].tick_low = (uint32_t)deadline;
        ret_timers[done] = tw__wheel_handle(GENERATION_FIRST, index);
    }
    wheel_count_fresh(wheel, (uint32_t)done);
    wheel->armed_count += (uint32_t)done;
    return done;
}

size_t tw_wheel_schedule_many(struct tw_wheel *wheel, const uint64_t *deadlines,
                              const uint64_t *data, size_t count, tw_handle *ret_timers)
{
    for (uint32_t i = 0; i < count && i < MANY_AHEAD; i++)
        wheel_prefetch_free(wheel, i);
    for (size_t i = 0; i < count; i++) {
        if (wheel->slot_count < wheel->fresh_end)
            i += wheel_schedule_fresh(wheel, deadlines + i, data + i, count - i, ret_timers + i);
        if (i == count)
            break;
        wheel_prefetch_free(wheel, MANY_AHEAD);
        tw_handle timer = wheel_schedule_other(wheel, deadlines[i], data[i]);
        if (UNLIKELY(timer == TW_NONE))
            return i;
        ret_timers[i] = timer;
    }
    return count;
}

static inline size_t wheel_end_many(struct tw_wheel *wheel, const tw_handle *timers, size_t count,
                                    uint32_t kind)
{
    size_t ended = 0;
    wheel_prefetch_first(wheel, timers, count);
    for (size_t i = 0; i < count; i++) {
        if (LIKELY(count - i > MANY_AHEAD))
            wheel_prefetch_record(wheel, timers[i + MANY_AHEAD]);
        ended += tw__wheel_end(wheel, timers[i], kind);
    }
    return ended;
}

size_t tw_wheel_cancel_many(struct tw_wheel *wheel, const tw_handle *timers, size_t count)
{
    return wheel_end_many(wheel, timers, count, 0);
}

size_t tw_wheel_close_many(struct tw_wheel *wheel, const tw_handle *timers, size_t count)
{
    return wheel_end_many(wheel, timers, count, IS_OPENED);
}

size_t tw_wheel_arm_many(struct tw_wheel *wheel, const tw_handle *timers, const uint64_t *deadlines,
                         size_t count)
{
    size_t armed = 0;
    wheel_prefetch_first(wheel, timers, count);
    for (size_t i = 0; i < count; i++) {
        if (LIKELY(count - i > MANY_AHEAD))
            wheel_prefetch_record(wheel, timers[i + MANY_AHEAD]);
        armed += tw_wheel_arm(wheel, timers[i], deadlines[i]);
    }
    return armed;
}

size_t tw_wheel_disarm_many(struct tw_wheel *wheel, const tw_handle *timers, size_t count)
{
    size_t disarmed = 0;
    wheel_prefetch_first(wheel, timers, count);
    for (size_t i = 0; i < count; i++) {
        if (LIKELY(count - i > MANY_AHEAD))
            wheel_prefetch_record(wheel, timers[i + MANY_AHEAD]);
        disarmed += tw_wheel_disarm(wheel, timers[i]);
    }
    return disarmed;
}

int tw_wheel_timeout(const struct tw_wheel *wheel, uint64_t now)
{
    uint64_t wake_at = tw_wheel_wake_at(wheel);
    if (wake_at == TW_NEVER)
        return -1;
    uint64_t ticks = wake_at > now ? wake_at - now : 0;
    return ticks < INT_MAX ? (int)ticks : INT_MAX;
}

uint64_t tw_wheel_now(const struct tw_wheel *wheel)
{
    return wheel->now;
}

size_t tw_wheel_count(const struct tw_wheel *wheel)
{
    return wheel->armed_count;
}

size_t tw_wheel_memory(const struct tw_wheel *wheel)
{
    return wheel->memory.bytes;
}

bool tw_wheel_find(const struct tw_wheel *wheel, tw_handle timer, struct tw_wheel_place *ret_place)
{
    const struct wheel_record *record = tw__wheel_lookup(wheel, timer);
    uint32_t index = (uint32_t)timer;
    if (!record || !(record->generation & IS_ARMED))
        return false;
    uint64_t due = tw__wheel_due(wheel, record, index);
    uint64_t tick = due > wheel->cursor ? due : wheel->cursor;
    unsigned shift = tw__wheel_shift(wheel, tick);
    *ret_place =
        (struct tw_wheel_place){due, shift / DIGIT_BITS, (unsigned)(tick >> shift) & (BUCKETS - 1)};
    return true;
}
