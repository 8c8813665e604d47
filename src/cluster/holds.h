/*
 * holds.h - the holds of a node or a cluster: paused queues and targets, the maintenance, the
 * nodes that are drained, which own no partition, and what tenants define by name.
 *
 * In a cluster each change is a note in the control topic, and every node makes the changes in the
 * order of the log: so at one place of the log all nodes have equal holds, and agree which changes
 * were refused. A node without a cluster stores a copy after each change.
 *
 *     holds_change_encode(&change, &body);               append it as a note
 *     ... and every reader of the log:
 *     if (!holds_change_decode(body, &change)) code = holds_apply(&holds, &change);
 *
 * A reader that begins in the middle of the log needs a copy of the holds, which is a note as well.
 * A copy tells up to which offset its changes were made; so any node may append one, at any time.
 *
 * A build before definitions ignores changes of them, and cannot read a copy that has some: such a
 * node does not join when it starts, and as the planner appends copies that lack them. Upgrade all
 * nodes before the first definition.
 *
 * Time       O(pauses and definitions).
 * Errors     CORRUPT of bytes that the functions here did not write; TOO_MANY beyond a limit;
 *            INVALID of a drain that would leave no node; NOT_FOUND and VERSION_MISMATCH of a
 *            definition; NO_MEMORY. Then nothing has changed.
 * Ownership  A decoded change, and holds, are freed by their deinit.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_CLUSTER_HOLDS_H
#define TICKWHEEL_CLUSTER_HOLDS_H

#include "timer/definitions.h"
#include "timer/target_pauses.h"

enum {
    HOLDS_NOTE_SIZE_MAX = TARGET_PAUSE_NOTE_SIZE_MAX, /* maximum size of a note of a maintenance */
    /* maximum size of all encoded pauses and definitions: a copy must fit into a record */
    HOLDS_BYTES_MAX = 800000,
    HOLDS_DRAINED_MAX = 64, /* maximum of drained nodes; at least that of the nodes of a cluster */
};

/* First byte of the body of a note; 4 marks that of a member (roster.h). */
enum holds_form { HOLDS_CHANGE = 2, HOLDS_COPY = 3 };

enum holds_kind {
    HOLDS_PAUSE = 1,
    HOLDS_RESUME,
    HOLDS_MAINTAIN,
    HOLDS_END,
    HOLDS_RESET, /* closes the breakers of a target; an event that leaves the holds unchanged */
    HOLDS_DRAIN, /* INVALID if `witness` is drained: another drain came before */
    HOLDS_UNDRAIN,
    /* VERSION_MISMATCH if `version` of the definition is neither HOLDS_ANY_VERSION nor that of the
     * row; 0 means that there is no row. */
    HOLDS_DEFINE,
    HOLDS_UNDEFINE, /* likewise; NOT_FOUND if there is no row */
};

#define HOLDS_ANY_VERSION UINT64_MAX

struct holds_change {
    enum holds_kind kind;
    uint64_t ask;              /* number by which the node that appends the change recognizes it */
    struct wall at;            /* time of the request; pauses that ended before it are dropped */
    struct target_pause pause; /* PAUSE; RESUME, RESET: tenant and name; MAINTAIN: note */
    uint32_t node;             /* DRAIN, UNDRAIN: the node */
    uint32_t witness;          /* DRAIN: another node, which takes partitions */
    /* DEFINE: tenant, key and value; UNDEFINE: tenant and key; both: the expected version */
    struct definition definition;
    struct target_pauses *row_;          /* table that holds the texts of a decoded change */
    struct definitions *definition_row_; /* likewise */
};

struct holds {
    struct target_pauses *pauses;
    bool is_maintained;
    size_t note_size;
    char note[HOLDS_NOTE_SIZE_MAX];
    size_t drained_count;
    uint32_t drained[HOLDS_DRAINED_MAX]; /* ids of the drained nodes, ascending */
    struct definitions *definitions;
    uint64_t defined; /* number of definitions made so far; the version of the last one */
};

/* Begins without holds. Returns false if out of memory. */
bool holds_init(struct holds *holds);
void holds_deinit(struct holds *holds);

/* Returns equal holds, which share the tables. */
struct holds holds_share(const struct holds *holds);

enum error_code holds_apply(struct holds *holds, const struct holds_change *change);

bool holds_is_drained(const struct holds *holds, uint32_t node);

/* True if the body is a change, or a copy. */
bool holds_is_form(struct bytes body, enum holds_form form);

/* Appends the body of a note; check buffer_failed for lack of memory. */
void holds_change_encode(const struct holds_change *change, struct buffer *to);
void holds_encode(const struct holds *holds, uint64_t read_to, struct buffer *to);

enum error_code holds_change_decode(struct bytes body, struct holds_change *ret_change);
void holds_change_deinit(struct holds_change *change);

/* Decodes a copy. It contains the changes at offsets below `ret_read_to`. */
enum error_code holds_decode(struct bytes body, struct holds *ret_holds, uint64_t *ret_read_to);

#endif
