/*
 * roster.h - the members of a cluster, as their notes in the control topic tell of them.
 *
 * Each node appends a note every half second: where it is reached, how far it has read each
 * partition, how loaded it is. Every node reads all notes in the order of the log, and so has the
 * table of members that every other node has at that place:
 *
 *     if (frame.kind == FRAME_NOTE)
 *         roster_read(roster, &frame, ownership_place(&control)->owner, &error);
 *     if (roster_is_alive(roster, member)) ...
 *
 * A node is dead when ROSTER_NOTES_MISSED_MAX notes of the planner lie in the log behind its last
 * one. That is measured by the log and by no clock: a log that stands still kills no node. A
 * planner that was replaced without a release has been silent for longer than three notes take:
 * the claim of the next one counts as so many behind its last.
 *
 * Time       roster_read is O(partitions) of the note. No clock.
 * Errors     ERROR_CORRUPT: the note is damaged. ERROR_TOO_MANY: ROSTER_MAX nodes are alive.
 * Ownership  A decoded note borrows its texts from the bytes; the table keeps copies.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_CLUSTER_ROSTER_H
#define TICKWHEEL_CLUSTER_ROSTER_H

#include "cluster/frame.h"

enum {
    ROSTER_MAX = 64,               /* nodes of a cluster */
    ROSTER_PARTITIONS_MAX = 1024,  /* of a cluster */
    ROSTER_ADDRESS_SIZE_MAX = 255, /* a URL of a node */
    ROSTER_ZONE_SIZE_MAX = 64,
    ROSTER_NAME_SIZE_MAX = 129,    /* of a tenant, or of a queue with its tenant */
    ROSTER_COUNTS_MAX = 64,        /* queues, and tenants, in a note */
    ROSTER_WEIGHT_MAX = 1000,      /* a node of weight 2 gets twice the partitions of one of 1 */
    ROSTER_NOTES_MISSED_MAX = 5,   /* of the planner, behind the last note of a dead node */
    ROSTER_NOTES_OF_CLAIM = 3,     /* that the claim of another planner counts for the one before */
    ROSTER_NOTES_FORGOTTEN = 1200, /* of the planner; then a dead node leaves the table */
};

/* What a node does with a partition. */
enum roster_role {
    ROSTER_ABSENT,    /* has nothing of it; not in a note */
    ROSTER_RESTORING, /* reads what the log has */
    ROSTER_STANDBY,   /* follows the log */
    ROSTER_OWNER,     /* its claim is the last valid one */
    ROSTER_BROKEN,    /* the log has lost records of it, as this node sees it */
};

struct roster_place {
    uint16_t partition;
    enum roster_role role;
    uint64_t next;    /* the offset of the record that it reads next */
    uint64_t pending; /* of an OWNER: live timers; of others 0 */
};

struct roster_tally {
    struct bytes name;
    uint64_t count;
};

struct roster_note {
    struct bytes address;          /* where clients reach the node */
    struct bytes internal_address; /* where nodes reach it */
    struct bytes zone;             /* empty: the operator gave none */
    int32_t clock_offset_ms;       /* its clock less that of the brokers */
    uint16_t weight; /* 0 to ROSTER_WEIGHT_MAX; 0: it is to own nothing, for it stops */
    uint16_t load;   /* parts in 1,000 of the time of its shards that are used */
    size_t place_count;
    struct roster_place places[ROSTER_PARTITIONS_MAX]; /* partitions rise */
    size_t ready_count;
    struct roster_tally ready[ROSTER_COUNTS_MAX]; /* items of queues; names rise */
    size_t tenant_count;
    /* Live timers of the partitions that it owns. As many as there may be: not of all tenants. */
    struct roster_tally tenants[ROSTER_COUNTS_MAX]; /* names rise */
};

/* Appends the body of a note. The caller keeps the bounds and the orders. */
void roster_note_encode(const struct roster_note *note, struct buffer *to);

/* Reads all of the body. A note has one encoding: others are damage. */
enum error_code roster_note_decode(struct bytes body, struct roster_note *ret_note,
                                   struct error *ret_error);

/* A tally that the table keeps. */
struct roster_count {
    uint64_t count;
    uint8_t name_size;
    char name[ROSTER_NAME_SIZE_MAX];
};

struct roster_member {
    uint32_t node;
    uint64_t incarnation;
    uint64_t incarnation_before; /* which this one replaced; 0: none */
    uint64_t heard;              /* notes of planners in the log up to its last note */
    char address[ROSTER_ADDRESS_SIZE_MAX + 1];
    char internal_address[ROSTER_ADDRESS_SIZE_MAX + 1];
    char zone[ROSTER_ZONE_SIZE_MAX + 1];
    int32_t clock_offset_ms;
    uint16_t weight, load;
    /* By partition. `before` is what the note before the last one said, if its node was the owner
     * in both: how far the log was at least then. UINT64_MAX: not known. */
    struct roster_standing {
        uint64_t next, before;
        enum roster_role role;
    } * standings;
    /* Of the tenants, by its last note that owned partitions; and the live timers that these had in
     * all. */
    size_t tenant_count;
    struct roster_count *tenants;
    uint64_t pending;
};

/* The last note of an owner of the partition, also of a former one. */
struct roster_owned {
    uint32_t node; /* 0: there was none */
    uint64_t pending;
};

struct roster;

/* NULL when out of memory. */
struct roster *roster_create(uint16_t partition_count);

/* NULL is fine. */
void roster_destroy(struct roster *roster);

/* Takes a note in the order of the log. `planner` is the node that owns the control partition by
 * the records before it; 0 while no node does. A note of an incarnation that another one has
 * replaced changes nothing. On failure nothing is changed. */
enum error_code roster_read(struct roster *roster, const struct frame *frame, uint32_t planner,
                            struct error *ret_error);

/* Another node took the place of this planner, by a claim in the log, and without a release. */
void roster_supersede(struct roster *roster, uint32_t planner);

uint16_t roster_partition_count(const struct roster *roster);

/* The members in order of their nodes, dead ones too until they are forgotten. */
size_t roster_count(const struct roster *roster);
const struct roster_member *roster_at(const struct roster *roster, size_t index);

/* NULL: there is no such member. */
const struct roster_member *roster_find(const struct roster *roster, uint32_t node);

const struct roster_owned *roster_owned(const struct roster *roster, uint16_t partition);

bool roster_is_alive(const struct roster *roster, const struct roster_member *member);

/* Notes of planners behind its last note. */
uint64_t roster_missed(const struct roster *roster, const struct roster_member *member);

#endif
