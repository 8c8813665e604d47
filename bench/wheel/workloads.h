/*
 * workloads.h - the workloads, written once and compiled into each subject, so that no call is
 * indirect.
 *
 * Not a header in the usual sense: a subject defines the type `self_t` and the functions below as
 * static inline, then includes this file, which defines `run`. Timers are numbers 0..count-1 to the
 * workloads.
 *
 *     create(count, start)        memory for `count` timers at hand, none armed
 *     destroy(self)
 *     place(self, i, deadline)    arm timer i, which is not armed
 *     lookup(self, i)             what the caller keeps of timer i: handle, pointer or number
 *     cancel(self, what)          take it out
 *     move(self, what, deadline)  another deadline, armed or not
 *     pick(self, i)               what move is handed
 *     ask(self, what)             bring near what cancel will need
 *     ask_to_move(self, what)     bring near what move will need
 *     look_ahead(self, i)         ask for what the caller itself keeps of timer i
 *     again(self, k, i, deadline) arm timer i, the k-th that came out of the last expire
 *     expire(self, now, ids)      take out up to BATCH of those due, numbers into ids
 *     is_behind(self)             whether fewer than BATCH came out though more may be due
 *
 * A subject that cannot do a workload defines LACKS beforehand, a bit for each figure. One that has
 * verbs for many defines HAS_MANY and those of place, cancel and move:
 *
 *     place_many(self, first, deadlines, count)
 *     cancel_many(self, whats, count)
 *     move_many(self, whats, deadlines, count)
 */
#ifndef BENCH_WHEEL_WORKLOADS_H
#define BENCH_WHEEL_WORKLOADS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef LACKS
#define LACKS 0u
#endif

#ifndef HAS_MANY
static void place_many(self_t *self, uint32_t first, const uint64_t *deadlines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        place(self, first + (uint32_t)i, deadlines[i]);
}

static void cancel_many(self_t *self, const what_t *whats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cancel(self, whats[i]);
}

static void move_many(self_t *self, const what_t *whats, const uint64_t *deadlines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        move(self, whats[i], deadlines[i]);
}
#endif

/* A checksum of the fired timers, so that the compiler cannot remove work and a wrong subject is
 * detected. */
struct sum {
    uint64_t count;
    uint64_t mix;
};

/* One tick. Fired timers are added to the sum one by one: most ticks have only a few. */
static inline __attribute__((always_inline)) void step(self_t *self, uint64_t now, uint32_t *ids,
                                                       struct sum *sum)
{
    size_t n;
    do {
        n = expire(self, now, ids);
        for (size_t i = 0; i < n; i++) {
            sum->count++;
            sum->mix ^= ids[i];
        }
    } while (n == BATCH || is_behind(self));
}

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "bench: %s\n", what);
        exit(1);
    }
}

static void fill_by_many(self_t *self, const struct input *input)
{
    uint64_t deadlines[CROWD], start = input->start;
    for (uint32_t first = 0, count; first < input->count; first += count) {
        const uint32_t *delays = input->delays + first;
        count = input->count - first < CROWD ? input->count - first : CROWD;
        for (uint32_t i = 0; i < count; i++)
            deadlines[i] = start + delays[i];
        place_many(self, first, deadlines, count);
    }
}

static __attribute__((noinline)) double fill(self_t *self, const struct input *input)
{
    uint64_t began = bench_now();
    if (input->by_many)
        fill_by_many(self, input);
    else
        for (uint32_t i = 0; i < input->count; i++)
            place(self, i, input->start + input->delays[i]);
    return (double)(bench_now() - began) / input->count;
}

static void cancel_asking_ahead(self_t *self, const what_t *whats, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ask(self, whats[i + AHEAD < count ? i + AHEAD : i]);
        cancel(self, whats[i]);
    }
}

/* Finding the handle is the caller's work and not measured, so it is done before. */
static __attribute__((noinline)) double cancel_all(self_t *self, const struct input *input)
{
    what_t *whats = (what_t *)bench_allocate(input->count * sizeof(*whats));
    for (uint32_t i = 0; i < input->count; i++)
        whats[i] = lookup(self, input->order[i]);
    uint64_t began = bench_now();
    if (input->asks_ahead)
        cancel_asking_ahead(self, whats, input->count);
    else if (input->by_many)
        for (uint32_t i = 0; i < input->count; i += CROWD)
            cancel_many(self, whats + i, input->count - i < CROWD ? input->count - i : CROWD);
    else
        for (uint32_t i = 0; i < input->count; i++)
            cancel(self, whats[i]);
    return (double)(bench_now() - began) / input->count;
}

