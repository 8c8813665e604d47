/*
 * workloads.h - the workloads, written once and compiled into each subject, so that no call is
 * indirect.
 *
 * Not a header in the usual sense: a subject defines `struct self` and the functions below as
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
 */
#ifndef BENCH_WHEEL_WORKLOADS_H
#define BENCH_WHEEL_WORKLOADS_H

#include <stdio.h>
#include <stdlib.h>

/* What came out, so that no work can be left out and a wrong subject is found out. */
struct sum {
    uint64_t count;
    uint64_t mix;
};

/* One tick. What comes out is added up one by one: most ticks have but a few. */
static inline __attribute__((always_inline)) void step(struct self *self, uint64_t now,
                                                       uint32_t *ids, struct sum *sum)
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

static __attribute__((noinline)) double fill(struct self *self, const struct input *input)
{
    uint64_t began = bench_now();
    for (uint32_t i = 0; i < input->count; i++)
        place(self, i, input->start + input->delays[i]);
    return (double)(bench_now() - began) / input->count;
}

static void cancel_asking_ahead(struct self *self, const what_t *whats, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ask(self, whats[i + AHEAD < count ? i + AHEAD : i]);
        cancel(self, whats[i]);
    }
}

/* The caller's own search for the handle is not the subject's, so it is done before. */
static __attribute__((noinline)) double cancel_all(struct self *self, const struct input *input)
{
    what_t *whats = bench_allocate(input->count * sizeof(*whats));
    for (uint32_t i = 0; i < input->count; i++)
        whats[i] = lookup(self, input->order[i]);
    uint64_t began = bench_now();
    if (input->asks_ahead)
        cancel_asking_ahead(self, whats, input->count);
    else
        for (uint32_t i = 0; i < input->count; i++)
            cancel(self, whats[i]);
    return (double)(bench_now() - began) / input->count;
}

static __attribute__((noinline)) double expire_all(struct self *self, const struct input *input)
{
    struct sum sum = {0, 0};
    uint32_t ids[BATCH];
    uint64_t end = input->start + HOUR;
    uint64_t began = bench_now();
    for (uint64_t now = input->start; now <= end; now++)
        step(self, now, ids, &sum);
    uint64_t took = bench_now() - began;
    must(sum.count == input->count, "expire: not all fired");
    return (double)took / input->count;
}

/* The longest step of the same, in microseconds. The clock is read at each step, hence apart. */
static __attribute__((noinline)) double longest_step(struct self *self, const struct input *input)
{
    struct sum sum = {0, 0};
    uint64_t longest = 0, last = bench_now();
    for (uint64_t now = input->start; now <= input->start + HOUR; now++) {
        uint32_t ids[BATCH];
        size_t n;
        do {
            n = expire(self, now, ids);
            sum.count += n;
            uint64_t time = bench_now();
            longest = time - last > longest ? time - last : longest;
            last = time;
        } while (n == BATCH || is_behind(self));
    }
    must(sum.count == input->count, "longest step: not all fired");
    return (double)longest / 1e3;
}

static __attribute__((noinline)) void churn_some(struct self *self, const struct input *input,
                                                 const what_t *whats, uint64_t *now,
                                                 struct sum *sum)
{
    uint32_t ids[BATCH];
    size_t n;
    for (uint32_t op = 0; op < CHURN_OPS; op += OPS_PER_TICK) {
        for (uint32_t k = 0; k < OPS_PER_TICK; k++) {
            if (input->asks_ahead)
                ask_to_move(self, whats[(op + k + AHEAD) & (PICKS - 1)]);
            look_ahead(self, input->picks[(op + k + 2 * AHEAD) & (PICKS - 1)]);
            move(self, whats[(op + k) & (PICKS - 1)], *now + TIMEOUT);
        }
        ++*now;
        do {
            n = expire(self, *now, ids);
            sum->count += n;
            for (size_t i = 0; i < n; i++)
                place(self, ids[i], *now + TIMEOUT);
        } while (n == BATCH || is_behind(self));
    }
}

static __attribute__((noinline)) double churn(struct self *self, const struct input *input)
{
    struct sum sum = {0, 0};
    uint64_t now = input->start;
    what_t *whats = bench_allocate(PICKS * sizeof(*whats));
    for (uint32_t i = 0; i < input->count; i++)
        place(self, i, now + 1 + input->delays[i] % TIMEOUT);
    for (uint32_t i = 0; i < PICKS; i++)
        whats[i] = pick(self, input->picks[i]);
    churn_some(self, input, whats, &now, &sum);
    uint64_t began = bench_now();
    churn_some(self, input, whats, &now, &sum);
    return (double)(bench_now() - began) / CHURN_OPS;
}

static __attribute__((noinline)) double periodic(struct self *self, const struct input *input)
{
    uint32_t ids[BATCH];
    uint64_t deadlines[BATCH];
    uint64_t began = 0, fired = 0;
    for (uint32_t i = 0; i < input->count; i++)
        place(self, i, input->start + 1 + input->delays[i] % input->periods[i]);
    for (uint64_t tick = 1; tick <= PERIOD_MAX; tick++) {
        size_t n;
        if (tick == PERIOD_MAX / 5) { /* the rest of the first fifth was warm-up */
            began = bench_now();
            fired = 0;
        }
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
    return (double)(bench_now() - began) / (double)fired;
}

static __attribute__((noinline)) double burst(struct self *self, const struct input *input)
{
    struct sum sum = {0, 0};
    uint64_t due = input->start + 1000;
    uint32_t ids[BATCH];
    for (uint32_t i = 0; i < input->count; i++)
        place(self, input->order[i], due);
    step(self, due - 1, ids, &sum);
    must(sum.count == 0, "burst: early");
    uint64_t began = bench_now();
    step(self, due, ids, &sum);
    uint64_t took = bench_now() - began;
    must(sum.count == input->count, "burst: not all fired");
    return (double)took / input->count;
}

static void run(const struct input *input, double *ret_figures)
{
    uint64_t before = bench_resident();
    struct self *self = create(input->count, input->start);
    ret_figures[FIGURE_FILL] = fill(self, input);
    ret_figures[FIGURE_BYTES] = (double)(bench_resident() - before) / input->count;
    ret_figures[FIGURE_CANCEL] = cancel_all(self, input);
    destroy(self);

    self = create(input->count, input->start);
    fill(self, input);
    ret_figures[FIGURE_EXPIRE] = expire_all(self, input);
    destroy(self);

    self = create(input->count, input->start);
    fill(self, input);
    ret_figures[FIGURE_STEP_US] = longest_step(self, input);
    destroy(self);

    self = create(input->count, input->start);
    ret_figures[FIGURE_CHURN] = churn(self, input);
    destroy(self);

    self = create(input->count, input->start);
    ret_figures[FIGURE_PERIODIC] = periodic(self, input);
    destroy(self);

    self = create(input->count, input->start);
    ret_figures[FIGURE_BURST] = burst(self, input);
    destroy(self);
}

#endif
