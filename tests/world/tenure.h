/*
 * tenure.h - the engine of the node that owns the partition: the calls of its clients, its reads of
 * the storage, and its deliveries. Its commits go to the replica.
 *
 * It begins deliveries, and gives answers that no commit proves, only while time.may_act.
 */
#ifndef TICKWHEEL_WORLD_TENURE_H
#define TICKWHEEL_WORLD_TENURE_H

#include "engine/engine.h"
#include "cluster/replica.h"
#include "truth.h"
#include "world.h"

/* The time at a node. */
struct tenure_time {
    uint64_t us; /* true time */
    struct wall wall;
    bool may_act; /* whether the lease holds */
};

struct tenure {
    struct world *world;
    struct storage *storage;
    struct replica *replica; /* replica that takes the commits */
    struct truth *truth;
    struct engine *engine; /* NULL while the node does not own the partition */
    uint64_t epoch;
    /* latest time that the engine was told, although its clock may be set back */
    struct wall latest;
    bool is_draining, is_leaving;
    bool has_deals;               /* messages are committed with their timers */
    bool is_misled;               /* it knows of records that the log has lost: nothing is judged */
    size_t batches_out;           /* batches that the replica has */
    struct list refused;          /* batches that came back as not durable */
    struct list reads, lent, ops; /* reads, deliveries and calls in flight */
};

void tenure_init(struct tenure *tenure, struct world *world, struct storage *storage,
                 struct truth *truth);

/* Makes the engine, after a valid claim. */
void tenure_begin(struct tenure *tenure, struct replica *replica, const struct storage_meta *meta,
                  uint64_t seed, struct tenure_time time);

/* Begins no more deliveries. */
void tenure_drain(struct tenure *tenure);

/* Stops the engine, because the node has lost the partition. The engine ends when its deliveries
 * are back. */
void tenure_leave(struct tenure *tenure);

/* Frees the engine and what it has in flight. Requires that no batch is out. */
void tenure_end(struct tenure *tenure, struct tenure_time time);

/* Gives back the reads and deliveries that have ended, and advances the engine. */
void tenure_turn(struct tenure *tenure, struct tenure_time time);

/* Returns the true time of the next tenure_turn, in microseconds; UINT64_MAX if only an event makes
 * one necessary. */
uint64_t tenure_wake_us(const struct tenure *tenure, struct tenure_time time);

/* Lets a client ask for something. */
void tenure_ask(struct tenure *tenure, struct tenure_time time);

/* Takes a batch back from the replica. */
void tenure_committed(struct tenure *tenure, struct storage_batch *batch, struct tenure_time time);

/* Gathers the deliveries whose messages can be staged now, and returns their count. tenure_staged
 * then gives them back: as staged in a transaction, or with the first one refused and the others
 * untouched. */
size_t tenure_gather(struct tenure *tenure, struct tenure_time time, uint64_t *serials, size_t max);
void tenure_staged(struct tenure *tenure, struct tenure_time time, enum delivery_result result);

/* True if the engine has read its first page of rows; true if nothing is in flight. */
bool tenure_is_ready(const struct tenure *tenure);
bool tenure_is_idle(const struct tenure *tenure);

#endif
