/*
 * cluster.h - a run of several nodes: one partition, one log, and on each node the real replica
 * (ownership, frames, commits), engine and a storage that follows the log.
 *
 *     cluster_plan.h    what the run is like
 *     cluster_copies.c  nodes that begin with a copy of another node
 *     cluster_deals.c   messages that are committed in transactions with the ends of their timers
 *     deals.h           the log, with transactions as brokers keep them
 *     tenure.h          the engine of the owner; tenure_ops.h: what clients ask of it
 *     truth.h           whether the log and all that leaves a node keep the promises
 *     mirror.h          the rows that the log stands for
 *     table.h           in half of the runs the log is a table of PostgreSQL
 *     cluster_losses.c  nodes that know of records which a fail-over has lost
 *
 * Appends come late, get lost, land twice, and land after they were given up or while their node
 * sleeps. Answers get lost, and the log pauses. Nodes stand still, read late, crash and return with
 * an older storage, whose calls fail. Wall clocks differ and step; monotonic clocks drift as far as
 * OWNERSHIP_DRIFT allows. Owners sweep the log, which then drops earlier records, so that a node
 * which reads late begins anew.
 */
#ifndef TICKWHEEL_WORLD_CLUSTER_H
#define TICKWHEEL_WORLD_CLUSTER_H

#include "cluster/replica_copy.h"
#include "cluster_plan.h"
#include "deals.h"
#include "table.h"
#include "tenure.h"
#include "world.h"

enum {
    APPENDS_MAX = 8000,
    FAULTS_MS_MAX = 60000, /* length of the part with faults */
    STEP_MS = 300,         /* length of that part for each step of the settings */
    CALM_MS = 30000,       /* length of the part after it, without new faults */
    LEASE_MS = 2000,
    EXPIRE_MS = 8000,       /* time after which the brokers abort an open deal */
    SKEW_MS_MAX = 500,      /* largest error of a wall clock */
    GRACE_MS = 10000,       /* time for a delivery without new faults */
    LAST_MS = 5000,         /* end of the run in which the log drops nothing, and nodes read on */
    COMMIT_FRAMES_MAX = 64, /* frames of one commit */
    SYNC_EVERY = 512,       /* commits after which a storage is synced */
    KEPT_MAX = 40,          /* unsynced commits that a crash keeps, at most */
};

#define CLUSTER  UINT64_C(77)
#define START_MS UINT64_C(1800000000000)

/* An append on its way. */
struct shipment {
    struct buffer bytes;
    uint64_t ticket;
    uint32_t deal; /* 1 + the index of the deal that it belongs to; 0 for none */
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
    enum ownership_state state; /* state of the ownership when it was last noted */
    uint32_t planned;

    /* As owner. */
    struct tenure tenure;
    struct frame frames[COMMIT_FRAMES_MAX]; /* heads of the frames of the last commit */
    size_t frame_count;
    bool is_committed; /* whether that commit is no longer in flight */
    uint64_t producer; /* its epoch as a producer of deals; 0 before the first */
    uint32_t deal;     /* 1 + the index of the deal that is staged; 0 for none */

    struct table_client client; /* if the log is a table */
    bool is_misled;             /* it knows of records that the log has lost */
    bool was_misled;            /* since it started */
    uint64_t misled_us;

    /* A copy of another node. */
    uint64_t copy_ask; /* number of the ask in flight; 0 for none */
    uint32_t copy_giver, copy_tries;
    struct storage_export copy_at; /* position after the pages that have come */
    struct copy_page copy_page;    /* page in flight */
    struct buffer page;            /* rows of that page */
};

struct sim_cluster {
    struct world *world;
    struct cluster_plan plan;
    uint64_t faults_ms; /* length of the part with faults */
    struct shipment shipments[APPENDS_MAX];
    uint32_t shipment_count;
    uint64_t begin; /* offset of the first record that the log still has */
    struct deals deals;
    uint64_t log_paused_us;
    bool is_last;       /* less than LAST_MS are left */
    uint64_t last_size; /* decided records of the log before that */
    struct table table;
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
void cluster_note_read(struct sim_cluster *cluster, struct peer *peer, uint64_t offset);

/* ---- cluster_copies.c ---- */

/* True if the node asks others for a copy in place of reading the log. */
bool cluster_copies_log(struct sim_cluster *cluster, struct peer *peer);
void cluster_give(struct sim_cluster *cluster, struct peer *giver, const struct event *event);
void cluster_take_page(struct sim_cluster *cluster, struct peer *peer, const struct event *event);
void cluster_miss_page(struct sim_cluster *cluster, struct peer *peer, const struct event *event);

/* ---- cluster_losses.c ---- */

/* Notes that the node knows of records that the log has lost; or whether it does. */
void cluster_mislead(struct sim_cluster *cluster, struct peer *peer);
void cluster_note_misled(struct sim_cluster *cluster, struct peer *peer);

/* True if it does for longer than a lease: it must have noticed. */
bool cluster_is_misled_long(const struct sim_cluster *cluster, const struct peer *peer);

/* Checks that readers of the log accept the claim of a node that owns the partition now. The claim
 * may be lost before its answer comes, or before the node continues after a stop. */
void cluster_check_claim(const struct sim_cluster *cluster, const struct peer *peer);

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
