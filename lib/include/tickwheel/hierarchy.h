/*
 * hierarchy.h - the textbook hierarchy of timing wheels, for tasks that lie in the caller's memory.
 *
 * The caller embeds a struct tw_task in each object that has a deadline; the wheel only links it.
 * Nothing is allocated per task, and an unscheduled task costs the wheel nothing:
 *
 *     struct connection {
 *         int fd;
 *         struct tw_task idle; // all zero until scheduled
 *     };
 *     tw_hierarchy_schedule(wheel, &connection->idle, now + 30000);
 *
 *     struct tw_task *due[64];
 *     do {
 *         size_t n = tw_hierarchy_expire(wheel, now, due, 64);
 *         for (size_t i = 0; i < n; i++)
 *             hang_up(tw_task_item(due[i], struct connection, idle));
 *     } while (tw_hierarchy_is_behind(wheel));
 *     sleep_until(tw_hierarchy_wake_at(wheel));
 *
 * The lowest wheel has `wheel_size` buckets of one tick. A deadline beyond its span goes to the
 * overflow wheel above, each of whose buckets spans the whole wheel below, and so on. When an
 * overflow bucket's time is reached, its tasks cascade to the finer wheels below.
 *
 * Time       Absolute, 64 bits, in a unit of the caller's; `tick` units are one tick. A task comes
 *            out at the first multiple of `tick` that is not before its deadline: never early, late
 *            by less than one tick. No horizon: any deadline below TW_NEVER fires, TW_NEVER does
 *            not.
 * Errors     Only create and reserve fail, when memory is short. Without memory for an overflow
 *            wheel, tasks beyond the top wheel wait in its farthest bucket: that costs moves, but
 *            no task is early or late. Misuse is a bug in the caller, which assert() reports.
 * Ownership  Tasks belong to the caller. A task may be freed while it is not scheduled: before
 *            schedule, and after cancel or expire has returned it. A scheduled task must not move
 *            in memory.
 * Memory     Allocated only for whole wheels: at create, at reserve, and when a deadline first
 *            needs an overflow wheel, of which there are at most log(2^64) / log(wheel_size). Freed
 *            by destroy.
 * Threads    No globals and no locks: one wheel and its tasks, one thread at a time.
 */
#ifndef TICKWHEEL_HIERARCHY_H
#define TICKWHEEL_HIERARCHY_H

#include <tickwheel/wheel.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most tasks that one expire moves down from overflow buckets, see tw_hierarchy_expire. */
#define TW_HIERARCHY_MOVES_MAX 1024

struct tw_hierarchy;

/* A cell of a doubly linked list; all zero while it is in no list. */
struct tw_link {
    struct tw_link *next_, *prev_;
};

/* The part that the caller embeds. Must be all zero before its first use. */
struct tw_task {
    struct tw_link link_;
    uint64_t deadline_; /* valid once scheduled, and kept after that */
};

/* Zero means the default in every field, so `(struct tw_hierarchy_options){0}` is a good start. */
struct tw_hierarchy_options {
    /* The time at which the wheel starts; need not be a multiple of the tick. Default 0. */
    uint64_t start;

    /* How long a tick is. Default 1. */
    uint64_t tick;

    /* Buckets of each wheel: any number of at least 2. A power of two saves divisions. Default 256.
     */
    uint32_t wheel_size;

