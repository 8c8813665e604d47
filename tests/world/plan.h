/*
 * plan.h - the properties of a run, drawn from its seed: sizes, speeds, and the frequency of each
 * fault.
 *
 * Each run has few features strong rather than all of them weak, so that rare combinations come up
 * in some runs and undisturbed stretches in others.
 */
#ifndef TICKWHEEL_WORLD_PLAN_H
#define TICKWHEEL_WORLD_PLAN_H

#include "base/random.h"
#include "engine/engine.h"

enum {
    PARTITIONS_MAX = 3,
    ORIGINS_MAX = 7,
    QUEUE_ORIGIN = 6, /* the built-in queue, whose workers pull */
    MESSAGE_ORIGIN =
        7, /* in runs of several nodes: a topic whose messages are committed with their timers */
    QUEUE_PRIORITIES = 10,
    TENANTS_MAX = 3,
    FAN_MAX = 4, /* maximum of targets of a timer */
};

/* More bytes than all dead letters of a run take. */
#define DEAD_BYTES_ENOUGH (UINT64_C(1) << 40)

enum due_class {
    DUE_PAST,
    DUE_NOW,
    DUE_NEAR,     /* within the window */
    DUE_BEYOND,   /* a little after the window */
    DUE_FAR,      /* within a day */
    DUE_VERY_FAR, /* to the year 9999 */
    DUE_SAME,     /* at the due time of another timer */
    DUE_CLASSES,
};

enum action {
    ACTION_CREATE,
    ACTION_CREATE_MANY,
    ACTION_GET,
    ACTION_PATCH,
    ACTION_CANCEL,
    ACTION_LIST,
    ACTION_FIRE,
    ACTION_REDRIVE,
    ACTION_PUT, /* this and the next ones are in requests.c */
    ACTION_REPEAT,
    ACTION_BY_KEY,
    ACTION_COMPLETE,
    ACTION_TOUCH,   /* touches.c */
    ACTION_RELEASE, /* releases.c */
    ACTION_ANSWER,  /* answers.c */
    ACTION_BACKFILL,
    ACTIONS,
};

/* How many nodes runs have: as each seed says, always one, or always several. */
enum plan_nodes { PLAN_NODES_DRAWN, PLAN_NODES_ONE, PLAN_NODES_SEVERAL };

/* The log of several nodes: as each seed says, or always that one. */
enum plan_log { PLAN_LOG_DRAWN, PLAN_LOG_KAFKA, PLAN_LOG_POSTGRES };

/* The storage of one node. That of several is in memory. */
enum plan_store { PLAN_STORE_MEMORY, PLAN_STORE_WHEEL };

/* X(name): features that a run can do without, so that a failing run can be made smaller. */
#define FEATURE_LIST(X) \
    X(crashes)          \
    X(drains)           \
    X(outages)          \
    X(failures)         \
    X(doubts)           \
    X(damage)           \
    X(clock)            \
    X(delays)           \
    X(lateness)         \
    X(laziness)         \
    X(partitions)       \
    X(origins)          \
    X(queues)           \
    X(keys)             \
    X(requests)         \
    X(events)           \
    X(schedules)        \
    X(drops)            \
    X(patches)          \
    X(cancels)          \
    X(fires)            \
    X(redrives)         \
    X(touches)          \
    X(pauses)           \
    X(gets)             \
    X(listings)         \
    X(batches)          \
    X(tenants)          \
    X(limits)           \
    X(reports)          \
    X(flows)            \
    X(losses)           \
    X(repeats)          \
    X(stops)            \
    X(sweeps)           \
    X(copies)           \
    X(releases)         \
    X(overlaps)         \
    X(fanouts)          \
    X(debounces)        \
    X(answers)          \
    X(backfills)        \
    X(switches)         \
    X(absences)

enum feature {
#define X(name) FEATURE_##name,
    FEATURE_LIST(X)
#undef X
        FEATURES,
};

