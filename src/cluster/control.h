/*
 * control.h - a node and the control topic of its cluster: appends the notes of this node, reads
 * those of all, keeps the roster, the plan and the holds, and makes the plan while this node is the
 * planner.
 *
 * The planner is the owner of the control topic, by the claims of ownership.h. Every node that has
 * joined wants to be it. Like replica.h it has no clock, no thread and no log of its own:
 *
 *     control_create(&options, &events, now, &control, &error);
 *     ... for each record of the log, from some record on:
 *     control_read(control, offset, bytes, now);
 *     control_restored(control, now);                      the end of the log is reached
 *     control_landed(control, ticket, offset, now);        or control_failed
 *     control_turn(control, now, wall);                    after each of them, and at wake_at
 *     plan = control_plan(control);
 *
 * A node joins when it has read the log, and no other process appends notes with its number. A
 * process that finds such notes, or that is replaced by another one later, is refused for good.
 *
 * Reading may begin anywhere: the first record of a planner that is read tells the epoch. A wrong
 * plan costs moves, and no timers, for the logs of partitions alone say which nodes own them. So
 * the planner has the log drop old records. The first record that is left is the founding of the
 * cluster, which the planner repeats for that.
 * The holds begin with a copy, which planners append; without one, the log is read from its first
 * record. No node joins before it has the holds.
 *
 * Time       Instants as ownership.h wants them; `wall` only goes into frames, for people.
 * Errors     Records of another cluster, and records that are damaged, break it: the last plan
 *            stays.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_CLUSTER_CONTROL_H
#define TICKWHEEL_CLUSTER_CONTROL_H

#include "cluster/founding.h"
#include "cluster/holds.h"
#include "cluster/ownership.h"
#include "cluster/planner.h"

enum {
    CONTROL_NOTE_MS = 500,     /* between notes */
    CONTROL_PROBE_MS = 1200,   /* of listening for another process with this number */
    CONTROL_NOTES_FOREIGN = 2, /* of it: one may have been on its way when it died */
    CONTROL_PLAN_MS = 60000,   /* the planner appends plan and holds again, for those that begin */
    CONTROL_HOLDS_MS = 5000,   /* and the holds this time after a change */
    CONTROL_ASK_LEASES = 3,    /* then it is in doubt whether a change was made */
};

enum control_state {
    CONTROL_READING, /* what the log has */
    CONTROL_PROBING, /* whether a process with the number of this node goes on with its notes */
    CONTROL_JOINED,
    CONTROL_LEAVING, /* the next note says that this node is to own nothing */
    CONTROL_LEFT,    /* its last note was read, and it is not the planner */
    CONTROL_REFUSED, /* another process has this number, or the cluster another secret */
    CONTROL_BROKEN,  /* a record cannot be read */
};

struct control_options {
    uint32_t node;
    uint16_t partition_count;
    uint64_t cluster; /* id of the cluster, in each frame */
    uint64_t incarnation;
    uint64_t lease_ms;      /* of the planner */
    uint64_t seed;          /* random: of pauses between claims */
    uint64_t records;       /* between two foundings: the log has up to two times as many; 0: all */
    struct founding secret; /* the digest of this node's secret */
    bool reads_all;         /* reading begins with the first record that there is */
    struct plan_options plan;
};

/* The work of others. Neither calls the control from within. */
struct control_events {
    void *context;
    /* Append the bytes, which are valid until the next call; answer with the ticket, later. */
    void (*append)(void *context, uint64_t ticket, struct bytes bytes);
    /* Fill in the note of this node; all is 0 but for the weight, which is 1. Its texts stay valid
     * until the next call. */
    void (*note)(void *context, struct roster_note *note);
    /* Records before this offset are not needed: drop them. A failure does no harm. */
    void (*trim)(void *context, uint64_t before);
    /* The holds are others now, by this change, which was asked for here if `ask` is not 0; or it
     * was refused, with the code. NULL: they were read as a whole. */
    void (*held)(void *context, const struct holds *holds, const struct holds_change *change,
                 uint64_t ask, enum error_code code);
    /* A change that was asked for here is in doubt, or was not sent: OVERLOADED. */
    void (*unheld)(void *context, uint64_t ask, enum error_code code);
};

struct cluster_control;

enum error_code control_create(const struct control_options *options,
                               const struct control_events *events, struct instant now,
                               struct cluster_control **ret_control, struct error *ret_error);

/* NULL is fine. */
void control_destroy(struct cluster_control *control);

/* The next record of the log; the first one may be any. */
void control_read(struct cluster_control *control, uint64_t offset, struct bytes bytes,
                  struct instant now);

void control_restored(struct cluster_control *control, struct instant now);

/* The log has no record at the offset that is to be read. A node that was away for long, or reads
 * while the log is trimmed, joins anew: control_take_rewind. It is broken when there is nothing to
 * read. */
void control_lost(struct cluster_control *control, const char *reason);

/* The append is in the log, at this offset; or it is in doubt. */
void control_landed(struct cluster_control *control, uint64_t ticket, uint64_t offset,
                    struct instant now);
void control_failed(struct cluster_control *control, uint64_t ticket, struct instant now);

/* The node stops: its partitions are to go to others. */
void control_leave(struct cluster_control *control, struct instant now);

/* This node's secret is this one from now on, which may be the same. The secret with which the
 * cluster is founded now, the former, is accepted too, until this is called after another
 * founding. */
void control_set_secret(struct cluster_control *control, const struct founding *secret);

/* Whether the cluster is founded with the present secret of this node. */
bool control_is_founded_so(const struct cluster_control *control);

/* Appends a change of the holds, whose result is `held` or `unheld`, later. False: another one is
 * under way, or this node is no member, or there is no memory. */
bool control_change(struct cluster_control *control, const struct holds_change *change,
                    struct instant now);

/* Does the work that is due. */
void control_turn(struct cluster_control *control, struct instant now, struct wall wall);

/* True, once: the log is to be followed anew, from its first record: the part that was read has no
 * record of a planner, or the log has dropped the next record. */
bool control_take_rewind(struct cluster_control *control);

/* When to call control_turn again at the latest, if nothing else happens. */
struct instant control_wake_at(const struct cluster_control *control, struct instant now);

enum control_state control_state(const struct cluster_control *control);

/* The last valid plan; its version is 0 before there is one. */
const struct plan *control_plan(const struct cluster_control *control);

const struct roster *control_roster(const struct cluster_control *control);

/* The owner of the control topic; 0: none. */
uint32_t control_planner(const struct cluster_control *control);

/* When the last note of the member was read; {0}: never. */
struct instant control_heard_at(const struct cluster_control *control, uint32_t node);

/* Why it is refused or broken. */
const struct error *control_error(const struct cluster_control *control);

/* How far the clock of the node is ahead of that of the brokers at the least, negative when it is
 * behind: from when it sent an append, when the broker appended it, and when the node knew. */
int32_t control_clock_offset_ms(struct wall sent, struct wall appended, struct wall landed);

/* For tests: aborts unless every invariant holds. */
void control_check(const struct cluster_control *control);

#endif
