/* wheel.c - creating a wheel, and the verbs on one timer. */
#include "wheel_private.h"
#include "wheel_runner.h"

#include <limits.h>
#include <string.h>

enum { MANY_AHEAD = 24 }; /* timers prefetched ahead by the verbs for many */

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
    wheel->sweep_number = 1;
    wheel->plain_shift = LEVEL_FAR * DIGIT_BITS;
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

/* IS_OPENED or 0. Passing a valid handle of one kind to a function for the other kind is a bug in
 * the caller. */
static inline uint32_t wheel_kind_of(tw_handle timer)
{
    return (uint32_t)(timer >> 32) & IS_OPENED;
}

bool tw__wheel_is_opened(tw_handle timer)
{
    return wheel_kind_of(timer) == IS_OPENED;
}

/* Adds slots; false when over the limit or out of memory. */
static bool wheel_add_slots(struct tw_wheel *wheel)
{
    /* No slots beyond the limit are added, so taking a free slot needs no check of the limit. */
    uint64_t count = (uint64_t)wheel->slot_count + 1;
    if (count - wheel->retired_count > wheel->timer_count_max || count > SLOTS_MAX)
        return false;
    return tw__wheel_grow(wheel, count);
}

/* Takes a free slot; none when slots must be added first. The slot freed last is taken first,
 * because it is still in the cache. */
static inline struct wheel_slot wheel_slot_take(struct tw_wheel *wheel)
{
    if (LIKELY(wheel->free_count > 0))
        return tw__wheel_slot(wheel, *tw__wheel_free_slot(wheel, --wheel->free_count));
    uint32_t index = wheel->slot_count;
    if (UNLIKELY(index == wheel->slot_capacity))
        return (struct wheel_slot){NULL, NULL, 0};
    wheel->slot_count++;
    struct wheel_slot slot = tw__wheel_slot(wheel, index);
    *slot.record = (struct wheel_record){.generation = GENERATION_STEP | STATE_NONE};
    return slot;
}

/* Sets a timer's deadline, in every case. A new entry is needed if there is none, or if the present
 * entry is reached too late. An entry at the cursor is early enough. The tick of a far entry is
 * unknown, only that it is not after the old due, so it is early enough when the deadline moves
 * later. */
static void wheel_put_slowly(struct tw_wheel *wheel, uint32_t index, uint64_t deadline)
{
    struct wheel_slot slot = tw__wheel_slot(wheel, index);
    uint32_t generation = slot.record->generation;
    uint32_t state = generation & STATE_MASK;
    bool is_good_enough = state == STATE_FAR && deadline >= slot.timer->due;
    if (state == STATE_NEAR) {
        uint64_t tick = tw__wheel_near_tick(wheel, slot.record->entry_tick);
        is_good_enough = deadline >= tick || tick == wheel->cursor;
    }
    wheel->armed_count += !(generation & IS_ARMED);
    generation |= IS_ARMED;
    slot.timer->due = deadline;
    slot.record->generation = generation;
    if (is_good_enough)
        return;
    tw__wheel_enter(wheel, slot.record, index, generation & ~(uint32_t)STATE_MASK, deadline);
    if (state != STATE_NONE) {
        wheel->stale_count++;
        tw__wheel_sweep_pay(wheel);
    }
}

/* Sets the deadline of an unarmed timer when that is quick: there is room for an entry, or the slot
 * still has a near entry at or before the deadline. Otherwise returns false and changes nothing.
 *
 * Here and below, rare cases are in functions that are not inlined and are called last, so that the
 * common path saves no registers. A processor overlaps the memory accesses of as many timers as fit
 * into its instruction window, so each instruction less shortens the wait. */
static inline bool wheel_put_quickly(struct tw_wheel *wheel, struct wheel_slot slot,
                                     uint64_t deadline)
{
    uint32_t generation = slot.record->generation | IS_ARMED;
    if ((generation & STATE_MASK) == STATE_NONE) {
        if (!tw__wheel_enter_quickly(wheel, slot.record, slot.index, generation, deadline))
            return false;
    } else {
        uint64_t tick = tw__wheel_near_tick(wheel, slot.record->entry_tick);
        if (UNLIKELY((generation & STATE_MASK) != STATE_NEAR || deadline < tick))
            return false;
        slot.record->generation = generation;
    }
    slot.timer->due = deadline;
    wheel->armed_count++;
    return true;
}

