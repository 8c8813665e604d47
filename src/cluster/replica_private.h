/*
 * replica_private.h - what the files of a replica share.
 *
 *   replica.c        the log, the storage and the commits of the engine
 *   replica_copy.c   a copy of another node, in place of the beginning of the log
 *   replica_query.c  what it tells of itself
 */
#ifndef TICKWHEEL_CLUSTER_REPLICA_PRIVATE_H
#define TICKWHEEL_CLUSTER_REPLICA_PRIVATE_H

#include "cluster/replica.h"

enum { REPLICA_STORAGE_PAUSE_MS = 100 }; /* interval of checks of a failed storage */

/* Which records of the log are read. */
enum replica_reading {
    REPLICA_FOLLOWS,
    REPLICA_SEEKS,   /* the first record, to see where the log begins */
    REPLICA_EMPTIES, /* none until the partition is emptied, to begin at `first` */
    REPLICA_COPIES,  /* none until the last page of a copy has come */
};

struct replica {
    struct replica_options options;
    struct replica_events events;
    struct ownership own;
    struct random random;
    enum ownership_state told; /* state last reported by the events */
    bool has_engine;           /* from `begin` to replica_left */
    bool is_leaving;           /* whether `leave` was called */
    bool is_planned;
    uint32_t planned;
    uint64_t applied, refused;
    struct buffer part; /* frames of a commit whose last frame has not been read */
    struct error error;

    enum replica_reading reading;
    /* begin of REPLICA_EMPTIES; place of the first page of REPLICA_COPIES */
    struct storage_place first;
    /* offset up to which rows belong to several places; 0 if they belong to one */
    uint64_t copy_end;
    struct storage_place copy_last; /* place of the last page, if copy_end is not 0 */
    bool has_copied;                /* whether a copy has ended or was given up */
    bool has_ended;                 /* whether the end of the log was reached */
    /* no record was read since the place was loaded, which says what the one before it was */
    bool is_at_place;
    /* The log lacked the next record, and begins before it: the place is loaded again, and the
     * first record read must be the one before it. Set until a later record, or the end, is read */
    bool is_again;
    bool has_before; /* whether that record was read */
    struct sweep_log log;
    struct replica_stats stats;

    /* As owner. */
    struct sweep sweep;
    bool is_sweep, was_sweep; /* whether the body, and the one before, is a part of the sweep */
    bool is_sweep_landed;     /* that part is durable, but `sweep_part_at` is not set yet */
    /* time of that part; earliest time of the next one */
    struct instant sweep_sent_at, sweep_part_at;
    /* offset before which the log may drop records: a copy of log.trim; requested if is_trimmed */
    uint64_t trim;
    uint64_t trim_next; /* offset that this replica must have read before the trim */
    bool is_trimmed;
    struct instant trim_at, sweep_at;

    /* The storage failed: nothing more is read before its place has been loaded. */
    bool is_failing, is_rewound;
    /* whether is_failing is set because the storage failed, and not only to empty the partition */
    bool has_failed;
    struct instant retry_at;

    /* The append in flight. Tickets always rise, so that late answers of an earlier ownership
     * are recognized. */
    /* tickets of the append in flight: the replica's and the ownership's; own_ticket is 0 if
     * none */
    uint64_t ticket, own_ticket;
    struct buffer sent;
    size_t sent_frames;     /* in it */
    struct frame last_sent; /* last frame of the append; its body is in `sent` */

    struct list waiting;     /* batches */
    size_t staged;           /* messages in the open transaction that have no outcome yet */
    size_t messages_waiting; /* outcomes of messages in the waiting batches */
    struct list committing;  /* batches of the commit in flight */
    bool is_transaction;     /* whether that commit is a transaction */
    struct buffer body;      /* body of that commit, or a part of a sweep */
    /* size of its part in durable frames, and in the frame in flight */
    size_t body_sent, part_size;
};

/* ---- replica.c ---- */

/* Follows the log from this place on, only as a reader. */
void replica_begin_ownership(struct replica *replica, const struct storage_place *place,
                             struct instant now);

/* Empties the partition, and begins at the first record of the log. */
void replica_start_over(struct replica *replica);

#endif
