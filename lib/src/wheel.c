/* wheel.c - creating a wheel, and the verbs on one timer. */
#include "wheel_private.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { HUGE_PAGE = 2 << 20 };

/* Large areas are asked for in huge pages: a random access to a million timers would else miss the
 * translation cache nearly every time, which costs as much again as the miss itself. */
static void *default_allocate(void *context, size_t alignment, size_t size)
{
    (void)context;
    size_t whole = (size + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, whole);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (memory && alignment >= HUGE_PAGE)
        (void)madvise(memory, whole, MADV_HUGEPAGE); /* a hint: without it all is only slower */
#endif
    return memory;
}

static void default_release(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

struct tw_wheel *tw_wheel_create(const struct tw_wheel_options *options)
{
    struct tw_wheel_options with = options ? *options : (struct tw_wheel_options){0};
    assert(!with.allocate == !with.release);
    if (!with.allocate) {
        with.allocate = default_allocate;
        with.release = default_release;
    }
    struct tw_wheel *wheel = with.allocate(with.context, LINE_SIZE, sizeof(*wheel));
    if (!wheel)
        return NULL;
    memset(wheel, 0, sizeof(*wheel));
    wheel->allocate = with.allocate;
    wheel->release = with.release;
    wheel->context = with.context;
    wheel->memory = sizeof(*wheel);
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

/* Handing a handle of one kind to a verb of the other is a bug in the caller; TW_NONE is of any
 * kind. */
static inline bool is_opened(tw_handle timer)
{
    return (timer >> 32 & TENANT_IS_OPENED) != 0;
}

/* Room for more slots; false when over the limit or out of memory. */
static __attribute__((noinline)) bool add_slots(struct tw_wheel *wheel)
{
    /* Slots are added up to the limit and no further, so taking a free one needs no check of it. */
    uint64_t count = (uint64_t)wheel->slot_count + 1;
    if (count - wheel->retired_count > wheel->timer_count_max || count > SLOTS_MAX)
        return false;
    return tw__wheel_grow(wheel, count);
}

/* A slot for a new tenant, none when over the limit or out of memory. The last freed is the first
 * taken: it is still in the cache. */
static inline struct slot slot_take(struct tw_wheel *wheel)
{
    if (LIKELY(wheel->free_count > 0))
        return tw__wheel_slot(wheel, *tw__wheel_free_slot(wheel, --wheel->free_count));
    uint32_t index = wheel->slot_count;
    if (UNLIKELY(index == wheel->slot_capacity) && !add_slots(wheel))
        return (struct slot){NULL, NULL, 0};
    wheel->slot_count++;
    struct slot slot = tw__wheel_slot(wheel, index);
    *slot.record = (struct record){.tenant = TENANT_GENERATION | STATE_NONE};
    return slot;
}

/* The rest of put and set: the entry that the record has comes up too late, unless it comes up
 * next, or is far, so that all that is known of it is that it is not after the due. */
static __attribute__((noinline)) void put_again(struct tw_wheel *wheel, struct record *record,
                                                uint32_t index, uint64_t deadline)
{
    struct timer *timer = tw__wheel_timer(wheel, index);
    uint32_t tenant = record->tenant | TENANT_IS_ARMED;
    bool is_good_enough = (tenant & STATE_MASK) == STATE_NEAR
                              ? tw__wheel_near_tick(wheel, record->where) == wheel->cursor
                              : deadline >= timer->due;
    timer->due = deadline;
    record->tenant = tenant;
    if (is_good_enough)
        return;
    wheel->stale_count++;
    tw__wheel_enter(wheel, record, index, tenant & ~(uint32_t)STATE_MASK, deadline);
    tw__wheel_sweep_pay(wheel);
}

/* Gives a timer that has none its deadline. The entry that its slot may have from before will do if
 * it comes up no later; else there is a new one. Nothing follows the calls in
 * here, nor in what is inlined: so the common path needs no stack. */
static inline void put(struct tw_wheel *wheel, struct slot slot, uint64_t deadline)
{
    uint32_t tenant = slot.record->tenant | TENANT_IS_ARMED;
    wheel->armed_count++;
    if ((tenant & STATE_MASK) == STATE_NONE) {
        slot.timer->due = deadline;
        tw__wheel_enter(wheel, slot.record, slot.index, tenant, deadline);
        return;
    }
    uint64_t tick = tw__wheel_near_tick(wheel, slot.record->where);
    if (LIKELY((tenant & STATE_MASK) == STATE_NEAR && deadline >= tick)) {
        slot.timer->due = deadline;
        slot.record->tenant = tenant;
        return;
    }
    put_again(wheel, slot.record, slot.index, deadline);
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

/* The one way a timer that is held gets another deadline. Most often it has one and gets a later
 * one, and then that is all there is to do. */
static inline void set(struct tw_wheel *wheel, struct slot slot, uint64_t deadline)
{
    if (UNLIKELY(deadline == TW_NEVER)) {
        (void)unset(wheel, slot.record);
        return;
    }
    uint32_t tenant = slot.record->tenant;
    if (!(tenant & TENANT_IS_ARMED))
        put(wheel, slot, deadline);
    else if (LIKELY((tenant & STATE_MASK) == STATE_NEAR &&
                    deadline >= tw__wheel_near_tick(wheel, slot.record->where)))
        slot.timer->due = deadline;
    else
        put_again(wheel, slot.record, slot.index, deadline);
}

tw_handle tw_wheel_schedule(struct tw_wheel *wheel, uint64_t deadline, uint64_t data)
{
    struct slot slot = slot_take(wheel);
    if (UNLIKELY(!slot.record))
        return TW_NONE;
    tw_handle timer = tw__wheel_handle(slot.record->tenant, slot.index);
    slot.timer->data = data;
    if (LIKELY(deadline != TW_NEVER))
        put(wheel, slot, deadline);
    return timer;
}

bool tw_wheel_reschedule(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    struct slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(!is_opened(timer));
    set(wheel, slot, deadline);
    return true;
}

bool tw_wheel_cancel(struct tw_wheel *wheel, tw_handle timer)
{
    struct slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(!is_opened(timer));
    (void)unset(wheel, slot.record);
    tw__wheel_slot_give(wheel, slot.record, slot.index);
    return true;
}

tw_handle tw_wheel_open(struct tw_wheel *wheel, uint64_t data)
{
    struct slot slot = slot_take(wheel);
    if (UNLIKELY(!slot.record))
        return TW_NONE;
    slot.record->tenant |= TENANT_IS_OPENED;
    slot.timer->data = data;
    return tw__wheel_handle(slot.record->tenant, slot.index);
}

bool tw_wheel_arm(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    struct slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(is_opened(timer));
    set(wheel, slot, deadline);
    return true;
}

bool tw_wheel_disarm(struct tw_wheel *wheel, tw_handle timer)
{
    struct slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(is_opened(timer));
    return unset(wheel, slot.record);
}

bool tw_wheel_close(struct tw_wheel *wheel, tw_handle timer)
{
    struct slot slot = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!slot.record))
        return false;
    assert(is_opened(timer));
    (void)unset(wheel, slot.record);
    tw__wheel_slot_give(wheel, slot.record, slot.index);
    return true;
}

void tw_wheel_prefetch(const struct tw_wheel *wheel, tw_handle timer)
{
    if (LIKELY((uint32_t)timer < wheel->slot_count))
        __builtin_prefetch(tw__wheel_record(wheel, (uint32_t)timer), 1);
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
    return wheel->memory;
}
