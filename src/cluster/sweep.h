/*
 * sweep.h - copies of a partition in its own log, so that the records before them can be dropped.
 *
 * The owner appends a begin, copies of all its rows, and an end. A reader that has all rows passes
 * them over. An empty reader that begins with the begin of a sweep has all rows at its end: the
 * later of a row's copy and its last record counts.
 *
 * A record has its kind (1 byte), the offset of the begin (8), in an end the bytes of all rows (8),
 * and row operations (rowop.h), all puts.
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
    SWEEP_BYTES_MAX = 128 << 10, /* maximum size of a record, not counting its last row */
    SWEEP_RECORD_OVERHEAD = 70,  /* approximate bytes that a broker adds to a record */
};

/* ---- records ---- */

enum sweep_kind {
    SWEEP_BEGIN = 1,
    SWEEP_ROWS,
    SWEEP_END,
};

struct sweep_record {
    enum sweep_kind kind;
    uint64_t begin;    /* offset of the record that begins the sweep; 0 in that record */
    uint64_t bytes;    /* of END: size of all its rows */
    struct bytes rows; /* of ROWS: input of storage_apply */
};

/* Appends the record without its rows, which the caller appends. */
void sweep_encode(const struct sweep_record *record, struct buffer *to);

/* Decodes the body of a commit that is a part of a sweep; its rows borrow from the body. Returns
 * false if it is damaged. */
bool sweep_decode(struct bytes body, struct sweep_record *ret_record);

/* ---- what a reader knows of the log ---- */

struct sweep_log {
    uint64_t bytes;      /* approximate size from its first record on */
    uint64_t live_bytes; /* size of the copies of the last sweep */
    uint64_t
        /* if not 0, rows are missing until the end of the sweep that began before this offset */
        missing_end;
    uint64_t counted; /* offset before which records are counted in `bytes` */
    bool has_begin;   /* whether a begin was read */
    /* offset of the begin of the sweep, and value of `bytes` before it */
    uint64_t begin, begin_bytes;
    uint64_t trim; /* offset before which no record is needed: a later sweep has ended */
};

enum sweep_use {
    SWEEP_PASS,   /* it changes no rows */
    SWEEP_APPLY,  /* its rows are missing here */
    SWEEP_BROKEN, /* the sweep with the missing rows was not finished */
};

/* Initializes from a place. */
void sweep_log_init(struct sweep_log *log, const struct storage_place *place);

/* Counts the size of the record at this offset, once. */
void sweep_count(struct sweep_log *log, uint64_t offset, size_t size);

enum sweep_use sweep_read(struct sweep_log *log, uint64_t offset,
                          const struct sweep_record *record);

/* ---- the owner ---- */

struct sweep_limits {
    uint64_t log_bytes_min; /* 0 for no sweeps */
    uint64_t factor;        /* maximum ratio of the log to its live rows */
    size_t rows_max;        /* maximum of rows in a record; 0 means SWEEP_ROWS_MAX */
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
    uint64_t bytes_;     /* of the copies */
    uint64_t log_bytes_; /* approximate size of its records */
    struct storage_export export_;
};

bool sweep_is_due(const struct sweep_limits *limits, const struct sweep_log *log);

void sweep_start(struct sweep *sweep, const struct sweep_limits *limits, uint16_t partition);
void sweep_give_up(struct sweep *sweep);

static inline bool sweep_is_going(const struct sweep *sweep)
{
    return sweep->step_ != SWEEP_IDLE;
}

/* True if others have added more than half of what the sweep has, and a quarter of `log_bytes_min`,
 * since its begin: at that pace the log would be too long again when the sweep ends. */
bool sweep_is_slow(const struct sweep *sweep, const struct sweep_limits *limits,
                   const struct sweep_log *log);

/* Appends the body of the next record. Appends nothing if it is not ready: ask again. */
enum error_code sweep_next(struct sweep *sweep, struct storage *storage, struct buffer *to,
                           struct error *ret_error);

/* Notes that the record of sweep_next is durable, and was read into `log`. */
void sweep_advance(struct sweep *sweep, const struct sweep_log *log);

#endif
