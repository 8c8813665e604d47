/*
 * fifo.h - timers of one delay, in the caller's objects: a list in the order of their deadlines.
 *
 * Time-outs of equal length need no wheel: the timer armed last is due last, so it is appended, and
 * the first one of the list is the next that is due. The caller embeds a struct tw_task in each
 * object, and has a FIFO for each delay:
 *
 *     tw_fifo_init(&idle, 30000);
 *     tw_fifo_arm(&idle, &connection->idle, now);    at each read
 *     tw_fifo_cancel(&idle, &connection->idle);
 *
 *     struct tw_task *due[64];
 *     for (size_t n; (n = tw_fifo_expire(&idle, now, due, 64)) > 0;)
 *         for (size_t i = 0; i < n; i++)
 *             hang_up(tw_task_item(due[i], struct connection, idle));
 *     sleep_until(tw_fifo_wake_at(&idle));
 *
 * Time       Absolute, 64 bits, in a unit of the caller's. A task never comes out before its
 *            deadline. Every function is O(1), expire for each task that it returns.
 * Errors     None. Misuse is a bug in the caller, which assert() reports.
 * Ownership  FIFO and tasks belong to the caller. A task may be freed while it is not armed: before
 *            arm, and after cancel or expire has returned it. An armed task, and a FIFO with one,
 *            must not move in memory.
 * Memory     None is allocated.
 * Threads    No globals and no locks: one FIFO and its tasks, one thread at a time.
 */
#ifndef TICKWHEEL_FIFO_H
#define TICKWHEEL_FIFO_H

#include <tickwheel/hierarchy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The armed tasks of one delay. */
struct tw_fifo {
    struct tw_link root_;
    uint64_t delay_;
    uint64_t now_; /* the latest time passed in */
    size_t count_;
};

/* Initializes an empty `fifo`, whose tasks are due `delay` after they were armed. */
void tw_fifo_init(struct tw_fifo *fifo, uint64_t delay);

/* Arms `task`, which is all zero or was armed in this `fifo` before, in place of a deadline that it
 * may have. It is due at `now` plus the delay, at TW_NEVER - 1 at the latest. Time never runs
 * backwards: an earlier `now` counts as the latest one. */
void tw_fifo_arm(struct tw_fifo *fifo, struct tw_task *task, uint64_t now);

/* Removes `task` from `fifo`. Returns false if it is not armed, so cancelling twice is harmless. */
bool tw_fifo_cancel(struct tw_fifo *fifo, struct tw_task *task);

/* Takes up to `limit` tasks that are due at `now` out of `fifo` into `ret_due`, in order of
 * deadline, and equal deadlines in the order in which they were armed. Returns their number; below
 * `limit` none is left. They are not armed any more, so the caller may arm or free any of them. */
size_t tw_fifo_expire(struct tw_fifo *fifo, uint64_t now, struct tw_task **ret_due, size_t limit);

/* The earliest deadline in `fifo`, TW_NEVER if no task is armed. */
uint64_t tw_fifo_wake_at(const struct tw_fifo *fifo);

/* The number of armed tasks. */
size_t tw_fifo_count(const struct tw_fifo *fifo);

/* For tests: aborts unless every invariant of `fifo` holds, whether or not assert() is compiled in.
 * O(tasks). */
void tw_fifo_check(const struct tw_fifo *fifo);

#ifdef __cplusplus
}
#endif

#endif