struct sim_plan {
    uint16_t partition_count;
    uint8_t origin_count;    /* number of targets, without the queue */
    uint32_t queue_permille; /* share of timers that go to the queue */
    uint32_t pulled_max; /* number of items that workers may have at a time, from each partition */
    uint32_t live_max;   /* maximum of timers that live at a time */
    uint32_t timers_max; /* maximum of timers created in the run */
    uint64_t clock_start_ms;
    bool is_wake_exact; /* whether engines are called exactly when they asked for it */
    uint64_t wake_jitter_ms;

    /* Longest duration of each; 0 for none. */
    uint64_t disk_delay_ms, read_delay_ms, message_delay_ms, answer_delay_ms;

    uint32_t commit_fail_permille, read_fail_permille, damage_permille;
    uint32_t doubt_permille; /* share of failed commits that are on disk, in full or in part */
    uint32_t lazy_permille;  /* chance that batches and reads stay with the engine for a while */

    /* Mean times between two events of a kind; 0 for none. */
    uint64_t outage_gap_ms, crash_gap_ms, drain_gap_ms, clock_gap_ms, origin_gap_ms, client_gap_ms;
    uint64_t clock_step_max_ms;
    uint32_t relapse_permille; /* share of steps back of the clock that are followed by a crash */
    /* chance of a crash while a batch is under way, or a delivery is out */
    uint32_t sharp_permille;

    /* Shares of timers that have a key, an Idempotency-Key, something to watch (and something
     * more), a label that others have, a schedule, and a time after which they are dropped. */
    uint32_t key_permille, request_permille, watch_permille, group_permille, rhythm_permille,
        drop_permille;
    uint32_t keys_max, requests_max, events_max; /* number of different ones of each */

    uint32_t due_weights[DUE_CLASSES];
    uint32_t action_weights[ACTIONS];
    uint32_t stale_permille;   /* changes with a wrong version, and calls on unknown ids */
    uint32_t forget_permille;  /* share of redrives that forget the dead letter instead */
    uint32_t pace_permille;    /* share of redrives in which each timer has a time of its own */
    uint32_t hasty_permille;   /* share of calls on a timer on which another call is in flight */
    uint64_t text_bytes_max;   /* maximum padding of payloads */
    uint32_t attempts_max_max; /* maximum of attempts_max of a retry policy */
    uint64_t base_ms_max, cap_ms_max, timeout_ms_max;

    uint32_t flow_permille;     /* share of timers with a flow */
    uint32_t later_permille;    /* share of accepted webhooks whose answer comes later */
    uint32_t debounce_permille; /* share of timers with a key that have a debounce for a time */
    uint32_t fan_permille;      /* share of timers with several targets */
    uint32_t apart_permille;    /* share of timers that repeat whose firings may overlap */
    uint32_t report_permille;   /* share of timers with on_dead, and of those with on_success */
    uint32_t pause_permille;    /* share of calls on a timer, or by a label, that pause or resume */
    uint32_t postpone_permille; /* share of webhooks that are postponed */
    uint32_t explain_permille;  /* share of gets that ask for an explanation */

    uint8_t tenant_count; /* number of tenants; 1 if only the unnamed one */
    /* share of calls by id that are made in the name of another tenant */
    uint32_t foreign_permille;
    uint64_t tenant_pending_max[TENANTS_MAX];

    struct engine_options engine;
};

/* True if the run has several nodes. */
bool plan_is_cluster(uint64_t seed, enum plan_nodes nodes);

void plan_draw(struct sim_plan *ret_plan, struct random *random);

/* Returns the longest time-out of an attempt. That of a report is the default. */
uint64_t plan_timeout_ms_max(const struct sim_plan *plan);

/* Removes features: a bit for each of enum feature. */
void plan_without(struct sim_plan *plan, uint64_t without);

/* Reads a list of features such as "crashes,keys". Returns false if it has an unknown word. */
bool plan_parse_features(const char *text, uint64_t *ret_features);

const char *plan_feature_name(enum feature feature);

/* Draws the index of one of `count` weights, in proportion to them. Returns the last one if all are
 * 0. */
uint32_t plan_pick(struct random *random, const uint32_t *weights, uint32_t count);

#endif
