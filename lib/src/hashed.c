/*
 * hashed.c - the hashed wheel: buckets by tick, rounds, and rows of nearest ticks.
 *
 * Inside, time is the number of ticks since the start: a deadline becomes the first tick that is
 * not before it. The low bits of a tick are its bucket, the others its round. The bucket at the
 * cursor is the last one swept, or is being swept. A sweep moves the bucket's timers to a list of
 * its own; a timer of this round comes out, a timer of a later round goes back to the bucket.
 *
 * `nearest` has for each bucket a tick that is not later than those of its timers, TW_NEVER for an
 * empty bucket. Each row above holds the minimum of eight numbers of the row below, up to a single
 * number, which is the next tick to sweep; its low bits are the bucket. A new timer that is not the
 * nearest of its bucket touches one number; any other at most one number per row, and a wheel of
 * 2^31 buckets has twelve rows. The time of the next tick to sweep is cached: until then expire has
 * nothing to do.
 */
#include <tickwheel/hashed.h>

#include "link.h"
#include "memory.h"
#include "slab.h"

#include <assert.h>

enum { SIZE_DEFAULT = 512, FAN_OUT_BITS = 3, FAN_OUT = 1 << FAN_OUT_BITS, ROWS_MAX = 12 };

/* The largest time. It may be in the middle of a tick, which then counts as complete. */
#define TIME_LAST (TW_NEVER - 1)

struct hashed_timer {
    struct slab_slot slot;
    uint64_t data;
    uint64_t deadline;
    uint64_t
        /* round in which the timer is due; the rounds left are its difference to that of the
         * cursor */
        round;
};

struct tw_hashed {
    uint64_t start;
    uint64_t now;     /* latest time passed to expire, at most TIME_LAST */
    uint64_t next_at; /* start of the next tick to sweep; TW_NEVER if there is none */
    uint64_t cursor;  /* last swept tick, at most the tick at `now` */
    uint64_t tick;
    uint32_t mask; /* number of buckets - 1 */
    uint32_t size_shift;
    uint64_t look_count; /* result of tw_hashed_look_count */
    size_t count;        /* number of timers, except those in `never` */
    struct link_bucket
        sweep; /* timers of the bucket at the cursor, and timers that became due since */
    struct link_bucket never; /* timers with deadline TW_NEVER */
    struct link_bucket *buckets;
    uint64_t *nearest[ROWS_MAX]; /* one allocation; each row is padded to a multiple of eight */
    uint64_t nearest_count;      /* numbers in all rows */
    uint32_t row_count;
    struct memory memory;
    struct slab slab;
};

static struct hashed_timer *hashed_timer_of(struct tw_link *link)
{
    return (struct hashed_timer *)((char *)link - offsetof(struct hashed_timer, slot.link));
}

/* Returns the first tick that begins at or after `time`. Most callers use a tick of 1, which needs
 * no division. */
static uint64_t hashed_tick_at_or_after(const struct tw_hashed *wheel, uint64_t time)
{
    uint64_t elapsed = time > wheel->start ? time - wheel->start : 0;

    if (wheel->tick == 1)
        return elapsed;
    return elapsed / wheel->tick + (elapsed % wheel->tick != 0);
}

/* Returns the last tick that began at or before `time`, which is not before the start. */
static uint64_t hashed_tick_reached(const struct tw_hashed *wheel, uint64_t time)
{
    if (time == TIME_LAST || wheel->tick == 1)
        return hashed_tick_at_or_after(wheel, time);
    return (time - wheel->start) / wheel->tick;
}

static uint64_t hashed_time_of(const struct tw_hashed *wheel, uint64_t tick)
{
    return tick > (TIME_LAST - wheel->start) / wheel->tick ? TIME_LAST
                                                           : wheel->start + tick * wheel->tick;
}

static uint64_t hashed_round_of(const struct tw_hashed *wheel, uint64_t tick)
{
    return tick >> wheel->size_shift;
}

static uint64_t hashed_nearest_tick(const struct tw_hashed *wheel)
{
    return wheel->nearest[wheel->row_count - 1][0];
}

static void hashed_nearest_lower(struct tw_hashed *wheel, uint32_t bucket, uint64_t tick)
{
    for (uint32_t row = 0; row < wheel->row_count; row++, bucket >>= FAN_OUT_BITS) {
        if (wheel->nearest[row][bucket] <= tick)
            return;
        wheel->nearest[row][bucket] = tick;
    }
    wheel->next_at = hashed_time_of(wheel, tick);
}

