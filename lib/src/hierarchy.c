/*
 * hierarchy.c - the hierarchy: levels of buckets, tasks that cascade to lower levels.
 *
 * Inside, time is counted in ticks: a deadline becomes the first tick that is not before it. Every
 * task up to `cursor` has been returned or is in `due`. Level l has buckets of size^l ticks, and
 * `current` is the cursor in that unit, rounded down. A task is on the lowest level on which its
 * bucket is less than one rotation ahead, so no task is ever added to the bucket at `current`. When
 * the cursor reaches a bucket, its tasks move down. No bucket with tasks begins before `next_at`,
 * so a call before that time need not search. After a cancel `next_at` may be too early, which
 * costs one search.
 *
 * Bucket numbers are compared by their differences, never by sums, so that no deadline overflows.
 */
#include <tickwheel/hierarchy.h>

#include "bitmap.h"
#include "link.h"

#include <assert.h>

enum {
    /* a hierarchy whose wheels have two buckets needs 64 levels to cover 64 bits */
    LEVELS_MAX = 64,
    SIZE_DEFAULT = 256
};

/* The largest time. It may be in the middle of a tick, which then counts as complete. */
#define TIME_LAST (TW_NEVER - 1)

struct hierarchy_level {
    uint64_t unit;    /* ticks of a bucket: size^l */
    uint64_t current; /* cursor / unit */
    struct bitmap filled;
    struct link_bucket *buckets;
};

struct tw_hierarchy {
    uint64_t now;     /* latest time passed to expire, at most TIME_LAST */
    uint64_t next_at; /* no bucket with tasks begins before this time; TW_NEVER if there is none */
    uint64_t cursor;  /* at most the tick at `now`; less while expire has more to do */
    uint64_t tick;
    uint32_t size;
    uint32_t size_shift; /* size == 1 << size_shift; 0 if the size is no power of two */
    uint32_t level_count;
    /* there was no memory for a level, so the lowest wheel has tasks of later rotations */
    bool is_short;
    uint64_t move_count;       /* result of tw_hierarchy_move_count */
    size_t count;              /* scheduled tasks, except those in `never` */
    struct link_bucket due;    /* tasks to return: those of ticks up to the cursor */
    struct link_bucket moving; /* tasks of an overflow bucket that are still to be moved down */
    struct link_bucket never;  /* tasks with deadline TW_NEVER */
    struct memory memory;
    struct hierarchy_level levels[LEVELS_MAX];
};

static struct tw_task *hierarchy_task_of(struct tw_link *link)
{
    return (struct tw_task *)((char *)link - offsetof(struct tw_task, link_));
}

static uint64_t hierarchy_divide(const struct tw_hierarchy *wheel, uint64_t value)
{
    return wheel->size_shift ? value >> wheel->size_shift : value / wheel->size;
}

static uint32_t hierarchy_index_of(const struct tw_hierarchy *wheel, uint64_t value)
{
    return (uint32_t)(value - hierarchy_divide(wheel, value) * wheel->size);
}

/* Returns the first tick that begins at or after `time`. Most callers use a tick of 1, which needs
 * no division. */
static uint64_t hierarchy_tick_at_or_after(const struct tw_hierarchy *wheel, uint64_t time)
{
    if (wheel->tick == 1)
        return time;
    return time / wheel->tick + (time % wheel->tick != 0);
}

/* Returns the last tick that began at or before `time`. */
static uint64_t hierarchy_tick_reached(const struct tw_hierarchy *wheel, uint64_t time)
{
    if (time == TIME_LAST || wheel->tick == 1)
        return hierarchy_tick_at_or_after(wheel, time);
    return time / wheel->tick;
}

static uint64_t hierarchy_time_of(const struct tw_hierarchy *wheel, uint64_t tick)
{
    uint64_t time;

    if (__builtin_mul_overflow(tick, wheel->tick, &time))
        return TIME_LAST;
    return time < TIME_LAST ? time : TIME_LAST;
}

static void hierarchy_level_deinit(struct tw_hierarchy *wheel, struct hierarchy_level *level)
{
    tw__bitmap_deinit(&level->filled, &wheel->memory);
    memory_give(&wheel->memory, level->buckets, wheel->size, sizeof *level->buckets);
}

/* Creates the overflow wheel above the top level. Called only when a tick lies beyond the span of
 * the top level, so that the new wheel's unit fits into 64 bits. */
