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

/* A slot for a new tenant, NULL when over the limit or out of memory. The last freed is the first
 * taken: it is still in the cache. */
static inline struct record *slot_take(struct tw_wheel *wheel, uint32_t *ret_index)
{
    if (LIKELY(wheel->free_count > 0)) {
        uint32_t place = --wheel->free_count;
        *ret_index = *tw__wheel_free_slot(wheel, place);
        return tw__wheel_record(wheel, *ret_index);
    }
    uint32_t index = wheel->slot_count;
    if (UNLIKELY(index == wheel->slot_capacity) && !add_slots(wheel))
        return NULL;
    wheel->slot_count++;
    *ret_index = index;
    struct record *record = tw__wheel_record(wheel, index);
    *record = (struct record){.due = TW_NEVER, .tenant = TENANT_GENERATION | STATE_NONE};
    return record;
}

/* A new entry in place of one that comes up too late. */
static __attribute__((noinline)) void enter_again(struct tw_wheel *wheel, struct record *record,
                                                  uint32_t index, uint64_t deadline)
{
    wheel->stale_count++;
    tw__wheel_enter(wheel, record, index, record->tenant & ~(uint32_t)STATE_MASK, deadline);
    tw__wheel_sweep_pay(wheel);
}

/* Sees to the entry of a record that has its due already: the one it has, if that comes up no
 * later, or comes up next, else a new one. Nothing follows the calls in here, nor in what they
 * inline: so the common path needs no stack. */
static inline void place(struct tw_wheel *wheel, struct record *record, uint32_t index,
                         uint64_t deadline)
{
    uint32_t tenant = record->tenant;
    if ((tenant & STATE_MASK) == STATE_NONE) {
        tw__wheel_enter(wheel, record, index, tenant, deadline);
        return;
    }
    if ((tenant & STATE_MASK) == STATE_NEAR) {
        uint64_t tick = tw__wheel_near_tick(wheel, record->where);
        if (deadline >= tick || tick == wheel->cursor)
            return;
    }
    enter_again(wheel, record, index, deadline);
}

/* Takes a record's deadline away, and says whether it had one. The early return is on purpose: a
 * counter that depended on the value just read would make every call wait for the one before. */
static inline bool unset(struct tw_wheel *wheel, struct record *record)
{
    if (UNLIKELY(record->due == TW_NEVER))
        return false;
    wheel->armed_count--;
    record->due = TW_NEVER;
    return true;
}

/* The one way a timer, scheduled or opened, gets another deadline. If it is a later one, the entry
 * it has will do. */
static inline void set(struct tw_wheel *wheel, struct record *record, uint32_t index,
                       uint64_t deadline)
{
    uint64_t due = record->due;
    if (UNLIKELY(deadline == TW_NEVER)) {
        (void)unset(wheel, record);
        return;
    }
    record->due = deadline;
    if (LIKELY(deadline >= due))
        return;
    if (due == TW_NEVER)
        wheel->armed_count++;
    place(wheel, record, index, deadline);
}

tw_handle tw_wheel_schedule(struct tw_wheel *wheel, uint64_t deadline, uint64_t data)
{
    uint32_t index;
    struct record *record = slot_take(wheel, &index);
    if (UNLIKELY(!record))
        return TW_NONE;
    tw_handle timer = tw__wheel_handle(record->tenant, index);
    *tw__wheel_data(wheel, index) = data;
    if (LIKELY(deadline != TW_NEVER)) {
        wheel->armed_count++;
        record->due = deadline;
        place(wheel, record, index, deadline);
    }
    return timer;
}

bool tw_wheel_reschedule(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!record))
        return false;
    assert(!is_opened(timer));
    set(wheel, record, (uint32_t)timer, deadline);
    return true;
}

bool tw_wheel_cancel(struct tw_wheel *wheel, tw_handle timer)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!record))
        return false;
    assert(!is_opened(timer));
    (void)unset(wheel, record);
    tw__wheel_slot_give(wheel, record, (uint32_t)timer);
    return true;
}

tw_handle tw_wheel_open(struct tw_wheel *wheel, uint64_t data)
{
    uint32_t index;
    struct record *record = slot_take(wheel, &index);
    if (UNLIKELY(!record))
        return TW_NONE;
    record->tenant |= TENANT_IS_OPENED;
    *tw__wheel_data(wheel, index) = data;
    return tw__wheel_handle(record->tenant, index);
}

bool tw_wheel_arm(struct tw_wheel *wheel, tw_handle timer, uint64_t deadline)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!record))
        return false;
    assert(is_opened(timer));
    set(wheel, record, (uint32_t)timer, deadline);
    return true;
}

bool tw_wheel_disarm(struct tw_wheel *wheel, tw_handle timer)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!record))
        return false;
    assert(is_opened(timer));
    return unset(wheel, record);
}

bool tw_wheel_close(struct tw_wheel *wheel, tw_handle timer)
{
    struct record *record = tw__wheel_lookup(wheel, timer);
    if (UNLIKELY(!record))
        return false;
    assert(is_opened(timer));
    (void)unset(wheel, record);
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