/* Updates `nearest` after a bucket has become empty. */
static void hashed_nearest_clear(struct tw_hashed *wheel, uint32_t bucket)
{
    uint64_t least = TW_NEVER;

    for (uint32_t row = 0;; row++) {
        wheel->nearest[row][bucket] = least;
        if (row + 1 == wheel->row_count)
            break;
        const uint64_t *group = &wheel->nearest[row][bucket & ~(uint32_t)(FAN_OUT - 1)];
        for (unsigned i = 0; i < FAN_OUT; i++)
            least = group[i] < least ? group[i] : least;
        bucket >>= FAN_OUT_BITS;
        if (wheel->nearest[row + 1][bucket] == least)
            return;
    }
    wheel->next_at = least == TW_NEVER ? TW_NEVER : hashed_time_of(wheel, least);
}

/* Puts a timer that is in no list into the list for its deadline. */
static void hashed_timer_place(struct tw_hashed *wheel, struct hashed_timer *timer)
{
    uint64_t tick = hashed_tick_at_or_after(wheel, timer->deadline);

    /* The deadline is reached, but its tick is not: the timer is due at once. */
    if (timer->deadline <= wheel->now && tick > hashed_tick_reached(wheel, wheel->now))
        tick = wheel->cursor;
    if (tick <= wheel->cursor) {
        timer->round = hashed_round_of(wheel, wheel->cursor);
        bucket_push(&wheel->sweep, &timer->slot.link);
        return;
    }
    uint32_t bucket = (uint32_t)tick & wheel->mask;
    timer->round = hashed_round_of(wheel, tick);
    bucket_push(&wheel->buckets[bucket], &timer->slot.link);
    hashed_nearest_lower(wheel, bucket, tick);
}

/* Takes a timer off its list. */
static void hashed_timer_remove(struct tw_hashed *wheel, struct hashed_timer *timer)
{
    struct link_bucket *emptied = bucket_remove(&timer->slot.link);

    if (emptied && emptied->index != BUCKET_NONE)
        hashed_nearest_clear(wheel, emptied->index);
}

static void hashed_timer_insert(struct tw_hashed *wheel, struct hashed_timer *timer,
                                uint64_t deadline)
{
    timer->deadline = deadline;
    if (deadline == TW_NEVER) {
        bucket_push(&wheel->never, &timer->slot.link);
        return;
    }
    wheel->count++;
    hashed_timer_place(wheel, timer);
}

/* Starts the sweep of the next bucket. Returns false if none is due. */
static bool hashed_sweep_begin(struct tw_hashed *wheel)
{
    uint64_t tick = hashed_nearest_tick(wheel);

    if (wheel->now < wheel->next_at)
        return false;
    wheel->cursor = tick;
    uint32_t bucket = (uint32_t)tick & wheel->mask;
    bucket_join(&wheel->sweep, &wheel->buckets[bucket]);
    hashed_nearest_clear(wheel, bucket);
    return true;
}

/* Puts a timer of a later round back into the bucket at the cursor. */
static void hashed_sweep_put_back(struct tw_hashed *wheel, struct hashed_timer *timer)
{
    uint32_t bucket = (uint32_t)wheel->cursor & wheel->mask;

    bucket_remove(&timer->slot.link);
    bucket_push(&wheel->buckets[bucket], &timer->slot.link);
    hashed_nearest_lower(wheel, bucket, timer->round << wheel->size_shift | bucket);
}

static void hashed_sweep_take(struct tw_hashed *wheel, struct hashed_timer *timer,
                              struct tw_expired *ret_due)
{
    *ret_due = (struct tw_expired){
        .data = timer->data,
        .deadline = timer->deadline,
        .timer = slab_handle(&timer->slot),
    };
    bucket_remove(&timer->slot.link);
    tw__slab_give(&wheel->slab, &timer->slot);
    wheel->count--;
}