static bool hierarchy_level_add(struct tw_hierarchy *wheel)
{
    uint32_t above = wheel->level_count;
    struct hierarchy_level level = {.unit = 1};

    level.buckets = memory_take(&wheel->memory, wheel->size, sizeof *level.buckets);
    if (!level.buckets || !tw__bitmap_init(&level.filled, wheel->size, &wheel->memory)) {
        hierarchy_level_deinit(wheel, &level);
        return false;
    }
    for (uint32_t i = 0; i < wheel->size; i++)
        bucket_init(&level.buckets[i], above, i);
    if (above)
        level.unit = wheel->levels[above - 1].unit * wheel->size;
    level.current = wheel->cursor / level.unit;
    wheel->levels[wheel->level_count++] = level;
    return true;
}

/* Adds a task to the bucket that begins at `at`, in units of the level. */
static void hierarchy_bucket_add(struct tw_hierarchy *wheel, struct hierarchy_level *level,
                                 uint64_t at, struct tw_task *task)
{
    uint32_t index = hierarchy_index_of(wheel, at);
    uint64_t start_at = hierarchy_time_of(wheel, at * level->unit);

    bucket_push(&level->buckets[index], &task->link_);
    bitmap_set(&level->filled, index);
    wheel->next_at = start_at < wheel->next_at ? start_at : wheel->next_at;
}

/* Puts a task that is in no list into the list for its deadline. */
static void hierarchy_task_place(struct tw_hierarchy *wheel, struct tw_task *task)
{
    uint64_t tick = hierarchy_tick_at_or_after(wheel, task->deadline_);

    if (tick <= wheel->cursor) {
        bucket_push(&wheel->due, &task->link_);
        return;
    }
    uint64_t at = tick; /* position in units of the level */
    for (uint32_t l = 0;; l++) {
        struct hierarchy_level *level = &wheel->levels[l];
        if (at - level->current < wheel->size) {
            hierarchy_bucket_add(wheel, level, at, task);
            return;
        }
        if (l + 1 == wheel->level_count && !hierarchy_level_add(wheel)) {
            wheel->is_short |= l == 0;
            hierarchy_bucket_add(wheel, level, level->current + wheel->size - 1, task);
            return;
        }
        at = hierarchy_divide(wheel, at);
    }
}

/* Removes a scheduled task from its list. */
static void hierarchy_task_remove(struct tw_hierarchy *wheel, struct tw_task *task)
{
    struct link_bucket *emptied = bucket_remove(&task->link_);

    if (emptied && emptied->index != BUCKET_NONE)
        bitmap_clear(&wheel->levels[emptied->level].filled, emptied->index);
}

/* Returns the non-empty bucket that begins first; NULL if all are empty. If several begin together,
 * returns the coarsest, so that its tasks reach the finer buckets in time. O(levels). */
static struct link_bucket *hierarchy_bucket_soonest(const struct tw_hierarchy *wheel,
                                                    uint64_t *ret_tick)
{
    struct link_bucket *soonest = NULL;

    for (uint32_t l = wheel->level_count; l-- > 0;) {
        const struct hierarchy_level *level = &wheel->levels[l];
        uint32_t index = hierarchy_index_of(wheel, level->current);
        uint32_t distance;
        if (!bitmap_next_round(&level->filled, index, &distance))
            continue;
        uint64_t tick = (level->current + distance) * level->unit;
        if (soonest && tick >= *ret_tick)
            continue;
        uint64_t sum = (uint64_t)index + distance;
        soonest = &level->buckets[sum < wheel->size ? sum : sum - wheel->size];
        *ret_tick = tick;
    }
    return soonest;
}

/* Moves the cursor to `tick`. No bucket that begins before `tick` has tasks. */
static void hierarchy_cursor_move(struct tw_hierarchy *wheel, uint64_t tick)
{
    wheel->cursor = tick;
    for (uint32_t l = 0; l < wheel->level_count; l++) {
        if (wheel->levels[l].current == tick)
            return; /* then the levels above are also up to date */
        wheel->levels[l].current = tick;
        tick = hierarchy_divide(wheel, tick);
    }
}

/* Opens the next bucket that is due by `reached`. Returns false if there is none; the cursor is at
 * `reached` then. O(1) before the next bucket begins, O(levels) then. */
static bool hierarchy_bucket_open(struct tw_hierarchy *wheel, uint64_t reached)
{
    struct link_bucket *bucket = NULL;
    uint64_t tick = 0;

    if (wheel->next_at <= wheel->now) {
        bucket = hierarchy_bucket_soonest(wheel, &tick);
        wheel->next_at = bucket ? hierarchy_time_of(wheel, tick) : TW_NEVER;
    }
    if (!bucket || tick > reached) {
        hierarchy_cursor_move(wheel, reached);
        return false;
    }
    hierarchy_cursor_move(wheel, tick);
    bitmap_clear(&wheel->levels[bucket->level].filled, bucket->index);
    bool is_due = bucket->level == 0 && !wheel->is_short;
    bucket_join(is_due ? &wheel->due : &wheel->moving, bucket);
    return true;
}

