/*
 * sweep.h - copies of a partition in its own log, so that the records before them can be dropped.
 *
 * The owner appends a begin, copies of all its rows, and an end. A reader that has all rows passes
 * them over. An empty reader that begins with the begin of a sweep has all rows at its end:
 * docs/cluster-design.md says why.
 *
 *     if (sweep_is_due(&limits, &log))
 *         sweep_start(&sweep, &limits, partition);
 *     while (sweep_is_going(&sweep)) {
 *         sweep_next(&sweep, storage, &body, &error);   nothing else is in flight
 *         ... when the body is durable, and each reader has it ...
 *         sweep_advance(&sweep, &log);
 *     }
 *
 *     sweep_count(&log, offset, size);                  each reader, for each record
 *     if (sweep_decode(body, &record))
 *         use = sweep_read(&log, offset, &record);      of a commit with the flag of a sweep
 *
 * Errors     As storage_export. A sweep that failed, or whose owner changed, is begun anew.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_CLUSTER_SWEEP_H
#define TICKWHEEL_CLUSTER_SWEEP_H

#include "store/storage.h"

enum {
    SWEEP_ROWS_MAX = 512,
    SWEEP_BYTES_MAX = 128 << 10, /* of one record, and a row more */
    SWEEP_RECORD_OVERHEAD = 70,  /* bytes that a broker adds to a record, about */
};

/* ---- records ---- */

enum sweep_kind {
    SWEEP_BEGIN = 1,
    SWEEP_ROWS,
    SWEEP_END,
};

struct sweep_record {
    enum sweep_kind kind;
    uint64_t begin;    /* offset of the record that begins the sweep; 0 in that one */
    uint64_t bytes;    /* of END: those of all its rows */
    struct bytes rows; /* of ROWS: what storage_apply takes */
};

/* Appends the record but for its rows, which the caller appends. */
void sweep_encode(const struct sweep_record *record, struct buffer *to);

/* Reads the body of a commit that is a part of a sweep; its rows borrow from it. False: damaged. */
bool sweep_decode(struct bytes body, struct sweep_record *ret_record);

/* ---- what a reader knows of the log ---- */

struct sweep_log {
    uint64_t bytes;      /* from its first record on, about */
    uint64_t live_bytes; /* of the copies of the last sweep */
    uint64_t
        missing_end;  /* not 0: rows are missing until the sweep ends that began in front of it */
    uint64_t counted; /* records before this offset are in `bytes` */
    bool has_begin;   /* a begin was read since */
    uint64_t begin, begin_bytes; /* its offset, and `bytes` in front of it */
    uint64_t trim; /* records before this offset are not needed: a sweep from here has ended */
};

enum sweep_use {
    SWEEP_PASS,   /* it changes no row */
    SWEEP_APPLY,  /* its rows are missing here */
    SWEEP_BROKEN, /* the sweep whose rows are missing was not finished */
};

/* As a place says it. */
void sweep_log_init(struct sweep_log *log, const struct storage_place *place);

/* Counts the bytes of the record at this offset, once. */
void sweep_count(struct sweep_log *log, uint64_t offset, size_t size);

enum sweep_use sweep_read(struct sweep_log *log, uint64_t offset,
                          const struct sweep_record *record);

/* ---- the owner ---- */

struct sweep_limits {
    uint64_t log_bytes_min; /* 0: no sweeps */
    uint64_t factor;        /* of the log to the live rows */
    size_t rows_max;        /* of one record; 0: SWEEP_ROWS_MAX */
};

enum sweep_step {
    SWEEP_IDLE,
    SWEEP_BEGINS,
    SWEEP_COPIES,
    SWEEP_ENDS,
};

struct sweep {
    enum sweep_step step_;
    uint64_t begin_;
    uint64_t bytes_;
    struct storage_export export_;
};

bool sweep_is_due(const struct sweep_limits *limits, const struct sweep_log *log);

void sweep_start(struct sweep *sweep, const struct sweep_limits *limits, uint16_t partition);
void sweep_give_up(struct sweep *sweep);

static inline bool sweep_is_going(const struct sweep *sweep)
{
    return sweep->step_ != SWEEP_IDLE;
}

/* Appends the body of its next record; nothing when none is ready yet: ask again. */
enum error_code sweep_next(struct sweep *sweep, struct storage *storage, struct buffer *to,
                           struct error *ret_error);

/* The record that sweep_next gave is durable, and was read into `log`. */
void sweep_advance(struct sweep *sweep, const struct sweep_log *log);

#endif
