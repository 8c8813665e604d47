/*
 * storage.h - durable timers: commit a batch, scan a window in due order, find one.
 *
 * A backend keeps one ordered table of timers by position (partition, at, serial). It knows nothing
 * of clocks, wheels and targets. Backends: rocksdb.h (embedded, the default) and memory.h
 * (simulation and tests).
 *
 * What a commit writes follows from each timer alone:
 *   alive, was_at 0       a new row at (partition, at, serial)
 *   alive, was_at == at   the row is replaced
 *   alive, was_at != at   the row moves there; a timer away from id.first has a second row, which
 *                         says where it is
 *   over, was_at not 0    the row stays where it is (was_at) as a short final record without
 *                         payload, headers and content type, until trim passes it
 *   over, was_at 0        the same at id.first: over before it was ever written
 * Positions are from 1 up to, not including, 2^48 - 1 milliseconds.
 *
 * Errors     ERROR_IO (storage failed; nothing of the batch may be relied on), ERROR_NO_MEMORY,
 *            ERROR_DISK_FULL. The same call may be made again, and succeeds when the cause is gone.
 *            A damaged record is no error: it is set aside, counted, and passed over.
 * Ownership  Timers in a batch are borrowed until the call returns; found and scanned timers are
 *            the caller's to free.
 * Threads    storage_commit from one thread at a time. storage_find, storage_scan and storage_stats
 *            from any thread at any time; they see every commit that has returned.
 */
#ifndef TICKWHEEL_STORAGE_STORAGE_H
#define TICKWHEEL_STORAGE_STORAGE_H

#include "storage/timer.h"

/* A position in due order. Rows at or after it come next. */
struct storage_position {
    struct wall at;
    uint64_t serial;
};

static inline bool storage_position_before(struct storage_position a, struct storage_position b)
{
    return a.at.ms < b.at.ms || (a.at.ms == b.at.ms && a.serial < b.serial);
}

/* What is kept beside a partition's timers, written with each of its batches. All zero when new. */
struct storage_meta {
    uint64_t epoch;        /* how often the partition was opened */
    struct wall watermark; /* no live timer lies before it: recovery scans from here */
    struct wall trim;      /* final records before it are dropped, as one range */
    uint64_t pending;      /* live timers; counted by the storage, not taken from a batch */
};

struct storage_write {
    struct timer *timer;
    struct wall was_at; /* the position of its row before this write; 0 when it has none */
};

/* The changes of one partition that become durable together, or not at all. First its writes, in
 * order, then the trim of its meta: rows before it are dropped, of which none may be alive. A trim
 * that goes down drops nothing; the next one that rises drops from there on. */
struct storage_batch {
    struct list link; /* the holder's */
    uint16_t partition;
    struct storage_meta meta;
    struct storage_write *writes;
    size_t write_count;
    enum error_code result; /* set by who commits, for who is told */
};

/* Which rows a scan returns. */
enum storage_scan_kind {
    STORAGE_SCAN_LIVE, /* skips what is over */
    STORAGE_SCAN_ALL,  /* final records too, while they are kept */
};

struct storage_scan {
    uint16_t partition;
    enum storage_scan_kind kind;
    struct storage_position from; /* the first position wanted */
    struct storage_position to;   /* the first position not wanted */
    size_t rows_max;              /* at most so many rows (1 ..) */
    size_t bytes_max;             /* stop after the row that reaches so many bytes of footprint */
};

struct storage_page {
    struct timer **timers; /* in order of position; array and timers are the caller's */
    size_t count;
    struct storage_position next; /* where to go on; scan.to when the range is finished */
};

struct storage_stats {
    uint64_t corrupt_records; /* set aside since the data folder was made */
    uint64_t disk_bytes;      /* estimate of what the backend's files take */
    uint64_t disk_free_bytes; /* on its file system; UINT64_MAX when there is none */
    uint64_t memory_bytes;    /* estimate: caches and write buffers */
};

/* A backend fills this in; callers use the functions below. */
struct storage {
    const struct storage_ops *ops;
};

struct storage_ops {
    enum error_code (*commit)(struct storage *, struct storage_batch *const *batches, size_t count,
                              struct error *ret_error);
    enum error_code (*scan)(struct storage *, const struct storage_scan *, struct storage_page *,
                            struct error *ret_error);
    enum error_code (*find)(struct storage *, const struct timer_id *, struct timer **,
                            struct error *ret_error);
    enum error_code (*load_meta)(struct storage *, uint16_t partition, struct storage_meta *,
                                 struct error *ret_error);
    void (*stats)(struct storage *, struct storage_stats *);
    void (*close)(struct storage *);
};

/* Makes all batches durable, in order, with one synced write; when it returns ERROR_NONE they
 * survive power loss. */
static inline enum error_code storage_commit(struct storage *storage,
                                             struct storage_batch *const *batches, size_t count,
                                             struct error *ret_error)
{
    return storage->ops->commit(storage, batches, count, ret_error);
}

/* Reads the next page of [from, to). Page by page from `next`, each row is seen once; a page may be
 * short or empty and yet not the last. Sets `at` and private_.was_at as storage_find does. */
static inline enum error_code storage_scan(struct storage *storage, const struct storage_scan *scan,
                                           struct storage_page *ret_page, struct error *ret_error)
{
    return storage->ops->scan(storage, scan, ret_page, ret_error);
}

/* The timer with this id, alive or over; ERROR_NOT_FOUND when it never was or is forgotten, and
 * ERROR_CORRUPT when its record is damaged or was set aside. Sets `at` and private_.was_at to the
 * position of its row. */
static inline enum error_code storage_find(struct storage *storage, const struct timer_id *id,
                                           struct timer **ret_timer, struct error *ret_error)
{
    return storage->ops->find(storage, id, ret_timer, ret_error);
}

static inline enum error_code storage_load_meta(struct storage *storage, uint16_t partition,
                                                struct storage_meta *ret_meta,
                                                struct error *ret_error)
{
    return storage->ops->load_meta(storage, partition, ret_meta, ret_error);
}

static inline void storage_stats(struct storage *storage, struct storage_stats *ret_stats)
{
    storage->ops->stats(storage, ret_stats);
}

static inline void storage_close(struct storage *storage)
{
    if (storage)
        storage->ops->close(storage);
}

/* Frees the timers of a page and its array. */
void storage_page_free(struct storage_page *page);

#endif
