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
    EVENT_COMMITTED,    /* the engines get the results */
    EVENT_READ,         /* the disk reads */
    EVENT_READ_DONE,    /* the engine gets the result of a read */
    EVENT_DELIVERED,    /* the engine gets the outcome of a delivery */
    EVENT_WORKER,       /* a worker says what became of its work */
    EVENT_CLIENT,       /* a client does something */
    EVENT_ORIGIN,       /* an origin changes its behaviour */
    EVENT_CLOCK,        /* the wall clock steps */
    EVENT_OUTAGE,       /* the disk fails for a while */
    EVENT_DRAIN,        /* one partition is stopped cleanly and started again */
    EVENT_CRASH,        /* the process dies */
    EVENT_START,        /* the process starts again after a crash */

    /* In a run of several nodes (cluster.h). */
    EVENT_CLUSTER,
    EVENT_LAND = EVENT_CLUSTER, /* an append reaches the log */
    EVENT_SETTLE,               /* a node is told where the frames of its deal are */
    EVENT_END,                  /* the brokers decide a deal; `offset`: enum deal_state */
    EVENT_MARK,                 /* the brokers mark a deal as decided */
    EVENT_EXPIRE,               /* the brokers abort a deal that took too long */
    EVENT_GONE,                 /* a node no longer waits for the commit of its deal */
    EVENT_ANSWER,               /* a node is told where its append landed */
    EVENT_FAIL,                 /* a node is told that its append is in doubt */
    EVENT_FOLLOW,               /* a node reads the log */
    EVENT_WAKE,                 /* a replica asked to be woken */
    EVENT_WORK,                 /* an engine has something to do */
    EVENT_HEAR,                 /* a node gets the plan */
    EVENT_RETURN,               /* a node that crashed starts again */
    EVENT_ASK,                  /* a client makes a call */
    EVENT_PLAN,                 /* another node is to own the partition */
    EVENT_STOP,                 /* a node stands still for a while */
    EVENT_DUEL,                 /* the owner stands still, as another node goes on */
    EVENT_KILL,                 /* a node crashes */
    EVENT_PAUSE,                /* the log accepts no appends for a while */
    EVENT_STEP,                 /* a wall clock is set */
    EVENT_SPOIL,                /* a storage fails in one of its next calls */
    EVENT_TRIM,                 /* the log drops records before `offset` */
    EVENT_GIVE,                 /* a node is asked for a page of a copy, by node `append` */
    EVENT_PAGE,                 /* the page comes; `offset`: the number of the ask */
    EVENT_MISS,                 /* the page does not come in time */
    EVENT_RUN,                  /* a question reaches the server of the table (table.h) */
    EVENT_SYNC,                 /* its commit ends */
    EVENT_REPLY,                /* its answer reaches the node */
    EVENT_BREAK,                /* its connection is broken */
    EVENT_ROWS,                 /* records reach the node; `offset`: the number of the read */
    EVENT_SWITCH,               /* the server restarts, or another one takes over */
    EVENT_LEAVE,                /* the standby goes away for a while */
};

struct event {
    uint64_t time_us;
    uint64_t order; /* breaks ties */
    enum event_kind kind;
    /* number of the process that the event belongs to, and ends with; 0 if it belongs to the
     * world */
    uint32_t life;
    void *subject;

    /* The following fields are for a cluster. */
    uint32_t node, append; /* indexes */
    uint32_t deal;         /* 1 + the index of the deal; 0 for none */
    uint64_t offset;       /* in EVENT_LAND: delay of its answer; UINT64_MAX if none comes */
};

struct events {
    struct event *heap;
    size_t count, capacity;
    uint64_t order;
};

void events_init(struct events *events);
void events_deinit(struct events *events);

/* Adds the event, and gives it its place among those of the same time. */
void events_post(struct events *events, struct event event);

/* Returns the time of the next event; UINT64_MAX if there is none. */
uint64_t events_next_us(const struct events *events);

/* Removes and returns the next event. There must be one. */
struct event events_take(struct events *events);

/* Drops every event with that `life`. */
void events_drop(struct events *events, uint32_t life);

#endif
