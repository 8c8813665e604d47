/*
 * disk.h - the simulated storage threads: commits in groups, reads, both late, failing, or cut off.
 *
 * A group of batches is taken up, and some time later it is durable as a whole or has failed as a
 * whole; later still the engines get the result. At a crash a prefix of the accepted group
 * survives. Reads see the durable rows of their moment and return later, in order.
 */
#ifndef TICKWHEEL_SIM_DISK_H
#define TICKWHEEL_SIM_DISK_H

#include "engine/engine.h"
#include "events.h"
#include "store/memory.h"

struct world;

/* Batches that are committed together. */
struct disk_group {
    struct list link;
    struct storage_batch **batches;
    size_t count;
};

/* A read on its way. */
struct ticket {
    struct list link;
    struct engine_read *read;
    uint16_t partition;
    bool is_done;              /* it has its answer */
    struct engine_read answer; /* a copy of the read, so that a crash can forget either */
};

struct disk {
    struct storage *storage;
    struct list waiting;      /* batches */
    bool is_busy;             /* taking the waiting batches, or committing `group` */
    struct disk_group *group; /* taken up, not yet durable */
    struct list answers;      /* groups whose engines have not heard of them, oldest first */
    struct list tickets;      /* oldest first */
    uint64_t answer_ms;       /* when the last answer to a commit, */
    uint64_t read_ms;         /* the last read, */
    uint64_t read_end_ms; /* and the last answer to a read come: the next may not overtake them */
    uint64_t outage_end_ms;
    bool is_full; /* in an outage: it can be read, but not written */
};

void disk_init(struct world *world);
void disk_deinit(struct world *world);

/* Take a batch, or a read, of the engine, which still owns it. */
void disk_take_batch(struct world *world, struct storage_batch *batch);
void disk_take_read(struct world *world, uint16_t partition, struct engine_read *read);

/* EVENT_COMMIT_BEGIN to EVENT_READ_DONE. */
void disk_serve(struct world *world, const struct event *event);

/* From now on, and for a while, nothing can be written; and nothing read, unless it is full. */
void disk_outage(struct world *world);

/* The process dies: decides which batches survive, then returns all batches and reads as failed. */
void disk_crash(struct world *world);

/* Commits `meta` alone, for recovery; it is durable on return. */
void disk_write_meta(struct world *world, uint16_t partition, const struct storage_meta *meta);

#endif