/* Allocates the buckets and the rows of nearest ticks. */
static bool hashed_buckets_init(struct tw_hashed *wheel)
{
    uint64_t counts[ROWS_MAX];
    uint64_t count = (uint64_t)wheel->mask + 1;

    wheel->buckets = memory_take(&wheel->memory, count, sizeof *wheel->buckets);
    if (!wheel->buckets)
        return false;
    for (uint32_t i = 0; i <= wheel->mask; i++)
        bucket_init(&wheel->buckets[i], 0, i);

    for (;; count = (count + FAN_OUT - 1) / FAN_OUT) {
        uint64_t padded = (count + FAN_OUT - 1) / FAN_OUT * FAN_OUT;
        counts[wheel->row_count++] = padded;
        wheel->nearest_count += padded;
        if (count == 1)
            break;
    }
    uint64_t *taken = memory_take(&wheel->memory, wheel->nearest_count, sizeof *taken);
    if (!taken)
        return false;
    for (uint64_t i = 0; i < wheel->nearest_count; i++)
        taken[i] = TW_NEVER;
    for (uint32_t row = 0; row < wheel->row_count; row++) {
        wheel->nearest[row] = taken;
        taken += counts[row];
    }
    return true;
}

static uint32_t hashed_size_shift_of(uint32_t size)
{
    uint32_t shift = 0;

    assert(size <= UINT32_C(1) << 31);
    while (UINT32_C(1) << shift < size)
        shift++;
    return shift;
}

struct tw_hashed *tw_hashed_create(const struct tw_hashed_options *options)
{
    static const struct tw_hashed_options defaults;

    if (!options)
        options = &defaults;
    struct memory memory =
        memory_from(tw__memory_source(options->allocate, options->release, options->context));
    struct tw_hashed *wheel = memory_take(&memory, 1, sizeof *wheel);
    if (!wheel)
        return NULL;
    *wheel = (struct tw_hashed){
        .start = options->start < TIME_LAST ? options->start : TIME_LAST,
        .tick = options->tick ? options->tick : 1,
        .size_shift =
            hashed_size_shift_of(options->wheel_size ? options->wheel_size : SIZE_DEFAULT),
        .memory = memory,
    };
    wheel->now = wheel->start;
    wheel->next_at = TW_NEVER;
    wheel->mask = (UINT32_C(1) << wheel->size_shift) - 1;
    bucket_init(&wheel->sweep, 0, BUCKET_NONE);
    bucket_init(&wheel->never, 0, BUCKET_NONE);
    tw__slab_init(&wheel->slab, sizeof(struct hashed_timer), options->timer_count_max,
                  &wheel->memory);
    if (!hashed_buckets_init(wheel)) {
        tw_hashed_destroy(wheel);
        return NULL;
    }
    return wheel;
}

void tw_hashed_destroy(struct tw_hashed *wheel)
{
    if (!wheel)
        return;
    tw__slab_deinit(&wheel->slab);
    memory_give(&wheel->memory, wheel->nearest[0], wheel->nearest_count, sizeof *wheel->nearest[0]);
    memory_give(&wheel->memory, wheel->buckets, (uint64_t)wheel->mask + 1, sizeof *wheel->buckets);
    struct memory memory = wheel->memory;
    memory_give(&memory, wheel, 1, sizeof *wheel);
}

bool tw_hashed_reserve(struct tw_hashed *wheel, size_t count)
{
    return tw__slab_reserve(&wheel->slab, count);
}

tw_handle tw_hashed_schedule(struct tw_hashed *wheel, uint64_t deadline, uint64_t data)
{
    struct hashed_timer *timer = (struct hashed_timer *)tw__slab_take(&wheel->slab);

    if (!timer)
        return TW_NONE;
    timer->data = data;
    hashed_timer_insert(wheel, timer, deadline);
    return slab_handle(&timer->slot);
}

bool tw_hashed_reschedule(struct tw_hashed *wheel, tw_handle handle, uint64_t deadline)
{
    struct hashed_timer *timer = (struct hashed_timer *)tw__slab_find(&wheel->slab, handle);

    if (!timer)
        return false;
    wheel->count -= timer->deadline != TW_NEVER;
    hashed_timer_remove(wheel, timer);
    hashed_timer_insert(wheel, timer, deadline);
    return true;
}

bool tw_hashed_cancel(struct tw_hashed *wheel, tw_handle handle)
{
    struct hashed_timer *timer = (struct hashed_timer *)tw__slab_find(&wheel->slab, handle);

    if (!timer)
        return false;
    wheel->count -= timer->deadline != TW_NEVER;
    hashed_timer_remove(wheel, timer);
    tw__slab_give(&wheel->slab, &timer->slot);
    return true;
}