/* Removes a record's deadline and returns whether it had one. The early return is deliberate: a
 * counter that depended on the value just read would make each call wait for the call before it. */
static inline bool wheel_clear_deadline(struct tw_wheel *wheel, struct wheel_record *record)
{
    if (UNLIKELY(!(record->generation & IS_ARMED)))
        return false;
    wheel->armed_count--;
    record->generation &= ~IS_ARMED;
    return true;
}

static __attribute__((noinline)) bool wheel_set_slowly(struct tw_wheel *wheel, uint32_t index,
                                                       uint64_t deadline)
{
    if (deadline == TW_NEVER)
        (void)wheel_clear_deadline(wheel, tw__wheel_record(wheel, index));
    else
        wheel_put_slowly(wheel, index, deadline);
    return true;
}

/* Sets the deadline in the cases that wheel_set_deadline leaves over. Returns true. */
static __attribute__((noinline)) bool wheel_set_general(struct tw_wheel *wheel,
                                                        struct wheel_record *record,
                                                        struct wheel_timer *timer, uint32_t index,
                                                        uint64_t deadline)
{
    struct wheel_slot slot = {record, timer, index};
    if (LIKELY(deadline != TW_NEVER && !(record->generation & IS_ARMED)) &&
        LIKELY(wheel_put_quickly(wheel, slot, deadline)))
        return true;
    return wheel_set_slowly(wheel, index, deadline);
}

/* Changes the deadline of a held timer. Most often an armed timer gets a later deadline, which is
 * one store; a single comparison proves this case and that the handle is valid. False if the handle
 * is stale. */
static inline bool wheel_set_deadline(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline,
                                      uint32_t kind)
{
    uint32_t index = (uint32_t)timer;
    (void)kind; /* used by assert() only */
    if (UNLIKELY(index >= wheel->slot_count))
        return false;
    struct wheel_slot slot = tw__wheel_slot(wheel, index);
    uint32_t differs = slot.record->generation ^ (uint32_t)(timer >> 32);
    if (LIKELY(differs == (IS_ARMED | STATE_NEAR))) {
        assert(wheel_kind_of(timer) == kind);
        uint64_t tick = tw__wheel_near_tick(wheel, slot.record->entry_tick);
        if (LIKELY(deadline - tick < TW_NEVER - tick)) { /* tick <= deadline < TW_NEVER */
            slot.timer->due = deadline;
            return true;
        }
    }
    if (UNLIKELY(differs > NOT_IN_HANDLE))
        return false;
    assert(wheel_kind_of(timer) == kind);
    return wheel_set_general(wheel, slot.record, slot.timer, index, deadline);
}

static __attribute__((noinline)) tw_handle wheel_schedule_growing(struct tw_wheel *wheel,
                                                                  uint64_t deadline, uint64_t data)
{
    return wheel_add_slots(wheel) ? tw_wheel_schedule(wheel, deadline, data) : TW_NONE;
}

static __attribute__((noinline)) tw_handle wheel_schedule_slowly(struct tw_wheel *wheel,
                                                                 uint32_t index, uint64_t deadline)
{
    (void)wheel_set_slowly(wheel, index, deadline);
    return tw__wheel_handle(tw__wheel_record(wheel, index)->generation, index);
}

tw_handle tw_wheel_schedule(struct tw_wheel *wheel, uint64_t deadline, uint64_t data)
{
    struct wheel_slot slot = wheel_slot_take(wheel);
    if (UNLIKELY(!slot.record))
        return wheel_schedule_growing(wheel, deadline, data);
    uint32_t generation = slot.record->generation;
    slot.timer->data = data;
    if (LIKELY(deadline != TW_NEVER) && LIKELY(wheel_put_quickly(wheel, slot, deadline)))
        return tw__wheel_handle(generation, slot.index);
    return wheel_schedule_slowly(wheel, slot.index, deadline);
}

bool tw_wheel_reschedule(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    return wheel_set_deadline(wheel, timer, deadline, 0);
}

