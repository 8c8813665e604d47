/*
 * host.h - the process: one engine for each partition, called as the daemon would call it.
 *
 * After each call what the engine hands out is taken: replies to the judge, batches and reads to
 * the disk, deliveries to the origins.
 */
#ifndef TICKWHEEL_WORLD_HOST_H
#define TICKWHEEL_WORLD_HOST_H

#include "engine/engine.h"
#include "content.h"
#include "plan.h"

struct world;
struct twin;
struct op;

struct sim_partition {
    struct engine *engine; /* NULL while the process is down */
    uint16_t index;
    struct engine_options options;
    uint64_t epoch, first_epoch;
    uint64_t jitter_ms; /* delay of the next wake-up */
    bool is_draining;
    uint64_t drain_ms; /* since when */
    /* true time until which batches and reads stay with the engine; 0 if they do not */
    uint64_t lazy_until_ms;
    uint64_t calls;
    uint64_t told;   /* number of firings given up that this engine reported */
    bool has_untold; /* whether one of its engines reported some only by their number */
    uint64_t faults; /* number of failures of the storage that the engine was told of */
    /* whether it was hindered at the end of its last turn; this does not change while the engine
     * sleeps */
    bool is_hindered;
    uint64_t calm_ms;  /* true time since when nothing hindered it */
    uint64_t fault_ms; /* true time at which it last got a failure, slept, or was not called */
    uint32_t out_by_flow[TENANTS_MAX][FLOWS_MAX + 1];
    uint32_t out, out_by_origin[TENANTS_MAX][ORIGINS_MAX], out_pulled;
    struct rate_twin { /* rate of an origin, see judge.c */
        unsigned __int128 ahead;
        uint64_t epoch;
    } rates[TENANTS_MAX][ORIGINS_MAX];
    uint32_t spins; /* number of wake-ups at one moment */
    uint64_t spin_ms;
};

struct host {
    struct sim_partition partitions[PARTITIONS_MAX];
    bool is_up;
    bool is_stopping;                 /* drained partitions are not started again */
    atomic_bool is_held;              /* maintenance: no delivery begins */
    uint64_t held_step;               /* since when */
    struct target_pause_board pauses; /* pauses of targets that the engines read; durable */
    struct target_pause_twin {        /* content of that board */
        bool is_on, was_told_over;
        struct wall until;
        uint64_t step; /* step of the last change */
    } target_pauses[TENANTS_MAX][ORIGINS_MAX];
    struct tenant_counts tenant_counts; /* live timers by tenant, of all partitions */
    uint32_t life; /* number of the process: 1 at first, one more at each start */
};

void host_init(struct world *world);
void host_deinit(struct world *world);

/* Recovery: raises the epochs, then makes the engines. */
void host_start(struct world *world);

/* Kills the process. Allowed at any moment. */
void host_crash(struct world *world);

/* Begins a clean stop of one partition; it is started again as soon as it is idle. */
void host_drain(struct world *world, uint16_t partition);

/* Drains all partitions and frees their engines. */
void host_stop(struct world *world);

/* Returns the true time at which to call host_advance next; UINT64_MAX if the engine need not be
 * woken. */
uint64_t host_wake_ms(const struct world *world, uint16_t partition);

/* Call the engine. Each call then takes the engine's replies, batches, reads and deliveries. */
void host_advance(struct world *world, uint16_t partition);
void host_submit(struct world *world, struct op *op);
void host_committed(struct world *world, struct storage_batch *batch);
void host_read_done(struct world *world, uint16_t partition, struct engine_read *read);
void host_delivered(struct world *world, uint16_t partition, struct twin *twin, uint8_t origin,
                    struct delivery *delivery);

/* A worker has called the queue: gives the engine a turn. */
void host_worked(struct world *world, uint16_t partition);

/* For the workers: returns the next delivery, which was judged, or NULL; and tells their queue that
 * it may have items. */
struct delivery *host_pull(struct world *world, struct sim_partition *partition);
void host_take_woken(struct world *world, struct sim_partition *partition);

/* Give batches, reads and deliveries back to the engine of a process that dies, so that memory can
 * be freed. What the engine does then is ignored. */
void host_discard_batch(struct world *world, struct storage_batch *batch);
void host_discard_read(struct world *world, uint16_t partition, struct engine_read *read);
void host_discard_delivery(struct world *world, uint16_t partition, struct delivery *delivery);

/* Notes that a fault delayed this partition: its lateness counts from now on. */
void host_disturb(struct world *world, uint16_t partition);

/* Notes that time passed without a call of any partition. */
void host_slept(struct world *world);

#endif
