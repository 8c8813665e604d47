/* plan.c - draws the properties of a run from its seed. */
#include "plan.h"

#include "content.h"

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
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += weights[i];
    uint64_t at = random_below(random, sum);
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

/* Draws a start of the clock: today, the time of a machine without a clock of its own, or just
 * before a power of two, where the wheel's levels turn over. */
static uint64_t draw_clock(struct random *random)
{
    const uint64_t today = UINT64_C(1760000000000);

    if (one_in(random, 20))
        return 1 + random_below(random, 1000);
    if (one_in(random, 3))
        return (UINT64_C(1) << (30 + random_below(random, 15))) - random_below(random, 3000);
    return today + random_below(random, UINT64_C(100000000000));
}

static void draw_engine(struct sim_plan *plan, struct random *random)
{
    plan->engine = (struct engine_options){
        .window_ms = CHOOSE(random, 1, 10, 50, 100, 1000, 1000, 10000, 60000),
        .near_bytes_max =
            CHOOSE(random, 1 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 20, 256 << 20),
        .pending_max = CHOOSE(random, 0, 0, 0, 0, 5, 40),
        .inflight_max = (uint32_t)CHOOSE(random, 1, 2, 5, 20, 64, 4096),
        .target_inflight_max = (uint32_t)CHOOSE(random, 1, 2, 3, 128),
        .scan_rows_max = (uint32_t)CHOOSE(random, 1, 2, 3, 7, 100, 4096),
        .retain_ms = CHOOSE(random, 0, 1, 50, 1000, 10000, 3600 * 1000),
        .watermark_interval_ms = CHOOSE(random, 1, 20, 100, 1000),
        .storage_retry_ms = CHOOSE(random, 1, 10, 100),
        .second_scan_ms = CHOOSE(random, 0, 1000, 60000),
        .seed = random_next(random),
    };
    /* Otherwise the run writes mostly watermarks, because it waits for the window many times. */
    if (plan->engine.watermark_interval_ms < plan->engine.window_ms / 50)
        plan->engine.watermark_interval_ms = plan->engine.window_ms / 50;
}

static void draw_faults(struct sim_plan *plan, struct random *random)
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

static void draw_clients(struct sim_plan *plan, struct random *random)
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
    draw_weights(random, plan->action_weights, ACTION_TOUCH);
    plan->due_weights[DUE_NEAR]++;
    plan->action_weights[ACTION_CREATE] += 4;
    plan->action_weights[ACTION_LIST] /= 4;
}

/* Draws a run in which more timers are due than their targets take, and than fit into memory. In
 * half of these runs the clock steps, too. Defects that only show there are rarely found by other
 * random runs. */
static void draw_crowd(struct sim_plan *plan, struct random *random)
{
    uint32_t *due = plan->due_weights, *actions = plan->action_weights;

    plan->engine.near_bytes_max = CHOOSE(random, 8 << 10, 16 << 10, 32 << 10);
    plan->read_delay_ms = CHOOSE(random, 0, 50);
    plan->engine.window_ms = CHOOSE(random, 20, 100, 1000);
    plan->engine.watermark_interval_ms = 100;
    plan->engine.inflight_max = 4096;
    plan->engine.target_inflight_max = (uint32_t)CHOOSE(random, 1, 2);
    plan->engine.pending_max = 0;
    plan->engine.target_rate = plan->engine.catch_up_rate = 0;
    plan->engine.scan_rows_max = (uint32_t)CHOOSE(random, 1, 7, 100, 100);
    plan->partition_count = 1;
    plan->tenant_count = 1;
    plan->foreign_permille = 0;
    plan->origin_count = (uint8_t)CHOOSE(random, 3, 4, QUEUE_ORIGIN);
    plan->queue_permille = (uint32_t)CHOOSE(random, 0, 0, 300);
    plan->origin_gap_ms = CHOOSE(random, 30, 300);
    plan->answer_delay_ms = 100;
    plan->timeout_ms_max = 500;
    plan->postpone_permille = 0;
    plan->live_max = 100;
    plan->timers_max = 240;
    plan->client_gap_ms = CHOOSE(random, 1, 3);
    plan->text_bytes_max = CHOOSE(random, 20, 300);
    plan->commit_fail_permille = plan->read_fail_permille = 0;
    plan->clock_gap_ms = CHOOSE(random, 0, 50, 500);
    plan->clock_step_max_ms = CHOOSE(random, 1000, 60 * 1000, 3600 * 1000);
    due[DUE_NOW] = due[DUE_NEAR] = due[DUE_BEYOND] = 8;
    due[DUE_FAR] = due[DUE_VERY_FAR] = 1;
    actions[ACTION_CREATE] += 4;
    actions[ACTION_CREATE_MANY] = 12;
    actions[ACTION_CANCEL] = 0;
}

