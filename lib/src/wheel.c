/* wheel.c - creating a wheel, and the verbs on one timer. */
#include "wheel_private.h"

#include <string.h>

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

bool tw_wheel_reserve(struct tw_wheel *wheel, size_t count)
{
    uint64_t slots = (uint64_t)count + wheel->retired_count;
    if (count > wheel->timer_count_max || slots > SLOTS_MAX)
        return false;
    if (slots > wheel->slot_capacity && !tw__wheel_grow(wheel, slots))
        return false;
    tw__wheel_touch(wheel, slots);
    return true;
}

/* TENANT_IS_OPENED or 0. Handing a good handle of one kind to a verb of the other is a bug in the
 * caller. */
static inline uint32_t kind_of(tw_handle timer)
{
    return (uint32_t)(timer >> 32) & TENANT_IS_OPENED;
}

/* Room for more slots; false when over the limit or out of memory. */
static bool add_slots(struct tw_wheel *wheel)
{
    /* Slots are added up to the limit and no further, so taking a free one needs no check of it. */
    uint64_t count = (uint64_t)wheel->slot_count + 1;
    if (count - wheel->retired_count > wheel->timer_count_max || count > SLOTS_MAX)
        return false;
    return tw__wheel_grow(wheel, count);
}

/* A slot for a new tenant; none where one must be added first. The last freed is the first taken:
 * it is still in the cache. */
static inline struct slot slot_take(struct tw_wheel *wheel)
{
    if (LIKELY(wheel->free_count > 0))
        return tw__wheel_slot(wheel, *tw__wheel_free_slot(wheel, --wheel->free_count));
    uint32_t index = wheel->slot_count;
    if (UNLIKELY(index == wheel->slot_capacity))
        return (struct slot){NULL, NULL, 0};
    wheel->slot_count++;
    struct slot slot = tw__wheel_slot(wheel, index);
    *slot.record = (struct record){.tenant = TENANT_GENERATION | STATE_NONE};
    return slot;
}

/* Gives a timer its deadline in any case. A new entry is made if there is none, or if that which
 * there is comes up too late: not if it comes up next, nor if it is far and the deadline becomes
 * later, for then all that is known of it is that it is not after the due. */
static void put_slowly(struct tw_wheel *wheel, uint32_t index, uint64_t deadline)
{
    struct slot slot = tw__wheel_slot(wheel, index);
    uint32_t tenant = slot.record->tenant;
    uint32_t state = tenant & STATE_MASK;
    bool is_good_enough = state == STATE_FAR && deadline >= slot.timer->due;
    if (state == STATE_NEAR) {
        uint64_t tick = tw__wheel_near_tick(wheel, slot.record->where);
        is_good_enough = deadline >= tick || tick == wheel->cursor;
    }
    wheel->armed_count += !(tenant & TENANT_IS_ARMED);
    tenant |= TENANT_IS_ARMED;
    slot.timer->due = deadline;
    slot.record->tenant = tenant;
    if (is_good_enough)
        return;
    tw__wheel_enter(wheel, slot.record, index, tenant & ~(uint32_t)STATE_MASK, deadline);
    if (state != STATE_NONE) {
        wheel->stale_count++;
        tw__wheel_sweep_pay(wheel);
    }
}

/* The same for a timer that has no deadline, where it is quickly done: there is room for an entry,
 * or the slot has one from before, near, that comes up no later. Else false, with nothing done.
 *
 * Here and below what is rare is left to a function that is not inlined, called last of all: so the
 * common path saves no registers. A processor waits for the memory of as many timers at a time as
 * its window holds, hence each instruction less makes the wait shorter. */
static inline bool put_quickly(struct tw_wheel *wheel, struct slot slot, uint64_t deadline)
{
    uint32_t tenant = slot.record->tenant | TENANT_IS_ARMED;
    if ((tenant & STATE_MASK) == STATE_NONE) {
        if (!tw__wheel_enter_quickly(wheel, slot.record, slot.index, tenant, deadline))
            return false;
    } else {
        uint64_t tick = tw__wheel_near_tick(wheel, slot.record->where);
        if (UNLIKELY((tenant & STATE_MASK) != STATE_NEAR || deadline < tick))
            return false;
        slot.record->tenant = tenant;
    }
    slot.timer->due = deadline;
    wheel->armed_count++;
    return true;
}

/* Takes a record's deadline away, and says whether it had one. The early return is on purpose: a
 * counter that depended on the value just read would make every call wait for the one before. */
static inline bool unset(struct tw_wheel *wheel, struct record *record)
{
    if (UNLIKELY(!(record->tenant & TENANT_IS_ARMED)))
        return false;
    wheel->armed_count--;
    record->tenant &= ~TENANT_IS_ARMED;
    return true;
}

