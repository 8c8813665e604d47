/*
 * runner_verbs.c - the functions on one timer, called from any thread.
 *
 * Each changes the timer in its lane's wheel with the lane locked, which decides every race, and
 * wakes the runner afterwards if that would sleep beyond the timer.
 */
#include "runner_private.h"
#include "wheel_runner.h"

/* Instants from here on, after 292 years, may overflow when they are rounded up. */
#define FAR_NS (UINT64_C(1) << 63)

/* When a timer is due: `tick` is for the wheel, and the runner must wake up at the instant. */
struct runner_due {
    uint64_t tick;
    uint64_t wake_ns;
};

static bool runner_is_reached(const struct tw_runner *runner, uint64_t deadline_ns)
{
    return deadline_ns <= atomic_load_explicit(&runner->latest_ns, memory_order_relaxed) ||
           deadline_ns <= tw__runner_now_ns(runner);
}

/* Returns when a timer is due whose deadline may be reached already, or may be never. The clock is
 * read only if the runner must be woken for the timer, or if it is awake and has read its clock
 * less than a tick before. */
static __attribute__((noinline)) struct runner_due
runner_due_slowly(const struct tw_runner_wheel *wheel, uint64_t deadline_ns)
{
    if (runner_is_reached(wheel->runner, deadline_ns))
        return (struct runner_due){0, 0};
    if (deadline_ns == NEVER_NS)
        return (struct runner_due){TICK_NEVER, NEVER_NS};
    uint64_t tick = tw__runner_tick(wheel, deadline_ns);
    tick += tick * wheel->tick_ns != deadline_ns;
    tick = tick < TICK_LAST ? tick : TICK_LAST;
    return (struct runner_due){tick, tw__runner_tick_ns(wheel, tick)};
}

/* A deadline within a tick is due when the next tick begins. If it is reached already, it is due at
 * once. */
static inline struct runner_due runner_due_at(const struct tw_runner_wheel *wheel,
                                              const struct tw_runner *runner, uint64_t deadline_ns)
{
    uint64_t near_ns =
        atomic_load_explicit(&runner->latest_ns, memory_order_relaxed) + wheel->tick_ns;
    uint64_t tick = tw__runner_tick(wheel, deadline_ns + wheel->tick_ns - 1);
    uint64_t wake_ns = tick * wheel->tick_ns;
    if (UNLIKELY(deadline_ns < near_ns || deadline_ns >= FAR_NS ||
                 wake_ns < atomic_load_explicit(&runner->sleep_until_ns, memory_order_relaxed)))
        return runner_due_slowly(wheel, deadline_ns);
    return (struct runner_due){tick, wake_ns};
}

/* Lowers the lane's `wake_ns` to the time of a new timer. The lane is locked. */
static inline void runner_note_due(struct runner_lane *lane, uint64_t wake_ns)
{
    if (wake_ns < atomic_load_explicit(&lane->wake_ns, memory_order_relaxed))
        atomic_store_explicit(&lane->wake_ns, wake_ns, memory_order_relaxed);
}

/* Called after the lane was unlocked: wakes the runner if it would sleep beyond `wake_ns`. */
static inline void runner_wake_for(struct tw_runner *runner, uint64_t wake_ns)
{
    for (uint64_t until = atomic_load(&runner->sleep_until_ns); UNLIKELY(wake_ns < until);)
        if (atomic_compare_exchange_weak(&runner->sleep_until_ns, &until, 0)) {
            tw__runner_wake(runner);
            return;
        }
}

/* Returns a lane with room for a new timer, locked. NULL if there is none, or if the runner is
 * stopped. That is checked with the lane locked, so that take_left finds the timer or the timer is
 * refused. */
static inline struct runner_lane *runner_lane_for_new(struct tw_runner_wheel *wheel,
                                                      struct tw_runner *runner)
{
    struct runner_lane *lane = tw__runner_lane_with_room(wheel);
    if (LIKELY(lane) && UNLIKELY(atomic_load(&runner->is_stopped))) {
        tw__runner_lane_unlock(lane);
        lane = NULL;
    }
    return lane;
}

/* True if the slot of a new timer has a cell, or gets one. */
static inline bool runner_is_covered(struct tw_runner_wheel *wheel, struct runner_lane *lane,
                                     tw_handle inner)
{
    uint32_t slot_count = atomic_load_explicit(&lane->slot_count, memory_order_relaxed);
    return LIKELY((uint32_t)inner < slot_count) ||
           tw__runner_lane_cover(wheel, lane, (uint32_t)inner);
}