/* Later features have random draws of their own, so that old seeds keep their runs. */
static void draw_later(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0x7a7)));
    struct random *random = &own;

    plan->explain_permille = (uint32_t)CHOOSE(random, 0, 300, 1000);
    plan->engine.history_max = (size_t)CHOOSE(random, 0, 3, 1000);
    plan->tenant_count = one_in(random, 3) ? (uint8_t)CHOOSE(random, 2, TENANTS_MAX) : 1;
    if (plan->tenant_count > 1) {
        plan->foreign_permille = (uint32_t)CHOOSE(random, 30, 300);
        plan->queue_permille = 0; /* each tenant has queues of its own; the workers know one */
    }
    for (uint8_t i = 1; i < plan->tenant_count; i++)
        plan->tenant_pending_max[i] = CHOOSE(random, 0, 2, 7, 20);
    if (one_in(random, 3))
        plan->action_weights[ACTION_TOUCH] = (uint32_t)CHOOSE(random, 2, 8, 20);
    plan->doubt_permille = (uint32_t)CHOOSE(random, 0, 300, 1000);
    if (one_in(random, 10)) {
        draw_crowd(plan, random);
        return;
    }
    if (one_in(random, 2)) /* the other half checks lateness */
        return;
    plan->postpone_permille = (uint32_t)CHOOSE(random, 0, 0, 0, 100, 500);
    plan->engine.target_rate = CHOOSE(random, 0, 0, 0, 0, 1000, 20 * 1000, 500 * 1000);
    plan->engine.catch_up_rate = CHOOSE(random, 0, 0, 0, 0, 1000, 50 * 1000, 5000 * 1000);
}

static void draw_dead(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0xdead)));
    struct random *random = &own;

    plan->engine.dead_retain_ms =
        CHOOSE(random, 0, 1, 50, 1000, 10000, 3600 * 1000, UINT64_C(30) * 24 * 3600 * 1000);
    plan->engine.dead_bytes_max =
        CHOOSE(random, DEAD_BYTES_ENOUGH, DEAD_BYTES_ENOUGH, 0, 1000, 5000, 20000);
    plan->forget_permille = (uint32_t)CHOOSE(random, 0, 100, 500);
    plan->pace_permille = (uint32_t)CHOOSE(random, 0, 500, 1000);
}

static void draw_reports(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0x4e9047)));

    plan->report_permille = (uint32_t)CHOOSE(&own, 0, 0, 300, 1000);
}

static void draw_flows(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0xf107)));

    plan->flow_permille = (uint32_t)CHOOSE(&own, 0, 0, 300, 1000);
}

static void draw_overlaps(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0x0e4a9)));

    plan->apart_permille = (uint32_t)CHOOSE(&own, 0, 0, 300, 1000);
}

/* A damaged part would be unknown to its timer for ever. */
static void draw_fanouts(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0xfa27)));
    const uint32_t permille = (uint32_t)CHOOSE(&own, 0, 0, 200, 700);

    plan->fan_permille = plan->damage_permille ? 0 : permille;
}

static void draw_debounces(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0xdeb0)));
    const uint32_t permille = (uint32_t)CHOOSE(&own, 0, 0, 300, 1000);

    plan->debounce_permille = plan->key_permille ? permille : 0;
}

static void draw_answers(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0xac4)));

    plan->engine.ack_timeout_ms = CHOOSE(&own, 1000, 3000, 60 * 1000);
    plan->later_permille = (uint32_t)CHOOSE(&own, 0, 0, 200, 800);
    if (plan->later_permille)
        plan->action_weights[ACTION_ANSWER] = (uint32_t)CHOOSE(&own, 1, 8, 20);
}

/* Backfills are only in runs with schedules. */
static void draw_backfills(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0xbacf)));
    const uint32_t weight = (uint32_t)CHOOSE(&own, 0, 0, 4, 12);

    plan->action_weights[ACTION_BACKFILL] = plan->rhythm_permille ? weight : 0;
}