static __attribute__((noinline)) bool set_slowly(struct tw_wheel *wheel, uint32_t index,
                                                 uint64_t deadline)
{
    if (deadline == TW_NEVER)
        (void)unset(wheel, tw__wheel_record(wheel, index));
    else
        put_slowly(wheel, index, deadline);
    return true;
}

/* The rest of set, in any case but its own. Returns true. */
static __attribute__((noinline)) bool set_anyhow(struct tw_wheel *wheel, struct record *record,
                                                 struct timer *timer, uint32_t index,
                                                 uint64_t deadline)
{
    struct slot slot = {record, timer, index};
    if (LIKELY(deadline != TW_NEVER && !(record->tenant & TENANT_IS_ARMED)) &&
        LIKELY(put_quickly(wheel, slot, deadline)))
        return true;
    return set_slowly(wheel, index, deadline);
}

/* The one way a timer that is held gets another deadline. Most often it has one and gets a later
 * one, and then that is all there is to do; one comparison tells that the handle is good as well.
 * False if it is stale. */
static inline bool set(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline, uint32_t kind)
{
    uint32_t index = (uint32_t)timer;
    (void)kind; /* only assert() asks for it */
    if (UNLIKELY(index >= wheel->slot_count))
        return false;
    struct slot slot = tw__wheel_slot(wheel, index);
    uint32_t differs = slot.record->tenant ^ (uint32_t)(timer >> 32);
    if (LIKELY(differs == (TENANT_IS_ARMED | STATE_NEAR))) {
        assert(kind_of(timer) == kind);
        uint64_t tick = tw__wheel_near_tick(wheel, slot.record->where);
        if (LIKELY(deadline - tick < TW_NEVER - tick)) { /* tick <= deadline < TW_NEVER */
            slot.timer->due = deadline;
            return true;
        }
    }
    if (UNLIKELY(differs > TENANT_CHANGES))
        return false;
    assert(kind_of(timer) == kind);
    return set_anyhow(wheel, slot.record, slot.timer, index, deadline);
}

static __attribute__((noinline)) tw_handle schedule_growing(struct tw_wheel *wheel,
                                                            uint64_t deadline, uint64_t data)
{
    return add_slots(wheel) ? tw_wheel_schedule(wheel, deadline, data) : TW_NONE;
}

static __attribute__((noinline)) tw_handle schedule_slowly(struct tw_wheel *wheel, uint32_t index,
                                                           uint64_t deadline)
{
    (void)set_slowly(wheel, index, deadline);
    return tw__wheel_handle(tw__wheel_record(wheel, index)->tenant, index);
}

tw_handle tw_wheel_schedule(struct tw_wheel *wheel, uint64_t deadline, uint64_t data)
{
    struct slot slot = slot_take(wheel);
    if (UNLIKELY(!slot.record))
        return schedule_growing(wheel, deadline, data);
    uint32_t tenant = slot.record->tenant;
    slot.timer->data = data;
    if (LIKELY(deadline != TW_NEVER) && LIKELY(put_quickly(wheel, slot, deadline)))
        return tw__wheel_handle(tenant, slot.index);
    return schedule_slowly(wheel, slot.index, deadline);
}

bool tw_wheel_reschedule(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    return set(wheel, timer, deadline, 0);
}

bool tw_wheel_cancel(struct tw_wheel *wheel, tw_handle timer)
{
    struct slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(kind_of(timer) == 0);
    (void)unset(wheel, slot.record);
    tw__wheel_slot_give(wheel, slot.record, slot.index);
    return true;
}

tw_handle tw_wheel_open(struct tw_wheel *wheel, uint64_t data)
{
    struct slot slot = slot_take(wheel);
    if (UNLIKELY(!slot.record))
        return add_slots(wheel) ? tw_wheel_open(wheel, data) : TW_NONE;
    slot.record->tenant |= TENANT_IS_OPENED;
    slot.timer->data = data;
    return tw__wheel_handle(slot.record->tenant, slot.index);
}

bool tw_wheel_arm(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    return set(wheel, timer, deadline, TENANT_IS_OPENED);
}

bool tw_wheel_disarm(struct tw_wheel *wheel, tw_handle timer)
{
    struct slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(kind_of(timer) == TENANT_IS_OPENED);
    return unset(wheel, slot.record);
}

bool tw_wheel_close(struct tw_wheel *wheel, tw_handle timer)
{
    struct slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(kind_of(timer) == TENANT_IS_OPENED);
    (void)unset(wheel, slot.record);
    tw__wheel_slot_give(wheel, slot.record, slot.index);
    return true;
}

void tw_wheel_prefetch(const struct tw_wheel *wheel, tw_handle timer)
{
    if (LIKELY((uint32_t)timer < wheel->slot_count))
        tw__prefetch(tw__wheel_record(wheel, (uint32_t)timer));
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
