/*
 * runner_verbs.c - the functions on one timer, called from any thread.
 *
 * Each changes the timer in its lane's wheel with the lane locked, which decides every race, and
 * wakes the runner afterwards if that would sleep beyond the timer.
 */
#include "runner_private.h"
#include "wheel_runner.h"

#include <errno.h>

/* When a timer is due: the tick for the wheel, and the instant for which the runner must wake. */
struct runner_due {
    uint64_t tick;
    uint64_t wake_ns;
};

static bool runner_is_reached(const struct tw_runner *runner, uint64_t deadline_ns)
{
    return deadline_ns <= atomic_load_explicit(&runner->latest_ns, memory_order_relaxed) ||
           deadline_ns <= tw_runner_now(runner).ns;
}

/* A deadline within a tick is due when the next tick begins, but at once if it is reached. The
 * clock is read only if it may be: if the runner has to be woken for it, or is awake and has read
 * its clock less than a tick before. */
static inline struct runner_due runner_due_at(const struct tw_runner_wheel *wheel,
                                              uint64_t deadline_ns)
{
    const struct tw_runner *runner = wheel->runner;
    uint64_t tick = tw__runner_tick(wheel, deadline_ns), wake_ns = tick * wheel->tick_ns;
    if (wake_ns != deadline_ns) {
        tick++;
        wake_ns = wake_ns < NEVER_NS - wheel->tick_ns ? wake_ns + wheel->tick_ns : NEVER_NS - 1;
    }
    if (__builtin_expect(
            wake_ns < atomic_load_explicit(&runner->sleep_until_ns, memory_order_relaxed) ||
                deadline_ns <
                    atomic_load_explicit(&runner->latest_ns, memory_order_relaxed) + wheel->tick_ns,
            0) &&
        runner_is_reached(runner, deadline_ns))
        return (struct runner_due){0, 0};
    if (__builtin_expect(deadline_ns == NEVER_NS, 0))
        return (struct runner_due){TICK_NEVER, NEVER_NS};
    return (struct runner_due){tick, wake_ns};
}

/* Notes in the lane, which is locked, that a timer is due. */
static inline void runner_note_due(struct runner_lane *lane, uint64_t wake_ns)
{
    if (wake_ns < atomic_load_explicit(&lane->wake_ns, memory_order_relaxed))
        atomic_store_explicit(&lane->wake_ns, wake_ns, memory_order_relaxed);
}

/* Called after the lane was unlocked: wakes the runner if it would sleep beyond `wake_ns`. */
static inline void runner_wake_for(struct tw_runner_wheel *wheel, uint64_t wake_ns)
{
    _Atomic uint64_t *sleep_until = &wheel->runner->sleep_until_ns;
    for (uint64_t until = atomic_load(sleep_until); wake_ns < until;)
        if (atomic_compare_exchange_weak(sleep_until, &until, 0)) {
            tw__runner_wake(wheel->runner);
            return;
        }
}

static bool runner_is_stopped(const struct tw_runner_wheel *wheel)
{
    return atomic_load(&wheel->runner->is_stopped);
}

/* A lane with room for a new timer, locked; NULL when there is none, or the runner is stopped.
 * Checked with the lane locked, so that take_left finds the timer or the timer is refused. */
static inline struct runner_lane *runner_lane_for_new(struct tw_runner_wheel *wheel)
{
    struct runner_lane *lane = tw__runner_lane_with_room(wheel);
    if (lane && runner_is_stopped(wheel)) {
        tw__runner_lane_unlock(lane);
        lane = NULL;
    }
    return lane;
}

/* Notes a new timer of the lane's wheel. Returns its handle without the lane; TW_NONE when out of
 * memory. */
static inline tw_handle runner_hold(struct tw_runner_wheel *wheel, struct runner_lane *lane,
                                    tw_handle inner, uint64_t deadline_ns)
{
    if (__builtin_expect(
            (uint32_t)inner >= atomic_load_explicit(&lane->slot_count, memory_order_relaxed), 0) &&
        !tw__runner_lane_cover(wheel, lane, (uint32_t)inner))
        return TW_NONE;
    *tw__runner_deadline(lane, inner) = deadline_ns;
    lane->held++;
    return inner;
}

