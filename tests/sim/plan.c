#include "plan.h"

#include <string.h>

#define CHOOSE(random, ...)                           \
    choose((random), (const uint64_t[]){__VA_ARGS__}, \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t choose(struct random *random, const uint64_t *of, size_t count)
{
    return of[random_below(random, count)];
}

static bool one_in(struct random *random, uint64_t n)
{
    return random_below(random, n) == 0;
}

uint32_t plan_pick(struct random *random, const uint32_t *weights, uint32_t count)
{
    uint64_t sum = 0, at;

    for (uint32_t i = 0; i < count; i++)
        sum += weights[i];
    at = random_below(random, sum);
    for (uint32_t i = 0; i < count; i++) {
        if (at < weights[i])
            return i;
        at -= weights[i];
    }
    return count - 1;
}

static void draw_weights(struct random *random, uint32_t *ret_weights, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ret_weights[i] = (uint32_t)CHOOSE(random, 0, 1, 2, 4, 8);
}

/* Today, the age of a machine without a clock of its own, or just before a power of two, where the
 * wheel's levels turn over. */
static uint64_t draw_clock(struct random *random)
{
    const uint64_t today = UINT64_C(1760000000000);

    if (one_in(random, 20))
        return 1 + random_below(random, 1000);
    if (one_in(random, 3))
        return (UINT64_C(1) << (30 + random_below(random, 15))) - random_below(random, 3000);
    return today + random_below(random, UINT64_C(100000000000));
}

static void draw_engine(struct plan *plan, struct random *random)
{
    plan->engine = (struct engine_options){
        .window_ms = CHOOSE(random, 1, 10, 50, 100, 1000, 1000, 10000, 60000),
        .near_bytes_max =
            CHOOSE(random, 1 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 20, 256 << 20),
        .pending_max = CHOOSE(random, 0, 0, 0, 0, 5, 40),
        .inflight_max = (uint32_t)CHOOSE(random, 1, 2, 5, 20, 4096),
        .target_inflight_max = (uint32_t)CHOOSE(random, 1, 2, 3, 128),
        .scan_rows_max = (uint32_t)CHOOSE(random, 1, 2, 3, 7, 100, 4096),
        .retain_ms = CHOOSE(random, 0, 1, 50, 1000, 10000, 3600 * 1000),
        .watermark_interval_ms = CHOOSE(random, 1, 20, 100, 1000),
        .storage_retry_ms = CHOOSE(random, 1, 10, 100),
        .seed = random_next(random),
    };
    /* Else a run is nothing but watermarks: the window is waited for, many times. */
    if (plan->engine.watermark_interval_ms < plan->engine.window_ms / 50)
        plan->engine.watermark_interval_ms = plan->engine.window_ms / 50;
}

static void draw_faults(struct plan *plan, struct random *random)
{
    if (one_in(random, 3)) {
        plan->commit_fail_permille = (uint32_t)CHOOSE(random, 10, 100, 400);
        plan->read_fail_permille = (uint32_t)CHOOSE(random, 0, 10, 100, 400);
    }
    if (one_in(random, 4))
        plan->outage_gap_ms = CHOOSE(random, 500, 3000);
    if (!one_in(random, 3))
        plan->crash_gap_ms = CHOOSE(random, 50, 300, 1000, 5000);
    if (plan->crash_gap_ms && one_in(random, 3))
        plan->sharp_permille = (uint32_t)CHOOSE(random, 5, 30, 100);
    if (one_in(random, 4))
        plan->drain_gap_ms = CHOOSE(random, 300, 3000);
    if (one_in(random, 3)) {
        plan->clock_gap_ms = CHOOSE(random, 50, 500, 3000);
        plan->clock_step_max_ms =
            CHOOSE(random, 5, 1000, 60 * 1000, 3600 * 1000, UINT64_C(366) * 24 * 3600 * 1000);
    }
    if (one_in(random, 10))
        plan->damage_permille = 20;
    if (one_in(random, 4))
        plan->lazy_permille = (uint32_t)CHOOSE(random, 50, 500);
}

static void draw_clients(struct plan *plan, struct random *random)
{
    plan->client_gap_ms = CHOOSE(random, 1, 3, 10, 40);
    plan->live_max = (uint32_t)CHOOSE(random, 3, 15, 40, 100);
    plan->timers_max = 40 + 2 * plan->live_max;
    plan->stale_permille = (uint32_t)CHOOSE(random, 0, 50, 300);
    plan->hasty_permille = (uint32_t)CHOOSE(random, 0, 100, 900);
    plan->text_bytes_max = CHOOSE(random, 0, 20, 300, 1500);
    plan->attempts_max_max = (uint32_t)CHOOSE(random, 1, 3, 6, 100);
    plan->base_ms_max = CHOOSE(random, 0, 2, 20, 500, UINT64_MAX);
    plan->cap_ms_max = CHOOSE(random, 0, 5, 50, 1000, 3600 * 1000);
    plan->timeout_ms_max = CHOOSE(random, 5, 50, 500);
    draw_weights(random, plan->due_weights, DUE_CLASSES);
    draw_weights(random, plan->action_weights, ACTIONS);
    plan->due_weights[DUE_NEAR]++;
    plan->action_weights[ACTION_CREATE] += 4;
    plan->action_weights[ACTION_LIST] /= 4;
}

void plan_draw(struct plan *ret_plan, struct random *random)
{
    struct plan *plan = ret_plan;

    memset(plan, 0, sizeof(*plan));
    plan->partition_count = (uint16_t)CHOOSE(random, 1, 1, 2, 3);
    plan->origin_count = (uint8_t)CHOOSE(random, 1, 2, 3, ORIGINS_MAX);
    plan->clock_start_ms = draw_clock(random);
    plan->is_wake_exact = !one_in(random, 3);
    if (!plan->is_wake_exact)
        plan->wake_jitter_ms = CHOOSE(random, 2, 20, 200);
    plan->disk_delay_ms = CHOOSE(random, 0, 1, 5, 50);
    plan->read_delay_ms = CHOOSE(random, 0, 1, 5, 50);
    plan->message_delay_ms = CHOOSE(random, 0, 0, 2, 20);
    plan->answer_delay_ms = CHOOSE(random, 0, 2, 20, 100);
    plan->origin_gap_ms = CHOOSE(random, 0, 30, 300);
    draw_engine(plan, random);
    draw_faults(plan, random);
    draw_clients(plan, random);
}