size_t tw_hashed_expire(struct tw_hashed *wheel, uint64_t now, struct tw_expired *ret_due,
                        size_t limit)
{
    size_t due_count = 0;
    unsigned looks_left = TW_HASHED_LOOKS_MAX;

    if (now > TIME_LAST)
        now = TIME_LAST;
    if (now > wheel->now)
        wheel->now = now;
    if (wheel->now < wheel->next_at && bucket_is_empty(&wheel->sweep))
        return 0;
    do {
        uint64_t round = hashed_round_of(wheel, wheel->cursor);
        while (!bucket_is_empty(&wheel->sweep)) {
            struct hashed_timer *timer = hashed_timer_of(wheel->sweep.root.next_);
            if (timer->round == round) {
                if (due_count == limit)
                    return due_count;
                hashed_sweep_take(wheel, timer, &ret_due[due_count++]);
            } else {
                if (looks_left-- == 0)
                    return due_count;
                hashed_sweep_put_back(wheel, timer);
                wheel->look_count++;
            }
        }
    } while (hashed_sweep_begin(wheel));
    return due_count;
}

uint64_t tw_hashed_wake_at(const struct tw_hashed *wheel)
{
    return bucket_is_empty(&wheel->sweep) ? wheel->next_at : wheel->now;
}

bool tw_hashed_is_behind(const struct tw_hashed *wheel)
{
    return tw_hashed_wake_at(wheel) <= wheel->now;
}

uint64_t tw_hashed_now(const struct tw_hashed *wheel)
{
    return wheel->now;
}

size_t tw_hashed_count(const struct tw_hashed *wheel)
{
    return wheel->count;
}

uint64_t tw_hashed_look_count(const struct tw_hashed *wheel)
{
    return wheel->look_count;
}

size_t tw_hashed_memory(const struct tw_hashed *wheel)
{
    return wheel->memory.bytes;
}

static void hashed_check_nearest(const struct tw_hashed *wheel)
{
    uint64_t count = (uint64_t)wheel->mask + 1;

    for (uint32_t row = 0; row + 1 < wheel->row_count; row++) {
        uint64_t above = (count + FAN_OUT - 1) / FAN_OUT;
        for (uint64_t i = 0; i < above; i++) {
            uint64_t least = TW_NEVER;
            for (uint64_t j = i * FAN_OUT; j < (i + 1) * FAN_OUT && j < count; j++)
                least = wheel->nearest[row][j] < least ? wheel->nearest[row][j] : least;
            REQUIRE(wheel->nearest[row + 1][i] == least);
        }
        count = above;
    }
    REQUIRE(count == 1);
    uint64_t next = hashed_nearest_tick(wheel);
    REQUIRE(wheel->next_at == (next == TW_NEVER ? TW_NEVER : hashed_time_of(wheel, next)));
}

void tw_hashed_check(const struct tw_hashed *wheel)
{
    size_t count = bucket_check(&wheel->sweep);

    REQUIRE(wheel->cursor <= hashed_tick_reached(wheel, wheel->now));
    for (uint32_t i = 0; i <= wheel->mask; i++) {
        const struct link_bucket *bucket = &wheel->buckets[i];
        uint64_t nearest = wheel->nearest[0][i];
        count += bucket_check(bucket);
        REQUIRE((nearest == TW_NEVER) == bucket_is_empty(bucket));
        REQUIRE(nearest == TW_NEVER || (nearest & wheel->mask) == i);
        REQUIRE(nearest > wheel->cursor);
        for (struct tw_link *link = bucket->root.next_; link != &bucket->root; link = link->next_) {
            const struct hashed_timer *timer = hashed_timer_of(link);
            uint64_t tick = timer->round << wheel->size_shift | i;
            REQUIRE(nearest <= tick);
            REQUIRE(tick == hashed_tick_at_or_after(wheel, timer->deadline));
        }
    }
    for (struct tw_link *link = wheel->sweep.root.next_; link != &wheel->sweep.root;
         link = link->next_)
        REQUIRE(hashed_timer_of(link)->round >= hashed_round_of(wheel, wheel->cursor));
    hashed_check_nearest(wheel);
    REQUIRE(count == wheel->count);
    REQUIRE(count + bucket_check(&wheel->never) == tw__slab_check(&wheel->slab));
}
