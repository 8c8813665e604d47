/*
 * judge.h - the promises of a cluster, checked in a simulated one.
 *
 * The judge sees the log itself, and everything that leaves a node. It has rules of its own on
 * which records are valid. A broken promise is printed, and ends the program.
 */
#ifndef TICKWHEEL_CLUSTER_SIM_JUDGE_H
#define TICKWHEEL_CLUSTER_SIM_JUDGE_H

#include "replica.h"

enum {
    RECORDS_MAX = 6000, /* of the log of a run */
    TIMER_IDS_MAX = 6000,
    VERDICT_MAX = 6000, /* commits that were answered as failed */
};

struct truth {
    uint64_t size; /* of the log */
    uint64_t epoch, incarnation, seq;
    uint32_t node;
    bool is_released;
    struct replica replica;
    struct {
        uint64_t epoch, seq, hash;
        bool is_valid;
    } records[RECORDS_MAX];
    uint64_t acked[REPLICA_TIMERS];       /* 1 + the offset of the last acknowledged change */
    bool is_cancelled[TIMER_IDS_MAX];     /* answered with success */
    uint64_t delivered_in[TIMER_IDS_MAX]; /* the epoch of the last delivery */
    struct {
        uint64_t epoch, seq;
    } failed[VERDICT_MAX];
    size_t failed_count;
    uint64_t zombies, repeats, duplicates;
};

/* Prints what is broken, and exits. */
void judge_broken(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A record lands at the end of the log. */
void judge_land(struct truth *truth, const struct frame *frame);

/* A node has read and applied all records before its replica's `next`. */
void judge_replica(const struct truth *truth, const struct replica *replica);

/* A node answers a commit: as durable, to be found in its replica; or as failed. `frames` are the
 * heads of its frames. */
void judge_durable(struct truth *truth, const struct frame *frames, size_t count,
                   const struct replica_change *changes, size_t change_count,
                   const struct replica *replica);
void judge_failed(struct truth *truth, const struct frame *frame);

/* A node answers a read, or begins a delivery. */
void judge_read(const struct truth *truth, const struct replica *replica, uint32_t timer);
void judge_deliver(struct truth *truth, uint64_t epoch, uint32_t id);

#endif
