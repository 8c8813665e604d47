/*
 * truth.h - judges a run of several nodes: the log itself, and all that leaves a node. It has its
 * own rules on which records are valid, and keeps of each timer what clients were told and what was
 * delivered. A broken promise ends the program.
 */
#ifndef TICKWHEEL_WORLD_TRUTH_H
#define TICKWHEEL_WORLD_TRUTH_H

#include "cluster/ownership.h"
#include "content.h"
#include "mirror.h"

struct world;

enum {
    RECORDS_MAX = 8000, /* records of a log */
    TRACKED_MAX = 8192, /* timers of a run; a power of two */
    VERDICT_MAX = 6000, /* commits that were answered as failed */
    HASH_EVERY = 16,    /* records after which replicas are compared */
    MADE_MAX = 4096,
};

/* A timer, as far as it was seen outside of the nodes. */
struct tracked {
    uint64_t serial;          /* serial of the timer; 0 in a free place */
    bool is_acked;            /* whether its create was answered */
    bool is_cancel_asked;     /* whether a client asked for its cancel */
    bool is_cancelled;        /* whether that was answered with success */
    bool is_loose;            /* whether more than answered patches may change its times */
    bool is_moved;            /* whether a call by its id may have changed its due time */
    bool is_out;              /* whether its delivery in `delivered_in` is not back */
    bool is_once;             /* whether its message is committed with its end */
    uint32_t messages;        /* messages that are committed */
    uint32_t patches_open;    /* patches without an answer, or with an unclear one */
    uint32_t ended_version;   /* version of its last end that an owner was told of; 0 for none */
    uint64_t ended_in;        /* epoch of that owner */
    uint32_t version_acked;   /* highest version that a client was told of */
    uint32_t version_patched; /* highest version that an answered patch made; 0 for none */
    struct wall due;          /* due time as answered last */
    struct wall ripe;         /* time at which it was moved to one that was over; 0 if it was not */
    uint64_t delivered_in;    /* epoch of the last delivery */
    uint32_t deliveries;
};

struct truth {
    struct world *world;
    uint64_t size; /* records of the log that are decided */
    uint64_t epoch, incarnation, seq;
    uint32_t node;
    bool has_acted;
    bool is_cancelled_by_name; /* whether any call cancelled timers by a name */
    bool is_moved_by_name;     /* whether any call changed due times by a name */
    struct mirror mirror;
    struct {
        uint64_t epoch, seq, hash;
        bool is_valid;
        bool is_told;       /* a node took the commit as durable */
        struct frame frame; /* borrowed */
    } records[RECORDS_MAX];
    struct tracked tracked[TRACKED_MAX];
    size_t tracked_count;
    struct {
        uint64_t epoch, seq;
    } failed[VERDICT_MAX];
    size_t failed_count;
    /* timers that an engine made beside others, as delivered: firings that may overlap, and parts:
     * whose, the due time or the sum of the target, and that timer */
    struct {
        uint64_t of, what, serial;
        uint64_t size; /* size of the log when the judge first saw it */
    } made[MADE_MAX];
    size_t made_count;
    uint64_t zombies, repeats, duplicates;
};

/* Takes the next record of the log. The body of the frame is borrowed until the end of the run. */
void truth_land(struct truth *truth, const struct frame *frame);

/* Takes the next offset, which has a marker or an aborted record. */
void truth_skip(struct truth *truth);

/* Drops the last records, so that `size` are left, and forgets what they said. If it may not lose,
 * none of them was told to be durable. */
void truth_cut(struct truth *truth, uint64_t size, bool may_lose);

/* True if a node with this place has read what the log says now. */
bool truth_matches(const struct truth *truth, const struct ownership_place *place);

/* Takes the committed message of a timer. */
void truth_message(struct truth *truth, uint64_t serial);

/* Compares the storage of a node that has read all records before `next`. */
void truth_storage(const struct truth *truth, uint64_t next, struct storage *storage);

/* Judges a commit that a node reports as durable, with all records before `next` in its storage; or
 * as failed. `frames` are the heads of its frames. */
void truth_durable(struct truth *truth, const struct frame *frames, size_t count, uint64_t next);
void truth_failed(struct truth *truth, const struct frame *frame);

/* Judges a trim: the records from `before` on must say all that the log does. */
void truth_trim(const struct truth *truth, uint64_t before);

/* Returns what is known of the timer. */
struct tracked *truth_track(struct truth *truth, uint64_t serial);

/* Takes a batch of which its engine, of this epoch, is told that it is durable. */
void truth_batch(struct truth *truth, uint64_t epoch, const struct storage_batch *batch);

/* Judges an answer to a client: its timer is made, its patch or its cancel is done. */
void truth_created(struct truth *truth, const struct timer_id *id, const struct content *asked);
void truth_patched(struct truth *truth, const struct timer *timer);
void truth_cancelled(struct truth *truth, const struct timer_id *id);

/* Judges a timer that the owner of this epoch shows to a client, which knew of `version` when it
 * asked. NULL means that the timer is not there. While its lease lasts, the owner may lack what a
 * later owner has made durable, because that one answers nobody yet. */
void truth_read(struct truth *truth, uint64_t epoch, const struct timer_id *id,
                const struct timer *timer, uint32_t version);

/* Judges the begin of a delivery by the owner of this epoch. `now` is the latest time that its wall
 * clock has shown. truth_delivered takes the end. */
void truth_deliver(struct truth *truth, uint64_t epoch, struct wall now, const struct timer *timer);
void truth_delivered(struct truth *truth, uint64_t epoch, uint64_t serial);

/* Judges the end of a run without faults: what was answered, and was to act before this time, is
 * delivered or cancelled, and the log says so. */
void truth_end(struct truth *truth, struct wall before);

#endif
