/*
 * replica_private.h - what the files of a replica share.
 *
 *   replica.c        the log, the storage and the commits of the engine
 *   replica_copy.c   a copy of another node, in place of the beginning of the log
 */
#ifndef TICKWHEEL_CLUSTER_REPLICA_PRIVATE_H
#define TICKWHEEL_CLUSTER_REPLICA_PRIVATE_H

#include "cluster/replica.h"

/* The records of the log that are read. */
enum replica_reading {
    REPLICA_FOLLOWS,
    REPLICA_SEEKS,   /* its first record, to see where it begins */
    REPLICA_EMPTIES, /* nothing, until the partition is emptied, to begin at `first` */
    REPLICA_COPIES,  /* nothing, until the last page of a copy has come */
};

struct replica {
    struct replica_options options;
    struct replica_events events;
    struct ownership own;
    struct random random;
    enum ownership_state told; /* the state that the events have told */
    bool has_engine;           /* from `begin` to replica_left */
    bool is_leaving;           /* `leave` was told */
    bool is_planned;
    uint32_t planned;
    uint64_t applied, refused;
    struct buffer part; /* of a commit that was read, whose last frame is not there yet */
    struct error error;

    enum replica_reading reading;
    struct storage_place first; /* of REPLICA_EMPTIES; of REPLICA_COPIES: that of its first page */
    uint64_t copy_end;          /* not 0: rows are not those of one place until it is read */
    bool has_copied;            /* a copy has ended, or was given up */
    bool has_ended;             /* the end of the log was reached */
    struct sweep_log log;
    struct replica_stats stats;

    /* As owner. */
    struct sweep sweep;
    bool is_sweep, was_sweep; /* the body is a part of the sweep; so was the one before */
    bool is_sweep_landed;     /* that one is durable, and `sweep_part_at` is not set yet */
    struct instant sweep_sent_at, sweep_part_at; /* of that one; of the next one, at the earliest */
    uint64_t sweep_log_bytes;                    /* of the log when the sweep began */
    uint64_t trim;      /* as the log has it; and asked for, if is_trimmed */
    uint64_t trim_next; /* own reading has come so far: it misses nothing */
    bool is_trimmed;
    struct instant trim_at, sweep_at;

    /* A storage that failed: nothing more is read before its place is loaded. */
    bool is_failing, is_rewound;
    bool has_failed; /* by the storage, and not only because the partition is to be emptied */
    struct instant retry_at;

    /* The append in flight. Tickets rise for ever, so that an answer to one of an ownership before
     * is not mistaken. */
    uint64_t ticket, own_ticket; /* ours and the ownership's; own_ticket 0: none is in flight */
    struct buffer sent;
    size_t sent_frames; /* in it */

    struct list waiting;         /* batches */
    size_t staged;               /* messages in the open transaction, which their outcomes end */
    size_t messages_waiting;     /* outcomes of messages in the batches that wait */
    struct list committing;      /* those of the commit in flight */
    bool is_transaction;         /* it is one */
    struct buffer body;          /* theirs, or a part of a sweep */
    size_t body_sent, part_size; /* of it: in frames that are durable; in the frame in flight */
};

/* ---- replica.c ---- */

/* Follows the log from this place on, as nothing but a reader. */
void replica_begin_ownership(struct replica *replica, const struct storage_place *place,
                             struct instant now);

#endif
