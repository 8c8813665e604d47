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

/* Work that a worker has. */
struct worker_job {
    struct list link;
    struct twin *twin;
    uint16_t partition;
    uint64_t crew; /* whose lease it is; another one knows nothing of it */
    struct queue_receipt receipt;
    uint64_t end_ms;  /* true time: the lease lasts until then */
    uint32_t version; /* of the timer */
    bool is_ended;    /* the lease is over, and this worker did not say so */
    bool is_spoken;   /* `request` is under way, and it came */
    bool is_late;     /* when the lease was over */
    uint64_t faults;  /* of the storage, when it spoke */
    struct queue_request request;
    enum queue_verdict verdict;
};

/* The workers of one partition. */
struct crew {
    struct queue *queue; /* NULL while the process is down */
    uint64_t number;     /* grows with each queue */
    uint64_t start_ms;   /* true time */
    struct list asks;
    uint32_t held; /* leases that did not end */
    bool is_turning;
};

struct workers {
    struct crew crews[PARTITIONS_MAX];
    struct list jobs; /* of all workers; a worker without further calls is removed */
};

void workers_init(struct world *world);

/* Frees the calls that workers still had to make. */
void workers_forget(struct world *world);

/* The partition has a new engine, or has none any more. */
void workers_start(struct world *world, uint16_t partition);
void workers_end(struct world *world, uint16_t partition);

/* No worker waits any more, and all leases end. */
void workers_drain(struct world *world, uint16_t partition);

/* The process dies: returns leased deliveries, to free their memory. */
void workers_crash(struct world *world, uint16_t partition);

/* The engine was called: hands out work, and hands in what became of it. */
void workers_turn(struct world *world, struct sim_partition *partition);

/* EVENT_WORKER: one says what became of its work. */
void workers_speak(struct world *world, struct worker_job *job);

/* When the next lease ends or wait is over, true time. */
uint64_t workers_wake_ms(const struct world *world, uint16_t partition);

/* No lease is over that was not given back. */
void workers_judge(struct world *world, uint16_t partition, uint64_t slack_ms);

#endif
