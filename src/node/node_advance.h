/*
 * node_advance.h - moves the virtual clock of a node, and waits at each instant until everything
 * that is due has been done.
 *
 *     node_advance_start(&options, &advance, &error)
 *     node_advance_ask(advance, request)            a client wants a later time
 *     round = node_advance_round(advance)              a shard begins a turn
 *     node_advance_report(advance, index, &report)     it ends the turn
 *
 * The clock goes from one instant at which an engine has something to do to the next. It stays
 * there until nothing is in flight. Work passes between threads as messages, which no single
 * reading sees. So the thread asks for rounds: in a round each shard has a turn and reports. An
 * instant is over when all shards are settled in a round, and no shard has moved anything since the
 * round before, or since the last instant.
 *
 * Errors     CLOCK_RUNS while another request runs; INVALID for a time that has passed or is beyond
 *            the end of the clock; IO if the time cannot be stored; STOPPING.
 * Ownership  A request is lent until `done`, which is called on the thread of the clock.
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_ADVANCE_H
#define TICKWHEEL_NODE_NODE_ADVANCE_H

#include "base/error.h"
#include "base/time.h"
#include "engine/engine.h"

/* Maximum real time of one request, in milliseconds. The client asks again for the rest. */
#define NODE_ADVANCE_MS_MAX 5000

struct node_advance;

struct node_advance_options {
    unsigned shard_count;
    const char *folder;          /* data folder, which keeps the time; borrowed */
    void (*wake)(void *context); /* lets each shard have a turn */
    void *context;
};

/* What a shard reports at the end of a turn. */
struct node_advance_shard {
    uint64_t round;   /* node_advance_round at the begin of the turn */
    uint64_t moves;   /* number of messages, batches, reads and deliveries since the start */
    struct wall next; /* time at which it has something to do */
    bool is_settled;  /* nothing is in flight in its engines, nor in its mailboxes */
    struct engine_progress counts;
};

struct node_advance_request {
    /* WALL_NEVER: to the next instant at which a firing becomes due or an attempt ends. If there is
     * none, the clock stays about where it is. */
    struct wall to;
    void (*done)(struct node_advance_request *request);

    /* The answer. */
    enum error_code result;
    bool is_done; /* false if NODE_ADVANCE_MS_MAX was over before */
    struct wall now;
    struct engine_progress counts; /* what happened since the last answer */
};

/* Starts the thread. The clock is virtual already. */
enum error_code node_advance_start(const struct node_advance_options *options,
                                   struct node_advance **ret_advance, struct error *ret_error);

/* Ends the running request, which may answer STOPPING; refuses others. NULL is fine. */
void node_advance_interrupt(struct node_advance *advance);

/* Ends the thread too. NULL is fine. */
void node_advance_stop(struct node_advance *advance);

enum error_code node_advance_ask(struct node_advance *advance, struct node_advance_request *request,
                                 struct error *ret_error);

/* True while a request runs. */
bool node_advance_is_running(struct node_advance *advance);

uint64_t node_advance_round(const struct node_advance *advance);
void node_advance_report(struct node_advance *advance, unsigned shard,
                         const struct node_advance_shard *report);

#endif
