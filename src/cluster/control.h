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
    CONTROL_NOTE_MS = 500, /* between notes */
    /* time for which a starting node listens for a process with its number */
    CONTROL_PROBE_MS = 1200,
    /* notes that prove that process alive: one may have been sent just before it died */
    CONTROL_NOTES_FOREIGN = 2,
    /* interval at which the planner repeats plan and holds, for nodes that start */
    CONTROL_PLAN_MS = 60000,
    CONTROL_HOLDS_MS = 5000, /* delay of the planner's copy of the holds after a change */
    CONTROL_ASK_LEASES = 3,  /* leases after which an unanswered change is in doubt */
};

enum control_state {
    CONTROL_READING, /* reads the log up to its end */
    CONTROL_PROBING, /* listens for another process with this node's number */
    CONTROL_JOINED,
    CONTROL_LEAVING, /* its next note says that it must own nothing */
    CONTROL_LEFT,    /* its last note was read, and it is not the planner */
    CONTROL_REFUSED, /* another process has this number, or the cluster another secret */
    CONTROL_BROKEN,  /* a record cannot be decoded */
};

struct control_options {
    uint32_t node;
    uint16_t partition_count;
    uint64_t cluster; /* id of the cluster, which each frame has */
    uint64_t incarnation;
    uint64_t lease_ms; /* lease of the planner */
    uint64_t seed;     /* random seed of the pauses between claims */
    /* records between two foundings; the log has up to twice as many. 0 keeps all */
    uint64_t records;
    struct founding secret; /* digest of this node's secret */
    bool reads_all;         /* whether reading begins with the first record of the log */
    struct plan_options plan;
};

/* Callbacks: I/O that the control asks its caller to perform, and events. They must not call the
 * control. */
struct control_events {
    void *context;
    /* Appends the bytes, which are valid until the next call. The caller reports the result with
     * the ticket later. */
    void (*append)(void *context, uint64_t ticket, struct bytes bytes);
    /* Fills in the note of this node, which is all 0 except the weight 1. Its texts stay valid
     * until the next call. */
    void (*note)(void *context, struct roster_note *note);
    /* Trims the records before this offset. A failure is harmless. */
    void (*trim)(void *context, uint64_t before);
    /* Reports that this change of the holds was made, or refused with the code. `ask` is not 0
     * if this node asked for it. A NULL change means that all holds were read. */
    void (*held)(void *context, const struct holds *holds, const struct holds_change *change,
                 uint64_t ask, enum error_code code);
    /* Reports that a change of this node is in doubt, or was not sent (OVERLOADED). */
    void (*unheld)(void *context, uint64_t ask, enum error_code code);
};

struct cluster_control;

enum error_code control_create(const struct control_options *options,
                               const struct control_events *events, struct instant now,
                               struct cluster_control **ret_control, struct error *ret_error);

/* NULL is allowed. */
void control_destroy(struct cluster_control *control);

/* Takes the next record of the log; the first call may begin with any record. */
void control_read(struct cluster_control *control, uint64_t offset, struct bytes bytes,
                  struct instant now);

void control_restored(struct cluster_control *control, struct instant now);

/* Reports that the log has no record at the offset to read, because this node was away or the
 * log was trimmed. The node joins anew (control_take_rewind). If there is nothing to read the
 * control is broken. */
void control_lost(struct cluster_control *control, const char *reason);

/* Reports that the append is in the log at this offset, or that it is in doubt. */
void control_landed(struct cluster_control *control, uint64_t ticket, uint64_t offset,
                    struct instant now);
void control_failed(struct cluster_control *control, uint64_t ticket, struct instant now);

/* Begins to leave: other nodes shall own this node's partitions. */
void control_leave(struct cluster_control *control, struct instant now);

/* Sets this node's secret, which may be unchanged. The secret with which the cluster is founded
 * at this moment is accepted too, until this function is called after another founding. */
void control_set_secret(struct cluster_control *control, const struct founding *secret);

/* True if the cluster is founded with this node's present secret. */
bool control_is_founded_so(const struct cluster_control *control);

/* Appends a change of the holds; `held` or `unheld` reports its result. Returns false if another
 * change is under way, the node is no member, or memory is short. */
bool control_change(struct cluster_control *control, const struct holds_change *change,
                    struct instant now);

/* Does the work that is due. */
void control_turn(struct cluster_control *control, struct instant now, struct wall wall);

/* Returns true once if the log must be followed again from its first record: the part that was
 * read has no record of a planner, or the log has dropped the next record. */
bool control_take_rewind(struct cluster_control *control);

/* Returns the latest time of the next control_turn, if nothing else happens. */
struct instant control_wake_at(const struct cluster_control *control, struct instant now);

enum control_state control_state(const struct cluster_control *control);

/* Returns the last valid plan; its version is 0 if there is none. */
const struct plan *control_plan(const struct cluster_control *control);

const struct roster *control_roster(const struct cluster_control *control);

/* Returns the owner of the control topic; 0 if there is none. */
uint32_t control_planner(const struct cluster_control *control);

/* Returns the time at which the member's last note was read; {0} if none was. */
struct instant control_heard_at(const struct cluster_control *control, uint32_t node);

/* Returns why the node is refused or the control broken. */
const struct error *control_error(const struct cluster_control *control);

/* Returns by how much the node's clock is ahead of the brokers' at least; negative if it is
 * behind. Computed from the times at which the node sent an append, the broker appended it, and
 * the node got the confirmation. */
int32_t control_clock_offset_ms(struct wall sent, struct wall appended, struct wall landed);

/* For tests: aborts unless every invariant holds. */
void control_check(const struct cluster_control *control);

#endif