struct tw_hierarchy *tw_hierarchy_create(const struct tw_hierarchy_options *options)
{
    static const struct tw_hierarchy_options defaults;

    if (!options)
        options = &defaults;
    assert(options->wheel_size != 1);
    struct memory memory =
        memory_from(tw__memory_source(options->allocate, options->release, options->context));
    struct tw_hierarchy *wheel = memory_take(&memory, 1, sizeof *wheel);
    if (!wheel)
        return NULL;
    *wheel = (struct tw_hierarchy){
        .now = options->start < TIME_LAST ? options->start : TIME_LAST,
        .tick = options->tick ? options->tick : 1,
        .size = options->wheel_size ? options->wheel_size : SIZE_DEFAULT,
        .memory = memory,
    };
    if ((wheel->size & (wheel->size - 1)) == 0)
        wheel->size_shift = (uint32_t)__builtin_ctz(wheel->size);
    wheel->cursor = hierarchy_tick_reached(wheel, wheel->now);
    wheel->next_at = TW_NEVER;
    bucket_init(&wheel->due, 0, BUCKET_NONE);
    bucket_init(&wheel->moving, 0, BUCKET_NONE);
    bucket_init(&wheel->never, 0, BUCKET_NONE);
    if (!hierarchy_level_add(wheel)) {
        tw_hierarchy_destroy(wheel);
        return NULL;
    }
    return wheel;
}

void tw_hierarchy_destroy(struct tw_hierarchy *wheel)
{
    if (!wheel)
        return;
    for (uint32_t l = 0; l < wheel->level_count; l++)
        hierarchy_level_deinit(wheel, &wheel->levels[l]);
    struct memory memory = wheel->memory;
    memory_give(&memory, wheel, 1, sizeof *wheel);
}

bool tw_hierarchy_reserve(struct tw_hierarchy *wheel, uint64_t delay)
{
    /* The distance in ticks, plus one because both ends may be within a tick. The same applies to
     * the buckets of each level. */
    uint64_t distance = hierarchy_tick_at_or_after(wheel, delay);
    distance += distance < UINT64_MAX;

    for (uint32_t l = 0; distance >= wheel->size - 1; l++) {
        if (wheel->levels[l].unit > UINT64_MAX / wheel->size)
            break; /* the top wheel covers all times */
        if (l + 1 == wheel->level_count && !hierarchy_level_add(wheel))
            return false;
        distance = hierarchy_divide(wheel, distance);
    }
    return true;
}

void tw_hierarchy_schedule(struct tw_hierarchy *wheel, struct tw_task *task, uint64_t deadline)
{
    tw_hierarchy_cancel(wheel, task);
    task->deadline_ = deadline;
    if (deadline == TW_NEVER) {
        bucket_push(&wheel->never, &task->link_);
        return;
    }
    wheel->count++;
    /* The deadline is reached, but its tick is not: the task is due at once. */
    if (deadline <= wheel->now &&
        hierarchy_tick_at_or_after(wheel, deadline) > hierarchy_tick_reached(wheel, wheel->now))
        bucket_push(&wheel->due, &task->link_);
    else
        hierarchy_task_place(wheel, task);
}

bool tw_hierarchy_reschedule(struct tw_hierarchy *wheel, struct tw_task *task, uint64_t deadline)
{
    if (!tw_task_is_scheduled(task))
        return false;
    tw_hierarchy_schedule(wheel, task, deadline);
    return true;
}

bool tw_hierarchy_cancel(struct tw_hierarchy *wheel, struct tw_task *task)
{
    if (!tw_task_is_scheduled(task))
        return false;
    wheel->count -= task->deadline_ != TW_NEVER;
    hierarchy_task_remove(wheel, task);
    return true;
}

struct tw_task *tw_hierarchy_pop(struct tw_hierarchy *wheel)
{
    uint64_t tick;
    struct link_bucket *bucket = !bucket_is_empty(&wheel->due) ? &wheel->due
                                 : !bucket_is_empty(&wheel->moving)
                                     ? &wheel->moving
                                     : hierarchy_bucket_soonest(wheel, &tick);

    if (!bucket)
        bucket = &wheel->never;
    if (bucket_is_empty(bucket))
        return NULL;
    struct tw_task *task = hierarchy_task_of(bucket->root.next_);
    tw_hierarchy_cancel(wheel, task);
    return task;
}