static inline tw_handle runner_outer(const struct tw_runner_wheel *wheel,
                                     const struct runner_lane *lane, tw_handle inner)
{
    return inner | (uint64_t)(lane - wheel->lanes) << LANE_SHIFT;
}

tw_handle tw_runner_schedule(struct tw_runner_wheel *wheel, struct tw_instant deadline,
                             uint64_t data)
{
    struct tw_runner *runner = wheel->runner;
    struct runner_due due = runner_due_at(wheel, runner, deadline.ns);
    struct runner_lane *lane = runner_lane_for_new(wheel, runner);
    if (UNLIKELY(!lane))
        return TW_NONE;
    tw_handle inner = tw__wheel_schedule_bare(lane->wheel, due.tick);
    if (UNLIKELY(!inner || !runner_is_covered(wheel, lane, inner))) {
        (void)tw_wheel_cancel(lane->wheel, inner);
        tw__runner_lane_unlock(lane);
        return TW_NONE;
    }
    *tw__runner_cell(lane, inner) = (struct runner_cell){data, deadline.ns};
    lane->held++;
    lane->scheduled++;
    runner_note_due(lane, due.wake_ns);
    tw__runner_lane_unlock(lane);
    runner_wake_for(runner, due.wake_ns);
    return runner_outer(wheel, lane, inner);
}

tw_handle tw_runner_open(struct tw_runner_wheel *wheel, uint64_t data)
{
    struct runner_lane *lane = runner_lane_for_new(wheel, wheel->runner);
    if (!lane)
        return TW_NONE;
    tw_handle inner = tw__wheel_open_bare(lane->wheel);
    if (UNLIKELY(!inner || !runner_is_covered(wheel, lane, inner))) {
        (void)tw_wheel_close(lane->wheel, inner);
        tw__runner_lane_unlock(lane);
        return TW_NONE;
    }
    *tw__runner_cell(lane, inner) = (struct runner_cell){data, NEVER_NS};
    lane->held++;
    lane->opened++;
    tw__runner_lane_unlock(lane);
    return runner_outer(wheel, lane, inner);
}

/* Prefetches what a function on a timer reads and writes, and what the next timer of the slot
 * writes. Returns false for a handle that was never given out.
 *
 * This is done before locking: an atomic exchange waits until earlier stores are done, and later
 * reads wait for the exchange. Without the prefetch these waits would add up, the last one with the
 * lane locked. */
static inline bool runner_prefetch(const struct runner_lane *lane, tw_handle inner)
{
    uint32_t index = (uint32_t)inner, place = index & (PIECE_SLOTS - 1);
    if (UNLIKELY(index >= atomic_load_explicit(&lane->slot_count, memory_order_acquire)))
        return false;
    const struct runner_place *at = tw__runner_place(lane, index);
    __builtin_prefetch(at->records + (size_t)place * WHEEL_RECORD_SIZE, 1);
    __builtin_prefetch(at->extras + (size_t)place * WHEEL_EXTRA_SIZE, 1);
    __builtin_prefetch(&at->cells[place], 1);
    return true;
}

/* Returns the lane of a handle, locked. NULL for a handle that was never given out. */
static inline struct runner_lane *runner_find(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_lane *lane = tw__runner_lane_of(wheel, timer);
    if (UNLIKELY(!runner_prefetch(lane, tw__runner_inner(timer))))
        return NULL;
    tw__runner_lane_lock(lane);
    return lane;
}

/* True if the handler has the timer at present. */
static inline bool runner_is_running(const struct runner_lane *lane, tw_handle inner)
{
    const uint32_t *running = tw__wheel_mark(lane->wheel, inner);
    return running && *running != 0 && *running == inner >> 32;
}

/* Returns the answer for a scheduled timer that the wheel does not have. Unlocks the lane. */
static __attribute__((noinline)) enum tw_runner_answer runner_too_late(struct runner_lane *lane,
                                                                       tw_handle inner)
{
    bool is_running = runner_is_running(lane, inner);
    tw__runner_lane_unlock(lane);
    return is_running ? TW_RUNNER_RUNNING : TW_RUNNER_DONE;
}

