/*
 * replica.h - the state that follows the log in the simulated cluster: a few timers, each of which
 * is live, cancelled or fired. It stands for the engine and its storage.
 */
#ifndef TICKWHEEL_CLUSTER_SIM_REPLICA_H
#define TICKWHEEL_CLUSTER_SIM_REPLICA_H

#include "cluster/frame.h"

enum {
    REPLICA_TIMERS = 6,
    COMMIT_CHANGES_MAX = 8,
    COMMIT_FRAMES_MAX = 3,
};

enum change_kind {
    CHANGE_CREATE = 1, /* timer `id` takes the place `timer` */
    CHANGE_CANCEL,     /* that timer is cancelled, if it is live and still there */
    CHANGE_FIRE,       /* it was delivered */
};

struct replica_change {
    enum change_kind kind;
    uint32_t timer;
    uint32_t id;
};

struct cell {
    enum change_kind kind; /* the last change; 0: none yet */
    uint32_t id;
    uint64_t offset; /* of its record */
};

struct replica {
    struct cell cells[REPLICA_TIMERS];
    uint64_t next; /* records before this offset are applied */
    /* Of a commit whose last frame is not there yet. */
    struct replica_change pending[COMMIT_CHANGES_MAX * COMMIT_FRAMES_MAX];
    size_t pending_count;
};

/* Appends the changes as the body of a frame. */
void changes_encode(const struct replica_change *changes, size_t count, struct buffer *to);

/* Applies a valid record, unless it was applied already. */
void replica_apply(struct replica *replica, uint64_t offset, const struct frame *frame);

/* Of everything but `next`. */
uint64_t replica_hash(const struct replica *replica);

#endif