static __attribute__((noinline)) double expire_all(self_t *self, const struct input *input,
                                                   uint32_t ticks)
{
    struct sum sum = {0, 0};
    uint32_t ids[BATCH];
    uint64_t end = input->start + 2 * (uint64_t)HOUR; /* for timers that are late by design */
    uint64_t began = bench_now();
    for (uint64_t now = input->start; now <= end && sum.count < input->count; now += ticks)
        step(self, now, ids, &sum);
    uint64_t took = bench_now() - began;
    must(sum.count == input->count, "expire: not all fired");
    return (double)took / input->count;
}

/* The largest lateness of the fired timers; none may be early. */
static uint64_t latest(const struct input *input, uint64_t now, const uint32_t *ids, size_t n)
{
    uint64_t late = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t deadline = input->start + input->delays[ids[i]];
        must(deadline <= now, "expire: early");
        late = now - deadline > late ? now - deadline : late;
    }
    return late;
}

/* Counts the slow steps of expire, and measures the lateness, in a run of its own because the clock
 * is read at each step. A count, because a single interruption spoils the longest step. */
static __attribute__((noinline)) void slow_steps(self_t *self, const struct input *input,
                                                 struct found *ret_found)
{
    struct sum sum = {0, 0};
    uint64_t slow = 0, late = 0, last = bench_now();
    uint64_t end = input->start + 2 * (uint64_t)HOUR;
    for (uint64_t now = input->start; now <= end && sum.count < input->count; now++) {
        uint32_t ids[BATCH];
        size_t n;
        do {
            n = expire(self, now, ids);
            sum.count += n;
            uint64_t time = bench_now();
            slow += time - last > SLOW_STEP_US * UINT64_C(1000);
            last = time;
            if (n > 0) {
                uint64_t later = latest(input, now, ids, n);
                late = later > late ? later : late;
                last = bench_now();
            }
        } while (n == BATCH || is_behind(self));
    }
    must(sum.count == input->count, "slow steps: not all fired");
    ret_found->figures[FIGURE_SLOW_STEPS] = (double)slow;
    ret_found->late_ticks = (double)late;
}

/* Moves the timers of one tick. */
static inline void churn_tick(self_t *self, const struct input *input, const what_t *whats,
                              uint32_t op, uint64_t now)
{
    if (input->by_many) {
        uint64_t deadlines[OPS_PER_TICK];
        uint32_t first = op & (PICKS - 1), left = PICKS - first;
        uint32_t count = left < OPS_PER_TICK ? left : OPS_PER_TICK;
        for (uint32_t k = 0; k < OPS_PER_TICK; k++)
            deadlines[k] = now + TIMEOUT;
        move_many(self, whats + first, deadlines, count);
        move_many(self, whats, deadlines, OPS_PER_TICK - count);
        return;
    }
    for (uint32_t k = 0; k < OPS_PER_TICK; k++) {
        if (input->asks_ahead)
            ask_to_move(self, whats[(op + k + AHEAD) & (PICKS - 1)]);
        look_ahead(self, input->picks[(op + k + 2 * AHEAD) & (PICKS - 1)]);
        move(self, whats[(op + k) & (PICKS - 1)], now + TIMEOUT);
    }
}

/* Returns the number of moves: CHURN_OPS, or fewer if PATIENCE_NS ended. */
static __attribute__((noinline)) uint32_t churn_some(self_t *self, const struct input *input,
                                                     const what_t *whats, uint64_t *now,
                                                     struct sum *sum)
{
    uint32_t ids[BATCH];
    uint64_t end = bench_now() + PATIENCE_NS;
    size_t n;
    for (uint32_t op = 0; op < CHURN_OPS;) {
        churn_tick(self, input, whats, op, *now);
        ++*now;
        do {
            n = expire(self, *now, ids);
            sum->count += n;
            for (size_t i = 0; i < n; i++)
                again(self, i, ids[i], *now + TIMEOUT);
        } while (n == BATCH || is_behind(self));
        op += OPS_PER_TICK;
        if (*now % CHECKED == 0 && bench_now() > end)
            return op;
    }
    return CHURN_OPS;
}

static __attribute__((noinline)) void churn(self_t *self, const struct input *input,
                                            struct found *ret_found)
{
    struct sum sum = {0, 0};
    uint64_t now = input->start;
    what_t *whats = (what_t *)bench_allocate(PICKS * sizeof(*whats));
    for (uint32_t i = 0; i < input->count; i++)
        place(self, i, now + 1 + input->delays[i] % TIMEOUT);
    for (uint32_t i = 0; i < PICKS; i++)
        whats[i] = pick(self, input->picks[i]);
    ret_found->is_cut[FIGURE_CHURN] = churn_some(self, input, whats, &now, &sum) < CHURN_OPS;
    uint64_t began = bench_now();
    ret_found->churn_count = churn_some(self, input, whats, &now, &sum);
    ret_found->figures[FIGURE_CHURN] =
        (double)(bench_now() - began) / (double)ret_found->churn_count;
    ret_found->is_cut[FIGURE_CHURN] |= ret_found->churn_count < CHURN_OPS;
}