size_t tw_hierarchy_expire(struct tw_hierarchy *wheel, uint64_t now, struct tw_task **ret_due,
                           size_t limit)
{
    size_t due_count = 0;
    unsigned moves_left = TW_HIERARCHY_MOVES_MAX;

    if (now > TIME_LAST)
        now = TIME_LAST;
    if (now > wheel->now)
        wheel->now = now;
    uint64_t reached = hierarchy_tick_reached(wheel, wheel->now);
    do {
        for (; moves_left > 0 && !bucket_is_empty(&wheel->moving); moves_left--) {
            struct tw_task *task = hierarchy_task_of(wheel->moving.root.next_);
            bucket_remove(&task->link_);
            hierarchy_task_place(wheel, task);
            wheel->move_count++;
        }
        while (!bucket_is_empty(&wheel->due)) {
            if (due_count == limit)
                return due_count;
            struct tw_task *task = hierarchy_task_of(wheel->due.root.next_);
            bucket_remove(&task->link_);
            wheel->count--;
            ret_due[due_count++] = task;
        }
    } while (bucket_is_empty(&wheel->moving) && hierarchy_bucket_open(wheel, reached));
    return due_count;
}

uint64_t tw_hierarchy_wake_at(const struct tw_hierarchy *wheel)
{
    uint64_t tick = 0;

    if (!bucket_is_empty(&wheel->due) || !bucket_is_empty(&wheel->moving))
        return wheel->now;
    return hierarchy_bucket_soonest(wheel, &tick) ? hierarchy_time_of(wheel, tick) : TW_NEVER;
}

bool tw_hierarchy_is_behind(const struct tw_hierarchy *wheel)
{
    if (!bucket_is_empty(&wheel->due) || !bucket_is_empty(&wheel->moving))
        return true;
    return wheel->next_at <= wheel->now && tw_hierarchy_wake_at(wheel) <= wheel->now;
}

uint64_t tw_hierarchy_now(const struct tw_hierarchy *wheel)
{
    return wheel->now;
}

size_t tw_hierarchy_count(const struct tw_hierarchy *wheel)
{
    return wheel->count;
}

unsigned tw_hierarchy_level_count(const struct tw_hierarchy *wheel)
{
    return wheel->level_count;
}

uint64_t tw_hierarchy_move_count(const struct tw_hierarchy *wheel)
{
    return wheel->move_count;
}

size_t tw_hierarchy_memory(const struct tw_hierarchy *wheel)
{
    return wheel->memory.bytes;
}

/* A bucket begins no later than its tasks are due, and on the lowest level at that tick. */
static size_t hierarchy_check_bucket(const struct tw_hierarchy *wheel,
                                     const struct hierarchy_level *level, uint32_t index)
{
    const struct link_bucket *bucket = &level->buckets[index];
    uint32_t here = hierarchy_index_of(wheel, level->current);
    uint64_t distance = index >= here ? index - here : (uint64_t)index + wheel->size - here;
    uint64_t start = (level->current + distance) * level->unit;

    REQUIRE(bitmap_has(&level->filled, index) == !bucket_is_empty(bucket));
    REQUIRE(bucket_is_empty(bucket) || start >= wheel->cursor);
    REQUIRE(bucket_is_empty(bucket) || hierarchy_time_of(wheel, start) >= wheel->next_at);
    for (struct tw_link *link = bucket->root.next_; link != &bucket->root; link = link->next_) {
        uint64_t deadline = hierarchy_task_of(link)->deadline_;
        REQUIRE(start <= hierarchy_tick_at_or_after(wheel, deadline));
        if (level->unit == 1 && !wheel->is_short)
            REQUIRE(start == hierarchy_tick_at_or_after(wheel, deadline));
    }
    return bucket_check(bucket);
}

void tw_hierarchy_check(const struct tw_hierarchy *wheel)
{
    size_t count = bucket_check(&wheel->due) + bucket_check(&wheel->moving);
    uint64_t unit = 1;

    REQUIRE(wheel->cursor <= hierarchy_tick_reached(wheel, wheel->now));
    for (uint32_t l = 0; l < wheel->level_count; l++, unit *= wheel->size) {
        const struct hierarchy_level *level = &wheel->levels[l];
        REQUIRE(level->unit == unit);
        REQUIRE(level->current == wheel->cursor / unit);
        for (uint32_t i = 0; i < wheel->size; i++)
            count += hierarchy_check_bucket(wheel, level, i);
    }
    REQUIRE(count == wheel->count);
    for (struct tw_link *link = wheel->due.root.next_; link != &wheel->due.root; link = link->next_)
        REQUIRE(hierarchy_task_of(link)->deadline_ <= wheel->now);
    bucket_check(&wheel->never);
    for (struct tw_link *link = wheel->never.root.next_; link != &wheel->never.root;
         link = link->next_)
        REQUIRE(hierarchy_task_of(link)->deadline_ == TW_NEVER);
}
