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
    struct tw_wheel *wheel = with.allocate(with.context, 64, sizeof(*wheel));
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
    wheel->sweep = 1;
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

/* A slot nobody holds; false when over the limit or out of memory. Free ones first, the last freed
 * before all: it is still in the cache. */
static inline bool slot_take(struct tw_wheel *wheel, uint32_t *ret_index)
{
    if (LIKELY(wheel->free_count > 0)) {
        uint32_t place = --wheel->free_count;
        *ret_index = wheel->free_segments[place >> SEGMENT_BITS][place & (SEGMENT_SLOTS - 1)];
        uint32_t soon = place >= PREFETCH_DISTANCE ? place - PREFETCH_DISTANCE : 0;
        __builtin_prefetch(
            tw__wheel_record(
                wheel, wheel->free_segments[soon >> SEGMENT_BITS][soon & (SEGMENT_SLOTS - 1)]),
            1);
        return true;
    }
    /* Slots are let up to the limit and no further, so the free ones need no check of it. */
    uint32_t index = wheel->slot_count;
    if (index - wheel->retired_count >= wheel->timer_count_max || index == SLOTS_MAX)
        return false;
    if (UNLIKELY(index == wheel->slot_capacity) && !tw__wheel_grow(wheel, (uint64_t)index + 1))
        return false;
    struct record *record = tw__wheel_record(wheel, index);
    record->due = TW_NEVER;
    record->entry_at = TW_NEVER;
    record->generation = 1;
    record->seen = 0;
    wheel->slot_count++;
    *ret_index = index;
    return true;
}

/* Gives an armed record its due. The entry it has is good enough if it comes up no later. */
static inline void place(struct tw_wheel *wheel, struct record *record, uint32_t index,
                         uint64_t deadline)
{
    record->due = deadline;
    if (deadline >= record->entry_at)
        return;
    bool leaves_stale = record->entry_at != TW_NEVER;
    if (UNLIKELY(leaves_stale)) {
        if (record->entry_at == wheel->cursor)
            return; /* overdue and already where it comes out next */
        wheel->entered_count--;
        wheel->stale_count++;
    }
    tw__wheel_enter(wheel, record, index, deadline);
    if (UNLIKELY(leaves_stale))
        tw__wheel_sweep_pay(wheel);
}

tw_handle tw_wheel_schedule(struct tw_wheel *wheel, uint64_t deadline, uint64_t data)
{
    uint32_t index;
    if (UNLIKELY(!slot_take(wheel, &index)))
        return TW_NONE;
    struct record *record = tw__wheel_record(wheel, index);
    tw_handle timer = (tw_handle)record->generation << 32 | index;
    record->data = data;
    record->is_opened = 0;
    if (LIKELY(deadline != TW_NEVER)) {
        wheel->armed_count++;
        place(wheel, record, index, deadline);
    }
    return timer;
}

/* The one way a timer, scheduled or opened, gets another deadline. */
static inline void set_deadline(struct tw_wheel *wheel, struct record *record, uint32_t index,
                                uint64_t deadline)
{
    wheel->armed_count -= record->due != TW_NEVER;
    if (UNLIKELY(deadline == TW_NEVER)) {
        record->due = TW_NEVER;
        return;
    }
    wheel->armed_count++;
    place(wheel, record, index, deadline);
}

bool tw_wheel_reschedule(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (!record)
        return false;
    assert(!record->is_opened);
    set_deadline(wheel, record, (uint32_t)timer, deadline);
    return true;
}

bool tw_wheel_cancel(struct tw_wheel *wheel, tw_handle timer)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (!record)
        return false;
    assert(!record->is_opened);
    wheel->armed_count -= record->due != TW_NEVER;
    tw__wheel_slot_give(wheel, record, (uint32_t)timer);
    return true;
}

tw_handle tw_wheel_open(struct tw_wheel *wheel, uint64_t data)
{
    uint32_t index;
    if (UNLIKELY(!slot_take(wheel, &index)))
        return TW_NONE;
    struct record *record = tw__wheel_record(wheel, index);
    record->data = data;
    record->is_opened = 1;
    return (tw_handle)record->generation << 32 | index;
}

bool tw_wheel_arm(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!record))
        return false;
    assert(record->is_opened);
    set_deadline(wheel, record, (uint32_t)timer, deadline);
    return true;
}

bool tw_wheel_disarm(struct tw_wheel *wheel, tw_handle timer)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!record))
        return false;
    assert(record->is_opened);
    bool was_armed = record->due != TW_NEVER;
    wheel->armed_count -= was_armed;
    record->due = TW_NEVER;
    return was_armed;
}

bool tw_wheel_close(struct tw_wheel *wheel, tw_handle timer)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (!record)
        return false;
    assert(record->is_opened);
    wheel->armed_count -= record->due != TW_NEVER;
    tw__wheel_slot_give(wheel, record, (uint32_t)timer);
    return true;
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
