/*
 * subject_dpdk.c - DPDK's rte_timer, whose skip list reads the processor's clock inline, so that
 * its time cannot be virtual. So only workloads that do not depend on it are measured: fill,
 * cancel, churn as moves of which none fires, and firing all due timers in one call, with different
 * deadlines (expire) or nearly equal ones (burst).
 */
#include "bench.h"

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_timer.h>
#include <rte_version.h>

#include <stdio.h>
#include <stdlib.h>

struct dpdk_self {
    struct rte_timer *timers;
    uint64_t fired;
    uint64_t mix;
};

typedef struct dpdk_self self_t;

static self_t *create(uint32_t count)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->timers = bench_allocate(count * sizeof(struct rte_timer));
    for (uint32_t i = 0; i < count; i++)
        rte_timer_init(&self->timers[i]);
    return self;
}

static void on_timer(struct rte_timer *timer, void *context)
{
    self_t *self = context;
    self->fired++;
    self->mix ^= (uint64_t)(timer - self->timers);
}

static void place(self_t *self, uint32_t i, uint64_t cycles)
{
    rte_timer_reset(&self->timers[i], cycles, SINGLE, rte_lcore_id(), on_timer, self);
}

static void stop_all(self_t *self, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        rte_timer_stop(&self->timers[i]);
}

/* Cycles for a delay in ticks: as long as in the other subjects, so that no timer is due during the
 * measurement. */
static uint64_t cycles_of(uint64_t ticks)
{
    return ticks * (rte_get_timer_hz() / 1000) + 60 * rte_get_timer_hz();
}

/* Cycles until the processor's clock is `at`: the timers take delays only. */
static uint64_t cycles_until(uint64_t at)
{
    uint64_t now = rte_get_timer_cycles();
    return at > now ? at - now : 0;
}

static double cancel_all(self_t *self, const struct input *input)
{
    uint64_t began = bench_now();
    for (uint32_t i = 0; i < input->count; i++)
        rte_timer_stop(&self->timers[input->order[i]]);
    return (double)(bench_now() - began) / input->count;
}

static void churn(self_t *self, const struct input *input, struct found *ret_found)
{
    for (uint32_t i = 0; i < input->count; i++)
        place(self, i, cycles_of(input->delays[i] % TIMEOUT));
    uint64_t began = bench_now();
    uint32_t op = 0;
    for (; op < CHURN_OPS; op++) {
        place(self, input->picks[op & (PICKS - 1)], cycles_of(TIMEOUT));
        if (op % OPS_PER_TICK == 0 && bench_now() > began + PATIENCE_NS)
            break;
    }
    ret_found->churn_count = op;
    ret_found->is_cut[FIGURE_CHURN] = op < CHURN_OPS;
    ret_found->figures[FIGURE_CHURN] = (double)(bench_now() - began) / op;
    stop_all(self, input->count);
}

/* The time of firing once all timers are due: timers placed while another program ran are due
 * somewhat later than intended. */
static double manage(self_t *self, uint32_t count, uint64_t due)
{
    while (rte_get_timer_cycles() <= due + rte_get_timer_hz() / 2)
        ;
    uint64_t began = bench_now();
    rte_timer_manage();
    uint64_t took = bench_now() - began;
    if (self->fired != count) {
        fprintf(stderr, "bench: not all fired\n");
        exit(1);
    }
    self->fired = 0;
    return (double)took / count;
}

static void run(const struct input *input, struct found *ret_found)
{
    double *figures = ret_found->figures;
    const char *arguments[] = {"wheel_dpdk",     "--no-huge",     "--no-pci", "--no-shconf",
                               "--no-telemetry", "--log-level=1", NULL};
    int argument_count = sizeof(arguments) / sizeof(arguments[0]) - 1;
    if (rte_eal_init(argument_count, (char **)arguments) < 0 || rte_timer_subsystem_init() != 0) {
        fprintf(stderr, "bench: DPDK's environment does not start here\n");
        exit(1);
    }
    uint64_t before = bench_resident();
    self_t *self = create(input->count);
    uint64_t began = bench_now();
    for (uint32_t i = 0; i < input->count; i++)
        place(self, i, cycles_of(input->delays[i]));
    figures[FIGURE_FILL] = (double)(bench_now() - began) / input->count;
    figures[FIGURE_BYTES] = (double)(bench_resident() - before) / input->count;
    figures[FIGURE_CANCEL] = cancel_all(self, input);

    churn(self, input, ret_found);

    /* The order of an hour's delays within a fraction of a second, which begins when all timers are
     * placed; placing takes as long as it did before. */
    uint64_t lead = (uint64_t)(figures[FIGURE_FILL] * 2e-9 * input->count * rte_get_timer_hz());
    uint64_t base = rte_get_timer_cycles() + lead, each = rte_get_timer_hz() / 2 / HOUR;
    for (uint32_t i = 0; i < input->count; i++)
        place(self, i, cycles_until(base + input->delays[i] * each));
    figures[FIGURE_EXPIRE] = manage(self, input->count, base + HOUR * each);

    base = rte_get_timer_cycles() + lead;
    for (uint32_t i = 0; i < input->count; i++)
        place(self, input->order[i], cycles_until(base));
    figures[FIGURE_BURST] = manage(self, input->count, base);
}

const struct wheel_subject bench_subject = {
    .name = "DPDK rte_timer",
    .kind = "peer",
    .note = "real time: it reads the processor's clock. expire and burst are one call for all",
    .version = rte_version,
    .run = run,
};