/* Frees the slot of a timer. False if the handle is stale. */
static inline bool wheel_end(struct tw_wheel *wheel, tw_handle timer, uint32_t kind)
{
    struct wheel_slot slot = tw__wheel_lookup(wheel, timer);
    (void)kind; /* used by assert() only */
    if (UNLIKELY(!slot.record))
        return false;
    assert(wheel_kind_of(timer) == kind);
    (void)wheel_clear_deadline(wheel, slot.record);
    tw__wheel_slot_give(wheel, slot.record, slot.index);
    return true;
}

bool tw_wheel_cancel(struct tw_wheel *wheel, tw_handle timer)
{
    return wheel_end(wheel, timer, 0);
}

tw_handle tw_wheel_open(struct tw_wheel *wheel, uint64_t data)
{
    struct wheel_slot slot = wheel_slot_take(wheel);
    if (UNLIKELY(!slot.record))
        return wheel_add_slots(wheel) ? tw_wheel_open(wheel, data) : TW_NONE;
    slot.record->generation |= IS_OPENED;
    slot.timer->data = data;
    return tw__wheel_handle(slot.record->generation, slot.index);
}

bool tw_wheel_arm(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    return wheel_set_deadline(wheel, timer, deadline, IS_OPENED);
}

bool tw_wheel_disarm(struct tw_wheel *wheel, tw_handle timer)
{
    struct wheel_slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(wheel_kind_of(timer) == IS_OPENED);
    return wheel_clear_deadline(wheel, slot.record);
}

bool tw_wheel_close(struct tw_wheel *wheel, tw_handle timer)
{
    return wheel_end(wheel, timer, IS_OPENED);
}

void tw_wheel_prefetch(const struct tw_wheel *wheel, tw_handle timer)
{
    if (UNLIKELY((uint32_t)timer >= wheel->slot_count))
        return;
    struct wheel_slot slot = tw__wheel_slot(wheel, (uint32_t)timer);
    tw__prefetch_to_write(slot.record);
    tw__prefetch_to_write(slot.timer);
}

/* Verbs for many. A processor overlaps the waits of a dozen single calls at best, and fewer where a
 * store's address comes from the load that waits. */

static inline void wheel_prefetch_record(const struct tw_wheel *wheel, tw_handle timer)
{
    if (LIKELY((uint32_t)timer < wheel->slot_count))
        tw__prefetch_to_write(tw__wheel_record(wheel, (uint32_t)timer));
}

/* The records of the timers that a loop over all begins with. */
static void wheel_prefetch_first(const struct tw_wheel *wheel, const tw_handle *timers,
                                 size_t count)
{
    for (size_t i = 0; i < count && i < MANY_AHEAD; i++)
        wheel_prefetch_record(wheel, timers[i]);
}

/* A free slot that will be taken when `ahead` others were. */
static inline void wheel_prefetch_free(const struct tw_wheel *wheel, uint32_t ahead)
{
    if (ahead >= wheel->free_count)
        return; /* slots that were never used follow each other */
    uint32_t index = *tw__wheel_free_slot(wheel, wheel->free_count - 1 - ahead);
    struct wheel_slot slot = tw__wheel_slot(wheel, index);
    tw__prefetch_to_write(slot.record);
    tw__prefetch_to_write(slot.timer);
}

size_t tw_wheel_schedule_many(struct tw_wheel *wheel, const uint64_t *deadlines,
                              const uint64_t *data, size_t count, tw_handle *ret_timers)
{
    for (uint32_t i = 0; i < count && i < MANY_AHEAD; i++)
        wheel_prefetch_free(wheel, i);
    for (size_t i = 0; i < count; i++) {
        wheel_prefetch_free(wheel, MANY_AHEAD);
        tw_handle timer = tw_wheel_schedule(wheel, deadlines[i], data[i]);
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
        ended += wheel_end(wheel, timers[i], kind);
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
    for (size_t i = 0; i < count && i < MANY_AHEAD; i++)
        tw_wheel_prefetch(wheel, timers[i]);
    for (size_t i = 0; i < count; i++) {
        if (LIKELY(count - i > MANY_AHEAD))
            tw_wheel_prefetch(wheel, timers[i + MANY_AHEAD]);
        armed += wheel_set_deadline(wheel, timers[i], deadlines[i], IS_OPENED);
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
