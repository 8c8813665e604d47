/*
 * host.h - the process: one engine for each partition, called as the daemon would call it.
 *
 * After each call what the engine hands out is taken: replies to the judge, batches and reads to
 * the disk, deliveries to the origins.
 */
#ifndef TICKWHEEL_WORLD_HOST_H
#define TICKWHEEL_WORLD_HOST_H

#include "engine/engine.h"
#include "plan.h"

struct world;
struct twin;
struct op;

struct sim_partition {
    struct engine *engine; /* NULL while the process is down */
    uint16_t index;
    struct engine_options options;
    uint64_t epoch, first_epoch;
    uint64_t jitter_ms; /* how late the next wake-up comes */
    bool is_draining;
    uint64_t drain_ms;      /* since when */
    uint64_t lazy_until_ms; /* how long batches and reads stay with the engine; 0: not at all */
    uint64_t calls;
    uint64_t told;     /* firings given up that this engine told of */
    bool has_untold;   /* some of any of its engines it only counted */
    uint64_t faults;   /* of the storage that the engine was told of */
    bool is_hindered;  /* at the end of its last turn: it stays so while the engine sleeps */
    uint64_t calm_ms;  /* since when nothing hindered it, true time */
    uint64_t fault_ms; /* when it last heard of a fault, slept, or was left alone */
    uint32_t out, out_by_origin[TENANTS_MAX][ORIGINS_MAX], out_pulled;
    struct rate_twin { /* rate of an origin, see judge.c */
        unsigned __int128 ahead;
        uint64_t epoch;
    } rates[TENANTS_MAX][ORIGINS_MAX];
    uint32_t spins; /* wake-ups at one moment */
    uint64_t spin_ms;
};

struct host {
    struct sim_partition partitions[PARTITIONS_MAX];
    bool is_up;
    bool is_stopping;                 /* drained partitions are not started again */
    atomic_bool is_held;              /* maintenance: no delivery begins */
    uint64_t held_step;               /* since when */
    struct target_pause_board pauses; /* what the engines read; durable */
    struct target_pause_twin {        /* and what it has */
        bool is_on, was_told_over;
        struct wall until;
        uint64_t step; /* of the last change */
    } target_pauses[TENANTS_MAX][ORIGINS_MAX];
    struct tenant_counts tenant_counts; /* live timers by tenant, of all partitions */
    uint32_t life;                      /* grows with each start; 1 is the first */
};

void host_init(struct world *world);
void host_deinit(struct world *world);

/* Recovery: raises the epochs, then makes the engines. */
void host_start(struct world *world);

/* The process dies, at any moment. */
void host_crash(struct world *world);

/* Begins a clean stop of one partition; it is started again as soon as it is idle. */
void host_drain(struct world *world, uint16_t partition);

/* Drains all partitions and frees their engines. */
void host_stop(struct world *world);

/* When to call host_advance next, true time; UINT64_MAX when the engine need not be woken. */
uint64_t host_wake_ms(const struct world *world, uint16_t partition);

/* Calls of the engine; each then takes the engine's replies, batches, reads and deliveries. */
void host_advance(struct world *world, uint16_t partition);
void host_submit(struct world *world, struct op *op);
void host_committed(struct world *world, struct storage_batch *batch);
void host_read_done(struct world *world, uint16_t partition, struct engine_read *read);
void host_delivered(struct world *world, uint16_t partition, struct twin *twin, uint8_t origin,
                    struct delivery *delivery);

/* A worker has spoken to the queue: it goes on. */
void host_worked(struct world *world, uint16_t partition);

/* For the workers: the next delivery, judged, or NULL; and a notice to their queue that it may have
 * items. */
struct delivery *host_pull(struct world *world, struct sim_partition *partition);
void host_take_woken(struct world *world, struct sim_partition *partition);

/* Returns the deliveries of a dying process, so that its memory can be freed; the engine's reaction
 * is ignored. */
void host_discard_batch(struct world *world, struct storage_batch *batch);
void host_discard_read(struct world *world, uint16_t partition, struct engine_read *read);
void host_discard_delivery(struct world *world, uint16_t partition, struct delivery *delivery);

/* The world was unkind to this partition: lateness counts from now. */
void host_disturb(struct world *world, uint16_t partition);

/* Time passed in which no partition was called. */
void host_slept(struct world *world);

#endif
