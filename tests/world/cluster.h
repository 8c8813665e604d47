/*
 * cluster.h - a simulated cluster of one partition: nodes that run the real replica (ownership,
 * frames, commits) and engine on a storage that follows the log between them, clients, and faults.
 * A seed is a run.
 *
 * Some timers have messages, which are committed in transactions with the ends of their timers.
 *
 * Appends come late, get lost, land twice, and land after they were given up or while their node
 * sleeps; answers get lost; the log pauses; nodes are stopped, crash and go back to an older
 * storage, whose calls fail, read late, and have wall clocks that differ and step, and others that
 * drift as far as OWNERSHIP_DRIFT allows. Owners sweep the log, which drops the records in front of
 * a sweep, so nodes that read late are left behind. Nodes that have nothing begin with a copy of
 * another node, or with the log.
 */
#ifndef TICKWHEEL_WORLD_CLUSTER_H
#define TICKWHEEL_WORLD_CLUSTER_H

#include "cluster/replica_copy.h"
#include "cluster_plan.h"
#include "deals.h"
#include "tenure.h"
#include "world.h"

enum {
    APPENDS_MAX = 8000,
    FAULTS_MS_MAX = 60000,
    STEP_MS = 300,   /* of the part with faults for each step of the settings */
    CALM_MS = 30000, /* without new faults */
    LEASE_MS = 2000,
    EXPIRE_MS = 8000,  /* of a deal that is not decided */
    SKEW_MS_MAX = 500, /* of a wall clock */
    GRACE_MS = 10000,  /* for a timer to be delivered, without new faults */
    LAST_MS = 5000,    /* in which the log drops nothing, and leaves no node behind */
    COMMIT_FRAMES_MAX = 64,
    SYNC_EVERY = 512, /* commits that a crash can take from a storage, at most */
    KEPT_MAX = 40,    /* of them, when it does */
};

#define CLUSTER  UINT64_C(77)
#define START_MS UINT64_C(1800000000000)

/* An append on its way. */
struct shipment {
    struct buffer bytes;
    uint64_t ticket;
    uint32_t deal; /* of the frame; 0: it is of none */
    bool is_given_up;
};

struct peer {
    struct sim_cluster *cluster;
    struct storage *storage;
    struct replica *replica;
    uint32_t number, life;
    uint64_t clock_start_ns;
    int64_t drift_ppm, skew_ms;
    bool is_up;
    uint64_t stopped_until_us, wake_at_us, work_at_us;
    enum ownership_state state; /* when last looked at */
    uint32_t planned;

    /* As owner. */
    struct tenure tenure;
    struct frame frames[COMMIT_FRAMES_MAX]; /* heads of those of the commit in flight */
    size_t frame_count;
    bool is_committed; /* it is no more */
    uint64_t producer; /* of deals; 0: none */
    uint32_t deal;     /* that is staged, and not committed; 0: none */

    /* A copy of another node. */
    uint64_t copy_ask; /* the number of the last ask; 0: none is out */
    uint32_t copy_giver, copy_tries;
    struct storage_export copy_at; /* as far as pages have come */
    struct copy_page copy_page;    /* on its way */
    struct buffer page;            /* its rows */
};

struct sim_cluster {
    struct world *world;
    struct cluster_plan plan;
    uint64_t faults_ms; /* how long there are new ones */
    struct shipment shipments[APPENDS_MAX];
    uint32_t shipment_count;
    uint64_t begin; /* offset of the first record that is not dropped */
    struct deals deals;
    uint64_t log_paused_us;
    struct peer peers[NODES_MAX];
    uint32_t planned;
    struct truth truth;
};

/* Runs the world of several nodes; a broken promise ends the process. */
void cluster_run(struct world *world);

/* ---- cluster.c ---- */

bool cluster_fails(struct sim_cluster *cluster, uint32_t permille);
void cluster_post(struct sim_cluster *cluster, uint64_t delay_us, struct event event);
void cluster_post_to(struct sim_cluster *cluster, const struct peer *peer, uint64_t delay_us,
                     enum event_kind kind);
struct instant cluster_clock(const struct sim_cluster *cluster, const struct peer *peer);
struct tenure_time cluster_time(const struct sim_cluster *cluster, const struct peer *peer);
struct frame cluster_frame(const struct sim_cluster *cluster, uint32_t append);
void cluster_see(struct sim_cluster *cluster);
uint32_t cluster_load(struct sim_cluster *cluster, struct bytes bytes, uint64_t ticket,
                      uint32_t deal);
void cluster_note_frame(struct peer *peer, const struct frame *frame);

/* ---- cluster_copies.c ---- */

/* Whether the node asks others for a copy, and does not read the log. */
bool cluster_copies_log(struct sim_cluster *cluster, struct peer *peer);
void cluster_give(struct sim_cluster *cluster, struct peer *giver, const struct event *event);
void cluster_take_page(struct sim_cluster *cluster, struct peer *peer, const struct event *event);
void cluster_miss_page(struct sim_cluster *cluster, struct peer *peer, const struct event *event);

/* ---- cluster_deals.c ---- */

void cluster_fence(struct sim_cluster *cluster, struct peer *peer);
void peer_transact(void *context, const struct replica_transaction *transaction);
void cluster_stage(struct sim_cluster *cluster, struct peer *peer);
void cluster_land_frame(struct sim_cluster *cluster, const struct event *event);
void cluster_settle(struct sim_cluster *cluster, struct peer *peer, const struct event *event);
void cluster_end_deal(struct sim_cluster *cluster, const struct event *event);
void cluster_mark(struct sim_cluster *cluster, uint32_t deal);
void cluster_expire(struct sim_cluster *cluster, uint32_t deal);

#endif