static inline tw_handle runner_outer(const struct tw_runner_wheel *wheel,
                                     const struct runner_lane *lane, tw_handle inner)
{
    return inner ? inner | (uint64_t)(lane - wheel->lanes) << LANE_SHIFT : TW_NONE;
}

tw_handle tw_runner_schedule(struct tw_runner_wheel *wheel, struct tw_instant deadline,
                             uint64_t data)
{
    struct runner_due due = runner_due_at(wheel, deadline.ns);
    struct runner_lane *lane = runner_lane_for_new(wheel);
    if (!lane)
        return TW_NONE;
    tw_handle inner = tw_wheel_schedule(lane->wheel, due.tick, data);
    if (inner && !runner_hold(wheel, lane, inner, deadline.ns)) {
        (void)tw_wheel_cancel(lane->wheel, inner);
        inner = TW_NONE;
    }
    lane->scheduled += inner != TW_NONE;
    runner_note_due(lane, due.wake_ns);
    tw__runner_lane_unlock(lane);
    runner_wake_for(wheel, due.wake_ns);
    return runner_outer(wheel, lane, inner);
}

tw_handle tw_runner_open(struct tw_runner_wheel *wheel, uint64_t data)
{
    struct runner_lane *lane = runner_lane_for_new(wheel);
    if (!lane)
        return TW_NONE;
    tw_handle inner = tw_wheel_open(lane->wheel, data);
    if (inner && !runner_hold(wheel, lane, inner, NEVER_NS)) {
        (void)tw_wheel_close(lane->wheel, inner);
        inner = TW_NONE;
    }
    lane->opened += inner != TW_NONE;
    tw__runner_lane_unlock(lane);
    return runner_outer(wheel, lane, inner);
}

/* The lane of a handle, locked; NULL for a handle that was never returned.
 *
 * The slot's memory, also what the slot's next timer writes, is prefetched before the lock is
 * taken: an atomic exchange waits until earlier stores are done, and later reads wait for the
 * exchange. Without the prefetch these waits follow each other, the last with the lane locked. */
static inline struct runner_lane *runner_find(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_lane *lane = tw__runner_lane_of(wheel, timer);
    uint32_t index = (uint32_t)tw__runner_inner(timer), place = index & (PIECE_SLOTS - 1);
    if (index >= atomic_load_explicit(&lane->slot_count, memory_order_acquire))
        return NULL;
    const struct runner_place *at = tw__runner_place(lane, index);
    const char *record = at->records + (size_t)place * WHEEL_RECORD_SIZE;
    __builtin_prefetch(record, 1);
    __builtin_prefetch(record + WHEEL_DATA_AT, 1);
    __builtin_prefetch(&at->piece->deadline_ns[place], 1);
    tw__runner_lane_lock(lane);
    return lane;
}

/* Whether the handler has the timer. */
static inline bool runner_is_running(const struct runner_lane *lane, tw_handle inner)
{
    uint32_t running = *tw__runner_running(lane, inner);
    return running != 0 && running == inner >> 32;
}

enum tw_runner_answer tw_runner_cancel(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_lane *lane = runner_find(wheel, timer);
    enum tw_runner_answer answer = TW_RUNNER_OK;
    if (!lane)
        return TW_RUNNER_DONE;
    tw_handle inner = tw__runner_inner(timer);
    if (__builtin_expect(tw_wheel_cancel(lane->wheel, inner), 1)) {
        lane->cancelled++;
        tw__runner_lane_drop(wheel, lane);
    } else {
        answer = runner_is_running(lane, inner) ? TW_RUNNER_RUNNING : TW_RUNNER_DONE;
    }
    tw__runner_lane_unlock(lane);
    return answer;
}

