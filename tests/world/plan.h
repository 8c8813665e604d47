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
    QUEUE_ORIGIN = 6, /* the built-in queue: its workers pull */
    MESSAGE_ORIGIN =
        7, /* of several nodes: a topic whose messages are committed with their timers */
    QUEUE_PRIORITIES = 10,
    TENANTS_MAX = 3,
};

/* More than all dead letters of a run take. */
#define DEAD_BYTES_ENOUGH (UINT64_C(1) << 40)

enum due_class {
    DUE_PAST,
    DUE_NOW,
    DUE_NEAR,     /* within the window */
    DUE_BEYOND,   /* a little beyond it */
    DUE_FAR,      /* within a day */
    DUE_VERY_FAR, /* to the year 9999 */
    DUE_SAME,     /* as some other timer */
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
    ACTION_PUT, /* from here on requests.c */
    ACTION_REPEAT,
    ACTION_BY_KEY,
    ACTION_COMPLETE,
    ACTION_TOUCH, /* touches.c */
    ACTIONS,
};

/* How many nodes a run has: as its seed says, or one, or several. */
enum plan_nodes { PLAN_NODES_DRAWN, PLAN_NODES_ONE, PLAN_NODES_SEVERAL };

/* X(name): features that a run can do without, so that a failing run can be made small. */
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
    X(losses)           \
    X(repeats)          \
    X(stops)            \
    X(sweeps)           \
    X(copies)

enum feature {
#define X(name) FEATURE_##name,
    FEATURE_LIST(X)
#undef X
        FEATURES,
};

struct sim_plan {
    uint16_t partition_count;
    uint8_t origin_count;    /* but the queue */
    uint32_t queue_permille; /* of timers that go to the queue */
    uint32_t pulled_max;     /* how many its workers take at a time, from each partition */
    uint32_t live_max;       /* timers that live at a time */
    uint32_t timers_max;     /* created in the whole run */
    uint64_t clock_start_ms;
    bool is_wake_exact; /* engines are called exactly when they asked for it */
    uint64_t wake_jitter_ms;

    /* The longest that each may take; 0: at once. */
    uint64_t disk_delay_ms, read_delay_ms, message_delay_ms, answer_delay_ms;

    uint32_t commit_fail_permille, read_fail_permille, damage_permille;
    uint32_t doubt_permille; /* of failed commits that are on disk, in full or in part */
    uint32_t lazy_permille;  /* batches and reads are left with the engine for a while */

    /* The mean time between two; 0: never. */
    uint64_t outage_gap_ms, crash_gap_ms, drain_gap_ms, clock_gap_ms, origin_gap_ms, client_gap_ms;
    uint64_t clock_step_max_ms;
    uint32_t relapse_permille; /* of steps back: a crash follows at once */
    uint32_t sharp_permille;   /* a crash while a batch is on its way, or a delivery is out */

    /* Of timers: those that have a key, an Idempotency-Key, something to watch (and once more), a
     * label that others have, a schedule, and a time after which they are dropped. */
    uint32_t key_permille, request_permille, watch_permille, group_permille, rhythm_permille,
        drop_permille;
    uint32_t keys_max, requests_max, events_max; /* how many different ones there are */

    uint32_t due_weights[DUE_CLASSES];
    uint32_t action_weights[ACTIONS];
    uint32_t
        stale_permille; /* changes that name a wrong version, and calls on ids that never were */
    uint32_t forget_permille;  /* of redrives: the dead letter is forgotten instead */
    uint32_t pace_permille;    /* of redrives: the timer waits for a time of its own */
    uint32_t hasty_permille;   /* calls on a timer on which another call is in flight */
    uint64_t text_bytes_max;   /* padding of payloads */
    uint32_t attempts_max_max; /* of a retry policy */
    uint64_t base_ms_max, cap_ms_max, timeout_ms_max;

    uint32_t report_permille;   /* of timers with on_dead, and with on_success */
    uint32_t pause_permille;    /* of calls on a timer, or on those with a label */
    uint32_t postpone_permille; /* of webhooks that come back as postponed */
    uint32_t explain_permille;  /* of gets that ask for an explanation */

    uint8_t tenant_count;      /* 1: only the unnamed one */
    uint32_t foreign_permille; /* of calls by id in the name of another tenant */
    uint64_t tenant_pending_max[TENANTS_MAX];

    struct engine_options engine;
};

/* Whether the run has several nodes. */
bool plan_is_cluster(uint64_t seed, enum plan_nodes nodes);

void plan_draw(struct sim_plan *ret_plan, struct random *random);

/* The longest time-out of an attempt; that of a report is the default. */
uint64_t plan_timeout_ms_max(const struct sim_plan *plan);

/* Takes features away: a bit for each of enum feature. */
void plan_without(struct sim_plan *plan, uint64_t without);

/* The features of a text such as "crashes,keys". False when there is another word in it. */
bool plan_parse_features(const char *text, uint64_t *ret_features);

const char *plan_feature_name(enum feature feature);

/* Index of one of `count` weights, by weight; the last when all are 0. */
uint32_t plan_pick(struct random *random, const uint32_t *weights, uint32_t count);

#endif