static void draw_pauses(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0x9a05e)));

    plan->pause_permille = (uint32_t)CHOOSE(&own, 0, 0, 200, 600);
}

/* Releases are only in runs with leases. */
static void draw_releases(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0x4e1ea5e)));
    const uint32_t weight = (uint32_t)CHOOSE(&own, 0, 8, 20, 40);

    plan->action_weights[ACTION_RELEASE] = plan->queue_permille ? weight : 0;
}

static void draw_relapses(struct sim_plan *plan)
{
    struct random own = random_seeded(random_mix(plan->engine.seed ^ UINT64_C(0xfa11)));

    if (plan->crash_gap_ms)
        plan->relapse_permille = (uint32_t)CHOOSE(&own, 0, 0, 300);
}

uint64_t plan_timeout_ms_max(const struct sim_plan *plan)
{
    const uint64_t of_reports = plan->report_permille ? RETRY_POLICY_DEFAULT.timeout_ms : 0;

    return plan->timeout_ms_max > of_reports ? plan->timeout_ms_max : of_reports;
}

/* Draws the use of names. Each feature is absent in half of the runs. */
static void draw_names(struct sim_plan *plan, struct random *random)
{
    uint32_t *weights = plan->action_weights;

    if (one_in(random, 2)) {
        plan->key_permille = (uint32_t)CHOOSE(random, 100, 500, 1000);
        plan->keys_max = (uint32_t)CHOOSE(random, 1, 3, 12);
    } else {
        weights[ACTION_PUT] = weights[ACTION_BY_KEY] = 0;
    }
    if (one_in(random, 2)) {
        plan->request_permille = (uint32_t)CHOOSE(random, 100, 500, 1000);
        plan->requests_max = (uint32_t)CHOOSE(random, 1, 4, 40);
    }
    if (!plan->key_permille && !plan->request_permille)
        weights[ACTION_REPEAT] = 0;
    if (one_in(random, 2)) {
        plan->watch_permille = (uint32_t)CHOOSE(random, 100, 400, 700);
        plan->group_permille = (uint32_t)CHOOSE(random, 0, 300);
        plan->events_max = (uint32_t)CHOOSE(random, 1, 2, EVENTS_MAX);
    } else {
        weights[ACTION_COMPLETE] = 0;
    }
    weights[ACTION_COMPLETE] /= 2;
    if (one_in(random, 2))
        plan->rhythm_permille = (uint32_t)CHOOSE(random, 100, 400, 900);
    if (one_in(random, 3))
        plan->drop_permille = (uint32_t)CHOOSE(random, 200, 800);
}

bool plan_is_cluster(uint64_t seed, enum plan_nodes nodes)
{
    return nodes == PLAN_NODES_DRAWN ? random_mix(seed) % 2 : nodes == PLAN_NODES_SEVERAL;
}

void plan_draw(struct sim_plan *ret_plan, struct random *random)
{
    struct sim_plan *plan = ret_plan;

    memset(plan, 0, sizeof(*plan));
    plan->partition_count = (uint16_t)CHOOSE(random, 1, 1, 2, 3);
    plan->origin_count = (uint8_t)CHOOSE(random, 1, 2, 3, QUEUE_ORIGIN);
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
    draw_names(plan, random);
    plan->queue_permille = (uint32_t)CHOOSE(random, 0, 0, 300, 1000);
    plan->pulled_max = (uint32_t)CHOOSE(random, 1, 2, 10, 1000);
    plan->engine.pulled_max = (uint32_t)CHOOSE(random, 1, 3, 1000);
    draw_later(plan);
    draw_dead(plan);
    draw_reports(plan);
    draw_flows(plan);
    draw_overlaps(plan);
    draw_fanouts(plan);
    draw_debounces(plan);
    draw_answers(plan);
    draw_backfills(plan);
    draw_pauses(plan);
    draw_relapses(plan);
    draw_releases(plan);
}

/* ---- less of it ---- */

static const char *const feature_names[] = {
#define X(name) #name,
    FEATURE_LIST(X)
#undef X
};

const char *plan_feature_name(enum feature feature)
{
    return feature_names[feature];
}

