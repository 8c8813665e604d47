/*
 * logs.h - the commits of the simulated node: a replica for each partition, and the private log
 * that all of them append to.
 *
 * A group of appends is taken up. Some time later it is durable as a whole, or has failed. Later
 * still the engines get the results. A failed append may be in the log nevertheless: then it is in
 * doubt until the next write removes it, and only a start after a crash can read it. At a crash a
 * prefix of the group survives. The tables lose some of their last changes then, which the next
 * start reads from the log.
 *
 * Claims and releases are written at once, so that a partition begins and ends within one step.
 */
#ifndef TICKWHEEL_WORLD_LOGS_H
#define TICKWHEEL_WORLD_LOGS_H

#include "cluster/replica.h"
#include "events.h"
#include "plan.h"

struct world;

/* A record of the log, or an append on its way to it. */
struct logs_append {
    struct list link;
    uint16_t partition;
    uint64_t ticket;
    struct buffer bytes;
};

/* Appends that are written together. */
struct logs_group {
    struct logs_append *appends[PARTITIONS_MAX];
    size_t count;
};

/* Batches whose results are on their way to the engines. */
struct logs_answer {
    struct list link;
    struct list batches;
};

struct logs_replica {
    struct world *world;
    struct replica *replica;  /* NULL while the process is down */
    bool has_begun;           /* whether the partition is owned */
    struct storage_meta meta; /* of its engine, if has_begun */
};

struct sim_logs {
    struct logs_replica replicas[PARTITIONS_MAX];
    struct logs_append **records; /* the first has the offset 1 */
    size_t count, capacity;
    struct list waiting;      /* appends */
    bool is_busy;             /* taking up the waiting appends, or writing `group` */
    struct logs_group group;  /* taken up, not yet written; empty if there is none */
    struct logs_group doubts; /* failed appends, which the next write removes */
    struct list done;         /* batches that a replica gives back just now */
    struct list answers;      /* oldest first */
    uint64_t answer_ms;       /* time of the last answer: the next may not overtake it */
    struct instant clock; /* clock of the replicas, which need it only for pauses between claims */
};

void logs_init(struct world *world);
void logs_deinit(struct world *world);

/* Makes the partition's replica, which reads the log to its end. */
void logs_open(struct world *world, uint16_t partition);

/* Claims the partition. Returns the metadata for its engine. */
void logs_claim(struct world *world, uint16_t partition, struct storage_meta *ret_meta);

/* Takes a batch of the engine, which still owns it. */
void logs_take_batch(struct world *world, struct storage_batch *batch);

/* Begins to give up the partition, whose engine is drained next. */
void logs_drain(struct world *world, uint16_t partition);

/* Gives up the drained partition. The caller ends its engine, and calls logs_left. */
void logs_release(struct world *world, uint16_t partition);
void logs_left(struct world *world, uint16_t partition);

/* Ends the replica of a partition that is given up. */
void logs_close(struct world *world, uint16_t partition);

/* Serves EVENT_COMMIT_BEGIN to EVENT_COMMITTED. */
void logs_serve(struct world *world, const struct event *event);

/* The process dies: decides which appends survive, then returns all batches as failed. */
void logs_crash(struct world *world);

#endif