enum tw_runner_answer tw_runner_close(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_lane *lane = runner_find(wheel, timer);
    enum tw_runner_answer answer = TW_RUNNER_DONE;
    if (!lane)
        return TW_RUNNER_DONE;
    tw_handle inner = tw__runner_inner(timer);
    if (tw_wheel_close(lane->wheel, inner)) {
        answer = TW_RUNNER_OK;
        if (runner_is_running(lane, inner)) {
            answer = TW_RUNNER_RUNNING;
            /* A further close finds a stale handle. The place is free when the handler returns. */
            *tw__runner_running(lane, inner) = 0;
            lane->closed_running++;
        } else {
            tw__runner_lane_drop(wheel, lane);
        }
    }
    tw__runner_lane_unlock(lane);
    return answer;
}

enum tw_runner_answer tw_runner_reschedule(struct tw_runner_wheel *wheel, tw_handle timer,
                                           struct tw_instant deadline)
{
    struct runner_due due = runner_due_at(wheel, deadline.ns);
    struct runner_lane *lane = runner_find(wheel, timer);
    enum tw_runner_answer answer = TW_RUNNER_OK;
    if (!lane)
        return TW_RUNNER_DONE;
    tw_handle inner = tw__runner_inner(timer);
    if (tw_wheel_reschedule(lane->wheel, inner, due.tick)) {
        *tw__runner_deadline(lane, inner) = deadline.ns;
        runner_note_due(lane, due.wake_ns);
    } else {
        answer = runner_is_running(lane, inner) ? TW_RUNNER_RUNNING : TW_RUNNER_DONE;
    }
    tw__runner_lane_unlock(lane);
    if (answer == TW_RUNNER_OK)
        runner_wake_for(wheel, due.wake_ns);
    return answer;
}

enum runner_set_how { SET_TO, SET_SOONER };

static enum tw_runner_answer runner_set_deadline(struct tw_runner_wheel *wheel, tw_handle timer,
                                                 uint64_t deadline_ns, enum runner_set_how how)
{
    struct runner_lane *lane = runner_find(wheel, timer);
    bool is_set = false;
    if (!lane)
        return TW_RUNNER_DONE;
    tw_handle inner = tw__runner_inner(timer);
    uint64_t *set_ns = tw__runner_deadline(lane, inner);
    if (how == SET_SOONER && *set_ns < deadline_ns)
        deadline_ns = *set_ns; /* of another timer if the handle is stale, and then not used */
    struct runner_due due = runner_due_at(wheel, deadline_ns);
    if (!runner_is_stopped(wheel) &&
        tw_wheel_arm(lane->wheel, inner, deadline_ns == NEVER_NS ? TW_NEVER : due.tick)) {
        *set_ns = deadline_ns;
        runner_note_due(lane, due.wake_ns);
        is_set = true;
    }
    tw__runner_lane_unlock(lane);
    if (!is_set)
        return TW_RUNNER_DONE;
    runner_wake_for(wheel, due.wake_ns);
    return TW_RUNNER_OK;
}

enum tw_runner_answer tw_runner_arm(struct tw_runner_wheel *wheel, tw_handle timer,
                                    struct tw_instant deadline)
{
    return runner_set_deadline(wheel, timer, deadline.ns, SET_TO);
}

enum tw_runner_answer tw_runner_arm_sooner(struct tw_runner_wheel *wheel, tw_handle timer,
                                           struct tw_instant deadline)
{
    return runner_set_deadline(wheel, timer, deadline.ns, SET_SOONER);
}

enum tw_runner_answer tw_runner_disarm(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_lane *lane = runner_find(wheel, timer);
    if (!lane)
        return TW_RUNNER_DONE;
    tw_handle inner = tw__runner_inner(timer);
    bool had_deadline = tw_wheel_disarm(lane->wheel, inner);
    if (had_deadline)
        *tw__runner_deadline(lane, inner) = NEVER_NS;
    bool is_running = runner_is_running(lane, inner);
    tw__runner_lane_unlock(lane);
    return is_running ? TW_RUNNER_RUNNING : had_deadline ? TW_RUNNER_OK : TW_RUNNER_DONE;
}