bool plan_parse_features(const char *text, uint64_t *ret_features)
{
    uint64_t features = 0;

    while (*text) {
        const size_t size = strcspn(text, ",");
        size_t i = 0;

        while (i < FEATURES &&
               (strlen(feature_names[i]) != size || memcmp(feature_names[i], text, size) != 0))
            i++;
        if (i == FEATURES)
            return false;
        features |= UINT64_C(1) << i;
        text += size + (text[size] == ',');
    }
    *ret_features = features;
    return true;
}

static void without_faults(struct sim_plan *plan, uint64_t without)
{
#define IS_OFF(name) (without & UINT64_C(1) << FEATURE_##name)
    if (IS_OFF(crashes))
        plan->crash_gap_ms = plan->sharp_permille = plan->relapse_permille = 0;
    if (IS_OFF(drains))
        plan->drain_gap_ms = 0;
    if (IS_OFF(outages))
        plan->outage_gap_ms = 0;
    if (IS_OFF(failures))
        plan->commit_fail_permille = plan->read_fail_permille = 0;
    if (IS_OFF(doubts))
        plan->doubt_permille = 0;
    if (IS_OFF(damage))
        plan->damage_permille = 0;
    if (IS_OFF(clock))
        plan->clock_gap_ms = 0;
    if (IS_OFF(delays))
        plan->disk_delay_ms = plan->read_delay_ms = plan->message_delay_ms = plan->answer_delay_ms =
            0;
    if (IS_OFF(lateness))
        plan->wake_jitter_ms = 0;
    if (IS_OFF(laziness))
        plan->lazy_permille = 0;
    if (IS_OFF(partitions))
        plan->partition_count = 1;
    if (IS_OFF(origins))
        plan->origin_gap_ms = 0;
    if (IS_OFF(limits)) {
        plan->engine.near_bytes_max = 256 << 20;
        plan->engine.pending_max = 0;
        plan->engine.inflight_max = plan->engine.target_inflight_max = 4096;
    }
}

static void without_clients(struct sim_plan *plan, uint64_t without)
{
    uint32_t *weights = plan->action_weights;

    if (IS_OFF(queues))
        plan->queue_permille = 0;
    if (IS_OFF(keys))
        plan->key_permille = weights[ACTION_PUT] = weights[ACTION_BY_KEY] = 0;
    if (IS_OFF(requests))
        plan->request_permille = 0;
    if (!plan->key_permille && !plan->request_permille)
        weights[ACTION_REPEAT] = 0;
    if (IS_OFF(events))
        plan->watch_permille = plan->group_permille = weights[ACTION_COMPLETE] = 0;
    if (IS_OFF(schedules))
        plan->rhythm_permille = 0;
    if (IS_OFF(backfills) || IS_OFF(schedules))
        weights[ACTION_BACKFILL] = 0;
    if (IS_OFF(answers))
        plan->later_permille = weights[ACTION_ANSWER] = 0;
    if (IS_OFF(debounces))
        plan->debounce_permille = 0;
    if (IS_OFF(fanouts))
        plan->fan_permille = 0;
    if (IS_OFF(overlaps))
        plan->apart_permille = 0;
    if (IS_OFF(drops))
        plan->drop_permille = 0;
    if (IS_OFF(patches))
        weights[ACTION_PATCH] = 0;
    if (IS_OFF(cancels))
        weights[ACTION_CANCEL] = 0;
    if (IS_OFF(fires))
        weights[ACTION_FIRE] = 0;
    if (IS_OFF(redrives))
        weights[ACTION_REDRIVE] = 0;
    if (IS_OFF(tenants)) {
        plan->tenant_count = 1;
        plan->foreign_permille = 0;
    }
    if (IS_OFF(releases))
        weights[ACTION_RELEASE] = 0;
    if (IS_OFF(touches))
        weights[ACTION_TOUCH] = 0;
    if (IS_OFF(pauses))
        plan->pause_permille = 0;
    if (IS_OFF(gets))
        weights[ACTION_GET] = 0;
    if (IS_OFF(listings))
        weights[ACTION_LIST] = 0;
    if (IS_OFF(reports))
        plan->report_permille = 0;
    if (IS_OFF(flows))
        plan->flow_permille = 0;
    if (IS_OFF(batches))
        weights[ACTION_CREATE_MANY] = 0;
#undef IS_OFF
}

void plan_without(struct sim_plan *plan, uint64_t without)
{
    without_faults(plan, without);
    without_clients(plan, without);
}
