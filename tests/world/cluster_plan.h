/*
 * cluster_plan.h - the properties of a run of several nodes, drawn from its seed: the number of
 * nodes, the frequency of each fault, and the limits of sweeps and copies.
 */
#ifndef TICKWHEEL_WORLD_CLUSTER_PLAN_H
#define TICKWHEEL_WORLD_CLUSTER_PLAN_H

#include "cluster/sweep.h"
#include "plan.h"

enum { NODES_MAX = 5 };

struct cluster_plan {
    uint32_t node_count; /* 2 to NODES_MAX */

    /* Shares of appends that get lost, come late or land twice, or whose answers come late or
     * never. */
    uint32_t lost_permille, late_permille, doubled_permille, unanswered_permille;
    uint32_t lag_permille; /* share of reads of the log that are followed by a long pause */
    uint64_t poll_ms;      /* longest time between two reads otherwise */

    /* Mean times between two faults of a kind; 0 for none. */
    uint64_t stop_gap_ms, crash_gap_ms, pause_gap_ms, plan_gap_ms, client_gap_ms, step_gap_ms;
    uint64_t spoil_gap_ms;
    /* whether wall clocks differ, and whether the other clocks run at different speeds */
    bool is_skewed, is_drifting;

    size_t body_bytes_max; /* maximum size of the body of a frame; 0 for the default */
    struct sweep_limits sweep;
    uint64_t trim_delay_ms;
    bool is_fencing; /* nodes fence the producers of others before a claim */
    /* share of the starts of reading at which a node without rows asks for a copy */
    uint32_t copies_permille;
    uint64_t copy_rows_max, copy_records_min;

    /* The log is a table of PostgreSQL, whose server waits for a standby or not. */
    bool has_table, is_synchronous;
    /* mean times between restarts and fail-overs of the server, and absences of the standby */
    uint64_t switch_gap_ms, away_gap_ms;
    /* share of events of the log behind which the time of a node's turn is over */
    uint32_t cut_permille;
};

void cluster_plan_draw(struct cluster_plan *ret_plan, struct random *random);

/* Draws the kind of the log, beside the random draws of the run. */
void cluster_plan_draw_log(struct cluster_plan *plan, uint64_t seed, enum plan_log log);

/* Draws what the clients ask for: dues within seconds, and few timers that repeat. The limits of
 * engines can be low if clients ask seldom. */
void cluster_plan_draw_clients(struct sim_plan *ret_plan, uint64_t seed, uint64_t client_gap_ms);

/* Removes features: a bit for each of enum feature. */
void cluster_plan_without(struct cluster_plan *plan, uint64_t without);

#endif
