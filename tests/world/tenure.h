/*
 * tenure.h - the real engine of a simulated node, for as long as the node owns the partition: what
 * clients ask of it, its reads of the storage, and its deliveries. Its commits go to the replica.
 *
 * Deliveries are taken, and answers that no commit proves are given, only while the caller allows
 * it.
 */
#ifndef TICKWHEEL_WORLD_TENURE_H
#define TICKWHEEL_WORLD_TENURE_H

#include "engine/engine.h"
#include "cluster/replica.h"
#include "truth.h"
#include "world.h"

/* The time at a node. */
struct tenure_time {
    uint64_t us; /* of the world */
    struct wall wall;
    bool may_act; /* deliver, and answer reads */
};

struct tenure {
    struct world *world;
    struct storage *storage;
    struct replica *replica; /* that takes commits */
    struct truth *truth;
    struct engine *engine; /* NULL: the node does not own the partition */
    uint64_t epoch;
    struct wall
        latest; /* that the engine was told: a clock may be set back while a delivery waits */
    bool is_draining, is_leaving;
    size_t batches_out;
    struct list refused;          /* batches that came back as not durable */
    struct list reads, lent, ops; /* on their way */
};

void tenure_init(struct tenure *tenure, struct world *world, struct storage *storage,
                 struct truth *truth);

/* The claim is valid; commits go to `replica`. */
void tenure_begin(struct tenure *tenure, struct replica *replica, const struct storage_meta *meta,
                  uint64_t seed, struct tenure_time time);

/* Begin no delivery. */
void tenure_drain(struct tenure *tenure);

/* The node owns the partition no more: the engine stands still until its deliveries are back. */
void tenure_leave(struct tenure *tenure);

/* Frees all; what was lent is forgotten. No batch is out. */
void tenure_end(struct tenure *tenure, struct tenure_time time);

/* Lets the time pass: reads and deliveries come back, and the engine has its turn. */
void tenure_turn(struct tenure *tenure, struct tenure_time time);

/* When to call tenure_turn next, in microseconds of the world; UINT64_MAX: only after an event. */
uint64_t tenure_wake_us(const struct tenure *tenure, struct tenure_time time);

/* A client asks for something. */
void tenure_ask(struct tenure *tenure, struct tenure_time time);

/* A batch is back. */
void tenure_committed(struct tenure *tenure, struct storage_batch *batch, struct tenure_time time);

/* Deliveries whose messages are committed with their ends: takes those that are ready, and answers
 * their count; and gives them back, as staged in a transaction, or with one refused and the others
 * untouched. */
size_t tenure_gather(struct tenure *tenure, struct tenure_time time, uint64_t *serials, size_t max);
void tenure_staged(struct tenure *tenure, struct tenure_time time, enum delivery_result result);

/* The first page is read; nothing is out. */
bool tenure_is_ready(const struct tenure *tenure);
bool tenure_is_idle(const struct tenure *tenure);

#endif
