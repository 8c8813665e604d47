/*
 * cluster.h - the inside of a simulated cluster, for cluster*.c alone.
 */
#ifndef TICKWHEEL_WORLD_CLUSTER_H
#define TICKWHEEL_WORLD_CLUSTER_H

#include "cluster/replica_copy.h"
#include "deals.h"
#include "tenure.h"
#include "cluster_totals.h"

enum {
    NODES_MAX = 5,
    APPENDS_MAX = 8000,
    INCIDENTS_MAX = 4096, /* at a time */
    FAULTS_MS = 60000,    /* and then */
    CALM_MS = 30000,      /* without new faults */
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

enum incident_kind {
    INCIDENT_LAND,   /* an append reaches the log */
    INCIDENT_SETTLE, /* a node is told where the frames of its deal are */
    INCIDENT_END,    /* the brokers decide a deal; `offset`: enum deal_state */
    INCIDENT_MARK,   /* and mark it */
    INCIDENT_EXPIRE, /* it takes too long */
    INCIDENT_GONE,   /* its node waits no more for its commit */
    INCIDENT_ANSWER, /* its node is told where */
    INCIDENT_FAIL,   /* its node is told that it is in doubt */
    INCIDENT_READ,   /* a node reads the log */
    INCIDENT_WAKE,   /* a node asked to be woken */
    INCIDENT_WORK,   /* an engine has something to do */
    INCIDENT_HEAR,   /* a node hears of the plan */
    INCIDENT_START,  /* a node starts again */
    INCIDENT_CLIENT,
    INCIDENT_PLAN,
    INCIDENT_STOP,
    INCIDENT_DUEL, /* the owner stops, as another node goes on */
    INCIDENT_CRASH,
    INCIDENT_PAUSE,
    INCIDENT_STEP,  /* a wall clock is set */
    INCIDENT_SPOIL, /* a storage fails in one of its next calls */
    INCIDENT_TRIM,  /* the log drops records */
    INCIDENT_GIVE,  /* a node is asked for a page of a copy, by node `append` */
    INCIDENT_PAGE,  /* it comes; `offset`: the number of the ask */
    INCIDENT_MISS,  /* it does not come in time */
};

struct incident {
    uint64_t at_us, order;
    enum incident_kind kind;
    uint32_t node, life;   /* of the node that it is for */
    uint32_t append, deal; /* 1 + the index of the deal; 0: none */
    uint64_t offset;       /* of INCIDENT_LAND: the delay of its answer; UINT64_MAX: none comes */
};

/* An append on its way. */
struct shipment {
    struct buffer bytes;
    uint64_t ticket;
    uint32_t deal; /* of the frame; 0: it is of none */
    bool is_given_up;
};

struct peer {
    struct cluster_world *world;
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

struct cluster_world {
    struct random random;
    uint64_t now_us, order, hash;
    bool is_verbose, is_calm;
    struct incident heap[INCIDENTS_MAX];
    size_t heap_count;
    struct shipment shipments[APPENDS_MAX];
    uint32_t shipment_count;
    uint64_t begin; /* offset of the first record that is not dropped */
    struct deals deals;
    bool is_fencing; /* nodes fence the producers of others before a claim */
    uint64_t log_paused_us;
    struct peer peers[NODES_MAX];
    uint32_t peer_count, planned;
    /* Permille, or the mean time between two; 0: never. */
    uint32_t lost_permille, late_permille, unanswered_permille, doubled_permille, lag_permille;
    uint64_t poll_ms; /* of readers, at most */
    uint64_t stop_gap_ms, crash_gap_ms, pause_gap_ms, plan_gap_ms, client_gap_ms, step_gap_ms;
    uint64_t spoil_gap_ms;
    size_t body_bytes_max;
    struct sweep_limits sweep;
    uint64_t trim_delay_ms;
    uint32_t copies_permille; /* of the times that a node which has nothing reads the log */
    uint64_t copy_rows_max, copy_records_min;
    struct truth truth;
    struct cluster_totals *totals;
};

/* ---- cluster.c ---- */

uint64_t below(struct cluster_world *world, uint64_t bound);
bool happens(struct cluster_world *world, uint32_t permille);
bool happens_now(struct cluster_world *world, uint32_t permille);
void post(struct cluster_world *world, uint64_t delay_us, struct incident incident);
void post_to(struct cluster_world *world, const struct peer *peer, uint64_t delay_us,
             enum incident_kind kind);
struct instant clock_of(const struct cluster_world *world, const struct peer *peer);
struct tenure_time time_of(const struct cluster_world *world, const struct peer *peer);
struct frame frame_of(const struct cluster_world *world, uint32_t append);
void see(struct cluster_world *world);
uint32_t load(struct cluster_world *world, struct bytes bytes, uint64_t ticket, uint32_t deal);
void note_frame(struct peer *peer, const struct frame *frame);

/* ---- cluster_copies.c ---- */

/* Whether the node asks others for a copy, and does not read the log. */
bool copies_log(struct cluster_world *world, struct peer *peer);
void give(struct cluster_world *world, struct peer *giver, const struct incident *incident);
void take_page(struct cluster_world *world, struct peer *peer, const struct incident *incident);
void miss_page(struct cluster_world *world, struct peer *peer, const struct incident *incident);

/* ---- cluster_deals.c ---- */

void fence(struct cluster_world *world, struct peer *peer);
void peer_transact(void *context, const struct replica_transaction *transaction);
void stage(struct cluster_world *world, struct peer *peer);
void land_frame(struct cluster_world *world, const struct incident *incident);
void settle(struct cluster_world *world, struct peer *peer, const struct incident *incident);
void end_deal(struct cluster_world *world, const struct incident *incident);
void mark(struct cluster_world *world, uint32_t deal);
void expire(struct cluster_world *world, uint32_t deal);

#endif
