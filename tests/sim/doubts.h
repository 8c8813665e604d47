/*
 * doubts.h - batches that failed and are on disk nevertheless: reads see them, but a crash may lose
 * them until a later commit succeeds.
 *
 * The model takes their rows when they reach the disk, and its earlier state when a crash loses
 * them. Until that is decided, no answer may show them and no delivery may follow.
 */
#ifndef TICKWHEEL_SIM_DOUBTS_H
#define TICKWHEEL_SIM_DOUBTS_H

#include "model.h"

enum { DOUBTS_MAX = 8 };

/* What the model knew before one of them. */
struct doubt {
    struct model_copy {
        struct twin *twins; /* in the order of the model's */
        size_t count;
        struct storage_meta metas[PARTITIONS_MAX];
    } before;
};

struct doubts {
    struct doubt doubts[DOUBTS_MAX]; /* oldest first */
    size_t count;
};

/* The batch is on disk, and its engine will be told that it failed. */
void doubts_add(struct world *world, const struct storage_batch *batch);

/* A commit succeeded: all of them stay. */
void doubts_end(struct world *world);

/* The process died: all but the first `kept` are gone. */
void doubts_crash(struct world *world, size_t kept);

#endif