/* Runs the ticks from `first` until before `end`, or until PATIENCE_NS ends. Returns the tick
 * reached. */
static uint64_t periodic_some(self_t *self, const struct input *input, uint64_t first, uint64_t end,
                              uint64_t *ret_fired)
{
    uint32_t ids[BATCH];
    uint64_t deadlines[BATCH];
    uint64_t patience = bench_now() + PATIENCE_NS, fired = 0, tick = first;
    for (; tick < end && (tick % CHECKED || bench_now() < patience); tick++) {
        size_t n;
        do {
            n = expire(self, input->start + tick, ids);
            fired += n;
            for (size_t i = 0; i < n; i++) {
                look_ahead(self, ids[i]);
                deadlines[i] = input->start + tick + input->periods[ids[i]];
            }
            for (size_t i = 0; i < n; i++)
                again(self, i, ids[i], deadlines[i]);
        } while (n == BATCH || is_behind(self));
    }
    *ret_fired = fired;
    return tick;
}

static __attribute__((noinline)) void periodic(self_t *self, const struct input *input,
                                               struct found *ret_found)
{
    for (uint32_t i = 0; i < input->count; i++)
        place(self, i, input->start + 1 + input->delays[i] % input->periods[i]);
    uint64_t tick = periodic_some(self, input, 1, PERIOD_MAX / 5, &ret_found->fired_count);
    ret_found->is_cut[FIGURE_PERIODIC] = tick < PERIOD_MAX / 5;
    uint64_t began = bench_now();
    tick = periodic_some(self, input, tick, PERIOD_MAX + 1, &ret_found->fired_count);
    ret_found->figures[FIGURE_PERIODIC] =
        (double)(bench_now() - began) / (double)ret_found->fired_count;
    ret_found->is_cut[FIGURE_PERIODIC] |= tick <= PERIOD_MAX;
}

static __attribute__((noinline)) double burst(self_t *self, const struct input *input)
{
    struct sum sum = {0, 0};
    uint64_t due = input->start + 1000;
    uint32_t ids[BATCH];
    for (uint32_t i = 0; i < input->count; i++)
        place(self, input->order[i], due);
    step(self, due - 1, ids, &sum);
    must(sum.count == 0, "burst: early");
    uint64_t began = bench_now();
    for (uint64_t now = due; now < due + 1000 && sum.count < input->count; now++)
        step(self, now, ids, &sum);
    uint64_t took = bench_now() - began;
    must(sum.count == input->count, "burst: not all fired");
    return (double)took / input->count;
}

static inline int has(enum figure figure)
{
    return !(LACKS >> figure & 1);
}

static void run(const struct input *input, struct found *ret_found)
{
    double *figures = ret_found->figures;
    uint64_t before = bench_resident();
    self_t *self = create(input->count, input->start);
    double filled = fill(self, input);
    figures[FIGURE_FILL] = has(FIGURE_FILL) ? filled : NAN;
    if (input->only_fill)
        return;
    figures[FIGURE_BYTES] = (double)(bench_resident() - before) / input->count;
    if (input->only_expire) {
        figures[FIGURE_EXPIRE] = expire_all(self, input, 1);
        return;
    }
    figures[FIGURE_CANCEL] = has(FIGURE_CANCEL) ? cancel_all(self, input) : NAN;
    destroy(self);

    if (has(FIGURE_EXPIRE)) {
        self = create(input->count, input->start);
        fill(self, input);
        figures[FIGURE_EXPIRE] = expire_all(self, input, 1);
        destroy(self);
    }
    if (has(FIGURE_COARSE)) {
        self = create(input->count, input->start);
        fill(self, input);
        figures[FIGURE_COARSE] = expire_all(self, input, COARSE);
        destroy(self);
    }
    if (has(FIGURE_SLOW_STEPS)) {
        self = create(input->count, input->start);
        fill(self, input);
        slow_steps(self, input, ret_found);
        destroy(self);
    }
    if (has(FIGURE_CHURN)) {
        self = create(input->count, input->start);
        churn(self, input, ret_found);
        destroy(self);
    }
    if (has(FIGURE_PERIODIC)) {
        self = create(input->count, input->start);
        periodic(self, input, ret_found);
        destroy(self);
    }
    if (has(FIGURE_BURST)) {
        self = create(input->count, input->start);
        figures[FIGURE_BURST] = burst(self, input);
        destroy(self);
    }
}

#endif
