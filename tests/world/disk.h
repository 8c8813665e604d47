/*
 * disk.h - the simulated storage and its read thread, and the faults of the disk. Reads see the
 * applied rows of their moment and return later, in order. Commits are in logs.h.
 */
#ifndef TICKWHEEL_WORLD_DISK_H
#define TICKWHEEL_WORLD_DISK_H

#include "engine/engine.h"
#include "events.h"
#include "store/testing/memory.h"

struct world;

/* A read on its way. */
struct ticket {
    struct list link;
    struct engine_read *read;
    uint16_t partition;
    bool is_done;              /* it has its answer */
    struct engine_read answer; /* a copy of the read, so that a crash can forget either */
};

struct disk_memory;

struct disk {
    struct storage *storage;
    struct disk_memory *files; /* of the store on a wheel; NULL if the storage is in memory */
    struct list tickets;       /* oldest first */
    uint64_t read_ms;          /* time of the last read */
    /* time of the last answer to a read, which the next one may not overtake */
    uint64_t read_end_ms;
    uint64_t outage_end_ms;
    bool is_full; /* in an outage: the disk can be read, but not written */
};

void disk_init(struct world *world);
void disk_deinit(struct world *world);

/* What was applied survives a crash. */
void disk_sync(struct world *world);

/* A crash of the process, and of its machine: some changes that were not synced are lost. */
void disk_lose(struct world *world);

/* Damages the record of a timer. Returns false if it has none that can be. */
bool disk_damage(struct world *world, const struct timer_id *id);

/* Aborts unless the storage is sound, as far as it can tell. */
void disk_check(struct world *world);

/* Takes a read of the engine, which still owns it. */
void disk_take_read(struct world *world, uint16_t partition, struct engine_read *read);

/* Serves EVENT_READ and EVENT_READ_DONE. */
void disk_serve(struct world *world, const struct event *event);

/* Draws whether a write fails now, and how. */
enum error_code disk_draw_fault(struct world *world);

/* Returns a time after `*last_ms`, and up to `delay_ms` from now, so that order is kept. */
uint64_t disk_later(struct world *world, uint64_t *last_ms, uint64_t delay_ms);

/* Begins an outage, which lasts a while: nothing can be written; and nothing read, unless the disk
 * is only full. */
void disk_outage(struct world *world);

/* The process dies: returns all reads as failed. */
void disk_crash(struct world *world);

#endif
