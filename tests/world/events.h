/*
 * events.h - what will happen in the simulated world, ordered by time. At equal times what the disk
 * does keeps its order; all else comes before it, after it or in between.
 *
 * Ownership  `subject` is borrowed; the part that posted the event knows its type. Errors     Out
 * of memory aborts: a simulation has no use for going on.
 */
#ifndef TICKWHEEL_WORLD_EVENTS_H
#define TICKWHEEL_WORLD_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
    EVENT_COMMIT_BEGIN, /* the disk takes up the batches that wait */
    EVENT_COMMIT_END,   /* they are durable, or failed */
    EVENT_COMMITTED,    /* the engines hear of it */
    EVENT_READ,         /* the disk reads */
    EVENT_READ_DONE,    /* the engine gets the result of a read */
    EVENT_DELIVERED,    /* the engine hears of an outcome */
    EVENT_WORKER,       /* a worker says what became of its work */
    EVENT_CLIENT,       /* a client does something */
    EVENT_ORIGIN,       /* an origin changes its ways */
    EVENT_CLOCK,        /* the wall clock steps */
    EVENT_OUTAGE,       /* the disk fails for a while */
    EVENT_DRAIN,        /* one partition is stopped cleanly and started again */
    EVENT_CRASH,        /* the process dies */
    EVENT_START,        /* and is started again */
};

struct event {
    uint64_t time_ms;
    uint64_t order; /* breaks ties */
    enum event_kind kind;
    uint32_t life; /* of the process it belongs to; it dies with it. 0: it belongs to the world */
    void *subject;
};

struct events {
    struct event *heap;
    size_t count, capacity;
    uint64_t order;
};

void events_init(struct events *events);
void events_deinit(struct events *events);

void events_post(struct events *events, uint64_t time_ms, enum event_kind kind, uint32_t life,
                 void *subject);

/* The time of the next event; UINT64_MAX when there is none. */
uint64_t events_next_ms(const struct events *events);

/* Takes the next event; there must be one. */
struct event events_take(struct events *events);

/* Drops every event with that `life`. */
void events_drop(struct events *events, uint32_t life);

#endif
