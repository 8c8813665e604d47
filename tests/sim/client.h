/*
 * client.h - those who create, read, change, cancel and list timers, many at a time.
 *
 * They know only what they were told. What they ask of a timer on which another call is in flight,
 * or with a stale version, or with an id that never was, is as frequent as the plan says.
 */
#ifndef TICKWHEEL_SIM_CLIENT_H
#define TICKWHEEL_SIM_CLIENT_H

#include "engine/command.h"
#include "model.h"

struct world;

enum { CREATE_MANY_MAX = 12 };

/* A listing, page by page. */
struct walk {
    struct list link;
    struct storage_scan scan;      /* `from` moves on */
    struct storage_position first; /* where it began */
    uint64_t step;                 /* when it began */
    struct storage_position last;
    bool has_last;
    bool is_waiting; /* for its client to ask for the next page; those come first in their list */
    uint8_t *seen;   /* by twin, of those that there were when it began */
    size_t seen_count;
};

/* A command and what its client knows of it. It outlives its answer, so that a second answer is
 * seen. */
struct op {
    struct list link;
    struct command command;
    uint16_t partition;
    bool is_answered;
    uint64_t step, submitted_ms; /* when it was submitted */
    uint64_t faults;
    uint64_t near_bytes, pending;          /* in memory, and in all, when it was submitted */
    struct twin *twin;                     /* GET, PATCH, CANCEL; NULL: an id that never was */
    uint32_t told_version;                 /* of the twin, when it was submitted */
    struct change change;                  /* PATCH, CANCEL */
    struct twin *created[CREATE_MANY_MAX]; /* CREATE */
    struct timer *timers[CREATE_MANY_MAX]; /* its arguments */
    struct command_created results[CREATE_MANY_MAX];
    struct walk *walk; /* LIST */
};

struct clients {
    struct list in_flight, answered; /* operations */
    struct list walks;
};

void clients_init(struct world *world);
void clients_deinit(struct world *world);

/* EVENT_CLIENT: one of them does something. */
void clients_act(struct world *world);

/* Asks for one timer, for all of a partition, or for a new one; for the end of a run. */
void clients_get(struct world *world, struct twin *twin);
void clients_list(struct world *world, uint16_t partition);
void clients_create(struct world *world, uint16_t partition, struct wall due);

/* Goes on with a listing that waits for its next page; false when none does. */
bool clients_go_on(struct world *world);

/* Judged and answered; goes on with its listing. */
void clients_answered(struct world *world, struct op *op);

/* The process died: what was in flight is never answered. */
void clients_crash(struct world *world);

/* How many operations of one partition are in flight. */
size_t clients_in_flight(const struct world *world, uint16_t partition);

static inline struct op *op_of(struct command *command)
{
    return list_item(command, struct op, command);
}

#endif
