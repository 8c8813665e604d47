/*
 * workers.h - workers that pull: they ask the real queue of leases (delivery/queue.h) for work, and
 * ack, nack, extend, stay silent, or answer too late.
 *
 * A lease belongs to one worker at a time, lasts as long as asked for, and comes back when it ends.
 * An ack that was answered with success is durable; a late ack is refused.
 */
#ifndef TICKWHEEL_WORLD_WORKERS_H
#define TICKWHEEL_WORLD_WORKERS_H

#include "delivery/queue.h"
#include "model.h"

struct world;
struct sim_partition;

/* A worker that waits for work. */
struct worker_ask {
    struct list link;
    struct queue_request request;
};

/* An item that a worker has. */
struct worker_job {
    struct list link;
    struct twin *twin;
    uint16_t partition;
    /* number of the crew with the lease; the queue of another crew does not know it */
    uint64_t crew;
    struct queue_receipt receipt;
    uint64_t end_ms;  /* true time at which the lease ends */
    uint32_t version; /* version of the timer */
    uint64_t step;    /* step at which the lease began */
    bool is_ended;    /* whether the lease has ended without a report of this worker */
    bool is_spoken;   /* whether `request` is under way */
    bool is_late; /* whether the lease had ended, or was of an earlier crew, when `request` came */
    uint64_t faults; /* number of failures of the storage when `request` came */
    struct queue_request request;
    enum queue_verdict verdict;
};

/* The workers of one partition. */
struct crew {
    struct queue *queue; /* NULL while the process is down */
    uint64_t number;     /* number of the queue: one more for each new one */
    uint64_t start_ms;   /* true time */
    struct list asks;
    uint32_t held; /* number of leases that have not ended */
    bool is_turning;
};

struct workers {
    struct crew crews[PARTITIONS_MAX];
    struct list jobs; /* of all workers; a worker without further calls is removed */
};

void workers_init(struct world *world);

/* Frees the remaining calls of workers. */
void workers_forget(struct world *world);

/* Tells the queue that the partition has a new engine, or none any more. */
void workers_start(struct world *world, uint16_t partition);
void workers_end(struct world *world, uint16_t partition);

/* Ends all waits and all leases. */
void workers_drain(struct world *world, uint16_t partition);

/* The process dies: returns the leased deliveries, so that memory can be freed. */
void workers_crash(struct world *world, uint16_t partition);

/* Called after the engine: hands out items, and hands in the outcomes. */
void workers_turn(struct world *world, struct sim_partition *partition);

/* Handles EVENT_WORKER: a worker reports on its item. */
void workers_speak(struct world *world, struct worker_job *job);

/* A client ends the lease of the timer: returns the delivery with its outcome, which was checked;
 * NULL if nobody has it. */
struct delivery *workers_release(struct world *world, struct sim_partition *partition,
                                 const struct timer_id *id);

/* True if one worker has had the timer since before this step, and has not reported. */
bool workers_hold(const struct world *world, const struct twin *twin, uint64_t step);

/* Returns the true time at which the next lease or wait ends. */
uint64_t workers_wake_ms(const struct world *world, uint16_t partition);

/* Checks that each lease that has ended was given back. */
void workers_judge(struct world *world, uint16_t partition, uint64_t slack_ms);

#endif
