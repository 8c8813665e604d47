/*
 * node_holds.h - what holds deliveries of a node back: maintenance, and pauses of queues and
 * targets. The engines look at both before each delivery. Beside them are the nodes that are
 * drained, which the notes of this node and the calls about the cluster look at, and what tenants
 * define by name.
 *
 * The log has the truth (cluster/holds.h), except for named targets that the configuration of this
 * node defines. Here are the requests for changes, in order, and the state that this node shows.
 *
 * Threads    Any, except for functions and fields of *the carrier*: the thread that puts changes
 *            into the log, and makes those that it has read or appended (node_hold.h).
 */
#ifndef TICKWHEEL_NODE_NODE_HOLDS_H
#define TICKWHEEL_NODE_NODE_HOLDS_H

#include "cluster/holds.h"
#include "delivery/named.h"
#include "delivery/targets.h"
#include "node/feed.h"
#include "node/node.h"
#include "node/node_calendars.h"

#include <pthread.h>
#include <stdatomic.h>

struct node_holds {
    struct feed *feed;              /* reports changes to the clients that watch; borrowed */
    struct targets *targets;        /* whose breakers are reset; borrowed */
    void (*changed)(void *context); /* wakes the shards */
    void *context;

    struct target_pause_board pauses;    /* queues and targets that are paused; has its own lock */
    struct definition_board definitions; /* has its own lock */
    struct node_calendars *calendars;    /* is told the definitions; set by node_holds_start */
    atomic_bool is_maintained;           /* no delivery begins */
    pthread_mutex_t lock;                /* guards the next nine */
    struct definitions *stored;          /* definitions of the log */
    struct definitions *configured;      /* those of the configuration; NULL for none */
    uint64_t configured_count;           /* number of times that those were set */
    char note[NODE_NOTE_SIZE_MAX];       /* note of the maintenance */
    size_t note_size;
    size_t drained_count;
    uint32_t drained[HOLDS_DRAINED_MAX]; /* nodes that are drained, as in struct holds */
    struct list requests;                /* struct node_hold: changes that wait */
    bool has_ended;                      /* whether further requests are refused */

    /* The carrier's. */
    struct node_hold *asked;    /* request whose change is under way; NULL if none */
    struct holds_change change; /* that change; its texts are those of the request */

    /* The following fields are the carrier's, on a node without a cluster. */
    struct holds made;          /* holds by the storage; `pauses` NULL before they were read */
    struct holds next;          /* holds with the change that is under way */
    struct buffer bytes;        /* encoded form of `next` */
    struct storage_batch batch; /* commit of `bytes` */
};

void node_holds_init(struct node_holds *holds, void (*changed)(void *context), void *context);
void node_holds_deinit(struct node_holds *holds);

/* Starts without holds. Refuses a data folder with files of pauses or maintenance, which builds
 * before the first release wrote: ERROR_INVALID. */
enum error_code node_holds_start(struct node_holds *holds, struct feed *feed,
                                 struct targets *targets, struct node_calendars *calendars,
                                 const char *folder, struct error *ret_error);

/* Returns the pauses of all tenants; the caller leaves the table (target_pauses_leave). */
struct target_pauses *node_holds_pauses(struct node_holds *holds);

/* Returns the definitions of all tenants: those of the configuration, and of the log all others.
 * The caller leaves the table (definitions_leave). */
struct definitions *node_holds_definitions(struct node_holds *holds);

/* Returns the definitions of the log alone; the caller leaves the table. */
struct definitions *node_holds_stored(struct node_holds *holds);

/* Reads named_targets_file, and shows its definitions in place of those that it had. Does nothing
 * without that setting. On an error nothing changes. */
enum error_code node_holds_configure(struct node_holds *holds, struct named *named,
                                     const char *path, struct error *ret_error);

/* True if the node of the cluster is drained. */
bool node_holds_is_drained(struct node_holds *holds, uint32_t node);

/* Reports these holds to the engines and to clients that watch. `change` is the change that led to
 * them; NULL if the carrier has read all of them. */
void node_holds_show(struct node_holds *holds, const struct holds *made,
                     const struct holds_change *change);

/* Applies HOLDS_RESET on this node. Returns the number of breakers with failures. For the carrier.
 */
enum error_code node_holds_reset(struct node_holds *holds, struct bytes tenant, struct bytes name,
                                 struct wall now, size_t *ret_count, struct error *ret_error);

/* Sets the error for a change of this kind that was refused. */
enum error_code node_holds_refuse(enum holds_kind kind, enum error_code code,
                                  struct error *ret_error);

#endif
