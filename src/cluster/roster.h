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
 * A note is the body of a frame of kind note, with epoch and seq 0. A text is its size (1) and its
 * bytes:
 *
 *     1        form: 4
 *     texts    address for clients, address for nodes, zone
 *     4, 2, 2  clock less that of the brokers, milliseconds, signed; weight; load in thousandths
 *     2        count of partitions; for each: partition 2, role 1, offset that it reads next 8, and
 *              of an owner the live timers 8
 *     1, 1     0; count of tenants; for each: its name as a text, its live timers 8
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
    ROSTER_MAX = 64,               /* maximum of nodes of a cluster */
    ROSTER_PARTITIONS_MAX = 1024,  /* maximum of partitions of a cluster */
    ROSTER_ADDRESS_SIZE_MAX = 255, /* maximum size of a node's URL */
    ROSTER_ZONE_SIZE_MAX = 64,
    ROSTER_NAME_SIZE_MAX = 64,   /* maximum size of a tenant's name */
    ROSTER_COUNTS_MAX = 64,      /* maximum of tenants in a note */
    ROSTER_WEIGHT_MAX = 1000,    /* a node of weight 2 gets twice the partitions of one of 1 */
    ROSTER_NOTES_MISSED_MAX = 5, /* notes of the planner after the last note of a dead node */
    /* number of notes that a planner counts as having missed when another node claims its place */
    ROSTER_NOTES_OF_CLAIM = 3,
    /* notes of the planner after which a dead node leaves the table */
    ROSTER_NOTES_FORGOTTEN = 1200,
};

/* Role of a node for a partition. */
enum roster_role {
    ROSTER_ABSENT,    /* has nothing of it; not in notes */
    ROSTER_RESTORING, /* reads the log up to its end */
    ROSTER_STANDBY,   /* follows the log */
    ROSTER_OWNER,     /* its claim is the last valid one */
    ROSTER_BROKEN,    /* its log has lost records, by this node's judgement */
};

struct roster_place {
    uint16_t partition;
    enum roster_role role;
    uint64_t next;    /* offset of the record to read next */
    uint64_t pending; /* live timers of an OWNER; otherwise 0 */
};

struct roster_tally {
    struct bytes name;
    uint64_t count;
};

struct roster_note {
    struct bytes address;          /* address for clients */
    struct bytes internal_address; /* address for other nodes */
    struct bytes zone;             /* empty if none is set */
    int32_t clock_offset_ms;       /* its clock less the brokers' clock */
    uint16_t weight;               /* 0 to ROSTER_WEIGHT_MAX; 0 if it stops and must own nothing */
    uint16_t load;                 /* used part of the time of its shards, in thousandths */
    size_t place_count;
    struct roster_place places[ROSTER_PARTITIONS_MAX]; /* partitions rise */
    size_t tenant_count;
    /* Live timers of the partitions that it owns. If the array is full, tenants are missing. */
    struct roster_tally tenants[ROSTER_COUNTS_MAX]; /* names rise */
};

/* Appends the body of a note. The caller ensures bounds and orders. */
void roster_note_encode(const struct roster_note *note, struct buffer *to);

/* Decodes all of the body. Each note has one encoding; any other is damage. */
enum error_code roster_note_decode(struct bytes body, struct roster_note *ret_note,
                                   struct error *ret_error);

/* A tally in the table. */
struct roster_count {
    uint64_t count;
    uint8_t name_size;
    char name[ROSTER_NAME_SIZE_MAX];
};

struct roster_member {
    uint32_t node;
    uint64_t incarnation;
    uint64_t incarnation_before; /* incarnation that this one replaced; 0 if none */
    uint64_t heard;              /* planners' notes in the log up to its last note */
    char address[ROSTER_ADDRESS_SIZE_MAX + 1];
    char internal_address[ROSTER_ADDRESS_SIZE_MAX + 1];
    char zone[ROSTER_ZONE_SIZE_MAX + 1];
    int32_t clock_offset_ms;
    uint16_t weight, load;
    /* Standing by partition. `before` is the position in the note before the last one, if its
     * node was the owner in both: a lower bound of the log's end then. UINT64_MAX if unknown. */
    struct roster_standing {
        uint64_t next, before;
        enum roster_role role;
    } * standings;
    /* Tenants of its last note that owned partitions, and the live timers of those partitions in
     * all. */
    size_t tenant_count;
    struct roster_count *tenants;
    uint64_t pending;
};

/* Last note of an owner of the partition, even of a former one. */
struct roster_owned {
    uint32_t node; /* 0 if there was none */
    uint64_t pending;
};

struct roster;

/* Returns NULL if out of memory. */
struct roster *roster_create(uint16_t partition_count);

/* NULL is allowed. */
void roster_destroy(struct roster *roster);

/* Takes a note, in the order of the log. `planner` is the node that owns the control partition
 * by the records before it; 0 if none does. A note of a replaced incarnation changes nothing. On
 * failure nothing changes. */
enum error_code roster_read(struct roster *roster, const struct frame *frame, uint32_t planner,
                            struct error *ret_error);

/* Notes that another node took this planner's place by a claim, without a release. */
void roster_supersede(struct roster *roster, uint32_t planner);

uint16_t roster_partition_count(const struct roster *roster);

/* Returns the members sorted by node, dead ones included until they are forgotten. */
size_t roster_count(const struct roster *roster);
const struct roster_member *roster_at(const struct roster *roster, size_t index);

/* Returns NULL if there is no such member. */
const struct roster_member *roster_find(const struct roster *roster, uint32_t node);

const struct roster_owned *roster_owned(const struct roster *roster, uint16_t partition);

bool roster_is_alive(const struct roster *roster, const struct roster_member *member);

/* Returns the number of planners' notes after its last note. */
uint64_t roster_missed(const struct roster *roster, const struct roster_member *member);

#endif
