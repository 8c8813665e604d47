/* cluster_plan.c - draws the properties of a run of several nodes from its seed. */
#include "cluster_plan.h"

static bool is_one_of(struct random *random, uint32_t permille)
{
    return random_below(random, 1000) < permille;
}

/* Draws a number below `bound` in `permille` of the runs; 0 in the others. */
static uint32_t draw_permille(struct random *random, uint32_t permille, uint32_t bound)
{
    return is_one_of(random, permille) ? (uint32_t)random_below(random, bound) : 0;
}

static uint64_t draw_gap(struct random *random, uint32_t permille, uint64_t least, uint64_t spread)
{
    return is_one_of(random, permille) ? least + random_below(random, spread) : 0;
}

static void draw_records(struct cluster_plan *plan, struct random *random)
{
    plan->body_bytes_max = is_one_of(random, 500) ? 1000 + random_below(random, 3000) : 0;
    if (is_one_of(random, 700))
        plan->sweep =
            (struct sweep_limits){3000 + random_below(random, 60000), 1 + random_below(random, 3),
                                  1 + random_below(random, is_one_of(random, 500) ? 20 : 200)};
    plan->trim_delay_ms = is_one_of(random, 500) ? random_below(random, 5000) : 0;
    plan->is_fencing = is_one_of(random, 700);
    plan->copies_permille = is_one_of(random, 700) ? 1000 - (uint32_t)random_below(random, 300) : 0;
    plan->copy_rows_max = is_one_of(random, 500) ? 4 : 60;
    plan->copy_records_min = 1 + random_below(random, 100);
}

void cluster_plan_draw(struct cluster_plan *ret_plan, struct random *random)
{
    struct cluster_plan *plan = ret_plan;

    plan->node_count = 2 + (uint32_t)random_below(random, NODES_MAX - 1);
    plan->lost_permille = draw_permille(random, 500, 60);
    plan->late_permille = draw_permille(random, 500, 150);
    plan->unanswered_permille = draw_permille(random, 500, 100);
    plan->doubled_permille = draw_permille(random, 300, 300);
    plan->lag_permille = draw_permille(random, 400, 30);
    plan->poll_ms = is_one_of(random, 300) ? 10 : 150;
    plan->stop_gap_ms = draw_gap(random, 600, 1000, 10000);
    plan->crash_gap_ms = draw_gap(random, 500, 2000, 10000);
    plan->pause_gap_ms = draw_gap(random, 300, 5000, 20000);
    plan->plan_gap_ms = 2000 + random_below(random, 10000);
    plan->client_gap_ms = 20 + random_below(random, 300);
    plan->step_gap_ms = draw_gap(random, 300, 2000, 20000);
    plan->spoil_gap_ms = draw_gap(random, 400, 1000, 20000);
    draw_records(plan, random);
    plan->is_skewed = is_one_of(random, 600);
    plan->is_drifting = is_one_of(random, 600);
}

void cluster_plan_draw_log(struct cluster_plan *plan, uint64_t seed, enum plan_log log)
{
    struct random own = random_seeded(random_mix(seed ^ UINT64_C(0x7ab1e)));
    const bool is_drawn = is_one_of(&own, 500);

    plan->has_table = log == PLAN_LOG_DRAWN ? is_drawn : log == PLAN_LOG_POSTGRES;
    if (!plan->has_table)
        return;
    plan->is_synchronous = is_one_of(&own, 500);
    plan->switch_gap_ms = draw_gap(&own, 700, 3000, 20000);
    plan->away_gap_ms = draw_gap(&own, 500, 3000, 20000);
    plan->cut_permille = draw_permille(&own, 300, 500);
}

/* Draws limits so low that timers are put back, and so high that none waits for GRACE_MS. */
static void draw_limits(struct engine_options *options, struct random *random,
                        uint64_t client_gap_ms)
{
    const struct engine_options usual = ENGINE_OPTIONS_DEFAULT;
    const bool is_short = client_gap_ms >= 150 && is_one_of(random, 500);

    options->near_bytes_max =
        is_short ? UINT64_C(4096) << random_below(random, 3) : usual.near_bytes_max;
    options->target_inflight_max =
        is_short ? 4 + (uint32_t)random_below(random, 4) : usual.target_inflight_max;
}

void cluster_plan_draw_clients(struct sim_plan *ret_plan, uint64_t seed, uint64_t client_gap_ms)
{
    struct random own = random_seeded(random_mix(seed ^ UINT64_C(0xc11e)));
    struct sim_plan *plan = ret_plan;

    plan_draw(plan, &own);
    plan->partition_count = 1;
    plan->queue_permille = plan->action_weights[ACTION_RELEASE] =
        plan->action_weights[ACTION_ANSWER] = plan->action_weights[ACTION_BACKFILL] = 0;
    plan->engine.window_ms = UINT64_C(500) << random_below(&own, 4);
    plan->due_weights[DUE_FAR] = plan->due_weights[DUE_VERY_FAR] = 0;
    plan->base_ms_max = 50;
    plan->cap_ms_max = 1000;
    plan->text_bytes_max = random_below(&own, 300);
    plan->rhythm_permille /= 10;
    plan->fan_permille /= 3; /* each makes several timers */
    if (plan->rhythm_permille)
        plan->report_permille = 0; /* each firing would be followed by a report */
    draw_limits(&plan->engine, &own, client_gap_ms);
    for (size_t i = 0; i < TENANTS_MAX; i++)
        plan->tenant_pending_max[i] = 0;
}

void cluster_plan_without(struct cluster_plan *plan, uint64_t without)
{
#define IS_OFF(name) (without & UINT64_C(1) << FEATURE_##name)
    if (IS_OFF(crashes))
        plan->crash_gap_ms = 0;
    if (IS_OFF(outages))
        plan->pause_gap_ms = 0;
    if (IS_OFF(failures))
        plan->spoil_gap_ms = 0;
    if (IS_OFF(doubts))
        plan->unanswered_permille = 0;
    if (IS_OFF(losses))
        plan->lost_permille = 0;
    if (IS_OFF(repeats))
        plan->doubled_permille = 0;
    if (IS_OFF(clock)) {
        plan->step_gap_ms = 0;
        plan->is_skewed = plan->is_drifting = false;
    }
    if (IS_OFF(lateness))
        plan->late_permille = plan->lag_permille = plan->cut_permille = 0;
    if (IS_OFF(stops))
        plan->stop_gap_ms = 0;
    if (IS_OFF(drains))
        plan->plan_gap_ms = UINT64_C(1) << 40;
    if (IS_OFF(sweeps))
        plan->sweep = (struct sweep_limits){0};
    if (IS_OFF(copies))
        plan->copies_permille = 0;
    if (IS_OFF(batches))
        plan->body_bytes_max = 0;
    if (IS_OFF(switches))
        plan->switch_gap_ms = 0;
    if (IS_OFF(absences))
        plan->away_gap_ms = 0;
#undef IS_OFF
}
