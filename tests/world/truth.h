/*
 * truth.h - the promises of a cluster, checked in a simulated one.
 *
 * The judge sees the log itself, and everything that leaves a node. It has rules of its own on
 * which records are valid, and remembers of each timer what clients were told and what was
 * delivered. A broken promise is printed, and ends the program.
 */
#ifndef TICKWHEEL_WORLD_TRUTH_H
#define TICKWHEEL_WORLD_TRUTH_H

#include "content.h"
#include "mirror.h"

struct world;

enum {
    RECORDS_MAX = 8000, /* of the log of a run */
    TRACKED_MAX = 8192, /* timers of a run; a power of two */
    VERDICT_MAX = 6000, /* commits that were answered as failed */
    HASH_EVERY = 16,    /* records after which replicas are compared */
};

/* A timer, as far as it was seen outside of the nodes. */
struct tracked {
    uint64_t serial;                    /* 0: the place is free */
    bool is_acked;                      /* its create was answered */
    bool is_cancel_asked, is_cancelled; /* and answered */
    uint32_t ended_version;             /* of its last end that an owner was told of; 0: none */
    bool is_loose;     /* its times may change in other ways than by patches that are answered */
    bool is_out;       /* its delivery in `out_epoch` is not back */
    bool is_once;      /* its message is committed with its end */
    uint32_t messages; /* that are committed */
    uint32_t patches_open;    /* asked, and not answered for certain */
    uint32_t version_acked;   /* at least */
    uint32_t version_patched; /* the highest of a patch that was answered; 0: none */
    struct wall due;          /* as answered last */
    uint64_t delivered_in;    /* the epoch of the last delivery */
    uint32_t deliveries;
};

struct truth {
    struct world *world;
    uint64_t size; /* of the log */
    uint64_t epoch, incarnation, seq;
    uint32_t node;
    bool is_released;
    bool is_cancelled_by_name; /* some call cancelled the timers with a name */
    struct mirror mirror;
    struct {
        uint64_t epoch, seq, hash;
        bool is_valid;
        struct frame frame; /* borrowed */
    } records[RECORDS_MAX];
    struct tracked tracked[TRACKED_MAX];
    size_t tracked_count;
    struct {
        uint64_t epoch, seq;
    } failed[VERDICT_MAX];
    size_t failed_count;
    uint64_t zombies, repeats, duplicates;
};

/* A record lands at the end of the log. Its body stays where it is until the end. */
void truth_land(struct truth *truth, const struct frame *frame);

/* What lies there is no record, or was aborted. */
void truth_skip(struct truth *truth);

/* The message of the timer is in its topic. */
void truth_message(struct truth *truth, uint64_t serial);

/* A node has read all records before `next`, and its storage has what they say. */
void truth_storage(const struct truth *truth, uint64_t next, struct storage *storage);

/* A node answers a commit: as durable, after its storage has it with all records before `next`; or
 * as failed. `frames` are the heads of its frames. */
void truth_durable(const struct truth *truth, const struct frame *frames, size_t count,
                   uint64_t next);
void truth_failed(struct truth *truth, const struct frame *frame);

/* Records before `before` are to go: what is left says all that the log does. */
void truth_trim(const struct truth *truth, uint64_t before);

/* What is known of the timer. */
struct tracked *truth_track(struct truth *truth, uint64_t serial);

/* A batch is durable, as its engine is told. */
void truth_batch(struct truth *truth, const struct storage_batch *batch);

/* A client is told: its timer is there; its patch is done; its cancel is. */
void truth_created(struct truth *truth, const struct timer_id *id, const struct content *asked);
void truth_patched(struct truth *truth, const struct timer *timer);
void truth_cancelled(struct truth *truth, const struct timer_id *id);

/* A client is shown a timer, NULL: that there is none. It had been told of `version` when it
 * asked. */
void truth_read(struct truth *truth, const struct timer_id *id, const struct timer *timer,
                uint32_t version);

/* A delivery begins by the owner of this epoch, whose wall clock has shown `now`; it is back. */
void truth_deliver(struct truth *truth, uint64_t epoch, struct wall now, const struct timer *timer);
void truth_delivered(struct truth *truth, uint64_t epoch, uint64_t serial);

/* After a calm time: what was answered and was due `before` is delivered or cancelled, and the
 * storage says so. */
void truth_end(struct truth *truth, struct wall before);

#endif