/* Ends a cancel after which the lane has many places. Unlocks the lane. */
static __attribute__((noinline)) enum tw_runner_answer
runner_cancel_end(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    tw__runner_lane_return(wheel, lane);
    tw__runner_lane_unlock(lane);
    return TW_RUNNER_OK;
}

/* Cancels a timer of a lane, which is locked, and unlocks the lane. Rare cases are in functions
 * that are called last, so that the common case saves no registers. */
static inline enum tw_runner_answer runner_cancel_locked(struct tw_runner_wheel *wheel,
                                                         struct runner_lane *lane, tw_handle inner)
{
    if (UNLIKELY(!tw__wheel_end(lane->wheel, inner, 0)))
        return runner_too_late(lane, inner);
    lane->cancelled++;
    lane->held--;
    if (UNLIKELY(tw__runner_lane_has_many(lane)))
        return runner_cancel_end(wheel, lane);
    tw__runner_lane_unlock(lane);
    return TW_RUNNER_OK;
}

static __attribute__((noinline)) enum tw_runner_answer
runner_cancel_waiting(struct tw_runner_wheel *wheel, struct runner_lane *lane, tw_handle inner)
{
    tw__runner_lane_wait(lane);
    return runner_cancel_locked(wheel, lane, inner);
}

enum tw_runner_answer tw_runner_cancel(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_lane *lane = tw__runner_lane_of(wheel, timer);
    tw_handle inner = tw__runner_inner(timer);
    if (UNLIKELY(!runner_prefetch(lane, inner)))
        return TW_RUNNER_DONE;
    TW_RUNNER_HOOK("lock");
    if (UNLIKELY(!tw__runner_lane_try_lock(lane)))
        return runner_cancel_waiting(wheel, lane, inner);
    return runner_cancel_locked(wheel, lane, inner);
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
            /* A further close finds a stale handle. The place becomes free when the handler
             * returns. */
            *tw__wheel_mark(lane->wheel, inner) = 0;
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
    struct tw_runner *runner = wheel->runner;
    struct runner_due due = runner_due_at(wheel, runner, deadline.ns);
    struct runner_lane *lane = runner_find(wheel, timer);
    enum tw_runner_answer answer = TW_RUNNER_OK;
    if (!lane)
        return TW_RUNNER_DONE;
    tw_handle inner = tw__runner_inner(timer);
    if (tw_wheel_reschedule(lane->wheel, inner, due.tick)) {
        tw__runner_cell(lane, inner)->deadline_ns = deadline.ns;
        runner_note_due(lane, due.wake_ns);
    } else {
        answer = runner_is_running(lane, inner) ? TW_RUNNER_RUNNING : TW_RUNNER_DONE;
    }
    tw__runner_lane_unlock(lane);
    if (answer == TW_RUNNER_OK)
        runner_wake_for(runner, due.wake_ns);
    return answer;
}

enum runner_set_how { SET_TO, SET_SOONER };

static enum tw_runner_answer runner_set_deadline(struct tw_runner_wheel *wheel, tw_handle timer,
                                                 uint64_t deadline_ns, enum runner_set_how how)
{
    struct tw_runner *runner = wheel->runner;
    struct runner_lane *lane = runner_find(wheel, timer);
    bool is_set = false;
    if (!lane)
        return TW_RUNNER_DONE;
    tw_handle inner = tw__runner_inner(timer);
    uint64_t *set_ns = &tw__runner_cell(lane, inner)->deadline_ns;
    if (how == SET_SOONER && *set_ns < deadline_ns)
        /* if the handle is stale, this is the deadline of another timer, and is not used */
        deadline_ns = *set_ns;
    struct runner_due due = runner_due_at(wheel, runner, deadline_ns);
    if (!atomic_load(&runner->is_stopped) &&
        tw_wheel_arm(lane->wheel, inner, deadline_ns == NEVER_NS ? TW_NEVER : due.tick)) {
        *set_ns = deadline_ns;
        runner_note_due(lane, due.wake_ns);
        is_set = true;
    }
    tw__runner_lane_unlock(lane);
    if (!is_set)
        return TW_RUNNER_DONE;
    runner_wake_for(runner, due.wake_ns);
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
        tw__runner_cell(lane, inner)->deadline_ns = NEVER_NS;
    bool is_running = runner_is_running(lane, inner);
    tw__runner_lane_unlock(lane);
    return is_running ? TW_RUNNER_RUNNING : had_deadline ? TW_RUNNER_OK : TW_RUNNER_DONE;
}