    /* The source of memory, for callers that count or own it. `allocate` returns `size` bytes at a
     * multiple of `alignment`, a power of two; NULL means out of memory. `release` gives the bytes
     * back. Set both or neither; both receive `context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

/* The item, of a struct `type`, in which `task` is embedded as `member`. */
#define tw_task_item(task, type, member) ((type *)((char *)(task)-offsetof(type, member)))

/* An empty wheel. `options` may be NULL for all defaults and is copied. NULL when out of memory. */
struct tw_hierarchy *tw_hierarchy_create(const struct tw_hierarchy_options *options);

/* Frees the wheel; NULL is fine. Tasks that are still scheduled are left as they are: zero them
 * before using them with another wheel. */
void tw_hierarchy_destroy(struct tw_hierarchy *wheel);

/* Creates the overflow wheels that deadlines up to `delay` ahead need, so that such tasks allocate
 * nothing later. False when out of memory; wheels created so far stay. */
bool tw_hierarchy_reserve(struct tw_hierarchy *wheel, uint64_t delay);

/* Schedules `task` for `deadline`, in place of a deadline that it may have. A deadline already
 * reached is due at once, after the other tasks of its tick. */
void tw_hierarchy_schedule(struct tw_hierarchy *wheel, struct tw_task *task, uint64_t deadline);

/* Moves a scheduled task to another deadline, later or earlier. Returns false, and does nothing, if
 * the task is not scheduled: it fired or was cancelled before. */
bool tw_hierarchy_reschedule(struct tw_hierarchy *wheel, struct tw_task *task, uint64_t deadline);

/* Removes the task. Returns false if it is not scheduled, so cancelling twice is harmless. */
bool tw_hierarchy_cancel(struct tw_hierarchy *wheel, struct tw_task *task);

/* Removes and returns any scheduled task, due or not; NULL when none is scheduled. For emptying a
 * wheel before destroy. O(levels). */
struct tw_task *tw_hierarchy_pop(struct tw_hierarchy *wheel);

/* Moves time forward to `now` and takes out up to `limit` tasks that are due by then, in order of
 * tick (equal ticks in any order; tasks that were overdue when scheduled may come sooner). Returns
 * their number. They are no longer scheduled: the caller may schedule, cancel or reschedule any
 * task while handling them, those in `ret_due` too. Time never runs backwards: an earlier `now`
 * changes nothing.
 *
 * One call moves at most TW_HIERARCHY_MOVES_MAX tasks besides those that it takes out. When more
 * moves are needed to find the next due task, the call returns the tasks taken so far, possibly
 * none, and the next call continues. So a return below `limit` means that no due task is left
 * unless tw_hierarchy_is_behind(). */
size_t tw_hierarchy_expire(struct tw_hierarchy *wheel, uint64_t now, struct tw_task **ret_due,
                           size_t limit);

/* Whether tasks may be due at the wheel's time, because expire stopped early or a task was
 * scheduled for a time already reached: call expire again. O(levels). */
bool tw_hierarchy_is_behind(const struct tw_hierarchy *wheel);

/* When to call expire again: the tick of the next task, or sooner when tasks must move down before:
 * at the start of their overflow bucket. Not after the wheel's time while the wheel is behind;
 * TW_NEVER if no task has a deadline other than TW_NEVER. Every cancel and reschedule changes it at
 * once. O(levels). */
uint64_t tw_hierarchy_wake_at(const struct tw_hierarchy *wheel);

/* Whether the task is in a wheel: scheduled, and since then neither expired nor cancelled. */
static inline bool tw_task_is_scheduled(const struct tw_task *task)
{
    return task->link_.next_ != NULL;
}

/* The deadline last given; 0 before the first schedule. */
static inline uint64_t tw_task_deadline(const struct tw_task *task)
{
    return task->deadline_;
}

/* The latest time given to expire, or the start. */
uint64_t tw_hierarchy_now(const struct tw_hierarchy *wheel);

/* How many tasks wait for a deadline other than TW_NEVER. */
size_t tw_hierarchy_count(const struct tw_hierarchy *wheel);

/* Wheels created so far, at least 1. */
unsigned tw_hierarchy_level_count(const struct tw_hierarchy *wheel);

/* How often a task was moved down from an overflow wheel, since creation: the work that a larger
 * `wheel_size` would save. */
uint64_t tw_hierarchy_move_count(const struct tw_hierarchy *wheel);

/* Bytes allocated for this wheel, without the tasks. */
size_t tw_hierarchy_memory(const struct tw_hierarchy *wheel);

/* For tests: aborts unless every invariant of the wheel holds, whether or not assert() is compiled
 * in. O(tasks + buckets). */
void tw_hierarchy_check(const struct tw_hierarchy *wheel);

#ifdef __cplusplus
}
#endif

#endif
